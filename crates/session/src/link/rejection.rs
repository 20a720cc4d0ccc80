//! Frames that could not be decoded: what the receiver says of them.
//!
//! Santos and Wetherall, section 3.1.2: the decoder asks for what it lacks, and the encoder sends it
//! again, whole.

use std::ops::Range;

/// Most ranges that a rejection names.
pub const MAX_LACKING: usize = 8;

/// Why a frame was rejected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Reason {
    /// The log lacks content that the frame refers to.
    Missing = 0,
    /// The content has another checksum: the two logs differ.
    Checksum = 1,
    /// The header section refers to a header that the receiver does not have.
    Header = 2,
}

impl Reason {
    pub(super) fn read(byte: u8) -> Option<Reason> {
        match byte {
            0 => Some(Reason::Missing),
            1 => Some(Reason::Checksum),
            2 => Some(Reason::Header),
            _ => None,
        }
    }
}

/// A frame that the receiver has given up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rejection {
    /// The counter of its datagram.
    pub counter: u64,
    /// How many records came before it there.
    pub record: u8,
    /// Why.
    pub reason: Reason,
    /// The ranges of the log that the sender must not refer to again: how far each begins below the
    /// frame's content, and its length, both in bytes. At most [`MAX_LACKING`].
    pub lacking: Vec<(u64, u64)>,
}

impl Rejection {
    /// Names `ranges` as they lie below content at `offset`, in any order. If there are too many, it
    /// rather names too much than too little: those with the least between them are joined.
    pub(super) fn new(
        (counter, record): (u64, u8),
        reason: Reason,
        offset: u64,
        ranges: impl Iterator<Item = Range<u64>>,
    ) -> Rejection {
        let below = |range: Range<u64>| range.start.min(offset)..range.end.min(offset);
        let mut ranges: Vec<_> = ranges.map(below).filter(|range| !range.is_empty()).collect();
        ranges.sort_by_key(|range| range.start);
        // What overlaps belongs together.
        ranges.dedup_by(|next, range| {
            let joins = next.start <= range.end;
            if joins {
                range.end = range.end.max(next.end);
            }
            joins
        });
        if ranges.len() > MAX_LACKING {
            let gap = |pair: &[Range<u64>]| pair[1].start - pair[0].end;
            let mut gaps: Vec<u64> = ranges.windows(2).map(gap).collect();
            gaps.sort_unstable();
            // As many are closed as there are ranges too many.
            let closed = gaps[ranges.len() - MAX_LACKING - 1];
            let mut left = ranges.len() - MAX_LACKING;
            ranges.dedup_by(|next, range| {
                let joins = left > 0 && next.start - range.end <= closed;
                if joins {
                    (range.end, left) = (next.end, left - 1);
                }
                joins
            });
        }
        let lacking =
            ranges.iter().map(|range| (offset - range.start, range.end - range.start)).collect();
        Rejection { counter, record, reason, lacking }
    }

    /// The ranges, if the frame's content lies at `offset`.
    pub(super) fn ranges(&self, offset: u64) -> impl Iterator<Item = Range<u64>> {
        self.lacking.iter().filter_map(move |&(back, len)| {
            let start = offset.checked_sub(back)?;
            Some(start..start + len)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn all_that_is_missing_is_named(
            ranges in proptest::collection::vec((0u64..1000, 1u64..50), 0..20),
            offset in 0u64..1200,
        ) {
            let ranges: Vec<_> = ranges.iter().map(|&(start, len)| start..start + len).collect();
            let rejection = Rejection::new((7, 1), Reason::Missing, offset, ranges.iter().cloned());
            prop_assert!(rejection.lacking.len() <= MAX_LACKING);
            let named: Vec<_> = rejection.ranges(offset).collect();
            for byte in 0..1200 {
                let is_missing = byte < offset && ranges.iter().any(|range| range.contains(&byte));
                prop_assert!(!is_missing || named.iter().any(|range| range.contains(&byte)));
                prop_assert!(byte < offset || !named.iter().any(|range| range.contains(&byte)));
            }
        }
    }
}
