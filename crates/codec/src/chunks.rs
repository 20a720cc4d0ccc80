//! What domains share: whole content-defined chunks.
//!
//! A match across domains must not tell whether a few bytes were guessed right. So only whole chunks
//! are matched, of at least [`MIN`] bytes, from cut to cut, and never grown: whoever wants to learn
//! whether a chunk is there must know all of it. Where chunks begin and end depends on their content
//! and a secret key only. Three rules keep others from moving a cut to a place of their choice, next
//! to a secret:
//!
//! - A cut lies in the middle of the [`WINDOW`] bytes that decide it. To move a cut behind the first
//!   byte of a secret by choosing what stands before it, one must also know what follows.
//! - No cut is forced where the content has none: such content is not shared.
//! - The first [`HEADER`] bytes of each message of a flow, where cookies and tokens travel, are in no
//!   shared chunk.

use crate::domain::Domain;
use crate::limits::MAX_BLOCK;
use crate::log::{Geometry, Log};
use crate::matcher::Match;
use oncewire_kernels::Pages;
use std::collections::VecDeque;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use xxhash_rust::xxh3::xxh3_64_with_seed;

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
/// Least content of a log, in bytes, that is worth indexing.
pub(crate) const WORTH_SHARING: u64 = 16 << 10;
/// Bytes at the beginning of a message that are not shared.
pub(crate) const HEADER: u64 = 4 << 10;

/// Where the chunks of a flow begin and end, and what of it the log holds in one piece.
///
/// An encoder that shares chunks across domains ([`Sharing::Chunks`](crate::Sharing::Chunks)) needs
/// one for each flow of bytes: [`crate::Encoder::encode_stream`].
#[derive(Clone, Debug)]
pub struct Stream {
    /// Distinguishes the flows of a process.
    id: u64,
    domain: Domain,
    /// Chunks of it are shared with other domains.
    is_shared: bool,
    /// Bytes encoded so far.
    position: u64,
    /// Content below is not shared.
    header_end: u64,
    /// Bytes scanned for cuts: those encoded, and some ahead.
    scanned: u64,
    /// Gear hash of the last bytes scanned, from `hashed` on.
    hash: u64,
    hashed: u64,
    /// The last cut found.
    last_cut: Option<u64>,
    /// Cuts from the beginning of the first chunk that is not settled, ascending.
    cuts: VecDeque<u64>,
    /// Where the end of the flow lies in a log: each piece up to the next, the last to the end of
    /// what was encoded. Content of other flows lies between.
    pieces: VecDeque<Piece>,
}

/// Pieces that are remembered. A chunk in more of them is not found again.
const PIECES: usize = 4;

/// Positions from `from` on lie in the log from `offset` on.
#[derive(Clone, Copy, Debug)]
struct Piece {
    log: u64,
    from: u64,
    offset: u64,
}

impl Stream {
    /// The beginning of a flow of a domain.
    pub fn new(domain: Domain) -> Stream {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        Stream {
            id: NEXT.fetch_add(1, Ordering::Relaxed),
            domain,
            is_shared: true,
            position: 0,
            header_end: HEADER,
            scanned: 0,
            hash: 0,
            hashed: 0,
            last_cut: None,
            cuts: VecDeque::new(),
            pieces: VecDeque::new(),
        }
    }

    /// As [`Stream::new`]; but nothing of the flow is shared, in either direction: it refers to no
    /// chunk of another domain, and no other domain to one of its chunks.
    pub fn unshared(domain: Domain) -> Stream {
        Stream { is_shared: false, ..Stream::new(domain) }
    }

    pub(crate) fn is_shared(&self) -> bool {
        self.is_shared
    }

    /// A number that no other flow of the process has, above 0.
    pub(crate) fn id(&self) -> u64 {
        self.id
    }

    /// The domain.
    pub fn domain(&self) -> Domain {
        self.domain
    }

    /// A message begins here: a request or response, as far as the caller can tell. Its first bytes
    /// may be secret.
    pub fn begin_message(&mut self) {
        self.header_end = self.position + HEADER;
    }

