//! Bytes that several sessions share, such as all the credit of a hub.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// A number of bytes to acquire from and release to. Clones share it, so all sessions of a process
/// can share one limit.
#[derive(Clone, Debug)]
pub struct Budget(Arc<AtomicU64>);

impl Budget {
    /// A budget of `bytes` bytes, all of them available.
    pub fn new(bytes: u64) -> Budget {
        Budget(Arc::new(AtomicU64::new(bytes)))
    }

    /// Bytes that nobody has acquired.
    pub fn available(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    /// Acquires as many bytes as `how_much` returns for the bytes available, and no more than
    /// those. Returns their number.
    pub(crate) fn acquire(&self, how_much: impl Fn(u64) -> u64) -> u64 {
        let mut acquired = 0;
        // If another session is faster, `how_much` is asked again.
        let _ = self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |available| {
            acquired = how_much(available).min(available);
            (acquired > 0).then(|| available - acquired)
        });
        acquired
    }

    /// Acquires exactly `bytes`, or nothing. Returns whether it did.
    pub(crate) fn acquire_exactly(&self, bytes: u64) -> bool {
        bytes == 0 || self.acquire(|available| if available >= bytes { bytes } else { 0 }) == bytes
    }

    /// Releases bytes that were acquired.
    pub(crate) fn release(&self, bytes: u64) {
        self.0.fetch_add(bytes, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn acquired_bytes_are_unavailable_to_all_clones_until_released() {
        let budget = Budget::new(100);
        let other = budget.clone();
        assert_eq!(budget.acquire(|available| available / 4), 25);
        assert!(!other.acquire_exactly(76));
        assert!(other.acquire_exactly(75));
        assert_eq!(budget.acquire(|_| 1), 0);
        other.release(75);
        assert_eq!(budget.available(), 75);
    }
}
