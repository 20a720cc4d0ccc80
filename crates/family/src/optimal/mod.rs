//! Optimal: an upper bound of what redundancy elimination with windows of `w` bytes can save.
//!
//! Thesis, section 2.2 (lines 962-988): every window enters a Bloom filter of 16 bits per byte of
//! cache with 8 hash functions; a window that the filter holds is a match; overlapping matches
//! count as one, as if they overlapped in the store, too. Here each maximal run of overlapping
//! matches costs one pointer, and a run no longer than a pointer is not taken. Every parse of a
//! block into literals and matches of at least `w` bytes lies inside these runs and needs at least
//! one pointer in each it uses, so none saves more, as long as a match costs at least a pointer.
//! Matches shorter than `w` are not bounded: those that
//! [`MaxMatch`](oncewire_codec::matcher::MaxMatch) adds after a short difference may lie outside
//! the runs.
//!
//! A filter has false positives. On content without repeats, a full filter of this size reports
//! about 0.06 % of all windows, which looks like 1.8 % of redundancy at `w = 32`.
//! [`Optimal::false_positive_bias`] measures this and should accompany every figure of this module.
//!
//! ```
//! use oncewire_family::optimal::{DEFAULT_POINTER, Filter, Optimal};
//!
//! let mut optimal = Optimal::new(32, 1 << 20, DEFAULT_POINTER, Filter::Bloom)?;
//! let block: Vec<u8> = (0..1000u32).flat_map(|i| i.wrapping_mul(0x9e37_79b9).to_le_bytes()).collect();
//! assert_eq!(optimal.add_block(&block).runs, 0);
//! let again = optimal.add_block(&block);
//! assert_eq!((again.runs, again.run_bytes, again.saved_bytes), (1, 4000, 3996));
//! # Ok::<(), oncewire_codec::ConfigError>(())
//! ```

mod filter;
#[cfg(test)]
mod tests;

use filter::{Batch, Cells, Noise, Past, Runs, Store};
use oncewire_codec::{ConfigError, Geometry};
use oncewire_kernels::{Kernels, random::SplitMix64};
use std::collections::HashMap;
use std::ops::AddAssign;

/// Default cost of a pointer in bytes: EndRE's `<offset, length>` (endre section 5.2.2).
pub const DEFAULT_POINTER: u64 = 4;
/// Hash functions (thesis, line 975).
pub const HASHES: usize = 8;
/// Bits, or counters, per byte of cache (thesis, line 975).
pub const BITS_PER_BYTE: u64 = 16;
/// The same of [`Filter::Lines`].
pub const BITS_PER_BYTE_IN_LINES: u64 = 24;

/// How past windows are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Filter {
    /// A Bloom filter: 2 bytes of memory per byte of cache. It never forgets, so it suits content
    /// that fits the cache; more content overfills it, and false positives rise.
    Bloom,
    /// A Bloom filter in which the bits of a window share a line of the processor's cache, one in
    /// each of its eight words (Putze, Sanders and Singler, Cache-, Hash- and Space-Efficient Bloom
    /// Filters, 2007): one access to memory for a window instead of eight. 3 bytes of memory per byte
    /// of cache, 24 bits, so that false positives are fewer than with [`Filter::Bloom`], though lines
    /// fill unevenly. It never forgets, either.
    Lines,
    /// A counting Bloom filter with 4-bit counters and FIFO eviction: 9 bytes of memory per byte of
    /// cache, the content included. A counter that reaches 15 stays there, which adds false
    /// positives but never loses a true one.
    CountingBloom,
    /// The windows themselves, with FIFO eviction: no false positives, a hundred bytes or more per
    /// byte of cache. For small inputs, to check the others.
    Exact,
}

/// What [`Optimal`] found in one block, or in all so far.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct BlockFigures {
    /// Bytes of content.
    pub bytes: u64,
    /// Windows looked up: those that lie inside one block.
    pub windows: u64,
    /// Of these, windows that the filter held.
    pub hits: u64,
    /// Of the hits, how many are expected to be false: from the misses and the fill at the end of
    /// the block. An estimate.
    pub expected_false_hits: f64,
    /// Maximal runs of overlapping hits that are longer than a pointer.
    pub runs: u64,
    /// Bytes in these runs.
    pub run_bytes: u64,
    /// `run_bytes` without a pointer for each run: the most that could be saved.
    pub saved_bytes: u64,
}

