//! Frames that are written while the search for further blocks goes on, for a driver that has another
//! thread for them.

use super::*;
use crate::encode_job::Divides;
use crate::lane::Written;
use crate::outgoing::writing::MOST_WRITING;
use crate::write_job::WriteJob;

/// Blocks of fewer bytes are written at once, unless others are being written before them: handing
/// them to another thread would take longer.
const LEAST_DIVIDED: usize = 16 << 10;

impl Session {
    /// Takes back a job of which [`EncodeJob::find`] was called. Its frame is queued for
    /// [`Session::next_write`], and follows on its lane, in order, once it is written. Returns whether
    /// there is a frame to write and nobody does: then the caller sees to that.
    pub fn found(&mut self, job: EncodeJob, now: Instant) -> bool {
        let (Task { flow: id, lane, transport }, content) = (job.task, job.content());
        let (opened, opens) = (job.opened(), job.opens);
        self.note_searched(content, opened, now);
        let sent = job.result.is_ok().then(|| self.count_sent(id, &job));
        let is_current = self.is_current(lane, transport);
        let mut is_queued = false;
        match self.outgoing.take_back(job, sent, is_current) {
            Ok((encoded, stream)) => {
                if let Some(flow) = self.flows.get_mut(&id) {
                    flow.stream = stream;
                }
                let (state, end) = (&mut self.lanes[lane], self.outgoing.end());
                match (encoded, sent) {
                    // Behind those before it, even if the lane is closing.
                    (Encoded::Current(block), Some(sent)) if state.transport() == transport => {
                        is_queued = is_current;
                        state.begin_writing(id, block, end, sent);
                    }
                    (Encoded::Current(block) | Encoded::Earlier(block), _) => {
                        state.queue_block(id, block);
                    }
                    (Encoded::Gone, _) => {}
                }
            }
            Err(error) => self.end(error.into()),
        }
        if !is_queued {
            self.note_written(content, opened, opens, 0, now);
            sent.into_iter().for_each(|sent| self.meter(id, sent));
        }
        // They could not send blocks meanwhile.
        self.wake_where(Lane::has_unsent);
        self.note_memory();
        is_queued && !std::mem::replace(&mut self.has_writer, true)
    }

    /// The next frame to write: run it without a lock on the session, and give it back to
    /// [`Session::written`]. None while another one is out. Once none is, and this or that returns
    /// none, nobody writes, and the next [`Session::found`] says so.
    pub fn next_write(&mut self, now: Instant) -> Option<WriteJob> {
        let mut has_dropped = false;
        while let Some(mut job) = self.outgoing.next_write() {
            if self.ended.is_none() && self.is_current(job.task.lane, job.task.transport) {
                return Some(job);
            }
            // The lane sends the block on its next transport.
            job.result = Ok(());
            self.note_written(job.len, job.opened, job.opens, 0, now);
            self.meter(job.task.flow, job.sent);
            self.take_written(job);
            has_dropped = true;
        }
        if has_dropped {
            // What is sent again may have waited for them.
            self.wake_where(Lane::has_unsent);
        }
        self.has_writer &= self.outgoing.is_writing();
        None
    }

    /// Takes back a frame that was written, and returns the next one.
    pub fn written(&mut self, job: WriteJob, now: Instant) -> Option<WriteJob> {
        let (lane, block, content, opened) = (job.task.lane, job.block, job.len, job.opened);
        let (flow, opens, mut sent) = (job.task.flow, job.opens, job.sent);
        let is_current = self.is_current(lane, job.task.transport);
        let message = self.take_written(job);
        self.note_written(content, opened, opens, message.len(), now);
        sent.wire = message.len() as u64;
        self.meter(flow, sent);
        if is_current && self.lanes[lane].end_writing(block, message) {
            self.wake(lane);
        }
        // What is sent again may have waited for this.
        self.wake_where(Lane::has_unsent);
        self.note_memory();
        self.next_write(now)
    }

    /// Takes back a job. Returns the message.
    fn take_written(&mut self, job: WriteJob) -> Vec<u8> {
        self.outgoing.take_written(job).unwrap_or_else(|error| {
            self.end(error.into());
            Vec::new()
        })
    }

    /// Whether the frame of a block of `len` bytes may be written apart, or has to.
    pub(super) fn divides(&self, lane: usize, len: usize) -> Divides {
        if self.lanes[lane].writing() > 0 || self.outgoing.is_writing() {
            return Divides::Must;
        }
        // Only where the next block can be searched meanwhile, and this end is what is slow; and
        // where the time of a call is asked for, or all bytes of it padded, they belong together.
        let can = len >= LEAST_DIVIDED
            && self.queued > 0
            && self.pace.is_behind()
            && self.outgoing.writes_much()
            && self.all_writing() < MOST_WRITING
            && self.adapting.is_none()
            && self.config.pad == 0;
        if can { Divides::Can } else { Divides::No }
    }

    /// Whether another block of a lane may follow those that are being written, if any are.
    pub(super) fn may_add(&self, lane: usize) -> bool {
        let lane = &self.lanes[lane];
        let is_first = lane.writing() == 0;
        if is_first && !self.outgoing.is_writing() {
            return true;
        }
        let follows = lane.next_unsent().is_none() && !lane.has_control() && !lane.is_full();
        self.all_writing() < MOST_WRITING && (is_first || follows)
    }

    /// Blocks of all lanes that are being written, or wait for their transport since they were.
    fn all_writing(&self) -> usize {
        self.lanes.iter().map(Lane::writing).sum()
    }

    /// Appends messages of blocks that were written apart, in order.
    pub(super) fn append_written(
        &mut self,
        lane: usize,
        limit: usize,
        now: Instant,
        out: &mut Vec<u8>,
    ) {
        while out.len() < limit
            && let Some(Written { flow, id, end, mut message, sent }) =
                self.lanes[lane].take_written()
        {
            if out.is_empty() {
                std::mem::swap(out, &mut message);
            } else {
                out.extend_from_slice(&message);
            }
            self.outgoing.keep_message(message);
            self.lanes[lane].wrote_block(flow, id);
            self.wrote(&sent, end, now);
        }
    }

    /// Whether a lane still has the transport that a job was for.
    pub(super) fn is_current(&self, lane: usize, transport: u64) -> bool {
        let lane = self.lanes.get(lane);
        self.ended.is_none()
            && lane.is_some_and(|lane| lane.is_up() && lane.transport() == transport)
    }

    /// A block was searched.
    pub(super) fn note_searched(&mut self, content: usize, opened: u64, now: Instant) {
        if let Some(chooser) = &mut self.chooser {
            chooser.searched(content, opened, now);
        }
    }

    /// The frame of a block was written, or is not needed.
    pub(super) fn note_written(
        &mut self,
        content: usize,
        opened: u64,
        opens: bool,
        sent: usize,
        now: Instant,
    ) {
        if let Some(chooser) = &mut self.chooser {
            chooser.written(content, opened, sent, opens, now);
        }
        self.pace.encoded(content, now);
    }

    /// Tells a flow's meter what was sent of it.
    pub(super) fn meter(&self, flow: FlowId, sent: SentBlock) {
        if let Some(meter) = self.flows.get(&flow).and_then(|flow| flow.meter.as_ref()) {
            meter.sent(sent);
        }
    }
}
