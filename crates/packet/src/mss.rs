//! The maximum segment size that TCP's SYN announces, made no larger than a path carries.
//!
//! Hosts behind a router do not see the MTU of a path beyond it. A router that clamps the option in
//! both directions spares them the packets that would be too big (RFC 4821 calls this MSS clamping;
//! the option is RFC 9293, section 3.7.1, and its value RFC 6691).

use crate::ecn::updated;
use crate::fields::{Headers, TCP};

const SYN: u8 = 0x02;
const END: u8 = 0;
const NO_OPERATION: u8 = 1;
const MSS: u8 = 2;
/// Bytes of a TCP header without options.
const HEADER: usize = 20;

/// Lowers the MSS option of a SYN so that segments fit packets of `mtu` bytes. Returns whether it did.
///
/// `open_checksum` says that the transport checksum is not complete yet
/// ([`offload`](crate::offload)); it is then left alone.
pub fn clamp(packet: &mut [u8], headers: &Headers, mtu: u16, open_checksum: bool) -> bool {
    let Some(transport) = headers.transport.filter(|_| headers.protocol == TCP) else {
        return false;
    };
    let start = headers.network;
    if packet[start + 13] & SYN == 0 {
        return false;
    }
    let network: u16 = if headers.is_v6() { 40 } else { 20 };
    let most = mtu.saturating_sub(network + HEADER as u16);
    let Some(at) = option(&packet[start..start + transport.len]).map(|at| start + at) else {
        return false;
    };
    if u16::from_be_bytes([packet[at], packet[at + 1]]) <= most {
        return false;
    }
    // The option may be at an odd offset: the words around it.
    let words = at & !1..(at + 3) & !1;
    let mut before = [0; 4];
    let before = &mut before[..words.len()];
    before.copy_from_slice(&packet[words.clone()]);
    packet[at..at + 2].copy_from_slice(&most.to_be_bytes());
    if !open_checksum {
        let field = start + 16;
        let checksum = updated([packet[field], packet[field + 1]], before, &packet[words]);
        packet[field..field + 2].copy_from_slice(&checksum);
    }
    true
}

/// Where the value of the MSS option is in a TCP header.
fn option(header: &[u8]) -> Option<usize> {
    let mut at = HEADER;
    loop {
        match *header.get(at..)? {
            [NO_OPERATION, ..] => at += 1,
            [END, ..] => return None,
            [MSS, 4, _, _, ..] => return Some(at + 2),
            // A length below 2 is invalid, and would not end.
            [_, len, ..] if len >= 2 => at += usize::from(len),
            _ => return None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checksum::Sum;
    use proptest::prelude::*;

    /// A TCP packet with these options, padded to whole words, and a right checksum.
    fn packet(v6: bool, flags: u8, options: &[u8]) -> Vec<u8> {
        let len = HEADER + options.len().next_multiple_of(4);
        let mut packet = if v6 {
            let mut packet = vec![0x60, 0, 0, 0, 0, len as u8, TCP, 64];
            packet.extend([0xfd; 32]);
            packet
        } else {
            vec![0x45, 0, 0, 20 + len as u8, 0, 1, 0x40, 0, 64, TCP, 0, 0, 10, 1, 0, 1, 10, 2, 0, 1]
        };
        let start = packet.len();
        packet.extend([0x9c, 0x40, 0, 80, 1, 2, 3, 4, 0, 0, 0, 0, (len as u8 / 4) << 4, flags]);
        packet.extend([0xff, 0xff, 0, 0, 0, 0]);
        packet.extend(options);
        packet.resize(start + len, 0);
        let checksum = transport_sum(&packet).checksum();
        packet[start + 16..start + 18].copy_from_slice(&checksum.to_be_bytes());
        packet
    }

    fn transport_sum(packet: &[u8]) -> Sum {
        let headers = Headers::parse(packet).unwrap();
        let len = packet.len() - headers.network;
        Sum::of_pseudo_header(headers.source, headers.destination, TCP, len)
            .plus(&packet[headers.network..])
    }

    fn clamped(packet: &[u8], mtu: u16) -> Option<Vec<u8>> {
        let headers = Headers::parse(packet).unwrap();
        let mut changed = packet.to_vec();
        clamp(&mut changed, &headers, mtu, false).then_some(changed)
    }

    #[test]
    fn syn_and_syn_ack_of_both_versions_are_clamped() {
        for v6 in [false, true] {
            for flags in [SYN, SYN | 0x10] {
                // At even and at odd offsets, before and after other options.
                for options in [
                    &[2, 4, 5, 0xb4, 1, 3, 3, 7][..],
                    &[1, 2, 4, 5, 0xb4],
                    &[4, 2, 8, 10, 0, 0, 0, 0, 0, 0, 0, 0, 1, 2, 4, 5, 0xb4],
                ] {
                    let before = packet(v6, flags, options);
                    let after = clamped(&before, 1420).unwrap();
                    assert_eq!(transport_sum(&after).checksum(), 0, "{options:?}");
                    let value: u16 = if v6 { 1360 } else { 1380 };
                    let expected: Vec<u8> = [&[2, 4][..], &value.to_be_bytes()].concat();
                    assert!(after.windows(4).any(|window| window == expected), "{after:?}");
                    let changed = before.iter().zip(&after).filter(|(a, b)| a != b).count();
                    assert!(changed <= 4, "the value and the checksum: {after:?}");
                    assert_eq!(clamped(&after, 1420), None, "once");
                    assert_eq!(clamped(&before, 1520), None, "small enough");
                }
            }
        }
    }

    #[test]
    fn other_packets_are_left_alone() {
        let mss = [2, 4, 5, 0xb4];
        assert_eq!(clamped(&packet(false, 0x10, &mss), 1000), None, "not a SYN");
        assert_eq!(clamped(&packet(false, SYN, &[0, 2, 4, 5, 0xb4]), 1000), None, "after the end");
        assert_eq!(clamped(&packet(false, SYN, &[3, 0, 2, 4]), 1000), None, "length 0");
        assert_eq!(clamped(&packet(false, SYN, &[1, 1, 1, 2]), 1000), None, "cut off");
        assert_eq!(clamped(&packet(false, SYN, &[2, 3, 5, 1]), 1000), None, "another length");
        assert_eq!(clamped(&packet(false, SYN, &[]), 1000), None);
        let mut open = packet(false, SYN, &mss);
        let checksum = open[36..38].to_vec();
        let headers = Headers::parse(&open).unwrap();
        assert!(clamp(&mut open, &headers, 1000, true));
        assert_eq!(open[36..38], checksum, "an open checksum is not touched");
    }

    proptest! {
        #[test]
        fn any_options(options in proptest::collection::vec(any::<u8>(), 0..=40), v6: bool, mtu: u16) {
            let before = packet(v6, SYN, &options);
            if let Some(after) = clamped(&before, mtu) {
                prop_assert_eq!(transport_sum(&after).checksum(), 0);
                prop_assert_eq!(after.len(), before.len());
            }
        }
    }
}
