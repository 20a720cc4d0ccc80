//! EndRE's compact table.

use super::{FingerprintTable, Markers, NO_OFFSET};
use crate::error::ConfigError;
use crate::limits::MAX_ENTRIES;
use crate::log::Geometry;
use oncewire_kernels::Pages;

/// A slot of a [`CompactTable`]: `u32` for logs up to 1 GiB, `u64` beyond.
pub trait Slot: oncewire_kernels::Element + Copy + Send + 'static {
    /// Bits of the slot.
    const BITS: u32;
    /// The low bits of `value`.
    fn from_u64(value: u64) -> Self;
    /// The slot as a number.
    fn to_u64(self) -> u64;
}

impl Slot for u32 {
    const BITS: u32 = 32;
    #[inline(always)]
    fn from_u64(value: u64) -> u32 {
        value as u32
    }
    #[inline(always)]
    fn to_u64(self) -> u64 {
        u64::from(self)
    }
}

impl Slot for u64 {
    const BITS: u32 = 64;
    #[inline(always)]
    fn from_u64(value: u64) -> u64 {
        value
    }
    #[inline(always)]
    fn to_u64(self) -> u64 {
        self
    }
}

/// EndRE's compact table: one slot per index, with the ring position in its low bits and
/// fingerprint bits in the rest.
///
/// A log of `C` bytes needs `ceil(log2(C))` position bits; `C` need not be a power of two. With
/// 4-byte slots a log of 16 MiB leaves 8 fingerprint bits, as in EndRE's Table 1, 256 MiB leaves 4,
/// 1 GiB leaves 2, and 4 GiB would leave none; above 1 GiB slots have 8 bytes. The index is the
/// high half of `fingerprint x entries`, so any number of entries works. A slot of 0 is empty;
/// hence ring position 0 with fingerprint bits 0 cannot be stored, which loses at most one marker
/// per generation.
///
/// It may use few slots at first, so that a short stream touches little memory. Their number grows
/// by doubling: an index then has one more bit, and each slot becomes two. What is found depends on
/// the content alone, not on whether its length was known.
#[derive(Debug)]
pub struct CompactTable<T: Slot> {
    slots: Pages<T>,
    /// Slots in use: all, or half of them, rounded down, and so on.
    used: usize,
    /// Fingerprints stored while not all slots are in use.
    stored: usize,
    position_bits: u32,
    capacity: u64,
}

/// Slots fetched ahead of their use by a look-up of many.
const PREFETCH_AHEAD: usize = 16;

/// Largest log, in bytes, for which 4-byte slots are used.
pub const COMPACT_LIMIT: u64 = 1 << 30;

/// Slots in use at first, at least.
const FIRST_SLOTS: usize = 1 << 13;

/// Slots in use for each fingerprint stored, at least, while not all are.
const SLOTS_EACH: usize = 8;

/// Largest table that grows, in bytes. The last step takes as long as writing all of it, and a
/// larger one would keep a block waiting for too long.
const MAX_GROWING: usize = 64 << 20;

/// Bytes of a slot in the table of a log of `capacity` bytes.
pub fn slot_bytes(capacity: u64) -> u64 {
    if capacity <= COMPACT_LIMIT { size_of::<u32>() as u64 } else { size_of::<u64>() as u64 }
}

impl<T: Slot> CompactTable<T> {
    /// An empty table for a log of this geometry.
    ///
    /// # Errors
    /// [`ConfigError::TableEntries`] if `entries` is 0 or too many, [`ConfigError::Memory`] if
    /// there is no room for them.
    ///
    /// # Panics
    /// If a slot cannot hold the positions of the log.
    pub fn new(geometry: Geometry, entries: u64) -> Result<CompactTable<T>, ConfigError> {
        if entries == 0 || entries > MAX_ENTRIES {
            return Err(ConfigError::TableEntries { entries, max: MAX_ENTRIES });
        }
        let position_bits = u64::BITS - (geometry.capacity() - 1).leading_zeros();
        assert!(
            position_bits <= T::BITS,
            "a slot of {} bits cannot hold a position of {position_bits}",
            T::BITS
        );
        let bytes = (entries as usize).saturating_mul(size_of::<T>());
        let slots = Pages::zeroed(entries as usize).map_err(|source| ConfigError::Memory {
            bytes,
            what: "fingerprint table",
            source,
        })?;
        Ok(CompactTable {
            slots,
            used: entries as usize,
            stored: 0,
            position_bits,
            capacity: geometry.capacity(),
        })
    }

    /// If `growing`, few slots of an empty table are in use at first, and more as fingerprints are
    /// stored.
    pub fn growing(mut self, growing: bool) -> CompactTable<T> {
        self.used = self.slots.len();
        while growing && self.memory() <= MAX_GROWING && self.used / 2 >= FIRST_SLOTS {
            self.used /= 2;
        }
        if self.used == self.slots.len() {
            // The first blocks touch all of them.
            self.slots.try_huge();
        } else {
            self.slots = self.slots.with_small_front();
        }
        self
    }

