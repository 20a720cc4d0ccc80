//! Marker search by the gear hash, the rolling hash of content-defined chunking.
//!
//! The gear hash (Xia et al., *Ddelta*, Performance Evaluation 2014) is `h = (h << 1) + G[b]` for
//! each byte `b`, with a table `G` of random numbers. A byte needs no removal: it is shifted out of
//! the 64 bits. Only the `window` lowest bits of `h` are used here, so that what decides are the
//! bytes of one window and no others.

use super::rolling::{Rolling, search};
use crate::{Kernels, Sampled, random::SplitMix64};

/// The table of random numbers: the output of SplitMix64 from 0.
static GEAR: [u64; 256] = SplitMix64(0).table();

#[inline(always)]
fn append(state: u64, byte: u8) -> u64 {
    (state << 1).wrapping_add(GEAR[usize::from(byte)])
}

struct Gear {
    /// Shifts what is older than the window out.
    shift: u32,
    /// A window marks if its value is not above this: one in a period.
    limit: u64,
}

impl Rolling for Gear {
    #[inline(always)]
    fn prime(&self, window: &[u8]) -> u64 {
        window.iter().fold(0, |state, &byte| append(state, byte))
    }

    #[inline(always)]
    fn roll(&self, state: u64, _: u8, entered: u8) -> u64 {
        append(state, entered)
    }

    #[inline(always)]
    fn value(&self, state: u64) -> u64 {
        state << self.shift
    }

    #[inline(always)]
    fn marks(&self, value: u64) -> bool {
        value <= self.limit
    }
}

/// Chunk sizes of FastCDC, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChunkSizes {
    /// Bytes at the start of a chunk in which no boundary is looked for.
    pub min: usize,
    /// Up to here a boundary is four times rarer than one in `average` bytes, from here on four
    /// times more frequent.
    pub average: usize,
    /// Where a chunk without a boundary ends.
    pub max: usize,
}

impl Kernels {
    /// Finds markers in `data[from..]` by the gear hash: positions with a whole `window` left whose
    /// lowest `window` bits of gear hash, as a fraction, are below 1 in `period`; for a power of
    /// two, those whose upper log2(p) bits are zero. A position whose value equals that of the
    /// position before it (also where that lies before `from`) is no marker: it is in a run of one
    /// byte. Stops when `markers` is full or the last window has been passed.
    ///
    /// # Panics
    /// If `window` is not 1..=64, `period` is 0, or `data` is longer than 4 GiB.
    pub fn gear(
        self,
        data: &[u8],
        window: usize,
        period: usize,
        from: usize,
        markers: &mut [u32],
    ) -> Sampled {
        assert!((1..=64).contains(&window) && period > 0);
        assert!(u32::try_from(data.len()).is_ok(), "a block's positions must fit 32 bits");
        let Some(end) = (data.len() + 1).checked_sub(window) else {
            return Sampled { count: 0, resume: from };
        };
        let hash = Gear { shift: 64 - window as u32, limit: u64::MAX / period as u64 };
        search(&hash, data, window, end, period, false, from, markers)
    }

    /// Finds the boundaries of FastCDC (Xia et al., USENIX ATC 2016, Algorithm 1) in `data`, of
    /// which a chunk begins at `from`: the first bytes of the following chunks, as far as a whole
    /// `window` is left. Stops when `markers` is full or the last window has been passed; the last
    /// marker is where to continue.
    ///
    /// As published, the hash starts from 0 behind the skipped `min` bytes of each chunk. Unlike
    /// it, the lowest `window` bits of the hash are compared with a limit in place of a mask with
    /// spread bits.
    ///
    /// # Panics
    /// If `window` is not 1..=64, the sizes do not ascend from at least 1, or `data` is longer than
    /// 4 GiB.
    pub fn fast_cdc(
        self,
        data: &[u8],
        window: usize,
        sizes: ChunkSizes,
        from: usize,
        markers: &mut [u32],
    ) -> Sampled {
        let ChunkSizes { min, average, max } = sizes;
        assert!((1..=64).contains(&window) && 0 < min && min <= average && average <= max);
        assert!(u32::try_from(data.len()).is_ok(), "a block's positions must fit 32 bits");
        let end = (data.len() + 1).saturating_sub(window);
        let shift = 64 - window as u32;
        // Normalised chunking at level 2: two bits more before the average, two fewer behind it.
        let limit = u64::MAX / average as u64;
        let (strict, loose) = (limit / 4, limit.saturating_mul(4).min(u64::MAX / 2));
        let (mut start, mut count) = (from, 0);
        while count < markers.len() {
            // A boundary behind byte `i` makes `i + 1` the marker, so bytes from `end - 1` on
            // cannot make one.
            let stop = (start + max - 1).min(end.saturating_sub(1));
            let (first, turn) = ((start + min).min(stop), (start + average).min(stop));
            let mut hash = 0;
            let boundary = cut(&data[first..turn], &mut hash, shift, strict)
                .map(|i| first + i)
                .or_else(|| cut(&data[turn..stop], &mut hash, shift, loose).map(|i| turn + i))
                .unwrap_or(stop);
            let marker = boundary + 1;
            if marker >= end {
                return Sampled { count, resume: end.max(from) };
            }
            markers[count] = marker as u32;
            count += 1;
            start = marker;
        }
        Sampled { count, resume: start }
    }
}

