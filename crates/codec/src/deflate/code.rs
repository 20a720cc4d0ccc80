//! Huffman codes of deflate blocks (RFC 1951, sections 3.2.2, 3.2.6 and 3.2.7).

use super::bits::BitReader;
use super::{LENGTH_EXTRA, Stop, Token, distance_extra, distance_of, distance_parts};
use std::sync::OnceLock;

/// Bits that the first table of literals and lengths, and that of distances, look at.
const LITERAL_BITS: u32 = 10;
const DISTANCE_BITS: u32 = 8;
/// Longest code word.
const MAX_BITS: u32 = 15;
/// Entries of both tables. zlib's enough.c finds that no code of 286 symbols needs more than 1,332
/// with a first table of 10 bits. A second table of 7 bits takes at least 8 of 30 distances, so
/// there are at most 3.
const LITERAL_ENTRIES: usize = 1332;
const DISTANCE_ENTRIES: usize = (1 << DISTANCE_BITS) + 3 * 128;

/// An entry of a table. The low four bits are the length of the code word; 0 if there is none.
///
/// - A literal has bit 31, and its byte from bit 8 on.
/// - A length has the number of its extra bits from bit 8 on, and its symbol from bit 16 on.
/// - A distance has the number of its extra bits from bit 8 on, and the distance without them, less
///   1, from bit 16 on.
/// - The end of the block has bit 30.
/// - A pointer to a second table has bit 30 and length 0: the number of bits to look at from bit 4
///   on, and where it begins from bit 8 on.
type Entry = u32;
const IS_LITERAL: Entry = 1 << 31;
const IS_OTHER: Entry = 1 << 30;

/// The code of a block: literals and lengths, and distances.
#[derive(Clone, Debug)]
pub(crate) struct Code {
    literals: [Entry; LITERAL_ENTRIES],
    distances: [Entry; DISTANCE_ENTRIES],
    /// By symbol: code word, reversed; its length from bit 16 on; the number of extra bits of a
    /// length from bit 20 on. 0 if there is none.
    literal_words: [u32; 512],
    /// As above, without extra bits.
    distance_words: [u32; 64],
}

/// The place in `distance_words` of no distance at all.
const LITERAL: u32 = 63;

impl Code {
    const EMPTY: Code = Code {
        literals: [0; LITERAL_ENTRIES],
        distances: [0; DISTANCE_ENTRIES],
        literal_words: [0; 512],
        distance_words: {
            let mut words = [0; 64];
            words[LITERAL as usize] = 1 << 31;
            words
        },
    };

