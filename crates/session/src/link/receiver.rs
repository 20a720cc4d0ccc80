//! The half that receives: opened datagrams to packets.
//!
//! Longer than 600 lines: what happens to a datagram is told in one place, in its order; what has
//! state of its own is in the modules beside.

use super::acks::{Acknowledgment, Received, SHARE};
use super::control::Control;
use super::headers::{HeaderDecoder, Layout, Refusal, Restored, no_layout};
use super::logs::{LogOffer, LogRefused, ReceiveLog};
use super::pieces::Reassembly;
use super::record_error::RecordError;
use super::records::{MAX_PACKET, PacketRecord, Record, Records};
use super::rejection::{Reason, Rejection};
use super::replay::ReplayWindow;
use super::runs::Delivered;
use super::terms::{ContextTerms, LogTerms};
use super::waiting::{Waiting, WaitingFrame};
use super::{Feedback, SEAL};
use crate::metrics;
use oncewire_codec::FrameError;
use oncewire_codec::datagram::DatagramDecoded;
use std::collections::BTreeMap;
use std::ops::Range;
use std::time::{Duration, Instant};

/// Acknowledgments that wait for the sender. What an older one says is in the newer ones, except on
/// paths that lose or reorder much.
const MAX_WAITING: usize = 16;
/// A header that is kept and not made from one of its slot pays for an acknowledgment as so many
/// received bytes do: 20 bytes of acknowledgments, half of what an early one saves with the next
/// header of the flow.
const FIRST_HEADER: u64 = 20 * SHARE;
/// Rejections that wait for the sender. Further ones are dropped: nobody answers them.
const MAX_REJECTIONS: usize = 256;
/// Shortest time that a frame waits for content.
const LEAST_PATIENCE: Duration = Duration::from_millis(5);
/// Longest.
const MOST_PATIENCE: Duration = Duration::from_millis(250);

metrics! {
    /// Counters of a [`Receiver`].
    pub struct ReceiverStats {
        /// Datagrams that opened.
        datagrams: Counter, Count;
        /// Bytes of datagrams that opened, with the seal.
        bytes as "datagram_bytes": Counter, Bytes;
        /// Packets delivered; each segment of a run is one.
        packets: Counter, Count;
        /// Bytes of packets delivered, with their headers.
        inner_bytes as "packet_bytes": Counter, Bytes;
        /// Packets in pieces that were given up: a piece did not arrive in time, or they did not fit.
        given_up as "given_up_pieces": Counter, Count;
        /// Frames that came before content that they refer to.
        waited as "waited_frames": Counter, Count;
        /// Frames that were given up, since content that they refer to did not come, or is another.
        rejected as "rejected_frames": Counter, Count;
        /// Frames of a log that this end does not have any more.
        stale as "stale_frames": Counter, Count;
        /// Records that refer to a header that this end does not have.
        missing_headers: Counter, Count;
    }
}

impl ReceiverStats {
    /// Counts a packet or segments.
    fn count(&mut self, packet: &PacketRecord<'_>) {
        let count = packet.segments.map_or(1, |segments| u64::from(segments.count));
        self.packets += count;
        self.inner_bytes += count * packet.header.len() as u64 + packet.payload.len() as u64;
    }
}

/// Why an opened datagram was dropped.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Violation {
    /// Its counter came before, or is too old.
    #[error("a repeated or very old datagram")]
    Replay,
    /// The peer breaks the format.
    #[error(transparent)]
    Record(#[from] RecordError),
    /// A frame breaks the format.
    #[error(transparent)]
    Frame(#[from] FrameError),
}

/// The half that receives.
#[derive(Debug)]
pub struct Receiver {
    window: ReplayWindow,
    received: Received,
    acknowledged: Vec<Acknowledgment>,
    reassembly: Reassembly,
    /// Inner bytes received since the last feedback in datagrams that are to be acknowledged, and what
    /// first headers count beside.
    bytes: u64,
    offer: LogOffer,
    log: Option<ReceiveLog>,
    /// The number of the newest log that was announced.
    newest_log: u64,
    waiting: Waiting,
    /// Datagrams with frames that wait.
    unfinished: BTreeMap<u64, Unfinished>,
    /// A quarter of the round-trip time.
    patience: Duration,
    rejected: Vec<Rejection>,
    rejections: Vec<Rejection>,
    headers: HeaderDecoder,
    /// Headers of the records of a datagram, and where they are in the buffer; `None` if the peer
    /// refers to a header that is not there.
    restored: Vec<Option<Restored>>,
    buffer: Vec<u8>,
    /// Whether the peer is a node of a network, and not the end of a link.
    of_node: bool,
    stats: ReceiverStats,
}

/// A datagram that is not processed as a whole.
#[derive(Clone, Copy, Debug)]
struct Unfinished {
    /// Frames that wait, and 1 while its records are processed.
    waiting: u32,
    /// Whether the content of all others is stored.
    is_stored: bool,
}

/// What became of a frame.
enum Fate {
    /// Delivered. The range of the log that it fills now; empty if it does not belong there.
    Stored(Range<u64>),
    /// Delivered, but not stored, or given up.
    NotStored,
    /// It waits.
    Waits,
}

/// A record with a frame, and where it came from.
struct Frame<'a> {
    place: (u64, u8),
    record: PacketRecord<'a>,
    /// How often it was tried, and until when it waits, if it did.
    waited: Option<(u8, Instant)>,
}

