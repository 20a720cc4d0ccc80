//! Matches and literals to verified blocks, in the log.

use crate::error::FrameError;
use crate::format::{ChecksumSeed, FrameView};
use crate::limits::{DEFAULT_BLOCK, MAX_OFFSET};
use crate::log::{Geometry, Log};
use crate::matcher::Match;
use crate::policy::CachePolicy;
use crate::ranges::RangeSet;
use oncewire_kernels::prefetch;
use std::ops::Range;

/// The second half of a decoder: the log. Turns matches and literals into verified blocks.
pub(crate) struct Assembler {
    pub(super) log: Log,
    seed: ChecksumSeed,
    /// Content and padding present, within one capacity of the end.
    pub(super) held: RangeSet,
    /// The padding among it, which nothing may refer to. At most a few ranges, one per generation.
    padding: RangeSet,
    /// End of the contiguous content.
    pub(crate) low: u64,
    /// Where the last block lies in the log, if it was assembled there; it is in `block` otherwise.
    in_log: Option<u64>,
    /// The last block, with some room after it, if it was not assembled in the log.
    block: Vec<u8>,
    block_len: usize,
    /// Its checksum.
    pub(super) checksum: u64,
    max_block: usize,
    pub(crate) policy: CachePolicy,
    /// The bytes of a block that enter the log, if not all of it.
    kept: Vec<u8>,
}

/// Where a block goes, and what it must be.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Place {
    pub(crate) offset: u64,
    /// Bytes of padding before it.
    pub(crate) padding: u64,
    pub(crate) block_len: usize,
    pub(crate) checksum: u64,
}

impl Assembler {
    pub(crate) fn new(log: Log, max_block: usize, seed: ChecksumSeed) -> Assembler {
        Assembler {
            log,
            seed,
            held: RangeSet::default(),
            padding: RangeSet::default(),
            low: 0,
            in_log: None,
            block: Vec::new(),
            block_len: 0,
            checksum: 0,
            max_block,
            policy: CachePolicy::All,
            kept: Vec::new(),
        }
    }

    pub(crate) fn geometry(&self) -> Geometry {
        self.log.geometry()
    }

    /// The last block.
    pub(crate) fn content(&self) -> &[u8] {
        match self.in_log {
            Some(offset) => self.log.read(offset..offset + self.block_len as u64),
            None => &self.block[..self.block_len],
        }
    }

    /// Where a frame's block goes.
    ///
    /// # Errors
    /// [`FrameError::Offset`] if that is outside what is acceptable now, overlaps content that is
    /// held, or crosses a generation.
    pub(super) fn offset_of(&self, view: &FrameView<'_>) -> Result<u64, FrameError> {
        let geometry = self.geometry();
        let next = geometry.place(self.low, view.block_len);
        let Some((offset, padding)) = view.explicit else {
            // In order, with nothing held beyond: always acceptable.
            let free = !self.held.overlaps(&(self.low..next + view.block_len as u64));
            return if free { Ok(next) } else { Err(self.bad_offset(next)) };
        };
        let end = offset + view.block_len as u64;
        // The next block may be larger than the span. A block that starts a generation is the next
        // only if its padding says that the generation before ended at `low`.
        let is_next = offset == next && offset - padding == self.low;
        let in_window =
            is_next || (offset >= self.low && end <= self.low.saturating_add(geometry.span()));
        let in_generation = geometry.place(offset, view.block_len) == offset;
        // Padding ends a generation, so what follows it starts one; and it is shorter than a block,
        // which would have fitted otherwise.
        let padding_ok = padding == 0
            || (geometry.generation_start(offset) == offset
                && padding < (self.max_block as u64).min(geometry.capacity()));
        let covered = offset - padding..end;
        // The lowest frame adds no ranges and must always be accepted.
        let room = self.held.as_slice().len() < MAX_HELD_RANGES
            || covered.start == self.low
            || self.held.overlaps(&(covered.start.saturating_sub(1)..end + 1));
        if in_window && in_generation && padding_ok && room && !self.held.overlaps(&covered) {
            Ok(offset)
        } else {
            Err(self.bad_offset(offset))
        }
    }

