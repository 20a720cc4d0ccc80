//! A second receiver of the packet link, written from `docs/LINK.md` (and `docs/FORMAT.md`, where
//! it refers to that) alone: simple, slow, and as strict as the document. Section numbers are those
//! of LINK.md. It shares no code with the first one except the crate for XXH3. Times are in
//! microseconds.

mod control;
mod fields;
mod frames;
mod headers;
mod literals;
mod log;
mod packets;
mod pieces;
mod records;

pub use control::{Answer, message};
use fields::Parsed;
use frames::{Frame, NoContent, union};
use headers::{Layout, NoHeader, Slots};
pub use headers::{Places, Restored};
use literals::Context;
use log::Log;
pub use packets::{Delivery, places};
use pieces::Pieces;
pub use records::{Acknowledgment, Record, Rejection, records};
use records::{Packet, Piece, SegmentSection};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

/// How far below the highest counter plus 1 a counter may be.
const REPLAY: u64 = 8_192;

/// Frames that may wait, and their bytes.
const WAITING: (usize, usize) = (2_048, 256 << 10);

/// Missing ranges that a receiver must collect, at least.
const COLLECTED: usize = 64;

/// Why a frame goes back to its sender.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Rejected {
    pub counter: u64,
    pub records_before: u8,
    pub reason: u8,
    pub ranges: Vec<(u64, u64)>,
    /// More is missing than a receiver must collect.
    pub lacks_many: bool,
}

/// A frame that refers to content which is not held.
struct Waiting {
    since: u64,
    counter: u64,
    records_before: u8,
    header: Restored,
    is_open: bool,
    segments: Option<SegmentSection>,
    frame: Frame,
    /// Bytes of the frame.
    bytes: usize,
}

/// What became of a datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Received before, or too old.
    Replayed,
    /// Dropped as a whole, and why.
    Dropped(&'static str),
    Processed,
}

