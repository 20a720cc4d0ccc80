//! Coding a block allocates nothing once all buffers have their size.
//!
//! Counts allocations through Rust's allocator on the test's own thread. zstd's library allocates
//! in C, which this does not see; it does so when a context is first used, and
//! [`oncewire_codec::EncoderMemory`] reports how much.
#![allow(missing_docs)]

mod common;

use allocation_counter::{AllocationInfo, measure};
use common::content::{noise, text};
use common::params::Params;
use oncewire_codec::{DEFAULT_BLOCK, Decoded, Entropy};
use oncewire_family::chunk::ChunkForm;
use oncewire_family::{FamilySearch, MatcherKind, SamplerKind};

/// Text, random bytes, repeats and edits of both, and runs; in sizes from zero to the largest
/// block.
fn blocks() -> Vec<Vec<u8>> {
    let mut blocks = Vec::new();
    for i in 0..6u64 {
        let fresh = [text(i, 40_000), noise(i, 20_000)].concat();
        let mut edited = fresh.clone();
        edited.iter_mut().step_by(777).for_each(|byte| *byte ^= 1);
        blocks.extend([
            fresh.clone(),
            edited,
            fresh[10_000..45_000].to_vec(),
            vec![b' '; DEFAULT_BLOCK],
            text(i + 10, DEFAULT_BLOCK),
            noise(i + 10, DEFAULT_BLOCK),
            text(i + 20, 1448),
            noise(i + 20, 1448),
            Vec::new(),
        ]);
    }
    blocks
}

fn assert_none(info: AllocationInfo, what: &str) {
    assert_eq!((info.count_total, info.bytes_total), (0, 0), "{what} allocates");
}

#[test]
fn a_block_allocates_nothing_at_either_end() {
    let blocks = blocks();
    for sampler in [SamplerKind::sample_byte(), SamplerKind::Fixed] {
        for entropy in
            [Entropy::None, Entropy::Lz4, Entropy::Coded { level: 1 }, Entropy::Coded { level: 3 }]
        {
            // Smaller than the content, so that the steady state includes padding and evictions.
            let params = Params {
                cache: 700_001,
                entropy,
                sampler: sampler.clone(),
                explicit: true,
                ..Params::default()
            };
            let (mut encoder, mut decoder) = (params.encoder(), params.decoder());
            let mut frame = Vec::with_capacity(DEFAULT_BLOCK + 1000);
            let content: u64 = blocks.iter().map(|block| block.len() as u64).sum();
            assert!(content > 2 * params.cache);
            for generation in 0..4 {
                for (i, block) in blocks.iter().enumerate() {
                    frame.clear();
                    let encoding = measure(|| encoder.encode(block, &mut frame).unwrap());
                    let decoding = measure(|| {
                        let Ok(Decoded::Block { content, .. }) = decoder.decode(&frame) else {
                            panic!("the frame is whole")
                        };
                        assert!(content == block);
                    });
                    if generation > 1 {
                        assert_none(encoding, &format!("{entropy}: encoding block {i}"));
                        assert_none(
                            decoding,
                            &format!(
                                "{entropy}: decoding block {i}, frame flags {:#04x},",
                                frame[0]
                            ),
                        );
                    }
                }
            }
        }
    }
}

#[test]
fn a_block_of_chunks_allocates_nothing_and_neither_do_acknowledgements() {
    let blocks = blocks();
    for form in [ChunkForm::StartsAtMarker, ChunkForm::EndsWithWindow] {
        let params =
            Params { cache: 700_001, entropy: Entropy::None, explicit: true, ..Params::default() };
        let builder = params
            .encoder_builder()
            .search(FamilySearch::new(MatcherKind::ChunkMatch { form }).backlog(75_000));
        let (mut encoder, mut decoder) = (builder.build().unwrap(), params.decoder());
        let mut frame = Vec::with_capacity(DEFAULT_BLOCK + 1000);
        for generation in 0..4 {
            for (i, block) in blocks.iter().enumerate() {
                frame.clear();
                let encoding = measure(|| encoder.encode(block, &mut frame).unwrap());
                let Ok(Decoded::Block { content, .. }) = decoder.decode(&frame) else {
                    panic!("the frame is whole")
                };
                assert!(content == block);
                // Late and irregular, so that the backlog wraps and drops content.
                let low =
                    if i % 2 == 0 { decoder.acknowledged().saturating_sub(30_000) } else { 0 };
                let acknowledging = measure(|| encoder.acknowledge(low));
                if generation > 1 {
                    assert_none(encoding, &format!("{form:?}: encoding block {i}"));
                    assert_none(acknowledging, "acknowledging");
                }
            }
        }
        assert!(encoder.stats().matches > 100);
    }
}

#[test]
fn waiting_for_bytes_or_content_allocates_nothing() {
    let params = Params { cache: 1 << 20, span: 1 << 18, explicit: true, ..Params::default() };
    let (mut encoder, mut decoder) = (params.encoder(), params.decoder());
    let (first, second) = (
        text(1, DEFAULT_BLOCK),
        [text(2, 100), text(1, 30_000), text(3, 100), text(1, 30_000)].concat(),
    );
    let (mut early, mut late) = (Vec::new(), Vec::new());
    encoder.encode(&first, &mut early).unwrap();
    // Decoding it before the first would require a separate context; without one it can at least
    // wait.
    encoder.reset_context(0).unwrap();
    encoder.encode(&second, &mut late).unwrap();
    assert!(matches!(decoder.decode(&late), Ok(Decoded::Missing(_))));
    let waiting = measure(|| {
        assert!(matches!(decoder.decode(&late), Ok(Decoded::Missing(_))));
        assert!(matches!(decoder.decode(&early[..100]), Ok(Decoded::NeedMore(_))));
    });
    assert_none(waiting, "waiting");
    assert!(matches!(decoder.decode(&early), Ok(Decoded::Block { .. })));
    assert!(matches!(decoder.decode(&late), Ok(Decoded::Block { .. })));
}
