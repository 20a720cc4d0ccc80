//! What an application does with a flow.

use super::*;

/// Names of flows that are gone, of which a lane's queues may hold some.
const STALE_NAMES: usize = 64;

impl Session {
    /// Opens a flow to a target that the peer understands. Data may follow at once.
    ///
    /// # Errors
    /// [`OpenError`].
    pub fn open(&mut self, target: &[u8], now: Instant) -> Result<FlowId, OpenError> {
        let agreed = self.agreed.filter(|_| self.ended.is_none()).ok_or(OpenError::NotEstablished)?;
        if self.going_away || self.peer_going_away {
            return Err(OpenError::GoingAway);
        }
        if target.len() > MAX_TARGET {
            return Err(OpenError::Target(target.len()));
        }
        if self.flows.len() as u64 >= agreed.max_flows {
            self.counters.flows_refused += 1;
            return Err(OpenError::TooMany(agreed.max_flows));
        }
        if !self.config.early.take_all(EARLY_CREDIT) {
            self.counters.flows_refused += 1;
            return Err(OpenError::NoCredit);
        }
        // The lane with the fewest flows, of those that work.
        let key = |lane: &usize| (self.lanes[*lane].state != LaneState::Up, self.lanes[*lane].flows);
        let lane = (0..self.lanes.len()).min_by_key(key).unwrap_or(0);
        let id = FlowId(self.next_flow);
        self.next_flow += 2;
        let flow = Flow::new(lane, Some(target.to_vec()), agreed.early_credit, now);
        self.flows.insert(id, flow);
        self.lanes[lane].flows += 1;
        self.counters.flows_opened += 1;
        self.widen(id, now);
        self.queue_control(id);
        Ok(id)
    }

    /// Tells the peer that a flow it opened has reached its target.
    pub fn accept(&mut self, id: FlowId, now: Instant) {
        if let Some(flow) = self.flows.get_mut(&id) {
            flow.due.opened = true;
            self.widen(id, now);
            self.queue_control(id);
        }
    }

    /// Gives a flow more than the least credit, if the budget has it.
    pub(super) fn widen(&mut self, id: FlowId, now: Instant) {
        let pool = &self.config.delivery;
        if let Some(flow) = self.flows.get_mut(&id)
            && flow.receive.widen(FIRST_WINDOW.min(pool.left() / 8), pool)
        {
            flow.due.credit |= flow.receive.grant(now);
        }
    }

    /// Bytes of an application for a flow; returns how many were taken. If not all, [`Event::Writable`] says when to go on.
    pub fn write(&mut self, id: FlowId, bytes: &[u8]) -> usize {
        let Some(flow) = self.flows.get_mut(&id).filter(|flow| flow.sending == Sending::Open && flow.due.reset.is_none()) else {
            return 0;
        };
        let want = bytes.len().min(SEND_QUEUE.saturating_sub(flow.send.len()));
        let taken = self.config.sending.take(|left| (want as u64).min(left));
        // Beyond the budget a flow may queue a little, or the last that get none would stand still.
        let len = (taken as usize).max(want.min(SEND_QUEUE_MIN.saturating_sub(flow.send.len())));
        flow.send.push(&bytes[..len], taken);
        self.queued += len;
        flow.wants_to_write |= len < bytes.len();
        self.ready(id);
        len
    }

    /// Bytes that [`Session::write`] would take now. If there are none, [`Event::Writable`] says when there are.
    pub fn room(&mut self, id: FlowId) -> usize {
        let Some(flow) = self.flows.get_mut(&id).filter(|flow| flow.sending == Sending::Open && flow.due.reset.is_none()) else {
            return 0;
        };
        let left = usize::try_from(self.config.sending.left()).unwrap_or(usize::MAX);
        let room = SEND_QUEUE.saturating_sub(flow.send.len()).min(left.max(SEND_QUEUE_MIN.saturating_sub(flow.send.len())));
        flow.wants_to_write |= room == 0;
        room
    }

    /// The application has finished sending. What was written still goes.
    pub fn finish(&mut self, id: FlowId) {
        let Some(flow) = self.flows.get_mut(&id).filter(|flow| flow.sending == Sending::Open) else { return };
        if flow.send.len() > 0 {
            flow.sending = Sending::Finishing;
        } else {
            flow.sending = Sending::Finished;
            flow.due.fin = true;
            self.queue_control(id);
        }
    }

    /// Ends a flow at once, in both directions. Nothing more comes from it.
    pub fn reset(&mut self, id: FlowId, code: ResetCode) {
        let Some(flow) = self.flows.get_mut(&id).filter(|flow| flow.due.reset.is_none()) else { return };
        self.counters.flows_reset += 1;
        self.queued -= flow.send.len();
        self.config.sending.give(flow.send.clear());
        flow.receive.chunks.clear();
        flow.due.reset = Some(code);
        if flow.open.is_some() {
            // The peer never heard of it.
            return self.remove(id);
        }
        self.queue_control(id);
    }

    /// The next bytes of a flow.
    pub fn read(&mut self, id: FlowId) -> Read {
        let Some(flow) = self.flows.get_mut(&id).filter(|flow| flow.due.reset.is_none()) else { return Read::Gone };
        match flow.receive.chunks.pop_front() {
            Some(chunk) => Read::Data(chunk),
            None if flow.receive.finished => {
                flow.receive.end_read = true;
                self.tidy(id);
                Read::Finished
            }
            None => {
                flow.receive.told = false;
                Read::Nothing
            }
        }
    }

    /// The application has taken `len` bytes that were read: more may come.
    pub fn consumed(&mut self, id: FlowId, len: usize, now: Instant) {
        let rtt = self.rtt.unwrap_or(RTT_GUESS);
        let Some(flow) = self.flows.get_mut(&id) else { return };
        self.counters.received_bytes += len as u64;
        if flow.receive.consume(len as u64, now, rtt, &self.config.delivery) {
            flow.due.credit = true;
            self.queue_control(id);
        }
        self.tidy(id);
    }

    /// Forgets a flow that is over.
    pub(super) fn tidy(&mut self, id: FlowId) {
        if self.flows.get(&id).is_some_and(|flow| flow.is_over() && flow.receive.chunks.is_empty()) {
            self.remove(id);
        }
    }

    pub(super) fn remove(&mut self, id: FlowId) {
        if let Some(mut flow) = self.flows.remove(&id) {
            self.queued -= flow.send.len();
            self.config.sending.give(flow.send.clear());
            let early = flow.receive.window.min(EARLY_CREDIT);
            self.config.early.give(early);
            self.config.delivery.give(flow.receive.window - early);
            let lane = &mut self.lanes[flow.lane];
            lane.flows -= 1;
            // Names of flows that are gone are passed over when their turn comes; on a lane that stands still it never does.
            let most = 2 * lane.flows + STALE_NAMES;
            if lane.control.len() > most {
                let flows = &self.flows;
                lane.control.retain(|id| flows.contains_key(id));
            }
            if lane.round.len() > most {
                let flows = &self.flows;
                lane.round.retain(|id| flows.contains_key(&id));
            }
        }
    }

    /// Forgets all flows.
    pub(super) fn clear_flows(&mut self) {
        while let Some((&id, _)) = self.flows.first_key_value() {
            self.remove(id);
        }
    }
}
