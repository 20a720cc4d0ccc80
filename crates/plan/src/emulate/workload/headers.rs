//! Headers of synthetic packets: hosts behind nodes, flows between them.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use oncewire_kernels::random::Xoshiro;

use crate::{
    NodeId, Path,
    emulate::{Fields, Header},
};

/// How hosts fill the IPv4 identification.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Identification {
    /// Each host counts its packets, from a random number on: the same number comes again after
    /// 65,536 of them.
    #[default]
    Counter,
    /// Random.
    Random,
    /// Always the same: RFC 6864 allows it where packets are not fragmented.
    Constant(u16),
}

/// Which headers synthetic packets have.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Headers {
    /// Hosts behind each node, 1 to 254.
    pub hosts: u32,
    /// Flows that a path carries at a time, 1 to 1,024.
    pub flows: u32,
    /// Mean packets of a flow, at least 1.
    pub flow_packets: f64,
    /// Share of the flows that are IPv6.
    pub ipv6: f64,
    /// Share of the flows that are UDP; the others are TCP.
    pub udp: f64,
    /// How IPv4 packets are numbered.
    pub identification: Identification,
}

impl Default for Headers {
    fn default() -> Self {
        Self {
            hosts: 64,
            flows: 4,
            flow_packets: 20.0,
            ipv6: 0.3,
            udp: 0.2,
            identification: Identification::Counter,
        }
    }
}

/// Most nodes that [`address`] can distinguish.
pub const MAX_NODES: usize = 1 << 16;

/// Address of a host behind a node: 10.x.y.h of 10.x.y.0/24, or fd00:0:0:n::h of fd00:0:0:n::/64,
/// where x, y and n are the node's number.
pub fn address(node: NodeId, host: u8, ipv6: bool) -> IpAddr {
    let node = node.0 as u16;
    if ipv6 {
        Ipv6Addr::new(0xfd00, 0, 0, node, 0, 0, 0, u16::from(host)).into()
    } else {
        let [high, low] = node.to_be_bytes();
        Ipv4Addr::new(10, high, low, host).into()
    }
}

/// The node of an address from [`address`].
pub fn node(address: IpAddr) -> Option<NodeId> {
    match address {
        IpAddr::V4(address) => match address.octets() {
            [10, high, low, _] => Some(NodeId(u16::from_be_bytes([high, low]).into())),
            _ => None,
        },
        IpAddr::V6(address) => match address.segments() {
            [0xfd00, 0, 0, node, 0, 0, 0, _] => Some(NodeId(node.into())),
            _ => None,
        },
    }
}

/// A flow between two hosts. Its packets are made in order.
#[derive(Clone, Debug)]
pub(super) struct Flow {
    header: Header,
    /// Index of the source host's counter.
    host: usize,
}

impl Flow {
    pub(super) fn new(
        settings: &Headers,
        ingress: NodeId,
        path: &Path,
        random: &mut Xoshiro,
    ) -> Self {
        let host = random.below(settings.hosts as usize);
        let peer = random.below(settings.hosts as usize);
        let (ipv6, udp) = (random.chance(settings.ipv6), random.chance(settings.udp));
        let bits = random.next_u64();
        let transport = if udp {
            Fields::Udp { length: 0, checksum: 0 }
        } else {
            Fields::Tcp { sequence: bits as u32, acknowledgment: (bits >> 32) as u32, checksum: 0 }
        };
        let ports = random.next_u64();
        Self {
            header: Header {
                source: address(ingress, host as u8 + 1, ipv6),
                destination: address(path.egress, peer as u8 + 1, ipv6),
                // A service answers: few source ports, ephemeral destination ports (RFC 6335).
                source_port: if ports & 3 == 0 { 80 } else { 443 },
                destination_port: 0xc000 | (ports >> 16) as u16,
                protocol: if udp { 17 } else { 6 },
                identification: (!ipv6).then_some(0),
                transport,
            },
            host: ingress.index() * settings.hosts as usize + host,
        }
    }

    /// Bytes of IP and transport header.
    pub(super) fn header_bytes(&self) -> u32 {
        (if self.header.source.is_ipv4() { 20 } else { 40 })
            + (if self.header.protocol == 17 { 8 } else { 20 })
    }

    /// The header of its next packet.
    pub(super) fn next(
        &mut self,
        payload: &[u8],
        how: Identification,
        counters: &mut [u16],
        random: &mut Xoshiro,
    ) -> Header {
        let mut header = self.header;
        header.identification =
            header.identification.map(|_| how.number(&mut counters[self.host], random));
        if let Fields::Udp { length, .. } = &mut header.transport {
            *length = payload.len() as u16 + 8;
        }
        let sum = checksum(&header, payload);
        match &mut header.transport {
            Fields::Tcp { checksum, .. } => *checksum = sum,
            // RFC 768: 0 would mean that there is none.
            Fields::Udp { checksum, .. } => *checksum = if sum == 0 { 0xffff } else { sum },
            Fields::None => {}
        }
        if let Fields::Tcp { sequence, .. } = &mut self.header.transport {
            *sequence = sequence.wrapping_add(payload.len() as u32);
        }
        header
    }
}

