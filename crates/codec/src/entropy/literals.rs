//! The literal coder: what the matcher leaves repeats closely or not at all. Short matches are
//! sought in the last 65,535 literals of the context, and all that describes them, and the rest of
//! the literals, goes into columns.

use super::columns::{ColumnReader, ColumnWriter, LengthModels, NewCodes};
use super::symbols::SectionWriter;
use crate::error::FrameError;
use crate::format::varint;
use crate::limits::DEFAULT_BLOCK;
use oncewire_kernels::{
    Kernels, SHORT_FIRST_DISTANCE, SHORT_LEAST, SHORT_REACH, SHORT_SLACK, ShortColumns,
    ShortCounts, ShortEffort, ShortMatches, ShortSearch,
};

/// Most bytes that are coded at once: the residual of transcoded literals may have twice as many as
/// a block, and eight more.
const fn most(max_block: usize) -> usize {
    2 * max_block + 8
}
/// Bytes of past literals before the oldest are dropped, unless more are coded at once. More than
/// what can be referred to, so that this is seldom.
const KEPT: usize = SHORT_REACH + most(DEFAULT_BLOCK) + DEFAULT_BLOCK;
/// Columns of the coder.
const COLUMNS: usize = 6;

/// The literals of a context, the last of them.
#[derive(Default)]
struct Past {
    bytes: Vec<u8>,
    /// How many bytes there are; what follows them counts for nothing.
    len: usize,
    /// Bytes dropped, modulo 2^16.
    dropped: u16,
}

impl Past {
    /// Memory in bytes, at most, for blocks of `max_block` bytes.
    const fn most_memory(max_block: usize) -> usize {
        let once = SHORT_REACH + most(max_block);
        (if once > KEPT { once } else { KEPT }) + SHORT_SLACK
    }

    /// Makes room for as many bytes as are coded at once.
    fn make_room(&mut self, len: usize) {
        if self.len + len > KEPT.max(SHORT_REACH + len) {
            let surplus = self.len.saturating_sub(SHORT_REACH);
            self.bytes.copy_within(surplus..self.len, 0);
            self.len -= surplus;
            self.dropped = self.dropped.wrapping_add(surplus as u16);
        }
        let needed = self.len + len + SHORT_SLACK;
        if self.bytes.len() < needed {
            // By doubling, up to what is ever needed.
            let size = (2 * self.bytes.len()).clamp(needed, needed.max(KEPT + SHORT_SLACK));
            self.bytes.reserve_exact(size - self.bytes.len());
            self.bytes.resize(size, 0);
        }
    }

    fn clear(&mut self) {
        self.len = 0;
        self.dropped = 0;
    }

    fn memory(&self) -> usize {
        self.bytes.capacity()
    }
}

/// State of the coder at the writer.
pub(crate) struct LiteralWriter {
    kernels: Kernels,
    past: Past,
    search: ShortSearch,
    columns: Box<[ColumnWriter; COLUMNS]>,
    models: LengthModels,
}

/// Buffers that writers of all contexts share.
#[derive(Default)]
pub(crate) struct LiteralBuffers {
    found: ShortMatches,
    coder: SectionWriter,
}

impl LiteralBuffers {
    /// Memory as of now, in bytes.
    pub(crate) fn memory(&self) -> usize {
        self.found.memory() + self.coder.memory()
    }

    /// At most, for blocks of `max_block` bytes: a buffer grows by doubling. A match has at least 4
    /// bytes, and takes one of tokens, two of distances, two of lengths and, rarely, six more.
    pub(crate) fn most(max_block: usize) -> usize {
        let most = most(max_block);
        2 * (most + 5 * (most / SHORT_LEAST + 1) + 6 * most / 255) + (8 << 10)
    }
}

/// Bits of the index of the search's tables, and how hard it tries, at a level of 1 to 3.
pub(crate) fn search_effort(level: i32) -> (u32, ShortEffort) {
    match level {
        1 => (14, ShortEffort::Fast),
        2 => (15, ShortEffort::Lazy),
        _ => (15, ShortEffort::Deep),
    }
}

