//! What is in memory of a super table besides its buffer.

use crate::allowance::Allowance;
use crate::filter::{IncarnationFilter, Shape};
use crate::format::hash::Hash;
use crate::format::page::{self, Place};
use crate::format::{Geometry, Layout, sorted};
use std::collections::{HashMap, VecDeque};
use std::ops::Range;
use std::sync::OnceLock;

/// Bytes that an entry of a delete list takes beside its key, by the layout of the standard
/// library's table, at its lowest load.
const DELETE: u64 = 96;

/// An incarnation on the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Incarnation {
    /// Number in its partition.
    pub(crate) count: u64,
    /// Number in the index.
    pub(crate) sequence: u64,
    /// The epoch in which it was written.
    pub(crate) epoch: u64,
    /// It may have been overwritten before the last crash.
    pub(crate) suspect: bool,
    /// The entries to keep of it were inserted again.
    pub(crate) chosen: bool,
}

impl Incarnation {
    pub(crate) fn place(&self, partition: u32, page: u32) -> Place {
        let Incarnation { count, sequence, epoch, .. } = *self;
        Place { sequence, epoch, count, partition, page: page as u16 }
    }
}

#[derive(Debug, Default)]
pub(crate) struct Table {
    /// Oldest first.
    pub(crate) incarnations: VecDeque<Incarnation>,
    /// Number of the next incarnation.
    pub(crate) next: u64,
    /// What its incarnations' pages say, once they were read. Look-ups, which share the index, read
    /// them when they use the partition first.
    pub(crate) loaded: OnceLock<Loaded>,
}

/// What the pages of a partition say.
#[derive(Debug)]
pub(crate) struct Loaded {
    pub(crate) filter: Box<dyn IncarnationFilter>,
    /// For each incarnation, oldest first.
    pub(crate) pages: VecDeque<Pages>,
    pub(crate) deletes: DeleteList,
    /// With the sorted layout, the fences of all pages of the incarnation with number `count` from
    /// `count mod most` times its pages on.
    fences: Vec<u16>,
    /// Whether any page may have been lost.
    pub(crate) is_damaged: bool,
}

impl Loaded {
    pub(crate) fn new(shape: &Shape, geometry: &Geometry) -> Loaded {
        let fences = match geometry.layout {
            Layout::Published => 0,
            Layout::Sorted => shape.most as usize * geometry.pages as usize,
        };
        Loaded {
            filter: shape.filter(),
            pages: VecDeque::with_capacity(shape.most as usize + 1),
            deletes: DeleteList::default(),
            fences: vec![0; fences],
            is_damaged: false,
        }
    }

    /// Bytes of memory beside the filter and the delete list.
    pub(crate) fn memory(most: u64, geometry: &Geometry) -> u64 {
        let fences = match geometry.layout {
            Layout::Published => 0,
            Layout::Sorted => 2 * most * u64::from(geometry.pages),
        };
        (most + 1) * size_of::<Pages>() as u64 + fences + Shape::fixed()
    }

    /// Adds the pages of an incarnation.
    pub(crate) fn push(&mut self, count: u64, pages: Pages, fences: &Fences) {
        self.is_damaged |= pages.lost != 0;
        self.pages.push_back(pages);
        let at = self.first_fence(count, fences.0.len());
        self.fences[at..at + fences.0.len()].copy_from_slice(&fences.0);
    }

    fn first_fence(&self, count: u64, pages: usize) -> usize {
        let most = self.fences.len().checked_div(pages).unwrap_or(0);
        if most == 0 { 0 } else { (count % most as u64) as usize * pages }
    }

    /// The pages of an incarnation that may have a key: one, or with the sorted layout two where a
    /// page ends within a prefix.
    pub(crate) fn pages_of(&self, geometry: &Geometry, count: u64, hash: Hash) -> Range<u32> {
        match geometry.layout {
            Layout::Published => {
                let number = page::page_of(hash, geometry.pages);
                number..number + 1
            }
            Layout::Sorted => {
                let at = self.first_fence(count, geometry.pages as usize);
                let fences = &self.fences[at..at + geometry.pages as usize];
                let prefix = sorted::prefix(hash.inside);
                let end = fences.partition_point(|&fence| fence <= prefix);
                let first = fences[..end].partition_point(|&fence| fence < prefix);
                first.saturating_sub(1) as u32..end as u32
            }
        }
    }
}

