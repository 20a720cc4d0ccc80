//! Encrypted protocols, recognized by their framing.

use crate::batch::{FlowKey, Kind, Packet};

/// A recognized protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[allow(missing_docs)]
pub enum Protocol {
    Tls,
    Quic,
    Ssh,
    Dtls,
    WireGuard,
    Ipsec,
    OpenVpn,
}

impl Protocol {
    /// All protocols.
    pub const ALL: [Protocol; 7] = [
        Protocol::Tls,
        Protocol::Quic,
        Protocol::Ssh,
        Protocol::Dtls,
        Protocol::WireGuard,
        Protocol::Ipsec,
        Protocol::OpenVpn,
    ];

    /// The name in tables.
    pub fn name(self) -> &'static str {
        match self {
            Protocol::Tls => "TLS",
            Protocol::Quic => "QUIC",
            Protocol::Ssh => "SSH",
            Protocol::Dtls => "DTLS, and SRTP keyed by it",
            Protocol::WireGuard => "WireGuard",
            Protocol::Ipsec => "IPsec over UDP",
            Protocol::OpenVpn => "OpenVPN",
        }
    }

    /// Whether it carries whole packets between two gateways.
    pub fn is_vpn(self) -> bool {
        matches!(self, Protocol::WireGuard | Protocol::Ipsec | Protocol::OpenVpn)
    }
}

const IPSEC: u16 = 4500;
const OPENVPN: u16 = 1194;

/// Most bytes of a TLS record after its header: 2^14, plus the expansion that TLS 1.2 allows (RFC
/// 5246, section 6.2.3).
pub(super) const MAX_RECORD: u16 = (1 << 14) + 2048;

/// What is known about a connection, in both directions.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Recognizer {
    known: Option<Protocol>,
    hints: [Hint; 2],
}

/// What one packet suggested, until another one confirms it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Hint {
    #[default]
    None,
    /// A TLS record ends before this sequence number, where the next one must begin.
    Record(u32),
    /// A WireGuard transport message had this receiver and counter.
    Transport(u32, u64),
}

impl Recognizer {
    /// The protocol of a packet with payload. `side` is the direction of the packet within the
    /// connection. A recognized connection keeps its protocol.
    pub(crate) fn packet(
        &mut self,
        flow: &FlowKey,
        side: usize,
        packet: &Packet,
        payload: &[u8],
    ) -> Option<Protocol> {
        if self.known.is_none() {
            let hint = &mut self.hints[side];
            self.known = match packet.kind {
                Kind::Tcp { seq, .. } => tcp(flow, hint, seq, payload),
                Kind::Udp => udp(flow, hint, payload, packet.missing),
                Kind::Other => None,
            };
        }
        self.known
    }
}

fn has_port(flow: &FlowKey, port: u16) -> bool {
    flow.source_port == port || flow.destination_port == port
}

fn tcp(flow: &FlowKey, hint: &mut Hint, seq: u32, payload: &[u8]) -> Option<Protocol> {
    if payload.starts_with(b"SSH-2.0-") || payload.starts_with(b"SSH-1.99-") {
        return Some(Protocol::Ssh);
    }
    if has_port(flow, OPENVPN)
        && let [high, low, opcode, ..] = *payload
        && usize::from(u16::from_be_bytes([high, low])) + 2 <= payload.len()
        && is_openvpn(opcode)
    {
        return Some(Protocol::OpenVpn);
    }
    if let Hint::Record(next) = *hint {
        let ahead = next.wrapping_sub(seq) as usize;
        if ahead <= usize::from(MAX_RECORD) {
            let header = payload.get(ahead..)?;
            if header.len() >= 5 {
                *hint = Hint::None;
                if record(header).is_some() {
                    return Some(Protocol::Tls);
                }
            } else if !header.is_empty() {
                // The header is split.
                *hint = Hint::None;
            }
            if ahead > 0 {
                return None;
            }
        }
    }
    let len = record(payload)?;
    let end = 5 + usize::from(len);
    if is_hello(payload) || payload.get(end..).and_then(record).is_some() {
        return Some(Protocol::Tls);
    }
    *hint = Hint::Record(seq.wrapping_add(end as u32));
    None
}

/// The length of the TLS record whose header this is (RFC 8446, section 5.1).
fn record(header: &[u8]) -> Option<u16> {
    let [20..=23, 3, 0..=4, high, low, ..] = *header else { return None };
    Some(u16::from_be_bytes([high, low])).filter(|&len| (1..=MAX_RECORD).contains(&len))
}

/// Whether a record begins with a ClientHello or ServerHello of a plausible length.
fn is_hello(record: &[u8]) -> bool {
    matches!(record, [22, 3, _, _, _, 1 | 2, 0, high, _, 3, 0..=3, ..] if *high < 0x40)
}

