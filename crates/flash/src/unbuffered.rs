//! A conventional hash table on flash, without buffers or filters (T:3972-3992): what BufferHash is
//! compared with.
//!
//! A key belongs to one page. A look-up reads it, whether the key is there or not; an insert reads
//! it, changes it and writes it in place. A full page loses its oldest entry. Nothing is promised
//! after a crash.

use crate::device::{Aligned, Device, DeviceError, PAGE};
use crate::error::IndexError;
use crate::format::hash::hash;

/// Bytes before the entries of a page: their number, and the next place to overwrite.
const HEAD: usize = 8;
/// Pages that are filled in memory at once.
const PART: usize = 16_384;
/// The key of the hash. Not a secret: the table is for measurements.
const SECRET: [u8; 16] = *b"unbuffered table";

/// A hash table that writes every insert to its device immediately.
pub struct Unbuffered {
    device: Box<dyn Device>,
    shape: Shape,
    page: Aligned,
}

impl std::fmt::Debug for Unbuffered {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Unbuffered").field("shape", &self.shape).finish_non_exhaustive()
    }
}

#[derive(Clone, Copy, Debug)]
struct Shape {
    pages: u32,
    key: usize,
    value: usize,
}

impl Shape {
    fn places(&self) -> usize {
        (PAGE - HEAD) / (self.key + self.value)
    }

    fn page_of(&self, key: &[u8]) -> u32 {
        hash(&SECRET, self.pages, key).partition
    }

    fn find(&self, page: &[u8], key: &[u8]) -> Option<usize> {
        let entry = self.key + self.value;
        let entries = page[HEAD..].chunks_exact(entry).take(number(page, 0).min(self.places()));
        let at = entries.into_iter().position(|entry| &entry[..self.key] == key)?;
        Some(HEAD + at * entry)
    }

    fn put(&self, page: &mut [u8], key: &[u8], value: &[u8]) {
        let at = self.find(page, key).unwrap_or_else(|| {
            let (len, oldest) = (number(page, 0), number(page, 2) % self.places());
            let place = if len < self.places() {
                set(page, 0, len + 1);
                len
            } else {
                set(page, 2, oldest + 1);
                oldest
            };
            HEAD + place * (self.key + self.value)
        });
        page[at..at + self.key].copy_from_slice(key);
        page[at + self.key..at + self.key + self.value].copy_from_slice(value);
    }
}

fn number(page: &[u8], at: usize) -> usize {
    usize::from(u16::from_le_bytes([page[at], page[at + 1]]))
}

fn set(page: &mut [u8], at: usize, number: usize) {
    page[at..at + 2].copy_from_slice(&(number as u16).to_le_bytes());
}

impl Unbuffered {
    /// A table over all pages of a device, with these entries, of which later ones replace earlier
    /// ones. They are written in sequence, in parts of 64 MiB, and counted through once for each
    /// part.
    ///
    /// # Errors
    ///
    /// If keys and values are not 1 to 255 and 0 to 255 bytes long, an entry has another length, or
    /// the device has no page, more than 2^32 - 1 of them, or fails.
    pub fn create<E>(
        device: Box<dyn Device>,
        key: usize,
        value: usize,
        entries: E,
    ) -> Result<Unbuffered, IndexError>
    where
        E: Iterator<Item = (Vec<u8>, Vec<u8>)> + Clone,
    {
        if !(1..=255).contains(&key) {
            return Err(IndexError::Key { len: key, expected: 255 });
        }
        if value > 255 {
            return Err(IndexError::Value { len: value, expected: 255 });
        }
        let pages = u32::try_from(device.size() / PAGE as u64).unwrap_or(u32::MAX);
        if pages == 0 {
            let size = device.size();
            return Err(DeviceError::OutOfRange { at: 0, len: PAGE, size }.into());
        }
        let shape = Shape { pages, key, value };
        let part = PART.min(pages as usize);
        let mut image = Aligned::new(part * PAGE);
        for first in (0..pages).step_by(part) {
            image.fill(0);
            let here = part.min((pages - first) as usize);
            for (key, value) in entries.clone() {
                check(&shape, &key, Some(&value))?;
                let page = shape.page_of(&key).wrapping_sub(first) as usize;
                if page < here {
                    shape.put(&mut image[page * PAGE..][..PAGE], &key, &value);
                }
            }
            device.write(u64::from(first) * PAGE as u64, &image[..here * PAGE])?;
        }
        Ok(Unbuffered { device, shape, page: Aligned::new(PAGE) })
    }

