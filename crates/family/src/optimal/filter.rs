//! The filters that remember windows, the content that leaves them, and the runs that hits make.

use super::{BATCH, BITS_PER_BYTE, BITS_PER_BYTE_IN_LINES, HASHES, KEY, PIECE};
use oncewire_codec::ConfigError;
use oncewire_kernels::{Kernels, Pages, random::SplitMix64};
use std::collections::HashMap;

/// What remembers the windows.
pub(super) enum Store {
    Bloom(Cells),
    Counting(Cells),
    Exact(HashMap<Box<[u8]>, u32>),
}

/// Bits or counters in 64-bit words.
pub(super) struct Cells {
    pub(super) words: Pages<u64>,
    /// Number of bits or counters.
    pub(super) len: u64,
    /// The bits of a window share a line of [`LINE`] bits, one in each of its words.
    in_lines: bool,
    /// How many are not 0.
    pub(super) used: u64,
}

/// Bits of a line of the processor's cache.
const LINE: u64 = 512;

impl Cells {
    pub(super) fn new(cache_bytes: u64, width: u64) -> Result<Cells, ConfigError> {
        Cells::of(cache_bytes * BITS_PER_BYTE, width, false)
    }

    /// Bits in lines.
    pub(super) fn in_lines(cache_bytes: u64) -> Result<Cells, ConfigError> {
        Cells::of((cache_bytes * BITS_PER_BYTE_IN_LINES).next_multiple_of(LINE), 1, true)
    }

    fn of(len: u64, width: u64, in_lines: bool) -> Result<Cells, ConfigError> {
        let words = usize::try_from((len * width).div_ceil(64)).unwrap_or(usize::MAX);
        let words = Pages::zeroed(words).map_err(|source| {
            let what = if width == 1 { "Bloom filter" } else { "counting Bloom filter" };
            ConfigError::Memory { bytes: words.saturating_mul(8), what, source }
        })?;
        Ok(Cells { words, len, in_lines, used: 0 })
    }

    /// Double hashing (Kirsch and Mitzenmacher, ESA 2006): an arithmetic progression of 64-bit
    /// numbers, each reduced to the range by the high half of a product. The step's high bits
    /// depend on all bits of the fingerprint, so two windows share all indices about as seldom as
    /// they share fingerprints. In lines, the fingerprint has the line, and the step six bits for
    /// each word.
    #[inline(always)]
    pub(super) fn indices(&self, fingerprint: u64) -> [u64; HASHES] {
        let step = fingerprint.rotate_left(32).wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
        if self.in_lines {
            let lines = self.len / LINE;
            let line = ((u128::from(fingerprint) * u128::from(lines)) >> 64) as u64 * LINE;
            return std::array::from_fn(|i| {
                line + 64 * i as u64 + (step >> (64 - 6 * (i + 1)) & 63)
            });
        }
        let mut number = fingerprint;
        std::array::from_fn(|_| {
            let index = ((u128::from(number) * u128::from(self.len)) >> 64) as u64;
            number = number.wrapping_add(step);
            index
        })
    }

    /// Word and shift of a cell of `WIDTH` bits, a power of two.
    #[inline(always)]
    pub(super) fn place<const WIDTH: u64>(index: u64) -> (usize, u32) {
        let bit = index * WIDTH;
        ((bit / 64) as usize, (bit % 64) as u32)
    }

    #[inline(always)]
    pub(super) fn get<const WIDTH: u64>(&self, index: u64) -> u64 {
        let (word, shift) = Cells::place::<WIDTH>(index);
        self.words[word] >> shift & ((1 << WIDTH) - 1)
    }

