//! What the receiving end reads because the peer is about to recall it.

use super::latency::QUICK;
use super::{LANE_PATIENCE, MOST};
use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// A stretch that the peer has announced.
#[derive(Debug)]
pub(crate) struct Prepared {
    /// The peer's number for it, whether it wants an answer at once, and the lane on which it came.
    pub(crate) id: u64,
    pub(crate) wants: bool,
    pub(crate) lane: usize,
    /// Number of this end's request to its disk.
    pub(crate) fetch: u64,
    /// Where it begins in the log, and its length.
    pub(crate) from: u64,
    pub(crate) len: u64,
    pub(crate) since: Instant,
    /// `None` while it is read.
    pub(crate) bytes: Option<Vec<u8>>,
}

/// What the peer is to be told of a stretch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Answer {
    pub(crate) id: u64,
    pub(crate) lane: usize,
    /// How long it took to read; `None` if it cannot be read.
    pub(crate) took: Option<Duration>,
}

/// Whether the peer is told that a read took so long.
pub(crate) fn is_told(wants: bool, took: Duration) -> bool {
    wants || took > QUICK * 2
}

/// Bytes that are read for nothing, at most, at once: of stretches that are never recalled, because
/// their flows were reset, or the peer wants this end's disk to be busy.
const SPARE: u64 = 64 << 20;
/// And for each second. Announcements that only measure the disk are a tenth of that.
const SPARE_A_SECOND: u64 = 4 << 20;

/// Stretches that the peer has announced and not recalled.
#[derive(Debug, Default)]
pub(crate) struct Preparing {
    /// Oldest first: at most [`MOST`].
    waiting: VecDeque<Prepared>,
    /// Bytes that were read, or are being read, and not recalled, less [`SPARE_A_SECOND`].
    spared: u64,
    /// When something was announced last.
    last: Option<Instant>,
}

impl Preparing {
    /// Another one is to be read. Returns `false` if too many are being read, or were read for
    /// nothing.
    pub(crate) fn begin(&mut self, stretch: Prepared) -> bool {
        let now = stretch.since;
        let passed = now.saturating_duration_since(*self.last.get_or_insert(now));
        let allowed = (passed.as_secs_f64() * SPARE_A_SECOND as f64) as u64;
        // Announcements that come faster than a byte becomes due must not lose it.
        if allowed > 0 {
            self.last = Some(now);
            self.spared = self.spared.saturating_sub(allowed);
        }
        if self.spared + stretch.len > SPARE {
            return false;
        }
        if self.waiting.len() >= MOST {
            // One that was read and is perhaps never recalled, because its flow was reset.
            let read = self.waiting.iter().position(|other| other.bytes.is_some());
            if read.and_then(|at| self.waiting.remove(at)).is_none() {
                return false;
            }
        }
        self.spared += stretch.len;
        self.waiting.push_back(stretch);
        true
    }

    /// The disk has answered a request. `None` if that was not for one of these, or need not be told.
    pub(crate) fn supply(
        &mut self,
        fetch: u64,
        bytes: Option<Vec<u8>>,
        now: Instant,
    ) -> Option<Answer> {
        let at = self.waiting.iter().position(|one| one.fetch == fetch && one.bytes.is_none())?;
        let stretch = &mut self.waiting[at];
        let (id, lane) = (stretch.id, stretch.lane);
        let took = now.saturating_duration_since(stretch.since);
        stretch.bytes = bytes.filter(|bytes| bytes.len() as u64 == stretch.len);
        if stretch.bytes.is_some() {
            let answer = Answer { id, lane, took: Some(took) };
            return is_told(stretch.wants, took).then_some(answer);
        }
        self.waiting.remove(at);
        Some(Answer { id, lane, took: None })
    }

    /// The peer recalls a stretch, or a part of one that was read. What lies before that part is not
    /// recalled any more.
    pub(crate) fn take(&mut self, from: u64, len: u64) -> Option<Prepared> {
        let end = from.checked_add(len)?;
        let at = self.waiting.iter().position(|one| {
            let has_it = one.from <= from && end <= one.from + one.len && one.bytes.is_some();
            (one.from, one.len) == (from, len) || has_it
        })?;
        let whole = &mut self.waiting[at];
        let (before, rest) = (from - whole.from, whole.from + whole.len - end);
        let Some(bytes) = whole.bytes.as_mut().filter(|_| rest > 0) else {
            self.spared = self.spared.saturating_sub(before + len);
            let mut one = self.waiting.remove(at)?;
            one.bytes.iter_mut().for_each(|bytes| drop(bytes.drain(..before as usize)));
            return Some(one);
        };
        let part = bytes[before as usize..][..len as usize].to_vec();
        bytes.drain(..(before + len) as usize);
        (whole.from, whole.len) = (end, rest);
        self.spared = self.spared.saturating_sub(before + len);
        let Prepared { id, wants, lane, fetch, since, .. } = *whole;
        Some(Prepared { id, wants, lane, fetch, from, len, since, bytes: Some(part) })
    }

