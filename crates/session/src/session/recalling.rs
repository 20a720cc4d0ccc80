//! Content comes back from disk: [`crate::recall`] has what is looked for.

use super::*;
use crate::recall::{
    Answer as Read, Around, Came, FetchId, LANE_PATIENCE, LOOK, Looked, NO_FLOW, Ready, Restoring,
    Sent, is_told,
};
use crate::store::Run;
use oncewire_codec::Recalled;
use std::ops::Range;

/// Stretches in a row that a disk may fail to give before it is not asked any more.
const MOST_LOST: u64 = 8;

/// Bytes of RECALL, with a flow's number of one byte.
const RECALL_BYTES: u64 = 34;

/// What a stretch is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Serves {
    /// Its flow sends it as it is.
    Flow,
    /// What its flow sends refers to it.
    Log,
    Nothing,
}

/// What became of content that was read.
pub(super) enum Back {
    /// There is none.
    Nothing,
    /// It is in the log, or not needed any more.
    Done,
    /// There is no room in the span.
    Stalled,
}

impl Session {
    /// What [`Event::Fetch`] asked for: the bytes of that range of the stored log; padding reads as
    /// zeros. `None` if they cannot be read. Call [`Session::next_decode`] next, as after
    /// [`Session::take_in`].
    pub fn supply(&mut self, id: FetchId, bytes: Option<Vec<u8>>, now: Instant) {
        let FetchId(side, id) = id;
        match side {
            Side::Sending => {
                let rtt = self.rtt.unwrap_or_default();
                let recall = self.outgoing.recall.as_mut();
                let came = recall.map(|recall| recall.supply(id, bytes, now, rtt));
                self.came(came.unwrap_or(Came::Waits));
            }
            Side::Receiving => {
                // A lane waits for it, or it was announced.
                if !self.restoring.values().any(|waiting| waiting.id == id) {
                    let answer = self.preparing.supply(id, bytes, now);
                    return self.answer_prepare(answer);
                }
                let waiting = self.restoring.iter_mut().find(|(_, waiting)| waiting.id == id);
                if let Some((&lane, waiting)) = waiting
                    && waiting.bytes.is_none()
                {
                    waiting.bytes = Some(bytes.filter(|bytes| bytes.len() as u64 == waiting.len));
                    if self.lanes[lane].transport() == waiting.transport {
                        self.lanes[lane].end_fetch();
                        let took = |since| now.saturating_duration_since(since);
                        if let Some((number, wants, since)) = waiting.announced
                            && is_told(wants, took(since))
                        {
                            self.lanes[lane].answer_prepare(number, Some(took(since)));
                            self.wake(lane);
                        }
                    }
                }
            }
        }
    }

    /// The id of the sending log, and content of it that an earlier process stored and that is not
    /// found yet: read it from its end down, and give it to [`Session::hook`]. Not before
    /// [`Session::is_established`]: which log goes on is not known.
    pub fn unhooked(&self) -> Option<(u64, Range<u64>)> {
        self.outgoing.unhooked().filter(|_| self.is_established())
    }

    /// Content of this log from `offset` up to the end of [`Session::unhooked`] is found from now
    /// on, by its owners. `None` if it cannot be read. A few 100 KiB at once take well below a
    /// millisecond.
    pub fn hook(&mut self, log: u64, offset: u64, content: Option<&[u8]>, runs: &[Run]) {
        self.outgoing.hook(log, offset, content, runs);
    }

    /// Bytes of the receiving log that may be recalled, for HELLO.
    pub(super) fn stored(&self) -> u64 {
        if self.incoming.has_store() && self.lost_in_a_row < MOST_LOST {
            self.config.stored
        } else {
            0
        }
    }

    fn came(&mut self, came: Came) {
        match came {
            Came::Waits => {}
            Came::Ready(lane) => self.wake(lane),
            Came::Lost(flow) => {
                self.counters.lost_recalls += 1;
                flow.into_iter().for_each(|(flow, look)| self.release_flow(flow, look));
            }
            Came::Late(flow, look) => {
                self.counters.outrun_recalls += 1;
                self.release_flow(flow, look);
            }
        }
    }

