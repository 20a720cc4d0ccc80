//! The receiver's log: section 8, "The receiver's log", and sections 1 to 3 of FORMAT.md.

use super::fields::Parsed;
use super::literals::Context;
use std::collections::BTreeMap;
use std::ops::Range;
use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed};

/// Separate ranges that a receiver must hold.
const RANGES: usize = 65_536;

pub(super) struct Log {
    pub number: u64,
    pub capacity: u64,
    /// The reorder window, S.
    pub window: u64,
    /// The counter of the first datagram that may have frames of this log.
    pub counter: u64,
    seed: u64,
    ring: Vec<u8>,
    /// Ends of the held ranges by their beginnings. They do not touch.
    held: BTreeMap<u64, u64>,
    /// The highest end of content stored.
    highest: u64,
    /// Announced ones by their number.
    pub contexts: BTreeMap<u8, Context>,
}

impl Log {
    pub(super) fn new(number: u64, capacity: u64, window: u64, counter: u64, seed: u64) -> Log {
        Log {
            number,
            capacity,
            window,
            counter,
            seed,
            ring: vec![0; capacity as usize],
            held: BTreeMap::new(),
            highest: 0,
            contexts: BTreeMap::new(),
        }
    }

    /// FORMAT.md, section 9, with a padding of 0.
    pub(super) fn checksum(&self, offset: u64, content: &[u8]) -> u64 {
        let place = [self.seed, self.number, offset, 0, content.len() as u64];
        xxh3_64_with_seed(content, xxh3_64(&place.map(u64::to_le_bytes).concat()))
    }

    /// Bytes of a distance of fixed width.
    pub(super) fn distance_bytes(&self) -> u64 {
        let bits = u64::BITS - (self.capacity - 1).leading_zeros();
        u64::from(bits.div_ceil(8))
    }

    pub(super) fn is_in_one_generation(&self, range: &Range<u64>) -> bool {
        range.is_empty() || range.start / self.capacity == (range.end - 1) / self.capacity
    }

    /// The parts of a range that are not held.
    pub(super) fn missing(&self, range: &Range<u64>) -> Vec<Range<u64>> {
        let (mut at, mut missing) = (range.start, Vec::new());
        let first = self.held.range(..=at).next_back().map_or(at, |(&start, _)| start);
        for (&start, &end) in self.held.range(first..range.end) {
            if start > at {
                missing.push(at..start);
            }
            at = at.max(end);
        }
        if at < range.end {
            missing.push(at..range.end);
        }
        missing
    }

    pub(super) fn byte(&self, offset: u64) -> u8 {
        self.ring[(offset % self.capacity) as usize]
    }

    /// The content of a range, if all of it is held.
    pub(super) fn content(&self, range: Range<u64>) -> Option<Vec<u8>> {
        self.missing(&range).is_empty().then(|| range.map(|offset| self.byte(offset)).collect())
    }

    /// Was it stored?
    pub(super) fn store(&mut self, offset: u64, content: &[u8]) -> bool {
        let end = offset + content.len() as u64;
        if end.saturating_add(self.window) <= self.highest || content.is_empty() {
            return false;
        }
        if self.missing(&(offset..end)).iter().map(|range| range.end - range.start).sum::<u64>()
            < end - offset
        {
            // Some of it is held.
            return false;
        }
        let at = (offset % self.capacity) as usize;
        self.ring[at..at + content.len()].copy_from_slice(content);
        let (mut start, mut stop) = (offset, end);
        if let Some((&before, _)) = self.held.range(..offset).next_back().filter(|b| *b.1 == offset)
        {
            start = before;
        }
        if let Some(after) = self.held.remove(&end) {
            stop = after;
        }
        self.held.insert(start, stop);
        self.highest = self.highest.max(end);

        let floor = end.saturating_sub(self.capacity);
        while let Some((&start, &stop)) = self.held.first_key_value()
            && start < floor
        {
            self.held.remove(&start);
            if stop > floor {
                self.held.insert(floor, stop);
            }
        }
        while self.held.len() > RANGES {
            self.held.pop_first();
        }
        true
    }

    /// FORMAT.md, section 3, "What may be referred to", for content that ends at `end`.
    pub(super) fn may_refer(&self, source: &Range<u64>, end: u64) -> Parsed<()> {
        let floor = end.saturating_sub(self.capacity - self.window);
        if !self.is_in_one_generation(source) || source.start < floor {
            return Err("a source of two generations, or below the floor");
        }
        Ok(())
    }
}
