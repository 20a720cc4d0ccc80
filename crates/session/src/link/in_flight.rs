//! The frames that a sender has sent and whose fate it does not know yet.

use super::headers::Implied;
use super::records::Segments;
use std::collections::VecDeque;
use std::ops::Range;

/// Most frames that are remembered. Of older ones it stays unknown whether they arrived, and they
/// cannot be sent again.
const MOST_FRAMES: usize = 1 << 15;
/// Most bytes of their headers.
const MOST_HEADERS: usize = 2 << 20;

/// A frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SentFrame {
    /// The counter of its datagram, and how many records came before it there.
    pub(super) place: (u64, u8),
    /// Where its content begins in the log, and its length.
    pub(super) offset: u64,
    pub(super) len: u32,
    pub(super) open_checksum: bool,
    pub(super) implied: Implied,
    pub(super) segments: Option<Segments>,
    /// Whether it depends on the log or on a header, so that it can be rejected.
    pub(super) depends: bool,
    header_len: u16,
    is_settled: bool,
}

impl SentFrame {
    pub(super) fn range(&self) -> Range<u64> {
        self.offset..self.offset + u64::from(self.len)
    }
}

/// What is known of a frame when it is sent.
pub(super) struct NewFrame<'a> {
    pub(super) place: (u64, u8),
    pub(super) range: Range<u64>,
    pub(super) header: &'a [u8],
    pub(super) open_checksum: bool,
    pub(super) implied: Implied,
    pub(super) segments: Option<Segments>,
    pub(super) depends: bool,
}

/// Frames in flight, in the order of their counters.
#[derive(Debug, Default)]
pub(super) struct InFlight {
    frames: VecDeque<SentFrame>,
    /// The headers of those that can be rejected, in the same order.
    headers: VecDeque<u8>,
    /// Of datagrams with lower counters, [`InFlight::lost`] has passed what was lost.
    lost_below: u64,
}

impl InFlight {
    pub(super) fn push(&mut self, frame: NewFrame<'_>) {
        let header = if frame.depends { frame.header } else { &[] };
        self.headers.extend(header);
        self.frames.push_back(SentFrame {
            place: frame.place,
            offset: frame.range.start,
            len: (frame.range.end - frame.range.start) as u32,
            open_checksum: frame.open_checksum,
            implied: frame.implied,
            segments: frame.segments,
            depends: frame.depends,
            header_len: header.len() as u16,
            is_settled: false,
        });
        while self.frames.len() > MOST_FRAMES || self.headers.len() > MOST_HEADERS {
            self.pop();
        }
    }

    fn pop(&mut self) {
        if let Some(frame) = self.frames.pop_front() {
            self.headers.drain(..usize::from(frame.header_len));
        }
    }

    /// The datagrams with these counters have arrived, and their content is stored. Passes its
    /// ranges, each as long as possible.
    pub(super) fn acknowledged(&mut self, counters: &Range<u64>, mut each: impl FnMut(Range<u64>)) {
        let from = self.frames.partition_point(|frame| frame.place.0 < counters.start);
        let mut stored: Range<u64> = 0..0;
        for frame in self.frames.range_mut(from..) {
            if frame.place.0 >= counters.end {
                break;
            }
            if std::mem::replace(&mut frame.is_settled, true) {
                continue;
            }
            let range = frame.range();
            if range.start == stored.end {
                stored.end = range.end;
            } else {
                if !stored.is_empty() {
                    each(stored);
                }
                stored = range;
            }
        }
        if !stored.is_empty() {
            each(stored);
        }
        self.forget_settled();
    }

    /// Datagrams with lower counters have arrived or are lost. Passes the ranges of those that are lost,
    /// once each. They may still be rejected, if they only waited.
    pub(super) fn lost(&mut self, below: u64, mut each: impl FnMut(Range<u64>)) {
        let from = self.frames.partition_point(|frame| frame.place.0 < self.lost_below);
        let frames = self.frames.range(from..).take_while(|frame| frame.place.0 < below);
        frames.filter(|frame| !frame.is_settled).for_each(|frame| each(frame.range()));
        self.lost_below = self.lost_below.max(below);
    }