    /// The peer is about to recall a stretch of the receiving log. Returns whether what is behind
    /// that is to be processed.
    pub(super) fn handle_prepare(&mut self, stretch: Prepared) -> bool {
        let Prepared { id, lane, from, len, .. } = stretch;
        let limit = DEFAULT_BLOCK as u64;
        if !(1..=limit).contains(&len) {
            self.violation(Violation::Bounds { what: "announced content", value: len, limit });
            return false;
        }
        let end = from.saturating_add(len);
        let fetch = self.fetches + 1;
        // What it may recall at all has arrived by now.
        let is_there = end <= self.incoming.acknowledged() && self.stored() > 0;
        if is_there && self.preparing.begin(Prepared { fetch, ..stretch }) {
            self.fetches = fetch;
            let id = FetchId(Side::Receiving, fetch);
            self.events.push_back(Event::Fetch { id, side: Side::Receiving, range: from..end });
        } else {
            self.lanes[lane].answer_prepare(id, None);
            self.wake(lane);
        }
        true
    }

    /// What was announced was read, or cannot be.
    fn answer_prepare(&mut self, answer: Option<Read>) {
        let Some(Read { id, lane, took }) = answer else { return };
        if took.is_none() {
            self.counters.lost_recalls += 1;
            self.lost_in_a_row += 1;
        }
        self.lanes[lane].answer_prepare(id, took);
        self.wake(lane);
    }

    /// The peer has read what was announced, or cannot.
    pub(super) fn handle_prepared(&mut self, id: u64, took: Option<Duration>, now: Instant) {
        let came = self.outgoing.recall.as_mut().map(|recall| recall.prepared(id, took, now));
        self.came(came.unwrap_or(Came::Waits));
    }

    /// One stretch less that a look of a flow waits for.
    fn release_flow(&mut self, id: FlowId, look: u64) {
        if let Some(flow) = self.flows.get_mut(&id) {
            flow.examined.release(look);
            self.ready(id);
        }
    }

    /// Nothing is read any more: whatever waited for that goes on without.
    pub(super) fn forget_recalls(&mut self) {
        let mut waiting = Vec::new();
        for (id, flow) in &mut self.flows {
            if flow.examined.forget() {
                waiting.push(*id);
            }
        }
        waiting.into_iter().for_each(|id| self.ready(id));
    }

    /// Looks for what a flow is about to send in what lies only on disk, unless that was done. Returns
    /// whether it has to wait. Appends PREPARE to `out`.
    pub(super) fn look_on_disk(
        &mut self,
        lane: usize,
        id: FlowId,
        now: Instant,
        out: &mut Vec<u8>,
    ) -> bool {
        if self.flows.get(&id).is_some_and(|flow| flow.examined.len() == 0) {
            self.look(lane, id, 0, now, out);
        }
        if let Some(flow) = self.flows.get(&id)
            && flow.may_look_ahead(self.outgoing.looks_now())
        {
            let before = flow.examined.len();
            self.look(lane, id, before, now, out);
        }
        self.flows.get(&id).is_some_and(|flow| flow.examined.waits())
    }

