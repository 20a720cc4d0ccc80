//! Undoes the entropy coding of zstd blocks (RFC 8878, section 3.1.1.3), and does it again.
//!
//! Literals and sequences repeat where the bytes of blocks do not. Whoever has them, and the heads of
//! the block's two sections with the tables that they describe, has the block: what writes its
//! entropy coding leaves little choice. `docs/FORMAT.md`, "Sequences of zstd".

mod bits;
mod fse;
mod huffman;

use bits::{BackReader, Writer};
use fse::Table;
use huffman::Code;
use std::sync::Arc;

/// Largest block of zstd, compressed and regenerated, in bytes.
pub(crate) const MAX_ZSTD_BLOCK: usize = 128 << 10;
/// Most sequences of a block that are taken: each regenerates at least three bytes.
pub(crate) const MAX_SEQUENCES: usize = MAX_ZSTD_BLOCK / 3;
/// Room for every block.
#[cfg(test)]
const ALL: Room = Room { literals: MAX_ZSTD_BLOCK, sequences: MAX_SEQUENCES };
/// Not a block that can be taken apart or put together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stop;

/// The tables that a block may take over from those before it in its frame.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tables {
    literals: Option<Arc<Code>>,
    /// For lengths of literals, offsets, and lengths of matches.
    sequences: [Option<Arc<Table>>; 3],
}

impl Tables {
    /// Memory in bytes, at most.
    pub(crate) const MEMORY: usize = Code::MEMORY + 3 * Table::MEMORY;
}

/// What a block does with each table: of literals, of lengths of literals, of offsets, of lengths of
/// matches.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Uses {
    /// It uses the one of a block before.
    pub(crate) inherits: [bool; 4],
    /// It leaves another one to the blocks that follow.
    pub(crate) describes: [bool; 4],
}

/// Literals, then a match of what the frame regenerated before.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Sequence {
    /// Number of literals.
    pub(crate) literals: u32,
    /// Length of the match, less 3.
    pub(crate) matched: u32,
    /// Offset_Value: 1 to 3 for an offset used before, otherwise the offset and 3.
    pub(crate) offset: u32,
}

/// Largest accuracy log, and symbols, of each table of sequences.
const LIMITS: [(u32, usize); 3] = [(9, 36), (8, 32), (9, 53)];

/// Extra bits and lowest value of symbols for lengths of literals from 16 on.
const LITERAL_LENGTHS: [(u32, u32); 20] = [
    (1, 16),
    (1, 18),
    (1, 20),
    (1, 22),
    (2, 24),
    (2, 28),
    (3, 32),
    (3, 40),
    (4, 48),
    (6, 64),
    (7, 128),
    (8, 256),
    (9, 512),
    (10, 1024),
    (11, 2048),
    (12, 4096),
    (13, 8192),
    (14, 16384),
    (15, 32768),
    (16, 65536),
];
/// As above, of matches from 32 on, less the 3 of the shortest match.
const MATCH_LENGTHS: [(u32, u32); 21] = [
    (1, 32),
    (1, 34),
    (1, 36),
    (1, 38),
    (2, 40),
    (2, 44),
    (3, 48),
    (3, 56),
    (4, 64),
    (4, 80),
    (5, 96),
    (7, 128),
    (8, 256),
    (9, 512),
    (10, 1024),
    (11, 2048),
    (12, 4096),
    (13, 8192),
    (14, 16384),
    (15, 32768),
    (16, 65536),
];

const DEFAULT_LITERAL_LENGTHS: [i16; 36] = [
    4, 3, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 1, 1, 1, 2, 2, 2, 2, 2, 2, 2, 2, 2, 3, 2, 1, 1, 1, 1, 1,
    -1, -1, -1, -1,
];
const DEFAULT_OFFSETS: [i16; 29] =
    [1, 1, 1, 1, 1, 1, 2, 2, 2, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, -1, -1, -1, -1, -1];
const DEFAULT_MATCH_LENGTHS: [i16; 53] = [
    1, 4, 3, 2, 2, 2, 2, 2, 2, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1,
    1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, -1, -1, -1, -1, -1, -1, -1,
];

fn default_table(nth: usize) -> Arc<Table> {
    use std::sync::LazyLock;
    static TABLES: LazyLock<[Arc<Table>; 3]> = LazyLock::new(|| {
        [
            Arc::new(Table::new(&DEFAULT_LITERAL_LENGTHS, 6)),
            Arc::new(Table::new(&DEFAULT_OFFSETS, 5)),
            Arc::new(Table::new(&DEFAULT_MATCH_LENGTHS, 6)),
        ]
    });
    TABLES[nth].clone()
}

