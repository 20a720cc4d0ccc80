//! Descriptors in columns: of many matches, numbers as bytes, each kind of byte in a column of its
//! own. Decoding takes a quarter of what the adaptive models take; a few matches take fewer bytes
//! with these.

use super::columns::{ColumnReader, ColumnWriter, LengthModels, NewCodes};
use super::descriptors::{DescriptorSection, FixedWidth};
use super::symbols::SectionWriter;
use crate::error::FrameError;
use crate::format::varint;
use crate::matcher::Match;
use oncewire_kernels::Kernels;

/// From as many matches on, columns take fewer bytes or hardly more.
pub(crate) const MANY_MATCHES: usize = 64;

/// Gaps from this on have 1, 2 or 3 bytes among the extra ones.
const LONG_GAP: u64 = 253;
/// How a length is stated: directly above the shortest, or by one, two or three extra bytes.
const LENGTHS: usize = 36;
const DIRECT: u64 = 33;
const SHORTEST: u64 = 12;

/// How a distance is stated: as the one before, as a difference of one or two bytes to it, by two
/// to five bytes, or with the frame's fixed width.
const SAME: usize = 0;
const NEAR: usize = 1;
const NEAR_TWO: usize = 2;
const TWO: usize = 3;
const THREE: usize = 4;
const FOUR: usize = 5;
const FIVE: usize = 6;
const CLASSES: usize = 7;
/// Takes the place of [`TWO`] where positions have a fixed width.
const FIXED: usize = TWO;

// The columns, in the order of a section.
const GAP: usize = 0;
const KIND: usize = 1;
const DELTA: usize = 2;
const LOW: usize = 3;
const DELTA_HIGH: usize = 4;
const HIGH: usize = 5;
const SECOND: usize = 6;
const THIRD: usize = 7;
const FOURTH: usize = 8;
const FIFTH: usize = 9;
const COLUMNS: usize = 10;

/// The codes of the columns at the writer.
pub(crate) struct PlaneWriter {
    columns: [ColumnWriter; COLUMNS],
    models: LengthModels,
}

/// Buffers that writers of all contexts share.
#[derive(Default)]
pub(crate) struct PlaneBuffers {
    columns: [Vec<u8>; COLUMNS],
    /// Distances of fixed width.
    fixed: Vec<u8>,
    extra: Vec<u8>,
    coder: SectionWriter,
}

impl PlaneBuffers {
    /// Memory as of now, in bytes.
    pub(crate) fn memory(&self) -> usize {
        let columns: usize = self.columns.iter().map(Vec::capacity).sum();
        columns + self.fixed.capacity() + self.extra.capacity() + self.coder.memory()
    }

    /// At most, in bytes, for a number of matches: one byte in each column, five of a fixed width,
    /// and six extra ones, in buffers that double.
    pub(crate) const fn most(matches: usize) -> usize {
        2 * matches * (COLUMNS + 5 + 6) + (16 << 10)
    }
}

impl PlaneWriter {
    pub(crate) const NEW: PlaneWriter =
        PlaneWriter { columns: [ColumnWriter::NEW; COLUMNS], models: LengthModels::NEW };

