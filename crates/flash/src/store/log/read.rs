//! What reads a log, and changes nothing on disk.

use super::{DiskLog, Lost};
use crate::device::{Aligned, Device, PAGE};
use crate::store::layout::{
    Footer, OVERHEAD, Place, Shape, State, UNIT, UNIT_CONTENT, content_of, open, peek_state,
};
use crate::store::seal::Sealer;
use std::ops::Range;

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
            if start < newest {
                self.load(start)?;
            }
            let unit = match start < newest {
                true => &self.read.1[..],
                false => &self.units[self.full * UNIT..][..UNIT],
            };
            let content = content_of(unit).start + skip;
            now.copy_from_slice(&unit[content..content + len]);
            at += len as u64;
            into = rest;
        }
        Ok(())
    }

    /// Reads and opens a unit that was written.
    fn load(&mut self, start: u64) -> Result<(), Lost> {
        if self.read.0 == Some(start) {
            return Ok(());
        }
        self.read.0 = None;
        if self.full > 0 && start >= self.first {
            let written = self.write_full();
            // What was not written has another tag.
            let _ = self.note(written);
        }
        let lost = Lost { start, end: start + UNIT_CONTENT as u64 };
        let shape = self.header.shape;
        let (segment, unit) = (start / shape.segment(), shape.unit_of(start));
        let tag = match segment == self.state.tail / shape.segment() {
            true => self.state.tags[unit],
            false => self.footer(segment).map_or(0, |footer| footer.tags[unit]),
        };
        let block = &mut self.read.1;
        if tag == 0 || self.device.read(shape.unit_at(start), block).is_err() {
            return Err(lost);
        }
        match open(&self.sealer, &self.header.id, Place::Unit(start), block) {
            Some(found) if found == tag => {
                self.read.0 = Some(start);
                Ok(())
            }
            _ => Err(lost),
        }
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
