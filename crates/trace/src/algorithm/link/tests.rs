use super::*;
use crate::batch::testing::{Made, noise};

fn tcp() -> Made {
    Made::tcp("10.0.0.1:80", "10.0.0.2:2000")
}

/// Number and payload of the segments of each run, in the order of the link.
fn runs(packets: &[Made]) -> Vec<(usize, usize)> {
    let (mut joiner, mut runs) = (Joiner::default(), Vec::new());
    for made in packets {
        joiner.packet(&made.packet, &made.payload, |run| runs.push(run));
    }
    runs.extend(joiner.open);
    runs.iter().map(|run| (run.segments, run.payload.len())).collect()
}

/// Segments of these lengths from `seq` on, 10 us apart.
fn segments(made: &Made, mut seq: u32, lens: &[usize]) -> Vec<Made> {
    let mut segments = Vec::new();
    for (nth, &len) in lens.iter().enumerate() {
        segments.push(made.clone().at(nth as f64 * 1e-5).seq(seq, 16).payload(&noise(1, len)));
        seq = seq.wrapping_add(len as u32);
    }
    segments
}

#[test]
fn runs_are_joined_as_the_kernel_joins_them() {
    assert_eq!(runs(&segments(&tcp(), u32::MAX - 150, &[100, 100, 100, 50])), [(4, 350)]);
    // A shorter segment ends a run, a longer one begins the next.
    assert_eq!(runs(&segments(&tcp(), 0, &[100, 60, 60, 80])), [(2, 160), (1, 60), (1, 80)]);
    let mut gap = segments(&tcp(), 0, &[100, 100, 100]);
    gap.remove(1);
    assert_eq!(runs(&gap), [(1, 100), (1, 100)]);
    for (flags, joined) in [(16, true), (24, true), (17, false), (18, false), (20, false)] {
        let mut last = segments(&tcp(), 0, &[100, 100]);
        last[1] = last[1].clone().seq(100, flags);
        assert_eq!(runs(&last) == [(2, 200)], joined, "flags {flags}");
    }
    let mut pushed = segments(&tcp(), 0, &[100, 100, 100]);
    pushed[1] = pushed[1].clone().seq(100, 24);
    assert_eq!(runs(&pushed), [(2, 200), (1, 100)]);
    // Another flow in between does not end it, time does, in either direction.
    let mut mixed = segments(&tcp(), 0, &[100, 100]);
    mixed.insert(1, Made::udp("10.0.0.1:53", "10.0.0.2:2000").payload(b"answer"));
    assert_eq!(runs(&mixed), [(1, 6), (2, 200)]);
    for late in [1e-4, -1.0] {
        let mut packets = segments(&tcp(), 0, &[100, 100]);
        packets[1] = packets[1].clone().at(late);
        assert_eq!(runs(&packets), [(1, 100), (1, 100)], "{late}");
    }
    // Limits of a run.
    let lens = [100; 129];
    let mut many = segments(&tcp(), 0, &lens);
    many.iter_mut().for_each(|made| made.packet.time = 0);
    assert_eq!(runs(&many), [(128, 12_800), (1, 100)]);
    let mut long = segments(&tcp(), 0, &[1400; 48]);
    long.iter_mut().for_each(|made| made.packet.time = 0);
    assert_eq!(runs(&long), [(46, 64_400), (2, 2800)]);
    // More flows than the kernel keeps: the oldest leaves.
    let flows: Vec<Made> = (0..=MOST_RUNS)
        .map(|nth| Made::tcp(&format!("10.0.0.1:{}", 80 + nth), "10.0.0.2:1").payload(&[0; 100]))
        .collect();
    let mut left = 0;
    let mut joiner = Joiner::default();
    for made in &flows {
        joiner.packet(&made.packet, &made.payload, |_| left += 1);
    }
    assert_eq!((left, joiner.open.len()), (1, MOST_RUNS));
}

/// Sends packets this many seconds later.
fn carried_at(run: &mut LinkRun, seconds: f64, packets: &[Made]) -> Carried {
    let before = run.carried[0];
    for made in packets {
        let mut packet = made.packet;
        packet.time += (seconds * 1e9) as i64;
        run.packet(&packet, &made.payload).unwrap();
    }
    for open in std::mem::take(&mut run.joiner.open) {
        run.carry(&open).unwrap();
    }
    let after = run.carried[0];
    Carried { wire: after.wire - before.wire, sent: after.sent - before.sent, ..after }
}

fn carried(run: &mut LinkRun, packets: &[Made]) -> Carried {
    carried_at(run, 0.0, packets)
}

