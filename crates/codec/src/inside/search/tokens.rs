//! The search for runs of tokens that the log already has.

use crate::deflate::{BitReader, Code, Token};
use crate::inside::budget;
use crate::inside::follow::opened::{Opened, Part};
use crate::inside::search::bends::{SEEN, bend, follow, inflated};
use crate::inside::search::copies::{Copies, Cursor};
use crate::inside::search::index::{Stretch, TokenIndex};
use crate::inside::search::literals::LiteralMap;
use crate::inside::search::names::Names;
use crate::inside::search::plan::{Described, Step};
use crate::inside::search::rolling::{Rolling, WINDOW};
use crate::inside::wire::alignment::Alignment;
use crate::log::Log;
use std::ops::Range;
use std::sync::Arc;

/// Bits that the first tokens of a run must save, to pay for the description of their position.
const WORTH: i64 = 96;
/// Approximate cost of a changed distance in bits.
const MOVED_COST: i64 = 10;
/// Tokens examined to judge a run.
const JUDGED: usize = 64;
/// This many changed distances in a row end a run.
const MOVED_IN_A_ROW: usize = 6;
/// Most tokens that may be skipped, on either side, to resume after the end of a run.
const REACH: usize = 15;
/// Tokens that must agree to resume there.
const AGREE: usize = 4;
/// Most operations of a block.
pub(in crate::inside) const MAX_OPERATIONS: usize = 4 << 10;

/// A place at which a run can resume.
#[derive(Debug)]
pub(in crate::inside) struct Source<'a> {
    code: Arc<Code>,
    described: Described,
    stretch: Stretch,
    /// Bits that may be read: the part of the stretch that the log still holds.
    limit: u64,
    reader: BitReader<'a>,
    /// The bit of the log at which the reader starts counting.
    origin: u64,
    /// Tokens read so far.
    ahead: Ahead,
    /// The next of them to use.
    next: usize,
    /// The reader has reached the end of the stretch.
    is_read: bool,
    /// A jump is needed, because the last run was in another stretch.
    is_new: bool,
}

/// Tokens of a source. Kept between sources for its memory.
#[derive(Debug, Default)]
pub(in crate::inside) struct Ahead {
    tokens: Vec<Token>,
    /// Start of each token, and end of the last, relative to the source's origin.
    bits: Vec<u32>,
}

impl Ahead {
    /// Memory in bytes as of now.
    pub(in crate::inside) fn memory(&self) -> usize {
        self.tokens.capacity() * size_of::<Token>() + self.bits.capacity() * size_of::<u32>()
    }

    /// Upper bound of the memory in bytes.
    pub(in crate::inside) const MEMORY: usize =
        2 * (2 * AHEAD + KEPT + 1) * (size_of::<Token>() + size_of::<u32>());
}

/// Tokens of a source read in one step: at most, and at first.
const AHEAD: usize = 256;
const FIRST_AHEAD: usize = 24;
/// Tokens skipped in one step while there are bends in reach.
const SKIPPED: usize = 16;
/// Most tokens that a run may be extended backward.
const KEPT: usize = MOVED_IN_A_ROW + 1;

