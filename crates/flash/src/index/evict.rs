//! What happens to the entries of an incarnation that is evicted (T:4103, T:4485; partial discard
//! and re-insertion as in NSDI 2010, section 5.1.2).
//!
//! First in, first out needs nothing: the slot is overwritten. The other policies put some entries
//! into the buffer again, where they are as new as any. Until a flush, such an entry is in memory
//! only, while its slot may be overwritten: a crash evicts it, as FIFO would have.
//!
//! An entry is kept only if no newer incarnation may have its key, as filters say, so that no old
//! value and no deleted key comes back. A false positive costs an entry that FIFO would have
//! discarded, too.

use super::Index;
use crate::device::PAGE;
use crate::format::List;
use crate::format::hash::Hash;
use crate::options::Eviction;
use std::sync::{Mutex, PoisonError};

/// Bytes of used entries that wait for the next insert; what is used beside them is not kept.
const USED: usize = 64 << 10;

/// Entries that are going to be inserted again.
#[derive(Debug, Default)]
pub(super) struct Kept {
    /// Of an incarnation that is being evicted: keys with values, one after another.
    evicted: Vec<u8>,
    /// The number of the incarnation after that one.
    first: u64,
    /// What look-ups found, since the last change of the index.
    used: Mutex<Vec<u8>>,
}

impl Kept {
    /// Bytes of memory, for buffers of this many entries.
    pub(super) fn memory(eviction: Eviction, capacity: u32, entry: usize) -> u64 {
        match eviction {
            Eviction::Fifo => 0,
            Eviction::Used => 2 * USED as u64,
            Eviction::Updated | Eviction::Priority { .. } => u64::from(capacity) * entry as u64,
        }
    }

    /// Forgets what was chosen.
    pub(super) fn forget(&mut self) {
        self.evicted.clear();
    }
}

/// All numbers below `n`, in an order whose every beginning is spread over them: multiples of the
/// golden ratio.
fn spread(n: usize) -> impl Iterator<Item = usize> {
    let coprime = |&step: &usize| {
        let (mut a, mut b) = (n, step);
        while b > 0 {
            (a, b) = (b, a % b);
        }
        a == 1
    };
    // One is.
    let step = (1..=(n as f64 * 0.618) as usize).rev().find(coprime).unwrap_or(1);
    (0..n).scan(0, move |at, _| {
        *at = (*at + step) % n;
        Some(*at)
    })
}

/// Entries of a buffer that leave room for new ones: nothing is kept that would fill it further.
fn most(capacity: u32) -> u32 {
    capacity - capacity / 4
}

impl Index {
    /// Notes an entry that a look-up found in an incarnation, the one with this number of older
    /// ones. Those in the newer half have time.
    pub(super) fn note_use(&self, hash: Hash, older: usize, key: &[u8], value: &[u8]) {
        let incarnations = self.tables[hash.partition as usize].incarnations.len();
        if self.eviction != Eviction::Used || older >= incarnations / 2 {
            return;
        }
        let mut used = self.kept.used.lock().unwrap_or_else(PoisonError::into_inner);
        if used.len() + key.len() + value.len() <= USED {
            used.extend_from_slice(key);
            used.extend_from_slice(value);
        }
    }

    /// Inserts what was used since the last change. What look-ups found then is the newest still.
    pub(super) fn keep_used(&mut self) {
        if self.eviction != Eviction::Used {
            return;
        }
        let mutex = &mut self.kept.used;
        let mut used = std::mem::take(mutex.get_mut().unwrap_or_else(PoisonError::into_inner));
        for entry in used.chunks_exact(self.entries.key + self.entries.value) {
            let (key, value) = entry.split_at(self.entries.key);
            let hash = self.hash_of(key);
            // An entry that cannot be inserted is evicted in its time.
            if self.buffers.get(hash, key).is_none()
                && self.put_once(hash, key, Some(value)).is_ok()
            {
                self.stats.kept += 1;
            }
        }
        used.clear();
        *self.kept.used.get_mut().unwrap_or_else(PoisonError::into_inner) = used;
    }

    /// Inserts what is to be kept, after the buffer of a partition was written.
    pub(super) fn keep(&mut self, partition: u32) {
        self.keep_chosen();
        if self.is_due(partition) {
            self.choose(partition);
            self.keep_chosen();
        }
    }

