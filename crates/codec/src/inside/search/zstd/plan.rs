//! Plans for the zstd blocks that ended in a block.

use super::index::{Index, Names, Noted, Rolling, UNKNOWN, describe, fingerprints};
use super::runs::{self, AGREE, Search, length, note_shift};
use super::{Parts, Target, Zstd};
use crate::inside::Place;
use crate::inside::budget::unpacking;
use crate::inside::search::copies::Cursor;
use crate::inside::search::plan::Plan;
use crate::inside::search::worth::{LEAST_LEFT, matched_bytes};
use crate::inside::wire::pieces::MAX_JOINED;
use crate::inside::wire::section::MAX_SOURCES;
use crate::inside::wire::sequences::{
    MAX_BLOCKS, MAX_LITERALS, MAX_SEQUENCES, Shifts, Sources, change, shift_at,
};
use crate::inside::wire::work::{LITERAL, SEQUENCE, STEP, Work};
use crate::log::Log;
use crate::matcher::Match;
use crate::zstd_block::{self, Tables};
use std::ops::Range;

/// Fewest sequences of a run that show where content moved.
const SHIFTING: usize = 32;
/// Bytes, and share of its size, that a block must save; the savings are an estimate.
const MIN_SAVED: usize = 64;
const LEAST_PART: usize = 16;
/// Sources whose content is farther from that of a block are not named.
const FARTHEST: i64 = 1 << 43;
/// Most blocks of the log that a frame may name, not counting those that give tables only.
const MAX_CHOSEN: usize = 32;

/// The plan does not reproduce the literals.
pub(super) struct Refused;

impl Zstd {
    /// Chooses the blocks of the log that have most of the targets' sequences, in order.
    pub(super) fn vote(&self, place: &Place<'_>, index: &Index, is_wanted: &[bool]) -> Vec<Noted> {
        let mut votes: Vec<u64> = Vec::new();
        for (target, _) in self.targets.iter().zip(is_wanted).filter(|(_, is_wanted)| **is_wanted) {
            let sequences = &self.sequences[target.sequences.clone()];
            let known = fingerprints(sequences, place.key).filter_map(|of| index.find(of));
            votes.extend(known);
        }
        votes.sort_unstable();
        let mut counts: Vec<(usize, u64)> =
            votes.chunk_by(|one, other| one == other).map(|of| (of.len(), of[0])).collect();
        counts.sort_unstable_by(|one, other| other.cmp(one));
        let (mut literals, mut sequences) = (MAX_LITERALS, MAX_SEQUENCES);
        // Those that give tables only take some, too.
        let (mut pieces, mut joined) = (MAX_SOURCES / 2, MAX_JOINED * 3 / 4);
        let base = self.targets[0].noted.place;
        let mut chosen = Vec::new();
        for &(_, ordinal) in &counts {
            let Some(block) = index.get(ordinal) else { continue };
            let lefts = (
                literals.checked_sub(block.literals as usize),
                sequences.checked_sub(block.sequences as usize),
            );
            let (Some(left_literals), Some(left_sequences)) = lefts else { continue };
            let lefts = match block.pieces {
                1 => (pieces.checked_sub(1), Some(joined)),
                more => (pieces.checked_sub(more as usize), joined.checked_sub(block.len as usize)),
            };
            let (Some(left_pieces), Some(left_joined)) = lefts else { continue };
            if chosen.len() == MAX_CHOSEN {
                break;
            }
            // A step between places is limited.
            if (block.place - base).abs() > FARTHEST {
                continue;
            }
            (literals, sequences) = (left_literals, left_sequences);
            (pieces, joined) = (left_pieces, left_joined);
            chosen.push(*block);
        }
        chosen.sort_unstable_by_key(|block| block.end);
        chosen
    }

