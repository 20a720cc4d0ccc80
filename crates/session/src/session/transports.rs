//! Lanes get and lose their transports; what the hellos say of them.

use super::*;
use siphasher::sip::SipHasher24;

impl Session {
    /// The connecting end has a transport for a lane. Its hello is the first thing to send.
    pub fn attach(&mut self, lane: usize, now: Instant) {
        if self.ended.is_some() || lane >= self.lanes.len() || !self.connects {
            return;
        }
        let until = now + self.config.dead_after;
        self.lanes[lane].start(LaneState::Greeting(until), now);
        let answer = if self.agreed.is_some() { Answer::Resume } else { Answer::New };
        self.greet(lane, answer);
    }

    /// The answering end got a hello for this session on a new transport, which replaces the lane's earlier one.
    ///
    /// # Errors
    /// [`Refused`] with the answer to send.
    pub fn accept_lane(&mut self, hello: &Hello, now: Instant) -> Result<usize, Refused> {
        let refuse = |answer| Err(Refused(hello.refuse(answer, "no such session", &self.config).into()));
        let lane = usize::try_from(hello.lane).unwrap_or(usize::MAX);
        let known = match hello.answer {
            // Once more if the answer was lost: then the peer has processed nothing, and the session is as new to it as before.
            Answer::New => self.lanes.iter().all(|lane| lane.acked == 0 && lane.received == 0),
            Answer::Resume => self.agreed.is_some(),
            _ => false,
        };
        if self.ended.is_some() || self.connects || hello.session != self.id || !known {
            return refuse(Answer::Unknown);
        }
        if self.agreed.is_none() {
            let lanes = hello.lanes.clamp(1, self.config.lanes.clamp(1, MAX_LANES) as u64);
            self.lanes = (0..lanes).map(|_| Lane::new(now)).collect();
        }
        if lane >= self.lanes.len() {
            return refuse(Answer::Unknown);
        }
        // A hello is heard before the answer is written, which says what was processed.
        if self.lanes[lane].state != LaneState::Down {
            self.lanes[lane].stop(now);
        }
        self.lanes[lane].start(LaneState::Up, now);
        self.greet(lane, Answer::Welcome);
        self.heard_hello(lane, hello, now);
        match &self.ended {
            Some(_) => Err(Refused(hello.refuse(Answer::Unknown, "the session is over", &self.config).into())),
            None => Ok(lane),
        }
    }

    /// A lane's transport is gone.
    pub fn detach(&mut self, lane: usize, now: Instant) {
        let Some(lane) = self.lanes.get_mut(lane) else { return };
        lane.stop(now);
    }

    pub(super) fn greet(&mut self, lane: usize, answer: Answer) {
        let hello = Hello {
            oldest: *VERSIONS.start(),
            newest: *VERSIONS.end(),
            session: self.id,
            answer,
            lane: lane as u64,
            lanes: self.lanes.len() as u64,
            send_log: self.log_limit,
            receive_log: self.log_limit,
            early_credit: EARLY_CREDIT,
            max_flows: self.config.max_flows,
            received: self.lanes[lane].received,
            log: self.incoming.state(),
            agent: self.config.agent.clone(),
            reason: String::new(),
        };
        hello.write(&mut self.lanes[lane].urgent);
        self.wake(lane);
    }