impl AddAssign for BlockFigures {
    fn add_assign(&mut self, other: BlockFigures) {
        self.bytes += other.bytes;
        self.windows += other.windows;
        self.hits += other.hits;
        self.expected_false_hits += other.expected_false_hits;
        self.runs += other.runs;
        self.run_bytes += other.run_bytes;
        self.saved_bytes += other.saved_bytes;
    }
}

/// What a filter as full as it is says about pseudo-random data, which repeats nothing.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bias {
    /// Share of the filter's bits that are set, or of its counters that are not 0.
    pub fill: f64,
    /// Expected share of windows with a false hit: `fill` to the power of [`HASHES`].
    pub expected_per_window: f64,
    /// Measured share of windows with a false hit.
    pub measured_per_window: f64,
    /// Share of the bytes that lie in runs: redundancy that is not there.
    pub apparent_redundancy: f64,
    /// The same with a pointer taken off for each run: savings that are not there.
    pub apparent_savings: f64,
}

/// The Bloom-filter upper bound on what redundancy elimination can save.
///
/// Blocks are one stream: windows that straddle two blocks are inserted, since a match may cover
/// such content, but only windows inside a block are looked up. Each is looked up before it is
/// inserted, so a block may repeat its own past, at any distance from 1 byte on. With eviction, a
/// window that begins `d` bytes back is found if `d` is at most the cache.
pub struct Optimal {
    window: usize,
    pointer: u64,
    kernels: Kernels,
    filter: Store,
    /// The content that [`Store`] may have to forget; none for a filter that never forgets.
    past: Option<Past>,
    /// End of the stream, in bytes.
    end: u64,
    /// The last bytes of the stream, fewer than a window, and the piece of the block in work.
    stage: Vec<u8>,
    /// One batch of windows to forget.
    forget: Vec<u8>,
    /// Whether a block is looked up before any of it is inserted.
    earlier_blocks: bool,
    totals: BlockFigures,
}

impl std::fmt::Debug for Optimal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Optimal")
            .field("window", &self.window)
            .field("totals", &self.totals)
            .finish_non_exhaustive()
    }
}

/// Windows whose indices are computed, and whose filter lines are fetched, ahead of their use.
const BATCH: usize = 32;
/// Bytes of a block taken at once.
const PIECE: usize = 16 << 10;
/// Key of the fingerprints. Fixed, so that figures repeat; the data is the operator's own.
const KEY: u64 = 0x6f70_7469_6d61_6c00;

impl Optimal {
    /// An empty filter for a cache of `cache_bytes`. `window` is 12..=64 bytes, `pointer_bytes`
    /// what each run is charged ([`DEFAULT_POINTER`]).
    ///
    /// # Errors
    /// [`ConfigError::Window`] and [`ConfigError::Capacity`] for what is out of range,
    /// [`ConfigError::Memory`] if the system has no memory of the size that [`Filter`] needs.
    pub fn new(
        window: usize,
        cache_bytes: u64,
        pointer_bytes: u64,
        filter: Filter,
    ) -> Result<Optimal, ConfigError> {
        ConfigError::check_window(window)?;
        Geometry::new(cache_bytes, 0)?;
        let store = match filter {
            Filter::Bloom => Store::Bloom(Cells::new(cache_bytes, 1)?),
            Filter::Lines => Store::Bloom(Cells::in_lines(cache_bytes)?),
            Filter::CountingBloom => Store::Counting(Cells::new(cache_bytes, 4)?),
            Filter::Exact => Store::Exact(HashMap::new()),
        };
        let past = match filter {
            Filter::Bloom | Filter::Lines => None,
            Filter::CountingBloom | Filter::Exact => Some(Past::new(cache_bytes)?),
        };
        Ok(Optimal {
            window,
            pointer: pointer_bytes,
            kernels: Kernels::detect(),
            filter: store,
            past,
            end: 0,
            stage: Vec::with_capacity(PIECE + window),
            forget: Vec::with_capacity(BATCH + window),
            earlier_blocks: false,
            totals: BlockFigures::default(),
        })
    }

    /// Bounds what can be saved by repeats of earlier blocks only, as the papers' max-match finds
    /// them: a block is looked up before any of it is inserted. With eviction, what leaves the cache
    /// with the block is still found. Default no.
    #[must_use]
    pub fn of_earlier_blocks(self) -> Optimal {
        Optimal { earlier_blocks: true, ..self }
    }

