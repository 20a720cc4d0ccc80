//! Transcoded literals: their fields in a frame, and how they are expanded. `docs/FORMAT.md`,
//! "Transcoded literals".

use crate::deflate::{
    BitReader, BitWriter, Code, Lengths, SLACK, copy_bits, transcode, transcode_changed,
};
use crate::entropy::{CodeAt, Operation};
use crate::error::FrameError;
use crate::format::{put_position, take_position, varint};
use crate::inside::wire::alignment::Alignment;
use crate::inside::wire::clause::Clause;
use crate::inside::wire::sequences::{self, Assembly};
use crate::inside::wire::work::{CODE, DESCRIPTION, SINGLE, STEP, TOKEN, Work};
use crate::log::Width;
use crate::matcher::Match;
use oncewire_kernels::Kernels;

/// Most codes that a frame may describe. Each takes [`Code::MEMORY`] bytes.
pub(crate) const MAX_CODES: usize = 128;
/// Most sources of a frame.
pub(crate) const MAX_SOURCES: usize = 256;
/// Most consecutive operations that write no bits.
const MAX_IDLE: u32 = 2;
/// From this many bits on, copied bits of the residual are aligned with the literals.
pub(crate) const ALIGNED_BITS: u64 = 64;

const NAME: &str = "transcoded literals";

/// The parts of a section of transcoded literals.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Section<'a> {
    pub(crate) operations: &'a [u8],
    /// Bytes of the residual.
    pub(crate) residual_len: usize,
    /// Whether the residual is coded as literals are.
    pub(crate) is_coded: bool,
    pub(crate) residual: &'a [u8],
    /// The sources are zstd blocks; the operation section holds literals outside of them.
    pub(crate) is_sequences: bool,
}

/// What a section refers to.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sources<'a> {
    pub(crate) all: &'a [Match],
    /// Each is a zstd block.
    pub(crate) are_blocks: bool,
    /// Width of the frame's positions, if fixed.
    pub(crate) width: Option<Width>,
}

/// Appends all fields of a section except the residual. The sources lie below `offset`.
pub(crate) fn write(
    sources: Sources<'_>,
    offset: u64,
    residual_len: usize,
    is_coded: bool,
    operations: &[u8],
    out: &mut Vec<u8>,
) {
    varint::put(out, (sources.all.len() as u64) << 1 | u64::from(sources.are_blocks));
    for source in sources.all {
        put_position(sources.width, out, offset - source.source);
        varint::put(out, u64::from(source.len));
    }
    varint::put(out, (residual_len as u64) << 1 | u64::from(is_coded));
    varint::put(out, operations.len() as u64);
    out.extend_from_slice(operations);
}

impl<'a> Section<'a> {
    /// Parses a section of a frame whose positions may have a fixed `width`. Appends its sources to
    /// `sources`; the caller checks whether they may be referred to.
    ///
    /// # Errors
    /// [`FrameError`].
    pub(crate) fn read(
        mut section: &'a [u8],
        offset: u64,
        literals: usize,
        width: Option<Width>,
        sources: &mut Vec<Match>,
    ) -> Result<Section<'a>, FrameError> {
        let count = varint::field(&mut section, NAME)?;
        let (count, is_sequences) = (count >> 1, count & 1 == 1);
        if count > MAX_SOURCES as u64 {
            let limit = MAX_SOURCES as u64;
            return Err(FrameError::TooLarge { field: "sources", value: count, limit });
        }
        for _ in 0..count {
            let back = take_position(width, &mut section, NAME)?;
            let len = varint::field(&mut section, NAME)?;
            let source = offset.checked_sub(back).filter(|_| len > 0 && len <= back);
            let (Some(source), Ok(len)) = (source, u32::try_from(len)) else {
                let source_offset = offset.saturating_sub(back);
                return Err(FrameError::Reference { source_offset, len });
            };
            sources.push(Match { at: 0, len, source });
        }
        let residual = varint::field(&mut section, NAME)?;
        // Each alignment of the residual loses up to 7 bits; a writer never needs more.
        let (residual_len, limit) = (residual >> 1, 2 * literals as u64 + 8);
        if residual_len > limit {
            return Err(FrameError::TooLarge { field: "residual", value: residual_len, limit });
        }
        let operations = varint::field(&mut section, NAME)?;
        let Some((operations, residual_section)) = usize::try_from(operations)
            .ok()
            .and_then(|operations| section.split_at_checked(operations))
        else {
            return Err(FrameError::Short { section: NAME });
        };
        Ok(Section {
            operations,
            residual_len: residual_len as usize,
            is_coded: residual & 1 == 1,
            residual: residual_section,
            is_sequences,
        })
    }
}

