//! A second reader, written from `docs/FLASH.md` alone: it shares no code with the crate. What it
//! finds on a device must be what the index answers.

mod support;

use oncewire_flash::device::{Crash, Device};
use oncewire_flash::{Answer, Index, Layout, Options};
use siphasher::sip128::{Hasher128, SipHasher13};
use std::collections::BTreeMap;
use std::hash::Hasher;
use std::sync::Arc;
use support::{History, SIZE, TINY_SIZE, kinds, small, small_kinds, tiny};
use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed};

fn number(bytes: &[u8], at: usize, len: usize) -> u64 {
    bytes[at..at + len].iter().rev().fold(0, |number, &byte| number << 8 | u64::from(byte))
}

/// Section 1.
fn seed(kind: u8, id: &[u8], numbers: [u64; 4]) -> u64 {
    let mut bytes = vec![kind];
    bytes.extend(id);
    numbers.iter().for_each(|number| bytes.extend(number.to_le_bytes()));
    assert_eq!(bytes.len(), 49);
    xxh3_64(&bytes)
}

struct Reader {
    image: Vec<u8>,
    id: Vec<u8>,
    secret: [u8; 16],
    epoch: u64,
    durable: u64,
    generation: u64,
    spilled: u64,
    slots: u64,
    spill: u64,
    partitions: u64,
    pages: u64,
    key: usize,
    value: usize,
    list: u8,
    layout: u8,
}

/// A value or a delete of a key.
type Entries = BTreeMap<Vec<u8>, Option<Vec<u8>>>;

#[derive(Clone, Copy)]
struct Record {
    sequence: u64,
    epoch: u64,
    count: u64,
    partition: u64,
    slot: u64,
}

impl Reader {
    /// Section 3.
    fn new(image: Vec<u8>) -> Reader {
        let valid = |page: &&[u8]| {
            page[..8] == *b"OWINDEX\x01" && xxh3_64(&page[..4088]) == number(page, 4088, 8)
        };
        let pages = [&image[..4096], &image[4096..8192]];
        let page = pages.into_iter().filter(valid).max_by_key(|page| number(page, 24, 8));
        let page = page.expect("a superblock").to_vec();
        assert!(page[92] <= 1, "layout");
        Reader {
            id: page[8..24].to_vec(),
            secret: page[96..112].try_into().expect("16 bytes"),
            epoch: number(&page, 32, 8),
            durable: number(&page, 40, 8),
            generation: number(&page, 48, 8),
            spilled: number(&page, 56, 8),
            slots: number(&page, 64, 8),
            spill: number(&page, 72, 8),
            partitions: number(&page, 80, 4),
            pages: number(&page, 84, 4),
            key: number(&page, 88, 2) as usize,
            value: number(&page, 90, 2) as usize,
            list: page[93],
            layout: page[92],
            image,
        }
    }

    /// Section 2: where the spill areas and slot 0 start.
    fn areas(&self) -> (usize, usize, usize) {
        let directory = (self.slots * 64).div_ceil(4096) * 4096;
        let even = 8192 + directory as usize;
        let odd = even + self.spill as usize * 4096;
        let end = odd + self.spill as usize * 4096;
        (even, odd, end.next_multiple_of(self.pages as usize * 4096))
    }

    /// Section 6, and steps 1 and 2 of section 9.
    fn records(&self) -> Vec<Record> {
        let mut found = BTreeMap::new();
        let mut durable = self.durable;
        for slot in 0..self.slots {
            let bytes = &self.image[8192 + slot as usize * 64..][..64];
            if xxh3_64_with_seed(&bytes[8..], seed(2, &self.id, [slot, 0, 0, 0]))
                != number(bytes, 0, 8)
            {
                continue;
            }
            let record = Record {
                sequence: number(bytes, 8, 8),
                epoch: number(bytes, 16, 8),
                count: number(bytes, 24, 8),
                partition: number(bytes, 40, 4),
                slot,
            };
            let k = self.slots / self.partitions;
            let place = match self.list {
                0 => record.sequence % self.slots,
                _ => record.partition * k + record.count % k,
            };
            assert_eq!(place, slot);
            durable = durable.max(number(bytes, 32, 8));
            found.insert(record.sequence, record);
        }
        let mut end = durable;
        while found.contains_key(&end) {
            end += 1;
        }
        found.split_off(&end);
        found.into_values().collect()
    }