impl LiteralWriter {
    /// For a level of 1 to 3.
    pub(crate) fn new(kernels: Kernels, level: i32) -> LiteralWriter {
        let (bits, effort) = search_effort(level);
        LiteralWriter {
            kernels,
            past: Past::default(),
            search: ShortSearch::new(bits, effort),
            columns: Box::new([ColumnWriter::NEW; COLUMNS]),
            models: LengthModels::NEW,
        }
    }

    /// A level of 1 to 3 for what comes next.
    pub(crate) fn set_level(&mut self, level: i32) {
        let (bits, effort) = search_effort(level);
        self.search.set_effort(bits, effort);
    }

    /// Memory in bytes, at most, for blocks of `max_block` bytes.
    pub(crate) fn most_memory(level: i32, max_block: usize) -> usize {
        let (bits, effort) = search_effort(level);
        size_of::<LiteralWriter>()
            + Past::most_memory(max_block)
            + ShortSearch::most_memory(bits, effort)
            + size_of::<[ColumnWriter; COLUMNS]>()
    }

    /// Memory as of now, in bytes.
    pub(crate) fn memory(&self) -> usize {
        size_of::<LiteralWriter>()
            + self.past.memory()
            + self.search.memory()
            + size_of_val(&*self.columns)
    }

    /// Forgets everything.
    pub(crate) fn reset(&mut self) {
        self.past.clear();
        self.search.reset();
        *self.columns = [ColumnWriter::NEW; COLUMNS];
        self.models = LengthModels::NEW;
    }

    /// Appends a section of `literals`, at most twice as many bytes as a block may have and 8 more.
    pub(crate) fn write(
        &mut self,
        literals: &[u8],
        codes: &mut NewCodes,
        buffers: &mut LiteralBuffers,
        out: &mut Vec<u8>,
    ) {
        let LiteralBuffers { found, coder } = buffers;
        self.past.make_room(literals.len());
        let Past { bytes, len, dropped } = &mut self.past;
        let from = *len;
        *len += literals.len();
        bytes[from..*len].copy_from_slice(literals);
        // What the search may look at after the end.
        bytes[*len..*len + SHORT_SLACK].fill(0);
        self.search.search(self.kernels, bytes, from, *len, *dropped, found);
        varint::put(out, found.tokens.len() as u64);
        let ShortMatches { tokens, high, low, runs, lens, large, literals } = &*found;
        let coded = [tokens, high, low, runs, lens];
        let [columns @ .., last] = &mut *self.columns;
        for (column, symbols) in columns.iter_mut().zip(coded) {
            column.write(symbols, &mut self.models, codes, coder, out);
        }
        out.extend_from_slice(large);
        last.write(literals, &mut self.models, codes, coder, out);
    }
}

/// State of the coder at the reader.
pub(crate) struct LiteralReader {
    kernels: Kernels,
    past: Past,
    columns: Box<[ColumnReader; COLUMNS]>,
    models: LengthModels,
    last: u16,
}

/// Buffers that readers of all contexts share.
#[derive(Default)]
pub(crate) struct ColumnBuffers {
    /// All columns of a section, one after the other, but for the literals.
    symbols: Vec<u8>,
    literals: Vec<u8>,
}

impl ColumnBuffers {
    /// For the columns of descriptors: at most seven bytes for each byte of a block.
    pub(crate) fn symbols(&mut self) -> &mut Vec<u8> {
        &mut self.symbols
    }

    /// All columns but that of literals, and that one.
    pub(super) fn parts(&mut self) -> (&mut Vec<u8>, &mut Vec<u8>) {
        (&mut self.symbols, &mut self.literals)
    }

    /// Memory as of now, in bytes.
    pub(crate) fn memory(&self) -> usize {
        self.symbols.capacity() + self.literals.capacity()
    }

    /// At most, for blocks of `max_block` bytes: seven bytes for each, which is more than five for
    /// each short match, and literals, in buffers that may double.
    pub(crate) fn most(max_block: usize) -> usize {
        2 * (7 * max_block + most(max_block) + SHORT_SLACK)
    }
}

impl LiteralReader {
    pub(crate) fn new(kernels: Kernels) -> LiteralReader {
        LiteralReader {
            kernels,
            past: Past::default(),
            columns: Box::new([ColumnReader::NEW; COLUMNS]),
            models: LengthModels::NEW,
            last: SHORT_FIRST_DISTANCE,
        }
    }

