//! Logs of which a disk keeps more than memory: what repeats only there is found.

use oncewire_codec::{EncoderBuilder, Sharing};
use oncewire_session::{
    Config, Event, FetchId, Hello, LogHeader, LogRecord, Logs, Owner, Piece, Read, Repeat,
    RestoredLog, Run, Session, Settings, Side, StoreFor, StoreKey, Unwritten,
};
use oncewire_testkit::content::incompressible;
use std::ops::Range;
use std::time::{Duration, Instant};

pub(super) const MIB: usize = 1 << 20;
/// Size of a log in memory, in bytes.
const LOG: u64 = 2 << 20;

/// What a disk does with a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Disk {
    Reads,
    Fails,
    Hangs,
    /// Gives other bytes than were written.
    Lies,
    /// Keeps requests until somebody answers them.
    Waits,
}

pub(super) struct End {
    pub(super) session: Session,
    pub(super) disk: Disk,
    /// Both logs, from offset 0 on.
    pub(super) stored: [Vec<u8>; 2],
    /// What a restart needs besides: headers, and pieces without their bytes.
    headers: [Option<LogHeader>; 2],
    pieces: [Vec<Piece>; 2],
    /// What of the sending log cannot be read after a restart.
    hole: Range<u64>,
    pub(super) requests: Vec<(FetchId, Side, Range<u64>)>,
    read: u64,
    /// Bytes of each log that it was said to have before.
    repeated: [u64; 2],
}

impl End {
    pub(super) fn drain(&mut self, now: Instant) {
        while let Some(event) = self.session.poll_event() {
            if let Event::Fetch { id, side, range } = event {
                assert!(range.end - range.start <= 65_536);
                self.requests.push((id, side, range));
            }
        }
        for side in [Side::Sending, Side::Receiving] {
            let stored = &mut self.stored[side as usize];
            let header = &mut self.headers[side as usize];
            let pieces = &mut self.pieces[side as usize];
            while let Some(step) = self.session.unwritten(side) {
                match step {
                    Unwritten::Begin(begun) => {
                        stored.clear();
                        pieces.clear();
                        *header = Some(begun);
                        self.session.committed(begun.epoch);
                    }
                    Unwritten::Rewind { epoch, to, capacity } => {
                        stored.truncate(to.offset as usize);
                        pieces.retain(|piece| piece.end().offset <= to.offset);
                        header.iter_mut().for_each(|header| {
                            (header.epoch, header.capacity) = (epoch, capacity);
                        });
                        self.session.committed(epoch);
                    }
                    Unwritten::Content(piece) => {
                        stored.resize(piece.offset as usize, 0);
                        stored.extend_from_slice(&piece.bytes);
                        for Repeat { offset, source, len } in piece.repeats.iter().copied() {
                            let [now, before] = [offset, source]
                                .map(|from| &stored[from as usize..(from + len) as usize]);
                            assert!(now == before || self.disk == Disk::Lies, "it repeats that");
                            assert!(offset >= piece.offset && source + len <= offset);
                            self.repeated[side as usize] += len;
                        }
                        pieces.push(piece);
                    }
                    Unwritten::Drop => stored.clear(),
                }
            }
        }
        self.hook();
        if self.disk == Disk::Waits {
            return;
        }
        for (id, side, range) in self.requests.drain(..) {
            let stored = &self.stored[side as usize];
            let bytes = stored.get(range.start as usize..range.end as usize).map(<[u8]>::to_vec);
            self.read += range.end - range.start;
            match self.disk {
                Disk::Reads => self.session.supply(id, bytes, now),
                Disk::Fails => self.session.supply(id, None, now),
                Disk::Lies => {
                    self.session.supply(id, bytes.map(|bytes| vec![7; bytes.len()]), now);
                }
                Disk::Hangs | Disk::Waits => {}
            }
        }
    }
}

impl End {
    /// What was stored before a restart is read in steps.
    fn hook(&mut self) {
        while let Some((log, range)) = self.session.unhooked() {
            let runs: Vec<Run> =
                self.pieces[0].iter().flat_map(|piece| piece.runs.iter().copied()).collect();
            let mut start = range.start.max(range.end.saturating_sub(100_000));
            let mut content = self.stored[0].get(start as usize..range.end as usize);
            if start < self.hole.end && self.hole.start < range.end {
                start = self.hole.start.max(range.start);
                content = None;
            }
            self.session.hook(log, start, content, &runs);
        }
    }

