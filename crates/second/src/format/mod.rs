//! A second decoder, written from `docs/FORMAT.md` alone: simple, slow, and as strict as the
//! document. Section numbers are those of the document. It shares no code with the first decoder
//! except the crates for external formats.

mod blocks;
mod columns;
mod descriptors;
mod fields;
mod literals;
mod sequences;
mod symbols;
mod transcoded;

pub use columns::{Column, LengthModels, NewCodes};
use descriptors::plain_descriptors;
pub use descriptors::{Match, Models};
pub use literals::CodedLiterals;
use std::ops::Range;
pub use symbols::{Model, Number};
pub use transcoded::TranscodeModels;
use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed};

/// Why a frame gives no block.
#[derive(Debug, PartialEq, Eq)]
pub enum No {
    NeedMore,
    Missing(Vec<Range<u64>>),
    /// Invalid because of its offset; the context stays as it was.
    Place,
    Invalid(&'static str),
}

use No::Invalid;

pub const NO_CONTEXT: No = Invalid("a context that does not exist, was not begun, or is lost");

/// Section 1.
pub fn varint(input: &mut &[u8]) -> Result<u64, No> {
    let mut value = 0;
    for i in 0..9 {
        let byte = *input.get(i).ok_or(No::NeedMore)?;
        value += u64::from(byte % 128) << (7 * i);
        if byte < 128 {
            *input = &input[i + 1..];
            return if byte == 0 && i > 0 {
                Err(Invalid("not the shortest form"))
            } else {
                Ok(value)
            };
        }
    }
    Err(Invalid("more than 9 bytes"))
}

fn field(body: &mut &[u8]) -> Result<u64, No> {
    varint(body).map_err(|no| if no == No::NeedMore { Invalid("a body too short") } else { no })
}

/// Section 4, "Positions": a number of fixed size.
fn fixed(body: &mut &[u8], bytes: usize) -> Result<u64, No> {
    let (front, rest) = body.split_at_checked(bytes).ok_or(Invalid("a body too short"))?;
    *body = rest;
    Ok(front.iter().rev().fold(0, |value, &byte| value << 8 | u64::from(byte)))
}

/// Section 4, "Positions".
fn position(body: &mut &[u8], width: Option<u32>) -> Result<u64, No> {
    match width {
        Some(bits) => fixed(body, bits.div_ceil(8) as usize),
        None => field(body),
    }
}

/// Section 3, "What enters the log".
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Policy {
    All,
    NewRuns,
    /// Covered by matches to less than this percentage.
    NewBlocks(u64),
}

impl Policy {
    /// The part of a block with these matches that is kept.
    fn kept(self, block: &[u8], matches: &[Match]) -> Vec<u8> {
        let is_matched = |at: u64| matches.iter().any(|m| (m.at..m.at + m.len).contains(&at));
        let matched: u64 = matches.iter().map(|m| m.len).sum();
        match self {
            Policy::NewRuns => {
                (0..).zip(block).filter(|&(at, _)| !is_matched(at)).map(|(_, &byte)| byte).collect()
            }
            Policy::NewBlocks(percent) if 100 * matched >= percent * block.len() as u64 => {
                Vec::new()
            }
            Policy::All | Policy::NewBlocks(_) => block.to_vec(),
        }
    }
}

/// Section 2.
#[derive(Clone, Copy, Debug)]
pub struct Parameters {
    pub cache: u64,
    pub span: u64,
    pub block_limit: u64,
    pub policy: Policy,
    pub contexts: usize,
    pub session: u64,
    pub epoch: u64,
}

impl Parameters {
    pub fn place(&self, end: u64, n: u64) -> u64 {
        if end % self.cache + n > self.cache { end - end % self.cache + self.cache } else { end }
    }

    pub fn floor(&self, o: u64, n: u64) -> u64 {
        (o + n).saturating_sub(self.cache - self.span)
    }

    /// Section 4, "Positions".
    pub fn width(&self) -> u32 {
        (0..=40).find(|&bits| self.cache - 1 < 1 << bits).unwrap().max(1)
    }

    /// Section 9.
    pub fn place_hash(&self, o: u64, p: u64, n: u64) -> u64 {
        xxh3_64(&[self.session, self.epoch, o, p, n].map(u64::to_le_bytes).concat())
    }

