//! How often content was sent, for a sender that refers to it only after several times (Santos and
//! Wetherall, section 3.1.3).

use crate::encoder::Tokens;
use crate::error::ConfigError;
use crate::matcher::Match;
use oncewire_kernels::Pages;

/// Counts of the content in the log: how often its sender has sent the same, as far as it found
/// that.
///
/// They follow the matches: a copy was sent once more often than what it was found to repeat. So
/// domains that share no content share no counts, and there are no collisions as in a sketch of
/// fingerprints.
pub(super) struct Sights {
    /// Matches in content that was sent less often are dropped.
    least: u8,
    /// For each [`CELL`] bytes of the log how often the byte in their middle was sent. Of content that
    /// has left the log, others take the place.
    cells: Pages<u8>,
    /// The matches that are left, and which of them are joined.
    matches: Vec<Match>,
    joined: Vec<bool>,
}

/// Bytes of the log for each count.
const CELL: u64 = 64;

impl Sights {
    /// Bytes of buffers for each match.
    pub(super) const PER_MATCH: usize = size_of::<Match>() + 1;

    /// Counts for a log of `capacity` bytes. Their memory is committed as the log fills.
    pub(super) fn new(capacity: u64, least: u8) -> Result<Sights, ConfigError> {
        // Two more than cover the log at any alignment: no two cells of it have one place.
        let bytes = usize::try_from(capacity / CELL + 2).unwrap_or(usize::MAX);
        let what = "counts of what was sent";
        let cells =
            Pages::zeroed(bytes).map_err(|source| ConfigError::Memory { bytes, what, source })?;
        Ok(Sights { least, cells, matches: Vec::new(), joined: Vec::new() })
    }

    /// Bytes of memory.
    pub(super) fn memory(&self) -> usize {
        self.cells.len() + self.matches.capacity() * size_of::<Match>() + self.joined.capacity()
    }

    /// Counts a run that was searched, and drops matches, or parts of them, in content that was sent too
    /// seldom. What repeats the run itself stays: that is the slices' matter.
    pub(super) fn filter(&mut self, tokens: &mut Tokens) {
        self.keep_frequent(tokens);
        self.count(tokens);
        std::mem::swap(&mut self.matches, &mut tokens.matches);
        std::mem::swap(&mut self.joined, &mut tokens.joined);
    }

    fn place(&self, cell: u64) -> usize {
        (cell % self.cells.len() as u64) as usize
    }

    fn keep_frequent(&mut self, tokens: &Tokens) {
        self.matches.clear();
        self.joined.clear();
        // Whether all matches since the last that was kept are joined to those before them.
        let mut is_chain = true;
        for (nth, found) in tokens.matches.iter().enumerate() {
            is_chain &= tokens.joined.get(nth).copied().unwrap_or(false);
            let mut is_joined = is_chain;
            let end = found.source + u64::from(found.len);
            let mut from = found.source;
            while from < end {
                let (to, is_kept) = if found.source >= tokens.offset {
                    (end, true)
                } else {
                    self.stretch(from, end)
                };
                if is_kept {
                    let at = found.at + (from - found.source) as u32;
                    self.matches.push(Match { at, len: (to - from) as u32, source: from });
                    // Of two parts of a match, the second states its distance.
                    self.joined.push(std::mem::replace(&mut is_joined, false));
                    is_chain = true;
                }
                from = to;
            }
        }
        if tokens.joined.is_empty() {
            self.joined.clear();
        }
    }

    /// Where content from `from` on ends that was sent often enough, or all of it too seldom, and which
    /// of the two it is.
    fn stretch(&self, from: u64, end: u64) -> (u64, bool) {
        let is_frequent = |cell| self.cells[self.place(cell)] >= self.least;
        let is_kept = is_frequent(from / CELL);
        let next = (from / CELL + 1..end.div_ceil(CELL)).find(|&cell| is_frequent(cell) != is_kept);
        (next.map_or(end, |cell| cell * CELL), is_kept)
    }

