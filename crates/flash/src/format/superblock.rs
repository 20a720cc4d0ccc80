//! The superblock: two copies, of which the one with the higher number is valid.

use super::{Id, get, get16, get32, get64, page, put, sorted, spill};
use crate::device::PAGE;
use thiserror::Error;
use xxhash_rust::xxh3::xxh3_64;

/// The first bytes of a superblock. The last one is the version of the format.
pub const MAGIC: [u8; 8] = *b"OWINDEX\x01";
/// Most pages of a slot.
pub const MOST_PAGES: u32 = 64;
/// Most partitions.
pub const MOST_PARTITIONS: u32 = 1 << 24;
/// Most bytes of a key, and of a value.
pub const MOST_KEY: usize = 255;

const CHECKED: usize = PAGE - 8;

/// How incarnations follow each other on the device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum List {
    /// One circular list for all partitions: all writes are sequential (T:4165).
    #[default]
    Shared,
    /// A circular list for each partition, as files of their own would be (T:4497).
    PerPartition,
}

/// What a slot looks like.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Layout {
    /// Hash tables that are half full, as in the thesis (T:4507).
    Published,
    /// Full pages of entries that ascend by hash: twice the entries in the same space.
    #[default]
    Sorted,
}

/// What never changes during the life of an index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Geometry {
    /// Slots, each of which holds an incarnation.
    pub slots: u64,
    /// Partitions of the key space, each with a super table.
    pub partitions: u32,
    /// Pages of a slot.
    pub pages: u32,
    /// Bytes of a key.
    pub key: usize,
    /// Bytes of a value.
    pub value: usize,
    /// What a slot looks like.
    pub layout: Layout,
    /// Order of slots.
    pub list: List,
    /// Pages of each of the two spill areas.
    pub spill: u64,
}

impl Geometry {
    /// The geometry for a device of `size` bytes: as many slots as fit.
    ///
    /// # Errors
    ///
    /// If sizes are out of range, or the device is too small for two incarnations of each partition.
    pub fn fit(
        size: u64,
        partitions: u32,
        pages: u32,
        key: usize,
        value: usize,
        list: List,
        layout: Layout,
    ) -> Result<Geometry, FormatError> {
        let mut geometry = Geometry {
            slots: 2 * u64::from(partitions),
            partitions,
            pages,
            key,
            value,
            layout,
            list,
            spill: 0,
        };
        geometry.check()?;
        // As much as an eighth of that for what a flush adds.
        geometry.spill = geometry.least_spill() * 9 / 8;
        let slot = geometry.slot_bytes();
        let page = PAGE as u64;
        let fixed = (2 + 2 * geometry.spill) * page + slot;
        // A record of the directory is needed for each slot, and the directory's last page is shared.
        let slots = size.saturating_sub(fixed + page) / (slot + directory_bytes());
        geometry.slots = match list {
            List::Shared => slots,
            List::PerPartition => slots / u64::from(partitions) * u64::from(partitions),
        };
        geometry.check()?;
        Ok(geometry)
    }

    fn check(&self) -> Result<(), FormatError> {
        let range = |what, value: u64, least, most| {
            if (least..=most).contains(&value) {
                Ok(())
            } else {
                Err(FormatError::OutOfRange { what, value, least, most })
            }
        };
        range("pages of a slot", u64::from(self.pages), 1, u64::from(MOST_PAGES))?;
        range("partitions", u64::from(self.partitions), 1, u64::from(MOST_PARTITIONS))?;
        range("bytes of a key", self.key as u64, 1, MOST_KEY as u64)?;
        range("bytes of a value", self.value as u64, 0, MOST_KEY as u64)?;
        range("slots", self.slots, 2 * u64::from(self.partitions), u64::from(u32::MAX))?;
        if self.list == List::PerPartition && !self.slots.is_multiple_of(u64::from(self.partitions))
        {
            return Err(FormatError::Uneven);
        }
        Ok(())
    }

