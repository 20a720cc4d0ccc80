//! One log in its file: append, commit, read, rewind.
//!
//! What holds after a crash at any moment is the last commit, whole: units are sealed into places
//! that no commit refers to, and a commit writes the state that the one before it did not write.
//! Which units count is what state and footers say by their tags, so whatever else lies in the file,
//! of an earlier use or of content that was taken back, is not there.

mod read;

use super::error::{AppendError, Failed, HeaderError, Lost};
use super::layout::{Footer, LogHeader, Place, Shape, State, UNIT, UNIT_CONTENT, content_of, seal};
use super::seal::Sealer;
use crate::device::{Aligned, Device, PAGE};
use read::{Loaded, read_state};
use std::fmt;

/// Units that are written or read at once, at most: each write or read costs the system as much as
/// sealing a unit.
const RUN: usize = 8;
/// Largest gap between appended bytes, in bytes: padding of a content log is shorter than a block.
pub const MAX_GAP: u64 = 1 << 20;

/// A log that is open.
///
/// It has no thread: each call returns when its reads and writes are done. After a failure, every
/// call that writes fails, and the content of the last commit is there when it is opened again.
pub struct DiskLog {
    device: Box<dyn Device>,
    header: LogHeader,
    sealer: Sealer,
    about: Vec<u8>,
    /// Number of the newest state.
    number: u64,
    state: State,
    /// Units that are full, sealed and not written yet, and behind them the one that the tail lies
    /// in, with its content in its place.
    units: Aligned,
    /// How many are full, and the first offset of the first of them.
    full: usize,
    first: u64,
    /// Units may be written up to here until the next commit.
    limit: u64,
    /// Content was taken back or skipped, and a commit must say so before anything is written.
    must_commit: bool,
    failed: Option<Failed>,
    /// Number of the state that was found when it was opened.
    found: u64,
    /// Footers of this segment and later ones are of this opening.
    own: u64,
    /// The footer that was read last.
    footer: Option<(u64, Option<Footer>)>,
    /// The units that were read last.
    loaded: Loaded,
}

impl fmt::Debug for DiskLog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DiskLog").field("name", &self.name()).field("fill", &self.fill()).finish()
    }
}

/// What a log holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fill {
    /// Lowest offset that counts.
    pub low: u64,
    /// End of the content.
    pub tail: u64,
    /// When the last commit was: seconds since 1970.
    pub time: u64,
    /// Bytes appended since the log was made.
    pub written: u64,
    /// Bytes given up since the log was made: skipped, or not readable when they were needed.
    pub lost: u64,
}

impl DiskLog {
    /// Makes an empty log on a device, whose first offset is `start`, and waits until it is durable.
    pub(super) fn create(
        device: Box<dyn Device>,
        header: LogHeader,
        sealer: Sealer,
        about: Vec<u8>,
        owner: &[u8],
        time: u64,
    ) -> Result<DiskLog, Failed> {
        let shape = header.shape;
        let state = State { tags: vec![0; shape.units as usize], ..State::default() };
        // The first commit is number 1.
        let mut log = DiskLog::over(device, header, sealer, about, 0, state);
        let page = log.header.write();
        log.device.write(0, &page)?;
        log.device.write(PAGE as u64, &page)?;
        log.commit(owner, time)?;
        Ok(log)
    }

    /// Opens a log. Writes nothing.
    pub(super) fn open(
        device: Box<dyn Device>,
        header: LogHeader,
        sealer: Sealer,
        about: Vec<u8>,
    ) -> Result<DiskLog, HeaderError> {
        let shape = header.shape;
        if device.size() < shape.size() {
            return Err(HeaderError::Truncated);
        }
        let read = |at| read_state(device.as_ref(), shape, &sealer, &header.id, at);
        let states = [read(0), read(1)];
        let newest = states.into_iter().flatten().max_by_key(|(number, _)| *number);
        let (number, state) = newest.ok_or(HeaderError::Corrupt)?;
        Ok(DiskLog::over(device, header, sealer, about, number, state))
    }