/// Index of the source host's counter.
pub(super) fn host(header: &Header, hosts: u32) -> usize {
    let host = match header.source {
        IpAddr::V4(address) => address.octets()[3],
        IpAddr::V6(address) => address.octets()[15],
    };
    node(header.source).unwrap_or_default().index() * hosts as usize + usize::from(host) - 1
}

impl Identification {
    /// The number of a host's next packet.
    pub(super) fn number(self, counter: &mut u16, random: &mut Xoshiro) -> u16 {
        match self {
            Self::Counter => {
                *counter = counter.wrapping_add(1);
                *counter
            }
            Self::Random => random.next_u64() as u16,
            Self::Constant(number) => number,
        }
    }
}

/// The Internet checksum (RFC 1071) over pseudo-header, transport header with a checksum of 0, and
/// payload, as hosts compute it; flags and window of a TCP header, which a [`Header`] lacks, count
/// as 0.
fn checksum(header: &Header, payload: &[u8]) -> u16 {
    let mut sum = 0u64;
    match (header.source, header.destination) {
        (IpAddr::V4(from), IpAddr::V4(to)) => sum += words(&from.octets()) + words(&to.octets()),
        (IpAddr::V6(from), IpAddr::V6(to)) => sum += words(&from.octets()) + words(&to.octets()),
        _ => {}
    }
    sum += u64::from(header.protocol)
        + u64::from(header.source_port)
        + u64::from(header.destination_port);
    match header.transport {
        Fields::Tcp { sequence, acknowledgment, .. } => {
            sum += 20
                + payload.len() as u64
                + words(&sequence.to_be_bytes())
                + words(&acknowledgment.to_be_bytes());
            // Data offset 5, no flags.
            sum += 0x5000;
        }
        Fields::Udp { length, .. } => sum += 2 * u64::from(length),
        Fields::None => {}
    }
    sum += words(payload);
    while sum >> 16 != 0 {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}

/// Sum of big-endian 16-bit words, the last filled up with a zero.
fn words(bytes: &[u8]) -> u64 {
    let (pairs, rest) = bytes.as_chunks::<2>();
    pairs.iter().map(|&pair| u64::from(u16::from_be_bytes(pair))).sum::<u64>()
        + rest.first().map_or(0, |&last| u64::from(last) << 8)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn sums_are_those_of_the_rfc() {
        // RFC 1071, section 3.
        let sum = words(&[0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7]);
        assert_eq!(sum, 0x2_ddf0);
    }

    #[test]
    fn addresses_tell_their_node() {
        for number in [0, 1, 255, 256, 65_535].map(NodeId) {
            for ipv6 in [false, true] {
                assert_eq!(node(address(number, 7, ipv6)), Some(number));
            }
        }
        assert_eq!(address(NodeId(258), 3, false).to_string(), "10.1.2.3");
        assert_eq!(address(NodeId(258), 3, true).to_string(), "fd00:0:0:102::3");
        assert_eq!(
            (node("11.0.0.1".parse().unwrap()), node("fd01::1".parse().unwrap())),
            (None, None)
        );
    }

    proptest! {
        /// As the receiver checks it: all words and the checksum add up to ones.
        #[test]
        fn checksums_are_right(payload in proptest::collection::vec(any::<u8>(), 0..200), ipv6: bool, udp: bool, seed: u64) {
            let settings = Headers { ipv6: f64::from(u8::from(ipv6)), udp: f64::from(u8::from(udp)), ..Headers::default() };
            let path = Path {
                ingress: 0, egress: NodeId(1), pop: 1, volume: 1.0, pop_volume: 1.0, alone_in_pop: true, links: [].into(), length: 0, hops: [].into(),
            };
            let mut random = Xoshiro::new(seed, 0);
            let mut flow = Flow::new(&settings, NodeId(0), &path, &mut random);
            let mut counters = vec![0; 128];
            for _ in 0..2 {
                let header = flow.next(&payload, settings.identification, &mut counters, &mut random);
                let mut bytes = Vec::new();
                for address in [header.source, header.destination] {
                    match address {
                        IpAddr::V4(address) => bytes.extend(address.octets()),
                        IpAddr::V6(address) => bytes.extend(address.octets()),
                    }
                }
                bytes.extend([0, header.protocol]);
                bytes.extend((payload.len() as u16 + if udp { 8 } else { 20 }).to_be_bytes());
                bytes.extend(header.source_port.to_be_bytes());
                bytes.extend(header.destination_port.to_be_bytes());
                match header.transport {
                    Fields::Tcp { sequence, acknowledgment, checksum } => {
                        bytes.extend(sequence.to_be_bytes());
                        bytes.extend(acknowledgment.to_be_bytes());
                        bytes.extend([0x50, 0, 0, 0]);
                        bytes.extend(checksum.to_be_bytes());
                        bytes.extend([0, 0]);
                    }
                    Fields::Udp { length, checksum } => {
                        bytes.extend(length.to_be_bytes());
                        bytes.extend(checksum.to_be_bytes());
                    }
                    Fields::None => unreachable!(),
                }
                bytes.extend(&payload);
                if bytes.len() % 2 == 1 {
                    bytes.push(0);
                }
                let mut sum = 0u32;
                for pair in bytes.chunks(2) {
                    sum += u32::from(pair[0]) << 8 | u32::from(pair[1]);
                    sum = (sum & 0xffff) + (sum >> 16);
                }
                prop_assert_eq!(sum, 0xffff);
            }
        }
    }
}