/// The symbol of a length, and its extra bits.
fn length_symbol(length: u32, direct: u32, table: &[(u32, u32)]) -> (u8, u32, u32) {
    if length < direct {
        return (length as u8, 0, 0);
    }
    let nth = table.partition_point(|&(_, least)| least <= length) - 1;
    let (bits, least) = table[nth];
    (direct as u8 + nth as u8, length - least, bits)
}

#[inline(always)]
fn length_of(
    symbol: u8,
    direct: usize,
    table: &[(u32, u32)],
    reader: &mut BackReader<'_>,
) -> Result<u32, Stop> {
    match usize::from(symbol).checked_sub(direct) {
        None => Ok(u32::from(symbol)),
        Some(nth) => {
            let &(bits, least) = table.get(nth).ok_or(Stop)?;
            Ok(least + reader.take(bits) as u32)
        }
    }
}

/// How literals are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Literals {
    Raw,
    Repeated,
    /// In so many streams.
    Coded(usize),
}

/// What a block begins with, and how its sequences begin.
struct LiteralsHead {
    kind: Literals,
    /// Literals.
    count: usize,
    /// Bytes of the section behind the head and the description of a code.
    packed: usize,
    inherits: bool,
}

/// Takes `count` bytes from the front.
fn split<'a>(data: &mut &'a [u8], count: usize) -> Result<&'a [u8], Stop> {
    let (front, rest) = data.split_at_checked(count).ok_or(Stop)?;
    *data = rest;
    Ok(front)
}

fn number(bytes: &[u8]) -> usize {
    bytes.iter().rev().fold(0, |number, &byte| number << 8 | usize::from(byte))
}

impl LiteralsHead {
    /// Reads the head of the literals section (section 3.1.1.3.1.1) and the description of its
    /// code.
    fn read(data: &mut &[u8], tables: &mut Tables) -> Result<LiteralsHead, Stop> {
        let first = *data.first().ok_or(Stop)?;
        let format = first >> 2 & 3;
        if first & 2 == 0 {
            let len = [1, 2, 1, 3][usize::from(format)];
            let head = number(split(data, len)?);
            let count = if len == 1 { head >> 3 } else { head >> 4 };
            let (kind, packed) =
                if first & 1 == 0 { (Literals::Raw, count) } else { (Literals::Repeated, 1) };
            return LiteralsHead { kind, count, packed, inherits: false }.checked();
        }
        let (len, bits, streams) =
            [(3, 10, 1), (3, 10, 4), (4, 14, 4), (5, 18, 4)][usize::from(format)];
        let head = number(split(data, len)?) >> 4;
        let mask = (1 << bits) - 1;
        let (count, mut packed) = (head & mask, head >> bits & mask);
        let inherits = first & 1 == 1;
        if !inherits {
            let (code, described) = Code::read(data)?;
            split(data, described)?;
            packed = packed.checked_sub(described).ok_or(Stop)?;
            tables.literals = Some(Arc::new(code));
        }
        LiteralsHead { kind: Literals::Coded(streams), count, packed, inherits }.checked()
    }

    fn checked(self) -> Result<LiteralsHead, Stop> {
        if self.count > MAX_ZSTD_BLOCK { Err(Stop) } else { Ok(self) }
    }
}

/// Literals of each of four streams but the last.
fn quarter(count: usize) -> usize {
    count.div_ceil(4)
}

/// Reads the head of the sequences section (section 3.1.1.3.2.1) and the descriptions of its
/// tables. Returns the number of sequences.
fn sequences_head(data: &mut &[u8], tables: &mut Tables, uses: &mut Uses) -> Result<usize, Stop> {
    let first = usize::from(split(data, 1)?[0]);
    let count = match first {
        0..128 => first,
        128..255 => (first - 128) << 8 | usize::from(split(data, 1)?[0]),
        _ => number(split(data, 2)?) + 0x7f00,
    };
    if count > MAX_SEQUENCES {
        return Err(Stop);
    }
    if count == 0 {
        return Ok(0);
    }
    let modes = split(data, 1)?[0];
    if modes & 3 != 0 {
        return Err(Stop);
    }
    for (nth, (max_log, symbols)) in LIMITS.into_iter().enumerate() {
        let table = match modes >> (6 - 2 * nth) & 3 {
            0 => default_table(nth),
            1 => {
                let symbol = split(data, 1)?[0];
                if usize::from(symbol) >= symbols {
                    return Err(Stop);
                }
                Arc::new(Table::of_one(symbol))
            }
            2 => {
                let (table, described) = Table::read(data, max_log, symbols)?;
                split(data, described)?;
                Arc::new(table)
            }
            _ => {
                uses.inherits[nth + 1] = true;
                continue;
            }
        };
        uses.describes[nth + 1] = true;
        tables.sequences[nth] = Some(table);
    }
    Ok(count)
}

