//! Fragments: made whole against a plain oracle, within limits, and accounted for.

use crate::build;

use std::time::Duration;

use build::*;
use oncewire_packet::{
    Counters, Dissector, Limits, LinkType, Nanos, Record, Skipped, Tally, Transport,
};
use proptest::prelude::*;

const SECOND: Nanos = 1_000_000_000;

/// What an answer is, without what it borrows: payload, missing, records, wire bytes.
type Answer = Result<(Vec<u8>, u32, u32, u64), Skipped>;

struct Bench {
    dissector: Dissector,
    time: Nanos,
}

impl Bench {
    fn new(limits: Limits) -> Self {
        Self { dissector: Dissector::new(limits), time: 0 }
    }

    fn cut(&mut self, packet: &[u8], captured: usize) -> Answer {
        let data = &packet[..captured.min(packet.len())];
        let record =
            Record { time: self.time, link: LinkType::RAW, wire_len: packet.len() as u32, data };
        let answer = self.dissector.dissect(&record).map(|d| {
            let sum = u64::from(d.headers)
                + d.payload.len() as u64
                + u64::from(d.missing)
                + u64::from(d.trailer);
            assert_eq!(sum, d.wire_len);
            (d.payload.to_vec(), d.missing, d.fragments, d.wire_len)
        });
        let c = self.dissector.counters();
        assert_eq!(c.total.packets, c.used.packets + c.held.packets + c.skipped().packets);
        assert_eq!(c.total.bytes, c.used.bytes + c.held.bytes + c.skipped().bytes);
        answer
    }

    fn packet(&mut self, packet: &[u8]) -> Answer {
        self.cut(packet, usize::MAX)
    }

    fn finish(&mut self) -> Counters {
        let counters = *self.dissector.finish();
        assert_eq!(counters.held, Tally::default());
        counters
    }
}

const HELD: Answer = Err(Skipped::FragmentHeld);
const LOST: Answer = Err(Skipped::FragmentLost);

/// The datagram of the tests: 8 + 77 bytes.
fn datagram() -> Vec<u8> {
    udp(53, PAYLOAD)
}

fn v4(begin: usize, end: usize) -> Vec<u8> {
    let all = datagram();
    ipv4_fragment(17, 1, begin, end < all.len(), &all[begin..end.min(all.len())])
}

fn v6(begin: usize, end: usize) -> Vec<u8> {
    let all = datagram();
    ipv6_fragment(17, 1, begin, end < all.len(), &all[begin..end.min(all.len())])
}

#[test]
fn in_any_order_with_padding() {
    for fragment in [v4, v6] {
        for order in [[0, 1, 2], [2, 1, 0], [1, 2, 0], [0, 2, 1]] {
            let mut bench = Bench::new(Limits::default());
            let packets = [(0, 16), (16, 48), (48, 99)]
                .map(|(begin, end)| join(&[&fragment(begin, end), &[0; 3]]));
            let wire = packets.iter().map(|p| p.len() as u64).sum();
            let answers = order.map(|i| bench.packet(&packets[i]));
            assert_eq!(answers, [HELD, HELD, Ok((PAYLOAD.to_vec(), 0, 2, wire))]);
            let counters = bench.finish();
            assert_eq!(
                (counters.used, counters.reassembled),
                (Tally { packets: 3, bytes: wire }, 1)
            );
        }
    }
}

#[test]
fn datagrams_are_kept_apart() {
    let mut bench = Bench::new(Limits::default());
    let all = datagram();
    assert_eq!(bench.packet(&v4(0, 16)), HELD);
    // Another identification, another protocol, another version.
    assert_eq!(bench.packet(&ipv4_fragment(17, 2, 16, false, &all[16..])), HELD);
    assert_eq!(bench.packet(&ipv4_fragment(6, 1, 16, false, &all[16..])), HELD);
    assert_eq!(bench.packet(&v6(16, 99)), HELD);
    assert_eq!(bench.packet(&v4(16, 99)).unwrap().0, PAYLOAD);
    assert_eq!(bench.finish().fragment_lost.packets, 3);
}

#[test]
fn fragments_of_other_protocols_are_of_that_protocol() {
    let mut bench = Bench::new(Limits::default());
    assert_eq!(bench.packet(&ipv4_fragment(1, 1, 0, true, &[8; 16])), HELD);
    assert_eq!(
        bench.packet(&ipv4_fragment(1, 1, 16, false, &[8; 16])),
        Err(Skipped::OtherProtocol(1))
    );
    let counters = bench.finish();
    assert_eq!(counters.other_protocol, Tally { packets: 2, bytes: 72 });
}

