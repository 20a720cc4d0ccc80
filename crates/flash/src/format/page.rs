//! A page of an incarnation, and of the published layout: a small hash table in itself, so that one
//! read finds a key or shows that it is not there.
//!
//! A key's hash chooses the page and two buckets of [`BUCKET`] places in it. The thesis has two
//! places of a table that spans the whole buffer (T:4484), which can take two reads; and a table as
//! small as a page would often fail at half load with buckets of one.

use super::{Id, Pair, SLOT, get16, get32, get64, put, seed};
use crate::device::PAGE;
use crate::format::hash::{Hash, mix};
use xxhash_rust::xxh3::xxh3_64_with_seed;

/// Places of a bucket.
pub const BUCKET: usize = 4;
/// Where the bitmap of places in use begins.
const USED: usize = 40;
/// Where the bitmap of deletes begins.
const DELETED: usize = 72;
/// Where the places begin.
const PLACES: usize = 104;

/// Where a page belongs, which its checksum depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// Number of the incarnation in the index.
    pub sequence: u64,
    /// The epoch in which it was written.
    pub epoch: u64,
    /// Number of the incarnation in its partition.
    pub count: u64,
    /// The partition.
    pub partition: u32,
    /// Number of the page in its slot.
    pub page: u16,
}

/// Places of a page for entries of this many bytes.
#[must_use]
pub fn places(entry: usize) -> usize {
    ((PAGE - PLACES) / entry.max(1)).min(256) / BUCKET * BUCKET
}

/// The page of a slot where a key belongs.
#[must_use]
pub fn page_of(hash: Hash, pages: u32) -> u32 {
    (((hash.inside >> 32) * u64::from(pages)) >> 32) as u32
}

/// The two buckets of a key; the same one twice if a page has only one.
#[must_use]
pub fn buckets(hash: Hash, places: usize) -> [usize; 2] {
    let buckets = (places / BUCKET) as u64;
    let scale = |bits: u64, to: u64| ((bits & 0xffff_ffff) * to) >> 32;
    let first = scale(hash.inside, buckets);
    let step = if buckets > 1 { 1 + scale(mix(hash.inside), buckets - 1) } else { 0 };
    [first as usize, ((first + step) % buckets) as usize]
}

/// Writes the header of a page with entries, and its checksum.
pub fn seal(id: &Id, place: &Place, page: &mut [u8]) {
    put(page, 8, &place.sequence.to_le_bytes());
    put(page, 16, &place.epoch.to_le_bytes());
    put(page, 24, &place.count.to_le_bytes());
    put(page, 32, &place.partition.to_le_bytes());
    put(page, 36, &place.page.to_le_bytes());
    let sum = xxh3_64_with_seed(&page[8..PAGE], seed_of(id, place));
    put(page, 0, &sum.to_le_bytes());
}

/// Whether a page is what [`seal`] left there.
#[must_use]
pub fn is_sealed(id: &Id, expected: &Place, page: &[u8]) -> bool {
    place(id, page).as_ref() == Some(expected)
}

/// Where a page belongs, if its checksum is right.
#[must_use]
pub fn place(id: &Id, page: &[u8]) -> Option<Place> {
    let place = Place {
        sequence: get64(page, 8),
        epoch: get64(page, 16),
        count: get64(page, 24),
        partition: get32(page, 32),
        page: get16(page, 36),
    };
    let sum = xxh3_64_with_seed(&page[8..PAGE], seed_of(id, &place));
    (sum == get64(page, 0) && place.sequence.max(place.epoch).max(place.count) < 1 << 60)
        .then_some(place)
}

fn seed_of(id: &Id, place: &Place) -> u64 {
    let last = u64::from(place.partition) << 16 | u64::from(place.page);
    seed(SLOT, id, [place.epoch, place.sequence, place.count, last])
}

/// The places of a page, by their layout.
#[derive(Clone, Copy, Debug)]
pub struct Entries {
    /// Bytes of a key.
    pub key: usize,
    /// Bytes of a value.
    pub value: usize,
}

impl Entries {
    /// Places of a page.
    #[must_use]
    pub fn places(&self) -> usize {
        places(self.key + self.value)
    }

    fn at(&self, place: usize) -> usize {
        PLACES + place * (self.key + self.value)
    }

    /// Whether a place is in use.
    #[must_use]
    pub fn is_used(&self, page: &[u8], place: usize) -> bool {
        bit(page, USED, place)
    }

