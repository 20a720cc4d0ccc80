//! Five-tuples.

use crate::Dissected;
use std::net::IpAddr;
use xxhash_rust::xxh3::xxh3_64;

/// The five-tuple of a flow, in the direction of its packets: the two directions of a connection
/// have two keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FlowKey {
    /// Address of the sender.
    pub source: IpAddr,
    /// Address of the receiver.
    pub destination: IpAddr,
    /// Port of the sender.
    pub source_port: u16,
    /// Port of the receiver.
    pub destination_port: u16,
    /// IP protocol number: 6 is TCP, 17 is UDP.
    pub protocol: u8,
}

impl FlowKey {
    /// The key of the opposite direction.
    pub fn reversed(self) -> FlowKey {
        FlowKey {
            source: self.destination,
            destination: self.source,
            source_port: self.destination_port,
            destination_port: self.source_port,
            protocol: self.protocol,
        }
    }

    /// The two addresses, the lower one first: equal for both directions.
    pub fn pair(self) -> (IpAddr, IpAddr) {
        (self.source.min(self.destination), self.source.max(self.destination))
    }

    /// The key of the connection, which is the lower of the keys of its two directions, and which
    /// of the two this is: 0 for the connection's key itself, 1 for the opposite direction.
    pub fn connection(self) -> (FlowKey, usize) {
        let other = self.reversed();
        if self <= other { (self, 0) } else { (other, 1) }
    }

    /// XXH3-64 of the key with a fixed seed: the same on every machine and in every run. IPv4
    /// addresses hash as IPv4-mapped IPv6 addresses. The two directions of a connection have
    /// different hashes. A sender that chooses its addresses and ports can make keys collide.
    pub fn hash64(&self) -> u64 {
        let octets = |address: IpAddr| match address {
            IpAddr::V4(address) => address.to_ipv6_mapped().octets(),
            IpAddr::V6(address) => address.octets(),
        };
        let mut bytes = [0; 37];
        bytes[..16].copy_from_slice(&octets(self.source));
        bytes[16..32].copy_from_slice(&octets(self.destination));
        bytes[32..34].copy_from_slice(&self.source_port.to_be_bytes());
        bytes[34..36].copy_from_slice(&self.destination_port.to_be_bytes());
        bytes[36] = self.protocol;
        xxh3_64(&bytes)
    }
}

impl Dissected<'_> {
    /// The five-tuple of the packet.
    pub fn flow(&self) -> FlowKey {
        let (source_port, destination_port) = self.transport.ports();
        let (source, destination, protocol) = (self.source, self.destination, self.protocol);
        FlowKey { source, destination, source_port, destination_port, protocol }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directions_differ_and_share_a_connection() {
        let flow = FlowKey {
            source: "10.0.0.2".parse().unwrap(),
            destination: "10.0.0.1".parse().unwrap(),
            source_port: 1000,
            destination_port: 80,
            protocol: 6,
        };
        let back = flow.reversed();
        assert_eq!(back.reversed(), flow);
        assert_eq!((flow.connection(), back.connection()), ((back, 1), (back, 0)));
        assert_eq!(flow.pair(), back.pair());
        assert_ne!(flow.hash64(), back.hash64());
        assert_eq!(flow.hash64(), 0x2e3c_8a63_aa27_3979, "figures that hash flows must repeat");
    }
}
