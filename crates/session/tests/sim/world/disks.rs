//! A disk at each end: what a driver with a store does, with writes that take their time, a driver
//! that is slow to ask, and crashes that take back what was not durable.

use super::{End, Job, World};
use crate::script::{MS, SECOND, Time};
use oncewire_session::{
    FetchId, LogHeader, LogRecord, Logs, Piece, Place, RestoreError, RestoredLog, Run, Session,
    SessionId, Settings, Side, Unwritten,
};
use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;

const SIDES: [Side; 2] = [Side::Sending, Side::Receiving];

/// A log on disk.
#[derive(Debug)]
struct Stored {
    header: LogHeader,
    /// Content from here to the end is there.
    from: u64,
    end: Place,
    places: Vec<Place>,
    runs: Vec<Run>,
    pieces: VecDeque<(u64, Vec<u8>)>,
    /// Bytes that it keeps, if that is more than the log has in memory.
    keeps: u64,
}

impl Stored {
    fn new(header: LogHeader, keeps: u64) -> Stored {
        Stored {
            header,
            from: 0,
            end: Place::default(),
            places: Vec::new(),
            runs: Vec::new(),
            pieces: VecDeque::new(),
            keeps,
        }
    }

    /// Its content of a range; padding reads as zeros. `None` if it does not have all of it.
    fn read(&self, range: &Range<u64>) -> Option<Vec<u8>> {
        if range.start < self.from || range.end > self.end.offset {
            return None;
        }
        let mut bytes = vec![0; (range.end - range.start) as usize];
        for (at, piece) in self.byte_ranges() {
            let (start, end) = (at.max(range.start), (at + piece.len() as u64).min(range.end));
            if start < end {
                bytes[(start - range.start) as usize..(end - range.start) as usize]
                    .copy_from_slice(&piece[(start - at) as usize..(end - at) as usize]);
            }
        }
        Some(bytes)
    }

    fn append(&mut self, piece: Piece) {
        let before = piece.offset - piece.padding;
        assert!(before >= self.end.offset, "content comes twice");
        if before > self.end.offset {
            // The driver was too slow.
            (self.from, self.pieces, self.runs) = (piece.offset, VecDeque::new(), Vec::new());
            self.places.clear();
        }
        for run in &piece.runs {
            if self.runs.last().is_none_or(|last| last.owner != run.owner) {
                self.runs.push(Run { start: run.start.max(piece.offset), owner: run.owner });
            }
        }
        self.end = piece.end();
        if piece.is_place {
            self.places.push(self.end);
        }
        self.pieces.push_back((piece.offset, piece.bytes));
        self.overwrite(self.end.offset);
    }

    /// The ring was written up to `end`, durably or not.
    fn overwrite(&mut self, end: u64) {
        self.from = self.from.max(end.saturating_sub(self.header.capacity.max(self.keeps)));
        while self.pieces.front().is_some_and(|(at, piece)| at + piece.len() as u64 <= self.from) {
            self.pieces.pop_front();
        }
    }

    fn rewind(&mut self, to: Place) {
        if to.offset > self.end.offset {
            // What lies between was overwritten before the driver asked.
            (self.from, self.end) = (to.offset, to);
            self.pieces.clear();
        }
        self.places.retain(|place| place.offset <= to.offset);
        self.runs.retain(|run| run.start < to.offset);
        while let Some((at, piece)) =
            self.pieces.back_mut().filter(|(at, piece)| at + piece.len() as u64 > to.offset)
        {
            if *at >= to.offset {
                self.pieces.pop_back();
            } else {
                piece.truncate((to.offset - *at) as usize);
            }
        }
        self.end = to;
    }

    /// The log has another size now. Padding of the one before ends nowhere in the ring.
    fn resize(&mut self, capacity: u64) {
        self.header.capacity = capacity;
        let mut end = self.from;
        for (at, piece) in &self.pieces {
            if *at > end && !at.is_multiple_of(capacity) {
                self.from = *at;
            }
            end = at + piece.len() as u64;
        }
        self.overwrite(self.end.offset);
    }

    /// The content from an offset on, if the log has it.
    fn byte_ranges(&self) -> impl Iterator<Item = (u64, &[u8])> {
        self.pieces.iter().map(|(at, piece)| {
            let skip = self.from.saturating_sub(*at) as usize;
            (at + skip as u64, &piece[skip..])
        })
    }
}

/// What an end has on disk, and on the way to it.
#[derive(Default)]
pub(super) struct Disk {
    stored: [Option<Stored>; 2],
    /// When each will be durable, in order.
    pending: VecDeque<(Time, Side, Unwritten)>,
    last: Time,
    is_drain_due: bool,
    reads: BTreeMap<u64, Read>,
    next_read: u64,
}

