//! The layout of records, the plaintext of sealed datagrams: `docs/LINK.md` has the same.

use super::acks::{Acknowledgment, MAX_RANGES};
use super::headers::{Implied, take_section};
use super::nodes::{NODE_BITS, NodeKind, NodeRecord};
use super::record_error::{RecordError, varint_len};
use super::rejection::{MAX_LACKING, Reason, Rejection};
use oncewire_codec::varint;
use std::num::NonZeroU16;
use std::time::Duration;

/// Most segments of a run.
pub const MAX_SEGMENTS: usize = 128;
/// Longest packet or run that a record can be part of, in bytes: IP's limit.
pub const MAX_PACKET: usize = 65_535;

const PADDING: u8 = 0;
const PACKET: u8 = 1;
const RUN: u8 = 2;
const ACKNOWLEDGMENT: u8 = 3;
const REJECTION: u8 = 4;
const PIECE: u8 = 5;
const PATH: u8 = 6;
const BACK: u8 = 7;

/// Most pieces of a packet.
pub const MAX_PIECES: usize = 128;
/// Bytes of a piece record before its content, if it is the last record: head and number.
pub(super) const PIECE_OVERHEAD: usize = 2;
/// Bit of a piece's number: it is the packet's last.
const LAST_PIECE: u8 = 0x80;

/// Bit of the head: the record reaches to the end of the datagram, and has no length.
const LAST: u8 = 0x10;
/// Bits of a packet record's head.
const OPEN_CHECKSUM: u8 = 0x01;
const SEGMENTS: u8 = 0x02;
/// Bit of a segment section's second byte: the last segment is the run's last.
const ENDS: u8 = 0x80;
/// The unit of an acknowledgment's delay.
const DELAY_UNIT: Duration = Duration::from_micros(64);

/// Consecutive segments of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segments {
    /// How many segments of the run come before.
    pub first: u8,
    /// How many there are, 1 to [`MAX_SEGMENTS`]; with those before, no more.
    pub count: u8,
    /// Payload of each but the last in bytes.
    pub size: NonZeroU16,
    /// Whether the last is the run's last.
    pub ends: bool,
}

impl Segments {
    /// Whether a payload has this many segments. Only the run's last segment may be shorter than the
    /// others.
    pub(super) fn fits(&self, payload: usize) -> bool {
        let (size, count) = (usize::from(self.size.get()), usize::from(self.count));
        let all = count * size;
        let fits = if self.ends { payload > all - size && payload <= all } else { payload == all };
        // A run without payload is one empty segment.
        fits || (payload == 0 && count == 1 && self.ends)
    }
}

/// A packet, or some segments of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PacketRecord<'a> {
    /// The header section.
    pub section: &'a [u8],
    /// IP and transport headers; of segments, those of the run's first. Empty in a record that was
    /// read, until its section has been restored.
    pub header: &'a [u8],
    /// What the headers leave out.
    pub implied: Implied,
    /// Whether the transport checksum is open. It is in every run.
    pub open_checksum: bool,
    /// For a run, which segments the payload has.
    pub segments: Option<Segments>,
    /// What follows the headers; in a run with references, the frame of that.
    pub payload: &'a [u8],
}

