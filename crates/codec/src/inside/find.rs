//! Finds runs of tokens that the log has, and describes literals by them.

use super::index::{Stretch, TokenIndex};
use super::opener::{OPENER_MEMORY, Opened, Opener, Part, Passed, Spot};
use super::section::{ALIGNED_BITS, Expander, MAX_CODES, MAX_SOURCES};
use crate::deflate::{BitReader, BitWriter, Code, SLACK, Token, copy_bits};
use crate::entropy::{CodeAt, Operation};
use crate::log::Log;
use crate::matcher::Match;
use std::ops::Range;
use std::sync::Arc;

/// Tokens under one fingerprint. Their distances do not count: an insertion changes those.
const WINDOW: usize = 8;
/// One window in this many gets a fingerprint, as its content decides.
const PERIOD_BITS: u32 = 4;
/// Bits that the first tokens of a run must save to be worth the description of where they are.
const WORTH: i64 = 96;
/// What a changed distance takes, in bits, about.
const MOVED_COST: i64 = 10;
/// Tokens looked at to judge a run.
const JUDGED: usize = 64;
/// Changed distances in a row that end a run.
const MOVED_IN_A_ROW: usize = 3;
/// Tokens that may be passed over, on either side, to go on where a run ended.
const REACH: usize = 8;
/// Tokens that must agree to go on there.
const AGREE: usize = 4;
/// Operations of a block.
const MAX_OPERATIONS: usize = 4 << 10;
/// Bytes between two pieces of the log that are named as one source.
const SOURCE_GAP: u64 = 512;
/// Flows whose place in a stream is remembered.
const MAX_FLOWS: usize = 32;
/// Bytes that a plan must save.
const MIN_SAVED: usize = 32;

/// Literals put together from tokens of the log.
#[derive(Clone, Debug, Default)]
pub(crate) struct Plan {
    /// What of the log they need: ascending, disjoint, below the block.
    pub(crate) sources: Vec<Match>,
    /// Ends with [`Operation::End`]. Empty if there is no plan.
    pub(crate) operations: Vec<Operation>,
    /// What the log does not have.
    pub(crate) residual: Vec<u8>,
}

impl Plan {
    pub(crate) fn is_empty(&self) -> bool {
        self.operations.is_empty()
    }

    pub(crate) fn clear(&mut self) {
        self.sources.clear();
        self.operations.clear();
        self.residual.clear();
    }

    /// Memory in bytes as of now.
    pub(crate) fn memory(&self) -> usize {
        self.sources.capacity() * size_of::<Match>()
            + self.operations.capacity() * size_of::<Operation>()
            + self.residual.capacity()
    }
}

/// Counters. They only grow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct InsideStats {
    /// Bytes of deflate streams that were taken apart.
    pub opened_bytes: u64,
    /// Bytes of them that were found in the log as tokens.
    pub found_bytes: u64,
    /// Blocks with such bytes.
    pub blocks: u64,
    /// Plans that did not give the block back. Always 0, unless there is a defect.
    pub refused: u64,
}

/// Where a block goes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place<'a> {
    pub(crate) log: &'a Log,
    /// Of the block in the log.
    pub(crate) offset: u64,
    /// Of fingerprints: one for each domain.
    pub(crate) key: u64,
    pub(crate) flow: u64,
}

/// What an encoder needs to look inside deflate streams.
#[derive(Debug)]
pub(crate) struct Inside {
    /// Allocated with the first stream.
    index: Option<TokenIndex>,
    capacity: u64,
    /// By flow; the last used are last.
    flows: Vec<(u64, Opener)>,
    opened: Opened,
    steps: Vec<Step>,
    /// First token of a window, and its fingerprint.
    anchors: Vec<(u32, u64)>,
    literals: Vec<u8>,
    check: Vec<u8>,
    expander: Expander,
    pub(crate) stats: InsideStats,
}

/// A code and where it is described.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Described {
    Fixed,
    /// Bits of the log.
    Log(u64, u64),
    /// Bit of the literals.
    Here(u64),
}

/// An operation before positions are known.
#[derive(Clone, Copy, Debug)]
enum Step {
    /// Tokens of a code begin at this bit of the literals.
    Part {
        at: u64,
        code: Described,
    },
    Near {
        gap: u32,
        gap_bits: u32,
        skip: u8,
        run: u32,
        run_bits: u64,
        source_end: u64,
    },
    Jump {
        gap: u32,
        gap_bits: u32,
        code: Described,
        at: u64,
        run: u32,
        run_bits: u64,
        source_end: u64,
    },
    Moved {
        change: i32,
        run: u32,
        run_bits: u64,
        source_end: u64,
    },
}

