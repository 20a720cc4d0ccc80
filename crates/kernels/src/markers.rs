//! Marker searches: SAMPLEBYTE's, and a sparse one for content of high entropy.
//!
//! EndRE section 5.1.4 (Aggarwal et al., NSDI 2010, Figure 3) scans byte by byte, marks a byte if a
//! 256-entry table says so, and then skips `p/2` bytes. Here a vector of bytes is classified at
//! once.

use crate::walk::Walk;
use crate::{ByteSet, Kernels};

#[cfg(target_arch = "x86_64")]
use crate::Level;

/// The result of a marker search.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sampled {
    /// How many markers were written.
    pub count: usize,
    /// Where to continue: the first position not yet examined. Past the last window when the search
    /// is complete.
    pub resume: usize,
}

impl Kernels {
    /// Finds SAMPLEBYTE markers in `data[from..]`: positions `i` with `data[i]` in `set` and a
    /// whole `window` of bytes left. After a marker at `i` the next position examined is `i + 1 +
    /// skip`. Stops when `markers` is full, when `gap` positions in a row are no markers, or after
    /// the last window (`data.len() - window`, inclusive).
    ///
    /// The published loop stops one window short of the end. Here the last window counts; otherwise
    /// a block of exactly `window` bytes could never match.
    #[allow(clippy::too_many_arguments)]
    pub fn sample_byte(
        self,
        set: &ByteSet,
        data: &[u8],
        window: usize,
        skip: usize,
        gap: usize,
        from: usize,
        markers: &mut [u32],
    ) -> Sampled {
        // Exclusive end of marker positions; nothing to do for blocks shorter than a window.
        let Some(end) = (data.len() + 1).checked_sub(window.max(1)) else {
            return Sampled { count: 0, resume: from };
        };
        assert!(u32::try_from(data.len()).is_ok(), "a block's positions must fit 32 bits");
        let walk = Walk { from, end, skip, gap };
        let sampled = match self.level() {
            #[cfg(target_arch = "x86_64")]
            Level::Avx2 | Level::Avx512 => {
                // SAFETY: `Kernels` holds this level only if the machine has AVX2.
                unsafe { sample_byte_avx2(set, data, walk, markers) }
            }
            _ => walk.plain(markers, |at| set.contains(data[at])),
        };
        sampled.as_the_plain_loop(markers, from, end, skip, gap)
    }
}

/// Odd, with evenly spread bits: the fractional part of the golden ratio.
const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;

impl Kernels {
    /// The position in `from..to` whose eight bytes have the greatest hash, the leftmost of equal
    /// ones. A marker for content without any other. Like a local maximum (MAXP) it depends on the
    /// content only; in a run of one byte it is the first.
    ///
    /// # Panics
    /// If the range is empty, or a position in it has less than eight bytes of `data` left.
    pub fn strongest(self, data: &[u8], from: usize, to: usize) -> usize {
        assert!(from < to && to + 7 <= data.len());
        // Content without markers is often a run.
        let bytes = &data[from..to + 7];
        if bytes[0] == bytes[1] && self.common_prefix(bytes, &bytes[1..]) == bytes.len() - 1 {
            return from;
        }
        let mut best = (0, from);
        for (i, word) in bytes.windows(8).enumerate() {
            let word = u64::from_le_bytes(*word.first_chunk().expect("windows of eight"));
            let strength = word.wrapping_mul(GOLDEN) ^ word >> 29;
            if i == 0 || strength > best.0 {
                best = (strength, from + i);
            }
        }
        best.1
    }
}

impl Sampled {
    /// Resumes where the portable loop does. The last vector may have reached further, but what the
    /// caller does next must not depend on the level.
    pub(crate) fn as_the_plain_loop(
        self,
        markers: &[u32],
        from: usize,
        end: usize,
        skip: usize,
        gap: usize,
    ) -> Sampled {
        let next = markers[..self.count].last().map_or(from, |&marker| marker as usize + 1 + skip);
        let last = next.max(end).min(next.saturating_add(gap));
        Sampled { resume: if self.count == markers.len() { next } else { last }, ..self }
    }
}

