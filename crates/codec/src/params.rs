//! Builders of encoders and decoders. They check every parameter.

use crate::adapt::Ladder;
use crate::chunks::ChunkIndex;
use crate::datagram::{DatagramDecoder, DatagramEncoder};
use crate::decoder::{
    Assembler, Decoder, DecoderMemory, FrameReader, most_decoder_buffers, most_inside,
};
use crate::domain::{Runs, Sharing};
use crate::encoder::{
    Encoder, EncoderMemory, Finder, FrameWriter, NewWriter, SecondHalf, most_buffers,
};
use crate::entropy::{Entropy, ReadContext, TranscodeModels, WriteContext};
use crate::error::ConfigError;
use crate::format::ChecksumSeed;
use crate::inside::Inside;
use crate::limits::{DEFAULT_BLOCK, MAX_BLOCK, MAX_CONTEXTS};
use crate::log::{Geometry, Log};
use crate::policy::CachePolicy;
use crate::sampler::{AnySampler, SampleHash, Sampler};
use crate::search::{MaxMatchSearch, Past, Search, SearchSettings};
use oncewire_kernels::{FilePages, Kernels};
use std::sync::Arc;

/// Default size of the content log: 256 MiB, a few minutes of a 10 Mbit/s link, a few seconds of a
/// fast one.
pub const DEFAULT_CACHE: u64 = 256 << 20;
/// Default window in bytes (EndRE section 5.1, after the match lengths of the SIGMETRICS'09 study).
pub const DEFAULT_WINDOW: usize = 32;
/// Default sampling period in bytes (EndRE section 6.3).
pub const DEFAULT_PERIOD: usize = 32;

/// Parameters that both ends must agree on.
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
            max_block: DEFAULT_BLOCK,
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
            return Err(ConfigError::Capacity {
                capacity: self.cache,
                max: Geometry::MAX_CAPACITY,
            });
        }
        if self.contexts == 0 || self.contexts > MAX_CONTEXTS {
            return Err(ConfigError::Contexts { contexts: self.contexts });
        }
        if self.policy != CachePolicy::All && self.span > 0 {
            return Err(ConfigError::Conflict(
                "the cache policy `new` needs frames in order: use a span of 0 with it",
            ));
        }
        self.policy.check()?;
        Ok(geometry)
    }
}

macro_rules! common_parameters {
    () => {
        /// Size of the content log in bytes: at least one block plus the span, any number. Default
        /// [`DEFAULT_CACHE`]. The same at both ends. Memory: this much at each end once the log is
        /// full.
        pub fn cache(mut self, bytes: u64) -> Self {
            self.common.cache = bytes;
            self
        }

        /// How far ahead of its contiguous content the decoder accepts frames, in bytes. Default 0:
        /// strictly in order. At most a quarter of the cache; references reach that much less far
        /// back. The same at both ends.
        pub fn span(mut self, bytes: u64) -> Self {
            self.common.span = bytes;
            self
        }

        /// Largest block in bytes, 1..=262,144. Default 65,536. The same at both ends.
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

        /// Number of entropy contexts, 1..=256. Default 1. The same at both ends. Memory once used:
        /// up to 2.6 MB each at an encoder, 1.6 MB at a decoder.
        pub fn contexts(mut self, contexts: usize) -> Self {
            self.common.contexts = contexts;
            self
        }
    };
}

impl Encoder {
    /// Parameters, with defaults for all.
    pub fn builder() -> EncoderBuilder {
        EncoderBuilder::default()
    }
}

/// Builds an [`Encoder`].
#[derive(Clone, Debug)]
pub struct EncoderBuilder {
    common: Common,
    window: usize,
    period: usize,
    sampler: AnySampler,
    search: Arc<dyn Search>,
    entropy: Entropy,
    max_matches: Option<usize>,
    table_entries: Option<u64>,
    growing_table: bool,
    explicit_offsets: bool,
    fingerprint_key: u64,
    sharing: Sharing,
    inside: bool,
    kernels: Kernels,
}

