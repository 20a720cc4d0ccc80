//! Sequences of zstd: section 7, and RFC 8878.

use super::*;

const MOST: usize = 1 << 17;

fn take<'a>(data: &mut &'a [u8], count: usize) -> Result<&'a [u8], No> {
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
struct Tables {
    literals: Option<Huffman>,
    sequences: [Option<Table>; 3],
}

/// Number of literals, length of the match, Offset_Value.
type Sequence = (usize, usize, usize);

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

struct LiteralsHead {
    kind: u8,
    streams: usize,
    count: usize,
    packed: usize,
}

fn literals_head(data: &mut &[u8], tables: &mut Tables) -> Result<LiteralsHead, No> {
    let first = *data.first().ok_or(Invalid("no literals section"))?;
    let (kind, format) = (first & 3, usize::from(first >> 2 & 3));
    let mut head = if kind < 2 {
        let len = [1, 2, 1, 3][format];
        let count = little_endian(take(data, len)?) >> if len == 1 { 3 } else { 4 };
        LiteralsHead { kind, streams: 0, count, packed: if kind == 0 { count } else { 1 } }
    } else {
        let (len, bits) = [(3, 10), (3, 10), (4, 14), (5, 18)][format];
        let fields = little_endian(take(data, len)?) >> 4;
        let (count, packed) = (fields % (1 << bits), fields >> bits);
        LiteralsHead { kind, streams: if format == 0 { 1 } else { 4 }, count, packed }
    };
    if head.kind == 2 {
        let before = data.len();
        tables.literals = Some(Huffman::described(data)?);
        head.packed =
            head.packed.checked_sub(before - data.len()).ok_or(Invalid("literals section"))?;
    }
    if head.count > MOST { Err(Invalid("literals")) } else { Ok(head) }
}