    /// Both logs as they come back into memory, in another process.
    fn restored(&self, config: &Config) -> Logs {
        let back = [Side::Sending, Side::Receiving].into_iter().filter_map(|side| {
            let pieces = &self.pieces[side as usize];
            let last = pieces.last()?;
            let places = pieces.iter().filter(|piece| piece.is_place).map(Piece::end).collect();
            let mut runs: Vec<Run> = pieces.iter().flat_map(|piece| piece.runs.clone()).collect();
            runs.dedup_by_key(|run| run.start);
            let header = self.headers[side as usize]?;
            let record = LogRecord { header, from: 0, end: last.end(), places, runs };
            let mut log = RestoredLog::new(config, side, record).unwrap();
            for piece in pieces {
                let skip = log.at().saturating_sub(piece.offset) as usize;
                if let Some(rest) = piece.bytes.get(skip..).filter(|rest| !rest.is_empty()) {
                    log.push(piece.offset + skip as u64, rest).unwrap();
                }
            }
            Some(log.finish().unwrap())
        });
        Logs::restored(config, back.collect::<Vec<_>>())
    }
}

/// A client and a server with a transport on each of two lanes, or of one.
pub(super) struct Pair {
    pub(super) ends: [End; 2],
    pub(super) now: Instant,
    wire: usize,
    lanes: usize,
}

fn config(end: usize, sharing: Sharing, stored: u64, lanes: usize, goal: StoreFor) -> Settings {
    let config = Config {
        store_for: goal,
        log: LOG,
        lanes,
        random: [1, end as u64, 3, 4],
        encoder: EncoderBuilder::default().sharing(sharing),
        store: (stored > 0).then_some(StoreKey([5, end as u64])),
        stored,
        ..Config::default()
    };
    config.build().unwrap()
}

impl Pair {
    pub(super) fn new(sharing: Sharing, stored: [u64; 2], disks: [Disk; 2], lanes: usize) -> Pair {
        Pair::with_goal(sharing, stored, disks, lanes, StoreFor::Time)
    }

    pub(super) fn with_goal(
        sharing: Sharing,
        stored: [u64; 2],
        disks: [Disk; 2],
        lanes: usize,
        goal: StoreFor,
    ) -> Pair {
        let settings = [0, 1].map(|end| config(end, sharing, stored[end], lanes, goal));
        Pair::with_settings(settings, disks, lanes)
    }

    /// Logs of this size in memory, on one lane.
    pub(super) fn with_log(log: u64, stored: u64, goal: StoreFor) -> Pair {
        let settings = [0, 1].map(|end| {
            let config = config(end, Sharing::None, stored, 1, goal);
            Config { log, ..Config::clone(&config) }.build().unwrap()
        });
        Pair::with_settings(settings, [Disk::Reads; 2], 1)
    }

    fn with_settings(settings: [Settings; 2], disks: [Disk; 2], lanes: usize) -> Pair {
        #[expect(clippy::disallowed_methods, reason = "a test needs a time to start from")]
        let now = Instant::now();
        let [client, server] = settings;
        let mut client = Session::connect(client, None, now);
        client.attach(0, now);
        let mut hello = Vec::new();
        client.transmit(0, MIB, now, &mut hello);
        let (hello, _) = Hello::read(&hello).unwrap().unwrap();
        let server = Session::accept_new(server, None, &hello, now).unwrap();
        let end = |session, disk| End {
            session,
            disk,
            stored: [Vec::new(), Vec::new()],
            headers: [None; 2],
            pieces: [Vec::new(), Vec::new()],
            hole: 0..0,
            requests: Vec::new(),
            read: 0,
            repeated: [0; 2],
        };
        let [up, down] = disks;
        let mut pair = Pair { ends: [end(client, up), end(server, down)], now, wire: 0, lanes };
        pair.exchange();
        (1..lanes).for_each(|lane| pair.dial(lane));
        pair.exchange();
        pair
    }