    fn bad_offset(&self, offset: u64) -> FrameError {
        FrameError::Offset {
            offset,
            low: self.low,
            high: self.low.saturating_add(self.geometry().span()),
        }
    }

    /// Collects the parts of the matches' sources that are not held. A source that no frame at
    /// `offset` may refer to is an error.
    pub(super) fn missing(
        &self,
        offset: u64,
        block_len: usize,
        matches: &[Match],
        missing: &mut RangeSet,
    ) -> Result<(), FrameError> {
        for found in matches {
            let geometry = self.geometry();
            if let Some(source) = check_source(geometry, &self.padding, offset, block_len, found)? {
                self.held.holes_in(&source, missing);
            }
        }
        Ok(())
    }

    /// The content that sources refer to, which is held.
    pub(super) fn contents(&self, sources: &[Match]) -> Vec<&[u8]> {
        sources
            .iter()
            .map(|source| self.log.read(source.source..source.source + u64::from(source.len)))
            .collect()
    }

    /// Where the block of a frame goes, of which [`Assembler::offset_of`] gave the offset.
    pub(super) fn place(&self, view: &FrameView<'_>, offset: u64) -> Place {
        let padding = view.explicit.map_or(offset - self.low, |(_, padding)| padding);
        Place { offset, padding, block_len: view.block_len, checksum: view.checksum }
    }

    /// Builds a block and verifies it. It is in the log then, or, on error, the log has lost what
    /// the block would have overwritten, to which no frame of an encoder refers that keeps the
    /// rules: it lies below the floor.
    pub(crate) fn assemble(
        &mut self,
        place: Place,
        matches: &[Match],
        literals: &[u8],
    ) -> Result<(), FrameError> {
        let Place { offset, padding, block_len, checksum } = place;
        // What was the last block may be overwritten, and nothing else is one yet.
        (self.in_log, self.block_len) = (None, 0);
        let in_log = self.policy == CachePolicy::All && self.log.is_memory();
        let built = if in_log {
            self.build_in_log(offset, block_len, matches, literals)
        } else {
            self.build_beside(offset, block_len, matches, literals)
        };
        let verified = built.and_then(|()| {
            let content = if in_log {
                self.log.read(offset..offset + block_len as u64)
            } else {
                &self.block[..block_len]
            };
            if self.seed.checksum(offset, padding, content) == checksum {
                Ok(())
            } else {
                Err(FrameError::Checksum { offset, len: block_len })
            }
        });
        if verified.is_err() && in_log {
            let overwritten =
                (offset + block_len as u64).saturating_sub(self.geometry().capacity());
            self.held.remove_below(overwritten);
            self.padding.remove_below(overwritten);
        }
        verified?;
        self.checksum = checksum;
        self.block_len = block_len;
        if in_log {
            self.in_log = Some(offset);
            self.log.wrote(offset, block_len);
            self.note(offset, block_len, padding);
        } else {
            self.take(offset, padding, matches);
        }
        Ok(())
    }

    /// Builds a block in its place in the log, where nothing refers to it yet.
    fn build_in_log(
        &mut self,
        offset: u64,
        block_len: usize,
        matches: &[Match],
        mut literals: &[u8],
    ) -> Result<(), FrameError> {
        let geometry = self.log.geometry();
        let (ring, start) = self.log.place(offset, block_len).expect("the log is memory");
        let end = start + block_len;
        // Sources lie in the generation of the block or in the one before it.
        let generation = offset - start as u64;
        let position = |source: u64| match source.checked_sub(generation) {
            Some(position) => position as usize,
            None => source.wrapping_add(geometry.capacity()).wrapping_sub(generation) as usize,
        };
        let mut done = start;
        for (i, found) in matches.iter().enumerate() {
            if let Some(soon) = matches.get(i + PREFETCH_AHEAD) {
                prefetch(ring, position(soon.source));
            }
            let (at, len) = (start + found.at as usize, found.len as usize);
            literals = copy_literals(&mut ring[..end], done..at, literals);
            match check_source(geometry, &self.padding, offset, block_len, found)? {
                Some(source) if self.held.contains(&source) => {
                    copy_within(ring, position(source.start), at, len, end);
                }
                Some(source) => {
                    let len = source.end - source.start;
                    return Err(FrameError::Reference { source_offset: source.start, len });
                }
                None => {
                    repeat(&mut ring[start..end], (found.source - offset) as usize, at - start, len)
                }
            }
            done = at + len;
        }
        copy_literals(&mut ring[..end], done..end, literals);
        Ok(())
    }

