//! Buffers of all partitions.

mod cuckoo;
mod open;

use crate::device::{Aligned, PAGE};
pub(crate) use crate::format::Pair;
use crate::format::hash::{Hash, hash};
use crate::format::{Layout, Superblock};
use cuckoo::Cuckoo;
use open::Open;

/// A buffer has no place for a key.
#[derive(Debug)]
pub(crate) struct NoPlace;

/// The buffers, by their layout.
pub(crate) enum Buffers {
    /// Images of slots, half full.
    Published(Cuckoo),
    /// Entries, which are sorted when they are written.
    Sorted(Open),
}

/// What writing a buffer needs.
pub(crate) struct Scratch {
    /// The pages of a slot.
    pub(crate) image: Aligned,
    order: Vec<u64>,
    /// Hashes of the entries.
    pub(crate) hashes: Vec<u64>,
}

impl Scratch {
    pub(crate) fn new(slot_bytes: usize, capacity: usize) -> Scratch {
        Scratch {
            image: Aligned::new(slot_bytes),
            order: Vec::with_capacity(capacity),
            hashes: Vec::with_capacity(capacity),
        }
    }

    /// Bytes of memory.
    pub(crate) fn memory(slot_bytes: u64, capacity: u32) -> u64 {
        slot_bytes + PAGE as u64 + 2 * 8 * u64::from(capacity)
    }
}

impl Buffers {
    pub(crate) fn new(superblock: &Superblock) -> Buffers {
        let geometry = &superblock.geometry;
        match geometry.layout {
            Layout::Published => Buffers::Published(Cuckoo::new(
                geometry.partitions,
                geometry.pages,
                crate::format::page::Entries { key: geometry.key, value: geometry.value },
                superblock.secret,
            )),
            Layout::Sorted => Buffers::Sorted(Open::new(
                geometry.partitions,
                geometry.capacity(),
                geometry.key,
                geometry.value,
                superblock.secret,
            )),
        }
    }

    /// Bytes of memory for all buffers.
    pub(crate) fn memory(geometry: &crate::format::Geometry) -> u64 {
        match geometry.layout {
            Layout::Published => Cuckoo::memory(geometry.partitions, geometry.pages),
            Layout::Sorted => {
                let entry = geometry.key + geometry.value;
                Open::memory(geometry.partitions, geometry.capacity(), entry)
            }
        }
    }

    pub(crate) fn len(&self, partition: u32) -> u32 {
        match self {
            Buffers::Published(cuckoo) => cuckoo.len(partition),
            Buffers::Sorted(open) => open.len(partition),
        }
    }

    pub(crate) fn deletes(&self, partition: u32) -> u32 {
        match self {
            Buffers::Published(cuckoo) => cuckoo.deletes(partition),
            Buffers::Sorted(open) => open.deletes(partition),
        }
    }

    /// What a buffer holds for a key: a value, or `None` for a delete.
    pub(crate) fn get(&self, hash: Hash, key: &[u8]) -> Option<Option<&[u8]>> {
        match self {
            Buffers::Published(cuckoo) => cuckoo.get(hash, key),
            Buffers::Sorted(open) => open.get(hash, key),
        }
    }

    /// Inserts or replaces an entry of a buffer with fewer than `capacity` entries, or one that has
    /// the key.
    ///
    /// # Errors
    ///
    /// If it has no place for it.
    pub(crate) fn put(
        &mut self,
        hash: Hash,
        key: &[u8],
        value: Option<&[u8]>,
    ) -> Result<(), NoPlace> {
        match self {
            Buffers::Published(cuckoo) => cuckoo.put(hash, key, value),
            Buffers::Sorted(open) => open.put(hash, key, value).then_some(()).ok_or(NoPlace),
        }
    }

    /// Every entry of a buffer.
    pub(crate) fn entries(&self, partition: u32) -> Box<dyn Iterator<Item = Pair<'_>> + '_> {
        match self {
            Buffers::Published(cuckoo) => Box::new(cuckoo.entries(partition)),
            Buffers::Sorted(open) => Box::new(open.entries(partition)),
        }
    }

    /// Entries that changed since [`Buffers::spilled`], of all buffers that have any, with their
    /// partitions.
    pub(crate) fn fresh(&self) -> Box<dyn Iterator<Item = (u32, Pair<'_>)> + '_> {
        match self {
            Buffers::Published(cuckoo) => Box::new(cuckoo.fresh()),
            Buffers::Sorted(open) => Box::new(open.fresh()),
        }
    }

    /// All entries are in the spill now.
    pub(crate) fn spilled(&mut self) {
        match self {
            Buffers::Published(cuckoo) => cuckoo.spilled(),
            Buffers::Sorted(open) => open.spilled(),
        }
    }

    /// The pages of a slot with what a buffer holds, to seal and write. `scratch.hashes` becomes
    /// the hashes of the entries.
    pub(crate) fn image<'a>(
        &'a mut self,
        superblock: &Superblock,
        partition: u32,
        scratch: &'a mut Scratch,
    ) -> &'a mut [u8] {
        match self {
            Buffers::Published(cuckoo) => {
                scratch.hashes.clear();
                let partitions = superblock.geometry.partitions;
                let hashes = cuckoo
                    .entries(partition)
                    .map(|(key, _)| hash(&superblock.secret, partitions, key).inside);
                scratch.hashes.extend(hashes);
                cuckoo.image(partition)
            }
            Buffers::Sorted(open) => {
                open.fill(partition, scratch);
                &mut scratch.image
            }
        }
    }

    /// Empties a buffer.
    pub(crate) fn clear(&mut self, partition: u32) {
        match self {
            Buffers::Published(cuckoo) => cuckoo.clear(partition),
            Buffers::Sorted(open) => open.clear(partition),
        }
    }
}
