//! Which datagrams arrived: what a receiver reports, and what a sender makes of reports.

use std::ops::Range;
use std::time::{Duration, Instant};

/// Most ranges in an acknowledgment.
pub const MAX_RANGES: usize = 32;
/// A datagram counts as lost once one that was sent this many later has arrived. Far more than paths
/// reorder.
pub const LOST_AFTER: u64 = 256;
/// Datagrams of which all must have arrived so that a path counts as one that loses nothing. TCP fills
/// the queue before a bottleneck every few seconds: that must count as one path that loses, not as
/// many that do not.
pub(super) const RECENT: u64 = 1 << 15;
/// A datagram is suspected to be lost once one that was sent this many later has arrived, or a frame was
/// rejected that refers to it. Only [`Sent::loses`] depends on it: to be wrong costs little.
const SUSPECTED_AFTER: u64 = 64;
/// Counters behind the newest that are still reported. Each is reported while a sender may still
/// count it as lost, and then as often again, since an acknowledgment may be lost, too.
const REPORTED: u64 = 2 * LOST_AFTER;
/// Share of the received bytes that acknowledgments without other records may take: one in this many.
pub(super) const SHARE: u64 = 100;
/// Longest time until something received is acknowledged.
pub const MAX_DELAY: Duration = Duration::from_secs(1);
/// How long an acknowledgment that is paid for waits for a datagram that takes it along.
pub(super) const PAID_DELAY: Duration = Duration::from_millis(5);
/// Bytes of most acknowledgments.
pub(super) const TYPICAL: u64 = 16;

/// An acknowledgment: the counters that have arrived, of the newest ones.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Acknowledgment {
    /// Time since the largest counter arrived; a multiple of 64 us on the wire.
    pub delay: Duration,
    /// Ranges of counters, highest first, at most [`MAX_RANGES`], with gaps between them.
    pub ranges: Vec<Range<u64>>,
}

/// Adds a range to ascending disjoint ranges. Work is proportional to their number.
fn insert(ranges: &mut Vec<Range<u64>>, mut new: Range<u64>) {
    if new.is_empty() {
        return;
    }
    let from = ranges.partition_point(|range| range.end < new.start);
    let to = ranges.partition_point(|range| range.start <= new.end);
    if from < to {
        new = new.start.min(ranges[from].start)..new.end.max(ranges[to - 1].end);
    }
    ranges.splice(from..to, [new]);
}

/// The receiver's side.
#[derive(Debug, Default)]
pub(super) struct Received {
    /// Ascending, disjoint, at most [`MAX_RANGES`].
    ranges: Vec<Range<u64>>,
    largest_at: Option<Instant>,
}

impl Received {
    pub(super) fn insert(&mut self, counter: u64, now: Instant) {
        if self.ranges.last().is_none_or(|last| counter >= last.end) {
            self.largest_at = Some(now);
        }
        insert(&mut self.ranges, counter..counter + 1);
        let oldest = self.ranges.last().map_or(0, |last| last.end.saturating_sub(REPORTED));
        let mut dropped = self.ranges.partition_point(|range| range.end <= oldest);
        dropped = dropped.max(self.ranges.len().saturating_sub(MAX_RANGES));
        self.ranges.drain(..dropped);
    }

    /// Writes what is to be acknowledged over `into`.
    pub(super) fn report(&self, now: Instant, into: &mut Acknowledgment) {
        into.delay = self.largest_at.map_or(Duration::ZERO, |at| now.saturating_duration_since(at));
        into.ranges.clear();
        into.ranges.extend(self.ranges.iter().rev().cloned());
    }
}

/// The sender's side: counts what was lost on the path.
#[derive(Debug, Default)]
pub(super) struct Sent {
    /// Counters below this are decided.
    floor: u64,
    /// Acknowledged counters from the floor on: ascending and disjoint. They are fewer than
    /// [`LOST_AFTER`] after each acknowledgment.
    acknowledged: Vec<Range<u64>>,
    delivered: u64,
    lost: u64,
    /// The counter up to which all were decided when losses were counted last.
    last_lost: Option<u64>,
}

impl Sent {
    /// Takes an acknowledgment of datagrams below `next`, and passes the counters that are new, in
    /// ranges. Returns false if it is of others.
    pub(super) fn acknowledged(
        &mut self,
        acknowledgment: &Acknowledgment,
        next: u64,
        mut each: impl FnMut(Range<u64>),
    ) -> bool {
        let Some(largest) = acknowledgment.ranges.first() else { return true };
        if largest.end > next {
            return false;
        }
        // Lowest first, as content was sent.
        for range in acknowledgment.ranges.iter().rev() {
            let range = range.start.max(self.floor)..range.end;
            let mut from = range.start;
            let known = self.acknowledged.partition_point(|known| known.end <= from);
            for known in &self.acknowledged[known..] {
                if known.start >= range.end {
                    break;
                }
                if from < known.start {
                    each(from..known.start);
                }
                from = known.end;
            }
            if from < range.end {
                each(from..range.end);
            }
            insert(&mut self.acknowledged, range);
        }
        self.settle();
        true
    }

    /// A datagram has arrived, although it is not acknowledged.
    pub(super) fn arrived(&mut self, counter: u64) {
        if counter >= self.floor {
            insert(&mut self.acknowledged, counter..counter + 1);
            self.settle();
        }
    }

