//! Answers to packets that are too big: "fragmentation needed" (RFC 792, RFC 1191) and "packet too
//! big" (RFC 4443, RFC 8201).

use crate::checksum::Sum;
use crate::fields::Headers;
use crate::offload::{Offered, put_back};
use std::net::IpAddr;
use std::time::{Duration, Instant};

/// Protocol numbers of ICMP for IPv4 and for IPv6.
const ICMP: u8 = 1;
const ICMPV6: u8 = 58;
/// Destination unreachable: fragmentation needed and DF set (RFC 792).
const FRAGMENTATION_NEEDED: [u8; 2] = [3, 4];
/// Packet too big (RFC 4443 section 3.2).
const PACKET_TOO_BIG: [u8; 2] = [2, 0];
/// Longest answer: what every host accepts (RFC 1812 section 4.3.2.3, RFC 4443 section 2.4).
const LONGEST: [usize; 2] = [576, LEAST_MTU_V6 as usize];
/// Least MTU that IPv6 allows (RFC 8200 section 5). No answer says less.
pub const LEAST_MTU_V6: u16 = 1280;
/// Hop limit of answers.
const HOPS: u8 = 64;
/// Answers at once, and per second (RFC 4443 section 2.4 (f) asks for a limit).
const BURST: f64 = 50.0;
const PER_SECOND: f64 = 100.0;

/// Whether a router may fragment this packet: IPv4 without DF (RFC 791 section 3.2).
pub fn may_fragment(packet: &[u8], headers: &Headers) -> bool {
    !headers.is_v6() && packet[6] & 0x40 == 0
}

/// The answer to a packet that is larger than `mtu`, addressed to its source. `None` if it gets none:
/// it may be fragmented, is an ICMP error itself, a later fragment, or not from or to a single host
/// (RFC 1122 section 3.2.2, RFC 4443 section 2.4 (e)).
///
/// The answer comes from the packet's destination, so that it passes filters by source wherever the
/// packet itself would be answered. Of a run, the first segment is answered.
pub fn too_big(offered: &Offered<'_>, mtu: u16) -> Option<Vec<u8>> {
    let Offered { headers, packet, .. } = offered;
    if may_fragment(packet, headers) || !is_answered(packet, headers) {
        return None;
    }
    let is_v6 = headers.is_v6();
    let (start, longest) = if is_v6 { (40, LONGEST[1]) } else { (20, LONGEST[0]) };
    // Its own headers, then 8 bytes of ICMP, then as much of the packet as fits.
    let mut answer = vec![0; start + 8];
    let segment = offered
        .segment
        .map_or(packet.len(), |size| packet.len().min(headers.total() + usize::from(size.get())));
    answer.extend_from_slice(&packet[..segment]);
    let quoted = &mut answer[start + 8..];
    put_back(quoted, headers, offered.left_out, offered.open_checksum).ok()?;
    answer.truncate(longest);
    let payload = answer.len() - start;
    if is_v6 {
        answer[0] = 0x60;
        answer[4..6].copy_from_slice(&(payload as u16).to_be_bytes());
        (answer[6], answer[7]) = (ICMPV6, HOPS);
        answer.copy_within(start + 8 + 24..start + 8 + 40, 8);
        answer.copy_within(start + 8 + 8..start + 8 + 24, 24);
        answer[start..start + 2].copy_from_slice(&PACKET_TOO_BIG);
        let mtu = u32::from(mtu.max(LEAST_MTU_V6));
        answer[start + 4..start + 8].copy_from_slice(&mtu.to_be_bytes());
        let sum = Sum::of_pseudo_header(headers.destination, headers.source, ICMPV6, payload);
        let checksum = sum.plus(&answer[start..]).checksum();
        answer[start + 2..start + 4].copy_from_slice(&checksum.to_be_bytes());
    } else {
        answer[0] = 0x45;
        let len = answer.len() as u16;
        answer[2..4].copy_from_slice(&len.to_be_bytes());
        (answer[8], answer[9]) = (HOPS, ICMP);
        answer.copy_within(start + 8 + 16..start + 8 + 20, 12);
        answer.copy_within(start + 8 + 12..start + 8 + 16, 16);
        let checksum = Sum::default().plus(&answer[..start]).checksum();
        answer[10..12].copy_from_slice(&checksum.to_be_bytes());
        answer[start..start + 2].copy_from_slice(&FRAGMENTATION_NEEDED);
        answer[start + 6..start + 8].copy_from_slice(&mtu.to_be_bytes());
        let checksum = Sum::default().plus(&answer[start..]).checksum();
        answer[start + 2..start + 4].copy_from_slice(&checksum.to_be_bytes());
    }
    Some(answer)
}

