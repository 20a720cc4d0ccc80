//! Content is read back from disk where that is not slower than sending it.

use super::recalled::{ALL, Disk, MIB, Pair};
use oncewire_codec::Sharing;
use oncewire_session::{FetchId, FlowId, Owner, Read, Session, Side, StoreFor};
use oncewire_testkit::content::incompressible;
use std::collections::VecDeque;
use std::ops::Range;
use std::time::{Duration, Instant};

const TICK: Duration = Duration::from_micros(250);
const MS: Duration = Duration::from_millis(1);
/// From one end to the other.
const DELAY: Duration = MS;
/// What a transport takes before it holds its end up, in bytes.
const BUFFER: usize = 256 << 10;

/// Bytes on their way to an end, each with the time when it is there.
#[derive(Default)]
struct Way {
    bytes: VecDeque<(Instant, Vec<u8>)>,
    /// When the link has sent what it was given.
    free: Option<Instant>,
    requests: Vec<(Instant, FetchId, Side, Range<u64>)>,
}

/// Two ends, a link between them, and their disks.
struct World {
    pair: Pair,
    ways: [Way; 2],
    /// Bytes of the link per second.
    rate: f64,
    /// How long a read takes, for each end.
    latency: [Duration; 2],
    wire: usize,
    /// Blocks are searched before the frames of those before them are written.
    apart: bool,
}

/// Appends what a session has to send, whose frames are written when no other block can be found.
fn transmit_apart(session: &mut Session, limit: usize, now: Instant, out: &mut Vec<u8>) {
    let mut writing = None;
    loop {
        while let Some(mut job) = session.fill(0, limit, now, out) {
            job.find();
            if session.found(job, now) {
                writing = session.next_write(now);
            }
        }
        let Some(mut job) = writing.take() else { break };
        job.run();
        writing = session.written(job, now);
    }
    session.sent(0, 0, now, out);
}

impl World {
    fn new(stored: u64, goal: StoreFor, rate: f64, latency: [Duration; 2]) -> World {
        let pair = Pair::with_goal(Sharing::None, [stored; 2], [Disk::Reads; 2], 1, goal);
        World::of(pair, rate, latency)
    }

    fn of(mut pair: Pair, rate: f64, latency: [Duration; 2]) -> World {
        pair.ends.iter_mut().for_each(|end| end.disk = Disk::Waits);
        let ways = Default::default();
        let mut world = World { pair, ways, rate, latency, wire: 0, apart: false };
        // Until both ends know the round trip.
        for nth in 0..12 {
            world.upload(&incompressible(100 + nth, 2000));
        }
        world
    }

    fn tick(&mut self) {
        self.pair.now += TICK;
        let now = self.pair.now;
        for end in 0..2 {
            let this = &mut self.pair.ends[end];
            this.session.on_timeout(now);
            while self.ways[end].bytes.front().is_some_and(|(at, _)| *at <= now) {
                let (_, bytes) = self.ways[end].bytes.pop_front().unwrap();
                this.session.receive(0, &bytes, now);
            }
            this.drain(now);
            for (id, side, range) in std::mem::take(&mut this.requests) {
                self.ways[end].requests.push((now + self.latency[end], id, side, range));
            }
            let requests = std::mem::take(&mut self.ways[end].requests);
            let (due, rest): (Vec<_>, _) = requests.into_iter().partition(|one| one.0 <= now);
            self.ways[end].requests = rest;
            for (_, id, side, range) in due {
                let stored = &this.stored[side as usize];
                let bytes = stored.get(range.start as usize..range.end as usize);
                this.session.supply(id, bytes.map(<[u8]>::to_vec), now);
            }
            this.session.receive(0, &[], now);
            // A transport has a buffer, which the link empties.
            let way = &mut self.ways[1 - end];
            let free = way.free.unwrap_or(now).max(now);
            let waiting = (free - now).as_secs_f64() * self.rate;
            if waiting < BUFFER as f64 {
                let mut out = Vec::new();
                if self.apart {
                    transmit_apart(&mut this.session, BUFFER, now, &mut out);
                } else {
                    this.session.transmit(0, BUFFER, now, &mut out);
                }
                if !out.is_empty() {
                    self.wire += out.len();
                    let free = free + Duration::from_secs_f64(out.len() as f64 / self.rate);
                    way.free = Some(free);
                    way.bytes.push_back((free + DELAY, out));
                }
            }
        }
    }

