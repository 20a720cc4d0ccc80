//! Undoes the entropy coding of zstd blocks (RFC 8878, section 3.1.1.3), and does it again.
//!
//! Literals and sequences repeat where the bytes of blocks do not. Together with the heads of the
//! block's two sections, which describe its tables, they determine the block: zstd's entropy coding
//! leaves the encoder one choice. `docs/FORMAT.md`, "Sequences of zstd".

mod bits;
mod front;
mod fse;
mod huffman;
mod pack;

use bits::{BackReader, Take};
pub(crate) use front::may_begin;
use fse::Table;
use huffman::Code;
pub(crate) use pack::Packer;
use std::sync::Arc;

/// Largest block of zstd, compressed and regenerated, in bytes.
pub(crate) const MAX_ZSTD_BLOCK: usize = 128 << 10;
/// Most sequences of a block that are taken: each regenerates at least three bytes.
pub(crate) const MAX_SEQUENCES: usize = MAX_ZSTD_BLOCK / 3;
/// Room for every block.
#[cfg(test)]
const ALL: Room = Room { literals: MAX_ZSTD_BLOCK, sequences: MAX_SEQUENCES };
/// Not a block that can be decoded or encoded again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stop;

/// The tables that a block may inherit from earlier blocks of its frame.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tables {
    literals: Option<Arc<Code>>,
    /// For lengths of literals, offsets, and lengths of matches.
    sequences: [Option<Arc<Table>>; 3],
}

impl Tables {
    /// Memory in bytes, at most.
    pub(crate) const MEMORY: usize = Code::MEMORY + 3 * Table::MEMORY;

    /// Whether the `nth` table, in the order of [`Uses`], is there.
    pub(crate) fn has(&self, nth: usize) -> bool {
        match nth.checked_sub(1) {
            None => self.literals.is_some(),
            Some(nth) => self.sequences[nth].is_some(),
        }
    }

    /// Takes the `nth` table, in the order of [`Uses`], of others.
    pub(crate) fn take_over(&mut self, nth: usize, others: &Tables) {
        match nth.checked_sub(1) {
            None => self.literals.clone_from(&others.literals),
            Some(nth) => self.sequences[nth].clone_from(&others.sequences[nth]),
        }
    }
}

/// What each table costs to build beyond its entries, in units of work. `docs/FORMAT.md`, "Work".
const TABLE_WORK: u64 = 64;

/// What a block does with each table: of literals, of lengths of literals, of offsets, of lengths of
/// matches.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Uses {
    /// It uses that of an earlier block.
    pub(crate) inherits: [bool; 4],
    /// It describes a new one, which later blocks may inherit.
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

#[inline(always)]
fn length_of(
    symbol: u8,
    direct: usize,
    table: &[(u32, u32)],
    reader: &mut impl Take,
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
    /// In this many streams.
    Coded(usize),
}

/// The head of the literals section.
struct LiteralsHead {
    kind: Literals,
    /// Literals.
    count: usize,
    /// Bytes of the section after the head and the description of a code.
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
    /// code. Adds the work of building it.
    fn read(data: &mut &[u8], tables: &mut Tables, work: &mut u64) -> Result<LiteralsHead, Stop> {
        let mut head = LiteralsHead::fields(data)?;
        if head.describes() {
            let described = describe_code(data, tables, work)?;
            split(data, described)?;
            head.packed = head.packed.checked_sub(described).ok_or(Stop)?;
        }
        Ok(head)
    }

    fn describes(&self) -> bool {
        matches!(self.kind, Literals::Coded(_)) && !self.inherits
    }

