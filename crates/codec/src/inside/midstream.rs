//! Finds a deflate block in a stream whose beginning was not sent: a range of a file, a download
//! that was resumed.

use super::budget;
use crate::deflate::{BitReader, Code, Lengths, Stop};

/// Bytes searched in a flow, at most. Most compressors begin a block every 10 to 60 KB.
pub(super) const SEARCHED: usize = 128 << 10;
/// Pieces shorter than this are not searched: little of a block fits.
pub(super) const SHORTEST: usize = 2 << 10;
/// Work of the search in units a byte: each of its bits is tried.
const BYTE: u64 = 4;
/// Work of reading lengths that add up.
const LENGTHS: u64 = 64;
/// Work of a search in units, at most, for each byte. Noise takes 5.2, content made of descriptions
/// would take 100.
const MOST: u64 = 8;
/// Tokens that must follow a description. Bits that are none hardly ever describe codes in which
/// each bit counts, so these need not prove much.
const TOKENS: usize = 64;

/// Share of all words of three bits' lengths, in 128ths.
static SHARES: [u16; 512] = {
    let mut shares = [0; 512];
    let mut lengths = 0;
    while lengths < 512 {
        let mut rest = lengths;
        while rest > 0 {
            if rest & 7 > 0 {
                shares[lengths] += 128 >> (rest & 7);
            }
            rest >>= 3;
        }
        lengths += 1;
    }
    shares
};

/// The first bit from `from` on, and before byte `to`, at which a block with a description of its
/// own begins, as far as can be told. Adds what it takes to `work`, and gives up where that is much.
pub(super) fn find(data: &[u8], from: u64, to: usize, work: &mut u64) -> Option<u64> {
    let first = (from / 8) as usize;
    let most = *work + (to.saturating_sub(first)) as u64 * MOST;
    for at in first..to {
        *work += BYTE;
        // Three bits of the header, 14 of the numbers of lengths, and 57 of the first lengths.
        let window = u128::from_le_bytes(*data.get(at..)?.first_chunk()?);
        for bit in 0..8 {
            let bits = (window >> bit) as u64;
            let (kind, literals, distances) = (bits >> 1 & 3, bits >> 3 & 31, bits >> 8 & 31);
            if kind != 2 || literals > 29 || distances > 29 {
                continue;
            }
            let count = (bits >> 13 & 15) as u32 + 4;
            let mut lengths = (window >> (bit + 17)) as u64 & ((1 << (3 * count)) - 1);
            let mut shares = 0;
            while lengths > 0 {
                shares += SHARES[(lengths & 511) as usize];
                lengths >>= 9;
            }
            let start = at as u64 * 8 + bit;
            if shares == 128 && start >= from && is_block(data, start, work) {
                return Some(start);
            }
        }
        if *work > most {
            return None;
        }
    }
    None
}

/// Whether a block with a description begins here, and tokens follow.
fn is_block(data: &[u8], start: u64, work: &mut u64) -> bool {
    *work += LENGTHS;
    if Lengths::read(&mut BitReader::new(data, start + 3)).is_err() {
        return false;
    }
    *work += budget::CODE + TOKENS as u64;
    let mut reader = BitReader::new(data, start + 3);
    let Ok(code) = Code::read(&mut reader) else { return false };
    let (mut tokens, mut bits) = (Vec::new(), Vec::new());
    match reader.append_tokens(&code, TOKENS, 0, &mut tokens, &mut bits).1 {
        None => true,
        Some(Stop::End) => tokens.len() >= TOKENS / 4,
        Some(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::deflate::{BitWriter, SLACK};

    #[test]
    fn shares_add_up() {
        assert_eq!(SHARES[0], 0);
        assert_eq!(SHARES[1], 64);
        assert_eq!(SHARES[0o111], 192);
        assert_eq!(SHARES[0o721], 64 + 32 + 1);
    }

    #[test]
    fn noise_has_no_blocks() {
        let mut state = 1u64;
        let noise: Vec<u8> = (0..1 << 20)
            .map(|_| {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                (state >> 56) as u8
            })
            .collect();
        let mut work = 0;
        assert_eq!(find(&noise, 0, noise.len(), &mut work), None);
        assert!(work < 6 << 20, "{work}");
    }

    /// Blocks without tokens, each under the shortest description: symbols 18 and 1 of lengths, and
    /// by them words of one bit for 255 and the end.
    #[test]
    fn content_made_of_descriptions_takes_no_more_work_than_it_may() {
        let mut content = vec![0; (64 << 10) + SLACK];
        let mut writer = BitWriter::new(&mut content);
        let mut blocks = 0;
        while writer.position() < 8 * ((64 << 10) - 16) {
            // The header, 257 and 1 lengths under 18 of their own, and those.
            for (value, count) in [(4, 3), (0, 10), (14, 4), (1 << 6, 9), (0, 42), (1, 3)] {
                assert!(writer.put(value, count));
            }
            // Zeros: 138 and 117. Then three words of one bit, and the end.
            for (value, count) in [(127 << 1 | 1, 8), (106 << 1 | 1, 8), (0, 3), (1, 1)] {
                assert!(writer.put(value, count));
            }
            blocks += 1;
        }
        let mut work = 0;
        // Each is read, and has no tokens.
        assert!(!is_block(&content, 0, &mut work) && work > budget::CODE);
        work = 0;
        assert_eq!(find(&content, 0, 64 << 10, &mut work), None);
        assert!(work < (64 << 10) * MOST + 8 * (budget::CODE + 2 * LENGTHS), "{work}");
        assert!(blocks * budget::CODE > 4 * work, "{blocks} blocks");
    }
}