impl Source<'_> {
    pub(in crate::inside) fn into_ahead(self) -> Ahead {
        self.ahead
    }

    /// Current position, in bits of the log.
    fn at(&self) -> u64 {
        self.origin + u64::from(self.ahead.bits[self.next])
    }

    fn ahead(&self) -> &[Token] {
        &self.ahead.tokens[self.next..]
    }

    /// Goes over tokens that are what those of a block are expected to be. Returns how many these
    /// are.
    fn pass_equal(&mut self, alignment: &mut Alignment, here: &[Token]) -> usize {
        let mut at = 0;
        loop {
            let ahead = self.ahead();
            let same = follow(alignment, &here[at..], ahead);
            let is_ahead = same < ahead.len();
            at += same;
            self.next += same;
            if is_ahead || at == here.len() {
                return at;
            }
            at += self.skip(alignment, &here[at..]);
            if at == here.len() || !self.read(1) {
                return at;
            }
        }
    }

    /// Goes over tokens that are what those of a block are expected to be, once none is ahead,
    /// without reading them. Returns how many these are; the next one may be such a token, too.
    fn skip(&mut self, alignment: &mut Alignment, here: &[Token]) -> usize {
        if self.is_read || self.next < self.ahead.tokens.len() {
            return 0;
        }
        let mut same = 0;
        loop {
            let shortest = alignment.shortest();
            // That grows with each token.
            let most =
                if shortest == u32::MAX { here.len() } else { here.len().min(same + SKIPPED) };
            let some = &here[same..most];
            let count = self.reader.skip_tokens(&self.code, some, shortest);
            if shortest < u32::MAX {
                alignment.advance(inflated(&some[..count]));
            }
            same += count;
            if count < some.len() || some.is_empty() {
                break;
            }
        }
        if same > 0 {
            let Ahead { tokens, bits } = &mut self.ahead;
            tokens.clear();
            bits.clear();
            bits.push(self.reader.position() as u32);
            self.next = 0;
        }
        same
    }

    /// Reads more if fewer than `count` tokens are ahead. Returns whether there are any.
    fn read(&mut self, count: usize) -> bool {
        let left = self.ahead.tokens.len() - self.next;
        if left < count && !self.is_read {
            let Ahead { tokens, bits } = &mut self.ahead;
            let done = self.next.saturating_sub(KEPT);
            tokens.drain(..done);
            bits.drain(..done);
            self.next -= done;
            bits.pop();
            let most = (2 * tokens.len()).clamp(FIRST_AHEAD, AHEAD);
            let (end, stop) = self.reader.append_tokens(&self.code, most, 0, tokens, bits);
            bits.push(end);
            self.is_read = stop.is_some();
            let limit = self.limit - self.origin;
            while u64::from(bits[tokens.len()]) > limit {
                self.is_read = true;
                tokens.pop();
                bits.pop();
            }
        }
        self.next < self.ahead.tokens.len()
    }
}

pub(in crate::inside) struct Search<'a> {
    pub(in crate::inside) log: &'a Log,
    pub(in crate::inside) index: &'a mut TokenIndex,
    pub(in crate::inside) copies: &'a Copies,
    pub(in crate::inside) cursor: Cursor,
    pub(in crate::inside) key: u64,
    pub(in crate::inside) offset: u64,
    pub(in crate::inside) floor: u64,
    pub(in crate::inside) opened: &'a Opened,
    pub(in crate::inside) steps: &'a mut Vec<Step>,
    pub(in crate::inside) anchors: &'a mut Vec<(u32, u64)>,
    pub(in crate::inside) source: Option<Source<'a>>,
    pub(in crate::inside) spare: Ahead,
    /// Codes that the steps name.
    pub(in crate::inside) names: &'a mut Names,
    pub(in crate::inside) alignment: Alignment,
    /// Work that it took: see [`budget`].
    pub(in crate::inside) work: u64,
    /// Bits saved.
    pub(in crate::inside) saved: u64,
}

impl<'a> Search<'a> {
    /// Records the fingerprints of tokens.
    pub(in crate::inside) fn note(&mut self, tokens: Range<usize>) {
        let mut rolling = Rolling::default();
        for at in tokens {
            if let Some(fingerprint) = rolling.push(self.opened.tokens[at], self.key) {
                let start = self.opened.bits[at + 1 - WINDOW];
                self.index.note(fingerprint, self.offset * 8 + u64::from(start));
            }
        }
    }

    fn bit_behind(&self, token: usize, part: &Part) -> u64 {
        let end = if token + 1 < part.end { self.opened.bits[token + 1] } else { part.end_bit };
        u64::from(end)
    }