    /// Both ends begin again in another process, with what they have stored: that which memory has
    /// room for is in memory.
    fn restart(&mut self) {
        self.restart_with([LOG; 2]);
    }

    /// As [`Pair::restart`], with logs in memory of these sizes.
    fn restart_with(&mut self, logs: [u64; 2]) {
        let now = self.now;
        let config = |end: usize| {
            let config = config(end, Sharing::None, ALL, 1, StoreFor::Time);
            let (random, log) = ([2, end as u64, 5, 6], logs[end]);
            let config = Config { random, log, ..Config::clone(&config) };
            config.build().unwrap()
        };
        let [up, down] = [0, 1].map(|end| self.ends[end].restored(&config(end)));
        let mut client = Session::connect(config(0), Some(up), now);
        client.attach(0, now);
        let mut hello = Vec::new();
        client.transmit(0, MIB, now, &mut hello);
        let (hello, _) = Hello::read(&hello).unwrap().unwrap();
        let server = Session::accept_new(config(1), Some(down), &hello, now).unwrap();
        (self.ends[0].session, self.ends[1].session) = (client, server);
        self.exchange();
        assert_eq!(self.ends[0].session.counters().warm_starts, 1);
    }

    /// A new transport for a lane.
    fn dial(&mut self, lane: usize) {
        self.ends[0].session.attach(lane, self.now);
        let mut hello = Vec::new();
        self.ends[0].session.transmit(lane, MIB, self.now, &mut hello);
        self.wire += hello.len();
        let (hello, _) = Hello::read(&hello)
            .unwrap()
            .unwrap_or_else(|| panic!("no hello: {:?}", self.ends[0].session.ended()));
        self.ends[1].session.accept_lane(&hello, self.now).unwrap();
    }

    pub(super) fn exchange(&mut self) {
        loop {
            let mut moved = 0;
            for (from, lane) in
                [0, 1].into_iter().flat_map(|end| (0..self.lanes).map(move |lane| (end, lane)))
            {
                let mut bytes = Vec::new();
                self.ends[from].session.transmit(lane, MIB, self.now, &mut bytes);
                moved += bytes.len();
                self.wire += if from == 0 { bytes.len() } else { 0 };
                self.ends[1 - from].session.receive(lane, &bytes, self.now);
                self.ends[from].drain(self.now);
                self.ends[1 - from].drain(self.now);
                // What the disk has brought is decoded.
                self.ends[1 - from].session.receive(lane, &[], self.now);
                self.ends[1 - from].drain(self.now);
            }
            for lane in 0..self.lanes {
                if self.ends.iter().any(|end| !end.session.wants_transport(lane)) {
                    self.ends.iter_mut().for_each(|end| end.session.detach(lane, self.now));
                    self.dial(lane);
                    moved += 1;
                }
            }
            if moved == 0 {
                return;
            }
        }
    }

    /// The client uploads content. Returns how many bytes that took.
    pub(super) fn upload(&mut self, name: &[u8], content: &[u8]) -> usize {
        let before = self.wire;
        let owner = Owner { client: name.to_vec(), name: Vec::new() };
        let flow = self.ends[0].session.open(b"tcp:a:1", owner, self.now).unwrap();
        let (mut written, mut got) = (0, Vec::new());
        for _ in 0..10_000 {
            written += self.ends[0].session.write(flow, &content[written..]);
            self.exchange();
            while let Read::Data(chunk) = self.ends[1].session.read(flow) {
                self.ends[1].session.consumed(flow, chunk.len(), self.now);
                got.extend_from_slice(&chunk);
            }
            if got.len() == content.len() {
                break;
            }
            self.now += Duration::from_millis(25);
            for end in &mut self.ends {
                end.session.on_timeout(self.now);
                end.session.receive(0, &[], self.now);
            }
            self.exchange();
        }
        assert!(got == content, "bytes out equal bytes in");
        for end in &self.ends {
            assert_eq!(end.session.ended(), None);
        }
        self.wire - before
    }

    /// Reports are exchanged.
    fn rest(&mut self) {
        for _ in 0..100 {
            self.now += Duration::from_millis(100);
            self.ends.iter_mut().for_each(|end| end.session.on_timeout(self.now));
            self.exchange();
        }
    }

