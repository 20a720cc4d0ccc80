//! Limits of the frame format and ranges of the parameters.

use std::ops::RangeInclusive;

/// Largest block in bytes. Packs have such blocks: larger ones take fewer bytes, and less time.
pub const MAX_BLOCK: usize = 256 << 10;

/// Largest block in bytes unless told otherwise: small enough that others do not wait long for it. No
/// frame with fields of fixed width, and no datagram, has a larger one.
pub const DEFAULT_BLOCK: usize = 64 << 10;

/// Most entropy contexts that an encoder or decoder can have.
pub const MAX_CONTEXTS: usize = 256;

/// Log offsets stay below this, so that offset plus length cannot overflow.
pub const MAX_OFFSET: u64 = 1 << 62;

/// Most entries of a fingerprint table.
pub const MAX_ENTRIES: u64 = 1 << 36;

/// Sampling periods in bytes.
pub const PERIODS: RangeInclusive<usize> = 4..=1024;

/// Window sizes in bytes.
pub const WINDOWS: RangeInclusive<usize> = 12..=64;

/// Largest budget of CPU time, in thousandths of a core: 64 cores.
pub const MAX_CPU_THOUSANDTHS: u32 = 64_000;
