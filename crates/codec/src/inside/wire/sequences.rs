//! Expands literals from zstd blocks of the log. `docs/FORMAT.md`, "Sequences of zstd".

use crate::error::FrameError;
use crate::inside::wire::clause::Clause;
use crate::inside::wire::columns::{Residual, bytes, number, signed, small};
use crate::inside::wire::pieces::{self, Joined, MAX_NAMED, Open};
use crate::inside::wire::work::{LITERAL, SEQUENCE, SHIFT, STEP, Work};
use crate::zstd_block::{
    self, MAX_ZSTD_BLOCK, Outline, Packer, Room, Sequence, Stop, Tables, unpack,
};
use std::ops::Range;

/// Most sequences, and most literals, that a frame may take from its sources.
pub(in crate::inside) const MAX_SEQUENCES: usize = 1 << 16;
pub(in crate::inside) const MAX_LITERALS: usize = 1 << 19;
/// Most shifts of a frame.
pub(in crate::inside) const MAX_SHIFTS: usize = 1 << 10;

/// Most blocks that a frame may write.
pub(in crate::inside) const MAX_BLOCKS: usize = 256;

/// How the offset of a sequence changes.
pub(in crate::inside) mod change {
    /// As in the source, corrected for insertions and deletions in between.
    pub(in crate::inside) const EXPECTED: u8 = 0;
    /// As in the source.
    pub(in crate::inside) const SAME: u8 = 1;
    /// Stated.
    pub(in crate::inside) const NEW: u8 = 2;
}

impl From<Stop> for FrameError {
    fn from(_: Stop) -> FrameError {
        Clause::Block.into()
    }
}

/// Where content of one frame moved in another: from each place on, the bytes by which it is later.
/// Ascending.
pub(in crate::inside) type Shifts = Vec<(i64, i64)>;

/// The shift that applies to the content at `place`, if any.
pub(in crate::inside) fn shift_at(shifts: &[(i64, i64)], place: i64) -> Option<usize> {
    shifts.partition_point(|&(from, _)| from <= place).checked_sub(1)
}

/// The offset of a sequence whose match begins at `place` in the source and at `here` in the block.
pub(in crate::inside) fn expected(
    shifts: &[(i64, i64)],
    offset: u32,
    place: i64,
    here: i64,
) -> u32 {
    let Some(distance) = offset.checked_sub(3).filter(|&distance| distance > 0) else {
        return offset;
    };
    let Some(nth) = shift_at(shifts, place - i64::from(distance)) else { return offset };
    let moved = i64::from(offset) + here - place - shifts[nth].1;
    if moved > 3 { u32::try_from(moved).unwrap_or(offset) } else { offset }
}

/// Sequences and literals of the sources. Kept between frames for its memory.
#[derive(Debug, Default)]
pub(in crate::inside) struct Sources {
    pub(in crate::inside) literals: Vec<u8>,
    pub(in crate::inside) sequences: Vec<Sequence>,
    /// First literal of each sequence, and the place where its match begins.
    pub(in crate::inside) places: Vec<(u32, i64)>,
    /// End of each source, in sequences and in literals.
    ends: Vec<(usize, usize)>,
}

impl Sources {
    pub(in crate::inside) const MEMORY: usize = MAX_LITERALS
        + MAX_SEQUENCES * (size_of::<Sequence>() + size_of::<(u32, i64)>())
        + 2 * MAX_NAMED * size_of::<(usize, usize)>();

    pub(in crate::inside) fn memory(&self) -> usize {
        self.literals.capacity()
            + self.sequences.capacity() * size_of::<Sequence>()
            + self.places.capacity() * size_of::<(u32, i64)>()
            + self.ends.capacity() * size_of::<(usize, usize)>()
    }

    pub(in crate::inside) fn clear(&mut self) {
        self.literals.clear();
        self.sequences.clear();
        self.places.clear();
        self.ends.clear();
    }

    /// Adds the block whose content begins at `place`.
    pub(in crate::inside) fn add(
        &mut self,
        block: &[u8],
        tables: &mut Tables,
        place: i64,
    ) -> Result<(), Stop> {
        self.append(place, |literals, sequences| {
            let room = Room {
                literals: MAX_LITERALS - literals.len(),
                sequences: MAX_SEQUENCES - sequences.len(),
            };
            unpack(block, tables, room, literals, sequences).map(|_| ())
        })
    }

