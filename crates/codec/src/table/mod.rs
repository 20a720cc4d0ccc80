//! Fingerprint tables: fingerprint to log offset.
//!
//! EndRE section 5.2.2 and Table 1: part of the fingerprint is the index, each entry keeps the rest of its bits that fit beside
//! the log position, and entries are overwritten by newer ones and never cleaned. An entry may therefore point at content that is
//! gone or has been replaced; the matcher compares bytes anyway, so a wrong entry costs a memory access and no more.

mod bucket;
mod compact;

pub use bucket::{BucketShape, BucketTable};
pub(crate) use compact::slot_bytes;
pub use compact::{COMPACT_LIMIT, CompactTable, Slot};

/// What [`FingerprintTable::exchange`] says for a fingerprint it does not know.
pub const NO_OFFSET: u64 = u64::MAX;

/// Where markers of the current block lie: the block's offset and the markers' positions in it.
#[derive(Clone, Copy, Debug)]
pub struct Markers<'a> {
    /// Offset of the block in the log.
    pub block: u64,
    /// Positions in the block, ascending.
    pub positions: &'a [u32],
}

/// A map from fingerprints to log offsets that may forget and may be wrong, a batch at a time.
pub trait FingerprintTable: Send + 'static {
    /// For each fingerprint in order: looks up the offset it had, and points it to the marker's own. Later fingerprints of a
    /// batch see earlier ones. `found[i]` becomes the older offset (below the marker's) or [`NO_OFFSET`].
    ///
    /// Look-up and insertion are one access: the newest copy wins (thesis, line 2275: a fingerprint points to the most recent
    /// packet), and a repeat inside the batch is seen.
    fn exchange(&mut self, fingerprints: &[u64], markers: Markers<'_>, found: &mut [u64]);

    /// For each fingerprint: the offset it has, below the marker's, or [`NO_OFFSET`]. Changes nothing.
    fn look_up(&self, fingerprints: &[u64], markers: Markers<'_>, found: &mut [u64]);

    /// Points fingerprints to the markers' offsets without looking.
    fn insert(&mut self, fingerprints: &[u64], markers: Markers<'_>);

    /// Number of entries.
    fn entries(&self) -> usize;

    /// Memory that the table may come to use, in bytes.
    fn memory(&self) -> usize;

    /// Touches all memory, for measurements.
    fn prefault(&mut self);
}

/// Largest number of entries of a table.
pub const MAX_ENTRIES: u64 = 1 << 36;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log::Geometry;

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
        // A lap on, in the ring: the newest is found as long as its content is there.
        table.exchange(&[b], markers(1100, &[0]), &mut found[..1]);
        assert_eq!(found[0], 263);
    }

    #[test]
    fn all_tables_keep_the_same_laws() {
        let geometry = Geometry::new(1000, 0).unwrap();
        laws(CompactTable::<u32>::new(geometry, 64).unwrap());
        laws(CompactTable::<u64>::new(geometry, 64).unwrap());
        laws(BucketTable::new(geometry, 64, BucketShape::default()).unwrap());
        laws(BucketTable::new(geometry, 64, BucketShape { slots: 1, hashes: 2, factor: 2.0 }).unwrap());
    }
}
