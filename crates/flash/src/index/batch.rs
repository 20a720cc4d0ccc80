//! Look-ups and inserts in batches.
//!
//! Look-ups keep many reads in flight. Inserts are sorted by partition first, so that the
//! cache has a buffer while all of its entries are inserted.

use super::Index;
use super::look_up::{Found, Known, Probe, Step};
use super::stats::Tally;
use crate::batch::{Answers, Entries, Keys};
use crate::device::PageBuffer;
use crate::device::pool::{Job, Pool};
use crate::error::IndexError;
use crate::format::hash::Hash;
use crate::format::page::Place;

/// Reads that a batch has started at most, for each thread: while a thread reads, its next page
/// waits.
pub(super) const QUEUED: usize = 2;
/// Reads that are started together.
const START: usize = 16;
/// Entries that are sorted together.
pub(super) const SORT: usize = 1 << 16;

/// A look-up whose page is being read.
struct Waiting {
    number: usize,
    probe: Probe,
    place: Place,
}

impl Index {
    /// Looks up a batch of keys, with up to [`crate::Options::threads`] reads in flight.
    ///
    /// # Errors
    ///
    /// If the bytes are not whole keys.
    pub fn get_batch(&self, keys: &Keys<'_>, answers: &mut Answers) -> Result<(), IndexError> {
        let len = self.count(keys.0)?;
        let mut tally = Tally::default();
        answers.reset(len, self.entries.value);
        let mut batch = Batch {
            index: self,
            keys: keys.0,
            answers,
            tally: &mut tally,
            waiting: Vec::new(),
            free: Vec::new(),
            jobs: Vec::new(),
            spare: Vec::new(),
        };
        match self.pool.get_or_init(|| match self.threads {
            0 | 1 => None,
            threads => Pool::new(self.device.clone(), threads).ok(),
        }) {
            Some(pool) => batch.run(pool, len),
            None => batch.run_alone(len),
        }
        self.counters.add(&tally);
        Ok(())
    }

    /// Inserts a batch of entries. Of equal keys, the last one counts.
    ///
    /// # Errors
    ///
    /// As for [`Index::insert`]; any part of the batch may have been inserted then. If keys and
    /// values do not fit each other, none was.
    pub fn insert_batch(&mut self, entries: &Entries<'_>) -> Result<(), IndexError> {
        let (key, value) = (self.entries.key, self.entries.value);
        let len = self.count(entries.keys)?;
        if entries.values.len() != len * value {
            return Err(IndexError::Value { len: entries.values.len(), expected: len * value });
        }
        // Partitions with numbers of entries: one number is compared faster than two.
        let mut order: Vec<u64> = Vec::with_capacity(len.min(SORT));
        let mut hashes: Vec<u64> = Vec::with_capacity(len.min(SORT));
        for first in (0..len).step_by(SORT) {
            let part = first..len.min(first + SORT);
            order.clear();
            hashes.clear();
            for n in part {
                let Hash { partition, inside } = self.hash(&entries.keys[n * key..][..key])?;
                order.push(u64::from(partition) << 32 | (n - first) as u64);
                hashes.push(inside);
            }
            order.sort_unstable();
            for packed in &order {
                let n = (packed & 0xffff_ffff) as usize;
                let hash = Hash { partition: (packed >> 32) as u32, inside: hashes[n] };
                let n = first + n;
                let value = &entries.values[n * value..][..value];
                self.insert_hashed(hash, &entries.keys[n * key..][..key], value)?;
            }
        }
        Ok(())
    }

    /// Number of keys in these bytes.
    fn count(&self, keys: &[u8]) -> Result<usize, IndexError> {
        let key = self.entries.key;
        if keys.len().is_multiple_of(key) {
            Ok(keys.len() / key)
        } else {
            Err(IndexError::Key { len: keys.len() % key, expected: key })
        }
    }
}

struct Batch<'a> {
    index: &'a Index,
    keys: &'a [u8],
    answers: &'a mut Answers,
    tally: &'a mut Tally,
    waiting: Vec<Option<Waiting>>,
    /// Places of `waiting` that are free.
    free: Vec<usize>,
    /// Reads to start.
    jobs: Vec<Job>,
    /// Pages that no read needs.
    spare: Vec<Box<PageBuffer>>,
}

impl Batch<'_> {
    fn run(&mut self, pool: &Pool, len: usize) {
        let most = QUEUED * self.index.threads;
        let mut reader = pool.reader(most);
        let mut done = Vec::with_capacity(most);
        for number in 0..len {
            self.begin(number);
            if self.jobs.len() >= START {
                reader.start(&mut self.jobs);
            }
            while reader.in_flight() + self.jobs.len() >= most {
                reader.start(&mut self.jobs);
                reader.wait(&mut done);
                done.drain(..).for_each(|job| self.finish(job));
            }
        }
        loop {
            reader.start(&mut self.jobs);
            if reader.in_flight() == 0 {
                return;
            }
            reader.wait(&mut done);
            done.drain(..).for_each(|job| self.finish(job));
        }
    }

    /// Without threads.
    fn run_alone(&mut self, len: usize) {
        for number in 0..len {
            self.begin(number);
            while let Some(mut job) = self.jobs.pop() {
                job.result = self.index.device.read(job.at, &mut job.page.0);
                self.finish(job);
            }
        }
    }

    fn key(&self, number: usize) -> &[u8] {
        let len = self.index.entries.key;
        &self.keys[number * len..][..len]
    }

    fn begin(&mut self, number: usize) {
        let index = self.index;
        let len = index.entries.key;
        let key = &self.keys[number * len..][..len];
        let hash = index.hash_of(key);
        match index.known(hash, key, self.tally) {
            Known::Value(value) => {
                self.tally.found += 1;
                self.answers.set_value(number, value);
            }
            Known::Absent => {}
            Known::Perhaps(probe) => self.go_on(number, probe),
        }
    }

    fn go_on(&mut self, number: usize, mut probe: Probe) {
        match self.index.next(&mut probe) {
            Step::Read(at, place) => {
                let tag = self.free.pop().unwrap_or_else(|| {
                    self.waiting.push(None);
                    self.waiting.len() - 1
                });
                self.waiting[tag] = Some(Waiting { number, probe, place });
                let page = self.spare.pop().unwrap_or_default();
                self.jobs.push(Job { at, tag, page, result: Ok(()) });
                return;
            }
            Step::Unknown => self.answers.set_unknown(number),
            Step::Absent => {}
        }
        self.tally.reads[probe.reads.min(3) as usize] += 1;
    }

    fn finish(&mut self, job: Job) {
        let Some(Waiting { number, probe, place }) = self.waiting[job.tag].take() else { return };
        self.free.push(job.tag);
        let page = job.result.is_ok().then_some(&job.page.0);
        let mut tally = std::mem::take(self.tally);
        let found = self.index.found(page, &place, probe.hash, self.key(number), &mut tally);
        *self.tally = tally;
        let more = match found {
            Found::Value(value) => {
                self.tally.found += 1;
                self.index.note_use(probe.hash, probe.left, self.key(number), value);
                self.answers.set_value(number, value);
                false
            }
            Found::Damaged => {
                self.answers.set_unknown(number);
                false
            }
            Found::Deleted => false,
            Found::Nothing => true,
        };
        self.spare.push(job.page);
        if more {
            self.go_on(number, probe);
        } else {
            self.tally.reads[probe.reads.min(3) as usize] += 1;
        }
    }
}
