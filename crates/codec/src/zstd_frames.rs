//! Content as one zstd frame (RFC 8878), which any zstd decodes: matches of a [`Finder`] across the
//! whole log, short matches between them, and libzstd's coder.
//!
//! A frame is [`header`], what [`ZstdWriter`] appends, and [`end`]. There can be several writers:
//! each writes runs of [`RUN`] bytes, and a run depends on the content before it only through the
//! finder's matches. So runs can be written side by side, and the bytes do not depend on how many
//! writers there are.
//!
//! What frames of zstd cannot express is left out: bases, domains, frames out of order, and repeats
//! inside compressed content.
//!
//! [`Finder`]: crate::Finder

use crate::encoder::Tokens;
use crate::entropy::{Entropy, search_effort};
use crate::pack::RUN;
use oncewire_kernels::{
    Kernels, SHORT_LEAST, SHORT_SLACK, Sequence, SequenceSearch, ZSTD_BLOCK_MAX, ZSTD_DISTANCE_MAX,
    ZstdBlocks, ZstdFailure,
};
use std::hash::Hasher;
use twox_hash::XxHash64;

/// First bytes of a zstd frame.
pub const MAGIC: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];
/// Largest block in bytes.
pub const MAX_BLOCK: usize = ZSTD_BLOCK_MAX;
/// Window in bytes unless told otherwise: the largest that the program `zstd` and libzstd's streaming
/// decoder accept without an option.
pub const DEFAULT_WINDOW: u64 = 128 << 20;
/// Largest window in bytes that is written: 2 GiB, which `zstd -d --long=31` accepts.
pub const MAX_WINDOW: u64 = ZSTD_DISTANCE_MAX as u64 + 1;

/// Content size as a field of 4 or 8 bytes (RFC 8878, section 3.1.1.1.1).
const SIZE_4: u8 = 2 << 6;
const SIZE_8: u8 = 3 << 6;
/// The window is the content, and is not stated by itself.
const SINGLE_SEGMENT: u8 = 1 << 5;
/// A checksum of the content follows the last block.
const HAS_CHECKSUM: u8 = 1 << 2;
/// An empty raw block, the last one.
const LAST_BLOCK: [u8; 3] = [1, 0, 0];

/// The smallest window that a header can state which has at least `least` bytes: a power of two and
/// a multiple of its eighth. At least that of whole blocks.
pub fn window(least: u64) -> u64 {
    let (exponent, eighths) = window_fields(least);
    (1 << exponent) + (u64::from(eighths) << (exponent - 3))
}

fn window_fields(least: u64) -> (u32, u8) {
    let least = least.clamp(ZSTD_BLOCK_MAX as u64, MAX_WINDOW);
    let exponent = least.ilog2();
    let eighths = (least - (1 << exponent)).div_ceil(1 << (exponent - 3)) as u8;
    if eighths == 8 { (exponent + 1, 0) } else { (exponent, eighths) }
}

/// The header of a frame whose matches lie at most `window` bytes back, at most [`MAX_WINDOW`], and
/// of `len` bytes of content, if that is known.
pub fn header(window: u64, len: Option<u64>) -> Vec<u8> {
    let (exponent, eighths) = window_fields(window);
    let mut out = MAGIC.to_vec();
    let narrow = len.and_then(|len| u32::try_from(len).ok());
    let size = match (len, narrow) {
        (None, _) => 0,
        (_, Some(_)) => SIZE_4,
        _ => SIZE_8,
    };
    out.push(size | HAS_CHECKSUM);
    out.push(((exponent - 10) as u8) << 3 | eighths);
    match (len, narrow) {
        (_, Some(len)) => out.extend_from_slice(&len.to_le_bytes()),
        (Some(len), _) => out.extend_from_slice(&len.to_le_bytes()),
        _ => {}
    }
    out
}

/// Bytes that are enough for [`stated_window`].
pub const HEADER_MAX: usize = 18;

