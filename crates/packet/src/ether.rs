//! Ethernet, and the protocols that EtherTypes identify: VLAN tags, LLC, MPLS, PPPoE.

use crate::{
    Cipher, Layer, Skipped,
    cursor::Cursor,
    walk::{Next, WalkState},
};

/// The lowest EtherType; smaller values are lengths (IEEE 802.3 section 3.2.6).
pub(crate) const FIRST_ETHER_TYPE: u16 = 1536;
const LARGEST_LENGTH: u16 = 1500;

pub(crate) const IPV4: u16 = 0x0800;
const ARP: u16 = 0x0806;
pub(crate) const TRANSPARENT_ETHERNET_BRIDGING: u16 = 0x6558;
const VLAN: u16 = 0x8100;
pub(crate) const IPV6: u16 = 0x86dd;
const MPLS: u16 = 0x8847;
const MPLS_MULTICAST: u16 = 0x8848;
const PPPOE_SESSION: u16 = 0x8864;
pub(crate) const PPP: u16 = 0x880b;
const SERVICE_VLAN: u16 = 0x88a8;
const MACSEC: u16 = 0x88e5;
const BACKBONE_SERVICE: u16 = 0x88e7;
/// Tags of providers from before IEEE 802.1ad.
const OLD_SERVICE_VLANS: [u16; 2] = [0x9100, 0x9200];

impl WalkState {
    /// IEEE 802.3 section 3.1: destination, source, length or type.
    pub(crate) fn ethernet(&mut self, c: &mut Cursor<'_>) -> Result<Next, Skipped> {
        self.enter(Layer::Ethernet)?;
        let &[.., t0, t1] = c.take::<14>(Layer::Ethernet)?;
        length_or_type(c, u16::from_be_bytes([t0, t1]), Layer::Ethernet)
    }

    pub(crate) fn ether_type(&mut self, c: &mut Cursor<'_>, number: u16) -> Result<Next, Skipped> {
        match number {
            IPV4 => Ok(Next::Ipv4),
            IPV6 => Ok(Next::Ipv6),
            VLAN => self.tag(c, Layer::Vlan),
            SERVICE_VLAN => self.tag(c, Layer::QinQ),
            _ if OLD_SERVICE_VLANS.contains(&number) => self.tag(c, Layer::QinQ),
            MPLS | MPLS_MULTICAST => Ok(Next::Mpls),
            PPPOE_SESSION => self.pppoe(c),
            PPP => Ok(Next::Ppp),
            TRANSPARENT_ETHERNET_BRIDGING => Ok(Next::Ethernet),
            BACKBONE_SERVICE => {
                // IEEE 802.1Q section 9.7: 4 bytes of tag, then the customer's frame.
                self.enter(Layer::Pbb)?;
                c.skip(4, Layer::Pbb)?;
                Ok(Next::Ethernet)
            }
            MACSEC => Err(Skipped::Encrypted(Cipher::MacSec)),
            _ => Err(Skipped::NotIp(number)),
        }
    }

    /// IEEE 802.1Q section 9.3: tag control information, length or type.
    fn tag(&mut self, c: &mut Cursor<'_>, layer: Layer) -> Result<Next, Skipped> {
        self.enter(layer)?;
        let &[_, _, t0, t1] = c.take(layer)?;
        length_or_type(c, u16::from_be_bytes([t0, t1]), layer)
    }

    /// IEEE 802.2: destination SAP, source SAP, control; SNAP (IEEE 802, RFC 1042) adds an
    /// organization and a protocol.
    pub(crate) fn llc(&mut self, c: &mut Cursor<'_>) -> Result<Next, Skipped> {
        self.enter(Layer::Llc)?;
        let &[destination, source, control] = c.take(Layer::Llc)?;
        match (destination, source, control) {
            (0xaa, 0xaa, 0x03) => {
                let &[o0, o1, o2, p0, p1] = c.take(Layer::Llc)?;
                let protocol = u16::from_be_bytes([p0, p1]);
                match [o0, o1, o2] {
                    // RFC 1042, and bridged as IEEE 802.1H says.
                    [0, 0, 0] | [0, 0, 0xf8] => Ok(Next::EtherType(protocol)),
                    _ => Err(Skipped::NotIp(protocol)),
                }
            }
            (0x06, 0x06, 0x03) => Ok(Next::Ipv4),
            _ => Err(Skipped::NotIp(u16::from_be_bytes([destination, source]))),
        }
    }

