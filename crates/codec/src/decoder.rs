//! Frames to blocks.

mod reader;

pub(crate) use reader::{FrameReader, most_inside};

use crate::entropy::{ColumnBuffers, ReadContext};
use crate::error::FrameError;
use crate::format::{self, ChecksumSeed, Descriptors, FrameView, LiteralCoding, Scan};
use crate::inside::Section;
use crate::limits::MAX_BLOCK;
use crate::log::{Geometry, Log, Width};
use crate::matcher::Match;
use crate::policy::CachePolicy;
use crate::ranges::RangeSet;
use std::ops::Range;

/// The result of decoding. A frame that must wait is not an error; only a corrupt frame is.
#[derive(Debug, PartialEq, Eq)]
pub enum Decoded<'a> {
    /// The next block, verified, and now in the log.
    Block {
        /// Its offset in the log.
        offset: u64,
        /// Its bytes.
        content: &'a [u8],
        /// Bytes of the input that its frame occupied.
        consumed: usize,
    },
    /// The frame is not complete: at least this many more bytes are needed. Nothing was changed.
    NeedMore(usize),
    /// The frame refers to content that is not in the log yet: exactly these ranges. Nothing was
    /// changed; decode the frame again once they have arrived, or have the encoder repeat them
    /// ([`crate::Encoder::repair`]).
    Missing(&'a [Range<u64>]),
}

/// Decodes frames into a log that equals the encoder's.
///
/// See [`crate::Encoder`] for an example.
pub struct Decoder {
    reader: FrameReader,
    assembler: Assembler,
    max_block: usize,
    matches: Vec<Match>,
    literals: Vec<u8>,
    /// What of the log transcoded literals need.
    sources: Vec<Match>,
    missing: RangeSet,
    /// Of positions in frames that have a fixed one.
    width: Width,
    /// Whether transcoded literals are accepted.
    inside: bool,
}

impl Decoder {
    pub(crate) fn new(
        reader: FrameReader,
        assembler: Assembler,
        max_block: usize,
        inside: bool,
    ) -> Decoder {
        let width = Width::of(assembler.geometry());
        Decoder {
            reader,
            assembler,
            max_block,
            matches: Vec::new(),
            literals: Vec::new(),
            sources: Vec::new(),
            missing: RangeSet::default(),
            width,
            inside,
        }
    }

