//! Frozen contexts: the literals of a datagram as short matches into a prefix that both ends have, and
//! in Huffman codes that never change. No state runs from one datagram to the next, so each decodes
//! alone.
//!
//! `docs/LINK.md`, "Contexts", specifies the bytes. [`training`](super::training) makes contexts.

use super::columns::write_four;
use super::literals::{ColumnBuffers, added};
use crate::error::FrameError;
use crate::format::varint;
use crate::limits::DEFAULT_BLOCK;
use oncewire_kernels::{
    HuffmanReader, HuffmanWriter, Kernels, SHORT_FIRST_DISTANCE, SHORT_LEAST, SHORT_SLACK,
    ShortColumns, ShortCounts, ShortEffort, ShortMatches, ShortSearch, byte_counts,
};

/// Most bytes of a context's prefix. Twice as many save 3 % more, and need more of the processor's
/// cache.
pub const MAX_PREFIX: usize = 32 << 10;
/// Columns with one code each: tokens, upper and lower bytes of distances, runs, lengths.
pub(super) const PLAIN_COLUMNS: usize = 5;
/// Most codes for literals, of which a section uses one.
pub(super) const MAX_LITERAL_CODES: usize = 4;
/// Bytes of a code: the lengths of two words each.
const CODE_LEN: usize = 128;
/// Most bytes of a context's codes: [`FrozenContext::codes`].
pub const MAX_CODES: usize = (PLAIN_COLUMNS + MAX_LITERAL_CODES) * CODE_LEN;
/// From as many symbols on, a column has four streams, and their lengths before them.
const FOUR_STREAMS: usize = 512;
/// Bits of an index of the search, enough for each position of a prefix.
const SEARCH_BITS: u32 = 15;

/// Lengths of the words of a complete code; 0 for symbols without a word.
pub(super) type Lengths = [u8; 256];

/// What both ends of a frozen context have: a prefix that literals may repeat, and codes. It never
/// changes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FrozenContext {
    pub(super) prefix: Vec<u8>,
    /// Each has words for all symbols.
    pub(super) plain: [Lengths; PLAIN_COLUMNS],
    /// The first one has words for all symbols.
    pub(super) literals: Vec<Lengths>,
}

/// Bytes that are no frozen context.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ContextError {
    /// A part has an impossible length.
    #[error("a context with {len} bytes of {part}")]
    Length {
        /// The part: prefix or codes.
        part: &'static str,
        /// Its length in bytes.
        len: usize,
    },
    /// A code is not complete, or lacks words that it must have.
    #[error("code {nth} of a context is not complete")]
    Code {
        /// Which one, counted from 0.
        nth: usize,
    },
}

impl FrozenContext {
    /// A context of a prefix and codes, as [`FrozenContext::codes`] returns them.
    ///
    /// # Errors
    /// [`ContextError`].
    pub fn new(prefix: &[u8], codes: &[u8]) -> Result<FrozenContext, ContextError> {
        if prefix.len() > MAX_PREFIX {
            return Err(ContextError::Length { part: "prefix", len: prefix.len() });
        }
        let (stated, rest) = codes.as_chunks::<CODE_LEN>();
        if !rest.is_empty() || stated.len() <= PLAIN_COLUMNS || codes.len() > MAX_CODES {
            return Err(ContextError::Length { part: "codes", len: codes.len() });
        }
        let mut all = Vec::with_capacity(stated.len());
        for (nth, code) in stated.iter().enumerate() {
            let mut lengths: Lengths = [0; 256];
            for (pair, &byte) in lengths.as_chunks_mut::<2>().0.iter_mut().zip(code) {
                *pair = [byte & 15, byte >> 4];
            }
            let needs_all = nth <= PLAIN_COLUMNS;
            if (needs_all && lengths.contains(&0)) || HuffmanWriter::new(&lengths).is_none() {
                return Err(ContextError::Code { nth });
            }
            all.push(lengths);
        }
        let literals = all.split_off(PLAIN_COLUMNS);
        let plain = std::array::from_fn(|nth| all[nth]);
        Ok(FrozenContext { prefix: prefix.to_vec(), plain, literals })
    }

