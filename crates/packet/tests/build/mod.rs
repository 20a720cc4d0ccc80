//! Packets for tests, from the inside outwards.
#![allow(dead_code, reason = "not every test needs every header")]

use oncewire_packet::LinkType;

/// The payload of all packets here.
pub(crate) const PAYLOAD: &[u8] =
    b"the payload, which is long enough to be cut in fragments of 16 and more bytes";

pub(crate) fn join(parts: &[&[u8]]) -> Vec<u8> {
    parts.concat()
}

fn be16(n: usize) -> [u8; 2] {
    u16::try_from(n).unwrap().to_be_bytes()
}

pub(crate) fn tcp(payload: &[u8]) -> Vec<u8> {
    let fixed = [0x12, 0x34, 0, 80, 0, 0, 1, 0, 0, 0, 2, 0, 0x70, 0x18, 0x40, 0, 0xab, 0xcd, 0, 0];
    join(&[&fixed, &[1, 1, 1, 1, 2, 4, 5, 0xb4], payload])
}

pub(crate) fn udp(port: u16, payload: &[u8]) -> Vec<u8> {
    join(&[&[0xc0, 0x00], &port.to_be_bytes(), &be16(payload.len() + 8), &[0xfe, 0xdc], payload])
}

pub(crate) fn ipv4_fragment(
    protocol: u8,
    id: u16,
    offset: usize,
    more: bool,
    payload: &[u8],
) -> Vec<u8> {
    let field = be16((offset / 8) | if more { 0x2000 } else { 0 });
    let length = be16(payload.len() + 20);
    let fixed = [
        &[0x45u8, 0xb8][..],
        &length,
        &id.to_be_bytes(),
        &field,
        &[63, protocol, 0, 0],
        &[10, 0, 0, 1],
        &[10, 0, 0, 2],
    ];
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

pub(crate) fn ipv6_fragment(
    next: u8,
    id: u32,
    offset: usize,
    more: bool,
    payload: &[u8],
) -> Vec<u8> {
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
    let words = usize::from(flags & 0xc000 != 0)
        + usize::from(flags & 0x2000 != 0)
        + usize::from(flags & 0x1000 != 0);
    let routing: &[u8] =
        if flags & 0x4000 != 0 { &[0, 2, 0, 4, 1, 2, 3, 4, 0, 0, 0, 0] } else { &[] };
    join(&[&flags.to_be_bytes(), &kind.to_be_bytes(), &vec![0; words * 4], routing, payload])
}

pub(crate) fn pptp(ppp: &[u8]) -> Vec<u8> {
    join(&[&[0x30, 0x81, 0x88, 0x0b], &be16(ppp.len()), &[0, 5], &[0, 0, 0, 1, 0, 0, 0, 2], ppp])
}

pub(crate) fn vxlan(frame: &[u8]) -> Vec<u8> {
    join(&[&[8, 0, 0, 0, 0, 1, 2, 0], frame])
}

/// A record of a netfilter log, in the byte order of `number`: a header attribute, a prefix that is
/// padded, the packet.
pub(crate) fn nflog(family: u8, number: fn(u16) -> [u8; 2], packet: &[u8]) -> Vec<u8> {
    let attribute = |kind: u16, value: &[u8]| {
        let padding = vec![0; value.len().next_multiple_of(4) - value.len()];
        join(&[&number(value.len() as u16 + 4), &number(kind), value, &padding])
    };
    let before = join(&[&attribute(1, &[8, 0, 3, 0]), &attribute(10, b"prefix\0")]);
    join(&[&[family, 0, 0, 5], &before, &attribute(9, packet)])
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

/// (link type, packet, its layers): each carries PAYLOAD in TCP or UDP.
// More than 100 lines: a table of cases.
pub(crate) fn packets() -> Vec<(LinkType, Vec<u8>, &'static str)> {
    use LinkType as L;
    let t4 = &ipv4(6, &tcp(PAYLOAD))[..];
    let t6 = &ipv6(6, &tcp(PAYLOAD))[..];
    let e4 = &ethernet(0x0800, t4)[..];
    let ip4 = |protocol, inside: &[u8]| ethernet(0x0800, &ipv4(protocol, inside));
    let ip6 = |next, inside: &[u8]| ethernet(0x86dd, &ipv6(next, inside));
    let over_udp = |port, inside: &[u8]| ethernet(0x0800, &ipv4(17, &udp(port, inside)));
    let hop = |next: u8| [next, 1, 1, 12, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    let ah = |next: u8| [&[next, 4, 0, 0][..], &[0; 20]].concat();
    let n = usize::next_multiple_of(8 + t4.len(), 4) - (8 + t4.len());
    let msdu =
        join(&[&[2; 12], &((8 + t4.len()) as u16).to_be_bytes(), &snap(0x0800, t4), &vec![0; n]]);
    vec![
        // Link types.
        (L::ETHERNET, e4.to_vec(), "Ethernet/IPv4/TCP"),
        (L::ETHERNET, ip4(17, &udp(53, PAYLOAD)), "Ethernet/IPv4/UDP"),
        (L::ETHERNET, ip6(6, &tcp(PAYLOAD)), "Ethernet/IPv6/TCP"),
        (L::ETHERNET, ieee802_3(&snap(0x0800, t4)), "Ethernet/LLC/IPv4/TCP"),
        (L::ETHERNET, ieee802_3(&join(&[&[6, 6, 3], t4])), "Ethernet/LLC/IPv4/TCP"),
        (L::RAW, t4.to_vec(), "IPv4/TCP"),
        (L::RAW, t6.to_vec(), "IPv6/TCP"),
        (L::DLT_RAW, t6.to_vec(), "IPv6/TCP"),
        (L::DLT_RAW_OPENBSD, t4.to_vec(), "IPv4/TCP"),
        (L::IPV4, t4.to_vec(), "IPv4/TCP"),
        (L::IPV6, t6.to_vec(), "IPv6/TCP"),
        (L::NULL, join(&[&[2, 0, 0, 0], t4]), "loopback/IPv4/TCP"),
        (L::NULL, join(&[&[0, 0, 0, 2], t4]), "loopback/IPv4/TCP"),
        (L::NULL, join(&[&[30, 0, 0, 0], t6]), "loopback/IPv6/TCP"),
        (L::NULL, join(&[&[28, 0, 0, 0], t6]), "loopback/IPv6/TCP"),
        (L::LOOP, join(&[&[0, 0, 0, 24], t6]), "loopback/IPv6/TCP"),
        (L::LINUX_SLL, sll(0x0800, t4), "SLL/IPv4/TCP"),
        (L::LINUX_SLL, sll(0x8100, &tag(0x86dd, t6)), "SLL/VLAN/IPv6/TCP"),
        (L::LINUX_SLL, sll(4, &snap(0x0800, t4)), "SLL/LLC/IPv4/TCP"),
        (L::LINUX_SLL2, sll2(0x86dd, t6), "SLL2/IPv6/TCP"),
        (L::PPP, join(&[&[0xff, 3, 0, 0x21], t4]), "PPP/IPv4/TCP"),
        (L::PPP, join(&[&[0x21], t4]), "PPP/IPv4/TCP"),
        (L::PPP, join(&[&[0, 0x57], t6]), "PPP/IPv6/TCP"),
        (L::PPP, join(&[&[0xff, 3, 2, 0x81], &mpls(1, t4)]), "PPP/MPLS/IPv4/TCP"),
        (L::PPP_HDLC, join(&[&[0xff, 3, 0, 0x21], t4]), "PPP/IPv4/TCP"),
        (L::PPP_HDLC, join(&[&[0x0f, 0, 8, 0], t4]), "Cisco HDLC/IPv4/TCP"),
        (L::PPP_WITH_DIR, join(&[&[1, 0xff, 3, 0, 0x21], t4]), "PPP/IPv4/TCP"),
        (L::PPP_ETHER, pppoe(&join(&[&[0, 0x21], t4])), "PPPoE/PPP/IPv4/TCP"),
        (L::C_HDLC, join(&[&[0x8f, 0, 0x86, 0xdd], t6]), "Cisco HDLC/IPv6/TCP"),
        (L::ATM_RFC1483, snap(0x0800, t4), "LLC/IPv4/TCP"),
        (L::IEEE802_11, ieee80211(0x0008, &[], &snap(0x0800, t4)), "802.11/LLC/IPv4/TCP"),
        (
            L::IEEE802_11,
            ieee80211(0x0388, &[2, 2, 2, 2, 2, 2, 0, 0], &snap(0x0800, t4)),
            "802.11/LLC/IPv4/TCP",
        ),
        (
            L::IEEE802_11,
            ieee80211(0x8088, &[0, 0, 1, 2, 3, 4], &snap(0x0800, t4)),
            "802.11/LLC/IPv4/TCP",
        ),
        (L::IEEE802_11, ieee80211(0x0088, &[0x80, 0], &msdu), "802.11/LLC/IPv4/TCP"),
        (
            L::IEEE802_11_RADIOTAP,
            radiotap(0, &ieee80211(0x0108, &[], &snap(0x0800, t4))),
            "radiotap/802.11/LLC/IPv4/TCP",
        ),
        (
            L::IEEE802_11_RADIOTAP,
            radiotap(0x20, &ieee80211(0x0088, &[0; 4], &snap(0x0800, t4))),
            "radiotap/802.11/LLC/IPv4/TCP",
        ),
        (
            L::IEEE802_11_PRISM,
            join(&[&[0; 144], &ieee80211(0x0008, &[], &snap(0x0800, t4))]),
            "Prism/802.11/LLC/IPv4/TCP",
        ),
        (
            L::IEEE802_11_AVS,
            join(&[
                &[0x80, 0x21, 0x10, 1, 0, 0, 0, 64],
                &[0; 56],
                &ieee80211(0x0008, &[], &snap(0x0800, t4)),
            ]),
            "AVS/802.11/LLC/IPv4/TCP",
        ),
        (L::PPI, join(&[&[0, 0, 12, 0, 1, 0, 0, 0, 9, 9, 9, 9], e4]), "PPI/Ethernet/IPv4/TCP"),
        // Tags, labels and sessions.
        (L::NFLOG, nflog(2, u16::to_le_bytes, t4), "NFLOG/IPv4/TCP"),
        (L::NFLOG, nflog(10, u16::to_be_bytes, t6), "NFLOG/IPv6/TCP"),
        (L::ETHERNET, ethernet(0x8100, &tag(0x0800, t4)), "Ethernet/VLAN/IPv4/TCP"),
        (
            L::ETHERNET,
            ethernet(0x88a8, &tag(0x8100, &tag(0x0800, t4))),
            "Ethernet/QinQ/VLAN/IPv4/TCP",
        ),
        (
            L::ETHERNET,
            ethernet(0x9100, &tag(0x8100, &tag(0x86dd, t6))),
            "Ethernet/QinQ/VLAN/IPv6/TCP",
        ),
        (
            L::ETHERNET,
            ethernet(0x88e7, &join(&[&[0, 0, 0, 1], e4])),
            "Ethernet/PBB/Ethernet/IPv4/TCP",
        ),
        (L::ETHERNET, ethernet(0x8847, &mpls(3, t4)), "Ethernet/MPLS/IPv4/TCP"),
        (L::ETHERNET, ethernet(0x8847, &mpls(1, t6)), "Ethernet/MPLS/IPv6/TCP"),
        (
            L::ETHERNET,
            ethernet(0x8847, &mpls(2, &join(&[&[0; 4], e4]))),
            "Ethernet/MPLS/pseudowire/Ethernet/IPv4/TCP",
        ),
        (L::ETHERNET, ethernet(0x8847, &mpls(2, e4)), "Ethernet/MPLS/Ethernet/IPv4/TCP"),
        (
            L::ETHERNET,
            ethernet(0x8864, &pppoe(&join(&[&[0, 0x57], t6]))),
            "Ethernet/PPPoE/PPP/IPv6/TCP",
        ),
        // Over IP.
        (L::ETHERNET, ip4(4, t4), "Ethernet/IPv4/IPIP/IPv4/TCP"),
        (L::ETHERNET, ip4(41, t6), "Ethernet/IPv4/6in4/IPv6/TCP"),
        (L::ETHERNET, ip6(41, t6), "Ethernet/IPv6/6in4/IPv6/TCP"),
        (L::ETHERNET, ip6(4, t4), "Ethernet/IPv6/IPIP/IPv4/TCP"),
        (
            L::ETHERNET,
            ip6(0, &join(&[&hop(43), &hop(60), &hop(135), &hop(6), &tcp(PAYLOAD)])),
            "Ethernet/IPv6/TCP",
        ),
        (L::ETHERNET, ipv6_atomic(), "Ethernet/IPv6/TCP"),
        (L::ETHERNET, ip4(51, &join(&[&ah(6), &tcp(PAYLOAD)])), "Ethernet/IPv4/AH/TCP"),
        (L::ETHERNET, ip6(51, &join(&[&ah(17), &udp(53, PAYLOAD)])), "Ethernet/IPv6/AH/UDP"),
        (L::ETHERNET, ip4(97, &join(&[&[0x30, 0], e4])), "Ethernet/IPv4/EtherIP/Ethernet/IPv4/TCP"),
        (L::ETHERNET, ip4(137, &mpls(1, t4)), "Ethernet/IPv4/MPLS-in-IP/MPLS/IPv4/TCP"),
        (L::ETHERNET, ip4(47, &gre(0, 0x0800, t4)), "Ethernet/IPv4/GRE/IPv4/TCP"),
        (L::ETHERNET, ip6(47, &gre(0xb000, 0x86dd, t6)), "Ethernet/IPv6/GRE/IPv6/TCP"),
        (L::ETHERNET, ip4(47, &gre(0x4000, 0x0800, t4)), "Ethernet/IPv4/GRE/IPv4/TCP"),
        (L::ETHERNET, ip4(47, &gre(0x2000, 0x6558, e4)), "Ethernet/IPv4/GRE/Ethernet/IPv4/TCP"),
        (
            L::ETHERNET,
            ip4(47, &pptp(&join(&[&[0xff, 3, 0, 0x21], t4]))),
            "Ethernet/IPv4/GRE/PPTP/PPP/IPv4/TCP",
        ),
        (L::ETHERNET, ip4(47, &gre(0, 0x88be, e4)), "Ethernet/IPv4/GRE/ERSPAN/Ethernet/IPv4/TCP"),
        (
            L::ETHERNET,
            ip4(47, &gre(0x1000, 0x88be, &join(&[&[0x10; 8], e4]))),
            "Ethernet/IPv4/GRE/ERSPAN/Ethernet/IPv4/TCP",
        ),
        (
            L::ETHERNET,
            ip4(47, &gre(0x1000, 0x22eb, &join(&[&[0; 12], e4]))),
            "Ethernet/IPv4/GRE/ERSPAN/Ethernet/IPv4/TCP",
        ),
        (
            L::ETHERNET,
            ip4(47, &gre(0x1000, 0x22eb, &join(&[&[0; 10], &[8, 1], &[0; 8], t4]))),
            "Ethernet/IPv4/GRE/ERSPAN/IPv4/TCP",
        ),
        // Over UDP.
        (L::ETHERNET, over_udp(4789, &vxlan(e4)), "Ethernet/IPv4/UDP/VXLAN/Ethernet/IPv4/TCP"),
        (L::ETHERNET, over_udp(8472, &vxlan(e4)), "Ethernet/IPv4/UDP/VXLAN/Ethernet/IPv4/TCP"),
        // Reserved bits are ignored: of a group policy, and of the last byte.
        (
            L::ETHERNET,
            over_udp(4789, &join(&[&[0x88, 0x40, 0, 9, 0, 1, 2, 0], e4])),
            "Ethernet/IPv4/UDP/VXLAN/Ethernet/IPv4/TCP",
        ),
        (
            L::ETHERNET,
            over_udp(4789, &join(&[&[0x0c, 1, 2, 3, 0, 1, 2, 0xff], e4])),
            "Ethernet/IPv4/UDP/VXLAN/Ethernet/IPv4/TCP",
        ),
        (
            L::ETHERNET,
            over_udp(4790, &join(&[&[0x0c, 0, 0, 2, 0, 0, 1, 0], t6])),
            "Ethernet/IPv4/UDP/VXLAN-GPE/IPv6/TCP",
        ),
        (
            L::ETHERNET,
            over_udp(6081, &geneve(0x6558, e4)),
            "Ethernet/IPv4/UDP/GENEVE/Ethernet/IPv4/TCP",
        ),
        (L::ETHERNET, over_udp(6081, &geneve(0x86dd, t6)), "Ethernet/IPv4/UDP/GENEVE/IPv6/TCP"),
        (L::ETHERNET, over_udp(2152, &gtp_u(t4)), "Ethernet/IPv4/UDP/GTP-U/IPv4/TCP"),
        (
            L::ETHERNET,
            over_udp(1701, &l2tp(&join(&[&[0xff, 3, 0, 0x21], t4]))),
            "Ethernet/IPv4/UDP/L2TP/PPP/IPv4/TCP",
        ),
        (L::ETHERNET, over_udp(3544, t6), "Ethernet/IPv4/UDP/Teredo/IPv6/TCP"),
        (
            L::ETHERNET,
            over_udp(3544, &join(&[&[0, 1, 0, 0], &[0; 9], &[0, 0, 1, 2, 3, 4, 5, 6], t6])),
            "Ethernet/IPv4/UDP/Teredo/IPv6/TCP",
        ),
        // A tunnel in a tunnel.
        (
            L::ETHERNET,
            over_udp(
                4789,
                &vxlan(&ethernet(0x8100, &tag(0x0800, &ipv4(17, &udp(2152, &gtp_u(t6)))))),
            ),
            "Ethernet/IPv4/UDP/VXLAN/Ethernet/VLAN/IPv4/UDP/GTP-U/IPv6/TCP",
        ),
    ]
}

fn ipv6_atomic() -> Vec<u8> {
    ethernet(0x86dd, &ipv6_fragment(6, 1, 0, false, &tcp(PAYLOAD)))
}
