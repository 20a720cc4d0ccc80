//! Bytes as frames: the first byte selects the configuration, the rest arrives after some good
//! frames.

use super::input::{Input, noise, overlap, text};
use oncewire_codec::{
    Decoded, Decoder, DecoderBuilder, Domain, Encoder, Entropy, FrameError, FrameView, Scan,
    Sharing,
};

/// Configurations of a decoder, and the frames that it has decoded before.
pub(crate) struct Setup {
    pub(crate) cache: u64,
    pub(crate) span: u64,
    pub(crate) max_block: usize,
    pub(crate) contexts: usize,
    pub(crate) entropy: Entropy,
    pub(crate) explicit: bool,
    /// Two take turns, which are kept apart: positions have a fixed width.
    pub(crate) domains: bool,
}

pub(crate) const SETUPS: [Setup; 6] = [
    Setup {
        cache: 300,
        span: 0,
        max_block: 100,
        contexts: 1,
        entropy: Entropy::None,
        explicit: false,
        domains: false,
    },
    Setup {
        cache: 5003,
        span: 0,
        max_block: 2000,
        contexts: 2,
        entropy: Entropy::Coded { level: 1 },
        explicit: false,
        domains: false,
    },
    Setup {
        cache: 4001,
        span: 1000,
        max_block: 500,
        contexts: 3,
        entropy: Entropy::Coded { level: 3 },
        explicit: true,
        domains: true,
    },
    Setup {
        cache: 1 << 17,
        span: 1 << 15,
        max_block: 1 << 16,
        contexts: 1,
        entropy: Entropy::Lz4,
        explicit: true,
        domains: false,
    },
    Setup {
        cache: 70_000,
        span: 0,
        max_block: 1 << 16,
        contexts: 256,
        entropy: Entropy::Coded { level: 2 },
        explicit: false,
        domains: true,
    },
    Setup {
        cache: 1,
        span: 0,
        max_block: 1,
        contexts: 1,
        entropy: Entropy::None,
        explicit: true,
        domains: false,
    },
];

impl Setup {
    /// The setup that the first byte of an input selects.
    pub(crate) fn chosen_by(byte: u8) -> &'static Setup {
        &SETUPS[usize::from(byte) % SETUPS.len()]
    }

    fn decoder_builder(&self) -> DecoderBuilder {
        Decoder::builder()
            .cache(self.cache)
            .span(self.span)
            .max_block(self.max_block)
            .contexts(self.contexts)
    }

    /// Both ends after a few blocks, which fill more than a generation of a small log.
    pub(crate) fn primed(&self) -> (Encoder, Decoder) {
        let ends = (
            Encoder::builder()
                .cache(self.cache)
                .span(self.span)
                .max_block(self.max_block)
                .contexts(self.contexts)
                .entropy(self.entropy)
                .explicit_offsets(self.explicit)
                .sharing(if self.domains { Sharing::None } else { Sharing::All })
                .period(8)
                .window(12)
                .build(),
            self.decoder_builder().build(),
        );
        let (Ok(mut encoder), Ok(mut decoder)) = ends else { panic!("the setups are valid") };
        let longest = self.max_block.min(900);
        for i in 0..8u64 {
            let block = if i == 3 {
                noise(i, longest)
            } else {
                text(i % 5, longest - i as usize * longest / 20)
            };
            let mut frame = Vec::new();
            encoder.enter(Domain(i % 2));
            encoder
                .encode_frame(&block, i as usize % self.contexts.min(2))
                .unwrap()
                .append_to(&mut frame);
            assert!(
                matches!(decoder.decode(&frame), Ok(Decoded::Block { content, .. }) if content == block)
            );
        }
        (encoder, decoder)
    }
}

/// Feeds the input to a decoder; continues after bytes that it refuses.
pub(crate) fn run(input: &[u8]) {
    let mut input = Input(input);
    let setup = Setup::chosen_by(input.u8());
    let (_, mut decoder) = setup.primed();
    let bound = setup.decoder_builder().memory().total();
    let mut rest = input.0;
    while !rest.is_empty() {
        rest = &rest[step(setup, &mut decoder, rest)..];
        assert!(decoder.memory().total() <= bound, "{:?}", decoder.memory());
    }
}

