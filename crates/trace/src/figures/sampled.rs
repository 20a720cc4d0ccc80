//! Counts by content, in bounded memory: when there are too many contents, half of them are
//! forgotten, by hash.

use oncewire_report::format::{bytes, share as percent};

/// Values by key, for a sample of the keys: those whose hash lies below a limit that is halved
/// whenever the memory is used up.
///
/// Whether a key is in the sample depends on the key alone, never on when or how often it came: the
/// sample holds every key with the same probability, [`Sampled::rate`], and all that ever happened
/// to those it holds. So shares of keys, and sums over them, are estimates without bias. The top 32
/// bits of a key decide; they have to be those of a good hash. Two keys are taken for one if all 64
/// bits are equal.
#[derive(Debug)]
pub(super) struct Sampled<V> {
    /// Open addressing with linear probing from the low bits of the key; key 0 is an empty slot. A
    /// power of two of slots.
    slots: Vec<(u64, V)>,
    held: usize,
    /// Keys are held if their top `halvings` bits are 0.
    halvings: u32,
    max_slots: usize,
    peak: u64,
}

/// Slots of the smallest table.
const FEWEST: usize = 64;

impl<V: Copy + Default> Sampled<V> {
    /// A table of at most `memory` bytes while it grows, when it takes half as much again; but
    /// never of fewer than 64 slots.
    pub(super) fn new(memory: u64) -> Sampled<V> {
        let most = usize::try_from(memory / 3 * 2).unwrap_or(usize::MAX) / size_of::<(u64, V)>();
        let max_slots = (most + 1).next_power_of_two() / 2;
        let mut table = Sampled {
            slots: Vec::new(),
            held: 0,
            halvings: 0,
            max_slots: max_slots.max(FEWEST),
            peak: 0,
        };
        table.rebuild(FEWEST);
        table
    }

    /// The value of a key, a new one if it is the first time. `None` if the key is not in the
    /// sample.
    pub(super) fn at(&mut self, key: u64) -> Option<&mut V> {
        let key = key.max(1);
        if !self.holds(key) {
            return None;
        }
        let mut slot = self.find(key);
        if self.slots[slot].0 == 0 {
            while (self.held + 1) * 4 > self.slots.len() * 3 {
                if self.slots.len() < self.max_slots {
                    self.rebuild(self.slots.len() * 2);
                } else {
                    self.halvings += 1;
                    self.rebuild(self.slots.len());
                    if !self.holds(key) {
                        return None;
                    }
                }
            }
            slot = self.find(key);
            self.slots[slot] = (key, V::default());
            self.held += 1;
        }
        Some(&mut self.slots[slot].1)
    }

    /// The probability with which a key is in the sample.
    pub(super) fn rate(&self) -> f64 {
        0.5f64.powi(self.halvings as i32)
    }

    /// What is held.
    pub(super) fn iter(&self) -> impl Iterator<Item = (u64, &V)> {
        self.slots.iter().filter(|slot| slot.0 != 0).map(|slot| (slot.0, &slot.1))
    }

    /// Most bytes it took, or, if that is more, what it takes now with `each` bytes beside it for
    /// every value that it holds.
    pub(super) fn memory(&self, each: usize) -> u64 {
        self.peak.max((self.slots.len() * size_of::<(u64, V)>() + self.held * each) as u64)
    }

    /// A note for the figure about the sampling. `None` if all keys are held.
    pub(super) fn note(&self, of: &str) -> Option<String> {
        (self.halvings > 0).then(|| {
            format!(
                "The {of} did not fit into {}, so the figure uses a sample of 1 in {}, chosen by a hash of the content; it has {} of them. \
                 Shares of {of} are unbiased, with a standard error of at most {} (more for one direction of several).",
                bytes(self.peak),
                1u64 << self.halvings.min(63),
                self.held,
                percent(0.5 / (self.held.max(1) as f64).sqrt()),
            )
        })
    }

    fn holds(&self, key: u64) -> bool {
        // More than 32 halvings would look at bits that are not the sample's.
        self.halvings == 0 || (self.halvings <= 32 && key >> (64 - self.halvings) == 0)
    }

    /// The slot of a key, or the empty one where it would go.
    fn find(&self, key: u64) -> usize {
        let mask = self.slots.len() - 1;
        let mut slot = key as usize & mask;
        while self.slots[slot].0 != 0 && self.slots[slot].0 != key {
            slot = (slot + 1) & mask;
        }
        slot
    }

    /// Moves what is in the sample to `len` slots.
    fn rebuild(&mut self, len: usize) {
        if len == self.slots.len() {
            let kept = self.slots.iter().filter(|(key, _)| *key != 0 && self.holds(*key)).count();
            let mut keep = Vec::with_capacity(kept);
            keep.extend(self.slots.iter().filter(|(key, _)| *key != 0 && self.holds(*key)));
            self.slots.fill((0, V::default()));
            self.insert(&keep, kept);
        } else {
            let old = std::mem::replace(&mut self.slots, vec![(0, V::default()); len]);
            self.insert(&old, old.len());
        }
    }

    fn insert(&mut self, entries: &[(u64, V)], extra: usize) {
        self.peak = self.peak.max(((self.slots.len() + extra) * size_of::<(u64, V)>()) as u64);
        self.held = 0;
        for entry in entries.iter().filter(|entry| entry.0 != 0) {
            let slot = self.find(entry.0);
            self.slots[slot] = *entry;
            self.held += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::HashMap;

    fn hash(n: u64) -> u64 {
        xxhash_rust::xxh3::xxh3_64(&n.to_le_bytes())
    }

    proptest! {
        #[test]
        fn with_room_for_all_it_is_a_map(keys in proptest::collection::vec(0u64..200, 0..600)) {
            let mut table = Sampled::<u64>::new(1 << 20);
            let mut naive = HashMap::new();
            for key in keys {
                *table.at(hash(key)).unwrap() += 1;
                *naive.entry(hash(key)).or_insert(0u64) += 1;
            }
            prop_assert_eq!(table.iter().map(|(key, count)| (key, *count)).collect::<HashMap<_, _>>(), naive);
            prop_assert_eq!(table.note("things"), None);
        }

        #[test]
        fn without_it_holds_all_that_happened_to_a_fair_sample(seed in any::<u64>(), memory in 2048u64..20_000) {
            let mut table = Sampled::<u64>::new(memory);
            // Key n comes 1 + n % 3 times, far apart.
            for round in 0..3 {
                for n in (0..4000u64).filter(|n| n % 3 >= round) {
                    if let Some(count) = table.at(hash(n ^ seed << 12)) {
                        *count += 1;
                    }
                }
            }
            prop_assert!(table.memory(0) <= memory);
            prop_assert!(table.rate() < 1.0);
            let expected: HashMap<u64, u64> = (0..4000).map(|n| (hash(n ^ seed << 12), 1 + n % 3)).filter(|(key, _)| table.holds(*key)).collect();
            prop_assert_eq!(table.iter().map(|(key, count)| (key, *count)).collect::<HashMap<_, _>>(), expected);
            // Six standard deviations; small samples are skewed.
            let mean = 4000.0 * table.rate();
            let off = (table.held as f64 - mean).abs();
            prop_assert!(off < 6.0 * mean.sqrt() + 6.0, "{} in place of {}", table.held, mean);
        }
    }

    #[test]
    fn hostile_keys_leave_it_bounded() {
        let mut table = Sampled::<u64>::new(0);
        for n in 0..1000 {
            table.at(n);
        }
        assert!(table.memory(0) <= 2 * 64 * 16);
        assert_eq!(table.iter().count(), 0);
    }
}
