//! What domains share: whole content-defined chunks.
//!
//! A match across domains must not tell whether a few bytes were guessed right. So only whole chunks
//! are matched, of at least [`MIN`] bytes, from cut to cut, and never grown: whoever wants to learn
//! whether a chunk is there must know all of it. Where chunks begin and end depends on their content
//! and a secret key only. And whoever could try all values of a short secret learns nothing, because
//! several clients must have sent a chunk before it is shared ([`senders`]). Three rules keep others
//! from moving a cut to a place of their choice, next to a secret:
//!
//! - A cut lies in the middle of the [`WINDOW`] bytes that decide it. To move a cut behind the first
//!   byte of a secret by choosing what stands before it, one must also know what follows.
//! - No cut is forced where the content has none: such content is not shared.
//! - The first [`HEADER`] bytes of each message of a flow, where cookies and tokens travel, are in no
//!   shared chunk.

mod backlog;
mod density;
mod senders;
mod stream;

pub(crate) use backlog::Backlog;
pub use stream::Stream;

use crate::domain::Domain;
use crate::limits::DEFAULT_BLOCK;
use crate::log::{Geometry, Log};
use crate::matcher::Match;
use oncewire_kernels::Pages;
use senders::{Clients, Senders};
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use stream::Seen;
use twox_hash::XxHash3_64;

/// Shortest chunk that is shared, in bytes.
const MIN: u64 = 1 << 10;
/// Longest chunk that is shared, in bytes.
const MAX: u64 = 16 << 10;
/// Bytes that decide whether there is a cut in their middle.
const WINDOW: u64 = 64;
/// One position in this many is a cut, beyond the shortest chunk.
const MEAN: u64 = 384;
/// A cut has a hash below this: it is decided by the highest bits, which depend on the whole window.
const CUT_BELOW: u64 = u64::MAX / MEAN;
/// Compressed content is shared only where this many bytes before it and behind it are known, too:
/// as long as blocks of deflate and zstd usually are, or longer.
const MARGIN: u64 = 64 << 10;
/// Least content of a log, in bytes, that is worth indexing.
pub(crate) const WORTH_SHARING: u64 = 16 << 10;
/// Bytes at the beginning of a message that are not shared.
pub(crate) const HEADER: u64 = 4 << 10;

/// Where a chunk lies in the log: from `start` on, and up to `end`.
#[derive(Clone, Copy, Debug)]
struct Place {
    start: u64,
    end: u64,
    /// Nothing lies between.
    is_whole: bool,
}

/// A range of the backlog that is being indexed.
#[derive(Debug)]
struct CatchUp {
    /// What of it was scanned; its position 0 is `base` in the log.
    stream: Stream,
    base: u64,
    end: u64,
}

/// Bytes of the backlog that are indexed with each block.
const CATCH_UP: u64 = 1 << 20;

/// Random numbers for the bytes, by the key.
#[derive(Debug)]
struct Gear(Box<[u64; 256]>);

impl Gear {
    fn new(key: u64) -> Gear {
        Gear(Box::new(std::array::from_fn(|byte| {
            XxHash3_64::oneshot_with_seed(key, &[byte as u8, b'g'])
        })))
    }
}

/// Bits of an entry that hold an offset, as much of it as any two in a log differ in; the others
/// hold bits of the chunk's hash.
const OFFSET_BITS: u32 = 42;
const OFFSETS: u64 = (1 << OFFSET_BITS) - 1;
/// Entries of a set, any of which may hold a chunk.
const WAYS: usize = 4;

/// The chunks of a log by the hash of their content.
#[derive(Debug)]
pub(crate) struct ChunkIndex {
    gear: Gear,
    key: u64,
    /// Bits of the hash above one more than the offset; 0 if there is no chunk.
    entries: Pages<u64>,
    /// Who has sent the chunk of each entry that says where one begins.
    senders: Pages<u32>,
    clients: Clients,
    /// Identifies the log, and how often it was rewound.
    log: u64,
    /// A chunk of which the log has the beginning and the block the end.
    joined: Vec<u8>,
    /// The chunks of a block that the log has.
    shared: Vec<Match>,
    /// The chunks of a block.
    chunks: Vec<Chunk>,
    backlog: Backlog,
    catch_up: Option<CatchUp>,
}

/// Identifies logs: a stream may outlive one.
static LOGS: AtomicU64 = AtomicU64::new(0);

fn next_log() -> u64 {
    LOGS.fetch_add(1, Ordering::Relaxed)
}

