//! Finds a block of deflate or zstd in a stream whose beginning was not sent: a range of a file, a
//! download that was resumed.

use crate::deflate::{BitReader, Code, Lengths, Stop};
use crate::inside::budget;
use crate::inside::follow::frames::BLOCK_HEADER;
use crate::inside::follow::piece::Piece;
use crate::zstd_block;
use oncewire_kernels::{BitWork, Kernels};

/// Bytes of a flow searched for deflate, at most. Most compressors begin a block every 10 to 60 KB.
const SEARCHED: usize = 128 << 10;
/// The same for zstd. Often only one block in several describes a code, and looking costs less.
const SEARCHED_FOR_ZSTD: usize = 1 << 20;
/// Most blocks of each format that are found in a flow: content of other streams may have some.
const MOST_FOUND: u8 = 4;
/// Pieces shorter than this are not searched: little of a block fits.
const SHORTEST: usize = 2 << 10;
/// Work of the search in units a byte: each of its bits is tried.
const BYTE: u64 = 4;
/// Work of reading lengths that add up.
const LENGTHS: u64 = 64;
/// Bytes searched for a zstd block, for a unit of work.
const ZSTD_BYTES: usize = 2;
/// Work of a search in units, at most, for each byte. Noise takes 5.2, content made of descriptions
/// would take 100.
const MOST: u64 = 7;
/// The same for zstd. Noise takes 0.5, content made of descriptions would take 6.
const MOST_FOR_ZSTD: u64 = 1;
/// Tokens that must follow a description. Bits that are none hardly ever describe codes in which
/// each bit counts, so these need not prove much.
const TOKENS: usize = 64;

/// The search in the compressed content of a flow.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::inside) struct Middles {
    /// Bytes that were searched.
    searched: usize,
    /// Blocks that were found, of deflate and of zstd.
    deflate: u8,
    zstd: u8,
}

/// Where a block begins.
pub(in crate::inside) enum Middle {
    /// At this bit.
    Deflate(u64),
    /// At this byte.
    Zstd(usize),
}

impl Middles {
    /// No search: all that may be found was found.
    pub(in crate::inside) const NONE: Middles =
        Middles { searched: 0, deflate: MOST_FOUND, zstd: MOST_FOUND };

    /// Searches a piece from `bit` on, as far as the flow may be searched. Adds what it takes to
    /// `work`.
    pub(in crate::inside) fn find(
        &mut self,
        piece: &Piece<'_>,
        bit: u64,
        work: &mut u64,
    ) -> Option<Middle> {
        let (data, first) = (piece.data, (bit / 8) as usize);
        data.len().checked_sub(first).filter(|&len| len >= SHORTEST)?;
        if self.deflate.min(self.zstd) >= MOST_FOUND {
            return None;
        }
        let end_of = |most: usize, found: u8| {
            let left = if found < MOST_FOUND { most.saturating_sub(self.searched) } else { 0 };
            data.len().min(first + left)
        };
        // The bytes of a zstd block are in one piece.
        let from = first.max(piece.carried.saturating_sub(BLOCK_HEADER));
        let zstd = find_zstd(data, from, end_of(SEARCHED_FOR_ZSTD, self.zstd), work);
        let (found, until) = if let Some(start) = zstd {
            self.zstd += 1;
            (Some(Middle::Zstd(start)), start)
        } else if let Some(start) = find(data, bit, end_of(SEARCHED, self.deflate), work) {
            self.deflate += 1;
            (Some(Middle::Deflate(start)), (start / 8) as usize)
        } else {
            (None, data.len())
        };
        self.searched += until - first;
        found
    }
}

/// Lengths whose shares are looked up together.
const LOOKED_UP: u32 = 4;

