//! Encoding within a budget of CPU time.

use super::*;
use oncewire_codec::EncoderBuilder;
use oncewire_codec::adapt::CpuShare;

/// The controller, and what it has not been told yet.
pub(super) struct Adapting {
    controller: Controller,
    begun: Instant,
    /// Of [`Counters::sent_bytes`], what it knows.
    known: u64,
}

impl Adapting {
    /// `None` if an encoder cannot be built at all; the session ends as soon as it needs one.
    pub(super) fn new(encoder: &EncoderBuilder, budget: CpuShare, now: Instant) -> Option<Adapting> {
        let controller = Controller::new(encoder.ladder().ok()?, budget, Duration::ZERO);
        Some(Adapting { controller, begun: now, known: 0 })
    }
}

impl Session {
    /// Tells how much CPU time [`Session::transmit`] took, after each call, if there is a budget: [`Config::cpu_budget`]. Blocks are then
    /// encoded with less effort when it is used up, and with more when there is room; [`Event::Effort`] says so.
    pub fn spent(&mut self, cpu: Duration, now: Instant) {
        let Some(Adapting { controller, begun, known }) = &mut self.adapting else { return };
        let bytes = self.counters.sent_bytes - std::mem::replace(known, self.counters.sent_bytes);
        if let Some(decision) = controller.spent(bytes, cpu, now.saturating_duration_since(*begun)) {
            self.outgoing.set_effort(decision.to);
            self.events.push_back(Event::Effort(decision));
        }
    }

    /// What chooses the effort, if there is a budget.
    pub fn controller(&self) -> Option<&Controller> {
        self.adapting.as_ref().map(|adapting| &adapting.controller)
    }
}
