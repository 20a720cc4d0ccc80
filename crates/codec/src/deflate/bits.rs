//! Bits in deflate's order: from the lowest of each byte.

use super::Stop;

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
pub(super) fn mask(count: u32) -> u64 {
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