fn is_answered(packet: &[u8], headers: &Headers) -> bool {
    let is_host = |address: IpAddr| match address {
        IpAddr::V4(v4) => {
            !v4.is_unspecified() && !v4.is_multicast() && !v4.is_broadcast() && !v4.is_loopback()
        }
        IpAddr::V6(v6) => !v6.is_unspecified() && !v6.is_multicast() && !v6.is_loopback(),
    };
    let kind = packet.get(headers.network).copied();
    let is_error = match (headers.protocol, headers.is_v6()) {
        // Destination unreachable, source quench, redirect, time exceeded, parameter problem.
        (ICMP, false) => kind.is_none_or(|kind| matches!(kind, 3 | 4 | 5 | 11 | 12)),
        // Errors have types below 128; redirect is no error, but not answered either.
        (ICMPV6, true) => kind.is_none_or(|kind| kind < 128 || kind == 137),
        _ => false,
    };
    let is_later_fragment =
        !headers.is_v6() && u16::from_be_bytes([packet[6], packet[7]]) & 0x1fff != 0;
    is_host(headers.source) && is_host(headers.destination) && !is_error && !is_later_fragment
}

/// Limits how many answers are sent.
#[derive(Clone, Copy, Debug)]
pub struct AnswerLimit {
    left: f64,
    at: Option<Instant>,
}

impl Default for AnswerLimit {
    fn default() -> AnswerLimit {
        AnswerLimit { left: BURST, at: None }
    }
}

impl AnswerLimit {
    /// Whether one more answer may be sent now. Counts it.
    pub fn allows(&mut self, now: Instant) -> bool {
        let elapsed = self.at.map_or(Duration::ZERO, |at| now.saturating_duration_since(at));
        self.at = Some(now);
        self.left = (self.left + elapsed.as_secs_f64() * PER_SECOND).min(BURST);
        let allows = self.left >= 1.0;
        self.left -= f64::from(u8::from(allows));
        allows
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fields::{self, TCP, UDP};
    use crate::offload::LeftOut;
    use proptest::prelude::*;
    use std::num::NonZeroU16;

    fn v4(protocol: u8, fragment: u16, rest: &[u8]) -> Vec<u8> {
        let mut packet = fields::tests::v4(protocol, fragment, rest);
        let len = packet.len() as u16;
        packet[2..4].copy_from_slice(&len.to_be_bytes());
        packet
    }

    fn v6(next: u8, rest: &[u8]) -> Vec<u8> {
        let mut packet = vec![0x60, 0, 0, 0, 0, 0, next, 64];
        packet.extend_from_slice(&[0xfd; 16]);
        packet.extend_from_slice(&[0xfe, 0x80, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14]);
        packet.extend_from_slice(rest);
        let len = rest.len() as u16;
        packet[4..6].copy_from_slice(&len.to_be_bytes());
        packet
    }

    fn offered(packet: &[u8], segment: Option<u16>) -> Offered<'_> {
        Offered {
            headers: Headers::parse(packet).unwrap(),
            packet,
            left_out: segment.map_or(LeftOut::Nothing, |_| LeftOut::LengthsAndChecksum),
            open_checksum: segment.is_some(),
            segment: segment.and_then(NonZeroU16::new),
        }
    }

    #[test]
    fn fragmentation_needed() {
        let packet = v4(UDP, 0x4000, &[7; 1480]);
        let answer = too_big(&offered(&packet, None), 1420).unwrap();
        let headers = Headers::parse(&answer).unwrap();
        assert_eq!(
            (headers.source, headers.destination),
            (IpAddr::from([10, 2, 0, 1]), IpAddr::from([10, 1, 0, 1]))
        );
        assert_eq!((answer.len(), headers.protocol), (576, ICMP));
        assert_eq!(usize::from(u16::from_be_bytes([answer[2], answer[3]])), answer.len());
        assert_eq!(answer[20..22], FRAGMENTATION_NEEDED);
        assert_eq!(answer[24..28], [0, 0, 5, 0x8c], "RFC 1191 section 4");
        assert_eq!(answer[28..], packet[..548]);
        assert_eq!(Sum::default().plus(&answer[..20]).checksum(), 0);
        assert_eq!(Sum::default().plus(&answer[20..]).checksum(), 0);
    }