/// Decodes at the start of `rest`; returns how many bytes to skip.
fn step(setup: &Setup, decoder: &mut Decoder, rest: &[u8]) -> usize {
    let (low, held) = (decoder.acknowledged(), decoder.held().to_vec());
    let frame = match FrameView::scan(rest, setup.max_block) {
        Ok(Scan::Frame(view)) => {
            assert!(view.len() <= rest.len() && view.block_len() <= setup.max_block);
            assert!(view.context().is_none_or(|id| id < 256));
            let needs = view.depends_on(low);
            assert!(needs.is_none_or(|range| range.is_empty() || range.end <= low));
            Some(view)
        }
        Ok(Scan::NeedMore(more)) => {
            assert!(more > 0 && more <= setup.max_block + 200);
            None
        }
        Err(_) => None,
    };
    let len = frame.as_ref().map_or(1, FrameView::len);
    let mut given_up = 0;
    match decoder.decode(rest) {
        Ok(Decoded::Block { offset, content, consumed }) => {
            let frame = frame.expect("only a whole frame can be decoded");
            assert_eq!((consumed, content.len()), (frame.len(), frame.block_len()));
            let block = offset..offset + content.len() as u64;
            assert!(held.iter().all(|held| !overlap(held, &block)), "{block:?} was held");
            assert!(offset >= low);
            assert!(decoder.acknowledged() >= low);
            return consumed;
        }
        Ok(Decoded::NeedMore(_)) => {
            assert!(frame.is_none());
            return rest.len();
        }
        Ok(Decoded::Missing(ranges)) => {
            let missing = ranges.to_vec();
            assert!(!missing.is_empty() && setup.cache > 1);
            assert!(missing.windows(2).all(|pair| pair[0].end < pair[1].start));
            for range in &missing {
                assert!(
                    !range.is_empty() && range.end <= low + setup.span + setup.max_block as u64
                );
                assert!(held.iter().all(|held| !overlap(held, range)), "{range:?} is held");
            }
            // Acknowledging the same again changes nothing.
            assert!(
                matches!(decoder.decode(rest), Ok(Decoded::Missing(again)) if again == missing)
            );
        }
        Err(FrameError::Offset { low: named, high, .. }) => {
            assert_eq!((named, high), (low, low + setup.span))
        }
        Err(error) => {
            assert!(!error.to_string().is_empty());
            // What the block would have overwritten, had it been right.
            let most = low + setup.span + 2 * setup.max_block as u64;
            given_up = most.saturating_sub(setup.cache);
        }
    }
    assert_eq!(decoder.acknowledged(), low);
    let above = |ranges: &[std::ops::Range<u64>]| -> Vec<_> {
        ranges
            .iter()
            .filter(|range| range.end > given_up)
            .map(|range| range.start.max(given_up)..range.end)
            .collect()
    };
    assert_eq!(above(decoder.held()), above(&held), "only a block may change the log");
    len
}

/// Initial inputs: what an encoder writes next, intact and corrupt, and handmade heads.
pub(crate) fn seeds() -> Vec<Vec<u8>> {
    let mut seeds = Vec::new();
    for (choice, setup) in SETUPS.iter().enumerate() {
        let (mut encoder, _) = setup.primed();
        let old = text(1, 300);
        let blocks: [Vec<u8>; 5] = [
            old.clone(),
            [
                &noise(9, 30),
                &old[50..200],
                &noise(10, 20),
                &old[10..90],
                &text(77, 60),
                &old[100..],
            ]
            .concat(),
            noise(11, 64),
            b" is ".repeat(40),
            Vec::new(),
        ];
        let mut all = vec![choice as u8];
        for (i, block) in blocks.iter().enumerate() {
            let mut one = vec![choice as u8];
            let block = &block[..block.len().min(setup.max_block)];
            encoder.enter(Domain(i as u64 % 2));
            encoder.encode_frame(block, i % setup.contexts.min(2)).unwrap().append_to(&mut one);
            all.extend_from_slice(&one[1..]);
            if choice < 3 && i < 3 {
                seeds.push(one);
            }
        }
        seeds.push(all);
    }
    // Heads of every kind, followed by a few bytes.
    for flags in [0x00u8, 0x11, 0x12, 0x1a, 0x26, 0x48, 0x6a, 0x72, 0x7f, 0x80] {
        seeds.push([&[2, flags, 40, 25, 1, 2][..], &noise(flags.into(), 40)].concat());
    }
    // With positions of 12 bits, as the second setup's log has.
    for flags in [0x80u8, 0x81, 0x82, 0x91, 0xa2, 0xcc, 0xf2, 0xfe, 0xff] {
        seeds.push([&[2, flags, 50, 25, 12, 1, 2][..], &noise(flags.into(), 60)].concat());
    }
    seeds
}
