//! Rabin fingerprints, and MODP's marker search by them.
//!
//! MODP (Spring and Wetherall, SIGCOMM 2000; EndRE section 5.1.1, Figure 2) computes the
//! fingerprint of every window and takes those whose value is 0 mod p. A Rabin fingerprint (M. O.
//! Rabin, *Fingerprinting by random polynomials*, 1981) is the window, read as a polynomial over
//! GF(2), modulo an irreducible polynomial: for bytes `b[0]..b[w-1]`, `b[0] x^(8(w-1)) + ... +
//! b[w-2] x^8 + b[w-1] mod P`, where bit `i` of a byte stands for `x^i`. A byte enters and leaves
//! by one table each.
//!
//! It is linear in the bits of the window. So where p is a power of two, the low bits that decide
//! are a sum of one 8x8 bit matrix per byte of the window applied to that byte, and AVX-512 with
//! GFNI computes them for 64 positions at once without any rolling.

use super::rolling::{Rolling, search};
use crate::{Kernels, Sampled};
use std::sync::OnceLock;

/// Degree of [`RABIN_POLYNOMIAL`]: a fingerprint has 56 bits, so that a byte can be shifted in
/// before the reduction.
const DEGREE: u32 = 56;

/// The modulus, irreducible over GF(2), of degree 56: the least such polynomial whose lower
/// coefficients, read as a number, are not below the first 56 fractional bits of pi.
pub const RABIN_POLYNOMIAL: u64 = 0x0124_3f6a_8885_a36b;

/// Largest window of a Rabin fingerprint in bytes.
const MAX_WINDOW: usize = 64;

/// The Rabin fingerprint of `window`, of any length: below 2^56. That of zero bytes is 0.
pub fn rabin_fingerprint(window: &[u8]) -> u64 {
    window.iter().fold(0, |state, &byte| append(state, byte))
}

#[inline(always)]
fn append(state: u64, byte: u8) -> u64 {
    (state << 8 | u64::from(byte)) ^ REDUCE[(state >> (DEGREE - 8)) as usize]
}

/// What removes the bits above the degree after a shift by a byte.
static REDUCE: [u64; 256] = {
    let mut table = [0; 256];
    let mut top = 0;
    while top < 256 {
        let mut product = (top as u64) << DEGREE;
        let mut bit = 64;
        while bit > DEGREE {
            bit -= 1;
            if product >> bit & 1 == 1 {
                product ^= RABIN_POLYNOMIAL << (bit - DEGREE);
            }
        }
        table[top] = product ^ (top as u64) << DEGREE;
        top += 1;
    }
    table
};

/// Tables for one window size.
struct Tables {
    /// The fingerprint of a byte followed by `window` zero bytes: what is left of the byte that
    /// leaves once it was shifted.
    leave: [u64; 256],
    /// For each byte of the window the matrix, in the layout of `GF2P8AFFINEQB`, from the byte to
    /// the low 8 bits of its share in the fingerprint.
    #[cfg(target_arch = "x86_64")]
    low_bits: [u64; MAX_WINDOW],
}

impl Tables {
    fn of(window: usize) -> &'static Tables {
        static ALL: [OnceLock<Box<Tables>>; MAX_WINDOW + 1] =
            [const { OnceLock::new() }; MAX_WINDOW + 1];
        ALL[window].get_or_init(|| Box::new(Tables::new(window)))
    }

    fn new(window: usize) -> Tables {
        let shifted = |byte, zeros| (0..zeros).fold(byte, |state, _| append(state, 0));
        Tables {
            leave: std::array::from_fn(|byte| shifted(byte as u64, window)),
            #[cfg(target_arch = "x86_64")]
            low_bits: std::array::from_fn(|at| {
                let Some(behind) = window.checked_sub(at + 1) else { return 0 };
                let shares: [u64; 8] = std::array::from_fn(|bit| shifted(1 << bit, behind));
                // The row for result bit `row` is byte `7 - row` of the matrix.
                let row = |row: u32| (0..8).map(|bit| (shares[bit] >> row & 1) << bit).sum::<u64>();
                (0..8).map(|bit| row(bit) << (8 * (7 - bit))).sum()
            }),
        }
    }
}

/// Fingerprints that are 0 mod a power of two.
struct Masked<'a> {
    tables: &'a Tables,
    mask: u64,
}

