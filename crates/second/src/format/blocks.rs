//! Blocks of zstd: RFC 8878, and what section 7 says of them.

use super::*;

pub(super) const MOST: usize = 1 << 17;

pub(super) fn take<'a>(data: &mut &'a [u8], count: usize) -> Result<&'a [u8], No> {
    let (front, rest) = data.split_at_checked(count).ok_or(Invalid("bytes missing"))?;
    *data = rest;
    Ok(front)
}

fn little_endian(bytes: &[u8]) -> usize {
    bytes.iter().enumerate().map(|(i, &byte)| usize::from(byte) << (8 * i)).sum()
}

fn bits_of(bytes: &[u8]) -> Vec<bool> {
    bytes.iter().flat_map(|byte| (0..8).map(move |i| byte >> i & 1 == 1)).collect()
}

/// Bits that are read from the end: RFC 8878, section 4.
struct Backward(Vec<bool>);

impl Backward {
    fn new(bytes: &[u8]) -> Result<Backward, No> {
        let mut bits = bits_of(bytes);
        let end = bits.iter().rposition(|&bit| bit).ok_or(Invalid("no end mark"))?;
        if end + 8 < bits.len() {
            return Err(Invalid("no end mark"));
        }
        bits.truncate(end);
        Ok(Backward(bits))
    }

    fn number(&mut self, count: usize) -> Result<usize, No> {
        (0..count).try_fold(0, |value, _| {
            Ok(value << 1 | usize::from(self.0.pop().ok_or(Invalid("bits missing"))?))
        })
    }
}

/// Bits that a [`Backward`] reads.
#[derive(Default)]
struct Forward(Vec<bool>);

impl Forward {
    fn number(&mut self, value: usize, count: usize) {
        self.0.extend((0..count).map(|i| value >> i & 1 == 1));
    }

    fn finish(mut self) -> Vec<u8> {
        self.0.push(true);
        self.0
            .chunks(8)
            .map(|byte| byte.iter().enumerate().map(|(i, &bit)| u8::from(bit) << i).sum())
            .collect()
    }
}

/// An FSE table: symbol, bits and baseline of each state.
#[derive(Clone)]
struct Table {
    log: usize,
    states: Vec<(usize, usize, usize)>,
}

impl Table {
    /// Section 4.1.1, from counts, -1 for "less than 1".
    fn new(counts: &[i32], log: usize) -> Table {
        let size = 1 << log;
        let mut symbols = vec![None; size];
        let mut end = size;
        for (symbol, _) in counts.iter().enumerate().filter(|(_, count)| **count == -1) {
            end -= 1;
            symbols[end] = Some(symbol);
        }
        let mut at = 0;
        for (symbol, &count) in counts.iter().enumerate().filter(|(_, count)| **count > 0) {
            for _ in 0..count {
                symbols[at] = Some(symbol);
                loop {
                    at = (at + size / 2 + size / 8 + 3) % size;
                    if at < end {
                        break;
                    }
                }
            }
        }
        let mut next: Vec<usize> =
            counts.iter().map(|count| count.unsigned_abs() as usize).collect();
        let states = symbols
            .into_iter()
            .map(|symbol| {
                let symbol = symbol.unwrap();
                let nth = next[symbol];
                next[symbol] += 1;
                let bits = log - nth.ilog2() as usize;
                (symbol, bits, (nth << bits) - size)
            })
            .collect();
        Table { log, states }
    }