impl Default for Receiver {
    /// Keeps no log, and knows no fields of headers.
    fn default() -> Receiver {
        Receiver {
            window: ReplayWindow::default(),
            received: Received::default(),
            acknowledged: Vec::new(),
            reassembly: Reassembly::default(),
            bytes: 0,
            offer: LogOffer::default(),
            log: None,
            newest_log: 0,
            waiting: Waiting::default(),
            unfinished: BTreeMap::new(),
            patience: LEAST_PATIENCE,
            rejected: Vec::new(),
            rejections: Vec::new(),
            headers: HeaderDecoder::new(no_layout),
            restored: Vec::new(),
            buffer: Vec::new(),
            of_node: false,
            stats: ReceiverStats::default(),
        }
    }
}

impl Receiver {
    /// Keeps logs as `offer` says.
    pub fn with_logs(mut self, offer: LogOffer) -> Receiver {
        self.offer = offer;
        self
    }

    /// Restores headers, whose fields `layout` finds. It must be that of the peer's [`Sender`].
    ///
    /// [`Sender`]: super::Sender
    #[must_use]
    pub fn with_layout(self, layout: Layout) -> Receiver {
        Receiver { headers: HeaderDecoder::new(layout), ..self }
    }

    /// Takes records between nodes of a network, and no packets of a link.
    #[must_use]
    pub fn for_node(self) -> Receiver {
        Receiver { of_node: true, ..self }
    }