    fn over(
        device: Box<dyn Device>,
        header: LogHeader,
        sealer: Sealer,
        about: Vec<u8>,
        number: u64,
        state: State,
    ) -> DiskLog {
        let mut units = Aligned::new(RUN * UNIT);
        let content = content_of(&units[..UNIT]).start;
        units[content..content + state.last.len()].copy_from_slice(&state.last);
        DiskLog {
            limit: header.shape.limit(state.tail),
            found: number,
            own: state.tail / header.shape.segment(),
            device,
            header,
            sealer,
            about,
            number,
            state,
            units,
            full: 0,
            first: 0,
            must_commit: false,
            failed: None,
            footer: None,
            loaded: Loaded::new(),
        }
    }

    /// The header of its file.
    #[must_use]
    pub fn header(&self) -> &LogHeader {
        &self.header
    }

    /// What its owner said about it when it was made.
    #[must_use]
    pub fn about(&self) -> &[u8] {
        &self.about
    }

    /// The owner's state of the last commit.
    #[must_use]
    pub fn owner_state(&self) -> &[u8] {
        &self.state.owner
    }

    /// What it holds.
    #[must_use]
    pub fn fill(&self) -> Fill {
        let State { tail, time, written, lost, .. } = self.state;
        Fill { low: self.low(), tail, time, written, lost }
    }

    fn low(&self) -> u64 {
        self.state.low.max(self.header.shape.low(self.state.tail))
    }

    /// Offset up to which bytes can be appended before the next commit.
    #[must_use]
    pub fn limit(&self) -> u64 {
        if self.must_commit { self.state.tail } else { self.limit }
    }

    /// Appends bytes. They are durable after the next commit. Zeros fill a gap before them, which
    /// may be [`MAX_GAP`] bytes long.
    ///
    /// # Errors
    /// [`AppendError::NeedsCommit`] beyond [`DiskLog::limit`], [`AppendError::Gap`], and
    /// [`AppendError::Failed`] from the first failure of the medium on.
    pub fn append(&mut self, offset: u64, bytes: &[u8]) -> Result<(), AppendError> {
        self.check()?;
        let end = self.state.tail;
        match offset.checked_sub(end) {
            Some(0..=MAX_GAP) => {}
            _ => return Err(AppendError::Gap { offset, end }),
        }
        if self.must_commit || offset.saturating_add(bytes.len() as u64) > self.limit {
            return Err(AppendError::NeedsCommit);
        }
        let mut gap = (offset - end) as usize;
        while gap > 0 {
            let len = gap.min(PAGE);
            self.fill_unit(&[0; PAGE][..len])?;
            gap -= len;
        }
        self.fill_unit(bytes)?;
        self.state.written = self.state.written.saturating_add(bytes.len() as u64);
        Ok(())
    }

    fn fill_unit(&mut self, mut bytes: &[u8]) -> Result<(), Failed> {
        while !bytes.is_empty() {
            let filled = self.header.shape.unit_fill(self.state.tail);
            let (now, rest) = bytes.split_at(bytes.len().min(UNIT_CONTENT - filled));
            let unit = &mut self.units[self.full * UNIT..][..UNIT];
            let at = content_of(unit).start + filled;
            unit[at..at + now.len()].copy_from_slice(now);
            self.state.tail += now.len() as u64;
            if filled + now.len() == UNIT_CONTENT {
                let start = self.state.tail - UNIT_CONTENT as u64;
                let written = self.write_unit(start);
                self.note(written)?;
            }
            bytes = rest;
        }
        Ok(())
    }

