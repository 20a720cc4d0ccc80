//! The sending half of a direction: the encoder, its epoch, and what of it the peer is known to have.

use crate::config::encoder_of;
use crate::hello::LogState;
use crate::message::{Epoch, Message};
use oncewire_codec::adapt::Effort;
use oncewire_codec::matcher::MatchStats;
use oncewire_codec::{ChecksumSeed, Encoder, EncoderBuilder, EncoderMemory, EncoderStats, Geometry};
use std::collections::{HashMap, VecDeque};

/// What the next block's chain value is, given the one before: the hash over everything up to it. XXH3-64 of both numbers.
pub(crate) fn chain(before: u64, checksum: u64) -> u64 {
    let mut bytes = [0; 16];
    bytes[..8].copy_from_slice(&before.to_le_bytes());
    bytes[8..].copy_from_slice(&checksum.to_le_bytes());
    xxhash_rust::xxh3::xxh3_64(&bytes)
}

impl Epoch {
    /// Frames of another epoch fail their checksums.
    pub(crate) fn seed(self) -> ChecksumSeed {
        ChecksumSeed { session: self.log, epoch: self.number }
    }
}

/// Names an encoded block: which log, and its number there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct BlockId {
    log: u64,
    number: u64,
}

/// A block that is not known to be decoded, or behind one that is not.
#[derive(Clone, Copy, Debug)]
struct Sent {
    offset: u64,
    len: u32,
    acked: bool,
    chain: u64,
}

/// An encoder and its unacknowledged blocks.
struct Content {
    epoch: Epoch,
    /// Where the epoch began, if not with an empty log.
    keep: Option<u64>,
    encoder: Encoder,
    blocks: VecDeque<Sent>,
    /// Number of the first of `blocks`.
    first: u64,
    /// The peer has everything below this offset, and the chain up to it.
    low: u64,
    low_chain: u64,
    chain: u64,
}

impl Content {
    fn block(&self, id: BlockId) -> Option<Sent> {
        (id.log == self.epoch.log).then_some(())?;
        self.blocks.get(usize::try_from(id.number.checked_sub(self.first)?).ok()?).copied()
    }
}

/// What could not be done for want of memory or offsets. The session cannot go on.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("cannot encode: {0}")]
pub struct EncoderFailed(String);

pub(crate) struct Outgoing {
    template: EncoderBuilder,
    geometry: Geometry,
    content: Option<Content>,
    /// Blocks of earlier logs that are to be sent again. A lane holds at most a span of them, whichever logs they are from: no block is
    /// encoded for it before they are.
    rescued: HashMap<BlockId, Box<[u8]>>,
    /// Of encoders that are gone.
    past: EncoderStats,
    /// What to spend on a block, if not all that the template says.
    effort: Option<Effort>,
}

impl Outgoing {
    /// `log` has been checked: not smaller than [`crate::config::SMALLEST_LOG`].
    pub(crate) fn new(template: EncoderBuilder, log: u64) -> Outgoing {
        let past = EncoderStats::default();
        Outgoing { template, geometry: geometry(log), content: None, rescued: HashMap::new(), past, effort: None }
    }

    pub(crate) fn capacity(&self) -> u64 {
        self.geometry.capacity()
    }

    pub(crate) fn epoch(&self) -> Epoch {
        self.content.as_ref().map_or(Epoch::NONE, |content| content.epoch)
    }

    /// Begins an empty log of the given size. `key` keeps fingerprints secret from those who would collide them. What is not acknowledged
    /// of the log before is kept, to be encoded anew.
    pub(crate) fn begin(&mut self, log: u64, key: u64, size: u64) -> Result<(), EncoderFailed> {
        let epoch = Epoch { log, number: 0 };
        self.geometry = geometry(size);
        let mut encoder = encoder_of(&self.template, size)
            .fingerprint_key(key)
            .checksum_seed(epoch.seed())
            .build()
            .map_err(|error| EncoderFailed(error.to_string()))?;
        if let Some(effort) = self.effort {
            encoder.set_effort(effort);
        }
        let new = Content { epoch, keep: None, encoder, blocks: VecDeque::new(), first: 0, low: 0, low_chain: 0, chain: 0 };
        if let Some(old) = self.content.replace(new) {
            add(&mut self.past, old.encoder.stats());
            for (number, block) in (old.first..).zip(&old.blocks).filter(|(_, block)| !block.acked) {
                if let Some(bytes) = old.encoder.content(block.offset..block.offset + u64::from(block.len)) {
                    self.rescued.insert(BlockId { log: old.epoch.log, number }, bytes.into());
                }
            }
        }
        Ok(())
    }

