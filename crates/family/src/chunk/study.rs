//! Martynov's modified algorithm, for measurements.
//!
//! A second Rabin fingerprint, over the whole chunk, is its name (M. Martynov, *Experimental study
//! of protocol-independent redundancy elimination algorithms*, WOSP/SIPEW 2010, section 4):
//! computed in the same pass as the markers, and a hit needs no comparison. Anyone who can choose
//! content can make two chunks with the same fingerprint and have one delivered in place of the
//! other. So this is separate from encoders: it yields figures, and there is no way from it to a
//! frame.

use super::{CHUNK_MAX, CHUNK_MIN};
use oncewire_codec::limits::{MAX_ENTRIES, MAX_OFFSET};
use oncewire_codec::matcher::Match;
use oncewire_codec::{ConfigError, DEFAULT_BLOCK, EncodeError, Geometry, Log, plain_frame_len};
use oncewire_kernels::Pages;
use std::ops::Range;

/// Figures of a stream of blocks with chunks named by a rolling fingerprint. Counters; they only
/// grow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ForgeableFigures {
    /// Blocks.
    pub blocks: u64,
    /// Their bytes.
    pub block_bytes: u64,
    /// Chunks looked up.
    pub chunks: u64,
    /// Chunks whose fingerprint was known.
    pub hits: u64,
    /// Hits on other content: wrong bytes, had this been a link.
    pub collisions: u64,
    /// Matches, after joining hits that are adjacent in block and log.
    pub matches: u64,
    /// Bytes covered by matches.
    pub matched_bytes: u64,
    /// Bytes of frames with plain descriptors, without an entropy stage, checksums included.
    pub wire_bytes: u64,
}

/// Chunk-match with forgeable names: only for measurements, **never for a wire**.
///
/// The marker hash rolls over the window; a chunk ends with a window whose hash is below `2^64 / p`
/// (so the window's last byte is the chunk's last, Martynov section 3.1), after 256 bytes, or with
/// the block. The table is direct-mapped and overwritten. All content is "acknowledged" at once.
/// Unlike the algorithm it measures, this holds a log: it compares the content of each hit, and
/// takes none that differs.
///
/// ```
/// use oncewire_family::chunk::study::ForgeableChunks;
///
/// let mut study = ForgeableChunks::new(1 << 20, 32, 64, 1 << 14)?;
/// let block = include_bytes!("study.rs");
/// study.look_at(block)?;
/// let cold = study.figures().wire_bytes;
/// study.look_at(block)?;
/// assert!(study.figures().wire_bytes - cold < cold / 10);
/// assert_eq!(study.figures().collisions, 0);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct ForgeableChunks {
    log: Log,
    /// Fingerprint and offset + 1 of each entry; 0 is empty.
    table: Pages<u64>,
    window: usize,
    period: usize,
    figures: ForgeableFigures,
    matches: Vec<Match>,
    /// The factor of a byte that leaves the window.
    leaving: u64,
    /// Bits of the chunk fingerprint that count; fewer in tests.
    mask: u64,
}

/// Factor of the marker hash, modulo 2^64: odd, its high bits are the hash.
const MARKER_FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;
/// Modulus of the chunk fingerprint, a Mersenne prime, and its factor, which is public: that is
/// what makes names forgeable.
const PRIME: u64 = (1 << 61) - 1;
const CHUNK_FACTOR: u64 = 0x0123_4567_89ab_cdef;

