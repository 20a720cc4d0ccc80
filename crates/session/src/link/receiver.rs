//! The half that receives: opened datagrams to packets.

use super::acks::{Acknowledgment, Received};
use super::records::{Record, RecordError, Records};
use super::replay::ReplayWindow;
use super::runs::Delivered;
use super::{Feedback, SEAL};
use std::time::Instant;

/// Acknowledgments that wait for the sender. What an older one says is in the newer ones, except on
/// paths that lose or reorder much.
const MAX_WAITING: usize = 16;

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
