//! TCP (RFC 9293) and UDP (RFC 768).

use crate::{
    Layer, Skipped, Transport,
    cursor::Cursor,
    walk::{Next, WalkState},
};

/// Destination ports of tunnels (IANA, and Linux's default for VXLAN before there was a number).
const GTP_U: u16 = 2152;
const L2TP: u16 = 1701;
const TEREDO: u16 = 3544;
const VXLAN: u16 = 4789;
const VXLAN_GPE: u16 = 4790;
const GENEVE: u16 = 6081;
const VXLAN_LINUX: u16 = 8472;

impl WalkState {
    /// RFC 9293 section 3.1. The options need not have been captured.
    #[inline]
    pub(crate) fn tcp(&mut self, c: &mut Cursor<'_>) -> Result<Next, Skipped> {
        self.enter(Layer::Tcp)?;
        let &[s0, s1, d0, d1, q0, q1, q2, q3, a0, a1, a2, a3, offset, flags, w0, w1, k0, k1, _, _] =
            c.take(Layer::Tcp)?;
        let options =
            (usize::from(offset >> 4) * 4).checked_sub(20).ok_or(Skipped::Malformed(Layer::Tcp))?;
        c.pass(options, Layer::Tcp)?;
        Ok(Next::Payload(Transport::Tcp {
            source_port: u16::from_be_bytes([s0, s1]),
            destination_port: u16::from_be_bytes([d0, d1]),
            seq: u32::from_be_bytes([q0, q1, q2, q3]),
            ack: u32::from_be_bytes([a0, a1, a2, a3]),
            flags,
            window: u16::from_be_bytes([w0, w1]),
            checksum: u16::from_be_bytes([k0, k1]),
        }))
    }

    /// RFC 768. Also says which tunnel the payload may be.
    #[inline]
    pub(crate) fn udp(&mut self, c: &mut Cursor<'_>) -> Result<(Transport, Option<Next>), Skipped> {
        self.enter(Layer::Udp)?;
        let &[s0, s1, d0, d1, l0, l1, k0, k1] = c.take(Layer::Udp)?;
        let (source_port, destination_port) =
            (u16::from_be_bytes([s0, s1]), u16::from_be_bytes([d0, d1]));
        // 0: a jumbogram (RFC 2675 section 4), or a datagram that the sender's network card was to
        // cut.
        let len = u16::from_be_bytes([l0, l1]);
        if len != 0 {
            c.limit(
                u32::from(len).checked_sub(8).ok_or(Skipped::Malformed(Layer::Udp))?,
                Layer::Udp,
            )?;
        }
        let inside = match (source_port, destination_port) {
            (_, VXLAN | VXLAN_LINUX) => Some(Next::Vxlan),
            (_, VXLAN_GPE) => Some(Next::VxlanGpe),
            (_, GENEVE) => Some(Next::Geneve),
            (_, GTP_U) => Some(Next::GtpU),
            (L2TP, _) | (_, L2TP) => Some(Next::L2tp),
            // Clients have any port: RFC 4380 section 5.
            (TEREDO, _) | (_, TEREDO) => Some(Next::Teredo),
            _ => None,
        };
        Ok((
            Transport::Udp {
                source_port,
                destination_port,
                length: len,
                checksum: u16::from_be_bytes([k0, k1]),
            },
            inside,
        ))
    }
}
