//! Encodes and writes what a lane has to send.

use super::recalling::Back;
use super::*;
use crate::encode_job::Divides;

/// Content that [`Session::transmit`] encodes in one call, in bytes: repeats become so short that
/// their frames alone would be no limit.
const MOST_CONTENT: usize = 4 * DEFAULT_BLOCK;

/// What [`Session::next_block`] found.
#[expect(clippy::large_enum_variant, reason = "a job is moved to the driver at once")]
enum Next {
    Job(EncodeJob),
    /// A log was begun: its EPOCH goes first.
    Log,
    /// Both ends had the block.
    Recalled,
    Nothing,
}

impl Session {
    /// Appends messages that a lane has to send now to `out`, until that is `limit` bytes long or a
    /// little longer, or a block is to be encoded: then it returns the job. Run it without a lock
    /// on the session, give it back to [`Session::encoded`], and call this again. When it returns
    /// none, call [`Session::sent`] with the same lock. If `out` is empty then, there is nothing to
    /// send until the next [`Event::Transmit`].
    ///
    /// Takes blocks from their flows now, so call it when the transport can take the bytes.
    pub fn fill(
        &mut self,
        lane: usize,
        limit: usize,
        now: Instant,
        out: &mut Vec<u8>,
    ) -> Option<EncodeJob> {
        // Time without traffic refills the CPU budget, too.
        self.spent(Duration::ZERO, now);
        let mut job = self.append(lane, limit, now, out);
        if let Some(job) = &mut job {
            job.divides = self.divides(lane, job.content());
        }
        self.note_memory();
        job
    }

    /// Takes back a job that was run. What it wrote is at the end of `out`; it is removed if the
    /// transport that it was for is gone, and the block follows on the next one.
    pub fn encoded(&mut self, job: EncodeJob, now: Instant, out: &mut Vec<u8>) {
        self.note_searched(job.content(), job.opened(), now);
        self.note_written(job.content(), job.opened(), job.opens, job.written, now);
        let (Task { flow: id, lane, transport }, written) = (job.task, job.written);
        let sent = job.result.is_ok().then(|| self.count_sent(id, &job));
        if let Some(sent) = sent {
            self.meter(id, sent);
        }
        let start = out.len().saturating_sub(written);
        let is_current = self.is_current(lane, transport);
        match self.outgoing.take_back(job, sent, is_current) {
            Ok((encoded, stream)) => {
                if let Some(flow) = self.flows.get_mut(&id) {
                    flow.stream = stream;
                }
                let state = &mut self.lanes[lane];
                match encoded {
                    Encoded::Current(block) if is_current => {
                        state.wrote_block(id, block);
                        let end = self.outgoing.end();
                        sent.iter().for_each(|block| self.wrote(block, end, now));
                    }
                    Encoded::Current(block) | Encoded::Earlier(block) => {
                        out.truncate(start);
                        state.queue_block(id, block);
                    }
                    Encoded::Gone => out.truncate(start),
                }
            }
            Err(error) => {
                out.truncate(start);
                self.end(error.into());
            }
        }
        // They could not send blocks meanwhile.
        self.wake_where(Lane::has_unsent);
        self.note_memory();
    }

    /// Counts a block that was encoded, and why it was not reduced. Returns what it was.
    pub(super) fn count_sent(&mut self, id: FlowId, job: &EncodeJob) -> SentBlock {
        let mut flow = self.flows.get_mut(&id);
        let is_encrypted = flow.as_mut().is_some_and(|flow| {
            *flow.is_encrypted.get_or_insert_with(|| begins_encrypted(&job.content))
        });
        let block = job.block(is_encrypted);
        match block.residue {
            Residue::New => {}
            Residue::Encrypted => self.counters.encrypted_bytes += block.unmatched(),
            Residue::Incompressible => self.counters.incompressible_bytes += block.unmatched(),
            Residue::Small => self.counters.small_bytes += block.unmatched(),
        }
        block
    }

    /// A job was lost, with the encoder: the session ends.
    pub fn encoder_lost(&mut self) {
        self.end(EncoderFailed::new("the encoder was lost").into());
    }

