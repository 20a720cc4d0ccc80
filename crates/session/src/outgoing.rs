//! The sending half of a direction: the encoder, its epoch, and the blocks that the peer is not
//! known to have.

mod disk;
pub(crate) mod log;
mod memory;
mod resting;
mod stored;
pub(crate) mod writing;

use crate::config::encoder_of;
use crate::domains::{ContextPool, Domains, Owner};
use crate::encode_job::{EncodeJob, EncoderFailed, Task};
use crate::epoch::{Epoch, Keep};
use crate::flow::SendQueue;
use crate::message::Message;
use crate::meter;
use crate::recall::Recall;
use crate::store::{LogHeader, Places, Queue, Repeat, RestoredSending, StoreKey};
use log::{BlockId, Known, SentBlock, SentLog};
use oncewire_codec::adapt::Effort;
use oncewire_codec::{
    DEFAULT_BLOCK, Domain, EncodeError, Encoder, EncoderBuilder, EncoderStats, Geometry, Sharing,
    Stream, Tokens,
};
use resting::Resting;
use std::collections::{HashMap, VecDeque};
use std::ops::Range;
use writing::{FoundJob, Writing};

/// What became of a block that an [`EncodeJob`] encoded.
pub(crate) enum Encoded {
    /// It is in the current log, and its frame may be sent.
    Current(BlockId),
    /// Another log has begun meanwhile: the block must be encoded again.
    Earlier(BlockId),
    /// The log was dropped.
    Gone,
}

/// A block of an earlier log, and its domain.
struct Rescued {
    domain: Domain,
    bytes: Box<[u8]>,
}

pub(crate) struct Outgoing {
    template: EncoderBuilder,
    /// Entropy contexts of each lane.
    contexts: usize,
    domains: Domains,
    pool: ContextPool,
    geometry: Geometry,
    log: Option<SentLog>,
    /// The log while it has no ring; `log` is `None` then.
    resting: Option<Resting>,
    /// The peer stores what it receives, and can go on with an empty ring.
    peer_goes_on: bool,
    /// An encoder is lent, at most one at a time.
    is_lent: bool,
    /// A log that was replaced while its encoder was lent. Its blocks are rescued when that is
    /// back.
    leaving: Option<SentLog>,
    /// Lanes whose entropy contexts are to be reset when the encoder, or its writer, is back.
    resets: Vec<usize>,
    /// Writers that left an encoder.
    generations: u64,
    /// Whether the last block had many literals to code.
    writes_much: bool,
    /// Buffers for the next frames that are written apart, at most [`MOST_WRITING`](writing::MOST_WRITING).
    spare_tokens: Vec<Tokens>,
    spare_messages: Vec<Vec<u8>>,
    /// Buffers for the next jobs' blocks, at most [`SPARES`].
    spare: Vec<Vec<u8>>,
    /// Blocks of earlier logs that are to be encoded again. A lane has at most a span of them,
    /// whichever logs they are from, because it encodes no new block before them.
    rescued: HashMap<BlockId, Rescued>,
    /// Statistics of earlier encoders.
    past: EncoderStats,
    /// The effort to encode with, if not the template's.
    effort: Option<Effort>,
    /// What a store has to write.
    store: Queue,
    /// What of the log lies on disk, if the driver can read it.
    pub(crate) recall: Option<Recall>,
    /// The current epoch, while it is not durable in the store: its EPOCH waits.
    uncommitted: Option<Epoch>,
}

impl Outgoing {
    /// `log` is the log's size in bytes, at least [`crate::SMALLEST_LOG`].
    /// Each lane has `contexts` entropy contexts. The driver has a store if there is a key for it.
    pub(crate) fn new(
        template: EncoderBuilder,
        log: u64,
        contexts: usize,
        store: Option<StoreKey>,
    ) -> Outgoing {
        let past = EncoderStats::default();
        Outgoing {
            template,
            contexts,
            domains: Domains::new(store),
            pool: ContextPool::new(contexts),
            geometry: geometry(log),
            log: None,
            resting: None,
            peer_goes_on: false,
            is_lent: false,
            leaving: None,
            resets: Vec::new(),
            generations: 0,
            writes_much: false,
            spare_tokens: Vec::new(),
            spare_messages: Vec::new(),
            spare: Vec::new(),
            rescued: HashMap::new(),
            past,
            effort: None,
            store: Queue::new(store.is_some()),
            recall: None,
            uncommitted: None,
        }
    }