    /// The context number 0, which every end has: trained on source text, documents and web pages of
    /// this project, and on the headers of HTTP. `examples/train-context.rs` made it.
    pub fn built_in() -> FrozenContext {
        let (codes, prefix) = BUILT_IN.split_at(BUILT_IN.len().min(MAX_CODES));
        FrozenContext::new(prefix, codes).expect("the file is in the crate, and a test reads it")
    }

    /// The prefix.
    pub fn prefix(&self) -> &[u8] {
        &self.prefix
    }

    /// The codes: four bits for the length of each word.
    pub fn codes(&self) -> Vec<u8> {
        let all = self.plain.iter().chain(&self.literals);
        all.flat_map(|lengths| lengths.as_chunks::<2>().0.iter().map(|&[a, b]| a | b << 4))
            .collect()
    }
}

/// [`MAX_CODES`] bytes of codes, then the prefix.
static BUILT_IN: &[u8] = include_bytes!("context-0.bin");

/// Writes literals with a frozen context. What it changes are buffers, so sections depend on nothing
/// but their literals.
pub(crate) struct FrozenWriter {
    kernels: Kernels,
    /// The prefix, and the literals of one section.
    content: Vec<u8>,
    prefix: usize,
    /// As it is after the prefix.
    before: ShortSearch,
    search: ShortSearch,
    found: ShortMatches,
    plain: Vec<(HuffmanWriter, Lengths)>,
    literals: Vec<(HuffmanWriter, Lengths)>,
}

impl FrozenWriter {
    pub(crate) fn new(kernels: Kernels, context: &FrozenContext) -> FrozenWriter {
        let mut content = context.prefix.clone();
        let prefix = content.len();
        content.resize(prefix + SHORT_SLACK, 0);
        let mut before = ShortSearch::new(SEARCH_BITS, ShortEffort::Deep);
        let mut found = ShortMatches::default();
        // In parts, so that none of it is passed over where nothing repeats.
        for from in (0..prefix.max(1)).step_by(1024) {
            before.search(kernels, &content, from, prefix.min(from + 1024), 0, &mut found);
        }
        before.restart();
        let code = |lengths: &Lengths| HuffmanWriter::new(lengths).map(|code| (code, *lengths));
        FrozenWriter {
            kernels,
            content,
            prefix,
            search: before.clone(),
            before,
            found,
            plain: context.plain.iter().filter_map(code).collect(),
            literals: context.literals.iter().filter_map(code).collect(),
        }
    }

    /// Memory in bytes, at most.
    pub(crate) const MOST: usize = size_of::<FrozenWriter>()
        + 2 * (MAX_PREFIX + DEFAULT_BLOCK + SHORT_SLACK)
        + 4 * (size_of::<u32>() << SEARCH_BITS)
        // Columns of ShortMatches, as in LiteralBuffers::MOST.
        + 4 * DEFAULT_BLOCK
        + (8 << 10)
        + 2 * (PLAIN_COLUMNS + MAX_LITERAL_CODES) * size_of::<(HuffmanWriter, Lengths)>();

    /// Memory as of now, in bytes.
    pub(crate) fn memory(&self) -> usize {
        size_of::<FrozenWriter>()
            + self.content.capacity()
            + self.before.memory()
            + self.search.memory()
            + self.found.memory()
            + (self.plain.capacity() + self.literals.capacity())
                * size_of::<(HuffmanWriter, Lengths)>()
    }

