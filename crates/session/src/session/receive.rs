//! From bytes of a transport to messages, and what they do.

use super::*;

impl Session {
    /// Bytes from a lane's transport.
    pub fn receive(&mut self, lane: usize, bytes: &[u8], now: Instant) {
        if self.ended.is_some() || lane >= self.lanes.len() {
            return;
        }
        self.counters.wire_received_bytes += bytes.len() as u64;
        let state = &mut self.lanes[lane];
        if matches!(state.state, LaneState::Down | LaneState::Closing) {
            return;
        }
        state.heard = now;
        state.needs = state.needs.saturating_sub(bytes.len());
        // Frames within a span, and on every lane what is not a frame. Encoded content is a little larger than it is at the worst.
        let span = self.incoming.span();
        let limit = span + span / 8 + INPUT_SLACK * self.lanes.len() as u64;
        let value = self.lanes.iter().map(|lane| lane.input.len() as u64).sum::<u64>() + bytes.len() as u64;
        if value > limit {
            return self.violation(Violation::Bounds { what: "undecoded bytes", value, limit });
        }
        let state = &mut self.lanes[lane];
        if state.input.is_empty() {
            // Most often there is nothing to wait for, and nothing to keep.
            let used = self.digest(lane, bytes, now);
            if let Some(state) = self.lanes.get_mut(lane) {
                state.input.push(&bytes[used.min(bytes.len())..]);
            }
        } else {
            state.input.push(bytes);
            if state.needs == 0 && !state.waiting {
                self.digest_input(lane, now);
            }
        }
        self.digest_waiting(now);
        // Every lane has a transport and waits for another: what they wait for can come on none.
        if self.ended.is_none() && self.lanes.iter().all(|lane| lane.waiting) {
            self.frame_failed(lane, &IncomingError::NeverComes);
        }
        self.note_memory();
    }

    /// Other lanes may have waited for what has just come.
    pub(super) fn digest_waiting(&mut self, now: Instant) {
        let mut progress = true;
        while progress {
            progress = false;
            for lane in 0..self.lanes.len() {
                // Without news since it was looked at last it still waits.
                if self.lanes[lane].waiting && self.lanes[lane].waited_at != self.counters.received_blocks {
                    let before = self.lanes[lane].received;
                    self.digest_input(lane, now);
                    // What it brings may unblock one that was looked at before.
                    progress |= self.lanes[lane].received != before;
                }
            }
        }
    }

    pub(super) fn digest_input(&mut self, lane: usize, now: Instant) {
        let mut input = std::mem::take(&mut self.lanes[lane].input);
        let used = self.digest(lane, input.bytes(), now);
        let state = &mut self.lanes[lane];
        // The transport may have been given up meanwhile.
        if matches!(state.state, LaneState::Up | LaneState::Greeting(_)) {
            input.pop(used);
            state.input = input;
        }
    }

