//! The content log: the circular store of past blocks, addressed by an absolute 64-bit offset.
//!
//! Both ends of a link hold a log with the same content at the same offsets. The log is a ring of
//! `capacity` bytes: offset `o` lives at ring position `o mod capacity`. A block is never split at
//! the end of the ring; if it does not fit before the end, the rest of the generation is *padding*
//! and the block goes to the start of the next generation. Offsets are therefore dense except for
//! padding, which both ends compute alike ([`Geometry::place`]).

use crate::domain::{Domain, Runs};
use crate::error::ConfigError;
use crate::reach::Delivery;
use oncewire_kernels::{FilePages, Pages};
use std::ops::Range;

mod delivery;
mod restore;

/// Size and span of a log, and the rules that follow from them. The same at both ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Geometry {
    capacity: u64,
    span: u64,
}

impl Geometry {
    /// Largest capacity: 1 TiB.
    pub const MAX_CAPACITY: u64 = 1 << 40;

    /// A log of `capacity` bytes whose decoder accepts frames up to `span` bytes ahead of its
    /// contiguous content. A span of 0 means strictly in order.
    ///
    /// # Errors
    /// [`ConfigError::Capacity`] unless `1 <= capacity <= 2^40`, [`ConfigError::Span`]
    /// unless `span <= capacity / 4`.
    pub fn new(capacity: u64, span: u64) -> Result<Geometry, ConfigError> {
        if capacity == 0 || capacity > Geometry::MAX_CAPACITY || usize::try_from(capacity).is_err()
        {
            return Err(ConfigError::Capacity { capacity, max: Geometry::MAX_CAPACITY });
        }
        if span > capacity / 4 {
            return Err(ConfigError::Span { span, capacity });
        }
        Ok(Geometry { capacity, span })
    }

    /// Size of the ring in bytes.
    pub fn capacity(self) -> u64 {
        self.capacity
    }

    /// How far ahead of the contiguous decoded offset a frame may lie, in bytes.
    pub fn span(self) -> u64 {
        self.span
    }

    /// Where a block of `len` bytes goes if the log's content ends at `end`: there, or at the start
    /// of the next generation.
    pub fn place(self, end: u64, len: usize) -> u64 {
        let position = end % self.capacity;
        if position + len as u64 > self.capacity { end - position + self.capacity } else { end }
    }

    /// Lowest offset that a block at `offset..offset + len` may refer to. Nothing at or above it
    /// can be overwritten by any block that a decoder may accept before this one: the decoder's
    /// contiguous end is above `offset - span`, it accepts nothing beyond `span` above that end,
    /// and a ring overwrites what lies `capacity` behind.
    pub fn floor(self, offset: u64, len: usize) -> u64 {
        (offset + len as u64).saturating_sub(self.capacity - self.span)
    }

    /// First offset of the generation that `offset` lies in.
    pub fn generation_start(self, offset: u64) -> u64 {
        offset - offset % self.capacity
    }

    /// Whether a range ends in the generation in which it begins.
    #[inline(always)]
    pub fn in_one_generation(self, range: &Range<u64>) -> bool {
        self.position(range.start) as u64 + (range.end - range.start) <= self.capacity
    }

    #[inline(always)]
    fn position(self, offset: u64) -> usize {
        (offset % self.capacity) as usize
    }
}

/// Bits of positions of fixed width: enough for every distance within a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Width(u8);

impl Width {
    /// Of a log.
    pub(crate) fn of(geometry: Geometry) -> Width {
        Width((u64::BITS - (geometry.capacity - 1).leading_zeros()).max(1) as u8)
    }

    /// As a frame states it; `None` if no log has it.
    pub(crate) fn stated(bits: u8) -> Option<Width> {
        const MOST: u8 = Geometry::MAX_CAPACITY.ilog2() as u8;
        (1..=MOST).contains(&bits).then_some(Width(bits))
    }

    /// Bits: 1 to 40.
    pub(crate) fn bits(self) -> u8 {
        self.0
    }

    /// Bytes that positions take: 1 to 5.
    pub(crate) fn bytes(self) -> usize {
        usize::from(self.0).div_ceil(8)
    }

    /// Appends a position.
    pub(crate) fn put(self, out: &mut Vec<u8>, position: u64) {
        debug_assert!(position >> self.0 == 0);
        out.extend_from_slice(&position.to_le_bytes()[..self.bytes()]);
    }

