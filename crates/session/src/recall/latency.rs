//! How long the peer's disk takes: what it is asked for is referred to once it has that, not before.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// An answer that did not come for so long was lost with its transport.
const LOST: Duration = Duration::from_secs(1);
/// An answer may be late by this and two round trips.
const LATE: Duration = Duration::from_millis(10);

/// A peer that takes no longer than this, in all likelihood, need not answer: the answer would cost as
/// many bytes as what it is about.
pub(super) const QUICK: Duration = Duration::from_millis(1);
/// Of so many requests to a quick peer, one is answered.
const SAMPLE: u32 = 8;

/// What the peer was asked to read, and how long its answers took.
#[derive(Debug, Default)]
pub(crate) struct Latency {
    /// Mean and mean deviation of how long its reads took, smoothed as in RFC 6298.
    smoothed: Option<(Duration, Duration)>,
    /// Requests without an answer, and since when.
    asked: BTreeMap<u64, Instant>,
    /// Requests in a row that want no answer.
    silent: u32,
}

impl Latency {
    /// Whether the next request is to be answered at once.
    pub(super) fn wants_answer(&mut self) -> bool {
        let takes = self.smoothed.map(|(mean, deviation)| mean + deviation * 4);
        let wants = self.silent + 1 >= SAMPLE || takes.is_none_or(|takes| takes > QUICK);
        self.silent = if wants { 0 } else { self.silent + 1 };
        wants
    }

    /// Whether nothing was answered yet.
    pub(super) fn is_unknown(&self) -> bool {
        self.smoothed.is_none()
    }

    pub(super) fn ask(&mut self, id: u64, now: Instant) {
        self.asked.retain(|_, since| now.saturating_duration_since(*since) < LOST);
        self.asked.insert(id, now);
    }

    /// The peer has answered: it took so long, or could not read. A try is rare, and counts more.
    pub(super) fn answer(&mut self, id: u64, took: Option<Duration>, is_try: bool) {
        self.asked.remove(&id);
        if let Some(took) = took {
            self.smoothed = Some(match self.smoothed {
                None => (took, took / 2),
                Some((mean, deviation)) if is_try => {
                    ((mean + took) / 2, (deviation + mean.abs_diff(took)) / 2)
                }
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
        // A lane does not wait long for that, and a timer takes longer.
        let due = if takes <= QUICK { since } else { since + takes };
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
    fn a_quick_disk_answers_now_and_then_and_a_slow_one_always() {
        let mut latency = Latency::default();
        assert!(latency.wants_answer() && latency.wants_answer());
        latency.answer(1, Some(MS / 10), false);
        #[expect(clippy::disallowed_methods, reason = "a test needs a time to start from")]
        let now = Instant::now();
        assert_eq!(latency.due(now, MS), Some(now));
        let wanted = (0..80).filter(|_| latency.wants_answer()).count();
        assert_eq!(wanted, 10);
        // It says unasked that it was slow.
        latency.answer(2, Some(5 * MS), false);
        assert!((0..80).all(|_| latency.wants_answer()));
        // A few tries show that it is quick again.
        (0..10).for_each(|_| latency.answer(3, Some(MS / 10), true));
        assert_eq!(latency.due(now, MS), Some(now));
    }

    #[test]
    fn a_disk_that_answers_is_relied_on_and_one_that_stops_is_not() {
        #[expect(clippy::disallowed_methods, reason = "a test needs a time to start from")]
        let start = Instant::now();
        let mut latency = Latency::default();
        latency.ask(1, start);
        assert_eq!(latency.due(start, MS), None, "nothing is known yet");
        latency.answer(1, Some(20 * MS), false);
        assert_eq!(latency.due(start, MS), Some(start + 60 * MS));
        for id in 2..40 {
            latency.ask(id, start);
            latency.answer(id, Some(20 * MS), false);
        }
        let due = latency.due(start, MS).expect("a time");
        assert!((20 * MS..21 * MS).contains(&(due - start)), "{:?}", due - start);
        // A failure says nothing of time.
        latency.ask(50, start);
        latency.answer(50, None, false);
        assert_eq!(latency.due(start, MS), Some(due));
        // One that hangs is known to hang as soon as it is late.
        latency.ask(60, start);
        assert!(latency.due(start + 10 * MS, MS).is_some());
        assert_eq!(latency.due(start + 30 * MS, MS), None);
        assert!(latency.due(start + 990 * MS, MS).is_some(), "lost with its transport");
    }
}
