//! What of a flow's queue was looked up.

use oncewire_codec::Domain;
use oncewire_codec::hooks::{Hook, split_markers};
use std::time::Instant;

/// What of a flow's queue was looked up, and the markers found there: what is looked up is noted
/// soon, and finding them takes as long as both.
#[derive(Debug, Default)]
pub(crate) struct Examined {
    /// Bytes at the front of the queue.
    pub(crate) len: usize,
    /// Where in the sending log content goes on that was found on disk.
    pub(super) next: Option<u64>,
    /// Their markers, and the log of whose key and domain these are.
    pub(super) markers: Vec<Hook>,
    pub(super) of: Option<(u64, Domain)>,
    /// When content was read that was found there, if there was more behind it: bytes that were
    /// looked up, and of others.
    pub(super) read: Option<(Instant, u64, u64)>,
}

impl Examined {
    /// The first `len` bytes are sent. Returns their markers, if these were found.
    pub(crate) fn take(&mut self, len: usize) -> Option<Markers> {
        self.len = self.len.saturating_sub(len);
        let of = self.of?;
        if self.len == 0 {
            self.of = None;
        }
        Some(Markers { found: split_markers(&mut self.markers, len), of })
    }

    /// Everything is to be looked up again.
    pub(crate) fn forget(&mut self) {
        *self = Examined::default();
    }
}

/// Markers of a block.
#[derive(Debug)]
pub(crate) struct Markers {
    pub(super) found: Vec<Hook>,
    pub(super) of: (u64, Domain),
}
