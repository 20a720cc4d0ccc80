//! What needs to look inside: the chunker against its definition, and names that collide.

use super::*;
use crate::{FamilySearch, MatcherKind, SamplerKind};
use oncewire_codec::sampler::Sampling;
use oncewire_codec::search::{Search, SearchSettings, Searcher};
use oncewire_codec::{ChecksumSeed, Decoded, Decoder, Encoder, Entropy, FrameError};
use proptest::prelude::*;

/// Text-like bytes with runs.
fn content(seed: u64, len: usize) -> Vec<u8> {
    let mut rng = fastrand::Rng::with_seed(seed);
    let mut out = Vec::with_capacity(len);
    while out.len() < len {
        let run = if rng.u8(..16) == 0 { rng.usize(..400) } else { 1 };
        out.extend(std::iter::repeat_n(rng.u8(b'a'..=b'z'), run));
    }
    out.truncate(len);
    out
}

fn samplers() -> Vec<SamplerKind> {
    use SamplerKind::{FastCdc, Fixed, Gear, Maxp, Modp};
    vec![SamplerKind::sample_byte(), Fixed, Modp(Default::default()), Maxp, Gear, FastCdc]
}

/// The definition: boundaries at all markers (or behind their windows) that are not too close to
/// the one before, and at the end; what lies between is cut at 256 bytes, but leaves nothing short.
fn plain_chunks(
    sampler: &dyn Sampler,
    form: ChunkForm,
    window: usize,
    period: usize,
    block: &[u8],
) -> Vec<Chunk> {
    let mut markers = vec![0; block.len() + 1];
    let sampling = Sampling { kernels: Kernels::detect(), block, window, period, from: 0 };
    let found = sampler.sample(sampling, &mut markers);
    let mut boundaries: Vec<usize> =
        markers[..found.count].iter().map(|&marker| marker as usize).collect();
    if form == ChunkForm::EndsWithWindow {
        boundaries.iter_mut().for_each(|boundary| *boundary += window);
    }
    boundaries.push(block.len());
    let (mut chunks, mut start) = (Vec::new(), 0);
    for boundary in boundaries {
        if boundary < start + CHUNK_MIN && boundary != block.len() {
            continue;
        }
        while start < boundary {
            let left = boundary - start;
            let len = if left <= 256 {
                left
            } else if left < 268 {
                left - 12
            } else {
                256
            };
            chunks.push(Chunk { at: start as u32, len: len as u32 });
            start += len;
        }
    }
    chunks.retain(|chunk| chunk.len as usize >= CHUNK_MIN);
    chunks
}

proptest! {
    #[test]
    fn chunks_are_those_of_the_definition(
        seed: u64,
        len in 0usize..9000,
        window in 12usize..=64,
        period in prop_oneof![4usize..100, 100usize..=1024],
        ends: bool,
        sampler in 0usize..6,
    ) {
        let block = content(seed, len);
        let form = if ends { ChunkForm::EndsWithWindow } else { ChunkForm::StartsAtMarker };
        let sampler = samplers().swap_remove(sampler).boxed();
        let mut chunker = Chunker {
            sampler: &*sampler,
            form,
            kernels: Kernels::detect(),
            window,
            density: Density::Period(period),
            block: &block,
            markers: &mut [0; BATCH],
            found: 0,
            used: 0,
            resume: Some(0),
            start: 0,
            boundary: 0,
        };
        let (mut all, mut chunks) = (Vec::new(), [Chunk::default(); BATCH]);
        loop {
            let count = chunker.fill(&mut chunks);
            if count == 0 {
                break;
            }
            all.extend_from_slice(&chunks[..count]);
        }
        prop_assert_eq!(all, plain_chunks(&*sampler, form, window, period, &block));
    }
}

#[test]
fn the_default_table_takes_at_most_38_percent_of_the_cache_at_a_period_of_64() {
    for cache in [64 << 10, 1 << 20, 1_000_003, 256 << 20, 1 << 40] {
        let bytes = default_entries(cache, 64).div_ceil(3) * 64;
        assert!(bytes * 100 <= cache * 38 && bytes * 100 >= cache * 37, "{bytes} for {cache}");
    }
    assert_eq!(default_entries(10, 1024), 1);
}

/// Chunk-match whose names lose the bits that are 0 in the mask.
#[derive(Debug)]
struct Weak(FamilySearch, [u64; 2]);

impl Search for Weak {
    fn memory(&self, settings: &SearchSettings) -> SearchMemory {
        self.0.memory(settings)
    }

    fn build(
        &self,
        settings: &SearchSettings,
        geometry: Geometry,
    ) -> Result<Searcher, ConfigError> {
        let mut chunks = self.0.chunk_match(ChunkForm::StartsAtMarker, settings, geometry)?;
        chunks.weak = self.1;
        Ok(Searcher::Store(Box::new(chunks)))
    }
}

/// An encoder whose names have few bits, so that different chunks share them.
fn weak_encoder(bits: u64) -> Encoder {
    // The high bits, which choose the bucket.
    let search = Weak(FamilySearch::default(), [!0 << (64 - bits), 0]);
    let builder = Encoder::builder()
        .cache(1 << 20)
        .entropy(Entropy::None)
        .explicit_offsets(true)
        .search(search);
    builder.span(1 << 18).build().unwrap()
}

