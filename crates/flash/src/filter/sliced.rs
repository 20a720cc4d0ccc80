//! Bloom filters of the incarnations of a super table, bit-sliced with a window (T:4108-4131).
//!
//! A slice has a bit of each filter. A look-up reads `h` slices and combines them with AND; the
//! bits that remain are the incarnations to read. Incarnation number `c` of a partition has bit
//! `c mod (k + w)`. When the first bit of a word of `w` bits is needed, the whole word is outside
//! of the window of `k` bits and is cleared in every slice. With `w` = 0, the one bit is cleared
//! each time, which takes no memory for `w`.

use super::{Candidates, IncarnationFilter, STRIDE};
use crate::allowance::Allowance;
use crate::format::hash::mix;
use std::f64::consts::LN_2;

const GOLDEN: u64 = 0x9E37_79B9_7F4A_7C15;

/// What all filters of an index have in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Shape {
    /// Bits of each filter, which is also the number of slices: `m'`.
    pub(crate) slices: u32,
    /// Incarnations of a partition at most: `k`.
    pub(crate) most: u32,
    /// Bits of a slice: `k + w`, rounded up so that words fit.
    pub(crate) columns: u32,
    /// `w`: 0 to 32.
    pub(crate) window: u32,
    /// Hash functions: `h`.
    pub(crate) hashes: u32,
}

impl Shape {
    /// The shape for a partition with `bytes` of memory. `None` if that is less than a bit for each
    /// entry.
    pub(crate) fn new(bytes: u64, most: u32, window: u32, entries: u32) -> Option<Shape> {
        let columns = match window {
            0 => most,
            window => most.div_ceil(window) * window + window,
        };
        let slices = (8 * bytes.saturating_sub(8)) / u64::from(columns.max(1));
        let slices = u32::try_from(slices.min(1 << 31)).ok().filter(|&slices| slices >= entries)?;
        // h = m' ln 2 / n' (T:4276).
        let hashes = (f64::from(slices) * LN_2 / f64::from(entries.max(1))).round();
        Some(Shape { slices, most, columns, window, hashes: (hashes as u32).clamp(1, 32) })
    }

    /// Bytes that a partition needs at most for a bit for each entry.
    pub(crate) fn least(most: u32, window: u32, entries: u32) -> u64 {
        let columns = u64::from(most) + 2 * u64::from(window);
        (u64::from(entries) * columns).div_ceil(8) + 16
    }

    /// Bytes of memory for a partition.
    pub(crate) fn bytes(&self) -> usize {
        (u64::from(self.slices) * u64::from(self.columns)).div_ceil(8) as usize + 8
    }

    fn slice(&self, hash: u64, n: u32) -> u64 {
        let bits = mix(hash.wrapping_add(u64::from(n + 1).wrapping_mul(GOLDEN)));
        ((bits >> 32) * u64::from(self.slices)) >> 32
    }
}

/// The filters of a partition.
#[derive(Debug)]
pub(crate) struct Sliced {
    shape: Shape,
    bits: Vec<u8>,
}

impl Sliced {
    pub(crate) fn new(shape: &Shape) -> Sliced {
        Sliced { shape: *shape, bits: vec![0; shape.bytes()] }
    }

    fn clear(&mut self, at: u64, len: u32) {
        let from = (at / 8) as usize;
        let mut word = [0; 8];
        word.copy_from_slice(&self.bits[from..from + 8]);
        let mask = ((1u64 << len) - 1) << (at % 8);
        let word = u64::from_le_bytes(word) & !mask;
        self.bits[from..from + 8].copy_from_slice(&word.to_le_bytes());
    }

    fn add_one(&mut self, count: u64, hash: u64) {
        let column = count % u64::from(self.shape.columns);
        for n in 0..self.shape.hashes {
            let at = self.shape.slice(hash, n) * u64::from(self.shape.columns) + column;
            self.bits[(at / 8) as usize] |= 1 << (at % 8);
        }
    }
}

impl IncarnationFilter for Sliced {
    fn enter(&mut self, count: u64) {
        let shape = self.shape;
        let column = (count % u64::from(shape.columns)) as u32;
        let len = match shape.window {
            0 => 1,
            window if column.is_multiple_of(window) => window,
            _ => return,
        };
        for slice in 0..u64::from(shape.slices) {
            self.clear(slice * u64::from(shape.columns) + u64::from(column), len);
        }
    }

    fn add(&mut self, count: u64, hashes: &[u64], _: &Allowance) -> Result<(), usize> {
        hashes.iter().for_each(|&hash| self.add_one(count, hash));
        Ok(())
    }

    fn force(&mut self, count: u64, hash: u64, _: &Allowance) {
        self.add_one(count, hash);
    }

    fn leave(&mut self, _: u64, _: &Allowance) {}

