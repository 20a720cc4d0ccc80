//! What is kept with the content of a log: its header, where it ends, the places at which both ends
//! may go on, its padding, whose its content is, and where it lies. `docs/STORE.md`, section 9, has
//! the bytes.

use super::extents::Extents;
use oncewire_flash::store::layout::{MAX_STATE, UNIT_CONTENT};
use oncewire_session::{Epoch, LogHeader, LogRecord, Piece, Place, Run};
use std::ops::Range;

/// Most places: those of 2.5 GiB. Beyond that, the oldest are dropped.
const MOST_PLACES: usize = 40_000;
/// Most changes of owner. Beyond that, the oldest are dropped: that content belongs to nobody.
const MOST_RUNS: usize = 20_000;
/// Most stretches of padding: of the last passes around the ring.
const MOST_PADDINGS: usize = 64;
/// Most gaps. Beyond that, the oldest two become one.
const MOST_GAPS: usize = 256;
/// Padding is shorter than a block; anything longer must not pass for it.
const LEAST_GAP: u64 = oncewire_codec::DEFAULT_BLOCK as u64;
const VERSION: u64 = 1;
const FIXED: usize = 88;

/// A log's state, which is committed together with content.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Record {
    pub(super) log: LogRecord,
    pub(super) paddings: Vec<Range<u64>>,
    /// Content that is not stored, ascending.
    pub(super) gaps: Vec<Range<u64>>,
    /// Where content lies that is not written because it repeats other content.
    pub(super) extents: Extents,
}

impl Record {
    /// Of an empty log.
    pub(super) fn new(header: LogHeader) -> Record {
        let (places, runs) = (Vec::new(), Vec::new());
        let log = LogRecord { header, from: 0, end: Place::default(), places, runs };
        Record { log, paddings: Vec::new(), gaps: Vec::new(), extents: Extents::default() }
    }

    /// Where it ends.
    pub(super) fn end(&self) -> u64 {
        self.log.end.offset
    }

    /// The address of what is written next.
    pub(super) fn end_address(&self) -> u64 {
        self.extents.address(self.log.end.offset)
    }

    /// Content was appended. What lies below `low` is not on disk any more.
    pub(super) fn append(&mut self, piece: &Piece, low: u64) {
        let log = &mut self.log;
        log.end = piece.end();
        log.from = log.from.max(log.end.offset.saturating_sub(log.header.capacity));
        let from = log.from;
        self.extents.trim(low);
        if piece.padding > 0 {
            self.paddings.push(piece.offset - piece.padding..piece.offset);
        }
        if piece.is_place {
            log.places.push(log.end);
        }
        for &run in &piece.runs {
            if log.runs.last().is_none_or(|last| last.start < run.start && last.owner != run.owner)
            {
                log.runs.push(run);
            }
        }
        trim(&mut self.paddings, MOST_PADDINGS, |padding| padding.end <= from);
        trim(&mut log.places, MOST_PLACES, |place| place.offset <= from);
        // The run that the oldest content lies in begins below it. What is only on disk has owners.
        let later = log.runs.partition_point(|run| run.start <= from.min(low));
        log.runs.drain(..later.saturating_sub(1).max(log.runs.len().saturating_sub(MOST_RUNS)));
    }

    /// Content up to `to` is not stored. What lies below `low` is not there any more. Returns what
    /// counts as lost.
    pub(super) fn skip(&mut self, to: u64, low: u64) -> Range<u64> {
        let start = self.log.end.offset.min(to.saturating_sub(LEAST_GAP));
        self.log.end = Place { offset: to, chain: 0 };
        self.gaps.retain(|gap| gap.end > low);
        match self.gaps.last_mut().filter(|last| last.end >= start) {
            Some(last) => last.end = to,
            None => self.gaps.push(start..to),
        }
        if self.gaps.len() > MOST_GAPS {
            let oldest = self.gaps.remove(0);
            self.gaps[0].start = oldest.start;
        }
        start..to
    }

    /// A piece is not stored, and the log goes on behind it.
    pub(super) fn pass(&mut self, piece: &Piece, low: u64) {
        self.skip(piece.end().offset, low);
        self.log.end = piece.end();
        self.log.places.extend(piece.is_place.then_some(self.log.end));
        trim(&mut self.log.places, MOST_PLACES, |place| place.offset <= low);
    }

    /// Whether all content of a range is stored.
    pub(super) fn has(&self, range: &Range<u64>) -> bool {
        !self.gaps.iter().any(|gap| gap.start < range.end && range.start < gap.end)
    }