    /// Builds a block in a separate buffer.
    fn build_beside(
        &mut self,
        offset: u64,
        block_len: usize,
        matches: &[Match],
        mut literals: &[u8],
    ) -> Result<(), FrameError> {
        self.block.resize(self.max_block + COPY_SLACK, 0);
        let geometry = self.log.geometry();
        let mut done = 0;
        for (i, found) in matches.iter().enumerate() {
            if let Some(soon) = matches.get(i + PREFETCH_AHEAD) {
                self.log.prefetch(soon.source);
            }
            let at = found.at as usize;
            literals = copy_literals(&mut self.block, done..at, literals);
            match check_source(geometry, &self.padding, offset, block_len, found)? {
                Some(source) if self.held.contains(&source) => {
                    copy(&mut self.block, at..found.end(), self.log.read_from(source.start));
                }
                Some(source) => {
                    let len = source.end - source.start;
                    return Err(FrameError::Reference { source_offset: source.start, len });
                }
                None => repeat(
                    &mut self.block,
                    (found.source - offset) as usize,
                    at,
                    found.len as usize,
                ),
            }
            done = found.end();
        }
        copy_literals(&mut self.block, done..block_len, literals);
        Ok(())
    }

    pub(super) fn rewind(&mut self, seed: ChecksumSeed) {
        self.seed = seed;
        self.held.remove_from(self.low);
        self.padding.remove_from(self.low);
    }

    /// See [`crate::Decoder::rewind_to`].
    pub(super) fn rewind_to(&mut self, offset: u64, seed: ChecksumSeed) -> bool {
        let possible = self.held_from() < offset && offset <= self.low;
        if possible {
            self.low = offset;
            self.rewind(seed);
        }
        possible
    }

    /// See [`crate::Decoder::begin_at`].
    pub(super) fn begin_at(&mut self, offset: u64) -> bool {
        let possible = self.low == 0 && self.log.is_memory() && self.log.begin_at(offset);
        if possible {
            self.low = offset;
        }
        possible
    }

    /// Lowest offset from which on everything is held up to `low`.
    pub(super) fn held_from(&self) -> u64 {
        let last = self.low.checked_sub(1).and_then(|last| self.held.around(last));
        last.map_or(self.low, |range| range.start)
    }

    /// See [`crate::Decoder::restore`].
    pub(super) fn restore(&mut self, offset: u64, content: &[u8]) -> bool {
        let fits = !content.is_empty()
            && content.len() <= DEFAULT_BLOCK
            && offset < MAX_OFFSET
            && self.policy == CachePolicy::All
            && self.log.is_memory()
            && self.log.follows(offset, self.max_block)
            && self.geometry().place(offset, content.len()) == offset;
        if fits {
            if self.log.end() == 0 {
                self.low = offset;
            }
            self.log.write(offset, content);
            self.note(offset, content.len(), offset - self.low);
        }
        fits
    }

    /// Writes what the policy keeps of `self.block` to the log at `offset`.
    fn take(&mut self, offset: u64, padding: u64, matches: &[Match]) {
        let mut content = &self.block[..self.block_len];
        if self.policy != CachePolicy::All {
            self.kept.clear();
            self.policy.keep(content, matches, &mut self.kept);
            content = &self.kept;
        }
        let len = content.len();
        self.log.write(offset, content);
        self.note(offset, len, padding);
    }

    /// The log holds `len` bytes at `offset` now, and padding before them.
    fn note(&mut self, offset: u64, len: usize, padding: u64) {
        let end = offset + len as u64;
        self.held.insert(offset - padding..end);
        if padding > 0 {
            self.padding.insert(offset - padding..offset);
        }
        // Before anything is forgotten: a block and its padding may fill the ring.
        self.low = self.held.contiguous_from(self.low);
        // The ring has overwritten these.
        let floor = self.log.end().saturating_sub(self.geometry().capacity());
        self.held.remove_below(floor);
        self.padding.remove_below(floor);
    }

