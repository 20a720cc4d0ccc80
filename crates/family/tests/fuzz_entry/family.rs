//! Bytes as a sequence of operations on an encoder of any sampler, matcher, table and cache policy,
//! and a decoder: blocks made of earlier ones, new periods and efforts, late acknowledgments,
//! primed content, frames corrupted, lost and repaired, logs rewound.

use super::input::{Input, piece, text};
use oncewire_codec::adapt::Effort;
use oncewire_codec::{
    ByteSet, CachePolicy, ChecksumSeed, Decoded, Decoder, DecoderMemory, EncodeError, Encoder,
    EncoderMemory, Entropy, FrameView, Geometry, Kernels, Scan,
};
use oncewire_family::BucketShape;
use oncewire_family::chunk::ChunkForm;
use oncewire_family::{FamilySearch, MatcherKind, SamplerKind, TableKind};

/// Most blocks per input, so that a run stays short.
const MOST_BLOCKS: usize = 48;
/// Most bytes to prime both ends with at once.
const MOST_PRIMED: usize = 20_000;

struct Ends {
    /// One encoder for each kernel level.
    encoders: Vec<Encoder>,
    decoder: Decoder,
    efforts: Vec<Effort>,
    geometry: Geometry,
    policy: CachePolicy,
    /// For chunk-match: content below this offset may be referenced.
    acknowledged: Option<u64>,
    contexts: usize,
    max_block: usize,
    /// The decoder's offset after each operation, to be acknowledged later.
    lows: Vec<u64>,
    seed: ChecksumSeed,
    /// Upper bound on the memory of either end.
    promised: (EncoderMemory, DecoderMemory),
}

fn sampler(input: &mut Input<'_>) -> SamplerKind {
    let count = SamplerKind::all().count();
    match usize::from(input.u8()) % (count + 2) {
        choice if choice < count => SamplerKind::all().nth(choice).unwrap(),
        choice => {
            let members = input.bytes(usize::from(input.0.first().copied().unwrap_or(0) % 20));
            let set: ByteSet = members.iter().copied().collect();
            // Or all except those.
            SamplerKind::SampleByte(
                (0..=255).filter(|&byte| set.contains(byte) == (choice == count)).collect(),
            )
        }
    }
}

fn matcher(input: &mut Input<'_>) -> MatcherKind {
    match input.u8() % 6 {
        0 | 1 => MatcherKind::MaxMatch,
        2 => MatcherKind::Published { max_fingerprints: None },
        3 => MatcherKind::Published { max_fingerprints: Some(input.u8().into()) },
        4 => MatcherKind::ChunkMatch { form: ChunkForm::StartsAtMarker },
        _ => MatcherKind::ChunkMatch { form: ChunkForm::EndsWithWindow },
    }
}

impl Ends {
    fn new(input: &mut Input<'_>) -> Ends {
        let max_block = [1, 13, 64, 700, 3000, 1 << 16][usize::from(input.u8()) % 6];
        let cache = max_block as u64 + input.u16() as u64 * [0, 1, 5][usize::from(input.u8()) % 3];
        let policy = match input.u8() % 5 {
            0 | 1 => CachePolicy::All,
            2 => CachePolicy::NewRuns { straddle: true },
            3 => CachePolicy::NewRuns { straddle: false },
            _ => CachePolicy::NewBlocks { below_percent: 1 + input.u8() % 100 },
        };
        let spans = u64::from(input.u8() % 3);
        let span = if policy == CachePolicy::All {
            (cache / 4).min(cache - max_block as u64) * spans / 2
        } else {
            0
        };
        let contexts = 1 + usize::from(input.u8() % 3);
        let entropy = match input.u8() % 5 {
            0 => Entropy::None,
            1 => Entropy::Lz4,
            level => Entropy::Coded { level: i32::from(level) - 1 },
        };
        let (sampler, mut matcher) = (sampler(input), matcher(input));
        let shape = input.u8();
        let entries = 1 + input.u16() % 8000;
        let table = match shape % 3 {
            0 | 1 => TableKind::Compact,
            _ => TableKind::Buckets(BucketShape {
                slots: 1 + usize::from(shape / 3 % 8),
                hashes: 1 + usize::from(shape / 24 % 4),
                factor: 0.25 * f64::from(1 + u32::from(input.u8() % 64)),
            }),
        };
        let window = 12 + usize::from(input.u8() % 53);
        let period = 4 + usize::from(input.u8()) * 4;
        let options = input.u8();
        let backlog = max_block as u64 + (cache - max_block as u64) * u64::from(input.u8()) / 255;
        let seed = ChecksumSeed { session: options.into(), epoch: 0 };
        let with = |matcher| {
            let builder = Encoder::builder()
                .cache(cache)
                .span(span)
                .max_block(max_block)
                .policy(policy)
                .contexts(contexts)
                .entropy(entropy)
                .sampler(sampler.clone())
                .window(window)
                .period(period)
                .search(FamilySearch::new(matcher).table(table).backlog(backlog))
                .checksum_seed(seed)
                .explicit_offsets(options & 1 == 1);
            let builder = if options & 2 == 2 {
                builder.max_matches(usize::from(options >> 4))
            } else {
                builder
            };
            // The default is too much for a bucketed table with many slots.
            if options & 4 == 4 || table != TableKind::Compact {
                builder.table_entries(entries as u64)
            } else {
                builder
            }
        };
        if policy != CachePolicy::All && matches!(matcher, MatcherKind::ChunkMatch { .. }) {
            assert!(with(matcher).build().is_err(), "chunk-match keeps no content to choose from");
            matcher = MatcherKind::MaxMatch;
        }
        let builder = with(matcher);
        let encoders: Vec<Encoder> = Kernels::available()
            .map(|kernels| builder.clone().kernels(kernels).build().unwrap())
            .collect();
        let decoder_builder = Decoder::builder()
            .cache(cache)
            .span(span)
            .max_block(max_block)
            .policy(policy)
            .contexts(contexts)
            .checksum_seed(seed);
        Ends {
            efforts: builder.ladder().unwrap().efforts().to_vec(),
            geometry: Geometry::new(cache, span).unwrap(),
            promised: (builder.memory(), decoder_builder.memory()),
            acknowledged: matches!(matcher, MatcherKind::ChunkMatch { .. }).then_some(0),
            encoders,
            decoder: decoder_builder.build().unwrap(),
            policy,
            contexts,
            max_block,
            lows: vec![0],
            seed,
        }
    }

