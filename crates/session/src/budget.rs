//! Bytes that several sessions share, such as all credit of a hub.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// A number of bytes that can be taken and given back. Clones share it, so the sessions of one process can share a limit.
#[derive(Clone, Debug)]
pub struct Budget(Arc<AtomicU64>);

impl Budget {
    /// A budget of so many bytes.
    pub fn new(bytes: u64) -> Budget {
        Budget(Arc::new(AtomicU64::new(bytes)))
    }

    /// Bytes that nobody has taken.
    pub fn left(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    /// Takes what `how_much` says, given what is left, and returns it.
    pub(crate) fn take(&self, how_much: impl Fn(u64) -> u64) -> u64 {
        let mut taken = 0;
        // Another session may be faster; then the question is asked again.
        let _ = self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| {
            taken = how_much(left).min(left);
            (taken > 0).then(|| left - taken)
        });
        taken
    }

    /// Takes exactly `bytes`, or nothing.
    pub(crate) fn take_all(&self, bytes: u64) -> bool {
        bytes == 0 || self.take(|left| if left >= bytes { bytes } else { 0 }) == bytes
    }

    /// Gives back what was taken.
    pub(crate) fn give(&self, bytes: u64) {
        self.0.fetch_add(bytes, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_taken_is_gone_until_it_is_given_back() {
        let budget = Budget::new(100);
        let other = budget.clone();
        assert_eq!(budget.take(|left| left / 4), 25);
        assert!(!other.take_all(76));
        assert!(other.take_all(75));
        assert_eq!(budget.take(|_| 1), 0);
        other.give(75);
        assert_eq!(budget.left(), 75);
    }
}
