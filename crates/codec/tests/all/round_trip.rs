//! Round trips with any parameters, and the promised limits on frame sizes.

use crate::common::content::{History, Piece, Rng, noise, piece, text};
use crate::common::params::{Params, max_block, params, period};
use crate::common::{config, place};
use oncewire_codec::{
    DEFAULT_BLOCK, Decoded, Decoder, EncodeError, Encoder, Entropy, Finder, FrameView, FrameWriter,
    Kernels, Scan, Tokens,
};
use proptest::prelude::*;

/// A frame exceeds its block by at most this many bytes, plus a thousandth of the block. Fields
/// take up to 20 bytes in logs of this size, the checksum 8, and the start of a zstd stream 9.
const SLACK: usize = 32;

fn grows_little(frame: usize, block: usize) -> bool {
    frame <= block + block / 1000 + SLACK
}

/// Decodes one complete frame.
fn decode<'a>(decoder: &'a mut Decoder, frame: &[u8]) -> (u64, &'a [u8]) {
    match decoder.decode(frame) {
        Ok(Decoded::Block { offset, content, consumed }) => {
            assert_eq!(consumed, frame.len());
            (offset, content)
        }
        other => panic!("{other:?}"),
    }
}

fn encode(encoder: &mut Encoder, block: &[u8]) -> Vec<u8> {
    let mut frame = Vec::new();
    encoder.encode(block, &mut frame).unwrap();
    frame
}

/// Sends `content` in blocks, checks that it arrives, and returns the total size of the frames in
/// bytes.
fn send(encoder: &mut Encoder, decoder: &mut Decoder, content: &[u8], block: usize) -> usize {
    let (mut frame, mut sent) = (Vec::new(), 0);
    for block in content.chunks(block) {
        frame.clear();
        encoder.encode(block, &mut frame).unwrap();
        assert!(decode(decoder, &frame).1 == block, "content differs");
        sent += frame.len();
    }
    sent
}

/// The two halves of an encoder, driven as two threads would drive them, must write the same as the
/// whole.
struct Halves {
    finder: Finder,
    writer: FrameWriter,
    tokens: Tokens,
}

impl Halves {
    fn new(params: &Params) -> Halves {
        let (finder, writer) = params.encoder_builder().build_halves().unwrap();
        Halves { finder, writer, tokens: Tokens::default() }
    }

    fn encode(&mut self, block: &[u8], context: usize) -> Vec<u8> {
        self.finder.find(block, &mut self.tokens).unwrap();
        let mut frame = Vec::new();
        self.writer.write(&self.tokens, block, context).unwrap().append_to(&mut frame);
        frame
    }
}

/// One block, and the changes before it.
#[derive(Clone, Debug)]
struct Turn {
    pieces: Vec<Piece>,
    context: usize,
    period: Option<usize>,
    reset: bool,
}

fn turn() -> impl Strategy<Value = Turn> {
    (
        proptest::collection::vec(piece(), 0..5),
        0usize..4,
        prop_oneof![6 => Just(None), 1 => period().prop_map(Some)],
        prop_oneof![12 => Just(false), 1 => Just(true)],
    )
        .prop_map(|(pieces, context, period, reset)| Turn { pieces, context, period, reset })
}

