//! The layout of a frame in a datagram. `docs/LINK.md`, "Frames", is its specification.
//!
//! The record around it says where a frame ends, and the seal around that protects literals, so a
//! frame states neither, and has a checksum only where it depends on the log.

use crate::error::FrameError;
use crate::format::varint;
use crate::limits::MAX_OFFSET;
use crate::log::Width;
use crate::matcher::Match;

/// How literals are coded: 0 raw, 1 with a frozen context. 2 is kept for LZ4.
const LITERALS: u8 = 0b0000_0011;
const CODED: u8 = 0b0000_0001;
/// How matches are described: 0 not at all, 1 with distances as varints, 3 of fixed width. 2 is kept
/// for frozen models.
const DESCRIPTORS: u8 = 0b0000_1100;
const PLAIN: u8 = 0b0000_0100;
const FIXED: u8 = 0b0000_1100;
/// Whether the offset is absent, or has 2, 3 or 8 bytes.
const OFFSET: u8 = 0b0011_0000;
/// Whether the number of a frozen context is there.
const CONTEXT: u8 = 0b0100_0000;
const RESERVED: u8 = 0b1000_0000;

/// Bytes of the checksum at the end of a frame with matches.
pub(super) const CHECKSUM_LEN: usize = 8;

/// Bytes of a frame's offset.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum OffsetWidth {
    Two,
    Three,
    Eight,
}

impl OffsetWidth {
    /// The shortest that says where content at `offset` lies, to a decoder that has received some
    /// content that ended at `acknowledged` or after it, but nothing sent later than this.
    pub(super) fn of(offset: u64, acknowledged: u64) -> OffsetWidth {
        match offset.checked_sub(acknowledged) {
            Some(0..=0xffff) => OffsetWidth::Two,
            Some(0x1_0000..=0xff_ffff) => OffsetWidth::Three,
            _ => OffsetWidth::Eight,
        }
    }

    pub(super) fn bytes(self) -> usize {
        match self {
            OffsetWidth::Two => 2,
            OffsetWidth::Three => 3,
            OffsetWidth::Eight => 8,
        }
    }

    fn flags(self) -> u8 {
        match self {
            OffsetWidth::Two => 0b0001_0000,
            OffsetWidth::Three => 0b0010_0000,
            OffsetWidth::Eight => 0b0011_0000,
        }
    }
}

/// A frame's offset as it is sent: the low bytes, or all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SentOffset {
    low: u64,
    width: OffsetWidth,
}

impl SentOffset {
    /// Whether it is the whole offset.
    pub(super) fn whole(self) -> Option<u64> {
        (self.width == OffsetWidth::Eight).then_some(self.low)
    }

    /// The offset: the lowest with these low bytes from `base` on.
    pub(super) fn restore(self, base: u64) -> u64 {
        match self.width {
            OffsetWidth::Eight => self.low,
            width => {
                let mask = (1 << (8 * width.bytes())) - 1;
                base + (self.low.wrapping_sub(base) & mask)
            }
        }
    }
}

/// The parts of a frame: each has a value that the format allows, and lies inside the frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct DatagramView<'a> {
    pub(super) offset: Option<SentOffset>,
    pub(super) matches: Option<MatchView<'a>>,
    pub(super) literals: Literals<'a>,
    /// Of a frame with matches or a context.
    pub(super) checksum: Option<u64>,
}

/// A frame's literals.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Literals<'a> {
    Raw(&'a [u8]),
    /// `len` bytes, in a section that is coded with this context.
    Coded {
        context: u8,
        len: u64,
        section: &'a [u8],
    },
}

impl Literals<'_> {
    /// How many there are.
    pub(super) fn len(&self) -> u64 {
        match *self {
            Literals::Raw(literals) => literals.len() as u64,
            Literals::Coded { len, .. } => len,
        }
    }
}

/// The part of a frame that depends on the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct MatchView<'a> {
    descriptors: &'a [u8],
    /// Whether distances have the width of the log.
    is_fixed: bool,
}

