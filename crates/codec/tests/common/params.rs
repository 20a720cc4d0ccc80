//! Parameters of an encoder and a decoder, mostly unusual ones.

use oncewire_codec::{
    ByteSet, CachePolicy, ChecksumSeed, Decoder, DecoderBuilder, Encoder, EncoderBuilder, Entropy,
    Kernels,
};
use oncewire_family::BucketShape;
use oncewire_family::chunk::ChunkForm;
use oncewire_family::{FamilySearch, MatcherKind, SamplerKind, TableKind};
use proptest::prelude::*;

#[derive(Clone, Debug)]
pub(crate) struct Params {
    pub(crate) cache: u64,
    pub(crate) span: u64,
    pub(crate) max_block: usize,
    pub(crate) window: usize,
    pub(crate) period: usize,
    pub(crate) sampler: SamplerKind,
    pub(crate) entropy: Entropy,
    pub(crate) contexts: usize,
    pub(crate) explicit: bool,
    pub(crate) table_entries: Option<u64>,
    pub(crate) seed: ChecksumSeed,
    pub(crate) key: u64,
    pub(crate) matcher: MatcherKind,
    pub(crate) table: TableKind,
    pub(crate) max_matches: Option<usize>,
    pub(crate) policy: CachePolicy,
}

impl Default for Params {
    fn default() -> Params {
        Params {
            cache: 1 << 20,
            span: 0,
            max_block: oncewire_codec::DEFAULT_BLOCK,
            window: oncewire_codec::DEFAULT_WINDOW,
            period: oncewire_codec::DEFAULT_PERIOD,
            sampler: SamplerKind::sample_byte(),
            entropy: Entropy::DEFAULT,
            contexts: 1,
            explicit: false,
            table_entries: None,
            seed: ChecksumSeed::default(),
            key: 0,
            matcher: MatcherKind::default(),
            table: TableKind::default(),
            max_matches: None,
            policy: CachePolicy::All,
        }
    }
}

impl Params {
    pub(crate) fn encoder_builder(&self) -> EncoderBuilder {
        let builder = Encoder::builder()
            .cache(self.cache)
            .span(self.span)
            .max_block(self.max_block)
            .checksum_seed(self.seed)
            .contexts(self.contexts)
            .window(self.window)
            .period(self.period)
            .sampler(self.sampler.clone())
            .entropy(self.entropy)
            .explicit_offsets(self.explicit)
            .fingerprint_key(self.key)
            .search(FamilySearch::new(self.matcher).table(self.table))
            .policy(self.policy);
        let builder = match self.max_matches {
            Some(matches) => builder.max_matches(matches),
            None => builder,
        };
        match self.table_entries {
            Some(entries) => builder.table_entries(entries),
            None => builder,
        }
    }

    pub(crate) fn encoder(&self) -> Encoder {
        self.encoder_builder().build().unwrap()
    }

    pub(crate) fn encoder_at(&self, kernels: Kernels) -> Encoder {
        self.encoder_builder().kernels(kernels).build().unwrap()
    }

    pub(crate) fn decoder_builder(&self) -> DecoderBuilder {
        Decoder::builder()
            .cache(self.cache)
            .span(self.span)
            .max_block(self.max_block)
            .checksum_seed(self.seed)
            .contexts(self.contexts)
            .policy(self.policy)
    }

    pub(crate) fn decoder(&self) -> Decoder {
        self.decoder_builder().build().unwrap()
    }

    pub(crate) fn decoder_at(&self, kernels: Kernels) -> Decoder {
        self.decoder_builder().kernels(kernels).build().unwrap()
    }

    /// Upper bound on the memory of a decoder with these parameters.
    pub(crate) fn decoder_bound(&self) -> usize {
        self.decoder_builder().memory().total()
    }
}

pub(crate) fn entropy() -> impl Strategy<Value = Entropy> {
    prop_oneof![
        2 => Just(Entropy::None),
        2 => Just(Entropy::Lz4),
        4 => (1i32..=3).prop_map(|level| Entropy::Coded { level }),
    ]
}