/// The prefix of the first hash of each page of a slot, ascending; none with the published layout.
#[derive(Debug, Default)]
pub(crate) struct Fences(Vec<u16>);

impl Fences {
    /// Those of pages that are filled one after another with entries of these hashes.
    pub(crate) fn of(geometry: &Geometry, hashes: &[u64]) -> Fences {
        Fences(match geometry.layout {
            Layout::Published => Vec::new(),
            Layout::Sorted => {
                let per_page = sorted::most(geometry.key + geometry.value);
                let first = |page| hashes.get(page as usize * per_page).copied();
                // A page without entries has no prefix.
                let fence = |page| first(page).map_or(u16::MAX, sorted::prefix);
                (0..geometry.pages).map(fence).collect()
            }
        })
    }

    /// Those of pages with these lowest and highest prefixes, `None` for a damaged page.
    pub(crate) fn read(pages: &[Option<(u16, u16)>]) -> Fences {
        let (mut fence, mut last) = (0, 0);
        let fences = pages.iter().map(|page| {
            // A damaged page begins where the one before it ends, at the earliest.
            let (lowest, highest) = page.unwrap_or((last, last));
            // Ascending, whatever a page says.
            fence = lowest.max(fence);
            last = highest.max(fence);
            fence
        });
        Fences(fences.collect())
    }
}

/// Pages of an incarnation that cannot be read, as bits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Pages {
    /// They are damaged: nobody knows which keys they had.
    pub(crate) lost: u64,
    /// They were evicted.
    pub(crate) gone: u64,
}

impl Pages {
    pub(crate) fn is_lost(&self, number: u32) -> bool {
        self.lost >> number & 1 == 1
    }

    pub(crate) fn is_gone(&self, number: u32) -> bool {
        self.gone >> number & 1 == 1
    }
}

impl Table {
    /// With room for one more incarnation than there are at most.
    pub(crate) fn new(most: u32) -> Table {
        let incarnations = VecDeque::with_capacity(most as usize + 1);
        Table { incarnations, ..Table::default() }
    }

    pub(crate) fn push(&mut self, incarnation: Incarnation) {
        self.next = incarnation.count + 1;
        self.incarnations.push_back(incarnation);
    }

    /// Removes the oldest incarnation. Its deletes have nothing left to hide.
    pub(crate) fn pop(
        &mut self,
        for_deletes: &Allowance,
        for_filters: &Allowance,
    ) -> Option<Incarnation> {
        let oldest = self.incarnations.pop_front()?;
        if let Some(loaded) = self.loaded.get_mut() {
            loaded.pages.pop_front();
            loaded.filter.leave(oldest.count, for_filters);
            loaded.deletes.forget(oldest.count, for_deletes);
        }
        Some(oldest)
    }
}

/// Deleted keys, with the incarnation that has the delete (T:4093-4099).
#[derive(Debug, Default)]
pub(crate) struct DeleteList(HashMap<Box<[u8]>, u64>);

impl DeleteList {
    /// Memory of a deleted key.
    fn bytes(key: &[u8]) -> u64 {
        DELETE + key.len() as u64
    }

    pub(crate) fn has(&self, key: &[u8]) -> bool {
        !self.0.is_empty() && self.0.contains_key(key)
    }

    /// Notes what an entry of an incarnation, or of the buffer that becomes it, says about a key.
    /// A delete for which there is no memory is found on the device.
    pub(crate) fn note(&mut self, key: &[u8], deleted: bool, count: u64, allowance: &Allowance) {
        if !deleted {
            if !self.0.is_empty() && self.0.remove(key).is_some() {
                allowance.give_back(DeleteList::bytes(key));
            }
        } else if let Some(of) = self.0.get_mut(key) {
            *of = count;
        } else if allowance.take(DeleteList::bytes(key)) {
            self.0.insert(key.into(), count);
        }
    }

    /// Forgets what incarnations up to this one deleted.
    fn forget(&mut self, count: u64, allowance: &Allowance) {
        self.0.retain(|key, of| {
            let keep = *of > count;
            if !keep {
                allowance.give_back(DeleteList::bytes(key));
            }
            keep
        });
    }
}