    /// Looks for content of a flow that has so many bytes before it in the queue.
    fn look(&mut self, lane: usize, id: FlowId, before: usize, now: Instant, out: &mut Vec<u8>) {
        let waiting: usize = self.lanes.iter_mut().map(|lane| lane.round().len()).sum();
        let Some(flow) = self.flows.get_mut(&id) else { return };
        let mut content = Vec::new();
        // Also beyond its credit: little at a time takes as long.
        flow.send.copy(before, LOOK, &mut content);
        let (domain, examined) = (flow.stream.domain(), &mut flow.examined);
        let place = (id, flow.sent + before as u64);
        // Flows send in turn, as much each.
        let others = self.queued.saturating_sub(flow.send.len());
        let others = others.min(waiting.saturating_sub(1).saturating_mul(content.len()));
        let around = Around {
            before: before as u64,
            others: others as u64,
            has_more: flow.send.len() > before + content.len(),
        };
        let outgoing = &mut self.outgoing;
        let Looked { found, sent } =
            outgoing.look_on_disk(lane, place, domain, &content, around, examined, now);
        self.counters.outrun_recalls += sent as u64;
        for (FetchId(_, id), wants, range) in &found {
            let (id, wants) = (*id, *wants);
            let (from, len) = (range.start, range.end - range.start);
            Message::Prepare { id, wants, from, len }.write(out);
        }
        self.events.extend(found.into_iter().map(|(id, _, range)| Event::Fetch {
            id,
            side: Side::Sending,
            range,
        }));
    }

    /// A block was written that ends in the log at `end`.
    pub(super) fn wrote(&mut self, block: &SentBlock, end: u64, now: Instant) {
        if let Some(recall) = &mut self.outgoing.recall {
            let (content, new, wire) = (block.content, block.unmatched(), block.wire);
            recall.choice.wrote(end, Sent { content, new, wire }, now);
        }
    }

    /// A lane has nothing more to send now.
    pub(super) fn drained(&mut self) {
        if let Some(recall) = &mut self.outgoing.recall
            && self.lanes.iter_mut().all(|lane| lane.round().is_empty() && lane.writing() == 0)
        {
            recall.choice.drained();
        }
    }

    /// The acknowledged offset may have grown.
    pub(super) fn measure_link(&mut self, now: Instant) {
        let (offset, rtt) = (self.outgoing.acknowledged(), self.rtt.unwrap_or_default());
        if let Some(recall) = &mut self.outgoing.recall {
            recall.choice.acknowledged(offset, rtt, now);
        }
    }

    /// Appends content that was read for a flow of this lane to the log, and says so to the peer,
    /// unless it is what the flow is about to send.
    pub(super) fn recall(&mut self, lane: usize, out: &mut Vec<u8>) -> Back {
        if let Some(recall) = &mut self.outgoing.recall {
            let is_stalled =
                |id: FlowId| self.flows.get(&id).is_some_and(|flow| flow.credit_left() == 0);
            recall.ready.stop_waiting(lane, is_stalled);
        }
        let recall = self.outgoing.recall.as_ref();
        let Some(ready) = recall.and_then(|recall| recall.ready.front(lane)) else {
            return Back::Nothing;
        };
        let serves = self.serves(ready);
        let len = ready.bytes.len();
        if serves == Serves::Flow {
            let recall = self.outgoing.recall.as_mut();
            let waits = recall.and_then(|recall| recall.ready.wait_for_turn(lane));
            waits.into_iter().for_each(|(flow, look)| self.release_flow(flow, look));
            return Back::Done;
        }
        if serves == Serves::Log && self.outgoing.room(len) < len {
            self.counters.span_stalls += 1;
            return Back::Stalled;
        }
        let recall = self.outgoing.recall.as_mut();
        let Some(ready) = recall.and_then(|recall| recall.ready.pop(lane)) else {
            return Back::Nothing;
        };
        let Ready { stretch, bytes, has_waited, .. } = ready;
        if serves == Serves::Log {
            match self.outgoing.recall(&stretch, &bytes, None, out) {
                Ok(block) => {
                    self.counters.recalled_bytes += len as u64;
                    self.lanes[lane].wrote_block(NO_FLOW, block);
                }
                Err(error) => self.end(error.into()),
            }
        }
        if !has_waited {
            self.release_flow(stretch.flow, stretch.look);
        }
        Back::Done
    }