    fn all(&mut self, change: impl FnMut(&mut Encoder)) {
        self.encoders.iter_mut().for_each(change);
    }

    /// The frame of `block`, which must be the same from all encoders.
    fn encode(&mut self, block: &[u8], offset: u64, context: usize) -> Vec<u8> {
        let mut frames: Vec<Vec<u8>> = Vec::new();
        for encoder in &mut self.encoders {
            let mut frame = Vec::new();
            encoder.encode_frame(block, context).unwrap().append_to(&mut frame);
            frames.push(frame);
        }
        let frame = frames.swap_remove(0);
        assert!(frames.iter().all(|other| *other == frame), "the levels write different frames");
        let stats = self.encoders[0].stats();
        assert!(
            self.encoders.iter().all(|encoder| encoder.stats() == stats),
            "the levels count differently"
        );
        assert!(
            frame.len() <= block.len() + block.len() / 1000 + 32,
            "{} bytes became {}",
            block.len(),
            frame.len()
        );
        self.check_references(&frame, offset);
        frame
    }

    /// The log content that the frame references must be allowed, and acknowledged if chunk-match
    /// requires it.
    fn check_references(&self, frame: &[u8], offset: u64) {
        let Ok(Scan::Frame(view)) = FrameView::scan(frame, self.max_block) else {
            panic!("the frame is whole")
        };
        let sources = view.depends_on(offset).expect("the fields agree");
        let reach = self.geometry.capacity() - self.geometry.span();
        let floor = (offset + view.block_len() as u64).saturating_sub(reach);
        let end = self.acknowledged.unwrap_or(offset);
        assert!(
            sources.is_empty() || floor <= sources.start && sources.end <= end,
            "{sources:?}, allowed {floor}..{end}"
        );
    }

    fn acknowledge(&mut self, low: u64) {
        self.all(|encoder| encoder.acknowledge(low));
        let end = self.encoders[0].end();
        self.acknowledged = self.acknowledged.map(|before| before.max(low.min(end)));
    }

    /// Whether the decoder accepts `frame`, which must then hold `block` at `offset`.
    fn decode(&mut self, frame: &[u8], offset: u64, block: &[u8]) -> bool {
        let low = self.decoder.acknowledged();
        match self.decoder.decode(frame) {
            Ok(Decoded::Block { offset: at, content, .. }) => {
                assert!(at == offset && content == block, "wrong content at {at}");
                true
            }
            Ok(Decoded::Missing(ranges)) => panic!("{ranges:?} missing, though all is in order"),
            Ok(Decoded::NeedMore(_)) | Err(_) => {
                assert_eq!(self.decoder.acknowledged(), low, "only a block changes the log");
                false
            }
        }
    }

    fn reset_contexts(&mut self) {
        for context in 0..self.contexts {
            self.all(|encoder| encoder.reset_context(context).unwrap());
        }
    }

