//! The codec of Oncewire: bytes to frames and back, so that no byte needs to cross the wire twice.
//!
//! ```text
//! block -> sampler -> (marker, fingerprint)* -> table look-up -> verify + grow -> tokens (literals, matches)
//!       -> entropy stage over literals and match descriptors -> frame
//! frame -> entropy stage -> tokens -> copy from log / literal bytes -> verify -> block -> append to log
//! ```
//!
//! [`Encoder`] and [`Decoder`] hold a content log each, with the same content at the same offsets. A block that repeats something
//! of the past travels as references to it. Nothing here does I/O, reads a clock, starts a thread or trusts its input: whatever
//! bytes a decoder is given, it returns verified content, an answer that says what it waits for, or an error.
//!
//! The algorithms are those of the papers, above all EndRE (Aggarwal et al., NSDI 2010), and ours: samplers, max-match, the compact
//! fingerprint table, and chunk-match, which keeps no content at the encoder. The parts can be exchanged: see [`sampler`], [`table`],
//! [`matcher`] and [`chunk`]. [`payload`] is Santos and Wetherall's link, [`optimal`] what could be saved at most, [`train`] makes marker
//! tables, [`adapt`] keeps encoding within a budget of CPU time.
//!
//! The frame format is specified in `docs/FORMAT.md`.

pub mod adapt;
pub mod chunk;
mod decoder;
mod encoder;
mod entropy;
mod error;
mod format;
mod log;
pub mod matcher;
pub mod optimal;
mod params;
pub mod payload;
mod policy;
mod ranges;
pub mod sampler;
pub mod table;
pub mod train;

pub use decoder::{Decoded, Decoder, DecoderMemory};
pub use encoder::{Encoder, EncoderMemory, EncoderStats, Finder, Frame, FrameWriter, Tokens};
pub use entropy::Entropy;
pub use error::{ConfigError, EncodeError, FrameError};
pub use format::{ChecksumSeed, FrameView, Scan, pack, varint};
pub use log::{Geometry, Log};
pub use oncewire_kernels::{ByteSet, Kernels, Level};
pub use params::{
    DEFAULT_CACHE, DEFAULT_PERIOD, DEFAULT_WINDOW, DecoderBuilder, EncoderBuilder, MatcherKind, SamplerKind, TableKind,
};
pub use policy::CachePolicy;
pub use sampler::ENDRE_MARKER_BYTES;

/// Largest block in bytes. Descriptors, buffers and limits are sized for it.
pub const MAX_BLOCK: usize = 64 << 10;

/// Most entropy contexts that an encoder or decoder can have.
pub const MAX_CONTEXTS: usize = 256;

/// Compiles the README's examples.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
pub struct Readme;
