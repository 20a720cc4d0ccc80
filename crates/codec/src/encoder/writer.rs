//! The second half of an encoder turns tokens into frames.

use super::Tokens;
use crate::entropy::{
    DescriptorBuffers, Entropy, FixedWidth, LiteralBuffers, NewCodes, TranscodeWriter, WriteContext,
};
use crate::error::EncodeError;
use crate::format::{self, Descriptors, Head, LiteralCoding};
use crate::inside::section;
use crate::matcher::Match;
use lz4_flex::block::{CompressTable, compress_into_with_table, get_maximum_output_size};
use oncewire_kernels::Kernels;

/// A frame in parts, to be sent in order.
#[derive(Clone, Copy, Debug)]
pub struct Frame<'a> {
    head: &'a [u8],
    literals: &'a [u8],
    checksum: [u8; 8],
}

impl Frame<'_> {
    /// The frame's bytes in order, for a vectored write.
    pub fn parts(&self) -> [&[u8]; 3] {
        [self.head, self.literals, &self.checksum]
    }

    /// Total length in bytes.
    pub fn len(&self) -> usize {
        self.head.len() + self.literals.len() + self.checksum.len()
    }

    /// Always false: a frame has at least a checksum.
    pub fn is_empty(&self) -> bool {
        false
    }

    /// Appends the frame's bytes to `out`.
    pub fn append_to(&self, out: &mut Vec<u8>) {
        for part in self.parts() {
            out.extend_from_slice(part);
        }
    }
}

/// The second half of an encoder: the entropy stage. Turns [`Tokens`] into frames.
pub struct FrameWriter {
    entropy: Entropy,
    contexts: Vec<WriteContext>,
    // Buffers kept between frames, so that a steady state allocates nothing.
    head: Vec<u8>,
    fields: Vec<u8>,
    descriptors: Vec<u8>,
    literals: Vec<u8>,
    coded: Vec<u8>,
    coder: DescriptorBuffers,
    operations: Vec<u8>,
    transcoder: TranscodeWriter,
    literal_buffers: LiteralBuffers,
    lz4_table: CompressTable,
}

/// Memory of a [`FrameWriter`] in bytes, by part.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct WriterMemory {
    pub(super) contexts: usize,
    pub(super) transcoding: usize,
    pub(super) buffers: usize,
}

/// Bytes of LZ4's hash table: 4,096 entries.
const LZ4_TABLE: usize = 4096 * size_of::<u32>();

/// Upper bound in bytes of the working buffers for blocks of `max_block` bytes. Buffers grow by
/// doubling, so each may be twice as large as its content: literals, compressed literals, the kept
/// part of a block, and for each match, which has at least 12 bytes, 16 bytes of [`Match`], one of
/// whether it is joined, at most 48 of descriptors, and what coding them takes.
pub(crate) fn most_buffers(max_block: usize) -> usize {
    let matches = max_block / 12 + 1;
    2 * (3 * max_block + max_block / 100 + matches * (size_of::<Match>() + 1 + 48))
        + DescriptorBuffers::most(matches)
        + LiteralBuffers::most(max_block)
        + LZ4_TABLE
        + SMALL_BUFFERS
}

/// The matcher's batches, heads of frames, and the overhead of a compressed block.
const SMALL_BUFFERS: usize = 16 << 10;

/// Coded descriptors may take this many bytes per match before the models are discarded: less than
/// the shortest match.
const CODED_MAX: usize = 11;
/// Fewer literals than this go raw: the counts of its columns would not pay.
const FEW_LITERALS: usize = 24;

impl FrameWriter {
    pub(crate) fn new(kernels: Kernels, entropy: Entropy, contexts: usize) -> FrameWriter {
        FrameWriter {
            entropy,
            contexts: (0..contexts).map(|_| WriteContext::new(kernels, entropy)).collect(),
            head: Vec::new(),
            fields: Vec::new(),
            descriptors: Vec::new(),
            literals: Vec::new(),
            coded: Vec::new(),
            coder: DescriptorBuffers::default(),
            operations: Vec::new(),
            transcoder: TranscodeWriter::default(),
            literal_buffers: LiteralBuffers::default(),
            lz4_table: CompressTable::large(),
        }
    }