/// A record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Record<'a> {
    /// Zeros.
    Padding,
    /// A packet that is not in the content log.
    Packet(PacketRecord<'a>),
    /// A packet whose payload is a frame of the content log.
    Run(PacketRecord<'a>),
    /// A part of the record of a packet that does not fit a datagram.
    Piece {
        /// Its number, below [`MAX_PIECES`]. The datagram with the packet's first piece has a counter
        /// that is smaller by as much.
        number: u8,
        /// Whether it is the packet's last.
        is_last: bool,
        /// The part; not empty.
        bytes: &'a [u8],
    },
    /// Datagrams of the other direction that arrived. Counters are restored by the caller's function.
    Acknowledgment(Acknowledgment),
    /// A frame that could not be decoded.
    Rejection(Rejection),
    /// A record between nodes of a network.
    Node(NodeRecord<'a>),
}

/// Bytes of a packet record before its payload, with a length only if it is not the last record.
pub(super) fn packet_overhead(section: usize, size: Option<u16>) -> usize {
    1 + section + size.map_or(0, |size| 2 + varint_len(size.into()))
}

/// Bytes that the length of a record with `overhead` and `payload` takes, if it is not the last.
pub(super) fn length_len(overhead: usize, payload: usize) -> usize {
    varint_len(overhead - 1 + payload)
}

impl<'a> PacketRecord<'a> {
    /// The record with its restored header.
    ///
    /// # Errors
    /// [`RecordError`] if the header does not fit what the record says.
    pub(super) fn with_header(
        self,
        header: &'a [u8],
        implied: Implied,
    ) -> Result<PacketRecord<'a>, RecordError> {
        if header.len() + self.payload.len() > MAX_PACKET {
            return Err(RecordError::Length);
        }
        let fits = match implied {
            Implied::Nothing => self.segments.is_none(),
            Implied::Lengths => self.segments.is_none() && !self.open_checksum,
            Implied::LengthsAndChecksum => true,
        };
        if fits { Ok(PacketRecord { header, implied, ..self }) } else { Err(RecordError::Segments) }
    }

    /// Appends the record.
    pub fn write(&self, last: bool, out: &mut Vec<u8>) {
        self.write_kind(PACKET, last, out);
    }

    /// Appends a record whose payload is a frame of the content log.
    pub fn write_run(&self, last: bool, out: &mut Vec<u8>) {
        self.write_kind(RUN, last, out);
    }

    fn write_kind(&self, kind: u8, last: bool, out: &mut Vec<u8>) {
        let mut head = kind << 5;
        if last {
            head |= LAST;
        }
        if self.open_checksum {
            head |= OPEN_CHECKSUM;
        }
        if self.segments.is_some() {
            head |= SEGMENTS;
        }
        out.push(head);
        if !last {
            let size = self.segments.map(|segments| segments.size.get());
            let body = packet_overhead(self.section.len(), size) - 1 + self.payload.len();
            varint::put(out, body as u64);
        }
        out.extend_from_slice(self.section);
        if let Some(segments) = self.segments {
            let ends = if segments.ends { ENDS } else { 0 };
            out.extend_from_slice(&[segments.first, (segments.count - 1) | ends]);
            varint::put(out, segments.size.get().into());
        }
        out.extend_from_slice(self.payload);
    }
}

/// Appends a piece. `last` says that the record reaches to the end of the datagram.
pub(super) fn write_piece(number: u8, is_last: bool, bytes: &[u8], last: bool, out: &mut Vec<u8>) {
    out.push(PIECE << 5 | if last { LAST } else { 0 });
    if !last {
        varint::put(out, bytes.len() as u64 + 1);
    }
    out.push(number | if is_last { LAST_PIECE } else { 0 });
    out.extend_from_slice(bytes);
}

/// Appends the head of a record between nodes, with the length of its body unless it reaches to the
/// end of the datagram.
pub(super) fn write_node_head(kind: NodeKind, bits: u8, body: Option<usize>, out: &mut Vec<u8>) {
    let kind = match kind {
        NodeKind::Path => PATH,
        NodeKind::Back => BACK,
    };
    out.push(kind << 5 | bits | if body.is_none() { LAST } else { 0 });
    if let Some(body) = body {
        varint::put(out, body as u64);
    }
}

impl Acknowledgment {
    /// Appends the record, with its length. Writes nothing if no range is acknowledged.
    pub fn write(&self, out: &mut Vec<u8>) {
        let Some(first) = self.ranges.first() else { return };
        let mut body = Vec::with_capacity(8 + 4 * self.ranges.len());
        body.extend_from_slice(&((first.end - 1) as u32).to_le_bytes());
        varint::put(&mut body, (self.delay.as_micros() / DELAY_UNIT.as_micros()) as u64);
        // RFC 9000 section 19.3.
        varint::put(&mut body, self.ranges.len() as u64 - 1);
        varint::put(&mut body, first.end - first.start - 1);
        for pair in self.ranges.windows(2) {
            varint::put(&mut body, pair[0].start - pair[1].end - 1);
            varint::put(&mut body, pair[1].end - pair[1].start - 1);
        }
        out.push(ACKNOWLEDGMENT << 5);
        varint::put(out, body.len() as u64);
        out.extend_from_slice(&body);
    }
}

impl Rejection {
    /// Appends the record, with its length. Distances are those of ranges below the frame's content.
    pub fn write(&self, out: &mut Vec<u8>) {
        let mut body = Vec::with_capacity(6 + 10 * self.lacking.len());
        body.extend_from_slice(&(self.counter as u32).to_le_bytes());
        body.extend_from_slice(&[self.record, self.reason as u8]);
        for &(back, len) in &self.lacking {
            varint::put(&mut body, back);
            varint::put(&mut body, len);
        }
        out.push(REJECTION << 5);
        varint::put(out, body.len() as u64);
        out.extend_from_slice(&body);
    }
}

/// Reads the records of a datagram.
///
/// After an error there is nothing more.
#[derive(Clone, Debug)]
pub struct Records<'a> {
    rest: &'a [u8],
    /// The counter that the other direction sends next, from which counters are restored.
    next: u64,
    of_node: bool,
}

