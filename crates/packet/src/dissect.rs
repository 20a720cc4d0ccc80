//! Dissects a record down to the payload of its innermost TCP segment or UDP datagram.

use std::{fmt, net::IpAddr, time::Duration};

use crate::{
    Layer, Layers, LinkType, Nanos, Record,
    cursor::Cursor,
    fragment::{Fragments, Whole},
    walk::{Next, Walk, WalkEnd, WalkState},
};

/// A packet, down to its innermost TCP or UDP payload.
///
/// `headers + payload.len() + missing + trailer` always equals `wire_len`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dissected<'a> {
    /// Source address of the innermost IP header.
    pub source: IpAddr,
    /// Destination address of the innermost IP header.
    pub destination: IpAddr,
    /// IP protocol of the transport: 6 (TCP) or 17 (UDP).
    pub protocol: u8,
    /// Time to live (IPv4) or hop limit (IPv6) of the innermost IP header.
    pub ttl: u8,
    /// Differentiated services code point (RFC 2474) of the innermost IP header.
    pub dscp: u8,
    /// Identification (RFC 791 section 3.1, RFC 6864) of the innermost IP header, if that is IPv4.
    pub identification: Option<u16>,
    /// Fields of the TCP or UDP header.
    pub transport: Transport,
    /// The captured payload of the TCP segment or UDP datagram. For a fragmented datagram, the
    /// payload up to the first gap.
    pub payload: &'a [u8],
    /// Payload bytes on the wire after [`payload`](Self::payload) that were not captured. In a
    /// fragmented datagram whose fragments were truncated, all payload after the first such gap.
    pub missing: u32,
    /// Bytes on the wire before the payload: all headers of all fragments, and bytes repeated in
    /// overlapping fragments.
    pub headers: u32,
    /// Bytes on the wire after the payload: padding, frame check sequences, trailers of
    /// encapsulations.
    pub trailer: u32,
    /// Bytes on the wire of this packet and of its [earlier fragments](Self::fragments).
    pub wire_len: u64,
    /// Number of earlier records, each returned as [`Skipped::FragmentHeld`], that this packet was
    /// completed from. 0 for whole packets.
    pub fragments: u32,
    /// The headers of the packet.
    pub layers: Layers,
}

/// Fields of a transport header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transport {
    /// RFC 9293.
    Tcp {
        /// Source port.
        source_port: u16,
        /// Destination port.
        destination_port: u16,
        /// Sequence number of the first payload byte (of SYN, if set).
        seq: u32,
        /// Acknowledgment number; meaningless without [`Transport::ACK`].
        ack: u32,
        /// CWR, ECE, URG, ACK, PSH, RST, SYN, FIN, from the highest bit to the lowest.
        flags: u8,
        /// Window, not scaled.
        window: u16,
        /// Checksum as sent, not verified.
        checksum: u16,
    },
    /// RFC 768.
    Udp {
        /// Source port.
        source_port: u16,
        /// Destination port.
        destination_port: u16,
        /// Length field: header and payload in bytes, or 0 where the datagram ends with the packet.
        length: u16,
        /// Checksum as sent, not verified; 0 is none.
        checksum: u16,
    },
}

impl Transport {
    /// TCP flag FIN.
    pub const FIN: u8 = 0x01;
    /// TCP flag SYN.
    pub const SYN: u8 = 0x02;
    /// TCP flag RST.
    pub const RST: u8 = 0x04;
    /// TCP flag PSH.
    pub const PSH: u8 = 0x08;
    /// TCP flag ACK.
    pub const ACK: u8 = 0x10;

    /// Source port and destination port.
    pub fn ports(&self) -> (u16, u16) {
        match *self {
            Self::Tcp { source_port, destination_port, .. }
            | Self::Udp { source_port, destination_port, .. } => (source_port, destination_port),
        }
    }
}

/// Why a packet was skipped: it has no readable TCP or UDP payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Skipped {
    /// The link type is not in [`LinkType::SUPPORTED`], or cannot appear in Per-Packet Information.
    UnsupportedLink(LinkType),
    /// The capture does not include all of this header.
    Truncated(Layer),
    /// This header is invalid, has an impossible version, or its length does not fit.
    Malformed(Layer),
    /// Not IP: the EtherType, or instead the PPP protocol, LLC SAPs (destination, source), address
    /// family, or 802.11 frame control.
    NotIp(u16),
    /// IP that carries neither TCP nor UDP: the protocol number of the innermost IP header (1 ICMP,
    /// 58 ICMPv6, 132 SCTP, ...).
    OtherProtocol(u8),
    /// The content is encrypted.
    Encrypted(Cipher),
    /// A fragment, held until its datagram is complete. Its bytes are then part of the result of
    /// the last fragment's record.
    FragmentHeld,
    /// A fragment whose datagram cannot be completed: it overlaps another (IPv6), contradicts
    /// another, exceeds the [`Limits`], or is a fragment of an 802.11 frame.
    FragmentLost,
    /// Several packets in one frame: an 802.11 A-MSDU.
    Aggregate,
    /// The capturing radio reported a wrong frame check sequence.
    BadFrameCheck,
    /// More than [`MAX_LAYERS`](crate::MAX_LAYERS) headers.
    TooDeep,
}

