//! An index of the tokens in the log: fingerprints of runs of tokens, and the codes they are
//! written with.

use crate::deflate::{BitReader, Code};
use crate::error::ConfigError;
use crate::inside::domains::Domains;
use crate::inside::follow::opened::fixed;
use crate::inside::follow::opened::{Among, Spot};
use crate::inside::search::copies::{Copies, Cursor};
use crate::log::Log;
use oncewire_kernels::Pages;
use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

/// Bits of an entry that hold a position: enough for two generations of a log of up to 2^40 bytes.
/// Older positions alias newer ones; comparing the tokens detects that.
const POSITION_BITS: u32 = 44;
const POSITION: u64 = (1 << POSITION_BITS) - 1;
/// Bytes of log for each byte of fingerprints.
const BYTES_PER_TABLE_BYTE: u64 = 16;
const MIN_ENTRIES: u64 = 1 << 10;
/// Bytes of log for each stretch that is kept, and the least number of stretches.
const BYTES_PER_STRETCH: u64 = 4 << 10;
const MIN_STRETCHES: u64 = 1 << 10;
/// Most fingerprints of a block that are held until the block is done.
const MOST_NOTED: usize = 32 << 10;
/// Upper limit of the bits of a token, exclusive.
const LONGEST_TOKEN: u64 = 49;
/// Most codes of the log that are kept in memory.
const READY: usize = 48;

/// Most domains whose last stretch is kept.
const MAX_DOMAINS: usize = 1024;

/// Consecutive tokens of one code in the log.
#[derive(Clone, Copy, Debug)]
pub(in crate::inside) struct Stretch {
    /// In bits of the log.
    pub(in crate::inside) first: u64,
    pub(in crate::inside) end: u64,
    /// The description of the code; `None` for the fixed one.
    pub(in crate::inside) header: Option<(u64, u64)>,
    /// Ordinal of the next stretch of the same domain; 0 if unknown.
    pub(in crate::inside) next: u64,
}

impl Stretch {
    /// The newest copy of this stretch, if it has the description of the code and everything from
    /// there to bit `at`; and its distance above this one in bits.
    pub(in crate::inside) fn newest(
        self,
        at: u64,
        copies: &Copies,
        key: u64,
        cursor: &mut Cursor,
    ) -> Option<(Stretch, u64)> {
        let first = self.header.map_or(at, |(start, _)| start.min(at));
        let (up, end) = copies.newest(&(first / 8..at / 8 + 1), key, cursor)?;
        let up = up * 8;
        let header = self.header.map(|(start, end)| (start + up, end + up));
        // Bytes before `at` may belong to other content.
        let (first, end) = (at.min(self.end), self.end.min(end * 8));
        Some((Stretch { first: first + up, end: end + up, header, ..self }, up))
    }
}

/// The index. Allocated when the first stream is opened.
#[derive(Debug)]
pub(in crate::inside) struct TokenIndex {
    /// The position, and in the upper bits a part of the fingerprint. 0 is empty.
    table: Pages<u64>,
    mask: u64,
    /// Fingerprints of the current block, and their positions. In the table they would hide those
    /// of earlier blocks, and only those can be referred to: the next page of a template would be
    /// found in its own block, where it is useless.
    noted: Vec<(u64, u64)>,
    /// Ascending and disjoint.
    stretches: VecDeque<Stretch>,
    max_stretches: usize,
    /// Ordinal of the first of `stretches`; the first of all is 1.
    first: u64,
    /// Ordinal of the last stretch of each domain; 0 if there is none.
    last: Domains<u64, MAX_DOMAINS>,
    /// Codes that were read from the log again.
    pub(in crate::inside) built: u64,
    /// The last codes used, by the first bit of their description; the newest is last.
    ready: Vec<(u64, Arc<Code>)>,
}

fn entries(capacity: u64) -> u64 {
    let entries = (capacity / BYTES_PER_TABLE_BYTE / 8).max(MIN_ENTRIES);
    // The largest power of two that is not larger.
    1 << (63 - entries.leading_zeros())
}

fn most_stretches(capacity: u64) -> usize {
    usize::try_from((capacity / BYTES_PER_STRETCH).max(MIN_STRETCHES)).unwrap_or(usize::MAX)
}

impl TokenIndex {
    pub(in crate::inside) fn new(capacity: u64) -> Result<TokenIndex, ConfigError> {
        let entries = entries(capacity) as usize;
        let table = Pages::zeroed(entries).map_err(|source| ConfigError::Memory {
            bytes: entries * 8,
            what: "index of deflate tokens",
            source,
        })?;
        Ok(TokenIndex {
            table,
            mask: entries as u64 - 1,
            noted: Vec::new(),
            stretches: VecDeque::new(),
            first: 1,
            last: Domains::default(),
            built: 0,
            max_stretches: most_stretches(capacity),
            ready: Vec::with_capacity(READY),
        })
    }