    /// Looks up and inserts the windows of the next block of the stream. A block may have any size.
    pub fn add_block(&mut self, block: &[u8]) -> BlockFigures {
        let mut runs = Runs::new(self.window, self.pointer);
        let mut figures = BlockFigures { bytes: block.len() as u64, ..BlockFigures::default() };
        let start = self.end;
        if self.earlier_blocks {
            self.look_up(block, |at, hit| {
                figures.windows += 1;
                if hit {
                    figures.hits += 1;
                    runs.hit(at);
                }
            });
        }
        let is_counted = !self.earlier_blocks;
        for piece in block.chunks(PIECE) {
            // Keep the bytes whose windows were not complete before.
            let keep = self.stage.len().min(self.window - 1);
            self.stage.drain(..self.stage.len() - keep);
            self.stage.extend_from_slice(piece);
            if let Some(past) = &mut self.past {
                past.write(self.end, piece);
            }
            let first = self.end - keep as u64;
            self.end += piece.len() as u64;
            let windows = (self.stage.len() + 1).saturating_sub(self.window);
            self.add_windows(first, windows, |at, hit| {
                // Windows that begin before the block are inserted only.
                if let Some(at) = at.checked_sub(start).filter(|_| is_counted) {
                    figures.windows += 1;
                    if hit {
                        figures.hits += 1;
                        runs.hit(at);
                    }
                }
            });
        }
        (figures.runs, figures.run_bytes, figures.saved_bytes) = runs.finish();
        let rate = self.expected_rate();
        if rate < 1.0 {
            figures.expected_false_hits =
                (figures.windows - figures.hits) as f64 * rate / (1.0 - rate);
        }
        self.totals += figures;
        figures
    }

    /// Sums over all blocks so far.
    pub fn totals(&self) -> BlockFigures {
        self.totals
    }

    /// Memory of the filter and of the content held for eviction, in bytes. For [`Filter::Exact`]
    /// an estimate.
    pub fn memory(&self) -> usize {
        let filter = match &self.filter {
            Store::Bloom(cells) | Store::Counting(cells) => cells.words.len() * 8,
            Store::Exact(windows) => {
                windows.capacity() * (size_of::<(Box<[u8]>, u32)>() + 1)
                    + windows.len() * self.window
            }
        };
        filter + self.past.as_ref().map_or(0, |past| past.ring.len())
    }

    /// Share of the filter's bits that are set, or of its counters that are not 0. 0 for
    /// [`Filter::Exact`].
    pub fn fill(&self) -> f64 {
        match &self.filter {
            Store::Bloom(cells) | Store::Counting(cells) => cells.used as f64 / cells.len as f64,
            Store::Exact(_) => 0.0,
        }
    }

    /// What the filter, as full as it is now, finds in `bytes` of pseudo-random data made from
    /// `seed`, which it cannot hold. Looks up only: nothing changes.
    pub fn false_positive_bias(&self, seed: u64, bytes: u64) -> Bias {
        let mut noise = Noise(SplitMix64(seed));
        let mut runs = Runs::new(self.window, self.pointer);
        let (mut windows, mut hits) = (0u64, 0u64);
        let mut stage: Vec<u8> = Vec::with_capacity(PIECE + self.window);
        let (mut made, mut first) = (0, 0u64);
        while made < bytes {
            let piece = (bytes - made).min(PIECE as u64);
            let keep = stage.len().min(self.window - 1);
            first += (stage.len() - keep) as u64;
            stage.drain(..stage.len() - keep);
            stage.extend(noise.by_ref().take(piece as usize));
            made += piece;
            for at in 0..(stage.len() + 1).saturating_sub(self.window) {
                windows += 1;
                if self.holds(&stage[at..at + self.window]) {
                    hits += 1;
                    runs.hit(first + at as u64);
                }
            }
        }
        let (_, run_bytes, saved) = runs.finish();
        let share = |part: u64, whole: u64| part as f64 / whole.max(1) as f64;
        Bias {
            fill: self.fill(),
            expected_per_window: self.expected_rate(),
            measured_per_window: share(hits, windows),
            apparent_redundancy: share(run_bytes, bytes),
            apparent_savings: share(saved, bytes),
        }
    }

    fn expected_rate(&self) -> f64 {
        self.fill().powi(HASHES as i32)
    }

