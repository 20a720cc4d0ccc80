//! Whether first touches of huge pages are slow on this machine.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

/// A moving average of the processor time that huge pages took, from which there is no way back: when huge
/// pages are no longer requested, their times are not known any more.
pub(super) struct PageTimes {
    /// Microseconds, times [`WEIGHT`].
    average: AtomicU32,
}

/// The latest time counts one part in so many.
const WEIGHT: u32 = 16;
/// The average is slow from here on, in microseconds: 2 MiB in small pages take about as long where
/// that is slow.
const SLOW: u32 = 700;
/// Longer times count as this, so that one or two of them decide nothing.
const MOST: u32 = 4000;
/// What is assumed at first, in microseconds.
const USUAL: u32 = 150;

impl PageTimes {
    pub(super) const fn new() -> PageTimes {
        PageTimes { average: AtomicU32::new(USUAL * WEIGHT) }
    }

    /// A huge page took this long.
    pub(super) fn note(&self, took: Duration) {
        let took = u32::try_from(took.as_micros()).unwrap_or(MOST).min(MOST);
        let average = self.average.load(Ordering::Relaxed);
        if average < SLOW * WEIGHT {
            // Of two threads at once, one may be ignored.
            self.average.store(average - average / WEIGHT + took, Ordering::Relaxed);
        }
    }

    pub(super) fn are_slow(&self) -> bool {
        self.average.load(Ordering::Relaxed) >= SLOW * WEIGHT
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(milliseconds: &[u64]) -> bool {
        let times = PageTimes::new();
        milliseconds.iter().for_each(|&took| times.note(Duration::from_millis(took)));
        times.are_slow()
    }

    #[test]
    fn several_slow_pages_decide_and_two_do_not() {
        assert!(!after(&[]) && !after(&[0; 1000]));
        assert!(!after(&[3_600_000; 2]));
        assert!(after(&[5, 5, 5]) && after(&[30, 0, 30, 0, 30]));
        assert!(!after(&[&[30, 30][..], &[0; 20], &[30]].concat()));
        // There is no way back.
        assert!(after(&[&[5, 5, 5][..], &[0; 1000]].concat()));
    }
}
