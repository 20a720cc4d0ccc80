//! Tunnels over IP and over UDP. A UDP tunnel is recognized by its port, which is weak evidence, so
//! its headers are checked strictly.

use crate::{
    Layer, Skipped,
    cursor::Cursor,
    ether,
    walk::{Next, WalkState},
};

/// GRE protocol types of Cisco's switched port analyser:
/// <https://datatracker.ietf.org/doc/draft-foschiano-erspan/>.
const ERSPAN_I_II: u16 = 0x88be;
const ERSPAN_III: u16 = 0x22eb;

/// GRE flags (RFC 2784, RFC 2890; routing: RFC 1701) and those of PPTP (RFC 2637 section 4.1).
const GRE_CHECKSUM: u16 = 0x8000;
const GRE_ROUTING: u16 = 0x4000;
const GRE_KEY: u16 = 0x2000;
const GRE_SEQUENCE: u16 = 0x1000;
const GRE_ACKNOWLEDGEMENT: u16 = 0x0080;
const GRE_VERSION: u16 = 0x0007;

/// VXLAN's flag I (RFC 7348 section 5).
const VALID_IDENTIFIER: u8 = 0x08;

impl WalkState {
    /// RFC 2784, RFC 2890, RFC 1701; version 1: RFC 2637.
    pub(crate) fn gre(&mut self, c: &mut Cursor<'_>) -> Result<Next, Skipped> {
        const LAYER: Layer = Layer::Gre;
        self.enter(LAYER)?;
        let &[f0, f1, p0, p1] = c.take(LAYER)?;
        let flags = u16::from_be_bytes([f0, f1]);
        let protocol = u16::from_be_bytes([p0, p1]);
        match flags & GRE_VERSION {
            0 => {}
            1 if protocol == ether::PPP => return self.pptp(c, flags),
            _ => return Err(Skipped::Malformed(LAYER)),
        }
        if flags & (GRE_CHECKSUM | GRE_ROUTING) != 0 {
            c.skip(4, LAYER)?;
        }
        if flags & GRE_KEY != 0 {
            c.skip(4, LAYER)?;
        }
        if flags & GRE_SEQUENCE != 0 {
            c.skip(4, LAYER)?;
        }
        if flags & GRE_ROUTING != 0 {
            // Source route entries: address family, offset, length, address; the last is all zero.
            loop {
                let &[a0, a1, _, len] = c.take(LAYER)?;
                if [a0, a1, len] == [0; 3] {
                    break;
                }
                c.skip(usize::from(len), LAYER)?;
            }
        }
        match protocol {
            ERSPAN_I_II => {
                self.enter(Layer::Erspan)?;
                // Type I has neither sequence numbers nor a header.
                if flags & GRE_SEQUENCE != 0 {
                    c.skip(8, Layer::Erspan)?;
                }
                Ok(Next::Ethernet)
            }
            ERSPAN_III => self.erspan_iii(c),
            _ => Ok(Next::EtherType(protocol)),
        }
    }

    /// RFC 2637 section 4.1: payload length, call ID, optional sequence number, optional
    /// acknowledgment number, then PPP.
    fn pptp(&mut self, c: &mut Cursor<'_>, flags: u16) -> Result<Next, Skipped> {
        const LAYER: Layer = Layer::Pptp;
        self.enter(LAYER)?;
        let &[l0, l1, _, _] = c.take(LAYER)?;
        if flags & GRE_KEY == 0 {
            return Err(Skipped::Malformed(LAYER));
        }
        if flags & GRE_SEQUENCE != 0 {
            c.skip(4, LAYER)?;
        }
        if flags & GRE_ACKNOWLEDGEMENT != 0 {
            c.skip(4, LAYER)?;
        }
        c.limit(u32::from(u16::from_be_bytes([l0, l1])), LAYER)?;
        // Without a sequence number, this is an acknowledgment without payload.
        if flags & GRE_SEQUENCE == 0 { Err(Skipped::OtherProtocol(47)) } else { Ok(Next::Ppp) }
    }

    /// draft-foschiano-erspan section 4.3: 12 bytes. The last two hold the frame type and the flag
    /// for an 8-byte subheader.
    fn erspan_iii(&mut self, c: &mut Cursor<'_>) -> Result<Next, Skipped> {
        self.enter(Layer::Erspan)?;
        let &[.., f0, f1] = c.take::<12>(Layer::Erspan)?;
        if f1 & 1 != 0 {
            c.skip(8, Layer::Erspan)?;
        }
        match f0 >> 2 & 0x1f {
            0 => Ok(Next::Ethernet),
            2 => Ok(Next::Ip),
            _ => Err(Skipped::Malformed(Layer::Erspan)),
        }
    }

    /// RFC 7348 section 5: a valid network identifier; reserved bits are ignored, so that extensions
    /// such as draft-smith-vxlan-group-policy are read, too.
    pub(crate) fn vxlan(&mut self, c: &mut Cursor<'_>) -> Result<Next, Skipped> {
        self.enter(Layer::Vxlan)?;
        match c.take(Layer::Vxlan)? {
            [0x08, 0, 0, 0, _, _, _, 0] => Ok(Next::Ethernet),
            // A port is weak evidence: where reserved bits are set, the frame has to speak for it.
            [flags, ..] if flags & VALID_IDENTIFIER != 0 && ether::is_ethernet(c.data) => {
                Ok(Next::Ethernet)
            }
            _ => Err(Skipped::Malformed(Layer::Vxlan)),
        }
    }