    /// Both ends: the peer's hello on a lane.
    pub(super) fn heard_hello(&mut self, lane: usize, hello: &Hello, now: Instant) {
        let first = self.agreed.is_none();
        if first && !self.agree(hello) {
            return;
        }
        if first {
            // Lanes begin to wait for transports now: nobody dialled for the others before it was known how many there are.
            self.lanes.iter_mut().for_each(|lane| lane.down_since = Some(now));
        }
        if let Some(agreed) = &mut self.agreed {
            agreed.peer_limit = hello.receive_log.max(SMALLEST_LOG);
        }
        let Some(done) = self.lanes[lane].acknowledged(hello.received) else {
            return self.end(Ended::StateMismatch);
        };
        self.acknowledge_items(done);
        let log = self.outgoing.epoch().log;
        if first {
            if self.outgoing.resume_at(hello.log) {
                self.counters.warm_starts += 1;
                self.lanes.iter_mut().for_each(|lane| lane.begin_log(log, false));
            } else {
                self.outgoing.forget();
            }
            self.events.push_back(Event::Established);
        } else if log == 0 {
            // Nothing was sent yet.
        } else if self.lanes[lane].log != log {
            // A log was begun for the sake of another lane since this one was greeted: what is queued here is encoded anew, too.
            self.lanes[lane].begin_log(log, true);
        } else if hello.log.epoch != self.outgoing.epoch()
            && !self.lanes[lane].items.iter().any(|item| matches!(item, Item::Epoch))
        {
            // It had this log, or the beginning would still be queued here, and has lost it. All lanes need a new hello: before it, nobody
            // knows what of them was processed.
            self.begin_again(lane);
            for other in (0..self.lanes.len()).filter(|&other| other != lane) {
                if matches!(self.lanes[other].state, LaneState::Up | LaneState::Greeting(_)) {
                    self.drop_lane(other, close::LOG_LOST, "the log begins anew");
                }
            }
        }
        self.outgoing.reset_context(lane);
        let state = &mut self.lanes[lane];
        state.state = LaneState::Up;
        state.down_since = None;
        state.heard = now;
        self.counters.transports += 1;
        self.counters.resumes += u64::from(!first && self.lanes[lane].was_used());
        self.ping(lane, now);
        self.wake(lane);
    }

    /// Takes the peer's wishes of its first hello.
    pub(super) fn agree(&mut self, hello: &Hello) -> bool {
        let violation = |what, value, limit| Violation::Bounds { what, value, limit };
        let least = hello.send_log.min(hello.receive_log);
        if least < SMALLEST_LOG {
            self.violation(violation("a log too small", least, SMALLEST_LOG));
            return false;
        }
        let lanes = usize::try_from(hello.lanes).unwrap_or(usize::MAX).clamp(1, self.lanes.len());
        self.lanes.truncate(lanes);
        self.agreed = Some(Agreed {
            lanes,
            max_flows: hello.max_flows.clamp(1, self.config.max_flows.max(1)),
            early_credit: hello.early_credit.min(SEND_QUEUE as u64),
            peer_limit: hello.receive_log,
            peer_send_log: hello.send_log,
        });
        self.incoming.set_limit(self.told_limit);
        if self.outgoing.capacity() > self.next_log() {
            self.outgoing.forget();
        }
        self.peer_agent.clone_from(&hello.agent);
        true
    }

    /// Begins an empty log for what is sent; nothing is on its way.
    pub(super) fn begin_log(&mut self) {
        if let Some(log) = self.new_log() {
            for lane in 0..self.lanes.len() {
                self.lanes[lane].begin_log(log, false);
                self.wake(lane);
            }
        }
    }

    /// Begins an empty log after the peer has lost the one before, and encodes what it had not acknowledged anew: on this lane, whose
    /// state is known, now, and on the others when they have been greeted.
    pub(super) fn begin_again(&mut self, lane: usize) {
        if let Some(log) = self.new_log() {
            self.lanes[lane].begin_log(log, true);
        }
    }

    pub(super) fn new_log(&mut self) -> Option<u64> {
        self.agreed?;
        let size = self.next_log();
        let log = self.random();
        let [.., low, high] = self.config.random;
        let key = fingerprint_key([low, high], log);
        if let Err(error) = self.outgoing.begin(log, key, size) {
            self.end(error.into());
            return None;
        }
        self.counters.epochs += 1;
        Some(log)
    }
}

/// What a log's fingerprints are keyed with: SipHash-2-4 of the log's name. Whoever knows the names that this end gives, or has found out the keys of other
/// logs, must not know this one.
fn fingerprint_key([low, high]: [u64; 2], log: u64) -> u64 {
    SipHasher24::new_with_keys(low, high).hash(&log.to_le_bytes())
}

#[cfg(test)]
mod tests {
    #[test]
    fn fingerprints_are_keyed_by_siphash() {
        // The vector for 8 bytes of the paper's authors.
        let secret = [0x0706_0504_0302_0100, 0x0f0e_0d0c_0b0a_0908];
        assert_eq!(super::fingerprint_key(secret, 0x0706_0504_0302_0100), 0x93f5_f579_9a93_2462);
    }
}