    /// Memory in bytes, at most, for blocks of `max_block` bytes.
    pub(crate) fn most_memory(max_block: usize) -> usize {
        let past = Past::most_memory(max_block);
        size_of::<LiteralReader>() + past + COLUMNS * ColumnReader::MEMORY
    }

    /// Memory as of now, in bytes; codes count as if they were all there.
    pub(crate) fn memory(&self) -> usize {
        size_of::<LiteralReader>() + self.past.memory() + COLUMNS * ColumnReader::MEMORY
    }

    /// Forgets everything.
    pub(crate) fn reset(&mut self) {
        self.past.clear();
        self.columns.iter_mut().for_each(ColumnReader::reset);
        self.models = LengthModels::NEW;
        self.last = SHORT_FIRST_DISTANCE;
    }

    /// Reads a section, which must yield exactly `expected` bytes. After an error, the reader must
    /// be reset.
    pub(crate) fn read(
        &mut self,
        mut section: &[u8],
        expected: usize,
        codes: &mut NewCodes,
        buffers: &mut ColumnBuffers,
    ) -> Result<&[u8], FrameError> {
        const DAMAGED: FrameError = FrameError::Literals { method: "columns" };
        let LiteralReader { kernels, past, columns, models, last } = self;
        let kernels = *kernels;
        let count = varint::field(&mut section, "short match count")?;
        let limit = (expected / SHORT_LEAST) as u64;
        if count > limit {
            return Err(FrameError::TooLarge { field: "short match count", value: count, limit });
        }
        let count = count as usize;
        let ColumnBuffers { symbols, literals } = buffers;
        let [token_column, high_column, low_column, run_column, len_column, literal_column] =
            &mut **columns;
        if symbols.len() < 5 * count {
            symbols.resize(5 * count, 0);
        }
        let (tokens, rest) = symbols.split_at_mut(count);
        token_column.read(kernels, models, codes, &mut section, tokens)?;
        let counts = ShortCounts::of(tokens);
        let (high, rest) = rest.split_at_mut(counts.distances);
        high_column.read(kernels, models, codes, &mut section, high)?;
        let (low, rest) = rest.split_at_mut(counts.distances);
        low_column.read(kernels, models, codes, &mut section, low)?;
        let (runs, rest) = rest.split_at_mut(counts.runs);
        run_column.read(kernels, models, codes, &mut section, runs)?;
        let lens = &mut rest[..counts.lens];
        len_column.read(kernels, models, codes, &mut section, lens)?;
        let escapes = |column: &[u8]| column.iter().filter(|&&more| more == 255).count();
        let large_runs = escapes(runs);
        let (large, rest) = section
            .split_at_checked(3 * (large_runs + escapes(lens)))
            .ok_or(FrameError::Short { section: "short matches" })?;
        section = rest;
        let matched = counts.matched + added(tokens, runs, lens, large);
        let count = expected.checked_sub(matched).ok_or(DAMAGED)?;
        let with_slack = count + SHORT_SLACK;
        if literals.len() < with_slack {
            literals.resize(with_slack, 0);
        }
        let literals = &mut literals[..with_slack];
        literal_column.read(kernels, models, codes, &mut section, &mut literals[..count])?;
        if !section.is_empty() {
            return Err(FrameError::Excess { section: "literals", extra: section.len() });
        }
        past.make_room(expected);
        let (from, to) = (past.len, past.len + expected);
        let columns = ShortColumns { tokens, high, low, runs, lens, large, literals };
        if !columns.execute(kernels, &mut past.bytes, from, to, last) {
            return Err(DAMAGED);
        }
        past.len = to;
        Ok(&past.bytes[from..to])
    }
}

