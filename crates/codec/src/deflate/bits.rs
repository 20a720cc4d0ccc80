//! Bits in deflate's order: from the lowest of each byte.

use super::loops::{ReadTokens, SkipTokens};
use super::{Code, Stop, Token};
use oncewire_kernels::Kernels;

/// Reads bits of a slice.
#[derive(Clone, Debug)]
pub(crate) struct BitReader<'a> {
    pub(super) data: &'a [u8],
    /// The next byte to load.
    pub(super) at: usize,
    pub(super) buffer: u64,
    /// Bits in `buffer`. Beyond the end of the data, zeros count as well.
    pub(super) held: u32,
}

#[inline(always)]
fn mask(count: u32) -> u64 {
    (1 << count) - 1
}

impl<'a> BitReader<'a> {
    /// From bit `position` of `data` on.
    pub(crate) fn new(data: &'a [u8], position: u64) -> BitReader<'a> {
        let at = (position / 8) as usize;
        let mut reader = BitReader { data, at, buffer: 0, held: 0 };
        reader.refill();
        let skip = (position % 8) as u32;
        reader.buffer >>= skip;
        reader.held -= skip;
        reader
    }

    /// The position in bits.
    pub(crate) fn position(&self) -> u64 {
        self.at as u64 * 8 - u64::from(self.held)
    }

    /// Whether more was read than there is.
    pub(crate) fn is_past_end(&self) -> bool {
        self.position() > self.data.len() as u64 * 8
    }

    /// Makes at least 56 bits available.
    #[inline(always)]
    pub(super) fn refill(&mut self) {
        if let Some(bytes) = self.data.get(self.at..).and_then(|rest| rest.first_chunk::<8>()) {
            self.buffer |= u64::from_le_bytes(*bytes) << self.held;
            let taken = (63 - self.held) / 8;
            self.at += taken as usize;
            self.held += taken * 8;
        } else {
            self.refill_slowly();
        }
    }

    #[cold]
    fn refill_slowly(&mut self) {
        while self.held < 56 {
            let byte = self.data.get(self.at).copied().unwrap_or(0);
            self.buffer |= u64::from(byte) << self.held;
            self.at += 1;
            self.held += 8;
        }
    }

    /// The next bits, at least 56; zeros beyond the end.
    pub(super) fn peek(&mut self) -> u64 {
        self.refill();
        self.buffer
    }

    #[inline(always)]
    pub(super) fn consume(&mut self, count: u32) {
        self.buffer >>= count;
        self.held -= count;
    }

    #[inline(always)]
    fn take(&mut self, count: u32) -> u32 {
        let value = self.buffer & mask(count);
        self.consume(count);
        value as u32
    }

    /// The next `count` bits, at most 32.
    ///
    /// # Errors
    /// [`Stop::Short`].
    pub(crate) fn bits(&mut self, count: u32) -> Result<u32, Stop> {
        self.refill();
        let value = self.take(count);
        if self.is_past_end() { Err(Stop::Short) } else { Ok(value) }
    }

    /// Skips to the next position that is `phase` bits after a whole byte.
    pub(crate) fn align(&mut self, phase: u32) {
        self.refill();
        let now = (self.position() % 8) as u32;
        self.consume((phase + 8 - now) % 8);
    }

    /// The next token. At its end, a reader may be past the end of the data: check
    /// [`BitReader::is_past_end`] before the token is believed.
    ///
    /// # Errors
    /// [`Stop`]; after [`Stop::End`] the reader is behind the end-of-block symbol.
    #[inline(always)]
    pub(crate) fn token(&mut self, code: &Code) -> Result<Token, Stop> {
        // Two code words of 15 bits, and 5 and 13 extra bits, fit what a refill gives.
        self.refill();
        let entry = code.entry(self.buffer, 0);
        if entry.is_special() {
            self.consume(entry.bits());
            return Err(if entry.is_end() { Stop::End } else { Stop::Bad });
        }
        let value = entry.value(entry.extra(self.buffer));
        self.consume(entry.bits());
        if entry.is_length() == 0 {
            return Ok(Token(value));
        }
        let entry = code.entry(self.buffer, u32::MAX);
        if entry.is_special() {
            return Err(Stop::Bad);
        }
        let token = Token(value + entry.value(entry.extra(self.buffer)));
        self.consume(entry.bits());
        Ok(token)
    }

    /// Appends up to `most` tokens, and where each of them begins: in bits, with `base` added.
    /// Returns where the last one ends, and what comes next if `most` were not to be had.
    pub(crate) fn append_tokens(
        &mut self,
        code: &Code,
        most: usize,
        base: u32,
        tokens: &mut Vec<Token>,
        starts: &mut Vec<u32>,
    ) -> (u32, Option<Stop>) {
        self.append_by(Kernels::detect(), code, most, base, tokens, starts)
    }

    fn append_by(
        &mut self,
        kernels: Kernels,
        code: &Code,
        most: usize,
        base: u32,
        tokens: &mut Vec<Token>,
        starts: &mut Vec<u32>,
    ) -> (u32, Option<Stop>) {
        let first = tokens.len();
        debug_assert_eq!(starts.len(), first);
        tokens.resize(first + most, Token(0));
        starts.resize(first + most + 1, 0);
        let (count, stop) = kernels.bit_work(ReadTokens {
            reader: self,
            code,
            tokens: &mut tokens[first..],
            starts: &mut starts[first..],
            base,
        });
        let end = starts[first + count];
        tokens.truncate(first + count);
        starts.truncate(first + count);
        (end, stop)
    }

    /// Goes over `tokens` as far as their bits under `code` come next, but not over copies from
    /// `shortest` inflated bytes back or farther, nor near the end. Returns their number.
    pub(crate) fn skip_tokens(&mut self, code: &Code, tokens: &[Token], shortest: u32) -> usize {
        Kernels::detect().bit_work(SkipTokens { reader: self, code, tokens, shortest })
    }

    /// Goes over the low `count` bits of `bits`, at most 56, if they come next; otherwise stays.
    #[inline(always)]
    pub(crate) fn skip_if(&mut self, bits: u64, count: u32) -> bool {
        self.refill();
        let same = (self.buffer ^ bits) & mask(count) == 0;
        if same {
            self.consume(count);
        }
        same
    }

    /// Skips whole bytes; the reader must be at the beginning of one.
    pub(crate) fn skip_bytes(&mut self, count: usize) {
        *self = BitReader::new(self.data, self.position() + count as u64 * 8);
    }
}

/// Writes bits to a buffer of fixed size.
#[derive(Debug, Default)]
pub(crate) struct BitWriter<'a> {
    pub(super) out: &'a mut [u8],
    pub(super) at: usize,
    pub(super) buffer: u64,
    /// Fewer than 8 between calls.
    pub(super) held: u32,
}

