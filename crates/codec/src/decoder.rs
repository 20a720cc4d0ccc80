//! Frames to blocks.

mod assembler;
mod reader;

use assembler::MAX_HELD_RANGES;
pub(crate) use assembler::{Assembler, COPY_SLACK, Place, copy, copy_literals, repeat};
pub(crate) use reader::{FrameReader, most_inside};

use crate::encoder::Recalled;
use crate::entropy::{ColumnBuffers, NewCodes, ReadContext};
use crate::error::FrameError;
use crate::format::{self, ChecksumSeed, Descriptors, FrameView, Head, LiteralCoding, Scan};
use crate::inside::Section;
use crate::limits::MAX_BLOCK;
use crate::log::Width;
use crate::matcher::Match;
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

    /// Both halves: what reads frames, and what puts blocks together.
    pub(crate) fn into_halves(self) -> (FrameReader, Assembler) {
        (self.reader, self.assembler)
    }

    /// Decodes the frame at the front of `input`.
    ///
    /// # Errors
    /// [`FrameError`] if the frame is corrupt or breaks the rules. Nothing of it entered the log,
    /// which may have lost what the block would have overwritten ([`Decoder::held`]): content that
    /// no frame refers to at this place, unless its block is shorter by more than the span.
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
        let mut codes = NewCodes::of(view.block_len);
        if view.body.descriptors.uses_context() {
            self.reader.read_coded(view, &mut codes, offset, &mut self.matches)?;
        }
        // Matches are disjoint and inside the block, so they cannot sum to more than it.
        let matched: usize = self.matches.iter().map(|found| found.len as usize).sum();
        let expected = view.block_len - matched;
        let literals = match transcoded {
            Some(section) => {
                let contents = self.assembler.contents(&self.sources);
                let reader = &mut self.reader;
                reader.expand(
                    view,
                    &mut codes,
                    &section,
                    &contents,
                    expected,
                    &mut self.literals,
                )?;
                &self.literals[..]
            }
            None => self.reader.read_literals(view, &mut codes, expected, &mut self.literals)?,
        };
        let place = self.assembler.place(view, offset);
        self.assembler.assemble(place, &self.matches, literals)?;
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

    /// Adds content to the log again that both ends kept elsewhere, where the encoder has put it
    /// ([`crate::Encoder::recall`]): as a literal frame would.
    ///
    /// # Errors
    /// As [`Decoder::decode`]: [`FrameError::Checksum`] if it is not the content that the encoder had.
    pub fn recall(&mut self, place: Recalled, content: &[u8]) -> Result<(), FrameError> {
        let Recalled { offset, padding, checksum } = place;
        let head = Head {
            width: None,
            literals: LiteralCoding::Raw,
            descriptors: Descriptors::None,
            explicit: Some((offset, padding)),
            fresh: false,
            context: 0,
            block_len: content.len(),
            offset,
            dependencies: offset..offset,
            descriptors_len: 0,
            literals_len: content.len(),
        };
        let mut frame = Vec::with_capacity(content.len() + 64);
        format::write_head(&head, &mut Vec::new(), &mut frame);
        frame.extend_from_slice(content);
        frame.extend_from_slice(&checksum.to_le_bytes());
        self.decode(&frame).map(|_| ())
    }

    /// Starts a new epoch with the log's content below [`Decoder::acknowledged`], where the next
    /// block goes. Forgets content above, and every entropy context waits for a fresh frame.
    pub fn rewind(&mut self, seed: ChecksumSeed) {
        self.assembler.rewind(seed);
        self.reader.contexts.iter_mut().for_each(|context| context.in_step = false);
    }

    /// As [`Decoder::rewind`], to `offset`, to which the encoder has rewound
    /// ([`crate::Encoder::rewind_to`]): an end of a block, not above [`Decoder::acknowledged`].
    /// Returns whether content below it is left; if not, nothing was changed. What the forgotten
    /// blocks have overwritten stays lost ([`Decoder::held`]).
    pub fn rewind_to(&mut self, offset: u64, seed: ChecksumSeed) -> bool {
        let possible = self.assembler.rewind_to(offset, seed);
        if possible {
            self.reader.contexts.iter_mut().for_each(|context| context.in_step = false);
        }
        possible
    }

    /// The log begins at `offset`, where a decoder before this one has ended, instead of at 0, as
    /// that of the encoder does ([`crate::Encoder::begin_at`]). Returns `false` after the first
    /// block, or without a log in memory; then nothing was changed.
    #[must_use]
    pub fn begin_at(&mut self, offset: u64) -> bool {
        self.assembler.begin_at(offset)
    }

    /// Puts content back that a decoder before this one had in its log at `offset`: after a restart,
    /// from the lowest offset to the highest, without gaps but padding, before the first frame.
    /// Pieces need not be blocks, are at most [`crate::DEFAULT_BLOCK`] bytes long, and must not cross
    /// the end of a generation. Returns `false` if this one does not follow the one before; then
    /// nothing was changed. Nothing verifies the content: whoever kept it must have.
    #[must_use]
    pub fn restore(&mut self, offset: u64, content: &[u8]) -> bool {
        self.assembler.restore(offset, content)
    }

    /// The bytes of `range` of the log; `None` unless all of it is held and lies in one generation.
    pub fn content(&self, range: Range<u64>) -> Option<&[u8]> {
        let assembler = &self.assembler;
        let is_whole = assembler.held.contains(&range)
            && assembler.log.is_memory()
            && assembler.geometry().in_one_generation(&range);
        is_whole.then(|| assembler.log.read(range))
    }

    /// Lowest offset from which on the log holds everything up to [`Decoder::acknowledged`].
    pub fn held_from(&self) -> u64 {
        self.assembler.held_from()
    }

    /// The last block decoded, until the next attempt.
    pub fn last_block(&self) -> &[u8] {
        self.assembler.content()
    }

    /// Checksum of the last block decoded.
    pub fn last_checksum(&self) -> u64 {
        self.assembler.checksum
    }

    /// What the last block decoded was copied from, ascending and disjoint, until the next attempt.
    pub fn last_matches(&self) -> &[Match] {
        &self.matches
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
        + ColumnBuffers::most(max_block)
}

const _: () = assert!(MAX_BLOCK <= u32::MAX as usize);

#[cfg(test)]
mod hostile;
#[cfg(test)]
mod tests;