    pub(super) fn failures(&self) -> u64 {
        self.ends.iter().map(|end| end.session.counters().failures).sum()
    }
}

pub(super) const ALL: u64 = 1 << 30;

#[test]
fn what_repeats_only_on_disk_is_found_on_one_lane_and_on_two() {
    for lanes in [1, 2] {
        let content = incompressible(1, 12 * MIB);
        let mut pair = Pair::new(Sharing::None, [ALL; 2], [Disk::Reads; 2], lanes);
        assert!(pair.upload(b"a", &content) > content.len());
        let again = pair.upload(b"a", &content);
        assert!(again < content.len() / 100, "{again} bytes, with six times the memory on disk");
        assert_eq!(pair.failures(), 0);
        let logs = |end: usize, side: Side| &pair.ends[end].stored[side as usize];
        assert!(logs(0, Side::Sending) == logs(1, Side::Receiving), "both logs are equal");
        // What was read is what was sent: it enters the logs once, and does not have to be written.
        for (end, side) in [(0, Side::Sending), (1, Side::Receiving)] {
            let repeated = pair.ends[end].repeated[side as usize] as usize;
            let all = content.len() / 100 * 98..=content.len();
            assert!(all.contains(&repeated), "{side:?}: {repeated}");
            let entered = pair.ends[end].stored[side as usize].len() - 2 * content.len();
            assert!(entered < content.len() / 100, "{side:?}: {entered} bytes more");
        }
    }
}

/// Memory is needed elsewhere, again and again: what it held is read from disk.
#[test]
fn what_memory_was_released_of_is_found_on_disk() {
    for (lanes, is_released) in [(1, true), (2, true), (1, false)] {
        let content = incompressible(8, MIB);
        let mut pair = Pair::new(Sharing::None, [ALL; 2], [Disk::Reads; 2], lanes);
        pair.upload(b"a", &content);
        for turn in 0..4 {
            pair.rest();
            let now = pair.now;
            let before = pair.ends[1].read;
            if is_released {
                // Either end may be short of memory.
                assert!(pair.ends[turn % 2].session.release_logs(now));
            } else {
                let limit = if turn % 2 == 0 { 1 << 20 } else { LOG };
                pair.ends[1].session.set_log_limit(limit, now).unwrap();
            }
            let wire = pair.upload(b"a", &content);
            let counters = pair.ends[0].session.counters();
            assert!(wire < MIB / 40, "{wire} bytes, turn {turn}");
            assert!(
                pair.ends[1].read - before >= 900_000 || !is_released,
                "turn {turn}: {} bytes read",
                pair.ends[1].read - before
            );
            assert_eq!(pair.failures(), 0);
            assert!(!is_released || counters.epochs == turn as u64 + 2, "{}", counters.epochs);
        }
        let logs = |end: usize, side: Side| &pair.ends[end].stored[side as usize];
        assert!(logs(0, Side::Sending) == logs(1, Side::Receiving), "both logs are equal");
        assert!(logs(0, Side::Sending).len() > 4 * MIB, "one log from the first byte on");
    }
}

#[test]
fn what_lay_on_disk_before_a_restart_is_found_by_its_owner() {
    let (ours, theirs) = (incompressible(20, 8 * MIB), incompressible(21, 4 * MIB));
    for hole in [0..0, 5 << 20..6 << 20] {
        let mut pair = Pair::new(Sharing::None, [ALL; 2], [Disk::Reads; 2], 1);
        pair.upload(b"a", &ours[..4 * MIB]);
        pair.upload(b"b", &theirs);
        pair.upload(b"a", &ours[4 * MIB..]);
        let lost = (hole.end - hole.start) as usize;
        pair.ends[0].hole = hole;
        pair.restart();
        assert_eq!(pair.ends[0].session.unhooked(), None);
        // The oldest content, then all.
        let wire = pair.upload(b"a", &ours[..MIB]);
        assert!(wire < MIB / 50, "{wire} bytes for a MiB");
        let wire = pair.upload(b"b", &ours[2 * MIB..3 * MIB]);
        assert!(wire > MIB, "another owner's: {wire} bytes");
        let wire = pair.upload(b"b", &theirs);
        assert!((lost..lost + 4 * MIB / 50).contains(&wire), "{wire} bytes for 4 MiB");
        let wire = pair.upload(b"a", &ours);
        assert!(wire < 8 * MIB / 50, "{wire} bytes for 8 MiB");
        assert_eq!(pair.failures(), 0);
        let logs = |end: usize, side: Side| &pair.ends[end].stored[side as usize];
        assert!(logs(0, Side::Sending) == logs(1, Side::Receiving), "both logs are equal");
    }
}