    /// The code of blocks that describe none.
    pub(crate) fn fixed() -> &'static Code {
        static FIXED: OnceLock<Code> = OnceLock::new();
        FIXED.get_or_init(|| {
            let mut lengths = [8; 288];
            lengths[144..256].fill(9);
            lengths[256..280].fill(7);
            let mut code = Code::EMPTY;
            // Both are complete codes.
            let built = code.build(&lengths, &[5; 32]);
            debug_assert!(built.is_some());
            code
        })
    }

    /// `None` if the lengths of code words do not make codes.
    fn build(&mut self, literals: &[u8], distances: &[u8]) -> Option<()> {
        let Code { literals: table, distances: distance_table, literal_words, distance_words } =
            self;
        let literal = |symbol: u32| match symbol {
            0..256 => IS_LITERAL | symbol << 8,
            256 => IS_OTHER,
            _ => match LENGTH_EXTRA.get(symbol as usize - 257) {
                Some(&extra) => (symbol - 257) << 16 | u32::from(extra) << 8,
                None => NEVER,
            },
        };
        build(literals, LITERAL_BITS, table, literal_words, literal)?;
        for (word, &extra) in literal_words[257..].iter_mut().zip(&LENGTH_EXTRA) {
            *word |= if *word == 0 { 0 } else { u32::from(extra) << 20 };
        }
        literal_words[286..].fill(0);
        let distance = |symbol: u32| match symbol {
            0..30 => (distance_of(symbol, 0) - 1) << 16 | distance_extra(symbol) << 8,
            _ => NEVER,
        };
        build(distances, DISTANCE_BITS, distance_table, distance_words, distance)?;
        // Symbols that must not occur.
        distance_words[30..32].fill(0);
        Some(())
    }

    /// Reads what follows the three bits of a dynamic block up to its first token.
    ///
    /// # Errors
    /// [`Stop::Short`] and [`Stop::Bad`].
    pub(crate) fn read(bits: &mut BitReader<'_>) -> Result<Code, Stop> {
        const ORDER: [usize; 19] =
            [16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1, 15];
        let literals = bits.bits(5)? as usize + 257;
        let distances = bits.bits(5)? as usize + 1;
        let count = bits.bits(4)? as usize + 4;
        if literals > 286 || distances > 30 {
            return Err(Stop::Bad);
        }
        let mut lengths = [0u8; 286 + 30];
        for &symbol in &ORDER[..count] {
            lengths[symbol] = bits.bits(3)? as u8;
        }
        let (mut meta, mut words) = ([0; 1 << META_BITS], [0; 19]);
        let is_complete =
            build(&lengths[..19], META_BITS, &mut meta, &mut words, |symbol| symbol << 8);
        if is_complete != Some(true) {
            return Err(Stop::Bad);
        }
        let total = literals + distances;
        lengths.fill(0);
        let mut at = 0;
        while at < total {
            let entry = meta[bits.peek() as usize & ((1 << META_BITS) - 1)];
            bits.bits(entry & 15)?;
            let (value, repeats) = match entry >> 8 {
                length @ 0..=15 => (length as u8, 1),
                16 => {
                    let last = at.checked_sub(1).ok_or(Stop::Bad)?;
                    (lengths[last], 3 + bits.bits(2)? as usize)
                }
                17 => (0, 3 + bits.bits(3)? as usize),
                _ => (0, 11 + bits.bits(7)? as usize),
            };
            lengths[..total].get_mut(at..at + repeats).ok_or(Stop::Bad)?.fill(value);
            at += repeats;
        }
        let (literals, distances) = lengths[..total].split_at(literals);
        if literals[256] == 0 {
            return Err(Stop::Bad);
        }
        let mut code = Code::EMPTY;
        code.build(literals, distances).ok_or(Stop::Bad)?;
        Ok(code)
    }

    /// The entry that the next bits begin with, of literals and lengths.
    #[inline(always)]
    pub(super) fn literal(&self, bits: u64) -> Entry {
        look(&self.literals, bits, LITERAL_BITS)
    }

    /// The entry that the next bits begin with, of distances.
    #[inline(always)]
    pub(super) fn distance(&self, bits: u64) -> Entry {
        look(&self.distances, bits, DISTANCE_BITS)
    }

    /// The bits of a token, and how many there are; `None` if the code has no such symbol.
    #[inline(always)]
    pub(crate) fn bits_of(&self, token: Token) -> Option<(u64, u32)> {
        // Without a branch between literals and copies, which nothing could predict. The indices
        // are in range; the masks say so.
        let is_copy = token.is_copy();
        let symbol = if is_copy { 257 + token.length_symbol() } else { token.0 & 0xff };
        let length = self.literal_words[(symbol & 511) as usize];
        let (mut bits, mut len) = (u64::from(length & 0xffff), length >> 16 & 15);
        bits |= u64::from(if is_copy { token.length_extra() } else { 0 }) << len;
        len += length >> 20;
        let (symbol, extra_len, extra) = distance_parts(token.distance() - 1);
        let (symbol, extra_len, extra) =
            if is_copy { (symbol, extra_len, extra) } else { (LITERAL, 0, 0) };
        let distance = self.distance_words[(symbol & 63) as usize];
        bits |= u64::from(distance & 0xffff) << len;
        len += distance >> 16 & 15;
        bits |= u64::from(extra) << len;
        len += extra_len;
        (length != 0 && distance != 0).then_some((bits, len))
    }

    /// Memory in bytes.
    pub(crate) const MEMORY: usize = size_of::<Code>();
}

/// Bits of a code word for code lengths.
const META_BITS: u32 = 7;
/// Symbols that have code words, but must not occur.
const NEVER: Entry = 1;

/// What an entry is.
pub(super) fn is_literal(entry: Entry) -> bool {
    entry & IS_LITERAL != 0
}

/// Whether an entry is the end of a block; the other entries without a token are no code words.
pub(super) fn is_end(entry: Entry) -> bool {
    entry & IS_OTHER != 0
}

#[inline(always)]
fn look<const N: usize>(table: &[Entry; N], bits: u64, first: u32) -> Entry {
    // The first table is smaller than N.
    let entry = table[(bits & ((1 << first) - 1)) as usize];
    if entry & (IS_OTHER | 15) != IS_OTHER {
        return entry;
    }
    let (start, more) = (entry >> 8 & 0xffff, entry >> 4 & 15);
    let index = (bits >> first) & ((1 << more) - 1);
    table[(start as usize + index as usize).min(N - 1)]
}

