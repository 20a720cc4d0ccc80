//! The first half of a decoder.

use crate::entropy::{
    ColumnBuffers, DescriptorSection, NewCodes, ReadContext, TranscodeModels, TranscodeReader,
};
use crate::error::FrameError;
use crate::format::{self, Descriptors, FrameView, LiteralCoding};
use crate::inside::{Expander, MAX_SOURCES, Section, Work};
use crate::matcher::Match;
use oncewire_kernels::Kernels;

/// Upper bound in bytes of what a decoder needs for transcoded literals: codes and models, and the
/// sources of a frame, in a buffer that grows by doubling.
pub(crate) fn most_inside(contexts: usize) -> usize {
    let frame = 2 * MAX_SOURCES * size_of::<Match>();
    Expander::MEMORY + frame + contexts.saturating_mul(size_of::<TranscodeModels>())
}

/// The section of a frame's coded descriptors.
fn descriptors_of<'a>(view: &FrameView<'a>, offset: u64) -> DescriptorSection<'a> {
    DescriptorSection {
        bytes: view.body.descriptor_section,
        in_columns: view.body.descriptors == Descriptors::Columns,
        offset,
        block_len: view.block_len,
        width: view.width,
    }
}

/// The first half of a decoder: the entropy stage. Turns frames into matches and literals.
pub(crate) struct FrameReader {
    pub(super) contexts: Vec<ReadContext>,
    expander: Expander,
    buffers: ColumnBuffers,
    /// Units of work for transcoded literals so far.
    pub(super) work: u64,
}

impl FrameReader {
    pub(crate) fn new(kernels: Kernels, contexts: usize) -> FrameReader {
        FrameReader {
            contexts: (0..contexts).map(|_| ReadContext::new(kernels)).collect(),
            expander: Expander::new(kernels),
            buffers: ColumnBuffers::default(),
            work: 0,
        }
    }

    pub(super) fn context(&mut self, view: &FrameView<'_>) -> Result<&mut ReadContext, FrameError> {
        FrameReader::of(&mut self.contexts, view)
    }

    /// The context of a frame.
    fn of<'c>(
        contexts: &'c mut [ReadContext],
        view: &FrameView<'_>,
    ) -> Result<&'c mut ReadContext, FrameError> {
        let count = contexts.len() as u64;
        contexts.get_mut(view.context).ok_or(FrameError::TooLarge {
            field: "context",
            value: view.context as u64,
            limit: count - 1,
        })
    }

    /// Reads coded descriptors without changing their context.
    pub(super) fn peek_coded(
        &mut self,
        view: &FrameView<'_>,
        offset: u64,
        matches: &mut Vec<Match>,
    ) -> Result<(), FrameError> {
        let FrameReader { contexts, buffers, .. } = self;
        let context = FrameReader::of(contexts, view)?;
        if !view.fresh && !context.in_step {
            return Err(FrameError::ContextLost { context: view.context });
        }
        let section = descriptors_of(view, offset);
        context.peek_descriptors(view.fresh, section, buffers.symbols(), matches)
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
        codes: &mut NewCodes,
        offset: u64,
        matches: &mut Vec<Match>,
    ) -> Result<(), FrameError> {
        let FrameReader { contexts, buffers, .. } = self;
        let context = FrameReader::of(contexts, view)?;
        context.decode_descriptors(descriptors_of(view, offset), codes, buffers.symbols(), matches)
    }

    /// Reads all of a frame whose literals are not transcoded: matches, and the literals between
    /// them. Whether there is anything where the matches point is not looked at. `scratch` is a
    /// buffer.
    ///
    /// After an error, the frame's context is unusable.
    pub(crate) fn read_parts(
        &mut self,
        view: &FrameView<'_>,
        offset: u64,
        matches: &mut Vec<Match>,
        literals: &mut Vec<u8>,
        scratch: &mut Vec<u8>,
    ) -> Result<(), FrameError> {
        matches.clear();
        literals.clear();
        if view.body.descriptors == Descriptors::Plain {
            let section = view.body.descriptor_section;
            format::read_plain(section, offset, view.block_len, view.width, matches)?;
        }
        self.begin(view)?;
        let mut codes = NewCodes::of(view.block_len);
        if view.body.descriptors.uses_context() {
            self.read_coded(view, &mut codes, offset, matches)?;
        }
        let matched: usize = matches.iter().map(|found| found.len as usize).sum();
        // As in `Decoder::decode`: matches are disjoint and inside the block.
        let read = self.read_literals(view, &mut codes, view.block_len - matched, scratch)?;
        literals.extend_from_slice(read);
        Ok(())
    }

    /// The frame's `expected` literal bytes: in the frame itself if they are raw, otherwise decoded
    /// into `buffer`.
    pub(super) fn read_literals<'l>(
        &'l mut self,
        view: &FrameView<'l>,
        codes: &mut NewCodes,
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
            LiteralCoding::Coded | LiteralCoding::Transcoded => {
                let FrameReader { contexts, buffers, .. } = self;
                let context = FrameReader::of(contexts, view)?;
                return context.decompress(section, expected, codes, buffers);
            }
        }
        Ok(&buffer[..expected])
    }

    /// Puts the frame's `expected` literal bytes together, from a section and the content of its
    /// sources.
    pub(super) fn expand(
        &mut self,
        view: &FrameView<'_>,
        codes: &mut NewCodes,
        section: &Section<'_>,
        sources: &[&[u8]],
        expected: usize,
        out: &mut Vec<u8>,
    ) -> Result<(), FrameError> {
        let len = section.residual_len;
        let FrameReader { contexts, expander, buffers, work: sum } = self;
        let context = FrameReader::of(contexts, view)?;
        let (residual, models) = if section.is_coded {
            context.decompress_beside(section.residual, len, codes, buffers)?
        } else if section.residual.len() == len {
            (section.residual, context.transcode.get())
        } else {
            return Err(FrameError::Sum { block: view.block_len });
        };
        let mut work = Work::of(view.block_len);
        let expanded = if section.is_sequences {
            let plain = section.operations;
            expander.expand_sequences(residual, plain, sources, expected, &mut work, out)
        } else {
            let mut operations = TranscodeReader::new(models, section.operations)?;
            let next = || operations.next();
            let expanded = expander.expand(next, residual, sources, expected, &mut work, out);
            expanded.and_then(|()| operations.finish())
        };
        *sum += work.done();
        expanded
    }

    /// Memory for transcoded literals in bytes, as of now.
    pub(super) fn inside_memory(&self) -> usize {
        let models: usize = self.contexts.iter().map(|context| context.transcode.allocated()).sum();
        self.expander.memory() + models
    }

    /// Memory of buffers in bytes, as of now.
    pub(super) fn buffers(&self) -> usize {
        self.buffers.memory()
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