    /// Pages of a spill area that has room for all buffers, and a few more.
    fn least_spill(&self) -> u64 {
        let entries = u64::from(self.partitions) * u64::from(self.capacity());
        entries.div_ceil(spill::entries(self.key, self.value) as u64) + 16
    }

    /// Bytes of a slot, and of a buffer.
    #[must_use]
    pub fn slot_bytes(&self) -> u64 {
        u64::from(self.pages) * PAGE as u64
    }

    /// Entries that a buffer holds: half of its places (T:4507), or as many as fit.
    #[must_use]
    pub fn capacity(&self) -> u32 {
        let entry = self.key + self.value;
        match self.layout {
            Layout::Published => self.pages * page::places(entry) as u32 / 2,
            Layout::Sorted => self.pages * sorted::most(entry) as u32,
        }
    }

    /// Incarnations of a partition with a list for each partition, and on average with one list.
    #[must_use]
    pub fn incarnations(&self) -> u64 {
        self.slots / u64::from(self.partitions)
    }

    /// The slot of an incarnation, by its sequence, or its partition and number there.
    #[must_use]
    pub fn slot(&self, sequence: u64, partition: u32, count: u64) -> u64 {
        match self.list {
            List::Shared => sequence % self.slots,
            List::PerPartition => {
                u64::from(partition) * self.incarnations() + count % self.incarnations()
            }
        }
    }

    /// Where the directory starts.
    #[must_use]
    pub fn directory_at(&self) -> u64 {
        2 * PAGE as u64
    }

    /// Pages of the directory.
    #[must_use]
    pub fn directory_pages(&self) -> u64 {
        (self.slots * directory_bytes()).div_ceil(PAGE as u64)
    }

    /// Where a spill area starts: that of generations which are even, or odd.
    #[must_use]
    pub fn spill_at(&self, generation: u64) -> u64 {
        let first = self.directory_at() + self.directory_pages() * PAGE as u64;
        first + generation % 2 * self.spill * PAGE as u64
    }

    /// Where a slot starts: after the spill areas, at a multiple of its size.
    #[must_use]
    pub fn slot_at(&self, slot: u64) -> u64 {
        let after = self.spill_at(0) + 2 * self.spill * PAGE as u64;
        after.next_multiple_of(self.slot_bytes()) + slot * self.slot_bytes()
    }

    /// Bytes of the device that are used.
    #[must_use]
    pub fn end(&self) -> u64 {
        self.slot_at(self.slots)
    }
}

fn directory_bytes() -> u64 {
    super::directory::BYTES as u64
}

/// The superblock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Superblock {
    /// Identifies the index.
    pub id: Id,
    /// Key of the hash of keys.
    pub secret: [u8; 16],
    /// Grows with each write; even numbers are in the first page, odd ones in the second.
    pub number: u64,
    /// One for each time the index was opened.
    pub epoch: u64,
    /// The records of all incarnations below this sequence were durable.
    pub durable: u64,
    /// The generation of the spill that counts.
    pub generation: u64,
    /// Pages of it that were written in earlier epochs.
    pub spilled: u64,
    /// Whether the index was closed, with nothing written since.
    pub clean: bool,
    /// Layout of the device.
    pub geometry: Geometry,
}

/// Why a superblock is not one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum FormatError {
    /// Wrong checksum.
    #[error("wrong checksum")]
    Checksum,
    /// It does not begin as one.
    #[error("not a superblock, or of another version")]
    Magic,
    /// A field that no superblock has.
    #[error("{value} {what}; must be {least} to {most}")]
    OutOfRange {
        /// What the field counts.
        what: &'static str,
        /// Its value.
        value: u64,
        /// Smallest value.
        least: u64,
        /// Largest value.
        most: u64,
    },
    /// Slots cannot be divided between the partitions.
    #[error("slots are not a multiple of partitions")]
    Uneven,
    /// A layout or list that this version does not know.
    #[error("unknown {what} {number}")]
    Unknown {
        /// Layout, list or flags.
        what: &'static str,
        /// Its number.
        number: u8,
    },
}

