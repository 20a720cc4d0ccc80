//! Transports come and go, and the handshake that each begins with.

use super::*;
use siphasher::sip::SipHasher24;

impl Session {
    /// The client has a new transport for a lane. [`Session::transmit`] returns its HELLO.
    ///
    /// Lane 0 comes first; the others after [`Event::Established`], when [`Session::lanes`] says
    /// how many there are. The call is ignored otherwise, and at a server or once the session has
    /// ended.
    pub fn attach(&mut self, lane: usize, now: Instant) {
        let lanes = self.agreed.as_ref().map_or(1, |agreed| agreed.lanes);
        if self.ended.is_some() || lane >= lanes || !self.is_client {
            return;
        }
        self.lanes[lane].handshaking(now);
        let answer = if self.agreed.is_some() { Answer::Resume } else { Answer::New };
        self.send_hello(lane, answer);
    }

    /// The server got a HELLO of this session on a new transport, which replaces any earlier one of
    /// that lane. Returns the lane.
    ///
    /// # Errors
    /// [`Refused`] with the answer to send.
    pub fn accept_lane(&mut self, hello: &Hello, now: Instant) -> Result<usize, Refused> {
        let refuse =
            |answer| Err(Refused(hello.refuse(answer, "no such session", &self.config).into()));
        let lane = usize::try_from(hello.lane).unwrap_or(usize::MAX);
        let known = match hello.answer {
            // New comes again if the answer was lost. Then the peer has processed nothing, and to
            // it the session is still new.
            Answer::New => self.lanes.iter().all(Lane::is_fresh),
            Answer::Resume => self.agreed.is_some(),
            _ => false,
        };
        if self.ended.is_some() || self.is_client || hello.session != self.id || !known {
            return refuse(Answer::Unknown);
        }
        if self.agreed.is_none() {
            let lanes = hello.lanes.clamp(1, self.config.lanes as u64);
            self.lanes = Lanes::new(lanes as usize, &self.config, now);
        }
        if lane >= self.lanes.len() {
            return refuse(Answer::Unknown);
        }
        self.lanes[lane].accepted(now);
        self.send_hello(lane, Answer::Welcome);
        self.received_hello(lane, hello, now);
        match &self.ended {
            Some(_) => Err(Refused(
                hello.refuse(Answer::Unknown, "the session is over", &self.config).into(),
            )),
            None => Ok(lane),
        }
    }

    /// A lane's transport is gone. The client dials again, unless the session has ended.
    pub fn detach(&mut self, lane: usize, now: Instant) {
        let Some(lane) = self.lanes.get_mut(lane) else { return };
        lane.stopped(now);
        self.reports.postpone();
    }

    pub(super) fn send_hello(&mut self, lane: usize, answer: Answer) {
        if self.lanes[lane].is_decoding() {
            // The block is of the transport before, and HELLO says whether it was processed.
            return self.lanes[lane].delay_hello(answer);
        }
        // Where a log can go on matters before anything was processed.
        let is_first = answer == Answer::New
            || (answer == Answer::Welcome && self.lanes.iter().all(Lane::is_fresh));
        let (places, held_from) =
            if is_first { self.incoming.places() } else { Default::default() };
        let hello = Hello {
            oldest: *VERSIONS.start(),
            newest: *VERSIONS.end(),
            session: self.id,
            answer,
            lane: lane as u64,
            lanes: self.lanes.len() as u64,
            send_log: self.log_limit.get(),
            receive_log: self.log_limit.get(),
            early_credit: EARLY_CREDIT,
            max_flows: self.config.max_flows,
            contexts: self.incoming.contexts() as u64,
            sharing: self.config.encoder.shares(),
            received: self.lanes[lane].processed(),
            log: self.incoming.state(),
            places,
            held_from,
            stored: self.stored(),
            goes_on: self.incoming.has_store(),
            agent: self.config.agent.clone(),
            reason: String::new(),
        };
        self.lanes[lane].push_hello(&hello);
        self.wake(lane);
    }