    /// What of a range to read to make hooks of it, which has at most `most` bytes, at its end; and
    /// whether it can be read, which what was `overwritten` cannot.
    pub(super) fn newest(
        &self,
        range: &Range<u64>,
        low: u64,
        most: u64,
        overwritten: &[Range<u64>],
    ) -> (u64, bool) {
        if range.end <= low {
            return (range.start, false);
        }
        let mut start = range.start.max(low).max(range.end.saturating_sub(most));
        // Whole units, if there is one.
        let (address, _) = self.extents.find(start);
        let aligned = start + (address.next_multiple_of(UNIT_CONTENT as u64) - address);
        start = if aligned < range.end { aligned } else { start };
        let missing = self.gaps.iter().chain(overwritten);
        let missing = missing.filter(|gap| gap.start < range.end && start < gap.end);
        match missing.max_by_key(|gap| gap.start) {
            Some(gap) if gap.end < range.end => (gap.end, true),
            Some(gap) => (gap.start.max(range.start), false),
            None => (start, true),
        }
    }

    /// Whose the content of a range is.
    pub(super) fn owners(&self, range: &Range<u64>) -> Vec<Run> {
        let runs = &self.log.runs;
        let first = runs.partition_point(|run| run.start <= range.start).saturating_sub(1);
        let end = runs.partition_point(|run| run.start < range.end);
        runs.get(first..end).unwrap_or_default().to_vec()
    }

    /// What was stored before `offset` does not belong to what follows.
    pub(super) fn restart(&mut self, end: Place) {
        (self.log.from, self.log.end) = (end.offset, end);
        self.log.places.clear();
        self.log.runs.clear();
        self.paddings.clear();
        self.gaps.clear();
        self.extents = Extents::default();
    }

    /// The log was rewound.
    pub(super) fn rewind(&mut self, epoch: Epoch, to: Place) {
        let log = &mut self.log;
        (log.header.epoch, log.end) = (epoch, to);
        self.extents.rewind(to.offset);
        log.places.retain(|place| place.offset <= to.offset);
        log.runs.retain(|run| run.start < to.offset);
        for list in [&mut self.paddings, &mut self.gaps] {
            list.retain(|range| range.start < to.offset);
            list.iter_mut().for_each(|range| range.end = range.end.min(to.offset));
        }
    }

    /// Where the last gap ends, or the last padding that is of another size of the log, and ends
    /// nowhere in the ring of this one: what comes back into memory lies above.
    pub(super) fn misplaced(&self) -> u64 {
        let capacity = self.log.header.capacity.max(1);
        let ends = self.paddings.iter().map(|padding| padding.end);
        let misplaced = ends.filter(|end| !end.is_multiple_of(capacity));
        misplaced.chain(self.gaps.last().map(|gap| gap.end)).max().unwrap_or(0)
    }

    /// The state of a log in a store.
    pub(super) fn write(&self) -> Vec<u8> {
        let LogRecord { header, from, end, places, runs } = &self.log;
        let count = |len: usize| len as u64;
        let pairs = places.len() + runs.len() + self.paddings.len() + self.gaps.len();
        let mut bytes = Vec::with_capacity(FIXED + 16 * pairs + 24 * self.extents.len());
        let fixed = [
            VERSION
                | count(self.gaps.len()) << 16
                | count(self.paddings.len()) << 32
                | count(self.extents.len()) << 48,
            header.epoch.log,
            header.epoch.number,
            header.capacity,
            header.key,
            *from,
            end.offset,
            end.chain,
            count(places.len()),
            count(runs.len()),
            self.extents.base(),
        ];
        let places = places.iter().map(|place| [place.offset, place.chain]);
        let runs = runs.iter().map(|run| [run.start, run.owner]);
        let paddings = self.paddings.iter().map(|padding| [padding.start, padding.end]);
        let gaps = self.gaps.iter().map(|gap| [gap.start, gap.end]);
        let pairs = places.chain(runs).chain(paddings).chain(gaps);
        let numbers = fixed.into_iter().chain(pairs.flatten()).chain(self.extents.numbers());
        numbers.for_each(|number| bytes.extend_from_slice(&number.to_le_bytes()));
        debug_assert!(bytes.len() <= MAX_STATE as usize);
        bytes
    }