/// The encryption of [`Skipped::Encrypted`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Cipher {
    /// IPsec ESP (RFC 4303). The null cipher is possible, but cannot be recognized from outside.
    Esp,
    /// A protected frame of IEEE 802.11.
    Ieee80211,
    /// IEEE 802.1AE.
    MacSec,
    /// PPP Encryption Control Protocol (RFC 1968).
    Ppp,
}

impl fmt::Display for Skipped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::UnsupportedLink(link) => write!(f, "unsupported {link}"),
            Self::Truncated(layer) => write!(f, "captured too little for {layer}"),
            Self::Malformed(layer) => write!(f, "malformed {layer}"),
            Self::NotIp(number) => match ether_type(*number) {
                Some(name) => write!(f, "{name} (not IP, {number:#06x})"),
                None => write!(f, "not IP ({number:#06x})"),
            },
            Self::OtherProtocol(number) => match ip_protocol(*number) {
                Some(name) => write!(f, "{name} (IP protocol {number})"),
                None => write!(f, "IP protocol {number}"),
            },
            Self::Encrypted(Cipher::Esp) => f.write_str("encrypted (ESP)"),
            Self::Encrypted(Cipher::Ieee80211) => f.write_str("encrypted (802.11)"),
            Self::Encrypted(Cipher::MacSec) => f.write_str("encrypted (MACsec)"),
            Self::Encrypted(Cipher::Ppp) => f.write_str("encrypted (PPP)"),
            Self::FragmentHeld => f.write_str("fragment held"),
            Self::FragmentLost => f.write_str("fragment of an incomplete datagram"),
            Self::Aggregate => f.write_str("several packets in one frame"),
            Self::BadFrameCheck => f.write_str("bad frame check sequence"),
            Self::TooDeep => f.write_str("too many headers"),
        }
    }
}

/// Names of EtherTypes, and of what stands in their place, that networks are full of (IANA, "IEEE 802
/// Numbers").
fn ether_type(number: u16) -> Option<&'static str> {
    Some(match number {
        0x0806 => "ARP",
        0x8035 => "RARP",
        0x8137 => "IPX",
        0x8808 => "Ethernet flow control",
        0x8809 => "LACP",
        0x8863 => "PPPoE discovery",
        0x888e => "EAPOL",
        0x8892 => "PROFINET",
        0x88a4 => "EtherCAT",
        0x88b8 => "GOOSE",
        0x88cc => "LLDP",
        0x88f7 => "PTP",
        0x8902 => "CFM",
        0x8906 => "FCoE",
        0x9000 => "loopback test",
        // SAPs of LLC.
        0x4242 => "spanning tree",
        0xfefe => "IS-IS",
        0xf0f0 => "NetBIOS",
        // Protocols of PPP.
        0xc021 => "PPP LCP",
        0x8021 => "PPP IPCP",
        _ => return None,
    })
}

/// Names of IP protocols (IANA, "Protocol Numbers").
fn ip_protocol(number: u8) -> Option<&'static str> {
    Some(match number {
        1 => "ICMP",
        2 => "IGMP",
        33 => "DCCP",
        46 => "RSVP",
        47 => "GRE acknowledgment",
        58 => "ICMPv6",
        59 => "no next header",
        88 => "EIGRP",
        89 => "OSPF",
        103 => "PIM",
        112 => "VRRP",
        115 => "L2TPv3",
        132 => "SCTP",
        136 => "UDP-Lite",
        _ => return None,
    })
}

/// Limits on the fragments of incomplete datagrams that a [`Dissector`] holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Most bytes of fragments, bookkeeping included. Beyond this limit the oldest datagrams are
    /// dropped. Default 16 MiB, four times the limit of Linux (`ipfrag_high_thresh`), as a capture
    /// point sees more than one host. 0 holds no fragments.
    pub fragment_bytes: usize,
    /// Most incomplete datagrams. Default 4,096.
    pub fragment_datagrams: usize,
    /// An incomplete datagram is dropped this long after its first fragment, in packet time.
    /// Default 60 s, as in RFC 8200 section 4.5.
    pub fragment_age: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            fragment_bytes: 16 << 20,
            fragment_datagrams: 4096,
            fragment_age: Duration::from_secs(60),
        }
    }
}

