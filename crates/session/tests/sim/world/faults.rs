//! Faults, and the calm after them.

use super::World;
use crate::script::{CLIENT, Fault, SERVER};
use oncewire_session::Session;

impl World {
    /// The transport that a lane has at either end.
    fn link_of(&self, lane: usize) -> Option<usize> {
        [CLIENT, SERVER]
            .into_iter()
            .find_map(|end| self.ends[end].links.get(lane).copied().flatten())
    }

    pub(super) fn fault(&mut self, fault: Fault) {
        if self.calm {
            return;
        }
        let now = self.instant();
        self.say(|| format!("{fault:?}"));
        let mut with = |end: usize, call: &dyn Fn(&mut Session)| {
            self.ends[end].session.as_mut().map(call);
            self.settle(end);
        };
        match fault {
            Fault::Close { end } => with(end, &|session| session.close()),
            Fault::Limit { end, log } => {
                with(end, &|session| session.set_log_limit(log, now).expect("a size in range"))
            }
            Fault::Release { end } => with(end, &|session| {
                session.release_logs(now);
            }),
            Fault::Restart { end, keep_logs } => self.forget(end, keep_logs),
            Fault::Crash { ends } => {
                for end in [CLIENT, SERVER].into_iter().filter(|&end| ends[end]) {
                    self.crash(end);
                }
            }
            Fault::Corrupt { sender, transports } => self.ends[sender].corrupt = transports,
            Fault::Cut { lane } => {
                if let Some(link) = self.link_of(lane) {
                    self.cut(link);
                }
            }
            Fault::Stall { lane, sender } => {
                if let Some(link) = self.link_of(lane) {
                    self.links[link].pipes[sender].stalled = true;
                }
            }
        }
    }

    /// No more faults. Transports that faults have left unusable are replaced.
    pub(super) fn calm(&mut self) {
        self.say(|| "calm".into());
        self.calm = true;
        let links: Vec<usize> =
            self.ends.iter().flat_map(|end| end.links.iter().flatten().copied()).collect();
        for link in links {
            let stalled = self.links[link].pipes.iter().any(|pipe| pipe.stalled);
            // Under TLS no corrupted byte arrives. Without it, a message with a corrupted length
            // may wait forever.
            if self.profile.corrupts() && !stalled {
                self.cut(link);
            }
            self.links[link].window = self.links[link].window.max(20_000);
            let lane = self.links[link].lane;
            for end in 0..2 {
                if self.ends[end].links.get(lane).copied().flatten() == Some(link) {
                    self.pump(end, lane, false);
                    self.settle(end);
                }
            }
        }
    }
}