impl Superblock {
    /// Where it belongs.
    #[must_use]
    pub fn at(&self) -> u64 {
        self.number % 2 * PAGE as u64
    }

    /// Writes it to a page.
    pub fn write(&self, page: &mut [u8]) {
        let geometry = &self.geometry;
        page[..PAGE].fill(0);
        put(page, 0, &MAGIC);
        put(page, 8, &self.id);
        let numbers = [self.number, self.epoch, self.durable, self.generation, self.spilled];
        for (n, number) in numbers.into_iter().enumerate() {
            put(page, 24 + 8 * n, &number.to_le_bytes());
        }
        put(page, 64, &geometry.slots.to_le_bytes());
        put(page, 72, &geometry.spill.to_le_bytes());
        put(page, 80, &geometry.partitions.to_le_bytes());
        put(page, 84, &geometry.pages.to_le_bytes());
        put(page, 88, &(geometry.key as u16).to_le_bytes());
        put(page, 90, &(geometry.value as u16).to_le_bytes());
        page[92] = match geometry.layout {
            Layout::Published => 0,
            Layout::Sorted => 1,
        };
        page[93] = match geometry.list {
            List::Shared => 0,
            List::PerPartition => 1,
        };
        page[94] = u8::from(self.clean);
        put(page, 96, &self.secret);
        let sum = xxh3_64(&page[..CHECKED]);
        put(page, CHECKED, &sum.to_le_bytes());
    }

    /// Reads it from a page.
    ///
    /// # Errors
    ///
    /// If it is not a superblock, or one that this version did not write.
    pub fn read(page: &[u8; PAGE]) -> Result<Superblock, FormatError> {
        if page[..8] != MAGIC {
            return Err(FormatError::Magic);
        }
        if xxh3_64(&page[..CHECKED]) != get64(page, CHECKED) {
            return Err(FormatError::Checksum);
        }
        let layout = match page[92] {
            0 => Layout::Published,
            1 => Layout::Sorted,
            number => return Err(FormatError::Unknown { what: "layout", number }),
        };
        let list = match page[93] {
            0 => List::Shared,
            1 => List::PerPartition,
            number => return Err(FormatError::Unknown { what: "list", number }),
        };
        if page[94] > 1 {
            return Err(FormatError::Unknown { what: "flags", number: page[94] });
        }
        let geometry = Geometry {
            slots: get64(page, 64),
            spill: get64(page, 72),
            partitions: get32(page, 80),
            pages: get32(page, 84),
            key: usize::from(get16(page, 88)),
            value: usize::from(get16(page, 90)),
            layout,
            list,
        };
        geometry.check()?;
        let (value, least, most) = (geometry.spill, geometry.least_spill(), u64::from(u32::MAX));
        if !(least..=most).contains(&value) {
            return Err(FormatError::OutOfRange { what: "spill pages", value, least, most });
        }
        let superblock = Superblock {
            id: get(page, 8),
            secret: get(page, 96),
            number: get64(page, 24),
            epoch: get64(page, 32),
            durable: get64(page, 40),
            generation: get64(page, 48),
            spilled: get64(page, 56),
            clean: page[94] == 1,
            geometry,
        };
        // Counters that grow for a century stay below this; arithmetic with them cannot overflow.
        let most = 1 << 60;
        let counters = [
            ("as its number", superblock.number),
            ("epochs", superblock.epoch),
            ("incarnations", superblock.durable),
            ("generations", superblock.generation),
        ];
        for (what, value) in counters {
            if value > most {
                return Err(FormatError::OutOfRange { what, value, least: 0, most });
            }
        }
        let (value, most) = (superblock.spilled, geometry.spill);
        if value > most {
            return Err(FormatError::OutOfRange { what: "pages spilled", value, least: 0, most });
        }
        Ok(superblock)
    }

