//! Descriptors, plain and coded: sections 5 and 6.

use super::columns::{NewCodes, bytes, length_models};
use super::*;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Match {
    pub at: u64,
    pub len: u64,
    pub source: u64,
    pub distance: u64,
}

/// Section 5.
pub(super) fn plain_descriptors(
    mut section: &[u8],
    o: u64,
    n: u64,
    width: Option<u32>,
) -> Result<Vec<Match>, No> {
    let section = &mut section;
    let count = field(section)?;
    if count == 0 || count > section.len() as u64 / 3 {
        return Err(Invalid("match count"));
    }
    let (mut done, mut last, mut matches) = (0, 0, Vec::new());
    for _ in 0..count {
        let at = done + field(section)?;
        let mut distance = position(section, width)?;
        if distance == 0 {
            distance = last;
        }
        let mut len = field(section)?;
        if at >= n || distance == 0 || distance > o + at {
            return Err(Invalid("position or distance"));
        }
        if len == 0 {
            len = n - at;
        }
        if len > n - at {
            return Err(Invalid("length"));
        }
        matches.push(Match { at, len, source: o + at - distance, distance });
        (done, last) = (at + len, distance);
    }
    if section.is_empty() { Ok(matches) } else { Err(Invalid("bytes left over")) }
}

/// Section 6, a model.
#[derive(Clone)]
pub struct Model(pub [i32; 16]);

impl Default for Model {
    fn default() -> Self {
        Self::new()
    }
}

impl Model {
    pub fn new() -> Model {
        Model(std::array::from_fn(|i| 2048 * i as i32))
    }

    pub fn frequency(&self, s: usize) -> u32 {
        (if s < 15 { self.0[s + 1] } else { 32768 } - self.0[s]) as u32
    }

    pub fn adapt(&mut self, s: usize) {
        for i in 0..16 {
            let target = if i <= s { 32 * i as i32 } else { 32768 - 32 * (16 - i as i32) };
            self.0[i] += (target - self.0[i]) >> 5;
        }
    }
}

/// Section 6, the number models.
#[derive(Clone)]
pub struct Number {
    name: String,
    pub length: [Model; 3],
    pub mantissa: [Model; 32],
}

impl Number {
    pub(super) fn new(name: impl Into<String>) -> Number {
        Number {
            name: name.into(),
            length: std::array::from_fn(|_| Model::new()),
            mantissa: std::array::from_fn(|_| Model::new()),
        }
    }
}

/// Section 6, the models of a context.
#[derive(Clone)]
pub struct Models {
    pub count: Number,
    pub gap: [Number; 3],
    pub step: [Model; 3],
    pub near: [Number; 2],
    pub far: [Number; 2],
    pub to_end: Model,
    pub len: [Number; 3],
    pub last_distance: u64,
    pub columns: Columns,
}

/// Section 6, "Descriptors in columns".
#[derive(Clone)]
pub struct Columns {
    pub gap: Column,
    pub kind: Column,
    pub delta: Column,
    pub low: Column,
    pub delta_high: Column,
    pub high: Column,
    pub second: Column,
    pub third: Column,
    pub fourth: Column,
    pub fifth: Column,
    pub models: LengthModels,
}

impl Columns {
    fn new() -> Columns {
        Columns {
            gap: Column::new(),
            kind: Column::new(),
            delta: Column::new(),
            low: Column::new(),
            delta_high: Column::new(),
            high: Column::new(),
            second: Column::new(),
            third: Column::new(),
            fourth: Column::new(),
            fifth: Column::new(),
            models: length_models(),
        }
    }
}

/// The next symbol of a column.
fn next(column: &mut std::vec::IntoIter<u8>) -> Result<u64, No> {
    column.next().map(u64::from).ok_or(Invalid("symbols missing"))
}

impl Default for Models {
    fn default() -> Self {
        Self::new()
    }
}

impl Models {
    pub fn new() -> Models {
        Models {
            count: Number::new("count"),
            gap: std::array::from_fn(|i| Number::new(format!("gap[{i}]"))),
            step: std::array::from_fn(|_| Model::new()),
            near: std::array::from_fn(|i| Number::new(format!("near[{i}]"))),
            far: std::array::from_fn(|i| Number::new(format!("far[{i}]"))),
            to_end: Model::new(),
            len: std::array::from_fn(|i| Number::new(format!("len[{i}]"))),
            last_distance: 0,
            columns: Columns::new(),
        }
    }