    /// What was appended to `out` after `start` goes to the lane's transport at once: appends PAD,
    /// if padding is wanted.
    pub fn sent(&mut self, lane: usize, start: usize, now: Instant, out: &mut Vec<u8>) {
        if let Some(state) = self.lanes.get(lane)
            && out.len() - start > 64
            && state.is_up()
            && state.wants_rtt(now)
        {
            self.ping(lane, now);
            self.lanes[lane].write_uncounted(out);
        }
        self.pad(lane, start, out);
        if let Some(lane) = self.lanes.get_mut(lane) {
            lane.transmitted(out.len() > start);
        }
        self.counters.wire_sent_bytes += (out.len() - start) as u64;
    }

    /// [`Session::fill`] with its jobs, and [`Session::sent`], in one call, for a driver that has no
    /// lock: appends what a lane has to send now, until `out` has grown by `limit` bytes or a
    /// little more, or some blocks were encoded. If it appends nothing, there is nothing to send
    /// until the next [`Event::Transmit`].
    pub fn transmit(&mut self, lane: usize, limit: usize, now: Instant, out: &mut Vec<u8>) {
        let (start, mut content) = (out.len(), 0);
        while let Some(mut job) = self.fill(lane, start + limit, now, out) {
            content += job.content();
            if job.divides() == Divides::Must {
                job.find();
                let mut next = if self.found(job, now) { self.next_write(now) } else { None };
                while let Some(mut job) = next {
                    job.run();
                    next = self.written(job, now);
                }
            } else {
                job.run(out);
                self.encoded(job, now, out);
            }
            if content >= MOST_CONTENT {
                break;
            }
        }
        self.sent(lane, start, now, out);
    }

    /// Appends PAD to what was appended after `start`, if padding is wanted.
    fn pad(&mut self, lane: usize, start: usize, out: &mut Vec<u8>) {
        let waits = self.lanes.len() > 1;
        let Some(state) = self.lanes.get_mut(lane) else { return };
        if self.config.pad == 0 || out.len() == start || !state.is_up() {
            return;
        }
        let bytes = padding::pad(start, self.config.pad, out);
        self.counters.padding_bytes += bytes as u64;
        if waits {
            state.padded(bytes);
        }
    }

    fn append(
        &mut self,
        lane: usize,
        limit: usize,
        now: Instant,
        out: &mut Vec<u8>,
    ) -> Option<EncodeJob> {
        let state = self.lanes.get_mut(lane)?;
        if state.is_hello_due() {
            return None;
        }
        state.write_uncounted(out);
        if !state.is_up() || self.ended.is_some() {
            return None;
        }
        if let Some(count) = state.take_ack() {
            Message::Ack(count).write(out);
        }
        self.write_report(now, out);
        self.append_written(lane, limit, now, out);
        if self.lanes[lane].writing() == 0 && !self.send_counted(lane, limit, out) {
            return None;
        }
        if let Some(limit) = self.log_limit.take_unsent() {
            self.lanes[lane].push_control(&Message::Limit(limit));
        }
        if self.log_limit.take_ask() {
            self.lanes[lane].push_control(&Message::Limit(0));
        }
        for (from, end) in std::mem::take(&mut self.gone) {
            self.lanes[lane].push_control(&Message::Gone(from, end));
        }
        loop {
            if self.wants_resize()
                && !self.outgoing.has_unacknowledged()
                && !self.lanes.has_epoch_in_flight()
            {
                self.begin_log();
            }
            let writes = self.lanes[lane].writing() > 0;
            if out.len() >= limit
                || !(writes || self.send_counted(lane, limit, out))
                || self.ended.is_some()
            {
                return None;
            }
            // The block that is being encoded may be of this lane and, if its transport was
            // replaced meanwhile, goes out before what its flow sends next.
            if self.outgoing.is_busy() || !self.may_add(lane) {
                return None;
            }
            if !writes && self.next_control(lane) {
                continue;
            }
            if self.wants_resize() {
                return None;
            }
            match if writes { Back::Nothing } else { self.recall(lane, out) } {
                Back::Nothing => {}
                Back::Done => continue,
                Back::Stalled => return None,
            }
            match self.next_block(lane, now, out) {
                Next::Job(job) => return Some(job),
                Next::Log | Next::Recalled => {}
                Next::Nothing => {
                    self.drained();
                    return None;
                }
            }
        }
    }

    pub(super) fn ping(&mut self, lane: usize, now: Instant) {
        let nonce = self.random.nonce();
        self.lanes[lane].ping(nonce, now);
    }

