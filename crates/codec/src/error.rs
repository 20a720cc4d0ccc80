//! Errors, by whose fault they are: the configuration, the caller, or the input.

use crate::limits::{MAX_BLOCK, MAX_CONTEXTS, MAX_CPU_THOUSANDTHS, PERIODS, WINDOWS};
use std::io;

/// A parameter is out of range or does not fit another. Found when an encoder or decoder is built.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// The content log's size is out of range.
    #[error(
        "a cache of {capacity} bytes is out of range: it must hold at least one block and at most {max} bytes"
    )]
    Capacity {
        /// Requested size, in bytes.
        capacity: u64,
        /// Largest allowed, in bytes.
        max: u64,
    },
    /// The span is too large for the log.
    #[error("a span of {span} bytes is more than a quarter of the cache of {capacity} bytes")]
    Span {
        /// Requested size, in bytes.
        span: u64,
        /// Size of the log, in bytes.
        capacity: u64,
    },
    /// A window outside the supported sizes.
    #[error("a window of {window} bytes is out of range: use 12 to 64")]
    Window {
        /// Requested size, in bytes.
        window: usize,
    },
    /// A sampling period outside the supported range.
    #[error("a sampling period of {period} bytes is out of range: use 4 to 1024")]
    Period {
        /// Requested size, in bytes.
        period: usize,
    },
    /// The block limit is out of range.
    #[error("a block limit of {block} bytes is out of range: use 1 to {max}", max = MAX_BLOCK)]
    Block {
        /// Requested size, in bytes.
        block: usize,
    },
    /// An unsupported compression level.
    #[error("level {level} of the entropy stage is not supported: use 1 to 3")]
    Level {
        /// Requested value.
        level: i32,
    },
    /// The fingerprint table's size is out of range.
    #[error("a fingerprint table of {entries} entries is out of range: use 1 to {max}")]
    TableEntries {
        /// Requested value.
        entries: u64,
        /// Largest allowed.
        max: u64,
    },
    /// The shape of a bucketed fingerprint table is out of range.
    #[error(
        "a table of {factor} buckets per fingerprint, {slots} slots each, with {hashes} hash functions is out of range: use 0.25 to 16, 1 to 8, 1 to 4"
    )]
    BucketShape {
        /// Requested slots per bucket.
        slots: usize,
        /// Requested hash functions.
        hashes: usize,
        /// Requested buckets per fingerprint.
        factor: f64,
    },
    /// Two parameters exclude each other.
    #[error("{0}")]
    Conflict(&'static str),
    /// A fingerprint table that is not in memory could not be made.
    #[error("cannot make the fingerprint table: {0}")]
    Table(Box<dyn std::error::Error + Send + Sync>),
    /// The chunk matcher's backlog is out of range.
    #[error(
        "a backlog of {backlog} bytes is out of range: it must hold at least one block and at most {max} bytes"
    )]
    Backlog {
        /// Requested size, in bytes.
        backlog: u64,
        /// Largest allowed: the cache, in bytes.
        max: u64,
    },
    /// The number of entropy contexts is out of range.
    #[error("{contexts} entropy contexts are out of range: use 1 to {max}", max = MAX_CONTEXTS)]
    Contexts {
        /// Requested value.
        contexts: usize,
    },
    /// A budget of CPU time out of range.
    #[error("a CPU budget of {thousandths} thousandths of a core is out of range: use 1 to {max}", max = MAX_CPU_THOUSANDTHS)]
    CpuShare {
        /// Requested value.
        thousandths: u32,
    },
    /// The system refused the memory.
    #[error("cannot get {bytes} bytes of memory for the {what}: {source}")]
    Memory {
        /// Requested size, in bytes.
        bytes: usize,
        /// What it was for.
        what: &'static str,
        /// The system's error.
        source: io::Error,
    },
}

