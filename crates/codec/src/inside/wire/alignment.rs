//! How distances of the source change in the literals. `docs/FORMAT.md`, "Alignment".
//!
//! A copy counts its distance in inflated bytes. Where the literals have more or fewer of them than
//! the source, as after an insertion, every copy that reaches back across that place has another
//! distance, by the same number of bytes. This needs no inflating: tokens state their lengths.

use crate::deflate::{Distances, MAX_DISTANCE, Token};

/// Most bends that are kept.
pub(crate) const BENDS: usize = 16;

/// Inflated bytes after a bend within which a copy may reach back across it.
const REACH: i64 = MAX_DISTANCE as i64;

/// A place of the source: copies that reach back across it change their distance.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Bend {
    /// In inflated bytes of the source; negative if before the frame.
    at: i64,
    change: i32,
}

/// The position of the source relative to the literals.
#[derive(Clone, Debug)]
pub(crate) struct Alignment {
    /// Inflated bytes of the source so far.
    at: i64,
    /// In the order in which they were added; only the first `len` are valid.
    bends: [Bend; BENDS],
    len: usize,
    /// From this place on, no copy reaches a bend.
    bent_until: i64,
}

impl Default for Alignment {
    fn default() -> Alignment {
        Alignment { at: 0, bends: [Bend::default(); BENDS], len: 0, bent_until: i64::MIN / 2 }
    }
}

impl Alignment {
    /// Inflated bytes of the source so far.
    pub(crate) fn at(&self) -> i64 {
        self.at
    }

    /// Whether there are bends, also ones out of reach.
    pub(crate) fn has_bends(&self) -> bool {
        self.len > 0
    }

    /// Whether any distance may change here.
    #[inline(always)]
    pub(crate) fn is_bent(&self) -> bool {
        self.at < self.bent_until
    }

    /// Advances the source by inflated bytes.
    #[inline(always)]
    pub(crate) fn advance(&mut self, bytes: u64) {
        self.at = self.at.saturating_add_unsigned(bytes);
    }

    /// What the next token of the source is expected to become.
    #[inline(always)]
    pub(crate) fn expected(&self, token: Token) -> Token {
        let from = self.at - i64::from(token.distance());
        // Most copies start after all bends.
        if from >= self.bent_until - REACH || !token.is_copy() {
            return token;
        }
        let change = self.change_from(from);
        i32::try_from(change).ok().and_then(|change| token.moved(change)).unwrap_or(token)
    }

    /// The change of distances of copies that begin so far in the source: of those that reach back
    /// across bends.
    fn change_from(&self, from: i64) -> i64 {
        let crossed = self.bends[..self.len].iter().filter(|bend| from < bend.at);
        crossed.map(|bend| i64::from(bend.change)).sum()
    }

    /// The shortest distance of a copy that begins here, or later, which may change; `u32::MAX` if
    /// there is none.
    pub(crate) fn shortest(&self) -> u32 {
        if !self.is_bent() {
            return u32::MAX;
        }
        let since = self.at - (self.bent_until - REACH);
        u32::try_from(since.saturating_add(1)).unwrap_or(0)
    }

    /// The distances from here on, while there are bends in reach.
    pub(crate) fn changing(&mut self) -> Changing<'_> {
        Changing { len: 0, alignment: self }
    }

    /// Drops the bends out of reach; if all are in reach and there is no room for another, drops
    /// the one that was added first.
    pub(crate) fn make_room(&mut self) {
        let mut kept = 0;
        for nth in 0..self.len {
            let bend = self.bends[nth];
            if self.at < bend.at.saturating_add(REACH) {
                self.bends[kept] = bend;
                kept += 1;
            }
        }
        self.len = kept;
        if self.len == BENDS {
            self.bends.rotate_left(1);
            self.len -= 1;
        }
    }

    /// Adds a bend `back` inflated bytes before this place: from here on, copies that reach back
    /// across it have a distance that differs by `change` from the expected one. Makes room for it.
    pub(crate) fn bend(&mut self, back: u32, change: i32) {
        self.make_room();
        self.bends[self.len] = Bend { at: self.at - i64::from(back), change };
        self.len += 1;
        let last = self.bends[..self.len].iter().map(|bend| bend.at).max().unwrap_or(i64::MIN / 2);
        self.bent_until = last.saturating_add(REACH);
    }
}

/// Distances of tokens that are copied from the source, as [`Alignment::expected`] has them.
pub(crate) struct Changing<'a> {
    alignment: &'a mut Alignment,
    /// Inflated bytes of the last literal or length.
    len: u64,
}