    /// Finds the cuts in `content`, which begins where the encoded content ends.
    fn scan(&mut self, gear: &Gear, content: &[u8]) {
        let end = self.position + content.len() as u64;
        if self.scanned < self.position {
            // Something was encoded without a scan.
            self.start_hash(self.position);
            (self.last_cut, self.cuts) = (None, VecDeque::new());
        }
        while self.scanned < end {
            // The next cut is at least a chunk away: the hash needs the window around it only.
            let skip = self.last_cut.map_or(0, |cut| cut + MIN - WINDOW / 2);
            if self.scanned < skip {
                self.start_hash(skip.min(end));
                continue;
            }
            let bytes = &content[(self.scanned - self.position) as usize..];
            // Bytes until the hash covers a whole window.
            let least = (self.hashed + WINDOW).saturating_sub(self.scanned) as usize;
            let mut hash = self.hash;
            let mut found = None;
            for (at, &byte) in bytes.iter().enumerate() {
                hash = (hash << 1).wrapping_add(gear.0[usize::from(byte)]);
                if hash < CUT_BELOW && at + 1 >= least {
                    found = Some(at as u64 + 1);
                    break;
                }
            }
            self.hash = hash;
            match found {
                Some(more) => {
                    self.scanned += more;
                    let cut = self.scanned - WINDOW / 2;
                    self.last_cut = Some(cut);
                    self.cuts.push_back(cut);
                }
                None => self.scanned = end,
            }
        }
    }

    /// Nothing before `position` matters for the next cut.
    fn start_hash(&mut self, position: u64) {
        (self.scanned, self.hash, self.hashed) = (position, 0, position);
    }

    /// How much of the `len` bytes that follow to encode as one block: up to the last cut in them,
    /// so that no chunk is divided; all if there is none.
    fn whole_chunks(&self, len: usize) -> usize {
        let end = self.position + len as u64;
        let cut = self.cuts.iter().rev().find(|&&cut| cut <= end);
        cut.and_then(|cut| cut.checked_sub(self.position))
            .filter(|&whole| whole >= MIN)
            .map_or(len, |whole| whole as usize)
    }

    /// The block that follows was encoded, at `offset` of a log.
    fn advance(&mut self, log: u64, geometry: Geometry, offset: u64, len: u64) {
        // One piece never crosses the end of the ring.
        let continues = geometry.generation_start(offset) != offset
            && self.pieces.back().is_some_and(|piece| {
                piece.log == log && piece.offset + (self.position - piece.from) == offset
            });
        if !continues && len > 0 {
            if self.pieces.len() == PIECES {
                self.pieces.pop_front();
            }
            self.pieces.push_back(Piece { log, from: self.position, offset });
        }
        self.position += len;
    }

    /// The piece in which a position lies that was encoded.
    fn piece_of(&self, log: u64, position: u64) -> Option<usize> {
        let after = self.pieces.partition_point(|piece| piece.from <= position);
        let at = after.checked_sub(1)?;
        (self.pieces[at].log == log).then_some(at)
    }

    fn offset_in(&self, piece: usize, position: u64) -> u64 {
        self.pieces[piece].offset + (position - self.pieces[piece].from)
    }

    /// Where the positions `from..to` lie in the log; `None` if in more than two places.
    fn place_of(&self, log: u64, from: u64, to: u64) -> Option<Place> {
        let (first, last) = (self.piece_of(log, from)?, self.piece_of(log, to - 1)?);
        (last <= first + 1).then(|| Place {
            start: self.offset_in(first, from),
            end: self.offset_in(last, to - 1) + 1,
            is_whole: first == last,
        })
    }

    /// Reads positions `from..to` from the log, for a block at `offset`. Returns whether it has
    /// them.
    fn read(&self, log: &Log, id: u64, range: Range<u64>, offset: u64, out: &mut Vec<u8>) -> bool {
        let mut from = range.start;
        while from < range.end {
            let Some(piece) = self.piece_of(id, from) else { return false };
            let end = self.pieces.get(piece + 1).map_or(range.end, |next| next.from.min(range.end));
            let source = self.offset_in(piece, from);
            let Some(bytes) = held(log, source, end - from, offset) else { return false };
            out.extend_from_slice(bytes);
            from = end;
        }
        true
    }
}