impl ChunkIndex {
    /// An empty index for a log of `capacity` bytes, whose backlog will be indexed with what comes;
    /// `None` if the system has no memory for it.
    pub(crate) fn new(capacity: u64, key: u64, backlog: Backlog) -> Option<ChunkIndex> {
        Some(ChunkIndex {
            gear: Gear::new(key),
            key,
            entries: Pages::zeroed(ChunkIndex::entries(capacity)).ok()?,
            senders: Pages::zeroed(ChunkIndex::entries(capacity)).ok()?,
            clients: Clients::default(),
            log: next_log(),
            joined: Vec::with_capacity(2 * density::BEHIND + MAX as usize),
            shared: Vec::with_capacity(DEFAULT_BLOCK / MIN as usize + 2),
            chunks: Vec::with_capacity(DEFAULT_BLOCK / MIN as usize + 2),
            backlog,
            catch_up: None,
        })
    }

    /// Almost three times as many as a full log has chunks, because a chunk in two places takes two.
    fn entries(capacity: u64) -> usize {
        usize::try_from(capacity / 512).unwrap_or(usize::MAX / 64) / WAYS * WAYS + WAYS
    }

    /// Memory in bytes for a log of `capacity` bytes, and its backlog.
    pub(crate) fn most_memory(capacity: u64) -> usize {
        ChunkIndex::entries(capacity)
            .saturating_mul(size_of::<u64>() + size_of::<u32>())
            .saturating_add(Backlog::most_memory(capacity) + (40 << 10))
    }

    pub(crate) fn memory(&self) -> usize {
        size_of_val(&*self.entries)
            + size_of_val(&*self.senders)
            + self.clients.memory()
            + self.joined.capacity()
            + self.shared.capacity() * size_of::<Match>()
            + self.chunks.capacity() * size_of::<Chunk>()
            + size_of_val(&*self.gear.0)
            + self.backlog.memory()
    }

    /// The log was rewound to `offset`: from there on it may have other content.
    pub(crate) fn rewind(&mut self, offset: u64) {
        self.log = next_log();
        self.catch_up = None;
        self.backlog.rewind(offset);
    }

    /// Indexes some of the backlog, the newest first, for a block at `offset`.
    fn catch_up(&mut self, log: &Log, offset: u64) {
        let next = || {
            let (run, client) = self.backlog.pop()?;
            let base = run.start.max(floor(log, offset));
            let mut stream = Stream::of_client(Domain::COMMON, client);
            // Headers are not in the backlog.
            stream.header_end = 0;
            (base < run.end).then_some(CatchUp { stream, base, end: run.end })
        };
        let Some(CatchUp { mut stream, base, end }) = self.catch_up.take().or_else(next) else {
            return;
        };
        let from = base + stream.position;
        let len = CATCH_UP.min(end - from);
        let Some(content) = held(log, from, len, offset) else { return };
        let id = self.clients.id(stream.client.unwrap_or_default(), self.key);
        stream.scan(&self.gear, content);
        stream.position += len;
        while let (Some(&from), Some(&to)) = (stream.cuts.front(), stream.cuts.get(1))
            && to <= stream.position
        {
            stream.cuts.pop_front();
            if to - from <= MAX
                && let Some(chunk) = held(log, base + from, to - from, offset)
            {
                let place = Place { start: base + from, end: base + to, is_whole: true };
                let hash = XxHash3_64::oneshot_with_seed(self.key, chunk);
                let known = look_up(&self.entries, hash, log, offset, chunk).is_some();
                self.put(hash, offset, place, known, id);
            }
        }
        if from + len < end {
            self.catch_up = Some(CatchUp { stream, base, end });
        }
    }

    /// See [`crate::Encoder::whole_chunks`].
    pub(crate) fn whole_chunks(&self, stream: &mut Stream, content: &[u8], most: usize) -> usize {
        stream.scan(&self.gear, content);
        stream.whole_chunks(most.min(content.len()))
    }

    /// A block of a flow goes into the log at `offset` without a search. Its chunks are not indexed.
    pub(crate) fn pass(&self, stream: &mut Stream, geometry: Geometry, offset: u64, len: usize) {
        stream.advance(self.log, geometry, offset, len as u64);
        // Nothing takes them out until blocks are searched again.
        stream.forget_cuts();
    }