    /// Reads a state. `None` if it is empty, of another version, or contradicts itself.
    pub(super) fn read(bytes: &[u8]) -> Option<Record> {
        if bytes.len() < FIXED || !bytes.len().is_multiple_of(8) {
            return None;
        }
        let mut numbers = bytes
            .chunks_exact(8)
            .map(|number| u64::from_le_bytes(number.try_into().unwrap_or_default()));
        let mut next = || numbers.next();
        let first = next()?;
        let [version, gaps, paddings, extents] = [0, 16, 32, 48].map(|at| first >> at & 0xffff);
        let epoch = Epoch { log: next()?, number: next()? };
        let header = LogHeader { epoch, capacity: next()?, key: next()? };
        let (from, end) = (next()?, Place { offset: next()?, chain: next()? });
        let (places, runs, base) = (next()?, next()?, next()?);
        let pairs = places.checked_add(runs)?.checked_add(paddings)?.checked_add(gaps)?;
        let numbers = pairs.checked_mul(2)?.checked_add(3 * extents)?;
        if version != VERSION || numbers != ((bytes.len() - FIXED) / 8) as u64 {
            return None;
        }
        let mut pairs = |count: u64| -> Option<Vec<[u64; 2]>> {
            (0..count).map(|_| Some([next()?, next()?])).collect()
        };
        let places = pairs(places)?.into_iter().map(|[offset, chain]| Place { offset, chain });
        let runs = pairs(runs)?.into_iter().map(|[start, owner]| Run { start, owner });
        let (places, runs) = (places.collect(), runs.collect());
        let mut ranges = |count: u64| -> Option<Vec<Range<u64>>> {
            let ranges: Vec<_> = pairs(count)?.into_iter().map(|[start, end]| start..end).collect();
            let ordered = ranges.iter().all(|range| range.start <= range.end)
                && ranges.windows(2).all(|two| two[0].end <= two[1].start);
            ordered.then_some(ranges)
        };
        let (paddings, gaps) = (ranges(paddings)?, ranges(gaps)?);
        let extents: Option<Vec<[u64; 3]>> =
            (0..extents).map(|_| Some([next()?, next()?, next()?])).collect();
        let extents = Extents::read(base, &extents?, end.offset)?;
        let log = LogRecord { header, from, end, places, runs };
        Some(Record { log, paddings, gaps, extents })
    }
}

/// Drops the first ones that are useless, and so many more that at most `most` are left.
fn trim<T>(list: &mut Vec<T>, most: usize, is_useless: impl Fn(&T) -> bool) {
    let useless = list.iter().take_while(|one| is_useless(one)).count();
    // In batches: removing from the front costs as much as what stays.
    let over = list.len().saturating_sub(most);
    if over > 0 || useless > list.len() / 4 {
        list.drain(..useless.max(over));
    }
}

#[cfg(test)]
mod tests {
    use super::super::extents::{LEAST, MOST_EXTENTS};
    use super::*;

    const HEADER: LogHeader =
        LogHeader { epoch: Epoch { log: 7, number: 2 }, capacity: 1 << 20, key: 9 };

    fn piece(offset: u64, len: usize, owner: u64) -> Piece {
        let bytes = vec![0; len];
        let runs = vec![Run { start: offset, owner }];
        let (chain, repeats) = (offset ^ 5, Vec::new());
        Piece { offset, padding: 0, bytes, chain, is_place: true, runs, repeats }
    }

