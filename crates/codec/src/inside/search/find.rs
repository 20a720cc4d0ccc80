//! Looks inside the deflate streams and zstd frames of flows, block by block.
//!
//! Longer than 600 lines: its steps share the buffers of one search of a block.

use crate::deflate::SLACK;
use crate::encoder::looks_compressible;
use crate::entropy::Operation;
use crate::inside::Place;
use crate::inside::budget::{self, Budget, Budgets};
use crate::inside::follow::connection;
use crate::inside::follow::follower::Follower;
use crate::inside::follow::opened::{Opened, Part, Spot};
use crate::inside::follow::opener::Opener;
use crate::inside::follow::passed::Passed;
use crate::inside::follow::streams::StreamCounts;
use crate::inside::search::copies::{Copies, Cursor};
use crate::inside::search::index::{Stretch, TokenIndex};
use crate::inside::search::literals::LiteralMap;
use crate::inside::search::names::Names;
use crate::inside::search::plan::{Plan, Step, describe, sources};
use crate::inside::search::tokens::{Ahead, MAX_OPERATIONS, Search};
use crate::inside::search::worth::{LEAST_LEFT, Worth, gather, matched_bytes};
use crate::inside::search::zstd::{self, Zstd};
use crate::inside::wire::alignment::Alignment;
use crate::inside::wire::section::{Expander, MAX_SOURCES};
use crate::inside::wire::work::Work;
use crate::log::Log;
use crate::matcher::Match;
use std::ops::Range;

/// Most flows whose position in a stream is kept.
const MAX_FLOWS: usize = 32;
/// Matches within deflate streams are kept from this length on.
const SHORT: u32 = 256;
/// Fewest bytes that a plan must save.
const MIN_SAVED: usize = 32;

/// Counters. They never decrease.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct InsideStats {
    /// Bytes of deflate streams and zstd blocks that were opened.
    pub opened_bytes: u64,
    /// The part of them that was found in the log as tokens or sequences.
    pub found_bytes: u64,
    /// Bytes that this saves in the frames of these blocks, compared with literals. An estimate: it
    /// is made before the entropy stage, and includes the matches that were dropped.
    pub saved_bytes: u64,
    /// Bytes of deflate streams in blocks that were not opened because they were found entirely as
    /// bytes.
    pub passed_bytes: u64,
    /// Bytes that were not opened because earlier content took much work and saved little:
    /// [`InsideStats::work`].
    pub declined_bytes: u64,
    /// Work of looking inside. A unit is about the cost of reading a deflate token.
    pub work: u64,
    /// Blocks with bytes found as tokens or sequences.
    pub blocks: u64,
    /// Plans that failed to reproduce the block. Always 0, unless there is a defect.
    pub refused: u64,
    /// Streams that were followed.
    pub streams: StreamCounts,
}

/// Position of a flow in its content.
#[derive(Debug)]
struct Flow {
    id: u64,
    opener: Follower,
    /// Positions in zstd frames.
    frames: zstd::Frames,
    budget: Budget,
}

/// Most streams of HTTP/2 that are followed, of all flows.
const MOST_STREAMS: usize = 32;
/// Memory of a flow in bytes, at most, without its streams of HTTP/2; and of each of these.
const FLOW_MEMORY: usize =
    size_of::<Flow>() + Follower::MEMORY + zstd::Frames::MEMORY + zstd::Flow::MEMORY;
const STREAM_MEMORY: usize = Opener::MEMORY + zstd::Flow::MEMORY;

/// The encoder's state for looking inside streams.
#[derive(Debug)]
pub(crate) struct Inside {
    /// Allocated with the first stream.
    index: Option<TokenIndex>,
    capacity: u64,
    /// Skipped content.
    copies: Copies,
    /// By flow; the most recently used is last.
    flows: Vec<Flow>,
    /// Budgets of the domains.
    budgets: Budgets,
    zstd: Zstd,
    opened: Opened,
    steps: Vec<Step>,
    /// First token of each window, and its fingerprint.
    anchors: Vec<(u32, u64)>,
    ahead: Ahead,
    names: Names,
    /// The byte matches, before short ones were dropped.
    whole: Vec<Match>,
    /// Bits that the last search saved, and the work that it took.
    saved: u64,
    found_work: u64,
    literals: Vec<u8>,
    check: Vec<u8>,
    expander: Expander,
    worth: Worth,
    pub(crate) stats: InsideStats,
}

