//! The payloads that each end remembers, and the processing that both ends share.

use super::classify::Classifier;
use super::message::TOKEN_OVERHEAD;
use super::name::{Name, Naming};
use super::policy::{PayloadPolicy, PolicyError, Replacement};
use super::sights::Sights;
use std::collections::{BTreeSet, HashMap, HashSet};
use xxhash_rust::xxh3::{Xxh3, xxh3_64};

/// Approximate upper bound of an entry's memory besides its payload, in bytes: the entry, its place
/// in the index, and the allocator's overhead, with the slack of growing tables.
/// [`Dictionary::memory`] counts the actual memory.
pub const ENTRY_OVERHEAD: usize = 256;

/// Most entries, whatever the capacity: they are numbered by 32 bits.
const MAX_ENTRIES: usize = 1 << 31;

/// The result of processing a payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Seen {
    /// It is held, and now the most recently used one.
    Held,
    /// It was remembered.
    Remembered,
    /// It was not remembered: seen too few times yet, or longer than the whole cache.
    Passed,
    /// Its name is illegal, perhaps since this call.
    Illegal,
    /// Its name collides, but there are too many illegal names. Nothing changed; start over.
    Overflow,
}

/// Payloads by name, with the policies that both ends share: classification, inclusion,
/// replacement, illegal names.
///
/// Its content depends only on the policies and on the sequence of payloads.
#[derive(Debug)]
pub struct Dictionary<N, C> {
    policy: PayloadPolicy,
    naming: N,
    classifier: C,
    index: HashMap<Name, u32>,
    entries: Vec<Entry>,
    /// Entries without a payload.
    free: Vec<u32>,
    order: Order,
    bytes: u64,
    illegal: HashSet<Name>,
    sights: Sights,
}

#[derive(Debug)]
struct Entry {
    name: Name,
    payload: Box<[u8]>,
    /// For [`CompressionPolicy`](super::CompressionPolicy), at the compressor only.
    sends: u32,
    place: Place,
}

/// Where an entry is in its [`Order`].
#[derive(Clone, Copy, Debug, Default)]
struct Place {
    older: u32,
    newer: u32,
    priority: u64,
    /// Which use it was, so that of equal priorities the one used longest ago goes first.
    used: u64,
}

/// No entry.
const NONE: u32 = u32::MAX;

/// In which order entries leave.
#[derive(Debug)]
enum Order {
    /// A list through the entries.
    Lru { oldest: u32, newest: u32 },
    /// The next to leave first: priority, use, entry.
    Gds { queue: BTreeSet<(u64, u64, u32)>, inflation: u64, uses: u64 },
}

impl Order {
    fn new(replacement: Replacement) -> Order {
        match replacement {
            Replacement::Lru => Order::Lru { oldest: NONE, newest: NONE },
            Replacement::GreedyDualSize => {
                Order::Gds { queue: BTreeSet::new(), inflation: 0, uses: 0 }
            }
        }
    }

    fn first(&self) -> Option<u32> {
        match self {
            Order::Lru { oldest, .. } => Some(*oldest).filter(|&entry| entry != NONE),
            Order::Gds { queue, .. } => queue.first().map(|&(_, _, entry)| entry),
        }
    }

    /// Puts in an entry that is not in the order, as just used.
    fn add(&mut self, entries: &mut [Entry], entry: u32) {
        match self {
            Order::Lru { oldest, newest } => {
                entries[entry as usize].place =
                    Place { older: *newest, newer: NONE, ..Place::default() };
                match entries.get_mut(*newest as usize) {
                    Some(before) => before.place.newer = entry,
                    None => *oldest = entry,
                }
                *newest = entry;
            }
            Order::Gds { queue, inflation, uses } => {
                *uses += 1;
                let Entry { payload, place, .. } = &mut entries[entry as usize];
                let saves = payload.len().saturating_sub(TOKEN_OVERHEAD) as u64;
                let size = (payload.len() + ENTRY_OVERHEAD) as u64;
                *place = Place {
                    priority: inflation.saturating_add((saves << 16) / size),
                    used: *uses,
                    ..Place::default()
                };
                queue.insert((place.priority, place.used, entry));
            }
        }
    }

    fn take_out(&mut self, entries: &mut [Entry], entry: u32) {
        let place = entries[entry as usize].place;
        match self {
            Order::Lru { oldest, newest } => {
                match entries.get_mut(place.older as usize) {
                    Some(older) => older.place.newer = place.newer,
                    None => *oldest = place.newer,
                }
                match entries.get_mut(place.newer as usize) {
                    Some(newer) => newer.place.older = place.older,
                    None => *newest = place.older,
                }
            }
            Order::Gds { queue, .. } => {
                queue.remove(&(place.priority, place.used, entry));
            }
        }
    }

