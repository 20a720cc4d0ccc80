//! Corrupted frames: the decoder never delivers a wrong byte, and its log is as if the frames had
//! not arrived.

use crate::common::config;
use crate::common::content::{History, Rng, noise, piece, text};
use crate::common::params::{Params, max_block, params};
use oncewire_codec::{
    DEFAULT_BLOCK, Decoded, Decoder, Encoder, Entropy, FrameError, FrameView, Kernels, Level, Scan,
};
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::ops::Range;

/// A kind of corruption.
#[derive(Clone, Debug)]
enum Harm {
    /// Bits are flipped.
    Flip(Vec<usize>),
    /// A byte becomes a boundary value.
    Byte { at: usize, value: u8 },
    /// The end is cut off.
    Cut(usize),
    /// Bytes inside are removed.
    Remove { at: usize, len: usize },
    /// Bytes of an earlier frame are inserted.
    Insert { at: usize, from: usize, len: usize },
    /// The end is replaced by that of an earlier frame.
    Splice { at: usize, other: usize, from: usize },
    /// An earlier frame arrives instead.
    Swap(usize),
    /// The flags are changed.
    Flags(u8),
    /// The body length is corrected, so that the fields after it are parsed.
    FitLength,
}

fn harm() -> impl Strategy<Value = Harm> {
    let near = || prop_oneof![0usize..24, any::<usize>()];
    prop_oneof![
        4 => proptest::collection::vec(near(), 1..4).prop_map(Harm::Flip),
        3 => (near(), prop_oneof![Just(0u8), Just(1), Just(0x7f), Just(0x80), Just(0xff), any::<u8>()])
            .prop_map(|(at, value)| Harm::Byte { at, value }),
        1 => any::<usize>().prop_map(Harm::Cut),
        2 => (near(), 1usize..20).prop_map(|(at, len)| Harm::Remove { at, len }),
        2 => (near(), any::<usize>(), 1usize..20).prop_map(|(at, from, len)| Harm::Insert { at, from, len }),
        2 => (near(), any::<usize>(), near()).prop_map(|(at, other, from)| Harm::Splice { at, other, from }),
        1 => any::<usize>().prop_map(Harm::Swap),
        2 => any::<u8>().prop_map(Harm::Flags),
        3 => Just(Harm::FitLength),
    ]
}

/// `at` as a position in a slice of this length.
fn wrap(at: usize, len: usize) -> usize {
    at % len.max(1)
}

fn apply(harm: &Harm, frame: &mut Vec<u8>, earlier: &[Vec<u8>]) {
    let len = frame.len();
    let other = |which: usize| earlier.get(wrap(which, earlier.len()));
    match *harm {
        _ if len == 0 => {}
        Harm::Flip(ref bits) => {
            bits.iter().for_each(|&bit| frame[wrap(bit / 8, len)] ^= 1 << (bit % 8))
        }
        Harm::Byte { at, value } => frame[wrap(at, len)] = value,
        Harm::Cut(at) => frame.truncate(wrap(at, len)),
        Harm::Remove { at, len: gone } => {
            let at = wrap(at, len);
            frame.drain(at..(at + gone).min(len));
        }
        Harm::Insert { at, from, len: more } => {
            let at = wrap(at, len);
            let bytes: Vec<u8> =
                frame.iter().cycle().skip(wrap(from, len)).take(more).copied().collect();
            frame.splice(at..at, bytes);
        }
        Harm::Splice { at, other: which, from } => {
            if let Some(other) = other(which) {
                frame.truncate(wrap(at, len));
                frame.extend_from_slice(&other[wrap(from, other.len())..]);
            }
        }
        Harm::Swap(which) => {
            if let Some(other) = other(which) {
                frame.clone_from(other);
            }
        }
        Harm::Flags(bits) => frame[0] ^= bits,
        Harm::FitLength => fit_length(frame),
    }
}

/// Rewrites the body length after the flags to match the number of bytes in the frame.
fn fit_length(frame: &mut Vec<u8>) {
    let Some(last) = frame[1..].iter().take(9).position(|byte| byte & 0x80 == 0) else { return };
    let mut left = frame.len() - 2 - last;
    let mut length = Vec::new();
    while left >= 0x80 {
        length.push(left as u8 | 0x80);
        left >>= 7;
    }
    length.push(left as u8);
    frame.splice(1..2 + last, length);
}