/// A number of packets and of their bytes on the wire.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Records of the capture.
    pub packets: u64,
    /// Their bytes on the wire.
    pub bytes: u64,
}

impl std::ops::AddAssign for Tally {
    fn add_assign(&mut self, other: Self) {
        self.packets += other.packets;
        self.bytes += other.bytes;
    }
}

impl std::ops::SubAssign for Tally {
    fn sub_assign(&mut self, other: Self) {
        self.packets -= other.packets;
        self.bytes -= other.bytes;
    }
}

/// Accounts for every record and every byte on the wire.
///
/// At any time `total == used + held + skipped()`, and after [`Dissector::finish`] `held` is zero.
/// A held fragment counts in `held`. When its datagram is complete, it moves to the counter of that
/// datagram; when it is dropped, to `fragment_lost`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// All records given to the dissector.
    pub total: Tally,
    /// Records that became [`Dissected`], with their earlier fragments: `bytes` is the sum of
    /// [`Dissected::wire_len`].
    pub used: Tally,
    /// Fragments of incomplete datagrams.
    pub held: Tally,
    /// [`Skipped::UnsupportedLink`].
    pub unsupported_link: Tally,
    /// [`Skipped::Truncated`].
    pub truncated: Tally,
    /// [`Skipped::Malformed`].
    pub malformed: Tally,
    /// [`Skipped::NotIp`].
    pub not_ip: Tally,
    /// [`Skipped::OtherProtocol`].
    pub other_protocol: Tally,
    /// [`Skipped::Encrypted`].
    pub encrypted: Tally,
    /// [`Skipped::FragmentLost`], and held fragments that were dropped.
    pub fragment_lost: Tally,
    /// [`Skipped::Aggregate`].
    pub aggregate: Tally,
    /// [`Skipped::BadFrameCheck`].
    pub bad_frame_check: Tally,
    /// [`Skipped::TooDeep`].
    pub too_deep: Tally,
    /// Datagrams completed from fragments.
    pub reassembled: u64,
}

impl Counters {
    /// The sum of all kinds of [`Skipped`] except held fragments.
    pub fn skipped(&self) -> Tally {
        let mut sum = Tally::default();
        for (_, tally) in self.by_reason() {
            sum += tally;
        }
        sum
    }

    fn of(&mut self, why: Skipped) -> &mut Tally {
        match why {
            Skipped::UnsupportedLink(_) => &mut self.unsupported_link,
            Skipped::Truncated(_) => &mut self.truncated,
            Skipped::Malformed(_) => &mut self.malformed,
            Skipped::NotIp(_) => &mut self.not_ip,
            Skipped::OtherProtocol(_) => &mut self.other_protocol,
            Skipped::Encrypted(_) => &mut self.encrypted,
            Skipped::FragmentHeld => &mut self.held,
            Skipped::FragmentLost => &mut self.fragment_lost,
            Skipped::Aggregate => &mut self.aggregate,
            Skipped::BadFrameCheck => &mut self.bad_frame_check,
            Skipped::TooDeep => &mut self.too_deep,
        }
    }

    /// The kinds of [`Skipped`] except held fragments, with short names for tables.
    pub fn by_reason(&self) -> [(&'static str, Tally); 10] {
        [
            ("unsupported link type", self.unsupported_link),
            ("captured too little", self.truncated),
            ("malformed", self.malformed),
            ("not IP", self.not_ip),
            ("other IP protocol", self.other_protocol),
            ("encrypted", self.encrypted),
            ("fragment of an incomplete datagram", self.fragment_lost),
            ("several packets in one frame", self.aggregate),
            ("bad frame check sequence", self.bad_frame_check),
            ("too many headers", self.too_deep),
        ]
    }
}

/// Dissects packets. Its only state is held IP fragments.
///
/// Fragments belong together if source, destination, identification and (in IPv4) protocol are
/// equal (RFC 791, RFC 8200); tags and tunnels around them are ignored. If IPv4 fragments overlap,
/// the bytes received first are used. Overlapping IPv6 fragments invalidate their datagram (RFC
/// 5722), but exact duplicates do not. A duplicate that arrives after its datagram was completed is
/// held like any fragment and finally counted as lost.
///
/// A length field larger than the packet on the wire is [`Malformed`](Skipped::Malformed), as it is
/// to a receiver. With a smaller one, the rest is a [trailer](Dissected::trailer). An IPv4 total
/// length, IPv6 payload length or UDP length of 0 means "to the end", as in packets captured before
/// segmentation offload.
#[derive(Debug)]
pub struct Dissector {
    fragments: Fragments,
    /// The last completed datagram, from which its payload is borrowed.
    whole: Vec<u8>,
    counters: Counters,
}

impl Dissector {
    /// A dissector that holds fragments within `limits`.
    pub fn new(limits: Limits) -> Self {
        Self { fragments: Fragments::new(limits), whole: Vec::new(), counters: Counters::default() }
    }