    /// Finds the short matches of literals, at most [`DEFAULT_BLOCK`] bytes, that come in parts.
    pub(super) fn find<'a>(&mut self, literals: impl Iterator<Item = &'a [u8]>) -> &ShortMatches {
        let FrozenWriter { kernels, content, prefix, before, search, found, .. } = self;
        content.truncate(*prefix);
        literals.for_each(|part| content.extend_from_slice(part));
        let end = content.len();
        content.resize(end + SHORT_SLACK, 0);
        search.search(*kernels, content, *prefix, end, 0, found);
        search.undo(before, content, *prefix, end);
        found
    }

    /// Appends a section of literals, at most [`DEFAULT_BLOCK`] bytes, that come in parts.
    pub(crate) fn write<'a>(
        &mut self,
        literals: impl Iterator<Item = &'a [u8]>,
        out: &mut Vec<u8>,
    ) {
        self.find(literals);
        let FrozenWriter { found, plain, literals: codes, .. } = self;
        let ShortMatches { tokens, high, low, runs, lens, large, literals } = &*found;
        let head = out.len();
        out.push(0);
        varint::put(out, tokens.len() as u64);
        let columns = [tokens, high, low, runs, lens];
        for (nth, (symbols, (code, lengths))) in columns.into_iter().zip(&*plain).enumerate() {
            let bits =
                symbols.iter().map(|&symbol| usize::from(lengths[usize::from(symbol)])).sum();
            if coded_len(bits, symbols.len()) < symbols.len() {
                out[head] |= 1 << nth;
                write_column(code, symbols, out);
            } else {
                out.extend_from_slice(symbols);
            }
        }
        out.extend_from_slice(large);
        match cheapest(&byte_counts(literals), codes.iter().map(|(_, lengths)| lengths)) {
            Some((nth, bits)) if coded_len(bits, literals.len()) < literals.len() => {
                out[head] |= (nth as u8 + 1) << PLAIN_COLUMNS;
                write_column(&codes[nth].0, literals, out);
            }
            _ => out.extend_from_slice(literals),
        }
    }
}

/// The code that takes the fewest bits for symbols with these counts, and how many.
pub(super) fn cheapest<'a>(
    counts: &[u32; 256],
    codes: impl Iterator<Item = &'a Lengths>,
) -> Option<(usize, usize)> {
    let costs = codes.enumerate().filter_map(|(nth, lengths)| Some((nth, cost(counts, lengths)?)));
    costs.min_by_key(|&(_, bits)| bits)
}

/// Bits that symbols with these counts take; `None` if one has no word.
fn cost(counts: &[u32; 256], lengths: &Lengths) -> Option<usize> {
    let (mut bits, mut lacking) = (0, 0);
    for (&count, &length) in counts.iter().zip(lengths) {
        bits += count * u32::from(length);
        lacking |= if length == 0 { count } else { 0 };
    }
    (lacking == 0).then_some(bits as usize)
}

/// Bytes that a column takes at most.
fn coded_len(bits: usize, symbols: usize) -> usize {
    if symbols < FOUR_STREAMS { bits.div_ceil(8) } else { bits / 8 + 4 + 6 }
}

fn write_column(code: &HuffmanWriter, symbols: &[u8], out: &mut Vec<u8>) {
    if symbols.len() < FOUR_STREAMS {
        code.write(symbols, out);
    } else {
        write_four(code, symbols, out);
    }
}

/// Reads what a [`FrozenWriter`] of the same context wrote. As there, only buffers change.
pub(crate) struct FrozenReader {
    kernels: Kernels,
    /// The prefix, and the literals of one section.
    content: Vec<u8>,
    prefix: usize,
    plain: Vec<HuffmanReader>,
    literals: Vec<HuffmanReader>,
}

const DAMAGED: FrameError = FrameError::Literals { method: "frozen columns" };
const SHORT: FrameError = FrameError::Short { section: "literals" };

impl FrozenReader {
    pub(crate) fn new(kernels: Kernels, context: &FrozenContext) -> FrozenReader {
        FrozenReader {
            kernels,
            content: context.prefix.clone(),
            prefix: context.prefix.len(),
            plain: context.plain.iter().filter_map(HuffmanReader::new).collect(),
            literals: context.literals.iter().filter_map(HuffmanReader::new).collect(),
        }
    }

    /// Memory in bytes, at most.
    pub(crate) const MOST: usize = size_of::<FrozenReader>()
        + 2 * (MAX_PREFIX + DEFAULT_BLOCK + SHORT_SLACK)
        + 2 * (PLAIN_COLUMNS + MAX_LITERAL_CODES) * HuffmanReader::MEMORY;

    /// Memory as of now, in bytes.
    pub(crate) fn memory(&self) -> usize {
        let codes = self.plain.capacity() + self.literals.capacity();
        size_of::<FrozenReader>() + self.content.capacity() + codes * HuffmanReader::MEMORY
    }

