use super::*;
use crate::batch::testing::noise;
use proptest::prelude::*;

fn flow(port: u16) -> FlowKey {
    let address = |last| std::net::IpAddr::from([10, 0, 0, last]);
    FlowKey {
        source: address(1),
        destination: address(2),
        source_port: port,
        destination_port: 80,
        protocol: 6,
    }
}

fn limits() -> Limits {
    Limits {
        flows: 4,
        stream_bytes: 1 << 20,
        total_bytes: 1 << 20,
        patience: Duration::from_secs(10),
        idle: Duration::from_secs(600),
    }
}

/// What a stream delivered: `None` for a byte that is missing.
#[derive(Debug, Default, PartialEq)]
struct Heard {
    bytes: Vec<Option<u8>>,
    ends: Vec<End>,
    starts: usize,
}

impl Heard {
    fn take(&mut self, event: Event<'_>) {
        match event {
            Event::Start { .. } => self.starts += 1,
            Event::Data(bytes) => self.bytes.extend(bytes.iter().map(|&byte| Some(byte))),
            Event::Gap(bytes) => self.bytes.extend(std::iter::repeat_n(None, bytes as usize)),
            Event::End(end) => self.ends.push(end),
        }
    }

    fn text(&self) -> String {
        self.bytes.iter().map(|byte| byte.map_or('_', char::from)).collect()
    }
}

/// Feeds segments `(time in seconds, seq, flags, payload)` of one stream.
fn hear(limits: Limits, segments: &[(i64, u32, u8, &[u8])]) -> (Heard, Stats) {
    let mut tcp = Reassembler::new(limits);
    let mut heard = Heard::default();
    let mut sink = |_: &FlowKey, event: Event<'_>| heard.take(event);
    for &(time, seq, flags, payload) in segments {
        tcp.segment(
            &flow(1),
            &Segment { time: time * 1_000_000_000, seq, flags, payload, missing: 0 },
            &mut sink,
        );
    }
    tcp.finish(&mut sink);
    assert_eq!((tcp.held, tcp.streams.len()), (0, 0));
    let stats = *tcp.stats();
    assert_eq!(
        stats.payload,
        stats.delivered + stats.retransmitted + stats.overlapping + stats.ignored
    );
    (heard, stats)
}

#[test]
fn in_order_with_syn_and_fin() {
    let (heard, stats) = hear(
        limits(),
        &[(0, 99, SYN, b""), (0, 100, 16, b"abc"), (0, 103, FIN, b"de"), (0, 106, 16, b"")],
    );
    assert_eq!((heard.text().as_str(), heard.ends.as_slice()), ("abcde", &[End::Fin][..]));
    assert_eq!((stats.in_order, stats.in_order_bytes, stats.streams, stats.gaps), (2, 5, 1, 0));
}

#[test]
fn reordered_retransmitted_and_overlapping() {
    let (heard, stats) = hear(
        limits(),
        &[
            (0, 99, SYN, b""),
            (0, 103, 16, b"def"),
            (0, 103, 16, b"xyz"),
            (0, 100, 16, b"abcXY"),
            (0, 101, 16, b"--"),
            (0, 105, 16, b"?g"),
        ],
    );
    assert_eq!(heard.text(), "abcdefg", "the first copy wins");
    assert_eq!((stats.reordered, stats.reordered_bytes), (1, 3));
    assert_eq!((stats.retransmissions, stats.retransmitted), (2, 5));
    assert_eq!((stats.overlaps, stats.overlapping), (2, 3));
}

#[test]
fn gaps_are_given_up_in_time_at_the_end_and_for_memory() {
    let (heard, _) = hear(
        limits(),
        &[(0, 100, 16, b"ab"), (0, 104, 16, b"ef"), (11, 106, 16, b"g"), (11, 102, 16, b"cd")],
    );
    assert_eq!(heard.text(), "ab__efg", "what comes after its gap was given up is old");
    let (heard, _) =
        hear(limits(), &[(0, 100, 16, b"ab"), (0, 104, 16, b"ef"), (9, 102, 16, b"cd")]);
    assert_eq!(heard.text(), "abcdef");
    let (heard, _) = hear(limits(), &[(0, 100, 16, b"ab"), (0, 104, FIN, b"ef")]);
    assert_eq!((heard.text().as_str(), &heard.ends[..]), ("ab__ef", &[End::Fin][..]));
    let (heard, _) = hear(limits(), &[(0, 100, 16, b"ab"), (0, 104, FIN, b""), (11, 3, 16, b"")]);
    assert_eq!(heard.text(), "ab__", "a FIN behind a gap");
    let (heard, _) =
        hear(limits(), &[(0, 100, 16, b"ab"), (0, 104, 16, b"ef"), (0, 106, RST, b"why")]);
    assert_eq!((heard.text().as_str(), &heard.ends[..]), ("ab__ef", &[End::Rst][..]));
    let tight = Limits { stream_bytes: 2 * PIECE + 3, ..limits() };
    let (heard, stats) = hear(
        tight,
        &[
            (0, 100, 16, b"a"),
            (0, 102, 16, b"c"),
            (0, 104, 16, b"e"),
            (0, 106, 16, b"g"),
            (0, 101, 16, b"b"),
        ],
    );
    assert_eq!((heard.text().as_str(), stats.gaps_for_memory), ("a_c_e_g", 1));
}

