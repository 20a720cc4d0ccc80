//! Statistics of buckets over time.

use super::super::tally::{share, varies};
use super::buckets::Bucket;
use super::{
    COMPLETE, Correlation, ENOUGH, FEW, PLACES, Percentiles, SECOND, Spread, Volume, WIDTHS,
};

/// 1 - reduced / original.
pub(super) fn saved(original: f64, reduced: f64) -> Option<f64> {
    share(reduced, original).map(|rest| 1.0 - rest)
}

/// Time in the trace.
pub(super) struct Clock {
    /// Earliest and latest packet in nanoseconds from the first.
    pub(super) span: (i64, i64),
    /// Width of the buckets that are kept, in nanoseconds.
    pub(super) base: i64,
}

impl Clock {
    /// The first and the last complete bucket of a width.
    pub(super) fn complete(&self, width: i64) -> (i64, i64) {
        let (from, to) = self.span;
        let complete = |index: i64| {
            let begin = i128::from(index) * i128::from(width);
            let covered =
                i128::from(to).min(begin + i128::from(width)) - i128::from(from).max(begin);
            covered * 100 >= COMPLETE * i128::from(width)
        };
        let (first, last) = (from.div_euclid(width), to.div_euclid(width));
        (first + i64::from(!complete(first)), last - i64::from(!complete(last)))
    }

    /// Whether there can be buckets of a width.
    pub(super) fn has(&self, width: i64) -> bool {
        width % self.base == 0
    }

    /// The buckets with packets of a width, as index, original and reduced bytes.
    pub(super) fn regroup<'a>(
        &self,
        buckets: &'a [Bucket],
        width: i64,
    ) -> impl Iterator<Item = (i64, u64, u64)> + use<'a> {
        let factor = width / self.base;
        let groups =
            buckets.chunk_by(move |a, b| a.index.div_euclid(factor) == b.index.div_euclid(factor));
        groups.map(move |group| {
            let sum = |of: fn(&Bucket) -> u64| group.iter().map(of).sum();
            (
                group[0].index.div_euclid(factor),
                sum(|bucket| bucket.original),
                sum(|bucket| bucket.reduced),
            )
        })
    }

    pub(super) fn percentiles(&self, buckets: &[Bucket]) -> Vec<Percentiles> {
        let fits = |width: &i64| {
            let (first, last) = self.complete(*width);
            self.has(*width) && last - first + 1 >= FEW
        };
        WIDTHS.into_iter().filter(fits).map(|width| self.percentiles_of(buckets, width)).collect()
    }

    pub(super) fn percentiles_of(&self, buckets: &[Bucket], width: i64) -> Percentiles {
        let (first, last) = self.complete(width);
        let (mut original, mut reduced): (Vec<u64>, Vec<u64>) = self
            .regroup(buckets, width)
            .filter(|(index, ..)| (first..=last).contains(index))
            .map(|(_, original, reduced)| (original, reduced))
            .unzip();
        original.sort_unstable();
        reduced.sort_unstable();
        let count = last - first + 1;
        let empty = count - original.len() as i64;
        let seconds = width as f64 / SECOND as f64;
        let rate = |bytes: f64| bytes * 8.0 / seconds;
        let statistics = |values: &[u64]| {
            let at = |share| rate(nearest_rank(values, empty as u64, share) as f64);
            [rate(values.iter().sum::<u64>() as f64 / count as f64), at(0.5), at(0.95), at(1.0)]
        };
        let (original, reduced) = (statistics(&original), statistics(&reduced));
        let rates = std::array::from_fn(|i| (original[i], reduced[i]));
        Percentiles { width: seconds, buckets: count, empty, rates }
    }

    /// The correlation of volume and redundancy. `None` if the trace is too short.
    pub(super) fn correlation(&self, buckets: &[Bucket]) -> Option<Correlation> {
        let widths = widths().take_while(|width| *width <= 60 * SECOND);
        let width = widths
            .filter(|width| {
                let (first, last) = self.complete(*width);
                self.has(*width) && last - first + 1 >= ENOUGH
            })
            .last()?;
        let (first, last) = self.complete(width);
        let points: Vec<(f64, f64)> = self
            .regroup(buckets, width)
            .filter(|(index, ..)| (first..=last).contains(index))
            .filter_map(|(_, original, reduced)| {
                Some((original as f64, saved(original as f64, reduced as f64)?))
            })
            .collect();
        Some(Correlation {
            width: width as f64 / SECOND as f64,
            buckets: points.len() as u64,
            coefficient: pearson(&points),
        })
    }

    /// Percentiles of the savings of buckets, each weighted by its bytes: what quiet times save
    /// matters little.
    pub(super) fn spread(&self, buckets: &[Bucket]) -> Spread {
        let (from, to) = self.span;
        let length = i128::from(to) - i128::from(from) + 1;
        let minute = 60 * SECOND;
        let (width, mut savings): (f64, Vec<(f64, f64)>) = if length >= 100 * i128::from(minute)
            && self.has(minute)
        {
            let (first, last) = self.complete(minute);
            let minutes =
                self.regroup(buckets, minute).filter(|(index, ..)| (first..=last).contains(index));
            let of = |original: f64, reduced: f64| Some((saved(original, reduced)?, original));
            (
                60.0,
                minutes
                    .filter_map(|(_, original, reduced)| of(original as f64, reduced as f64))
                    .collect(),
            )
        } else {
            // A bucket belongs to the hundredth where it begins. Buckets are much finer unless
            // memory is very short.
            let part = |bucket: &Bucket| {
                ((i128::from(bucket.index) * i128::from(self.base) - i128::from(from)) * 100)
                    .div_euclid(length)
            };
            let parts = buckets.chunk_by(|a, b| part(a) == part(b)).filter_map(|group| {
                let sum = |of: fn(&Bucket) -> u64| group.iter().map(of).sum::<u64>() as f64;
                let original = sum(|bucket| bucket.original);
                Some((saved(original, sum(|bucket| bucket.reduced))?, original))
            });
            (length as f64 / 100.0 / SECOND as f64, parts.collect())
        };
        savings.sort_unstable_by(|a, b| a.0.total_cmp(&b.0));
        let total: f64 = savings.iter().map(|(_, bytes)| bytes).sum();
        let percentile = |share: f64| {
            let mut below = 0.0;
            let at = savings.iter().find(|(_, bytes)| {
                below += bytes;
                below >= share * total
            });
            at.or(savings.last()).map(|(savings, _)| *savings)
        };
        Spread {
            width,
            buckets: savings.len() as u64,
            percentiles: [0.1, 0.5, 0.9].map(percentile),
        }
    }

    /// Volume and redundancy over time, in at most [`PLACES`] buckets.
    pub(super) fn volume(&self, buckets: &[Bucket]) -> Volume {
        let (from, to) = self.span;
        let fits = |width: i64| to.div_euclid(width) - from.div_euclid(width) < PLACES;
        let width = widths().find(|width| self.has(*width) && fits(*width)).unwrap_or_else(|| {
            std::iter::successors(Some(self.base), |width| width.checked_mul(2))
                .find(|width| fits(*width))
                .unwrap_or(i64::MAX)
        });
        let seconds = width as f64 / SECOND as f64;
        let mut volume = Volume { width: seconds, ..Volume::default() };
        let mut next = from.div_euclid(width);
        let mut groups = self.regroup(buckets, width).peekable();
        while next <= to.div_euclid(width) {
            let here = groups.next_if(|(index, ..)| *index <= next);
            let x = next as f64 * seconds;
            let (before, after) =
                here.map_or((0.0, 0.0), |(_, original, reduced)| (original as f64, reduced as f64));
            volume.original.push((x, before * 8.0 / seconds));
            volume.reduced.push((x, after * 8.0 / seconds));
            volume.redundancy.extend(saved(before, after).map(|saved| (x, saved)));
            next += 1;
        }
        volume
    }
}