impl<'a> Records<'a> {
    /// Reads `plain`. `next` is the counter of the next datagram in the other direction.
    pub fn new(plain: &'a [u8], next: u64) -> Records<'a> {
        Records { rest: plain, next, of_node: false }
    }

    /// The same for a datagram between nodes of a network: it may have [`Record::Node`], and no
    /// packets of a link.
    pub fn of_node(plain: &'a [u8], next: u64) -> Records<'a> {
        Records { of_node: true, ..Records::new(plain, next) }
    }

    fn read(&mut self, head: u8) -> Result<Record<'a>, RecordError> {
        self.rest = &self.rest[1..];
        let body = if head & LAST != 0 {
            std::mem::take(&mut self.rest)
        } else {
            take_bytes(&mut self.rest)?
        };
        let (kind, bits) = (head >> 5, head & 0x0f);
        let allowed = if matches!(kind, PACKET | RUN) { OPEN_CHECKSUM | SEGMENTS } else { 0 };
        match kind {
            PACKET | RUN | REJECTION | PIECE if self.of_node => Err(RecordError::Kind { kind }),
            PATH | BACK if self.of_node => {
                if bits & !NODE_BITS != 0 {
                    return Err(RecordError::Reserved { head });
                }
                let kind = if kind == PATH { NodeKind::Path } else { NodeKind::Back };
                Ok(Record::Node(NodeRecord { kind, bits, body }))
            }
            PADDING..=PIECE if bits & !allowed != 0 => Err(RecordError::Reserved { head }),
            PADDING if body.iter().any(|&byte| byte != 0) => Err(RecordError::Padding),
            PADDING => Ok(Record::Padding),
            PACKET => packet(body, bits, false).map(Record::Packet),
            RUN => packet(body, bits, true).map(Record::Run),
            REJECTION => rejection(body, self.next).map(Record::Rejection),
            ACKNOWLEDGMENT => acknowledgment(body, self.next).map(Record::Acknowledgment),
            PIECE => match body {
                [number, bytes @ ..] if !bytes.is_empty() => Ok(Record::Piece {
                    number: number & !LAST_PIECE,
                    is_last: number & LAST_PIECE != 0,
                    bytes,
                }),
                _ => Err(RecordError::Piece),
            },
            kind => Err(RecordError::Kind { kind }),
        }
    }
}

impl<'a> Iterator for Records<'a> {
    type Item = Result<Record<'a>, RecordError>;

    fn next(&mut self) -> Option<Self::Item> {
        let record = self.read(*self.rest.first()?);
        if record.is_err() {
            self.rest = &[];
        }
        Some(record)
    }
}

fn number(rest: &mut &[u8]) -> Result<u64, RecordError> {
    varint::take(rest).map_err(|_| RecordError::Length)
}

/// Bytes after their length.
fn take_bytes<'a>(rest: &mut &'a [u8]) -> Result<&'a [u8], RecordError> {
    let len = usize::try_from(number(rest)?).map_err(|_| RecordError::Length)?;
    let (bytes, after) = rest.split_at_checked(len).ok_or(RecordError::Length)?;
    *rest = after;
    Ok(bytes)
}