#[test]
fn a_log_that_only_one_end_stores_is_given_up_with_its_memory() {
    let content = incompressible(9, MIB);
    for stored in [[ALL, 0], [0, ALL]] {
        let mut pair = Pair::new(Sharing::None, stored, [Disk::Reads; 2], 1);
        pair.upload(b"a", &content);
        pair.rest();
        let now = pair.now;
        assert!(pair.ends[0].session.release_logs(now));
        assert!(pair.upload(b"a", &content) > MIB);
        let ends = pair.ends.each_ref().map(|end| end.session.offsets());
        assert_eq!((ends[0].0, ends[1].2), (MIB as u64, MIB as u64), "another log");
    }
}

#[test]
fn an_object_that_lies_only_on_disk_takes_little_more_than_one_in_memory() {
    let objects: Vec<Vec<u8>> = (0..40).map(|nth| incompressible(50 + nth, 15_000)).collect();
    let mut pair = Pair::new(Sharing::None, [ALL; 2], [Disk::Reads; 2], 1);
    objects.iter().for_each(|object| assert!(pair.upload(b"a", object) > object.len()));
    pair.upload(b"a", &incompressible(7, 6 * MIB));
    pair.rest();
    let on_disk: usize = objects.iter().map(|object| pair.upload(b"a", object)).sum();
    let in_memory: usize = objects.iter().map(|object| pair.upload(b"a", object)).sum();
    // An object of 15 KB has few hooks, so some have none: the mean counts.
    let mean = on_disk / objects.len();
    assert!(mean < 300, "{mean} bytes for 15 KB, {} from memory", in_memory / objects.len());
}

#[test]
fn nothing_is_read_for_new_content_or_for_what_is_in_memory_or_without_a_disk() {
    let content = incompressible(2, 6 * MIB);
    for stored in [[ALL, 0], [0, ALL], [0, 0]] {
        let mut pair = Pair::new(Sharing::None, stored, [Disk::Reads; 2], 1);
        pair.upload(b"a", &content);
        assert!(pair.upload(b"a", &content) > content.len());
        assert_eq!(pair.ends.iter().map(|end| end.read).sum::<u64>(), 0);
    }
    let mut pair = Pair::new(Sharing::None, [ALL; 2], [Disk::Reads; 2], 1);
    pair.upload(b"a", &content);
    assert!(pair.upload(b"a", &content[5 * MIB..]) < 4000);
    assert_eq!(pair.ends.iter().map(|end| end.read).sum::<u64>(), 0);
}

#[test]
fn a_disk_that_holds_less_is_asked_for_no_more() {
    let content = incompressible(3, 12 * MIB);
    let mut pair = Pair::new(Sharing::None, [ALL, 6 << 20], [Disk::Reads; 2], 1);
    pair.upload(b"a", &content);
    assert!(pair.upload(b"a", &content[..MIB]) > MIB);
    assert_eq!(pair.ends[1].read, 0);
    assert!(pair.upload(b"a", &content[8 * MIB..9 * MIB]) < MIB / 50);
}

#[test]
fn other_owners_find_nothing_on_disk() {
    let content = incompressible(4, 6 * MIB);
    let mut pair = Pair::new(Sharing::None, [ALL; 2], [Disk::Reads; 2], 1);
    pair.upload(b"a", &content);
    assert!(pair.upload(b"b", &content[..MIB]) > MIB);
    assert_eq!(pair.ends.iter().map(|end| end.read).sum::<u64>(), 0);
    assert!(pair.upload(b"a", &content[2 * MIB..3 * MIB]) < MIB / 50);
}

