//! Writes the residual: `docs/FORMAT.md`, "Sequences of zstd".

use super::index::Names;
use super::plan::literal_runs;
use super::runs::length;
use super::{Target, Zstd};
use crate::encoder::looks_compressible;
use crate::format::varint;
use crate::inside::wire::columns::{COLUMNS, zigzag};
use crate::inside::wire::pieces::CONTINUED;
use crate::inside::wire::sequences::change;
use crate::matcher::Match;
use crate::zstd_block::Sequence;
use std::ops::Range;

/// Columns of a residual.
#[derive(Debug, Default)]
pub(super) struct Columns {
    pub(super) control: Vec<u8>,
    pub(super) lengths: Vec<u8>,
    pub(super) matches: Vec<u8>,
    pub(super) offsets: Vec<u8>,
    pub(super) changes: Vec<u8>,
    pub(super) bytes: Vec<u8>,
    /// Uncompressed.
    pub(super) plain: Vec<u8>,
}

impl Columns {
    pub(super) fn all(&self) -> [&Vec<u8>; COLUMNS] {
        [&self.control, &self.lengths, &self.matches, &self.offsets, &self.changes]
    }

    /// Appends the residual.
    pub(super) fn join(&self, out: &mut Vec<u8>) {
        self.all().iter().for_each(|column| varint::put(out, column.len() as u64));
        self.all().iter().for_each(|column| out.extend_from_slice(column));
        out.extend_from_slice(&self.bytes);
    }

    pub(super) fn clear(&mut self) {
        let Columns { control, lengths, matches, offsets, changes, bytes, plain } = self;
        [control, lengths, matches, offsets, changes, bytes, plain]
            .into_iter()
            .for_each(Vec::clear);
    }

    pub(super) fn signed(&mut self, value: i64) {
        varint::put(&mut self.control, zigzag(value));
    }

    pub(super) fn number(&mut self, value: usize) {
        varint::put(&mut self.control, value as u64);
    }
}

impl Zstd {
    /// Fills the columns.
    pub(super) fn describe(
        &mut self,
        block: &[u8],
        matches: &[Match],
        base: i64,
        names: &Names,
        shifts: &[(i64, i64)],
        begins: &[(usize, usize)],
    ) {
        let mut columns = std::mem::take(&mut self.columns);
        columns.clear();
        let mut place = 0;
        for name in &names.all {
            (1..name.pieces.len()).for_each(|_| columns.number(CONTINUED as usize));
            columns.number(usize::from(name.is_fresh) + 2 * usize::from(name.place.is_none()));
            if let Some(begins) = name.place {
                columns.signed(begins - place);
                place = begins;
            }
        }
        columns.number(shifts.len());
        let (mut from, mut shift) = (0, 0);
        for &(at, by) in shifts {
            columns.signed(at - from);
            columns.signed(by - shift);
            (from, shift) = (at, by);
        }
        let mut runs = literal_runs(matches, block.len()).into_iter().peekable();
        let mut rest = Vec::new();
        // Literals up to this byte of the block.
        let mut take = |until: usize, out: &mut Vec<u8>| {
            out.clear();
            while let Some(run) = runs.next_if(|run| run.end <= until) {
                out.extend_from_slice(&block[run]);
            }
            if let Some(run) = runs.peek_mut().filter(|run| run.start < until) {
                out.extend_from_slice(&block[run.start..until]);
                run.start = until;
            }
        };
        // The pieces of all targets, in order.
        let mut pieces: Vec<(Range<usize>, usize)> = Vec::new();
        for (of, &(nth, _)) in begins.iter().enumerate() {
            let lies = self.lies[self.targets[nth].lies.clone()].iter();
            pieces.extend(lies.map(|piece| (piece.clone(), of)));
        }
        pieces.sort_unstable_by_key(|(piece, _)| piece.start);
        let mut here = 0;
        // Targets of which a piece is still to come, and how many these are.
        let mut open: Vec<(usize, usize)> = Vec::new();
        for (piece, of) in pieces {
            take(piece.start, &mut rest);
            let is_plain = !looks_compressible(&rest);
            let column = if is_plain { &mut columns.plain } else { &mut columns.bytes };
            column.extend_from_slice(&rest);
            columns.number(2 * rest.len() + usize::from(is_plain));
            // Bytes that the block assembles itself.
            take(piece.end, &mut rest);
            if let Some(at) = open.iter().position(|&(known, _)| known == of) {
                columns.number(names.all.len() + 1 + at);
                open[at].1 -= 1;
                columns.number(if open[at].1 > 0 { piece.len() } else { 0 });
                open.retain(|&(_, left)| left > 0);
                continue;
            }
            let (nth, begin) = begins[of];
            let target = &self.targets[nth];
            columns.number(begin);
            let is_divided = target.lies.len() > 1;
            columns.number(2 * target.skip + usize::from(is_divided));
            if is_divided {
                columns.number(piece.len());
                open.push((of, target.lies.len() - 1));
            }
            columns.signed(target.noted.place - base - here);
            columns.bytes.extend_from_slice(&self.heads[target.heads.clone()]);
            here = self.describe_block(target, shifts, &mut columns) - base;
        }
        take(block.len(), &mut rest);
        let is_plain = !looks_compressible(&rest);
        let column = if is_plain { &mut columns.plain } else { &mut columns.bytes };
        column.extend_from_slice(&rest);
        self.columns = columns;
    }