    fn open(&mut self) -> FlowId {
        let owner = Owner { client: b"a".to_vec(), name: Vec::new() };
        self.pair.ends[0].session.open(b"tcp:a:1", owner, self.pair.now).unwrap()
    }

    /// The client uploads content. Returns how long that took, and the bytes on the wire.
    fn upload(&mut self, content: &[u8]) -> (Duration, usize) {
        let (begin, wire, flow) = (self.pair.now, self.wire, self.open());
        let (mut written, mut read) = (0, 0);
        while read < content.len() {
            written += self.pair.ends[0].session.write(flow, &content[written..]);
            self.tick();
            let (session, now) = (&mut self.pair.ends[1].session, self.pair.now);
            while let Read::Data(chunk) = session.read(flow) {
                session.consumed(flow, chunk.len(), now);
                assert!(content[read..].starts_with(&chunk), "bytes out equal bytes in");
                read += chunk.len();
            }
            assert!(self.pair.now - begin < Duration::from_secs(600), "{read} bytes");
        }
        let took = self.pair.now - begin;
        self.pair.ends.iter_mut().for_each(|end| end.session.finish(flow));
        // Nothing of it is left that waits.
        let rest = self.pair.now + Duration::from_secs(2);
        while self.pair.now < rest {
            self.tick();
        }
        for end in &mut self.pair.ends {
            assert!(!matches!(end.session.read(flow), Read::Data(_)), "more than was sent");
            assert_eq!(end.session.flow_count(), 0, "its credit is free again");
        }
        assert_eq!(self.pair.failures(), 0);
        (took, self.wire - wire)
    }

    /// Stretches that were sent because that was faster, and bytes that were read instead.
    fn outrun(&self) -> (u64, u64) {
        let counters = self.pair.ends[0].session.counters();
        (counters.outrun_recalls, counters.recalled_bytes)
    }
}

const FAST: f64 = 50e6;
const SLOW: f64 = 1e6;

#[test]
fn a_slow_disk_makes_nothing_slower_where_the_link_is_fast() {
    let content = incompressible(1, 8 * MIB);
    let mut none = World::new(0, StoreFor::Time, FAST, [MS; 2]);
    none.upload(&content);
    let without = none.upload(&content).0;
    let object = &content[2 * MIB..][..15_000];
    let small = none.upload(object).0;
    for latency in [[20, 20], [20, 0], [0, 20], [200, 20], [5, 5]] {
        let latency = latency.map(|ms| MS * ms);
        let mut world = World::new(ALL, StoreFor::Time, FAST, latency);
        world.upload(&content);
        let (with, wire) = world.upload(&content);
        assert!(with <= without * 11 / 10, "{with:?} with {latency:?}, {without:?} without");
        assert!(wire > content.len() / 2, "{wire} bytes");
        let (sent, _) = world.outrun();
        assert!(sent > 60, "{sent} stretches");
        // An object is no slower either.
        let (with, _) = world.upload(object);
        assert!(with <= small + TICK * 2, "{with:?} with {latency:?}, {small:?} without");
    }
}

#[test]
fn where_the_link_is_slow_or_the_disk_fast_everything_is_read() {
    let content = incompressible(2, 4 * MIB);
    for (rate, latency) in [(SLOW, [30, 30]), (SLOW, [1, 30]), (SLOW, [30, 1]), (FAST, [0, 0])] {
        let latency = latency.map(|ms| MS * ms);
        let bytes = [StoreFor::Time, StoreFor::Bytes].map(|goal| {
            let mut world = World::new(ALL, goal, rate, latency);
            world.upload(&content);
            let wire = world.upload(&content).1;
            assert_eq!(world.outrun().0, 0, "{latency:?} {goal:?}");
            wire
        });
        assert!(bytes[0] < content.len() / 40, "{bytes:?}");
        assert_eq!(bytes[0], bytes[1], "{latency:?}");
    }
}

#[test]
fn where_bytes_count_everything_is_read_however_slow_the_disk_is() {
    let content = incompressible(3, 4 * MIB);
    let mut world = World::new(ALL, StoreFor::Bytes, FAST, [MS * 50; 2]);
    world.upload(&content);
    let (_, wire) = world.upload(&content);
    assert!(wire < content.len() / 40, "{wire} bytes");
    let (sent, read) = world.outrun();
    assert_eq!(sent, 0);
    assert!(read > 3 * MIB as u64, "{read} bytes");
}