    /// Writes the counted messages that were not sent on this transport. Returns `false` if some
    /// remain, or no new ones may follow.
    fn send_counted(&mut self, lane: usize, limit: usize, out: &mut Vec<u8>) -> bool {
        let explicit = self.lanes.len() > 1;
        let state = &mut self.lanes[lane];
        while let Some(message) = state.next_unsent() {
            if out.len() >= limit {
                return false;
            }
            match *message {
                Counted::Control(ref bytes) => out.extend_from_slice(bytes),
                Counted::Epoch if !self.outgoing.is_committed() => return false,
                Counted::Epoch => self.outgoing.epoch_message().write(out),
                Counted::Block(flow, id) => {
                    if !self.outgoing.may_send_again(id) {
                        self.counters.span_stalls += u64::from(!self.outgoing.is_lent());
                        return false;
                    }
                    self.outgoing.not_recalled(id);
                    Message::Data(flow).write(out);
                    match self.outgoing.encode_again(id, lane, explicit, out) {
                        Ok((block, len)) => {
                            self.counters.repeated_bytes += len;
                            state.reencoded(flow, block);
                            state.wrote_one();
                            if block != id {
                                // It was encoded anew: one at a time.
                                return false;
                            }
                            continue;
                        }
                        Err(error) => {
                            self.end(error.into());
                            return false;
                        }
                    }
                }
            }
            state.wrote_one();
        }
        !state.is_full()
    }

    /// Queues the pending messages of the first flow that has any. Returns `false` if no flow has.
    fn next_control(&mut self, lane: usize) -> bool {
        let state = &mut self.lanes[lane];
        let Some(id) = state.next_control() else { return false };
        let Some(flow) = self.flows.get_mut(&id) else { return true };
        let pending = std::mem::take(&mut flow.pending);
        if let Some(OpenRequest { target, owner }) = flow.open.take() {
            state.push_control(&Message::Open(id, &target, &owner.client, &owner.name));
        }
        if pending.opened {
            state.push_control(&Message::Opened(id));
        }
        if pending.credit && pending.reset.is_none() {
            state.push_control(&Message::Credit(id, flow.receive.granted));
        }
        if pending.fin {
            let end = if flow.cut { Message::Cut(id) } else { Message::Fin(id) };
            state.push_control(&end);
        }
        if let Some(code) = pending.reset {
            state.push_control(&Message::Reset(id, code.code()));
            self.remove(id);
        } else {
            self.tidy(id);
        }
        true
    }

    /// Takes a block of the flow whose turn it is.
    fn next_block(&mut self, lane: usize, now: Instant, out: &mut Vec<u8>) -> Next {
        loop {
            let round = self.lanes[lane].round();
            let Some(id) = round.front() else { return Next::Nothing };
            if !self.flows.contains_key(&id) {
                round.leave(None);
                continue;
            }
            let before = self.before_recall(id);
            let Some(flow) = self.flows.get_mut(&id) else { continue };
            let recalls = before == Some(0) && flow.credit_left() > 0;
            let round = self.lanes[lane].round();
            let len = flow.sendable();
            let looks = self.outgoing.looks_now();
            if len == 0 && !recalls && flow.may_look_ahead(looks) {
                self.look_on_disk(lane, id, now, out);
                continue;
            }
            if len == 0 && !recalls {
                if flow.send.len() > 0 && !flow.examined.waits() {
                    self.counters.credit_stalls += 1;
                    if let Some(recall) = &mut self.outgoing.recall {
                        recall.choice.stalled(now);
                    }
                }
                round.leave(Some(&mut flow.turn));
                continue;
            }
            if round.pass(&mut flow.turn) {
                continue;
            }
            // Blocks are short where other flows wait, so that none waits long on a slow lane.
            let most = if round.is_alone() { DEFAULT_BLOCK } else { DEFAULT_BLOCK / 4 };
            if self.outgoing.epoch() == Epoch::NONE {
                self.begin_log();
                // EPOCH goes out before the block.
                return if self.ended.is_none() { Next::Log } else { Next::Nothing };
            }
            if self.outgoing.recalls() && self.look_on_disk(lane, id, now, out) && !recalls {
                continue;
            }
            if recalls && self.lanes[lane].writing() > 0 {
                return Next::Nothing;
            }
            if recalls {
                match self.recall_block(lane, id, now, out) {
                    true => return Next::Recalled,
                    false => return Next::Nothing,
                }
            }
            let Some(flow) = self.flows.get_mut(&id) else { continue };
            // Nothing that was not looked up, nor what both ends have.
            let known = flow.examined.front();
            let len = if known > 0 { len.min(known) } else { len };
            let len = before.map_or(len, |before| len.min(before));
            let len = self.outgoing.room(len.min(most));
            if len == 0 {
                self.counters.span_stalls += 1;
                return Next::Nothing;
            }
            if std::mem::take(&mut flow.is_turn) {
                flow.stream.begin_message();
            }
            let explicit = self.lanes.len() > 1;
            let task = Task { flow: id, lane, transport: self.lanes[lane].transport() };
            let blank = Stream::new(flow.stream.domain());
            let stream = std::mem::replace(&mut flow.stream, blank);
            let more = self.queued > len;
            let is_writing = self.outgoing.is_writing();
            let chooser = self.chooser.as_mut();
            let opens = chooser.is_none_or(|chooser| chooser.take(more, is_writing, now));
            let hurries = self.pace.take(is_writing, now) && self.config.hurries;
            let lent = self.outgoing.lend(task, stream, &mut flow.send, len, explicit, opens);
            let (mut job, release) = match lent {
                Ok(lent) => lent,
                Err(error) => {
                    self.end(error.into());
                    return Next::Nothing;
                }
            };
            let len = job.content();
            self.config.sending.release(release);
            job.markers = flow.examined.take(len);
            job.hurries = hurries;
            self.counters.unopened_bytes += if opens { 0 } else { len as u64 };
            self.counters.hurried_bytes += if hurries { len as u64 } else { 0 };
            self.left(lane, id, len);
            return Next::Job(job);
        }
    }