    pub(super) fn check_context(&self, context: usize) -> Result<(), EncodeError> {
        let contexts = self.contexts.len();
        if context < contexts {
            Ok(())
        } else {
            Err(EncodeError::NoSuchContext { context, contexts })
        }
    }

    pub(super) fn reset_contexts(&mut self) {
        self.contexts.iter_mut().for_each(WriteContext::reset);
    }

    /// Memory allocated so far.
    pub(super) fn memory(&self) -> WriterMemory {
        WriterMemory {
            contexts: self.context_memory(),
            transcoding: self.transcode_memory(),
            buffers: self.buffer_memory(),
        }
    }

    /// Memory of the contexts used so far, in bytes.
    fn context_memory(&self) -> usize {
        self.contexts.iter().map(WriteContext::allocated).sum()
    }

    /// Memory of all working buffers, in bytes.
    fn buffer_memory(&self) -> usize {
        let FrameWriter { head, fields, descriptors, literals, coded, coder, .. } = self;
        let shared = self.literal_buffers.memory();
        let buffers: usize =
            [head, fields, descriptors, literals, coded].into_iter().map(Vec::capacity).sum();
        buffers + coder.memory() + shared + LZ4_TABLE
    }

    /// Memory of the buffers for transcoded literals, in bytes.
    fn transcode_memory(&self) -> usize {
        let models: usize = self.contexts.iter().map(|context| context.transcode.allocated()).sum();
        self.operations.capacity() + self.transcoder.memory() + models
    }

    /// See [`Encoder::reset_context`](super::Encoder::reset_context).
    ///
    /// # Errors
    /// [`EncodeError::NoSuchContext`].
    pub fn reset_context(&mut self, context: usize) -> Result<(), EncodeError> {
        self.check_context(context)?;
        self.contexts[context].reset();
        Ok(())
    }

