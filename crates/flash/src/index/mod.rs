//! The index: super tables over a ring of slots.
//!
//! What a returned [`Index::flush`] covered survives any crash. A slot counts once the directory
//! has its record, and records are written after a sync of their slots; `docs/FLASH.md` has the
//! order of all writes, and why it is enough.

mod open;
mod table;

use crate::buffer::{Buffers, NoPlace};
use crate::device::{Aligned, Device, DeviceError, PAGE};
use crate::error::IndexError;
use crate::filter::{Shape, Sliced, may_have};
use crate::format::directory::{self, Record};
use crate::format::hash::{Hash, hash};
use crate::format::page::{self, Entries};
use crate::format::{List, Superblock, spill};
use crate::options::{Answer, Covered, Filters, Memory, Stats};
use table::{Incarnation, Table};

/// Most incarnations between writes of the directory.
const BATCH: u64 = 64;
/// Parts of the ring, of which a batch is at most one.
const PARTS: u64 = 16;

/// A key with its value, or `None` for a delete.
type Pair = (Vec<u8>, Option<Vec<u8>>);

/// A key-value index on a device. See the example of the crate.
pub struct Index {
    device: Box<dyn Device>,
    superblock: Superblock,
    entries: Entries,
    shape: Shape,
    buffers: Buffers,
    tables: Vec<Table>,
    filters: Vec<Sliced>,
    /// The partition whose incarnation is in a slot, plus one.
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
    /// Memory that the delete lists may still take.
    deletes_left: u64,
    /// The index was closed when it was opened, or every table was read since.
    clean: bool,
    failed: bool,
    stats: Stats,
    page: Aligned,
    candidates: Vec<u64>,
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
        self.put(hash, key, Some(value))?;
        self.deletes_left += self.tables[hash.partition as usize].undelete(key);
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
        self.remember_delete(hash.partition, key);
        self.stats.deletes += 1;
        Ok(())
    }

    fn remember_delete(&mut self, partition: u32, key: &[u8]) {
        let table = &mut self.tables[partition as usize];
        if self.deletes_left >= Table::delete_bytes(key) {
            let count = table.next;
            self.deletes_left -= table.delete(key, count);
        }
    }

    fn hash(&self, key: &[u8]) -> Result<Hash, IndexError> {
        if key.len() != self.entries.key {
            return Err(IndexError::Key { len: key.len(), expected: self.entries.key });
        }
        Ok(hash(&self.superblock.secret, self.superblock.geometry.partitions, key))
    }

    fn put(&mut self, hash: Hash, key: &[u8], value: Option<&[u8]>) -> Result<(), IndexError> {
        if self.failed {
            return Err(IndexError::Failed);
        }
        let full = self.buffers.len(hash.partition) >= self.superblock.geometry.capacity();
        if full && self.buffers.get(hash, key).is_none() {
            self.write_out(hash.partition)?;
        }
        if let Err(NoPlace) = self.buffers.put(hash, key, value) {
            self.write_out(hash.partition)?;
            self.stats.early += 1;
            let placed = self.buffers.put(hash, key, value);
            debug_assert!(placed.is_ok(), "an empty page has a place");
        }
        Ok(())
    }

    /// Writes a buffer as the newest incarnation of its partition.
    fn write_out(&mut self, partition: u32) -> Result<(), IndexError> {
        self.load(partition);
        if self.unrecorded.len() as u64 >= self.batch {
            self.sync()?;
            self.record()?;
        }
        let Superblock { id, geometry, epoch, .. } = self.superblock;
        let sequence = self.sequence;
        let count = self.tables[partition as usize].next;
        let slot = geometry.slot(sequence, partition, count);
        while let Some(owner) = self.owners[slot as usize].checked_sub(1) {
            let oldest = self.tables[owner as usize].incarnations.front();
            if oldest.is_some_and(|oldest| oldest.sequence >= self.superblock.durable) {
                // Recovery takes records that are not known to be durable as far as none is
                // missing, so none of those may be overwritten.
                self.sync()?;
                self.record()?;
                self.sync()?;
            }
            self.evict(owner);
        }
        let durable = self.superblock.durable;
        while self.tables[partition as usize].incarnations.len() >= self.shape.most as usize {
            self.stats.evicted_early += 1;
            self.evict(partition);
        }
        let image = self.buffers.image(partition);
        for (number, page) in image.chunks_exact_mut(PAGE).enumerate() {
            let place = page::Place { sequence, epoch, count, partition, page: number as u16 };
            page::seal(&id, &place, page);
        }
        self.device.write(geometry.slot_at(slot), image)?;
        self.stats.written += image.len() as u64;
        self.stats.incarnations += 1;

        self.filters[partition as usize].enter(&self.shape, count);
        for (key, _) in self.buffers.entries(partition) {
            let hash = hash(&self.superblock.secret, geometry.partitions, key);
            self.filters[partition as usize].add(&self.shape, count, hash.inside);
        }
        let table = &mut self.tables[partition as usize];
        table.push(Incarnation {
            count,
            sequence,
            epoch,
            slot: slot as u32,
            lost: 0,
            gone: 0,
            suspect: false,
        });
        self.owners[slot as usize] = partition + 1;
        self.sequence += 1;
        let (entries, deletes) = (self.buffers.len(partition), self.buffers.deletes(partition));
        self.unrecorded
            .push((slot, Record { sequence, epoch, count, durable, partition, entries, deletes }));
        self.buffers.clear(partition);
        Ok(())
    }

    /// Removes the oldest incarnation of a partition.
    fn evict(&mut self, partition: u32) {
        if let Some((slot, freed)) = self.tables[partition as usize].pop() {
            self.owners[slot as usize] = 0;
            self.deletes_left += freed;
            self.stats.evicted += 1;
        }
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
                all.map(|(partition, key, value)| (tables[partition as usize].next, key, value));
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

    /// Looks up the newest value of a key.
    ///
    /// # Errors
    ///
    /// If the key has a wrong length. Pages that cannot be read give [`Answer::Unknown`].
    pub fn get(&mut self, key: &[u8]) -> Result<Answer, IndexError> {
        let hash = self.hash(key)?;
        self.stats.look_ups += 1;
        let before = self.stats.pages_read;
        let answer = self.find(hash, key);
        let read = self.stats.pages_read - before;
        self.stats.reads[read.min(3) as usize] += 1;
        self.stats.found += u64::from(matches!(answer, Answer::Value(_)));
        Ok(answer)
    }

    fn find(&mut self, hash: Hash, key: &[u8]) -> Answer {
        if let Some(value) = self.buffers.get(hash, key) {
            return value.map_or(Answer::Absent, |value| Answer::Value(value.to_vec()));
        }
        self.load(hash.partition);
        let table = &self.tables[hash.partition as usize];
        if table.is_deleted(key) {
            self.stats.delete_list += 1;
            return Answer::Absent;
        }
        let Superblock { id, geometry, .. } = self.superblock;
        let number = page::page_of(hash, geometry.pages);
        let filter = &self.filters[hash.partition as usize];
        filter.candidates(&self.shape, hash.inside, &mut self.candidates);
        for incarnation in table.incarnations.iter().rev() {
            if incarnation.gone >> number & 1 == 1 {
                continue;
            }
            if incarnation.lost >> number & 1 == 1 {
                return Answer::Unknown;
            }
            if !may_have(&self.shape, &self.candidates, incarnation.count) {
                continue;
            }
            let at =
                geometry.slot_at(u64::from(incarnation.slot)) + u64::from(number) * PAGE as u64;
            self.stats.pages_read += 1;
            let place = incarnation.place(hash.partition, number);
            let page = &mut self.page[..PAGE];
            if self.device.read(at, page).is_err() || !page::is_sealed(&id, &place, page) {
                self.stats.damaged += 1;
                return Answer::Unknown;
            }
            if let Some(place) = self.entries.find(page, hash, key) {
                if self.entries.is_deleted(page, place) {
                    return Answer::Absent;
                }
                return Answer::Value(self.entries.value(page, place).to_vec());
            }
            self.stats.spurious += 1;
        }
        Answer::Absent
    }

    /// Flushes, and notes that nothing was lost.
    ///
    /// # Errors
    ///
    /// As for [`Index::flush`].
    pub fn close(mut self) -> Result<(), IndexError> {
        self.flush()?;
        self.superblock.spilled = self.spilled;
        self.superblock.clean = self.clean || self.tables.iter().all(|table| table.loaded);
        self.write_superblock()
    }

    /// Counters since the index was opened.
    #[must_use]
    pub fn stats(&self) -> Stats {
        self.stats
    }

    /// Sets all counters to zero; later [`Covered`] count from here.
    pub fn reset_stats(&mut self) {
        self.stats = Stats::default();
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
            bits: self.shape.slices,
            hashes: self.shape.hashes,
        }
    }

    /// Entries that fit before the oldest are evicted.
    #[must_use]
    pub fn capacity(&self) -> u64 {
        let geometry = &self.superblock.geometry;
        (geometry.slots + u64::from(geometry.partitions)) * u64::from(geometry.capacity())
    }

    /// Reads the incarnations of a partition whose filters are not in memory yet.
    fn load(&mut self, partition: u32) {
        if self.tables[partition as usize].loaded {
            return;
        }
        self.tables[partition as usize].loaded = true;
        let geometry = self.superblock.geometry;
        let all = u64::MAX >> (64 - geometry.pages);
        let mut image = Aligned::new(geometry.slot_bytes() as usize);
        let mut kept: Vec<Incarnation> = Vec::new();
        let mut only_evicted = true;
        for mut incarnation in std::mem::take(&mut self.tables[partition as usize].incarnations) {
            incarnation.lost = self.read_slot(partition, &incarnation, &mut image);
            let unreadable = incarnation.lost;
            let evicted = incarnation.suspect
                && incarnation.lost != 0
                && (geometry.list == List::Shared || only_evicted);
            only_evicted &= evicted;
            if evicted {
                // It was being overwritten when the process or machine crashed. Slots of older ones
                // come earlier, so those are evicted, too: they may have values that this one
                // replaced.
                for older in kept.drain(..) {
                    self.owners[older.slot as usize] = 0;
                }
                if incarnation.lost == all {
                    self.owners[incarnation.slot as usize] = 0;
                    continue;
                }
                incarnation.gone = std::mem::take(&mut incarnation.lost);
            }
            incarnation.suspect = false;
            self.stats.damaged += u64::from(incarnation.lost.count_ones());
            self.filters[partition as usize].enter(&self.shape, incarnation.count);
            for (number, page) in image.chunks_exact(PAGE).enumerate() {
                if unreadable >> number & 1 == 1 {
                    continue;
                }
                for (key, value) in crate::buffer::used(self.entries, page) {
                    let secret = &self.superblock.secret;
                    let hash = hash(secret, self.superblock.geometry.partitions, key);
                    self.filters[partition as usize].add(
                        &self.shape,
                        incarnation.count,
                        hash.inside,
                    );
                    let table = &mut self.tables[partition as usize];
                    match value {
                        Some(_) => self.deletes_left += table.undelete(key),
                        None if self.deletes_left >= Table::delete_bytes(key) => {
                            self.deletes_left -= table.delete(key, incarnation.count);
                        }
                        // A delete that is not in the list is found on the device.
                        None => self.deletes_left += table.undelete(key),
                    }
                }
            }
            kept.push(incarnation);
        }
        let table = &mut self.tables[partition as usize];
        table.incarnations = kept.into();
        // What the buffer holds is newer.
        for (key, value) in self.buffers.entries(partition) {
            match value {
                Some(_) => self.deletes_left += table.undelete(key),
                None if self.deletes_left >= Table::delete_bytes(key) => {
                    self.deletes_left -= table.delete(key, table.next);
                }
                None => self.deletes_left += table.undelete(key),
            }
        }
    }

    /// Reads a slot. Returns the pages that are not what was written, as bits.
    fn read_slot(&self, partition: u32, incarnation: &Incarnation, image: &mut [u8]) -> u64 {
        let geometry = &self.superblock.geometry;
        let at = geometry.slot_at(u64::from(incarnation.slot));
        let mut lost = 0;
        if self.device.read(at, image).is_err() {
            // Only some of its pages may be unreadable.
            for (number, page) in image.chunks_exact_mut(PAGE).enumerate() {
                if self.device.read(at + (number * PAGE) as u64, page).is_err() {
                    lost |= 1 << number;
                }
            }
        }
        for (number, page) in image.chunks_exact(PAGE).enumerate() {
            let place = incarnation.place(partition, number as u32);
            if !page::is_sealed(&self.superblock.id, &place, page) {
                lost |= 1 << number;
            }
        }
        lost
    }

    /// Reads the incarnations of every partition, so that no later look-up has to.
    pub fn load_all(&mut self) {
        for partition in 0..self.superblock.geometry.partitions {
            self.load(partition);
        }
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