/// A code of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Named {
    Fixed,
    Nth(usize),
}

/// The codes that a frame described. Equal ones are built once: those of earlier frames, too, which
/// often take the same. What a frame costs does not depend on that.
#[derive(Debug, Default)]
struct Codes {
    built: Vec<Code>,
    /// Of each: a hash of the lengths of its words, and the last frame that described it.
    known: Vec<(u64, u64)>,
    /// Frames so far.
    frame: u64,
    /// Different codes of this frame.
    count: usize,
    /// For each description, in order, its index in `built`.
    described: Vec<u8>,
}

impl Codes {
    const MEMORY: usize = MAX_CODES * (Code::MEMORY + size_of::<(u64, u64)>() + 1);

    fn memory(&self) -> usize {
        self.built.capacity() * Code::MEMORY
            + self.known.capacity() * size_of::<(u64, u64)>()
            + self.described.capacity()
    }

    /// Begins the next frame.
    fn clear(&mut self) {
        self.frame += 1;
        self.count = 0;
        self.described.clear();
    }

    /// Adds a description. Returns what it names.
    fn add(&mut self, lengths: &Lengths, work: &mut Work) -> Result<Named, FrameError> {
        let hash = lengths.hash();
        let mut known = self.known.iter().zip(&self.built);
        let known = known.position(|((of, _), code)| *of == hash && code.has(lengths));
        if known.is_none_or(|nth| self.known[nth].1 != self.frame) {
            work.add(1, CODE)?;
            self.count += 1;
        }
        let nth = match known {
            Some(nth) => nth,
            None => self.build(hash, lengths)?,
        };
        self.known[nth].1 = self.frame;
        self.described.push(nth as u8);
        Ok(Named::Nth(nth))
    }

    /// Builds a code, in the place of the one that was described least recently if there are many.
    /// A frame describes no more than there are places. Returns its index.
    fn build(&mut self, hash: u64, lengths: &Lengths) -> Result<usize, FrameError> {
        if self.built.len() < MAX_CODES {
            self.built.push(Code::EMPTY);
            self.known.push((0, 0));
        }
        let oldest = self.known.iter().enumerate().min_by_key(|(_, known)| known.1);
        let nth = oldest.map_or(0, |(nth, _)| nth);
        self.known[nth] = (hash, 0);
        self.built[nth].set(lengths).map_err(|_| Clause::Description)?;
        Ok(nth)
    }

    fn get(&self, name: Named) -> &Code {
        match name {
            Named::Fixed => Code::fixed(),
            // A name is valid by construction.
            Named::Nth(nth) => &self.built[nth],
        }
    }
}

/// Expands transcoded literals. Kept between frames for its memory.
#[derive(Debug, Default)]
pub(crate) struct Expander {
    kernels: Kernels,
    codes: Codes,
    assembly: Assembly,
}

impl Expander {
    pub(crate) fn new(kernels: Kernels) -> Expander {
        Expander { kernels, ..Expander::default() }
    }

    /// Memory in bytes as of now.
    pub(crate) fn memory(&self) -> usize {
        self.codes.memory() + self.assembly.memory()
    }

    /// Memory in bytes, at most.
    pub(crate) const MEMORY: usize = Codes::MEMORY + Assembly::MEMORY;

    /// The buffer for the sequences of sources.
    pub(in crate::inside) fn sources(&mut self) -> &mut sequences::Sources {
        &mut self.assembly.sources
    }