/// What of a block has been told apart, before its literals and sequences are read.
struct Heads<'a> {
    literals: LiteralsHead,
    /// As in the block, with descriptions.
    heads: [&'a [u8]; 2],
    packed_literals: &'a [u8],
    sequences: usize,
    packed_sequences: &'a [u8],
    uses: Uses,
}

impl<'a> Heads<'a> {
    fn read(block: &'a [u8], tables: &mut Tables) -> Result<Heads<'a>, Stop> {
        if block.len() > MAX_ZSTD_BLOCK {
            return Err(Stop);
        }
        let mut uses = Uses::default();
        let mut rest = block;
        let literals = LiteralsHead::read(&mut rest, tables)?;
        uses.inherits[0] = literals.inherits;
        uses.describes[0] = matches!(literals.kind, Literals::Coded(_)) && !literals.inherits;
        let first = &block[..block.len() - rest.len()];
        let packed_literals = split(&mut rest, literals.packed)?;
        let before = rest;
        let sequences = sequences_head(&mut rest, tables, &mut uses)?;
        let heads = [first, &before[..before.len() - rest.len()]];
        Ok(Heads { literals, heads, packed_literals, sequences, packed_sequences: rest, uses })
    }
}

/// Reads the tables of a block only. Returns what it does with them.
///
/// # Errors
/// [`Stop`]; what `tables` are then is meaningless.
pub(crate) fn pass(block: &[u8], tables: &mut Tables) -> Result<Uses, Stop> {
    Heads::read(block, tables).map(|heads| heads.uses)
}

/// Literals and sequences that a block may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Room {
    pub(crate) literals: usize,
    pub(crate) sequences: usize,
}