/// First byte of a sparse marker: a member of EndRE's table, so that dense sampling of the same
/// content marks it, too.
const PAIR_FIRST: u8 = 116;
/// Bits that are clear in the byte after it.
const PAIR_MASK: u8 = 3;

impl Kernels {
    /// Finds positions in `data[from..]` where byte 116 is followed by a multiple of four and a
    /// whole `window` is left: one in 1,024 of evenly distributed bytes.
    ///
    /// It skips nothing, so whether a position is a marker depends on its own bytes alone, and the
    /// same positions are found again however a repeat is aligned to blocks.
    pub fn sample_pair(
        self,
        data: &[u8],
        window: usize,
        from: usize,
        markers: &mut [u32],
    ) -> Sampled {
        let Some(end) = (data.len() + 1).checked_sub(window.max(2)) else {
            return Sampled { count: 0, resume: from };
        };
        assert!(u32::try_from(data.len()).is_ok(), "a block's positions must fit 32 bits");
        let sampled = match self.level() {
            #[cfg(target_arch = "x86_64")]
            // SAFETY: `Kernels` holds this level only if the machine has it.
            Level::Avx512 => unsafe { sample_pair_avx512(data, end, from, markers) },
            #[cfg(target_arch = "x86_64")]
            // SAFETY: as above.
            Level::Avx2 => unsafe { sample_pair_avx2(data, end, from, markers) },
            _ => sample_pair_portable(data, end, from, markers),
        };
        sampled.as_the_plain_loop(markers, from, end, 0, usize::MAX)
    }
}

fn sample_pair_portable(data: &[u8], end: usize, from: usize, markers: &mut [u32]) -> Sampled {
    let (mut at, mut count) = (from, 0);
    while at < end && count < markers.len() {
        if data[at] == PAIR_FIRST && data[at + 1] & PAIR_MASK == 0 {
            markers[count] = at as u32;
            count += 1;
        }
        at += 1;
    }
    Sampled { count, resume: at }
}

/// Writes the positions of a vector's hits. The last byte's successor is in the next vector, so the
/// pair is checked again. Returns where to stop, if `markers` is full or the hits are past `end`.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
fn take_hits(
    mut hits: u64,
    data: &[u8],
    base: usize,
    end: usize,
    markers: &mut [u32],
    count: &mut usize,
) -> Option<usize> {
    while hits != 0 {
        let marker = base + hits.trailing_zeros() as usize;
        hits &= hits - 1;
        if marker >= end || *count == markers.len() {
            return Some(marker);
        }
        if data[marker + 1] & PAIR_MASK != 0 {
            continue;
        }
        markers[*count] = marker as u32;
        *count += 1;
    }
    None
}

/// # Safety
/// The machine must have AVX2.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
unsafe fn sample_pair_avx2(data: &[u8], end: usize, from: usize, markers: &mut [u32]) -> Sampled {
    use std::arch::x86_64::*;
    let (mut at, mut count) = (from, 0);
    let (first, mask) = (_mm256_set1_epi8(PAIR_FIRST as i8), _mm256_set1_epi8(PAIR_MASK as i8));
    while at < end && at + 32 <= data.len() {
        // SAFETY: `at + 32 <= data.len()`.
        let bytes = unsafe { _mm256_loadu_si256(data.as_ptr().add(at).cast()) };
        let clear = _mm256_cmpeq_epi8(_mm256_and_si256(bytes, mask), _mm256_setzero_si256());
        let clear_next = _mm256_movemask_epi8(clear) as u32 >> 1 | 1 << 31;
        let hits = _mm256_movemask_epi8(_mm256_cmpeq_epi8(bytes, first)) as u32 & clear_next;
        if hits != 0
            && let Some(resume) = take_hits(hits.into(), data, at, end, markers, &mut count)
        {
            return Sampled { count, resume };
        }
        at += 32;
    }
    let rest = sample_pair_portable(data, end, at, &mut markers[count..]);
    Sampled { count: count + rest.count, resume: rest.resume }
}

