//! The content logs of a link: how the ends agree on one for each direction.
//!
//! The sender of a direction announces a log, and writes no frame before the receiver has answered.
//! A number names each of its logs, so messages that come twice or on an earlier connection do no
//! harm.

use super::contexts::{self, Contexts, TRAIN_AFTER};
use super::control::Control;
use super::terms::{ContextTerms, LogTerms};
use oncewire_codec::datagram::{DatagramDecoder, DatagramEncoder, FrozenContext};
use oncewire_codec::{ConfigError, Decoder, Encoder, Sharing};
use std::ops::Range;

/// Smallest log in bytes.
pub const LEAST_LOG: u64 = 1 << 20;
/// Largest log in bytes that an end offers.
pub const MOST_LOG: u64 = 1 << 36;
/// How far below the highest content a receiver stores what comes late, of a log that has room for
/// 16 times as much.
pub const REORDER_WINDOW: u64 = 4 << 20;

/// What an end keeps for the other one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LogOffer {
    /// Largest log in bytes; 0 for none.
    pub capacity: u64,
    /// Largest reorder window in bytes.
    pub reorder: u64,
}

impl LogOffer {
    /// A log of up to `capacity` bytes; none if that is below [`LEAST_LOG`].
    pub fn of(capacity: u64) -> LogOffer {
        if capacity < LEAST_LOG {
            return LogOffer::default();
        }
        let capacity = capacity.min(MOST_LOG);
        LogOffer { capacity, reorder: REORDER_WINDOW.min(capacity / 16) }
    }

    /// What both can keep; `None` for no log.
    fn and(self, other: LogOffer) -> Option<LogOffer> {
        let capacity = self.capacity.min(other.capacity);
        let reorder = self.reorder.min(other.reorder).min(capacity / 16);
        (capacity >= LEAST_LOG).then_some(LogOffer { capacity, reorder })
    }
}

/// How a sender makes its log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogSettings {
    /// Largest log in bytes; 0 for none.
    pub capacity: u64,
    /// Whether content of one domain may be found in that of another.
    pub sharing: Sharing,
    /// Random: keys the fingerprints and seeds the checksums.
    pub key: u64,
}

/// The log of what this end sends.
pub(super) struct SendLog {
    pub(super) encoder: DatagramEncoder,
    pub(super) terms: LogTerms,
    /// The receiver has it, too.
    pub(super) is_current: bool,
    pub(super) contexts: Contexts,
}

impl SendLog {
    /// The receiver has stored `range`.
    pub(super) fn acknowledge(&mut self, range: Range<u64>) {
        self.contexts.acknowledged(&range);
        self.encoder.acknowledge(range);
    }

    /// A frame of the content in `range` was written.
    pub(super) fn written(&mut self, range: Range<u64>) {
        // What mostly repeats teaches nothing new.
        if 2 * self.encoder.written_literals() as u64 > range.end - range.start {
            self.contexts.sent(range);
        }
    }
}

/// The sender's part of the agreement.
#[derive(Debug, Default)]
pub(super) struct Announcer {
    settings: Option<LogSettings>,
    /// What the receiver can keep, as far as it has said so.
    offer: LogOffer,
    /// The number of the newest log.
    newest: u64,
    /// A message to send.
    message: Option<LogTerms>,
    /// See [`Sender::train_after`](super::Sender::train_after).
    pub(super) train_after: Option<u64>,
}

impl Announcer {
    /// Whether this end keeps logs, once the other has said what it can keep.
    pub(super) fn keeps_logs(&self) -> bool {
        self.settings.is_some()
    }

    pub(super) fn new(settings: LogSettings) -> Announcer {
        Announcer { settings: Some(settings), ..Announcer::default() }
    }

