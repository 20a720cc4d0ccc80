//! Devices with what an attacker wrote, and an index that has to cope with it.

use super::Bytes;
use oncewire_flash::device::{Device, Memory, PAGE};
use oncewire_flash::format::{Geometry, Layout, List, Superblock, directory, page, spill};
use oncewire_flash::{Eviction, Filter, Index, Options};
use std::sync::Arc;

pub const SIZE: u64 = 256 << 10;
pub const ID: [u8; 16] = *b"an id of a test.";

/// What can be on a device besides its superblock.
pub enum Kind {
    Record,
    Slot,
    Spill,
    /// Bytes without a checksum, anywhere but in the superblocks.
    Any,
}

pub struct Case {
    pub device: Arc<Memory>,
    pub superblock: Superblock,
    pub options: Options,
}

impl Case {
    /// A device with a valid superblock.
    pub fn new(bytes: &mut Bytes<'_>) -> Case {
        let choice = bytes.byte();
        let list = if choice & 1 == 0 { List::Shared } else { List::PerPartition };
        let filter = if choice >> 2 & 1 == 0 { Filter::Sliced } else { Filter::Maplet };
        let layout = if choice >> 1 & 1 == 0 { Layout::Published } else { Layout::Sorted };
        let geometry = Geometry::fit(SIZE, 2, 1, 2, 3, list, layout).expect("fits");
        let superblock = Superblock {
            id: ID,
            secret: [7; 16],
            number: bytes.number(2),
            epoch: bytes.number(2),
            durable: bytes.number(1),
            generation: bytes.number(1),
            spilled: bytes.number(1).min(geometry.spill),
            clean: bytes.byte() & 1 == 0,
            geometry,
        };
        let device = Arc::new(Memory::new(SIZE as usize));
        let mut buffer = [0; PAGE];
        superblock.write(&mut buffer);
        device.write(superblock.at(), &buffer).expect("writes");
        Case { device, superblock, options: options(list, layout, filter) }
    }

    /// Writes something with a right checksum, or anything.
    pub fn write(&self, kind: &Kind, bytes: &mut Bytes<'_>) {
        let Case { device, superblock, .. } = self;
        let geometry = superblock.geometry;
        let mut buffer = [0; PAGE];
        let slot = bytes.number(1) % geometry.slots;
        let place = page::Place {
            sequence: bytes.number(1),
            epoch: bytes.number(1).min(superblock.epoch),
            count: bytes.number(1),
            partition: bytes.number(1) as u32 % 3,
            page: bytes.number(1) as u16 / 64,
        };
        match kind {
            Kind::Record => {
                let at = geometry.directory_at() + slot / 64 * PAGE as u64;
                device.read(at, &mut buffer).expect("reads");
                let page::Place { sequence, epoch, count, partition, .. } = place;
                let durable = bytes.number(1);
                let record = directory::Record {
                    sequence,
                    epoch,
                    count,
                    durable,
                    partition,
                    entries: 9,
                    deletes: 9,
                };
                record.write(&ID, slot, &mut buffer[(slot % 64) as usize * directory::BYTES..]);
                device.write(at, &buffer).expect("writes");
            }
            Kind::Slot => {
                fill(bytes, &mut buffer);
                page::seal(&ID, &place, &mut buffer);
                device.write(geometry.slot_at(slot), &buffer).expect("writes");
            }
            Kind::Spill => {
                fill(bytes, &mut buffer);
                let place = spill::Place {
                    generation: superblock.generation,
                    epoch: place.epoch,
                    page: slot,
                };
                let len = bytes.number(1) as usize % (spill::entries(2, 3) + 1);
                spill::seal(&ID, &place, len, 2, 3, &mut buffer);
                let at = geometry.spill_at(place.generation) + slot % geometry.spill * PAGE as u64;
                device.write(at, &buffer).expect("writes");
            }
            Kind::Any => {
                fill(bytes, &mut buffer);
                let at = bytes.number(2) % (SIZE / PAGE as u64 - 2) + 2;
                device.write(at * PAGE as u64, &buffer).expect("writes");
            }
        }
    }

    /// Whatever is there, the index opens, works, and can be closed and opened again.
    pub fn work(&self) {
        let Case { device, options, .. } = self;
        for _ in 0..2 {
            let (mut index, _) = Index::open(Box::new(device.clone()), options).expect("opens");
            assert!(index.memory().total() <= options.memory);
            for key in 0..64u16 {
                let _ = index.get(&key.to_le_bytes()).expect("answers");
            }
            for key in 0..300u16 {
                index.insert(&key.to_le_bytes(), b"new").expect("inserts");
                if key % 100 == 0 {
                    index.delete(&key.to_le_bytes()).expect("deletes");
                    index.flush().expect("flushes");
                }
            }
            index.load_all();
            let newest = index.get(&299u16.to_le_bytes()).expect("answers");
            assert_eq!(newest, oncewire_flash::Answer::Value(b"new".to_vec()));
            index.close().expect("closes");
        }
    }
}

fn options(list: List, layout: Layout, filter: Filter) -> Options {
    Options {
        key: 2,
        value: 3,
        memory: 1400 << 10,
        buffers: 2 * PAGE as u64,
        buffer: PAGE as u64,
        list,
        layout,
        filter,
        window: 0,
        threads: 2,
        eviction: Eviction::Updated,
    }
}

/// A page of a few bytes, repeated.
fn fill(bytes: &mut Bytes<'_>, page: &mut [u8; PAGE]) {
    let pattern: Vec<u8> = (0..=bytes.byte() % 16).map(|_| bytes.byte()).collect();
    for (byte, value) in page.iter_mut().zip(pattern.iter().cycle()) {
        *byte = *value;
    }
}
