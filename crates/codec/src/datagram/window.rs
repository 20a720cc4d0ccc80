//! The decoder's log where datagrams are lost: a ring with holes, which follows the highest offset.

use super::frame::SentOffset;
use crate::error::FrameError;
use crate::limits::MAX_OFFSET;
use crate::log::Log;
use crate::matcher::Match;
use crate::ranges::RangeSet;
use crate::reach::most_ranges;
use std::ops::Range;

/// Datagrams whose ends of content are remembered: as many as the replay window of a link admits.
pub(super) const REMEMBERED: u64 = 8192;

/// Most missing ranges that are named. A rejection has room for a few only, and a hostile frame may
/// lack one for every three of its bytes.
pub(super) const MOST_MISSING: usize = 64;

/// The log of a decoder, of which any part may be missing.
///
/// New content is stored wherever nothing is held, up to one span below the highest content seen:
/// content lower than that may overwrite what frames still refer to ([`Geometry::floor`]).
///
/// [`Geometry::floor`]: crate::Geometry::floor
pub(super) struct Window {
    pub(super) log: Log,
    held: RangeSet,
    /// Most ranges of `held`.
    limit: usize,
    ends: Ends,
}

impl Window {
    pub(super) fn new(log: Log) -> Window {
        let limit = most_ranges(log.geometry().capacity());
        Window { log, held: RangeSet::default(), limit, ends: Ends::new() }
    }

    /// The ranges that the log holds.
    pub(super) fn held(&self) -> &[Range<u64>] {
        self.held.as_slice()
    }

    /// Whether the log holds all of `range`.
    pub(super) fn holds(&self, range: &Range<u64>) -> bool {
        self.held.contains(range)
    }

    /// The offset of content in a datagram; `None` if the datagram is too old to say.
    pub(super) fn restore(&self, counter: u64, offset: SentOffset) -> Option<u64> {
        offset.whole().or_else(|| Some(offset.restore(self.ends.before(counter)?)))
    }

    /// Checks that content may lie at `offset`, and takes note that it was sent in the datagram
    /// `counter`.
    ///
    /// # Errors
    /// [`FrameError::Offset`] if it crosses the end of a generation, or offsets end.
    pub(super) fn note(&mut self, counter: u64, offset: u64, len: usize) -> Result<(), FrameError> {
        let end = offset.saturating_add(len as u64);
        if end > MAX_OFFSET || self.log.geometry().place(offset, len) != offset {
            return Err(FrameError::Offset { offset, low: 0, high: MAX_OFFSET });
        }
        self.ends.note(counter, end);
        Ok(())
    }

    /// Collects the parts of the matches' sources that the log does not hold, of content of `len`
    /// bytes at `offset`; not much more than [`MOST_MISSING`] of them.
    ///
    /// # Errors
    /// [`FrameError::Reference`] if no frame at this place may refer to a source.
    pub(super) fn missing(
        &self,
        offset: u64,
        len: usize,
        matches: &[Match],
        missing: &mut RangeSet,
    ) -> Result<(), FrameError> {
        let geometry = self.log.geometry();
        let floor = geometry.floor(offset, len);
        for found in matches.iter().filter(|found| found.source < offset) {
            let source = found.source..found.source + u64::from(found.len);
            if source.start < floor || !geometry.in_one_generation(&source) {
                let (source_offset, len) = (source.start, u64::from(found.len));
                return Err(FrameError::Reference { source_offset, len });
            }
            if missing.count() < MOST_MISSING && !self.held.contains(&source) {
                self.held.holes_in(&source, missing);
            }
        }
        Ok(())
    }

    /// Stores content at an offset that [`Window::note`] has checked, unless it lies too low or
    /// part of it is held. Returns whether it was stored.
    pub(super) fn store(&mut self, offset: u64, content: &[u8]) -> bool {
        let geometry = self.log.geometry();
        let range = offset..offset + content.len() as u64;
        let is_low = range.end + geometry.span() <= self.log.end();
        if is_low || range.is_empty() || self.held.overlaps(&range) {
            return false;
        }
        self.log.write(offset, content);
        self.held.insert(range);
        // The ring has overwritten these.
        self.held.remove_below(self.log.end().saturating_sub(geometry.capacity()));
        while self.held.count() > self.limit {
            // The oldest leaves the log first anyway.
            self.held.remove_below(self.held.as_slice()[0].end);
        }
        true
    }

