//! Optimal: how much any redundancy elimination with windows of `w` bytes could save, at most.
//!
//! Thesis, section 2.2 (lines 962-988): every window goes into a Bloom filter of 16 bits per byte of cache with 8 hash functions;
//! a window that the filter holds is a match; matches that overlap are taken for one, as if they overlapped in the store
//! too. Here each maximal run of overlapping matches costs one pointer, and a run no longer than a pointer is not taken. Every
//! parse of a block into literals and matches of at least `w` bytes lies inside these runs and needs at least one pointer in
//! each it uses, so none saves more, as long as a match costs at least a pointer. Matches shorter than `w` are not bounded:
//! those that [`MaxMatch`](crate::matcher::MaxMatch) takes behind a short difference may lie outside the runs.
//!
//! A filter also says yes to windows that it does not hold. On content without any repeats, a full filter of these sizes finds
//! about 0.06 % of all windows, which looks like 1.8 % of redundancy at `w = 32`. [`Optimal::false_positive_bias`] measures
//! it, and should stand beside every figure of this module.
//!
//! ```
//! use oncewire_codec::optimal::{DEFAULT_POINTER, Filter, Optimal};
//!
//! let mut optimal = Optimal::new(32, 1 << 20, DEFAULT_POINTER, Filter::Bloom)?;
//! let block: Vec<u8> = (0..1000u32).flat_map(|i| i.wrapping_mul(0x9e37_79b9).to_le_bytes()).collect();
//! assert_eq!(optimal.add_block(&block).runs, 0);
//! let again = optimal.add_block(&block);
//! assert_eq!((again.runs, again.run_bytes, again.saved_bytes), (1, 4000, 3996));
//! # Ok::<(), oncewire_codec::ConfigError>(())
//! ```

use crate::error::ConfigError;
use crate::log::Geometry;
use oncewire_kernels::{Kernels, Pages};
use std::collections::HashMap;
use std::ops::AddAssign;

/// Bytes that a pointer costs unless told otherwise: EndRE's `<offset, length>` (endre section 5.2.2).
pub const DEFAULT_POINTER: u64 = 4;
/// Hash functions (thesis, line 975).
pub const HASHES: usize = 8;
/// Bits, or counters, per byte of cache (thesis, line 975).
pub const BITS_PER_BYTE: u64 = 16;

/// How past windows are remembered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Filter {
    /// A Bloom filter: 2 bytes of memory per byte of cache. Never forgets, so for content that fits the cache; more fills it
    /// beyond what it is made for, and the false positives rise.
    Bloom,
    /// A counting Bloom filter with 4-bit counters and FIFO eviction: 9 bytes of memory per byte of cache, the content
    /// included. A counter that reaches 15 stays there, since it no longer knows what it counts; it costs false positives and
    /// never a true one.
    CountingBloom,
    /// The windows themselves, with FIFO eviction: no false positives, a hundred bytes or more per byte of cache. For small
    /// inputs, to judge the others.
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
    /// Of the hits, how many are expected to be false: from the misses and the fill at the end of the block. An estimate.
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
/// Blocks are one stream: windows that straddle two blocks are inserted, since a match may cover such content, but only windows
/// inside a block are looked up. Each is looked up before it is inserted, so a block may repeat its own past, at any distance
/// from 1 byte on. With eviction, a window that begins `d` bytes back is found if `d` is at most the cache.
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
    totals: BlockFigures,
}

impl std::fmt::Debug for Optimal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Optimal").field("window", &self.window).field("totals", &self.totals).finish_non_exhaustive()
    }
}

/// Windows whose indices are computed, and whose filter lines are fetched, ahead of their use.
const BATCH: usize = 32;
/// Bytes of a block taken at once.
const PIECE: usize = 16 << 10;
/// Key of the fingerprints. Fixed, so that figures repeat; the data is the operator's own.
const KEY: u64 = 0x6f70_7469_6d61_6c00;

