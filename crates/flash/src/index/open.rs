//! Creation and recovery.

use super::batch::{QUEUED, SORT};
use super::evict::Kept;
use super::stats::Counters;
use super::table::Loaded;
use super::{BATCH, Incarnation, Index, PARTS, Pair, Table};
use crate::allowance::Allowance;
use crate::buffer::{Buffers, Scratch};
use crate::device::{Aligned, Device, DeviceError, PAGE, PageBuffer};
use crate::error::{IndexError, OpenError};
use crate::filter::{self, MOST_IN_MAPLET, Shape};
use crate::format::directory::{self, Entry, Record};
use crate::format::hash::{hash, mix};
use crate::format::page::{self, Entries};
use crate::format::superblock::FormatError;
use crate::format::{Geometry, List, Reader, Superblock, spill};
use crate::options::{Filter, Memory, Opened, Options, Stats};
use std::hash::{BuildHasher, RandomState};
use std::mem::size_of;
use std::sync::{Arc, OnceLock};

/// Bytes read at once from directory and spill.
const CHUNK: usize = 1 << 20;
/// Pages of the spill in a row that do not count, after which it ends.
const GAP: u64 = 64;
/// Bytes of entries of the spill for which a buffer has no place, and which wait in memory.
const WAITING: usize = 48 << 10;
/// Bytes of such an entry beside key and value.
const WAITS: usize = 96;
/// Part of the memory for delete lists.
const DELETES: u64 = 256;

/// What recovery knows of a slot.
struct Found {
    sequence: u64,
    epoch: u64,
    count: u64,
    slot: u32,
    partition: u32,
    /// The record is damaged, and pages of the slot say so.
    by_pages: bool,
}

impl Found {
    fn new(slot: u64, record: &Record, by_pages: bool) -> Found {
        let Record { sequence, epoch, count, partition, .. } = *record;
        Found { sequence, epoch, count, slot: slot as u32, partition, by_pages }
    }
}

impl Index {
    /// Opens the index on a device, or creates one if the device is empty.
    ///
    /// # Errors
    ///
    /// If the options are out of range or differ from those it was created with, the device has
    /// something else or fails, or the superblocks are damaged. Other damage is reported in
    /// [`Opened`] and costs the keys that it hit.
    pub fn open(device: Box<dyn Device>, options: &Options) -> Result<(Index, Opened), OpenError> {
        options.check()?;
        let mut opened = Opened::default();
        let superblock = match read_superblock(&*device)? {
            Some(superblock) => {
                same(&superblock.geometry, options)?;
                let (end, size) = (superblock.geometry.end(), device.size());
                if end > size {
                    return Err(OpenError::Truncated { end, size });
                }
                superblock
            }
            None => {
                opened.created = true;
                create(&*device, options)?
            }
        };
        opened.clean = superblock.clean;
        let mut index = Index::new(device.into(), superblock, options)?;
        index.recover(&mut opened)?;
        Ok((index, opened))
    }