/// A request of a session.
struct Read {
    session: SessionId,
    id: FetchId,
    side: Side,
    range: Range<u64>,
    /// How often it was put off because the content is not written yet.
    early: u64,
}

impl Disk {
    /// Carries out one step.
    fn apply(&mut self, side: Side, step: Unwritten, keeps: u64) {
        let stored = &mut self.stored[side as usize];
        match step {
            Unwritten::Begin(header) => *stored = Some(Stored::new(header, keeps)),
            Unwritten::Drop => *stored = None,
            Unwritten::Rewind { epoch, to, capacity } => {
                let stored = stored.as_mut().expect("a log that was begun");
                assert_eq!(stored.header.epoch.log, epoch.log);
                assert!(stored.header.epoch.number < epoch.number, "an epoch is used once");
                stored.header.epoch = epoch;
                stored.rewind(to);
                stored.resize(capacity);
            }
            Unwritten::Content(piece) => {
                stored.as_mut().expect("a log that was begun").append(piece);
            }
        }
    }
}

impl World {
    /// A session has something for the disk. Now and then the driver has other things to do.
    pub(super) fn unwritten(&mut self, end: usize) {
        assert!(self.stores[end], "an end without a store");
        let delay = if self.dice.one_in(4) { self.dice.within(0..3 * SECOND) } else { 0 };
        if !std::mem::replace(&mut self.ends[end].disk.is_drain_due, true) {
            self.after(delay, Job::Drain(end));
        }
    }

    pub(super) fn drain(&mut self, end: usize) {
        self.ends[end].disk.is_drain_due = false;
        for side in SIDES {
            while let Some(step) =
                self.ends[end].session.as_mut().and_then(|session| session.unwritten(side))
            {
                self.write_step(end, side, step);
            }
        }
        self.settle(end);
    }

    fn write_step(&mut self, end: usize, side: Side, step: Unwritten) {
        let most = if self.dice.one_in(30) { SECOND } else { 3 * MS };
        let latency = self.dice.within(0..most);
        let disk = &mut self.ends[end].disk;
        disk.last = (self.now + latency).max(disk.last);
        disk.pending.push_back((disk.last, side, step));
        let at = disk.last;
        self.at(at, Job::Disk(end));
    }

    /// Something is durable at an end.
    pub(super) fn durable(&mut self, end: usize) {
        while self.ends[end].disk.pending.front().is_some_and(|(at, ..)| *at <= self.now) {
            let Some((_, side, step)) = self.ends[end].disk.pending.pop_front() else { break };
            let epoch = match (&step, side) {
                (Unwritten::Begin(header), Side::Sending) => Some(header.epoch),
                (Unwritten::Rewind { epoch, .. }, Side::Sending) => Some(*epoch),
                _ => None,
            };
            self.ends[end].disk.apply(side, step, self.profile.stored());
            if let (Some(epoch), Some(session)) = (epoch, &mut self.ends[end].session) {
                session.committed(epoch);
                self.settle(end);
            }
        }
    }

    /// A session wants to read something. Most of that takes a few milliseconds; some takes long,
    /// fails, or never comes.
    pub(super) fn fetch(&mut self, end: usize, id: FetchId, side: Side, range: Range<u64>) {
        let Some(session) = self.ends[end].session.as_ref().map(Session::id) else { return };
        let latency = match self.dice.below(40) {
            0 => None,
            1..=4 => Some(self.dice.within(0..SECOND)),
            _ => Some(self.dice.within(0..6 * MS)),
        };
        let disk = &mut self.ends[end].disk;
        disk.next_read += 1;
        let number = disk.next_read;
        disk.reads.insert(number, Read { session, id, side, range, early: 0 });
        match latency {
            Some(latency) => self.after(latency, Job::Fetched(end, number)),
            None => self.summary.lost_reads += 1,
        }
    }

    pub(super) fn fetched(&mut self, end: usize, number: u64) {
        let now = self.instant();
        let disk = &mut self.ends[end].disk;
        let Some(mut read) = disk.reads.remove(&number) else { return };
        let bytes =
            disk.stored[read.side as usize].as_ref().and_then(|stored| stored.read(&read.range));
        if bytes.is_none() && !disk.pending.is_empty() && read.early < 40 {
            read.early += 1;
            disk.reads.insert(number, read);
            return self.after(10 * MS, Job::Fetched(end, number));
        }
        let bytes = bytes.filter(|_| !self.dice.one_in(40));
        self.summary.lost_reads += u64::from(bytes.is_none());
        let session = self.ends[end].session.as_mut();
        if let Some(session) = session.filter(|session| session.id() == read.session) {
            session.supply(read.id, bytes, now);
            self.decode(end);
            self.settle(end);
        }
    }