/// Fingerprints that are 0 mod any number: `n * inverse`, rotated, is at most `limit` exactly if
/// `n` is divisible (Granlund and Montgomery, *Division by invariant integers using
/// multiplication*, 1994, section 9).
struct Divided<'a> {
    tables: &'a Tables,
    inverse: u64,
    shift: u32,
    limit: u64,
}

impl<'a> Divided<'a> {
    fn new(tables: &'a Tables, period: u64) -> Divided<'a> {
        let shift = period.trailing_zeros();
        let odd = period >> shift;
        // Newton's iteration: five bits are right at first, twice as many after each step.
        let mut inverse = odd.wrapping_mul(3) ^ 2;
        for _ in 0..4 {
            inverse = inverse.wrapping_mul(2u64.wrapping_sub(odd.wrapping_mul(inverse)));
        }
        Divided { tables, inverse, shift, limit: u64::MAX / period }
    }
}

macro_rules! rolls_as_rabin {
    () => {
        #[inline(always)]
        fn prime(&self, window: &[u8]) -> u64 {
            rabin_fingerprint(window)
        }

        #[inline(always)]
        fn roll(&self, state: u64, left: u8, entered: u8) -> u64 {
            append(state, entered) ^ self.tables.leave[usize::from(left)]
        }

        #[inline(always)]
        fn value(&self, state: u64) -> u64 {
            state
        }
    };
}

impl Rolling for Masked<'_> {
    rolls_as_rabin!();

    #[inline(always)]
    fn marks(&self, value: u64) -> bool {
        value & self.mask == 0
    }
}

impl Rolling for Divided<'_> {
    rolls_as_rabin!();

    #[inline(always)]
    fn marks(&self, value: u64) -> bool {
        value.wrapping_mul(self.inverse).rotate_right(self.shift) <= self.limit
    }
}

impl Kernels {
    /// Finds MODP's markers in `data[from..]`: positions with a whole `window` left whose Rabin
    /// fingerprint is 0 mod `period`. Stops when `markers` is full or the last window has been
    /// passed.
    ///
    /// Unless `published`, a position whose fingerprint equals that of the position before it in
    /// `data` (also where that lies before `from`) is no marker: a run of one byte has the same
    /// fingerprint everywhere, and for zeros it is 0.
    ///
    /// # Panics
    /// If `window` is not 1..=64, `period` is 0, or `data` is longer than 4 GiB.
    pub fn modp(
        self,
        data: &[u8],
        window: usize,
        period: usize,
        published: bool,
        from: usize,
        markers: &mut [u32],
    ) -> Sampled {
        assert!((1..=MAX_WINDOW).contains(&window) && period > 0);
        assert!(u32::try_from(data.len()).is_ok(), "a block's positions must fit 32 bits");
        let Some(end) = (data.len() + 1).checked_sub(window) else {
            return Sampled { count: 0, resume: from };
        };
        let tables = Tables::of(window);
        if !period.is_power_of_two() {
            let hash = Divided::new(tables, period as u64);
            return search(&hash, data, window, end, period, published, from, markers);
        }
        let hash = Masked { tables, mask: period as u64 - 1 };
        #[cfg(target_arch = "x86_64")]
        if gfni::usable(self) && end.saturating_sub(from) >= 64 {
            // SAFETY: the machine has what `usable` asks for.
            return unsafe {
                gfni::search(self, &hash, data, window, end, published, from, markers)
            };
        }
        search(&hash, data, window, end, period, published, from, markers)
    }
}

/// The position of the window with the greatest Rabin fingerprint in `data`, the leftmost of equal
/// ones. `None` if `data` is shorter than a window.
///
/// # Panics
/// If `window` is not 1..=64.
pub fn greatest_rabin_fingerprint(data: &[u8], window: usize) -> Option<usize> {
    assert!((1..=MAX_WINDOW).contains(&window));
    let leave = &Tables::of(window).leave;
    let mut state = rabin_fingerprint(data.get(..window)?);
    let mut best = (state, 0);
    for (i, (&left, &entered)) in data.iter().zip(&data[window..]).enumerate() {
        state = append(state, entered) ^ leave[usize::from(left)];
        if state > best.0 {
            best = (state, i + 1);
        }
    }
    Some(best.1)
}

#[cfg(target_arch = "x86_64")]
mod gfni {
    use super::{Masked, rabin_fingerprint};
    use crate::{Kernels, Level, Sampled};
    use std::arch::x86_64::*;

