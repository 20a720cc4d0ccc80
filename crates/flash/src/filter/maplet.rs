//! One cuckoo filter for all incarnations of a super table, whose entries hold the number of the
//! incarnation that has the key.
//!
//! An entry has 10 bits of a key's hash and 6 bits for the number of its incarnation, modulo 63. It
//! is in one of two buckets of 4; either follows from the other and the bits of the hash (Fan,
//! Andersen, Kaminsky and Mitzenmacher, *Cuckoo Filter: Practically Better Than Bloom*, CoNEXT 2014,
//! section 3; the second bucket here is a difference, so that the number of buckets need not be a
//! power of two). A look-up of an absent key finds 8 x 0.9 / 1024 = 0.007 entries at 90 % load, and
//! so many pages are read in vain, whatever the number of incarnations: where bit-sliced Bloom
//! filters take log2(k / 0.007) / ln 2 = 19 bits a key for 63 incarnations, this takes 17.8.
//!
//! Evicting an incarnation is a sweep over the entries: the keys are not needed.
//!
//! A key that is updated often is in many incarnations, and two buckets have 8 entries. Its entries
//! move to a list beside the table then, as bits of one number. Its memory is limited; where it
//! ends, the oldest incarnation has to be evicted.

use super::{Candidates, IncarnationFilter};
use crate::allowance::Allowance;
use crate::format::hash::mix;

/// Incarnations that the 6 bits of an entry can tell apart, beside "free".
pub(crate) const MOST: u32 = 63;
/// Entries of a bucket.
const BUCKET: usize = 4;
const NUMBER: u16 = 63;
/// Entries of the search for a free place, after which there is none.
const SEARCH: usize = 250;
/// Largest part of the entries that may be in use: more can rarely be placed.
const LOAD: f64 = 0.95;
/// Bytes of a key beside the table.
const BESIDE: usize = size_of::<(u64, u64)>();

/// What all maplets of an index have in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Shape {
    /// Buckets of a partition.
    buckets: u32,
}

impl Shape {
    /// The shape for a partition with `bytes` of memory. `None` if they are too few.
    pub(crate) fn new(bytes: u64, most: u32, entries: u32) -> Option<Shape> {
        let buckets = u32::try_from((bytes / 8).min(1 << 31)).ok()?;
        (bytes >= Shape::least(most, entries)).then_some(Shape { buckets })
    }

    /// Bytes that a partition needs.
    pub(crate) fn least(most: u32, entries: u32) -> u64 {
        let entries = u64::from(most) * u64::from(entries);
        8 * (entries as f64 / LOAD / BUCKET as f64).ceil().max(2.0) as u64
    }

    /// Bytes of memory for a partition.
    pub(crate) fn bytes(&self) -> u64 {
        8 * u64::from(self.buckets)
    }
}

/// The maplet of a partition.
#[derive(Debug)]
pub(crate) struct Maplet {
    buckets: Vec<[u16; BUCKET]>,
    /// Keys that have no room in the table, by their bucket and the bits of their hash, ascending,
    /// and the incarnations that have them, as bits.
    beside: Vec<(u64, u64)>,
    /// Keys of its capacity that the allowance has not paid for.
    unpaid: usize,
}

/// What a hash says about an entry.
#[derive(Clone, Copy)]
struct Place {
    /// The lower one of its two buckets.
    low: usize,
    high: usize,
    /// The 10 bits of an entry, in their place.
    bits: u16,
}

impl Place {
    fn key(&self) -> u64 {
        (self.low as u64) << 16 | u64::from(self.bits)
    }
}

/// Bits of an incarnation.
fn number(count: u64) -> u16 {
    (count % u64::from(MOST)) as u16 + 1
}

impl Maplet {
    pub(crate) fn new(shape: &Shape) -> Maplet {
        let buckets = vec![[0; BUCKET]; shape.buckets as usize];
        Maplet { buckets, beside: Vec::new(), unpaid: 0 }
    }

    fn place(&self, hash: u64) -> Place {
        let bits = (mix(hash) >> 48) as u16 & !NUMBER;
        // Ascending with the hash: entries of a sorted buffer are added from one end to the other.
        let first = ((hash >> 32) * self.buckets.len() as u64) >> 32;
        let second = self.other(first as usize, bits);
        Place { low: second.min(first as usize), high: second.max(first as usize), bits }
    }

    /// The other bucket of an entry.
    fn other(&self, bucket: usize, bits: u16) -> usize {
        let len = self.buckets.len();
        let sum = ((mix(u64::from(bits)) >> 32) * len as u64) >> 32;
        let difference = sum as usize + len - bucket;
        if difference >= len { difference - len } else { difference }
    }

