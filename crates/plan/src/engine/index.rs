//! Fingerprints and where in the store they are.

use oncewire_codec::{
    Geometry,
    table::{CompactTable, FingerprintTable, Markers, NO_OFFSET},
};
use oncewire_kernels::Pages;

/// Slots that a fingerprint may be in: two cache lines.
const WAYS: usize = 16;

/// One address for each fingerprint, or several. Both take 8 bytes for a slot and have as many slots.
pub(crate) enum Index {
    One(CompactTable<u64>),
    Several(Sets),
}

impl Index {
    /// An index with so many slots, for a ring of this geometry, with up to `copies` addresses for a
    /// fingerprint.
    pub(crate) fn new(geometry: Geometry, slots: u64, copies: u8) -> Result<Self, String> {
        if copies <= 1 {
            let table = CompactTable::new(geometry, slots).map_err(|error| error.to_string());
            return table.map(Self::One);
        }
        Sets::new(geometry, slots, copies).map(Self::Several)
    }

    /// Bytes of memory.
    pub(crate) fn memory(&self) -> usize {
        match self {
            Self::One(table) => table.memory(),
            Self::Several(sets) => sets.slots.len() * size_of::<u64>(),
        }
    }

    /// Whether a fingerprint may have several addresses.
    pub(crate) fn several(&self) -> bool {
        matches!(self, Self::Several(_))
    }

    /// Has what a fingerprint needs brought from memory.
    pub(crate) fn prefetch(&self, fingerprint: u64) {
        if let Self::Several(sets) = self {
            let set = sets.set(fingerprint);
            sets.slots.prefetch(set.start);
            sets.slots.prefetch(set.end - 1);
        }
    }

    /// Appends the addresses of a fingerprint to `found`, newest first. They are as seen from
    /// `here`, where the next packet goes; some may be of packets that have gone, or of other
    /// fingerprints.
    pub(crate) fn look_up(&self, fingerprint: u64, here: u64, found: &mut Vec<u64>) {
        match self {
            Self::One(table) => {
                let mut hit = [NO_OFFSET];
                let markers = Markers { block: here, positions: &[0] };
                table.look_up(&[fingerprint], markers, &mut hit);
                found.extend(hit.iter().filter(|&&hit| hit != NO_OFFSET));
            }
            Self::Several(sets) => sets.look_up(fingerprint, here, found),
        }
    }

    /// Adds an address; `here` is where the ring ends.
    pub(crate) fn insert(&mut self, fingerprint: u64, address: u64, here: u64) {
        match self {
            Self::One(table) => {
                table.insert(&[fingerprint], Markers { block: address, positions: &[0] });
            }
            Self::Several(sets) => sets.insert(fingerprint, address, here),
        }
    }
}

/// Sets of slots. A slot has an address modulo two generations of the ring in its low bits, so that
/// what was overwritten in the last one is known, and bits of the fingerprint in the others; 0 is an
/// empty one.
pub(crate) struct Sets {
    slots: Pages<u64>,
    position_bits: u32,
    /// Bytes of the ring.
    capacity: u64,
    copies: usize,
}

impl Sets {
    fn new(geometry: Geometry, slots: u64, copies: u8) -> Result<Self, String> {
        let capacity = geometry.capacity();
        let count = (slots as usize).next_multiple_of(WAYS);
        let slots = Pages::zeroed(count).map_err(|error| {
            let bytes = count.saturating_mul(size_of::<u64>());
            format!("no memory for a fingerprint table of {bytes} bytes: {error}")
        })?;
        // One more than the position: a slot in use is not 0.
        let position_bits = u64::BITS - (2 * capacity).leading_zeros();
        Ok(Self { slots, position_bits, capacity, copies: usize::from(copies).min(WAYS) })
    }

    fn set(&self, fingerprint: u64) -> std::ops::Range<usize> {
        let sets = (self.slots.len() / WAYS) as u128;
        let set = ((u128::from(fingerprint) * sets) >> 64) as usize;
        set * WAYS..(set + 1) * WAYS
    }

    fn tag(&self, fingerprint: u64) -> u64 {
        fingerprint << self.position_bits
    }

