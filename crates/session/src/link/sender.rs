//! The half that sends: packets to batches of datagrams.

mod answers;
mod deal;
mod nodes;

use super::acks::{Acknowledgment, MAX_DELAY, PAID_DELAY, SHARE, Sent, TYPICAL};
use super::black_hole::BlackHole;
use super::classifier::Classifier;
use super::control::Control;
use super::headers::{HeaderEncoder, Implied, Layout, no_layout};
use super::in_flight::InFlight;
use super::inner_acks::InnerAcks;
use super::logs::{Announcer, LogOffer, LogSettings, SendLog};
use super::records::{self, MAX_PACKET, MAX_SEGMENTS, PacketRecord};
use super::rejection::Rejection;
use super::retransmissions::Retransmissions;
use super::runs::{self, Batch, HEADER, TAG};
use super::{Feedback, SEAL};
use crate::metrics;
use oncewire_codec::Domain;
use oncewire_codec::datagram::RunTokens;
use std::num::{NonZeroU8, NonZeroU16};
use std::time::Instant;

/// A batch that has this many bytes takes no more packets.
pub const FULL_BATCH: usize = 256 << 10;
/// A datagram with less room than this takes no further record.
pub(super) const LEAST_ROOM: usize = 64;
/// A payload with fewer bytes is not logged: a frame would take as much.
const LEAST_LOGGED: usize = 64;
/// Bytes of a frame of literals beside these, with an offset of 3 bytes.
const FRAME_OVERHEAD: usize = 4;
/// Bytes of a frame of literals beside these, with an offset of 8 bytes.
const REPAIR_OVERHEAD: usize = 9;
/// Rejected checksums within [`CHECKSUM_WINDOW`] datagrams after which a log is given up.
const MOST_CHECKSUMS: u32 = 64;
/// See [`MOST_CHECKSUMS`].
const CHECKSUM_WINDOW: u64 = 10_000;

/// Which content a sender refers to: the policies of Santos and Wetherall, section 3.1.3.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Policy {
    /// All that was sent while the path loses nothing; what was acknowledged once it seems to have lost
    /// something, until 32,768 datagrams in a row have arrived. What an inner sender sends again refers
    /// to acknowledged content only, and so it does by [`Policy::Immediate`].
    #[default]
    Auto,
    /// All that was sent. A datagram that is lost makes those that refer to it useless, until the
    /// receiver has said so.
    Immediate,
    /// What was sent this many times. A datagram that is lost makes those useless that refer to it, as
    /// with [`Policy::Immediate`], but there are fewer, and later.
    AfterK(NonZeroU8),
    /// Only what the receiver has acknowledged. A datagram that is lost costs itself only.
    Acked,
    /// Only what the receivers of TCP have acknowledged, as far as the caller says so
    /// ([`Sender::inner_acknowledged`]). To compare: [`Policy::Acked`] learns the same earlier, of all
    /// protocols.
    TcpAcked,
}

/// A packet or a run to send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Inbound<'a> {
    /// IP and transport headers.
    pub header: &'a [u8],
    /// Whether the transport checksum is open. It must be for a run.
    pub open_checksum: bool,
    /// What the headers leave out: of a run, lengths and checksum.
    pub implied: Implied,
    /// For a run of at most [`MAX_SEGMENTS`], the payload of each segment but the last.
    pub segment: Option<NonZeroU16>,
    /// What follows the headers.
    pub payload: &'a [u8],
    /// Whose content it is.
    pub domain: Domain,
}

/// Why a packet was not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Dropped {
    /// It does not fit a datagram.
    #[error("a packet that does not fit a datagram")]
    TooLarge,
    /// A run has too many segments, or a checksum that is not open.
    #[error("a run of an impossible form")]
    Run,
}