    /// Makes a plan, and checks that it reproduces the literals. Returns the bytes that it saves, 0
    /// if there is none.
    pub(super) fn plan(
        &mut self,
        place: &Place<'_>,
        index: &Index,
        block: &[u8],
        shifts: &mut Shifts,
        mut parts: Parts<'_>,
    ) -> Result<usize, Refused> {
        let before = parts.matches.clone();
        // One buffer is enough for the sources.
        std::mem::swap(&mut self.sources, parts.expander.sources());
        let saved = self.propose(place, index, block, shifts, &mut parts);
        std::mem::swap(&mut self.sources, parts.expander.sources());
        let Parts { matches, plan, expander, .. } = parts;
        if plan.is_empty() {
            *matches = before;
            return Ok(0);
        }
        let contents: Vec<&[u8]> = plan
            .sources
            .iter()
            .map(|source| place.log.read(source.source..source.source + u64::from(source.len)))
            .collect();
        let literals = block.len() - matched_bytes(matches);
        let Plan { residual, plain, .. } = &*plan;
        // The tables of sources are built as in a decoder; their sequences are already read.
        expander.has_read_sources();
        let (mut work, check) = (Work::of(block.len()), &mut self.check);
        let back =
            expander.expand_sequences(residual, plain, &contents, literals, &mut work, check);
        if work.is_exceeded() {
            // A frame that costs a decoder too much work is not sent; that is not a defect.
            *matches = before;
            plan.clear();
            return Ok(0);
        }
        if back.is_err() || !is_literals(&self.check, block, matches) {
            *matches = before;
            plan.clear();
            return Err(Refused);
        }
        Ok(saved)
    }

    /// Makes a plan, if one saves anything. Returns the approximate savings in bytes.
    fn propose(
        &mut self,
        place: &Place<'_>,
        index: &Index,
        block: &[u8],
        known: &mut Shifts,
        parts: &mut Parts<'_>,
    ) -> usize {
        let Parts { matches, plan, copies, .. } = parts;
        let &Place { log, offset, key, .. } = place;
        let floor = log.floor(offset, block.len());
        let is_allowed = |range: &Range<u64>| {
            range.end <= offset
                && log.extent(range.start, floor).is_some_and(|extent| range.end <= extent.end)
        };
        let mut cursor = Cursor::default();
        let mut held = |range: &Range<u64>| copies.held(range, key, &mut cursor, is_allowed);
        let lies = self.lies.clone();
        let unmatched = |target: &Target| -> usize {
            let within = |lies: &Range<usize>| lies.len() - matched_within(matches, lies);
            lies[target.lies.clone()].iter().map(within).sum()
        };
        let len_of =
            |target: &Target| -> usize { lies[target.lies.clone()].iter().map(Range::len).sum() };
        let is_wanted: Vec<bool> = self
            .targets
            .iter()
            .map(|target| {
                let new = unmatched(target);
                new > MIN_SAVED && new * 8 > len_of(target) && target.sequences.len() > AGREE
            })
            .collect();
        let mut names = Names::default();
        let base = self.targets[0].noted.place;
        for source in self.vote(place, index, &is_wanted) {
            if index.pieces(&source).all(|piece| held(&piece).is_some())
                && names.tables(index, &source.uses, &source.origins, &mut held)
                && let Some(pieces) = names.held(index, &source, &mut held)
            {
                names.block(&source, pieces, source.place - base);
            }
        }
        if names.all.is_empty() || !self.unpack_sources(log, &names) {
            return 0;
        }
        self.search(&is_wanted, known);
        let of_frame = |shifts: &Shifts| -> Shifts {
            let of_frame = shifts.iter().map(|&(from, shift)| (from - base, shift));
            of_frame.filter(|(from, _)| from.abs() < FARTHEST).collect()
        };
        let gains_with = |shifts: &Shifts, stated: &mut Vec<(i64, i64)>| -> Vec<usize> {
            (self.targets.iter().zip(&is_wanted))
                .map(|(target, is_wanted)| {
                    let cost = self.cost(target, shifts, stated).filter(|_| *is_wanted);
                    let gain = cost.map_or(0, |cost| unmatched(target).saturating_sub(cost));
                    if gain > len_of(target) / LEAST_PART { gain } else { 0 }
                })
                .collect()
        };
        let (mut shifts, mut stated) = (of_frame(known), Vec::new());
        let mut gains = gains_with(&shifts, &mut stated);
        let learned = self.learn(&shifts, stated);
        if !learned.is_empty() {
            for (places, shift) in learned {
                note_shift(known, places.start + base, places.end + base, shift);
            }
            shifts = of_frame(known);
            gains = gains_with(&shifts, &mut Vec::new());
        }
        let work = Work::of(block.len()).left();
        let chosen = self.choose(&gains, work, index, &mut names, held);
        if chosen.is_empty() || !names.fit() {
            return 0;
        }
        for &(nth, _) in &chosen {
            let of = self.targets[nth].lies.clone();
            self.lies[of].iter().for_each(|lies| drop_within(matches, lies));
        }
        self.keep_needed(&chosen, &mut shifts);
        self.describe(block, matches, base, &names, &shifts, &chosen);
        let literals: usize = block.len() - matched_bytes(matches);
        plan.clear();
        for piece in &names.pieces {
            let len = (piece.end - piece.start) as u32;
            plan.sources.push(Match { at: 0, len, source: piece.start });
        }
        self.columns.join(&mut plan.residual);
        std::mem::swap(&mut plan.plain, &mut self.columns.plain);
        if plan.residual.len() > 2 * literals {
            plan.clear();
            return 0;
        }
        plan.is_sequences = true;
        chosen.iter().map(|&(nth, _)| gains[nth]).sum()
    }