    /// Until when a disk is waited for.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        let waiting = self.waiting.iter().find(|one| one.bytes.is_none());
        waiting.map(|one| one.since + LANE_PATIENCE)
    }

    /// What was waited for too long.
    pub(crate) fn overdue(&mut self, now: Instant) -> Option<Answer> {
        self.deadline().filter(|due| *due <= now)?;
        let fetch = self.waiting.iter().find(|one| one.bytes.is_none())?.fetch;
        self.supply(fetch, None, now)
    }

    /// The log is another one, or not where it was.
    pub(crate) fn clear(&mut self) {
        self.waiting.clear();
    }

    /// Memory in bytes.
    pub(crate) fn memory(&self) -> u64 {
        self.waiting
            .iter()
            .filter_map(|one| one.bytes.as_ref())
            .map(|bytes| bytes.len() as u64)
            .sum()
    }
}

/// A stretch that the front of a lane waits for at the receiving end.
#[derive(Debug)]
pub(crate) struct Restoring {
    pub(crate) id: u64,
    /// Number of the lane's transport that asked for it.
    pub(crate) transport: u64,
    pub(crate) len: u64,
    pub(crate) since: Instant,
    /// What the peer may have to be told once it is there, if it had announced it: the number, whether
    /// it wants an answer, and since when it is read.
    pub(crate) announced: Option<(u64, bool, Instant)>,
    /// `None` until the driver has said something.
    pub(crate) bytes: Option<Option<Vec<u8>>>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use oncewire_codec::DEFAULT_BLOCK;

    #[test]
    fn a_peer_cannot_keep_the_disk_busy() {
        #[expect(clippy::disallowed_methods, reason = "a test needs a time to start from")]
        let begin = Instant::now();
        let len = DEFAULT_BLOCK as u64;
        let stretch = |from: u64, since: Instant| Prepared {
            id: from,
            wants: true,
            lane: 0,
            fetch: from,
            from,
            len,
            since,
            bytes: None,
        };
        let mut preparing = Preparing::default();
        let mut announce = |from: u64, now: Instant, recalls: bool| {
            let reads = preparing.begin(stretch(from, now));
            if reads {
                preparing.supply(from, Some(vec![0; len as usize]), now);
                assert!(!recalls || preparing.take(from, len).is_some());
            }
            reads
        };
        // As much as it likes of what it recalls.
        assert!((0..10_000).all(|from| announce(from, begin, true)));
        let reads = (0..10_000).filter(|&from| announce(from, begin, false)).count() as u64;
        assert_eq!(reads, SPARE / len);
        // Whether it asks once or all the time.
        let second = begin + Duration::from_secs(1);
        let reads = (0..10_000).filter(|&from| announce(from, second, false)).count() as u64;
        assert_eq!(reads, SPARE_A_SECOND / len);
        let later = |nth: u32| second + Duration::from_micros(100) * nth;
        let reads = (1..=10_000).filter(|&nth| announce(nth.into(), later(nth), false)).count();
        assert!((reads as u64).abs_diff(SPARE_A_SECOND / len) < 3, "{reads}");
    }

    #[test]
    fn what_is_never_recalled_makes_room_and_what_is_read_does_not() {
        #[expect(clippy::disallowed_methods, reason = "a test needs a time to start from")]
        let now = Instant::now();
        let stretch = |id: u64| Prepared {
            id,
            wants: id != 8,
            lane: 0,
            fetch: 1000 + id,
            from: id * 10,
            len: 4,
            since: now,
            bytes: None,
        };
        let mut preparing = Preparing::default();
        for id in 0..MOST as u64 {
            assert!(preparing.begin(stretch(id)));
        }
        assert!(!preparing.begin(stretch(100)), "all are being read");
        let later = now + Duration::from_millis(3);
        let answer = Answer { id: 5, lane: 0, took: Some(Duration::from_millis(3)) };
        assert_eq!(preparing.supply(1005, Some(vec![1; 4]), later), Some(answer));
        assert_eq!(preparing.supply(1005, Some(vec![1; 4]), later), None, "once");
        assert_eq!(preparing.memory(), 4);
        assert!(preparing.begin(stretch(100)));
        assert!(preparing.take(50, 4).is_none(), "it made room");
        // Nobody wants to know, unless it took long.
        assert_eq!(preparing.supply(1008, Some(vec![1; 4]), now), None);
        // Of another length, or not at all.
        for (fetch, bytes) in [(1006, Some(vec![1; 3])), (1007, None)] {
            let answer = preparing.supply(fetch, bytes, later);
            assert_eq!(answer.map(|answer| answer.took), Some(None));
        }
        assert!(preparing.take(60, 4).is_none() && preparing.take(80, 4).is_some());
        // In parts, of which the second leaves some out.
        let whole = Some(vec![1, 2, 3, 4]);
        assert!(preparing.take(90, 2).is_none(), "it is being read");
        preparing.supply(1009, whole, now);
        assert!(preparing.take(89, 2).is_none() && preparing.take(92, 3).is_none());
        let mut part = |from, len| preparing.take(from, len).and_then(|part| part.bytes);
        assert_eq!((part(90, 1), part(92, 1)), (Some(vec![1]), Some(vec![3])));
        assert_eq!((part(91, 1), part(93, 1), part(93, 1)), (None, Some(vec![4]), None));
        let due = preparing.deadline().expect("some are read");
        assert_eq!(preparing.overdue(now), None);
        let answer = preparing.overdue(due).expect("the oldest");
        assert_eq!((answer.id, answer.took), (0, None));
    }
}