    /// Whether the oldest incarnation of a partition is probably overwritten before its buffer, which
    /// was just written, is written again. Then the buffer has most room now.
    fn is_due(&self, partition: u32) -> bool {
        let geometry = &self.superblock.geometry;
        let oldest = self.tables[partition as usize].incarnations.front();
        oldest.is_some_and(|oldest| match geometry.list {
            List::Shared => {
                let soon = u64::from(geometry.partitions) * 3 / 2;
                oldest.sequence + geometry.slots <= self.sequence + soon
            }
            // It was evicted just now.
            List::PerPartition => false,
        })
    }

    /// Reads the oldest incarnation of a partition, unless that was done, and notes the entries to
    /// keep.
    pub(super) fn choose(&mut self, partition: u32) {
        if matches!(self.eviction, Eviction::Fifo | Eviction::Used) {
            return;
        }
        let oldest = self.tables[partition as usize].incarnations.front_mut();
        let Some(oldest) = oldest.filter(|oldest| !oldest.chosen) else { return };
        oldest.chosen = true;
        let oldest = *oldest;
        self.kept.first = oldest.count + 1;
        let gone = self.load(partition).pages.front().map_or(0, |pages| pages.gone);
        let mut image = std::mem::take(&mut self.scratch.image);
        let unreadable = self.read_slot(partition, &oldest, &mut image) | gone;
        let mut evicted = std::mem::take(&mut self.kept.evicted);
        let entry = self.entries.key + self.entries.value;
        let room = self.superblock.geometry.capacity() as usize * entry;
        evicted.reserve_exact(room - evicted.len());
        for (number, page) in image.chunks_exact(PAGE).enumerate() {
            if unreadable >> number & 1 == 1 {
                continue;
            }
            for (key, value) in self.reader.entries(page) {
                let Some(value) = value else { continue };
                let hash = self.hash_of(key);
                if evicted.len() + entry <= room
                    && hash.partition == partition
                    && self.is_worthy(value)
                    && self.is_newest(hash, key, self.kept.first)
                {
                    evicted.extend_from_slice(key);
                    evicted.extend_from_slice(value);
                }
            }
        }
        self.kept.evicted = evicted;
        self.scratch.image = image;
    }

    fn is_worthy(&self, value: &[u8]) -> bool {
        match self.eviction {
            Eviction::Updated => true,
            Eviction::Priority { byte, least } => {
                value.get(byte).is_some_and(|priority| *priority >= least)
            }
            Eviction::Fifo | Eviction::Used => false,
        }
    }

    /// Whether neither the buffer nor an incarnation from number `first` on can have a key.
    fn is_newest(&self, hash: Hash, key: &[u8], first: u64) -> bool {
        if self.buffers.get(hash, key).is_some() {
            return false;
        }
        let candidates = self.load(hash.partition).filter.candidates(hash.inside);
        let incarnations = &self.tables[hash.partition as usize].incarnations;
        let mut newer = incarnations.iter().rev().take_while(|newer| newer.count >= first);
        candidates.is_empty() || !newer.any(|newer| candidates.may_have(newer.count))
    }

    /// Inserts what was chosen, as far as its buffers have room.
    fn keep_chosen(&mut self) {
        if self.kept.evicted.is_empty() {
            return;
        }
        let mut evicted = std::mem::take(&mut self.kept.evicted);
        let most = most(self.superblock.geometry.capacity());
        // They stand in the order of their hashes, more or less. Were the first ones kept, hashes
        // would be ever less even, and pages and buckets of a buffer full before the buffer.
        let bytes = self.entries.key + self.entries.value;
        for n in spread(evicted.len() / bytes) {
            let entry = &evicted[n * bytes..][..bytes];
            let (key, value) = entry.split_at(self.entries.key);
            let hash = self.hash_of(key);
            // It was chosen before the buffer of its partition was written, if that is the one.
            if self.buffers.len(hash.partition) < most
                && self.is_newest(hash, key, self.kept.first)
                && self.buffers.put(hash, key, Some(value)).is_ok()
            {
                self.stats.kept += 1;
            }
        }
        evicted.clear();
        self.kept.evicted = evicted;
    }
}

#[cfg(test)]
mod tests {
    use super::spread;

    #[test]
    fn a_spread_has_every_number_once_and_halves_alike() {
        for n in (0..200).chain([8096, 496]) {
            let mut all: Vec<usize> = spread(n).collect();
            let low = all[..n / 2].iter().filter(|&&at| at < n / 2).count();
            assert!(low.abs_diff(n / 4) <= 1 + n / 10, "{n}: {low}");
            all.sort_unstable();
            assert_eq!(all, (0..n).collect::<Vec<_>>());
        }
    }
}