/// `is_frame`: the length of the content is not known yet.
fn packet(mut body: &[u8], bits: u8, is_frame: bool) -> Result<PacketRecord<'_>, RecordError> {
    let section = take_section(&mut body)?;
    let segments = if bits & SEGMENTS != 0 {
        let Some((&[first, count], rest)) = body.split_first_chunk::<2>() else {
            return Err(RecordError::Length);
        };
        body = rest;
        let size = u16::try_from(number(&mut body)?).ok().and_then(NonZeroU16::new);
        let segments = Segments {
            first,
            count: (count & !ENDS) + 1,
            size: size.ok_or(RecordError::Segments)?,
            ends: count & ENDS != 0,
        };
        let end = usize::from(segments.first) + usize::from(segments.count);
        let fits = is_frame || segments.fits(body.len());
        if end > MAX_SEGMENTS || !fits || bits & OPEN_CHECKSUM == 0 {
            return Err(RecordError::Segments);
        }
        Some(segments)
    } else {
        None
    };
    Ok(PacketRecord {
        section,
        header: &[],
        implied: Implied::Nothing,
        open_checksum: bits & OPEN_CHECKSUM != 0,
        segments,
        payload: body,
    })
}

/// A counter from its low bits. It was sent already: it is below `next`, by less than 2^32.
fn counter(body: &mut &[u8], next: u64) -> Result<u64, RecordError> {
    let Some((low, rest)) = body.split_first_chunk::<4>() else { return Err(RecordError::Length) };
    *body = rest;
    let behind = (next.wrapping_sub(1) as u32).wrapping_sub(u32::from_le_bytes(*low));
    next.checked_sub(1 + u64::from(behind)).ok_or(RecordError::Ranges)
}

fn rejection(mut body: &[u8], next: u64) -> Result<Rejection, RecordError> {
    let counter = counter(&mut body, next)?;
    let Some((&[record, reason], rest)) = body.split_first_chunk::<2>() else {
        return Err(RecordError::Length);
    };
    body = rest;
    let reason = Reason::read(reason).ok_or(RecordError::Rejection)?;
    let mut lacking = Vec::new();
    while !body.is_empty() {
        let (back, len) = (number(&mut body)?, number(&mut body)?);
        // A range below the frame's content.
        if len == 0 || len > back || lacking.len() == MAX_LACKING {
            return Err(RecordError::Rejection);
        }
        lacking.push((back, len));
    }
    Ok(Rejection { counter, record, reason, lacking })
}

fn acknowledgment(mut body: &[u8], next: u64) -> Result<Acknowledgment, RecordError> {
    let largest = counter(&mut body, next)?;
    let delay = u32::try_from(number(&mut body)?).map_err(|_| RecordError::Length)?;
    let more = number(&mut body)?;
    if more >= MAX_RANGES as u64 {
        return Err(RecordError::Ranges);
    }
    let mut ranges = Vec::with_capacity(more as usize + 1);
    let mut end = largest + 1;
    for at in 0..=more {
        if at > 0 {
            let gap = number(&mut body)?;
            end = gap
                .checked_add(1)
                .and_then(|gap| end.checked_sub(gap))
                .ok_or(RecordError::Ranges)?;
        }
        let len = number(&mut body)?;
        let start = len.checked_add(1).and_then(|len| end.checked_sub(len));
        let start = start.ok_or(RecordError::Ranges)?;
        ranges.push(start..end);
        end = start;
    }
    if !body.is_empty() {
        return Err(RecordError::Length);
    }
    Ok(Acknowledgment { delay: DELAY_UNIT * delay, ranges })
}

#[cfg(test)]
mod tests {
    use super::super::headers::write_whole_header;
    use super::*;
    use proptest::prelude::*;

    fn any_packet() -> impl Strategy<Value = (Vec<u8>, bool, Option<Segments>, Vec<u8>)> {
        let bytes = |most| proptest::collection::vec(any::<u8>(), 0..most);
        (
            bytes(200),
            any::<bool>(),
            bytes(300),
            proptest::option::of((0u8..128, 1u16..100, any::<bool>())),
        )
            .prop_map(|(header, open, mut payload, segments)| {
                let segments = segments.map(|(first, size, ends)| {
                    let count = if ends {
                        payload.len().div_ceil(size.into()).clamp(1, 128)
                    } else {
                        (payload.len() / usize::from(size)).clamp(1, 128)
                    };
                    payload.resize(
                        if ends {
                            payload.len().min(count * usize::from(size))
                        } else {
                            count * usize::from(size)
                        },
                        7,
                    );
                    let first = first.min((MAX_SEGMENTS - count) as u8);
                    Segments {
                        first,
                        count: count as u8,
                        size: NonZeroU16::new(size).unwrap(),
                        ends,
                    }
                });
                (header, open || segments.is_some(), segments, payload)
            })
    }