    /// Fingerprint bits kept in each slot, 0 to 32 or more.
    pub fn remainder_bits(&self) -> u32 {
        T::BITS - self.position_bits
    }

    #[inline(always)]
    fn index(&self, fingerprint: u64) -> usize {
        // The high half of the product is below `used`: uniform for any number of slots, and
        // independent of the low fingerprint bits, which are the remainder.
        ((u128::from(fingerprint) * self.used as u128) >> 64) as usize
    }

    /// Makes room for so many more fingerprints.
    #[inline(always)]
    fn reserve(&mut self, count: usize) {
        if self.can_double() {
            self.stored += count;
            while self.stored * SLOTS_EACH > self.used && self.can_double() {
                self.double();
            }
        }
    }

    #[inline(always)]
    fn can_double(&self) -> bool {
        self.used <= self.slots.len() / 2
    }

    /// Twice as many slots in use. A fingerprint's new index is twice the old one, or one more.
    #[cold]
    fn double(&mut self) {
        self.slots.fill(self.used..2 * self.used);
        // From the end, in parts whose places before and after do not overlap.
        let mut end = self.used;
        while end > 1 {
            let begin = end.div_ceil(2);
            let (before, after) = self.slots[..2 * end].split_at_mut(2 * begin);
            for (pair, &slot) in after.chunks_exact_mut(2).zip(&before[begin..end]) {
                pair.fill(slot);
            }
            end = begin;
        }
        self.slots[1] = self.slots[0];
        self.used *= 2;
    }

    #[inline(always)]
    fn slot(&self, fingerprint: u64, position: u64) -> T {
        T::from_u64(fingerprint.checked_shl(self.position_bits).unwrap_or(0) | position)
    }

    /// The offset in slot `old`, as seen by a marker at ring position `position` whose own slot
    /// would be `here`.
    #[inline(always)]
    fn offset_in(
        &self,
        old: u64,
        here: u64,
        position: u64,
        position_mask: u64,
        generation: u64,
    ) -> u64 {
        let same_remainder = (old ^ here) & !position_mask == 0;
        let old_position = old & position_mask;
        if old == 0 || !same_remainder {
            NO_OFFSET
        } else if old_position < position {
            generation + old_position
        } else {
            // At or beyond this marker in the ring: it was written a generation ago. Before the
            // first generation there is nothing.
            (generation + old_position).checked_sub(self.capacity).unwrap_or(NO_OFFSET)
        }
    }

    #[inline(always)]
    fn prefetch(&self, fingerprints: &[u64]) {
        for &fingerprint in fingerprints {
            self.slots.prefetch(self.index(fingerprint));
        }
    }
}

impl<T: Slot> FingerprintTable for CompactTable<T> {
    #[inline]
    fn exchange(&mut self, fingerprints: &[u64], markers: Markers<'_>, found: &mut [u64]) {
        assert!(fingerprints.len() == markers.positions.len() && fingerprints.len() == found.len());
        self.reserve(fingerprints.len());
        self.prefetch(fingerprints);
        let start = markers.block % self.capacity;
        let generation = markers.block - start;
        let position_mask = (1u64 << self.position_bits) - 1;
        for ((&fingerprint, &marker), found) in
            fingerprints.iter().zip(markers.positions).zip(found)
        {
            let position = start + u64::from(marker);
            let new = self.slot(fingerprint, position);
            let index = self.index(fingerprint);
            let old = std::mem::replace(&mut self.slots[index], new).to_u64();
            *found = self.offset_in(old, new.to_u64(), position, position_mask, generation);
        }
    }

    fn look_up(&self, fingerprints: &[u64], markers: Markers<'_>, found: &mut [u64]) {
        assert!(fingerprints.len() == markers.positions.len() && fingerprints.len() == found.len());
        let start = markers.block % self.capacity;
        let generation = markers.block - start;
        let position_mask = (1u64 << self.position_bits) - 1;
        for (at, found) in found.iter_mut().enumerate() {
            if let Some(&soon) = fingerprints.get(at + PREFETCH_AHEAD) {
                self.slots.prefetch(self.index(soon));
            }
            let position = start + u64::from(markers.positions[at]);
            let here = self.slot(fingerprints[at], position).to_u64();
            let old = self.slots[self.index(fingerprints[at])].to_u64();
            *found = self.offset_in(old, here, position, position_mask, generation);
        }
    }

    #[inline]
    fn insert(&mut self, fingerprints: &[u64], markers: Markers<'_>) {
        assert_eq!(fingerprints.len(), markers.positions.len());
        self.reserve(fingerprints.len());
        let start = markers.block % self.capacity;
        for (&fingerprint, &marker) in fingerprints.iter().zip(markers.positions) {
            let index = self.index(fingerprint);
            self.slots[index] = self.slot(fingerprint, start + u64::from(marker));
        }
    }

