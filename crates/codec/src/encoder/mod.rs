//! Blocks to frames.

mod datagram;
mod finder;
mod parts;
mod writer;

pub use finder::{Finder, Recalled, Tokens};
pub(crate) use finder::{How, looks_compressible};
pub(crate) use parts::{NewWriter, SecondHalf};
pub(crate) use writer::most_buffers;
pub use writer::{Frame, FrameWriter};

use crate::adapt::Effort;
use crate::chunks::{ChunkIndex, Stream};
use crate::domain::Domain;
use crate::error::{ConfigError, EncodeError};
use crate::format::ChecksumSeed;
use crate::inside::{Inside, InsideStats};
use crate::matcher::{Match, MatchStats};
use crate::search::SearchMemory;
use std::ops::Range;

/// Encodes blocks against the log of all blocks before.
///
/// ```
/// use oncewire_codec::{Decoded, Decoder, Encoder};
///
/// let mut encoder = Encoder::builder().cache(1 << 20).build()?;
/// let mut decoder = Decoder::builder().cache(1 << 20).build()?;
/// let block = include_bytes!("mod.rs");
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
    pub(crate) tokens: Tokens,
    pub(crate) second: SecondHalf,
}

impl Encoder {
    /// Encodes `block` and appends its frame to `out`. Uses entropy context 0.
    ///
    /// # Errors
    /// [`EncodeError::BlockTooLarge`]; nothing was changed. [`EncodeError::OffsetsExhausted`].
    pub fn encode(&mut self, block: &[u8], out: &mut Vec<u8>) -> Result<(), EncodeError> {
        self.encode_frame(block, 0)?.append_to(out);
        Ok(())
    }