    /// Upper bound of the memory in bytes for a log of `capacity` bytes.
    pub(in crate::inside) fn most_memory(capacity: u64) -> usize {
        usize::try_from(entries(capacity) * 8)
            .unwrap_or(usize::MAX)
            .saturating_add(most_stretches(capacity).saturating_mul(2 * size_of::<Stretch>()))
            .saturating_add(Domains::<u64, MAX_DOMAINS>::MEMORY)
            .saturating_add(READY * (size_of::<(u64, Arc<Code>)>() + Code::MEMORY))
            .saturating_add(MOST_NOTED * size_of::<(u64, u64)>())
    }

    /// Memory in bytes as of now.
    pub(in crate::inside) fn memory(&self) -> usize {
        self.table.len() * 8
            + self.noted.capacity() * size_of::<(u64, u64)>()
            + self.stretches.capacity() * size_of::<Stretch>()
            + self.last.memory()
            + READY * size_of::<(u64, Arc<Code>)>()
            + self.ready.len() * Code::MEMORY
    }

    /// The newest position with this fingerprint, in bits of the log, for a block at `offset`.
    pub(in crate::inside) fn find(&self, fingerprint: u64, offset: u64) -> Option<u64> {
        let entry = self.table[(fingerprint & self.mask) as usize];
        if entry == 0 || (entry ^ fingerprint) >> POSITION_BITS != 0 {
            return None;
        }
        // The newest position below the block whose low bits match.
        let limit = offset * 8;
        let position = (limit & !POSITION) | (entry & POSITION);
        if position < limit { Some(position) } else { position.checked_sub(POSITION + 1) }
    }

    /// Records a fingerprint of the current block. [`TokenIndex::settle`] adds it to the table.
    pub(in crate::inside) fn note(&mut self, fingerprint: u64, position: u64) {
        if self.noted.len() < MOST_NOTED {
            self.noted.push((fingerprint, position));
        } else {
            self.insert(fingerprint, position);
        }
    }

    /// Ends the block: its fingerprints can be found from now on.
    pub(in crate::inside) fn settle(&mut self) {
        let mut noted = std::mem::take(&mut self.noted);
        for (fingerprint, position) in noted.drain(..) {
            self.insert(fingerprint, position);
        }
        self.noted = noted;
    }

    fn insert(&mut self, fingerprint: u64, position: u64) {
        let entry = (fingerprint & !POSITION) | (position & POSITION);
        self.table[(fingerprint & self.mask) as usize] = entry;
    }

    /// Adds a stretch of a domain, above all others. `is_own` tells whether a range of the log has
    /// nothing of other domains.
    pub(in crate::inside) fn add(
        &mut self,
        stretch: Stretch,
        key: u64,
        is_own: impl Fn(&Range<u64>) -> bool,
    ) {
        debug_assert!(self.stretches.back().is_none_or(|last| last.end <= stretch.first));
        // A token that lies in two blocks belongs to neither stretch, but can still be read.
        if let Some(last) = self.stretches.back_mut()
            && last.header == stretch.header
            && stretch.first < last.end + LONGEST_TOKEN
            && is_own(&(last.first / 8..stretch.first / 8))
        {
            last.end = stretch.end;
            return;
        }
        if self.stretches.len() == self.max_stretches {
            self.stretches.pop_front();
            self.first += 1;
        }
        self.stretches.push_back(stretch);
        let ordinal = self.first + self.stretches.len() as u64 - 1;
        let before = std::mem::replace(self.last.of(key), ordinal);
        if let Some(nth) = before.checked_sub(self.first)
            && let Some(before) = self.stretches.get_mut(nth as usize)
        {
            before.next = ordinal;
        }
    }

    /// Forgets content at `offset` and above.
    pub(in crate::inside) fn rewind(&mut self, offset: u64) {
        let limit = offset * 8;
        while self.stretches.back().is_some_and(|last| last.end > limit) {
            self.stretches.pop_back();
        }
        let end = self.first + self.stretches.len() as u64;
        let known = self.stretches.iter_mut().map(|stretch| &mut stretch.next);
        known.chain(self.last.all()).filter(|next| **next >= end).for_each(|next| *next = 0);
        self.ready.retain(|(at, _)| *at < limit);
    }

    /// The stretch around a bit of the log.
    pub(in crate::inside) fn around(&self, bit: u64) -> Option<Stretch> {
        let nth = self.stretches.partition_point(|stretch| stretch.first <= bit).checked_sub(1)?;
        Some(self.stretches[nth]).filter(|stretch| bit < stretch.end)
    }