    /// Whether two pages without a valid superblock are what remains of a first write that power
    /// loss interrupted, rather than the data of another program: nothing but the sectors that the
    /// first superblock has.
    #[must_use]
    pub fn unfinished(first: &[u8; PAGE], second: &[u8; PAGE]) -> bool {
        let zero = |bytes: &[u8]| bytes.iter().all(|&byte| byte == 0);
        let begin = zero(&first[..512]) || first[..8] == MAGIC;
        begin && zero(&first[512..CHECKED]) && zero(second)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> Superblock {
        Superblock {
            id: [3; 16],
            secret: [4; 16],
            number: 5,
            epoch: 6,
            durable: 7,
            generation: 8,
            spilled: 9,
            clean: true,
            geometry: Geometry::fit(1 << 30, 64, 32, 8, 8, List::Shared, Layout::Published)
                .expect("fits"),
        }
    }

    #[test]
    fn what_was_written_is_read() {
        let mut page = [9; PAGE];
        let mut superblock = sample();
        superblock.write(&mut page);
        assert_eq!(Superblock::read(&page), Ok(superblock.clone()));
        superblock.geometry.list = List::PerPartition;
        superblock.geometry.layout = Layout::Sorted;
        superblock.geometry.spill = 8000;
        superblock.geometry.slots = 64 * 120;
        superblock.write(&mut page);
        assert_eq!(Superblock::read(&page), Ok(superblock));
    }

    #[test]
    fn any_changed_bit_shows() {
        let mut page = [0; PAGE];
        sample().write(&mut page);
        for bit in (0..8 * PAGE).step_by(7) {
            page[bit / 8] ^= 1 << (bit % 8);
            assert!(Superblock::read(&page).is_err(), "bit {bit}");
            page[bit / 8] ^= 1 << (bit % 8);
        }
    }

    #[test]
    fn hostile_fields_are_refused() {
        let refused = |change: fn(&mut Superblock)| {
            let mut superblock = sample();
            change(&mut superblock);
            let mut page = [0; PAGE];
            superblock.write(&mut page);
            Superblock::read(&page).expect_err("must be refused")
        };
        refused(|it| it.geometry.pages = 0);
        refused(|it| it.geometry.pages = 65);
        refused(|it| it.geometry.key = 0);
        refused(|it| it.geometry.slots = u64::MAX);
        refused(|it| it.geometry.partitions = 0);
        refused(|it| it.geometry.spill = u64::MAX);
        refused(|it| it.geometry.spill = 100);
        refused(|it| it.durable = u64::MAX);
        refused(|it| it.spilled = it.geometry.spill + 1);
        let uneven = refused(|it| {
            it.geometry.list = List::PerPartition;
            it.geometry.slots = 64 * 100 + 1;
        });
        assert_eq!(uneven, FormatError::Uneven);
    }

    #[test]
    fn a_geometry_fills_its_device() {
        for (size, partitions, list) in [
            (1 << 30, 64, List::Shared),
            (1 << 30, 60, List::PerPartition),
            (40 << 20, 3, List::Shared),
        ] {
            let geometry =
                Geometry::fit(size, partitions, 32, 8, 8, list, Layout::Published).expect("fits");
            let unused = size - geometry.end();
            assert!(
                geometry.end() <= size && unused < u64::from(partitions + 3) * 131_072,
                "{geometry:?}"
            );
        }
        // The thesis has 4,096 entries in 128 KB; checksums and bitmaps take 3 % of that.
        let geometry =
            Geometry::fit(1 << 30, 64, 32, 8, 8, List::Shared, Layout::Published).expect("fits");
        assert_eq!(geometry.capacity(), 3968);
        assert_eq!(Geometry { layout: Layout::Sorted, ..geometry }.capacity(), 8096);
        assert!(Geometry::fit(1 << 20, 64, 32, 8, 8, List::Shared, Layout::Published).is_err());
        assert!(Geometry::fit(0, 1, 1, 8, 8, List::Shared, Layout::Published).is_err());
    }
}