    /// Decodes the frame at the front of `input`.
    ///
    /// # Errors
    /// [`FrameError`] if the frame is corrupt or breaks the rules. Nothing of it entered the log.
    /// If it used an entropy context, that context accepts only a fresh frame from then on, except
    /// after [`FrameError::Offset`], which changes nothing.
    pub fn decode(&mut self, input: &[u8]) -> Result<Decoded<'_>, FrameError> {
        let view = match FrameView::scan(input, self.max_block)? {
            Scan::NeedMore(more) => return Ok(Decoded::NeedMore(more)),
            Scan::Frame(view) => view,
        };
        // Which context the frame means is not known if its fields are not of this log.
        if let Some(width) = view.width.filter(|&width| width != self.width) {
            return Err(format::bad_width(width.bits()));
        }
        match self.decode_view(&view) {
            Ok(Some(offset)) => Ok(Decoded::Block {
                offset,
                content: self.assembler.content(),
                consumed: view.frame_len,
            }),
            Ok(None) => Ok(Decoded::Missing(self.missing.as_slice())),
            // A frame out of place (a duplicate, perhaps) does not affect its context.
            Err(error @ FrameError::Offset { .. }) => Err(error),
            Err(error) => {
                self.reader.lose_step(&view);
                Err(error)
            }
        }
    }

    /// Decodes into the assembler and returns the block's offset, or `None` if ranges are missing:
    /// then they are in `self.missing`, and nothing else was changed.
    fn decode_view(&mut self, view: &FrameView<'_>) -> Result<Option<u64>, FrameError> {
        let offset = self.assembler.offset_of(view)?;
        self.matches.clear();
        self.sources.clear();
        let section = view.body.literal_section;
        let transcoded = match view.body.literals {
            LiteralCoding::Transcoded if !self.inside => {
                return Err(FrameError::Field {
                    field: "literal coding",
                    value: 3,
                    allowed: "0, 1 or 2 here",
                });
            }
            LiteralCoding::Transcoded => {
                let sources = &mut self.sources;
                let section = Section::read(section, offset, view.block_len, view.width, sources)?;
                self.missing.clear();
                let (sources, missing) = (&self.sources, &mut self.missing);
                self.assembler.missing(offset, view.block_len, sources, missing)?;
                if !self.missing.as_slice().is_empty() {
                    return Ok(None);
                }
                Some(section)
            }
            _ => None,
        };
        match view.body.descriptors {
            Descriptors::None => {}
            Descriptors::Plain => {
                format::read_plain(
                    view.body.descriptor_section,
                    offset,
                    view.block_len,
                    view.width,
                    &mut self.matches,
                )?;
                if self.is_missing(view, offset)? {
                    return Ok(None);
                }
            }
            Descriptors::Coded | Descriptors::Columns => {
                let holds_dependencies = view
                    .matches_depend_on(offset)
                    .is_some_and(|range| self.assembler.held.contains(&range));
                if !holds_dependencies {
                    // Something of the range that the frame names is not here. The descriptors say
                    // whether it is needed; if it is, the context must be as if the frame had not
                    // been looked at.
                    self.reader.peek_coded(view, offset, &mut self.matches)?;
                    if self.is_missing(view, offset)? {
                        return Ok(None);
                    }
                    self.matches.clear();
                }
            }
        }
        self.reader.begin(view)?;
        if view.body.descriptors.uses_context() {
            self.reader.read_coded(view, offset, &mut self.matches)?;
        }
        // Matches are disjoint and inside the block, so they cannot sum to more than it.
        let matched: usize = self.matches.iter().map(|found| found.len as usize).sum();
        let expected = view.block_len - matched;
        let literals = match transcoded {
            Some(section) => {
                let contents = self.assembler.contents(&self.sources);
                self.reader.expand(view, &section, &contents, expected, &mut self.literals)?;
                &self.literals[..]
            }
            None => self.reader.read_literals(view, expected, &mut self.literals)?,
        };
        self.assembler.assemble(view, offset, &self.matches, literals)?;
        Ok(Some(offset))
    }

    /// Whether sources of `self.matches` are missing; collects them in `self.missing`.
    fn is_missing(&mut self, view: &FrameView<'_>, offset: u64) -> Result<bool, FrameError> {
        self.missing.clear();
        self.assembler.missing(offset, view.block_len, &self.matches, &mut self.missing)?;
        Ok(!self.missing.as_slice().is_empty())
    }

    /// Adds content to the log that the encoder got by other means, with [`crate::Encoder::prime`].
    pub fn prime(&mut self, content: &[u8]) {
        self.assembler.prime(content);
    }

    /// Starts a new epoch with the log's content below [`Decoder::acknowledged`], where the next
    /// block goes. Forgets content above, and every entropy context waits for a fresh frame.
    pub fn rewind(&mut self, seed: ChecksumSeed) {
        self.assembler.rewind(seed);
        self.reader.contexts.iter_mut().for_each(|context| context.in_step = false);
    }

    /// The last block decoded, until the next attempt.
    pub fn last_block(&self) -> &[u8] {
        self.assembler.content()
    }

    /// Checksum of the last block decoded.
    pub fn last_checksum(&self) -> u64 {
        self.assembler.checksum
    }

    /// End of the contiguous content: everything below has been decoded.
    pub fn acknowledged(&self) -> u64 {
        self.assembler.low
    }

    /// The ranges of content that the log holds now, in ascending order, padding included.
    pub fn held(&self) -> &[Range<u64>] {
        self.assembler.held.as_slice()
    }

    /// Memory allocated so far: the whole log, although the system commits its pages as they are
    /// touched, and the entropy contexts used so far. Never more than
    /// [`DecoderBuilder::memory`](crate::DecoderBuilder::memory) says.
    pub fn memory(&self) -> DecoderMemory {
        DecoderMemory {
            log: self.assembler.log.memory(),
            contexts: self.reader.contexts.iter().map(ReadContext::allocated).sum(),
            inside: self.reader.inside_memory() + self.sources.capacity() * size_of::<Match>(),
            buffers: self.assembler.buffers()
                + self.literals.capacity()
                + self.reader.buffers()
                + self.matches.capacity() * size_of::<Match>()
                + self.missing.memory(),
        }
    }

    /// Touches the memory of the log, so that page faults do not count in measurements.
    pub fn prefault(&mut self) {
        self.assembler.log.prefault();
    }

    /// Work for transcoded literals so far, also of frames that were rejected, in the units of
    /// `docs/FORMAT.md`, "Work". A frame may take 16 for each byte of its block, and 1,024.
    pub fn work(&self) -> u64 {
        self.reader.work
    }
}

