//! Redundancy elimination as a library: blocks to frames and back, so that repeated bytes cross a
//! link once.
//!
//! An [`Encoder`] and a [`Decoder`] each keep a *content log*: the same past bytes at the same
//! offsets. When a block repeats something, its frame carries a short reference to the log in place
//! of the bytes. The crate does no I/O, reads no clock and starts no thread. A decoder accepts any
//! input: it returns verified content, asks for more, or returns an error.
//!
//! # Guide
//!
//! Build both ends with the same cache size, and send each frame over any transport that keeps
//! order:
//!
//! ```
//! use oncewire_codec::{Decoded, Decoder, Encoder};
//!
//! let mut encoder = Encoder::builder().cache(64 << 20).build()?;
//! let mut decoder = Decoder::builder().cache(64 << 20).build()?;
//! let mut frame = Vec::new();
//! encoder.encode(b"a block of up to 64 KiB", &mut frame)?;
//! match decoder.decode(&frame)? {
//!     Decoded::Block { content, consumed, .. } => assert_eq!((content, consumed), (&b"a block of up to 64 KiB"[..], frame.len())),
//!     Decoded::NeedMore(bytes) => println!("read at least {bytes} more bytes and try again"),
//!     Decoded::Missing(_) => unreachable!("frames in order miss nothing"),
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! If frames may arrive out of order, give both ends a `span`, let frames state their offsets, and
//! hold a frame back until the ranges that it needs have arrived. If one of them was lost, the
//! encoder can repeat that block literally:
//!
//! ```
//! use oncewire_codec::{Decoded, Decoder, Encoder};
//!
//! let mut encoder = Encoder::builder().cache(1 << 20).span(1 << 18).explicit_offsets(true).build()?;
//! let mut decoder = Decoder::builder().cache(1 << 20).span(1 << 18).build()?;
//! let block: Vec<u8> = (0..4000u32).flat_map(u32::to_le_bytes).collect();
//! let (mut lost, mut second, mut repair) = (Vec::new(), Vec::new(), Vec::new());
//! encoder.encode(&block, &mut lost)?;
//! encoder.encode(&block, &mut second)?;
//!
//! // The first frame was lost; the second refers to it.
//! let Decoded::Missing(ranges) = decoder.decode(&second)? else { panic!("the second block repeats the first") };
//! assert_eq!(ranges, [0..block.len() as u64]);
//! encoder.repair(0, block.len(), &mut repair)?;
//! assert!(matches!(decoder.decode(&repair)?, Decoded::Block { .. }));
//! assert!(matches!(decoder.decode(&second)?, Decoded::Block { .. }));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! After an error nothing of the frame has entered the log. [`Encoder::repair`] replaces the block,
//! and [`Encoder::reset_context`] restarts the entropy context that the decoder has lost.
//! [`EncoderBuilder::memory`] and [`DecoderBuilder::memory`] say beforehand what each end will use.
//! To compress a file or stream, use [`pack`]; for datagrams that may be lost, [`datagram`].
//!
//! # How it works
//!
//! ```text
//! block -> sampler -> (marker, fingerprint)* -> table look-up -> verify + grow -> tokens (literals, matches)
//!       -> entropy stage over literals and match descriptors -> frame
//! frame -> entropy stage -> tokens -> copy from log / literal bytes -> verify -> block -> append to log
//! ```
//!
//! The algorithms follow EndRE (Aggarwal et al., NSDI 2010). An encoder's [`sampler`] and its
//! [`search`] can be exchanged; the crate `oncewire-family` has the published alternatives.
//! [`adapt`] keeps encoding within a budget of CPU time. [`Finder`] and [`FrameWriter`] are the two
//! halves of an encoder, for callers with two threads.
//!
//! `docs/FORMAT.md` specifies frames and packs.

pub mod adapt;
mod chunks;
pub mod datagram;
mod decoder;
mod deflate;
mod domain;
mod encoder;
mod entropy;
mod error;
mod format;
pub mod hooks;
mod inside;
pub mod limits;
mod log;
pub mod matcher;
pub mod pack;
mod params;
mod policy;
mod ranges;
mod reach;
pub mod sampler;
pub mod search;
pub mod table;
#[cfg(test)]
mod testing;
mod zstd_block;
pub mod zstd_frames;

pub use chunks::Stream;
pub use decoder::{Decoded, Decoder, DecoderMemory};
pub use domain::{Domain, Sharing};
pub use encoder::{
    Encoder, EncoderMemory, EncoderStats, Finder, Frame, FrameWriter, Recalled, Tokens,
};
pub use entropy::Entropy;
pub use error::{ConfigError, EncodeError, FrameError};
pub use format::{ChecksumSeed, FrameView, Scan, plain_frame_len, varint};
pub use inside::{Carrier, InsideStats, StreamCount, StreamCounts, begins_encrypted};
pub use limits::{DEFAULT_BLOCK, MAX_BLOCK, MAX_CONTEXTS};
pub use log::{Generations, Geometry, Log};
pub use oncewire_kernels::{
    ByteSet, FilePages, Kernels, LeaseState, Level, PagesWriter, ZstdFailure, give_back_heap,
};
pub use params::{DEFAULT_CACHE, DEFAULT_PERIOD, DEFAULT_WINDOW, DecoderBuilder, EncoderBuilder};
pub use policy::CachePolicy;
pub use reach::Reach;
pub use sampler::ENDRE_MARKER_BYTES;

/// Compiles the README's examples.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
pub struct Readme;
