//! Chunk-match (EndRE section 5.2.1) finds chunks that repeat as a whole by their names; the
//! encoder keeps no content.
//!
//! Markers cut a block into chunks, each chunk gets a collision-resistant name, and a table maps
//! names to offsets in the decoder's log. The encoder keeps content for repairs only until the
//! decoder has acknowledged it.
//!
//! Compared with the paper:
//! - A chunk has at most [`CHUNK_MAX`] bytes, as in the paper; longer ones are cut. A marker less
//!   than [`CHUNK_MIN`] bytes after a boundary is ignored. A block's start and end also bound
//!   chunks; a shorter chunk at its end is sent literally.
//! - EndRE names chunks with SHA-1, which can be made to collide; here names are keyed
//!   ([`oncewire_kernels::family::NameKey`]).
//! - EndRE sends four bytes of `<offset, length>` for each chunk. Here chunks that follow each
//!   other in the block and in the log become one match, and frames are the same as max-match's. A
//!   decoder cannot tell which matcher wrote them.
//! - EndRE's table holds 24 bytes for each `p` bytes of cache: 37.5 % of it at `p = 64`. So does
//!   this one by default, at 21 1/3 bytes per entry; the oldest entries make room.
//! - The table points to the newest acknowledged copy; EndRE's to the newest. Keeping the first
//!   copy instead made twice as many matches on versions of a source tree, half as long.
//! - EndRE refers to content that TCP may not have delivered, and resets when it must. Here a match
//!   refers only to content that the decoder has acknowledged, or to the same block before the
//!   match.

mod backlog;

pub mod study;
mod table;
#[cfg(test)]
mod tests;

use backlog::Backlog;
use oncewire_codec::matcher::{Density, Match, MatchStats};
use oncewire_codec::sampler::{AnySampler, Sampler, Sampling};
use oncewire_codec::search::{SearchMemory, Store};
use oncewire_codec::{ConfigError, EncodeError, Generations, Geometry};
use oncewire_kernels::Kernels;
use oncewire_kernels::family::{Chunk, Name, NameKey};
use std::ops::Range;
use table::ChunkTable;

pub(crate) use backlog::default_limit;
pub(crate) use table::table_bytes;

/// Longest chunk in bytes (EndRE section 5.2.1).
pub const CHUNK_MAX: usize = 256;

/// Shortest named chunk, in bytes: the longest plain descriptor of a match.
pub const CHUNK_MIN: usize = 12;

/// Bytes of table for each sampling period of cache: EndRE's 20 bytes of hash and 4 of
/// `<offset, length>`.
const TABLE_BYTES_PER_PERIOD: u64 = 24;

/// Entries of a chunk table by default: as many as fit EndRE's 24 bytes for each period, at least
/// one bucket.
pub(crate) fn default_entries(cache: u64, period: usize) -> u64 {
    // A bucket of 64 bytes has three entries.
    (cache / period as u64 * TABLE_BYTES_PER_PERIOD / 64 * 3).max(1)
}

/// How markers bound a chunk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ChunkForm {
    /// A chunk begins at a marker and ends before the next (EndRE section 5.2.1).
    #[default]
    StartsAtMarker,
    /// A chunk ends with the last byte of the marker's window (Martynov section 3.1).
    EndsWithWindow,
}

/// Chunks per batch: enough for their cache misses to overlap, few enough for their names to stay
/// in the L1 cache.
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
    /// Where the search for markers continues; `None` once it is complete.
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
                let Chunker { kernels, block, window, density, .. } = *self;
                let sampling = Sampling { kernels, block, window, period: density.period(), from };
                let markers = &mut self.markers[..];
                let sampled = match density {
                    Density::Period(_) => self.sampler.sample(sampling, markers),
                    Density::Sparse => self.sampler.sample_sparsely(sampling, markers),
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

    /// Fills `chunks` with the next chunks long enough for a name. Returns their number, 0 at the
    /// end of the block.
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

/// Length of the first chunk of `left` bytes without a boundary: as long as possible, but leaving
/// enough for the next one's name.
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
    /// Two batches: one is named while the table's lines for the other are being fetched.
    chunks: [[Chunk; BATCH]; 2],
    names: [[Name; BATCH]; 2],
}

/// Bytes besides table and backlog.
const SCRATCH: usize = size_of::<Batch>();

/// Parameters of a chunk matcher besides sampler and geometry.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ChunkParams {
    pub(crate) form: ChunkForm,
    pub(crate) key: NameKey,
    pub(crate) entries: u64,
    pub(crate) backlog: usize,
    pub(crate) window: usize,
    pub(crate) kernels: Kernels,
    /// Whether matches refer to earlier blocks only.
    pub(crate) earlier_blocks: bool,
}

/// The chunk matcher with its table and backlog, which an encoder has in place of a log and a
/// matcher.
pub(crate) struct ChunkMatch {
    sampler: AnySampler,
    table: ChunkTable,
    backlog: Backlog,
    generations: Generations,
    /// The decoder holds all content below.
    acknowledged: u64,
    params: ChunkParams,
    stats: MatchStats,
    batch: Box<Batch>,
    /// Mask of name bits, so that tests can provoke collisions.
    #[cfg(test)]
    weak: [u64; 2],
}

