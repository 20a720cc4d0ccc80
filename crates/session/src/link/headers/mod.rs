//! Header sections: a header as its difference from one that the peer has acknowledged.
//!
//! The scheme follows RFC 6846 (ROHC-TCP) where a link of datagrams allows: headers of a flow differ
//! in few fields, and a new flow's from those of another flow of the same host in a few more. What
//! differs is the reference. ROHC refers to the packet before and repairs a decoder that has lost it;
//! here a sender refers to acknowledged headers only, so that each section can be restored alone,
//! however datagrams are lost or reordered.
//!
//! A slot has four references. [`HeaderEncoder`] keeps what the peer has, [`HeaderDecoder`] restores.
//! Neither knows IP: a [`Layout`] says where the fields of a header are. If it finds none, or the
//! wrong ones, sections are longer, and headers are restored all the same.

mod decoder;
mod encoder;

pub(super) use decoder::{HeaderDecoder, Refusal, Restored};
pub(super) use encoder::HeaderEncoder;

use super::record_error::RecordError;
use oncewire_codec::varint;

/// Slots are numbered from 1 to this. The first 127 take one byte in a section.
pub const MAX_SLOTS: u16 = 1023;
/// References of a slot.
pub const REFERENCES: usize = 4;
/// Longest header that is kept as a reference, in bytes.
pub const MAX_KEPT: usize = 255;

/// Bits of the control byte.
const REFERENCE: u8 = 0x03;
const WHOLE: u8 = 0x04;
const KEEP_AT: u32 = 3;
const KEEP: u8 = 0x20;
const FIELDS: u8 = 0x40;
const OTHER_SLOT: u8 = 0x80;

/// Bit of the mask: pieces of the header that no field covers.
const PATCH: u8 = 0x80;
/// Bit of a patch's first byte: the header has another length than the reference, which follows.
const LENGTH: u8 = 0x80;

/// What a header leaves out because it follows from the rest of the packet: length fields, the
/// checksum of IPv4, the transport checksum. The driver removes and restores it; the fields that are
/// left out have values that do not depend on the payload.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Implied {
    /// Nothing: the header is sent as it is.
    #[default]
    Nothing,
    /// Lengths and the checksum of IPv4.
    Lengths,
    /// The transport checksum, too.
    LengthsAndChecksum,
}

impl Implied {
    fn from_bits(bits: u8) -> Option<Implied> {
        [Implied::Nothing, Implied::Lengths, Implied::LengthsAndChecksum]
            .into_iter()
            .find(|implied| *implied as u8 == bits)
    }
}

/// Where a header has the fields that change from packet to packet: offsets in bytes. All numbers are
/// big-endian. A field that does not lie within the header counts as absent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Fields {
    /// Start and end of the addresses, the source in the first half. Empty if they are not known;
    /// then the header is sent whole and not kept.
    pub addresses: (u8, u8),
    /// Start and end of the ports.
    pub ports: (u8, u8),
    /// Sequence number, 4 bytes.
    pub sequence: Option<u8>,
    /// Acknowledgment number, 4 bytes.
    pub acknowledgment: Option<u8>,
    /// Window, 2 bytes.
    pub window: Option<u8>,
    /// Flags, 1 byte.
    pub flags: Option<u8>,
    /// Identification, 2 bytes.
    pub identification: Option<u8>,
    /// Two timestamps of 4 bytes each.
    pub timestamps: Option<u8>,
    /// Transport checksum, 2 bytes.
    pub checksum: Option<u8>,
}

/// Finds the fields of a header. Both ends must find the same ones in the same bytes.
pub type Layout = fn(&[u8]) -> Fields;

/// How a field is written.
#[derive(Clone, Copy)]
enum Kind {
    /// Numbers of so many bytes, as many as that: each as its difference from the reference.
    Numbers(usize, usize),
    /// So many bytes, as they are.
    Bytes(usize),
}

/// Fields in the order of their bits in the mask.
const KINDS: [Kind; 7] = [
    Kind::Numbers(4, 1),
    Kind::Numbers(4, 1),
    Kind::Numbers(2, 1),
    Kind::Bytes(1),
    Kind::Numbers(2, 1),
    Kind::Numbers(4, 2),
    Kind::Bytes(2),
];

impl Kind {
    fn len(self) -> usize {
        match self {
            Kind::Numbers(width, count) => width * count,
            Kind::Bytes(len) => len,
        }
    }
}

impl Fields {
    /// Where field `bit` of a header of `len` bytes begins.
    fn place(&self, bit: usize, len: usize) -> Option<usize> {
        let places = [
            self.sequence,
            self.acknowledgment,
            self.window,
            self.flags,
            self.identification,
            self.timestamps,
            self.checksum,
        ];
        places[bit].map(usize::from).filter(|at| at + KINDS[bit].len() <= len)
    }
}

/// A header that can be referred to.
#[derive(Clone, Debug, Default)]
struct Kept {
    header: Vec<u8>,
    implied: Implied,
    fields: Fields,
}

/// Where the header of a section comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Source<'a> {
    Whole {
        implied: Implied,
        header: &'a [u8],
    },
    Reference {
        slot: u16,
        reference: u8,
        /// Fields that differ.
        mask: u8,
        /// The fields, already checked as far as that is possible without the reference.
        fields: &'a [u8],
    },
}

/// A header section.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Section<'a> {
    source: Source<'a>,
    /// The slot and the reference as which this header is kept.
    keep: Option<(u16, u8)>,
}

/// Appends a section with a whole header that is not kept.
pub fn write_whole_header(header: &[u8], implied: Implied, out: &mut Vec<u8>) {
    encoder::write_whole(0, 0, header, implied, out);
}