    /// States that [`Expander::sources`] has all sources of the next frame, in order.
    pub(in crate::inside) fn has_read_sources(&mut self) {
        self.assembly.has_read();
    }

    /// Different codes of deflate that the last frame described.
    pub(in crate::inside) fn codes(&self) -> usize {
        self.codes.count
    }

    /// As [`Expander::expand`], from zstd blocks.
    ///
    /// # Errors
    /// [`FrameError`]; the content of `out` is then meaningless.
    pub(crate) fn expand_sequences(
        &mut self,
        residual: &[u8],
        plain: &[u8],
        sources: &[&[u8]],
        len: usize,
        work: &mut Work,
        out: &mut Vec<u8>,
    ) -> Result<(), FrameError> {
        self.assembly.expand(residual, plain, sources, len, work, out)
    }

    /// Writes `len` bytes of literals to the front of `out`, by the operations that `next` returns,
    /// from the residual and from `sources`, the content of the section's sources in order. Adds
    /// the work that it takes.
    ///
    /// # Errors
    /// [`FrameError`]; the content of `out` is then meaningless.
    pub(crate) fn expand(
        &mut self,
        mut next: impl FnMut() -> Result<Operation, FrameError>,
        residual: &[u8],
        sources: &[&[u8]],
        len: usize,
        work: &mut Work,
        out: &mut Vec<u8>,
    ) -> Result<(), FrameError> {
        out.resize(len + SLACK, 0);
        self.codes.clear();
        work.add(sources.len() as u64, STEP)?;
        let ends = sources.iter().scan(0, |end, source| {
            *end += source.len() as u64 * 8;
            Some(*end)
        });
        let mut state = State {
            kernels: self.kernels,
            ends: ends.collect(),
            codes: &mut self.codes,
            sources,
            residual: BitReader::new(residual, 0),
            writer: BitWriter::new(out),
            end: len as u64 * 8,
            target: None,
            source: None,
            source_at: 0,
            code_at: 0,
            alignment: Alignment::default(),
            work,
        };
        // Consecutive operations that wrote nothing.
        let mut idle = 0;
        loop {
            let before = state.writer.position();
            state.work.add(1, STEP)?;
            match next()? {
                Operation::Part { code, bits } => {
                    state.copy(bits)?;
                    state.target = Some(state.code(code, true)?);
                }
                Operation::Near { gap, skip, run } => {
                    state.gap(gap)?;
                    state.skip(skip)?;
                    state.run(run)?;
                }
                Operation::Jump { gap, code, distance, run } => {
                    state.gap(gap)?;
                    state.jump(code, distance)?;
                    state.run(run)?;
                }
                Operation::Moved { change, run } => {
                    state.moved(change)?;
                    state.run(run)?;
                }
                Operation::Bend { back, change, run } => {
                    state.alignment.bend(back, change);
                    state.run(run)?;
                }
                Operation::End => break,
            }
            idle = if state.writer.position() == before { idle + 1 } else { 0 };
            if idle > MAX_IDLE {
                return Err(Clause::Idle.into());
            }
        }
        let left = state.end.checked_sub(state.writer.position()).ok_or(Clause::TooLong)?;
        state.copy(left)?;
        let read = state.residual.position().div_ceil(8);
        if state.residual.is_past_end() {
            return Err(Clause::ResidualEnd.into());
        }
        if read != residual.len() as u64 {
            return Err(Clause::ResidualLeft.into());
        }
        out.truncate(len);
        Ok(())
    }
}

struct State<'a, 'o> {
    codes: &'a mut Codes,
    sources: &'a [&'a [u8]],
    /// End of each source, in bits of all sources.
    ends: Vec<u64>,
    residual: BitReader<'a>,
    writer: BitWriter<'o>,
    kernels: Kernels,
    /// Total bits of literals.
    end: u64,
    target: Option<Named>,
    /// The reader of a source, the first bit of that source among all, and the code.
    source: Option<(BitReader<'a>, u64, Named)>,
    /// Current position, in bits of all sources.
    source_at: u64,
    /// Position of the last code described in the sources.
    code_at: u64,
    alignment: Alignment,
    work: &'a mut Work,
}