    pub(super) fn prime(&mut self, content: &[u8]) {
        for block in content.chunks(self.max_block) {
            self.block.clear();
            self.block.extend_from_slice(block);
            (self.in_log, self.block_len) = (None, block.len());
            let offset = self.geometry().place(self.low, block.len());
            self.take(offset, offset - self.low, &[]);
        }
    }

    pub(super) fn buffers(&self) -> usize {
        self.block.capacity() + self.kept.capacity() + self.held.memory() + self.padding.memory()
    }
}

/// The log range that a match refers to, or `None` if it lies in the block itself.
#[inline(always)]
fn check_source(
    geometry: Geometry,
    padding: &RangeSet,
    offset: u64,
    block_len: usize,
    found: &Match,
) -> Result<Option<Range<u64>>, FrameError> {
    let (source, len) = (found.source, u64::from(found.len));
    if source >= offset {
        // Below its own position, as the descriptors guarantee.
        return Ok(None);
    }
    let range = source..source + len;
    let allowed = source >= geometry.floor(offset, block_len)
        && range.end <= offset
        && geometry.in_one_generation(&range)
        && !padding.overlaps(&range);
    if allowed {
        Ok(Some(range))
    } else {
        Err(FrameError::Reference { source_offset: source, len })
    }
}

/// Most disjoint ranges that a log may hold while frames arrive out of order. They take 16 bytes
/// each; the limit stops a peer that sends tiny blocks far apart.
pub(super) const MAX_HELD_RANGES: usize = 1 << 16;
/// Bytes that [`copy`] moves at once, whatever the length. The block's buffer has this much room at
/// its end.
pub(crate) const COPY_SLACK: usize = 32;
/// Number of matches whose source is prefetched.
const PREFETCH_AHEAD: usize = 4;

/// Copies the front of `from` to the range `to` of `block`.
///
/// Most matches and runs of literals are short. Copying a fixed number of bytes and letting the
/// next copy overwrite the excess is several times faster than copying the exact length.
#[inline(always)]
pub(crate) fn copy(block: &mut [u8], to: Range<usize>, from: &[u8]) {
    if to.len() <= COPY_SLACK
        && let (Some(to), Some(from)) =
            (block[to.start..].first_chunk_mut::<COPY_SLACK>(), from.first_chunk())
    {
        *to = *from;
    } else {
        let len = to.len();
        block[to].copy_from_slice(&from[..len]);
    }
}

/// Copies `len` bytes of the log to `to`, in a block that ends at `end`. As [`copy`], except that
/// what lies behind the block keeps its content.
#[inline(always)]
fn copy_within(ring: &mut [u8], from: usize, to: usize, len: usize, end: usize) {
    if len <= COPY_SLACK
        && to + COPY_SLACK <= end
        && let Some(&bytes) = ring[from..].first_chunk::<COPY_SLACK>()
        && let Some(place) = ring[to..].first_chunk_mut::<COPY_SLACK>()
    {
        *place = bytes;
    } else {
        ring.copy_within(from..from + len, to);
    }
}

/// Copies as many literals as `to` is long, and returns the rest.
#[inline(always)]
pub(crate) fn copy_literals<'l>(
    block: &mut [u8],
    to: Range<usize>,
    literals: &'l [u8],
) -> &'l [u8] {
    let len = to.len();
    copy(block, to, literals);
    // The frame reader made sure that there are as many as the matches leave room for.
    &literals[len..]
}

/// Copies `len` bytes inside the block from `from` to `to`, which may overlap: then the bytes
/// repeat.
pub(crate) fn repeat(block: &mut [u8], from: usize, to: usize, len: usize) {
    debug_assert!(from < to && to + len <= block.len());
    // Each step copies all that stands since `from`, a whole number of periods, so the stretch
    // doubles.
    let mut done = 0;
    while done < len {
        let step = (to + done - from).min(len - done);
        block.copy_within(from..from + step, to + done);
        done += step;
    }
}
