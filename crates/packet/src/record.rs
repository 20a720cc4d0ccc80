use std::fmt;

/// Nanoseconds since the Unix epoch. Covers the years 1677 to 2262.
pub type Nanos = i64;

/// The link layer of a record: a LINKTYPE_ number of <https://www.tcpdump.org/linktypes.html>.
///
/// The numbers that some systems use for `DLT_RAW` in files (12 and 14) are supported.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct LinkType(pub u16);

macro_rules! link_types {
    ($($(#[$doc:meta])* $id:ident = $number:literal, $name:literal;)*) => {
        impl LinkType {
            $($(#[$doc])* pub const $id: Self = Self($number);)*

            /// The name of tcpdump.org without its prefix, if this crate knows the link type.
            pub fn name(self) -> Option<&'static str> {
                match self.0 { $($number => Some($name),)* _ => None }
            }

            /// The link types that [`Dissector`](crate::Dissector) reads.
            pub const SUPPORTED: &'static [Self] = &[$(Self($number)),*];
        }
    };
}

link_types! {
    /// BSD loopback: a protocol family in the byte order of the capturing host.
    NULL = 0, "NULL";
    /// IEEE 802.3 Ethernet.
    ETHERNET = 1, "ETHERNET";
    /// PPP, with or without HDLC-like framing.
    PPP = 9, "PPP";
    /// Raw IP, as most systems number `DLT_RAW`.
    DLT_RAW = 12, "DLT_RAW";
    /// Raw IP, as OpenBSD numbers `DLT_RAW`.
    DLT_RAW_OPENBSD = 14, "DLT_RAW_OPENBSD";
    /// PPP in HDLC-like framing, or Cisco HDLC.
    PPP_HDLC = 50, "PPP_HDLC";
    /// PPPoE session packets without their Ethernet header.
    PPP_ETHER = 51, "PPP_ETHER";
    /// RFC 2684 LLC-encapsulated ATM.
    ATM_RFC1483 = 100, "ATM_RFC1483";
    /// Raw IP, of the version that the first nibble says.
    RAW = 101, "RAW";
    /// Cisco HDLC.
    C_HDLC = 104, "C_HDLC";
    /// IEEE 802.11.
    IEEE802_11 = 105, "IEEE802_11";
    /// OpenBSD loopback: a protocol family in network byte order.
    LOOP = 108, "LOOP";
    /// Linux "cooked" capture.
    LINUX_SLL = 113, "LINUX_SLL";
    /// IEEE 802.11 behind a Prism monitor mode header.
    IEEE802_11_PRISM = 119, "IEEE802_11_PRISM";
    /// IEEE 802.11 behind a radiotap header.
    IEEE802_11_RADIOTAP = 127, "IEEE802_11_RADIOTAP";
    /// IEEE 802.11 behind an AVS header.
    IEEE802_11_AVS = 163, "IEEE802_11_AVS";
    /// Per-Packet Information: a header that names another link type.
    PPI = 192, "PPI";
    /// PPP behind one byte of direction.
    PPP_WITH_DIR = 204, "PPP_WITH_DIR";
    /// Raw IPv4.
    IPV4 = 228, "IPV4";
    /// Raw IPv6.
    IPV6 = 229, "IPV6";
    /// Linux netfilter log: a family, and attributes of which one is the packet.
    NFLOG = 239, "NFLOG";
    /// Linux "cooked" capture, version 2.
    LINUX_SLL2 = 276, "LINUX_SLL2";
}

impl fmt::Debug for LinkType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Display for LinkType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            Some(name) => write!(f, "{name} ({})", self.0),
            None => match unread(self.0) {
                Some(name) => write!(f, "link type {} ({name})", self.0),
                None => write!(f, "link type {}", self.0),
            },
        }
    }
}

/// Names of link types that are not read.
fn unread(number: u16) -> Option<&'static str> {
    Some(match number {
        6 => "Token Ring",
        7 => "ARCNET",
        8 => "SLIP",
        10 => "FDDI",
        11 => "ATM RFC 1483",
        107 => "Frame Relay",
        117 => "PF log",
        129 => "ARCNET, Linux",
        147..=162 => "private use",
        189 => "USB",
        195 | 230 => "IEEE 802.15.4",
        201 => "Bluetooth HCI",
        220 => "USB, Linux",
        227 => "CAN",
        249 => "USBPcap",
        251 => "Bluetooth LE",
        253 => "netlink",
        _ => return None,
    })
}

/// One packet of a capture, as it was captured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record<'a> {
    /// When it was captured. A record without a time (pcapng's Simple Packet Block) has the time of
    /// the one before it, or 0.
    pub time: Nanos,
    /// What [`data`](Self::data) begins with.
    pub link: LinkType,
    /// Bytes on the wire, at least `data.len()`: [`CaptureReader`](crate::CaptureReader) raises
    /// what a file says to that.
    pub wire_len: u32,
    /// The bytes that were captured: the first of those on the wire.
    pub data: &'a [u8],
}

impl Record<'_> {
    /// Bytes on the wire, also of a record made by hand whose `wire_len` is too small.
    pub fn wire_bytes(&self) -> u32 {
        self.wire_len.max(u32::try_from(self.data.len()).unwrap_or(u32::MAX))
    }
}
