//! What is read of a partition when it is used first: all its pages, for filters and delete list.

use super::table::{Fences, Loaded, Pages, Table};
use super::{Incarnation, Index};
use crate::device::{Aligned, PAGE};
use crate::format::{Layout, page, sorted};

impl Index {
    /// What the pages of a partition say. The first call reads them; other threads that need the
    /// same partition wait for it.
    pub(super) fn load(&self, partition: u32) -> &Loaded {
        self.tables[partition as usize].loaded.get_or_init(|| self.read_partition(partition))
    }

    fn read_partition(&self, partition: u32) -> Loaded {
        let geometry = &self.superblock.geometry;
        let table = &self.tables[partition as usize];
        let all = u64::MAX >> (64 - geometry.pages);
        let mut loaded = Loaded::new(&self.shape, geometry);
        let mut damaged = 0;
        let mut hashes = Vec::with_capacity(geometry.capacity() as usize);
        let mut image = Aligned::new(geometry.slot_bytes() as usize);
        for incarnation in &table.incarnations {
            let unreadable = self.read_slot(partition, incarnation, &mut image);
            let mut pages = Pages { lost: unreadable, gone: 0 };
            if incarnation.suspect && unreadable != 0 {
                // It was being overwritten when the process or machine crashed. Slots of older ones
                // come earlier, so those are evicted, too: they may have values that this one
                // replaced.
                loaded.pages.iter_mut().for_each(|older| *older = Pages { lost: 0, gone: all });
                pages = Pages { lost: 0, gone: unreadable };
            }
            damaged += u64::from(pages.lost.count_ones());
            let mut prefixes = Vec::new();
            hashes.clear();
            for (number, page) in image.chunks_exact(PAGE).enumerate() {
                if unreadable >> number & 1 == 1 {
                    prefixes.push(None);
                    continue;
                }
                let (mut lowest, mut highest) = (u16::MAX, 0);
                for (key, value) in self.reader.entries(page) {
                    let hash = self.hash_of(key);
                    hashes.push(hash.inside);
                    let prefix = sorted::prefix(hash.inside);
                    (lowest, highest) = (lowest.min(prefix), highest.max(prefix));
                    let count = incarnation.count;
                    loaded.deletes.note(key, value.is_none(), count, &self.for_deletes);
                }
                prefixes.push(Some((lowest, highest)));
            }
            let fences = match geometry.layout {
                Layout::Published => Fences::default(),
                Layout::Sorted => Fences::read(&prefixes),
            };
            loaded.push(incarnation.count, pages, &fences);
            self.add_newest(table, &mut loaded, &hashes);
        }
        // What the buffer holds is newer.
        for (key, value) in self.buffers.entries(partition) {
            loaded.deletes.note(key, value.is_none(), table.next, &self.for_deletes);
        }
        self.counters.add(&super::stats::Tally { damaged, ..Default::default() });
        loaded
    }

    /// Adds the newest incarnation to the filter. Where that has no room, older ones are evicted.
    fn add_newest(&self, table: &Table, loaded: &mut Loaded, hashes: &[u64]) {
        let newest = loaded.pages.len() - 1;
        let count = table.incarnations[newest].count;
        let mut done = 0;
        let mut oldest = 0;
        loaded.filter.enter(count);
        while let Err(n) = loaded.filter.add(count, &hashes[done..], &self.for_filters) {
            done += n;
            if oldest < newest {
                loaded.filter.leave(table.incarnations[oldest].count, &self.for_filters);
                loaded.pages[oldest] = Pages { lost: 0, gone: u64::MAX };
                self.counters.add(&super::stats::Tally { evicted_early: 1, ..Default::default() });
                oldest += 1;
            } else {
                loaded.filter.force(count, hashes[done], &self.for_filters);
                done += 1;
            }
        }
    }

    /// Reads a slot. Returns the pages that are not what was written, as bits.
    pub(super) fn read_slot(
        &self,
        partition: u32,
        incarnation: &Incarnation,
        image: &mut [u8],
    ) -> u64 {
        let geometry = &self.superblock.geometry;
        let at =
            geometry.slot_at(geometry.slot(incarnation.sequence, partition, incarnation.count));
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
    pub fn load_all(&self) {
        for partition in 0..self.superblock.geometry.partitions {
            self.load(partition);
        }
    }
}