impl Inside {
    pub(crate) fn new(capacity: u64) -> Inside {
        Inside {
            index: None,
            capacity,
            copies: Copies::default(),
            flows: Vec::new(),
            budgets: Budgets::default(),
            zstd: Zstd::new(capacity),
            opened: Opened::default(),
            steps: Vec::new(),
            anchors: Vec::new(),
            ahead: Ahead::default(),
            names: Names::default(),
            whole: Vec::new(),
            saved: 0,
            found_work: 0,
            literals: Vec::new(),
            check: Vec::new(),
            expander: Expander::default(),
            worth: Worth::default(),
            stats: InsideStats::default(),
        }
    }

    /// Upper bound of the memory in bytes for a log of `capacity` bytes.
    pub(crate) fn most_memory(capacity: u64, max_block: usize) -> usize {
        TokenIndex::most_memory(capacity)
            .saturating_add(MAX_FLOWS * FLOW_MEMORY)
            .saturating_add((MOST_STREAMS + connection::MOST_STREAMS) * STREAM_MEMORY)
            .saturating_add(Opened::most_memory(max_block))
            // And those of the writer, for each operation: at most 9 symbols of 6 bytes, and 16
            // bytes of bits, in buffers that grow by doubling, and the section itself.
            .saturating_add(2 * MAX_OPERATIONS * (size_of::<Step>() + size_of::<Operation>() + 150))
            .saturating_add(4 * max_block * size_of::<(u32, u64)>())
            .saturating_add(2 * 3 * (max_block + SLACK) + 2 * MAX_SOURCES * size_of::<Match>())
            // No match is shorter than the shortest window.
            .saturating_add(2 * (max_block / 8 + 1) * size_of::<Match>())
            .saturating_add(Zstd::most_memory(capacity, max_block))
            .saturating_add(Copies::MEMORY)
            .saturating_add(Budgets::MEMORY)
            .saturating_add(2 * Ahead::MEMORY + Names::MEMORY)
            .saturating_add(Expander::MEMORY)
            .saturating_add(Worth::most_memory(max_block))
    }

    /// Memory in bytes as of now.
    pub(crate) fn memory(&self) -> usize {
        self.index.as_ref().map_or(0, TokenIndex::memory)
            + self.copies.memory()
            + self.budgets.memory()
            + self.flows.len() * FLOW_MEMORY
            + self.streams() * STREAM_MEMORY
            + self.opened.memory()
            + self.zstd.memory()
            + self.steps.capacity() * size_of::<Step>()
            + self.anchors.capacity() * size_of::<(u32, u64)>()
            + self.ahead.memory()
            + self.names.memory()
            + self.whole.capacity() * size_of::<Match>()
            + self.literals.capacity()
            + self.check.capacity()
            + self.expander.memory()
            + self.worth.memory()
    }

    /// Forgets content at `offset` and above.
    pub(crate) fn rewind(&mut self, offset: u64) {
        self.flows.clear();
        self.copies.rewind(offset);
        self.zstd.rewind(offset);
        if let Some(index) = &mut self.index {
            index.rewind(offset);
        }
    }

    /// Records that a block of a flow goes to this place of the log, and is skipped.
    pub(crate) fn pass(&mut self, id: u64, content: Range<u64>) {
        let mut flow = self.take_flow(id);
        flow.opener.pass(content, None);
        self.put_flow(flow);
    }

    /// The best end for the next block of a flow: at most `most` bytes of `content`.
    pub(crate) fn cut(&self, id: u64, content: &[u8], most: usize) -> usize {
        let flow = self.flows.iter().rfind(|known| known.id == id);
        flow.map_or(&Follower::default(), |flow| &flow.opener).cut(content, most).unwrap_or(most)
    }

