//! Figure 4: savings over time, and whether they come when the link is busy (thesis, section 2.3, "Temporal Variations", Figures 2.3 to 2.5).

use super::burstiness::{BASE, OCTAVES, Pyramid};
use super::tally::{TOTAL, percent, seconds, share, varies};
use crate::batch::{Direction, Observer, View};
use crate::results::{Axis, Cell, Chart, ChartKind, Column, Figure, Series, Table, Unit};

/// Volume and redundancy over time, savings of percentiles, and burstiness.
#[derive(Debug)]
pub struct Temporal {
    /// Time of the first packet, where buckets begin.
    start: Option<i64>,
    /// Times of the earliest and the latest packet, in nanoseconds from `start`.
    span: (i64, i64),
    series: Sums,
    energy: Energy,
}

impl Temporal {
    /// `memory` (bytes) is for the series of bytes over time, about 80 bytes for every 10 ms with packets in a direction. When they are more
    /// than fit, buckets get coarser: 100 ms, 1 s, 10 s, 1 min and so on. It takes 30 KB at least.
    pub fn new(memory: u64) -> Temporal {
        Temporal { start: None, span: (0, 0), series: Sums::new(memory.saturating_sub(ENERGY_BYTES)), energy: Energy::default() }
    }
}

const SECOND: i64 = 1_000_000_000;

/// Widths of buckets for which percentiles are taken, in nanoseconds.
const WIDTHS: [i64; 13] = {
    let mut widths = [1, 2, 5, 10, 30, 60, 120, 300, 600, 1800, 3600, 7200, 18_000];
    let mut i = 0;
    while i < widths.len() {
        widths[i] *= SECOND;
        i += 1;
    }
    widths
};

/// Fewest complete buckets that percentiles are taken of, and that a correlation is.
const FEW: i64 = 3;
const ENOUGH: i64 = 30;

/// Most places in the chart of volume.
const PLACES: i64 = 2000;

/// Share of a bucket that the trace has to cover for it to be complete, in percent.
const COMPLETE: i128 = 95;

/// Original and reduced bytes of one direction in one bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Bucket {
    direction: Direction,
    index: i64,
    original: u64,
    reduced: u64,
}

/// Bytes in buckets, of which only those with packets are kept, in bounded memory.
#[derive(Debug)]
struct Sums {
    /// Width of a bucket in nanoseconds.
    width: i64,
    /// In any order, several for one bucket if packets come out of order, until they are put together.
    buckets: Vec<Bucket>,
    most: usize,
    /// The bucket of the latest packet.
    index: i64,
    current: [(u64, u64); Direction::ALL.len()],
}

/// Bytes for a bucket: itself, its place in the total, and the values that percentiles are taken of.
const BUCKET_BYTES: u64 = 2 * size_of::<Bucket>() as u64 + 16;

impl Sums {
    fn new(memory: u64) -> Sums {
        let most = usize::try_from(memory / BUCKET_BYTES).unwrap_or(usize::MAX).max(256);
        Sums { width: BASE, buckets: Vec::new(), most, index: 0, current: [(0, 0); Direction::ALL.len()] }
    }

    fn add(&mut self, time: i64, direction: Direction, original: u64, reduced: u64) {
        let index = time.div_euclid(self.width);
        if index != self.index {
            self.flush();
            // The width may have changed.
            self.index = time.div_euclid(self.width);
        }
        let current = &mut self.current[direction.index()];
        current.0 += original;
        current.1 += reduced;
    }

    fn flush(&mut self) {
        for direction in Direction::ALL {
            let (original, reduced) = std::mem::take(&mut self.current[direction.index()]);
            if original > 0 {
                if self.buckets.len() >= self.most {
                    self.shrink();
                }
                // `shrink` may have made buckets wider since `index` was taken, but it adapts it.
                let bucket = Bucket { direction, index: self.index, original, reduced };
                if self.buckets.len() == self.buckets.capacity() {
                    let more = self.buckets.len().clamp(64, self.most.max(64));
                    self.buckets.reserve_exact(more.min((self.most - self.buckets.len()).max(1)));
                }
                self.buckets.push(bucket);
            }
        }
    }

