//! Buffers of the published layout: images of slots, which are written as they are.

use super::{NoPlace, Pair};
use crate::device::{Aligned, PAGE};
use crate::format::hash::{Hash, hash};
use crate::format::page::{BUCKET, Entries, buckets, page_of};

/// Moves that are tried before a page counts as full.
const SEARCH: usize = 256;

/// All buffers.
pub(crate) struct Cuckoo {
    images: Aligned,
    /// Entries of each buffer, deletes included.
    len: Vec<u32>,
    /// Of these, deletes.
    deletes: Vec<u32>,
    /// For each place, whether its entry changed since the last spill.
    fresh: Vec<[u64; 4]>,
    /// For each buffer, whether any entry did.
    is_fresh: Vec<bool>,
    entries: Entries,
    pages: u32,
    partitions: u32,
    secret: [u8; 16],
}

impl Cuckoo {
    pub(crate) fn new(partitions: u32, pages: u32, entries: Entries, secret: [u8; 16]) -> Cuckoo {
        let all = partitions as usize * pages as usize;
        Cuckoo {
            images: Aligned::new(all * PAGE),
            len: vec![0; partitions as usize],
            deletes: vec![0; partitions as usize],
            fresh: vec![[0; 4]; all],
            is_fresh: vec![false; partitions as usize],
            entries,
            pages,
            partitions,
            secret,
        }
    }

    /// Bytes of memory for this many buffers.
    pub(crate) fn memory(partitions: u32, pages: u32) -> u64 {
        u64::from(partitions) * (u64::from(pages) * (PAGE as u64 + 32) + 9)
    }

    pub(crate) fn len(&self, partition: u32) -> u32 {
        self.len[partition as usize]
    }

    pub(crate) fn deletes(&self, partition: u32) -> u32 {
        self.deletes[partition as usize]
    }

    fn page(&self, hash: Hash) -> usize {
        hash.partition as usize * self.pages as usize + page_of(hash, self.pages) as usize
    }

    /// What a buffer holds for a key: a value, or `None` for a delete.
    pub(crate) fn get(&self, hash: Hash, key: &[u8]) -> Option<Option<&[u8]>> {
        let page = &self.images[self.page(hash) * PAGE..][..PAGE];
        let place = self.entries.find(page, hash, key)?;
        Some((!self.entries.is_deleted(page, place)).then(|| self.entries.value(page, place)))
    }

    /// Inserts or replaces an entry.
    pub(crate) fn put(
        &mut self,
        hash: Hash,
        key: &[u8],
        value: Option<&[u8]>,
    ) -> Result<(), NoPlace> {
        let number = self.page(hash);
        let page = &mut self.images[number * PAGE..][..PAGE];
        let partition = hash.partition as usize;
        let place = match self.entries.find(page, hash, key) {
            Some(place) => {
                self.deletes[partition] -= u32::from(self.entries.is_deleted(page, place));
                place
            }
            None => {
                let Some(place) = self.free(number, hash) else { return Err(NoPlace) };
                self.len[partition] += 1;
                place
            }
        };
        let page = &mut self.images[number * PAGE..][..PAGE];
        self.entries.put(page, place, key, value);
        self.deletes[partition] += u32::from(value.is_none());
        self.fresh[number][place / 64] |= 1 << (place % 64);
        self.is_fresh[partition] = true;
        Ok(())
    }

    /// A free place in one of a key's buckets, made by moving others to their other bucket if
    /// necessary: cuckoo hashing, with the shortest sequence of moves.
    fn free(&mut self, number: usize, hash: Hash) -> Option<usize> {
        let places = self.entries.places();
        let page = &self.images[number * PAGE..][..PAGE];
        let free = |bucket: usize| {
            (bucket * BUCKET..(bucket + 1) * BUCKET)
                .find(|&place| !self.entries.is_used(page, place))
        };
        let two = buckets(hash, places);
        if let Some(place) = two.into_iter().find_map(free) {
            return Some(place);
        }
        // Breadth first: each step is a place, and the step whose entry would move there.
        let mut steps: Vec<(usize, usize)> = Vec::new();
        let mut seen = [0u64; 4];
        let visit =
            |bucket: usize, from: usize, steps: &mut Vec<(usize, usize)>, seen: &mut [u64; 4]| {
                for place in bucket * BUCKET..(bucket + 1) * BUCKET {
                    if seen[place / 64] >> (place % 64) & 1 == 0 {
                        seen[place / 64] |= 1 << (place % 64);
                        steps.push((place, from));
                    }
                }
            };
        for bucket in two {
            visit(bucket, usize::MAX, &mut steps, &mut seen);
        }
        let mut next = 0;
        let mut target = loop {
            let &(place, _) = steps.get(next).filter(|_| next < SEARCH)?;
            let key = self.entries.key(page, place);
            let [a, b] = buckets(hash_of(&self.secret, self.partitions, key), places);
            let other = if place / BUCKET == a { b } else { a };
            if let Some(target) = free(other) {
                break target;
            }
            visit(other, next, &mut steps, &mut seen);
            next += 1;
        };
        let page = &mut self.images[number * PAGE..][..PAGE];
        loop {
            let (place, from) = steps[next];
            self.entries.shift(page, place, target);
            let (word, bit) = (target / 64, target % 64);
            let was = self.fresh[number][place / 64] >> (place % 64) & 1;
            self.fresh[number][word] = self.fresh[number][word] & !(1 << bit) | was << bit;
            target = place;
            if from == usize::MAX {
                return Some(place);
            }
            next = from;
        }
    }