#[test]
fn overlaps_of_ipv6_are_void_and_duplicates_are_not() {
    let mut bench = Bench::new(Limits::default());
    assert_eq!(bench.packet(&v6(0, 16)), HELD);
    assert_eq!(bench.packet(&v6(0, 16)), HELD);
    assert_eq!(
        bench.packet(&v6(16, 99)).unwrap(),
        (PAYLOAD.to_vec(), 0, 2, 56 * 2 + 8 * 2 + 40 + 8 + 69)
    );

    for bad in [v6(8, 24), ipv6_fragment(17, 1, 0, true, &[0; 16])] {
        assert_eq!(bench.packet(&v6(0, 16)), HELD);
        assert_eq!(bench.packet(&bad), LOST);
        assert_eq!(bench.packet(&v6(16, 99)), LOST);
        assert_eq!(bench.packet(&v6(0, 16)), LOST);
        bench.time += 61 * SECOND;
    }
    assert_eq!(bench.finish().fragment_lost.packets, 8);
}

#[test]
fn contradictions_and_bad_lengths() {
    let mut bench = Bench::new(Limits::default());
    let malformed = Err(Skipped::Malformed(oncewire_packet::Layer::Fragment));
    assert_eq!(bench.packet(&ipv4_fragment(17, 1, 0, true, &[])), malformed);
    assert_eq!(bench.packet(&ipv4_fragment(17, 1, 0, true, &[0; 9])), malformed);
    assert_eq!(bench.packet(&ipv4_fragment(17, 1, 65528, false, &[0; 8])), malformed);
    // Two ends; something behind the end.
    assert_eq!(bench.packet(&ipv4_fragment(17, 1, 16, false, &[0; 9])), HELD);
    assert_eq!(bench.packet(&ipv4_fragment(17, 1, 16, false, &[0; 10])), LOST);
    assert_eq!(bench.packet(&ipv4_fragment(17, 1, 16, false, &[0; 9])), HELD);
    assert_eq!(bench.packet(&ipv4_fragment(17, 1, 24, true, &[0; 16])), LOST);
    let counters = bench.finish();
    assert_eq!((counters.malformed.packets, counters.fragment_lost.packets), (3, 4));
}

/// Of a datagram whose fragments were captured in part, the payload is what lies before the first
/// gap.
#[test]
fn cut_fragments() {
    let mut bench = Bench::new(Limits::default());
    assert_eq!(bench.cut(&v4(0, 48), 20 + 32), HELD);
    let (payload, missing, fragments, _) = bench.packet(&v4(48, 99)).unwrap();
    assert_eq!((&payload[..], missing, fragments), (&PAYLOAD[..24], PAYLOAD.len() as u32 - 24, 1));
    // A copy that was captured whole comes too late: the first wins.
    assert_eq!(bench.cut(&v4(0, 48), 20), HELD);
    assert_eq!(bench.packet(&v4(0, 48)), HELD);
    assert_eq!(bench.packet(&v4(48, 99)), Err(Skipped::Truncated(oncewire_packet::Layer::Udp)));
    assert_eq!(bench.finish().truncated.packets, 3);
}

#[test]
fn fragments_of_a_tunnel_in_fragments() {
    let mut bench = Bench::new(Limits::default());
    // Each inner fragment travels in two outer ones.
    let mut answers = Vec::new();
    let mut wire = 0;
    for (i, inner) in [v4(0, 48), v4(48, 99)].iter().enumerate() {
        for outer in [
            ipv4_fragment(4, 100 + i as u16, 0, true, &inner[..24]),
            ipv4_fragment(4, 100 + i as u16, 24, false, &inner[24..]),
        ] {
            wire += outer.len() as u64;
            answers.push(bench.packet(&outer));
        }
    }
    assert_eq!(answers, [HELD, HELD, HELD, Ok((PAYLOAD.to_vec(), 0, 3, wire))]);
    assert_eq!(bench.finish().used, Tally { packets: 4, bytes: wire });

    // And when the inner ones never meet.
    let inner = v4(0, 48);
    assert_eq!(bench.packet(&ipv4_fragment(4, 100, 0, true, &inner[..24])), HELD);
    assert_eq!(bench.packet(&ipv4_fragment(4, 100, 24, false, &inner[24..])), HELD);
    assert_eq!(bench.finish().fragment_lost.packets, 2);
}

