//! The half that sends: packets to batches of datagrams.

use super::acks::{Acknowledgment, MAX_DELAY, SHARE, Sent};
use super::records::{self, MAX_PACKET, MAX_SEGMENTS, PacketRecord};
use super::runs::{self, Batch, HEADER, TAG};
use super::{Feedback, SEAL};
use std::num::NonZeroU16;
use std::time::Instant;

/// A batch that has this many bytes takes no more packets.
pub const FULL_BATCH: usize = 256 << 10;
/// A datagram with less room than this takes no further record.
const LEAST_ROOM: usize = 64;
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
