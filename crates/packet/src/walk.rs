//! The loop over the layers of a packet. Each function in [`link`](crate::link),
//! [`ether`](crate::ether), [`wifi`](crate::wifi), [`ip`](crate::ip), [`tunnel`](crate::tunnel) and
//! [`transport`](crate::transport) reads one header and returns the type of the next one.

use std::net::{IpAddr, Ipv4Addr};

use crate::{
    Layer, Layers, LinkType, Nanos, Skipped, Tally, Transport,
    cursor::Cursor,
    fragment::{Fragments, Whole},
};

/// The type of the bytes at the cursor.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Next {
    Link(LinkType),
    Ethernet,
    /// The protocol of an EtherType of at least 1,536.
    EtherType(u16),
    Llc,
    Ieee80211,
    Ppp,
    Mpls,
    /// IP, with the version in the first nibble.
    Ip,
    Ipv4,
    Ipv6,
    /// The protocol of an IP protocol number.
    Protocol(u8),
    Vxlan,
    VxlanGpe,
    Geneve,
    GtpU,
    L2tp,
    Teredo,
    Payload(Transport),
}

/// The result of a successful walk.
pub(crate) enum WalkEnd<'a> {
    Payload(Cursor<'a>, Transport),
    /// The last fragment of a datagram; the walk continues in the datagram.
    Whole(Box<Whole>),
}

/// What the headers so far contain.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WalkState {
    pub(crate) layers: Layers,
    pub(crate) source: IpAddr,
    pub(crate) destination: IpAddr,
    pub(crate) ttl: u8,
    pub(crate) dscp: u8,
    pub(crate) identification: Option<u16>,
}

impl WalkState {
    /// Reads one header of a link layer.
    #[inline]
    pub(crate) fn link_layer(&mut self, c: &mut Cursor<'_>, next: Next) -> Result<Next, Skipped> {
        match next {
            Next::Link(link) => self.link(c, link),
            Next::Ethernet => self.ethernet(c),
            Next::EtherType(number) => self.ether_type(c, number),
            Next::Llc => self.llc(c),
            Next::Ieee80211 => self.ieee80211(c),
            Next::Ppp => self.ppp(c),
            Next::Mpls => self.mpls(c),
            Next::Ip => self.ip(c),
            _ => Err(Skipped::TooDeep),
        }
    }

    pub(crate) fn new() -> Self {
        let none = IpAddr::V4(Ipv4Addr::UNSPECIFIED);
        Self {
            layers: Layers::default(),
            source: none,
            destination: none,
            ttl: 0,
            dscp: 0,
            identification: None,
        }
    }

    /// Records that a header of `layer` follows.
    #[inline]
    pub(crate) fn enter(&mut self, layer: Layer) -> Result<(), Skipped> {
        if self.layers.push(layer) { Ok(()) } else { Err(Skipped::TooDeep) }
    }
}

pub(crate) struct Walk<'f> {
    pub(crate) state: WalkState,
    pub(crate) fragments: &'f mut Fragments,
    pub(crate) now: Nanos,
    /// The records that contained the bytes at the cursor.
    pub(crate) tally: Tally,
}

/// A UDP datagram whose port suggests a tunnel.
#[derive(Clone, Copy)]
pub(crate) struct Datagram<'a> {
    cursor: Cursor<'a>,
    state: WalkState,
    transport: Transport,
}

impl Walk<'_> {
    /// Walks from `next` to the innermost payload.
    pub(crate) fn run<'a>(
        &mut self,
        mut cursor: Cursor<'a>,
        mut next: Next,
    ) -> Result<WalkEnd<'a>, Skipped> {
        // A UDP port is only a hint. If the content does not parse, it is the payload of a normal
        // datagram.
        let mut datagram: Option<Datagram<'a>> = None;
        loop {
            match self.step(&mut cursor, next, &mut datagram) {
                Ok(WalkStep::Next(Next::Payload(transport))) => {
                    return Ok(WalkEnd::Payload(cursor, transport));
                }
                Ok(WalkStep::Next(found)) => next = found,
                Ok(WalkStep::Whole(whole)) => return Ok(WalkEnd::Whole(whole)),
                Err(why) => match (datagram, why) {
                    (
                        Some(datagram),
                        Skipped::Malformed(_) | Skipped::Truncated(_) | Skipped::TooDeep,
                    ) => {
                        self.state = datagram.state;
                        return Ok(WalkEnd::Payload(datagram.cursor, datagram.transport));
                    }
                    _ => return Err(why),
                },
            }
        }
    }

    #[inline]
    fn step<'a>(
        &mut self,
        c: &mut Cursor<'a>,
        next: Next,
        outer: &mut Option<Datagram<'a>>,
    ) -> Result<WalkStep, Skipped> {
        let state = &mut self.state;
        let next = match next {
            Next::Ipv4 => return self.ipv4(c),
            Next::Ipv6 => state.ipv6(c),
            Next::Protocol(6) => state.tcp(c),
            Next::Protocol(17) => {
                let (transport, inside) = state.udp(c)?;
                if let Some(inside) = inside {
                    *outer = Some(Datagram { cursor: *c, state: *state, transport });
                    Ok(inside)
                } else {
                    Ok(Next::Payload(transport))
                }
            }
            Next::Protocol(number) => return self.protocol(c, number),
            Next::Vxlan => state.vxlan(c),
            Next::VxlanGpe => state.vxlan_gpe(c),
            Next::Geneve => state.geneve(c),
            Next::GtpU => state.gtp_u(c),
            Next::L2tp => state.l2tp(c),
            Next::Teredo => state.teredo(c),
            Next::Payload(_) => Ok(next),
            _ => state.link_layer(c, next),
        };
        next.map(WalkStep::Next)
    }
}

pub(crate) enum WalkStep {
    Next(Next),
    Whole(Box<Whole>),
}
