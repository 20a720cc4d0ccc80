//! Look-ups. They share the index, so any number of threads can do them at the same time.

use super::Index;
use super::stats::Tally;
use super::table::{Loaded, Table};
use crate::device::{PAGE, PageBuffer};
use crate::error::IndexError;
use crate::filter::{Candidates, may_have};
use crate::format::hash::Hash;
use crate::format::page::{self, Place};
use crate::options::Answer;

/// What the memory of an index knows about a key.
pub(super) enum Known<'a> {
    Value(&'a [u8]),
    Absent,
    /// Pages of incarnations may have it.
    Perhaps(Probe),
}

/// The state of a look-up that may have to read pages.
pub(super) struct Probe {
    pub(super) hash: Hash,
    candidates: Candidates,
    /// Incarnations that were not looked at yet, which are the oldest.
    left: usize,
    /// Pages read.
    pub(super) reads: u64,
}

/// What a look-up does next.
pub(super) enum Step {
    /// Read the page at this offset, which belongs in this place.
    Read(u64, Place),
    Unknown,
    Absent,
}

impl Index {
    /// Looks up the newest value of a key.
    ///
    /// # Errors
    ///
    /// If the key has a wrong length. Pages that cannot be read give [`Answer::Unknown`].
    pub fn get(&self, key: &[u8]) -> Result<Answer, IndexError> {
        let hash = self.hash(key)?;
        let mut tally = Tally::default();
        let answer = match self.known(hash, key, &mut tally) {
            Known::Value(value) => Answer::Value(value.to_vec()),
            Known::Absent => Answer::Absent,
            Known::Perhaps(mut probe) => {
                let answer = self.read_until_known(&mut probe, key, &mut tally);
                tally.reads[probe.reads.min(3) as usize] += 1;
                answer
            }
        };
        tally.found += u64::from(matches!(answer, Answer::Value(_)));
        self.counters.add(&tally);
        Ok(answer)
    }

    fn read_until_known(&self, probe: &mut Probe, key: &[u8], tally: &mut Tally) -> Answer {
        let mut page = None;
        loop {
            match self.next(probe) {
                Step::Unknown => return Answer::Unknown,
                Step::Absent => return Answer::Absent,
                Step::Read(at, place) => {
                    let page = page.get_or_insert_with(PageBuffer::default);
                    let read = self.device.read(at, &mut page.0).is_ok();
                    match self.found(read.then_some(&page.0), &place, probe.hash, key, tally) {
                        Found::Value(value) => return Answer::Value(value.to_vec()),
                        Found::Deleted => return Answer::Absent,
                        Found::Damaged => return Answer::Unknown,
                        Found::Nothing => {}
                    }
                }
            }
        }
    }

    /// What buffer, delete list and filters say.
    pub(super) fn known<'a>(&'a self, hash: Hash, key: &[u8], tally: &mut Tally) -> Known<'a> {
        let known = if let Some(value) = self.buffers.get(hash, key) {
            value.map_or(Known::Absent, Known::Value)
        } else {
            let loaded = self.load(hash.partition);
            if loaded.deletes.has(key) {
                tally.delete_list += 1;
                Known::Absent
            } else {
                let candidates = loaded.filter.candidates(&self.shape, hash.inside);
                let left = self.table(hash.partition).incarnations.len();
                return Known::Perhaps(Probe { hash, candidates, left, reads: 0 });
            }
        };
        tally.reads[0] += 1;
        known
    }

    fn table(&self, partition: u32) -> &Table {
        &self.tables[partition as usize]
    }

    /// The next page to read for a look-up, of newer incarnations first.
    pub(super) fn next(&self, probe: &mut Probe) -> Step {
        let geometry = &self.superblock.geometry;
        let partition = probe.hash.partition;
        let table = self.table(partition);
        let Loaded { pages, .. } = self.load(partition);
        let number = page::page_of(probe.hash, geometry.pages);
        while probe.left > 0 {
            probe.left -= 1;
            let (incarnation, pages) = (&table.incarnations[probe.left], &pages[probe.left]);
            if pages.gone >> number & 1 == 1 {
                continue;
            }
            if pages.lost >> number & 1 == 1 {
                return Step::Unknown;
            }
            if may_have(&self.shape, &probe.candidates, incarnation.count) {
                probe.reads += 1;
                let place = incarnation.place(partition, number);
                let slot = geometry.slot(incarnation.sequence, partition, incarnation.count);
                return Step::Read(geometry.slot_at(slot) + u64::from(number) * PAGE as u64, place);
            }
        }
        Step::Absent
    }

    /// What a page says about a key. `None` is a page that could not be read.
    pub(super) fn found<'a>(
        &self,
        page: Option<&'a [u8; PAGE]>,
        place: &Place,
        hash: Hash,
        key: &[u8],
        tally: &mut Tally,
    ) -> Found<'a> {
        tally.pages_read += 1;
        let Some(page) = page.filter(|page| page::is_sealed(&self.superblock.id, place, &page[..]))
        else {
            tally.damaged += 1;
            return Found::Damaged;
        };
        match self.entries.find(page, hash, key) {
            None => {
                tally.spurious += 1;
                Found::Nothing
            }
            Some(place) if self.entries.is_deleted(page, place) => Found::Deleted,
            Some(place) => Found::Value(self.entries.value(page, place)),
        }
    }
}

/// What a page says about a key.
pub(super) enum Found<'a> {
    Value(&'a [u8]),
    Deleted,
    Damaged,
    Nothing,
}
