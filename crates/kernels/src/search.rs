//! Searches: sixteen sorted sums at once, for adaptive models, and eight bytes in a short region.

use crate::Kernels;

#[cfg(target_arch = "x86_64")]
use crate::Level;

/// Index of the first of `sums` that is above `place`, or 16.
#[inline(always)]
pub fn first_above(sums: &[i16; 16], place: i16) -> u32 {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::*;
        // SAFETY: SSE2 is part of x86_64; both loads are of 16 bytes inside the 32-byte array, and
        // unaligned loads are used.
        unsafe {
            let place = _mm_set1_epi16(place);
            let low = _mm_loadu_si128(sums.as_ptr().cast());
            let high = _mm_loadu_si128(sums.as_ptr().add(8).cast());
            let above = _mm_packs_epi16(_mm_cmpgt_epi16(low, place), _mm_cmpgt_epi16(high, place));
            // Not a population count: without its instruction, which the baseline lacks, that costs
            // more than all the rest.
            (_mm_movemask_epi8(above) as u32 | 1 << 16).trailing_zeros()
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    sums.iter().position(|&sum| sum > place).map_or(16, |i| i as u32)
}

impl Kernels {
    /// The first position in `bytes` at which these eight bytes are, if there is one.
    #[inline]
    pub fn find_word(self, bytes: &[u8], word: [u8; 8]) -> Option<usize> {
        match self.level() {
            #[cfg(target_arch = "x86_64")]
            // SAFETY: both levels include AVX2, and `Kernels` holds a level only if the machine has
            // it.
            Level::Avx2 | Level::Avx512 => unsafe { find_word_avx2(bytes, word) },
            _ => find_word_portable(bytes, word),
        }
    }
}

fn find_word_portable(bytes: &[u8], word: [u8; 8]) -> Option<usize> {
    bytes.windows(8).position(|window| window == word)
}

/// # Safety
/// The machine must have AVX2.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
unsafe fn find_word_avx2(bytes: &[u8], word: [u8; 8]) -> Option<usize> {
    use std::arch::x86_64::*;
    let first = _mm256_set1_epi8(word[0] as i8);
    let last = _mm256_set1_epi8(word[7] as i8);
    let mut at = 0;
    while at + 39 <= bytes.len() {
        // SAFETY: `at + 7 + 32 <= bytes.len()`.
        let (x, y) = unsafe {
            (
                _mm256_loadu_si256(bytes.as_ptr().add(at).cast()),
                _mm256_loadu_si256(bytes.as_ptr().add(at + 7).cast()),
            )
        };
        let both = _mm256_and_si256(_mm256_cmpeq_epi8(x, first), _mm256_cmpeq_epi8(y, last));
        let mut places = _mm256_movemask_epi8(both) as u32;
        while places != 0 {
            let place = at + places.trailing_zeros() as usize;
            if bytes[place..place + 8] == word {
                return Some(place);
            }
            places &= places - 1;
        }
        at += 32;
    }
    find_word_portable(&bytes[at..], word).map(|place| at + place)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn equals_the_plain_loop(sums: [i16; 16], place: i16) {
            let plain = (0..16).find(|&i| sums[i] > place).unwrap_or(16);
            prop_assert_eq!(first_above(&sums, place), plain as u32);
        }

        #[test]
        fn a_word_is_found_where_the_plain_loop_finds_it(
            mut bytes in proptest::collection::vec(0u8..3, 0..200),
            word in proptest::array::uniform8(0u8..3),
            place in 0usize..200,
        ) {
            if let Some(place) = bytes.get_mut(place..).and_then(|rest| rest.first_chunk_mut()) {
                *place = word;
            }
            let plain = bytes.windows(8).position(|window| window == word);
            for kernels in Kernels::available() {
                prop_assert_eq!(kernels.find_word(&bytes, word), plain);
            }
        }
    }
}
