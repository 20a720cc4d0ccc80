//! Looks inside the zstd frames of flows, block by block.

mod columns;
mod index;
mod offsets;
mod plan;
mod runs;

use self::columns::Columns;
use self::index::{Index, NOWHERE, Noted, Origins, UNKNOWN, describe, fingerprints};
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
    shifts: Shifts,
}

impl Flow {
    pub(in crate::inside) const MEMORY: usize =
        size_of::<Flow>() + Tables::MEMORY + MAX_SHIFTS * size_of::<(i64, i64)>();
}

/// Positions of a flow in zstd frames: of the flow itself, which is stream 0, or of streams of HTTP/2.
/// The most recently used is last.
#[derive(Debug, Default)]
pub(in crate::inside) struct Frames(Vec<(u32, Box<Flow>)>);

impl Frames {
    /// Memory in bytes, at most, without positions: [`Flow::MEMORY`] each. The list grows by doubling.
    pub(in crate::inside) const MEMORY: usize =
        2 * (MOST_STREAMS + 1) * size_of::<(u32, Box<Flow>)>();

    /// Keeps the position of the flow itself, and those of streams that are followed.
    pub(in crate::inside) fn retain(&mut self, is_followed: impl Fn(u32) -> bool) {
        self.0.retain(|(stream, _)| *stream == 0 || is_followed(*stream));
    }

    pub(in crate::inside) fn clear(&mut self) {
        self.0.clear();
    }

    /// Of the flow itself.
    pub(in crate::inside) fn set(&mut self, flow: Box<Flow>) {
        self.0 = vec![(0, flow)];
    }

    /// Removes and returns the position of a stream.
    fn take(&mut self, stream: u32) -> Option<Box<Flow>> {
        let nth = self.0.iter().rposition(|(known, _)| *known == stream)?;
        Some(self.0.remove(nth).1)
    }

    fn put(&mut self, stream: u32, flow: Box<Flow>) {
        if self.0.len() > MOST_STREAMS {
            self.0.remove(0);
        }
        self.0.push((stream, flow));
    }

    /// The most recently used.
    fn last(&mut self) -> Option<&mut Flow> {
        self.0.last_mut().map(|(_, flow)| &mut **flow)
    }
}

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
    /// Its bytes before the block of the codec, and the range of the rest in that.
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
            // Columns, residual and literals.
            .saturating_add(16 * max_block)
    }

    pub(in crate::inside) fn memory(&self) -> usize {
        self.index.as_ref().map_or(0, Index::memory)
            + self.places.memory()
            + self.targets.capacity() * size_of::<Target>()
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
        self.heads.clear();
        self.literals.clear();
        self.sequences.clear();
        self.starts.clear();
        for block_of in ended {
            let mut flow = frames.take(block_of.stream);
            if block_of.is_first {
                let shifts = flow.map(|flow| flow.shifts).unwrap_or_default();
                let tables = Tables::default();
                let place = *self.places.of(key);
                flow = Some(Box::new(Flow { tables, origins: [UNKNOWN; 4], place, shifts }));
            }
            let Some(mut flow) = flow else { continue };
            let now = &mut *flow;
            let before = (self.heads.len(), self.literals.len(), self.sequences.len());
            if let Kind::Plain(len) = block_of.kind {
                now.place += i64::from(len);
            } else if self.read_block(log, offset, block, block_of, now).is_none() {
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
        ended: &Block,
        flow: &mut Flow,
    ) -> Option<()> {
        self.content.clear();
        let (mut skip, mut pieces_here) = (0, 0);
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
            pieces_here += usize::from(!here.is_empty());
            self.content.extend_from_slice(block.get(here)?);
        }
        let end = ended.pieces.last()?.end.checked_sub(offset)? as usize;
        // What is in several pieces here cannot be replaced.
        let len = if pieces_here > 1 { 0 } else { self.content.len() - skip };
        let lies = end.checked_sub(len)?..end;
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
        // Nothing can refer to a block in several pieces.
        let at = match &ended.pieces[..] {
            [piece] => piece.start,
            _ => NOWHERE + flow.place as u64,
        };
        let noted = Noted {
            at,
            len: self.content.len() as u32,
            literals: (self.literals.len() - literals) as u32,
            sequences: (self.sequences.len() - sequences) as u32,
            is_last: ended.is_last,
            has_checksum: ended.has_checksum,
            uses,
            origins: flow.origins,
            place: flow.place,
        };
        flow.place += i64::from(noted.literals) + matched + unread;
        describe(&mut flow.origins, &uses, at);
        self.targets.push(Target {
            noted,
            skip,
            lies,
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
        let opened = read.map(|target| target.lies.len()).sum();
        let work = self.targets_work();
        let mut found = Found { opened, work, ..Found::default() };
        if self.targets.is_empty() {
            return found;
        }
        let index = self.index.take().unwrap_or_else(|| Index::new(self.capacity));
        if parts.plan.is_empty()
            && let Some(flow) = frames.last()
        {
            match self.plan(place, &index, block, flow, parts) {
                Ok(saved) => found.saved = saved,
                Err(Refused) => found.is_refused = true,
            }
            found.work += std::mem::take(&mut self.sources_work);
            // Rebuilt to be compared.
            found.work += if found.saved > 0 { work } else { 0 };
        }
        self.index = Some(index);
        self.note(place.key);
        found
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
        let block = index.around(source)?;
        let (before, left) = (source - block.at, block.at + u64::from(block.len) - source);
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
            block.origins.iter().copied().filter(|&at| at != UNKNOWN).collect();
        if left == 0 {
            describing.push(block.at);
        }
        describing.sort_unstable();
        describing.dedup();
        let (mut tables, mut origins) = (Tables::default(), [UNKNOWN; 4]);
        let mut cursor = Cursor::default();
        for at in describing {
            let block = index.at(at)?;
            let held = copies.held(&block.range(), key, &mut cursor, is_allowed)?;
            let content = log.read(held..held + u64::from(block.len));
            zstd_block::pass(content, &mut tables).ok()?;
            describe(&mut origins, &block.uses, at);
        }
        let frame = Frame::within(before, left as usize, block.is_last, block.has_checksum);
        let place = *self.places.of(key);
        let flow = Flow { tables, origins, place, shifts: Shifts::new() };
        Some((frame, Box::new(flow)))
    }

    /// Records the blocks that were read.
    fn note(&mut self, key: u64) {
        let Some(index) = &mut self.index else { return };
        for target in self.targets.iter().filter(|target| target.noted.at < NOWHERE) {
            let sequences = &self.sequences[target.sequences.clone()];
            index.add(target.noted, fingerprints(sequences, key));
        }
    }
}

/// Most literals and sequences that the zstd blocks of a block of the codec may expand to.
fn most_expanded(block_len: usize) -> Room {
    // One of them began in an earlier block.
    let sequences = block_len / 2 + zstd_block::MAX_SEQUENCES;
    Room { literals: 4 * block_len + MAX_ZSTD_BLOCK, sequences }
}
