//! The pack container: frames in a file or a pipe. `docs/FORMAT.md`, section "Pack".
//!
//! No I/O happens here. [`PackReader::step`] takes bytes and returns what they contain; a writer
//! sends [`Header::to_bytes`], the frames, and [`Summary::trailer`].

mod halves;
mod turns;

pub use halves::{FrameParts, FramesStep, PackBlocks, PackFrames};
pub use turns::{Turn, Turns, Writing};

use crate::decoder::{Decoded, Decoder};
use crate::encoder::{Encoder, Tokens};
use crate::error::{ConfigError, FrameError};
use crate::format::{ChecksumSeed, DESCRIPTORS_MASK, FrameView, Scan};
use crate::limits::MAX_BLOCK;
use crate::log::Geometry;
use crate::params::{DecoderBuilder, EncoderBuilder};
use crate::policy::CachePolicy;
use oncewire_kernels::FilePages;
use twox_hash::XxHash3_64;

/// First bytes of a pack. As in PNG, the top bit, the line ends and the end-of-file character
/// reveal a transfer in text mode.
pub const MAGIC: [u8; 8] = *b"\x8fONCE\r\n\x1a";
/// The version of the container and of its frames that this code reads and writes.
pub const VERSION: u8 = 1;

const BASE_FLAG: u8 = 1;
/// Length of a header without and with a base, in bytes.
const HEADER_LEN: usize = 38;
const BASE_LEN: usize = 40;
/// Marks the trailer where a frame's flags would be.
const TRAILER_MARK: u8 = 0xff;
/// Length of the trailer in bytes.
pub const TRAILER_LEN: usize = 17;
const _: () = assert!(TRAILER_MARK & DESCRIPTORS_MASK == DESCRIPTORS_MASK);

/// Entropy contexts of a pack.
pub const CONTEXTS: usize = 4;
/// Bytes of content whose frames use one context in a row. Shorter runs would let more of them be
/// written side by side, and cost up to 0.3 % of a pack.
pub const RUN: u64 = 4 << 20;

/// The context of a block with `position` bytes of content before it. A reader does not depend on
/// the choice. It depends on the content alone, so that packs do not differ by the number of threads
/// that wrote them.
pub fn context_of(position: u64) -> usize {
    (position / RUN % CONTEXTS as u64) as usize
}

/// Content that both ends already have: all base files, concatenated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Base {
    /// Total length in bytes.
    pub len: u64,
    /// BLAKE3 of the content.
    pub digest: [u8; 32],
}

/// The header of a pack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Size of the content log in bytes.
    pub cache: u64,
    /// Largest block in bytes.
    pub max_block: usize,
    /// Session part of the checksum seed; the epoch is 0.
    pub seed: u64,
    /// The base it needs, if any.
    pub base: Option<Base>,
}

