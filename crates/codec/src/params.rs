//! What an encoder or decoder is built from. Every builder checks its parameters.

use crate::decoder::{Assembler, Decoder, FrameReader};
use crate::encoder::{Encoder, Finder, FrameWriter};
use crate::entropy::{Entropy, ReadContext, WriteContext};
use crate::error::ConfigError;
use crate::format::ChecksumSeed;
use crate::log::{Geometry, Log};
use crate::matcher::{Matcher, MaxMatch};
use crate::sampler::{FastCdc, Fixed, Gear, Maxp, Modp, Peaks, SampleByte, SampleHash, Sampler};
use crate::table::{COMPACT_LIMIT, CompactTable};
use crate::{MAX_BLOCK, MAX_CONTEXTS};
use oncewire_kernels::{ByteSet, Kernels};

/// Which sampler an encoder uses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SamplerKind {
    /// [`SampleByte`] with the given marker bytes.
    SampleByte(ByteSet),
    /// [`Fixed`].
    Fixed,
    /// [`Modp`].
    Modp(Modp),
    /// [`Maxp`].
    Maxp,
    /// [`Gear`].
    Gear,
    /// [`FastCdc`].
    FastCdc,
    /// [`SampleHash`].
    SampleHash,
    /// [`Peaks`].
    Peaks,
}

impl SamplerKind {
    /// SAMPLEBYTE with EndRE's table, the default.
    pub fn sample_byte() -> SamplerKind {
        SamplerKind::SampleByte(crate::ENDRE_MARKER_BYTES.into_iter().collect())
    }

    /// The field's name for it, in lower case.
    pub fn name(&self) -> &'static str {
        match self {
            SamplerKind::SampleByte(_) => "samplebyte",
            SamplerKind::Fixed => "fixed",
            SamplerKind::Modp(_) => "modp",
            SamplerKind::Maxp => "maxp",
            SamplerKind::Gear => "gear",
            SamplerKind::FastCdc => "fastcdc",
            SamplerKind::SampleHash => "samplehash",
            SamplerKind::Peaks => "peaks",
        }
    }

    fn expected_rate(&self, period: usize) -> f64 {
        match self {
            SamplerKind::SampleByte(set) => SampleByte::new(*set).expected_rate(period),
            SamplerKind::Fixed => Fixed.expected_rate(period),
            SamplerKind::Modp(modp) => modp.expected_rate(period),
            SamplerKind::Maxp => Maxp.expected_rate(period),
            SamplerKind::Gear => Gear.expected_rate(period),
            SamplerKind::FastCdc => FastCdc.expected_rate(period),
            SamplerKind::SampleHash => SampleHash.expected_rate(period),
            SamplerKind::Peaks => Peaks.expected_rate(period),
        }
    }
}

/// Default size of the content log: 256 MiB, a few minutes of a 10 Mbit/s link, a few seconds of a fast one.
pub const DEFAULT_CACHE: u64 = 256 << 20;
/// Default window in bytes (EndRE section 5.1, after the match lengths of the SIGMETRICS'09 study).
pub const DEFAULT_WINDOW: usize = 32;
/// Default sampling period in bytes (EndRE section 6.3).
pub const DEFAULT_PERIOD: usize = 32;

/// What both ends must agree on.
#[derive(Clone, Copy, Debug)]
struct Common {
    cache: u64,
    span: u64,
    max_block: usize,
    seed: ChecksumSeed,
    contexts: usize,
}

impl Default for Common {
    fn default() -> Common {
        Common { cache: DEFAULT_CACHE, span: 0, max_block: MAX_BLOCK, seed: ChecksumSeed::default(), contexts: 1 }
    }
}

impl Common {
    fn geometry(&self) -> Result<Geometry, ConfigError> {
        let geometry = Geometry::new(self.cache, self.span)?;
        if self.max_block == 0 || self.max_block > MAX_BLOCK {
            return Err(ConfigError::Block { block: self.max_block });
        }
        // The floor of a block must not lie above its own offset.
        if self.cache - self.span < self.max_block as u64 {
            return Err(ConfigError::Capacity { capacity: self.cache, max: Geometry::MAX_CAPACITY });
        }
        if self.contexts == 0 || self.contexts > MAX_CONTEXTS {
            return Err(ConfigError::Contexts { contexts: self.contexts });
        }
        Ok(geometry)
    }
}

