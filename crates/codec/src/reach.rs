//! What of an encoder's log the decoder has, where frames may be lost.
//!
//! Every hit of a matcher passes [`Log::extent`](crate::Log::extent), which divides the log by what
//! is here, as it does by domains: so no match begins or grows where it must not.

use crate::ranges::RangeSet;
use std::ops::Range;

/// What of its own past an encoder of datagrams refers to: the policies of Santos and Wetherall,
/// section 3.1.3.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Reach {
    /// Everything that was sent, but what was withdrawn. Their default policy.
    #[default]
    Sent,
    /// Only what the decoder has acknowledged.
    Acknowledged,
}

/// What is known of the decoder's log.
#[derive(Clone, Debug)]
pub(crate) struct Delivery {
    pub(crate) reach: Reach,
    acknowledged: RangeSet,
    withdrawn: RangeSet,
    /// End of the highest range that was acknowledged.
    highest: u64,
    /// Most ranges of each set.
    limit: usize,
    /// How often something was withdrawn.
    withdrawals: u64,
}

/// Ranges that a log of any size may have, here and at a decoder.
const MIN_RANGES: u64 = 1 << 16;
/// Bytes of log for each further range.
const BYTES_PER_RANGE: u64 = 1 << 14;

/// Most separate ranges that are kept of a log of `capacity` bytes: at a loss of 5 % it has half as
/// many holes, if datagrams have 1,400 bytes.
pub(crate) fn most_ranges(capacity: u64) -> usize {
    usize::try_from((capacity / BYTES_PER_RANGE).max(MIN_RANGES)).unwrap_or(usize::MAX)
}

/// Upper bound in bytes of a set of ranges of such a log.
pub(crate) fn most_ranges_memory(capacity: u64) -> usize {
    (most_ranges(capacity) + 8).saturating_mul(2 * size_of::<Range<u64>>())
}

impl Delivery {
    /// Nothing is known yet of a log of `capacity` bytes.
    pub(crate) fn new(capacity: u64) -> Delivery {
        Delivery {
            reach: Reach::default(),
            acknowledged: RangeSet::default(),
            withdrawn: RangeSet::default(),
            highest: 0,
            limit: most_ranges(capacity),
            withdrawals: 0,
        }
    }

    /// The decoder has `range`. Adds what of it was not acknowledged before to `new`. What lies
    /// below `floor` has left the log.
    pub(crate) fn acknowledge(&mut self, range: Range<u64>, floor: u64, new: &mut RangeSet) {
        self.forget(floor);
        let range = range.start.max(floor)..range.end;
        if range.is_empty() {
            return;
        }
        self.acknowledged.holes_in(&range, new);
        self.highest = self.highest.max(range.end);
        self.acknowledged.insert(range);
        // The oldest leaves the log first anyway.
        while self.acknowledged.count() > self.limit {
            self.acknowledged.remove_below(self.acknowledged.as_slice()[0].end);
        }
    }

    /// Nothing refers to `range` any more.
    pub(crate) fn withdraw(&mut self, range: Range<u64>, floor: u64) {
        self.forget(floor);
        self.withdrawals += 1;
        self.withdrawn.insert(range.start.max(floor)..range.end);
        // Rather too much than too little: what lies between the oldest goes with them.
        while self.withdrawn.count() > self.limit
            && let [first, second, ..] = self.withdrawn.as_slice()
        {
            let between = first.end..second.start;
            self.withdrawn.insert(between);
        }
    }

    fn forget(&mut self, floor: u64) {
        self.acknowledged.remove_below(floor);
        self.withdrawn.remove_below(floor);
    }

    /// What may be referred to around `offset`.
    pub(crate) fn around(&self, offset: u64) -> Option<Range<u64>> {
        let legal = self.withdrawn.hole_around(offset)?;
        match self.reach {
            Reach::Sent => Some(legal),
            Reach::Acknowledged => {
                let held = self.acknowledged.around(offset)?;
                Some(legal.start.max(held.start)..legal.end.min(held.end))
            }
        }
    }

    /// Whether something of `range` was withdrawn.
    pub(crate) fn is_withdrawn(&self, range: &Range<u64>) -> bool {
        self.withdrawn.overlaps(range)
    }

    pub(crate) fn withdrawals(&self) -> u64 {
        self.withdrawals
    }

    pub(crate) fn highest(&self) -> u64 {
        self.highest
    }

    /// Memory as of now, in bytes.
    pub(crate) fn memory(&self) -> usize {
        self.acknowledged.memory() + self.withdrawn.memory()
    }
}

#[cfg(test)]
#[allow(clippy::single_range_in_vec_init)] // Lists of ranges are what is compared.
mod tests {
    use super::*;

    fn acknowledge(delivery: &mut Delivery, range: Range<u64>) -> Vec<Range<u64>> {
        let mut new = RangeSet::default();
        delivery.acknowledge(range, 0, &mut new);
        new.as_slice().to_vec()
    }

    #[test]
    fn what_was_withdrawn_stays_so_whatever_is_acknowledged() {
        let mut delivery = Delivery::new(1 << 20);
        assert_eq!(delivery.around(150), Some(0..u64::MAX));
        delivery.withdraw(100..200, 0);
        assert_eq!(acknowledge(&mut delivery, 50..300), vec![50..300]);
        for reach in [Reach::Sent, Reach::Acknowledged] {
            delivery.reach = reach;
            assert_eq!((delivery.around(100), delivery.around(199)), (None, None));
        }
        assert_eq!((delivery.around(99), delivery.around(200)), (Some(50..100), Some(200..300)));
        assert_eq!((delivery.around(49), delivery.around(300)), (None, None));
        delivery.reach = Reach::Sent;
        assert_eq!((delivery.around(0), delivery.around(300)), (Some(0..100), Some(200..u64::MAX)));
    }

    #[test]
    fn only_news_are_reported() {
        let mut delivery = Delivery::new(1 << 20);
        assert_eq!(acknowledge(&mut delivery, 10..20), vec![10..20]);
        assert_eq!(acknowledge(&mut delivery, 10..20), vec![]);
        assert_eq!(acknowledge(&mut delivery, 5..25), vec![5..10, 20..25]);
        assert_eq!(delivery.highest(), 25);
    }

    #[test]
    fn many_holes_forget_the_oldest_and_withdraw_what_lies_between() {
        let mut delivery = Delivery::new(1);
        delivery.limit = 3;
        for at in 0..5 {
            acknowledge(&mut delivery, at * 100 + 50..at * 100 + 60);
            delivery.withdraw(at * 100..at * 100 + 10, 0);
        }
        delivery.reach = Reach::Acknowledged;
        let reached: Vec<u64> =
            (0..5).filter(|at| delivery.around(at * 100 + 50).is_some()).collect();
        assert_eq!(reached, [2, 3, 4], "two are forgotten, and lie between withdrawn ranges");
        delivery.reach = Reach::Sent;
        let reached: Vec<u64> =
            (0..5).filter(|at| delivery.around(at * 100 + 20).is_some()).collect();
        assert_eq!(reached, [2, 3, 4]);
        assert!((0..5).all(|at| delivery.is_withdrawn(&(at * 100..at * 100 + 1))));
    }
}
