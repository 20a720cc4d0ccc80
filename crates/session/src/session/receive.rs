//! Splits received bytes into messages and carries them out.

use super::*;

impl Session {
    /// Takes bytes that came from a lane's transport. Their messages are carried out by
    /// [`Session::next_decode`]: call that next, with the same lock.
    ///
    /// Leaves `bytes` empty, with the capacity of another buffer, which may be larger.
    pub fn take_in(&mut self, lane: usize, bytes: &mut Vec<u8>, now: Instant) {
        if self.admits(lane, bytes.len(), now) {
            self.lanes[lane].keep_all(bytes);
        }
        bytes.clear();
    }

    /// [`Session::take_in`], and [`Session::next_decode`] with its jobs, in one call, for a driver
    /// that has no lock: processes bytes that came from a lane's transport.
    pub fn receive(&mut self, lane: usize, bytes: &[u8], now: Instant) {
        if self.admits(lane, bytes.len(), now) {
            self.lanes[lane].keep(bytes);
        }
        while let Some(mut job) = self.next_decode(now) {
            job.run();
            self.decoded(job, now);
        }
    }

    /// Whether `len` bytes that came from a lane's transport are to be kept.
    fn admits(&mut self, lane: usize, len: usize, now: Instant) -> bool {
        if self.ended.is_some() || lane >= self.lanes.len() {
            return false;
        }
        self.counters.wire_received_bytes += len as u64;
        if !self.lanes[lane].received(len, now) {
            return false;
        }
        // Frames within a span, which encoding may enlarge a little; and on every lane, what is not
        // a frame.
        let span = self.incoming.span();
        let limit = span + span / 8 + INPUT_SLACK * self.lanes.len() as u64;
        let value = self.lanes.unprocessed() + len as u64;
        if value > limit {
            self.violation(Violation::Bounds { what: "undecoded bytes", value, limit });
        }
        value <= limit
    }

    /// Carries out messages that came, of all lanes, until a block is to be decoded: then it returns
    /// the job. Run it without a lock on the session, give it back to [`Session::decoded`], and call
    /// this again. When it returns none, nothing can be processed until more comes, or whoever has a
    /// job gives it back.
    pub fn next_decode(&mut self, now: Instant) -> Option<DecodeJob> {
        while self.ended.is_none() {
            let Some(lane) = self.lanes.next_ready() else { break };
            if let Some(job) = self.process(lane, now) {
                return Some(job);
            }
        }
        // Every lane has a transport and waits for another one: the content can arrive on none.
        if self.ended.is_none() && !self.incoming.is_lent() && self.lanes.is_deadlocked() {
            self.frame_failed(0, &IncomingError::Deadlock);
        }
        self.note_memory();
        None
    }

    /// Takes back a job that was run, and delivers its block. A block counts even if the transport
    /// that it came on is gone: the log has it.
    pub fn decoded(&mut self, job: DecodeJob, now: Instant) {
        let DecodeJob { lane, transport, flow, log, decoder, mut input, from, at, outcome } = job;
        let block = match &outcome {
            Outcome::Block { offset, content, .. } => Some((*offset, content.len())),
            _ => None,
        };
        let back = self.incoming.take_back(log, decoder, block, None);
        self.lanes[lane].end_decoding();
        let is_current = |lane: &Lane| lane.transport() == transport && lane.has_transport();
        if self.ended.is_none() {
            let was_current = is_current(&self.lanes[lane]);
            let mut used = from;
            match (outcome, back) {
                (Outcome::Block { content, consumed, .. }, Ok(true)) => {
                    used = at + consumed;
                    if let Some(meter) = self.flows.get(&flow).and_then(|flow| flow.meter.as_ref())
                    {
                        meter.received(content.len() as u64, (used - from) as u64);
                    }
                    self.deliver(lane, flow, content, now);
                }
                // The log was dropped, and the peer sends this again.
                (Outcome::Block { .. }, Ok(false)) => {}
                (Outcome::Block { .. }, Err(error)) | (Outcome::Failed(error), _) => {
                    if was_current {
                        self.frame_failed(lane, &error);
                    } else {
                        self.counters.failures += 1;
                    }
                }
                // What the next transport brings waits for nothing.
                _ if !was_current => {}
                (Outcome::NeedMore(more), _) => self.lanes[lane].needs_more(more),
                (Outcome::Waiting, _) => {
                    self.lanes[lane].wait(self.counters.received_blocks);
                    self.counters.lane_waits += 1;
                }
            }
            if is_current(&self.lanes[lane]) {
                input.pop(used);
                self.lanes[lane].put_back(input);
            }
            self.lanes.iter_mut().for_each(|lane| lane.retry(self.counters.received_blocks));
            if let Some(answer) = self.lanes[lane].take_hello_due() {
                self.send_hello(lane, answer);
            }
        }
        self.note_memory();
    }

