//! The receiving half of a direction: the decoder and the state of its log.

use crate::config::{MAX_LANES, decoder_of};
use crate::hello::LogState;
use crate::message::Epoch;
use crate::outgoing::chain;
use oncewire_codec::{Decoded, Decoder, DecoderMemory, FrameError, FrameView, MAX_BLOCK, Scan};
use std::collections::BTreeMap;

/// Most blocks that may lie above the acknowledged offset. A peer that keeps to the protocol has
/// fewer: the unacknowledged messages of its lanes.
const MAX_EARLY: usize = crate::MAX_LANES * crate::lane::MAX_UNACKNOWLEDGED;

pub(crate) struct Incoming {
    /// Largest log, in bytes, that this end ever allowed the peer to begin.
    limit: u64,
    capacity: u64,
    /// Entropy contexts of each lane that the decoder has.
    contexts: usize,
    epoch: Epoch,
    /// The log that was dropped last. Its acknowledged content is gone, so it cannot begin again,
    /// though its EPOCH may still arrive on another lane.
    dropped: u64,
    decoder: Option<Decoder>,
    chain: u64,
    /// Checksums of the blocks above the acknowledged offset, by their offsets.
    early: BTreeMap<u64, u64>,
    /// End of the highest block that was decoded.
    written: u64,
}

/// The result of decoding a frame.
pub(crate) enum Frame<'a> {
    /// The block's content, and the length of its frame.
    Block(&'a [u8], usize),
    /// The frame needs this many more bytes.
    NeedMore(usize),
    /// The frame refers to content that will arrive on another lane.
    Waiting,
}

/// Why a frame failed, or a log cannot begin.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum IncomingError {
    #[error(transparent)]
    Frame(#[from] FrameError),
    #[error("a frame came before any EPOCH")]
    NoLog,
    #[error("every lane waits for content of another")]
    Deadlock,
    #[error("more than {MAX_EARLY} blocks above the acknowledged offset")]
    TooManyEarly,
    #[error("invalid EPOCH: {0}")]
    Begin(String),
}

impl Incoming {
    /// Each lane has `contexts` entropy contexts.
    pub(crate) fn new(limit: u64, contexts: usize) -> Incoming {
        Incoming {
            limit,
            contexts,
            capacity: limit,
            epoch: Epoch::NONE,
            dropped: 0,
            decoder: None,
            chain: 0,
            early: BTreeMap::new(),
            written: 0,
        }
    }

    /// Sets the limit of a new session. Drops a log that is larger.
    pub(crate) fn set_limit(&mut self, limit: u64) {
        self.limit = limit;
        if self.capacity > limit {
            self.discard();
        }
    }

    /// Allows logs of up to `limit` bytes from now on. Never lowers the limit: the EPOCH of a
    /// larger log may be in flight.
    pub(crate) fn raise_limit(&mut self, limit: u64) {
        self.limit = self.limit.max(limit);
    }

    /// Entropy contexts of each lane that the peer may use.
    pub(crate) fn contexts(&self) -> usize {
        self.contexts
    }

    /// The LOG field of HELLO.
    pub(crate) fn state(&self) -> LogState {
        let Some(decoder) = &self.decoder else { return LogState::default() };
        LogState { epoch: self.epoch, acknowledged: decoder.acknowledged(), chain: self.chain }
    }

    pub(crate) fn epoch(&self) -> Epoch {
        self.epoch
    }

    /// How far above the acknowledged offset blocks may end, in bytes.
    pub(crate) fn span(&self) -> u64 {
        self.capacity / 4
    }

    pub(crate) fn capacity(&self) -> u64 {
        self.capacity
    }

    /// The acknowledged offset: everything below has been decoded.
    pub(crate) fn acknowledged(&self) -> u64 {
        self.decoder.as_ref().map_or(0, Decoder::acknowledged)
    }

