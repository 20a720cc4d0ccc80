//! One packet for each link type and each encapsulation: what it says, whole and cut at every
//! length.

use crate::build;
use crate::fuzz_entry;

use build::*;
use oncewire_packet::{
    Cipher, Dissected, Dissector, Layer, Limits, LinkType, Record, Skipped, Transport,
};
use proptest::prelude::*;

fn record(link: LinkType, wire_len: usize, data: &[u8]) -> Record<'_> {
    Record { time: 0, link, wire_len: wire_len as u32, data }
}

fn dissect(link: LinkType, data: &[u8]) -> Result<Dissected<'_>, Skipped> {
    // What is dissected from an unfragmented packet borrows only from the packet.
    let dissector = Box::leak(Box::new(Dissector::new(Limits::default())));
    dissector.dissect(&record(link, data.len(), data))
}

fn sum(d: &Dissected<'_>) -> u64 {
    u64::from(d.headers) + d.payload.len() as u64 + u64::from(d.missing) + u64::from(d.trailer)
}

#[test]
fn whole_packets() {
    for (link, packet, layers) in packets() {
        let d = dissect(link, &packet).unwrap_or_else(|why| panic!("{link}, {layers}: {why}"));
        assert_eq!(d.layers.to_string(), layers);
        assert_eq!((d.payload, d.missing, d.fragments), (PAYLOAD, 0, 0), "{layers}");
        assert_eq!((d.ttl, d.dscp), (63, 46), "{layers}");
        // That of the innermost header, whatever is around it.
        assert_eq!(d.identification, d.source.is_ipv4().then_some(7), "{layers}");
        assert_eq!(sum(&d), packet.len() as u64, "{layers}");
        assert_eq!(&packet[d.headers as usize..][..PAYLOAD.len()], PAYLOAD, "{layers}");
        match d.transport {
            Transport::Tcp { seq, ack, flags, window, checksum, .. } => {
                assert_eq!(
                    (seq, ack, flags, window, checksum, d.protocol),
                    (0x100, 0x200, 0x18, 0x4000, 0xabcd, 6)
                );
                assert_eq!(d.transport.ports(), (0x1234, 80));
            }
            Transport::Udp { length, checksum, .. } => {
                assert_eq!((d.transport.ports(), d.protocol), ((0xc000, 53), 17));
                assert_eq!((usize::from(length), checksum), (PAYLOAD.len() + 8, 0xfedc));
            }
        }
    }
}

/// Whatever was captured of a packet, all its bytes are accounted for, and what is said of them is
/// true of the whole packet; but that a tunnel over UDP whose inside cannot be seen is a datagram.
#[test]
fn cut_packets() {
    for (link, packet, layers) in packets() {
        let whole = dissect(link, &packet).unwrap();
        for captured in 0..packet.len() {
            let mut dissector = Dissector::new(Limits::default());
            match dissector.dissect(&record(link, packet.len(), &packet[..captured])) {
                Ok(d) => {
                    assert_eq!(sum(&d), packet.len() as u64, "{layers} cut at {captured}");
                    assert_eq!(
                        d.payload,
                        &packet[..captured][(d.headers as usize).min(captured)..]
                            [..d.payload.len()]
                    );
                    if d.layers == whole.layers {
                        assert_eq!(
                            (d.headers, d.trailer),
                            (whole.headers, whole.trailer),
                            "{layers} cut at {captured}"
                        );
                        assert_eq!(
                            (d.source, d.destination, d.transport),
                            (whole.source, whole.destination, whole.transport)
                        );
                    } else {
                        assert!(
                            whole.layers.as_slice().starts_with(d.layers.as_slice()),
                            "{layers} cut at {captured}: {}",
                            d.layers
                        );
                        assert_eq!(
                            d.layers.as_slice().last(),
                            Some(&Layer::Udp),
                            "{layers} cut at {captured}"
                        );
                    }
                }
                Err(why) => {
                    // What a pseudowire carries is guessed from its frame.
                    let guess = layers.contains("MPLS/Ethernet") || layers.contains("pseudowire");
                    let expected = matches!(why, Skipped::Truncated(_))
                        || (guess && why == Skipped::NotIp(0x8847));
                    assert!(expected, "{layers} cut at {captured}: {why}");
                }
            }
        }
    }
}

