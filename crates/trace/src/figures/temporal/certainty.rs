//! How sure the savings of a trace are: by how much its parts differ.

use super::SECOND;
use super::buckets::Bucket;

/// Numbers of equal parts of time that a trace is divided into. Savings that change slowly need few
/// long parts, so the widest of the intervals counts.
const PARTS: [i128; 3] = [5, 10, 20];
/// Shortest trace in seconds whose parts say something.
const SHORTEST: i64 = 600;
/// Fewest parts with packets.
const FEWEST: usize = 4;
/// Student's t for 95 %, by degrees of freedom from 1 on.
const T: [f64; 19] = [
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160,
    2.145, 2.131, 2.120, 2.110, 2.101, 2.093,
];

/// The 95 % confidence interval of 1 - reduced / original, as of a trace whose parts are independent
/// samples of the same traffic: the jackknife of a ratio (Efron and Tibshirani 1993, chapter 11).
/// `None` for a trace shorter than ten minutes, or with too few parts that have packets.
///
/// `span` is from the first to the last packet, and `width` that of buckets, in nanoseconds.
pub(super) fn confidence(
    buckets: &[Bucket],
    (from, to): (i64, i64),
    width: i64,
) -> Option<(f64, f64)> {
    let length = i128::from(to) - i128::from(from) + 1;
    if length < i128::from(SHORTEST * SECOND) {
        return None;
    }
    let part = |bucket: &Bucket, parts: i128| {
        let at = i128::from(bucket.index) * i128::from(width) - i128::from(from);
        (at.max(0) * parts / length).min(parts - 1)
    };
    let sums = |parts: i128| -> Vec<(f64, f64)> {
        let groups = buckets.chunk_by(|a, b| part(a, parts) == part(b, parts));
        let sum =
            |group: &[Bucket], of: fn(&Bucket) -> u64| group.iter().map(of).sum::<u64>() as f64;
        let of = |group: &[Bucket]| (sum(group, |of| of.original), sum(group, |of| of.reduced));
        groups.map(of).filter(|(original, _)| *original > 0.0).collect()
    };
    let intervals = PARTS.into_iter().filter_map(|parts| jackknife(&sums(parts)));
    let widest = intervals.max_by(|a, b| a.1.total_cmp(&b.1));
    widest.map(|(savings, half)| ((savings - half).max(0.0), (savings + half).min(1.0)))
}

/// Savings over all parts, original and reduced bytes of each, and half the width of the interval.
fn jackknife(parts: &[(f64, f64)]) -> Option<(f64, f64)> {
    let n = parts.len();
    let t = *T.get(n.checked_sub(2)?).filter(|_| n >= FEWEST)?;
    let all = parts.iter().fold((0.0, 0.0), |sum, part| (sum.0 + part.0, sum.1 + part.1));
    let without =
        |part: &(f64, f64)| super::clock::saved(all.0 - part.0, all.1 - part.1).unwrap_or(0.0);
    let mean = parts.iter().map(without).sum::<f64>() / n as f64;
    let squares = parts.iter().map(|part| (without(part) - mean).powi(2)).sum::<f64>();
    let error = ((n - 1) as f64 / n as f64 * squares).sqrt();
    Some((super::clock::saved(all.0, all.1)?, t * error))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::batch::Direction;

    fn buckets(minutes: i64, saved: impl Fn(i64) -> u64) -> (Vec<Bucket>, (i64, i64)) {
        let bucket = |index| Bucket {
            direction: Direction::All,
            index,
            original: 1000,
            reduced: 1000 - saved(index),
        };
        ((0..minutes).map(bucket).collect(), (0, minutes * 60 * SECOND - 1))
    }

    fn interval(minutes: i64, saved: impl Fn(i64) -> u64) -> Option<(f64, f64)> {
        let (buckets, span) = buckets(minutes, saved);
        confidence(&buckets, span, 60 * SECOND)
    }

    #[test]
    fn parts_that_differ_leave_doubt() {
        // Ten minutes of 68 % in turns with ten of 1 %.
        let turns = |minute: i64| if minute / 10 % 2 == 0 { 680 } else { 10 };
        let (low, high) = interval(100, turns).unwrap();
        assert!((0.0..0.2).contains(&low) && (0.55..0.9).contains(&high), "{low} to {high}");
        // A day of it is enough to know the mean.
        let (low, high) = interval(1440, turns).unwrap();
        assert!(low > 0.3 && high < 0.4 && high - low < 0.08, "{low} to {high}");
        // What is always the same is sure.
        let (low, high) = interval(60, |_| 400).unwrap();
        assert!((low - 0.4).abs() < 1e-9 && (high - 0.4).abs() < 1e-9, "{low} to {high}");
    }

    #[test]
    fn a_short_trace_says_nothing_about_others() {
        assert_eq!(interval(9, |_| 400), None);
        assert_eq!(confidence(&[], (0, 3600 * SECOND), SECOND), None);
        // All in one part.
        let (buckets, _) = buckets(3, |_| 100);
        assert_eq!(confidence(&buckets, (0, 24 * 3600 * SECOND), 60 * SECOND), None);
    }
}
