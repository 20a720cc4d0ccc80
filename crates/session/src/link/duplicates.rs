//! Small sealed datagrams that are sent a second time after a gap, so that the loss of one does not
//! lose what it stands for (thesis, future work: duplicates of encoded packets).
//!
//! A datagram whose content repeats is small and stands for much. Losses come in bursts, so the spare
//! follows after a gap. It is the same sealed bytes: no nonce is used twice, and the receiver's replay
//! window drops whichever comes second.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// Longest datagram that is sent twice, in bytes with the seal: a run of 64 KiB that repeats takes
/// less.
pub const SMALL: usize = 300;
/// Most bytes of spares that wait. Beyond, datagrams are sent once.
const MOST_BYTES: usize = 1 << 20;
/// The cost of a spare beside its bytes.
const EACH: usize = 64;

/// Spares that wait to be sent. Memory is at most 1 MiB.
#[derive(Debug)]
pub struct Duplicates<T> {
    gap: Duration,
    /// In the order of their times. `T` is the destination.
    waiting: VecDeque<(Instant, T, Box<[u8]>)>,
    bytes: usize,
    sent: u64,
}

impl<T> Duplicates<T> {
    /// Sends spares `gap` after the datagrams.
    pub fn new(gap: Duration) -> Duplicates<T> {
        Duplicates { gap, waiting: VecDeque::new(), bytes: 0, sent: 0 }
    }

    /// Notes a sealed datagram that is sent now, if it is small and there is room. `now` does not go
    /// backwards.
    pub fn offer(&mut self, datagram: &[u8], to: T, now: Instant) {
        if datagram.len() > SMALL || self.bytes + datagram.len() + EACH > MOST_BYTES {
            return;
        }
        self.bytes += datagram.len() + EACH;
        self.waiting.push_back((now + self.gap, to, datagram.into()));
    }

    /// The next spare that is due.
    pub fn pop(&mut self, now: Instant) -> Option<(T, Box<[u8]>)> {
        let due = self.waiting.front().is_some_and(|(at, ..)| *at <= now);
        let (_, to, datagram) = due.then(|| self.waiting.pop_front()).flatten()?;
        self.bytes -= datagram.len() + EACH;
        self.sent += 1;
        Some((to, datagram))
    }

    /// When the next spare is due.
    pub fn deadline(&self) -> Option<Instant> {
        self.waiting.front().map(|(at, ..)| *at)
    }

    /// Spares sent so far.
    pub fn sent(&self) -> u64 {
        self.sent
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::link::testing::start;

    #[test]
    fn small_datagrams_come_again_after_the_gap() {
        let (start, ms) = (start(), Duration::from_millis(1));
        let mut duplicates = Duplicates::new(10 * ms);
        duplicates.offer(&[1; SMALL], 'a', start);
        duplicates.offer(&[2; SMALL + 1], 'a', start);
        duplicates.offer(&[3; 30], 'b', start + ms);
        assert_eq!(duplicates.deadline(), Some(start + 10 * ms));
        assert_eq!(duplicates.pop(start + 9 * ms), None);
        assert_eq!(duplicates.pop(start + 10 * ms), Some(('a', [1; SMALL].into())));
        assert_eq!(duplicates.pop(start + 10 * ms), None);
        assert_eq!(duplicates.pop(start + 20 * ms), Some(('b', [3; 30].into())));
        assert_eq!((duplicates.deadline(), duplicates.sent(), duplicates.bytes), (None, 2, 0));
    }

    #[test]
    fn memory_is_bounded() {
        let start = start();
        let mut duplicates = Duplicates::new(Duration::from_secs(1));
        for _ in 0..100_000 {
            duplicates.offer(&[1; 100], (), start);
            duplicates.offer(&[], (), start);
        }
        assert!(duplicates.bytes <= MOST_BYTES && duplicates.waiting.len() <= MOST_BYTES / EACH);
        let later = start + Duration::from_secs(1);
        assert!(std::iter::from_fn(|| duplicates.pop(later)).count() > 5000);
        duplicates.offer(&[1; 100], (), later);
        assert_eq!(duplicates.waiting.len(), 1, "there is room again");
    }
}