/// Appends the literals and sequences of a block. Returns what it does with tables, and the heads of
/// its two sections with the descriptions of tables.
///
/// # Errors
/// [`Stop`]; what `tables` are then, and what was appended, is meaningless.
pub(crate) fn unpack<'a>(
    block: &'a [u8],
    tables: &mut Tables,
    room: Room,
    literals: &mut Vec<u8>,
    sequences: &mut Vec<Sequence>,
) -> Result<(Uses, [&'a [u8]; 2]), Stop> {
    let heads = Heads::read(block, tables)?;
    let (mut packed, count) = (heads.packed_literals, heads.literals.count);
    if count > room.literals || heads.sequences > room.sequences {
        return Err(Stop);
    }
    match heads.literals.kind {
        Literals::Raw => literals.extend_from_slice(packed),
        Literals::Repeated => literals.resize(literals.len() + count, packed[0]),
        Literals::Coded(streams) => {
            let code = tables.literals.as_ref().ok_or(Stop)?;
            if streams == 1 {
                code.unpack(packed, count, literals)?;
            } else {
                let jumps = split(&mut packed, 6)?;
                let mut left = count;
                for nth in 0..3 {
                    let stream = split(&mut packed, number(&jumps[2 * nth..2 * nth + 2]))?;
                    left = left.checked_sub(quarter(count)).ok_or(Stop)?;
                    code.unpack(stream, quarter(count), literals)?;
                }
                code.unpack(packed, left, literals)?;
            }
        }
    }
    if heads.sequences == 0 {
        return if heads.packed_sequences.is_empty() {
            Ok((heads.uses, heads.heads))
        } else {
            Err(Stop)
        };
    }
    let [Some(lengths), Some(offsets), Some(matches)] = &tables.sequences else { return Err(Stop) };
    let mut reader = BackReader::new(heads.packed_sequences)?;
    let reader = &mut reader;
    let mut length = lengths.begin(reader);
    let mut offset = offsets.begin(reader);
    let mut matched = matches.begin(reader);
    // What a block regenerates.
    let (mut used, mut regenerated) = (0, 0);
    for nth in 0..heads.sequences {
        let bits = u32::from(offset.symbol);
        let sequence = Sequence {
            offset: 1 << bits | reader.take(bits) as u32,
            matched: length_of(matched.symbol, 32, &MATCH_LENGTHS, reader)?,
            literals: length_of(length.symbol, 16, &LITERAL_LENGTHS, reader)?,
        };
        used += sequence.literals as usize;
        regenerated += sequence.matched as usize + 3;
        sequences.push(sequence);
        if nth + 1 < heads.sequences {
            length = lengths.follow(length, reader);
            matched = matches.follow(matched, reader);
            offset = offsets.follow(offset, reader);
        }
    }
    if reader.left() == 0 && used <= count && regenerated + count <= MAX_ZSTD_BLOCK {
        Ok((heads.uses, heads.heads))
    } else {
        Err(Stop)
    }
}

/// A block to be written.
pub(crate) struct Packer<'a> {
    literals: LiteralsHead,
    heads: [&'a [u8]; 2],
    sequences: usize,
}

impl<'a> Packer<'a> {
    /// Reads the heads at the front of `data`, and takes them away.
    ///
    /// # Errors
    /// [`Stop`]; what `tables` are then is meaningless.
    pub(crate) fn read(data: &mut &'a [u8], tables: &mut Tables) -> Result<Packer<'a>, Stop> {
        let all = *data;
        let literals = LiteralsHead::read(data, tables)?;
        let first = &all[..all.len() - data.len()];
        let all = *data;
        let sequences = sequences_head(data, tables, &mut Uses::default())?;
        let heads = [first, &all[..all.len() - data.len()]];
        Ok(Packer { literals, heads, sequences })
    }

    /// Number of literals that [`Packer::pack`] takes.
    pub(crate) fn literals(&self) -> usize {
        self.literals.count
    }

    /// Number of sequences that [`Packer::pack`] takes.
    pub(crate) fn sequences(&self) -> usize {
        self.sequences
    }

    /// Appends the block to `out`, with the tables as [`Packer::read`] left them.
    ///
    /// # Errors
    /// [`Stop`]; what was appended is meaningless.
    pub(crate) fn pack(
        &self,
        tables: &Tables,
        literals: &[u8],
        sequences: &[Sequence],
        out: &mut Vec<u8>,
    ) -> Result<(), Stop> {
        debug_assert_eq!((literals.len(), sequences.len()), (self.literals(), self.sequences()));
        let start = out.len();
        out.extend_from_slice(self.heads[0]);
        let packed = out.len();
        self.pack_literals(tables, literals, out)?;
        if out.len() - packed != self.literals.packed {
            return Err(Stop);
        }
        out.extend_from_slice(self.heads[1]);
        pack_sequences(tables, sequences, out)?;
        if out.len() - start > MAX_ZSTD_BLOCK { Err(Stop) } else { Ok(()) }
    }

    fn pack_literals(
        &self,
        tables: &Tables,
        literals: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<(), Stop> {
        match self.literals.kind {
            Literals::Raw => out.extend_from_slice(literals),
            Literals::Repeated => out.push(*literals.first().ok_or(Stop)?),
            Literals::Coded(1) => tables.literals.as_ref().ok_or(Stop)?.pack(literals, out)?,
            Literals::Coded(_) => {
                let code = tables.literals.as_ref().ok_or(Stop)?;
                let jumps = out.len();
                out.extend_from_slice(&[0; 6]);
                let mut rest = literals;
                for nth in 0..3 {
                    let stream = split(&mut rest, quarter(literals.len()))?;
                    let before = out.len();
                    code.pack(stream, out)?;
                    let len = u16::try_from(out.len() - before).map_err(|_| Stop)?;
                    out[jumps + 2 * nth..jumps + 2 * nth + 2].copy_from_slice(&len.to_le_bytes());
                }
                code.pack(rest, out)?;
            }
        }
        Ok(())
    }
}

/// A sequence as symbols, extra bits and how many these are.
struct Coded {
    literals: (u8, u32, u32),
    offset: (u8, u32, u32),
    matched: (u8, u32, u32),
}

impl Coded {
    fn new(sequence: &Sequence) -> Result<Coded, Stop> {
        let &Sequence { literals, matched, offset } = sequence;
        let bits = offset.checked_ilog2().ok_or(Stop)?;
        if literals.max(matched) > 0x1_ffff {
            return Err(Stop);
        }
        Ok(Coded {
            literals: length_symbol(literals, 16, &LITERAL_LENGTHS),
            offset: (bits as u8, offset, bits),
            matched: length_symbol(matched, 32, &MATCH_LENGTHS),
        })
    }

    fn write_extra(&self, writer: &mut Writer<'_>) {
        for (_, extra, bits) in [self.literals, self.matched, self.offset] {
            writer.put(u64::from(extra), bits);
        }
    }
}

fn pack_sequences(tables: &Tables, sequences: &[Sequence], out: &mut Vec<u8>) -> Result<(), Stop> {
    let Some((last, others)) = sequences.split_last() else { return Ok(()) };
    let [Some(lengths), Some(offsets), Some(matches)] = &tables.sequences else { return Err(Stop) };
    let mut writer = Writer::new(out);
    let last = Coded::new(last)?;
    let mut length = lengths.last(last.literals.0)?;
    let mut offset = offsets.last(last.offset.0)?;
    let mut matched = matches.last(last.matched.0)?;
    last.write_extra(&mut writer);
    for sequence in others.iter().rev() {
        let sequence = Coded::new(sequence)?;
        offset = offsets.write(sequence.offset.0, offset, &mut writer)?;
        matched = matches.write(sequence.matched.0, matched, &mut writer)?;
        length = lengths.write(sequence.literals.0, length, &mut writer)?;
        sequence.write_extra(&mut writer);
    }
    matches.end(matched, &mut writer);
    offsets.end(offset, &mut writer);
    lengths.end(length, &mut writer);
    writer.finish();
    Ok(())
}

#[cfg(test)]
mod tests;