/// Share of all words of four lengths of three bits, in 128ths.
static SHARES: [u16; 1 << (3 * LOOKED_UP)] = {
    let mut shares = [0; 1 << (3 * LOOKED_UP)];
    let mut lengths = 0;
    while lengths < shares.len() {
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

/// Bytes whose bits are tried together.
const TOGETHER: usize = 4;

/// The bits among the first 51 at which the header of a block with a description of its own may
/// begin: kind 2, at most 286 codes for literals and lengths, and 30 for distances (RFC 1951, section
/// 3.2.7). About a fifth of noise.
fn headers(window: u64) -> u64 {
    let all_of = |first: u32| {
        window >> first & window >> (first + 1) & window >> (first + 2) & window >> (first + 3)
    };
    !(window >> 1) & window >> 2 & !all_of(4) & !all_of(9)
}

/// Whether the shares of these lengths of three bits add up to a multiple of 8: those of 1 to 4 are
/// one, so only lengths of 5, 6 and 7 count. An eighth of noise.
#[inline(always)]
fn may_add_up(lengths: u64) -> bool {
    const ONES: u64 = 0o111_1111_1111_1111_1111;
    let (low, middle, high) = (lengths, lengths >> 1, lengths >> 2 & ONES);
    let count = |of: u64| (of & high).count_ones();
    (count(low & middle) + 2 * count(!low & middle) + 4 * count(low & !middle)).is_multiple_of(8)
}

/// See [`find`].
struct Find<'a> {
    data: &'a [u8],
    from: u64,
    to: usize,
    work: &'a mut u64,
}

impl BitWork for Find<'_> {
    type Output = Option<u64>;

    #[inline(always)]
    fn run(self) -> Option<u64> {
        let Find { data, from, to, work } = self;
        let first = (from / 8) as usize;
        let most = *work + (to.saturating_sub(first)) as u64 * MOST;
        let word = |at: usize| data.get(at..)?.first_chunk().map(|all| u64::from_le_bytes(*all));
        for group in (first..to).step_by(TOGETHER) {
            let window = word(group)?;
            let tried = (to - group).min(TOGETHER);
            *work += BYTE * tried as u64;
            let mut bits = headers(window) & ((1 << (8 * tried)) - 1);
            while bits > 0 {
                let bit = bits.trailing_zeros();
                bits &= bits - 1;
                // Of the header, the 13 bits before this, and as many lengths of three bits after it.
                let count = (window >> (bit + 13)) as u32 % 16 + 4;
                let at = group * 8 + bit as usize + 17;
                let mut lengths = word(at / 8)? >> (at % 8) & ((1 << (3 * count)) - 1);
                if !may_add_up(lengths) {
                    continue;
                }
                let mut shares = 0;
                while lengths > 0 && shares <= 128 {
                    shares += SHARES[lengths as usize % SHARES.len()];
                    lengths >>= 3 * LOOKED_UP;
                }
                let start = group as u64 * 8 + u64::from(bit);
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
}

/// The first bit from `from` on, and before byte `to`, at which a block with a description of its
/// own begins, as far as can be told. Adds what it takes to `work`, and gives up where that is much.
fn find(data: &[u8], from: u64, to: usize, work: &mut u64) -> Option<u64> {
    Kernels::detect().bit_work(Find { data, from, to, work })
}

/// Bytes of which it is known at once whether a zstd block may begin at one.
const AT_ONCE: usize = 32;

/// The first byte from `from` on, and before `to`, at which a zstd block begins that describes a
/// code for its literals, as far as can be told. Adds what it takes to `work`, and gives up where
/// that is much.
fn find_zstd(data: &[u8], from: usize, to: usize, work: &mut u64) -> Option<usize> {
    let most = *work + to.saturating_sub(from) as u64 * MOST_FOR_ZSTD;
    *work += (to.saturating_sub(from) / ZSTD_BYTES) as u64;
    // Not the last, compressed, and less than 128 KiB.
    let may_begin = |low: u8, high: u8| (low & 7 == 4) & (high & 0xf0 == 0);
    for begin in (from..to).step_by(AT_ONCE) {
        let end = to.min(begin + AT_ONCE);
        let part = data.get(begin..end + 2)?;
        // Without leaving early, which takes an eighth of the instructions.
        if !part.iter().zip(&part[2..]).fold(false, |any, (&low, &high)| any | may_begin(low, high))
        {
            continue;
        }
        for at in begin..end {
            let head = u32::from_le_bytes(*data.get(at..)?.first_chunk()?);
            let [low, _, high, _] = head.to_le_bytes();
            let len = (head & 0xff_ffff) as usize >> 3;
            if may_begin(low, high) && zstd_block::may_begin(&data[at + 3..], len, work) {
                return Some(at);
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
    fn shares_that_add_up_are_not_passed_over() {
        let mut state = 1u64;
        let mut passed = 0;
        for _ in 0..4000 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let lengths = state >> 7;
            let share = |len: u64| if len > 0 { 128u64 >> len } else { 0 };
            let shares: u64 = (0..19).map(|nth| share(lengths >> (3 * nth) & 7)).sum();
            assert_eq!(may_add_up(lengths), shares.is_multiple_of(8), "{lengths:o}");
            passed += u32::from(may_add_up(lengths));
        }
        assert!((400..600).contains(&passed), "{passed}");
    }

    #[test]
    fn headers_are_those_that_can_be_read() {
        let mut state = 1u64;
        for _ in 0..1000 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let window = state ^ state << 31;
            for bit in 0..51 {
                let bits = window >> bit;
                let (kind, literals, distances) = (bits >> 1 & 3, bits >> 3 & 31, bits >> 8 & 31);
                let may_begin = kind == 2 && literals <= 29 && distances <= 29;
                assert_eq!(headers(window) >> bit & 1 == 1, may_begin, "{bits:#x}");
            }
        }
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
        work = 0;
        assert_eq!(find_zstd(&noise, 0, noise.len(), &mut work), None);
        assert!(work < 6 << 17, "{work}");
    }

    /// Descriptions of a code, each after the header of a block and the head of its literals, in which
    /// the sizes fit together. Streams of zeros have no bit that marks their end.
    fn zstd_descriptions(len: usize) -> Vec<u8> {
        // 4 streams of 180 bytes for 800 literals; 127 weights of 1, and that of the last.
        let (count, description) = (800, 65);
        let packed = description + 6 + 4 * 180;
        let block = ((packed + 20) << 3 | 4) as u32;
        let head = 2 | 1 << 2 | count << 4 | (packed as u32) << 14;
        let mut one = block.to_le_bytes()[..3].to_vec();
        one.extend_from_slice(&head.to_le_bytes()[..3]);
        one.push(128 + 126);
        one.extend_from_slice(&[0x11; 64]);
        one.extend_from_slice(&[180, 0, 180, 0, 180, 0]);
        one.iter().copied().cycle().take(len).collect()
    }

    #[test]
    fn content_made_of_zstd_descriptions_takes_no_more_work_than_it_may() {
        let content = zstd_descriptions(64 << 10);
        let mut work = 0;
        assert!(!zstd_block::may_begin(&content[3..], 1 << 16, &mut work) && work > 500);
        let each = work;
        work = 0;
        assert_eq!(find_zstd(&content, 0, content.len(), &mut work), None);
        assert!(work < (64 << 10) * MOST_FOR_ZSTD + each, "{work}");
        // Unlimited, it would take more.
        let blocks = content.windows(2).filter(|pair| *pair == [128 + 126, 0x11]).count() as u64;
        assert!(blocks * each > 4 * work, "{blocks} blocks of {each}");
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
