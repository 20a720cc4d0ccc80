//! From what is due to bytes for a transport.

use super::*;

impl Session {
    pub(super) fn wake(&mut self, lane: usize) {
        let state = &mut self.lanes[lane];
        if state.state != LaneState::Down && !std::mem::replace(&mut state.awake, true) {
            self.events.push_back(Event::Transmit(lane));
        }
    }

    /// Appends what a lane has to send now to `out`, until that holds `limit` bytes or a little more. Nothing appended means nothing to
    /// send until the next [`Event::Transmit`].
    ///
    /// Blocks are taken from their flows and encoded now; so call it when the transport can take the bytes.
    pub fn transmit(&mut self, lane: usize, limit: usize, now: Instant, out: &mut Vec<u8>) {
        // There may have been a pause.
        self.spent(Duration::ZERO, now);
        let start = out.len();
        self.fill(lane, start + limit, now, out);
        if let Some(state) = self.lanes.get_mut(lane) {
            state.awake = out.len() > start;
        }
        self.counters.wire_sent_bytes += (out.len() - start) as u64;
        self.note_memory();
    }

    pub(super) fn fill(&mut self, lane: usize, limit: usize, now: Instant, out: &mut Vec<u8>) {
        let Some(state) = self.lanes.get_mut(lane) else { return };
        if state.state == LaneState::Down {
            return;
        }
        out.append(&mut state.urgent);
        if state.state != LaneState::Up || self.ended.is_some() {
            return;
        }
        if state.received > state.told {
            Message::Ack(state.received).write(out);
            state.told = state.received;
            (state.decoded, state.ack_at) = (0, None);
        }
        if std::mem::take(&mut self.ask_report) {
            Message::AskReport.write(out);
        }
        if std::mem::take(&mut self.report_due) {
            Message::Report(&self.counters().write()).write(out);
        }
        if !self.send_items(lane, limit, out) {
            return;
        }
        if std::mem::take(&mut self.tell_limit) {
            self.push_control(lane, Message::Limit(self.log_limit));
        }
        loop {
            if self.wants_resize() && !self.outgoing.has_unacknowledged() && !self.has_epoch_under_way() {
                self.begin_log();
            }
            if out.len() >= limit || !self.send_items(lane, limit, out) || self.ended.is_some() {
                break;
            }
            if !self.next_control(lane) && (self.wants_resize() || !self.next_block(lane, out)) {
                break;
            }
        }
        // Something to measure with while there is traffic.
        if out.len() > 64 && now.saturating_duration_since(self.lanes[lane].pinged) >= RTT_INTERVAL {
            self.ping(lane, now);
            out.append(&mut self.lanes[lane].urgent);
        }
    }

    /// Whether the beginning of a log is under way on any lane. Another may not begin then: the messages of two lanes can overtake each
    /// other, and the peer would go back to the log before.
    fn has_epoch_under_way(&self) -> bool {
        self.lanes.iter().any(|lane| lane.items.iter().any(|item| matches!(item, Item::Epoch)))
    }

    pub(super) fn ping(&mut self, lane: usize, now: Instant) {
        let nonce = self.random() >> 8;
        let state = &mut self.lanes[lane];
        state.pinged = now;
        if state.ping.is_none() {
            state.ping = Some((nonce, now));
            Message::Ping(nonce).write(&mut state.urgent);
        }
    }

    pub(super) fn push_control(&mut self, lane: usize, message: Message<'_>) {
        let mut bytes = Vec::new();
        message.write(&mut bytes);
        self.lanes[lane].push_control(bytes.into());
    }

    /// Sends counted messages that are not yet on this transport. `false` if some are left, or no more may follow.
    pub(super) fn send_items(&mut self, lane: usize, limit: usize, out: &mut Vec<u8>) -> bool {
        while let Some(item) = self.lanes[lane].items.get(self.lanes[lane].sent) {
            if out.len() >= limit {
                return false;
            }
            match *item {
                Item::Control(ref bytes) => out.extend_from_slice(bytes),
                Item::Epoch => self.outgoing.epoch_message().write(out),
                Item::Block(flow, id) => {
                    if !self.outgoing.may_send_again(id) {
                        self.counters.span_stalls += 1;
                        return false;
                    }
                    Message::Data(flow).write(out);
                    let explicit = self.lanes.len() > 1;
                    match self.outgoing.encode_again(id, lane, explicit, out) {
                        Ok((new, len)) => {
                            self.counters.repeated_bytes += len;
                            let at = self.lanes[lane].sent;
                            self.lanes[lane].items[at] = Item::Block(flow, new);
                        }
                        Err(error) => {
                            self.end(error.into());
                            return false;
                        }
                    }
                }
            }
            self.lanes[lane].wrote_one();
        }
        !self.lanes[lane].is_full()
    }

