//! Coded literals: section 7.

use super::columns::{Column, LengthModels, NewCodes, bytes, length_models};
use super::*;

/// What a context has for them.
#[derive(Clone)]
pub struct CodedLiterals {
    pub token: Column,
    pub high: Column,
    pub low: Column,
    pub run: Column,
    pub len: Column,
    pub literal: Column,
    pub models: LengthModels,
    pub last_short: u64,
    /// All since the context was reset.
    pub literals: Vec<u8>,
}

impl Default for CodedLiterals {
    fn default() -> Self {
        Self::new()
    }
}

impl CodedLiterals {
    pub fn new() -> CodedLiterals {
        CodedLiterals {
            token: Column::new(),
            high: Column::new(),
            low: Column::new(),
            run: Column::new(),
            len: Column::new(),
            literal: Column::new(),
            models: length_models(),
            last_short: 8,
            literals: Vec::new(),
        }
    }

    /// The `l` literals of a section.
    pub(super) fn read(
        &mut self,
        mut section: &[u8],
        l: u64,
        codes: &mut NewCodes,
    ) -> Result<Vec<u8>, No> {
        let count = field(&mut section)?;
        if count > l / 4 {
            return Err(Invalid("short match count"));
        }
        let models = &mut self.models;
        let tokens = self.token.read(&mut section, count as usize, models, codes)?;
        let these = |with: fn(u8) -> bool| tokens.iter().filter(|&&t| with(t)).count();
        let (stated, runs, lens) =
            (these(|t| t >= 128), these(|t| t >> 4 & 7 == 7), these(|t| t & 15 == 15));
        let high = self.high.read(&mut section, stated, models, codes)?;
        let low = self.low.read(&mut section, stated, models, codes)?;
        let run = self.run.read(&mut section, runs, models, codes)?;
        let len = self.len.read(&mut section, lens, models, codes)?;
        let large = run.iter().chain(&len).filter(|&&c| c == 255).count();
        let mut large = bytes(&mut section, 3 * large)?;

        // Distance if it is stated, run, and length.
        let mut matches = Vec::new();
        let mut distances = high.iter().zip(&low);
        let (mut run, mut len) = (run.iter(), len.iter());
        for t in tokens {
            let distance = if t >= 128 { distances.next() } else { None };
            let distance = distance.map(|(&high, &low)| 256 * u64::from(high) + u64::from(low));
            let run = match u64::from(t >> 4 & 7) {
                7 => 7 + more(run.next(), &mut large)?,
                run => run,
            };
            let length = match u64::from(t & 15) {
                15 => 15 + more(len.next(), &mut large)?,
                length => length,
            };
            matches.push((distance, run, length + 4));
        }
        let matched: u64 = matches.iter().map(|&(_, _, length)| length).sum();
        let rest = l.checked_sub(matched).ok_or(Invalid("a length beyond the literals"))?;
        let literal = self.literal.read(&mut section, rest as usize, models, codes)?;
        if !section.is_empty() {
            return Err(Invalid("bytes left over"));
        }

        let mut literal = &literal[..];
        let before = self.literals.len();
        for (distance, run, length) in matches {
            self.last_short = distance.unwrap_or(self.last_short);
            let (now, rest) = literal
                .split_at_checked(run as usize)
                .ok_or(Invalid("a run beyond the literals"))?;
            self.literals.extend_from_slice(now);
            literal = rest;
            if self.last_short == 0 || self.last_short > self.literals.len() as u64 {
                return Err(Invalid("short distance"));
            }
            for _ in 0..length {
                self.literals.push(self.literals[self.literals.len() - self.last_short as usize]);
            }
        }
        self.literals.extend_from_slice(literal);
        Ok(self.literals[before..].to_vec())
    }
}

fn more(c: Option<&u8>, large: &mut &[u8]) -> Result<u64, No> {
    match c {
        Some(&255) => fixed(large, 3),
        Some(&c) => Ok(c.into()),
        None => Err(Invalid("bytes missing")),
    }
}