metrics! {
    /// Counters of a [`Sender`].
    pub struct SenderStats {
        /// Datagrams sent.
        datagrams: Counter, Count;
        /// Bytes of datagrams sent, with the seal, without UDP and IP headers.
        bytes as "datagram_bytes": Counter, Bytes;
        /// Packets taken; each segment of a run is one.
        packets: Counter, Count;
        /// Bytes of packets taken, with their headers.
        inner_bytes as "packet_bytes": Counter, Bytes;
        /// Bytes of the headers of packets taken.
        header_bytes: Counter, Bytes;
        /// Bytes of header sections.
        section_bytes as "coded_header_bytes": Counter, Bytes;
        /// Datagrams that the peer has acknowledged.
        delivered as "acknowledged_datagrams": Counter, Count;
        /// Datagrams that the path has lost. Counted once enough later ones were sent.
        lost as "lost_datagrams": Counter, Count;
        /// Bytes of content that went through the log.
        logged_bytes: Counter, Bytes;
        /// Bytes of content that went past the log, since its flow is encrypted.
        bypassed_bytes: Counter, Bytes;
        /// Bytes of the frames that carried what is in the log.
        frame_bytes: Counter, Bytes;
        /// Frames that the peer has rejected.
        rejected as "rejected_frames": Counter, Count;
        /// Rejected frames that were sent again.
        repaired as "repaired_frames": Counter, Count;
        /// Logs that were begun.
        logs as "logs_begun": Counter, Count;
    }
}

/// The half that sends.
#[derive(Debug)]
pub struct Sender {
    /// Room for records in a datagram.
    pub(super) room: usize,
    next: u64,
    pub(super) batch: Batch,
    /// Where the open datagram begins in the batch.
    pub(super) open: Option<usize>,
    /// Its ECN bits, and those of packets from now on.
    pub(super) open_ecn: u8,
    pub(super) ecn: u8,
    sent: Sent,
    black_hole: BlackHole,
    acknowledgment: Acknowledgment,
    /// Bytes received since the last acknowledgment was sent.
    unacknowledged: u64,
    /// When an acknowledgment is due at the latest.
    due: Option<Instant>,
    /// Something is to be sent as soon as possible, since then.
    urgent: Option<Instant>,
    rejections: Vec<Rejection>,
    /// Records in the open datagram.
    records: u8,
    pub(super) announcer: Announcer,
    pub(super) log: Option<SendLog>,
    policy: Policy,
    classifier: Classifier,
    retransmissions: Retransmissions,
    inner_acks: InnerAcks,
    layout: Layout,
    /// The flow of the next packet, and whether it shows that the flow is encrypted.
    flow: (u64, bool),
    in_flight: InFlight,
    tokens: RunTokens,
    headers: HeaderEncoder,
    /// A header section, a frame, and the headers of a rejected one.
    section: Vec<u8>,
    frame: Vec<u8>,
    header: Vec<u8>,
    /// Rejected checksums since a counter.
    checksums: (u64, u32),
    pub(super) stats: SenderStats,
}

impl Sender {
    /// Sends sealed datagrams of up to `largest` bytes.
    ///
    /// # Panics
    /// If `largest` has no room for an acknowledgment: 256 bytes.
    pub fn new(largest: usize) -> Sender {
        assert!(largest >= 256, "datagrams of {largest} bytes");
        Sender {
            room: largest.min(MAX_PACKET) - SEAL,
            next: 0,
            batch: Batch::default(),
            open: None,
            open_ecn: 0,
            ecn: 0,
            sent: Sent::default(),
            black_hole: BlackHole::new(largest),
            acknowledgment: Acknowledgment::default(),
            unacknowledged: 0,
            due: None,
            urgent: None,
            rejections: Vec::new(),
            records: 0,
            announcer: Announcer::default(),
            log: None,
            policy: Policy::default(),
            classifier: Classifier::default(),
            retransmissions: Retransmissions::default(),
            inner_acks: InnerAcks::default(),
            layout: no_layout,
            flow: (0, false),
            in_flight: InFlight::default(),
            tokens: RunTokens::default(),
            headers: HeaderEncoder::new(no_layout),
            section: Vec::new(),
            frame: Vec::new(),
            header: Vec::new(),
            checksums: (0, 0),
            stats: SenderStats::default(),
        }
    }

    /// Finds what repeats, once the other end has said what it keeps, and refers to it as `policy`
    /// says.
    pub fn with_log(mut self, settings: LogSettings, policy: Policy) -> Sender {
        self.announcer = Announcer::new(settings);
        self.policy = policy;
        self
    }

    /// Shortens headers, whose fields `layout` finds. The peer must use the same layout.
    #[must_use]
    pub fn with_layout(self, layout: Layout) -> Sender {
        Sender { layout, headers: HeaderEncoder::new(layout), ..self }
    }

