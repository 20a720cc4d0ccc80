//! Which flows are encrypted, by the protocols that say so in the clear.
//!
//! Content that merely looks random may be compressed, and then repeats. What is recognized here
//! does not repeat, because every connection has keys of its own.

use crate::dissect::Cipher;
use crate::fields::{Headers, TCP, UDP};
use std::fmt;

/// Protocol number of ESP (RFC 4303).
const ESP: u8 = 50;
/// Port of ESP in UDP (RFC 3948).
const ESP_PORT: u16 = 4500;
/// Longest TLS record: 2^14 bytes and what TLS 1.2 may add (RFC 5246 section 6.2.3).
const TLS_RECORD: usize = (1 << 14) + 2048;
/// TLS content types: change_cipher_spec, alert, handshake, application_data.
const TLS_TYPES: std::ops::RangeInclusive<u8> = 20..=23;
/// Bytes that are searched for TLS records that follow one another.
const SEARCHED: usize = 2 * TLS_RECORD;

/// The protocol by which a flow is encrypted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Encryption {
    /// A cipher below the transport layer.
    Cipher(Cipher),
    /// TLS on TCP (RFC 8446, RFC 5246).
    Tls,
    /// DTLS (RFC 6347).
    Dtls,
    /// QUIC (RFC 9000, RFC 9369).
    Quic,
    /// SSH (RFC 4253).
    Ssh,
    /// WireGuard's transport data.
    WireGuard,
}

impl fmt::Display for Encryption {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Encryption::Cipher(Cipher::Esp) => "ESP",
            Encryption::Cipher(Cipher::Ieee80211) => "802.11",
            Encryption::Cipher(Cipher::MacSec) => "MACsec",
            Encryption::Cipher(Cipher::Ppp) => "PPP",
            Encryption::Tls => "TLS",
            Encryption::Dtls => "DTLS",
            Encryption::Quic => "QUIC",
            Encryption::Ssh => "SSH",
            Encryption::WireGuard => "WireGuard",
        })
    }
}

/// The encryption of the flow that a packet or run belongs to, if this packet shows it. Most packets
/// of an encrypted flow do not: remember what an earlier one showed.
///
/// `payload` is what follows the headers. Work is at most proportional to it, for TCP, and constant
/// for other protocols.
pub fn recognize(headers: &Headers, payload: &[u8]) -> Option<Encryption> {
    if headers.protocol == ESP {
        return Some(Encryption::Cipher(Cipher::Esp));
    }
    let transport = headers.transport?;
    match headers.protocol {
        TCP if payload.starts_with(b"SSH-2.0-") => Some(Encryption::Ssh),
        TCP => (is_tls_handshake(payload) || has_tls_records(payload)).then_some(Encryption::Tls),
        UDP => {
            let ports = [transport.source, transport.destination];
            datagram(payload, ports.contains(&ESP_PORT))
        }
        _ => None,
    }
}

fn datagram(payload: &[u8], is_esp_port: bool) -> Option<Encryption> {
    let &[first, b1, b2, b3, b4, ..] = payload.first_chunk::<8>()?;
    // A security parameters index of 0 marks IKE (RFC 3948 section 2.2).
    if is_esp_port && [first, b1, b2, b3] != [0; 4] {
        return Some(Encryption::Cipher(Cipher::Esp));
    }
    // A long header with version 1 or 2 (RFC 9000 section 17.2, RFC 9369 section 3.1). A server whose
    // client admits it may clear the next bit from its first packet on (RFC 9287 section 3.1).
    let version = u32::from_be_bytes([b1, b2, b3, b4]);
    if first & 0x80 != 0 && matches!(version, 1 | 0x6b33_43cf) {
        return Some(Encryption::Quic);
    }
    // Type, version; epoch and sequence number follow, then the length at 11 (RFC 6347 section 4.1).
    if TLS_TYPES.contains(&first) && b1 == 0xfe && matches!(b2, 0xfd | 0xff) {
        let len = payload.get(11..13).map(|len| usize::from(u16::from_be_bytes([len[0], len[1]])));
        if len.is_some_and(|len| len <= payload.len() - 13) {
            return Some(Encryption::Dtls);
        }
    }
    // Type 4, three zeros, index, counter, content padded to 16 bytes, and a tag of 16.
    let is_wireguard = [first, b1, b2, b3] == [4, 0, 0, 0] && payload.len().is_multiple_of(16);
    (is_wireguard && payload.len() >= 32).then_some(Encryption::WireGuard)
}

/// Length of the TLS record whose header `bytes` begins with, its own header included.
fn tls_record(bytes: &[u8]) -> Option<usize> {
    let &[kind, major, minor, l0, l1] = bytes.first_chunk::<5>()?;
    let len = usize::from(u16::from_be_bytes([l0, l1]));
    let is_header = TLS_TYPES.contains(&kind) && major == 3 && minor <= 4;
    (is_header && (1..=TLS_RECORD).contains(&len)).then_some(5 + len)
}

/// Whether a TCP payload begins with ClientHello or ServerHello.
fn is_tls_handshake(payload: &[u8]) -> bool {
    // Handshake messages 1 and 2, whose length has three bytes (RFC 8446 section 4).
    payload.first() == Some(&22)
        && tls_record(payload).is_some()
        && matches!(payload.get(5..7), Some([1 | 2, 0]))
}

