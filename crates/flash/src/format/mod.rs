//! Every byte on the device. `docs/FLASH.md` specifies the same; nothing else in the crate knows a
//! layout.

pub mod directory;
pub mod hash;
pub mod page;
pub mod sorted;
pub mod spill;
pub mod superblock;

use crate::fields::{get, get16, get32, get64, put};
use xxhash_rust::xxh3::xxh3_64;

pub use superblock::{FormatError, Geometry, Layout, List, Superblock};

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

/// A key with its value, or `None` for a delete.
pub type Pair<'a> = (&'a [u8], Option<&'a [u8]>);

/// Reads pages of slots, of either layout.
#[derive(Clone, Copy, Debug)]
pub struct Reader {
    /// The layout.
    pub layout: Layout,
    /// Sizes of keys and values.
    pub entries: page::Entries,
}

impl Reader {
    /// Every entry of a page.
    #[must_use]
    pub fn entries<'a>(&self, page: &'a [u8]) -> Box<dyn Iterator<Item = Pair<'a>> + 'a> {
        let page::Entries { key, value } = self.entries;
        match self.layout {
            Layout::Published => Box::new(self.entries.all(page)),
            Layout::Sorted => Box::new(sorted::entries(page, key, value)),
        }
    }

    /// What a page has for a key: a value, or `None` for a delete.
    #[must_use]
    pub fn find<'a>(
        &self,
        page: &'a [u8],
        hash: hash::Hash,
        key: &[u8],
    ) -> Option<Option<&'a [u8]>> {
        match self.layout {
            Layout::Published => {
                let place = self.entries.find(page, hash, key)?;
                Some(self.entries.entry(page, place).1)
            }
            Layout::Sorted => sorted::find(page, key, self.entries.value),
        }
    }
}
