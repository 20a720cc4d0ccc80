//! The index: super tables over a ring of slots.
//!
//! What a returned [`Index::flush`] covered survives any crash. A slot counts once the directory
//! has its record, and records are written after a sync of their slots; `docs/FLASH.md` has the
//! order of all writes, and why it is enough.

mod batch;
mod evict;
mod iter;
mod load;
mod look_up;
mod open;
mod stats;
mod table;

use crate::allowance::Allowance;
use crate::buffer::{Buffers, Scratch};
use crate::device::pool::Pool;
use crate::device::{Aligned, Device, DeviceError, PAGE};
use crate::error::IndexError;
use crate::filter::Shape;
use crate::format::directory::{self, Record};
use crate::format::hash::{Hash, hash};
use crate::format::page::{self, Entries};
use crate::format::{List, Reader, Superblock, spill};
use crate::options::{Covered, Eviction, Filters, Memory, Stats};
use evict::Kept;
pub use iter::Iter;
use stats::Counters;
use std::sync::{Arc, OnceLock};
use table::{Fences, Incarnation, Table};

/// Most incarnations between writes of the directory.
const BATCH: u64 = 64;
/// Parts of the ring, of which a batch is at most one.
const PARTS: u64 = 16;

/// A key with its value, or `None` for a delete.
type Pair = (Vec<u8>, Option<Vec<u8>>);

/// A key-value index on a device. See the example of the crate.
pub struct Index {
    device: Arc<dyn Device>,
    superblock: Superblock,
    entries: Entries,
    reader: Reader,
    shape: Shape,
    buffers: Buffers,
    tables: Vec<Table>,
    /// The partition whose incarnation was written to a slot last, plus one.
    owners: Vec<u32>,
    /// The next incarnation.
    sequence: u64,
    /// Records of slots that were written since the directory was.
    unrecorded: Vec<(u64, Record)>,
    /// Incarnations between writes of the directory.
    batch: u64,
    /// All records below this sequence were written.
    recorded: u64,
    /// Pages of the spill.
    spilled: u64,
    memory: Memory,
    /// Memory for delete lists.
    for_deletes: Allowance,
    /// Memory for filters beside that of each partition.
    for_filters: Allowance,
    /// The index was closed when it was opened, or every table was read since.
    clean: bool,
    failed: bool,
    eviction: Eviction,
    kept: Kept,
    /// Of everything but look-ups.
    stats: Stats,
    counters: Counters,
    page: Aligned,
    scratch: Scratch,
    /// Reads of batches, from the first one on; `None` if there are no threads.
    pool: OnceLock<Option<Pool>>,
    threads: usize,
}

impl std::fmt::Debug for Index {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Index").field("geometry", &self.superblock.geometry).finish_non_exhaustive()
    }
}

impl Index {
    /// Inserts a value, or replaces it. It is durable after the next [`Index::flush`] that returns.
    ///
    /// # Errors
    ///
    /// If the key or value has a wrong length, or the buffer is full and cannot be written; the
    /// entry is not inserted then.
    pub fn insert(&mut self, key: &[u8], value: &[u8]) -> Result<(), IndexError> {
        if value.len() != self.entries.value {
            return Err(IndexError::Value { len: value.len(), expected: self.entries.value });
        }
        let hash = self.hash(key)?;
        self.insert_hashed(hash, key, value)
    }

    fn insert_hashed(&mut self, hash: Hash, key: &[u8], value: &[u8]) -> Result<(), IndexError> {
        self.put(hash, key, Some(value))?;
        self.note(hash.partition, key, false);
        self.stats.inserts += 1;
        Ok(())
    }

    /// Deletes a key: an entry that says so is inserted, and remembered in memory so that no page
    /// is read for it (T:4093-4099).
    ///
    /// # Errors
    ///
    /// As for [`Index::insert`].
    pub fn delete(&mut self, key: &[u8]) -> Result<(), IndexError> {
        let hash = self.hash(key)?;
        self.put(hash, key, None)?;
        self.note(hash.partition, key, true);
        self.stats.deletes += 1;
        Ok(())
    }

    /// Keeps the delete list up to date. A partition that was not read yet has none; the buffer is
    /// taken into account when it is read.
    fn note(&mut self, partition: u32, key: &[u8], deleted: bool) {
        let Table { next, loaded, .. } = &mut self.tables[partition as usize];
        if let Some(loaded) = loaded.get_mut() {
            loaded.deletes.note(key, deleted, *next, &self.for_deletes);
        }
    }

