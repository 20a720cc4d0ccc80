//! What applications do with flows.

use super::*;

impl Session {
    /// Opens a flow to a target, which the peer interprets (`docs/PROTOCOL.md`, "Targets"). Data
    /// may follow at once. [`Event::Accepted`] or [`Event::Reset`] is the peer's answer.
    ///
    /// Flows of equal owners are of one isolation domain, whichever end opened them. What flows of
    /// other domains carry changes the size of this flow's messages only as far as the encoders
    /// share content ([`Sharing`](oncewire_codec::Sharing)).
    ///
    /// # Errors
    /// [`OpenError`].
    pub fn open(
        &mut self,
        target: &[u8],
        owner: impl Into<Owner>,
        now: Instant,
    ) -> Result<FlowId, OpenError> {
        let agreed = self.agreed.as_ref().filter(|_| self.ended.is_none());
        let agreed = agreed.ok_or(OpenError::NotEstablished)?;
        if self.going_away || agreed.is_going_away {
            return Err(OpenError::GoingAway);
        }
        if target.len() > MAX_TARGET {
            return Err(OpenError::Target(target.len()));
        }
        let owner = owner.into();
        let longest = owner.client.len().max(owner.name.len());
        if longest > MAX_DOMAIN {
            return Err(OpenError::Domain(longest));
        }
        // The caller hears of these and may try again; only flows of the peer are counted.
        if self.flows.len() as u64 >= agreed.max_flows {
            return Err(OpenError::TooMany(agreed.max_flows));
        }
        if !self.config.early.acquire_exactly(EARLY_CREDIT) {
            return Err(OpenError::NoCredit);
        }
        let lane = self.lanes.least_used();
        let id = FlowId(self.next_flow);
        self.next_flow += 2;
        let stream = self.outgoing.stream(&owner);
        let open = OpenRequest { target: target.into(), owner };
        let flow = Flow::new(lane, stream, Some(open), agreed.early_credit, now);
        self.flows.insert(id, flow);
        self.lanes[lane].add_flow();
        self.counters.flows_opened += 1;
        self.widen(id, now);
        self.queue_control(id);
        Ok(id)
    }

    /// Tells `meter` of each block of a flow from now on.
    pub fn watch(&mut self, id: FlowId, meter: Arc<dyn FlowMeter>) {
        if let Some(flow) = self.flows.get_mut(&id) {
            flow.meter = Some(meter);
        }
    }

    /// Notifies the peer that a flow it opened has reached its target: at once, or, if the
    /// application has not waited for that and is likely to get an answer, together with it.
    pub fn accept(&mut self, id: FlowId, now: Instant) {
        if let Some(flow) = self.flows.get_mut(&id) {
            flow.pending.opened = true;
            // Much may be an upload that waits for credit.
            let is_request = (1..=EARLY_CREDIT / 2).contains(&flow.receive.received);
            self.widen(id, now);
            if is_request {
                self.queue_control_soon(id, now);
            } else {
                self.queue_control(id);
            }
        }
    }

    /// Gives a new flow more than the early credit, if the budget has it.
    pub(super) fn widen(&mut self, id: FlowId, now: Instant) {
        let pool = &self.config.delivery;
        if let Some(flow) = self.flows.get_mut(&id)
            && flow.receive.widen(FIRST_WINDOW.min(pool.available() / 8), pool)
        {
            flow.pending.credit |= flow.receive.grant(now);
        }
    }

    /// Queues bytes of an application on a flow. Returns how many; if not all, [`Event::Writable`]
    /// says when to continue.
    pub fn write(&mut self, id: FlowId, bytes: &[u8]) -> usize {
        self.queue(id, bytes.len(), |send, len, acquired| send.push(&bytes[..len], acquired))
    }

    /// As [`Session::write`], and may keep `bytes` in exchange for another buffer, which is empty.
    pub fn write_buffer(&mut self, id: FlowId, bytes: &mut Vec<u8>) -> usize {
        let other = self.outgoing.take_spare();
        let mut other = Some(other);
        let len = self.queue(id, bytes.len(), |send, len, acquired| {
            match other.take_if(|_| len == bytes.len() && len >= LARGE_PIECE) {
                Some(other) => send.push_piece(std::mem::replace(bytes, other), acquired),
                None => send.push(&bytes[..len], acquired),
            }
        });
        if let Some(unused) = other {
            self.outgoing.keep_spare(unused);
        }
        len
    }

    /// Frees buffers that are kept for what comes next, 64 KiB each: for a session that rests, of which
    /// a hub has many.
    pub fn free_buffers(&mut self) {
        self.outgoing.free_buffers();
        self.lanes.free_buffers();
    }

    /// Queues as many of `len` bytes as a flow and the budget take, by calling `push` with how many
    /// that are, and how many of them were acquired from the budget.
    fn queue(
        &mut self,
        id: FlowId,
        len: usize,
        push: impl FnOnce(&mut SendQueue, usize, u64),
    ) -> usize {
        let Some(flow) = self.flows.get_mut(&id).filter(|flow| flow.sends()) else { return 0 };
        let limit = flow.queue_limit(self.outgoing.looks());
        let want = len.min(limit.saturating_sub(flow.send.len()));
        // What a flow queues because it goes on on disk leaves some for others.
        let part = if flow.send.len() + want > SEND_QUEUE { 4 } else { 1 };
        let acquired = self.config.sending.acquire(|available| (want as u64).min(available / part));
        // Each flow may queue a little beyond the budget; otherwise flows that get none of it would
        // stand still.
        let taken =
            (acquired as usize).max(want.min(SEND_QUEUE_MIN.saturating_sub(flow.send.len())));
        push(&mut flow.send, taken, acquired);
        self.queued += taken;
        flow.wants_to_write |= taken < len;
        self.ready(id);
        taken
    }

