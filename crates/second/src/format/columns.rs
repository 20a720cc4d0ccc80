//! Columns: section 6.

use super::symbols::Section;
use super::*;

/// The length models that columns share.
pub type LengthModels = [Model; 13];

pub(super) fn length_models() -> LengthModels {
    std::array::from_fn(|_| Model::new())
}

/// The code that a column has: the lengths of the words of all symbols; all 0 if there is none.
#[derive(Clone)]
pub struct Column(pub [usize; 256]);

const LONGEST: usize = 11;

/// The new codes that a frame may still have.
pub struct NewCodes(u64);

impl NewCodes {
    /// Of a frame with a block of `n` bytes.
    pub fn of(n: u64) -> NewCodes {
        NewCodes((n + 128) / 256)
    }
}

impl Default for Column {
    fn default() -> Self {
        Self::new()
    }
}

impl Column {
    pub fn new() -> Column {
        Column([0; 256])
    }

    pub fn has_code(&self) -> bool {
        self.0.iter().any(|&length| length > 0)
    }

    /// The words, for symbols that have one. RFC 1951, section 3.2.2.
    pub fn words(&self) -> Vec<Option<(usize, usize)>> {
        let mut words = vec![None; 256];
        let mut word = 0;
        for length in 1..=LONGEST {
            word *= 2;
            for (own, _) in words.iter_mut().zip(&self.0).filter(|(_, known)| **known == length) {
                *own = Some((length, word));
                word += 1;
            }
        }
        words
    }

    /// Takes a column of `count` symbols from the front of a section.
    pub fn read(
        &mut self,
        section: &mut &[u8],
        count: usize,
        models: &mut LengthModels,
        codes: &mut NewCodes,
    ) -> Result<Vec<u8>, No> {
        let mut symbols = Vec::new();
        while count - symbols.len() > 32_768 {
            symbols.extend(self.part(section, 16_384, models, codes)?);
        }
        symbols.extend(self.part(section, count - symbols.len(), models, codes)?);
        Ok(symbols)
    }

    fn part(
        &mut self,
        section: &mut &[u8],
        count: usize,
        models: &mut LengthModels,
        codes: &mut NewCodes,
    ) -> Result<Vec<u8>, No> {
        if count < 16 {
            return Ok(bytes(section, count)?.to_vec());
        }
        match bytes(section, 1)?[0] {
            0 => Ok(bytes(section, count)?.to_vec()),
            1 if !self.has_code() => Err(Invalid("no code to keep")),
            1 => self.streams(section, count),
            2 if count < 64 => Err(Invalid("a new code for fewer than 64 symbols")),
            2 => {
                codes.0 = codes.0.checked_sub(1).ok_or(Invalid("too many new codes"))?;
                let len = field(section)?;
                self.code(bytes(section, len as usize)?, models)?;
                self.streams(section, count)
            }
            3 => Ok(vec![bytes(section, 1)?[0]; count]),
            _ => Err(Invalid("coding of a column")),
        }
    }

    fn code(&mut self, section: &[u8], models: &mut LengthModels) -> Result<(), No> {
        let mut trace = None;
        let mut r = Section::begin(section, &mut trace)?;
        let mut below = 0;
        for length in &mut self.0 {
            let model = match *length {
                0 => usize::from(below > 0),
                known => known + 1,
            };
            *length = r.symbol(&mut models[model], String::new)?;
            if *length > LONGEST {
                return Err(Invalid("length of a word"));
            }
            below = *length;
        }
        r.finish()?;
        let sum: usize = self.0.iter().filter(|&&length| length > 0).map(|l| 1 << (11 - l)).sum();
        if sum == 1 << 11 { Ok(()) } else { Err(Invalid("a code that is not complete")) }
    }

    fn streams(&self, section: &mut &[u8], count: usize) -> Result<Vec<u8>, No> {
        // By the bits of a word, after a 1.
        let mut known = vec![None; 2 << LONGEST];
        for (symbol, word) in (0..=255).zip(self.words()) {
            if let Some((length, word)) = word {
                known[1 << length | word] = Some(symbol);
            }
        }
        if count < 256 {
            return stream(section, count, &known);
        }
        let mut sizes = [0; 3];
        for size in &mut sizes {
            *size = fixed(section, 2)? as usize;
        }
        let mut streams = Vec::new();
        for (i, size) in sizes.into_iter().enumerate() {
            let mut own = bytes(section, size)?;
            streams.push(stream(&mut own, (count - i).div_ceil(4), &known)?);
            if !own.is_empty() {
                return Err(Invalid("a stream that is too long"));
            }
        }
        streams.push(stream(section, count / 4, &known)?);
        Ok((0..count).map(|k| streams[k % 4][k / 4]).collect())
    }
}

/// Takes this many bytes from the front of a section.
pub(super) fn bytes<'a>(section: &mut &'a [u8], count: usize) -> Result<&'a [u8], No> {
    let (front, rest) = section.split_at_checked(count).ok_or(Invalid("bytes missing"))?;
    *section = rest;
    Ok(front)
}

fn stream(section: &mut &[u8], count: usize, known: &[Option<u8>]) -> Result<Vec<u8>, No> {
    let (mut byte, mut bits) = (0, 0);
    let mut symbols = Vec::new();
    for _ in 0..count {
        let mut word = 1;
        while known[word].is_none() {
            if bits == 0 {
                (byte, bits) = (bytes(section, 1)?[0], 8);
            }
            bits -= 1;
            // The code is complete, so every word that is long enough is known.
            word = word << 1 | usize::from(byte >> bits & 1);
        }
        symbols.extend(known[word]);
    }
    if u32::from(byte) % (1 << bits) != 0 {
        return Err(Invalid("bits after a stream"));
    }
    Ok(symbols)
}
