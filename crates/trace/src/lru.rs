//! The bounded maps of the study, which forget the least recently used entry first.

pub(crate) use lru::LruCache;

/// Bytes that an entry of a [`LruCache`] takes at most, without what its key and value own: the
/// entry, its links and its places in the map, which is up to half empty.
///
/// The caches themselves are unbounded. Callers evict before they insert, since most evicted
/// entries need to be finished.
pub(crate) const fn entry_bytes<K, V>() -> usize {
    2 * size_of::<(Option<(K, V)>, u32, u32)>() + 4 * (size_of::<(K, u32)>() + 1)
}
