//! Cache policies: both ends keep the same part of each block, and kept content is found again.

use crate::common::config;
use crate::common::content::{History, Piece, noise, piece, text};
use crate::common::params::{Params, max_block, new_content, params};
use oncewire_codec::{CachePolicy, Decoded, Decoder, EncodeError, Encoder, FrameView, Scan};
use oncewire_family::MatcherKind;
use proptest::prelude::*;

fn send(encoder: &mut Encoder, decoder: &mut Decoder, block: &[u8]) -> usize {
    let mut frame = Vec::new();
    encoder.encode(block, &mut frame).unwrap();
    match decoder.decode(&frame) {
        Ok(Decoded::Block { content, .. }) => assert!(content == block, "content differs"),
        other => panic!("{other:?}"),
    }
    frame.len()
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn blocks_decode_with_any_policy(
        params in params(max_block()),
        policy in new_content(),
        turns in proptest::collection::vec(proptest::collection::vec(piece(), 0..5), 1..40),
    ) {
        let params = Params { policy, span: 0, ..params };
        // Chunk-match does not support selective policies.
        if params.encoder_builder().build().is_err() {
            let chunks = matches!(params.matcher, MatcherKind::ChunkMatch { .. });
            prop_assert!(chunks);
            return Ok(());
        }
        let (mut encoder, mut decoder) = (params.encoder(), params.decoder());
        let mut history = History::default();
        let mut end = 0u64;
        for pieces in turns {
            let pieces: Vec<Piece> = pieces;
            let block = history.block(&pieces, params.max_block, params.cache);
            let before = encoder.stats();
            let mut frame = Vec::new();
            encoder.encode(&block, &mut frame).unwrap();
            let matched = (encoder.stats().matched_bytes - before.matched_bytes) as usize;
            let offset = crate::common::place(params.cache, end, block.len());
            let Scan::Frame(view) = FrameView::scan(&frame, params.max_block).unwrap() else { panic!("the frame is whole") };
            prop_assert_eq!(view.explicit_offset(), params.explicit.then_some((offset, offset - end)));
            let Ok(Decoded::Block { offset: at, content, .. }) = decoder.decode(&frame) else {
                panic!("block at {offset} does not decode")
            };
            prop_assert!(content == block);
            prop_assert_eq!(at, offset);
            let kept = match policy {
                CachePolicy::All => block.len(),
                CachePolicy::NewRuns { .. } => block.len() - matched,
                CachePolicy::NewBlocks { below_percent } if matched * 100 < block.len() * usize::from(below_percent) => block.len(),
                CachePolicy::NewBlocks { .. } => 0,
            };
            end = offset + kept as u64;
            prop_assert_eq!((encoder.end(), decoder.acknowledged()), (end, end));
        }
    }
}

#[test]
fn repeats_leave_nothing_in_a_log_of_new_content() {
    let (a, b) = (noise(1, 60_000), text(2, 60_000));
    for policy in [
        CachePolicy::NewRuns { straddle: true },
        CachePolicy::NewRuns { straddle: false },
        CachePolicy::NewBlocks { below_percent: 90 },
    ] {
        // Room for both, and for the current block.
        let params = Params { cache: 190_000, policy, ..Params::default() };
        let (mut encoder, mut decoder) = (params.encoder(), params.decoder());
        send(&mut encoder, &mut decoder, &a);
        for _ in 0..5 {
            send(&mut encoder, &mut decoder, &b);
        }
        let again = send(&mut encoder, &mut decoder, &a);
        assert!(again < 1500, "{policy:?}: {again}");
        assert!(encoder.end() <= 125_000, "{policy:?}: {}", encoder.end());
        // With all content kept, repeats of the second object have evicted the first.
        let params = Params { policy: CachePolicy::All, ..params };
        let (mut encoder, mut decoder) = (params.encoder(), params.decoder());
        send(&mut encoder, &mut decoder, &a);
        for _ in 0..5 {
            send(&mut encoder, &mut decoder, &b);
        }
        assert!(send(&mut encoder, &mut decoder, &a) > 50_000);
    }
}

