//! The receiving half of a direction: the decoder and the state of its log.

use crate::config::decoder_of;
use crate::epoch::{Epoch, Keep};
use crate::hello::LogState;
use crate::limits::{MAX_LANES, MAX_UNACKNOWLEDGED, SMALLEST_LOG};
use crate::outgoing::log::chain;
use crate::store::{
    Block, Content, LogHeader, Place, Places, Queue, Repeat, RestoredReceiving, Unwritten,
};
use oncewire_codec::{Decoder, DecoderMemory, FrameError, FrameView, Recalled};
use std::cell::Cell;
use std::collections::BTreeMap;
use std::ops::Range;

/// Most blocks that may lie above the acknowledged offset. A peer that keeps to the protocol has
/// fewer: the unacknowledged messages of its lanes.
const MAX_EARLY: usize = MAX_LANES * MAX_UNACKNOWLEDGED;

/// Content that is not written yet when a log loses its ring, in bytes, at most: more is left out.
pub(crate) const MOST_LEFT: usize = 16 << 20;

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
    /// `None` while it is lent to a [`DecodeJob`](crate::DecodeJob).
    decoder: Option<Box<Decoder>>,
    /// A decoder is lent, at most one at a time.
    is_lent: bool,
    /// What the decoder said when it was last here.
    known: Known,
    chain: u64,
    /// The blocks above the acknowledged offset, by their offsets.
    early: BTreeMap<u64, Early>,
    /// Where the log can go on after a restart.
    places: Places,
    /// What a store has to write.
    store: Queue,
    /// End of the highest block that was decoded.
    written: u64,
    /// Where the ring began, empty.
    begin: u64,
    /// The size of a log that was asked about last, and the most memory of its decoder without
    /// contexts, in bytes.
    promised: Cell<(u64, u64)>,
}

/// A block above the acknowledged offset.
struct Early {
    len: u32,
    checksum: u64,
    /// What of it repeats earlier content.
    repeats: Vec<Repeat>,
}

impl Early {
    /// Memory in bytes of one, with its offset, at most.
    const MEMORY: usize = size_of::<(u64, Early)>() + Repeat::MOST * size_of::<Repeat>();
}

/// What the session asks about a decoder, which may be lent.
#[derive(Clone, Copy)]
struct Known {
    acknowledged: u64,
    /// Lowest offset from which on everything is held up to the acknowledged one.
    held_from: u64,
    memory: DecoderMemory,
}

impl Known {
    const NONE: Known = Known {
        acknowledged: 0,
        held_from: 0,
        memory: DecoderMemory { log: 0, contexts: 0, inside: 0, buffers: 0 },
    };

    fn of(decoder: &Decoder) -> Known {
        Known {
            acknowledged: decoder.acknowledged(),
            held_from: decoder.held_from(),
            memory: decoder.memory(),
        }
    }
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
    #[error("content on disk could not be read")]
    Disk,
    #[error("invalid EPOCH: {0}")]
    Begin(String),
}

impl Incoming {
    /// Each lane has `contexts` entropy contexts.
    pub(crate) fn new(limit: u64, contexts: usize, has_store: bool) -> Incoming {
        Incoming {
            limit,
            contexts,
            capacity: limit,
            epoch: Epoch::NONE,
            dropped: 0,
            decoder: None,
            is_lent: false,
            known: Known::NONE,
            chain: 0,
            early: BTreeMap::new(),
            places: Places::default(),
            store: Queue::new(has_store),
            written: 0,
            begin: 0,
            promised: Cell::new((0, 0)),
        }
    }

    /// Puts a log back that was stored.
    pub(crate) fn restore(&mut self, restored: RestoredReceiving) {
        let RestoredReceiving { header: LogHeader { epoch, capacity, .. }, end, places, decoder } =
            restored;
        (self.epoch, self.capacity) = (epoch, capacity);
        (self.chain, self.written, self.places) = (end.chain, end.offset, places);
        self.known = Known::of(&decoder);
        self.decoder = Some(decoder);
    }