/// Memory of a decoder in bytes, by part: in use ([`Decoder::memory`]) or at most
/// ([`DecoderBuilder::memory`](crate::DecoderBuilder::memory)).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DecoderMemory {
    /// The content log.
    pub log: usize,
    /// The entropy contexts.
    pub contexts: usize,
    /// Codes and models of transcoded literals.
    pub inside: usize,
    /// Working buffers for one block, and the list of ranges that the log holds.
    pub buffers: usize,
}

impl DecoderMemory {
    /// Sum of all parts.
    pub fn total(&self) -> usize {
        // Saturating, since a builder may be asked about sizes that it would refuse.
        self.log
            .saturating_add(self.contexts)
            .saturating_add(self.inside)
            .saturating_add(self.buffers)
    }
}

/// Upper bound in bytes of a decoder's buffers, whatever its input. Buffers grow by doubling, so
/// each may be twice as large as its content: a block, the kept part of it, its literals, and a
/// match for each of its bytes; for a span, the ranges held and those missing for one frame, each
/// of at least one byte.
pub(crate) fn most_decoder_buffers(max_block: usize, span: u64) -> usize {
    let ranges = usize::try_from(span).unwrap_or(usize::MAX).min(MAX_HELD_RANGES) + 64;
    2 * (3 * (max_block + COPY_SLACK) + max_block * size_of::<Match>())
        + 2 * (ranges + ranges.min(max_block)) * size_of::<Range<u64>>()
        + ColumnBuffers::MOST
}

/// The second half of a decoder: the log. Turns matches and literals into verified blocks.
pub(crate) struct Assembler {
    log: Log,
    seed: ChecksumSeed,
    /// Content and padding present, within one capacity of the end.
    held: RangeSet,
    /// The padding among it, which nothing may refer to. At most a few ranges, one per generation.
    padding: RangeSet,
    /// End of the contiguous content.
    low: u64,
    /// The current block, with some room after it.
    block: Vec<u8>,
    block_len: usize,
    /// Its checksum.
    checksum: u64,
    max_block: usize,
    pub(crate) policy: CachePolicy,
    /// The bytes of a block that enter the log, if not all of it.
    kept: Vec<u8>,
}

impl Assembler {
    pub(crate) fn new(log: Log, max_block: usize, seed: ChecksumSeed) -> Assembler {
        Assembler {
            log,
            seed,
            held: RangeSet::default(),
            padding: RangeSet::default(),
            low: 0,
            block: Vec::new(),
            block_len: 0,
            checksum: 0,
            max_block,
            policy: CachePolicy::All,
            kept: Vec::new(),
        }
    }

    fn geometry(&self) -> Geometry {
        self.log.geometry()
    }

    fn content(&self) -> &[u8] {
        &self.block[..self.block_len]
    }

