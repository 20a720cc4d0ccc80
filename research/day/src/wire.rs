//! Frames with valid checksums, and the capture file.

use std::io::{self, Write};
use std::net::IpAddr;

/// Largest IP packet on this Ethernet, in bytes.
pub(crate) const MTU: usize = 1500;
/// Size of an Ethernet header, in bytes.
pub(crate) const ETHERNET: usize = 14;

pub(crate) const ICMP: u8 = 1;
pub(crate) const TCP: u8 = 6;
pub(crate) const UDP: u8 = 17;
pub(crate) const ICMP6: u8 = 58;

pub(crate) const FIN: u8 = 1;
pub(crate) const SYN: u8 = 2;
pub(crate) const RST: u8 = 4;
pub(crate) const PSH: u8 = 8;
pub(crate) const ACK: u8 = 16;

/// The Internet checksum (RFC 1071) of the concatenated `parts`. All but the last must have even
/// length.
pub(crate) fn checksum(parts: &[&[u8]]) -> u16 {
    let mut sum = 0u64;
    for part in parts {
        let (words, rest) = part.as_chunks::<2>();
        sum += words.iter().map(|&word| u64::from(u16::from_be_bytes(word))).sum::<u64>();
        sum += rest.first().map_or(0, |&byte| u64::from(byte) << 8);
    }
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}

/// Endpoints of a packet, and its IP identification.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Route {
    pub(crate) from: IpAddr,
    pub(crate) to: IpAddr,
    pub(crate) id: u16,
    /// Hop limit at the tap.
    pub(crate) ttl: u8,
}

/// Sum over the pseudo header and `parts`, for TCP, UDP and ICMPv6.
fn transport_checksum(route: Route, protocol: u8, parts: &[&[u8]]) -> u16 {
    let len: usize = parts.iter().map(|part| part.len()).sum();
    let mut pseudo = Vec::with_capacity(40);
    match (route.from, route.to) {
        (IpAddr::V4(from), IpAddr::V4(to)) => {
            pseudo.extend(from.octets());
            pseudo.extend(to.octets());
            pseudo.extend([0, protocol]);
            pseudo.extend((len as u16).to_be_bytes());
        }
        (IpAddr::V6(from), IpAddr::V6(to)) => {
            pseudo.extend(from.octets());
            pseudo.extend(to.octets());
            pseudo.extend((len as u32).to_be_bytes());
            pseudo.extend([0, 0, 0, protocol]);
        }
        _ => unreachable!("both ends of a route are of one family"),
    }
    let mut all: Vec<&[u8]> = vec![&pseudo];
    all.extend(parts);
    checksum(&all)
}

/// A TCP segment. `options` is a multiple of 4 bytes.
pub(crate) struct Segment<'a> {
    pub(crate) ports: (u16, u16),
    pub(crate) seq: u32,
    pub(crate) ack: u32,
    pub(crate) flags: u8,
    pub(crate) options: &'a [u8],
    pub(crate) payload: &'a [u8],
}

/// The frame of a TCP segment.
pub(crate) fn tcp(route: Route, segment: &Segment<'_>) -> Vec<u8> {
    let mut header = Vec::with_capacity(40);
    header.extend(segment.ports.0.to_be_bytes());
    header.extend(segment.ports.1.to_be_bytes());
    header.extend(segment.seq.to_be_bytes());
    header.extend((if segment.flags & ACK != 0 { segment.ack } else { 0 }).to_be_bytes());
    header.extend([((5 + segment.options.len() / 4) << 4) as u8, segment.flags]);
    header.extend(if segment.flags & RST != 0 { [0, 0] } else { 0xfaf0u16.to_be_bytes() });
    header.extend([0; 4]);
    header.extend(segment.options);
    let sum = transport_checksum(route, TCP, &[&header, segment.payload]);
    header[16..18].copy_from_slice(&sum.to_be_bytes());
    ip(route, TCP, &[&header, segment.payload])
}

/// The frame of a UDP datagram.
pub(crate) fn udp(route: Route, ports: (u16, u16), payload: &[u8]) -> Vec<u8> {
    let mut header = Vec::with_capacity(8);
    header.extend(ports.0.to_be_bytes());
    header.extend(ports.1.to_be_bytes());
    header.extend((8 + payload.len() as u16).to_be_bytes());
    header.extend([0; 2]);
    // A checksum of 0 is sent as all ones, since 0 means "no checksum" (RFC 768).
    let sum = match transport_checksum(route, UDP, &[&header, payload]) {
        0 => 0xffff,
        sum => sum,
    };
    header[6..8].copy_from_slice(&sum.to_be_bytes());
    ip(route, UDP, &[&header, payload])
}

