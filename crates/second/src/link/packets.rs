//! Packets from headers and payloads: section 4.1.

use super::fields::Parsed;
use super::headers::{Places, Restored};
use super::records::SegmentSection;

const TCP: u8 = 6;
const UDP: u8 = 17;

/// Where the parts of headers are.
pub(super) struct Layout {
    pub is_ipv4: bool,
    /// What follows IP and its extension headers.
    protocol: u8,
    transport: usize,
    is_fragment: bool,
}

impl Layout {
    pub(super) fn of(headers: &[u8]) -> Parsed<Layout> {
        const SHORT: &str = "headers cut short";
        match headers.first().ok_or(SHORT)? >> 4 {
            4 => {
                let transport = usize::from(headers[0] & 15) * 4;
                if transport < 20 || headers.len() < transport {
                    return Err(SHORT);
                }
                let is_fragment = (headers[6] & 0x3f) | headers[7] != 0;
                Ok(Layout { is_ipv4: true, protocol: headers[9], transport, is_fragment })
            }
            6 => {
                if headers.len() < 40 {
                    return Err(SHORT);
                }
                let (mut protocol, mut transport) = (headers[6], 40);
                // Hop-by-hop options, routing, destination options.
                while matches!(protocol, 0 | 43 | 60) {
                    let extension = headers.get(transport..transport + 2).ok_or(SHORT)?;
                    protocol = extension[0];
                    transport += 8 * usize::from(extension[1]) + 8;
                }
                if headers.len() < transport {
                    return Err(SHORT);
                }
                Ok(Layout { is_ipv4: false, protocol, transport, is_fragment: protocol == 44 })
            }
            _ => Err("not IP"),
        }
    }

    pub(super) fn tcp(&self) -> Option<usize> {
        (self.protocol == TCP && !self.is_fragment).then_some(self.transport)
    }

    /// Where the checksum of TCP or UDP is, if the packet has one.
    pub(super) fn checksum(&self) -> Option<usize> {
        match self.protocol {
            _ if self.is_fragment => None,
            TCP => Some(self.transport + 16),
            UDP => Some(self.transport + 6),
            _ => None,
        }
    }

    /// Is there a whole header of TCP or UDP?
    fn has_transport(&self, headers: &[u8]) -> bool {
        let len = match self.protocol {
            _ if self.is_fragment => return false,
            TCP => match headers.get(self.transport + 12) {
                Some(offset) if offset >> 4 >= 5 => usize::from(offset >> 4) * 4,
                _ => return false,
            },
            UDP => 8,
            _ => return false,
        };
        headers.len() >= self.transport + len
    }
}

/// RFC 1071, not complemented.
fn sum(bytes: &[u8]) -> u16 {
    let words =
        bytes.chunks(2).map(|two| u64::from(two[0]) << 8 | u64::from(*two.get(1).unwrap_or(&0)));
    let mut sum: u64 = words.sum();
    while sum >> 16 != 0 {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum as u16
}

/// The fields that differ from packet to packet: section 4.5.
pub fn places(header: &[u8]) -> Places {
    let Ok(layout) = Layout::of(header) else { return Places::default() };
    let is_whole = layout.has_transport(header);
    let tcp = layout.tcp().filter(|_| is_whole);
    let within_tcp = |offset: usize| tcp.map(|tcp| tcp + offset);
    Places {
        sequence: within_tcp(4),
        acknowledgment: within_tcp(8),
        window: within_tcp(14),
        flags: within_tcp(13),
        identification: layout.is_ipv4.then_some(4),
        timestamps: tcp.and_then(|tcp| timestamps(header, tcp)),
        checksum: layout.checksum().filter(|_| is_whole),
    }
}

/// Where the value of the first timestamps option is.
fn timestamps(header: &[u8], tcp: usize) -> Option<usize> {
    let end = tcp + usize::from(header.get(tcp + 12)? >> 4) * 4;
    let options = header.get(..end.min(header.len()))?;
    let mut at = tcp + 20;
    loop {
        match *options.get(at)? {
            0 => return None,
            1 => at += 1,
            kind => {
                let len = usize::from(*options.get(at + 1)?);
                if kind == 8 && len == 10 && at + 10 <= options.len() {
                    return Some(at + 2);
                }
                if len < 2 {
                    return None;
                }
                at += len;
            }
        }
    }
}

/// A packet, or a segment of a run, with the header that its record has.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Delivery {
    pub header: Restored,
    pub is_open: bool,
    /// Number in its run, size of the run's segments, and whether it is the run's last.
    pub segment: Option<(u64, u64, bool)>,
    pub payload: Vec<u8>,
}