    fn section(header: &[u8]) -> Vec<u8> {
        let mut section = Vec::new();
        write_whole_header(header, Implied::LengthsAndChecksum, &mut section);
        section
    }

    proptest! {
        #[test]
        fn packets_round_trip(packets in proptest::collection::vec(any_packet(), 0..6), padding in 0usize..3, next: u64) {
            let mut plain = Vec::new();
            let mut expected = Vec::new();
            let sections: Vec<Vec<u8>> = packets.iter().map(|(header, ..)| section(header)).collect();
            for (at, (_, open_checksum, segments, payload)) in packets.iter().enumerate() {
                let section = &sections[at];
                let record = PacketRecord { section, header: &[], implied: Implied::Nothing, open_checksum: *open_checksum, segments: *segments, payload };
                let (last, before) = (padding == 0 && at + 1 == packets.len(), plain.len());
                let is_run = at % 2 == 1;
                if is_run { record.write_run(last, &mut plain) } else { record.write(last, &mut plain) };
                let overhead = packet_overhead(section.len(), segments.map(|segments| segments.size.get()));
                let length = if last { 0 } else { length_len(overhead, payload.len()) };
                prop_assert_eq!(plain.len() - before, overhead + length + payload.len());
                expected.push(if is_run { Record::Run(record) } else { Record::Packet(record) });
            }
            if padding > 0 {
                plain.push(LAST);
                plain.resize(plain.len() + padding, 0);
                expected.push(Record::Padding);
            }
            let read: Result<Vec<Record<'_>>, RecordError> = Records::new(&plain, next).collect();
            prop_assert_eq!(read, Ok(expected));
        }

        #[test]
        fn rejections_round_trip(counter in 0u64..1 << 40, ahead in 0u64..1 << 30, record: u8, reason in 0u8..3, lacking in proptest::collection::vec((1u64..1 << 40, 0u64..1 << 40), 0..=MAX_LACKING)) {
            let lacking = lacking.into_iter().map(|(len, more)| (len + more, len)).collect();
            let rejection = Rejection { counter, record, reason: Reason::read(reason).unwrap(), lacking };
            let mut plain = Vec::new();
            rejection.write(&mut plain);
            let read: Vec<_> = Records::new(&plain, counter + 1 + ahead).collect();
            prop_assert_eq!(read, vec![Ok(Record::Rejection(rejection))]);
        }

        #[test]
        fn acknowledgments_round_trip(largest in 0u64..1 << 40, ahead in 0u64..1 << 30, units in 0u32..1 << 20, lens in proptest::collection::vec((0u64..300, 0u64..300), 1..=MAX_RANGES)) {
            let mut ack = Acknowledgment { delay: DELAY_UNIT * units, ranges: Vec::new() };
            let mut end = largest + 1;
            for (gap, len) in lens {
                let Some(start) = end.checked_sub(len + 1) else { break };
                ack.ranges.push(start..end);
                let Some(below) = start.checked_sub(gap + 1) else { break };
                end = below;
            }
            if ack.ranges.is_empty() {
                return Ok(());
            }
            let mut plain = Vec::new();
            ack.write(&mut plain);
            let read: Vec<_> = Records::new(&plain, largest + 1 + ahead).collect();
            prop_assert_eq!(read, [Ok(Record::Acknowledgment(ack))]);
        }

        #[test]
        fn pieces_round_trip(number in 0u8..128, is_last: bool, bytes in proptest::collection::vec(any::<u8>(), 1..300), last: bool) {
            let mut plain = Vec::new();
            write_piece(number, is_last, &bytes, last, &mut plain);
            let read: Vec<_> = Records::new(&plain, 0).collect();
            prop_assert_eq!(read, [Ok(Record::Piece { number, is_last, bytes: &bytes })]);
        }

        #[test]
        fn any_bytes_are_records_or_an_error(plain in proptest::collection::vec(any::<u8>(), 0..100), next: u64) {
            let count = Records::new(&plain, next).count();
            prop_assert!(count <= plain.len());
        }
    }

