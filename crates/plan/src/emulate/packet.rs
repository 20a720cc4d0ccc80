//! A packet as the emulated network sees it.

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
    /// Bytes on the wire in front of the payload.
    pub header_bytes: u32,
    /// Transport payload. Shared: a packet is held by its ingress, by nodes' caches and by the check at the egress at once.
    pub payload: Arc<[u8]>,
}

/// Header fields that stay the same along a path, from which nodes compute a packet's hash (thesis, section 3.2).
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
    /// IPv4 identification; none in IPv6.
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
        /// Acknowledgement number.
        acknowledgement: u32,
        /// Checksum. A field of the header like others: nodes carry it unchanged, whatever becomes of the payload on the way.
        checksum: u16,
    },
    /// RFC 768.
    Udp {
        /// Length field.
        length: u16,
        /// Checksum; 0 is none.
        checksum: u16,
    },
    /// Nothing.
    None,
}
