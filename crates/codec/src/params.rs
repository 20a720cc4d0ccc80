//! What an encoder or decoder is built from. Every builder checks its parameters.

use crate::adapt::Ladder;
use crate::chunk::{self, ChunkForm, ChunkMatch, ChunkParams};
use crate::decoder::{Assembler, Decoder, DecoderMemory, FrameReader, most_decoder_buffers};
use crate::encoder::{Encoder, EncoderMemory, Finder, FrameWriter, Store, most_buffers};
use crate::entropy::{Entropy, ReadContext, WriteContext};
use crate::error::ConfigError;
use crate::format::ChecksumSeed;
use crate::log::{Geometry, Log};
use crate::matcher::{Matcher, MaxMatch, PublishedMaxMatch};
use crate::policy::CachePolicy;
use crate::sampler::{FastCdc, Fixed, Gear, Maxp, Modp, Peaks, SampleByte, SampleHash, Sampler};
use crate::table::{BucketShape, BucketTable, COMPACT_LIMIT, CompactTable, FingerprintTable, slot_bytes};
use crate::{MAX_BLOCK, MAX_CONTEXTS};
use oncewire_kernels::{ByteSet, Kernels, NameKey};

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
    /// SAMPLEBYTE with EndRE's table.
    pub fn sample_byte() -> SamplerKind {
        SamplerKind::SampleByte(crate::ENDRE_MARKER_BYTES.into_iter().collect())
    }

    /// Every sampler, SAMPLEBYTE with the default table.
    pub fn all() -> impl Iterator<Item = SamplerKind> {
        [
            SamplerKind::sample_byte(),
            SamplerKind::Fixed,
            SamplerKind::Modp(Modp { published: false }),
            SamplerKind::Modp(Modp { published: true }),
            SamplerKind::Maxp,
            SamplerKind::Gear,
            SamplerKind::FastCdc,
            SamplerKind::SampleHash,
            SamplerKind::Peaks,
        ]
        .into_iter()
    }

    /// The sampler of that [`SamplerKind::name`], if there is one.
    pub fn named(name: &str) -> Option<SamplerKind> {
        SamplerKind::all().find(|kind| kind.name() == name)
    }

    /// The field's name for it, in lower case.
    pub fn name(&self) -> &'static str {
        match self {
            SamplerKind::SampleByte(_) => "samplebyte",
            SamplerKind::Fixed => "fixed",
            SamplerKind::Modp(Modp { published: false }) => "modp",
            SamplerKind::Modp(Modp { published: true }) => "modp-published",
            SamplerKind::Maxp => "maxp",
            SamplerKind::Gear => "gear",
            SamplerKind::FastCdc => "fastcdc",
            SamplerKind::SampleHash => "samplehash",
            SamplerKind::Peaks => "peaks",
        }
    }

    /// The sampler itself.
    pub fn boxed(&self) -> Box<dyn Sampler> {
        match self {
            SamplerKind::SampleByte(set) => Box::new(SampleByte::new(*set)),
            SamplerKind::Fixed => Box::new(Fixed),
            SamplerKind::Modp(modp) => Box::new(*modp),
            SamplerKind::Maxp => Box::new(Maxp),
            SamplerKind::Gear => Box::new(Gear),
            SamplerKind::FastCdc => Box::new(FastCdc),
            SamplerKind::SampleHash => Box::new(SampleHash),
            SamplerKind::Peaks => Box::new(Peaks),
        }
    }

    /// Bytes per fingerprint that it is expected to achieve on content like text, for sizing tables.
    pub fn expected_rate(&self, period: usize) -> f64 {
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

/// How an encoder finds what repeats. The decoder need not know.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MatcherKind {
    /// [`MaxMatch`]: grows every hit to the longest equal region. Keeps all content at the encoder, too.
    #[default]
    MaxMatch,
    /// [`PublishedMaxMatch`]: the papers' max-match, to compare with.
    Published {
        /// Most fingerprints used per block (thesis, Table 3.2), or per run that [`CachePolicy::NewRuns`] keeps apart; all if `None`.
        max_fingerprints: Option<usize>,
    },
    /// [`crate::chunk`]: finds whole chunks by their names. Keeps no content at the encoder but what is not acknowledged, and refers
    /// to nothing else but what is: see [`Encoder::acknowledge`].
    ChunkMatch {
        /// Where chunks begin and end.
        form: ChunkForm,
    },
}