fn sampler() -> impl Strategy<Value = SamplerKind> {
    let members = proptest::collection::vec(any::<u8>(), 0..60);
    prop_oneof![
        4 => Just(SamplerKind::sample_byte()),
        2 => members.prop_map(|members| SamplerKind::SampleByte(members.into_iter().collect())),
        1 => Just(SamplerKind::SampleByte((0..=255).collect::<ByteSet>())),
        2 => Just(SamplerKind::Fixed),
        4 => proptest::sample::select(SamplerKind::all().collect::<Vec<_>>()),
    ]
}

fn matcher() -> impl Strategy<Value = MatcherKind> {
    let most = prop_oneof![2 => Just(None), 1 => (0usize..40).prop_map(Some)];
    prop_oneof![
        3 => Just(MatcherKind::MaxMatch),
        1 => most.prop_map(|max_fingerprints| MatcherKind::Published { max_fingerprints }),
        1 => prop_oneof![Just(ChunkForm::StartsAtMarker), Just(ChunkForm::EndsWithWindow)]
            .prop_map(|form| MatcherKind::ChunkMatch { form }),
    ]
}

fn table() -> impl Strategy<Value = TableKind> {
    let buckets = (1usize..=8, 1usize..=4, 0.25f64..4.0);
    prop_oneof![
        3 => Just(TableKind::Compact),
        1 => buckets.prop_map(|(slots, hashes, factor)| TableKind::Buckets(BucketShape { slots, hashes, factor })),
    ]
}

/// The policies that keep only new content.
pub(crate) fn new_content() -> impl Strategy<Value = CachePolicy> {
    prop_oneof![
        any::<bool>().prop_map(|straddle| CachePolicy::NewRuns { straddle }),
        (1u8..=100).prop_map(|below_percent| CachePolicy::NewBlocks { below_percent }),
    ]
}

pub(crate) fn period() -> impl Strategy<Value = usize> {
    prop_oneof![Just(32usize), 4usize..40, 4usize..=1024]
}

/// Caches of about one block, of a few blocks, and of many; spans from zero to the largest.
pub(crate) fn sizes(
    max_block: impl Strategy<Value = usize>,
) -> impl Strategy<Value = (u64, u64, usize)> {
    let blocks = prop_oneof![2 => Just(1usize), 2 => 1usize..4, 3 => 3usize..30];
    (max_block, blocks, 0usize..=1000, 0u64..=4).prop_map(|(max_block, blocks, more, spans)| {
        // Not a multiple of the block size, and rarely of anything else.
        let cache = (max_block * blocks + max_block * more / 1000) as u64;
        let span = (cache / 4).min(cache - max_block as u64) * spans / 4;
        (cache, span, max_block)
    })
}

pub(crate) fn max_block() -> impl Strategy<Value = usize> {
    prop_oneof![
        3 => 1usize..700,
        4 => 300usize..6000,
        1 => 6000usize..=65536,
        1 => Just(65536usize),
    ]
}

pub(crate) fn params(max_block: impl Strategy<Value = usize>) -> impl Strategy<Value = Params> {
    let ends = (sizes(max_block), 1usize..5, any::<bool>(), any::<u64>(), 0u64..3);
    let choices = (prop_oneof![Just(32usize), 12usize..=64], period(), sampler(), entropy());
    let table = prop_oneof![3 => Just(None), 1 => (1u64..2000).prop_map(Some)];
    let family =
        (matcher(), self::table(), prop_oneof![3 => Just(None), 1 => (0usize..8).prop_map(Some)]);
    (ends, choices, table, any::<u64>(), family).prop_map(
        |(ends, choices, table_entries, key, family)| {
            let ((cache, span, max_block), contexts, explicit, session, epoch) = ends;
            let (window, period, sampler, entropy) = choices;
            let (matcher, table, max_matches) = family;
            let seed = ChecksumSeed { session, epoch };
            let policy = CachePolicy::All;
            Params {
                cache,
                span,
                max_block,
                window,
                period,
                sampler,
                entropy,
                contexts,
                explicit,
                table_entries,
                seed,
                key,
                matcher,
                table,
                max_matches,
                policy,
            }
        },
    )
}