    fn new(
        device: Arc<dyn Device>,
        superblock: Superblock,
        options: &Options,
    ) -> Result<Index, OpenError> {
        let geometry = superblock.geometry;
        let most = match geometry.list {
            // Buffers do not fill exactly in turn.
            List::Shared => geometry.slots.div_ceil(u64::from(geometry.partitions)) + 1,
            List::PerPartition => geometry.incarnations(),
        };
        let entries = Entries { key: geometry.key, value: geometry.value };
        let mut memory = Memory {
            buffers: Buffers::memory(&geometry),
            filters: 0,
            tables: geometry.slots * 4
                + u64::from(geometry.partitions)
                    * ((most + 1) * size_of::<Incarnation>() as u64
                        + Loaded::memory(most, &geometry)
                        + size_of::<Table>() as u64)
                // One to write buffers, and one to read a partition.
                + 2 * Scratch::memory(geometry.slot_bytes(), geometry.capacity())
                + Kept::memory(options.eviction, geometry.capacity(), geometry.key + geometry.value)
                + scratch(options.threads)
                + 64 * 1024,
            deletes: options.memory / DELETES,
        };
        let left = options.memory.saturating_sub(memory.total());
        let shared = filter::shared(options.filter, left);
        let left = (left - shared) / u64::from(geometry.partitions);
        let most = most.min(u64::from(u32::MAX / 2)) as u32;
        if options.filter == Filter::Maplet && most > MOST_IN_MAPLET {
            // With less to write into, or larger buffers, it is enough.
            let (value, most) = (u64::from(most), u64::from(MOST_IN_MAPLET));
            let what = "incarnations of a buffer, with one more than fit";
            return Err(OpenError::Option { what, value, least: 1, most });
        }
        let capacity = geometry.capacity();
        let shape = Shape::new(options.filter, left, most, options.window, capacity);
        let shape = shape.map_err(|filter| {
            let filters = filter * u64::from(geometry.partitions);
            let filters = filters + filter::shared(options.filter, filters) * 65 / 64 + 64;
            let least = (memory.total() - memory.deletes + filters) * DELETES / (DELETES - 1) + 1;
            OpenError::Memory { memory: options.memory, least }
        })?;
        memory.filters = shape.bytes() * u64::from(geometry.partitions) + shared;
        // Records are in memory before filters are.
        let records = geometry.slots * size_of::<Found>() as u64;
        memory.tables += records.saturating_sub(memory.filters);
        if memory.total() > options.memory {
            return Err(OpenError::Memory { memory: options.memory, least: memory.total() });
        }
        Ok(Index {
            device,
            entries,
            shape,
            reader: Reader { layout: geometry.layout, entries },
            buffers: Buffers::new(&superblock),
            scratch: Scratch::new(geometry.slot_bytes() as usize, geometry.capacity() as usize),
            tables: (0..geometry.partitions).map(|_| Table::new(most)).collect(),
            owners: vec![0; geometry.slots as usize],
            sequence: superblock.durable,
            unrecorded: Vec::new(),
            batch: (geometry.slots / PARTS).clamp(1, BATCH),
            recorded: superblock.durable,
            spilled: 0,
            memory,
            for_deletes: Allowance::new(memory.deletes),
            for_filters: Allowance::new(shared),
            clean: superblock.clean,
            failed: false,
            eviction: options.eviction,
            kept: Kept::default(),
            stats: Stats::default(),
            counters: Counters::default(),
            page: Aligned::new(PAGE),
            pool: OnceLock::new(),
            threads: options.threads as usize,
            superblock,
        })
    }

    /// Restores tables and buffers, and starts an epoch.
    fn recover(&mut self, opened: &mut Opened) -> Result<(), OpenError> {
        let (records, durable) = self.read_directory(opened);
        let durable = durable.max(self.superblock.durable);
        // Records beyond the durable ones survived a crash by chance. They count as far as none
        // before them is missing.
        self.sequence = durable;
        let mut end = records.partition_point(|record| record.sequence < durable);
        while records.get(end).is_some_and(|record| record.sequence == self.sequence) {
            self.sequence += 1;
            end += 1;
        }
        let (records, dropped) = records.split_at(end);
        opened.dropped = dropped.len() as u64;
        for record in records {
            self.restore(record, opened);
        }
        let dropped = dropped.iter().map(|record| u64::from(record.slot)).collect();
        if !self.superblock.clean {
            self.suspect();
        }
        opened.incarnations = self.tables.iter().map(|table| table.incarnations.len() as u64).sum();
        let (waiting, stale) = self.read_spill(opened)?;

        // From here on, the device changes. A crash before the superblock leaves what there was.
        self.zero(dropped)?;
        let device = |error| match error {
            IndexError::Device(error) | IndexError::Full(error) => OpenError::Device(error),
            _ => OpenError::Device(DeviceError::Failed),
        };
        self.superblock.epoch += 1;
        self.superblock.clean = false;
        self.recorded = self.sequence;
        self.sync().map_err(device)?;
        if stale || !waiting.is_empty() {
            // Entries that do not count now must not count later.
            self.spill_all(&waiting).map_err(device)?;
        } else {
            self.superblock.spilled = self.spilled;
            self.write_superblock().map_err(device)?;
        }
        for (key, value) in waiting {
            let hash = hash(&self.superblock.secret, self.superblock.geometry.partitions, &key);
            self.put(hash, &key, value.as_deref()).map_err(device)?;
        }
        self.reset_stats();
        self.clean |= opened.created;
        Ok(())
    }