impl Optimal {
    /// An empty filter for a cache of `cache_bytes`. `window` is 12..=64 bytes, `pointer_bytes` what each run is charged
    /// ([`DEFAULT_POINTER`]).
    ///
    /// # Errors
    /// [`ConfigError::Window`] and [`ConfigError::Capacity`] for what is out of range, [`ConfigError::Memory`] if the system has
    /// no memory of the size that [`Filter`] needs.
    pub fn new(window: usize, cache_bytes: u64, pointer_bytes: u64, filter: Filter) -> Result<Optimal, ConfigError> {
        if !(12..=64).contains(&window) {
            return Err(ConfigError::Window { window });
        }
        Geometry::new(cache_bytes, 0)?;
        let store = match filter {
            Filter::Bloom => Store::Bloom(Cells::new(cache_bytes, 1)?),
            Filter::CountingBloom => Store::Counting(Cells::new(cache_bytes, 4)?),
            Filter::Exact => Store::Exact(HashMap::new()),
        };
        let past = if filter == Filter::Bloom { None } else { Some(Past::new(cache_bytes)?) };
        Ok(Optimal {
            window,
            pointer: pointer_bytes,
            kernels: Kernels::detect(),
            filter: store,
            past,
            end: 0,
            stage: Vec::with_capacity(PIECE + window),
            forget: Vec::with_capacity(BATCH + window),
            totals: BlockFigures::default(),
        })
    }

    /// Looks up and inserts the windows of the next block of the stream. A block may have any size.
    pub fn add_block(&mut self, block: &[u8]) -> BlockFigures {
        let mut runs = Runs::new(self.window, self.pointer);
        let mut figures = BlockFigures { bytes: block.len() as u64, ..BlockFigures::default() };
        let start = self.end;
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
                if let Some(at) = at.checked_sub(start) {
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
            figures.expected_false_hits = (figures.windows - figures.hits) as f64 * rate / (1.0 - rate);
        }
        self.totals += figures;
        figures
    }

    /// Sums over all blocks so far.
    pub fn totals(&self) -> BlockFigures {
        self.totals
    }

    /// Memory of the filter and of the content held for eviction, in bytes. For [`Filter::Exact`] an estimate.
    pub fn memory(&self) -> usize {
        let filter = match &self.filter {
            Store::Bloom(cells) | Store::Counting(cells) => cells.words.len() * 8,
            Store::Exact(windows) => windows.capacity() * (size_of::<(Box<[u8]>, u32)>() + 1) + windows.len() * self.window,
        };
        filter + self.past.as_ref().map_or(0, |past| past.ring.len())
    }

    /// Share of the filter's bits that are set, or of its counters that are not 0. 0 for [`Filter::Exact`].
    pub fn fill(&self) -> f64 {
        match &self.filter {
            Store::Bloom(cells) | Store::Counting(cells) => cells.used as f64 / cells.len as f64,
            Store::Exact(_) => 0.0,
        }
    }

