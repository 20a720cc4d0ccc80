//! Notices that a path no longer carries large datagrams, though it carries small ones: a black hole
//! (RFC 8899 section 4.3).

use super::acks::{Acknowledgment, MAX_DELAY};
use std::ops::Range;
use std::time::{Duration, Instant};

/// Datagrams up to this many bytes count as small: every path carries them (RFC 9000 section 14).
pub const SMALL_DATAGRAM: usize = 1200;
/// Large datagrams that must all be missing. RFC 8899, section 5.1.2, takes three probes.
const SAMPLES: usize = 4;
/// Least time between them: not all in one burst of losses.
const APART: Duration = Duration::from_millis(500);
/// Time within which the newest of them would have been acknowledged.
const ANSWER: Duration = MAX_DELAY.saturating_mul(2);

/// Counters of which it is known whether the datagram was large. Acknowledgments name fewer.
const REMEMBERED: u64 = 4096;
const WORDS: usize = REMEMBERED as usize / 64;
/// Datagrams at most so much shorter than the largest count as large: full packets are, with as much
/// of their headers left out.
const NEARLY: usize = 96;

/// Watches the largest datagrams that are sent.
#[derive(Clone, Debug)]
pub(super) struct BlackHole {
    /// Length from which on a datagram is large.
    large: usize,
    /// Counter and time of some of them, ascending, since the last large one that arrived.
    samples: [Option<(u64, Instant)>; SAMPLES],
    count: usize,
    /// Whether anything has arrived that was sent after the newest sample.
    small_arrived: bool,
    /// A bit for each of the newest counters: was it large?
    bits: [u64; WORDS],
}

impl BlackHole {
    /// For datagrams of up to `largest` bytes.
    pub(super) fn new(largest: usize) -> BlackHole {
        BlackHole {
            large: (largest.saturating_sub(NEARLY)).max(SMALL_DATAGRAM + 1),
            samples: [None; SAMPLES],
            count: 0,
            small_arrived: false,
            bits: [0; WORDS],
        }
    }

    /// Notes a datagram. Counters are consecutive.
    pub(super) fn sent(&mut self, counter: u64, len: usize, now: Instant) {
        let is_large = len >= self.large;
        let (word, bit) = ((counter / 64) as usize % WORDS, counter % 64);
        self.bits[word] = self.bits[word] & !(1 << bit) | u64::from(is_large) << bit;
        if !is_large || self.count == SAMPLES {
            return;
        }
        let newest = self.count.checked_sub(1).and_then(|at| self.samples[at]);
        if newest.is_none_or(|(_, at)| now.saturating_duration_since(at) >= APART) {
            self.samples[self.count] = Some((counter, now));
            self.count += 1;
        }
    }

    /// Notes what has arrived, of datagrams below `next`.
    pub(super) fn acknowledged(&mut self, acknowledgment: &Acknowledgment, next: u64) {
        for range in &acknowledgment.ranges {
            self.arrived(range.clone(), next);
        }
        let newest = self.samples[SAMPLES - 1];
        let largest = acknowledgment.ranges.first().map_or(0, |range| range.end);
        self.small_arrived |= newest.is_some_and(|(counter, _)| largest > counter);
    }

    /// Notes that these datagrams have arrived, of those below `next`.
    pub(super) fn arrived(&mut self, counters: Range<u64>, next: u64) {
        let Some((first, _)) = self.samples[0] else { return };
        let least = first.max(next.saturating_sub(REMEMBERED));
        if self.has_large(counters.start.max(least)..counters.end.min(next)) {
            (self.samples, self.count, self.small_arrived) = ([None; SAMPLES], 0, false);
        }
    }

    /// Whether one of these counters, which are remembered, was that of a large datagram.
    fn has_large(&self, range: Range<u64>) -> bool {
        let mut at = range.start;
        while at < range.end {
            let end = range.end.min((at / 64 + 1) * 64);
            let mask = (u64::MAX >> (64 - (end - at))) << (at % 64);
            if self.bits[(at / 64) as usize % WORDS] & mask != 0 {
                return true;
            }
            at = end;
        }
        false
    }

