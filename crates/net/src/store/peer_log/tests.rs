use super::*;
use crate::store::extents::LEAST;
use oncewire_flash::device::Crash;
use oncewire_flash::store::{Plain, Secret};
use oncewire_session::{LogHeader, Repeat};
use oncewire_testkit::servers::incompressible;
use std::sync::Arc;

const UNIT: u64 = layout::UNIT_CONTENT as u64;
/// Of the file, and of the log in memory.
const CAPACITY: u64 = 40 * UNIT;
const RING: u64 = 8 * UNIT;

fn key() -> Secret {
    Secret::derive(b"key", b"", "test")
}

fn over(log: DiskLog) -> PeerLog {
    let record = Record::read(log.owner_state());
    let new = PeerLog::new(Peer::default(), Side::Sending, None);
    PeerLog { record, log: Some(log), ..new }
}

fn opened(device: &Arc<Crash>) -> PeerLog {
    let log = DiskLog::open_on(Box::new(device.clone()), Arc::new(Plain), &key());
    over(log.expect("opens"))
}

/// A log, and what its content must be.
struct Known {
    log: PeerLog,
    device: Arc<Crash>,
    content: Vec<u8>,
    /// Not stored: gaps and padding.
    missing: Vec<Range<u64>>,
    number: u64,
    random: u64,
    commits: Vec<Commit>,
}

/// A state, and the content and what was missing of it then.
type Commit = (Vec<u8>, Vec<u8>, Vec<Range<u64>>);

impl Known {
    fn new(random: u64) -> Known {
        let new = NewLog { capacity: CAPACITY, units: 2, ..NewLog::default() };
        let device = Arc::new(Crash::new(Store::bytes_of(&new).expect("in range") as usize));
        let epoch = Epoch { log: 7, number: 0 };
        let state = Record::new(LogHeader { epoch, capacity: RING, key: 0 }).write();
        let boxed = Box::new(device.clone());
        let log = DiskLog::create_on(boxed, Arc::new(Plain), &key(), &new, &state);
        let log = over(log.expect("is made"));
        let (content, missing) = (Vec::new(), Vec::new());
        let mut known =
            Known { log, device, content, missing, number: 0, random, commits: Vec::new() };
        known.note();
        known
    }

    fn below(&mut self, n: u64) -> u64 {
        // Numerical Recipes' generator; its high bits are good enough.
        self.random =
            self.random.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (self.random >> 33) % n.max(1)
    }

    fn end(&self) -> u64 {
        self.content.len() as u64
    }

    /// What was committed last.
    fn note(&mut self) {
        let state = self.log.log.as_ref().map(|log| log.owner_state().to_vec());
        let known = (state.unwrap_or_default(), self.content.clone(), self.missing.clone());
        if self.commits.last().is_none_or(|last| last.0 != known.0) {
            self.commits.push(known);
        }
    }

    fn commit(&mut self) {
        self.log.commit().expect("commits");
        self.note();
    }

    /// The log gets bytes, some of which repeat what begins at other offsets.
    fn append(&mut self, padding: u64, bytes: Vec<u8>, repeats: Vec<Repeat>) -> u64 {
        let start = self.end();
        let before = (self.content.clone(), self.missing.clone());
        self.content.extend(std::iter::repeat_n(0, padding as usize));
        self.missing.extend((padding > 0).then_some(start..start + padding));
        let offset = self.end();
        self.content.extend(&bytes);
        for one in &repeats {
            let [from, to] = [one.source, one.offset].map(|at| at as usize);
            let len = one.len as usize;
            assert!(self.content[from..from + len] == self.content[to..to + len], "as it says");
        }
        let piece =
            Piece { offset, padding, bytes, chain: offset, is_place: true, runs: vec![], repeats };
        self.log.append(&piece, Instant::now()).expect("appends");
        // It commits by itself where the file asks for that, before the piece.
        let state = self.log.log.as_ref().map(|log| log.owner_state().to_vec()).unwrap_or_default();
        if self.commits.last().is_none_or(|last| last.0 != state) {
            self.commits.push((state, before.0, before.1));
        }
        self.log.repeated()
    }

    fn fresh(&mut self, len: u64) -> u64 {
        self.number += 1;
        let bytes = incompressible(self.number, len as usize);
        self.append(0, bytes, Vec::new())
    }

    /// The log repeats `len` bytes from `source` on.
    fn repeat(&mut self, padding: u64, source: u64, len: u64) -> u64 {
        let bytes = self.content[source as usize..(source + len) as usize].to_vec();
        let offset = self.end() + padding;
        self.append(padding, bytes, vec![Repeat { offset, source, len }])
    }

    fn rewind(&mut self, to: u64) {
        self.number += 1;
        let epoch = Epoch { log: 7, number: self.number };
        self.log.rewind(epoch, Place { offset: to, chain: to }, RING).expect("goes back");
        self.content.truncate(to as usize);
        self.missing.retain(|range| range.start < to);
        self.missing.iter_mut().for_each(|range| range.end = range.end.min(to));
        self.note();
    }