/// Where a chunk lies in the log: from `start` on, and up to `end`.
#[derive(Clone, Copy, Debug)]
struct Place {
    start: u64,
    end: u64,
    /// Nothing lies between.
    is_whole: bool,
}

/// Content that one domain sent before there was another: what of it may be shared, to be indexed
/// when a second domain appears. So one domain pays nothing for chunks, and whoever comes second
/// finds what the first has fetched.
#[derive(Debug, Default)]
pub(crate) struct Backlog {
    /// Ranges of the log, ascending and disjoint, none across the end of the ring.
    runs: VecDeque<Range<u64>>,
}

impl Backlog {
    /// Most ranges that are noted, the newest.
    fn most_runs(capacity: u64) -> usize {
        (capacity >> 14).clamp(16, 16 << 10) as usize
    }

    /// Notes the block that follows in a flow, which lies at `offset`.
    pub(crate) fn note(
        &mut self,
        stream: &mut Stream,
        geometry: Geometry,
        offset: u64,
        block: &[u8],
    ) {
        let len = block.len() as u64;
        let header = stream.header_end.saturating_sub(stream.position).min(len);
        stream.position += len;
        let run = offset + header..offset + len;
        if run.is_empty() {
            return;
        }
        match self.runs.back_mut() {
            Some(last)
                if last.end == run.start && geometry.generation_start(offset) != run.start =>
            {
                last.end = run.end;
            }
            _ => {
                if self.runs.len() >= Backlog::most_runs(geometry.capacity()) {
                    self.runs.pop_front();
                }
                self.runs.push_back(run);
            }
        }
    }

    /// The log was rewound to `offset`: what follows may be what nobody may share.
    pub(crate) fn rewind(&mut self, offset: u64) {
        while self.runs.back().is_some_and(|last| last.start >= offset) {
            self.runs.pop_back();
        }
        if let Some(last) = self.runs.back_mut() {
            last.end = last.end.min(offset);
        }
    }

    fn most_memory(capacity: u64) -> usize {
        Backlog::most_runs(capacity).next_power_of_two() * size_of::<Range<u64>>()
    }