    /// Reads the head alone: the description of a code counts as packed.
    fn fields(data: &mut &[u8]) -> Result<LiteralsHead, Stop> {
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
        let (count, packed) = (head & mask, head >> bits & mask);
        let inherits = first & 1 == 1;
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

/// Reads the description of a code at the front of `data`. Returns its length.
fn describe_code(data: &[u8], tables: &mut Tables, work: &mut u64) -> Result<usize, Stop> {
    let (code, described) = Code::read(data)?;
    *work += TABLE_WORK + code.entries() as u64;
    tables.literals = Some(Arc::new(code));
    Ok(described)
}

/// Reads the head of the sequences section (section 3.1.1.3.2.1) and the descriptions of its
/// tables, and adds the work of building them. Returns the number of sequences.
fn sequences_head(
    data: &mut &[u8],
    tables: &mut Tables,
    uses: &mut Uses,
    work: &mut u64,
) -> Result<usize, Stop> {
    let (count, modes) = sequences_fields(data)?;
    if count > 0 {
        describe_tables(modes, data, tables, uses, work)?;
    }
    Ok(count)
}

/// Reads the number of sequences and, if there are any, the modes of their tables.
fn sequences_fields(data: &mut &[u8]) -> Result<(usize, u8), Stop> {
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
        return Ok((0, 0));
    }
    let modes = split(data, 1)?[0];
    if modes & 3 == 0 { Ok((count, modes)) } else { Err(Stop) }
}

/// What the modes say of the `nth` of three tables.
fn mode(modes: u8, nth: usize) -> u8 {
    modes >> (6 - 2 * nth) & 3
}

/// Takes the descriptions of tables from the front of `data`.
fn describe_tables(
    modes: u8,
    data: &mut &[u8],
    tables: &mut Tables,
    uses: &mut Uses,
    work: &mut u64,
) -> Result<(), Stop> {
    for (nth, (max_log, symbols)) in LIMITS.into_iter().enumerate() {
        let table = match mode(modes, nth) {
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
        if mode(modes, nth) != 0 {
            *work += TABLE_WORK + table.entries() as u64;
        }
        uses.describes[nth + 1] = true;
        tables.sequences[nth] = Some(table);
    }
    Ok(())
}

/// A block divided into its sections, before its literals and sequences are read.
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
        let literals = LiteralsHead::read(&mut rest, tables, &mut 0)?;
        uses.inherits[0] = literals.inherits;
        uses.describes[0] = literals.describes();
        let first = &block[..block.len() - rest.len()];
        let packed_literals = split(&mut rest, literals.packed)?;
        let before = rest;
        let sequences = sequences_head(&mut rest, tables, &mut uses, &mut 0)?;
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
    let Heads { literals: LiteralsHead { kind, count, .. }, .. } = heads;
    if count > room.literals || heads.sequences > room.sequences {
        return Err(Stop);
    }
    unpack_literals(kind, count, heads.packed_literals, tables, literals)?;
    unpack_sequences(heads.sequences, count, heads.packed_sequences, tables, sequences)?;
    Ok((heads.uses, heads.heads))
}

/// The heads of a block, without the tables that they describe: those take time to build.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Outline<'a> {
    kind: Literals,
    count: usize,
    uses: Uses,
    /// The literals section after its head, with the description of a code.
    packed_literals: &'a [u8],
    sequences: usize,
    modes: u8,
    /// The sequences section after the modes, with the descriptions of tables.
    packed_sequences: &'a [u8],
}