    /// What the store writes next.
    pub(crate) fn unwritten(&mut self) -> Option<Unwritten> {
        if self.is_lent {
            return self.store.next(None::<fn(Range<u64>) -> Content>);
        }
        let decoder = self.decoder.as_deref();
        self.store.next(Some(content_of(decoder)))
    }

    /// Whether the driver has to be told that [`Incoming::unwritten`] has something.
    pub(crate) fn has_news(&mut self) -> bool {
        self.store.take_news(self.is_lent)
    }

    /// What waits for the store is not written.
    pub(crate) fn forget_unwritten(&mut self) {
        self.store.clear();
    }

    pub(crate) fn has_store(&self) -> bool {
        self.store.has_store()
    }

    /// The driver has no store any more.
    pub(crate) fn give_up_store(&mut self) {
        self.store.give_up();
    }

    /// The PLACES and HELD_FROM fields of HELLO.
    pub(crate) fn places(&self) -> (Vec<Place>, u64) {
        let held_from = self.known.held_from;
        // Below, a log that is stored can go on with an empty ring.
        (self.places.named(if self.has_store() { 0 } else { held_from }), held_from)
    }

    /// Sets the limit of a new session. Drops a log that is larger, or, if it is stored, what memory
    /// holds of it.
    pub(crate) fn set_limit(&mut self, limit: u64) {
        self.limit = limit;
        if self.capacity > limit && !self.empty(limit) {
            self.discard();
        }
    }

    /// Memory holds nothing of the log from now on, and has room for `capacity` bytes. Returns `false`
    /// if the log is not stored.
    fn empty(&mut self, capacity: u64) -> bool {
        let end = self.known.acknowledged;
        let Some(old) = self.decoder.as_deref().filter(|_| self.store.has_store()) else {
            return false;
        };
        let seed = self.epoch.seed();
        let Ok(mut decoder) = decoder_of(capacity, self.contexts).checksum_seed(seed).build()
        else {
            return false;
        };
        if !decoder.begin_at(end) {
            return false;
        }
        self.store.copy_all(MOST_LEFT, content_of(Some(old)));
        self.known = Known::of(&decoder);
        self.decoder = Some(Box::new(decoder));
        (self.capacity, self.written, self.begin) = (capacity, end, end);
        self.early.clear();
        true
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
        let acknowledged = self.known.acknowledged;
        LogState { epoch: self.epoch, acknowledged, chain: self.chain }
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
        self.known.acknowledged
    }

    /// The peer begins an epoch: an empty log of `capacity` bytes, or the current log from offset
    /// `keep` on. Not while the decoder is lent.
    pub(crate) fn begin(
        &mut self,
        epoch: Epoch,
        keep: Keep,
        capacity: u64,
    ) -> Result<(), IncomingError> {
        let begin = |why: String| IncomingError::Begin(why);
        if epoch.log == 0 || capacity < SMALLEST_LOG || capacity > self.limit {
            return Err(begin(format!(
                "a log of {capacity} bytes, where {} to {} are allowed",
                SMALLEST_LOG, self.limit
            )));
        }
        if epoch.log == self.dropped {
            // The EPOCH is late. If frames follow it, they fail for want of a log, and the peer
            // begins another.
            return Ok(());
        }
        match keep {
            Keep::Nothing => {
                self.discard();
                let decoder =
                    decoder_of(capacity, self.contexts).checksum_seed(epoch.seed()).build();
                let decoder = decoder.map_err(|error| begin(error.to_string()))?;
                self.known = Known::of(&decoder);
                self.decoder = Some(Box::new(decoder));
                self.capacity = capacity;
                self.store.begin(LogHeader { epoch, capacity, key: 0 });
            }
            Keep::Offset(offset) => self.go_on(epoch, offset, capacity)?,
            // Nothing is left in memory, so it does not matter how large that was.
            Keep::Content(offset)
                if self.known.held_from == offset
                    && (capacity != self.capacity || offset < self.known.acknowledged) =>
            {
                self.go_on(epoch, offset, capacity)?;
            }
            Keep::Content(offset) => {
                let Some(decoder) = self
                    .decoder
                    .as_mut()
                    .filter(|_| epoch.log == self.epoch.log && capacity == self.capacity)
                else {
                    return Err(begin("it continues a log that is not held".into()));
                };
                let acknowledged = decoder.acknowledged();
                let to = if offset == acknowledged {
                    Some(Place { offset, chain: self.chain })
                } else {
                    self.places.at(offset)
                };
                let Some(to) = to.filter(|_| epoch.number > self.epoch.number) else {
                    return Err(begin(format!(
                        "it continues at offset {offset}, where the acknowledged offset is {acknowledged}"
                    )));
                };
                if offset == acknowledged {
                    decoder.rewind(epoch.seed());
                } else if !decoder.rewind_to(offset, epoch.seed()) {
                    return Err(begin(format!(
                        "it continues at offset {offset}, below which nothing is held"
                    )));
                }
                self.known = Known::of(decoder);
                self.chain = to.chain;
                self.early.clear();
                self.places.rewind(offset);
                self.store.rewind(epoch, to, capacity);
            }
        }
        self.epoch = epoch;
        Ok(())
    }

