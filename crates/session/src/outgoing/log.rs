//! A log that is sent: its encoder, and its blocks that the peer is not known to have.

use super::writing::Writing;
use crate::epoch::{Epoch, Keep};
use crate::store::{Block, Place, Places, Repeat};
use oncewire_codec::{Domain, Encoder, EncoderMemory, EncoderStats};
use std::collections::VecDeque;

/// The chain after one more block: XXH3-64 of the chain before it and its frame's checksum
/// (`docs/PROTOCOL.md`, "Chain").
pub(crate) fn chain(before: u64, checksum: u64) -> u64 {
    let mut bytes = [0; 16];
    bytes[..8].copy_from_slice(&before.to_le_bytes());
    bytes[8..].copy_from_slice(&checksum.to_le_bytes());
    xxhash_rust::xxh3::xxh3_64(&bytes)
}

/// Identifies an encoded block: its log, and its number there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct BlockId {
    pub(super) log: u64,
    pub(super) number: u64,
}

/// A block that is unacknowledged, or follows one that is.
#[derive(Clone, Copy, Debug)]
pub(super) struct SentBlock {
    pub(super) offset: u64,
    pub(super) len: u32,
    pub(super) acknowledged: bool,
    pub(super) chain: u64,
    pub(super) domain: Domain,
}

/// The log that is sent: its encoder and its unacknowledged blocks.
pub(super) struct SentLog {
    pub(super) epoch: Epoch,
    pub(super) capacity: u64,
    /// Keys its fingerprints.
    pub(super) key: u64,
    /// What of earlier epochs goes on in this one.
    pub(super) keep: Keep,
    /// Where the ring began, empty.
    pub(super) begin: u64,
    /// `None` while it is lent to an [`EncodeJob`](crate::encode_job::EncodeJob).
    pub(super) encoder: Option<Box<Encoder>>,
    /// What the encoder said when it was last here.
    pub(super) known: Known,
    /// Most memory of the encoder's notes on domains, in bytes.
    pub(super) most_domains: usize,
    pub(super) blocks: VecDeque<SentBlock>,
    /// Number of the first of `blocks`.
    pub(super) first: u64,
    /// The acknowledged offset: the peer has decoded everything below. And the chain there.
    pub(super) acknowledged: u64,
    pub(super) acknowledged_chain: u64,
    /// The chain at the end of the log.
    pub(super) chain: u64,
    /// Where it can go on after a restart.
    pub(super) places: Places,
    /// It has to begin again, because the peer gives it up.
    pub(super) begins_again: bool,
    /// Frames that are written apart.
    pub(super) writing: Writing,
}

/// What the session asks about an encoder, which may be lent.
pub(super) struct Known {
    pub(super) end: u64,
    pub(super) memory: EncoderMemory,
    pub(super) stats: EncoderStats,
}

impl Known {
    pub(super) fn of(encoder: &Encoder) -> Known {
        Known { end: encoder.end(), memory: encoder.memory(), stats: encoder.stats() }
    }
}

impl SentLog {
    /// Appends the block that the encoder has just encoded. Returns its number, and what a store
    /// has to know. Before [`SentLog::known`] is that of the encoder after the block.
    pub(super) fn push(
        &mut self,
        checksum: u64,
        end: u64,
        len: u32,
        domain: Domain,
    ) -> (u64, Block) {
        self.chain = chain(self.chain, checksum);
        let (before, offset, chain) = (self.known.end, end - u64::from(len), self.chain);
        self.blocks.push_back(SentBlock { offset, len, acknowledged: false, chain, domain });
        let place = Place { offset: end, chain };
        let is_place = self.places.pass(before, place, self.capacity);
        let block = Block {
            offset,
            len: len.into(),
            padding: offset.saturating_sub(before),
            chain,
            is_place,
        };
        (self.first + self.blocks.len() as u64 - 1, block)
    }

    /// What of the block that the encoder has just encoded, at `offset`, repeats earlier content.
    pub(super) fn repeats(&self, offset: u64) -> Vec<Repeat> {
        let encoder = self.encoder.as_ref();
        encoder.map_or_else(Vec::new, |encoder| Repeat::of(offset, encoder.last_matches()))
    }

    /// The place at an offset, if the chain there is known.
    pub(super) fn place_at(&self, offset: u64) -> Option<Place> {
        if offset == self.acknowledged {
            return Some(Place { offset, chain: self.acknowledged_chain });
        }
        let ends =
            self.blocks.binary_search_by_key(&offset, |block| block.offset + u64::from(block.len));
        let block = ends.ok().and_then(|at| self.blocks.get(at));
        block.map(|block| Place { offset, chain: block.chain }).or_else(|| self.places.at(offset))
    }

    pub(super) fn acknowledge(&mut self, number: u64) {
        let index = number.checked_sub(self.first).and_then(|index| usize::try_from(index).ok());
        if let Some(block) = index.and_then(|index| self.blocks.get_mut(index)) {
            block.acknowledged = true;
        }
        while let Some(block) = self.blocks.front().filter(|block| block.acknowledged) {
            self.acknowledged = block.offset + u64::from(block.len);
            self.acknowledged_chain = block.chain;
            self.blocks.pop_front();
            self.first += 1;
        }
    }

    pub(super) fn block(&self, id: BlockId) -> Option<SentBlock> {
        (id.log == self.epoch.log).then_some(())?;
        self.blocks.get(usize::try_from(id.number.checked_sub(self.first)?).ok()?).copied()
    }
}
