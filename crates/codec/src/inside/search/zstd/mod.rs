//! Looks inside the zstd frames of flows, block by block.

mod columns;
mod index;
mod offsets;
mod plan;
mod runs;

use self::columns::Columns;
use self::index::{Index, Noted, Origins, UNKNOWN, describe, fingerprints};
use self::plan::Refused;
use self::runs::Run;
use crate::inside::Place;
use crate::inside::budget::unpacking;
use crate::inside::domains::Domains;
use crate::inside::follow::connection::MOST_STREAMS;
use crate::inside::follow::frames::{Block, Frame, Kind};
use crate::inside::search::copies::{Copies, Cursor};
use crate::inside::search::plan::Plan;
use crate::inside::wire::section::Expander;
use crate::inside::wire::sequences::{MAX_SEQUENCES, MAX_SHIFTS, Shifts, Sources};
use crate::log::Log;
use crate::matcher::Match;
use crate::zstd_block::{self, MAX_ZSTD_BLOCK, Outline, Room, Sequence, Tables};
use std::ops::Range;

/// Position of a flow in a zstd frame.
#[derive(Clone, Debug)]
pub(in crate::inside) struct Flow {
    tables: Tables,
    origins: Origins,
    /// The place after the last block, in the content of all frames of the domain.
    place: i64,
}

impl Flow {
    pub(in crate::inside) const MEMORY: usize = size_of::<Flow>() + Tables::MEMORY;
}

/// Positions of a flow in zstd frames: of the flow itself, which is stream 0, or of streams of HTTP/2.
#[derive(Debug, Default)]
pub(in crate::inside) struct Frames {
    /// The most recently used is last.
    flows: Vec<(u32, Box<Flow>)>,
    /// Where content of earlier frames moved in theirs.
    shifts: Shifts,
}

impl Frames {
    /// Memory in bytes, at most, without positions: [`Flow::MEMORY`] each. The lists grow by doubling.
    pub(in crate::inside) const MEMORY: usize =
        2 * (MOST_STREAMS + 1) * size_of::<(u32, Box<Flow>)>()
            + MAX_SHIFTS * size_of::<(i64, i64)>();

    /// Keeps the position of the flow itself, and those of streams that are followed.
    pub(in crate::inside) fn retain(&mut self, is_followed: impl Fn(u32) -> bool) {
        self.flows.retain(|(stream, _)| *stream == 0 || is_followed(*stream));
    }

    pub(in crate::inside) fn clear(&mut self) {
        self.flows.clear();
        self.shifts.clear();
    }

    /// Of the flow itself.
    pub(in crate::inside) fn set(&mut self, flow: Box<Flow>) {
        self.clear();
        self.flows.push((0, flow));
    }

    /// Removes and returns the position of a stream.
    fn take(&mut self, stream: u32) -> Option<Box<Flow>> {
        let nth = self.flows.iter().rposition(|(known, _)| *known == stream)?;
        Some(self.flows.remove(nth).1)
    }

    fn put(&mut self, stream: u32, flow: Box<Flow>) {
        if self.flows.len() > MOST_STREAMS {
            self.flows.remove(0);
        }
        self.flows.push((stream, flow));
    }
}

/// Places left free behind those of another frame that continues.
const APART: i64 = 1 << 26;
/// Most domains whose content is counted.
const MAX_DOMAINS: usize = 1024;

/// The end of the content of all frames of each domain. Frames state distances between places: one
/// count for all domains would show how much others have compressed. If a domain is dropped, its
/// places restart, and shifts from older frames are less likely to be right.
type Places = Domains<i64, MAX_DOMAINS>;

/// A block that ended in a block of the codec.
#[derive(Clone, Debug)]
struct Target {
    noted: Noted,
    /// Which of those that ended it is.
    nth: usize,
    /// Its bytes before the block of the codec, and the ranges of the rest in that, among those of
    /// all.
    skip: usize,
    lies: Range<usize>,
    /// Ranges of its heads, literals and sequences among those of all.
    heads: Range<usize>,
    literals: Range<usize>,
    sequences: Range<usize>,
    /// The runs found for it.
    runs: Range<usize>,
}

