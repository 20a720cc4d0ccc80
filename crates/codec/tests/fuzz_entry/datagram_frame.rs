//! Bytes as frames in datagrams: the first selects the log, then frames with their counters arrive
//! among good ones.

use super::input::{Input, noise, overlap, text};
use oncewire_codec::datagram::{
    Class, DatagramDecoded, DatagramDecoder, DatagramEncoder, FrozenContext, Limits, RunTokens,
};
use oncewire_codec::{Decoder, DecoderBuilder, Encoder, Reach};
use std::ops::Range;

/// Sizes of a log, how far below its end it stores, and most content of a frame.
const SETUPS: [(u64, u64, usize); 4] =
    [(300, 70, 100), (5003, 1000, 2000), (70_000, 4000, 1 << 16), (1 << 20, 0, 1 << 16)];

fn decoder_builder(choice: u8) -> DecoderBuilder {
    let (cache, span, max_block) = SETUPS[usize::from(choice) % SETUPS.len()];
    Decoder::builder().cache(cache).span(span).max_block(max_block)
}

/// Both ends after some runs, of which every fourth datagram was lost, and the next counter.
fn primed(choice: u8) -> (DatagramEncoder, DatagramDecoder, u64) {
    let (cache, span, max_block) = SETUPS[usize::from(choice) % SETUPS.len()];
    let encoder =
        Encoder::builder().cache(cache).span(span).max_block(max_block).window(12).period(8);
    let mut encoder = encoder.build_datagrams().unwrap();
    let mut decoder = decoder_builder(choice).build_datagrams().unwrap();
    let context = FrozenContext::built_in();
    encoder.set_context(0, Some(&context));
    decoder.set_context(0, Some(&context));
    let mut counter = 0;
    for i in 0..8u64 {
        let len = max_block.min(900);
        let run = if i == 3 { noise(i, len) } else { text(i % 5, len) };
        encoder.use_context((i % 2 == 0).then_some(0));
        for (frame, content) in deal(&mut encoder, &run) {
            if counter % 4 != 3
                && let Ok(DatagramDecoded::Content { bytes, .. }) = decoder.decode(counter, &frame)
            {
                assert!(bytes == content);
            }
            counter += 1;
        }
    }
    (encoder, decoder, counter)
}

/// Frames of a run, with their content.
fn deal(encoder: &mut DatagramEncoder, run: &[u8]) -> Vec<(Vec<u8>, Vec<u8>)> {
    let limits = Limits { segment: 60, room: 150, earlier: true };
    let (mut tokens, mut from, mut frames) = (RunTokens::default(), 0, Vec::new());
    encoder.search(run, Class::Unknown, Reach::Sent, &mut tokens).unwrap();
    while from < run.len() {
        let to = encoder.fit(&tokens, from, &limits);
        assert!(to > from, "60 literals always fit");
        let mut frame = Vec::new();
        encoder.write(&tokens, run, from..to, &limits, &mut frame);
        assert!(frame.len() <= limits.room);
        frames.push((frame, run[from..to].to_vec()));
        from = to;
    }
    frames
}

/// Decodes one hostile frame.
fn step(choice: u8, decoder: &mut DatagramDecoder, counter: u64, frame: &[u8]) {
    let (held, end) = (decoder.held().to_vec(), decoder.end());
    let most = SETUPS[usize::from(choice) % SETUPS.len()].2;
    let mut is_stored = false;
    let mut missing: Vec<Range<u64>> = Vec::new();
    match decoder.decode(counter, frame) {
        Ok(DatagramDecoded::Content { offset, stored, bytes }) => {
            assert!(bytes.len() <= most);
            is_stored = stored;
            if let Some(offset) = offset {
                let range = offset..offset + bytes.len() as u64;
                assert!(!stored || held.iter().all(|held| !overlap(held, &range)));
            } else {
                assert!(!stored);
            }
        }
        Ok(DatagramDecoded::Missing { offset, ranges }) => {
            assert!(!ranges.is_empty() && ranges.iter().all(|range| range.end <= offset));
            missing = ranges.to_vec();
        }
        Err(error) => assert!(!error.to_string().is_empty()),
    }
    if is_stored {
        assert!(decoder.end() >= end);
    } else {
        assert_eq!((decoder.held(), decoder.end()), (&held[..], end));
    }
    for range in &missing {
        assert!(!range.is_empty() && held.iter().all(|held| !overlap(held, range)));
    }
    if !missing.is_empty() {
        // What is missing does not change by asking again.
        assert!(
            matches!(decoder.decode(counter, frame), Ok(DatagramDecoded::Missing { ranges, .. }) if ranges == missing)
        );
    }
}