impl<'a> DatagramView<'a> {
    /// Reads all of `frame`.
    ///
    /// # Errors
    /// [`FrameError::Short`] and [`FrameError::Field`].
    pub(super) fn parse(frame: &'a [u8]) -> Result<DatagramView<'a>, FrameError> {
        let (&flags, mut rest) =
            frame.split_first().ok_or(FrameError::Short { section: "flags" })?;
        let is_coded = flags & (LITERALS | CONTEXT) == CODED | CONTEXT;
        if flags & RESERVED != 0 || (flags & (LITERALS | CONTEXT) != 0 && !is_coded) {
            return Err(FrameError::Field {
                field: "flags",
                value: flags.into(),
                allowed: "raw literals, or kind 1 with a context; bit 7 zero",
            });
        }
        let width = match flags & OFFSET {
            0 => None,
            0b0001_0000 => Some(OffsetWidth::Two),
            0b0010_0000 => Some(OffsetWidth::Three),
            _ => Some(OffsetWidth::Eight),
        };
        let offset = match width {
            None => None,
            Some(width) => {
                let (bytes, after) = rest
                    .split_at_checked(width.bytes())
                    .ok_or(FrameError::Short { section: "offset" })?;
                rest = after;
                let low = bytes.iter().rev().fold(0, |low, &byte| low << 8 | u64::from(byte));
                Some(SentOffset { low, width })
            }
        };
        if let Some(value) = offset.and_then(SentOffset::whole).filter(|&at| at >= MAX_OFFSET) {
            return Err(FrameError::Field { field: "offset", value, allowed: "below 2^62" });
        }
        let context = match is_coded {
            true => Some(take_byte(&mut rest, "context")?),
            false => None,
        };
        let is_fixed = match flags & DESCRIPTORS {
            0 => None,
            PLAIN if offset.is_some() => Some(false),
            FIXED if offset.is_some() => Some(true),
            _ => {
                return Err(FrameError::Field {
                    field: "flags",
                    value: flags.into(),
                    allowed: "descriptors of kind 1 or 3, with an offset",
                });
            }
        };
        let described = match is_fixed {
            Some(_) => Some(varint::field(&mut rest, "descriptor length")?),
            None => None,
        };
        let mut checksum = None;
        if is_fixed.is_some() || is_coded {
            let (sections, sum) =
                rest.split_last_chunk().ok_or(FrameError::Short { section: "checksum" })?;
            checksum = Some(u64::from_le_bytes(*sum));
            rest = sections;
        }
        let mut matches = None;
        if let (Some(is_fixed), Some(len)) = (is_fixed, described) {
            let (descriptors, after) = usize::try_from(len)
                .ok()
                .and_then(|len| rest.split_at_checked(len))
                .ok_or(FrameError::Short { section: "descriptors" })?;
            matches = Some(MatchView { descriptors, is_fixed });
            rest = after;
        }
        let literals = match context {
            None => Literals::Raw(rest),
            Some(context) => {
                let len = varint::field(&mut rest, "literal count")?;
                Literals::Coded { context, len, section: rest }
            }
        };
        Ok(DatagramView { offset, matches, literals, checksum })
    }
}

fn take_byte(rest: &mut &[u8], section: &'static str) -> Result<u8, FrameError> {
    let (&byte, after) = rest.split_first().ok_or(FrameError::Short { section })?;
    *rest = after;
    Ok(byte)
}

impl MatchView<'_> {
    /// Appends the matches of content at `offset` with `literals` literals and at most `most`
    /// bytes, of which each is below 2^62, and returns its length. Matches ascend and are disjoint;
    /// each source lies below its match, and either in the content or below it.
    ///
    /// `log` is the width of distances in this log, if they have a fixed one.
    ///
    /// # Errors
    /// [`FrameError`].
    pub(super) fn read(
        &self,
        offset: u64,
        literals: usize,
        most: usize,
        log: Width,
        matches: &mut Vec<Match>,
    ) -> Result<usize, FrameError> {
        const SECTION: &str = "descriptors";
        let mut section = self.descriptors;
        let (mut done, mut literals_left, mut last) = (0u64, literals as u64, None);
        if section.is_empty() {
            return Err(FrameError::Short { section: SECTION });
        }
        while !section.is_empty() {
            let gap = varint::field(&mut section, SECTION)?;
            let coded = varint::field(&mut section, SECTION)?;
            let (len, is_same) = (coded >> 1, coded & 1 == 1);
            let distance = match last {
                Some(last) if is_same => last,
                None if is_same => {
                    return Err(FrameError::Field {
                        field: "descriptor",
                        value: coded,
                        allowed: "the distance of a match before only after one",
                    });
                }
                _ if self.is_fixed => {
                    log.take(&mut section).ok_or(FrameError::Short { section: SECTION })?
                }
                _ => varint::field(&mut section, SECTION)?,
            };
            literals_left =
                literals_left.checked_sub(gap).ok_or(FrameError::Sum { block: literals })?;
            // Neither sum overflows: gaps are no more than the literals, lengths are bounded below.
            let at = done + gap;
            if len == 0 || distance == 0 {
                return Err(FrameError::Field {
                    field: "descriptor",
                    value: 0,
                    allowed: "a length and a distance of at least 1",
                });
            }
            if len > most as u64 || at + len + literals_left > most as u64 {
                let value = at.saturating_add(len).saturating_add(literals_left);
                return Err(FrameError::TooLarge { field: "content", value, limit: most as u64 });
            }
            let bad = |source_offset| FrameError::Reference { source_offset, len };
            let source = (offset + at).checked_sub(distance).ok_or(bad(0))?;
            // What begins below the content also ends there.
            if source < offset && source + len > offset {
                return Err(bad(source));
            }
            matches.push(Match { at: at as u32, len: len as u32, source });
            done = at + len;
            last = Some(distance);
        }
        Ok((done + literals_left) as usize)
    }
}

/// Bytes of a varint.
fn varint_len(value: u64) -> usize {
    (u64::BITS - (value | 1).leading_zeros()).div_ceil(7) as usize
}

/// A match as it is described after others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Descriptor {
    /// Literals since the match before.
    pub(super) gap: usize,
    pub(super) len: usize,
    /// `None` if it is that of the match before.
    pub(super) distance: Option<u64>,
}