    fn entries(&self) -> usize {
        self.slots.len()
    }

    fn memory(&self) -> usize {
        self.slots.len() * size_of::<T>()
    }

    fn prefault(&mut self) {
        self.slots.prefault();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn geometry(capacity: u64) -> Geometry {
        Geometry::new(capacity, 0).unwrap()
    }

    fn exchange(table: &mut impl FingerprintTable, block: u64, entries: &[(u64, u32)]) -> Vec<u64> {
        let (fingerprints, positions): (Vec<_>, Vec<_>) = entries.iter().copied().unzip();
        let mut found = vec![0; entries.len()];
        table.exchange(&fingerprints, Markers { block, positions: &positions }, &mut found);
        found
    }

    const A: u64 = 0x0123_4567_89ab_cdef;
    const B: u64 = 0xfedc_ba98_7654_3210;

    #[test]
    fn a_growing_table_finds_what_was_stored_before() {
        let entries = 100_001;
        let table: CompactTable<u32> = CompactTable::new(geometry(1 << 20), entries).unwrap();
        let mut table = table.growing(true);
        assert!(table.used < 1 << 14);
        // Spread evenly, so that no two have one slot.
        let fingerprint = |nth: u64| (nth + 1) * (u64::MAX / 10_000);
        for nth in 0..9_000u32 {
            let position = nth * 100 + 1;
            let (before, part) = (table.used, [fingerprint(nth.into())]);
            table.insert(&part, Markers { block: 0, positions: &[position] });
            if table.used > before || nth % 1000 == 999 {
                for known in 0..=nth {
                    let mut found = [0];
                    let markers = Markers { block: 1 << 20, positions: &[0] };
                    table.look_up(&[fingerprint(known.into())], markers, &mut found);
                    assert_eq!(found, [u64::from(known * 100 + 1)], "{known} of {nth}");
                }
            }
        }
        assert!(!table.can_double());
    }

    #[test]
    fn finds_the_newest_and_sees_its_own_batch() {
        let mut table = CompactTable::<u32>::new(geometry(1000), 64).unwrap();
        assert_eq!(
            exchange(&mut table, 100, &[(A, 5), (B, 9), (A, 20)]),
            [NO_OFFSET, NO_OFFSET, 105]
        );
        assert_eq!(exchange(&mut table, 200, &[(A, 0), (B, 1)]), [120, 109]);
    }

    #[test]
    fn positions_a_generation_behind_become_offsets_of_that_generation() {
        for capacity in [1000u64, 1 << 10, 777] {
            let mut table = CompactTable::<u32>::new(geometry(capacity), 64).unwrap();
            exchange(&mut table, 600, &[(A, 1)]);
            // In the next generation: ring position 601 is ahead of the writer.
            assert_eq!(exchange(&mut table, capacity, &[(A, 300)]), [601]);
            // And two generations on, the newer one.
            assert_eq!(exchange(&mut table, 2 * capacity, &[(A, 299)]), [capacity + 300]);
        }
    }

    #[test]
    fn remainder_bits_shrink_as_the_log_grows() {
        let bits =
            |capacity| CompactTable::<u32>::new(geometry(capacity), 8).unwrap().remainder_bits();
        assert_eq!(bits(16 << 20), 8); // EndRE, Table 1
        assert_eq!(bits(256 << 20), 4);
        assert_eq!(bits((256 << 20) + 1), 3);
        assert_eq!(bits(1 << 30), 2);
        assert_eq!(bits(1 << 32), 0);
        assert_eq!(CompactTable::<u64>::new(geometry(1 << 32), 8).unwrap().remainder_bits(), 32);
    }

    #[test]
    fn without_remainder_bits_it_still_answers_and_overwrites() {
        let mut table = CompactTable::<u32>::new(geometry(1 << 32), 1).unwrap();
        exchange(&mut table, 0, &[(A, 5)]);
        assert_eq!(exchange(&mut table, 64, &[(B, 1)]), [5]);
        assert_eq!(exchange(&mut table, 64, &[(A, 9)]), [65]);
    }

    #[test]
    fn remainders_tell_fingerprints_of_one_slot_apart() {
        let mut table = CompactTable::<u64>::new(geometry(1 << 32), 1).unwrap();
        exchange(&mut table, 0, &[(A, 5)]);
        assert_eq!(exchange(&mut table, 64, &[(B, 1)]), [NO_OFFSET]);
    }

    #[test]
    fn insert_points_to_the_new_copy() {
        let mut table = CompactTable::<u32>::new(geometry(4096), 64).unwrap();
        exchange(&mut table, 0, &[(A, 5)]);
        table.insert(&[A], Markers { block: 512, positions: &[7] });
        assert_eq!(exchange(&mut table, 1024, &[(A, 0)]), [519]);
    }
}