    pub(super) fn usable(kernels: Kernels) -> bool {
        kernels.level() >= Level::Avx512
            && std::is_x86_feature_detected!("gfni")
            && std::is_x86_feature_detected!("bmi2")
    }

    /// As [`super::super::rolling::search`] with this hash.
    ///
    /// # Safety
    /// The machine must have AVX-512 F, BW and VL, GFNI and BMI2.
    // More than 100 lines: a hot loop, whose state stays in registers.
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx2,gfni,bmi2")]
    #[allow(clippy::too_many_arguments)]
    pub(super) unsafe fn search(
        kernels: Kernels,
        hash: &Masked<'_>,
        data: &[u8],
        window: usize,
        end: usize,
        published: bool,
        from: usize,
        markers: &mut [u32],
    ) -> Sampled {
        debug_assert!(from + 64 <= end);
        if markers.is_empty() {
            return Sampled { count: 0, resume: from };
        }
        let matrices = &hash.tables.low_bits[..window];
        let low = hash.mask.min(255);
        let low_mask = _mm512_set1_epi8(low as i8);
        let (mut at, mut count) = (from, 0);
        // Bit 63: whether the low bits of the position before are zero.
        let mut before =
            u64::from(from > 0 && rabin_fingerprint(&data[from - 1..][..window]) & low == 0) << 63;
        while at < end {
            // The last vector is moved back so that it ends with the last window; what was seen
            // already is shifted out.
            let base = at.min(end - 64);
            let seen = at - base;
            let mut sum = _mm512_setzero_si512();
            let mut other = _mm512_setzero_si512();
            let bytes = &data[base..base + 63 + window];
            let pairs = matrices.chunks_exact(2);
            let rest = pairs.remainder();
            for (i, pair) in pairs.enumerate() {
                // SAFETY: byte 2 i + 1 + 63 is inside `bytes`, since 2 i + 1 < window.
                let (even, odd) = unsafe {
                    let even = bytes.as_ptr().add(2 * i);
                    (_mm512_loadu_si512(even.cast()), _mm512_loadu_si512(even.add(1).cast()))
                };
                sum = _mm512_xor_si512(
                    sum,
                    _mm512_gf2p8affine_epi64_epi8::<0>(even, _mm512_set1_epi64(pair[0] as i64)),
                );
                other = _mm512_xor_si512(
                    other,
                    _mm512_gf2p8affine_epi64_epi8::<0>(odd, _mm512_set1_epi64(pair[1] as i64)),
                );
            }
            if let [last] = rest {
                // SAFETY: as above, for byte `window - 1`.
                let odd = unsafe { _mm512_loadu_si512(bytes.as_ptr().add(window - 1).cast()) };
                other = _mm512_xor_si512(
                    other,
                    _mm512_gf2p8affine_epi64_epi8::<0>(odd, _mm512_set1_epi64(*last as i64)),
                );
            }
            // Positions with low bits zero, from `at` on.
            let zero = _mm512_testn_epi8_mask(_mm512_xor_si512(sum, other), low_mask) >> seen;
            let after_zero = zero << 1 | before >> 63;
            before = zero << seen;
            let mut hits = zero;
            // Behind a position with other low bits the fingerprint is another one; the rest is
            // looked at.
            let mut doubtful = if hash.mask > 255 {
                zero
            } else if published {
                0
            } else {
                zero & after_zero
            };
            while doubtful != 0 {
                let bit = doubtful.trailing_zeros() as usize;
                let equal = if published {
                    0
                } else {
                    equal_to_the_one_before(kernels, data, window, at + bit, 64 - bit)
                };
                if equal > 0 {
                    let run = u64::MAX >> (64 - equal) << bit;
                    hits &= !run;
                    doubtful &= !run;
                    continue;
                }
                let fingerprint = |position: usize| rabin_fingerprint(&data[position..][..window]);
                let value = fingerprint(at + bit);
                if value & hash.mask != 0
                    || !published && at + bit > 0 && fingerprint(at + bit - 1) == value
                {
                    hits &= !(1 << bit);
                }
                doubtful &= doubtful - 1;
            }
            while hits != 0 {
                let marker = at + hits.trailing_zeros() as usize;
                hits &= hits - 1;
                markers[count] = marker as u32;
                count += 1;
                if count == markers.len() {
                    return Sampled { count, resume: marker + 1 };
                }
            }
            at = base + 64;
        }
        Sampled { count, resume: at.max(end) }
    }

