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
//! without a length. [`to_device`] makes packets and parts of runs out of that form.

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
    /// Headers and payload; a run's headers in the form above.
    pub packet: &'a [u8],
    /// Whether the transport checksum is open. It is in every run.
    pub open_checksum: bool,
    /// For a run, the payload of each segment but the last in bytes.
    pub segment: Option<NonZeroU16>,
}

/// What a packet for a device is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// A packet as it is.
    Packet {
        /// Whether its transport checksum is open.
        open_checksum: bool,
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
            return Ok(Offered { headers, packet, open_checksum, segment: None });
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
    if headers.is_v6() {
        packet[4..6].fill(0);
    } else {
        packet[2..4].fill(0);
        packet[10..12].fill(0);
    }
    if protocol == UDP {
        packet[headers.network + 4..headers.network + 6].fill(0);
    }
    Ok(Offered { headers, packet, open_checksum: true, segment: Some(segment) })
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
        Shape::Packet { open_checksum } => {
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
    let sum = Sum::default().plus(&packet[at..at + 2]).plus(&transport_len.to_be_bytes());
    packet[at..at + 2].copy_from_slice(&sum.folded().to_be_bytes());
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
        let sum = Sum::default().plus(&packet[at..at + 2]).plus(&transport_len.to_be_bytes());
        packet[at..at + 2].copy_from_slice(&sum.folded().to_be_bytes());
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
fn set_lengths(packet: &mut [u8], headers: &Headers) -> u16 {
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
    if headers.protocol == UDP {
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
    let checksum = match Sum::default().plus(&packet[start..]).checksum() {
        // For UDP, 0 means that there is none (RFC 768); both are zero in ones' complement.
        0 => 0xffff,
        checksum => checksum,
    };
    packet[at..at + 2].copy_from_slice(&checksum.to_be_bytes());
    Ok(())
}

#[cfg(test)]
mod tests;