    /// Looks for the chunks of the block of `len` bytes at the beginning of `content`, which will
    /// lie at `offset`, and lets those that enough other clients have sent replace `matches` where
    /// these leave much out. Indexes the chunks. The rest of `content` is what follows the block.
    pub(crate) fn find(
        &mut self,
        log: &Log,
        stream: &mut Stream,
        content: &[u8],
        len: usize,
        offset: u64,
        matches: &mut Vec<Match>,
    ) {
        self.catch_up(log, offset);
        let Some(client) = stream.client else { return };
        let id = self.clients.id(client, self.key);
        stream.scan(&self.gear, content);
        let place = Ahead { start: stream.position, content, offset };
        let end = place.start + len as u64;
        stream.advance(self.log, log.geometry(), offset, len as u64);
        let mut chunks = std::mem::take(&mut self.chunks);
        chunks.clear();
        while stream.cuts.get(1).is_some_and(|&to| to <= end) {
            let Some(chunk) = self.look_at(log, stream, 0, stream.before, id, &place) else {
                break;
            };
            stream.settle(chunk.to, chunk.is_dense);
            stream.known = match chunk.source {
                Some(_) if stream.known.end == chunk.from => stream.known.start..chunk.to,
                Some(_) => chunk.from..chunk.to,
                None => 0..0,
            };
            chunks.push(Chunk { known: stream.known.clone(), ..chunk });
        }
        let mut known_to = self.known_ahead(log, stream, &chunks, id, &place);
        self.shared.clear();
        for chunk in chunks.iter_mut().rev() {
            if chunk.source.is_none() {
                known_to = chunk.from;
            }
            chunk.known.end = known_to;
        }
        for chunk in &chunks {
            if chunk.is_shared() {
                self.share(log.geometry(), chunk, &place);
            }
            if let Some(hash) = chunk.hash
                && let Some(place) = stream.place_of(self.log, chunk.from, chunk.to)
            {
                self.put(hash, offset, place, chunk.was_found, id);
            }
        }
        self.chunks = chunks;
        self.shared.iter().for_each(|&chunk| replace(matches, chunk));
    }

    /// How far the chunks behind the last one of `chunks` are known, if that matters.
    fn known_ahead(
        &mut self,
        log: &Log,
        stream: &mut Stream,
        chunks: &[Chunk],
        id: u32,
        place: &Ahead<'_>,
    ) -> u64 {
        let Some(last) = chunks.last() else { return 0 };
        // Only what lies far enough behind the beginning of a run is worth a look.
        let matters = |chunk: &Chunk| chunk.is_affected && chunk.is_behind_margin();
        let (mut known_to, mut before) = (last.to, stream.before);
        if last.source.is_none() || !chunks.iter().any(matters) {
            return known_to;
        }
        for nth in 0.. {
            let enough = known_to >= last.to + MARGIN;
            match self.look_at(log, stream, nth, before, id, place).filter(|_| !enough) {
                Some(chunk) if chunk.source.is_some() => {
                    known_to = chunk.to;
                    before = Some((chunk.to, chunk.is_dense));
                }
                _ => break,
            }
        }
        known_to
    }

    /// Looks for the `nth` chunk that is not settled, behind the one that ended at `before`; `None`
    /// if there is none.
    fn look_at(
        &mut self,
        log: &Log,
        stream: &mut Stream,
        nth: usize,
        before: Option<(u64, bool)>,
        id: u32,
        place: &Ahead<'_>,
    ) -> Option<Chunk> {
        let (&from, &to) = (stream.cuts.get(nth)?, stream.cuts.get(nth + 1)?);
        let mut chunk = Chunk::unknown(from, to);
        let &Ahead { start, content, offset } = place;
        if to - from > MAX {
            stream.note_seen(nth, Seen { hash: 0, is_dense: true });
            return Some(chunk);
        }
        // With what is judged behind it, as far as that is there.
        let judged_to = (to + density::BEHIND as u64).min(start + content.len() as u64);
        let bytes = if from >= start {
            &content[(from - start) as usize..(judged_to - start) as usize]
        } else {
            // Its beginning, or all of it, was sent before this block.
            self.joined.clear();
            let is_there = stream.read(log, self.log, from..start, offset, &mut self.joined);
            if !is_there || judged_to < to.max(start) {
                return Some(chunk);
            }
            self.joined.extend_from_slice(&content[..(judged_to - start) as usize]);
            &self.joined
        };
        let own = &bytes[..(to - from) as usize];
        let is_judged = bytes.len() >= own.len() + density::BEHIND;
        let seen = stream.seen.get(nth).copied().unwrap_or_else(|| Seen {
            hash: XxHash3_64::oneshot_with_seed(self.key, own),
            is_dense: density::looks_compressed(bytes),
        });
        if is_judged {
            stream.note_seen(nth, seen);
        }
        chunk.is_dense = seen.is_dense;
        // What cannot be seen may be anything.
        chunk.is_affected = !is_judged
            || seen.is_dense
            || before.is_none_or(|(end, is_dense)| end != from || is_dense);
        if from < stream.header_end {
            return Some(chunk);
        }
        chunk.hash = Some(seen.hash);
        let found = look_up(&self.entries, seen.hash, log, offset, own);
        chunk.was_found = found.is_some();
        let others = self.senders_of(seen.hash).others(id);
        let enough = if chunk.is_affected { senders::MOST } else { senders::threshold(seen.hash) };
        chunk.source = found.filter(|_| others >= enough);
        Some(chunk)
    }