impl Header {
    /// The header's bytes.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(HEADER_LEN + BASE_LEN);
        out.extend_from_slice(&MAGIC);
        out.push(VERSION);
        out.push(if self.base.is_some() { BASE_FLAG } else { 0 });
        out.extend_from_slice(&self.cache.to_le_bytes());
        out.extend_from_slice(&(self.max_block as u32).to_le_bytes());
        out.extend_from_slice(&self.seed.to_le_bytes());
        if let Some(base) = &self.base {
            out.extend_from_slice(&base.len.to_le_bytes());
            out.extend_from_slice(&base.digest);
        }
        out.extend_from_slice(&XxHash3_64::oneshot(&out).to_le_bytes());
        out
    }

    /// Bytes at the front of the base that are skipped because the log cannot hold them: all but
    /// the last `cache`.
    pub fn base_skip(&self) -> u64 {
        self.base.map_or(0, |base| base.len.saturating_sub(self.cache))
    }

    /// `builder` with this pack's parameters and with what a reader assumes: frames in order that
    /// do not state their offset, and a log of all content.
    pub fn configure(&self, builder: EncoderBuilder) -> EncoderBuilder {
        let builder =
            builder.cache(self.cache).max_block(self.max_block).checksum_seed(self.checksum_seed());
        builder.span(0).explicit_offsets(false).policy(CachePolicy::All).contexts(CONTEXTS)
    }

    fn decoder(&self) -> DecoderBuilder {
        Decoder::builder()
            .cache(self.cache)
            .max_block(self.max_block)
            .contexts(CONTEXTS)
            .checksum_seed(self.checksum_seed())
    }

    fn checksum_seed(&self) -> ChecksumSeed {
        ChecksumSeed { session: self.seed, epoch: 0 }
    }

    /// Reads a header. Returns it with its length, or how many bytes are missing.
    fn scan(input: &[u8]) -> Result<Result<(Header, usize), usize>, PackError> {
        let magic_len = input.len().min(MAGIC.len());
        if input[..magic_len] != MAGIC[..magic_len] {
            return Err(PackError::NotAPack);
        }
        let Some(&version) = input.get(MAGIC.len()) else {
            return Ok(Err(MAGIC.len() + 1 - input.len()));
        };
        if version != VERSION {
            return Err(PackError::Version { found: version });
        }
        let Some(&flags) = input.get(MAGIC.len() + 1) else { return Ok(Err(1)) };
        if flags & !BASE_FLAG != 0 {
            return Err(PackError::Header { field: "flags" });
        }
        let has_base = flags & BASE_FLAG != 0;
        let len = if has_base { HEADER_LEN + BASE_LEN } else { HEADER_LEN };
        let Some(header) = input.get(..len) else { return Ok(Err(len - input.len())) };
        let (fields, checksum) = header.split_at(len - 8);
        if checksum != XxHash3_64::oneshot(fields).to_le_bytes() {
            return Err(PackError::Header { field: "checksum" });
        }
        let number =
            |at: usize| u64::from_le_bytes(*fields[at..].first_chunk().expect("inside the header"));
        let max_block =
            u32::from_le_bytes(*fields[18..].first_chunk().expect("inside the header")) as usize;
        let base = has_base.then(|| Base {
            len: number(30),
            digest: *fields[38..].first_chunk().expect("inside the header"),
        });
        let header = Header { cache: number(10), max_block, seed: number(22), base };
        if header.max_block == 0 || header.max_block > MAX_BLOCK {
            return Err(PackError::Header { field: "block limit" });
        }
        if header.cache < header.max_block as u64 || header.cache > Geometry::MAX_CAPACITY {
            return Err(PackError::Header { field: "cache size" });
        }
        Ok(Ok((header, len)))
    }
}

/// Running totals of a pack's content, at either end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    total: u64,
    chain: u64,
}

impl Summary {
    /// Records a block of `len` bytes whose frame carries `checksum`.
    fn add(&mut self, len: usize, checksum: u64) {
        let mut link = [0; 16];
        link[..8].copy_from_slice(&self.chain.to_le_bytes());
        link[8..].copy_from_slice(&checksum.to_le_bytes());
        self.chain = XxHash3_64::oneshot(&link);
        self.total += len as u64;
    }

    /// Records a block that is being written.
    pub fn add_tokens(&mut self, tokens: &Tokens) {
        self.add(tokens.block_len, tokens.checksum);
    }

    /// Bytes of content so far.
    pub fn total(&self) -> u64 {
        self.total
    }

    /// The trailer of the pack.
    pub fn trailer(&self) -> [u8; TRAILER_LEN] {
        let mut trailer = [TRAILER_MARK; TRAILER_LEN];
        trailer[1..9].copy_from_slice(&self.total.to_le_bytes());
        trailer[9..].copy_from_slice(&self.chain.to_le_bytes());
        trailer
    }
}

/// Packs content in memory. To do it in steps, use [`Header`], [`crate::Finder`],
/// [`crate::FrameWriter`] and [`Summary`].
///
/// # Errors
/// [`ConfigError`] for the first invalid parameter.
pub fn pack(
    content: &[u8],
    header: &Header,
    builder: EncoderBuilder,
) -> Result<Vec<u8>, ConfigError> {
    let mut encoder: Encoder = header.configure(builder).build()?;
    let mut out = header.to_bytes();
    let mut summary = Summary::default();
    let mut rest = content;
    while !rest.is_empty() {
        let (block, next) = rest.split_at(encoder.finder.cut(rest, header.max_block));
        rest = next;
        // Blocks are within the limit, and 2^62 bytes are not in memory.
        encoder
            .encode_frame(block, context_of(summary.total))
            .expect("a block within the limit can be encoded")
            .append_to(&mut out);
        summary.add_tokens(&encoder.tokens);
    }
    out.extend_from_slice(&summary.trailer());
    Ok(out)
}

