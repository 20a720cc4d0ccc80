//! Looking up a batch of positions.

use super::BATCH;

/// Looks up 64 positions.
pub(super) trait Probe {
    /// Enters positions `position..position + 64`, of which `bytes` begin at the first, in a table
    /// of `1 << bits` entries, by a hash of `H` bytes, in order. `old` becomes what their entries were; returned is which
    /// of these have the same tag.
    fn probe<const H: usize>(
        table: &mut [u32],
        bits: u32,
        bytes: &[u8; BATCH + 16],
        position: u16,
        old: &mut [u32; BATCH],
    ) -> u64;

    /// From which of the first 61 positions 4 bytes are equal.
    fn repeats(a: &[u8; BATCH], b: &[u8; BATCH]) -> u64;

    /// How many bytes agree of the 32 at each place.
    fn agree(a: &[u8; 32], b: &[u8; 32]) -> usize;
}

pub(super) struct Portable;

/// Of the first `H` bytes, 5 to 8.
#[inline(always)]
pub(super) fn hash<const H: usize>(bytes: &[u8; 8]) -> u32 {
    let word = u64::from_le_bytes(*bytes);
    (word as u32)
        .wrapping_mul(0x9e37_79b1)
        .wrapping_add(((word >> (8 * (H - 4))) as u32).wrapping_mul(0x85eb_ca77))
}

/// The index of a position in a table of `1 << bits` entries.
#[inline(always)]
pub(super) fn index<const H: usize>(bytes: &[u8; 8], bits: u32) -> usize {
    (hash::<H>(bytes) >> (32 - bits)) as usize
}

/// The index of a hash, and the entry of a position with it.
#[inline(always)]
fn entry(hash: u32, bits: u32, position: u16) -> (usize, u32) {
    ((hash >> (32 - bits)) as usize, hash << bits & 0xffff_0000 | u32::from(position))
}

impl Probe for Portable {
    #[inline(always)]
    fn probe<const H: usize>(
        table: &mut [u32],
        bits: u32,
        bytes: &[u8; BATCH + 16],
        position: u16,
        old: &mut [u32; BATCH],
    ) -> u64 {
        let mut same = 0;
        for (nth, window) in bytes.windows(8).take(BATCH).enumerate() {
            let Some(window) = window.first_chunk() else { break };
            let (index, new) = entry(hash::<H>(window), bits, position.wrapping_add(nth as u16));
            old[nth] = std::mem::replace(&mut table[index], new);
            same |= u64::from((old[nth] ^ new) >> 16 == 0) << nth;
        }
        same
    }

    #[inline(always)]
    fn repeats(a: &[u8; BATCH], b: &[u8; BATCH]) -> u64 {
        let equal =
            a.iter().zip(b).enumerate().fold(0, |mask, (i, (x, y))| mask | u64::from(x == y) << i);
        runs_of_four(equal)
    }

    #[inline(always)]
    fn agree(a: &[u8; 32], b: &[u8; 32]) -> usize {
        let (a, b) = (a.as_chunks::<8>().0, b.as_chunks::<8>().0);
        for (nth, (x, y)) in a.iter().zip(b).enumerate() {
            let difference = u64::from_le_bytes(*x) ^ u64::from_le_bytes(*y);
            if difference != 0 {
                return 8 * nth + difference.trailing_zeros() as usize / 8;
            }
        }
        32
    }
}

#[inline(always)]
fn runs_of_four(equal: u64) -> u64 {
    let two = equal & equal >> 1;
    two & two >> 2
}

#[cfg(target_arch = "x86_64")]
pub(super) struct Avx2;