    /// Returns the place after a target.
    pub(super) fn describe_block(
        &self,
        target: &Target,
        shifts: &[(i64, i64)],
        columns: &mut Columns,
    ) -> i64 {
        let sequences = &self.sequences[target.sequences.clone()];
        let mut literal = target.literals.start;
        let mut done = 0;
        let mut cursor = 0;
        // The columns of gaps and changes must be in reading order.
        let mut changes = Vec::with_capacity(sequences.len());
        self.offsets(target, shifts, |offset| changes.push((offset.nth, offset.change)));
        let mut changes = changes.into_iter().peekable();
        for run in &self.runs[target.runs.clone()] {
            columns.number(run.first - done);
            literal = self.describe_gap(&sequences[done..run.first], literal, columns);
            columns.number(run.len);
            columns.signed(run.source as i64 - cursor);
            while let Some((nth, change)) = changes.next_if(|&(nth, _)| nth < run.first + run.len) {
                columns.changes.push(change);
                if change == change::NEW {
                    varint::put(&mut columns.offsets, u64::from(sequences[nth].offset));
                }
                literal += sequences[nth].literals as usize;
            }
            done = run.first + run.len;
            cursor = (run.source + run.len) as i64;
        }
        let mut known = 0;
        if done < sequences.len() {
            columns.number(sequences.len() - done);
            literal = self.describe_gap(&sequences[done..], literal, columns);
        }
        let rest = &self.literals[literal..target.literals.end];
        if let Some(last) = usize::try_from(cursor).ok().and_then(|cursor| cursor.checked_sub(1)) {
            let there = self.sources.literals_behind(last);
            known = rest.iter().zip(there).take_while(|(one, other)| one == other).count();
        }
        columns.number(known);
        columns.bytes.extend_from_slice(&rest[known..]);
        target.noted.place + length(sequences) + rest.len() as i64
    }

    /// Returns the literal after the gap.
    pub(super) fn describe_gap(
        &self,
        gap: &[Sequence],
        mut literal: usize,
        columns: &mut Columns,
    ) -> usize {
        for sequence in gap {
            varint::put(&mut columns.lengths, u64::from(sequence.literals));
            varint::put(&mut columns.matches, u64::from(sequence.matched));
            varint::put(&mut columns.offsets, u64::from(sequence.offset));
            let end = literal + sequence.literals as usize;
            columns.bytes.extend_from_slice(&self.literals[literal..end]);
            literal = end;
        }
        literal
    }
}
