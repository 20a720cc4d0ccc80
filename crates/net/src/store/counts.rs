//! What a store has done, for `status`.

use crate::sync::lock;
use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Content up to this old is an hour's, and a day's.
const HOUR: u64 = 3600;
const DAY: u64 = 24 * HOUR;
/// How often what was written so far is noted.
const NOTE: Duration = Duration::from_secs(HOUR / 4);

#[derive(Debug, Default)]
pub(super) struct Counts {
    /// Bytes of content that were written.
    written: AtomicU64,
    /// Bytes of content that were not written, because they lie on disk.
    repeated: AtomicU64,
    /// Bytes of content that it has not, and stretches of them: not written, or not readable.
    lost: AtomicU64,
    lost_ranges: AtomicU64,
    /// Bytes of content that were read to send them as references, by age.
    hour: AtomicU64,
    day: AtomicU64,
    older: AtomicU64,
    /// What the device had written at earlier times.
    past: Mutex<VecDeque<(Instant, u64)>>,
}

impl Counts {
    /// Content is stored: some of it is written, and some lies on disk already.
    pub(super) fn write(&self, written: u64, repeated: u64) {
        self.written.fetch_add(written, Ordering::Relaxed);
        self.repeated.fetch_add(repeated, Ordering::Relaxed);
    }

    /// Bytes of content that were written, and those that were not because they lie on disk.
    pub(super) fn written(&self) -> (u64, u64) {
        (self.written.load(Ordering::Relaxed), self.repeated.load(Ordering::Relaxed))
    }

    /// A stretch of content is not on disk.
    pub(super) fn lose(&self, range: &Range<u64>) {
        self.lost.fetch_add(range.end.saturating_sub(range.start), Ordering::Relaxed);
        self.lost_ranges.fetch_add(1, Ordering::Relaxed);
    }

    /// Content is not written, to spare the device; the first after some that was, or more.
    pub(super) fn pass(&self, bytes: u64, is_first: bool) {
        self.lost.fetch_add(bytes, Ordering::Relaxed);
        self.lost_ranges.fetch_add(is_first.into(), Ordering::Relaxed);
    }

    /// Bytes lost, and stretches.
    pub(super) fn lost(&self) -> (u64, u64) {
        (self.lost.load(Ordering::Relaxed), self.lost_ranges.load(Ordering::Relaxed))
    }

    /// Content of an age in seconds was read to refer to it. Of unknown age, it is old.
    pub(super) fn recall(&self, bytes: u64, age: Option<u64>) {
        let count = match age.unwrap_or(u64::MAX) {
            0..HOUR => &self.hour,
            HOUR..DAY => &self.day,
            _ => &self.older,
        };
        count.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Bytes of content read to refer to it: up to an hour old, up to a day, and older.
    pub(super) fn recalled(&self) -> [u64; 3] {
        [&self.hour, &self.day, &self.older].map(|count| count.load(Ordering::Relaxed))
    }

    /// Bytes that the device has written within the last day, or since the start, of `total` since
    /// the start.
    pub(super) fn within_a_day(&self, total: u64, now: Instant) -> u64 {
        let mut past = lock(&self.past);
        if past.back().is_none_or(|(at, _)| now.duration_since(*at) >= NOTE) {
            past.push_back((now, total));
        }
        // The first note is the newest one that is a day old, or the oldest.
        let is_old = |at: &Instant| now.duration_since(*at) >= Duration::from_secs(DAY);
        while past.get(1).is_some_and(|(at, _)| is_old(at)) {
            past.pop_front();
        }
        let before = past.front().filter(|(at, _)| is_old(at)).map_or(0, |(_, total)| *total);
        total.saturating_sub(before)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn content_counts_by_its_age() {
        let counts = Counts::default();
        for (age, bytes) in
            [(Some(0), 1), (Some(3599), 2), (Some(3600), 4), (Some(86_399), 8), (Some(86_400), 16)]
        {
            counts.recall(bytes, age);
        }
        counts.recall(32, None);
        assert_eq!(counts.recalled(), [3, 12, 48]);
        counts.lose(&(5..9));
        counts.lose(&(9..10));
        assert_eq!(counts.lost(), (5, 2));
    }

    #[test]
    fn what_was_written_longer_than_a_day_ago_is_not_of_this_day() {
        let (counts, start) = (Counts::default(), Instant::now());
        let within = |hours: u64, total| {
            counts.within_a_day(total, start + Duration::from_secs(hours * HOUR))
        };
        // 10 bytes an hour.
        for hours in 0..100 {
            let day = within(hours, 10 * hours);
            let least = 10 * hours.min(24);
            assert!((least..=least + 10).contains(&day), "{day} after {hours} hours");
        }
        // A night without a look.
        assert_eq!(within(130, 5000), 5000 - 990);
    }
}