impl Default for EncoderBuilder {
    fn default() -> EncoderBuilder {
        EncoderBuilder {
            common: Common::default(),
            window: DEFAULT_WINDOW,
            period: DEFAULT_PERIOD,
            sampler: AnySampler::SampleHash(SampleHash),
            search: Arc::new(MaxMatchSearch),
            entropy: Entropy::DEFAULT,
            max_matches: None,
            table_entries: None,
            growing_table: false,
            explicit_offsets: false,
            fingerprint_key: 0,
            sharing: Sharing::All,
            inside: false,
            kernels: Kernels::detect(),
        }
    }
}

impl EncoderBuilder {
    common_parameters!();

    /// Bytes under one fingerprint, 12..=64: the shortest repeat that a look-up can find. The
    /// default is 32. A smaller window finds more and shorter matches, whose descriptors cost a
    /// larger part of the savings.
    pub fn window(mut self, bytes: usize) -> Self {
        self.window = bytes;
        self
    }

    /// Sampling period in bytes, 4..=1024: the encoder aims at one fingerprint per period. The
    /// default is 32. Half the period doubles table and look-up time and finds more short repeats.
    pub fn period(mut self, bytes: usize) -> Self {
        self.period = bytes;
        self
    }

    /// The sampler, which chooses markers. Default SAMPLEHASH, which finds more than SAMPLEBYTE in
    /// less time and with a smaller table (`docs/ALGORITHMS.md`).
    pub fn sampler(mut self, sampler: impl Sampler) -> Self {
        self.sampler = sampler.erase();
        self
    }

    /// The search, which finds repeats. Default [`MaxMatchSearch`]. Decoders do not depend on it.
    pub fn search(mut self, search: impl Search) -> Self {
        self.search = Arc::new(search);
        self
    }

    /// Most matches per block: the longest are kept (thesis, Table 3.3: "match specs" per packet).
    /// Default no limit. For decoders that can do only so many copies a packet.
    pub fn max_matches(mut self, matches: usize) -> Self {
        self.max_matches = Some(matches);
        self
    }

    /// Compression of literals and descriptors. Default [`Entropy::DEFAULT`].
    pub fn entropy(mut self, entropy: Entropy) -> Self {
        self.entropy = entropy;
        self
    }

    /// Entries of the fingerprint table. Default: the cache divided by the bytes per fingerprint
    /// that the sampler is expected to achieve. Memory: 4 bytes each for logs up to 1 GiB, 8
    /// beyond. A search other than the default may interpret it differently.
    pub fn table_entries(mut self, entries: u64) -> Self {
        self.table_entries = Some(entries);
        self
    }

    /// Whether the fingerprint table uses its memory as fingerprints are stored, so that a short
    /// stream touches little of it. What is found then depends a little on how much was encoded,
    /// also by other domains: not for encoders that have several. Default false.
    pub fn growing_table(mut self, growing: bool) -> Self {
        self.growing_table = growing;
        self
    }

    /// Whether every frame states its offset, for frames that may be decoded out of order. Default
    /// false.
    pub fn explicit_offsets(mut self, explicit: bool) -> Self {
        self.explicit_offsets = explicit;
        self
    }

    /// What is found across [`Domain`](crate::Domain)s. Default everything. Any other choice needs
    /// [`CachePolicy::All`] and a search that keeps domains apart, as the default does; notes on
    /// domains and chunks then take up to 3.2 % of the log's size.
    pub fn sharing(mut self, sharing: Sharing) -> Self {
        self.sharing = sharing;
        self
    }

    /// What is found across domains: see [`EncoderBuilder::sharing`].
    pub fn shares(&self) -> Sharing {
        self.sharing
    }