    fn described(data: &mut &[u8], most: usize, symbols: usize) -> Result<Table, No> {
        let bits = bits_of(data);
        let mut at = 0;
        let mut number = |count: usize, moves: usize| {
            let value = (0..count)
                .map(|i| usize::from(bits.get(at + i).copied().unwrap_or(false)) << i)
                .sum::<usize>();
            at += moves;
            (value, at)
        };
        let log = number(4, 4).0 + 5;
        if log > most {
            return Err(Invalid("accuracy log"));
        }
        let (mut left, mut counts, mut used) = (1usize << log, Vec::new(), 0);
        while left > 0 {
            // A value from 0 to left + 1; small ones have one bit less.
            let width = (left + 1).ilog2() as usize + 1;
            let small = (1 << width) - 1 - (left + 1);
            let (low, _) = number(width - 1, 0);
            let value = if low < small {
                used = number(0, width - 1).1;
                low
            } else {
                let (value, now) = number(width, width);
                used = now;
                if value >= 1 << (width - 1) { value - small } else { value }
            };
            counts.push(value as i32 - 1);
            left = left
                .checked_sub((value as i32 - 1).unsigned_abs() as usize)
                .ok_or(Invalid("probabilities"))?;
            if value == 1 {
                loop {
                    let (zeros, now) = number(2, 2);
                    used = now;
                    counts.extend(std::iter::repeat_n(0, zeros));
                    if zeros < 3 {
                        break;
                    }
                }
            }
            if counts.len() > symbols {
                return Err(Invalid("symbols"));
            }
        }
        take(data, used.div_ceil(8))?;
        Ok(Table::new(&counts, log))
    }

    fn one(symbol: usize) -> Table {
        Table { log: 0, states: vec![(symbol, 0, 0)] }
    }

    fn lowest(&self, symbol: usize) -> Result<usize, No> {
        self.states.iter().position(|state| state.0 == symbol).ok_or(Invalid("no such symbol"))
    }

    /// The state of a symbol from which another one follows.
    fn before(&self, symbol: usize, next: usize, out: &mut Forward) -> Result<usize, No> {
        let leads = |&(of, bits, baseline): &(usize, usize, usize)| {
            of == symbol && (baseline..baseline + (1 << bits)).contains(&next)
        };
        let at = self.states.iter().position(leads).ok_or(Invalid("no such symbol"))?;
        let (_, bits, baseline) = self.states[at];
        out.number(next - baseline, bits);
        Ok(at)
    }
}

/// A Huffman code: the word of each symbol, `(length, word)`.
#[derive(Clone)]
struct Huffman(Vec<(usize, usize)>);

impl Huffman {
    /// Section 4.2.1.
    fn described(data: &mut &[u8]) -> Result<Huffman, No> {
        let header = usize::from(take(data, 1)?[0]);
        let mut weights: Vec<usize> = if header >= 128 {
            let count = header - 127;
            let bytes = take(data, count.div_ceil(2))?;
            let both = bytes.iter().flat_map(|byte| [byte >> 4, byte & 15]);
            both.take(count).map(usize::from).collect()
        } else {
            let mut bytes = take(data, header)?;
            let table = Table::described(&mut bytes, 6, 13)?;
            let mut bits = Backward::new(bytes)?;
            let mut states = [bits.number(table.log)?, bits.number(table.log)?];
            let mut weights = Vec::new();
            for turn in 0.. {
                let (weight, count, baseline) = table.states[states[turn % 2]];
                weights.push(weight);
                if bits.0.len() < count {
                    weights.push(table.states[states[1 - turn % 2]].0);
                    break;
                }
                if weights.len() > 255 {
                    break;
                }
                states[turn % 2] = baseline + bits.number(count)?;
            }
            weights
        };
        let sum: usize =
            weights.iter().filter(|&&weight| weight > 0).map(|&weight| 1 << (weight - 1)).sum();
        if weights.len() > 255 || sum == 0 {
            return Err(Invalid("weights"));
        }
        let most = sum.ilog2() as usize + 1;
        let left = (1 << most) - sum;
        if most > 11 || !left.is_power_of_two() {
            return Err(Invalid("weights"));
        }
        weights.push(left.ilog2() as usize + 1);
        if !weights.contains(&1) {
            return Err(Invalid("weights"));
        }
        let mut words = vec![(0, 0); weights.len()];
        // Among the words as numbers of `most` bits, in ascending order of weights.
        let mut next = 0;
        for weight in 1..=most {
            for symbol in (0..weights.len()).filter(|&symbol| weights[symbol] == weight) {
                words[symbol] = (most + 1 - weight, next >> (weight - 1));
                next += 1 << (weight - 1);
            }
        }
        if next != 1 << most { Err(Invalid("weights")) } else { Ok(Huffman(words)) }
    }