    /// Chooses the targets to write, and for each the source whose tables it begins with, counted
    /// from 1; 0 for the tables of the target before.
    fn choose(
        &self,
        gains: &[usize],
        mut work: u64,
        index: &Index,
        names: &mut Names,
        mut held: impl FnMut(&Range<u64>) -> Option<u64>,
    ) -> Vec<(usize, usize)> {
        let mut chosen: Vec<(usize, usize)> = Vec::new();
        let mut chain = [UNKNOWN; 4];
        for (nth, (target, &gain)) in self.targets.iter().zip(gains).enumerate() {
            if gain < MIN_SAVED || chosen.len() == MAX_BLOCKS {
                continue;
            }
            // What it is assembled from is about as long.
            let sequences = target.sequences.len() as u64 * SEQUENCE;
            let pieces = target.lies.len() as u64 * STEP;
            let units = 2 * (target.literals.len() as u64 * LITERAL + sequences + pieces);
            let Some(left) = work.checked_sub(units) else { continue };
            let Noted { uses, origins, end, .. } = &target.noted;
            let mut inherited = (0..4).filter(|&table| uses.inherits[table]);
            let begin = if inherited.all(|table| chain[table] == origins[table]) {
                0
            } else {
                names.origins = None;
                if !names.tables(index, uses, origins, &mut held) {
                    continue;
                }
                chain = names.origins.unwrap_or(chain);
                names.all.len()
            };
            describe(&mut chain, uses, *end);
            work = left;
            chosen.push((nth, begin));
        }
        chosen
    }

    /// Drops the shifts that no target needs.
    fn keep_needed(&self, chosen: &[(usize, usize)], shifts: &mut Vec<(i64, i64)>) {
        let mut needed = vec![false; shifts.len()];
        for &(nth, _) in chosen {
            self.offsets(&self.targets[nth], shifts, |offset| {
                if let Some(nth) = shift_at(shifts, offset.from) {
                    needed[nth] = true;
                }
            });
        }
        let mut needed = needed.into_iter();
        shifts.retain(|_| needed.next().unwrap_or(false));
    }

    /// Whether all sources are readable.
    pub(super) fn unpack_sources(&mut self, log: &Log, names: &Names) -> bool {
        self.sources.clear();
        let mut tables = Tables::default();
        let named = names.all.len();
        self.sources_work = unpacking(named, 0, 0);
        for name in &names.all {
            if name.is_fresh {
                tables = Tables::default();
            }
            let content = match &names.pieces[name.pieces.clone()] {
                [piece] => log.read(piece.clone()),
                pieces => {
                    self.content.clear();
                    let pieces = pieces.iter().map(|piece| log.read(piece.clone()));
                    pieces.for_each(|piece| self.content.extend_from_slice(piece));
                    &self.content
                }
            };
            let is_read = match name.place {
                Some(place) => self.sources.add(content, &mut tables, place).is_ok(),
                None => zstd_block::pass(content, &mut tables).is_ok(),
            };
            if !is_read {
                return false;
            }
        }
        let Sources { literals, sequences, .. } = &self.sources;
        self.sources_work = unpacking(named, literals.len(), sequences.len());
        true
    }

