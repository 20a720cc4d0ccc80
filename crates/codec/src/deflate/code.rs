//! Huffman codes of deflate blocks (RFC 1951, sections 3.2.2, 3.2.6 and 3.2.7).

use super::bits::BitReader;
use super::{
    COPY, DISTANCE, DISTANCE_BITS, LENGTH_BASE, LENGTH_EXTRA, Stop, Token, distance_extra,
    distance_of, distance_parts,
};
use std::ops::Range;
use std::sync::OnceLock;

/// Longest code word.
const MAX_BITS: u32 = 15;
/// Bits that the first table of literals and lengths looks at. That of distances looks at as many
/// and follows it, so that a reader finds its place without a branch: nothing predicts whether a
/// literal or a copy is next.
const FIRST_BITS: u32 = 10;
/// Where second tables begin.
const SECOND: usize = 2 << FIRST_BITS;
/// Entries of all tables. zlib's enough.c finds that no code of 286 symbols needs more than 308
/// behind a first table of 10 bits. Of the 30 distances, at least 10 fill the rest of the first
/// table, and one of 32 entries takes at least 6: of 20, there are 3 of these, and one of 2.
const ENTRIES: usize = END_AT + 1;
/// The entries for no code word, and for the end of the block.
const NONE_AT: usize = SECOND + 308 + 3 * 32 + 2;
const END_AT: usize = NONE_AT + 1;

/// An entry of a table.
///
/// - Bits 0 to 5: the bits of the symbol, with its extra bits.
/// - Bits 8 to 11: those of its code word alone; bits 12 to 15 are 0.
/// - Bits 16 to 24: the symbol. Distances begin at [`DISTANCES`].
/// - Bits 25 to 28: how far extra bits are from the lowest bit of a token.
/// - Bit 31: it is a length, and a distance follows.
/// - Bit 30: it is no part of a token. In a first table, it is a pointer to a second one, which
///   begins at the entry that bits 16 to 27 say, and is as wide as the code word: also to those of
///   one entry, for the end of the block and for no code word. So a reader asks once what it has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Entry(u32);

const SPECIAL: u32 = 1 << 30;
/// No code word: a pointer to itself.
const NONE: Entry = Entry(SPECIAL | (NONE_AT as u32) << 16);
/// The end of the block.
const END: u32 = 256;
/// The first distance among all symbols.
pub(super) const DISTANCES: u32 = 288;
/// The distance of what has none.
const NO_DISTANCE: u32 = 511;

/// What the symbols of a token add to it: a literal or a length, and a distance.
static VALUES: [u32; 512] = {
    let mut values = [0; 512];
    let mut symbol = 0;
    while symbol < 30 {
        if symbol < 29 {
            values[257 + symbol as usize] = COPY | symbol << 20;
        }
        values[(DISTANCES + symbol) as usize] = distance_of(symbol, 0) - 1;
        symbol += 1;
    }
    while symbol < 286 {
        let byte = symbol - 30;
        values[byte as usize] = byte;
        symbol += 1;
    }
    values
};

/// Inflated bytes of the symbols, without extra bits: of literals and lengths.
static LENGTHS: [u16; 512] = {
    let mut lengths = [0; 512];
    let mut symbol = 0;
    while symbol < 286 {
        lengths[symbol] = match symbol {
            0..=255 => 1,
            256 => 0,
            _ => LENGTH_BASE[symbol - 257] as u16,
        };
        symbol += 1;
    }
    lengths
};

/// Extra bits of a symbol.
fn extra_bits(symbol: u32) -> u32 {
    match symbol {
        257..286 => u32::from(LENGTH_EXTRA[symbol as usize - 257]),
        DISTANCES..NO_DISTANCE => distance_extra(symbol - DISTANCES),
        _ => 0,
    }
}

impl Entry {
    fn new(symbol: u32, length: u32) -> Entry {
        let extra = extra_bits(symbol);
        let kind = match symbol {
            END => SPECIAL,
            257..286 => COPY | DISTANCE_BITS << 25,
            _ => 0,
        };
        Entry(kind | symbol << 16 | length << 8 | (length + extra))
    }

    #[inline(always)]
    pub(super) fn is_special(self) -> bool {
        self.0 & SPECIAL != 0
    }

    /// Whether it is the end of a block.
    #[inline(always)]
    pub(super) fn is_end(self) -> bool {
        self.is_special() && self.bits() > 0
    }