    /// Takes messages off the front of `input`; returns how many bytes they took.
    pub(super) fn digest(&mut self, lane: usize, input: &[u8], now: Instant) -> usize {
        let mut rest = input;
        self.lanes[lane].waiting = false;
        while !rest.is_empty() && self.ended.is_none() && !matches!(self.lanes[lane].state, LaneState::Down | LaneState::Closing)
        {
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

    /// Carries out a message. `after` follows it; returns how many bytes of that belong to it, or `None` if it must wait.
    pub(super) fn handle(&mut self, lane: usize, message: Message<'_>, after: &[u8], now: Instant) -> Option<usize> {
        if let LaneState::Greeting(_) = self.lanes[lane].state {
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
            Message::Open(flow, target) => {
                self.handle_open(lane, flow, target, now);
                true
            }
            Message::Opened(flow) => {
                if let Some(state) = self.flows.get_mut(&flow).filter(|flow| flow.due.reset.is_none())
                    && std::mem::take(&mut state.unanswered)
                {
                    self.events.push_back(Event::Accepted(flow));
                }
                true
            }
            Message::Fin(id) => {
                // Nothing more comes from a flow that was reset here.
                if let Some(flow) = self.flows.get_mut(&id).filter(|flow| flow.due.reset.is_none()) {
                    flow.receive.finished = true;
                    if !std::mem::replace(&mut flow.receive.told, true) {
                        self.events.push_back(Event::Readable(id));
                    }
                    self.tidy(id);
                }
                true
            }
            Message::Reset(flow, code) => {
                if let Some(state) = self.flows.get(&flow) {
                    // Both ends may reset it at once; then neither hears of the other's.
                    if state.due.reset.is_none() {
                        self.counters.flows_reset += 1;
                        self.events.push_back(Event::Reset(flow, ResetCode::from_code(code)));
                    }
                    self.remove(flow);
                }
                true
            }
            Message::Credit(id, limit) => {
                if let Some(flow) = self.flows.get_mut(&id) {
                    flow.allowed = flow.allowed.max(limit);
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
                    // The limits of two lanes can overtake each other.
                    self.tell_limit = true;
                    self.wake(lane);
                }
                self.watch_limit(now);
                true
            }
            Message::Limit(size) => {
                if let Some(agreed) = &mut self.agreed {
                    agreed.peer_limit = size.max(SMALLEST_LOG);
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
                match self.lanes[lane].acknowledged(count) {
                    Some(done) => self.acknowledge_items(done),
                    None => {
                        let limit = self.lanes[lane].written;
                        self.violation(Violation::Bounds { what: "acknowledged messages", value: count, limit });
                        return None;
                    }
                }
                false
            }
            Message::Ping(nonce) => {
                // A flood of pings is answered as far as the lane goes.
                if self.lanes[lane].urgent.len() < MAX_TEXT {
                    Message::Pong(nonce).write(&mut self.lanes[lane].urgent);
                    self.wake(lane);
                }
                false
            }
            Message::Pong(nonce) => {
                if let Some((_, since)) = self.lanes[lane].ping.take_if(|(expected, _)| *expected == nonce) {
                    let sample = now.saturating_duration_since(since);
                    // RFC 6298's smoothing.
                    self.rtt = Some(self.rtt.map_or(sample, |rtt| (rtt * 7 + sample) / 8));
                }
                false
            }
            Message::Close(code, text) => {
                let text: String = String::from_utf8_lossy(text).chars().filter(|c| !c.is_control()).collect();
                match code {
                    close::FRAME_FAILED | close::LOG_LOST => {
                        self.lanes[lane].state = LaneState::Closing;
                        self.events.push_back(Event::Drop(lane));
                    }
                    close::DONE => self.end(Ended::Closed),
                    _ => self.end(Ended::Accused(text)),
                }
                return None;
            }
            Message::AskReport => {
                self.report_due = true;
                self.wake(lane);
                false
            }
            Message::Report(body) => {
                match Counters::read(body) {
                    Some(counters) => self.events.push_back(Event::Report(counters)),
                    None => self.violation(Violation::Unexpected("report that is no list of numbers")),
                }
                false
            }
        };
        if counted {
            self.count(lane, now);
        }
        Some(frame)
    }

    /// A counted message was processed: it is to be acknowledged, soon or at once.
    pub(super) fn count(&mut self, lane: usize, now: Instant) {
        let span = self.incoming.span();
        let lane_state = &mut self.lanes[lane];
        lane_state.received += 1;
        lane_state.failed_at = None;
        let at_once = lane_state.decoded >= ACK_BYTES.min(span / 8) || lane_state.received - lane_state.told >= ACK_MESSAGES;
        if at_once {
            lane_state.ack_at = None;
            self.wake(lane);
        } else if lane_state.ack_at.is_none() && !lane_state.awake {
            lane_state.ack_at = Some(now + self.config.ack_delay);
        }
    }

    /// The connecting end: the answer to its hello.
    pub(super) fn handle_answer(&mut self, lane: usize, body: &[u8], now: Instant) {
        let hello = match Hello::parse(body) {
            Ok(hello) => hello,
            Err(error) => return self.violation(error.into()),
        };
        match hello.answer {
            Answer::Welcome if hello.session == self.id && hello.lane == lane as u64 => self.heard_hello(lane, &hello, now),
            Answer::Unknown => self.end(Ended::Unknown),
            Answer::Busy => self.end(Ended::Busy { reason: hello.reason }),
            Answer::Version => {
                let error = HelloError::Version { oldest: hello.oldest, newest: hello.newest };
                self.violation(error.into());
            }
            _ => self.violation(Violation::Unexpected("answer to a hello")),
        }
    }

    pub(super) fn handle_data(&mut self, lane: usize, id: FlowId, input: &[u8]) -> Option<usize> {
        match self.incoming.take(input) {
            Ok(Taken::NeedMore(more)) => {
                self.lanes[lane].needs = more;
                None
            }
            Ok(Taken::Waiting) => {
                self.lanes[lane].waiting = true;
                self.lanes[lane].waited_at = self.counters.received_blocks;
                self.counters.lane_waits += 1;
                None
            }
            Ok(Taken::Block(content, consumed)) => {
                self.counters.received_blocks += 1;
                self.lanes[lane].decoded += content.len() as u64;
                // A flow that was reset here meanwhile: its content is in the log, and goes no further.
                if let Some(flow) = self.flows.get_mut(&id).filter(|flow| flow.due.reset.is_none()) {
                    let receive = &mut flow.receive;
                    let received = receive.received + content.len() as u64;
                    if received > receive.granted || receive.finished {
                        let limit = if receive.finished { receive.received } else { receive.granted };
                        self.violation(Violation::Bounds { what: "bytes of a flow", value: received, limit });
                        return None;
                    }
                    receive.received = received;
                    if !content.is_empty() {
                        receive.push(content);
                        if !std::mem::replace(&mut receive.told, true) {
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

    /// A frame failed. The lane's transport is given up; the next one brings the block literally. If that fails, too, the log is lost.
    pub(super) fn frame_failed(&mut self, lane: usize, error: &IncomingError) {
        self.counters.failures += 1;
        if self.counters.received_blocks > self.failures.1 + FORGIVEN {
            self.failures.0 = 0;
        }
        self.failures = (self.failures.0 + 1, self.counters.received_blocks);
        if self.failures.0 > MAX_FAILURES {
            return self.end(Ended::TooManyFailures(self.failures.0));
        }
        let at = self.lanes[lane].received;
        let again = self.lanes[lane].failed_at.replace(at) == Some(at);
        if again || matches!(error, IncomingError::NoLog) {
            self.incoming.lose();
            for lane in 0..self.lanes.len() {
                self.drop_lane(lane, close::LOG_LOST, &error.to_string());
            }
        } else {
            self.drop_lane(lane, close::FRAME_FAILED, &error.to_string());
        }
    }

    pub(super) fn drop_lane(&mut self, lane: usize, code: u64, text: &str) {
        let state = &mut self.lanes[lane];
        if !matches!(state.state, LaneState::Up | LaneState::Greeting(_)) {
            return;
        }
        state.state = LaneState::Closing;
        Message::Close(code, truncate(text).as_bytes()).write(&mut state.urgent);
        self.events.push_back(Event::Drop(lane));
    }

    pub(super) fn handle_open(&mut self, lane: usize, id: FlowId, target: &[u8], now: Instant) {
        let ours = id.0.is_multiple_of(2) == self.connects;
        if ours || self.flows.contains_key(&id) {
            return self.violation(Violation::Unexpected("name of a new flow"));
        }
        let Some(agreed) = self.agreed else { return };
        // Flows that the peer is done with may still be read here, as many as this end takes; and on every lane openings can be ahead of
        // the resets on another. All that is no offence.
        let limit = self.config.max_flows + (self.lanes.len() as u64 + 1) * agreed.max_flows;
        if self.flows.len() as u64 >= limit {
            return self.violation(Violation::Bounds { what: "open flows", value: limit + 1, limit });
        }
        let mut flow = Flow::new(lane, None, agreed.early_credit, now);
        let busy =
            self.going_away || self.flows.len() as u64 >= self.config.max_flows || !self.config.early.take_all(EARLY_CREDIT);
        if busy {
            flow.receive.window = 0;
            flow.due.reset = Some(ResetCode::Busy);
            self.counters.flows_refused += 1;
        }
        self.flows.insert(id, flow);
        self.lanes[lane].flows += 1;
        if busy {
            self.queue_control(id);
        } else {
            self.counters.flows_accepted += 1;
            self.events.push_back(Event::Opened(id, target.to_vec()));
        }
    }

    pub(super) fn acknowledge_items(&mut self, items: Vec<Item>) {
        for item in items {
            if let Item::Block(_, id) = item {
                self.outgoing.acknowledge(id);
            }
        }
        // The span has moved: any lane may go on.
        for lane in 0..self.lanes.len() {
            let state = &self.lanes[lane];
            let unsent = state.sent < state.items.len() || !state.round.is_empty() || !state.control.is_empty();
            if unsent || self.wants_resize() {
                self.wake(lane);
            }
        }
    }
}
