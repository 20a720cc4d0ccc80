//! Adaptive coding of symbols of 16 values: rANS (Duda 2013), with models whose 16 sums are
//! searched and adapted as one vector (after Giesen's LZNA models, 2015), and a stream of even bits
//! beside it.
//!
//! rANS decodes without a division, and its decoder is a short chain of dependent steps; a binary
//! range coder, tried first, took three times as long. It encodes backwards, so a writer keeps a
//! frame's symbols until the end. The symbols stand at the front of the section, the even bits at
//! its end, growing towards each other.

use crate::error::FrameError;
use oncewire_kernels::first_above;

/// Sum of all frequencies of a model: 2^15.
const SCALE_BITS: u32 = 15;
/// Adaptation: every symbol moves all sums by 1/32 of what is missing.
const RATE: u32 = 5;
/// Least frequency that a symbol tends to. At least 2^RATE, so that rounding never brings one to 0.
const LEAST: i16 = 1 << RATE;
/// The state stays at or above this, and starts with it.
const LOWEST_STATE: u32 = 1 << 16;
/// Bytes of the state at the front of a section.
const STATE_LEN: usize = 4;

/// The adaptive frequencies of 16 symbols: `before[s]` is the sum of those below `s`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Symbols {
    before: [i16; 16],
}

/// What the sums tend to after each symbol.
const TARGETS: [[i16; 16]; 16] = {
    let mut targets = [[0; 16]; 16];
    let mut symbol = 0;
    while symbol < 16 {
        let mut i = 0;
        while i < 16 {
            targets[symbol][i] = if i <= symbol {
                i as i16 * LEAST
            } else {
                ((1i32 << SCALE_BITS) - (16 - i as i32) * LEAST as i32) as i16
            };
            i += 1;
        }
        symbol += 1;
    }
    targets
};

impl Symbols {
    /// All equally likely.
    pub(super) const EVEN: Symbols = {
        let mut before = [0; 16];
        let mut i = 0;
        while i < 16 {
            before[i] = (i << (SCALE_BITS - 4)) as i16;
            i += 1;
        }
        Symbols { before }
    };

    #[inline(always)]
    fn interval(&self, symbol: usize) -> Interval {
        let start = self.before[symbol] as u16;
        let end = self.before.get(symbol + 1).map_or(1 << SCALE_BITS, |&end| end as u16);
        Interval { start, frequency: end - start }
    }

    #[inline(always)]
    fn adapt(&mut self, symbol: usize) {
        for (sum, &target) in self.before.iter_mut().zip(&TARGETS[symbol]) {
            *sum += (target - *sum) >> RATE;
        }
    }
}

/// A symbol's share of the scale when it was coded.
#[derive(Clone, Copy, Debug)]
struct Interval {
    start: u16,
    frequency: u16,
}

/// Collects the symbols and bits of one section. Kept between sections for its buffers.
#[derive(Clone, Debug, Default)]
pub(super) struct SectionWriter {
    intervals: Vec<Interval>,
    words: Vec<u16>,
    bits: Vec<u8>,
    /// Bits not yet in a whole byte.
    pending: u64,
    pending_len: u32,
}

impl SectionWriter {
    /// Memory of the buffers as of now, in bytes.
    pub(super) fn memory(&self) -> usize {
        self.intervals.capacity() * size_of::<Interval>()
            + self.words.capacity() * size_of::<u16>()
            + self.bits.capacity()
    }

    /// One symbol, 0..16.
    #[inline(always)]
    pub(super) fn symbol(&mut self, model: &mut Symbols, symbol: usize) {
        self.intervals.push(model.interval(symbol));
        model.adapt(symbol);
    }

    /// The low `count` bits of `value`, at most 62, each as likely 0 as 1.
    #[inline(always)]
    pub(super) fn even_bits(&mut self, value: u64, count: u32) {
        let mut value = value & ((1 << count) - 1);
        let mut left = count;
        while left > 0 {
            let step = left.min(32);
            self.pending |= (value & ((1 << step) - 1)) << self.pending_len;
            self.pending_len += step;
            value >>= step;
            left -= step;
            while self.pending_len >= 8 {
                self.bits.push(self.pending as u8);
                self.pending >>= 8;
                self.pending_len -= 8;
            }
        }
    }

    /// Appends the section to `out`, and empties the writer.
    pub(super) fn finish(&mut self, out: &mut Vec<u8>) {
        let mut state = LOWEST_STATE;
        self.words.clear();
        for &Interval { start, frequency } in self.intervals.iter().rev() {
            let (start, frequency) = (u32::from(start), u32::from(frequency));
            // So that coding the symbol cannot leave 32 bits.
            if state >= frequency << (32 - SCALE_BITS) {
                self.words.push(state as u16);
                state >>= 16;
            }
            state = ((state / frequency) << SCALE_BITS) + state % frequency + start;
        }
        out.extend_from_slice(&state.to_le_bytes());
        out.extend(self.words.iter().rev().flat_map(|word| word.to_le_bytes()));
        if self.pending_len > 0 {
            self.bits.push(self.pending as u8);
        }
        out.extend(self.bits.iter().rev());
        (self.pending, self.pending_len) = (0, 0);
        self.intervals.clear();
        self.bits.clear();
    }
}

/// Reads what a [`SectionWriter`] wrote.
pub(super) struct SectionReader<'a> {
    state: u32,
    /// Between the symbols read and the bits read.
    rest: &'a [u8],
    pending: u64,
    pending_len: u32,
    /// More was read than there is.
    overrun: bool,
}