macro_rules! common_parameters {
    () => {
        /// Size of the content log in bytes. Default [`DEFAULT_CACHE`]. The same at both ends; at least one block plus the span.
        /// It need not be a power of two. Memory: this much at either end once the log is full.
        pub fn cache(mut self, bytes: u64) -> Self {
            self.common.cache = bytes;
            self
        }

        /// How far ahead of its contiguous content the decoder accepts frames, in bytes. Default 0: strictly in order. At most a
        /// quarter of the cache; references reach that much less far back. The same at both ends.
        pub fn span(mut self, bytes: u64) -> Self {
            self.common.span = bytes;
            self
        }

        /// Largest block in bytes, 1..=65,536. Default 65,536.
        pub fn max_block(mut self, bytes: usize) -> Self {
            self.common.max_block = bytes;
            self
        }

        /// Seed of the checksums. Default 0, 0. The same at both ends.
        pub fn checksum_seed(mut self, seed: ChecksumSeed) -> Self {
            self.common.seed = seed;
            self
        }

        /// Number of entropy contexts, 1..=256. Default 1. About 2 MB each once used. The same at both ends.
        pub fn contexts(mut self, contexts: usize) -> Self {
            self.common.contexts = contexts;
            self
        }
    };
}

/// Builds an [`Encoder`].
#[derive(Clone, Debug)]
pub struct EncoderBuilder {
    common: Common,
    window: usize,
    period: usize,
    sampler: SamplerKind,
    entropy: Entropy,
    table_entries: Option<u64>,
    explicit_offsets: bool,
    fingerprint_key: u64,
    kernels: Kernels,
}

impl Default for EncoderBuilder {
    fn default() -> EncoderBuilder {
        EncoderBuilder {
            common: Common::default(),
            window: DEFAULT_WINDOW,
            period: DEFAULT_PERIOD,
            sampler: SamplerKind::sample_byte(),
            entropy: Entropy::DEFAULT,
            table_entries: None,
            explicit_offsets: false,
            fingerprint_key: 0,
            kernels: Kernels::detect(),
        }
    }
}

impl EncoderBuilder {
    common_parameters!();

    /// Bytes under one fingerprint, 12..=64; the shortest repeat that a look-up can find. Default 32. Smaller finds more and
    /// yields shorter matches, whose descriptors cost more of what they save.
    pub fn window(mut self, bytes: usize) -> Self {
        self.window = bytes;
        self
    }

    /// Sampling period in bytes, 4..=1024: one fingerprint is meant to be kept for every so many bytes. Default 32. Half of it
    /// doubles table and look-up time and finds more short repeats.
    pub fn period(mut self, bytes: usize) -> Self {
        self.period = bytes;
        self
    }

    /// How markers are chosen. Default SAMPLEBYTE with EndRE's table.
    pub fn sampler(mut self, sampler: SamplerKind) -> Self {
        self.sampler = sampler;
        self
    }

    /// What is done to literals and descriptors. Default zstd level 3.
    pub fn entropy(mut self, entropy: Entropy) -> Self {
        self.entropy = entropy;
        self
    }

    /// Entries of the fingerprint table. Default: the cache divided by the bytes per fingerprint that the sampler is expected to
    /// achieve. Memory: 4 bytes each for logs up to 1 GiB, 8 beyond.
    pub fn table_entries(mut self, entries: u64) -> Self {
        self.table_entries = Some(entries);
        self
    }

    /// Whether every frame states its offset, for frames that may be decoded out of order. Default false.
    pub fn explicit_offsets(mut self, explicit: bool) -> Self {
        self.explicit_offsets = explicit;
        self
    }

    /// Key of the fingerprints. Default 0. Domains that must not share content have different ones.
    pub fn fingerprint_key(mut self, key: u64) -> Self {
        self.fingerprint_key = key;
        self
    }