    /// Where a frame's block goes.
    ///
    /// # Errors
    /// [`FrameError::Offset`] if that is outside what is acceptable now, overlaps content that is
    /// held, or crosses a generation.
    fn offset_of(&self, view: &FrameView<'_>) -> Result<u64, FrameError> {
        let geometry = self.geometry();
        let next = geometry.place(self.low, view.block_len);
        let Some((offset, padding)) = view.explicit else {
            // In order, with nothing held beyond: always acceptable.
            let free = !self.held.overlaps(&(self.low..next + view.block_len as u64));
            return if free { Ok(next) } else { Err(self.bad_offset(next)) };
        };
        let end = offset + view.block_len as u64;
        // The next block may be larger than the span. A block that starts a generation is the next
        // only if its padding says that the generation before ended at `low`.
        let is_next = offset == next && offset - padding == self.low;
        let in_window =
            is_next || (offset >= self.low && end <= self.low.saturating_add(geometry.span()));
        let in_generation = geometry.place(offset, view.block_len) == offset;
        // Padding ends a generation, so what follows it starts one; and it is shorter than a block,
        // which would have fitted otherwise.
        let padding_ok = padding == 0
            || (geometry.generation_start(offset) == offset
                && padding < (self.max_block as u64).min(geometry.capacity()));
        let covered = offset - padding..end;
        // The lowest frame adds no ranges and must always be accepted.
        let room = self.held.as_slice().len() < MAX_HELD_RANGES
            || covered.start == self.low
            || self.held.overlaps(&(covered.start.saturating_sub(1)..end + 1));
        if in_window && in_generation && padding_ok && room && !self.held.overlaps(&covered) {
            Ok(offset)
        } else {
            Err(self.bad_offset(offset))
        }
    }

    fn bad_offset(&self, offset: u64) -> FrameError {
        FrameError::Offset {
            offset,
            low: self.low,
            high: self.low.saturating_add(self.geometry().span()),
        }
    }

    /// Collects the parts of the matches' sources that are not held. A source that no frame at
    /// `offset` may refer to is an error.
    fn missing(
        &self,
        offset: u64,
        block_len: usize,
        matches: &[Match],
        missing: &mut RangeSet,
    ) -> Result<(), FrameError> {
        for found in matches {
            if let Some(source) = self.check_source(offset, block_len, found)? {
                self.held.holes_in(&source, missing);
            }
        }
        Ok(())
    }

    /// The content that sources refer to, which is held.
    fn contents(&self, sources: &[Match]) -> Vec<&[u8]> {
        sources
            .iter()
            .map(|source| self.log.read(source.source..source.source + u64::from(source.len)))
            .collect()
    }

    /// The log range that a match refers to, or `None` if it lies in the block itself.
    fn check_source(
        &self,
        offset: u64,
        block_len: usize,
        found: &Match,
    ) -> Result<Option<Range<u64>>, FrameError> {
        let (source, len) = (found.source, u64::from(found.len));
        if source >= offset {
            // Below its own position, as the descriptors guarantee.
            return Ok(None);
        }
        let range = source..source + len;
        let allowed = source >= self.geometry().floor(offset, block_len)
            && range.end <= offset
            && self.geometry().in_one_generation(&range)
            && !self.padding.overlaps(&range);
        if allowed {
            Ok(Some(range))
        } else {
            Err(FrameError::Reference { source_offset: source, len })
        }
    }

    /// Builds the block at `offset`, verifies it, and writes it to the log. On error the log is as
    /// before.
    fn assemble(
        &mut self,
        view: &FrameView<'_>,
        offset: u64,
        matches: &[Match],
        mut literals: &[u8],
    ) -> Result<(), FrameError> {
        let (block_len, checksum) = (view.block_len, view.checksum);
        // Built in a separate buffer: an unverified byte never enters the log.
        self.block.resize(self.max_block + COPY_SLACK, 0);
        self.block_len = block_len;
        let mut done = 0;
        for (i, found) in matches.iter().enumerate() {
            if let Some(soon) = matches.get(i + PREFETCH_AHEAD) {
                self.log.prefetch(soon.source);
            }
            let at = found.at as usize;
            literals = copy_literals(&mut self.block, done..at, literals);
            match self.check_source(offset, block_len, found)? {
                Some(source) if self.held.contains(&source) => {
                    copy(&mut self.block, at..found.end(), self.log.read_from(source.start));
                }
                Some(source) => {
                    let len = source.end - source.start;
                    return Err(FrameError::Reference { source_offset: source.start, len });
                }
                None => repeat(
                    &mut self.block,
                    (found.source - offset) as usize,
                    at,
                    found.len as usize,
                ),
            }
            done = found.end();
        }
        copy_literals(&mut self.block, done..block_len, literals);
        let padding = view.explicit.map_or(offset - self.low, |(_, padding)| padding);
        if self.seed.checksum(offset, padding, self.content()) != checksum {
            return Err(FrameError::Checksum { offset, len: block_len });
        }
        self.checksum = checksum;
        self.take(offset, padding, matches);
        Ok(())
    }