impl<'a> SectionReader<'a> {
    pub(super) fn new(section: &'a [u8]) -> Result<SectionReader<'a>, FrameError> {
        let (state, rest) = section
            .split_first_chunk::<STATE_LEN>()
            .ok_or(FrameError::Short { section: "descriptors" })?;
        Ok(SectionReader {
            state: u32::from_le_bytes(*state),
            rest,
            pending: 0,
            pending_len: 0,
            overrun: false,
        })
    }

    #[inline(always)]
    pub(super) fn symbol(&mut self, model: &mut Symbols) -> usize {
        let place = self.state & ((1 << SCALE_BITS) - 1);
        // The last symbol whose sum is not above; sums ascend and the first is 0.
        let symbol = (first_above(&model.before, place as i16) as usize - 1) & 15;
        let Interval { start, frequency } = model.interval(symbol);
        self.state = u32::from(frequency) * (self.state >> SCALE_BITS) + place - u32::from(start);
        model.adapt(symbol);
        if self.state < LOWEST_STATE {
            let word = match self.rest.split_first_chunk::<2>() {
                Some((word, rest)) => {
                    self.rest = rest;
                    u16::from_le_bytes(*word)
                }
                None => {
                    self.overrun = true;
                    0
                }
            };
            self.state = self.state << 16 | u32::from(word);
        }
        symbol
    }

    #[inline(always)]
    pub(super) fn even_bits(&mut self, count: u32) -> u64 {
        let (mut value, mut done) = (0, 0);
        while done < count {
            let step = (count - done).min(32);
            while self.pending_len < step {
                let byte = match self.rest.split_last() {
                    Some((&byte, rest)) => {
                        self.rest = rest;
                        byte
                    }
                    None => {
                        self.overrun = true;
                        0
                    }
                };
                self.pending |= u64::from(byte) << self.pending_len;
                self.pending_len += 8;
            }
            value |= (self.pending & ((1 << step) - 1)) << done;
            self.pending >>= step;
            self.pending_len -= step;
            done += step;
        }
        value
    }

    /// Whether more was read than there is.
    pub(super) fn is_overrun(&self) -> bool {
        self.overrun
    }

    /// Whether all was read, and the state and the last byte of bits ended as a writer would have
    /// begun them.
    pub(super) fn finish(self) -> Result<(), FrameError> {
        if self.overrun {
            return Err(FrameError::Short { section: "descriptors" });
        }
        if !self.rest.is_empty() {
            return Err(FrameError::Excess { section: "descriptors", extra: self.rest.len() });
        }
        if self.state != LOWEST_STATE || self.pending != 0 {
            return Err(FrameError::Field {
                field: "final state",
                value: self.state.into(),
                allowed: "2^16, and no bits set",
            });
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn round_trip(
            sections in proptest::collection::vec(
                proptest::collection::vec((0usize..16, 0u32..=62, any::<u64>(), 0usize..3), 0..300), 1..3),
        ) {
            // A skewed context drives its frequencies to their ends.
            let skew = |symbol, context| if context == 1 { symbol / 15 * 15 } else { symbol };
            let mut writer = SectionWriter::default();
            let (mut there, mut here) = ([Symbols::EVEN; 3], [Symbols::EVEN; 3]);
            for symbols in sections {
                let mut out = Vec::new();
                for &(symbol, count, value, context) in &symbols {
                    writer.symbol(&mut there[context], skew(symbol, context));
                    writer.even_bits(value, count);
                }
                writer.finish(&mut out);
                let mut reader = SectionReader::new(&out).unwrap();
                for &(symbol, count, value, context) in &symbols {
                    prop_assert_eq!(reader.symbol(&mut here[context]), skew(symbol, context));
                    prop_assert_eq!(reader.even_bits(count), value & ((1u64 << count) - 1));
                }
                prop_assert_eq!(reader.finish(), Ok(()));
            }
        }

        #[test]
        fn no_frequency_ever_falls_to_zero(symbols in proptest::collection::vec((0usize..16, 1usize..200), 0..60)) {
            let mut model = Symbols::EVEN;
            for (symbol, times) in symbols {
                for _ in 0..times {
                    model.adapt(symbol);
                }
                prop_assert!((0..16).all(|s| (1..1 << SCALE_BITS).contains(&model.interval(s).frequency)), "{:?}", model);
                prop_assert_eq!(model.before[0], 0);
            }
        }

        #[test]
        fn garbage_is_harmless(input in proptest::collection::vec(any::<u8>(), 4..40), count in 0u32..=62) {
            let mut models = [Symbols::EVEN; 2];
            let mut reader = SectionReader::new(&input).unwrap();
            for i in 0..200 {
                prop_assert!(reader.symbol(&mut models[i % 2]) < 16);
                prop_assert!(reader.even_bits(count) < 1 << count);
            }
        }
    }

    #[test]
    fn a_certain_symbol_costs_little() {
        let (mut writer, mut out, mut model) =
            (SectionWriter::default(), Vec::new(), Symbols::EVEN);
        for _ in 0..1000 {
            writer.symbol(&mut model, 3);
        }
        writer.finish(&mut out);
        // The floor: log2(1 / (1 - 15 * 32 / 32768)) is 0.021 bits.
        assert!(out.len() <= 16, "{}", out.len());
    }
}
