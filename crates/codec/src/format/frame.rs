//! The frame: how one block travels. `docs/FORMAT.md`, section "Frame".

use super::varint::{self, Stop};
use crate::error::FrameError;
use crate::inside::Section;
use crate::limits::{DEFAULT_BLOCK, MAX_BLOCK, MAX_CONTEXTS, MAX_OFFSET};
use crate::log::Width;
use crate::matcher::Match;
use std::ops::Range;

/// How match descriptors are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Descriptors {
    None = 0,
    Plain = 1,
    Coded = 2,
    /// As coded, in columns.
    Columns = 3,
}

impl Descriptors {
    /// Whether the coding reads or changes an entropy context.
    pub(crate) fn uses_context(self) -> bool {
        matches!(self, Descriptors::Coded | Descriptors::Columns)
    }

    /// Its value in the flags: columns are told apart by the length of the section.
    fn flags(self) -> u8 {
        match self {
            Descriptors::Columns => Descriptors::Coded as u8,
            other => other as u8,
        }
    }
}

/// How literals are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum LiteralCoding {
    Raw = 0,
    Lz4 = 1,
    Coded = 2,
    Transcoded = 3,
}

impl LiteralCoding {
    /// Whether the coding reads or changes an entropy context.
    pub(crate) fn uses_context(self) -> bool {
        matches!(self, LiteralCoding::Coded | LiteralCoding::Transcoded)
    }
}

/// All of these bits are set in no frame; containers use that to mark what is not one.
pub(crate) const DESCRIPTORS_MASK: u8 = 0b0000_0011;
const LITERALS_MASK: u8 = 0b0000_1100;
const EXPLICIT_OFFSET: u8 = 0b0001_0000;
const FRESH_CONTEXT: u8 = 0b0010_0000;
const CONTEXT_ID: u8 = 0b0100_0000;
const FIXED_WIDTH: u8 = 0b1000_0000;

/// Whether the literals of a frame with these flags are transcoded, so that content of the log is
/// needed to read it.
pub(crate) fn is_transcoded(flags: u8) -> bool {
    flags & LITERALS_MASK == (LiteralCoding::Transcoded as u8) << 2
}

/// Bytes of the checksum at the end of a frame.
pub(crate) const CHECKSUM_LEN: usize = 8;
/// A body may be this much larger than its block: fields, the head of a section, the checksum. An encoder
/// stays within it.
pub(crate) const BODY_SLACK: usize = 128;

/// What is written before a frame's sections.
pub(crate) struct Head {
    /// If positions have a fixed width.
    pub(crate) width: Option<Width>,
    pub(crate) literals: LiteralCoding,
    pub(crate) descriptors: Descriptors,
    /// `(offset, padding before it)`, unless it is where the frame before left off.
    pub(crate) explicit: Option<(u64, u64)>,
    pub(crate) fresh: bool,
    pub(crate) context: usize,
    pub(crate) block_len: usize,
    pub(crate) offset: u64,
    /// Sources of coded descriptors.
    pub(crate) dependencies: Range<u64>,
    /// Length of the descriptor section, if there is one.
    pub(crate) descriptors_len: usize,
    /// Length of the literal section.
    pub(crate) literals_len: usize,
}