    /// What was stored before a restart is read in steps, from its end down. Some cannot be.
    pub(super) fn hook(&mut self, end: usize) {
        let is_bad = self.dice.one_in(20);
        let End { session, disk, .. } = &mut self.ends[end];
        let Some(session) = session else { return };
        let Some((log, range)) = session.unhooked() else { return };
        let start = range.start.max(range.end.saturating_sub(200_000));
        let stored = disk.stored[0].as_ref().filter(|stored| stored.header.epoch.log == log);
        let Some(stored) = stored else { return };
        let bytes = stored.read(&(start..range.end)).filter(|_| !is_bad);
        session.hook(log, start, bytes.as_deref(), &stored.runs);
        self.after(MS, Job::Hook(end));
    }

    /// A session is over, and its logs stay in memory: the driver writes what it has.
    pub(super) fn keep(&mut self, end: usize, logs: &mut Logs) {
        for side in SIDES {
            while let Some(step) = logs.unwritten(side) {
                self.write_step(end, side, step);
            }
        }
    }

    /// An end is killed: of what was not durable, some is.
    pub(super) fn crash(&mut self, end: usize) {
        let kept = self.dice.below(self.ends[end].disk.pending.len() + 1);
        let disk = &mut self.ends[end].disk;
        let torn: Vec<_> = disk.pending.split_off(kept).into();
        for (_, side, step) in std::mem::take(&mut disk.pending) {
            disk.apply(side, step, self.profile.stored());
        }
        disk.reads.clear();
        // What is lost may have overwritten what it was to replace.
        for (_, side, step) in torn {
            match (step, &mut disk.stored[side as usize]) {
                (Unwritten::Content(piece), Some(stored)) => stored.overwrite(piece.end().offset),
                (Unwritten::Begin(_) | Unwritten::Drop, _) => break,
                _ => {}
            }
        }
        self.summary.crashes += 1;
        self.compare_disks();
        self.forget(end, false);
        self.ends[end].logs = None;
    }

    /// Logs of one id that agree at a place are equal below it.
    fn compare_disks(&self) {
        for (sender, receiver) in [(0, 1), (1, 0)] {
            let of = |end: usize, side: Side| self.ends[end].disk.stored[side as usize].as_ref();
            let (Some(sent), Some(received)) =
                (of(sender, Side::Sending), of(receiver, Side::Receiving))
            else {
                continue;
            };
            let common = sent.places.iter().rev().find(|place| received.places.contains(place));
            let Some(common) =
                common.filter(|_| sent.header.epoch.log == received.header.epoch.log)
            else {
                continue;
            };
            let from = sent.from.max(received.from);
            let bytes = |stored: &Stored| {
                let mut all = vec![0; common.offset.saturating_sub(from) as usize];
                for (at, piece) in stored.byte_ranges() {
                    for (offset, &byte) in (at..).zip(piece) {
                        if (from..common.offset).contains(&offset) {
                            all[(offset - from) as usize] = byte;
                        }
                    }
                }
                all
            };
            assert!(bytes(sent) == bytes(received), "stored logs differ below {common:?}");
        }
    }

    /// The logs for the next session of an end: those in memory, or those on disk.
    pub(super) fn logs_for(&mut self, end: usize, config: &Settings) -> Option<Logs> {
        let kept = self.ends[end].logs.take();
        if kept.is_some() || !self.stores[end] {
            return kept;
        }
        let mut back = Vec::new();
        for side in SIDES {
            let Some(stored) = self.ends[end].disk.stored[side as usize].as_ref() else { continue };
            let record = LogRecord {
                header: stored.header,
                from: stored.from,
                end: stored.end,
                places: stored.places.clone(),
                runs: stored.runs.clone(),
            };
            let restored = RestoredLog::new(config, side, record).and_then(|mut log| {
                for (at, piece) in stored.byte_ranges() {
                    // The disk may have more than memory has room for.
                    let skip = log.at().saturating_sub(at).min(piece.len() as u64);
                    let piece = &piece[skip as usize..];
                    if !piece.is_empty() {
                        log.push(at + skip, piece)?;
                    }
                }
                log.finish()
            });
            match restored {
                Ok(log) => back.push(log),
                // Nothing was written, or all of it was overwritten.
                Err(RestoreError::Record("its first and last offset")) => {
                    assert!(stored.from >= stored.end.offset);
                }
                Err(error) => panic!("{error}: {:?} {:?}", stored.header, stored.end),
            }
        }
        self.summary.restored += back.len() as u64;
        let restored: Vec<Side> = back.iter().map(oncewire_session::FinishedLog::side).collect();
        self.say(|| format!("end {end} restores {restored:?}"));
        Some(Logs::restored(config, back))
    }
}
