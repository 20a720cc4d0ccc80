//! Packets of a tun device with segmentation and checksum offload.
//!
//! The kernel passes each packet behind a header of 10 bytes (virtio 1.2 section 5.1.6, without the
//! number of buffers). A packet may be a *run*: headers and the payload of many segments of one flow,
//! which belong in packets of one size. The checksum of a run, and of most packets of this machine,
//! is *open*: its field holds only the sum of the pseudo-header, and whoever sends the packet adds
//! the rest.
//!
//! [`from_device`] brings a run into a form that does not depend on its length: length fields and
//! the checksum of an IPv4 header are 0, and the transport checksum is the sum of the pseudo-header
//! without a length. A packet is brought into the same form, as far as its fields are what they must
//! be ([`LeftOut`]). [`to_device`] makes packets and parts of runs out of that form.

use crate::checksum::Sum;
use crate::fields::{HeaderError, Headers, TCP, UDP};
use std::num::NonZeroU16;

/// Bytes before each packet of such a device.
pub const VIRTIO_HEADER: usize = 10;
/// Longest packet, and longest run, in bytes.
pub const MAX_PACKET: usize = 65_535;

const NEEDS_CHECKSUM: u8 = 1;
const NO_SEGMENTS: u8 = 0;
const TCP4_SEGMENTS: u8 = 1;
const TCP6_SEGMENTS: u8 = 4;
const UDP_SEGMENTS: u8 = 5;

/// Flags of the TCP header (RFC 9293 section 3.1), byte 13.
const FIN: u8 = 0x01;
const PSH: u8 = 0x08;
const CWR: u8 = 0x80;

/// A packet that cannot be read from a device, or written to one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum OffloadError {
    /// The packet is shorter than the header before it, or longer than [`MAX_PACKET`].
    #[error("a packet of {len} bytes")]
    Length {
        /// Its length.
        len: usize,
    },
    /// The IP header is invalid.
    #[error(transparent)]
    Header(#[from] HeaderError),
    /// A kind of segmentation, or a place of a checksum, that does not fit the packet.
    #[error("segments or checksum that do not fit the packet")]
    Mismatch,
}

/// A packet or a run from a device.
#[derive(Clone, Copy, Debug)]
pub struct Offered<'a> {
    /// Where its headers are.
    pub headers: Headers,
    /// Headers and payload; the headers in the form above, as far as `left_out` says.
    pub packet: &'a [u8],
    /// What the headers do not have any more. Of a run, lengths and checksum.
    pub left_out: LeftOut,
    /// Whether the transport checksum is open. It is in every run.
    pub open_checksum: bool,
    /// For a run, the payload of each segment but the last in bytes.
    pub segment: Option<NonZeroU16>,
}

/// Which fields of a packet's headers follow from the rest of it. They are replaced by values that do
/// not depend on the payload: 0, and for the transport checksum the sum of the pseudo-header without
/// a length.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LeftOut {
    /// None: a length or the checksum of the IPv4 header is wrong.
    #[default]
    Nothing,
    /// Total length and checksum of IPv4, payload length of IPv6, length of UDP.
    Lengths,
    /// The checksum of TCP or UDP, too.
    LengthsAndChecksum,
}

/// What a packet for a device is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// A packet.
    Packet {
        /// Whether its transport checksum is open.
        open_checksum: bool,
        /// What its headers do not have.
        left_out: LeftOut,
    },
    /// Consecutive segments of a run whose first segment the headers describe.
    Segments {
        /// How many segments of the run come before.
        first: u8,
        /// Payload of each segment but the last in bytes.
        size: NonZeroU16,
        /// Whether the last segment is the run's last, which alone has TCP's flags PSH and FIN.
        ends: bool,
    },
}

