//! [`EncoderBuilder::memory`] and [`DecoderBuilder::memory`] report in advance how much memory an
//! encoder or decoder will take.
//!
//! Logs and tables are mapped and not visible to the allocator; their real sizes are compared with
//! the reported ones. Everything else goes through Rust's allocator, which is counted, or through
//! zstd's, which reports its memory.
#![allow(missing_docs)]

mod common;

use allocation_counter::measure;
use common::content::{noise, text};
use common::params::Params;
use oncewire_codec::table::COMPACT_LIMIT;
use oncewire_codec::{
    CachePolicy, DEFAULT_BLOCK, Decoded, Decoder, Encoder, EncoderBuilder, Entropy,
};
use oncewire_family::BucketShape;
use oncewire_family::chunk::ChunkForm;
use oncewire_family::{FamilySearch, MatcherKind, SamplerKind, TableKind};

const PERIODS: [usize; 8] = [4, 5, 8, 31, 32, 64, 100, 1024];

/// Log sizes around those at which a table's slots lose a bit or become wider.
fn log_sizes() -> impl Iterator<Item = u64> {
    let steps = [16 << 20, 256 << 20, COMPACT_LIMIT, 4 << 30]
        .into_iter()
        .flat_map(|step| [step - 1, step, step + 1]);
    [1 << 20, 700_001].into_iter().chain(steps)
}

fn matchers() -> [MatcherKind; 3] {
    [
        MatcherKind::MaxMatch,
        MatcherKind::Published { max_fingerprints: None },
        MatcherKind::ChunkMatch { form: ChunkForm::StartsAtMarker },
    ]
}

/// Sizes after building are as reported. The pages are not touched, so this takes address space
/// only.
fn assert_kept(builder: &EncoderBuilder, what: &str) {
    let (promised, built) = (builder.memory(), builder.clone().build().unwrap().memory());
    assert_eq!((built.log, built.table), (promised.log, promised.table), "{what}");
    assert!(
        built.contexts <= promised.contexts && built.buffers <= promised.buffers,
        "{what}: {built:?}, {promised:?}"
    );
    assert!(promised.log > 0 && promised.table > 0, "{what}");
}

#[test]
fn log_and_table_are_exactly_as_large_as_promised() {
    for sampler in SamplerKind::all() {
        for period in PERIODS {
            for cache in log_sizes() {
                let builder =
                    Encoder::builder().sampler(sampler.clone()).period(period).cache(cache);
                assert_kept(
                    &builder,
                    &format!("{}, period {period}, log of {cache}", sampler.name()),
                );
            }
        }
    }
    for matcher in matchers() {
        for table in [
            TableKind::Compact,
            TableKind::Buckets(BucketShape { slots: 3, hashes: 2, factor: 1.3 }),
        ] {
            for entries in [None, Some(1), Some(100_003)] {
                let builder = Encoder::builder()
                    .search(FamilySearch::new(matcher).table(table))
                    .cache(3_000_017);
                let builder = if let Some(entries) = entries {
                    builder.table_entries(entries)
                } else {
                    builder
                };
                assert_kept(&builder, &format!("{matcher:?}, {table:?}, {entries:?} entries"));
            }
        }
    }
    assert_kept(
        &Encoder::builder().search(FamilySearch::new(matchers()[2]).backlog(99_999)),
        "a backlog",
    );
}

#[test]
fn tables_follow_sampler_and_period() {
    let share = |builder: EncoderBuilder| {
        let memory = builder.cache(256 << 20).memory();
        memory.table as f64 / memory.log as f64
    };
    let close = |a: f64, b: f64| assert!((a - b).abs() < 0.005, "{a}, not {b}");
    close(share(Encoder::builder()), 4.0 / (0.82 * 32.0));
    close(share(Encoder::builder().period(4)), 4.0 / (0.82 * 4.0));
    close(share(Encoder::builder().sampler(SamplerKind::sample_byte())), 4.0 / 19.0);
    let beyond = Encoder::builder().cache(COMPACT_LIMIT + 1).memory();
    close(beyond.table as f64 / beyond.log as f64, 8.0 / (0.82 * 32.0));
}