    /// The image of a buffer, to seal and write.
    pub(crate) fn image(&mut self, partition: u32) -> &mut [u8] {
        let len = self.pages as usize * PAGE;
        &mut self.images[partition as usize * len..][..len]
    }

    /// Every key of a buffer with its value, or `None` for a delete.
    pub(crate) fn entries(&self, partition: u32) -> impl Iterator<Item = Pair<'_>> {
        let first = partition as usize * self.pages as usize;
        (first..first + self.pages as usize).flat_map(move |number| self.of_page(number))
    }

    fn of_page(&self, number: usize) -> impl Iterator<Item = Pair<'_>> {
        let page = &self.images[number * PAGE..][..PAGE];
        self.entries.all(page)
    }

    /// Entries that changed since [`Cuckoo::spilled`], of all buffers that have any.
    pub(crate) fn fresh(&self) -> impl Iterator<Item = (u32, Pair<'_>)> {
        let partitions =
            (0..self.partitions).filter(|&partition| self.is_fresh[partition as usize]);
        partitions.flat_map(move |partition| {
            let first = partition as usize * self.pages as usize;
            (first..first + self.pages as usize).flat_map(move |number| {
                let page = &self.images[number * PAGE..][..PAGE];
                let is_fresh =
                    move |place: &usize| self.fresh[number][place / 64] >> (place % 64) & 1 == 1;
                (0..self.entries.places())
                    .filter(is_fresh)
                    .map(move |place| (partition, self.entries.entry(page, place)))
            })
        })
    }

    /// All entries are in the spill now.
    pub(crate) fn spilled(&mut self) {
        for partition in 0..self.partitions {
            if std::mem::take(&mut self.is_fresh[partition as usize]) {
                let first = partition as usize * self.pages as usize;
                self.fresh[first..first + self.pages as usize].fill([0; 4]);
            }
        }
    }

    /// Empties a buffer.
    pub(crate) fn clear(&mut self, partition: u32) {
        self.image(partition).fill(0);
        let first = partition as usize * self.pages as usize;
        self.fresh[first..first + self.pages as usize].fill([0; 4]);
        self.is_fresh[partition as usize] = false;
        self.len[partition as usize] = 0;
        self.deletes[partition as usize] = 0;
    }
}

fn hash_of(secret: &[u8; 16], partitions: u32, key: &[u8]) -> Hash {
    hash(secret, partitions, key)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    /// A page takes far more than the half that is asked of it, and moves lose nothing.
    #[test]
    fn moves_keep_every_entry() {
        let mut buffers = Cuckoo::new(2, 1, Entries { key: 8, value: 8 }, [5; 16]);
        let mut oracle = BTreeMap::new();
        for n in 0u64.. {
            let key = n.to_le_bytes();
            let value = (n * n).to_le_bytes();
            let value = (n % 5 != 0).then_some(&value[..]);
            if buffers.put(hash(&[5; 16], 2, &key), &key, value).is_err() {
                break;
            }
            oracle.insert(key.to_vec(), value.map(<[u8]>::to_vec));
        }
        assert!(oracle.len() > 2 * 248 * 8 / 10, "{}", oracle.len());
        for (key, value) in &oracle {
            assert_eq!(buffers.get(hash(&[5; 16], 2, key), key), Some(value.as_deref()));
        }
        let all = |partition| {
            buffers.entries(partition).map(|(key, value)| (key.to_vec(), value.map(<[u8]>::to_vec)))
        };
        assert_eq!(all(0).chain(all(1)).collect::<BTreeMap<_, _>>(), oracle);
        let fresh =
            buffers.fresh().map(|(_, (key, value))| (key.to_vec(), value.map(<[u8]>::to_vec)));
        assert_eq!(fresh.collect::<BTreeMap<_, _>>(), oracle);
        assert_eq!(buffers.len(0) + buffers.len(1), oracle.len() as u32);
        buffers.spilled();
        assert_eq!(buffers.fresh().count(), 0);
        // An entry that changes is fresh again, alone.
        let key = 1u64.to_le_bytes();
        buffers.put(hash(&[5; 16], 2, &key), &key, Some(b"another.")).expect("replaces");
        assert_eq!(buffers.fresh().map(|(_, (key, _))| key).collect::<Vec<_>>(), [key]);
        buffers.clear(0);
        assert_eq!((buffers.len(0), buffers.entries(0).count(), buffers.deletes(0)), (0, 0, 0));
    }
}
