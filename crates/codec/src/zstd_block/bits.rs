//! Bits in the order of zstd's entropy coders (RFC 8878, section 4): written from the lowest of each
//! byte on, and read from the end.

use super::Stop;

/// Reads the bits of a slice, last ones first.
#[derive(Clone, Debug)]
pub(super) struct BackReader<'a> {
    data: &'a [u8],
    /// Bits that are left; below 0 if more were read than there are.
    left: i64,
}

impl<'a> BackReader<'a> {
    /// The last byte has a bit that marks the end, which is not read.
    pub(super) fn new(data: &'a [u8]) -> Result<BackReader<'a>, Stop> {
        let last = data.last().filter(|&&last| last != 0).ok_or(Stop)?;
        Ok(BackReader { data, left: data.len() as i64 * 8 - 1 - i64::from(last.leading_zeros()) })
    }

    /// Bits left; below 0 if more were read than there are.
    pub(super) fn left(&self) -> i64 {
        self.left
    }

    /// `count` bits, at most 32, from bit `at` on.
    #[inline(always)]
    fn bits(&self, at: usize, count: u32) -> u64 {
        let byte = at / 8;
        let word = match self.data.get(byte..).and_then(|rest| rest.first_chunk::<8>()) {
            Some(bytes) => u64::from_le_bytes(*bytes),
            None => self.last_word(byte),
        };
        word >> (at % 8) & ((1 << count) - 1)
    }

    #[cold]
    fn last_word(&self, byte: usize) -> u64 {
        let rest = self.data.get(byte..).unwrap_or(&[]);
        let mut bytes = [0; 8];
        bytes[..rest.len()].copy_from_slice(rest);
        u64::from_le_bytes(bytes)
    }

    /// The next `count` bits, at most 32. Zeros follow the last one.
    #[inline(always)]
    pub(super) fn peek(&self, count: u32) -> u64 {
        let at = self.left - i64::from(count);
        if at >= 0 {
            self.bits(at as usize, count)
        } else if self.left > 0 {
            self.bits(0, self.left as u32) << -at
        } else {
            0
        }
    }

    #[inline(always)]
    pub(super) fn skip(&mut self, count: u32) {
        self.left -= i64::from(count);
    }

    /// The next 57 bits or more, if there are that many.
    #[inline(always)]
    pub(super) fn window(&self) -> Option<Window> {
        let end = usize::try_from(self.left).ok()?.div_ceil(8);
        let bytes = self.data.get(end.checked_sub(8)?..)?.first_chunk::<8>()?;
        let word = u64::from_le_bytes(*bytes) << (end as i64 * 8 - self.left);
        Some(Window { word, taken: 0 })
    }

    /// Skips what was taken of a window.
    #[inline(always)]
    pub(super) fn advance(&mut self, window: &Window) {
        self.skip(window.taken);
    }
}

/// Gives bits, last ones first.
pub(super) trait Take {
    /// Takes `count` bits, at most 32.
    fn take(&mut self, count: u32) -> u64;
}

impl Take for BackReader<'_> {
    #[inline(always)]
    fn take(&mut self, count: u32) -> u64 {
        let bits = self.peek(count);
        self.skip(count);
        bits
    }
}

/// The next bits of a reader. No more than 57 may be taken.
#[derive(Clone, Debug)]
pub(super) struct Window {
    /// The first is the highest.
    word: u64,
    taken: u32,
}

impl Window {
    /// The next `count` bits, from 1 to 32.
    #[inline(always)]
    pub(super) fn peek(&self, count: u32) -> u64 {
        self.word >> (64 - count)
    }

    #[inline(always)]
    pub(super) fn skip(&mut self, count: u32) {
        self.word <<= count;
        self.taken += count;
    }
}

impl Take for Window {
    #[inline(always)]
    fn take(&mut self, count: u32) -> u64 {
        // There may be none.
        let bits = self.word >> 1 >> (63 - count);
        self.skip(count);
        bits
    }
}

/// Writes bits to the end of a vector.
#[derive(Debug)]
pub(super) struct Writer<'o> {
    out: &'o mut Vec<u8>,
    buffer: u64,
    held: u32,
}

impl<'o> Writer<'o> {
    pub(super) fn new(out: &'o mut Vec<u8>) -> Writer<'o> {
        Writer { out, buffer: 0, held: 0 }
    }

    /// Appends the lowest `count` bits, at most 32, of `bits`.
    #[inline(always)]
    pub(super) fn put(&mut self, bits: u64, count: u32) {
        self.buffer |= (bits & ((1 << count) - 1)) << self.held;
        self.held += count;
        if self.held >= 32 {
            self.out.extend_from_slice(&(self.buffer as u32).to_le_bytes());
            self.buffer >>= 32;
            self.held -= 32;
        }
    }

    /// Appends the bit that marks the end.
    pub(super) fn finish(mut self) {
        self.put(1, 1);
        let bytes = self.held.div_ceil(8) as usize;
        self.out.extend_from_slice(&self.buffer.to_le_bytes()[..bytes]);
    }
}

/// Reads bits of a slice, first ones first: descriptions of tables.
#[derive(Clone, Debug)]
pub(super) struct Reader<'a> {
    data: &'a [u8],
    /// The next bit.
    at: usize,
}

impl<'a> Reader<'a> {
    pub(super) fn new(data: &'a [u8]) -> Reader<'a> {
        Reader { data, at: 0 }
    }

    /// The next `count` bits, at most 16. Zeros follow the last one.
    pub(super) fn peek(&self, count: u32) -> u32 {
        let byte = |nth: usize| u32::from(self.data.get(self.at / 8 + nth).copied().unwrap_or(0));
        let word = byte(0) | byte(1) << 8 | byte(2) << 16;
        word >> (self.at % 8) & ((1 << count) - 1)
    }

    pub(super) fn skip(&mut self, count: u32) {
        self.at += count as usize;
    }

    /// Bytes that were begun.
    ///
    /// # Errors
    /// [`Stop`] if more bits were read than there are.
    pub(super) fn bytes(&self) -> Result<usize, Stop> {
        let bytes = self.at.div_ceil(8);
        if bytes > self.data.len() { Err(Stop) } else { Ok(bytes) }
    }
}