    /// Whether repeats are sought inside deflate streams and zstd frames. Default false. Needs
    /// [`CachePolicy::All`], the default search and the stage [`Entropy::Coded`]; with any other it
    /// does nothing. Takes a tenth of the log's size, and about 3 MB.
    pub fn inside(mut self, inside: bool) -> Self {
        self.inside = inside;
        self
    }

    /// Whether repeats are sought inside deflate streams and zstd frames: see
    /// [`EncoderBuilder::inside`].
    pub fn looks_inside(&self) -> bool {
        self.inside
    }

    /// Key of the fingerprints. Default 0. A random key keeps others from preparing content that
    /// collides.
    pub fn fingerprint_key(mut self, key: u64) -> Self {
        self.fingerprint_key = key;
        self
    }

    /// The instruction set. Default the best that the machine has.
    pub fn kernels(mut self, kernels: Kernels) -> Self {
        self.kernels = kernels;
        self
    }

    /// Memory in bytes of one entropy context, once it is used.
    pub fn context_memory(&self) -> usize {
        WriteContext::memory(self.entropy, self.common.max_block)
    }

    /// Upper bound of the memory in bytes of an encoder with these parameters, by part. Log and
    /// table are exact: they are allocated when it is built and do not change. All configured
    /// contexts count as used. Use this to find the largest log that fits a given amount of memory.
    ///
    /// For parameters that [`EncoderBuilder::build`] refuses, the result is meaningless but
    /// harmless.
    pub fn memory(&self) -> EncoderMemory {
        let Common { max_block, contexts, .. } = self.common;
        let search = self.search.memory(&self.settings());
        let bytes = |bytes: u64| usize::try_from(bytes).unwrap_or(usize::MAX);
        let domains = match self.sharing {
            Sharing::All => 0,
            Sharing::None => Runs::most_memory(self.common.cache),
            Sharing::Chunks => Runs::most_memory(self.common.cache)
                .saturating_add(ChunkIndex::most_memory(self.common.cache)),
        };
        let models = contexts.saturating_mul(size_of::<TranscodeModels>());
        let inside = if self.inside {
            Inside::most_memory(self.common.cache, max_block).saturating_add(models)
        } else {
            0
        };
        EncoderMemory {
            log: bytes(search.log),
            table: bytes(search.table),
            contexts: contexts.saturating_mul(self.context_memory()),
            domains,
            inside,
            buffers: most_buffers(max_block).saturating_add(bytes(search.scratch)),
        }
    }

    fn settings(&self) -> SearchSettings {
        let Common { cache, span, max_block, policy, .. } = self.common;
        SearchSettings {
            cache,
            span,
            max_block,
            policy,
            window: self.window,
            period: self.period,
            sampler: self.sampler.clone(),
            table_entries: self.table_entries,
            growing_table: self.growing_table,
            fingerprint_key: self.fingerprint_key,
            kernels: self.kernels,
        }
    }

    /// The effort levels of this encoder, from the configured one down.
    ///
    /// # Errors
    /// [`ConfigError::Period`].
    pub fn ladder(&self) -> Result<Ladder, ConfigError> {
        Ladder::new(self.period, self.entropy)
    }

    /// Builds the encoder.
    ///
    /// # Errors
    /// [`ConfigError`] for the first invalid parameter.
    pub fn build(self) -> Result<Encoder, ConfigError> {
        let anew = NewWriter {
            kernels: self.kernels,
            entropy: self.entropy,
            contexts: self.common.contexts,
        };
        let (finder, writer) = self.build_halves()?;
        Ok(Encoder { finder, tokens: Default::default(), second: SecondHalf::new(writer, anew) })
    }

    /// Builds the two halves of an encoder, to run them on two threads.
    ///
    /// # Errors
    /// As [`EncoderBuilder::build`].
    pub fn build_halves(self) -> Result<(Finder, FrameWriter), ConfigError> {
        let (finder, mut writers) = self.build_parts(None, 1)?;
        Ok((finder, writers.remove(0)))
    }