/// Looks inside zstd frames. Its buffers are kept between blocks.
#[derive(Debug)]
pub(in crate::inside) struct Zstd {
    /// Allocated with the first frame.
    index: Option<Index>,
    capacity: u64,
    places: Places,
    targets: Vec<Target>,
    /// Ranges of the block of the codec that the targets have.
    lies: Vec<Range<usize>>,
    content: Vec<u8>,
    heads: Vec<u8>,
    literals: Vec<u8>,
    sequences: Vec<Sequence>,
    starts: Vec<u32>,
    runs: Vec<Run>,
    sources: Sources,
    /// Work of opening the sources.
    sources_work: u64,
    hashes: Vec<u32>,
    columns: Columns,
    check: Vec<u8>,
}

/// The parts of a block so far.
#[derive(Debug)]
pub(in crate::inside) struct Parts<'a> {
    /// The byte matches; those that a plan replaces are dropped.
    pub(in crate::inside) matches: &'a mut Vec<Match>,
    pub(in crate::inside) plan: &'a mut Plan,
    pub(in crate::inside) expander: &'a mut Expander,
    /// Newer copies of content whose first copy the log has lost.
    pub(in crate::inside) copies: &'a Copies,
}

/// The result for a block.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::inside) struct Found {
    /// Bytes of the block in zstd blocks that were opened.
    pub(in crate::inside) opened: usize,
    /// Estimated bytes that the plan saves.
    pub(in crate::inside) saved: usize,
    /// Work that it took: see [`crate::inside::budget`].
    pub(in crate::inside) work: u64,
    /// A plan failed to reproduce the literals.
    pub(in crate::inside) is_refused: bool,
}

impl Zstd {
    /// Memory in bytes, at most.
    pub(in crate::inside) fn most_memory(capacity: u64, max_block: usize) -> usize {
        // Content and heads of zstd blocks, and their expansion, in buffers that grow by doubling.
        let Room { literals, sequences } = most_expanded(max_block);
        let each = size_of::<Sequence>() + size_of::<u32>() + size_of::<Run>() / 2;
        Index::most_memory(capacity)
            .saturating_add(Places::MEMORY)
            .saturating_add(2 * (2 * MAX_ZSTD_BLOCK + literals + sequences * each))
            // Hashes of the sources' sequences: a power of two.
            .saturating_add(size_of::<u32>() * 2 * MAX_SEQUENCES)
            // Ranges of targets: pieces of what a block holds.
            .saturating_add(4 * max_block * size_of::<Range<usize>>() / 64)
            // Columns, residual and literals.
            .saturating_add(16 * max_block)
    }

    pub(in crate::inside) fn memory(&self) -> usize {
        self.index.as_ref().map_or(0, Index::memory)
            + self.places.memory()
            + self.targets.capacity() * size_of::<Target>()
            + self.lies.capacity() * size_of::<Range<usize>>()
            + self.content.capacity()
            + self.heads.capacity()
            + self.literals.capacity()
            + self.sequences.capacity() * size_of::<Sequence>()
            + self.starts.capacity() * 4
            + self.runs.capacity() * size_of::<Run>()
            + self.sources.memory()
            + self.hashes.capacity() * 4
            + self.columns.all().iter().map(|column| column.capacity()).sum::<usize>()
            + self.columns.bytes.capacity()
            + self.columns.plain.capacity()
            + self.check.capacity()
    }

    pub(in crate::inside) fn new(capacity: u64) -> Zstd {
        Zstd {
            index: None,
            capacity,
            places: Places::default(),
            targets: Vec::new(),
            lies: Vec::new(),
            content: Vec::new(),
            heads: Vec::new(),
            literals: Vec::new(),
            sequences: Vec::new(),
            starts: Vec::new(),
            runs: Vec::new(),
            sources: Sources::default(),
            sources_work: 0,
            hashes: Vec::new(),
            columns: Columns::default(),
            check: Vec::new(),
        }
    }

    pub(in crate::inside) fn rewind(&mut self, offset: u64) {
        if let Some(index) = &mut self.index {
            index.rewind(offset);
        }
    }