    /// Content is not stored.
    fn pass(&mut self, len: u64) {
        let offset = self.end();
        self.number += 1;
        let bytes = incompressible(self.number, len as usize);
        self.content.extend(&bytes);
        let (runs, repeats) = (Vec::new(), Vec::new());
        let piece =
            Piece { offset, padding: 0, bytes, chain: offset, is_place: true, runs, repeats };
        assert!(self.log.pass(&piece));
        // Gaps have a least length.
        let end = offset + len;
        self.missing.push(offset.min(end.saturating_sub(65_536))..end);
    }

    fn step(&mut self) {
        let end = self.end();
        let low = self.log.record.as_ref().map_or(0, |record| {
            record.extents.offset(self.log.log.as_ref().expect("is open").fill().low)
        });
        match self.below(16) {
            0..=4 => {
                let len = 1 + self.below(2 * UNIT);
                self.fresh(len);
            }
            5..=11 if end > low => {
                let source = low + self.below(end - low);
                let len = (1 + self.below(2 * UNIT)).min(end - source);
                let padding = if self.below(8) == 0 { self.below(60_000) } else { 0 };
                self.repeat(padding, source, len);
            }
            12 => {
                let back = self.below(3 * UNIT).min(end - low);
                self.rewind(end - back);
            }
            13 => {
                let len = 1 + self.below(2 * UNIT);
                self.pass(len);
            }
            _ => self.commit(),
        }
    }
}

/// Each kilobyte of a log is what it must be, or is known to be lost. Returns how many bytes were read.
fn check(log: &mut PeerLog, content: &[u8], missing: &[Range<u64>]) -> u64 {
    let end = content.len() as u64;
    assert_eq!(log.end(), Some(end));
    let (Some(disk), Some(record)) = (&log.log, &log.record) else { panic!("there is a log") };
    let fill = disk.fill();
    let low = record.extents.offset(fill.low);
    let gone = record.extents.overwritten(0..fill.low);
    let (mut at, mut held) = (0, 0);
    while at < end {
        let to = (at + 1024).min(end);
        let overlaps = |range: &Range<u64>| range.start < to && at < range.end;
        match log.read(at..to) {
            Some(bytes) => {
                let is_right = bytes == content[at as usize..to as usize];
                assert!(is_right || missing.iter().any(overlaps), "wrong bytes at {at}");
                held += to - at;
            }
            None => {
                let known = at < low || gone.iter().chain(missing).any(overlaps);
                assert!(known, "{at} is lost, and nobody knows");
            }
        }
        at = to;
    }
    held
}

#[test]
fn what_repeats_is_read_where_it_lies() {
    let mut known = Known::new(1);
    known.fresh(2 * UNIT);
    known.fresh(UNIT);
    let written = |known: &Known| known.device.steps();
    known.commit();
    let before = written(&known);
    assert_eq!(known.repeat(0, 100, UNIT), UNIT);
    assert_eq!(known.repeat(0, 100 + UNIT, 7), 7, "it goes on");
    assert_eq!(known.repeat(0, 9, LEAST - 1), 0, "too short");
    // Some of a piece, of a copy of a copy.
    let mut bytes = incompressible(77, 500);
    let source = 3 * UNIT + 10;
    bytes.extend(known.content[source as usize..][..40_000].to_vec());
    bytes.extend(incompressible(78, 500));
    let offset = known.end() + 500;
    assert_eq!(known.append(0, bytes, vec![Repeat { offset, source, len: 40_000 }]), 40_000);
    let record = known.log.record.as_ref().expect("there is one");
    assert_eq!(record.extents.find(offset), (110, 40_000));
    assert_eq!(written(&known), before, "nothing but the commit is to be written");
    let (content, missing) = (known.content.clone(), known.missing.clone());
    assert_eq!(check(&mut known.log, &content, &missing), known.end());
    known.commit();
    let mut log = opened(&known.device);
    assert_eq!(check(&mut log, &content, &missing), known.end());
    // What does not end below the piece is written.
    let (len, far) = (50_000, u64::MAX - 5);
    for source in [known.end(), known.end() + 50_000 - 10, far] {
        let repeats = vec![Repeat { offset: known.end(), source, len }];
        let bytes = incompressible(known.end(), 50_000);
        let (start, is_place, runs) = (known.end(), true, Vec::new());
        known.content.extend(&bytes);
        let piece = Piece { offset: start, padding: 0, bytes, chain: 0, is_place, runs, repeats };
        known.log.append(&piece, Instant::now()).expect("appends");
        assert_eq!(known.log.repeated(), 0);
    }
    let content = known.content.clone();
    assert_eq!(check(&mut known.log, &content, &missing), known.end());
}

