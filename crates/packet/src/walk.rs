//! The loop over the layers of a packet. Each function in [`link`](crate::link), [`ether`](crate::ether), [`wifi`](crate::wifi),
//! [`ip`](crate::ip), [`tunnel`](crate::tunnel) and [`transport`](crate::transport) reads one header and says what comes next.

use std::net::{IpAddr, Ipv4Addr};

use crate::{
    Layer, Layers, LinkType, Nanos, Tally, Transport, Unused,
    cursor::Cursor,
    fragment::{Fragments, Whole},
};

/// What the bytes at the cursor are.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Next {
    Link(LinkType),
    Ethernet,
    /// What an EtherType of at least 1,536 names.
    EtherType(u16),
    Llc,
    Ieee80211,
    Ppp,
    Mpls,
    /// IP of the version that the first nibble says.
    Ip,
    Ipv4,
    Ipv6,
    /// What an IP protocol number names.
    Protocol(u8),
    Vxlan,
    VxlanGpe,
    Geneve,
    GtpU,
    L2tp,
    Teredo,
    Payload(Transport),
}

/// Where a walk ends well.
pub(crate) enum End<'a> {
    Payload(Cursor<'a>, Transport),
    /// The last fragment of a datagram: the walk is to go on in there.
    Whole(Box<Whole>),
}

/// What was learned on the way.
#[derive(Clone, Copy, Debug)]
pub(crate) struct State {
    pub(crate) layers: Layers,
    pub(crate) source: IpAddr,
    pub(crate) destination: IpAddr,
    pub(crate) ttl: u8,
    pub(crate) dscp: u8,
    pub(crate) identification: Option<u16>,
}

impl State {
    pub(crate) fn new() -> Self {
        let none = IpAddr::V4(Ipv4Addr::UNSPECIFIED);
        Self { layers: Layers::default(), source: none, destination: none, ttl: 0, dscp: 0, identification: None }
    }

    /// Notes that a header of `layer` comes.
    #[inline]
    pub(crate) fn enter(&mut self, layer: Layer) -> Result<(), Unused> {
        if self.layers.push(layer) { Ok(()) } else { Err(Unused::TooDeep) }
    }
}

pub(crate) struct Walk<'f> {
    pub(crate) state: State,
    pub(crate) fragments: &'f mut Fragments,
    pub(crate) now: Nanos,
    /// The records that the bytes at the cursor came in.
    pub(crate) tally: Tally,
}

/// A UDP datagram whose port suggests a tunnel.
#[derive(Clone, Copy)]
pub(crate) struct Datagram<'a> {
    cursor: Cursor<'a>,
    state: State,
    transport: Transport,
}

impl Walk<'_> {
    /// Goes from `next` to the innermost payload.
    pub(crate) fn run<'a>(&mut self, mut cursor: Cursor<'a>, mut next: Next) -> Result<End<'a>, Unused> {
        // A UDP port is only a hint. When what is inside does not parse, it was the payload of a datagram like any other.
        let mut datagram: Option<Datagram<'a>> = None;
        loop {
            match self.step(&mut cursor, next, &mut datagram) {
                Ok(Step::Next(Next::Payload(transport))) => return Ok(End::Payload(cursor, transport)),
                Ok(Step::Next(found)) => next = found,
                Ok(Step::Whole(whole)) => return Ok(End::Whole(whole)),
                Err(why) => match (datagram, why) {
                    (Some(datagram), Unused::Malformed(_) | Unused::Truncated(_) | Unused::TooDeep) => {
                        self.state = datagram.state;
                        return Ok(End::Payload(datagram.cursor, datagram.transport));
                    }
                    _ => return Err(why),
                },
            }
        }
    }

    #[inline]
    fn step<'a>(&mut self, c: &mut Cursor<'a>, next: Next, outer: &mut Option<Datagram<'a>>) -> Result<Step, Unused> {
        let state = &mut self.state;
        let next = match next {
            Next::Link(link) => state.link(c, link),
            Next::Ethernet => state.ethernet(c),
            Next::EtherType(number) => state.ether_type(c, number),
            Next::Llc => state.llc(c),
            Next::Ieee80211 => state.ieee80211(c),
            Next::Ppp => state.ppp(c),
            Next::Mpls => state.mpls(c),
            Next::Ip => state.ip(c),
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
        };
        next.map(Step::Next)
    }
}

pub(crate) enum Step {
    Next(Next),
    Whole(Box<Whole>),
}
