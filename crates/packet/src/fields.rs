//! Where the headers of an IP packet end, and the fields in them that a sender may change.
//!
//! Unlike the dissector, this reads one packet as a host sends it: whole, without a link layer, and
//! only down to the first transport header.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Protocol number of TCP.
pub const TCP: u8 = 6;
/// Protocol number of UDP.
pub const UDP: u8 = 17;

/// The extension headers that may stand before a transport header (RFC 8200 section 4): hop-by-hop
/// options, routing, destination options.
const EXTENSIONS: [u8; 3] = [0, 43, 60];

/// Options of TCP (RFC 9293 section 3.2).
const OPTIONS_END: u8 = 0;
const NO_OPERATION: u8 = 1;
const TIMESTAMPS: u8 = 8;

/// A packet that is not IP, or whose headers are not complete.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum HeaderError {
    /// The version is neither 4 nor 6.
    #[error("not an IP packet")]
    Version,
    /// A header is longer than the packet, or shorter than it can be.
    #[error("an IP packet with an incomplete or impossible header")]
    Length,
}

/// The headers of an IP packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Headers {
    /// Source address.
    pub source: IpAddr,
    /// Destination address.
    pub destination: IpAddr,
    /// Number of the protocol after the IP header and its extension headers.
    pub protocol: u8,
    /// Length of the IP header with its extension headers, in bytes.
    pub network: usize,
    /// TCP or UDP header after it, unless this is a fragment.
    pub transport: Option<TransportHeader>,
}

/// The transport header of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TransportHeader {
    /// Source port.
    pub source: u16,
    /// Destination port.
    pub destination: u16,
    /// Length in bytes, with options.
    pub len: usize,
}

impl Headers {
    /// Reads the headers. The length in the IP header is not compared with that of the packet,
    /// because a run of segments may have another one.
    ///
    /// # Errors
    /// [`HeaderError`] if this is not IP or a header is incomplete. A transport header that is
    /// incomplete is no error: the packet then has none.
    pub fn parse(packet: &[u8]) -> Result<Headers, HeaderError> {
        match packet.first().map(|first| first >> 4) {
            Some(4) => Headers::v4(packet),
            Some(6) => Headers::v6(packet),
            _ => Err(HeaderError::Version),
        }
    }

    /// RFC 791 section 3.1.
    fn v4(packet: &[u8]) -> Result<Headers, HeaderError> {
        let header = packet.first_chunk::<20>().ok_or(HeaderError::Length)?;
        let network = usize::from(header[0] & 0x0f) * 4;
        if network < 20 || network > packet.len() {
            return Err(HeaderError::Length);
        }
        let is_fragment = u16::from_be_bytes([header[6], header[7]]) & 0x3fff != 0;
        let [.., s0, s1, s2, s3, d0, d1, d2, d3] = *header;
        Ok(Headers {
            source: Ipv4Addr::new(s0, s1, s2, s3).into(),
            destination: Ipv4Addr::new(d0, d1, d2, d3).into(),
            protocol: header[9],
            network,
            transport: transport(&packet[network..], header[9], is_fragment),
        })
    }

    /// RFC 8200 sections 3 and 4.
    fn v6(packet: &[u8]) -> Result<Headers, HeaderError> {
        let (header, mut rest) = packet.split_first_chunk::<40>().ok_or(HeaderError::Length)?;
        let address = |at: usize| {
            header[at..].first_chunk::<16>().map_or(Ipv6Addr::UNSPECIFIED, |b| Ipv6Addr::from(*b))
        };
        let mut protocol = header[6];
        while EXTENSIONS.contains(&protocol) {
            let &[next, len, ..] = rest.first_chunk::<2>().ok_or(HeaderError::Length)?;
            protocol = next;
            rest = rest.get(usize::from(len) * 8 + 8..).ok_or(HeaderError::Length)?;
        }
        Ok(Headers {
            source: address(8).into(),
            destination: address(24).into(),
            protocol,
            network: packet.len() - rest.len(),
            // The header of a fragment (44) is not among the extensions, so it ends the walk.
            transport: transport(rest, protocol, false),
        })
    }

    /// Length of all headers in bytes.
    pub fn total(&self) -> usize {
        self.network + self.transport.map_or(0, |transport| transport.len)
    }

    /// Whether the packet is IPv6.
    pub fn is_v6(&self) -> bool {
        self.source.is_ipv6()
    }

    /// Offset of the two timestamps of TCP (RFC 7323 section 3.2), which have 8 bytes. Options are
    /// read up to the first that is malformed.
    pub fn timestamps_at(&self, packet: &[u8]) -> Option<usize> {
        let transport = self.transport.filter(|_| self.protocol == TCP)?;
        let mut at = self.network + 20;
        let end = self.network + transport.len;
        while at < end {
            match *packet.get(at..end)? {
                [OPTIONS_END, ..] => return None,
                [NO_OPERATION, ..] => at += 1,
                [TIMESTAMPS, 10, ..] => return (at + 10 <= end).then_some(at + 2),
                [_, len, ..] if len >= 2 => at += usize::from(len),
                _ => return None,
            }
        }
        None
    }

    /// Offset of the transport checksum in the packet.
    pub fn checksum_at(&self) -> Option<usize> {
        self.transport.map(|_| self.network + if self.protocol == TCP { 16 } else { 6 })
    }
}

