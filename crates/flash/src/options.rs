//! What an index is configured with, and what it reports.

use crate::format::{Layout, List};

/// Settings of an index. Everything but the memory for filters is fixed when it is created.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// Bytes of a key, 1 to 255.
    pub key: usize,
    /// Bytes of a value, 0 to 255.
    pub value: usize,
    /// Bytes of memory in all: buffers, filters, the table of incarnations and the delete list.
    pub memory: u64,
    /// Bytes of memory for the buffers of all super tables. [`crate::model::best_buffers`] has the
    /// best size.
    pub buffers: u64,
    /// Bytes of one buffer, and of an incarnation: a multiple of 4,096, to 262,144. An erase block
    /// on a flash chip; else a trade of the mean insert for the slowest.
    pub buffer: u64,
    /// What incarnations look like.
    pub layout: Layout,
    /// Order of incarnations on the device.
    pub list: List,
    /// What tells the incarnations apart that may have a key.
    pub filter: Filter,
    /// Bits by which slices of Bloom filters are longer than there are incarnations, 0 to 32: old
    /// filters are then removed this many at a time.
    pub window: u32,
    /// Reads that a batch of look-ups has in flight, each by a thread, which are started with the
    /// first batch; 0 or 1 reads one page after another.
    pub threads: u32,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            key: 8,
            value: 8,
            memory: 64 << 20,
            buffers: 32 << 20,
            buffer: 128 << 10,
            layout: Layout::Sorted,
            list: List::Shared,
            filter: Filter::Maplet,
            window: 0,
            threads: 64,
        }
    }
}

/// What is in memory for keys on the device, to read pages of few incarnations only.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Filter {
    /// A Bloom filter for each incarnation, bit-sliced (T:4108-4131).
    Sliced,
    /// One cuckoo filter for all of a partition, with the incarnation of each key: less memory and
    /// fewer cache misses. A partition has at most 62 incarnations on average.
    #[default]
    Maplet,
}

/// The answer to a look-up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// The newest value.
    Value(Vec<u8>),
    /// The key is not there, or no longer.
    Absent,
    /// A page that may have the newest value cannot be read.
    Unknown,
}

/// What `flush` made durable: this many inserts and deletes since the index was opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Covered(pub u64);

/// What was found when an index was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Opened {
    /// Whether the device was empty, so that an index was created on it.
    pub created: bool,
    /// Whether it had been closed.
    pub clean: bool,
    /// Incarnations on the device.
    pub incarnations: u64,
    /// Entries put back into buffers.
    pub spilled: u64,
    /// Incarnations after the last durable one, which were dropped.
    pub dropped: u64,
    /// Records of the directory and pages of the spill that are damaged.
    pub damaged: u64,
}

/// Counters since the index was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Inserts.
    pub inserts: u64,
    /// Deletes.
    pub deletes: u64,
    /// Look-ups.
    pub look_ups: u64,
    /// Look-ups that found a value.
    pub found: u64,
    /// Look-ups by the pages they read: none, one, two, and three or more.
    pub reads: [u64; 4],
    /// Pages read by look-ups.
    pub pages_read: u64,
    /// Of these, pages that did not have the key.
    pub spurious: u64,
    /// Look-ups answered by the delete list.
    pub delete_list: u64,
    /// Buffers written to the device.
    pub incarnations: u64,
    /// Of these, before the buffer was half full, because a page was full.
    pub early: u64,
    /// Incarnations evicted to make room.
    pub evicted: u64,
    /// Of these, before their slot was needed, because a partition had too many.
    pub evicted_early: u64,
    /// Bytes written to the device.
    pub written: u64,
    /// Syncs.
    pub syncs: u64,
    /// Pages that could not be read or had a wrong checksum.
    pub damaged: u64,
}

/// Bytes of memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Memory {
    /// All buffers.
    pub buffers: u64,
    /// All Bloom filters.
    pub filters: u64,
    /// Where incarnations are, and buffers for pages.
    pub tables: u64,
    /// Most that delete lists take.
    pub deletes: u64,
}

impl Memory {
    /// The sum.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.buffers + self.filters + self.tables + self.deletes
    }
}

/// The Bloom filters of an index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Filters {
    /// Super tables.
    pub partitions: u32,
    /// Entries of an incarnation.
    pub entries: u32,
    /// Incarnations of a super table at most.
    pub incarnations: u32,
    /// Bits of a filter.
    pub bits: u32,
    /// Hash functions.
    pub hashes: u32,
}
