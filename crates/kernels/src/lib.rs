//! The inner loops of Oncewire, each over a whole block or batch.
//!
//! They find the markers of a block, hash the windows at them, measure how far two regions agree,
//! code bytes and find short matches, hold large buffers, and map files; and they compile loops
//! over bits of other crates for BMI2 ([`BitWork`]). With the feature `zstd` they have libzstd code
//! matches that were found elsewhere. They know nothing of logs, matches or frames of ours.
//! What only the published
//! algorithms use is in [`family`]. [`stdout_was_closed`] and [`give_back_heap`] are here only because they take `unsafe`, and
//! [`random`] because every other crate may need it.
//!
//! The instruction set is a value, [`Kernels`], that the caller holds and passes down, so that a
//! test can force every level and compare it with the portable one. `x86_64` has AVX2 and AVX-512
//! levels; everything else, and every tail, runs the portable code. All `unsafe` code of the
//! project is in this crate, behind safe functions.
//!
//! ```
//! use oncewire_kernels::{ByteSet, Kernels};
//!
//! let kernels = Kernels::detect();
//! assert_eq!(kernels.common_prefix(b"redundant", b"redundancy"), 8);
//!
//! let spaces = ByteSet::from_iter([b' ']);
//! let mut markers = [0u32; 8];
//! // Window of 4 bytes, nothing skipped after a marker, no gap too long.
//! let found = kernels.sample_byte(&spaces, b"a bc def ghij", 4, 0, usize::MAX, 0, &mut markers);
//! assert_eq!(&markers[..found.count], &[1, 4, 8]);
//! ```

mod bit_work;
mod byteset;
mod compare;
pub mod family;
mod file_pages;
mod fingerprint;
mod heap;
mod huffman;
mod level;
mod markers;
mod pages;
pub mod random;
mod sample_hash;
mod search;
mod short;
mod streams;
#[cfg(test)]
mod testing;
mod walk;
#[cfg(feature = "zstd")]
mod zstd_blocks;

pub use bit_work::BitWork;
pub use byteset::ByteSet;
pub use file_pages::{FilePages, LeaseState, PagesWriter};
pub use fingerprint::{FINGERPRINT_MAX_WINDOW, FINGERPRINT_MIN_WINDOW};
pub use heap::give_back_heap;
pub use huffman::{HUFFMAN_MAX_BITS, HuffmanReader, HuffmanWriter, byte_counts, huffman_lengths};
pub use level::{Kernels, Level};
pub use markers::Sampled;
pub use pages::{Element, Pages, prefetch};
pub use search::first_above;
pub use short::{
    SHORT_FIRST_DISTANCE, SHORT_LEAST, SHORT_REACH, SHORT_SLACK, Sequence, SequenceSearch,
    ShortColumns, ShortCounts, ShortEffort, ShortMatches, ShortSearch,
};
pub use streams::stdout_was_closed;
#[cfg(feature = "zstd")]
pub use zstd_blocks::{ZSTD_BLOCK_MAX, ZSTD_DISTANCE_MAX, ZstdBlocks, ZstdFailure};

/// Compiles the README's examples.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
pub struct Readme;