#[test]
fn a_collision_is_a_checksum_error_and_can_be_repaired() {
    let mut encoder = weak_encoder(6);
    let mut decoder = Decoder::builder().cache(1 << 20).span(1 << 18).build().unwrap();
    let (mut collisions, mut frame) = (0, Vec::new());
    for seed in 0..200 {
        let block = content(seed, 3000);
        frame.clear();
        let offset = encoder.end();
        encoder.encode(&block, &mut frame).unwrap();
        match decoder.decode(&frame) {
            Ok(Decoded::Block { content, .. }) => assert!(content == block),
            Err(FrameError::Checksum { .. }) => {
                collisions += 1;
                let mut repair = Vec::new();
                encoder.repair(offset, block.len(), &mut repair).unwrap();
                let Ok(Decoded::Block { offset: at, content, .. }) = decoder.decode(&repair) else {
                    panic!("a repair is literal")
                };
                assert!(at == offset && content == block);
            }
            other => panic!("{other:?}"),
        }
        encoder.acknowledge(decoder.acknowledged());
        assert_eq!(decoder.acknowledged(), encoder.end());
    }
    assert!(collisions > 20, "{collisions}");
}

#[test]
fn with_all_bits_of_the_name_none_collide() {
    let mut encoder = weak_encoder(64);
    let mut decoder = Decoder::builder().cache(1 << 20).span(1 << 18).build().unwrap();
    for seed in 0..200 {
        let (block, mut frame) = (content(seed % 20, 3000), Vec::new());
        encoder.encode(&block, &mut frame).unwrap();
        let Ok(Decoded::Block { content, .. }) = decoder.decode(&frame) else {
            panic!("block {seed}")
        };
        assert!(content == block);
        encoder.acknowledge(decoder.acknowledged());
    }
    assert!(encoder.stats().matched_bytes > 500_000, "{:?}", encoder.stats());
}

#[test]
fn what_was_forgotten_is_not_referred_to() {
    let form = ChunkForm::EndsWithWindow;
    let builder = Encoder::builder()
        .cache(100_000)
        .span(25_000)
        .max_block(9000)
        .search(FamilySearch::new(MatcherKind::ChunkMatch { form }));
    let mut encoder = builder.build().unwrap();
    let mut decoder =
        Decoder::builder().cache(100_000).span(25_000).max_block(9000).build().unwrap();
    for round in 0..40u64 {
        let seed = ChecksumSeed { session: 1, epoch: round };
        // Some that arrive, then some that do not.
        for i in 0..5 {
            let (block, mut frame) = (content(round % 7 + i, 3000), Vec::new());
            encoder.encode(&block, &mut frame).unwrap();
            let answer = decoder.decode(&frame);
            assert!(
                matches!(answer, Ok(Decoded::Block { content, .. }) if content == block),
                "round {round}: {answer:?}"
            );
            encoder.acknowledge(decoder.acknowledged());
        }
        for i in 0..7 {
            encoder.encode(&content(1000 + round + i, 3000), &mut Vec::new()).unwrap();
        }
        // Refused where the log began a new generation above it: then the two ends begin with empty
        // logs.
        match encoder.rewind(decoder.acknowledged(), seed) {
            Ok(()) => decoder.rewind(seed),
            Err(EncodeError::NotHeld { .. }) => {
                encoder = builder_again(form, seed);
                decoder = Decoder::builder()
                    .cache(100_000)
                    .span(25_000)
                    .max_block(9000)
                    .checksum_seed(seed)
                    .build()
                    .unwrap();
            }
            Err(other) => panic!("{other}"),
        }
    }
}

fn builder_again(form: ChunkForm, seed: ChecksumSeed) -> Encoder {
    let builder = Encoder::builder()
        .cache(100_000)
        .span(25_000)
        .max_block(9000)
        .search(FamilySearch::new(MatcherKind::ChunkMatch { form }));
    builder.checksum_seed(seed).build().unwrap()
}

#[test]
fn of_earlier_blocks_it_finds_nothing_within_one_and_all_copies_of_one_before() {
    let part: Vec<u8> = (0..400u64)
        .flat_map(|i| (i * i).wrapping_mul(0x9e37_79b9_7f4a_7c15).to_le_bytes())
        .collect();
    let blocks = [part.repeat(2), part.repeat(3)];
    let saved = |earlier| {
        let form = ChunkForm::StartsAtMarker;
        let search = FamilySearch::new(MatcherKind::ChunkMatch { form }).earlier_blocks(earlier);
        let builder = Encoder::builder().cache(100_000).search(search);
        let mut finder = builder.build_halves().unwrap().0;
        blocks.each_ref().map(|block| {
            let mut tokens = oncewire_codec::Tokens::default();
            finder.find(block, &mut tokens).unwrap();
            finder.acknowledge(tokens.offset() + block.len() as u64);
            tokens.matches().iter().map(|found| found.len).sum::<u32>()
        })
    };
    let (within, earlier) = (saved(false), saved(true));
    assert!(within[0] > 2500 && within[1] > 8500, "{within:?}");
    assert!(earlier[0] == 0 && earlier[1] > 8500, "{earlier:?}");
}