/// The window in bytes that a frame at the beginning of `bytes` needs (RFC 8878, section 3.1.1.1).
/// `None` if there is none, or its header is incomplete.
pub fn stated_window(bytes: &[u8]) -> Option<u64> {
    let (&descriptor, rest) = bytes.strip_prefix(&MAGIC)?.split_first()?;
    if descriptor & SINGLE_SEGMENT == 0 {
        let &window = rest.first()?;
        let base = 1u64 << (10 + (window >> 3));
        return Some(base + base / 8 * u64::from(window & 7));
    }
    // The whole content is the window.
    let rest = rest.get([0, 1, 2, 4][usize::from(descriptor & 3)]..)?;
    let field = |len: usize| {
        let mut number = [0; 8];
        number[..len].copy_from_slice(rest.get(..len)?);
        Some(u64::from_le_bytes(number))
    };
    match descriptor >> 6 {
        0 => field(1),
        1 => Some(field(2)? + 256),
        2 => field(4),
        _ => field(8),
    }
}

/// The checksum of a frame's content: XXH64, of which the frame has the lower half.
#[derive(Clone, Default)]
pub struct ContentChecksum(XxHash64);

impl ContentChecksum {
    /// Adds the next bytes of the content.
    pub fn update(&mut self, content: &[u8]) {
        self.0.write(content);
    }
}

/// The end of a frame: an empty block and the checksum.
pub fn end(checksum: &ContentChecksum) -> [u8; 7] {
    let mut out = [0; 7];
    out[..3].copy_from_slice(&LAST_BLOCK);
    out[3..].copy_from_slice(&(checksum.0.finish() as u32).to_le_bytes());
    out
}

/// Writes blocks of a frame.
#[derive(Debug)]
pub struct ZstdWriter {
    kernels: Kernels,
    search: SequenceSearch,
    blocks: ZstdBlocks,
    /// Number of the run that is written.
    run: Option<u64>,
    /// Content of the run, with slack.
    content: Vec<u8>,
    len: usize,
    /// Of a block: those that were found, and all.
    found: Vec<Sequence>,
    sequences: Vec<Sequence>,
}

impl ZstdWriter {
    /// A writer that seeks short matches as the entropy stage of that name does. `None` for the
    /// stages without any.
    ///
    /// # Errors
    /// If there is not enough memory.
    pub fn new(entropy: Entropy) -> Option<Result<ZstdWriter, ZstdFailure>> {
        let Entropy::Coded { level } = entropy else { return None };
        let (bits, effort) = search_effort(level);
        // Its matches reach sixteen times as far as those among literals, so more entries pay.
        let bits = if level == 1 { bits } else { bits + 1 };
        let writer = |blocks| ZstdWriter {
            kernels: Kernels::detect(),
            search: SequenceSearch::new(bits, effort),
            blocks,
            run: None,
            content: Vec::new(),
            len: 0,
            found: Vec::new(),
            sequences: Vec::new(),
        };
        Some(ZstdBlocks::new().map(writer))
    }

    /// Appends the next blocks, with `position` bytes of content before them, to `out`. Blocks of
    /// one run must be written by one writer, in order: [`context_of`](crate::pack::context_of) says
    /// by which. Offsets in the finder's log must be positions in the content, as they are if no
    /// block crosses a multiple of the log's size, and the log must not exceed the frame's window.
    ///
    /// # Errors
    /// [`ZstdFailure`] if libzstd fails.
    ///
    /// # Panics
    /// If `content` is shorter than the tokens' blocks.
    pub fn write(
        &mut self,
        mut tokens: &[Tokens],
        mut content: &[u8],
        position: u64,
        out: &mut Vec<u8>,
    ) -> Result<(), ZstdFailure> {
        let run = Some(position / RUN);
        if self.run != run {
            self.run = run;
            self.search.reset();
            self.blocks.reset();
            self.len = 0;
        }
        while !tokens.is_empty() {
            let mut len = 0;
            let fits = |tokens: &&Tokens| {
                len += tokens.block_len;
                len <= ZSTD_BLOCK_MAX
            };
            let count = tokens.iter().take_while(fits).count().max(1);
            let (group, next) = tokens.split_at(count);
            let len = group.iter().map(|tokens| tokens.block_len).sum();
            let (block, rest) = content.split_at(len);
            self.write_block(group, block, out)?;
            (tokens, content) = (next, rest);
        }
        Ok(())
    }

