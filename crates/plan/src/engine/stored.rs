//! Packets of a store, and matches with them.

use std::sync::Arc;

use crate::{DeviceId, HeaderHash};

/// A packet in the store.
#[derive(Debug)]
pub(crate) struct Stored {
    /// The FIFO queue that it is in, with those of its device.
    pub(crate) queue: u32,
    pub(crate) path: u32,
    pub(crate) name: u64,
    pub(crate) hash: HeaderHash,
    /// The device that caches it.
    pub(crate) device: DeviceId,
    /// Version of the allocation that assigned it.
    pub(crate) version: u32,
    /// Key of five-tuple and payload.
    pub(crate) copy: u64,
    pub(crate) payload: Arc<[u8]>,
    /// Null regions, which nothing may refer to: `from..to`, ascending and disjoint.
    pub(crate) nulls: Vec<(u32, u32)>,
    /// Bytes that it takes in its bucket.
    pub(crate) size: u64,
    /// Retention epochs before it was stored.
    pub(crate) epoch: u64,
    /// When it was stored, in nanoseconds.
    pub(crate) time: u64,
    /// How many packets that may not have arrived it depends on, one through the other.
    pub(crate) depth: u8,
    /// Virtual address.
    pub(crate) start: u64,
}

/// A match that was found: `length` bytes at `at` of the packet are those at `offset` of the stored
/// one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Found {
    pub(crate) slot: u32,
    pub(crate) at: u32,
    pub(crate) offset: u32,
    pub(crate) length: u32,
}

impl Found {
    pub(crate) fn end(&self) -> u32 {
        self.at + self.length
    }
}

/// Why a match is not used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    Overlap,
    Ambiguous,
    Overloaded,
    Short,
    /// It may not have arrived.
    Unconfirmed,
    /// The packet is a retransmission.
    Again,
}

/// What a match is worth, or why not to use it.
pub(crate) type Worth = Result<u64, Refusal>;

impl Stored {
    /// A packet without null regions.
    pub(crate) fn new(
        queue: u32,
        (path, name, hash): (u32, u64, HeaderHash),
        (device, version): (DeviceId, u32),
        copy: u64,
        payload: Arc<[u8]>,
        size: u64,
    ) -> Self {
        let nulls = Vec::new();
        Self {
            queue,
            path,
            name,
            hash,
            device,
            version,
            copy,
            payload,
            nulls,
            size,
            epoch: 0,
            time: 0,
            depth: 0,
            start: 0,
        }
    }
}

/// The region without null bytes around a position.
pub(crate) fn extent(stored: &Stored, position: usize) -> (usize, usize) {
    let mut low = 0;
    for &(from, to) in &stored.nulls {
        let (from, to) = (from as usize, to as usize);
        if position < from {
            return (low, from);
        }
        if position < to {
            return (position, position);
        }
        low = to;
    }
    (low, stored.payload.len())
}