/// Zeros, which the published MODP marks at every byte; runs; text; random bytes; short repeats,
/// each a match; then all of it again.
fn unfriendly() -> Vec<Vec<u8>> {
    let text = text(1, DEFAULT_BLOCK);
    // Pieces of 13 bytes from all over the text, every second one moved: as many matches as
    // possible.
    let mixed: Vec<u8> = (0..DEFAULT_BLOCK / 13)
        .flat_map(|i| text[(i * 7919) % (DEFAULT_BLOCK - 13)..][..13].to_vec())
        .collect();
    let once = [
        text,
        mixed,
        common::content::text(2, DEFAULT_BLOCK),
        vec![0; DEFAULT_BLOCK],
        noise(2, DEFAULT_BLOCK),
        noise(3, 1),
        Vec::new(),
    ];
    [once.clone(), once].concat()
}

#[test]
fn allocations_stay_within_the_promise_whatever_the_content() {
    let blocks = unfriendly();
    let entropies = [
        Entropy::None,
        Entropy::Lz4,
        Entropy::Coded { level: 1 },
        Entropy::Coded { level: 2 },
        Entropy::Coded { level: 3 },
    ];
    for entropy in entropies {
        for matcher in matchers() {
            let policies = match matcher {
                MatcherKind::ChunkMatch { .. } => &[CachePolicy::All][..],
                _ => &[CachePolicy::All, CachePolicy::NewRuns { straddle: false }],
            };
            for &policy in policies {
                let sampler = SamplerKind::named("modp-published").unwrap();
                let params = Params {
                    cache: 300_007,
                    window: 12,
                    period: 4,
                    contexts: 3,
                    entropy,
                    matcher,
                    policy,
                    sampler,
                    ..Params::default()
                };
                let what = format!("{entropy}, {matcher:?}, {policy:?}");
                let (promised, promised_there) =
                    (params.encoder_builder().memory(), params.decoder_builder().memory());
                let mut frames = Vec::with_capacity(1 << 21);
                let mut ends = None;
                let counted = measure(|| {
                    let mut encoder = params.encoder();
                    for (i, block) in blocks.iter().enumerate() {
                        let start = frames.len();
                        encoder.encode_frame(block, i % 3).unwrap().append_to(&mut frames);
                        encoder.acknowledge(encoder.end());
                        assert!(
                            frames.len() - start < DEFAULT_BLOCK + 200 && frames.len() < 1 << 21
                        );
                    }
                    ends = Some(encoder);
                });
                let memory = ends.unwrap().memory();
                assert!(
                    memory.buffers <= promised.buffers,
                    "{what}: {memory:?}, promised {promised:?}"
                );
                assert!(
                    memory.contexts <= promised.contexts,
                    "{what}: {memory:?}, promised {promised:?}"
                );
                if matches!(entropy, Entropy::Coded { .. }) {
                    assert!(
                        memory.contexts > promised.contexts / 4,
                        "{what}: all contexts were used"
                    );
                }
                // The memory still allocated is what the encoder reports.
                let reported = memory.buffers + memory.contexts;
                assert!(
                    counted.bytes_current as usize <= reported + (16 << 10),
                    "{what}: {counted:?}, {memory:?}"
                );

                let mut decoder = params.decoder();
                let mut rest = &frames[..];
                while !rest.is_empty() {
                    let Ok(Decoded::Block { consumed, .. }) = decoder.decode(rest) else {
                        panic!("{what}")
                    };
                    rest = &rest[consumed..];
                }
                let memory = decoder.memory();
                assert_eq!(memory.log, promised_there.log);
                assert!(
                    memory.buffers <= promised_there.buffers,
                    "{what}: {memory:?}, promised {promised_there:?}"
                );
                assert!(
                    memory.contexts <= promised_there.contexts,
                    "{what}: {memory:?}, promised {promised_there:?}"
                );
                if matches!(entropy, Entropy::Coded { .. }) {
                    assert!(
                        memory.contexts > promised_there.contexts / 4,
                        "{what}: all contexts were used"
                    );
                }
            }
        }
    }
}

#[test]
fn a_decoder_takes_the_reported_memory_for_any_log() {
    for cache in log_sizes() {
        let builder = Decoder::builder().cache(cache).span(cache / 4).contexts(8);
        let (promised, built) = (builder.memory(), builder.build().unwrap().memory());
        assert_eq!(built.log, promised.log);
        assert!(
            built.contexts <= promised.contexts && built.buffers <= promised.buffers,
            "{built:?}, {promised:?}"
        );
    }
}
