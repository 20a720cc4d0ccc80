//! Runs: searched once, then cut into slices that decode alone.

use super::frame::{self, Descriptor, Head, OffsetWidth};
use crate::encoder::Tokens;
use crate::entropy::FrozenWriter;
use crate::log::Log;
use crate::reach::Reach;
use std::ops::Range;

/// A run as matches and the literals between them:
/// [`DatagramEncoder::search`](super::DatagramEncoder::search) fills it.
#[derive(Clone, Debug, Default)]
pub struct RunTokens {
    pub(super) tokens: Tokens,
    pub(super) reach: Reach,
    /// How often content of the log had been withdrawn when the run was searched.
    pub(super) withdrawals: u64,
}

impl RunTokens {
    /// Where the run lies in the log.
    pub fn range(&self) -> Range<u64> {
        self.tokens.offset..self.tokens.offset + self.tokens.block_len as u64
    }

    /// Bytes of the run that were found in the log or in the run itself.
    pub fn found(&self) -> u64 {
        self.tokens.matches.iter().map(|found| u64::from(found.len)).sum()
    }

    /// Whether the run looks compressible, or the caller said so.
    pub fn looks_compressible(&self) -> bool {
        self.tokens.dense
    }
}

/// How a run may be cut into slices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// A slice ends at a multiple of so many bytes, or with the run. 0 for a run that is not
    /// divided.
    pub segment: usize,
    /// Most bytes of a slice's frame.
    pub room: usize,
    /// Whether a slice may refer to earlier slices of its run, which are in flight, too. Never with
    /// [`Reach::Acknowledged`].
    pub earlier: bool,
}

/// A match of a slice, or a part of one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Piece {
    /// Position in the run.
    at: usize,
    len: usize,
    /// Offset in the log.
    source: u64,
    /// Which of the run's matches it belongs to.
    index: usize,
}

/// A frame as it grows: which pieces it describes, and how long it is.
#[derive(Clone, Copy, Debug)]
struct Growth {
    /// End in the run of the last piece.
    done: usize,
    /// The match of the last piece and its distance.
    last: Option<(usize, u64)>,
    /// Bytes of descriptors.
    described: usize,
    /// Bytes that matches cover.
    matched: usize,
}

/// Fewer literals than this are not coded: the number of the context and the checksum take more than
/// it saves.
const LEAST_CODED: usize = 32;

/// With at most so many matches left of a run, all of it is tried first: a run that repeats as a whole
/// fits one frame.
const FEW: usize = 4;

/// What a frame was written as.
#[derive(Clone, Copy, Debug)]
pub(super) struct Written {
    /// Whether it depends on the log or on a context.
    pub(super) depends: bool,
    /// Bytes of content in no match.
    pub(super) literals: usize,
    /// How many literals were coded, whether that was used or not, and how many bytes they took.
    pub(super) coded: Option<(usize, usize)>,
}

/// What a frame is written with.
pub(super) struct Coding<'a> {
    /// A frozen context and its number.
    pub(super) context: Option<(u8, &'a mut FrozenWriter)>,
    pub(super) scratch: &'a mut Scratch,
}

/// Buffers.
#[derive(Debug, Default)]
pub(super) struct Scratch {
    descriptors: Vec<Descriptor>,
    section: Vec<u8>,
}

impl Scratch {
    /// Bytes of memory.
    pub(super) fn memory(&self) -> usize {
        self.descriptors.capacity() * size_of::<Descriptor>() + self.section.capacity()
    }
}

/// What of `content` is in no match.
fn literals<'a>(
    content: &'a [u8],
    descriptors: &'a [Descriptor],
) -> impl Iterator<Item = &'a [u8]> {
    let mut rest = Some(content);
    let mut descriptors = descriptors.iter();
    std::iter::from_fn(move || {
        let content = rest?;
        let Some(descriptor) = descriptors.next() else { return rest.take() };
        let (part, after) = content.split_at(descriptor.gap);
        rest = Some(&after[descriptor.len..]);
        Some(part)
    })
}