/// # Safety
/// The machine must have AVX-512 F and BW.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx2")]
unsafe fn sample_pair_avx512(data: &[u8], end: usize, from: usize, markers: &mut [u32]) -> Sampled {
    use std::arch::x86_64::*;
    let (mut at, mut count) = (from, 0);
    let (first, mask) = (_mm512_set1_epi8(PAIR_FIRST as i8), _mm512_set1_epi8(PAIR_MASK as i8));
    while at < end && at + 64 <= data.len() {
        // SAFETY: `at + 64 <= data.len()`.
        let bytes = unsafe { _mm512_loadu_si512(data.as_ptr().add(at).cast()) };
        let clear_next = _mm512_testn_epi8_mask(bytes, mask) >> 1 | 1 << 63;
        let hits = _mm512_cmpeq_epi8_mask(bytes, first) & clear_next;
        if hits != 0
            && let Some(resume) = take_hits(hits, data, at, end, markers, &mut count)
        {
            return Sampled { count, resume };
        }
        at += 64;
    }
    let rest = sample_pair_portable(data, end, at, &mut markers[count..]);
    Sampled { count: count + rest.count, resume: rest.resume }
}

/// # Safety
/// The machine must have AVX2.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
unsafe fn sample_byte_avx2(set: &ByteSet, data: &[u8], walk: Walk, markers: &mut [u32]) -> Sampled {
    use std::arch::x86_64::*;

    let [low_rows, high_rows] = set.rows();
    // SAFETY: both pointers come from 16-byte arrays, and unaligned loads are used.
    let (low_rows, high_rows) = unsafe {
        (_mm_loadu_si128(low_rows.as_ptr().cast()), _mm_loadu_si128(high_rows.as_ptr().cast()))
    };
    let low_rows = _mm256_broadcastsi128_si256(low_rows);
    let high_rows = _mm256_broadcastsi128_si256(high_rows);
    let column_bits = _mm256_broadcastsi128_si256(_mm_setr_epi8(
        1, 2, 4, 8, 16, 32, 64, -128, 1, 2, 4, 8, 16, 32, 64, -128,
    ));
    let sign = _mm256_set1_epi8(-128);
    let nibble = _mm256_set1_epi8(15);

    let hits = |at: usize| {
        assert!(at + 32 <= data.len());
        // SAFETY: `at + 32 <= data.len()`.
        let bytes = unsafe { _mm256_loadu_si256(data.as_ptr().add(at).cast()) };
        // A shuffle yields zero where its index byte has the top bit set, so each half sees only
        // its own bytes.
        let row = _mm256_or_si256(
            _mm256_shuffle_epi8(low_rows, bytes),
            _mm256_shuffle_epi8(high_rows, _mm256_xor_si256(bytes, sign)),
        );
        let column =
            _mm256_shuffle_epi8(column_bits, _mm256_and_si256(_mm256_srli_epi16(bytes, 4), nibble));
        let outside = _mm256_cmpeq_epi8(_mm256_and_si256(row, column), _mm256_setzero_si256());
        !(_mm256_movemask_epi8(outside) as u32)
    };
    walk.by_vectors((data.len() + 1).saturating_sub(32), markers, hits, |at| set.contains(data[at]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn all(
        kernels: Kernels,
        set: &ByteSet,
        data: &[u8],
        window: usize,
        skip: usize,
        batch: usize,
    ) -> Vec<u32> {
        batches(batch, |at, markers| {
            kernels.sample_byte(set, data, window, skip, usize::MAX, at, markers)
        })
    }

    fn batches(batch: usize, sample: impl Fn(usize, &mut [u32]) -> Sampled) -> Vec<u32> {
        let (mut found, mut at) = (Vec::new(), 0);
        let mut markers = vec![0; batch];
        loop {
            let step = sample(at, &mut markers);
            found.extend_from_slice(&markers[..step.count]);
            at = step.resume;
            if step.count < batch {
                return found;
            }
        }
    }

    #[test]
    fn follows_figure_3_and_looks_at_the_last_window() {
        let set = ByteSet::from_iter([1]);
        let mut data = [0u8; 100];
        for at in [0, 10, 17, 18, 50, 68, 69] {
            data[at] = 1;
        }
        for kernels in Kernels::available() {
            // p = 32: marker 0, then 17 is the first position examined (i += p/2, then i++).
            assert_eq!(all(kernels, &set, &data, 32, 16, 64), [0, 17, 50, 68]);
            // 68 is the start of the last whole window; 69 never is a marker.
            assert_eq!(all(kernels, &set, &data, 31, 0, 64), [0, 10, 17, 18, 50, 68, 69]);
        }
    }

    #[test]
    fn blocks_of_a_window_and_less() {
        let set = ByteSet::from_iter([7]);
        for kernels in Kernels::available() {
            assert_eq!(all(kernels, &set, &[7; 32], 32, 16, 4), [0]);
            assert_eq!(all(kernels, &set, &[7; 31], 32, 16, 4), [] as [u32; 0]);
            assert_eq!(all(kernels, &set, &[], 32, 16, 4), [] as [u32; 0]);
        }
    }

    proptest! {
        #[test]
        fn every_level_equals_the_plain_loop(
            members in proptest::collection::vec(any::<u8>(), 0..40),
            data in proptest::collection::vec(any::<u8>(), 0..700),
            window in 1usize..70,
            skip in 0usize..80,
            batch in 1usize..70,
        ) {
            let set: ByteSet = members.into_iter().collect();
            let mut naive = Vec::new();
            let mut i = 0;
            while i + window <= data.len() {
                if set.contains(data[i]) {
                    naive.push(i as u32);
                    i += skip;
                }
                i += 1;
            }
            for kernels in Kernels::available() {
                prop_assert_eq!(&all(kernels, &set, &data, window, skip, batch), &naive);
            }
        }

        #[test]
        fn every_level_stops_at_the_same_gap(
            members in proptest::collection::vec(any::<u8>(), 0..20),
            data in proptest::collection::vec(any::<u8>(), 0..700),
            window in 1usize..70,
            skip in 0usize..80,
            gap in 1usize..200,
            from in 0usize..100,
            batch in 1usize..70,
        ) {
            let set: ByteSet = members.into_iter().collect();
            let end = (data.len() + 1).saturating_sub(window);
            let (mut naive, mut i, mut missed) = (Vec::new(), from, 0);
            while i < end && naive.len() < batch && missed < gap {
                missed += 1;
                if set.contains(data[i]) {
                    naive.push(i as u32);
                    i += skip;
                    missed = 0;
                }
                i += 1;
            }
            for kernels in Kernels::available() {
                let mut markers = vec![0; batch];
                let found = kernels.sample_byte(&set, &data, window, skip, gap, from, &mut markers);
                prop_assert_eq!(&markers[..found.count], &naive[..]);
                if from < end {
                    prop_assert_eq!(found.resume, i);
                }
            }
        }

        #[test]
        fn every_level_finds_the_same_pairs(
            data in proptest::collection::vec(prop_oneof![Just(PAIR_FIRST), 0u8..8, any::<u8>()], 0..700),
            window in 1usize..70,
            batch in 1usize..70,
        ) {
            let naive: Vec<u32> = (0..data.len())
                .filter(|&i| i + window.max(2) <= data.len() && data[i] == 116 && data[i + 1] % 4 == 0)
                .map(|i| i as u32)
                .collect();
            for kernels in Kernels::available() {
                let found = batches(batch, |at, markers| kernels.sample_pair(&data, window, at, markers));
                prop_assert_eq!(&found, &naive);
            }
        }
    }
}