    /// Removes and returns the state of a flow.
    fn take_flow(&mut self, id: u64) -> Flow {
        if let Some(nth) = self.flows.iter().rposition(|known| known.id == id) {
            return self.flows.remove(nth);
        }
        if self.flows.len() == MAX_FLOWS {
            self.flows.remove(0);
        }
        Flow {
            id,
            opener: Follower::default(),
            frames: zstd::Frames::default(),
            budget: Budget::of_flow(),
        }
    }

    /// Streams of HTTP/2 that are followed.
    fn streams(&self) -> usize {
        self.flows.iter().map(|flow| flow.opener.streams()).sum()
    }

    /// Puts the state of a flow back, as the one used last. If too many streams of HTTP/2 are followed,
    /// those of the least recently used flows are dropped.
    fn put_flow(&mut self, mut flow: Flow) {
        let Flow { opener, frames, .. } = &mut flow;
        frames.retain(|stream| opener.has_stream(stream));
        self.flows.push(flow);
        let mut excess = self.streams().saturating_sub(MOST_STREAMS);
        for Flow { opener, frames, .. } in &mut self.flows {
            let dropped = excess.min(opener.streams());
            excess -= dropped;
            (0..dropped).for_each(|_| opener.drop_stream());
            if dropped > 0 {
                frames.retain(|stream| opener.has_stream(stream));
            }
        }
    }

    /// Describes the literals of a block by tokens of the log, if that pays. `matches` are its byte
    /// matches.
    pub(crate) fn find(
        &mut self,
        place: &Place<'_>,
        block: &[u8],
        matches: &mut Vec<Match>,
        plan: &mut Plan,
    ) {
        let &Place { flow: id, offset, .. } = place;
        plan.clear();
        let mut flow = self.take_flow(id);
        if let Some(source) = self.whole_match(place, block, matches) {
            // The flow's position in its stream can be determined later, if needed.
            let first = source.saturating_sub(block.len() as u64);
            self.stats.passed_bytes +=
                self.index.as_ref().map_or(0, |of| of.tokens_in(first..source));
            flow.opener.pass(offset..offset + block.len() as u64, Some(source));
            self.put_flow(flow);
            return;
        }
        if self.budgets.declines(place.key, &mut flow.budget, block.len()) {
            self.stats.declined_bytes += block.len() as u64;
            flow.opener.decline(block);
            flow.frames.clear();
            self.put_flow(flow);
            return;
        }
        let InsideStats { work, saved_bytes, .. } = self.stats;
        if let Some(passed) = flow.opener.passed()
            && let Some(rest) = self.catch_up(place, &mut flow, passed, block.len())
        {
            for piece in rest {
                flow.opener.pass(piece, None);
            }
            flow.opener.pass(offset..offset + block.len() as u64, None);
            self.spend(place.key, &mut flow, block.len(), work, saved_bytes);
            self.put_flow(flow);
            return;
        }
        flow.opener.open(block, offset, &mut self.opened);
        self.stats.work += self.opened.work;
        self.stats.streams += flow.opener.take_counts();
        if !self.opened.parts.is_empty() {
            self.find_tokens(place, block, matches, plan);
        }
        if !self.opened.zstd.is_empty() {
            let (expander, copies) = (&mut self.expander, &self.copies);
            let parts = zstd::Parts { matches, plan, expander, copies };
            let whole = parts.plan.is_empty() && looks_compressible(block);
            self.whole.clone_from(parts.matches);
            let mut found =
                self.zstd.find(place, block, &self.opened.zstd, &mut flow.frames, parts);
            if whole && !plan.is_empty() {
                self.worth.check(place, block, matches, &mut self.whole, plan, &mut found.saved);
            }
            self.stats.opened_bytes += found.opened as u64;
            self.stats.found_bytes += found.saved as u64;
            self.stats.saved_bytes += found.saved as u64;
            self.stats.work += found.work;
            self.stats.blocks += u64::from(found.saved > 0);
            self.stats.refused += u64::from(found.is_refused);
        }
        self.spend(place.key, &mut flow, block.len(), work, saved_bytes);
        self.put_flow(flow);
    }

