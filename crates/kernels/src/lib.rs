//! The hot byte work of Oncewire, a whole block or batch at a time.
//!
//! Everything here is a plain function of bytes: finding the markers of a block, hashing the windows at them, measuring how
//! far two regions agree, and holding large buffers. Nothing knows about logs, matches or frames.
//!
//! The instruction set is a value, [`Kernels`], that the caller holds and passes down, so a test can force every level and
//! compare it with the plain twin. `x86_64` has AVX2 and AVX-512 levels; everything else, and every tail, runs the portable
//! code. All `unsafe` code of the project lives in this crate, behind safe functions.
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

mod byteset;
mod compare;
mod fingerprint;
mod gear;
mod level;
mod markers;
mod maxp;
mod names;
mod pages;
mod rabin;
mod rolling;
mod sample_hash;
mod search;
#[cfg(test)]
mod testing;

pub use byteset::ByteSet;
pub use fingerprint::{FINGERPRINT_MAX_WINDOW, FINGERPRINT_MIN_WINDOW};
pub use gear::ChunkSizes;
pub use level::{Kernels, Level};
pub use markers::Sampled;
pub use names::{Chunk, Name, NameKey};
pub use pages::{Element, Pages};
pub use rabin::{RABIN_POLYNOMIAL, greatest_rabin_fingerprint, rabin_fingerprint};
pub use search::first_above;

/// Compiles the README's examples.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
pub struct Readme;
