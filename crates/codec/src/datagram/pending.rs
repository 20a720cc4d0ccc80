//! Content that is indexed once it is acknowledged.

use crate::domain::Domain;
use crate::encoder::Tokens;
use std::collections::VecDeque;
use std::ops::Range;

/// Runs in flight that are not indexed yet, in the order of the log.
#[derive(Debug, Default)]
pub(super) struct Pending {
    runs: VecDeque<Run>,
    /// Bytes of the lists of all runs.
    lists: usize,
}

#[derive(Debug)]
struct Run {
    range: Range<u64>,
    domain: Domain,
    dense: bool,
    /// Parts of the run that repeat older content, of [`LONG`] bytes or more each.
    repeats: Box<[Range<u32>]>,
    /// Bytes that are not acknowledged.
    left: u64,
}

/// A part of a run to index.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Part {
    pub(super) range: Range<u64>,
    pub(super) domain: Domain,
    pub(super) dense: bool,
}

/// Runs that may be in flight; the oldest are not indexed any more. Of packets of 1,400 bytes they
/// are 90 MB.
const MOST_RUNS: usize = 1 << 16;
/// Bytes of log for each byte of lists.
const PER_LIST_BYTE: u64 = 64;
/// Shortest repeat that is not indexed as a whole, in bytes.
const LONG: u32 = 512;
/// Of a repeat, [`PIECE`] bytes are indexed in each of so many: its older copy is found by one hit,
/// too, but leaves the log earlier.
const STEP: usize = 512;
const PIECE: usize = 128;

impl Pending {
    pub(super) fn is_empty(&self) -> bool {
        self.runs.is_empty()
    }

    /// A run was sent. Content below `floor` has left the log.
    pub(super) fn push(&mut self, tokens: &Tokens, domain: Domain, floor: u64) {
        let range = tokens.offset..tokens.offset + tokens.block_len as u64;
        if range.is_empty() {
            return;
        }
        let repeats = tokens.matches.iter().filter(|found| found.len >= LONG);
        let repeats: Box<_> = repeats.map(|found| found.at..found.at + found.len).collect();
        self.lists += size_of_val(&*repeats);
        let (left, dense) = (range.end - range.start, tokens.dense);
        self.runs.push_back(Run { range, domain, dense, repeats, left });
        while self.runs.len() > MOST_RUNS
            || self.runs.front().is_some_and(|run| run.left == 0 || run.range.end <= floor)
        {
            let Some(run) = self.runs.pop_front() else { break };
            self.lists -= size_of_val(&*run.repeats);
        }
    }

    /// `new` was acknowledged, and nothing of it before. Passes what is to be indexed of it.
    pub(super) fn take(&mut self, new: &Range<u64>, mut each: impl FnMut(Part)) {
        let first = self.runs.partition_point(|run| run.range.end <= new.start);
        for run in self.runs.range_mut(first..) {
            if run.range.start >= new.end {
                break;
            }
            let part = run.range.start.max(new.start)..run.range.end.min(new.end);
            run.left = run.left.saturating_sub(part.end - part.start);
            run.each_part(part, &mut each);
            if run.left == 0 {
                self.lists -= size_of_val(&*std::mem::take(&mut run.repeats));
            }
        }
        while self.runs.front().is_some_and(|run| run.left == 0) {
            self.runs.pop_front();
        }
    }

    /// Memory as of now, in bytes.
    pub(super) fn memory(&self) -> usize {
        self.runs.capacity() * size_of::<Run>() + self.lists
    }

    /// Upper bound of the memory for a log of `cache` bytes. What is in flight lies in it.
    pub(super) fn most_memory(cache: u64) -> usize {
        let lists = usize::try_from(cache / PER_LIST_BYTE).unwrap_or(usize::MAX);
        (2 * (MOST_RUNS + 1) * size_of::<Run>()).saturating_add(lists)
    }
}

impl Run {
    /// Passes what is to be indexed of `part`: all literals, and samples of long repeats.
    fn each_part(&self, part: Range<u64>, each: &mut impl FnMut(Part)) {
        let mut pass = |range: Range<u64>| {
            let range = range.start.max(part.start)..range.end.min(part.end);
            if !range.is_empty() {
                each(Part { range, domain: self.domain, dense: self.dense });
            }
        };
        let start = self.range.start;
        let mut done = start;
        let first =
            self.repeats.partition_point(|repeat| start + u64::from(repeat.end) <= part.start);
        for repeat in &self.repeats[first..] {
            let repeat = start + u64::from(repeat.start)..start + u64::from(repeat.end);
            if repeat.start >= part.end {
                break;
            }
            pass(done..repeat.start);
            for at in repeat.clone().step_by(STEP) {
                pass(at..(at + PIECE as u64).min(repeat.end));
            }
            done = repeat.end;
        }
        pass(done..self.range.end);
    }
}

const _: () = assert!(size_of::<Range<u32>>() as u64 * PER_LIST_BYTE <= LONG as u64);

#[cfg(test)]
#[allow(clippy::single_range_in_vec_init)] // Lists of ranges are what is compared.
mod tests {
    use super::*;
    use crate::matcher::Match;

    fn tokens(offset: u64, len: usize, matches: &[(u32, u32)]) -> Tokens {
        let matches = matches.iter().map(|&(at, len)| Match { at, len, source: 0 }).collect();
        Tokens { offset, block_len: len, matches, dense: true, ..Tokens::default() }
    }

    fn taken(pending: &mut Pending, new: Range<u64>) -> Vec<Range<u64>> {
        let mut ranges = Vec::new();
        pending.take(&new, |part| {
            assert!(part.dense && part.domain == Domain::COMMON);
            ranges.push(part.range);
        });
        ranges
    }

    #[test]
    fn literals_are_indexed_as_a_whole_and_repeats_in_samples() {
        let mut pending = Pending::default();
        pending.push(&tokens(1000, 3000, &[(100, 200), (500, 1500)]), Domain::COMMON, 0);
        pending.push(&tokens(4000, 100, &[]), Domain::COMMON, 0);
        assert_eq!(taken(&mut pending, 0..1000), []);
        assert_eq!(taken(&mut pending, 1000..1400), [1000..1400]);
        assert_eq!(
            taken(&mut pending, 1400..3050),
            [1400..1500, 1500..1628, 2012..2140, 2524..2652, 3000..3050]
        );
        assert_eq!(taken(&mut pending, 3050..4010), [3050..4000, 4000..4010]);
        assert_eq!((pending.runs.len(), pending.lists), (1, 0));
        assert_eq!(taken(&mut pending, 4010..9000), [4010..4100]);
        assert!(pending.is_empty());
    }

    #[test]
    fn what_is_never_acknowledged_is_forgotten() {
        let mut pending = Pending::default();
        for run in 0..2 * MOST_RUNS as u64 {
            pending.push(&tokens(run * 1000, 1000, &[(0, 1000)]), Domain::COMMON, 0);
        }
        assert_eq!(pending.runs.len(), MOST_RUNS);
        assert!(pending.memory() <= Pending::most_memory(MOST_RUNS as u64 * 1000));
        let end = 2 * MOST_RUNS as u64 * 1000;
        pending.push(&tokens(end, 1000, &[]), Domain::COMMON, end);
        assert_eq!((pending.runs.len(), pending.lists), (1, 0));
    }
}
