//! Memory that starts at a page boundary.

use super::PAGE;
use std::ops::{Deref, DerefMut};

/// Zeroed bytes that start at a multiple of [`PAGE`] in memory, as `O_DIRECT` requires.
#[derive(Debug, Default)]
pub struct Aligned {
    /// Never grows, so it is never moved.
    bytes: Vec<u8>,
    start: usize,
    len: usize,
}

impl Aligned {
    /// `len` zero bytes.
    #[must_use]
    pub fn new(len: usize) -> Aligned {
        let bytes = vec![0; len + PAGE - 1];
        let start = bytes.as_ptr().align_offset(PAGE);
        Aligned { bytes, start, len }
    }

    /// Whether a slice starts where `O_DIRECT` needs it.
    pub(super) fn is_aligned(bytes: &[u8]) -> bool {
        bytes.as_ptr().align_offset(PAGE) == 0
    }
}

impl Deref for Aligned {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes[self.start..self.start + self.len]
    }
}

impl DerefMut for Aligned {
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.bytes[self.start..self.start + self.len]
    }
}

/// A page that starts at a page boundary, without an allocation.
#[repr(C, align(4096))]
#[derive(Clone, Debug)]
pub(crate) struct PageBuffer(pub(crate) [u8; PAGE]);

impl Default for PageBuffer {
    fn default() -> PageBuffer {
        PageBuffer([0; PAGE])
    }
}