    /// Appends what `unpack` gives, limited to the room left.
    fn append(
        &mut self,
        place: i64,
        unpack: impl FnOnce(&mut Vec<u8>, &mut Vec<Sequence>) -> Result<(), Stop>,
    ) -> Result<(), Stop> {
        let (literal, first) = (self.literals.len(), self.sequences.len());
        if self.literals.capacity() == 0 {
            // Allocate the maximum once: buffers that grow would take twice as much.
            self.literals.reserve_exact(MAX_LITERALS);
            self.sequences.reserve_exact(MAX_SEQUENCES);
            self.places.reserve_exact(MAX_SEQUENCES);
        }
        unpack(&mut self.literals, &mut self.sequences)?;
        let (mut at, mut place) = (literal as u32, place);
        for sequence in &self.sequences[first..] {
            place += i64::from(sequence.literals);
            self.places.push((at, place));
            at += sequence.literals;
            place += i64::from(sequence.matched) + 3;
        }
        self.ends.push((self.sequences.len(), self.literals.len()));
        Ok(())
    }

    /// End of the literals of a sequence.
    fn literal_end(&self, nth: usize) -> usize {
        self.places[nth].0 as usize + self.sequences[nth].literals as usize
    }

    /// The literals of the same source that follow those of a sequence.
    pub(in crate::inside) fn literals_behind(&self, nth: usize) -> &[u8] {
        let source = self.ends.partition_point(|&(end, _)| end <= nth);
        &self.literals[self.literal_end(nth)..self.ends[source].1]
    }
}

/// A source of a frame. It is read when something is first taken from it; its tables are built when
/// something is first read or written with them.
#[derive(Debug)]
struct Source<'a> {
    outline: Outline<'a>,
    /// Place of its content; `None` if it gives tables only.
    place: Option<i64>,
    /// For each table valid after this source, the source that describes it.
    origins: Origins,
    /// The tables that it describes, once built, and the lengths of the descriptions in its two
    /// sections.
    tables: Tables,
    described: [Option<usize>; 2],
    /// First of its sequences among those read.
    read: Option<usize>,
}

type Origins = [Option<u8>; 4];

/// The sources of a frame.
#[derive(Debug)]
struct Named<'a> {
    all: Vec<Source<'a>>,
    /// End of each, among the sequences of all.
    ends: Vec<usize>,
    /// The sequences read are those of all, in the same order.
    are_read: bool,
}

impl<'a> Named<'a> {
    /// Reads the heads of the sources, and what the control column states about them. `joined` has
    /// those that are in pieces.
    fn new(
        sources: &[&'a [u8]],
        stated: &[pieces::Stated],
        joined: &'a Joined,
        are_read: bool,
    ) -> Result<Named<'a>, FrameError> {
        let mut named = Named {
            all: Vec::with_capacity(stated.len()),
            ends: Vec::with_capacity(stated.len()),
            are_read,
        };
        let (mut place, mut literals, mut sequences) = (0, 0, 0);
        let mut origins = [None; 4];
        for (nth, stated) in stated.iter().enumerate() {
            if stated.is_fresh {
                origins = [None; 4];
            }
            let outline = Outline::read(joined.block(sources, stated))?;
            if let Some(step) = stated.step {
                place += step;
                literals += outline.literals();
                sequences += outline.sequences();
            }
            for (origin, &describes) in origins.iter_mut().zip(&outline.uses().describes) {
                if describes {
                    *origin = Some(nth as u8);
                }
            }
            named.all.push(Source {
                outline,
                place: stated.step.map(|_| place),
                origins,
                tables: Tables::default(),
                described: [None; 2],
                read: None,
            });
            named.ends.push(sequences);
        }
        if literals > MAX_LITERALS || sequences > MAX_SEQUENCES {
            return Err(Clause::Sizes.into());
        }
        Ok(named)
    }

    /// Copies the tables that `are_needed` and missing from the sources that describe them.
    fn take_tables(
        &mut self,
        origins: &Origins,
        are_needed: [bool; 4],
        tables: &mut Tables,
        work: &mut Work,
    ) -> Result<(), FrameError> {
        for nth in 0..4 {
            if !are_needed[nth] || tables.has(nth) {
                continue;
            }
            let origin = origins[nth].ok_or(Clause::Table)?;
            let Source { outline, tables: own, described, .. } = &mut self.all[usize::from(origin)];
            let section = usize::from(nth > 0);
            if described[section].is_none() {
                let mut units = 0;
                let len = match section {
                    0 => outline.describe_code(own, &mut units),
                    _ => outline.describe_tables(own, &mut units),
                };
                work.add(1, units)?;
                described[section] = Some(len?);
            }
            tables.take_over(nth, own);
        }
        Ok(())
    }