    fn error(plain: &[u8]) -> RecordError {
        Records::new(plain, 100).find_map(Result::err).expect("an error")
    }

    #[test]
    fn what_no_end_sends_is_an_error() {
        assert_eq!(error(&[0x20]), RecordError::Length, "no length");
        assert_eq!(error(&[0x20, 9, 0]), RecordError::Length, "a longer length");
        assert_eq!(error(&[0x30, 0]), RecordError::Length, "no control byte");
        assert_eq!(error(&[0x30, 0, 0]), RecordError::Section, "a reference of no slot");
        assert_eq!(error(&[0x30, 0, 4, 2, 0]), RecordError::Length, "a longer header");
        assert_eq!(error(&[0x34, 0, 4, 0]), RecordError::Reserved { head: 0x34 });
        assert_eq!(error(&[0x61, 0]), RecordError::Reserved { head: 0x61 });
        assert_eq!(error(&[0x10, 0, 1]), RecordError::Padding);
        assert_eq!(error(&[0xb0, 0x81]), RecordError::Piece);
        assert_eq!(error(&[0xb0]), RecordError::Piece);
        assert_eq!(error(&[0xb1, 0, 1]), RecordError::Reserved { head: 0xb1 });
        assert_eq!(error(&[0xd0]), RecordError::Kind { kind: 6 });
        // Two segments of two bytes: first, count - 1, size, payload.
        let run = |segments: [u8; 3], payload: &[u8]| {
            let plain = [&[0x33, 0, 4, 0], &segments[..], payload].concat();
            Records::new(&plain, 100).find_map(Result::err)
        };
        assert_eq!(run([126, 1, 2], &[1; 4]), None);
        assert_eq!(run([0, 0x81, 2], &[1; 3]), None);
        assert_eq!(run([0, 0x80, 2], &[]), None);
        for (segments, len) in [
            ([0, 1, 2], 3),
            ([0, 1, 2], 5),
            ([0, 0x81, 2], 2),
            ([0, 0x81, 2], 5),
            ([0, 0, 2], 0),
            ([127, 1, 2], 4),
            ([0, 1, 0], 0),
        ] {
            assert_eq!(run(segments, &vec![1; len]), Some(RecordError::Segments), "{segments:?}");
        }
        assert_eq!(error(&[0x32, 0, 4, 0, 0, 0x80, 2, 1]), RecordError::Segments, "closed");
        // Largest, delay, ranges - 1, first range.
        assert_eq!(error(&[0x70, 99, 0, 0, 0, 0, 0, 100]), RecordError::Ranges);
        assert_eq!(error(&[0x70, 100, 0, 0, 0, 0, 0, 0]), RecordError::Ranges, "not sent yet");
        assert_eq!(error(&[0x70, 99, 0, 0, 0, 0, 32]), RecordError::Ranges);
        assert_eq!(error(&[0x70, 99, 0, 0, 0, 0, 0, 0, 0]), RecordError::Length);
        // Largest, record, reason, distance, length.
        assert_eq!(error(&[0x90, 100, 0, 0, 0, 0, 0]), RecordError::Ranges, "not sent yet");
        assert_eq!(error(&[0x90, 99, 0, 0, 0, 0]), RecordError::Length);
        assert_eq!(error(&[0x90, 99, 0, 0, 0, 0, 3]), RecordError::Rejection, "no such reason");
        assert_eq!(error(&[0x90, 99, 0, 0, 0, 0, 0, 5, 6]), RecordError::Rejection, "not below");
        assert_eq!(error(&[0x90, 99, 0, 0, 0, 0, 0, 5, 0]), RecordError::Rejection);
        let many = [&[0x90, 99, 0, 0, 0, 0, 0][..], &[1; 2 * MAX_LACKING + 2]].concat();
        assert_eq!(error(&many), RecordError::Rejection);
    }
}
