//! Fingerprints: a pseudo-random 64-bit hash of the window at each marker.
//!
//! EndRE uses Jenkins' hash and needs only "a few bytes of hash value", because every hit is
//! verified byte by byte. This hash folds 64x64->128-bit products over pairs of words (the
//! construction of wyhash and MUM): about one multiplication per 16 bytes, independent between
//! markers, so a batch keeps the multiplier busy.

use crate::Kernels;

/// Smallest window that can be hashed, in bytes.
pub const FINGERPRINT_MIN_WINDOW: usize = 8;
/// Largest window that can be hashed, in bytes.
pub const FINGERPRINT_MAX_WINDOW: usize = 64;

/// Odd constants with balanced bits (the fractional digits of pi), one per word of the largest
/// window.
const SALT: [u64; 8] = [
    0x243f_6a88_85a3_08d3,
    0x1319_8a2e_0370_7345,
    0xa409_3822_299f_31d1,
    0x082e_fa98_ec4e_6c89,
    0x4528_21e6_38d0_1377,
    0xbe54_66cf_34e9_0c6d,
    0xc0ac_29b7_c97c_50dd,
    0x3f84_d5b5_b547_0917,
];

impl Kernels {
    /// Writes the fingerprint of `data[m..m + window]` for each marker `m`, under `key`, into
    /// `out`.
    ///
    /// The same window bytes and key give the same fingerprint on every machine and level. The key
    /// separates isolation domains; it does not make the hash collision-resistant.
    ///
    /// # Panics
    /// If `window` is outside 8..=64, a window reaches past `data`, or the lengths of `markers` and
    /// `out` differ.
    pub fn fingerprints(
        self,
        data: &[u8],
        markers: &[u32],
        window: usize,
        key: u64,
        out: &mut [u64],
    ) {
        assert!((FINGERPRINT_MIN_WINDOW..=FINGERPRINT_MAX_WINDOW).contains(&window));
        assert_eq!(markers.len(), out.len());
        // Fixed sizes let the compiler unroll; the general form serves the rest.
        match window {
            16 => each(data, markers, out, |w: &[u8; 16]| hash(w, key)),
            32 => each(data, markers, out, |w: &[u8; 32]| hash(w, key)),
            64 => each(data, markers, out, |w: &[u8; 64]| hash(w, key)),
            _ => {
                for (out, &marker) in out.iter_mut().zip(markers) {
                    *out = hash(&data[marker as usize..][..window], key);
                }
            }
        }
    }
}

#[inline(always)]
fn each<const W: usize>(
    data: &[u8],
    markers: &[u32],
    out: &mut [u64],
    hash: impl Fn(&[u8; W]) -> u64,
) {
    for (out, &marker) in out.iter_mut().zip(markers) {
        let window = data[marker as usize..].first_chunk::<W>();
        *out = hash(window.expect("the window of a marker lies inside the block"));
    }
}

#[inline(always)]
fn hash(window: &[u8], key: u64) -> u64 {
    let n = window.len();
    let mut state = key ^ (n as u64);
    let mut at = 0;
    // Whole pairs of words, then one pair that ends with the window and overlaps what came before.
    while at + 16 <= n {
        state ^=
            fold(word(window, at) ^ SALT[at / 8], word(window, at + 8) ^ SALT[at / 8 + 1] ^ key);
        at += 16;
    }
    if at < n {
        let first = n.saturating_sub(16);
        state = state.rotate_left(23)
            ^ fold(word(window, first) ^ SALT[6], word(window, n - 8) ^ SALT[7] ^ key);
    }
    fold(state ^ SALT[1], SALT[2])
}

#[inline(always)]
fn fold(a: u64, b: u64) -> u64 {
    let product = u128::from(a) * u128::from(b);
    (product as u64) ^ ((product >> 64) as u64)
}

#[inline(always)]
fn word(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(*bytes[at..].first_chunk().expect("a word inside the window"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::HashSet;

    #[test]
    fn fixed_and_general_sizes_agree() {
        let data: Vec<u8> = (0..200u32).map(|i| ((i * 37) >> 2) as u8).collect();
        for window in FINGERPRINT_MIN_WINDOW..=FINGERPRINT_MAX_WINDOW {
            let mut out = [0; 3];
            Kernels::detect().fingerprints(&data, &[0, 5, 100], window, 9, &mut out);
            for (marker, fingerprint) in [0usize, 5, 100].into_iter().zip(out) {
                assert_eq!(fingerprint, hash(&data[marker..marker + window], 9));
            }
        }
    }

    #[test]
    fn every_byte_and_the_key_count() {
        for window in FINGERPRINT_MIN_WINDOW..=FINGERPRINT_MAX_WINDOW {
            let mut seen = HashSet::new();
            let mut data = vec![0u8; window];
            seen.insert(hash(&data, 0));
            assert!(seen.insert(hash(&data, 1)));
            for at in 0..window {
                for bit in 0..8 {
                    data[at] ^= 1 << bit;
                    assert!(
                        seen.insert(hash(&data, 0)),
                        "byte {at} bit {bit} of {window} does not count"
                    );
                    data[at] ^= 1 << bit;
                }
            }
        }
    }

    #[test]
    fn index_bits_are_spread() {
        // 2^16 counters in a 32-byte window into 2^16 slots by the high bits: about 1 - 1/e of them
        // are hit.
        let mut hit = vec![false; 1 << 16];
        let mut window = [0u8; 32];
        for i in 0..1u32 << 16 {
            window[3..7].copy_from_slice(&i.to_le_bytes());
            hit[(hash(&window, 0) >> 48) as usize] = true;
        }
        let share = hit.iter().filter(|&&h| h).count() as f64 / 65536.0;
        assert!((0.62..0.645).contains(&share), "{share}");
    }

    proptest! {
        #[test]
        fn only_the_window_counts(data in proptest::collection::vec(any::<u8>(), 64..200), shift in 0usize..50, window in 8usize..=64) {
            let mut moved = vec![0xAA; shift];
            moved.extend_from_slice(&data);
            let (mut a, mut b) = ([0], [0]);
            Kernels::detect().fingerprints(&data, &[0], window, 3, &mut a);
            Kernels::detect().fingerprints(&moved, &[shift as u32], window, 3, &mut b);
            prop_assert_eq!(a, b);
        }
    }
}
