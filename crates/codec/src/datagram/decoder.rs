//! Frames in datagrams to content.

use super::frame::{DatagramView, Literals, MatchView};
use super::window::{REMEMBERED, Window};
use crate::decoder::{COPY_SLACK, copy, copy_literals, repeat};
use crate::entropy::{ColumnBuffers, FrozenContext, FrozenReader};
use crate::error::FrameError;
use crate::format::ChecksumSeed;
use crate::log::{Log, Width};
use crate::matcher::Match;
use crate::ranges::RangeSet;
use crate::reach::most_ranges_memory;
use oncewire_kernels::Kernels;
use std::ops::Range;

/// The result of decoding a frame from a datagram. A frame that lacks content of the log is not an
/// error; only a corrupt one is.
#[derive(Debug, PartialEq, Eq)]
pub enum DatagramDecoded<'a> {
    /// The frame's content.
    Content {
        /// Where it lies in the log; `None` if it does not belong there, or if the datagram is too
        /// old to say.
        offset: Option<u64>,
        /// Whether the log holds it now. It does not if it came too late, or if something was there
        /// already.
        stored: bool,
        /// The bytes: verified if the frame depends on the log, otherwise as they came.
        bytes: &'a [u8],
    },
    /// The frame refers to content that the log does not hold: these ranges. The log is unchanged;
    /// decode the frame again when more has arrived, or ask for the content.
    Missing {
        /// Where the frame's content would lie.
        offset: u64,
        /// What is missing, in ascending order: all of it, or at least 64 ranges.
        ranges: &'a [Range<u64>],
    },
}

/// Decodes frames of a [`DatagramEncoder`](super::DatagramEncoder), whichever arrive, in any order.
///
/// Made by [`DecoderBuilder::build_datagrams`](crate::DecoderBuilder::build_datagrams). A frame
/// either gives the content that was encoded, or says which ranges are missing. A datagram that was
/// altered on the way must not get here: frames without matches and context have no checksum.
pub struct DatagramDecoder {
    window: Window,
    seed: ChecksumSeed,
    max_block: usize,
    width: Width,
    matches: Vec<Match>,
    missing: RangeSet,
    /// The last content with matches, with some room after it.
    content: Vec<u8>,
    kernels: Kernels,
    /// By their numbers.
    contexts: Vec<(u8, Box<FrozenReader>)>,
    columns: ColumnBuffers,
}

impl DatagramDecoder {
    pub(crate) fn new(
        log: Log,
        max_block: usize,
        seed: ChecksumSeed,
        kernels: Kernels,
    ) -> DatagramDecoder {
        DatagramDecoder {
            width: Width::of(log.geometry()),
            window: Window::new(log),
            seed,
            max_block,
            matches: Vec::new(),
            missing: RangeSet::default(),
            content: Vec::new(),
            kernels,
            contexts: Vec::new(),
            columns: ColumnBuffers::default(),
        }
    }

    /// Adds or replaces the frozen context of this number; or removes it, with `None`.
    pub fn set_context(&mut self, number: u8, context: Option<&FrozenContext>) {
        self.contexts.retain(|&(other, _)| other != number);
        if let Some(context) = context {
            let reader = FrozenReader::new(self.kernels, context);
            self.contexts.push((number, Box::new(reader)));
        }
    }