impl<'a> Outline<'a> {
    /// Reads the heads of a block.
    ///
    /// # Errors
    /// [`Stop`].
    pub(crate) fn read(block: &'a [u8]) -> Result<Outline<'a>, Stop> {
        if block.len() > MAX_ZSTD_BLOCK {
            return Err(Stop);
        }
        let mut rest = block;
        let literals = LiteralsHead::fields(&mut rest)?;
        let packed_literals = split(&mut rest, literals.packed)?;
        let (sequences, modes) = sequences_fields(&mut rest)?;
        let mut uses = Uses::default();
        uses.inherits[0] = literals.inherits;
        uses.describes[0] = literals.describes();
        for nth in 0..3 {
            uses.inherits[nth + 1] = sequences > 0 && mode(modes, nth) == 3;
            uses.describes[nth + 1] = sequences > 0 && mode(modes, nth) != 3;
        }
        let LiteralsHead { kind, count, .. } = literals;
        let packed_sequences = rest;
        Ok(Outline { kind, count, uses, packed_literals, sequences, modes, packed_sequences })
    }

    /// Number of literals.
    pub(crate) fn literals(&self) -> usize {
        self.count
    }

    /// Number of sequences.
    pub(crate) fn sequences(&self) -> usize {
        self.sequences
    }

    /// What it does with tables.
    pub(crate) fn uses(&self) -> &Uses {
        &self.uses
    }

    /// Builds the code that the literals section describes. Returns the length of the description.
    ///
    /// # Errors
    /// [`Stop`].
    pub(crate) fn describe_code(&self, tables: &mut Tables, work: &mut u64) -> Result<usize, Stop> {
        describe_code(self.packed_literals, tables, work)
    }

    /// Builds the tables that the sequences section describes. Returns the length of the
    /// descriptions.
    ///
    /// # Errors
    /// [`Stop`].
    pub(crate) fn describe_tables(
        &self,
        tables: &mut Tables,
        work: &mut u64,
    ) -> Result<usize, Stop> {
        let mut rest = self.packed_sequences;
        describe_tables(self.modes, &mut rest, tables, &mut Uses::default(), work)?;
        Ok(self.packed_sequences.len() - rest.len())
    }

    /// Appends the literals and sequences, given all tables that they need and the lengths of the
    /// descriptions.
    ///
    /// # Errors
    /// [`Stop`]; what was appended is meaningless.
    pub(crate) fn unpack(
        &self,
        tables: &Tables,
        described: [usize; 2],
        literals: &mut Vec<u8>,
        sequences: &mut Vec<Sequence>,
    ) -> Result<(), Stop> {
        let packed = self.packed_literals.get(described[0]..).ok_or(Stop)?;
        unpack_literals(self.kind, self.count, packed, tables, literals)?;
        let packed = self.packed_sequences.get(described[1]..).ok_or(Stop)?;
        unpack_sequences(self.sequences, self.count, packed, tables, sequences)
    }
}

/// Appends the `count` literals of a block.
fn unpack_literals(
    kind: Literals,
    count: usize,
    mut packed: &[u8],
    tables: &Tables,
    literals: &mut Vec<u8>,
) -> Result<(), Stop> {
    match kind {
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
    Ok(())
}

/// Takes bits from a window of the reader, or near the end from the reader itself.
macro_rules! at_once {
    ($reader:ident, $taken:ident => $body:expr) => {
        match $reader.window() {
            Some(mut window) => {
                let $taken = &mut window;
                let value = $body;
                $reader.advance(&window);
                value
            }
            None => {
                let $taken = &mut *$reader;
                $body
            }
        }
    };
}

/// Appends the `count` sequences of a block with this many literals.
fn unpack_sequences(
    count: usize,
    literals: usize,
    packed: &[u8],
    tables: &Tables,
    sequences: &mut Vec<Sequence>,
) -> Result<(), Stop> {
    if count == 0 {
        return if packed.is_empty() { Ok(()) } else { Err(Stop) };
    }
    let [Some(lengths), Some(offsets), Some(matches)] = &tables.sequences else { return Err(Stop) };
    let mut reader = BackReader::new(packed)?;
    let reader = &mut reader;
    let mut length = lengths.begin(reader);
    let mut offset = offsets.begin(reader);
    let mut matched = matches.begin(reader);
    // What a block regenerates.
    let (mut used, mut regenerated) = (0, 0);
    for nth in 0..count {
        let bits = u32::from(offset.symbol);
        // At most 31 bits, and 16.
        let (of, match_len) = at_once!(reader, taken => (
            1 << bits | taken.take(bits) as u32,
            length_of(matched.symbol, 32, &MATCH_LENGTHS, taken)?,
        ));
        let is_last = nth + 1 == count;
        // At most 16 bits, and three states of 9.
        let literal_len = at_once!(reader, taken => {
            let len = length_of(length.symbol, 16, &LITERAL_LENGTHS, taken)?;
            if !is_last {
                length = lengths.follow(length, taken);
                matched = matches.follow(matched, taken);
                offset = offsets.follow(offset, taken);
            }
            len
        });
        let sequence = Sequence { literals: literal_len, matched: match_len, offset: of };
        used += sequence.literals as usize;
        regenerated += sequence.matched as usize + 3;
        sequences.push(sequence);
    }
    if reader.left() == 0 && used <= literals && regenerated + literals <= MAX_ZSTD_BLOCK {
        Ok(())
    } else {
        Err(Stop)
    }
}

#[cfg(test)]
mod tests;