impl<'a> State<'a, '_> {
    fn copy(&mut self, bits: u64) -> Result<(), FrameError> {
        if bits > self.end - self.writer.position().min(self.end) {
            return Err(Clause::TooLong.into());
        }
        if bits >= ALIGNED_BITS {
            self.residual.align((self.writer.position() % 8) as u32);
        }
        // There is room for them.
        copy_bits(&mut self.residual, &mut self.writer, bits)
            .then_some(())
            .ok_or_else(|| Clause::ResidualEnd.into())
    }

    /// The source that contains a bit, and the first bit of that source.
    fn source_of(&self, bit: u64) -> Result<(&'a [u8], u64), FrameError> {
        let nth = self.ends.partition_point(|&end| end <= bit);
        let source = *self.sources.get(nth).ok_or(Clause::SourceBit)?;
        Ok((source, self.ends[nth] - source.len() as u64 * 8))
    }

    fn code(&mut self, code: CodeAt, here: bool) -> Result<Named, FrameError> {
        // A description must end before the end of what is written, or of its source.
        let (mut reader, end) = match code {
            CodeAt::Fixed => return Ok(Named::Fixed),
            CodeAt::Known(back) => {
                let described = &self.codes.described;
                let known = (described.len() as u64).checked_sub(back.saturating_add(1));
                let known = described[known.ok_or(Clause::KnownCode)? as usize];
                return Ok(Named::Nth(usize::from(known)));
            }
            CodeAt::Here(back) if here => {
                let end = self.writer.position();
                let at = end.checked_sub(back).ok_or(Clause::Description)?;
                (BitReader::new(self.writer.written(), at), end)
            }
            CodeAt::Here(_) => return Err(Clause::CodeHere.into()),
            CodeAt::Source(bits) => {
                let at = self.code_at.checked_add_signed(bits).ok_or(Clause::SourceBit)?;
                let (source, start) = self.source_of(at)?;
                self.code_at = at;
                (BitReader::new(source, at - start), source.len() as u64 * 8)
            }
        };
        if self.codes.described.len() == MAX_CODES {
            let (value, limit) = (MAX_CODES as u64 + 1, MAX_CODES as u64);
            return Err(FrameError::TooLarge { field: "codes", value, limit });
        }
        self.work.add(1, DESCRIPTION)?;
        let lengths = Lengths::read(&mut reader).map_err(|_| Clause::Description)?;
        if reader.position() > end {
            return Err(Clause::Description.into());
        }
        self.codes.add(&lengths, self.work)
    }

    /// Copies tokens of the residual.
    fn gap(&mut self, tokens: u64) -> Result<(), FrameError> {
        self.work.add(tokens, TOKEN)?;
        let target = self.codes.get(self.target.ok_or(Clause::NoTarget)?);
        let (from, to) = (&mut self.residual, &mut self.writer);
        let is_copied = transcode(self.kernels, from, target, to, target, tokens);
        if is_copied {
            return Ok(());
        }
        Err(if from.is_past_end() { Clause::ResidualEnd } else { Clause::Token }.into())
    }

    /// Skips tokens of the source.
    fn skip(&mut self, tokens: u8) -> Result<(), FrameError> {
        self.work.add(tokens.into(), SINGLE)?;
        let (reader, start, code) = self.source.as_mut().ok_or(Clause::NoCode)?;
        let code = self.codes.get(*code);
        for _ in 0..tokens {
            let token = reader.token(code).map_err(|_| Clause::Token)?;
            self.alignment.advance(u64::from(token.len()));
        }
        self.source_at = *start + reader.position();
        if reader.is_past_end() { Err(Clause::SourceEnd.into()) } else { Ok(()) }
    }

    fn jump(&mut self, code: Option<CodeAt>, distance: i64) -> Result<(), FrameError> {
        let code = match (code, &self.source) {
            (Some(code), _) => self.code(code, false)?,
            (None, Some((_, _, code))) => *code,
            (None, None) => return Err(Clause::NoCode.into()),
        };
        let at = self.source_at.checked_add_signed(distance).ok_or(Clause::SourceBit)?;
        let (source, start) = self.source_of(at)?;
        self.source = Some((BitReader::new(source, at - start), start, code));
        self.source_at = at;
        Ok(())
    }

    fn run(&mut self, tokens: u64) -> Result<(), FrameError> {
        self.work.add(tokens, if self.alignment.has_bends() { SINGLE } else { TOKEN })?;
        let target = self.codes.get(self.target.ok_or(Clause::NoTarget)?);
        let (reader, start, code) = self.source.as_mut().ok_or(Clause::NoCode)?;
        let code = self.codes.get(*code);
        let mut left = tokens;
        if self.alignment.is_bent() {
            let (to, distances) = (&mut self.writer, &mut self.alignment.changing());
            let changed =
                transcode_changed(self.kernels, reader, code, to, target, left, distances);
            left = changed.ok_or(Clause::Token)?;
        }
        // Only how far bends are back counts, and these are out of reach: so what is left need not
        // be counted.
        let is_copied = transcode(self.kernels, reader, code, &mut self.writer, target, left);
        self.source_at = *start + reader.position();
        match is_copied {
            _ if reader.is_past_end() => Err(Clause::SourceEnd.into()),
            false => Err(Clause::Token.into()),
            true => Ok(()),
        }
    }

    fn moved(&mut self, change: i32) -> Result<(), FrameError> {
        self.work.add(1, SINGLE)?;
        let target = self.codes.get(self.target.ok_or(Clause::NoTarget)?);
        let (reader, _, code) = self.source.as_mut().ok_or(Clause::NoCode)?;
        let there = reader.token(self.codes.get(*code)).map_err(|_| Clause::Token)?;
        let here = self.alignment.expected(there).moved(change).ok_or(Clause::Distance)?;
        self.alignment.advance(u64::from(there.len()));
        if self.writer.token(here, target) { Ok(()) } else { Err(Clause::Token.into()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a frame that describes these codes takes. Each is the one that its name gives.
    fn describe(codes: &mut Codes, all: &[Lengths]) -> u64 {
        let mut work = Work::of(1 << 20);
        codes.clear();
        for lengths in all {
            let name = codes.add(lengths, &mut work).unwrap();
            assert!(codes.get(name).has(lengths));
        }
        assert!(codes.built.len() <= MAX_CODES && codes.memory() <= Codes::MEMORY);
        work.done()
    }

    #[test]
    fn codes_of_earlier_frames_are_not_built_again_and_cost_the_same() {
        let mut codes = Codes::default();
        let [a, b] = [1, 2].map(|literal| Lengths::of_two(literal, true));
        let both = [a.clone(), b.clone(), a.clone()];
        assert_eq!(describe(&mut codes, &both), 2 * CODE);
        assert_eq!(describe(&mut codes, &both), 2 * CODE);
        assert_eq!((codes.built.len(), codes.count), (2, 2));
        // No code: an error, in each frame.
        for _ in 0..2 {
            codes.clear();
            assert!(codes.add(&Lengths::of_two(3, false), &mut Work::of(1 << 20)).is_err());
        }
        assert_eq!(describe(&mut codes, &both), 2 * CODE);
    }

    #[test]
    fn the_code_that_was_described_least_recently_is_replaced() {
        let mut codes = Codes::default();
        let code = |literal: usize| Lengths::of_two(literal as u8, true);
        for first in 0..256 {
            // The first of all in each frame, too, so it stays.
            let some: Vec<Lengths> = (first..first + 7).map(|nth| code(nth % 256)).collect();
            assert_eq!(describe(&mut codes, &[&[code(0)][..], &some].concat()), {
                let has_first = (first..first + 7).any(|nth| nth % 256 == 0);
                (7 + u64::from(!has_first)) * CODE
            });
        }
        assert_eq!(codes.built.len(), MAX_CODES);
        assert!(codes.built[0].has(&code(0)));
        let all: Vec<Lengths> = (0..MAX_CODES).map(code).collect();
        assert_eq!(describe(&mut codes, &all), MAX_CODES as u64 * CODE);
    }
}
