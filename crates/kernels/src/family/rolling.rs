//! Marker search by a rolling hash: the loop that MODP and GEAR share.
//!
//! A rolled hash is a chain of operations, each waiting for the one before. Several stretches of a
//! block are rolled side by side here, each primed with the window before it, so that the chains
//! overlap. Markers are collected as bits, without a branch per byte.

use crate::Sampled;

/// A hash of a window that can be moved on by a byte.
pub(crate) trait Rolling {
    /// The state after exactly this window.
    fn prime(&self, window: &[u8]) -> u64;

    /// The state one byte further: `left` is the first byte of the old window, `entered` the last
    /// of the new.
    fn roll(&self, state: u64, left: u8, entered: u8) -> u64;

    /// The hash of the window, out of the state.
    fn value(&self, state: u64) -> u64;

    /// Whether a window of this value is one at a marker.
    fn marks(&self, value: u64) -> bool;
}

/// Stretches rolled side by side.
const LANES: usize = 4;
/// Most words of 64 positions in a stretch: long enough that priming it is a small part of the
/// work.
const MAX_WORDS: usize = 4;

/// Markers in `data[from..end]`, in order: positions whose window has a marking value, and, unless
/// `published`, another value than the window one byte before. `end` is the position after that of
/// the last whole window.
#[allow(clippy::too_many_arguments)]
pub(crate) fn search(
    hash: &impl Rolling,
    data: &[u8],
    window: usize,
    end: usize,
    period: usize,
    published: bool,
    from: usize,
    markers: &mut [u32],
) -> Sampled {
    if published {
        search_in::<true>(hash, data, window, end, period, from, markers)
    } else {
        search_in::<false>(hash, data, window, end, period, from, markers)
    }
}

fn search_in<const PUBLISHED: bool>(
    hash: &impl Rolling,
    data: &[u8],
    window: usize,
    end: usize,
    period: usize,
    from: usize,
    markers: &mut [u32],
) -> Sampled {
    if markers.is_empty() {
        return Sampled { count: 0, resume: from };
    }
    let (mut at, mut count) = (from, 0);
    // The first window of the block has none before it.
    if at == 0 && at < end {
        if hash.marks(hash.value(hash.prime(&data[..window]))) {
            markers[0] = 0;
            count = 1;
            if markers.len() == 1 {
                return Sampled { count, resume: 1 };
            }
        }
        at = 1;
    }
    while at < end && count < markers.len() {
        // No further than the markers wanted are likely to reach: what is examined behind the last
        // of them is examined again.
        let wanted = (markers.len() - count) * period;
        let words = (wanted / (64 * LANES)).clamp(1, MAX_WORDS).min((end - at) / (64 * LANES));
        if words == 0 {
            let found = tail::<PUBLISHED>(hash, data, window, end, at, &mut markers[count..]);
            return Sampled { count: count + found.count, ..found };
        }
        let masks = stretches::<PUBLISHED>(hash, data, window, at, words);
        for (lane, masks) in masks.iter().enumerate() {
            for (word, &mask) in masks[..words].iter().enumerate() {
                let base = at + (lane * words + word) * 64;
                let mut mask = mask;
                while mask != 0 {
                    let marker = base + mask.trailing_zeros() as usize;
                    mask &= mask - 1;
                    markers[count] = marker as u32;
                    count += 1;
                    if count == markers.len() {
                        return Sampled { count, resume: marker + 1 };
                    }
                }
            }
        }
        at += words * 64 * LANES;
    }
    Sampled { count, resume: at.max(end) }
}

/// One bit per position for [`LANES`] stretches of `words * 64` positions from `at` on, which is
/// not the start of the block.
#[inline(always)]
fn stretches<const PUBLISHED: bool>(
    hash: &impl Rolling,
    data: &[u8],
    window: usize,
    at: usize,
    words: usize,
) -> [[u64; MAX_WORDS]; LANES] {
    let len = words * 64;
    let mut masks = [[0; MAX_WORDS]; LANES];
    let mut states: [u64; LANES] =
        std::array::from_fn(|lane| hash.prime(&data[at + lane * len - 1..][..window]));
    #[allow(clippy::needless_range_loop)]
    for word in 0..words {
        let lefts: [&[u8; 64]; LANES] =
            std::array::from_fn(|lane| chunk(data, at + lane * len + word * 64 - 1));
        let entereds: [&[u8; 64]; LANES] =
            std::array::from_fn(|lane| chunk(data, at + lane * len + word * 64 + window - 1));
        let mut bits = [0u64; LANES];
        for i in 0..64 {
            for lane in 0..LANES {
                let state = hash.roll(states[lane], lefts[lane][i], entereds[lane][i]);
                let value = hash.value(state);
                let hit = hash.marks(value) & (PUBLISHED | (value != hash.value(states[lane])));
                bits[lane] = bits[lane] >> 1 | u64::from(hit) << 63;
                states[lane] = state;
            }
        }
        for lane in 0..LANES {
            masks[lane][word] = bits[lane];
        }
    }
    masks
}

fn chunk(data: &[u8], at: usize) -> &[u8; 64] {
    data[at..].first_chunk().expect("the stretch ends before the last window")
}

/// The same from `at`, not the start of the block, to `end`, one position after the other.
fn tail<const PUBLISHED: bool>(
    hash: &impl Rolling,
    data: &[u8],
    window: usize,
    end: usize,
    at: usize,
    markers: &mut [u32],
) -> Sampled {
    let mut count = 0;
    let mut state = hash.prime(&data[at - 1..][..window]);
    for marker in at..end {
        let before = hash.value(state);
        state = hash.roll(state, data[marker - 1], data[marker + window - 1]);
        let value = hash.value(state);
        if hash.marks(value) && (PUBLISHED || value != before) {
            markers[count] = marker as u32;
            count += 1;
            if count == markers.len() {
                return Sampled { count, resume: marker + 1 };
            }
        }
    }
    Sampled { count, resume: end }
}

#[cfg(test)]
mod tests {
    use crate::Kernels;

    /// Both ways to search, by the first few markers of a run of markers.
    #[test]
    fn one_marker_at_a_time_begins_and_goes_on_at_the_front() {
        for kernels in Kernels::available() {
            for period in [1, 3] {
                // Every fingerprint of zeros is 0.
                let (mut marker, mut at, mut found) = ([0], 0, Vec::new());
                while found.len() < 4 {
                    let sampled = kernels.modp(&[0; 100], 16, period, true, at, &mut marker);
                    assert_eq!((sampled.count, sampled.resume), (1, at + 1));
                    found.push(marker[0]);
                    at = sampled.resume;
                }
                assert_eq!(found, [0, 1, 2, 3]);
            }
        }
    }
}
