//! Log lines that strangers or faults can cause at any rate are let through at a limited one.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// One line passes in this time.
const INTERVAL: Duration = Duration::from_secs(5);

/// Lets one line of a kind through in five seconds, and counts the others.
#[derive(Debug, Default)]
pub(crate) struct Seldom(Mutex<(Option<Instant>, u64)>);

impl Seldom {
    pub(crate) const fn new() -> Seldom {
        Seldom(Mutex::new((None, 0)))
    }

    /// Whether to log now: `Some` with the number of lines that were left out since the last, if there are any.
    pub(crate) fn pass(&self) -> Option<Option<u64>> {
        self.pass_at(Instant::now())
    }

    fn pass_at(&self, now: Instant) -> Option<Option<u64>> {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (last, left_out) = &mut *state;
        if last.is_some_and(|last| now.saturating_duration_since(last) < INTERVAL) {
            *left_out += 1;
            return None;
        }
        *last = Some(now);
        Some(Some(std::mem::take(left_out)).filter(|&count| count > 0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_line_passes_and_the_others_are_counted() {
        let (seldom, start) = (Seldom::new(), Instant::now());
        assert_eq!(seldom.pass_at(start), Some(None));
        assert_eq!(seldom.pass_at(start + INTERVAL / 2), None);
        assert_eq!(seldom.pass_at(start + INTERVAL / 2), None);
        assert_eq!(seldom.pass_at(start + INTERVAL), Some(Some(2)));
        assert_eq!(seldom.pass_at(start + 3 * INTERVAL), Some(None));
    }
}
