//! The packet link as state machines without I/O: IP packets between two sites in sealed datagrams.
//!
//! `docs/LINK.md` specifies the bytes. A link has two halves, so that two threads can work on it:
//! the [`Sender`] turns packets and runs into batches of datagrams, the [`Receiver`] turns opened
//! datagrams into packets and runs. What one half must know of the other is plain data
//! ([`Feedback`]). Neither half has a socket, a clock, a key or a random number, and neither reads a
//! header: the driver says where the payload begins, seals, and opens.
//!
//! Both halves outlive the keys of a connection: counters go on when keys are renewed. They end when
//! either end has lost its own.
//!
//! The driver:
//!
//! 1. passes each packet or run to [`Sender::enqueue`] and takes batches with [`Sender::transmit`];
//! 2. asks [`Receiver::admits`] before it opens a datagram, and calls [`Receiver::receive`] after;
//! 3. moves [`Receiver::feedback`] to [`Sender::feedback`] after each batch of received datagrams;
//! 4. calls [`Sender::transmit`] again at [`Sender::deadline`].
//!
//! Invariants: what is delivered is what was enqueued, however datagrams are lost, reordered or
//! repeated; memory is bounded; work is proportional to bytes.

mod acks;
pub mod control;
mod records;
mod replay;
mod runs;

pub use acks::{Acknowledgment, LOST_AFTER, MAX_DELAY, MAX_RANGES};
pub use records::{MAX_PACKET, MAX_SEGMENTS, PacketRecord, Record, RecordError, Records, Segments};
pub use replay::{COUNTERS, REPLAY_WINDOW, ReplayWindow};
pub use runs::{Batch, Delivered, Delivery, HEADER, TAG};

use acks::{Received, SHARE, Sent};
use std::num::NonZeroU16;
use std::time::Instant;

/// Bytes that sealing adds to a datagram's records.
pub const SEAL: usize = HEADER + TAG;
/// Bytes that a datagram with a single full segment has beside the inner packet: the seal; head, slot,
/// control byte and header length; number, count and size of the segment.
pub const OVERHEAD: usize = SEAL + 8;
/// A batch that has this many bytes takes no more packets.
pub const FULL_BATCH: usize = 256 << 10;
/// A datagram with less room than this takes no further record.
const LEAST_ROOM: usize = 64;
/// Acknowledgments that wait for the sender. What an older one says is in the newer ones, except on
/// paths that lose or reorder much.
const MAX_WAITING: usize = 16;

/// A packet or a run to send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Inbound<'a> {
    /// IP and transport headers.
    pub header: &'a [u8],
    /// Whether the transport checksum is open. It must be for a run.
    pub open_checksum: bool,
    /// For a run of at most [`MAX_SEGMENTS`], the payload of each segment but the last.
    pub segment: Option<NonZeroU16>,
    /// What follows the headers.
    pub payload: &'a [u8],
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

/// Counters of a [`Sender`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SenderStats {
    /// Datagrams.
    pub datagrams: u64,
    /// Their bytes, with the seal, without UDP and IP headers.
    pub bytes: u64,
    /// Packets taken; each segment of a run is one.
    pub packets: u64,
    /// Their bytes, with their headers.
    pub inner_bytes: u64,
    /// Datagrams that the peer has acknowledged.
    pub delivered: u64,
    /// Datagrams that the path has lost. Counted once [`LOST_AFTER`] later ones were sent.
    pub lost: u64,
}

/// Counters of a [`Receiver`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReceiverStats {
    /// Datagrams that opened.
    pub datagrams: u64,
    /// Their bytes, with the seal.
    pub bytes: u64,
    /// Packets delivered; each segment of a run is one.
    pub packets: u64,
    /// Their bytes, with their headers.
    pub inner_bytes: u64,
}

/// Why an opened datagram was dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Violation {
    /// Its counter came before, or is too old.
    #[error("a repeated or very old datagram")]
    Replay,
    /// The peer breaks the format.
    #[error(transparent)]
    Record(#[from] RecordError),
}

/// What a [`Receiver`] tells the [`Sender`] of the same end.
#[derive(Debug, Default)]
pub struct Feedback {
    /// What the peer has acknowledged.
    acknowledged: Vec<Acknowledgment>,
    /// What to acknowledge.
    acknowledgment: Acknowledgment,
    /// Bytes received that are to be acknowledged and were not reported here before.
    bytes: u64,
}