/// Appends the fields of a frame up to its descriptor section. `fields` is scratch.
pub(crate) fn write_head(head: &Head, fields: &mut Vec<u8>, out: &mut Vec<u8>) {
    let mut flags = head.descriptors.flags() | (head.literals as u8) << 2;
    fields.clear();
    varint::put(fields, head.block_len as u64);
    let uses_context = head.descriptors.uses_context() || head.literals.uses_context();
    // Frames without such fields need not say how wide they are.
    let has_positions =
        head.explicit.is_some() || head.descriptors != Descriptors::None || uses_context;
    let width = head.width.filter(|_| has_positions);
    if let Some(width) = width {
        flags |= FIXED_WIDTH;
        fields.push(width.bits());
    }
    if let Some((offset, padding)) = head.explicit {
        flags |= EXPLICIT_OFFSET;
        if width.is_some() {
            fields.extend_from_slice(&offset.to_le_bytes());
            // Padding is shorter than a block.
            fields.extend_from_slice(&(padding as u16).to_le_bytes());
        } else {
            varint::put(fields, offset);
            varint::put(fields, padding);
        }
    }
    if head.fresh {
        flags |= FRESH_CONTEXT;
    }
    if width.is_some() && uses_context {
        flags |= CONTEXT_ID;
        fields.push(head.context as u8);
    } else if head.context != 0 {
        flags |= CONTEXT_ID;
        varint::put(fields, head.context as u64);
    }
    if head.descriptors.uses_context() {
        put_position(width, fields, head.offset - head.dependencies.start);
        put_position(width, fields, head.offset - head.dependencies.end);
    }
    let len = head.descriptors_len as u64;
    match head.descriptors {
        Descriptors::None => {}
        Descriptors::Plain => varint::put(fields, len),
        Descriptors::Coded => varint::put(fields, len << 1),
        Descriptors::Columns => varint::put(fields, len << 1 | 1),
    }
    out.push(flags);
    varint::put(
        out,
        (fields.len() + head.descriptors_len + head.literals_len + CHECKSUM_LEN) as u64,
    );
    out.extend_from_slice(fields);
}

/// Appends a distance within the log.
pub(crate) fn put_position(width: Option<Width>, out: &mut Vec<u8>, position: u64) {
    match width {
        Some(width) => width.put(out, position),
        None => varint::put(out, position),
    }
}

/// Reads a distance within the log.
pub(crate) fn take_position(
    width: Option<Width>,
    from: &mut &[u8],
    field: &'static str,
) -> Result<u64, FrameError> {
    match width {
        Some(width) => width.take(from).ok_or(FrameError::Short { section: field }),
        None => varint::field(from, field),
    }
}

/// Length in bytes of the frame of a block of `block_len` bytes at `offset` with these matches,
/// written with plain descriptors, without an entropy stage and without an explicit offset. For
/// measurements; matches ascend and are disjoint.
pub fn plain_frame_len(matches: &[Match], offset: u64, block_len: usize) -> usize {
    let (mut fields, mut out, mut descriptors) = (Vec::new(), Vec::new(), Vec::new());
    if !matches.is_empty() {
        write_plain(matches, offset, block_len, None, &mut descriptors);
    }
    let matched: usize = matches.iter().map(|found| found.len as usize).sum();
    let head = Head {
        width: None,
        literals: LiteralCoding::Raw,
        descriptors: if matches.is_empty() { Descriptors::None } else { Descriptors::Plain },
        explicit: None,
        fresh: false,
        context: 0,
        block_len,
        offset,
        dependencies: offset..offset,
        descriptors_len: descriptors.len(),
        literals_len: block_len - matched,
    };
    write_head(&head, &mut fields, &mut out);
    out.len() + head.descriptors_len + head.literals_len + CHECKSUM_LEN
}

/// Whether a buffer begins with a whole frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Scan<'a> {
    /// It does: the frame's fields, checked against the format but not yet against a log.
    Frame(FrameView<'a>),
    /// At least this many more bytes are needed.
    NeedMore(usize),
}

/// The parts of a complete frame. Every section lies inside the frame and every field has a value
/// that the format allows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FrameView<'a> {
    /// Total length of the frame in bytes.
    pub(crate) frame_len: usize,
    pub(crate) block_len: usize,
    /// If positions have a fixed width.
    pub(crate) width: Option<Width>,
    pub(crate) explicit: Option<(u64, u64)>,
    pub(crate) context: usize,
    pub(crate) fresh: bool,
    /// Distances back from the frame's offset to the start and the end of what its coded
    /// descriptors may refer to.
    dependency_back: (u64, u64),
    pub(crate) body: Body<'a>,
    pub(crate) checksum: u64,
}