    /// Gives all memory back; the next block begins a new log.
    pub(crate) fn forget(&mut self) {
        self.rescued.clear();
        if let Some(old) = self.content.take() {
            add(&mut self.past, old.encoder.stats());
        }
    }

    /// Goes on where a peer's decoder stands, in a new epoch, with all that both have. `false` if that is not possible.
    pub(crate) fn resume_at(&mut self, peer: LogState) -> bool {
        // What an earlier session did not get across is over with its flows.
        self.rescued.clear();
        let Some(content) = &mut self.content else { return false };
        if peer.epoch != content.epoch {
            return false;
        }
        let known = if peer.low == content.low {
            Some(content.low_chain)
        } else {
            content.blocks.iter().find(|block| block.offset + u64::from(block.len) == peer.low).map(|block| block.chain)
        };
        if known != Some(peer.chain) {
            return false;
        }
        let epoch = Epoch { number: content.epoch.number + 1, ..content.epoch };
        if content.encoder.rewind(peer.low, epoch.seed()).is_err() {
            return false;
        }
        content.first += content.blocks.len() as u64;
        content.blocks.clear();
        (content.epoch, content.keep) = (epoch, Some(peer.low));
        (content.low, content.low_chain, content.chain) = (peer.low, peer.chain, peer.chain);
        true
    }

