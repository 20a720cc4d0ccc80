//! Runs to frames in datagrams.

use super::frame::{self, OffsetWidth};
use super::pending::Pending;
use super::run::{Coding, Limits, RunTokens, Scratch, Slices, Written};
use super::sights::Sights;
use crate::adapt::Effort;
use crate::domain::Domain;
use crate::encoder::{EncoderMemory, EncoderStats, Finder, How, looks_compressible};
use crate::entropy::{FrozenContext, FrozenWriter};
use crate::error::{ConfigError, EncodeError};
use crate::log::Log;
use crate::ranges::RangeSet;
use crate::reach::{Reach, most_ranges_memory};
use oncewire_kernels::Kernels;
use std::ops::Range;

/// What is known of a run's content before it is searched.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Class {
    /// Nothing: a sample of it decides.
    #[default]
    Unknown,
    /// It is worth looking closely.
    Compressible,
    /// It is compressed or encrypted: it repeats as a whole or not at all, so few markers do.
    Incompressible,
}

/// When a run's content can be found.
///
/// The table has one place for each fingerprint, so content in flight hides an older copy of it that
/// the decoder is known to have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Indexing {
    /// From the next run on, and in the run itself.
    #[default]
    Immediate,
    /// Once it is acknowledged: while datagrams are lost.
    Acknowledged,
}

/// Encodes runs of content into frames for datagrams that may be lost or reordered.
///
/// Made by [`EncoderBuilder::build_datagrams`](crate::EncoderBuilder::build_datagrams). A run is
/// searched as a whole, then dealt to datagrams as slices, each of which decodes without the others.
///
/// ```
/// use oncewire_codec::datagram::{Class, DatagramDecoded, Limits, RunTokens};
/// use oncewire_codec::{Decoder, Encoder, Reach};
///
/// let mut encoder = Encoder::builder().cache(1 << 20).span(1 << 16).build_datagrams()?;
/// let mut decoder = Decoder::builder().cache(1 << 20).span(1 << 16).build_datagrams()?;
/// let run: Vec<u8> = (0..4000u32).flat_map(u32::to_le_bytes).collect();
/// let limits = Limits { segment: 1000, room: 1400, earlier: false };
/// let (mut tokens, mut counter, mut sizes) = (RunTokens::default(), 0, Vec::new());
/// for _ in 0..2 {
///     encoder.search(&run, Class::Unknown, Reach::Acknowledged, &mut tokens)?;
///     let mut from = 0;
///     while from < run.len() {
///         let to = encoder.fit(&tokens, from, &limits);
///         let mut frame = Vec::new();
///         encoder.write(&tokens, &run, from..to, &limits, &mut frame);
///         let DatagramDecoded::Content { stored, bytes, .. } = decoder.decode(counter, &frame)? else {
///             panic!("it refers to acknowledged content only");
///         };
///         assert!(stored && bytes == &run[from..to]);
///         sizes.push(frame.len());
///         (from, counter) = (to, counter + 1);
///     }
///     encoder.acknowledge(tokens.range());
/// }
/// assert_eq!(sizes.len(), 17, "16 slices of 1,000 bytes, then one for all of them");
/// assert!(sizes[0] == 1003 && sizes[16] < 30);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct DatagramEncoder {
    finder: Finder,
    kernels: Kernels,
    pending: Pending,
    indexing: Indexing,
    /// How often content was sent, if that matters.
    sights: Option<Sights>,
    /// End of what was written, of runs in their order.
    written: u64,
    /// By their numbers.
    contexts: Vec<(u8, Box<FrozenWriter>)>,
    /// The number of the context for what is written next.
    context: Option<u8>,
    /// How many of 256 bytes contexts have left of literals, lately.
    scale: u32,
    /// A frame that was written to see whether it fits.
    tried: Option<Tried>,
    scratch: Scratch,
    /// Of the last frame.
    literals: usize,
    new: RangeSet,
}

/// A frame that fits, and what it was written from.
struct Tried {
    /// Place in the log.
    range: Range<u64>,
    limits: Limits,
    withdrawals: u64,
    frame: Vec<u8>,
    written: Written,
}

/// What is expected of contexts before it is known: 7 of 16 bytes are left.
const FIRST_SCALE: u32 = 112;
/// How many slices are tried until one fits.
const TRIES: usize = 3;

