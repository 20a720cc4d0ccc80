//! Splits received bytes into messages and carries them out.

use super::*;

impl Session {
    /// Processes bytes that came from a lane's transport.
    pub fn receive(&mut self, lane: usize, bytes: &[u8], now: Instant) {
        if self.ended.is_some() || lane >= self.lanes.len() {
            return;
        }
        self.counters.wire_received_bytes += bytes.len() as u64;
        if !self.lanes[lane].received(bytes.len(), now) {
            return;
        }
        // Frames within a span, which encoding may enlarge a little; and on every lane, what is not
        // a frame.
        let span = self.incoming.span();
        let limit = span + span / 8 + INPUT_SLACK * self.lanes.len() as u64;
        let value = self.lanes.iter().map(|lane| lane.unprocessed() as u64).sum::<u64>()
            + bytes.len() as u64;
        if value > limit {
            return self.violation(Violation::Bounds { what: "undecoded bytes", value, limit });
        }
        if self.lanes[lane].unprocessed() == 0 {
            // The usual case: all of it can be processed, without a copy.
            let used = self.process(lane, bytes, now);
            if let Some(lane) = self.lanes.get_mut(lane) {
                lane.keep(&bytes[used..]);
            }
        } else {
            self.lanes[lane].keep(bytes);
            if self.lanes[lane].may_process() {
                self.process_input(lane, now);
            }
        }
        self.process_waiting(now);
        // Every lane has a transport and waits for another one: the content can arrive on none.
        if self.ended.is_none() && self.lanes.iter().all(Lane::is_waiting) {
            self.frame_failed(lane, &IncomingError::Deadlock);
        }
        self.note_memory();
    }

    /// Continues lanes that waited for blocks received meanwhile.
    fn process_waiting(&mut self, now: Instant) {
        let mut progress = true;
        while progress {
            progress = false;
            for lane in 0..self.lanes.len() {
                if self.lanes[lane].may_continue(self.counters.received_blocks) {
                    let before = self.lanes[lane].processed();
                    self.process_input(lane, now);
                    // Its blocks may unblock a lane that was tried before.
                    progress |= self.lanes[lane].processed() != before;
                }
            }
        }
    }

    fn process_input(&mut self, lane: usize, now: Instant) {
        let input = self.lanes[lane].take_input();
        let used = self.process(lane, input.bytes(), now);
        self.lanes[lane].put_back(input, used);
    }

    /// Processes the messages at the front of `input`. Returns how many bytes they took.
    fn process(&mut self, lane: usize, input: &[u8], now: Instant) -> usize {
        let mut rest = input;
        self.lanes[lane].processing();
        while !rest.is_empty() && self.ended.is_none() && self.lanes[lane].has_transport() {
            let mut after = rest;
            match Message::take(&mut after) {
                Ok(Some(message)) => match self.handle(lane, message, after, now) {
                    Some(frame) => rest = &after[frame..],
                    None => break,
                },
                Ok(None) => break,
                Err(error) => {
                    self.violation(error.into());
                    break;
                }
            }
        }
        input.len() - rest.len()
    }