    /// Queues the messages that are due of the first flow that has any. `false` if no flow has.
    pub(super) fn next_control(&mut self, lane: usize) -> bool {
        let Some(id) = self.lanes[lane].control.pop_front() else { return false };
        let Some(flow) = self.flows.get_mut(&id) else { return true };
        let due = std::mem::take(&mut flow.due);
        let limit = flow.receive.granted;
        if let Some(target) = flow.open.take() {
            self.push_control(lane, Message::Open(id, &target));
        }
        if due.opened {
            self.push_control(lane, Message::Opened(id));
        }
        if due.credit && due.reset.is_none() {
            self.push_control(lane, Message::Credit(id, limit));
        }
        if due.fin {
            self.push_control(lane, Message::Fin(id));
        }
        if let Some(code) = due.reset {
            self.push_control(lane, Message::Reset(id, code.code()));
            self.remove(id);
        } else {
            self.tidy(id);
        }
        true
    }

    /// Encodes a block of the flow whose turn it is. `false` if there is none, or it must wait.
    pub(super) fn next_block(&mut self, lane: usize, out: &mut Vec<u8>) -> bool {
        loop {
            let round = &mut self.lanes[lane].round;
            let Some(id) = round.front() else { return false };
            let Some(flow) = self.flows.get_mut(&id) else {
                round.leave(None);
                continue;
            };
            let len = flow.sendable();
            if len == 0 {
                if flow.send.len() > 0 {
                    self.counters.credit_stalls += 1;
                }
                round.leave(Some(&mut flow.turn));
                continue;
            }
            if round.pass(&mut flow.turn) {
                continue;
            }
            // Where others wait, blocks are short, so that nobody waits long on a slow lane.
            let most = if round.is_alone() { MAX_BLOCK } else { MAX_BLOCK / 4 };
            if self.outgoing.epoch() == Epoch::NONE {
                self.begin_log();
                // It is a message of its own, and goes first.
                return self.ended.is_none();
            }
            let len = self.outgoing.room(len.min(most));
            if len == 0 {
                self.counters.span_stalls += 1;
                return false;
            }
            Message::Data(id).write(out);
            match self.outgoing.encode(flow.send.front(len), lane, self.lanes.len() > 1, out) {
                Ok(block) => {
                    let state = &mut self.lanes[lane];
                    state.items.push_back(Item::Block(id, block));
                    state.wrote_one();
                }
                Err(error) => {
                    self.end(error.into());
                    return false;
                }
            }
            self.config.sending.give(flow.send.pop(len));
            flow.sent += len as u64;
            self.queued -= len;
            self.counters.sent_bytes += len as u64;
            if flow.is_large {
                self.counters.large_flow_bytes += len as u64;
            } else if flow.sent > self.outgoing.capacity() {
                // Sent again, it would find that what comes next has just been evicted.
                flow.is_large = true;
                self.counters.large_flows += 1;
                self.counters.large_flow_bytes += flow.sent;
            }
            self.lanes[lane].round.sent(len, &mut flow.turn);
            if flow.wants_to_write && flow.send.len() <= SEND_QUEUE / 2 {
                flow.wants_to_write = false;
                self.events.push_back(Event::Writable(id));
            }
            if flow.send.len() == 0 {
                flow.send.clear();
                if flow.sending == Sending::Finishing {
                    flow.sending = Sending::Finished;
                    flow.due.fin = true;
                    self.queue_control(id);
                }
            }
            return true;
        }
    }

    pub(super) fn queue_control(&mut self, id: FlowId) {
        if let Some(flow) = self.flows.get_mut(&id) {
            let lane = flow.lane;
            if !std::mem::replace(&mut flow.due.queued, true) {
                self.lanes[lane].control.push_back(id);
            }
            self.wake(lane);
        }
    }

    /// The flow takes part in its lane's round if it has something to send.
    pub(super) fn ready(&mut self, id: FlowId) {
        if let Some(flow) = self.flows.get_mut(&id)
            && flow.sendable() > 0
        {
            let lane = flow.lane;
            self.lanes[lane].round.enter(id, &mut flow.turn);
            self.wake(lane);
        }
    }
}
