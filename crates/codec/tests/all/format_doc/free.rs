//! Parts of an encoder for `docs/FORMAT.md` that uses its freedom (section 11): it makes every
//! choice at random.

use crate::common::content::Rng;
use oncewire_second::format::{Match, Model, Models, Number};

pub(crate) fn put(out: &mut Vec<u8>, mut value: u64) {
    while value >= 128 {
        out.push(value as u8 | 128);
        value /= 128;
    }
    out.push(value as u8);
}

/// A number of this many bytes; of 0, a varint.
pub(crate) fn put_position(out: &mut Vec<u8>, value: u64, bytes: usize) {
    match bytes {
        0 => put(out, value),
        _ => out.extend_from_slice(&value.to_le_bytes()[..bytes]),
    }
}

/// Section 6, "For writers".
pub(crate) struct Section {
    pub(crate) first_state: u64,
    intervals: Vec<(u64, u64)>,
    bits: Vec<bool>,
}

impl Section {
    pub(crate) fn new() -> Section {
        Section { first_state: 65536, intervals: Vec::new(), bits: Vec::new() }
    }

    pub(crate) fn symbol(&mut self, model: &mut Model, s: usize) {
        self.intervals.push((model.0[s] as u64, model.frequency(s).into()));
        model.adapt(s);
    }

    pub(crate) fn bits(&mut self, value: u64, count: u32) {
        self.bits.extend((0..count).map(|i| value >> i & 1 == 1));
    }

    pub(crate) fn number(&mut self, m: &mut Number, value: u64) {
        let length = (64 - value.leading_zeros()) as usize;
        let (mut left, mut level) = (length, 0);
        loop {
            self.symbol(&mut m.length[level], left.min(15));
            if left < 15 {
                break;
            }
            left -= 15;
            level = (level + 1).min(2);
        }
        if length >= 2 {
            let below = length as u32 - 1;
            let even = below - below.min(3);
            self.symbol(&mut m.mantissa[length.min(31)], ((value - (1 << below)) >> even) as usize);
            self.bits(value % (1 << even), even);
        }
    }

    pub(crate) fn finish(self) -> Vec<u8> {
        let (mut x, mut words) = (self.first_state, Vec::new());
        for (start, frequency) in self.intervals.into_iter().rev() {
            if x >= frequency << 17 {
                words.push(x as u16);
                x >>= 16;
            }
            x = ((x / frequency) << 15) + x % frequency + start;
        }
        let mut out = (x as u32).to_le_bytes().to_vec();
        words.iter().rev().for_each(|word| out.extend_from_slice(&word.to_le_bytes()));
        let byte =
            |bits: &[bool]| bits.iter().rev().fold(0, |byte, &bit| byte << 1 | u8::from(bit));
        let bytes: Vec<u8> = self.bits.chunks(8).map(byte).collect();
        out.extend(bytes.iter().rev());
        out
    }
}

pub(crate) fn plain_descriptors(
    matches: &[Match],
    n: u64,
    width: Option<u8>,
    rng: &mut Rng,
) -> Vec<u8> {
    let (mut out, mut done, mut last) = (Vec::new(), 0, 0);
    put(&mut out, matches.len() as u64);
    for m in matches {
        put(&mut out, m.at - done);
        let distance = if m.distance == last && rng.one_in(2) { 0 } else { m.distance };
        put_position(&mut out, distance, usize::from(width.unwrap_or(0)).div_ceil(8));
        (done, last) = (m.at + m.len, m.distance);
        put(&mut out, if done == n && rng.one_in(2) { 0 } else { m.len });
    }
    out
}

pub(crate) fn coded_descriptors(
    models: &mut Models,
    matches: &[Match],
    n: u64,
    width: Option<u8>,
    rng: &mut Rng,
) -> Vec<u8> {
    let mut section = Section::new();
    section.number(&mut models.count, matches.len() as u64 - 1);
    let (mut done, mut before) = (0, 0);
    for (i, m) in matches.iter().enumerate() {
        section.number(&mut models.gap[before], m.at - done);
        // All encodings of the distance: symbol, kind, and the value minus 1.
        let (to, from) = (m.distance, models.last_distance);
        let mut ways = vec![(5, 2, to)];
        match to.cmp(&from) {
            std::cmp::Ordering::Equal => ways.push((0, 0, 0)),
            std::cmp::Ordering::Greater => ways.push((1, 1, to - from)),
            std::cmp::Ordering::Less => ways.push((3, 1, from - to)),
        }
        let aligned: Vec<_> = ways
            .iter()
            .filter(|w| w.2 > 0 && w.2 % 512 == 0)
            .map(|w| (w.0 + 1, w.1, w.2 / 512))
            .collect();
        ways.extend(aligned);
        // All distances within the log, and few others.
        ways.extend(width.filter(|&width| (to - 1) >> width == 0).map(|_| (7, 2, to)));
        let (symbol, kind, value) = ways[rng.below(ways.len())];
        section.symbol(&mut models.step[before], symbol);
        if symbol == 7 {
            section.bits(value - 1, width.unwrap_or(0).into());
        } else if kind > 0 {
            let numbers = if kind == 1 { &mut models.near } else { &mut models.far };
            section.number(&mut numbers[usize::from(symbol % 2 == 0)], value - 1);
        }
        models.last_distance = to;
        (done, before) = (m.at + m.len, kind);
        let mut to_end = false;
        if i + 1 == matches.len() {
            to_end = done == n && rng.one_in(2);
            section.symbol(&mut models.to_end, usize::from(to_end));
        }
        if !to_end {
            section.number(&mut models.len[kind], m.len - 1);
        }
    }
    section.finish()
}
