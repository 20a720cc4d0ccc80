//! Classifiers decide which packets take part and where their payload begins.

/// Santos and Wetherall, section 3.1.1. The same at both ends.
pub trait Classifier: Send {
    /// Position of the payload of `packet`, in bytes; it extends to the packet's end. `None` if the
    /// packet takes no part. Must not panic on any input.
    fn classify(&self, packet: &[u8]) -> Option<usize>;
}

/// Treats every packet as payload: for application data without headers.
#[derive(Clone, Copy, Debug, Default)]
pub struct WholePacket;

impl Classifier for WholePacket {
    fn classify(&self, _packet: &[u8]) -> Option<usize> {
        Some(0)
    }
}

/// IPv4 and IPv6 packets, from the IP header on: the payload begins after the TCP or UDP header.
///
/// The first fragment of a packet is split in the same way; the payload of later ones begins after
/// the IP headers. Packets of other protocols, with a wrong length, or with truncated or
/// inconsistent headers take no part.
#[derive(Clone, Copy, Debug, Default)]
pub struct IpPayload;

/// IPv6 extension headers that are followed; RFC 8200 section 4.1 knows seven places for them.
const MAX_EXTENSIONS: usize = 8;

const TCP: u8 = 6;
const UDP: u8 = 17;
const HOP_BY_HOP: u8 = 0;
const ROUTING: u8 = 43;
const FRAGMENT: u8 = 44;
const AUTHENTICATION: u8 = 51;
const DESTINATION_OPTIONS: u8 = 60;

impl Classifier for IpPayload {
    fn classify(&self, packet: &[u8]) -> Option<usize> {
        match packet.first()? >> 4 {
            4 => ipv4(packet),
            6 => ipv6(packet),
            _ => None,
        }
    }
}

/// RFC 791 section 3.1.
fn ipv4(packet: &[u8]) -> Option<usize> {
    let header = usize::from(packet.first()? & 15) * 4;
    if header < 20 || usize::from(u16_at(packet, 2)?) != packet.len() {
        return None;
    }
    let later_fragment = u16_at(packet, 6)? & 0x1fff != 0;
    transport(packet, *packet.get(9)?, header, later_fragment)
}

/// RFC 8200 sections 3 and 4.
fn ipv6(packet: &[u8]) -> Option<usize> {
    let mut at = 40;
    if usize::from(u16_at(packet, 4)?) + at != packet.len() {
        return None;
    }
    let mut protocol = *packet.get(6)?;
    let mut later_fragment = false;
    for _ in 0..MAX_EXTENSIONS {
        let next = packet.get(at).copied();
        let units = || packet.get(at + 1).copied().map(usize::from);
        at += match protocol {
            HOP_BY_HOP | ROUTING | DESTINATION_OPTIONS if !later_fragment => (units()? + 1) * 8,
            // RFC 4302 section 2.2: in units of 4 bytes, less 2.
            AUTHENTICATION if !later_fragment => (units()? + 2) * 4,
            FRAGMENT if !later_fragment => {
                later_fragment = u16_at(packet, at + 2)? >> 3 != 0;
                8
            }
            _ => return transport(packet, protocol, at, later_fragment),
        };
        protocol = next?;
    }
    None
}

/// The payload of the TCP or UDP segment at `at`.
fn transport(packet: &[u8], protocol: u8, at: usize, later_fragment: bool) -> Option<usize> {
    let header = match protocol {
        TCP | UDP if later_fragment => 0,
        // RFC 9293 section 3.1: the data offset in units of 4 bytes.
        TCP => match usize::from(packet.get(at + 12)? >> 4) * 4 {
            0..20 => return None,
            header => header,
        },
        UDP => 8,
        _ => return None,
    };
    Some(at + header).filter(|&start| start <= packet.len())
}

