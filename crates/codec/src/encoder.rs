//! Blocks to frames.

use crate::MAX_BLOCK;
use crate::adapt::{Effort, Stage};
use crate::chunk::ChunkMatch;
use crate::entropy::{DescriptorWriter, Entropy, WriteContext};
use crate::error::{ConfigError, EncodeError};
use crate::format::{self, ChecksumSeed, Descriptors, Head, LiteralCoding};
use crate::log::{Geometry, Log};
use crate::matcher::{Density, Match, MatchStats, Matcher};
use crate::params::{EncoderBuilder, check_period};
use crate::policy::{CachePolicy, literal_runs};
use lz4_flex::block::{CompressTable, compress_into_with_table, get_maximum_output_size};
use std::ops::Range;

/// What a block consists of: matches, and the literals between them. The first half of encoding makes it, the second writes it.
#[derive(Clone, Debug, Default)]
pub struct Tokens {
    pub(crate) offset: u64,
    /// `(offset, padding before it)`, if the frame is to state it.
    pub(crate) explicit: Option<(u64, u64)>,
    pub(crate) block_len: usize,
    pub(crate) checksum: u64,
    /// The literals look compressible.
    pub(crate) dense: bool,
    /// What enters the log depends on the matches, so the frame must carry them even where they do not pay.
    pub(crate) binding: bool,
    /// The entropy stage to use instead of a dearer one.
    pub(crate) stage: Stage,
    pub(crate) matches: Vec<Match>,
}

impl Tokens {
    /// The block's offset in the log.
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// The matches: ascending and disjoint.
    pub fn matches(&self) -> &[Match] {
        &self.matches
    }
}

/// Counters of an encoder. They only grow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EncoderStats {
    /// Blocks encoded.
    pub blocks: u64,
    /// Their bytes.
    pub block_bytes: u64,
    /// Matches sent.
    pub matches: u64,
    /// Bytes that matches stood for.
    pub matched_bytes: u64,
    /// Blocks that looked incompressible: sampled sparsely, and left out by the entropy stage.
    pub incompressible_blocks: u64,
    /// Blocks that were passed literally, without a search for matches: see [`Effort`].
    pub passed_blocks: u64,
    /// The matcher's own counters.
    pub matcher: MatchStats,
}

impl EncoderStats {
    /// Achieved bytes per fingerprint where markers were sought, or `None` before the first.
    pub fn bytes_per_fingerprint(&self) -> Option<f64> {
        (self.matcher.looked_up > 0).then(|| self.matcher.sampled_bytes as f64 / self.matcher.looked_up as f64)
    }

    /// Mean length of a match in bytes, or `None` before the first.
    pub fn mean_match_len(&self) -> Option<f64> {
        (self.matches > 0).then(|| self.matched_bytes as f64 / self.matches as f64)
    }
}

/// Encodes blocks against the log of all blocks before.
///
/// ```
/// use oncewire_codec::{Decoded, Decoder, Encoder};
///
/// let mut encoder = Encoder::builder().cache(1 << 20).build()?;
/// let mut decoder = Decoder::builder().cache(1 << 20).build()?;
/// let block = include_bytes!("encoder.rs");
/// for repeat in 0..2 {
///     let mut wire = Vec::new();
///     encoder.encode(block, &mut wire)?;
///     assert!(repeat == 0 || wire.len() < 40);
///     let Decoded::Block { content, .. } = decoder.decode(&wire)? else { unreachable!("the frame is whole") };
///     assert_eq!(content, block);
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Encoder {
    pub(crate) finder: Finder,
    pub(crate) writer: FrameWriter,
    pub(crate) tokens: Tokens,
}

impl Encoder {
    /// Parameters, with defaults for all.
    pub fn builder() -> EncoderBuilder {
        EncoderBuilder::default()
    }

    /// Encodes `block` and appends its frame to `out`. Uses entropy context 0.
    ///
    /// # Errors
    /// [`EncodeError::BlockTooLarge`]; nothing was changed. [`EncodeError::OffsetsExhausted`].
    pub fn encode(&mut self, block: &[u8], out: &mut Vec<u8>) -> Result<(), EncodeError> {
        self.encode_frame(block, 0)?.append_to(out);
        Ok(())
    }