    /// How many bytes [`Session::write`] would take now. If none, [`Event::Writable`] says when to
    /// continue.
    pub fn room(&mut self, id: FlowId) -> usize {
        let Some(flow) = self.flows.get_mut(&id).filter(|flow| flow.sends()) else { return 0 };
        let available = usize::try_from(self.config.sending.available()).unwrap_or(usize::MAX);
        let limit = flow.queue_limit(self.outgoing.looks());
        let part = if limit > SEND_QUEUE { 4 } else { 1 };
        let room = limit
            .saturating_sub(flow.send.len())
            .min((available / part).max(SEND_QUEUE_MIN.saturating_sub(flow.send.len())));
        flow.wants_to_write |= room == 0;
        room
    }

    /// The application has finished sending. Sends what was written, then FIN.
    pub fn finish(&mut self, id: FlowId) {
        let Some(flow) = self.flows.get_mut(&id).filter(|flow| flow.sending == Sending::Open)
        else {
            return;
        };
        if flow.send.len() > 0 {
            flow.sending = Sending::Finishing;
        } else {
            flow.sending = Sending::Finished;
            flow.pending.fin = true;
            self.queue_control(id);
        }
    }

    /// As [`Session::finish`], but the application's protocol has not said that this is the end: the
    /// peer reads [`Read::Cut`] after what was written.
    pub fn cut(&mut self, id: FlowId) {
        if let Some(flow) = self.flows.get_mut(&id).filter(|flow| flow.sending == Sending::Open) {
            flow.cut = true;
            self.finish(id);
        }
    }

    /// Ends a flow at once, in both directions. No more events concern it.
    pub fn reset(&mut self, id: FlowId, code: ResetCode) {
        let Some(flow) = self.flows.get_mut(&id).filter(|flow| flow.pending.reset.is_none()) else {
            return;
        };
        self.counters.flows_reset += 1;
        self.queued -= flow.send.len();
        self.config.sending.release(flow.send.clear());
        flow.receive.chunks.clear();
        flow.pending.reset = Some(code);
        if flow.open.is_some() {
            // OPEN was not sent, so the peer does not know the flow.
            return self.remove(id);
        }
        self.queue_control(id);
    }

    /// Takes the next received bytes of a flow. After [`Read::Nothing`], [`Event::Readable`] says
    /// when to continue.
    pub fn read(&mut self, id: FlowId) -> Read {
        let Some(flow) = self.flows.get_mut(&id).filter(|flow| flow.pending.reset.is_none()) else {
            return Read::Gone;
        };
        match flow.receive.chunks.pop_front() {
            Some(chunk) => Read::Data(chunk),
            None if flow.receive.finished => {
                flow.receive.end_read = true;
                let end = if flow.receive.cut { Read::Cut } else { Read::Finished };
                self.tidy(id);
                end
            }
            None => {
                flow.receive.notified = false;
                Read::Nothing
            }
        }
    }

    /// The application has consumed `len` bytes that were read. This is what lets the peer send
    /// more.
    pub fn consumed(&mut self, id: FlowId, len: usize, now: Instant) {
        let rtt = self.rtt.unwrap_or(RTT_GUESS);
        let Some(flow) = self.flows.get_mut(&id) else { return };
        self.counters.received_bytes += len as u64;
        if flow.receive.consume(len as u64, now, rtt, &self.config.delivery) {
            flow.pending.credit = true;
            self.queue_control(id);
        }
        self.tidy(id);
    }

    /// Removes a flow that is over.
    pub(super) fn tidy(&mut self, id: FlowId) {
        if self.flows.get(&id).is_some_and(|flow| flow.is_over() && flow.receive.chunks.is_empty())
        {
            self.remove(id);
        }
    }

    /// Removes a flow and releases its budgets.
    pub(super) fn remove(&mut self, id: FlowId) {
        if let Some(mut flow) = self.flows.remove(&id) {
            self.queued -= flow.send.len();
            self.config.sending.release(flow.send.clear());
            if let Some(recall) = &mut self.outgoing.recall {
                recall.pass(id, u64::MAX);
            }
            let early = flow.receive.window.min(EARLY_CREDIT);
            self.config.early.release(early);
            self.config.delivery.release(flow.receive.window - early);
            self.lanes[flow.lane].remove_flow(|id| self.flows.contains_key(&id));
        }
    }

    /// Sets aside what applications have yet to read of flows that both ends had finished when the
    /// peer closed. Everything of such a flow has arrived, so it is not lost with the session. Only
    /// an end that goes away does so: it begins no other session, so the memory stays bounded.
    pub(super) fn keep_undelivered(&mut self) {
        if !self.going_away {
            return;
        }
        for (&id, flow) in &mut self.flows {
            let finished = flow.receive.finished && !flow.receive.cut;
            let whole = finished && flow.sending == Sending::Finished;
            if whole && flow.pending.reset.is_none() {
                self.undelivered.push((id, std::mem::take(&mut flow.receive.chunks)));
            }
        }
    }

    /// After [`Session::go_away`] and [`Event::Ended`]: the bytes that applications have yet to read
    /// of flows that had arrived whole, FIN included, when the peer closed the session. Deliver them and finish; all
    /// other flows are reset. They no longer count as memory of the session. Returns nothing the
    /// next time.
    pub fn take_undelivered(&mut self) -> Vec<(FlowId, VecDeque<Vec<u8>>)> {
        std::mem::take(&mut self.undelivered)
    }

    /// Removes all flows.
    pub(super) fn clear_flows(&mut self) {
        while let Some((&id, _)) = self.flows.first_key_value() {
            self.remove(id);
        }
    }
}
