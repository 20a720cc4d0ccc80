//! Frames that lack content of the log, which may still come: the path reorders.

use super::headers::Implied;
use super::records::Segments;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::{Bound, Range};
use std::time::Instant;

/// Most frames that wait.
pub(super) const MOST_WAITING: usize = 2048;
/// Most bytes of them, with their headers.
pub(super) const MOST_WAITING_BYTES: usize = 256 << 10;
/// How often a frame is tried again at most, so that work stays proportional to what arrives. It is
/// tried when all that it lacked has come, which may not be all that it needs: not more than some
/// dozens of ranges are known at a time.
const MOST_TRIES: u8 = 4;
/// How often it is looked at whether what a frame lacks has come. A peer that fills holes byte by byte
/// would otherwise make each of its datagrams cost as much as thousands. Then only time decides.
const MOST_LOOKS: u8 = 32;

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
    /// What it lacks, as far as that is known: not empty, ascending.
    pub(super) lacks: Vec<Range<u64>>,
    /// When it is given up.
    pub(super) due: Instant,
    pub(super) tries: u8,
    /// See [`MOST_LOOKS`].
    pub(super) looks: u8,
}

impl WaitingFrame {
    fn bytes(&self) -> usize {
        self.header.len() + self.frame.len()
    }

    /// Forgets what is held by now. Returns whether that is all.
    fn is_complete(&mut self, held: &[Range<u64>]) -> bool {
        self.looks += 1;
        let mut done = 0;
        for range in &mut self.lacks {
            let first = held.partition_point(|held| held.end <= range.start);
            let Some(first) = held.get(first).filter(|held| held.start <= range.start) else {
                range.end = end_of_hole(range, held);
                break;
            };
            if first.end < range.end {
                range.start = first.end;
                range.end = end_of_hole(range, held);
                break;
            }
            done += 1;
        }
        self.lacks.drain(..done);
        self.lacks.is_empty()
    }

    /// The last byte of the first range that it lacks: what comes in order ends with that.
    fn first_lacking(&self) -> u64 {
        self.lacks.first().map_or(0, |range| range.end - 1)
    }
}

/// Where the last hole in a range ends, which is not held as a whole.
fn end_of_hole(range: &Range<u64>, held: &[Range<u64>]) -> u64 {
    let last = held.partition_point(|held| held.end < range.end);
    match held.get(last) {
        Some(held) if held.start < range.end => held.start.max(range.start + 1),
        _ => range.end,
    }
}

/// The frames that wait.
#[derive(Debug, Default)]
pub(super) struct Waiting {
    /// By number, in the order in which they are given up.
    frames: BTreeMap<(Instant, u64), WaitingFrame>,
    /// Where the first part of what they lack ends.
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
        self.put(key, frame);
    }

    fn put(&mut self, key: (Instant, u64), frame: WaitingFrame) {
        self.bytes += frame.bytes();
        if frame.tries < MOST_TRIES && frame.looks < MOST_LOOKS {
            self.lacking.insert((frame.first_lacking(), key));
        }
        self.frames.insert(key, frame);
    }

    fn take(&mut self, key: (Instant, u64)) -> Option<WaitingFrame> {
        let frame = self.frames.remove(&key)?;
        self.lacking.remove(&(frame.first_lacking(), key));
        self.bytes -= frame.bytes();
        Some(frame)
    }

    /// Takes a frame that lacked nothing but what was stored in `stored`. The log holds `held` now.
    pub(super) fn take_for(
        &mut self,
        stored: &Range<u64>,
        held: &[Range<u64>],
    ) -> Option<WaitingFrame> {
        let mut from = Bound::Included((stored.start, self.first()?));
        loop {
            let (start, key) = *self.lacking.range((from, Bound::Unbounded)).next()?;
            if start >= stored.end {
                return None;
            }
            let mut frame = self.take(key)?;
            if frame.is_complete(held) {
                return Some(frame);
            }
            self.put(key, frame);
            // It may lack the same as before: a log with too many holes forgets at once what it has
            // stored lowest.
            from = Bound::Excluded((start, key));
        }
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

    /// Memory in bytes of the frames that wait, and of what is known that they lack.
    pub(super) fn memory(&self) -> usize {
        let lacking: usize = self.frames.values().map(|frame| frame.lacks.capacity()).sum();
        self.bytes + lacking * size_of::<Range<u64>>()
    }

    pub(super) fn clear(&mut self) {
        *self = Waiting { next: self.next, ..Waiting::default() };
    }
}

#[cfg(test)]
#[allow(clippy::single_range_in_vec_init)] // Lists of ranges are what is searched.
mod tests {
    use super::*;

    #[expect(clippy::disallowed_methods, reason = "simulated time needs a time to start from")]
    fn frame(lacks: &[Range<u64>]) -> WaitingFrame {
        WaitingFrame {
            place: (0, 0),
            header: Vec::new(),
            implied: Implied::Nothing,
            open_checksum: false,
            segments: None,
            frame: vec![0; 10],
            lacks: lacks.to_vec(),
            due: Instant::now(),
            tries: 0,
            looks: 0,
        }
    }

    #[test]
    fn a_frame_is_taken_once_all_that_it_lacks_is_held() {
        let mut waiting = Waiting::default();
        waiting.push(frame(&[10..20, 50..60]));
        assert!(waiting.take_for(&(18..20), &[18..20]).is_none(), "the end of the first range");
        assert!(waiting.take_for(&(10..15), &[10..15, 18..20]).is_none(), "its beginning");
        assert!(waiting.take_for(&(15..18), &[10..20]).is_none(), "the rest");
        assert!(waiting.take_for(&(50..60), &[10..20, 50..60]).is_some());
        assert!(waiting.is_empty() && waiting.lacking.is_empty() && waiting.memory() == 0);
    }

    /// A hostile peer can make the log forget what was just stored. Nothing is then found, in bounded
    /// time.
    #[test]
    fn what_was_stored_may_not_be_held() {
        let mut waiting = Waiting::default();
        for at in 0..10 {
            waiting.push(frame(&[10 + at..20]));
        }
        assert!(waiting.take_for(&(0..100), &[]).is_none());
        assert_eq!(waiting.lacking.len(), 10);
        for _ in 0..100 {
            assert!(waiting.take_for(&(0..100), &[]).is_none());
        }
        assert!(waiting.lacking.is_empty(), "nobody looks at them for ever");
        assert_eq!(waiting.frames.len(), 10);
    }
}
