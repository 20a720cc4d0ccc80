//! Content that is indexed once it is acknowledged.

use crate::domain::Domain;
use crate::encoder::Tokens;
use std::collections::VecDeque;
use std::ops::Range;

/// Runs in flight that are not indexed yet, in the order of the log.
#[derive(Debug, Default)]
pub(super) struct Pending {
    runs: VecDeque<Run>,
    /// Parts of them that repeat older content, of [`LONG`] bytes or more each.
    repeats: VecDeque<Range<u64>>,
}

#[derive(Debug)]
struct Run {
    range: Range<u64>,
    domain: Domain,
    dense: bool,
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
/// Repeats that are remembered. Others are indexed like everything else.
const MOST_REPEATS: usize = 1 << 16;
/// Shortest repeat that is not indexed as a whole, in bytes.
const LONG: u32 = 512;
/// Of a repeat, [`PIECE`] bytes are indexed in each of so many: its older copy is found by one hit,
/// too, but leaves the log earlier.
const STEP: usize = 512;
const PIECE: u64 = 128;

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
        if self.runs.len() >= MOST_RUNS {
            self.runs.pop_front();
        }
        self.forget(floor);
        let start = range.start;
        let room = MOST_REPEATS - self.repeats.len();
        let long = tokens.matches.iter().filter(|found| found.len >= LONG).take(room);
        self.repeats
            .extend(long.map(|found| start + u64::from(found.at)..start + found.end() as u64));
        let (left, dense) = (range.end - range.start, tokens.dense);
        self.runs.push_back(Run { range, domain, dense, left });
    }

    /// Drops what is done with or has left the log, from the oldest on.
    fn forget(&mut self, floor: u64) {
        while self.runs.front().is_some_and(|run| run.left == 0 || run.range.end <= floor) {
            self.runs.pop_front();
        }
        let oldest = self.runs.front().map_or(u64::MAX, |run| run.range.start);
        while self.repeats.front().is_some_and(|repeat| repeat.start < oldest) {
            self.repeats.pop_front();
        }
    }

    /// `new` was acknowledged, and nothing of it before. Passes what is to be indexed of it: all
    /// literals and short repeats, and samples of long ones.
    pub(super) fn take(&mut self, new: &Range<u64>, mut each: impl FnMut(Part)) {
        let first = self.runs.partition_point(|run| run.range.end <= new.start);
        for run in self.runs.range_mut(first..) {
            if run.range.start >= new.end {
                break;
            }
            let part = run.range.start.max(new.start)..run.range.end.min(new.end);
            run.left = run.left.saturating_sub(part.end - part.start);
            let mut pass = |range: Range<u64>| {
                let range = range.start.max(part.start)..range.end.min(part.end);
                if !range.is_empty() {
                    each(Part { range, domain: run.domain, dense: run.dense });
                }
            };
            let mut done = part.start;
            let first = self.repeats.partition_point(|repeat| repeat.end <= part.start);
            for repeat in self.repeats.range(first..) {
                if repeat.start >= part.end {
                    break;
                }
                pass(done..repeat.start);
                for at in repeat.clone().step_by(STEP) {
                    pass(at..(at + PIECE).min(repeat.end));
                }
                done = repeat.end;
            }
            pass(done..part.end);
        }
        self.forget(0);
    }

    /// Memory as of now, in bytes.
    pub(super) fn memory(&self) -> usize {
        self.runs.capacity() * size_of::<Run>() + self.repeats.capacity() * size_of::<Range<u64>>()
    }

    /// Upper bound of the memory: the queues grow by doubling.
    pub(super) const MOST_MEMORY: usize =
        2 * ((MOST_RUNS + 1) * size_of::<Run>() + (MOST_REPEATS + 1) * size_of::<Range<u64>>());
}

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
        assert_eq!((pending.runs.len(), pending.repeats.len()), (1, 0));
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
        assert_eq!(pending.repeats.len(), MOST_REPEATS);
        assert!(pending.memory() <= Pending::MOST_MEMORY);
        let end = 2 * MOST_RUNS as u64 * 1000;
        pending.push(&tokens(end, 1000, &[]), Domain::COMMON, end);
        assert_eq!((pending.runs.len(), pending.repeats.len()), (1, 0));
    }
}