    /// A job was lost, with the decoder: the log is dropped, and the peer begins another.
    pub fn decoder_lost(&mut self) {
        self.incoming.settle();
        if self.ended.is_some() {
            return;
        }
        for lane in 0..self.lanes.len() {
            if self.lanes[lane].end_decoding() {
                if let Some(answer) = self.lanes[lane].take_hello_due() {
                    self.send_hello(lane, answer);
                }
                self.frame_failed(lane, &IncomingError::NoLog);
            }
        }
    }

    /// Processes the messages at the front of a lane's input, up to a frame that is to be decoded.
    fn process(&mut self, lane: usize, now: Instant) -> Option<DecodeJob> {
        let mut input = self.lanes[lane].take_input();
        let mut used = 0;
        while used < input.len() && self.ended.is_none() && self.lanes[lane].has_transport() {
            let rest = &input.bytes()[used..];
            let mut after = rest;
            match Message::take(&mut after) {
                Ok(Some(message)) if self.must_wait(lane, &message) => {
                    self.lanes[lane].block();
                    break;
                }
                Ok(Some(Message::Data(flow))) if !self.lanes[lane].is_handshaking() => {
                    match self.lend_decoder(lane, after) {
                        Some((log, decoder)) => {
                            let transport = self.lanes[lane].transport();
                            let at = input.len() - after.len();
                            self.lanes[lane].begin_decoding(input.len());
                            return Some(DecodeJob {
                                lane,
                                transport,
                                flow,
                                log,
                                decoder,
                                input,
                                from: used,
                                at,
                                // Unless it is run, nothing is known of the frame.
                                outcome: Outcome::NeedMore(0),
                            });
                        }
                        None => break,
                    }
                }
                Ok(Some(message)) => match self.handle(lane, message, now) {
                    true => used = input.len() - after.len(),
                    false => break,
                },
                Ok(None) => break,
                Err(error) => {
                    self.violation(error.into());
                    break;
                }
            }
        }
        if self.lanes[lane].has_transport() {
            input.pop(used);
            self.lanes[lane].put_back(input);
        }
        None
    }

    /// Whether a message cannot be processed before the decoder is back.
    fn must_wait(&self, lane: usize, message: &Message<'_>) -> bool {
        self.incoming.is_lent()
            && !self.lanes[lane].is_handshaking()
            && matches!(message, Message::Data(_) | Message::Recall { .. } | Message::Epoch(..))
    }

    /// The decoder for the frame at the front of `input`, with the name of its log. `None` if the
    /// frame is not complete, or failed.
    fn lend_decoder(&mut self, lane: usize, input: &[u8]) -> Option<(u64, Box<Decoder>)> {
        let lent = match FrameView::scan(input, DEFAULT_BLOCK) {
            Ok(Scan::NeedMore(more)) => {
                self.lanes[lane].needs_more(more);
                return None;
            }
            Ok(Scan::Frame(frame)) => self.incoming.lend(lane, &frame),
            Err(error) => Err(error.into()),
        };
        lent.inspect_err(|error| self.frame_failed(lane, error)).ok()
    }

    /// A block of a flow is in the log.
    pub(super) fn deliver(&mut self, lane: usize, id: FlowId, content: Vec<u8>, now: Instant) {
        self.counters.received_blocks += 1;
        self.lanes[lane].decoded(content.len());
        // If this end has reset the flow meanwhile, its content enters the log and goes no further.
        if let Some(flow) = self.flows.get_mut(&id).filter(|flow| flow.pending.reset.is_none()) {
            flow.is_turn = true;
            let receive = &mut flow.receive;
            let received = receive.received + content.len() as u64;
            if received > receive.granted || receive.finished {
                let limit = if receive.finished { receive.received } else { receive.granted };
                return self.violation(Violation::Bounds {
                    what: "bytes of a flow",
                    value: received,
                    limit,
                });
            }
            receive.received = received;
            if !content.is_empty() {
                receive.push(content);
                if !std::mem::replace(&mut receive.notified, true) {
                    self.events.push_back(Event::Readable(id));
                }
            }
        }
        self.processed_one(lane, now);
    }