#[cfg(target_arch = "x86_64")]
impl Probe for Avx2 {
    #[inline(always)]
    fn probe<const H: usize>(
        table: &mut [u32],
        bits: u32,
        bytes: &[u8; BATCH + 16],
        position: u16,
        old: &mut [u32; BATCH],
    ) -> u64 {
        use std::arch::x86_64::*;
        assert!(table.len() == 1 << bits);
        let mut indices = [0u32; BATCH];
        let mut new = [0u32; BATCH];
        // SAFETY: only called from functions with AVX2. Loads are of 16 bytes at up to 56 of 80;
        // stores of 8 numbers at multiples of 8 up to 56 of 64. Indices have `bits` bits.
        unsafe {
            let first = _mm256_setr_epi8(
                0, 1, 2, 3, 1, 2, 3, 4, 2, 3, 4, 5, 3, 4, 5, 6, 4, 5, 6, 7, 5, 6, 7, 8, 6, 7, 8, 9,
                7, 8, 9, 10,
            );
            let second = _mm256_add_epi8(first, _mm256_set1_epi8((H - 4) as i8));
            let factor = _mm256_set1_epi32(0x9e37_79b1_u32 as i32);
            let other = _mm256_set1_epi32(0x85eb_ca77_u32 as i32);
            let low = _mm256_set1_epi32(0xffff);
            let steps = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
            let (down, up) = (_mm_cvtsi32_si128(32 - bits as i32), _mm_cvtsi32_si128(bits as i32));
            for at in (0..BATCH).step_by(8) {
                let x = _mm256_broadcastsi128_si256(_mm_loadu_si128(bytes.as_ptr().add(at).cast()));
                let hash = _mm256_add_epi32(
                    _mm256_mullo_epi32(_mm256_shuffle_epi8(x, first), factor),
                    _mm256_mullo_epi32(_mm256_shuffle_epi8(x, second), other),
                );
                let start = _mm256_set1_epi32(i32::from(position) + at as i32);
                let positions = _mm256_and_si256(_mm256_add_epi32(start, steps), low);
                let tags = _mm256_andnot_si256(low, _mm256_sll_epi32(hash, up));
                let index = _mm256_srl_epi32(hash, down);
                _mm256_storeu_si256(indices.as_mut_ptr().add(at).cast(), index);
                _mm256_storeu_si256(
                    new.as_mut_ptr().add(at).cast(),
                    _mm256_or_si256(tags, positions),
                );
            }
            for nth in 0..BATCH {
                let slot = table.get_unchecked_mut(indices[nth] as usize);
                old[nth] = std::mem::replace(slot, new[nth]);
            }
            let mut same = 0;
            for at in (0..BATCH).step_by(8) {
                let x = _mm256_xor_si256(
                    _mm256_loadu_si256(old.as_ptr().add(at).cast()),
                    _mm256_loadu_si256(new.as_ptr().add(at).cast()),
                );
                let is_same = _mm256_cmpeq_epi32(_mm256_srli_epi32(x, 16), _mm256_setzero_si256());
                let bits = _mm256_movemask_ps(_mm256_castsi256_ps(is_same)) as u32;
                same |= u64::from(bits) << at;
            }
            same
        }
    }

    #[inline(always)]
    fn repeats(a: &[u8; BATCH], b: &[u8; BATCH]) -> u64 {
        use std::arch::x86_64::*;
        // SAFETY: only called from functions with AVX2; 32 bytes are read at 0 and 32 of 64.
        unsafe {
            let x = _mm256_loadu_si256(a.as_ptr().cast());
            let y = _mm256_loadu_si256(b.as_ptr().cast());
            let first = _mm256_movemask_epi8(_mm256_cmpeq_epi8(x, y)) as u32;
            let x = _mm256_loadu_si256(a.as_ptr().add(32).cast());
            let y = _mm256_loadu_si256(b.as_ptr().add(32).cast());
            let second = _mm256_movemask_epi8(_mm256_cmpeq_epi8(x, y)) as u32;
            runs_of_four(u64::from(first) | u64::from(second) << 32)
        }
    }

    #[inline(always)]
    fn agree(a: &[u8; 32], b: &[u8; 32]) -> usize {
        use std::arch::x86_64::*;
        // SAFETY: only called from functions with AVX2; both have 32 bytes.
        unsafe {
            let x = _mm256_loadu_si256(a.as_ptr().cast());
            let y = _mm256_loadu_si256(b.as_ptr().cast());
            let equal = _mm256_movemask_epi8(_mm256_cmpeq_epi8(x, y)) as u32;
            (!equal).trailing_zeros() as usize
        }
    }
}