/// The result of a step.
#[derive(Debug, PartialEq, Eq)]
pub enum PackStep<'a> {
    /// At least this many more bytes are needed; nothing was consumed.
    NeedMore(usize),
    /// The header was read. If it names a base, [`PackReader::prime`] comes next.
    Header {
        /// Bytes of the input that it occupied.
        consumed: usize,
    },
    /// The next block of content, verified.
    Block {
        /// Its bytes.
        content: &'a [u8],
        /// Bytes of the input that its frame occupied.
        consumed: usize,
    },
    /// The pack is complete and verified.
    End {
        /// Bytes of the input that the trailer occupied. Nothing should follow it.
        consumed: usize,
    },
}

/// Why a pack cannot be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PackError {
    /// It does not start with [`MAGIC`].
    #[error("not an Oncewire pack")]
    NotAPack,
    /// It is of another version.
    #[error("this pack has format version {found}; this program reads version {VERSION}")]
    Version {
        /// The version found.
        found: u8,
    },
    /// Its header is corrupt.
    #[error("the header is corrupt ({field})")]
    Header {
        /// The invalid field.
        field: &'static str,
    },
    /// It asks for more memory than allowed.
    #[error("the pack needs a cache of {cache} bytes; the limit is {limit}")]
    CacheTooLarge {
        /// What it needs, in bytes.
        cache: u64,
        /// The limit, in bytes.
        limit: u64,
    },
    /// A decoder with its parameters cannot be built.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// A frame is corrupt.
    #[error("corrupt after {at} bytes of content: {source}")]
    Frame {
        /// Content before it, in bytes.
        at: u64,
        /// The frame's error.
        source: FrameError,
    },
    /// The trailer disagrees with what was read.
    #[error("corrupt: the trailer does not match the {total} bytes of content before it")]
    Trailer {
        /// Content read, in bytes.
        total: u64,
    },
}

/// Reads a pack step by step.
///
/// ```
/// use oncewire_codec::{Encoder, pack::{Header, PackReader, PackStep, pack}};
///
/// let header = Header { cache: 1 << 20, max_block: 65536, seed: 0, base: None };
/// let packed = pack(b"every byte crosses the wire once", &header, Encoder::builder())?;
///
/// let (mut reader, mut rest, mut content) = (PackReader::new(1 << 30), &packed[..], Vec::new());
/// loop {
///     let consumed = match reader.step(rest)? {
///         PackStep::NeedMore(_) => unreachable!("the pack is complete"),
///         PackStep::Header { consumed } => consumed,
///         PackStep::Block { content: block, consumed } => {
///             content.extend_from_slice(block);
///             consumed
///         }
///         PackStep::End { .. } => break,
///     };
///     rest = &rest[consumed..];
/// }
/// assert_eq!(content, b"every byte crosses the wire once");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct PackReader {
    max_cache: u64,
    open: Option<(Header, Decoder)>,
    summary: Summary,
}

impl PackReader {
    /// A reader that refuses packs with a cache of more than `max_cache` bytes.
    pub fn new(max_cache: u64) -> PackReader {
        PackReader { max_cache, open: None, summary: Summary::default() }
    }

    /// The header, once it has been read.
    pub fn header(&self) -> Option<&Header> {
        self.open.as_ref().map(|(header, _)| header)
    }

    /// Gives the reader the next part of the base's content, front to back, without the first
    /// [`Header::base_skip`] bytes. The caller has checked its digest. All parts but the last are
    /// multiples of the block limit.
    ///
    /// # Panics
    /// Before the header has been read.
    pub fn prime(&mut self, content: &[u8]) {
        self.open.as_mut().expect("the header comes first").1.prime(content);
    }

    /// Uses a file as the log, so that nothing is copied into one and the log takes no memory of its
    /// own. The caller appends each block to the file before the next step.
    ///
    /// # Errors
    /// [`PackError::Config`] if a decoder with the pack's parameters cannot be built.
    ///
    /// # Panics
    /// Before the header has been read, after the first block or [`PackReader::prime`], and if the
    /// pack needs a base. A later step may panic if a block was not appended.
    pub fn log_is_output(&mut self, output: FilePages) -> Result<(), PackError> {
        let (header, decoder) = self.open.as_mut().expect("the header comes first");
        assert!(header.base.is_none() && self.summary.total == 0, "the output is not the log");
        *decoder = header.decoder().build_over(Some(output))?;
        Ok(())
    }

    /// Content delivered so far, in bytes.
    pub fn total(&self) -> u64 {
        self.summary.total
    }

