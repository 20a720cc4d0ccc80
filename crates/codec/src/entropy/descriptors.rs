//! Coding of match descriptors: adaptive models over a range coder.
//!
//! Descriptors of versioned data are very regular: most matches keep the distance of the one before or move it a little, and
//! gaps repeat. The models learn this across frames, without a header in any. `docs/FORMAT.md` ("Coded descriptors") specifies
//! what is done here.

use super::range::{Bit, RangeDecoder, RangeEncoder};
use crate::error::FrameError;
use crate::matcher::Match;

/// Distances that are multiples of this get their own code: archives, disk images and databases align their content to it.
const ALIGNMENT: u64 = 512;
/// Widest number that is coded, in bits: offsets stay below 2^62.
const MAX_BITS: u32 = 62;

/// A number of up to 62 bits: its bit length by a binary tree, the two bits below the leading one by the length, the rest even.
#[derive(Clone, Debug)]
struct Number {
    length: [Bit; 64],
    mantissa: [[Bit; 4]; 64],
}

impl Number {
    const NEW: Number = Number { length: [Bit::EVEN; 64], mantissa: [[Bit::EVEN; 4]; 64] };

    fn encode(&mut self, coder: &mut RangeEncoder<'_>, value: u64) {
        let bits = u64::BITS - value.leading_zeros();
        let mut node = 1;
        for shift in (0..6).rev() {
            let bit = bits >> shift & 1;
            coder.bit(&mut self.length[node], bit == 1);
            node = node << 1 | bit as usize;
        }
        if bits < 2 {
            return;
        }
        let below = bits - 1;
        let modelled = below.min(2);
        let mantissa = &mut self.mantissa[bits as usize];
        let mut node = 1;
        for shift in (below - modelled..below).rev() {
            let bit = value >> shift & 1;
            coder.bit(&mut mantissa[node], bit == 1);
            node = node << 1 | bit as usize;
        }
        coder.even_bits(value, below - modelled);
    }

    fn decode(&mut self, coder: &mut RangeDecoder<'_>) -> Result<u64, FrameError> {
        let mut node = 1;
        for _ in 0..6 {
            node = node << 1 | usize::from(coder.bit(&mut self.length[node]));
        }
        let bits = node as u32 - 64;
        if bits > MAX_BITS {
            return Err(FrameError::Field { field: "number length", value: bits.into(), allowed: "at most 62 bits" });
        }
        if bits < 2 {
            return Ok(bits.into());
        }
        let below = bits - 1;
        let modelled = below.min(2);
        let mantissa = &mut self.mantissa[bits as usize];
        let mut node = 1;
        for _ in 0..modelled {
            node = node << 1 | usize::from(coder.bit(&mut mantissa[node]));
        }
        // `node` is the leading one with the modelled bits behind it.
        Ok((node as u64) << (below - modelled) | coder.even_bits(below - modelled))
    }
}

/// How a match's distance relates to the one before; also the context of what is coded next to it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Same = 0,
    Near = 1,
    Far = 2,
}

/// The adaptive state of one entropy context, equal at both ends.
#[derive(Clone)]
pub(crate) struct DescriptorModels {
    count: Number,
    gap: [Number; 3],
    same: [Bit; 3],
    near: [Bit; 3],
    back: Bit,
    aligned: [Bit; 3],
    near_distance: [Number; 2],
    far_distance: [Number; 2],
    to_end: Bit,
    len: [Number; 3],
    last_distance: u64,
}

impl DescriptorModels {
    pub(crate) const NEW: DescriptorModels = DescriptorModels {
        count: Number::NEW,
        gap: [Number::NEW; 3],
        same: [Bit::EVEN; 3],
        near: [Bit::EVEN; 3],
        back: Bit::EVEN,
        aligned: [Bit::EVEN; 3],
        near_distance: [Number::NEW; 2],
        far_distance: [Number::NEW; 2],
        to_end: Bit::EVEN,
        len: [Number::NEW; 3],
        last_distance: 0,
    };

    /// Appends the coded descriptors of the block at `offset` of `block_len` bytes. `matches` is not empty.
    pub(crate) fn encode(&mut self, matches: &[Match], offset: u64, block_len: usize, out: &mut Vec<u8>) {
        let mut coder = RangeEncoder::new(out);
        self.count.encode(&mut coder, matches.len() as u64 - 1);
        let mut previous = Kind::Same;
        let mut done = 0;
        for (i, found) in matches.iter().enumerate() {
            self.gap[previous as usize].encode(&mut coder, u64::from(found.at) - done);
            let distance = offset + u64::from(found.at) - found.source;
            let kind = self.encode_distance(&mut coder, previous, distance);
            done = found.end() as u64;
            let last = i + 1 == matches.len();
            let to_end = last && done == block_len as u64;
            if last {
                coder.bit(&mut self.to_end, to_end);
            }
            if !to_end {
                self.len[kind as usize].encode(&mut coder, u64::from(found.len) - 1);
            }
            previous = kind;
        }
        coder.finish();
    }

    fn encode_distance(&mut self, coder: &mut RangeEncoder<'_>, previous: Kind, distance: u64) -> Kind {
        let same = distance == self.last_distance;
        coder.bit(&mut self.same[previous as usize], same);
        if same {
            return Kind::Same;
        }
        let step = distance.abs_diff(self.last_distance);
        // A near distance must save enough to pay for its sign.
        let near = step < distance / 8;
        coder.bit(&mut self.near[previous as usize], near);
        let (kind, value, numbers) = if near {
            coder.bit(&mut self.back, distance < self.last_distance);
            (Kind::Near, step, &mut self.near_distance)
        } else {
            (Kind::Far, distance, &mut self.far_distance)
        };
        let aligned = value % ALIGNMENT == 0;
        coder.bit(&mut self.aligned[kind as usize], aligned);
        let value = if aligned { value / ALIGNMENT } else { value };
        numbers[usize::from(aligned)].encode(coder, value - 1);
        self.last_distance = distance;
        kind
    }