    /// All valid records by sequence, and the highest sequence below which all were durable. Pages
    /// of a slot say the same as its record, so a damaged record costs nothing.
    fn read_directory(&self, opened: &mut Opened) -> (Vec<Found>, u64) {
        let geometry = &self.superblock.geometry;
        let mut records = Vec::with_capacity(geometry.slots as usize);
        let (at, pages) = (geometry.directory_at(), geometry.directory_pages());
        let per_page = (PAGE / directory::BYTES) as u64;
        let mut durable = 0;
        read_pages(&*self.device, at, pages, &mut |number, page| {
            let slots = (number * per_page..geometry.slots).take(per_page as usize);
            for (slot, bytes) in slots.zip(page.chunks_exact(directory::BYTES)) {
                match Record::read(&self.superblock.id, slot, bytes) {
                    Entry::Record(record) if self.belongs(slot, &record) => {
                        durable = durable.max(record.durable);
                        records.push(Found::new(slot, &record, false));
                    }
                    Entry::Empty => {}
                    _ => {
                        opened.damaged += 1;
                        records.extend(self.find_record(slot));
                    }
                }
            }
            true
        });
        // Where a page claims the sequence of a valid record, the record counts.
        records.sort_unstable_by_key(|found| (found.sequence, found.by_pages));
        records.dedup_by_key(|found| found.sequence);
        (records, durable)
    }

    /// What the pages of a slot say that its record was.
    fn find_record(&self, slot: u64) -> Option<Found> {
        let geometry = &self.superblock.geometry;
        let mut page = PageBuffer::default();
        (0..u64::from(geometry.pages)).find_map(|n| {
            let at = geometry.slot_at(slot) + n * PAGE as u64;
            self.device.read(at, &mut page.0).ok()?;
            let place = page::place(&self.superblock.id, &page.0)?;
            let record = Record {
                sequence: place.sequence,
                epoch: place.epoch,
                count: place.count,
                durable: 0,
                partition: place.partition,
                entries: 0,
                deletes: 0,
            };
            self.belongs(slot, &record).then(|| Found::new(slot, &record, true))
        })
    }

    fn belongs(&self, slot: u64, record: &Record) -> bool {
        let geometry = &self.superblock.geometry;
        record.partition < geometry.partitions
            && record.epoch <= self.superblock.epoch
            && geometry.slot(record.sequence, record.partition, record.count) == slot
    }

    fn restore(&mut self, record: &Found, opened: &mut Opened) {
        let table = &mut self.tables[record.partition as usize];
        if !table.incarnations.is_empty() && record.count < table.next {
            opened.damaged += 1;
            return;
        }
        // Columns of filters are for consecutive numbers.
        let first = (record.count + 1).saturating_sub(u64::from(self.shape.most));
        while table.incarnations.front().is_some_and(|oldest| oldest.count < first) {
            table.pop(&self.for_deletes, &self.for_filters);
        }
        table.push(Incarnation {
            count: record.count,
            sequence: record.sequence,
            epoch: record.epoch,
            suspect: false,
            chosen: false,
        });
        self.owners[record.slot as usize] = record.partition + 1;
    }

    /// Marks what may have been overwritten although no durable record says so: the next slots of
    /// the list, as many as two batches have, and one whose write failed.
    fn suspect(&mut self) {
        let geometry = &self.superblock.geometry;
        for Table { incarnations, next, .. } in &mut self.tables {
            for incarnation in incarnations {
                incarnation.suspect = match geometry.list {
                    List::Shared => {
                        incarnation.sequence + geometry.slots <= self.sequence + 2 * self.batch
                    }
                    List::PerPartition => {
                        incarnation.count + geometry.incarnations() <= *next + 2 * self.batch
                    }
                };
            }
        }
    }