    /// draft-ietf-nvo3-vxlan-gpe section 3: version 0, a network identifier, a next protocol, no
    /// OAM.
    pub(crate) fn vxlan_gpe(&mut self, c: &mut Cursor<'_>) -> Result<Next, Skipped> {
        self.enter(Layer::VxlanGpe)?;
        match c.take(Layer::VxlanGpe)? {
            [0x0c, 0, 0, 1, _, _, _, 0] => Ok(Next::Ipv4),
            [0x0c, 0, 0, 2, _, _, _, 0] => Ok(Next::Ipv6),
            [0x0c, 0, 0, 3, _, _, _, 0] | [0x08, 0, 0, 0, _, _, _, 0] => Ok(Next::Ethernet),
            _ => Err(Skipped::Malformed(Layer::VxlanGpe)),
        }
    }

    /// RFC 8926 section 3.4: version 0, length of options in 4-byte units, protocol type, network
    /// identifier.
    pub(crate) fn geneve(&mut self, c: &mut Cursor<'_>) -> Result<Next, Skipped> {
        self.enter(Layer::Geneve)?;
        let &[options, flags, p0, p1, _, _, _, reserved] = c.take(Layer::Geneve)?;
        if options >> 6 != 0 || flags & 0x3f != 0 || reserved != 0 {
            return Err(Skipped::Malformed(Layer::Geneve));
        }
        c.skip(usize::from(options & 0x3f) * 4, Layer::Geneve)?;
        match u16::from_be_bytes([p0, p1]) {
            ether::TRANSPARENT_ETHERNET_BRIDGING => Ok(Next::Ethernet),
            ether::IPV4 => Ok(Next::Ipv4),
            ether::IPV6 => Ok(Next::Ipv6),
            _ => Err(Skipped::Malformed(Layer::Geneve)),
        }
    }

    /// 3GPP TS 29.281 section 5: G-PDU only, with optional extension headers.
    pub(crate) fn gtp_u(&mut self, c: &mut Cursor<'_>) -> Result<Next, Skipped> {
        const LAYER: Layer = Layer::GtpU;
        const G_PDU: u8 = 255;
        self.enter(LAYER)?;
        let &[flags, message, l0, l1, _, _, _, _] = c.take(LAYER)?;
        // Version 1, GTP and not GTP'; the spare bit is 0.
        if flags & 0xf8 != 0x30
            || message != G_PDU
            || u32::from(u16::from_be_bytes([l0, l1])) != c.wire
        {
            return Err(Skipped::Malformed(LAYER));
        }
        if flags & 0x07 != 0 {
            let &[_, _, _, mut extension] = c.take(LAYER)?;
            if flags & 0x04 == 0 {
                extension = 0;
            }
            while extension != 0 {
                let &[len] = c.take(LAYER)?;
                let content =
                    (usize::from(len) * 4).checked_sub(2).ok_or(Skipped::Malformed(LAYER))?;
                c.skip(content, LAYER)?;
                [extension] = *c.take(LAYER)?;
            }
        }
        Ok(Next::Ip)
    }

    /// RFC 2661 section 3.1, data messages: flags and version 2, optional length, tunnel ID,
    /// session ID, optional sequence numbers, optional offset, then PPP.
    pub(crate) fn l2tp(&mut self, c: &mut Cursor<'_>) -> Result<Next, Skipped> {
        const LAYER: Layer = Layer::L2tp;
        self.enter(LAYER)?;
        let before = c.wire;
        let &[f0, f1] = c.take(LAYER)?;
        if f0 & 0b1011_0100 != 0 || f1 != 2 {
            return Err(Skipped::Malformed(LAYER));
        }
        if f0 & 0x40 != 0 {
            let &[l0, l1] = c.take(LAYER)?;
            if u32::from(u16::from_be_bytes([l0, l1])) != before {
                return Err(Skipped::Malformed(LAYER));
            }
        }
        c.skip(4, LAYER)?;
        if f0 & 0x08 != 0 {
            c.skip(4, LAYER)?;
        }
        if f0 & 0x02 != 0 {
            let &[o0, o1] = c.take(LAYER)?;
            c.skip(usize::from(u16::from_be_bytes([o0, o1])), LAYER)?;
        }
        // Accept only PPP with its address and control field, or IP directly; two arbitrary bytes
        // are too weak a check.
        match c.data {
            [0xff, 0x03, ..] | [0, 0x21 | 0x57, ..] | [0x21 | 0x57, ..] => Ok(Next::Ppp),
            _ => Err(Skipped::Malformed(LAYER)),
        }
    }

    /// RFC 4380 section 5.1.1: optional authentication, optional origin indication, then IPv6 that
    /// fills the datagram.
    pub(crate) fn teredo(&mut self, c: &mut Cursor<'_>) -> Result<Next, Skipped> {
        const LAYER: Layer = Layer::Teredo;
        self.enter(LAYER)?;
        if let Some(&[0, 1, id, authentication]) = c.peek() {
            c.skip(4 + usize::from(id) + usize::from(authentication) + 9, LAYER)?;
        }
        if let Some([0, 0]) = c.peek() {
            c.skip(8, LAYER)?;
        }
        match c.data {
            [0x60..=0x6f, _, _, _, l0, l1, ..]
                if u32::from(u16::from_be_bytes([*l0, *l1])) + 40 == c.wire =>
            {
                Ok(Next::Ipv6)
            }
            _ => Err(Skipped::Malformed(LAYER)),
        }
    }
}
