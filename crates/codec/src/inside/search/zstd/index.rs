//! An index of the sequences in the log: fingerprints, and the zstd blocks.

use crate::inside::wire::pieces::{MAX_JOINED, MAX_NAMED};
use crate::inside::wire::section::MAX_SOURCES;
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
/// Pieces that are kept for each block that may be kept: most are in one.
const PIECES_PER_BLOCK: usize = 2;
/// The place of a table that does not exist.
pub(super) const UNKNOWN: u64 = u64::MAX;

/// The block that describes each table, by its end in the log.
pub(super) type Origins = [u64; 4];

/// A block of the log. No two end at the same place, but blocks of streams that interleave may begin
/// in another order than they end.
#[derive(Clone, Copy, Debug)]
pub(super) struct Noted {
    pub(super) end: u64,
    pub(super) len: u32,
    /// Its pieces among those of the index.
    pub(super) first: u64,
    pub(super) pieces: u32,
    pub(super) literals: u32,
    pub(super) sequences: u32,
    pub(super) is_last: bool,
    pub(super) has_checksum: bool,
    pub(super) uses: Uses,
    /// Where the tables valid before it are described.
    pub(super) origins: Origins,
    pub(super) place: i64,
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
    /// The pieces of the blocks, in order, and the ordinal of the first.
    pieces: VecDeque<(u64, u32)>,
    first_piece: u64,
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
        let (blocks, max_blocks) = (VecDeque::new(), max_blocks(capacity));
        Index { table, blocks, max_blocks, first: 1, pieces: VecDeque::new(), first_piece: 0 }
    }

    pub(super) fn memory(&self) -> usize {
        self.table.len() * 8
            + self.blocks.capacity() * size_of::<Noted>()
            + self.pieces.capacity() * size_of::<(u64, u32)>()
    }

    pub(super) fn most_memory(capacity: u64) -> usize {
        // The lists grow by doubling.
        let each = size_of::<Noted>() + PIECES_PER_BLOCK * size_of::<(u64, u32)>();
        entries(capacity) * 8 + 2 * max_blocks(capacity) * each
    }

    pub(super) fn get(&self, ordinal: u64) -> Option<&Noted> {
        self.blocks.get(usize::try_from(ordinal.checked_sub(self.first)?).ok()?)
    }

    /// The block that ends at `end`.
    pub(super) fn ending(&self, end: u64) -> Option<&Noted> {
        let nth = self.blocks.binary_search_by_key(&end, |block| block.end).ok()?;
        self.blocks.get(nth)
    }

    /// The block in one piece that contains `at`, as the range of the log that it has.
    pub(super) fn around(&self, at: u64) -> Option<(&Noted, Range<u64>)> {
        let nth = self.blocks.partition_point(|block| block.end < at);
        let block = self.blocks.get(nth).filter(|block| block.pieces == 1)?;
        let range = self.pieces(block).next().filter(|range| range.start < at)?;
        Some((block, range))
    }

    /// Where a block lies in the log.
    pub(super) fn pieces(&self, block: &Noted) -> impl Iterator<Item = Range<u64>> {
        let first = block.first.saturating_sub(self.first_piece) as usize;
        let all = self.pieces.iter().skip(first).take(block.pieces as usize);
        all.map(|&(at, len)| at..at + u64::from(len))
    }

    /// Adds a block in these pieces.
    pub(super) fn add(
        &mut self,
        mut block: Noted,
        pieces: &[Range<u64>],
        fingerprints: impl Iterator<Item = u64>,
    ) {
        if self.blocks.back().is_some_and(|last| last.end >= block.end) {
            return;
        }
        while self.blocks.len() == self.max_blocks
            || self.pieces.len() + pieces.len() > PIECES_PER_BLOCK * self.max_blocks
        {
            let Some(oldest) = self.blocks.pop_front() else { return };
            self.first += 1;
            self.pieces.drain(..oldest.pieces as usize);
            self.first_piece += u64::from(oldest.pieces);
        }
        block.first = self.first_piece + self.pieces.len() as u64;
        block.pieces = pieces.len() as u32;
        let lengths = pieces.iter().map(|piece| (piece.start, (piece.end - piece.start) as u32));
        self.pieces.extend(lengths);
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
        let kept = self.blocks.partition_point(|block| block.end <= offset);
        self.blocks.truncate(kept);
        self.pieces.truncate(self.blocks.iter().map(|block| block.pieces as usize).sum());
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
#[derive(Clone, Debug)]
pub(super) struct Named {
    /// Its pieces among those of all.
    pub(super) pieces: Range<usize>,
    /// Where its content begins; `None` if it gives tables only.
    pub(super) place: Option<i64>,
    /// It takes no tables from the source before.
    pub(super) is_fresh: bool,
}

/// The blocks that a frame names, and where the tables after them are described.
#[derive(Debug, Default)]
pub(super) struct Names {
    pub(super) all: Vec<Named>,
    /// Their pieces in the log.
    pub(super) pieces: Vec<Range<u64>>,
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
        let before = (self.all.len(), self.pieces.len());
        let mut now = [UNKNOWN; 4];
        for (nth, &end) in describing.iter().enumerate() {
            let found = index.ending(end);
            let Some((block, pieces)) =
                found.and_then(|block| Some((block, self.held(index, block, &mut held)?)))
            else {
                self.all.truncate(before.0);
                self.pieces.truncate(before.1);
                return false;
            };
            self.all.push(Named { pieces, place: None, is_fresh: nth == 0 });
            describe(&mut now, &block.uses, end);
        }
        self.origins = (!describing.is_empty()).then_some(now);
        true
    }

    /// Whether a frame may name so many.
    pub(super) fn fit(&self) -> bool {
        let divided = self.all.iter().filter(|name| name.pieces.len() > 1);
        let pieces = divided.flat_map(|name| &self.pieces[name.pieces.clone()]);
        let joined: u64 = pieces.map(|piece| piece.end - piece.start).sum();
        self.all.len() <= MAX_NAMED
            && self.pieces.len() <= MAX_SOURCES
            && joined <= MAX_JOINED as u64
    }

    /// Adds the pieces of a block, if all of them are in the log.
    pub(super) fn held(
        &mut self,
        index: &Index,
        block: &Noted,
        mut held: impl FnMut(&Range<u64>) -> Option<u64>,
    ) -> Option<Range<usize>> {
        let first = self.pieces.len();
        for piece in index.pieces(block) {
            let Some(at) = held(&piece) else {
                self.pieces.truncate(first);
                return None;
            };
            self.pieces.push(at..at + (piece.end - piece.start));
        }
        Some(first..self.pieces.len())
    }

    /// Names a block whose content is in these pieces.
    pub(super) fn block(&mut self, block: &Noted, pieces: Range<usize>, place: i64) {
        let is_fresh = self.origins.is_none();
        self.all.push(Named { pieces, place: Some(place), is_fresh });
        describe(self.origins.get_or_insert([UNKNOWN; 4]), &block.uses, block.end);
    }
}

/// Records the tables that the block that ends at `end` describes.
pub(super) fn describe(origins: &mut Origins, uses: &Uses, end: u64) {
    for (nth, origin) in origins.iter_mut().enumerate() {
        if uses.describes[nth] {
            *origin = end;
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
                end: 105,
                len: 100,
                first: 0,
                pieces: 0,
                literals: 0,
                sequences: count as u32,
                is_last: true,
                has_checksum: false,
                uses: Uses::default(),
                origins: [UNKNOWN; 4],
                place: 0,
            },
        );
        index.add(noted, std::slice::from_ref(&(5..105)), fingerprints(&sequences, key));
        let found = |of| fingerprints(&sequences, of).filter_map(|of| index.find(of)).count();
        assert!(found(key) > count / 2 && found(key + 1) == 0, "{}", found(key));
    }
}