    /// Either end has the peer's HELLO on a lane.
    pub(super) fn received_hello(&mut self, lane: usize, hello: &Hello, now: Instant) {
        let first = self.agreed.is_none();
        if first && !self.agree(hello) {
            return;
        }
        if first {
            // Only now it is known how many lanes there are, so the client dials the others from
            // now on.
            self.lanes.iter_mut().for_each(|lane| lane.expect_transport(now));
        }
        if let Some(agreed) = &mut self.agreed {
            agreed.peer_limit = hello.receive_log.max(SMALLEST_LOG);
        }
        self.outgoing.set_peer_stored(hello.stored);
        self.outgoing.set_peer_goes_on(hello.goes_on);
        let Some(done) = self.lanes[lane].acknowledge(hello.received) else {
            return self.end(Ended::StateMismatch);
        };
        // What an earlier transport was to bring tells nothing of this one.
        if let Some(recall) = &mut self.outgoing.recall {
            recall.choice.forget_blocks();
        }
        self.acknowledged(done, now);
        let log = self.outgoing.epoch().log;
        if first {
            let size = self.next_log();
            match self.outgoing.resume_at(hello.log, &hello.places, hello.held_from, size) {
                Ok(true) => {
                    let log = self.outgoing.epoch().log;
                    self.counters.warm_starts += 1;
                    self.lanes.iter_mut().for_each(|lane| lane.begin_log(log, false));
                }
                Ok(false) => self.outgoing.discard(),
                Err(error) => return self.end(error.into()),
            }
            self.events.push_back(Event::Established);
        } else if log == 0 {
            // No log was begun yet, or it rests.
            self.outgoing.check_resting(hello.log.epoch);
        } else if self.lanes[lane].log() != log {
            // Another lane made the encoder begin a log since this lane's last handshake: what is
            // queued here is encoded into it.
            self.lanes[lane].begin_log(log, true);
        } else if hello.log.epoch != self.outgoing.epoch()
            && !self.lanes[lane].has_epoch_in_flight()
        {
            // The peer had this log, or its EPOCH would still be unacknowledged here, and has lost
            // it. The other lanes need a new handshake, because only that says what of them was
            // processed.
            self.begin_again(lane);
            for other in (0..self.lanes.len()).filter(|&other| other != lane) {
                self.drop_lane(other, close::LOG_LOST, "the log begins again");
            }
        }
        self.outgoing.reset_contexts(lane);
        let resumes = self.lanes[lane].established(now);
        self.counters.transports += 1;
        self.counters.resumes += u64::from(!first && resumes);
        self.ping(lane, now);
        self.wake(lane);
        self.note_unwritten();
    }

    /// Computes the agreed values from the peer's first HELLO. Returns `false` if that is a
    /// violation.
    fn agree(&mut self, hello: &Hello) -> bool {
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
            max_flows: hello.max_flows.clamp(1, self.config.max_flows),
            early_credit: hello.early_credit.min(SEND_QUEUE as u64),
            peer_limit: hello.receive_log,
            peer_send_log: hello.send_log,
            agent: hello.agent.clone(),
            sharing: hello.sharing,
            is_going_away: false,
        });
        let contexts = usize::try_from(hello.contexts).unwrap_or(usize::MAX);
        self.outgoing.limit_contexts(contexts.min(self.config.contexts));
        self.incoming.set_limit(self.log_limit.largest());
        self.outgoing.set_peer_goes_on(hello.goes_on);
        if self.outgoing.capacity() > self.next_log() {
            self.outgoing.release();
        }
        true
    }

    /// Begins an empty log while nothing of the one before is in flight, or goes on with that, if
    /// both ends store it.
    pub(super) fn begin_log(&mut self) {
        if self.agreed.is_none() {
            return;
        }
        let size = self.next_log();
        let log = match self.outgoing.go_on(size) {
            Ok(true) => {
                self.counters.epochs += 1;
                // What was found in memory is to be looked for on disk.
                for flow in self.flows.values_mut() {
                    flow.examined.look_again();
                }
                Some(self.outgoing.epoch().log)
            }
            Ok(false) => self.new_log(),
            Err(error) => return self.end(error.into()),
        };
        if let Some(log) = log {
            for lane in 0..self.lanes.len() {
                self.lanes[lane].begin_log(log, false);
                self.wake(lane);
            }
        }
    }

    /// Begins an empty log after the peer has lost the one before. Blocks that were not
    /// acknowledged are encoded again: on this lane now, on the others after their next handshake.
    fn begin_again(&mut self, lane: usize) {
        if let Some(log) = self.new_log() {
            self.lanes[lane].begin_log(log, true);
        }
    }

    fn new_log(&mut self) -> Option<u64> {
        self.agreed.as_ref()?;
        let size = self.next_log();
        let log = self.random.next();
        let [.., low, high] = self.config.random;
        let key = fingerprint_key([low, high], log);
        self.lanes.iter_mut().for_each(Lane::give_up_writing);
        if let Err(error) = self.outgoing.begin(log, key, size) {
            self.end(error.into());
            return None;
        }
        self.forget_recalls();
        self.counters.epochs += 1;
        Some(log)
    }
}

/// The key of a log's fingerprints: SipHash-2-4 of the log's id under the session's secret. Neither
/// the ids nor the keys of other logs reveal it.
fn fingerprint_key([low, high]: [u64; 2], log: u64) -> u64 {
    SipHasher24::new_with_keys(low, high).hash(&log.to_le_bytes())
}

#[cfg(test)]
mod tests {
    #[test]
    fn fingerprint_keys_are_siphash() {
        // The test vector for 8 bytes from the authors of the paper.
        let secret = [0x0706_0504_0302_0100, 0x0f0e_0d0c_0b0a_0908];
        assert_eq!(super::fingerprint_key(secret, 0x0706_0504_0302_0100), 0x93f5_f579_9a93_2462);
    }
}