    /// Sets the bits and says whether all were set.
    #[inline(always)]
    pub(super) fn set(&mut self, indices: &[u64; HASHES]) -> bool {
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
    pub(super) fn increment(&mut self, indices: &[u64; HASHES]) {
        for &index in indices {
            let (word, shift) = Cells::place::<4>(index);
            let word = &mut self.words[word];
            let count = *word >> shift & 15;
            self.used += u64::from(count == 0);
            *word += u64::from(count < 15) << shift;
        }
    }

    #[inline(always)]
    pub(super) fn decrement(&mut self, indices: &[u64; HASHES]) {
        for &index in indices {
            let (word, shift) = Cells::place::<4>(index);
            let word = &mut self.words[word];
            let count = *word >> shift & 15;
            // 15 is "15 or more". A 0 cannot be: the window was inserted, and counted once for each
            // of its indices.
            debug_assert!(count > 0);
            *word -= u64::from((1..15).contains(&count)) << shift;
            self.used -= u64::from(count == 1);
        }
    }
}

/// The indices of consecutive windows, their cells on the way to the processor's cache. Preparing
/// the next batch while one is used was slower: 22 instead of 25 MB per CPU second.
pub(super) struct Batch {
    pub(super) len: usize,
    pub(super) indices: [[u64; HASHES]; BATCH],
}

impl Batch {
    pub(super) const EMPTY: Batch = Batch { len: 0, indices: [[0; HASHES]; BATCH] };

    /// For the `len` windows of `data` from `at` on.
    #[inline]
    pub(super) fn prepare(
        &mut self,
        kernels: Kernels,
        cells: &Cells,
        data: &[u8],
        at: usize,
        len: usize,
        window: usize,
    ) {
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
            let far = if cells.in_lines { 1 } else { HASHES };
            for &index in &indices[..far] {
                cells.words.prefetch((index >> shift) as usize);
            }
        }
    }
}

/// The last `cache` bytes of the stream, and what a batch reads behind them.
pub(super) struct Past {
    pub(super) ring: Pages<u8>,
    pub(super) cache: u64,
}

impl Past {
    pub(super) fn new(cache: u64) -> Result<Past, ConfigError> {
        let bytes = (cache as usize).saturating_add(PIECE + 64);
        let ring = Pages::zeroed(bytes).map_err(|source| ConfigError::Memory {
            bytes,
            what: "content log",
            source,
        })?;
        Ok(Past { ring, cache })
    }

    pub(super) fn write(&mut self, offset: u64, bytes: &[u8]) {
        let at = (offset % self.ring.len() as u64) as usize;
        let (head, tail) = bytes.split_at(bytes.len().min(self.ring.len() - at));
        self.ring[at..at + head.len()].copy_from_slice(head);
        self.ring[..tail.len()].copy_from_slice(tail);
    }

    pub(super) fn read(&self, offset: u64, len: usize, out: &mut Vec<u8>) {
        let at = (offset % self.ring.len() as u64) as usize;
        let head = len.min(self.ring.len() - at);
        out.clear();
        out.extend_from_slice(&self.ring[at..at + head]);
        out.extend_from_slice(&self.ring[..len - head]);
    }
}

/// Merges hits into maximal runs.
pub(super) struct Runs {
    window: u64,
    pointer: u64,
    /// The open run; empty if there is none.
    start: u64,
    end: u64,
    runs: u64,
    bytes: u64,
}

impl Runs {
    pub(super) fn new(window: usize, pointer: u64) -> Runs {
        Runs { window: window as u64, pointer, start: 0, end: 0, runs: 0, bytes: 0 }
    }

    /// The window at `at` is a hit; ascending. Windows that only touch are two runs: were they one
    /// match, the windows between would be hits.
    #[inline(always)]
    pub(super) fn hit(&mut self, at: u64) {
        if at >= self.end {
            self.close();
            self.start = at;
        }
        self.end = at + self.window;
    }

    pub(super) fn close(&mut self) {
        let len = self.end - self.start;
        if len > self.pointer {
            self.runs += 1;
            self.bytes += len;
        }
    }

    /// Runs, their bytes, and what they save.
    pub(super) fn finish(mut self) -> (u64, u64, u64) {
        self.close();
        (self.runs, self.bytes, self.bytes - self.runs * self.pointer)
    }
}

/// SplitMix64 as a stream of bytes. Published figures depend on the sequence.
pub(super) struct Noise(pub(super) SplitMix64);

impl Iterator for Noise {
    type Item = u8;

    fn next(&mut self) -> Option<u8> {
        Some((self.0.next_u64() >> 56) as u8)
    }
}