impl Distances for Changing<'_> {
    #[inline(always)]
    fn shortest(&self) -> u32 {
        self.alignment.shortest()
    }

    fn change(&mut self, distance: u32) -> u32 {
        let start = self.alignment.at - self.len as i64;
        let change = self.alignment.change_from(start - i64::from(distance));
        let changed = change.checked_add(i64::from(distance)).and_then(|to| u32::try_from(to).ok());
        changed.filter(|to| (1..=MAX_DISTANCE).contains(to)).unwrap_or(distance)
    }

    #[inline(always)]
    fn advance(&mut self, inflated: u64) {
        self.alignment.advance(inflated);
        self.len = inflated;
    }

    #[inline(always)]
    fn are_done(&self) -> bool {
        !self.alignment.is_bent()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::deflate::{BitReader, BitWriter, Code, transcode_changed};
    use oncewire_kernels::Kernels;
    use proptest::prelude::*;

    #[test]
    fn copies_from_before_a_bend_change() {
        let mut alignment = Alignment::default();
        let copy = |distance| Token::copy(3, 0, distance);
        assert_eq!(alignment.expected(copy(500)), copy(500));
        alignment.advance(1000);
        alignment.bend(100, 7);
        assert_eq!([100, 101].map(|of| alignment.expected(copy(of)).distance()), [100, 108]);
        assert_eq!(alignment.expected(Token::literal(1)), Token::literal(1));
        // Another one after it; both count for copies that cross both.
        alignment.advance(50);
        alignment.bend(10, -3);
        let expected = [10, 11, 150, 151].map(|of| alignment.expected(copy(of)).distance());
        assert_eq!(expected, [10, 8, 147, 155]);
        // If the new distance would be invalid, nothing changes.
        assert_eq!(alignment.expected(copy(MAX_DISTANCE)), copy(MAX_DISTANCE));
        // Nor does it far enough after the bend.
        alignment.advance(u64::from(MAX_DISTANCE) - 11);
        assert!(alignment.is_bent());
        alignment.advance(1);
        assert!(!alignment.is_bent());
        // Before the frame.
        let mut alignment = Alignment::default();
        alignment.bend(30, 1);
        assert_eq!([30, 31].map(|of| alignment.expected(copy(of)).distance()), [30, 32]);
        for _ in 0..BENDS {
            alignment.bend(10, i32::MAX);
        }
        assert_eq!(alignment.expected(copy(31)), copy(31));
    }

    proptest! {
        #[test]
        fn tokens_copied_at_once_are_those_expected_one_by_one(
            // Literals, and copies from near the bends.
            content in proptest::collection::vec(prop_oneof![
                any::<u8>().prop_map(Token::literal),
                (0u32..12, 1u32..200).prop_map(|(length, distance)| Token::copy(length, 0, distance)),
            ], 0..300),
            bends in proptest::collection::vec((0u32..100, -100i32..100, 0usize..60), 1..6),
        ) {
            let code = Code::fixed();
            let mut data = vec![0; 4 * content.len() + 64];
            let mut writer = BitWriter::new(&mut data);
            prop_assert!(content.iter().all(|&token| writer.token(token, code)));
            let end = writer.position();
            let (mut there, mut here) = (Alignment::default(), Alignment::default());
            let (mut one, mut other) = (vec![0; 8 * data.len() + 64], vec![0; 8 * data.len() + 64]);
            let (mut by_one, mut at_once) = (BitReader::new(&data, 0), BitReader::new(&data, 0));
            let (mut writer, mut fast) = (BitWriter::new(&mut one), BitWriter::new(&mut other));
            for (back, change, count) in bends {
                there.bend(back, change);
                here.bend(back, change);
                let mut left = count as u64;
                while left > 0 && there.is_bent() && by_one.position() < end {
                    let token = by_one.token(code).unwrap();
                    prop_assert!(writer.token(there.expected(token), code));
                    there.advance(u64::from(token.len()));
                    left -= 1;
                }
                let done = count as u64 - left;
                let distances = &mut here.changing();
                let copied = transcode_changed(Kernels::detect(), &mut at_once, code, &mut fast, code, done, distances);
                prop_assert_eq!(copied, Some(0));
                prop_assert_eq!((at_once.position(), here.at()), (by_one.position(), there.at()));
                prop_assert_eq!(fast.position(), writer.position());
                prop_assert_eq!(fast.written(), writer.written());
            }
        }
    }
}