    /// Decodes `frame`, from the datagram with the number `counter`. Frames are written in the order
    /// of these numbers; several may be in one datagram.
    ///
    /// # Errors
    /// [`FrameError`] if the frame is corrupt or breaks the rules; its content was not stored.
    /// [`FrameError::Checksum`] says that the log differs from the encoder's: the encoder must not
    /// refer to these ranges again ([`DatagramDecoder::sources`]).
    pub fn decode<'a>(
        &'a mut self,
        counter: u64,
        frame: &'a [u8],
    ) -> Result<DatagramDecoded<'a>, FrameError> {
        self.matches.clear();
        let view = DatagramView::parse(frame)?;
        let most = self.max_block;
        if view.literals.len() > most as u64 {
            let (value, limit) = (view.literals.len(), most as u64);
            return Err(FrameError::TooLarge { field: "content", value, limit });
        }
        let offset = view.offset.map(|offset| self.window.restore(counter, offset));
        match (view.checksum, offset, view.literals) {
            (None, None | Some(None), Literals::Raw(bytes)) => {
                Ok(DatagramDecoded::Content { offset: None, stored: false, bytes })
            }
            (None, Some(Some(offset)), Literals::Raw(bytes)) => {
                self.window.note(counter, offset, bytes.len())?;
                let stored = self.window.store(offset, bytes);
                Ok(DatagramDecoded::Content { offset: Some(offset), stored, bytes })
            }
            (_, Some(None), _) => Err(FrameError::Field {
                field: "offset",
                value: counter,
                allowed: "all 8 bytes in a datagram as old as this",
            }),
            (checksum, offset, literals) => {
                let sum = checksum.unwrap_or_default();
                self.decode_summed(counter, offset.flatten(), view.matches, literals, sum)
            }
        }
    }

    /// Decodes a frame with matches, which then has an offset, or with a context, or both.
    fn decode_summed<'a>(
        &'a mut self,
        counter: u64,
        at: Option<u64>,
        view: Option<MatchView<'a>>,
        literals: Literals<'a>,
        checksum: u64,
    ) -> Result<DatagramDecoded<'a>, FrameError> {
        let DatagramDecoder { window, matches, missing, content, contexts, columns, .. } = self;
        // At most the most content.
        let count = literals.len() as usize;
        let offset = at.unwrap_or(0);
        let len = match view {
            Some(view) => view.read(offset, count, self.max_block, self.width, matches)?,
            None => count,
        };
        if at.is_some() {
            window.note(counter, offset, len)?;
        }
        missing.clear();
        window.missing(offset, len, matches, missing)?;
        if !missing.as_slice().is_empty() {
            return Ok(DatagramDecoded::Missing { offset, ranges: missing.as_slice() });
        }
        let literals = match literals {
            Literals::Raw(literals) => literals,
            Literals::Coded { context, section, .. } => {
                let reader = contexts.iter_mut().find(|(number, _)| *number == context);
                let (_, reader) = reader.ok_or(FrameError::Field {
                    field: "context",
                    value: context.into(),
                    allowed: "one that the decoder has",
                })?;
                reader.read(section, count, columns)?
            }
        };
        let bytes = if matches.is_empty() {
            literals
        } else {
            content.resize(self.max_block + COPY_SLACK, 0);
            assemble(&window.log, offset, matches, literals, content, len);
            &content[..len]
        };
        if self.seed.checksum(offset, 0, bytes) != checksum {
            return Err(FrameError::Checksum { offset, len });
        }
        let stored = at.is_some() && window.store(offset, bytes);
        Ok(DatagramDecoded::Content { offset: at, stored, bytes })
    }

    /// The ranges of the log that the last frame referred to, as far as it was read.
    pub fn sources(&self) -> impl Iterator<Item = Range<u64>> {
        self.matches.iter().map(|found| found.source..found.source + u64::from(found.len))
    }

    /// Content of the log in `range`, if all of it is held and lies in one generation.
    pub fn content(&self, range: Range<u64>) -> Option<&[u8]> {
        let is_there = !range.is_empty()
            && self.window.holds(&range)
            && self.window.log.geometry().in_one_generation(&range);
        is_there.then(|| {
            let len = (range.end - range.start) as usize;
            &self.window.log.read_from(range.start)[..len]
        })
    }

    /// The ranges of content that the log holds, in ascending order.
    pub fn held(&self) -> &[Range<u64>] {
        self.window.held()
    }

    /// End of the highest content that was stored.
    pub fn end(&self) -> u64 {
        self.window.log.end()
    }

    /// Bytes of memory in use: the whole log, although the system commits its pages as they are
    /// touched, and all else.
    pub fn memory(&self) -> usize {
        self.window.log.memory()
            + self.window.memory()
            + self.matches.capacity() * size_of::<Match>()
            + self.missing.memory()
            + self.content.capacity()
            + self.columns.memory()
            + self.contexts.capacity() * size_of::<(u8, Box<FrozenReader>)>()
            + self.contexts.iter().map(|(_, reader)| reader.memory()).sum::<usize>()
    }

    /// Upper bound of what each frozen context adds to [`DatagramDecoder::memory`], in bytes.
    pub const CONTEXT_MEMORY: usize = FrozenReader::MOST + 64;

    /// Upper bound of [`DatagramDecoder::memory`] for a log of `cache` bytes and content of up to
    /// `max_block` bytes a frame, without frozen contexts, whatever arrives. A frame may have as
    /// many matches as bytes of content, and each may lack a range.
    pub(crate) fn most_memory(cache: u64, max_block: usize) -> usize {
        usize::try_from(cache)
            .unwrap_or(usize::MAX)
            .saturating_add(most_ranges_memory(cache))
            .saturating_add(REMEMBERED as usize * 16)
            .saturating_add(2 * max_block * (size_of::<Match>() + size_of::<Range<u64>>() + 1))
            // Columns of short matches, and of literals.
            .saturating_add(2 * (5 * max_block / 4 + max_block))
            .saturating_add(4096)
    }
}

/// Builds the `len` bytes at `offset`. Every source is held, and below its match.
fn assemble(
    log: &Log,
    offset: u64,
    matches: &[Match],
    mut literals: &[u8],
    content: &mut [u8],
    len: usize,
) {
    let mut done = 0;
    for found in matches {
        let at = found.at as usize;
        literals = copy_literals(content, done..at, literals);
        if found.source < offset {
            copy(content, at..found.end(), log.read_from(found.source));
        } else {
            repeat(content, (found.source - offset) as usize, at, found.len as usize);
        }
        done = found.end();
    }
    copy_literals(content, done..len, literals);
}