    /// Whether large datagrams are lost while others arrive. `heard` is when the peer was last heard
    /// from by other means.
    pub(super) fn is_suspected(&self, heard: Option<Instant>, now: Instant) -> bool {
        let Some((_, newest)) = self.samples[SAMPLES - 1] else { return false };
        let answered = now.saturating_duration_since(newest) >= ANSWER;
        answered && (self.small_arrived || heard.is_some_and(|heard| heard >= newest + ANSWER))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::link::testing::start;
    use proptest::prelude::*;

    /// Sends a large and a small datagram every 100 ms for 5 s, of which those arrive that `arrives`
    /// accepts by length and time. Returns when a black hole was suspected first.
    fn suspected(arrives: impl Fn(usize, Duration) -> bool, heard: bool) -> Option<Duration> {
        let (begin, mut hole) = (start(), BlackHole::new(1410));
        for step in 0..60u64 {
            let after = Duration::from_millis(100) * step as u32;
            let now = begin + after;
            for (counter, len) in [(2 * step, 1400), (2 * step + 1, 100)] {
                hole.sent(counter, len, now);
                if arrives(len, after) {
                    let ranges = std::iter::once(counter..counter + 1).collect();
                    hole.acknowledged(
                        &Acknowledgment { delay: Duration::ZERO, ranges },
                        counter + 1,
                    );
                }
            }
            if hole.is_suspected(heard.then_some(now), now) {
                return Some(after);
            }
        }
        None
    }

    #[test]
    fn a_black_hole_is_noticed_within_four_seconds() {
        let from_one_second = |len, after: Duration| len <= SMALL_DATAGRAM || after.as_secs() < 1;
        let at = suspected(from_one_second, false).unwrap();
        assert!((3000..=4700).contains(&at.as_millis()), "{at:?}");
    }

    /// Nothing but large datagrams is sent, so nothing is acknowledged; but QUIC still answers.
    #[test]
    fn what_is_heard_otherwise_counts_too() {
        assert!(suspected(|_, _| false, true).is_some());
    }

    proptest! {
        #[test]
        fn large_counters_are_found(large in proptest::collection::btree_set(0u64..5000, 0..20), start in 900u64..5000, len in 0u64..600) {
            let mut hole = BlackHole::new(1400);
            let now = self::start();
            for counter in 0..5000 {
                hole.sent(counter, if large.contains(&counter) { 1400 } else { 1300 }, now);
            }
            let range = start..(start + len).min(5000);
            prop_assert_eq!(hole.has_large(range.clone()), range.start < range.end && large.range(range).next().is_some());
        }
    }

    /// A datagram that is not acknowledged since its content could not be used has arrived.
    #[test]
    fn a_rejection_shows_that_a_large_datagram_arrived() {
        let (begin, mut hole) = (start(), BlackHole::new(1410));
        for step in 0..60u64 {
            let now = begin + Duration::from_millis(100) * step as u32;
            hole.sent(step, 1400, now);
            assert!(!hole.is_suspected(Some(now), now), "{step}");
            if step % 10 == 9 {
                hole.arrived(step - 5..step - 4, step + 1);
            }
        }
    }

    #[test]
    fn other_losses_are_no_black_hole() {
        assert_eq!(suspected(|_, _| true, true), None);
        assert_eq!(suspected(|_, _| false, false), None, "nothing arrives: the path is down");
        let every_second = |_, after: Duration| after.as_millis().is_multiple_of(1000);
        assert_eq!(suspected(every_second, true), None, "most is lost, some large ones arrive");
        let outage = |_, after: Duration| !(1..3).contains(&after.as_secs());
        assert_eq!(suspected(outage, false), None, "an outage of 2 s");
    }
}
