//! How long the peer's disk takes: what it is asked for is referred to once it has that, not before.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// An answer that did not come for so long was lost with its transport.
const LOST: Duration = Duration::from_secs(1);
/// An answer may be late by this and two round trips.
const LATE: Duration = Duration::from_millis(10);

/// What the peer was asked to read, and how long its answers took.
#[derive(Debug, Default)]
pub(crate) struct Latency {
    /// Mean and mean deviation of how long its reads took, smoothed as in RFC 6298.
    smoothed: Option<(Duration, Duration)>,
    /// Requests without an answer, and since when.
    asked: BTreeMap<u64, Instant>,
}

impl Latency {
    pub(super) fn ask(&mut self, id: u64, now: Instant) {
        self.asked.retain(|_, since| now.saturating_duration_since(*since) < LOST);
        self.asked.insert(id, now);
    }

    /// The peer has answered: it took so long, or could not read.
    pub(super) fn answer(&mut self, id: u64, took: Option<Duration>) {
        let was_asked = self.asked.remove(&id).is_some();
        if let Some(took) = took.filter(|_| was_asked) {
            self.smoothed = Some(match self.smoothed {
                None => (took, took / 2),
                Some((mean, deviation)) => {
                    ((mean * 7 + took) / 8, (deviation * 3 + mean.abs_diff(took)) / 4)
                }
            });
        }
    }

    /// When the peer has read what it was asked for at `since`, in all likelihood. `None` if it has
    /// answered nothing yet, or will not have answered in time what it was asked for before.
    pub(super) fn due(&self, since: Instant, rtt: Duration) -> Option<Instant> {
        let (mean, deviation) = self.smoothed?;
        let takes = mean + deviation * 4;
        let due = since + takes;
        let patience = takes + rtt * 2 + LATE;
        let is_late = |asked: &Instant| {
            let age = due.saturating_duration_since(*asked);
            (patience..LOST).contains(&age)
        };
        (!self.asked.values().any(is_late)).then_some(due)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn a_disk_that_answers_is_relied_on_and_one_that_stops_is_not() {
        #[expect(clippy::disallowed_methods, reason = "a test needs a time to start from")]
        let start = Instant::now();
        let mut latency = Latency::default();
        latency.ask(1, start);
        assert_eq!(latency.due(start, MS), None, "nothing is known yet");
        latency.answer(1, Some(20 * MS));
        assert_eq!(latency.due(start, MS), Some(start + 60 * MS));
        for id in 2..40 {
            latency.ask(id, start);
            latency.answer(id, Some(20 * MS));
        }
        let due = latency.due(start, MS).expect("a time");
        assert!((20 * MS..21 * MS).contains(&(due - start)), "{:?}", due - start);
        // Nobody asked for that, and a failure says nothing of time.
        latency.answer(99, Some(900 * MS));
        latency.ask(50, start);
        latency.answer(50, None);
        assert_eq!(latency.due(start, MS), Some(due));
        // One that hangs is known to hang as soon as it is late.
        latency.ask(60, start);
        assert!(latency.due(start + 10 * MS, MS).is_some());
        assert_eq!(latency.due(start + 30 * MS, MS), None);
        assert!(latency.due(start + 990 * MS, MS).is_some(), "lost with its transport");
    }
}
