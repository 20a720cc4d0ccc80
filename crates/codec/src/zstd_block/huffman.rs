//! Huffman codes for literals: RFC 8878, section 4.2.

use super::Stop;
use super::bits::{BackReader, Writer};
use super::fse::Table;

/// Bits of the longest word.
pub(super) const MAX_BITS: u32 = 11;
/// Symbols that are read from one window: 57 bits.
const AT_ONCE: usize = 5;

/// A code, to read and to write.
#[derive(Clone, Debug)]
pub(super) struct Code {
    bits: u32,
    /// Symbol and length by the next `bits` bits.
    entries: Vec<(u8, u8)>,
    /// Word and length by symbol; length 0 if it has none.
    words: [(u16, u8); 256],
}

impl Code {
    /// Memory of a code in bytes, at most.
    pub(super) const MEMORY: usize = size_of::<Code>() + (2 << MAX_BITS);

    /// Entries of its table.
    pub(super) fn entries(&self) -> usize {
        self.entries.len()
    }

    /// Reads a description (section 4.2.1) at the front of `data`. Returns its length as well.
    pub(super) fn read(data: &[u8]) -> Result<(Code, usize), Stop> {
        let (&header, rest) = data.split_first().ok_or(Stop)?;
        let mut weights = Vec::with_capacity(256);
        let used = if header < 128 {
            let packed = rest.get(..usize::from(header)).ok_or(Stop)?;
            let (table, described) = Table::read(packed, 6, MAX_BITS as usize + 2)?;
            let mut reader = BackReader::new(&packed[described..])?;
            let mut states = [table.begin(&mut reader), table.begin(&mut reader)];
            if reader.left() < 0 {
                return Err(Stop);
            }
            // Two states take turns, until there are not enough bits for one.
            for nth in 0.. {
                let state = states[nth % 2];
                weights.push(state.symbol);
                if weights.len() > 255 {
                    return Err(Stop);
                }
                states[nth % 2] = table.follow(state, &mut reader);
                if reader.left() < 0 {
                    weights.push(states[1 - nth % 2].symbol);
                    break;
                }
            }
            packed.len()
        } else {
            let count = usize::from(header) - 127;
            let packed = rest.get(..count.div_ceil(2)).ok_or(Stop)?;
            for nth in 0..count {
                let byte = packed[nth / 2];
                weights.push(if nth % 2 == 0 { byte >> 4 } else { byte & 15 });
            }
            packed.len()
        };
        Ok((Code::new(weights)?, 1 + used))
    }

    /// The code of weights, all but that of the last symbol, which follows from them.
    fn new(mut weights: Vec<u8>) -> Result<Code, Stop> {
        if weights.len() > 255 || weights.iter().any(|&weight| u32::from(weight) > MAX_BITS + 1) {
            return Err(Stop);
        }
        let sum: u32 = weights.iter().map(|&weight| 1 << weight >> 1).sum();
        let bits = sum.checked_ilog2().ok_or(Stop)? + 1;
        let left = (1 << bits) - sum;
        if bits > MAX_BITS || !left.is_power_of_two() {
            return Err(Stop);
        }
        weights.push(left.ilog2() as u8 + 1);
        // Without a word of `bits` bits, the table would be larger than the code needs.
        if !weights.contains(&1) {
            return Err(Stop);
        }
        let mut entries = Vec::with_capacity(1 << bits);
        let mut words = [(0, 0); 256];
        for weight in 1..=bits as u8 {
            let len = (bits + 1) as u8 - weight;
            for (symbol, _) in weights.iter().enumerate().filter(|&(_, &of)| of == weight) {
                words[symbol] = ((entries.len() >> (weight - 1)) as u16, len);
                entries.resize(entries.len() + (1 << (weight - 1)), (symbol as u8, len));
            }
        }
        // A weight above the number of bits would leave holes.
        if entries.len() != 1 << bits {
            return Err(Stop);
        }
        Ok(Code { bits, entries, words })
    }

    /// Appends the `count` literals of a stream.
    pub(super) fn unpack(&self, data: &[u8], count: usize, out: &mut Vec<u8>) -> Result<(), Stop> {
        let mut reader = BackReader::new(data)?;
        let mut left = count;
        while let Some(mut window) = reader.window().filter(|_| left >= AT_ONCE) {
            for _ in 0..AT_ONCE {
                let at = window.peek(self.bits) as usize & (self.entries.len() - 1);
                let (symbol, len) = self.entries[at];
                window.skip(u32::from(len));
                out.push(symbol);
            }
            reader.advance(&window);
            left -= AT_ONCE;
        }
        for _ in 0..left {
            let at = reader.peek(self.bits) as usize & (self.entries.len() - 1);
            let (symbol, len) = self.entries[at];
            reader.skip(u32::from(len));
            out.push(symbol);
        }
        if reader.left() == 0 { Ok(()) } else { Err(Stop) }
    }

    /// Appends the stream of literals.
    pub(super) fn pack(&self, literals: &[u8], out: &mut Vec<u8>) -> Result<(), Stop> {
        let mut writer = Writer::new(out);
        for &literal in literals.iter().rev() {
            let (word, len) = self.words[usize::from(literal)];
            if len == 0 {
                return Err(Stop);
            }
            writer.put(u64::from(word), u32::from(len));
        }
        writer.finish();
        Ok(())
    }
}
