//! A rate limit for log lines that strangers or faults can cause at any rate.

use crate::sync::lock;
use std::sync::Mutex;
use std::time::{Duration, Instant};

/// Shortest time between two lines.
const INTERVAL: Duration = Duration::from_secs(5);

/// Passes one line of a kind every five seconds, and counts the others.
#[derive(Debug, Default)]
pub(crate) struct LogLimit(Mutex<(Option<Instant>, u64)>);

impl LogLimit {
    pub(crate) const fn new() -> LogLimit {
        LogLimit(Mutex::new((None, 0)))
    }

    /// Whether to log now: `Some` with the number of lines suppressed since the last one, if any.
    pub(crate) fn pass(&self) -> Option<Option<u64>> {
        self.pass_at(Instant::now())
    }

    fn pass_at(&self, now: Instant) -> Option<Option<u64>> {
        let mut state = lock(&self.0);
        let (last, suppressed) = &mut *state;
        if last.is_some_and(|last| now.saturating_duration_since(last) < INTERVAL) {
            *suppressed += 1;
            return None;
        }
        *last = Some(now);
        Some(Some(std::mem::take(suppressed)).filter(|&count| count > 0))
    }
}

/// Shortest time between two lines that say the same.
const SAME: Duration = Duration::from_secs(60);

/// Passes a line that says something else than the one before, and the same once a minute.
#[derive(Debug, Default)]
pub(crate) struct Changes(Option<(String, Instant)>);

impl Changes {
    /// Whether to log this now.
    pub(crate) fn pass(&mut self, text: &str, now: Instant) -> bool {
        let is_same = |(last, at): &(String, Instant)| {
            last == text && now.saturating_duration_since(*at) < SAME
        };
        let passes = !self.0.as_ref().is_some_and(is_same);
        if passes {
            self.0 = Some((text.into(), now));
        }
        passes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_line_passes_and_the_others_are_counted() {
        let (log_limit, start) = (LogLimit::new(), Instant::now());
        assert_eq!(log_limit.pass_at(start), Some(None));
        assert_eq!(log_limit.pass_at(start + INTERVAL / 2), None);
        assert_eq!(log_limit.pass_at(start + INTERVAL / 2), None);
        assert_eq!(log_limit.pass_at(start + INTERVAL), Some(Some(2)));
        assert_eq!(log_limit.pass_at(start + 3 * INTERVAL), Some(None));
    }

    #[test]
    fn the_same_line_passes_once_a_minute_and_another_one_now() {
        let (mut changes, start) = (Changes::default(), Instant::now());
        let after = |seconds| start + Duration::from_secs(seconds);
        assert!(changes.pass("no route", start));
        assert!(!changes.pass("no route", after(59)));
        assert!(changes.pass("no route", after(60)));
        assert!(!changes.pass("no route", after(61)));
        assert!(changes.pass("refused", after(61)));
        assert!(changes.pass("no route", after(62)));
    }
}