#[test]
fn sequence_numbers_wrap() {
    let isn = u32::MAX - 3;
    let (heard, _) = hear(
        limits(),
        &[
            (0, isn, SYN, b""),
            (0, 1, 16, b"ef"),
            (0, isn.wrapping_add(1), 16, b"abcd"),
            (0, 3, FIN, b"g"),
        ],
    );
    assert_eq!((heard.text().as_str(), &heard.ends[..]), ("abcdefg", &[End::Fin][..]));
}

#[test]
fn probes_late_segments_and_acknowledgements_change_nothing() {
    let (heard, stats) = hear(
        limits(),
        &[
            (0, 7, 16, b""),
            (0, 100, 16, b"abc"),
            (1, 102, 16, b""),
            (2, 102, 16, b"\0"),
            (3, 103, FIN, b"d"),
            (3, 103, FIN, b"d"),
            (4, 100, 16, b"abc"),
            (4, 105, RST, b""),
        ],
    );
    assert_eq!(
        (heard.text().as_str(), &heard.ends[..], heard.starts),
        ("abcd", &[End::Fin][..], 1)
    );
    assert_eq!((stats.keep_alives, stats.retransmissions, stats.midstream), (2, 2, 1));
}

#[test]
fn a_new_syn_is_a_new_stream_and_the_same_is_not() {
    let (heard, stats) = hear(
        limits(),
        &[
            (0, 9, SYN, b""),
            (0, 9, SYN, b""),
            (0, 10, 16, b"ab"),
            (0, 5000, SYN, b""),
            (0, 5001, 16, b"cd"),
        ],
    );
    assert_eq!(
        (heard.text().as_str(), &heard.ends[..], heard.starts),
        ("abcd", &[End::Reused, End::Trace][..], 2)
    );
    assert_eq!(stats.streams, 2);
    let (heard, stats) = hear(limits(), &[(0, 9, 16, b"ab"), (0, 9 + (1 << 31), 16, b"cd")]);
    assert_eq!((heard.text().as_str(), heard.starts, stats.lost), ("abcd", 2, 1));
}

#[test]
fn data_of_a_syn_and_missing_payload() {
    let mut tcp = Reassembler::new(limits());
    let mut heard = Heard::default();
    let mut sink = |_: &FlowKey, event: Event<'_>| heard.take(event);
    let base = Segment { time: 0, seq: 99, flags: SYN, payload: b"ab", missing: 2 };
    tcp.segment(&flow(1), &base, &mut sink);
    tcp.segment(
        &flow(1),
        &Segment { seq: 107, flags: 16, payload: b"h", missing: 3, ..base },
        &mut sink,
    );
    tcp.segment(
        &flow(1),
        &Segment { seq: 104, flags: 16, payload: b"ef", missing: 1, ..base },
        &mut sink,
    );
    tcp.segment(
        &flow(1),
        &Segment { seq: 111, flags: FIN, payload: b"l", missing: 1, ..base },
        &mut sink,
    );
    assert_eq!((heard.text().as_str(), &heard.ends[..]), ("ab__ef_h___l_", &[End::Fin][..]));
}

#[test]
fn streams_are_bounded_in_number_time_and_bytes() {
    let mut tcp = Reassembler::new(Limits { flows: 3, total_bytes: 3 * (PIECE + 10), ..limits() });
    let mut ends = Vec::new();
    let mut sink = |flow: &FlowKey, event: Event<'_>| {
        if let Event::End(end) = event {
            ends.push((flow.source_port, end));
        }
    };
    let segment = |time: i64, seq| Segment {
        time: time * 1_000_000_000,
        seq,
        flags: 16,
        payload: b"0123456789",
        missing: 0,
    };
    for port in 1..=4 {
        tcp.segment(&flow(port), &segment(0, 0), &mut sink);
        tcp.segment(&flow(port), &segment(0, 20), &mut sink);
    }
    assert_eq!(tcp.held, 3 * (PIECE + 10));
    // A fourth piece: the oldest gap goes, in another stream.
    tcp.segment(&flow(4), &segment(0, 40), &mut sink);
    assert_eq!((tcp.held, tcp.stats.gaps_for_memory), (3 * (PIECE + 10), 1));
    assert!(tcp.streams.peek(&flow(2)).unwrap().cost == 0);
    tcp.segment(&flow(4), &segment(601, 60), &mut sink);
    assert_eq!(ends, [(1, End::Evicted), (2, End::Idle), (3, End::Idle), (4, End::Idle)]);
    assert_eq!(tcp.memory(), (3 * Reassembler::FLOW + 3 * (PIECE + 10)) as u64);
}

