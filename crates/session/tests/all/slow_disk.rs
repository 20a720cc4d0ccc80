//! A receiving end whose disk is slow: only flows wait that need it.

use super::recalled::{ALL, Disk, MIB, Pair};
use oncewire_codec::Sharing;
use oncewire_session::{FetchId, FlowId, Owner, Read, Side, StoreFor};
use oncewire_testkit::content::incompressible;
use std::collections::VecDeque;
use std::ops::Range;
use std::time::{Duration, Instant};

const MS: Duration = Duration::from_millis(1);
/// From one end to the other.
const DELAY: Duration = Duration::from_millis(5);

/// What is under way: bytes to an end, and requests that its disk has.
#[derive(Default)]
struct Way {
    bytes: VecDeque<(Instant, Vec<u8>)>,
    requests: Vec<(Instant, FetchId, Side, Range<u64>)>,
}

/// A millisecond passes.
fn tick(pair: &mut Pair, ways: &mut [Way; 2], latency: &mut dyn FnMut(usize) -> Duration) {
    pair.now += MS;
    let now = pair.now;
    for end in 0..2 {
        pair.ends[end].session.on_timeout(now);
        while ways[end].bytes.front().is_some_and(|(at, _)| *at <= now) {
            let (_, bytes) = ways[end].bytes.pop_front().unwrap();
            pair.ends[end].session.receive(0, &bytes, now);
        }
        pair.ends[end].drain(now);
        for (id, side, range) in std::mem::take(&mut pair.ends[end].requests) {
            ways[end].requests.push((now + latency(end), id, side, range));
        }
        let (due, rest) =
            std::mem::take(&mut ways[end].requests).into_iter().partition(|one| one.0 <= now);
        ways[end].requests = rest;
        let due: Vec<_> = due;
        for (_, id, side, range) in due {
            let stored = &pair.ends[end].stored[side as usize];
            let bytes = stored.get(range.start as usize..range.end as usize).map(<[u8]>::to_vec);
            pair.ends[end].session.supply(id, bytes, now);
        }
        pair.ends[end].session.receive(0, &[], now);
        let mut out = Vec::new();
        pair.ends[end].session.transmit(0, MIB, now, &mut out);
        if !out.is_empty() {
            ways[1 - end].bytes.push_back((now + DELAY, out));
        }
    }
}

fn open(pair: &mut Pair, name: &[u8]) -> FlowId {
    let owner = Owner { client: name.to_vec(), name: Vec::new() };
    pair.ends[0].session.open(b"tcp:a:1", owner, pair.now).unwrap()
}

/// How long 300 small flows take, in milliseconds, in order, while a large one repeats what lies only
/// on disk, on the same lane; and the bytes that were read for it, and stretches that were not.
fn small_flows(latency: &mut dyn FnMut(usize) -> Duration) -> (Vec<u128>, u64, u64) {
    let content = incompressible(1, 12 * MIB);
    // However fast the link is.
    let goal = StoreFor::Bytes;
    let mut pair = Pair::with_goal(Sharing::None, [ALL; 2], [Disk::Reads; 2], 1, goal);
    pair.upload(b"a", &content);
    pair.ends.iter_mut().for_each(|end| end.disk = Disk::Waits);
    let mut ways = [Way::default(), Way::default()];
    let large = open(&mut pair, b"a");
    let (mut written, mut read, mut times) = (0, 0, Vec::new());
    for nth in 0..300 {
        let small = open(&mut pair, b"b");
        let object = incompressible(1000 + nth, 1000);
        assert_eq!(pair.ends[0].session.write(small, &object), object.len());
        let (begin, mut got) = (pair.now, 0);
        while got < object.len() {
            written += pair.ends[0].session.write(large, &content[written..]);
            tick(&mut pair, &mut ways, latency);
            let (session, now) = (&mut pair.ends[1].session, pair.now);
            while let Read::Data(chunk) = session.read(small) {
                session.consumed(small, chunk.len(), now);
                got += chunk.len();
            }
            while let Read::Data(chunk) = session.read(large) {
                session.consumed(large, chunk.len(), now);
                assert!(content[read..].starts_with(&chunk), "bytes out equal bytes in");
                read += chunk.len();
            }
            assert!(pair.now - begin < Duration::from_secs(5), "a small flow hangs");
        }
        times.push((pair.now - begin).as_millis());
        pair.ends[0].session.finish(small);
        pair.ends[1].session.finish(small);
    }
    assert_eq!(pair.failures(), 0);
    times.sort_unstable();
    let counters = pair.ends[0].session.counters();
    (times, counters.recalled_bytes, counters.lost_recalls)
}

#[test]
fn small_flows_do_not_wait_for_the_disk_of_a_large_one() {
    let (fast, ..) = small_flows(&mut |_| Duration::ZERO);
    let mut dice = fastrand::Rng::with_seed(7);
    for spread in [0, 20] {
        let (slow, recalled, lost) = small_flows(&mut |end| match end {
            0 => Duration::ZERO,
            _ => 20 * MS + MS * dice.u32(0..=spread),
        });
        assert!(recalled > 200_000, "{recalled} bytes were read meanwhile: {slow:?} {fast:?}");
        assert_eq!(lost, 0, "spread {spread}");
        let median = (fast[150], slow[150]);
        assert!(2 * median.1 <= 3 * median.0, "{median:?} ms at the median, spread {spread}");
        let most = (fast[296], slow[296]);
        assert!(most.1 <= most.0 + 5, "{most:?} ms of all but one in a hundred, spread {spread}");
    }
}

/// A disk is quick, and takes longer from some time on: what is announced is recalled all the same.
#[test]
fn a_disk_that_becomes_slower_is_waited_for() {
    for slow in [2 * MS, 3 * MS, 30 * MS] {
        let mut reads = 0;
        let (_, recalled, lost) = small_flows(&mut |end| {
            reads += end;
            if end == 1 && reads > 20 { slow } else { Duration::ZERO }
        });
        assert!(reads > 30 && recalled > 2_000_000, "{reads} reads, {recalled} bytes");
        assert_eq!(lost, 0, "{slow:?}");
    }
}
