//! The spill: what buffers held when a flush returned, as pages that are only appended.

use super::{Id, SPILL, get32, get64, put, seed};
use crate::device::PAGE;
use xxhash_rust::xxh3::xxh3_64_with_seed;

/// Where the entries begin.
const HEADER: usize = 40;
/// Bytes of an entry before its key.
const COUNT: usize = 9;

/// Entries of a page.
#[must_use]
pub fn entries(key: usize, value: usize) -> usize {
    (PAGE - HEADER) / (COUNT + key + value)
}

/// Where a page belongs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// Generation of the spill.
    pub generation: u64,
    /// The epoch in which it was written.
    pub epoch: u64,
    /// Number of the page in its area.
    pub page: u64,
}

/// An entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Spilled<'a> {
    /// The number that the buffer's next incarnation was to get in its partition.
    pub count: u64,
    /// The key.
    pub key: &'a [u8],
    /// The value; `None` is a delete.
    pub value: Option<&'a [u8]>,
}

/// Puts an entry in a place of a page.
pub fn put_entry(page: &mut [u8], place: usize, value_bytes: usize, entry: &Spilled<'_>) {
    let at = HEADER + place * (COUNT + entry.key.len() + value_bytes);
    put(page, at, &entry.count.to_le_bytes());
    page[at + 8] = u8::from(entry.value.is_none());
    put(page, at + COUNT, entry.key);
    let at = at + COUNT + entry.key.len();
    match entry.value {
        Some(value) => put(page, at, value),
        None => page[at..at + value_bytes].fill(0),
    }
}

/// Writes the header of a page with `len` entries, zeros after them, and its checksum.
pub fn seal(id: &Id, place: &Place, len: usize, key: usize, value: usize, page: &mut [u8]) {
    put(page, 8, &place.generation.to_le_bytes());
    put(page, 16, &place.epoch.to_le_bytes());
    put(page, 24, &place.page.to_le_bytes());
    put(page, 32, &(len as u32).to_le_bytes());
    put(page, 36, &[0; 4]);
    page[HEADER + len * (COUNT + key + value)..PAGE].fill(0);
    let sum = xxh3_64_with_seed(&page[8..PAGE], seed_of(id, place));
    put(page, 0, &sum.to_le_bytes());
}

fn seed_of(id: &Id, place: &Place) -> u64 {
    seed(SPILL, id, [place.generation, place.epoch, place.page, 0])
}

/// The epoch and the entries of a page, or `None` if it does not belong to this place of this
/// generation.
#[must_use]
pub fn read<'a>(
    id: &Id,
    generation: u64,
    number: u64,
    key: usize,
    value: usize,
    page: &'a [u8],
) -> Option<(u64, impl Iterator<Item = Spilled<'a>>)> {
    let place = Place { generation: get64(page, 8), epoch: get64(page, 16), page: get64(page, 24) };
    let len = get32(page, 32) as usize;
    if (place.generation, place.page) != (generation, number)
        || len > entries(key, value)
        || xxh3_64_with_seed(&page[8..PAGE], seed_of(id, &place)) != get64(page, 0)
    {
        return None;
    }
    let entry = move |n: usize| {
        let at = HEADER + n * (COUNT + key + value);
        let bytes = &page[at + COUNT..][..key + value];
        let (key, value) = bytes.split_at(key);
        Spilled { count: get64(page, at), key, value: (page[at + 8] == 0).then_some(value) }
    };
    Some((place.epoch, (0..len).map(entry)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_put_is_read() {
        let mut page = [7; PAGE];
        let two = [
            Spilled { count: 3, key: b"one", value: Some(b"first") },
            Spilled { count: 4, key: b"two", value: None },
        ];
        for (n, entry) in two.iter().enumerate() {
            put_entry(&mut page, n, 5, entry);
        }
        let place = Place { generation: 6, epoch: 2, page: 9 };
        seal(&[1; 16], &place, 2, 3, 5, &mut page);
        let (epoch, found) = read(&[1; 16], 6, 9, 3, 5, &page).expect("valid");
        assert_eq!((epoch, found.collect::<Vec<_>>()), (2, two.to_vec()));
        assert!(read(&[1; 16], 5, 9, 3, 5, &page).is_none());
        assert!(read(&[1; 16], 6, 8, 3, 5, &page).is_none());
        assert!(read(&[2; 16], 6, 9, 3, 5, &page).is_none());
        page[4095] ^= 1;
        assert!(read(&[1; 16], 6, 9, 3, 5, &page).is_none());
    }
}
