//! IPv4, IPv6 with its extension headers, and the protocols inside IP.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::{
    Cipher, Layer, Skipped,
    cursor::Cursor,
    fragment::{Key, Piece, Verdict},
    walk::{Next, Walk, WalkState, WalkStep},
};

/// Protocol numbers (IANA, "Assigned Internet Protocol Numbers").
const HOP_BY_HOP: u8 = 0;
const IPV4_IN_IP: u8 = 4;
const IPV6_IN_IP: u8 = 41;
const ROUTING: u8 = 43;
const FRAGMENT: u8 = 44;
const GRE: u8 = 47;
const ESP: u8 = 50;
const AH: u8 = 51;
const DESTINATION_OPTIONS: u8 = 60;
const ETHER_IP: u8 = 97;
const MOBILITY: u8 = 135;
const MPLS_IN_IP: u8 = 137;
const HIP: u8 = 139;
const SHIM6: u8 = 140;

impl WalkState {
    pub(crate) fn ip(&mut self, c: &mut Cursor<'_>) -> Result<Next, Skipped> {
        match c.data.first().map(|first| first >> 4) {
            Some(4) => Ok(Next::Ipv4),
            Some(6) => Ok(Next::Ipv6),
            None if c.wire > 0 => Err(Skipped::Truncated(Layer::Ipv4)),
            _ => Err(Skipped::Malformed(Layer::Ipv4)),
        }
    }

    /// RFC 8200 section 3.
    pub(crate) fn ipv6(&mut self, c: &mut Cursor<'_>) -> Result<Next, Skipped> {
        const LAYER: Layer = Layer::Ipv6;
        self.enter(LAYER)?;
        let header = c.take::<40>(LAYER)?;
        if header[0] >> 4 != 6 {
            return Err(Skipped::Malformed(LAYER));
        }
        let &[v0, v1, _, _, l0, l1, protocol, hops, ref addresses @ ..] = header;
        // 0: a jumbogram (RFC 2675), or a packet before segmentation offload. It ends with the
        // frame.
        let len = u16::from_be_bytes([l0, l1]);
        if len != 0 {
            c.limit(u32::from(len), LAYER)?;
        }
        let (source, destination) = addresses.split_at(16);
        self.source = address(source);
        self.destination = address(destination);
        self.ttl = hops;
        self.dscp = (v0 << 4 | v1 >> 4) >> 2;
        self.identification = None;
        Ok(Next::Protocol(protocol))
    }
}