impl ForgeableChunks {
    /// Over a log of `cache` bytes, with a window of 12..=64 bytes, a sampling period of 4..=1024
    /// bytes, and `entries` in the table. Memory: the cache, and 16 bytes an entry.
    ///
    /// # Errors
    /// [`ConfigError`] for the first invalid parameter.
    pub fn new(
        cache: u64,
        window: usize,
        period: usize,
        entries: u64,
    ) -> Result<ForgeableChunks, ConfigError> {
        let geometry = Geometry::new(cache, 0)?;
        if cache < DEFAULT_BLOCK as u64 {
            return Err(ConfigError::Capacity { capacity: cache, max: Geometry::MAX_CAPACITY });
        }
        ConfigError::check_window(window)?;
        ConfigError::check_period(period)?;
        if entries == 0 || entries > MAX_ENTRIES {
            return Err(ConfigError::TableEntries { entries, max: MAX_ENTRIES });
        }
        let words = (entries as usize).saturating_mul(2);
        let bytes = words.saturating_mul(size_of::<u64>());
        let table = Pages::zeroed(words).map_err(|source| ConfigError::Memory {
            bytes,
            what: "chunk table",
            source,
        })?;
        Ok(ForgeableChunks {
            log: Log::new(geometry)?,
            table,
            window,
            period,
            figures: ForgeableFigures::default(),
            matches: Vec::new(),
            leaving: (0..window).fold(1, |power: u64, _| power.wrapping_mul(MARKER_FACTOR)),
            mask: u64::MAX,
        })
    }

    /// Figures of all blocks so far.
    pub fn figures(&self) -> ForgeableFigures {
        self.figures
    }

    /// Processes the next block, of at most [`DEFAULT_BLOCK`] bytes.
    ///
    /// # Errors
    /// [`EncodeError::BlockTooLarge`]; nothing was changed. [`EncodeError::OffsetsExhausted`].
    pub fn look_at(&mut self, block: &[u8]) -> Result<(), EncodeError> {
        if block.len() > DEFAULT_BLOCK {
            return Err(EncodeError::BlockTooLarge { len: block.len(), max: DEFAULT_BLOCK });
        }
        let offset = self.log.geometry().place(self.log.end(), block.len());
        if offset + DEFAULT_BLOCK as u64 >= MAX_OFFSET {
            return Err(EncodeError::OffsetsExhausted);
        }
        self.matches.clear();
        let threshold = u64::MAX / self.period as u64;
        let (mut marker_hash, mut fingerprint, mut start) = (0u64, 0u64, 0);
        for (i, &byte) in block.iter().enumerate() {
            // Both fingerprints in the same pass: the paper's modification.
            marker_hash = marker_hash.wrapping_add(u64::from(byte) + 1).wrapping_mul(MARKER_FACTOR);
            if let Some(left) = i.checked_sub(self.window) {
                marker_hash = marker_hash.wrapping_sub(
                    (u64::from(block[left]) + 1)
                        .wrapping_mul(self.leaving)
                        .wrapping_mul(MARKER_FACTOR),
                );
            }
            fingerprint = multiply(fingerprint, CHUNK_FACTOR) + u64::from(byte) + 1;
            let end = i + 1;
            let len = end - start;
            let marker = end >= self.window && marker_hash < threshold && len >= CHUNK_MIN;
            if marker || len == CHUNK_MAX || end == block.len() {
                if len >= CHUNK_MIN {
                    self.look_up(block, offset, start..end, fingerprint % PRIME);
                }
                (fingerprint, start) = (0, end);
            }
        }
        self.log.write(offset, block);
        self.count(block.len(), offset);
        Ok(())
    }

    fn look_up(&mut self, block: &[u8], offset: u64, chunk: Range<usize>, fingerprint: u64) {
        let fingerprint = fingerprint & self.mask;
        let (now, len) = (offset + chunk.start as u64, chunk.len() as u64);
        // Fingerprints are below 2^61 and, as values of a polynomial, not evenly distributed in
        // their low bits alone.
        let spread = fingerprint.wrapping_mul(MARKER_FACTOR);
        let entry = ((u128::from(spread) * (self.table.len() / 2) as u128) >> 64) as usize * 2;
        let (known, source) = (self.table[entry], self.table[entry + 1].checked_sub(1));
        [self.table[entry], self.table[entry + 1]] = [fingerprint, now + 1];
        self.figures.chunks += 1;
        let Some(source) = source.filter(|_| known == fingerprint) else { return };
        // In the block itself, before the chunk, or in the log.
        let held = match source.checked_sub(offset) {
            Some(from) => block.get(from as usize..(from + len) as usize),
            None => {
                let floor = self.log.geometry().floor(offset, block.len());
                let extent =
                    self.log.extent(source, floor).filter(|extent| source + len <= extent.end);
                extent.map(|_| self.log.read(source..source + len))
            }
        };
        // What has left the log is no hit. The paper's cache is unbounded.
        let Some(held) = held else { return };
        self.figures.hits += 1;
        if *held != block[chunk.clone()] {
            self.figures.collisions += 1;
            return;
        }
        match self.matches.last_mut() {
            Some(last)
                if last.end() == chunk.start
                    && last.source + u64::from(last.len) == source
                    && (last.source < offset) == (source < offset)
                    && self.log.geometry().in_one_generation(&(last.source..source + len)) =>
            {
                last.len += len as u32;
            }
            _ => self.matches.push(Match { at: chunk.start as u32, len: len as u32, source }),
        }
    }