    /// Puts entries of one bucket together, then makes buckets wider until half of the memory is free.
    fn shrink(&mut self) {
        self.put_together();
        while self.buckets.len() > self.most / 2 {
            let factor = match self.width / 1_000_000 {
                10 | 100 | 1000 | 60_000 => 10,
                10_000 | 600_000 => 6,
                3_600_000 => 5,
                _ => 2,
            };
            let Some(width) = self.width.checked_mul(factor) else { return };
            self.width = width;
            self.index = self.index.div_euclid(factor);
            self.buckets.iter_mut().for_each(|bucket| bucket.index = bucket.index.div_euclid(factor));
            self.put_together();
        }
    }

    fn put_together(&mut self) {
        self.buckets.sort_unstable();
        self.buckets.dedup_by(|next, kept| {
            let same = (next.direction, next.index) == (kept.direction, kept.index);
            if same {
                kept.original += next.original;
                kept.reduced += next.reduced;
            }
            same
        });
    }
}

/// The wavelet analysis of each direction that occurs, and of all.
#[derive(Debug, Default)]
struct Energy {
    directions: [Option<Box<Pyramid<2>>>; Direction::ALL.len() + 1],
    /// The current base bucket, and how many lie before it.
    current: [[f64; 2]; Direction::ALL.len() + 1],
    index: u64,
    /// What to add to a time, in buckets, after the clock was set back.
    offset: i64,
}

const ENERGY_BYTES: u64 = (Direction::ALL.len() + 1) as u64 * size_of::<Pyramid<2>>() as u64;

/// Buckets by which a packet may be late and count with the current one; if it is later, the clock was set back.
const LATE: i64 = 100;

impl Energy {
    fn add(&mut self, time: i64, direction: Direction, original: u32, reduced: u32) {
        let mut index = time.div_euclid(BASE).saturating_add(self.offset);
        let late = i64::try_from(self.index).unwrap_or(i64::MAX).saturating_sub(index);
        if late > LATE {
            self.offset = self.offset.saturating_add(late);
            index = self.index as i64;
        }
        let ahead = index.saturating_sub(self.index as i64);
        if ahead > 0 {
            self.flush();
            self.directions.iter_mut().flatten().for_each(|pyramid| pyramid.push_empty(ahead as u64 - 1));
            self.index = index as u64;
        }
        for place in [direction.index(), Direction::ALL.len()] {
            self.directions[place].get_or_insert_with(|| {
                let mut pyramid = Pyramid::new();
                pyramid.push_empty(self.index);
                Box::new(pyramid)
            });
            self.current[place][0] += f64::from(original);
            self.current[place][1] += f64::from(reduced);
        }
    }

    fn flush(&mut self) {
        for (pyramid, current) in self.directions.iter_mut().zip(&mut self.current) {
            let bytes = std::mem::take(current);
            if let Some(pyramid) = pyramid {
                pyramid.push(bytes);
            }
        }
    }
}

impl Observer for Temporal {
    fn batch(&mut self, view: &View<'_>) {
        for (i, packet) in view.batch.packets().iter().enumerate() {
            let start = *self.start.get_or_insert(packet.time);
            let time = packet.time.saturating_sub(start);
            self.span = (self.span.0.min(time), self.span.1.max(time));
            let reduced = packet.wire.saturating_sub(view.saved(i));
            self.series.add(time, packet.direction, packet.wire.into(), reduced.into());
            self.energy.add(time, packet.direction, packet.wire, reduced);
        }
    }

