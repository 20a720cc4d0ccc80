//! Finds the sequences of a block in the sources.

use super::index::hash;
use crate::inside::wire::sequences::{MAX_SHIFTS, Shifts, Sources, shift_at};
use crate::zstd_block::Sequence;

/// Sequences that must agree to begin a run.
pub(super) const AGREE: usize = 4;
/// Most sequences ahead at which a run is resumed after a difference.
pub(super) const AHEAD: usize = 12;

/// A run of sequences that were found.
#[derive(Clone, Copy, Debug)]
pub(super) struct Run {
    /// First of the target's sequences, and of the sources'.
    pub(super) first: usize,
    pub(super) source: usize,
    pub(super) len: usize,
}

/// Finds the sequences of a target in the sources.
pub(super) struct Search<'a> {
    pub(super) sources: &'a Sources,
    /// By hash, the last of the sources' positions whose sequences have this hash, plus 1.
    pub(super) heads: &'a [u32],
}

/// A target's sequences and their literals.
#[derive(Clone, Copy)]
pub(super) struct Parts<'a> {
    pub(super) sequences: &'a [Sequence],
    /// First literal of each.
    pub(super) starts: &'a [u32],
    pub(super) literals: &'a [u8],
}

impl Search<'_> {
    /// Whether a sequence of the target equals one of the sources', ignoring offsets.
    pub(super) fn agrees(&self, target: Parts<'_>, at: usize, source: usize) -> bool {
        let (Some(one), Some(other)) =
            (target.sequences.get(at), self.sources.sequences.get(source))
        else {
            return false;
        };
        if one.literals != other.literals || one.matched != other.matched {
            return false;
        }
        let len = one.literals as usize;
        let (one, other) = (target.starts[at] as usize, self.sources.places[source].0 as usize);
        target.literals[one..one + len] == self.sources.literals[other..other + len]
    }

    pub(super) fn agree(&self, target: Parts<'_>, at: usize, source: usize, count: usize) -> bool {
        (0..count).all(|nth| self.agrees(target, at + nth, source + nth))
    }

    /// The place where the sequences from `at` on are found; `cursor` is the expected one.
    pub(super) fn find(
        &self,
        target: Parts<'_>,
        at: usize,
        cursor: Option<usize>,
    ) -> Option<usize> {
        if let Some(cursor) = cursor {
            let pair = target.sequences.get(at..at + 2)?;
            let lengths = |of: &Sequence| (of.literals, of.matched);
            let all = &self.sources.sequences;
            let near = &all[cursor..all.len().min(cursor + AHEAD + 1)];
            let mut pairs = near.windows(2).zip(cursor..);
            // Most differ in their first length.
            let found = pairs.find(|&(there, source)| {
                lengths(&there[0]) == lengths(&pair[0])
                    && lengths(&there[1]) == lengths(&pair[1])
                    && self.agree(target, at, source, 2)
            });
            if let Some((_, source)) = found {
                return Some(source);
            }
        }
        let window = target.sequences.get(at..at + AGREE)?;
        let slot = hash::<{ AGREE as u32 }>(window) as usize & (self.heads.len() - 1);
        let source = self.heads[slot].checked_sub(1)? as usize;
        self.agree(target, at, source, AGREE).then_some(source)
    }

    pub(super) fn runs(&self, target: Parts<'_>, runs: &mut Vec<Run>) {
        let (mut at, mut done) = (0, 0);
        let mut cursor = None;
        while at < target.sequences.len() {
            let Some(mut source) = self.find(target, at, cursor) else {
                at += 1;
                continue;
            };
            let mut first = at;
            while first > done && source > 0 && self.agrees(target, first - 1, source - 1) {
                (first, source) = (first - 1, source - 1);
            }
            let mut len = at - first;
            while self.agrees(target, first + len, source + len) {
                len += 1;
            }
            runs.push(Run { first, source, len });
            (at, done) = (first + len, first + len);
            cursor = Some(source + len);
        }
    }
}

/// Records that content from `from` to at least `until` is later by `shift`.
pub(super) fn note_shift(shifts: &mut Shifts, from: i64, until: i64, shift: i64) {
    // Never more, not even temporarily.
    let excess = (shifts.len() + 2).saturating_sub(MAX_SHIFTS);
    shifts.drain(..excess);
    let first = shifts.partition_point(|&(at, _)| at < from);
    let behind = shifts.partition_point(|&(at, _)| at < until);
    // What was known of later content stays.
    let after = shift_at(shifts, until).map(|nth| shifts[nth].1).filter(|_| behind > first);
    let is_known = first.checked_sub(1).is_some_and(|nth| shifts[nth].1 == shift);
    let new = [(!is_known).then_some((from, shift)), after.map(|after| (until, after))];
    let is_there = shifts.get(behind).is_some_and(|&(at, _)| at == until);
    shifts.splice(first..behind, new.into_iter().flatten().take(if is_there { 1 } else { 2 }));
}

/// Bytes that sequences regenerate.
pub(super) fn length(sequences: &[Sequence]) -> i64 {
    sequences.iter().map(|one| i64::from(one.literals) + i64::from(one.matched) + 3).sum()
}
