//! Shared by the figures: distributions in logarithmic buckets, values by direction, savings of
//! single matches.

use crate::batch::{Direction, View};
use oncewire_codec::matcher::Match;

/// A distribution of whole numbers, each with a weight, in buckets of bounded relative width.
///
/// Each number below 2^(bits + 1) has its own bucket. Above, the width of a bucket is at most
/// 2^-bits of its lower end.
#[derive(Clone, Debug)]
pub(super) struct Histogram {
    bits: u32,
    /// Weight of each bucket.
    weights: Vec<f64>,
    total: f64,
}

impl Histogram {
    /// Buckets for numbers up to `max`: the finest up to 2^-`bits` that fit in `memory` bytes, but
    /// never wider than 2^-1.
    pub(super) fn new(max: u64, bits: u32, memory: u64) -> Histogram {
        let fits = |bits| (slot(max, bits) as u64 + 1) * 8 <= memory;
        let bits = (2..=bits).rev().find(|&bits| fits(bits)).unwrap_or(1);
        Histogram { bits, weights: vec![0.0; slot(max, bits) + 1], total: 0.0 }
    }

    /// Adds a number. Numbers above the maximum count as the maximum.
    pub(super) fn add(&mut self, value: u64, weight: f64) {
        let slot = slot(value, self.bits).min(self.weights.len() - 1);
        self.weights[slot] += weight;
        self.total += weight;
    }

    /// Largest relative error of a number.
    pub(super) fn error(&self) -> f64 {
        0.5f64.powi(self.bits as i32)
    }

    /// Memory in bytes.
    pub(super) fn memory(&self) -> u64 {
        self.weights.len() as u64 * 8
    }

    /// Points (number, share of the weight at or below it), one for every bucket in use, at the
    /// bucket's upper end.
    pub(super) fn cdf(&self) -> Vec<(f64, f64)> {
        let mut sum = 0.0;
        let mut points = Vec::new();
        for (slot, &weight) in self.weights.iter().enumerate() {
            if weight > 0.0 {
                sum += weight;
                points.push((top(slot, self.bits) as f64, (sum / self.total).min(1.0)));
            }
        }
        points
    }

    /// The least bucket's upper end with at least `share` of the weight at or below it. `None`
    /// without weight.
    pub(super) fn quantile(&self, share: f64) -> Option<u64> {
        let mut sum = 0.0;
        let mut last = None;
        for (slot, &weight) in self.weights.iter().enumerate().filter(|(_, weight)| **weight > 0.0)
        {
            sum += weight;
            last = Some(top(slot, self.bits));
            if sum >= share * self.total {
                break;
            }
        }
        last
    }
}

impl Merge for Histogram {
    fn merge(&mut self, other: &Histogram) {
        assert_eq!(
            (self.bits, self.weights.len()),
            (other.bits, other.weights.len()),
            "histograms of one figure are alike"
        );
        self.weights.iter_mut().zip(&other.weights).for_each(|(mine, theirs)| *mine += theirs);
        self.total += other.total;
    }
}

/// The bucket of a number.
fn slot(value: u64, bits: u32) -> usize {
    let octave = (value >> bits).checked_ilog2().unwrap_or(0);
    ((u64::from(octave) << bits) + (value >> octave)) as usize
}

/// The greatest number of a bucket.
fn top(slot: usize, bits: u32) -> u64 {
    let octave = ((slot >> bits) as u32).saturating_sub(1);
    let place = slot as u64 - (u64::from(octave) << bits);
    // In 128 bits: the last bucket of all ends at 2^64.
    (((u128::from(place) + 1) << octave) - 1).min(u64::MAX.into()) as u64
}

/// Values that can be summed over directions.
pub(super) trait Merge: Clone {
    /// Adds the counts of the other.
    fn merge(&mut self, other: &Self);
}

/// A value for each direction that occurs.
#[derive(Clone, Debug)]
pub(super) struct ByDirection<T>([Option<Box<T>>; Direction::ALL.len()]);

impl<T> Default for ByDirection<T> {
    fn default() -> ByDirection<T> {
        ByDirection([const { None }; Direction::ALL.len()])
    }
}

impl<T: Merge> ByDirection<T> {
    /// The value of a direction, created on first use.
    pub(super) fn at(&mut self, direction: Direction, make: impl FnOnce() -> T) -> &mut T {
        self.0[direction.index()].get_or_insert_with(|| Box::new(make()))
    }