    /// The other end has connected, for the first time or again, and keeps logs as `offer` says.
    pub fn connected(&mut self, offer: LogOffer) {
        if !self.announcer.connected(offer, self.log.as_ref()) {
            self.begin_log();
        } else if let Some(log) = &mut self.log {
            log.contexts.connected();
        }
    }

    /// The next message to the other end.
    pub fn message(&mut self) -> Option<Control> {
        let log = self.log.as_mut();
        self.announcer.message().or_else(|| log?.contexts.message())
    }

    /// The other end has made the log of this number.
    pub fn log_ready(&mut self, id: u64) {
        if let Some(log) = self.log.as_mut().filter(|log| log.terms.id == id) {
            log.is_current = true;
        }
    }

    /// Forgets the log and begins another one. Until the other end has it, packets go as they are.
    fn begin_log(&mut self) {
        // What is in the batch already may have frames of the log before.
        self.close();
        self.in_flight.clear();
        self.inner_acks.clear();
        self.checksums = (self.next_counter(), 0);
        self.log = None;
        let after = if let Policy::AfterK(times) = self.policy { times.get() } else { 1 };
        self.log = self.announcer.begin(self.next_counter(), after);
        self.stats.logs += u64::from(self.log.is_some());
    }

    /// Whether there is a message to the other end, or content to train a context from.
    pub fn has_message(&self) -> bool {
        let log = self.log.as_ref();
        self.announcer.has_message() || log.is_some_and(|log| log.contexts.has_work())
    }

    /// Gives the log up, and begins no other: another association is in use.
    pub fn retire(&mut self) {
        self.close();
        self.announcer = Announcer::default();
        self.in_flight.clear();
        self.inner_acks.clear();
        self.log = None;
    }

    /// The receiver of TCP of a flow, as of [`Sender::set_flow`], expects this sequence number next. Only
    /// [`Policy::TcpAcked`] uses it.
    pub fn inner_acknowledged(&mut self, flow: u64, next: u32) {
        let Sender { inner_acks, log, .. } = self;
        inner_acks.acknowledged(flow, next, |range| {
            if let Some(log) = log {
                log.acknowledge(range);
            }
        });
    }

    /// Says which flow the next packet belongs to, by a hash that outsiders cannot predict, and whether
    /// the packet shows that the flow is encrypted. Such flows bypass the log.
    pub fn set_flow(&mut self, flow: u64, is_encrypted: bool) {
        self.flow = (flow, is_encrypted);
    }

    /// Whether nothing is known of a flow, and it matters, so that its packets are worth looking at.
    pub fn is_unknown(&self, flow: u64) -> bool {
        self.announcer.keeps_logs() && self.classifier.is_unknown(flow)
    }

    /// Memory in bytes: of the log as much as it takes once it is full.
    pub fn memory(&self) -> usize {
        let log = self.log.as_ref().map_or(0, |log| {
            let memory = log.encoder.memory();
            memory.log + memory.table + memory.buffers + log.contexts.memory()
        });
        let headers = self.headers.memory();
        log + headers
            + self.in_flight.memory()
            + self.retransmissions.memory()
            + self.inner_acks.memory()
            + self.batch.bytes.capacity()
            + self.frame.capacity()
    }

    /// Sends sealed datagrams of up to `largest` bytes from now on.
    ///
    /// # Panics
    /// As [`Sender::new`].
    pub fn set_largest(&mut self, largest: usize) {
        assert!(largest >= 256, "datagrams of {largest} bytes");
        // What is open may be longer than the new room.
        self.close();
        self.room = largest.min(MAX_PACKET) - SEAL;
        self.black_hole = BlackHole::new(largest);
    }

    /// Longest sealed datagram in bytes.
    pub fn largest(&self) -> usize {
        self.room + SEAL
    }

    /// States the two ECN bits of the packets that are added next (RFC 3168 section 5). Datagrams with
    /// them have the same ones: RFC 6040, section 4.1, normal mode.
    pub fn set_ecn(&mut self, ecn: u8) {
        self.ecn = ecn;
    }

    /// Bytes of the batch so far.
    pub fn batched(&self) -> usize {
        self.batch.bytes.len()
    }