/// The frame of an ICMP message: type, code, and the bytes after the checksum. The addresses
/// determine the version.
pub(crate) fn icmp(route: Route, kind: u8, code: u8, rest: &[u8]) -> Vec<u8> {
    let mut header = vec![kind, code, 0, 0];
    let (protocol, sum) = match route.from {
        IpAddr::V4(_) => (ICMP, checksum(&[&header, rest])),
        IpAddr::V6(_) => (ICMP6, transport_checksum(route, ICMP6, &[&header, rest])),
    };
    header[2..4].copy_from_slice(&sum.to_be_bytes());
    ip(route, protocol, &[&header, rest])
}

/// Whether an address belongs to the site.
pub(crate) fn is_inside(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => address.octets()[..2] == [10, 20],
        IpAddr::V6(address) => address.segments()[..3] == [0x2001, 0xdb8, 0x20],
    }
}

/// The frame of an IP packet. "Do not fragment" is set unless the packet is larger than the MTU.
fn ip(route: Route, protocol: u8, parts: &[&[u8]]) -> Vec<u8> {
    let len: usize = parts.iter().map(|part| part.len()).sum();
    let mut frame = Vec::with_capacity(ETHERNET + 40 + len);
    // There is one router on either side of the tap; the source address determines the side.
    let (inside, outside) = ([2, 0, 0, 0, 0, 1], [2, 0, 0, 0, 0, 2]);
    let outward = is_inside(route.from);
    frame.extend(if outward { outside } else { inside });
    frame.extend(if outward { inside } else { outside });
    match (route.from, route.to) {
        (IpAddr::V4(from), IpAddr::V4(to)) => {
            frame.extend([8, 0, 0x45, 0]);
            frame.extend((20 + len as u16).to_be_bytes());
            frame.extend(route.id.to_be_bytes());
            frame.extend(if 20 + len > MTU { [0, 0] } else { [0x40, 0] });
            frame.extend([route.ttl, protocol, 0, 0]);
            frame.extend(from.octets());
            frame.extend(to.octets());
            sum_ipv4(&mut frame);
        }
        (IpAddr::V6(from), IpAddr::V6(to)) => {
            frame.extend([0x86, 0xdd, 0x60, 0, 0, 0]);
            frame.extend((len as u16).to_be_bytes());
            frame.extend([protocol, route.ttl]);
            frame.extend(from.octets());
            frame.extend(to.octets());
        }
        _ => unreachable!("both ends of a route are of one family"),
    }
    parts.iter().for_each(|part| frame.extend_from_slice(part));
    frame
}

fn sum_ipv4(frame: &mut [u8]) {
    let header = &mut frame[ETHERNET..ETHERNET + 20];
    header[10..12].fill(0);
    let sum = checksum(&[header]);
    header[10..12].copy_from_slice(&sum.to_be_bytes());
}

/// Splits the frame of an IPv4 packet into fragments of at most `mtu` bytes (RFC 791, section 3.2).
/// IPv6 frames are returned unchanged.
pub(crate) fn fragments(frame: Vec<u8>, mtu: usize) -> Vec<Vec<u8>> {
    let len = frame.len() - ETHERNET;
    if len <= mtu || frame[12..14] != [8, 0] {
        return vec![frame];
    }
    let (head, body) = frame.split_at(ETHERNET + 20);
    let step = (mtu - 20) / 8 * 8;
    let count = body.len().div_ceil(step);
    body.chunks(step)
        .enumerate()
        .map(|(i, part)| {
            let mut piece = [head, part].concat();
            let more = if i + 1 < count { 0x2000 } else { 0 };
            piece[16..18].copy_from_slice(&(20 + part.len() as u16).to_be_bytes());
            piece[20..22].copy_from_slice(&(more | (i * step / 8) as u16).to_be_bytes());
            sum_ipv4(&mut piece);
            piece
        })
        .collect()
}

/// Writes a capture: libpcap's format, Ethernet, microseconds.
pub(crate) struct Pcap<W> {
    out: W,
    /// Seconds since the Unix epoch at time 0.
    epoch: u64,
    last: u64,
}

impl<W: Write> Pcap<W> {
    pub(crate) fn new(mut out: W, epoch: u64) -> io::Result<Pcap<W>> {
        let mut header = Vec::with_capacity(24);
        header.extend(0xa1b2_c3d4u32.to_le_bytes());
        header.extend(2u16.to_le_bytes());
        header.extend(4u16.to_le_bytes());
        header.extend([0; 8]);
        header.extend(0x4_0000u32.to_le_bytes());
        header.extend(1u32.to_le_bytes());
        out.write_all(&header)?;
        Ok(Pcap { out, epoch, last: 0 })
    }

