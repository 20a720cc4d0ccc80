//! A log that a driver has stored goes back into memory.

use super::{LogHeader, Place, Places, Run, Side, domain_of_owner};
use crate::config::{Config, decoder_of, encoder_of};
use crate::epoch::Epoch;
use crate::limits::{LARGEST_LOG, SMALLEST_LOG};
use oncewire_codec::{DEFAULT_BLOCK, Decoder, Domain, Encoder};

/// Largest epoch number, or offset, that a stored log may have: it goes into messages, and on from
/// there.
const MOST: u64 = 1 << 61;

/// What is stored of a log besides its bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogRecord {
    /// As it began, with the number of its newest epoch.
    pub header: LogHeader,
    /// Lowest offset whose content is stored: all of it is, from there to the end, which may be the
    /// same, but for padding
    /// that ends at multiples of the log's size.
    pub from: u64,
    /// Where the content ends: at the end of a [`Piece`](super::Piece), or where it was rewound to.
    pub end: Place,
    /// The places that were noted ([`Piece::is_place`](super::Piece::is_place)), in ascending order.
    pub places: Vec<Place>,
    /// Whose the content of a sending log is, in ascending order. Content before the first run
    /// belongs to nobody.
    pub runs: Vec<Run>,
}

/// Why a stored log cannot go back into memory. A driver goes on without it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RestoreError {
    /// The log is too small for any session, or too large.
    #[error("the stored log has {capacity} bytes: {SMALLEST_LOG} to {LARGEST_LOG} are possible")]
    Capacity {
        /// Its size in bytes.
        capacity: u64,
    },
    /// What is stored contradicts itself.
    #[error("the stored log is inconsistent: {0}")]
    Record(&'static str),
    /// Content came that does not follow what came before.
    #[error("content of the stored log at offset {offset} does not follow what ends at {end}")]
    Content {
        /// Where it begins.
        offset: u64,
        /// Where the content before ended.
        end: u64,
    },
    /// The content ended early.
    #[error("the stored log ends at offset {end}, and its record says {expected}")]
    Incomplete {
        /// Where it ended.
        end: u64,
        /// Where it must end.
        expected: u64,
    },
    /// The encoder or decoder cannot be built.
    #[error(transparent)]
    Codec(#[from] oncewire_codec::ConfigError),
}

/// A stored log on its way back into memory: [`RestoredLog::push`] its content, then give it to
/// [`Logs::restored`](crate::Logs::restored).
pub struct RestoredLog {
    header: LogHeader,
    end: Place,
    places: Places,
    runs: Vec<Run>,
    /// Where the content pushed so far ends.
    at: u64,
    codec: Codec,
}

enum Codec {
    Encoder(Box<Encoder>),
    Decoder(Box<Decoder>),
}

/// A sending log that is back.
pub(crate) struct RestoredSending {
    pub(crate) header: LogHeader,
    pub(crate) end: Place,
    pub(crate) places: Places,
    pub(crate) encoder: Box<Encoder>,
}

/// A receiving log that is back.
pub(crate) struct RestoredReceiving {
    pub(crate) header: LogHeader,
    pub(crate) end: Place,
    pub(crate) places: Places,
    pub(crate) decoder: Box<Decoder>,
}

impl RestoredLog {
    /// The log of one side, before its content. Allocates its memory.
    ///
    /// # Errors
    /// [`RestoreError`] if the log does not fit `config`, or the record contradicts itself.
    pub fn new(
        config: &Config,
        side: Side,
        record: LogRecord,
    ) -> Result<RestoredLog, RestoreError> {
        let LogRecord { header, from, end, mut places, runs } = record;
        let LogHeader { epoch, capacity, key } = header;
        if !(SMALLEST_LOG..=LARGEST_LOG).contains(&capacity) {
            return Err(RestoreError::Capacity { capacity });
        }
        let wrong = |what| Err(RestoreError::Record(what));
        if epoch == Epoch::NONE || epoch.log == 0 || epoch.number > MOST {
            return wrong("its epoch");
        }
        if from > end.offset || end.offset == 0 || end.offset > MOST {
            return wrong("its first and last offset");
        }
        if !places.is_sorted_by(|one, next| one.offset < next.offset)
            || places.last().is_some_and(|last| last.offset > end.offset)
        {
            return wrong("its places are out of order");
        }
        if !runs.is_sorted_by(|one, next| one.start < next.start) {
            return wrong("its owners are out of order");
        }
        // What the ring has no room for is of no use, and no more places fit it than this. Places
        // need no content: where there is none, the log goes on with an empty ring.
        let least = end.offset.saturating_sub(capacity);
        let from = from.max(least);
        places.retain(|place| place.offset > least);
        // A log that is larger than memory now goes on with an empty ring, if it can: what it holds
        // lies at other positions in a smaller one.
        let fits = capacity <= config.log;
        let from = if fits { from } else { end.offset };
        let ring = capacity.min(config.log);
        let codec = match side {
            Side::Sending => Codec::Encoder(Box::new(
                encoder_of(&config.encoder, ring, config.contexts)
                    .fingerprint_key(key)
                    .checksum_seed(epoch.seed())
                    .build()?,
            )),
            Side::Receiving => Codec::Decoder(Box::new(
                decoder_of(ring, config.contexts).checksum_seed(epoch.seed()).build()?,
            )),
        };
        let mut codec = codec;
        // Of a log that was not stored up to its end, nothing comes back: it goes on there.
        let begins = from < end.offset
            || match &mut codec {
                Codec::Encoder(encoder) => encoder.begin_at(from).is_ok(),
                Codec::Decoder(decoder) => decoder.begin_at(from),
            };
        if !begins {
            return wrong("where it begins");
        }
        let header = match side {
            // The encoder's log has the size that both ends knew, until they agree on another.
            Side::Sending => header,
            Side::Receiving => LogHeader { capacity: ring, ..header },
        };
        Ok(RestoredLog { header, end, places: Places::new(places), runs, at: from, codec })
    }

    /// Where the next content begins, unless padding comes first. At first that is above
    /// [`LogRecord::from`] if more was stored than the log has room for.
    pub fn at(&self) -> u64 {
        self.at
    }

    /// The next content, at `offset`: where the last one ended, or, after padding, where the next
    /// pass of the ring begins. Pieces may be of any length.
    ///
    /// # Errors
    /// [`RestoreError::Content`] if it does not follow, or lies above the end.
    pub fn push(&mut self, offset: u64, content: &[u8]) -> Result<(), RestoreError> {
        let capacity = self.header.capacity;
        let failed = RestoreError::Content { offset, end: self.at };
        if offset < self.at
            || offset.checked_add(content.len() as u64).is_none_or(|end| end > self.end.offset)
        {
            return Err(failed);
        }
        let (mut offset, mut rest) = (offset, content);
        while !rest.is_empty() {
            let next = self.runs.partition_point(|run| run.start <= offset);
            let run_end = self.runs.get(next).map_or(u64::MAX, |run| run.start);
            let most =
                (capacity - offset % capacity).min(run_end - offset).min(DEFAULT_BLOCK as u64);
            let (now, later) = rest.split_at(rest.len().min(most as usize));
            let is_back = match &mut self.codec {
                Codec::Encoder(encoder) => {
                    let owner = next.checked_sub(1).map(|run| self.runs[run].owner);
                    let domain = owner
                        .map_or(Domain::NOBODY, |owner| domain_of_owner(owner, encoder.shares()));
                    encoder.restore(domain, offset, now).is_ok()
                }
                Codec::Decoder(decoder) => decoder.restore(offset, now),
            };
            if !is_back {
                return Err(failed);
            }
            offset += now.len() as u64;
            self.at = offset;
            rest = later;
        }
        Ok(())
    }

    fn check(&self) -> Result<(), RestoreError> {
        let expected = self.end.offset;
        if self.at == expected {
            Ok(())
        } else {
            Err(RestoreError::Incomplete { end: self.at, expected })
        }
    }

    /// All content is back.
    ///
    /// # Errors
    /// [`RestoreError::Incomplete`] if not.
    pub fn finish(self) -> Result<FinishedLog, RestoreError> {
        self.check()?;
        let RestoredLog { header, end, places, codec, .. } = self;
        Ok(FinishedLog(match codec {
            Codec::Encoder(encoder) => {
                Finished::Sending(RestoredSending { header, end, places, encoder })
            }
            Codec::Decoder(decoder) => {
                Finished::Receiving(RestoredReceiving { header, end, places, decoder })
            }
        }))
    }
}

/// A log that is back in memory: see [`Logs::restored`](crate::Logs::restored).
pub struct FinishedLog(pub(crate) Finished);

impl FinishedLog {
    /// Of which side.
    pub fn side(&self) -> Side {
        match self.0 {
            Finished::Sending(_) => Side::Sending,
            Finished::Receiving(_) => Side::Receiving,
        }
    }
}

pub(crate) enum Finished {
    Sending(RestoredSending),
    Receiving(RestoredReceiving),
}
