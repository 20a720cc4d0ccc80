//! Coding of match descriptors: adaptive models over rANS.
//!
//! Descriptors of versioned data are very regular: most matches keep the distance of the one before
//! or move it a little, and gaps repeat. The models learn this across frames, without a header in
//! any. `docs/FORMAT.md` ("Coded descriptors") specifies what is done here.

use super::symbols::{SectionReader, SectionWriter, Symbols};
use crate::error::FrameError;
use crate::log::Width;
use crate::matcher::Match;

/// A section of coded descriptors, and what of its frame it is read with.
#[derive(Clone, Copy)]
pub(crate) struct DescriptorSection<'a> {
    pub(crate) bytes: &'a [u8],
    pub(crate) in_columns: bool,
    pub(crate) offset: u64,
    pub(crate) block_len: usize,
    pub(crate) width: Option<Width>,
}

/// Distances that are multiples of this get their own code: archives, disk images and databases
/// align their content to it.
const ALIGNMENT: u64 = 512;
/// Widest number that is coded, in bits: offsets stay below 2^62.
const MAX_BITS: u32 = 62;

/// A number of up to 62 bits: its bit length by symbols, each 15 meaning "15 and more"; the three
/// bits below the leading one by a symbol under the bit length; the rest evenly.
#[derive(Clone, Debug)]
pub(super) struct Number {
    length: [Symbols; 3],
    mantissa: [Symbols; 32],
}

impl Number {
    pub(super) const NEW: Number =
        Number { length: [Symbols::EVEN; 3], mantissa: [Symbols::EVEN; 32] };

    #[inline(always)]
    pub(super) fn encode(&mut self, coder: &mut SectionWriter, value: u64) {
        let bits = u64::BITS - value.leading_zeros();
        let mut left = bits;
        let mut level = 0;
        loop {
            let symbol = left.min(15);
            coder.symbol(&mut self.length[level], symbol as usize);
            if symbol < 15 {
                break;
            }
            left -= 15;
            level = (level + 1).min(2);
        }
        if bits < 2 {
            return;
        }
        let below = bits - 1;
        let modelled = below.min(3);
        let top = value >> (below - modelled) & ((1 << modelled) - 1);
        coder.symbol(&mut self.mantissa[bits.min(31) as usize], top as usize);
        coder.even_bits(value, below - modelled);
    }

    #[inline(always)]
    pub(super) fn decode(&mut self, coder: &mut SectionReader<'_>) -> Result<u64, FrameError> {
        let mut bits = 0;
        let mut level = 0;
        loop {
            let symbol = coder.symbol(&mut self.length[level]) as u32;
            bits += symbol;
            if bits > MAX_BITS {
                return Err(FrameError::Field {
                    field: "number length",
                    value: bits.into(),
                    allowed: "at most 62 bits",
                });
            }
            if symbol < 15 {
                break;
            }
            level = (level + 1).min(2);
        }
        if bits < 2 {
            return Ok(bits.into());
        }
        let below = bits - 1;
        let modelled = below.min(3);
        let top = coder.symbol(&mut self.mantissa[bits.min(31) as usize]) as u64;
        if top >> modelled != 0 {
            return Err(FrameError::Field {
                field: "number",
                value: top,
                allowed: "as many bits as its length says",
            });
        }
        Ok((1 << modelled | top) << (below - modelled) | coder.even_bits(below - modelled))
    }
}

/// How a match's distance relates to the one before; also the context of what is coded next to it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Same = 0,
    Near = 1,
    Far = 2,
}

// Symbols of the step from one distance to the next. The last two kinds come with 1 added if
// aligned.
const SAME: usize = 0;
const NEAR_UP: usize = 1;
const NEAR_DOWN: usize = 3;
const FAR: usize = 5;
/// A distance of fixed width.
const FIXED: usize = 7;

/// How distances are written whose size must not show how much of the log belongs to others.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FixedWidth<'a> {
    pub(crate) width: Width,
    /// Of each match, whether nothing of others can lie between its source and that of the match
    /// before it. Only then may it be said how one follows from the other.
    pub(crate) joined: &'a [bool],
}

/// Buffers for writing a section, kept between frames.
#[derive(Default)]
pub(crate) struct DescriptorWriter(SectionWriter);

impl DescriptorWriter {
    /// Memory as of now, in bytes.
    pub(crate) fn memory(&self) -> usize {
        self.0.memory()
    }
}

/// The adaptive state of one entropy context, equal at both ends.
#[derive(Clone)]
pub(crate) struct DescriptorModels {
    count: Number,
    gap: [Number; 3],
    step: [Symbols; 3],
    /// Of aligned numbers second.
    near: [Number; 2],
    far: [Number; 2],
    to_end: Symbols,
    len: [Number; 3],
    last_distance: u64,
}

