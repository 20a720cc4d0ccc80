//! Buffers of the sorted layout: entries in order of arrival, and a small table that finds them.

use super::Pair;
use crate::format::hash::{Hash, hash};
use crate::format::sorted;

/// All buffers.
///
/// A buffer can be filled to its last entry: only the table, two bytes an entry, has free places.
pub(crate) struct Open {
    /// Keys with values: `capacity` entries for each partition.
    entries: Vec<u8>,
    /// Places of entries plus one and bits of their hashes, by open addressing; 0 is free.
    index: Vec<u16>,
    /// For each entry, whether it changed since the last spill, and whether it is a delete.
    fresh: Vec<u64>,
    deleted: Vec<u64>,
    /// Entries of each buffer, deletes included.
    len: Vec<u32>,
    /// Of these, deletes.
    deletes: Vec<u32>,
    /// For each buffer, whether any entry is fresh.
    is_fresh: Vec<bool>,
    key: usize,
    value: usize,
    capacity: usize,
    places: usize,
    /// Bits of an entry's place; the others are of its hash.
    bits: u32,
    partitions: u32,
    secret: [u8; 16],
}

/// Places of the table: five for four entries.
fn places(capacity: usize) -> usize {
    capacity + capacity / 4 + 1
}

impl Open {
    pub(crate) fn new(
        partitions: u32,
        capacity: u32,
        key: usize,
        value: usize,
        secret: [u8; 16],
    ) -> Open {
        let (all, capacity) = (partitions as usize, capacity as usize);
        let words = all * capacity.div_ceil(64);
        Open {
            entries: vec![0; all * capacity * (key + value)],
            index: vec![0; all * places(capacity)],
            fresh: vec![0; words],
            deleted: vec![0; words],
            len: vec![0; all],
            deletes: vec![0; all],
            is_fresh: vec![false; all],
            key,
            value,
            capacity,
            places: places(capacity),
            bits: usize::BITS - capacity.leading_zeros(),
            partitions,
            secret,
        }
    }

    /// Bytes of memory for this many buffers.
    pub(crate) fn memory(partitions: u32, capacity: u32, entry: usize) -> u64 {
        let capacity = capacity as usize;
        let one = capacity * entry + 2 * places(capacity) + 2 * 8 * capacity.div_ceil(64) + 9;
        u64::from(partitions) * one as u64
    }

    pub(crate) fn len(&self, partition: u32) -> u32 {
        self.len[partition as usize]
    }

    pub(crate) fn deletes(&self, partition: u32) -> u32 {
        self.deletes[partition as usize]
    }

    fn words(&self) -> usize {
        self.capacity.div_ceil(64)
    }

    fn at(&self, partition: usize, n: usize) -> usize {
        (partition * self.capacity + n) * (self.key + self.value)
    }

    fn key(&self, partition: usize, n: usize) -> &[u8] {
        &self.entries[self.at(partition, n)..][..self.key]
    }

    fn is_deleted(&self, partition: usize, n: usize) -> bool {
        self.deleted[partition * self.words() + n / 64] >> (n % 64) & 1 == 1
    }