/// A layout that knows no fields: headers are sent whole.
pub(super) fn no_layout(_: &[u8]) -> Fields {
    Fields::default()
}

/// Takes a header section off the front of `body`.
///
/// # Errors
/// [`RecordError`] if it is truncated, or says what no sender says.
pub(super) fn take_section<'a>(body: &mut &'a [u8]) -> Result<&'a [u8], RecordError> {
    let start = *body;
    Section::take(body)?;
    Ok(&start[..start.len() - body.len()])
}

impl<'a> Section<'a> {
    fn take(body: &mut &'a [u8]) -> Result<Section<'a>, RecordError> {
        let slot = take_slot(body)?;
        let control = take_byte(body)?;
        let keep = match (control & KEEP != 0, control >> KEEP_AT & REFERENCE) {
            (true, reference) if slot != 0 => Some((slot, reference)),
            (false, 0) => None,
            _ => return Err(RecordError::Section),
        };
        if control & WHOLE != 0 {
            let implied = Implied::from_bits(control & REFERENCE).ok_or(RecordError::Section)?;
            if control & (FIELDS | OTHER_SLOT) != 0 {
                return Err(RecordError::Section);
            }
            let len = varint::take(body).map_err(|_| RecordError::Length)?;
            let len = usize::try_from(len).map_err(|_| RecordError::Length)?;
            let header = take_bytes(body, len)?;
            if keep.is_some() && len > MAX_KEPT {
                return Err(RecordError::Section);
            }
            return Ok(Section { source: Source::Whole { implied, header }, keep });
        }
        let slot = if control & OTHER_SLOT != 0 { take_slot(body)? } else { slot };
        if slot == 0 {
            return Err(RecordError::Section);
        }
        let mask = if control & FIELDS != 0 { take_byte(body)? } else { 0 };
        if (control & FIELDS != 0) != (mask != 0) {
            return Err(RecordError::Section);
        }
        let start = *body;
        read_fields(mask, body, None)?;
        let fields = &start[..start.len() - body.len()];
        let reference = control & REFERENCE;
        Ok(Section { source: Source::Reference { slot, reference, mask, fields }, keep })
    }
}

fn take_slot(body: &mut &[u8]) -> Result<u16, RecordError> {
    let slot = varint::take(body).map_err(|_| RecordError::Length)?;
    u16::try_from(slot).ok().filter(|slot| *slot <= MAX_SLOTS).ok_or(RecordError::Section)
}

fn take_byte(body: &mut &[u8]) -> Result<u8, RecordError> {
    Ok(take_bytes(body, 1)?[0])
}

fn take_bytes<'a>(body: &mut &'a [u8], len: usize) -> Result<&'a [u8], RecordError> {
    let (bytes, rest) = body.split_at_checked(len).ok_or(RecordError::Length)?;
    *body = rest;
    Ok(bytes)
}

/// The big-endian number in up to 4 bytes.
fn number(bytes: &[u8]) -> u32 {
    bytes.iter().fold(0, |number, &byte| number << 8 | u32::from(byte))
}

/// What to add to `from` for `to`, modulo the numbers of `width` bytes, nearest to 0 and with its
/// sign in the lowest bit.
fn zigzag(from: u32, to: u32, width: usize) -> u64 {
    let unused = 32 - 8 * width as u32;
    let difference = (to.wrapping_sub(from) << unused) as i32 >> unused;
    u64::from((difference << 1 ^ difference >> 31) as u32)
}

/// The inverse, without the reduction to `width` bytes.
fn unzigzag(difference: u32) -> u32 {
    difference >> 1 ^ (difference & 1).wrapping_neg()
}

/// Reads the fields that `mask` names off `rest`. If a reference is given, sets them in the header,
/// which is a copy of the reference.
#[inline]
fn read_fields(
    mask: u8,
    rest: &mut &[u8],
    mut into: Option<(&Fields, &mut Vec<u8>)>,
) -> Result<(), RecordError> {
    for (bit, kind) in KINDS.into_iter().enumerate().filter(|(bit, _)| mask >> bit & 1 != 0) {
        let place = match &into {
            Some((fields, header)) => {
                Some(fields.place(bit, header.len()).ok_or(RecordError::Section)?)
            }
            None => None,
        };
        match kind {
            Kind::Bytes(len) => {
                let bytes = take_bytes(rest, len)?;
                if let (Some((_, header)), Some(at)) = (&mut into, place) {
                    header[at..at + len].copy_from_slice(bytes);
                }
            }
            Kind::Numbers(width, count) => {
                for i in 0..count {
                    let difference = varint::take(rest).map_err(|_| RecordError::Length)?;
                    if difference >> (8 * width) != 0 {
                        return Err(RecordError::Section);
                    }
                    if let (Some((_, header)), Some(at)) = (&mut into, place) {
                        let bytes = &mut header[at + i * width..][..width];
                        let value = number(bytes).wrapping_add(unzigzag(difference as u32));
                        bytes.copy_from_slice(&value.to_be_bytes()[4 - width..]);
                    }
                }
            }
        }
    }
    if mask & PATCH != 0 {
        let mut header = into.map(|(_, header)| header);
        let first = take_byte(rest)?;
        if first & LENGTH != 0 {
            let len = take_byte(rest)?;
            if let Some(header) = &mut header {
                header.resize(len.into(), 0);
            }
        } else if first == 0 {
            return Err(RecordError::Section);
        }
        let mut at = 0;
        for _ in 0..first & !LENGTH {
            at += usize::from(take_byte(rest)?);
            let len = usize::from(take_byte(rest)?);
            let bytes = take_bytes(rest, len)?;
            if let Some(header) = &mut header {
                let place = header.get_mut(at..at + len).ok_or(RecordError::Section)?;
                place.copy_from_slice(bytes);
            }
            at += len;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
