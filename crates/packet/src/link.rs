//! Link layers, with which the records of a capture begin. <https://www.tcpdump.org/linktypes.html>

use crate::{
    Cipher, Layer, LinkType, Skipped,
    cursor::Cursor,
    ether::FIRST_ETHER_TYPE,
    walk::{Next, WalkState},
};

/// First 32-bit numbers of an AVS header (libpcap, LINKTYPE_IEEE802_11_AVS), which some drivers
/// announce as Prism.
const AVS_MAGIC: [u32; 2] = [0x8021_1001, 0x8021_1002];

/// The length in a Prism header is unreliable; tcpdump assumes 144 bytes.
const PRISM: usize = 144;

/// The attribute of a netfilter log that is the packet, and most attributes before it: Linux has 22
/// types of them (`linux/netfilter/nfnetlink_log.h`).
const NFULA_PAYLOAD: u16 = 9;
const NFLOG_ATTRIBUTES: usize = 64;
/// Families of Linux.
const AF_INET: u8 = 2;
const AF_INET6: u8 = 10;

/// ARPHRD_ types of Linux for which a cooked header has no EtherType.
const ARPHRD_FRAD: u16 = 770;
const ARPHRD_IPGRE: u16 = 778;
const ARPHRD_IEEE80211_RADIOTAP: u16 = 803;
const ARPHRD_NETLINK: u16 = 824;

impl WalkState {
    pub(crate) fn link(&mut self, c: &mut Cursor<'_>, link: LinkType) -> Result<Next, Skipped> {
        match link {
            LinkType::ETHERNET => Ok(Next::Ethernet),
            LinkType::RAW | LinkType::DLT_RAW | LinkType::DLT_RAW_OPENBSD => Ok(Next::Ip),
            LinkType::IPV4 => Ok(Next::Ipv4),
            LinkType::IPV6 => Ok(Next::Ipv6),
            LinkType::NULL | LinkType::LOOP => self.loopback(c),
            LinkType::LINUX_SLL => self.sll(c),
            LinkType::LINUX_SLL2 => self.sll2(c),
            LinkType::PPP => Ok(Next::Ppp),
            // LINKTYPE_PPP_HDLC: the first byte distinguishes PPP in HDLC-like framing from Cisco
            // HDLC (RFC 1547 section 4.3.1).
            LinkType::PPP_HDLC if matches!(c.data, [0x0f | 0x8f, ..]) => self.cisco_hdlc(c),
            LinkType::PPP_HDLC => Ok(Next::Ppp),
            LinkType::PPP_WITH_DIR => {
                c.skip(1, Layer::Ppp)?;
                Ok(Next::Ppp)
            }
            LinkType::PPP_ETHER => Ok(Next::EtherType(0x8864)),
            LinkType::C_HDLC => self.cisco_hdlc(c),
            LinkType::ATM_RFC1483 => Ok(Next::Llc),
            LinkType::IEEE802_11 => Ok(Next::Ieee80211),
            LinkType::IEEE802_11_RADIOTAP => self.radiotap(c),
            LinkType::IEEE802_11_PRISM => self.prism(c),
            LinkType::IEEE802_11_AVS => self.avs(c),
            LinkType::PPI => self.ppi(c),
            LinkType::NFLOG => self.nflog(c),
            _ => Err(Skipped::UnsupportedLink(link)),
        }
    }

    /// LINKTYPE_NULL, LINKTYPE_LOOP: a protocol family, in the byte order that makes it small.
    fn loopback(&mut self, c: &mut Cursor<'_>) -> Result<Next, Skipped> {
        self.enter(Layer::Loopback)?;
        let head = *c.take(Layer::Loopback)?;
        let family = u32::from_be_bytes(head).min(u32::from_le_bytes(head));
        match family {
            2 => Ok(Next::Ipv4),
            // Linux; NetBSD, OpenBSD and Npcap; FreeBSD; Darwin.
            10 | 24 | 28 | 30 => Ok(Next::Ipv6),
            _ => Err(Skipped::NotIp(u16::try_from(family).unwrap_or(u16::MAX))),
        }
    }

    /// LINKTYPE_LINUX_SLL: packet type, ARPHRD_ type, address length, address (8), protocol.
    fn sll(&mut self, c: &mut Cursor<'_>) -> Result<Next, Skipped> {
        self.enter(Layer::Sll)?;
        let &[_, _, a0, a1, _, _, _, _, _, _, _, _, _, _, p0, p1] = c.take(Layer::Sll)?;
        cooked(u16::from_be_bytes([a0, a1]), u16::from_be_bytes([p0, p1]))
    }

    /// LINKTYPE_LINUX_SLL2: protocol, reserved, interface (4), ARPHRD_ type, packet type, address
    /// length, address (8).
    fn sll2(&mut self, c: &mut Cursor<'_>) -> Result<Next, Skipped> {
        self.enter(Layer::Sll2)?;
        let &[p0, p1, _, _, _, _, _, _, a0, a1, ..] = c.take::<20>(Layer::Sll2)?;
        cooked(u16::from_be_bytes([a0, a1]), u16::from_be_bytes([p0, p1]))
    }