    /// Encodes `block` with the given entropy context. The frame's parts borrow from the encoder and, for content that could not
    /// be reduced, from the block itself, so that such content is not copied.
    ///
    /// # Errors
    /// As [`Encoder::encode`], and [`EncodeError::NoSuchContext`].
    pub fn encode_frame<'a>(&'a mut self, block: &'a [u8], context: usize) -> Result<Frame<'a>, EncodeError> {
        self.writer.check_context(context)?;
        self.finder.find(block, &mut self.tokens)?;
        self.writer.write(&self.tokens, block, context)
    }

    /// Takes content into the log that the decoder is given by other means, with [`crate::Decoder::prime`]: all of it, whatever the
    /// [`CachePolicy`].
    ///
    /// # Errors
    /// As [`Encoder::encode`].
    pub fn prime(&mut self, content: &[u8]) -> Result<(), EncodeError> {
        self.finder.prime(content)
    }

    /// Writes the `len` bytes at `offset` of the log, once encoded as one block, literally, to replace a frame that failed.
    ///
    /// # Errors
    /// [`EncodeError::NotHeld`] if the log has moved on, or keeps new content only ([`CachePolicy`]); with
    /// [`crate::MatcherKind::ChunkMatch`], if the block was acknowledged or has left the backlog.
    pub fn repair(&self, offset: u64, len: usize, out: &mut Vec<u8>) -> Result<(), EncodeError> {
        self.finder.repair(offset, len, out)
    }

    /// The bytes of `range` of the log, once encoded as one block; `None` if the log has moved on, or where [`Encoder::repair`] would
    /// fail.
    pub fn content(&self, range: Range<u64>) -> Option<&[u8]> {
        self.finder.content(range)
    }

    /// End of the newest block in the log: where the next goes, padding aside.
    pub fn end(&self) -> u64 {
        self.finder.store.end()
    }

    /// The decoder has verified all content below `low` (its [`crate::Decoder::low`], which has come back by whatever means).
    /// Offsets beyond the end count as the end; ones below an earlier `low` change nothing.
    ///
    /// With [`crate::MatcherKind::ChunkMatch`] this must be called: matches refer only to acknowledged content and to their own
    /// block, and what is not acknowledged takes room in the backlog. With other matchers it does nothing.
    pub fn acknowledge(&mut self, low: u64) {
        self.finder.acknowledge(low);
    }

    /// Checksum of the last block encoded, as its frame carries it.
    pub fn last_checksum(&self) -> u64 {
        self.tokens.checksum
    }

    /// Begins a new epoch with what the log holds below `offset`, where the next block goes. What was encoded at `offset` and
    /// above is forgotten, and every entropy context begins anew. The decoder does the same with [`crate::Decoder::rewind`].
    ///
    /// With [`crate::MatcherKind::ChunkMatch`] all below `offset` counts as acknowledged, and the whole table is looked at.
    ///
    /// # Errors
    /// [`EncodeError::NotHeld`] unless `offset` lies in the newest lap of the log and within one span of its end; nothing was
    /// changed.
    pub fn rewind(&mut self, offset: u64, seed: ChecksumSeed) -> Result<(), EncodeError> {
        self.finder.rewind(offset, seed)?;
        (0..self.writer.contexts.len()).for_each(|context| self.writer.contexts[context].reset());
        Ok(())
    }

    /// Whether frames state their offset from the next block on.
    pub fn set_explicit_offsets(&mut self, explicit: bool) {
        self.finder.explicit_offsets = explicit;
    }

    /// Starts an entropy context anew with the next frame that uses it, after the decoder lost step.
    ///
    /// # Errors
    /// [`EncodeError::NoSuchContext`].
    pub fn reset_context(&mut self, context: usize) -> Result<(), EncodeError> {
        self.writer.reset_context(context)
    }

    /// Changes the sampling period from the next block on. Content indexed before is still found where both periods choose the same
    /// marker ([`crate::adapt`] has figures); with [`crate::MatcherKind::ChunkMatch`], where both make the same chunk, which is rare.
    ///
    /// # Errors
    /// [`ConfigError::Period`].
    pub fn set_period(&mut self, period: usize) -> Result<(), ConfigError> {
        self.finder.set_period(period)
    }