    /// How many windows from that at `position` on, `most` at most, are in a run of one byte and
    /// equal to the one before each.
    fn equal_to_the_one_before(
        kernels: Kernels,
        data: &[u8],
        window: usize,
        position: usize,
        most: usize,
    ) -> usize {
        let Some(before) = position.checked_sub(1) else { return 0 };
        let reach = &data[before..(position + window + most - 1).min(data.len())];
        (kernels.common_prefix(reach, &reach[1..]) + 1).saturating_sub(window)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{blocks, in_batches};
    use proptest::prelude::*;

    /// Modulo the polynomial, a bit at a time.
    fn naive(window: &[u8]) -> u64 {
        let bits =
            window.iter().flat_map(|byte| (0..8).rev().map(move |bit| u64::from(byte >> bit & 1)));
        bits.fold(0, |state, bit| {
            let next = state << 1 | bit;
            if next >> DEGREE & 1 == 1 { next ^ RABIN_POLYNOMIAL } else { next }
        })
    }

    fn multiply(a: u64, b: u64) -> u64 {
        (0..DEGREE).rev().fold(0, |product, bit| {
            let next = product << 1;
            let next = if next >> DEGREE & 1 == 1 { next ^ RABIN_POLYNOMIAL } else { next };
            if b >> bit & 1 == 1 { next ^ a } else { next }
        })
    }

    fn remainder(mut a: u64, b: u64) -> u64 {
        while a != 0 && a.ilog2() >= b.ilog2() {
            a ^= b << (a.ilog2() - b.ilog2());
        }
        a
    }

    #[test]
    fn the_polynomial_is_irreducible() {
        // Rabin's test for degree n: x^(2^n) = x, and for every prime divisor q of n, x^(2^(n/q)) -
        // x is coprime to P.
        assert_eq!(RABIN_POLYNOMIAL.ilog2(), DEGREE);
        let frobenius = |times| (0..times).fold(2, |power, _| multiply(power, power));
        assert_eq!(frobenius(DEGREE), 2);
        for prime in [2, 7] {
            let (mut a, mut b) = (RABIN_POLYNOMIAL, frobenius(DEGREE / prime) ^ 2);
            while b != 0 {
                (a, b) = (b, remainder(a, b));
            }
            assert_eq!(a, 1);
        }
    }

    #[test]
    fn a_run_has_one_marker_at_most_and_as_published_one_at_every_byte() {
        let data = [0; 500];
        for kernels in Kernels::available() {
            for period in [8, 32, 100, 512] {
                let all = |published, from| {
                    in_batches(7, from, 469, |at, found| {
                        kernels.modp(&data, 32, period, published, at, found)
                    })
                };
                assert_eq!(all(false, 0), [0]);
                assert_eq!(all(false, 5), [] as [u32; 0]);
                assert_eq!(all(true, 5), (5..469).collect::<Vec<_>>());
            }
        }
    }

    proptest! {
        #[test]
        fn tables_give_the_remainder(window in proptest::collection::vec(any::<u8>(), 0..100)) {
            prop_assert_eq!(rabin_fingerprint(&window), naive(&window));
        }

        #[test]
        fn every_level_and_batch_equals_the_definition(
            data in blocks(),
            window in 1usize..=64,
            period in prop_oneof![Just(32usize), (2u32..=10).prop_map(|bits| 1 << bits), 1usize..=1024],
            published: bool,
            from in prop_oneof![Just(0usize), 0usize..300],
            batch in 1usize..70,
        ) {
            let end = (data.len() + 1).saturating_sub(window);
            let values: Vec<u64> = data.windows(window).map(rabin_fingerprint).collect();
            let expected: Vec<u32> = (from..end)
                .filter(|&i| values[i].is_multiple_of(period as u64) && (published || i == 0 || values[i] != values[i - 1]))
                .map(|i| i as u32)
                .collect();
            for kernels in Kernels::available() {
                let found = in_batches(batch, from, end, |at, found| kernels.modp(&data, window, period, published, at, found));
                prop_assert_eq!(&found, &expected, "{}", kernels.level());
            }
            let greatest = values.iter().max().map(|greatest| values.iter().position(|value| value == greatest).unwrap());
            prop_assert_eq!(greatest_rabin_fingerprint(&data, window), greatest);
        }
    }
}
