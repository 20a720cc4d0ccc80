//! The libpcap format: <https://datatracker.ietf.org/doc/draft-ietf-opsawg-pcap/> and libpcap's
//! `sf-pcap.c`.

use std::io::Read;

use super::{CaptureError, Found, MAX_CAPTURED, buffer::Buffer};
use crate::{LinkType, Nanos};

const FILE_HEADER: usize = 24;

/// The variant of the format, from the magic number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Order {
    big_endian: bool,
    nanoseconds: bool,
    /// Bytes of a record header: 16, or 24 with Kuznetzov's patch to libpcap.
    record_header: usize,
}

impl Order {
    /// Recognizes the first four bytes of a file.
    pub(super) fn of(head: &[u8]) -> Option<Self> {
        let magic = head.first_chunk()?;
        let of = |number: u32| match number {
            0xa1b2_c3d4 => Some((false, 16)),
            0xa1b2_3c4d => Some((true, 16)),
            0xa1b2_cd34 => Some((false, 24)),
            _ => None,
        };
        let big = of(u32::from_be_bytes(*magic)).map(|found| (true, found));
        let (big_endian, (nanoseconds, record_header)) =
            big.or_else(|| Some((false, of(u32::from_le_bytes(*magic))?)))?;
        Some(Self { big_endian, nanoseconds, record_header })
    }

    fn u16(self, bytes: [u8; 2]) -> u16 {
        if self.big_endian { u16::from_be_bytes(bytes) } else { u16::from_le_bytes(bytes) }
    }

    #[inline]
    fn u32(self, bytes: [u8; 4]) -> u32 {
        if self.big_endian { u32::from_be_bytes(bytes) } else { u32::from_le_bytes(bytes) }
    }
}

/// The properties of records, from the file header.
pub(super) struct Header {
    order: Order,
    link: LinkType,
    lengths: Lengths,
}

/// How a record stores its two lengths. Old versions of the format swap them (libpcap, `sf-pcap.c`,
/// `lengths_swapped`).
enum Lengths {
    CapturedFirst,
    WireFirst,
    SmallerIsCaptured,
}

impl Header {
    pub(super) fn read<R: Read>(
        buffer: &mut Buffer<R>,
        order: Order,
    ) -> Result<Self, CaptureError> {
        let Some(header) = buffer.peek(FILE_HEADER)?.first_chunk::<FILE_HEADER>() else {
            return Err(CaptureError::Cut { at: 0, what: "file header" });
        };
        let [_, _, _, _, major0, major1, minor0, minor1, .., l0, l1, l2, l3] = *header;
        let lengths = match (order.u16([major0, major1]), order.u16([minor0, minor1])) {
            (2, 0..=2) | (543, _) => Lengths::WireFirst,
            (2, 3) => Lengths::SmallerIsCaptured,
            (2, _) => Lengths::CapturedFirst,
            _ => {
                return Err(CaptureError::Malformed {
                    at: 4,
                    what: "pcap of a major version other than 2",
                });
            }
        };
        // The upper half has the length of frame check sequences. Those follow the data that IP
        // lengths delimit.
        let link = LinkType((order.u32([l0, l1, l2, l3]) & 0xffff) as u16);
        buffer.consume(FILE_HEADER);
        Ok(Self { order, link, lengths })
    }

    #[inline]
    pub(super) fn next<R: Read>(
        &mut self,
        buffer: &mut Buffer<R>,
    ) -> Result<Option<Found>, CaptureError> {
        let at = buffer.position();
        let order = self.order;
        let head = buffer.peek(order.record_header)?;
        if head.is_empty() {
            return Ok(None);
        }
        if head.len() < order.record_header {
            return Err(CaptureError::Cut { at, what: "record header" });
        }
        let Some(&[s0, s1, s2, s3, f0, f1, f2, f3, a0, a1, a2, a3, b0, b1, b2, b3]) =
            head.first_chunk()
        else {
            return Err(CaptureError::Cut { at, what: "record header" });
        };
        let seconds = Nanos::from(order.u32([s0, s1, s2, s3]));
        let fraction = Nanos::from(order.u32([f0, f1, f2, f3]));
        let (a, b) = (order.u32([a0, a1, a2, a3]), order.u32([b0, b1, b2, b3]));
        let (captured, wire_len) = match self.lengths {
            Lengths::CapturedFirst => (a, b),
            Lengths::WireFirst => (b, a),
            Lengths::SmallerIsCaptured => (a.min(b), a.max(b)),
        };
        let len = captured as usize;
        if len > MAX_CAPTURED {
            return Err(CaptureError::Malformed { at, what: "a record of more than 16 MiB" });
        }
        let whole = order.record_header + len;
        if buffer.peek(whole)?.len() < whole {
            return Err(CaptureError::Cut { at, what: "record" });
        }
        buffer.consume(whole);
        let time = seconds * 1_000_000_000 + fraction * if order.nanoseconds { 1 } else { 1000 };
        Ok(Some(Found { time, link: self.link, wire_len, len, behind: 0 }))
    }
}
