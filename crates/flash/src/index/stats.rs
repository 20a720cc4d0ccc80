//! Counters of look-ups, which many threads add to.

use crate::options::Stats;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// What look-ups of all threads did.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    found: AtomicU64,
    reads: [AtomicU64; 4],
    pages_read: AtomicU64,
    spurious: AtomicU64,
    delete_list: AtomicU64,
    damaged: AtomicU64,
    evicted_early: AtomicU64,
}

/// What some look-ups did.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    pub(crate) found: u64,
    pub(crate) reads: [u64; 4],
    pub(crate) pages_read: u64,
    pub(crate) spurious: u64,
    pub(crate) delete_list: u64,
    pub(crate) damaged: u64,
    pub(crate) evicted_early: u64,
}

impl Counters {
    /// Adds a tally. Most of its counters are zero, and an addition that other threads see costs
    /// more than the test.
    pub(crate) fn add(&self, tally: &Tally) {
        let add = |counter: &AtomicU64, n: u64| {
            if n > 0 {
                counter.fetch_add(n, Relaxed);
            }
        };
        add(&self.found, tally.found);
        self.reads.iter().zip(tally.reads).for_each(|(counter, n)| add(counter, n));
        add(&self.pages_read, tally.pages_read);
        add(&self.spurious, tally.spurious);
        add(&self.delete_list, tally.delete_list);
        add(&self.damaged, tally.damaged);
        add(&self.evicted_early, tally.evicted_early);
    }

    /// Adds them to those of inserts.
    pub(crate) fn add_to(&self, stats: &mut Stats) {
        for (sum, counter) in stats.reads.iter_mut().zip(&self.reads) {
            *sum += counter.load(Relaxed);
        }
        stats.look_ups = stats.reads.iter().sum();
        stats.found += self.found.load(Relaxed);
        stats.pages_read += self.pages_read.load(Relaxed);
        stats.spurious += self.spurious.load(Relaxed);
        stats.delete_list += self.delete_list.load(Relaxed);
        stats.damaged += self.damaged.load(Relaxed);
        stats.evicted_early += self.evicted_early.load(Relaxed);
    }
}