/// What slices of a run are written from.
pub(super) struct Slices<'a> {
    tokens: &'a Tokens,
    log: &'a Log,
    earlier: bool,
    /// Content was withdrawn since the run was searched.
    is_stale: bool,
}

impl<'a> Slices<'a> {
    pub(super) fn new(tokens: &'a RunTokens, log: &'a Log, earlier: bool) -> Slices<'a> {
        Slices {
            tokens: &tokens.tokens,
            log,
            earlier: earlier && tokens.reach == Reach::Sent,
            is_stale: tokens.withdrawals != log.withdrawals(),
        }
    }

    /// End of the longest slice from `from` on whose frame fits, with raw literals or, if `scale` says
    /// how many of 256 bytes are left of them by a context, as far as that holds. `width` is that of
    /// offsets at `from`.
    pub(super) fn fit(
        &self,
        from: usize,
        width: OffsetWidth,
        limits: &Limits,
        scale: Option<u32>,
    ) -> usize {
        let (run_len, matches) = (self.tokens.block_len, &self.tokens.matches);
        let segment = if limits.segment == 0 { run_len.max(1) } else { limits.segment };
        let head = frame::head_len(width);
        let mut index = self.first_match(from);
        let mut whole = Growth::new(from);
        if matches.len() - index <= FEW {
            let all = (index..matches.len())
                .fold(whole, |growth, index| self.grow(growth, index, &(from..run_len)));
            if head + all.body_len(from, run_len, scale) <= limits.room {
                return run_len;
            }
        }
        let (mut end, mut best) = (from, from);
        while end < run_len {
            end = (end / segment + 1).saturating_mul(segment).min(run_len);
            // Matches that end here will be in any longer slice, too.
            while matches.get(index).is_some_and(|found| found.end() <= end) {
                whole = self.grow(whole, index, &(from..end));
                index += 1;
            }
            let (mut now, mut settled) = (whole, end);
            if let Some(next) = matches.get(index).filter(|next| (next.at as usize) < end) {
                settled = (next.at as usize).max(from);
                now = self.grow(whole, index, &(from..end));
            }
            if head + now.body_len(from, end, scale) <= limits.room {
                best = end;
            } else if head + whole.body_len(from, settled, scale) > limits.room {
                break;
            }
        }
        best
    }

    /// Describes the matches of a slice.
    fn describe_all(&self, slice: &Range<usize>, scratch: &mut Vec<Descriptor>) -> Growth {
        scratch.clear();
        let mut growth = Growth::new(slice.start);
        self.for_each_match(slice, |index| {
            self.for_each_piece(index, slice, |piece| {
                if let Some(descriptor) = self.describe(&growth, &piece) {
                    growth.add(&piece, &descriptor, self.distance(&piece), self.tokens.width);
                    scratch.push(descriptor);
                }
            });
        });
        growth
    }

    /// Appends a frame of the run's `slice`, coded with a context if there is one and if that makes it
    /// shorter.
    pub(super) fn write(
        &self,
        run: &[u8],
        slice: &Range<usize>,
        width: OffsetWidth,
        coding: Coding<'_>,
        checksum: impl FnOnce(u64, &[u8]) -> u64,
        out: &mut Vec<u8>,
    ) -> Written {
        let offset = self.tokens.offset + slice.start as u64;
        let content = &run[slice.clone()];
        let Coding { context, scratch: Scratch { descriptors, section } } = coding;
        let growth = self.describe_all(slice, descriptors);
        let body = growth.body_len(slice.start, slice.end, None);
        let count = content.len() - growth.matched;
        let mut head = Head { offset, width, log: self.tokens.width, descriptors, context: None };
        let mut coded = None;
        if let Some((number, writer)) = context.filter(|_| count >= LEAST_CODED) {
            section.clear();
            writer.write(literals(content, descriptors), section);
            let len = frame::descriptors_len(growth.described) + frame::context_len(count);
            coded = Some((count, section.len()));
            if len + section.len() < body {
                head.context = Some((number, count));
            }
        }
        match head.context {
            None if body >= content.len() => {
                frame::write_literals(offset, width, content, out);
                return Written { depends: false, literals: content.len(), coded };
            }
            None => {
                head.write(out);
                literals(content, descriptors).for_each(|part| out.extend_from_slice(part));
            }
            Some(_) => {
                head.write(out);
                out.extend_from_slice(section);
            }
        }
        out.extend_from_slice(&checksum(offset, content).to_le_bytes());
        Written { depends: true, literals: count, coded }
    }

    /// Passes the ranges below the slice that its frame refers to. The frame may refer to none of
    /// them, if that would not make it shorter.
    pub(super) fn for_each_source(&self, slice: &Range<usize>, mut each: impl FnMut(Range<u64>)) {
        let offset = self.tokens.offset + slice.start as u64;
        let mut growth = Growth::new(slice.start);
        self.for_each_match(slice, |index| {
            self.for_each_piece(index, slice, |piece| {
                if let Some(descriptor) = self.describe(&growth, &piece) {
                    growth.add(&piece, &descriptor, self.distance(&piece), self.tokens.width);
                    if piece.source < offset {
                        each(piece.source..piece.source + piece.len as u64);
                    }
                }
            });
        });
    }

    /// The first match that ends after `from`.
    fn first_match(&self, from: usize) -> usize {
        self.tokens.matches.partition_point(|found| found.end() <= from)
    }

    fn for_each_match(&self, slice: &Range<usize>, mut each: impl FnMut(usize)) {
        let first = self.first_match(slice.start);
        let matches = &self.tokens.matches[first..];
        let count = matches.iter().take_while(|found| (found.at as usize) < slice.end).count();
        (first..first + count).for_each(&mut each);
    }

    /// The parts of a match in a slice: what lies before the slice, and what repeats the slice
    /// itself. Leaves out what the slice must not refer to.
    fn for_each_piece(&self, index: usize, slice: &Range<usize>, mut each: impl FnMut(Piece)) {
        let found = &self.tokens.matches[index];
        let at = (found.at as usize).max(slice.start);
        let end = found.end().min(slice.end);
        let source = found.source + (at - found.at as usize) as u64;
        let own = self.tokens.offset + slice.start as u64;
        let before = usize::try_from(own.saturating_sub(source)).unwrap_or(usize::MAX);
        let before = before.min(end - at);
        // The matcher divides what lies before the run from the run itself.
        let is_earlier = found.source >= self.tokens.offset;
        let is_withdrawn =
            || self.is_stale && self.log.is_withdrawn(&(source..source + before as u64));
        if before > 0 && (self.earlier || !is_earlier) && !is_withdrawn() {
            each(Piece { at, len: before, source, index });
        }
        if before < end - at {
            let (at, source) = (at + before, source + before as u64);
            each(Piece { at, len: end - at, source, index });
        }
    }

    fn distance(&self, piece: &Piece) -> u64 {
        self.tokens.offset + piece.at as u64 - piece.source
    }

    /// How a piece is described, if that is shorter than the piece.
    fn describe(&self, growth: &Growth, piece: &Piece) -> Option<Descriptor> {
        let distance = self.distance(piece);
        let is_same = growth.last.is_some_and(|(index, last)| {
            last == distance
                && (index == piece.index
                    || self.tokens.width.is_none()
                    || (index + 1 == piece.index && self.tokens.joined[piece.index]))
        });
        let gap = piece.at - growth.done;
        let distance = (!is_same).then_some(distance);
        let descriptor = Descriptor { gap, len: piece.len, distance };
        (descriptor.bytes(self.tokens.width) < piece.len).then_some(descriptor)
    }

    fn grow(&self, mut growth: Growth, index: usize, slice: &Range<usize>) -> Growth {
        self.for_each_piece(index, slice, |piece| {
            if let Some(descriptor) = self.describe(&growth, &piece) {
                growth.add(&piece, &descriptor, self.distance(&piece), self.tokens.width);
            }
        });
        growth
    }
}