/// How an encoder stores fingerprints. Chunk-match has a table of its own.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum TableKind {
    /// [`CompactTable`]: EndRE's.
    #[default]
    Compact,
    /// [`BucketTable`]: SmartRE's, in the given shape.
    Buckets(BucketShape),
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
    policy: CachePolicy,
}

impl Default for Common {
    fn default() -> Common {
        Common {
            cache: DEFAULT_CACHE,
            span: 0,
            max_block: MAX_BLOCK,
            seed: ChecksumSeed::default(),
            contexts: 1,
            policy: CachePolicy::All,
        }
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
        if self.policy != CachePolicy::All && self.span > 0 {
            return Err(ConfigError::Conflict("the cache policy `new` needs frames in order: use a span of 0 with it"));
        }
        self.policy.check()?;
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

        /// Which content enters the log. Default all of it. The same at both ends.
        pub fn policy(mut self, policy: CachePolicy) -> Self {
            self.common.policy = policy;
            self
        }

        /// Seed of the checksums. Default 0, 0. The same at both ends.
        pub fn checksum_seed(mut self, seed: ChecksumSeed) -> Self {
            self.common.seed = seed;
            self
        }

        /// Number of entropy contexts, 1..=256. Default 1. Up to 2.6 MB each once used at an encoder, 1.6 MB at a decoder. The same at both ends.
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
    matcher: MatcherKind,
    chunk_key: NameKey,
    backlog: Option<u64>,
    entropy: Entropy,
    table: TableKind,
    max_matches: Option<usize>,
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
            sampler: SamplerKind::SampleHash,
            matcher: MatcherKind::MaxMatch,
            chunk_key: NameKey::new([0; 16]),
            backlog: None,
            entropy: Entropy::DEFAULT,
            table: TableKind::default(),
            max_matches: None,
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

    /// How markers are chosen. Default SAMPLEHASH, which finds more than SAMPLEBYTE in less time and with a smaller table
    /// (`docs/ALGORITHMS.md`).
    pub fn sampler(mut self, sampler: SamplerKind) -> Self {
        self.sampler = sampler;
        self
    }

    /// How repeats are found. Default max-match.
    pub fn matcher(mut self, matcher: MatcherKind) -> Self {
        self.matcher = matcher;
        self
    }

    /// How fingerprints are stored. Default EndRE's compact table.
    pub fn table(mut self, table: TableKind) -> Self {
        self.table = table;
        self
    }

    /// Most matches per block: the longest are kept (thesis, Table 3.3: "match specs" per packet). Default no limit. For decoders
    /// that can do only so many copies a packet.
    pub fn max_matches(mut self, matches: usize) -> Self {
        self.max_matches = Some(matches);
        self
    }

    /// Secret key of chunk names, for [`MatcherKind::ChunkMatch`]. Default zeros, which is for measurements only: wherever content
    /// comes from others, a key that none of them can know, drawn anew for each session, is what keeps them from preparing chunks of
    /// equal names.
    pub fn chunk_key(mut self, key: [u8; 16]) -> Self {
        self.chunk_key = NameKey::new(key);
        self
    }

    /// How many bytes of unacknowledged content a chunk matcher keeps for repairs, from one block to the whole cache. Default one
    /// span and one block, at least 4 MiB. Beyond it the oldest is dropped: it can still be acknowledged and referred to, but no
    /// longer be repaired ([`crate::EncodeError::NotHeld`]). Memory: this much.
    pub fn backlog(mut self, bytes: u64) -> Self {
        self.backlog = Some(bytes);
        self
    }

    /// What is done to literals and descriptors. Default zstd level 3.
    pub fn entropy(mut self, entropy: Entropy) -> Self {
        self.entropy = entropy;
        self
    }

    /// Entries of the fingerprint table. Default: the cache divided by the bytes per fingerprint that the sampler is expected to
    /// achieve. Memory: 4 bytes each for logs up to 1 GiB, 8 beyond; of a bucketed table 8 bytes a slot, of which it has several for
    /// each entry.
    ///
    /// With [`MatcherKind::ChunkMatch`], entries of the chunk table, rounded up to a multiple of three. Default EndRE's: as many as
    /// fit 24 bytes for each sampling period of the cache, 37.5 % of it at a period of 64. Memory: 64 bytes for three.
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

    /// Most memory in bytes that an encoder of these parameters comes to take, by part. Log and table are exact: they are allocated when it is built,
    /// and do not change. Contexts are as many as configured, all used. Nothing else says how large a table is: whoever has a certain
    /// amount of memory asks this for the largest log that fits.
    ///
    /// Parameters that [`EncoderBuilder::build`] refuses have no meaningful answer, but do no harm.
    pub fn memory(&self) -> EncoderMemory {
        let Common { cache, max_block, contexts, .. } = self.common;
        let entries = self.entries();
        let (log, table) = match (self.matcher, self.table) {
            (MatcherKind::ChunkMatch { .. }, _) => (self.backlog_bytes(), chunk::table_bytes(entries)),
            (_, TableKind::Compact) => (cache, entries.saturating_mul(slot_bytes(cache))),
            (_, TableKind::Buckets(shape)) => (cache, shape.bytes(entries)),
        };
        // The published matcher keeps all markers of a block, of which there may be one for each byte.
        let markers = if matches!(self.matcher, MatcherKind::Published { .. }) { 72 * max_block } else { 0 };
        let bytes = |bytes: u64| usize::try_from(bytes).unwrap_or(usize::MAX);
        EncoderMemory {
            log: bytes(log),
            table: bytes(table),
            contexts: contexts.saturating_mul(self.context_memory()),
            buffers: most_buffers(max_block).saturating_add(markers),
        }
    }

    /// The efforts at which the encoder can work, from the configured one down.
    ///
    /// # Errors
    /// [`ConfigError::Period`].
    pub fn ladder(&self) -> Result<Ladder, ConfigError> {
        Ladder::new(self.period, self.entropy)
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
        let store = match self.matcher {
            MatcherKind::MaxMatch => self.max_match(geometry)?,
            MatcherKind::Published { max_fingerprints } => self.published(geometry, max_fingerprints)?,
            MatcherKind::ChunkMatch { form } => Store::Chunks(self.chunk_match(geometry, form)?),
        };
        let writer = FrameWriter::new(self.entropy, self.common.contexts);
        let mut finder = Finder::new(store, self.period, self.common.max_block, self.common.seed, self.explicit_offsets);
        finder.policy = self.common.policy;
        finder.max_matches = self.max_matches;
        finder.sparse = !matches!(self.matcher, MatcherKind::Published { .. });
        Ok((finder, writer))
    }

    fn chunk_match(&self, geometry: Geometry, form: ChunkForm) -> Result<ChunkMatch, ConfigError> {
        if self.common.policy != CachePolicy::All {
            return Err(ConfigError::Conflict("chunk-match needs the cache policy `all`: it keeps no content to choose from"));
        }
        let max_block = self.common.max_block;
        let backlog = self.backlog_bytes();
        if !(max_block as u64..=geometry.capacity()).contains(&backlog) {
            return Err(ConfigError::Backlog { backlog, max: geometry.capacity() });
        }
        let entries = self.entries();
        let (key, window, kernels) = (self.chunk_key, self.window, self.kernels);
        ChunkMatch::new(
            self.sampler.boxed(),
            geometry,
            ChunkParams { form, key, entries, backlog: backlog as usize, window, kernels },
        )
    }

    /// Entries of the fingerprint table or chunk table.
    fn entries(&self) -> u64 {
        let cache = self.common.cache;
        match (self.table_entries, self.matcher) {
            // None at all is an error of the chunk table.
            (Some(entries), MatcherKind::ChunkMatch { .. }) => entries,
            (Some(entries), _) => entries.max(1),
            (None, MatcherKind::ChunkMatch { .. }) => chunk::default_entries(cache, self.period),
            (None, _) => ((cache as f64 / self.sampler.expected_rate(self.period)).ceil() as u64).max(1),
        }
    }

    /// Size of a chunk matcher's backlog.
    fn backlog_bytes(&self) -> u64 {
        let Common { cache, span, max_block, .. } = self.common;
        self.backlog.unwrap_or_else(|| chunk::default_limit(cache, span, max_block))
    }

    fn max_match(&self, geometry: Geometry) -> Result<Store, ConfigError> {
        let matcher: Box<dyn Matcher> = match (self.table, self.sampler.clone()) {
            (TableKind::Compact, SamplerKind::SampleHash) => self.max_match_with(SampleHash, geometry)?,
            (TableKind::Compact, SamplerKind::SampleByte(set)) => self.max_match_with(SampleByte::new(set), geometry)?,
            // The others cost one virtual call a batch, which is nothing beside what they do.
            (TableKind::Compact, sampler) => self.max_match_with(sampler.boxed(), geometry)?,
            (TableKind::Buckets(shape), sampler) => {
                let table = BucketTable::new(geometry, self.entries(), shape)?;
                Box::new(MaxMatch::new(sampler.boxed(), table, self.kernels, self.window, self.fingerprint_key))
            }
        };
        Ok(Store::Log { log: Log::new(geometry)?, matcher })
    }

    fn published(&self, geometry: Geometry, max_fingerprints: Option<usize>) -> Result<Store, ConfigError> {
        let entries = self.entries();
        let matcher = match self.table {
            TableKind::Compact if geometry.capacity() <= COMPACT_LIMIT => {
                self.published_with(CompactTable::<u32>::new(geometry, entries)?, max_fingerprints)
            }
            TableKind::Compact => self.published_with(CompactTable::<u64>::new(geometry, entries)?, max_fingerprints),
            TableKind::Buckets(shape) => self.published_with(BucketTable::new(geometry, entries, shape)?, max_fingerprints),
        };
        Ok(Store::Log { log: Log::new(geometry)?, matcher })
    }

    fn max_match_with<S: Sampler>(&self, sampler: S, geometry: Geometry) -> Result<Box<dyn Matcher>, ConfigError> {
        let (kernels, window, key, entries) = (self.kernels, self.window, self.fingerprint_key, self.entries());
        Ok(if geometry.capacity() <= COMPACT_LIMIT {
            Box::new(MaxMatch::new(sampler, CompactTable::<u32>::new(geometry, entries)?, kernels, window, key))
        } else {
            Box::new(MaxMatch::new(sampler, CompactTable::<u64>::new(geometry, entries)?, kernels, window, key))
        })
    }

    fn published_with(&self, table: impl FingerprintTable, max_fingerprints: Option<usize>) -> Box<dyn Matcher> {
        let sampler = self.sampler.boxed();
        let (kernels, window, key) = (self.kernels, self.window, self.fingerprint_key);
        Box::new(PublishedMaxMatch::new(sampler, table, kernels, window, key, max_fingerprints))
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

    /// Most memory in bytes that a decoder of these parameters comes to take, whatever it is sent.
    pub fn memory(&self) -> DecoderMemory {
        let Common { cache, max_block, contexts, .. } = self.common;
        DecoderMemory {
            log: usize::try_from(cache).unwrap_or(usize::MAX),
            contexts: contexts.saturating_mul(ReadContext::memory()),
            buffers: most_decoder_buffers(max_block, self.common.span),
        }
    }

    /// Builds the decoder.
    ///
    /// # Errors
    /// [`ConfigError`] for the first parameter that cannot work.
    pub fn build(self) -> Result<Decoder, ConfigError> {
        let log = Log::new(self.common.geometry()?)?;
        let mut assembler = Assembler::new(log, self.common.max_block, self.common.seed);
        assembler.policy = self.common.policy;
        Ok(Decoder::new(FrameReader::new(self.common.contexts), assembler, self.common.max_block))
    }
}
