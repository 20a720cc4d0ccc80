//! Runs to frames in datagrams.

use super::frame::{self, Descriptor, OffsetWidth};
use super::pending::Pending;
use super::run::{Limits, RunTokens, Slices};
use crate::adapt::Effort;
use crate::domain::Domain;
use crate::encoder::{EncoderMemory, EncoderStats, Finder, How, looks_compressible};
use crate::error::EncodeError;
use crate::log::Log;
use crate::ranges::RangeSet;
use crate::reach::{Reach, most_ranges_memory};
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
    pending: Pending,
    indexing: Indexing,
    /// End of what was written, of runs in their order.
    written: u64,
    descriptors: Vec<Descriptor>,
    new: RangeSet,
}

impl DatagramEncoder {
    pub(crate) fn new(finder: Finder) -> DatagramEncoder {
        DatagramEncoder {
            finder,
            pending: Pending::default(),
            indexing: Indexing::default(),
            written: 0,
            descriptors: Vec::new(),
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
        let dense = match class {
            Class::Unknown => looks_compressible(run),
            Class::Compressible => true,
            Class::Incompressible => false,
        };
        let note = self.indexing == Indexing::Immediate;
        let how = How { dense, note };
        self.finder.search(None, run, run.len(), offset, how, &mut tokens.tokens);
        self.finder.append(run, &tokens.tokens);
        tokens.reach = reach;
        tokens.withdrawals = self.log().withdrawals();
        if !note {
            let floor = self.floor();
            self.pending.push(&tokens.tokens, self.finder.domain(), floor);
        }
        Ok(())
    }

    /// End of the longest slice of the run from `from` on that ends at a multiple of
    /// `limits.segment`, or with the run, and whose frame is sure to fit `limits.room`. `from` if
    /// there is none.
    pub fn fit(&self, tokens: &RunTokens, from: usize, limits: &Limits) -> usize {
        let width = self.offset_width(tokens.range().start + from as u64);
        Slices::new(tokens, self.log(), limits.earlier).fit(from, width, limits)
    }

    /// Appends the frame of a slice of `run` to `out`. Returns whether it depends on content of the
    /// log. Slices are written in the order of the run, runs in the order of their search, and the
    /// datagrams of the frames have ascending counters.
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
        let seed = self.finder.seed();
        let slices = Slices::new(tokens, self.finder.log(), limits.earlier);
        let checksum = |offset, content: &[u8]| seed.checksum(offset, 0, content);
        slices.write(run, &slice, width, &mut self.descriptors, checksum, out)
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
            + self.descriptors.capacity() * size_of::<Descriptor>();
        memory
    }

    /// Upper bound in bytes of the buffers of an encoder with a log of `cache` bytes and runs of up to
    /// `max_block` bytes.
    pub(crate) fn most_buffers(cache: u64, max_block: usize) -> usize {
        // A slice has two parts of a match at most, and matches have 12 bytes at least; and buffers
        // grow by doubling.
        let descriptors = 4 * (max_block / 12 + 1) * size_of::<Descriptor>();
        most_ranges_memory(cache)
            .saturating_mul(3)
            .saturating_add(Pending::MOST_MEMORY)
            .saturating_add(descriptors)
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