    /// The entry is about to be evicted.
    fn evicting(&mut self, entries: &[Entry], entry: u32) {
        if let Order::Gds { inflation, .. } = self {
            *inflation = entries[entry as usize].place.priority;
        }
    }
}

impl<N: Naming, C: Classifier> Dictionary<N, C> {
    pub(super) fn new(
        policy: PayloadPolicy,
        naming: N,
        classifier: C,
    ) -> Result<Dictionary<N, C>, PolicyError> {
        policy.check()?;
        let (order, sights) = (Order::new(policy.replacement), Sights::new(policy.sights));
        Ok(Dictionary {
            policy,
            naming,
            classifier,
            index: HashMap::new(),
            entries: Vec::new(),
            free: Vec::new(),
            order,
            bytes: 0,
            illegal: HashSet::new(),
            sights,
        })
    }

    /// The policies.
    pub fn policy(&self) -> &PayloadPolicy {
        &self.policy
    }

    /// Payloads held.
    pub fn payloads(&self) -> usize {
        self.index.len()
    }

    /// Bytes of payload held, at most [`PayloadPolicy::capacity`].
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Number of illegal names, at most [`PayloadPolicy::max_illegal`].
    pub fn illegal_names(&self) -> usize {
        self.illegal.len()
    }

    /// Memory of everything besides the payloads' bytes: an estimate, in bytes.
    pub fn overhead(&self) -> usize {
        // A hash table keeps an eighth of its places free, and a byte for each.
        let table = |capacity: usize, element: usize| capacity / 7 * 8 * (element + 1);
        let queued =
            if self.policy.replacement == Replacement::GreedyDualSize { 2 * 24 } else { 0 };
        self.entries.capacity() * size_of::<Entry>()
            + self.free.capacity() * size_of::<u32>()
            + table(self.index.capacity(), size_of::<(Name, u32)>())
            + table(self.illegal.capacity(), size_of::<Name>())
            + self.index.len() * (16 + queued)
            + self.sights.memory()
    }

    /// Memory in bytes, payloads and overhead.
    pub fn memory(&self) -> usize {
        self.bytes as usize + self.overhead()
    }

    /// A hash over everything that must be equal at both ends: payloads in the order in which they
    /// would leave, illegal names, sights. Takes time in proportion to what is held: for tests and
    /// for a comparison now and then.
    pub fn digest(&self) -> u64 {
        let mut digest = Xxh3::new();
        let mut entry = |entry: &Entry| {
            digest.update(&entry.name.0);
            digest.update(&entry.place.priority.to_le_bytes());
            digest.update(&xxh3_64(&entry.payload).to_le_bytes());
        };
        match &self.order {
            Order::Lru { oldest, .. } => {
                let mut next = *oldest;
                while let Some(at) = self.entries.get(next as usize) {
                    entry(at);
                    next = at.place.newer;
                }
            }
            Order::Gds { queue, .. } => {
                queue.iter().for_each(|&(_, _, at)| entry(&self.entries[at as usize]))
            }
        }
        // The set has no order.
        let illegal =
            self.illegal.iter().fold(0, |sum: u64, name| sum.wrapping_add(xxh3_64(&name.0)));
        digest.update(&illegal.to_le_bytes());
        for slot in self.sights.slots().iter().filter(|&&slot| slot != 0) {
            digest.update(&slot.to_le_bytes());
        }
        digest.digest()
    }

    /// Where the payload of a packet begins, if the packet takes part.
    pub(super) fn payload_start(&self, packet: &[u8]) -> Option<usize> {
        if packet.len() > self.policy.max_packet {
            return None;
        }
        let payload = |start| {
            packet.len().checked_sub(start).is_some_and(|len| len >= self.policy.min_payload)
        };
        self.classifier.classify(packet).filter(|&start| payload(start))
    }

    pub(super) fn name(&self, payload: &[u8]) -> Name {
        self.naming.name(payload)
    }

    /// The payload of this name crosses the link whole. `include` passes over the inclusion policy.
    pub(super) fn see(&mut self, name: Name, payload: &[u8], include: bool) -> Seen {
        if self.illegal.contains(&name) {
            return Seen::Illegal;
        }
        if let Some(held) = self.get(name) {
            if held == payload {
                self.touch(name);
                return Seen::Held;
            }
            return if self.make_illegal(name) { Seen::Illegal } else { Seen::Overflow };
        }
        let sights = self.policy.inclusion;
        let included = include || sights <= 1 || self.sights.count(name) >= sights;
        if !included || payload.len() as u64 > self.policy.capacity {
            return Seen::Passed;
        }
        while self.bytes + payload.len() as u64 > self.policy.capacity
            || self.index.len() >= MAX_ENTRIES
        {
            let entry = self.order.first().expect("bytes are held by entries");
            self.order.evicting(&self.entries, entry);
            self.remove(entry);
        }
        self.insert(name, payload);
        Seen::Remembered
    }

