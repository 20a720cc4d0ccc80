//! The receiving half of a direction: the decoder and what it holds.

use crate::config::decoder_of;
use crate::hello::LogState;
use crate::message::Epoch;
use crate::outgoing::chain;
use oncewire_codec::{Decoded, Decoder, DecoderMemory, FrameError};
use std::collections::BTreeMap;

/// Most blocks that may lie above the contiguous part of the log. A peer that follows the rules has fewer: its lanes' unacknowledged messages.
const MAX_EARLY: usize = crate::MAX_LANES * crate::lane::MAX_UNACKNOWLEDGED;

pub(crate) struct Incoming {
    /// Largest log that the peer was ever told it may begin, in bytes.
    limit: u64,
    capacity: u64,
    epoch: Epoch,
    /// The log that was lost last. What of it was acknowledged is gone, so it cannot begin again, though its beginning may arrive on
    /// another lane.
    lost: u64,
    decoder: Option<Decoder>,
    chain: u64,
    /// Checksums of blocks above the contiguous part, by offset.
    early: BTreeMap<u64, u64>,
    /// Bytes of content below which the log is known to be written.
    written: u64,
}

/// What came of a frame.
pub(crate) enum Taken<'a> {
    /// The block's content, and how many bytes of the input its frame took.
    Block(&'a [u8], usize),
    NeedMore(usize),
    /// It refers to content that comes on another lane.
    Waiting,
}

/// Why a frame was not taken.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum IncomingError {
    #[error(transparent)]
    Frame(#[from] FrameError),
    #[error("a frame came before any log was begun")]
    NoLog,
    #[error("every lane waits for content that comes on none")]
    NeverComes,
    #[error("more than {MAX_EARLY} blocks above the contiguous part of the log")]
    TooManyEarly,
    #[error("the log cannot be begun: {0}")]
    Begin(String),
}

impl Incoming {
    pub(crate) fn new(limit: u64) -> Incoming {
        Incoming {
            limit,
            capacity: limit,
            epoch: Epoch::NONE,
            lost: 0,
            decoder: None,
            chain: 0,
            early: BTreeMap::new(),
            written: 0,
        }
    }

    /// Takes part in a session with another limit. What is held stays if it fits.
    pub(crate) fn set_limit(&mut self, limit: u64) {
        self.limit = limit;
        if self.capacity > limit {
            self.lose();
        }
    }

    /// Logs of up to `limit` bytes may begin from now on. Never lowered: the beginning of a larger one may be in flight.
    pub(crate) fn raise_limit(&mut self, limit: u64) {
        self.limit = self.limit.max(limit);
    }

    /// What the peer is told at the beginning of a transport.
    pub(crate) fn state(&self) -> LogState {
        let Some(decoder) = &self.decoder else { return LogState::default() };
        LogState { epoch: self.epoch, low: decoder.low(), chain: self.chain }
    }

    pub(crate) fn epoch(&self) -> Epoch {
        self.epoch
    }

    /// How far ahead of the contiguous part frames may be, in bytes.
    pub(crate) fn span(&self) -> u64 {
        self.capacity / 4
    }

    pub(crate) fn capacity(&self) -> u64 {
        self.capacity
    }

    pub(crate) fn low(&self) -> u64 {
        self.decoder.as_ref().map_or(0, Decoder::low)
    }

    /// The peer begins an epoch: an empty log of `capacity` bytes, or the one at hand from `keep` on.
    pub(crate) fn begin(&mut self, epoch: Epoch, keep: Option<u64>, capacity: u64) -> Result<(), IncomingError> {
        let begin = |why: String| IncomingError::Begin(why);
        if epoch.log == 0 || capacity < crate::config::SMALLEST_LOG || capacity > self.limit {
            return Err(begin(format!("{capacity} bytes, where {} to {} are agreed", crate::config::SMALLEST_LOG, self.limit)));
        }
        if epoch.log == self.lost {
            // The frames that follow say that there is no log, and the peer begins another.
            return Ok(());
        }
        match keep {
            None => {
                self.lose();
                let decoder = decoder_of(capacity).checksum_seed(epoch.seed()).build();
                self.decoder = Some(decoder.map_err(|error| begin(error.to_string()))?);
                self.capacity = capacity;
            }
            Some(offset) => {
                let Some(decoder) = self.decoder.as_mut().filter(|_| epoch.log == self.epoch.log && capacity == self.capacity)
                else {
                    return Err(begin("it goes on from a log that is not here".into()));
                };
                if decoder.low() != offset || epoch.number <= self.epoch.number {
                    return Err(begin(format!("it goes on at offset {offset}, where {} is held", decoder.low())));
                }
                decoder.rewind(epoch.seed());
                self.early.clear();
            }
        }
        self.epoch = epoch;
        Ok(())
    }

    /// Drops the log; the peer is to begin another.
    pub(crate) fn lose(&mut self) {
        if self.epoch != Epoch::NONE {
            self.lost = self.epoch.log;
        }
        (self.decoder, self.epoch, self.chain) = (None, Epoch::NONE, 0);
        self.written = 0;
        self.early.clear();
    }

    /// Decodes the frame at the front of `input`.
    pub(crate) fn take(&mut self, input: &[u8]) -> Result<Taken<'_>, IncomingError> {
        let decoder = self.decoder.as_mut().ok_or(IncomingError::NoLog)?;
        // The decoder's answer borrows it whole; what is needed besides is read again after.
        let (offset, len, consumed) = match decoder.decode(input)? {
            Decoded::NeedMore(more) => return Ok(Taken::NeedMore(more)),
            Decoded::Missing(_) => return Ok(Taken::Waiting),
            Decoded::Block { offset, content, consumed } => (offset, content.len(), consumed),
        };
        self.written = self.written.max(offset + len as u64);
        self.early.insert(offset, decoder.last_checksum());
        while let Some(first) = self.early.first_entry().filter(|first| *first.key() < decoder.low()) {
            self.chain = chain(self.chain, first.remove());
        }
        if self.early.len() > MAX_EARLY {
            return Err(IncomingError::TooManyEarly);
        }
        Ok(Taken::Block(decoder.last_block(), consumed))
    }

    /// Whether something was received since the log began.
    pub(crate) fn is_used(&self) -> bool {
        self.written > 0
    }

    /// Memory that a log of `size` bytes in place of this one and the contexts in use may come to take in bytes; 0 while nothing was received
    /// since the log began.
    pub(crate) fn promised_memory(&self, size: u64) -> u64 {
        let of = |decoder: &Decoder| (decoder_of(size).memory().log + decoder.memory().contexts) as u64;
        self.decoder.as_ref().filter(|_| self.is_used()).map_or(0, of)
    }

    /// Memory in use in bytes.
    pub(crate) fn memory(&self) -> u64 {
        let of = |decoder: &Decoder| {
            let DecoderMemory { log, contexts, buffers } = decoder.memory();
            self.written.min(log as u64) + (contexts + buffers) as u64
        };
        self.decoder.as_ref().map_or(0, of) + (self.early.len() * 32) as u64
    }
}