    /// The block just encoded, sent without references. If only new content is kept, nothing can be
    /// repaired.
    fn repair(&mut self, offset: u64, block: &[u8]) -> bool {
        let mut frame = Vec::new();
        let answer = self.encoders[0].repair(offset, block.len(), &mut frame);
        if self.policy != CachePolicy::All {
            assert_eq!(answer, Err(EncodeError::NotHeld { offset, len: block.len() }));
            return false;
        }
        // An empty block leaves nothing to repair.
        if block.is_empty() {
            return true;
        }
        answer.unwrap();
        assert!(self.decode(&frame, offset, block), "a repair fails");
        true
    }

    fn check_memory(&self) {
        for encoder in &self.encoders {
            let (now, promised) = (encoder.memory(), self.promised.0);
            assert_eq!((now.log, now.table), (promised.log, promised.table));
            assert!(
                now.contexts <= promised.contexts && now.buffers <= promised.buffers,
                "{now:?}, promised {promised:?}"
            );
        }
        let (now, promised) = (self.decoder.memory(), self.promised.1);
        assert_eq!(now.log, promised.log);
        assert!(
            now.contexts <= promised.contexts && now.buffers <= promised.buffers,
            "{now:?}, promised {promised:?}"
        );
    }
}

/// Plays the operations. Every block must be decoded correctly, whatever happened before.
// More than 100 lines: an operation of the input each.
pub(crate) fn run(input: &[u8]) {
    let mut input = Input(input);
    let mut ends = Ends::new(&mut input);
    let mut history = Vec::new();
    // A corrupt frame with correct content may have had other matches. With a policy for new
    // content, different parts are then kept, which shows later.
    let mut apart = false;
    for _ in 0..MOST_BLOCKS {
        if input.is_empty() {
            break;
        }
        let operation = input.u8();
        let context = usize::from(operation >> 4) % ends.contexts;
        match operation & 15 {
            0 => {
                let period = 4 + usize::from(input.u8()) * 4;
                ends.all(|encoder| encoder.set_period(period).unwrap());
                continue;
            }
            1 => {
                ends.all(|encoder| encoder.reset_context(context).unwrap());
                continue;
            }
            2 => {
                let effort = ends.efforts[usize::from(input.u8()) % ends.efforts.len()];
                ends.all(|encoder| encoder.set_effort(effort));
                continue;
            }
            3 => {
                // Late, early or repeated; and sometimes everything so far.
                let which = usize::from(input.u8());
                let low = if which == 255 { u64::MAX } else { ends.lows[which % ends.lows.len()] };
                ends.acknowledge(low);
                continue;
            }
            4 => {
                let start = history.len();
                piece(&mut input, &mut history);
                history.truncate(start + MOST_PRIMED);
                let content = history[start..].to_vec();
                let end = ends.encoders[0].end();
                ends.all(|encoder| encoder.prime(&content).unwrap());
                if ends.acknowledged == Some(end) {
                    ends.acknowledged = Some(ends.encoders[0].end());
                }
                ends.decoder.prime(&content);
                if !apart {
                    assert_eq!(
                        ends.encoders[0].end(),
                        ends.decoder.acknowledged(),
                        "the ends were given the same"
                    );
                }
                continue;
            }
            5 => {
                let explicit = operation & 16 == 0;
                ends.all(|encoder| encoder.set_explicit_offsets(explicit));
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
        let end = ends.encoders[0].end();
        let offset = ends.geometry.place(end, block.len());
        let frame = ends.encode(&block, offset, context);
        match operation & 15 {
            6 => {
                // Lost, and forgotten at both ends.
                let low = ends.decoder.acknowledged();
                let seed = ChecksumSeed { epoch: ends.seed.epoch + 1, ..ends.seed };
                let answers: Vec<_> =
                    ends.encoders.iter_mut().map(|encoder| encoder.rewind(low, seed)).collect();
                let now = offset + block.len() as u64;
                let in_generation = low >= ends.geometry.generation_start(offset) || now == end;
                if !(in_generation && ends.encoders[0].end() == low) {
                    let refused = EncodeError::NotHeld { offset: low, len: 0 };
                    assert!(answers.iter().all(|answer| *answer == Err(refused)), "{answers:?}");
                    // A new session would start here.
                    return;
                }
                assert!(answers.iter().all(Result::is_ok));
                ends.decoder.rewind(seed);
                ends.acknowledged = ends.acknowledged.map(|_| low);
                ends.seed = seed;
                history.truncate(start);
            }
            7 => {
                // Lost, then replaced by a repair.
                ends.all(|encoder| encoder.reset_context(context).unwrap());
                if !ends.repair(offset, &block) {
                    return;
                }
            }
            8 => {
                let mut harmed = frame.clone();
                for _ in 0..1 + input.u8() % 3 {
                    let at = input.u16() % harmed.len();
                    harmed[at] ^= input.u8();
                }
                let delivered = ends.decode(&harmed, offset, &block);
                apart |= delivered && ends.policy != CachePolicy::All;
                if !delivered
                    && !ends.decode(&frame, offset, &block)
                    && !ends.repair(offset, &block)
                {
                    return;
                }
                // The corrupt frame may have named and changed any context.
                ends.reset_contexts();
            }
            _ => {
                if !ends.decode(&frame, offset, &block) {
                    assert!(apart, "an unharmed frame fails");
                    return;
                }
            }
        }
        // A lost empty block may have ended an empty generation.
        if !apart && !block.is_empty() {
            assert_eq!(ends.encoders[0].end(), ends.decoder.acknowledged(), "the ends differ");
        }
        let low = ends.decoder.acknowledged();
        ends.lows.push(low);
        ends.check_memory();
    }
}

/// Initial inputs: every sampler, matcher, table and policy, with every operation.
pub(crate) fn seeds() -> Vec<Vec<u8>> {
    // The operation and its pieces, in the format of `round_trip`.
    let text_then_again: &[u8] = &[9, 1, 1, 3, 0x84, 3, 4, 0x84, 3, 0x84, 3];
    let mixed: &[u8] =
        &[10, 3, 4, 0x20, 3, 0x20, 3, 2, 7, 60, 0, 5, 0, 4, 0, 3, 70, 0, 1, 5, 90, 0];
    let run: &[u8] = &[0x19, 0, 3, 2, 0xe8, 3];
    let given: &[u8] = &[4, 1, 6, 0xd0, 7];
    let harmed: &[u8] = &[8, 0, 4, 0x90, 1, 0x90, 1, 0, 0, 1, 9, 0, 0x55];
    let others: [&[u8]; 8] = [
        &[0, 30],
        &[1],
        &[2, 3],
        &[3, 1],
        &[3, 255],
        &[5],
        &[6, 0, 1, 4, 90, 0],
        &[7, 0, 4, 0x20, 3, 0x20, 3],
    ];
    let mut seeds = Vec::new();
    for i in 0..24u8 {
        // Block, cache, its factor, policy (with its bound), span, contexts, entropy.
        let mut seed = vec![
            [4, 3, 5, 2][usize::from(i % 4)],
            100 + i,
            20 + i,
            1 + u8::from(i % 3 == 0),
            i % 5,
        ];
        if i % 5 == 4 {
            seed.push(50);
        }
        seed.extend([i % 3, i % 2, i % 5]);
        // Sampler, its set if it has one, matcher, its number if it has one.
        let samplers = SamplerKind::all().count() as u8;
        let sampler = i % (samplers + 2);
        seed.push(sampler);
        if sampler >= samplers {
            seed.extend([5, b' ', b'e', b'/', 0]);
        }
        seed.push(i % 6);
        if i % 6 == 3 {
            seed.push(16);
        }
        // Table, entries, its factor; window, period, options, backlog.
        seed.extend([i, 200, 1]);
        if i % 3 == 2 {
            seed.push(3);
        }
        seed.extend([20, i % 8, i.wrapping_mul(37), 128]);
        for turn in 0..4usize {
            seed.extend_from_slice(text_then_again);
            seed.extend_from_slice(others[(usize::from(i) + 3 * turn) % others.len()]);
            seed.extend_from_slice(mixed);
            seed.extend_from_slice([run, given, mixed, harmed][(usize::from(i) + turn) % 4]);
            // Acknowledged late, for chunk-match.
            seed.extend([3, turn as u8]);
        }
        seeds.push(seed);
    }
    seeds.push(text(1, 300));
    // Blocks of a few bytes, each continuing where the last match ended: matches that do not pay.
    for (max_block, policy) in [(1u8, 2u8), (1, 3), (0, 2), (2, 2), (1, 0)] {
        let setup = [max_block, 200, 3, 1, policy, 0, 0, 0, 0, policy % 2, 0, 99, 0, 0, 0, 0, 0];
        let again: &[u8] = &[9, 0, 4, 0xc8, 0, 13, 0, 0, 0];
        seeds.push(
            [
                &setup[..],
                &[4, 1, 5, 200, 0],
                &again.repeat(12),
                &[9, 0, 4, 0xc8, 0, 1, 0, 0, 0].repeat(12),
            ]
            .concat(),
        );
    }
    seeds
}
