//! A set of offsets, kept as disjoint ranges.

use std::ops::Range;

/// Disjoint, non-adjacent, ascending ranges of log offsets. There is one in ordered use; a log with
/// holes has tens of thousands, at most as many as its owner admits.
///
/// A look-up is a binary search. An insertion moves the ranges above it, so it is cheap near the
/// highest ones, where datagrams arrive. Ranges removed at the low end keep their places until they
/// are a quarter of all: so removing one moves nothing most of the time.
#[derive(Clone, Debug, Default)]
pub(crate) struct RangeSet {
    ranges: Vec<Range<u64>>,
    /// Ranges before this one were removed.
    first: usize,
}

impl PartialEq for RangeSet {
    fn eq(&self, other: &RangeSet) -> bool {
        self.as_slice() == other.as_slice()
    }
}

impl Eq for RangeSet {}

impl RangeSet {
    /// Adds `new`, merging with what it overlaps or touches.
    pub(crate) fn insert(&mut self, new: Range<u64>) {
        if new.is_empty() {
            return;
        }
        let first = self.first + self.as_slice().partition_point(|r| r.end < new.start);
        let last = self.first + self.as_slice().partition_point(|r| r.start <= new.end);
        if first == last {
            self.make_room();
            // Making room may have moved them.
            let at = self.first + self.as_slice().partition_point(|r| r.end < new.start);
            self.ranges.insert(at, new);
            return;
        }
        let merged =
            self.ranges[first].start.min(new.start)..self.ranges[last - 1].end.max(new.end);
        self.ranges[first] = merged;
        self.ranges.drain(first + 1..last);
    }

    /// Room for one more. Together with [`RangeSet::give_back`] it keeps the memory below that of
    /// twice as many ranges as the set ever had at once.
    fn make_room(&mut self) {
        if self.ranges.len() == self.ranges.capacity() {
            self.give_back();
            self.ranges.reserve_exact((self.ranges.len() / 2).max(4));
        }
    }

    /// Uses the places of removed ranges again, if they are a quarter of all.
    fn give_back(&mut self) {
        if self.first > 0 && self.first * 4 >= self.ranges.len() {
            self.ranges.drain(..self.first);
            self.first = 0;
        }
    }

    /// Memory as of now, in bytes.
    pub(crate) fn memory(&self) -> usize {
        self.ranges.capacity() * size_of::<Range<u64>>()
    }

    /// Number of ranges.
    pub(crate) fn count(&self) -> usize {
        self.ranges.len() - self.first
    }

    /// Removes everything below `floor`.
    pub(crate) fn remove_below(&mut self, floor: u64) {
        self.first += self.as_slice().partition_point(|r| r.end <= floor);
        self.give_back();
        if let Some(first) = self.ranges.get_mut(self.first) {
            first.start = first.start.max(floor);
        }
    }

    /// Removes everything at `end` and above.
    pub(crate) fn remove_from(&mut self, end: u64) {
        let left = self.as_slice().partition_point(|r| r.start < end);
        self.ranges.truncate(self.first + left);
        if let Some(last) = self.ranges[self.first..].last_mut() {
            last.end = last.end.min(end);
        }
    }

    /// Whether every offset of `range` is in the set.
    pub(crate) fn contains(&self, range: &Range<u64>) -> bool {
        let ranges = self.as_slice();
        let at = ranges.partition_point(|r| r.end < range.end);
        range.is_empty() || ranges.get(at).is_some_and(|r| r.start <= range.start)
    }

    /// Whether any offset of `range` is in the set.
    pub(crate) fn overlaps(&self, range: &Range<u64>) -> bool {
        let ranges = self.as_slice();
        let at = ranges.partition_point(|r| r.end <= range.start);
        !range.is_empty() && ranges.get(at).is_some_and(|r| r.start < range.end)
    }

    /// The range of the set that holds `offset`.
    pub(crate) fn around(&self, offset: u64) -> Option<&Range<u64>> {
        let ranges = self.as_slice();
        ranges.get(ranges.partition_point(|r| r.end <= offset)).filter(|r| r.start <= offset)
    }

    /// The largest range around `offset` that shares nothing with the set; `None` if the set holds
    /// `offset`.
    pub(crate) fn hole_around(&self, offset: u64) -> Option<Range<u64>> {
        let ranges = self.as_slice();
        let at = ranges.partition_point(|r| r.end <= offset);
        let start = at.checked_sub(1).map_or(0, |before| ranges[before].end);
        let end = ranges.get(at).map_or(u64::MAX, |r| r.start);
        (offset < end).then_some(start..end)
    }

