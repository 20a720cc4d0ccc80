//! Frames that are written while the next blocks are searched.

use crate::lent::{Pair, config, words};
use oncewire_session::{Config, Divides, EncodeJob, FlowId, SMALLEST_LOG, WriteJob};
use oncewire_testkit::content::incompressible as noise;
use std::time::Duration;

fn large(random: u64) -> Config {
    Config { log: 16 * SMALLEST_LOG, ..config(random) }
}

/// A pair whose client has so much of a flow queued.
fn sending(content: &[u8]) -> (Pair, FlowId) {
    let mut pair = Pair::of(large(1), large(2));
    let flow = pair.client.open(b"tcp:origin.example:80", b"", pair.now).unwrap();
    pair.exchange();
    assert_eq!(pair.client.write(flow, content), content.len());
    (pair, flow)
}

/// The client's next block is found. Returns whether somebody has to write.
fn find(pair: &mut Pair, out: &mut Vec<u8>) -> Option<bool> {
    let mut job = pair.client.fill(0, 1 << 20, pair.now, out)?;
    job.find();
    Some(pair.client.found(job, pair.now))
}

#[test]
fn blocks_are_found_while_frames_are_written_and_follow_in_order() {
    let content = words(200_000);
    let (mut pair, flow) = sending(&content);
    pair.client.finish(flow);
    let mut out = Vec::new();
    // One has to be told to write, and is not told again while it does.
    assert_eq!(find(&mut pair, &mut out), Some(true));
    let epoch = out.len();
    let mut job: WriteJob = pair.client.next_write(pair.now).unwrap();
    assert_eq!(find(&mut pair, &mut out), Some(false));
    assert!(pair.client.next_write(pair.now).is_none(), "the writer is out");
    let blocks = pair.client.counters().blocks;
    assert_eq!(blocks, 2);
    // Neither a frame nor FIN, which follows the frames, is there yet.
    while find(&mut pair, &mut out).is_some() {}
    let found = pair.client.counters().blocks;
    assert_eq!((found, out.len()), (4, epoch), "four blocks of 64 KiB");
    assert!(!pair.client.is_acknowledged() && !pair.client.is_idle());
    let mut lens = Vec::new();
    loop {
        job.run();
        let next = pair.client.written(job, pair.now);
        assert!(find(&mut pair, &mut out).is_none());
        lens.push(out.len());
        let Some(next) = next else { break };
        job = next;
    }
    assert!(lens.len() == 4 && lens.is_sorted_by(|one, next| one < next), "{lens:?}");
    pair.client.sent(0, 0, pair.now, &mut out);
    pair.server.receive(0, &out, pair.now);
    pair.exchange();
    pair.acknowledge();
    assert_eq!(pair.received(flow), (content, true));
    assert!(pair.client.is_acknowledged());
}

#[test]
fn a_session_divides_what_holds_it_up() {
    let text = words(3 << 20);
    // Repeats, and content that does not shrink, take no time to write.
    let (random, again) = (noise(9, 1 << 20), text[..1 << 20].to_vec());
    let content = [text, random, again].concat();
    let (mut pair, flow) = sending(&[]);
    let (mut rest, mut divided, mut at) = (&content[..], [0; 5], 0);
    while at < content.len() {
        rest = &rest[pair.client.write(flow, rest)..];
        let mut out = Vec::new();
        while let Some(mut job) = pair.client.fill(0, 1 << 20, pair.now, &mut out) {
            assert_ne!(job.divides(), Divides::Must);
            divided[(at >> 20).min(4)] += usize::from(job.divides() == Divides::Can);
            at += EncodeJob::content(&job);
            job.run(&mut out);
            pair.now += Duration::from_millis(1);
            pair.client.encoded(job, pair.now, &mut out);
        }
        pair.client.sent(0, 0, pair.now, &mut out);
        pair.server.receive(0, &out, pair.now);
        pair.received(flow);
        pair.exchange();
    }
    let [first, second, third, random, again] = divided;
    assert!((4..=9).contains(&first), "from 512 KiB on: {divided:?}");
    assert!(second >= 12 && third >= 12 && random <= 1 && again <= 1, "{divided:?}");
}

#[test]
fn on_a_new_transport_blocks_that_were_not_written_go_first() {
    let content = words(200_000);
    for written in 0..4 {
        let (mut pair, flow) = sending(&content);
        pair.client.finish(flow);
        let mut out = Vec::new();
        let mut next = None;
        while let Some(begin) = find(&mut pair, &mut out) {
            next = if begin { pair.client.next_write(pair.now) } else { next };
        }
        for _ in 0..written {
            let mut job = next.unwrap();
            job.run();
            next = pair.client.written(job, pair.now);
        }
        pair.reconnect();
        pair.exchange();
        // The frame that is being written was for the other transport, and so were those behind it.
        let mut job = next.unwrap();
        job.run();
        assert!(pair.client.written(job, pair.now).is_none());
        pair.exchange();
        pair.acknowledge();
        assert!(pair.received(flow) == (content.clone(), true), "{written}");
        // Its contexts go on, on both ends.
        let flow = pair.client.open(b"tcp:origin.example:80", b"", pair.now).unwrap();
        let more = words(230_000).split_off(200_000);
        pair.client.write(flow, &more);
        pair.client.finish(flow);
        pair.exchange();
        assert_eq!(pair.received(flow), (more, true));
    }
}

#[test]
fn logs_outlive_a_session_that_ends_while_a_frame_is_written() {
    let content = words(200_000);
    let (mut pair, flow) = sending(&content);
    pair.exchange();
    pair.acknowledge();
    assert!(pair.received(flow).0 == content);
    pair.client.write(flow, &words(50_000));
    assert_eq!(find(&mut pair, &mut Vec::new()), Some(true));
    let job = pair.client.next_write(pair.now).unwrap();
    let pair = pair.begin_again(large);
    drop(job);
    assert_eq!(pair.client.counters().warm_starts, 1);

    // A frame that is lost while the session lives ends it.
    let (mut pair, _) = sending(&content);
    assert_eq!(find(&mut pair, &mut Vec::new()), Some(true));
    drop(pair.client.next_write(pair.now).unwrap());
    pair.client.encoder_lost();
    assert!(pair.client.ended().is_some());
}
