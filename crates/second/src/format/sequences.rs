//! Sequences of zstd: section 7.

use super::blocks::*;
use super::*;

fn number(column: &mut &[u8]) -> Result<u64, No> {
    field(column)
}

fn below_2_32(column: &mut &[u8]) -> Result<usize, No> {
    match field(column)? {
        value if value < 1 << 32 => Ok(value as usize),
        _ => Err(Invalid("number")),
    }
}

fn signed(column: &mut &[u8]) -> Result<i64, No> {
    let u = i128::from(field(column)?);
    let value = if u % 2 == 0 { u / 2 } else { -((u + 1) / 2) };
    if value.abs() < 1 << 44 { Ok(value as i64) } else { Err(Invalid("step")) }
}

/// A source: what it says without tables, and what was taken from it.
struct Source {
    block: Vec<u8>,
    /// It describes these tables, or uses those of blocks before it.
    describes: [bool; 4],
    inherits: [bool; 4],
    counts: (usize, usize),
    modes: u8,
    /// Where its sequences section begins.
    second: usize,
    place: i64,
    origins: [Option<usize>; 4],
    built: [Option<Tables>; 2],
    /// Literals, and sequences with the first literal and the place of the match.
    read: Option<(Vec<u8>, Vec<Taken>)>,
}

type Taken = (Sequence, usize, i64);

impl Source {
    fn new(block: Vec<u8>) -> Result<Source, No> {
        if block.len() > MOST {
            return Err(Invalid("block"));
        }
        let mut data = &block[..];
        let head = literals_fields(&mut data)?;
        take(&mut data, head.packed)?;
        let second = block.len() - data.len();
        let (count, modes) = sequences_fields(&mut data)?;
        let mode = |kind: usize| if count > 0 { Some(modes >> (8 - 2 * kind) & 3) } else { None };
        Ok(Source {
            describes: std::array::from_fn(|kind| match kind {
                0 => head.kind == 2,
                _ => mode(kind).is_some_and(|mode| mode != 3),
            }),
            inherits: std::array::from_fn(|kind| match kind {
                0 => head.kind == 3,
                _ => mode(kind) == Some(3),
            }),
            counts: (head.count, count),
            modes,
            second,
            place: 0,
            origins: [None; 4],
            built: [None, None],
            read: None,
            block,
        })
    }
}

struct State<'a> {
    control: &'a [u8],
    counts: &'a [u8],
    matches: &'a [u8],
    offsets: &'a [u8],
    changes: &'a [u8],
    bytes: &'a [u8],
    sources: Vec<Source>,
    /// Of each sequence of all, the source and which one it is there.
    sequences: Vec<(usize, usize)>,
    work: Work,
    shifts: Vec<(i64, i64)>,
    here: i64,
}

pub(super) fn read<'a>(
    residual: &'a [u8],
    mut plain: &'a [u8],
    sources: &[Vec<u8>],
    l: usize,
    work: Work,
) -> Result<Vec<u8>, No> {
    let mut rest = residual;
    let mut lens = [0; 5];
    for len in &mut lens {
        *len = below_2_32(&mut rest)?;
    }
    let mut column = |nth: usize| take(&mut rest, lens[nth]);
    let mut state = State {
        control: column(0)?,
        counts: column(1)?,
        matches: column(2)?,
        offsets: column(3)?,
        changes: column(4)?,
        bytes: &[],
        sources: Vec::new(),
        sequences: Vec::new(),
        work,
        shifts: Vec::new(),
        here: 0,
    };
    state.bytes = rest;
    state.sources(sources)?;
    let (mut from, mut shift) = (0, 0);
    let count = number(&mut state.control)?;
    if count > 1024 {
        return Err(Invalid("shifts"));
    }
    state.work.count(4 * count)?;
    for _ in 0..count {
        from += signed(&mut state.control)?;
        shift += signed(&mut state.control)?;
        if state.shifts.last().is_some_and(|&(before, _)| from <= before) {
            return Err(Invalid("shifts"));
        }
        state.shifts.push((from, shift));
    }
    let mut out = Vec::new();
    let (mut tables, mut origins, mut blocks) = (Tables::default(), [None; 4], 0);
    let mut open: Vec<Vec<u8>> = Vec::new();
    while !state.control.is_empty() {
        let n = number(&mut state.control)?;
        if n / 2 > (l - out.len()) as u64 {
            return Err(Invalid("bytes"));
        }
        let column = if n % 2 == 1 { &mut plain } else { &mut state.bytes };
        out.extend(take(column, (n / 2) as usize)?);
        let t = number(&mut state.control)?;
        let mut piece = None;
        if t > state.sources.len() as u64 {
            state.work.count(16)?;
            let nth = usize::try_from(t).map_err(|_| Invalid("open block"))?;
            piece = Some((nth - 1 - state.sources.len(), below_2_32(&mut state.control)?));
        } else {
            if t > 0 {
                (tables, origins) = (Tables::default(), state.sources[t as usize - 1].origins);
            }
            let skip = below_2_32(&mut state.control)?;
            let first = if skip % 2 == 1 { below_2_32(&mut state.control)? } else { 0 };
            blocks += 1;
            state.here += signed(&mut state.control)?;
            let block = state.block(&mut tables, &origins)?;
            let rest = block.get(skip / 2..).unwrap_or_default();
            if blocks > 256 || rest.is_empty() || skip % 2 == 1 && first == 0 {
                return Err(Invalid("block"));
            }
            if skip % 2 == 1 {
                piece = Some((open.len(), first));
                open.push(rest.to_vec());
            } else if rest.len() > l - out.len() {
                return Err(Invalid("block"));
            } else {
                out.extend(rest);
            }
        }
        if open.len() > 8 {
            return Err(Invalid("open blocks"));
        }
        if let Some((nth, count)) = piece {
            let block = open.get_mut(nth).ok_or(Invalid("open block"))?;
            if count >= block.len() {
                return Err(Invalid("piece"));
            }
            let count = if count == 0 { block.len() } else { count };
            if count > l - out.len() {
                return Err(Invalid("piece"));
            }
            out.extend(block.drain(..count));
            open.retain(|block| !block.is_empty());
        }
    }
    if !open.is_empty() {
        return Err(Invalid("an open block"));
    }
    out.extend(state.bytes);
    out.extend(plain);
    let columns = [state.counts, state.matches, state.offsets, state.changes];
    if columns.iter().all(|column| column.is_empty()) && out.len() == l {
        Ok(out)
    } else {
        Err(Invalid("columns left over"))
    }
}

