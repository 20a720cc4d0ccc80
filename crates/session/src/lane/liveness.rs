//! Signs of life on a transport, and the PING that measures its round-trip time.

use std::time::{Duration, Instant};

#[derive(Debug)]
pub(super) struct Liveness {
    /// When the peer last sent something; the time the transport started if it sent nothing.
    received_at: Instant,
    /// The nonce of the unanswered PING, and when it was queued.
    ping: Option<(u64, Instant)>,
    /// When a PING was last wanted.
    pinged_at: Instant,
}

impl Liveness {
    pub(super) fn new(now: Instant) -> Liveness {
        Liveness { received_at: now, ping: None, pinged_at: now }
    }

    pub(super) fn received(&mut self, now: Instant) {
        self.received_at = now;
    }

    pub(super) fn received_at(&self) -> Instant {
        self.received_at
    }

    /// Since when nothing was received or asked; only asked, if what is received is `unread`.
    pub(super) fn quiet_since(&self, unread: bool) -> Instant {
        if unread { self.pinged_at } else { self.received_at.max(self.pinged_at) }
    }

    /// Returns whether to send a PING: not while one is unanswered.
    pub(super) fn ping(&mut self, nonce: u64, now: Instant) -> bool {
        self.pinged_at = now;
        let send = self.ping.is_none();
        if send {
            self.ping = Some((nonce, now));
        }
        send
    }

    pub(super) fn forget_ping(&mut self) {
        self.ping = None;
    }

    pub(super) fn since_ping(&self, now: Instant) -> Duration {
        now.saturating_duration_since(self.pinged_at)
    }

    /// The round-trip time, if the nonce is that of the unanswered PING.
    pub(super) fn pong(&mut self, nonce: u64, now: Instant) -> Option<Duration> {
        let (_, since) = self.ping.take_if(|(expected, _)| *expected == nonce)?;
        Some(now.saturating_duration_since(since))
    }
}