    /// Looks up the windows inside a block. Tells the position of each and whether it is held.
    fn look_up(&self, block: &[u8], mut tell: impl FnMut(u64, bool)) {
        let mut batch = Batch::EMPTY;
        let windows = (block.len() + 1).saturating_sub(self.window);
        for first in (0..windows).step_by(BATCH) {
            let len = (windows - first).min(BATCH);
            let (cells, is_held): (_, fn(&Cells, u64) -> bool) = match &self.filter {
                Store::Exact(held) => {
                    for at in first..first + len {
                        tell(at as u64, held.contains_key(&block[at..at + self.window]));
                    }
                    continue;
                }
                Store::Bloom(cells) => (cells, |cells, index| cells.get::<1>(index) != 0),
                Store::Counting(cells) => (cells, |cells, index| cells.get::<4>(index) != 0),
            };
            batch.prepare(self.kernels, cells, block, first, len, self.window);
            for (i, indices) in batch.indices[..len].iter().enumerate() {
                tell((first + i) as u64, indices.iter().all(|&index| is_held(cells, index)));
            }
        }
    }

    fn holds(&self, window: &[u8]) -> bool {
        let mut fingerprint = [0];
        self.kernels.fingerprints(window, &[0], window.len(), KEY, &mut fingerprint);
        match &self.filter {
            Store::Bloom(cells) => {
                cells.indices(fingerprint[0]).iter().all(|&index| cells.get::<1>(index) != 0)
            }
            Store::Counting(cells) => {
                cells.indices(fingerprint[0]).iter().all(|&index| cells.get::<4>(index) != 0)
            }
            Store::Exact(windows) => windows.contains_key(window),
        }
    }

    /// Looks up and inserts the first `windows` windows of the stage, which begin at offset `first`
    /// of the stream, and forgets those that leave the cache meanwhile. Tells each window's offset
    /// and whether it was there.
    fn add_windows(&mut self, first: u64, windows: usize, mut tell: impl FnMut(u64, bool)) {
        let window = self.window;
        match &mut self.filter {
            Store::Exact(held) => {
                let past = self.past.as_ref().expect("an exact filter holds the past");
                for at in 0..windows {
                    let (offset, new) = (first + at as u64, &self.stage[at..at + window]);
                    tell(offset, held.contains_key(new));
                    if let Some(old) = offset.checked_sub(past.cache) {
                        past.read(old, window, &mut self.forget);
                        let count = held
                            .get_mut(&self.forget[..])
                            .expect("every window of the past was inserted");
                        *count -= 1;
                        if *count == 0 {
                            held.remove(&self.forget[..]);
                        }
                    }
                    match held.get_mut(new) {
                        Some(count) => *count += 1,
                        None => drop(held.insert(new.into(), 1)),
                    }
                }
            }
            Store::Bloom(cells) => {
                let mut batch = Batch::EMPTY;
                let mut at = 0;
                while at < windows {
                    batch.prepare(
                        self.kernels,
                        cells,
                        &self.stage,
                        at,
                        (windows - at).min(BATCH),
                        window,
                    );
                    for (i, indices) in batch.indices[..batch.len].iter().enumerate() {
                        tell(first + (at + i) as u64, cells.set(indices));
                    }
                    at += batch.len;
                }
            }
            Store::Counting(cells) => {
                let past = self.past.as_ref().expect("a counting filter holds the past");
                let (mut new, mut old) = (Batch::EMPTY, Batch::EMPTY);
                let mut at = 0;
                while at < windows {
                    let len = (windows - at).min(BATCH);
                    new.prepare(self.kernels, cells, &self.stage, at, len, window);
                    // The windows to forget are the last ones of the batch, or all.
                    let offset = first + at as u64;
                    let kept = past.cache.saturating_sub(offset).min(len as u64) as usize;
                    if kept < len {
                        past.read(
                            offset + kept as u64 - past.cache,
                            len - kept + window - 1,
                            &mut self.forget,
                        );
                    }
                    old.prepare(self.kernels, cells, &self.forget, 0, len - kept, window);
                    for (i, indices) in new.indices[..len].iter().enumerate() {
                        tell(
                            offset + i as u64,
                            indices.iter().all(|&index| cells.get::<4>(index) != 0),
                        );
                        if i >= kept {
                            cells.decrement(&old.indices[i - kept]);
                        }
                        cells.increment(indices);
                    }
                    at += len;
                }
            }
        }
    }
}
