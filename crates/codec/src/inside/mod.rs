//! Repeats inside deflate and zstd: `docs/INSIDE.md`.
//!
//! Compressed bytes do not repeat, but their tokens do. The encoder decodes deflate streams to
//! tokens ([`follow`]), finds runs of tokens that the log already has ([`search`]), and sends their
//! positions. The decoder reads the tokens there with the code of their block, and writes them with
//! the code of the new one ([`wire`]). The log holds the bytes as they were sent, so nothing
//! else changes, and the decoder knows nothing of streams. Blocks of zstd frames are
//! handled the same way, as sequences. `search` uses `follow` and `wire`, `follow` uses the limits of
//! `wire`, and `wire` neither.

mod budget;
mod domains;
mod follow;
mod search;
mod wire;

pub use follow::container::begins_encrypted;
pub use follow::streams::{Carrier, StreamCount, StreamCounts};
pub(crate) use search::find::Inside;
pub use search::find::InsideStats;
pub(crate) use search::plan::Plan;
pub(crate) use wire::section::{self, Expander, MAX_SOURCES, Section};
pub(crate) use wire::work::Work;

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