/// A disk hangs for a while, or is slow, and is as fast as before later.
#[test]
fn a_disk_that_was_slow_for_a_minute_is_used_again() {
    let content = incompressible(4, 6 * MIB);
    for (end, slow) in [(0, 100), (1, 100), (0, 10_000)] {
        let mut world = World::new(ALL, StoreFor::Time, FAST, [Duration::ZERO; 2]);
        let without = world.upload(&content).0;
        assert!(world.upload(&content).1 < content.len() / 40);
        world.latency[end] = MS * slow;
        let begin = world.pair.now;
        let (mut turns, mut sum) = (0, Duration::ZERO);
        while world.pair.now - begin < Duration::from_secs(60) {
            turns += 1;
            let (took, wire) = world.upload(&content);
            let share = wire as f64 / content.len() as f64;
            // The first time, nobody knows, and what was announced to a quick disk is relied on.
            let first = without * 5 / 4 + MS * slow * 2 * end as u32;
            // The span stalls one now and then.
            let most = if turns == 1 { first } else { without * 3 / 2 };
            sum += if turns == 1 { without } else { took };
            let what = format!("{took:?} of {most:?}, {share}, turn {turns}, {end} {slow}");
            assert!(took < most && (turns == 1 || share > 0.5), "{what}");
        }
        assert!(sum <= without * 11 / 10 * turns, "{sum:?} for {turns} times {without:?}");
        world.latency[end] = Duration::ZERO;
        // It takes some seconds of traffic to notice.
        let begin = world.pair.now;
        while world.upload(&content).1 > content.len() / 10 {
            assert!(world.pair.now - begin < Duration::from_secs(40), "{end} {slow}");
        }
        assert!(world.upload(&content).1 < content.len() / 10);
    }
}

/// What a flow goes on with is read while it waits for what comes before that: in as many looks as the
/// log in memory has room for.
#[test]
fn several_looks_wait_for_a_disk_at_once() {
    let content = incompressible(5, 8 * MIB);
    let looks = content.len() as u32 / 131_072;
    for (log, at_once) in [(2, 2), (6, 6), (8, 8)] {
        for latency in [[20, 0], [0, 20], [20, 20]] {
            let pair = Pair::with_log(log * MIB as u64, ALL, StoreFor::Bytes);
            let mut world = World::of(pair, FAST * 20.0, latency.map(|ms| MS * ms));
            world.upload(&content);
            // Memory does not have the first again.
            world.upload(&incompressible(6, 8 * MIB));
            let before = world.outrun().1;
            let (took, _) = world.upload(&content);
            let recalled = world.outrun().1 - before;
            assert!(recalled >= content.len() as u64 * 95 / 100, "{recalled} bytes");
            let one = MS * 20 * looks;
            let most = one / at_once * 4 / 3;
            assert!(took <= most, "{took:?} with {log} {latency:?}, {one:?} for look after look");
        }
    }
}

/// Where a look finds many short stretches, no more looks are under way than both disks are asked for.
#[test]
fn looks_that_find_much_leave_nothing_out() {
    let content = incompressible(8, 8 * MIB);
    let pieces: Vec<&[u8]> = content.chunks(10_000).collect();
    let shuffled: Vec<u8> =
        (0..pieces.len()).flat_map(|nth| pieces[nth * 389 % pieces.len()]).copied().collect();
    let wire = [2, 8].map(|log| {
        let pair = Pair::with_log(log * MIB as u64, ALL, StoreFor::Bytes);
        let mut world = World::of(pair, FAST * 20.0, [MS * 20; 2]);
        world.upload(&content);
        world.upload(&incompressible(9, 8 * MIB));
        world.upload(&shuffled).1
    });
    assert!(wire[0] < content.len() / 2 && wire[1] < wire[0] * 11 / 10, "{wire:?}");
}

/// A block does not go before what was read for it, even while the frames of those before it are
/// written.
#[test]
fn blocks_that_are_found_early_refer_to_what_was_read_for_them() {
    let content = incompressible(8, 8 * MIB);
    let mut edited = content.clone();
    edited.iter_mut().step_by(3_000).for_each(|byte| *byte ^= 1);
    let wire = [false, true].map(|apart| {
        let pair = Pair::with_log(4 * MIB as u64, ALL, StoreFor::Bytes);
        let mut world = World::of(pair, FAST * 20.0, [MS * 20; 2]);
        world.upload(&content);
        world.upload(&incompressible(9, 8 * MIB));
        world.apart = apart;
        world.upload(&edited).1
    });
    assert!(wire[0] < content.len() / 8 && wire[1] < wire[0] * 21 / 20, "{wire:?}");
}
