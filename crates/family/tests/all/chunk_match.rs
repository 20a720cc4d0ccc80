//! Chunk-match: round trips, references to acknowledged content only, and the size of the backlog.

use crate::common::config_divided;
use crate::common::content::{History, Piece, noise, piece, text};
use crate::common::params::{Params, max_block, params};
use oncewire_codec::{
    ChecksumSeed, ConfigError, DEFAULT_BLOCK, Decoded, Decoder, EncodeError, Encoder,
    EncoderBuilder, Entropy, FrameView, Kernels, Scan, Tokens,
};
use oncewire_family::chunk::ChunkForm;
use oncewire_family::{FamilySearch, MatcherKind};
use proptest::prelude::*;

const FORMS: [ChunkForm; 2] = [ChunkForm::StartsAtMarker, ChunkForm::EndsWithWindow];

fn search(form: ChunkForm) -> FamilySearch {
    FamilySearch::new(MatcherKind::ChunkMatch { form }).chunk_key([7; 16])
}

fn builder(params: &Params, form: ChunkForm) -> EncoderBuilder {
    params.encoder_builder().search(search(form))
}

#[derive(Clone, Debug)]
struct Turn {
    pieces: Vec<Piece>,
    context: usize,
    /// The frame arrives corrupt, and is repaired if possible.
    damaged: bool,
    /// The share of earlier blocks that is acknowledged before this one, in sixteenths.
    acknowledged: u64,
}

fn turn() -> impl Strategy<Value = Turn> {
    (proptest::collection::vec(piece(), 0..5), 0usize..4, prop::bool::weighted(0.1), 0u64..=20)
        .prop_map(|(pieces, context, damaged, acknowledged)| Turn {
            pieces,
            context,
            damaged,
            acknowledged,
        })
}

proptest! {
    #![proptest_config(config_divided(2))]

    #[test]
    fn blocks_decode_and_reference_only_acknowledged_content(
        params in params(max_block()),
        starts: bool,
        backlog in 0u64..=1000,
        turns in proptest::collection::vec(turn(), 1..40),
    ) {
        let form = FORMS[usize::from(starts)];
        let backlog = params.max_block as u64 + (params.cache - params.max_block as u64) * backlog / 1000;
        let builder = builder(&params, form).search(search(form).backlog(backlog));
        let mut encoders: Vec<Encoder> =
            Kernels::available().map(|kernels| builder.clone().kernels(kernels).build().unwrap()).collect();
        let (mut finder, mut writer) = builder.clone().build_halves().unwrap();
        let mut tokens = Tokens::default();
        let mut decoder = params.decoder();
        let mut history = History::default();
        // All content by offset, including padding.
        let mut log: Vec<u8> = Vec::new();
        // Ends of blocks, and which of them are acknowledged.
        let (mut ends, mut acknowledged) = (vec![0u64], 0u64);

        for Turn { pieces, context, damaged, acknowledged: share } in turns {
            let context = context % params.contexts;
            let low = ends[ends.len() - 1 - (ends.len() - 1) * (16 - share.min(16) as usize) / 16 / 2];
            acknowledged = acknowledged.max(low);
            finder.acknowledge(low);
            encoders.iter_mut().for_each(|encoder| encoder.acknowledge(low));

            let block = history.block(&pieces, params.max_block, params.cache);
            finder.find(&block, &mut tokens).unwrap();
            let offset = tokens.offset();
            let mut frame = Vec::new();
            writer.write(&tokens, &block, context).unwrap().append_to(&mut frame);
            for encoder in &mut encoders {
                let mut same = Vec::new();
                encoder.encode_frame(&block, context).unwrap().append_to(&mut same);
                prop_assert!(same == frame, "levels or halves differ");
                prop_assert_eq!(encoder.stats(), finder.stats());
            }

            log.resize(offset as usize, 0);
            log.extend_from_slice(&block);
            let end = log.len() as u64;
            let floor = end.saturating_sub(params.cache - params.span);
            for found in tokens.matches() {
                let source = found.source..found.source + u64::from(found.len);
                let at = offset + u64::from(found.at);
                let in_block = source.start >= offset && source.start < at;
                let in_log = source.start >= floor && source.end <= acknowledged;
                prop_assert!(in_block || in_log, "{source:?} for {at}, acknowledged {acknowledged}, floor {floor}");
                prop_assert!(source.start / params.cache == (source.end - 1) / params.cache, "crosses a generation");
                prop_assert!(log[source.start as usize..source.end as usize] == log[at as usize..][..found.len as usize]);
            }

            if damaged && frame.len() > 20 {
                let mut broken = frame.clone();
                *broken.last_mut().unwrap() ^= 1;
                prop_assert!(decoder.decode(&broken).is_err());
                for encoder in &mut encoders {
                    encoder.reset_context(context).unwrap();
                }
                writer.reset_context(context).unwrap();
                frame.clear();
                encoders[0].repair(offset, block.len(), &mut frame).unwrap();
            }
            match decoder.decode(&frame) {
                Ok(Decoded::Block { offset: at, content, .. }) => prop_assert!(at == offset && content == block),
                other => prop_assert!(false, "{other:?}"),
            }
            if !block.is_empty() {
                ends.push(end);
            }

            // The backlog: nothing acknowledged, never more than the limit, and always the newest
            // block.
            let encoder = &encoders[0];
            prop_assert_eq!(encoder.memory().log as u64, backlog);
            let mut kept = 0;
            for (i, &end) in ends.iter().enumerate().skip(1).rev() {
                let start = if end == log.len() as u64 { offset } else { ends[i - 1] };
                if encoder.content(start..end).is_some_and(|content| content != &log[start as usize..end as usize]) {
                    prop_assert!(false, "kept something else");
                }
                let is_kept = encoder.content(end - 1..end).is_some();
                prop_assert!(!(is_kept && end <= acknowledged));
                kept += u64::from(is_kept);
            }
            prop_assert!(block.is_empty() || kept > 0);
            if acknowledged > 0 {
                let mut none = Vec::new();
                let answer = encoder.repair(acknowledged - 1, 1, &mut none);
                prop_assert_eq!(answer, Err(EncodeError::NotHeld { offset: acknowledged - 1, len: 1 }));
                prop_assert!(none.is_empty());
            }
        }
    }
}

