//! What an index is configured with, and what it reports.

use crate::device::PAGE;
use crate::error::OpenError;
use crate::format::superblock::{MOST_PAGES, MOST_PARTITIONS};
use crate::format::{Geometry, Layout, List};
use crate::model::best_buffers;

/// Most threads that read.
const MOST_THREADS: u32 = 1024;

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
    /// What happens to entries of an incarnation that is evicted. It may differ each time that the
    /// index is opened.
    pub eviction: Eviction,
}

/// What happens to the entries of an incarnation that is evicted to make room (T:4103).
///
/// All but [`Eviction::Fifo`] insert entries again, so more is written; where a buffer is three
/// quarters full, it takes no more of them. What was inserted again is in memory only until the
/// next flush.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Eviction {
    /// They are gone: first in, first out.
    #[default]
    Fifo,
    /// What look-ups found in the older half of the incarnations was inserted again: least recently
    /// used entries go first.
    Used,
    /// Those that were neither updated nor deleted since are inserted again.
    Updated,
    /// Of those, the ones with a high enough priority, which is a byte of their value.
    Priority {
        /// The byte of the value, from 0.
        byte: usize,
        /// The lowest priority that is kept.
        least: u8,
    },
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
            eviction: Eviction::Fifo,
        }
    }
}

impl Options {
    /// Options for an index that fills `flash` bytes of a device with `memory` bytes of memory.
    /// Everything else has a default; the memory for buffers follows from the others.
    ///
    /// ```
    /// use oncewire_flash::Options;
    ///
    /// let options = Options::builder(32 << 30, 6 << 30).key(20).build()?;
    /// assert!(options.buffers > 512 << 20);
    /// # Ok::<(), oncewire_flash::OpenError>(())
    /// ```
    #[must_use]
    pub fn builder(flash: u64, memory: u64) -> OptionsBuilder {
        let options = Options { memory, buffers: 0, ..Options::default() };
        OptionsBuilder { flash, options }
    }

    /// Whether everything is in range.
    pub(crate) fn check(&self) -> Result<(), OpenError> {
        let options = self;
        let range = |what, value: u64, least, most| {
            if (least..=most).contains(&value) {
                Ok(())
            } else {
                Err(OpenError::Option { what, value, least, most })
            }
        };
        let page = PAGE as u64;
        range("bytes of a buffer", options.buffer, page, u64::from(MOST_PAGES) * page)?;
        if !options.buffer.is_multiple_of(page) {
            let least = options.buffer / page * page;
            let value = options.buffer;
            return Err(OpenError::Option { what: "bytes of a buffer", value, least, most: least });
        }
        let most = u64::from(MOST_PARTITIONS) * options.buffer;
        range("bytes of all buffers", options.buffers, options.buffer, most)?;
        range("threads", u64::from(options.threads), 0, u64::from(MOST_THREADS))?;
        range("bits of the window", u64::from(options.window), 0, 32)?;
        if options.memory < options.buffers {
            return Err(OpenError::Memory { memory: options.memory, least: options.buffers });
        }
        range("bytes of memory", options.memory, 0, u64::MAX / 64)
    }
}

/// Makes [`Options`], and checks them.
#[derive(Clone, Copy, Debug)]
pub struct OptionsBuilder {
    flash: u64,
    /// `buffers` is 0 where it was not set.
    options: Options,
}

impl OptionsBuilder {
    /// Bytes of a key, 1 to 255; 8 by default.
    #[must_use]
    pub fn key(mut self, bytes: usize) -> Self {
        self.options.key = bytes;
        self
    }

    /// Bytes of a value, 0 to 255; 8 by default.
    #[must_use]
    pub fn value(mut self, bytes: usize) -> Self {
        self.options.value = bytes;
        self
    }

    /// Bytes of one buffer: a multiple of 4,096, to 262,144; 131,072 by default.
    #[must_use]
    pub fn buffer(mut self, bytes: u64) -> Self {
        self.options.buffer = bytes;
        self
    }

    /// Bytes of device that all buffers fill once. By default, with a maplet, a 62nd of the device,
    /// so that it can tell the incarnations apart; else [`crate::model::best_buffers`].
    #[must_use]
    pub fn buffers(mut self, bytes: u64) -> Self {
        self.options.buffers = bytes;
        self
    }

    /// What incarnations look like; sorted by default.
    #[must_use]
    pub fn layout(mut self, layout: Layout) -> Self {
        self.options.layout = layout;
        self
    }

    /// Order of incarnations on the device; one list by default.
    #[must_use]
    pub fn list(mut self, list: List) -> Self {
        self.options.list = list;
        self
    }

    /// What tells the incarnations apart that may have a key; a maplet by default.
    #[must_use]
    pub fn filter(mut self, filter: Filter) -> Self {
        self.options.filter = filter;
        self
    }

    /// Bits by which slices are longer than there are incarnations, 0 to 32; 0 by default.
    #[must_use]
    pub fn window(mut self, bits: u32) -> Self {
        self.options.window = bits;
        self
    }

    /// Reads that a batch has in flight, 0 to 1,024; 64 by default.
    #[must_use]
    pub fn threads(mut self, threads: u32) -> Self {
        self.options.threads = threads;
        self
    }

    /// What happens to the entries of an incarnation that is evicted; nothing by default.
    #[must_use]
    pub fn eviction(mut self, eviction: Eviction) -> Self {
        self.options.eviction = eviction;
        self
    }

    /// The options.
    ///
    /// # Errors
    ///
    /// If one is out of range, or the device is too small.
    pub fn build(self) -> Result<Options, OpenError> {
        let OptionsBuilder { flash, mut options } = self;
        let least = PAGE as u64;
        options.buffer = options.buffer.max(least);
        let geometry = |partitions| {
            let pages = u32::try_from(options.buffer / least).unwrap_or(u32::MAX);
            let Options { key, value, list, layout, .. } = options;
            Geometry::fit(flash, partitions, pages, key, value, list, layout)
                .map_err(OpenError::Geometry)
        };
        if options.buffers == 0 {
            let one = geometry(1)?;
            let entry = one.slot_bytes() as f64 / f64::from(one.capacity());
            let best = match options.filter {
                Filter::Maplet => flash / 62,
                Filter::Sliced => best_buffers(flash as f64, entry) as u64,
            };
            options.buffers = best.max(1).next_multiple_of(options.buffer);
        }
        options.check()?;
        geometry((options.buffers / options.buffer) as u32)?;
        Ok(options)
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

/// A key with its newest value.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Entry {
    /// The key.
    pub key: Vec<u8>,
    /// The value.
    pub value: Vec<u8>,
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
    /// Entries inserted again instead of being evicted.
    pub kept: u64,
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