    /// LINKTYPE_NFLOG: family, version 0, resource; then attributes, each of a length, its header
    /// included, and a type in the byte order of the capturing host, padded to four bytes.
    fn nflog(&mut self, c: &mut Cursor<'_>) -> Result<Next, Skipped> {
        const LAYER: Layer = Layer::Nflog;
        self.enter(LAYER)?;
        let &[family, version, _, _] = c.take(LAYER)?;
        if version != 0 {
            return Err(Skipped::Malformed(LAYER));
        }
        for _ in 0..NFLOG_ATTRIBUTES {
            let &[l0, l1, t0, t1] = c.take(LAYER)?;
            // Types are small, and the highest bits of their field are flags or 0.
            let is_little = t0 != 0 || t1 == 0;
            let number = |bytes| match is_little {
                true => u16::from_le_bytes(bytes),
                false => u16::from_be_bytes(bytes),
            };
            let rest = number([l0, l1]).checked_sub(4).ok_or(Skipped::Malformed(LAYER))?;
            if number([t0, t1]) == NFULA_PAYLOAD {
                c.limit(u32::from(rest), LAYER)?;
                return match family {
                    AF_INET => Ok(Next::Ipv4),
                    AF_INET6 => Ok(Next::Ipv6),
                    other => Err(Skipped::NotIp(other.into())),
                };
            }
            c.skip(usize::from(rest).next_multiple_of(4), LAYER)?;
        }
        Err(Skipped::Malformed(LAYER))
    }

    /// RFC 1661, RFC 1662: optionally address and control (0xff, 0x03), then a protocol of one or
    /// two bytes.
    pub(crate) fn ppp(&mut self, c: &mut Cursor<'_>) -> Result<Next, Skipped> {
        self.enter(Layer::Ppp)?;
        if let [0xff, ..] = c.data {
            // No protocol begins like this.
            let &[_, control] = c.take(Layer::Ppp)?;
            if control != 0x03 {
                return Err(Skipped::Malformed(Layer::Ppp));
            }
        }
        let &[first] = c.take(Layer::Ppp)?;
        // Protocol field compression: the last byte of a protocol number is odd, the first is even.
        let protocol = if first & 1 == 1 {
            u16::from(first)
        } else {
            let &[second] = c.take(Layer::Ppp)?;
            u16::from_be_bytes([first, second])
        };
        match protocol {
            0x0021 => Ok(Next::Ipv4),
            0x0057 => Ok(Next::Ipv6),
            0x0281 | 0x0283 => Ok(Next::Mpls),
            0x0053 | 0x0055 => Err(Skipped::Encrypted(Cipher::Ppp)),
            _ => Err(Skipped::NotIp(protocol)),
        }
    }

    /// Cisco HDLC (RFC 1547 section 4.3.1): address, control, EtherType.
    fn cisco_hdlc(&mut self, c: &mut Cursor<'_>) -> Result<Next, Skipped> {
        self.enter(Layer::CiscoHdlc)?;
        let &[_, _, p0, p1] = c.take(Layer::CiscoHdlc)?;
        Ok(Next::EtherType(u16::from_be_bytes([p0, p1])))
    }

    /// LINKTYPE_IEEE802_11_PRISM.
    fn prism(&mut self, c: &mut Cursor<'_>) -> Result<Next, Skipped> {
        if c.peek().is_some_and(|&head| AVS_MAGIC.contains(&u32::from_be_bytes(head))) {
            return self.avs(c);
        }
        self.enter(Layer::Prism)?;
        c.skip(PRISM, Layer::Prism)?;
        Ok(Next::Ieee80211)
    }

    /// LINKTYPE_IEEE802_11_AVS: magic, length of this header.
    fn avs(&mut self, c: &mut Cursor<'_>) -> Result<Next, Skipped> {
        self.enter(Layer::Avs)?;
        let &[_, _, _, _, l0, l1, l2, l3] = c.take(Layer::Avs)?;
        let rest = u32::from_be_bytes([l0, l1, l2, l3])
            .checked_sub(8)
            .ok_or(Skipped::Malformed(Layer::Avs))?;
        c.skip(rest as usize, Layer::Avs)?;
        Ok(Next::Ieee80211)
    }

    /// LINKTYPE_PPI: version, flags, length of this header, link type; little-endian.
    fn ppi(&mut self, c: &mut Cursor<'_>) -> Result<Next, Skipped> {
        self.enter(Layer::Ppi)?;
        let &[_, _, n0, n1, l0, l1, l2, l3] = c.take(Layer::Ppi)?;
        let rest =
            u16::from_le_bytes([n0, n1]).checked_sub(8).ok_or(Skipped::Malformed(Layer::Ppi))?;
        c.skip(usize::from(rest), Layer::Ppi)?;
        match u16::try_from(u32::from_le_bytes([l0, l1, l2, l3])).map(LinkType) {
            Ok(link) if link != LinkType::PPI => Ok(Next::Link(link)),
            _ => Err(Skipped::Malformed(Layer::Ppi)),
        }
    }
}

/// The protocol field of a cooked header.
fn cooked(hardware: u16, protocol: u16) -> Result<Next, Skipped> {
    match (hardware, protocol) {
        (ARPHRD_FRAD | ARPHRD_IEEE80211_RADIOTAP | ARPHRD_NETLINK, _) => {
            Err(Skipped::NotIp(protocol))
        }
        (ARPHRD_IPGRE, _) => Ok(Next::EtherType(protocol)),
        // LINUX_SLL_P_802_2.
        (_, 0x0004) => Ok(Next::Llc),
        (_, FIRST_ETHER_TYPE..) => Ok(Next::EtherType(protocol)),
        _ => Err(Skipped::NotIp(protocol)),
    }
}
