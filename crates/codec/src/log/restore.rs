//! Logs that go on after a restart: content that was kept elsewhere goes back to its place, and a
//! log continues at a lower offset than it had reached.

use super::{Generations, Log};
use crate::domain::Domain;
use std::ops::Range;

impl Generations {
    /// See [`Log::begin_at`].
    fn begin_at(&mut self, offset: u64) {
        self.generation = self.geometry.generation_start(offset);
        (self.previous_end, self.older_end, self.end) = (self.generation, 0, offset);
    }

    /// See [`Log::rewind_to`].
    fn rewind_to(&mut self, offset: u64) -> bool {
        let capacity = self.geometry.capacity;
        if (self.generation..=self.end).contains(&offset) {
            self.end = offset;
            return true;
        }
        let Some(before) = self.generation.checked_sub(capacity) else { return false };
        if !(before..=self.previous_end).contains(&offset) {
            return false;
        }
        (self.generation, self.end) = (before, offset);
        self.previous_end = self.older_end;
        // Nobody remembers where the generation before ended: it counts as empty.
        self.older_end = 0;
        true
    }
}

impl Log {
    /// Whether content at `offset` can follow what was written: at the end, or where the next
    /// generation starts, after the padding of a block that did not fit. `max_block` is the longest
    /// block. Anything follows nothing.
    pub(crate) fn follows(&self, offset: u64, max_block: usize) -> bool {
        let end = self.end();
        let most = (max_block as u64).min(self.geometry().capacity());
        end == 0
            || offset == end
            || (self.geometry().generation_start(offset) == offset
                && offset.checked_sub(end).is_some_and(|padding| padding < most))
    }

    /// An empty log begins at `offset`: nothing refers to what lies below. Returns whether it was
    /// empty; if not, nothing was changed.
    pub(crate) fn begin_at(&mut self, offset: u64) -> bool {
        let is_empty = self.end() == 0;
        if is_empty {
            self.begin = offset;
            self.generations.begin_at(offset);
        }
        is_empty
    }

    /// Writes content that was kept elsewhere, in the order of offsets. Nothing refers to what lies
    /// below the first of it. The domain that was entered owns it.
    pub(crate) fn restore(&mut self, offset: u64, content: &[u8]) {
        if self.end() == 0 {
            self.begin = offset;
        }
        self.write(offset, content);
    }

    /// As [`Log::rewind`], to any block end of this generation or the one before. What the forgotten
    /// blocks overwrote is lost, and nothing refers to it. Returns whether content below `offset` is
    /// left.
    pub(crate) fn rewind_to(&mut self, offset: u64) -> bool {
        let overwritten = self.end().saturating_sub(self.geometry().capacity());
        let possible = offset > self.begin.max(overwritten) && self.generations.rewind_to(offset);
        if possible {
            self.begin = self.begin.max(overwritten);
            if let Some(runs) = &mut self.runs {
                runs.rewind(offset);
            }
        }
        possible
    }

    /// Nothing refers to content below `offset` any more, because the other end does not hold it.
    pub(crate) fn give_up_below(&mut self, offset: u64) {
        self.begin = self.begin.max(offset);
    }

    /// Whose the content in `range` is, in ascending order: each domain owns what lies from its
    /// offset to the next one's. The first offset may lie below the range.
    pub(crate) fn owners(&self, range: &Range<u64>) -> Vec<(u64, Domain)> {
        match &self.runs {
            Some(runs) => runs.within(range).collect(),
            None => vec![(range.start, self.domain)],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log::Geometry;

    fn log() -> Log {
        Log::new(Geometry::new(100, 0).unwrap()).unwrap()
    }

    #[test]
    fn a_log_goes_back_over_the_end_of_a_generation_and_gives_up_what_was_overwritten() {
        let mut log = log();
        for (len, at) in [(50, 0), (40, 50), (95, 100), (30, 200), (10, 230)] {
            assert_eq!(log.append(&vec![len as u8; len]), at);
        }
        assert!(!log.rewind(195), "an older generation");
        assert!(log.rewind_to(195));
        assert_eq!(log.end(), 195);
        assert_eq!(log.floor(195, 0), 140, "the rest was overwritten up to 240 - 100");
        assert_eq!(log.extent(150, log.floor(195, 0)), Some(140..195));
        assert_eq!(log.extent(135, log.floor(195, 0)), None);
        assert_eq!(log.append(&[7; 10]), 200);
        assert_eq!(log.padding_before(200), Some(5));
        assert_eq!(log.extent(150, log.floor(210, 0)), Some(140..195));
        assert_eq!(log.extent(200, log.floor(210, 0)), Some(200..210));
        // Far enough on, the floor is what it always was.
        log.append(&[8; 80]);
        assert_eq!(log.floor(290, 0), 190);
        assert!(!log.rewind_to(140), "nothing would be left");
        assert!(!log.rewind_to(291));
    }

    #[test]
    fn after_two_generations_back_only_known_content_is_found() {
        let mut log = log();
        for len in [90, 80, 70, 60] {
            log.append(&vec![1; len]);
        }
        // 0..90, 100..180, 200..270, 300..360.
        assert!(log.rewind_to(265));
        assert_eq!(log.extent(265 - 1, log.floor(265, 0)), Some(260..265));
        assert_eq!(log.extent(179, 0), Some(100..180), "its end is still known");
        assert!(!log.rewind_to(180), "overwritten");
    }

    #[test]
    fn an_empty_log_begins_anywhere_and_refers_to_nothing_below() {
        for begin in [1, 99, 100, 101, 1234] {
            let mut log = log();
            assert!(log.begin_at(begin) && !log.begin_at(begin));
            assert_eq!((log.end(), log.floor(begin, 0)), (begin, begin));
            for offset in [0, begin - 1, begin] {
                assert_eq!(log.extent(offset, log.floor(begin, 0)), None, "{begin}, {offset}");
            }
            assert_eq!(log.padding_before(begin).unwrap_or(0), 0);
            assert!(!log.rewind(begin - 1) && log.rewind(begin), "{begin}");
            let (first, second) = (log.append(&[1; 60]), log.append(&[2; 60]));
            assert_eq!(first, log.geometry().place(begin, 60));
            let floor = log.floor(second + 60, 0);
            assert_eq!(log.extent(second, floor), Some(second..second + 60));
            assert!(floor >= begin);
            assert!(log.rewind_to(second) && log.end() == second);
        }
    }

    #[test]
    fn restored_content_is_where_it_was() {
        let mut log = log();
        assert!(log.follows(1234, 64));
        log.enter(Domain(3));
        log.restore(1234, &[1; 50]);
        assert_eq!((log.floor(1284, 0), log.end()), (1234, 1284));
        assert!(log.follows(1284, 64) && log.follows(1300, 64) && !log.follows(1290, 64));
        assert!(!log.follows(1300, 16), "no block leaves so much padding");
        log.enter(Domain(5));
        log.restore(1300, &[2; 10]);
        assert_eq!(log.owners(&(1240..1310)), [(0, Domain(3)), (1300, Domain(5))]);
        assert_eq!(log.extent(1305, log.floor(1310, 0)), Some(1300..1310));
        assert_eq!(log.extent(1240, log.floor(1310, 0)), None, "of another domain");
        log.enter(Domain(3));
        assert_eq!(log.extent(1240, log.floor(1310, 0)), Some(1234..1284));
        assert_eq!(log.padding_before(1300), Some(16));
        log.give_up_below(1300);
        assert_eq!(log.extent(1240, log.floor(1310, 0)), None);
    }
}