    /// What the filter, as full as it is now, finds in `bytes` of pseudo-random data made from `seed`, which it cannot hold.
    /// Looks up only: nothing changes.
    pub fn false_positive_bias(&self, seed: u64, bytes: u64) -> Bias {
        let mut noise = Noise(seed);
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

    fn holds(&self, window: &[u8]) -> bool {
        let mut fingerprint = [0];
        self.kernels.fingerprints(window, &[0], window.len(), KEY, &mut fingerprint);
        match &self.filter {
            Store::Bloom(cells) => cells.indices(fingerprint[0]).iter().all(|&index| cells.get::<1>(index) != 0),
            Store::Counting(cells) => cells.indices(fingerprint[0]).iter().all(|&index| cells.get::<4>(index) != 0),
            Store::Exact(windows) => windows.contains_key(window),
        }
    }

    /// Looks up and inserts the first `windows` windows of the stage, which begin at offset `first` of the stream, and forgets
    /// those that leave the cache meanwhile. Tells each window's offset and whether it was there.
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
                        let count = held.get_mut(&self.forget[..]).expect("every window of the past was inserted");
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
                // One batch is being fetched while the one before it is used.
                let (mut now, mut next) = (Batch::EMPTY, Batch::EMPTY);
                now.prepare(self.kernels, cells, &self.stage, 0, windows.min(BATCH), window);
                let mut at = 0;
                while at < windows {
                    let after = at + now.len;
                    next.prepare(self.kernels, cells, &self.stage, after, (windows - after).min(BATCH), window);
                    for (i, indices) in now.indices[..now.len].iter().enumerate() {
                        tell(first + (at + i) as u64, cells.set(indices));
                    }
                    std::mem::swap(&mut now, &mut next);
                    at = after;
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
                        past.read(offset + kept as u64 - past.cache, len - kept + window - 1, &mut self.forget);
                    }
                    old.prepare(self.kernels, cells, &self.forget, 0, len - kept, window);
                    for (i, indices) in new.indices[..len].iter().enumerate() {
                        tell(offset + i as u64, indices.iter().all(|&index| cells.get::<4>(index) != 0));
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

/// What remembers the windows.
enum Store {
    Bloom(Cells),
    Counting(Cells),
    Exact(HashMap<Box<[u8]>, u32>),
}

/// Bits or counters in 64-bit words.
struct Cells {
    words: Pages<u64>,
    /// Number of bits or counters.
    len: u64,
    /// How many are not 0.
    used: u64,
}

impl Cells {
    fn new(cache_bytes: u64, width: u64) -> Result<Cells, ConfigError> {
        let len = cache_bytes * BITS_PER_BYTE;
        let words = usize::try_from((len * width).div_ceil(64)).unwrap_or(usize::MAX);
        let words = Pages::zeroed(words).map_err(|source| {
            let what = if width == 1 { "Bloom filter" } else { "counting Bloom filter" };
            ConfigError::Memory { bytes: words.saturating_mul(8), what, source }
        })?;
        Ok(Cells { words, len, used: 0 })
    }

    /// Double hashing (Kirsch and Mitzenmacher, ESA 2006): an arithmetic progression of 64-bit numbers, each reduced to the
    /// range by the high half of a product. The step's high bits depend on all bits of the fingerprint, so two windows share
    /// all indices about as seldom as they share fingerprints.
    #[inline(always)]
    fn indices(&self, fingerprint: u64) -> [u64; HASHES] {
        let step = fingerprint.rotate_left(32).wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
        let mut number = fingerprint;
        std::array::from_fn(|_| {
            let index = ((u128::from(number) * u128::from(self.len)) >> 64) as u64;
            number = number.wrapping_add(step);
            index
        })
    }

    /// Word and shift of a cell of `WIDTH` bits, a power of two.
    #[inline(always)]
    fn place<const WIDTH: u64>(index: u64) -> (usize, u32) {
        let bit = index * WIDTH;
        ((bit / 64) as usize, (bit % 64) as u32)
    }

    #[inline(always)]
    fn get<const WIDTH: u64>(&self, index: u64) -> u64 {
        let (word, shift) = Cells::place::<WIDTH>(index);
        self.words[word] >> shift & ((1 << WIDTH) - 1)
    }

    /// Sets the bits and says whether all were set.
    #[inline(always)]
    fn set(&mut self, indices: &[u64; HASHES]) -> bool {
        let mut fresh = 0;
        for &index in indices {
            let (word, shift) = Cells::place::<1>(index);
            let word = &mut self.words[word];
            fresh += !*word >> shift & 1;
            *word |= 1 << shift;
        }
        self.used += fresh;
        fresh == 0
    }

    #[inline(always)]
    fn increment(&mut self, indices: &[u64; HASHES]) {
        for &index in indices {
            let (word, shift) = Cells::place::<4>(index);
            let word = &mut self.words[word];
            let count = *word >> shift & 15;
            self.used += u64::from(count == 0);
            *word += u64::from(count < 15) << shift;
        }
    }

    #[inline(always)]
    fn decrement(&mut self, indices: &[u64; HASHES]) {
        for &index in indices {
            let (word, shift) = Cells::place::<4>(index);
            let word = &mut self.words[word];
            let count = *word >> shift & 15;
            // 15 is "15 or more". A 0 cannot be: the window was inserted, and counted once for each of its indices.
            debug_assert!(count > 0);
            *word -= u64::from((1..15).contains(&count)) << shift;
            self.used -= u64::from(count == 1);
        }
    }
}

/// The indices of consecutive windows, their cells on the way to the processor's cache.
struct Batch {
    len: usize,
    indices: [[u64; HASHES]; BATCH],
}

impl Batch {
    const EMPTY: Batch = Batch { len: 0, indices: [[0; HASHES]; BATCH] };

    /// For the `len` windows of `data` from `at` on.
    #[inline]
    fn prepare(&mut self, kernels: Kernels, cells: &Cells, data: &[u8], at: usize, len: usize, window: usize) {
        self.len = len;
        if len == 0 {
            return;
        }
        let markers: [u32; BATCH] = std::array::from_fn(|i| i as u32);
        let mut fingerprints = [0; BATCH];
        kernels.fingerprints(&data[at..], &markers[..len], window, KEY, &mut fingerprints[..len]);
        // Cells of a bit lie 64 to a word, counters 16.
        let per_word = cells.len.div_ceil(cells.words.len() as u64).next_power_of_two();
        let shift = per_word.trailing_zeros();
        for (indices, &fingerprint) in self.indices.iter_mut().zip(&fingerprints[..len]) {
            *indices = cells.indices(fingerprint);
            for &index in indices.iter() {
                cells.words.prefetch((index >> shift) as usize);
            }
        }
    }
}

/// The last `cache` bytes of the stream, and what a batch reads behind them.
struct Past {
    ring: Pages<u8>,
    cache: u64,
}

impl Past {
    fn new(cache: u64) -> Result<Past, ConfigError> {
        let bytes = (cache as usize).saturating_add(PIECE + 64);
        let ring = Pages::zeroed(bytes).map_err(|source| ConfigError::Memory { bytes, what: "content log", source })?;
        Ok(Past { ring, cache })
    }

    fn write(&mut self, offset: u64, bytes: &[u8]) {
        let at = (offset % self.ring.len() as u64) as usize;
        let (head, tail) = bytes.split_at(bytes.len().min(self.ring.len() - at));
        self.ring[at..at + head.len()].copy_from_slice(head);
        self.ring[..tail.len()].copy_from_slice(tail);
    }

    fn read(&self, offset: u64, len: usize, out: &mut Vec<u8>) {
        let at = (offset % self.ring.len() as u64) as usize;
        let head = len.min(self.ring.len() - at);
        out.clear();
        out.extend_from_slice(&self.ring[at..at + head]);
        out.extend_from_slice(&self.ring[..len - head]);
    }
}

/// Merges hits into maximal runs.
struct Runs {
    window: u64,
    pointer: u64,
    /// The open run; empty if there is none.
    start: u64,
    end: u64,
    runs: u64,
    bytes: u64,
}

impl Runs {
    fn new(window: usize, pointer: u64) -> Runs {
        Runs { window: window as u64, pointer, start: 0, end: 0, runs: 0, bytes: 0 }
    }

    /// The window at `at` is a hit; ascending. Windows that only touch are two runs: were they one match, the windows between
    /// would be hits.
    #[inline(always)]
    fn hit(&mut self, at: u64) {
        if at >= self.end {
            self.close();
            self.start = at;
        }
        self.end = at + self.window;
    }

    fn close(&mut self) {
        let len = self.end - self.start;
        if len > self.pointer {
            self.runs += 1;
            self.bytes += len;
        }
    }

    /// Runs, their bytes, and what they save.
    fn finish(mut self) -> (u64, u64, u64) {
        self.close();
        (self.runs, self.bytes, self.bytes - self.runs * self.pointer)
    }
}

/// SplitMix64 as a stream of bytes.
struct Noise(u64);

impl Iterator for Noise {
    type Item = u8;

    fn next(&mut self) -> Option<u8> {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        Some((z >> 56) as u8)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use proptest::test_runner::Config;

    fn noise(seed: u64, len: usize) -> Vec<u8> {
        Noise(seed).take(len).collect()
    }

    fn optimal(window: usize, cache: u64, filter: Filter) -> Optimal {
        Optimal::new(window, cache, DEFAULT_POINTER, filter).unwrap()
    }

    /// Blocks of few letters and of repeats, so that windows repeat at all distances.
    fn blocks() -> impl Strategy<Value = Vec<Vec<u8>>> {
        let piece = prop_oneof![
            (any::<u64>(), 0usize..120).prop_map(|(seed, len)| noise(seed, len)),
            (0u64..4, 0usize..200).prop_map(|(seed, len)| noise(seed, len)),
            (any::<u64>(), 0usize..200).prop_map(|(seed, len)| noise(seed, len).iter().map(|b| b & 1).collect()),
            (any::<u8>(), 0usize..100).prop_map(|(byte, len)| vec![byte; len]),
        ];
        let block = proptest::collection::vec(piece, 0..5).prop_map(|pieces| pieces.concat());
        proptest::collection::vec(block, 1..8)
    }

    /// Whether each window that lies inside the last block begins a copy of one that begins up to `cache` bytes back: said
    /// plainly.
    fn naive_hits(stream: &[u8], block: usize, window: usize, cache: usize) -> Vec<usize> {
        (block..(stream.len() + 1).saturating_sub(window).max(block))
            .filter(|&at| (at.saturating_sub(cache)..at).any(|past| stream[past..past + window] == stream[at..at + window]))
            .map(|at| at - block)
            .collect()
    }

    /// What greedy parsing with the longest match at each position saves: matches of at least a window.
    fn greedy_saves(stream: &[u8], block: usize, window: usize, cache: usize, pointer: usize) -> usize {
        let (mut at, mut saved) = (block, 0);
        while at < stream.len() {
            let longest = (at.saturating_sub(cache)..at)
                .map(|past| stream[past..].iter().zip(&stream[at..]).take_while(|(a, b)| a == b).count())
                .max()
                .unwrap_or(0);
            if longest >= window && longest > pointer {
                saved += longest - pointer;
                at += longest;
            } else {
                at += 1;
            }
        }
        saved
    }

    proptest! {
        #![proptest_config(Config { cases: 64, failure_persistence: None, ..Config::default() })]

        #[test]
        fn exact_is_the_plain_definition_and_bounds_a_greedy_parse(
            blocks in blocks(),
            window in 12usize..=40,
            cache in prop_oneof![1usize..300, Just(1 << 16)],
            pointer in prop_oneof![Just(4u64), 0u64..60],
        ) {
            let mut exact = Optimal::new(window, cache as u64, pointer, Filter::Exact).unwrap();
            let mut stream = Vec::new();
            for block in blocks {
                let start = stream.len();
                stream.extend_from_slice(&block);
                let figures = exact.add_block(&block);
                let hits = naive_hits(&stream, start, window, cache);
                prop_assert_eq!(figures.hits, hits.len() as u64);
                prop_assert_eq!(figures.windows, (block.len() + 1).saturating_sub(window) as u64);
                let covered = (0..block.len()).filter(|&at| hits.iter().any(|&hit| (hit..hit + window).contains(&at))).count();
                if pointer < window as u64 {
                    prop_assert_eq!(figures.run_bytes, covered as u64);
                }
                prop_assert_eq!(figures.saved_bytes, figures.run_bytes - pointer * figures.runs);
                let greedy = greedy_saves(&stream, start, window, cache, pointer as usize);
                prop_assert!(greedy as u64 <= figures.saved_bytes, "greedy {} above {}", greedy, figures.saved_bytes);
            }
        }

        #[test]
        fn filters_find_what_is_there_and_little_more(blocks in blocks(), window in 12usize..=64, evict in 100u64..2000) {
            let held = 1 << 15;
            let mut filters = [
                (optimal(window, held, Filter::Bloom), optimal(window, held, Filter::Exact)),
                (optimal(window, held, Filter::CountingBloom), optimal(window, held, Filter::Exact)),
                (optimal(window, evict, Filter::CountingBloom), optimal(window, evict, Filter::Exact)),
            ];
            for block in &blocks {
                for (filter, exact) in &mut filters {
                    // Window by window: no hit of the exact filter is missed.
                    for at in 0..(block.len() + 1).saturating_sub(window) {
                        prop_assert!(filter.holds(&block[at..at + window]) >= exact.holds(&block[at..at + window]));
                    }
                    let (found, truth) = (filter.add_block(block), exact.add_block(block));
                    prop_assert!(found.hits >= truth.hits && found.run_bytes >= truth.run_bytes, "{:?} {:?}", found, truth);
                    prop_assert!(found.saved_bytes >= truth.saved_bytes);
                }
            }
            let (found, truth) = (filters[0].0.totals(), filters[0].1.totals());
            // At most an eighth full: less than one false hit in a million windows is expected.
            prop_assert!(found.hits <= truth.hits + 1);
        }

        #[test]
        fn block_limits_do_not_matter_for_what_is_inserted(blocks in blocks(), probe in any::<u64>()) {
            let mut apart = optimal(20, 700, Filter::CountingBloom);
            let mut joined = optimal(20, 700, Filter::CountingBloom);
            for block in &blocks {
                apart.add_block(block);
            }
            joined.add_block(&blocks.concat());
            let (Store::Counting(a), Store::Counting(b)) = (&apart.filter, &joined.filter) else { unreachable!() };
            prop_assert!(a.words[..] == b.words[..] && a.used == b.used);
            prop_assert_eq!(a.used as usize, (0..a.len).filter(|&i| a.get::<4>(i) != 0).count());
            prop_assert_eq!(apart.false_positive_bias(probe, 500), joined.false_positive_bias(probe, 500));
        }
    }

    #[test]
    fn after_eviction_only_false_hits_differ() {
        // Noise of five caches; of each part some comes again soon (found) and some late (evicted).
        let cache = 100_000;
        let mut counting = optimal(32, cache, Filter::CountingBloom);
        let mut exact = optimal(32, cache, Filter::Exact);
        for seed in 0..25u64 {
            let again = |back: u64| noise(seed.wrapping_sub(back), 2000);
            for part in [noise(seed, 20_000), again(2), again(9)] {
                for block in part.chunks(1448) {
                    counting.add_block(block);
                    exact.add_block(block);
                }
            }
        }
        let (found, truth) = (counting.totals(), exact.totals());
        assert!((23 * 1800..23 * 2000).contains(&truth.hits), "{truth:?}");
        let false_hits = (found.hits - truth.hits) as f64;
        let rate = false_hits / (truth.windows - truth.hits) as f64;
        assert!((0.0003..0.0007).contains(&rate), "{rate}");
        assert!((false_hits / found.expected_false_hits - 1.0).abs() < 0.3, "{false_hits} {}", found.expected_false_hits);
    }

    #[test]
    fn saturated_counters_stay() {
        let mut counting = optimal(12, 100, Filter::CountingBloom);
        counting.add_block(&[7; 90]);
        assert!(counting.holds(&[7; 12]));
        // Counted 79 times and forgotten as often.
        counting.add_block(&noise(1, 1000));
        assert!(counting.holds(&[7; 12]), "15 means 15 or more");
    }

    #[test]
    fn a_full_filter_has_the_thesis_bias() {
        for filter in [Filter::Bloom, Filter::CountingBloom] {
            let cache = 400_000;
            let mut full = optimal(32, cache, filter);
            full.add_block(&noise(1, cache as usize));
            let bias = full.false_positive_bias(2, 2_000_000);
            // 1 - e^(-8/16), and its eighth power.
            assert!((bias.fill - 0.3935).abs() < 0.002, "{bias:?}");
            assert!((bias.expected_per_window - 0.000575).abs() < 0.00003, "{bias:?}");
            assert!((bias.measured_per_window / bias.expected_per_window - 1.0).abs() < 0.15, "{bias:?}");
            assert!((0.015..0.021).contains(&bias.apparent_redundancy), "{bias:?}");
            assert!((0.013..bias.apparent_redundancy).contains(&bias.apparent_savings), "{bias:?}");
        }
    }

    #[test]
    fn an_empty_or_exact_filter_has_no_bias() {
        let mut exact = optimal(32, 50_000, Filter::Exact);
        exact.add_block(&noise(1, 10_000));
        for filter in [exact, optimal(32, 50_000, Filter::Bloom)] {
            let bias = filter.false_positive_bias(2, 10_000);
            assert_eq!((bias.measured_per_window, bias.apparent_redundancy, bias.apparent_savings), (0.0, 0.0, 0.0));
        }
    }

    #[test]
    fn windows_that_straddle_blocks_are_found_but_not_looked_up() {
        let data = noise(5, 100);
        for filter in [Filter::Bloom, Filter::CountingBloom, Filter::Exact] {
            let mut optimal = optimal(32, 1000, filter);
            assert_eq!(optimal.add_block(&data[..50]).windows, 19);
            assert_eq!(optimal.add_block(&data[50..]).windows, 19);
            let found = optimal.add_block(&data[34..66]);
            assert_eq!((found.windows, found.hits, found.run_bytes, found.saved_bytes), (1, 1, 32, 28));
            assert_eq!(optimal.totals().bytes, 132);
        }
    }

    #[test]
    fn a_run_refers_to_its_own_block_from_a_distance_of_one() {
        let mut optimal = optimal(16, 1000, Filter::Exact);
        let found = optimal.add_block(&[9; 100]);
        assert_eq!((found.hits, found.runs, found.run_bytes), (84, 1, 99));
    }

    #[test]
    fn parameters_are_checked() {
        let error = |window, cache| Optimal::new(window, cache, DEFAULT_POINTER, Filter::Exact).unwrap_err();
        assert!(matches!(error(11, 100), ConfigError::Window { window: 11 }));
        assert!(matches!(error(65, 100), ConfigError::Window { window: 65 }));
        assert!(matches!(error(32, 0), ConfigError::Capacity { .. }));
        assert!(matches!(error(32, u64::MAX), ConfigError::Capacity { .. }));
    }
}