    /// Appends the descriptors of the block at `offset`. The length of the section depends on
    /// nothing that lies in the log between the sources, or between them and the block, if positions
    /// have a `fixed` width. `last_distance` is that of the match before the block, and becomes that
    /// of the last one.
    pub(crate) fn encode(
        &mut self,
        buffers: &mut PlaneBuffers,
        matches: &[Match],
        (offset, last_distance): (u64, &mut u64),
        fixed_width: Option<FixedWidth<'_>>,
        codes: &mut NewCodes,
        out: &mut Vec<u8>,
    ) {
        let PlaneBuffers { columns, fixed, extra, coder } = buffers;
        columns.iter_mut().for_each(Vec::clear);
        fixed.clear();
        extra.clear();
        let mut done = 0;
        for (nth, found) in matches.iter().enumerate() {
            let gap = u64::from(found.at) - done;
            done = found.end() as u64;
            if gap < LONG_GAP {
                columns[GAP].push(gap as u8);
            } else {
                let bytes = bytes_of(gap);
                columns[GAP].push((LONG_GAP - 1) as u8 + bytes as u8);
                extra.extend_from_slice(&gap.to_le_bytes()[..bytes]);
            }
            let len = u64::from(found.len);
            let code = if (SHORTEST..SHORTEST + DIRECT).contains(&len) {
                len - SHORTEST
            } else {
                let bytes = bytes_of(len - 1);
                extra.extend_from_slice(&(len - 1).to_le_bytes()[..bytes]);
                DIRECT - 1 + bytes as u64
            };
            let distance = offset + u64::from(found.at) - found.source;
            let change = distance.wrapping_sub(*last_distance) as i64;
            *last_distance = distance;
            let is_joined = fixed_width.is_none_or(|fixed| fixed.joined[nth]);
            let near_two = i16::try_from(change).ok().map(i16::to_le_bytes);
            let [b0, b1, b2, b3, b4, ..] = distance.to_le_bytes();
            let class = if is_joined && change == 0 {
                SAME
            } else if is_joined && i8::try_from(change).is_ok() {
                columns[DELTA].push(change as u8);
                NEAR
            } else if let Some(FixedWidth { width, .. }) = fixed_width {
                match near_two.filter(|_| is_joined) {
                    Some([low, high]) => {
                        columns[LOW].push(low);
                        columns[DELTA_HIGH].push(high);
                        NEAR_TWO
                    }
                    None => {
                        width.put(fixed, distance);
                        FIXED
                    }
                }
            } else if distance <= 0xffff {
                columns[LOW].push(b0);
                columns[HIGH].push(b1);
                TWO
            } else if let Some([low, high]) = near_two {
                columns[LOW].push(low);
                columns[DELTA_HIGH].push(high);
                NEAR_TWO
            } else {
                columns[LOW].push(b0);
                columns[SECOND].push(b1);
                columns[THIRD].push(b2);
                match distance >> 24 {
                    0 => THREE,
                    high => {
                        columns[FOURTH].push(b3);
                        if high <= 0xff {
                            FOUR
                        } else {
                            // Logs are at most 2^40 bytes long.
                            columns[FIFTH].push(b4);
                            FIVE
                        }
                    }
                }
            };
            columns[KIND].push((class * LENGTHS) as u8 + code as u8);
        }
        varint::put(out, matches.len() as u64);
        for (column, symbols) in self.columns.iter_mut().zip(&*columns) {
            column.write(symbols, &mut self.models, codes, coder, out);
        }
        out.extend_from_slice(fixed);
        out.extend_from_slice(extra);
    }
}

/// Bytes of a number below 2^24, at least one.
fn bytes_of(number: u64) -> usize {
    match number {
        0..=0xff => 1,
        0x100..=0xffff => 2,
        _ => 3,
    }
}

/// The codes of the columns at the reader.
#[derive(Clone)]
pub(crate) struct PlaneReader {
    columns: [ColumnReader; COLUMNS],
    models: LengthModels,
}

/// The class and the length code of each kind; the class is [`CLASSES`] if there is none.
static KINDS: [(u8, u8); 256] = {
    let mut kinds = [(CLASSES as u8, 0); 256];
    let mut kind = 0;
    while kind < CLASSES * LENGTHS {
        kinds[kind] = ((kind / LENGTHS) as u8, (kind % LENGTHS) as u8);
        kind += 1;
    }
    kinds
};

impl PlaneReader {
    pub(crate) const NEW: PlaneReader =
        PlaneReader { columns: [ColumnReader::NEW; COLUMNS], models: LengthModels::NEW };

    /// Memory in bytes, at most.
    pub(crate) const MEMORY: usize = size_of::<LengthModels>() + COLUMNS * ColumnReader::MEMORY;

    /// Forgets all codes.
    pub(crate) fn reset(&mut self) {
        self.columns.iter_mut().for_each(ColumnReader::reset);
        self.models = LengthModels::NEW;
    }

