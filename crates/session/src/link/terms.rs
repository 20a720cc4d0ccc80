//! What a sender announces: a log, a context.

use oncewire_codec::{ChecksumSeed, varint};
use std::ops::Range;

/// Highest number of a context: a receiver keeps this many, and the one that is built in.
pub const MAX_CONTEXTS: u8 = 8;
/// Most parts of a prefix.
pub const MAX_PARTS: usize = 256;

/// A log as its sender announces it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogTerms {
    /// Names the log. Each is larger than those before it.
    pub id: u64,
    /// Size in bytes.
    pub capacity: u64,
    /// Reorder window in bytes.
    pub reorder: u64,
    /// The counter of the first datagram that may have frames of it.
    pub first: u64,
    /// Seeds the checksums.
    pub seed: u64,
}

impl LogTerms {
    pub(super) fn seed(&self) -> ChecksumSeed {
        ChecksumSeed { session: self.seed, epoch: self.id }
    }
}

/// A context as its sender announces it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ContextTerms {
    /// The number of the log that has the prefix.
    pub log: u64,
    /// 1 to [`MAX_CONTEXTS`].
    pub number: u8,
    /// XXH3-64 of the prefix, seeded as a frame at offset 0.
    pub checksum: u64,
    /// Lengths of words, as of [`FrozenContext::codes`](oncewire_codec::datagram::FrozenContext::codes).
    pub codes: Vec<u8>,
    /// Where the prefix is in the log, one part after the other.
    pub parts: Vec<Range<u64>>,
}

impl ContextTerms {
    /// Appends the fields of a message.
    pub(super) fn write(&self, out: &mut Vec<u8>) {
        varint::put(out, self.log);
        out.push(self.number);
        out.extend_from_slice(&self.checksum.to_le_bytes());
        varint::put(out, self.codes.len() as u64);
        out.extend_from_slice(&self.codes);
        for part in &self.parts {
            varint::put(out, part.start);
            varint::put(out, part.end - part.start);
        }
    }
}
