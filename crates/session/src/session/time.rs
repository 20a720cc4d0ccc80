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
            .chain(self.limit_due.map(|due| due.at))
            .chain(self.report_at())
            .min()
    }

    /// Does what is due at `now`: PINGs, acknowledgements, and giving up on a silent peer.
    pub fn on_timeout(&mut self, now: Instant) {
        if self.ended.is_some() {
            return;
        }
        self.enforce_limit(now);
        self.check_report(now);
        for lane in 0..self.lanes.len() {
            match self.lanes[lane].on_timeout(now, || self.random.nonce()) {
                Expired::Nothing => {}
                Expired::Send => self.wake(lane),
                Expired::Transport => self.events.push_back(Event::Drop(lane)),
                Expired::Grace => return self.end(Ended::GraceOver(self.config.grace)),
            }
        }
    }

    /// The peer has `dead_after` to begin a log within the limit, if its log is larger.
    pub(super) fn start_limit_timer(&mut self, now: Instant) {
        let acknowledged = self.incoming.acknowledged();
        let due = LimitDue {
            at: now + self.config.dead_after,
            sent_at: acknowledged,
            progress: acknowledged,
        };
        self.limit_due =
            (self.incoming.capacity() > self.log_limit).then(|| self.limit_due.unwrap_or(due));
    }

    /// A peer that got a smaller limit begins a log within it as soon as nothing of the old one is
    /// in flight. If it stands still, or sends more than a whole log after the limit, it does not
    /// mean to: this end drops what it received, so that the peer must begin again.
    fn enforce_limit(&mut self, now: Instant) {
        let Some(due) = self.limit_due.as_mut().filter(|due| now >= due.at) else { return };
        let (acknowledged, capacity) = (self.incoming.acknowledged(), self.incoming.capacity());
        let is_up = self.lanes.iter().any(Lane::is_up);
        let progress =
            acknowledged > due.progress && acknowledged - due.sent_at.min(acknowledged) <= capacity;
        if capacity <= self.log_limit || acknowledged == 0 {
            self.limit_due = None;
        } else if !is_up || progress {
            (due.progress, due.at) = (acknowledged, now + self.config.dead_after);
        } else if self.limit_enforced {
            // Once may be a lane that was lost at the wrong moment; twice is not.
            self.violation(Violation::Bounds {
                what: "a log",
                value: capacity,
                limit: self.log_limit,
            });
        } else {
            self.limit_enforced = true;
            self.limit_due = None;
            self.incoming.discard();
            for lane in 0..self.lanes.len() {
                self.drop_lane(lane, close::LOG_LOST, "the log is larger than the limit");
            }
            self.note_memory();
        }
    }

    /// Accepts and opens no more flows, and says so to the peer. Open flows continue.
    pub fn go_away(&mut self) {
        if self.ended.is_none()
            && !std::mem::replace(&mut self.going_away, true)
            && !self.lanes.is_empty()
        {
            self.lanes[0].push_control(&Message::GoAway);
            self.wake(0);
        }
    }

    /// Ends the session and notifies the peer.
    pub fn close(&mut self) {
        self.end(Ended::Closed);
    }

    /// Sets the largest log that this end keeps in each direction from now on, in bytes. A log that
    /// is larger begins again, empty, as soon as nothing of it is in flight. So does a log that is
    /// full, if it may then be at least twice as large. Other logs stay as they are.
    ///
    /// # Errors
    /// [`ConfigError::Log`] unless `log` is [`SMALLEST_LOG`] to
    /// [`LARGEST_LOG`](crate::LARGEST_LOG).
    pub fn set_log_limit(&mut self, log: u64, now: Instant) -> Result<(), ConfigError> {
        check_log(log)?;
        if self.ended.is_none() && std::mem::replace(&mut self.log_limit, log) != log {
            self.largest_limit = self.largest_limit.max(log);
            self.incoming.raise_limit(log);
            // Even before the handshake is complete: the HELLO that was sent may have named another
            // limit.
            self.limit_unsent = true;
            self.start_limit_timer(now);
            self.note_memory();
            (0..self.lanes.len()).for_each(|lane| self.wake(lane));
        }
        Ok(())
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