    /// The end of the range that holds or touches `offset`, or `offset` itself.
    pub(crate) fn contiguous_from(&self, offset: u64) -> u64 {
        let ranges = self.as_slice();
        let at = ranges.partition_point(|r| r.end < offset);
        ranges.get(at).filter(|r| r.start <= offset).map_or(offset, |r| r.end)
    }

    /// Adds the parts of `range` that are not in the set to `holes`.
    pub(crate) fn holes_in(&self, range: &Range<u64>, holes: &mut RangeSet) {
        let mut at = range.start;
        let ranges = self.as_slice();
        for held in &ranges[ranges.partition_point(|r| r.end <= range.start)..] {
            if held.start >= range.end {
                break;
            }
            if at < held.start {
                holes.insert(at..held.start);
            }
            at = held.end;
        }
        if at < range.end {
            holes.insert(at..range.end);
        }
    }

    /// The ranges in ascending order.
    pub(crate) fn as_slice(&self) -> &[Range<u64>] {
        &self.ranges[self.first..]
    }

    pub(crate) fn clear(&mut self) {
        self.ranges.clear();
        self.first = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    fn small_range() -> impl Strategy<Value = Range<u64>> {
        (0u64..60, 0u64..12).prop_map(|(start, len)| start..start + len)
    }

    proptest! {
        #[test]
        fn behaves_like_a_set_of_numbers(
            rounds in proptest::collection::vec(
                (proptest::collection::vec(small_range(), 0..12), 0u64..40, 20u64..80), 1..4),
            probe in small_range(),
        ) {
            let (mut set, mut naive) = (RangeSet::default(), BTreeSet::new());
            for (inserts, floor, end) in rounds {
                for range in inserts {
                    naive.extend(range.clone());
                    set.insert(range);
                }
                set.remove_below(floor);
                set.remove_from(end);
                naive.retain(|&x| x >= floor && x < end);
            }

            let listed: BTreeSet<u64> = set.as_slice().iter().cloned().flatten().collect();
            prop_assert_eq!(&listed, &naive);
            prop_assert!(set.as_slice().windows(2).all(|w| w[0].end < w[1].start));
            prop_assert!(set.as_slice().iter().all(|range| !range.is_empty()));
            prop_assert_eq!(set.count(), set.as_slice().len());

            prop_assert_eq!(set.contains(&probe), probe.clone().all(|x| naive.contains(&x)));
            prop_assert_eq!(set.overlaps(&probe), probe.clone().any(|x| naive.contains(&x)));
            let mut holes = RangeSet::default();
            set.holes_in(&probe, &mut holes);
            let holes: BTreeSet<u64> = holes.as_slice().iter().cloned().flatten().collect();
            prop_assert_eq!(holes, probe.clone().filter(|x| !naive.contains(x)).collect::<BTreeSet<_>>());
            let mut end = probe.start;
            while naive.contains(&end) {
                end += 1;
            }
            prop_assert_eq!(set.contiguous_from(probe.start), end);

            let at = probe.start;
            let reach = |inside: bool| {
                let same = |x: &u64| naive.contains(x) == inside;
                let start = (0..at).rev().find(|x| !same(x)).map_or(0, |x| x + 1);
                let end = (at..100).find(|x| !same(x)).unwrap_or(u64::MAX);
                same(&at).then_some(start..end)
            };
            prop_assert_eq!(set.around(at).cloned(), reach(true));
            prop_assert_eq!(set.hole_around(at), reach(false));
        }
    }

    /// As a decoder's set while 5 % of its datagrams are lost: 38,000 holes in a log of 1 GiB.
    #[test]
    fn a_window_with_many_holes_takes_memory_for_those_only() {
        const HOLES: u64 = 38_000;
        let mut set = RangeSet::default();
        for turn in 0..5 * HOLES {
            let start = turn * 28_000;
            set.insert(start..start + 26_600);
            set.remove_below((start + 26_600).saturating_sub(28_000 * HOLES));
            assert!(set.count() as u64 <= HOLES + 1);
        }
        assert_eq!(set.count() as u64, HOLES);
        assert!(set.memory() <= 2 * (HOLES as usize + 1) * size_of::<Range<u64>>());
    }
}