    pub fn read(
        &mut self,
        section: &[u8],
        o: u64,
        n: u64,
        width: Option<u32>,
        trace: &mut Option<Vec<String>>,
    ) -> Result<Vec<Match>, No> {
        let mut r = Section::begin(section, trace)?;
        let count = r.number(&mut self.count)?.saturating_add(1);
        if count > n {
            return Err(Invalid("match count"));
        }
        let (mut done, mut before, mut matches) = (0, 0, Vec::new());
        for i in 0..count {
            let at = done + r.number(&mut self.gap[before])?;
            if at >= n {
                return Err(Invalid("position"));
            }
            let last = i128::from(self.last_distance);
            let (kind, distance) =
                match r.symbol(&mut self.step[before], || format!("step[{before}]"))? {
                    0 => (0, last),
                    1 => (1, last + i128::from(r.number(&mut self.near[0])?) + 1),
                    2 => (1, last + 512 * (i128::from(r.number(&mut self.near[1])?) + 1)),
                    3 => (1, last - i128::from(r.number(&mut self.near[0])?) - 1),
                    4 => (1, last - 512 * (i128::from(r.number(&mut self.near[1])?) + 1)),
                    5 => (2, i128::from(r.number(&mut self.far[0])?) + 1),
                    6 => (2, 512 * (i128::from(r.number(&mut self.far[1])?) + 1)),
                    7 if width.is_some() => (2, i128::from(r.bits(width.unwrap_or(0))?) + 1),
                    _ => return Err(Invalid("distance step")),
                };
            if !(1..1 << 62).contains(&distance) || distance > i128::from(o + at) {
                return Err(Invalid("distance"));
            }
            let distance = distance as u64;
            self.last_distance = distance;
            let to_end = i == count - 1 && r.symbol(&mut self.to_end, || "to_end".into())? != 0;
            let len = if to_end { n - at } else { r.number(&mut self.len[kind])? + 1 };
            if len > n - at {
                return Err(Invalid("length"));
            }
            matches.push(Match { at, len, source: o + at - distance, distance });
            (done, before) = (at + len, kind);
        }
        r.finish()?;
        Ok(matches)
    }

    /// Section 6, "Descriptors in columns".
    pub fn read_columns(
        &mut self,
        mut section: &[u8],
        o: u64,
        n: u64,
        width: Option<u32>,
        codes: &mut NewCodes,
    ) -> Result<Vec<Match>, No> {
        let section = &mut section;
        let count = field(section)?;
        if count == 0 || count > n {
            return Err(Invalid("match count"));
        }
        let count = count as usize;
        let columns = &mut self.columns;
        let models = &mut columns.models;
        let gaps = columns.gap.read(section, count, models, codes)?;
        let kinds = columns.kind.read(section, count, models, codes)?;
        let classes = if width.is_some() { 4 } else { 7 };
        if kinds.iter().any(|&kind| kind >= 36 * classes) {
            return Err(Invalid("kind"));
        }
        let of = |classes: std::ops::RangeInclusive<u8>| {
            kinds.iter().filter(|&kind| classes.contains(&(kind / 36))).count()
        };
        let (low, high, fixed_distances) = match width {
            Some(_) => (of(2..=2), 0, of(3..=3)),
            None => (of(2..=6), of(3..=3), 0),
        };
        let mut delta = columns.delta.read(section, of(1..=1), models, codes)?.into_iter();
        let mut low = columns.low.read(section, low, models, codes)?.into_iter();
        let mut delta_high =
            columns.delta_high.read(section, of(2..=2), models, codes)?.into_iter();
        let mut high = columns.high.read(section, high, models, codes)?.into_iter();
        let mut second = columns.second.read(section, of(4..=6), models, codes)?.into_iter();
        let mut third = columns.third.read(section, of(4..=6), models, codes)?.into_iter();
        let mut fourth = columns.fourth.read(section, of(5..=6), models, codes)?.into_iter();
        let mut fifth = columns.fifth.read(section, of(6..=6), models, codes)?.into_iter();
        let width = width.unwrap_or(0).div_ceil(8) as usize;
        let mut fixed_distances = bytes(section, fixed_distances * width)?;

        let (mut done, mut matches) = (0, Vec::new());
        for (gap, kind) in gaps.into_iter().zip(kinds) {
            let gap = match gap {
                0..=252 => gap.into(),
                _ => fixed(section, usize::from(gap) - 252)?,
            };
            let (class, code) = (kind / 36, kind % 36);
            let len = match code {
                0..=32 => 12 + u64::from(code),
                _ => fixed(section, usize::from(code) - 32)? + 1,
            };
            let last = self.last_distance as i64;
            let distance = match class {
                0 => last,
                1 => last + i64::from(next(&mut delta)? as i8),
                2 => {
                    let change = next(&mut low)? + (next(&mut delta_high)? << 8);
                    last + i64::from(change as i16)
                }
                3 if width > 0 => fixed(&mut fixed_distances, width)? as i64,
                3 => (next(&mut low)? + (next(&mut high)? << 8)) as i64,
                _ => {
                    let mut distance = next(&mut low)?;
                    distance += next(&mut second)? << 8;
                    distance += next(&mut third)? << 16;
                    if class >= 5 {
                        distance += next(&mut fourth)? << 24;
                    }
                    if class >= 6 {
                        distance += next(&mut fifth)? << 32;
                    }
                    distance as i64
                }
            };
            let at = done + gap;
            if at >= n {
                return Err(Invalid("position"));
            }
            if distance < 1 || distance as u64 > o + at {
                return Err(Invalid("distance"));
            }
            if len > n - at {
                return Err(Invalid("length"));
            }
            let distance = distance as u64;
            self.last_distance = distance;
            matches.push(Match { at, len, source: o + at - distance, distance });
            done = at + len;
        }
        if section.is_empty() { Ok(matches) } else { Err(Invalid("bytes left over")) }
    }
}

