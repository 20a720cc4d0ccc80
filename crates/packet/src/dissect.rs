//! From a record to the payload of its innermost TCP segment or UDP datagram.

use std::{fmt, net::IpAddr, time::Duration};

use crate::{
    Layer, Layers, LinkType, Nanos, Record,
    cursor::Cursor,
    fragment::{Fragments, Whole},
    walk::{End, Next, State, Walk},
};

/// What one packet is, down to its innermost TCP or UDP payload.
///
/// `headers + payload.len() + missing + trailer == wire_len`, always.
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
    /// What the TCP or UDP header says.
    pub transport: Transport,
    /// The captured payload of the TCP segment or UDP datagram; of a fragmented datagram the whole, without a gap.
    pub payload: &'a [u8],
    /// Payload bytes that were on the wire behind [`payload`](Self::payload), but were not captured. In a fragmented datagram
    /// whose fragments were not captured whole, all payload behind the first such gap.
    pub missing: u32,
    /// Bytes on the wire in front of the payload: all headers, of all fragments, and what came twice in overlapping fragments.
    pub headers: u32,
    /// Bytes on the wire behind the payload: padding, frame check sequences, trailers of encapsulations.
    pub trailer: u32,
    /// Bytes on the wire of this packet and of its [earlier fragments](Self::fragments).
    pub wire_len: u64,
    /// How many earlier records, each answered with [`Unused::FragmentHeld`], this packet was completed from. 0 for whole
    /// packets.
    pub fragments: u32,
    /// The headers that were crossed.
    pub layers: Layers,
}

/// The fields of a transport header that a flow is made of.
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
        /// Acknowledgement number; meaningless without [`Transport::ACK`].
        ack: u32,
        /// CWR, ECE, URG, ACK, PSH, RST, SYN, FIN from the highest bit to the lowest.
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

    /// (source port, destination port)
    pub fn ports(&self) -> (u16, u16) {
        match *self {
            Self::Tcp { source_port, destination_port, .. } | Self::Udp { source_port, destination_port, .. } => {
                (source_port, destination_port)
            }
        }
    }
}

/// Why a packet has no TCP or UDP payload for us.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Unused {
    /// The capture's link type is none of [`LinkType::SUPPORTED`], or none that Per-Packet Information may name.
    UnsupportedLink(LinkType),
    /// Too few bytes were captured to see this header.
    Truncated(Layer),
    /// This header contradicts itself, or what is around it: a length that does not fit, a version that it cannot have.
    Malformed(Layer),
    /// Not IP: the EtherType, or in its place the PPP protocol, LLC SAPs (destination, source), address family, or 802.11 frame
    /// control.
    NotIp(u16),
    /// IP that carries neither TCP nor UDP: the protocol number of the innermost IP header (1 ICMP, 58 ICMPv6, 132 SCTP, ...).
    OtherProtocol(u8),
    /// Its content is encrypted.
    Encrypted(Cipher),
    /// A fragment, kept until its datagram is whole. It is then part of what the last fragment's record is answered with.
    FragmentHeld,
    /// A fragment whose datagram cannot become whole: it overlaps another (IPv6), contradicts another, exceeds the [`Limits`], or
    /// is a fragment of an 802.11 frame.
    FragmentLost,
    /// Several packets in one frame, of which each would be one: an 802.11 A-MSDU.
    Aggregate,
    /// The capturing radio said that the frame check sequence was wrong.
    BadFrameCheck,
    /// More than [`MAX_LAYERS`](crate::MAX_LAYERS) headers.
    TooDeep,
}

/// What encrypts the content of [`Unused::Encrypted`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Cipher {
    /// IPsec ESP (RFC 4303). It may be the null cipher; one cannot see that from outside.
    Esp,
    /// A protected frame of IEEE 802.11.
    Ieee80211,
    /// IEEE 802.1AE.
    MacSec,
    /// PPP Encryption Control Protocol (RFC 1968).
    Ppp,
}

