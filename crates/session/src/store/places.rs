//! Where both ends of a log can go on: block ends whose chain is known.

use super::Place;
use std::collections::VecDeque;

/// A block that ends at a multiple of this many bytes, or crosses one, ends at a place. Both ends
/// of a log find the same places.
const GRID: u64 = 64 << 10;
/// Most places that HELLO names.
pub(crate) const MAX_PLACES: usize = 64;
/// The newest places are named one after the other.
const NEWEST: usize = 32;

/// The places of a log, in ascending order: 16 bytes for 64 KiB of log.
#[derive(Clone, Debug, Default)]
pub(crate) struct Places(VecDeque<Place>);

impl Places {
    /// Of a log that was restored.
    pub(super) fn new(places: Vec<Place>) -> Places {
        Places(places.into())
    }

    /// A block that follows the one that ended at `before` ends at `end`, in a log of `capacity`
    /// bytes. Returns whether that is a place.
    pub(crate) fn pass(&mut self, before: u64, end: Place, capacity: u64) -> bool {
        let is_place = before / GRID != end.offset / GRID;
        if is_place {
            self.0.push_back(end);
            // Nothing is left of the log below.
            while self.0.front().is_some_and(|first| first.offset + capacity <= end.offset) {
                self.0.pop_front();
            }
        }
        is_place
    }

    /// The place at an offset, if there is one.
    pub(crate) fn at(&self, offset: u64) -> Option<Place> {
        let found = self.0.binary_search_by_key(&offset, |place| place.offset).ok()?;
        self.0.get(found).copied()
    }

    /// The log ends at `offset` now.
    pub(crate) fn rewind(&mut self, offset: u64) {
        while self.0.back().is_some_and(|last| last.offset > offset) {
            self.0.pop_back();
        }
    }

    pub(crate) fn clear(&mut self) {
        self.0.clear();
    }

    /// Those that HELLO names, at most [`MAX_PLACES`]: the newest, then each twice as far back as
    /// the one before. None below `from`.
    pub(crate) fn named(&self, from: u64) -> Vec<Place> {
        let back = (0..NEWEST).chain((0..).map_while(|more| (NEWEST + 1).checked_shl(more)));
        back.map_while(|back| self.0.len().checked_sub(back + 1))
            .take(MAX_PLACES)
            .map(|at| self.0[at])
            .take_while(|place| place.offset > from)
            .collect()
    }

    /// Memory in bytes.
    pub(crate) fn memory(&self) -> u64 {
        (self.0.capacity() * size_of::<Place>()) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn passed(blocks: usize, len: u64, capacity: u64) -> Places {
        let mut places = Places::default();
        for nth in 0..blocks as u64 {
            let end = Place { offset: (nth + 1) * len, chain: nth };
            places.pass(nth * len, end, capacity);
        }
        places
    }

    #[test]
    fn a_block_that_crosses_the_grid_ends_at_a_place() {
        let places = passed(10, 30_000, 1 << 20);
        assert_eq!(places.0.iter().map(|place| place.chain).collect::<Vec<_>>(), [2, 4, 6, 8]);
        assert_eq!(places.at(150_000), Some(Place { offset: 150_000, chain: 4 }));
        assert_eq!((places.at(180_000), places.at(150_001)), (None, None));
        let mut places = passed(100, 65_536, 1 << 20);
        assert_eq!(places.0.len(), 16, "a log has no more");
        places.rewind(98 * 65_536);
        assert_eq!(places.0.back(), Some(&Place { offset: 98 * 65_536, chain: 97 }));
    }

    #[test]
    fn a_hello_names_the_newest_places_and_some_of_the_older_ones() {
        assert!(passed(0, 1, 1 << 20).named(0).is_empty());
        let all = passed(5, 65_536, 1 << 20);
        let chains = |places: &[Place]| places.iter().map(|place| place.chain).collect::<Vec<_>>();
        assert_eq!(chains(&all.named(0)), [4, 3, 2, 1, 0]);
        assert_eq!(chains(&all.named(3 * 65_536)), [4, 3]);
        let many = passed(100_000, 65_536, 1 << 40).named(0);
        assert_eq!(many.len(), 44);
        assert_eq!(chains(&many)[30..36], [99_969, 99_968, 99_966, 99_933, 99_867, 99_735]);
        assert!(many.windows(2).all(|two| two[0].offset > two[1].offset));
        assert!(many.len() <= MAX_PLACES);
    }
}
