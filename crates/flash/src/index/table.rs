//! What is in memory of a super table besides buffer and filters: its incarnations and its delete
//! list.

use crate::format::page::Place;
use std::collections::{HashMap, VecDeque};

/// Bytes that an entry of a delete list takes beside its key, by the layout of the standard
/// library's table, at its lowest load.
const DELETE: u64 = 96;

/// An incarnation on the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Incarnation {
    /// Number in its partition.
    pub(crate) count: u64,
    /// Number in the index.
    pub(crate) sequence: u64,
    /// The epoch in which it was written.
    pub(crate) epoch: u64,
    /// Pages that are damaged, as bits.
    pub(crate) lost: u64,
    /// Pages that were evicted, as bits.
    pub(crate) gone: u64,
    /// Where it is.
    pub(crate) slot: u32,
    /// It may have been overwritten before the last crash.
    pub(crate) suspect: bool,
}

impl Incarnation {
    pub(crate) fn place(&self, partition: u32, page: u32) -> Place {
        let Incarnation { count, sequence, epoch, .. } = *self;
        Place { sequence, epoch, count, partition, page: page as u16 }
    }
}

#[derive(Debug, Default)]
pub(crate) struct Table {
    /// Oldest first.
    pub(crate) incarnations: VecDeque<Incarnation>,
    /// Number of the next incarnation.
    pub(crate) next: u64,
    /// Whether the filters have all incarnations.
    pub(crate) loaded: bool,
    /// Deleted keys, with the incarnation that has the delete.
    deletes: HashMap<Box<[u8]>, u64>,
}

impl Table {
    pub(crate) fn push(&mut self, incarnation: Incarnation) {
        self.next = incarnation.count + 1;
        self.incarnations.push_back(incarnation);
    }

    /// Removes the oldest incarnation. Returns its slot, and the memory of deletes that nothing is
    /// left to hide from.
    pub(crate) fn pop(&mut self) -> Option<(u32, u64)> {
        let oldest = self.incarnations.pop_front()?;
        let mut freed = 0;
        self.deletes.retain(|key, count| {
            let keep = *count > oldest.count;
            freed += if keep { 0 } else { Table::delete_bytes(key) };
            keep
        });
        Some((oldest.slot, freed))
    }

    pub(crate) fn is_deleted(&self, key: &[u8]) -> bool {
        !self.deletes.is_empty() && self.deletes.contains_key(key)
    }

    /// Memory of a deleted key.
    pub(crate) fn delete_bytes(key: &[u8]) -> u64 {
        DELETE + key.len() as u64
    }

    /// Remembers a deleted key. Returns the memory that this took.
    pub(crate) fn delete(&mut self, key: &[u8], count: u64) -> u64 {
        match self.deletes.insert(key.into(), count) {
            None => Table::delete_bytes(key),
            Some(_) => 0,
        }
    }

    /// Forgets a deleted key. Returns the memory that this freed.
    pub(crate) fn undelete(&mut self, key: &[u8]) -> u64 {
        if self.deletes.is_empty() {
            return 0;
        }
        self.deletes.remove(key).map_or(0, |_| Table::delete_bytes(key))
    }
}