    /// Charges a flow and its domain for a block: the work and savings since the counters were
    /// `work` and `saved_bytes`.
    fn spend(&mut self, key: u64, flow: &mut Flow, len: usize, work: u64, saved_bytes: u64) {
        self.stats.work += std::mem::take(&mut self.worth.work);
        let (work, saved) = (self.stats.work - work, self.stats.saved_bytes - saved_bytes);
        self.budgets.spend(key, &mut flow.budget, len, work, saved);
    }

    /// Describes literals by deflate tokens of the log, if that pays.
    fn find_tokens(
        &mut self,
        place: &Place<'_>,
        block: &[u8],
        matches: &mut Vec<Match>,
        plan: &mut Plan,
    ) {
        let offset = place.offset;
        if self.index.is_none() {
            self.index = TokenIndex::new(self.capacity).ok();
        }
        let Some(mut index) = self.index.take() else { return };
        let matched = matched_bytes(matches);
        // Byte matches cost less, and the rest of the block is too small to matter.
        let is_found = matched * 8 >= block.len() * 7;
        self.whole.clone_from(matches);
        if !is_found {
            drop_short(matches, &self.opened, offset);
        }
        let dropped = matched - matched_bytes(matches);
        self.search(place, &mut index, block, matches, is_found);
        if self.saved / 8 > (MIN_SAVED + dropped) as u64 {
            self.plan(place.log, block, offset, matches, dropped, plan);
        }
        if plan.is_empty() {
            std::mem::swap(matches, &mut self.whole);
        } else {
            self.stats.found_bytes += (self.saved / 8).saturating_sub(dropped as u64);
            self.stats.blocks += 1;
        }
        for part in &self.opened.parts {
            let (first, last) = (self.opened.bits[part.first], part.end_bit);
            self.stats.opened_bytes += u64::from((last - first) / 8);
            if let Some(header) = part.spot.header() {
                let base = offset * 8;
                let (first, end) = (base + u64::from(first), base + u64::from(last));
                let is_own = |range: &Range<u64>| place.log.is_undivided(range);
                index.add(Stretch { first, end, header, next: 0 }, place.key, is_own);
            }
        }
        self.index = Some(index);
    }

    /// Moves a flow past skipped content, for a block of `block_len` bytes. If that is too much to
    /// open now, returns the rest.
    fn catch_up(
        &mut self,
        place: &Place<'_>,
        flow: &mut Flow,
        passed: Passed,
        block_len: usize,
    ) -> Option<Vec<Range<u64>>> {
        let &Place { log, offset, .. } = place;
        let floor = log.floor(offset, block_len);
        let Passed { pieces, last, len, source, is_new } = passed;
        let is_there = |piece: &Range<u64>| {
            log.extent(piece.start, floor).is_some_and(|extent| piece.end <= extent.end)
        };
        let is_known = !pieces.is_empty() && pieces.iter().all(is_there);
        let len = if is_known { len as usize } else { usize::MAX };
        // Only in that case: the carrier of the frame is unknown there.
        let source = source.filter(|_| len > FEW_PASSED);
        if let Some(source) = source
            && let Some((frame, state)) =
                self.zstd.resume(place, &self.copies, source, &last, floor)
        {
            flow.opener.resume_frame(frame);
            flow.frames.set(state);
            return None;
        }
        let found = self.index.as_mut().zip(source).and_then(|(index, source)| {
            index.tokens_before(log, source, floor, &self.copies, place.key)
        });
        let found = found.filter(|(found, end)| end - found.bit / 8 <= MOST_BEHIND);
        let mut pieces = match found {
            Some((found, end)) => {
                let at = found.bit / 8;
                flow.opener.resume(found);
                std::iter::once(at..end).collect()
            }
            // A repeat is not worth more: what follows is usually something else.
            None if is_known && (is_new || len as u64 <= MOST_BEHIND) => pieces,
            None => {
                flow.opener.lose();
                return None;
            }
        };
        // Where opening was off, the stream continues, and a few blocks may pass: reading four
        // times the block costs about as much as opening it. After a repeat, the block may begin
        // another stream.
        let some = (4 * block_len).clamp(FEW_PASSED, 4 * FEW_PASSED) as u64;
        let mut left = if is_new { some } else { u64::MAX };
        for piece in &mut pieces {
            while !piece.is_empty() && left > 0 {
                let at = piece.start;
                piece.start = piece.end.min(at + left.min(FEW_PASSED as u64));
                left -= piece.start - at;
                let content = log.read(at..piece.start);
                flow.opener.open(content, at, &mut self.opened);
                self.stats.work += self.opened.work;
                if !self.opened.zstd.is_empty() {
                    let place = Place { offset: at, ..*place };
                    let ended = &self.opened.zstd;
                    self.stats.work += self.zstd.pass(&place, content, ended, &mut flow.frames);
                }
            }
        }
        pieces.retain(|piece| !piece.is_empty());
        (!pieces.is_empty()).then_some(pieces)
    }

