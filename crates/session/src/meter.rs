//! What single flows carry and cost, and why a block was not reduced.

use oncewire_codec::EncoderStats;
use std::fmt::Debug;

/// Blocks of fewer bytes are too small to be reduced: what a frame costs beside its content is then
/// a large part of it, and hardly any window of a fingerprint lies whole in them.
pub const SMALL_BLOCK: usize = 128;

/// Why content that matched nothing was not reduced either.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Residue {
    /// Nothing speaks against it: it was not sent before, and was compressed as far as that goes.
    New,
    /// The flow's protocol encrypts: TLS or SSH, by the first bytes of its direction.
    Encrypted,
    /// It looked incompressible: compressed or encrypted content, of a protocol that does not say so.
    Incompressible,
    /// The block has fewer than [`SMALL_BLOCK`] bytes.
    Small,
}

/// A block that was sent on a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SentBlock {
    /// Its bytes.
    pub content: u64,
    /// Bytes of its message, before encryption. What is sent again after an outage is not included.
    pub wire: u64,
    /// Those of its bytes that were sent as references to the log.
    pub matched: u64,
    /// What the others are.
    pub residue: Residue,
}

/// Hears of each block of a flow: see [`Session::watch`](crate::Session::watch). It is called while
/// the session is locked, so it must not wait.
pub trait FlowMeter: Debug + Send + Sync {
    /// A block was encoded.
    fn sent(&self, block: SentBlock);

    /// A block of `content` bytes was decoded from a message of `wire` bytes.
    fn received(&self, content: u64, wire: u64);
}

/// Counts of an encoder that are compared before and after a block.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Before {
    pub(crate) opened: u64,
    matched: u64,
    incompressible: u64,
}

impl Before {
    pub(crate) fn of(stats: &EncoderStats) -> Before {
        Before {
            opened: stats.inside.opened_bytes,
            matched: stats.matched_bytes,
            incompressible: stats.incompressible_blocks,
        }
    }

    /// What a block of `content` bytes was, which was encoded since.
    pub(crate) fn block(
        self,
        now: &EncoderStats,
        content: usize,
        wire: usize,
        is_encrypted: bool,
    ) -> SentBlock {
        let residue = match () {
            () if is_encrypted => Residue::Encrypted,
            () if content < SMALL_BLOCK => Residue::Small,
            () if now.incompressible_blocks > self.incompressible => Residue::Incompressible,
            () => Residue::New,
        };
        let content = content as u64;
        let matched = (now.matched_bytes - self.matched).min(content);
        SentBlock { content, wire: wire as u64, matched, residue }
    }
}

impl SentBlock {
    /// Bytes that were not sent as references.
    pub fn unmatched(&self) -> u64 {
        self.content - self.matched
    }
}