    fn free(&self, bucket: usize) -> Option<usize> {
        self.buckets[bucket].iter().position(|entry| entry & NUMBER == 0)
    }

    /// A free entry in one of two buckets, made by moving others to their other bucket if
    /// necessary, by the shortest sequence of moves.
    fn make_room(&mut self, place: Place) -> Option<(usize, usize)> {
        for bucket in [place.low, place.high] {
            if let Some(free) = self.free(bucket) {
                return Some((bucket, free));
            }
        }
        // Breadth first: each step is an entry, and the step whose entry would move there.
        let mut steps = [(0u32, 0u8, 0u8); SEARCH + 2 * BUCKET];
        let mut len = 0;
        let visit = |bucket: usize, from: usize, len: &mut usize, steps: &mut [(u32, u8, u8)]| {
            for n in 0..BUCKET {
                if *len < steps.len() {
                    steps[*len] = (bucket as u32, n as u8, from as u8);
                    *len += 1;
                }
            }
        };
        const ROOT: u8 = u8::MAX;
        visit(place.low, ROOT as usize, &mut len, &mut steps);
        if place.high != place.low {
            visit(place.high, ROOT as usize, &mut len, &mut steps);
        }
        let mut next = 0;
        let mut target = loop {
            if next >= len.min(SEARCH) {
                return None;
            }
            let (bucket, n, _) = steps[next];
            let entry = self.buckets[bucket as usize][usize::from(n)];
            let other = self.other(bucket as usize, entry & !NUMBER);
            if let Some(free) = self.free(other) {
                break (other, free);
            }
            // An entry that would come back to where the search began gains nothing.
            if other != place.low && other != place.high {
                visit(other, next, &mut len, &mut steps);
            }
            next += 1;
        };
        loop {
            let (bucket, n, from) = steps[next];
            let source = (bucket as usize, usize::from(n));
            self.buckets[target.0][target.1] = self.buckets[source.0][source.1];
            target = source;
            if from == ROOT {
                return Some(target);
            }
            next = usize::from(from);
        }
    }

    fn insert(&mut self, hash: u64, number: u16) -> bool {
        let place = self.place(hash);
        let Some((bucket, n)) = self.make_room(place) else { return false };
        self.buckets[bucket][n] = place.bits | number;
        true
    }

    /// Makes room beside the table, if there is memory.
    fn grow(&mut self, allowance: &Allowance) -> bool {
        let more = self.beside.len() / 8 + 4;
        let has_room = allowance.take((more * BESIDE) as u64);
        if has_room {
            self.beside.reserve_exact(more);
        }
        has_room
    }

    /// Moves the entries of a key out of the table, and adds one. They may be those of other keys
    /// with the same bits, which makes no difference.
    fn insert_beside(
        &mut self,
        hash: u64,
        number: u16,
        allowance: &Allowance,
        force: bool,
    ) -> bool {
        let place = self.place(hash);
        let at = match self.beside.binary_search_by_key(&place.key(), |(key, _)| *key) {
            Ok(at) => at,
            Err(at) => {
                if self.beside.len() == self.beside.capacity() && !self.grow(allowance) {
                    if !force {
                        return false;
                    }
                    self.beside.reserve_exact(1);
                    self.unpaid += self.beside.capacity() - self.beside.len();
                }
                self.beside.insert(at, (place.key(), 0));
                at
            }
        };
        let bits = &mut self.beside[at].1;
        *bits |= 1 << (number - 1);
        for bucket in [place.low, place.high] {
            for entry in &mut self.buckets[bucket] {
                if *entry & !NUMBER == place.bits && *entry & NUMBER != 0 {
                    *bits |= 1 << ((*entry & NUMBER) - 1);
                    *entry = 0;
                }
            }
        }
        true
    }
}

impl IncarnationFilter for Maplet {
    fn enter(&mut self, _: u64) {}

    fn add(&mut self, count: u64, hashes: &[u64], allowance: &Allowance) -> Result<(), usize> {
        let number = number(count);
        for (n, &hash) in hashes.iter().enumerate() {
            if !self.insert(hash, number) && !self.insert_beside(hash, number, allowance, false) {
                return Err(n);
            }
        }
        Ok(())
    }

    fn force(&mut self, count: u64, hash: u64, allowance: &Allowance) {
        self.insert_beside(hash, number(count), allowance, true);
    }

    fn leave(&mut self, count: u64, allowance: &Allowance) {
        let number = number(count);
        for entry in self.buckets.as_flattened_mut() {
            *entry = if *entry & NUMBER == number { 0 } else { *entry };
        }
        self.beside.retain_mut(|(_, bits)| {
            *bits &= !(1 << (number - 1));
            *bits != 0
        });
        let (len, had) = (self.beside.len(), self.beside.capacity());
        if len < had / 2 {
            self.beside.shrink_to(len + len / 8);
            let freed = had - self.beside.capacity();
            let unpaid = freed.min(self.unpaid);
            self.unpaid -= unpaid;
            allowance.give_back(((freed - unpaid) * BESIDE) as u64);
        }
    }

