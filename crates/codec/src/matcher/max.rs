//! Max-match.

use super::realign::realign;
use super::{Density, Match, MatchStats, Matcher, PlacedBlock};
use crate::domain::Domain;
use crate::log::Log;
use crate::sampler::{Sampler, Sampling};
use crate::table::{FingerprintTable, Markers, NO_OFFSET};
use oncewire_kernels::{Kernels, Sampled};
use std::ops::Range;

/// Max-match (EndRE section 5.2.2): verifies every fingerprint hit and grows it both ways to the
/// longest equal region.
///
/// Beyond the paper:
/// - A match that reaches the end of a block continues in the next block without a look-up.
/// - After a match, the same distance is tried again past a short difference
///   ([`Kernels::agree_again`]). Versions differ in edits of equal length (dates, checksums,
///   digits) so often that this finds a third of all matches, including some shorter than the
///   window.
/// - Where a long match ends, a row may have been put in or taken out: the same source is tried some
///   bytes further on (`realign`).
/// - Between many short matches at one distance, markers are looked up, and a long match elsewhere
///   is taken. The rows of a table resemble the row before, and only some markers lead to the same
///   rows in an earlier version.
/// - A match that grows back over the whole of the short match before it replaces that match.
/// - Inside a match only about one marker per [`INDEX_STEP`] bytes is indexed, besides the hit.
pub struct MaxMatch<S: Sampler, T: FingerprintTable> {
    sampler: S,
    table: T,
    kernels: Kernels,
    window: usize,
    /// Key of the fingerprints, as given and of the current domain.
    base_key: u64,
    key: u64,
    /// Offset at which the last match's source ended, if that match reached the end of its block.
    going_on: Option<u64>,
    /// Shortest match after which [`realign`] is tried, in bytes.
    realign_from: u32,
    /// Short matches in a row before a marker is looked up.
    chain: usize,
    stats: MatchStats,
    batch: Box<Batch>,
}

/// Bytes between indexed markers inside a match. One hit finds a repeat as a whole, so few entries
/// are enough; with none the content would be lost once its first copy has left the log.
pub const INDEX_STEP: usize = 256;

/// Most markers looked up at once: enough for their cache misses to overlap.
const BATCH: usize = 64;
/// Markers looked up in the first batch after a match, where the next match is often close and the
/// rest would be wasted.
const FIRST_BATCH: usize = 16;
/// Shortest match accepted at the distance of the previous one, in bytes. Its descriptor takes
/// about two.
const RESUME_MIN: usize = 12;
/// Matches below this are short, in bytes: they may only be what all rows of a table have in common.
const SHORT: usize = 128;
/// Short matches in a row at one distance before a marker is looked up: after a look-up that led to
/// a long match, and after others. Rows without an earlier version cost less so.
const CHAIN: usize = 8;
const CHAIN_MAX: usize = 16;
/// Shortest match that ends such a row of short ones, in bytes.
const LONG: u32 = 256;
/// Shortest match after which the block is realigned, in bytes: when that last succeeded, and at
/// most, after failures. So it takes next to no time where it finds nothing.
const REALIGN_FROM: u32 = 256;
const REALIGN_FROM_MAX: u32 = 8192;
/// Longest match that a later one may swallow, in bytes. Bounds how much is compared twice.
const SWALLOW_MAX: usize = 1024;

/// Scratch of one batch of markers.
struct Batch {
    markers: [u32; BATCH],
    fingerprints: [u64; BATCH],
    found: [u64; BATCH],
}

impl<S: Sampler, T: FingerprintTable> MaxMatch<S, T> {
    /// A matcher over an empty log. `window` is 12..=64 bytes; `key` keys the fingerprints.
    pub fn new(sampler: S, table: T, kernels: Kernels, window: usize, key: u64) -> MaxMatch<S, T> {
        let batch =
            Box::new(Batch { markers: [0; BATCH], fingerprints: [0; BATCH], found: [0; BATCH] });
        MaxMatch {
            sampler,
            table,
            kernels,
            window,
            base_key: key,
            key,
            going_on: None,
            realign_from: REALIGN_FROM,
            chain: CHAIN,
            stats: MatchStats::default(),
            batch,
        }
    }

