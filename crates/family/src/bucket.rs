//! SmartRE's bucketed table.

use oncewire_codec::limits::MAX_ENTRIES;
use oncewire_codec::table::{FingerprintTable, Markers, NO_OFFSET};
use oncewire_codec::{ConfigError, Geometry};
use oncewire_kernels::Pages;

/// Shape of a [`BucketTable`]: `B`, `k` and `f` of the thesis (lines 2240-2262).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BucketShape {
    /// Slots in each bucket, `B`: 1..=8.
    pub slots: usize,
    /// Buckets in which a fingerprint may lie, `k`: 1..=4.
    pub hashes: usize,
    /// Buckets per fingerprint to be stored, `f`: 0.25..=16. There are `B x f` slots per
    /// fingerprint.
    pub factor: f64,
}

impl Default for BucketShape {
    /// The authors' choice: one hash function and two slots a bucket, with `B x f = 4`.
    fn default() -> BucketShape {
        BucketShape { slots: 2, hashes: 1, factor: 2.0 }
    }
}

impl BucketShape {
    fn buckets(self, entries: u64) -> u64 {
        (entries as f64 * self.factor).ceil() as u64
    }

    /// Bytes of a table of this shape for so many fingerprints.
    pub(crate) fn bytes(self, entries: u64) -> u64 {
        self.buckets(entries)
            .saturating_mul(self.slots as u64)
            .saturating_mul(size_of::<u64>() as u64)
    }
}

/// The fingerprint table of SmartRE's gigabit implementation (thesis, "Optimizing the fingerprint
/// store"): buckets of a few slots.
///
/// A fingerprint goes to the first free slot of its buckets and is dropped if there is none. A slot
/// is free if it was never used or if its offset shows that its content has left the log; nothing
/// is ever cleaned. A fingerprint that is already stored is updated to its newest content.
///
/// A slot has 8 bytes: the offset modulo 2^40, which is enough for the largest log, and 24 bits of
/// the fingerprint. (The thesis stores the whole fingerprint, packet number and position, about 24
/// bytes. That differs in memory, not in which insertions fail. A slot not touched for exactly a
/// multiple of 2^40 bytes looks fresh; the matcher compares bytes, so that costs one access.)
#[derive(Debug)]
pub struct BucketTable {
    slots: Pages<u64>,
    buckets: u64,
    shape: BucketShape,
    capacity: u64,
    stored: u64,
    dropped: u64,
}

const OFFSET_BITS: u32 = 40;
const OFFSET_MASK: u64 = (1 << OFFSET_BITS) - 1;

/// Odd multipliers, one per hash function, from the fractional digits of e.
const MULTIPLIERS: [u64; 4] =
    [0xb7e1_5162_8aed_2a6b, 0xbf71_5880_9cf4_f3c7, 0x62e7_160f_38b4_da57, 0xa784_d904_5190_cfef];

impl BucketTable {
    /// An empty table for `entries` fingerprints into a log of this geometry.
    ///
    /// # Errors
    /// [`ConfigError::TableEntries`] if there are none or too many, [`ConfigError::BucketShape`]
    /// for a shape out of range, [`ConfigError::Memory`] if there is no room.
    pub fn new(
        geometry: Geometry,
        entries: u64,
        shape: BucketShape,
    ) -> Result<BucketTable, ConfigError> {
        let BucketShape { slots, hashes, factor } = shape;
        if !(1..=8).contains(&slots)
            || !(1..=MULTIPLIERS.len()).contains(&hashes)
            || !(0.25..=16.0).contains(&factor)
        {
            return Err(ConfigError::BucketShape { slots, hashes, factor });
        }
        let buckets = shape.buckets(entries);
        let total = buckets.saturating_mul(slots as u64);
        if entries == 0 || total > MAX_ENTRIES {
            return Err(ConfigError::TableEntries {
                entries,
                max: MAX_ENTRIES / (slots as u64 * factor.ceil() as u64),
            });
        }
        let bytes = shape.bytes(entries) as usize;
        let slots = Pages::zeroed(total as usize).map_err(|source| ConfigError::Memory {
            bytes,
            what: "fingerprint table",
            source,
        })?;
        Ok(BucketTable {
            slots,
            buckets,
            shape,
            capacity: geometry.capacity(),
            stored: 0,
            dropped: 0,
        })
    }

    /// Fingerprints stored in a free slot so far.
    pub fn stored(&self) -> u64 {
        self.stored
    }

    /// Fingerprints dropped so far because all their slots were taken.
    pub fn dropped(&self) -> u64 {
        self.dropped
    }

    #[inline(always)]
    fn first_slot(&self, fingerprint: u64, hash: usize) -> usize {
        // The first hash function is the fingerprint itself, the others are made from it.
        let value = if hash == 0 {
            fingerprint
        } else {
            (fingerprint ^ fingerprint >> 32).wrapping_mul(MULTIPLIERS[hash])
        };
        ((u128::from(value) * u128::from(self.buckets)) >> 64) as usize * self.shape.slots
    }

