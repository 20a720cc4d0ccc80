//! One log of one peer on disk, and what a session says about it.
//!
//! Sessions speak of offsets, and the file has addresses: [`super::extents`] leads from one to the
//! other.

use super::parts::{Part, few, parts, written};
use super::record::Record;
use oncewire_flash::store::{
    AppendError, DiskLog, LogName, NewLog, Peer, Store, StoreError, layout,
};
use oncewire_session::{Config, Epoch, FinishedLog, Piece, Place};
use oncewire_session::{RestoreError, RestoredLog};
use oncewire_session::{Run, Side, Unwritten};
use std::ops::Range;
use std::time::{Duration, Instant, SystemTime};

/// A commit follows after this much content was written.
const COMMIT_BYTES: u64 = 32 << 20;
/// A commit follows this long after content came, at the latest.
const COMMIT_AFTER: Duration = Duration::from_secs(4);
/// Content is read in pieces of this size.
const READ: usize = 16 * layout::UNIT_CONTENT;

/// One log of one peer.
pub(super) struct PeerLog {
    peer: Peer,
    side: Side,
    /// Its file, unless it is open.
    name: Option<LogName>,
    log: Option<DiskLog>,
    /// `None`: nothing that may come back.
    record: Option<Record>,
    /// Since when there is content that was not committed, and how much.
    dirty: Option<Instant>,
    bytes: u64,
    /// Bytes of that which were written.
    written: u64,
    /// Content that is not stored, which the session does not know yet.
    gone: Range<u64>,
    /// The newest piece was not stored, to spare the device.
    passes: bool,
    /// Bytes of the newest piece that were not written, because they lie on disk.
    repeated: u64,
    /// Content below this address is overwritten, and the session knows what is gone with it.
    low: u64,
    /// What is gone with it, which the session does not know yet.
    overwritten: Vec<Range<u64>>,
}

/// Content that was stored by an earlier process.
pub(super) struct Found {
    pub(super) start: u64,
    pub(super) content: Option<Vec<u8>>,
    pub(super) owners: Vec<Run>,
}

/// Seconds since 1970.
pub(super) fn unix_time() -> u64 {
    SystemTime::UNIX_EPOCH.elapsed().map_or(0, |time| time.as_secs())
}

impl PeerLog {
    pub(super) fn new(peer: Peer, side: Side, name: Option<LogName>) -> PeerLog {
        PeerLog {
            peer,
            side,
            name,
            log: None,
            record: None,
            dirty: None,
            bytes: 0,
            written: 0,
            gone: 0..0,
            passes: false,
            repeated: 0,
            low: 0,
            overwritten: Vec::new(),
        }
    }

    pub(super) fn name(&self) -> Option<LogName> {
        self.log.as_ref().map(DiskLog::name).or(self.name)
    }

    pub(super) fn disk_log(&mut self) -> Option<&mut DiskLog> {
        self.log.as_mut()
    }

    /// Where its content ends, if there is a log.
    pub(super) fn end(&self) -> Option<u64> {
        self.log.as_ref().and(self.record.as_ref()).map(Record::end)
    }

    /// When the content at an offset was written, to a commit: seconds since 1970. `None` if that is
    /// not known.
    pub(super) fn written_at(&mut self, offset: u64) -> Option<u64> {
        let (address, _) = self.record.as_ref()?.extents.find(offset);
        self.log.as_mut()?.written_at(address)
    }

    /// Opens the file, if there is one.
    pub(super) fn open(&mut self, store: &Store) -> Result<(), StoreError> {
        if let Some(name) = self.name {
            let log = store.open_log(name)?;
            self.record = Record::read(log.owner_state()).filter(|_| has_room(&log));
            (self.log, self.name) = (Some(log), None);
        }
        Ok(())
    }

