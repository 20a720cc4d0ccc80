//! Finds a deflate block in a stream whose beginning was not sent: a range of a file, a download
//! that was resumed.

use crate::deflate::{BitReader, Code, Lengths, Stop};

/// Bytes searched in a flow, at most. Most compressors begin a block every 10 to 60 KB.
pub(super) const SEARCHED: usize = 128 << 10;
/// Pieces shorter than this are not searched: little of a block fits.
pub(super) const SHORTEST: usize = 2 << 10;
/// Work of the search in units a byte: each of its bits is tried.
pub(super) const WORK: u64 = 4;
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
/// own begins, as far as can be told.
pub(super) fn find(data: &[u8], from: u64, to: usize) -> Option<u64> {
    for at in (from / 8) as usize..to {
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
            if shares == 128 && start >= from && is_block(data, start) {
                return Some(start);
            }
        }
    }
    None
}

/// Whether a block with a description begins here, and tokens follow.
fn is_block(data: &[u8], start: u64) -> bool {
    let read = || {
        Lengths::read(&mut BitReader::new(data, start + 3))?;
        let mut reader = BitReader::new(data, start + 3);
        let code = Code::read(&mut reader)?;
        let (mut tokens, mut bits) = (Vec::new(), Vec::new());
        let (_, stop) = reader.append_tokens(&code, TOKENS, 0, &mut tokens, &mut bits);
        Ok::<bool, Stop>(match stop {
            None => true,
            Some(Stop::End) => tokens.len() >= TOKENS / 4,
            Some(_) => false,
        })
    };
    read().unwrap_or(false)
}

#[cfg(test)]
mod tests {
    use super::*;

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
        assert_eq!(find(&noise, 0, noise.len()), None);
    }
}