    /// Finds runs, and records where content moved.
    pub(super) fn search(&mut self, is_wanted: &[bool], shifts: &mut Shifts) {
        let count = self.sources.sequences.len();
        self.hashes.clear();
        self.hashes.resize((2 * count).next_power_of_two().max(16), 0);
        let mask = self.hashes.len() - 1;
        let mut rolling = Rolling::<{ AGREE as u32 }>::default();
        for (end, sequence) in self.sources.sequences.iter().enumerate() {
            rolling.push(sequence);
            if let Some(first) = (end + 1).checked_sub(AGREE) {
                self.hashes[rolling.get(0) as usize & mask] = first as u32 + 1;
            }
        }
        self.runs.clear();
        let search = Search { sources: &self.sources, heads: &self.hashes };
        let base = self.targets[0].noted.place;
        for (target, is_wanted) in self.targets.iter_mut().zip(is_wanted) {
            let first = self.runs.len();
            if *is_wanted {
                let of = target.sequences.clone();
                let parts = runs::Parts {
                    sequences: &self.sequences[of.clone()],
                    starts: &self.starts[of],
                    literals: &self.literals,
                };
                search.runs(parts, &mut self.runs);
            }
            target.runs = first..self.runs.len();
            // Distance of the content before each sequence from its place.
            let mut here = target.noted.place;
            let mut done = 0;
            let sequences = &self.sequences[target.sequences.clone()];
            for run in &self.runs[first..] {
                here += length(&sequences[done..run.first]);
                let len = length(&sequences[run.first..run.first + run.len]);
                let literals = i64::from(sequences[run.first].literals);
                let place = self.sources.places[run.source].1 - literals + base;
                if run.len >= SHIFTING {
                    note_shift(shifts, place, place + len, here - place);
                }
                here += len;
                done = run.first + run.len;
            }
        }
    }

    /// Approximate bytes that a target takes; `None` if it has no runs. Appends the offsets that are
    /// stated: see [`Zstd::learn`].
    fn cost(
        &self,
        target: &Target,
        shifts: &[(i64, i64)],
        stated: &mut Vec<(i64, i64)>,
    ) -> Option<usize> {
        let mut found = 0;
        let mut cost = target.heads.len() + 2 + 6 * target.lies.len();
        let mut known_literals = 0;
        self.offsets(target, shifts, |offset| {
            // Few of the changes are stated.
            if offset.change == change::NEW {
                cost += 5;
                stated.extend(offset.shift.map(|shift| (offset.from, shift)));
            }
        });
        // In half bytes.
        for run in &self.runs[target.runs.clone()] {
            found += run.len;
            cost += 6;
            let of = &self.sequences[target.sequences.clone()][run.first..run.first + run.len];
            known_literals += of.iter().map(|one| one.literals as usize).sum::<usize>();
        }
        let new = target.sequences.len() - found;
        let literals = target.literals.len() - known_literals;
        (found > 0).then_some((cost + new * 7 + literals * 3 / 2) / 2 + found / 32)
    }
}

/// Ranges of a block that are not matched.
pub(super) fn literal_runs(matches: &[Match], block_len: usize) -> Vec<Range<usize>> {
    let mut runs = Vec::with_capacity(matches.len() + 1);
    let mut done = 0;
    for found in matches {
        runs.push(done..found.at as usize);
        done = found.end();
    }
    runs.push(done..block_len);
    runs.retain(|run| !run.is_empty());
    runs
}

/// Bytes of a range that matches cover.
pub(super) fn matched_within(matches: &[Match], range: &Range<usize>) -> usize {
    let first = matches.partition_point(|found| found.end() <= range.start);
    let within = matches[first..].iter().take_while(|found| (found.at as usize) < range.end);
    within.map(|found| found.end().min(range.end) - (found.at as usize).max(range.start)).sum()
}

/// Clips matches so that none overlaps a range. The rest of a match after the range is dropped if
/// it begins before the range.
pub(super) fn drop_within(matches: &mut Vec<Match>, range: &Range<usize>) {
    matches.retain_mut(|found| {
        let (start, end) = (found.at as usize, found.end());
        if end <= range.start || start >= range.end {
            return true;
        }
        if start < range.start {
            found.len = (range.start - start) as u32;
        } else {
            let cut = range.end.min(end) - start;
            found.at += cut as u32;
            found.source += cut as u64;
            found.len -= cut as u32;
        }
        found.len >= LEAST_LEFT
    });
}

/// Whether these are the unmatched bytes of a block.
pub(super) fn is_literals(literals: &[u8], block: &[u8], matches: &[Match]) -> bool {
    let runs = literal_runs(matches, block.len());
    let mut rest = literals;
    runs.into_iter().all(|run| {
        rest.split_at_checked(run.len()).is_some_and(|(front, behind)| {
            rest = behind;
            *front == block[run]
        })
    }) && rest.is_empty()
}
