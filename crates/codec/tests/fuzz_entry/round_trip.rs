//! Bytes as a sequence of operations on an encoder and a decoder: blocks made of earlier ones, new
//! periods, restarted contexts, frames corrupted or lost in transit.

use super::input::{Input, piece};
use oncewire_codec::{
    ByteSet, Decoded, Decoder, Domain, Encoder, Entropy, Kernels, Level, Sharing,
};
use oncewire_family::SamplerKind;

/// Most blocks per input, so that a run stays short.
const MOST_BLOCKS: usize = 64;

struct Ends {
    best: Encoder,
    portable: Encoder,
    decoder: Decoder,
    contexts: usize,
    max_block: usize,
}

impl Ends {
    fn new(input: &mut Input<'_>) -> Ends {
        let max_block = [1, 13, 64, 700, 3000, 1 << 16][usize::from(input.u8()) % 6];
        let cache = max_block as u64 + input.u16() as u64 * [0, 1, 7][usize::from(input.u8()) % 3];
        let span = (cache / 4).min(cache - max_block as u64) * u64::from(input.u8() % 3) / 2;
        let contexts = 1 + usize::from(input.u8() % 4);
        let entropy = match input.u8() % 5 {
            0 => Entropy::None,
            1 => Entropy::Lz4,
            level => Entropy::Coded { level: i32::from(level) - 1 },
        };
        let sampler = match input.u8() % 4 {
            0 => SamplerKind::Fixed,
            1 => SamplerKind::SampleByte(input.bytes(8).iter().copied().collect::<ByteSet>()),
            _ => SamplerKind::sample_byte(),
        };
        let builder = Encoder::builder()
            .cache(cache)
            .span(span)
            .max_block(max_block)
            .contexts(contexts)
            .entropy(entropy)
            .sampler(sampler)
            .window(12 + usize::from(input.u8() % 53))
            .period(4 + usize::from(input.u8()) * 4);
        let bits = input.u8();
        // Each context belongs to a domain.
        let sharing = if bits & 2 == 2 { Sharing::None } else { Sharing::All };
        let builder = builder.explicit_offsets(bits & 1 == 1).sharing(sharing);
        let portable = Kernels::at(Level::Portable).unwrap_or_default();
        Ends {
            portable: builder.clone().kernels(portable).build().unwrap(),
            best: builder.build().unwrap(),
            decoder: Decoder::builder()
                .cache(cache)
                .span(span)
                .max_block(max_block)
                .contexts(contexts)
                .build()
                .unwrap(),
            contexts,
            max_block,
        }
    }

    fn encode(&mut self, block: &[u8], context: usize) -> Vec<u8> {
        let (mut frame, mut same) = (Vec::new(), Vec::new());
        self.best.enter(Domain(context as u64));
        self.portable.enter(Domain(context as u64));
        self.best.encode_frame(block, context).unwrap().append_to(&mut frame);
        self.portable.encode_frame(block, context).unwrap().append_to(&mut same);
        assert!(frame == same, "the levels write different frames");
        assert!(
            frame.len() <= block.len() + block.len() / 1000 + 40,
            "{} bytes became {}",
            block.len(),
            frame.len()
        );
        frame
    }

    /// The content of `frame`, if the decoder accepts it.
    fn decode(&mut self, frame: &[u8]) -> Option<&[u8]> {
        match self.decoder.decode(frame) {
            Ok(Decoded::Block { content, .. }) => Some(content),
            _ => None,
        }
    }

    fn reset(&mut self, context: usize) {
        self.best.reset_context(context).unwrap();
        self.portable.reset_context(context).unwrap();
    }
}

