//! Chunk-match (EndRE section 5.2.1): chunks that repeat whole are found by their names, and the encoder keeps no content.
//!
//! Markers cut a block into chunks, each gets a collision-resistant name, and a table says where in the decoder's log the chunk of
//! that name lies. Content is kept only until the decoder has acknowledged it, for repairs.
//!
//! Ours and the paper's:
//! - A chunk is at most [`CHUNK_MAX`] bytes, as in the paper; longer ones are cut. A marker less than [`CHUNK_MIN`] bytes behind
//!   a boundary is none. A block's start and end bound chunks, too; a shorter chunk at its end is sent as it is.
//! - EndRE names with SHA-1, which can be made to collide; here names are keyed ([`oncewire_kernels::NameKey`]).
//! - EndRE sends four bytes of `<offset, length>` for each chunk. Here chunks that follow each other in the block and in the log
//!   become one match, and frames are the same as max-match's. A decoder cannot tell which matcher wrote them.
//! - EndRE's table holds 24 bytes for each `p` bytes of cache: 37.5 % of it at `p = 64`. So does this one by default, unless told
//!   another size, at 21 1/3 bytes an entry; the oldest entries make room.
//! - The table points to the newest copy, as EndRE's does, but to the newest acknowledged one until a newer is acknowledged, too. Pointing
//!   to the first copy for as long as it lasts made twice as many matches on versions of a source tree, half as long.
//! - EndRE refers to content that TCP may not have delivered, and resets when it must. Here a match refers only to what the decoder
//!   has acknowledged, or to the same block before the match, which needs no memory of anything.

mod backlog;

pub mod study;
mod table;
#[cfg(test)]
mod tests;

use crate::error::{ConfigError, EncodeError};
use crate::log::{Geometry, Laps};
use crate::matcher::{Density, Match, MatchStats};
use crate::sampler::Sampler;
use backlog::Backlog;
use oncewire_kernels::{Chunk, Kernels, Name, NameKey};
use std::ops::Range;
use table::ChunkTable;

pub(crate) use backlog::default_limit;
pub(crate) use table::table_bytes;

/// Longest chunk in bytes (EndRE section 5.2.1).
pub const CHUNK_MAX: usize = 256;

/// Shortest chunk that is named, in bytes: what a plain descriptor of a match alone may take.
pub const CHUNK_MIN: usize = 12;

/// Bytes of table for each sampling period of cache: EndRE's 20 bytes of hash and 4 of `<offset, length>`.
const TABLE_BYTES_PER_PERIOD: u64 = 24;

/// Entries of a chunk table by default: as many as fit EndRE's 24 bytes for each period, at least one bucket.
pub(crate) fn default_entries(cache: u64, period: usize) -> u64 {
    // A bucket of 64 bytes has three entries.
    (cache / period as u64 * TABLE_BYTES_PER_PERIOD / 64 * 3).max(1)
}

/// Where a chunk lies between markers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ChunkForm {
    /// A chunk begins at a marker and ends before the next (EndRE section 5.2.1).
    #[default]
    StartsAtMarker,
    /// A chunk ends with the last byte of the marker's window (Martynov section 3.1).
    EndsWithWindow,
}

/// Chunks looked up at once: enough for their cache misses to overlap, few enough for their names to stay in the first-level cache.
const BATCH: usize = 64;

/// Cuts a block into chunks.
struct Chunker<'a> {
    sampler: &'a dyn Sampler,
    form: ChunkForm,
    kernels: Kernels,
    window: usize,
    density: Density,
    block: &'a [u8],
    markers: &'a mut [u32; BATCH],
    /// Markers found, and how many of them are used.
    found: usize,
    used: usize,
    /// Where the search for markers goes on; `None` once it is complete.
    resume: Option<usize>,
    /// Where the next chunk starts, and the boundary it may reach.
    start: usize,
    boundary: usize,
}

impl<'a> Chunker<'a> {
    fn next_boundary(&mut self) -> usize {
        loop {
            if self.used == self.found {
                let Some(from) = self.resume else { return self.block.len() };
                let Chunker { kernels, block, window, .. } = *self;
                let sampled = match self.density {
                    Density::Period(period) => self.sampler.sample(kernels, block, window, period, from, &mut self.markers[..]),
                    Density::Sparse => self.sampler.sample_sparsely(kernels, block, window, from, &mut self.markers[..]),
                };
                (self.found, self.used) = (sampled.count, 0);
                self.resume = (sampled.count > 0).then_some(sampled.resume);
                continue;
            }
            let marker = self.markers[self.used] as usize;
            self.used += 1;
            let boundary = match self.form {
                ChunkForm::StartsAtMarker => marker,
                ChunkForm::EndsWithWindow => (marker + self.window).min(self.block.len()),
            };
            if boundary >= self.start + CHUNK_MIN {
                return boundary;
            }
        }
    }