    /// Section 4: partition, page and buckets.
    fn hash(&self, key: &[u8]) -> (u64, u64, [u64; 2]) {
        let mut hasher = SipHasher13::new_with_key(&self.secret);
        hasher.write(key);
        let hash = hasher.finish128();
        let mix = |x: u64| {
            let x = (x ^ x >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
            let x = (x ^ x >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
            x ^ x >> 31
        };
        let low = |x: u64| x % (1 << 32);
        let buckets = self.places() as u64 / 4;
        let first = (low(hash.h2) * buckets) >> 32;
        let second = (first + 1 + ((low(mix(hash.h2)) * (buckets - 1)) >> 32)) % buckets;
        let partition = (u128::from(hash.h1) * u128::from(self.partitions)) >> 64;
        (partition as u64, ((hash.h2 >> 32) * self.pages) >> 32, [first, second])
    }

    fn places(&self) -> usize {
        (3992 / (self.key + self.value)).min(256) / 4 * 4
    }

    /// `h2`.
    fn inside(&self, key: &[u8]) -> u64 {
        let mut hasher = SipHasher13::new_with_key(&self.secret);
        hasher.write(key);
        hasher.finish128().h2
    }

    /// Section 4: the pages of a sorted slot that may have a key, by the prefixes of their first
    /// entries; `None` for a page without entries.
    fn pages_of(&self, prefixes: &[Option<u64>], key: &[u8]) -> Vec<usize> {
        let prefix = self.inside(key) >> 48;
        let is_last = |page: &usize| prefixes[*page].is_some_and(|first| first <= prefix);
        let Some(last) = (0..prefixes.len()).rev().find(is_last) else { return Vec::new() };
        let mut pages = vec![last];
        while pages[0] > 0 && prefixes[pages[0]] == Some(prefix) {
            pages.insert(0, pages[0] - 1);
        }
        pages
    }

    /// Sections 4 and 5, layout 1: the entries of a page.
    fn sorted_page(&self, record: &Record, page: u64, bytes: &[u8]) -> Entries {
        let (live, deletes) = (usize::from(bytes[38]), usize::from(bytes[39]));
        let entry = self.key + self.value;
        assert!(live + deletes <= (4056 / entry).min(255), "page {page}");
        let (mut entries, mut numbers) = (Entries::new(), Vec::new());
        for n in 0..live + deletes {
            let (key, value) = bytes[40 + n * entry..][..entry].split_at(self.key);
            assert_eq!(self.hash(key).0, record.partition);
            let number = self.inside(key) >> 16;
            assert!(n == 0 || n == live || numbers[n - 1] <= number, "ascending");
            numbers.push(number);
            assert!(n < live || value.iter().all(|byte| *byte == 0));
            let value = (n < live).then(|| value.to_vec());
            assert!(entries.insert(key.to_vec(), value).is_none(), "a key twice in a page");
        }
        assert!(bytes[40 + (live + deletes) * entry..].iter().all(|byte| *byte == 0));
        entries
    }

    /// That the pages of a sorted slot follow each other, and that each key is where it is sought.
    fn check_slot(&self, pages: &[Option<Entries>]) {
        let Some(pages) = pages.iter().map(Option::as_ref).collect::<Option<Vec<_>>>() else {
            return;
        };
        let numbers = |page: &Entries| page.keys().map(|key| self.inside(key)).collect::<Vec<_>>();
        let first = |page: &&Entries| numbers(page).iter().map(|number| number >> 48).min();
        let prefixes: Vec<Option<u64>> = pages.iter().map(first).collect();
        let mut last = 0;
        let most = (4056 / (self.key + self.value)).min(255);
        let mut is_full = true;
        for (n, page) in pages.iter().enumerate() {
            assert!(is_full || page.is_empty());
            is_full = page.len() == most;
            let numbers: Vec<u64> = numbers(page).iter().map(|number| number >> 16).collect();
            assert!(numbers.iter().all(|number| *number >= last));
            last = numbers.iter().copied().max().unwrap_or(last);
            for key in page.keys() {
                assert!(self.pages_of(&prefixes, key).contains(&n));
            }
        }
    }

    /// Section 5: the entries of a page, if it is whole.
    fn page(&self, record: &Record, page: u64) -> Option<Entries> {
        let at = self.areas().2 + ((record.slot * self.pages + page) * 4096) as usize;
        let bytes = &self.image[at..at + 4096];
        let last = record.partition * 65_536 + page;
        let seed = seed(1, &self.id, [record.epoch, record.sequence, record.count, last]);
        if xxh3_64_with_seed(&bytes[8..], seed) != number(bytes, 0, 8) {
            return None;
        }
        assert_eq!(number(bytes, 8, 8), record.sequence);
        assert_eq!(number(bytes, 16, 8), record.epoch);
        assert_eq!(number(bytes, 24, 8), record.count);
        assert_eq!((number(bytes, 32, 4), number(bytes, 36, 2)), (record.partition, page));
        if self.layout == 1 {
            return Some(self.sorted_page(record, page, bytes));
        }
        let bit = |map: usize, place: usize| bytes[map + place / 8] >> (place % 8) & 1 == 1;
        let mut entries = Entries::new();
        for place in (0..self.places()).filter(|&place| bit(40, place)) {
            let entry = &bytes[104 + place * (self.key + self.value)..][..self.key + self.value];
            let (key, value) = entry.split_at(self.key);
            let (partition, of, buckets) = self.hash(key);
            assert_eq!((partition, of), (record.partition, page));
            assert!(buckets.contains(&(place as u64 / 4)));
            let value = (!bit(72, place)).then(|| value.to_vec());
            assert!(entries.insert(key.to_vec(), value).is_none(), "a key twice in a page");
        }
        Some(entries)
    }

    /// Section 7, and step 3 of section 9: entries whose count is that of the next incarnation.
    fn spill(&self, next: &BTreeMap<u64, u64>) -> Entries {
        let (even, odd, _) = self.areas();
        let at = if self.generation.is_multiple_of(2) { even } else { odd };
        let (mut entries, mut missing) = (Entries::new(), 0);
        for page in 0..self.spill {
            let bytes = &self.image[at + page as usize * 4096..][..4096];
            let (generation, epoch) = (number(bytes, 8, 8), number(bytes, 16, 8));
            let sum =
                xxh3_64_with_seed(&bytes[8..], seed(3, &self.id, [generation, epoch, page, 0]));
            let counts = sum == number(bytes, 0, 8)
                && generation == self.generation
                && number(bytes, 24, 8) == page
                && (epoch == self.epoch || epoch < self.epoch && page < self.spilled);
            missing = if counts { 0 } else { missing + 1 };
            if !counts && missing == 64 {
                break;
            } else if !counts {
                continue;
            }
            for n in 0..number(bytes, 32, 4) as usize {
                let entry =
                    &bytes[40 + n * (9 + self.key + self.value)..][..9 + self.key + self.value];
                let key = &entry[9..9 + self.key];
                if number(entry, 0, 8) == next.get(&self.hash(key).0).copied().unwrap_or(0) {
                    let value = (entry[8] == 0).then(|| entry[9 + self.key..].to_vec());
                    entries.insert(key.to_vec(), value);
                }
            }
        }
        entries
    }

    /// The newest entry of every key, and the pages that are damaged.
    fn entries(&self) -> (Entries, u64) {
        let (mut all, mut next, mut damaged) = (Entries::new(), BTreeMap::new(), 0);
        for record in self.records() {
            next.insert(record.partition, record.count + 1);
            let pages: Vec<_> = (0..self.pages).map(|page| self.page(&record, page)).collect();
            if self.layout == 1 {
                self.check_slot(&pages);
            }
            damaged += pages.iter().filter(|page| page.is_none()).count() as u64;
            pages.into_iter().flatten().for_each(|entries| all.extend(entries));
        }
        all.extend(self.spill(&next));
        (all, damaged)
    }
}

fn compare(device: &Arc<Crash>, options: &Options, history: &History) -> usize {
    let (entries, damaged) = Reader::new(device.content()).entries();
    let (index, opened) = Index::open(Box::new(device.clone()), options).expect("opens");
    assert_eq!(opened.damaged, 0);
    for key in history.oracle.keys.keys() {
        let key = key.to_le_bytes();
        let expected = entries.get(&key[..]).cloned().flatten();
        let expected = expected.map_or(Answer::Absent, Answer::Value);
        let answer = index.get(&key).expect("answers");
        // A torn page may belong to an incarnation that is being overwritten.
        assert!(
            answer == expected || damaged > 0 && answer == Answer::Absent,
            "{key:?}: {answer:?}, not {expected:?}"
        );
    }
    entries.len()
}

#[test]
fn a_second_reader_finds_the_same() {
    let [_, _, tiny, _] = kinds(tiny());
    let all = small_kinds().map(|options| (SIZE, options)).into_iter();
    for (size, options) in all.chain([
        (TINY_SIZE, tiny),
        (TINY_SIZE, Options { layout: Layout::Sorted, ..tiny }),
        (SIZE, Options { window: 8, ..small() }),
    ]) {
        let device = Arc::new(Crash::new(size));
        let mut history = History::new(11);
        for _ in 0..3 {
            let (mut index, _) = Index::open(Box::new(device.clone()), &options).expect("opens");
            for _ in 0..5000 {
                history.step(&mut index).expect("works");
                if history.random.below(700) == 0 {
                    index.flush().expect("flushes");
                }
            }
            index.close().expect("closes");
            let copy = Arc::new(device.cut(device.steps(), u64::MAX));
            assert!(compare(&copy, &options, &history) > 2000);
        }
        // After crashes, too.
        for cut in (8..device.steps()).step_by(17) {
            compare(&Arc::new(device.cut(cut, 5 + cut as u64)), &options, &history);
        }
        assert_eq!(device.size(), size as u64);
    }
}