    /// A counted message was processed.
    fn processed_one(&mut self, lane: usize, now: Instant) {
        if self.lanes[lane].processed_one(self.incoming.span(), now) {
            self.wake(lane);
        }
    }

    /// Carries out a message that is not DATA of a lane that is up. Returns `false` if nothing behind
    /// it is to be processed.
    fn handle(&mut self, lane: usize, message: Message<'_>, now: Instant) -> bool {
        match self.lanes[lane].process(message, now) {
            Step::Nothing => {}
            Step::Wake => self.wake(lane),
            Step::Counted(message) => return self.handle_counted(lane, message, now),
            Step::Answer(body) => self.handle_answer(lane, body, now),
            Step::Acknowledged(done) => self.acknowledged(done, now),
            Step::RoundTrip(sample) => {
                // Smoothed as in RFC 6298.
                self.rtt = Some(self.rtt.map_or(sample, |rtt| (rtt * 7 + sample) / 8));
            }
            Step::Prepare(id, wants, from, len) => {
                let (since, bytes) = (now, None);
                let stretch = Prepared { id, wants, lane, fetch: 0, from, len, since, bytes };
                return self.handle_prepare(stretch);
            }
            Step::Prepared(id, took) => self.handle_prepared(id, took, now),
            Step::Report(counters) => self.reports.received(counters, now),
            Step::Dropped => {
                self.events.push_back(Event::Drop(lane));
                return false;
            }
            Step::Closed(error) => {
                match error {
                    None => {
                        self.keep_undelivered();
                        self.end(Ended::Closed);
                    }
                    Some(text) => self.end(Ended::Accused(text)),
                }
                return false;
            }
            Step::Violation(violation) => {
                self.violation(violation);
                return false;
            }
        }
        true
    }

    /// Carries out a counted message other than DATA: about flows, or about logs. Returns `false` if
    /// nothing behind it is to be processed.
    fn handle_counted(&mut self, lane: usize, message: Message<'_>, now: Instant) -> bool {
        match message {
            Message::Open(flow, target, client, name) => {
                let owner = Owner { client: client.into(), name: name.into() };
                self.handle_open(lane, flow, target, owner, now);
            }
            Message::Opened(flow) => self.handle_opened(flow),
            Message::Fin(flow) => self.handle_fin(flow, false),
            Message::Cut(flow) => self.handle_fin(flow, true),
            Message::Reset(flow, code) => self.handle_reset(flow, code),
            Message::Credit(id, limit) => {
                if let Some(flow) = self.flows.get_mut(&id) {
                    flow.credit = flow.credit.max(limit);
                    self.ready(id);
                }
            }
            Message::Epoch(epoch, keep, capacity) => {
                if let Err(violation) = self.handle_epoch(lane, epoch, keep, capacity, now) {
                    self.violation(violation);
                    return false;
                }
            }
            Message::Recall { flow, from, place, len } => {
                return self.handle_recall(lane, flow, from, place, len, now);
            }
            Message::Limit(size) => self.handle_limit(lane, size),
            Message::Gone(from, end) => self.outgoing.refuse(from..end),
            Message::GoAway => {
                if let Some(agreed) = &mut self.agreed
                    && !std::mem::replace(&mut agreed.is_going_away, true)
                {
                    self.events.push_back(Event::GoingAway);
                }
            }
            // DATA is decoded first, and the lane processes the others.
            _ => return false,
        }
        self.processed_one(lane, now);
        true
    }

    fn handle_opened(&mut self, id: FlowId) {
        if let Some(flow) = self.flows.get_mut(&id).filter(|flow| flow.pending.reset.is_none())
            && std::mem::take(&mut flow.unanswered)
        {
            self.events.push_back(Event::Accepted(id));
        }
    }

    fn handle_fin(&mut self, id: FlowId, cut: bool) {
        // The application gets no more events of a flow that it reset or that was refused.
        if let Some(flow) = self.flows.get_mut(&id).filter(|flow| flow.pending.reset.is_none()) {
            // Of several, the first counts.
            flow.receive.cut |= cut && !flow.receive.finished;
            flow.receive.finished = true;
            if !std::mem::replace(&mut flow.receive.notified, true) {
                self.events.push_back(Event::Readable(id));
            }
            self.tidy(id);
        }
    }