    /// All ones if a distance follows, otherwise 0.
    #[inline(always)]
    pub(super) fn length_mask(self) -> u32 {
        (self.0 as i32 >> 31) as u32
    }

    /// 1 if a distance follows.
    #[inline(always)]
    pub(super) fn is_length(self) -> u32 {
        self.0 >> 31
    }

    /// Bits of the symbol and its extra bits: at most 28.
    #[inline(always)]
    pub(super) fn bits(self) -> u32 {
        self.0 & 63
    }

    /// The bits after the symbol.
    #[inline(always)]
    pub(super) fn after(self, bits: u64) -> u64 {
        bits >> self.bits()
    }

    /// The extra bits of the symbol that these bits begin with.
    #[inline(always)]
    pub(super) fn extra(self, bits: u64) -> u64 {
        (bits & ((1 << self.bits()) - 1)) >> (self.0 >> 8 & 63)
    }

    /// Bits of the code word.
    #[inline(always)]
    pub(super) fn length(self) -> u32 {
        self.0 >> 8 & 15
    }

    #[inline(always)]
    pub(super) fn symbol(self) -> usize {
        // The mask tells what is known.
        (self.0 >> 16 & 511) as usize
    }

    /// Inflated bytes of a literal or a length; 0 of a distance.
    #[inline(always)]
    pub(super) fn inflated(self, extra: u64) -> u64 {
        u64::from(LENGTHS[self.symbol()]) + (extra & u64::from(self.length_mask()))
    }

    /// The bits of a symbol under a code which has this word for it, and their number.
    #[inline(always)]
    pub(super) fn bits_under(word: u32, extra: u64) -> (u64, u32) {
        (u64::from(word & 0xffff) | extra << (word >> 16 & 15), word >> 24)
    }

    /// What the symbol and its extra bits add to a token.
    #[inline(always)]
    pub(super) fn value(self, extra: u64) -> u32 {
        VALUES[self.symbol()] + ((extra as u32) << (self.0 >> 25 & 31))
    }
}

/// Symbols that a description may give words, of each code.
const LITERALS: usize = 286;
const DISTANCE_SYMBOLS: usize = 30;

/// The lengths of all words of a code, 0 where there is none: what a dynamic block describes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Lengths([u8; LITERALS + DISTANCE_SYMBOLS]);

impl Lengths {
    /// Words of one bit for a literal and for the end; or one of two for the end, which makes no
    /// code.
    #[cfg(test)]
    pub(crate) fn of_two(literal: u8, is_complete: bool) -> Lengths {
        let mut lengths = [0; LITERALS + DISTANCE_SYMBOLS];
        lengths[usize::from(literal)] = 1;
        lengths[256] = 1 + u8::from(!is_complete);
        Lengths(lengths)
    }

    /// Tells most that differ apart.
    pub(crate) fn hash(&self) -> u64 {
        self.0.chunks(8).fold(0, |hash: u64, chunk| {
            let mut bytes = [0; 8];
            bytes[..chunk.len()].copy_from_slice(chunk);
            (hash.rotate_left(25) ^ u64::from_le_bytes(bytes)).wrapping_mul(0x9e37_79b9_7f4a_7c15)
        })
    }