    /// How many bytes before `here` the slot's address is.
    fn age(&self, slot: u64, here: u64) -> u64 {
        let position = (slot & ((1 << self.position_bits) - 1)) - 1;
        let now = here % (2 * self.capacity);
        if position < now { now - position } else { now + 2 * self.capacity - position }
    }

    fn same(&self, slot: u64, tag: u64) -> bool {
        slot != 0 && slot >> self.position_bits == tag >> self.position_bits
    }

    fn look_up(&self, fingerprint: u64, here: u64, found: &mut Vec<u64>) {
        let tag = self.tag(fingerprint);
        let before = found.len();
        for &slot in &self.slots[self.set(fingerprint)] {
            if self.same(slot, tag) && self.age(slot, here) <= self.capacity {
                found.extend(here.checked_sub(self.age(slot, here)));
            }
        }
        found[before..].sort_unstable_by(|one, other| other.cmp(one));
    }

    fn insert(&mut self, fingerprint: u64, address: u64, here: u64) {
        let tag = self.tag(fingerprint);
        let new = tag | (address % (2 * self.capacity) + 1);
        let set = self.set(fingerprint);
        let (now, mask, around) =
            (here % (2 * self.capacity), (1 << self.position_bits) - 1, 2 * self.capacity);
        let Some(of_set) = self.slots[set].first_chunk_mut::<WAYS>() else { return };
        // The oldest of all, and of this fingerprint: ages are above 0, those of empty slots highest.
        let (mut all, mut own, mut copies) = ((0, 0), (0, 0), 0);
        for (way, &slot) in of_set.iter().enumerate() {
            if slot == new {
                return;
            }
            let position = (slot & mask).wrapping_sub(1);
            let age = now.wrapping_sub(position);
            let age = if position < now { age } else { age.wrapping_add(around) };
            let age = if slot == 0 { u64::MAX } else { age };
            if age >= all.0 {
                all = (age, way);
            }
            // An empty slot is no copy.
            if slot != 0 && (slot ^ tag) & !mask == 0 {
                copies += 1;
                if age >= own.0 {
                    own = (age, way);
                }
            }
        }
        let (_, way) = if copies < self.copies { all } else { own };
        of_set[way] = new;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn index(copies: u8) -> Index {
        Index::new(Geometry::new(1000, 0).unwrap(), 64, copies).unwrap()
    }

    fn found(index: &Index, fingerprint: u64, here: u64) -> Vec<u64> {
        let mut found = Vec::new();
        index.look_up(fingerprint, here, &mut found);
        found
    }

    const A: u64 = 0x0123_4567_89ab_cdef;
    /// Of the same set, with other bits.
    const B: u64 = 0x0123_4567_89ab_cdee;

    #[test]
    fn the_newest_copies_are_kept_and_come_first() {
        let mut index = index(3);
        for address in [0, 10, 20, 20, 30] {
            index.insert(A, address, address + 5);
        }
        index.insert(B, 15, 40);
        assert_eq!(found(&index, A, 50), [30, 20, 10]);
        assert_eq!(found(&index, B, 50), [15]);
        // A generation later; what was overwritten by then is not found.
        index.insert(A, 1015, 1018);
        assert_eq!(found(&index, A, 1018), [1015, 30, 20]);
        assert_eq!(found(&index, A, 1025), [1015, 30]);
        assert_eq!(found(&index, A, 1500), [1015]);
    }

    #[test]
    fn a_full_set_loses_the_oldest() {
        let mut index = index(16);
        for number in 0..20 {
            // Tags differ: position bits are 11.
            index.insert(A ^ number, number * 10, number * 10 + 5);
        }
        let left: Vec<u64> =
            (0..20).filter(|&number| !found(&index, A ^ number, 200).is_empty()).collect();
        assert_eq!(left, (4..20).collect::<Vec<u64>>());
    }

    #[test]
    fn several_copies_take_no_more_memory() {
        assert_eq!(index(1).memory(), index(16).memory());
        let odd = |copies| {
            Index::new(Geometry::new(1 << 20, 0).unwrap(), 65_537, copies).unwrap().memory()
        };
        assert!(odd(16) < odd(1) + WAYS * 8);
    }
}
