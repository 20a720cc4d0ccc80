//! Copies in the log of content whose tokens are known from its first occurrence.

use std::collections::VecDeque;
use std::ops::Range;

/// Most copies that are kept.
const MOST: usize = 1 << 12;

/// Content of the log that was found entirely as bytes, so that it was not opened, and the place of
/// its first copy, which was. Ascending and disjoint.
#[derive(Debug, Default)]
pub(in crate::inside) struct Copies(VecDeque<Copy>);

#[derive(Debug)]
struct Copy {
    content: Range<u64>,
    /// End of the first copy.
    origin: u64,
    /// Key of the domain that sent it.
    key: u64,
}

/// Scans of all copies that a block may cost. Most lookups hit the copy found last.
const SCANS: usize = 64;

/// The copy found last, and the scans that are left.
#[derive(Debug)]
pub(in crate::inside) struct Cursor {
    nth: usize,
    scans: usize,
}

impl Cursor {
    /// Whether there was a copy that cannot be used: the next lookup scans all.
    pub(in crate::inside) fn forget(&mut self) -> bool {
        std::mem::replace(&mut self.nth, usize::MAX) != usize::MAX
    }
}

impl Default for Cursor {
    fn default() -> Cursor {
        Cursor { nth: usize::MAX, scans: SCANS }
    }
}

impl Copies {
    /// Upper bound of the memory in bytes.
    pub(in crate::inside) const MEMORY: usize = 2 * MOST * size_of::<Copy>();

    /// Memory in bytes as of now.
    pub(in crate::inside) fn memory(&self) -> usize {
        self.0.capacity() * size_of::<Copy>()
    }

    /// End of the first copy of the content that ends at `end`, and how many bytes before it are
    /// equal there.
    pub(in crate::inside) fn origin(&self, end: u64) -> (u64, u64) {
        let after = self.0.partition_point(|copy| copy.content.start < end);
        match after.checked_sub(1).map(|nth| &self.0[nth]) {
            Some(copy) if end <= copy.content.end => {
                (copy.origin - (copy.content.end - end), end - copy.content.start)
            }
            _ => (end, end),
        }
    }

    /// Adds content above all others, whose first copy ends at `origin` and is at least as long.
    pub(in crate::inside) fn add(&mut self, content: Range<u64>, origin: u64, key: u64) {
        let len = content.end - content.start;
        debug_assert!(len <= origin);
        if let Some(last) = self.0.back_mut()
            && last.content.end == content.start
            && last.origin + len == origin
            && last.key == key
        {
            (last.content.end, last.origin) = (content.end, origin);
            return;
        }
        if self.0.len() == MOST {
            self.0.pop_front();
        }
        self.0.push_back(Copy { content, origin, key });
    }

    /// For content whose first copy is at `range`, the newest copy that the same domain sent: its
    /// distance above the first one, and the end of the first one.
    pub(in crate::inside) fn newest(
        &self,
        range: &Range<u64>,
        key: u64,
        cursor: &mut Cursor,
    ) -> Option<(u64, u64)> {
        let has = |copy: &Copy| {
            let first = copy.origin - (copy.content.end - copy.content.start);
            copy.key == key && first <= range.start && range.end <= copy.origin
        };
        if !self.0.get(cursor.nth).is_some_and(has) {
            cursor.scans = cursor.scans.checked_sub(1)?;
            cursor.nth = self.0.iter().rposition(has)?;
        }
        let copy = self.0.get(cursor.nth)?;
        Some((copy.content.end - copy.origin, copy.origin))
    }

    /// The place of content whose first copy is at `range`: the first copy if it may be referred
    /// to, otherwise the newest copy that may be.
    pub(in crate::inside) fn held(
        &self,
        range: &Range<u64>,
        key: u64,
        cursor: &mut Cursor,
        is_allowed: impl Fn(&Range<u64>) -> bool,
    ) -> Option<u64> {
        if is_allowed(range) {
            return Some(range.start);
        }
        let newest = |cursor: &mut Cursor| {
            let (up, _) = self.newest(range, key, cursor)?;
            is_allowed(&(range.start + up..range.end + up)).then_some(range.start + up)
        };
        // The copy found last may be an older one that the log has lost.
        newest(cursor).or_else(|| if cursor.forget() { newest(cursor) } else { None })
    }

    /// Forgets content at `offset` and above.
    pub(in crate::inside) fn rewind(&mut self, offset: u64) {
        while self.0.back().is_some_and(|last| last.content.end > offset) {
            self.0.pop_back();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_of_a_copy_has_the_first_as_its_origin() {
        let mut copies = Copies::default();
        assert_eq!(copies.origin(40), (40, 40));
        copies.add(100..150, 60, 1);
        copies.add(150..160, 70, 1);
        assert_eq!(copies.0.len(), 1, "they follow each other in both places");
        assert_eq!(copies.origin(155), (65, 55));
        copies.add(200..220, 65, 1);
        assert_eq!(
            [100, 101, 150, 160, 161, 200, 201, 220, 221].map(|end| copies.origin(end).0),
            [100, 11, 60, 70, 161, 200, 46, 65, 221]
        );
        let newest = |range, key| copies.newest(&range, key, &mut Cursor::default());
        assert_eq!(newest(46..60, 1), Some((155, 65)), "the newer one");
        assert_eq!(newest(46..66, 1), Some((90, 70)), "the newer one has not all of it");
        assert_eq!((newest(46..60, 2), newest(5..15, 1)), (None, None));
        copies.rewind(210);
        assert_eq!((copies.origin(220).0, copies.origin(150).0), (220, 60));
        for nth in 0..2 * MOST as u64 {
            copies.add(1000 + 10 * nth..1001 + 10 * nth, nth + 1, 1);
        }
        assert!(copies.memory() <= Copies::MEMORY && copies.0.len() == MOST);
    }
}
