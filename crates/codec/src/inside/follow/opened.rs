//! Results of the opener for a block: tokens, and their codes.

use crate::deflate::{BitReader, BitWriter, Code, SLACK, Stop, Token, copy_bits};
use crate::inside::budget;
use crate::inside::follow::container::MAX_HEADER;
use crate::inside::follow::frames;
use crate::inside::wire::section::MAX_CODES;
use std::sync::Arc;

/// Most tokens of a block that are kept, per byte of it. Digits have 1.2.
const MAX_TOKENS_PER_BYTE: usize = 2;

/// Where the code of a part is described.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::inside) enum Spot {
    /// The fixed code has no description.
    Fixed,
    /// From this bit of the log to the second.
    Log(u64, u64),
    /// In several pieces, which nothing can refer to.
    Scattered,
}

/// Consecutive tokens of one code in a block.
#[derive(Clone, Debug)]
pub(in crate::inside) struct Part {
    pub(in crate::inside) code: Arc<Code>,
    pub(in crate::inside) spot: Spot,
    /// Its tokens: `first..end` of [`Opened::tokens`].
    pub(in crate::inside) first: usize,
    pub(in crate::inside) end: usize,
    /// Bit of the block after the last token.
    pub(in crate::inside) end_bit: u32,
}

/// A position among the tokens of a block.
#[derive(Debug)]
pub(in crate::inside) struct Among {
    pub(in crate::inside) code: Arc<Code>,
    pub(in crate::inside) spot: Spot,
    pub(in crate::inside) is_last: bool,
    /// Bit of the log at which a token begins.
    pub(in crate::inside) bit: u64,
}

/// The deflate content of a block. Kept between blocks for its memory.
#[derive(Debug, Default)]
pub(in crate::inside) struct Opened {
    pub(in crate::inside) tokens: Vec<Token>,
    /// First bit of each token in the block.
    pub(in crate::inside) bits: Vec<u32>,
    pub(in crate::inside) parts: Vec<Part>,
    /// Codes that the parts keep, at most.
    held: usize,
    /// Blocks of zstd frames that ended.
    pub(in crate::inside) zstd: Vec<frames::Block>,
    pub(in crate::inside) joined: Vec<u8>,
    pub(in crate::inside) max_tokens: usize,
    /// Work that opening took: see [`crate::inside::budget`].
    pub(in crate::inside) work: u64,
    pub(in crate::inside) codes: Codes,
}

/// Bytes of the description of a code, at most: 5 + 5 + 4 bits, 19 of 3, 316 of 14.
const MAX_DESCRIPTION: usize = 564;
/// Codes whose descriptions are known.
const KNOWN_CODES: usize = 8;

/// The last codes that were described. An equal description is not read again.
#[derive(Debug, Default)]
pub(in crate::inside) struct Codes(Vec<Described>);

#[derive(Debug)]
struct Described {
    bits: Vec<u8>,
    count: u64,
    code: Arc<Code>,
}

impl Codes {
    /// Memory in bytes, at most.
    pub(in crate::inside) const MEMORY: usize =
        KNOWN_CODES * (2 * size_of::<Described>() + 2 * MAX_DESCRIPTION + Code::MEMORY);

    fn memory(&self) -> usize {
        self.0.capacity() * size_of::<Described>()
            + self.0.iter().map(|known| known.bits.capacity() + Code::MEMORY).sum::<usize>()
    }

    /// Reads the description of a code, and adds the work that it takes.
    ///
    /// # Errors
    /// As [`Code::read`].
    pub(in crate::inside) fn read(
        &mut self,
        data: &[u8],
        reader: &mut BitReader<'_>,
        work: &mut u64,
    ) -> Result<Arc<Code>, Stop> {
        let start = reader.position();
        // No description is a prefix of another one.
        let is_here = |known: &Described| {
            let mut there = BitReader::new(data, start);
            let mut of = BitReader::new(&known.bits, 0);
            let mut left = known.count;
            while left > 0 {
                let step = left.min(16) as u32;
                if there.bits(step).ok() != of.bits(step).ok() {
                    return false;
                }
                left -= u64::from(step);
            }
            !there.is_past_end()
        };
        if let Some(nth) = self.0.iter().rposition(is_here) {
            let mut left = self.0[nth].count;
            while left > 0 {
                let step = left.min(16) as u32;
                reader.bits(step)?;
                left -= u64::from(step);
            }
            *work += budget::CODE / 16;
            return Ok(Arc::clone(&self.0[nth].code));
        }
        *work += budget::CODE;
        let code = Arc::new(Code::read(reader)?);
        if !reader.is_past_end() {
            let count = reader.position() - start;
            let mut bits = vec![0; count.div_ceil(8) as usize + SLACK];
            let is_copied =
                copy_bits(&mut BitReader::new(data, start), &mut BitWriter::new(&mut bits), count);
            bits.truncate(count.div_ceil(8) as usize);
            if is_copied && bits.len() <= MAX_DESCRIPTION {
                bits.shrink_to_fit();
                if self.0.len() == KNOWN_CODES {
                    self.0.remove(0);
                }
                self.0.push(Described { bits, count, code: Arc::clone(&code) });
            }
        }
        Ok(code)
    }
}

