//! Published redundancy-elimination algorithms, to measure the codec of Oncewire against.
//!
//! A tunnel needs none of this. [`oncewire_codec`] has the samplers, the matcher and the table that
//! Oncewire uses; this crate has those of the papers, built on the codec's traits:
//!
//! - [`sampler`]: MODP, MAXP, FIXED, GEAR, FASTCDC and PEAKS, and [`SamplerKind`], which names
//!   every sampler.
//! - [`PublishedMaxMatch`] and [`BucketTable`]: max-match as published, and SmartRE's fingerprint
//!   table.
//! - [`chunk`]: EndRE's chunk-match and Martynov's form of it.
//! - [`payload`]: Santos and Wetherall's link, which names whole payloads.
//! - [`optimal`]: an upper bound of what any of them can save.
//! - [`train`]: EndRE's way to a marker table for SAMPLEBYTE.
//!
//! [`FamilySearch`] plugs a matcher and a table into an encoder. Decoders need nothing from here:
//! frames are the same.
//!
//! ```
//! use oncewire_codec::{Decoded, Decoder, Encoder};
//! use oncewire_family::SamplerKind;
//!
//! let block: Vec<u8> = (0..4000u32).flat_map(u32::to_le_bytes).collect();
//! for kind in SamplerKind::all() {
//!     let mut encoder = Encoder::builder().cache(1 << 20).sampler(kind).build()?;
//!     let mut decoder = Decoder::builder().cache(1 << 20).build()?;
//!     let mut frame = Vec::new();
//!     encoder.encode(&block, &mut frame)?;
//!     let Decoded::Block { content, .. } = decoder.decode(&frame)? else { panic!("the frame is whole") };
//!     assert_eq!(content, block);
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod bucket;
pub mod chunk;
pub mod optimal;
pub mod payload;
mod published;
pub mod sampler;
mod search;
pub mod train;

pub use bucket::{BucketShape, BucketTable};
pub use chunk::ChunkForm;
pub use published::{Phase, Probe, PublishedMaxMatch};
pub use sampler::SamplerKind;
pub use search::{FamilySearch, MatcherKind, TableKind};

/// Compiles the README's examples.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
pub struct Readme;