    /// Reads `section`, which must yield exactly `expected` bytes, at most [`DEFAULT_BLOCK`].
    ///
    /// # Errors
    /// [`FrameError`].
    pub(crate) fn read(
        &mut self,
        section: &[u8],
        expected: usize,
        buffers: &mut ColumnBuffers,
    ) -> Result<&[u8], FrameError> {
        let (&head, mut section) = section.split_first().ok_or(SHORT)?;
        let count = varint::field(&mut section, "short match count")?;
        let limit = (expected / SHORT_LEAST) as u64;
        if count > limit {
            return Err(FrameError::TooLarge { field: "short match count", value: count, limit });
        }
        let count = count as usize;
        let FrozenReader { kernels, content, prefix, plain, literals: codes } = self;
        let (kernels, section) = (*kernels, &mut section);
        let code = |nth: usize| (head >> nth & 1 == 1).then(|| &plain[nth]);
        let (symbols, literals) = buffers.parts();
        if symbols.len() < 5 * count {
            symbols.resize(5 * count, 0);
        }
        let (tokens, rest) = symbols.split_at_mut(count);
        read_column(kernels, code(0), section, tokens)?;
        let counts = ShortCounts::of(tokens);
        let (high, rest) = rest.split_at_mut(counts.distances);
        read_column(kernels, code(1), section, high)?;
        let (low, rest) = rest.split_at_mut(counts.distances);
        read_column(kernels, code(2), section, low)?;
        let (runs, rest) = rest.split_at_mut(counts.runs);
        read_column(kernels, code(3), section, runs)?;
        let lens = &mut rest[..counts.lens];
        read_column(kernels, code(4), section, lens)?;
        let escapes = |column: &[u8]| column.iter().filter(|&&more| more == 255).count();
        let large = take(section, 3 * (escapes(runs) + escapes(lens)))?;
        let matched = counts.matched + added(tokens, runs, lens, large);
        let count = expected.checked_sub(matched).ok_or(DAMAGED)?;
        if literals.len() < count + SHORT_SLACK {
            literals.resize(count + SHORT_SLACK, 0);
        }
        let literals = &mut literals[..count + SHORT_SLACK];
        let code = match usize::from(head >> PLAIN_COLUMNS) {
            0 => None,
            nth => Some(codes.get(nth - 1).ok_or(FrameError::Field {
                field: "code of literals",
                value: nth as u64,
                allowed: "one that the context has",
            })?),
        };
        read_column(kernels, code, section, &mut literals[..count])?;
        if !section.is_empty() {
            return Err(FrameError::Excess { section: "literals", extra: section.len() });
        }
        let (from, to) = (*prefix, *prefix + expected);
        if content.len() < to + SHORT_SLACK {
            content.resize(to + SHORT_SLACK, 0);
        }
        let columns = ShortColumns { tokens, high, low, runs, lens, large, literals };
        let mut last = SHORT_FIRST_DISTANCE;
        if !columns.execute(kernels, content, from, to, &mut last) {
            return Err(DAMAGED);
        }
        Ok(&content[from..to])
    }
}

/// Takes a column of `out.len()` symbols from the front of `from`.
fn read_column(
    kernels: Kernels,
    code: Option<&HuffmanReader>,
    from: &mut &[u8],
    out: &mut [u8],
) -> Result<(), FrameError> {
    let len = match code {
        None => {
            out.copy_from_slice(take(from, out.len())?);
            return Ok(());
        }
        Some(code) if out.len() < FOUR_STREAMS => code.read(kernels, from, out),
        Some(code) => {
            let (lens, _) = take(from, 6)?.as_chunks::<2>();
            let lens = [lens[0], lens[1], lens[2]].map(|len| u16::from_le_bytes(len).into());
            code.read_four(kernels, from, lens, out)
        }
    };
    *from = &from[len.ok_or(DAMAGED)?..];
    Ok(())
}

fn take<'a>(from: &mut &'a [u8], len: usize) -> Result<&'a [u8], FrameError> {
    let (taken, rest) = from.split_at_checked(len).ok_or(SHORT)?;
    *from = rest;
    Ok(taken)
}

#[cfg(test)]
mod tests {
    use super::super::training::Training;
    use super::*;
    use proptest::prelude::*;

    fn text() -> impl Strategy<Value = Vec<u8>> {
        let piece = prop_oneof![
            8 => (0usize..10).prop_map(|word| {
                let words = ["frozen ", "context", " of ", "datagrams\n", "a", "7, ", "0x", "prefix", "\t", "once"];
                words[word].as_bytes().to_vec()
            }),
            1 => (any::<u8>(), 1usize..600).prop_map(|(byte, len)| vec![byte; len]),
            1 => proptest::collection::vec(any::<u8>(), 1..300),
        ];
        proptest::collection::vec(piece, 0..200).prop_map(|pieces| pieces.concat())
    }

