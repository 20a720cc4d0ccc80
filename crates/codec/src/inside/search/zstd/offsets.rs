//! How the offsets of sequences that were found changed.

use super::runs::length;
use super::{Target, Zstd};
use crate::inside::wire::sequences::{change, expected};
use std::ops::Range;

/// Stated offsets that must agree to show where content moved: neighbors among all of them, by the
/// place that they refer to.
const AGREEING: usize = 6;
/// Most shifts that are learned from the offsets of a block.
const MOST_LEARNED: usize = 256;

/// The offset of a sequence of a run.
pub(super) struct Offset {
    /// Which sequence of the target.
    pub(super) nth: usize,
    pub(super) change: u8,
    /// The place that the source refers to.
    pub(super) from: i64,
    /// The shift of that place which makes the offset the expected one; `None` for repeated offsets.
    pub(super) shift: Option<i64>,
}

impl Zstd {
    /// Calls `each` with the offset of each sequence of a target's runs.
    pub(super) fn offsets(
        &self,
        target: &Target,
        shifts: &[(i64, i64)],
        mut each: impl FnMut(Offset),
    ) {
        let sequences = &self.sequences[target.sequences.clone()];
        let base = self.targets[0].noted.place;
        let mut here = target.noted.place - base;
        let mut done = 0;
        for run in &self.runs[target.runs.clone()] {
            here += length(&sequences[done..run.first]);
            let there =
                self.sources.sequences[run.source..].iter().zip(&self.sources.places[run.source..]);
            let of_run = sequences[run.first..run.first + run.len].iter().zip(there);
            for (nth, (sequence, (source, &(_, place)))) in of_run.enumerate() {
                let of = source.offset;
                here += i64::from(sequence.literals);
                let change = if sequence.offset == expected(shifts, of, place, here) {
                    change::EXPECTED
                } else if sequence.offset == of {
                    change::SAME
                } else {
                    change::NEW
                };
                let from = place - i64::from(of) + 3;
                let shift = (of > 3 && sequence.offset > 3)
                    .then(|| i64::from(of) + here - place - i64::from(sequence.offset));
                each(Offset { nth: run.first + nth, change, from, shift });
                here += i64::from(sequence.matched) + 3;
            }
            done = run.first + run.len;
        }
    }

    /// Where content moved that no run shows, and by how much: content before the flow was seen, for
    /// example. Offsets that must be stated show it: `stated` are the places that they refer to, and
    /// the shifts that would make them the expected ones instead.
    pub(super) fn learn(
        &self,
        known: &[(i64, i64)],
        mut stated: Vec<(i64, i64)>,
    ) -> Vec<(Range<i64>, i64)> {
        stated.sort_unstable();
        let mut moved: Vec<Moved> = stated
            .chunk_by(|one, other| one.1 == other.1)
            .filter(|agreeing| agreeing.len() >= AGREEING)
            .map(Moved::of)
            .collect();
        if moved.is_empty() {
            return Vec::new();
        }
        // Between them, content must not move as expected.
        for target in &self.targets {
            self.offsets(target, known, |Offset { change, from, shift, .. }| {
                if change != change::EXPECTED || shift.is_none() {
                    return;
                }
                let before = moved.partition_point(|moved| moved.places.start <= from);
                let last = moved[..before].last_mut();
                if let Some(moved) = last.filter(|moved| moved.places.contains(&from)) {
                    moved.count = moved.count.saturating_sub(1);
                }
            });
        }
        moved.retain(|moved| moved.count >= AGREEING);
        moved.into_iter().take(MOST_LEARNED).map(|moved| (moved.places, moved.shift)).collect()
    }
}

/// Content that moved, as stated offsets show.
struct Moved {
    places: Range<i64>,
    shift: i64,
    /// Offsets that show this, less those that show something else.
    count: usize,
}

impl Moved {
    /// Of offsets that agree: the places that they refer to, ascending, and their shift.
    fn of(agreeing: &[(i64, i64)]) -> Moved {
        let (first, last) = (agreeing[0], agreeing[agreeing.len() - 1]);
        Moved { places: first.0..last.0 + 1, shift: first.1, count: agreeing.len() }
    }
}