#[test]
fn age_is_in_packet_time() {
    let mut bench =
        Bench::new(Limits { fragment_age: Duration::from_secs(5), ..Limits::default() });
    assert_eq!(bench.packet(&v4(0, 16)), HELD);
    bench.time = 5 * SECOND;
    assert_eq!(bench.packet(&v4(16, 48)), HELD);
    bench.time += 1;
    assert_eq!(bench.packet(&v4(48, 99)), HELD);
    assert_eq!(bench.dissector.counters().fragment_lost.packets, 2);
    // Time that goes back makes nothing older.
    bench.time = Nanos::MIN;
    assert_eq!(bench.packet(&v4(16, 48)), HELD);
    assert_eq!(bench.packet(&v4(0, 16)).unwrap().0, PAYLOAD);
}

#[test]
fn memory_is_bounded() {
    let limits = Limits { fragment_bytes: 100_000, fragment_datagrams: 50, ..Limits::default() };
    let mut bench = Bench::new(limits);
    for id in 0..1000 {
        assert_eq!(bench.packet(&ipv4_fragment(17, id, 0, true, &[1; 64])), HELD);
        assert!(bench.dissector.counters().held.packets <= 50);
    }
    for id in 0..1000 {
        assert_eq!(bench.packet(&ipv4_fragment(17, id, 8, true, &[1; 8000])), HELD);
        assert!(bench.dissector.counters().held.bytes <= 100_000 + 50 * 64);
    }
    // One datagram too large for all; none allowed.
    let mut bench = Bench::new(Limits { fragment_bytes: 10_000, ..limits });
    assert_eq!(bench.packet(&ipv4_fragment(17, 1, 0, true, &[1; 16])), HELD);
    assert_eq!(bench.packet(&ipv4_fragment(17, 1, 60_000, true, &[1; 16])), LOST);
    let mut bench = Bench::new(Limits { fragment_bytes: 0, ..limits });
    assert_eq!(bench.packet(&v4(0, 16)), LOST);
}

/// What a datagram is when the byte that came first wins: one byte at a time.
fn oracle(pieces: &[(usize, usize, u8)], total: usize) -> Option<Vec<u8>> {
    let mut bytes = vec![None; total];
    for &(begin, end, fill) in pieces {
        for byte in &mut bytes[begin..end] {
            byte.get_or_insert(fill);
        }
    }
    bytes.into_iter().collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    /// IPv4 fragments that overlap as they like are whole exactly when, and are exactly what, the
    /// oracle says.
    #[test]
    fn first_wins(pieces in proptest::collection::vec((0usize..12, 1usize..6, any::<u8>()), 1..30)) {
        const TOTAL: usize = 90;
        let mut bench = Bench::new(Limits::default());
        let mut sent: Vec<(usize, usize, u8)> = Vec::new();
        for (begin, len, fill) in pieces {
            let (begin, end) = (begin * 8, (begin * 8 + len * 8).min(TOTAL));
            let mut bytes = vec![fill; end - begin];
            sent.push((begin, end, fill));
            // The UDP length that it will have must be good, whoever wins.
            let header = udp(53, &[0; TOTAL - 8]);
            if begin == 0 {
                bytes[..8].copy_from_slice(&header[..8]);
            }
            let answer = bench.packet(&ipv4_fragment(17, 1, begin, end < TOTAL, &bytes));
            match oracle(&sent, TOTAL) {
                None => prop_assert_eq!(answer, HELD),
                Some(expected) => {
                    let (payload, missing, fragments, _) = answer.unwrap();
                    prop_assert_eq!(payload, &expected[8..]);
                    prop_assert_eq!((missing, fragments as usize), (0, sent.len() - 1));
                    sent.clear();
                }
            }
        }
        bench.finish();
    }
}

#[test]
fn a_tcp_segment_in_fragments() {
    let segment = tcp(PAYLOAD);
    let mut dissector = Dissector::new(Limits::default());
    for (begin, end) in [(0, 8), (8, 16), (16, segment.len())] {
        let packet = ipv6_fragment(6, 9, begin, end < segment.len(), &segment[begin..end]);
        let record =
            Record { time: 0, link: LinkType::IPV6, wire_len: packet.len() as u32, data: &packet };
        if let Ok(d) = dissector.dissect(&record) {
            assert_eq!(
                (d.payload, d.layers.to_string().as_str(), d.ttl),
                (PAYLOAD, "IPv6/fragment/TCP", 63)
            );
            assert!(matches!(d.transport, Transport::Tcp { seq: 0x100, .. }));
            return;
        }
    }
    panic!("never whole");
}
