//! Savings over time of an algorithm that knows only later what a packet saves: the tunnel.

use super::buckets::{Sums, total_of};
use super::certainty;
use super::clock::{self, Clock};
use crate::batch::Direction;

/// Fewest buckets with packets for a range of savings over time.
const FEW_FOR_A_RANGE: u64 = 20;

/// Shortest trace in nanoseconds that has one: of a shorter one, parts are single round trips.
const SHORTEST: i64 = 60 * super::SECOND;

/// Bytes on the wire and bytes saved over time, in bounded memory.
#[derive(Debug)]
pub(crate) struct Series {
    /// Time of the first packet, where buckets begin.
    start: Option<i64>,
    /// Times of the earliest and the latest packet, in nanoseconds from `start`.
    span: (i64, i64),
    /// With the bytes saved in the place of the reduced ones.
    sums: Sums,
}

/// Savings over time, over all directions.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct SavingsOverTime {
    /// Tenth and ninetieth percentile, weighted by bytes.
    pub(crate) range: Option<(f64, f64)>,
    /// Width in seconds of the parts that it is of.
    pub(crate) width: f64,
    /// The 95 % confidence interval of the savings.
    pub(crate) confidence: Option<(f64, f64)>,
    pub(crate) billed: Option<Billed>,
}

/// The 95th percentile of the volume in buckets, before and after, in bits per second.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Billed {
    /// Width of the buckets in seconds.
    pub(crate) bucket: f64,
    pub(crate) before: f64,
    pub(crate) after: f64,
}

impl Series {
    /// `memory` in bytes is for buckets. If they do not fit, they get wider.
    pub(crate) fn new(memory: u64) -> Series {
        Series { start: None, span: (0, 0), sums: Sums::new(memory) }
    }

    /// Adds the bytes of a packet on the wire.
    pub(crate) fn packet(&mut self, time: i64, direction: Direction, wire: u64) {
        let start = *self.start.get_or_insert(time);
        let time = time.saturating_sub(start);
        self.span = (self.span.0.min(time), self.span.1.max(time));
        self.sums.add(time, direction, wire, 0);
    }

    /// Adds bytes saved of packets at that time.
    pub(crate) fn saved(&mut self, time: i64, direction: Direction, bytes: u64) {
        let time = time.saturating_sub(self.start.unwrap_or(time));
        self.sums.add(time.clamp(self.span.0, self.span.1), direction, 0, bytes);
    }

    pub(crate) fn finish(&mut self) -> SavingsOverTime {
        self.sums.flush();
        self.sums.put_together();
        let mut buckets = total_of(&self.sums.buckets);
        // A block saves bytes of packets after the one that it begins with, so what a bucket cannot
        // have saved belongs to the next.
        let mut saved = 0;
        for bucket in &mut buckets {
            saved += bucket.reduced;
            bucket.reduced = bucket.original.saturating_sub(saved);
            saved = saved.saturating_sub(bucket.original);
        }
        buckets.retain(|bucket| bucket.original > 0);
        let clock = Clock { span: self.span, base: self.sums.width };
        let spread = clock.spread(&buckets);
        let [low, _, high] = spread.percentiles;
        let is_long = self.span.1.saturating_sub(self.span.0) >= SHORTEST;
        let percentiles = clock.percentiles(&buckets);
        let billed = super::billed(&percentiles).map(|of| {
            let (before, after) = of.rates[2];
            Billed { bucket: of.width, before, after }
        });
        SavingsOverTime {
            range: low.zip(high).filter(|_| is_long && spread.buckets >= FEW_FOR_A_RANGE),
            width: spread.width,
            confidence: certainty::confidence(&buckets, self.span, self.sums.width),
            billed: billed.filter(|of| of.bucket >= 60.0 && of.before > 0.0),
        }
    }
}

impl Billed {
    /// Share that the 95th percentile falls by.
    pub(crate) fn savings(&self) -> f64 {
        clock::saved(self.before, self.after).unwrap_or(0.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn busy_minutes_that_repeat_nothing_decide_the_bill() {
        let mut series = Series::new(1 << 20);
        // 100 minutes; every tenth carries ten times as much, and saves nothing.
        for minute in 0..100 {
            let time = minute * 60_000_000_000;
            let busy = minute % 10 == 0;
            series.packet(time, Direction::All, if busy { 10_000 } else { 1000 });
            if !busy {
                // A block that is encoded after a later packet came.
                series.packet(time + 1, Direction::All, 0);
                series.saved(time, Direction::All, 900);
            }
        }
        series.packet(100 * 60_000_000_000 - 1, Direction::All, 1);
        let found = series.finish();
        assert_eq!(found.range, Some((0.0, 0.9)));
        let billed = found.billed.unwrap();
        // Buckets of five minutes: 14,000 bytes become 10,400 in half of them.
        assert_eq!((billed.bucket, billed.before), (300.0, 14_000.0 * 8.0 / 300.0));
        assert!((billed.savings() - 3600.0 / 14_000.0).abs() < 1e-9, "{billed:?}");
    }

    #[test]
    fn a_block_saves_bytes_of_packets_that_follow() {
        let mut series = Series::new(1 << 20);
        for second in 0..100 {
            let time = second * 1_000_000_000;
            // All bytes of ten packets, 1 ms and up to two buckets apart, but 500.
            for packet in 0..10 {
                series.packet(time + packet * 1_000_000 + 5_000_000, Direction::All, 1000);
            }
            series.saved(time + 5_000_000, Direction::All, 9500);
        }
        assert_eq!(series.finish().range, Some((0.95, 0.95)));
    }

    #[test]
    fn a_short_trace_has_neither() {
        let mut series = Series::new(0);
        assert_eq!(series.finish().range, None);
        series.saved(5, Direction::All, 7);
        for time in 0..10 {
            series.packet(time * 1_000_000, Direction::All, 100);
            series.saved(i64::MIN, Direction::All, u64::from(u32::MAX));
        }
        let found = series.finish();
        assert_eq!((found.range, found.confidence, found.billed), (None, None, None));
    }
}