impl DatagramEncoder {
    pub(crate) fn new(finder: Finder, kernels: Kernels) -> DatagramEncoder {
        DatagramEncoder {
            finder,
            kernels,
            pending: Pending::default(),
            indexing: Indexing::default(),
            sights: None,
            written: 0,
            contexts: Vec::new(),
            context: None,
            scale: FIRST_SCALE,
            tried: None,
            scratch: Scratch::default(),
            literals: 0,
            new: RangeSet::default(),
        }
    }

    /// Finds what repeats in `run`, as far as `reach` admits, and appends the run to the log.
    ///
    /// # Errors
    /// [`EncodeError::BlockTooLarge`] and [`EncodeError::OffsetsExhausted`]; nothing was changed.
    pub fn search(
        &mut self,
        run: &[u8],
        class: Class,
        reach: Reach,
        tokens: &mut RunTokens,
    ) -> Result<(), EncodeError> {
        let (offset, _) = self.finder.place(run.len())?;
        self.finder.log_mut().set_reach(reach);
        if self.log().width().is_some() {
            // How a run is cut must not show what others send.
            self.scale = FIRST_SCALE;
        }
        let dense = match class {
            Class::Unknown => looks_compressible(run),
            Class::Compressible => true,
            Class::Incompressible => false,
        };
        let note = self.indexing == Indexing::Immediate;
        let how = How { dense, note };
        self.finder.search(None, run, run.len(), offset, how, &mut tokens.tokens);
        if let Some(sights) = &mut self.sights {
            sights.filter(&mut tokens.tokens);
        }
        self.finder.append(run, &tokens.tokens);
        tokens.reach = reach;
        tokens.withdrawals = self.log().withdrawals();
        if !note {
            let floor = self.floor();
            self.pending.push(&tokens.tokens, self.finder.domain(), floor);
        }
        Ok(())
    }

    /// From the next run on, matches are kept only in content that was sent at least `times` before; 0
    /// and 1 keep all. What repeats its own run is kept, too: [`Limits::earlier`] decides about that.
    /// Counting begins now, and takes a 64th of the log's memory more than
    /// [`EncoderBuilder::datagrams_memory`](crate::EncoderBuilder::datagrams_memory) says.
    ///
    /// # Errors
    /// [`ConfigError::Memory`]; nothing was changed.
    pub fn refer_after(&mut self, times: u8) -> Result<(), ConfigError> {
        self.sights = match times {
            0 | 1 => None,
            _ => Some(Sights::new(self.log().geometry().capacity(), times)?),
        };
        Ok(())
    }

    /// Adds or replaces the frozen context of this number; or removes it, with `None`. The decoder must
    /// have the same before it gets frames that were written with it.
    pub fn set_context(&mut self, number: u8, context: Option<&FrozenContext>) {
        self.contexts.retain(|&(other, _)| other != number);
        if let Some(context) = context {
            let writer = FrozenWriter::new(self.kernels, context);
            self.contexts.push((number, Box::new(writer)));
        }
        self.tried = None;
    }

    /// Literals of compressible runs are coded with this context from now on, wherever that makes
    /// frames shorter. `None`, or one that was not set: they are raw.
    pub fn use_context(&mut self, number: Option<u8>) {
        self.context = number;
        self.tried = None;
    }

    /// End of a slice of the run from `from` on that ends at a multiple of `limits.segment`, or with
    /// the run, and whose frame is sure to fit `limits.room`. `from` if there is none.
    ///
    /// Without a context it is the longest such slice. With one, how much literals shrink is known
    /// only when they are coded: it is as long as the slices before let expect, and never shorter
    /// than without.
    pub fn fit(&mut self, tokens: &RunTokens, from: usize, limits: &Limits) -> usize {
        self.tried = None;
        let offset = tokens.range().start + from as u64;
        let width = self.offset_width(offset);
        let slices = Slices::new(tokens, self.finder.log(), limits.earlier);
        let sure = slices.fit(from, width, limits, None);
        let context = self.context.filter(|_| tokens.tokens.dense);
        let Some(context) = context else { return sure };
        for _ in 0..TRIES {
            let slices = Slices::new(tokens, self.finder.log(), limits.earlier);
            let end = slices.fit(from, width, limits, Some(self.scale)).max(sure);
            let range = offset..offset + (end - from) as u64;
            if range.is_empty() {
                break;
            }
            let Some(run) = self.finder.content(tokens.range()) else { break };
            let Some(writer) = find(&mut self.contexts, context) else { break };
            let seed = self.finder.seed();
            let mut frame = Vec::new();
            let written = slices.write(
                run,
                &(from..end),
                width,
                Coding { context: Some((context, writer)), scratch: &mut self.scratch },
                |offset, content| seed.checksum(offset, 0, content),
                &mut frame,
            );
            self.note_scale(written.coded);
            if frame.len() <= limits.room {
                let (limits, withdrawals) = (*limits, tokens.withdrawals);
                self.tried = Some(Tried { range, limits, withdrawals, frame, written });
                return end;
            }
            if end == sure {
                break;
            }
        }
        sure
    }

