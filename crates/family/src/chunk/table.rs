//! The chunk table maps names of chunks to offsets in the decoder's log.

use oncewire_codec::ConfigError;
use oncewire_codec::limits::MAX_ENTRIES;
use oncewire_kernels::Pages;
use oncewire_kernels::family::Name;

/// Entries per bucket.
const WAYS: usize = 3;
/// 64-bit words per bucket: one cache line.
const BUCKET: usize = 8;
/// Bits of an offset in an entry: two more than the largest log needs, so that an offset that has
/// left the log differs from one in it long before the bits repeat.
const OFFSET_BITS: u32 = 42;
const OFFSET_MASK: u64 = (1 << OFFSET_BITS) - 1;
/// Within this many bytes of traffic, every bucket is swept once for entries that have left the
/// log.
const SWEEP_BITS: u32 = OFFSET_BITS - 1;

/// A bounded set-associative table of (name, offset).
///
/// A bucket is a cache line: three names of 16 bytes, the low 32 bits of their three offsets, and
/// ten more bits of each in the last four bytes. So an entry takes 21 1/3 bytes where EndRE's takes
/// 24 (section 5.2.1: 20 of SHA-1 and four of `<offset, length>`). An entry has no length: the name
/// covers it. A name may occur twice in a bucket, with different offsets. Without room, the entry
/// with the lowest offset is replaced.
///
/// Offsets are kept modulo 2^42 and logs hold at most 2^40 bytes: an entry is mistaken for a newer
/// one only if it stays for 4 TiB of traffic, and [`ChunkTable::sweep`] removes it before.
#[derive(Debug)]
pub(super) struct ChunkTable {
    words: Pages<u64>,
    buckets: usize,
    /// Buckets swept since the table was made.
    swept: u64,
}

/// Bytes of a table of so many entries.
pub(crate) fn table_bytes(entries: u64) -> u64 {
    entries.div_ceil(WAYS as u64).saturating_mul((BUCKET * size_of::<u64>()) as u64)
}

impl ChunkTable {
    pub(super) fn new(entries: u64) -> Result<ChunkTable, ConfigError> {
        if entries == 0 || entries > MAX_ENTRIES {
            return Err(ConfigError::TableEntries { entries, max: MAX_ENTRIES });
        }
        let buckets = entries.div_ceil(WAYS as u64) as usize;
        let bytes = table_bytes(entries) as usize;
        let words = Pages::zeroed(buckets.saturating_mul(BUCKET))
            .map_err(|source| ConfigError::Memory { bytes, what: "chunk table", source })?;
        Ok(ChunkTable { words, buckets, swept: 0 })
    }

    pub(super) fn memory(&self) -> usize {
        self.words.len() * size_of::<u64>()
    }

    pub(super) fn prefault(&mut self) {
        self.words.prefault();
    }

    #[inline(always)]
    pub(super) fn bucket_of(&self, name: Name) -> usize {
        ((u128::from(name.0[0]) * self.buckets as u128) >> 64) as usize
    }

    #[inline(always)]
    pub(super) fn prefetch(&self, name: Name) {
        self.words.prefetch(self.bucket_of(name) * BUCKET);
    }

    #[inline(always)]
    fn line(&self, bucket: usize) -> &[u64; BUCKET] {
        self.words[bucket * BUCKET..].first_chunk().expect("buckets are whole")
    }

    #[inline(always)]
    fn line_mut(&mut self, bucket: usize) -> &mut [u64; BUCKET] {
        self.words[bucket * BUCKET..].first_chunk_mut().expect("buckets are whole")
    }

    /// The offset bits of an entry.
    #[inline(always)]
    fn code(line: &[u64; BUCKET], way: usize) -> u64 {
        let low = line[6 + way / 2] >> (32 * (way % 2)) & 0xffff_ffff;
        let high = line[7] >> (32 + 10 * way) & 0x3ff;
        high << 32 | low
    }

    /// Whether the bucket has the name in each way: a bit per way.
    #[inline(always)]
    pub(super) fn ways_with(&self, bucket: usize, name: Name) -> u32 {
        let line = self.line(bucket);
        let same = |way: usize| {
            u32::from((line[2 * way] ^ name.0[0]) | (line[2 * way + 1] ^ name.0[1]) == 0) << way
        };
        same(0) | same(1) | same(2)
    }

    /// How far before `now` the chunk of an entry lies, if the entry is not empty.
    #[inline(always)]
    pub(super) fn age(&self, bucket: usize, way: usize, now: u64) -> u64 {
        now.wrapping_sub(Self::code(self.line(bucket), way)) & OFFSET_MASK
    }

    /// As [`ChunkTable::age`], or `u64::MAX` if the entry is empty.
    #[inline(always)]
    fn age_in(line: &[u64; BUCKET], way: usize, now: u64) -> u64 {
        let empty = line[2 * way] | line[2 * way + 1] == 0;
        if empty { u64::MAX } else { now.wrapping_sub(Self::code(line, way)) & OFFSET_MASK }
    }