    fn records<'a>(&self, plain: &'a [u8], next: u64) -> Records<'a> {
        if self.of_node { Records::of_node(plain, next) } else { Records::new(plain, next) }
    }

    /// The other end has announced a log. Returns the answer, if there is one.
    ///
    /// # Errors
    /// [`LogRefused`] if the log is larger than was offered, or there is no memory for it.
    pub fn log(&mut self, terms: LogTerms) -> Result<Option<Control>, LogRefused> {
        if terms.id > self.newest_log {
            self.log = None;
            self.waiting.clear();
            self.unfinished.clear();
            self.log = Some(ReceiveLog::new(terms, self.offer)?);
            self.newest_log = terms.id;
        }
        let is_newest = self.log.as_ref().is_some_and(|log| log.id() == terms.id);
        Ok(is_newest.then_some(Control::LogReady(terms.id)))
    }

    /// Gives the log up, and makes no other: another association is in use.
    pub fn retire(&mut self) {
        self.offer = LogOffer::default();
        self.log = None;
        self.waiting.clear();
        self.unfinished.clear();
    }

    /// The other end has announced a frozen context. Returns the answer, if it is of this log.
    pub fn context(&mut self, terms: &ContextTerms) -> Option<Control> {
        self.log.as_mut()?.context(terms)
    }

    /// The other end uses a context no more.
    pub fn context_drop(&mut self, log: u64, number: u8) {
        // Number 0 is built in.
        if let Some(own) = self.log.as_mut().filter(|own| own.id() == log && number > 0) {
            own.decoder.set_context(number, None);
        }
    }

    /// The round-trip time, for how long frames wait.
    pub fn set_rtt(&mut self, rtt: Duration) {
        self.patience = (rtt / 4).clamp(LEAST_PATIENCE, MOST_PATIENCE);
    }

    /// Memory in bytes: of the log as much as it takes once it is full.
    pub fn memory(&self) -> usize {
        self.log.as_ref().map_or(0, |log| log.decoder.memory())
            + self.waiting.memory()
            + self.headers.memory()
    }

    /// Counters so far.
    pub fn stats(&self) -> ReceiverStats {
        let given_up = self.stats.given_up + self.reassembly.given_up();
        ReceiverStats { given_up, ..self.stats }
    }

    /// The replay window.
    pub fn window(&self) -> &ReplayWindow {
        &self.window
    }

    /// Whether a datagram with this counter is worth opening.
    pub fn admits(&self, counter: u64) -> bool {
        self.window.admits(counter)
    }

    /// Takes the records of an opened datagram. `next` is [`Sender::next_counter`] of this end, or
    /// any later counter.
    ///
    /// [`Sender::next_counter`]: super::Sender::next_counter
    ///
    /// # Errors
    /// [`Violation`]. Of a datagram that is no sequence of records, nothing counts.
    pub fn receive(
        &mut self,
        counter: u64,
        plain: &[u8],
        next: u64,
        now: Instant,
        out: &mut Delivered,
    ) -> Result<(), Violation> {
        if !self.window.record(counter) {
            return Err(Violation::Replay);
        }
        // Everything is checked before anything is delivered.
        self.restore_all(counter, plain, next)?;
        self.stats.datagrams += 1;
        self.stats.bytes += (plain.len() + SEAL) as u64;
        let inner_before = self.stats.inner_bytes;
        let mut is_acknowledged = false;
        let mut is_stored = true;
        let mut violation = None;
        let (restored, buffer) =
            (std::mem::take(&mut self.restored), std::mem::take(&mut self.buffer));
        let mut headers = restored.iter();
        for (at, record) in self.records(plain, next).enumerate() {
            let place = (counter, at.min(255) as u8);
            match record? {
                Record::Padding => {}
                Record::Packet(packet) => {
                    is_acknowledged = true;
                    let Some(restored) = headers.next().and_then(Option::as_ref) else {
                        // Nobody can send it again.
                        self.stats.missing_headers += 1;
                        is_stored = false;
                        continue;
                    };
                    let packet = self.keep(packet, restored, counter, &buffer)?;
                    self.stats.count(&packet);
                    out.push(&packet);
                }
                Record::Piece { number, is_last, bytes } => {
                    is_acknowledged = true;
                    let piece = (number, is_last, bytes);
                    let outer = out.ecn();
                    if let Some((whole, ecn)) = self.reassembly.insert(counter, piece, outer, now) {
                        out.set_ecn(ecn);
                        self.reassembled(&whole, out);
                        out.set_ecn(outer);
                    }
                }
                Record::Run(record) => {
                    is_acknowledged = true;
                    let Some(restored) = headers.next().and_then(Option::as_ref) else {
                        self.stats.missing_headers += 1;
                        is_stored = false;
                        self.reject(Rejection::new(place, Reason::Header, 0, std::iter::empty()));
                        continue;
                    };
                    let record = self.keep(record, restored, counter, &buffer)?;
                    match self.arrived(Frame { place, record, waited: None }, now, out) {
                        Ok(is_frame_stored) => is_stored &= is_frame_stored,
                        Err(error) => {
                            is_stored = false;
                            violation = Some(error);
                        }
                    }
                }
                Record::Acknowledgment(acknowledgment) => {
                    if self.acknowledged.len() == MAX_WAITING {
                        self.acknowledged.remove(0);
                    }
                    self.acknowledged.push(acknowledgment);
                }
                Record::Node(record) => {
                    is_acknowledged = true;
                    self.stats.packets += 1;
                    self.stats.inner_bytes += record.body.len() as u64;
                    out.push_node(record);
                }
                Record::Rejection(rejection) => {
                    if self.rejected.len() < MAX_REJECTIONS {
                        self.rejected.push(rejection);
                    }
                }
            }
        }
        (self.restored, self.buffer) = (restored, buffer);
        // A datagram with nothing but feedback is not acknowledged by itself.
        if is_acknowledged {
            self.bytes += self.stats.inner_bytes - inner_before;
        }
        if self.unfinished.contains_key(&counter) {
            self.finish_one(counter, is_stored, now);
        } else if is_stored {
            self.received.insert(counter, now);
        }
        violation.map_or(Ok(()), Err)
    }

    /// Restores the headers of all records of a datagram, which checks the records.
    fn restore_all(&mut self, counter: u64, plain: &[u8], next: u64) -> Result<(), Violation> {
        self.restored.clear();
        self.buffer.clear();
        for record in self.records(plain, next) {
            if let Record::Packet(packet) | Record::Run(packet) = record? {
                let restored = self.restore(&packet, counter)?;
                self.restored.push(restored);
            }
        }
        Ok(())
    }

    /// A frame has arrived. Returns whether nothing of it was rejected so far: it is stored, or it
    /// waits.
    fn arrived(
        &mut self,
        frame: Frame<'_>,
        now: Instant,
        out: &mut Delivered,
    ) -> Result<bool, Violation> {
        match self.decode(&frame, now, out)? {
            Fate::Stored(range) => self.stored(range, now, out),
            Fate::NotStored => return Ok(false),
            Fate::Waits => {
                // One for the datagram itself: a record that follows in it may be what the frame
                // waits for.
                let new = Unfinished { waiting: 1, is_stored: true };
                self.unfinished.entry(frame.place.0).or_insert(new).waiting += 1;
            }
        }
        Ok(true)
    }

    /// Restores the header of a record to the buffer; `None` if the peer refers to one that is not
    /// there.
    fn restore(
        &mut self,
        packet: &PacketRecord<'_>,
        counter: u64,
    ) -> Result<Option<Restored>, RecordError> {
        match self.headers.restore(packet.section, counter, &mut self.buffer) {
            Ok(restored) => {
                packet.with_header(&self.buffer[restored.header.clone()], restored.implied)?;
                Ok(Some(restored))
            }
            Err(Refusal::Missing) => Ok(None),
            Err(Refusal::Record(error)) => Err(error),
        }
    }

    /// The record with its header, which is kept if the peer may refer to it.
    fn keep<'a>(
        &mut self,
        packet: PacketRecord<'a>,
        restored: &Restored,
        counter: u64,
        buffer: &'a [u8],
    ) -> Result<PacketRecord<'a>, RecordError> {
        self.headers.keep(restored, counter, buffer);
        if restored.waits_for_acknowledgment() {
            self.bytes += FIRST_HEADER;
        }
        packet.with_header(&buffer[restored.header.clone()], restored.implied)
    }

    fn reject(&mut self, rejection: Rejection) {
        self.stats.rejected += 1;
        if self.rejections.len() < MAX_REJECTIONS {
            self.rejections.push(rejection);
        }
    }

    /// Delivers a packet that was in pieces. They were acknowledged before it could be checked, so
    /// one that is no packet is only counted.
    fn reassembled(&mut self, whole: &[u8], out: &mut Delivered) {
        let mut records = Records::new(whole, 0);
        let packet = match (records.next(), records.next()) {
            (Some(Ok(Record::Packet(packet))), None) if packet.segments.is_none() => packet,
            _ => return self.stats.given_up += 1,
        };
        // Nothing is kept, and no datagram before the first can be referred to: its header is whole.
        self.buffer.clear();
        let Ok(Some(restored)) = self.restore(&packet, 0) else {
            return self.stats.given_up += 1;
        };
        let buffer = std::mem::take(&mut self.buffer);
        if let Ok(packet) = packet.with_header(&buffer[restored.header], restored.implied) {
            self.stats.count(&packet);
            out.push(&packet);
        }
        self.buffer = buffer;
    }

    /// Decodes a frame and delivers its content, or lets it wait, or gives it up.
    fn decode(
        &mut self,
        frame: &Frame<'_>,
        now: Instant,
        out: &mut Delivered,
    ) -> Result<Fate, Violation> {
        let Frame { place, record, waited } = frame;
        let Some(log) = self.log.as_mut().filter(|log| log.has(place.0)) else {
            self.stats.stale += 1;
            return Ok(Fate::NotStored);
        };
        let rejection = match log.decoder.decode(place.0, record.payload) {
            Ok(DatagramDecoded::Content { offset, stored, bytes }) => {
                let fits = record.segments.is_none_or(|segments| segments.fits(bytes.len()));
                if !fits || record.header.len() + bytes.len() > MAX_PACKET {
                    return Err(RecordError::Segments.into());
                }
                let packet = PacketRecord { payload: bytes, ..*record };
                self.stats.count(&packet);
                out.push(&packet);
                return Ok(match offset {
                    Some(offset) if stored => Fate::Stored(offset..offset + bytes.len() as u64),
                    Some(_) => Fate::NotStored,
                    None => Fate::Stored(0..0),
                });
            }
            Ok(DatagramDecoded::Missing { offset, ranges }) => {
                let (tries, due) = waited.map_or((0, now + self.patience), |waited| waited);
                let has_room = self.waiting.has_room(record.header.len() + record.payload.len());
                if now < due && has_room {
                    self.stats.waited += u64::from(waited.is_none());
                    self.waiting.push(WaitingFrame {
                        place: *place,
                        header: record.header.to_vec(),
                        implied: record.implied,
                        open_checksum: record.open_checksum,
                        segments: record.segments,
                        frame: record.payload.to_vec(),
                        lacks: ranges.to_vec(),
                        due,
                        tries: tries + 1,
                        looks: 0,
                    });
                    return Ok(Fate::Waits);
                }
                Rejection::new(*place, Reason::Missing, offset, ranges.iter().cloned())
            }
            Err(FrameError::Checksum { offset, .. }) => {
                Rejection::new(*place, Reason::Checksum, offset, log.decoder.sources())
            }
            Err(error) => return Err(error.into()),
        };
        self.reject(rejection);
        Ok(Fate::NotStored)
    }

    /// Content was stored: frames that waited for it are tried again.
    fn stored(&mut self, range: Range<u64>, now: Instant, out: &mut Delivered) {
        if self.waiting.is_empty() || range.is_empty() {
            return;
        }
        let mut ranges = vec![range];
        while let Some(range) = ranges.pop() {
            while let Some(log) = &self.log
                && let Some(frame) = self.waiting.take_for(&range, log.decoder.held())
            {
                ranges.extend(self.retry(frame, now, out));
            }
        }
    }

    /// Tries a frame again that waited. Returns what it has stored.
    fn retry(
        &mut self,
        frame: WaitingFrame,
        now: Instant,
        out: &mut Delivered,
    ) -> Option<Range<u64>> {
        let WaitingFrame { place, implied, open_checksum, segments, tries, due, .. } = frame;
        let (header, payload) = (&frame.header, &frame.frame);
        let record =
            PacketRecord { section: &[], header, implied, open_checksum, segments, payload };
        let waited = Some((tries, due));
        // Its literals were not looked at before.
        let fate = self.decode(&Frame { place, record, waited }, now, out);
        let fate = fate.unwrap_or(Fate::NotStored);
        let is_stored = match &fate {
            Fate::Waits => return None,
            Fate::Stored(_) => true,
            Fate::NotStored => false,
        };
        self.finish_one(place.0, is_stored, now);
        match fate {
            Fate::Stored(range) => Some(range),
            _ => None,
        }
    }

    /// One of the frames that a datagram waits for is decoded or given up, or all its records are
    /// processed.
    fn finish_one(&mut self, counter: u64, is_stored: bool, now: Instant) {
        let Some(unfinished) = self.unfinished.get_mut(&counter) else { return };
        unfinished.waiting -= 1;
        unfinished.is_stored &= is_stored;
        if unfinished.waiting == 0 {
            if unfinished.is_stored {
                self.received.insert(counter, now);
            }
            self.unfinished.remove(&counter);
        }
    }

    /// Gives up frames that have waited long enough, after a last try.
    pub fn expire(&mut self, now: Instant, out: &mut Delivered) {
        let inner_before = self.stats.inner_bytes;
        while let Some(frame) = self.waiting.take_due(now) {
            if let Some(range) = self.retry(frame, now, out) {
                self.stored(range, now, out);
            }
        }
        self.bytes += self.stats.inner_bytes - inner_before;
    }

    /// When to call [`Receiver::expire`].
    pub fn deadline(&self) -> Option<Instant> {
        self.waiting.due()
    }

    /// Adds what the sender of this end must know to `out`.
    pub fn feedback(&mut self, now: Instant, out: &mut Feedback) {
        out.acknowledged.append(&mut self.acknowledged);
        out.rejected.append(&mut self.rejected);
        out.rejections.append(&mut self.rejections);
        if self.bytes > 0 {
            out.bytes += std::mem::take(&mut self.bytes);
            self.received.report(now, &mut out.acknowledgment);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A frame that waits, and what it waits for: the bytes of both are acknowledged once. The frames
    /// are those of `docs/LINK.md`, section 8.
    #[test]
    #[expect(clippy::disallowed_methods, reason = "simulated time needs a time to start from")]
    fn bytes_of_a_frame_that_waited_count_once() {
        let mut receiver = Receiver::default().with_logs(LogOffer::of(1 << 20));
        let terms = LogTerms { id: 3, capacity: 1 << 20, reorder: 1 << 16, first: 0, seed: 17 };
        receiver.log(terms).expect("as offered");
        let run = |frame: &[u8]| [&[0x50, 0, 4, 2, 0xaa, 0xbb], frame].concat();
        let repeat =
            [0x14, 0x64, 0, 4, 0, 0xa0, 1, 0x5a, 0x21, 0x51, 4, 0xc6, 0xea, 0x6a, 0x1a, 0x15, 0xd0];
        let content: Vec<u8> = (0..100).collect();
        let (now, mut out) = (Instant::now(), Delivered::with_room(0));
        receiver.receive(1, &run(&repeat), 0, now, &mut out).unwrap();
        assert_eq!((receiver.stats.waited, receiver.bytes), (1, 0));
        let first = [&[0x10, 0, 0], &content[..]].concat();
        receiver.receive(0, &run(&first), 0, now, &mut out).unwrap();
        assert_eq!(receiver.bytes, 102 + 83);
    }
}