    /// The log goes on at one of its places in an empty ring of `capacity` bytes.
    fn go_on(&mut self, epoch: Epoch, offset: u64, capacity: u64) -> Result<(), IncomingError> {
        let begin = |why: String| IncomingError::Begin(why);
        let Some(old) = self.decoder.as_deref().filter(|_| epoch.log == self.epoch.log) else {
            return Err(begin("it continues a log that is not held".into()));
        };
        let place = if offset == old.acknowledged() {
            Some(Place { offset, chain: self.chain })
        } else {
            self.places.at(offset)
        };
        let Some(to) = place.filter(|_| epoch.number > self.epoch.number) else {
            return Err(begin(format!("it goes on at offset {offset}, which is no place")));
        };
        self.store.copy_all(MOST_LEFT, content_of(Some(old)));
        let mut decoder = decoder_of(capacity, self.contexts)
            .checksum_seed(epoch.seed())
            .build()
            .map_err(|error| begin(error.to_string()))?;
        if !decoder.begin_at(offset) {
            return Err(begin(format!("it goes on at offset {offset}")));
        }
        self.known = Known::of(&decoder);
        self.decoder = Some(Box::new(decoder));
        (self.capacity, self.chain) = (capacity, to.chain);
        (self.written, self.begin) = (offset, offset);
        self.early.clear();
        self.places.rewind(offset);
        self.store.rewind(epoch, to, capacity);
        Ok(())
    }

    /// Bytes of offsets since the ring began, empty: more than its size once it was overwritten.
    pub(crate) fn filled(&self) -> u64 {
        self.known.acknowledged.saturating_sub(self.begin)
    }

    /// Drops the log; the peer has to begin another. If the decoder is lent, it is dropped when it
    /// comes back.
    pub(crate) fn discard(&mut self) {
        if self.epoch != Epoch::NONE {
            self.dropped = self.epoch.log;
            self.store.drop_log();
        }
        (self.decoder, self.epoch, self.chain) = (None, Epoch::NONE, 0);
        self.known = Known::NONE;
        (self.written, self.begin) = (0, 0);
        self.early.clear();
        self.places.clear();
    }

    /// Drops what cannot outlive the session: a log whose decoder is lent, or was lost.
    pub(crate) fn settle(&mut self) {
        if std::mem::take(&mut self.is_lent) {
            self.discard();
        }
    }

    /// Whether the decoder is lent. Nothing can be decoded, nor an epoch begun, meanwhile.
    pub(crate) fn is_lent(&self) -> bool {
        self.is_lent
    }

    /// Lends the decoder for a frame that came on `lane`, with the name of its log.
    pub(crate) fn lend(
        &mut self,
        lane: usize,
        frame: &FrameView<'_>,
    ) -> Result<(u64, Box<Decoder>), IncomingError> {
        // The decoder has contexts for as many lanes as there can be. With those of others, a peer
        // with one lane would take memory that was not promised.
        if let Some(context) = frame.context().filter(|context| context % MAX_LANES != lane) {
            let (field, value) = ("context", context as u64);
            return Err(FrameError::Field { field, value, allowed: "those of its lane" }.into());
        }
        let decoder = self.decoder.take().ok_or(IncomingError::NoLog)?;
        self.is_lent = true;
        Ok((self.epoch.log, decoder))
    }