#[test]
fn owners_that_take_turns_get_back_their_own_content_only() {
    let mut pair = Pair::new(Sharing::None, [ALL; 2], [Disk::Reads; 2], 1);
    let part = |nth: u64| incompressible(100 + nth, 40_000);
    for nth in 0..100 {
        pair.upload(if nth % 2 == 0 { b"a" } else { b"b" }, &part(nth));
    }
    let before = pair.ends[1].read;
    let wire = pair.upload(b"a", &part(0));
    assert!(wire < 8000, "{wire}");
    let read = pair.ends[1].read - before;
    assert!(read <= 40_000, "{read} bytes: no neighbor of another owner");
}

#[test]
fn a_disk_that_fails_hangs_or_lies_costs_no_log_and_no_byte() {
    let content = incompressible(5, 6 * MIB);
    for disk in [Disk::Fails, Disk::Hangs, Disk::Lies] {
        for end in [0, 1] {
            for lanes in [1, 2] {
                let mut disks = [Disk::Reads; 2];
                disks[end] = disk;
                let mut pair = Pair::new(Sharing::None, [ALL; 2], disks, lanes);
                pair.upload(b"a", &content);
                let wire = pair.upload(b"a", &content[..2 * MIB]);
                assert!(wire > MIB, "{wire} {disk:?} {end}");
                let counters = pair.ends[0].session.counters();
                assert_eq!(counters.epochs, 1, "{disk:?} {end}: the log stays");
                assert!(pair.failures() <= 8, "{} {disk:?} {end}", pair.failures());
                // The memory still works.
                assert!(pair.upload(b"a", &content[5 * MIB + 500_000..]) < MIB);
            }
        }
    }
}

/// Flows that wait for a disk go on when there is none any more, or another log begins.
#[test]
fn a_flow_does_not_wait_for_a_disk_that_was_given_up() {
    let content = incompressible(6, 6 * MIB);
    for (end, is_given_up) in [(0, true), (0, false), (1, false)] {
        let mut pair = Pair::new(Sharing::None, [ALL; 2], [Disk::Reads; 2], 1);
        pair.upload(b"a", &content);
        pair.ends[end].disk = Disk::Waits;
        let owner = Owner { client: b"a".to_vec(), name: Vec::new() };
        let flow = pair.ends[0].session.open(b"tcp:a:1", owner, pair.now).unwrap();
        assert_eq!(pair.ends[0].session.write(flow, &content[..50_000]), 50_000);
        pair.exchange();
        assert!(!pair.ends[end].requests.is_empty(), "it waits for this disk");
        let now = pair.now;
        if is_given_up {
            pair.ends[0].session.give_up_store();
        } else {
            // The receiving log is lost, with all that was read of it.
            pair.ends[1].session.detach(0, now);
            pair.ends[0].session.detach(0, now);
            pair.ends[end].requests.clear();
            pair.dial(0);
        }
        let mut got = 0;
        for _ in 0..200 {
            pair.exchange();
            while let Read::Data(chunk) = pair.ends[1].session.read(flow) {
                pair.ends[1].session.consumed(flow, chunk.len(), now);
                got += chunk.len();
            }
            if !is_given_up {
                pair.now += Duration::from_millis(25);
            }
            pair.ends.iter_mut().for_each(|end| end.session.on_timeout(pair.now));
        }
        assert_eq!(got, 50_000, "{end} {is_given_up}");
    }
}

#[test]
fn a_log_that_is_larger_than_memory_after_a_restart_goes_on() {
    let content = incompressible(23, 6 * MIB);
    for logs in [[1 << 20, LOG], [LOG, 1 << 20], [1 << 20; 2]] {
        let mut pair = Pair::new(Sharing::None, [ALL; 2], [Disk::Reads; 2], 1);
        pair.upload(b"a", &content);
        // Twice: what was stored under another size is a log like any other.
        for turn in 0..2 {
            pair.restart_with(logs);
            let wire = pair.upload(b"a", &content);
            assert!(wire < 6 * MIB / 40, "{wire} bytes for 6 MiB, {logs:?}, turn {turn}");
            let counters = pair.ends[0].session.counters();
            assert_eq!((counters.warm_starts, pair.failures()), (1, 0));
            assert_eq!(counters.log_capacity, 1 << 20);
            let logs = |end: usize, side: Side| &pair.ends[end].stored[side as usize];
            assert!(logs(0, Side::Sending) == logs(1, Side::Receiving), "both logs are equal");
        }
    }
}