/// Sends `content`, acknowledges it if requested, and returns the total size of the frames in
/// bytes.
fn send(
    encoder: &mut Encoder,
    decoder: &mut Decoder,
    content: &[u8],
    block: usize,
    acknowledge: bool,
) -> usize {
    let (mut frame, mut sent) = (Vec::new(), 0);
    for block in content.chunks(block) {
        frame.clear();
        encoder.encode(block, &mut frame).unwrap();
        let Ok(Decoded::Block { content, .. }) = decoder.decode(&frame) else {
            panic!("the frame is whole")
        };
        assert!(content == block);
        sent += frame.len();
        if acknowledge {
            encoder.acknowledge(decoder.acknowledged());
        }
    }
    sent
}

#[test]
fn a_repeat_is_found_only_after_acknowledgment() {
    for form in FORMS {
        for (content, block) in [
            (text(1, 300_000), DEFAULT_BLOCK),
            (noise(2, 300_000), DEFAULT_BLOCK),
            (text(3, 300_000), 1448),
        ] {
            let params = Params { entropy: Entropy::None, ..Params::default() };
            let (mut encoder, mut decoder) =
                (builder(&params, form).build().unwrap(), params.decoder());
            send(&mut encoder, &mut decoder, &content, block, false);
            let before = encoder.stats().matched_bytes;
            let unacknowledged = send(&mut encoder, &mut decoder, &content, block, false);
            assert!(unacknowledged > content.len() * 9 / 10, "{unacknowledged}");
            assert!(encoder.stats().matched_bytes - before <= before + content.len() as u64 / 10);
            encoder.acknowledge(decoder.acknowledged());
            let warm = send(&mut encoder, &mut decoder, &content, block, false);
            assert!(
                warm < content.len() / 4,
                "{form:?}, blocks of {block}: {warm} of {} bytes",
                content.len()
            );
        }
    }
}

/// The object is evicted from the start of the log while it is sent again, and is still found.
#[test]
fn an_object_of_two_fifths_of_the_log_ten_times() {
    let cache = 1_000_017u64;
    for form in FORMS {
        let params = Params { cache, entropy: Entropy::None, period: 64, ..Params::default() };
        // Room for all of its chunks, so that only the wrapping of the log has an effect.
        let builder = builder(&params, form).table_entries(100_000);
        let (mut encoder, mut decoder) = (builder.build().unwrap(), params.decoder());
        let object = noise(5, 200_000).into_iter().chain(text(6, 200_000)).collect::<Vec<u8>>();
        send(&mut encoder, &mut decoder, &object, 16 << 10, true);
        for repeat in 1..10 {
            let sent = send(&mut encoder, &mut decoder, &object, 16 << 10, true);
            assert!(sent * 10 <= object.len(), "{form:?}: repeat {repeat} took {sent} bytes");
        }
    }
}

#[test]
fn runs_are_found_inside_a_block() {
    for form in FORMS {
        let params = Params { entropy: Entropy::None, ..Params::default() };
        let (mut encoder, mut decoder) =
            (builder(&params, form).build().unwrap(), params.decoder());
        let sent = send(&mut encoder, &mut decoder, &[0; DEFAULT_BLOCK], DEFAULT_BLOCK, false);
        assert!(sent < 400, "{form:?}: {sent}");
    }
}