    /// Whether a place holds a delete.
    #[must_use]
    pub fn is_deleted(&self, page: &[u8], place: usize) -> bool {
        bit(page, DELETED, place)
    }

    /// The key at a place.
    #[must_use]
    pub fn key<'a>(&self, page: &'a [u8], place: usize) -> &'a [u8] {
        &page[self.at(place)..][..self.key]
    }

    /// The value at a place.
    #[must_use]
    pub fn value<'a>(&self, page: &'a [u8], place: usize) -> &'a [u8] {
        &page[self.at(place) + self.key..][..self.value]
    }

    /// The place of a key, if the page has it.
    #[must_use]
    pub fn find(&self, page: &[u8], hash: Hash, key: &[u8]) -> Option<usize> {
        let two = buckets(hash, self.places());
        let places = two.into_iter().flat_map(|bucket| bucket * BUCKET..(bucket + 1) * BUCKET);
        let mut places = places.filter(|&place| self.is_used(page, place));
        places.find(|&place| self.key(page, place) == key)
    }

    /// The entry in a place: its value is `None` for a delete.
    #[must_use]
    pub fn entry<'a>(&self, page: &'a [u8], place: usize) -> Pair<'a> {
        let value = (!self.is_deleted(page, place)).then(|| self.value(page, place));
        (self.key(page, place), value)
    }

    /// Every entry of a page.
    pub fn all(self, page: &[u8]) -> impl Iterator<Item = Pair<'_>> {
        (0..self.places())
            .filter(move |&place| self.is_used(page, place))
            .map(move |place| self.entry(page, place))
    }

    /// Puts an entry in a place. `None` as the value is a delete.
    pub fn put(&self, page: &mut [u8], place: usize, key: &[u8], value: Option<&[u8]>) {
        let at = self.at(place);
        put(page, at, key);
        match value {
            Some(value) => put(page, at + self.key, value),
            None => page[at + self.key..][..self.value].fill(0),
        }
        set(page, USED, place, true);
        set(page, DELETED, place, value.is_none());
    }

    /// Moves an entry to a free place of the same page.
    pub fn shift(&self, page: &mut [u8], from: usize, to: usize) {
        let (source, target) = (self.at(from), self.at(to));
        page.copy_within(source..source + self.key + self.value, target);
        let deleted = self.is_deleted(page, from);
        set(page, USED, to, true);
        set(page, DELETED, to, deleted);
        set(page, USED, from, false);
        set(page, DELETED, from, false);
    }
}

fn bit(page: &[u8], map: usize, place: usize) -> bool {
    page[map + place / 8] >> (place % 8) & 1 == 1
}

fn set(page: &mut [u8], map: usize, place: usize, on: bool) {
    let byte = &mut page[map + place / 8];
    *byte = *byte & !(1 << (place % 8)) | u8::from(on) << (place % 8);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_fit() {
        for entry in 1..=510 {
            let places = places(entry);
            assert!(places >= BUCKET && places.is_multiple_of(BUCKET));
            assert!(PLACES + places * entry <= PAGE && places <= 256);
        }
        assert_eq!((places(16), places(28)), (248, 140));
    }

    #[test]
    fn a_page_counts_only_in_its_place() {
        let place = Place { sequence: 70, epoch: 2, count: 5, partition: 3, page: 1 };
        let mut page = [0; PAGE];
        let entries = Entries { key: 8, value: 8 };
        let hash = Hash { partition: 3, inside: 0x1234_5678_9abc_def0 };
        let at = buckets(hash, 248)[1] * BUCKET + 2;
        entries.put(&mut page, at, b"some key", Some(b"itsvalue"));
        seal(&[1; 16], &place, &mut page);
        assert!(is_sealed(&[1; 16], &place, &page));
        assert_eq!(entries.find(&page, hash, b"some key"), Some(at));
        assert_eq!(entries.find(&page, hash, b"else key"), None);
        assert_eq!(entries.value(&page, at), b"itsvalue");
        for other in [
            Place { sequence: 71, ..place },
            Place { epoch: 1, ..place },
            Place { count: 4, ..place },
            Place { partition: 4, ..place },
            Place { page: 0, ..place },
        ] {
            assert!(!is_sealed(&[1; 16], &other, &page), "{other:?}");
        }
        assert!(!is_sealed(&[2; 16], &place, &page));
        page[4000] ^= 1;
        assert!(!is_sealed(&[1; 16], &place, &page));
    }
}