    /// How the epoch at hand began.
    pub(crate) fn epoch_message(&self) -> Message<'static> {
        Message::Epoch(self.epoch(), self.content.as_ref().and_then(|content| content.keep), self.capacity())
    }

    /// End of what the peer is known to have.
    pub(crate) fn low(&self) -> u64 {
        self.content.as_ref().map_or(0, |content| content.low)
    }

    pub(crate) fn end(&self) -> u64 {
        self.content.as_ref().map_or(0, |content| content.encoder.end())
    }

    /// Bytes of a block that may be encoded now (DESIGN section 5: no further than a span above what the peer has contiguously).
    pub(crate) fn room(&self, len: usize) -> usize {
        let Some(content) = &self.content else { return len };
        if content.blocks.is_empty() {
            return len;
        }
        let limit = content.low + self.geometry.span();
        let fits = |len: usize| self.geometry.place(content.encoder.end(), len) + len as u64 <= limit;
        if fits(len) {
            return len;
        }
        // At the end of a lap a shorter block fits where a longer one would begin the next.
        usize::try_from(limit.saturating_sub(content.encoder.end())).ok().filter(|&less| less < len && fits(less)).unwrap_or(0)
    }

    pub(crate) fn has_unacknowledged(&self) -> bool {
        self.content.as_ref().is_some_and(|content| !content.blocks.is_empty())
    }

    /// What to spend on each block from the next on.
    pub(crate) fn set_effort(&mut self, effort: Effort) {
        self.effort = Some(effort);
        if let Some(content) = &mut self.content {
            content.encoder.set_effort(effort);
        }
    }

    /// Encodes a block with a lane's entropy context and appends its frame to `out`.
    pub(crate) fn encode(
        &mut self,
        block: &[u8],
        lane: usize,
        explicit: bool,
        out: &mut Vec<u8>,
    ) -> Result<BlockId, EncoderFailed> {
        let content = self.content.as_mut().ok_or_else(|| EncoderFailed("no log".into()))?;
        content.encoder.set_explicit_offsets(explicit);
        let frame = content.encoder.encode_frame(block, lane).map_err(|error| EncoderFailed(error.to_string()))?;
        frame.append_to(out);
        content.chain = chain(content.chain, content.encoder.last_checksum());
        let len = block.len() as u32;
        let offset = content.encoder.end() - u64::from(len);
        content.blocks.push_back(Sent { offset, len, acked: false, chain: content.chain });
        Ok(BlockId { log: content.epoch.log, number: content.first + content.blocks.len() as u64 - 1 })
    }

    /// Appends a frame that carries a block once more: literally where it was, or encoded anew if it was encoded in an earlier epoch. Returns
    /// its name from now on and its length in bytes.
    pub(crate) fn encode_again(
        &mut self,
        id: BlockId,
        lane: usize,
        explicit: bool,
        out: &mut Vec<u8>,
    ) -> Result<(BlockId, u64), EncoderFailed> {
        let lost = || EncoderFailed("a block that was not acknowledged has left the log".into());
        if id.log == self.epoch().log {
            let content = self.content.as_mut().ok_or_else(lost)?;
            let Sent { offset, len, .. } = content.block(id).ok_or_else(lost)?;
            content.encoder.repair(offset, len as usize, out).map_err(|error| EncoderFailed(error.to_string()))?;
            return Ok((id, len.into()));
        }
        let bytes = self.rescued.remove(&id).ok_or_else(lost)?;
        let new = self.encode(&bytes, lane, explicit, out)?;
        Ok((new, bytes.len() as u64))
    }

    /// Whether a block can be sent again now, as far as the span is concerned.
    pub(crate) fn may_send_again(&self, id: BlockId) -> bool {
        if id.log == self.epoch().log {
            return true;
        }
        let len = self.rescued.get(&id).map_or(0, |bytes| bytes.len());
        self.room(len) == len
    }

    /// The peer has decoded a block.
    pub(crate) fn acknowledge(&mut self, id: BlockId) {
        let Some(content) = self.content.as_mut().filter(|content| content.epoch.log == id.log) else {
            self.rescued.remove(&id);
            return;
        };
        let Some(index) = id.number.checked_sub(content.first).and_then(|index| usize::try_from(index).ok()) else { return };
        if let Some(block) = content.blocks.get_mut(index) {
            block.acked = true;
        }
        while let Some(block) = content.blocks.front().filter(|block| block.acked) {
            content.low = block.offset + u64::from(block.len);
            content.low_chain = block.chain;
            content.blocks.pop_front();
            content.first += 1;
        }
    }

    /// A lane's transport is new: its entropy context begins anew.
    pub(crate) fn reset_context(&mut self, lane: usize) {
        if let Some(content) = &mut self.content {
            // Cannot fail: there is a context for every lane.
            let _ = content.encoder.reset_context(lane);
        }
    }

    pub(crate) fn unacknowledged(&self) -> u64 {
        self.content.as_ref().map_or(0, |content| content.encoder.end() - content.low)
    }

    /// Memory in use in bytes: the log as far as it was written, and a page of the table for each fingerprint in it, so the whole table soon.
    pub(crate) fn memory(&self) -> u64 {
        let of = |content: &Content| {
            let end = content.encoder.end();
            let EncoderMemory { log, table, contexts, buffers } = content.encoder.memory();
            let MatchStats { looked_up, indexed_only, .. } = content.encoder.stats().matcher;
            let table = (table as u64).min((looked_up + indexed_only).saturating_mul(PAGE));
            end.min(log as u64) + table + (contexts + buffers + content.blocks.len() * size_of::<Sent>()) as u64
        };
        self.content.as_ref().map_or(0, of) + self.rescued.values().map(|bytes| bytes.len() as u64).sum::<u64>()
    }

    /// Whether something was sent since the log began.
    pub(crate) fn is_used(&self) -> bool {
        self.content.as_ref().is_some_and(|content| content.encoder.end() > 0)
    }

    /// Memory that a log of `size` bytes in place of this one, its table and the contexts in use may come to take in bytes; 0 while nothing was
    /// sent since the log began.
    pub(crate) fn promised_memory(&self, size: u64) -> u64 {
        let Some(content) = self.content.as_ref().filter(|_| self.is_used()) else { return 0 };
        let EncoderMemory { mut log, mut table, contexts, .. } = content.encoder.memory();
        if size != self.capacity() {
            EncoderMemory { log, table, .. } = encoder_of(&self.template, size).memory();
        }
        (log + table + contexts) as u64
    }

    pub(crate) fn stats(&self) -> EncoderStats {
        let mut stats = self.past;
        if let Some(content) = &self.content {
            add(&mut stats, content.encoder.stats());
        }
        stats
    }
}

/// Bytes that touching one takes of a large buffer, where the system has huge pages.
const PAGE: u64 = 2 << 20;

fn geometry(log: u64) -> Geometry {
    Geometry::new(log, log / 4).expect("sizes of logs are checked when they are agreed on")
}

fn add(sum: &mut EncoderStats, more: EncoderStats) {
    sum.blocks += more.blocks;
    sum.block_bytes += more.block_bytes;
    sum.matches += more.matches;
    sum.matched_bytes += more.matched_bytes;
    sum.incompressible_blocks += more.incompressible_blocks;
}
