//! Look-ups. They share the index, so any number of threads can do them at the same time.

use super::Index;
use super::stats::Tally;
use super::table::Table;
use crate::device::{PAGE, PageBuffer};
use crate::error::IndexError;
use crate::filter::Candidates;
use crate::format::hash::Hash;
use crate::format::page::{self, Place};
use crate::options::Answer;
use std::cell::Cell;
use std::ops::Range;

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
    pub(super) left: usize,
    /// Pages of the incarnation after those that were not looked at yet.
    pages: Range<u32>,
    /// One of them is lost, so that nobody knows whether it had the key.
    lost: bool,
    may_have: bool,
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

thread_local! {
    /// A page to read into, which each thread that looks up keeps.
    static PAGE_OF_THREAD: Cell<Option<Box<PageBuffer>>> = const { Cell::new(None) };
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
        let mut page = PAGE_OF_THREAD.take().unwrap_or_default();
        let answer = self.read_into(&mut page, probe, key, tally);
        PAGE_OF_THREAD.set(Some(page));
        answer
    }

    fn read_into(
        &self,
        page: &mut PageBuffer,
        probe: &mut Probe,
        key: &[u8],
        tally: &mut Tally,
    ) -> Answer {
        loop {
            match self.next(probe) {
                Step::Unknown => return Answer::Unknown,
                Step::Absent => return Answer::Absent,
                Step::Read(at, place) => {
                    let read = self.device.read(at, &mut page.0).is_ok();
                    match self.found(read.then_some(&page.0), &place, probe.hash, key, tally) {
                        Found::Value(value) => {
                            self.note_use(probe.hash, probe.left, key, value);
                            return Answer::Value(value.to_vec());
                        }
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
                let candidates = loaded.filter.candidates(hash.inside);
                if !candidates.is_empty() || loaded.is_damaged {
                    let left = self.table(hash.partition).incarnations.len();
                    let (pages, lost, may_have) = (0..0, false, false);
                    return Known::Perhaps(Probe {
                        hash,
                        candidates,
                        left,
                        pages,
                        lost,
                        may_have,
                        reads: 0,
                    });
                }
                Known::Absent
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
        let incarnations = &self.table(partition).incarnations;
        let loaded = self.load(partition);
        loop {
            for number in probe.pages.by_ref() {
                let pages = &loaded.pages[probe.left];
                probe.lost |= pages.is_lost(number);
                if pages.is_gone(number) || pages.is_lost(number) || !probe.may_have {
                    continue;
                }
                probe.reads += 1;
                let incarnation = &incarnations[probe.left];
                let place = incarnation.place(partition, number);
                let slot = geometry.slot(incarnation.sequence, partition, incarnation.count);
                let at = geometry.slot_at(slot) + u64::from(number) * PAGE as u64;
                return Step::Read(at, place);
            }
            if probe.lost {
                return Step::Unknown;
            }
            loop {
                let Some(left) = probe.left.checked_sub(1) else { return Step::Absent };
                probe.left = left;
                let count = incarnations[left].count;
                probe.may_have = probe.candidates.may_have(count);
                if probe.may_have || loaded.pages[left].lost != 0 {
                    probe.pages = loaded.pages_of(geometry, count, probe.hash);
                    break;
                }
            }
        }
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
        match self.reader.find(page, hash, key) {
            None => {
                tally.spurious += 1;
                Found::Nothing
            }
            Some(None) => Found::Deleted,
            Some(Some(value)) => Found::Value(value),
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
