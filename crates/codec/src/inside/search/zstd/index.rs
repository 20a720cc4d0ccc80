//! An index of the sequences in the log: fingerprints, and the zstd blocks.

use crate::zstd_block::{Sequence, Uses};
use std::collections::VecDeque;
use std::ops::Range;

/// Sequences covered by a fingerprint.
pub(super) const WINDOW: usize = 8;
/// One fingerprint in this many is kept.
pub(super) const KEPT: u64 = 64;
/// Bytes of log for each fingerprint, and for each block, that is kept.
pub(super) const BYTES_PER_ENTRY: u64 = 256;
pub(super) const BYTES_PER_BLOCK: u64 = 16 << 10;
pub(super) const MIN_ENTRIES: u64 = 1 << 10;
/// Places of tables from here on are unknown: nothing can refer to them.
pub(super) const NOWHERE: u64 = 1 << 63;
/// The place of a table that does not exist.
pub(super) const UNKNOWN: u64 = NOWHERE - 1;

/// The block that describes each table, by its first byte in the log.
pub(super) type Origins = [u64; 4];

/// A block of the log.
#[derive(Clone, Copy, Debug)]
pub(super) struct Noted {
    pub(super) at: u64,
    pub(super) len: u32,
    pub(super) literals: u32,
    pub(super) sequences: u32,
    pub(super) is_last: bool,
    pub(super) has_checksum: bool,
    pub(super) uses: Uses,
    /// Where the tables valid before it are described.
    pub(super) origins: Origins,
    pub(super) place: i64,
}

impl Noted {
    pub(super) fn range(&self) -> Range<u64> {
        self.at..self.at + u64::from(self.len)
    }
}

/// Fingerprints of the sequences of zstd blocks, and the places of these blocks.
#[derive(Debug)]
pub(super) struct Index {
    /// The ordinal of a block, and in the upper bits a part of the fingerprint. 0 is empty.
    pub(super) table: Vec<u64>,
    pub(super) blocks: VecDeque<Noted>,
    pub(super) max_blocks: usize,
    /// Ordinal of the first of `blocks`; the first of all is 1.
    pub(super) first: u64,
}

pub(super) fn entries(capacity: u64) -> usize {
    let entries = (capacity / BYTES_PER_ENTRY).max(MIN_ENTRIES);
    1 << (63 - entries.leading_zeros())
}

pub(super) fn max_blocks(capacity: u64) -> usize {
    (capacity / BYTES_PER_BLOCK).max(MIN_ENTRIES) as usize
}

impl Index {
    pub(super) fn new(capacity: u64) -> Index {
        let table = vec![0; entries(capacity)];
        Index { table, blocks: VecDeque::new(), max_blocks: max_blocks(capacity), first: 1 }
    }

    pub(super) fn memory(&self) -> usize {
        self.table.len() * 8 + self.blocks.capacity() * size_of::<Noted>()
    }

    pub(super) fn most_memory(capacity: u64) -> usize {
        entries(capacity) * 8 + 2 * max_blocks(capacity) * size_of::<Noted>()
    }

    pub(super) fn get(&self, ordinal: u64) -> Option<&Noted> {
        self.blocks.get(usize::try_from(ordinal.checked_sub(self.first)?).ok()?)
    }

    /// The block that begins at `at`.
    pub(super) fn at(&self, at: u64) -> Option<&Noted> {
        let nth = self.blocks.binary_search_by_key(&at, |block| block.at).ok()?;
        self.blocks.get(nth)
    }

    /// The block that contains `at`.
    pub(super) fn around(&self, at: u64) -> Option<&Noted> {
        let nth = self.blocks.partition_point(|block| block.at < at).checked_sub(1)?;
        self.blocks.get(nth).filter(|block| at <= block.at + u64::from(block.len))
    }

    pub(super) fn add(&mut self, block: Noted, fingerprints: impl Iterator<Item = u64>) {
        if self.blocks.back().is_some_and(|last| last.at >= block.at) {
            return;
        }
        if self.blocks.len() == self.max_blocks {
            self.blocks.pop_front();
            self.first += 1;
        }
        self.blocks.push_back(block);
        let ordinal = self.first + self.blocks.len() as u64 - 1;
        for fingerprint in fingerprints {
            let slot = self.slot(fingerprint);
            self.table[slot] = ordinal & 0xff_ffff_ffff | fingerprint & !0xff_ffff_ffff;
        }
    }

    pub(super) fn slot(&self, fingerprint: u64) -> usize {
        fingerprint as usize & (self.table.len() - 1)
    }

    pub(super) fn find(&self, fingerprint: u64) -> Option<u64> {
        let entry = self.table[self.slot(fingerprint)];
        let ordinal = entry & 0xff_ffff_ffff;
        (entry >> 40 == fingerprint >> 40 && ordinal != 0).then_some(ordinal)
    }

    pub(super) fn rewind(&mut self, offset: u64) {
        let kept = self.blocks.partition_point(|block| block.range().end <= offset);
        self.blocks.truncate(kept);
    }
}

/// A rolling hash of the last `COUNT` sequences, ignoring offsets.
#[derive(Default)]
pub(super) struct Rolling<const COUNT: u32>(u64);