impl Walk<'_> {
    /// RFC 791 section 3.1.
    pub(crate) fn ipv4(&mut self, c: &mut Cursor<'_>) -> Result<WalkStep, Skipped> {
        const LAYER: Layer = Layer::Ipv4;
        self.state.enter(LAYER)?;
        let &[
            version,
            service,
            l0,
            l1,
            i0,
            i1,
            o0,
            o1,
            ttl,
            protocol,
            _,
            _,
            s0,
            s1,
            s2,
            s3,
            d0,
            d1,
            d2,
            d3,
        ] = c.take(LAYER)?;
        let header = usize::from(version & 0x0f) * 4;
        if version >> 4 != 4 || header < 20 {
            return Err(Skipped::Malformed(LAYER));
        }
        // 0: a packet before segmentation offload. It ends with the frame.
        let len = u16::from_be_bytes([l0, l1]);
        if len != 0 {
            c.limit(u32::from(len).checked_sub(20).ok_or(Skipped::Malformed(LAYER))?, LAYER)?;
        }
        c.skip(header - 20, LAYER)?;
        let state = &mut self.state;
        state.source = IpAddr::V4(Ipv4Addr::new(s0, s1, s2, s3));
        state.destination = IpAddr::V4(Ipv4Addr::new(d0, d1, d2, d3));
        state.ttl = ttl;
        state.dscp = service >> 2;
        state.identification = Some(u16::from_be_bytes([i0, i1]));

        let fragmentation = u16::from_be_bytes([o0, o1]);
        let (more, offset) = (fragmentation & 0x2000 != 0, u32::from(fragmentation & 0x1fff) * 8);
        if more || offset != 0 {
            let id = u32::from(u16::from_be_bytes([i0, i1]));
            return self.fragment(c, id, protocol, offset, more);
        }
        Ok(WalkStep::Next(Next::Protocol(protocol)))
    }

    /// Reads the protocol `number`, after any extension headers (RFC 8200 section 4).
    pub(crate) fn protocol(
        &mut self,
        c: &mut Cursor<'_>,
        mut number: u8,
    ) -> Result<WalkStep, Skipped> {
        let v6 = self.state.source.is_ipv6();
        let next = loop {
            match number {
                6 | 17 => break Next::Protocol(number),
                HOP_BY_HOP | ROUTING | DESTINATION_OPTIONS | MOBILITY | HIP | SHIM6 if v6 => {
                    let &[next, len] = c.take(Layer::Ipv6)?;
                    c.skip(usize::from(len) * 8 + 6, Layer::Ipv6)?;
                    number = next;
                }
                FRAGMENT if v6 => {
                    // RFC 8200 section 4.5.
                    let &[next, _, o0, o1, i0, i1, i2, i3] = c.take(Layer::Fragment)?;
                    let field = u16::from_be_bytes([o0, o1]);
                    let (more, offset) = (field & 1 != 0, u32::from(field & 0xfff8));
                    if more || offset != 0 {
                        return self.fragment(
                            c,
                            u32::from_be_bytes([i0, i1, i2, i3]),
                            next,
                            offset,
                            more,
                        );
                    }
                    // An atomic fragment is a whole packet, even if others have its identification
                    // (RFC 6946).
                    number = next;
                }
                AH => {
                    // RFC 4302 section 2: length in 4-byte units, minus 2.
                    self.state.enter(Layer::Ah)?;
                    let &[next, len] = c.take(Layer::Ah)?;
                    c.skip((usize::from(len) + 2) * 4 - 2, Layer::Ah)?;
                    number = next;
                }
                ESP => return Err(Skipped::Encrypted(Cipher::Esp)),
                IPV4_IN_IP => {
                    self.state.enter(Layer::Ipv4InIp)?;
                    break Next::Ipv4;
                }
                IPV6_IN_IP => {
                    self.state.enter(Layer::Ipv6InIp)?;
                    break Next::Ipv6;
                }
                GRE => break self.state.gre(c)?,
                ETHER_IP => {
                    // RFC 3378: version 3, reserved.
                    self.state.enter(Layer::EtherIp)?;
                    let &[version, _] = c.take(Layer::EtherIp)?;
                    if version >> 4 != 3 {
                        return Err(Skipped::Malformed(Layer::EtherIp));
                    }
                    break Next::Ethernet;
                }
                MPLS_IN_IP => {
                    // RFC 4023.
                    self.state.enter(Layer::MplsInIp)?;
                    break Next::Mpls;
                }
                _ => return Err(Skipped::OtherProtocol(number)),
            }
        };
        Ok(WalkStep::Next(next))
    }

    /// Adds the fragment at the cursor to its datagram.
    #[cold]
    fn fragment(
        &mut self,
        c: &Cursor<'_>,
        id: u32,
        protocol: u8,
        offset: u32,
        more: bool,
    ) -> Result<WalkStep, Skipped> {
        self.state.enter(Layer::Fragment)?;
        let v6 = self.state.source.is_ipv6();
        // RFC 8200 section 4.5: the next header field of the first fragment counts; others may
        // differ.
        let key = Key {
            source: self.state.source,
            destination: self.state.destination,
            id,
            protocol: if v6 { FRAGMENT } else { protocol },
        };
        let piece = Piece {
            offset,
            more,
            protocol,
            data: c.data,
            wire: c.wire,
            trailer: c.trailer,
            tally: self.tally,
        };
        match self.fragments.add(key, piece, self.now) {
            Verdict::Held => Err(Skipped::FragmentHeld),
            Verdict::Malformed => Err(Skipped::Malformed(Layer::Fragment)),
            Verdict::Lost => Err(Skipped::FragmentLost),
            Verdict::Whole(whole) => Ok(WalkStep::Whole(whole)),
        }
    }
}

fn address(bytes: &[u8]) -> IpAddr {
    IpAddr::V6(Ipv6Addr::from(*bytes.first_chunk().unwrap_or(&[0; 16])))
}
