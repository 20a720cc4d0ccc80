//! What reads a log, and changes nothing on disk.

use super::{DiskLog, Lost, RUN};
use crate::device::{Aligned, Device, PAGE};
use crate::store::layout::{
    Footer, OVERHEAD, Place, Shape, State, UNIT, UNIT_CONTENT, content_of, open, peek_state,
};
use crate::store::seal::Sealer;
use std::ops::Range;

/// Units that were read last, side by side: sealed until they are needed.
pub(super) struct Loaded {
    /// The first offset of the first of them, and which of them are opened.
    start: u64,
    opened: Vec<bool>,
    units: Aligned,
}

impl Loaded {
    pub(super) fn new() -> Loaded {
        // Memory that is not touched is not used.
        Loaded { start: 0, opened: Vec::new(), units: Aligned::new(RUN * UNIT) }
    }

    pub(super) fn clear(&mut self) {
        self.opened.clear();
    }

    /// Where they end, if there are any.
    fn end(&self) -> Option<u64> {
        let len = (self.opened.len() * UNIT_CONTENT) as u64;
        (len > 0).then(|| self.start + len)
    }

    /// Which of them begins at an offset.
    fn position(&self, start: u64) -> Option<usize> {
        let at = usize::try_from(start.checked_sub(self.start)?).ok()?;
        let is_one = at.is_multiple_of(UNIT_CONTENT) && at / UNIT_CONTENT < self.opened.len();
        is_one.then_some(at / UNIT_CONTENT)
    }

    /// Reads so many units in place of what is here. Returns whether the device could.
    fn read(&mut self, device: &dyn Device, at: u64, start: u64, count: usize) -> bool {
        self.opened.clear();
        let is_read = device.read(at, &mut self.units[..count * UNIT]).is_ok();
        if is_read {
            (self.start, self.opened) = (start, vec![false; count]);
        }
        is_read
    }

    /// Opens the unit that begins at an offset in place, and returns which it is; `None` if it
    /// cannot be opened.
    fn open(&mut self, start: u64, opens: impl FnOnce(&mut [u8]) -> bool) -> Option<usize> {
        let nth = self.position(start)?;
        if opens(&mut self.units[nth * UNIT..][..UNIT]) {
            self.opened[nth] = true;
            return Some(nth);
        }
        // Next time it is read again.
        self.opened.clear();
        None
    }

    fn unit(&self, nth: usize) -> &[u8] {
        &self.units[nth * UNIT..][..UNIT]
    }
}

impl DiskLog {
    /// Fills `into` with the content from `offset` on.
    ///
    /// # Errors
    /// [`Lost`], with the unit that cannot be read.
    pub fn read(&mut self, offset: u64, into: &mut [u8]) -> Result<(), Lost> {
        let end = offset.saturating_add(into.len() as u64);
        if offset < self.low() || end > self.state.tail {
            return Err(Lost { start: offset, end });
        }
        let shape = self.header.shape;
        let newest = self.state.tail - shape.unit_fill(self.state.tail) as u64;
        let (mut at, mut into) = (offset, into);
        while !into.is_empty() {
            let skip = shape.unit_fill(at);
            let start = at - skip as u64;
            let len = into.len().min(UNIT_CONTENT - skip);
            let (now, rest) = into.split_at_mut(len);
            let unit = match start < newest {
                true => self.load(start, end)?,
                false => &self.units[self.full * UNIT..][..UNIT],
            };
            let content = content_of(unit).start + skip;
            now.copy_from_slice(&unit[content..content + len]);
            at += len as u64;
            into = rest;
        }
        Ok(())
    }

    /// Reads and opens a unit that was written, and reads those behind it with it up to `end`; more
    /// of them if they follow what was read before, since they are likely to be next.
    fn load(&mut self, start: u64, end: u64) -> Result<&[u8], Lost> {
        if let Some(nth) = self.loaded.position(start).filter(|&nth| self.loaded.opened[nth]) {
            return Ok(self.loaded.unit(nth));
        }
        let lost = Lost { start, end: start + UNIT_CONTENT as u64 };
        let shape = self.header.shape;
        let (segment, unit) = (start / shape.segment(), shape.unit_of(start));
        if self.full > 0 && start >= self.first {
            let written = self.write_full();
            // What was not written has another tag.
            let _ = self.note(written);
        }
        let tag = match segment == self.state.tail / shape.segment() {
            true => self.state.tags[unit],
            false => self.footer(segment).map_or(0, |footer| footer.tags[unit]),
        };
        if tag == 0 {
            return Err(lost);
        }
        if self.loaded.position(start).is_none() {
            let newest = self.state.tail - shape.unit_fill(self.state.tail) as u64;
            let written = if self.full > 0 { self.first } else { newest };
            let there = written.min((segment + 1) * shape.segment()) - start;
            let there = (there / UNIT_CONTENT as u64).max(1) as usize;
            let wanted = match self.loaded.end() == Some(start) {
                true => RUN,
                false => (end - start).div_ceil(UNIT_CONTENT as u64).min(RUN as u64) as usize,
            };
            let at = shape.unit_at(start);
            let read = self.loaded.read(self.device.as_ref(), at, start, wanted.min(there));
            // Perhaps only one of them cannot be read.
            if !read && !self.loaded.read(self.device.as_ref(), at, start, 1) {
                return Err(lost);
            }
        }
        let opens = |block: &mut [u8]| {
            open(&self.sealer, &self.header.id, Place::Unit(start), block) == Some(tag)
        };
        self.loaded.open(start, opens).map_or(Err(lost), |nth| Ok(self.loaded.unit(nth)))
    }