    fn count(&mut self, block_len: usize, offset: u64) {
        let matched: u64 = self.matches.iter().map(|found| u64::from(found.len)).sum();
        self.figures.blocks += 1;
        self.figures.block_bytes += block_len as u64;
        self.figures.matches += self.matches.len() as u64;
        self.figures.matched_bytes += matched;
        self.figures.wire_bytes += plain_frame_len(&self.matches, offset, block_len) as u64;
    }
}

/// `a * b` modulo [`PRIME`], up to one time it.
#[inline(always)]
fn multiply(a: u64, b: u64) -> u64 {
    let product = u128::from(a) * u128::from(b);
    (product as u64 & PRIME) + (product >> 61) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn noise(seed: u64, len: usize) -> Vec<u8> {
        let mut rng = fastrand::Rng::with_seed(seed);
        (0..len).map(|_| rng.u8(..)).collect()
    }

    fn study() -> ForgeableChunks {
        ForgeableChunks::new(1 << 20, 32, 64, 1 << 18).unwrap()
    }

    #[test]
    fn a_repeat_costs_little_however_it_is_aligned() {
        let mut study = study();
        let content = noise(1, 60_000);
        study.look_at(&content).unwrap();
        let cold = study.figures();
        assert!(cold.wire_bytes as usize <= content.len() + 20 && cold.matched_bytes == 0);
        study.look_at(&[b"moved", &content[..]].concat()).unwrap();
        let figures = study.figures();
        assert_eq!((figures.blocks, figures.block_bytes, figures.collisions), (2, 120_005, 0));
        assert!(figures.wire_bytes - cold.wire_bytes < 2000, "{figures:?}");
    }

    #[test]
    fn boundaries_are_those_of_a_plain_definition() {
        // Oracle: the hash of each window from scratch.
        let block = noise(2, 5000);
        let mut study = study();
        study.look_at(&block).unwrap();
        let hash = |end: usize| {
            block[end - 32..end].iter().fold(0u64, |hash, &byte| {
                hash.wrapping_add(u64::from(byte) + 1).wrapping_mul(MARKER_FACTOR)
            })
        };
        let (mut start, mut chunks) = (0, 0);
        for end in 1..=block.len() {
            if end >= 32 && hash(end) < u64::MAX / 64 && end - start >= CHUNK_MIN
                || end - start == CHUNK_MAX
                || end == block.len()
            {
                chunks += u64::from(end - start >= CHUNK_MIN);
                start = end;
            }
        }
        assert_eq!(study.figures().chunks, chunks);
        assert!((30..150).contains(&chunks), "{chunks}");
    }

    #[test]
    fn collisions_are_counted_and_not_taken() {
        let mut study = study();
        study.mask = 7;
        for seed in 0..20 {
            study.look_at(&noise(seed, 10_000)).unwrap();
        }
        let figures = study.figures();
        assert!(figures.collisions > 1000 && figures.matched_bytes == 0, "{figures:?}");
        assert_eq!(figures.hits, figures.collisions);
    }

    #[test]
    fn parameters_that_cannot_work_are_errors() {
        assert!(ForgeableChunks::new(1000, 32, 64, 100).is_err());
        assert!(ForgeableChunks::new(1 << 20, 11, 64, 100).is_err());
        assert!(ForgeableChunks::new(1 << 20, 32, 3, 100).is_err());
        assert!(ForgeableChunks::new(1 << 20, 32, 64, 0).is_err());
        assert!(study().look_at(&vec![0; DEFAULT_BLOCK + 1]).is_err());
    }
}