    #[test]
    fn packet_too_big() {
        let packet = v6(UDP, &[7; 1460]);
        for (mtu, said) in [(1420, 1420u32), (1100, 1280)] {
            let answer = too_big(&offered(&packet, None), mtu).unwrap();
            let headers = Headers::parse(&answer).unwrap();
            let asked = Headers::parse(&packet).unwrap();
            assert_eq!((headers.source, headers.destination), (asked.destination, asked.source));
            assert_eq!((answer.len(), headers.protocol, answer[7]), (1280, ICMPV6, HOPS));
            assert_eq!(answer[40..42], PACKET_TOO_BIG);
            assert_eq!(answer[44..48], said.to_be_bytes());
            assert_eq!(answer[48..], packet[..1232]);
            let sum = Sum::of_pseudo_header(headers.source, headers.destination, ICMPV6, 1240);
            assert_eq!(sum.plus(&answer[40..]).checksum(), 0);
        }
    }

    /// A host looks for the connection by the headers of a segment, which a run's are not.
    #[test]
    fn the_first_segment_of_a_run_is_answered() {
        let mut tcp = [0; 20];
        (tcp[4], tcp[12]) = (9, 0x50);
        let mut packet = v4(TCP, 0x4000, &[&tcp[..], &[3; 3000]].concat());
        packet[2..4].fill(0);
        let answer = too_big(&offered(&packet, Some(1448)), 1400).unwrap();
        let quoted = &answer[28..];
        assert_eq!(u16::from_be_bytes([quoted[2], quoted[3]]), 1488);
        assert_eq!(Sum::default().plus(&quoted[..20]).checksum(), 0);
        // Its checksum is open, of a segment of this length.
        tcp[16..18].copy_from_slice(&1468u16.to_be_bytes());
        assert_eq!(quoted[20..40], tcp);
    }

    #[test]
    fn some_packets_get_no_answer() {
        let none = |packet: &[u8]| assert_eq!(too_big(&offered(packet, None), 1280), None);
        none(&v4(UDP, 0, &[0; 1500]));
        none(&v4(UDP, 0x4001, &[0; 1500]));
        for kind in [3, 4, 5, 11, 12] {
            none(&v4(ICMP, 0x4000, &[kind; 1500]));
        }
        assert!(too_big(&offered(&v4(ICMP, 0x4000, &[8; 1500]), None), 1280).is_some());
        none(&v4(ICMP, 0x4000, &[]));
        none(&v6(ICMPV6, &[1; 1500]));
        none(&v6(ICMPV6, &[137; 1500]));
        assert!(too_big(&offered(&v6(ICMPV6, &[128; 1500]), None), 1280).is_some());
        for (at, address) in
            [(12, [0; 4]), (12, [224, 0, 0, 1]), (16, [255; 4]), (12, [127, 0, 0, 1])]
        {
            let mut packet = v4(UDP, 0x4000, &[0; 1500]);
            packet[at..at + 4].copy_from_slice(&address);
            none(&packet);
        }
        let mut multicast = v6(UDP, &[0; 1500]);
        multicast[24] = 0xff;
        none(&multicast);
    }

    #[test]
    fn answers_are_limited() {
        let start = Instant::now();
        let mut limit = AnswerLimit::default();
        let count = |limit: &mut AnswerLimit, at| (0..1000).filter(|_| limit.allows(at)).count();
        assert_eq!(count(&mut limit, start), 50);
        assert_eq!(count(&mut limit, start + Duration::from_millis(105)), 10);
        assert_eq!(count(&mut limit, start + Duration::from_secs(100)), 50);
        assert_eq!(count(&mut limit, start), 0, "a clock that goes backwards");
    }

    proptest! {
        #[test]
        fn any_packet_is_answered_or_not(mut packet in proptest::collection::vec(any::<u8>(), 0..1500), v6: bool, segment in proptest::option::of(1u16..2000), mtu: u16) {
            if let Some(first) = packet.first_mut() {
                *first = if v6 { 0x60 } else { 0x45 };
            }
            if let Ok(headers) = Headers::parse(&packet) {
                let segment = segment.filter(|_| headers.transport.is_some());
                if let Some(answer) = too_big(&offered(&packet, segment), mtu) {
                    prop_assert!(answer.len() <= LONGEST[usize::from(v6)]);
                    prop_assert!(Headers::parse(&answer).is_ok());
                }
            }
        }
    }
}
