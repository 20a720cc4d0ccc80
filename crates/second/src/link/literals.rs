//! Frozen contexts and the literals that are coded with them: section 8, "Contexts".

use super::fields::{Fields, Parsed};

/// Longest word of a code, in bits.
const LONGEST: usize = 11;

/// Longest prefix of a context, in bytes.
const PREFIX: usize = 32_768;

/// The file of context 0.
const BUILT_IN: &[u8] = include_bytes!("../../../codec/src/entropy/context-0.bin");

/// By the bits of a word, after a 1: its byte.
struct Code(Vec<Option<u8>>);

impl Code {
    fn parse(stated: &[u8], has_all: bool) -> Parsed<Code> {
        let lengths: Vec<usize> =
            stated.iter().flat_map(|two| [two & 15, two >> 4]).map(usize::from).collect();
        if lengths.iter().any(|&length| length > LONGEST || (length == 0 && has_all)) {
            return Err("length of a word");
        }
        let space: usize =
            lengths.iter().filter(|&&length| length > 0).map(|l| 1 << (11 - l)).sum();
        if space != 1 << LONGEST {
            return Err("a code that is not complete");
        }
        let mut bytes = vec![None; 2 << LONGEST];
        let mut word = 0;
        for length in 1..=LONGEST {
            word *= 2;
            for (byte, _) in (0..=255).zip(&lengths).filter(|(_, own)| **own == length) {
                bytes[1 << length | word] = Some(byte);
                word += 1;
            }
        }
        Ok(Code(bytes))
    }

    /// `count` symbols of one stream.
    fn stream(&self, fields: &mut Fields<'_>, count: usize) -> Parsed<Vec<u8>> {
        let (mut byte, mut bits) = (0, 0);
        let mut symbols = Vec::new();
        for _ in 0..count {
            let mut word = 1;
            while self.0[word].is_none() {
                if bits == 0 {
                    (byte, bits) = (fields.byte()?, 8);
                }
                bits -= 1;
                word = word << 1 | usize::from(byte >> bits & 1);
            }
            symbols.extend(self.0[word]);
        }
        if u32::from(byte) % (1 << bits) != 0 {
            return Err("bits after a stream");
        }
        Ok(symbols)
    }
}

/// A column of `count` symbols; raw without a code.
fn column(fields: &mut Fields<'_>, code: Option<&Code>, count: usize) -> Parsed<Vec<u8>> {
    let Some(code) = code else { return Ok(fields.bytes(count as u64)?.to_vec()) };
    if count < 512 {
        return code.stream(fields, count);
    }
    let sizes = [fields.number(2)?, fields.number(2)?, fields.number(2)?];
    let mut streams = Vec::new();
    for (i, size) in sizes.into_iter().enumerate() {
        let mut own = Fields(fields.bytes(size)?);
        streams.push(code.stream(&mut own, (count - i).div_ceil(4))?);
        if !own.is_empty() {
            return Err("a stream that is too long");
        }
    }
    streams.push(code.stream(fields, count / 4)?);
    Ok((0..count).map(|i| streams[i % 4][i / 4]).collect())
}

pub(super) struct Context {
    codes: Vec<Code>,
    prefix: Vec<u8>,
}

impl Context {
    pub(super) fn new(codes: &[u8], prefix: Vec<u8>) -> Parsed<Context> {
        if !codes.len().is_multiple_of(128) || !(6..=9).contains(&(codes.len() / 128)) {
            return Err("number of codes");
        }
        if prefix.len() > PREFIX {
            return Err("length of a prefix");
        }
        let codes = codes.chunks(128).enumerate().map(|(i, stated)| Code::parse(stated, i < 6));
        Ok(Context { codes: codes.collect::<Parsed<_>>()?, prefix })
    }

    pub(super) fn built_in() -> Context {
        assert_eq!(BUILT_IN.len(), 30_169);
        assert_eq!(xxhash_rust::xxh3::xxh3_64(BUILT_IN), 0xca83_b117_9ab9_d63b);
        let (codes, prefix) = BUILT_IN.split_at(9 * 128);
        Context::new(codes, prefix.to_vec()).unwrap()
    }

    /// The `l` literals of a section.
    pub(super) fn read(&self, section: &[u8], l: u64) -> Parsed<Vec<u8>> {
        let mut fields = Fields(section);
        let head = fields.byte()?;
        let count = fields.varint()?;
        if count > l / 4 {
            return Err("short match count");
        }
        let mut next = |i: usize, count: usize| {
            column(&mut fields, (head >> i & 1 == 1).then(|| &self.codes[i]), count)
        };
        let tokens = next(0, count as usize)?;
        let these = |with: fn(u8) -> bool| tokens.iter().filter(|&&t| with(t)).count();
        let stated = these(|t| t >= 128);
        let (high, low) = (next(1, stated)?, next(2, stated)?);
        let run = next(3, these(|t| t >> 4 & 7 == 7))?;
        let len = next(4, these(|t| t & 15 == 15))?;
        let large = run.iter().chain(&len).filter(|&&c| c == 255).count() as u64;
        let mut large = Fields(fields.bytes(3 * large)?);

        let mut matches = Vec::new();
        let mut distances = high.iter().zip(&low);
        let (mut run, mut len) = (run.iter(), len.iter());
        let mut distance = 8;
        for t in tokens {
            if t >= 128 {
                let (&high, &low) = distances.next().ok_or("no distance")?;
                distance = 256 * usize::from(high) + usize::from(low);
            }
            let mut own_run = u64::from(t >> 4 & 7);
            if own_run == 7 {
                own_run += more(run.next(), &mut large)?;
            }
            let mut length = u64::from(t & 15);
            if length == 15 {
                length += more(len.next(), &mut large)?;
            }
            matches.push((distance, own_run, length + 4));
        }
        let matched: u64 = matches.iter().map(|&(_, _, length)| length).sum();
        let rest = l.checked_sub(matched).ok_or("lengths beyond the literals")?;
        let code = match usize::from(head >> 5) {
            0 => None,
            k => Some(self.codes.get(4 + k).ok_or("a code that the context does not have")?),
        };
        let mut literal = Fields(&column(&mut fields, code, rest as usize)?[..]);
        if !fields.is_empty() {
            return Err("bytes left over");
        }

        let mut all = self.prefix.clone();
        for (distance, run, length) in matches {
            all.extend_from_slice(literal.bytes(run)?);
            if distance == 0 || distance > all.len() {
                return Err("short distance");
            }
            for _ in 0..length {
                all.push(all[all.len() - distance]);
            }
        }
        all.extend_from_slice(literal.rest());
        Ok(all.split_off(self.prefix.len()))
    }
}

fn more(c: Option<&u8>, large: &mut Fields<'_>) -> Parsed<u64> {
    match c {
        Some(&255) => large.number(3),
        Some(&c) => Ok(c.into()),
        None => Err("bytes missing"),
    }
}
