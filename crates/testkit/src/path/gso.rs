//! Packets of a tun device with generic segmentation offload: a virtio header, then an IP packet or
//! a run of TCP or UDP segments that share one set of headers. Runs are cut between segments, never
//! joined.

/// Length of the header before each packet (`struct virtio_net_hdr`).
pub(crate) const HEADER: usize = 10;
const GSO_NONE: u8 = 0;
const GSO_TCP4: u8 = 1;
const GSO_TCP6: u8 = 4;
const GSO_UDP: u8 = 5;
/// Flag within the type of a run: its first segment carries CWR.
const GSO_ECN: u8 = 0x80;
const TCP_FIN_PSH: u8 = 0x09;
const TCP_CWR: u8 = 0x80;

/// The segments of a buffer from the tun device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Run {
    /// Length of the IP and transport headers that each segment carries.
    headers: usize,
    /// Where the transport header starts in the IP packet.
    transport: usize,
    /// Payload bytes in a segment; the last may have fewer.
    size: usize,
    payload: usize,
    udp: bool,
}

impl Run {
    /// Parses the headers. Any buffer that is not a known kind of run counts as one segment.
    pub(crate) fn of(buffer: &[u8]) -> Run {
        let len = buffer.len().saturating_sub(HEADER);
        Run::parse(buffer).unwrap_or(Run {
            headers: 0,
            transport: 0,
            size: len.max(1),
            payload: len,
            udp: false,
        })
    }

    fn parse(buffer: &[u8]) -> Option<Run> {
        let (header, packet) = buffer.split_at_checked(HEADER)?;
        let kind = header[1] & !GSO_ECN;
        let size = usize::from(u16::from_ne_bytes([header[4], header[5]]));
        let transport = usize::from(u16::from_ne_bytes([header[6], header[7]]));
        if size == 0 {
            return None;
        }
        let (udp, headers) = match kind {
            GSO_TCP4 | GSO_TCP6 => {
                (false, transport + usize::from(*packet.get(transport + 12)? >> 4) * 4)
            }
            GSO_UDP => (true, transport + 8),
            _ => return None,
        };
        let (ip, least) =
            (if *packet.first()? >> 4 == 4 { 20 } else { 40 }, if udp { 8 } else { 20 });
        if transport < ip || headers < transport + least {
            return None;
        }
        let payload = packet.len().checked_sub(headers)?;
        Some(Run { headers, transport, size, payload, udp })
    }

    /// Number of segments.
    pub(crate) fn segments(&self) -> usize {
        self.payload.div_ceil(self.size).max(1)
    }

    /// Bytes of segments `from..to` on the wire, each with its headers.
    pub(crate) fn wire_bytes(&self, from: usize, to: usize) -> usize {
        let payload = (to * self.size).min(self.payload) - (from * self.size).min(self.payload);
        payload + (to - from) * self.headers
    }

    /// A buffer with segments `from..to` of `buffer` only.
    pub(crate) fn cut(&self, buffer: &[u8], from: usize, to: usize) -> Vec<u8> {
        let count = self.segments();
        if from == 0 && to == count {
            return buffer.to_vec();
        }
        let start = from * self.size;
        let end = (to * self.size).min(self.payload);
        let payload = HEADER + self.headers;
        let mut out = Vec::with_capacity(payload + end - start);
        out.extend_from_slice(&buffer[..payload]);
        out.extend_from_slice(&buffer[payload + start..payload + end]);
        if to - from == 1 {
            // A single segment is not a run. Its checksum is still left to the receiver.
            out[1] = GSO_NONE;
            out[4..6].fill(0);
        }
        let packet = &mut out[HEADER..];
        let total = packet.len();
        let transport_len = total - self.transport;
        if packet[0] >> 4 == 4 {
            packet[2..4].copy_from_slice(&(total as u16).to_be_bytes());
            let id = u16::from_be_bytes([packet[4], packet[5]]).wrapping_add(from as u16);
            packet[4..6].copy_from_slice(&id.to_be_bytes());
            packet[10..12].fill(0);
            let sum = fold(sum(&packet[..self.transport.min(usize::from(packet[0] & 15) * 4)], 0));
            packet[10..12].copy_from_slice(&(!sum).to_be_bytes());
        } else {
            packet[4..6].copy_from_slice(&((total - 40) as u16).to_be_bytes());
        }
        if self.udp {
            packet[self.transport + 4..self.transport + 6]
                .copy_from_slice(&(transport_len as u16).to_be_bytes());
        } else {
            let at = self.transport + 4;
            let sequence =
                u32::from_be_bytes([packet[at], packet[at + 1], packet[at + 2], packet[at + 3]]);
            packet[at..at + 4].copy_from_slice(&sequence.wrapping_add(start as u32).to_be_bytes());
            if to < count {
                packet[self.transport + 13] &= !TCP_FIN_PSH;
            }
            if from > 0 {
                packet[self.transport + 13] &= !TCP_CWR;
                out[1] &= !GSO_ECN;
            }
        }
        self.seed_checksum(&mut out[HEADER..], transport_len);
        out
    }