    /// Bytes of memory besides the log.
    pub(super) fn memory(&self) -> usize {
        self.held.memory() + self.ends.entries.capacity() * size_of::<End>()
    }
}

/// Where content ended in the datagrams received last.
///
/// Content is sent in the order of offsets, in datagrams in the order of their counters. So what a
/// datagram carries lies at or above all content of the datagrams before it, and short offsets are
/// restored exactly, however late it comes. With the highest offset in its place, a datagram that
/// is late by more than half the range of its short offset would be stored elsewhere.
struct Ends {
    /// Of datagram `c` at `c mod REMEMBERED`.
    entries: Vec<End>,
    /// One above the highest counter.
    next: u64,
    /// Highest end of all content.
    highest: u64,
    /// Highest end of content in datagrams that are not remembered any more.
    forgotten: u64,
}

#[derive(Clone, Copy)]
struct End {
    /// Of the datagram plus 1; 0 for none.
    number: u64,
    /// Highest end of content in this datagram and all received before it in order.
    end: u64,
}

impl Ends {
    fn new() -> Ends {
        let entries = vec![End { number: 0, end: 0 }; REMEMBERED as usize];
        Ends { entries, next: 0, highest: 0, forgotten: 0 }
    }

    fn entry(&mut self, counter: u64) -> &mut End {
        &mut self.entries[(counter % REMEMBERED) as usize]
    }

    /// What is known of a datagram.
    fn known(&self, counter: u64) -> Option<u64> {
        let entry = self.entries[(counter % REMEMBERED) as usize];
        (entry.number == counter + 1).then_some(entry.end)
    }

    /// Lowest counter that is remembered.
    fn first(&self) -> u64 {
        self.next.saturating_sub(REMEMBERED)
    }

    /// Highest end of content received in datagrams below `counter`; `None` if that is not
    /// remembered.
    fn before(&self, counter: u64) -> Option<u64> {
        if counter >= self.next {
            return Some(self.highest);
        }
        let older = self.first()..counter;
        if counter < self.first() {
            return None;
        }
        Some(older.rev().find_map(|counter| self.known(counter)).unwrap_or(self.forgotten))
    }

    /// Content of datagram `counter` ended at `end`.
    fn note(&mut self, counter: u64, end: u64) {
        // The last number names no datagram, so that there is always a next one.
        if counter == u64::MAX {
            return;
        }
        if counter >= self.next {
            // What lies in the way is forgotten.
            let from = self.next.max((counter + 1).saturating_sub(REMEMBERED));
            if counter - self.next >= REMEMBERED {
                self.forgotten = self.highest;
            }
            for passed in from..=counter {
                let entry = std::mem::replace(self.entry(passed), End { number: 0, end: 0 });
                self.forgotten = self.forgotten.max(entry.end);
            }
            self.next = counter + 1;
        }
        let Some(before) = self.before(counter) else { return };
        let own = self.known(counter).unwrap_or(0);
        let end = end.max(before).max(own);
        *self.entry(counter) = End { number: counter + 1, end };
        self.highest = self.highest.max(end);
        // Content of later datagrams lies above it, unless they only repeat.
        for later in counter + 1..self.next {
            match self.known(later) {
                Some(known) if known >= end => break,
                Some(_) => self.entry(later).end = end,
                None => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    proptest! {
        /// Against a map of everything received.
        #[test]
        fn ends_of_all_datagrams_before_are_known(
            steps in proptest::collection::vec((0u64..60, 0u64..2000, prop_oneof![9 => Just(0u64), 1 => 0..3 * REMEMBERED]), 1..60),
        ) {
            let (mut ends, mut all, mut shift) = (Ends::new(), BTreeMap::new(), 0u64);
            for (counter, end, jump) in steps {
                shift += jump;
                let counter = counter + shift;
                let before = |all: &BTreeMap<u64, u64>, counter: u64| {
                    all.range(..counter).map(|(_, &end)| end).max().unwrap_or(0)
                };
                let next = all.keys().next_back().map_or(0, |last| last + 1);
                let is_known = counter + REMEMBERED >= next;
                prop_assert_eq!(ends.before(counter), is_known.then(|| before(&all, counter)));
                if is_known {
                    let entry = all.entry(counter).or_insert(0);
                    *entry = end.max(*entry);
                }
                ends.note(counter, end);
                prop_assert_eq!(ends.before(u64::MAX), Some(before(&all, u64::MAX)));
            }
        }
    }
}
