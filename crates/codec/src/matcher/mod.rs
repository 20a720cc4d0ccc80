//! Matchers find the parts of a block that the log already holds.

mod max;
mod realign;

pub use max::{INDEX_STEP, MaxMatch};

use crate::domain::Domain;
use crate::log::Log;
use oncewire_kernels::Kernels;

/// One repeated region: `len` bytes at `at` of the block equal those from offset `source` of the
/// log.
///
/// The source may lie in the same block, before the match, and may overlap it: bytes are copied one
/// after the other, so a distance of 1 repeats a byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Match {
    /// Position in the block, in bytes.
    pub at: u32,
    /// Length in bytes, at least 1.
    pub len: u32,
    /// Offset in the log of the first byte.
    pub source: u64,
}

impl Match {
    /// Position after the last byte of the match.
    pub fn end(&self) -> usize {
        (self.at + self.len) as usize
    }
}

/// Counters of a matcher. They only grow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MatchStats {
    /// Markers whose fingerprint was computed and looked up.
    pub looked_up: u64,
    /// Markers inside matches that were indexed without a look-up.
    pub indexed_only: u64,
    /// Bytes sampled for look-up: those outside matches that were found without one.
    pub sampled_bytes: u64,
    /// Look-ups that returned an offset whose bytes did not match.
    pub false_hits: u64,
}

/// How densely a block is sampled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Density {
    /// By the sampler, at this period in bytes.
    Period(usize),
    /// By [`crate::sampler::Sampler::sample_sparsely`], about one marker in a thousand bytes: for
    /// content of high entropy, which repeats as a whole or not at all.
    Sparse,
}

impl Density {
    /// Bytes for each marker: the period, or about a thousand.
    #[inline]
    pub fn period(self) -> usize {
        match self {
            Density::Period(period) => period,
            Density::Sparse => 1024,
        }
    }
}

/// Finds the matches of a block and indexes the block for later ones.
pub trait Matcher: Send {
    /// Appends the matches of `block` to `matches`: ascending, disjoint, each within the log's
    /// [`Log::extent`] for a block that will be written at `offset`, or within the block before the
    /// match.
    fn find(
        &mut self,
        log: &Log,
        block: &[u8],
        offset: u64,
        density: Density,
        matches: &mut Vec<Match>,
    );

    /// As [`Matcher::find`], but does not index the block, which will not enter the log as it is.
    fn look(
        &mut self,
        log: &Log,
        block: &[u8],
        offset: u64,
        density: Density,
        matches: &mut Vec<Match>,
    );

    /// Indexes content at `offset` of the log without looking for matches.
    fn note(&mut self, content: &[u8], offset: u64, density: Density);

    /// Indexes a little of the block without looking for matches, at the least cost. The default
    /// indexes nothing.
    fn pass(&mut self, _log: &Log, _block: &[u8], _offset: u64, _density: Density) {
        self.interrupt();
    }

    /// The log was rewound: the next block does not follow the last one.
    fn interrupt(&mut self);

    /// The next blocks belong to another domain, as [`Log::enter`] was told. A matcher that keeps
    /// domains apart ([`Search::isolates_domains`](crate::search::Search::isolates_domains)) must
    /// forget where the last match ended, and must not let content of one domain replace another's
    /// in its table because it is the same. The default does only the first.
    fn enter(&mut self, _domain: Domain) {
        self.interrupt();
    }

    /// Counters since the matcher was made.
    fn stats(&self) -> MatchStats;

    /// Number of fingerprint table entries.
    fn table_entries(&self) -> usize;

    /// Bytes of the fingerprint table.
    fn table_memory(&self) -> usize;

    /// Memory of table and scratch, as of now, in bytes.
    fn memory(&self) -> usize;

    /// Touches all memory, for measurements.
    fn prefault(&mut self);
}

/// A block and its place in the log.
#[derive(Clone, Copy, Debug)]
pub struct PlacedBlock<'a> {
    /// The block's bytes.
    pub bytes: &'a [u8],
    /// Offset in the log at which the block will lie.
    pub offset: u64,
    /// Lowest offset that may be referred to.
    pub floor: u64,
}

impl<'a> PlacedBlock<'a> {
    /// A block that will lie at `offset` of `log` and may refer to all that
    /// [`Geometry::floor`](crate::Geometry::floor) allows.
    #[inline]
    pub fn new(log: &Log, bytes: &'a [u8], offset: u64) -> PlacedBlock<'a> {
        PlacedBlock { bytes, offset, floor: log.floor(offset, bytes.len()) }
    }

    /// Verifies that `source` holds at least `min` bytes from `marker` on, and grows the hit both
    /// ways, back to `from` at most.
    #[inline]
    pub fn grow(
        &self,
        kernels: Kernels,
        log: &Log,
        marker: usize,
        source: u64,
        from: usize,
        min: usize,
    ) -> Option<Match> {
        if source >= self.offset + marker as u64 {
            return None;
        }
        let (before, after) = self.around(log, source)?;
        let forward = kernels.common_prefix(&self.bytes[marker..], after);
        if forward < min {
            return None;
        }
        let back = if marker > from {
            kernels.common_suffix(&self.bytes[from..marker], before)
        } else {
            0
        };
        Some(Match {
            at: (marker - back) as u32,
            len: (back + forward) as u32,
            source: source - back as u64,
        })
    }

    /// The readable bytes before `source` and from it on, in the log or in this block. `None` if
    /// the source cannot be referred to. Content that a log holds at and after the block's offset,
    /// written ahead, is not read.
    #[inline(always)]
    fn around<'l>(&self, log: &'l Log, source: u64) -> Option<(&'l [u8], &'l [u8])>
    where
        'a: 'l,
    {
        if source >= self.offset {
            return self.bytes.split_at_checked((source - self.offset) as usize);
        }
        let extent = log.extent(source, self.floor)?;
        Some((log.read(extent.start..source), log.read(source..extent.end.min(self.offset))))
    }
}