    /// Appends a frame seen `nanos` nanoseconds after time 0.
    pub(crate) fn write(&mut self, nanos: u64, frame: &[u8]) -> io::Result<()> {
        assert!(nanos >= self.last, "frames are written in the order of time");
        self.last = nanos;
        let mut header = [0; 16];
        let fields = [
            self.epoch + nanos / 1_000_000_000,
            nanos / 1000 % 1_000_000,
            frame.len() as u64,
            frame.len() as u64,
        ];
        for (bytes, field) in header.as_chunks_mut::<4>().0.iter_mut().zip(fields) {
            *bytes = (field as u32).to_le_bytes();
        }
        self.out.write_all(&header)?;
        self.out.write_all(frame)
    }

    pub(crate) fn finish(mut self) -> io::Result<W> {
        self.out.flush()?;
        Ok(self.out)
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// Parses a frame and verifies its checksums: protocol, addresses, transport bytes.
    pub(crate) fn open(frame: &[u8]) -> (u8, IpAddr, IpAddr, &[u8]) {
        let packet = &frame[ETHERNET..];
        let address = |bytes: &[u8]| match bytes.len() {
            4 => IpAddr::from(<[u8; 4]>::try_from(bytes).unwrap()),
            _ => IpAddr::from(<[u8; 16]>::try_from(bytes).unwrap()),
        };
        let (protocol, from, to, rest) = match packet[0] >> 4 {
            4 => {
                assert_eq!(checksum(&[&packet[..20]]), 0, "IPv4 header");
                assert_eq!(usize::from(u16::from_be_bytes([packet[2], packet[3]])), packet.len());
                (packet[9], address(&packet[12..16]), address(&packet[16..20]), &packet[20..])
            }
            _ => {
                assert_eq!(
                    usize::from(u16::from_be_bytes([packet[4], packet[5]])) + 40,
                    packet.len()
                );
                (packet[6], address(&packet[8..24]), address(&packet[24..40]), &packet[40..])
            }
        };
        if protocol != ICMP {
            assert_eq!(
                transport_checksum(Route { from, to, id: 0, ttl: 0 }, protocol, &[rest]),
                0,
                "transport"
            );
        }
        (protocol, from, to, rest)
    }

    fn route(six: bool) -> Route {
        let (from, to) =
            if six { ("2001:db8:20::5", "2001:db8:101::9") } else { ("10.20.0.5", "198.18.0.9") };
        Route { from: from.parse().unwrap(), to: to.parse().unwrap(), id: 7, ttl: 60 }
    }

    #[test]
    fn checksum_of_the_rfc() {
        // RFC 1071, section 3: the sum of these is ddf2.
        assert_eq!(checksum(&[&[0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7]]), !0xddf2);
        assert_eq!(checksum(&[&[0x12]]), !0x1200);
    }

    #[test]
    fn frames_carry_valid_checksums() {
        for six in [false, true] {
            let payload: Vec<u8> = (0..=254).collect();
            let segment = Segment {
                ports: (1, 2),
                seq: 3,
                ack: 4,
                flags: ACK | PSH,
                options: &[1, 1, 1, 1],
                payload: &payload,
            };
            let frame = tcp(route(six), &segment);
            let (protocol, from, _, rest) = open(&frame);
            assert_eq!((protocol, from, &rest[24..]), (TCP, route(six).from, &payload[..]));
            assert_eq!(frame[..6], [2, 0, 0, 0, 0, 2], "outward");
            assert_eq!(open(&udp(route(six), (53, 5353), b"odd")).0, UDP);
            let echo = icmp(route(six), 8, 0, &[0, 1, 0, 2, 9]);
            let (protocol, _, _, rest) = open(&echo);
            assert!(protocol == ICMP6 || checksum(&[rest]) == 0);
        }
    }

    #[test]
    fn fragments_hold_the_packet() {
        let payload: Vec<u8> = (0..3000u32).map(|i| i as u8).collect();
        let whole = udp(route(false), (53, 9), &payload);
        let pieces = fragments(whole.clone(), MTU);
        assert_eq!(pieces.len(), 3);
        let mut body = Vec::<u8>::new();
        for (i, piece) in pieces.iter().enumerate() {
            assert!(piece.len() <= ETHERNET + MTU && checksum(&[&piece[14..34]]) == 0);
            let field = u16::from_be_bytes([piece[20], piece[21]]);
            assert_eq!(usize::from(field & 0x1fff) * 8, body.len());
            assert_eq!(field & 0x2000 != 0, i < 2);
            body.extend(&piece[34..]);
        }
        assert_eq!(body, whole[34..]);
    }
}