    /// Seals the unit that is full. Writes it with those before it, if they are enough; and the
    /// footer of its segment behind its last one.
    fn write_unit(&mut self, start: u64) -> Result<(), Failed> {
        let shape = self.header.shape;
        let id = self.header.id;
        let block = &mut self.units[self.full * UNIT..][..UNIT];
        let tag = seal(&mut self.sealer, &id, Place::Unit(start), block);
        if self.full == 0 {
            self.first = start;
        }
        self.full += 1;
        let unit = shape.unit_of(start);
        self.state.tags[unit] = tag;
        if unit + 1 == shape.units as usize {
            self.write_footer(start / shape.segment())
        } else if self.full == RUN {
            self.write_full()
        } else {
            Ok(())
        }
    }

    /// Writes the units that are full. They are of one segment, so they lie side by side.
    fn write_full(&mut self) -> Result<(), Failed> {
        let full = std::mem::take(&mut self.full) * UNIT;
        if full > 0 {
            self.device.write(self.header.shape.unit_at(self.first), &self.units[..full])?;
            if full < self.units.len() {
                self.units.copy_within(full..full + UNIT, 0);
            }
        }
        Ok(())
    }

    /// Writes the footer of a segment of which no more is written.
    fn write_footer(&mut self, segment: u64) -> Result<(), Failed> {
        self.write_full()?;
        let shape = self.header.shape;
        let mut page = Aligned::new(PAGE);
        let tags = std::mem::replace(&mut self.state.tags, vec![0; shape.units as usize]);
        let content = content_of(&page);
        // The time is that of the commit before, since there is no clock here.
        Footer { number: self.number, time: self.state.time, tags }.write(&mut page[content]);
        seal(&mut self.sealer, &self.header.id, Place::Footer(segment), &mut page);
        self.device.write(shape.footer_at(segment), &page)?;
        self.footer = None;
        Ok(())
    }

    /// Goes on at `to` without what lies before it: of that, nothing is kept, and what was appended
    /// stays. Reads of the gap fail, but in the two units that it begins and ends in: there it
    /// reads as zeros, so whoever skips has to remember it. The next commit makes that durable, and
    /// nothing can be appended before it.
    ///
    /// # Errors
    /// [`AppendError::Gap`] if `to` is below the end, [`AppendError::NeedsCommit`] after content
    /// was taken back, and [`AppendError::Failed`].
    pub fn skip(&mut self, to: u64) -> Result<(), AppendError> {
        self.check()?;
        let end = self.state.tail;
        if to < end {
            return Err(AppendError::Gap { offset: to, end });
        }
        if self.must_commit {
            return Err(AppendError::NeedsCommit);
        }
        let skipped = self.skip_now(to);
        self.note(skipped)?;
        self.lose(to - end);
        self.forget_reads();
        Ok(())
    }

    fn skip_now(&mut self, to: u64) -> Result<(), Failed> {
        let shape = self.header.shape;
        let zeros = [0; UNIT_CONTENT];
        let start = to - shape.unit_fill(to) as u64;
        let filled = shape.unit_fill(self.state.tail);
        if start > self.state.tail - filled as u64 {
            if filled > 0 {
                self.fill_unit(&zeros[filled..])?;
            }
            let tail = self.state.tail;
            if start / shape.segment() != tail / shape.segment() {
                if !tail.is_multiple_of(shape.segment()) {
                    self.write_footer(tail / shape.segment())?;
                }
                self.state.tags.fill(0);
            }
            self.write_full()?;
            self.state.tail = start;
        }
        self.fill_unit(&zeros[..(to - self.state.tail) as usize])
    }

    /// Makes everything that was appended durable, together with its owner's state. Two syncs.
    ///
    /// # Errors
    /// If the medium fails, or the state is larger than was agreed when the log was made.
    pub fn commit(&mut self, owner: &[u8], time: u64) -> Result<(), Failed> {
        self.check()?;
        if owner.len() > self.header.shape.state as usize {
            return Err(Failed(format!("a state of {} bytes is too large", owner.len())));
        }
        let committed = self.commit_now(owner, time);
        self.note(committed)
    }