    /// Changes how much is done to each block, from the next block on. Decoders need not be told.
    pub fn set_effort(&mut self, effort: Effort) {
        self.finder.set_effort(effort);
    }

    /// Counters since the encoder was built.
    pub fn stats(&self) -> EncoderStats {
        self.finder.stats()
    }

    /// What has been allocated by now: log and table whole, since the system gives their pages as they are touched, entropy contexts as
    /// far as they have been used. It stays within what [`EncoderBuilder::memory`] says.
    pub fn memory(&self) -> EncoderMemory {
        let FrameWriter { head, fields, descriptors, literals, coded, coder, .. } = &self.writer;
        let buffers: usize = [head, fields, descriptors, literals, coded, &self.finder.kept].into_iter().map(Vec::capacity).sum();
        EncoderMemory {
            log: self.finder.store.log_memory(),
            table: self.finder.store.table_memory(),
            contexts: self.writer.contexts.iter().map(WriteContext::allocated).sum(),
            buffers: buffers
                + coder.memory()
                + LZ4_TABLE
                + self.finder.store.scratch_memory()
                + self.tokens.matches.capacity() * size_of::<Match>(),
        }
    }

    /// Touches the memory of log and table, so that page faults do not count in measurements.
    pub fn prefault(&mut self) {
        self.finder.store.prefault();
    }
}

/// Memory of an encoder in bytes, by part: what it has ([`Encoder::memory`]), or what it may come to have ([`EncoderBuilder::memory`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EncoderMemory {
    /// The content log, or the backlog of a chunk matcher.
    pub log: usize,
    /// The fingerprint table or chunk table.
    pub table: usize,
    /// The entropy contexts.
    pub contexts: usize,
    /// Working buffers for one block.
    pub buffers: usize,
}

impl EncoderMemory {
    /// Sum of all parts.
    pub fn total(&self) -> usize {
        // Saturating, since a builder may be asked about sizes that it would refuse.
        self.log.saturating_add(self.table).saturating_add(self.contexts).saturating_add(self.buffers)
    }
}

/// What an encoder knows of the past.
pub(crate) enum Store {
    /// All content that the decoder has, and where to look for it.
    Log { log: Log, matcher: Box<dyn Matcher> },
    /// Names only, and the content that is not acknowledged.
    Chunks(ChunkMatch),
}

impl Store {
    fn geometry(&self) -> Geometry {
        match self {
            Store::Log { log, .. } => log.geometry(),
            Store::Chunks(chunks) => chunks.geometry(),
        }
    }

    fn end(&self) -> u64 {
        match self {
            Store::Log { log, .. } => log.end(),
            Store::Chunks(chunks) => chunks.end(),
        }
    }

    fn content(&self, range: Range<u64>) -> Option<&[u8]> {
        match self {
            Store::Log { log, .. } => {
                let extent = log.extent(range.start, log.geometry().floor(log.end(), 0))?;
                (range.start <= range.end && range.end <= extent.end).then(|| log.read(range))
            }
            Store::Chunks(chunks) => chunks.content(range),
        }
    }

    fn padding_before(&self, range: &Range<u64>) -> Option<u64> {
        match self {
            Store::Log { log, .. } => log.padding_before(range.start),
            Store::Chunks(chunks) => chunks.padding_before(range),
        }
    }

    fn stats(&self) -> MatchStats {
        match self {
            Store::Log { matcher, .. } => matcher.stats(),
            Store::Chunks(chunks) => chunks.stats(),
        }
    }

    fn log_memory(&self) -> usize {
        match self {
            Store::Log { log, .. } => log.memory(),
            Store::Chunks(chunks) => chunks.backlog_memory(),
        }
    }

    fn table_memory(&self) -> usize {
        match self {
            Store::Log { matcher, .. } => matcher.table_memory(),
            Store::Chunks(chunks) => chunks.table_memory(),
        }
    }