fn scan(frame: &[u8], max_block: usize) -> Option<FrameView<'_>> {
    match FrameView::scan(frame, max_block) {
        Ok(Scan::Frame(view)) => Some(view),
        _ => None,
    }
}

/// The decoder and the expected state.
struct Judge {
    decoder: Decoder,
    /// One with portable kernels, which must say the same of every frame.
    portable: Decoder,
    params: Params,
    /// Blocks by offset.
    truth: BTreeMap<u64, Vec<u8>>,
    /// Contexts that can continue only after a fresh frame.
    lost: Vec<bool>,
    /// Contexts that received a frame at an offset where none is allowed; they may or may not have
    /// lost their state.
    unsure: Vec<bool>,
    /// Failed frames may have overwritten content below this.
    given_up: u64,
    /// A changed frame was decoded anyway, so contexts may be in any state and their later frames
    /// may fail.
    confused: bool,
}

impl Judge {
    fn new(params: &Params) -> Judge {
        Judge {
            decoder: params.decoder(),
            portable: params.decoder_at(Kernels::at(Level::Portable).unwrap_or_default()),
            params: params.clone(),
            truth: BTreeMap::new(),
            lost: vec![false; params.contexts],
            unsure: vec![false; params.contexts],
            given_up: 0,
            confused: false,
        }
    }

    fn state(&self) -> (u64, Vec<Range<u64>>) {
        (self.decoder.acknowledged(), self.decoder.held().to_vec())
    }

    /// Passes in a possibly corrupt frame. Returns `true` if it decoded to a block, which must then
    /// be correct.
    fn suffer(&mut self, frame: &[u8]) -> Result<bool, TestCaseError> {
        let before = self.state();
        let (cache, max_block) = (self.params.cache, self.params.max_block);
        let (mut decoded, mut failed) = (false, false);
        let answer = self.decoder.decode(frame);
        prop_assert_eq!(&answer, &self.portable.decode(frame));
        match answer {
            Ok(Decoded::Block { offset, content, consumed }) => {
                let right = content.is_empty()
                    || self.truth.get(&offset).is_some_and(|block| block == content);
                prop_assert!(right, "wrong content of {} bytes at {offset}", content.len());
                prop_assert!(consumed <= frame.len());
                decoded = true;
                self.confused = true;
            }
            Ok(Decoded::NeedMore(more)) => {
                prop_assert!(more > 0 && more <= max_block + 200, "{more} more")
            }
            Ok(Decoded::Missing(ranges)) => {
                prop_assert!(!ranges.is_empty() && ranges.iter().all(|range| !range.is_empty()));
                let floor = before.0.saturating_sub(cache);
                for range in ranges {
                    prop_assert!(
                        range.start >= floor && range.end <= before.0 + cache,
                        "{range:?}"
                    );
                    prop_assert!(
                        before
                            .1
                            .iter()
                            .all(|held| held.end <= range.start || held.start >= range.end)
                    );
                }
            }
            Err(error) => {
                failed = true;
                // A frame that fails at an allowed offset invalidates its context, unless its fields
                // are invalid: their width depends on the log.
                let is_width = matches!(error, FrameError::Field { field: "position width", .. });
                let context = scan(frame, max_block).and_then(|view| view.context());
                let context = context.filter(|_| !is_width);
                if let Some(context) = context.filter(|&context| context < self.lost.len()) {
                    let marks = if matches!(error, FrameError::Offset { .. }) {
                        &mut self.unsure
                    } else {
                        &mut self.lost
                    };
                    marks[context] = true;
                }
            }
        }
        if !decoded {
            let (low, held) = self.state();
            prop_assert_eq!(low, before.0);
            let mut expected = before.1;
            if failed {
                // What the block would have overwritten, had it been right: one capacity below it.
                let most = low + self.params.span + 2 * max_block as u64;
                let lost = held.first().map_or(u64::MAX, |range| range.start);
                let lost = lost.min(most.saturating_sub(cache));
                expected.retain(|range| range.end > lost);
                if let Some(first) = expected.first_mut() {
                    first.start = first.start.max(lost);
                }
                self.given_up = self.given_up.max(lost);
            }
            prop_assert_eq!(held, expected);
        }
        prop_assert!(
            self.decoder.memory().total() <= self.params.decoder_bound(),
            "{:?}",
            self.decoder.memory()
        );
        Ok(decoded)
    }

