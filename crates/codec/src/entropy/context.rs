//! Entropy contexts: the state that a lane's frames share, at the writing and at the reading end.

use super::literals::{ColumnBuffers, LiteralBuffers, LiteralReader, LiteralWriter};
use super::planes::{MANY_MATCHES, PlaneBuffers, PlaneReader, PlaneWriter};
use super::{
    DescriptorModels, DescriptorSection, DescriptorWriter, Entropy, FixedWidth, NewCodes,
    TranscodeModels,
};
use crate::error::FrameError;
use crate::matcher::Match;
use oncewire_kernels::Kernels;

/// The models of transcoded literals, which most contexts never need.
#[derive(Clone, Debug, Default)]
pub(crate) struct LazyModels(Option<Box<TranscodeModels>>);

impl LazyModels {
    /// The models, new if they were not needed before.
    pub(crate) fn get(&mut self) -> &mut TranscodeModels {
        self.0.get_or_insert_with(|| Box::new(TranscodeModels::NEW))
    }

    /// Their memory in bytes as of now.
    pub(crate) fn allocated(&self) -> usize {
        self.0.as_ref().map_or(0, |models| size_of_val(&**models))
    }

    fn reset(&mut self) {
        if let Some(models) = &mut self.0 {
            **models = TranscodeModels::NEW;
        }
    }
}

/// State of a context at the encoder.
pub(crate) struct WriteContext {
    models: DescriptorModels,
    /// Created when first used.
    planes: Option<Box<PlaneWriter>>,
    /// Created when first used.
    /// Those of transcoded literals.
    pub(crate) transcode: LazyModels,
    /// Created when first used.
    literals: Option<Box<LiteralWriter>>,
    kernels: Kernels,
    level: i32,
    /// Nothing was written yet: the next frame that uses the context is marked as fresh.
    pub(crate) fresh: bool,
}

impl WriteContext {
    pub(crate) fn new(kernels: Kernels, entropy: Entropy) -> WriteContext {
        let level = if let Entropy::Coded { level } = entropy { level } else { 0 };
        WriteContext {
            models: DescriptorModels::NEW,
            planes: None,
            transcode: LazyModels::default(),
            literals: None,
            kernels,
            level,
            fresh: true,
        }
    }

    /// Resets the context; the next frame that uses it is marked as fresh.
    pub(crate) fn reset(&mut self) {
        self.models = DescriptorModels::NEW;
        if let Some(planes) = &mut self.planes {
            **planes = PlaneWriter::NEW;
        }
        self.transcode.reset();
        self.fresh = true;
        if let Some(literals) = &mut self.literals {
            literals.reset();
        }
    }

    /// Memory of a context in bytes, once it is used, at most.
    pub(crate) fn memory(entropy: Entropy, max_block: usize) -> usize {
        match entropy {
            Entropy::Coded { level } => {
                size_of::<WriteContext>()
                    + size_of::<PlaneWriter>()
                    + LiteralWriter::most_memory(level, max_block)
            }
            _ => size_of::<WriteContext>(),
        }
    }

    /// Memory in bytes as of now.
    pub(crate) fn allocated(&self) -> usize {
        size_of::<WriteContext>()
            + self.planes.as_ref().map_or(0, |planes| size_of_val(&**planes))
            + self.literals.as_ref().map_or(0, |literals| literals.memory())
    }

    /// Appends the descriptors of the block at `offset` of `block_len` bytes: in columns if there
    /// are many, otherwise by adaptive models. Returns whether in columns.
    pub(crate) fn encode_descriptors(
        &mut self,
        buffers: &mut DescriptorBuffers,
        matches: &[Match],
        (offset, block_len): (u64, usize),
        fixed: Option<FixedWidth<'_>>,
        codes: &mut NewCodes,
        out: &mut Vec<u8>,
    ) -> bool {
        let DescriptorBuffers { coder, planes } = buffers;
        if matches.len() < MANY_MATCHES {
            self.models.encode(coder, matches, offset, block_len, fixed, out);
            return false;
        }
        let last_distance = self.models.last_distance();
        let writer = self.planes.get_or_insert_with(|| Box::new(PlaneWriter::NEW));
        writer.encode(planes, matches, (offset, last_distance), fixed, codes, out);
        true
    }

    /// How hard the next literals are searched: 1 to 3. The reader need not know.
    pub(crate) fn set_level(&mut self, level: i32) {
        if let Some(literals) = self.literals.as_mut().filter(|_| level != self.level) {
            literals.set_level(level);
        }
        self.level = level;
    }

    /// Appends the section of `literals` to `out`.
    pub(crate) fn compress(
        &mut self,
        literals: &[u8],
        codes: &mut NewCodes,
        buffers: &mut LiteralBuffers,
        out: &mut Vec<u8>,
    ) {
        let WriteContext { kernels, level, .. } = *self;
        let writer =
            self.literals.get_or_insert_with(|| Box::new(LiteralWriter::new(kernels, level)));
        writer.write(literals, codes, buffers, out);
    }
}

