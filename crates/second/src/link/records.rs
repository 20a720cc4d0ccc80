//! Records of a datagram: section 4.

use super::fields::{Fields, Parsed};
use super::headers::HeaderSection;

/// Section 4.1: "Segment section".
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SegmentSection {
    /// Segments of the run before the first one here.
    pub before: u64,
    pub here: u64,
    /// The last one here is the run's last.
    pub ends: bool,
    /// Payload of each but the run's last, in bytes.
    pub size: u64,
}

impl SegmentSection {
    fn parse(fields: &mut Fields<'_>) -> Parsed<SegmentSection> {
        let (before, count, size) = (fields.byte()?.into(), fields.byte()?, fields.varint()?);
        let here = u64::from(count & 0x7f) + 1;
        if before + here > 128 {
            return Err("more than 128 segments");
        }
        if !(1..=65_535).contains(&size) {
            return Err("size of segments");
        }
        Ok(SegmentSection { before, here, ends: count & 0x80 != 0, size })
    }

    /// The payloads of the segments here.
    pub fn cut<'a>(&self, payload: &'a [u8]) -> Parsed<Vec<&'a [u8]>> {
        let (here, size, len) = (self.here, self.size, payload.len() as u64);
        let shortest = match self.ends {
            false => here * size,
            true if here == 1 => 0,
            true => (here - 1) * size + 1,
        };
        if len < shortest || len > here * size {
            return Err("payload of segments");
        }
        let cut = |i: u64| &payload[(i * size) as usize..((i + 1) * size).min(len) as usize];
        Ok((0..here).map(cut).collect())
    }
}

/// Sections 4.1 and 4.3.
#[derive(Clone, Debug)]
pub struct Packet<'a> {
    pub is_open: bool,
    pub header: HeaderSection<'a>,
    pub segments: Option<SegmentSection>,
    /// The payload, or the frame.
    pub body: &'a [u8],
}

impl Packet<'_> {
    pub fn parse(flags: u8, body: &[u8]) -> Parsed<Packet<'_>> {
        if flags > 3 {
            return Err("a reserved flag");
        }
        let mut fields = Fields(body);
        let header = HeaderSection::parse(&mut fields)?;
        let has_segments = flags & 2 != 0;
        let segments = if has_segments { Some(SegmentSection::parse(&mut fields)?) } else { None };
        let is_open = flags & 1 != 0;
        if has_segments && !is_open {
            return Err("segments of which the checksum is not open");
        }
        Ok(Packet { is_open, header, segments, body: fields.rest() })
    }
}

/// Section 4.2. Counters as ranges, highest first, each with its first and last.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Acknowledgment {
    pub largest_low: u32,
    pub delay: u64,
    /// How many counters each range has, and how many are missing below it.
    ranges: Vec<(u64, u64)>,
}

impl Acknowledgment {
    fn parse(flags: u8, body: &[u8]) -> Parsed<Acknowledgment> {
        if flags != 0 {
            return Err("a reserved flag");
        }
        let mut fields = Fields(body);
        let largest_low = fields.number(4)? as u32;
        let delay = fields.varint()?;
        let more = fields.varint()?;
        if delay >> 32 != 0 || more > 31 {
            return Err("delay or number of ranges");
        }
        let mut ranges = vec![(fields.varint()?.saturating_add(1), 0)];
        for _ in 0..more {
            ranges.last_mut().unwrap().1 = fields.varint()?.saturating_add(1);
            ranges.push((fields.varint()?.saturating_add(1), 0));
        }
        if !fields.is_empty() {
            return Err("bytes left over");
        }
        Ok(Acknowledgment { largest_low, delay, ranges })
    }

    /// First and last counter of each range, for who has sent the counters below `next`.
    pub fn counters(&self, next: u64) -> Parsed<Vec<(u64, u64)>> {
        let mut last = below(self.largest_low, next)?;
        let mut counters = Vec::new();
        for (i, &(count, missing)) in self.ranges.iter().enumerate() {
            let first = (last + 1).checked_sub(count).ok_or("a range below 0")?;
            counters.push((first, last));
            if i + 1 < self.ranges.len() {
                last = first.checked_sub(missing + 1).ok_or("a range below 0")?;
            }
        }
        Ok(counters)
    }
}