    pub(crate) fn memory(&self) -> usize {
        self.runs.capacity() * size_of::<Range<u64>>()
    }
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
        Gear(Box::new(std::array::from_fn(|byte| xxh3_64_with_seed(&[byte as u8, b'g'], key))))
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
    /// Identifies the log, and how often it was rewound.
    log: u64,
    /// A chunk of which the log has the beginning and the block the end.
    joined: Vec<u8>,
    /// The chunks of a block that the log has.
    shared: Vec<Match>,
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
            log: next_log(),
            joined: Vec::with_capacity((MAX + WINDOW) as usize),
            shared: Vec::with_capacity(MAX_BLOCK / MIN as usize + 2),
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
            .saturating_mul(size_of::<u64>())
            .saturating_add(Backlog::most_memory(capacity) + (32 << 10))
    }

    pub(crate) fn memory(&self) -> usize {
        size_of_val(&*self.entries)
            + self.joined.capacity()
            + self.shared.capacity() * size_of::<Match>()
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
            let run = self.backlog.runs.pop_back()?;
            let base = run.start.max(floor(log, offset));
            // No header: those are not in the backlog.
            let stream = Stream { header_end: 0, ..Stream::new(Domain::COMMON) };
            (base < run.end).then_some(CatchUp { stream, base, end: run.end })
        };
        let Some(CatchUp { mut stream, base, end }) = self.catch_up.take().or_else(next) else {
            return;
        };
        let from = base + stream.position;
        let len = CATCH_UP.min(end - from);
        let Some(content) = held(log, from, len, offset) else { return };
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
                put(&mut self.entries, xxh3_64_with_seed(chunk, self.key), offset, place);
            }
        }
        if from + len < end {
            self.catch_up = Some(CatchUp { stream, base, end });
        }
    }

    /// See [`crate::Encoder::whole_chunks`].
    pub(crate) fn whole_chunks(&self, stream: &mut Stream, content: &[u8]) -> usize {
        stream.scan(&self.gear, content);
        stream.whole_chunks(content.len())
    }

    /// A block of a flow goes into the log at `offset` without a search. Its chunks are not indexed.
    pub(crate) fn pass(&self, stream: &mut Stream, geometry: Geometry, offset: u64, len: usize) {
        stream.advance(self.log, geometry, offset, len as u64);
        // Nothing takes them out until blocks are searched again.
        stream.cuts.clear();
    }

    /// Looks for the chunks of `block`, which will lie at `offset`, and lets those that are in the
    /// log replace `matches` where these leave much out. Indexes the chunks.
    pub(crate) fn find(
        &mut self,
        log: &Log,
        stream: &mut Stream,
        block: &[u8],
        offset: u64,
        matches: &mut Vec<Match>,
    ) {
        self.catch_up(log, offset);
        stream.scan(&self.gear, block);
        let start = stream.position;
        let end = start + block.len() as u64;
        stream.advance(self.log, log.geometry(), offset, block.len() as u64);
        self.shared.clear();
        while let (Some(&from), Some(&to)) = (stream.cuts.front(), stream.cuts.get(1))
            && to <= end
        {
            stream.cuts.pop_front();
            if from < stream.header_end || to - from > MAX {
                continue;
            }
            let content = if from >= start {
                &block[(from - start) as usize..(to - start) as usize]
            } else {
                // Its beginning, or all of it, was sent before this block.
                self.joined.clear();
                let before = from..start.min(to);
                if !stream.read(log, self.log, before, offset, &mut self.joined) {
                    continue;
                }
                self.joined.extend_from_slice(&block[..to.saturating_sub(start) as usize]);
                &self.joined
            };
            let hash = xxh3_64_with_seed(content, self.key);
            let found = look_up(&self.entries, hash, log, offset, content);
            if let Some(place) = stream.place_of(self.log, from, to) {
                put(&mut self.entries, hash, offset, place);
            }
            let Some(Source { start: first, split, end: second }) = found else { continue };
            // What of it lies in this block.
            let here = start.saturating_sub(from).min(to - from);
            for (part, source) in
                [(0..split, first), (split..to - from, second - (to - from - split))]
            {
                let from_part = part.start.max(here);
                if from_part < part.end {
                    let found = Match {
                        at: (from + from_part - start) as u32,
                        len: (part.end - from_part) as u32,
                        source: source + (from_part - part.start),
                    };
                    append(log.geometry(), &mut self.shared, found);
                }
            }
        }
        self.shared.iter().for_each(|&chunk| replace(matches, chunk));
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

/// Where the log has a chunk: its first `split` bytes from `start` on, the others up to `end`.
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

/// Notes where a chunk lies, for a block at `offset`, in place of an older copy or the oldest
/// chunk of its set.
fn put(entries: &mut [u64], hash: u64, offset: u64, place: Place) {
    let mut put = |hash: u64, at: u64| {
        let range = set_of(entries.len(), hash);
        let set = &mut entries[range];
        let same = set.iter().position(|&entry| entry != 0 && entry & !OFFSETS == check_of(hash));
        let oldest = || {
            (0..WAYS).max_by_key(|&at| if set[at] == 0 { u64::MAX } else { age(set[at], offset) })
        };
        let slot = same.or_else(oldest).unwrap_or(0);
        set[slot] = check_of(hash) | (at + 1) & OFFSETS;
    };
    put(hash, place.start);
    if !place.is_whole {
        put(hash ^ BY_END, place.end);
    }
}

fn floor(log: &Log, offset: u64) -> u64 {
    log.geometry().floor(offset, MAX_BLOCK)
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
