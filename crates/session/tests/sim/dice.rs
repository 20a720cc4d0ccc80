//! Decisions of a world while it runs: at random from a seed, or fixed for worlds that must never
//! change.

use crate::script::Time;
use std::ops::Range;

#[derive(Clone, Debug)]
pub(crate) enum Dice {
    /// Every decision follows from a seed.
    Random(fastrand::Rng),
    /// Every decision is the plainest one. The number only tells sessions apart.
    Fixed(u64),
}

impl Dice {
    pub(crate) fn new(seed: u64) -> Dice {
        Dice::Random(fastrand::Rng::with_seed(seed))
    }

    /// A number that differs from those before.
    pub(crate) fn next(&mut self) -> u64 {
        match self {
            Dice::Random(rng) => rng.u64(..),
            Dice::Fixed(count) => {
                *count += 1;
                *count
            }
        }
    }

    /// A number below `limit`, or 0.
    pub(crate) fn below(&mut self, limit: usize) -> usize {
        match self {
            Dice::Random(rng) => rng.usize(..limit.max(1)),
            Dice::Fixed(_) => 0,
        }
    }

    /// 1 to `limit`; `limit` if fixed.
    pub(crate) fn up_to(&mut self, limit: usize) -> usize {
        match self {
            Dice::Random(rng) => rng.usize(1..=limit),
            Dice::Fixed(_) => limit,
        }
    }

    /// A number in the range, or its start.
    pub(crate) fn within(&mut self, range: Range<u64>) -> u64 {
        match self {
            Dice::Random(rng) if !range.is_empty() => rng.u64(range),
            _ => range.start,
        }
    }

    /// A time of half to one and a half times `time`; `time` if fixed.
    pub(crate) fn around(&mut self, time: Time) -> Time {
        match self {
            Dice::Random(rng) => time / 2 + rng.u64(..=time),
            Dice::Fixed(_) => time,
        }
    }

    /// Once in `n` times; never if fixed.
    pub(crate) fn one_in(&mut self, n: usize) -> bool {
        match self {
            Dice::Random(rng) => rng.usize(..n) == 0,
            Dice::Fixed(_) => false,
        }
    }

    /// A number of any order of magnitude up to `limit`.
    pub(crate) fn size(&mut self, limit: usize) -> usize {
        let bits = usize::BITS - limit.leading_zeros();
        let limit = limit.min(1 << self.below(bits as usize + 1));
        self.below(limit + 1)
    }

    pub(crate) fn bytes(&mut self, len: usize) -> Vec<u8> {
        let mut bytes = vec![0; len];
        if let Dice::Random(rng) = self {
            rng.fill(&mut bytes);
        }
        bytes
    }
}