    fn ends(context: &FrozenContext) -> (FrozenWriter, FrozenReader) {
        let kernels = Kernels::detect();
        (FrozenWriter::new(kernels, context), FrozenReader::new(kernels, context))
    }

    fn section(writer: &mut FrozenWriter, text: &[u8]) -> Vec<u8> {
        let mut section = Vec::new();
        writer.write(text.chunks(77), &mut section);
        section
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

        /// In any order, each alone, and the same bytes whatever came before.
        #[test]
        fn sections_are_independent(
            texts in proptest::collection::vec(text(), 1..8),
            samples in proptest::collection::vec(text(), 0..4),
        ) {
            let samples = samples.concat();
            let trained = Training::new(&samples, 4000).finish();
            for context in [FrozenContext::built_in(), trained.context(&samples)] {
                let again = FrozenContext::new(context.prefix(), &context.codes()).unwrap();
                prop_assert_eq!(&again, &context);
                let (mut writer, mut reader) = ends(&context);
                let sections: Vec<_> = texts.iter().map(|text| section(&mut writer, text)).collect();
                let mut buffers = ColumnBuffers::default();
                for (text, written) in texts.iter().zip(&sections).rev() {
                    prop_assert_eq!(reader.read(written, text.len(), &mut buffers).unwrap(), text);
                    prop_assert_eq!(&section(&mut ends(&context).0, text), written);
                    // The bits at the end of a stream may be a word: checksums are for that.
                    let longer = reader.read(written, text.len() + 1, &mut buffers);
                    prop_assert!(longer.is_err() || longer.is_ok_and(|longer| longer.starts_with(text)));
                }
                prop_assert!(reader.memory() <= FrozenReader::MOST);
                prop_assert!(writer.memory() <= FrozenWriter::MOST);
            }
        }

        #[test]
        fn damaged_sections_are_refused_or_give_other_bytes(
            text in text(),
            flips in proptest::collection::vec((any::<usize>(), 1u8..), 1..4),
            cut in any::<usize>(),
        ) {
            let (mut writer, mut reader) = ends(&FrozenContext::built_in());
            let mut buffers = ColumnBuffers::default();
            let whole = section(&mut writer, &text);
            let mut damaged = whole.clone();
            for (at, bits) in flips {
                let at = at % damaged.len();
                damaged[at] ^= bits;
            }
            let _ = reader.read(&damaged, text.len(), &mut buffers).map(<[u8]>::len);
            let cut = cut % whole.len();
            prop_assert!(reader.read(&whole[..cut], text.len(), &mut buffers).is_err());
            // Nothing of it stays.
            prop_assert_eq!(reader.read(&whole, text.len(), &mut buffers).unwrap(), &text);
        }
    }

    #[test]
    fn hostile_contexts_are_refused() {
        let good = FrozenContext::built_in();
        let (prefix, codes) = (good.prefix(), good.codes());
        let long = vec![0; MAX_PREFIX + 1];
        let error = FrozenContext::new(&long, &codes).unwrap_err();
        assert_eq!(error, ContextError::Length { part: "prefix", len: long.len() });
        for len in [0, 1, 5 * CODE_LEN, codes.len() - 1, 10 * CODE_LEN] {
            let stated = [&codes[..], &codes].concat();
            let error = FrozenContext::new(prefix, &stated[..len]).unwrap_err();
            assert_eq!(error, ContextError::Length { part: "codes", len });
        }
        assert!(FrozenContext::new(&long[..MAX_PREFIX], &codes[..6 * CODE_LEN]).is_ok());
        for nth in 0..codes.len() / CODE_LEN {
            // A word that is missing, one too many, and one that is too long.
            for byte in [0x00, 0x11, 0xcc] {
                let mut bad = codes.clone();
                bad[nth * CODE_LEN..][..CODE_LEN].fill(0x88);
                assert!(FrozenContext::new(prefix, &bad).is_ok());
                bad[nth * CODE_LEN] = byte;
                let error = FrozenContext::new(prefix, &bad).unwrap_err();
                assert_eq!(error, ContextError::Code { nth });
            }
        }
    }
}
