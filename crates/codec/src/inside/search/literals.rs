//! The literals of a block, and what describes their codes.

use crate::inside::follow::opened::Spot;
use crate::inside::search::plan::Described;
use crate::matcher::Match;
use std::ops::Range;

/// The bits of a block that are literals, and their positions among the literals.
pub(in crate::inside) struct LiteralMap<'a> {
    matches: &'a [Match],
}

impl<'a> LiteralMap<'a> {
    pub(in crate::inside) fn new(matches: &'a [Match]) -> LiteralMap<'a> {
        LiteralMap { matches }
    }

    /// For a bit of the block: the end of the run of literals that it is in, or the end of the
    /// match that it is in.
    pub(in crate::inside) fn run_around(&self, bit: u64) -> (Option<u64>, u64) {
        let byte = bit / 8;
        let after = self.matches.partition_point(|found| found.end() as u64 <= byte);
        match self.matches.get(after) {
            Some(found) if u64::from(found.at) <= byte => (None, found.end() as u64 * 8),
            Some(found) => (Some(u64::from(found.at) * 8), 0),
            None => (Some(u64::MAX), 0),
        }
    }

    /// The position among the literals of a literal bit of the block.
    pub(in crate::inside) fn place(&self, bit: u64) -> u64 {
        let before = self.matches.partition_point(|found| found.end() as u64 * 8 <= bit);
        let matched: u64 = self.matches[..before].iter().map(|found| u64::from(found.len)).sum();
        bit - matched * 8
    }

    /// The position at which a frame at `offset` finds the description of a code. Never in content
    /// of others: its place among the sources would shift the positions of all of them.
    pub(in crate::inside) fn described(
        &self,
        spot: Spot,
        offset: u64,
        is_own: impl Fn(&Range<u64>) -> bool,
    ) -> Option<Described> {
        let Spot::Log(start, end) = spot else {
            return (spot == Spot::Fixed).then_some(Described::Fixed);
        };
        let base = offset * 8;
        let is_there = |start: u64, end: u64| end <= base && is_own(&(start / 8..end.div_ceil(8)));
        let (mut start, mut end) = (start, end);
        // Bytes that a match covers are in the log, or earlier in the block; there, another match may
        // cover them.
        while let Some(first) = start.checked_sub(base) {
            let last = end - base;
            match self.run_around(first) {
                (Some(limit), _) => {
                    return (last <= limit).then(|| Described::Here(self.place(first)));
                }
                (None, limit) if last <= limit => {
                    let after = self.matches.partition_point(|of| of.end() as u64 * 8 <= first);
                    let found = self.matches[after];
                    let ahead = first - u64::from(found.at) * 8;
                    (start, end) =
                        (found.source * 8 + ahead, found.source * 8 + ahead + (last - first));
                }
                _ => return None,
            }
        }
        is_there(start, end).then_some(Described::Log(start, end))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn descriptions_of_codes_are_not_taken_from_content_of_others() {
        // A block at 1000 whose bytes 100 to 300 were found at 500.
        let matches = [Match { at: 100, len: 200, source: 500 }];
        let literals = LiteralMap::new(&matches);
        let spot = |first: u64, end: u64| Spot::Log(first * 8, end * 8);
        let described = |spot, is_own| literals.described(spot, 1000, |_| is_own);
        let found = Described::Log(510 * 8, 560 * 8);
        assert_eq!(described(spot(1110, 1160), true), Some(found));
        assert_eq!(described(spot(1110, 1160), false), None);
        let before = Described::Log(900 * 8, 950 * 8);
        assert_eq!(described(spot(900, 950), true), Some(before));
        assert_eq!(described(spot(900, 950), false), None);
        assert_eq!(described(spot(1310, 1360), false), Some(Described::Here(110 * 8)));
        assert_eq!(described(Spot::Fixed, false), Some(Described::Fixed));
    }

    #[test]
    fn a_description_is_followed_through_the_block_to_where_it_was_first() {
        // Bytes 100 to 300 were found at 500, 400 to 500 in those, 600 to 700 in literals.
        let matches = [
            Match { at: 100, len: 200, source: 500 },
            Match { at: 400, len: 100, source: 1150 },
            Match { at: 600, len: 100, source: 1310 },
            Match { at: 800, len: 100, source: 1290 },
        ];
        let literals = LiteralMap::new(&matches);
        let described = |first: u64, end: u64| {
            literals.described(Spot::Log(first * 8, end * 8), 1000, |_| true)
        };
        assert_eq!(described(1410, 1430), Some(Described::Log(560 * 8, 580 * 8)));
        assert_eq!(described(1610, 1630), Some(Described::Here(120 * 8)));
        // In one piece only.
        assert_eq!(described(1800, 1830), None);
    }
}
