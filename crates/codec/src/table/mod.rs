//! Fingerprint tables: fingerprint to log offset.
//!
//! EndRE section 5.2.2 and Table 1: part of the fingerprint is the index, each entry keeps as many
//! of its other bits as fit beside the log position, and newer entries overwrite older ones.
//! Nothing is ever cleaned, so an entry may point at content that has left the log. The matcher
//! compares bytes anyway, so a stale entry costs one memory access.

mod compact;

pub use compact::{COMPACT_LIMIT, CompactTable, Slot, slot_bytes};

/// Returned for a fingerprint that the table does not hold.
pub const NO_OFFSET: u64 = u64::MAX;

/// The markers of a block: its offset and their positions in it.
#[derive(Clone, Copy, Debug)]
pub struct Markers<'a> {
    /// Offset of the block in the log.
    pub block: u64,
    /// Positions in the block, ascending.
    pub positions: &'a [u32],
}

/// A map from fingerprints to log offsets, used in batches. It may forget entries and may return
/// wrong ones.
pub trait FingerprintTable: Send + 'static {
    /// For each fingerprint in order, looks up its offset and replaces it by the marker's. Later
    /// fingerprints of a batch see earlier ones. `found[i]` becomes the older offset, which is
    /// below the marker's, or [`NO_OFFSET`].
    ///
    /// Look-up and insertion are one access: the newest copy wins (thesis, line 2275: a fingerprint
    /// points to the most recent packet), and a repeat inside the batch is seen.
    fn exchange(&mut self, fingerprints: &[u64], markers: Markers<'_>, found: &mut [u64]);

    /// Looks up the offset of each fingerprint, below the marker's, or [`NO_OFFSET`]. Changes
    /// nothing.
    fn look_up(&self, fingerprints: &[u64], markers: Markers<'_>, found: &mut [u64]);

    /// Stores the markers' offsets without looking up.
    fn insert(&mut self, fingerprints: &[u64], markers: Markers<'_>);

    /// Number of entries.
    fn entries(&self) -> usize;

    /// Memory of the full table, in bytes.
    fn memory(&self) -> usize;

    /// Touches all memory, for measurements.
    fn prefault(&mut self);
}