    pub(super) fn footer(&mut self, segment: u64) -> Option<&Footer> {
        if self.footer.as_ref().is_none_or(|(number, _)| *number != segment) {
            let shape = self.header.shape;
            let mut page = Aligned::new(PAGE);
            let read = self.device.read(shape.footer_at(segment), &mut page);
            if read.is_err() {
                // Perhaps it can be read later.
                self.footer = None;
                return None;
            }
            let opened =
                open(&self.sealer, &self.header.id, Place::Footer(segment), &mut page).is_some();
            let content = content_of(&page);
            // One that was written after a commit is not for the state before it, which is found if
            // that of the commit decays.
            let footer = opened
                .then(|| Footer::read(shape, &page[content]))
                .filter(|footer| segment >= self.own || footer.number < self.found);
            self.footer = Some((segment, footer));
        }
        self.footer.as_ref()?.1.as_ref()
    }

    /// When the oldest content was written, to a commit: seconds since 1970. `None` if that is not
    /// known.
    pub fn oldest(&mut self) -> Option<u64> {
        let segment = self.header.shape.segment();
        let (low, tail) = (self.low(), self.state.tail);
        match (low < tail, low / segment == tail / segment) {
            (false, _) => None,
            (true, true) => {
                Some(self.header.created.max(if low == 0 { 0 } else { self.state.time }))
            }
            (true, false) => self.footer(low / segment).map(|footer| footer.time),
        }
    }

    /// When the content at an offset was written, to a commit: seconds since 1970. `None` if that is
    /// not known.
    pub fn written_at(&mut self, offset: u64) -> Option<u64> {
        let segment = self.header.shape.segment();
        if !(self.low()..self.state.tail).contains(&offset) {
            None
        } else if offset / segment == self.state.tail / segment {
            Some(self.state.time)
        } else {
            self.footer(offset / segment).map(|footer| footer.time)
        }
    }

    /// Reads everything. Calls `progress` with the bytes that were read so far, and returns what is
    /// lost, in order.
    pub fn scrub(&mut self, progress: &mut dyn FnMut(u64)) -> Vec<Range<u64>> {
        let mut lost: Vec<Range<u64>> = Vec::new();
        let (low, tail) = (self.low(), self.state.tail);
        let mut buffer = vec![0; UNIT_CONTENT];
        let mut at = low;
        while at < tail {
            let len = (UNIT_CONTENT - self.header.shape.unit_fill(at)).min((tail - at) as usize);
            if self.read(at, &mut buffer[..len]).is_err() {
                let end = at + len as u64;
                match lost.last_mut() {
                    Some(last) if last.end == at => last.end = end,
                    _ => lost.push(at..end),
                }
            }
            at += len as u64;
            progress(at - low);
        }
        lost
    }
}

/// Reads the state with an even or an odd number.
pub(super) fn read_state(
    device: &dyn Device,
    shape: Shape,
    sealer: &Sealer,
    log: &[u8; 16],
    parity: u64,
) -> Option<(u64, State)> {
    let at = shape.state_at(parity);
    let mut page = Aligned::new(PAGE);
    device.read(at, &mut page).ok()?;
    let (number, len) = peek_state(&page)?;
    let most = (shape.state_at(1) - shape.state_at(0)) as usize;
    if !(OVERHEAD..=most).contains(&len) || number % 2 != parity || number >= u64::MAX >> 1 {
        return None;
    }
    let mut block = Aligned::new(len.next_multiple_of(PAGE));
    device.read(at, &mut block).ok()?;
    open(sealer, log, Place::State(number), &mut block[..len])?;
    let content = content_of(&block[..len]);
    Some((number, State::read(shape, &block[content])?))
}