    /// Notes the matches for what of a chunk lies in the present block.
    fn share(&mut self, geometry: Geometry, chunk: &Chunk, place: &Ahead<'_>) {
        let Some(Source { start: first, split, end: second }) = chunk.source else { return };
        let len = chunk.to - chunk.from;
        let here = place.start.saturating_sub(chunk.from).min(len);
        for (part, source) in [(0..split, first), (split..len, second - (len - split))] {
            let from_part = part.start.max(here);
            if from_part < part.end {
                let found = Match {
                    at: (chunk.from + from_part - place.start) as u32,
                    len: (part.end - from_part) as u32,
                    source: source + (from_part - part.start),
                };
                append(geometry, &mut self.shared, found);
            }
        }
    }

    /// Who has sent the chunk with this hash, as far as that is remembered.
    fn senders_of(&self, hash: u64) -> Senders {
        let entry = entry_of(&self.entries, hash);
        entry.map_or(Senders::default(), |at| Senders(self.senders[at]))
    }

    /// Notes where a chunk lies and who sent it, for a block at `offset`, in place of an older copy
    /// or the oldest chunk of its set. If the log did not have it, its senders are forgotten: what
    /// the entry stood for may have been something else.
    fn put(&mut self, hash: u64, offset: u64, place: Place, known: bool, id: u32) {
        let before = if known { self.senders_of(hash) } else { Senders::default() };
        let at = put(&mut self.entries, hash, offset, place.start);
        self.senders[at] = before.with(id).0;
        if !place.is_whole {
            let at = put(&mut self.entries, hash ^ BY_END, offset, place.end);
            self.senders[at] = 0;
        }
    }
}

/// Appends a match, or extends the last one if both sources are adjacent in one generation of the
/// log: no match may cross from one to the next, although a full generation has no padding at its
/// end.
fn append(geometry: Geometry, matches: &mut Vec<Match>, found: Match) {
    match matches.last_mut() {
        Some(last)
            if last.end() == found.at as usize
                && last.source + u64::from(last.len) == found.source
                && geometry.generation_start(found.source) != found.source =>
        {
            last.len += found.len;
        }
        _ => matches.push(found),
    }
}

/// A block and what follows it: `content` begins at position `start` of the flow, and will lie at
/// `offset`.
struct Ahead<'a> {
    start: u64,
    content: &'a [u8],
    offset: u64,
}

/// A chunk of a flow.
#[derive(Debug)]
struct Chunk {
    from: u64,
    to: u64,
    /// The keyed hash of its content, unless it may not be shared at all.
    hash: Option<u64>,
    /// The log has it, whoever sent it.
    was_found: bool,
    /// It looks compressed, or what follows it does.
    is_dense: bool,
    /// So, or what is before it.
    is_affected: bool,
    /// Where the log has it, if enough others have sent it.
    source: Option<Source>,
    /// The chunks around it that enough others have sent, too, without a gap.
    known: Range<u64>,
}

impl Chunk {
    fn unknown(from: u64, to: u64) -> Chunk {
        Chunk {
            from,
            to,
            hash: None,
            was_found: false,
            is_dense: true,
            is_affected: true,
            source: None,
            known: 0..0,
        }
    }

    /// It is far enough behind the beginning of what is known.
    fn is_behind_margin(&self) -> bool {
        self.source.is_some() && self.from >= self.known.start + MARGIN
    }

    /// Compressed content is shared only where all around it is known, too: the code of its block
    /// depends on all of the block.
    fn is_shared(&self) -> bool {
        let is_inside = self.is_behind_margin() && self.to + MARGIN <= self.known.end;
        self.source.is_some() && (!self.is_affected || is_inside)
    }
}

/// Where the log has a chunk: its first `split` bytes from `start` on, the others up to `end`.
#[derive(Debug)]
struct Source {
    start: u64,
    split: u64,
    end: u64,
}

/// Chunks are found by where they begin, and those in two places also by where they end, as if
/// under another hash.
const BY_END: u64 = 0x9e37_79b9_7f4a_7c15;

