//! Frames that lack content of the log, which may still come: the path reorders.

use super::headers::Implied;
use super::records::Segments;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::time::Instant;

/// Most frames that wait.
pub(super) const MOST_WAITING: usize = 2048;
/// Most bytes of them, with their headers.
pub(super) const MOST_WAITING_BYTES: usize = 256 << 10;
/// How often a frame is tried again at most, so that work stays proportional to what arrives: each
/// time, another part of what it lacks may have come.
const MOST_TRIES: u8 = 4;

/// A frame that waits.
#[derive(Debug)]
pub(super) struct WaitingFrame {
    /// The counter of its datagram, and how many records came before it there.
    pub(super) place: (u64, u8),
    pub(super) header: Vec<u8>,
    pub(super) implied: Implied,
    pub(super) open_checksum: bool,
    pub(super) segments: Option<Segments>,
    pub(super) frame: Vec<u8>,
    /// Where the first range begins that it lacks.
    pub(super) lacks: u64,
    /// When it is given up.
    pub(super) due: Instant,
    pub(super) tries: u8,
}

impl WaitingFrame {
    fn bytes(&self) -> usize {
        self.header.len() + self.frame.len()
    }
}

/// The frames that wait.
#[derive(Debug, Default)]
pub(super) struct Waiting {
    /// By number, in the order in which they are given up.
    frames: BTreeMap<(Instant, u64), WaitingFrame>,
    /// Where what they lack begins.
    lacking: BTreeSet<(u64, (Instant, u64))>,
    bytes: usize,
    next: u64,
}

impl Waiting {
    pub(super) fn is_empty(&self) -> bool {
        self.frames.is_empty()
    }

    /// Whether there is room for another frame.
    pub(super) fn has_room(&self, bytes: usize) -> bool {
        self.frames.len() < MOST_WAITING && self.bytes + bytes <= MOST_WAITING_BYTES
    }

    pub(super) fn push(&mut self, frame: WaitingFrame) {
        let key = (frame.due, self.next);
        self.next += 1;
        self.bytes += frame.bytes();
        if frame.tries < MOST_TRIES {
            self.lacking.insert((frame.lacks, key));
        }
        self.frames.insert(key, frame);
    }

    fn take(&mut self, key: (Instant, u64)) -> Option<WaitingFrame> {
        let frame = self.frames.remove(&key)?;
        self.lacking.remove(&(frame.lacks, key));
        self.bytes -= frame.bytes();
        Some(frame)
    }

    /// Takes a frame that lacked what was stored in `stored`.
    pub(super) fn take_for(&mut self, stored: &Range<u64>) -> Option<WaitingFrame> {
        let (start, key) = *self.lacking.range((stored.start, self.first()?)..).next()?;
        if start < stored.end { self.take(key) } else { None }
    }

    /// Takes a frame that has waited long enough.
    pub(super) fn take_due(&mut self, now: Instant) -> Option<WaitingFrame> {
        let key = self.first().filter(|(due, _)| *due <= now)?;
        self.take(key)
    }

    /// The next frame's key.
    fn first(&self) -> Option<(Instant, u64)> {
        self.frames.keys().next().copied()
    }

    /// When the next frame is given up.
    pub(super) fn due(&self) -> Option<Instant> {
        self.first().map(|(due, _)| due)
    }

    /// Bytes of the frames that wait.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(super) fn clear(&mut self) {
        *self = Waiting { next: self.next, ..Waiting::default() };
    }
}