fn link() -> LinkRun {
    LinkRun::new(Sizes::new(1 << 20, None), 1 << 20)
}

#[test]
fn a_run_that_repeats_is_one_datagram() {
    let mut link = link();
    let content = noise(7, 10_000);
    let packets: Vec<Made> = segments(&tcp(), 0, &[1000; 10])
        .into_iter()
        .zip(content.chunks(1000))
        .map(|(made, payload)| made.payload(payload))
        .collect();
    // Each datagram has the headers, what is around them, a record and a segment section; its frame
    // has flags and an offset of 2 bytes.
    let head = 54 + 52 + 4 + 4;
    let first = carried(&mut link, &packets);
    assert_eq!((first.wire, first.sent), (10 * 1054, 10 * (head + 3 + 1000)));
    let second = carried_at(&mut link, 0.04, &packets);
    // Descriptors: their length, gap, length and distance; a checksum.
    let frame = 3 + 1 + 1 + 3 + 2 + 8;
    assert_eq!((second.wire, second.sent), (10 * 1054, head + frame));
    // The headers are acknowledged.
    let third = carried_at(&mut link, 0.05, &packets);
    assert_eq!(third.sent, 14 + 52 + KNOWN + 4 + frame);
    // What encryption cost is not saved.
    assert_eq!(link.tally().total(), 3 * 10_540 - first.sent - second.sent - third.sent);
}

#[test]
fn what_comes_together_shares_a_datagram() {
    let mut link = link();
    let part =
        |seconds: f64| Made::udp("10.0.0.1:53", "10.0.0.2:2000").at(seconds).payload(&noise(1, 60));
    // 28 bytes of headers, whole: 15 records with lengths of 2 bytes fit 1,428 bytes.
    let packets: Vec<Made> = (0..16).map(|nth| part(f64::from(nth) * 1e-6)).collect();
    let all = carried(&mut link, &packets);
    let record = 4 + 28 + 60;
    assert_eq!(all.sent, 16 * record + 2 * (14 + 52) + 14 * LENGTH);
    // Not with what comes later.
    assert_eq!(carried(&mut link, &[part(1e-4 + 15e-6)]).sent, 14 + 52 + record);
}

#[test]
fn what_costs_more_than_it_saves_is_subtracted() {
    let mut link = link();
    // UDP: 42 bytes of headers and nothing; what is not IP is not carried.
    let mut other = tcp();
    (other.packet.flow, other.packet.kind) = (None, Kind::Other);
    let empty = Made::udp("10.0.0.1:53", "10.0.0.2:2000");
    // One after the other, so that they share no datagram.
    let all = carried(&mut link, &[empty.clone(), other, empty.at(0.001)]);
    assert_eq!((all.wire, all.sent, all.debt), (84, 2 * (42 + 56), 2 * 56));
    assert_eq!(link.tally().total(), 0);
    // Payloads of less than 64 bytes are sent as they are, even if they repeat.
    let short = Made::udp("10.0.0.1:53", "10.0.0.2:2000").payload(&noise(1, 63));
    let sent = carried_at(&mut link, 0.002, &[short.clone(), short.at(0.001)]).sent;
    assert_eq!(sent, 2 * (42 + 56 + 63));
    let made = Made::udp("10.0.0.1:53", "10.0.0.2:2000").payload(&noise(1, 1000));
    let mut missing = made.clone();
    (missing.packet.missing, missing.packet.wire) = (500, 42 + 1500);
    // What the capture lacks is sent.
    assert_eq!(carried_at(&mut link, 0.004, &[missing]).sent, 42 + 56 + 3 + 1500);
    assert_eq!(carried_at(&mut link, 0.005, &[made]).sent, 42 + 56 + 3 + 1 + 1 + 2 + 2 + 8);
    let Carried { wire, sent, debt } = link.carried[0];
    assert_eq!(link.tally().total(), wire - sent);
    assert_eq!(debt, 0);
}

/// Content is acknowledged after a round trip: then offsets are stated from its end on.
#[test]
fn acknowledgments_come_after_a_round_trip() {
    let mut link = link();
    for (seconds, waiting) in [(0.0, 1), (0.049, 2), (0.05, 2), (0.2, 1), (0.1, 1)] {
        let made = Made::udp("10.0.0.1:53", "10.0.0.2:2000").at(seconds);
        carried(&mut link, &[made.payload(&noise(1, 40_000))]);
        let contents = link.contents[0].as_ref().unwrap();
        assert_eq!(contents.waiting.len(), waiting, "at {seconds}");
    }
}