    /// Besides the table, as of now.
    fn scratch_memory(&self) -> usize {
        match self {
            Store::Log { matcher, .. } => matcher.memory() - matcher.table_memory(),
            Store::Chunks(_) => ChunkMatch::SCRATCH,
        }
    }

    fn prefault(&mut self) {
        match self {
            Store::Log { log, matcher } => {
                log.prefault();
                matcher.prefault();
            }
            Store::Chunks(chunks) => chunks.prefault(),
        }
    }
}

/// The first half of an encoder: log and matcher, or the chunk matcher and its backlog. Turns blocks into [`Tokens`].
pub struct Finder {
    pub(crate) store: Store,
    effort: Effort,
    max_block: usize,
    seed: ChecksumSeed,
    explicit_offsets: bool,
    pub(crate) policy: CachePolicy,
    /// Most matches of a block.
    pub(crate) max_matches: Option<usize>,
    /// Whether incompressible blocks are sampled sparsely.
    pub(crate) sparse: bool,
    /// What a block leaves in the log, if not all of it.
    kept: Vec<u8>,
    stats: EncoderStats,
}

impl Finder {
    pub(crate) fn new(store: Store, period: usize, max_block: usize, seed: ChecksumSeed, explicit_offsets: bool) -> Finder {
        Finder {
            store,
            effort: Effort::full(period),
            max_block,
            seed,
            explicit_offsets,
            policy: CachePolicy::All,
            max_matches: None,
            sparse: true,
            kept: Vec::new(),
            stats: EncoderStats::default(),
        }
    }

    /// Finds the matches of `block`, appends it to the log, and describes it in `tokens`.
    ///
    /// # Errors
    /// [`EncodeError::BlockTooLarge`] and [`EncodeError::OffsetsExhausted`]; nothing was changed.
    pub fn find(&mut self, block: &[u8], tokens: &mut Tokens) -> Result<(), EncodeError> {
        if block.len() > self.max_block {
            return Err(EncodeError::BlockTooLarge { len: block.len(), max: self.max_block });
        }
        let end = self.store.end();
        let offset = self.store.geometry().place(end, block.len());
        if offset + MAX_BLOCK as u64 >= format::MAX_OFFSET {
            return Err(EncodeError::OffsetsExhausted);
        }
        // First, since it streams the block into the processor's cache; sparse sampling would wait for memory at every marker.
        tokens.checksum = self.seed.checksum(offset, offset - end, block);
        let dense = looks_compressible(block);
        let density = self.density(dense);
        tokens.matches.clear();
        match &mut self.store {
            // Without matches every policy keeps the whole block.
            Store::Log { log, matcher } if !self.effort.search() => {
                matcher.pass(log, block, offset, density);
                log.write(offset, block);
            }
            Store::Log { log, matcher } if self.policy == CachePolicy::All => {
                matcher.find(log, block, offset, density, &mut tokens.matches);
                keep_longest(self.max_matches, &mut tokens.matches);
                log.write(offset, block);
            }
            Store::Log { log, matcher } => {
                matcher.look(log, block, offset, density, &mut tokens.matches);
                keep_longest(self.max_matches, &mut tokens.matches);
                self.kept.clear();
                self.policy.keep(block, &tokens.matches, &mut self.kept);
                // Also if nothing is kept: the block may have begun a lap.
                log.write(offset, &self.kept);
                note_kept(self.policy, matcher.as_mut(), &self.kept, offset, block.len(), density, &tokens.matches);
            }
            Store::Chunks(chunks) if !self.effort.search() => chunks.pass(block, offset),
            Store::Chunks(chunks) => {
                chunks.find(block, offset, density, &mut tokens.matches);
                keep_longest(self.max_matches, &mut tokens.matches);
            }
        }
        tokens.offset = offset;
        tokens.explicit = self.explicit_offsets.then_some((offset, offset - end));
        tokens.block_len = block.len();
        tokens.dense = dense;
        tokens.binding = self.policy != CachePolicy::All;
        tokens.stage = self.effort.stage();

        self.stats.blocks += 1;
        self.stats.block_bytes += block.len() as u64;
        self.stats.matches += tokens.matches.len() as u64;
        self.stats.matched_bytes += tokens.matches.iter().map(|found| u64::from(found.len)).sum::<u64>();
        self.stats.incompressible_blocks += u64::from(!dense);
        self.stats.passed_blocks += u64::from(!self.effort.search());
        Ok(())
    }