impl<const COUNT: u32> Rolling<COUNT> {
    /// Adds a sequence. Each leaves the hash after `COUNT` more.
    #[inline(always)]
    pub(super) fn push(&mut self, sequence: &Sequence) {
        let both = u64::from(sequence.literals) << 32 | u64::from(sequence.matched);
        let mixed = (both + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.0 = (self.0 << (64 / COUNT)).wrapping_add(mixed ^ mixed >> 32);
    }

    #[inline(always)]
    pub(super) fn get(&self, key: u64) -> u64 {
        let hash = (self.0 ^ key).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let hash = (hash ^ hash >> 31).wrapping_mul(0x94d0_49bb_1331_11eb);
        // The oldest sequence is in the highest bits; slots use the lowest.
        hash ^ hash >> 32
    }
}

/// A hash of `COUNT` sequences.
pub(super) fn hash<const COUNT: u32>(sequences: &[Sequence]) -> u64 {
    let mut rolling = Rolling::<COUNT>::default();
    sequences.iter().for_each(|sequence| rolling.push(sequence));
    rolling.get(0)
}

/// The fingerprints of a block that are kept. Without the key, nobody can predict which these are,
/// or construct content with equal fingerprints.
pub(super) fn fingerprints(sequences: &[Sequence], key: u64) -> impl Iterator<Item = u64> {
    let mut rolling = Rolling::<{ WINDOW as u32 }>::default();
    let hashes = sequences.iter().map(move |sequence| {
        rolling.push(sequence);
        rolling.get(key)
    });
    hashes
        .skip(WINDOW - 1)
        .filter(|hash| (hash >> 32).is_multiple_of(KEPT))
        .map(|hash| hash.wrapping_mul(0xd6e8_feb8_6659_fd93))
}

/// A block that a frame names.
#[derive(Clone, Copy, Debug)]
pub(super) struct Named {
    pub(super) at: u64,
    pub(super) len: u32,
    /// Where its content begins; `None` if it gives tables only.
    pub(super) place: Option<i64>,
    /// It takes no tables from the source before.
    pub(super) is_fresh: bool,
}

/// The blocks that a frame names, and where the tables after them are described.
#[derive(Debug, Default)]
pub(super) struct Names {
    pub(super) all: Vec<Named>,
    pub(super) origins: Option<Origins>,
}

impl Names {
    /// Names the blocks that describe the tables that a block inherits, unless they are valid
    /// already. Returns whether they are available.
    pub(super) fn tables(
        &mut self,
        index: &Index,
        uses: &Uses,
        origins: &Origins,
        mut held: impl FnMut(&Range<u64>) -> Option<u64>,
    ) -> bool {
        let needed = || (0..4).filter(|&nth| uses.inherits[nth]);
        if self.origins.is_some_and(|now| needed().all(|nth| now[nth] == origins[nth])) {
            return true;
        }
        let mut describing: Vec<u64> = needed().map(|nth| origins[nth]).collect();
        describing.sort_unstable();
        describing.dedup();
        let before = self.all.len();
        let mut now = [UNKNOWN; 4];
        for (nth, &at) in describing.iter().enumerate() {
            let found = index.at(at).and_then(|block| Some((block, held(&block.range())?)));
            let Some((block, held)) = found else {
                self.all.truncate(before);
                return false;
            };
            self.all.push(Named { at: held, len: block.len, place: None, is_fresh: nth == 0 });
            describe(&mut now, &block.uses, at);
        }
        self.origins = (!describing.is_empty()).then_some(now);
        true
    }

    /// Names a block whose content is in the log at `held`.
    pub(super) fn block(&mut self, block: &Noted, held: u64, place: i64) {
        let Noted { at, len, .. } = *block;
        let is_fresh = self.origins.is_none();
        self.all.push(Named { at: held, len, place: Some(place), is_fresh });
        describe(self.origins.get_or_insert([UNKNOWN; 4]), &block.uses, at);
    }
}

/// Records the tables that a block at `at` describes.
pub(super) fn describe(origins: &mut Origins, uses: &Uses, at: u64) {
    for (nth, origin) in origins.iter_mut().enumerate() {
        if uses.describes[nth] {
            *origin = at;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Sequences of which every window has a fingerprint that is kept under `key`.
    fn prepared(key: u64, count: usize) -> Vec<Sequence> {
        let mut sequences: Vec<Sequence> = Vec::new();
        let mut random = 1u64;
        while sequences.len() < count {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let (literals, matched) = ((random >> 40) as u32 & 0xff, (random >> 50) as u32 & 0xff);
            sequences.push(Sequence { literals, matched, offset: 9 });
            let last = &sequences[sequences.len().saturating_sub(WINDOW)..];
            if last.len() == WINDOW && fingerprints(last, key).next().is_none() {
                sequences.pop();
            }
        }
        sequences
    }

    #[test]
    fn content_prepared_for_one_key_is_not_kept_everywhere_under_another() {
        let (key, count) = (0x1234_5678_9abc_def0, 600);
        let sequences = prepared(key, count);
        assert_eq!(fingerprints(&sequences, key).count(), count + 1 - WINDOW);
        for other in [0, 1, key + 1, key ^ 1 << 63, !key] {
            let kept = fingerprints(&sequences, other).count();
            assert!(kept < 4 * count / KEPT as usize, "{other:x}: {kept} of {count}");
        }
        // Fingerprints are found under their own key only.
        let (mut index, noted) = (
            Index::new(1 << 20),
            Noted {
                at: 5,
                len: 100,
                literals: 0,
                sequences: count as u32,
                is_last: true,
                has_checksum: false,
                uses: Uses::default(),
                origins: [UNKNOWN; 4],
                place: 0,
            },
        );
        index.add(noted, fingerprints(&sequences, key));
        let found = |of| fingerprints(&sequences, of).filter_map(|of| index.find(of)).count();
        assert!(found(key) > count / 2 && found(key + 1) == 0, "{}", found(key));
    }
}