    /// What a stretch is for that both ends have.
    fn serves(&self, ready: &Ready) -> Serves {
        let Ready { stretch, bytes, has_waited, .. } = ready;
        let flow = self.flows.get(&stretch.flow).filter(|flow| flow.pending.reset.is_none());
        let Some(flow) = flow.filter(|_| stretch.log == self.outgoing.epoch().log) else {
            return Serves::Nothing;
        };
        // Looks overlap a little, and so may what they find.
        let passed = flow.sent.saturating_sub(stretch.at).min(bytes.len() as u64);
        let rest = &bytes[passed as usize..];
        if rest.is_empty() {
            return Serves::Nothing;
        }
        let before = stretch.at.saturating_sub(flow.sent);
        let is_next =
            !has_waited && flow.send.has(before, rest) && self.outgoing.recalls_for(&flow.stream);
        if is_next { Serves::Flow } else { Serves::Log }
    }

    /// Bytes at the front of a flow that go before content that both ends have. `None` if there is
    /// no such content.
    pub(super) fn before_recall(&mut self, id: FlowId) -> Option<usize> {
        let (recall, flow) = (self.outgoing.recall.as_mut()?, self.flows.get(&id)?);
        recall.pass(id, flow.sent);
        if flow.pending.reset.is_some() {
            return None;
        }
        recall.ready.next_of(id).map(|(at, _)| (at - flow.sent) as usize)
    }

    /// Sends what both ends have as the next block of a flow, as much as it has credit for. Returns
    /// whether there is room in the span.
    pub(super) fn recall_block(
        &mut self,
        lane: usize,
        id: FlowId,
        now: Instant,
        out: &mut Vec<u8>,
    ) -> bool {
        let (Some(recall), Some(flow)) = (&self.outgoing.recall, self.flows.get_mut(&id)) else {
            return true;
        };
        let whole = recall.ready.next_of(id).map_or(0, |(_, len)| len);
        let len = self.outgoing.room(whole.min(flow.credit_left()));
        if len == 0 {
            self.counters.span_stalls += 1;
            return false;
        }
        let recall = self.outgoing.recall.as_mut();
        let Some(ready) = recall.and_then(|recall| recall.ready.take(id, flow.sent, len)) else {
            return true;
        };
        let Ready { stretch, bytes, .. } = ready;
        if std::mem::take(&mut flow.is_turn) {
            flow.stream.begin_message();
        }
        flow.is_encrypted.get_or_insert_with(|| begins_encrypted(&bytes));
        let (start, markers) = (out.len(), flow.examined.take(bytes.len()));
        let block = (&mut flow.stream, markers);
        match self.outgoing.recall(&stretch, &bytes, Some(block), out) {
            Ok(block) => {
                let len = len as u64;
                let sent = SentBlock {
                    content: len,
                    wire: (out.len() - start) as u64,
                    matched: len,
                    residue: Residue::New,
                };
                flow.meter.iter().for_each(|meter| meter.sent(sent));
                self.config.sending.release(flow.send.pop(bytes.len()));
                self.counters.recalled_bytes += len;
                self.lanes[lane].wrote_block(id, block);
                self.wrote(&sent, self.outgoing.end(), now);
                self.left(lane, id, bytes.len());
            }
            Err(error) => self.end(error.into()),
        }
        true
    }