impl Descriptor {
    /// Bytes that it takes.
    pub(super) fn bytes(&self, width: Option<Width>) -> usize {
        let distance = self.distance.map_or(0, |distance| {
            width.map_or_else(|| varint_len(distance), |width| width.bytes())
        });
        varint_len(self.gap as u64) + varint_len(self.coded_len()) + distance
    }

    fn coded_len(&self) -> u64 {
        (self.len as u64) << 1 | u64::from(self.distance.is_none())
    }

    fn put(&self, width: Option<Width>, out: &mut Vec<u8>) {
        varint::put(out, self.gap as u64);
        varint::put(out, self.coded_len());
        match (self.distance, width) {
            (None, _) => {}
            (Some(distance), Some(width)) => width.put(out, distance),
            (Some(distance), None) => varint::put(out, distance),
        }
    }
}

/// Bytes of a frame's flags and offset.
pub(super) fn head_len(offset: OffsetWidth) -> usize {
    1 + offset.bytes()
}

/// Bytes that `len` bytes of descriptors take, with their length; none if there are none.
pub(super) fn descriptors_len(len: usize) -> usize {
    if len == 0 { 0 } else { varint_len(len as u64) + len }
}

/// Bytes that a frame with a context has beyond its head, its descriptors, and the section of `count`
/// literals.
pub(super) fn context_len(count: usize) -> usize {
    1 + varint_len(count as u64) + CHECKSUM_LEN
}

/// What a frame has before its literals.
#[derive(Clone, Copy, Debug)]
pub(super) struct Head<'a> {
    pub(super) offset: u64,
    pub(super) width: OffsetWidth,
    /// Of distances, if the log's have a fixed one.
    pub(super) log: Option<Width>,
    pub(super) descriptors: &'a [Descriptor],
    /// The number of a frozen context, and how many literals are coded with it.
    pub(super) context: Option<(u8, usize)>,
}

impl Head<'_> {
    /// Appends it. Literals follow, and a checksum if there are descriptors or a context.
    pub(super) fn write(&self, out: &mut Vec<u8>) {
        let Head { offset, width, log, descriptors, context } = *self;
        let matches = match (descriptors.is_empty(), log) {
            (true, _) => 0,
            (false, None) => PLAIN,
            (false, Some(_)) => FIXED,
        };
        let coded = if context.is_some() { CODED | CONTEXT } else { 0 };
        out.push(width.flags() | matches | coded);
        out.extend_from_slice(&offset.to_le_bytes()[..width.bytes()]);
        if let Some((number, _)) = context {
            out.push(number);
        }
        if !descriptors.is_empty() {
            let len: usize = descriptors.iter().map(|descriptor| descriptor.bytes(log)).sum();
            varint::put(out, len as u64);
            descriptors.iter().for_each(|descriptor| descriptor.put(log, out));
        }
        if let Some((_, count)) = context {
            varint::put(out, count as u64);
        }
    }
}

/// Appends a frame of literals only.
pub(super) fn write_literals(offset: u64, width: OffsetWidth, content: &[u8], out: &mut Vec<u8>) {
    Head { offset, width, log: None, descriptors: &[], context: None }.write(out);
    out.extend_from_slice(content);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn offsets_are_restored_from_any_base_between_acknowledged_and_own() {
        for acknowledged in [0, 1, 65_535, 65_536, 0x1234_5678, (1 << 61) - 3] {
            for ahead in [0u64, 1, 65_535, 65_536, 0xff_ffff, 0x100_0000, 1 << 40] {
                let offset = acknowledged + ahead;
                let width = OffsetWidth::of(offset, acknowledged);
                let mut frame = Vec::new();
                write_literals(offset, width, b"x", &mut frame);
                let view = DatagramView::parse(&frame).unwrap();
                assert_eq!(view.literals, Literals::Raw(b"x"));
                for base in [acknowledged, acknowledged + ahead / 2, offset] {
                    assert_eq!(view.offset.unwrap().restore(base), offset);
                }
            }
            assert_eq!(OffsetWidth::of(acknowledged, acknowledged + 1), OffsetWidth::Eight);
        }
    }

    #[test]
    fn a_descriptor_takes_the_bytes_that_it_says() {
        let geometry = crate::log::Geometry::new(1 << 30, 0).unwrap();
        for width in [None, Some(Width::of(geometry))] {
            for gap in [0, 127, 128, 65_535] {
                for len in [1, 63, 64, 8191, 8192, 65_536] {
                    for distance in [None, Some(1), Some(127), Some(128), Some((1 << 30) - 1)] {
                        let descriptor = Descriptor { gap, len, distance };
                        let mut out = Vec::new();
                        descriptor.put(width, &mut out);
                        assert_eq!(out.len(), descriptor.bytes(width), "{descriptor:?}");
                    }
                }
            }
        }
        for shift in 0..63 {
            let mut out = Vec::new();
            varint::put(&mut out, 1 << shift);
            assert_eq!(out.len(), varint_len(1 << shift));
        }
        assert_eq!(varint_len(0), 1);
    }
}