/// Reads what a device returned: header and packet.
///
/// # Errors
/// [`OffloadError`] if it is not an IP packet, or of a kind that was not asked for.
pub fn from_device(frame: &mut [u8]) -> Result<Offered<'_>, OffloadError> {
    let len = frame.len().saturating_sub(VIRTIO_HEADER);
    let Some((virtio, packet)) = frame.split_first_chunk_mut::<VIRTIO_HEADER>() else {
        return Err(OffloadError::Length { len });
    };
    let &mut [flags, kind, _, _, g0, g1, s0, s1, o0, o1] = virtio;
    let headers = Headers::parse(packet)?;
    let is_open = flags & NEEDS_CHECKSUM != 0;
    let protocol = match kind {
        NO_SEGMENTS => {
            let mut open_checksum = is_open;
            if is_open {
                let start = usize::from(u16::from_ne_bytes([s0, s1]));
                let at = start + usize::from(u16::from_ne_bytes([o0, o1]));
                if start != headers.network || Some(at) != headers.checksum_at() {
                    // Inside another protocol, where the other end would not find it.
                    complete_checksum(packet, start, at)?;
                    open_checksum = false;
                }
            }
            let left_out = leave_out(packet, &headers, open_checksum);
            return Ok(Offered { headers, packet, left_out, open_checksum, segment: None });
        }
        TCP4_SEGMENTS if !headers.is_v6() => TCP,
        TCP6_SEGMENTS if headers.is_v6() => TCP,
        UDP_SEGMENTS => UDP,
        _ => return Err(OffloadError::Mismatch),
    };
    let segment = NonZeroU16::new(u16::from_ne_bytes([g0, g1])).ok_or(OffloadError::Mismatch)?;
    let (true, Some(at), true) = (is_open, headers.checksum_at(), headers.protocol == protocol)
    else {
        return Err(OffloadError::Mismatch);
    };
    let transport_len = packet.len() - headers.network;
    // Ones' complement: to subtract is to add the complement.
    let open = u16::from_be_bytes([packet[at], packet[at + 1]]);
    let without = Sum::default().plus(&open.to_be_bytes()).plus(&complement_of(transport_len));
    packet[at..at + 2].copy_from_slice(&without.folded().to_be_bytes());
    clear_lengths(packet, &headers);
    Ok(Offered {
        headers,
        packet,
        left_out: LeftOut::LengthsAndChecksum,
        open_checksum: true,
        segment: Some(segment),
    })
}

/// Takes out of a packet what [`to_device`] restores exactly.
fn leave_out(packet: &mut [u8], headers: &Headers, open_checksum: bool) -> LeftOut {
    let (len, network) = (packet.len(), headers.network);
    let transport_len = len - network;
    let number = |at: usize| u16::from_be_bytes([packet[at], packet[at + 1]]);
    let has_lengths = len <= MAX_PACKET
        && if headers.is_v6() {
            usize::from(number(4)) == len - 40
        } else {
            let sum = Sum::default().plus(&packet[..10]).plus(&packet[12..network]);
            usize::from(number(2)) == len && number(10) == sum.checksum()
        }
        && (!has_udp_length(headers) || usize::from(number(network + 4)) == transport_len);
    if !has_lengths {
        return LeftOut::Nothing;
    }
    let Some(at) = headers.checksum_at() else {
        clear_lengths(packet, headers);
        return LeftOut::Lengths;
    };
    let Headers { source, destination, protocol, .. } = *headers;
    let pseudo = Sum::of_pseudo_header(source, destination, protocol, 0).folded().to_be_bytes();
    let open = with_length(pseudo, transport_len as u16);
    let expected = if open_checksum {
        u16::from_be_bytes(open)
    } else {
        let before = Sum::default().plus(&packet[network..at]).plus(&open);
        completed(before.plus(&packet[at + 2..]))
    };
    let left_out = if number(at) == expected {
        packet[at..at + 2].copy_from_slice(&pseudo);
        LeftOut::LengthsAndChecksum
    } else if open_checksum {
        // Only the driver knows what it wants there.
        return LeftOut::Nothing;
    } else {
        LeftOut::Lengths
    };
    clear_lengths(packet, headers);
    left_out
}

/// Whether there is a length of UDP. The other fragments of a datagram, and one whose header is cut,
/// do not have it.
fn has_udp_length(headers: &Headers) -> bool {
    headers.protocol == UDP && headers.transport.is_some()
}

fn clear_lengths(packet: &mut [u8], headers: &Headers) {
    if headers.is_v6() {
        packet[4..6].fill(0);
    } else {
        packet[2..4].fill(0);
        packet[10..12].fill(0);
    }
    if has_udp_length(headers) {
        packet[headers.network + 4..headers.network + 6].fill(0);
    }
}

