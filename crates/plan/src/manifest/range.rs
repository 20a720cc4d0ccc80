//! A range of hashes.

/// A range of hashes of a path's packets, and the device that caches them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Range {
    /// Which hop of the path: an index of [`PlannedPath::hops`](super::PlannedPath::hops).
    pub hop: u32,
    /// First hash.
    pub from: u64,
    /// End of the range (exclusive).
    pub to: u64,
    /// Size in bytes of the FIFO bucket, the same at the ingress and the device.
    pub bytes: u64,
}
