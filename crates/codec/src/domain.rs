//! Isolation domains: whose content lies where in the log.
//!
//! The length of a frame shows how much of its block was found in the log. Whoever can put content
//! into the log and see lengths can therefore guess content of others byte by byte (CRIME and
//! BREACH do so with a compressor's window). Content of different *domains* is kept apart: each
//! domain has its own fingerprint key, and a match neither begins nor grows in content of another.
//! `SECURITY.md` has the model.

use std::collections::VecDeque;
use std::ops::Range;
use twox_hash::XxHash3_64;

/// Identifies an isolation domain of an encoder. The number says nothing by itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Domain(pub u64);

impl Domain {
    /// The domain of content that has no other: what [`crate::Encoder::encode`] and
    /// [`crate::Encoder::prime`] are given.
    pub const COMMON: Domain = Domain(0);
    /// Content that nothing refers to.
    pub const NOBODY: Domain = Domain(u64::MAX);

    /// The fingerprint key of the domain, where the encoder's is `key`. With a single key a domain
    /// would overwrite table entries of another that has the same content, and so learn of it.
    pub(crate) fn key(self, key: u64) -> u64 {
        match self {
            Domain::COMMON => key,
            Domain(number) => XxHash3_64::oneshot_with_seed(key, &number.to_le_bytes()),
        }
    }
}

/// What encoders find across domains.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Sharing {
    /// Everything: domains do not matter. For a link whose users trust each other.
    #[default]
    All,
    /// Whole content-defined chunks of a kilobyte or more, which nobody can guess in steps, once
    /// two to five other clients have sent them.
    Chunks,
    /// Nothing.
    None,
}

/// Consecutive content of one domain: from `start` to the start of the next run.
#[derive(Clone, Copy, Debug)]
struct Run {
    start: u64,
    domain: Domain,
}

/// The domains of a log's content, as runs in ascending order.
#[derive(Debug)]
pub(crate) struct Runs {
    runs: VecDeque<Run>,
    /// Most runs.
    limit: usize,
}

/// Bytes of log for each run that may be remembered.
const BYTES_PER_RUN: u64 = 2048;
/// Runs that a log of any size may have.
const MIN_RUNS: u64 = 1024;

impl Runs {
    /// All content so far is of one domain.
    pub(crate) fn new(capacity: u64, domain: Domain) -> Runs {
        let limit = Runs::most(capacity);
        Runs { runs: VecDeque::from([Run { start: 0, domain }]), limit }
    }

    fn most(capacity: u64) -> usize {
        usize::try_from((capacity / BYTES_PER_RUN).max(MIN_RUNS)).unwrap_or(usize::MAX)
    }

    /// Upper bound of the memory in bytes for a log of `capacity` bytes. The queue grows by
    /// doubling.
    pub(crate) fn most_memory(capacity: u64) -> usize {
        (Runs::most(capacity) + 1).saturating_mul(2 * size_of::<Run>())
    }

    pub(crate) fn memory(&self) -> usize {
        self.runs.capacity() * size_of::<Run>()
    }

    /// Content of `domain` begins at `start`, which lies above all content before. Nothing refers
    /// to content below `floor` any more.
    pub(crate) fn push(&mut self, start: u64, domain: Domain, floor: u64) {
        if self.runs.back().is_some_and(|last| last.domain == domain) {
            return;
        }
        while self.runs.get(1).is_some_and(|second| second.start <= floor) {
            self.runs.pop_front();
        }
        if self.runs.len() >= self.limit {
            self.merge_short();
        }
        self.runs.push_back(Run { start, domain });
    }