    fn read(&self, stream: &[u8], count: usize, out: &mut Vec<u8>) -> Result<(), No> {
        let mut bits = Backward::new(stream)?;
        for _ in 0..count {
            let mut word = (0, 0);
            out.push(loop {
                if let Some(symbol) = self.0.iter().position(|&known| known == word && word.0 > 0) {
                    break symbol as u8;
                }
                word = (word.0 + 1, word.1 << 1 | bits.number(1)?);
            });
        }
        if bits.0.is_empty() { Ok(()) } else { Err(Invalid("bits left over")) }
    }

    fn write(&self, literals: &[u8]) -> Result<Vec<u8>, No> {
        let mut out = Forward::default();
        for &literal in literals.iter().rev() {
            let word = self.0.get(usize::from(literal)).filter(|word| word.0 > 0);
            let &(length, word) = word.ok_or(Invalid("a literal without a word"))?;
            out.number(word, length);
        }
        Ok(out.finish())
    }
}

#[derive(Clone, Default)]
pub(super) struct Tables {
    literals: Option<Huffman>,
    sequences: [Option<Table>; 3],
}

/// Number of literals, length of the match, Offset_Value.
pub(super) type Sequence = (usize, usize, usize);

/// Section 3.1.1.3.2.1.1: extra bits of the symbols that have some.
const LITERAL_BITS: [usize; 20] =
    [1, 1, 1, 1, 2, 2, 3, 3, 4, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16];
const MATCH_BITS: [usize; 21] =
    [1, 1, 1, 1, 2, 2, 3, 3, 4, 4, 5, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16];

/// Lowest value and extra bits of a symbol.
fn values(symbol: usize, plain: usize, first: usize, bits: &[usize]) -> (usize, usize) {
    if symbol < plain {
        return (first + symbol, 0);
    }
    let before: usize = bits[..symbol - plain].iter().map(|bits| 1 << bits).sum();
    (first + plain + before, bits[symbol - plain])
}

fn value_of(kind: usize, symbol: usize) -> (usize, usize) {
    match kind {
        0 => values(symbol, 16, 0, &LITERAL_BITS),
        1 => (1 << symbol, symbol),
        _ => values(symbol, 32, 3, &MATCH_BITS),
    }
}

fn symbol_of(kind: usize, value: usize) -> Result<(usize, usize, usize), No> {
    let symbols = [36, 32, 53][kind];
    let found = (0..symbols).find_map(|symbol| {
        let (least, bits) = value_of(kind, symbol);
        (least..least + (1 << bits)).contains(&value).then(|| (symbol, value - least, bits))
    });
    found.ok_or(Invalid("a length or offset without a symbol"))
}

pub(super) struct LiteralsHead {
    pub(super) kind: u8,
    streams: usize,
    pub(super) count: usize,
    pub(super) packed: usize,
}

/// The description of a code counts as packed.
pub(super) fn literals_fields(data: &mut &[u8]) -> Result<LiteralsHead, No> {
    let first = *data.first().ok_or(Invalid("no literals section"))?;
    let (kind, format) = (first & 3, usize::from(first >> 2 & 3));
    let head = if kind < 2 {
        let len = [1, 2, 1, 3][format];
        let count = little_endian(take(data, len)?) >> if len == 1 { 3 } else { 4 };
        LiteralsHead { kind, streams: 0, count, packed: if kind == 0 { count } else { 1 } }
    } else {
        let (len, bits) = [(3, 10), (3, 10), (4, 14), (5, 18)][format];
        let fields = little_endian(take(data, len)?) >> 4;
        let (count, packed) = (fields % (1 << bits), fields >> bits);
        LiteralsHead { kind, streams: if format == 0 { 1 } else { 4 }, count, packed }
    };
    if head.count > MOST { Err(Invalid("literals")) } else { Ok(head) }
}

pub(super) fn literals_head(data: &mut &[u8], tables: &mut Tables) -> Result<LiteralsHead, No> {
    let mut head = literals_fields(data)?;
    if head.kind == 2 {
        let before = data.len();
        tables.literals = Some(Huffman::described(data)?);
        head.packed =
            head.packed.checked_sub(before - data.len()).ok_or(Invalid("literals section"))?;
    }
    Ok(head)
}