    /// Reads a source once. Returns the index of its first sequence among those read.
    fn read(
        &mut self,
        nth: usize,
        sources: &mut Sources,
        work: &mut Work,
    ) -> Result<usize, FrameError> {
        let Source { outline, place, origins, read, .. } = &self.all[nth];
        if let Some(first) = *read {
            return Ok(first);
        }
        let (outline, origins) = (*outline, *origins);
        // Sources that give tables only contribute no sequences.
        let place = place.ok_or(Clause::TablesOnly)?;
        work.add(outline.literals() as u64, LITERAL)?;
        work.add(outline.sequences() as u64, SEQUENCE)?;
        let uses = outline.uses();
        let are_needed = std::array::from_fn(|nth| uses.inherits[nth] || uses.describes[nth]);
        let mut tables = Tables::default();
        self.take_tables(&origins, are_needed, &mut tables, work)?;
        let described = self.all[nth].described.map(Option::unwrap_or_default);
        let first = if self.are_read {
            nth.checked_sub(1).map_or(0, |before| self.ends[before])
        } else {
            let first = sources.sequences.len();
            sources.append(place, |literals, sequences| {
                outline.unpack(&tables, described, literals, sequences)
            })?;
            first
        };
        self.all[nth].read = Some(first);
        Ok(first)
    }
}

/// Assembles literals. Kept between frames for its memory.
#[derive(Debug, Default)]
pub(in crate::inside) struct Assembly {
    pub(in crate::inside) sources: Sources,
    shifts: Shifts,
    literals: Vec<u8>,
    sequences: Vec<Sequence>,
    block: Vec<u8>,
    joined: Joined,
    open: Open,
    /// All sources are in `sources`, in order: an encoder that checks its own frame need not read
    /// them again.
    are_read: bool,
}

impl Assembly {
    /// Memory in bytes, at most.
    pub(in crate::inside) const MEMORY: usize = Sources::MEMORY
        + MAX_NAMED * (size_of::<Source<'_>>() + size_of::<usize>() + Tables::MEMORY)
        + Tables::MEMORY
        + 2 * MAX_SHIFTS * size_of::<(i64, i64)>()
        + Joined::MEMORY
        + Open::MEMORY
        // A block, its literals, and its sequences, in buffers that grow by doubling.
        + 2 * (2 * MAX_ZSTD_BLOCK + zstd_block::MAX_SEQUENCES * size_of::<Sequence>());

    pub(in crate::inside) fn memory(&self) -> usize {
        self.sources.memory()
            + self.shifts.capacity() * size_of::<(i64, i64)>()
            + self.literals.capacity()
            + self.sequences.capacity() * size_of::<Sequence>()
            + self.block.capacity()
            + self.joined.memory()
            + self.open.memory()
    }

    /// States that all sources of the next frame are in [`Assembly::sources`], in order.
    pub(in crate::inside) fn has_read(&mut self) {
        self.are_read = true;
    }

    /// Writes `len` bytes of literals to `out`, from a residual, `plain` bytes outside of blocks,
    /// and `sources`. Adds the work that it takes.
    ///
    /// # Errors
    /// [`FrameError`]; the content of `out` is then meaningless.
    pub(in crate::inside) fn expand<'r>(
        &mut self,
        residual: &'r [u8],
        mut plain: &'r [u8],
        sources: &[&[u8]],
        len: usize,
        work: &mut Work,
        out: &mut Vec<u8>,
    ) -> Result<(), FrameError> {
        out.clear();
        let are_read = std::mem::take(&mut self.are_read);
        let mut residual = Residual::new(residual)?;
        work.add(sources.len() as u64, STEP)?;
        let stated = pieces::read(sources, &mut residual.control)?;
        // Lent, because sources refer to it.
        let mut joined = std::mem::take(&mut self.joined);
        let written = joined
            .join(sources, &stated, work)
            .and_then(|()| Named::new(sources, &stated, &joined, are_read))
            .and_then(|mut named| {
                self.shifts(&mut named, &mut residual, work)?;
                self.write(&mut residual, &mut plain, &mut named, len, work, out)
            });
        self.joined = joined;
        written?;
        let left = (len - out.len()).checked_sub(plain.len()).ok_or(Clause::Sum)?;
        out.extend_from_slice(bytes(&mut residual.bytes, left)?);
        out.extend_from_slice(plain);
        if residual.is_empty() { Ok(()) } else { Err(Clause::ColumnLeft.into()) }
    }