impl<'a> State<'a> {
    fn sources(&mut self, sources: &[Vec<u8>]) -> Result<(), No> {
        self.work.count(16 * sources.len() as u64)?;
        let (mut place, mut origins, mut literals) = (0, [None; 4], 0);
        // Pieces of a source, how many there are, and bytes of all sources in pieces.
        let (mut pieces, mut count, mut in_pieces) = (Vec::new(), 0, 0);
        for piece in sources {
            let kind = number(&mut self.control)?;
            if kind > 4 {
                return Err(Invalid("kind of source"));
            }
            pieces.extend_from_slice(piece);
            count += 1;
            if kind == 4 {
                continue;
            }
            if count > 1 {
                self.work.count(pieces.len().div_ceil(16) as u64)?;
                in_pieces += pieces.len();
            }
            let (nth, block) = (self.sources.len(), std::mem::take(&mut pieces));
            count = 0;
            if kind % 2 == 1 {
                origins = [None; 4];
            }
            let mut source = Source::new(block)?;
            for kind in (0..4).filter(|&kind| source.describes[kind]) {
                origins[kind] = Some(nth);
            }
            if kind < 2 {
                place += signed(&mut self.control)?;
                literals += source.counts.0;
                self.sequences.extend((0..source.counts.1).map(|i| (nth, i)));
            }
            (source.place, source.origins) = (place, origins);
            self.sources.push(source);
        }
        let is_much = literals > 1 << 19 || self.sequences.len() > 1 << 16 || in_pieces > 1 << 19;
        if is_much || self.sources.len() > 64 || count > 0 {
            return Err(Invalid("sources"));
        }
        Ok(())
    }

    /// Adds a table that sources describe.
    fn build(
        &mut self,
        kind: usize,
        origins: &[Option<usize>; 4],
        tables: &mut Tables,
    ) -> Result<(), No> {
        let nth = origins[kind].ok_or(Invalid("a missing table"))?;
        let source = &mut self.sources[nth];
        let section = usize::from(kind > 0);
        if source.built[section].is_none() {
            let mut built = Tables::default();
            let units = if section == 0 {
                literals_head(&mut &source.block[..], &mut built)?;
                built.code_units()
            } else {
                sequences_head(&mut &source.block[source.second..], &mut built)?;
                built.sequences_units(source.modes)
            };
            source.built[section] = Some(built);
            self.work.count(units)?;
        }
        if let Some(built) = &self.sources[nth].built[section] {
            tables.copy(kind, built);
        }
        Ok(())
    }