    /// RFC 3032: labels down to the bottom of the stack. The content is not identified: IPv4, IPv6
    /// or an Ethernet pseudowire.
    pub(crate) fn mpls(&mut self, c: &mut Cursor<'_>) -> Result<Next, Skipped> {
        self.enter(Layer::Mpls)?;
        loop {
            let &[_, _, bottom, _] = c.take(Layer::Mpls)?;
            if bottom & 1 == 1 {
                break;
            }
        }
        match c.data.first().map(|first| first >> 4) {
            // A pseudowire without a control word whose frame begins with an address of 4x or 6x
            // (RFC 8469).
            Some(4 | 6) if !is_ip(c) && is_ethernet(c.data) => Ok(Next::Ethernet),
            Some(4) => Ok(Next::Ipv4),
            Some(6) => Ok(Next::Ipv6),
            // A control word begins with 0 (RFC 4385 section 3), but so do many addresses.
            Some(0) if c.data.get(4..).is_some_and(is_ethernet) => {
                self.enter(Layer::Pseudowire)?;
                c.skip(4, Layer::Pseudowire)?;
                Ok(Next::Ethernet)
            }
            Some(_) if is_ethernet(c.data) => Ok(Next::Ethernet),
            Some(_) => Err(Skipped::NotIp(MPLS)),
            None if c.wire == 0 => Err(Skipped::Malformed(Layer::Mpls)),
            None => Err(Skipped::Truncated(Layer::Mpls)),
        }
    }

    /// RFC 2516 section 4: version and type 1, code 0, session, length; then PPP without address
    /// and control.
    fn pppoe(&mut self, c: &mut Cursor<'_>) -> Result<Next, Skipped> {
        self.enter(Layer::Pppoe)?;
        let &[version, code, _, _, l0, l1] = c.take(Layer::Pppoe)?;
        if version != 0x11 || code != 0 {
            return Err(Skipped::Malformed(Layer::Pppoe));
        }
        c.limit(u32::from(u16::from_be_bytes([l0, l1])), Layer::Pppoe)?;
        Ok(Next::Ppp)
    }
}

fn length_or_type(c: &mut Cursor<'_>, number: u16, layer: Layer) -> Result<Next, Skipped> {
    match number {
        FIRST_ETHER_TYPE.. => Ok(Next::EtherType(number)),
        0..=LARGEST_LENGTH => {
            c.limit(u32::from(number), layer)?;
            Ok(Next::Llc)
        }
        _ => Err(Skipped::NotIp(number)),
    }
}

/// Whether the cursor is at an IP header whose length fits.
fn is_ip(c: &Cursor<'_>) -> bool {
    match c.data {
        [0x45..=0x4f, _, l0, l1, ..] => u32::from(u16::from_be_bytes([*l0, *l1])) <= c.wire,
        [0x60..=0x6f, _, _, _, l0, l1, ..] => {
            u32::from(u16::from_be_bytes([*l0, *l1])) + 40 <= c.wire
        }
        _ => false,
    }
}

/// Whether this looks like an Ethernet frame with known content.
pub(crate) fn is_ethernet(data: &[u8]) -> bool {
    match data {
        [_, _, _, _, _, _, _, _, _, _, _, _, t0, t1, ..] => matches!(
            u16::from_be_bytes([*t0, *t1]),
            IPV4 | ARP
                | VLAN
                | IPV6
                | MPLS
                | MPLS_MULTICAST
                | PPPOE_SESSION
                | SERVICE_VLAN
                | MACSEC
                | 0x88cc
                | 0x8863
        ),
        _ => false,
    }
}
