//! Defaults that both the help texts of options and their commands name.

use std::ops::Range;

/// Memory of each end of the demo's tunnel, in bytes: room for twice the data within this range.
pub(crate) const DEMO_MEMORY: Range<u64> = 256 << 20..8 << 30;

/// Blocks of a TCP segment's payload: 1,500 bytes less the headers of IPv4 and TCP with timestamps.
pub(crate) const PACKET: usize = 1448;

/// Smallest and largest default cache.
pub(crate) const BENCH_CACHE: Range<u64> = 256 << 20..4 << 30;