impl Growth {
    fn new(from: usize) -> Growth {
        Growth { done: from, last: None, described: 0, matched: 0 }
    }

    fn add(
        &mut self,
        piece: &Piece,
        descriptor: &Descriptor,
        distance: u64,
        width: Option<crate::log::Width>,
    ) {
        self.done = piece.at + piece.len;
        self.last = Some((piece.index, distance));
        self.described += descriptor.bytes(width);
        self.matched += piece.len;
    }

    /// Bytes of the frame of `from..to` of the run after its head: with matches or without, whichever
    /// is shorter; or, with `scale`, what it takes if so many of 256 bytes are left of the literals.
    fn body_len(&self, from: usize, to: usize, scale: Option<u32>) -> usize {
        let (len, literals) = (to - from, to - from - self.matched);
        let matches = frame::descriptors_len(self.described);
        let plain = match self.matched {
            0 => len,
            _ => len.min(matches + literals + frame::CHECKSUM_LEN),
        };
        match scale {
            Some(scale) if literals >= LEAST_CODED => {
                let coded = (literals * scale as usize).div_ceil(256);
                plain.min(matches + frame::context_len(literals) + coded)
            }
            _ => plain,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log::{Geometry, Width};
    use crate::matcher::Match;
    use proptest::prelude::*;

    /// Matches of a run at offset 1000 of a log that ends there, and of the run itself.
    fn tokens(parts: &[(usize, usize, bool, u64)], rest: usize, is_fixed: bool) -> RunTokens {
        let (mut at, mut matches) = (0, Vec::new());
        for &(gap, len, is_own, source) in parts {
            at += gap;
            let position = 1000 + at as u64;
            // Below the match: in the run, or in what lies before it.
            let source = match (is_own, position.checked_sub(1001)) {
                (true, Some(below)) => 1000 + source % (below + 1),
                _ => source % (1001 - len as u64).max(1),
            };
            if source >= 1000 || source + len as u64 <= 1000 {
                matches.push(Match { at: at as u32, len: len as u32, source });
            }
            at += len;
        }
        let width = is_fixed.then(|| Width::of(Geometry::new(1 << 20, 0).unwrap()));
        let joined = (0..matches.len()).map(|index| index % 3 == 0).collect();
        let tokens = Tokens {
            offset: 1000,
            block_len: at + rest,
            matches,
            width,
            joined,
            ..Tokens::default()
        };
        RunTokens { tokens, ..RunTokens::default() }
    }

    proptest! {
        /// The longest slice that fits, found by writing all of them.
        #[test]
        fn fit_finds_the_longest_slice_that_fits(
            parts in proptest::collection::vec((0usize..60, 1usize..200, any::<bool>(), any::<u64>()), 0..20),
            rest in 0usize..100,
            from in 0usize..300,
            (segment, room) in (0usize..90, 3usize..200),
            (earlier, is_fixed) in any::<(bool, bool)>(),
        ) {
            let tokens = tokens(&parts, rest, is_fixed);
            let log = Log::new(Geometry::new(1 << 20, 0).unwrap()).unwrap();
            let slices = Slices::new(&tokens, &log, earlier);
            let run = vec![b'x'; tokens.tokens.block_len];
            let from = from.min(run.len());
            let limits = Limits { segment, room, earlier };
            let step = if segment == 0 { run.len().max(1) } else { segment };
            let ends = (1..).map(|k| k * step).take_while(|end| *end < run.len() + step);
            let longest = ends.map(|end| end.min(run.len())).filter(|end| *end > from).filter(|end| {
                let mut frame = Vec::new();
                let width = OffsetWidth::Three;
                let coding = Coding { context: None, scratch: &mut Scratch::default() };
                slices.write(&run, &(from..*end), width, coding, |_, _| 0, &mut frame);
                frame.len() <= room
            });
            let longest = longest.max().unwrap_or(from);
            prop_assert_eq!(slices.fit(from, OffsetWidth::Three, &limits, None), longest);
        }
    }
}