    /// Does what a session says. Returns an epoch that has become durable.
    /// A log on disk has `least` bytes or more.
    pub(super) fn apply(
        &mut self,
        store: &Store,
        least: u64,
        next: Unwritten,
        now: Instant,
    ) -> Result<Option<Epoch>, StoreError> {
        match next {
            Unwritten::Begin(header) => {
                self.open(store).ok();
                let record = Record::new(header);
                let capacity = header.capacity.max(least);
                let fits = |log: &&DiskLog| log.header().shape.capacity == capacity;
                if self.log.as_ref().filter(fits).is_some_and(has_room) {
                    self.record = Some(record);
                    self.restart(0)?;
                } else {
                    self.forget(store)?;
                    let side = super::side_of(self.side);
                    let peer = self.peer;
                    let new = NewLog { peer, side, capacity, ..NewLog::default() };
                    self.log = Some(store.create(&new, &record.write(), unix_time())?);
                    self.record = Some(record);
                }
                Ok(Some(header.epoch))
            }
            Unwritten::Rewind { epoch, to, capacity } => {
                self.rewind(epoch, to, capacity)?;
                Ok(Some(epoch))
            }
            Unwritten::Content(piece) => {
                self.append(&piece, now)?;
                Ok(None)
            }
            Unwritten::Drop => {
                self.forget(store)?;
                Ok(None)
            }
        }
    }

    /// Destroys the file.
    pub(super) fn forget(&mut self, store: &Store) -> Result<(), StoreError> {
        (self.record, self.dirty, self.bytes, self.gone) = (None, None, 0, 0..0);
        (self.written, self.low, self.overwritten) = (0, 0, Vec::new());
        let name = self.name();
        (self.log, self.name) = (None, None);
        match name.map_or(Ok(()), |name| store.forget(name)) {
            Err(StoreError::NoLog(_)) => Ok(()),
            done => done,
        }
    }

    fn restart(&mut self, offset: u64) -> Result<(), StoreError> {
        let Some(log) = &mut self.log else { return Ok(()) };
        log.restart(offset).map_err(failed)?;
        (self.low, self.overwritten) = (offset, Vec::new());
        self.commit()
    }

    fn rewind(&mut self, epoch: Epoch, to: Place, capacity: u64) -> Result<(), StoreError> {
        let (Some(log), Some(record)) = (&mut self.log, &mut self.record) else { return Ok(()) };
        let fill = log.fill();
        let low = record.extents.offset(fill.low);
        record.log.header.capacity = capacity;
        if to.offset < low {
            record.log.header.epoch = epoch;
            record.restart(to);
            return self.restart(to.offset);
        }
        if to.offset > record.log.end.offset {
            record.skip(to.offset, low);
        }
        record.rewind(epoch, to);
        self.overwritten.retain(|range| range.end <= to.offset);
        // Within a gap, the unit cannot be read that the new end lies in: the commit goes there.
        let gap = record.gaps.last().filter(|gap| gap.end == to.offset);
        let end = record.extents.address(gap.map_or(to.offset, |gap| gap.start.max(low)));
        if end < fill.tail {
            log.truncate(end).map_err(failed)?;
            // Nothing is skipped before it is durable what was taken back.
            let state = record.write();
            log.commit(&state, unix_time())?;
        }
        self.commit()
    }

    fn append(&mut self, piece: &Piece, now: Instant) -> Result<(), StoreError> {
        let (Some(log), Some(record)) = (&mut self.log, &mut self.record) else { return Ok(()) };
        let (fill, begin) = (log.fill(), piece.offset - piece.padding);
        let low = record.extents.offset(fill.low);
        if begin > record.log.end.offset {
            // The session's memory was faster than the disk.
            let gap = record.skip(begin, low);
            self.gone = if self.gone.is_empty() { gap.start } else { self.gone.start }..gap.end;
        }
        let parts = parts(record, log.fill(), log.header().shape.capacity, piece);
        let (begin, written) = (record.extents.address(begin), written(piece, &parts));
        // What writes nothing may lie behind a gap that the file does not know yet.
        if written > 0 && begin > fill.tail {
            log.skip(begin).map_err(failed)?;
        }
        if written > 0 && begin + written > log.limit() {
            self.commit()?;
        }
        let (Some(log), Some(record)) = (&mut self.log, &mut self.record) else { return Ok(()) };
        self.passes = false;
        if piece.padding > 0 {
            log.append(record.extents.address(piece.offset), &[]).map_err(failed)?;
        }
        for Part { range, source } in parts {
            let (offset, len) = (range.start, range.end - range.start);
            let bytes = (offset - piece.offset) as usize..(range.end - piece.offset) as usize;
            match source {
                Some(source) => record.extents.push(offset, len, source),
                None => {
                    let address = record.extents.address(offset);
                    log.append(address, &piece.bytes[bytes]).map_err(failed)?;
                }
            }
        }
        let lowest = log.fill().low;
        if self.low < lowest {
            self.overwritten.extend(record.extents.overwritten(self.low..lowest));
            self.low = lowest;
        }
        record.append(piece, record.extents.offset(lowest));
        self.dirty.get_or_insert(now);
        self.repeated = piece.bytes.len() as u64 - (written - piece.padding);
        self.bytes += piece.bytes.len() as u64;
        self.written += written;
        if self.written >= COMMIT_BYTES { self.commit() } else { Ok(()) }
    }

