//! Bytes over time, in buckets and by octave.

use super::super::burstiness::{BASE, Pyramid};
use crate::batch::Direction;

/// Original and reduced bytes of one direction in one bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Bucket {
    pub(super) direction: Direction,
    pub(super) index: i64,
    pub(super) original: u64,
    pub(super) reduced: u64,
}

/// Bytes over time in buckets, in bounded memory. Only buckets with packets are kept.
#[derive(Debug)]
pub(super) struct Sums {
    /// Width of a bucket in nanoseconds.
    pub(super) width: i64,
    /// In any order, with several entries per bucket if packets are out of order, until
    /// [`put_together`](Sums::put_together).
    pub(super) buckets: Vec<Bucket>,
    most: usize,
    /// The bucket of the latest packet.
    index: i64,
    current: [(u64, u64); Direction::ALL.len()],
}

/// Memory of a bucket in bytes: itself, its entry in the total, and the values that percentiles are
/// taken of.
pub(super) const BUCKET_BYTES: u64 = 2 * size_of::<Bucket>() as u64 + 16;

impl Sums {
    pub(super) fn new(memory: u64) -> Sums {
        let most = usize::try_from(memory / BUCKET_BYTES).unwrap_or(usize::MAX).max(256);
        Sums {
            width: BASE,
            buckets: Vec::new(),
            most,
            index: 0,
            current: [(0, 0); Direction::ALL.len()],
        }
    }

    pub(super) fn add(&mut self, time: i64, direction: Direction, original: u64, reduced: u64) {
        let index = time.div_euclid(self.width);
        if index != self.index {
            self.flush();
            // The width may have changed.
            self.index = time.div_euclid(self.width);
        }
        let current = &mut self.current[direction.index()];
        current.0 += original;
        current.1 += reduced;
    }

    pub(super) fn flush(&mut self) {
        for direction in Direction::ALL {
            let (original, reduced) = std::mem::take(&mut self.current[direction.index()]);
            if original > 0 || reduced > 0 {
                if self.buckets.len() >= self.most {
                    self.shrink();
                }
                // `shrink` keeps `index` up to date when it makes buckets wider.
                let bucket = Bucket { direction, index: self.index, original, reduced };
                if self.buckets.len() == self.buckets.capacity() {
                    let more = self.buckets.len().clamp(64, self.most.max(64));
                    self.buckets.reserve_exact(more.min((self.most - self.buckets.len()).max(1)));
                }
                self.buckets.push(bucket);
            }
        }
    }

    /// Merges the entries of each bucket, then makes buckets wider until half of the memory is
    /// free.
    fn shrink(&mut self) {
        self.put_together();
        while self.buckets.len() > self.most / 2 {
            let factor = match self.width / 1_000_000 {
                10 | 100 | 1000 | 60_000 => 10,
                10_000 | 600_000 => 6,
                3_600_000 => 5,
                _ => 2,
            };
            let Some(width) = self.width.checked_mul(factor) else { return };
            self.width = width;
            self.index = self.index.div_euclid(factor);
            self.buckets
                .iter_mut()
                .for_each(|bucket| bucket.index = bucket.index.div_euclid(factor));
            self.put_together();
        }
    }

    /// Sorts the buckets and merges entries of the same bucket.
    pub(super) fn put_together(&mut self) {
        self.buckets.sort_unstable();
        self.buckets.dedup_by(|next, kept| {
            let same = (next.direction, next.index) == (kept.direction, kept.index);
            if same {
                kept.original += next.original;
                kept.reduced += next.reduced;
            }
            same
        });
    }
}

/// The wavelet analysis of each direction with packets, and of all together.
#[derive(Debug, Default)]
pub(super) struct Energy {
    pub(super) directions: [Option<Box<Pyramid<2>>>; Direction::ALL.len() + 1],
    /// The current base bucket, and the number of buckets before it.
    current: [[f64; 2]; Direction::ALL.len() + 1],
    index: u64,
    /// Buckets to add to a time, because the clock was set back.
    pub(super) offset: i64,
}

pub(super) const ENERGY_BYTES: u64 =
    (Direction::ALL.len() + 1) as u64 * size_of::<Pyramid<2>>() as u64;

/// A packet late by up to this many buckets counts into the current one. If it is later, the clock
/// was set back.
pub(super) const LATE: i64 = 100;

impl Energy {
    pub(super) fn add(&mut self, time: i64, direction: Direction, original: u32, reduced: u32) {
        let mut index = time.div_euclid(BASE).saturating_add(self.offset);
        let late = i64::try_from(self.index).unwrap_or(i64::MAX).saturating_sub(index);
        if late > LATE {
            self.offset = self.offset.saturating_add(late);
            index = self.index as i64;
        }
        let ahead = index.saturating_sub(self.index as i64);
        if ahead > 0 {
            self.flush();
            self.directions
                .iter_mut()
                .flatten()
                .for_each(|pyramid| pyramid.push_empty(ahead as u64 - 1));
            self.index = index as u64;
        }
        for place in [direction.index(), Direction::ALL.len()] {
            self.directions[place].get_or_insert_with(|| {
                let mut pyramid = Pyramid::new();
                pyramid.push_empty(self.index);
                Box::new(pyramid)
            });
            self.current[place][0] += f64::from(original);
            self.current[place][1] += f64::from(reduced);
        }
    }

    pub(super) fn flush(&mut self) {
        for (pyramid, current) in self.directions.iter_mut().zip(&mut self.current) {
            let bytes = std::mem::take(current);
            if let Some(pyramid) = pyramid {
                pyramid.push(bytes);
            }
        }
    }
}

/// The sum over all directions, ascending.
pub(super) fn total_of(buckets: &[Bucket]) -> Vec<Bucket> {
    let mut total = Sums { buckets: buckets.to_vec(), ..Sums::new(0) };
    total.buckets.iter_mut().for_each(|bucket| bucket.direction = Direction::All);
    total.put_together();
    total.buckets
}