    fn forget_settled(&mut self) {
        while self.frames.front().is_some_and(|frame| frame.is_settled) {
            self.pop();
        }
    }

    /// Takes a frame that the receiver has rejected, and writes its headers over `header`. `None` if
    /// it is not known, was acknowledged or rejected before, or depends on nothing.
    pub(super) fn rejected(&mut self, place: (u64, u8), header: &mut Vec<u8>) -> Option<SentFrame> {
        let at = self.frames.binary_search_by_key(&place, |frame| frame.place).ok()?;
        let frame = self.frames[at];
        if frame.is_settled || !frame.depends {
            return None;
        }
        let before: usize =
            self.frames.range(..at).map(|frame| usize::from(frame.header_len)).sum();
        header.clear();
        header.extend(self.headers.range(before..before + usize::from(frame.header_len)));
        self.frames[at].is_settled = true;
        self.forget_settled();
        Some(frame)
    }

    pub(super) fn clear(&mut self) {
        self.frames.clear();
        self.headers.clear();
    }

    /// Memory as of now, in bytes.
    pub(super) fn memory(&self) -> usize {
        self.frames.capacity() * size_of::<SentFrame>() + self.headers.capacity()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn push(in_flight: &mut InFlight, counter: u64, header: &[u8], depends: bool) {
        in_flight.push(NewFrame {
            place: (counter, 0),
            range: counter * 100..counter * 100 + 100,
            header,
            open_checksum: false,
            implied: Implied::Nothing,
            segments: None,
            depends,
        });
    }

    #[test]
    fn each_frame_is_acknowledged_or_rejected_once() {
        let mut in_flight = InFlight::default();
        for counter in 0..10 {
            push(&mut in_flight, counter, &[counter as u8; 3], counter % 3 > 0);
        }
        let mut header = Vec::new();
        assert_eq!(in_flight.rejected((3, 0), &mut header), None, "it depends on nothing");
        assert_eq!(in_flight.rejected((4, 1), &mut header), None, "another record");
        let frame = in_flight.rejected((4, 0), &mut header).unwrap();
        assert_eq!((frame.range(), &header[..]), (400..500, &[4; 3][..]));
        assert_eq!(in_flight.rejected((4, 0), &mut header), None, "again");
        let mut stored = Vec::new();
        for counters in [2..7, 0..3, 5..6, 50..60] {
            in_flight.acknowledged(&counters, |range| stored.push(range));
        }
        assert_eq!(stored, [200..400, 500..700, 0..200]);
        let frame = in_flight.rejected((8, 0), &mut header).unwrap();
        assert_eq!((frame.offset, &header[..]), (800, &[8; 3][..]));
        in_flight.acknowledged(&(0..100), |_| {});
        assert!(in_flight.frames.is_empty() && in_flight.headers.is_empty());
    }

    #[test]
    fn what_is_lost_is_passed_once() {
        let mut in_flight = InFlight::default();
        for counter in 0..10 {
            push(&mut in_flight, counter, &[5; 3], counter == 2);
        }
        in_flight.acknowledged(&(1..2), |_| {});
        in_flight.acknowledged(&(4..9), |_| {});
        let lost = |in_flight: &mut InFlight, below| {
            let mut ranges = Vec::new();
            in_flight.lost(below, |range| ranges.push((range.start, range.end)));
            ranges
        };
        assert_eq!(lost(&mut in_flight, 3), [(0, 100), (200, 300)]);
        assert_eq!(lost(&mut in_flight, 3).len(), 0);
        assert_eq!(lost(&mut in_flight, 9), [(300, 400)]);
        assert!(in_flight.rejected((2, 0), &mut Vec::new()).is_some(), "it had only waited");
    }

    #[test]
    fn memory_is_bounded() {
        let mut in_flight = InFlight::default();
        for counter in 0..3 * MOST_FRAMES as u64 {
            push(&mut in_flight, counter, &[0; 100], counter % 2 == 0);
        }
        assert!(in_flight.headers.len() <= MOST_HEADERS && in_flight.frames.len() <= MOST_FRAMES);
        assert!(in_flight.memory() < 16 << 20, "{} bytes", in_flight.memory());
    }
}