    /// Puts a log back that was stored. It has yet to be continued by [`Outgoing::resume_at`].
    pub(crate) fn restore(&mut self, restored: RestoredSending) {
        let RestoredSending { header: LogHeader { epoch, capacity, key }, end, places, encoder } =
            restored;
        self.geometry = geometry(capacity);
        self.log = Some(SentLog {
            epoch,
            capacity,
            key,
            keep: Keep::Nothing,
            begin: 0,
            known: Known::of(&encoder),
            encoder: Some(encoder),
            most_domains: encoder_of(&self.template, capacity, self.contexts).memory().domains,
            blocks: VecDeque::new(),
            first: 0,
            acknowledged: end.offset,
            acknowledged_chain: end.chain,
            chain: end.chain,
            places,
            begins_again: false,
            writing: Writing::default(),
        });
    }

    /// The log has to begin again, whatever its size.
    pub(crate) fn begin_again(&mut self) {
        if let Some(log) = &mut self.log {
            log.begins_again = true;
        }
    }

    /// Whether the log has to begin again.
    pub(crate) fn begins_again(&self) -> bool {
        self.log.as_ref().is_some_and(|log| log.begins_again)
    }

    pub(crate) fn capacity(&self) -> u64 {
        self.geometry.capacity()
    }

    /// The beginning of a flow of an owner. All are of one domain if everything is shared.
    pub(crate) fn stream(&mut self, owner: &Owner) -> Stream {
        match self.template.shares() {
            Sharing::All => Stream::new(Domain::COMMON),
            Sharing::Chunks | Sharing::None => self.domains.stream(owner),
        }
    }

    pub(crate) fn domains(&self) -> &Domains {
        &self.domains
    }

    /// Another session begins, whose counters start at 0.
    pub(crate) fn reset_domain_counts(&mut self) {
        (self.domains.forgotten, self.domains.unknown) = (0, 0);
    }

    /// Uses no more than this number of entropy contexts for each lane from now on.
    pub(crate) fn limit_contexts(&mut self, per_lane: usize) {
        self.pool.limit(per_lane);
    }

    pub(crate) fn epoch(&self) -> Epoch {
        self.log.as_ref().map_or(Epoch::NONE, |log| log.epoch)
    }

    /// Begins an empty log of `size` bytes named `log`. `key` keys the fingerprints, so that nobody
    /// can prepare content that collides. Copies the unacknowledged blocks of the log before, to be
    /// encoded again.
    pub(crate) fn begin(&mut self, log: u64, key: u64, size: u64) -> Result<(), EncoderFailed> {
        let epoch = Epoch { log, number: 0 };
        self.geometry = geometry(size);
        let (encoder, most_domains) = self.new_encoder(epoch, key, size)?;
        self.resting = None;
        self.store.begin(LogHeader { epoch, capacity: size, key });
        if let Some(recall) = &mut self.recall {
            recall.clear();
        }
        self.uncommitted = self.store.has_store().then_some(epoch);
        let new = SentLog {
            epoch,
            capacity: size,
            key,
            keep: Keep::Nothing,
            begin: 0,
            known: Known::of(&encoder),
            encoder: Some(Box::new(encoder)),
            most_domains,
            blocks: VecDeque::new(),
            first: 0,
            acknowledged: 0,
            acknowledged_chain: 0,
            chain: 0,
            places: Places::default(),
            begins_again: false,
            writing: Writing::default(),
        };
        self.resets.clear();
        if let Some(old) = self.log.replace(new) {
            if old.encoder.is_some() {
                self.rescue(&old);
            } else {
                self.leaving = Some(old);
            }
        }
        Ok(())
    }

    /// Copies the unacknowledged blocks of an earlier log, to be encoded again.
    fn rescue(&mut self, old: &SentLog) {
        let Some(encoder) = &old.encoder else { return };
        add(&mut self.past, encoder.stats());
        for (number, block) in
            (old.first..).zip(&old.blocks).filter(|(_, block)| !block.acknowledged)
        {
            let range = block.offset..block.offset + u64::from(block.len);
            if let Some(bytes) = encoder.content(range) {
                let rescued = Rescued { domain: block.domain, bytes: bytes.into() };
                self.rescued.insert(BlockId { log: old.epoch.log, number }, rescued);
            }
        }
    }