impl Step {
    fn jump(gap: u32, gap_bits: u32, code: Described, at: u64) -> Step {
        Step::Jump { gap, gap_bits, code, at, run: 0, run_bits: 0, source_end: 0 }
    }

    fn near(gap: u32, gap_bits: u32, skip: u8) -> Step {
        Step::Near { gap, gap_bits, skip, run: 0, run_bits: 0, source_end: 0 }
    }

    fn moved(change: i32) -> Step {
        Step::Moved { change, run: 0, run_bits: 0, source_end: 0 }
    }

    /// The step with its run: of `tokens` tokens; `bits` in all that it covers, and where the
    /// source stands behind it.
    fn finish(mut self, tokens: u32, bits: u64, end: u64) -> Step {
        if let Step::Near { run, run_bits, source_end, .. }
        | Step::Jump { run, run_bits, source_end, .. }
        | Step::Moved { run, run_bits, source_end, .. } = &mut self
        {
            (*run, *run_bits, *source_end) = (tokens, bits, end);
        }
        self
    }
}

impl Inside {
    pub(crate) fn new(capacity: u64) -> Inside {
        Inside {
            index: None,
            capacity,
            flows: Vec::new(),
            opened: Opened::default(),
            steps: Vec::new(),
            anchors: Vec::new(),
            literals: Vec::new(),
            check: Vec::new(),
            expander: Expander::default(),
            stats: InsideStats::default(),
        }
    }

    /// Upper bound of the memory in bytes for a log of `capacity` bytes.
    pub(crate) fn most_memory(capacity: u64, max_block: usize) -> usize {
        TokenIndex::most_memory(capacity)
            .saturating_add(MAX_FLOWS * (OPENER_MEMORY + 8))
            .saturating_add(Opened::most_memory(max_block))
            // And of the writer, for each: at most 9 symbols of 6 bytes, and 16 bytes of bits, in
            // buffers that grow by doubling, and the section itself.
            .saturating_add(2 * MAX_OPERATIONS * (size_of::<Step>() + size_of::<Operation>() + 150))
            .saturating_add(2 * max_block * size_of::<(u32, u64)>())
            .saturating_add(2 * 3 * (max_block + SLACK) + 2 * MAX_SOURCES * size_of::<Match>())
            .saturating_add(Expander::MEMORY)
    }

    /// Memory in bytes as of now.
    pub(crate) fn memory(&self) -> usize {
        self.index.as_ref().map_or(0, TokenIndex::memory)
            + self.flows.len() * (OPENER_MEMORY + 8)
            + self.opened.memory()
            + self.steps.capacity() * size_of::<Step>()
            + self.anchors.capacity() * size_of::<(u32, u64)>()
            + self.literals.capacity()
            + self.check.capacity()
            + self.expander.memory()
    }

    /// Forgets what was encoded at `offset` and above.
    pub(crate) fn rewind(&mut self, offset: u64) {
        self.flows.clear();
        if let Some(index) = &mut self.index {
            index.rewind(offset);
        }
    }

    /// A block of a flow was not looked at.
    pub(crate) fn pass(&mut self, flow: u64) {
        self.flows.retain(|(known, _)| *known != flow);
    }

    /// Describes the literals of a block by tokens of the log, if that is worth it. `matches` are
    /// what was found of it as bytes.
    pub(crate) fn find(
        &mut self,
        place: &Place<'_>,
        block: &[u8],
        matches: &[Match],
        plan: &mut Plan,
    ) {
        let &Place { flow, offset, .. } = place;
        plan.clear();
        let mut opener = match self.flows.iter().rposition(|(known, _)| *known == flow) {
            Some(nth) => self.flows.remove(nth).1,
            None => Opener::default(),
        };
        if self.flows.len() == MAX_FLOWS {
            self.flows.remove(0);
        }
        if let Some(source) = whole_match(block, offset, matches, self.capacity) {
            // Where the flow is in its stream can be seen later, if that is needed again.
            opener.pass(offset..offset + block.len() as u64, source);
            self.flows.push((flow, opener));
            return;
        }
        if let Some(passed) = opener.passed() {
            self.catch_up(place.log, &mut opener, passed, offset, block.len());
        }
        opener.open(block, offset, &mut self.opened);
        self.flows.push((flow, opener));
        if self.opened.parts.is_empty() {
            return;
        }
        if self.index.is_none() {
            self.index = TokenIndex::new(self.capacity).ok();
        }
        let Some(mut index) = self.index.take() else { return };
        self.search(place, &mut index, block, matches, plan);
        for part in &self.opened.parts {
            let (first, last) = (self.opened.bits[part.first], part.end_bit);
            self.stats.opened_bytes += u64::from((last - first) / 8);
            if let Some(header) = part.spot.header() {
                let base = offset * 8;
                index.add(Stretch {
                    first: base + u64::from(first),
                    end: base + u64::from(last),
                    header,
                });
            }
        }
        self.index = Some(index);
    }

