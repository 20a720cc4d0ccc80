//! Content of the sending log that lies only on disk.

use super::*;
use crate::flow::FlowId;
use crate::recall::examined::{Examined, Markers};
use crate::recall::{Around, Looked, NO_FLOW, StoreFor, Stretch};
use crate::store::{Repeat, Run, domain_of_owner};
use std::time::Instant;

impl Outgoing {
    /// The driver can read `stored` bytes of the log, with this goal. A session begins.
    pub(crate) fn set_stored(&mut self, stored: u64, goal: StoreFor) {
        if stored == 0 || !self.has_store() {
            self.recall = None;
            return;
        }
        if let Some(recall) = &mut self.recall {
            return recall.settle(goal);
        }
        let mut recall = Recall::new(stored, goal);
        // What came back after a restart.
        if let Some(SentLog { encoder: Some(encoder), key, capacity, epoch, .. }) = &self.log {
            let end = encoder.end();
            let mut at = end.saturating_sub(*capacity);
            let mut begin = end;
            while at < end {
                let generation = at - at % capacity + capacity;
                let next = (at + DEFAULT_BLOCK as u64).min(end).min(generation);
                let owners = encoder.owners(at..next);
                for (nth, &(start, domain)) in owners.iter().enumerate() {
                    let start = start.max(at);
                    let end = owners.get(nth + 1).map_or(next, |(start, _)| *start);
                    if let Some(content) = encoder.content(start..end) {
                        begin = begin.min(start);
                        recall.note(epoch.log, domain, *key, start, content, None, false);
                    }
                }
                at = next;
            }
            recall.found(begin, end);
        }
        self.recall = Some(recall);
    }

    /// Bytes of the log that the peer can read from disk.
    pub(crate) fn set_peer_stored(&mut self, stored: u64) {
        if let Some(recall) = &mut self.recall {
            recall.peer = stored;
        }
    }

    /// Whether anything can be read from disk.
    pub(crate) fn recalls(&self) -> bool {
        self.recall.as_ref().is_some_and(|recall| recall.peer > 0)
    }

    /// How many looks of a flow may be under way: more than one where content is looked up before what
    /// precedes it is sent.
    pub(crate) fn looks(&self) -> usize {
        self.recall.as_ref().map_or(1, |recall| recall.looks(self.capacity()))
    }

    /// As [`Outgoing::looks`], where what another look finds can be read now.
    pub(crate) fn looks_now(&self) -> usize {
        if self.recall.as_ref().is_some_and(Recall::has_room) { self.looks() } else { 1 }
    }

    /// The log's id, and content of it that an earlier process stored and that no hook leads to.
    pub(crate) fn unhooked(&self) -> Option<(u64, Range<u64>)> {
        let (recall, log) = (self.recall.as_ref()?, self.log.as_ref()?);
        Some((log.epoch.log, recall.unhooked()?))
    }

    /// Content of a log from `offset` up to where [`Outgoing::unhooked`] ends; `None` if it cannot
    /// be read.
    pub(crate) fn hook(&mut self, id: u64, offset: u64, content: Option<&[u8]>, runs: &[Run]) {
        let sharing = self.template.shares();
        let Some((known, range)) = self.unhooked() else { return };
        let (Some(recall), Some(log)) = (&mut self.recall, &self.log) else { return };
        if known != id || !range.contains(&offset) {
            return;
        }
        match content.filter(|content| offset + content.len() as u64 == range.end) {
            Some(content) => {
                let owner = |run: &Run| (run.start, domain_of_owner(run.owner, sharing));
                let known = runs.iter().map(owner);
                // What lies before the first run belongs to nobody.
                let owners: Vec<_> = [(0, Domain::NOBODY)].into_iter().chain(known).collect();
                recall.note_found(log.key, offset, content, &owners);
            }
            None => recall.skip_found(offset),
        }
    }

    /// The newest block of the log is this.
    pub(super) fn note_block(
        &mut self,
        domain: Domain,
        content: &[u8],
        known: Option<Markers>,
        repeats: bool,
    ) {
        if let (Some(recall), Some(log)) = (&mut self.recall, &self.log) {
            let offset = log.known.end - content.len() as u64;
            recall.note(log.epoch.log, domain, log.key, offset, content, known, repeats);
        }
    }

    /// What of the disk to read before content of a flow is encoded, which begins there in it: see
    /// [`Recall::look`].
    #[expect(clippy::too_many_arguments, reason = "one caller, which has each of them by name")]
    pub(crate) fn look_on_disk(
        &mut self,
        lane: usize,
        flow: (FlowId, u64),
        domain: Domain,
        content: &[u8],
        around: Around,
        examined: &mut Examined,
        now: Instant,
    ) -> Looked {
        let (Some(recall), Some(log)) = (&mut self.recall, &self.log) else {
            examined.pass(content.len());
            return Looked::default();
        };
        let ((flow, at), log_id) = (flow, log.epoch.log);
        let at = Stretch { flow, lane, log: log_id, domain, range: 0..0, at, look: 0 };
        recall.look(&at, log.key, self.geometry, content, around, examined, now)
    }

    /// Whether content of a flow may be recalled as its next block: not where domains share chunks,
    /// which a block that is recalled does not tell of.
    pub(crate) fn recalls_for(&self, stream: &Stream) -> bool {
        let encoder = self.log.as_ref().and_then(|log| log.encoder.as_ref());
        encoder.is_some_and(|encoder| encoder.ahead(stream) == 0)
    }

    /// Appends content to the log that was read from disk, and RECALL to `out`: with the block's flow,
    /// and its markers, if it is one.
    pub(crate) fn recall(
        &mut self,
        stretch: &Stretch,
        content: &[u8],
        block: Option<(&mut Stream, Option<Markers>)>,
        out: &mut Vec<u8>,
    ) -> Result<BlockId, EncoderFailed> {
        let log = self.log.as_mut().ok_or_else(|| EncoderFailed::new("no log"))?;
        let encoder = log.encoder.as_mut().ok_or_else(|| EncoderFailed::new("it is lent"))?;
        let (flow, place, markers) = match block {
            Some((stream, markers)) => {
                (stretch.flow, encoder.recall_stream(stream, content), markers)
            }
            None => (NO_FLOW, encoder.recall(stretch.domain, content), None),
        };
        let place = place.map_err(EncoderFailed::new)?;
        let (known, len) = (Known::of(encoder), content.len() as u32);
        let (number, stored) = log.push(place.checksum, known.end, len, stretch.domain);
        let source = stretch.range.start;
        let repeats = vec![Repeat { offset: stored.offset, source, len: len.into() }];
        log.known = known;
        let id = BlockId { log: log.epoch.log, number };
        Message::Recall { flow, from: source, place, len: len.into() }.write(out);
        self.note_block(stretch.domain, content, markers, true);
        if let Some(recall) = &mut self.recall {
            recall.sent(id, stretch.range.clone());
        }
        self.store.push(stored, repeats);
        self.copy_to_store();
        Ok(id)
    }

    /// One of the disks does not have a range of the log.
    pub(crate) fn refuse(&mut self, range: Range<u64>) {
        if let Some(recall) = self.recall.as_mut().filter(|_| range.start < range.end) {
            recall.refuse(range);
        }
    }

    /// A block is sent that the peer was to read from disk.
    pub(crate) fn not_recalled(&mut self, id: BlockId) {
        if let Some(recall) = &mut self.recall {
            recall.refused(id);
        }
    }
}