pub struct Receiver {
    /// Log capacity and reorder window of our HELLO.
    offered: (u64, u64),
    counters: BTreeSet<u64>,
    next_counter: u64,
    slots: Slots,
    layout: Layout,
    log: Option<Log>,
    newest_log: u64,
    built_in: Context,
    /// The highest end of content that came with each counter.
    ends: BTreeMap<u64, u64>,
    waiting: Vec<Waiting>,
    pieces: Pieces,
    /// Processed datagrams that are not acknowledged: with how many frames that wait, or never.
    unfinished: BTreeMap<u64, usize>,
    /// Counters, in the order in which their datagrams were finished.
    pub acknowledged: Vec<u64>,
    pub delivered: Vec<Delivery>,
    pub rejected: Vec<Rejected>,
    /// What the other end says about our datagrams.
    pub acknowledgments: Vec<Acknowledgment>,
    pub rejections: Vec<Rejection>,
    /// Records that were dropped alone, and why.
    pub dropped: Vec<(u64, &'static str)>,
    /// Packets in pieces that were dropped, and why.
    pub given_up: Vec<(u64, &'static str)>,
    /// Frames that waited.
    pub waited: u64,
    /// The peer has sent content above that of a later datagram whose frame waits. Where that frame's
    /// content lies is then not specified.
    pub is_contradicted: bool,
}

/// A datagram with this many is never acknowledged.
const NEVER: usize = 1 << 30;

impl Receiver {
    /// At the beginning of an association.
    pub fn new(capacity: u64, window: u64, layout: Layout) -> Receiver {
        Receiver {
            offered: (capacity, window),
            counters: BTreeSet::new(),
            next_counter: 0,
            slots: Slots::default(),
            layout,
            log: None,
            newest_log: 0,
            built_in: Context::built_in(),
            ends: BTreeMap::new(),
            waiting: Vec::new(),
            pieces: Pieces::default(),
            unfinished: BTreeMap::new(),
            acknowledged: Vec::new(),
            delivered: Vec::new(),
            rejected: Vec::new(),
            acknowledgments: Vec::new(),
            rejections: Vec::new(),
            dropped: Vec::new(),
            given_up: Vec::new(),
            waited: 0,
            is_contradicted: false,
        }
    }

    /// Processes the records of an opened datagram. This end has sent the counters below `sent`.
    pub fn datagram(&mut self, now: u64, counter: u64, plain: &[u8], sent: u64) -> Verdict {
        if self.counters.contains(&counter) || counter + REPLAY < self.next_counter {
            return Verdict::Replayed;
        }
        self.counters.insert(counter);
        self.next_counter = self.next_counter.max(counter + 1);
        let records = match records(plain, sent) {
            Ok(records) => records,
            Err(why) => return Verdict::Dropped(why),
        };
        // Headers are part of what is checked before anything is used.
        let mut headers = Vec::new();
        for record in &records {
            headers.push(match record {
                Record::Packet(packet) | Record::Run(packet) => {
                    match self.header(counter, packet) {
                        Ok(header) => header,
                        Err(why) => return Verdict::Dropped(why),
                    }
                }
                _ => None,
            });
        }
        // One for the datagram itself, until all its records are processed.
        self.unfinished.insert(counter, 1);
        for (records_before, (record, header)) in records.into_iter().zip(headers).enumerate() {
            let records_before = records_before.min(255) as u8;
            let processed = match record {
                Record::Padding => Ok(true),
                Record::Acknowledgment(acknowledgment) => {
                    self.acknowledgments.push(acknowledgment);
                    Ok(true)
                }
                Record::Rejection(rejection) => {
                    self.rejections.push(rejection);
                    Ok(true)
                }
                Record::Piece(piece) => {
                    // It has arrived, whatever becomes of its packet.
                    if let Err(why) = self.piece(now, counter, &piece) {
                        self.given_up.push((counter, why));
                    }
                    Ok(true)
                }
                Record::Packet(packet) => self.packet(counter, header, &packet),
                Record::Run(packet) => self.run(now, counter, records_before, header, &packet),
            };
            if let Err(why) = processed {
                self.dropped.push((counter, why));
            }
            if processed != Ok(true) {
                self.add_unfinished(counter, NEVER);
            }
        }
        self.finish_one(counter);
        Verdict::Processed
    }

    fn add_unfinished(&mut self, counter: u64, frames: usize) {
        *self.unfinished.get_mut(&counter).expect("it is processed") += frames;
    }

    fn finish_one(&mut self, counter: u64) {
        let unfinished = self.unfinished.get_mut(&counter).expect("it is processed");
        *unfinished -= 1;
        if *unfinished == 0 {
            self.unfinished.remove(&counter);
            self.acknowledged.push(counter);
        }
    }

    fn piece(&mut self, now: u64, counter: u64, piece: &Piece<'_>) -> Parsed<()> {
        let Some(joined) = self.pieces.take(now, counter, piece)? else { return Ok(()) };
        let packet = joined.packet()?;
        // No header of an earlier datagram can be meant, and this one is not kept.
        let header = self.header(0, &packet)?.ok_or("a header that is not whole")?;
        let delivered = packets::deliveries(&header, packet.is_open, None, packet.body)?;
        self.delivered.extend(delivered);
        Ok(())
    }

    /// The header of a record, if it is there.
    fn header(&self, counter: u64, packet: &Packet<'_>) -> Parsed<Option<Restored>> {
        match self.slots.restore(counter, &packet.header, self.layout) {
            Ok(header) => {
                packets::check(&header, packet.is_open, packet.segments)?;
                Ok(Some(header))
            }
            Err(NoHeader::Missing) => Ok(None),
            Err(NoHeader::Invalid(why)) => Err(why),
        }
    }

    /// A packet that is not in the log. Is it there?
    fn packet(
        &mut self,
        counter: u64,
        header: Option<Restored>,
        packet: &Packet<'_>,
    ) -> Parsed<bool> {
        let Some(header) = header else { return Ok(false) };
        self.slots.keep(counter, &packet.header, &header);
        let delivered = packets::deliveries(&header, packet.is_open, packet.segments, packet.body)?;
        self.delivered.extend(delivered);
        Ok(true)
    }

    /// A packet or run as a frame.
    fn run(
        &mut self,
        now: u64,
        counter: u64,
        records_before: u8,
        header: Option<Restored>,
        packet: &Packet<'_>,
    ) -> Parsed<bool> {
        let Some(header) = header else {
            let reason = 2;
            let (ranges, lacks_many) = (Vec::new(), false);
            self.rejected.push(Rejected { counter, records_before, reason, ranges, lacks_many });
            return Ok(false);
        };
        self.slots.keep(counter, &packet.header, &header);
        let Some(log) = self.log.as_ref().filter(|log| counter >= log.counter) else {
            return Ok(false);
        };
        let base = self.ends.range(..counter).map(|(_, &end)| end).max().unwrap_or(0);
        let frame = Frame::parse(packet.body, log, base)?;
        if frame.offset.is_some() {
            let end = self.ends.entry(counter).or_insert(0);
            *end = frame.end.max(*end);
            self.is_contradicted |= self.waiting.iter().any(|waiting| {
                waiting.counter > counter && waiting.frame.offset.is_some_and(|it| it < frame.end)
            });
        }
        frame.check_sources(log)?;
        let waiting = Waiting {
            since: now,
            counter,
            records_before,
            header,
            is_open: packet.is_open,
            segments: packet.segments,
            frame,
            bytes: packet.body.len(),
        };
        self.add_unfinished(counter, 1);
        if let Some(waiting) = self.decode(waiting) {
            let bytes: usize = self.waiting.iter().map(|waiting| waiting.bytes).sum();
            if self.waiting.len() == WAITING.0 || bytes + waiting.bytes > WAITING.1 {
                self.reject_missing(&waiting);
            } else {
                self.waited += 1;
                self.waiting.push(waiting);
            }
        } else {
            self.decode_waiting();
        }
        Ok(true)
    }

    /// Decodes what waits and can be decoded by now.
    fn decode_waiting(&mut self) {
        loop {
            let before = self.waiting.len();
            for waiting in std::mem::take(&mut self.waiting) {
                let still = self.decode(waiting);
                self.waiting.extend(still);
            }
            if self.waiting.len() == before {
                return;
            }
        }
    }

    /// Decodes a frame, and delivers and stores its content. Gives it back if content is missing.
    fn decode(&mut self, waiting: Waiting) -> Option<Waiting> {
        let log = self.log.as_mut().expect("frames wait for a log that is there");
        let Waiting { counter, records_before, frame, .. } = &waiting;
        let content = match frame.content(log, &self.built_in) {
            Ok(content) => content,
            Err(NoContent::Missing) => return Some(waiting),
            Err(NoContent::Invalid(why)) => {
                let counter = *counter;
                self.dropped.push((counter, why));
                self.add_unfinished(counter, NEVER);
                return None;
            }
            Err(NoContent::Differs) => {
                let ranges = stated(frame.offset.unwrap_or(0), union(frame.sources.clone()));
                let (counter, records_before, reason) = (*counter, *records_before, 1);
                let lacks_many = false;
                self.rejected.push(Rejected {
                    counter,
                    records_before,
                    reason,
                    ranges,
                    lacks_many,
                });
                self.add_unfinished(counter, NEVER);
                return None;
            }
        };
        let counter = *counter;
        // Content is stored even if it does not fit the rest of its record.
        let is_stored = frame.offset.is_none_or(|offset| log.store(offset, &content));
        let Waiting { header, is_open, segments, .. } = &waiting;
        match packets::deliveries(header, *is_open, *segments, &content) {
            Ok(delivered) => self.delivered.extend(delivered),
            Err(why) => {
                self.dropped.push((counter, why));
                self.add_unfinished(counter, NEVER);
                return None;
            }
        }
        if !is_stored {
            self.add_unfinished(counter, NEVER);
        }
        self.finish_one(counter);
        None
    }

    /// Rejects frames that have waited for this long.
    pub fn expire(&mut self, now: u64, longest: u64) {
        for waiting in std::mem::take(&mut self.waiting) {
            if waiting.since + longest <= now {
                self.reject_missing(&waiting);
            } else {
                self.waiting.push(waiting);
            }
        }
    }

    fn reject_missing(&mut self, waiting: &Waiting) {
        let log = self.log.as_ref().expect("frames wait for a log that is there");
        let Waiting { counter, records_before, frame, .. } = waiting;
        let missing = frame.missing(log);
        let lacks_many = missing.len() > COLLECTED;
        let ranges = stated(frame.offset.unwrap_or(0), missing);
        let (counter, records_before, reason) = (*counter, *records_before, 0);
        self.rejected.push(Rejected { counter, records_before, reason, ranges, lacks_many });
        self.add_unfinished(counter, NEVER);
    }
}

/// At most 8 ranges as a rejection states them.
fn stated(offset: u64, mut ranges: Vec<Range<u64>>) -> Vec<(u64, u64)> {
    while ranges.len() > 8 {
        let gaps = ranges.windows(2).map(|two| two[1].start - two[0].end);
        let (least, _) = (0..).zip(gaps).min_by_key(|&(_, gap)| gap).expect("more than one");
        let joined: Range<u64> = ranges.remove(least + 1);
        ranges[least].end = joined.end;
    }
    ranges.iter().map(|range| (offset - range.start, range.end - range.start)).collect()
}