/// Section 6, the section.
pub(super) struct Section<'a> {
    x: u64,
    rest: &'a [u8],
    pending: u64,
    pending_bits: u32,
    trace: &'a mut Option<Vec<String>>,
}

impl<'a> Section<'a> {
    /// Records what symbols say together.
    pub(super) fn note(&mut self, what: impl FnOnce() -> String) {
        if let Some(trace) = self.trace {
            trace.push(format!("= {}", what()));
        }
    }

    pub(super) fn begin(
        section: &'a [u8],
        trace: &'a mut Option<Vec<String>>,
    ) -> Result<Section<'a>, No> {
        let (state, rest) = section.split_first_chunk().ok_or(Invalid("no state"))?;
        Ok(Section {
            x: u32::from_le_bytes(*state).into(),
            rest,
            pending: 0,
            pending_bits: 0,
            trace,
        })
    }

    pub(super) fn symbol(
        &mut self,
        model: &mut Model,
        name: impl FnOnce() -> String,
    ) -> Result<usize, No> {
        let place = self.x % 32768;
        let s = (0..16).rev().find(|&i| model.0[i] as u64 <= place).unwrap();
        self.x = u64::from(model.frequency(s)) * (self.x >> 15) + place - model.0[s] as u64;
        model.adapt(s);
        if self.x < 65536 {
            let (word, rest) = self.rest.split_first_chunk().ok_or(Invalid("words missing"))?;
            self.x = self.x * 65536 + u64::from(u16::from_le_bytes(*word));
            self.rest = rest;
        }
        if let Some(trace) = self.trace {
            trace.push(format!("{} {s}", name()));
        }
        Ok(s)
    }

    fn bits(&mut self, count: u32) -> Result<u64, No> {
        let mut value = 0;
        // One at a time: the same order, and no number of more than 64 bits.
        for i in 0..count {
            if self.pending_bits == 0 {
                let (&byte, rest) = self.rest.split_last().ok_or(Invalid("even bits missing"))?;
                (self.pending, self.pending_bits, self.rest) = (byte.into(), 8, rest);
            }
            value += (self.pending & 1) << i;
            self.pending >>= 1;
            self.pending_bits -= 1;
        }
        if let Some(trace) = self.trace
            && count > 0
        {
            trace.push(format!("bits({count}) {value}"));
        }
        Ok(value)
    }

    pub(super) fn number(&mut self, m: &mut Number) -> Result<u64, No> {
        let Number { name, length: lengths, mantissa } = m;
        let (mut length, mut level) = (0, 0);
        loop {
            let s = self.symbol(&mut lengths[level], || format!("{name}.length[{level}]"))?;
            length += s;
            if length > 62 {
                return Err(Invalid("number length"));
            }
            level = (level + 1).min(2);
            if s < 15 {
                break;
            }
        }
        if length < 2 {
            return Ok(length as u64);
        }
        let below = length as u32 - 1;
        let top_bits = below.min(3);
        let which = length.min(31);
        let top = self.symbol(&mut mantissa[which], || format!("{name}.mantissa[{which}]"))? as u64;
        if top >= 1 << top_bits {
            return Err(Invalid("mantissa"));
        }
        Ok((((1 << top_bits) + top) << (below - top_bits)) + self.bits(below - top_bits)?)
    }

    pub(super) fn finish(self) -> Result<(), No> {
        let right = self.rest.is_empty() && self.x == 65536 && self.pending == 0;
        if right { Ok(()) } else { Err(Invalid("final state")) }
    }
}