/// The same packets when it was the wire that had no more of them: then lengths in them are wrong,
/// and none may be believed.
#[test]
fn short_packets() {
    for (link, packet, layers) in packets() {
        for len in 0..packet.len() {
            if let Ok(d) = dissect(link, &packet[..len]) {
                assert_eq!(sum(&d), len as u64, "{layers} short at {len}");
                assert_eq!(d.missing, 0);
            }
        }
    }
}

#[test]
fn padding_is_trailer() {
    for (link, packet, layers) in packets() {
        // Of these, only link layers without a length can be padded.
        let padded = join(&[&packet, &[0xee; 9]]);
        match dissect(link, &padded) {
            Ok(d) => assert_eq!(
                (d.payload, d.trailer),
                (PAYLOAD, dissect(link, &packet).unwrap().trailer + 9),
                "{layers}"
            ),
            Err(why) => assert_eq!((why, layers), (Skipped::Aggregate, "802.11/LLC/IPv4/TCP")),
        }
    }
}

#[test]
fn a_frame_check_sequence_is_no_payload() {
    // Total length 0, as network cards that cut segments leave it: the packet ends with the frame.
    let mut packet = ipv4(6, &tcp(PAYLOAD));
    packet[2..4].fill(0);
    let frame = ieee80211(0x0008, &[], &snap(0x0800, &packet));
    let with_check = radiotap(0x10, &join(&[&frame, &[1, 2, 3, 4]]));
    let d = dissect(LinkType::IEEE802_11_RADIOTAP, &with_check).unwrap();
    assert_eq!((d.payload, d.trailer), (PAYLOAD, 4));
    assert_eq!(
        dissect(LinkType::IEEE802_11_RADIOTAP, &radiotap(0x50, &frame)),
        Err(Skipped::BadFrameCheck)
    );
}

/// <https://www.radiotap.org>: fields are aligned from the beginning of the header, behind all words of presence.
#[test]
fn radiotap_fields_are_aligned() {
    let frame = ieee80211(0x0008, &[], &snap(0x0800, &ipv4(6, &tcp(PAYLOAD))));
    for (bad, expected) in [(0x40, Err(Skipped::BadFrameCheck)), (0, Ok(PAYLOAD))] {
        let time = join(&[
            &[0, 0, 25, 0, 3, 0, 0, 0x80, 0, 0, 0, 0],
            &[0xff; 4],
            &[0xff; 8],
            &[bad],
            &frame,
        ]);
        assert_eq!(dissect(LinkType::IEEE802_11_RADIOTAP, &time).map(|d| d.payload), expected);
        let no_time = join(&[&[0, 0, 13, 0, 2, 0, 0, 0x80, 0, 0, 0, 0], &[bad], &frame]);
        assert_eq!(dissect(LinkType::IEEE802_11_RADIOTAP, &no_time).map(|d| d.payload), expected);
    }
    let short = join(&[&[0, 0, 8, 0, 2, 0, 0, 0], &frame]);
    assert_eq!(
        dissect(LinkType::IEEE802_11_RADIOTAP, &short).map(|d| d.payload),
        Err(Skipped::Malformed(Layer::Radiotap))
    );
}