    /// Carries out a message. `after` follows it. Returns how many bytes of that belong to it, or
    /// `None` if it cannot be processed now.
    fn handle(
        &mut self,
        lane: usize,
        message: Message<'_>,
        after: &[u8],
        now: Instant,
    ) -> Option<usize> {
        if self.lanes[lane].is_handshaking() {
            let Message::Hello(body) = message else {
                self.violation(Violation::Unexpected("message before a hello"));
                return None;
            };
            self.handle_answer(lane, body, now);
            return Some(0);
        }
        let mut frame = 0;
        let counted = match message {
            Message::Data(flow) => {
                frame = self.handle_data(lane, flow, after)?;
                true
            }
            Message::Open(flow, target, client, name) => {
                let owner = Owner { client: client.into(), name: name.into() };
                self.handle_open(lane, flow, target, owner, now);
                true
            }
            Message::Opened(flow) => {
                if let Some(state) =
                    self.flows.get_mut(&flow).filter(|flow| flow.pending.reset.is_none())
                    && std::mem::take(&mut state.unanswered)
                {
                    self.events.push_back(Event::Accepted(flow));
                }
                true
            }
            Message::Fin(id) => {
                // The application gets no more events of a flow that it reset or that was refused.
                if let Some(flow) =
                    self.flows.get_mut(&id).filter(|flow| flow.pending.reset.is_none())
                {
                    flow.receive.finished = true;
                    if !std::mem::replace(&mut flow.receive.notified, true) {
                        self.events.push_back(Event::Readable(id));
                    }
                    self.tidy(id);
                }
                true
            }
            Message::Reset(flow, code) => {
                if let Some(state) = self.flows.get(&flow) {
                    // If both ends reset it at once, neither gets an event for the other's RESET.
                    if state.pending.reset.is_none() {
                        self.counters.flows_reset += 1;
                        self.events.push_back(Event::Reset(flow, ResetCode::from_code(code)));
                    }
                    self.remove(flow);
                }
                true
            }
            Message::Credit(id, limit) => {
                if let Some(flow) = self.flows.get_mut(&id) {
                    flow.credit = flow.credit.max(limit);
                    self.ready(id);
                }
                true
            }
            Message::Epoch(epoch, keep, capacity) => {
                if (epoch != self.incoming.epoch() || epoch == Epoch::NONE)
                    && let Err(error) = self.incoming.begin(epoch, keep, capacity)
                {
                    self.violation(Violation::Epoch(error.to_string()));
                    return None;
                }
                if self.incoming.capacity() > self.log_limit {
                    // LIMITs on two lanes can overtake each other: the peer may hold an old one.
                    self.limit_unsent = true;
                    self.wake(lane);
                }
                self.start_limit_timer(now);
                true
            }
            Message::Limit(size) => {
                if let Some(agreed) = &mut self.agreed {
                    let to = size.max(SMALLEST_LOG);
                    let from = std::mem::replace(&mut agreed.peer_limit, to);
                    if to < from {
                        self.events.push_back(Event::Limited { from, to });
                    }
                }
                self.wake(lane);
                true
            }
            Message::GoAway => {
                if !std::mem::replace(&mut self.peer_going_away, true) {
                    self.events.push_back(Event::GoingAway);
                }
                true
            }
            Message::Hello(_) => {
                self.violation(Violation::Unexpected("second hello"));
                return None;
            }
            Message::Ack(count) => {
                match self.lanes[lane].acknowledge(count) {
                    Some(done) => self.acknowledged(done),
                    None => {
                        let limit = self.lanes[lane].written();
                        self.violation(Violation::Bounds {
                            what: "acknowledged messages",
                            value: count,
                            limit,
                        });
                        return None;
                    }
                }
                false
            }
            Message::Ping(nonce) => {
                if self.lanes[lane].answer_ping(nonce) {
                    self.wake(lane);
                }
                false
            }
            Message::Pong(nonce) => {
                if let Some(sample) = self.lanes[lane].pong(nonce, now) {
                    // Smoothed as in RFC 6298.
                    self.rtt = Some(self.rtt.map_or(sample, |rtt| (rtt * 7 + sample) / 8));
                }
                false
            }
            Message::Close(code, text) => {
                let text: String =
                    String::from_utf8_lossy(text).chars().filter(|c| !c.is_control()).collect();
                match code {
                    close::FRAME_FAILED | close::LOG_LOST => {
                        self.lanes[lane].abandon();
                        self.events.push_back(Event::Drop(lane));
                    }
                    close::DONE => {
                        self.keep_undelivered();
                        self.end(Ended::Closed);
                    }
                    _ => self.end(Ended::Accused(text)),
                }
                return None;
            }
            Message::Pad(_) => false,
            Message::Report(body) => {
                match Counters::read(body) {
                    Some(counters) => self.reports.received(counters, now),
                    None => {
                        self.violation(Violation::Unexpected("report that is no list of numbers"))
                    }
                }
                false
            }
        };
        if counted {
            let span = self.incoming.span();
            if self.lanes[lane].processed_one(ACK_BYTES.min(span / 8), now) {
                self.wake(lane);
            }
        }
        Some(frame)
    }

    /// The client got the answer to its HELLO.
    fn handle_answer(&mut self, lane: usize, body: &[u8], now: Instant) {
        let hello = match Hello::parse(body) {
            Ok(hello) => hello,
            Err(error) => return self.violation(error.into()),
        };
        match hello.answer {
            Answer::Welcome if hello.session == self.id && hello.lane == lane as u64 => {
                self.received_hello(lane, &hello, now)
            }
            Answer::Unknown => self.end(Ended::Unknown),
            Answer::Busy => self.end(Ended::Busy { reason: hello.reason }),
            Answer::Version => {
                let error = HelloError::Version { oldest: hello.oldest, newest: hello.newest };
                self.violation(error.into());
            }
            _ => self.violation(Violation::Unexpected("answer to a hello")),
        }
    }

