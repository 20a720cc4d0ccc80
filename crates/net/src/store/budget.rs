//! How much a store may write to its device in a day.

use std::time::{Duration, Instant};

const DAY: Duration = Duration::from_secs(24 * 3600);
/// The part of a day's bytes that may be written at once, as a divisor; the rest comes evenly, so
/// that no 24 hours have more.
const BURST: u64 = 24;
/// The part of that which must be there before anything is written again, as a divisor: logs are
/// not to be cut into many ranges.
const ENOUGH: u64 = 4;

/// Bytes that may be written within 24 hours.
#[derive(Debug)]
pub(super) struct Budget {
    /// In bytes.
    day: u64,
    /// Bytes that may be written now, and since when that is so. Below 0, more was written.
    left: f64,
    at: Instant,
    /// What the device had written then, in bytes.
    written: u64,
    is_over: bool,
}

impl Budget {
    pub(super) fn new(day: u64, now: Instant) -> Budget {
        Budget { day, left: Budget::burst(day), at: now, written: 0, is_over: false }
    }

    fn burst(day: u64) -> f64 {
        day as f64 / BURST as f64
    }

    /// Whether nothing more may be written now, when `written` bytes were written since the start.
    pub(super) fn is_over(&mut self, written: u64, now: Instant) -> bool {
        let burst = Budget::burst(self.day);
        let time = now.saturating_duration_since(self.at).as_secs_f64() / DAY.as_secs_f64();
        let earned = (self.day as f64 - burst) * time;
        let spent = written.saturating_sub(self.written) as f64;
        self.left = (self.left + earned).min(burst) - spent;
        (self.at, self.written) = (now, written);
        let least = if self.is_over { burst / ENOUGH as f64 } else { 0.0 };
        self.is_over = self.left < least;
        self.is_over
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whoever writes whenever that is allowed, a piece at a time.
    #[test]
    fn no_day_has_more_than_its_bytes_and_most_of_them_are_used() {
        const HOUR: u64 = 3600;
        let (day, piece, start) = (24_000_000u64, 1000u64, Instant::now());
        let mut budget = Budget::new(day, start);
        let (mut written, mut past, mut begun) = (0u64, Vec::new(), 0);
        for second in (0..100 * HOUR).step_by(5) {
            // A night in which nothing came.
            if (30 * HOUR..40 * HOUR).contains(&second) {
                continue;
            }
            let now = start + Duration::from_secs(second);
            let mut was_over = true;
            while !budget.is_over(written, now) {
                begun += u64::from(was_over);
                was_over = false;
                written += piece;
            }
            past.push((second, written));
        }
        for (at, &(second, total)) in past.iter().enumerate() {
            let before = past[..at].partition_point(|(then, _)| then + 24 * HOUR <= second);
            let earlier = before.checked_sub(1).map_or(0, |last| past[last].1);
            assert!(
                total - earlier <= day + piece,
                "{} in the day before {second}",
                total - earlier
            );
        }
        // 90 hours of 23/24 of an hour's bytes.
        assert!(written > 90 * 23 * (day / 24) / 24, "{written}");
        assert!(begun < 4 * 2 * 100, "{begun} ranges in 100 hours");
    }
}