/// Adds the length of what follows the IP header to the sum of the pseudo-header.
fn with_length(sum: [u8; 2], transport_len: u16) -> [u8; 2] {
    Sum::default().plus(&sum).plus(&transport_len.to_be_bytes()).folded().to_be_bytes()
}

/// A number that, added, subtracts `len` in ones' complement.
fn complement_of(len: usize) -> [u8; 2] {
    (!Sum::default().plus(&(len as u32).to_be_bytes()).folded()).to_be_bytes()
}

/// Fills in the header of a packet for a device, and what the shape asks for in its own headers.
/// `frame` has [`VIRTIO_HEADER`] bytes of room before the packet.
///
/// # Errors
/// [`OffloadError`] if the packet is not IP, or its headers do not have `header` bytes and a
/// transport header where the shape needs that. The frame is then unfinished.
pub fn to_device(frame: &mut [u8], header: usize, shape: Shape) -> Result<Headers, OffloadError> {
    let len = frame.len().saturating_sub(VIRTIO_HEADER);
    let Some((virtio, packet)) = frame.split_first_chunk_mut::<VIRTIO_HEADER>() else {
        return Err(OffloadError::Length { len });
    };
    if len > MAX_PACKET {
        return Err(OffloadError::Length { len });
    }
    let headers = Headers::parse(packet)?;
    *virtio = [0; VIRTIO_HEADER];
    let (first, size, ends) = match shape {
        Shape::Packet { open_checksum, left_out } => {
            put_back(packet, &headers, left_out, open_checksum)?;
            if open_checksum {
                let at = headers.checksum_at().ok_or(OffloadError::Mismatch)?;
                open(virtio, &headers, at);
            }
            return Ok(headers);
        }
        Shape::Segments { first, size, ends } => (first, size, ends),
    };
    let at = headers.checksum_at().ok_or(OffloadError::Mismatch)?;
    if headers.total() != header {
        return Err(OffloadError::Mismatch);
    }
    advance(packet, &headers, first.into(), size, ends);
    let transport_len = set_lengths(packet, &headers);
    let sum = with_length([packet[at], packet[at + 1]], transport_len);
    packet[at..at + 2].copy_from_slice(&sum);
    open(virtio, &headers, at);
    if packet.len() - header > usize::from(size.get()) {
        virtio[1] = match (headers.protocol, headers.is_v6()) {
            (TCP, false) => TCP4_SEGMENTS,
            (TCP, true) => TCP6_SEGMENTS,
            _ => UDP_SEGMENTS,
        };
        virtio[2..4].copy_from_slice(&(header as u16).to_ne_bytes());
        virtio[4..6].copy_from_slice(&size.get().to_ne_bytes());
    }
    Ok(headers)
}

/// Restores what the headers of a packet leave out.
///
/// # Errors
/// [`OffloadError::Mismatch`] if they have no checksum, but left one out.
pub(crate) fn put_back(
    packet: &mut [u8],
    headers: &Headers,
    left_out: LeftOut,
    open_checksum: bool,
) -> Result<(), OffloadError> {
    if left_out == LeftOut::Nothing {
        return Ok(());
    }
    let transport_len = set_lengths(packet, headers);
    if left_out == LeftOut::LengthsAndChecksum {
        let at = headers.checksum_at().ok_or(OffloadError::Mismatch)?;
        let sum = with_length([packet[at], packet[at + 1]], transport_len);
        packet[at..at + 2].copy_from_slice(&sum);
        if !open_checksum {
            complete_checksum(packet, headers.network, at)?;
        }
    }
    Ok(())
}

/// Makes the packets of consecutive segments of a run, with closed checksums, for a device that
/// cannot. `packet` has the headers in the form of a run and the segments' payload; each packet is
/// passed with a header for the device.
///
/// # Errors
/// As [`to_device`].
pub fn segments(
    packet: &[u8],
    header: usize,
    (first, size, ends): (u8, NonZeroU16, bool),
    mut each: impl FnMut(&[u8]),
) -> Result<(), OffloadError> {
    let headers = Headers::parse(packet)?;
    let at = headers.checksum_at().ok_or(OffloadError::Mismatch)?;
    if headers.total() != header || packet.len() > MAX_PACKET {
        return Err(OffloadError::Mismatch);
    }
    let (header, payload) = packet.split_at(header);
    let last = payload.len().div_ceil(size.get().into()).saturating_sub(1);
    let mut frame = Vec::with_capacity(VIRTIO_HEADER + header.len() + usize::from(size.get()));
    for (i, segment) in payload.chunks(size.get().into()).enumerate() {
        frame.clear();
        frame.resize(VIRTIO_HEADER, 0);
        frame.extend_from_slice(header);
        frame.extend_from_slice(segment);
        let packet = &mut frame[VIRTIO_HEADER..];
        advance(packet, &headers, usize::from(first) + i, size, ends && i == last);
        let transport_len = set_lengths(packet, &headers);
        let sum = with_length([packet[at], packet[at + 1]], transport_len);
        packet[at..at + 2].copy_from_slice(&sum);
        complete_checksum(packet, headers.network, at)?;
        each(&frame);
    }
    Ok(())
}

