//! Frames in datagrams to content.

use super::frame::{DatagramView, MatchView};
use super::window::{REMEMBERED, Window};
use crate::decoder::{COPY_SLACK, copy, copy_literals, repeat};
use crate::error::FrameError;
use crate::format::ChecksumSeed;
use crate::log::{Log, Width};
use crate::matcher::Match;
use crate::ranges::RangeSet;
use crate::reach::most_ranges_memory;
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
/// altered on the way must not get here: frames without matches have no checksum.
pub struct DatagramDecoder {
    window: Window,
    seed: ChecksumSeed,
    max_block: usize,
    width: Width,
    matches: Vec<Match>,
    missing: RangeSet,
    /// The last content with matches, with some room after it.
    content: Vec<u8>,
}

impl DatagramDecoder {
    pub(crate) fn new(log: Log, max_block: usize, seed: ChecksumSeed) -> DatagramDecoder {
        DatagramDecoder {
            width: Width::of(log.geometry()),
            window: Window::new(log),
            seed,
            max_block,
            matches: Vec::new(),
            missing: RangeSet::default(),
            content: Vec::new(),
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
        let literals = view.literals;
        let most = self.max_block;
        if literals.len() > most {
            let (value, limit) = (literals.len() as u64, most as u64);
            return Err(FrameError::TooLarge { field: "content", value, limit });
        }
        let offset = view.offset.map(|offset| self.window.restore(counter, offset));
        match (view.matches, offset) {
            // A frame with matches has an offset.
            (None, None | Some(None)) | (Some(_), None) => {
                Ok(DatagramDecoded::Content { offset: None, stored: false, bytes: literals })
            }
            (None, Some(Some(offset))) => {
                self.window.note(counter, offset, literals.len())?;
                let stored = self.window.store(offset, literals);
                Ok(DatagramDecoded::Content { offset: Some(offset), stored, bytes: literals })
            }
            (Some(_), Some(None)) => Err(FrameError::Field {
                field: "offset",
                value: counter,
                allowed: "all 8 bytes in a datagram as old as this",
            }),
            (Some(matches), Some(Some(offset))) => {
                self.decode_matches(counter, offset, matches, literals)
            }
        }
    }

    fn decode_matches(
        &mut self,
        counter: u64,
        offset: u64,
        view: MatchView<'_>,
        literals: &[u8],
    ) -> Result<DatagramDecoded<'_>, FrameError> {
        let DatagramDecoder { window, matches, missing, content, .. } = self;
        let len = view.read(offset, literals.len(), self.max_block, self.width, matches)?;
        window.note(counter, offset, len)?;
        missing.clear();
        window.missing(offset, len, matches, missing)?;
        if !missing.as_slice().is_empty() {
            return Ok(DatagramDecoded::Missing { offset, ranges: missing.as_slice() });
        }
        content.resize(self.max_block + COPY_SLACK, 0);
        assemble(&window.log, offset, matches, literals, content, len);
        let bytes = &content[..len];
        if self.seed.checksum(offset, 0, bytes) != view.checksum {
            return Err(FrameError::Checksum { offset, len });
        }
        let stored = window.store(offset, bytes);
        Ok(DatagramDecoded::Content { offset: Some(offset), stored, bytes })
    }

    /// The ranges of the log that the last frame referred to, as far as it was read.
    pub fn sources(&self) -> impl Iterator<Item = Range<u64>> {
        self.matches.iter().map(|found| found.source..found.source + u64::from(found.len))
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
    }

    /// Upper bound of [`DatagramDecoder::memory`] for a log of `cache` bytes and content of up to
    /// `max_block` bytes a frame, whatever arrives. A frame may have as many matches as bytes of
    /// content, and each may lack a range.
    pub(crate) fn most_memory(cache: u64, max_block: usize) -> usize {
        usize::try_from(cache)
            .unwrap_or(usize::MAX)
            .saturating_add(most_ranges_memory(cache))
            .saturating_add(REMEMBERED as usize * 16)
            .saturating_add(2 * max_block * (size_of::<Match>() + size_of::<Range<u64>>() + 1))
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
