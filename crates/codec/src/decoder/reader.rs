//! The first half of a decoder.

use crate::entropy::{DescriptorModels, ReadContext, TranscodeModels, TranscodeReader};
use crate::error::FrameError;
use crate::format::{FrameView, LiteralCoding};
use crate::inside::{Expander, MAX_SOURCES, Section, Work};
use crate::matcher::Match;

/// Upper bound in bytes of what a decoder needs for transcoded literals: codes and models, and the
/// residual and the sources of a frame, in buffers that grow by doubling.
pub(crate) fn most_inside(max_block: usize, contexts: usize) -> usize {
    let frame = 2 * (2 * max_block + 8) + 2 * MAX_SOURCES * size_of::<Match>();
    Expander::MEMORY + frame + contexts.saturating_mul(size_of::<TranscodeModels>())
}

/// The first half of a decoder: the entropy stage. Turns frames into matches and literals.
pub(crate) struct FrameReader {
    pub(super) contexts: Vec<ReadContext>,
    expander: Expander,
    /// Of transcoded literals.
    residual: Vec<u8>,
    /// Units of work for transcoded literals so far.
    pub(super) work: u64,
}

impl FrameReader {
    pub(crate) fn new(contexts: usize) -> FrameReader {
        FrameReader {
            contexts: (0..contexts).map(|_| ReadContext::new()).collect(),
            expander: Expander::default(),
            residual: Vec::new(),
            work: 0,
        }
    }

    pub(super) fn context(&mut self, view: &FrameView<'_>) -> Result<&mut ReadContext, FrameError> {
        let contexts = self.contexts.len() as u64;
        self.contexts.get_mut(view.context).ok_or(FrameError::TooLarge {
            field: "context",
            value: view.context as u64,
            limit: contexts - 1,
        })
    }

    /// Reads coded descriptors without changing their context.
    pub(super) fn peek_coded(
        &mut self,
        view: &FrameView<'_>,
        offset: u64,
        matches: &mut Vec<Match>,
    ) -> Result<(), FrameError> {
        let context = self.context(view)?;
        let mut models = if view.fresh {
            DescriptorModels::NEW
        } else if context.in_step {
            context.models.clone()
        } else {
            return Err(FrameError::ContextLost { context: view.context });
        };
        let section = view.body.descriptor_section;
        models.decode(section, offset, view.block_len, view.width, matches)
    }

    /// Prepares the frame's context, if it uses one.
    pub(super) fn begin(&mut self, view: &FrameView<'_>) -> Result<(), FrameError> {
        if view.context().is_none() {
            return Ok(());
        }
        let context = self.context(view)?;
        if view.fresh {
            context.reset();
        }
        if context.in_step {
            Ok(())
        } else {
            Err(FrameError::ContextLost { context: view.context })
        }
    }

    /// Appends the matches that coded descriptors describe.
    pub(super) fn read_coded(
        &mut self,
        view: &FrameView<'_>,
        offset: u64,
        matches: &mut Vec<Match>,
    ) -> Result<(), FrameError> {
        self.context(view)?.models.decode(
            view.body.descriptor_section,
            offset,
            view.block_len,
            view.width,
            matches,
        )
    }

    /// The frame's `expected` literal bytes: in the frame itself if they are raw, otherwise decoded
    /// into `buffer`.
    pub(super) fn read_literals<'l>(
        &mut self,
        view: &FrameView<'l>,
        expected: usize,
        buffer: &'l mut Vec<u8>,
    ) -> Result<&'l [u8], FrameError> {
        let section = view.body.literal_section;
        match view.body.literals {
            LiteralCoding::Raw if section.len() == expected => return Ok(section),
            LiteralCoding::Raw => return Err(FrameError::Sum { block: view.block_len }),
            LiteralCoding::Lz4 => {
                buffer.resize(expected, 0);
                match lz4_flex::block::decompress_into(section, buffer) {
                    Ok(len) if len == expected => {}
                    _ => return Err(FrameError::Literals { method: "lz4" }),
                }
            }
            // Transcoded literals need the log: see `expand`.
            LiteralCoding::Zstd | LiteralCoding::Transcoded => {
                self.context(view)?.decompress(section, expected, buffer)?;
            }
        }
        Ok(&buffer[..expected])
    }

    /// Puts the frame's `expected` literal bytes together, from a section and the content of its
    /// sources.
    pub(super) fn expand(
        &mut self,
        view: &FrameView<'_>,
        section: &Section<'_>,
        sources: &[&[u8]],
        expected: usize,
        out: &mut Vec<u8>,
    ) -> Result<(), FrameError> {
        let len = section.residual_len;
        let mut buffer = std::mem::take(&mut self.residual);
        let residual = if section.is_zstd {
            self.context(view)?.decompress(section.residual, len, &mut buffer)?;
            &buffer[..len]
        } else if section.residual.len() == len {
            section.residual
        } else {
            return Err(FrameError::Sum { block: view.block_len });
        };
        let mut work = Work::of(view.block_len);
        if section.is_sequences {
            let plain = section.operations;
            let expander = &mut self.expander;
            let expanded =
                expander.expand_sequences(residual, plain, sources, expected, &mut work, out);
            self.residual = buffer;
            self.work += work.done();
            return expanded;
        }
        let mut expander = std::mem::take(&mut self.expander);
        let models = self.context(view)?.transcode();
        let mut operations = TranscodeReader::new(models, section.operations)?;
        let next = || operations.next();
        let expanded = expander.expand(next, residual, sources, expected, &mut work, out);
        let expanded = expanded.and_then(|()| operations.finish());
        self.expander = expander;
        self.residual = buffer;
        self.work += work.done();
        expanded
    }

    /// Memory for transcoded literals in bytes, as of now.
    pub(super) fn inside_memory(&self) -> usize {
        let models: usize = self.contexts.iter().map(ReadContext::transcode_allocated).sum();
        self.residual.capacity() + self.expander.memory() + models
    }

    /// Records that a frame failed: frames that continue its context cannot be read.
    pub(super) fn lose_step(&mut self, view: &FrameView<'_>) {
        if view.context().is_some()
            && let Ok(context) = self.context(view)
        {
            context.in_step = false;
        }
    }
}