/// Feeds the input: a byte for the log, then of each frame a byte for its counter, one for its
/// length, and its bytes.
pub(crate) fn run(input: &[u8]) {
    let mut input = Input(input);
    let choice = input.u8();
    let (mut encoder, mut decoder, mut counter) = primed(choice);
    let bound = decoder_builder(choice).datagrams_memory() + DatagramDecoder::CONTEXT_MEMORY;
    for turn in 0..64 {
        if input.is_empty() {
            break;
        }
        let hostile = match input.u8() {
            255 => u64::MAX,
            254 => counter.saturating_add(20_000),
            back => counter.saturating_sub(u64::from(back)),
        };
        let len = usize::from(input.u8());
        step(choice, &mut decoder, hostile, input.bytes(len));
        assert!(decoder.memory() <= bound, "{} of {bound}", decoder.memory());
        counter = counter.max(hostile.saturating_add(1).min(u64::MAX / 2));
        if turn % 8 == 7 {
            // Good frames go on. The log may have other content by now, but what was verified is
            // right, and a frame without matches is as it came.
            let max_block = SETUPS[usize::from(choice) % SETUPS.len()].2;
            encoder.use_context((turn % 16 == 7).then_some(0));
            for (frame, content) in deal(&mut encoder, &text(turn, max_block.min(500))) {
                match decoder.decode(counter, &frame) {
                    Ok(DatagramDecoded::Content { bytes, .. }) => assert!(bytes == content),
                    Ok(DatagramDecoded::Missing { .. }) => {}
                    Err(error) => assert!(!error.to_string().is_empty()),
                }
                counter += 1;
            }
        }
    }
}

/// Initial inputs: frames that an encoder writes next, intact and corrupt, and handmade ones.
pub(crate) fn seeds() -> Vec<Vec<u8>> {
    let mut seeds = Vec::new();
    for choice in 0..SETUPS.len() as u8 {
        let (mut encoder, ..) = primed(choice);
        let max_block = SETUPS[usize::from(choice)].2;
        let run = [text(1, 60), noise(5, 30), text(2, 60), text(1, 400)].concat();
        let mut all = vec![choice];
        encoder.use_context((choice % 2 == 0).then_some(0));
        for (frame, _) in deal(&mut encoder, &run[..run.len().min(max_block)]) {
            all.extend_from_slice(&[0, frame.len() as u8]);
            all.extend_from_slice(&frame);
        }
        seeds.push(all.clone());
        for at in [5, 20] {
            let mut corrupt = all.clone();
            if let Some(byte) = corrupt.get_mut(at) {
                *byte ^= 0x14;
            }
            seeds.push(corrupt);
        }
    }
    // Heads of every kind, followed by a few bytes.
    for flags in
        [0x00u8, 0x10, 0x14, 0x1c, 0x24, 0x34, 0x3c, 0x04, 0x18, 0x50, 0x91, 0x41, 0x51, 0x55]
    {
        for counter in [9u8, 254 + (flags & 1)] {
            let frame = [&[flags, 20, 1, 5, 0, 40, 30][..], &noise(flags.into(), 30)].concat();
            seeds.push([&[1, counter, frame.len() as u8][..], &frame].concat());
        }
    }
    seeds
}
