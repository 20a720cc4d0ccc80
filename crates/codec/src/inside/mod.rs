//! Repeats inside deflate and zstd: `docs/INSIDE.md`.
//!
//! Compressed bytes do not repeat, but their tokens do. The encoder decodes deflate streams to
//! tokens ([`opener`]), finds runs of tokens that the log already has ([`search`]), and sends their
//! positions. The decoder reads the tokens there with the code of their block, and writes them with
//! the code of the new one ([`section`]). The log holds the bytes as they were sent, so nothing
//! else changes, and the decoder knows nothing of streams. Blocks of zstd frames ([`frames`]) are
//! handled the same way, as sequences: [`zstd`] and [`sequences`].

mod alignment;
mod bends;
mod budget;
mod container;
mod copies;
mod domains;
mod find;
mod frames;
mod index;
mod literals;
mod midstream;
mod names;
mod opened;
mod opener;
mod passed;
mod piece;
mod plan;
mod rolling;
mod search;
pub(crate) mod section;
mod sequences;
mod streams;
mod work;
mod worth;
mod zstd;

pub(crate) use find::Inside;
pub use find::InsideStats;
pub(crate) use plan::Plan;
pub(crate) use section::{Expander, MAX_SOURCES, Section};
pub use streams::{Carrier, StreamCount, StreamCounts};
pub(crate) use work::Work;

use crate::log::Log;

/// Which flow a block belongs to where there is but one.
pub(crate) const ONLY_FLOW: u64 = 0;

/// Where a block goes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place<'a> {
    pub(crate) log: &'a Log,
    /// Of the block in the log.
    pub(crate) offset: u64,
    /// Of fingerprints: one for each domain.
    pub(crate) key: u64,
    pub(crate) flow: u64,
}