fn set_of(entries: usize, hash: u64) -> Range<usize> {
    let set = (hash % (entries / WAYS) as u64) as usize * WAYS;
    set..set + WAYS
}

fn check_of(hash: u64) -> u64 {
    hash >> OFFSET_BITS << OFFSET_BITS
}

/// How far behind a block at `offset` an entry lies: the newest of the offsets that it may mean.
fn age(entry: u64, offset: u64) -> u64 {
    offset.wrapping_sub((entry & OFFSETS).wrapping_sub(1)) & OFFSETS
}

/// The offsets that the index has for a hash, for a block at `offset`.
fn places(entries: &[u64], hash: u64, offset: u64) -> impl Iterator<Item = u64> {
    entries[set_of(entries.len(), hash)]
        .iter()
        .filter(move |&&entry| entry != 0 && entry & !OFFSETS == check_of(hash))
        .filter_map(move |&entry| offset.checked_sub(age(entry, offset)))
}

/// Looks up a chunk, for a block at `offset`. All of its bytes are compared.
fn look_up(entries: &[u64], hash: u64, log: &Log, offset: u64, content: &[u8]) -> Option<Source> {
    let len = content.len() as u64;
    let mut longest: Option<(u64, usize)> = None;
    for start in places(entries, hash, offset) {
        let Some(extent) = log.extent_of_all(start, floor(log, offset)) else { continue };
        let there = log.read(start..extent.end.min(offset).min(start + len));
        if there == content {
            return Some(Source { start, split: len, end: start + len });
        }
        let same = there.iter().zip(content).take_while(|(a, b)| a == b).count();
        if longest.is_none_or(|(_, most)| same > most) {
            longest = Some((start, same));
        }
    }
    let (start, split) = longest?;
    let rest = &content[split..];
    let end = places(entries, hash ^ BY_END, offset).find(|&end| {
        end.checked_sub(rest.len() as u64)
            .and_then(|from| held(log, from, rest.len() as u64, offset))
            .is_some_and(|there| there == rest)
    })?;
    Some(Source { start, split: split as u64, end })
}

/// The entry of a hash.
fn entry_of(entries: &[u64], hash: u64) -> Option<usize> {
    set_of(entries.len(), hash)
        .find(|&at| entries[at] != 0 && entries[at] & !OFFSETS == check_of(hash))
}

/// Notes an offset of the log under a hash, for a block at `offset`; returns the entry.
fn put(entries: &mut [u64], hash: u64, offset: u64, noted: u64) -> usize {
    let oldest = |&at: &usize| match entries[at] {
        0 => u64::MAX,
        entry => age(entry, offset),
    };
    let set = set_of(entries.len(), hash);
    let slot = entry_of(entries, hash).or_else(|| set.max_by_key(oldest)).unwrap_or(0);
    entries[slot] = check_of(hash) | (noted + 1) & OFFSETS;
    slot
}

fn floor(log: &Log, offset: u64) -> u64 {
    log.floor(offset, DEFAULT_BLOCK)
}

/// `len` bytes of the log from `source` on, if a block at `offset` may refer to them.
fn held(log: &Log, source: u64, len: u64, offset: u64) -> Option<&[u8]> {
    let end = source + len;
    let extent = log.extent_of_all(source, floor(log, offset))?;
    (end <= extent.end && end <= offset).then(|| log.read(source..end))
}

/// Bytes that a shared chunk must save to be worth a match.
const WORTH: usize = 64;

/// Puts `chunk` in place of what the ascending `matches` have there, if these leave at least
/// [`WORTH`] bytes out.
fn replace(matches: &mut Vec<Match>, chunk: Match) {
    let first = matches.partition_point(|found| found.end() <= chunk.at as usize);
    let end = matches.partition_point(|found| (found.at as usize) < chunk.end());
    let covered =
        |found: &Match| found.end().min(chunk.end()) - (found.at as usize).max(chunk.at as usize);
    let covered: usize = matches[first..end].iter().map(covered).sum();
    if (chunk.len as usize) < covered + WORTH {
        return;
    }
    let before = matches[first..end].first().filter(|found| found.at < chunk.at);
    let before = before.map(|found| Match { len: chunk.at - found.at, ..*found });
    let after = matches[first..end].last().filter(|found| found.end() > chunk.end()).map(|found| {
        let cut = chunk.end() as u32 - found.at;
        Match { at: found.at + cut, len: found.len - cut, source: found.source + u64::from(cut) }
    });
    matches.splice(first..end, before.into_iter().chain([chunk]).chain(after));
}