    /// The values with the names of their directions. The total comes last if there are several.
    pub(super) fn rows(self) -> Vec<(&'static str, T)> {
        let mut rows: Vec<(&'static str, T)> = Vec::new();
        for (direction, counts) in Direction::ALL.iter().zip(self.0) {
            rows.extend(counts.map(|counts| (direction.name(), *counts)));
        }
        if rows.len() > 1 {
            let mut total = rows[0].1.clone();
            rows[1..].iter().for_each(|(_, counts)| total.merge(counts));
            rows.push((TOTAL, total));
        }
        rows
    }
}

/// Name of the total over all directions.
pub(super) const TOTAL: &str = "total";

/// The matches of a packet, each with the bytes that it saves: its length less the charge for a
/// match, and, where packets have a shim, less a part of the shim in proportion to that. They add
/// up to [`View::saved`].
pub(super) fn savings<'a>(
    view: &View<'a>,
    index: usize,
) -> impl Iterator<Item = (Match, f64)> + use<'a> {
    let matches = view.matches.of(index);
    let charge = view.charge;
    let net = move |found: &Match| found.len.saturating_sub(charge.per_match);
    let sum: u64 = matches.iter().map(|found| u64::from(net(found))).sum();
    let scale = if sum == 0 { 0.0 } else { f64::from(charge.saved(matches)) / sum as f64 };
    matches.iter().map(move |found| (*found, f64::from(net(found)) * scale))
}

/// How [`savings`] distributes the charges, for definitions.
pub(super) const CHARGED: &str = "The savings of a match are its length less the charge per match; the shim of a packet, if \
                                  charged, is deducted from the packet's matches in proportion.";

/// `part` of `whole`. `None` if the whole is zero.
pub(super) fn share(part: f64, whole: f64) -> Option<f64> {
    (whole > 0.0).then(|| part / whole)
}

/// The value of an ascending slice at rank ceil(share * len), at least the first: the nearest-rank
/// percentile. `None` of nothing.
pub(super) fn percentile<T: Copy>(ascending: &[T], share: f64) -> Option<T> {
    // 0.07 * 100 is a little more than 7.
    let rank = (share * ascending.len() as f64 - 1e-9).ceil() as usize;
    ascending.get(rank.max(1).min(ascending.len()).wrapping_sub(1)).copied()
}

/// Whether a sum of squared differences from the mean of `n` numbers is more than the rounding of
/// equal ones leaves.
pub(super) fn varies(squares: f64, mean: f64, n: f64) -> bool {
    squares > n * (mean * 1e-12).powi(2)
}

/// Keeps the last of points with the same x.
pub(super) fn merge_equal(points: Vec<(f64, f64)>) -> Vec<(f64, f64)> {
    let mut merged: Vec<(f64, f64)> = Vec::with_capacity(points.len());
    for point in points {
        match merged.last_mut() {
            Some(last) if last.0 == point.0 => *last = point,
            _ => merged.push(point),
        }
    }
    merged
}

/// At most about `most` of the points: the first, the last, and those between at equal steps.
pub(super) fn thin(points: Vec<(f64, f64)>, most: usize) -> Vec<(f64, f64)> {
    let step = points.len().div_ceil(most.max(2));
    if step <= 1 {
        return points;
    }
    let last = points.len() - 1;
    points
        .into_iter()
        .enumerate()
        .filter(|(i, _)| i % step == 0 || *i == last)
        .map(|(_, point)| point)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn buckets_are_contiguous_ascending_and_narrow(value in any::<u64>(), shift in 0u32..64, bits in 1u32..8) {
            let value = value >> shift;
            let slot = slot(value, bits);
            let end = top(slot, bits);
            prop_assert!(value <= end);
            prop_assert!((end - value) as f64 <= value as f64 * 0.5f64.powi(bits as i32));
            prop_assert_eq!(super::slot(end, bits), slot);
            if end < u64::MAX {
                prop_assert_eq!(super::slot(end + 1, bits), slot + 1);
            }
            if value < 1 << (bits + 1) {
                prop_assert_eq!(end, value);
            }
        }

        #[test]
        fn a_percentile_is_the_least_value_with_that_share_at_or_below(mut values in proptest::collection::vec(0u32..50, 1..40), percent in 1u32..=100) {
            values.sort_unstable();
            let share = f64::from(percent) / 100.0;
            let naive = values.iter().copied().find(|v| values.iter().filter(|w| *w <= v).count() as f64 >= share * values.len() as f64 - 1e-9);
            prop_assert_eq!(percentile(&values, share), naive);
        }
    }

    #[test]
    fn a_histogram_fits_its_memory_and_knows_its_quantiles() {
        let mut histogram = Histogram::new(65535, 7, 4096);
        assert!(histogram.memory() <= 4096);
        for value in 1..=100 {
            histogram.add(value, 2.0);
        }
        assert_eq!(histogram.quantile(0.1), Some(10));
        assert_eq!(histogram.cdf().last().unwrap().1, 1.0);
        assert_eq!(Histogram::new(65535, 7, 0).quantile(0.5), None);
    }

    #[test]
    fn percentiles_and_thinning_at_the_edges() {
        assert_eq!(percentile::<u8>(&[], 0.5), None);
        assert_eq!(thin((0..10).map(|i| (f64::from(i), 0.0)).collect(), 4).len(), 4);
    }
}