/// Buffers for descriptors that the writers of all contexts share.
#[derive(Default)]
pub(crate) struct DescriptorBuffers {
    coder: DescriptorWriter,
    planes: PlaneBuffers,
}

impl DescriptorBuffers {
    /// Memory as of now, in bytes.
    pub(crate) fn memory(&self) -> usize {
        self.coder.memory() + self.planes.memory()
    }

    /// At most, in bytes, for a number of matches in a block.
    pub(crate) const fn most(matches: usize) -> usize {
        // Only few are written by models: a match has at most 20 symbols of 6 bytes in all, and 24
        // bytes of bits, in buffers that double.
        2 * MANY_MATCHES * (20 * 6 + 24) + PlaneBuffers::most(matches)
    }
}

/// State of a context at the decoder.
pub(crate) struct ReadContext {
    kernels: Kernels,
    models: DescriptorModels,
    /// Created when first used.
    planes: Option<Box<PlaneReader>>,
    /// Created when first used.
    /// Those of transcoded literals.
    pub(crate) transcode: LazyModels,
    /// Created when first used.
    literals: Option<Box<LiteralReader>>,
    /// In sync: a fresh frame started the context, and none failed since. Frames that continue it
    /// can be read.
    pub(crate) in_step: bool,
}

impl ReadContext {
    pub(crate) fn new(kernels: Kernels) -> ReadContext {
        ReadContext {
            kernels,
            models: DescriptorModels::NEW,
            planes: None,
            transcode: LazyModels::default(),
            literals: None,
            in_step: false,
        }
    }

    /// Resets the context.
    pub(crate) fn reset(&mut self) {
        self.models = DescriptorModels::NEW;
        if let Some(planes) = &mut self.planes {
            planes.reset();
        }
        self.transcode.reset();
        if let Some(literals) = &mut self.literals {
            literals.reset();
        }
        self.in_step = true;
    }

    /// Memory of a context in bytes, once used, at most.
    pub(crate) fn memory(max_block: usize) -> usize {
        size_of::<ReadContext>() + PlaneReader::MEMORY + LiteralReader::most_memory(max_block)
    }

    /// Memory in bytes as of now.
    pub(crate) fn allocated(&self) -> usize {
        size_of::<ReadContext>()
            + self.planes.as_ref().map_or(0, |_| PlaneReader::MEMORY)
            + self.literals.as_ref().map_or(0, |literals| literals.memory())
    }

    /// Appends the matches of coded descriptors, in columns or not, of the block at `offset` of
    /// `block_len` bytes. After an error the context is out of sync.
    pub(crate) fn decode_descriptors(
        &mut self,
        section: DescriptorSection<'_>,
        codes: &mut NewCodes,
        symbols: &mut Vec<u8>,
        matches: &mut Vec<Match>,
    ) -> Result<(), FrameError> {
        let DescriptorSection { bytes, in_columns, offset, block_len, width } = section;
        if !in_columns {
            return self.models.decode(bytes, offset, block_len, width, matches);
        }
        let last_distance = self.models.last_distance();
        let reader = self.planes.get_or_insert_with(|| Box::new(PlaneReader::NEW));
        reader.decode(self.kernels, section, codes, last_distance, symbols, matches)
    }

    /// As [`ReadContext::decode_descriptors`], without changing the context, which is reset before
    /// if the frame says so.
    pub(crate) fn peek_descriptors(
        &self,
        fresh: bool,
        section: DescriptorSection<'_>,
        symbols: &mut Vec<u8>,
        matches: &mut Vec<Match>,
    ) -> Result<(), FrameError> {
        let mut context = ReadContext::new(self.kernels);
        if !fresh {
            context.models = self.models.clone();
            context.planes = self.planes.as_ref().filter(|_| section.in_columns).cloned();
        }
        let mut codes = NewCodes::of(section.block_len);
        context.decode_descriptors(section, &mut codes, symbols, matches)
    }

    /// Reads `section`, which must yield exactly `expected` bytes.
    pub(crate) fn decompress(
        &mut self,
        section: &[u8],
        expected: usize,
        codes: &mut NewCodes,
        buffers: &mut ColumnBuffers,
    ) -> Result<&[u8], FrameError> {
        let kernels = self.kernels;
        let literals = self.literals.get_or_insert_with(|| Box::new(LiteralReader::new(kernels)));
        literals.read(section, expected, codes, buffers)
    }

    /// As [`ReadContext::decompress`], and the models of transcoded literals.
    pub(crate) fn decompress_beside(
        &mut self,
        section: &[u8],
        expected: usize,
        codes: &mut NewCodes,
        buffers: &mut ColumnBuffers,
    ) -> Result<(&[u8], &mut TranscodeModels), FrameError> {
        let ReadContext { kernels, literals, transcode, .. } = self;
        let literals = literals.get_or_insert_with(|| Box::new(LiteralReader::new(*kernels)));
        let models = transcode.get();
        Ok((literals.read(section, expected, codes, buffers)?, models))
    }
}