    /// Writes the frame of the `block` that `tokens` describe.
    ///
    /// # Errors
    /// [`EncodeError::NoSuchContext`].
    ///
    /// # Panics
    /// If `tokens` describe a block of another length.
    pub fn write<'a>(
        &'a mut self,
        tokens: &Tokens,
        block: &'a [u8],
        context: usize,
    ) -> Result<Frame<'a>, EncodeError> {
        self.check_context(context)?;
        assert_eq!(tokens.block_len, block.len(), "tokens of another block");
        let entropy = tokens.stage.limit(self.entropy);
        let mut codes = NewCodes::of(block.len());
        let descriptors = self.write_descriptors(tokens, entropy, context, &mut codes);
        // With matches, literals are gathered; without, the block itself is the literals.
        let gathered = descriptors != Descriptors::None;
        if gathered {
            self.literals.clear();
            let mut done = 0;
            for found in &tokens.matches {
                self.literals.extend_from_slice(&block[done..found.at as usize]);
                done = found.end();
            }
            self.literals.extend_from_slice(&block[done..]);
        }
        let literals = if gathered { &self.literals[..] } else { block };
        self.coded.clear();
        if let Entropy::Coded { level } = entropy {
            self.contexts[context].set_level(level);
        }
        let transcoded = if matches!(entropy, Entropy::Coded { .. }) && !tokens.plan.is_empty() {
            transcode(
                tokens,
                &mut self.contexts[context],
                &mut self.transcoder,
                &mut self.operations,
                (&mut codes, &mut self.literal_buffers),
                literals.len(),
                &mut self.coded,
            )
        } else {
            Transcoded::No
        };
        if transcoded == Transcoded::Reset {
            codes = NewCodes::of(block.len());
            if descriptors.uses_context() {
                // The models that they were coded with are gone.
                self.descriptors.clear();
                let Self { contexts, coder, descriptors, .. } = self;
                code_descriptors(tokens, &mut contexts[context], &mut codes, coder, descriptors);
            }
        }
        let coding = if transcoded == Transcoded::Yes {
            LiteralCoding::Transcoded
        } else if !tokens.dense || literals.len() < FEW_LITERALS {
            LiteralCoding::Raw
        } else {
            match entropy {
                Entropy::None => LiteralCoding::Raw,
                Entropy::Lz4 => lz4(literals, &mut self.lz4_table, &mut self.coded),
                Entropy::Coded { .. } => {
                    let Self { contexts, literal_buffers, coded, .. } = self;
                    contexts[context].compress(literals, &mut codes, literal_buffers, coded);
                    LiteralCoding::Coded
                }
            }
        };
        let literals = if coding == LiteralCoding::Raw { literals } else { &self.coded };

        let uses_context = descriptors.uses_context() || coding.uses_context();
        let head = Head {
            width: tokens.width,
            literals: coding,
            descriptors,
            explicit: tokens.explicit,
            fresh: uses_context && std::mem::take(&mut self.contexts[context].fresh),
            context: if uses_context { context } else { 0 },
            block_len: block.len(),
            offset: tokens.offset,
            dependencies: format::dependency_range(&tokens.matches, tokens.offset),
            descriptors_len: self.descriptors.len(),
            literals_len: literals.len(),
        };
        self.head.clear();
        format::write_head(&head, &mut self.fields, &mut self.head);
        self.head.extend_from_slice(&self.descriptors);
        Ok(Frame { head: &self.head, literals, checksum: tokens.checksum.to_le_bytes() })
    }

    /// Fills `self.descriptors`, choosing the shortest coding.
    fn write_descriptors(
        &mut self,
        tokens: &Tokens,
        entropy: Entropy,
        context: usize,
        codes: &mut NewCodes,
    ) -> Descriptors {
        self.descriptors.clear();
        if tokens.matches.is_empty() {
            return Descriptors::None;
        }
        let (offset, len) = (tokens.offset, tokens.block_len);
        // One or two matches are not worth the coder's state and the dependency range.
        if matches!(entropy, Entropy::Coded { .. }) && tokens.matches.len() > 2 {
            let Self { contexts, coder, descriptors, .. } = self;
            let coding =
                code_descriptors(tokens, &mut contexts[context], codes, coder, descriptors);
            // They take two or three bytes a match, unless hostile content trained the models
            // otherwise; then reset them.
            if self.descriptors.len() <= CODED_MAX * tokens.matches.len() {
                return coding;
            }
            self.contexts[context].reset();
            self.descriptors.clear();
            *codes = NewCodes::of(len);
        }
        format::write_plain(&tokens.matches, offset, len, tokens.width, &mut self.descriptors);
        // Matches have at least 12 bytes and plain descriptors at most 12, so this is rare; but
        // never grow.
        let matched: usize = tokens.matches.iter().map(|found| found.len as usize).sum();
        if self.descriptors.len() >= matched && !tokens.binding {
            self.descriptors.clear();
            return Descriptors::None;
        }
        Descriptors::Plain
    }
}

/// Appends coded descriptors. Returns how.
fn code_descriptors(
    tokens: &Tokens,
    context: &mut WriteContext,
    codes: &mut NewCodes,
    buffers: &mut DescriptorBuffers,
    out: &mut Vec<u8>,
) -> Descriptors {
    let fixed = tokens.width.map(|width| FixedWidth { width, joined: &tokens.joined });
    let block = (tokens.offset, tokens.block_len);
    if context.encode_descriptors(buffers, &tokens.matches, block, fixed, codes, out) {
        Descriptors::Columns
    } else {
        Descriptors::Coded
    }
}

/// Whether literals were transcoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Transcoded {
    Yes,
    /// Nothing was changed.
    No,
    /// No, but the context was reset.
    Reset,
}