    /// See [`Encoder::prime`]. Does not count in the statistics of blocks and matches.
    ///
    /// # Errors
    /// As [`Finder::find`].
    pub fn prime(&mut self, content: &[u8]) -> Result<(), EncodeError> {
        let (before, end) = (self.stats, self.store.end());
        // The decoder is not told what in it repeats, so it can only keep all of it.
        let policy = std::mem::take(&mut self.policy);
        let mut tokens = Tokens::default();
        let taken = content.chunks(self.max_block).try_for_each(|block| self.find(block, &mut tokens));
        (self.stats, self.policy) = (before, policy);
        taken?;
        if let Store::Chunks(chunks) = &mut self.store {
            chunks.primed(end);
        }
        Ok(())
    }

    /// How densely to sample a block that looks compressible or not.
    fn density(&self, dense: bool) -> Density {
        if dense || !self.sparse { Density::Period(self.effort.period()) } else { Density::Sparse }
    }

    /// See [`Encoder::acknowledge`].
    pub fn acknowledge(&mut self, low: u64) {
        if let Store::Chunks(chunks) = &mut self.store {
            chunks.acknowledge(low);
        }
    }

    /// Memory of the log or backlog and of the table, in bytes, once they are full.
    pub fn memory(&self) -> usize {
        self.store.log_memory() + self.store.table_memory()
    }

    fn content(&self, range: Range<u64>) -> Option<&[u8]> {
        // A log of new content holds parts of blocks.
        if self.policy == CachePolicy::All { self.store.content(range) } else { None }
    }

    fn rewind(&mut self, offset: u64, seed: ChecksumSeed) -> Result<(), EncodeError> {
        match &mut self.store {
            Store::Log { log, matcher } => {
                if !log.rewind(offset) {
                    return Err(EncodeError::NotHeld { offset, len: 0 });
                }
                matcher.interrupt();
            }
            Store::Chunks(chunks) => chunks.rewind(offset)?,
        }
        self.seed = seed;
        Ok(())
    }

    /// See [`Encoder::repair`].
    ///
    /// # Errors
    /// As [`Encoder::repair`].
    pub fn repair(&self, offset: u64, len: usize, out: &mut Vec<u8>) -> Result<(), EncodeError> {
        let not_held = EncodeError::NotHeld { offset, len };
        let end = offset.checked_add(len as u64).filter(|_| len <= self.max_block).ok_or(not_held)?;
        let content = self.content(offset..end).ok_or(not_held)?;
        let padding = self.store.padding_before(&(offset..end)).ok_or(not_held)?;
        let head = Head {
            literals: LiteralCoding::Raw,
            descriptors: Descriptors::None,
            explicit: Some((offset, padding)),
            fresh: false,
            context: 0,
            block_len: len,
            offset,
            hull: offset..offset,
            descriptors_len: 0,
            literals_len: len,
        };
        format::write_head(&head, &mut Vec::new(), out);
        out.extend_from_slice(content);
        out.extend_from_slice(&self.seed.checksum(offset, padding, content).to_le_bytes());
        Ok(())
    }

    /// See [`Encoder::set_period`].
    ///
    /// # Errors
    /// [`ConfigError::Period`].
    pub fn set_period(&mut self, period: usize) -> Result<(), ConfigError> {
        check_period(period)?;
        self.effort = self.effort.with_period(period);
        Ok(())
    }

    /// See [`Encoder::set_effort`]. The tokens tell the [`FrameWriter`].
    pub fn set_effort(&mut self, effort: Effort) {
        self.effort = effort;
    }

    /// Counters since the finder was built.
    pub fn stats(&self) -> EncoderStats {
        EncoderStats { matcher: self.store.stats(), ..self.stats }
    }
}