/// The largest number below `next` with these low bits.
pub(super) fn below(low: u32, next: u64) -> Parsed<u64> {
    let below = next.checked_sub(1).ok_or("nothing was sent")?;
    let back = (below as u32).wrapping_sub(low);
    below.checked_sub(back.into()).ok_or("a counter that was not sent")
}

/// Section 4.4.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rejection {
    pub counter_low: u32,
    pub records_before: u8,
    pub reason: u8,
    /// How far below the frame's content each range begins, and its length.
    pub ranges: Vec<(u64, u64)>,
}

impl Rejection {
    fn parse(flags: u8, body: &[u8]) -> Parsed<Rejection> {
        if flags != 0 {
            return Err("a reserved flag");
        }
        let mut fields = Fields(body);
        let counter_low = fields.number(4)? as u32;
        let (records_before, reason) = (fields.byte()?, fields.byte()?);
        let mut ranges = Vec::new();
        while !fields.is_empty() {
            let (distance, length) = (fields.varint()?, fields.varint()?);
            if !(1..=distance).contains(&length) {
                return Err("a range of a rejection");
            }
            ranges.push((distance, length));
        }
        if reason > 2 || ranges.len() > 8 || (reason == 2 && !ranges.is_empty()) {
            return Err("reason or number of ranges");
        }
        Ok(Rejection { counter_low, records_before, reason, ranges })
    }
}

/// Section 4.6.
#[derive(Clone, Copy, Debug)]
pub struct Piece<'a> {
    pub number: u8,
    pub is_last: bool,
    pub content: &'a [u8],
}

impl Piece<'_> {
    fn parse(flags: u8, body: &[u8]) -> Parsed<Piece<'_>> {
        if flags != 0 {
            return Err("a reserved flag");
        }
        let mut fields = Fields(body);
        let head = fields.byte()?;
        let content = fields.rest();
        if content.is_empty() {
            return Err("an empty piece");
        }
        Ok(Piece { number: head & 0x7f, is_last: head & 0x80 != 0, content })
    }
}

#[derive(Clone, Debug)]
pub enum Record<'a> {
    Padding,
    Packet(Packet<'a>),
    Run(Packet<'a>),
    Acknowledgment(Acknowledgment),
    Rejection(Rejection),
    Piece(Piece<'a>),
}

/// All records of a datagram for an end that has sent the counters below `next`, or why it is dropped.
pub fn records(plain: &[u8], next: u64) -> Parsed<Vec<Record<'_>>> {
    let mut fields = Fields(plain);
    let mut records = Vec::new();
    while !fields.is_empty() {
        let head = fields.byte()?;
        let (kind, flags) = (head >> 5, head & 15);
        let body = if head & 0x10 != 0 {
            fields.rest()
        } else {
            let len = fields.varint()?;
            fields.bytes(len)?
        };
        records.push(match kind {
            0 if flags != 0 => return Err("a reserved flag"),
            0 if body.iter().any(|&byte| byte != 0) => return Err("padding that is not zeros"),
            0 => Record::Padding,
            1 => {
                let packet = Packet::parse(flags, body)?;
                if let Some(segments) = packet.segments {
                    segments.cut(packet.body)?;
                }
                Record::Packet(packet)
            }
            2 => Record::Run(Packet::parse(flags, body)?),
            3 => {
                let acknowledgment = Acknowledgment::parse(flags, body)?;
                acknowledgment.counters(next)?;
                Record::Acknowledgment(acknowledgment)
            }
            4 => {
                let rejection = Rejection::parse(flags, body)?;
                below(rejection.counter_low, next)?;
                Record::Rejection(rejection)
            }
            5 => Record::Piece(Piece::parse(flags, body)?),
            _ => return Err("an unknown kind"),
        });
    }
    Ok(records)
}