    /// Gives up short runs until half of the room is free: many small messages in turn must not
    /// take the memory for long ones.
    fn merge_short(&mut self) {
        let mut shortest = 2 * BYTES_PER_RUN;
        while self.runs.len() > self.limit / 2 {
            // The length of the last run is not known yet.
            for at in 1..self.runs.len() {
                if self.runs[at].start - self.runs[at - 1].start < shortest {
                    self.runs[at - 1].domain = Domain::NOBODY;
                }
            }
            let mut before = None;
            self.runs.retain(|run| before.replace(run.domain) != Some(run.domain));
            shortest = shortest.saturating_mul(2);
        }
    }

    /// Forgets content at `offset` and above.
    pub(crate) fn rewind(&mut self, offset: u64) {
        while self.runs.len() > 1 && self.runs.back().is_some_and(|last| last.start >= offset) {
            self.runs.pop_back();
        }
    }

    /// The runs that overlap `range`, in ascending order.
    pub(crate) fn within(&self, range: &Range<u64>) -> impl Iterator<Item = (u64, Domain)> {
        let first = self.runs.partition_point(|run| run.start <= range.start).saturating_sub(1);
        let end = range.end;
        self.runs
            .range(first..)
            .take_while(move |run| run.start < end)
            .map(|run| (run.start, run.domain))
    }

    /// The run around `offset`, if it is of `domain`. The end of the last run is `u64::MAX`.
    pub(crate) fn around(&self, offset: u64, domain: Domain) -> Option<Range<u64>> {
        let next = self.runs.partition_point(|run| run.start <= offset);
        let run = self.runs.get(next.checked_sub(1)?)?;
        let end = self.runs.get(next).map_or(u64::MAX, |next| next.start);
        // Nobody may claim what is nobody's, not even under this number.
        (run.domain == domain && domain != Domain::NOBODY).then_some(run.start..end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: Domain = Domain(1);
    const B: Domain = Domain(2);

    #[test]
    fn runs_are_found_by_offset_and_domain() {
        let mut runs = Runs::new(1 << 20, Domain::COMMON);
        for (start, domain) in [(100, A), (150, A), (200, B), (300, A)] {
            runs.push(start, domain, 0);
        }
        assert_eq!(runs.around(0, Domain::COMMON), Some(0..100));
        assert_eq!(runs.around(199, A), Some(100..200));
        assert_eq!((runs.around(200, A), runs.around(200, B)), (None, Some(200..300)));
        assert_eq!(runs.around(300, A), Some(300..u64::MAX));
        runs.rewind(200);
        assert_eq!(runs.around(200, A), Some(100..u64::MAX));
        runs.push(200, B, 150);
        assert_eq!(runs.around(50, Domain::COMMON), None, "below the floor");
        assert_eq!(runs.around(150, A), Some(100..200));
    }

    #[test]
    fn many_short_runs_do_not_displace_long_ones_or_grow_beyond_the_limit() {
        let capacity = 4 << 20;
        let mut runs = Runs::new(capacity, Domain::COMMON);
        let mut at = 0;
        for (domain, len) in [(A, 100_000), (B, 100_000)] {
            runs.push(at, domain, 0);
            at += len;
        }
        for turn in 0..200_000 {
            runs.push(at, if turn % 2 == 0 { A } else { B }, 0);
            at += 10;
        }
        assert!(runs.memory() <= Runs::most_memory(capacity), "{}", runs.memory());
        assert_eq!(runs.around(1, A), Some(0..100_000));
        assert_eq!(runs.around(100_001, B), Some(100_000..200_000));
        // Wherever a run is still known, it is the right one.
        let run_of = |offset: u64| if ((offset - 200_000) / 10).is_multiple_of(2) { A } else { B };
        let mut known = 0;
        for offset in (200_000..at).step_by(10) {
            let (own, other) = if run_of(offset) == A { (A, B) } else { (B, A) };
            assert_eq!(runs.around(offset, other), None, "{offset}");
            known += u64::from(runs.around(offset, own).is_some());
        }
        assert!(known > 0);
        assert!((0..at).all(|offset| runs.around(offset, Domain::NOBODY).is_none()));
    }
}