    /// The peer begins an epoch: an empty log of `capacity` bytes, or the current log from offset
    /// `keep` on.
    pub(crate) fn begin(
        &mut self,
        epoch: Epoch,
        keep: Option<u64>,
        capacity: u64,
    ) -> Result<(), IncomingError> {
        let begin = |why: String| IncomingError::Begin(why);
        if epoch.log == 0 || capacity < crate::config::SMALLEST_LOG || capacity > self.limit {
            return Err(begin(format!(
                "a log of {capacity} bytes, where {} to {} are allowed",
                crate::config::SMALLEST_LOG,
                self.limit
            )));
        }
        if epoch.log == self.dropped {
            // The EPOCH is late. If frames follow it, they fail for want of a log, and the peer
            // begins another.
            return Ok(());
        }
        match keep {
            None => {
                self.discard();
                let decoder =
                    decoder_of(capacity, self.contexts).checksum_seed(epoch.seed()).build();
                self.decoder = Some(decoder.map_err(|error| begin(error.to_string()))?);
                self.capacity = capacity;
            }
            Some(offset) => {
                let Some(decoder) = self
                    .decoder
                    .as_mut()
                    .filter(|_| epoch.log == self.epoch.log && capacity == self.capacity)
                else {
                    return Err(begin("it continues a log that is not held".into()));
                };
                if decoder.acknowledged() != offset || epoch.number <= self.epoch.number {
                    return Err(begin(format!(
                        "it continues at offset {offset}, where the acknowledged offset is {}",
                        decoder.acknowledged()
                    )));
                }
                decoder.rewind(epoch.seed());
                self.early.clear();
            }
        }
        self.epoch = epoch;
        Ok(())
    }

    /// Drops the log; the peer has to begin another.
    pub(crate) fn discard(&mut self) {
        if self.epoch != Epoch::NONE {
            self.dropped = self.epoch.log;
        }
        (self.decoder, self.epoch, self.chain) = (None, Epoch::NONE, 0);
        self.written = 0;
        self.early.clear();
    }

    /// Decodes the frame at the front of `input`, which came on `lane`.
    pub(crate) fn decode(&mut self, lane: usize, input: &[u8]) -> Result<Frame<'_>, IncomingError> {
        let decoder = self.decoder.as_mut().ok_or(IncomingError::NoLog)?;
        // The decoder has contexts for as many lanes as there can be. With those of others, a peer
        // with one lane would take memory that was not promised.
        if let Ok(Scan::Frame(view)) = FrameView::scan(input, MAX_BLOCK)
            && let Some(context) = view.context().filter(|context| context % MAX_LANES != lane)
        {
            let (field, value) = ("context", context as u64);
            return Err(FrameError::Field { field, value, allowed: "those of its lane" }.into());
        }
        // The answer borrows the decoder, so the content is fetched again below.
        let (offset, len, consumed) = match decoder.decode(input)? {
            Decoded::NeedMore(more) => return Ok(Frame::NeedMore(more)),
            Decoded::Missing(_) => return Ok(Frame::Waiting),
            Decoded::Block { offset, content, consumed } => (offset, content.len(), consumed),
        };
        self.written = self.written.max(offset + len as u64);
        self.early.insert(offset, decoder.last_checksum());
        while let Some(first) =
            self.early.first_entry().filter(|first| *first.key() < decoder.acknowledged())
        {
            self.chain = chain(self.chain, first.remove());
        }
        if self.early.len() > MAX_EARLY {
            return Err(IncomingError::TooManyEarly);
        }
        Ok(Frame::Block(decoder.last_block(), consumed))
    }

    /// Whether anything was received since the log began.
    pub(crate) fn is_used(&self) -> bool {
        self.written > 0
    }

    /// Most memory, in bytes, that a log of `size` bytes in place of this one and the contexts in
    /// use would take; 0 if nothing was received since the log began.
    pub(crate) fn promised_memory(&self, size: u64) -> u64 {
        let of = |decoder: &Decoder| {
            let DecoderMemory { log, inside, .. } = decoder_of(size, self.contexts).memory();
            (log + inside + decoder.memory().contexts) as u64
        };
        self.decoder.as_ref().filter(|_| self.is_used()).map_or(0, of)
    }

    /// Memory in use, in bytes.
    pub(crate) fn memory(&self) -> u64 {
        let of = |decoder: &Decoder| {
            let DecoderMemory { log, contexts, inside, buffers } = decoder.memory();
            self.written.min(log as u64) + (contexts + inside + buffers) as u64
        };
        self.decoder.as_ref().map_or(0, of) + (self.early.len() * 32) as u64
    }
}