/// The sections of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Body<'a> {
    pub(crate) descriptors: Descriptors,
    pub(crate) descriptor_section: &'a [u8],
    pub(crate) literals: LiteralCoding,
    pub(crate) literal_section: &'a [u8],
}

impl<'a> FrameView<'a> {
    /// Looks at the front of `input` for a frame of a block of at most `max_block` bytes.
    ///
    /// # Errors
    /// [`FrameError`] as soon as the bytes at hand cannot be the beginning of a valid frame.
    // More than 100 lines: the fields of a frame in their order, each of which needs those before
    // it.
    pub fn scan(input: &'a [u8], max_block: usize) -> Result<Scan<'a>, FrameError> {
        let Some((&flags, mut rest)) = input.split_first() else { return Ok(Scan::NeedMore(2)) };
        let mut descriptors = match flags & DESCRIPTORS_MASK {
            0 => Descriptors::None,
            1 => Descriptors::Plain,
            2 => Descriptors::Coded,
            value => {
                return Err(FrameError::Field {
                    field: "descriptor coding",
                    value: value.into(),
                    allowed: "0, 1 or 2",
                });
            }
        };
        let literals = match (flags & LITERALS_MASK) >> 2 {
            0 => LiteralCoding::Raw,
            1 => LiteralCoding::Lz4,
            2 => LiteralCoding::Coded,
            _ => LiteralCoding::Transcoded,
        };
        let uses_context = descriptors.uses_context() || literals.uses_context();
        if !uses_context && flags & (FRESH_CONTEXT | CONTEXT_ID) != 0 {
            return Err(FrameError::Field {
                field: "flags",
                value: flags.into(),
                allowed: "bits 5 and 6 only with a context",
            });
        }
        let body_len = match varint::take(&mut rest) {
            Ok(len) => len,
            Err(Stop::Short) => return Ok(Scan::NeedMore(1)),
            Err(Stop::Malformed) => {
                return Err(FrameError::Field {
                    field: "body length",
                    value: u64::MAX,
                    allowed: "a varint in its shortest form",
                });
            }
        };
        let limit = (max_block.min(MAX_BLOCK) + BODY_SLACK) as u64;
        if body_len > limit {
            return Err(FrameError::TooLarge { field: "body length", value: body_len, limit });
        }
        let body_len = body_len as usize;
        let Some(mut body) = rest.get(..body_len) else {
            return Ok(Scan::NeedMore(body_len - rest.len()));
        };
        let frame_len = input.len() - rest.len() + body_len;

        let block_len = varint::field(&mut body, "block length")?;
        let most = if flags & FIXED_WIDTH != 0 { DEFAULT_BLOCK } else { MAX_BLOCK };
        let limit = max_block.min(most) as u64;
        if block_len > limit {
            return Err(FrameError::TooLarge { field: "block length", value: block_len, limit });
        }
        let width = if flags & FIXED_WIDTH != 0 {
            let (&bits, rest) =
                body.split_first().ok_or(FrameError::Short { section: "position width" })?;
            body = rest;
            Some(Width::stated(bits).ok_or_else(|| bad_width(bits))?)
        } else {
            None
        };
        let explicit = if flags & EXPLICIT_OFFSET != 0 {
            let (offset, padding) = if width.is_some() {
                let offset = fixed(&mut body, "offset").map(u64::from_le_bytes)?;
                (offset, fixed(&mut body, "padding").map(u16::from_le_bytes)?.into())
            } else {
                (varint::field(&mut body, "offset")?, varint::field(&mut body, "padding")?)
            };
            if offset >= MAX_OFFSET || padding > offset {
                return Err(FrameError::Field {
                    field: "offset",
                    value: offset,
                    allowed: "below 2^62, not below its padding",
                });
            }
            Some((offset, padding))
        } else {
            None
        };
        let context = if flags & CONTEXT_ID != 0 && width.is_some() {
            let [id] = fixed(&mut body, "context")?;
            usize::from(id)
        } else if flags & CONTEXT_ID != 0 {
            match varint::field(&mut body, "context")? {
                id @ 1..=MAX_CONTEXT_ID => id as usize,
                value => {
                    return Err(FrameError::Field { field: "context", value, allowed: "1 to 255" });
                }
            }
        } else {
            0
        };
        let dependency_back = if descriptors == Descriptors::Coded {
            let start = take_position(width, &mut body, "hull start")?;
            let end = take_position(width, &mut body, "hull end")?;
            if end > start {
                return Err(FrameError::Field {
                    field: "hull end",
                    value: end,
                    allowed: "at most the hull start",
                });
            }
            (start, end)
        } else {
            (0, 0)
        };
        let mut descriptors_len = match descriptors {
            Descriptors::None => 0,
            _ => varint::field(&mut body, "descriptor length")?,
        };
        if descriptors == Descriptors::Coded {
            if descriptors_len & 1 == 1 {
                descriptors = Descriptors::Columns;
            }
            descriptors_len >>= 1;
        }
        let Some((sections, checksum)) = body.split_last_chunk::<CHECKSUM_LEN>() else {
            return Err(FrameError::Short { section: "checksum" });
        };
        let Some((descriptor_section, literal_section)) =
            sections.split_at_checked(descriptors_len as usize)
        else {
            return Err(FrameError::Short { section: "descriptors" });
        };
        Ok(Scan::Frame(FrameView {
            frame_len,
            block_len: block_len as usize,
            width,
            explicit,
            context,
            fresh: flags & FRESH_CONTEXT != 0,
            dependency_back,
            body: Body { descriptors, descriptor_section, literals, literal_section },
            checksum: u64::from_le_bytes(*checksum),
        }))
    }

    /// Total length of the frame in bytes.
    pub fn len(&self) -> usize {
        self.frame_len
    }

    /// Never: a frame has at least a checksum.
    pub fn is_empty(&self) -> bool {
        false
    }

    /// Length of the block that the frame carries, in bytes.
    pub fn block_len(&self) -> usize {
        self.block_len
    }

    /// The block's offset in the log and the padding before it, if the frame states them; otherwise
    /// it follows the one before.
    pub fn explicit_offset(&self) -> Option<(u64, u64)> {
        self.explicit
    }

    /// Whether the frame reads or changes an entropy context, and which.
    pub fn context(&self) -> Option<usize> {
        let coded = self.body.descriptors.uses_context() || self.body.literals.uses_context();
        coded.then_some(self.context)
    }

    /// The log range that holds all that the frame refers to below its own offset, given that
    /// offset; empty if it refers to nothing, `None` if its fields contradict themselves. Known
    /// before any entropy decoding.
    ///
    /// Exact ranges follow from the descriptors; the decoder names them when something of this
    /// range is missing.
    pub fn depends_on(&self, offset: u64) -> Option<Range<u64>> {
        let matches = self.matches_depend_on(offset)?;
        if self.body.literals != LiteralCoding::Transcoded {
            return Some(matches);
        }
        let mut sources = Vec::new();
        let section = self.body.literal_section;
        Section::read(section, offset, self.block_len, self.width, &mut sources).ok()?;
        let range = dependency_range(&sources, offset);
        Some(match (matches.is_empty(), range.is_empty()) {
            (true, _) => range,
            (_, true) => matches,
            _ => matches.start.min(range.start)..matches.end.max(range.end),
        })
    }

    /// As [`FrameView::depends_on`], of what the matches refer to.
    pub(crate) fn matches_depend_on(&self, offset: u64) -> Option<Range<u64>> {
        match self.body.descriptors {
            Descriptors::None => Some(offset..offset),
            Descriptors::Coded | Descriptors::Columns => {
                Some(offset.checked_sub(self.dependency_back.0)?..offset - self.dependency_back.1)
            }
            Descriptors::Plain => {
                let mut matches = Vec::new();
                let section = self.body.descriptor_section;
                read_plain(section, offset, self.block_len, self.width, &mut matches).ok()?;
                Some(dependency_range(&matches, offset))
            }
        }
    }
}

const MAX_CONTEXT_ID: u64 = MAX_CONTEXTS as u64 - 1;
/// A context that takes a byte of its own is any of them.
const _: () = assert!(MAX_CONTEXT_ID == u8::MAX as u64);
/// Padding that takes two bytes is shorter than any block may be in such a frame.
const _: () = assert!(DEFAULT_BLOCK - 1 <= u16::MAX as usize);

fn fixed<const LEN: usize>(
    body: &mut &[u8],
    section: &'static str,
) -> Result<[u8; LEN], FrameError> {
    let (field, rest) = body.split_first_chunk().ok_or(FrameError::Short { section })?;
    *body = rest;
    Ok(*field)
}

/// Positions have no such width.
pub(crate) fn bad_width(bits: u8) -> FrameError {
    FrameError::Field {
        field: "position width",
        value: bits.into(),
        allowed: "the bits of the largest distance within the log",
    }
}

/// The smallest range that holds all sources below `offset`; `offset..offset` if there are none.
pub(crate) fn dependency_range(matches: &[Match], offset: u64) -> Range<u64> {
    let mut range = offset..0;
    for found in matches {
        if found.source < offset {
            range.start = range.start.min(found.source);
            range.end = range.end.max((found.source + u64::from(found.len)).min(offset));
        }
    }
    if range.start == offset { offset..offset } else { range }
}

/// Appends plain descriptors: a count, then gap, distance and length of each match.
pub(crate) fn write_plain(
    matches: &[Match],
    offset: u64,
    block_len: usize,
    width: Option<Width>,
    out: &mut Vec<u8>,
) {
    varint::put(out, matches.len() as u64);
    let (mut done, mut last) = (0, 0);
    for found in matches {
        varint::put(out, u64::from(found.at) - done);
        done = found.end() as u64;
        let distance = offset + u64::from(found.at) - found.source;
        // A fixed width is the same for all of them.
        let is_same = distance == last && width.is_none();
        put_position(width, out, if is_same { 0 } else { distance });
        last = distance;
        varint::put(out, if done == block_len as u64 { 0 } else { u64::from(found.len) });
    }
}

/// Reads plain descriptors. What is returned is ascending and inside the block, and sources are
/// below their matches.
pub(crate) fn read_plain(
    mut section: &[u8],
    offset: u64,
    block_len: usize,
    width: Option<Width>,
    matches: &mut Vec<Match>,
) -> Result<(), FrameError> {
    const SECTION: &str = "descriptors";
    let count = varint::field(&mut section, SECTION)?;
    if count == 0 || count > section.len() as u64 / 3 {
        return Err(FrameError::Field {
            field: "match count",
            value: count,
            allowed: "at least 1, and as many as fit the section",
        });
    }
    let (mut done, mut last) = (0u64, 0);
    for _ in 0..count {
        let at = done.saturating_add(varint::field(&mut section, SECTION)?);
        let distance = match take_position(width, &mut section, SECTION)? {
            0 => last,
            distance => distance,
        };
        let left = (block_len as u64)
            .checked_sub(at)
            .filter(|&left| left > 0)
            .ok_or(FrameError::Sum { block: block_len })?;
        let len = match varint::field(&mut section, SECTION)? {
            0 => left,
            len if len <= left => len,
            _ => return Err(FrameError::Sum { block: block_len }),
        };
        if distance == 0 {
            return Err(FrameError::Field {
                field: "distance",
                value: 0,
                allowed: "0 only after another match",
            });
        }
        let source = (offset + at)
            .checked_sub(distance)
            .ok_or(FrameError::Reference { source_offset: 0, len })?;
        matches.push(Match { at: at as u32, len: len as u32, source });
        done = at + len;
        last = distance;
    }
    match section.len() {
        0 => Ok(()),
        extra => Err(FrameError::Excess { section: SECTION, extra }),
    }
}
