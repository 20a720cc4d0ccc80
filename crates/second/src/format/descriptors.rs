//! Descriptors, plain and coded: sections 5 and 6.

use super::columns::{NewCodes, bytes, length_models};
use super::symbols::Section;
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