fn udp(flow: &FlowKey, hint: &mut Hint, payload: &[u8], missing: u32) -> Option<Protocol> {
    let len = payload.len() + missing as usize;
    if is_quic(payload) {
        return Some(Protocol::Quic);
    }
    if missing == 0 && is_dtls(payload) {
        return Some(Protocol::Dtls);
    }
    if is_wireguard(hint, payload, len) {
        return Some(Protocol::WireGuard);
    }
    // RFC 3948: ESP with a security parameter index that is not reserved, or IKE behind four zero
    // bytes and with a version of 1 or 2.
    if has_port(flow, IPSEC) && len >= 28 {
        let esp = payload.first_chunk().is_some_and(|&index| u32::from_be_bytes(index) > 255);
        let ike = payload.starts_with(&[0; 4])
            && payload.get(21).is_some_and(|version| matches!(version >> 4, 1 | 2));
        if esp || ike {
            return Some(Protocol::Ipsec);
        }
    }
    (has_port(flow, OPENVPN)
        && len >= 14
        && payload.first().is_some_and(|&opcode| is_openvpn(opcode)))
    .then_some(Protocol::OpenVpn)
}

/// A long header of QUIC version 1 or 2 (RFC 9000, section 17.2; RFC 9369).
fn is_quic(payload: &[u8]) -> bool {
    let Some((&[first, a, b, c, d, to], rest)) = payload.split_first_chunk() else { return false };
    let from = rest.get(usize::from(to));
    first & 0xc0 == 0xc0
        && matches!(u32::from_be_bytes([a, b, c, d]), 1 | 0x6b33_43cf)
        && to <= 20
        && from
            .is_some_and(|&from| from <= 20 && rest.len() > usize::from(to) + 1 + usize::from(from))
}

/// DTLS records that fill a datagram (RFC 6347, section 4.1).
fn is_dtls(mut payload: &[u8]) -> bool {
    let mut records = 0;
    while let [20..=25, 254, 253 | 255, _, _, _, _, _, _, _, _, high, low, rest @ ..] = payload {
        let len = usize::from(u16::from_be_bytes([*high, *low]));
        let Some(rest) = rest.get(len..) else { return false };
        payload = rest;
        records += 1;
    }
    records > 0 && payload.is_empty()
}

/// WireGuard messages by type and length: handshakes at once, transport data once a second message
/// continues the first.
fn is_wireguard(hint: &mut Hint, payload: &[u8], len: usize) -> bool {
    let Some((&kind, rest)) = payload.split_first_chunk::<4>() else { return false };
    match (u32::from_le_bytes(kind), len) {
        (1, 148) | (2, 92) | (3, 64) => true,
        (4, 32..) if len.is_multiple_of(16) => {
            let Some((&receiver, rest)) = rest.split_first_chunk::<4>() else { return false };
            let Some(&counter) = rest.first_chunk::<8>() else { return false };
            let (receiver, counter) = (u32::from_le_bytes(receiver), u64::from_le_bytes(counter));
            let confirmed = matches!(*hint, Hint::Transport(to, last) if to == receiver && counter > last && counter - last < 1 << 16);
            *hint = Hint::Transport(receiver, counter);
            confirmed
        }
        _ => false,
    }
}