    /// Reads what follows the three bits of a dynamic block up to its first token.
    ///
    /// # Errors
    /// [`Stop::Short`] and [`Stop::Bad`].
    pub(crate) fn read(bits: &mut BitReader<'_>) -> Result<Lengths, Stop> {
        const ORDER: [usize; 19] =
            [16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1, 15];
        let literals = bits.bits(5)? as usize + 257;
        let distances = bits.bits(5)? as usize + 1;
        let count = bits.bits(4)? as usize + 4;
        if literals > LITERALS || distances > DISTANCE_SYMBOLS {
            return Err(Stop::Bad);
        }
        let mut lengths = [0u8; LITERALS + DISTANCE_SYMBOLS];
        for &symbol in &ORDER[..count] {
            lengths[symbol] = bits.bits(3)? as u8;
        }
        let (mut meta, mut words) = ([NONE; 1 << META_BITS], [0; 19]);
        // No word is longer than the first table is wide.
        let built = build(&lengths[..19], &mut meta, 0..1 << META_BITS, 0, &mut words, Some);
        if built.is_none_or(|(is_complete, _)| !is_complete) {
            return Err(Stop::Bad);
        }
        let total = literals + distances;
        lengths.fill(0);
        let mut at = 0;
        while at < total {
            let entry = meta[bits.peek() as usize & ((1 << META_BITS) - 1)];
            bits.bits(entry.bits())?;
            let (value, repeats) = match entry.symbol() {
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
        // Those of symbols that are not described are 0, so that equal codes have equal lengths.
        let mut all = [0; LITERALS + DISTANCE_SYMBOLS];
        all[..literals.len()].copy_from_slice(literals);
        all[LITERALS..][..distances.len()].copy_from_slice(distances);
        Ok(Lengths(all))
    }
}

/// Set in words that a code has.
pub(super) const HAS_WORD: u32 = 1 << 22;

/// The code of a block: literals and lengths, and distances.
#[derive(Clone, Debug)]
pub(crate) struct Code {
    table: [Entry; ENTRIES],
    /// By symbol: its code word, reversed; the length of that from bit 16 on; [`HAS_WORD`]; and from
    /// bit 24 on, the length with the symbol's extra bits. 0 if there is no word.
    words: [u32; 512],
}

impl Code {
    /// It has no words.
    pub(crate) const EMPTY: Code = Code {
        table: [NONE; ENTRIES],
        words: {
            let mut words = [0; 512];
            words[NO_DISTANCE as usize] = HAS_WORD;
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
        let Code { table, words } = self;
        let literal_words = &mut words[..DISTANCES as usize];
        let (first, second) = (0..1 << FIRST_BITS, SECOND);
        let symbols = |symbol: u32| if symbol < 286 { Some(symbol) } else { None };
        let (_, second) = build(literals, table, first, second, literal_words, symbols)?;
        let distance_words = &mut words[DISTANCES as usize..][..32];
        let first = 1 << FIRST_BITS..SECOND;
        let symbols = |symbol: u32| if symbol < 30 { Some(DISTANCES + symbol) } else { None };
        build(distances, table, first, second, distance_words, symbols)?;
        for (symbol, word) in (0..).zip(words.iter_mut()).filter(|(_, word)| **word != 0) {
            *word += extra_bits(symbol) << 24;
        }
        // Symbols that must not occur.
        words[286..288].fill(0);
        words[(DISTANCES + 30) as usize..][..2].fill(0);
        Some(())
    }

    /// Reads what follows the three bits of a dynamic block up to its first token.
    ///
    /// # Errors
    /// [`Stop::Short`] and [`Stop::Bad`].
    pub(crate) fn read(bits: &mut BitReader<'_>) -> Result<Code, Stop> {
        Code::of(&Lengths::read(bits)?)
    }

    /// The code whose words have these lengths. Takes some microseconds.
    ///
    /// # Errors
    /// [`Stop::Bad`].
    pub(crate) fn of(lengths: &Lengths) -> Result<Code, Stop> {
        let mut code = Code::EMPTY;
        code.set(lengths)?;
        Ok(code)
    }

    /// The same, in the place of this one, which is then empty if there is no such code.
    ///
    /// # Errors
    /// [`Stop::Bad`].
    pub(crate) fn set(&mut self, lengths: &Lengths) -> Result<(), Stop> {
        let (literals, distances) = lengths.0.split_at(LITERALS);
        self.clone_from(&Code::EMPTY);
        if self.build(literals, distances).is_none() {
            self.clone_from(&Code::EMPTY);
            return Err(Stop::Bad);
        }
        Ok(())
    }

    /// Tells most codes apart whose words differ in length.
    pub(crate) fn hash(&self) -> u64 {
        self.words.chunks_exact(4).fold(0, |hash: u64, words| {
            let lengths =
                words.iter().fold(0, |lengths, word| lengths << 4 | u64::from(word >> 16 & 15));
            (hash.rotate_left(25) ^ lengths).wrapping_mul(0x9e37_79b9_7f4a_7c15)
        })
    }

    /// Whether its words have these lengths.
    pub(crate) fn has(&self, lengths: &Lengths) -> bool {
        let (literals, distances) = lengths.0.split_at(LITERALS);
        let are_equal = |words: &[u32], lengths: &[u8]| {
            words.iter().zip(lengths).all(|(word, &length)| (word >> 16 & 15) as u8 == length)
        };
        are_equal(&self.words[..LITERALS], literals)
            && are_equal(&self.words[DISTANCES as usize..], distances)
    }

    /// The entry that the next bits begin with: of literals and lengths, or of distances if
    /// all bits of `is_distance` are set.
    #[inline(always)]
    pub(super) fn entry(&self, bits: u64, is_distance: u32) -> Entry {
        let first = is_distance & 1 << FIRST_BITS | bits as u32 & ((1 << FIRST_BITS) - 1);
        let entry = self.table[first as usize];
        if entry.is_special() { self.second(entry, bits) } else { entry }
    }

    /// The entry that a pointer leads to.
    #[inline(always)]
    fn second(&self, entry: Entry, bits: u64) -> Entry {
        let index = (bits >> FIRST_BITS) as u32 & ((1 << entry.length()) - 1);
        let nth = (entry.0 >> 16 & SECOND_MASK) + index;
        self.table.get(nth as usize).copied().unwrap_or(NONE)
    }

    /// The word of a symbol: its bits, its length from bit 16 on, and [`HAS_WORD`]. 0 if there is
    /// none.
    #[inline(always)]
    pub(super) fn word(&self, entry: Entry) -> u32 {
        self.words[entry.symbol()]
    }

    /// The word of a distance symbol below 30, likewise.
    #[inline(always)]
    pub(super) fn distance_word(&self, symbol: u32) -> u32 {
        self.words[((DISTANCES + symbol) & 511) as usize]
    }

    /// The bits of a token, and how many there are; `None` if the code has no such symbol.
    #[inline(always)]
    pub(crate) fn bits_of(&self, token: Token) -> Option<(u64, u32)> {
        // Without a branch between literals and copies, which nothing could predict: of a literal,
        // all that is of a copy is masked. The indices are in range; their masks say so.
        let copy = (token.0 as i32 >> 31) as u32;
        let symbol = (257 + token.length_symbol()) & copy | token.0 & 0xff & !copy;
        let length = self.words[(symbol & 511) as usize];
        let (symbol, _, extra) = distance_parts(token.0 & DISTANCE);
        let symbol = (DISTANCES + symbol) & copy | NO_DISTANCE & !copy;
        let distance = self.words[(symbol & 511) as usize];
        let (first, _) = Entry::bits_under(length, u64::from(token.length_extra() & copy));
        let (second, _) = Entry::bits_under(distance, u64::from(extra & copy));
        let len = length >> 24;
        let bits = first | second << (len & 63);
        (length & distance & HAS_WORD != 0).then_some((bits, len + (distance >> 24)))
    }

    /// Memory in bytes.
    pub(crate) const MEMORY: usize = size_of::<Code>();
}

/// Bits of a code word for code lengths.
const META_BITS: u32 = 7;
/// Bits of a pointer that say where its table begins.
const SECOND_MASK: u32 = (4 << FIRST_BITS) - 1;

/// Builds the tables of one code: a first one in `first` of `table`, and second ones from `second`
/// on. `symbols` gives what stands for each symbol; `None` for one that must not occur. Returns
/// whether all words are in use, and where the next second table may begin; `None` if there are
/// more code words than bits allow, or too few.
fn build(
    lengths: &[u8],
    table: &mut [Entry],
    first: Range<usize>,
    second: usize,
    words: &mut [u32],
    symbols: impl Fn(u32) -> Option<u32>,
) -> Option<(bool, usize)> {
    let first_bits = first.len().ilog2();
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
    let mut end = second;
    for &symbol in &order[..used as usize] {
        let symbol = u32::from(symbol);
        let length = u32::from(lengths[symbol as usize]);
        let word = next[length as usize].reverse_bits() >> (32 - length);
        next[length as usize] += 1;
        words[symbol as usize] = word | length << 16 | HAS_WORD | length << 24;
        let entry = symbols(symbol).map_or(NONE, |symbol| Entry::new(symbol, length));
        if length <= first_bits {
            let entry = if symbol == END && first.len() > 1 << META_BITS {
                table[END_AT] = entry;
                Entry(SPECIAL | (END_AT as u32) << 16)
            } else {
                entry
            };
            fill(&mut table[first.clone()], word, length, entry);
        } else {
            let root = first.start + (word as usize & (first.len() - 1));
            if table[root] == NONE {
                let more = second_bits(&counts, length, first_bits);
                table[root] = Entry(SPECIAL | (end as u32) << 16 | more << 8);
                end += 1 << more;
            }
            let (start, more) = (table[root].0 >> 16 & SECOND_MASK, table[root].length());
            let table = &mut table[start as usize..][..1 << more];
            fill(table, word >> first_bits, length - first_bits, entry);
        }
        counts[length as usize] -= 1;
    }
    Some((left == 0, end))
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
            let mut table = [NONE; ENTRIES];
            super::build(lengths, &mut table, 0..1024, SECOND, &mut [0; 288], Some)
                .map(|(is_complete, _)| is_complete)
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