    fn hash(&self, key: &[u8]) -> Result<Hash, IndexError> {
        if key.len() != self.entries.key {
            return Err(IndexError::Key { len: key.len(), expected: self.entries.key });
        }
        Ok(self.hash_of(key))
    }

    fn hash_of(&self, key: &[u8]) -> Hash {
        hash(&self.superblock.secret, self.superblock.geometry.partitions, key)
    }

    fn put(&mut self, hash: Hash, key: &[u8], value: Option<&[u8]>) -> Result<(), IndexError> {
        if self.failed {
            return Err(IndexError::Failed);
        }
        self.keep_used();
        self.put_once(hash, key, value)
    }

    fn put_once(&mut self, hash: Hash, key: &[u8], value: Option<&[u8]>) -> Result<(), IndexError> {
        let has_room = self.buffers.len(hash.partition) < self.superblock.geometry.capacity()
            || self.buffers.get(hash, key).is_some();
        if has_room && self.buffers.put(hash, key, value).is_ok() {
            return Ok(());
        }
        self.write_out(hash.partition)?;
        self.stats.early += u64::from(has_room);
        // Before what is kept, which may fill the page of this key.
        let placed = self.buffers.put(hash, key, value);
        debug_assert!(placed.is_ok(), "an empty buffer has a place");
        self.keep(hash.partition);
        Ok(())
    }

    /// Writes a buffer as the newest incarnation of its partition. What is to be kept of those that
    /// make room for it waits for [`Index::keep`].
    fn write_out(&mut self, partition: u32) -> Result<(), IndexError> {
        // Of a slot that could not be written.
        self.kept.forget();
        self.load(partition);
        if self.unrecorded.len() as u64 >= self.batch {
            self.sync()?;
            self.record()?;
        }
        let Superblock { id, geometry, epoch, .. } = self.superblock;
        let sequence = self.sequence;
        let count = self.tables[partition as usize].next;
        let slot = geometry.slot(sequence, partition, count);
        self.vacate(slot, sequence, count)?;
        let durable = self.superblock.durable;
        // What filters and fences have of an incarnation is where the one `most` later will be.
        let most = u64::from(self.shape.most);
        let is_due = |oldest: &Incarnation| oldest.count + most <= count;
        while self.tables[partition as usize].incarnations.front().is_some_and(is_due) {
            self.stats.evicted_early += 1;
            self.choose(partition);
            self.evict(partition);
        }
        let image = self.buffers.image(&self.superblock, partition, &mut self.scratch);
        for (number, page) in image.chunks_exact_mut(PAGE).enumerate() {
            let place = page::Place { sequence, epoch, count, partition, page: number as u16 };
            page::seal(&id, &place, page);
        }
        self.device.write(geometry.slot_at(slot), image)?;
        self.stats.written += image.len() as u64;
        self.stats.incarnations += 1;

        let hashes = std::mem::take(&mut self.scratch.hashes);
        self.add_to_filter(partition, count, &hashes);
        let table = &mut self.tables[partition as usize];
        if let Some(loaded) = table.loaded.get_mut() {
            loaded.push(count, table::Pages::default(), &Fences::of(&geometry, &hashes));
        }
        self.scratch.hashes = hashes;
        table.push(Incarnation { count, sequence, epoch, suspect: false, chosen: false });
        self.owners[slot as usize] = partition + 1;
        self.sequence += 1;
        let (entries, deletes) = (self.buffers.len(partition), self.buffers.deletes(partition));
        self.unrecorded
            .push((slot, Record { sequence, epoch, count, durable, partition, entries, deletes }));
        self.buffers.clear(partition);
        Ok(())
    }

    /// Adds the entries of the next incarnation to the filter. Where that has no room, the oldest
    /// incarnations are evicted.
    fn add_to_filter(&mut self, partition: u32, count: u64, hashes: &[u64]) {
        let mut done = 0;
        loop {
            let table = &mut self.tables[partition as usize];
            // It was read before its buffer was written.
            let Some(loaded) = table.loaded.get_mut() else { return };
            if done == 0 {
                loaded.filter.enter(count);
            }
            match loaded.filter.add(count, &hashes[done..], &self.for_filters) {
                Ok(()) => return,
                Err(n) => done += n,
            }
            if table.incarnations.is_empty() {
                loaded.filter.force(count, hashes[done], &self.for_filters);
                done += 1;
            } else {
                self.stats.evicted_early += 1;
                self.choose(partition);
                self.evict(partition);
            }
        }
    }