    #[test]
    fn a_record_is_read_as_it_was_written_and_nothing_else_is() {
        let mut record = Record::new(HEADER);
        for n in 0..40u64 {
            record.append(&piece(n * 30_000, 30_000, n / 3), u64::MAX);
        }
        let padded = Piece { padding: 100, ..piece(1_200_100, 50, 3) };
        record.append(&padded, u64::MAX);
        assert_eq!(record.log.from, record.log.end.offset - (1 << 20));
        assert_eq!(record.paddings, vec![(1_200_000..1_200_100)]);
        let bytes = record.write();
        assert_eq!(Record::read(&bytes), Some(record.clone()));
        for len in 0..bytes.len() {
            assert_eq!(Record::read(&bytes[..len]), None);
        }
        for at in [0, 4, 6, 64, 72, 79, 87] {
            let mut changed = bytes.clone();
            changed[at] ^= 0x40;
            assert_eq!(Record::read(&changed), None, "{at}");
        }
        // Content that was not stored is no padding, however short.
        let mut holed = record.clone();
        let end = holed.log.end.offset;
        assert_eq!(holed.skip(end + 10, 0), end - 65_526..end + 10);
        assert_eq!(holed.skip(end + 70_000, 0), end + 10..end + 70_000, "one gap");
        holed.append(&piece(end + 70_000, 100, 3), u64::MAX);
        assert_eq!((holed.gaps.len(), holed.misplaced()), (1, end + 70_000));
        assert!(holed.has(&(end + 70_000..end + 70_100)) && !holed.has(&(end - 1..end + 1)));
        assert_eq!(Record::read(&holed.write()), Some(holed.clone()));
        for nth in 1..1000 {
            holed.skip(end + 100_000 * nth, 0);
            holed.append(&piece(end + 100_000 * nth, 100, 3), u64::MAX);
        }
        assert!(holed.gaps.len() <= MOST_GAPS && !holed.has(&(end..end + 1)));
        holed.rewind(Epoch { log: 7, number: 3 }, Place { offset: end, chain: 1 });
        assert_eq!(holed.gaps, vec![(end - 65_526..end)]);
        // What lies above the end after a rewind is gone, and what lies below is not.
        let epoch = Epoch { log: 7, number: 3 };
        record.rewind(epoch, Place { offset: 1_000_000, chain: 1 });
        assert_eq!(record.log.end, Place { offset: 1_000_000, chain: 1 });
        assert!(record.log.places.iter().all(|place| place.offset <= 1_000_000));
        assert_eq!(record.log.places.last().map(|place| place.offset), Some(990_000));
        assert_eq!((record.log.header.epoch, record.paddings.len()), (epoch, 0));
        assert_eq!(record.misplaced(), 0);
        record.append(&Piece { padding: 48_576, ..piece(1_048_576, 50, 3) }, u64::MAX);
        assert_eq!(record.misplaced(), 0, "it ends where the ring does");
        record.log.header.capacity = 3 << 19;
        assert_eq!(record.misplaced(), 1_048_576);
        let unit = UNIT_CONTENT as u64;
        let mut holed = Record::new(HEADER);
        holed.gaps = vec![10 * unit..12 * unit, 20 * unit..21 * unit];
        let newest = |range: Range<u64>, low| holed.newest(&range, low, 4 * unit, &[]);
        assert_eq!(newest(0..8 * unit, 0), (4 * unit, true));
        assert_eq!(newest(0..8 * unit + 5, 0), (5 * unit, true), "whole units");
        assert_eq!(newest(8 * unit + 5..8 * unit + 9, 0), (8 * unit + 5, true));
        assert_eq!(newest(0..14 * unit, 0), (12 * unit, true), "behind a gap");
        assert_eq!(newest(0..12 * unit, 0), (10 * unit, false), "the gap");
        assert_eq!(newest(11 * unit..12 * unit, 0), (11 * unit, false));
        assert_eq!(newest(0..8 * unit, 6 * unit), (6 * unit, true));
        assert_eq!(newest(0..6 * unit, 6 * unit), (0, false), "not on disk any more");
        holed.log.runs = [3, 7, 9].map(|start| Run { start, owner: start }).into();
        let owners = |range| holed.owners(&range).iter().map(|run| run.start).collect::<Vec<_>>();
        assert_eq!(owners(4..8), [3, 7]);
        assert_eq!((owners(0..3), owners(0..4), owners(9..10)), (vec![], vec![3], vec![9]));
        record.restart(Place { offset: 5, chain: 6 });
        assert_eq!((record.log.from, record.log.places.len(), record.log.runs.len()), (5, 0, 0));
    }

    #[test]
    fn a_record_fits_its_place_however_long_its_log_is() {
        let mut record = Record::new(LogHeader { capacity: 1 << 40, ..HEADER });
        for n in 0..100_000u64 {
            record.append(&Piece { padding: n % 2, ..piece(n * 10 + n % 2, 9, n) }, u64::MAX);
        }
        for n in 0..MOST_EXTENTS as u64 {
            record.extents.push((2 * n + 1) * LEAST, LEAST, 0);
        }
        assert_eq!(record.extents.len(), MOST_EXTENTS, "none is joined");
        assert!(record.write().len() <= MAX_STATE as usize);
        let log = &record.log;
        assert_eq!(log.runs.last().map(|run| run.owner), Some(99_999));
        assert!(log.places.len() > MOST_PLACES / 2 && log.runs.len() > MOST_RUNS / 2);
        // The owner of the oldest content that is kept is known.
        let mut record = Record::new(HEADER);
        for n in 0..3000u64 {
            record.append(&piece(n * 1000, 1000, n / 500), u64::MAX);
        }
        assert!(record.log.runs[0].start <= record.log.from);
        assert!(record.log.runs.len() <= 4, "{:?}", record.log.runs);
    }
}
