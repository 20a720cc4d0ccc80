//! What of content is written to disk, and what repeats content there.

use super::extents::{LEAST, MOST_EXTENTS};
use super::record::Record;
use oncewire_flash::store::Fill;
use oncewire_session::{Piece, Repeat};
use std::ops::Range;

/// Ranges that a session is told at once, at most: it keeps few for its peer.
const MOST_TOLD: usize = 32;

/// Some bytes of a piece.
pub(super) struct Part {
    pub(super) range: Range<u64>,
    /// The address at which they lie already. `None`: they are written.
    pub(super) source: Option<u64>,
}

/// What of a piece is written to a log of `capacity` bytes, and what lies there already, in the newer
/// half.
pub(super) fn parts(record: &Record, fill: Fill, capacity: u64, piece: &Piece) -> Vec<Part> {
    let (extents, end) = (&record.extents, piece.end().offset);
    // What memory holds now must be there after a restart.
    let newer = (capacity / 2).min(capacity.saturating_sub(record.log.header.capacity));
    let (low, lowest) = (extents.offset(fill.low), fill.tail.saturating_sub(newer).max(fill.low));
    // Stretches that follow each other, both here and where they lie, are one.
    let mut found: Vec<(Range<u64>, u64)> = Vec::new();
    for &Repeat { offset, source, len } in &piece.repeats {
        let earlier = source..source.saturating_add(len);
        let is_there = offset >= found.last().map_or(piece.offset, |(range, _)| range.end)
            && offset.saturating_add(len) <= end
            && earlier.start >= low
            && earlier.end <= piece.offset
            && record.has(&earlier);
        if !is_there {
            continue;
        }
        let mut at = offset;
        for (source, len) in extents.parts(earlier) {
            match found.last_mut() {
                Some((range, first))
                    if range.end == at && *first + (range.end - range.start) == source =>
                {
                    range.end += len;
                }
                _ => found.push((at..at + len, source)),
            }
            at += len;
        }
    }
    let has_room = extents.len() + found.len() < MOST_EXTENTS;
    let (mut parts, mut at) = (Vec::new(), piece.offset);
    for (range, source) in found {
        let is_long = range.end - range.start >= LEAST && has_room;
        if source < lowest || !(is_long || extents.goes_on(range.start, source)) {
            continue;
        }
        parts.extend((at < range.start).then_some(Part { range: at..range.start, source: None }));
        at = range.end;
        parts.push(Part { range, source: Some(source) });
    }
    parts.extend((at < end).then_some(Part { range: at..end, source: None }));
    parts
}

/// Bytes that a piece writes, with the padding before it.
pub(super) fn written(piece: &Piece, parts: &[Part]) -> u64 {
    let written = parts.iter().filter(|part| part.source.is_none());
    piece.padding + written.map(|part| part.range.end - part.range.start).sum::<u64>()
}

/// The newest of these ranges, and few of them: neighbors become one, with what lies between.
pub(super) fn few(mut ranges: Vec<Range<u64>>) -> Vec<Range<u64>> {
    let mut apart = LEAST;
    while ranges.len() > MOST_TOLD {
        ranges.dedup_by(|next, last| {
            let is_near = next.start <= last.end.saturating_add(apart);
            if is_near {
                last.end = last.end.max(next.end);
            }
            is_near
        });
        apart = apart.saturating_mul(2);
    }
    ranges
}