    /// Drops the log and frees its memory; the next block begins a new one.
    pub(crate) fn discard(&mut self) {
        self.rescued.clear();
        self.leaving = None;
        let (rested, old) = (self.resting.take().is_some(), self.log.take());
        if let Some(old) = &old {
            add(&mut self.past, old.known.stats);
        }
        if rested || old.is_some() {
            self.store.drop_log();
            self.uncommitted = None;
            if let Some(recall) = &mut self.recall {
                recall.clear();
            }
        }
    }

    /// Drops what cannot outlive the session: a log whose encoder is lent, or was lost; and frames
    /// that are being written.
    pub(crate) fn settle(&mut self) {
        if let Some(log) = &mut self.log {
            log.stop_writing();
        }
        if std::mem::take(&mut self.is_lent) {
            self.leaving = None;
            if self.log.as_ref().is_some_and(|log| log.encoder.is_none()) {
                self.discard();
            }
        }
    }

    /// EPOCH of the current epoch.
    pub(crate) fn epoch_message(&self) -> Message<'static> {
        let keep = self.log.as_ref().map_or(Keep::Nothing, |log| log.keep);
        Message::Epoch(self.epoch(), keep, self.capacity())
    }

    /// The acknowledged offset: the peer has decoded everything below.
    pub(crate) fn acknowledged(&self) -> u64 {
        self.log.as_ref().map_or(0, |log| log.acknowledged)
    }

    /// Bytes of offsets since the ring began, empty: more than its size once it was overwritten.
    pub(crate) fn filled(&self) -> u64 {
        self.log.as_ref().map_or(0, |log| log.known.end.saturating_sub(log.begin))
    }

    /// The offset at the end of the log.
    pub(crate) fn end(&self) -> u64 {
        self.log.as_ref().map_or(0, |log| log.known.end)
    }

    /// How much of a block of `len` bytes may be encoded now: it must not end more than a span
    /// above the acknowledged offset.
    pub(crate) fn room(&self, len: usize) -> usize {
        let Some(log) = &self.log else { return len };
        if log.blocks.is_empty() {
            return len;
        }
        let limit = log.acknowledged + self.geometry.span();
        let fits = |len: usize| self.geometry.place(log.known.end, len) + len as u64 <= limit;
        if fits(len) {
            return len;
        }
        // At the end of a generation a shorter block may fit where a longer one would begin the
        // next.
        usize::try_from(limit.saturating_sub(log.known.end))
            .ok()
            .filter(|&less| less < len && fits(less))
            .unwrap_or(0)
    }

    /// Whether blocks may be in flight, or are yet to be encoded again: such as those of a lane that
    /// is down while another one began a log.
    pub(crate) fn has_unacknowledged(&self) -> bool {
        self.is_lent
            || !self.rescued.is_empty()
            || self.log.as_ref().is_some_and(|log| !log.blocks.is_empty())
    }

    /// Sets the effort from the next block on.
    pub(crate) fn set_effort(&mut self, effort: Effort) {
        self.effort = Some(effort);
        if let Some(encoder) = self.encoder_mut() {
            encoder.set_effort(effort);
        }
    }

    /// The encoder of the current log, unless it is lent.
    fn encoder_mut(&mut self) -> Option<&mut Encoder> {
        self.log.as_mut()?.encoder.as_deref_mut()
    }

    /// Whether an encoder is lent. Nothing can be encoded or repeated meanwhile.
    pub(crate) fn is_lent(&self) -> bool {
        self.is_lent
    }

    /// Whether no block can be encoded now: the encoder is lent, or something is to be reset before.
    pub(crate) fn is_busy(&self) -> bool {
        self.is_lent || (!self.resets.is_empty() && self.is_writing())
    }

    /// Lends the encoder for the next block of a flow: the first `most` bytes of `queue`; or, if more
    /// follows, a piece that is almost as long, or as many as end where a chunk does
    /// ([`Encoder::whole_chunks`]). `opens` says whether to look inside compressed content. Removes
    /// the block from the queue, and returns how many bytes to release to the budget.
    pub(crate) fn lend(
        &mut self,
        task: Task,
        mut stream: Stream,
        queue: &mut SendQueue,
        most: usize,
        explicit: bool,
        opens: bool,
    ) -> Result<(EncodeJob, u64), EncoderFailed> {
        self.apply_resets();
        let (context, reset) = self.pool.of(task.lane, stream.domain());
        let log = self.log.as_mut().ok_or_else(|| EncoderFailed::new("no log"))?;
        log.join();
        let encoder = log.encoder.take().ok_or_else(|| EncoderFailed::new("it is lent"))?;
        let ahead = encoder.ahead(&stream);
        let whole = queue.large_front().filter(|&len| ahead == 0 && len <= most);
        let (content, len, release) = match whole {
            Some(len) => {
                let (content, release) = queue.take_front();
                (content, len, release)
            }
            None => {
                let mut content = self.spare.pop().unwrap_or_default();
                queue.copy_front(most + ahead, &mut content);
                let len = match most < queue.len() {
                    true => encoder.whole_chunks(&mut stream, &content, most),
                    false => most,
                };
                content.truncate(len + ahead);
                (content, len, queue.pop(len))
            }
        };
        self.is_lent = true;
        let log = log.epoch.log;
        let job = EncodeJob::new(
            task, log, encoder, stream, content, len, context, reset, explicit, opens,
        );
        Ok((job, release))
    }

    /// An empty buffer that can hold a block.
    pub(crate) fn take_spare(&mut self) -> Vec<u8> {
        let mut spare = self.spare.pop().unwrap_or_default();
        spare.reserve_exact(DEFAULT_BLOCK);
        spare
    }

    /// Keeps a buffer for later, if there is not enough of them.
    pub(crate) fn keep_spare(&mut self, mut spare: Vec<u8>) {
        if self.spare.len() < SPARES {
            spare.clear();
            self.spare.push(spare);
        }
    }

    /// Frees buffers that are kept for later.
    pub(crate) fn free_buffers(&mut self) {
        self.spare = Vec::new();
        self.spare_tokens = Vec::new();
        self.spare_messages = Vec::new();
    }

    /// Takes back what [`Outgoing::lend`] lent. The block's flow goes on with the stream. If its
    /// frame is yet to be written, and `is_wanted`, it is queued for that; `sent` is what it was.
    pub(crate) fn take_back(
        &mut self,
        job: EncodeJob,
        sent: Option<meter::SentBlock>,
        is_wanted: bool,
    ) -> Result<(Encoded, Stream), EncoderFailed> {
        self.is_lent = false;
        let opened = job.opened();
        let EncodeJob { task, log: id, encoder, stream, content, len, .. } = job;
        let EncodeJob { context, reset, opens, result, markers, is_found, .. } = job;
        let (block_len, domain) = (len, stream.domain());
        let len = len as u32;
        let current = self.log.as_mut().filter(|log| log.epoch.log == id);
        let is_current = current.is_some();
        let Some(log) = current.or(self.leaving.as_mut().filter(|log| log.epoch.log == id)) else {
            self.keep_spare(content);
            return Ok((Encoded::Gone, stream));
        };
        let known = Known::of(&encoder);
        let checksum = encoder.last_checksum();
        self.writes_much = encoder.last_writes_much();
        log.encoder = Some(encoder);
        result?;
        let (number, stored) = log.push(checksum, known.end, len, domain);
        let repeats = if self.store.has_store() { log.repeats(stored.offset) } else { Vec::new() };
        log.known = known;
        let block = BlockId { log: id, number };
        if is_current {
            let again = Repeat::is_most(&repeats, block_len);
            self.note_block(domain, &content[..block_len], markers, again);
        }
        match sent.filter(|_| is_found && is_current && is_wanted) {
            Some(sent) => {
                let len = block_len;
                let found = FoundJob { task, content, len, context, reset, opened, opens };
                self.queue_frame(found, block, sent);
            }
            None => self.keep_spare(content),
        }
        if is_current {
            self.store.push(stored, repeats);
            self.copy_to_store();
            let effort = self.effort;
            self.apply_resets();
            if let (Some(effort), Some(encoder)) = (effort, self.encoder_mut()) {
                encoder.set_effort(effort);
            }
            return Ok((Encoded::Current(block), stream));
        }
        if let Some(old) = self.leaving.take() {
            self.rescue(&old);
        }
        Ok((Encoded::Earlier(block), stream))
    }

    /// Encodes a block again, with its domain's entropy context on the lane, and appends its frame
    /// to `out`.
    fn encode(
        &mut self,
        block: &[u8],
        stream: &mut Stream,
        lane: usize,
        explicit: bool,
        out: &mut Vec<u8>,
    ) -> Result<BlockId, EncoderFailed> {
        let domain = stream.domain();
        self.apply_resets();
        let (context, reset) = self.pool.of(lane, domain);
        let log = self.log.as_mut().ok_or_else(|| EncoderFailed::new("no log"))?;
        let failed = |error: EncodeError| EncoderFailed::new(error);
        log.join();
        let encoder = log.encoder.as_mut().ok_or_else(|| EncoderFailed::new("it is lent"))?;
        encoder.set_explicit_offsets(explicit);
        if reset {
            encoder.reset_context(context).map_err(failed)?;
        }
        encoder.encode_stream(stream, block, context).map_err(failed)?.append_to(out);
        let (known, checksum) = (Known::of(encoder), encoder.last_checksum());
        let (number, stored) = log.push(checksum, known.end, block.len() as u32, domain);
        let repeats = if self.store.has_store() { log.repeats(stored.offset) } else { Vec::new() };
        log.known = known;
        let id = BlockId { log: log.epoch.log, number };
        self.note_block(domain, block, None, Repeat::is_most(&repeats, block.len()));
        self.store.push(stored, repeats);
        self.copy_to_store();
        Ok(id)
    }

    /// Appends a frame that carries a block again: literally at its offset, or encoded anew if it
    /// is of an earlier log. Returns the block's id from now on and its length in bytes.
    pub(crate) fn encode_again(
        &mut self,
        id: BlockId,
        lane: usize,
        explicit: bool,
        out: &mut Vec<u8>,
    ) -> Result<(BlockId, u64), EncoderFailed> {
        let lost = || EncoderFailed::new("a block that was not acknowledged has left the log");
        if id.log == self.epoch().log {
            let log = self.log.as_mut().ok_or_else(lost)?;
            let SentBlock { offset, len, .. } = log.block(id).ok_or_else(lost)?;
            let encoder = log.encoder.as_ref().ok_or_else(lost)?;
            encoder.repair(offset, len as usize, out).map_err(EncoderFailed::new)?;
            return Ok((id, len.into()));
        }
        let Rescued { domain, bytes } = self.rescued.remove(&id).ok_or_else(lost)?;
        // Where it was in its flow is not known any more, nor whether others may have it.
        let new = self.encode(&bytes, &mut Stream::unshared(domain), lane, explicit, out)?;
        Ok((new, bytes.len() as u64))
    }

    /// Whether the span allows a block to be sent again now, and what encodes it is here.
    pub(crate) fn may_send_again(&self, id: BlockId) -> bool {
        if self.is_lent {
            return false;
        }
        if id.log == self.epoch().log {
            return true;
        }
        if self.is_writing() {
            return false;
        }
        let len = self.rescued.get(&id).map_or(0, |rescued| rescued.bytes.len());
        self.room(len) == len
    }

    /// The peer has decoded a block.
    pub(crate) fn acknowledge(&mut self, id: BlockId) {
        if let Some(recall) = &mut self.recall {
            recall.acknowledge(id);
        }
        let logs = self.log.iter_mut().chain(&mut self.leaving);
        match logs.into_iter().find(|log| log.epoch.log == id.log) {
            Some(log) => log.acknowledge(id.number),
            None => {
                self.rescued.remove(&id);
            }
        }
    }

    pub(crate) fn unacknowledged(&self) -> u64 {
        self.log.as_ref().map_or(0, |log| log.known.end - log.acknowledged)
    }

    pub(crate) fn stats(&self) -> EncoderStats {
        let mut stats = self.past;
        if let Some(log) = &self.log {
            add(&mut stats, log.known.stats);
        }
        stats
    }
}

/// Most buffers that are kept: one for a job, one for an application.
const SPARES: usize = 2;
/// Largest number of an epoch that is continued: a peer may say anything.
const MOST_EPOCHS: u64 = 1 << 61;

fn geometry(log: u64) -> Geometry {
    Geometry::new(log, log / 4).expect("sizes of logs are checked when they are agreed on")
}

fn add(sum: &mut EncoderStats, more: EncoderStats) {
    sum.blocks += more.blocks;
    sum.block_bytes += more.block_bytes;
    sum.matches += more.matches;
    sum.matched_bytes += more.matched_bytes;
    sum.incompressible_blocks += more.incompressible_blocks;
    sum.inside.opened_bytes += more.inside.opened_bytes;
    sum.inside.found_bytes += more.inside.found_bytes;
    sum.inside.saved_bytes += more.inside.saved_bytes;
    sum.inside.declined_bytes += more.inside.declined_bytes;
    sum.inside.work += more.inside.work;
}