    /// Puts `name` at `offset` into the bucket. Replaces an empty entry; else one with the name of
    /// a newer entry, if that lies at least `settled` bytes back and can be referred to; else the
    /// oldest.
    #[inline]
    pub(super) fn put(&mut self, bucket: usize, name: Name, offset: u64, settled: u64) {
        let line = self.line_mut(bucket);
        let mut ages: [u64; WAYS] = std::array::from_fn(|way| Self::age_in(line, way, offset));
        for (a, b) in [(0, 1), (0, 2), (1, 2)] {
            if line[2 * a] == line[2 * b]
                && line[2 * a + 1] == line[2 * b + 1]
                && ages[a].min(ages[b]) >= settled
            {
                let older = if ages[a] > ages[b] { a } else { b };
                ages[older] = ages[older].saturating_add(OFFSET_MASK);
            }
        }
        let older = if ages[1] > ages[0] { 1 } else { 0 };
        let way = if ages[2] > ages[older] { 2 } else { older };
        let code = offset & OFFSET_MASK;
        [line[2 * way], line[2 * way + 1]] = name.0;
        let shift = 32 * (way % 2);
        line[6 + way / 2] =
            line[6 + way / 2] & !(0xffff_ffff << shift) | (code & 0xffff_ffff) << shift;
        let shift = 32 + 10 * way;
        line[7] = line[7] & !(0x3ff << shift) | code >> 32 << shift;
    }

    fn clear(&mut self, bucket: usize, now: u64, keep: impl Fn(u64) -> bool) {
        let line = self.line_mut(bucket);
        for way in 0..WAYS {
            let age = Self::age_in(line, way, now);
            if age != u64::MAX && !keep(age) {
                [line[2 * way], line[2 * way + 1]] = Name::default().0;
            }
        }
    }

    /// Removes entries older than `reach` bytes from the buckets due at `now`, on average a
    /// fraction of one per block.
    #[inline]
    pub(super) fn sweep(&mut self, now: u64, reach: u64) {
        let due = ((u128::from(now) * self.buckets as u128) >> SWEEP_BITS) as u64;
        while self.swept < due {
            self.clear((self.swept % self.buckets as u64) as usize, now, |age| age <= reach);
            self.swept += 1;
        }
    }

    /// Removes all entries within `len` bytes before `now`, which were forgotten. Scans the whole
    /// table.
    pub(super) fn forget(&mut self, now: u64, len: u64) {
        (0..self.buckets).for_each(|bucket| self.clear(bucket, now, |age| age > len));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn find(table: &ChunkTable, name: Name, now: u64) -> Vec<u64> {
        let bucket = table.bucket_of(name);
        let ways = table.ways_with(bucket, name);
        let mut ages: Vec<u64> = (0..WAYS)
            .filter(|way| ways >> way & 1 == 1)
            .map(|way| table.age(bucket, way, now))
            .collect();
        ages.sort();
        ages
    }

    fn put(table: &mut ChunkTable, name: Name, offset: u64) {
        table.put(table.bucket_of(name), name, offset, u64::MAX);
    }

    const NAMES: [Name; 5] =
        [Name([1, 2]), Name([1, 3]), Name([2, 2]), Name([3 << 62, 0]), Name([0, 9])];

    #[test]
    fn the_oldest_makes_room() {
        let mut table = ChunkTable::new(1).unwrap();
        assert_eq!(table.memory(), 64);
        // Beyond 32 bits, so that the other ten count, too.
        let base = 0x3f5_ffff_fff0u64;
        for (i, name) in NAMES.into_iter().enumerate() {
            put(&mut table, name, base + 10 * i as u64);
            assert_eq!(find(&table, name, base + 100), [100 - 10 * i as u64]);
        }
        assert_eq!(find(&table, NAMES[0], base + 100), []);
        assert_eq!(find(&table, NAMES[1], base + 100), []);
        assert_eq!(find(&table, NAMES[2], base + 100), [80]);
        put(&mut table, NAMES[4], base + 50);
        assert_eq!(find(&table, NAMES[4], base + 100), [50, 60]);
        table.forget(base + 100, 50);
        assert_eq!(find(&table, NAMES[4], base + 100), [60]);
    }

    #[test]
    fn what_left_the_log_is_swept_before_its_offset_could_mean_something_else() {
        let mut table = ChunkTable::new(300).unwrap();
        // Each in a separate bucket.
        let names: [Name; 20] = std::array::from_fn(|i| Name([(i as u64) << 59, 1]));
        for name in names {
            put(&mut table, name, 5);
        }
        let reach = 1 << 40;
        for now in (0..=1u64 << SWEEP_BITS).step_by(1 << 35) {
            table.sweep(now, reach);
            assert!(now >= reach || names.iter().all(|&name| find(&table, name, now) == [now.wrapping_sub(5) & OFFSET_MASK]));
        }
        // Every bucket was visited, but some before their entries were out of reach: the second
        // round removes those.
        for now in (1u64 << SWEEP_BITS..=2 << SWEEP_BITS).step_by(1 << 35) {
            table.sweep(now, reach);
        }
        let left =
            names.iter().filter(|&&name| !find(&table, name, 2 << SWEEP_BITS).is_empty()).count();
        assert_eq!(left, 0);
    }

    #[test]
    fn impossible_sizes_are_errors() {
        assert!(matches!(ChunkTable::new(0), Err(ConfigError::TableEntries { .. })));
        assert!(matches!(ChunkTable::new(MAX_ENTRIES + 1), Err(ConfigError::TableEntries { .. })));
    }
}