    /// Reads the zstd blocks that ended in `block`, which goes to `place` in the log.
    fn read(&mut self, place: &Place<'_>, block: &[u8], ended: &[Block], frames: &mut Frames) {
        let &Place { log, offset, key, .. } = place;
        self.targets.clear();
        self.lies.clear();
        self.heads.clear();
        self.literals.clear();
        self.sequences.clear();
        self.starts.clear();
        for (nth, block_of) in ended.iter().enumerate() {
            let mut flow = frames.take(block_of.stream);
            if block_of.is_first {
                let tables = Tables::default();
                // Shifts are by place: frames that interleave must not have the same places.
                let apart = if frames.flows.is_empty() { 0 } else { APART };
                let place = *self.places.of(key) + apart;
                flow = Some(Box::new(Flow { tables, origins: [UNKNOWN; 4], place }));
            }
            let Some(mut flow) = flow else { continue };
            let now = &mut *flow;
            let before = (self.heads.len(), self.literals.len(), self.sequences.len());
            if let Kind::Plain(len) = block_of.kind {
                now.place += i64::from(len);
            } else if self.read_block(log, offset, block, (nth, block_of), now).is_none() {
                // What was read of it has no target, and its sequences have no `starts`.
                self.heads.truncate(before.0);
                self.literals.truncate(before.1);
                self.sequences.truncate(before.2);
                continue;
            }
            let behind = self.places.of(key);
            *behind = now.place.max(*behind);
            frames.put(block_of.stream, flow);
        }
    }

    /// `None` if it is unreadable.
    fn read_block(
        &mut self,
        log: &Log,
        offset: u64,
        block: &[u8],
        (nth, ended): (usize, &Block),
        flow: &mut Flow,
    ) -> Option<()> {
        self.content.clear();
        let mut skip = 0;
        let first = self.lies.len();
        for piece in &ended.pieces {
            // Its bytes before the block are in the log already.
            let before = piece.start..piece.end.min(offset);
            if before.start < before.end {
                log.extent(before.start, 0).filter(|extent| before.end <= extent.end)?;
                skip += (before.end - before.start) as usize;
                self.content.extend_from_slice(log.read(before));
            }
            let here = piece.start.max(offset)..piece.end.max(offset);
            let here = (here.start - offset) as usize..(here.end - offset) as usize;
            self.content.extend_from_slice(block.get(here.clone())?);
            if !here.is_empty() {
                self.lies.push(here);
            }
        }
        let end = ended.pieces.last()?.end;
        let (heads, literals, sequences) =
            (self.heads.len(), self.literals.len(), self.sequences.len());
        let (content, tables) = (&self.content, &mut flow.tables);
        // What a block that cannot be read regenerates, mostly.
        let mut unread = 0;
        // A hostile block can expand to much from few bytes.
        let most = most_expanded(block.len());
        let room = Room {
            literals: most.literals.saturating_sub(self.literals.len()),
            sequences: most.sequences.saturating_sub(self.sequences.len()),
        };
        let needed = Outline::read(content).ok()?.uses().inherits;
        let uses = if (0..4).all(|nth| tables.has(nth) || !needed[nth]) {
            let unpacked =
                zstd_block::unpack(content, tables, room, &mut self.literals, &mut self.sequences);
            let (uses, parts) = unpacked.ok()?;
            parts.iter().for_each(|head| self.heads.extend_from_slice(head));
            uses
        } else {
            // The beginning of the frame was not sent. Later blocks may need its tables.
            unread = i64::from(MAX_ZSTD_BLOCK as u32);
            zstd_block::pass(content, tables).ok()?
        };
        let mut matched = 0;
        let mut start = literals as u32;
        for sequence in &self.sequences[sequences..] {
            self.starts.push(start);
            start += sequence.literals;
            matched += i64::from(sequence.matched) + 3;
        }
        let noted = Noted {
            end,
            len: self.content.len() as u32,
            first: 0,
            pieces: 0,
            literals: (self.literals.len() - literals) as u32,
            sequences: (self.sequences.len() - sequences) as u32,
            is_last: ended.is_last,
            has_checksum: ended.has_checksum,
            uses,
            origins: flow.origins,
            place: flow.place,
        };
        flow.place += i64::from(noted.literals) + matched + unread;
        describe(&mut flow.origins, &uses, end);
        self.targets.push(Target {
            noted,
            nth,
            skip,
            lies: first..self.lies.len(),
            heads: heads..self.heads.len(),
            literals: literals..self.literals.len(),
            sequences: sequences..self.sequences.len(),
            runs: 0..0,
        });
        Some(())
    }