    /// Fills `chunks` with the next ones that are worth a name; returns how many there are, 0 at the end of the block.
    #[inline]
    fn fill(&mut self, chunks: &mut [Chunk; BATCH]) -> usize {
        let mut count = 0;
        while count < BATCH && self.start < self.block.len() {
            if self.boundary <= self.start {
                self.boundary = self.next_boundary();
            }
            let len = cut(self.boundary - self.start);
            chunks[count] = Chunk { at: self.start as u32, len: len as u32 };
            count += usize::from(len >= CHUNK_MIN);
            self.start += len;
        }
        count
    }
}

/// Length of the first chunk of `left` bytes without a boundary: as long as may be, but what remains is not too short for a name.
#[inline(always)]
fn cut(left: usize) -> usize {
    match left {
        ..=CHUNK_MAX => left,
        _ => CHUNK_MAX.min(left - CHUNK_MIN),
    }
}

/// Scratch of one batch of chunks.
struct Batch {
    markers: [u32; BATCH],
    /// Two batches: one is named while the table's lines for the other are on their way.
    chunks: [[Chunk; BATCH]; 2],
    names: [[Name; BATCH]; 2],
}

/// What a chunk matcher is made from, besides its sampler and geometry.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ChunkParams {
    pub(crate) form: ChunkForm,
    pub(crate) key: NameKey,
    pub(crate) entries: u64,
    pub(crate) backlog: usize,
    pub(crate) window: usize,
    pub(crate) kernels: Kernels,
}

/// The chunk matcher with its table and backlog: what an encoder has in place of a log and a matcher.
pub(crate) struct ChunkMatch {
    sampler: Box<dyn Sampler>,
    table: ChunkTable,
    backlog: Backlog,
    laps: Laps,
    /// The decoder holds all content below.
    acknowledged: u64,
    params: ChunkParams,
    stats: MatchStats,
    batch: Box<Batch>,
    /// Names lose the bits that are 0 here, so that tests see collisions.
    #[cfg(test)]
    weak: [u64; 2],
}

impl ChunkMatch {
    /// Bytes besides table and backlog.
    pub(crate) const SCRATCH: usize = size_of::<Batch>();

    pub(crate) fn new(sampler: Box<dyn Sampler>, geometry: Geometry, params: ChunkParams) -> Result<ChunkMatch, ConfigError> {
        Ok(ChunkMatch {
            sampler,
            table: ChunkTable::new(params.entries)?,
            backlog: Backlog::new(params.backlog)?,
            laps: Laps::new(geometry),
            acknowledged: 0,
            params,
            stats: MatchStats::default(),
            batch: Box::new(Batch {
                markers: [0; BATCH],
                chunks: [[Chunk::default(); BATCH]; 2],
                names: [[Name::default(); BATCH]; 2],
            }),
            #[cfg(test)]
            weak: [u64::MAX; 2],
        })
    }

    pub(crate) fn geometry(&self) -> Geometry {
        self.laps.geometry()
    }

    pub(crate) fn end(&self) -> u64 {
        self.laps.end()
    }

    /// The decoder has verified all content below `low`. Offsets never go back, and none beyond the end is believed.
    pub(crate) fn acknowledge(&mut self, low: u64) {
        self.acknowledged = low.min(self.laps.end()).max(self.acknowledged);
        self.backlog.acknowledge(self.acknowledged);
    }

    /// Both ends were given all up to the end by other means, if there is nothing before that is not acknowledged.
    pub(crate) fn primed(&mut self, from: u64) {
        if self.acknowledged >= from {
            self.acknowledge(self.laps.end());
        }
    }

    pub(crate) fn content(&self, range: Range<u64>) -> Option<&[u8]> {
        self.backlog.content(range)
    }

    pub(crate) fn padding_before(&self, range: &Range<u64>) -> Option<u64> {
        self.backlog.padding_before(range)
    }

    /// Forgets what was encoded at `offset` and above; the decoder holds all below. Looks at the whole table.
    ///
    /// # Errors
    /// [`EncodeError::NotHeld`] as [`crate::Encoder::rewind`].
    pub(crate) fn rewind(&mut self, offset: u64) -> Result<(), EncodeError> {
        let end = self.laps.end();
        if !self.laps.rewind(offset) {
            return Err(EncodeError::NotHeld { offset, len: 0 });
        }
        self.table.forget(end, end - offset);
        self.backlog.clear();
        self.acknowledged = offset;
        Ok(())
    }

    pub(crate) fn stats(&self) -> MatchStats {
        self.stats
    }

    pub(crate) fn table_memory(&self) -> usize {
        self.table.memory()
    }

    pub(crate) fn backlog_memory(&self) -> usize {
        self.backlog.memory()
    }

    pub(crate) fn prefault(&mut self) {
        self.table.prefault();
        self.backlog.prefault();
    }

