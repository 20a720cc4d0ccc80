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

/// Stretches that the peer has announced and not recalled, oldest first: at most [`MOST`].
#[derive(Debug, Default)]
pub(crate) struct Preparing(VecDeque<Prepared>);

impl Preparing {
    /// Another one is to be read. Returns `false` if too many are being read.
    pub(crate) fn begin(&mut self, stretch: Prepared) -> bool {
        if self.0.len() >= MOST {
            // One that was read and is perhaps never recalled, because its flow was reset.
            let read = self.0.iter().position(|other| other.bytes.is_some());
            if read.and_then(|at| self.0.remove(at)).is_none() {
                return false;
            }
        }
        self.0.push_back(stretch);
        true
    }

    /// The disk has answered a request. `None` if that was not for one of these, or need not be told.
    pub(crate) fn supply(
        &mut self,
        fetch: u64,
        bytes: Option<Vec<u8>>,
        now: Instant,
    ) -> Option<Answer> {
        let at = self.0.iter().position(|one| one.fetch == fetch && one.bytes.is_none())?;
        let stretch = &mut self.0[at];
        let (id, lane) = (stretch.id, stretch.lane);
        let took = now.saturating_duration_since(stretch.since);
        stretch.bytes = bytes.filter(|bytes| bytes.len() as u64 == stretch.len);
        if stretch.bytes.is_some() {
            let answer = Answer { id, lane, took: Some(took) };
            return is_told(stretch.wants, took).then_some(answer);
        }
        self.0.remove(at);
        Some(Answer { id, lane, took: None })
    }

    /// The peer recalls a stretch.
    pub(crate) fn take(&mut self, from: u64, len: u64) -> Option<Prepared> {
        let at = self.0.iter().position(|one| (one.from, one.len) == (from, len))?;
        self.0.remove(at)
    }

    /// Until when a disk is waited for.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        let waiting = self.0.iter().find(|one| one.bytes.is_none());
        waiting.map(|one| one.since + LANE_PATIENCE)
    }

    /// What was waited for too long.
    pub(crate) fn overdue(&mut self, now: Instant) -> Option<Answer> {
        self.deadline().filter(|due| *due <= now)?;
        let fetch = self.0.iter().find(|one| one.bytes.is_none())?.fetch;
        self.supply(fetch, None, now)
    }

    /// The log is another one, or not where it was.
    pub(crate) fn clear(&mut self) {
        self.0.clear();
    }

    /// Memory in bytes.
    pub(crate) fn memory(&self) -> u64 {
        self.0.iter().filter_map(|one| one.bytes.as_ref()).map(|bytes| bytes.len() as u64).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
        let due = preparing.deadline().expect("some are read");
        assert_eq!(preparing.overdue(now), None);
        let answer = preparing.overdue(due).expect("the oldest");
        assert_eq!((answer.id, answer.took), (0, None));
    }
}