    /// Whether the largest datagrams, above [`SMALL_DATAGRAM`](super::SMALL_DATAGRAM), are lost while
    /// others arrive: the path has become narrower without a word. `heard` is when the peer was last heard
    /// from by other means. [`Sender::set_largest`] ends the suspicion.
    pub fn suspects_black_hole(&self, heard: Option<Instant>, now: Instant) -> bool {
        self.black_hole.is_suspected(heard, now)
    }

    /// The counter of the next datagram.
    pub fn next_counter(&self) -> u64 {
        self.next + self.batch.len() as u64
    }

    /// Counters so far.
    pub fn stats(&self) -> SenderStats {
        let (delivered, lost) = self.sent.outcome();
        SenderStats { delivered, lost, ..self.stats }
    }

    /// Whether the batch is large enough to be sent.
    pub fn is_full(&self) -> bool {
        self.batch.bytes.len() >= FULL_BATCH
    }

    /// Adds a packet or a run to the batch.
    ///
    /// # Errors
    /// [`Dropped`]; nothing was added.
    pub fn enqueue(&mut self, packet: Inbound<'_>) -> Result<(), Dropped> {
        let mut section = std::mem::take(&mut self.section);
        section.clear();
        let result = self.enqueue_with(packet, &mut section);
        self.section = section;
        result
    }

    fn enqueue_with(&mut self, packet: Inbound<'_>, section: &mut Vec<u8>) -> Result<(), Dropped> {
        let Inbound { header, open_checksum, implied, segment, payload, .. } = packet;
        let size = segment.map(NonZeroU16::get);
        let packets = size.map_or(1, |size| payload.len().div_ceil(size.into()).max(1));
        let is_closed = !open_checksum || implied != Implied::LengthsAndChecksum;
        if segment.is_some() && (packets > MAX_SEGMENTS || is_closed) {
            return Err(Dropped::Run);
        }
        if header.len() + payload.len() > MAX_PACKET {
            return Err(Dropped::TooLarge);
        }
        if self.open.is_some() && self.open_ecn != self.ecn {
            self.close();
        }
        let least = size.map_or(payload.len(), usize::from);
        let room = self.room.saturating_sub(records::packet_overhead(0, size) + least);
        self.headers.write(header, implied, room.saturating_sub(FRAME_OVERHEAD), section);
        if section.len() > room {
            return Err(Dropped::TooLarge);
        }
        let record =
            PacketRecord { section, header, implied, open_checksum, segments: None, payload };
        if !self.enqueue_logged(record, segment, packet.domain) {
            self.enqueue_plain(record, segment);
        }
        self.stats.packets += packets as u64;
        self.stats.inner_bytes += (packets * header.len() + payload.len()) as u64;
        self.stats.header_bytes += (packets * header.len()) as u64;
        Ok(())
    }

    /// Adds a packet or a run that fits, without the log.
    fn enqueue_plain(&mut self, record: PacketRecord<'_>, segment: Option<NonZeroU16>) {
        let overhead = records::packet_overhead(record.section.len(), segment.map(NonZeroU16::get));
        let Some(size) = segment else { return self.push(record, overhead, None) };
        let most = (self.room - overhead) / usize::from(size.get());
        let mut slices = runs::slices(record.payload, size, most).peekable();
        while let Some((segments, payload)) = slices.next() {
            let next = slices.peek().map(|(_, payload)| overhead + payload.len());
            let segments = Some(segments);
            self.push(PacketRecord { segments, payload, ..record }, overhead, next);
        }
    }

    /// Adds a record that fits an empty datagram. `next` is the length of the record after it, if that
    /// is known.
    fn push(&mut self, record: PacketRecord<'_>, overhead: usize, next: Option<usize>) {
        let len = overhead + records::length_len(overhead, record.payload.len());
        let len = len + record.payload.len();
        if self.open.is_some() && len > self.left() {
            self.close();
        }
        self.start(self.ecn);
        self.headers.sent(self.next_counter());
        self.stats.section_bytes += record.section.len() as u64;
        // With other records behind it, it needs a length. All full slices of a run are written
        // without, so that their datagrams are equally long.
        let last = len + next.unwrap_or(0).max(LEAST_ROOM) > self.left();
        record.write(last, &mut self.batch.bytes);
        self.pushed(last);
    }

    /// Takes note of a record in the open datagram.
    pub(super) fn pushed(&mut self, last: bool) {
        self.records += 1;
        if last || self.records == u8::MAX {
            self.close();
        }
    }