/// What the rest of a record must be for its header.
pub(super) fn check(
    header: &Restored,
    is_open: bool,
    segments: Option<SegmentSection>,
) -> Parsed<()> {
    if is_open && header.form == 1 {
        return Err("an open checksum as it is");
    }
    if segments.is_some() && header.form != 2 {
        return Err("segments with headers of another form");
    }
    Ok(())
}

/// What a record delivers.
pub(super) fn deliveries(
    header: &Restored,
    is_open: bool,
    segments: Option<SegmentSection>,
    payload: &[u8],
) -> Parsed<Vec<Delivery>> {
    if header.bytes.len() + payload.len() > 65_535 {
        return Err("headers and payload are too long");
    }
    let delivery = |segment, payload: &[u8]| Delivery {
        header: header.clone(),
        is_open,
        segment,
        payload: payload.to_vec(),
    };
    let Some(section) = segments else { return Ok(vec![delivery(None, payload)]) };
    let last = section.before + section.here - 1;
    let numbered = (section.before..).zip(section.cut(payload)?);
    let segment = |i: u64| Some((i, section.size, section.ends && i == last));
    Ok(numbered.map(|(i, payload)| delivery(segment(i), payload)).collect())
}

impl Delivery {
    /// The packet as it leaves the link and its kernel: all checksums are completed.
    pub fn whole(&self) -> Parsed<Vec<u8>> {
        let Restored { form, bytes } = &self.header;
        let mut headers = bytes.clone();
        if let Some((i, size, is_last)) = self.segment {
            let layout = Layout::of(bytes)?;
            if layout.is_ipv4 {
                let id = u16::from_be_bytes([bytes[4], bytes[5]]).wrapping_add(i as u16);
                headers[4..6].copy_from_slice(&id.to_be_bytes());
            }
            if let Some(tcp) = layout.tcp().filter(|_| layout.has_transport(bytes)) {
                let sequence = u32::from_be_bytes(bytes[tcp + 4..tcp + 8].try_into().unwrap());
                let sequence = sequence.wrapping_add((i * size) as u32);
                headers[tcp + 4..tcp + 8].copy_from_slice(&sequence.to_be_bytes());
                // PSH and FIN, CWR.
                headers[tcp + 13] &= if is_last { 0xff } else { !0x09 };
                headers[tcp + 13] &= if i == 0 { 0xff } else { !0x80 };
            }
        }
        packet(&headers, *form, self.is_open, &self.payload)
    }
}

/// The packet of headers of this form with this payload, its checksum completed.
fn packet(headers: &[u8], form: u8, is_open: bool, payload: &[u8]) -> Parsed<Vec<u8>> {
    let len = headers.len() + payload.len();
    if len > 65_535 {
        return Err("a packet that is too long");
    }
    let mut packet = [headers, payload].concat();
    if form == 0 && !is_open {
        return Ok(packet);
    }
    let layout = Layout::of(headers)?;
    let has_transport = layout.has_transport(headers);
    if (is_open || form == 2) && !has_transport {
        return Err("a checksum without a whole header of TCP or UDP");
    }
    let transport = layout.transport;
    if form > 0 {
        if layout.is_ipv4 {
            packet[2..4].copy_from_slice(&(len as u16).to_be_bytes());
            packet[10..12].fill(0);
            let checksum = !sum(&packet[..transport]);
            packet[10..12].copy_from_slice(&checksum.to_be_bytes());
        } else {
            packet[4..6].copy_from_slice(&((len - 40) as u16).to_be_bytes());
        }
        if has_transport && layout.protocol == UDP {
            let len = (len - transport) as u16;
            packet[transport + 4..transport + 6].copy_from_slice(&len.to_be_bytes());
        }
    }
    if form == 2 || is_open {
        let at = layout.checksum().ok_or("no checksum")?;
        if form == 2 {
            let stated = [&headers[at..at + 2], &((len - transport) as u16).to_be_bytes()].concat();
            let pseudo = sum(&stated);
            packet[at..at + 2].copy_from_slice(&pseudo.to_be_bytes());
        }
        // What the receiver's kernel does with an open one.
        let checksum = match !sum(&packet[transport..]) {
            0 => 0xffff,
            checksum => checksum,
        };
        packet[at..at + 2].copy_from_slice(&checksum.to_be_bytes());
    }
    Ok(packet)
}
