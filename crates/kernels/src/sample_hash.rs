//! SAMPLEHASH's marker search: SAMPLEBYTE's walk with a hash of four bytes instead of a table
//! lookup of one.

use crate::walk::Walk;
use crate::{Kernels, Sampled};

#[cfg(target_arch = "x86_64")]
use crate::Level;

/// Bytes under the hash.
pub(crate) const HASHED: usize = 4;
/// Odd factors of the two halves. The upper bits of a product depend on all bits of its factors.
const LOW: u16 = 0x9e37;
const HIGH: u16 = 0xc2b3;

/// A 16-bit hash in operations that vectors have.
#[inline(always)]
pub(crate) fn hash(bytes: &[u8; HASHED]) -> u16 {
    let low = u16::from_le_bytes([bytes[0], bytes[1]]);
    let high = u16::from_le_bytes([bytes[2], bytes[3]]);
    low.wrapping_mul(LOW).wrapping_add(high.wrapping_mul(HIGH))
}

impl Kernels {
    /// Finds positions in `data[from..]` whose next four bytes have a 16-bit hash of at most
    /// `limit`, with a whole `window` left. After a marker at `i` the search continues at
    /// `i + 1 + skip`. It stops when `markers` is full, when `gap` positions in a row are no
    /// markers, or after the last window.
    ///
    /// # Panics
    /// If `window` is below 4, or `data` is longer than 4 GiB.
    #[allow(clippy::too_many_arguments)]
    pub fn sample_hash(
        self,
        limit: u16,
        data: &[u8],
        window: usize,
        skip: usize,
        gap: usize,
        from: usize,
        markers: &mut [u32],
    ) -> Sampled {
        assert!(window >= HASHED && u32::try_from(data.len()).is_ok());
        let Some(end) = (data.len() + 1).checked_sub(window) else {
            return Sampled { count: 0, resume: from };
        };
        let walk = Walk { from, end, skip, gap };
        let sampled = match self.level() {
            #[cfg(target_arch = "x86_64")]
            // SAFETY: `Kernels` holds this level only if the machine has it.
            Level::Avx512 if skip == 0 && gap == usize::MAX => unsafe {
                every_avx512(limit, data, walk, markers)
            },
            #[cfg(target_arch = "x86_64")]
            // SAFETY: `Kernels` holds this level only if the machine has it.
            Level::Avx2 if skip == 0 && gap == usize::MAX => unsafe {
                every_avx2(limit, data, walk, markers)
            },
            #[cfg(target_arch = "x86_64")]
            // SAFETY: `Kernels` holds these levels only if the machine has AVX2.
            Level::Avx2 | Level::Avx512 => unsafe { avx2(limit, data, walk, markers) },
            _ => walk.plain(markers, |at| low(data, at, limit)),
        };
        sampled.as_the_plain_loop(markers, from, end, skip, gap)
    }
}

/// Whether the position has a low hash.
#[inline(always)]
fn low(data: &[u8], at: usize, limit: u16) -> bool {
    hash(data[at..].first_chunk().expect("a window is no shorter than what is hashed")) <= limit
}

/// # Safety
/// The machine must have AVX2.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
unsafe fn avx2(limit: u16, data: &[u8], walk: Walk, markers: &mut [u32]) -> Sampled {
    use std::arch::x86_64::*;
    let (lows, highs) = (_mm256_set1_epi16(LOW as i16), _mm256_set1_epi16(HIGH as i16));
    let limits = _mm256_set1_epi16(limit as i16);
    // Lane `i` is all ones if the position `at + 2 i` is a marker.
    let hits = |at: usize| {
        assert!(at + 34 <= data.len());
        // SAFETY: `at + 2 + 32` is inside `data`.
        let (first, second) = unsafe {
            let first = data.as_ptr().add(at);
            (_mm256_loadu_si256(first.cast()), _mm256_loadu_si256(first.add(2).cast()))
        };
        let hash =
            _mm256_add_epi16(_mm256_mullo_epi16(first, lows), _mm256_mullo_epi16(second, highs));
        _mm256_movemask_epi8(_mm256_cmpeq_epi16(_mm256_min_epu16(hash, limits), hash)) as u32
    };
    let both = |at| hits(at) & 0x5555_5555 | hits(at + 1) & 0xaaaa_aaaa;
    let vectors = (data.len() + 1).saturating_sub(35);
    if walk.skip < 64 && markers.len() > 2 {
        walk.by_notes(vectors, markers, both, |at| low(data, at, limit))
    } else {
        walk.by_vectors(vectors, markers, both, |at| low(data, at, limit))
    }
}

/// Moves bit `i` to bit `2 i`.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
fn spread(bits: u32) -> u64 {
    let mut bits = u64::from(bits);
    for (shift, mask) in [
        (16, 0x0000_ffff_0000_ffff),
        (8, 0x00ff_00ff_00ff_00ff),
        (4, 0x0f0f_0f0f_0f0f_0f0f),
        (2, 0x3333_3333_3333_3333),
        (1, 0x5555_5555_5555_5555),
    ] {
        bits = (bits | bits << shift) & mask;
    }
    bits
}

/// Positions that [`every`] looks at in one step.
#[cfg(target_arch = "x86_64")]
const STEP: usize = 64;
/// Markers that it notes of a step whether they are there or not, so that it need not guess how many
/// there are.
#[cfg(target_arch = "x86_64")]
const LIKELY: usize = 4;

