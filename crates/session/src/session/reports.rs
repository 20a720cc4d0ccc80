//! REPORT: each end sends its counters unasked, and keeps those of the peer.

use super::*;

/// At most one REPORT goes out in this time.
const REPORT_INTERVAL: Duration = Duration::from_secs(1);

/// What both ends reported.
pub(super) struct Reports {
    /// The [`Counters::reasons`] of the last REPORT.
    sent: Counters,
    /// When it was written, or before the first, when the session began.
    sent_at: Instant,
    /// A lane was woken to send another one.
    due: bool,
    /// The peer's last counters, and when they came.
    received: Option<(Box<Counters>, Instant)>,
}

impl Reports {
    pub(super) fn new(now: Instant) -> Reports {
        Reports { sent: Counters::default(), sent_at: now, due: false, received: None }
    }

    pub(super) fn received(&mut self, counters: Box<Counters>, now: Instant) {
        self.received = Some((counters, now));
    }

    /// A lane is gone: if it was woken to send a REPORT, the next timer wakes another.
    pub(super) fn postpone(&mut self) {
        self.due = false;
    }
}

impl Session {
    /// The peer's counters as it last reported them, and when that came. A peer reports at most
    /// once a second, and only when a counter has changed.
    pub fn peer_report(&self) -> Option<(&Counters, Instant)> {
        self.reports.received.as_ref().map(|(counters, at)| (&**counters, *at))
    }

    /// When a REPORT is due: a second after the last, if a counter has changed since. A REPORT that
    /// is lost with its transport needs no care, because a new transport changes a counter.
    pub(super) fn report_at(&self) -> Option<Instant> {
        let can_send = !self.reports.due && self.lanes.iter().any(Lane::is_up);
        (can_send && self.quick_counters().reasons() != self.reports.sent)
            .then(|| self.reports.sent_at + REPORT_INTERVAL)
    }

    /// Wakes a lane to send a REPORT that is due.
    pub(super) fn check_report(&mut self, now: Instant) {
        if self.report_at().is_some_and(|at| now >= at)
            && let Some(lane) = self.lanes.iter().position(Lane::is_up)
        {
            self.reports.due = true;
            self.wake(lane);
        }
    }

    /// Appends a REPORT that is due.
    pub(super) fn write_report(&mut self, now: Instant, out: &mut Vec<u8>) {
        if std::mem::take(&mut self.reports.due) {
            Message::Report(&self.counters().write()).write(out);
            self.reports.sent = self.quick_counters().reasons();
            self.reports.sent_at = now;
        }
    }
}