    /// Reads the descriptors of the block at `offset` of `block_len` bytes. What is returned is ascending and inside the block,
    /// and sources are below their matches; whether they may be referred to is for the caller to check.
    ///
    /// After an error the models are out of step.
    pub(crate) fn decode(
        &mut self,
        section: &[u8],
        offset: u64,
        block_len: usize,
        matches: &mut Vec<Match>,
    ) -> Result<(), FrameError> {
        let mut coder = RangeDecoder::new(section);
        let count = self.count.decode(&mut coder)? + 1;
        if count > block_len as u64 {
            return Err(FrameError::TooLarge { field: "match count", value: count, limit: block_len as u64 });
        }
        let mut previous = Kind::Same;
        let mut done = 0u64;
        for i in 0..count {
            let gap = self.gap[previous as usize].decode(&mut coder)?;
            let at = done.checked_add(gap).filter(|&at| at < block_len as u64).ok_or(FrameError::Sum { block: block_len })?;
            let left = block_len as u64 - at;
            let (kind, distance) = self.decode_distance(&mut coder, previous)?;
            let to_end = i + 1 == count && coder.bit(&mut self.to_end);
            let len = if to_end { left } else { self.len[kind as usize].decode(&mut coder)?.saturating_add(1) };
            if len > left {
                return Err(FrameError::Sum { block: block_len });
            }
            let source = (offset + at)
                .checked_sub(distance)
                .ok_or(FrameError::Reference { source_offset: 0, len })?;
            matches.push(Match { at: at as u32, len: len as u32, source });
            done = at + len;
            previous = kind;
        }
        match coder.unread() {
            0 => Ok(()),
            extra => Err(FrameError::Excess { section: "descriptors", extra }),
        }
    }

    fn decode_distance(&mut self, coder: &mut RangeDecoder<'_>, previous: Kind) -> Result<(Kind, u64), FrameError> {
        if coder.bit(&mut self.same[previous as usize]) {
            return if self.last_distance == 0 { Err(BAD_DISTANCE) } else { Ok((Kind::Same, self.last_distance)) };
        }
        let near = coder.bit(&mut self.near[previous as usize]);
        let back = near && coder.bit(&mut self.back);
        let (kind, numbers) =
            if near { (Kind::Near, &mut self.near_distance) } else { (Kind::Far, &mut self.far_distance) };
        let aligned = coder.bit(&mut self.aligned[kind as usize]);
        // At most 2^62, times 512 must be checked.
        let value = numbers[usize::from(aligned)].decode(coder)? + 1;
        let value = if aligned { value.checked_mul(ALIGNMENT) } else { Some(value) };
        let distance = match (near, back) {
            (false, _) => value,
            (true, false) => value.and_then(|step| self.last_distance.checked_add(step)),
            (true, true) => value.and_then(|step| self.last_distance.checked_sub(step)),
        };
        self.last_distance = distance.filter(|&d| d > 0 && d >> MAX_BITS == 0).ok_or(BAD_DISTANCE)?;
        Ok((kind, self.last_distance))
    }
}

const BAD_DISTANCE: FrameError = FrameError::Field { field: "distance", value: 0, allowed: "1 to 2^62 - 1" };

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn blocks() -> impl Strategy<Value = Vec<(u64, Vec<Match>)>> {
        let token = (0u32..300, 1u32..2000, prop_oneof![Just(0u64), 1..5u64, 512..1_000_000_000u64, (1u64..1_000_000).prop_map(|d| d * 512)]);
        proptest::collection::vec((1u64 << 32..1 << 40, proptest::collection::vec(token, 1..30), any::<bool>()), 1..6).prop_map(
            |blocks| {
                blocks
                    .into_iter()
                    .map(|(offset, tokens, _)| {
                        let (mut at, mut last, mut matches) = (0, 77, Vec::new());
                        for (gap, len, distance) in tokens {
                            at += gap;
                            last = if distance == 0 { last } else { distance };
                            matches.push(Match { at, len, source: offset + u64::from(at) - last });
                            at += len;
                        }
                        (offset, matches)
                    })
                    .collect()
            },
        )
    }

    proptest! {
        #[test]
        fn round_trip_across_frames(blocks in blocks(), slack in 0usize..3) {
            let (mut writer, mut reader) = (DescriptorModels::NEW, DescriptorModels::NEW);
            for (offset, matches) in blocks {
                let block_len = matches.last().unwrap().end() + slack;
                let mut section = Vec::new();
                writer.encode(&matches, offset, block_len, &mut section);
                let mut decoded = Vec::new();
                reader.decode(&section, offset, block_len, &mut decoded).unwrap();
                prop_assert_eq!(decoded, matches);
                prop_assert_eq!(reader.last_distance, writer.last_distance);
            }
        }

        #[test]
        fn garbage_gives_an_error_or_matches_inside_the_block(section in proptest::collection::vec(any::<u8>(), 0..200), block_len in 1usize..70000) {
            let mut matches = Vec::new();
            let mut models = DescriptorModels::NEW;
            let _ = models.decode(&section, 1 << 20, block_len, &mut matches);
            let mut done = 0;
            for found in matches {
                prop_assert!(found.at as usize >= done && found.len > 0 && found.end() <= block_len);
                prop_assert!(found.source < (1 << 20) + u64::from(found.at));
                done = found.end();
            }
        }
    }
}