impl Opened {
    /// Whether a part with this code may be kept.
    pub(in crate::inside) fn may_keep(&self, code: &Arc<Code>, spot: Spot) -> bool {
        let fits = self.held < MAX_CODES || self.holds(code, spot);
        fits && self.parts.len() < MAX_PARTS
    }

    /// Whether a code takes no memory of its own: it is the fixed one, or that of the last part.
    fn holds(&self, code: &Arc<Code>, spot: Spot) -> bool {
        let last = self.parts.last();
        spot == Spot::Fixed || last.is_some_and(|part| Arc::ptr_eq(&part.code, code))
    }

    pub(in crate::inside) fn keep(&mut self, part: Part) {
        self.held += usize::from(!self.holds(&part.code, part.spot));
        self.parts.push(part);
    }

    pub(in crate::inside) fn clear(&mut self, block_len: usize) {
        self.work = 0;
        self.max_tokens = MAX_TOKENS_PER_BYTE * block_len;
        self.tokens.clear();
        self.bits.clear();
        self.parts.clear();
        self.held = 0;
        self.zstd.clear();
    }

    /// Memory in bytes as of now.
    pub(in crate::inside) fn memory(&self) -> usize {
        self.tokens.capacity() * size_of::<Token>()
            + self.bits.capacity() * size_of::<u32>()
            + self.parts.capacity() * size_of::<Part>()
            + self.held * Code::MEMORY
            + self.joined.capacity()
            + self.codes.memory()
            + self.zstd.iter().map(frames::Block::memory).sum::<usize>()
    }

    /// Upper bound of the memory in bytes for blocks of `max_block` bytes.
    pub(in crate::inside) fn most_memory(max_block: usize) -> usize {
        // Buffers grow by doubling.
        let tokens = max_block * MAX_TOKENS_PER_BYTE + BATCH + 1;
        let tokens = 2 * tokens * (size_of::<Token>() + size_of::<u32>());
        tokens
            + frames::Block::MOST_MEMORY
            + Codes::MEMORY
            + 2 * (max_block + MAX_HEADER)
            + 2 * MAX_PARTS * size_of::<Part>()
            + MAX_CODES * Code::MEMORY
    }
}

pub(in crate::inside) fn fixed() -> &'static Arc<Code> {
    static FIXED: std::sync::OnceLock<Arc<Code>> = std::sync::OnceLock::new();
    FIXED.get_or_init(|| Arc::new(Code::fixed().clone()))
}

/// Most parts of a block that are kept: containers may divide a stream often. They have no more codes
/// than a frame may name.
const MAX_PARTS: usize = 1 << 10;
/// Tokens read in one step.
pub(in crate::inside) const BATCH: usize = 1 << 10;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::inside::follow::follower::Follower;
    use flate2::{Compress, Compression, FlushCompress};

    #[test]
    fn codes_with_the_same_description_are_built_once() {
        let content: Vec<u8> =
            (0..4000u32).map(|nth| b"etaoins"[(nth * nth % 97 % 7) as usize]).collect();
        let mut compress = Compress::new(Compression::new(6), false);
        let mut stream = b"\x1f\x8b\x08\0\0\0\0\0\0\x03".to_vec();
        stream.reserve(100_000);
        // Nothing refers back across a full flush: equal content is compressed the same way.
        for flush in [FlushCompress::Full, FlushCompress::Full, FlushCompress::Finish] {
            compress.compress_vec(&content, &mut stream, flush).unwrap();
        }
        let mut opened = Opened::default();
        Follower::default().open(&stream, 0, &mut opened);
        let described: Vec<&Part> =
            opened.parts.iter().filter(|part| part.spot != Spot::Fixed).collect();
        assert!(described.len() >= 2, "{} parts", described.len());
        assert!(described.windows(2).all(|pair| pair[0].spot != pair[1].spot));
        assert!(Arc::ptr_eq(&described[0].code, &described[1].code));
    }
}