    /// Which instruction set to use. Default the best that the machine has.
    pub fn kernels(mut self, kernels: Kernels) -> Self {
        self.kernels = kernels;
        self
    }

    /// Memory in bytes of one entropy context, once it is used.
    pub fn context_memory(&self) -> usize {
        WriteContext::memory(self.entropy)
    }

    /// Builds the encoder.
    ///
    /// # Errors
    /// [`ConfigError`] for the first parameter that cannot work.
    pub fn build(self) -> Result<Encoder, ConfigError> {
        let (finder, writer) = self.build_halves()?;
        Ok(Encoder { finder, writer, tokens: Default::default() })
    }

    /// Builds the two halves of an encoder, for callers that run them on two threads.
    ///
    /// # Errors
    /// As [`EncoderBuilder::build`].
    pub fn build_halves(self) -> Result<(Finder, FrameWriter), ConfigError> {
        let geometry = self.common.geometry()?;
        if !(12..=64).contains(&self.window) {
            return Err(ConfigError::Window { window: self.window });
        }
        check_period(self.period)?;
        self.entropy.check()?;
        let rate = self.sampler.expected_rate(self.period);
        let entries = self.table_entries.unwrap_or((self.common.cache as f64 / rate).ceil() as u64).max(1);
        let matcher: Box<dyn Matcher> = match self.sampler.clone() {
            SamplerKind::SampleByte(set) => self.max_match(SampleByte::new(set), geometry, entries)?,
            SamplerKind::Fixed => self.max_match(Fixed, geometry, entries)?,
            SamplerKind::Modp(modp) => self.max_match(modp, geometry, entries)?,
            SamplerKind::Maxp => self.max_match(Maxp, geometry, entries)?,
            SamplerKind::Gear => self.max_match(Gear, geometry, entries)?,
            SamplerKind::FastCdc => self.max_match(FastCdc, geometry, entries)?,
            SamplerKind::SampleHash => self.max_match(SampleHash, geometry, entries)?,
            SamplerKind::Peaks => self.max_match(Peaks, geometry, entries)?,
        };
        let log = Log::new(geometry)?;
        let writer = FrameWriter::new(self.entropy, self.common.contexts);
        let finder = Finder::new(log, matcher, self.period, self.common.max_block, self.common.seed, self.explicit_offsets);
        Ok((finder, writer))
    }

    fn max_match<S: Sampler>(&self, sampler: S, geometry: Geometry, entries: u64) -> Result<Box<dyn Matcher>, ConfigError> {
        let (kernels, window, key) = (self.kernels, self.window, self.fingerprint_key);
        Ok(if geometry.capacity() <= COMPACT_LIMIT {
            Box::new(MaxMatch::new(sampler, CompactTable::<u32>::new(geometry, entries)?, kernels, window, key))
        } else {
            Box::new(MaxMatch::new(sampler, CompactTable::<u64>::new(geometry, entries)?, kernels, window, key))
        })
    }
}

/// Sampling periods are 4..=1024 bytes.
pub(crate) fn check_period(period: usize) -> Result<(), ConfigError> {
    if (4..=1024).contains(&period) { Ok(()) } else { Err(ConfigError::Period { period }) }
}

/// Builds a [`Decoder`].
#[derive(Clone, Debug, Default)]
pub struct DecoderBuilder {
    common: Common,
}

impl DecoderBuilder {
    common_parameters!();

    /// Memory in bytes of one entropy context, once it is used.
    pub fn context_memory() -> usize {
        ReadContext::memory()
    }

    /// Builds the decoder.
    ///
    /// # Errors
    /// [`ConfigError`] for the first parameter that cannot work.
    pub fn build(self) -> Result<Decoder, ConfigError> {
        let log = Log::new(self.common.geometry()?)?;
        let assembler = Assembler::new(log, self.common.max_block, self.common.seed);
        Ok(Decoder::new(FrameReader::new(self.common.contexts), assembler, self.common.max_block))
    }
}