    /// Passes in an intact frame. Returns `false` if its context had been lost.
    fn accept(&mut self, frame: &[u8], block: &[u8], offset: u64) -> Result<bool, TestCaseError> {
        let context = scan(frame, self.params.max_block).expect("the frame is whole").context();
        let fresh = frame[0] & 0x20 != 0;
        let lost = context.is_some_and(|context| self.lost[context]) && !fresh;
        let unsure = context.is_some_and(|context| self.unsure[context]) && !fresh;
        let answer = self.decoder.decode(frame);
        prop_assert_eq!(&answer, &self.portable.decode(frame));
        match answer {
            Ok(Decoded::Block { offset: at, content, consumed }) => {
                prop_assert!(content == block, "wrong content at {offset}");
                prop_assert_eq!((at, consumed), (offset, frame.len()));
                prop_assert!(!lost || self.confused, "a lost context must not continue");
                if let Some(context) = context {
                    self.lost[context] = false;
                    self.unsure[context] = false;
                }
                Ok(true)
            }
            // It refers to what a longer block that failed has overwritten. A repair does not.
            Ok(Decoded::Missing(ranges))
                if frame[0] & 0x0f != 0
                    && ranges.iter().all(|range| range.end <= self.given_up) =>
            {
                Ok(false)
            }
            Err(FrameError::ContextLost { context: named }) if lost || unsure => {
                prop_assert_eq!(Some(named), context);
                Ok(false)
            }
            Err(_) if self.confused && context.is_some() => Ok(false),
            other => {
                prop_assert!(false, "{other:?} for a good frame at {offset}");
                Ok(false)
            }
        }
    }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn corrupt_frames_deliver_no_wrong_byte_and_lose_only_what_they_would_have_overwritten(
        params in params(max_block()),
        turns in proptest::collection::vec(
            (proptest::collection::vec(piece(), 0..4), 0usize..4, proptest::collection::vec(proptest::collection::vec(harm(), 1..4), 0..4)),
            1..25,
        ),
    ) {
        // Repairs state their offset, so all frames may do so.
        let mut encoder = params.encoder();
        let mut judge = Judge::new(&params);
        let mut history = History::default();
        let mut frames: Vec<Vec<u8>> = Vec::new();
        let mut end = 0;
        for (pieces, context, harms) in turns {
            let context = context % params.contexts;
            let block = history.block(&pieces, params.max_block, params.cache);
            let mut frame = Vec::new();
            encoder.encode_frame(&block, context).unwrap().append_to(&mut frame);
            let offset = crate::common::place(params.cache, end, block.len());
            let before = std::mem::replace(&mut end, offset + block.len() as u64);
            judge.truth.insert(offset, block.clone());

            let mut done = false;
            for harms in harms {
                let mut damaged = frame.clone();
                harms.iter().for_each(|harm| apply(harm, &mut damaged, &frames));
                if damaged != frame && !done && judge.suffer(&damaged)? {
                    // Either this block, or an empty one, which has no effect.
                    done = judge.decoder.acknowledged() == end && !block.is_empty();
                    prop_assert!(done || judge.decoder.acknowledged() == before);
                }
            }
            if !done && !judge.accept(&frame, &block, offset)? && !block.is_empty() {
                let mut repair = Vec::new();
                encoder.repair(offset, block.len(), &mut repair).unwrap();
                prop_assert!(judge.accept(&repair, &block, offset)?, "a repair needs no context");
                encoder.reset_context(context).unwrap();
            }
            prop_assert_eq!(judge.decoder.acknowledged(), end);
            frames.push(frame);
        }
    }

    #[test]
    fn random_bytes_are_refused_or_incomplete(
        params in params(max_block()),
        bytes in proptest::collection::vec(any::<u8>(), 0..300),
        flags in 0u8..128,
    ) {
        let mut judge = Judge::new(&params);
        judge.suffer(&bytes)?;
        // With a valid head as well: flags, then a length that matches.
        let mut framed = vec![flags, 0];
        framed.extend_from_slice(&bytes);
        fit_length(&mut framed);
        prop_assert!(!judge.suffer(&framed)? || bytes.len() < 16);
    }
}

/// A sequence whose last frame is of the wanted kind: the frames before it, that frame, its block,
/// and the decoder's parameters.
fn sample(entropy: Entropy, block: &[u8], before: &[&[u8]]) -> (Params, Vec<Vec<u8>>) {
    let params =
        Params { cache: 100_003, entropy, explicit: true, contexts: 2, ..Params::default() };
    let mut encoder: Encoder = params.encoder();
    let frames = before.iter().copied().chain([block]).map(|block| {
        let mut frame = Vec::new();
        encoder.encode(block, &mut frame).unwrap();
        frame
    });
    (params.clone(), frames.collect())
}