impl ConfigError {
    /// Checks a sampling period, in bytes, against [`PERIODS`].
    ///
    /// # Errors
    /// [`ConfigError::Period`].
    pub fn check_period(period: usize) -> Result<(), ConfigError> {
        if PERIODS.contains(&period) { Ok(()) } else { Err(ConfigError::Period { period }) }
    }

    /// Checks a window, in bytes, against [`WINDOWS`].
    ///
    /// # Errors
    /// [`ConfigError::Window`].
    pub fn check_window(window: usize) -> Result<(), ConfigError> {
        if WINDOWS.contains(&window) { Ok(()) } else { Err(ConfigError::Window { window }) }
    }
}

/// The caller asked an encoder for something it cannot do.
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
    /// The entropy context does not exist.
    #[error("entropy context {context} does not exist: there are {contexts}")]
    NoSuchContext {
        /// Requested value.
        context: usize,
        /// How many there are.
        contexts: usize,
    },
    /// The requested range is no longer, or not yet, in the log.
    #[error("the log does not hold {len} bytes at offset {offset}")]
    NotHeld {
        /// First offset requested.
        offset: u64,
        /// Bytes requested.
        len: usize,
    },
    /// 64-bit offsets are used up; start a new epoch.
    #[error("the log's offsets are used up: start a new epoch")]
    OffsetsExhausted,
}

/// A frame is corrupt or breaks the rules of the format. Nothing of it was delivered or kept.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FrameError {
    /// A field has a value that the format does not allow.
    #[error("corrupt frame: {field} is {value}; allowed: {allowed}")]
    Field {
        /// Name of the field in `docs/FORMAT.md`.
        field: &'static str,
        /// What the frame says.
        value: u64,
        /// What the format or the agreed limits allow.
        allowed: &'static str,
    },
    /// A length is larger than the agreed limit.
    #[error("corrupt frame: {field} is {value}, the limit is {limit}")]
    TooLarge {
        /// Name of the field.
        field: &'static str,
        /// What the frame says.
        value: u64,
        /// The limit in force.
        limit: u64,
    },
    /// The frame's body ends inside a field or section.
    #[error("corrupt frame: truncated in its {section}")]
    Short {
        /// Which part.
        section: &'static str,
    },
    /// A section has bytes left over.
    #[error("corrupt frame: {extra} excess bytes in its {section}")]
    Excess {
        /// Which part.
        section: &'static str,
        /// How many bytes are left over.
        extra: usize,
    },
    /// A match reaches outside what a frame at this offset may refer to.
    #[error(
        "corrupt frame: a match of {len} bytes at offset {source_offset} is outside the range it may refer to"
    )]
    Reference {
        /// Where the match points.
        source_offset: u64,
        /// Its length in bytes.
        len: u64,
    },
    /// Matches and literals do not add up to the block.
    #[error("corrupt frame: its matches and literals do not add up to its {block} bytes")]
    Sum {
        /// The block's length.
        block: usize,
    },
    /// The frame's offset lies outside the range the decoder accepts now, or crosses the end of the
    /// ring.
    #[error(
        "corrupt frame: its offset {offset} is outside {low}..{high}, or its block crosses the end of the log"
    )]
    Offset {
        /// The frame's offset.
        offset: u64,
        /// Lowest acceptable.
        low: u64,
        /// End of the acceptable range.
        high: u64,
    },
    /// The literals cannot be decompressed.
    #[error("corrupt frame: its literals do not decompress ({method})")]
    Literals {
        /// By which method.
        method: &'static str,
    },
    /// The frame continues an entropy context that is out of sync.
    #[error("entropy context {context} is out of sync: an earlier frame of it failed")]
    ContextLost {
        /// Which context.
        context: usize,
    },
    /// The decoded content differs from what was encoded.
    #[error("checksum mismatch in the {len} bytes at offset {offset}")]
    Checksum {
        /// The block's offset.
        offset: u64,
        /// Its length in bytes.
        len: usize,
    },
}