/// For every proper prefix of a frame, the decoder asks for more bytes, never for more than are
/// missing, and returns no error.
fn check_prefixes(decoder: &mut Decoder, frame: &[u8]) -> Result<(), TestCaseError> {
    let step = if frame.len() <= 300 { 1 } else { frame.len() / 7 };
    for cut in (0..frame.len()).step_by(step).chain([frame.len() - 1]) {
        match decoder.decode(&frame[..cut]) {
            Ok(Decoded::NeedMore(more)) => {
                prop_assert!(more > 0 && cut + more <= frame.len(), "{more} more after {cut}")
            }
            other => prop_assert!(false, "{other:?} for {cut} of {} bytes", frame.len()),
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn blocks_decode_with_any_parameters(
        params in params(max_block()),
        turns in proptest::collection::vec(turn(), 1..40),
    ) {
        let mut encoders: Vec<Encoder> = Kernels::available().map(|kernels| params.encoder_at(kernels)).collect();
        let mut halves = Halves::new(&params);
        let mut decoder = params.decoder();
        let mut history = History::default();
        let (mut end, mut blocks, mut bytes) = (0u64, 0, 0);

        for Turn { pieces, context, period, reset } in turns {
            let context = context % params.contexts;
            for encoder in &mut encoders {
                if let Some(period) = period {
                    encoder.set_period(period).unwrap();
                }
                if reset {
                    encoder.reset_context(context).unwrap();
                }
            }
            if let Some(period) = period {
                halves.finder.set_period(period).unwrap();
            }
            if reset {
                halves.writer.reset_context(context).unwrap();
            }

            let block = history.block(&pieces, params.max_block, params.cache);
            let frame = halves.encode(&block, context);
            for encoder in &mut encoders {
                let mut same = Vec::new();
                encoder.encode_frame(&block, context).unwrap().append_to(&mut same);
                prop_assert!(same == frame, "levels or halves differ in block {blocks}");
                prop_assert_eq!(encoder.stats(), halves.finder.stats());
            }
            prop_assert!(grows_little(frame.len(), block.len()), "{} bytes became {}", block.len(), frame.len());

            let offset = place(params.cache, end, block.len());
            let Scan::Frame(view) = FrameView::scan(&frame, params.max_block).unwrap() else { panic!("the frame is whole") };
            prop_assert_eq!(view.len(), frame.len());
            prop_assert_eq!(view.block_len(), block.len());
            prop_assert_eq!(view.explicit_offset(), params.explicit.then_some((offset, offset - end)));
            prop_assert!(view.context().is_none_or(|id| id == context));
            let needs = view.depends_on(offset).unwrap();
            let floor = (offset + block.len() as u64).saturating_sub(params.cache - params.span);
            prop_assert!(needs.is_empty() || (needs.start >= floor && needs.end <= offset), "{needs:?} below {floor}");

            check_prefixes(&mut decoder, &frame)?;
            // Bytes after the frame are left alone.
            let mut input = frame.clone();
            input.extend_from_slice(&frame[..frame.len().min(20)]);
            let Ok(Decoded::Block { offset: at, content, consumed }) = decoder.decode(&input) else {
                panic!("block {blocks} does not decode");
            };
            prop_assert!(content == block, "content differs in block {blocks}");
            prop_assert_eq!((at, consumed), (offset, frame.len()));

            end = offset + block.len() as u64;
            blocks += 1;
            bytes += block.len() as u64;
            prop_assert_eq!(decoder.acknowledged(), end);
            let held: Vec<_> = (end > 0).then(|| end.saturating_sub(params.cache)..end).into_iter().collect();
            prop_assert_eq!(decoder.held(), held);
        }
        let stats = encoders[0].stats();
        prop_assert_eq!((stats.blocks, stats.block_bytes), (blocks, bytes));
        prop_assert!(stats.matched_bytes <= bytes);
        prop_assert!(decoder.memory().total() <= params.decoder_bound(), "{:?}", decoder.memory());
    }
}

#[test]
fn blocks_of_zero_one_limit_and_limit_plus_one_bytes() {
    for entropy in [Entropy::None, Entropy::Lz4, Entropy::Coded { level: 1 }] {
        for max_block in [1, 2, 100, DEFAULT_BLOCK] {
            let params =
                Params { cache: max_block as u64, max_block, entropy, ..Params::default() };
            let (mut encoder, mut decoder) = (params.encoder(), params.decoder());
            for len in [0, 1, max_block, 0, 1, 1, max_block, max_block] {
                let block = text(len as u64, len);
                let frame = encode(&mut encoder, &block);
                assert_eq!(decode(&mut decoder, &frame).1, block);
            }
            let (too_large, before) = (vec![0; max_block + 1], encoder.stats());
            let error = encoder.encode(&too_large, &mut Vec::new()).unwrap_err();
            assert_eq!(error, EncodeError::BlockTooLarge { len: max_block + 1, max: max_block });
            assert_eq!(encoder.stats(), before);
            let frame = encode(&mut encoder, b"x");
            assert_eq!(decode(&mut decoder, &frame).1, b"x");
        }
    }
}

#[test]
fn a_context_that_does_not_exist_is_refused_and_changes_nothing() {
    let params = Params { contexts: 2, ..Params::default() };
    let (mut encoder, mut decoder) = (params.encoder(), params.decoder());
    let error = EncodeError::NoSuchContext { context: 2, contexts: 2 };
    assert_eq!(encoder.encode_frame(b"block", 2).unwrap_err(), error);
    assert_eq!(encoder.reset_context(2).unwrap_err(), error);
    assert!(encoder.set_period(3).is_err() && encoder.set_period(1025).is_err());
    assert_eq!(encoder.stats().blocks, 0);
    let frame = encode(&mut encoder, &text(1, 1000));
    assert_eq!(decode(&mut decoder, &frame), (0, &text(1, 1000)[..]));
}

/// The object is evicted from the start of the log while it is sent again, and is still found.
#[test]
fn an_object_of_two_fifths_of_the_log_ten_times() {
    let cache = 3_000_017u64;
    let len = cache as usize * 2 / 5;
    let half_text = [text(3, len / 2), noise(4, len - len / 2)].concat();
    for entropy in [Entropy::None, Entropy::Lz4, Entropy::DEFAULT] {
        for object in [&text(1, len), &noise(2, len), &half_text] {
            for block in [DEFAULT_BLOCK, 16 << 10] {
                let params = Params { cache, entropy, ..Params::default() };
                let (mut encoder, mut decoder) = (params.encoder(), params.decoder());
                send(&mut encoder, &mut decoder, object, block);
                for repeat in 1..10 {
                    let sent = send(&mut encoder, &mut decoder, object, block);
                    assert!(
                        sent * 100 <= len,
                        "{entropy}, blocks of {block}: repeat {repeat} took {sent} of {len} bytes"
                    );
                }
            }
        }
    }
}

#[test]
fn random_bytes_are_found_the_second_time() {
    const MEGABYTE: usize = 1_000_000;
    let content = noise(7, 20 * MEGABYTE);
    // The second time with the same block boundaries, and with others.
    for (first, second, skip) in
        [(DEFAULT_BLOCK, DEFAULT_BLOCK, 0), (DEFAULT_BLOCK, 50_001, 12_345), (1448, 1448, 700)]
    {
        let params = Params { cache: 64 << 20, ..Params::default() };
        let (mut encoder, mut decoder) = (params.encoder(), params.decoder());
        let cold = send(&mut encoder, &mut decoder, &content, first);
        assert!(
            cold <= content.len() + content.len() / 1000 + content.len().div_ceil(first) * SLACK
        );
        let again = &content[skip..];
        let warm = send(&mut encoder, &mut decoder, again, second);
        assert!(warm * 20 <= again.len(), "blocks of {first}, then {second}: {warm} bytes");
    }
}

#[test]
fn long_runs_cost_almost_nothing() {
    for entropy in
        [Entropy::None, Entropy::Lz4, Entropy::Coded { level: 1 }, Entropy::Coded { level: 3 }]
    {
        for unit in [
            &b"\0"[..],
            b" ",
            b"to",
            b"set",
            b" is this",
            b"a line of a log, repeated and repeated\n",
        ] {
            let run: Vec<u8> = unit.iter().copied().cycle().take(DEFAULT_BLOCK).collect();
            let params = Params { entropy, ..Params::default() };
            let (mut encoder, mut decoder) = (params.encoder(), params.decoder());
            for time in 0..3 {
                let frame = encode(&mut encoder, &run);
                assert_eq!(decode(&mut decoder, &frame).1, run);
                // Initially, every phase of the unit must have occurred once at a marker.
                let limit = if time == 0 { 32 + 20 * unit.len() } else { 48 };
                assert!(
                    frame.len() <= limit,
                    "{entropy}, unit {:?}, time {time}: {} bytes",
                    unit[0] as char,
                    frame.len()
                );
            }
        }
    }
}

#[test]
fn primed_content_is_referenced() {
    for (cache, max_block) in [(1 << 20, DEFAULT_BLOCK), (200_003, 1000), (100_000, DEFAULT_BLOCK)]
    {
        let params = Params { cache, max_block, ..Params::default() };
        let (mut encoder, mut decoder) = (params.encoder(), params.decoder());
        let base = [text(1, 80_000), noise(1, 70_000)].concat();
        encoder.prime(&base).unwrap();
        decoder.prime(&base);
        assert_eq!((encoder.stats().blocks, encoder.stats().matches), (0, 0));
        let block = &base[base.len() - max_block.min(30_000)..];
        let frame = encode(&mut encoder, block);
        assert_eq!(decode(&mut decoder, &frame).1, block);
        assert!(frame.len() < 40, "{} bytes", frame.len());
        // Then coding continues as usual.
        let more = text(2, 300_000);
        send(&mut encoder, &mut decoder, &more, max_block);
        assert_eq!(send(&mut encoder, &mut decoder, b"", max_block), 0);
    }
}

#[test]
fn a_repair_replaces_any_frame_still_in_the_log() {
    // Blocks of up to a quarter of the log, so that every generation ends with padding.
    let params = Params { cache: 10_007, max_block: 2500, explicit: true, ..Params::default() };
    let (mut encoder, mut decoder) = (params.encoder(), params.decoder());
    let mut rng = Rng::new(5);
    let mut end = 0;
    let mut recent: Vec<(u64, Vec<u8>)> = Vec::new();
    for i in 0..200u64 {
        let len = 1 + rng.below(2500);
        let block = if rng.one_in(3) { noise(i, len) } else { text(i % 9, len) };
        let offset = place(params.cache, end, len);
        end = offset + len as u64;
        encode(&mut encoder, &block);
        recent.push((offset, block));

        // The decoder never saw the frame, only its repair. Repairs of older frames arrive too late
        // and are refused.
        for (offset, block) in recent.iter().rev() {
            let mut repair = Vec::new();
            let result = encoder.repair(*offset, block.len(), &mut repair);
            if *offset < end.saturating_sub(params.cache) {
                assert_eq!(result, Err(EncodeError::NotHeld { offset: *offset, len: block.len() }));
                continue;
            }
            assert_eq!(result, Ok(()), "block at {offset}, end {end}");
            if *offset >= decoder.acknowledged() {
                assert_eq!(decode(&mut decoder, &repair), (*offset, &block[..]));
            } else {
                assert!(decoder.decode(&repair).is_err());
            }
            assert!(grows_little(repair.len(), block.len()));
        }
        assert_eq!(decoder.acknowledged(), end);
        recent.retain(|(offset, _)| *offset >= end.saturating_sub(params.cache));
    }
    let mut out = Vec::new();
    for (offset, len) in
        [(end, 1), (end - 1, 2), (end + 5000, 1), (u64::MAX, 1), (end - 1, usize::MAX)]
    {
        assert_eq!(
            encoder.repair(offset, len, &mut out),
            Err(EncodeError::NotHeld { offset, len })
        );
    }
    assert!(out.is_empty());
}

#[test]
fn a_log_beyond_a_gibibyte() {
    // Wider table slots. Memory is only touched where it is used.
    for entries in [None, Some(100_003)] {
        let params =
            Params { cache: (1 << 30) + 4097, table_entries: entries, ..Params::default() };
        let (mut encoder, mut decoder) = (params.encoder(), params.decoder());
        assert_eq!(encoder.memory().table % 8, encoder.memory().table % 4);
        let content = text(1, 1_000_000);
        let cold = send(&mut encoder, &mut decoder, &content, DEFAULT_BLOCK);
        let warm = send(&mut encoder, &mut decoder, &content, DEFAULT_BLOCK);
        assert!(warm * 100 < cold, "{cold}, then {warm}");
    }
}

#[test]
fn a_generation_of_exactly_whole_blocks_has_no_padding() {
    let params = Params {
        cache: 4000,
        max_block: 1000,
        explicit: true,
        entropy: Entropy::None,
        ..Params::default()
    };
    let (mut encoder, mut decoder) = (params.encoder(), params.decoder());
    for i in 0..40u64 {
        let block = noise(i % 3, 1000);
        let frame = encode(&mut encoder, &block);
        let Scan::Frame(view) = FrameView::scan(&frame, 1000).unwrap() else {
            panic!("the frame is whole")
        };
        assert_eq!(view.explicit_offset(), Some((i * 1000, 0)));
        assert_eq!(decode(&mut decoder, &frame), (i * 1000, &block[..]));
        // Content from three blocks ago stays available until the very end of the log.
        assert!(i < 3 || frame.len() < 60, "block {i}: {} bytes", frame.len());
    }
}

/// Where a marker search stops determines how much is looked up before the next match is tried, so
/// it must not depend on the kernel level.
#[test]
fn every_level_stops_its_marker_search_at_the_same_place() {
    let set: oncewire_codec::ByteSet = oncewire_codec::ENDRE_MARKER_BYTES.into_iter().collect();
    let mut rng = Rng::new(11);
    for case in 0..3000 {
        let len = rng.below(600);
        let data = if rng.one_in(2) { text(case, len) } else { noise(case, len) };
        let (window, skip, from) = (12 + rng.below(53), rng.below(40), rng.below(len + 1));
        let mut markers = vec![0; rng.below(20)];
        let mut answers = Vec::new();
        for kernels in Kernels::available() {
            let bytes =
                kernels.sample_byte(&set, &data, window, skip, usize::MAX, from, &mut markers);
            let pairs = kernels.sample_pair(&data, window, from, &mut markers);
            answers.push((bytes, pairs));
        }
        assert!(
            answers.iter().all(|answer| *answer == answers[0]),
            "case {case}, from {from} of {len}: {answers:?}"
        );
    }
}