    /// Reads a source.
    fn taken(&mut self, nth: usize) -> Result<&(Vec<u8>, Vec<Taken>), No> {
        if self.sources[nth].read.is_none() {
            let Source { describes, inherits, counts, origins, mut place, .. } = self.sources[nth];
            self.work.count(counts.0 as u64 + 4 * counts.1 as u64)?;
            let mut tables = Tables::default();
            for kind in (0..4).filter(|&kind| describes[kind] || inherits[kind]) {
                self.build(kind, &origins, &mut tables)?;
            }
            let (literals, sequences) = tables.read(&self.sources[nth].block)?;
            let mut first = 0;
            let mut taken = Vec::new();
            for sequence in sequences {
                place += sequence.0 as i64;
                taken.push((sequence, first, place));
                place += sequence.1 as i64;
                first += sequence.0;
            }
            self.sources[nth].read = Some((literals, taken));
        }
        self.sources[nth].read.as_ref().ok_or(Invalid("source"))
    }

    fn block(&mut self, tables: &mut Tables, origins: &[Option<usize>; 4]) -> Result<Vec<u8>, No> {
        let all = self.bytes;
        let head = literals_head(&mut self.bytes, tables)?;
        let mut out = all[..all.len() - self.bytes.len()].to_vec();
        let all = self.bytes;
        let count = sequences_head(&mut self.bytes, tables)?;
        let second = &all[..all.len() - self.bytes.len()];
        let (_, modes) = sequences_fields(&mut &second[..])?;
        if head.kind == 2 {
            self.work.count(tables.code_units())?;
        }
        self.work.count(tables.sequences_units(modes))?;
        self.work.count(16 + head.count as u64 + 4 * count as u64)?;
        for kind in 0..4 {
            let is_used = match kind {
                0 => head.kind == 3,
                _ => count > 0 && modes >> (8 - 2 * kind) & 3 == 3,
            };
            if is_used && !tables.has(kind) {
                self.build(kind, origins, tables)?;
            }
        }
        let (mut literals, mut sequences, mut next) = (Vec::new(), Vec::new(), 0usize);
        while sequences.len() < count {
            for _ in 0..number(&mut self.control)? {
                let sequence = (
                    below_2_32(&mut self.counts)?,
                    below_2_32(&mut self.matches)? + 3,
                    below_2_32(&mut self.offsets)?,
                );
                literals.extend(take(&mut self.bytes, sequence.0)?);
                self.here += (sequence.0 + sequence.1) as i64;
                sequences.push(sequence);
            }
            if sequences.len() >= count {
                break;
            }
            let n = number(&mut self.control)?;
            if n == 0 {
                return Err(Invalid("run"));
            }
            next = usize::try_from(next as i64 + signed(&mut self.control)?)
                .map_err(|_| Invalid("sequence"))?;
            for _ in 0..n {
                let &(source, i) = self.sequences.get(next).ok_or(Invalid("sequence"))?;
                next += 1;
                let taken = self.taken(source)?;
                let ((count, matched, offset), first, there) = taken.1[i];
                literals.extend_from_slice(&taken.0[first..first + count]);
                self.here += count as i64;
                let offset = match take(&mut self.changes, 1)?[0] {
                    0 => self.expected(offset, there),
                    1 => offset,
                    2 => below_2_32(&mut self.offsets)?,
                    _ => return Err(Invalid("change")),
                };
                sequences.push((count, matched, offset));
                self.here += matched as i64;
            }
        }
        if sequences.len() > count {
            return Err(Invalid("sequences"));
        }
        let left = head.count.checked_sub(literals.len()).ok_or(Invalid("literals"))?;
        let n = below_2_32(&mut self.control)?;
        if n > left {
            return Err(Invalid("literals"));
        }
        if n > 0 {
            let last = next.checked_sub(1).and_then(|last| self.sequences.get(last));
            let &(source, i) = last.ok_or(Invalid("literals"))?;
            let taken = self.taken(source)?;
            let ((count, ..), first, _) = taken.1[i];
            let from = taken.0.get(first + count..first + count + n);
            literals.extend_from_slice(from.ok_or(Invalid("literals"))?);
        }
        literals.extend(take(&mut self.bytes, left - n)?);
        self.here += left as i64;
        head.write(tables, &literals, &mut out)?;
        out.extend(second);
        write_sequences(tables, &sequences, &mut out)?;
        if out.len() > MOST { Err(Invalid("block")) } else { Ok(out) }
    }

    fn expected(&self, offset: usize, there: i64) -> usize {
        let Some(distance) = offset.checked_sub(3).filter(|&distance| distance > 0) else {
            return offset;
        };
        let before = |&&(from, _): &&(i64, i64)| from <= there - distance as i64;
        let Some((_, shift)) = self.shifts.iter().rev().find(before) else { return offset };
        let moved = offset as i64 + self.here - there - shift;
        if moved > 3 && moved < 1 << 32 { moved as usize } else { offset }
    }
}