/// Whether application data in TLS records follow one another somewhere: for connections that are
/// older than this program. A run of 64 KiB has three whole records or more.
fn has_tls_records(payload: &[u8]) -> bool {
    let searched = &payload[..payload.len().min(SEARCHED)];
    let mut from = 0;
    while let Some(at) = memchr::memmem::find(&searched[from..], &[23, 3, 3]) {
        let at = from + at;
        let next = tls_record(&payload[at..]).and_then(|len| payload.get(at + len..));
        if next.is_some_and(|next| next.starts_with(&[23, 3, 3]) && tls_record(next).is_some()) {
            return true;
        }
        from = at + 3;
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn headers(protocol: u8, ports: [u16; 2], payload: &[u8]) -> Headers {
        let mut packet =
            vec![0x45, 0, 0, 0, 0, 1, 0, 0, 64, protocol, 0, 0, 10, 1, 0, 1, 10, 2, 0, 1];
        packet.extend(ports[0].to_be_bytes());
        packet.extend(ports[1].to_be_bytes());
        match protocol {
            TCP => packet.extend([0, 0, 0, 0, 0, 0, 0, 0, 0x50, 0x10, 0, 0, 0, 0, 0, 0]),
            _ => packet.extend([0; 4]),
        }
        packet.extend(payload);
        Headers::parse(&packet).unwrap()
    }

    fn tcp(payload: &[u8]) -> Option<Encryption> {
        recognize(&headers(TCP, [40_000, 443], payload), payload)
    }

    fn udp(ports: [u16; 2], payload: &[u8]) -> Option<Encryption> {
        recognize(&headers(UDP, ports, payload), payload)
    }

    #[test]
    fn protocols_that_say_they_are_encrypted() {
        let client_hello = [22, 3, 1, 0, 200, 1, 0, 0, 196, 3, 3];
        assert_eq!(tcp(&client_hello), Some(Encryption::Tls));
        assert_eq!(tcp(b"SSH-2.0-OpenSSH_9.2\r\n"), Some(Encryption::Ssh));
        let record =
            |len: u16| [&[23, 3, 3][..], &len.to_be_bytes(), &vec![9; len.into()]].concat();
        let middle = [&[5; 100][..], &record(50), &record(16_000)[..40]].concat();
        assert_eq!(tcp(&middle), Some(Encryption::Tls), "records in the middle of a run");
        assert_eq!(tcp(&middle[..159]), None, "a single record may be chance");
        assert_eq!(udp([1, 2], &[0xc3, 0, 0, 0, 1, 8, 0, 0]), Some(Encryption::Quic));
        assert_eq!(udp([1, 2], &[0x83, 0, 0, 0, 1, 8, 0, 0]), Some(Encryption::Quic), "greased");
        assert_eq!(udp([1, 2], &[0xc3, 0, 0, 0, 7, 8, 0, 0]), None, "another version");
        assert_eq!(udp([1, 2], &[0x43, 0, 0, 0, 1, 8, 0, 0]), None, "a short header");
        let dtls = [23, 0xfe, 0xfd, 0, 1, 0, 0, 0, 0, 0, 1, 0, 2, 7, 7];
        assert_eq!(udp([1, 2], &dtls), Some(Encryption::Dtls));
        assert_eq!(udp([1, 2], &dtls[..14]), None, "a longer record");
        let mut wireguard = [7; 48];
        wireguard[..4].copy_from_slice(&[4, 0, 0, 0]);
        assert_eq!(udp([1, 2], &wireguard), Some(Encryption::WireGuard));
        assert_eq!(udp([1, 2], &wireguard[..47]), None);
        let esp = Some(Encryption::Cipher(Cipher::Esp));
        assert_eq!(udp([4500, 4500], &[1, 2, 3, 4, 0, 0, 0, 1]), esp);
        assert_eq!(udp([4500, 4500], &[0, 0, 0, 0, 0, 0, 0, 1]), None, "IKE");
        assert_eq!(recognize(&headers(ESP, [1, 2], &[]), &[0; 40]), esp);
    }

    #[test]
    fn other_content_is_not_recognized() {
        for content in [&b"GET / HTTP/1.1\r\n"[..], &[0; 100], &[23, 3, 3, 0, 0, 23, 3, 3, 0, 0]] {
            assert_eq!(tcp(content), None);
            assert_eq!(udp([53, 53], content), None);
        }
    }

    proptest! {
        /// A stream of records is recognized wherever it is cut, if two of their headers are left.
        #[test]
        fn any_cut_of_a_stream_of_records(lens in proptest::collection::vec(1u16..3000, 1..20), cut in 0usize..6000, kind: u8, bytes in proptest::collection::vec(any::<u8>(), 0..60)) {
            let (mut stream, mut starts) = (Vec::new(), Vec::new());
            for len in &lens {
                starts.push(stream.len());
                stream.extend([23, 3, 3]);
                stream.extend(len.to_be_bytes());
                stream.resize(stream.len() + usize::from(*len), 0xaa);
            }
            let cut = cut.min(stream.len());
            let left = starts.iter().filter(|&&start| start >= cut).count();
            prop_assert_eq!(tcp(&stream[cut..]), (left >= 2).then_some(Encryption::Tls));
            let _ = (tcp(&bytes), udp([kind.into(), 4500], &bytes), udp([1, 2], &bytes));
        }
    }
}