    /// The offset before `now` that `slot` points to, if its content can still be in the log.
    #[inline(always)]
    fn live(&self, slot: u64, now: u64) -> Option<u64> {
        let age = now.wrapping_sub(slot) & OFFSET_MASK;
        (slot != 0 && age != 0 && age <= self.capacity).then(|| now.checked_sub(age)).flatten()
    }

    /// The slot that holds `fingerprint` with the offset it points to, or else the first free one.
    #[inline(always)]
    fn locate(&self, fingerprint: u64, now: u64) -> (Option<usize>, Option<(usize, u64)>) {
        let mut free = None;
        for hash in 0..self.shape.hashes {
            let first = self.first_slot(fingerprint, hash);
            for index in first..first + self.shape.slots {
                match self.live(self.slots[index], now) {
                    None => free = free.or(Some(index)),
                    Some(offset)
                        if (self.slots[index] ^ fingerprint << OFFSET_BITS) >> OFFSET_BITS == 0 =>
                    {
                        return (free, Some((index, offset)));
                    }
                    Some(_) => {}
                }
            }
        }
        (free, None)
    }

    #[inline(always)]
    fn put(&mut self, fingerprint: u64, now: u64) -> u64 {
        let (free, held) = self.locate(fingerprint, now);
        let slot = fingerprint << OFFSET_BITS | now & OFFSET_MASK;
        match (held, free) {
            (Some((index, offset)), _) => {
                self.slots[index] = slot;
                return offset;
            }
            (None, Some(index)) => {
                self.slots[index] = slot;
                self.stored += 1;
            }
            (None, None) => self.dropped += 1,
        }
        NO_OFFSET
    }

    #[inline(always)]
    fn prefetch(&self, fingerprints: &[u64]) {
        for &fingerprint in fingerprints {
            for hash in 0..self.shape.hashes {
                self.slots.prefetch(self.first_slot(fingerprint, hash));
            }
        }
    }
}

/// Number of fingerprints whose buckets are prefetched together.
const BATCH: usize = 32;

impl FingerprintTable for BucketTable {
    fn exchange(&mut self, fingerprints: &[u64], markers: Markers<'_>, found: &mut [u64]) {
        assert!(fingerprints.len() == markers.positions.len() && fingerprints.len() == found.len());
        for (batch, fingerprints) in fingerprints.chunks(BATCH).enumerate() {
            self.prefetch(fingerprints);
            for (i, &fingerprint) in fingerprints.iter().enumerate() {
                let at = batch * BATCH + i;
                found[at] = self.put(fingerprint, markers.block + u64::from(markers.positions[at]));
            }
        }
    }

    fn look_up(&self, fingerprints: &[u64], markers: Markers<'_>, found: &mut [u64]) {
        assert!(fingerprints.len() == markers.positions.len() && fingerprints.len() == found.len());
        for (batch, fingerprints) in fingerprints.chunks(BATCH).enumerate() {
            self.prefetch(fingerprints);
            for (i, &fingerprint) in fingerprints.iter().enumerate() {
                let at = batch * BATCH + i;
                let (_, held) =
                    self.locate(fingerprint, markers.block + u64::from(markers.positions[at]));
                found[at] = held.map_or(NO_OFFSET, |(_, offset)| offset);
            }
        }
    }

    fn insert(&mut self, fingerprints: &[u64], markers: Markers<'_>) {
        assert_eq!(fingerprints.len(), markers.positions.len());
        for (fingerprints, positions) in
            fingerprints.chunks(BATCH).zip(markers.positions.chunks(BATCH))
        {
            self.prefetch(fingerprints);
            for (&fingerprint, &position) in fingerprints.iter().zip(positions) {
                self.put(fingerprint, markers.block + u64::from(position));
            }
        }
    }

    fn entries(&self) -> usize {
        self.slots.len()
    }

    fn memory(&self) -> usize {
        self.slots.len() * size_of::<u64>()
    }