impl fmt::Display for Unused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::UnsupportedLink(link) => write!(f, "unsupported {link}"),
            Self::Truncated(layer) => write!(f, "captured too little for {layer}"),
            Self::Malformed(layer) => write!(f, "malformed {layer}"),
            Self::NotIp(number) => write!(f, "not IP ({number:#06x})"),
            Self::OtherProtocol(number) => write!(f, "IP protocol {number}"),
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

/// Bounds on what a [`Dissector`] keeps: fragments of datagrams that are not whole yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Most bytes of fragments, with the memory to manage them. The oldest datagrams are given up beyond. Default 16 MiB, four
    /// times what Linux grants (`ipfrag_high_thresh`), as a capture point sees more than one host. 0 keeps no fragments.
    pub fragment_bytes: usize,
    /// Most incomplete datagrams. Default 4,096.
    pub fragment_datagrams: usize,
    /// How long after its first fragment, in packet time, an incomplete datagram is given up. Default 60 s, as RFC 8200 section
    /// 4.5.
    pub fragment_age: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self { fragment_bytes: 16 << 20, fragment_datagrams: 4096, fragment_age: Duration::from_secs(60) }
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

/// Where all records and all their bytes on the wire went.
///
/// At any time `total == used + held + unused()`, and after [`Dissector::finish`] `held` is zero. A held fragment is counted in
/// `held`; when its datagram is whole it moves to what the datagram turned out to be, when it is given up it moves to
/// `fragment_lost`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Every record that was given to the dissector.
    pub total: Tally,
    /// Those that were [`Dissected`], with their earlier fragments: `bytes` is the sum of [`Dissected::wire_len`].
    pub used: Tally,
    /// Fragments that wait for others.
    pub held: Tally,
    /// [`Unused::UnsupportedLink`].
    pub unsupported_link: Tally,
    /// [`Unused::Truncated`].
    pub truncated: Tally,
    /// [`Unused::Malformed`].
    pub malformed: Tally,
    /// [`Unused::NotIp`].
    pub not_ip: Tally,
    /// [`Unused::OtherProtocol`].
    pub other_protocol: Tally,
    /// [`Unused::Encrypted`].
    pub encrypted: Tally,
    /// [`Unused::FragmentLost`], and fragments that were held in vain.
    pub fragment_lost: Tally,
    /// [`Unused::Aggregate`].
    pub aggregate: Tally,
    /// [`Unused::BadFrameCheck`].
    pub bad_frame_check: Tally,
    /// [`Unused::TooDeep`].
    pub too_deep: Tally,
    /// Datagrams that were made whole from fragments.
    pub reassembled: u64,
}

impl Counters {
    /// The sum of all kinds of [`Unused`] but the held fragments.
    pub fn unused(&self) -> Tally {
        let mut sum = Tally::default();
        for (_, tally) in self.by_reason() {
            sum += tally;
        }
        sum
    }

    fn of(&mut self, why: Unused) -> &mut Tally {
        match why {
            Unused::UnsupportedLink(_) => &mut self.unsupported_link,
            Unused::Truncated(_) => &mut self.truncated,
            Unused::Malformed(_) => &mut self.malformed,
            Unused::NotIp(_) => &mut self.not_ip,
            Unused::OtherProtocol(_) => &mut self.other_protocol,
            Unused::Encrypted(_) => &mut self.encrypted,
            Unused::FragmentHeld => &mut self.held,
            Unused::FragmentLost => &mut self.fragment_lost,
            Unused::Aggregate => &mut self.aggregate,
            Unused::BadFrameCheck => &mut self.bad_frame_check,
            Unused::TooDeep => &mut self.too_deep,
        }
    }