/// Content that was overwritten takes what repeats it along: reads of that fail, and the session is
/// told. Content of the newer half is kept for as long as memory has room for what repeats it.
#[test]
fn a_repeat_lasts_as_long_as_what_it_repeats() {
    let mut known = Known::new(2);
    known.fresh(2 * UNIT);
    for _ in 0..9 {
        known.fresh(2 * UNIT);
    }
    assert_eq!(known.repeat(0, 0, UNIT), UNIT, "twenty units back");
    let offset = known.end() - UNIT;
    known.fresh(2 * UNIT);
    assert_eq!(known.repeat(0, 0, UNIT), 0, "the older half");
    known.log.tell_all();
    assert!(known.log.take_overwritten().is_empty());
    let mut told = Vec::new();
    for _ in 0..14 {
        assert!(known.log.read(offset..offset + UNIT).is_some() || !told.is_empty());
        known.fresh(2 * UNIT);
        told.extend(known.log.take_overwritten());
    }
    assert_eq!(told, vec![Range { start: offset, end: offset + UNIT }], "once");
    assert!(known.log.read(offset..offset + 1).is_none());
    assert!(known.log.read(offset + UNIT..offset + 2 * UNIT).is_some(), "its neighbor");
    let (content, missing) = (known.content.clone(), known.missing.clone());
    check(&mut known.log, &content, &missing);
    // The next session is told again, for it may have another peer's memory.
    known.log.tell_all();
    assert_eq!(known.log.take_overwritten(), vec![Range { start: offset, end: offset + UNIT }]);
    // What hooks are made of after a restart ends above it.
    known.commit();
    let mut log = opened(&known.device);
    let found = log.newest(7, 0..offset + 2 * UNIT, 8 * UNIT).expect("the same log");
    assert_eq!(
        (found.start, found.content.map(|all| all.len())),
        (offset + UNIT, Some(UNIT as usize))
    );
    let found = log.newest(7, 0..offset + UNIT, 8 * UNIT).expect("the same log");
    assert_eq!((found.start, found.content), (offset, None));
}

#[test]
fn a_rewind_into_a_repeat_leaves_its_beginning() {
    let mut known = Known::new(3);
    known.fresh(2 * UNIT);
    known.repeat(0, 5, 2 * UNIT - 5);
    known.fresh(1000);
    for back in [1000 + UNIT, UNIT / 2, 3 * UNIT / 2] {
        known.rewind(known.end() - back);
        let (content, missing) = (known.content.clone(), known.missing.clone());
        check(&mut known.log, &content, &missing);
        assert_eq!(check(&mut opened(&known.device), &content, &missing), known.end());
        known.fresh(300);
        assert_eq!(known.repeat(0, 0, 40_000), 40_000);
        known.rewind(known.end() - 40_300);
    }
}

/// Power is cut after writes and syncs, between appends, repeats, rewinds, gaps and commits. What is
/// there is a commit, whole, and every byte of it is right. `ONCEWIRE_STORE_CUTS=1` cuts it after
/// each of them, which takes six times as long; by default, after one of seven.
#[test]
fn a_crash_leaves_a_commit_with_its_extents() {
    let apart =
        std::env::var("ONCEWIRE_STORE_CUTS").map_or(7, |apart| apart.parse().expect("1 to 7"));
    let (mut repeated, mut overwritten, mut gaps) = (0, 0, 0);
    for seed in 1..=4 {
        let mut known = Known::new(seed * 977);
        for nth in 0..110 {
            known.step();
            repeated += known.log.repeated();
            if nth % 10 == 0 {
                let (content, missing) = (known.content.clone(), known.missing.clone());
                check(&mut known.log, &content, &missing);
            }
        }
        known.commit();
        let low = known.log.log.as_ref().map_or(0, |log| log.fill().low);
        let record = known.log.record.as_ref().expect("there is one");
        overwritten += record.extents.overwritten(0..low).len();
        gaps += record.gaps.len();
        let steps = known.device.steps();
        for step in (steps / 4..=steps).step_by(apart).chain([steps]) {
            for choice in [0, u64::MAX, seed * 1000 + step as u64] {
                let device = Arc::new(known.device.cut(step, choice));
                let mut log = opened(&device);
                let state = log.log.as_ref().expect("is open").owner_state().to_vec();
                let found = known.commits.iter().rfind(|(known, ..)| *known == state);
                let (_, content, missing) = found.expect("it was committed");
                check(&mut log, content, missing);
                log.commit().expect("it goes on");
                check(&mut opened(&device), content, missing);
            }
        }
    }
    assert!(repeated > 40 * UNIT && overwritten > 0 && gaps > 0, "{repeated} {overwritten} {gaps}");
}

#[test]
fn few_ranges_are_told_at_once() {
    let ranges = |apart: u64| (0..1000).map(|nth| nth * apart..nth * apart + 10).collect();
    let told = few(ranges(1 << 20));
    assert!(told.len() <= 32 && told[0].start == 0, "{told:?}");
    assert_eq!(told.last().map(|last| last.end), Some(999 * (1 << 20) + 10));
    let two = vec![5..6, 7..8];
    assert_eq!(few(two.clone()), two);
    assert_eq!(few(ranges(u64::MAX / 2000)).len(), 1, "the furthest");
}