fn transport(rest: &[u8], protocol: u8, is_fragment: bool) -> Option<TransportHeader> {
    if is_fragment {
        return None;
    }
    let len = match protocol {
        TCP => usize::from(rest.get(12)? >> 4) * 4,
        UDP => 8,
        _ => return None,
    };
    let least = if protocol == TCP { 20 } else { 8 };
    if len < least || len > rest.len() {
        return None;
    }
    let &[s0, s1, d0, d1] = rest.first_chunk()?;
    Some(TransportHeader {
        source: u16::from_be_bytes([s0, s1]),
        destination: u16::from_be_bytes([d0, d1]),
        len,
    })
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use proptest::prelude::*;

    pub(crate) fn v4(protocol: u8, fragment: u16, rest: &[u8]) -> Vec<u8> {
        let mut packet =
            vec![0x45, 0, 0, 0, 0, 1, 0, 0, 64, protocol, 0, 0, 10, 1, 0, 1, 10, 2, 0, 1];
        packet[6..8].copy_from_slice(&fragment.to_be_bytes());
        packet.extend_from_slice(rest);
        packet
    }

    fn v6(next: u8, rest: &[u8]) -> Vec<u8> {
        let mut packet = vec![0x60, 0, 0, 0, 0, 0, next, 64];
        packet.extend_from_slice(&[0xfd; 16]);
        packet.extend_from_slice(&[0xfe; 16]);
        packet.extend_from_slice(rest);
        packet
    }

    #[test]
    fn headers_of_both_versions() {
        let udp = [0x12, 0x34, 0, 53, 0, 9, 0, 0, 7];
        let headers = Headers::parse(&v4(UDP, 0x4000, &udp)).unwrap();
        assert_eq!((headers.network, headers.total(), headers.checksum_at()), (20, 28, Some(26)));
        assert_eq!(headers.destination, IpAddr::from([10, 2, 0, 1]));
        assert_eq!(headers.transport.map(|t| (t.source, t.destination)), Some((0x1234, 53)));
        // Hop-by-hop options of 8 bytes, destination options of 16.
        let mut rest = vec![60, 0, 0, 0, 0, 0, 0, 0, UDP, 1];
        rest.extend([0; 14]);
        rest.extend(udp);
        let headers = Headers::parse(&v6(0, &rest)).unwrap();
        assert_eq!((headers.network, headers.total(), headers.protocol), (64, 72, UDP));
        assert!(headers.is_v6());
    }

    #[test]
    fn fragments_and_other_protocols_have_no_transport_header() {
        for fragment in [0x2000, 0x0001, 0x2001] {
            let headers = Headers::parse(&v4(UDP, fragment, &[0; 20])).unwrap();
            assert_eq!((headers.transport, headers.total()), (None, 20));
        }
        assert_eq!(Headers::parse(&v4(1, 0, &[8, 0, 0, 0])).unwrap().transport, None);
        let headers = Headers::parse(&v6(44, &[UDP, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 0])).unwrap();
        assert_eq!((headers.protocol, headers.transport), (44, None));
        // A TCP header that claims more than there is, and one that claims less than it must have.
        for offset in [0xf0, 0x40] {
            let mut tcp = [0; 20];
            tcp[12] = offset;
            assert_eq!(Headers::parse(&v4(TCP, 0, &tcp)).unwrap().transport, None);
        }
    }

    #[test]
    fn incomplete_headers_are_errors() {
        assert_eq!(Headers::parse(&[]), Err(HeaderError::Version));
        assert_eq!(Headers::parse(&[0x55; 40]), Err(HeaderError::Version));
        assert_eq!(Headers::parse(&v4(UDP, 0, &[])[..19]), Err(HeaderError::Length));
        let mut long = v4(UDP, 0, &[]);
        long[0] = 0x46;
        assert_eq!(Headers::parse(&long), Err(HeaderError::Length));
        assert_eq!(Headers::parse(&v6(0, &[UDP, 9, 0, 0])), Err(HeaderError::Length));
    }

    #[test]
    fn timestamps_are_found_among_options() {
        let find = |options: &[u8]| {
            let mut tcp = vec![0; 20];
            tcp[12] = (5 + options.len() as u8 / 4) << 4;
            tcp.extend_from_slice(options);
            let packet = v4(TCP, 0, &tcp);
            Headers::parse(&packet).unwrap().timestamps_at(&packet)
        };
        assert_eq!(find(&[1, 1, 8, 10, 0, 0, 0, 0, 0, 0, 0, 0]), Some(44));
        assert_eq!(find(&[5, 4, 0, 0, 8, 10, 0, 0, 0, 0, 0, 0, 0, 0, 1, 1]), Some(46));
        assert_eq!(find(&[0, 1, 8, 10, 0, 0, 0, 0, 0, 0, 0, 0]), None, "after the end");
        assert_eq!(find(&[1, 8, 10, 0]), None, "cut");
        assert_eq!(find(&[5, 1, 8, 10, 0, 0, 0, 0, 0, 0, 0, 0]), None, "a length of 1");
        assert_eq!(find(&[8, 9, 8, 10, 0, 0, 0, 0]), None, "another length");
        assert_eq!(find(&[]), None);
    }

    proptest! {
        #[test]
        fn any_bytes_are_headers_or_an_error(mut packet in proptest::collection::vec(any::<u8>(), 0..120), version in 0u8..3) {
            if let Some(first) = packet.first_mut() {
                *first = match version { 0 => *first, 1 => 0x40 | *first & 0x0f, _ => 0x60 };
            }
            if let Ok(headers) = Headers::parse(&packet) {
                prop_assert!(headers.total() <= packet.len());
                if let Some(at) = headers.checksum_at() {
                    prop_assert!(at + 2 <= headers.total());
                }
                if let Some(at) = headers.timestamps_at(&packet) {
                    prop_assert!(at + 8 <= headers.total());
                }
            }
        }
    }
}