    /// Reads the descriptors of a block. What is returned is ascending and inside the block, and
    /// sources are below their matches; whether they may be referred to is for the caller to check.
    /// `symbols` is scratch.
    ///
    /// After an error the codes and `last_distance` are out of sync.
    // More than 100 lines: a hot loop over columns that all share one position.
    pub(crate) fn decode(
        &mut self,
        kernels: Kernels,
        section: DescriptorSection<'_>,
        codes: &mut NewCodes,
        last_distance: &mut u64,
        symbols: &mut Vec<u8>,
        matches: &mut Vec<Match>,
    ) -> Result<(), FrameError> {
        const SHORT: FrameError = FrameError::Short { section: "descriptors" };
        let DescriptorSection { bytes: mut section, offset, block_len, width, .. } = section;
        let count = varint::field(&mut section, "match count")?;
        if count == 0 || count > block_len as u64 {
            return Err(FrameError::TooLarge {
                field: "match count",
                value: count,
                limit: block_len as u64,
            });
        }
        let count = count as usize;
        // A distance has at most five bytes, so there are never more of all columns.
        let most = count * 7;
        if symbols.len() < most {
            symbols.resize(most, 0);
        }
        let mut rest = &mut symbols[..most];
        macro_rules! column {
            ($nth:expr, $len:expr) => {{
                // There are at most seven bytes for each match.
                let symbols = rest.split_off_mut(..$len).unwrap_or_default();
                let models = &mut self.models;
                self.columns[$nth].read(kernels, models, codes, &mut section, symbols)?;
                &*symbols
            }};
        }
        let gaps = column!(GAP, count);
        let kinds = column!(KIND, count);
        let mut counts = [0; CLASSES + 1];
        for &kind in kinds {
            counts[usize::from(KINDS[usize::from(kind)].0)] += 1;
        }
        if counts[CLASSES] > 0 || (width.is_some() && counts[THREE..].iter().any(|&n| n > 0)) {
            return Err(FrameError::Field {
                field: "kind of a match",
                value: CLASSES as u64,
                allowed: "0 to 251, and 0 to 143 with a fixed width",
            });
        }
        let [_, near, near_two, two, three, four, five, _] = counts;
        let (two, fixed) = if width.is_some() { (0, two) } else { (two, 0) };
        let wide = three + four + five;
        let mut delta = column!(DELTA, near).iter();
        let mut low = column!(LOW, near_two + two + wide).iter();
        let mut delta_high = column!(DELTA_HIGH, near_two).iter();
        let mut high = column!(HIGH, two).iter();
        let mut second = column!(SECOND, wide).iter();
        let mut third = column!(THIRD, wide).iter();
        let mut fourth = column!(FOURTH, four + five).iter();
        let mut fifth = column!(FIFTH, five).iter();
        let mut fixed_bytes = match width {
            Some(width) => {
                let len = fixed * width.bytes();
                let (fixed, rest) = section.split_at_checked(len).ok_or(SHORT)?;
                section = rest;
                fixed
            }
            None => &[],
        };
        let mut extra = |bytes: usize| -> Result<u64, FrameError> {
            let (number, rest) = section.split_at_checked(bytes).ok_or(SHORT)?;
            section = rest;
            Ok(number.iter().rev().fold(0, |number, &byte| number << 8 | u64::from(byte)))
        };
        let next = |column: &mut std::slice::Iter<'_, u8>| u64::from(*column.next().unwrap_or(&0));
        matches.reserve(count);
        let (mut at, mut distance) = (0, *last_distance);
        for (&gap, &kind) in gaps.iter().zip(kinds) {
            let mut gap = u64::from(gap);
            if gap >= LONG_GAP {
                gap = extra((gap - LONG_GAP) as usize + 1)?;
            }
            let (class, code) = KINDS[usize::from(kind)];
            let mut len = u64::from(code) + SHORTEST;
            if u64::from(code) >= DIRECT {
                len = extra((u64::from(code) - DIRECT) as usize + 1)? + 1;
            }
            distance = match usize::from(class) {
                SAME => distance,
                NEAR => distance.wrapping_add_signed(i64::from(next(&mut delta) as i8)),
                NEAR_TWO => {
                    let change = next(&mut low) | next(&mut delta_high) << 8;
                    distance.wrapping_add_signed(i64::from(change as i16))
                }
                TWO => match width {
                    Some(width) => width.take(&mut fixed_bytes).ok_or(SHORT)?,
                    None => next(&mut low) | next(&mut high) << 8,
                },
                class => {
                    let three = next(&mut low) | next(&mut second) << 8 | next(&mut third) << 16;
                    match class {
                        THREE => three,
                        FOUR => three | next(&mut fourth) << 24,
                        _ => three | next(&mut fourth) << 24 | next(&mut fifth) << 32,
                    }
                }
            };
            at += gap;
            let left = (block_len as u64).saturating_sub(at);
            if len > left {
                return Err(FrameError::Sum { block: block_len });
            }
            // Of a change below 0, the distance is far above every offset.
            if distance == 0 || distance > offset + at {
                return Err(FrameError::Field {
                    field: "distance",
                    value: distance,
                    allowed: "at least 1, and not before the log",
                });
            }
            matches.push(Match { at: at as u32, len: len as u32, source: offset + at - distance });
            at += len;
        }
        *last_distance = distance;
        if section.is_empty() {
            Ok(())
        } else {
            Err(FrameError::Excess { section: "descriptors", extra: section.len() })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log::{Geometry, Width};
    use proptest::prelude::*;

    fn blocks() -> impl Strategy<Value = Vec<(u64, Vec<Match>)>> {
        let token = (
            prop_oneof![8 => 0u32..300, 1 => 0u32..70_000],
            prop_oneof![8 => 1u32..60, 2 => 1u32..2000, 1 => 1u32..100_000],
            prop_oneof![Just(0i64), -5..5i64, -40_000..40_000i64, 1..1i64 << 34,],
        );
        let tokens = proptest::collection::vec(token, 1..300);
        proptest::collection::vec((1u64 << 38..1 << 39, tokens), 1..6).prop_map(|blocks| {
            let matches = |(offset, tokens): (u64, Vec<_>)| {
                let (mut at, mut last, mut matches) = (0, 77i64, Vec::new());
                for (gap, len, step) in tokens {
                    at += gap;
                    last = if step > 40_000 { step } else { (last + step).max(1) };
                    matches.push(Match { at, len, source: offset + u64::from(at) - last as u64 });
                    at += len;
                }
                (offset, matches)
            };
            blocks.into_iter().map(matches).collect()
        })
    }

    fn section_of(
        bytes: &[u8],
        offset: u64,
        block_len: usize,
        width: Option<Width>,
    ) -> DescriptorSection<'_> {
        DescriptorSection { bytes, in_columns: true, offset, block_len, width }
    }

    proptest! {
        #[test]
        fn round_trip_across_frames(blocks in blocks(), slack in 0usize..3, chance: u64) {
            let (mut writer, mut reader) = (PlaneWriter::NEW, PlaneReader::NEW);
            let (mut buffers, mut symbols) = (PlaneBuffers::default(), Vec::new());
            let (mut last, mut read_last) = (0, 0);
            let width = Width::of(Geometry::new(1 << 40, 0).unwrap());
            for (nth, (offset, matches)) in blocks.into_iter().enumerate() {
                let is_fixed = chance >> nth & 1 == 1;
                let joined: Vec<bool> =
                    (0..matches.len()).map(|nth| chance.rotate_left(nth as u32) % 3 > 0).collect();
                let block_len = matches.last().unwrap().end() + slack;
                let mut section = Vec::new();
                let fixed = Some(FixedWidth { width, joined: &joined }).filter(|_| is_fixed);
                let mut codes = NewCodes::of(block_len);
                let place = (offset, &mut last);
                writer.encode(&mut buffers, &matches, place, fixed, &mut codes.clone(), &mut section);
                prop_assert!(buffers.memory() <= PlaneBuffers::most(matches.len().max(300)));
                let width = Some(width).filter(|_| is_fixed);
                let mut decoded = Vec::new();
                let section = section_of(&section, offset, block_len, width);
                reader.decode(Kernels::detect(), section, &mut codes, &mut read_last, &mut symbols, &mut decoded).unwrap();
                prop_assert_eq!(decoded, matches);
                prop_assert_eq!(read_last, last);
            }
        }

        #[test]
        fn garbage_gives_an_error_or_matches_inside_the_block(
            section in proptest::collection::vec(any::<u8>(), 0..200),
            block_len in 1usize..70000,
        ) {
            let mut matches = Vec::new();
            let width = Width::stated(section.first().copied().unwrap_or(0) % 64);
            let (mut last, mut symbols) = (u64::from(section.len() as u8), Vec::new());
            let mut reader = PlaneReader::NEW;
            let section = section_of(&section, 1 << 20, block_len, width);
            let mut codes = NewCodes::of(block_len);
            let _ = reader.decode(Kernels::detect(), section, &mut codes, &mut last, &mut symbols, &mut matches);
            let mut done = 0;
            for found in matches {
                prop_assert!(found.at as usize >= done && found.len > 0 && found.end() <= block_len);
                prop_assert!(found.source < (1 << 20) + u64::from(found.at));
                done = found.end();
            }
        }
    }
}