    /// Reads where content went.
    fn shifts(
        &mut self,
        named: &mut Named<'_>,
        residual: &mut Residual<'_>,
        work: &mut Work,
    ) -> Result<(), FrameError> {
        if !named.are_read {
            self.sources.clear();
        } else if named.ends.last().copied().unwrap_or(0) != self.sources.sequences.len() {
            return Err(Clause::Missing.into());
        }
        self.shifts.clear();
        let count = number(&mut residual.control)?;
        if count > MAX_SHIFTS as u64 {
            return Err(Clause::Shifts.into());
        }
        work.add(count, SHIFT)?;
        let (mut from, mut shift) = (0, 0);
        for _ in 0..count {
            from += signed(&mut residual.control)?;
            shift += signed(&mut residual.control)?;
            if self.shifts.last().is_some_and(|&(last, _)| last >= from) {
                return Err(Clause::ShiftOrder.into());
            }
            self.shifts.push((from, shift));
        }
        Ok(())
    }

    /// Writes the blocks, and the bytes before each piece of them.
    fn write<'r>(
        &mut self,
        residual: &mut Residual<'r>,
        plain: &mut &'r [u8],
        named: &mut Named<'_>,
        len: usize,
        work: &mut Work,
        out: &mut Vec<u8>,
    ) -> Result<(), FrameError> {
        // Tables known for the next block, and the sources that describe the others.
        let mut tables = Tables::default();
        let mut origins = [None; 4];
        let mut here = 0;
        let mut blocks = 0;
        self.open.clear();
        while !residual.control.is_empty() {
            let before = number(&mut residual.control)?;
            let column = if before & 1 == 1 { &mut *plain } else { &mut residual.bytes };
            let room = self.open.room(len, out);
            let before = usize::try_from(before >> 1).ok().filter(|&count| count <= room);
            out.extend_from_slice(bytes(column, before.ok_or(Clause::Outside)?)?);
            work.add(1, STEP)?;
            if let Some(nth) = number(&mut residual.control)?.checked_sub(1) {
                let nth = usize::try_from(nth).map_err(|_| Clause::Missing)?;
                if let Some(nth) = nth.checked_sub(named.all.len()) {
                    let piece = small(&mut residual.control)? as usize;
                    self.open.take(nth, piece, out)?;
                    continue;
                }
                origins = named.all.get(nth).ok_or(Clause::Missing)?.origins;
                tables = Tables::default();
            }
            let skip = small(&mut residual.control)?;
            let piece = if skip & 1 == 1 { Some(small(&mut residual.control)?) } else { None };
            here += signed(&mut residual.control)?;
            blocks += 1;
            if blocks > MAX_BLOCKS {
                return Err(Clause::Blocks.into());
            }
            let mut units = 0;
            let packer = Packer::read(&mut residual.bytes, &mut tables, &mut units)?;
            work.add(1, units)?;
            work.add(packer.literals() as u64, LITERAL)?;
            work.add(packer.sequences() as u64, SEQUENCE)?;
            named.take_tables(&origins, packer.uses().inherits, &mut tables, work)?;
            here = self.block(residual, &packer, named, here, work)?;
            self.block.clear();
            packer.pack(&tables, &self.literals, &self.sequences, &mut self.block)?;
            let rest = self.block.get((skip >> 1) as usize..).unwrap_or_default();
            let room = self.open.room(len, out);
            match piece {
                Some(0) => return Err(Clause::Piece.into()),
                Some(piece) => {
                    self.open.add(rest, room)?;
                    self.open.take(self.open.count() - 1, piece as usize, out)?;
                }
                None if rest.is_empty() || rest.len() > room => {
                    return Err(Clause::BlockLength.into());
                }
                None => out.extend_from_slice(rest),
            }
        }
        if self.open.count() == 0 { Ok(()) } else { Err(Clause::OpenLeft.into()) }
    }

    /// Assembles the literals and sequences of a block whose content begins at place `here`.
    /// Returns the place after it.
    fn block(
        &mut self,
        residual: &mut Residual<'_>,
        packer: &Packer<'_>,
        named: &mut Named<'_>,
        mut here: i64,
        work: &mut Work,
    ) -> Result<i64, FrameError> {
        self.literals.clear();
        self.sequences.clear();
        let all = named.ends.last().copied().unwrap_or(0);
        // Index of the source sequence to use next, among those of all.
        let mut cursor = 0;
        while self.sequences.len() < packer.sequences() {
            let left = packer.sequences() - self.sequences.len();
            let gap = small(&mut residual.control)? as usize;
            if gap > left {
                return Err(Clause::Sequences.into());
            }
            for _ in 0..gap {
                let sequence = Sequence {
                    literals: small(&mut residual.lengths)?,
                    matched: small(&mut residual.matches)?,
                    offset: small(&mut residual.offsets)?,
                };
                if self.literals.len() + sequence.literals as usize > packer.literals() {
                    return Err(Clause::Literals.into());
                }
                let new = bytes(&mut residual.bytes, sequence.literals as usize)?;
                self.literals.extend_from_slice(new);
                here += i64::from(sequence.literals) + i64::from(sequence.matched) + 3;
                self.sequences.push(sequence);
            }
            if gap == left {
                break;
            }
            let run = small(&mut residual.control)? as usize;
            if run == 0 {
                return Err(Clause::Run.into());
            }
            if run > left - gap {
                return Err(Clause::Sequences.into());
            }
            let first = (cursor as i64) + signed(&mut residual.control)?;
            let first = usize::try_from(first).map_err(|_| Clause::Missing)?;
            cursor = first + run;
            if cursor > all {
                return Err(Clause::Missing.into());
            }
            let mut at = first;
            while at < cursor {
                let nth = named.ends.partition_point(|&end| end <= at);
                let start = nth.checked_sub(1).map_or(0, |before| named.ends[before]);
                let begin = named.read(nth, &mut self.sources, work)? + at - start;
                let piece = cursor.min(named.ends[nth]) - at;
                here = self.run(residual, packer, begin..begin + piece, here)?;
                at += piece;
            }
        }
        // Literals after the last sequence.
        let left = packer.literals().checked_sub(self.literals.len()).ok_or(Clause::Literals)?;
        let known = small(&mut residual.control)? as usize;
        if known > left {
            return Err(Clause::Literals.into());
        }
        if known > 0 {
            let last = cursor.checked_sub(1).ok_or(Clause::NoSequence)?;
            let nth = named.ends.partition_point(|&end| end <= last);
            let start = nth.checked_sub(1).map_or(0, |before| named.ends[before]);
            let last = named.read(nth, &mut self.sources, work)? + last - start;
            let there = self.sources.literals_behind(last).get(..known).ok_or(Clause::Following)?;
            self.literals.extend_from_slice(there);
        }
        self.literals.extend_from_slice(bytes(&mut residual.bytes, left - known)?);
        Ok(here + left as i64)
    }

    /// Copies a run of sequences that were read. Returns the place after it.
    fn run(
        &mut self,
        residual: &mut Residual<'_>,
        packer: &Packer<'_>,
        run: Range<usize>,
        mut here: i64,
    ) -> Result<i64, FrameError> {
        let sources = &self.sources;
        let changes = bytes(&mut residual.changes, run.len())?;
        // Consecutive sequences have consecutive literals.
        let literals = sources.places[run.start].0 as usize..sources.literal_end(run.end - 1);
        if self.literals.len() + literals.len() > packer.literals() {
            return Err(Clause::Literals.into());
        }
        self.literals.extend_from_slice(&sources.literals[literals]);
        for ((sequence, &(_, place)), &change) in
            sources.sequences[run.clone()].iter().zip(&sources.places[run]).zip(changes)
        {
            here += i64::from(sequence.literals);
            let offset = match change {
                change::EXPECTED => expected(&self.shifts, sequence.offset, place, here),
                change::SAME => sequence.offset,
                change::NEW => small(&mut residual.offsets)?,
                _ => return Err(Clause::Change.into()),
            };
            here += i64::from(sequence.matched) + 3;
            self.sequences.push(Sequence { offset, ..*sequence });
        }
        Ok(here)
    }
}