    /// Appends one block of zstd for the blocks of `group`, which are `content`.
    fn write_block(
        &mut self,
        group: &[Tokens],
        content: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<(), ZstdFailure> {
        note_found(group, &mut self.found);
        let from = self.len;
        self.len += content.len();
        self.content.truncate(from);
        self.content.extend_from_slice(content);
        self.content.resize(self.len + SHORT_SLACK, 0);
        let sequences = if group.iter().any(|tokens| tokens.dense) {
            self.sequences.clear();
            self.search.search(
                self.kernels,
                &self.content,
                from,
                self.len,
                &self.found,
                &mut self.sequences,
            );
            &self.sequences
        } else {
            // It has no short matches, and the finder knows where it repeats as a whole.
            &self.found
        };
        self.blocks.write(content, sequences, out)
    }
}

/// The matches of a group of blocks. What ends a block and continues in the next one is one match.
fn note_found(group: &[Tokens], found: &mut Vec<Sequence>) {
    found.clear();
    let (mut start, mut done) = (0, 0);
    for tokens in group {
        for next in &tokens.matches {
            let (at, len) = (start + next.at as usize, next.len as usize);
            let distance = (tokens.offset + u64::from(next.at) - next.source) as u32;
            match found.last_mut() {
                Some(last) if at == done && last.distance == distance => last.len += next.len,
                // The end of a match that began in the block before.
                _ if len < SHORT_LEAST => continue,
                _ => found.push(Sequence { literals: (at - done) as u32, len: next.len, distance }),
            }
            done = at + len;
        }
        start += tokens.block_len;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::content;
    use crate::{Encoder, pack};
    use proptest::prelude::*;

    /// A frame, written by `CONTEXTS` writers.
    fn frame(content: &[u8], cache: u64, max_block: usize, level: i32) -> Vec<u8> {
        let entropy = Entropy::Coded { level };
        let builder = Encoder::builder().cache(cache).max_block(max_block).entropy(entropy);
        let mut finder = builder.build_halves().unwrap().0;
        let mut writers: Vec<_> =
            (0..pack::CONTEXTS).map(|_| ZstdWriter::new(entropy).unwrap().unwrap()).collect();
        let mut checksum = ContentChecksum::default();
        checksum.update(content);
        let mut out = header(cache, None);
        let (mut tokens, mut at) = (vec![Tokens::default(); 3], 0);
        while at < content.len() {
            let (start, mut count) = (at, 0);
            for tokens in &mut tokens {
                let room = cache as usize - at % cache as usize;
                let len = max_block.min(room).min(content.len() - at);
                finder.find(&content[at..at + len], tokens).unwrap();
                (at, count) = (at + len, count + usize::from(len > 0));
            }
            let writer = &mut writers[pack::context_of(start as u64)];
            writer.write(&tokens[..count], &content[start..at], start as u64, &mut out).unwrap();
        }
        out.extend_from_slice(&end(&checksum));
        // A block of our own, however short, has a header of 3 bytes.
        let blocks = content.len().div_ceil(max_block) + content.len() / cache as usize;
        assert!(out.len() <= zstd_safe::compress_bound(content.len()) + 20 + 3 * blocks);
        out
    }

    fn decoded(frame: &[u8], len: usize) -> Vec<u8> {
        let mut out = vec![0; len + 1];
        let len = zstd_safe::decompress(&mut out[..], frame)
            .unwrap_or_else(|code| panic!("{}", zstd_safe::get_error_name(code)));
        out.truncate(len);
        out
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn everything_comes_back(
            content in content(), level in 1i32..=3,
            cache in prop_oneof![Just(1u64 << 20), 70_000u64..300_000],
            max_block in prop_oneof![Just(65536usize), Just(MAX_BLOCK), 1usize..20_000],
        ) {
            let frame = frame(&content, cache, max_block.min(cache as usize), level);
            prop_assert!(decoded(&frame, content.len()) == content);
        }
    }

    /// Runs of four writers, one after the other.
    #[test]
    fn runs_follow_each_other() {
        let mut random = fastrand::Rng::with_seed(1);
        let page: Vec<u8> = (0..50_000).map(|_| random.u8(b'a'..b'q')).collect();
        let mut content = Vec::new();
        for round in 0..5u8 {
            // Each run begins with what a new context has a short code for.
            content.resize(content.len().next_multiple_of(RUN as usize), round);
            while (content.len() as u64) < (u64::from(round) + 1) * RUN - 60_000 {
                content.extend_from_slice(&page[random.usize(..40_000)..]);
                content.extend((0..200).map(|_| random.u8(..)));
                content.extend((0..200).map(|at| (at & 3) ^ round));
            }
        }
        for level in [1, 3] {
            let frame = frame(&content, 8 << 20, 65536, level);
            assert!(frame.len() < content.len() / 20, "{} of {}", frame.len(), content.len());
            assert!(decoded(&frame, content.len()) == content, "{level}");
        }
    }

    #[test]
    fn a_changed_byte_is_noticed() {
        let content =
            b"every byte crosses the wire once; every byte crosses the wire once".repeat(9);
        let good = frame(&content, 1 << 20, 65536, 3);
        for at in 0..good.len() {
            let mut bad = good.clone();
            bad[at] ^= 1;
            let mut out = vec![0; content.len() + 9];
            match zstd_safe::decompress(&mut out[..], &bad) {
                Ok(len) => assert!(out[..len] == content, "{at}"),
                Err(_) => continue,
            }
        }
    }

    #[test]
    fn windows_are_rounded_up_to_what_a_header_can_state() {
        for (least, stated) in [
            (0, 128 << 10),
            (128 << 10, 128 << 10),
            ((128 << 10) + 1, 144 << 10),
            (8 << 20, 8 << 20),
            (100_000_000, 100_663_296),
            ((256 << 20) - 1, 256 << 20),
            (MAX_WINDOW, MAX_WINDOW),
        ] {
            assert_eq!(window(least), stated, "{least}");
        }
    }

    #[test]
    fn headers_have_a_window_and_a_size() {
        assert_eq!(header(128 << 20, None), [0x28, 0xb5, 0x2f, 0xfd, 4, 17 << 3]);
        let with_size = header(9 << 20, Some(5));
        assert_eq!(with_size, [0x28, 0xb5, 0x2f, 0xfd, 0x84, 13 << 3 | 1, 5, 0, 0, 0]);
        assert_eq!(header(1, Some(1 << 40))[4..], [0xc4, 7 << 3, 0, 0, 0, 0, 0, 1, 0, 0]);
        for window in [128 << 10, 9 << 20, MAX_WINDOW] {
            assert_eq!(stated_window(&header(window, None)), Some(window));
        }
        let short = zstd_safe::compress_bound(300);
        let mut whole = vec![0; short];
        zstd_safe::compress(&mut whole[..], &[7; 300], 1).unwrap();
        assert_eq!(stated_window(&whole), Some(300));
        for len in 0..6 {
            assert_eq!(stated_window(&whole[..len]), None);
        }
        assert_eq!(stated_window(b"a pack, or something else"), None);
    }
}