/// A frame kind: the last of `frames`. The earlier ones are those that it references and continues.
struct Kind {
    name: &'static str,
    flags: u8,
    params: Params,
    frames: Vec<Vec<u8>>,
    block: Vec<u8>,
}

fn kinds() -> Vec<Kind> {
    let base = text(1, 2000);
    // Five repeats in a different order, so that coded descriptors pay off.
    let mixed: Vec<u8> = [1500, 900, 300, 1200, 0]
        .into_iter()
        .flat_map(|at| [&text(at as u64 + 9, 20), &base[at..at + 220]].concat())
        .collect();
    let repeat = [&base[100..900], b"!"].concat();
    let fresh_text = text(77, 300);
    [
        ("raw", 0x10, Entropy::None, noise(1, 60)),
        ("lz4", 0x14, Entropy::Lz4, fresh_text.clone()),
        ("literals", 0x18, Entropy::DEFAULT, fresh_text),
        ("plain, raw", 0x11, Entropy::None, repeat.clone()),
        ("plain, lz4", 0x15, Entropy::Lz4, [&b"tell me ".repeat(5), &repeat[..]].concat()),
        ("plain, literals", 0x19, Entropy::DEFAULT, [&text(5, 100), &repeat[..]].concat()),
        (
            "coded, raw",
            0x12,
            Entropy::DEFAULT,
            [&base[1000..1400], b"!", &base[300..600], b"?", &base[1500..2000]].concat(),
        ),
        ("coded, literals", 0x1a, Entropy::DEFAULT, mixed),
    ]
    .into_iter()
    .map(|(name, flags, entropy, block)| {
        let (params, frames) = sample(entropy, &block, &[&base, &text(2, 700)]);
        Kind { name, flags, params, frames, block }
    })
    .collect()
}

#[test]
fn every_flipped_bit_is_detected_or_harmless() {
    for Kind { name, flags, params, mut frames, block } in kinds() {
        let frame = frames.pop().unwrap();
        assert_eq!(frame[0], flags, "{name}: the sample is of another kind");
        let offset =
            frames.iter().map(|frame| scan(frame, DEFAULT_BLOCK).unwrap().block_len() as u64).sum();
        let mut unharmed = 0;
        for bit in 0..frame.len() * 8 {
            let mut judge = Judge::new(&params);
            for frame in &frames {
                assert!(matches!(judge.decoder.decode(frame), Ok(Decoded::Block { .. })));
                assert!(matches!(judge.portable.decode(frame), Ok(Decoded::Block { .. })));
            }
            judge.truth.insert(offset, block.clone());
            let mut damaged = frame.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            let decoded =
                judge.suffer(&damaged).unwrap_or_else(|error| panic!("{name}, bit {bit}: {error}"));
            unharmed += usize::from(decoded);
            if !decoded {
                // As if nothing had arrived, except for the context.
                let went_on = judge
                    .accept(&frame, &block, offset)
                    .unwrap_or_else(|error| panic!("{name}, bit {bit}: {error}"));
                assert!(
                    went_on || flags & 0x0a != 0,
                    "{name}, bit {bit}: without a context nothing can be lost"
                );
            }
        }
        // Some bits encode the same meaning differently: a dependency range larger than needed, or
        // starting a context that is fresh anyway.
        assert!(
            unharmed * 10 <= frame.len() * 8,
            "{name}: {unharmed} of {} bits do not matter",
            frame.len() * 8
        );
    }
}