    fn commit_now(&mut self, owner: &[u8], time: u64) -> Result<(), Failed> {
        self.write_full()?;
        let shape = self.header.shape;
        let start = content_of(&self.units[..UNIT]).start;
        let last = start..start + shape.unit_fill(self.state.tail);
        self.state.low = self.low();
        self.state.time = time;
        self.state.last = self.units[last].to_vec();
        self.state.owner = owner.to_vec();
        let len = self.state.len();
        let mut block = Aligned::new(len.next_multiple_of(PAGE));
        let content = content_of(&block[..len]);
        self.state.write(&mut block[content]);
        let number = self.number + 1;
        seal(&mut self.sealer, &self.header.id, Place::State(number), &mut block[..len]);
        // What the state refers to comes first.
        self.device.sync()?;
        self.device.write(shape.state_at(number), &block)?;
        self.device.sync()?;
        self.number = number;
        self.limit = shape.limit(self.state.tail);
        self.must_commit = false;
        Ok(())
    }

    /// Takes back everything at `to` and above. The next commit makes that durable, and nothing can
    /// be appended before it.
    ///
    /// # Errors
    /// [`AppendError::Gap`] if `to` is not within the log, and [`AppendError::Failed`].
    pub fn truncate(&mut self, to: u64) -> Result<(), AppendError> {
        self.check()?;
        let (low, end) = (self.low(), self.state.tail);
        if !(low..=end).contains(&to) {
            return Err(AppendError::Gap { offset: to, end });
        }
        let written = self.write_full();
        self.note(written)?;
        let shape = self.header.shape;
        let start = to - shape.unit_fill(to) as u64;
        // Before anything changes: content of the unit that the new end lies in.
        let last = (start < to && start < end).then(|| {
            let mut last = vec![0; (to - start) as usize];
            self.read(start.max(low), &mut last[(start.max(low) - start) as usize..]).map(|()| last)
        });
        if to / shape.segment() != end / shape.segment() {
            let footer = self.footer(to / shape.segment());
            self.state.tags =
                footer.map_or_else(|| vec![0; shape.units as usize], |footer| footer.tags.clone());
        }
        self.state.tags[shape.unit_of(to)..].fill(0);
        self.own = self.own.min(to / shape.segment());
        self.state.tail = to;
        self.state.low = low;
        let at = content_of(&self.units[..UNIT]).start;
        match last {
            Some(Ok(last)) => self.units[at..at + last.len()].copy_from_slice(&last),
            // The rest of the unit is lost, so nothing below the end counts.
            Some(Err(_)) => {
                self.lose(to - low);
                self.state.low = to;
            }
            None => {}
        }
        self.forget_reads();
        Ok(())
    }

    /// Gives up everything, and goes on at `offset`. The next commit makes that durable, and nothing
    /// can be appended before it.
    ///
    /// # Errors
    /// [`AppendError::Failed`].
    pub fn restart(&mut self, offset: u64) -> Result<(), AppendError> {
        self.check()?;
        self.lose(offset.saturating_sub(self.state.tail));
        self.full = 0;
        self.state.tags.fill(0);
        (self.state.tail, self.state.low) = (offset, offset);
        self.own = self.own.min(offset / self.header.shape.segment());
        self.forget_reads();
        Ok(())
    }

    /// What a state says was written by whoever has the key: sums must not overflow.
    fn lose(&mut self, bytes: u64) {
        self.state.lost = self.state.lost.saturating_add(bytes);
    }

    fn forget_reads(&mut self) {
        self.must_commit = true;
        self.footer = None;
        self.loaded.clear();
    }

    fn check(&self) -> Result<(), Failed> {
        self.failed.clone().map_or(Ok(()), Err)
    }

    fn note<T>(&mut self, result: Result<T, Failed>) -> Result<T, Failed> {
        if let Err(failed) = &result {
            self.failed = Some(failed.clone());
        }
        result
    }
}

impl Shape {
    /// Bytes before an offset in its unit.
    pub(super) fn unit_fill(self, offset: u64) -> usize {
        (offset % self.segment()) as usize % UNIT_CONTENT
    }
}