/// Lets the matcher know what was kept of a block, and where.
fn note_kept(
    policy: CachePolicy,
    matcher: &mut dyn Matcher,
    kept: &[u8],
    offset: u64,
    block_len: usize,
    density: Density,
    matches: &[Match],
) {
    if !policy.notes_runs_apart() {
        return matcher.note(kept, offset, density);
    }
    let mut done = 0;
    for run in literal_runs(block_len, matches) {
        let at = done;
        done += run.len();
        matcher.note(&kept[at..done], offset + at as u64, density);
    }
}

/// Keeps the `max` longest matches, the leftmost of equal ones, in their order.
fn keep_longest(max: Option<usize>, matches: &mut Vec<Match>) {
    let Some(max) = max.filter(|&max| matches.len() > max) else { return };
    if max > 0 {
        matches.select_nth_unstable_by_key(max - 1, |found| (std::cmp::Reverse(found.len), found.at));
    }
    matches.truncate(max);
    matches.sort_unstable_by_key(|found| found.at);
}

/// Bytes looked at to judge a block, in runs of [`PROBE_RUN`].
const PROBE: usize = 512;
const PROBE_RUN: usize = 64;

/// Whether a block's byte values are distributed unevenly enough for an entropy stage to pay.
///
/// A sample of bytes is counted. Of `n` evenly distributed bytes, `n(n-1)/2` pairs agree with probability 1/256 each; less than a
/// quarter more than that (ten standard deviations) means compressed or encrypted content. Short blocks are taken for compressible.
fn looks_compressible(block: &[u8]) -> bool {
    if block.len() < PROBE {
        return true;
    }
    let mut counts = [0u16; 256];
    let stride = (block.len() - PROBE_RUN) / (PROBE / PROBE_RUN - 1);
    for run in 0..PROBE / PROBE_RUN {
        for &byte in &block[run * stride..][..PROBE_RUN] {
            counts[usize::from(byte)] += 1;
        }
    }
    let squares: u32 = counts.iter().map(|&count| u32::from(count) * u32::from(count)).sum();
    // The sum of squares is n plus twice the number of agreeing pairs.
    let even = (PROBE + PROBE * (PROBE - 1) / 256) as u32;
    squares > even + even / 4
}

/// A frame in parts, to be sent one after the other.
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

    /// Never: a frame has at least a checksum.
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
    coder: DescriptorWriter,
    lz4_table: CompressTable,
}

/// Bytes of LZ4's hash table: 4,096 entries.
const LZ4_TABLE: usize = 4096 * size_of::<u32>();

/// Most bytes of working buffers that blocks of `max_block` bytes can need. Buffers grow by doubling, so each may be twice as large as what
/// it holds: literals, the same compressed, what is kept of a block, and for each match, which is at least 12 bytes long, 16 bytes of
/// [`Match`], at most 48 of descriptors, and the coder's 20 symbols of 6 bytes and 24 bytes of bits.
pub(crate) fn most_buffers(max_block: usize) -> usize {
    let matches = max_block / 12 + 1;
    2 * (3 * max_block + max_block / 100 + matches * (size_of::<Match>() + 48 + 20 * 6 + 24)) + LZ4_TABLE + SMALL_BUFFERS
}

/// The matcher's batches, heads of frames, and the overhead of a compressed block.
const SMALL_BUFFERS: usize = 16 << 10;

/// Coded descriptors may take this many bytes a match before the models are given up: less than the shortest match.
const CODED_MAX: usize = 11;
/// Fewer literals than this go raw: a zstd block header and its Huffman description would not pay.
const FEW_LITERALS: usize = 24;

impl FrameWriter {
    pub(crate) fn new(entropy: Entropy, contexts: usize) -> FrameWriter {
        FrameWriter {
            entropy,
            contexts: (0..contexts).map(|_| WriteContext::new(entropy)).collect(),
            head: Vec::new(),
            fields: Vec::new(),
            descriptors: Vec::new(),
            literals: Vec::new(),
            coded: Vec::new(),
            coder: DescriptorWriter::default(),
            lz4_table: CompressTable::large(),
        }
    }

    fn check_context(&self, context: usize) -> Result<(), EncodeError> {
        let contexts = self.contexts.len();
        if context < contexts { Ok(()) } else { Err(EncodeError::NoSuchContext { context, contexts }) }
    }

