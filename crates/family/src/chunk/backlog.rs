//! The backlog: encoded content that is not yet acknowledged, kept for repairs only.

use oncewire_codec::ConfigError;
use oncewire_kernels::Pages;
use std::collections::VecDeque;
use std::ops::Range;

/// A ring of blocks. The oldest leave when they are acknowledged or when there is no room.
#[derive(Debug)]
pub(super) struct Backlog {
    ring: Pages<u8>,
    /// Ascending. A new run starts where the log pads and where the ring ends, so there are only a
    /// few.
    runs: VecDeque<Run>,
}

/// Content with consecutive offsets, at consecutive places of the ring.
#[derive(Debug)]
struct Run {
    /// The offsets still present.
    offsets: Range<u64>,
    /// Place of `offsets.start` in the ring.
    place: usize,
    /// Original start, and the padding before it.
    first: (u64, u64),
}

impl Backlog {
    pub(super) fn new(bytes: usize) -> Result<Backlog, ConfigError> {
        let ring = Pages::zeroed(bytes).map_err(|source| ConfigError::Memory {
            bytes,
            what: "backlog",
            source,
        })?;
        Ok(Backlog { ring, runs: VecDeque::with_capacity(8) })
    }

    pub(super) fn memory(&self) -> usize {
        self.ring.len()
    }

    pub(super) fn prefault(&mut self) {
        self.ring.prefault();
    }

    /// Adds the block at `offset`, preceded by `padding`. Drops as many of the oldest blocks as
    /// necessary.
    ///
    /// # Panics
    /// If the block is larger than the ring.
    pub(super) fn push(&mut self, offset: u64, padding: u64, block: &[u8]) {
        if block.is_empty() {
            return;
        }
        let last = self.runs.back().map(|run| {
            (run.offsets.end, run.place + (run.offsets.end - run.offsets.start) as usize)
        });
        let (place, goes_on) = match last {
            Some((end, place)) if place + block.len() <= self.ring.len() => (place, end == offset),
            // Too little room after the last block: wrap to the front. Content there is older and
            // leaves first.
            Some((_, place)) => {
                while self.runs.front().is_some_and(|run| run.place >= place) {
                    self.runs.pop_front();
                }
                (0, false)
            }
            // To the front, which is likely in the processor's cache.
            None => (0, false),
        };
        let taken = place..place + block.len();
        while let Some(run) = self.runs.front_mut() {
            let there = run.place..run.place + (run.offsets.end - run.offsets.start) as usize;
            if there.end <= taken.start || taken.end <= there.start {
                break;
            }
            let drop = (taken.end.min(there.end) - there.start) as u64;
            run.offsets.start += drop;
            run.place += drop as usize;
            if !run.offsets.is_empty() {
                break;
            }
            self.runs.pop_front();
        }
        self.ring[taken].copy_from_slice(block);
        let end = offset + block.len() as u64;
        match self.runs.back_mut() {
            Some(run) if goes_on => run.offsets.end = end,
            _ => self.runs.push_back(Run { offsets: offset..end, place, first: (offset, padding) }),
        }
    }

    /// Drops content below `low`.
    pub(super) fn acknowledge(&mut self, low: u64) {
        while let Some(run) = self.runs.front_mut() {
            if low < run.offsets.end {
                let gone = low.saturating_sub(run.offsets.start);
                run.offsets.start += gone;
                run.place += gone as usize;
                break;
            }
            self.runs.pop_front();
        }
    }

    /// Drops everything.
    pub(super) fn clear(&mut self) {
        self.runs.clear();
    }

    /// The bytes of `range`, if present and contiguous.
    pub(super) fn content(&self, range: Range<u64>) -> Option<&[u8]> {
        let run = self.run(&range)?;
        let place = run.place + (range.start - run.offsets.start) as usize;
        Some(&self.ring[place..place + (range.end - range.start) as usize])
    }

    /// Padding before the block at `range`.
    pub(super) fn padding_before(&self, range: &Range<u64>) -> Option<u64> {
        let run = self.run(range)?;
        Some(if run.first.0 == range.start { run.first.1 } else { 0 })
    }

    fn run(&self, range: &Range<u64>) -> Option<&Run> {
        let inside = |run: &&Run| {
            run.offsets.start <= range.start
                && range.start <= range.end
                && range.end <= run.offsets.end
        };
        self.runs.iter().find(inside)
    }
}

/// Default size: everything that a decoder may still request, and the bytes in flight on an ordered
/// lane. One span and one block, at least 4 MiB (the bytes in flight on a path of 1 Gbit/s and 32
/// ms), at most the log.
pub(crate) fn default_limit(cache: u64, span: u64, max_block: usize) -> u64 {
    span.saturating_add(max_block as u64).max(4 << 20).min(cache)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// The oracle keeps all content by offset, and knows that blocks go from the lowest on.
        #[test]
        fn holds_the_newest_and_nothing_else(
            steps in proptest::collection::vec((0usize..60, 0u64..3, 0u64..80), 1..60),
            size in 60usize..300,
        ) {
            let mut backlog = Backlog::new(size).unwrap();
            let (mut all, mut blocks, mut low) = (Vec::new(), Vec::new(), 0u64);
            for (i, (len, padding, acknowledged)) in steps.into_iter().enumerate() {
                let padding = padding.saturating_sub(1) * 7;
                all.resize(all.len() + padding as usize, 0xee);
                let offset = all.len() as u64;
                all.resize(all.len() + len, i as u8);
                backlog.push(offset, padding, &all[offset as usize..]);
                if len > 0 {
                    blocks.push((offset..all.len() as u64, padding));
                }
                if acknowledged > 40 {
                    low = (all.len() as u64).saturating_sub(acknowledged - 41).max(low);
                    backlog.acknowledge(low);
                }
                let mut held = 0;
                // From the newest down: once one is not held, none below is.
                let mut gone = false;
                for (range, padding) in blocks.iter().rev() {
                    match backlog.content(range.clone()) {
                        Some(content) => {
                            prop_assert!(!gone && range.end > low);
                            prop_assert_eq!(content, &all[range.start as usize..range.end as usize]);
                            prop_assert_eq!(backlog.padding_before(range), Some(*padding));
                            held += content.len();
                        }
                        None => {
                            // Only without room, or because it is acknowledged. Ends of the ring
                            // may be wasted for a block's length.
                            prop_assert!(gone || range.start < low || held + 2 * 60 + (range.end - range.start) as usize > size);
                            gone = true;
                        }
                    }
                }
                prop_assert!(held <= size);
                prop_assert!(backlog.runs.len() < 40);
            }
        }
    }
}