    pub fn checksum(&self, o: u64, p: u64, block: &[u8]) -> u64 {
        xxh3_64_with_seed(block, self.place_hash(o, p, block.len() as u64))
    }
}

/// Section 7, "Work".
struct Work {
    done: u64,
    limit: u64,
}

impl Work {
    fn count(&mut self, units: u64) -> Result<(), No> {
        self.done = self.done.saturating_add(units);
        if self.done > self.limit { Err(Invalid("too much work")) } else { Ok(()) }
    }
}

/// Section 8.
struct Context {
    in_step: bool,
    models: Models,
    transcode: TranscodeModels,
    coded: CodedLiterals,
}

/// The content of a ring position: an offset, and its byte unless it is padding.
type Cell = Option<(u64, Option<u8>)>;

pub struct Decoder {
    pub parameters: Parameters,
    pub low: u64,
    ring: Vec<Cell>,
    contexts: Vec<Context>,
    /// The symbols of coded descriptors and of operations, if recording is on; and the operations.
    pub trace: Option<Vec<String>>,
    /// The matches of the last frame, and whether its descriptors were in columns.
    pub matches: Vec<Match>,
    pub in_columns: bool,
}

#[derive(Debug, PartialEq, Eq)]
pub struct Block {
    pub offset: u64,
    pub content: Vec<u8>,
    pub consumed: usize,
    pub checksum: u64,
}

impl Decoder {
    pub fn new(parameters: Parameters) -> Decoder {
        let context = |_| Context {
            in_step: false,
            models: Models::new(),
            transcode: TranscodeModels::new(),
            coded: CodedLiterals::new(),
        };
        Decoder {
            parameters,
            low: 0,
            ring: vec![None; parameters.cache as usize],
            contexts: (0..parameters.contexts).map(context).collect(),
            trace: None,
            matches: Vec::new(),
            in_columns: false,
        }
    }

    fn cell(&self, offset: u64) -> Cell {
        self.ring[(offset % self.parameters.cache) as usize].filter(|&(at, _)| at == offset)
    }

    /// The byte at an offset; `None` if it is not held, or is padding.
    pub fn byte(&self, offset: u64) -> Option<u8> {
        self.cell(offset)?.1
    }

    /// Section 3.
    fn acceptable(&self, o: u64, p: u64, n: u64) -> bool {
        let Parameters { cache, span, block_limit, .. } = self.parameters;
        let is_next = o == self.parameters.place(self.low, n) && o - p == self.low;
        let in_window = is_next || (o >= self.low && o + n <= self.low + span);
        in_window
            && self.parameters.place(o, n) == o
            && (p == 0 || (o.is_multiple_of(cache) && p < block_limit.min(cache)))
            && (o - p..o + n).all(|at| self.cell(at).is_none())
    }

    fn write(&mut self, o: u64, p: u64, block: &[u8]) {
        let bytes =
            (o - p..o).map(|at| (at, None)).chain((o..).zip(block.iter().map(|&byte| Some(byte))));
        for (at, byte) in bytes {
            self.ring[(at % self.parameters.cache) as usize] = Some((at, byte));
        }
        // This comes first, since a block and its padding may together fill the ring.
        if o - p == self.low {
            self.low = o + block.len() as u64;
        }
        while self.cell(self.low).is_some() {
            self.low += 1;
        }
    }

    /// Section 12, "Base".
    pub fn prime(&mut self, content: &[u8]) {
        for block in content.chunks(self.parameters.block_limit as usize) {
            let o = self.parameters.place(self.low, block.len() as u64);
            self.write(o, o - self.low, block);
        }
    }