    /// Whether a piece can be stored without writing any of it.
    pub(super) fn repeats(&self, piece: &Piece) -> bool {
        let (Some(log), Some(record)) = (&self.log, &self.record) else { return false };
        written(piece, &parts(record, log.fill(), log.header().shape.capacity, piece)) == 0
    }

    /// Bytes of the newest piece that were not written, because they lie on disk.
    pub(super) fn repeated(&self) -> u64 {
        self.repeated
    }

    /// A piece is not stored, to spare the device. Returns whether there is a log at all.
    pub(super) fn pass(&mut self, piece: &Piece) -> bool {
        let (Some(log), Some(record)) = (&self.log, &mut self.record) else { return false };
        record.pass(piece, record.extents.offset(log.fill().low));
        let start = if self.gone.is_empty() { piece.offset } else { self.gone.start };
        self.gone = start..piece.end().offset;
        self.passes = true;
        true
    }

    /// Whether the newest piece was not stored, to spare the device.
    pub(super) fn passes(&self) -> bool {
        self.passes
    }

    /// What is not stored, once it is `least` bytes. It counts as told then.
    pub(super) fn take_gone(&mut self, least: u64) -> Option<Range<u64>> {
        let is_enough = !self.gone.is_empty() && self.gone.end - self.gone.start >= least;
        is_enough.then(|| std::mem::replace(&mut self.gone, 0..0))
    }

    /// What could be read until newer content overwrote it, which the session does not know yet. It
    /// counts as told then.
    pub(super) fn take_overwritten(&mut self) -> Vec<Range<u64>> {
        few(std::mem::take(&mut self.overwritten))
    }

    /// A session begins, and knows nothing of what cannot be read.
    pub(super) fn tell_all(&mut self) {
        let (Some(log), Some(record)) = (&self.log, &self.record) else { return };
        self.low = log.fill().low;
        self.overwritten = record.gaps.clone();
        self.overwritten.extend(record.extents.overwritten(0..self.low));
        self.overwritten.sort_by_key(|range| range.start);
    }

    /// Bytes of its content, if it has them.
    pub(super) fn read(&mut self, range: Range<u64>) -> Option<Vec<u8>> {
        let record = self.record.as_ref().filter(|record| record.has(&range))?;
        let mut bytes = vec![0; usize::try_from(range.end - range.start).ok()?];
        read(self.log.as_mut()?, record, range.start, &mut bytes).ok()?;
        Some(bytes)
    }

    /// The newest content of a range of a log, `most` bytes at most: where it begins, its bytes,
    /// unless they cannot be read, and whose they are. `None` if it is another log.
    pub(super) fn newest(&mut self, id: u64, range: Range<u64>, most: u64) -> Option<Found> {
        let (log, record) = (self.log.as_mut()?, self.record.as_ref()?);
        if record.log.header.epoch.log != id {
            return None;
        }
        let fill = log.fill();
        let overwritten = record.extents.overwritten(0..fill.low);
        let low = record.extents.offset(fill.low);
        let (start, is_there) = record.newest(&range, low, most, &overwritten);
        let range = start..range.end;
        let content = is_there.then(|| {
            let mut bytes = vec![0; usize::try_from(range.end - start).ok()?];
            read(log, record, start, &mut bytes).ok().map(|()| bytes)
        });
        Some(Found { start, content: content.flatten(), owners: record.owners(&range) })
    }

    /// Bytes that are not stored between what is.
    pub(super) fn gaps(&self) -> u64 {
        let Some(fill) = self.log.as_ref().map(DiskLog::fill) else { return 0 };
        let Some(record) = &self.record else { return 0 };
        let within = |gap: &Range<u64>| {
            let [start, end] = [gap.start, gap.end].map(|offset| record.extents.address(offset));
            end.min(fill.tail).saturating_sub(start.max(fill.low))
        };
        record.gaps.iter().map(within).sum()
    }