    /// The other end has connected, for the first time or again. Returns whether `log` goes on.
    pub(super) fn connected(&mut self, offer: LogOffer, log: Option<&SendLog>) -> bool {
        self.offer = offer;
        let Some(log) = log else { return false };
        if log.terms.capacity > offer.capacity || log.terms.reorder > offer.reorder {
            return false;
        }
        // Perhaps the connection ended before the receiver had the message.
        self.message = (!log.is_current).then_some(log.terms);
        true
    }

    /// Begins a log, from the datagram `first` on, whose content is referred to once it was sent `after`
    /// times. `None` if one of the ends keeps none.
    pub(super) fn begin(&mut self, first: u64, after: u8) -> Option<SendLog> {
        self.message = None;
        let settings = self.settings?;
        let LogOffer { capacity, reorder } = LogOffer::of(settings.capacity).and(self.offer)?;
        self.newest += 1;
        let terms = LogTerms { id: self.newest, capacity, reorder, first, seed: settings.key };
        let encoder = Encoder::builder()
            .cache(capacity)
            .span(reorder)
            .checksum_seed(terms.seed())
            .fingerprint_key(settings.key)
            .sharing(settings.sharing)
            .build_datagrams();
        // Only if there is no memory for it: then packets go as they are.
        let mut encoder = encoder.ok()?;
        encoder.refer_after(after).ok()?;
        encoder.set_context(0, Some(&FrozenContext::built_in()));
        self.message = Some(terms);
        let after = self.train_after.unwrap_or(TRAIN_AFTER);
        let contexts = Contexts::new(terms.id, terms.seed(), settings.sharing, after);
        Some(SendLog { encoder, terms, is_current: false, contexts })
    }

    pub(super) fn has_message(&self) -> bool {
        self.message.is_some()
    }

    /// The next message to the other end.
    pub(super) fn message(&mut self) -> Option<Control> {
        self.message.take().map(Control::Log)
    }
}

/// The log of what the other end sends.
pub(super) struct ReceiveLog {
    pub(super) decoder: DatagramDecoder,
    terms: LogTerms,
}

/// Terms that no log can have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "a log of {capacity} bytes with a reorder window of {reorder}: {offered} bytes were offered"
)]
pub struct LogRefused {
    /// Its size.
    pub capacity: u64,
    /// Its reorder window.
    pub reorder: u64,
    /// What this end keeps.
    pub offered: u64,
}

impl ReceiveLog {
    /// Makes the log that the other end has announced.
    pub(super) fn new(terms: LogTerms, offer: LogOffer) -> Result<ReceiveLog, LogRefused> {
        let LogTerms { capacity, reorder, .. } = terms;
        let refused = LogRefused { capacity, reorder, offered: offer.capacity };
        let fits = (LEAST_LOG..=offer.capacity).contains(&capacity)
            && reorder <= offer.reorder.min(capacity / 16);
        if !fits {
            return Err(refused);
        }
        let decoder: Result<_, ConfigError> = Decoder::builder()
            .cache(capacity)
            .span(reorder)
            .checksum_seed(terms.seed())
            .build_datagrams();
        let mut decoder = decoder.map_err(|_| refused)?;
        decoder.set_context(0, Some(&FrozenContext::built_in()));
        Ok(ReceiveLog { decoder, terms })
    }

    /// See [`Receiver::context`](super::Receiver::context).
    pub(super) fn context(&mut self, terms: &ContextTerms) -> Option<Control> {
        contexts::receive(terms, self.terms.id, self.terms.seed(), &mut self.decoder)
    }

    pub(super) fn id(&self) -> u64 {
        self.terms.id
    }

    /// Whether the frames of a datagram belong to it. Those of earlier ones were of another log.
    pub(super) fn has(&self, counter: u64) -> bool {
        counter >= self.terms.first
    }
}

impl std::fmt::Debug for SendLog {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SendLog").field("terms", &self.terms).finish_non_exhaustive()
    }
}

impl std::fmt::Debug for ReceiveLog {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ReceiveLog").field("terms", &self.terms).finish_non_exhaustive()
    }
}
