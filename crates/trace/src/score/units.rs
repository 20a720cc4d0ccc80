//! Units: the inputs of one encoder call.

use oncewire_kernels::random::SplitMix64;
use std::ops::Range;

/// A sequence of units, each a TCP buffer or an IP packet. It can be read any number of times.
///
/// Every pass yields the same units. Time spent here is not measured. An implementation that reads
/// files ends its sequence at an error and keeps the error for its owner.
pub trait Units {
    /// Starts over with the first unit.
    fn rewind(&mut self);

    /// The next unit, below 4 GiB; `None` after the last.
    fn next_unit(&mut self) -> Option<&[u8]>;
}

/// File contents in buffers of about one size, as an application would read and send them
/// (Martynov, section 3.3). Each buffer has the base size with a random variation of up to 5 %
/// either way. No buffer spans two files.
pub struct Buffers<'a> {
    files: &'a [Vec<u8>],
    base: usize,
    seed: u64,
    random: SplitMix64,
    file: usize,
    at: usize,
}

impl<'a> Buffers<'a> {
    /// The paper's base sizes: 512 bytes to 256 KiB, in powers of two.
    pub fn paper_sizes() -> impl Iterator<Item = usize> {
        (9..=18).map(|power| 1 << power)
    }

    /// Buffers of about `base` bytes; `base` is at least 1. Equal seeds give equal buffers.
    pub fn new(files: &'a [Vec<u8>], base: usize, seed: u64) -> Buffers<'a> {
        Buffers { files, base: base.max(1), seed, random: SplitMix64(seed), file: 0, at: 0 }
    }

    /// The base size in bytes.
    pub fn base(&self) -> usize {
        self.base
    }

    /// The next size: uniform from 95 to 105 % of the base.
    fn size(&mut self) -> usize {
        let variance = self.base / 20;
        self.base - variance + self.random.below(2 * variance as u64 + 1) as usize
    }

    fn advance(&mut self) -> Option<(usize, Range<usize>)> {
        while self.at >= self.files.get(self.file)?.len() {
            (self.file, self.at) = (self.file + 1, 0);
        }
        let size = self.size();
        let (start, len) = (self.at, self.files[self.file].len());
        self.at = (start + size).min(len);
        Some((self.file, start..self.at))
    }
}

impl Units for Buffers<'_> {
    fn rewind(&mut self) {
        (self.random, self.file, self.at) = (SplitMix64(self.seed), 0, 0);
    }

    fn next_unit(&mut self) -> Option<&[u8]> {
        let (file, range) = self.advance()?;
        Some(&self.files[file][range])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lens(units: &mut dyn Units) -> Vec<usize> {
        units.rewind();
        std::iter::from_fn(|| units.next_unit().map(<[u8]>::len)).collect()
    }

    #[test]
    fn buffers_cover_the_files_within_five_percent() {
        let files = [vec![1; 100_000], Vec::new(), vec![2; 30_001]];
        for base in [1, 512, 16_384] {
            let mut buffers = Buffers::new(&files, base, 9);
            let once = lens(&mut buffers);
            assert_eq!(once, lens(&mut buffers), "a pass repeats");
            assert_eq!(once.iter().sum::<usize>(), 130_001);
            // The last buffer of each file holds the rest.
            let short = once.iter().filter(|&&len| len < base - base / 20).count();
            assert!(short <= 2 && once.iter().all(|&len| len <= base + base / 20));
            let distinct = once.iter().collect::<std::collections::BTreeSet<_>>().len();
            assert!(base == 1 || distinct > 5, "sizes vary");
            assert!(base != 512 || once != lens(&mut Buffers::new(&files, base, 10)));
        }
        buffers_keep_to_their_files(&files);
    }

    fn buffers_keep_to_their_files(files: &[Vec<u8>]) {
        let mut buffers = Buffers::new(files, 4096, 1);
        while let Some(unit) = buffers.next_unit() {
            assert!(unit.iter().all(|&byte| byte == unit[0]));
        }
    }

    #[test]
    fn sizes_match_the_paper() {
        let sizes: Vec<_> = Buffers::paper_sizes().collect();
        assert_eq!((sizes[0], sizes[9], sizes.len()), (512, 256 << 10, 10));
        assert!(lens(&mut Buffers::new(&[], 512, 0)).is_empty());
    }
}
