//! Encoding within a budget of CPU time.

use super::*;
use oncewire_codec::EncoderBuilder;
use oncewire_codec::adapt::CpuShare;

/// The controller that chooses the effort, and what was last reported to it.
pub(super) struct Adapting {
    controller: Controller,
    started: Instant,
    /// The value of [`Counters::sent_bytes`] that the controller knows.
    reported: u64,
}

impl Adapting {
    /// `None` if the encoder's parameters are invalid, which
    /// [`Config::build`](crate::Config::build) excludes.
    pub(super) fn new(
        encoder: &EncoderBuilder,
        budget: CpuShare,
        now: Instant,
    ) -> Option<Adapting> {
        let controller = Controller::new(encoder.ladder().ok()?, budget, Duration::ZERO);
        Some(Adapting { controller, started: now, reported: 0 })
    }
}

impl Session {
    /// Other sessions are encoded on the same thread: those that get the same load. With
    /// [`Config::hurries`](crate::Config::hurries), all of them hurry when they encode most of its
    /// time together, but for those whose transports are full.
    pub fn share_thread(&mut self, load: ThreadLoad) {
        self.pace.share(load);
    }

    /// A transport does not take what the session wrote at once: its link is slower than this end.
    pub fn transport_is_full(&mut self) {
        self.pace.full();
    }

    /// Reports the CPU time that the last [`Session::transmit`] took. Call it after each, if
    /// [`Config::cpu_budget`](crate::Config::cpu_budget) is set. The session then encodes with less
    /// effort when the budget is used up, and with more when there is room; [`Event::Effort`] says
    /// so.
    pub fn spent(&mut self, cpu: Duration, now: Instant) {
        let Some(Adapting { controller, started, reported }) = &mut self.adapting else { return };
        let bytes =
            self.counters.sent_bytes - std::mem::replace(reported, self.counters.sent_bytes);
        if let Some(decision) =
            controller.spent(bytes, cpu, now.saturating_duration_since(*started))
        {
            self.outgoing.set_effort(decision.to);
            self.events.push_back(Event::Effort(decision));
        }
    }

    /// The controller that chooses the effort, if there is a CPU budget.
    pub fn controller(&self) -> Option<&Controller> {
        self.adapting.as_ref().map(|adapting| &adapting.controller)
    }
}