/// What `lens` adds to the lengths of matches. `large` has three bytes for each 255 of both
/// columns.
pub(super) fn added(tokens: &[u8], runs: &[u8], lens: &[u8], large: &[u8]) -> usize {
    let sum: usize = lens.iter().map(|&more| usize::from(more)).sum();
    if large.is_empty() {
        return sum;
    }
    // Rare: which of the large numbers are of matches follows from the tokens.
    let (mut runs, mut lens, mut sum) = (runs.iter(), lens.iter(), 0);
    let (triples, _) = large.as_chunks::<3>();
    let mut large = triples.iter().map(|&[a, b, c]| u32::from_le_bytes([a, b, c, 0]) as usize);
    for &token in tokens {
        if token & 0x70 == 0x70 && runs.next() == Some(&255) {
            large.next();
        }
        if token & 15 == 15 {
            sum += match lens.next() {
                Some(255) => large.next().unwrap_or(0),
                Some(&more) => usize::from(more),
                None => 0,
            };
        }
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::MAX_BLOCK;
    use proptest::prelude::*;

    fn texts() -> impl Strategy<Value = Vec<Vec<u8>>> {
        let piece = prop_oneof![
            6 => (0usize..10).prop_map(|word| {
                let words = ["literal ", "coder", " of ", "columns\n", "a", "7, ", "0x", "match", "\t", "once"];
                words[word].as_bytes().to_vec()
            }),
            1 => (any::<u8>(), 1usize..600).prop_map(|(byte, len)| vec![byte; len]),
            1 => proptest::collection::vec(any::<u8>(), 1..300),
        ];
        let text = proptest::collection::vec(piece, 0..800).prop_map(|pieces| pieces.concat());
        proptest::collection::vec(text, 1..8)
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

        #[test]
        fn the_level_may_change_with_every_section(texts in texts(), levels: u64) {
            let level = |nth: usize| 1 + (levels >> (2 * nth) & 3).min(2) as i32;
            let mut writer = LiteralWriter::new(Kernels::detect(), level(0));
            let mut reader = LiteralReader::new(Kernels::detect());
            let (mut buffers, mut columns) = (LiteralBuffers::default(), ColumnBuffers::default());
            for (nth, text) in texts.iter().flat_map(|text| text.chunks(DEFAULT_BLOCK)).enumerate() {
                writer.set_level(level(nth % 32));
                let mut section = Vec::new();
                let mut codes = NewCodes::of(text.len());
                writer.write(text, &mut codes.clone(), &mut buffers, &mut section);
                prop_assert_eq!(reader.read(&section, text.len(), &mut codes, &mut columns).unwrap(), text);
            }
            prop_assert!(writer.memory() <= LiteralWriter::most_memory(3, DEFAULT_BLOCK));
        }

        #[test]
        fn sections_come_back_in_order(texts in texts(), level in 1i32..=3, block in prop_oneof![Just(DEFAULT_BLOCK), Just(MAX_BLOCK)]) {
            let mut writer = LiteralWriter::new(Kernels::detect(), level);
            let mut reader = LiteralReader::new(Kernels::detect());
            let (mut buffers, mut columns) = (LiteralBuffers::default(), ColumnBuffers::default());
            for text in &texts {
                for part in text.chunks(block) {
                    let mut section = Vec::new();
                    let mut codes = NewCodes::of(part.len());
                    writer.write(part, &mut codes.clone(), &mut buffers, &mut section);
                    prop_assert!(section.len() <= part.len() + 16);
                    prop_assert_eq!(reader.read(&section, part.len(), &mut codes, &mut columns).unwrap(), part);
                }
            }
            prop_assert!(writer.memory() <= LiteralWriter::most_memory(level, block));
            prop_assert!(reader.memory() <= LiteralReader::most_memory(block));
            prop_assert!(buffers.memory() <= LiteralBuffers::most(block));
            prop_assert!(columns.memory() <= ColumnBuffers::most(block));
        }

        #[test]
        fn damaged_sections_are_refused_or_read(texts in texts(), at: prop::sample::Index, byte: u8) {
            let mut writer = LiteralWriter::new(Kernels::detect(), 1);
            let mut reader = LiteralReader::new(Kernels::detect());
            let (mut buffers, mut columns) = (LiteralBuffers::default(), ColumnBuffers::default());
            for text in &texts {
                let part = &text[..text.len().min(DEFAULT_BLOCK)];
                let mut section = Vec::new();
                let mut codes = NewCodes::of(part.len());
                writer.write(part, &mut codes.clone(), &mut buffers, &mut section);
                let at = at.index(section.len());
                section[at] = byte;
                if let Ok(read) = reader.read(&section, part.len(), &mut codes, &mut columns) {
                    prop_assert_eq!(read.len(), part.len());
                } else {
                    break;
                }
            }
        }
    }
}