    /// Whether content was not stored at its end, which no commit says yet.
    pub(super) fn is_behind(&self) -> bool {
        let end = self.record.as_ref().map_or(0, Record::end_address);
        self.log.as_ref().is_some_and(|log| log.fill().tail < end)
    }

    /// Bytes of content that are not committed.
    pub(super) fn pending(&self) -> u64 {
        self.bytes
    }

    /// When it is to be committed at the latest, if there is anything to commit.
    pub(super) fn due(&self) -> Option<Instant> {
        self.dirty.map(|since| since + COMMIT_AFTER)
    }

    /// Makes everything durable.
    pub(super) fn commit(&mut self) -> Result<(), StoreError> {
        let Some(log) = &mut self.log else { return Ok(()) };
        let end = self.record.as_ref().map_or(0, Record::end_address);
        if end > log.fill().tail {
            log.skip(end).map_err(failed)?;
        }
        let state = self.record.as_ref().map_or_else(Vec::new, Record::write);
        log.commit(&state, unix_time())?;
        (self.dirty, self.bytes, self.written) = (None, 0, 0);
        Ok(())
    }

    /// Reads it back into memory. `None` if there is nothing to come back.
    pub(super) fn restore(
        &mut self,
        store: &Store,
        config: &Config,
    ) -> Result<Option<FinishedLog>, RestoreFailure> {
        self.open(store)?;
        self.commit()?;
        let (Some(log), Some(record)) = (&mut self.log, &self.record) else { return Ok(None) };
        let fill = log.fill();
        let mut stored = record.log.clone();
        stored.from = stored.from.max(record.extents.offset(fill.low)).max(record.misplaced());
        if record.end_address() != fill.tail {
            return Ok(None);
        }
        if stored.end.offset == 0 {
            return Ok(None);
        }
        // Above whatever is lost; perhaps nothing, and the log goes on.
        loop {
            stored.from = stored.from.min(stored.end.offset);
            let mut restored = RestoredLog::new(config, self.side, stored.clone())?;
            match read_all(log, record, &mut restored, stored.end.offset)? {
                None => return Ok(Some(restored.finish()?)),
                Some(after) => stored.from = after,
            }
        }
    }
}

/// Whether a log's file has room for any record: an earlier program made smaller ones.
fn has_room(log: &DiskLog) -> bool {
    log.header().shape.state >= layout::MAX_STATE
}

/// Reads all of a log. Returns where the first loss ends.
fn read_all(
    log: &mut DiskLog,
    record: &Record,
    restored: &mut RestoredLog,
    end: u64,
) -> Result<Option<u64>, RestoreError> {
    let mut buffer = vec![0; READ];
    let mut at = restored.at();
    while at < end {
        let padding = record.paddings.iter().find(|padding| padding.end > at);
        if let Some(padding) = padding.filter(|padding| padding.start <= at) {
            at = padding.end;
            continue;
        }
        let until = padding.map_or(end, |padding| padding.start.min(end));
        let len = (READ as u64).min(until - at) as usize;
        if let Err(after) = read(log, record, at, &mut buffer[..len]) {
            return Ok(Some(after));
        }
        restored.push(at, &buffer[..len])?;
        at += len as u64;
    }
    Ok(None)
}

/// Fills `into` with the content from an offset on; otherwise, says where what is lost ends.
fn read(log: &mut DiskLog, record: &Record, offset: u64, into: &mut [u8]) -> Result<(), u64> {
    let mut done = 0;
    let end = offset + into.len() as u64;
    // What lies below has other extents, which are forgotten.
    let low = record.extents.offset(log.fill().low);
    if offset < low {
        return Err(low);
    }
    for (address, len) in record.extents.parts(offset..end) {
        let next = done + len as usize;
        if let Err(lost) = log.read(address, &mut into[done..next]) {
            let after = lost.end.saturating_sub(address).clamp(1, len);
            return Err(offset + done as u64 + after);
        }
        done = next;
    }
    Ok(())
}

/// Why a log does not come back into memory.
#[derive(Debug, thiserror::Error)]
pub(super) enum RestoreFailure {
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    Session(#[from] RestoreError),
}

/// An append that the caller cannot have got wrong: the medium failed.
fn failed(error: AppendError) -> StoreError {
    match error {
        AppendError::Failed(failed) => failed.into(),
        other => oncewire_flash::store::Failed(other.to_string()).into(),
    }
}

#[cfg(test)]
mod tests;