#[test]
fn skipped() {
    use LinkType as L;
    let t4 = &ipv4(6, &tcp(PAYLOAD))[..];
    let ip4 = |protocol| ethernet(0x0800, &ipv4(protocol, PAYLOAD));
    let cases = [
        (L(147), vec![1, 2, 3], Skipped::UnsupportedLink(L(147))),
        (L::ETHERNET, ethernet(0x0806, PAYLOAD), Skipped::NotIp(0x0806)),
        (L::ETHERNET, ethernet(0x8863, PAYLOAD), Skipped::NotIp(0x8863)),
        (L::ETHERNET, ieee802_3(&join(&[&[0x42, 0x42, 3], PAYLOAD])), Skipped::NotIp(0x4242)),
        (L::NULL, join(&[&[7, 0, 0, 0], PAYLOAD]), Skipped::NotIp(7)),
        (L::PPP, join(&[&[0xff, 3, 0xc0, 0x21], PAYLOAD]), Skipped::NotIp(0xc021)),
        (L::IEEE802_11, ieee80211(0x0080, &[], PAYLOAD), Skipped::NotIp(0x0080)),
        (L::LINUX_SLL, join(&[&[0, 0, 3, 56], &[0; 10], &[8, 0], PAYLOAD]), Skipped::NotIp(0x0800)),
        (L::ETHERNET, ip4(1), Skipped::OtherProtocol(1)),
        (L::ETHERNET, ethernet(0x86dd, &ipv6(58, PAYLOAD)), Skipped::OtherProtocol(58)),
        (L::ETHERNET, ethernet(0x86dd, &ipv6(59, &[])), Skipped::OtherProtocol(59)),
        (L::ETHERNET, ip4(50), Skipped::Encrypted(Cipher::Esp)),
        (L::ETHERNET, ethernet(0x88e5, PAYLOAD), Skipped::Encrypted(Cipher::MacSec)),
        (L::PPP, join(&[&[0, 0x53], PAYLOAD]), Skipped::Encrypted(Cipher::Ppp)),
        (L::IEEE802_11, ieee80211(0x4008, &[], PAYLOAD), Skipped::Encrypted(Cipher::Ieee80211)),
        (L::IEEE802_11, ieee80211(0x0408, &[], &snap(0x0800, t4)), Skipped::FragmentLost),
        (
            L::IEEE802_11,
            ieee80211(0x0088, &[0x80, 0], &join(&[&[2; 12], &[0, 2, 7, 7, 0, 0], &[2; 40]])),
            Skipped::Aggregate,
        ),
        (L::RAW, vec![0x55; 60], Skipped::Malformed(Layer::Ipv4)),
        (L::RAW, t4[..t4.len() - 1].to_vec(), Skipped::Malformed(Layer::Ipv4)),
        (
            L::ETHERNET,
            ethernet(0x8864, &join(&[&[0x12, 0, 0, 9, 0, 0], PAYLOAD])),
            Skipped::Malformed(Layer::Pppoe),
        ),
        (
            L::RAW,
            ipv4(6, &[&tcp(PAYLOAD)[..12], &[0x40], &tcp(PAYLOAD)[13..]].concat()),
            Skipped::Malformed(Layer::Tcp),
        ),
    ];
    for (link, packet, expected) in cases {
        assert_eq!(dissect(link, &packet).map(|_| ()), Err(expected), "{link}: {packet:02x?}");
    }
    let deep = ethernet(0x8100, &[0, 1, 0x81, 0].repeat(40));
    assert_eq!(dissect(L::ETHERNET, &deep).map(|_| ()), Err(Skipped::TooDeep));
}

/// A UDP port is a hint: what is no tunnel inside is the payload of a datagram.
#[test]
fn a_port_proves_nothing() {
    for port in [1701, 2152, 3544, 4789, 4790, 6081, 8472] {
        let packet = ipv4(17, &udp(port, PAYLOAD));
        let d = dissect(LinkType::RAW, &packet).unwrap();
        assert_eq!((d.payload, d.layers.to_string().as_str()), (PAYLOAD, "IPv4/UDP"));
        // Nor does a good tunnel header around a bad packet.
        let inside = vxlan(&ethernet(0x0800, &[0x45, 0, 0, 9]));
        let packet = ipv4(17, &udp(port, &inside));
        let d = dissect(LinkType::RAW, &packet).unwrap();
        assert_eq!((d.payload, d.layers.to_string().as_str()), (&inside[..], "IPv4/UDP"));
    }
}