/// How a stream is cut: by pieces `(start, length)`, in the order of arrival.
fn pieces(len: usize) -> impl Strategy<Value = Vec<(usize, usize)>> {
    prop::collection::vec((0..len, 1..200usize), 0..80)
}

proptest! {
    #[test]
    fn any_cut_in_any_order_gives_the_stream(
        seed in any::<u64>(), len in 1..3000usize, isn in any::<u32>(), extra in pieces(3000), step in 1..300usize, fin in any::<bool>(),
    ) {
        let stream = noise(seed, len);
        let mut cut: Vec<(usize, usize)> = (0..len).step_by(step).map(|at| (at, step)).collect();
        cut.extend(extra.into_iter().filter(|&(at, _)| at < len));
        // A permutation by hash.
        cut.sort_by_key(|&(at, size)| (at as u64 * 31 + size as u64).wrapping_mul(seed | 1));
        let mut segments: Vec<(i64, u32, u8, &[u8])> = vec![(0, isn, SYN, b"")];
        for (at, size) in cut {
            let until = (at + size).min(len);
            let flags = if fin && until == len { FIN } else { 16 };
            segments.push((0, isn.wrapping_add(1 + at as u32), flags, &stream[at..until]));
        }
        let (heard, stats) = hear(limits(), &segments);
        prop_assert_eq!(heard.bytes, stream.iter().map(|&byte| Some(byte)).collect::<Vec<_>>());
        prop_assert_eq!(heard.ends, [if fin { End::Fin } else { End::Trace }]);
        prop_assert_eq!(stats.missing, 0);
    }

    #[test]
    fn with_losses_every_byte_is_right_or_missing(
        seed in any::<u64>(), len in 1..3000usize, some in pieces(3000), bound in 100..4000usize,
    ) {
        let stream = noise(seed, len);
        let mut segments: Vec<(i64, u32, u8, &[u8])> = vec![(0, 0, SYN, b"")];
        for (i, &(at, size)) in some.iter().enumerate() {
            if at < len {
                segments.push((i as i64, 1 + at as u32, 16, &stream[at..(at + size).min(len)]));
            }
        }
        segments.push((1000, 1 + len as u32, FIN, b""));
        let (heard, stats) = hear(Limits { stream_bytes: bound, idle: Duration::MAX, ..limits() }, &segments);
        prop_assert_eq!(heard.bytes.len(), len);
        prop_assert_eq!(stats.delivered + stats.missing, len as u64);
        for (byte, &right) in heard.bytes.iter().zip(&stream) {
            prop_assert!(byte.is_none_or(|byte| byte == right));
        }
        prop_assert_eq!(heard.ends, [End::Fin]);
    }

    #[test]
    fn whatever_comes_is_counted_and_bounded(
        segments in prop::collection::vec((0..5u16, any::<bool>(), any::<u32>(), 0..32u8, 0..40usize, 0..3u32, 0..2_000_000_000i64), 0..200),
    ) {
        let mut tcp = Reassembler::new(Limits { flows: 3, stream_bytes: 500, total_bytes: 800, patience: Duration::from_secs(1), idle: Duration::from_secs(3) });
        let mut open = std::collections::HashSet::new();
        let mut delivered = 0;
        let mut sink = |flow: &FlowKey, event: Event<'_>| match event {
            Event::Start { .. } => assert!(open.insert(*flow)),
            Event::End(_) => assert!(open.remove(flow)),
            Event::Data(bytes) => { assert!(open.contains(flow)); delivered += bytes.len() as u64; }
            Event::Gap(bytes) => assert!(open.contains(flow) && bytes > 0),
        };
        let mut time = 0;
        for (port, near, seq, flags, len, missing, pause) in segments {
            time += pause;
            let seq = if near { seq % 300 } else { seq };
            tcp.segment(&flow(port), &Segment { time, seq, flags, payload: &noise(1, len), missing }, &mut sink);
            assert!(tcp.held <= 800 && tcp.streams.len() <= 3 && tcp.open.len() <= 24);
        }
        tcp.finish(&mut sink);
        prop_assert!(open.is_empty());
        let stats = tcp.stats();
        prop_assert_eq!(stats.delivered, delivered);
        prop_assert_eq!(stats.payload, stats.delivered + stats.retransmitted + stats.overlapping + stats.ignored);
    }
}