    /// Encodes `block` with the given entropy context. The frame's parts borrow from the encoder
    /// and, for content that could not be reduced, from the block itself, so that such content is
    /// not copied.
    ///
    /// # Errors
    /// As [`Encoder::encode`], and [`EncodeError::NoSuchContext`].
    pub fn encode_frame<'a>(
        &'a mut self,
        block: &'a [u8],
        context: usize,
    ) -> Result<Frame<'a>, EncodeError> {
        self.second.get()?.check_context(context)?;
        self.finder.find(block, &mut self.tokens)?;
        self.second.get()?.write(&self.tokens, block, context)
    }

    /// The next blocks belong to `domain`. Unless the encoder shares everything
    /// ([`EncoderBuilder::sharing`](crate::EncoderBuilder::sharing)), the length of their frames
    /// depends on content of this domain only; the caller keeps an entropy context for each domain,
    /// or resets it between two. A new encoder is in [`Domain::COMMON`].
    pub fn enter(&mut self, domain: Domain) {
        self.finder.enter(domain);
    }

    /// Encodes `block` as what follows in a flow, whose domain it enters: as
    /// [`Encoder::encode_frame`] after [`Encoder::enter`], but with
    /// [`Sharing::Chunks`](crate::Sharing::Chunks) also finds whole chunks of the flow in content
    /// of all domains.
    ///
    /// # Errors
    /// As [`Encoder::encode_frame`].
    pub fn encode_stream<'a>(
        &'a mut self,
        stream: &mut Stream,
        block: &'a [u8],
        context: usize,
    ) -> Result<Frame<'a>, EncodeError> {
        self.encode_ahead(stream, block, block.len(), context)
    }

    /// As [`Encoder::encode_stream`] for the first `len` bytes of `content`, where it is known what
    /// follows them in the flow: the rest of `content`, of which [`Stream::AHEAD`] bytes are enough.
    /// Chunks next to compressed content are shared only if these bytes are known, too.
    ///
    /// # Errors
    /// As [`Encoder::encode_frame`].
    ///
    /// # Panics
    /// If `content` is shorter than `len`.
    pub fn encode_ahead<'a>(
        &'a mut self,
        stream: &mut Stream,
        content: &'a [u8],
        len: usize,
        context: usize,
    ) -> Result<Frame<'a>, EncodeError> {
        self.second.get()?.check_context(context)?;
        self.find_ahead(stream, content, len)?;
        self.second.get()?.write(&self.tokens, &content[..len], context)
    }

    /// How many bytes behind a block of a flow [`Encoder::encode_ahead`] wants to see now; 0 where
    /// nothing is shared, or as long as there is one domain.
    pub fn ahead(&self, stream: &Stream) -> usize {
        if self.finder.chunks.is_some() && stream.is_shared() { Stream::AHEAD } else { 0 }
    }

    /// How much of `content`, which is what follows in a flow, to encode as one block, so that no
    /// chunk is divided that other domains may have, or no block of zstd ([`Finder::cut`]): `most`
    /// bytes or all where that does not matter. More than 0, unless there is no content or `most`
    /// is 0.
    pub fn whole_chunks(&self, stream: &mut Stream, content: &[u8], most: usize) -> usize {
        match &self.finder.chunks {
            Some(chunks) if stream.is_shared() => chunks.whole_chunks(stream, content, most),
            _ => self.finder.cut_in(stream.id(), content, most),
        }
    }

    /// Adds content to the log that the decoder gets by other means, with
    /// [`crate::Decoder::prime`]: all of it, whatever the [`CachePolicy`](crate::CachePolicy).
    ///
    /// # Errors
    /// As [`Encoder::encode`].
    pub fn prime(&mut self, content: &[u8]) -> Result<(), EncodeError> {
        self.finder.prime(content)
    }

    /// Writes a literal frame for the `len` bytes at `offset`, once encoded as one block, to
    /// replace a frame that was lost or failed.
    ///
    /// # Errors
    /// [`EncodeError::NotHeld`] if the log no longer holds it, or keeps new content only
    /// ([`CachePolicy`](crate::CachePolicy)); with a [`Store`](crate::search::Store), if the block
    /// was acknowledged or has left the backlog.
    pub fn repair(&self, offset: u64, len: usize, out: &mut Vec<u8>) -> Result<(), EncodeError> {
        self.finder.repair(offset, len, out)
    }

    /// The bytes of `range` of the log, once encoded as one block; `None` if the log no longer
    /// holds them, or where [`Encoder::repair`] would fail.
    pub fn content(&self, range: Range<u64>) -> Option<&[u8]> {
        self.finder.content(range)
    }

    /// End of the newest block in the log: where the next goes, padding aside.
    pub fn end(&self) -> u64 {
        self.finder.past.end()
    }

    /// Tells the encoder that the decoder has verified all content below `low`, the decoder's
    /// [`crate::Decoder::acknowledged`]. Offsets beyond the end count as the end; an offset below
    /// an earlier `low` changes nothing.
    ///
    /// With a [`Store`](crate::search::Store) this must be called: matches refer only to
    /// acknowledged content and to their own block, and what is not acknowledged takes room in the
    /// backlog. With other matchers it does nothing.
    pub fn acknowledge(&mut self, low: u64) {
        self.finder.acknowledge(low);
    }

    /// Checksum of the last block encoded, as its frame carries it.
    pub fn last_checksum(&self) -> u64 {
        self.tokens.checksum
    }

    /// What the last block encoded repeats, ascending and disjoint, whether or not its frame refers
    /// to it.
    pub fn last_matches(&self) -> &[Match] {
        self.tokens.matches()
    }

    /// Starts a new epoch with the log's content below `offset`, where the next block goes. Forgets
    /// what was encoded at `offset` and above, and resets every entropy context. The decoder does
    /// the same with [`crate::Decoder::rewind`].
    ///
    /// With a [`Store`](crate::search::Store) all below `offset` counts as acknowledged, and the
    /// whole table is looked at.
    ///
    /// # Errors
    /// [`EncodeError::NotHeld`] unless `offset` lies in the newest generation of the log, within one
    /// span of its end, and not below where it began ([`Encoder::begin_at`]); nothing was changed.
    pub fn rewind(&mut self, offset: u64, seed: ChecksumSeed) -> Result<(), EncodeError> {
        self.finder.rewind(offset, seed)?;
        self.second.reset_contexts();
        Ok(())
    }

    /// As [`Encoder::rewind`], to any end of a block in the newest generation of the log or the one
    /// before it. What the forgotten blocks have overwritten is given up: no later frame refers to
    /// it. The decoder does the same with [`crate::Decoder::rewind_to`].
    ///
    /// # Errors
    /// [`EncodeError::NotHeld`] if nothing of the log would be left; nothing was changed.
    pub fn rewind_to(&mut self, offset: u64, seed: ChecksumSeed) -> Result<(), EncodeError> {
        self.finder.rewind_to(offset, seed)?;
        self.second.reset_contexts();
        Ok(())
    }

    /// The log begins at `offset`, where an encoder before this one has ended, instead of at 0. The
    /// decoder does the same with [`crate::Decoder::begin_at`].
    ///
    /// # Errors
    /// [`EncodeError::NotHeld`] after the first block, or without a log in memory; nothing was
    /// changed.
    pub fn begin_at(&mut self, offset: u64) -> Result<(), EncodeError> {
        self.finder.begin_at(offset)
    }

    /// Puts content back that an encoder before this one had in its log at `offset`, and indexes
    /// it: after a restart, from the lowest offset to the highest, without gaps but padding. Pieces
    /// need not be blocks, but must not cross the end of a generation. Nothing refers to what lies
    /// below the first one. Content of [`Domain::NOBODY`] only keeps its place. What is inside
    /// compressed streams is not indexed, nor chunks to share.
    ///
    /// Call it before the first block, with a key of fingerprints that nobody else knows; it may be
    /// another one than before.
    ///
    /// # Errors
    /// [`EncodeError::NotHeld`] if the piece is empty, longer than [`crate::DEFAULT_BLOCK`], or does
    /// not follow the one before; or without a log in memory that keeps everything.
    pub fn restore(
        &mut self,
        domain: Domain,
        offset: u64,
        content: &[u8],
    ) -> Result<(), EncodeError> {
        self.finder.restore(domain, offset, content)
    }

    /// Appends content to the log again that both ends kept elsewhere, as a block of `domain`, and
    /// indexes it, so that the next blocks can refer to it. The decoder does the same with
    /// [`crate::Decoder::recall`], and gets no frame.
    ///
    /// # Errors
    /// As [`Encoder::encode`]; and [`EncodeError::NotHeld`] without a log that keeps everything.
    pub fn recall(&mut self, domain: Domain, content: &[u8]) -> Result<Recalled, EncodeError> {
        self.finder.recall(domain, content, None)
    }

    /// As [`Encoder::recall`], of content that is the next block of a flow, and that the decoder's end
    /// delivers: it needs no frame either. Its chunks are not shared: see [`Encoder::ahead`].
    ///
    /// # Errors
    /// As [`Encoder::recall`].
    pub fn recall_stream(
        &mut self,
        stream: &mut Stream,
        content: &[u8],
    ) -> Result<Recalled, EncodeError> {
        self.finder.recall(stream.domain(), content, Some(stream))
    }

    /// What it finds across domains.
    pub fn shares(&self) -> crate::Sharing {
        self.finder.sharing
    }

    /// No later frame refers to content below `offset`, because the decoder does not hold it.
    pub fn give_up_below(&mut self, offset: u64) {
        self.finder.give_up_below(offset);
    }

    /// Whose the content in `range` of the log is, in ascending order: each domain owns what lies
    /// from its offset to the next one's. The first offset may lie below the range.
    pub fn owners(&self, range: Range<u64>) -> Vec<(u64, Domain)> {
        self.finder.owners(&range)
    }

    /// Whether frames state their offset from the next block on.
    pub fn set_explicit_offsets(&mut self, explicit: bool) {
        self.finder.explicit_offsets = explicit;
    }

    /// Resets an entropy context with the next frame that uses it, after the decoder lost sync.
    ///
    /// # Errors
    /// [`EncodeError::NoSuchContext`].
    pub fn reset_context(&mut self, context: usize) -> Result<(), EncodeError> {
        self.second.get()?.reset_context(context)
    }

    /// Changes the sampling period from the next block on. Content indexed before is still found
    /// where both periods choose the same marker ([`crate::adapt`] has figures); with a
    /// [`Store`](crate::search::Store), where both make the same chunk, which is rare.
    ///
    /// # Errors
    /// [`ConfigError::Period`].
    pub fn set_period(&mut self, period: usize) -> Result<(), ConfigError> {
        self.finder.set_period(period)
    }

    /// Changes how much work is spent on each block, from the next block on. Decoders need not
    /// know.
    pub fn set_effort(&mut self, effort: Effort) {
        self.finder.set_effort(effort);
    }

    /// Whether an encoder that looks inside compressed content
    /// ([`EncoderBuilder::inside`](crate::EncoderBuilder::inside)) does so, from the next block on.
    /// A new one does; with others this does nothing. Without it, blocks are neither parsed nor
    /// searched for streams. Once it is on again, up to 4 MiB of each flow that the log still holds
    /// are parsed, so that the flow is followed from there on, a few blocks' worth with each block;
    /// behind more than that, a flow is followed from its next stream on. What was indexed is kept.
    /// Costs nothing, so it can change with every block. Decoders need not know.
    pub fn set_opening(&mut self, opening: bool) {
        self.finder.set_opening(opening);
    }

    /// Whether blocks are coded at level 1 from the next one on, whatever the level of the entropy
    /// stage ([`Entropy::Coded`](crate::Entropy::Coded)). A new encoder does not hurry; without that
    /// stage this does nothing. What a search has noted is forgotten with each change, so a change
    /// costs bytes of the next block. Decoders need not know. Where domains are isolated, a caller that
    /// decides by the time that all of them take shows in the lengths of frames how busy they are.
    pub fn set_hurrying(&mut self, hurrying: bool) {
        self.finder.set_hurrying(hurrying);
    }

    /// Counters since the encoder was built.
    pub fn stats(&self) -> EncoderStats {
        self.finder.stats()
    }

    /// Memory allocated so far: the whole log and table, although the system commits their pages as
    /// they are touched, and the entropy contexts used so far; those of a writer that was taken, when it
    /// was. Never more than
    /// [`EncoderBuilder::memory`](crate::EncoderBuilder::memory) says.
    pub fn memory(&self) -> EncoderMemory {
        let SearchMemory { log, table, scratch } = self.finder.past.memory();
        let writer = self.second.memory();
        EncoderMemory {
            log: log as usize,
            table: table as usize,
            domains: self.finder.past.domains_memory()
                + self.finder.chunks.as_ref().map_or(0, ChunkIndex::memory)
                + self.finder.backlog.memory(),
            contexts: writer.contexts,
            inside: self.finder.inside.as_ref().map_or(0, Inside::memory)
                + self.tokens.plan.memory()
                + writer.transcoding,
            buffers: writer.buffers
                + self.finder.kept.capacity()
                + scratch as usize
                + self.tokens.matches.capacity() * size_of::<Match>()
                + self.tokens.joined.capacity(),
        }
    }

    /// Touches the memory of log and table, so that page faults do not count in measurements.
    pub fn prefault(&mut self) {
        self.finder.past.prefault();
    }
}