    fn finish(mut self: Box<Self>) -> Figure {
        self.series.flush();
        self.series.put_together();
        self.energy.flush();
        let memory = self.series.buckets.capacity() as u64 * BUCKET_BYTES
            + self.energy.directions.iter().flatten().count() as u64 * size_of::<Pyramid<2>>() as u64;
        let clock = Clock { span: self.span, base: self.series.width };
        let mut tables = Tables::new();
        let mut charts = Vec::new();
        let mut finding = String::new();

        let directions = self.series.buckets.chunk_by(|a, b| a.direction == b.direction);
        let mut rows: Vec<(usize, &str, &[Bucket])> =
            directions.map(|of| (of[0].direction.index(), of[0].direction.name(), of)).collect();
        let total;
        if rows.len() > 1 {
            total = total_of(&self.series.buckets);
            rows.push((Direction::ALL.len(), TOTAL, &total));
        }
        let last = rows.len().saturating_sub(1);
        for (i, (place, name, buckets)) in rows.iter().enumerate() {
            let ids = if i == last { IDS[Direction::ALL.len()] } else { IDS[*place] };
            let all = buckets.iter().fold((0, 0), |sum, bucket| (sum.0 + bucket.original, sum.1 + bucket.reduced));
            let savings = saved(all.0 as f64, all.1 as f64).unwrap_or(0.0);

            charts.push(clock.volume(ids[0], name, buckets));
            let percentiles = clock.percentiles(buckets);
            charts.extend(savings_chart(ids[1], name, &percentiles));
            let energies = energies(self.energy.directions[*place].as_deref(), savings);
            charts.extend(burstiness_chart(ids[2], name, &energies));
            let correlation = clock.correlation(buckets);
            let spread = clock.spread(buckets);
            if i == last {
                finding = words(savings, &percentiles, correlation.and_then(|(_, _, r)| r), &energies);
            }
            tables.push(name, i == last, &percentiles, correlation, &energies, spread);
        }

        let mut notes = Vec::new();
        if !rows.is_empty() {
            notes.push(
                "Burstiness assumes that packets arrive when they did in the trace. In truth, removing redundancy changes what TCP's congestion \
                 control does, and so when packets arrive, most of all at short time scales (thesis, section 2.3)."
                    .into(),
            );
        }
        if clock.base > SECOND {
            notes.push(format!(
                "To stay in its memory, the figure knows bytes by {}: shorter buckets are left out of percentiles, savings over time and \
                 correlation. Burstiness is not affected.",
                seconds(clock.base as f64 / SECOND as f64)
            ));
        }
        if self.energy.offset > 0 {
            notes.push(format!(
                "The time of packets steps back by more than {}: for burstiness, time goes on from there.",
                seconds((LATE * BASE) as f64 / SECOND as f64)
            ));
        }
        Figure {
            number: 4,
            id: "temporal",
            title: "Over time",
            source: "thesis, section 2.3, Figures 2.3 to 2.5",
            definition: definition(),
            finding,
            tables: if rows.is_empty() { Vec::new() } else { tables.0.into() },
            charts,
            notes,
            memory,
        }
    }
}

/// The tenth and the ninetieth percentile of the savings of the trace's minutes (or of its hundredths, if it is shorter than 100 minutes),
/// over all directions, from figure 4. `None` if it is another figure, or of an empty trace.
pub fn spread(figure: &Figure) -> Option<(f64, f64)> {
    let table = figure.tables.iter().find(|table| table.id == "spread")?;
    match (table.rows.first()?.last()?, table.rows.last()?.last()?) {
        (Cell::Number(low), Cell::Number(high)) => Some((*low, *high)),
        _ => None,
    }
}

/// Names of the charts of volume, savings and burstiness for each direction, and for the only one or the total.
const IDS: [[&str; 3]; Direction::ALL.len() + 1] = [
    ["volume-all", "savings-all", "burstiness-all"],
    ["volume-outbound", "savings-outbound", "burstiness-outbound"],
    ["volume-inbound", "savings-inbound", "burstiness-inbound"],
    ["volume-internal", "savings-internal", "burstiness-internal"],
    ["volume-transit", "savings-transit", "burstiness-transit"],
    ["volume-unknown", "savings-unknown", "burstiness-unknown"],
    ["volume", "savings", "burstiness"],
];