    /// Section 10.
    // More than 100 lines: it reads as the section of FORMAT.md does, in its order.
    pub fn decode(&mut self, input: &[u8]) -> Result<Block, No> {
        let Parameters { block_limit, .. } = self.parameters;
        let (&flags, mut rest) = input.split_first().ok_or(No::NeedMore)?;
        let (descriptor_coding, literal_coding) = (flags & 3, flags >> 2 & 3);
        let uses_context = descriptor_coding == 2 || literal_coding >= 2;
        if descriptor_coding == 3 || (flags & 0x60 != 0 && !uses_context) {
            return Err(Invalid("flags"));
        }
        let body_len = varint(&mut rest)?;
        if body_len > block_limit + 128 {
            return Err(Invalid("body length"));
        }
        let mut body = rest.get(..body_len as usize).ok_or(No::NeedMore)?;
        let consumed = input.len() - rest.len() + body.len();

        let n = field(&mut body)?;
        if n > block_limit || (flags & 0x80 != 0 && n > 65536) {
            return Err(Invalid("block length"));
        }
        let width = (flags & 0x80 != 0).then(|| self.parameters.width());
        if let Some(width) = width
            && fixed(&mut body, 1)? != u64::from(width)
        {
            return Err(Invalid("position width"));
        }
        let (o, p) = if flags & 0x10 != 0 {
            let (o, p) = if width.is_some() {
                (fixed(&mut body, 8)?, fixed(&mut body, 2)?)
            } else {
                (field(&mut body)?, field(&mut body)?)
            };
            if o >= 1 << 62 || o < p {
                return Err(Invalid("offset"));
            }
            (o, p)
        } else {
            let o = self.parameters.place(self.low, n);
            (o, o - self.low)
        };
        let id = match (flags & 0x40 != 0, width) {
            (true, Some(_)) => fixed(&mut body, 1)?,
            (true, None) => field(&mut body)?,
            _ => 0,
        };
        if flags & 0x40 != 0 && id == 0 && width.is_none() {
            return Err(Invalid("context 0"));
        }
        let id = id as usize;
        if descriptor_coding == 2 {
            let (start, end) = (position(&mut body, width)?, position(&mut body, width)?);
            if end > start {
                return Err(Invalid("hull"));
            }
        }
        let (descriptors_len, in_columns) = match descriptor_coding {
            0 => (0, false),
            1 => (field(&mut body)?, false),
            _ => {
                let twice = field(&mut body)?;
                (twice / 2, twice % 2 == 1)
            }
        };
        let (sections, checksum) = body.split_last_chunk::<8>().ok_or(Invalid("no checksum"))?;
        let (descriptors, literals) = sections
            .split_at_checked(descriptors_len as usize)
            .ok_or(Invalid("descriptor length"))?;

        if !self.acceptable(o, p, n) {
            return Err(No::Place);
        }
        if id >= self.contexts.len() {
            return Err(NO_CONTEXT);
        }
        let result = (|| {
            // Decoded with a copy of the models, so nothing needs to be undone.
            let mut models = self.contexts[id].models.clone();
            if uses_context {
                if flags & 0x20 != 0 {
                    models = Models::new();
                } else if !self.contexts[id].in_step {
                    return Err(NO_CONTEXT);
                }
            }
            let mut codes = NewCodes::of(n);
            let matches = match descriptor_coding {
                0 => Vec::new(),
                1 => plain_descriptors(descriptors, o, n, width)?,
                _ if in_columns => models.read_columns(descriptors, o, n, width, &mut codes)?,
                _ => models.read(descriptors, o, n, width, &mut self.trace)?,
            };
            let mut transcoded = None;
            let mut all = matches.clone();
            if literal_coding == 3 {
                let fields = fields::fields(literals, o, n, width)?;
                all.extend(&fields.sources);
                transcoded = Some(fields);
            }
            self.check_sources(&all, o, n)?;

            if uses_context {
                let context = &mut self.contexts[id];
                context.models = models;
                context.in_step = true;
                if flags & 0x20 != 0 {
                    context.coded = CodedLiterals::new();
                    context.transcode = TranscodeModels::new();
                }
            }
            let expected = (n - matches.iter().map(|m| m.len).sum::<u64>()) as usize;
            let literals = match literal_coding {
                0 if literals.len() == expected => literals.to_vec(),
                0 => return Err(Invalid("number of literals")),
                1 => {
                    let mut out = vec![0; expected];
                    let len = lz4_flex::block::decompress_into(literals, &mut out)
                        .map_err(|_| Invalid("LZ4"))?;
                    if len != expected {
                        return Err(Invalid("number of literals"));
                    }
                    out
                }
                2 => self.contexts[id].coded.read(literals, expected as u64, &mut codes)?,
                _ => {
                    let fields = transcoded.ok_or(Invalid("no fields"))?;
                    let source = |m: &Match| -> Vec<u8> {
                        (m.source..m.source + m.len).map(|at| self.byte(at).unwrap()).collect()
                    };
                    let sources: Vec<Vec<u8>> = fields.sources.iter().map(source).collect();
                    let Context { coded, transcode, .. } = &mut self.contexts[id];
                    let residual = if fields.is_coded {
                        coded.read(fields.residual, fields.residual_len as u64, &mut codes)?
                    } else if fields.residual.len() == fields.residual_len {
                        fields.residual.to_vec()
                    } else {
                        return Err(Invalid("residual length"));
                    };
                    let work = Work { done: 0, limit: 1024 + 16 * n };
                    if fields.is_blocks {
                        sequences::read(&residual, fields.operations, &sources, expected, work)?
                    } else {
                        let trace = &mut self.trace;
                        transcode.read(&fields, &sources, &residual, expected, work, trace)?
                    }
                }
            };
            let content = self.assemble(&matches, &literals, o, n);
            if self.parameters.checksum(o, p, &content).to_le_bytes() != *checksum {
                return Err(Invalid("checksum"));
            }
            let kept = self.parameters.policy.kept(&content, &matches);
            (self.matches, self.in_columns) = (matches, in_columns);
            Ok((content, kept))
        })();
        match result {
            Ok((content, kept)) => {
                self.write(o, p, &kept);
                Ok(Block { offset: o, content, consumed, checksum: u64::from_le_bytes(*checksum) })
            }
            Err(no) => {
                if uses_context && matches!(no, Invalid(_)) {
                    self.contexts[id].in_step = false;
                }
                Err(no)
            }
        }
    }