/// Writes the section of transcoded literals, unless it is not shorter than the literals.
fn transcode(
    tokens: &Tokens,
    context: &mut WriteContext,
    coder: &mut TranscodeWriter,
    operations: &mut Vec<u8>,
    (codes, buffers): (&mut NewCodes, &mut LiteralBuffers),
    literals: usize,
    out: &mut Vec<u8>,
) -> Transcoded {
    let plan = &tokens.plan;
    let before = context.transcode.get().clone();
    operations.clear();
    if !plan.is_sequences {
        context.transcode.get().encode(coder, &plan.operations, operations);
    }
    let operations = if plan.is_sequences { &plan.plain } else { &*operations };
    let residual = &plan.residual;
    // Columns are compressible, whatever the block looks like.
    let is_dense = tokens.dense || plan.is_sequences;
    let is_coded = is_dense && residual.len() >= FEW_LITERALS;
    let sources =
        section::Sources { all: &plan.sources, are_blocks: plan.is_sequences, width: tokens.width };
    section::write(sources, tokens.offset, residual.len(), is_coded, operations, out);
    let head = out.len();
    // Whether sequences pay has been estimated: their columns shrink.
    let is_shorter = plan.is_sequences || head + residual.len() < literals;
    if is_shorter && is_coded {
        context.compress(residual, codes, buffers, out);
        if out.len() < literals {
            return Transcoded::Yes;
        }
        // The decoder cannot follow the context any more.
        context.reset();
        out.clear();
        return Transcoded::Reset;
    }
    if is_shorter && !is_coded {
        out.extend_from_slice(residual);
        return Transcoded::Yes;
    }
    *context.transcode.get() = before;
    out.clear();
    Transcoded::No
}

fn lz4(literals: &[u8], table: &mut CompressTable, out: &mut Vec<u8>) -> LiteralCoding {
    out.resize(get_maximum_output_size(literals.len()), 0);
    match compress_into_with_table(literals, out, table) {
        Ok(len) if len < literals.len() => {
            out.truncate(len);
            LiteralCoding::Lz4
        }
        _ => LiteralCoding::Raw,
    }
}

#[cfg(test)]
mod tests {
    use crate::{Decoded, Decoder, Encoder};

    fn letters(seed: u64, len: usize) -> Vec<u8> {
        let mut state = seed;
        let mut next = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(seed | 1);
            b'a' + (state >> 60) as u8
        };
        (0..len).map(|_| next()).collect()
    }

    #[test]
    fn a_plan_that_does_not_pay_leaves_the_descriptors_readable() {
        let mut encoder = Encoder::builder().cache(1 << 20).build().unwrap();
        let mut decoder = Decoder::builder().cache(1 << 20).build().unwrap();
        let first = letters(1, 20_000);
        for turn in 0..6 {
            // Some matches, so that their descriptors are coded, and literals between them.
            let mut block = first.clone();
            for at in (turn * 100..20_000).step_by(1500).filter(|_| turn > 0) {
                block[at..at + 40].copy_from_slice(&letters(at as u64, 40));
            }
            let Encoder { finder, second, tokens } = &mut encoder;
            let writer = second.get().unwrap();
            finder.find(&block, tokens).unwrap();
            if turn == 4 {
                // It was estimated to be shorter, but its columns do not shrink.
                tokens.plan.is_sequences = true;
                let noise = letters(2, 6000);
                tokens.plan.residual =
                    noise.chunks(2).map(|pair| pair[0] << 4 | (pair[1] - b'a')).collect();
            }
            let mut frame = Vec::new();
            writer.write(tokens, &block, 0).unwrap().append_to(&mut frame);
            assert!(turn == 0 || frame[0] & 0x0f == 0x0a, "coded descriptors and literals");
            assert_eq!(frame[0] & 0x20 != 0, turn == 0 || turn == 4, "fresh");
            match decoder.decode(&frame) {
                Ok(Decoded::Block { content, .. }) => assert!(content == block),
                other => panic!("turn {turn}: {other:?}"),
            }
        }
    }
}