fn definition() -> String {
    format!(
        "Bytes are wire bytes of all packets, headers included; reduced bytes are these less what the reference algorithm saves of the packet. \
         Buckets begin at the first packet of the trace. (a) Bits per second of both, and 1 - reduced / original, in each of up to {PLACES} \
         buckets. (b) For buckets of 1 s to 5 h, the savings in the mean, the median, the 95th percentile and the peak: 1 - (that statistic \
         of the reduced bytes of all buckets) / (that statistic of their original bytes), which is not a statistic of the savings of buckets. \
         Percentiles are nearest-rank. Empty buckets count as 0 bytes; the last bucket is left out unless the trace covers {COMPLETE} % of \
         it; widths with fewer than {FEW} buckets are left out. Correlation is Pearson's, between original bytes and 1 - reduced / original of \
         buckets with packets, of 1 min, or the widest of which the trace has {ENOUGH}. Spread: percentiles of 1 - reduced / original over \
         the minutes with packets, or over the hundredths of a trace shorter than 100 min; savings are those over all directions. (c) Burstiness: the base-2 logarithm of the mean \
         square of the detail coefficients of an orthonormal Haar wavelet analysis of bytes per {}, by octave; the coefficient of octave j \
         is the difference of the bytes in two adjacent spans of {} * 2^(j-1), which is the time scale, divided by 2^(j/2). Octaves with \
         fewer than 4 complete coefficients are left out. Uniform: the original bytes times (1 - mean savings). A packet up to {} late counts \
         into the current span.",
        seconds(BASE as f64 / SECOND as f64),
        seconds(BASE as f64 / SECOND as f64),
        seconds((LATE * BASE) as f64 / SECOND as f64),
    )
}

/// 1 - reduced / original.
fn saved(original: f64, reduced: f64) -> Option<f64> {
    share(reduced, original).map(|rest| 1.0 - rest)
}

/// The sum over all directions, ascending.
fn total_of(buckets: &[Bucket]) -> Vec<Bucket> {
    let mut total = Sums { buckets: buckets.to_vec(), ..Sums::new(0) };
    total.buckets.iter_mut().for_each(|bucket| bucket.direction = Direction::All);
    total.put_together();
    total.buckets
}

/// Time in the trace.
struct Clock {
    /// Earliest and latest packet in nanoseconds from the first.
    span: (i64, i64),
    /// Width of the buckets that are kept, in nanoseconds.
    base: i64,
}

/// Savings in statistics of buckets of one width.
struct Percentiles {
    width: f64,
    buckets: i64,
    empty: i64,
    /// Bits per second at the mean, median, 95th percentile and peak, original and reduced.
    rates: [(f64, f64); 4],
}

impl Percentiles {
    fn savings(&self) -> [Option<f64>; 4] {
        self.rates.map(|(original, reduced)| saved(original, reduced))
    }
}

impl Clock {
    /// The first and the last complete bucket of a width.
    fn complete(&self, width: i64) -> (i64, i64) {
        let (from, to) = self.span;
        let complete = |index: i64| {
            let begin = i128::from(index) * i128::from(width);
            let covered = i128::from(to).min(begin + i128::from(width)) - i128::from(from).max(begin);
            covered * 100 >= COMPLETE * i128::from(width)
        };
        let (first, last) = (from.div_euclid(width), to.div_euclid(width));
        (first + i64::from(!complete(first)), last - i64::from(!complete(last)))
    }

    /// Whether there can be buckets of a width.
    fn has(&self, width: i64) -> bool {
        width % self.base == 0
    }