    /// Opens a datagram, unless one is open.
    pub(super) fn start(&mut self, ecn: u8) {
        if self.open.is_none() {
            self.open_ecn = ecn;
            let start = self.batch.bytes.len();
            self.batch.bytes.resize(start + HEADER, 0);
            self.open = Some(start);
            self.records = 0;
        }
    }

    /// Room for records in the open datagram.
    pub(super) fn left(&self) -> usize {
        let start = self.open.unwrap_or(self.batch.bytes.len());
        self.room - (self.batch.bytes.len() - start).saturating_sub(HEADER)
    }

    pub(super) fn close(&mut self) {
        if self.open.take().is_some() {
            self.batch.bytes.resize(self.batch.bytes.len() + TAG, 0);
            self.batch.ends.push(self.batch.bytes.len());
            self.batch.ecn.push(self.open_ecn);
        }
    }

    /// Moves the batch to `batch`, whose memory is used for the next one. Returns whether there is
    /// anything to send.
    pub fn transmit(&mut self, now: Instant, batch: &mut Batch) -> bool {
        self.acknowledge(now);
        self.reject();
        self.close();
        self.urgent = None;
        batch.clear();
        std::mem::swap(batch, &mut self.batch);
        batch.first_counter = self.next;
        let mut start = 0;
        for (&end, counter) in batch.ends.iter().zip(self.next..) {
            self.black_hole.sent(counter, end - start, now);
            start = end;
        }
        self.next += batch.len() as u64;
        self.stats.datagrams += batch.len() as u64;
        self.stats.bytes += batch.bytes.len() as u64;
        !batch.is_empty()
    }

    /// Writes an acknowledgment if one is due and paid for.
    fn acknowledge(&mut self, now: Instant) {
        let Some(due) = self.due else { return };
        let mut record = Vec::new();
        self.acknowledgment.write(&mut record);
        let rides = self.open.is_some() && record.len() <= self.left();
        let cost = record.len() + if rides { 0 } else { SEAL };
        if now < due && (cost as u64) * SHARE > self.unacknowledged {
            return;
        }
        if !rides {
            self.close();
            self.start(0);
        }
        self.batch.bytes.extend_from_slice(&record);
        self.pushed(false);
        self.unacknowledged = 0;
        self.due = None;
    }

    /// Takes what the receiver of this end has seen, and leaves it empty. Returns false if the peer
    /// has acknowledged what was never sent.
    pub fn feedback(&mut self, feedback: &mut Feedback, now: Instant) -> bool {
        let mut is_possible = true;
        let Sender { sent, in_flight, log, headers, black_hole, policy, .. } = self;
        for acknowledgment in feedback.acknowledged.drain(..) {
            black_hole.acknowledged(&acknowledgment, self.next);
            let is_sent = sent.acknowledged(&acknowledgment, self.next, |counters| {
                in_flight.acknowledged(&counters, |range| {
                    if let Some(log) = log
                        && *policy != Policy::TcpAcked
                    {
                        log.acknowledge(range);
                    }
                });
            });
            if is_sent {
                headers.acknowledged(&acknowledgment);
            }
            is_possible &= is_sent;
        }
        if let Some(log) = &mut self.log {
            if self.policy != Policy::TcpAcked {
                // A match would grow across the first copy of what was lost and sent again.
                self.in_flight.lost(self.sent.settled(), |range| log.encoder.withdraw(range));
            }
            log.contexts.settled(self.sent.settled(), &mut log.encoder);
        }
        for rejection in feedback.rejected.drain(..) {
            self.rejected(&rejection, now);
        }
        if !feedback.rejections.is_empty() {
            self.rejections.append(&mut feedback.rejections);
            self.urgent.get_or_insert(now);
        }
        if feedback.bytes > 0 {
            std::mem::swap(&mut self.acknowledgment, &mut feedback.acknowledgment);
            self.unacknowledged += std::mem::take(&mut feedback.bytes);
            let is_paid = self.unacknowledged >= (SEAL as u64 + TYPICAL) * SHARE;
            let due = now + if is_paid { PAID_DELAY } else { MAX_DELAY };
            self.due = Some(self.due.map_or(due, |before| before.min(due)));
        }
        is_possible
    }

    /// When to call [`Sender::transmit`], even without packets.
    pub fn deadline(&self) -> Option<Instant> {
        self.urgent.or(self.due)
    }
}