    #[inline(always)]
    fn sampling<'a>(&self, block: &'a [u8], density: Density, from: usize) -> Sampling<'a> {
        let Self { kernels, window, .. } = *self;
        Sampling { kernels, block, window, period: density.period(), from }
    }

    /// Fills the given part of the batch's markers.
    #[inline(always)]
    fn sample(
        &mut self,
        block: &[u8],
        density: Density,
        from: usize,
        part: Range<usize>,
    ) -> Sampled {
        let sampling = self.sampling(block, density, from);
        let markers = &mut self.batch.markers[part];
        match density {
            Density::Period(_) => self.sampler.sample(sampling, markers),
            Density::Sparse => self.sampler.sample_sparsely(sampling, markers),
        }
    }

    /// Fills the front of the batch's markers, each [`INDEX_STEP`] bytes or more after the one
    /// before. Returns how many there are.
    #[inline(always)]
    fn sample_apart(&mut self, block: &[u8], density: Density, from: usize, room: usize) -> usize {
        let sampling = self.sampling(block, density, from);
        match density {
            Density::Period(_) => {
                self.sampler.sample_apart(sampling, INDEX_STEP, &mut self.batch.markers[..room])
            }
            Density::Sparse => {
                let mut at = from;
                for count in 0..room {
                    if self.sample(block, density, at, count..count + 1).count == 0 {
                        return count;
                    }
                    at = self.batch.markers[count] as usize + INDEX_STEP;
                }
                room
            }
        }
    }

    /// Indexes markers inside `from..to`, one per [`INDEX_STEP`] bytes.
    fn index_inside(&mut self, block: &PlacedBlock<'_>, density: Density, from: usize, to: usize) {
        let mut at = from;
        while at < to {
            let room = (to - at).div_ceil(INDEX_STEP).min(BATCH);
            let count = self.sample_apart(block.bytes, density, at, room);
            let markers = &self.batch.markers[..count];
            let count = markers.iter().take_while(|&&marker| (marker as usize) < to).count();
            at = if count < room { to } else { markers[count - 1] as usize + INDEX_STEP };
            let markers = &self.batch.markers[..count];
            let fingerprints = &mut self.batch.fingerprints[..count];
            self.kernels.fingerprints(block.bytes, markers, self.window, self.key, fingerprints);
            self.table.insert(fingerprints, Markers { block: block.offset, positions: markers });
            self.stats.indexed_only += count as u64;
        }
    }
}

impl<S: Sampler, T: FingerprintTable> Matcher for MaxMatch<S, T> {
    fn find(
        &mut self,
        log: &Log,
        block: &[u8],
        offset: u64,
        density: Density,
        matches: &mut Vec<Match>,
    ) {
        self.run(log, &PlacedBlock::new(log, block, offset), density, true, matches);
    }

    fn look(
        &mut self,
        log: &Log,
        block: &[u8],
        offset: u64,
        density: Density,
        matches: &mut Vec<Match>,
    ) {
        self.run(log, &PlacedBlock::new(log, block, offset), density, false, matches);
    }

    fn note(&mut self, content: &[u8], offset: u64, density: Density) {
        let mut at = 0;
        loop {
            let Sampled { count, resume } = self.sample(content, density, at, 0..BATCH);
            let markers = &self.batch.markers[..count];
            let fingerprints = &mut self.batch.fingerprints[..count];
            self.kernels.fingerprints(content, markers, self.window, self.key, fingerprints);
            self.table.insert(fingerprints, Markers { block: offset, positions: markers });
            self.stats.indexed_only += count as u64;
            at = resume;
            if count < BATCH {
                break;
            }
        }
    }

    /// Indexes the block as if all of it lay inside a match.
    fn pass(&mut self, log: &Log, bytes: &[u8], offset: u64, density: Density) {
        self.going_on = None;
        self.index_inside(&PlacedBlock::new(log, bytes, offset), density, 0, bytes.len());
    }

    fn interrupt(&mut self) {
        self.going_on = None;
    }

    fn enter(&mut self, domain: Domain) {
        self.going_on = None;
        self.realign_from = REALIGN_FROM;
        self.chain = CHAIN;
        self.key = domain.key(self.base_key);
    }