    /// The buckets with packets of a width, as index, original and reduced bytes.
    fn regroup<'a>(&self, buckets: &'a [Bucket], width: i64) -> impl Iterator<Item = (i64, u64, u64)> + use<'a> {
        let factor = width / self.base;
        let groups = buckets.chunk_by(move |a, b| a.index.div_euclid(factor) == b.index.div_euclid(factor));
        groups.map(move |group| {
            let sum = |of: fn(&Bucket) -> u64| group.iter().map(of).sum();
            (group[0].index.div_euclid(factor), sum(|bucket| bucket.original), sum(|bucket| bucket.reduced))
        })
    }

    fn percentiles(&self, buckets: &[Bucket]) -> Vec<Percentiles> {
        let fits = |width: &i64| {
            let (first, last) = self.complete(*width);
            self.has(*width) && last - first + 1 >= FEW
        };
        WIDTHS.into_iter().filter(fits).map(|width| self.percentiles_of(buckets, width)).collect()
    }

    fn percentiles_of(&self, buckets: &[Bucket], width: i64) -> Percentiles {
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

    /// Width in seconds, buckets and coefficient of correlation between volume and share of redundancy. `None` if the trace is too short.
    fn correlation(&self, buckets: &[Bucket]) -> Option<(f64, u64, Option<f64>)> {
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
            .filter_map(|(_, original, reduced)| Some((original as f64, saved(original as f64, reduced as f64)?)))
            .collect();
        Some((width as f64 / SECOND as f64, points.len() as u64, pearson(&points)))
    }

    /// Width in seconds, buckets with packets, and their savings' tenth, fiftieth and ninetieth percentiles, each bucket weighted by its bytes:
    /// what quiet times save matters little.
    fn spread(&self, buckets: &[Bucket]) -> (f64, u64, [Option<f64>; 3]) {
        let (from, to) = self.span;
        let length = i128::from(to) - i128::from(from) + 1;
        let minute = 60 * SECOND;
        let (width, mut savings): (f64, Vec<(f64, f64)>) = if length >= 100 * i128::from(minute) && self.has(minute) {
            let (first, last) = self.complete(minute);
            let minutes = self.regroup(buckets, minute).filter(|(index, ..)| (first..=last).contains(index));
            let of = |original: f64, reduced: f64| Some((saved(original, reduced)?, original));
            (60.0, minutes.filter_map(|(_, original, reduced)| of(original as f64, reduced as f64)).collect())
        } else {
            // Each bucket goes where it begins; they are much finer than hundredths unless memory is very short.
            let part = |bucket: &Bucket| {
                ((i128::from(bucket.index) * i128::from(self.base) - i128::from(from)) * 100).div_euclid(length)
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
        (width, savings.len() as u64, [0.1, 0.5, 0.9].map(percentile))
    }

    /// Figure 2.3: volume and redundancy over time.
    fn volume(&self, id: &'static str, name: &str, buckets: &[Bucket]) -> Chart {
        let (from, to) = self.span;
        let fits = |width: i64| to.div_euclid(width) - from.div_euclid(width) < PLACES;
        let width = widths().find(|width| self.has(*width) && fits(*width)).unwrap_or_else(|| {
            std::iter::successors(Some(self.base), |width| width.checked_mul(2)).find(|width| fits(*width)).unwrap_or(i64::MAX)
        });
        let seconds = width as f64 / SECOND as f64;
        let mut chart = Chart {
            id,
            caption: format!("Volume and redundancy over time in buckets of {} ({name})", self::seconds(seconds)),
            kind: ChartKind::Line,
            x: Axis::new("time since the first packet", Unit::Seconds),
            y: Axis::new("volume", Unit::BitsPerSecond),
            right: Some(Axis::new("redundancy", Unit::Share)),
            series: vec![
                Series::new("original", Vec::new()),
                Series::new("reduced", Vec::new()),
                Series { name: "redundancy".into(), points: Vec::new(), right: true },
            ],
        };
        let mut next = from.div_euclid(width);
        let [original, reduced, redundancy] = &mut chart.series[..] else { unreachable!() };
        let mut groups = self.regroup(buckets, width).peekable();
        while next <= to.div_euclid(width) {
            let here = groups.next_if(|(index, ..)| *index <= next);
            let x = next as f64 * seconds;
            let (before, after) = here.map_or((0.0, 0.0), |(_, original, reduced)| (original as f64, reduced as f64));
            original.points.push((x, before * 8.0 / seconds));
            reduced.points.push((x, after * 8.0 / seconds));
            redundancy.points.extend(saved(before, after).map(|saved| (x, saved)));
            next += 1;
        }
        chart
    }
}

/// Widths that read well, in nanoseconds, ascending: 10 ms to 1,000 days.
fn widths() -> impl Iterator<Item = i64> {
    let milliseconds = [10, 20, 50, 100, 200, 500].map(|ms| ms * 1_000_000);
    let hours = [10, 24, 48, 120, 240, 480, 1200, 2400, 4800, 12_000, 24_000].map(|h| h * 3600 * SECOND);
    milliseconds.into_iter().chain(WIDTHS).chain(hours)
}

/// The value at rank ceil(share * n) of the ascending values with `empty` zeros before them, n in all.
fn nearest_rank(ascending: &[u64], empty: u64, share: f64) -> u64 {
    let n = empty + ascending.len() as u64;
    let rank = ((share * n as f64 - 1e-9).ceil() as u64).clamp(1, n.max(1));
    rank.checked_sub(empty + 1).and_then(|place| ascending.get(place as usize)).copied().unwrap_or(0)
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

/// Time scale in seconds, coefficients, and energies of the original, reduced and uniformly reduced bytes.
type Octave = (f64, u64, [f64; 3]);

fn energies(pyramid: Option<&Pyramid<2>>, savings: f64) -> Vec<Octave> {
    let mut octaves = Vec::with_capacity(OCTAVES);
    for (j, (count, energy)) in pyramid.iter().flat_map(|pyramid| pyramid.energies()).enumerate() {
        if let Some([original, reduced]) = energy.filter(|_| count >= 4) {
            let scale = (BASE << j) as f64 / SECOND as f64;
            octaves.push((scale, count, [original, reduced, original * (1.0 - savings).powi(2)]));
        }
    }
    octaves
}

/// Base-2 logarithm of an energy.
fn log(energy: f64) -> Option<f64> {
    (energy > 0.0).then(|| energy.log2())
}

const STATISTICS: [&str; 4] = ["mean", "median", "95th percentile", "peak"];

fn savings_chart(id: &'static str, name: &str, percentiles: &[Percentiles]) -> Option<Chart> {
    let series = STATISTICS.iter().enumerate().map(|(i, statistic)| {
        let points = percentiles.iter().filter_map(|of| Some((of.width, of.savings()[i]?)));
        Series::new(*statistic, points.collect())
    });
    let series: Vec<Series> = series.filter(|series| !series.points.is_empty()).collect();
    (!series.is_empty()).then(|| Chart {
        id,
        caption: format!("Savings in mean, median, 95th percentile and peak volume ({name})"),
        kind: ChartKind::Line,
        x: Axis::log("width of buckets", Unit::Seconds),
        y: Axis::new("savings", Unit::Share),
        right: None,
        series,
    })
}

const ENERGIES: [&str; 3] = ["original", "reduced", "uniform"];

fn burstiness_chart(id: &'static str, name: &str, octaves: &[Octave]) -> Option<Chart> {
    let series = ENERGIES.iter().enumerate().map(|(i, which)| {
        let points = octaves.iter().filter_map(|(scale, _, energies)| Some((*scale, log(energies[i])?)));
        Series::new(*which, points.collect())
    });
    let series: Vec<Series> = series.filter(|series| !series.points.is_empty()).collect();
    (!series.is_empty()).then(|| Chart {
        id,
        caption: format!("Burstiness: energy of bytes by time scale ({name})"),
        kind: ChartKind::Line,
        x: Axis::log("time scale", Unit::Seconds),
        y: Axis::new("log2 of energy", Unit::Number),
        right: None,
        series,
    })
}

/// Percentiles, correlation, burstiness, spread.
struct Tables([Table; 4]);

impl Tables {
    fn new() -> Tables {
        let table = |id, caption: &str, columns: &[(&str, Unit)]| Table {
            id,
            caption: caption.into(),
            columns: columns.iter().map(|(name, unit)| Column::new(*name, *unit)).collect(),
            rows: Vec::new(),
        };
        Tables([
            table(
                "percentiles",
                "Savings in mean, median, 95th percentile and peak volume, by width of buckets",
                &[
                    ("direction", Unit::Text),
                    ("bucket", Unit::Seconds),
                    ("buckets", Unit::Count),
                    ("empty", Unit::Count),
                    ("original mean", Unit::BitsPerSecond),
                    ("original median", Unit::BitsPerSecond),
                    ("original 95th percentile", Unit::BitsPerSecond),
                    ("original peak", Unit::BitsPerSecond),
                    ("mean", Unit::Share),
                    ("median", Unit::Share),
                    ("95th percentile", Unit::Share),
                    ("peak", Unit::Share),
                ],
            ),
            table(
                "correlation",
                "Correlation between volume and share of redundancy",
                &[("direction", Unit::Text), ("bucket", Unit::Seconds), ("buckets", Unit::Count), ("coefficient", Unit::Number)],
            ),
            table(
                "burstiness",
                "Base-2 logarithm of the energy by time scale",
                &[
                    ("direction", Unit::Text),
                    ("time scale", Unit::Seconds),
                    ("coefficients", Unit::Count),
                    ("original", Unit::Number),
                    ("reduced", Unit::Number),
                    ("uniform", Unit::Number),
                ],
            ),
            table("spread", "", &[("percentile", Unit::Text)]),
        ])
    }

    fn push(
        &mut self,
        name: &str,
        last: bool,
        percentiles: &[Percentiles],
        correlation: Option<(f64, u64, Option<f64>)>,
        octaves: &[Octave],
        spread: (f64, u64, [Option<f64>; 3]),
    ) {
        let [of_percentiles, of_correlation, of_burstiness, of_spread] = &mut self.0;
        of_percentiles.rows.extend(percentiles.iter().map(|of| {
            let mut row = vec![name.into(), of.width.into(), (of.buckets as u64).into(), (of.empty as u64).into()];
            row.extend(of.rates.map(|(original, _)| original.into()));
            row.extend(of.savings().map(Cell::from));
            row
        }));
        let (width, buckets, coefficient) = correlation.map_or((None, 0, None), |(width, n, r)| (Some(width), n, r));
        of_correlation.rows.push(vec![name.into(), width.into(), buckets.into(), coefficient.into()]);
        of_burstiness.rows.extend(octaves.iter().map(|(scale, count, energies)| {
            let mut row = vec![name.into(), (*scale).into(), (*count).into()];
            row.extend(energies.map(|energy| Cell::from(log(energy))));
            row
        }));
        let (width, buckets, percentiles) = spread;
        if of_spread.rows.is_empty() {
            of_spread.rows.extend(["p10", "p50", "p90"].map(|percentile| vec![percentile.into()]));
        }
        of_spread.columns.push(Column::new(if last { "savings" } else { name }, Unit::Share));
        for (row, percentile) in of_spread.rows.iter_mut().zip(percentiles) {
            row.push(percentile.into());
        }
        if last {
            let each =
                if width == 60.0 { "minutes".to_owned() } else { format!("hundredths of the trace ({} each)", seconds(width)) };
            of_spread.caption =
                format!("Percentiles of the savings of the {buckets} {each} that have packets, weighted by their bytes");
        }
    }
}

fn words(savings: f64, percentiles: &[Percentiles], correlation: Option<f64>, octaves: &[Octave]) -> String {
    let mut words = Vec::new();
    // Links are billed by buckets of five minutes. Of fewer than twenty buckets the 95th percentile is the peak.
    if let Some(of) = percentiles.iter().rev().find(|of| of.width <= 300.0 && of.buckets >= 20)
        && let [Some(mean), _, Some(p95), Some(peak)] = of.savings()
    {
        let judgement = match p95 - mean {
            difference if difference < -0.02 => {
                "busy times are less redundant than quiet ones, so a link sized or billed by them gains less"
            }
            difference if difference > 0.02 => {
                "busy times are more redundant than quiet ones, so a link sized or billed by them gains more"
            }
            _ => "busy times are about as redundant as others",
        };
        words.push(format!(
            "In buckets of {}, mean savings are {}, those in the 95th percentile {} and in the peak {}: {judgement}.",
            seconds(of.width),
            percent(mean),
            percent(p95),
            percent(peak)
        ));
    }
    if let Some(r) = correlation {
        let strength = match r.abs() {
            r if r < 0.1 => "not correlated",
            r if r < 0.3 => "slightly correlated",
            r if r < 0.6 => "correlated",
            _ => "strongly correlated",
        };
        words.push(format!("Volume and redundancy are {strength} ({r:.2})."));
    }
    // How far energy falls, as a share of how far it would with uniform savings, over the octaves.
    let falls: Vec<f64> = octaves
        .iter()
        .filter(|(_, _, energies)| energies.iter().all(|energy| *energy > 0.0))
        .map(|(_, _, [original, reduced, uniform])| (original / reduced).ln() / (original / uniform).ln())
        .filter(|fall| fall.is_finite())
        .collect();
    if savings >= 0.01 && !falls.is_empty() {
        let fall = falls.iter().sum::<f64>() / falls.len() as f64;
        words.push(match fall {
            fall if fall < 0.5 => "Traffic stays about as bursty as it was.".into(),
            fall if fall < 0.9 => "Bursts shrink less than the mean.".to_string(),
            fall if fall <= 1.1 => "Bursts shrink like the mean.".into(),
            _ => "Bursts shrink more than the mean.".into(),
        });
    }
    words.join(" ")
}

#[cfg(test)]
mod tests;