    /// The next stretch of the same domain, whatever stretches of others lie between.
    pub(in crate::inside) fn behind(&self, stretch: &Stretch) -> Option<Stretch> {
        let nth = stretch.next.checked_sub(self.first)?;
        self.stretches.get(usize::try_from(nth).ok()?).copied()
    }

    /// Bytes of a range of the log that are known to be tokens.
    pub(in crate::inside) fn tokens_in(&self, range: Range<u64>) -> u64 {
        let (first, end) = (range.start * 8, range.end * 8);
        let nth = self.stretches.partition_point(|stretch| stretch.end <= first);
        let within = self.stretches.range(nth..).take_while(|stretch| stretch.first < end);
        within.map(|stretch| stretch.end.min(end) - stretch.first.max(first)).sum::<u64>() / 8
    }

    /// Keeps a code in memory that was read from a header at bit `at` of the log.
    pub(in crate::inside) fn keep(&mut self, at: u64, code: &Arc<Code>) {
        if self.ready.len() == READY {
            self.ready.remove(0);
        }
        self.ready.push((at, Arc::clone(code)));
    }

    /// The last place before the byte at `source` that is known to be among tokens, if the log, or
    /// else the newest copy, still has everything from there on; and the byte that corresponds to
    /// `source` there.
    pub(in crate::inside) fn tokens_before(
        &mut self,
        log: &Log,
        source: u64,
        floor: u64,
        copies: &Copies,
        key: u64,
    ) -> Option<(Among, u64)> {
        let limit = source * 8;
        let after = self.stretches.partition_point(|stretch| stretch.first < limit);
        let stretch = self.stretches[after.checked_sub(1)?];
        if let Some(among) = self.held_before(log, stretch, source, floor) {
            return Some((among, source));
        }
        let last = limit.checked_sub(1)?;
        let first = Stretch { end: stretch.end.max(limit), ..stretch };
        // Everything from the first token on must lie in the copy.
        let (_, up) = first.newest(first.first, copies, key, &mut Cursor::default())?;
        let (_, same) = first.newest(last, copies, key, &mut Cursor::default())?;
        let header = stretch.header.map(|(start, end)| (start + up, end + up));
        let copied =
            Stretch { first: stretch.first + up, end: stretch.end + up, header, ..stretch };
        let source = source + up / 8;
        let among = self.held_before(log, copied, source, floor).filter(|_| up == same)?;
        Some((among, source))
    }

    /// The first bit of a stretch, if the log has it and everything up to `source`.
    fn held_before(
        &mut self,
        log: &Log,
        stretch: Stretch,
        source: u64,
        floor: u64,
    ) -> Option<Among> {
        let extent = log.extent(source.checked_sub(1)?, floor)?;
        if stretch.first < extent.start * 8 {
            return None;
        }
        let code = self.code(log, &stretch, floor)?;
        // The first of the three bits before a description. The start of a block with the fixed
        // code is unknown; a wrong guess costs one attempt to read a block.
        let is_last = stretch.header.is_some_and(|(start, _)| {
            let bit = start.saturating_sub(3);
            log.extent(bit / 8, floor).is_some()
                && log.read(bit / 8..bit / 8 + 1)[0] >> (bit % 8) & 1 == 1
        });
        let spot = stretch.header.map_or(Spot::Fixed, |(start, end)| Spot::Log(start, end));
        Some(Among { code, spot, is_last, bit: stretch.first })
    }

    /// The code of a stretch. The log must still hold its description, for a block that may refer
    /// to `floor` and above.
    pub(in crate::inside) fn code(
        &mut self,
        log: &Log,
        stretch: &Stretch,
        floor: u64,
    ) -> Option<Arc<Code>> {
        let Some((start, end)) = stretch.header else { return Some(Arc::clone(fixed())) };
        let extent = log.extent(start / 8, floor)?;
        if end > extent.end * 8 {
            return None;
        }
        if let Some(nth) = self.ready.iter().rposition(|(at, _)| *at == start) {
            // Move it to the end, where the newest are.
            self.ready[nth..].rotate_left(1);
            return self.ready.last().map(|(_, code)| Arc::clone(code));
        }
        let content = log.read(start / 8..end.div_ceil(8));
        let mut reader = BitReader::new(content, start % 8);
        self.built += 1;
        let code = Arc::new(Code::read(&mut reader).ok()?);
        self.keep(start, &code);
        Some(code)
    }
}

impl Spot {
    /// The description of a stretch's code; `None` if nothing can refer to it.
    pub(in crate::inside) fn header(self) -> Option<Option<(u64, u64)>> {
        match self {
            Spot::Fixed => Some(None),
            Spot::Log(start, end) => Some(Some((start, end))),
            Spot::Scattered => None,
        }
    }
}