    /// Appends the matches of `block`, which goes to `offset`, to `matches`, and takes note of its chunks and its content.
    pub(crate) fn find(&mut self, block: &[u8], offset: u64, density: Density, matches: &mut Vec<Match>) {
        let geometry = self.laps.geometry();
        let ChunkParams { form, kernels, window, key, .. } = self.params;
        let Batch { markers, chunks, names } = &mut *self.batch;
        #[cfg(test)]
        let weak = self.weak;
        let name = |chunks: &[Chunk], names: &mut [Name]| {
            kernels.names(&key, block, chunks, names);
            #[cfg(test)]
            names.iter_mut().for_each(|name| *name = Name([name.0[0] & weak[0], name.0[1] & weak[1] | 1]));
        };
        let mut chunker = Chunker {
            sampler: &*self.sampler,
            form,
            kernels,
            window,
            density,
            block,
            markers,
            found: 0,
            used: 0,
            resume: Some(0),
            start: 0,
            boundary: 0,
        };
        let mut looker = Looker {
            table: &mut self.table,
            geometry,
            block,
            offset,
            older: geometry.floor(offset, block.len())..self.acknowledged,
            first: matches.len(),
            matches,
        };
        looker.table.sweep(offset, geometry.capacity());
        let (mut count, mut turn) = (0, 0);
        loop {
            let next = chunker.fill(&mut chunks[turn]);
            name(&chunks[turn][..next], &mut names[turn][..next]);
            names[turn][..next].iter().for_each(|&name| looker.table.prefetch(name));
            turn ^= 1;
            looker.look_up(&chunks[turn][..count], &names[turn][..count]);
            self.stats.looked_up += count as u64;
            count = next;
            if count == 0 {
                break;
            }
        }
        self.stats.sampled_bytes += block.len() as u64;
        self.keep(block, offset);
    }

    /// Takes note of the content of `block`, which goes to `offset`, and of no chunk of it.
    pub(crate) fn pass(&mut self, block: &[u8], offset: u64) {
        self.table.sweep(offset, self.laps.geometry().capacity());
        self.keep(block, offset);
    }

    fn keep(&mut self, block: &[u8], offset: u64) {
        self.backlog.push(offset, offset - self.laps.end(), block);
        self.laps.advance(offset, block.len());
    }
}

/// Looks up the chunks of one block.
struct Looker<'a> {
    table: &'a mut ChunkTable,
    geometry: Geometry,
    block: &'a [u8],
    offset: u64,
    /// What can be referred to outside the block.
    older: Range<u64>,
    /// Matches of this block start here.
    first: usize,
    matches: &'a mut Vec<Match>,
}

impl Looker<'_> {
    #[inline]
    fn look_up(&mut self, chunks: &[Chunk], names: &[Name]) {
        for (&chunk, &name) in chunks.iter().zip(names) {
            if let Some(source) = self.source(chunk, name) {
                self.add(chunk, source);
            }
        }
    }

    /// Where the content of the chunk of this name can be referred to. Enters the chunk if nothing newer is known.
    #[inline]
    fn source(&mut self, chunk: Chunk, name: Name) -> Option<u64> {
        let at = chunk.at as usize;
        let now = self.offset + u64::from(chunk.at);
        // Where the last match would go on.
        let expected =
            self.matches[self.first..].last().filter(|last| last.end() == at).map(|last| last.source + u64::from(last.len));
        if let Some(source) = expected
            && let Some(from) = source.checked_sub(self.offset)
            && self.block[from as usize..][..chunk.len as usize] == self.block[at..chunk.end()]
        {
            // A run, or a repeat inside the block: the bytes are at hand.
            return Some(source);
        }
        let bucket = self.table.bucket_of(name);
        let mut ways = self.table.ways_with(bucket, name);
        let (mut best, mut pending) = (None, false);
        while ways != 0 {
            let way = ways.trailing_zeros() as usize;
            ways &= ways - 1;
            let age = self.table.age(bucket, way, now);
            // Only the name of zeros, one in 2^128, is in an empty entry, and that may be of age 0.
            let Some(source) = now.checked_sub(age).filter(|_| age > 0) else { continue };
            let usable = if source >= self.offset {
                pending = true;
                true
            } else {
                let end = source + u64::from(chunk.len);
                pending |= end > self.older.end;
                source >= self.older.start && end <= self.older.end
            };
            if usable && (expected == Some(source) || best.is_none_or(|best| expected != Some(best) && source > best)) {
                best = Some(source);
            }
        }
        if !pending {
            // The newest copy is what the next will most likely go on with; the older one serves until it is acknowledged. One that is
            // on its way is not overtaken: content repeated in every block would never be acknowledged.
            let settled = now - self.older.end + CHUNK_MAX as u64;
            self.table.put(bucket, name, now, settled);
        }
        best
    }

    /// Adds a match, or goes on with the last one.
    #[inline]
    fn add(&mut self, chunk: Chunk, source: u64) {
        if let Some(last) = self.matches[self.first..].last_mut()
            && last.end() == chunk.at as usize
            && last.source + u64::from(last.len) == source
            && (last.source < self.offset) == (source < self.offset)
            && self.geometry.in_one_lap(&(last.source..source + u64::from(chunk.len)))
        {
            last.len += chunk.len;
        } else {
            self.matches.push(Match { at: chunk.at, len: chunk.len, source });
        }
    }
}