    /// Appends the frame of a slice of `run` to `out`. Returns whether it depends on content of the
    /// log or on a context, and so may be refused by the decoder. Slices are written in the order
    /// of the run, runs in the order of their search, and the datagrams of the frames have
    /// ascending counters.
    ///
    /// The frame fits where [`DatagramEncoder::fit`] said so, unless something was withdrawn in
    /// between: it refers to nothing of that.
    ///
    /// # Panics
    /// If the slice lies outside the run, or `tokens` belong to a run of another length.
    pub fn write(
        &mut self,
        tokens: &RunTokens,
        run: &[u8],
        slice: Range<usize>,
        limits: &Limits,
        out: &mut Vec<u8>,
    ) -> bool {
        assert_eq!(tokens.tokens.block_len, run.len(), "tokens of another run");
        let offset = tokens.range().start + slice.start as u64;
        let width = self.offset_width(offset);
        self.written = self.written.max(offset + slice.len() as u64);
        let range = offset..offset + slice.len() as u64;
        if let Some(tried) = self.tried.take().filter(|tried| {
            tried.range == range
                && tried.limits == *limits
                && tried.withdrawals == self.finder.log().withdrawals()
        }) {
            out.extend_from_slice(&tried.frame);
            self.literals = tried.written.literals;
            return tried.written.depends;
        }
        let seed = self.finder.seed();
        let slices = Slices::new(tokens, self.finder.log(), limits.earlier);
        let context = match self.context.filter(|_| tokens.tokens.dense) {
            Some(number) => find(&mut self.contexts, number).map(|writer| (number, writer)),
            None => None,
        };
        let checksum = |offset, content: &[u8]| seed.checksum(offset, 0, content);
        let coding = Coding { context, scratch: &mut self.scratch };
        let written = slices.write(run, &slice, width, coding, checksum, out);
        self.note_scale(written.coded);
        self.literals = if tokens.tokens.dense { written.literals } else { 0 };
        written.depends
    }

    /// Bytes of the last frame's content that repeat nothing in the log and look compressible: what
    /// contexts are for.
    pub fn written_literals(&self) -> usize {
        self.literals
    }

    /// Content of the log in `range`, unless it is overwritten or partly padding.
    pub fn content(&self, range: Range<u64>) -> Option<&[u8]> {
        self.finder.content(range)
    }

    /// Takes note of how much shorter literals became.
    fn note_scale(&mut self, coded: Option<(usize, usize)>) {
        if let Some((literals, len)) = coded {
            let now = (256 * len / literals.max(1)).min(256) as u32;
            // Faster upwards: a slice that does not fit is coded again.
            let weight = if now > self.scale { 2 } else { 4 };
            self.scale = (self.scale * (weight - 1) + now).div_ceil(weight);
        }
    }

    /// The ranges below a slice that its frame may refer to, in the order of the slice: nothing
    /// else.
    pub fn sources(
        &self,
        tokens: &RunTokens,
        slice: Range<usize>,
        limits: &Limits,
        each: impl FnMut(Range<u64>),
    ) {
        Slices::new(tokens, self.log(), limits.earlier).for_each_source(&slice, each);
    }

    /// Appends a frame for content that was sent before, in its place and without references: for a
    /// datagram that the decoder could not use.
    ///
    /// # Errors
    /// [`EncodeError::NotHeld`] unless the log still holds all of `range` without padding.
    pub fn repair(&self, range: Range<u64>, out: &mut Vec<u8>) -> Result<(), EncodeError> {
        let len = usize::try_from(range.end.saturating_sub(range.start)).unwrap_or(usize::MAX);
        let not_held = EncodeError::NotHeld { offset: range.start, len };
        if len > self.finder.max_block() {
            return Err(not_held);
        }
        let content = self.finder.content(range.clone()).ok_or(not_held)?;
        frame::write_literals(range.start, OffsetWidth::Eight, content, out);
        Ok(())
    }