/// Plays the operations. Every block must be decoded correctly, whatever happened to earlier
/// frames.
pub(crate) fn run(input: &[u8]) {
    let mut input = Input(input);
    let mut ends = Ends::new(&mut input);
    let mut history = Vec::new();
    let mut end = 0;
    for _ in 0..MOST_BLOCKS {
        if input.is_empty() {
            break;
        }
        let operation = input.u8();
        let context = usize::from(operation >> 4) % ends.contexts;
        match operation & 15 {
            0 => {
                let period = 4 + usize::from(input.u8()) * 4;
                ends.best.set_period(period).unwrap();
                ends.portable.set_period(period).unwrap();
                continue;
            }
            1 => {
                ends.reset(context);
                continue;
            }
            _ => {}
        }
        let start = history.len();
        for _ in 0..1 + input.u8() % 4 {
            piece(&mut input, &mut history);
        }
        history.truncate(start + ends.max_block);
        let block = history[start..].to_vec();
        let frame = ends.encode(&block, context);
        let mut delivered = false;
        if operation & 15 == 2 {
            // Corrupt in transit: only the right bytes may be decoded.
            let mut harmed = frame.clone();
            for _ in 0..1 + input.u8() % 3 {
                let at = input.u16() % harmed.len();
                harmed[at] ^= input.u8();
            }
            let before = ends.decoder.acknowledged();
            if let Some(content) = ends.decode(&harmed) {
                assert!(content == block, "wrong content");
                delivered = true;
            } else {
                assert_eq!(ends.decoder.acknowledged(), before);
            }
        }
        if operation & 15 == 3 {
            // Lost, then replaced by a repair.
            ends.reset(context);
            repair(&mut ends, &block, end);
        } else if !delivered && ends.decode(&frame).is_none_or(|content| content != block) {
            assert_eq!(operation & 15, 2, "an unharmed frame fails");
            repair(&mut ends, &block, end);
        }
        if operation & 15 == 2 {
            // The corrupt frame may have named and changed any context.
            (0..ends.contexts).for_each(|context| ends.reset(context));
        }
        end = ends.decoder.acknowledged();
    }
}

fn repair(ends: &mut Ends, block: &[u8], end: u64) {
    if block.is_empty() {
        return;
    }
    // The block's position: after the last one, or at the start of the next generation.
    let (geometry, mut frame) = (ends.decoder_geometry(), Vec::new());
    ends.best.repair(geometry.place(end, block.len()), block.len(), &mut frame).unwrap();
    assert!(ends.decode(&frame).is_some_and(|content| content == block), "a repair fails");
}

impl Ends {
    fn decoder_geometry(&self) -> oncewire_codec::Geometry {
        let log = self.best.memory().log as u64;
        oncewire_codec::Geometry::new(log, 0).unwrap()
    }
}

/// Initial inputs: each kind of operation and piece, with each setup.
pub(crate) fn seeds() -> Vec<Vec<u8>> {
    let blocks: [&[u8]; 7] = [
        &[4, 0, 1, 3, 0x84, 3],
        &[4, 1, 4, 0, 2, 0x84, 1, 0, 0, 0, 12, b'p', b'l', b'a', b'i', b'n'],
        &[0x14, 0, 5, 0x20, 3, 0x20, 3, 70, 0],
        &[5, 2, 3, 1, 0xff, 0x7f, 2, 5, 200, 0, 0xc4, 0xff, 0xff, 0, 4, 0, 0],
        &[2, 1, 1, 9, 200, 1, 4, 0x90, 1, 0x90, 1, 0, 0, 1, 9, 0, 0x55],
        &[3, 0, 1, 7, 0, 2, 0, 40, 1, 0x14, 0, 4, 0, 8, 0, 8, 0, 0],
        &[4, 3, 1, 3, 0, 2, 4, 0, 1, 90, 0, 0, 0, 1, 8, 60, 0, 4, 0, 2, 80, 0, 0, 0],
    ];
    let mut seeds = Vec::new();
    for (i, setup) in [
        [4u8, 0, 60, 1, 1, 1, 2, 2, 20, 7, 0],
        [3, 0, 4, 1, 2, 0, 0, 2, 0, 3, 1],
        [5, 0xff, 0xff, 2, 0, 0, 4, 2, 20, 7, 0],
        [2, 100, 0, 1, 0, 3, 3, 0, 4, 0, 1],
        [1, 3, 0, 1, 0, 0, 1, 2, 0, 0, 0],
        [4, 1, 0, 0, 0, 2, 2, 3, 52, 15, 1],
    ]
    .into_iter()
    .enumerate()
    {
        let mut seed = setup.to_vec();
        for turn in 0..10 {
            seed.extend_from_slice(blocks[(turn * (i + 1) + i) % blocks.len()]);
        }
        seeds.push(seed);
    }
    for explicit in [2, 3] {
        let mut seed = vec![4, 0, 60, 1, 1, 1, 2, 2, 20, 7, explicit];
        // In all contexts in turn.
        for (turn, block) in blocks.iter().cycle().take(14).enumerate() {
            seed.push(block[0] & 15 | (turn as u8 % 3) << 4);
            seed.extend_from_slice(&block[1..]);
        }
        seeds.push(seed);
    }
    for (i, block) in blocks.into_iter().enumerate() {
        seeds.push(
            [&[4u8, 0, 60, 1, 1, 1, 2 + i as u8 % 3, 2, 20, 7, 0][..], blocks[0], block, block]
                .concat(),
        );
    }
    seeds
}