    fn handle_reset(&mut self, id: FlowId, code: u64) {
        if let Some(flow) = self.flows.get(&id) {
            // If both ends reset it at once, neither gets an event for the other's RESET.
            if flow.pending.reset.is_none() {
                self.counters.flows_reset += 1;
                self.events.push_back(Event::Reset(id, ResetCode::from_code(code)));
            }
            self.remove(id);
        }
    }

    fn handle_epoch(
        &mut self,
        lane: usize,
        epoch: Epoch,
        keep: Keep,
        capacity: u64,
        now: Instant,
    ) -> Result<(), Violation> {
        if epoch != self.incoming.epoch() || epoch == Epoch::NONE {
            let begun = self.incoming.begin(epoch, keep, capacity);
            begun.map_err(|error| Violation::Epoch(error.to_string()))?;
            self.preparing.clear();
        }
        if self.incoming.capacity() > self.log_limit.get() {
            // LIMITs on two lanes can overtake each other: the peer may hold an old one.
            self.log_limit.announce();
            self.wake(lane);
        }
        self.start_limit_timer(now);
        Ok(())
    }

    fn handle_limit(&mut self, lane: usize, size: u64) {
        if size == 0 {
            self.outgoing.begin_again();
        } else if let Some(agreed) = &mut self.agreed {
            let to = size.max(SMALLEST_LOG);
            let from = std::mem::replace(&mut agreed.peer_limit, to);
            if to < from {
                self.events.push_back(Event::Limited { from, to });
            }
        }
        self.wake(lane);
    }

    /// The client got the answer to its HELLO.
    fn handle_answer(&mut self, lane: usize, body: &[u8], now: Instant) {
        let hello = match Hello::parse(body) {
            Ok(hello) => hello,
            // The server has closed the transport, and another one would end the same.
            Err(HelloError::Version { oldest, newest }) => {
                return self.end(Ended::Version { oldest, newest });
            }
            Err(error) => return self.violation(error.into()),
        };
        match hello.answer {
            Answer::Welcome if hello.session == self.id && hello.lane == lane as u64 => {
                self.received_hello(lane, &hello, now)
            }
            Answer::Unknown => self.end(Ended::Unknown),
            Answer::Busy => self.end(Ended::Busy { reason: hello.reason }),
            Answer::Version => {
                self.end(Ended::Unreadable { agent: hello.agent, reason: hello.reason });
            }
            _ => self.violation(Violation::Unexpected("answer to a hello")),
        }
    }

    /// A frame failed: gives up the lane's transport. On the next one the peer sends the block
    /// literally. If that fails as well, this end drops the log.
    pub(super) fn frame_failed(&mut self, lane: usize, error: &IncomingError) {
        self.counters.failures += 1;
        let failures = self.failures.another(self.counters.received_blocks);
        if failures > MAX_FAILURES {
            return self.end(Ended::TooManyFailures(failures));
        }
        let again = self.lanes[lane].failed();
        if again || matches!(error, IncomingError::NoLog) {
            self.incoming.discard();
            self.drop_all(close::LOG_LOST, &error.to_string());
        } else {
            self.drop_lane(lane, close::FRAME_FAILED, &error.to_string());
        }
    }

    fn handle_open(&mut self, lane: usize, id: FlowId, target: &[u8], owner: Owner, now: Instant) {
        let ours = id.0.is_multiple_of(2) == self.is_client;
        if ours || self.flows.contains_key(&id) {
            return self.violation(Violation::Unexpected("name of a new flow"));
        }
        let Some(agreed) = &self.agreed else { return };
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
        // An OPEN after this end's GO_AWAY was on its way when the peer had not read that.
        let busy = self.flows.len() as u64 >= self.config.max_flows
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
    pub(super) fn acknowledged(&mut self, messages: Vec<Counted>, now: Instant) {
        for message in messages {
            if let Counted::Block(_, id) = message {
                self.outgoing.acknowledge(id);
            }
        }
        self.measure_link(now);
        // The span has moved, so any lane may be able to send.
        let resizes = self.wants_resize();
        self.wake_where(|lane| resizes || lane.has_unsent());
    }
}