    /// The decoder has stored `range`. From now on [`Reach::Acknowledged`] admits it, and with
    /// [`Indexing::Acknowledged`] it is indexed now.
    pub fn acknowledge(&mut self, range: Range<u64>) {
        self.new.clear();
        self.finder.log_mut().acknowledge_new(range, &mut self.new);
        if self.pending.is_empty() {
            return;
        }
        let DatagramEncoder { finder, pending, new, .. } = self;
        for new in new.as_slice() {
            pending.take(new, |part| finder.index(part.range, part.domain, part.dense));
        }
    }

    /// Nothing refers to `range` any more, even if it is acknowledged later: the decoder lacks it or
    /// has something else there.
    pub fn withdraw(&mut self, range: Range<u64>) {
        self.finder.log_mut().withdraw(range);
    }

    /// The log, to read what was acknowledged.
    pub fn log(&self) -> &Log {
        self.finder.log()
    }

    /// When content is indexed, from the next run on.
    pub fn set_indexing(&mut self, indexing: Indexing) {
        self.indexing = indexing;
    }

    /// The next runs belong to `domain`: see [`Encoder::enter`](crate::Encoder::enter).
    pub fn enter(&mut self, domain: Domain) {
        self.finder.enter(domain);
    }

    /// Changes how much work is spent on each run: see
    /// [`Encoder::set_effort`](crate::Encoder::set_effort).
    pub fn set_effort(&mut self, effort: Effort) {
        self.finder.set_effort(effort);
    }

    /// Counters since the encoder was built; a block is a run.
    pub fn stats(&self) -> EncoderStats {
        self.finder.stats()
    }

    /// Memory allocated so far, as of [`Encoder::memory`](crate::Encoder::memory), without the tokens
    /// of runs, which are the caller's.
    pub fn memory(&self) -> EncoderMemory {
        let mut memory = self.finder.memory_of_runs();
        memory.buffers += self.pending.memory()
            + self.log().delivery_memory()
            + self.new.memory()
            + self.sights.as_ref().map_or(0, Sights::memory)
            + self.scratch.memory()
            + self.tried.as_ref().map_or(0, |tried| tried.frame.capacity())
            + self.contexts.capacity() * size_of::<(u8, Box<FrozenWriter>)>()
            + self.contexts.iter().map(|(_, writer)| writer.memory()).sum::<usize>();
        memory
    }

    /// Upper bound of what each frozen context adds to [`DatagramEncoder::memory`], in bytes.
    pub const CONTEXT_MEMORY: usize = FrozenWriter::MOST + 64;

    /// Upper bound in bytes of the buffers of an encoder without frozen contexts, with a log of
    /// `cache` bytes and runs of up to `max_block` bytes.
    pub(crate) fn most_buffers(cache: u64, max_block: usize) -> usize {
        // A slice has two parts of a match at most, and matches have 12 bytes at least; and buffers
        // grow by doubling.
        // Sections of literals, and a frame that was tried.
        let frames = 4 * (2 * max_block + 1024);
        let matches = max_block / 12 + 1;
        let descriptors = 4 * matches * (size_of::<frame::Descriptor>() + Sights::PER_MATCH);
        most_ranges_memory(cache)
            .saturating_mul(3)
            .saturating_add(Pending::MOST_MEMORY)
            .saturating_add(descriptors + frames)
            .saturating_add(16 << 10)
    }

    /// Bytes of the offset of what is written there next.
    fn offset_width(&self, offset: u64) -> OffsetWidth {
        if offset < self.written {
            // Something after it was sent before.
            return OffsetWidth::Eight;
        }
        let width = OffsetWidth::of(offset, self.log().acknowledged_end());
        // One byte more must not show what others have in flight.
        if self.log().width().is_some() { width.max(OffsetWidth::Three) } else { width }
    }

    fn floor(&self) -> u64 {
        self.log().end().saturating_sub(self.log().geometry().capacity())
    }
}

fn find(contexts: &mut [(u8, Box<FrozenWriter>)], number: u8) -> Option<&mut FrozenWriter> {
    contexts.iter_mut().find(|(other, _)| *other == number).map(|(_, writer)| &mut **writer)
}
