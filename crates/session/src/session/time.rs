//! Deadlines, and how a session ends.

use super::*;

impl Session {
    /// When to call [`Session::on_timeout`]. Changes with every other call; `None` if the session
    /// waits for nothing, or is over.
    pub fn deadline(&self) -> Option<Instant> {
        if self.ended.is_some() {
            return None;
        }
        self.lanes
            .iter()
            .filter_map(Lane::next_deadline)
            .chain(self.log_limit.deadline())
            .chain(self.report_at())
            .chain(self.disk_deadline())
            .min()
    }

    /// Does what is due at `now`: PINGs, acknowledgements, and giving up on a silent peer.
    pub fn on_timeout(&mut self, now: Instant) {
        if self.ended.is_some() {
            return;
        }
        self.enforce_limit(now);
        self.check_report(now);
        self.give_up_disk(now);
        for lane in 0..self.lanes.len() {
            match self.lanes[lane].on_timeout(now, || self.random.nonce()) {
                Expired::Nothing => {}
                Expired::Send => self.wake(lane),
                Expired::Transport => self.events.push_back(Event::Drop(lane)),
                Expired::Grace => return self.end(Ended::GraceOver(self.config.grace)),
            }
        }
    }

    /// Opens no more flows, and asks the peer to open no more. Open flows continue, and so do those
    /// that the peer opened before it knew.
    pub fn go_away(&mut self) {
        if self.ended.is_none()
            && !std::mem::replace(&mut self.going_away, true)
            && !self.lanes.is_empty()
        {
            self.lanes[0].push_control(&Message::GoAway);
            self.wake(0);
        }
    }

    /// Whether the peer knows of [`Session::go_away`].
    pub fn has_gone_away(&self) -> bool {
        self.going_away && !self.lanes.iter().any(Lane::has_go_away)
    }

    /// Ends the session and notifies the peer.
    pub fn close(&mut self) {
        self.end(Ended::Closed);
    }

    /// Sends a PING on each lane that is up, to find out whether the peer is alive: see
    /// [`Session::last_received`].
    pub fn probe(&mut self, now: Instant) {
        for lane in 0..self.lanes.len() {
            if self.lanes[lane].is_up() {
                self.lanes[lane].ping_again(self.random.nonce(), now);
                self.wake(lane);
            }
        }
    }

    pub(super) fn violation(&mut self, violation: Violation) {
        if self.ended.is_none() {
            // The CLOSE tells the peer what it did; the event adds that it was the peer.
            self.drop_all(close::VIOLATION, &violation.to_string());
            self.end(violation.into());
        }
    }

    pub(super) fn end(&mut self, why: Ended) {
        if self.ended.is_none() {
            match &why {
                Ended::Closed | Ended::GraceOver(_) => self.drop_all(close::DONE, ""),
                why => self.drop_all(close::VIOLATION, &why.to_string()),
            }
            self.clear_flows();
            self.ended = Some(why.clone());
            self.events.push_back(Event::Ended(why));
        }
    }
}