    /// Processes the header, block or trailer at the front of `input`.
    ///
    /// # Errors
    /// [`PackError`]. Content delivered before is verified; nothing after it can be trusted.
    pub fn step(&mut self, input: &[u8]) -> Result<PackStep<'_>, PackError> {
        if self.open.is_none() {
            return self.read_header(input);
        }
        let (header, decoder) = self.open.as_mut().expect("just checked");
        let checksum = match next(input, header, &self.summary)? {
            Next::NeedMore(more) => return Ok(PackStep::NeedMore(more)),
            Next::Frame(view) => view.checksum,
            Next::End { consumed } => return Ok(PackStep::End { consumed }),
        };
        let at = self.summary.total;
        let damaged = |source| PackError::Frame { at, source };
        match decoder.decode(input).map_err(damaged)? {
            Decoded::Block { content, consumed, .. } => {
                self.summary.add(content.len(), checksum);
                Ok(PackStep::Block { content, consumed })
            }
            Decoded::NeedMore(more) => Ok(PackStep::NeedMore(more)),
            // In order, nothing that may be referred to can be missing but what was never there.
            Decoded::Missing(ranges) => {
                let (source_offset, len) =
                    ranges.first().map_or((0, 0), |range| (range.start, range.end - range.start));
                Err(damaged(FrameError::Reference { source_offset, len }))
            }
        }
    }

    fn read_header(&mut self, input: &[u8]) -> Result<PackStep<'static>, PackError> {
        let (header, consumed) = match Header::scan(input)? {
            Ok(scanned) => scanned,
            Err(more) => return Ok(PackStep::NeedMore(more)),
        };
        if header.cache > self.max_cache {
            return Err(PackError::CacheTooLarge { cache: header.cache, limit: self.max_cache });
        }
        self.open = Some((header, header.decoder().build()?));
        Ok(PackStep::Header { consumed })
    }
}

/// What follows in a pack after its header.
enum Next<'a> {
    NeedMore(usize),
    Frame(FrameView<'a>),
    /// The trailer, which fits.
    End {
        consumed: usize,
    },
}

/// Looks at the front of `input`, with the frames of `summary` before it.
fn next<'a>(input: &'a [u8], header: &Header, summary: &Summary) -> Result<Next<'a>, PackError> {
    if input.first() == Some(&TRAILER_MARK) {
        let Some(trailer) = input.get(..TRAILER_LEN) else {
            return Ok(Next::NeedMore(TRAILER_LEN - input.len()));
        };
        if trailer != summary.trailer() {
            return Err(PackError::Trailer { total: summary.total });
        }
        return Ok(Next::End { consumed: TRAILER_LEN });
    }
    let damaged = |source| PackError::Frame { at: summary.total, source };
    match FrameView::scan(input, header.max_block).map_err(damaged)? {
        Scan::NeedMore(more) => Ok(Next::NeedMore(more)),
        // Frames of a pack follow each other, and all of it is of one domain.
        Scan::Frame(view) if view.explicit.is_some() || view.width.is_some() => {
            Err(damaged(FrameError::Field {
                field: "flags",
                value: u64::from(input[0]),
                allowed: "no offset and no fixed width in a pack",
            }))
        }
        Scan::Frame(view) => Ok(Next::Frame(view)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_setting_of_the_builder_makes_a_pack_that_cannot_be_read() {
        let content = b"It keeps the recent past of a link at both ends. ".repeat(2000);
        let header = Header { cache: 1 << 18, max_block: 4000, seed: 0, base: None };
        for builder in [
            Encoder::builder().policy(CachePolicy::NewRuns { straddle: true }),
            Encoder::builder().explicit_offsets(true),
            Encoder::builder().span(1 << 16),
            Encoder::builder().contexts(4),
        ] {
            let packed = pack(&content, &header, builder).unwrap();
            let (mut reader, mut rest, mut back) =
                (PackReader::new(1 << 30), &packed[..], Vec::new());
            loop {
                let consumed = match reader.step(rest).unwrap() {
                    PackStep::NeedMore(more) => panic!("{more} bytes are missing"),
                    PackStep::Header { consumed } => consumed,
                    PackStep::Block { content, consumed } => {
                        back.extend_from_slice(content);
                        consumed
                    }
                    PackStep::End { .. } => break,
                };
                rest = &rest[consumed..];
            }
            assert!(back == content);
        }
    }
}
