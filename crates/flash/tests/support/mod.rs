//! A seeded history of operations with an oracle.
#![allow(dead_code, unreachable_pub, missing_docs)]

use oncewire_flash::{Answer, Filter, Index, IndexError, Layout, List, Options};
use oncewire_kernels::random::SplitMix64;
use std::collections::BTreeMap;

/// Bytes of a small device: about 12 slots for 4 partitions.
pub const SIZE: usize = 480 << 10;

pub fn small() -> Options {
    Options {
        memory: 1400 << 10,
        buffers: 48 << 10,
        buffer: 12 << 10,
        threads: 4,
        ..Options::default()
    }
}

/// Bytes of a device with about 150 slots of a page, so that the directory is written in batches.
pub const TINY_SIZE: usize = 900 << 10;

pub fn tiny() -> Options {
    Options {
        memory: 1400 << 10,
        buffers: 16 << 10,
        buffer: 4 << 10,
        threads: 4,
        ..Options::default()
    }
}

/// [`small`] in the published layout, which has half as many entries in a buffer, and needs a
/// smaller spill for them.
pub fn small_published() -> Options {
    Options { buffers: 64 << 10, buffer: 16 << 10, layout: Layout::Published, ..small() }
}

/// [`small`] with both lists and both layouts.
pub fn small_kinds() -> [Options; 4] {
    let [shared, own, _, _] = kinds(small());
    let [_, _, shared_published, own_published] = kinds(small_published());
    [shared, own, shared_published, own_published]
}

/// The same options with both lists and both layouts.
pub fn kinds(options: Options) -> [Options; 4] {
    [
        (List::Shared, Layout::Sorted),
        (List::PerPartition, Layout::Sorted),
        (List::Shared, Layout::Published),
        (List::PerPartition, Layout::Published),
    ]
    .map(|(list, layout)| {
        let filter = match layout {
            Layout::Published => Filter::Sliced,
            Layout::Sorted => Filter::Maplet,
        };
        Options { list, layout, filter, ..options }
    })
}

/// Numbers of a seed, below a limit by remainder.
pub struct Random(SplitMix64);

impl Random {
    pub fn new(seed: u64) -> Random {
        Random(SplitMix64(seed))
    }

    pub fn next(&mut self) -> u64 {
        self.0.next_u64()
    }

    pub fn below(&mut self, n: u64) -> u64 {
        self.next() % n
    }
}

/// What was done to a key: operation number and value; 0 is a delete.
type Done = Vec<(u64, u64)>;

/// Every value ever inserted under every key.
#[derive(Clone)]
pub struct Oracle {
    pub keys: BTreeMap<u64, Done>,
    /// Operations so far.
    pub number: u64,
    /// Operations that a returned flush covered.
    pub covered: u64,
    /// A value may be evicted after this many other operations.
    pub window: u64,
    /// A page of the oldest incarnation of a partition may be torn, so that nobody knows.
    pub unknown: bool,
    /// Operations that a crash may have lost: after the first number, up to the second.
    pub lost: Vec<(u64, u64)>,
}

pub struct History {
    pub random: Random,
    pub oracle: Oracle,
    pub range: u64,
}

impl History {
    pub fn new(seed: u64) -> History {
        let oracle = Oracle {
            keys: BTreeMap::new(),
            number: 0,
            covered: 0,
            window: 4000,
            lost: Vec::new(),
            unknown: false,
        };
        History { random: Random::new(seed), oracle, range: 20_000 }
    }

    /// One insert, update or delete.
    pub fn step(&mut self, index: &mut Index) -> Result<(), IndexError> {
        self.step_with(Some(index))
    }

    /// The same on paper, for what another process did.
    pub fn imagine(&mut self) {
        self.step_with(None).expect("nothing fails");
    }

    fn step_with(&mut self, index: Option<&mut Index>) -> Result<(), IndexError> {
        // Half of the operations are on a few keys, which are updated and deleted often.
        let n = if self.random.below(2) == 0 {
            self.random.below(200)
        } else {
            self.random.below(self.range)
        };
        if self.random.below(8) == 0 {
            index.map_or(Ok(()), |index| index.delete(&n.to_le_bytes()))?;
            self.oracle.note(n, 0);
        } else {
            let value = self.oracle.number + 1;
            index.map_or(Ok(()), |index| index.insert(&n.to_le_bytes(), &value.to_le_bytes()))?;
            self.oracle.note(n, value);
        }
        Ok(())
    }

    pub fn covered(&mut self) {
        self.oracle.covered = self.oracle.number;
    }

    /// Looks up any key; whether it was evicted.
    pub fn check_any(&mut self, index: &Index) -> bool {
        let n = self.random.below(self.range);
        self.oracle.check(index, n, self.oracle.number)
    }

    /// Checks every key, after a crash or not. Returns the number of those that are found.
    pub fn check_covered(&mut self, index: &Index) -> u64 {
        self.oracle.check_all(index, self.oracle.covered)
    }
}

impl Oracle {
    fn note(&mut self, key: u64, value: u64) {
        self.number += 1;
        self.keys.entry(key).or_default().push((self.number, value));
    }

    /// Checks the answer for a key of which operations up to `covered` must be there. Whether it
    /// was evicted.
    pub fn check(&self, index: &Index, key: u64, covered: u64) -> bool {
        self.check_at(index, key, covered, self.number)
    }

    /// The same when the last operation was `at`.
    pub fn check_at(&self, index: &Index, key: u64, covered: u64, at: u64) -> bool {
        let answer = index.get(&key.to_le_bytes()).expect("answers");
        let none = Vec::new();
        let done = self.keys.get(&key).unwrap_or(&none);
        let lost =
            |number: u64| self.lost.iter().any(|(after, to)| (after + 1..=*to).contains(&number));
        let newest = done.iter().rev().find(|(number, _)| *number <= covered && !lost(*number));
        match answer {
            Answer::Unknown if !self.unknown => panic!("key {key}: nothing is damaged"),
            Answer::Value(value) => {
                let value = u64::from_le_bytes(value.try_into().expect("8 bytes"));
                let of = done.iter().find(|(_, inserted)| *inserted == value && value != 0);
                let Some((number, _)) = of else { panic!("key {key} never had value {value}") };
                let least = newest.map_or(0, |(number, _)| *number);
                assert!(
                    *number >= least,
                    "key {key}: value {value} is older than {least}, covered {covered}"
                );
                false
            }
            Answer::Absent | Answer::Unknown => {
                let Some((number, value)) = newest else { return false };
                // A later delete may have survived.
                let deleted = done.iter().any(|(later, value)| later >= number && *value == 0);
                let old = number + self.window <= at;
                assert!(
                    *value == 0 || deleted || old,
                    "key {key}: {value} of {number} is gone, covered {covered}"
                );
                *value != 0 && !deleted
            }
        }
    }

    /// [`Oracle::check`] for every key. Returns the number of those that are found.
    pub fn check_all(&self, index: &Index, covered: u64) -> u64 {
        for key in self.keys.keys() {
            self.check(index, *key, covered);
        }
        index.stats().found
    }
}