    fn rewind(&mut self, seed: ChecksumSeed) {
        self.seed = seed;
        self.held.remove_from(self.low);
        self.padding.remove_from(self.low);
    }

    /// Writes what the policy keeps of `self.block` to the log at `offset`.
    fn take(&mut self, offset: u64, padding: u64, matches: &[Match]) {
        let mut content = &self.block[..self.block_len];
        if self.policy != CachePolicy::All {
            self.kept.clear();
            self.policy.keep(content, matches, &mut self.kept);
            content = &self.kept;
        }
        self.log.write(offset, content);
        let end = offset + content.len() as u64;
        self.held.insert(offset - padding..end);
        if padding > 0 {
            self.padding.insert(offset - padding..offset);
        }
        // Before anything is forgotten: a block and its padding may fill the ring.
        self.low = self.held.contiguous_from(self.low);
        // The ring has overwritten these.
        let floor = self.log.end().saturating_sub(self.geometry().capacity());
        self.held.remove_below(floor);
        self.padding.remove_below(floor);
    }

    fn prime(&mut self, content: &[u8]) {
        for block in content.chunks(self.max_block) {
            self.block.clear();
            self.block.extend_from_slice(block);
            self.block_len = block.len();
            let offset = self.geometry().place(self.low, block.len());
            self.take(offset, offset - self.low, &[]);
        }
    }

    fn buffers(&self) -> usize {
        self.block.capacity() + self.kept.capacity() + self.held.memory() + self.padding.memory()
    }
}

/// Most disjoint ranges that a log may hold while frames arrive out of order. They take 16 bytes
/// each; the limit stops a peer that sends tiny blocks far apart.
const MAX_HELD_RANGES: usize = 1 << 16;
/// Bytes that [`copy`] moves at once, whatever the length. The block's buffer has this much room at
/// its end.
const COPY_SLACK: usize = 32;
/// Number of matches whose source is prefetched.
const PREFETCH_AHEAD: usize = 4;

/// Copies the front of `from` to the range `to` of `block`.
///
/// Most matches and runs of literals are short. Copying a fixed number of bytes and letting the
/// next copy overwrite the excess is several times faster than copying the exact length.
#[inline(always)]
fn copy(block: &mut [u8], to: Range<usize>, from: &[u8]) {
    if to.len() <= COPY_SLACK
        && let (Some(to), Some(from)) =
            (block[to.start..].first_chunk_mut::<COPY_SLACK>(), from.first_chunk())
    {
        *to = *from;
    } else {
        let len = to.len();
        block[to].copy_from_slice(&from[..len]);
    }
}

/// Copies as many literals as `to` is long, and returns the rest.
#[inline(always)]
fn copy_literals<'l>(block: &mut [u8], to: Range<usize>, literals: &'l [u8]) -> &'l [u8] {
    let len = to.len();
    copy(block, to, literals);
    // The frame reader made sure that there are as many as the matches leave room for.
    &literals[len..]
}

/// Copies `len` bytes inside the block from `from` to `to`, which may overlap: then the bytes
/// repeat.
fn repeat(block: &mut [u8], from: usize, to: usize, len: usize) {
    debug_assert!(from < to && to + len <= block.len());
    // Each step copies all that stands since `from`, a whole number of periods, so the stretch
    // doubles.
    let mut done = 0;
    while done < len {
        let step = (to + done - from).min(len - done);
        block.copy_within(from..from + step, to + done);
        done += step;
    }
}

const _: () = assert!(MAX_BLOCK <= u32::MAX as usize);

#[cfg(test)]
mod hostile;
#[cfg(test)]
mod tests;