    /// The first occurrence of the content that ends with a block, if the whole block was found as
    /// bytes. Deflate tokens and zstd blocks are found in the newest copy of content whose first
    /// one has left the log.
    fn whole_match(&mut self, place: &Place<'_>, block: &[u8], matches: &[Match]) -> Option<u64> {
        let &Place { offset, key, .. } = place;
        let matched: usize = matches.iter().map(|found| found.len as usize).sum();
        let is_whole = matched == block.len() && matched >= LEAST_PASSED;
        let last = matches.last().filter(|_| is_whole)?;
        let end = last.source + u64::from(last.len);
        let (origin, known) = self.copies.origin(end);
        if end > offset {
            return None;
        }
        // Content before the copy that the match ends in was elsewhere.
        let (copied, len) = (offset + last.end() as u64, u64::from(last.len).min(known));
        self.copies.add(copied - len..copied, origin, key);
        Some(origin)
    }

    /// Finds runs, and records the fingerprints of the block.
    fn search(
        &mut self,
        place: &Place<'_>,
        index: &mut TokenIndex,
        block: &[u8],
        matches: &[Match],
        is_found: bool,
    ) {
        let &Place { log, offset, key, .. } = place;
        self.steps.clear();
        self.names.begin(block.len());
        let built = index.built;
        let floor = log.floor(offset, block.len());
        let literals = LiteralMap::new(matches);
        let opened = std::mem::take(&mut self.opened);
        let is_own = |range: &Range<u64>| {
            log.extent(range.start, floor).is_some_and(|extent| range.end <= extent.end)
        };
        let mut search = Search {
            log,
            index,
            copies: &self.copies,
            cursor: Cursor::default(),
            key,
            offset,
            floor,
            opened: &opened,
            steps: &mut self.steps,
            anchors: &mut self.anchors,
            source: None,
            spare: std::mem::take(&mut self.ahead),
            names: &mut self.names,
            work: 0,
            alignment: Alignment::default(),
            saved: 0,
        };
        for part in &opened.parts {
            if let Spot::Log(start, _) = part.spot {
                search.index.keep(start, &part.code);
            }
            if is_found || part.spot == Spot::Scattered {
                search.note(part.first..part.end);
                continue;
            }
            // Ranges of the part that are literals.
            let mut first = part.first;
            while first < part.end {
                let bit = u64::from(opened.bits[first]);
                let (run_end, next) = literals.run_around(bit);
                let end_of = |limit: u64| {
                    if limit >= u64::from(part.end_bit) {
                        return part.end;
                    }
                    // The last token before the limit may extend beyond it.
                    let after =
                        opened.bits[first..part.end].partition_point(|&at| u64::from(at) <= limit);
                    first + after - 1
                };
                match run_end {
                    Some(limit) => {
                        let end = end_of(limit).max(first);
                        if let Some(code) = literals.described(part.spot, offset, is_own) {
                            search.part(code, &literals, first..end, part);
                        } else {
                            search.note(first..end);
                        }
                        // The token at the limit belongs to neither range.
                        first = if end == part.end { end } else { end + 1 };
                    }
                    None => {
                        let skipped = opened.bits[first..part.end]
                            .partition_point(|&at| u64::from(at) < next);
                        first += skipped.max(1);
                    }
                }
            }
        }
        search.index.settle();
        self.saved = search.saved;
        // Searching takes about twice the time of reading the same tokens.
        self.found_work = search.work;
        self.stats.work += 2 * search.work + (search.index.built - built) * budget::CODE;
        self.ahead = search.source.map_or(search.spare, |source| source.into_ahead());
        self.opened = opened;
    }