    /// Finds the content of the zstd blocks that ended in `block` in the log, and makes a plan for
    /// it, unless there is one.
    pub(in crate::inside) fn find(
        &mut self,
        place: &Place<'_>,
        block: &[u8],
        ended: &[Block],
        frames: &mut Frames,
        parts: Parts<'_>,
    ) -> Found {
        self.read(place, block, ended, frames);
        // Those that could not be read have no heads.
        let read = self.targets.iter().filter(|target| !target.heads.is_empty());
        let opened = read.map(|target| self.len_of(target)).sum();
        let work = self.targets_work();
        let mut found = Found { opened, work, ..Found::default() };
        if self.targets.is_empty() {
            return found;
        }
        let index = self.index.take().unwrap_or_else(|| Index::new(self.capacity));
        if parts.plan.is_empty() {
            // In the order in which they begin; those of streams that interleave end in another.
            let lies = &self.lies;
            self.targets.sort_by_key(|of| lies.get(of.lies.start).map_or(0, |first| first.start));
            match self.plan(place, &index, block, &mut frames.shifts, parts) {
                Ok(saved) => found.saved = saved,
                Err(Refused) => found.is_refused = true,
            }
            found.work += std::mem::take(&mut self.sources_work);
            // Rebuilt to be compared.
            found.work += if found.saved > 0 { work } else { 0 };
        }
        self.index = Some(index);
        self.note(place.key, ended);
        found
    }

    /// Bytes of a target in the block of the codec.
    fn len_of(&self, target: &Target) -> usize {
        self.lies[target.lies.clone()].iter().map(Range::len).sum()
    }

    /// Work of opening the targets.
    fn targets_work(&self) -> u64 {
        unpacking(self.targets.len(), self.literals.len(), self.sequences.len())
    }

    /// Reads the zstd blocks that ended in skipped content. Returns the work that it took.
    pub(in crate::inside) fn pass(
        &mut self,
        place: &Place<'_>,
        content: &[u8],
        ended: &[Block],
        frames: &mut Frames,
    ) -> u64 {
        self.read(place, content, ended, frames);
        self.targets_work()
    }

    /// The position of a flow in a zstd frame that continues as the log does after `source`, with
    /// earlier content at `content` of the log.
    pub(in crate::inside) fn resume(
        &mut self,
        place: &Place<'_>,
        copies: &Copies,
        source: u64,
        content: &Range<u64>,
        floor: u64,
    ) -> Option<(Frame, Box<Flow>)> {
        let &Place { log, key, .. } = place;
        let index = self.index.as_ref()?;
        let (block, range) = index.around(source)?;
        let (before, left) = (source - range.start, range.end - source);
        if left == 0 && block.is_last && !block.has_checksum {
            return None;
        }
        let before = content.end.saturating_sub(before)..content.end;
        if before.start < content.start && left > 0 {
            return None;
        }
        let is_allowed = |range: &Range<u64>| {
            log.extent(range.start, floor).is_some_and(|extent| range.end <= extent.end)
        };
        // All tables, because the blocks that follow may inherit any of them.
        let mut describing: Vec<u64> =
            block.origins.iter().copied().filter(|&end| end != UNKNOWN).collect();
        if left == 0 {
            describing.push(block.end);
        }
        describing.sort_unstable();
        describing.dedup();
        let (mut tables, mut origins) = (Tables::default(), [UNKNOWN; 4]);
        let mut cursor = Cursor::default();
        for end in describing {
            let block = index.ending(end)?;
            self.content.clear();
            for piece in index.pieces(block) {
                let held = copies.held(&piece, key, &mut cursor, is_allowed)?;
                self.content.extend_from_slice(log.read(held..held + (piece.end - piece.start)));
            }
            zstd_block::pass(&self.content, &mut tables).ok()?;
            describe(&mut origins, &block.uses, end);
        }
        let frame = Frame::within(before, left as usize, block.is_last, block.has_checksum);
        let place = *self.places.of(key);
        let flow = Flow { tables, origins, place };
        Some((frame, Box::new(flow)))
    }

    /// Records the blocks that were read: some of those that `ended`.
    fn note(&mut self, key: u64, ended: &[Block]) {
        let Some(index) = &mut self.index else { return };
        self.targets.sort_unstable_by_key(|target| target.nth);
        for target in &self.targets {
            let sequences = &self.sequences[target.sequences.clone()];
            index.add(target.noted, &ended[target.nth].pieces, fingerprints(sequences, key));
        }
    }
}

/// Most literals and sequences that the zstd blocks of a block of the codec may expand to.
fn most_expanded(block_len: usize) -> Room {
    // One of them began in an earlier block.
    let sequences = block_len / 2 + zstd_block::MAX_SEQUENCES;
    Room { literals: 4 * block_len + MAX_ZSTD_BLOCK, sequences }
}