    /// Writes the checksum of the pseudo-header, which the receiver completes. It includes the
    /// length, which has changed.
    fn seed_checksum(&self, packet: &mut [u8], transport_len: usize) {
        let (addresses, protocol) = if packet[0] >> 4 == 4 {
            (12..20, packet[9])
        } else {
            (8..40, if self.udp { 17 } else { 6 })
        };
        let seed = fold(sum(&packet[addresses], u64::from(protocol) + transport_len as u64));
        let at = self.transport + if self.udp { 6 } else { 16 };
        packet[at..at + 2].copy_from_slice(&seed.to_be_bytes());
    }
}

fn sum(bytes: &[u8], start: u64) -> u64 {
    bytes
        .chunks_exact(2)
        .fold(start, |sum, pair| sum + u64::from(u16::from_be_bytes([pair[0], pair[1]])))
}

fn fold(mut sum: u64) -> u16 {
    while sum > 0xFFFF {
        sum = (sum >> 16) + (sum & 0xFFFF);
    }
    sum as u16
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tcp_run(payload: usize, size: u16) -> Vec<u8> {
        let mut b = vec![0; HEADER + 40 + payload];
        b[0] = 1;
        b[1] = GSO_TCP4;
        b[4..6].copy_from_slice(&size.to_ne_bytes());
        b[6..8].copy_from_slice(&20u16.to_ne_bytes());
        b[8..10].copy_from_slice(&16u16.to_ne_bytes());
        let p = &mut b[HEADER..];
        p[0] = 0x45;
        p[9] = 6;
        p[12..20].copy_from_slice(&[10, 0, 0, 1, 10, 0, 0, 2]);
        p[24..28].copy_from_slice(&u32::MAX.to_be_bytes());
        p[32] = 0x50;
        p[33] = 0x18;
        for (i, byte) in p[40..].iter_mut().enumerate() {
            *byte = i as u8;
        }
        b
    }

    #[test]
    fn runs_are_cut_between_segments() {
        let buffer = tcp_run(2500, 1000);
        let run = Run::of(&buffer);
        assert_eq!(run.segments(), 3);
        assert_eq!(run.wire_bytes(0, 3), 2500 + 120);
        assert_eq!(run.wire_bytes(2, 3), 540);
        assert_eq!(run.cut(&buffer, 0, 3), buffer);
        let last = run.cut(&buffer, 2, 3);
        assert_eq!(last.len(), HEADER + 540);
        assert_eq!(last[1], GSO_NONE);
        assert_eq!(&last[HEADER + 40..], &buffer[HEADER + 2040..]);
        let p = &last[HEADER..];
        assert_eq!(u32::from_be_bytes([p[24], p[25], p[26], p[27]]), 1999);
        assert_eq!(u16::from_be_bytes([p[2], p[3]]), 540);
        assert_eq!(fold(sum(&p[..20], 0)), 0xFFFF);
        assert_eq!(p[33], 0x18);
        let first = run.cut(&buffer, 0, 2);
        assert_eq!((first[1], first[HEADER + 33]), (GSO_TCP4, 0x10));
        assert_eq!(first.len(), HEADER + 2040);
    }

    #[test]
    fn anything_else_is_one_segment() {
        for buffer in
            [&[0u8; 0][..], &[0; 5], &[0; HEADER + 60], &[255; HEADER + 3], &[255; HEADER + 300]]
        {
            let run = Run::of(buffer);
            assert_eq!(run.segments(), 1, "{buffer:?}");
            assert_eq!(run.wire_bytes(0, 1), buffer.len().saturating_sub(HEADER));
            assert_eq!(run.cut(buffer, 0, 1), buffer);
        }
        let mut short = tcp_run(10, 1000);
        short.truncate(HEADER + 30);
        assert_eq!(Run::of(&short).segments(), 1);
    }
}
