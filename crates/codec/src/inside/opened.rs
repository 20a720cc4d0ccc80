//! What the opener found in a block: tokens, and the codes they are written with.

use super::container::MAX_HEADER;
use super::frames;
use super::section::MAX_CODES;
use crate::deflate::{Code, Token};
use std::sync::Arc;

/// Tokens of a block that are kept, per byte of it. Those of digits have 1.2.
const MAX_TOKENS_PER_BYTE: usize = 2;

/// Where the code of a part is described.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Spot {
    /// Nowhere: it is the fixed one.
    Fixed,
    /// From this bit of the log up to another.
    Log(u64, u64),
    /// In pieces, which nothing can refer to.
    Scattered,
}

/// Tokens of one code that follow each other in a block.
#[derive(Clone, Debug)]
pub(super) struct Part {
    pub(super) code: Arc<Code>,
    pub(super) spot: Spot,
    /// Its tokens: `first..end` of [`Opened::tokens`].
    pub(super) first: usize,
    pub(super) end: usize,
    /// Bit of the block behind the last token.
    pub(super) end_bit: u32,
}

/// What of a block is deflate. Kept between blocks for its memory.
#[derive(Debug, Default)]
pub(super) struct Opened {
    pub(super) tokens: Vec<Token>,
    /// The bit of the block that each token begins at.
    pub(super) bits: Vec<u32>,
    pub(super) parts: Vec<Part>,
    /// Blocks of zstd frames that ended.
    pub(super) zstd: Vec<frames::Block>,
    pub(super) joined: Vec<u8>,
    pub(super) max_tokens: usize,
}

impl Opened {
    pub(super) fn clear(&mut self, block_len: usize) {
        self.max_tokens = MAX_TOKENS_PER_BYTE * block_len;
        self.tokens.clear();
        self.bits.clear();
        self.parts.clear();
        self.zstd.clear();
    }

    /// Memory in bytes as of now.
    pub(super) fn memory(&self) -> usize {
        self.tokens.capacity() * size_of::<Token>()
            + self.bits.capacity() * size_of::<u32>()
            + self.parts.capacity() * size_of::<Part>()
            + self.parts.len() * Code::MEMORY
            + self.joined.capacity()
            + self.zstd.iter().map(frames::Block::memory).sum::<usize>()
    }

    /// Upper bound of the memory in bytes for blocks of `max_block` bytes.
    pub(super) fn most_memory(max_block: usize) -> usize {
        // Buffers grow by doubling.
        let tokens = max_block * MAX_TOKENS_PER_BYTE + BATCH + 1;
        let tokens = 2 * tokens * (size_of::<Token>() + size_of::<u32>());
        tokens
            + frames::Block::MOST_MEMORY
            + 2 * (max_block + MAX_HEADER)
            + MAX_PARTS * (2 * size_of::<Part>() + Code::MEMORY)
    }
}

/// Parts of a block that are kept: no more than the codes that a frame may name, since each keeps
/// one.
pub(super) const MAX_PARTS: usize = MAX_CODES;
/// Tokens read at once.
pub(super) const BATCH: usize = 1 << 10;

#[cfg(test)]
mod tests {
    use super::super::opener::Opener;
    use super::*;
    use flate2::{Compress, Compression, FlushCompress};

    #[test]
    fn codes_with_the_same_description_are_built_once() {
        let content: Vec<u8> =
            (0..4000u32).map(|nth| b"etaoins"[(nth * nth % 97 % 7) as usize]).collect();
        let mut compress = Compress::new(Compression::new(6), false);
        let mut stream = b"\x1f\x8b\x08\0\0\0\0\0\0\x03".to_vec();
        stream.reserve(100_000);
        // Nothing refers to what lies before a full flush: equal content is compressed alike.
        for flush in [FlushCompress::Full, FlushCompress::Full, FlushCompress::Finish] {
            compress.compress_vec(&content, &mut stream, flush).unwrap();
        }
        let mut opened = Opened::default();
        Opener::default().open(&stream, 0, &mut opened);
        let described: Vec<&Part> =
            opened.parts.iter().filter(|part| part.spot != Spot::Fixed).collect();
        assert!(described.len() >= 2, "{} parts", described.len());
        assert!(described.windows(2).all(|pair| pair[0].spot != pair[1].spot));
        assert!(Arc::ptr_eq(&described[0].code, &described[1].code));
    }
}