    /// See [`Encoder::reset_context`].
    ///
    /// # Errors
    /// [`EncodeError::NoSuchContext`].
    pub fn reset_context(&mut self, context: usize) -> Result<(), EncodeError> {
        self.check_context(context)?;
        self.contexts[context].reset();
        Ok(())
    }

    /// Writes the frame of `block`, which `tokens` describe.
    ///
    /// # Errors
    /// [`EncodeError::NoSuchContext`].
    ///
    /// # Panics
    /// If `tokens` describe a block of another length.
    pub fn write<'a>(&'a mut self, tokens: &Tokens, block: &'a [u8], context: usize) -> Result<Frame<'a>, EncodeError> {
        self.check_context(context)?;
        assert_eq!(tokens.block_len, block.len(), "tokens of another block");
        let entropy = tokens.stage.limit(self.entropy);
        let mut descriptors = self.write_descriptors(tokens, entropy, context);
        // With matches, literals are gathered; without, the block is the literals, where it lies.
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
        let coding = if !tokens.dense || literals.len() < FEW_LITERALS {
            LiteralCoding::Raw
        } else {
            match entropy {
                Entropy::None => LiteralCoding::Raw,
                Entropy::Lz4 => lz4(literals, &mut self.lz4_table, &mut self.coded),
                Entropy::Zstd { .. } => match self.contexts[context].compress(literals, &mut self.coded) {
                    Ok(()) => LiteralCoding::Zstd,
                    // Without memory for a context the frame goes without it, descriptors too, and the next one starts it anew.
                    Err(_) => {
                        self.contexts[context].reset();
                        if descriptors == Descriptors::Coded {
                            descriptors = Descriptors::Plain;
                            self.descriptors.clear();
                            format::write_plain(&tokens.matches, tokens.offset, block.len(), &mut self.descriptors);
                        }
                        LiteralCoding::Raw
                    }
                },
            }
        };
        let literals = if coding == LiteralCoding::Raw { literals } else { &self.coded };

        let uses_context = descriptors == Descriptors::Coded || coding == LiteralCoding::Zstd;
        let head = Head {
            literals: coding,
            descriptors,
            explicit: tokens.explicit,
            fresh: uses_context && std::mem::take(&mut self.contexts[context].fresh),
            context: if uses_context { context } else { 0 },
            block_len: block.len(),
            offset: tokens.offset,
            hull: format::hull(&tokens.matches, tokens.offset),
            descriptors_len: self.descriptors.len(),
            literals_len: literals.len(),
        };
        self.head.clear();
        format::write_head(&head, &mut self.fields, &mut self.head);
        self.head.extend_from_slice(&self.descriptors);
        Ok(Frame { head: &self.head, literals, checksum: tokens.checksum.to_le_bytes() })
    }

    /// Fills `self.descriptors` in the shortest way.
    fn write_descriptors(&mut self, tokens: &Tokens, entropy: Entropy, context: usize) -> Descriptors {
        self.descriptors.clear();
        if tokens.matches.is_empty() {
            return Descriptors::None;
        }
        let (offset, len) = (tokens.offset, tokens.block_len);
        // One or two matches are not worth the coder's state and the hull.
        if matches!(entropy, Entropy::Zstd { .. }) && tokens.matches.len() > 2 {
            let Self { contexts, coder, descriptors, .. } = self;
            contexts[context].models.encode(coder, &tokens.matches, offset, len, descriptors);
            // They take two or three bytes a match, unless someone has trained the models to the contrary; then those start anew.
            if self.descriptors.len() <= CODED_MAX * tokens.matches.len() {
                return Descriptors::Coded;
            }
            self.contexts[context].reset();
            self.descriptors.clear();
        }
        format::write_plain(&tokens.matches, offset, len, &mut self.descriptors);
        // Matches are at least 12 bytes, plain descriptors at most 12 on logs up to 4 TiB, so this is rare; but never grow.
        let matched: usize = tokens.matches.iter().map(|found| found.len as usize).sum();
        if self.descriptors.len() >= matched && !tokens.binding {
            self.descriptors.clear();
            return Descriptors::None;
        }
        Descriptors::Plain
    }
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
