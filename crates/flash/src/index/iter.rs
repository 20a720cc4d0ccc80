//! All entries, for whoever rebuilds something from an index.

use super::look_up::{Found, Step};
use super::stats::Tally;
use super::{Index, look_up::Known};
use crate::device::{Aligned, PAGE, PageBuffer};
use crate::error::IndexError;
use crate::options::Entry;
use std::collections::VecDeque;

/// Entries of a buffer that are copied at once.
const COPIED: usize = 256;

/// The iterator of [`Index::iter`].
pub struct Iter<'a> {
    index: &'a Index,
    partition: u32,
    /// Where it is in the partition.
    at: At,
    /// The slot that is being read.
    image: Aligned,
    /// Pages of it that are not what was written, as bits.
    unreadable: u64,
    /// Pages of the partition that cannot be read.
    lost: u32,
    ready: VecDeque<Entry>,
}

#[derive(Clone, Copy)]
enum At {
    /// Entries of the buffer from this one on.
    Buffer(usize),
    /// Pages of an incarnation from this one on; older incarnations have lower numbers.
    Page(usize, u32),
    /// The next incarnation: the last one of this many.
    Incarnation(usize),
}

impl std::fmt::Debug for Iter<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Iter").field("partition", &self.partition).finish_non_exhaustive()
    }
}

impl Index {
    /// Every key that is there with its newest value, once, in no order. It reads all slots, one
    /// after another, and needs memory for one. Where pages of a partition cannot be read, an error
    /// follows its entries.
    #[must_use]
    pub fn iter(&self) -> Iter<'_> {
        Iter {
            index: self,
            partition: 0,
            at: At::Buffer(0),
            image: Aligned::new(self.superblock.geometry.slot_bytes() as usize),
            unreadable: 0,
            lost: 0,
            ready: VecDeque::new(),
        }
    }

    /// Whether the newest value of a key is in the incarnation with `older` older ones.
    fn is_newest_in(&self, key: &[u8], older: usize, page: &mut PageBuffer) -> bool {
        let hash = self.hash_of(key);
        let mut tally = Tally::default();
        let Known::Perhaps(mut probe) = self.known(hash, key, &mut tally) else { return false };
        loop {
            match self.next(&mut probe) {
                Step::Read(..) if probe.left == older => return true,
                Step::Read(at, place) => {
                    let read = self.device.read(at, &mut page.0).is_ok();
                    let found = self.found(read.then_some(&page.0), &place, hash, key, &mut tally);
                    if !matches!(found, Found::Nothing) {
                        return false;
                    }
                }
                Step::Unknown | Step::Absent => return false,
            }
        }
    }
}

impl Iter<'_> {
    /// Goes on by a part of a buffer, a page or an incarnation. Whether there may be more in the
    /// partition.
    fn advance(&mut self) -> bool {
        let index = self.index;
        let table = &index.tables[self.partition as usize];
        match self.at {
            At::Buffer(from) => {
                let mut entries = index.buffers.entries(self.partition).skip(from);
                let mut copied = 0;
                for (key, value) in entries.by_ref().take(COPIED) {
                    copied += 1;
                    if let Some(value) = value {
                        self.ready.push_back(Entry { key: key.to_vec(), value: value.to_vec() });
                    }
                }
                self.at = match copied {
                    COPIED => At::Buffer(from + COPIED),
                    _ => At::Incarnation(table.incarnations.len()),
                };
            }
            At::Incarnation(0) => return false,
            At::Incarnation(left) => {
                let pages = index.load(self.partition).pages[left - 1];
                let incarnation = &table.incarnations[left - 1];
                let unreadable = index.read_slot(self.partition, incarnation, &mut self.image);
                self.lost += (unreadable & !pages.gone).count_ones();
                self.unreadable = unreadable | pages.gone;
                self.at = At::Page(left - 1, 0);
            }
            At::Page(older, number) if number < index.superblock.geometry.pages => {
                if self.unreadable >> number & 1 == 0 {
                    let page = &self.image[number as usize * PAGE..][..PAGE];
                    let mut other = PageBuffer::default();
                    for (key, value) in index.reader.entries(page) {
                        let Some(value) = value else { continue };
                        if index.is_newest_in(key, older, &mut other) {
                            let (key, value) = (key.to_vec(), value.to_vec());
                            self.ready.push_back(Entry { key, value });
                        }
                    }
                }
                self.at = At::Page(older, number + 1);
            }
            At::Page(older, _) => self.at = At::Incarnation(older),
        }
        true
    }
}

impl Iterator for Iter<'_> {
    type Item = Result<Entry, IndexError>;

    fn next(&mut self) -> Option<Result<Entry, IndexError>> {
        loop {
            if let Some(entry) = self.ready.pop_front() {
                return Some(Ok(entry));
            }
            if self.partition >= self.index.superblock.geometry.partitions {
                return None;
            }
            if !self.advance() {
                let partition = self.partition;
                self.partition += 1;
                self.at = At::Buffer(0);
                let pages = std::mem::take(&mut self.lost);
                if pages > 0 {
                    return Some(Err(IndexError::Lost { partition, pages }));
                }
            }
        }
    }
}