    /// A block of `len` bytes has left the queue of the flow whose turn it is.
    pub(super) fn left(&mut self, lane: usize, id: FlowId, len: usize) {
        let Some(flow) = self.flows.get_mut(&id) else { return };
        flow.sent += len as u64;
        self.queued -= len;
        self.counters.sent_bytes += len as u64;
        if flow.is_large {
            self.counters.large_flow_bytes += len as u64;
        } else if flow.sent > self.outgoing.capacity() {
            // A repeat of this flow would find that the log has just evicted what it needs
            // next.
            flow.is_large = true;
            self.counters.large_flows += 1;
            self.counters.large_flow_bytes += flow.sent;
        }
        self.lanes[lane].round().sent(len, &mut flow.turn);
        let limit = flow.queue_limit(self.outgoing.looks());
        if flow.wants_to_write && flow.send.len() + SEND_QUEUE / 2 <= limit {
            flow.wants_to_write = false;
            self.events.push_back(Event::Writable(id));
        }
        if flow.send.len() == 0 {
            flow.send.clear();
            if flow.sending == Sending::Finishing {
                flow.sending = Sending::Finished;
                flow.pending.fin = true;
                self.queue_control(id);
            }
        }
    }

    /// The flow has pending messages: queues it for its lane.
    pub(super) fn queue_control(&mut self, id: FlowId) {
        if let Some(lane) = self.enter_control(id) {
            self.wake(lane);
        }
    }

    /// As [`Session::queue_control`] for messages that may wait a little for others to go with.
    pub(super) fn queue_control_soon(&mut self, id: FlowId, now: Instant) {
        if let Some(lane) = self.enter_control(id) {
            self.lanes[lane].send_soon(now);
        }
    }

    /// Puts a flow into its lane's queue of flows with pending messages. Returns the lane.
    fn enter_control(&mut self, id: FlowId) -> Option<usize> {
        let flow = self.flows.get_mut(&id)?;
        let lane = flow.lane;
        if !std::mem::replace(&mut flow.pending.queued, true) {
            self.lanes[lane].queue_control(id);
        }
        Some(lane)
    }

    /// The flow joins its lane's round if it has something to send.
    pub(super) fn ready(&mut self, id: FlowId) {
        let (recall, looks) = (self.outgoing.recall.as_ref(), self.outgoing.looks_now());
        let next = recall.and_then(|recall| recall.ready.next_of(id));
        if let Some(flow) = self.flows.get_mut(&id)
            && (flow.sendable() > 0
                || (flow.examined.waits() && flow.may_look_ahead(looks))
                || (next.is_some_and(|(at, _)| at <= flow.sent) && flow.credit_left() > 0))
        {
            let lane = flow.lane;
            self.lanes[lane].round().enter(id, &mut flow.turn);
            self.wake(lane);
        }
    }
}