    /// Dissects one packet. Pass records in the order of the capture; their times need not ascend.
    ///
    /// # Errors
    /// [`Skipped`], with the reason why the packet has no TCP or UDP payload.
    pub fn dissect<'a>(&'a mut self, record: &Record<'a>) -> Result<Dissected<'a>, Skipped> {
        let wire = record.wire_bytes();
        let data = record.data.get(..wire as usize).unwrap_or(record.data);
        let own = Tally { packets: 1, bytes: u64::from(wire) };
        self.counters.total += own;
        let mut walk = Walk {
            state: WalkState::new(),
            fragments: &mut self.fragments,
            now: record.time,
            tally: own,
        };
        match walk.run(Cursor::new(data, wire, 0), Next::Link(record.link)) {
            Ok(WalkEnd::Payload(cursor, transport)) => {
                self.counters.used += own;
                Ok(dissected(&walk.state, &cursor, transport, own, cursor.data))
            }
            Ok(WalkEnd::Whole(whole)) => {
                let state = walk.state;
                self.dissect_whole(state, *whole, record.time, own)
            }
            Err(why) => {
                self.settle();
                *self.counters.of(why) += own;
                Err(why)
            }
        }
    }

    /// Continues in a completed datagram.
    #[cold]
    fn dissect_whole(
        &mut self,
        mut state: WalkState,
        mut whole: Whole,
        now: Nanos,
        own: Tally,
    ) -> Result<Dissected<'_>, Skipped> {
        let (outcome, tally) = loop {
            self.counters.reassembled += 1;
            self.whole = whole.data;
            let tally = whole.tally;
            let mut walk = Walk { state, fragments: &mut self.fragments, now, tally };
            let result = walk.run(
                Cursor::new(&self.whole, whole.wire, whole.trailer),
                Next::Protocol(whole.protocol),
            );
            state = walk.state;
            match result {
                Ok(WalkEnd::Payload(cursor, transport)) => {
                    let range = cursor.position..cursor.position + cursor.data.len();
                    // The same datagram, no longer borrowed through `self`.
                    break (Ok((Cursor { data: &[], ..cursor }, transport, range)), tally);
                }
                // The fragments of this datagram were inside fragments of another.
                Ok(WalkEnd::Whole(outer)) => whole = *outer,
                Err(why) => break (Err(why), tally),
            }
        };
        self.settle();
        let mut earlier = tally;
        earlier -= own;
        match outcome {
            Ok((cursor, transport, range)) => {
                self.counters.held -= earlier;
                self.counters.used += tally;
                Ok(dissected(&state, &cursor, transport, tally, &self.whole[range]))
            }
            Err(Skipped::FragmentHeld) => {
                self.counters.held += own;
                Err(Skipped::FragmentHeld)
            }
            Err(why) => {
                self.counters.held -= earlier;
                *self.counters.of(why) += tally;
                Err(why)
            }
        }
    }

    /// The counters so far.
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// Drops the fragments that are still held and returns the final counters. The dissector can be
    /// reused.
    pub fn finish(&mut self) -> &Counters {
        self.fragments.clear();
        self.settle();
        &self.counters
    }

    /// Moves dropped fragments to the `fragment_lost` counter.
    fn settle(&mut self) {
        let given_up = self.fragments.take_given_up();
        self.counters.held -= given_up;
        self.counters.fragment_lost += given_up;
    }
}

#[inline]
fn dissected<'a>(
    state: &WalkState,
    c: &Cursor<'_>,
    transport: Transport,
    tally: Tally,
    payload: &'a [u8],
) -> Dissected<'a> {
    Dissected {
        source: state.source,
        destination: state.destination,
        protocol: if matches!(transport, Transport::Tcp { .. }) { 6 } else { 17 },
        ttl: state.ttl,
        dscp: state.dscp,
        identification: state.identification,
        transport,
        payload,
        missing: c.wire - payload.len() as u32,
        // A record's length is a u32; longer datagrams are dropped as fragments.
        headers: (tally.bytes - u64::from(c.wire) - u64::from(c.trailer)) as u32,
        trailer: c.trailer,
        wire_len: tally.bytes,
        fragments: (tally.packets - 1) as u32,
        layers: state.layers,
    }
}