    fn candidates(&self, hash: u64) -> Candidates {
        let shape = &self.shape;
        let mut candidates = Candidates::all(shape.columns);
        for n in 0..shape.hashes {
            let first = shape.slice(hash, n) * u64::from(shape.columns);
            let mut any = 0;
            for (word, bits) in candidates.words().iter_mut().enumerate() {
                let at = first + word as u64 * u64::from(STRIDE);
                let from = (at / 8) as usize;
                let mut read = [0; 8];
                // The last word of the last slice may reach beyond the spare bytes.
                let have = self.bits.len().min(from + 8) - from;
                read[..have].copy_from_slice(&self.bits[from..from + have]);
                *bits &= u64::from_le_bytes(read) >> (at % 8);
                any |= *bits;
            }
            if any == 0 {
                break;
            }
        }
        candidates
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Adds incarnations for a while, with or without a window, and compares with plain filters:
    /// exactly the same bits must be found.
    #[test]
    fn slices_equal_plain_filters() {
        for (most, window) in
            [(1, 0), (3, 0), (16, 0), (16, 8), (17, 16), (130, 0), (130, 32), (5, 1)]
        {
            let shape = Shape::new(40_000, most, window, 100).expect("enough memory");
            assert!(shape.bytes() <= 40_000 && shape.columns >= most + window);
            let mut sliced = Sliced::new(&shape);
            let mut plain: Vec<Vec<bool>> = Vec::new();
            for count in 0..u64::from(3 * most + 40) {
                sliced.enter(count);
                let mut filter = vec![false; shape.slices as usize];
                for key in 0..100 {
                    let hash = mix(count << 32 | key);
                    sliced.add_one(count, hash);
                    (0..shape.hashes).for_each(|n| filter[shape.slice(hash, n) as usize] = true);
                }
                plain.push(filter);
                let oldest = (count + 1).saturating_sub(u64::from(most));
                for key in 0..20 {
                    let hash = mix(((count - key % (count + 1)) << 32) | (key * 5));
                    let found = sliced.candidates(hash);
                    for old in oldest..=count {
                        let plain = &plain[old as usize];
                        let expected =
                            (0..shape.hashes).all(|n| plain[shape.slice(hash, n) as usize]);
                        assert_eq!(found.may_have(old), expected, "{most} {window} {count} {old}");
                    }
                }
            }
        }
    }

    /// What bit slicing saves (T:4670): words of memory that a look-up of an absent key reads, with
    /// slices, and with a filter after the other, each until it says no.
    #[test]
    fn slices_are_read_less_often_than_filters() {
        let shape = Shape::new(2 * 16 * 1000 + 8, 16, 0, 1000).expect("enough memory");
        let mut sliced = Sliced::new(&shape);
        for count in 0..16 {
            sliced.enter(count);
            (0..1000).for_each(|key| sliced.add_one(count, mix(count << 32 | key)));
        }
        let is_set = |hash, n, count| {
            let at = shape.slice(hash, n) * u64::from(shape.columns) + count;
            sliced.bits[(at / 8) as usize] >> (at % 8) & 1 == 1
        };
        let (mut of_slices, mut of_filters) = (0, 0);
        let keys = 10_000;
        for key in 0..keys {
            let hash = mix(1 << 60 | key);
            let read = |count| {
                let ones = (0..shape.hashes).take_while(|&n| is_set(hash, n, count)).count();
                (ones as u32 + 1).min(shape.hashes)
            };
            of_filters += (0..16).map(read).sum::<u32>();
            of_slices += (0..16).map(read).max().expect("some");
        }
        let each = |words| f64::from(words) / keys as f64;
        println!("{:.1} slices, {:.1} filters", each(of_slices), each(of_filters));
        assert!(of_filters > 5 * of_slices, "{of_slices} {of_filters}");
    }

    #[test]
    fn false_positives_are_as_the_model_says() {
        // 16 bits for each of 1000 entries in 16 incarnations: 7.3e-3 spurious reads a look-up.
        let shape = Shape::new(2 * 16 * 1000 + 8, 16, 0, 1000).expect("enough memory");
        assert_eq!((shape.slices, shape.hashes), (16_000, 11));
        let mut sliced = Sliced::new(&shape);
        for count in 0..16 {
            sliced.enter(count);
            (0..1000).for_each(|key| sliced.add_one(count, mix(count << 32 | key)));
        }
        let mut spurious = 0;
        for key in 0..100_000 {
            let found = sliced.candidates(mix(1 << 60 | key));
            spurious += (0..16).filter(|&count| found.may_have(count)).count();
        }
        assert!((600..880).contains(&spurious), "{spurious} in 100,000");
        assert!(Shape::new(100, 16, 0, 1000).is_none());
    }
}