/// The number of sequences, and the modes of their tables.
pub(super) fn sequences_fields(data: &mut &[u8]) -> Result<(usize, u8), No> {
    let count = match usize::from(take(data, 1)?[0]) {
        first @ 0..=127 => first,
        first @ 128..=254 => (first - 128) * 256 + usize::from(take(data, 1)?[0]),
        _ => little_endian(take(data, 2)?) + 0x7f00,
    };
    if count > MOST / 3 {
        return Err(Invalid("sequences"));
    }
    let modes = if count > 0 { take(data, 1)?[0] } else { 0 };
    if modes & 3 != 0 { Err(Invalid("reserved bits")) } else { Ok((count, modes)) }
}

pub(super) fn sequences_head(data: &mut &[u8], tables: &mut Tables) -> Result<usize, No> {
    const DEFAULTS: [(usize, &[i32]); 3] = [
        (
            6,
            &[
                4, 3, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 1, 1, 1, 2, 2, 2, 2, 2, 2, 2, 2, 2, 3, 2, 1,
                1, 1, 1, 1, -1, -1, -1, -1,
            ],
        ),
        (
            5,
            &[
                1, 1, 1, 1, 1, 1, 2, 2, 2, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, -1, -1, -1,
                -1, -1,
            ],
        ),
        (
            6,
            &[
                1, 4, 3, 2, 2, 2, 2, 2, 2, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1,
                1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, -1, -1, -1, -1, -1, -1, -1,
            ],
        ),
    ];
    let (count, modes) = sequences_fields(data)?;
    if count > 0 {
        for kind in 0..3 {
            let (log, symbols) = [(9, 36), (8, 32), (9, 53)][kind];
            let table = match modes >> (6 - 2 * kind) & 3 {
                0 => Table::new(DEFAULTS[kind].1, DEFAULTS[kind].0),
                1 => match usize::from(take(data, 1)?[0]) {
                    symbol if symbol < symbols => Table::one(symbol),
                    _ => return Err(Invalid("symbol")),
                },
                2 => Table::described(data, log, symbols)?,
                _ => continue,
            };
            tables.sequences[kind] = Some(table);
        }
    }
    Ok(count)
}

impl Tables {
    fn code(&self) -> Result<&Huffman, No> {
        self.literals.as_ref().ok_or(Invalid("no code for literals"))
    }

    fn table(&self, kind: usize) -> Result<&Table, No> {
        self.sequences[kind].as_ref().ok_or(Invalid("no table"))
    }

    pub(super) fn has(&self, kind: usize) -> bool {
        if kind == 0 { self.literals.is_some() } else { self.sequences[kind - 1].is_some() }
    }

    pub(super) fn copy(&mut self, kind: usize, from: &Tables) {
        match kind {
            0 => self.literals = from.literals.clone(),
            _ => self.sequences[kind - 1] = from.sequences[kind - 1].clone(),
        }
    }

    /// Section 7, "Work", of a head whose modes are these.
    pub(super) fn code_units(&self) -> u64 {
        let longest = self
            .literals
            .as_ref()
            .map_or(0, |code| code.0.iter().map(|&(length, _)| length).max().unwrap_or(0));
        64 + (1 << longest)
    }

    pub(super) fn sequences_units(&self, modes: u8) -> u64 {
        let described = (0..3).filter(|kind| matches!(modes >> (6 - 2 * kind) & 3, 1 | 2));
        let logs = described.filter_map(|kind| Some(self.sequences[kind].as_ref()?.log));
        logs.map(|log| 64 + (1 << log)).sum()
    }