    /// Counts the run itself.
    fn count(&mut self, tokens: &Tokens) {
        let range = tokens.offset..tokens.offset + tokens.block_len as u64;
        let mut matches = tokens.matches.iter().peekable();
        // From the first cell on whose middle is in the run.
        for cell in (range.start + CELL / 2 - 1) / CELL.. {
            let middle = cell * CELL + CELL / 2;
            if middle >= range.end {
                break;
            }
            let at = (middle - range.start) as usize;
            while matches.next_if(|found| found.end() <= at).is_some() {}
            let found = matches.peek().filter(|found| found.at as usize <= at);
            let sent = found.map_or(1, |found| {
                let source = (found.source + (at - found.at as usize) as u64) / CELL;
                let before = self.cells[self.place(source)];
                match found.source < range.start {
                    // This cell has no count yet.
                    _ if source >= cell => 1,
                    true => before.saturating_add(1),
                    // A run is sent once, however often it repeats itself.
                    false => before,
                }
            });
            let place = self.place(cell);
            self.cells[place] = sent;
        }
        if range.end % CELL <= CELL / 2 {
            // Its middle comes with the next run.
            let place = self.place(range.end / CELL);
            self.cells[place] = 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log::{Geometry, Width};
    use proptest::prelude::*;

    const LOG: u64 = 4000;

    /// Cuts matches so that they lie in the run or before it, and ascend.
    fn matches(offset: u64, parts: &[(u32, u32, u64)]) -> (Vec<Match>, usize) {
        let (mut at, mut matches) = (0, Vec::new());
        for &(gap, len, source) in parts {
            at += gap;
            let below = offset + u64::from(at);
            let source = below.saturating_sub(1 + source % (LOG / 2));
            // As a matcher divides what lies before the run from the run itself.
            let len = match source < offset {
                true => u64::from(len).min(offset - source) as u32,
                false => len,
            };
            if source < below && len > 0 {
                matches.push(Match { at, len, source });
                at += len;
            }
        }
        (matches, at as usize + 7)
    }

    proptest! {
        /// Beside a count for each byte. A cell has that of its middle.
        #[test]
        fn what_was_sent_too_seldom_is_dropped(
            runs in proptest::collection::vec(
                proptest::collection::vec((0u32..150, 1u32..400, any::<u64>()), 1..8), 1..30),
            least in 2u8..4,
            is_joined in any::<bool>(),
        ) {
            let mut sights = Sights::new(LOG, least).unwrap();
            let mut naive: Vec<u8> = Vec::new();
            for parts in &runs {
                let offset = naive.len() as u64;
                let (found, len) = matches(offset, parts);
                let joined: Vec<bool> = (0..found.len()).map(|at| at % 3 > 0).collect();
                let mut tokens = Tokens {
                    offset,
                    block_len: len,
                    matches: found.clone(),
                    joined: if is_joined { joined.clone() } else { Vec::new() },
                    width: Some(Width::of(Geometry::new(1 << 20, 0).unwrap())),
                    ..Tokens::default()
                };
                sights.filter(&mut tokens);
                // The counts of bytes in the middle of cells.
                let cell_of = |source: u64| {
                    let middle = source / CELL * CELL + CELL / 2;
                    naive.get(middle as usize).copied()
                };
                for one in &found {
                    for step in 0..one.len {
                        let source = one.source + u64::from(step);
                        if one.source >= offset {
                            continue;
                        }
                        // The cell that the run begins in has no middle yet.
                        let count = cell_of(source).unwrap_or(1);
                        let at = one.at + step;
                        let is_kept = tokens.matches.iter().any(|kept| {
                            kept.at <= at && (at as usize) < kept.end()
                                && kept.source + u64::from(at - kept.at) == source
                        });
                        prop_assert_eq!(is_kept, count >= least, "byte {} of {:?}", at, one);
                    }
                    if one.source >= offset {
                        prop_assert!(tokens.matches.contains(one));
                    }
                }
                prop_assert!(tokens.matches.is_sorted_by(|one, next| one.end() <= next.at as usize));
                prop_assert_eq!(tokens.joined.len(), if is_joined { tokens.matches.len() } else { 0 });
                // A match is joined to the one before if all between them were, too.
                let origin = |kept: &Match| {
                    found.iter().position(|one| one.at <= kept.at && kept.end() <= one.end()).unwrap()
                };
                for (nth, &is_joined) in tokens.joined.iter().enumerate() {
                    let this = origin(&tokens.matches[nth]);
                    let before = nth.checked_sub(1).map_or(0, |before| origin(&tokens.matches[before]) + 1);
                    prop_assert_eq!(is_joined, before <= this && joined[before..=this].iter().all(|&all| all));
                }
                for at in 0..len {
                    let holder = found.iter().find(|one| one.at as usize <= at && at < one.end());
                    let count = holder.map_or(1, |one| {
                        let source = one.source + (at - one.at as usize) as u64;
                        let cell = (offset + at as u64) / CELL;
                        let is_own = one.source >= offset;
                        match cell_of_all(&naive, source) {
                            Some(count) if !is_own => count.saturating_add(1),
                            Some(count) if source / CELL < cell => count,
                            _ => 1,
                        }
                    });
                    naive.push(count);
                }
            }
        }
    }

    /// The count of the byte in the middle of a cell, if it was sent.
    fn cell_of_all(naive: &[u8], source: u64) -> Option<u8> {
        naive.get((source / CELL * CELL + CELL / 2) as usize).copied()
    }

    #[test]
    fn memory_is_a_64th_of_the_log() {
        let sights = Sights::new(1 << 30, 2).unwrap();
        assert!(sights.memory() <= (1 << 24) + 2, "{} bytes", sights.memory());
    }
}
