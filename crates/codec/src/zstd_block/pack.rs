//! Writes blocks.

use super::bits::Writer;
use super::{
    LITERAL_LENGTHS, Literals, LiteralsHead, MATCH_LENGTHS, MAX_ZSTD_BLOCK, Sequence, Stop, Tables,
    Uses, quarter, sequences_head, split,
};

/// Lengths below this are looked up; beyond, each power of two has a symbol.
const SHORT: usize = 128;

/// The entry of a table that each short length belongs to.
const fn short_lengths(table: &[(u32, u32)]) -> [u8; SHORT] {
    let (mut entries, mut length, mut nth) = ([0; SHORT], 0, 0);
    while length < SHORT {
        while nth + 1 < table.len() && table[nth + 1].1 as usize <= length {
            nth += 1;
        }
        entries[length] = nth as u8;
        length += 1;
    }
    entries
}

static SHORT_LITERALS: [u8; SHORT] = short_lengths(&LITERAL_LENGTHS);
static SHORT_MATCHES: [u8; SHORT] = short_lengths(&MATCH_LENGTHS);

/// The symbol of a length, its extra bits, and how many these are.
#[inline(always)]
fn length_symbol(
    length: u32,
    direct: u32,
    table: &[(u32, u32)],
    short: &[u8; SHORT],
) -> (u8, u32, u32) {
    if length < direct {
        return (length as u8, 0, 0);
    }
    let nth = match short.get(length as usize) {
        Some(&nth) => usize::from(nth),
        None => table.len() - 17 + length.ilog2() as usize,
    };
    let (bits, least) = table[nth];
    (direct as u8 + nth as u8, length - least, bits)
}

/// A block to be written.
pub(crate) struct Packer<'a> {
    literals: LiteralsHead,
    heads: [&'a [u8]; 2],
    sequences: usize,
    uses: Uses,
}

impl<'a> Packer<'a> {
    /// Reads the heads at the front of `data`, and takes them away. Adds the work of building the
    /// tables that they describe.
    ///
    /// # Errors
    /// [`Stop`]; what `tables` are then is meaningless.
    pub(crate) fn read(
        data: &mut &'a [u8],
        tables: &mut Tables,
        work: &mut u64,
    ) -> Result<Packer<'a>, Stop> {
        let all = *data;
        let mut uses = Uses::default();
        let literals = LiteralsHead::read(data, tables, work)?;
        uses.inherits[0] = literals.inherits;
        uses.describes[0] = literals.describes();
        let first = &all[..all.len() - data.len()];
        let all = *data;
        let sequences = sequences_head(data, tables, &mut uses, work)?;
        let heads = [first, &all[..all.len() - data.len()]];
        Ok(Packer { literals, heads, sequences, uses })
    }

    /// Number of literals that [`Packer::pack`] takes.
    pub(crate) fn literals(&self) -> usize {
        self.literals.count
    }

    /// Number of sequences that [`Packer::pack`] takes.
    pub(crate) fn sequences(&self) -> usize {
        self.sequences
    }

    /// What it does with tables.
    pub(crate) fn uses(&self) -> &Uses {
        &self.uses
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
    #[inline(always)]
    fn new(sequence: &Sequence) -> Result<Coded, Stop> {
        let &Sequence { literals, matched, offset } = sequence;
        let bits = offset.checked_ilog2().ok_or(Stop)?;
        if literals.max(matched) > 0x1_ffff {
            return Err(Stop);
        }
        Ok(Coded {
            literals: length_symbol(literals, 16, &LITERAL_LENGTHS, &SHORT_LITERALS),
            offset: (bits as u8, offset, bits),
            matched: length_symbol(matched, 32, &MATCH_LENGTHS, &SHORT_MATCHES),
        })
    }

    #[inline(always)]
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
