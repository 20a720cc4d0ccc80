//! Content comes back from disk: [`crate::recall`] has what is looked for.

use super::*;
use crate::recall::{FetchId, LANE_PATIENCE, NO_FLOW, Restoring};
use crate::store::Run;
use oncewire_codec::Recalled;
use std::ops::Range;

/// Stretches in a row that a disk may fail to give before it is not asked any more.
const MOST_LOST: u64 = 8;
/// Bytes of a flow that are looked up at once.
const LOOK: usize = 2 * DEFAULT_BLOCK;

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
    pub fn supply(&mut self, id: FetchId, bytes: Option<Vec<u8>>, _now: Instant) {
        let FetchId(side, id) = id;
        match side {
            Side::Sending => self.supplied(id, bytes),
            Side::Receiving => {
                let waiting = self.restoring.iter_mut().find(|(_, waiting)| waiting.id == id);
                if let Some((&lane, waiting)) = waiting
                    && waiting.bytes.is_none()
                {
                    waiting.bytes = Some(bytes.filter(|bytes| bytes.len() as u64 == waiting.len));
                    if self.lanes[lane].transport() == waiting.transport {
                        self.lanes[lane].end_fetch();
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

    fn supplied(&mut self, id: u64, bytes: Option<Vec<u8>>) {
        let is_lost = bytes.is_none();
        let stretch = self.outgoing.recall.as_mut().and_then(|recall| recall.supply(id, bytes));
        let Some(stretch) = stretch else { return };
        if is_lost {
            self.counters.lost_recalls += 1;
            self.release_flow(stretch.flow);
        } else {
            self.wake(stretch.lane);
        }
    }

    /// One stretch less that a flow waits for.
    fn release_flow(&mut self, id: FlowId) {
        if let Some(flow) = self.flows.get_mut(&id) {
            flow.recalls = flow.recalls.saturating_sub(1);
            self.ready(id);
        }
    }

    /// Looks for what a flow is about to send in what lies only on disk. Returns whether it has to
    /// wait.
    pub(super) fn look_on_disk(&mut self, lane: usize, id: FlowId, now: Instant) -> bool {
        let Some(flow) = self.flows.get_mut(&id).filter(|flow| flow.examined.len == 0) else {
            return false;
        };
        let mut content = Vec::new();
        flow.send.copy_front(flow.sendable().min(LOOK), &mut content);
        let (domain, examined) = (flow.stream.domain(), &mut flow.examined);
        let found = self.outgoing.look_on_disk(lane, id, domain, &content, examined, now);
        flow.recalls = found.len();
        let is_waiting = !found.is_empty();
        self.events.extend(found.into_iter().map(|(id, range)| Event::Fetch {
            id,
            side: Side::Sending,
            range,
        }));
        is_waiting
    }

    /// Appends content that was read for a flow of this lane to the log, and says so to the peer.
    pub(super) fn recall(&mut self, lane: usize, out: &mut Vec<u8>) -> Back {
        let Some(recall) = &mut self.outgoing.recall else { return Back::Nothing };
        let ready = recall.ready.iter().position(|(stretch, _)| stretch.lane == lane);
        let Some((stretch, len)) = ready.map(|at| {
            let (stretch, bytes) = &recall.ready[at];
            (stretch.clone(), bytes.len())
        }) else {
            return Back::Nothing;
        };
        let wanted =
            stretch.log == self.outgoing.epoch().log && self.flows.contains_key(&stretch.flow);
        if wanted && self.outgoing.room(len) < len {
            self.counters.span_stalls += 1;
            return Back::Stalled;
        }
        let taken = self
            .outgoing
            .recall
            .as_mut()
            .zip(ready)
            .and_then(|(recall, at)| recall.ready.remove(at));
        if let Some((stretch, bytes)) = taken.filter(|_| wanted) {
            match self.outgoing.recall(&stretch, &bytes, out) {
                Ok(block) => {
                    self.counters.recalled_bytes += bytes.len() as u64;
                    self.lanes[lane].wrote_block(NO_FLOW, block);
                }
                Err(error) => self.end(error.into()),
            }
        }
        self.release_flow(stretch.flow);
        Back::Done
    }

    /// The peer has recalled content. Returns whether the message is done with.
    pub(super) fn handle_recall(
        &mut self,
        lane: usize,
        from: u64,
        place: Recalled,
        len: u64,
        now: Instant,
    ) -> bool {
        let transport = self.lanes[lane].transport();
        let waiting = self.restoring.remove(&lane);
        let waiting = waiting.filter(|waiting| waiting.transport == transport);
        match waiting {
            Some(Restoring { bytes: Some(bytes), .. }) => self.restored(lane, place, bytes),
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
                self.fetches += 1;
                let id = self.fetches;
                let bytes = (self.stored() == 0).then_some(None);
                if bytes.is_some() {
                    return self.restored(lane, place, None);
                }
                self.restoring.insert(lane, Restoring { id, transport, len, since: now, bytes });
                self.lanes[lane].begin_fetch();
                let id = FetchId(Side::Receiving, id);
                self.events.push_back(Event::Fetch { id, side: Side::Receiving, range: from..end });
                false
            }
        }
    }

    /// Content that the peer has recalled was read, or not.
    fn restored(&mut self, lane: usize, place: Recalled, bytes: Option<Vec<u8>>) -> bool {
        let done = match &bytes {
            Some(bytes) => self.incoming.recall(place, bytes),
            None => Err(IncomingError::Disk),
        };
        if let Err(error) = done {
            self.counters.lost_recalls += 1;
            self.lost_in_a_row += 1;
            self.frame_failed(lane, &error);
            return false;
        }
        self.lost_in_a_row = 0;
        self.counters.received_blocks += 1;
        self.lanes[lane].decoded(bytes.map_or(0, |bytes| bytes.len()));
        self.lanes.iter_mut().for_each(|lane| lane.retry(self.counters.received_blocks));
        true
    }

    /// Until when a disk is waited for.
    pub(super) fn disk_deadline(&self) -> Option<Instant> {
        let lanes = self.restoring.values().filter(|waiting| waiting.bytes.is_none());
        let lanes = lanes.map(|waiting| waiting.since + LANE_PATIENCE).min();
        let flows = self.outgoing.recall.as_ref().and_then(|recall| recall.deadline());
        lanes.into_iter().chain(flows).min()
    }

    /// What a disk did not give in time counts as lost.
    pub(super) fn give_up_disk(&mut self, now: Instant) {
        while let Some(id) = self.outgoing.recall.as_ref().and_then(|recall| recall.overdue(now)) {
            self.supplied(id, None);
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