    /// Takes a position off the front; `None` if there are too few bytes.
    pub(crate) fn take(self, from: &mut &[u8]) -> Option<u64> {
        let (front, rest) = from.split_at_checked(self.bytes())?;
        *from = rest;
        let mut bytes = [0; 8];
        bytes[..front.len()].copy_from_slice(front);
        Some(u64::from_le_bytes(bytes))
    }
}

/// Which offsets of a log are content and which are padding, without the content: for a log that is
/// written in order without holes, as an encoder's is. A *generation* is one pass over the ring.
#[derive(Clone, Copy, Debug)]
pub struct Generations {
    geometry: Geometry,
    /// End of the highest block written: where the next one goes, padding aside.
    end: u64,
    /// Start of the generation that `end` lies in, or `end` itself when a generation is exactly
    /// full.
    generation: u64,
    /// Where the content of the generation before ended: its padding begins there.
    previous_end: u64,
    /// Where that of the generation before that one ended.
    older_end: u64,
}

impl Generations {
    /// Of an empty log.
    pub fn new(geometry: Geometry) -> Generations {
        Generations { geometry, end: 0, generation: 0, previous_end: 0, older_end: 0 }
    }

    /// Size and rules of the log.
    pub fn geometry(&self) -> Geometry {
        self.geometry
    }

    /// End of the highest block written.
    pub fn end(&self) -> u64 {
        self.end
    }

    /// A block of `len` bytes was written at `offset`.
    pub fn advance(&mut self, offset: u64, len: usize) {
        let end = offset + len as u64;
        if end > self.end {
            let generation = self.geometry.generation_start(offset);
            if generation != self.generation {
                self.older_end = self.previous_end;
                self.previous_end = self.end;
                self.generation = generation;
            }
            self.end = end;
        }
    }

    /// See [`Log::rewind`].
    pub fn rewind(&mut self, offset: u64) -> bool {
        let possible = (self.generation..=self.end).contains(&offset)
            && self.end - offset <= self.geometry.span;
        if possible {
            self.end = offset;
        }
        possible
    }

    /// See [`Log::extent`]; domains do not matter here.
    #[inline]
    pub fn extent(&self, offset: u64, floor: u64) -> Option<Range<u64>> {
        let (start, end) = if offset >= self.generation {
            (self.generation, self.end)
        } else {
            (self.generation.checked_sub(self.geometry.capacity)?, self.previous_end)
        };
        let start = start.max(floor);
        (start <= offset && offset < end).then_some(start..end)
    }

    /// See [`Log::padding_before`].
    pub fn padding_before(&self, offset: u64) -> Option<u64> {
        if offset == self.generation {
            Some(offset - self.previous_end)
        } else {
            (self.geometry.generation_start(offset) != offset).then_some(0)
        }
    }
}

/// Where the bytes of a log are.
#[derive(Debug)]
enum Ring {
    /// Offset `o` lies at position `o mod capacity`.
    Own(Pages<u8>),
    /// In a file of all content without padding, which somebody else writes.
    File {
        pages: FilePages,
        /// Padding before the newest generation, and before the one before it.
        padded: (u64, u64),
        /// Position below which pages are given back.
        given_back: usize,
    },
}

/// Bytes of a file behind the reach of the log that are given back at once.
const GIVE_BACK: usize = 64 << 20;

/// The ring. Its owner knows which ranges are valid; the log only knows where content ended.
#[derive(Debug)]
pub struct Log {
    ring: Ring,
    generations: Generations,
    /// Nothing refers to content below, although the ring may have room for it: see
    /// [`Log::rewind_to`].
    begin: u64,
    /// The domain of what is written and read now.
    domain: Domain,
    /// Where content of which domain lies; `None` as long as there is only one.
    runs: Option<Runs>,
    /// What of it the decoder has; `None` as long as nobody has said: then all of it.
    pub(crate) delivery: Option<Box<Delivery>>,
}

impl Log {
    /// An empty log. Memory is committed as it fills.
    ///
    /// # Errors
    /// [`ConfigError::Memory`] if the system has no memory of that size to map.
    pub fn new(geometry: Geometry) -> Result<Log, ConfigError> {
        let bytes = geometry.capacity as usize;
        let ring = Pages::zeroed(bytes).map_err(|source| ConfigError::Memory {
            bytes,
            what: "content log",
            source,
        })?;
        Ok(Log::over(geometry, Ring::Own(ring)))
    }