    /// Evicts what is in the slot of the next incarnation, which is the oldest of its partition.
    fn vacate(&mut self, slot: u64, sequence: u64, count: u64) -> Result<(), IndexError> {
        let geometry = self.superblock.geometry;
        let Some(owner) = self.owners[slot as usize].checked_sub(1) else { return Ok(()) };
        while let Some(&oldest) = self.tables[owner as usize].incarnations.front() {
            let is_overwritten = match geometry.list {
                List::Shared => oldest.sequence + geometry.slots <= sequence,
                List::PerPartition => oldest.count + geometry.incarnations() <= count,
            };
            if !is_overwritten {
                break;
            }
            if oldest.sequence >= self.superblock.durable {
                // Recovery takes records that are not known to be durable as far as none is
                // missing, so none of those may be overwritten.
                self.sync()?;
                self.record()?;
                self.sync()?;
            }
            self.choose(owner);
            self.evict(owner);
        }
        Ok(())
    }

    /// Removes the oldest incarnation of a partition.
    fn evict(&mut self, partition: u32) {
        let evicted = self.tables[partition as usize].pop(&self.for_deletes, &self.for_filters);
        self.stats.evicted += u64::from(evicted.is_some());
    }

    fn sync(&mut self) -> Result<(), IndexError> {
        self.stats.syncs += 1;
        if let Err(error) = self.device.sync() {
            // What was not synced may be gone, and the next sync would not say so.
            self.failed = true;
            return Err(match error {
                DeviceError::Failed => IndexError::Failed,
                error => IndexError::Device(error),
            });
        }
        self.superblock.durable = self.recorded;
        Ok(())
    }

    /// Writes the records of all slots that have none. The slots must be durable.
    fn record(&mut self) -> Result<(), IndexError> {
        let per_page = (PAGE / directory::BYTES) as u64;
        let mut slots = std::mem::take(&mut self.unrecorded);
        slots.sort_unstable_by_key(|(slot, record)| (*slot, record.sequence));
        let pages = slots.chunk_by(|a, b| a.0 / per_page == b.0 / per_page);
        let written = pages.into_iter().try_for_each(|records| {
            let at =
                self.superblock.geometry.directory_at() + records[0].0 / per_page * PAGE as u64;
            self.device.read(at, &mut self.page)?;
            for (slot, record) in records {
                let from = (slot % per_page) as usize * directory::BYTES;
                record.write(&self.superblock.id, *slot, &mut self.page[from..]);
            }
            self.stats.written += PAGE as u64;
            self.device.write(at, &self.page)
        });
        if let Err(error) = written {
            slots.sort_unstable_by_key(|(_, record)| record.sequence);
            self.unrecorded = slots;
            return Err(error.into());
        }
        self.recorded = self.sequence;
        Ok(())
    }

    /// Makes everything that was inserted or deleted before durable.
    ///
    /// # Errors
    ///
    /// If the device fails. After a failed sync, the index accepts no more inserts.
    pub fn flush(&mut self) -> Result<Covered, IndexError> {
        if self.failed {
            return Err(IndexError::Failed);
        }
        let per_page = spill::entries(self.entries.key, self.entries.value);
        let pages = self.buffers.fresh().count().div_ceil(per_page) as u64;
        if self.spilled + pages <= self.superblock.geometry.spill {
            let all = self.buffers.fresh();
            let place = (self.superblock.generation, self.superblock.epoch, self.spilled);
            let tables = &self.tables;
            let entries =
                all.map(|(partition, (key, value))| (tables[partition as usize].next, key, value));
            let written =
                write_spill(&*self.device, &self.superblock, place, entries, &mut self.page)?;
            self.spilled += written;
            self.stats.written += written * PAGE as u64;
            self.buffers.spilled();
            self.sync()?;
            if !self.unrecorded.is_empty() {
                self.record()?;
                self.sync()?;
            }
        } else {
            // Slots and records first: then nothing needs the old spill but what buffers hold.
            self.sync()?;
            self.record()?;
            self.sync()?;
            self.spill_all(&[])?;
        }
        Ok(Covered(self.stats.inserts + self.stats.deletes))
    }

