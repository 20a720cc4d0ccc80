//! Hostile superblocks, records, pages and spills: with right checksums, so that what they say is
//! believed as far as it can be.

use super::Bytes;
use oncewire_flash::device::{Device, Memory, PAGE};
use oncewire_flash::format::{Geometry, Layout, List, Superblock, directory, page, spill};
use oncewire_flash::{Eviction, Filter, Index, Options};
use std::sync::Arc;

const SIZE: u64 = 256 << 10;
const ID: [u8; 16] = *b"an id of a test.";

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

pub fn run(input: &[u8]) {
    let mut bytes = Bytes(input);
    superblock(input);
    let choice = bytes.byte();
    let list = if choice % 2 == 0 { List::Shared } else { List::PerPartition };
    let filter = if choice / 4 % 2 == 0 { Filter::Sliced } else { Filter::Maplet };
    let layout = if choice / 2 % 2 == 0 { Layout::Published } else { Layout::Sorted };
    let geometry = Geometry::fit(SIZE, 2, 1, 2, 3, list, layout).expect("fits");
    let superblock = Superblock {
        id: ID,
        secret: [7; 16],
        number: bytes.number(2),
        epoch: bytes.number(2),
        durable: bytes.number(1),
        generation: bytes.number(1),
        spilled: bytes.number(1).min(geometry.spill),
        clean: bytes.byte() % 2 == 0,
        geometry,
    };
    let device = Arc::new(Memory::new(SIZE as usize));
    let mut buffer = [0; PAGE];
    superblock.write(&mut buffer);
    device.write(superblock.at(), &buffer).expect("writes");
    while !bytes.is_empty() {
        let kind = bytes.byte();
        let slot = bytes.number(1) % geometry.slots;
        let place = page::Place {
            sequence: bytes.number(1),
            epoch: bytes.number(1).min(superblock.epoch),
            count: bytes.number(1),
            partition: bytes.number(1) as u32 % 3,
            page: (kind / 64).into(),
        };
        match kind % 4 {
            0 => {
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
            1 => {
                fill(&mut bytes, &mut buffer);
                page::seal(&ID, &place, &mut buffer);
                device.write(geometry.slot_at(slot), &buffer).expect("writes");
            }
            2 => {
                fill(&mut bytes, &mut buffer);
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
            _ => {
                fill(&mut bytes, &mut buffer);
                let at = bytes.number(2) % (SIZE / PAGE as u64 - 2) + 2;
                device.write(at * PAGE as u64, &buffer).expect("writes");
            }
        }
    }
    // Whatever is there, the index opens, works, and can be closed and opened again.
    for _ in 0..2 {
        let (mut index, _) =
            Index::open(Box::new(device.clone()), &options(list, layout, filter)).expect("opens");
        assert!(index.memory().total() <= options(list, layout, filter).memory);
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

/// A page of a few bytes, repeated.
fn fill(bytes: &mut Bytes<'_>, page: &mut [u8; PAGE]) {
    let pattern: Vec<u8> = (0..=bytes.byte() % 16).map(|_| bytes.byte()).collect();
    for (byte, value) in page.iter_mut().zip(pattern.iter().cycle()) {
        *byte = *value;
    }
}

/// Any superblock: refused, or the same when it is written again, with a sane geometry.
fn superblock(input: &[u8]) {
    let mut page = [0; PAGE];
    page[8..8 + input.len().min(120)].copy_from_slice(&input[..input.len().min(120)]);
    page[..8].copy_from_slice(b"OWINDEX\x01");
    let sum = xxhash_rust::xxh3::xxh3_64(&page[..PAGE - 8]);
    page[PAGE - 8..].copy_from_slice(&sum.to_le_bytes());
    let Ok(read) = Superblock::read(&page) else { return };
    let mut again = [0; PAGE];
    read.write(&mut again);
    assert_eq!(Superblock::read(&again).expect("valid"), read);
    let geometry = read.geometry;
    assert!(geometry.end() > geometry.slot_at(0) && geometry.slot_at(0) > geometry.spill_at(1));
    assert!(geometry.slot(read.durable, geometry.partitions - 1, read.durable) < geometry.slots);
}