fn u16_at(packet: &[u8], at: usize) -> Option<u16> {
    packet.get(at..)?.first_chunk().copied().map(u16::from_be_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn v4(protocol: u8, options: usize, fragment: u16, rest: &[u8]) -> Vec<u8> {
        let header = 20 + options;
        let mut packet = vec![0; header];
        packet[0] = 0x40 | (header / 4) as u8;
        packet[2..4].copy_from_slice(&((header + rest.len()) as u16).to_be_bytes());
        packet[6..8].copy_from_slice(&fragment.to_be_bytes());
        packet[9] = protocol;
        packet.extend_from_slice(rest);
        packet
    }

    fn v6(next: u8, rest: &[u8]) -> Vec<u8> {
        let mut packet = vec![0; 40];
        packet[0] = 0x60;
        packet[4..6].copy_from_slice(&(rest.len() as u16).to_be_bytes());
        packet[6] = next;
        packet.extend_from_slice(rest);
        packet
    }

    fn tcp(options: usize, payload: usize) -> Vec<u8> {
        let mut segment = vec![0; 20 + options + payload];
        segment[12] = ((20 + options) * 4) as u8;
        segment
    }

    fn start(packet: &[u8]) -> Option<usize> {
        IpPayload.classify(packet)
    }

    #[test]
    fn ipv4_tcp_and_udp() {
        assert_eq!(start(&v4(TCP, 0, 0, &tcp(0, 9))), Some(40));
        assert_eq!(start(&v4(TCP, 8, 0x4000, &tcp(12, 9))), Some(60));
        assert_eq!(start(&v4(UDP, 0, 0, &[0; 17])), Some(28));
        assert_eq!(start(&v4(TCP, 0, 0, &tcp(0, 0))), Some(40), "empty");
        assert_eq!(start(&v4(1, 0, 0, &[0; 30])), None, "ICMP");
        assert_eq!(start(&v4(TCP, 0, 0x2000, &tcp(0, 9))), Some(40), "first fragment");
        assert_eq!(start(&v4(TCP, 0, 0x2001, &[0; 9])), Some(20), "a later one");
    }

    #[test]
    fn ipv6_and_extension_headers() {
        assert_eq!(start(&v6(TCP, &tcp(0, 9))), Some(60));
        assert_eq!(start(&v6(UDP, &[0; 8])), Some(48));
        let behind =
            |first: u8, extension: &[u8]| start(&v6(first, &[extension, &tcp(0, 9)].concat()));
        let mut hop = [0; 16];
        (hop[0], hop[1]) = (TCP, 1);
        assert_eq!(behind(HOP_BY_HOP, &hop), Some(76));
        let mut authentication = [0; 24];
        (authentication[0], authentication[1]) = (TCP, 4);
        assert_eq!(behind(AUTHENTICATION, &authentication), Some(84));
        assert_eq!(behind(FRAGMENT, &[TCP, 0, 0, 1, 0, 0, 0, 0]), Some(68), "first fragment");
        assert_eq!(behind(FRAGMENT, &[TCP, 0, 0, 8, 0, 0, 0, 0]), Some(48), "a later one");
        let chain: Vec<u8> =
            [DESTINATION_OPTIONS; 7].iter().flat_map(|&next| [next, 0, 0, 0, 0, 0, 0, 0]).collect();
        assert_eq!(
            behind(DESTINATION_OPTIONS, &[&chain[..8 * 6], &[TCP, 0, 0, 0, 0, 0, 0, 0]].concat()),
            Some(40 + 7 * 8 + 20)
        );
        assert_eq!(
            behind(DESTINATION_OPTIONS, &chain),
            None,
            "the chain continues and is truncated"
        );
        assert_eq!(behind(50, &hop), None, "ESP");
    }

    #[test]
    fn short_and_contradicting_headers_take_no_part() {
        for whole in [v4(TCP, 4, 0, &tcp(4, 9)), v6(TCP, &tcp(4, 9)), v4(UDP, 0, 0, &[0; 8])] {
            let end = start(&whole).unwrap();
            for len in 0..whole.len() {
                let mut short = whole[..len].to_vec();
                assert_eq!(start(&short), None);
                // Cut, but with a length that agrees: only where the headers still fit.
                if len >= 8 {
                    let (at, claimed) =
                        if short[0] >> 4 == 4 { (2, len) } else { (4, len.saturating_sub(40)) };
                    short[at..at + 2].copy_from_slice(&(claimed as u16).to_be_bytes());
                    assert_eq!(start(&short), (len >= end).then_some(end));
                }
            }
            assert_eq!(start(&[&whole[..], &[0]].concat()), None, "padded");
        }
        let mut packet = v4(TCP, 0, 0, &tcp(0, 9));
        packet[0] = 0x44;
        assert_eq!(start(&packet), None, "an IPv4 header of 16 bytes");
        let mut segment = tcp(0, 9);
        segment[12] = 4 << 4;
        assert_eq!(start(&v4(TCP, 0, 0, &segment)), None, "a TCP header of 16 bytes");
        segment[12] = 15 << 4;
        assert_eq!(start(&v4(TCP, 0, 0, &segment)), None, "a TCP header beyond the packet");
    }

    proptest! {
        #[test]
        fn any_bytes_are_answered(mut packet in proptest::collection::vec(any::<u8>(), 0..200), version in any::<bool>()) {
            if packet.len() >= 8 {
                let len = packet.len();
                packet[0] = if version { 0x45 } else { 0x60 };
                let (at, claimed) = if version { (2, len) } else { (4, len.saturating_sub(40)) };
                packet[at..at + 2].copy_from_slice(&(claimed as u16).to_be_bytes());
            }
            if let Some(start) = start(&packet) {
                prop_assert!(start >= 20 && start <= packet.len());
            }
        }

        #[test]
        fn any_chain_of_extensions_is_answered(chain in proptest::collection::vec((0usize..8, 0u8..3), 0..12), tail in 0usize..40) {
            let kinds = [HOP_BY_HOP, ROUTING, FRAGMENT, AUTHENTICATION, DESTINATION_OPTIONS, TCP, UDP, 99];
            let mut rest = Vec::new();
            for window in chain.windows(2) {
                let at = rest.len();
                rest.resize(at + 8 * (usize::from(window[0].1) + 1), 0);
                (rest[at], rest[at + 1]) = (kinds[window[1].0], window[0].1);
            }
            rest.resize(rest.len() + tail, 0x50);
            let packet = v6(chain.first().map_or(TCP, |&(kind, _)| kinds[kind]), &rest);
            prop_assert!(start(&packet).is_none_or(|start| (40..=packet.len()).contains(&start)));
        }
    }
}
