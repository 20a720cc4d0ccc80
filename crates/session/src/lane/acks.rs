//! What a lane owes its peer: the count of messages processed, and when to send it.

use std::time::{Duration, Instant};

/// An ACK is due at once after this many messages.
const ACK_MESSAGES: u64 = 1024;

#[derive(Debug, Default)]
pub(super) struct Acks {
    /// Counted messages processed over all transports, and the count last sent to the peer.
    processed: u64,
    reported: u64,
    /// Decoded bytes since the last ACK.
    decoded: u64,
    due: Option<Instant>,
    /// The value of `processed` when a message failed to decode.
    failed_at: Option<u64>,
}

impl Acks {
    /// A new transport: HELLO has reported the count.
    pub(super) fn restart(&mut self) {
        self.reported = self.processed;
        self.decoded = 0;
        self.due = None;
    }

    pub(super) fn processed(&self) -> u64 {
        self.processed
    }

    pub(super) fn decoded(&mut self, len: usize) {
        self.decoded += len as u64;
    }

    /// A message was processed. Returns whether an ACK is due at once; otherwise it is due after
    /// `delay`, if that is given.
    pub(super) fn processed_one(
        &mut self,
        ack_bytes: u64,
        now: Instant,
        delay: Option<Duration>,
    ) -> bool {
        self.processed += 1;
        self.failed_at = None;
        let at_once = self.decoded >= ack_bytes || self.processed - self.reported >= ACK_MESSAGES;
        if at_once {
            self.due = None;
        } else if let (None, Some(delay)) = (self.due, delay) {
            self.due = Some(now + delay);
        }
        at_once
    }

    /// The next message failed to decode. Returns whether it failed before.
    pub(super) fn failed(&mut self) -> bool {
        self.failed_at.replace(self.processed) == Some(self.processed)
    }

    /// The count to send, if it has grown.
    pub(super) fn take(&mut self) -> Option<u64> {
        if self.processed == self.reported {
            return None;
        }
        self.reported = self.processed;
        (self.decoded, self.due) = (0, None);
        Some(self.processed)
    }

    pub(super) fn due(&self) -> Option<Instant> {
        self.due
    }

    /// Returns whether an ACK has become due by `now`.
    pub(super) fn expire(&mut self, now: Instant) -> bool {
        self.due.take_if(|at| now >= *at).is_some()
    }
}