    /// Builds the halves of an encoder with several second ones, which can run side by side: each
    /// has all contexts, and the caller uses a context with one of them only.
    ///
    /// If `content` is given, it is the log, so that nothing is copied: the blocks are parts of it,
    /// in order and without gaps, and none crosses a multiple of the cache's size. There is neither
    /// [`Finder::prime`] nor [`Encoder::rewind`], and the cache policy is `all`.
    ///
    /// # Errors
    /// As [`EncoderBuilder::build`].
    pub fn build_parts(
        self,
        content: Option<FilePages>,
        writers: usize,
    ) -> Result<(Finder, Vec<FrameWriter>), ConfigError> {
        let geometry = self.common.geometry()?;
        ConfigError::check_window(self.window)?;
        ConfigError::check_period(self.period)?;
        self.entropy.check()?;
        if self.sharing != Sharing::All
            && (self.common.policy != CachePolicy::All || !self.search.isolates_domains())
        {
            return Err(ConfigError::Conflict(
                "domains are kept apart only with the cache policy `all` and the default search",
            ));
        }
        let past = Past::build(&*self.search, &self.settings(), geometry, content)?;
        let writers = (0..writers.max(1))
            .map(|_| FrameWriter::new(self.kernels, self.entropy, self.common.contexts))
            .collect();
        let mut finder = Finder::new(
            past,
            self.period,
            self.common.max_block,
            self.common.seed,
            self.explicit_offsets,
        );
        finder.policy = self.common.policy;
        finder.max_matches = self.max_matches;
        finder.sparse = self.search.samples_sparsely();
        finder.sharing = self.sharing;
        finder.key = self.fingerprint_key;
        let codes = matches!(self.entropy, Entropy::Coded { .. });
        finder.inside = (self.inside && codes).then(|| Inside::new(self.common.cache));
        Ok((finder, writers))
    }
}

impl EncoderBuilder {
    /// Builds an encoder of frames for datagrams ([`crate::datagram`]). The span is how far below
    /// the highest content a decoder still stores what comes late; the block limit holds for runs.
    /// Entropy stage, contexts and explicit offsets do not matter.
    ///
    /// # Errors
    /// As [`EncoderBuilder::build`], and [`ConfigError::Conflict`] with a cache policy other than
    /// `all`, a search that keeps content itself, [`Sharing::Chunks`], or
    /// [`EncoderBuilder::inside`], which need frames in order, or with a block limit above
    /// [`DEFAULT_BLOCK`].
    pub fn build_datagrams(self) -> Result<DatagramEncoder, ConfigError> {
        if self.common.policy != CachePolicy::All || self.sharing == Sharing::Chunks || self.inside
        {
            return Err(ConfigError::Conflict(
                "datagrams need the cache policy `all`, share all content or none, and do not look inside compressed streams",
            ));
        }
        let kernels = self.kernels;
        check_datagrams(self.common.max_block)?;
        let (finder, _) = self.build_halves()?;
        if matches!(finder.past, Past::Store(_)) {
            return Err(ConfigError::Conflict("datagrams need a search that uses the content log"));
        }
        Ok(DatagramEncoder::new(finder, kernels))
    }

    /// Upper bound of the memory in bytes of what [`EncoderBuilder::build_datagrams`] builds, to which
    /// each frozen context adds at most [`DatagramEncoder::CONTEXT_MEMORY`].
    pub fn datagrams_memory(&self) -> EncoderMemory {
        let buffers = DatagramEncoder::most_buffers(self.common.cache, self.common.max_block);
        EncoderMemory { contexts: 0, inside: 0, buffers, ..self.memory() }
    }
}

/// Whether datagrams can have runs of so many bytes.
fn check_datagrams(max_block: usize) -> Result<(), ConfigError> {
    if max_block > DEFAULT_BLOCK {
        return Err(ConfigError::Conflict("datagrams need a block limit of at most 65,536 bytes"));
    }
    Ok(())
}