    /// An empty log over a file of all content, without padding: [`Log::write`] copies nothing. It
    /// must be written in order, without holes and rewinding. A block need not be in the file
    /// before its place in the log is read.
    pub fn of_file(geometry: Geometry, pages: FilePages) -> Log {
        Log::over(geometry, Ring::File { pages, padded: (0, 0), given_back: 0 })
    }

    fn over(geometry: Geometry, ring: Ring) -> Log {
        Log {
            ring,
            generations: Generations::new(geometry),
            begin: 0,
            domain: Domain::COMMON,
            runs: None,
            delivery: None,
        }
    }

    #[inline(always)]
    fn bytes(&self) -> &[u8] {
        match &self.ring {
            Ring::Own(pages) => pages,
            Ring::File { pages, .. } => pages,
        }
    }

    #[inline(always)]
    fn position(&self, offset: u64) -> usize {
        match &self.ring {
            Ring::Own(_) => self.generations.geometry.position(offset),
            Ring::File { padded, .. } => {
                let is_newest = offset >= self.generations.generation;
                // An offset that was never content gives no position in the file.
                offset.wrapping_sub(if is_newest { padded.0 } else { padded.1 }) as usize
            }
        }
    }

    /// The size and rules of this log.
    pub fn geometry(&self) -> Geometry {
        self.generations.geometry
    }

    /// End of the highest block written.
    pub fn end(&self) -> u64 {
        self.generations.end
    }

    /// Lowest offset that a block at `offset..offset + len` may refer to: [`Geometry::floor`], and
    /// not below what the logs of both ends hold.
    #[inline]
    pub fn floor(&self, offset: u64, len: usize) -> u64 {
        self.geometry().floor(offset, len).max(self.begin)
    }

    /// Memory of the ring in bytes; none for that of a file, which the system can take back.
    pub fn memory(&self) -> usize {
        match &self.ring {
            Ring::Own(pages) => pages.len(),
            Ring::File { .. } => 0,
        }
    }

    /// Memory in bytes of the notes on domains.
    pub(crate) fn runs_memory(&self) -> usize {
        self.runs.as_ref().map_or(0, Runs::memory)
    }

    /// Touches all memory, for measurements.
    pub fn prefault(&mut self) {
        if let Ring::Own(pages) = &mut self.ring {
            pages.prefault();
        }
    }

    /// What is written from now on belongs to `domain`, and [`Log::extent`] finds only content of
    /// it. A new log is in [`Domain::COMMON`].
    pub fn enter(&mut self, domain: Domain) {
        if domain != self.domain && self.runs.is_none() && self.end() > 0 {
            self.runs = Some(Runs::new(self.geometry().capacity(), self.domain));
        }
        self.domain = domain;
    }

    /// Bits of positions in frames, if their size must not show how much of the log belongs to
    /// others: from the second domain on.
    pub(crate) fn width(&self) -> Option<Width> {
        self.runs.as_ref().map(|_| Width::of(self.geometry()))
    }

    /// Writes a block at `offset`, which must not cross the end of a generation.
    ///
    /// # Panics
    /// If it does; callers place blocks with [`Geometry::place`] or have checked a peer's offset.
    pub fn write(&mut self, offset: u64, block: &[u8]) {
        let capacity = self.generations.geometry.capacity;
        match &mut self.ring {
            Ring::Own(pages) => {
                let position = self.generations.geometry.position(offset);
                pages.fill(position..position + block.len());
                pages[position..position + block.len()].copy_from_slice(block);
            }
            Ring::File { pages, padded, given_back } => {
                let Generations { generation, end, .. } = self.generations;
                let begins = self.generations.geometry.generation_start(offset) != generation;
                // An empty block begins nothing.
                if begins && !block.is_empty() {
                    *padded = (padded.0 + (offset - end), padded.0);
                }
                let out_of_reach = (offset - padded.0).saturating_sub(capacity) as usize;
                if out_of_reach >= *given_back + GIVE_BACK {
                    pages.forget(*given_back..out_of_reach);
                    *given_back = out_of_reach;
                }
            }
        }
        self.wrote(offset, block.len());
    }

    /// Whether it is memory, not a file.
    pub(crate) fn is_memory(&self) -> bool {
        matches!(self.ring, Ring::Own(_))
    }