/// Round widths in nanoseconds, ascending: 10 ms to 1,000 days.
fn widths() -> impl Iterator<Item = i64> {
    let milliseconds = [10, 20, 50, 100, 200, 500].map(|ms| ms * 1_000_000);
    let hours =
        [10, 24, 48, 120, 240, 480, 1200, 2400, 4800, 12_000, 24_000].map(|h| h * 3600 * SECOND);
    milliseconds.into_iter().chain(WIDTHS).chain(hours)
}

/// The value at rank ceil(share * n) among n values: `empty` zeros, then the ascending ones.
fn nearest_rank(ascending: &[u64], empty: u64, share: f64) -> u64 {
    let n = empty + ascending.len() as u64;
    let rank = ((share * n as f64 - 1e-9).ceil() as u64).clamp(1, n.max(1));
    rank.checked_sub(empty + 1)
        .and_then(|place| ascending.get(place as usize))
        .copied()
        .unwrap_or(0)
}

/// Pearson's coefficient of correlation. `None` if one of the two is constant.
fn pearson(points: &[(f64, f64)]) -> Option<f64> {
    let n = points.len() as f64;
    let (x, y) = points.iter().fold((0.0, 0.0), |(x, y), point| (x + point.0 / n, y + point.1 / n));
    let (xx, xy, yy) = points.iter().fold((0.0, 0.0, 0.0), |(xx, xy, yy), point| {
        let (dx, dy) = (point.0 - x, point.1 - y);
        (xx + dx * dx, xy + dx * dy, yy + dy * dy)
    });
    (varies(xx, x, n) && varies(yy, y, n)).then(|| xy / (xx * yy).sqrt())
}