    fn stats(&self) -> MatchStats {
        self.stats
    }

    fn table_entries(&self) -> usize {
        self.table.entries()
    }

    fn table_memory(&self) -> usize {
        self.table.memory()
    }

    fn memory(&self) -> usize {
        self.table_memory() + size_of::<Batch>()
    }

    fn prefault(&mut self) {
        self.table.prefault();
    }
}

impl<S: Sampler, T: FingerprintTable> MaxMatch<S, T> {
    /// [`realign`] after `last`, if it is long enough for how often that failed.
    fn realign(&mut self, log: &Log, block: &PlacedBlock<'_>, last: Match) -> Option<Match> {
        if last.len < self.realign_from {
            return None;
        }
        let found = realign(self.kernels, log, block, last, SHORT);
        self.realign_from = match found {
            Some(_) => REALIGN_FROM,
            None => (self.realign_from * 2).min(REALIGN_FROM_MAX),
        };
        found
    }

    /// Adds further matches at the distance of the last one, as long as each begins within 64 bytes
    /// of the previous one. Returns the end of the last match, and the next match if markers are to
    /// be looked up before it is taken: it lies behind bytes in which there may be others, or many
    /// short ones came before it.
    fn resume(
        &mut self,
        log: &Log,
        block: &PlacedBlock<'_>,
        mut done: usize,
        matches: &mut Vec<Match>,
    ) -> (usize, Option<Match>) {
        let mut short = 0;
        while let Some(last) = matches.last()
            && done < block.bytes.len()
        {
            let source = last.source + u64::from(last.len);
            let Some((_, after)) = block.around(log, source) else { break };
            let skipped = self.kernels.agree_again(&block.bytes[done..], after, RESUME_MIN);
            let next = skipped.map(|skipped| {
                let at = done + skipped;
                let len = self.kernels.common_prefix(&block.bytes[at..], &after[skipped..]);
                Match { at: at as u32, len: len as u32, source: source + skipped as u64 }
            });
            let goes_on = is_short(last) || next.is_some_and(|next| !is_short(&next));
            // Where it does not, what follows at its distance may be another row that resembles
            // this one.
            let moved = if goes_on { None } else { self.realign(log, block, *last) };
            let Some(next) = moved.or(next) else { break };
            short = if is_short(&next) { short + 1 } else { 0 };
            let gap = next.at as usize - done;
            if short > self.chain || (moved.is_some() && gap >= self.window) {
                return (done, Some(next));
            }
            done = next.end();
            matches.push(next);
        }
        (done, None)
    }

    /// Takes the match that [`MaxMatch::resume`] returned, and goes on after it.
    fn take(
        &mut self,
        log: &Log,
        block: &PlacedBlock<'_>,
        next: Match,
        matches: &mut Vec<Match>,
    ) -> (usize, Option<Match>) {
        if is_short(&next) {
            self.chain = (self.chain * 2).min(CHAIN_MAX);
        }
        matches.push(next);
        self.resume(log, block, next.end(), matches)
    }

    /// The match of a marker at the place that the table has for it. `done` is its earliest start.
    #[inline]
    fn hit(
        &mut self,
        log: &Log,
        block: &PlacedBlock<'_>,
        marker: usize,
        source: u64,
        done: usize,
    ) -> Option<Match> {
        if source == NO_OFFSET {
            return None;
        }
        let found = block.grow(self.kernels, log, marker, source, done, self.window);
        self.stats.false_hits += u64::from(found.is_none());
        found
    }

    /// If `found`, which begins where the last of `matches` ends, can grow back over the whole of
    /// it, grows it and returns true: the last match must then be dropped.
    fn swallow(
        &self,
        log: &Log,
        block: &PlacedBlock<'_>,
        matches: &mut [Match],
        found: &mut Match,
    ) -> bool {
        let Some((last, earlier)) = matches.split_last() else { return false };
        if last.len as usize > SWALLOW_MAX {
            return false;
        }
        let from = earlier.last().map_or(0, Match::end);
        let Some((before, _)) = block.around(log, found.source) else { return false };
        let back = self.kernels.common_suffix(&block.bytes[from..found.at as usize], before);
        if back < last.len as usize {
            return false;
        }
        *found = Match {
            at: found.at - back as u32,
            len: found.len + back as u32,
            source: found.source - back as u64,
        };
        true
    }