    /// Starts the next generation of the spill, with everything that buffers hold and these entries.
    fn spill_all(&mut self, more: &[Pair]) -> Result<(), IndexError> {
        let Superblock { geometry, secret, .. } = self.superblock;
        let partitions = geometry.partitions;
        let (tables, buffers) = (&self.tables, &self.buffers);
        let entries = (0..partitions).flat_map(|partition| {
            let count = tables[partition as usize].next;
            buffers.entries(partition).map(move |(key, value)| (count, key, value))
        });
        let entries = entries.chain(more.iter().map(|(key, value)| {
            let hash = hash(&secret, partitions, key);
            (tables[hash.partition as usize].next, &key[..], value.as_deref())
        }));
        let place = (self.superblock.generation + 1, self.superblock.epoch, 0);
        let written = write_spill(&*self.device, &self.superblock, place, entries, &mut self.page)?;
        self.stats.written += written * PAGE as u64;
        self.sync()?;
        self.superblock.generation += 1;
        self.superblock.spilled = 0;
        self.write_superblock()?;
        self.spilled = written;
        self.buffers.spilled();
        Ok(())
    }

    fn write_superblock(&mut self) -> Result<(), IndexError> {
        self.superblock.number += 1;
        self.superblock.write(&mut self.page);
        self.device.write(self.superblock.at(), &self.page)?;
        self.stats.written += PAGE as u64;
        self.sync()
    }

    /// Flushes, and notes that nothing was lost.
    ///
    /// # Errors
    ///
    /// As for [`Index::flush`].
    pub fn close(mut self) -> Result<(), IndexError> {
        self.flush()?;
        self.superblock.spilled = self.spilled;
        self.superblock.clean =
            self.clean || self.tables.iter().all(|table| table.loaded.get().is_some());
        self.write_superblock()
    }

    /// Counters since the index was opened.
    #[must_use]
    pub fn stats(&self) -> Stats {
        let mut stats = self.stats;
        self.counters.add_to(&mut stats);
        stats
    }

    /// Sets all counters to zero; later [`Covered`] count from here.
    pub fn reset_stats(&mut self) {
        self.stats = Stats::default();
        self.counters = Counters::default();
    }

    /// Memory in use, as configured.
    #[must_use]
    pub fn memory(&self) -> Memory {
        self.memory
    }

    /// The Bloom filters.
    #[must_use]
    pub fn filters(&self) -> Filters {
        let geometry = &self.superblock.geometry;
        Filters {
            partitions: geometry.partitions,
            entries: geometry.capacity(),
            incarnations: self.shape.most,
            bits: self.shape.bits(),
            hashes: self.shape.hashes(),
        }
    }

    /// Bytes of a key and of a value.
    #[must_use]
    pub fn lengths(&self) -> (usize, usize) {
        (self.entries.key, self.entries.value)
    }

    /// Entries that fit before the oldest are evicted.
    #[must_use]
    pub fn capacity(&self) -> u64 {
        let geometry = &self.superblock.geometry;
        (geometry.slots + u64::from(geometry.partitions)) * u64::from(geometry.capacity())
    }
}

/// Writes entries to the spill from a page on. Returns the number of pages.
fn write_spill<'a>(
    device: &dyn Device,
    superblock: &Superblock,
    (generation, epoch, first): (u64, u64, u64),
    entries: impl Iterator<Item = (u64, &'a [u8], Option<&'a [u8]>)>,
    page: &mut [u8],
) -> Result<u64, DeviceError> {
    let geometry = &superblock.geometry;
    let per_page = spill::entries(geometry.key, geometry.value);
    let (mut written, mut len) = (0, 0);
    let write = |len: usize, written: &mut u64, page: &mut [u8]| {
        let place = spill::Place { generation, epoch, page: first + *written };
        spill::seal(&superblock.id, &place, len, geometry.key, geometry.value, page);
        *written += 1;
        device.write(geometry.spill_at(generation) + place.page * PAGE as u64, page)
    };
    for (count, key, value) in entries {
        spill::put_entry(page, len, geometry.value, &spill::Spilled { count, key, value });
        len += 1;
        if len == per_page {
            write(std::mem::take(&mut len), &mut written, page)?;
        }
    }
    if len > 0 {
        write(len, &mut written, page)?;
    }
    Ok(written)
}
