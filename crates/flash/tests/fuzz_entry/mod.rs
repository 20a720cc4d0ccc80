//! What fuzz targets do: `cargo test` replays their seeds.
#![allow(dead_code, unreachable_pub, missing_docs)]

pub mod flash_directory;
pub mod flash_ops;
pub mod flash_page;
#[cfg(feature = "store")]
pub mod flash_store;
pub mod flash_superblock;
mod hostile;

/// Numbers from an input; zeros after its end.
pub struct Bytes<'a>(pub &'a [u8]);

impl Bytes<'_> {
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn byte(&mut self) -> u8 {
        self.number(1) as u8
    }

    pub fn number(&mut self, len: usize) -> u64 {
        let (now, rest) = self.0.split_at(len.min(self.0.len()));
        self.0 = rest;
        now.iter().rev().fold(0, |number, &byte| number << 8 | u64::from(byte))
    }
}