/// Memory of an encoder in bytes, by part: in use ([`Encoder::memory`]) or at most
/// ([`EncoderBuilder::memory`](crate::EncoderBuilder::memory)).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EncoderMemory {
    /// The content log, or what a [`Store`](crate::search::Store) keeps of it.
    pub log: usize,
    /// The table of the search.
    pub table: usize,
    /// Notes on which content belongs to which [`Domain`], and the index of chunks that they share.
    pub domains: usize,
    /// The entropy contexts.
    pub contexts: usize,
    /// The indexes of deflate tokens and zstd sequences, and buffers to look for them.
    pub inside: usize,
    /// Working buffers for one block.
    pub buffers: usize,
}

impl EncoderMemory {
    /// Sum of all parts.
    pub fn total(&self) -> usize {
        // Saturating, since a builder may be asked about sizes that it would refuse.
        self.log
            .saturating_add(self.table)
            .saturating_add(self.domains)
            .saturating_add(self.contexts)
            .saturating_add(self.inside)
            .saturating_add(self.buffers)
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
    /// Bytes covered by matches.
    pub matched_bytes: u64,
    /// Blocks that looked incompressible: sampled sparsely and skipped by the entropy stage.
    pub incompressible_blocks: u64,
    /// Blocks sent literally without a search for matches: see [`Effort`].
    pub passed_blocks: u64,
    /// What was found inside deflate streams and zstd frames.
    pub inside: InsideStats,
    /// The matcher's own counters.
    pub matcher: MatchStats,
}

impl EncoderStats {
    /// Achieved bytes per fingerprint where markers were sought, or `None` before the first.
    pub fn bytes_per_fingerprint(&self) -> Option<f64> {
        (self.matcher.looked_up > 0)
            .then(|| self.matcher.sampled_bytes as f64 / self.matcher.looked_up as f64)
    }

    /// Mean length of a match in bytes, or `None` before the first.
    pub fn mean_match_len(&self) -> Option<f64> {
        (self.matches > 0).then(|| self.matched_bytes as f64 / self.matches as f64)
    }
}
