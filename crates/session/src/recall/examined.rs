//! What of a flow's queue was looked up.

use oncewire_codec::Domain;
use oncewire_codec::hooks::{Hook, split_markers};
use std::time::Instant;

/// What of a flow's queue was looked up: the front of it, and, once that was found on disk, what is
/// behind that, so that it is read while the front is encoded.
#[derive(Debug, Default)]
pub(crate) struct Examined {
    pub(super) front: Part,
    pub(super) behind: Part,
    /// Where in the sending log content goes on that was found on disk.
    pub(super) next: Option<u64>,
    /// When content was read that was found there, if there was more behind it: bytes that were
    /// looked up, and of others.
    pub(super) read: Option<(Instant, u64, u64)>,
}

/// Content that was looked up at once, and the markers found there: what is looked up is noted soon,
/// and finding them takes as long as both.
#[derive(Debug, Default)]
pub(super) struct Part {
    /// Bytes that are not sent yet.
    pub(super) len: usize,
    /// Number of the look, and stretches that it has found and the flow waits for.
    pub(super) look: u64,
    pub(super) waits: usize,
    pub(super) markers: Vec<Hook>,
    /// The log of whose key and domain these are.
    pub(super) of: Option<(u64, Domain)>,
}

impl Examined {
    /// Bytes at the front of the queue.
    pub(crate) fn len(&self) -> usize {
        self.front.len
    }

    /// Nothing is known of so many bytes, which are those at the front, or have some `before` them.
    pub(crate) fn pass(&mut self, before: u64, len: usize) {
        if before == 0 {
            self.front = Part { len, ..Part::default() };
        }
        self.next = None;
    }

    /// Whether the front waits for the disk.
    pub(crate) fn waits(&self) -> bool {
        self.front.waits > 0
    }

    /// Whether what is behind the front is to be looked up now: it probably goes on on disk.
    pub(crate) fn goes_on(&self) -> bool {
        self.front.len > 0 && self.behind.len == 0 && self.next.is_some()
    }

    /// The first `len` bytes are sent. Returns their markers, if these were found.
    pub(crate) fn take(&mut self, len: usize) -> Option<Markers> {
        let front = &mut self.front;
        front.len = front.len.saturating_sub(len);
        let markers =
            front.of.map(|of| Markers { found: split_markers(&mut front.markers, len), of });
        if front.len == 0 {
            self.front = std::mem::take(&mut self.behind);
        }
        markers
    }

    /// One stretch less that a look waits for.
    pub(crate) fn release(&mut self, look: u64) {
        let mut parts = [&mut self.front, &mut self.behind].into_iter();
        if let Some(part) = parts.find(|part| part.look == look) {
            part.waits = part.waits.saturating_sub(1);
        }
    }

    /// Everything is to be looked up again, once what the front waits for has come.
    pub(crate) fn look_again(&mut self) {
        let Part { look, waits, .. } = self.front;
        *self = Examined { front: Part { look, waits, ..Part::default() }, ..Examined::default() };
    }

    /// Everything is to be looked up again. Returns whether the front has waited.
    pub(crate) fn forget(&mut self) -> bool {
        std::mem::take(self).waits()
    }
}

/// Markers of a block.
#[derive(Debug)]
pub(crate) struct Markers {
    pub(super) found: Vec<Hook>,
    pub(super) of: (u64, Domain),
}