    pub(super) fn get(&self, name: Name) -> Option<&[u8]> {
        self.index.get(&name).map(|&entry| &*self.entries[entry as usize].payload)
    }

    pub(super) fn is_illegal(&self, name: Name) -> bool {
        self.illegal.contains(&name)
    }

    /// The payload of this name, if held, is now the most recently used one.
    pub(super) fn touch(&mut self, name: Name) {
        if let Some(&entry) = self.index.get(&name) {
            self.order.take_out(&mut self.entries, entry);
            self.order.add(&mut self.entries, entry);
        }
    }

    /// How often the payload of this name was sent whole.
    pub(super) fn sends(&mut self, name: Name) -> Option<&mut u32> {
        self.index.get(&name).map(|&entry| &mut self.entries[entry as usize].sends)
    }

    /// Makes the name illegal and forgets its payload. Returns false, and changes nothing, if there
    /// are too many such names.
    pub(super) fn make_illegal(&mut self, name: Name) -> bool {
        if self.illegal.len() >= self.policy.max_illegal && !self.illegal.contains(&name) {
            return false;
        }
        if let Some(&entry) = self.index.get(&name) {
            self.remove(entry);
        }
        self.illegal.insert(name);
        true
    }

    /// Forgets everything.
    pub(super) fn clear(&mut self) {
        self.index.clear();
        self.entries.clear();
        self.free.clear();
        self.order = Order::new(self.policy.replacement);
        self.bytes = 0;
        self.illegal.clear();
        self.sights.clear();
    }

    fn insert(&mut self, name: Name, payload: &[u8]) {
        let new = Entry { name, payload: payload.into(), sends: 0, place: Place::default() };
        let entry = match self.free.pop() {
            Some(entry) => {
                self.entries[entry as usize] = new;
                entry
            }
            None => {
                self.entries.push(new);
                (self.entries.len() - 1) as u32
            }
        };
        self.bytes += payload.len() as u64;
        self.index.insert(name, entry);
        self.order.add(&mut self.entries, entry);
    }

    fn remove(&mut self, entry: u32) {
        self.order.take_out(&mut self.entries, entry);
        let Entry { name, payload, .. } = &mut self.entries[entry as usize];
        self.bytes -= payload.len() as u64;
        self.index.remove(name);
        *payload = Box::default();
        self.free.push(entry);
    }
}

#[cfg(test)]
mod tests {
    use super::super::name::KeyedBlake3;
    use super::super::{PayloadPolicy, WholePacket};
    use super::*;
    use proptest::prelude::*;
    use proptest::test_runner::Config;
    use std::collections::VecDeque;

    /// Naive implementation of the policies: a queue of the payloads held, searched linearly.
    struct Oracle {
        capacity: u64,
        replacement: Replacement,
        /// Number, length and priority; the most recently used last.
        held: VecDeque<(u8, usize, u64)>,
        inflation: u64,
    }

    impl Oracle {
        fn see(&mut self, number: u8, len: usize) -> Seen {
            let held = self.held.iter().position(|&(held, ..)| held == number);
            if let Some(at) = held {
                self.held.remove(at);
            } else if len as u64 > self.capacity {
                return Seen::Passed;
            }
            while self.held.iter().map(|&(_, len, _)| len as u64).sum::<u64>() + len as u64
                > self.capacity
            {
                let at = match self.replacement {
                    Replacement::Lru => 0,
                    Replacement::GreedyDualSize => {
                        (0..self.held.len()).min_by_key(|&at| self.held[at].2).unwrap()
                    }
                };
                self.inflation = self.held.remove(at).unwrap().2;
            }
            let priority = self.inflation
                + ((len - TOKEN_OVERHEAD) as u64 * 65536) / (len + ENTRY_OVERHEAD) as u64;
            self.held.push_back((number, len, priority));
            if held.is_some() { Seen::Held } else { Seen::Remembered }
        }
    }

    fn dictionary(policy: PayloadPolicy) -> Dictionary<KeyedBlake3, WholePacket> {
        Dictionary::new(policy, KeyedBlake3::new([0; 32]), WholePacket).unwrap()
    }

    fn payload(number: u8) -> Vec<u8> {
        vec![number; 30 + usize::from(number) % 7 * 100]
    }