    /// All bytes of the ring, and the position in it of `offset`, to write a block of `len` bytes
    /// in its place before [`Log::wrote`] tells of it. It overwrites content one capacity below.
    /// `None` for a log over a file.
    ///
    /// # Panics
    /// If the block would cross the end of a generation.
    pub(crate) fn place(&mut self, offset: u64, len: usize) -> Option<(&mut [u8], usize)> {
        let Ring::Own(pages) = &mut self.ring else { return None };
        let position = self.generations.geometry.position(offset);
        assert!(position + len <= pages.len(), "a block crosses the end of a generation");
        pages.fill(position..position + len);
        Some((pages, position))
    }

    /// A block of `len` bytes was written at `offset`.
    pub(crate) fn wrote(&mut self, offset: u64, len: usize) {
        if let Some(runs) = self.runs.as_mut().filter(|_| len > 0) {
            let end = offset + len as u64;
            runs.push(offset, self.domain, end.saturating_sub(self.generations.geometry.capacity));
        }
        self.generations.advance(offset, len);
    }

    /// Writes a block after the last one, padding as the rules say, and returns its offset.
    pub fn append(&mut self, block: &[u8]) -> u64 {
        let offset = self.generations.geometry.place(self.generations.end, block.len());
        self.write(offset, block);
        offset
    }

    /// The bytes at `range`, which the caller knows to be present and within one generation.
    ///
    /// # Panics
    /// If the range crosses the end of a generation.
    #[inline(always)]
    pub fn read(&self, range: Range<u64>) -> &[u8] {
        let position = self.position(range.start);
        &self.bytes()[position..position + (range.end - range.start) as usize]
    }

    /// All bytes from `offset` to the end of the ring or file, valid or not, so that
    /// short reads can have a fixed size.
    #[inline(always)]
    pub(crate) fn read_from(&self, offset: u64) -> &[u8] {
        &self.bytes()[self.position(offset)..]
    }

    /// Forgets what was written at `offset` and above, so that other content can go there. Returns
    /// whether that is possible: `offset` must lie in the newest generation, and not below what the
    /// log began with.
    ///
    /// Content that the forgotten blocks overwrote stays lost. If they lay within one span of
    /// `offset`, nothing refers to it, because [`Geometry::floor`] lies above it.
    pub fn rewind(&mut self, offset: u64) -> bool {
        let possible = offset >= self.begin && self.generations.rewind(offset);
        if let Some(runs) = self.runs.as_mut().filter(|_| possible) {
            runs.rewind(offset);
        }
        possible
    }

    /// The contiguous readable content around `offset` for a block that may refer to `floor` and
    /// above: within one generation, without padding, of the domain that was entered, and what
    /// [`Log::set_reach`] admits. `None` if `offset` itself is not readable.
    ///
    /// Only for a log written in order without holes, as an encoder's is.
    #[inline]
    pub fn extent(&self, offset: u64, floor: u64) -> Option<Range<u64>> {
        let mut all = self.generations.extent(offset, floor)?;
        if let Some(runs) = &self.runs {
            let run = runs.around(offset, self.domain)?;
            all = all.start.max(run.start)..all.end.min(run.end);
        }
        if let Some(delivery) = &self.delivery {
            let there = delivery.around(offset)?;
            all = all.start.max(there.start)..all.end.min(there.end);
        }
        Some(all)
    }

    /// Whether all content in a range belongs to the domain that was entered, as what is written
    /// from the end on will.
    pub(crate) fn is_undivided(&self, range: &Range<u64>) -> bool {
        let Some(runs) = &self.runs else { return true };
        range.start >= self.end()
            || runs.around(range.start, self.domain).is_some_and(|run| range.end <= run.end)
    }

    /// As [`Log::extent`], of all domains.
    pub(crate) fn extent_of_all(&self, offset: u64, floor: u64) -> Option<Range<u64>> {
        self.generations.extent(offset, floor)
    }

    /// Padding before the block at `offset`: the rest of the previous generation, if the block
    /// starts the newest one. `None` if it starts an older one, of which that is no longer known.
    pub fn padding_before(&self, offset: u64) -> Option<u64> {
        self.generations.padding_before(offset)
    }

