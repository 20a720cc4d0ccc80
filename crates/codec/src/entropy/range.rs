//! An adaptive binary range coder (Martin 1979; the carry-propagating form with 32-bit range and 11-bit probabilities).

/// Probability that the next bit is 0, in units of 2^-11.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bit(u16);

/// Bits of a probability.
const PRECISION: u32 = 11;
/// Adaptation: each coded bit moves the probability by 1/16 of what is missing. Descriptors are few, so fast.
const RATE: u32 = 4;
/// Renormalise below this range.
const TOP: u32 = 1 << 24;

impl Bit {
    pub(super) const EVEN: Bit = Bit(1 << (PRECISION - 1));

    #[inline(always)]
    fn adapt(&mut self, bit: bool) {
        if bit {
            self.0 -= self.0 >> RATE;
        } else {
            self.0 += ((1 << PRECISION) - self.0) >> RATE;
        }
    }
}

/// Writes bits onto the end of a buffer.
pub(super) struct RangeEncoder<'a> {
    out: &'a mut Vec<u8>,
    start: usize,
    low: u64,
    range: u32,
}

impl<'a> RangeEncoder<'a> {
    pub(super) fn new(out: &'a mut Vec<u8>) -> RangeEncoder<'a> {
        let start = out.len();
        RangeEncoder { out, start, low: 0, range: u32::MAX }
    }

    #[inline(always)]
    pub(super) fn bit(&mut self, probability: &mut Bit, bit: bool) {
        let bound = (self.range >> PRECISION) * u32::from(probability.0);
        if bit {
            self.low += u64::from(bound);
            self.range -= bound;
        } else {
            self.range = bound;
        }
        probability.adapt(bit);
        self.normalise();
    }

    /// The low `count` bits of `value`, each as likely 0 as 1, high ones first.
    #[inline(always)]
    pub(super) fn even_bits(&mut self, value: u64, count: u32) {
        let mut left = count;
        while left > 0 {
            let step = left.min(8);
            left -= step;
            self.range >>= step;
            self.low += (value >> left & ((1 << step) - 1)) * u64::from(self.range);
            self.normalise();
        }
    }

    #[inline(always)]
    fn normalise(&mut self) {
        while self.range < TOP {
            self.shift();
            self.range <<= 8;
        }
    }

    fn shift(&mut self) {
        self.settle_carry();
        self.out.push((self.low >> 24) as u8);
        self.low = (self.low << 8) & 0xffff_ffff;
    }

    fn settle_carry(&mut self) {
        if self.low >> 32 != 0 {
            // The first bytes can never overflow: all that was coded lies below 1.
            for byte in self.out[self.start..].iter_mut().rev() {
                *byte = byte.wrapping_add(1);
                if *byte != 0 {
                    break;
                }
            }
            self.low &= 0xffff_ffff;
        }
    }

    /// Writes the shortest tail: the decoder reads zeros past the end, so trailing zeros are left out.
    pub(super) fn finish(mut self) {
        for shift in [24, 16, 8, 0] {
            let rounded = (self.low + (1u64 << shift) - 1) >> shift << shift;
            if rounded < self.low + u64::from(self.range) {
                self.low = rounded;
                break;
            }
        }
        for _ in 0..4 {
            self.shift();
        }
        while self.out.len() > self.start && self.out.last() == Some(&0) {
            self.out.pop();
        }
    }
}

/// Reads what a [`RangeEncoder`] wrote.
pub(super) struct RangeDecoder<'a> {
    input: &'a [u8],
    at: usize,
    code: u32,
    range: u32,
}

impl<'a> RangeDecoder<'a> {
    pub(super) fn new(input: &'a [u8]) -> RangeDecoder<'a> {
        let mut decoder = RangeDecoder { input, at: 0, code: 0, range: u32::MAX };
        for _ in 0..4 {
            decoder.code = decoder.code << 8 | decoder.next_byte();
        }
        decoder
    }

    #[inline(always)]
    fn next_byte(&mut self) -> u32 {
        let byte = self.input.get(self.at).copied().unwrap_or(0);
        self.at += 1;
        u32::from(byte)
    }

    #[inline(always)]
    pub(super) fn bit(&mut self, probability: &mut Bit) -> bool {
        let bound = (self.range >> PRECISION) * u32::from(probability.0);
        let bit = self.code >= bound;
        if bit {
            self.code -= bound;
            self.range -= bound;
        } else {
            self.range = bound;
        }
        probability.adapt(bit);
        self.normalise();
        bit
    }

    #[inline(always)]
    pub(super) fn even_bits(&mut self, count: u32) -> u64 {
        let (mut value, mut left) = (0, count);
        while left > 0 {
            let step = left.min(8);
            left -= step;
            self.range >>= step;
            // A damaged section can hold a code beyond the range; clamp it to a digit that exists.
            let digit = (self.code / self.range).min((1 << step) - 1);
            self.code -= digit * self.range;
            value = value << step | u64::from(digit);
            self.normalise();
        }
        value
    }

    #[inline(always)]
    fn normalise(&mut self) {
        while self.range < TOP {
            self.code = self.code << 8 | self.next_byte();
            self.range <<= 8;
        }
    }

    /// Bytes of the section that were not needed.
    pub(super) fn unread(&self) -> usize {
        self.input.len().saturating_sub(self.at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn round_trip(symbols in proptest::collection::vec((any::<bool>(), 0u32..41, any::<u64>(), 0usize..3), 0..300), lead in 0usize..3) {
            let mut out = vec![0xff; lead];
            let mut bits = [Bit::EVEN; 3];
            let mut encoder = RangeEncoder::new(&mut out);
            for &(bit, count, value, context) in &symbols {
                // Skewed contexts drive probabilities to their ends.
                encoder.bit(&mut bits[context], bit && context != 1);
                encoder.even_bits(value, count);
            }
            encoder.finish();
            let mut bits = [Bit::EVEN; 3];
            let mut decoder = RangeDecoder::new(&out[lead..]);
            for &(bit, count, value, context) in &symbols {
                prop_assert_eq!(decoder.bit(&mut bits[context]), bit && context != 1);
                prop_assert_eq!(decoder.even_bits(count), value & ((1u64 << count) - 1));
            }
            prop_assert_eq!(decoder.unread(), 0);
            prop_assert_eq!(&out[..lead], &vec![0xff; lead][..]);
        }

        #[test]
        fn garbage_is_harmless(input in proptest::collection::vec(any::<u8>(), 0..40), count in 0u32..41) {
            let mut bits = [Bit::EVEN; 2];
            let mut decoder = RangeDecoder::new(&input);
            for i in 0..200 {
                decoder.bit(&mut bits[i % 2]);
                prop_assert!(decoder.even_bits(count) < 1 << count);
            }
        }
    }

    #[test]
    fn a_certain_bit_costs_little() {
        let mut out = Vec::new();
        let mut bit = Bit::EVEN;
        let mut encoder = RangeEncoder::new(&mut out);
        for _ in 0..1000 {
            encoder.bit(&mut bit, false);
        }
        encoder.finish();
        assert!(out.len() <= 4, "{}", out.len());
    }
}