impl DescriptorModels {
    pub(crate) const NEW: DescriptorModels = DescriptorModels {
        count: Number::NEW,
        gap: [Number::NEW; 3],
        step: [Symbols::EVEN; 3],
        near: [Number::NEW; 2],
        far: [Number::NEW; 2],
        to_end: Symbols::EVEN,
        len: [Number::NEW; 3],
        last_distance: 0,
    };

    /// The distance of the last match.
    pub(super) fn last_distance(&mut self) -> &mut u64 {
        &mut self.last_distance
    }

    /// Appends the coded descriptors of the block at `offset` of `block_len` bytes. `matches` is
    /// not empty.
    ///
    /// With a `fixed` width, the length of the section depends on nothing that lies in the log
    /// between the sources, or between them and the block.
    pub(crate) fn encode(
        &mut self,
        coder: &mut DescriptorWriter,
        matches: &[Match],
        offset: u64,
        block_len: usize,
        fixed: Option<FixedWidth<'_>>,
        out: &mut Vec<u8>,
    ) {
        let coder = &mut coder.0;
        self.count.encode(coder, matches.len() as u64 - 1);
        let mut previous = Kind::Same;
        let mut done = 0;
        for (i, found) in matches.iter().enumerate() {
            self.gap[previous as usize].encode(coder, u64::from(found.at) - done);
            let distance = offset + u64::from(found.at) - found.source;
            let (width, is_joined) = match fixed {
                // Where it lies within the block is the domain's own.
                Some(fixed) => {
                    (Some(fixed.width).filter(|_| found.source < offset), fixed.joined[i])
                }
                None => (None, true),
            };
            let kind = self.encode_distance(coder, previous, distance, width, is_joined);
            done = found.end() as u64;
            let last = i + 1 == matches.len();
            let to_end = last && done == block_len as u64;
            if last {
                coder.symbol(&mut self.to_end, usize::from(to_end));
            }
            if !to_end {
                self.len[kind as usize].encode(coder, u64::from(found.len) - 1);
            }
            previous = kind;
        }
        coder.finish(out);
    }

    #[inline(always)]
    fn encode_distance(
        &mut self,
        coder: &mut SectionWriter,
        previous: Kind,
        distance: u64,
        width: Option<Width>,
        is_joined: bool,
    ) -> Kind {
        let step_model = &mut self.step[previous as usize];
        if distance == self.last_distance && is_joined {
            coder.symbol(step_model, SAME);
            return Kind::Same;
        }
        let step = distance.abs_diff(self.last_distance);
        // Three bits fewer pay for the symbol.
        let is_far = match width {
            Some(width) => step >> width.bits().saturating_sub(3) != 0,
            None => step >= distance / 8,
        };
        if let Some(width) = width.filter(|_| is_far || !is_joined) {
            coder.symbol(step_model, FIXED);
            coder.even_bits(distance - 1, width.bits().into());
            self.last_distance = distance;
            return Kind::Far;
        }
        let (kind, symbol, value, numbers) = if is_far || !is_joined {
            (Kind::Far, FAR, distance, &mut self.far)
        } else if distance > self.last_distance {
            (Kind::Near, NEAR_UP, step, &mut self.near)
        } else {
            (Kind::Near, NEAR_DOWN, step, &mut self.near)
        };
        let aligned = value % ALIGNMENT == 0;
        coder.symbol(step_model, symbol + usize::from(aligned));
        let value = if aligned { value / ALIGNMENT } else { value };
        numbers[usize::from(aligned)].encode(coder, value - 1);
        self.last_distance = distance;
        kind
    }