#[test]
fn what_is_skipped_has_the_name_that_engineers_know() {
    let names = [
        (Skipped::NotIp(0x0806), "ARP (not IP, 0x0806)"),
        (Skipped::NotIp(0x1234), "not IP (0x1234)"),
        (Skipped::OtherProtocol(1), "ICMP (IP protocol 1)"),
        (Skipped::OtherProtocol(200), "IP protocol 200"),
        (Skipped::UnsupportedLink(LinkType(10)), "unsupported link type 10 (FDDI)"),
        (Skipped::UnsupportedLink(LinkType(999)), "unsupported link type 999"),
    ];
    for (reason, name) in names {
        assert_eq!(reason.to_string(), name);
    }
}

/// A packet broker cuts packets and writes that they are whole: the IP header says how long they
/// were.
#[test]
fn what_was_cut_before_the_capture_is_missing() {
    let payload = [7; 400];
    let whole = [
        (LinkType::ETHERNET, ethernet(0x8100, &tag(0x0800, &ipv4(6, &tcp(&payload))))),
        (LinkType::ETHERNET, ethernet(0x86dd, &ipv6(17, &udp(53, &payload)))),
        (LinkType::RAW, ipv4(17, &udp(53, &payload))),
        (
            LinkType::ETHERNET,
            ethernet(0x8864, &pppoe(&join(&[&[0, 0x57], &ipv6(6, &tcp(&payload))]))),
        ),
    ];
    for (link, packet) in &whole {
        let record = |data, wire_len| Record { time: 0, link: *link, wire_len, data };
        let len = packet.len() as u32;
        let cut = record(&packet[..128], 128).unsliced();
        assert_eq!(cut.wire_len, len);
        let mut dissector = Dissector::new(Limits::default());
        let d = dissector.dissect(&cut).unwrap();
        assert_eq!(d.payload.len() as u32 + d.missing, 400, "{}", d.layers);
        // What is whole, says itself that it is cut, or is padded stays as it is.
        let padded = [&packet[..], &[0; 6]].concat();
        for known in [record(packet, len), record(&packet[..128], 600), record(&padded, len + 6)] {
            assert_eq!(known.unsliced(), known);
        }
    }
    // A wrong checksum proves no length.
    let mut wrong = whole[2].1[..128].to_vec();
    wrong[10..12].copy_from_slice(&[1, 2]);
    let wrong = Record { time: 0, link: LinkType::RAW, wire_len: 128, data: &wrong };
    assert_eq!(wrong.unsliced(), wrong);
}

fn arbitrary_input() -> impl Strategy<Value = Vec<u8>> {
    let kinds = LinkType::SUPPORTED.len() as u8;
    // Bytes from packets, so that random ones get somewhere.
    let piece = prop_oneof![
        proptest::collection::vec(any::<u8>(), 0..80),
        proptest::sample::select(packets()).prop_map(|(_, packet, _)| packet),
        Just(ipv4_fragment(17, 1, 0, true, &[7; 24])),
        Just(ipv4_fragment(17, 1, 24, false, &[7; 24])),
        Just(ipv4_fragment(17, 1, 16, true, &[7; 24])),
        Just(ipv6_fragment(6, 1, 16, true, &[7; 24])),
        Just(ipv6_fragment(6, 1, 0, true, &[7; 16])),
    ];
    let records = proptest::collection::vec((piece, any::<u8>(), any::<u16>(), 0u8..8), 0..8);
    (0..kinds, records).prop_map(|(kind, records)| {
        let mut input = vec![kind];
        for (mut data, more, at, change) in records {
            if change == 1 && !data.is_empty() {
                let at = usize::from(at) % data.len();
                data[at] ^= more;
            }
            input.extend((data.len() as u16).to_be_bytes());
            input.push(if change < 4 { 0 } else { more });
            input.extend(data);
        }
        input
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    /// Every packet and every byte is accounted for, whatever they are.
    #[test]
    fn everything_adds_up(input in arbitrary_input()) {
        fuzz_entry::run(&input);
    }
}