    fn candidates(&self, hash: u64) -> Candidates {
        let place = self.place(hash);
        let mut bits = 0u64;
        for bucket in [place.low, place.high] {
            for entry in self.buckets[bucket] {
                let number = entry & NUMBER;
                // 0, which is free, becomes bit 63 and is cut off.
                let is_equal = u64::from(entry & !NUMBER == place.bits);
                bits |= is_equal << (number.wrapping_sub(1) & NUMBER);
            }
        }
        bits &= u64::MAX >> 1;
        if let Ok(at) = self.beside.binary_search_by_key(&place.key(), |(key, _)| *key) {
            bits |= self.beside[at].1;
        }
        Candidates::of(MOST, bits)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use oncewire_kernels::random::SplitMix64;

    fn hash(n: u64) -> u64 {
        SplitMix64(n).next_u64()
    }

    fn has(maplet: &Maplet, hash: u64, count: u64) -> bool {
        maplet.candidates(hash).may_have(count)
    }

    /// Every key is found in its incarnation while that is there, at the highest load.
    #[test]
    fn no_key_is_missed_at_full_load() {
        let (most, entries) = (63, 500);
        let shape = Shape::new(Shape::least(most, entries), most, entries).expect("enough");
        assert!(shape.bytes() <= 2 * 63 * 500 * 20 / 19 + 16);
        let mut maplet = Maplet::new(&shape);
        let allowance = Allowance::new(100 * BESIDE as u64);
        let keys = |count: u64| (0..500).map(move |n| hash(count << 32 | n));
        for count in 100..300u64 {
            if count >= 163 {
                maplet.leave(count - 63, &allowance);
            }
            let mut hashes: Vec<u64> = keys(count).collect();
            hashes.sort_unstable();
            maplet.add(count, &hashes, &allowance).expect("has room");
            for old in (count.saturating_sub(62)..=count).filter(|old| *old >= 100) {
                assert!(keys(old).step_by(13).all(|hash| has(&maplet, hash, old)), "{old}");
            }
        }
        let spurious: usize = (0..100_000)
            .map(|n| {
                let candidates = maplet.candidates(hash(1 << 60 | n));
                (238..300).filter(|count| candidates.may_have(*count)).count()
            })
            .sum();
        // 8 x 0.95 / 1024 a look-up.
        assert!((640..840).contains(&spurious), "{spurious}");
        for count in 237..300 {
            maplet.leave(count, &allowance);
        }
        assert!(maplet.buckets.as_flattened().iter().all(|entry| entry & NUMBER == 0));
        assert!(maplet.beside.is_empty());
        assert!(allowance.take(100 * BESIDE as u64), "all was given back");
    }

    /// A key may be in all incarnations, as far as there is memory for such keys.
    #[test]
    fn keys_that_are_updated_often_are_kept_beside() {
        let shape = Shape::new(8 * 1000, 63, 40).expect("enough");
        let mut maplet = Maplet::new(&shape);
        let allowance = Allowance::new(24 * BESIDE as u64);
        let hashes: Vec<u64> = (0..20).map(hash).collect();
        for count in 0..200u64 {
            if let Some(old) = count.checked_sub(63) {
                maplet.leave(old, &allowance);
            }
            assert_eq!(maplet.add(count, &hashes, &allowance), Ok(()));
            for &hash in &hashes {
                assert!((count.saturating_sub(62)..=count).all(|old| has(&maplet, hash, old)));
            }
        }
        // Twenty more have no room, until older incarnations leave.
        let more: Vec<u64> = (20..40).map(hash).collect();
        (200..240).for_each(|count| maplet.leave(count - 63, &allowance));
        let mut refused = 0;
        for count in 200..240 {
            let mut done = 0;
            while let Err(n) = maplet.add(count, &more[done..], &allowance) {
                done += n;
                refused += 1;
                if refused > 1000 {
                    break;
                }
                maplet.force(count, more[done], &allowance);
                done += 1;
            }
        }
        assert!(refused > 0);
        assert!(more.iter().all(|&hash| (200..240).all(|count| has(&maplet, hash, count))));
    }

    #[test]
    fn too_little_memory_is_refused() {
        assert_eq!(Shape::new(Shape::least(63, 8096) - 1, 63, 8096), None);
        // 2.11 bytes an entry.
        assert_eq!(Shape::least(63, 8096) * 100 / (63 * 8096), 210);
    }
}
