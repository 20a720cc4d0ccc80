//! What is in memory of a super table besides its buffer.

use crate::filter::Sliced;
use crate::format::page::Place;
use std::collections::{HashMap, VecDeque};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

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
    /// What its incarnations' pages say, once they were read. Look-ups, which share the index, read
    /// them when they use the partition first.
    pub(crate) loaded: OnceLock<Loaded>,
}

/// What the pages of a partition say.
#[derive(Debug)]
pub(crate) struct Loaded {
    pub(crate) filter: Sliced,
    /// For each incarnation, oldest first.
    pub(crate) pages: VecDeque<Pages>,
    pub(crate) deletes: DeleteList,
}

/// Pages of an incarnation that cannot be read, as bits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Pages {
    /// They are damaged: nobody knows which keys they had.
    pub(crate) lost: u64,
    /// They were evicted.
    pub(crate) gone: u64,
}

impl Table {
    /// With room for one more incarnation than there are at most.
    pub(crate) fn new(most: u32) -> Table {
        let incarnations = VecDeque::with_capacity(most as usize + 1);
        Table { incarnations, ..Table::default() }
    }

    pub(crate) fn push(&mut self, incarnation: Incarnation) {
        self.next = incarnation.count + 1;
        self.incarnations.push_back(incarnation);
    }

    /// Removes the oldest incarnation. Its deletes have nothing left to hide.
    pub(crate) fn pop(&mut self, allowance: &Allowance) -> Option<Incarnation> {
        let oldest = self.incarnations.pop_front()?;
        if let Some(loaded) = self.loaded.get_mut() {
            loaded.pages.pop_front();
            loaded.deletes.forget(oldest.count, allowance);
        }
        Some(oldest)
    }
}

/// Memory that all delete lists together may still take.
#[derive(Debug)]
pub(crate) struct Allowance(AtomicU64);

impl Allowance {
    pub(crate) fn new(bytes: u64) -> Allowance {
        Allowance(AtomicU64::new(bytes))
    }

    fn take(&self, bytes: u64) -> bool {
        self.0.fetch_update(Relaxed, Relaxed, |left| left.checked_sub(bytes)).is_ok()
    }

    fn give_back(&self, bytes: u64) {
        self.0.fetch_add(bytes, Relaxed);
    }
}

/// Deleted keys, with the incarnation that has the delete (T:4093-4099).
#[derive(Debug, Default)]
pub(crate) struct DeleteList(HashMap<Box<[u8]>, u64>);

impl DeleteList {
    /// Memory of a deleted key.
    fn bytes(key: &[u8]) -> u64 {
        DELETE + key.len() as u64
    }

    pub(crate) fn has(&self, key: &[u8]) -> bool {
        !self.0.is_empty() && self.0.contains_key(key)
    }

    /// Notes what an entry of an incarnation, or of the buffer that becomes it, says about a key.
    /// A delete for which there is no memory is found on the device.
    pub(crate) fn note(&mut self, key: &[u8], deleted: bool, count: u64, allowance: &Allowance) {
        if !deleted {
            if !self.0.is_empty() && self.0.remove(key).is_some() {
                allowance.give_back(DeleteList::bytes(key));
            }
        } else if let Some(of) = self.0.get_mut(key) {
            *of = count;
        } else if allowance.take(DeleteList::bytes(key)) {
            self.0.insert(key.into(), count);
        }
    }

    /// Forgets what incarnations up to this one deleted.
    fn forget(&mut self, count: u64, allowance: &Allowance) {
        self.0.retain(|key, of| {
            let keep = *of > count;
            if !keep {
                allowance.give_back(DeleteList::bytes(key));
            }
            keep
        });
    }
}
