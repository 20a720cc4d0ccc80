//! A page of the sorted layout: full, and so is every page of the slot but the last ones. Entries of
//! a slot ascend by hash, so the first hashes of its pages say which page has a key.

use super::{Pair, put};
use crate::device::PAGE;

/// Where the entries begin.
const ENTRIES: usize = 40;

/// Keys that are compared before it matters whether one was equal.
const GROUP: usize = 16;

/// Entries of a page for entries of this many bytes, deletes included.
#[must_use]
pub fn most(entry: usize) -> usize {
    ((PAGE - ENTRIES) / entry.max(1)).min(255)
}

/// The part of a hash by which entries of a slot ascend: its high 48 bits.
#[must_use]
pub fn order(inside: u64) -> u64 {
    inside >> 16
}

/// The part of a hash by which pages are found.
#[must_use]
pub fn prefix(inside: u64) -> u16 {
    (inside >> 48) as u16
}

/// Fills a page but for what [`super::page::seal`] writes. Deletes come after the others, both in
/// their order.
pub fn fill<'a>(
    page: &mut [u8],
    value_bytes: usize,
    entries: impl Iterator<Item = Pair<'a>> + Clone,
) {
    let mut at = ENTRIES;
    let mut counts = [0; 2];
    for deletes in [false, true] {
        for (key, value) in entries.clone().filter(|(_, value)| value.is_none() == deletes) {
            put(page, at, key);
            at += key.len();
            match value {
                Some(value) => put(page, at, value),
                None => page[at..at + value_bytes].fill(0),
            }
            at += value_bytes;
            counts[usize::from(deletes)] += 1;
        }
    }
    page[at..PAGE].fill(0);
    page[38..ENTRIES].copy_from_slice(&counts);
}

/// Entries of a page that are not deletes, and those that are. A page that says more than there is
/// room for has none.
fn counts(page: &[u8], entry: usize) -> (usize, usize) {
    let (entries, deletes) = (usize::from(page[38]), usize::from(page[39]));
    if entries + deletes > most(entry) { (0, 0) } else { (entries, deletes) }
}

/// Every key of a page with its value, or `None` for a delete.
pub fn entries(page: &[u8], key: usize, value: usize) -> impl Iterator<Item = Pair<'_>> {
    let (entries, deletes) = counts(page, key + value);
    let all = page[ENTRIES..].chunks_exact(key + value).take(entries + deletes).enumerate();
    all.map(move |(n, entry)| {
        let (key, value) = entry.split_at(key);
        (key, (n < entries).then_some(value))
    })
}

/// What a page has for a key: a value, or `None` for a delete.
#[must_use]
pub fn find<'a>(page: &'a [u8], key: &[u8], value: usize) -> Option<Option<&'a [u8]>> {
    let entry = key.len() + value;
    let (entries, deletes) = counts(page, entry);
    let all = &page[ENTRIES..][..(entries + deletes) * entry];
    // Several keys of 8 bytes are compared before the next branch.
    let (place, key_len) = match <[u8; 8]>::try_from(key) {
        Ok(eight) => {
            let eight = u64::from_le_bytes(eight);
            let is_it = |entry: &[u8]| super::get64(entry, 0) == eight;
            let group =
                |group: &&[u8]| group.chunks_exact(entry).fold(false, |any, it| any | is_it(it));
            let groups = all.chunks(GROUP * entry);
            let (n, group) = groups.enumerate().find(|(_, it)| group(it))?;
            let place = group.chunks_exact(entry).position(is_it)?;
            (n * GROUP + place, 8)
        }
        Err(_) => {
            let is_it = |entry: &[u8]| entry[..key.len()] == *key;
            (all.chunks_exact(entry).position(is_it)?, key.len())
        }
    };
    Some((place < entries).then(|| &page[ENTRIES + place * entry..][key_len..entry]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_filled_is_found() {
        let mut page = [7; PAGE];
        let all: [(&[u8], Option<&[u8]>); 3] =
            [(b"one", Some(b"first")), (b"two", None), (b"ten", Some(b"third"))];
        fill(&mut page, 5, all.into_iter());
        assert_eq!(find(&page, b"one", 5), Some(Some(&b"first"[..])));
        assert_eq!(find(&page, b"ten", 5), Some(Some(&b"third"[..])));
        assert_eq!(find(&page, b"two", 5), Some(None));
        assert_eq!(find(&page, b"six", 5), None);
        let read: Vec<_> = entries(&page, 3, 5).collect();
        assert_eq!(read, [all[0], all[2], all[1]]);
        page[38] = 255;
        page[39] = 255;
        assert_eq!((entries(&page, 3, 5).count(), find(&page, b"one", 5)), (0, None));
    }

    #[test]
    fn entries_fit() {
        for entry in 1..=510 {
            assert!(most(entry) >= 1 && ENTRIES + most(entry) * entry <= PAGE);
        }
        assert_eq!((most(16), most(28)), (253, 144));
    }
}