    /// Section 3, "What may be referred to".
    fn check_sources(&self, matches: &[Match], o: u64, n: u64) -> Result<(), No> {
        let Parameters { cache, .. } = self.parameters;
        let mut missing: Vec<Range<u64>> = Vec::new();
        let mut absent = Vec::new();
        for m in matches.iter().filter(|m| m.source < o) {
            let end = m.source + m.len;
            let allowed = m.source >= self.parameters.floor(o, n)
                && end <= o
                && m.source / cache == (end - 1) / cache;
            if !allowed || (m.source..end).any(|at| matches!(self.cell(at), Some((_, None)))) {
                return Err(Invalid("a source that is not allowed"));
            }
            absent.extend((m.source..end).filter(|&at| self.cell(at).is_none()));
        }
        absent.sort_unstable();
        absent.dedup();
        for at in absent {
            match missing.last_mut() {
                Some(last) if last.end == at => last.end += 1,
                _ => missing.push(at..at + 1),
            }
        }
        if missing.is_empty() { Ok(()) } else { Err(No::Missing(missing)) }
    }

    fn assemble(&self, matches: &[Match], mut literals: &[u8], o: u64, n: u64) -> Vec<u8> {
        let mut block = Vec::new();
        let mut take = |block: &mut Vec<u8>, until: u64| {
            let (now, rest) = literals.split_at(until as usize - block.len());
            block.extend_from_slice(now);
            literals = rest;
        };
        for m in matches {
            take(&mut block, m.at);
            for at in m.source..m.source + m.len {
                block.push(if at < o { self.byte(at).unwrap() } else { block[(at - o) as usize] });
            }
        }
        take(&mut block, n);
        block
    }
}

/// Section 12: the content of a pack.
pub fn unpack(pack: &[u8], base: Option<&[u8]>) -> Result<Vec<u8>, No> {
    let number = |at: usize, len: usize| {
        let bytes = pack.get(at..at + len).ok_or(Invalid("a pack cut short"))?;
        Ok::<u64, No>(bytes.iter().rev().fold(0, |value, &byte| value << 8 | u64::from(byte)))
    };
    if !pack.starts_with(&[0x8f, 0x4f, 0x4e, 0x43, 0x45, 0x0d, 0x0a, 0x1a]) {
        return Err(Invalid("magic"));
    }
    if number(8, 1)? != 1 {
        return Err(Invalid("version"));
    }
    let flags = number(9, 1)?;
    if flags > 1 || (flags == 1) != base.is_some() {
        return Err(Invalid("flags"));
    }
    let (cache, block_limit, session) = (number(10, 8)?, number(18, 4)?, number(22, 8)?);
    let header_len = if flags == 1 { 78 } else { 38 };
    if number(header_len - 8, 8)? != xxh3_64(&pack[..header_len - 8]) {
        return Err(Invalid("header checksum"));
    }
    if !(1..=262144).contains(&block_limit) || !(block_limit..=1 << 40).contains(&cache) {
        return Err(Invalid("cache or block limit"));
    }
    let parameters = Parameters {
        cache,
        span: 0,
        block_limit,
        policy: Policy::All,
        contexts: 4,
        session,
        epoch: 0,
    };
    let mut decoder = Decoder::new(parameters);
    if let Some(base) = base {
        if number(30, 8)? != base.len() as u64 {
            return Err(Invalid("base"));
        }
        decoder.prime(&base[base.len().saturating_sub(cache as usize)..]);
    }
    let (mut at, mut content, mut chain) = (header_len, Vec::new(), 0u64);
    while number(at, 1)? != 0xff {
        if number(at, 1)? & 0x90 != 0 {
            return Err(Invalid("a stated offset, or a fixed width"));
        }
        let block = decoder.decode(&pack[at..])?;
        at += block.consumed;
        content.extend_from_slice(&block.content);
        chain = xxh3_64(&[chain, block.checksum].map(u64::to_le_bytes).concat());
    }
    if number(at + 1, 8)? != content.len() as u64
        || number(at + 9, 8)? != chain
        || pack.len() != at + 17
    {
        return Err(Invalid("trailer"));
    }
    Ok(content)
}