/// Cuts a run from its segment `first` on off into a run of its own: writes the headers of that
/// segment, in the form of a run, to `out`. `ends` says whether the new run has the last segment.
pub fn header_of_part(
    offered: &Offered<'_>,
    first: usize,
    size: NonZeroU16,
    ends: bool,
    out: &mut Vec<u8>,
) {
    out.clear();
    out.extend_from_slice(&offered.packet[..offered.headers.total()]);
    advance(out, &offered.headers, first, size, ends);
}

/// Marks the transport checksum at `at` as open.
fn open(virtio: &mut [u8; VIRTIO_HEADER], headers: &Headers, at: usize) {
    virtio[0] = NEEDS_CHECKSUM;
    virtio[6..8].copy_from_slice(&(headers.network as u16).to_ne_bytes());
    virtio[8..10].copy_from_slice(&((at - headers.network) as u16).to_ne_bytes());
}

/// Turns the headers of a run's first segment into those of a later one: TCP's sequence number and
/// flags, IPv4's identification. The kernel counts in the same way when it cuts a run.
fn advance(packet: &mut [u8], headers: &Headers, first: usize, size: NonZeroU16, ends: bool) {
    if !headers.is_v6() {
        let identification = u16::from_be_bytes([packet[4], packet[5]]).wrapping_add(first as u16);
        packet[4..6].copy_from_slice(&identification.to_be_bytes());
    }
    if headers.protocol == TCP {
        let tcp = &mut packet[headers.network..];
        let sequence = u32::from_be_bytes([tcp[4], tcp[5], tcp[6], tcp[7]])
            .wrapping_add((first * usize::from(size.get())) as u32);
        tcp[4..8].copy_from_slice(&sequence.to_be_bytes());
        if first > 0 {
            tcp[13] &= !CWR;
        }
        if !ends {
            tcp[13] &= !(PSH | FIN);
        }
    }
}

/// Sets the length fields and the checksum of an IPv4 header. Returns the length of what follows the
/// IP header.
pub(crate) fn set_lengths(packet: &mut [u8], headers: &Headers) -> u16 {
    let (len, network) = (packet.len(), headers.network);
    let transport_len = (len - network) as u16;
    if headers.is_v6() {
        packet[4..6].copy_from_slice(&((len - 40) as u16).to_be_bytes());
    } else {
        packet[2..4].copy_from_slice(&(len as u16).to_be_bytes());
        packet[10..12].fill(0);
        let checksum = Sum::default().plus(&packet[..network]).checksum();
        packet[10..12].copy_from_slice(&checksum.to_be_bytes());
    }
    if has_udp_length(headers) {
        packet[network + 4..network + 6].copy_from_slice(&transport_len.to_be_bytes());
    }
    transport_len
}

/// Completes an open checksum at `at` that covers everything from `start` on.
fn complete_checksum(packet: &mut [u8], start: usize, at: usize) -> Result<(), OffloadError> {
    if start > at || at + 2 > packet.len() {
        return Err(OffloadError::Mismatch);
    }
    // The field itself holds the sum of the pseudo-header.
    let checksum = completed(Sum::default().plus(&packet[start..]));
    packet[at..at + 2].copy_from_slice(&checksum.to_be_bytes());
    Ok(())
}

/// The checksum as the kernel completes it. For UDP, 0 means that there is none (RFC 768); both are
/// zero in ones' complement.
fn completed(sum: Sum) -> u16 {
    match sum.checksum() {
        0 => 0xffff,
        checksum => checksum,
    }
}

#[cfg(test)]
mod tests;