#[test]
fn primed_content_counts_as_acknowledged() {
    let params = Params { entropy: Entropy::None, ..Params::default() };
    for (first, expected) in [(0, true), (1000, false)] {
        let (mut encoder, mut decoder) =
            (builder(&params, FORMS[0]).build().unwrap(), params.decoder());
        // After unacknowledged content, this is not known.
        send(&mut encoder, &mut decoder, &noise(1, first), DEFAULT_BLOCK, false);
        let content = text(4, 100_000);
        encoder.prime(&content).unwrap();
        decoder.prime(&content);
        let sent = send(&mut encoder, &mut decoder, &content, DEFAULT_BLOCK, false);
        assert_eq!(sent < content.len() / 4, expected, "{sent}");
    }
}

/// Frames reference acknowledged content only, so no frame waits for another.
#[test]
fn frames_of_one_span_decode_in_any_order() {
    for form in FORMS {
        let (cache, span) = (300_007u64, 70_000u64);
        let params = Params {
            cache,
            span,
            max_block: 5000,
            entropy: Entropy::None,
            explicit: true,
            ..Params::default()
        };
        let (mut encoder, mut decoder) =
            (builder(&params, form).build().unwrap(), params.decoder());
        let mut history = text(1, 20_000);
        for round in 0..40usize {
            let mut frames = Vec::new();
            for i in 0..10usize {
                // Old content, new content, and repeats from this round.
                let old = history.len() - 20_000 + (round * 7919 + i * 104_729) % 17_000;
                let block = [
                    &history[old..old + 3000],
                    &text((round * 10 + i) as u64, 1000),
                    &text(round as u64, 500),
                ]
                .concat();
                history.extend_from_slice(&block[3000..]);
                let mut frame = Vec::new();
                encoder.encode(&block, &mut frame).unwrap();
                frames.push((frame, block));
            }
            for i in 0..10 {
                let (frame, block) = &frames[(i * 7 + round) % 10];
                match decoder.decode(frame) {
                    Ok(Decoded::Block { content, .. }) => assert!(content == block),
                    other => panic!("round {round}: {other:?}"),
                }
            }
            assert_eq!(decoder.acknowledged(), encoder.end());
            encoder.acknowledge(decoder.acknowledged());
        }
        assert!(
            encoder.stats().matched_bytes * 3 > encoder.stats().block_bytes,
            "{:?}",
            encoder.stats()
        );
    }
}

#[test]
fn repairs_come_from_the_backlog_until_it_is_full_or_acknowledged() {
    let params = Params {
        max_block: 1000,
        seed: ChecksumSeed { session: 5, epoch: 1 },
        ..Params::default()
    };
    let mut encoder =
        builder(&params, FORMS[0]).search(search(FORMS[0]).backlog(3500)).build().unwrap();
    let blocks: Vec<Vec<u8>> = (0..5).map(|i| noise(i, 1000)).collect();
    for block in &blocks {
        encoder.encode(block, &mut Vec::new()).unwrap();
    }
    let held = |encoder: &Encoder| {
        (0..5u64)
            .map(|i| encoder.repair(i * 1000, 1000, &mut Vec::new()).is_ok())
            .collect::<Vec<_>>()
    };
    assert_eq!(held(&encoder), [false, false, true, true, true]);
    assert_eq!(
        encoder.repair(0, 1000, &mut Vec::new()),
        Err(EncodeError::NotHeld { offset: 0, len: 1000 })
    );
    let mut frame = Vec::new();
    encoder.repair(3000, 1000, &mut frame).unwrap();
    let Ok(Scan::Frame(view)) = FrameView::scan(&frame, 1000) else { panic!("the frame is whole") };
    assert_eq!((view.explicit_offset(), view.block_len()), (Some((3000, 0)), 1000));
    encoder.acknowledge(4000);
    assert_eq!(held(&encoder), [false, false, false, false, true]);
    // Neither backward nor beyond the end of the content.
    encoder.acknowledge(10);
    encoder.acknowledge(u64::MAX);
    assert_eq!(held(&encoder), [false; 5]);
    assert_eq!(encoder.end(), 5000);
}

#[test]
fn invalid_backlogs_are_refused() {
    let params = Params { cache: 10_000, max_block: 1000, ..Params::default() };
    for (backlog, works) in [(999, false), (1000, true), (10_000, true), (10_001, false)] {
        let built = builder(&params, FORMS[0]).search(search(FORMS[0]).backlog(backlog)).build();
        assert_eq!(built.is_ok(), works, "{backlog}");
        assert!(works || matches!(built, Err(ConfigError::Backlog { .. })));
    }
    // The default suits any cache.
    assert!(builder(&params, FORMS[0]).build().is_ok());
}

#[test]
fn memory_depends_on_the_table_and_the_backlog_not_on_the_cache() {
    let params =
        Params { cache: 64 << 20, entropy: Entropy::None, period: 64, ..Params::default() };
    let encoder = builder(&params, FORMS[0]).build().unwrap();
    let memory = encoder.memory();
    assert!(memory.table as u64 * 100 <= params.cache * 38, "{memory:?}");
    assert_eq!(memory.log, 4 << 20);
}