    /// Takes back what [`Incoming::lend`] lent. `block` is the offset and the length of what was
    /// decoded, if anything was, and `recalled` where it was read from on disk. Returns whether its log is still held.
    pub(crate) fn take_back(
        &mut self,
        log: u64,
        decoder: Box<Decoder>,
        block: Option<(u64, usize)>,
        recalled: Option<u64>,
    ) -> Result<bool, IncomingError> {
        self.is_lent = false;
        if log != self.epoch.log {
            return Ok(false);
        }
        let before = std::mem::replace(&mut self.known, Known::of(&decoder)).acknowledged;
        let (acknowledged, checksum) = (decoder.acknowledged(), decoder.last_checksum());
        let Some((offset, len)) = block else {
            self.decoder = Some(decoder);
            return Ok(true);
        };
        let repeats = match recalled {
            _ if !self.store.has_store() => Vec::new(),
            Some(source) => vec![Repeat { offset, source, len: len as u64 }],
            None => Repeat::of(offset, decoder.last_matches()),
        };
        self.decoder = Some(decoder);
        self.written = self.written.max(offset + len as u64);
        self.early.insert(offset, Early { len: len as u32, checksum, repeats });
        self.acknowledge(before, acknowledged);
        if self.early.len() > MAX_EARLY {
            return Err(IncomingError::TooManyEarly);
        }
        Ok(true)
    }

    /// Content that both ends have on disk, from offset `from` on, goes to its place in the log.
    pub(crate) fn recall(
        &mut self,
        from: u64,
        place: Recalled,
        content: &[u8],
    ) -> Result<(), IncomingError> {
        let mut decoder = self.decoder.take().ok_or(IncomingError::NoLog)?;
        let done = decoder.recall(place, content);
        let block = done.is_ok().then_some((place.offset, content.len()));
        self.take_back(self.epoch.log, decoder, block, Some(from))?;
        Ok(done?)
    }

    /// All content from `before` to `acknowledged` is there now.
    fn acknowledge(&mut self, before: u64, acknowledged: u64) {
        let mut end = before;
        while let Some(first) = self.early.first_entry().filter(|first| *first.key() < acknowledged)
        {
            let (offset, Early { len, checksum, repeats }) = first.remove_entry();
            self.chain = chain(self.chain, checksum);
            let (len, padding) = (u64::from(len), offset.saturating_sub(end));
            let place = Place { offset: offset + len, chain: self.chain };
            let is_place = self.places.pass(end, place, self.capacity);
            let chain = self.chain;
            self.store.push(Block { offset, len, padding, chain, is_place }, repeats);
            end = place.offset;
        }
        self.store.copy(content_of(self.decoder.as_deref()));
    }

    /// Whether anything was received since the ring began.
    pub(crate) fn is_used(&self) -> bool {
        self.written > self.begin
    }

    /// Most memory, in bytes, that a log of `size` bytes in place of this one and the contexts in
    /// use would take; 0 if nothing was received since the log began.
    pub(crate) fn promised_memory(&self, size: u64) -> u64 {
        if !self.is_used() {
            return 0;
        }
        if self.promised.get().0 != size {
            let DecoderMemory { log, inside, .. } = decoder_of(size, self.contexts).memory();
            self.promised.set((size, (log + inside) as u64));
        }
        self.promised.get().1 + self.known.memory.contexts as u64
    }

    /// Memory in use, in bytes.
    pub(crate) fn memory(&self) -> u64 {
        if !self.is_used() {
            // A decoder touches its memory when it decodes.
            return 0;
        }
        let DecoderMemory { log, contexts, inside, buffers } = self.known.memory;
        self.store.memory()
            + self.places.memory()
            + (self.written - self.begin).min(log as u64)
            + (contexts + inside + buffers + self.early.len() * Early::MEMORY) as u64
    }
}

/// Copies a range of a receiving log, which has no owners.
fn content_of(decoder: Option<&Decoder>) -> impl FnMut(Range<u64>) -> Content {
    move |range| Some((decoder?.content(range)?.to_vec(), Vec::new()))
}