    /// Brings a flow to the place behind content that was not looked at, for a block at `offset`.
    fn catch_up(
        &mut self,
        log: &Log,
        opener: &mut Opener,
        passed: Passed,
        offset: u64,
        block_len: usize,
    ) {
        let floor = log.geometry().floor(offset, block_len);
        let content = passed.content.and_then(|Range { start, end }| {
            log.extent(start, floor).filter(|extent| end <= extent.end)?;
            Some((start, log.read(start..end)))
        });
        let len = content.map_or(usize::MAX, |(_, content)| content.len());
        let found = self.index.as_mut().filter(|_| len > FEW_PASSED);
        let found = found.and_then(|index| index.tokens_before(log, passed.source, floor));
        let found = found.filter(|found| passed.source - found.bit / 8 <= MOST_PASSED as u64);
        let (mut at, content) = match (found, content) {
            (Some(found), _) => {
                let at = found.bit / 8;
                opener.resume(found);
                (at, log.read(at..passed.source))
            }
            (None, Some((start, content))) if len <= MOST_PASSED => (start, content),
            (None, _) => return opener.lose(),
        };
        for piece in content.chunks(FEW_PASSED) {
            opener.open(piece, at, &mut self.opened);
            at += piece.len() as u64;
        }
    }

    /// Finds runs, and notes the fingerprints of the block.
    fn search(
        &mut self,
        place: &Place<'_>,
        index: &mut TokenIndex,
        block: &[u8],
        matches: &[Match],
        plan: &mut Plan,
    ) {
        let &Place { log, offset, key, .. } = place;
        self.steps.clear();
        let matched: usize = matches.iter().map(|found| found.len as usize).sum();
        // What is found as bytes is found faster, and what is left is not worth much.
        let is_found = matched * 8 >= block.len() * 7;
        let floor = log.geometry().floor(offset, block.len());
        let literals = LiteralMap::new(matches);
        let opened = std::mem::take(&mut self.opened);
        let mut search = Search {
            log,
            index,
            key,
            offset,
            floor,
            opened: &opened,
            steps: &mut self.steps,
            anchors: &mut self.anchors,
            source: None,
            codes: 0,
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
            // Parts of the part that are literals.
            let mut first = part.first;
            while first < part.end {
                let bit = u64::from(opened.bits[first]);
                let (run_end, next) = literals.run_around(bit);
                let end_of = |limit: u64| {
                    if limit >= u64::from(part.end_bit) {
                        return part.end;
                    }
                    // The last token before the limit may reach beyond it.
                    let after =
                        opened.bits[first..part.end].partition_point(|&at| u64::from(at) <= limit);
                    first + after - 1
                };
                match run_end {
                    Some(limit) => {
                        let end = end_of(limit).max(first);
                        if let Some(code) = literals.described(part.spot, offset) {
                            search.part(code, &literals, first..end, part);
                        } else {
                            search.note(first..end);
                        }
                        // The token at the limit belongs to nothing.
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
        let saved = search.saved;
        self.opened = opened;
        if saved / 8 > MIN_SAVED as u64 {
            self.plan(log, block, offset, matches, plan);
        }
        self.stats.found_bytes += if plan.is_empty() { 0 } else { saved / 8 };
        self.stats.blocks += u64::from(!plan.is_empty());
    }

    /// Turns steps into a plan, and checks that it gives the literals back.
    fn plan(&mut self, log: &Log, block: &[u8], offset: u64, matches: &[Match], plan: &mut Plan) {
        sources(&self.steps, offset, &mut plan.sources);
        if plan.sources.is_empty() {
            return;
        }
        self.literals.clear();
        let mut done = 0;
        for found in matches {
            self.literals.extend_from_slice(&block[done..found.at as usize]);
            done = found.end();
        }
        self.literals.extend_from_slice(&block[done..]);
        let parts = self.steps.iter().filter(|step| matches!(step, Step::Part { .. })).count();
        plan.residual.resize(self.literals.len() + parts + 2 * SLACK, 0);
        let described = describe(&self.steps, &self.literals, plan);
        let fits = described.is_some_and(|len| {
            plan.residual.truncate(len);
            let described = plan.operations.len() * 3 / 2 + plan.sources.len() * 6;
            len + described + MIN_SAVED < self.literals.len()
        });
        if !fits {
            plan.clear();
            return;
        }
        let contents: Vec<&[u8]> = plan
            .sources
            .iter()
            .map(|source| log.read(source.source..source.source + u64::from(source.len)))
            .collect();
        let mut operations = plan.operations.iter().copied();
        let back = self.expander.expand(
            || Ok(operations.next().unwrap_or(Operation::End)),
            &plan.residual,
            &contents,
            self.literals.len(),
            &mut self.check,
        );
        if back.is_err() || self.check != self.literals {
            self.stats.refused += 1;
            plan.clear();
        }
    }
}

/// Blocks shorter than this are always looked at, since each is soon taken apart.
const LEAST_PASSED: usize = 8 << 10;
/// Content that was not looked at is taken apart later, if that is needed, up to this many bytes:
/// first of all, and if the place in its stream is not known otherwise.
const FEW_PASSED: usize = 64 << 10;
const MOST_PASSED: usize = 1 << 20;

/// Where the content behind a block was before, if all of the block was found as bytes. Content that
/// the log will soon forget is taken apart again, so that its tokens are found at the newer place.
fn whole_match(block: &[u8], offset: u64, matches: &[Match], capacity: u64) -> Option<u64> {
    let matched: usize = matches.iter().map(|found| found.len as usize).sum();
    let is_whole = matched == block.len() && matched >= LEAST_PASSED;
    let last = matches.last().filter(|_| is_whole)?;
    let recent = matches.iter().all(|found| found.source + capacity / 2 > offset);
    let end = last.source + u64::from(last.len);
    (recent && end <= offset).then_some(end)
}

/// Which bits of a block are literals, and where they go among the literals.
struct LiteralMap<'a> {
    matches: &'a [Match],
}

impl<'a> LiteralMap<'a> {
    fn new(matches: &'a [Match]) -> LiteralMap<'a> {
        LiteralMap { matches }
    }

    /// For a bit of the block: the end of the run of literals around it, or if it is in a match, the
    /// end of that.
    fn run_around(&self, bit: u64) -> (Option<u64>, u64) {
        let byte = bit / 8;
        let after = self.matches.partition_point(|found| found.end() as u64 <= byte);
        match self.matches.get(after) {
            Some(found) if u64::from(found.at) <= byte => (None, found.end() as u64 * 8),
            Some(found) => (Some(u64::from(found.at) * 8), 0),
            None => (Some(u64::MAX), 0),
        }
    }

    /// The bit of the literals that a literal bit of the block is.
    fn place(&self, bit: u64) -> u64 {
        let before = self.matches.partition_point(|found| found.end() as u64 * 8 <= bit);
        let matched: u64 = self.matches[..before].iter().map(|found| u64::from(found.len)).sum();
        bit - matched * 8
    }

    /// Where a frame at `offset` finds the description of a code.
    fn described(&self, spot: Spot, offset: u64) -> Option<Described> {
        let Spot::Log(start, end) = spot else {
            return (spot == Spot::Fixed).then_some(Described::Fixed);
        };
        let base = offset * 8;
        let Some(first) = start.checked_sub(base) else {
            return (end <= base).then_some(Described::Log(start, end));
        };
        let last = end - base;
        match self.run_around(first) {
            (Some(limit), _) => (last <= limit).then(|| Described::Here(self.place(first))),
            (None, limit) if last <= limit => {
                // It was found as bytes, in the log or earlier in the block itself.
                let after = self.matches.partition_point(|found| found.end() as u64 * 8 <= first);
                let found = self.matches[after];
                let ahead = first - u64::from(found.at) * 8;
                let (start, end) =
                    (found.source * 8 + ahead, found.source * 8 + ahead + (last - first));
                (end <= base).then_some(Described::Log(start, end))
            }
            _ => None,
        }
    }
}

/// Where a run can go on.
struct Source {
    code: Arc<Code>,
    described: Described,
    stretch: Stretch,
    nth: usize,
    /// Bits that may be read: of the stretch, as far as the log still holds it.
    limit: u64,
    /// Where it stands, in bits of the log.
    at: u64,
    /// The tokens from there on, and where each ends.
    ahead: Vec<(Token, u64)>,
    /// A jump is needed, because this is not the stretch of the last run.
    is_new: bool,
}

struct Search<'a> {
    log: &'a Log,
    index: &'a mut TokenIndex,
    key: u64,
    offset: u64,
    floor: u64,
    opened: &'a Opened,
    steps: &'a mut Vec<Step>,
    anchors: &'a mut Vec<(u32, u64)>,
    source: Option<Source>,
    /// Codes that the steps name, at most.
    codes: usize,
    /// Bits saved.
    saved: u64,
}

/// Fingerprints of windows of tokens, one by one.
#[derive(Default)]
struct Rolling {
    hash: u64,
    seen: usize,
}

impl Rolling {
    /// Adds a token. Returns a fingerprint if the window that ends with it is chosen.
    #[inline(always)]
    fn push(&mut self, token: Token, key: u64) -> Option<u64> {
        let mixed = (u64::from(token.shape()) + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        // Each token leaves the hash after eight more.
        self.hash = (self.hash << 8).wrapping_add(mixed ^ mixed >> 32);
        self.seen += 1;
        (self.hash >> (64 - PERIOD_BITS) == 0 && self.seen >= WINDOW).then(|| {
            let keyed = (self.hash ^ key).wrapping_mul(0xd6e8_feb8_6659_fd93);
            keyed ^ keyed >> 32
        })
    }
}

impl Search<'_> {
    /// Notes the fingerprints of tokens.
    fn note(&mut self, tokens: Range<usize>) {
        let mut rolling = Rolling::default();
        for at in tokens {
            if let Some(fingerprint) = rolling.push(self.opened.tokens[at], self.key) {
                let start = self.opened.bits[at + 1 - WINDOW];
                self.index.insert(fingerprint, self.offset * 8 + u64::from(start));
            }
        }
    }

    fn bit_behind(&self, token: usize, part: &Part) -> u64 {
        let end = if token + 1 < part.end { self.opened.bits[token + 1] } else { part.end_bit };
        u64::from(end)
    }

    /// Finds the runs of a range of the tokens of a part.
    fn part(
        &mut self,
        described: Described,
        literals: &LiteralMap<'_>,
        tokens: Range<usize>,
        part: &Part,
    ) {
        let mut anchors = std::mem::take(self.anchors);
        anchors.clear();
        let mut rolling = Rolling::default();
        for (at, &token) in tokens.clone().zip(&self.opened.tokens[tokens.clone()]) {
            if let Some(fingerprint) = rolling.push(token, self.key) {
                anchors.push(((at + 1 - WINDOW) as u32, fingerprint));
            }
        }
        let mut anchors_left = anchors.iter().peekable();
        let (mut done, mut is_open) = (tokens.start, false);
        loop {
            let has_room = self.steps.len() + 4 < MAX_OPERATIONS && self.codes + 2 < MAX_CODES;
            let resumed = if has_room { self.resume(done, tokens.end) } else { None };
            // Fingerprints are looked up before they are overwritten, where no run is.
            let begun = resumed.or_else(|| {
                while let Some(&&(start, fingerprint)) = anchors_left.peek() {
                    let start = start as usize;
                    let found = if start >= done && has_room {
                        self.jump(fingerprint, start, tokens.end, part)
                    } else {
                        None
                    };
                    if found.is_some() {
                        return found;
                    }
                    self.note_at(start, fingerprint);
                    anchors_left.next();
                }
                None
            });
            let Some((start, skip)) = begun else { break };
            if !is_open {
                let bit = literals.place(u64::from(self.opened.bits[tokens.start]));
                self.steps.push(Step::Part { at: bit, code: described });
                self.codes += 1;
                is_open = true;
            }
            match self.run(start, done, skip, tokens.end, part) {
                Some(end) => done = end,
                None if skip.is_some() => self.source = None,
                None => {
                    // Not again.
                    if let Some(&(start, fingerprint)) = anchors_left.next() {
                        self.note_at(start as usize, fingerprint);
                    }
                }
            }
        }
        *self.anchors = anchors;
    }

    fn note_at(&mut self, token: usize, fingerprint: u64) {
        let bit = self.offset * 8 + u64::from(self.opened.bits[token]);
        self.index.insert(fingerprint, bit);
    }

    /// Whether the last run goes on behind token `done`: at which token, and how many tokens of the
    /// source to skip.
    fn resume(&mut self, done: usize, end: usize) -> Option<(usize, Option<u8>)> {
        let source = self.source.as_ref()?;
        (done..=done + REACH).take_while(|at| at + AGREE <= end).find_map(|at| {
            let tokens = &self.opened.tokens[at..at + AGREE];
            let agrees = |ahead: &[(Token, u64)]| {
                let mut equal = false;
                tokens.iter().zip(ahead).all(|(a, (b, _))| {
                    equal |= a == b;
                    a.shape() == b.shape()
                }) && equal
            };
            let skip = source.ahead.windows(AGREE).position(agrees)?;
            (skip <= REACH).then_some((at, Some(skip as u8)))
        })
    }

    /// Whether a run begins at token `start` where the log has a fingerprint. Makes it the source.
    fn jump(
        &mut self,
        fingerprint: u64,
        start: usize,
        end: usize,
        part: &Part,
    ) -> Option<(usize, Option<u8>)> {
        let at = self.index.find(fingerprint, self.offset)?;
        let (nth, stretch) = self.index.around(at)?;
        let extent = self.log.extent(at / 8, self.floor)?;
        let limit = stretch.end.min(extent.end * 8).min(self.offset * 8);
        let code = self.index.code(self.log, &stretch, self.floor)?;
        let described = stretch.header.map_or(Described::Fixed, |(s, e)| Described::Log(s, e));
        // How much the first tokens save.
        let base = at / 8;
        let mut reader = BitReader::new(self.log.read(base..limit.div_ceil(8)), at % 8);
        let mut gain = 0i64;
        for token in start..end.min(start + JUDGED) {
            let Ok(there) = reader.token(&code) else { break };
            if base * 8 + reader.position() > limit {
                break;
            }
            let here = self.opened.tokens[token];
            if there == here {
                gain += (self.bit_behind(token, part) - u64::from(self.opened.bits[token])) as i64;
            } else if there.shape() == here.shape() {
                gain -= MOVED_COST;
            } else {
                break;
            }
            if gain > WORTH {
                break;
            }
        }
        if gain <= WORTH {
            return None;
        }
        let ahead = Vec::new();
        let source = Source { code, described, stretch, nth, limit, at, ahead, is_new: true };
        self.source = Some(source);
        Some((start, None))
    }

    /// Follows a run that begins at token `start`, where the source stands after `skip` tokens;
    /// without a `skip`, exactly there. Pushes its steps. Returns the token behind it; `None` if it
    /// is none.
    fn run(
        &mut self,
        start: usize,
        done: usize,
        skip: Option<u8>,
        end: usize,
        part: &Part,
    ) -> Option<usize> {
        let mut source = self.source.take()?;
        let mut start = start;
        match skip {
            Some(0) => {}
            Some(skip) => source.at = source.ahead[usize::from(skip) - 1].1,
            None => start = self.extend_back(&mut source, start, done),
        }
        let opened = self.opened;
        let bit_of = |token: usize| {
            u64::from(if token < part.end { opened.bits[token] } else { part.end_bit })
        };
        let (gap, gap_bits) = ((start - done) as u32, (bit_of(start) - bit_of(done)) as u32);
        let base = source.at / 8;
        let content = self.log.read(base..source.limit.div_ceil(8).max(base));
        let mut reader = BitReader::new(content, source.at % 8);
        // How far it is worth it: steps, tokens, and where the source stands.
        let begun = self.steps.len();
        let mut good = (begun, start, source.at);
        let mut kind = match (source.is_new, skip) {
            (true, _) => Step::jump(gap, gap_bits, source.described, source.at),
            (false, skip) => Step::near(gap, gap_bits, skip.unwrap_or(0)),
        };
        let mut moved = 0;
        // The first token of the step that is not finished, and whether the source ended.
        let (mut first, mut at, mut is_at_end) = (start, start, false);
        loop {
            // Tokens that are the same.
            let mut position = base * 8 + reader.position();
            let run = at;
            while at < end
                && let Some((bits, count)) = source.code.bits_of(opened.tokens[at])
                && reader.skip_if(bits, count)
            {
                let next = base * 8 + reader.position();
                if next > source.limit {
                    is_at_end = true;
                    break;
                }
                position = next;
                at += 1;
            }
            let run_bits = bit_of(at) - bit_of(first);
            self.steps.push(kind.finish((at - run) as u32, run_bits, position));
            if at > run {
                moved = 0;
                good = (self.steps.len(), at, position);
            }
            if at == end
                || is_at_end
                || moved == MOVED_IN_A_ROW
                || self.steps.len() >= MAX_OPERATIONS
            {
                break;
            }
            // One that differs in its distance only.
            let there = reader.token(&source.code);
            let Ok(there) = there.map_err(|_| is_at_end = true) else { break };
            if base * 8 + reader.position() > source.limit {
                is_at_end = true;
                break;
            }
            let here = opened.tokens[at];
            if there.shape() != here.shape() || there == here {
                break;
            }
            kind = Step::moved(here.distance() as i32 - there.distance() as i32);
            moved += 1;
            first = at;
            at += 1;
        }
        is_at_end &= good.1 == at;
        self.steps.truncate(good.0);
        if good.1 == start {
            // Nothing but changed distances.
            self.steps.truncate(begun);
            return None;
        }
        self.codes += usize::from(source.is_new);
        self.saved += bit_of(good.1) - bit_of(start);
        source.at = good.2;
        source.is_new = false;
        self.look_ahead(&mut source, is_at_end);
        self.source = Some(source);
        Some(good.1)
    }

    /// What lies before a run may be the same, too: then its bits under the code of the source are
    /// what stands before it. Returns the first token.
    fn extend_back(&self, source: &mut Source, start: usize, done: usize) -> usize {
        let mut start = start;
        let Some(extent) = self.log.extent(source.at / 8, self.floor) else { return start };
        let lowest = source.stretch.first.max(extent.start * 8);
        while start > done
            && let Some((bits, count)) = source.code.bits_of(self.opened.tokens[start - 1])
            && source.at >= lowest + u64::from(count)
        {
            let at = source.at - u64::from(count);
            let content = self.log.read(at / 8..source.at.div_ceil(8));
            if !BitReader::new(content, at % 8).skip_if(bits, count) {
                break;
            }
            source.at = at;
            start -= 1;
        }
        start
    }

    /// Reads the tokens that follow where a source stands; at the end of a stretch, those of the
    /// next one.
    fn look_ahead(&mut self, source: &mut Source, is_at_end: bool) {
        if is_at_end
            && let Some(stretch) = self.index.nth(source.nth + 1)
            && let Some(extent) = self.log.extent(stretch.first / 8, self.floor)
            && let Some(code) = self.index.code(self.log, &stretch, self.floor)
        {
            source.described =
                stretch.header.map_or(Described::Fixed, |(s, e)| Described::Log(s, e));
            source.limit = stretch.end.min(extent.end * 8).min(self.offset * 8);
            source.at = stretch.first;
            source.code = code;
            source.stretch = stretch;
            source.nth += 1;
            source.is_new = true;
        }
        source.ahead.clear();
        let base = source.at / 8;
        if source.limit <= source.at {
            return;
        }
        let content = self.log.read(base..source.limit.div_ceil(8));
        let mut reader = BitReader::new(content, source.at % 8);
        while source.ahead.len() < REACH + AGREE {
            let Ok(token) = reader.token(&source.code) else { break };
            let end = base * 8 + reader.position();
            if end > source.limit {
                break;
            }
            source.ahead.push((token, end));
        }
    }
}

/// The pieces of the log that steps refer to, below `offset`; none if there are too many.
fn sources(steps: &[Step], offset: u64, out: &mut Vec<Match>) {
    let mut ranges: Vec<Range<u64>> = Vec::new();
    let mut add = |start: u64, end: u64| ranges.push(start / 8..end.div_ceil(8));
    let mut from = 0;
    for step in steps {
        match *step {
            Step::Part { code: Described::Log(start, end), .. } => add(start, end),
            Step::Part { .. } => {}
            Step::Jump { code, at, source_end, .. } => {
                if let Described::Log(start, end) = code {
                    add(start, end);
                }
                add(at, source_end.max(at + 1));
                from = source_end;
            }
            Step::Near { source_end, .. } | Step::Moved { source_end, .. } => {
                add(from, source_end.max(from + 1));
                from = source_end;
            }
        }
    }
    ranges.sort_unstable_by_key(|range| range.start);
    for range in ranges {
        let end = range.end.min(offset);
        match out.last_mut() {
            Some(last) if range.start <= last.source + u64::from(last.len) + SOURCE_GAP => {
                last.len = last.len.max((end - last.source) as u32);
            }
            _ => out.push(Match { at: 0, len: (end - range.start) as u32, source: range.start }),
        }
    }
    if out.len() > MAX_SOURCES {
        out.clear();
    }
}

/// Writes the operations and the residual of a plan whose sources are known. Returns the length of
/// the residual.
fn describe(steps: &[Step], literals: &[u8], plan: &mut Plan) -> Option<usize> {
    let mut starts = Vec::with_capacity(plan.sources.len());
    let mut sum = 0;
    for source in &plan.sources {
        starts.push(sum);
        sum += u64::from(source.len) * 8;
    }
    let sources = &plan.sources;
    let place = |bit: u64| -> Option<u64> {
        let nth = sources.partition_point(|source| source.source * 8 <= bit).checked_sub(1)?;
        Some(starts[nth] + bit - sources[nth].source * 8)
    };
    let mut named: Vec<Described> = Vec::new();
    let mut code_at = 0;
    let mut name = |code: Described, here: u64| -> Option<CodeAt> {
        if code == Described::Fixed {
            return Some(CodeAt::Fixed);
        }
        if let Some(back) = named.iter().rev().position(|known| *known == code) {
            return Some(CodeAt::Known(back as u64));
        }
        named.push(code);
        Some(match code {
            Described::Log(start, _) => {
                let at = place(start)?;
                let distance = at as i64 - code_at as i64;
                code_at = at;
                CodeAt::Source(distance)
            }
            Described::Here(at) => CodeAt::Here(here.checked_sub(at)?),
            Described::Fixed => CodeAt::Fixed,
        })
    };
    let mut reader = BitReader::new(literals, 0);
    let mut writer = BitWriter::new(&mut plan.residual);
    let mut source: Option<Described> = None;
    // Where the source stands, to tell the distance of a jump.
    let mut source_at = 0u64;
    for step in steps {
        let (gap_bits, run_bits) = match *step {
            Step::Part { at, code } => {
                let here = reader.position();
                let bits = at.checked_sub(here)?;
                pad(&mut writer, here, bits)?;
                copy_bits(&mut reader, &mut writer, bits).then_some(())?;
                plan.operations.push(Operation::Part { code: name(code, at)?, bits });
                continue;
            }
            Step::Near { gap, gap_bits, skip, run, run_bits, source_end } => {
                let run = u64::from(run);
                plan.operations.push(Operation::Near { gap: gap.into(), skip, run });
                source_at = place(source_end.checked_sub(1)?)? + 1;
                (gap_bits, run_bits)
            }
            Step::Jump { gap, gap_bits, code, at, run, run_bits, source_end } => {
                let same = source == Some(code);
                let named = if same { None } else { Some(name(code, 0)?) };
                source = Some(code);
                plan.operations.push(Operation::Jump {
                    gap: gap.into(),
                    code: named,
                    distance: place(at)? as i64 - source_at as i64,
                    run: run.into(),
                });
                source_at = place(source_end.checked_sub(1)?)? + 1;
                (gap_bits, run_bits)
            }
            Step::Moved { change, run, run_bits, source_end } => {
                plan.operations.push(Operation::Moved { change, run: run.into() });
                source_at = place(source_end.checked_sub(1)?)? + 1;
                (0, run_bits)
            }
        };
        copy_bits(&mut reader, &mut writer, gap_bits.into()).then_some(())?;
        reader = BitReader::new(literals, reader.position() + run_bits);
    }
    let here = reader.position();
    let left = (literals.len() as u64 * 8).checked_sub(here)?;
    pad(&mut writer, here, left)?;
    copy_bits(&mut reader, &mut writer, left).then_some(())?;
    plan.operations.push(Operation::End);
    Some(writer.position().div_ceil(8) as usize)
}

/// Brings the residual to the phase of the literals, if as many bits follow as deserve it.
fn pad(writer: &mut BitWriter<'_>, position: u64, bits: u64) -> Option<()> {
    if bits >= ALIGNED_BITS {
        let count = (position + 8 - writer.position() % 8) % 8;
        writer.put(0, count as u32).then_some(())?;
    }
    Some(())
}

/// Which flow a block belongs to where there is but one.
pub(crate) const ONLY_FLOW: u64 = 0;