#[test]
fn primed_content_enters_both_logs_completely_and_is_found() {
    let unit = text(7, 3000);
    // It repeats itself and is given twice, so an encoder that searched it for matches would keep
    // less than the decoder.
    let given = [&unit[..], &text(8, 2000), &unit].concat();
    for policy in
        [CachePolicy::NewRuns { straddle: false }, CachePolicy::NewBlocks { below_percent: 30 }]
    {
        for published in [false, true] {
            let matcher = if published {
                MatcherKind::Published { max_fingerprints: None }
            } else {
                MatcherKind::MaxMatch
            };
            let params =
                Params { cache: 40_007, max_block: 1000, policy, matcher, ..Params::default() };
            let (mut encoder, mut decoder) = (params.encoder(), params.decoder());
            for _ in 0..2 {
                encoder.prime(&given).unwrap();
                decoder.prime(&given);
            }
            assert_eq!((encoder.end(), decoder.acknowledged()), (16_000, 16_000));
            assert_eq!(encoder.stats().blocks, 0);
            let sent: usize =
                given.chunks(1000).map(|block| send(&mut encoder, &mut decoder, block)).sum();
            assert!(sent < 600, "{policy:?}: {sent}");
        }
    }
}

#[test]
fn matches_that_do_not_pay_are_sent_if_they_decide_what_is_kept() {
    let unit = text(9, 600);
    for policy in [
        CachePolicy::NewRuns { straddle: true },
        CachePolicy::NewBlocks { below_percent: 50 },
        CachePolicy::All,
    ] {
        let params = Params { cache: 4001, max_block: 600, policy, ..Params::default() };
        let (mut encoder, mut decoder) = (params.encoder(), params.decoder());
        send(&mut encoder, &mut decoder, &unit);
        send(&mut encoder, &mut decoder, &unit[..300]);
        // Each continues where the previous match ended; a match of one byte takes four.
        let before = encoder.stats().matches;
        for at in 300..400 {
            send(&mut encoder, &mut decoder, &unit[at..at + 1]);
        }
        assert_eq!(encoder.stats().matches - before, 100);
        assert_eq!(
            encoder.end(),
            if policy == CachePolicy::All { 1000 } else { 600 },
            "{policy:?}"
        );
        assert_eq!(decoder.acknowledged(), encoder.end());
    }
}

#[test]
fn windows_across_joins_are_found_only_if_indexed() {
    // Runs of twenty bytes, shorter than a window, between matches; then the same runs next to each
    // other.
    let known = noise(1, 4000);
    let new = noise(2, 2000);
    let mixed: Vec<u8> = new
        .chunks(20)
        .zip(known.chunks(40))
        .flat_map(|(new, known)| [new, known].concat())
        .collect();
    let sent = |straddle| {
        let policy = CachePolicy::NewRuns { straddle };
        let params = Params {
            policy,
            entropy: oncewire_codec::Entropy::None,
            period: 4,
            window: 32,
            ..Params::default()
        };
        let (mut encoder, mut decoder) = (params.encoder(), params.decoder());
        for block in known.chunks(400).chain(mixed.chunks(400)) {
            send(&mut encoder, &mut decoder, block);
        }
        new.chunks(400).map(|block| send(&mut encoder, &mut decoder, block)).sum::<usize>()
    };
    // Without joins, only runs that became longer than a window at block ends are found; with
    // joins, all that lay within one block.
    assert!(sent(true) < 1500 && sent(false) > 1900, "{} and {}", sent(true), sent(false));
}

#[test]
fn content_not_kept_cannot_be_repaired() {
    let params = Params { policy: CachePolicy::NewRuns { straddle: true }, ..Params::default() };
    let mut encoder = params.encoder();
    encoder.encode(&text(1, 1000), &mut Vec::new()).unwrap();
    assert_eq!(
        encoder.repair(0, 1000, &mut Vec::new()),
        Err(EncodeError::NotHeld { offset: 0, len: 1000 })
    );
    assert_eq!(encoder.content(0..1000), None);
    let out_of_order = Params { span: 1000, ..params };
    assert!(out_of_order.encoder_builder().build().is_err());
    assert!(out_of_order.decoder_builder().build().is_err());
}

/// Primed content is kept completely: the decoder does not know which parts of it repeat.
#[test]
fn primed_content_is_kept_whole_at_both_ends() {
    let base = text(1, 5000).repeat(4);
    for policy in [
        CachePolicy::NewRuns { straddle: true },
        CachePolicy::NewRuns { straddle: false },
        CachePolicy::NewBlocks { below_percent: 10 },
    ] {
        let params = Params { policy, max_block: 4000, ..Params::default() };
        let (mut encoder, mut decoder) = (params.encoder(), params.decoder());
        encoder.prime(&base).unwrap();
        decoder.prime(&base);
        assert_eq!((encoder.end(), decoder.acknowledged()), (20_000, 20_000), "{policy:?}");
        assert!(send(&mut encoder, &mut decoder, &base[100..4000]) < 100);
    }
}