    /// Prefetches the cache line at `offset`.
    #[inline(always)]
    pub fn prefetch(&self, offset: u64) {
        let ring = match &self.ring {
            Ring::Own(pages) => pages,
            Ring::File { pages, .. } => return pages.prefetch(self.position(offset)),
        };
        let Generations { generation, geometry, .. } = self.generations;
        let position = if offset >= generation {
            offset - generation
        } else {
            (offset + geometry.capacity).wrapping_sub(generation)
        };
        ring.prefetch(position as usize);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_that_does_not_fit_starts_the_next_generation() {
        let geometry = Geometry::new(100, 0).unwrap();
        assert_eq!(geometry.place(0, 100), 0);
        assert_eq!(geometry.place(60, 40), 60);
        assert_eq!(geometry.place(60, 41), 100);
        assert_eq!(geometry.place(100, 1), 100);
        assert_eq!(geometry.place(163, 38), 200);
        assert_eq!(geometry.place(163, 0), 163);
    }

    #[test]
    fn the_floor_leaves_room_for_all_that_may_come_first() {
        let geometry = Geometry::new(100, 25).unwrap();
        assert_eq!(geometry.floor(0, 10), 0);
        assert_eq!(geometry.floor(70, 10), 5);
        assert!(Geometry::new(100, 26).is_err());
        assert!(Geometry::new(0, 0).is_err());
        assert!(Geometry::new((1 << 40) + 1, 0).is_err());
    }

    #[test]
    fn extents_stop_at_padding_generations_and_the_floor() {
        let mut log = Log::new(Geometry::new(100, 0).unwrap()).unwrap();
        assert_eq!(log.append(&[1; 50]), 0);
        assert_eq!(log.append(&[2; 40]), 50);
        assert_eq!(log.append(&[3; 30]), 100);
        // A block of ten comes next: below 40 everything may be overwritten.
        let floor = log.geometry().floor(130, 10);
        assert_eq!(floor, 40);
        assert_eq!(log.extent(60, floor), Some(40..90));
        assert_eq!(log.extent(95, floor), None);
        assert_eq!(log.extent(39, floor), None);
        assert_eq!(log.extent(100, floor), Some(100..130));
        assert_eq!(log.extent(130, floor), None);
        assert_eq!(log.read(50..60), &[2; 10]);
        assert_eq!(log.read(100..130), &[3; 30]);
        assert_eq!(log.end(), 130);
    }

    #[test]
    fn positions_are_as_wide_as_the_largest_distance() {
        for (capacity, bits, bytes) in
            [(1, 1, 1), (2, 1, 1), (3, 2, 1), (256, 8, 1), (257, 9, 2), (1 << 40, 40, 5)]
        {
            let width = Width::of(Geometry::new(capacity, 0).unwrap());
            assert_eq!((width.bits(), width.bytes()), (bits, bytes), "{capacity}");
            assert_eq!(Width::stated(bits), Some(width));
            let mut out = Vec::new();
            width.put(&mut out, capacity - 1);
            assert_eq!(width.take(&mut &out[..]), Some(capacity - 1));
            assert_eq!(width.take(&mut &out[1..]), None);
        }
        assert_eq!([0, 41, 255].map(Width::stated), [None; 3]);
    }

    #[test]
    fn content_is_divided_where_others_have_written() {
        let mut log = Log::new(Geometry::new(1000, 0).unwrap()).unwrap();
        log.append(&[1; 100]);
        assert!(log.width().is_none() && log.is_undivided(&(0..100)));
        log.enter(Domain(2));
        log.append(&[2; 50]);
        assert!(log.width().is_some());
        let of_second = [100..150, 100..150, 100..200, 150..200, 99..150];
        let undivided = of_second.map(|range| log.is_undivided(&range));
        assert_eq!(undivided, [true, true, true, true, false]);
        log.enter(Domain::COMMON);
        let of_first = [0..100, 0..101, 90..160, 150..200].map(|range| log.is_undivided(&range));
        assert_eq!(of_first, [true, false, false, true]);
        log.append(&[1; 50]);
        assert!(log.is_undivided(&(150..200)) && !log.is_undivided(&(90..200)));
    }

    #[test]
    fn a_generation_may_be_exactly_full() {
        let mut log = Log::new(Geometry::new(100, 0).unwrap()).unwrap();
        log.append(&[1; 100]);
        assert_eq!(log.extent(99, 0), Some(0..100));
        assert_eq!(log.append(&[2; 100]), 100);
        assert_eq!(log.extent(100, 100), Some(100..200));
        assert_eq!(log.append(&[3; 1]), 200);
        assert_eq!(log.extent(199, 101), Some(101..200));
    }
}
