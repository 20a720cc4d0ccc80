//! Deadlines, and how a session ends.

use super::*;

impl Session {
    /// When to call [`Session::on_timeout`], at the latest.
    pub fn deadline(&self) -> Option<Instant> {
        if self.ended.is_some() {
            return None;
        }
        let of_lane = |lane: &Lane| match lane.state {
            LaneState::Down => lane.down_since.map(|since| since + self.config.grace),
            LaneState::Greeting(until) => Some(until),
            LaneState::Closing => None,
            LaneState::Up => {
                let quiet = self.ping_at(lane).min(lane.heard + self.config.dead_after);
                Some(lane.ack_at.map_or(quiet, |at| at.min(quiet)))
            }
        };
        self.lanes.iter().filter_map(of_lane).chain(self.limit_due.map(|due| due.at)).min()
    }

    /// Watches from now on whether the peer keeps to the limit.
    pub(super) fn watch_limit(&mut self, now: Instant) {
        let low = self.incoming.low();
        let due = LimitDue { at: now + self.config.dead_after, told_at: low, seen: low };
        self.limit_due = (self.incoming.capacity() > self.log_limit).then(|| self.limit_due.unwrap_or(due));
    }

    /// A peer that was told a smaller limit begins a log within it as soon as nothing of the old one is in flight. One that stands still, or goes on as
    /// before, does not mean to: what it sent is dropped here, and it must begin again.
    fn enforce_limit(&mut self, now: Instant) {
        let Some(due) = self.limit_due.as_mut().filter(|due| now >= due.at) else { return };
        let (low, capacity) = (self.incoming.low(), self.incoming.capacity());
        let is_up = self.lanes.iter().any(|lane| lane.state == LaneState::Up);
        if capacity <= self.log_limit || low == 0 {
            self.limit_due = None;
        } else if !is_up || (low > due.seen && low - due.told_at.min(low) <= capacity) {
            (due.seen, due.at) = (low, now + self.config.dead_after);
        } else if self.limit_enforced {
            // Once can be a lane that was lost at the wrong moment.
            self.violation(Violation::Bounds { what: "a log", value: capacity, limit: self.log_limit });
        } else {
            self.limit_enforced = true;
            self.limit_due = None;
            self.incoming.lose();
            for lane in 0..self.lanes.len() {
                self.drop_lane(lane, close::LOG_LOST, "the log is larger than the limit");
            }
            self.note_memory();
        }
    }

    /// When a lane is to be pinged. One that waits for another cannot read what the peer asks, and must speak unasked, or it would pass for
    /// dead.
    fn ping_at(&self, lane: &Lane) -> Instant {
        let since = if lane.waiting { lane.pinged } else { lane.heard.max(lane.pinged) };
        since + self.config.keep_alive
    }

    /// Time has passed.
    pub fn on_timeout(&mut self, now: Instant) {
        if self.ended.is_some() {
            return;
        }
        self.enforce_limit(now);
        for lane in 0..self.lanes.len() {
            let state = &self.lanes[lane];
            match state.state {
                LaneState::Down if state.down_since.is_some_and(|since| now >= since + self.config.grace) => {
                    return self.end(Ended::GraceOver(self.config.grace));
                }
                LaneState::Greeting(until) if now >= until => {
                    self.lanes[lane].state = LaneState::Closing;
                    self.events.push_back(Event::Drop(lane));
                }
                LaneState::Up => {
                    if now >= state.heard + self.config.dead_after {
                        self.lanes[lane].state = LaneState::Closing;
                        self.events.push_back(Event::Drop(lane));
                    } else {
                        if now >= self.ping_at(state) {
                            // An earlier one may have been lost with nothing else; this one counts.
                            self.lanes[lane].ping = None;
                            self.ping(lane, now);
                            self.wake(lane);
                        }
                        if self.lanes[lane].ack_at.take_if(|at| now >= *at).is_some() {
                            // Goes with whatever is sent next, as soon as the transport takes it.
                            self.wake(lane);
                        }
                    }
                }
                _ => {}
            }
        }
    }

    /// Takes no more flows of the peer and opens none; the peer is told. Those open go on.
    pub fn go_away(&mut self) {
        if self.ended.is_none() && !std::mem::replace(&mut self.going_away, true) && !self.lanes.is_empty() {
            self.push_control(0, Message::GoAway);
            self.wake(0);
        }
    }

    /// Ends the session, and tells the peer.
    pub fn close(&mut self) {
        if self.ended.is_none() {
            for lane in 0..self.lanes.len() {
                self.drop_lane(lane, close::DONE, "");
            }
            self.end(Ended::Closed);
        }
    }

    /// The logs of both directions may have `log` bytes from now on, each. One that is larger begins again, empty, as soon as nothing of it is
    /// in flight; one that is full does the same once it may be twice as large, or more. Others stay as they are.
    pub fn set_log_limit(&mut self, log: u64, now: Instant) {
        let log = log.clamp(SMALLEST_LOG, LARGEST_LOG);
        if self.ended.is_none() && std::mem::replace(&mut self.log_limit, log) != log {
            self.told_limit = self.told_limit.max(log);
            self.incoming.raise_limit(log);
            // Before both have agreed, too: the peer may have been told another limit in a hello.
            self.tell_limit = true;
            self.watch_limit(now);
            self.note_memory();
            (0..self.lanes.len()).for_each(|lane| self.wake(lane));
        }
    }

    /// Asks the peer for a sign of life on every lane: see [`Session::last_heard`].
    pub fn probe(&mut self, now: Instant) {
        for lane in 0..self.lanes.len() {
            if self.is_up(lane) {
                self.lanes[lane].ping = None;
                self.ping(lane, now);
                self.wake(lane);
            }
        }
    }

    /// Asks the peer for its counters; [`Event::Report`] brings them.
    pub fn ask_report(&mut self) {
        if self.is_established() {
            self.ask_report = true;
            if let Some(lane) = (0..self.lanes.len()).find(|&lane| self.is_up(lane)) {
                self.wake(lane);
            }
        }
    }

    pub(super) fn violation(&mut self, violation: Violation) {
        if self.ended.is_none() {
            let text = violation.to_string();
            for lane in 0..self.lanes.len() {
                self.drop_lane(lane, close::VIOLATION, &text);
            }
            self.end(violation.into());
        }
    }

    pub(super) fn end(&mut self, why: Ended) {
        if self.ended.is_none() {
            for lane in 0..self.lanes.len() {
                match &why {
                    Ended::Closed | Ended::GraceOver(_) => self.drop_lane(lane, close::DONE, ""),
                    why => self.drop_lane(lane, close::VIOLATION, &why.to_string()),
                }
            }
            self.clear_flows();
            self.ended = Some(why.clone());
            self.events.push_back(Event::Ended(why));
        }
    }
}
