//! Frames: section 8.

use super::fields::{Fields, Parsed};
use super::literals::Context;
use super::log::Log;
use std::ops::Range;

/// Longest content of a frame, in bytes.
const CONTENT: u64 = 65_536;

/// Limit of offsets.
const OFFSETS: u64 = 1 << 62;

#[derive(Debug)]
struct Match {
    /// Literals before it, since the match before.
    gap: u64,
    len: u64,
    distance: u64,
}

/// The section of literals. They are decoded once all sources are held.
#[derive(Debug)]
enum Literals {
    Raw(Vec<u8>),
    /// With the number of the context and that of literals.
    Coded(u8, u64, Vec<u8>),
}

/// A frame whose form is valid. What it refers to may be missing.
#[derive(Debug)]
pub(super) struct Frame {
    /// In the log, if the content belongs to it.
    pub offset: Option<u64>,
    matches: Vec<Match>,
    literals: Literals,
    checksum: Option<u64>,
    /// The sources of its matches outside of itself, in their order.
    pub sources: Vec<Range<u64>>,
    /// Where its content would end, if it has an offset.
    pub end: u64,
}

/// Why there is no content now.
#[derive(Debug)]
pub(super) enum NoContent {
    Missing,
    /// The checksum failed.
    Differs,
    Invalid(&'static str),
}

impl Frame {
    /// A frame for this log, in a datagram for which short offsets begin at `base`.
    pub(super) fn parse(bytes: &[u8], log: &Log, base: u64) -> Parsed<Frame> {
        let mut fields = Fields(bytes);
        let flags = fields.byte()?;
        let (literals, descriptors) = (flags & 3, flags >> 2 & 3);
        let offset_bytes = [0, 2, 3, 8][usize::from(flags >> 4 & 3)];
        let has_context = flags & 0x40 != 0;
        if literals > 1 || descriptors == 2 || flags & 0x80 != 0 || has_context != (literals == 1) {
            return Err("flags of a frame");
        }
        if descriptors != 0 && offset_bytes == 0 {
            return Err("descriptors without an offset");
        }
        let stated = fields.number(offset_bytes)?;
        let offset = match offset_bytes {
            0 => None,
            8 => Some(stated),
            _ => {
                let all = 1u64 << (8 * offset_bytes);
                Some(base + (stated.wrapping_sub(base) & (all - 1)))
            }
        };
        let context = if has_context { Some(fields.byte()?) } else { None };
        let matches = if descriptors == 0 {
            Vec::new()
        } else {
            let len = fields.varint()?;
            let width = (descriptors == 3).then(|| log.distance_bytes());
            matches(Fields(fields.bytes(len)?), width)?
        };
        let count = if has_context { Some(fields.varint()?) } else { None };
        if count.is_some_and(|count| count > CONTENT) {
            return Err("literal count");
        }
        let mut section = fields.rest();
        let mut checksum = None;
        if has_context || descriptors != 0 {
            let (before, own) = section.split_last_chunk().ok_or("no checksum")?;
            (section, checksum) = (before, Some(u64::from_le_bytes(*own)));
        }
        let count = count.unwrap_or(section.len() as u64);
        let literals = match context {
            Some(context) => Literals::Coded(context, count, section.to_vec()),
            None => Literals::Raw(section.to_vec()),
        };

        let gaps = matches.iter().fold(0u64, |sum, m| sum.saturating_add(m.gap));
        if gaps > count {
            return Err("gaps beyond the literals");
        }
        let len = matches.iter().fold(count, |sum, m| sum.saturating_add(m.len));
        if len > CONTENT {
            return Err("content that is too long");
        }
        let mut sources = Vec::new();
        let mut end = 0;
        if let Some(offset) = offset {
            if offset >= OFFSETS || offset + len > OFFSETS {
                return Err("an offset beyond the last");
            }
            end = offset + len;
            if !log.is_in_one_generation(&(offset..end)) {
                return Err("content of two generations");
            }
            let mut at = offset;
            for m in &matches {
                at += m.gap;
                let source = at.checked_sub(m.distance).ok_or("a source below 0")?;
                if source < offset {
                    if source + m.len > offset {
                        return Err("a source that ends above the offset of the content");
                    }
                    sources.push(source..source + m.len);
                }
                at += m.len;
            }
        }
        Ok(Frame { offset, matches, literals, checksum, sources, end })
    }

    /// Checks that the frame may refer to its sources.
    pub(super) fn check_sources(&self, log: &Log) -> Parsed<()> {
        self.sources.iter().try_for_each(|source| log.may_refer(source, self.end))
    }

    pub(super) fn missing(&self, log: &Log) -> Vec<Range<u64>> {
        union(self.sources.iter().flat_map(|source| log.missing(source)).collect())
    }

    pub(super) fn content(&self, log: &Log, built_in: &Context) -> Result<Vec<u8>, NoContent> {
        if !self.missing(log).is_empty() {
            return Err(NoContent::Missing);
        }
        let start = self.offset.unwrap_or(0);
        let mut content = Vec::new();
        let literals = match &self.literals {
            Literals::Raw(literals) => Ok(literals.clone()),
            Literals::Coded(0, count, section) => built_in.read(section, *count),
            Literals::Coded(number, count, section) => match log.contexts.get(number) {
                Some(context) => context.read(section, *count),
                None => Err("a context that is not there"),
            },
        };
        let literals = literals.map_err(NoContent::Invalid)?;
        let mut literals = &literals[..];
        for m in &self.matches {
            let (now, rest) = literals.split_at(m.gap as usize);
            content.extend_from_slice(now);
            literals = rest;
            let source = start + content.len() as u64 - m.distance;
            for at in source..source + m.len {
                let own = at.checked_sub(start).map(|at| content[at as usize]);
                content.push(own.unwrap_or_else(|| log.byte(at)));
            }
        }
        content.extend_from_slice(literals);
        match self.checksum {
            Some(checksum) if checksum != log.checksum(start, &content) => Err(NoContent::Differs),
            _ => Ok(content),
        }
    }
}

/// Section 8, "Descriptors".
fn matches(mut fields: Fields<'_>, width: Option<u64>) -> Parsed<Vec<Match>> {
    let mut matches: Vec<Match> = Vec::new();
    while !fields.is_empty() {
        let (gap, length) = (fields.varint()?, fields.varint()?);
        let distance = match (length % 2, width) {
            (1, _) => matches.last().ok_or("the first match has no distance")?.distance,
            (_, Some(width)) => fields.number(width)?,
            _ => fields.varint()?,
        };
        if length < 2 || distance == 0 {
            return Err("a length or distance of 0");
        }
        matches.push(Match { gap, len: length / 2, distance });
    }
    Ok(matches)
}

/// The same offsets as ranges that ascend and do not touch.
pub(super) fn union(mut ranges: Vec<Range<u64>>) -> Vec<Range<u64>> {
    ranges.sort_unstable_by_key(|range| range.start);
    let mut joined: Vec<Range<u64>> = Vec::new();
    for range in ranges {
        match joined.last_mut() {
            Some(last) if last.end >= range.start => last.end = last.end.max(range.end),
            _ => joined.push(range),
        }
    }
    joined
}
