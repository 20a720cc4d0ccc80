//! Every byte on the device. `docs/FLASH.md` specifies the same; nothing else in the crate knows a
//! layout.

pub mod directory;
pub mod hash;
pub mod page;
pub mod spill;
pub mod superblock;

use xxhash_rust::xxh3::xxh3_64;

pub use superblock::{FormatError, Geometry, List, Superblock};

/// The 128 bits that tell an index from all others.
pub type Id = [u8; 16];

/// The seed of a checksum: it ties bytes to their index and their place.
fn seed(kind: u8, id: &Id, place: [u64; 4]) -> u64 {
    let mut bytes = [0; 49];
    bytes[0] = kind;
    bytes[1..17].copy_from_slice(id);
    for (n, number) in place.into_iter().enumerate() {
        bytes[17 + 8 * n..][..8].copy_from_slice(&number.to_le_bytes());
    }
    xxh3_64(&bytes)
}

const SLOT: u8 = 1;
const DIRECTORY: u8 = 2;
const SPILL: u8 = 3;

fn get<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    let mut field = [0; N];
    field.copy_from_slice(&bytes[at..at + N]);
    field
}

fn get64(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(get(bytes, at))
}

fn get32(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(get(bytes, at))
}

fn get16(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes(get(bytes, at))
}

fn put(bytes: &mut [u8], at: usize, field: &[u8]) {
    bytes[at..at + field.len()].copy_from_slice(field);
}