/// The end of contiguous content follows from the padding that a frame states. If a change of it
/// went unnoticed, the end would stay below a hole that nothing ever fills, and the direction would
/// be stuck.
#[test]
fn the_padding_before_a_block_is_verified() {
    let params = Params {
        cache: 1000,
        span: 250,
        max_block: 120,
        entropy: Entropy::None,
        explicit: true,
        ..Params::default()
    };
    let (mut encoder, mut decoder) = (params.encoder(), params.decoder());
    // Nine blocks of 105 bytes leave 55 for padding.
    for i in 0..9 {
        let mut frame = Vec::new();
        encoder.encode(&noise(i, 105), &mut frame).unwrap();
        assert!(matches!(decoder.decode(&frame), Ok(Decoded::Block { .. })));
    }
    let mut frame = Vec::new();
    encoder.encode(&noise(9, 105), &mut frame).unwrap();
    assert_eq!(scan(&frame, 120).unwrap().explicit_offset(), Some((1000, 55)));
    // Flags, body length, block length, two bytes of offset, padding.
    assert_eq!(frame[5], 55);
    for padding in (0..=119).filter(|&padding| padding != 55) {
        let mut damaged = frame.clone();
        damaged[5] = padding;
        let answer = decoder.decode(&damaged);
        assert!(answer.is_err(), "a padding of {padding} is taken for right");
    }
    assert!(matches!(decoder.decode(&frame), Ok(Decoded::Block { offset: 1000, .. })));
    assert_eq!(decoder.acknowledged(), 1105);
}

#[test]
fn a_frame_in_place_of_another_is_refused() {
    let params =
        Params { cache: 50_000, max_block: 1000, entropy: Entropy::None, ..Params::default() };
    let mut encoder = params.encoder();
    let mut frames: Vec<Vec<u8>> = Vec::new();
    // Even equal blocks, since their offsets differ.
    for i in 0..10u64 {
        let mut frame = Vec::new();
        encoder.encode(&noise(i % 4, 100), &mut frame).unwrap();
        frames.push(frame);
    }
    for start in 0..10 {
        for other in 0..10 {
            let mut decoder = params.decoder();
            for frame in &frames[..start] {
                assert!(matches!(decoder.decode(frame), Ok(Decoded::Block { .. })));
            }
            let answer = decoder.decode(&frames[other]);
            if other == start {
                assert!(matches!(answer, Ok(Decoded::Block { .. })));
            } else {
                assert!(answer.is_err(), "frame {other} in the place of {start}: {answer:?}");
                assert!(matches!(decoder.decode(&frames[start]), Ok(Decoded::Block { .. })));
            }
        }
    }
}

#[test]
fn the_seed_the_epoch_and_the_log_size_must_match() {
    let params = Params { cache: 5000, max_block: 1000, explicit: true, ..Params::default() };
    let mut encoder = params.encoder();
    let mut rng = Rng::new(1);
    let others = [
        Params { seed: oncewire_codec::ChecksumSeed { session: 1, epoch: 0 }, ..params.clone() },
        Params { seed: oncewire_codec::ChecksumSeed { session: 0, epoch: 1 }, ..params.clone() },
        Params { cache: 5001, ..params.clone() },
    ];
    let mut decoders: Vec<Decoder> = others.iter().map(Params::decoder).collect();
    let mut first_failure = [None; 3];
    for i in 0..40 {
        let block = text(i, 1 + rng.below(1000));
        let mut frame = Vec::new();
        encoder.encode(&block, &mut frame).unwrap();
        for (decoder, failed) in decoders.iter_mut().zip(&mut first_failure) {
            match decoder.decode(&frame) {
                Ok(Decoded::Block { content, .. }) => assert!(content == block && failed.is_none()),
                Ok(other) => panic!("{other:?}"),
                Err(_) => _ = failed.get_or_insert(i),
            }
        }
    }
    assert_eq!(first_failure[..2], [Some(0), Some(0)]);
    assert!(
        first_failure[2].is_some_and(|i| i > 3),
        "another size shows at the end of the first generation: {first_failure:?}"
    );
}

/// The work for a frame is bounded by its own length and the block limit.
#[test]
fn large_claims_are_refused_before_allocation() {
    let mut decoder = Params { cache: 1 << 20, max_block: 1000, ..Params::default() }.decoder();
    let before = decoder.memory().total();
    for (frame, error) in [
        // Body lengths of 2^62, and one above the limit.
        (&[0x00, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x40][..], "body length"),
        (&[0x00, 0xe9, 0x08], "body length"),
        // A block of 1,001 bytes.
        (&[0x00, 0x0a, 0xe9, 0x07, 1, 2, 3, 4, 5, 6, 7, 8], "block length"),
    ] {
        match decoder.decode(frame) {
            Err(FrameError::TooLarge { field, .. }) => assert_eq!(field, error),
            other => panic!("{other:?}"),
        }
    }
    assert!(matches!(decoder.decode(&[0x00, 0xe8, 0x08]), Ok(Decoded::NeedMore(1128))));
    assert_eq!(decoder.memory().total(), before);
}