    /// Turns steps into a plan, and checks that it reproduces the literals. `dropped` bytes of them
    /// were byte matches.
    fn plan(
        &mut self,
        log: &Log,
        block: &[u8],
        offset: u64,
        matches: &[Match],
        dropped: usize,
        plan: &mut Plan,
    ) {
        let floor = log.floor(offset, block.len());
        sources(&self.steps, log, offset, floor, &mut plan.sources);
        if plan.sources.is_empty() {
            return;
        }
        gather(block, matches, &mut self.literals);
        let parts = self.steps.iter().filter(|step| matches!(step, Step::Part { .. })).count();
        plan.residual.resize(self.literals.len() + parts + 2 * SLACK, 0);
        let described = describe(&self.steps, &self.literals, plan);
        let mut saved = 0;
        let fits = described.is_some_and(|len| {
            plan.residual.truncate(len);
            let described = plan.operations.len() * 3 / 2 + plan.sources.len() * 6;
            saved = self.literals.len().saturating_sub(len + described + dropped);
            saved > MIN_SAVED
        });
        if !fits {
            plan.clear();
            return;
        }
        let contents = plan.contents(log);
        if looks_compressible(block) {
            let (place, both) = ((offset, floor), [matches, &self.whole]);
            saved = self.worth.saved(log, block, place, both, plan, &contents);
            if saved <= MIN_SAVED {
                plan.clear();
                return;
            }
        }
        let mut operations = plan.operations.iter().copied();
        let mut work = Work::of(block.len());
        let back = self.expander.expand(
            || Ok(operations.next().unwrap_or(Operation::End)),
            &plan.residual,
            &contents,
            self.literals.len(),
            &mut work,
            &mut self.check,
        );
        // Rebuilt to be compared.
        self.stats.work += self.found_work + self.expander.codes() as u64 * budget::CODE;
        if back.is_err() || self.check != self.literals {
            // A frame that costs a decoder too much work is not sent; that is not a defect.
            self.stats.refused += u64::from(!work.is_exceeded());
            plan.clear();
            return;
        }
        self.stats.saved_bytes += saved as u64;
    }
}

/// Drops short matches within deflate streams: they end runs of tokens, and tokens find the same
/// content. Others are clipped where they begin or end within the description of a code: a frame
/// must find that in one piece.
fn drop_short(matches: &mut Vec<Match>, opened: &Opened, offset: u64) {
    let base = offset * 8;
    // The bits of the block that describe the code of a part; none if the description is elsewhere.
    let header = |part: &Part| match part.spot {
        Spot::Log(from, to) if from >= base => from - base..to - base,
        _ => u64::from(opened.bits[part.first])..u64::from(opened.bits[part.first]),
    };
    let parts = &opened.parts;
    matches.retain_mut(|found| {
        let (start, end) = (u64::from(found.at) * 8, found.end() as u64 * 8);
        // The parts that the match overlaps.
        let first = parts.partition_point(|part| u64::from(part.end_bit) <= start);
        let behind = parts.partition_point(|part| header(part).start < end);
        if first >= behind {
            return true;
        }
        if found.len < SHORT {
            return false;
        }
        let (first, last) = (header(&parts[first]), header(&parts[behind - 1]));
        if end < last.end {
            found.len = ((last.start / 8) as u32).saturating_sub(found.at);
        }
        if start > first.start && start < first.end {
            let cut = (first.end.div_ceil(8) as u32 - found.at).min(found.len);
            (found.at, found.source) = (found.at + cut, found.source + u64::from(cut));
            found.len -= cut;
        }
        found.len >= LEAST_LEFT
    });
}

/// Shorter blocks are always opened, because each costs little.
const LEAST_PASSED: usize = 8 << 10;
/// Skipped content is opened later if needed: up to this many bytes before the log is asked for the
/// position in its stream.
const FEW_PASSED: usize = 64 << 10;
/// Greatest distance of known tokens before that position, and the bytes of a repeat that are
/// opened if there are none.
const MOST_BEHIND: u64 = 1 << 20;