    /// Reads the descriptors of the block at `offset` of `block_len` bytes. What is returned is
    /// ascending and inside the block, and sources are below their matches; whether they may be
    /// referred to is for the caller to check. `width` is that of the frame's positions, if it is
    /// fixed.
    ///
    /// After an error the models are out of sync.
    pub(crate) fn decode(
        &mut self,
        section: &[u8],
        offset: u64,
        block_len: usize,
        width: Option<Width>,
        matches: &mut Vec<Match>,
    ) -> Result<(), FrameError> {
        let mut coder = SectionReader::new(section)?;
        let count = self.count.decode(&mut coder)? + 1;
        if count > block_len as u64 {
            return Err(FrameError::TooLarge {
                field: "match count",
                value: count,
                limit: block_len as u64,
            });
        }
        let mut previous = Kind::Same;
        let mut done = 0u64;
        for i in 0..count {
            let gap = self.gap[previous as usize].decode(&mut coder)?;
            let at = done
                .checked_add(gap)
                .filter(|&at| at < block_len as u64)
                .ok_or(FrameError::Sum { block: block_len })?;
            let left = block_len as u64 - at;
            let (kind, distance) = self.decode_distance(&mut coder, previous, width)?;
            let to_end = i + 1 == count && coder.symbol(&mut self.to_end) != 0;
            let len = if to_end {
                left
            } else {
                self.len[kind as usize].decode(&mut coder)?.saturating_add(1)
            };
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
        coder.finish()
    }

    #[inline(always)]
    fn decode_distance(
        &mut self,
        coder: &mut SectionReader<'_>,
        previous: Kind,
        width: Option<Width>,
    ) -> Result<(Kind, u64), FrameError> {
        let symbol = coder.symbol(&mut self.step[previous as usize]);
        if symbol == SAME {
            return if self.last_distance == 0 {
                Err(BAD_DISTANCE)
            } else {
                Ok((Kind::Same, self.last_distance))
            };
        }
        if let Some(width) = width.filter(|_| symbol == FIXED) {
            self.last_distance = coder.even_bits(width.bits().into()) + 1;
            return Ok((Kind::Far, self.last_distance));
        }
        let (kind, base, numbers) = match symbol {
            NEAR_UP..NEAR_DOWN => (Kind::Near, NEAR_UP, &mut self.near),
            NEAR_DOWN..FAR => (Kind::Near, NEAR_DOWN, &mut self.near),
            FAR..=6 => (Kind::Far, FAR, &mut self.far),
            _ => {
                return Err(FrameError::Field {
                    field: "distance step",
                    value: symbol as u64,
                    allowed: "0 to 6, and 7 with a fixed width",
                });
            }
        };
        let aligned = symbol - base;
        // At most 2^62; times 512 must be checked.
        let value = numbers[aligned].decode(coder)? + 1;
        let value = if aligned == 1 { value.checked_mul(ALIGNMENT) } else { Some(value) };
        let distance = match base {
            NEAR_UP => value.and_then(|step| self.last_distance.checked_add(step)),
            NEAR_DOWN => value.and_then(|step| self.last_distance.checked_sub(step)),
            _ => value,
        };
        self.last_distance =
            distance.filter(|&d| d > 0 && d >> MAX_BITS == 0).ok_or(BAD_DISTANCE)?;
        Ok((kind, self.last_distance))
    }
}

const BAD_DISTANCE: FrameError =
    FrameError::Field { field: "distance", value: 0, allowed: "1 to 2^62 - 1" };

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log::Geometry;
    use proptest::prelude::*;

    fn blocks() -> impl Strategy<Value = Vec<(u64, Vec<Match>)>> {
        let token = (
            0u32..300,
            1u32..2000,
            prop_oneof![
                Just(0u64),
                1..5u64,
                512..1_000_000_000u64,
                (1u64..1_000_000).prop_map(|d| d * 512)
            ],
        );
        proptest::collection::vec(
            (1u64 << 32..1 << 40, proptest::collection::vec(token, 1..30), any::<bool>()),
            1..6,
        )
        .prop_map(|blocks| {
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
        })
    }

    proptest! {
        #[test]
        fn round_trip_across_frames(blocks in blocks(), slack in 0usize..3, chance: u64) {
            let mut rng = (0..).map(|nth: u32| chance.rotate_left(7 * nth) % 3 > 0);
            let (mut writer, mut reader) = (DescriptorModels::NEW, DescriptorModels::NEW);
            let mut coder = DescriptorWriter::default();
            let width = Width::of(Geometry::new(1 << 40, 0).unwrap());
            for (offset, matches) in blocks {
                let (is_fixed, joined) = (rng.next().unwrap(), &mut rng);
                let joined: Vec<bool> = matches.iter().map(|_| joined.next().unwrap()).collect();
                let block_len = matches.last().unwrap().end() + slack;
                let mut section = Vec::new();
                let fixed = Some(FixedWidth { width, joined: &joined }).filter(|_| is_fixed);
                writer.encode(&mut coder, &matches, offset, block_len, fixed, &mut section);
                let mut decoded = Vec::new();
                let width = Some(width).filter(|_| is_fixed);
                reader.decode(&section, offset, block_len, width, &mut decoded).unwrap();
                prop_assert_eq!(decoded, matches);
                prop_assert_eq!(reader.last_distance, writer.last_distance);
            }
        }

        #[test]
        fn garbage_gives_an_error_or_matches_inside_the_block(section in proptest::collection::vec(any::<u8>(), 0..200), block_len in 1usize..70000) {
            let mut matches = Vec::new();
            let mut models = DescriptorModels::NEW;
            let width = Width::stated(section.first().copied().unwrap_or(0) % 64);
            let _ = models.decode(&section, 1 << 20, block_len, width, &mut matches);
            let mut done = 0;
            for found in matches {
                prop_assert!(found.at as usize >= done && found.len > 0 && found.end() <= block_len);
                prop_assert!(found.source < (1 << 20) + u64::from(found.at));
                done = found.end();
            }
        }
    }
}