    fn prefault(&mut self) {
        self.slots.prefault();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use oncewire_codec::table::CompactTable;
    use std::collections::HashMap;

    fn laws(mut table: impl FingerprintTable) {
        let (a, b) = (0x0123_4567_89ab_cdef, 0xfedc_ba98_7654_3210);
        let markers = |block, positions| Markers { block, positions };
        let mut found = [0; 3];
        table.look_up(&[a], markers(64, &[1]), &mut found[..1]);
        assert_eq!(found[0], NO_OFFSET);
        table.exchange(&[a, b, a], markers(64, &[1, 5, 9]), &mut found);
        assert_eq!(found, [NO_OFFSET, NO_OFFSET, 65]);
        // Looking changes nothing, so it can be done twice.
        for _ in 0..2 {
            table.look_up(&[a, b], markers(256, &[0, 3]), &mut found[..2]);
            assert_eq!(found[..2], [73, 69]);
        }
        table.insert(&[b], markers(256, &[7]));
        table.look_up(&[b], markers(512, &[0]), &mut found[..1]);
        assert_eq!(found[0], 263);
        // A generation on, in the ring: the newest is found as long as its content is there.
        table.exchange(&[b], markers(1100, &[0]), &mut found[..1]);
        assert_eq!(found[0], 263);
    }

    #[test]
    fn all_tables_obey_the_same_laws() {
        let geometry = Geometry::new(1000, 0).unwrap();
        laws(CompactTable::<u32>::new(geometry, 64).unwrap());
        laws(CompactTable::<u64>::new(geometry, 64).unwrap());
        laws(BucketTable::new(geometry, 64, BucketShape::default()).unwrap());
        laws(
            BucketTable::new(geometry, 64, BucketShape { slots: 1, hashes: 2, factor: 2.0 })
                .unwrap(),
        );
    }

    /// Share of insertions that fail while `entries` fingerprints are live: while the table fills
    /// for the first time, and then with the oldest leaving for each that comes.
    fn failures(shape: BucketShape, entries: u64) -> (f64, f64) {
        let mut table =
            BucketTable::new(Geometry::new(entries, 0).unwrap(), entries, shape).unwrap();
        let mut rng = fastrand::Rng::with_seed(7);
        let mut pass = |generations: std::ops::Range<u64>| {
            let before = table.dropped();
            for offset in generations.start * entries..generations.end * entries {
                table.insert(&[rng.u64(..)], Markers { block: offset + 1, positions: &[0] });
            }
            (table.dropped() - before) as f64
                / ((generations.end - generations.start) * entries) as f64
        };
        (pass(0..1), pass(1..6))
    }

    /// Thesis, lines 2254-2260: "for k = 1 we see that f = 2 (and B x f = 4) offers low
    /// probabilities of failure (2 % chance)"; with two hash functions "0.002 % for f = 4". Read as
    /// f buckets of B slots for each fingerprint.
    #[test]
    fn insertions_fail_about_as_often_as_in_the_thesis() {
        let (filling, full) = failures(BucketShape::default(), 200_000);
        assert!((0.02..0.05).contains(&filling), "{filling}");
        assert!((0.04..0.10).contains(&full), "{full}");
        let (filling, full) = failures(BucketShape { slots: 2, hashes: 2, factor: 4.0 }, 200_000);
        assert!(filling < 0.0005 && full < 0.002, "{filling} {full}");
    }

    #[test]
    fn what_has_left_the_log_makes_room_and_is_not_found() {
        let shape = BucketShape { slots: 2, hashes: 1, factor: 0.25 };
        let mut table = BucketTable::new(Geometry::new(100, 0).unwrap(), 1, shape).unwrap();
        table.insert(&[1, 2], Markers { block: 10, positions: &[0, 50] });
        // Both slots of the only bucket are taken.
        table.insert(&[3], Markers { block: 61, positions: &[0] });
        assert_eq!((table.stored(), table.dropped()), (2, 1));
        let mut found = [0];
        table.look_up(&[1], Markers { block: 110, positions: &[0] }, &mut found);
        assert_eq!(found, [10]);
        table.look_up(&[1], Markers { block: 111, positions: &[0] }, &mut found);
        assert_eq!(found, [NO_OFFSET]);
        table.insert(&[3], Markers { block: 111, positions: &[0] });
        assert_eq!((table.stored(), table.dropped()), (3, 1));
    }

    #[test]
    fn agrees_with_a_map_when_there_is_room() {
        let mut table = BucketTable::new(
            Geometry::new(1 << 20, 0).unwrap(),
            4096,
            BucketShape { slots: 8, hashes: 4, factor: 2.0 },
        )
        .unwrap();
        let mut oracle = HashMap::new();
        let mut rng = fastrand::Rng::with_seed(3);
        for offset in 1..4096u64 {
            let fingerprint = rng.u64(..) & !0xff0;
            let fingerprint = if offset % 3 == 0 {
                fingerprint % 64 * 0x0404_0404_0404_0404
            } else {
                fingerprint
            };
            let mut found = [0];
            table.exchange(&[fingerprint], Markers { block: offset, positions: &[0] }, &mut found);
            assert_eq!(found[0], oracle.insert(fingerprint, offset).unwrap_or(NO_OFFSET));
        }
        assert_eq!(table.dropped(), 0);
    }

    #[test]
    fn shapes_out_of_range_are_refused() {
        let geometry = Geometry::new(100, 0).unwrap();
        for (slots, hashes, factor) in [
            (0, 1, 1.0),
            (9, 1, 1.0),
            (2, 0, 1.0),
            (2, 5, 1.0),
            (2, 1, 0.0),
            (2, 1, f64::NAN),
            (2, 1, 17.0),
        ] {
            let refused = BucketTable::new(geometry, 8, BucketShape { slots, hashes, factor });
            assert!(
                matches!(refused, Err(ConfigError::BucketShape { .. })),
                "{slots} {hashes} {factor}"
            );
        }
    }
}
