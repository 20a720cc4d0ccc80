//! A packet in the emulated network.

use std::{net::IpAddr, sync::Arc};

/// A packet: when and where it enters, the header fields that no router changes, and its payload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Packet {
    /// When it enters, in nanoseconds from the beginning of the run.
    pub time: u64,
    /// Its path: an index of [`crate::Instance::paths`].
    pub path: u32,
    /// Fields of its headers.
    pub header: Header,
    /// Header bytes on the wire.
    pub header_bytes: u32,
    /// Transport payload, shared by the ingress, the nodes' caches and the check at the egress.
    pub payload: Arc<[u8]>,
}

/// Header fields that stay the same along a path, from which nodes compute a packet's hash (thesis,
/// section 3.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Header {
    /// Source address.
    pub source: IpAddr,
    /// Destination address.
    pub destination: IpAddr,
    /// Source port.
    pub source_port: u16,
    /// Destination port.
    pub destination_port: u16,
    /// IP protocol of the transport.
    pub protocol: u8,
    /// IPv4 identification; `None` in IPv6.
    pub identification: Option<u16>,
    /// Fields of the transport header that distinguish packets where the identification does not.
    pub transport: Fields,
}

/// Fields of a transport header that stay the same along a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Fields {
    /// RFC 9293.
    Tcp {
        /// Sequence number.
        sequence: u32,
        /// Acknowledgment number.
        acknowledgment: u32,
        /// Checksum. A header field like the others: nodes forward it unchanged even if the payload
        /// is encoded.
        checksum: u16,
    },
    /// RFC 768.
    Udp {
        /// Length field.
        length: u16,
        /// Checksum; 0 if there is none.
        checksum: u16,
    },
    /// Nothing.
    None,
}