impl Decoder {
    /// Parameters, with defaults for all.
    pub fn builder() -> DecoderBuilder {
        DecoderBuilder::default()
    }
}

/// Builds a [`Decoder`].
#[derive(Clone, Debug)]
pub struct DecoderBuilder {
    common: Common,
    inside: bool,
    kernels: Kernels,
}

impl Default for DecoderBuilder {
    fn default() -> DecoderBuilder {
        DecoderBuilder { common: Common::default(), inside: true, kernels: Kernels::detect() }
    }
}

impl DecoderBuilder {
    common_parameters!();

    /// Whether transcoded literals are accepted, which an encoder writes that looks inside deflate
    /// streams ([`EncoderBuilder::inside`]). Default true. They take about 8 MB,
    /// once used.
    pub fn inside(mut self, inside: bool) -> Self {
        self.inside = inside;
        self
    }

    /// The instruction set. Default the best that the machine has. What is decoded does not depend
    /// on it.
    pub fn kernels(mut self, kernels: Kernels) -> Self {
        self.kernels = kernels;
        self
    }

    /// Memory in bytes of one entropy context, once it is used.
    pub fn context_memory(&self) -> usize {
        ReadContext::memory(self.common.max_block)
    }

    /// Upper bound of the memory in bytes of a decoder with these parameters, whatever its input.
    pub fn memory(&self) -> DecoderMemory {
        let Common { cache, max_block, contexts, .. } = self.common;
        DecoderMemory {
            log: usize::try_from(cache).unwrap_or(usize::MAX),
            contexts: contexts.saturating_mul(self.context_memory()),
            inside: if self.inside { most_inside(contexts) } else { 0 },
            buffers: most_decoder_buffers(max_block, self.common.span),
        }
    }

    /// Builds the decoder.
    ///
    /// # Errors
    /// [`ConfigError`] for the first invalid parameter.
    pub fn build(self) -> Result<Decoder, ConfigError> {
        self.build_over(None)
    }

    /// Builds a decoder of frames in datagrams, for what
    /// [`EncoderBuilder::build_datagrams`] builds. Contexts do not matter.
    ///
    /// # Errors
    /// As [`DecoderBuilder::build`], and [`ConfigError::Conflict`] with a cache policy other than
    /// `all`.
    pub fn build_datagrams(self) -> Result<DatagramDecoder, ConfigError> {
        let geometry = self.common.geometry()?;
        if self.common.policy != CachePolicy::All {
            return Err(ConfigError::Conflict("datagrams need the cache policy `all`"));
        }
        check_datagrams(self.common.max_block)?;
        let Common { max_block, seed, .. } = self.common;
        Ok(DatagramDecoder::new(Log::new(geometry)?, max_block, seed, self.kernels))
    }

    /// Upper bound of the memory in bytes of what [`DecoderBuilder::build_datagrams`] builds, whatever
    /// its input. Each frozen context adds at most [`DatagramDecoder::CONTEXT_MEMORY`].
    pub fn datagrams_memory(&self) -> usize {
        DatagramDecoder::most_memory(self.common.cache, self.common.max_block)
    }

    /// As [`DecoderBuilder::build`]. If `content` is given, it is the log, so that nothing is copied
    /// into it: a file to which the caller appends each block before it decodes the next one. Frames
    /// must be in order, the cache policy is `all`, and there is no [`Decoder::rewind`].
    pub(crate) fn build_over(self, content: Option<FilePages>) -> Result<Decoder, ConfigError> {
        let geometry = self.common.geometry()?;
        let log = match content {
            Some(content) => Log::of_file(geometry, content),
            None => Log::new(geometry)?,
        };
        let mut assembler = Assembler::new(log, self.common.max_block, self.common.seed);
        assembler.policy = self.common.policy;
        let reader = FrameReader::new(self.kernels, self.common.contexts);
        Ok(Decoder::new(reader, assembler, self.common.max_block, self.inside))
    }
}