    fn handle_data(&mut self, lane: usize, id: FlowId, input: &[u8]) -> Option<usize> {
        match self.incoming.decode(lane, input) {
            Ok(Frame::NeedMore(more)) => {
                self.lanes[lane].needs_more(more);
                None
            }
            Ok(Frame::Waiting) => {
                self.lanes[lane].wait(self.counters.received_blocks);
                self.counters.lane_waits += 1;
                None
            }
            Ok(Frame::Block(content, consumed)) => {
                self.counters.received_blocks += 1;
                self.lanes[lane].decoded(content.len());
                // If this end has reset the flow meanwhile, its content enters the log and goes no
                // further.
                if let Some(flow) =
                    self.flows.get_mut(&id).filter(|flow| flow.pending.reset.is_none())
                {
                    flow.is_turn = true;
                    let receive = &mut flow.receive;
                    let received = receive.received + content.len() as u64;
                    if received > receive.granted || receive.finished {
                        let limit =
                            if receive.finished { receive.received } else { receive.granted };
                        self.violation(Violation::Bounds {
                            what: "bytes of a flow",
                            value: received,
                            limit,
                        });
                        return None;
                    }
                    receive.received = received;
                    if !content.is_empty() {
                        receive.push(content);
                        if !std::mem::replace(&mut receive.notified, true) {
                            self.events.push_back(Event::Readable(id));
                        }
                    }
                }
                Some(consumed)
            }
            Err(error) => {
                self.frame_failed(lane, &error);
                None
            }
        }
    }

    /// A frame failed: gives up the lane's transport. On the next one the peer sends the block
    /// literally. If that fails as well, this end drops the log.
    fn frame_failed(&mut self, lane: usize, error: &IncomingError) {
        self.counters.failures += 1;
        if self.counters.received_blocks > self.failures.1 + FORGIVEN {
            self.failures.0 = 0;
        }
        self.failures = (self.failures.0 + 1, self.counters.received_blocks);
        if self.failures.0 > MAX_FAILURES {
            return self.end(Ended::TooManyFailures(self.failures.0));
        }
        let again = self.lanes[lane].failed();
        if again || matches!(error, IncomingError::NoLog) {
            self.incoming.discard();
            for lane in 0..self.lanes.len() {
                self.drop_lane(lane, close::LOG_LOST, &error.to_string());
            }
        } else {
            self.drop_lane(lane, close::FRAME_FAILED, &error.to_string());
        }
    }

    /// Gives up a lane's transport with CLOSE, if there is one.
    pub(super) fn drop_lane(&mut self, lane: usize, code: u64, text: &str) {
        if self.lanes[lane].close(code, text) {
            self.events.push_back(Event::Drop(lane));
        }
    }

    fn handle_open(&mut self, lane: usize, id: FlowId, target: &[u8], owner: Owner, now: Instant) {
        let ours = id.0.is_multiple_of(2) == self.is_client;
        if ours || self.flows.contains_key(&id) {
            return self.violation(Violation::Unexpected("name of a new flow"));
        }
        let Some(agreed) = self.agreed else { return };
        // Flows that the peer has closed may still be read here, up to this end's own limit; and on
        // each lane, OPENs may be ahead of RESETs on another lane. None of that is a violation.
        let limit = self.config.max_flows + (self.lanes.len() as u64 + 1) * agreed.max_flows;
        if self.flows.len() as u64 >= limit {
            return self.violation(Violation::Bounds {
                what: "open flows",
                value: limit + 1,
                limit,
            });
        }
        let stream = self.outgoing.stream(&owner);
        let mut flow = Flow::new(lane, stream, None, agreed.early_credit, now);
        let busy = self.going_away
            || self.flows.len() as u64 >= self.config.max_flows
            || !self.config.early.acquire_exactly(EARLY_CREDIT);
        if busy {
            flow.receive.window = 0;
            flow.pending.reset = Some(ResetCode::Busy);
            self.counters.flows_refused += 1;
        }
        self.flows.insert(id, flow);
        self.lanes[lane].add_flow();
        if busy {
            self.queue_control(id);
        } else {
            self.counters.flows_accepted += 1;
            self.events.push_back(Event::Opened { flow: id, target: target.to_vec(), owner });
        }
    }

    /// The peer has processed messages of a lane.
    pub(super) fn acknowledged(&mut self, messages: Vec<Counted>) {
        for message in messages {
            if let Counted::Block(_, id) = message {
                self.outgoing.acknowledge(id);
            }
        }
        // The span has moved, so any lane may be able to send.
        for lane in 0..self.lanes.len() {
            if self.lanes[lane].has_unsent() || self.wants_resize() {
                self.wake(lane);
            }
        }
    }
}