    /// Literals and sequences of a block.
    pub(super) fn read(&mut self, block: &[u8]) -> Result<(Vec<u8>, Vec<Sequence>), No> {
        if block.len() > MOST {
            return Err(Invalid("block"));
        }
        let mut data = block;
        let head = literals_head(&mut data, self)?;
        let mut packed = take(&mut data, head.packed)?;
        let count = sequences_head(&mut data, self)?;
        let (mut literals, mut sequences) = (Vec::new(), Vec::new());
        match (head.kind, head.streams) {
            (0, _) => literals.extend(packed),
            (1, _) => literals.extend(std::iter::repeat_n(packed[0], head.count)),
            (_, 1) => self.code()?.read(packed, head.count, &mut literals)?,
            _ => {
                let jumps = take(&mut packed, 6)?;
                let each = head.count.div_ceil(4);
                for jump in jumps.chunks(2) {
                    let stream = take(&mut packed, little_endian(jump))?;
                    self.code()?.read(stream, each, &mut literals)?;
                }
                let left = head.count.checked_sub(3 * each).ok_or(Invalid("streams"))?;
                self.code()?.read(packed, left, &mut literals)?;
            }
        }
        if count == 0 {
            return if data.is_empty() {
                Ok((literals, sequences))
            } else {
                Err(Invalid("bytes behind the block"))
            };
        }
        let mut bits = Backward::new(data)?;
        let mut states = [0; 3];
        for (kind, state) in states.iter_mut().enumerate() {
            *state = bits.number(self.table(kind)?.log)?;
        }
        let (mut used, mut regenerated) = (0, literals.len());
        for nth in 0..count {
            let mut values = [0; 3];
            for kind in [1, 2, 0] {
                let (least, extra) = value_of(kind, self.table(kind)?.states[states[kind]].0);
                values[kind] = least + bits.number(extra)?;
            }
            if nth + 1 < count {
                for kind in [0, 2, 1] {
                    let (_, extra, baseline) = self.table(kind)?.states[states[kind]];
                    states[kind] = baseline + bits.number(extra)?;
                }
            }
            let [literals, offset, matched] = values;
            used += literals;
            regenerated += matched;
            sequences.push((literals, matched, offset));
        }
        if bits.0.is_empty() && used <= literals.len() && regenerated <= MOST {
            Ok((literals, sequences))
        } else {
            Err(Invalid("sequences"))
        }
    }
}

impl LiteralsHead {
    /// Writes literals under their coding.
    pub(super) fn write(
        &self,
        tables: &Tables,
        literals: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<(), No> {
        let packed = match (self.kind, self.streams) {
            (0, _) => literals.to_vec(),
            (1, _) => vec![*literals.first().ok_or(Invalid("no literal"))?],
            (_, 1) => tables.code()?.write(literals)?,
            _ => {
                let (mut jumps, mut streams, mut rest) = (Vec::new(), Vec::new(), literals);
                for _ in 0..3 {
                    let part = take(&mut rest, literals.len().div_ceil(4))?;
                    let stream = tables.code()?.write(part)?;
                    let len = u16::try_from(stream.len()).map_err(|_| Invalid("stream"))?;
                    jumps.extend(len.to_le_bytes());
                    streams.extend(stream);
                }
                streams.extend(tables.code()?.write(rest)?);
                [jumps, streams].concat()
            }
        };
        if packed.len() != self.packed {
            return Err(Invalid("literals section"));
        }
        out.extend(packed);
        Ok(())
    }
}

pub(super) fn write_sequences(
    tables: &Tables,
    sequences: &[Sequence],
    out: &mut Vec<u8>,
) -> Result<(), No> {
    if sequences.is_empty() {
        return Ok(());
    }
    let mut bits = Forward::default();
    let mut states: Option<[usize; 3]> = None;
    for &(literals, matched, offset) in sequences.iter().rev() {
        let values = [literals, offset, matched];
        let mut coded = [(0, 0, 0); 3];
        for kind in 0..3 {
            coded[kind] = symbol_of(kind, values[kind])?;
        }
        let mut now = [0; 3];
        for kind in [1, 2, 0] {
            now[kind] = match states {
                None => tables.table(kind)?.lowest(coded[kind].0)?,
                Some(next) => tables.table(kind)?.before(coded[kind].0, next[kind], &mut bits)?,
            };
        }
        states = Some(now);
        for kind in [0, 2, 1] {
            bits.number(coded[kind].1, coded[kind].2);
        }
    }
    let states = states.unwrap();
    for kind in [2, 1, 0] {
        bits.number(states[kind], tables.table(kind)?.log);
    }
    out.extend(bits.finish());
    Ok(())
}