/// Writes the positions of the bits that are set.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
fn note(at: u32, mut inside: u64, room: &mut [u32; STEP]) {
    let found = inside.count_ones() as usize;
    let mut next = |marker: &mut u32| {
        // Of none, the position behind the step.
        *marker = at + inside.trailing_zeros();
        inside &= inside.wrapping_sub(1);
    };
    let (likely, more) = room.split_at_mut(LIKELY);
    likely.iter_mut().for_each(&mut next);
    more.iter_mut().take(found.saturating_sub(LIKELY)).for_each(next);
}

/// Every position with a low hash, without skips. Bit `i` of `hits(at)` says whether `at + i` has
/// one; it is called where `at < vectors` only.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
fn every(
    walk: Walk,
    vectors: usize,
    markers: &mut [u32],
    hits: impl Fn(usize) -> u64,
    low: impl Fn(usize) -> bool,
) -> Sampled {
    let Walk { from, end, .. } = walk;
    let (mut at, mut count, mut last) = (from, 0, [0; STEP]);
    while at + STEP <= end && at < vectors {
        let inside = hits(at);
        if inside == 0 {
            at += STEP;
            continue;
        }
        let found = inside.count_ones() as usize;
        let left = &mut markers[count..];
        if let Some(room) = left.first_chunk_mut() {
            note(at as u32, inside, room);
        } else if found <= left.len() {
            note(at as u32, inside, &mut last);
            left[..found].copy_from_slice(&last[..found]);
        } else {
            break;
        }
        count += found;
        at += STEP;
    }
    let rest = Walk { from: at, ..walk }.plain(&mut markers[count..], low);
    Sampled { count: count + rest.count, resume: rest.resume }
}

/// # Safety
/// The machine must have AVX2.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,bmi1,popcnt")]
unsafe fn every_avx2(limit: u16, data: &[u8], walk: Walk, markers: &mut [u32]) -> Sampled {
    use std::arch::x86_64::*;
    let (lows, highs) = (_mm256_set1_epi16(LOW as i16), _mm256_set1_epi16(HIGH as i16));
    let limits = _mm256_set1_epi16(limit as i16);
    // Lane `i` is all ones if the position `at + 2 i` has a low hash.
    let lanes = |at: usize| {
        // SAFETY: `at + 2 + 32` is inside `data`, as its caller has checked.
        let (first, second) = unsafe {
            let first = data.as_ptr().add(at);
            (_mm256_loadu_si256(first.cast()), _mm256_loadu_si256(first.add(2).cast()))
        };
        let hash =
            _mm256_add_epi16(_mm256_mullo_epi16(first, lows), _mm256_mullo_epi16(second, highs));
        _mm256_cmpeq_epi16(_mm256_min_epu16(hash, limits), hash)
    };
    let odd = _mm256_set1_epi16(0xff00_u16 as i16);
    let both = |at| {
        u64::from(_mm256_movemask_epi8(_mm256_blendv_epi8(lanes(at), lanes(at + 1), odd)) as u32)
    };
    let hits = |at: usize| {
        assert!(at + 67 <= data.len());
        both(at) | both(at + 32) << 32
    };
    every(walk, (data.len() + 1).saturating_sub(67), markers, hits, |at| low(data, at, limit))
}

/// # Safety
/// The machine must have AVX-512 F and BW.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx2,bmi1,popcnt")]
unsafe fn every_avx512(limit: u16, data: &[u8], walk: Walk, markers: &mut [u32]) -> Sampled {
    use std::arch::x86_64::*;
    let (lows, highs) = (_mm512_set1_epi16(LOW as i16), _mm512_set1_epi16(HIGH as i16));
    let limits = _mm512_set1_epi16(limit as i16);
    // Lane `i` belongs to the position `at + 2 i`.
    let half = |at: usize| {
        assert!(at + 66 <= data.len());
        // SAFETY: `at + 2 + 64` is inside `data`.
        let (first, second) = unsafe {
            let first = data.as_ptr().add(at);
            (_mm512_loadu_si512(first.cast()), _mm512_loadu_si512(first.add(2).cast()))
        };
        let hash =
            _mm512_add_epi16(_mm512_mullo_epi16(first, lows), _mm512_mullo_epi16(second, highs));
        _mm512_cmple_epu16_mask(hash, limits)
    };
    let hits = |at| spread(half(at)) | spread(half(at + 1)) << 1;
    every(walk, (data.len() + 1).saturating_sub(67), markers, hits, |at| low(data, at, limit))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::blocks;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn every_level_equals_the_plain_loop(
            data in blocks(),
            limit in prop_oneof![Just(63u16), Just(4096), any::<u16>()],
            window in 4usize..70,
            skip in prop_oneof![Just(0usize), 0usize..80],
            gap in prop_oneof![Just(usize::MAX), 1usize..200],
            from in 0usize..100,
            batch in prop_oneof![1usize..70, 64usize..600],
        ) {
            let end = (data.len() + 1).saturating_sub(window);
            let (mut naive, mut i, mut missed) = (Vec::new(), from, 0);
            while i < end && naive.len() < batch && missed < gap {
                missed += 1;
                let (a, b, c, d) = (data[i] as u32, data[i + 1] as u32, data[i + 2] as u32, data[i + 3] as u32);
                if ((a + 256 * b) * 0x9e37 + (c + 256 * d) % 65536 * 0xc2b3 % 65536) % 65536 <= u32::from(limit) {
                    naive.push(i as u32);
                    i += skip;
                    missed = 0;
                }
                i += 1;
            }
            for kernels in Kernels::available() {
                let mut markers = vec![0; batch];
                let found = kernels.sample_hash(limit, &data, window, skip, gap, from, &mut markers);
                prop_assert_eq!(&markers[..found.count], &naive[..]);
                if from < end {
                    prop_assert_eq!(found.resume, i);
                }
            }
        }
    }
}
