//! Symbols under models: section 6.

use super::*;

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

    pub(super) fn bits(&mut self, count: u32) -> Result<u64, No> {
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
