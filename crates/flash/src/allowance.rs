//! Memory that several parts of an index share.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Bytes that the delete lists, or the filters, of all partitions may still take.
#[derive(Debug)]
pub(crate) struct Allowance(AtomicU64);

impl Allowance {
    pub(crate) fn new(bytes: u64) -> Allowance {
        Allowance(AtomicU64::new(bytes))
    }

    /// Takes bytes, if there are as many.
    pub(crate) fn take(&self, bytes: u64) -> bool {
        self.0.fetch_update(Relaxed, Relaxed, |left| left.checked_sub(bytes)).is_ok()
    }

    pub(crate) fn give_back(&self, bytes: u64) {
        self.0.fetch_add(bytes, Relaxed);
    }
}