    /// Finds the runs of a range of the tokens of a part.
    pub(in crate::inside) fn part(
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
        let (begun, mark) = (self.steps.len(), self.names.mark());
        // Codes that may come with the next run: that of the part, and one of the log.
        let mut codes = 1 + usize::from(!self.names.has(described));
        loop {
            let steps = self.steps.len();
            let has_room =
                steps + 4 < MAX_OPERATIONS && self.names.may_add(codes, steps, tokens.end - done);
            let resumed = if has_room { self.resume(done, tokens.end) } else { None };
            // Fingerprints are looked up only outside runs.
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
                self.names.add(described, &part.code);
                (is_open, codes) = (true, 1);
            }
            match self.run(start, done, skip, tokens.end, part) {
                Some(end) => done = end,
                None if skip.is_some() => self.source = None,
                None => {
                    // Do not try it again.
                    if let Some(&(start, fingerprint)) = anchors_left.next() {
                        self.note_at(start as usize, fingerprint);
                    }
                }
            }
        }
        if is_open && self.steps.len() == begun + 1 {
            // There is no run in it.
            self.steps.truncate(begun);
            self.names.restore(mark);
        }
        *self.anchors = anchors;
    }

    fn note_at(&mut self, token: usize, fingerprint: u64) {
        let bit = self.offset * 8 + u64::from(self.opened.bits[token]);
        self.index.note(fingerprint, bit);
    }

    /// Whether the last run can resume after token `done`: at which token, and how many tokens of
    /// the source to skip.
    fn resume(&mut self, done: usize, end: usize) -> Option<(usize, Option<u8>)> {
        let source = self.source.as_mut()?;
        source.read(REACH + AGREE);
        let ahead = source.ahead();
        let ahead = &ahead[..ahead.len().min(REACH + AGREE)];
        let mut tried = 0;
        let found = (done..=done + REACH).take_while(|at| at + AGREE <= end).find_map(|at| {
            tried += 1;
            let tokens = &self.opened.tokens[at..at + AGREE];
            let agrees = |ahead: &[Token]| {
                let mut equal = false;
                tokens.iter().zip(ahead).all(|(a, b)| {
                    equal |= a == b;
                    a.shape() == b.shape()
                }) && equal
            };
            let skip = ahead.windows(AGREE).position(agrees)?;
            Some((at, Some(skip as u8)))
        });
        self.work += tried * budget::RESUME;
        found
    }

    /// Whether a run begins at token `start` and a position of its fingerprint in the log. If so,
    /// makes that the source.
    fn jump(
        &mut self,
        fingerprint: u64,
        start: usize,
        end: usize,
        part: &Part,
    ) -> Option<(usize, Option<u8>)> {
        let at = self.index.find(fingerprint, self.offset)?;
        let stretch = self.index.around(at)?;
        let mut source = self.source_at(stretch, at)?;
        // The bits that the first tokens save.
        let mut gain = 0i64;
        for (nth, token) in (start..end.min(start + JUDGED)).enumerate() {
            source.read(nth + 1);
            let Some(&there) = source.ahead().get(nth) else { break };
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
            self.spare = source.ahead;
            return None;
        }
        self.replace_source(source);
        Some((start, None))
    }

    /// A source at a bit of a stretch, or of its newest copy if the log has lost it.
    fn source_at(&mut self, stretch: Stretch, at: u64) -> Option<Source<'a>> {
        self.work += budget::JUMP;
        let newest = |this: &mut Self| {
            let copied = stretch.newest(at, this.copies, this.key, &mut this.cursor);
            let (stretch, up) = copied?;
            this.held_source(stretch, at + up)
        };
        if let Some(source) = self.held_source(stretch, at) {
            return Some(source);
        }
        // The copy of the last source may be an older one that the log has lost.
        newest(self).or_else(|| if self.cursor.forget() { newest(self) } else { None })
    }

    /// A source at a bit of a stretch, if the log still holds it.
    fn held_source(&mut self, stretch: Stretch, at: u64) -> Option<Source<'a>> {
        let extent = self.log.extent(at / 8, self.floor)?;
        let end = stretch.end.min(extent.end * 8).min(self.offset * 8);
        // Positions within a source have 32 bits.
        let limit = end.min(at + (1 << 30));
        let code = self.index.code(self.log, &stretch, self.floor)?;
        if limit <= at {
            return None;
        }
        let described = stretch.header.map_or(Described::Fixed, |(s, e)| Described::Log(s, e));
        let origin = at / 8 * 8;
        let content = self.log.read(at / 8..limit.div_ceil(8));
        let mut ahead = std::mem::take(&mut self.spare);
        ahead.tokens.clear();
        ahead.bits.clear();
        ahead.bits.push((at - origin) as u32);
        Some(Source {
            code,
            described,
            stretch,
            limit,
            reader: BitReader::new(content, at % 8),
            origin,
            ahead,
            next: 0,
            is_read: false,
            is_new: true,
        })
    }

    fn replace_source(&mut self, source: Source<'a>) {
        if let Some(old) = self.source.replace(source) {
            self.spare = old.ahead;
        }
    }

    /// Follows a run that begins at token `start`, at the source after `skip` tokens; without a
    /// `skip`, exactly at its position. Pushes its steps. Returns the token after it; `None` if it
    /// is not worthwhile.
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
        let opened = self.opened;
        let mut alignment = self.alignment.clone();
        match skip {
            Some(skip) => {
                let skipped = &source.ahead()[..usize::from(skip)];
                if !source.is_new {
                    alignment.advance(inflated(skipped));
                }
                source.next += usize::from(skip);
            }
            None => start = self.extend_back(&mut source, start, done),
        }
        let bit_of = |token: usize| {
            u64::from(if token < part.end { opened.bits[token] } else { part.end_bit })
        };
        let (gap, gap_bits) = ((start - done) as u32, (bit_of(start) - bit_of(done)) as u32);
        // The steps and tokens up to which it pays.
        let begun = self.steps.len();
        let mut good = (begun, start);
        let mut good_alignment = alignment.clone();
        let mut kind = match (source.is_new, skip) {
            (true, _) => Step::jump(gap, gap_bits, source.described, source.at()),
            (false, skip) => Step::near(gap, gap_bits, skip.unwrap_or(0)),
        };
        let mut moved = 0;
        // First token of the unfinished step.
        let (mut first, mut at) = (start, start);
        let mut is_at_end = loop {
            let run = at;
            at += source.pass_equal(&mut alignment, &opened.tokens[at..end]);
            let run_bits = bit_of(at) - bit_of(first);
            self.steps.push(kind.finish((at - run) as u32, run_bits, source.at()));
            if at > run {
                moved = 0;
                good = (self.steps.len(), at);
                good_alignment.clone_from(&alignment);
            }
            let is_at_end = !source.read(1);
            if at == end
                || is_at_end
                || moved == MOVED_IN_A_ROW
                || self.steps.len() >= MAX_OPERATIONS
            {
                break is_at_end;
            }
            // A token that differs in its distance only.
            let (here, there) = (opened.tokens[at], source.ahead()[0]);
            if there.shape() != here.shape() {
                break false;
            }
            first = at;
            source.read(SEEN);
            self.work += budget::BEND;
            let seen = &opened.tokens[at..end.min(at + SEEN)];
            if let Some((back, change)) = bend(&alignment, seen, source.ahead()) {
                alignment.bend(back, change);
                kind = Step::bend(back, change);
                continue;
            }
            kind =
                Step::moved(here.distance() as i32 - alignment.expected(there).distance() as i32);
            alignment.advance(u64::from(there.len()));
            moved += 1;
            at += 1;
            source.next += 1;
        };
        let back = at - good.1;
        is_at_end &= back == 0;
        self.steps.truncate(good.0);
        if good.1 == start {
            // Only changed distances.
            self.steps.truncate(begun);
            self.spare = source.ahead;
            return None;
        }
        source.next -= back;
        self.alignment = good_alignment;
        if source.is_new {
            self.names.add(source.described, &source.code);
        }
        self.names.run(good.1 - done, self.alignment.has_bends());
        self.saved += bit_of(good.1) - bit_of(start);
        self.work += (good.1 - start) as u64;
        source.is_new = false;
        let source = if is_at_end { self.next_stretch(source) } else { source };
        self.source = Some(source);
        Some(good.1)
    }

    /// Extends a run backward: if the preceding tokens are equal, their bits under the code of the
    /// source are equal to those before it. Returns the first token.
    fn extend_back(&self, source: &mut Source<'a>, start: usize, done: usize) -> usize {
        let mut start = start;
        let mut begin = source.at();
        let Some(extent) = self.log.extent(begin / 8, self.floor) else { return start };
        let lowest = source.stretch.first.max(extent.start * 8);
        while start > done
            && let Some((bits, count)) = source.code.bits_of(self.opened.tokens[start - 1])
            && begin >= lowest + u64::from(count)
        {
            let at = begin - u64::from(count);
            let content = self.log.read(at / 8..begin.div_ceil(8));
            if !BitReader::new(content, at % 8).skip_if(bits, count) {
                break;
            }
            begin = at;
            start -= 1;
        }
        if begin < source.at() {
            // They are read again, to be stored together.
            source.origin = begin / 8 * 8;
            let content = self.log.read(begin / 8..source.limit.div_ceil(8));
            source.reader = BitReader::new(content, begin % 8);
            source.ahead.tokens.clear();
            source.ahead.bits.clear();
            source.ahead.bits.push((begin - source.origin) as u32);
            (source.next, source.is_read) = (0, false);
        }
        start
    }

    /// The stretch after one that ended, if any.
    fn next_stretch(&mut self, source: Source<'a>) -> Source<'a> {
        let next = self.index.behind(&source.stretch);
        let next = next.and_then(|next| self.source_at(next, next.first));
        match next {
            Some(next) => {
                self.spare = source.ahead;
                next
            }
            None => source,
        }
    }
}