    /// The kinds of [`Unused`] but the held fragments, with short names for a table.
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

/// Takes packets apart. It has a state only because of IP fragments.
///
/// Fragments belong together when source, destination and identification are the same, and in IPv4 the protocol (RFC 791, RFC
/// 8200); tags and tunnels around them are not looked at. Of overlapping IPv4 fragments the bytes that came first are taken;
/// overlapping IPv6 fragments make their datagram void (RFC 5722), but exact duplicates do not. A duplicate that comes after its
/// datagram was whole waits for others like any fragment, and is lost in the end.
///
/// A length field that claims more than was on the wire is [`Malformed`](Unused::Malformed), as it is to a receiver; one that
/// claims less makes the rest a [trailer](Dissected::trailer). An IPv4 total length, IPv6 payload length or UDP length of 0 means
/// "to the end": packets have it that a network card was to cut in segments.
#[derive(Debug)]
pub struct Dissector {
    fragments: Fragments,
    /// The last datagram that was made whole, for its payload to be borrowed from.
    whole: Vec<u8>,
    counters: Counters,
}

impl Dissector {
    /// A dissector that keeps at most `limits` of fragments.
    pub fn new(limits: Limits) -> Self {
        Self { fragments: Fragments::new(limits), whole: Vec::new(), counters: Counters::default() }
    }

    /// Takes one packet apart. Records are to come in the order of the capture; their times need not be in order.
    ///
    /// # Errors
    /// [`Unused`] says why the packet has no TCP or UDP payload.
    pub fn dissect<'a>(&'a mut self, record: &Record<'a>) -> Result<Dissected<'a>, Unused> {
        let wire = record.wire_bytes();
        let data = record.data.get(..wire as usize).unwrap_or(record.data);
        let own = Tally { packets: 1, bytes: u64::from(wire) };
        self.counters.total += own;
        let mut walk = Walk { state: State::new(), fragments: &mut self.fragments, now: record.time, tally: own };
        match walk.run(Cursor::new(data, wire, 0), Next::Link(record.link)) {
            Ok(End::Payload(cursor, transport)) => {
                self.counters.used += own;
                Ok(dissected(&walk.state, &cursor, transport, own, cursor.data))
            }
            Ok(End::Whole(whole)) => {
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

    /// Goes on in a datagram that was made whole.
    #[cold]
    fn dissect_whole(&mut self, mut state: State, mut whole: Whole, now: Nanos, own: Tally) -> Result<Dissected<'_>, Unused> {
        let (outcome, tally) = loop {
            self.counters.reassembled += 1;
            self.whole = whole.data;
            let tally = whole.tally;
            let mut walk = Walk { state, fragments: &mut self.fragments, now, tally };
            let result = walk.run(Cursor::new(&self.whole, whole.wire, whole.trailer), Next::Protocol(whole.protocol));
            state = walk.state;
            match result {
                Ok(End::Payload(cursor, transport)) => {
                    let range = cursor.position..cursor.position + cursor.data.len();
                    // The same place, no longer as a part of `self`.
                    break (Ok((Cursor { data: &[], ..cursor }, transport, range)), tally);
                }
                // A datagram whose fragments were inside fragments of another.
                Ok(End::Whole(outer)) => whole = *outer,
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
            Err(Unused::FragmentHeld) => {
                self.counters.held += own;
                Err(Unused::FragmentHeld)
            }
            Err(why) => {
                self.counters.held -= earlier;
                *self.counters.of(why) += tally;
                Err(why)
            }
        }
    }

    /// Where the packets and bytes so far went.
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// Gives up the fragments that are still held, and says where all packets and bytes went. The dissector can go on.
    pub fn finish(&mut self) -> &Counters {
        self.fragments.clear();
        self.settle();
        &self.counters
    }

    /// Moves fragments that were given up to where they belong.
    fn settle(&mut self) {
        let given_up = self.fragments.take_given_up();
        self.counters.held -= given_up;
        self.counters.fragment_lost += given_up;
    }
}

#[inline]
fn dissected<'a>(state: &State, c: &Cursor<'_>, transport: Transport, tally: Tally, payload: &'a [u8]) -> Dissected<'a> {
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
        // One record's length is a u32, and fragments are given up beyond that.
        headers: (tally.bytes - u64::from(c.wire) - u64::from(c.trailer)) as u32,
        trailer: c.trailer,
        wire_len: tally.bytes,
        fragments: (tally.packets - 1) as u32,
        layers: state.layers,
    }
}
