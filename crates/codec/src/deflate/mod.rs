//! Deflate (RFC 1951) as far as its Huffman code: bits to tokens and back. Nothing is inflated.
//!
//! A *token* is a literal byte, or a length and a distance. A Huffman code turns tokens into bits
//! in exactly one way, so tokens and code give back the very bits they came from, whatever
//! compressor chose them.

mod bits;
mod code;
mod loops;

pub(crate) use bits::{BitReader, BitWriter, SLACK, copy_bits};
pub(crate) use code::{Code, Lengths};
pub(crate) use loops::{Distances, transcode, transcode_changed};

/// A literal byte, or a length and a distance.
///
/// A length is kept as its symbol and extra bits: 258 can be written in two ways (RFC 1951, section
/// 3.2.5).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Token(u32);

/// Bits of a token that hold its distance, less 1.
const DISTANCE_BITS: u32 = 15;
const DISTANCE: u32 = (1 << DISTANCE_BITS) - 1;
const COPY: u32 = 1 << 31;

/// Extra bits of a length, by its symbol less 257.
const LENGTH_EXTRA: [u8; 29] =
    [0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3, 4, 4, 4, 4, 5, 5, 5, 5, 0];
/// Shortest length of a symbol, less 257; the entries behind them are of no symbol.
const LENGTH_BASE: [u32; 32] = {
    let (mut bases, mut symbol, mut base) = ([0; 32], 0, 3);
    while symbol < 28 {
        bases[symbol] = base;
        base += 1 << LENGTH_EXTRA[symbol];
        symbol += 1;
    }
    bases[28] = 258;
    bases
};
/// Longest distance.
pub(crate) const MAX_DISTANCE: u32 = 1 << DISTANCE_BITS;

impl Token {
    #[cfg(test)]
    pub(crate) fn literal(byte: u8) -> Token {
        Token(u32::from(byte))
    }

    #[cfg(test)]
    /// `symbol` is below 29, `extra` below 32, `distance` from 1 to [`MAX_DISTANCE`].
    pub(crate) fn copy(symbol: u32, extra: u32, distance: u32) -> Token {
        Token(COPY | symbol << 20 | extra << DISTANCE_BITS | (distance - 1))
    }

    pub(crate) fn is_copy(self) -> bool {
        self.0 & COPY != 0
    }

    /// All but the distance: what stays the same when content is moved.
    pub(crate) fn shape(self) -> u32 {
        if self.is_copy() { self.0 & !DISTANCE } else { self.0 }
    }

    /// The distance of a copy.
    pub(crate) fn distance(self) -> u32 {
        (self.0 & DISTANCE) + 1
    }

    /// The same copy with another distance; `None` if there is no such distance.
    pub(crate) fn moved(self, change: i32) -> Option<Token> {
        let distance = (self.distance() as i32).checked_add(change)?;
        (self.is_copy() && (1..=MAX_DISTANCE as i32).contains(&distance))
            .then(|| Token(self.shape() | (distance - 1) as u32))
    }

    /// Inflated bytes.
    pub(crate) fn len(self) -> u32 {
        if self.is_copy() {
            // The mask tells what is known.
            LENGTH_BASE[(self.length_symbol() & 31) as usize] + self.length_extra()
        } else {
            1
        }
    }

    fn length_symbol(self) -> u32 {
        self.0 >> 20 & 31
    }

    fn length_extra(self) -> u32 {
        self.0 >> DISTANCE_BITS & 31
    }
}

/// Symbol, number of extra bits, and extra bits of a distance less 1.
#[inline(always)]
fn distance_parts(less: u32) -> (u32, u32, u32) {
    // Each power of two has two symbols; below 4 a symbol is the distance itself.
    let extra = (30 - (less | 2).leading_zeros()).min(13);
    let symbol = if less < 2 { less } else { 2 * extra + (less >> extra) };
    (symbol, extra, less & ((1 << extra) - 1))
}

/// Extra bits of a distance, by its symbol.
#[inline(always)]
const fn distance_extra(symbol: u32) -> u32 {
    (symbol / 2).saturating_sub(1)
}

/// The distance of a symbol below 30 and its extra bits.
#[inline(always)]
const fn distance_of(symbol: u32, extra: u32) -> u32 {
    if symbol < 4 { symbol + 1 } else { ((2 + (symbol & 1)) << distance_extra(symbol)) + extra + 1 }
}

/// Bits that are not those of any token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stop {
    /// The end of the deflate block.
    End,
    /// The bits end within a token.
    Short,
    /// No code word, or a symbol that must not occur.
    Bad,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distances_are_symbols_and_extra_bits() {
        for distance in 1..=MAX_DISTANCE {
            let (symbol, count, extra) = distance_parts(distance - 1);
            assert!(symbol < 30 && count == distance_extra(symbol) && extra >> count == 0);
            assert_eq!(distance_of(symbol, extra), distance);
        }
    }

    #[test]
    fn lengths_are_those_of_the_standard() {
        let length = |symbol: u32, extra| Token::copy(symbol - 257, extra, 1).len();
        assert_eq!(
            [length(257, 0), length(264, 0), length(265, 1), length(277, 7)],
            [3, 10, 12, 74]
        );
        assert_eq!([length(284, 0), length(284, 31), length(285, 0)], [227, 258, 258]);
        assert_eq!(Token::literal(200).len(), 1);
    }

    #[test]
    fn a_moved_copy_keeps_its_shape() {
        let token = Token::copy(28, 0, 100);
        assert_eq!(token.moved(-99).unwrap().distance(), 1);
        assert_eq!(token.moved(-99).unwrap().shape(), token.shape());
        assert_eq!(token.moved(-100), None);
        assert_eq!(token.moved(MAX_DISTANCE as i32 - 100).unwrap().distance(), MAX_DISTANCE);
        assert_eq!(token.moved(MAX_DISTANCE as i32 - 99), None);
        assert_eq!(Token::literal(7).moved(1), None);
        assert_eq!((token.moved(i32::MAX), token.moved(-i32::MAX)), (None, None));
    }
}