    proptest! {
        #![proptest_config(Config { cases: 128, failure_persistence: None, ..Config::default() })]

        #[test]
        fn holds_what_the_oracle_holds(
            numbers in proptest::collection::vec(prop_oneof![0u8..12, any::<u8>()], 0..200),
            capacity in 1u64..4000,
            gds in any::<bool>(),
        ) {
            let replacement = if gds { Replacement::GreedyDualSize } else { Replacement::Lru };
            let mut dictionary = dictionary(PayloadPolicy { capacity, replacement, ..PayloadPolicy::default() });
            let mut oracle = Oracle { capacity, replacement, held: VecDeque::new(), inflation: 0 };
            for number in numbers {
                let payload = payload(number);
                let name = dictionary.name(&payload);
                prop_assert_eq!(dictionary.see(name, &payload, false), oracle.see(number, payload.len()));
                prop_assert_eq!(dictionary.payloads(), oracle.held.len());
                prop_assert_eq!(dictionary.bytes(), oracle.held.iter().map(|held| held.1 as u64).sum::<u64>());
                prop_assert!(dictionary.bytes() <= capacity);
                for &(number, ..) in &oracle.held {
                    let payload = self::payload(number);
                    prop_assert_eq!(dictionary.get(dictionary.name(&payload)), Some(&payload[..]));
                }
            }
            // And in the same order.
            while let Some(entry) = dictionary.order.first() {
                let at = match replacement {
                    Replacement::Lru => 0,
                    Replacement::GreedyDualSize => (0..oracle.held.len()).min_by_key(|&at| oracle.held[at].2).unwrap(),
                };
                prop_assert_eq!(dictionary.entries[entry as usize].payload[0], oracle.held.remove(at).unwrap().0);
                dictionary.remove(entry);
            }
            prop_assert_eq!((oracle.held.len(), dictionary.bytes(), dictionary.payloads()), (0, 0, 0));
        }
    }

    #[test]
    fn the_digest_sees_order_payloads_names_and_sights() {
        let digest = |numbers: &[u8], inclusion| {
            let mut dictionary =
                dictionary(PayloadPolicy { inclusion, ..PayloadPolicy::default() });
            for &number in numbers {
                let payload = payload(number);
                dictionary.see(dictionary.name(&payload), &payload, false);
            }
            (dictionary.digest(), dictionary)
        };
        let (all, mut one) = digest(&[1, 2], 1);
        assert_eq!(all, digest(&[1, 2], 1).0);
        for other in [&[2, 1][..], &[1], &[1, 3], &[1, 2, 1]] {
            assert_ne!(all, digest(other, 1).0);
        }
        assert_ne!(digest(&[1], 2).0, digest(&[2], 2).0);
        one.make_illegal(Name([9; 16]));
        assert_ne!(one.digest(), all);
        one.clear();
        assert_eq!(one.digest(), digest(&[], 1).0);
    }

    #[test]
    fn included_after_the_nth_sight() {
        let mut dictionary = dictionary(PayloadPolicy { inclusion: 3, ..PayloadPolicy::default() });
        let mut see = |number, include| {
            let payload = payload(number);
            dictionary.see(dictionary.name(&payload), &payload, include)
        };
        assert_eq!(
            [see(1, false), see(1, false), see(1, false)],
            [Seen::Passed, Seen::Passed, Seen::Remembered]
        );
        assert_eq!(
            [see(1, false), see(2, true), see(2, false)],
            [Seen::Held, Seen::Remembered, Seen::Held]
        );
    }

    #[test]
    fn collided_names_hold_nothing_and_are_bounded() {
        let mut dictionary =
            dictionary(PayloadPolicy { max_illegal: 1, ..PayloadPolicy::default() });
        let (a, b) = (Name([1; 16]), Name([2; 16]));
        assert_eq!(dictionary.see(a, b"one", false), Seen::Remembered);
        assert_eq!(dictionary.see(a, b"two", false), Seen::Illegal);
        assert_eq!((dictionary.see(a, b"one", true), dictionary.bytes()), (Seen::Illegal, 0));
        assert_eq!(dictionary.see(b, b"one", false), Seen::Remembered);
        assert_eq!(dictionary.see(b, b"two", false), Seen::Overflow);
        assert_eq!((dictionary.get(b), dictionary.illegal_names()), (Some(&b"one"[..]), 1));
    }

    #[test]
    fn overhead_is_what_the_constant_says() {
        for replacement in [Replacement::Lru, Replacement::GreedyDualSize] {
            let mut dictionary = dictionary(PayloadPolicy {
                capacity: 3_000_000,
                replacement,
                ..PayloadPolicy::default()
            });
            for i in 0..200_000u32 {
                let payload = i.to_le_bytes().repeat(10);
                dictionary.see(dictionary.name(&payload), &payload, false);
            }
            let each = dictionary.overhead() / dictionary.payloads();
            assert!((ENTRY_OVERHEAD / 3..=ENTRY_OVERHEAD).contains(&each), "{each}");
        }
    }
}
