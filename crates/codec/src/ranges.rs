//! A set of offsets, kept as disjoint ranges.

use std::ops::Range;

/// Disjoint, non-adjacent, ascending ranges of log offsets. Operations are linear in the number of
/// ranges, which is one in ordered use and bounded by the span otherwise.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct RangeSet {
    ranges: Vec<Range<u64>>,
}

impl RangeSet {
    /// Adds `new`, merging with what it overlaps or touches.
    pub(crate) fn insert(&mut self, new: Range<u64>) {
        if new.is_empty() {
            return;
        }
        let first = self.ranges.partition_point(|r| r.end < new.start);
        let last = self.ranges.partition_point(|r| r.start <= new.end);
        if first == last {
            self.ranges.insert(first, new);
            return;
        }
        let merged =
            self.ranges[first].start.min(new.start)..self.ranges[last - 1].end.max(new.end);
        self.ranges[first] = merged;
        self.ranges.drain(first + 1..last);
    }

    /// Memory as of now, in bytes.
    pub(crate) fn memory(&self) -> usize {
        self.ranges.capacity() * size_of::<Range<u64>>()
    }

    /// Removes everything below `floor`.
    pub(crate) fn remove_below(&mut self, floor: u64) {
        let gone = self.ranges.partition_point(|r| r.end <= floor);
        self.ranges.drain(..gone);
        if let Some(first) = self.ranges.first_mut() {
            first.start = first.start.max(floor);
        }
    }

    /// Removes everything at `end` and above.
    pub(crate) fn remove_from(&mut self, end: u64) {
        self.ranges.truncate(self.ranges.partition_point(|r| r.start < end));
        if let Some(last) = self.ranges.last_mut() {
            last.end = last.end.min(end);
        }
    }

    /// Whether every offset of `range` is in the set.
    pub(crate) fn contains(&self, range: &Range<u64>) -> bool {
        let at = self.ranges.partition_point(|r| r.end < range.end);
        range.is_empty() || self.ranges.get(at).is_some_and(|r| r.start <= range.start)
    }

    /// Whether any offset of `range` is in the set.
    pub(crate) fn overlaps(&self, range: &Range<u64>) -> bool {
        let at = self.ranges.partition_point(|r| r.end <= range.start);
        !range.is_empty() && self.ranges.get(at).is_some_and(|r| r.start < range.end)
    }

    /// The end of the range that holds or touches `offset`, or `offset` itself.
    pub(crate) fn contiguous_from(&self, offset: u64) -> u64 {
        let at = self.ranges.partition_point(|r| r.end < offset);
        self.ranges.get(at).filter(|r| r.start <= offset).map_or(offset, |r| r.end)
    }

    /// Adds the parts of `range` that are not in the set to `holes`.
    pub(crate) fn holes_in(&self, range: &Range<u64>, holes: &mut RangeSet) {
        let mut at = range.start;
        let first = self.ranges.partition_point(|r| r.end <= range.start);
        for held in &self.ranges[first..] {
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
        &self.ranges
    }

    pub(crate) fn clear(&mut self) {
        self.ranges.clear();
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
            inserts in proptest::collection::vec(small_range(), 0..12),
            floor in 0u64..40,
            end in 20u64..80,
            probe in small_range(),
        ) {
            let (mut set, mut naive) = (RangeSet::default(), BTreeSet::new());
            for range in inserts {
                naive.extend(range.clone());
                set.insert(range);
            }
            set.remove_below(floor);
            set.remove_from(end);
            naive.retain(|&x| x >= floor && x < end);

            let listed: BTreeSet<u64> = set.as_slice().iter().cloned().flatten().collect();
            prop_assert_eq!(&listed, &naive);
            prop_assert!(set.as_slice().windows(2).all(|w| w[0].end < w[1].start));

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
        }
    }
}