fn sequences_head(data: &mut &[u8], tables: &mut Tables) -> Result<usize, No> {
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
    let count = match usize::from(take(data, 1)?[0]) {
        first @ 0..=127 => first,
        first @ 128..=254 => (first - 128) * 256 + usize::from(take(data, 1)?[0]),
        _ => little_endian(take(data, 2)?) + 0x7f00,
    };
    if count > MOST / 3 {
        return Err(Invalid("sequences"));
    }
    if count > 0 {
        let modes = take(data, 1)?[0];
        if modes & 3 != 0 {
            return Err(Invalid("reserved bits"));
        }
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

    /// Literals and sequences of a block.
    fn read(&mut self, block: &[u8], heads_only: bool) -> Result<(Vec<u8>, Vec<Sequence>), No> {
        if block.len() > MOST {
            return Err(Invalid("block"));
        }
        let mut data = block;
        let head = literals_head(&mut data, self)?;
        let mut packed = take(&mut data, head.packed)?;
        let count = sequences_head(&mut data, self)?;
        let (mut literals, mut sequences) = (Vec::new(), Vec::new());
        if heads_only {
            return Ok((literals, sequences));
        }
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

struct State<'a> {
    control: &'a [u8],
    counts: &'a [u8],
    matches: &'a [u8],
    offsets: &'a [u8],
    changes: &'a [u8],
    bytes: &'a [u8],
    /// Of the sources.
    literals: Vec<u8>,
    /// With its first literal and the place of its match.
    sequences: Vec<(Sequence, usize, i64)>,
    shifts: Vec<(i64, i64)>,
    here: i64,
}

pub(super) fn read<'a>(
    residual: &'a [u8],
    mut plain: &'a [u8],
    sources: &[Vec<u8>],
    l: usize,
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
        literals: Vec::new(),
        sequences: Vec::new(),
        shifts: Vec::new(),
        here: 0,
    };
    state.bytes = rest;
    if sources.len() > 64 {
        return Err(Invalid("zstd blocks"));
    }
    let behind = state.sources(sources)?;
    let (mut from, mut shift) = (0, 0);
    let count = number(&mut state.control)?;
    if count > 1024 {
        return Err(Invalid("shifts"));
    }
    for _ in 0..count {
        from += signed(&mut state.control)?;
        shift += signed(&mut state.control)?;
        if state.shifts.last().is_some_and(|&(before, _)| from <= before) {
            return Err(Invalid("shifts"));
        }
        state.shifts.push((from, shift));
    }
    let mut out = Vec::new();
    let mut tables = Tables::default();
    let (mut room, mut blocks) = (8 * (l + MOST), 0);
    while !state.control.is_empty() {
        let n = number(&mut state.control)?;
        if n / 2 > (l - out.len()) as u64 || blocks == 256 {
            return Err(Invalid("bytes"));
        }
        let column = if n % 2 == 1 { &mut plain } else { &mut state.bytes };
        out.extend(take(column, (n / 2) as usize)?);
        let t = number(&mut state.control)?;
        if t > 0 {
            tables = behind.get(t as usize - 1).ok_or(Invalid("tables"))?.clone();
        }
        let skip = below_2_32(&mut state.control)?;
        if skip > 0 && blocks > 0 {
            return Err(Invalid("skip"));
        }
        blocks += 1;
        state.here += signed(&mut state.control)?;
        let (block, literals) = state.block(&mut tables)?;
        room = room.checked_sub(literals).ok_or(Invalid("literals"))?;
        if skip >= block.len() || block.len() - skip > l - out.len() {
            return Err(Invalid("block"));
        }
        out.extend(&block[skip..]);
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

impl State<'_> {
    /// Returns the tables behind each source.
    fn sources(&mut self, sources: &[Vec<u8>]) -> Result<Vec<Tables>, No> {
        let (mut place, mut tables, mut behind) = (0, Tables::default(), Vec::new());
        for source in sources {
            let kind = number(&mut self.control)?;
            if kind > 3 {
                return Err(Invalid("kind of source"));
            }
            if kind % 2 == 1 {
                tables = Tables::default();
            }
            if kind < 2 {
                place += signed(&mut self.control)?;
                let (literals, sequences) = tables.read(source, false)?;
                let mut first = self.literals.len();
                self.literals.extend(&literals);
                for sequence in sequences {
                    place += sequence.0 as i64;
                    self.sequences.push((sequence, first, place));
                    place += sequence.1 as i64;
                    first += sequence.0;
                }
                place += (self.literals.len() - first) as i64;
            } else {
                tables.read(source, true)?;
            }
            behind.push(tables.clone());
        }
        if self.literals.len() > 1 << 19 || self.sequences.len() > 1 << 16 {
            return Err(Invalid("sources"));
        }
        Ok(behind)
    }

    /// A block, and the number of its literals.
    fn block(&mut self, tables: &mut Tables) -> Result<(Vec<u8>, usize), No> {
        let all = self.bytes;
        let head = literals_head(&mut self.bytes, tables)?;
        let mut out = all[..all.len() - self.bytes.len()].to_vec();
        let all = self.bytes;
        let count = sequences_head(&mut self.bytes, tables)?;
        let second = &all[..all.len() - self.bytes.len()];
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
                let &((count, matched, offset), first, there) =
                    self.sequences.get(next).ok_or(Invalid("sequence"))?;
                next += 1;
                literals.extend_from_slice(&self.literals[first..first + count]);
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
            let &((count, ..), first, _) = last.ok_or(Invalid("literals"))?;
            let from = self.literals.get(first + count..first + count + n);
            literals.extend_from_slice(from.ok_or(Invalid("literals"))?);
        }
        literals.extend(take(&mut self.bytes, left - n)?);
        self.here += left as i64;
        self.write(&head, tables, &literals, &mut out)?;
        out.extend(second);
        write_sequences(tables, &sequences, &mut out)?;
        if out.len() > MOST { Err(Invalid("block")) } else { Ok((out, literals.len())) }
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

    fn write(
        &self,
        head: &LiteralsHead,
        tables: &Tables,
        literals: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<(), No> {
        let packed = match (head.kind, head.streams) {
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
        if packed.len() != head.packed {
            return Err(Invalid("literals section"));
        }
        out.extend(packed);
        Ok(())
    }
}

fn write_sequences(tables: &Tables, sequences: &[Sequence], out: &mut Vec<u8>) -> Result<(), No> {
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