/// The first of `bytes` after which the value is not above `limit`.
#[inline(always)]
fn cut(bytes: &[u8], hash: &mut u64, shift: u32, limit: u64) -> Option<usize> {
    let mut state = *hash;
    for (i, &byte) in bytes.iter().enumerate() {
        state = append(state, byte);
        if state << shift <= limit {
            return Some(i);
        }
    }
    *hash = state;
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{blocks, in_batches};
    use proptest::prelude::*;

    fn value(window: &[u8]) -> u64 {
        // From the last byte, which counts once, to the first; modulo 2^w, scaled to 64 bits.
        let sum = window
            .iter()
            .rev()
            .enumerate()
            .fold(0u128, |sum, (i, &byte)| sum + (u128::from(GEAR[byte as usize]) << i));
        ((sum % (1 << window.len())) << (64 - window.len())) as u64
    }

    fn naive_chunks(data: &[u8], window: usize, sizes: ChunkSizes, from: usize) -> Vec<u32> {
        let limit = u64::MAX / sizes.average as u64;
        let (mut markers, mut start) = (Vec::new(), from);
        loop {
            let boundary = (start + sizes.min..start + sizes.max - 1).find(|&i| {
                let hashed = &data[(start + sizes.min).min(data.len())..(i + 1).min(data.len())];
                let hashed = &hashed[hashed.len().saturating_sub(window)..];
                let mut padded = hashed
                    .iter()
                    .fold(0u64, |sum, &byte| (sum << 1).wrapping_add(GEAR[byte as usize]));
                padded <<= 64 - window;
                padded
                    <= if i < start + sizes.average {
                        limit / 4
                    } else {
                        limit.saturating_mul(4).min(u64::MAX / 2)
                    }
            });
            let marker = boundary.unwrap_or(start + sizes.max - 1) + 1;
            if marker + window > data.len() {
                return markers;
            }
            markers.push(marker as u32);
            start = marker;
        }
    }

    proptest! {
        #[test]
        fn gear_equals_the_definition_in_every_batch(
            data in blocks(),
            window in 12usize..=64,
            period in prop_oneof![Just(32usize), 4usize..=1024],
            from in prop_oneof![Just(0usize), 0usize..300],
            batch in 1usize..70,
        ) {
            let end = (data.len() + 1).saturating_sub(window);
            let values: Vec<u64> = data.windows(window).map(value).collect();
            let expected: Vec<u32> = (from..end)
                .filter(|&i| values[i] <= u64::MAX / period as u64 && (i == 0 || values[i] != values[i - 1]))
                .map(|i| i as u32)
                .collect();
            let kernels = Kernels::detect();
            let found = in_batches(batch, from, end, |at, found| kernels.gear(&data, window, period, at, found));
            prop_assert_eq!(found, expected);
        }

        #[test]
        fn fast_cdc_equals_the_definition_in_every_batch(
            data in blocks(),
            window in 12usize..=64,
            average in prop_oneof![Just(32usize), 4usize..=512],
            from in prop_oneof![Just(0usize), 0usize..300],
            batch in 1usize..70,
        ) {
            let sizes = ChunkSizes { min: average / 4, average, max: 8 * average };
            let end = (data.len() + 1).saturating_sub(window);
            let kernels = Kernels::detect();
            let found = in_batches(batch, from, end, |at, found| kernels.fast_cdc(&data, window, sizes, at, found));
            prop_assert_eq!(found, naive_chunks(&data, window, sizes, from));
        }
    }
}