    /// The peer has recalled content. Returns whether the message is done with.
    pub(super) fn handle_recall(
        &mut self,
        lane: usize,
        flow: FlowId,
        from: u64,
        place: Recalled,
        len: u64,
        now: Instant,
    ) -> bool {
        let transport = self.lanes[lane].transport();
        let waiting = self.restoring.remove(&lane);
        let waiting = waiting.filter(|waiting| waiting.transport == transport);
        match waiting {
            Some(Restoring { bytes: Some(bytes), .. }) => {
                self.restored(lane, flow, from, place, bytes, now)
            }
            Some(waiting) => {
                self.restoring.insert(lane, waiting);
                self.lanes[lane].begin_fetch();
                false
            }
            None => {
                let limit = self.incoming.acknowledged();
                let end = from.saturating_add(len);
                if end > limit || !(1..=DEFAULT_BLOCK as u64).contains(&len) {
                    self.violation(Violation::Bounds {
                        what: "recalled content",
                        value: end,
                        limit,
                    });
                    return false;
                }
                let prepared = self.preparing.take(from, len);
                if let Some(Prepared { bytes: Some(bytes), .. }) = prepared {
                    return self.restored(lane, flow, from, place, Some(bytes), now);
                }
                if self.stored() == 0 {
                    return self.restored(lane, flow, from, place, None, now);
                }
                let (since, bytes) = (now, None);
                if let Some(Prepared { id: number, wants, fetch: id, since: begun, .. }) = prepared
                {
                    // It takes longer than the peer thought.
                    let announced = Some((number, wants, begun));
                    let waiting = Restoring { id, transport, len, since, announced, bytes };
                    self.restoring.insert(lane, waiting);
                    self.lanes[lane].begin_fetch();
                    return false;
                }
                self.fetches += 1;
                let (id, announced) = (self.fetches, None);
                let waiting = Restoring { id, transport, len, since, announced, bytes };
                self.restoring.insert(lane, waiting);
                self.lanes[lane].begin_fetch();
                let id = FetchId(Side::Receiving, id);
                self.events.push_back(Event::Fetch { id, side: Side::Receiving, range: from..end });
                false
            }
        }
    }

    /// Content that the peer has recalled, from offset `from` on, was read, or not. It is a block of a
    /// flow, or of none.
    fn restored(
        &mut self,
        lane: usize,
        flow: FlowId,
        from: u64,
        place: Recalled,
        bytes: Option<Vec<u8>>,
        now: Instant,
    ) -> bool {
        let done = match &bytes {
            Some(bytes) => self.incoming.recall(from, place, bytes),
            None => Err(IncomingError::Disk),
        };
        if let Err(error) = done {
            self.counters.lost_recalls += 1;
            self.lost_in_a_row += 1;
            self.frame_failed(lane, &error);
            return false;
        }
        self.lost_in_a_row = 0;
        let content = bytes.unwrap_or_default();
        if let Some(meter) = self.flows.get(&flow).and_then(|flow| flow.meter.as_ref()) {
            meter.received(content.len() as u64, RECALL_BYTES);
        }
        self.deliver(lane, flow, content, now);
        self.lanes.iter_mut().for_each(|lane| lane.retry(self.counters.received_blocks));
        true
    }

    /// Until when a disk is waited for.
    pub(super) fn disk_deadline(&self) -> Option<Instant> {
        let lanes = self.restoring.values().filter(|waiting| waiting.bytes.is_none());
        let lanes = lanes.map(|waiting| waiting.since + LANE_PATIENCE).min();
        let rtt = self.rtt.unwrap_or_default();
        let flows = self.outgoing.recall.as_ref().and_then(|recall| recall.deadline(rtt));
        lanes.into_iter().chain(flows).chain(self.preparing.deadline()).min()
    }

    /// What a disk did not give in time counts as lost.
    pub(super) fn give_up_disk(&mut self, now: Instant) {
        let rtt = self.rtt.unwrap_or_default();
        let recall = &mut self.outgoing.recall;
        let came: Vec<Came> = recall
            .iter_mut()
            .flat_map(|recall| std::iter::from_fn(|| recall.overdue(now, rtt)))
            .collect();
        came.into_iter().for_each(|came| self.came(came));
        while let Some(answer) = self.preparing.overdue(now) {
            self.answer_prepare(Some(answer));
        }
        let overdue =
            |waiting: &Restoring| waiting.bytes.is_none() && waiting.since + LANE_PATIENCE <= now;
        let lanes: Vec<usize> = self
            .restoring
            .iter()
            .filter(|(_, waiting)| overdue(waiting))
            .map(|(&lane, _)| lane)
            .collect();
        for lane in lanes {
            let waiting = self.restoring.remove(&lane);
            if waiting.is_some_and(|waiting| waiting.transport == self.lanes[lane].transport()) {
                self.counters.lost_recalls += 1;
                self.lost_in_a_row += 1;
                self.frame_failed(lane, &IncomingError::Disk);
            }
        }
    }
}
