//! What can go wrong, and whose fault it is.

use std::io;

/// A parameter that cannot work, found when an encoder or decoder is built.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// The content log's size is out of range.
    #[error("a cache of {capacity} bytes is out of range: it must hold at least one block and at most {max} bytes")]
    Capacity {
        /// Asked for, in bytes.
        capacity: u64,
        /// Largest allowed, in bytes.
        max: u64,
    },
    /// The span is too large for the log.
    #[error("a span of {span} bytes is more than a quarter of the cache of {capacity} bytes")]
    Span {
        /// Asked for, in bytes.
        span: u64,
        /// Size of the log, in bytes.
        capacity: u64,
    },
    /// A window outside the supported sizes.
    #[error("a window of {window} bytes is out of range: use 12 to 64")]
    Window {
        /// Asked for, in bytes.
        window: usize,
    },
    /// A sampling period outside the supported range.
    #[error("a sampling period of {period} bytes is out of range: use 4 to 1024")]
    Period {
        /// Asked for, in bytes.
        period: usize,
    },
    /// The block limit is out of range.
    #[error("a block limit of {block} bytes is out of range: use 1 to {max}", max = crate::MAX_BLOCK)]
    Block {
        /// Asked for, in bytes.
        block: usize,
    },
    /// A compression level that is not offered.
    #[error("zstd level {level} is not offered: use 1 to 3")]
    Level {
        /// Asked for.
        level: i32,
    },
    /// The fingerprint table's size is out of range.
    #[error("a fingerprint table of {entries} entries is out of range: use 1 to {max}")]
    TableEntries {
        /// Asked for.
        entries: u64,
        /// Largest allowed.
        max: u64,
    },
    /// The shape of a bucketed fingerprint table is out of range.
    #[error(
        "a table of {factor} buckets a fingerprint, {slots} slots each, by {hashes} hash functions is out of range: use 0.25 to 16, 1 to 8, 1 to 4"
    )]
    BucketShape {
        /// Slots a bucket, asked for.
        slots: usize,
        /// Hash functions, asked for.
        hashes: usize,
        /// Buckets a fingerprint, asked for.
        factor: f64,
    },
    /// Two parameters exclude each other.
    #[error("{0}")]
    Conflict(&'static str),
    /// The chunk matcher's backlog is out of range.
    #[error("a backlog of {backlog} bytes is out of range: it must hold at least one block and at most {max} bytes")]
    Backlog {
        /// Asked for, in bytes.
        backlog: u64,
        /// Largest allowed: the cache, in bytes.
        max: u64,
    },
    /// The number of entropy contexts is out of range.
    #[error("{contexts} entropy contexts are out of range: use 1 to {max}", max = crate::MAX_CONTEXTS)]
    Contexts {
        /// Asked for.
        contexts: usize,
    },
    /// A budget of CPU time that cannot be kept or need not be.
    #[error("{thousandths} thousandths of a core are no budget: use 1 to {max}", max = crate::adapt::CpuShare::MAX)]
    CpuShare {
        /// Asked for.
        thousandths: u32,
    },
    /// The system has no memory of the size asked for.
    #[error("cannot get {bytes} bytes of memory for the {what}: {source}")]
    Memory {
        /// Asked for, in bytes.
        bytes: usize,
        /// What it was for.
        what: &'static str,
        /// The system's word.
        source: io::Error,
    },
}

/// Our caller asked an encoder for something it cannot do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum EncodeError {
    /// The block is larger than the agreed limit.
    #[error("a block of {len} bytes exceeds the limit of {max}")]
    BlockTooLarge {
        /// Size of the block, in bytes.
        len: usize,
        /// The agreed limit, in bytes.
        max: usize,
    },
    /// There is no such entropy context.
    #[error("entropy context {context} does not exist: there are {contexts}")]
    NoSuchContext {
        /// Asked for.
        context: usize,
        /// How many there are.
        contexts: usize,
    },
    /// The range asked for is no longer, or not yet, in the log.
    #[error("the log does not hold {len} bytes at offset {offset}")]
    NotHeld {
        /// First offset asked for.
        offset: u64,
        /// Bytes asked for.
        len: usize,
    },
    /// 64-bit offsets are used up; start a new epoch.
    #[error("the log's offsets are used up: start a new epoch")]
    OffsetsExhausted,
}

/// A frame that is damaged or breaks the rules. Nothing of it was delivered or kept.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FrameError {
    /// A field has a value that the format does not allow.
    #[error("damaged frame: {field} is {value}, allowed is {allowed}")]
    Field {
        /// Name of the field in `docs/FORMAT.md`.
        field: &'static str,
        /// What the frame says.
        value: u64,
        /// What the format or the agreed limits allow.
        allowed: &'static str,
    },
    /// A length is larger than the agreed limit.
    #[error("damaged frame: {field} is {value}, the limit is {limit}")]
    TooLarge {
        /// Name of the field.
        field: &'static str,
        /// What the frame says.
        value: u64,
        /// The limit in force.
        limit: u64,
    },
    /// The frame's body ends inside a field or section.
    #[error("damaged frame: it ends inside its {section}")]
    Short {
        /// Which part.
        section: &'static str,
    },
    /// A section has bytes left over.
    #[error("damaged frame: {extra} bytes too many in its {section}")]
    Excess {
        /// Which part.
        section: &'static str,
        /// How many bytes are left over.
        extra: usize,
    },
    /// A match reaches outside what a frame at this offset may refer to.
    #[error("damaged frame: a match of {len} bytes at offset {source_offset} is outside what may be referred to")]
    Reference {
        /// Where the match points.
        source_offset: u64,
        /// Its length in bytes.
        len: u64,
    },
    /// Matches and literals do not add up to the block.
    #[error("damaged frame: its matches and literals do not add up to its {block} bytes")]
    Sum {
        /// The block's length.
        block: usize,
    },
    /// The frame's offset lies outside the range the decoder accepts now, or crosses the end of the ring.
    #[error("damaged frame: its offset {offset} is outside {low}..{high}, or its block crosses the end of the log")]
    Offset {
        /// The frame's offset.
        offset: u64,
        /// Lowest acceptable.
        low: u64,
        /// End of the acceptable range.
        high: u64,
    },
    /// The literals cannot be decompressed.
    #[error("damaged frame: its literals do not decompress ({method})")]
    Literals {
        /// By which method.
        method: &'static str,
    },
    /// The frame continues an entropy context that is not in step.
    #[error("entropy context {context} is out of step: the frame continues it, but an earlier frame of it failed")]
    ContextLost {
        /// Which context.
        context: usize,
    },
    /// The decoded content is not what was encoded.
    #[error("checksum mismatch in the {len} bytes at offset {offset}")]
    Checksum {
        /// The block's offset.
        offset: u64,
        /// Its length in bytes.
        len: usize,
    },
}
