//! Policies that the two ends of a payload-match link agree on.

use super::message::TOKEN_OVERHEAD;
use oncewire_codec::ChecksumSeed;

/// Which payload is evicted when there is no room.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Replacement {
    /// The least recently used one, the paper's default. O(1) per packet.
    #[default]
    Lru,
    /// GreedyDual-Size (Cao and Irani, USITS 1997) in integers: a payload that is used gets the
    /// priority `L + 2^16 * cost / size`; the lowest is evicted and becomes `L`. The cost is what a
    /// token saves, the size what the entry takes in memory: longer payloads stay longer. O(log n)
    /// per packet.
    GreedyDualSize,
}

/// When the compressor sends a token for a payload that it holds (section 3.1.3). Only the
/// compressor uses it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CompressionPolicy {
    /// Whenever it holds one.
    #[default]
    Immediate,
    /// Once the payload has been sent this many times since it was remembered or last rejected:
    /// fewer rejections on links that lose much. 1 is `Immediate`.
    AfterK(u32),
}

impl CompressionPolicy {
    pub(super) fn sends(self) -> u32 {
        match self {
            CompressionPolicy::Immediate => 1,
            CompressionPolicy::AfterK(k) => k,
        }
    }
}

/// The policies of a link. The same at both ends, but for [`CompressionPolicy`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PayloadPolicy {
    /// Most bytes of payload held at either end. Default 200 MB (section 3.4).
    /// [`ENTRY_OVERHEAD`](super::ENTRY_OVERHEAD) comes on top for each, about 100 MB at most for
    /// the default minimum payload.
    pub capacity: u64,
    /// Shortest payload that takes part, in bytes, at least 24. Default 500 (section 3.4): shorter
    /// ones were 3 % of the replicated bytes in the paper's traces.
    pub min_payload: usize,
    /// Longest packet that takes part, in bytes, at most 65,536 (the default). Longer ones are sent
    /// plain.
    pub max_packet: usize,
    /// Which payload leaves. Default LRU.
    pub replacement: Replacement,
    /// A payload is remembered when it is seen for this many times. Default 1: at first sight. More
    /// spares room if most content never comes again.
    pub inclusion: u8,
    /// Places for payloads seen but not yet remembered, 8 bytes each. Default 2^18. Used if
    /// `inclusion` is above 1. A newer payload takes the place of an older one, whose sights are
    /// forgotten.
    pub sights: usize,
    /// When tokens are sent. Default immediate.
    pub compression: CompressionPolicy,
    /// Most illegal names. When one more collides, the end that sees it starts over: the compressor
    /// in a new epoch, the decompressor by asking for one. Default 4096.
    pub max_illegal: usize,
    /// Seed of the checksums. Default 0, 0.
    pub checksum: ChecksumSeed,
}

impl Default for PayloadPolicy {
    fn default() -> PayloadPolicy {
        PayloadPolicy {
            capacity: 200_000_000,
            min_payload: 500,
            max_packet: oncewire_codec::DEFAULT_BLOCK,
            replacement: Replacement::Lru,
            inclusion: 1,
            sights: 1 << 18,
            compression: CompressionPolicy::Immediate,
            max_illegal: 4096,
            checksum: ChecksumSeed::default(),
        }
    }
}

/// An invalid policy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PolicyError {
    /// The cache is too small or too large.
    #[error("a cache of {capacity} bytes is out of range: use 1 to {max}")]
    Capacity {
        /// Requested, in bytes.
        capacity: u64,
        /// Largest allowed, in bytes.
        max: u64,
    },
    /// The shortest payload is shorter than a token.
    #[error(
        "a minimum payload of {min_payload} bytes is less than the {TOKEN_OVERHEAD} that a token takes"
    )]
    MinPayload {
        /// Requested, in bytes.
        min_payload: usize,
    },
    /// The longest packet is out of range.
    #[error("a packet limit of {max_packet} bytes is out of range: use 1 to {max}", max = oncewire_codec::DEFAULT_BLOCK)]
    MaxPacket {
        /// Requested, in bytes.
        max_packet: usize,
    },
    /// A count that must be at least 1, or is too large.
    #[error("{what} of {count} is out of range: use 1 to {max}")]
    Count {
        /// Which.
        what: &'static str,
        /// Requested.
        count: u64,
        /// Largest allowed.
        max: u64,
    },
}

impl PayloadPolicy {
    /// Largest capacity: 1 TiB.
    pub const MAX_CAPACITY: u64 = 1 << 40;
    /// Most places for sights, and most illegal names.
    pub const MAX_COUNT: usize = 1 << 28;

    pub(super) fn check(&self) -> Result<(), PolicyError> {
        if !(1..=PayloadPolicy::MAX_CAPACITY).contains(&self.capacity) {
            return Err(PolicyError::Capacity {
                capacity: self.capacity,
                max: PayloadPolicy::MAX_CAPACITY,
            });
        }
        if self.min_payload < TOKEN_OVERHEAD {
            return Err(PolicyError::MinPayload { min_payload: self.min_payload });
        }
        if !(1..=oncewire_codec::DEFAULT_BLOCK).contains(&self.max_packet) {
            return Err(PolicyError::MaxPacket { max_packet: self.max_packet });
        }
        let most = PayloadPolicy::MAX_COUNT as u64;
        let counts = [
            ("an inclusion after a sight", u64::from(self.inclusion), u64::from(u8::MAX)),
            ("a number of places for sights", self.sights as u64, most),
            ("a compression after sends", u64::from(self.compression.sends()), u64::from(u32::MAX)),
            ("a number of illegal names", self.max_illegal as u64, most),
        ];
        match counts.into_iter().find(|&(_, count, max)| count == 0 || count > max) {
            Some((what, count, max)) => Err(PolicyError::Count { what, count, max }),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_parameter_is_checked() {
        let good = PayloadPolicy::default();
        assert_eq!(good.check(), Ok(()));
        let bad = [
            PayloadPolicy { capacity: 0, ..good.clone() },
            PayloadPolicy { capacity: u64::MAX, ..good.clone() },
            PayloadPolicy { min_payload: 23, ..good.clone() },
            PayloadPolicy { max_packet: 0, ..good.clone() },
            PayloadPolicy { max_packet: 65_537, ..good.clone() },
            PayloadPolicy { inclusion: 0, ..good.clone() },
            PayloadPolicy { sights: 0, ..good.clone() },
            PayloadPolicy { sights: usize::MAX, ..good.clone() },
            PayloadPolicy { max_illegal: 0, ..good.clone() },
            PayloadPolicy { compression: CompressionPolicy::AfterK(0), ..good.clone() },
        ];
        for policy in bad {
            let error = policy.check().unwrap_err().to_string();
            assert!(error.contains("of "), "{error}");
        }
        assert_eq!(PayloadPolicy { min_payload: 24, ..good }.check(), Ok(()));
    }
}