    /// Puts what was spilled back into buffers. Returns entries that have no place there, and
    /// whether there were entries that do not count.
    fn read_spill(&mut self, opened: &mut Opened) -> Result<(Vec<Pair>, bool), OpenError> {
        let Superblock { id, geometry, generation, epoch, spilled, secret, .. } = self.superblock;
        let (mut waiting, mut stale) = (Vec::new(), false);
        let (mut end, mut invalid) = (0, 0);
        let (tables, buffers) = (&self.tables, &mut self.buffers);
        let at = geometry.spill_at(generation);
        let unreadable = read_pages(&*self.device, at, geometry.spill, &mut |number, page| {
            let valid = spill::read(&id, generation, number, geometry.key, geometry.value, page)
                // Later pages are of the last epoch; others survived an earlier crash by chance.
                .filter(|(of, _)| *of == epoch || number < spilled && *of < epoch);
            let Some((_, entries)) = valid else {
                invalid += 1;
                opened.damaged += u64::from(number < spilled);
                return invalid < GAP || number < spilled;
            };
            (invalid, end) = (0, number + 1);
            for entry in entries {
                let hash = hash(&secret, geometry.partitions, entry.key);
                let next = tables[hash.partition as usize].next;
                if entry.count != next {
                    // Smaller: it is in an incarnation. Larger: the flush did not return.
                    stale |= entry.count > next;
                    continue;
                }
                opened.spilled += 1;
                let full = buffers.len(hash.partition) >= geometry.capacity()
                    && buffers.get(hash, entry.key).is_none();
                if full || buffers.put(hash, entry.key, entry.value).is_err() {
                    if waiting.len() < WAITING / (geometry.key + geometry.value + WAITS) {
                        waiting.push((entry.key.to_vec(), entry.value.map(<[u8]>::to_vec)));
                    } else {
                        opened.damaged += 1;
                    }
                }
            }
            true
        });
        opened.damaged += unreadable;
        self.spilled = end;
        self.buffers.spilled();
        Ok((waiting, stale))
    }

    /// Zeroes the records of these slots.
    fn zero(&mut self, mut slots: Vec<u64>) -> Result<(), DeviceError> {
        slots.sort_unstable();
        let per_page = (PAGE / directory::BYTES) as u64;
        for slots in slots.chunk_by(|a, b| a / per_page == b / per_page) {
            let at = self.superblock.geometry.directory_at() + slots[0] / per_page * PAGE as u64;
            self.device.read(at, &mut self.page)?;
            for slot in slots {
                let from = (slot % per_page) as usize * directory::BYTES;
                self.page[from..from + directory::BYTES].fill(0);
            }
            self.device.write(at, &self.page)?;
        }
        Ok(())
    }
}

/// Memory that one operation needs: to open, to insert a batch, or to look one up. Pages that start
/// at a page boundary take up to twice their size.
fn scratch(threads: u32) -> u64 {
    // Each with a look-up that waits for it, and the thread itself.
    let pages = QUEUED as u64 * u64::from(threads) * (2 * PAGE as u64 + 512);
    pages.max(CHUNK as u64).max(SORT as u64 * 16)
}

fn same(geometry: &Geometry, options: &Options) -> Result<(), OpenError> {
    let pairs = [
        ("bytes of a key", geometry.key as u64, options.key as u64),
        ("bytes of a value", geometry.value as u64, options.value as u64),
        ("bytes of a buffer", geometry.slot_bytes(), options.buffer),
        ("buffers", u64::from(geometry.partitions), options.buffers / options.buffer),
    ];
    if let Some((what, found, asked)) = pairs.into_iter().find(|(_, found, asked)| found != asked) {
        return Err(OpenError::Differs { what, found, asked });
    }
    if geometry.list != options.list {
        return Err(OpenError::DiffersInList);
    }
    if geometry.layout != options.layout {
        return Err(OpenError::DiffersInLayout);
    }
    Ok(())
}