/// The half that sends.
#[derive(Debug)]
pub struct Sender {
    /// Room for records in a datagram.
    room: usize,
    next: u64,
    batch: Batch,
    /// Where the open datagram begins in the batch.
    open: Option<usize>,
    sent: Sent,
    acknowledgment: Acknowledgment,
    /// Bytes received since the last acknowledgment was sent.
    unacknowledged: u64,
    /// When an acknowledgment is due at the latest.
    due: Option<Instant>,
    stats: SenderStats,
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
            sent: Sent::default(),
            acknowledgment: Acknowledgment::default(),
            unacknowledged: 0,
            due: None,
            stats: SenderStats::default(),
        }
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
        let Inbound { header, open_checksum, segment, payload } = packet;
        let overhead = records::packet_overhead(header.len(), segment.map(NonZeroU16::get));
        let mut packets = 1;
        if let Some(size) = segment {
            let most = self.room.saturating_sub(overhead) / usize::from(size.get());
            packets = payload.len().div_ceil(size.get().into()).max(1);
            if packets > MAX_SEGMENTS || !open_checksum {
                return Err(Dropped::Run);
            }
            if most == 0 || header.len() + payload.len() > MAX_PACKET {
                return Err(Dropped::TooLarge);
            }
            for (segments, payload) in runs::slices(payload, size, most) {
                self.push(
                    PacketRecord { header, open_checksum, segments: Some(segments), payload },
                    overhead,
                );
            }
        } else {
            if overhead + payload.len() > self.room || header.len() + payload.len() > MAX_PACKET {
                return Err(Dropped::TooLarge);
            }
            self.push(PacketRecord { header, open_checksum, segments: None, payload }, overhead);
        }
        self.stats.packets += packets as u64;
        self.stats.inner_bytes += (packets * header.len() + payload.len()) as u64;
        Ok(())
    }

    /// Adds a record that fits an empty datagram.
    fn push(&mut self, record: PacketRecord<'_>, overhead: usize) {
        let len = overhead + records::length_len(overhead, record.payload.len());
        let len = len + record.payload.len();
        if self.open.is_some() && len > self.left() {
            self.close();
        }
        self.start();
        // With other records behind it, it needs a length. All full slices of a run are written
        // without, so that their datagrams are equally long.
        let last = len + LEAST_ROOM > self.left();
        record.write(last, &mut self.batch.bytes);
        if last {
            self.close();
        }
    }

    /// Opens a datagram, unless one is open.
    fn start(&mut self) {
        if self.open.is_none() {
            let start = self.batch.bytes.len();
            self.batch.bytes.resize(start + HEADER, 0);
            self.open = Some(start);
        }
    }

    /// Room for records in the open datagram.
    fn left(&self) -> usize {
        let start = self.open.unwrap_or(self.batch.bytes.len());
        self.room - (self.batch.bytes.len() - start).saturating_sub(HEADER)
    }

    fn close(&mut self) {
        if self.open.take().is_some() {
            self.batch.bytes.resize(self.batch.bytes.len() + TAG, 0);
            self.batch.ends.push(self.batch.bytes.len());
        }
    }

    /// Moves the batch to `batch`, whose memory is used for the next one. Returns whether there is
    /// anything to send.
    pub fn transmit(&mut self, now: Instant, batch: &mut Batch) -> bool {
        self.acknowledge(now);
        self.close();
        batch.clear();
        std::mem::swap(batch, &mut self.batch);
        batch.first_counter = self.next;
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
            self.start();
        }
        self.batch.bytes.extend_from_slice(&record);
        self.unacknowledged = 0;
        self.due = None;
    }

    /// Takes what the receiver of this end has seen, and leaves it empty. Returns false if the peer
    /// has acknowledged what was never sent.
    pub fn feedback(&mut self, feedback: &mut Feedback, now: Instant) -> bool {
        let mut is_possible = true;
        for acknowledgment in feedback.acknowledged.drain(..) {
            is_possible &= self.sent.acknowledged(&acknowledgment, self.next);
        }
        if feedback.bytes > 0 {
            std::mem::swap(&mut self.acknowledgment, &mut feedback.acknowledgment);
            self.unacknowledged += std::mem::take(&mut feedback.bytes);
            self.due.get_or_insert(now + MAX_DELAY);
        }
        is_possible
    }

    /// When to call [`Sender::transmit`], even without packets.
    pub fn deadline(&self) -> Option<Instant> {
        self.due
    }
}

/// The half that receives.
#[derive(Debug, Default)]
pub struct Receiver {
    window: ReplayWindow,
    received: Received,
    acknowledged: Vec<Acknowledgment>,
    /// Bytes received since the last feedback in datagrams that are to be acknowledged.
    bytes: u64,
    stats: ReceiverStats,
}

impl Receiver {
    /// Counters so far.
    pub fn stats(&self) -> ReceiverStats {
        self.stats
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
    /// # Errors
    /// [`Violation`]: nothing of the datagram counts.
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
        for record in Records::new(plain, next) {
            record?;
        }
        self.stats.datagrams += 1;
        self.stats.bytes += (plain.len() + SEAL) as u64;
        let mut is_acknowledged = false;
        for record in Records::new(plain, next) {
            match record? {
                Record::Padding => {}
                Record::Packet(packet) => {
                    is_acknowledged = true;
                    let count = packet.segments.map_or(1, |segments| u64::from(segments.count));
                    self.stats.packets += count;
                    self.stats.inner_bytes +=
                        count * packet.header.len() as u64 + packet.payload.len() as u64;
                    out.push(&packet);
                }
                Record::Acknowledgment(acknowledgment) => {
                    if self.acknowledged.len() == MAX_WAITING {
                        self.acknowledged.remove(0);
                    }
                    self.acknowledged.push(acknowledgment);
                }
            }
        }
        self.received.insert(counter, now);
        // A datagram with nothing but an acknowledgment is not acknowledged by itself.
        if is_acknowledged {
            self.bytes += (plain.len() + SEAL) as u64;
        }
        Ok(())
    }

    /// Adds what the sender of this end must know to `out`.
    pub fn feedback(&mut self, now: Instant, out: &mut Feedback) {
        out.acknowledged.append(&mut self.acknowledged);
        if self.bytes > 0 {
            out.bytes += std::mem::take(&mut self.bytes);
            self.received.report(now, &mut out.acknowledgment);
        }
    }
}