    /// Entries that fill half of the table, as a BufferHash of the same size has.
    #[must_use]
    pub fn capacity(&self) -> u64 {
        u64::from(self.shape.pages) * self.shape.places() as u64 / 2
    }

    fn read(&mut self, key: &[u8]) -> Result<u64, IndexError> {
        let at = u64::from(self.shape.page_of(key)) * PAGE as u64;
        self.device.read(at, &mut self.page)?;
        Ok(at)
    }

    /// Looks up a key: one read.
    ///
    /// # Errors
    ///
    /// If the key has a wrong length, or the device fails.
    pub fn get(&mut self, key: &[u8]) -> Result<Option<Vec<u8>>, IndexError> {
        check(&self.shape, key, None)?;
        self.read(key)?;
        let at = self.shape.find(&self.page, key).map(|at| at + self.shape.key);
        Ok(at.map(|at| self.page[at..at + self.shape.value].to_vec()))
    }

    /// Inserts a value, or replaces it: one read and one write.
    ///
    /// # Errors
    ///
    /// If the key or the value has a wrong length, or the device fails.
    pub fn insert(&mut self, key: &[u8], value: &[u8]) -> Result<(), IndexError> {
        check(&self.shape, key, Some(value))?;
        let at = self.read(key)?;
        self.shape.put(&mut self.page, key, value);
        Ok(self.device.write(at, &self.page)?)
    }
}

fn check(shape: &Shape, key: &[u8], value: Option<&[u8]>) -> Result<(), IndexError> {
    if key.len() != shape.key {
        return Err(IndexError::Key { len: key.len(), expected: shape.key });
    }
    match value {
        Some(value) if value.len() != shape.value => {
            Err(IndexError::Value { len: value.len(), expected: shape.value })
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::{Chip, Memory};
    use crate::model::Costs;
    use std::sync::Arc;
    use std::time::Duration;

    fn entry(n: u64) -> (Vec<u8>, Vec<u8>) {
        (n.to_le_bytes().to_vec(), (n * n).to_le_bytes().to_vec())
    }

    #[test]
    fn entries_are_found_and_replaced() {
        // More than one part.
        let size = (PART + 3) * PAGE;
        let device = Box::new(Memory::new(size));
        let mut table = Unbuffered::create(device, 8, 8, (0..100_000).map(entry)).expect("a table");
        assert_eq!(table.capacity(), (PART as u64 + 3) * 255 / 2);
        for n in 0..100_000 {
            let (key, value) = entry(n);
            assert_eq!(table.get(&key).expect("reads"), Some(value), "{n}");
        }
        assert_eq!(table.get(&entry(100_000).0).expect("reads"), None);
        table.insert(&entry(7).0, &[1; 8]).expect("inserts");
        assert_eq!(table.get(&entry(7).0).expect("reads"), Some(vec![1; 8]));
        assert!(matches!(table.get(b"short"), Err(IndexError::Key { len: 5, expected: 8 })));
    }

    #[test]
    fn a_full_page_loses_its_oldest_entries() {
        let device = Box::new(Memory::new(PAGE));
        let mut table = Unbuffered::create(device, 8, 8, (0..0).map(entry)).expect("a table");
        for n in 0..600 {
            let (key, value) = entry(n);
            table.insert(&key, &value).expect("inserts");
        }
        for n in 0..600 {
            let expected = (n >= 600 - 255).then(|| entry(n).1);
            assert_eq!(table.get(&entry(n).0).expect("reads"), expected, "{n}");
        }
    }

    /// P1 and P2: every insert costs a read, and a write of a whole page.
    #[test]
    fn every_operation_goes_to_the_device() {
        let costs = Costs::TRANSCEND_SSD;
        let chip = Arc::new(Chip::new(Box::new(Memory::new(64 * PAGE)), costs));
        let device = Box::new(chip.clone());
        let mut table = Unbuffered::create(device, 8, 8, (0..64).map(entry)).expect("a table");
        chip.take();
        table.get(&entry(99).0).expect("reads");
        let look_up = chip.take();
        assert_eq!((look_up.reads, look_up.writes), (1, 0));
        table.insert(&entry(99).0, &[0; 8]).expect("inserts");
        let insert = chip.take();
        assert_eq!((insert.reads, insert.writes, insert.written), (1, 1, PAGE as u64));
        let model = Duration::from_secs_f64(costs.page_read() + costs.c1(PAGE as u64));
        assert_eq!(insert.time.as_micros(), model.as_micros());
    }
}