/// The valid superblock with the highest number; `None` if the device is empty.
fn read_superblock(device: &dyn Device) -> Result<Option<Superblock>, OpenError> {
    let mut pages = [[0; PAGE]; 2];
    let mut best: Option<Superblock> = None;
    let mut corrupt = None;
    for (n, page) in pages.iter_mut().enumerate() {
        if device.size() < (n as u64 + 1) * PAGE as u64 {
            continue;
        }
        match device.read((n * PAGE) as u64, page) {
            Ok(()) => {}
            // The other one may do.
            Err(error) if n == 1 && best.is_none() => return Err(error.into()),
            Err(_) => continue,
        }
        match Superblock::read(page) {
            Ok(read) if best.as_ref().is_none_or(|best| best.number < read.number) => {
                best = Some(read);
            }
            Ok(_) => {}
            Err(error) => corrupt = corrupt.filter(|_| error == FormatError::Magic).or(Some(error)),
        }
    }
    match (best, corrupt) {
        (Some(superblock), _) => Ok(Some(superblock)),
        (None, _) if Superblock::unfinished(&pages[0], &pages[1]) => Ok(None),
        (None, Some(error)) if error != FormatError::Magic => Err(OpenError::Corrupt(error)),
        (None, _) => Err(OpenError::Foreign),
    }
}

/// Makes an empty index.
fn create(device: &dyn Device, options: &Options) -> Result<Superblock, OpenError> {
    let partitions = (options.buffers / options.buffer) as u32;
    let pages = (options.buffer / PAGE as u64) as u32;
    let geometry = Geometry::fit(
        device.size(),
        partitions,
        pages,
        options.key,
        options.value,
        options.list,
        options.layout,
    )
    .map_err(OpenError::Geometry)?;
    // What another program left must not look like records.
    let zeros = Aligned::new(CHUNK);
    let mut left = geometry.directory_pages() * PAGE as u64;
    let mut at = geometry.directory_at();
    while left > 0 {
        let len = left.min(CHUNK as u64);
        device.write(at, &zeros[..len as usize])?;
        (at, left) = (at + len, left - len);
    }
    device.sync()?;
    let superblock = Superblock {
        id: random(),
        secret: random(),
        number: 0,
        epoch: 0,
        durable: 0,
        generation: 0,
        spilled: 0,
        clean: true,
        geometry,
    };
    let mut page = Aligned::new(PAGE);
    superblock.write(&mut page);
    device.write(superblock.at(), &page)?;
    device.sync()?;
    Ok(superblock)
}

/// 16 bytes that nobody can guess: keys that the standard library has from the system.
fn random() -> [u8; 16] {
    let mut bytes = [0; 16];
    for half in bytes.chunks_exact_mut(8) {
        let state = RandomState::new();
        half.copy_from_slice(&mix(state.hash_one(0x6f6e_6365_u64)).to_le_bytes());
    }
    bytes
}

/// Reads pages in large pieces, and hands them out one by one until the answer is no. A page that
/// cannot be read is full of ones, which are never valid. Returns the number of those.
fn read_pages(
    device: &dyn Device,
    at: u64,
    pages: u64,
    each: &mut dyn FnMut(u64, &[u8]) -> bool,
) -> u64 {
    let mut chunk = Aligned::new(CHUNK.min(pages as usize * PAGE));
    let mut unreadable = 0;
    let mut number = 0;
    while number < pages {
        let len = ((pages - number) as usize * PAGE).min(CHUNK);
        let from = at + number * PAGE as u64;
        let whole = device.read(from, &mut chunk[..len]).is_ok();
        for (n, page) in chunk[..len].chunks_exact_mut(PAGE).enumerate() {
            if !whole && device.read(from + (n * PAGE) as u64, page).is_err() {
                page.fill(0xff);
                unreadable += 1;
            }
            if !each(number, page) {
                return unreadable;
            }
            number += 1;
        }
    }
    unreadable
}