    /// Finds matches; indexes the block if `note`.
    // More than 100 lines: a hot loop, whose state stays in registers.
    fn run(
        &mut self,
        log: &Log,
        block: &PlacedBlock<'_>,
        density: Density,
        note: bool,
        matches: &mut Vec<Match>,
    ) {
        let first = matches.len();
        // Everything below `done` is settled: in a match, or a literal before one.
        let mut done = 0;
        // The next match, unless a marker leads to others before it, or to a longer one.
        let mut next: Option<Match> = None;
        // Markers below this are in the table already.
        let mut indexed = 0;

        // Content that was not indexed may have moved, so the source may now lie in this very
        // block.
        if let Some(source) = self.going_on.take()
            && source < block.offset
            && let Some(found) = block.grow(
                self.kernels,
                log,
                0,
                source,
                0,
                RESUME_MIN.min(block.bytes.len().max(1)),
            )
        {
            done = found.end();
            matches.push(found);
            (done, next) = self.resume(log, block, done, matches);
            if note {
                self.index_inside(block, density, 0, done);
            }
            indexed = done;
        }

        let mut batch_size = if density == Density::Sparse { BATCH } else { FIRST_BATCH };
        let mut at = done;
        loop {
            let sampled = self.sample(block.bytes, density, at, 0..batch_size);
            let count = sampled.count;
            if count == 0 {
                break;
            }
            let markers = &self.batch.markers[..count];
            let fingerprints = &mut self.batch.fingerprints[..count];
            self.kernels.fingerprints(block.bytes, markers, self.window, self.key, fingerprints);
            let found = &mut self.batch.found[..count];
            let places = Markers { block: block.offset, positions: markers };
            if note {
                self.table.exchange(fingerprints, places, found);
            } else {
                self.table.look_up(fingerprints, places, found);
            }
            for &source in &*found {
                if source != NO_OFFSET {
                    log.prefetch(source);
                }
            }
            self.stats.looked_up += count as u64;
            self.stats.sampled_bytes += (sampled.resume.min(block.bytes.len()) - at) as u64;
            at = sampled.resume;
            indexed = indexed.max(at);
            batch_size = (batch_size * 2).min(BATCH);

            for i in 0..count {
                let (marker, source) = (self.batch.markers[i] as usize, self.batch.found[i]);
                if marker < done || (source == NO_OFFSET && next.is_none()) {
                    continue;
                }
                let mut hit = self.hit(log, block, marker, source, done);
                if let Some(waiting) = next {
                    match hit {
                        Some(found)
                            if !is_short(&waiting) && found.end() <= waiting.at as usize =>
                        {
                            done = found.end();
                            matches.push(found);
                            continue;
                        }
                        Some(found) if found.len >= LONG.max(waiting.len) => self.chain = CHAIN,
                        _ if marker < waiting.at as usize => continue,
                        _ => {
                            (done, next) = self.take(log, block, waiting, matches);
                            if marker < done {
                                continue;
                            }
                            hit = self.hit(log, block, marker, source, done);
                        }
                    }
                }
                let Some(mut found) = hit else { continue };
                if found.at as usize == done && matches.len() > first {
                    self.swallow(log, block, &mut matches[first..], &mut found)
                        .then(|| matches.pop());
                }
                done = found.end();
                matches.push(found);
                (done, next) = self.resume(log, block, done, matches);
            }
            if done > at {
                // The batch ended inside a match; continue after it.
                if note {
                    self.index_inside(block, density, indexed, done);
                }
                at = done;
                indexed = done;
                batch_size = FIRST_BATCH;
            }
        }
        while let Some(waiting) = next {
            (done, next) = self.take(log, block, waiting, matches);
            if note && done > indexed {
                self.index_inside(block, density, indexed, done);
                indexed = done;
            }
        }
        if let Some(last) = matches[first..].last()
            && last.end() == block.bytes.len()
        {
            self.going_on = Some(last.source + u64::from(last.len));
        }
    }
}

fn is_short(found: &Match) -> bool {
    (found.len as usize) < SHORT
}