impl ChunkMatch {
    pub(crate) fn new(
        sampler: AnySampler,
        geometry: Geometry,
        params: ChunkParams,
    ) -> Result<ChunkMatch, ConfigError> {
        Ok(ChunkMatch {
            sampler,
            table: ChunkTable::new(params.entries)?,
            backlog: Backlog::new(params.backlog)?,
            generations: Generations::new(geometry),
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

    fn keep(&mut self, block: &[u8], offset: u64) {
        self.backlog.push(offset, offset - self.generations.end(), block);
        self.generations.advance(offset, block.len());
    }
}

impl Store for ChunkMatch {
    fn geometry(&self) -> Geometry {
        self.generations.geometry()
    }

    fn end(&self) -> u64 {
        self.generations.end()
    }

    fn acknowledge(&mut self, low: u64) {
        self.acknowledged = low.min(self.generations.end()).max(self.acknowledged);
        self.backlog.acknowledge(self.acknowledged);
    }

    /// Counts as acknowledged if there is nothing before it that is not.
    fn primed(&mut self, from: u64) {
        if self.acknowledged >= from {
            self.acknowledge(self.generations.end());
        }
    }

    fn content(&self, range: Range<u64>) -> Option<&[u8]> {
        self.backlog.content(range)
    }

    fn padding_before(&self, range: &Range<u64>) -> Option<u64> {
        self.backlog.padding_before(range)
    }

    /// Everything below `offset` counts as acknowledged, and the whole table is looked at.
    fn rewind(&mut self, offset: u64) -> Result<(), EncodeError> {
        let end = self.generations.end();
        if !self.generations.rewind(offset) {
            return Err(EncodeError::NotHeld { offset, len: 0 });
        }
        self.table.forget(end, end - offset);
        self.backlog.clear();
        self.acknowledged = offset;
        Ok(())
    }

    fn stats(&self) -> MatchStats {
        self.stats
    }

    fn memory(&self) -> SearchMemory {
        let [log, table, scratch] =
            [self.backlog.memory(), self.table.memory(), SCRATCH].map(|bytes| bytes as u64);
        SearchMemory { log, table, scratch }
    }

    fn prefault(&mut self) {
        self.table.prefault();
        self.backlog.prefault();
    }

    fn find(&mut self, block: &[u8], offset: u64, density: Density, matches: &mut Vec<Match>) {
        let geometry = self.generations.geometry();
        let ChunkParams { form, kernels, window, key, earlier_blocks, .. } = self.params;
        let Batch { markers, chunks, names } = &mut *self.batch;
        #[cfg(test)]
        let weak = self.weak;
        let name = |chunks: &[Chunk], names: &mut [Name]| {
            kernels.names(&key, block, chunks, names);
            #[cfg(test)]
            names
                .iter_mut()
                .for_each(|name| *name = Name([name.0[0] & weak[0], name.0[1] & weak[1] | 1]));
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
            within: !earlier_blocks,
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

    /// Keeps the content, but indexes no chunk of it.
    fn pass(&mut self, block: &[u8], offset: u64) {
        self.table.sweep(offset, self.generations.geometry().capacity());
        self.keep(block, offset);
    }
}

/// Looks up the chunks of one block.
struct Looker<'a> {
    table: &'a mut ChunkTable,
    geometry: Geometry,
    block: &'a [u8],
    offset: u64,
    /// The range that matches may refer to outside the block.
    older: Range<u64>,
    /// Whether they may refer to the block itself.
    within: bool,
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

    /// An offset at which the content of this name can be referred to. Inserts the chunk unless a
    /// newer copy is pending.
    #[inline]
    fn source(&mut self, chunk: Chunk, name: Name) -> Option<u64> {
        let at = chunk.at as usize;
        let now = self.offset + u64::from(chunk.at);
        // Where the last match would continue.
        let expected = self.matches[self.first..]
            .last()
            .filter(|last| last.end() == at)
            .map(|last| last.source + u64::from(last.len));
        if self.within
            && let Some(source) = expected
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
                self.within
            } else {
                let end = source + u64::from(chunk.len);
                pending |= end > self.older.end;
                source >= self.older.start && end <= self.older.end
            };
            if usable
                && (expected == Some(source)
                    || best.is_none_or(|best| expected != Some(best) && source > best))
            {
                best = Some(source);
            }
        }
        if !pending {
            // The next chunk most likely continues the newest copy; the older one serves until that
            // is acknowledged. A pending copy is not replaced: otherwise content repeated in every
            // block would never be acknowledged.
            let settled = now - self.older.end + CHUNK_MAX as u64;
            self.table.put(bucket, name, now, settled);
        }
        best
    }

    /// Adds a match, or extends the last one.
    #[inline]
    fn add(&mut self, chunk: Chunk, source: u64) {
        if let Some(last) = self.matches[self.first..].last_mut()
            && last.end() == chunk.at as usize
            && last.source + u64::from(last.len) == source
            && (last.source < self.offset) == (source < self.offset)
            && self.geometry.in_one_generation(&(last.source..source + u64::from(chunk.len)))
        {
            last.len += chunk.len;
        } else {
            self.matches.push(Match { at: chunk.at, len: chunk.len, source });
        }
    }
}
