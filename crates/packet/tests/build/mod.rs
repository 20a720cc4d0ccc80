//! Packets for tests, from the inside outwards.
#![allow(dead_code, reason = "not every test needs every header")]

/// The payload of all packets here.
pub(crate) const PAYLOAD: &[u8] = b"the payload, which is long enough to be cut in fragments of 16 and more bytes";

pub(crate) fn join(parts: &[&[u8]]) -> Vec<u8> {
    parts.concat()
}

fn be16(n: usize) -> [u8; 2] {
    u16::try_from(n).unwrap().to_be_bytes()
}

pub(crate) fn tcp(payload: &[u8]) -> Vec<u8> {
    let fixed = [0x12, 0x34, 0, 80, 0, 0, 1, 0, 0, 0, 2, 0, 0x70, 0x18, 0x40, 0, 0, 0, 0, 0];
    join(&[&fixed, &[1, 1, 1, 1, 2, 4, 5, 0xb4], payload])
}

pub(crate) fn udp(port: u16, payload: &[u8]) -> Vec<u8> {
    join(&[&[0xc0, 0x00], &port.to_be_bytes(), &be16(payload.len() + 8), &[0, 0], payload])
}

pub(crate) fn ipv4_fragment(protocol: u8, id: u16, offset: usize, more: bool, payload: &[u8]) -> Vec<u8> {
    let field = be16(offset / 8 | if more { 0x2000 } else { 0 });
    let length = be16(payload.len() + 20);
    let fixed = [&[0x45u8, 0xb8][..], &length, &id.to_be_bytes(), &field, &[63, protocol, 0, 0], &[10, 0, 0, 1], &[10, 0, 0, 2]];
    join(&[&fixed.concat(), payload])
}

pub(crate) fn ipv4(protocol: u8, payload: &[u8]) -> Vec<u8> {
    ipv4_fragment(protocol, 7, 0, false, payload)
}

pub(crate) fn ipv6(next: u8, payload: &[u8]) -> Vec<u8> {
    let mut addresses = [0; 32];
    (addresses[0], addresses[15], addresses[16], addresses[31]) = (0xfd, 1, 0xfd, 2);
    join(&[&[0x6b, 0x80, 0, 0], &be16(payload.len()), &[next, 63], &addresses, payload])
}

pub(crate) fn ipv6_fragment(next: u8, id: u32, offset: usize, more: bool, payload: &[u8]) -> Vec<u8> {
    ipv6(44, &join(&[&[next, 0], &be16(offset | usize::from(more)), &id.to_be_bytes(), payload]))
}

pub(crate) fn ethernet(kind: u16, payload: &[u8]) -> Vec<u8> {
    join(&[&[2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2], &kind.to_be_bytes(), payload])
}

/// IEEE 802.3 with a length.
pub(crate) fn ieee802_3(payload: &[u8]) -> Vec<u8> {
    ethernet(u16::try_from(payload.len()).unwrap(), payload)
}

pub(crate) fn snap(kind: u16, payload: &[u8]) -> Vec<u8> {
    join(&[&[0xaa, 0xaa, 3, 0, 0, 0], &kind.to_be_bytes(), payload])
}

pub(crate) fn tag(kind: u16, payload: &[u8]) -> Vec<u8> {
    join(&[&[0x20, 0x2a], &kind.to_be_bytes(), payload])
}

pub(crate) fn mpls(labels: usize, payload: &[u8]) -> Vec<u8> {
    let mut stack = [0, 0x01, 0x10, 64].repeat(labels);
    stack[labels * 4 - 2] |= 1;
    join(&[&stack, payload])
}

pub(crate) fn pppoe(ppp: &[u8]) -> Vec<u8> {
    join(&[&[0x11, 0, 0, 9], &be16(ppp.len()), ppp])
}

/// `flags` of version 0; the optional fields that they ask for are zero.
pub(crate) fn gre(flags: u16, kind: u16, payload: &[u8]) -> Vec<u8> {
    let words = usize::from(flags & 0xc000 != 0) + usize::from(flags & 0x2000 != 0) + usize::from(flags & 0x1000 != 0);
    let routing: &[u8] = if flags & 0x4000 != 0 { &[0, 2, 0, 4, 1, 2, 3, 4, 0, 0, 0, 0] } else { &[] };
    join(&[&flags.to_be_bytes(), &kind.to_be_bytes(), &vec![0; words * 4], routing, payload])
}

pub(crate) fn pptp(ppp: &[u8]) -> Vec<u8> {
    join(&[&[0x30, 0x81, 0x88, 0x0b], &be16(ppp.len()), &[0, 5], &[0, 0, 0, 1, 0, 0, 0, 2], ppp])
}

pub(crate) fn vxlan(frame: &[u8]) -> Vec<u8> {
    join(&[&[8, 0, 0, 0, 0, 1, 2, 0], frame])
}

pub(crate) fn geneve(kind: u16, inside: &[u8]) -> Vec<u8> {
    join(&[&[2, 0], &kind.to_be_bytes(), &[0, 1, 2, 0], &[1, 2, 3, 4, 5, 6, 7, 8], inside])
}

/// With a sequence number and two extension headers.
pub(crate) fn gtp_u(inside: &[u8]) -> Vec<u8> {
    let options = [0, 9, 0, 0x85, 1, 0, 0, 0x40, 2, 1, 2, 3, 4, 5, 6, 0];
    join(&[&[0x36, 255], &be16(inside.len() + options.len()), &[0, 0, 0, 1], &options, inside])
}

pub(crate) fn l2tp(ppp: &[u8]) -> Vec<u8> {
    join(&[&[0x40, 2], &be16(ppp.len() + 8), &[0, 1, 0, 2], ppp])
}

/// A frame of IEEE 802.11 with `control`, and behind its header, of `more` bytes beyond 24, `body`.
pub(crate) fn ieee80211(control: u16, more: &[u8], body: &[u8]) -> Vec<u8> {
    join(&[&control.to_le_bytes(), &[0, 0], &[2; 18], &[0x30, 0], more, body])
}

/// With a time and `flags`.
pub(crate) fn radiotap(flags: u8, frame: &[u8]) -> Vec<u8> {
    join(&[&[0, 0, 17, 0], &[3, 0, 0, 0], &[9; 8], &[flags], frame])
}

pub(crate) fn sll(kind: u16, payload: &[u8]) -> Vec<u8> {
    join(&[&[0, 0, 0, 1, 0, 6, 2, 0, 0, 0, 0, 1, 0, 0], &kind.to_be_bytes(), payload])
}

pub(crate) fn sll2(kind: u16, payload: &[u8]) -> Vec<u8> {
    join(&[&kind.to_be_bytes(), &[0, 0, 0, 0, 0, 2, 0, 1, 0, 6, 2, 0, 0, 0, 0, 1, 0, 0], payload])
}