/// The opcode of an OpenVPN packet is in the upper five bits, the key ID in the others.
fn is_openvpn(opcode: u8) -> bool {
    (3..=11).contains(&(opcode >> 3))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::batch::testing::{Made, noise};
    use proptest::prelude::*;

    fn run(packets: &[Made]) -> Vec<Option<Protocol>> {
        let mut recognizer = Recognizer::default();
        packets
            .iter()
            .map(|made| {
                let flow = made.packet.flow.unwrap();
                recognizer.packet(&flow, flow.connection().1, &made.packet, &made.payload)
            })
            .collect()
    }

    fn tls(kind: u8, len: u16) -> Vec<u8> {
        [&[kind, 3, 3][..], &len.to_be_bytes(), &noise(u64::from(len), usize::from(len))].concat()
    }

    fn on(udp: bool, port: u16, payloads: &[Vec<u8>]) -> Vec<Option<Protocol>> {
        let mut seq = 77u32;
        let packets: Vec<_> = payloads
            .iter()
            .map(|payload| {
                let to = format!("10.0.0.2:{port}");
                let made = if udp {
                    Made::udp("10.0.0.1:40000", &to)
                } else {
                    Made::tcp("10.0.0.1:40000", &to).seq(seq, 16)
                };
                seq = seq.wrapping_add(payload.len() as u32);
                made.payload(payload)
            })
            .collect();
        run(&packets)
    }

    #[test]
    fn tls_by_its_hello_and_by_its_records() {
        let mut hello = tls(22, 300);
        hello[5..11].copy_from_slice(&[1, 0, 1, 40, 3, 3]);
        assert_eq!(on(false, 9999, &[hello, noise(1, 1000)]), [Some(Protocol::Tls); 2]);
        // In the middle: a record of 3,000 bytes over three packets, then another.
        let records = [tls(23, 3000), tls(23, 100)].concat();
        let packets: Vec<_> = records.chunks(1400).map(<[u8]>::to_vec).collect();
        assert_eq!(on(false, 9999, &packets), [None, None, Some(Protocol::Tls)]);
        assert_eq!(on(false, 9999, &[[tls(23, 50), tls(21, 2)].concat()]), [Some(Protocol::Tls)]);
        assert_eq!(on(false, 9999, &[tls(23, 50), tls(23, 50)]), [None, Some(Protocol::Tls)]);
        // What follows is no record.
        assert_eq!(
            on(false, 443, &[[tls(23, 50), noise(9, 50)].concat(), noise(3, 900)]),
            [None, None]
        );
        assert_eq!(
            on(false, 443, &[[&[23, 3, 3, 0x50, 0][..], &noise(1, 900)].concat()]),
            [None],
            "too long"
        );
    }

    #[test]
    fn the_others() {
        let quic = [&[0xc3, 0, 0, 0, 1, 8][..], &[7; 8], &[0], &noise(1, 1180)].concat();
        assert_eq!(on(true, 443, &[quic, noise(2, 80)]), [Some(Protocol::Quic); 2]);
        assert_eq!(
            on(true, 443, &[[&[0xc3, 0, 0, 0, 9, 8][..], &noise(1, 1180)].concat()]),
            [None]
        );
        assert_eq!(
            on(false, 22, &[b"SSH-2.0-x\r\n".to_vec(), noise(1, 99)]),
            [Some(Protocol::Ssh); 2]
        );
        let dtls = |len: u8| {
            [&[22, 254, 253, 0, 0, 0, 0, 0, 0, 0, 1, 0, len][..], &noise(1, usize::from(len))]
                .concat()
        };
        assert_eq!(
            on(true, 5000, &[[dtls(9), dtls(40)].concat(), noise(1, 50)]),
            [Some(Protocol::Dtls); 2]
        );
        assert_eq!(on(true, 5000, &[[dtls(9), noise(1, 3)].concat()]), [None]);
        let data = |counter: u64| {
            [&[4, 0, 0, 0, 9, 9, 9, 9][..], &counter.to_le_bytes(), &noise(1, 80)].concat()
        };
        assert_eq!(on(true, 51820, &[data(5), data(6)]), [None, Some(Protocol::WireGuard)]);
        assert_eq!(on(true, 51820, &[data(6), data(6)]), [None, None]);
        assert_eq!(
            on(true, 51820, &[[&[1, 0, 0, 0][..], &noise(1, 144)].concat()]),
            [Some(Protocol::WireGuard)]
        );
        let esp = [&[0, 0, 1, 0][..], &noise(1, 100)].concat();
        assert_eq!(on(true, 4500, std::slice::from_ref(&esp)), [Some(Protocol::Ipsec)]);
        assert_eq!(on(true, 4501, &[esp]), [None]);
        assert_eq!(on(true, 4500, &[[&[0, 0, 0, 9][..], &noise(1, 100)].concat()]), [None]);
        assert_eq!(
            on(true, 1194, &[[&[9 << 3][..], &noise(1, 100)].concat()]),
            [Some(Protocol::OpenVpn)]
        );
        assert_eq!(
            on(false, 1194, &[[&[0, 50, 7 << 3][..], &noise(1, 100)].concat()]),
            [Some(Protocol::OpenVpn)]
        );
    }

    #[test]
    fn text_and_random_bytes_are_not_taken_for_encryption() {
        for seed in 0..20_000 {
            assert_eq!(
                on(false, 443, &[noise(seed, 40), noise(seed + 1, 40)]),
                [None, None],
                "seed {seed}"
            );
            assert_eq!(on(true, 443, &[noise(seed, 148)]), [None], "seed {seed}");
        }
        assert_eq!(on(false, 80, &[b"GET / HTTP/1.1\r\n\r\n".to_vec()]), [None]);
    }

    proptest! {
        #[test]
        fn any_bytes(udp in any::<bool>(), port in prop_oneof![Just(1194u16), Just(4500), any::<u16>()], payloads in prop::collection::vec(
            prop_oneof![
                prop::collection::vec(any::<u8>(), 0..40),
                (20..26u8, 0..5u8, 0..40u8).prop_map(|(kind, minor, len)| vec![kind, 3, minor, 0, len, 1, 2]),
                prop::collection::vec(prop_oneof![Just(0u8), Just(1), Just(4), Just(254), Just(253), Just(0xc0)], 0..40),
            ], 0..10)) {
            prop_assert_eq!(on(udp, port, &payloads).len(), payloads.len());
        }
    }
}
