//! Measures how far two regions agree: forwards, backwards, and after a difference.

use crate::Kernels;

#[cfg(target_arch = "x86_64")]
use crate::Level;

impl Kernels {
    /// Length of the longest common prefix of `a` and `b`, in bytes.
    #[inline]
    pub fn common_prefix(self, a: &[u8], b: &[u8]) -> usize {
        match self.level() {
            #[cfg(target_arch = "x86_64")]
            // SAFETY: `Kernels` holds a level only if the machine has it.
            Level::Avx2 => unsafe { prefix_avx2(a, b) },
            #[cfg(target_arch = "x86_64")]
            // SAFETY: as above.
            Level::Avx512 => unsafe { prefix_avx512(a, b) },
            _ => prefix_portable(a, b),
        }
    }

    /// Length of the longest common suffix of `a` and `b`, in bytes.
    #[inline]
    pub fn common_suffix(self, a: &[u8], b: &[u8]) -> usize {
        match self.level() {
            #[cfg(target_arch = "x86_64")]
            // SAFETY: both levels include AVX2, and `Kernels` holds a level only if the machine has
            // it. Backward growth is short (it ends at the last match), so wider vectors do not pay
            // here.
            Level::Avx2 | Level::Avx512 => unsafe { suffix_avx2(a, b) },
            _ => suffix_portable(a, b),
        }
    }

    /// The first position `i < 64` from which `a` and `b` agree for `run` bytes (all within the
    /// first 64 bytes and both slices), if there is one. `run` is 1..=32.
    ///
    /// After a small edit of equal length, two versions agree again at the same distance; this
    /// finds the place without a table.
    #[inline]
    pub fn agree_again(self, a: &[u8], b: &[u8], run: usize) -> Option<usize> {
        debug_assert!((1..=32).contains(&run));
        let equal = match self.level() {
            #[cfg(target_arch = "x86_64")]
            Level::Avx2 | Level::Avx512 => match (a.first_chunk::<64>(), b.first_chunk::<64>()) {
                // SAFETY: both levels include AVX2, and `Kernels` holds a level only if the machine
                // has it.
                (Some(a), Some(b)) => unsafe { equal_mask_avx2(a, b) },
                _ => equal_mask_portable(a, b),
            },
            _ => equal_mask_portable(a, b),
        };
        first_run(equal, run)
    }
}

/// Lowest bit from which `run` bits in a row are set.
#[inline]
fn first_run(mut mask: u64, run: usize) -> Option<usize> {
    // Invariant: bit i of `mask` says that `have` bits from i on are set.
    let mut have = 1;
    while have < run && mask != 0 {
        let step = have.min(run - have);
        mask &= mask >> step;
        have += step;
    }
    (mask != 0).then(|| mask.trailing_zeros() as usize)
}

fn equal_mask_portable(a: &[u8], b: &[u8]) -> u64 {
    a.iter()
        .zip(b)
        .take(64)
        .enumerate()
        .fold(0, |mask, (i, (x, y))| mask | (u64::from(x == y) << i))
}

fn prefix_portable(a: &[u8], b: &[u8]) -> usize {
    let (a_words, _) = a.as_chunks::<8>();
    let (b_words, _) = b.as_chunks::<8>();
    let mut at = 0;
    for (x, y) in a_words.iter().zip(b_words) {
        let difference = u64::from_le_bytes(*x) ^ u64::from_le_bytes(*y);
        if difference != 0 {
            return at + difference.trailing_zeros() as usize / 8;
        }
        at += 8;
    }
    at + a[at..].iter().zip(&b[at..]).take_while(|(x, y)| x == y).count()
}

fn suffix_portable(a: &[u8], b: &[u8]) -> usize {
    let (_, a_words) = a.as_rchunks::<8>();
    let (_, b_words) = b.as_rchunks::<8>();
    let mut len = 0;
    for (x, y) in a_words.iter().rev().zip(b_words.iter().rev()) {
        let difference = u64::from_le_bytes(*x) ^ u64::from_le_bytes(*y);
        if difference != 0 {
            return len + difference.leading_zeros() as usize / 8;
        }
        len += 8;
    }
    let (a, b) = (&a[..a.len() - len], &b[..b.len() - len]);
    len + a.iter().rev().zip(b.iter().rev()).take_while(|(x, y)| x == y).count()
}

/// # Safety
/// The machine must have AVX2.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
unsafe fn equal_mask_avx2(a: &[u8; 64], b: &[u8; 64]) -> u64 {
    use std::arch::x86_64::*;
    let half = |at: usize| {
        // SAFETY: `at` is 0 or 32, so 32 bytes can be read from both 64-byte arrays.
        let (x, y) = unsafe {
            (
                _mm256_loadu_si256(a.as_ptr().add(at).cast()),
                _mm256_loadu_si256(b.as_ptr().add(at).cast()),
            )
        };
        u64::from(_mm256_movemask_epi8(_mm256_cmpeq_epi8(x, y)) as u32)
    };
    half(0) | (half(32) << 32)
}