    fn entry(&self, partition: usize, n: usize) -> Pair<'_> {
        let entry = &self.entries[self.at(partition, n)..][..self.key + self.value];
        let (key, value) = entry.split_at(self.key);
        (key, (!self.is_deleted(partition, n)).then_some(value))
    }

    /// The place of the table that has a key, or the free one where it would be, and the entry.
    fn find(&self, hash: Hash, key: &[u8]) -> (usize, Option<usize>) {
        let partition = hash.partition as usize;
        let table = &self.index[partition * self.places..][..self.places];
        let tag = self.tag(hash);
        let mut place = (((hash.inside & 0xffff_ffff) * self.places as u64) >> 32) as usize;
        // There are more places than entries, so one is free.
        loop {
            let found = table[place];
            if found == 0 {
                return (place, None);
            }
            if found & !self.mask() == tag {
                let n = usize::from(found & self.mask()) - 1;
                if self.key(partition, n) == key {
                    return (place, Some(n));
                }
            }
            place = if place + 1 == self.places { 0 } else { place + 1 };
        }
    }

    fn mask(&self) -> u16 {
        ((1u32 << self.bits) - 1) as u16
    }

    /// The lowest bits of the hash, which say nothing about the place.
    fn tag(&self, hash: Hash) -> u16 {
        ((hash.inside as u32 & 0xffff) << self.bits) as u16
    }

    /// What a buffer holds for a key: a value, or `None` for a delete.
    pub(crate) fn get(&self, hash: Hash, key: &[u8]) -> Option<Option<&[u8]>> {
        let (_, n) = self.find(hash, key);
        Some(self.entry(hash.partition as usize, n?).1)
    }

    /// Inserts or replaces an entry. Whether there was room.
    pub(crate) fn put(&mut self, hash: Hash, key: &[u8], value: Option<&[u8]>) -> bool {
        let partition = hash.partition as usize;
        let (place, found) = self.find(hash, key);
        let n = match found {
            Some(n) => {
                self.deletes[partition] -= u32::from(self.is_deleted(partition, n));
                n
            }
            None => {
                let n = self.len[partition] as usize;
                if n >= self.capacity {
                    return false;
                }
                self.index[partition * self.places + place] = (n + 1) as u16 | self.tag(hash);
                self.len[partition] += 1;
                n
            }
        };
        let at = self.at(partition, n);
        self.entries[at..at + self.key].copy_from_slice(key);
        let into = &mut self.entries[at + self.key..at + self.key + self.value];
        match value {
            Some(value) => into.copy_from_slice(value),
            None => into.fill(0),
        }
        let (word, bit) = (partition * self.words() + n / 64, 1 << (n % 64));
        self.fresh[word] |= bit;
        self.is_fresh[partition] = true;
        if value.is_none() {
            self.deleted[word] |= bit;
            self.deletes[partition] += 1;
        } else {
            self.deleted[word] &= !bit;
        }
        true
    }

    /// Every key of a buffer with its value, or `None` for a delete.
    pub(crate) fn entries(&self, partition: u32) -> impl Iterator<Item = Pair<'_>> {
        let partition = partition as usize;
        (0..self.len[partition] as usize).map(move |n| self.entry(partition, n))
    }

    /// Entries that changed since [`Open::spilled`], of all buffers that have any.
    pub(crate) fn fresh(&self) -> impl Iterator<Item = (u32, Pair<'_>)> {
        let partitions =
            (0..self.partitions).filter(|&partition| self.is_fresh[partition as usize]);
        partitions.flat_map(move |partition| {
            let of = partition as usize;
            (0..self.len[of] as usize)
                .filter(move |n| self.fresh[of * self.words() + n / 64] >> (n % 64) & 1 == 1)
                .map(move |n| (partition, self.entry(of, n)))
        })
    }

    /// All entries are in the spill now.
    pub(crate) fn spilled(&mut self) {
        for partition in 0..self.partitions as usize {
            if std::mem::take(&mut self.is_fresh[partition]) {
                let words = self.words();
                self.fresh[partition * words..][..words].fill(0);
            }
        }
    }

    /// Fills the pages of a slot with the entries of a buffer, by hash, and `hashes` with their
    /// hashes in the same order.
    pub(crate) fn fill(&self, partition: u32, scratch: &mut super::Scratch) {
        let super::Scratch { image, order, hashes, .. } = scratch;
        let of = partition as usize;
        order.clear();
        hashes.clear();
        let len = self.len[of] as usize;
        for n in 0..len {
            let inside = hash(&self.secret, self.partitions, self.key(of, n)).inside;
            hashes.push(inside);
            // A buffer has fewer than 2^16 entries, which is what the order leaves.
            order.push(sorted::order(inside) << 16 | n as u64);
        }
        order.sort_unstable();
        let per_page = sorted::most(self.key + self.value);
        let place = |packed: &u64| (packed & 0xffff) as usize;
        for (number, page) in image.chunks_exact_mut(crate::device::PAGE).enumerate() {
            let first = (number * per_page).min(len);
            let entries = &order[first..len.min(first + per_page)];
            sorted::fill(page, self.value, entries.iter().map(|n| self.entry(of, place(n))));
        }
        for packed in order.iter_mut() {
            *packed = hashes[place(packed)];
        }
        std::mem::swap(order, hashes);
    }

    /// Empties a buffer.
    pub(crate) fn clear(&mut self, partition: u32) {
        let (of, words) = (partition as usize, self.words());
        self.index[of * self.places..][..self.places].fill(0);
        self.fresh[of * words..][..words].fill(0);
        self.deleted[of * words..][..words].fill(0);
        self.is_fresh[of] = false;
        self.len[of] = 0;
        self.deletes[of] = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::super::Scratch;
    use super::*;
    use crate::device::PAGE;
    use std::collections::BTreeMap;

    /// Buffers fill to the last entry; what is written has all entries, in order of their hashes.
    #[test]
    fn a_full_buffer_has_every_entry() {
        for (key_bytes, value_bytes, pages) in [(8, 8, 1), (8, 8, 3), (5, 0, 64), (8, 200, 2)] {
            let capacity = pages * sorted::most(key_bytes + value_bytes);
            let secret = [5; 16];
            let mut open = Open::new(2, capacity as u32, key_bytes, value_bytes, secret);
            let mut oracle = BTreeMap::new();
            let mut full = [false; 2];
            for n in 0u64.. {
                let key = &n.to_le_bytes()[..key_bytes];
                let value = vec![n as u8; value_bytes];
                let value = (n % 5 != 0).then_some(&value[..]);
                let hash = hash(&secret, 2, key);
                if open.put(hash, key, value) {
                    oracle.insert(key.to_vec(), value.map(<[u8]>::to_vec));
                } else {
                    full[hash.partition as usize] = true;
                }
                if full == [true; 2] {
                    break;
                }
            }
            assert_eq!([open.len(0), open.len(1)], [capacity as u32; 2]);
            for (key, value) in &oracle {
                assert_eq!(open.get(hash(&secret, 2, key), key), Some(value.as_deref()));
            }
            let absent = &u64::MAX.to_le_bytes()[..key_bytes];
            assert_eq!(open.get(hash(&secret, 2, absent), absent), None);
            let own = |(key, value): Pair<'_>| (key.to_vec(), value.map(<[u8]>::to_vec));
            let mut written = BTreeMap::new();
            for partition in 0..2 {
                let mut scratch = Scratch::new(pages * PAGE, capacity);
                open.fill(partition, &mut scratch);
                assert!(scratch.hashes.is_sorted_by_key(|&hash| sorted::order(hash)));
                let mut hashes = scratch.hashes.iter();
                for page in scratch.image.chunks_exact(PAGE) {
                    let entries: Vec<_> = sorted::entries(page, key_bytes, value_bytes).collect();
                    let mut of_page: Vec<u64> =
                        entries.iter().map(|(key, _)| hash(&secret, 2, key).inside).collect();
                    of_page.sort_unstable();
                    let mut expected: Vec<u64> =
                        hashes.by_ref().take(of_page.len()).copied().collect();
                    expected.sort_unstable();
                    assert_eq!(of_page, expected);
                    written.extend(entries.into_iter().map(own));
                }
            }
            assert_eq!(written, oracle);
            assert_eq!(open.fresh().map(|(_, pair)| own(pair)).collect::<BTreeMap<_, _>>(), oracle);
            open.spilled();
            assert_eq!(open.fresh().count(), 0);
            // An entry that changes is fresh again, alone, also where the buffer is full.
            let key = &1u64.to_le_bytes()[..key_bytes];
            assert!(open.put(hash(&secret, 2, key), key, None));
            assert_eq!(open.fresh().map(|(_, pair)| pair).collect::<Vec<_>>(), [(key, None)]);
            assert!(open.put(hash(&secret, 2, key), key, Some(&vec![3; value_bytes])));
            let deletes = oracle.values().filter(|value| value.is_none()).count();
            assert_eq!(open.deletes(0) + open.deletes(1), deletes as u32);
            open.clear(0);
            assert_eq!((open.len(0), open.entries(0).count(), open.deletes(0)), (0, 0, 0));
        }
    }
}