/// Bytes that a buffer must have behind what is written.
pub(crate) const SLACK: usize = 8;

impl<'a> BitWriter<'a> {
    pub(crate) fn new(out: &'a mut [u8]) -> BitWriter<'a> {
        BitWriter { out, at: 0, buffer: 0, held: 0 }
    }

    /// The position in bits.
    pub(crate) fn position(&self) -> u64 {
        self.at as u64 * 8 + u64::from(self.held)
    }

    /// What was written; the last byte may be incomplete.
    pub(crate) fn written(&self) -> &[u8] {
        &self.out[..self.at + usize::from(self.held > 0)]
    }

    /// Appends the low `count` bits of `bits`, at most 56; higher ones must be 0. Returns whether
    /// there was room, [`SLACK`] included.
    #[inline(always)]
    #[must_use]
    pub(crate) fn put(&mut self, bits: u64, count: u32) -> bool {
        self.buffer |= bits << self.held;
        let held = self.held + count;
        let Some(place) = self.out.get_mut(self.at..).and_then(|rest| rest.first_chunk_mut::<8>())
        else {
            return false;
        };
        *place = self.buffer.to_le_bytes();
        let whole = held & !7;
        self.at += (whole / 8) as usize;
        // A shift by 64 cannot happen: `held` is below 8, and `count` at most 56.
        self.buffer = if whole < 64 { self.buffer >> whole } else { 0 };
        self.held = held & 7;
        true
    }

    /// Appends a token. Returns whether there was room and the code has its symbols.
    #[inline(always)]
    #[must_use]
    pub(crate) fn token(&mut self, token: Token, code: &Code) -> bool {
        code.bits_of(token).is_some_and(|(bits, count)| self.put(bits, count))
    }
}

/// Copies `count` bits. Returns whether there were as many, and room for them.
#[must_use]
pub(crate) fn copy_bits(from: &mut BitReader<'_>, to: &mut BitWriter<'_>, count: u64) -> bool {
    let mut left = count;
    if left >= 64 && from.position() % 8 == u64::from(to.held) {
        // Up to the next byte, and then whole bytes at once.
        let first = (8 - to.held) % 8;
        from.refill();
        let bits = from.take(first);
        if !to.put(u64::from(bits), first) {
            return false;
        }
        left -= u64::from(first);
        let (start, len) = ((from.position() / 8) as usize, (left / 8) as usize);
        let source = start.checked_add(len).and_then(|end| from.data.get(start..end));
        let target = to.out.get_mut(to.at..).and_then(|rest| rest.get_mut(..len));
        let (Some(source), Some(target)) = (source, target) else { return false };
        target.copy_from_slice(source);
        to.at += len;
        from.skip_bytes(len);
        left %= 8;
    }
    while left > 0 {
        let step = left.min(32) as u32;
        let Ok(bits) = from.bits(step) else { return false };
        if !to.put(u64::from(bits), step) {
            return false;
        }
        left -= u64::from(step);
    }
    true
}

#[cfg(test)]
mod tests {
    use super::super::loops::{Unchanged, transcode_by};
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn tokens_read_at_once_are_those_read_one_by_one(
            data in proptest::collection::vec(any::<u8>(), 0..400),
            start in 0u64..8,
            most in 0usize..200,
        ) {
            let code = Code::fixed();
            let mut reader = BitReader::new(&data, start);
            let (mut tokens, mut starts, mut expected) = (Vec::new(), Vec::new(), None);
            let mut end = reader.position();
            while tokens.len() < most {
                starts.push(end as u32 + 7);
                let token = reader.token(code);
                match token {
                    _ if reader.is_past_end() => expected = Some(Stop::Short),
                    Ok(token) => {
                        tokens.push(token);
                        end = reader.position();
                        continue;
                    }
                    Err(stop) => expected = Some(stop),
                }
                starts.pop();
                break;
            }
            for kernels in Kernels::available() {
                let mut at_once = BitReader::new(&data, start);
                let (mut found, mut begins) = (Vec::new(), Vec::new());
                let (found_end, stop) =
                    at_once.append_by(kernels, code, most, 7, &mut found, &mut begins);
                prop_assert_eq!(&found, &tokens);
                prop_assert_eq!((&begins, found_end, stop), (&starts, end as u32 + 7, expected));
                let behind = if stop == Some(Stop::End) { reader.position() } else { end };
                prop_assert_eq!(at_once.position(), behind);

                // And over them, up to the first that differs or is near the end.
                let mut over = BitReader::new(&data, start);
                let skipped = kernels.bit_work(SkipTokens {
                    reader: &mut over,
                    code,
                    tokens: &tokens,
                    shortest: u32::MAX,
                });
                let near = starts.iter().filter(|&&at| u64::from(at - 7) / 8 + 8 > data.len() as u64);
                prop_assert_eq!(skipped, tokens.len() - near.count());
                prop_assert_eq!(over.position(), starts.get(skipped).map_or(end, |&at| (at - 7).into()));
                if let Some(nth) = tokens[..skipped].iter().position(|token| token.is_copy()) {
                    let mut others = tokens.clone();
                    others[nth] = others[nth].moved(1).or(others[nth].moved(-1)).unwrap();
                    let far = tokens[nth].distance();
                    for (tokens, shortest) in [(&others, u32::MAX), (&tokens, far)] {
                        let reader = &mut BitReader::new(&data, start);
                        let skip = SkipTokens { reader, code, tokens, shortest };
                        prop_assert_eq!(kernels.bit_work(skip), nth);
                    }
                }

                // And back: under the same code, the same bits.
                let mut out = vec![0; data.len() + 2 * SLACK];
                let (mut from, mut to) = (BitReader::new(&data, start), BitWriter::new(&mut out));
                let first = u64::from(data.first().map_or(0, |byte| byte & mask(start as u32) as u8));
                prop_assert!(to.put(first, start as u32));
                let count = tokens.len() as u64;
                prop_assert_eq!(transcode_by(kernels, [code; 2], &mut from, &mut to, count, &mut Unchanged), Some(0));
                prop_assert_eq!((from.position(), to.position()), (end, end));
                let whole = (end / 8) as usize;
                let same = to.written()[..whole] == data[..whole];
                prop_assert!(same || data.is_empty());
                prop_assert_eq!(transcode_by(kernels, [code; 2], &mut from, &mut to, u64::MAX, &mut Unchanged), None);
            }
        }
    }
}
