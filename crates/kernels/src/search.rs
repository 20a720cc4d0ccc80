//! Searches sixteen sorted sums at once, for adaptive models.

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
    }
}