/// Builds the tables of one code: of what `entry` gives for each symbol. Returns whether all words
/// are in use; `None` if there are more code words than bits allow, or too few.
fn build(
    lengths: &[u8],
    first: u32,
    table: &mut [Entry],
    words: &mut [u32],
    entry: impl Fn(u32) -> Entry,
) -> Option<bool> {
    let mut counts = [0u32; MAX_BITS as usize + 1];
    for &length in lengths {
        counts[usize::from(length)] += 1;
    }
    counts[0] = 0;
    let used: u32 = counts.iter().sum();
    let mut left = 1i32;
    for &count in &counts[1..] {
        left = 2 * left - count as i32;
        if left < 0 {
            return None;
        }
    }
    // A single distance is written with one bit; no distance at all is allowed, too.
    if left > 0 && (used > 1 || used != counts[1]) {
        return None;
    }
    let mut next = [0u32; MAX_BITS as usize + 1];
    for length in 1..next.len() {
        next[length] = (next[length - 1] + counts[length - 1]) << 1;
    }
    // Words in their order: those that share a second table follow each other.
    let mut order = [0u16; 288];
    let mut ends = counts;
    for length in 1..ends.len() {
        ends[length] += ends[length - 1];
    }
    for symbol in (0..lengths.len()).rev().filter(|&symbol| lengths[symbol] > 0) {
        let end = &mut ends[usize::from(lengths[symbol])];
        *end -= 1;
        order[*end as usize] = symbol as u16;
    }
    let mut end = 1usize << first;
    for &symbol in &order[..used as usize] {
        let symbol = u32::from(symbol);
        let length = u32::from(lengths[symbol as usize]);
        let word = next[length as usize].reverse_bits() >> (32 - length);
        next[length as usize] += 1;
        words[symbol as usize] = word | length << 16;
        let entry = match entry(symbol) {
            NEVER => 0,
            entry => entry | length,
        };
        if length <= first {
            fill(&mut table[..1 << first], word, length, entry);
        } else {
            let root = (word & ((1 << first) - 1)) as usize;
            if table[root] == 0 {
                let more = second_bits(&counts, length, first);
                table[root] = IS_OTHER | (end as u32) << 8 | more << 4;
                end += 1 << more;
            }
            let (start, more) = ((table[root] >> 8 & 0xffff) as usize, table[root] >> 4 & 15);
            fill(&mut table[start..][..1 << more], word >> first, length - first, entry);
        }
        counts[length as usize] -= 1;
    }
    Some(left == 0)
}

/// Sets all entries whose low `length` bits are `word`.
fn fill(table: &mut [Entry], word: u32, length: u32, entry: Entry) {
    table[word as usize..].iter_mut().step_by(1 << length).for_each(|place| *place = entry);
}

/// Bits of a second table that begins with a word of `length` bits: as many as the longest word in
/// it needs. `counts` are the words to come, of each length; they fill the table in order.
fn second_bits(counts: &[u32; MAX_BITS as usize + 1], length: u32, first: u32) -> u32 {
    let mut length = length;
    let mut left = 1u32 << (length - first);
    while length < MAX_BITS && counts[length as usize] < left {
        left = (left - counts[length as usize]) << 1;
        length += 1;
    }
    length - first
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_token_has_its_bits_under_the_fixed_code() {
        let code = Code::fixed();
        for token in [Token::literal(0), Token::literal(255), Token::copy(28, 0, 32768)] {
            let (bits, len) = code.bits_of(token).unwrap();
            let bytes = bits.to_le_bytes();
            let mut reader = BitReader::new(&bytes, 0);
            assert_eq!(reader.token(code), Ok(token));
            assert_eq!(reader.position(), u64::from(len));
        }
    }

    #[test]
    fn codes_that_cannot_be_are_refused() {
        let build = |lengths: &[u8]| {
            super::build(lengths, 10, &mut [0; 1332], &mut [0; 288], |symbol| symbol << 8)
        };
        assert_eq!(build(&[1, 1, 1]), None, "too many words");
        assert_eq!(build(&[2, 2, 2]), None, "too few words");
        assert_eq!(build(&[2]), None, "a single word has one bit");
        assert_eq!(build(&[1]), Some(false));
        assert_eq!(build(&[0, 0]), Some(false));
        assert_eq!(build(&[1, 2, 2]), Some(true));
    }

    #[test]
    fn tables_hold_the_codes_with_the_longest_words() {
        // Of each number of symbols, codes whose lengths ascend as slowly and as fast as they can.
        for symbols in 2usize..=286 {
            let mut slow = vec![0u8; symbols];
            let mut left = 1u32 << 15;
            for (nth, length) in slow.iter_mut().enumerate() {
                let others = (symbols - nth - 1) as u32;
                // The shortest word that leaves one of 15 bits for each of the others.
                let bits = (1..=15).find(|bits| left >= (1 << (15 - bits)) + others);
                *length = if others == 0 { (15 - left.ilog2()) as u8 } else { bits.unwrap() };
                left -= 1 << (15 - u32::from(*length));
            }
            if left > 0 {
                continue;
            }
            let mut code = Code::EMPTY;
            let mut distances = slow.clone();
            distances.truncate(if symbols <= 30 { 30 } else { 0 });
            slow.resize(286.max(symbols), 0);
            slow.reverse();
            assert!(code.build(&slow, &distances).is_some(), "{symbols}");
        }
    }
}