    /// Decides about counters far below the newest.
    fn settle(&mut self) {
        let newest = self.acknowledged.last().map_or(0, |last| last.end);
        let floor = newest.saturating_sub(LOST_AFTER).max(self.floor);
        let mut arrived = 0;
        self.acknowledged.retain_mut(|range| {
            arrived += range.end.min(floor).saturating_sub(range.start);
            range.start = range.start.max(floor);
            !range.is_empty()
        });
        self.delivered += arrived;
        let lost = floor - self.floor - arrived;
        self.lost += lost;
        self.floor = floor;
        let missing = match self.acknowledged.first() {
            Some(first) if first.start == floor => first.end,
            _ => floor,
        };
        if lost > 0 || missing + SUSPECTED_AFTER <= newest {
            self.suspect();
        }
    }

    /// Something was lost, as it seems.
    pub(super) fn suspect(&mut self) {
        self.last_lost = Some(self.floor);
    }

    /// Whether the path seems to have lost something when the [`RECENT`] newest datagrams that are
    /// decided were sent, or later.
    pub(super) fn loses(&self) -> bool {
        self.last_lost.is_some_and(|at| self.floor - at < RECENT)
    }

    /// Of datagrams with lower counters it is known whether they arrived.
    pub(super) fn settled(&self) -> u64 {
        self.floor
    }

    /// Datagrams of which it is known whether they arrived: how many did, and how many did not.
    pub(super) fn outcome(&self) -> (u64, u64) {
        (self.delivered, self.lost)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::link::testing::start;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    proptest! {
        #[test]
        fn ranges_are_a_set(inserted in proptest::collection::vec((0u64..100, 0u64..10), 0..40)) {
            let (mut ranges, mut set) = (Vec::new(), BTreeSet::new());
            for (start, len) in inserted {
                insert(&mut ranges, start..start + len);
                set.extend(start..start + len);
            }
            prop_assert_eq!(ranges.iter().cloned().flatten().collect::<Vec<_>>(), set.into_iter().collect::<Vec<_>>());
            for pair in ranges.windows(2) {
                prop_assert!(pair[0].end < pair[1].start);
            }
        }

        /// Whatever is lost, of data and of acknowledgments, the sender's counts are right in the end
        /// if the last acknowledgments arrive.
        #[test]
        fn losses_are_counted(lost in proptest::collection::vec(0u64..3000, 0..60), every in 1u64..40, acks_lost in proptest::collection::vec(any::<bool>(), 20)) {
            let lost: BTreeSet<u64> = lost.into_iter().collect();
            let (mut received, mut sent, mut ack) = (Received::default(), Sent::default(), Acknowledgment::default());
            let (now, mut news) = (start(), BTreeSet::new());
            for counter in 0..3000 + LOST_AFTER {
                if counter < 3000 && lost.contains(&counter) {
                    continue;
                }
                received.insert(counter, now);
                if counter % every == 0 && !acks_lost[(counter / every % 20) as usize] || counter >= 2999 {
                    received.report(now, &mut ack);
                    prop_assert!(ack.ranges.len() <= MAX_RANGES);
                    let known = sent.acknowledged(&ack, counter + 1, |new| {
                        for counter in new {
                            assert!(!lost.contains(&counter) && news.insert(counter), "{counter}");
                        }
                    });
                    prop_assert!(known);
                    prop_assert!(sent.acknowledged.len() <= LOST_AFTER as usize);
                }
            }
            let (delivered, counted) = sent.outcome();
            prop_assert_eq!(news.range(..3000).count() as u64, delivered);
            prop_assert_eq!(delivered + counted, 3000);
            // More holes than an acknowledgment has ranges, or a long silence, look like losses.
            prop_assert!(counted >= lost.len() as u64);
            if acks_lost.iter().all(|lost| !lost) {
                prop_assert_eq!(counted, lost.len() as u64);
            }
        }
    }

    #[test]
    fn a_gap_is_suspected_to_be_a_loss_before_it_counts() {
        let mut sent = Sent::default();
        let acknowledged = |sent: &mut Sent, ranges: &[(u64, u64)]| {
            let ranges = ranges.iter().map(|&(start, end)| start..end).collect();
            let ack = Acknowledgment { ranges, ..Acknowledgment::default() };
            assert!(sent.acknowledged(&ack, 1 << 20, |_| {}));
            (sent.loses(), sent.outcome().1)
        };
        assert_eq!(acknowledged(&mut sent, &[(0, 1000)]), (false, 0));
        assert_eq!(acknowledged(&mut sent, &[(1001, 1063)]), (false, 0), "reordered, perhaps");
        assert_eq!(acknowledged(&mut sent, &[(1063, 1064)]), (true, 0));
        // It was only late.
        assert_eq!(acknowledged(&mut sent, &[(1000, 1001)]), (true, 0));
        assert_eq!(acknowledged(&mut sent, &[(1000, RECENT)]), (true, 0));
        assert_eq!(acknowledged(&mut sent, &[(1000, 2000 + RECENT)]), (false, 0));
        sent.suspect();
        assert!(sent.loses());
    }

    #[test]
    fn what_was_not_sent_is_not_acknowledged() {
        let mut sent = Sent::default();
        let ack = Acknowledgment {
            ranges: std::iter::once(0..10).collect(),
            ..Acknowledgment::default()
        };
        assert!(!sent.acknowledged(&ack, 9, |_| panic!("they were not sent")));
        assert!(sent.acknowledged(&ack, 10, |_| {}));
    }
}