/// # Safety
/// The machine must have AVX2.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
unsafe fn prefix_avx2(a: &[u8], b: &[u8]) -> usize {
    use std::arch::x86_64::*;
    let n = a.len().min(b.len());
    let mut at = 0;
    while at + 32 <= n {
        // SAFETY: `at + 32 <= n`, which is at most the length of either slice.
        let (x, y) = unsafe {
            (
                _mm256_loadu_si256(a.as_ptr().add(at).cast()),
                _mm256_loadu_si256(b.as_ptr().add(at).cast()),
            )
        };
        let equal = _mm256_movemask_epi8(_mm256_cmpeq_epi8(x, y)) as u32;
        if equal != u32::MAX {
            return at + equal.trailing_ones() as usize;
        }
        at += 32;
    }
    at + prefix_portable(&a[at..n], &b[at..n])
}

/// # Safety
/// The machine must have AVX-512 F and BW.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx2")]
unsafe fn prefix_avx512(a: &[u8], b: &[u8]) -> usize {
    use std::arch::x86_64::*;
    let n = a.len().min(b.len());
    let mut at = 0;
    while at + 64 <= n {
        // SAFETY: `at + 64 <= n`, which is at most the length of either slice.
        let (x, y) = unsafe {
            (
                _mm512_loadu_si512(a.as_ptr().add(at).cast()),
                _mm512_loadu_si512(b.as_ptr().add(at).cast()),
            )
        };
        let equal = _mm512_cmpeq_epi8_mask(x, y);
        if equal != u64::MAX {
            return at + equal.trailing_ones() as usize;
        }
        at += 64;
    }
    at + prefix_portable(&a[at..n], &b[at..n])
}

/// # Safety
/// The machine must have AVX2.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
unsafe fn suffix_avx2(a: &[u8], b: &[u8]) -> usize {
    use std::arch::x86_64::*;
    let n = a.len().min(b.len());
    let (a, b) = (&a[a.len() - n..], &b[b.len() - n..]);
    let mut len = 0;
    while len + 32 <= n {
        let at = n - len - 32;
        // SAFETY: `at + 32 <= n`, the length of both slices.
        let (x, y) = unsafe {
            (
                _mm256_loadu_si256(a.as_ptr().add(at).cast()),
                _mm256_loadu_si256(b.as_ptr().add(at).cast()),
            )
        };
        let equal = _mm256_movemask_epi8(_mm256_cmpeq_epi8(x, y)) as u32;
        if equal != u32::MAX {
            return len + equal.leading_ones() as usize;
        }
        len += 32;
    }
    len + suffix_portable(&a[..n - len], &b[..n - len])
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn naive_prefix(a: &[u8], b: &[u8]) -> usize {
        let mut n = 0;
        while n < a.len() && n < b.len() && a[n] == b[n] {
            n += 1;
        }
        n
    }

    fn naive_again(a: &[u8], b: &[u8], run: usize) -> Option<usize> {
        let n = a.len().min(b.len()).min(64);
        (0..n).find(|&i| i + run <= n && a[i..i + run] == b[i..i + run])
    }

    /// Two slices that agree except at the given places, at different alignments.
    fn pair(len: usize, cut: usize, shift: usize, edits: &[usize]) -> (Vec<u8>, Vec<u8>) {
        let a: Vec<u8> = (0..len).map(|i| (i * 7 % 251) as u8).collect();
        let mut b = vec![0; shift];
        b.extend_from_slice(&a[..len - cut.min(len)]);
        for &edit in edits {
            if shift + edit < b.len() {
                b[shift + edit] ^= 0x55;
            }
        }
        (a, b)
    }

    proptest! {
        #[test]
        fn every_level_equals_the_plain_loop(
            len in 0usize..400,
            cut in 0usize..5,
            shift in 0usize..40,
            edits in proptest::collection::vec(0usize..400, 0..4),
            run in 1usize..=32,
        ) {
            let (a, shifted) = pair(len, cut, shift, &edits);
            let b = &shifted[shift..];
            let mut back_a = a[..b.len().min(a.len())].to_vec();
            let mut back_b = b.to_vec();
            for kernels in Kernels::available() {
                prop_assert_eq!(kernels.common_prefix(&a, b), naive_prefix(&a, b));
                prop_assert_eq!(kernels.agree_again(&a, b, run), naive_again(&a, b, run));
                let suffix = kernels.common_suffix(&back_a, b);
                back_a.reverse();
                back_b.reverse();
                prop_assert_eq!(suffix, naive_prefix(&back_a, &back_b));
                back_a.reverse();
                back_b.reverse();
            }
        }
    }
}
