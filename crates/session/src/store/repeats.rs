//! Which content of a log repeats earlier content of it: a store need not write that again.

use oncewire_codec::DEFAULT_BLOCK;
use oncewire_codec::matcher::Match;
use std::collections::VecDeque;
use std::ops::Range;

/// Shorter matches of a block are not noted, in bytes: a store refers to long stretches only, which
/// several of these may be together.
const LEAST: u32 = 4 << 10;
/// Stretches that wait to be written, at most. Beyond that, the oldest are written as new content.
const MOST: usize = 4096;

/// Content of a log that equals earlier content of the same log. This end knows that by itself: it
/// has copied the bytes from there, or compared them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Repeat {
    /// Where the content begins.
    pub offset: u64,
    /// Where the earlier content begins. It ends at or below `offset`.
    pub source: u64,
    /// Bytes of each.
    pub len: u64,
}

impl Repeat {
    /// Those of a block, at most.
    pub(crate) const MOST: usize = DEFAULT_BLOCK / LEAST as usize;

    /// What of the block at `offset` repeats content before the block: its long matches.
    pub(crate) fn of(offset: u64, matches: &[Match]) -> Vec<Repeat> {
        let repeat = |found: &Match| {
            let Match { at, len, source } = *found;
            let is_earlier = source.saturating_add(len.into()) <= offset;
            let repeat = Repeat { offset: offset + u64::from(at), source, len: len.into() };
            (len >= LEAST && is_earlier).then_some(repeat)
        };
        matches.iter().filter_map(repeat).collect()
    }

    /// Whether they are nearly all of a block.
    pub(crate) fn is_most(repeats: &[Repeat], block: usize) -> bool {
        let all: u64 = repeats.iter().map(|repeat| repeat.len).sum();
        all >= block as u64 / 16 * 15 && all > 0
    }

    fn end(&self) -> u64 {
        self.offset + self.len
    }

    /// The part of it within a range, which it overlaps.
    fn within(&self, range: &Range<u64>) -> Repeat {
        let (offset, end) = (self.offset.max(range.start), self.end().min(range.end));
        Repeat { offset, source: self.source + (offset - self.offset), len: end - offset }
    }
}

/// Those of content that is not written yet, ascending and disjoint.
#[derive(Debug, Default)]
pub(super) struct Repeats(VecDeque<Repeat>);

impl Repeats {
    /// The newest block has this one.
    pub(super) fn push(&mut self, repeat: Repeat) {
        match self.0.back_mut() {
            Some(last)
                if last.end() == repeat.offset && last.source + last.len == repeat.source =>
            {
                last.len += repeat.len;
            }
            _ => {
                if self.0.len() == MOST {
                    self.0.pop_front();
                }
                self.0.push_back(repeat);
            }
        }
    }

    /// Those of a range, which is written next.
    pub(super) fn take(&mut self, range: &Range<u64>) -> Vec<Repeat> {
        let mut taken = Vec::new();
        while let Some(first) = self.0.front_mut().filter(|first| first.offset < range.end) {
            if first.end() > range.start {
                taken.push(first.within(range));
            }
            if first.end() > range.end {
                *first = first.within(&(range.end..first.end()));
                break;
            }
            self.0.pop_front();
        }
        taken
    }

    /// The log ends at `offset` now.
    pub(super) fn rewind(&mut self, offset: u64) {
        while let Some(last) = self.0.back_mut().filter(|last| last.end() > offset) {
            if last.offset < offset {
                last.len = offset - last.offset;
                break;
            }
            self.0.pop_back();
        }
    }

    pub(super) fn clear(&mut self) {
        self.0.clear();
    }

    /// Memory in bytes.
    pub(super) fn memory(&self) -> usize {
        self.0.capacity() * size_of::<Repeat>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn repeat(offset: u64, source: u64, len: u64) -> Repeat {
        Repeat { offset, source, len }
    }

    #[test]
    fn long_matches_with_what_is_before_a_block_count() {
        let found = |at, len, source| Match { at, len, source };
        let matches = [
            found(0, 5000, 100),
            found(5000, 6000, 20_000),
            // Within the block itself, in part.
            found(11_000, 50_000, 99_999),
            found(61_000, 100, 7),
        ];
        let both = [repeat(100_000, 100, 5000), repeat(105_000, 20_000, 6000)];
        assert_eq!(Repeat::of(100_000, &matches), both);
        assert_eq!(Repeat::of(100_000, &matches[3..]), []);
        assert_eq!(Repeat::of(100_000, &[found(0, 9000, u64::MAX)]), []);
    }

    #[test]
    fn neighbors_are_joined_and_cut_where_pieces_are() {
        let mut repeats = Repeats::default();
        repeats.push(repeat(100, 0, 50));
        repeats.push(repeat(150, 50, 50));
        repeats.push(repeat(200, 10, 5));
        assert_eq!(repeats.take(&(120..180)), [repeat(120, 20, 60)]);
        assert_eq!(repeats.take(&(180..210)), [repeat(180, 80, 20), repeat(200, 10, 5)]);
        assert_eq!(repeats.take(&(0..1000)), []);
        repeats.push(repeat(300, 0, 50));
        repeats.push(repeat(400, 0, 50));
        repeats.rewind(420);
        // What was left out before counts for nothing.
        assert_eq!(repeats.take(&(390..500)), [repeat(400, 0, 20)]);
        repeats.push(repeat(500, 0, 50));
        repeats.rewind(500);
        assert_eq!(repeats.take(&(0..1000)), []);
        for nth in 0..2 * MOST as u64 {
            repeats.push(repeat(10 * nth, 0, 5));
        }
        assert_eq!(repeats.take(&(0..u64::MAX)).len(), MOST);
    }
}
