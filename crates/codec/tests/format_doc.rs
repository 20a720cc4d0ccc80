//! `docs/FORMAT.md` is true and complete: its numbers and worked examples are those of the code, and a second decoder written from it
//! alone reads what encoders write, accepts what it allows and refuses what it forbids.
#![allow(missing_docs)]

mod common;

use common::content::{History, Rng, noise, piece, text};
use common::params::{Params, max_block, new_content, params};
use common::{config_divided, place};
use oncewire_codec::pack::{self, Base, Header, PackReader, Step};
use oncewire_codec::{
    CachePolicy, ChecksumSeed, Decoded, Decoder, Encoder, Entropy, FrameError, FrameView, Geometry, MAX_BLOCK, MAX_CONTEXTS,
    MatcherKind, SamplerKind, Scan, Tokens,
};
use proptest::prelude::*;
use second::No;
use std::collections::VecDeque;
use std::ops::Range;

#[path = "format_doc/free.rs"]
mod free;
#[path = "vectors/manifest.rs"]
#[allow(dead_code)] // Its writer has no use here.
mod manifest;
#[path = "format_doc/second.rs"]
mod second;

fn second_parameters(params: &Params) -> second::Parameters {
    second::Parameters {
        cache: params.cache,
        span: params.span,
        block_limit: params.max_block as u64,
        policy: match params.policy {
            CachePolicy::All => second::Policy::All,
            // What is indexed is the encoder's business.
            CachePolicy::NewRuns { .. } => second::Policy::NewRuns,
            CachePolicy::NewBlocks { below_percent } => second::Policy::NewBlocks(below_percent.into()),
        },
        contexts: params.contexts,
        session: params.seed.session,
        epoch: params.seed.epoch,
    }
}

/// Hands a frame to both decoders, which must agree. Where both find it invalid, they may do so for different reasons.
fn both(first: &mut Decoder, second: &mut second::Decoder, frame: &[u8]) -> Result<second::Block, No> {
    let answer = second.decode(frame);
    match (first.decode(frame), &answer) {
        (Ok(Decoded::Block { offset, content, consumed }), Ok(block)) => {
            assert!(content == block.content, "content differs at {offset}");
            assert_eq!((offset, consumed), (block.offset, block.consumed));
        }
        (Ok(Decoded::Missing(ranges)), Err(No::Missing(missing))) => assert_eq!(ranges, missing),
        (Ok(Decoded::NeedMore(more)), Err(No::NeedMore)) => assert!(more > 0),
        (Err(FrameError::Offset { .. }), Err(No::Place)) => {}
        // The order of checks is free.
        (Ok(Decoded::Missing(_)), Err(no)) if *no == second::NO_CONTEXT => {}
        (Ok(Decoded::Block { .. }), Err(no)) if *no == second::TOO_LONG => return answer,
        (Err(error), Err(No::Invalid(_))) if !matches!(error, FrameError::Offset { .. }) => {}
        (first, second) => panic!("the decoders disagree: {first:?}, {second:?}"),
    }
    assert_eq!(first.low(), second.low);
    answer
}

// ---- What encoders write, the second decoder reads. ----

/// Parameters with any cache policy, and what goes with it.
fn with_any_policy() -> impl Strategy<Value = Params> {
    let policy = prop_oneof![2 => Just(CachePolicy::All), 3 => new_content()];
    (params(max_block()), policy).prop_map(|(params, policy)| match (policy, params.matcher) {
        (CachePolicy::All, _) => params,
        // Chunk-match keeps no content to choose from.
        (_, MatcherKind::ChunkMatch { .. }) => Params { policy, span: 0, matcher: MatcherKind::MaxMatch, ..params },
        _ => Params { policy, span: 0, ..params },
    })
}

proptest! {
    #![proptest_config(config_divided(2))]

    #[test]
    fn the_second_decoder_reads_frames(
        params in with_any_policy(),
        base in prop_oneof![Just(0usize), 1usize..20_000],
        turns in proptest::collection::vec((proptest::collection::vec(piece(), 0..5), 0usize..4, 0usize..12), 1..25),
    ) {
        let (mut encoder, mut first) = (params.encoder(), params.decoder());
        let mut second = second::Decoder::new(second_parameters(&params));
        let mut history = History { bytes: text(3, base) };
        encoder.prime(&history.bytes).unwrap();
        first.prime(&history.bytes);
        second.prime(&history.bytes);
        for (pieces, context, reset) in turns {
            let context = context % params.contexts;
            if reset == 0 {
                encoder.reset_context(context).unwrap();
            }
            let block = history.block(&pieces, params.max_block, params.cache);
            let mut frame = Vec::new();
            encoder.encode_frame(&block, context).unwrap().append_to(&mut frame);
            for cut in [0, 1, frame.len() / 2, frame.len() - 1] {
                prop_assert_eq!(both(&mut first, &mut second, &frame[..cut]), Err(No::NeedMore));
            }
            let decoded = both(&mut first, &mut second, &frame).map_err(|no| TestCaseError::fail(format!("{no:?}")))?;
            prop_assert!(decoded.content == block);
        }
    }

    #[test]
    fn the_second_decoder_reads_packs(
        params in params(max_block()),
        base in prop_oneof![Just(None), (0usize..30_000).prop_map(Some)],
        pieces in proptest::collection::vec(piece(), 0..30),
    ) {
        let base = base.map(|len| text(3, len));
        let cache = params.cache;
        let mut history = History { bytes: base.clone().unwrap_or_default() };
        let content = history.block(&pieces, 200_000, cache);
        let header = Header {
            cache,
            max_block: params.max_block,
            seed: params.seed.session,
            base: base.as_ref().map(|base| Base { len: base.len() as u64, digest: [5; 32] }),
        };
        // As `pack::pack`, which has no base.
        let mut encoder = header.configure(params.encoder_builder().explicit_offsets(false).span(0)).build_halves().unwrap();
        let mut packed = header.to_bytes();
        let mut summary = pack::Summary::default();
        if let Some(base) = &base {
            encoder.0.prime(&base[header.base_skip() as usize..]).unwrap();
        }
        let mut tokens = Tokens::default();
        for block in content.chunks(header.max_block) {
            encoder.0.find(block, &mut tokens).unwrap();
            encoder.1.write(&tokens, block, 0).unwrap().append_to(&mut packed);
            summary.add_tokens(&tokens);
        }
        packed.extend_from_slice(&summary.trailer());
        prop_assert!(second::unpack(&packed, base.as_deref()) == Ok(content.clone()));
        prop_assert!(read_pack(&packed, base.as_deref()) == Some(content));
    }

    /// Frames of several lanes, each with a context and in order, the lanes in any order; damaged, too early and again.
    #[test]
    fn both_decoders_give_the_same_answers_out_of_order(
        params in params(1usize..800),
        contexts in 1usize..=4,
        turns in proptest::collection::vec((proptest::collection::vec(piece(), 0..4), 0usize..4, any::<u16>()), 1..80),
    ) {
        let max_block = params.max_block;
        let cache = 12 * max_block as u64 + params.cache % 997;
        let params = Params { cache, span: cache / 4, contexts, explicit: true, ..params };
        let (mut finder, mut writer) = params.encoder_builder().build_halves().unwrap();
        let (mut first, mut second) = decoders(&params);
        let mut history = History::default();
        let mut lanes: Vec<VecDeque<(u64, usize, Vec<u8>)>> = vec![VecDeque::new(); contexts];
        let mut harmed = vec![false; contexts];
        let (mut tokens, mut end) = (Tokens::default(), 0);
        for (pieces, lane, chance) in turns {
            let block = history.block(&pieces, max_block, cache);
            let offset = place(cache, end, block.len());
            if end == first.low() || offset + block.len() as u64 <= first.low() + params.span {
                finder.find(&block, &mut tokens).unwrap();
                let mut frame = Vec::new();
                writer.write(&tokens, &block, lane % contexts).unwrap().append_to(&mut frame);
                lanes[lane % contexts].push_back((offset, block.len(), frame));
                end = offset + block.len() as u64;
            }
            let lane = usize::from(chance) % contexts;
            let Some((_, len, frame)) = lanes[lane].front().cloned() else { continue };
            if chance % 11 == 0 {
                // Any of them: the damage may make it another context's.
                harmed.fill(true);
                let mut damaged = frame.clone();
                damaged[usize::from(chance / 11) % frame.len()] ^= 1 << (chance % 7);
                // Padding that is implied is checked less strictly than padding that is stated.
                if damaged[0] & 0x10 != 0 && both(&mut first, &mut second, &damaged) == Err(second::TOO_LONG) {
                    // One may have accepted it.
                    return Ok(());
                }
            }
            match both(&mut first, &mut second, &frame) {
                Err(No::Missing(_)) => {}
                Ok(_) => {
                    lanes[lane].pop_front();
                    if chance % 5 == 0 {
                        let _ = both(&mut first, &mut second, &frame);
                    }
                }
                // The damaged frame cost the context its step, or was as good as this one, or an empty block was overtaken.
                Err(_) => {
                    prop_assert!(std::mem::take(&mut harmed[lane]) || len == 0, "a good frame is refused");
                    for (offset, len, mut frame) in std::mem::take(&mut lanes[lane]) {
                        frame.clear();
                        if len > 0 && second.byte(offset).is_none() {
                            finder.repair(offset, len, &mut frame).unwrap();
                            lanes[lane].push_back((offset, len, frame));
                        }
                    }
                    writer.reset_context(lane).unwrap();
                }
            }
        }
    }
}

/// The content of a pack by the first decoder, or `None` if it is refused.
fn read_pack(packed: &[u8], base: Option<&[u8]>) -> Option<Vec<u8>> {
    let (mut reader, mut rest, mut content) = (PackReader::new(1 << 30), packed, Vec::new());
    loop {
        let consumed = match reader.step(rest).ok()? {
            Step::NeedMore(_) => return None,
            Step::Header { consumed } => {
                let header = *reader.header().unwrap();
                if header.base.map(|base| base.len) != base.map(|base| base.len() as u64) {
                    return None;
                }
                if let Some(base) = base {
                    reader.prime(&base[header.base_skip() as usize..]);
                }
                consumed
            }
            Step::Block { content: block, consumed } => {
                content.extend_from_slice(block);
                consumed
            }
            Step::End { consumed } => return (consumed == rest.len()).then_some(content),
        };
        rest = &rest[consumed..];
    }
}

// ---- What the document allows, both decoders accept. ----

/// The fields of a frame, to be written as they are, right or wrong.
#[derive(Clone, Debug, Default)]
struct Draft {
    flags: u8,
    block_len: u64,
    explicit: Option<(u64, u64)>,
    context: Option<u64>,
    /// As in the frame: distances back from the offset.
    hull: Option<(u64, u64)>,
    descriptors: Option<Vec<u8>>,
    literals: Vec<u8>,
    checksum: u64,
    /// This varint, counted from 0, ends with a superfluous byte.
    overlong: Option<usize>,
}

impl Draft {
    fn fields(&self) -> Vec<u64> {
        let mut fields = vec![self.block_len];
        self.explicit.iter().for_each(|&(offset, padding)| fields.extend([offset, padding]));
        fields.extend(self.context);
        self.hull.iter().for_each(|&(start, end)| fields.extend([start, end]));
        fields.extend(self.descriptors.iter().map(|section| section.len() as u64));
        fields
    }

    fn to_bytes(&self) -> Vec<u8> {
        let mut body = Vec::new();
        for (i, field) in self.fields().into_iter().enumerate() {
            free::put(&mut body, field);
            if self.overlong == Some(i) {
                *body.last_mut().unwrap() |= 128;
                body.push(0);
            }
        }
        body.extend_from_slice(self.descriptors.as_deref().unwrap_or_default());
        body.extend_from_slice(&self.literals);
        body.extend_from_slice(&self.checksum.to_le_bytes());
        let mut out = vec![self.flags];
        free::put(&mut out, body.len() as u64);
        out.extend_from_slice(&body);
        out
    }
}

fn decoders(params: &Params) -> (Decoder, second::Decoder) {
    (params.decoder(), second::Decoder::new(second_parameters(params)))
}

/// Writes `blocks` frames, with a throw of dice for every choice.
fn write_freely(params: &Params, seed: u64, blocks: usize) {
    let (mut first, mut second) = decoders(params);
    let rng = &mut Rng::new(seed);
    let mut models: Vec<second::Models> = (0..params.contexts).map(|_| second::Models::new()).collect();
    let mut streams: Vec<_> = (0..params.contexts).map(|_| free::new_stream(1, 20)).collect();
    let mut begun = vec![false; params.contexts];
    for _ in 0..blocks {
        let n = if rng.one_in(3) { params.max_block } else { rng.below(params.max_block + 1) } as u64;
        let p = second_parameters(params);
        let (low, o) = (second.low, p.place(second.low, n));
        let floor = p.floor(o, n);
        // Tokens first; the block is what they come to.
        let (mut block, mut matches, mut literals) = (Vec::<u8>::new(), Vec::new(), Vec::new());
        while (block.len() as u64) < n {
            let (at, left) = (block.len() as u64, n as usize - block.len());
            if rng.one_in(2) {
                let most = if rng.one_in(4) { 2000 } else { 12 };
                let len = 1 + rng.below(left.min(most));
                let new = if rng.one_in(2) { text(rng.next() % 9, len) } else { noise(rng.next(), len) };
                block.extend_from_slice(&new);
                literals.extend_from_slice(&new);
                continue;
            }
            let source = match matches.last() {
                Some(m) if rng.one_in(2) => {
                    let m: &second::Match = m;
                    (o + at).saturating_sub(m.distance)
                }
                _ if rng.one_in(3) => floor + rng.next() % 3,
                _ if rng.one_in(3) => (o + at).saturating_sub(512 * (1 + rng.next() % 4)),
                _ => floor + rng.next() % (o + at + 1 - floor),
            };
            let most = if rng.one_in(2) { 3000 } else { 20 };
            let wanted = 1 + rng.below(left.min(most));
            let mut len = 0;
            while len < wanted && source >= floor && source < o + at {
                let from = source + len as u64;
                if source >= o {
                    block.push(block[(from - o) as usize]);
                } else if let Some(byte) = second.byte(from).filter(|_| from < o && from / p.cache == source / p.cache) {
                    block.push(byte);
                } else {
                    break;
                }
                len += 1;
            }
            if len > 0 {
                matches.push(second::Match { at, len: len as u64, source, distance: o + at - source });
            }
        }
        let context = rng.below(params.contexts);
        let fresh = !begun[context] || rng.one_in(6);
        let mut draft = Draft { block_len: n, ..Draft::default() };
        if rng.one_in(2) {
            draft.flags |= 0x10;
            draft.explicit = Some((o, o - low));
        }
        let mut next_models = if fresh { second::Models::new() } else { models[context].clone() };
        if !matches.is_empty() && !rng.one_in(6) {
            if rng.one_in(3) {
                draft.flags |= 1;
                draft.descriptors = Some(free::plain_descriptors(&matches, n, rng));
            } else {
                draft.flags |= 2;
                draft.descriptors = Some(free::coded_descriptors(&mut next_models, &matches, n, rng));
                let below: Vec<_> = matches.iter().filter(|m| m.source < o).collect();
                let start = below.iter().map(|m| m.source).min().unwrap_or(o);
                let end = below.iter().map(|m| m.source + m.len).max().unwrap_or(o);
                // The smallest, or all that may be referred to.
                draft.hull = Some(if rng.one_in(2) { (o - start, o - end) } else { (o - floor.min(o), 0) });
            }
        }
        // Section 4: what is too long goes another way.
        let too_long = draft.descriptors.as_ref().is_some_and(|d| d.len() + literals.len() > n as usize + 60);
        if draft.descriptors.is_none() || too_long {
            draft = Draft { flags: draft.flags & 0x10, descriptors: None, hull: None, ..draft };
            literals.clone_from(&block);
        }
        match rng.below(3) {
            1 => {
                let packed = lz4_flex::block::compress(&literals);
                if packed.len() <= literals.len() {
                    draft.flags |= 4;
                    draft.literals = packed;
                }
            }
            2 => {
                draft.flags |= 8;
                if fresh {
                    streams[context] =
                        free::new_stream(1 + rng.below(9), if params.max_block < 16_000 { 10 } else { 16 } + rng.below(5) as u32);
                }
                // In two zstd blocks or more.
                let end = zstd_safe::zstd_sys::ZSTD_EndDirective::ZSTD_e_flush;
                let (a, b) = literals.split_at(rng.below(literals.len()));
                draft.literals = free::zstd_section(&mut streams[context], a, end);
                draft.literals.extend(free::zstd_section(&mut streams[context], b, end));
            }
            _ => {}
        }
        if draft.flags & 0x0c == 0 {
            draft.literals.clone_from(&literals);
        }
        if draft.flags & 3 == 2 || draft.flags & 0x0c == 8 {
            if context > 0 {
                draft.flags |= 0x40;
                draft.context = Some(context as u64);
            }
            if fresh {
                draft.flags |= 0x20;
                if draft.flags & 0x0c != 8 {
                    streams[context] = free::new_stream(1, 20);
                }
                models[context] = second::Models::new();
            }
            begun[context] = true;
        }
        if draft.flags & 3 == 2 {
            models[context] = next_models;
        }
        draft.checksum = p.checksum(o, o - low, &block);
        let decoded = both(&mut first, &mut second, &draft.to_bytes()).unwrap_or_else(|no| panic!("{no:?}: {draft:x?}"));
        assert!(decoded.offset == o && decoded.content == block);
    }
}

proptest! {
    #![proptest_config(config_divided(4))]

    #[test]
    fn decoders_accept_every_choice_that_an_encoder_may_make(params in with_any_policy(), seed: u64, blocks in 1usize..30) {
        write_freely(&params, seed, blocks);
    }
}

// ---- What the document forbids, both decoders refuse. ----

/// Nine blocks of 100 bytes, 100 bytes of padding, and a block of 150: contiguous content up to 1150, in logs of 1000 bytes.
fn laid_out() -> (Params, Decoder, second::Decoder) {
    let seed = ChecksumSeed { session: 1, epoch: 2 };
    let params = Params { cache: 1000, span: 250, max_block: 200, contexts: 2, seed, ..Params::default() };
    let (mut first, mut second) = decoders(&params);
    for (i, len) in [100, 100, 100, 100, 100, 100, 100, 100, 100, 150].into_iter().enumerate() {
        let block = noise(i as u64, len);
        let o = second.parameters.place(second.low, len as u64);
        let checksum = second.parameters.checksum(o, o - second.low, &block);
        let draft = Draft { block_len: len as u64, literals: block, checksum, ..Draft::default() };
        both(&mut first, &mut second, &draft.to_bytes()).unwrap();
    }
    assert_eq!(second.low, 1150);
    (params, first, second)
}

/// A block of 100 bytes at 1150 may refer to 500 and above.
const LEN: u64 = 100;
const AT: u64 = 1150;

/// Plain descriptors of gap, distance and length each, as they are.
fn plain(matches: &[(u64, u64, u64)]) -> Vec<u8> {
    let mut out = Vec::new();
    free::put(&mut out, matches.len() as u64);
    matches.iter().for_each(|&(gap, distance, len)| [gap, distance, len].iter().for_each(|&value| free::put(&mut out, value)));
    out
}

/// Coded descriptors in a fresh context, by `write`.
fn coded(write: impl FnOnce(&mut free::Section, &mut second::Models)) -> Vec<u8> {
    let (mut section, mut models) = (free::Section::new(), second::Models::new());
    write(&mut section, &mut models);
    section.finish()
}

/// One match of 40 bytes behind 10 literals, coded with these symbols of the distance step and the end.
fn one_coded(step: usize, value: u64, to_end: usize) -> Vec<u8> {
    coded(|section, models| {
        section.number(&mut models.count, 0);
        section.number(&mut models.gap[0], 10);
        section.symbol(&mut models.step[0], step);
        let (numbers, kind) = if step < 5 { (&mut models.near, 1) } else { (&mut models.far, 2) };
        section.number(&mut numbers[usize::from(step.is_multiple_of(2))], value);
        section.symbol(&mut models.to_end, to_end);
        if to_end == 0 {
            section.number(&mut models.len[kind], 39);
        }
    })
}

fn plain_draft(matches: &[(u64, u64, u64)]) -> Draft {
    let matched: u64 = matches.iter().map(|m| if m.2 == 0 { LEN - m.0 } else { m.2 }).sum();
    let literals = vec![7; LEN.saturating_sub(matched) as usize];
    Draft { flags: 1, block_len: LEN, descriptors: Some(plain(matches)), literals, ..Draft::default() }
}

fn coded_draft(section: Vec<u8>) -> Draft {
    let hull = Some((500, 0));
    Draft { flags: 0x22, block_len: LEN, hull, descriptors: Some(section), literals: vec![7; 60], ..Draft::default() }
}

fn zstd_draft(literals: usize, window_log: u32, end: zstd_safe::zstd_sys::ZSTD_EndDirective) -> Draft {
    let section = free::zstd_section(&mut free::new_stream(1, window_log), &vec![7; literals], end);
    Draft { flags: 0x28, block_len: LEN, literals: section, ..Draft::default() }
}

fn refusals() -> Vec<(&'static str, Draft)> {
    use zstd_safe::zstd_sys::ZSTD_EndDirective::{ZSTD_e_end, ZSTD_e_flush};
    let raw = || Draft { block_len: LEN, literals: vec![7; LEN as usize], ..Draft::default() };
    let stated = |offset, padding| Draft { flags: 0x10, explicit: Some((offset, padding)), ..raw() };
    let whole = || coded_draft(one_coded(5, 99, 0));
    let mut all = vec![
        ("descriptor coding 3", Draft { flags: 3, ..raw() }),
        ("literal coding 3", Draft { flags: 0x0c, ..raw() }),
        ("bit 7", Draft { flags: 0x80, ..raw() }),
        ("fresh, but no context used", Draft { flags: 0x20, ..raw() }),
        ("context, but none used", Draft { flags: 0x40, context: Some(1), ..raw() }),
        ("block above the limit", Draft { block_len: 201, literals: vec![7; 201], ..raw() }),
        ("body above the limit", Draft { literals: vec![7; 200 + 128 - 9], ..raw() }),
        ("offset of 2^62", stated(1 << 62, 0)),
        ("padding above the offset", stated(AT, AT + 1)),
        ("offset held", stated(AT - 1, 0)),
        ("beyond the span", stated(AT + 250 - LEN + 1, 0)),
        ("padding not before a lap", stated(AT + 10, 10)),
        ("context 0 stated", Draft { flags: 0x68, context: Some(0), ..zstd_draft(100, 20, ZSTD_e_flush) }),
        ("context N", Draft { flags: 0x68, context: Some(2), ..zstd_draft(100, 20, ZSTD_e_flush) }),
        ("context not begun", Draft { flags: 0x08, ..zstd_draft(100, 20, ZSTD_e_flush) }),
        ("hull end above hull start", Draft { hull: Some((499, 500)), ..whole() }),
        ("no match", Draft { literals: vec![7; 100], ..plain_draft(&[]) }),
        ("count too large", Draft { descriptors: Some(vec![2, 10, 50, 40, 0, 0]), ..plain_draft(&[(10, 50, 40)]) }),
        ("descriptors left over", Draft { descriptors: Some(vec![1, 10, 50, 40, 0]), ..plain_draft(&[(10, 50, 40)]) }),
        ("no distance before", plain_draft(&[(10, 0, 40)])),
        ("position at the end", Draft { literals: vec![7; 100], ..plain_draft(&[(100, 50, 0)]) }),
        ("a match after the end", plain_draft(&[(10, 50, 90), (0, 50, 0)])),
        ("too long", plain_draft(&[(10, 50, 91)])),
        ("before offset 0", plain_draft(&[(10, AT + 11, 40)])),
        ("below the floor", plain_draft(&[(10, AT + 10 - 499, 40)])),
        ("in the padding", plain_draft(&[(10, AT + 10 - 861, 40)])),
        ("from the padding into the next lap", plain_draft(&[(10, AT + 10 - 999, 40)])),
        ("from the log into the block", plain_draft(&[(10, 49, 40)])),
        ("a literal too few", Draft { literals: vec![7; 59], ..plain_draft(&[(10, 50, 40)]) }),
        ("a literal too many", Draft { literals: vec![7; 61], ..plain_draft(&[(10, 50, 40)]) }),
        ("no state", coded_draft(vec![0, 0, 1])),
        ("distance step 7", coded_draft(one_coded(7, 99, 0))),
        ("distance 2^62", coded_draft(one_coded(5, (1 << 62) - 1, 0))),
        ("distance 2^62, aligned", coded_draft(one_coded(6, (1 << 53) - 1, 0))),
        ("distance below 0", coded_draft(one_coded(3, 0, 0))),
        ("distance beyond offset 0", coded_draft(one_coded(5, AT + 10, 0))),
        ("coded, below the floor", coded_draft(one_coded(5, AT + 10 - 499 - 1, 0))),
        ("bytes missing", {
            let mut section = one_coded(5, 99, 0);
            section.pop();
            coded_draft(section)
        }),
        ("bytes left over", {
            let mut section = one_coded(5, 99, 0);
            section.insert(section.len() / 2, 0);
            coded_draft(section)
        }),
        ("even bits left over", {
            let mut section = one_coded(5, 99, 0);
            // Three even bits of the distance and two of the length: they share a byte with three more.
            *section.last_mut().unwrap() |= 0x80;
            coded_draft(section)
        }),
        ("another final state", {
            let (mut section, mut models) = (free::Section::new(), second::Models::new());
            section.first_state += 1;
            section.number(&mut models.count, 0);
            section.number(&mut models.gap[0], 10);
            section.symbol(&mut models.step[0], 5);
            section.number(&mut models.far[0], 99);
            section.symbol(&mut models.to_end, 1);
            Draft { literals: vec![7; 10], ..coded_draft(section.finish()) }
        }),
        ("more matches than bytes", coded_draft(coded(|section, models| section.number(&mut models.count, LEN)))),
        (
            "number of 63 bits",
            coded_draft(coded(|section, models| {
                for (level, s) in [(0, 15), (1, 15), (2, 15), (2, 15), (2, 3)] {
                    section.symbol(&mut models.count.length[level], s);
                }
            })),
        ),
        (
            "mantissa too large",
            coded_draft(coded(|section, models| {
                section.symbol(&mut models.count.length[0], 2);
                section.symbol(&mut models.count.mantissa[2], 2);
            })),
        ),
        (
            "distance the same as none",
            coded_draft(coded(|section, models| {
                section.number(&mut models.count, 0);
                section.number(&mut models.gap[0], 10);
                section.symbol(&mut models.step[0], 0);
                section.symbol(&mut models.to_end, 1);
            })),
        ),
        (
            "distance down to 0",
            coded_draft(coded(|section, models| {
                section.number(&mut models.count, 1);
                section.number(&mut models.gap[0], 10);
                section.symbol(&mut models.step[0], 5);
                section.number(&mut models.far[0], 99);
                section.number(&mut models.len[2], 4);
                section.number(&mut models.gap[2], 0);
                section.symbol(&mut models.step[2], 3);
                section.number(&mut models.near[0], 99);
                section.symbol(&mut models.to_end, 1);
            })),
        ),
        ("LZ4 of nothing", Draft { flags: 4, literals: Vec::new(), ..raw() }),
        ("LZ4 of too little", Draft { flags: 4, literals: lz4_flex::block::compress(&[7; 99]), ..raw() }),
        ("LZ4 of too much", Draft { flags: 4, literals: lz4_flex::block::compress(&[7; 101]), ..raw() }),
        ("zstd of too little", zstd_draft(99, 20, ZSTD_e_flush)),
        ("a zstd window of 2^21", zstd_draft(100, 21, ZSTD_e_flush)),
        ("a zstd frame that ends", zstd_draft(100, 20, ZSTD_e_end)),
        ("no zstd at all", Draft { literals: vec![7; 100], ..zstd_draft(100, 20, ZSTD_e_flush) }),
    ];
    let everything = Draft { flags: 0x72, explicit: Some((AT, 0)), context: Some(1), ..whole() };
    for i in 0..everything.fields().len() {
        all.push(("a varint that is too long", Draft { overlong: Some(i), ..everything.clone() }));
    }
    all
}

#[test]
fn both_decoders_refuse_what_the_document_forbids() {
    let document = document();
    for (name, draft) in refusals() {
        let (_, mut first, mut second) = laid_out();
        let frame = draft.to_bytes();
        // Not for its checksum, which is wrong too: each is wrong for its own reason.
        match first.decode(&frame) {
            Err(FrameError::Checksum { .. }) | Ok(_) => panic!("{name}: {:?}", first.decode(&frame)),
            Err(FrameError::Field { field, .. } | FrameError::TooLarge { field, .. } | FrameError::Short { section: field }) => {
                assert!(document.contains(field), "{name}: the document has no {field}");
            }
            Err(_) => {}
        }
        match second.decode(&frame) {
            Err(No::Invalid(reason)) => assert_ne!(reason, "checksum", "{name}"),
            Err(No::Place) => {}
            other => panic!("{name}: {other:?}"),
        }
        let (_, mut first, mut second) = laid_out();
        let _ = both(&mut first, &mut second, &frame);
    }
    // A checksum over anything else.
    let (_, mut first, mut second) = laid_out();
    let draft = Draft {
        block_len: 3,
        literals: vec![1, 2, 3],
        checksum: second.parameters.checksum(AT, 1, &[1, 2, 3]),
        ..Draft::default()
    };
    assert_eq!(both(&mut first, &mut second, &draft.to_bytes()), Err(No::Invalid("checksum")));
    // A lap that is exactly full ends all the same.
    let params = Params { cache: 1000, max_block: 100, ..Params::default() };
    let (mut first, mut second) = decoders(&params);
    for i in 0..11 {
        let block = noise(i, 100);
        let checksum = second.parameters.checksum(100 * i, 0, &block);
        let draft = Draft { block_len: 100, literals: block, checksum, ..Draft::default() };
        both(&mut first, &mut second, &draft.to_bytes()).unwrap();
    }
    let draft =
        Draft { block_len: 10, literals: Vec::new(), descriptors: Some(plain(&[(0, 105, 10)])), flags: 1, ..Draft::default() };
    assert!(matches!(both(&mut first, &mut second, &draft.to_bytes()), Err(No::Invalid(_))));
}

/// The same frames with nothing wrong, and what a decoder need not notice.
#[test]
fn both_decoders_accept_what_is_next_to_the_forbidden() {
    let drafts = [
        plain_draft(&[(10, 50, 40)]),
        plain_draft(&[(10, 100, 0)]),
        plain_draft(&[(10, AT + 10 - 500, 40)]),
        plain_draft(&[(10, AT + 10 - 860, 40)]),
        plain_draft(&[(10, AT + 10 - 1000, 40)]),
        plain_draft(&[(10, 10, 40)]),
        plain_draft(&[(10, 1, 40)]),
        coded_draft(one_coded(5, 99, 0)),
        coded_draft(one_coded(1, 99, 0)),
        Draft { literals: vec![7; 10], ..coded_draft(one_coded(5, 99, 1)) },
        // Need not notice: the end told by another symbol than 1, a hull that holds nothing, one that holds what cannot be.
        Draft { literals: vec![7; 10], ..coded_draft(one_coded(5, 99, 2)) },
        Draft { hull: Some((0, 0)), ..coded_draft(one_coded(5, 99, 0)) },
        Draft { hull: Some((1 << 62, 0)), ..coded_draft(one_coded(5, 99, 0)) },
        zstd_draft(100, 20, zstd_safe::zstd_sys::ZSTD_EndDirective::ZSTD_e_flush),
    ];
    for mut draft in drafts {
        let (_, mut first, mut second) = laid_out();
        // Its content is what it comes to: taken from the decoder that says what it should have been.
        let checksum = content_of(&second, &draft).map(|content| second.parameters.checksum(AT, 0, &content));
        draft.checksum = checksum.unwrap_or_else(|| panic!("{draft:?}"));
        assert!(both(&mut first, &mut second, &draft.to_bytes()).is_ok(), "{draft:?}");
    }
}

/// What a frame at [`AT`] with one match behind ten literals of 7, or with none, decodes to.
fn content_of(decoder: &second::Decoder, draft: &Draft) -> Option<Vec<u8>> {
    let mut trace = None;
    let mut block = vec![7; LEN as usize];
    let section = draft.descriptors.as_deref();
    let (at, len, distance) = match draft.flags & 3 {
        0 => return Some(block),
        1 => {
            let mut section = &section?[1..];
            let gap = second::varint(&mut section).ok()?;
            let distance = second::varint(&mut section).ok()?;
            let len = second::varint(&mut section).ok()?;
            (gap, if len == 0 { LEN - gap } else { len }, distance)
        }
        _ => {
            let found = second::Models::new().read(section?, AT, LEN, &mut trace).ok()?[0];
            (found.at, found.len, found.distance)
        }
    };
    for i in at..at + len {
        let source = AT + i - distance;
        block[i as usize] = if source < AT { decoder.byte(source)? } else { block[(source - AT) as usize] };
    }
    Some(block)
}

/// The table of section 3, by both decoders: what is kept tells where the next block goes, and can be referred to.
#[test]
fn cache_policies_keep_what_the_table_says() {
    let document = document();
    let table = document.split_once("### What enters the log\n").unwrap().1.split_once("\n### ").unwrap().0;
    let (log, block) = (b"..abcd..fghi..", b"abcd-fghi!");
    for text in [&log[..], block] {
        assert!(table.contains(&format!("`{}`", std::str::from_utf8(text).unwrap())));
    }
    let kept_by = |policy: &str| stated(table, policy).trim_matches('`');
    let policies = [
        ("`all`", CachePolicy::All),
        ("`new runs`", CachePolicy::NewRuns { straddle: true }),
        ("`new runs`", CachePolicy::NewRuns { straddle: false }),
        ("`new blocks`, 81 percent", CachePolicy::NewBlocks { below_percent: 81 }),
        ("`new blocks`, 80 percent", CachePolicy::NewBlocks { below_percent: 80 }),
    ];
    for (name, policy) in policies {
        let kept = match kept_by(name) {
            "nothing" => &b""[..],
            kept => kept.as_bytes(),
        };
        let params = Params { cache: 1000, max_block: 200, policy, ..Params::default() };
        let (mut first, mut second) = decoders(&params);
        first.prime(log);
        second.prime(log);
        let mut send = |block: &[u8], matches: Vec<u8>, literals: &[u8]| {
            let checksum = second.parameters.checksum(second.low, 0, block);
            let (block_len, literals) = (block.len() as u64, literals.to_vec());
            let draft = Draft { flags: 1, block_len, descriptors: Some(matches), literals, checksum, ..Draft::default() };
            assert_eq!(both(&mut first, &mut second, &draft.to_bytes()).unwrap().content, block);
            second.low
        };
        let o = log.len() as u64;
        assert_eq!(send(block, plain(&[(0, 12, 4), (1, 11, 4)]), b"-!"), o + kept.len() as u64, "{name}");
        // What was kept, once more and with a literal behind: not new.
        if !kept.is_empty() {
            let len = kept.len() as u64;
            send(&[kept, b"?"].concat(), plain(&[(0, len, len)]), b"?");
        }
        // Of no matches everything is new, and of no bytes nothing.
        let low = second.low;
        let raw = |low, block: &[u8]| {
            let checksum = second.parameters.checksum(low, 0, block);
            Draft { block_len: block.len() as u64, literals: block.to_vec(), checksum, ..Draft::default() }.to_bytes()
        };
        let frames = [raw(low, b"another"), raw(low + 7, b"")];
        for frame in frames {
            both(&mut first, &mut second, &frame).unwrap();
            assert_eq!(second.low, low + 7);
        }
    }
    for (percent, allowed) in [(0, false), (1, true), (100, true), (101, false)] {
        let policy = CachePolicy::NewBlocks { below_percent: percent };
        assert_eq!(Params { policy, ..Params::default() }.decoder_builder().build().is_ok(), allowed);
    }
    assert_eq!(stated(&document, "K, cache policy"), "`all`, `new runs`, `new blocks` below 1 to 100 percent");
}

#[test]
fn contexts_are_begun_lost_and_begun_again() {
    let (_, mut first, mut second) = laid_out();
    let mut stream = free::new_stream(1, 20);
    let flush = zstd_safe::zstd_sys::ZSTD_EndDirective::ZSTD_e_flush;
    let mut frame = |flags: u8, low: u64, right: bool| {
        if flags & 0x20 != 0 {
            stream = free::new_stream(1, 20);
        }
        let block = text(low, 50);
        let literals = free::zstd_section(&mut stream, &block, flush);
        let parameters = second::Parameters {
            cache: 1000,
            span: 250,
            block_limit: 200,
            policy: second::Policy::All,
            contexts: 2,
            session: 1,
            epoch: 2,
        };
        let checksum = parameters.checksum(low, 0, &block) ^ u64::from(!right);
        Draft { flags, block_len: 50, literals, checksum, context: (flags & 0x40 != 0).then_some(1), ..Draft::default() }
            .to_bytes()
    };
    let lost = Err(No::Invalid("a context that does not exist, was not begun, or is lost"));
    assert_eq!(both(&mut first, &mut second, &frame(0x48, 1150, true)), lost);
    let begun = frame(0x68, 1150, true);
    assert!(both(&mut first, &mut second, &begun).is_ok());
    // Again: out of place, and no harm done.
    let again = [&[begun[0] | 0x10, begun[1] + 3, begun[2], 0xfe, 0x08, 0x00], &begun[3..]].concat();
    assert_eq!(both(&mut first, &mut second, &again), Err(No::Place));
    assert!(both(&mut first, &mut second, &frame(0x48, 1200, true)).is_ok());
    // The other context does not mind.
    assert_eq!(both(&mut first, &mut second, &frame(0x48, 1250, false)), Err(No::Invalid("checksum")));
    assert_eq!(both(&mut first, &mut second, &frame(0x48, 1250, true)), lost);
    assert!(both(&mut first, &mut second, &frame(0x28, 1250, true)).is_ok());
    assert!(both(&mut first, &mut second, &frame(0x68, 1300, true)).is_ok());
    assert!(both(&mut first, &mut second, &frame(0x48, 1350, true)).is_ok());
}

#[test]
fn content_that_is_not_here_yet_is_named() {
    let (_, mut first, mut second) = laid_out();
    let draft = Draft { flags: 0x11, explicit: Some((1300, 0)), ..plain_draft(&[(10, 100, 40)]) };
    assert_eq!(both(&mut first, &mut second, &draft.to_bytes()), Err(No::Missing(std::iter::once(1210..1250).collect())));
}

#[test]
fn packs_that_the_document_forbids_are_refused() {
    let content = text(1, 3000);
    let header = Header { cache: 1500, max_block: 500, seed: 9, base: None };
    let good = pack::pack(&content, &header, Encoder::builder().entropy(Entropy::None)).unwrap();
    let mut bad: Vec<Vec<u8>> = Vec::new();
    let mut alter = |range: Range<usize>, value: &[u8], fit: bool| {
        let mut pack = good.clone();
        pack.splice(range, value.iter().copied());
        if fit {
            let checksum = xxhash_rust::xxh3::xxh3_64(&pack[..30]).to_le_bytes();
            pack[30..38].copy_from_slice(&checksum);
        }
        bad.push(pack);
    };
    (0..8).for_each(|i| alter(i..i + 1, &[good[i] ^ 1], true));
    [0, 2].into_iter().for_each(|version| alter(8..9, &[version], true));
    (0..8).for_each(|bit| alter(9..10, &[1 << bit], true));
    (30..38).for_each(|i| alter(i..i + 1, &[good[i] ^ 1], false));
    for (cache, block_limit) in [(499u64, 500u32), ((1 << 40) + 1, 500), (0, 0), (1500, 0), (1 << 20, 65_537)] {
        alter(10..22, &[&cache.to_le_bytes()[..], &block_limit.to_le_bytes()].concat(), true);
    }
    // Another cache or seed shows in the checksums of the frames, at the latest when a lap ends.
    alter(10..18, &1501u64.to_le_bytes(), true);
    alter(22..23, &[8], true);
    let (len, frames) = (good.len(), frame_ranges(&good, 38));
    (len - 16..len).for_each(|i| alter(i..i + 1, &[good[i] ^ 1], false));
    alter(len..len, &[0], false);
    alter(len - 17..len, &[], false);
    (1..17).for_each(|cut| alter(len - cut..len, &[], false));
    // A frame left out at the end, an empty one added.
    alter(frames.last().unwrap().clone(), &[], false);
    let end = content.len() as u64;
    let checksum = second::Parameters {
        cache: 1500,
        span: 0,
        block_limit: 500,
        policy: second::Policy::All,
        contexts: 1,
        session: 9,
        epoch: 0,
    }
    .checksum(end, 0, &[]);
    let empty = Draft { checksum, ..Draft::default() };
    alter(len - 17..len - 17, &empty.to_bytes(), false);
    // An offset stated, though right.
    let first = &good[38..];
    let body = usize::from(first[1] & 0x7f) + (usize::from(first[2]) << 7) + 2;
    let fields = [first[0] | 0x10, (body & 0x7f) as u8 | 0x80, (body >> 7) as u8, first[3], first[4], 0, 0];
    let stated = [&fields, &first[5..]].concat();
    alter(38..len, &stated, false);

    assert_eq!(second::unpack(&good, None).as_ref(), Ok(&content));
    assert_eq!(read_pack(&good, None), Some(content));
    for (i, pack) in bad.iter().enumerate() {
        assert!(second::unpack(pack, None).is_err(), "bad pack {i}");
        assert!(read_pack(pack, None).is_none(), "bad pack {i}");
    }
}

/// Where the frames lie from `at` on.
fn frame_ranges(pack: &[u8], mut at: usize) -> Vec<Range<usize>> {
    let mut ranges = Vec::new();
    while let Ok(Scan::Frame(view)) = FrameView::scan(&pack[at..], MAX_BLOCK) {
        ranges.push(at..at + view.len());
        at += view.len();
    }
    ranges
}

// ---- The test vectors, as a stranger uses them. ----

#[test]
fn the_second_decoder_agrees_with_every_vector() {
    let records = manifest::load("frames.txt");
    assert!(records.len() > 60);
    for record in records {
        let number = |name: &str| record.numbers.iter().find(|(found, _)| found == name).map_or(0, |&(_, value)| value);
        let policy = match manifest::policy_of(record.policy.as_deref()) {
            CachePolicy::All => second::Policy::All,
            CachePolicy::NewRuns { .. } => second::Policy::NewRuns,
            CachePolicy::NewBlocks { below_percent } => second::Policy::NewBlocks(below_percent.into()),
        };
        let mut decoder = second::Decoder::new(second::Parameters {
            cache: number("cache"),
            span: number("span"),
            block_limit: number("block"),
            policy,
            contexts: number("contexts") as usize,
            session: number("session"),
            epoch: number("epoch"),
        });
        record.base.iter().for_each(|base| decoder.prime(&manifest::read(base)));
        let (bytes, mut blocks, mut at) = (record.bytes(), Vec::new(), 0);
        for (len, wanted) in &record.steps {
            let outcome = match decoder.decode(&bytes[at..at + len]) {
                Ok(block) => {
                    let outcome = format!("block {} {}", block.offset, block.content.len());
                    blocks.push(block);
                    outcome
                }
                Err(No::Missing(ranges)) => {
                    ranges.iter().fold("missing".into(), |line, range| format!("{line} {}-{}", range.start, range.end))
                }
                Err(No::NeedMore) => "need".into(),
                Err(No::Place | No::Invalid(_)) => "error".into(),
            };
            // How many bytes more, and the name of an error, are up to the decoder.
            let same = if outcome.starts_with(['n', 'e']) { wanted.starts_with(&outcome) } else { *wanted == outcome };
            assert!(same, "{}: {outcome}, not {wanted}", record.file);
            at += len;
        }
        blocks.sort_by_key(|block| block.offset);
        let content: Vec<u8> = blocks.into_iter().flat_map(|block| block.content).collect();
        assert!(record.is_content(&content), "{}", record.file);
    }
    let records = manifest::load("packs.txt");
    assert!(records.len() > 20);
    for record in records {
        let base = record.base.as_deref().map(manifest::read);
        let pack = record.bytes();
        // The limit on the cache, which is the reader's own.
        let cache = pack.get(10..18).map_or(0, |bytes| u64::from_le_bytes(bytes.try_into().unwrap()));
        match second::unpack(&pack, base.as_deref()) {
            _ if cache > record.number("limit") => assert!(record.file.starts_with("bad/"), "{}", record.file),
            Ok(content) => assert!(record.file.starts_with("good/") && record.is_content(&content), "{}", record.file),
            // It refuses what it cannot read to the end.
            Err(_) => assert!(record.file.starts_with("bad/"), "{}", record.file),
        }
    }
}

// ---- What others define, and the document makes use of. ----

/// A block of LZ4 as one draft's literals. Its checksum is of what it comes to.
fn lz4_draft(section: &[u8], content: &[u8]) -> Draft {
    let (_, _, second) = laid_out();
    let checksum = second.parameters.checksum(AT, 0, content);
    Draft { flags: 4, block_len: content.len() as u64, literals: section.to_vec(), checksum, ..Draft::default() }
}

/// Where the sequences of a block of LZ4 end, in what they give: each match's beginning and end, and how many literals come last.
fn lz4_sequences(mut section: &[u8]) -> (Vec<Range<usize>>, usize) {
    fn length(section: &mut &[u8], nibble: u8) -> usize {
        let mut sum = usize::from(nibble);
        let mut goes_on = nibble == 15;
        while goes_on {
            let (&more, rest) = section.split_first().unwrap();
            (sum, *section) = (sum + usize::from(more), rest);
            goes_on = more == 255;
        }
        sum
    }
    let (mut at, mut matches) = (0, Vec::new());
    loop {
        let (&token, rest) = section.split_first().unwrap();
        section = rest;
        let literals = length(&mut section, token >> 4);
        section = &section[literals..];
        at += literals;
        if section.is_empty() {
            return (matches, literals);
        }
        section = &section[2..];
        let len = length(&mut section, token & 15) + 4;
        matches.push(at..at + len);
        at += len;
    }
}

#[test]
fn lz4_sections_end_as_its_format_says() {
    let document = document();
    assert!(document.contains("the last five bytes are\nliterals; and the last match begins at least 12 bytes before the end"));
    let params = Params { entropy: Entropy::Lz4, cache: 1 << 20, window: 64, period: 1024, ..Params::default() };
    let mut encoder = params.encoder();
    let (mut with_matches, mut seen) = (0, 0);
    for seed in 0..400 {
        // Repeats up to the very end, or near it, in lengths where the rules begin to matter.
        let pattern = text(seed, 1 + seed as usize % 40);
        let block: Vec<u8> =
            pattern.iter().cycle().take(24 + seed as usize % 60).chain(&noise(seed, seed as usize % 7)).copied().collect();
        let mut frame = Vec::new();
        encoder.encode(&block, &mut frame).unwrap();
        if frame[0] & 0x0f != 4 {
            continue;
        }
        let mut body = &frame[1..];
        let len = second::varint(&mut body).unwrap();
        assert_eq!((len as usize, second::varint(&mut body)), (frame.len() - 2, Ok(block.len() as u64)));
        let (matches, last) = lz4_sequences(&body[..body.len() - 8]);
        seen += 1;
        if let Some(found) = matches.last() {
            with_matches += 1;
            assert!(last >= 5 && found.start + 12 <= block.len(), "{matches:?}, {last} literals, of {}", block.len());
        }
    }
    assert!(seen > 100 && with_matches > 100, "{seen}, {with_matches}");

    // Blocks by hand. The library of the LZ4 project (1.9.4) refuses all that are broken, ours only the one without last literals: the document
    // allows either, and no wrong byte can come of it.
    let kept: [(&[u8], &[u8]); 3] = [
        (b"\x88abcdefgh\x08\x00\x50vwxyz", b"abcdefghabcdefghabcdvwxyz"),
        (b"\x80abcdefgh\x08\x00\x80stuvwxyz", b"abcdefghabcdstuvwxyz"),
        (b"\x00", b""),
    ];
    let broken: [(&[u8], &[u8]); 5] = [
        (b"\x84abcdefgh\x08\x00", b"abcdefghabcdefgh"),
        (b"\x88abcdefgh\x08\x00\x00", b"abcdefghabcdefghabcd"),
        (b"\x88abcdefgh\x08\x00\x40wxyz", b"abcdefghabcdefghabcdwxyz"),
        (b"\x80abcdefgh\x08\x00\x70tuvwxyz", b"abcdefghabcdtuvwxyz"),
        (b"\x82abcdefgh\x08\x00\x50vwxyz", b"abcdefghabcdefvwxyz"),
    ];
    for (section, content) in kept.into_iter().chain(broken) {
        let (_, mut first, mut second) = laid_out();
        let block = both(&mut first, &mut second, &lz4_draft(section, content).to_bytes());
        match block {
            Ok(block) => assert_eq!(block.content, content),
            Err(No::Invalid("LZ4")) => assert_eq!((section, content), broken[0]),
            Err(no) => panic!("{section:x?}: {no:?}"),
        }
    }
    // An offset of 0, which that library reads as zeros, and one before the beginning.
    for offset in [0, 9] {
        let section = [&b"\x88abcdefgh"[..], &[offset, 0], b"\x80stuvwxyz"].concat();
        let (_, mut first, mut second) = laid_out();
        let content = [&b"abcdefgh"[..], &[0; 12], b"stuvwxyz"].concat();
        let refused = both(&mut first, &mut second, &lz4_draft(&section, &content).to_bytes());
        assert!(matches!(refused, Err(No::Invalid(_))), "offset {offset}");
    }
}

#[test]
fn a_zstd_section_for_no_literals_may_be_empty_also_the_first() {
    let (_, mut first, mut second) = laid_out();
    let mut stream = free::new_stream(1, 20);
    let flush = zstd_safe::zstd_sys::ZSTD_EndDirective::ZSTD_e_flush;
    let mut at = AT;
    for (i, content) in [&b""[..], b"", b"literals at last, and more of them", b"", b"more literals at last"].iter().enumerate() {
        // A library's stream says nothing, not even its header, when there was nothing to say.
        let literals = free::zstd_section(&mut stream, content, flush);
        assert_eq!(literals.is_empty(), content.is_empty());
        let flags = if i == 0 { 0x28 } else { 0x08 };
        let checksum = second.parameters.checksum(at, 0, content);
        let draft = Draft { flags, block_len: content.len() as u64, literals, checksum, ..Draft::default() };
        assert_eq!(both(&mut first, &mut second, &draft.to_bytes()).unwrap().content, *content);
        at += content.len() as u64;
    }
}

#[test]
fn a_hull_of_nothing_is_stated_as_nothing() {
    // Repeats of the block itself, and nothing else.
    let block =
        [text(1, 200), noise(1, 9), text(1, 90), text(2, 80), noise(2, 9), text(1, 150), noise(3, 9), text(2, 70)].concat();
    let params = Params { cache: 65_536, window: 16, period: 4, ..Params::default() };
    let (mut encoder, (mut first, mut second)) = (params.encoder(), decoders(&params));
    let mut frame = Vec::new();
    encoder.encode(&text(7, 1000), &mut frame).unwrap();
    both(&mut first, &mut second, &frame).unwrap();
    frame.clear();
    encoder.encode(&block, &mut frame).unwrap();
    assert_eq!(frame[0] & 3, 2, "coded descriptors");
    let mut body = &frame[1..];
    let fields: Vec<u64> = (0..4).map(|_| second::varint(&mut body).unwrap()).collect();
    assert_eq!(fields[1..], [block.len() as u64, 0, 0]);
    assert!(both(&mut first, &mut second, &frame).unwrap().content == block);
    assert!(second.matches.iter().all(|m| m.source >= 1000));
}

#[test]
fn a_base_may_be_empty_or_not_needed() {
    let digest = *blake3::hash(&[]).as_bytes();
    let written: Vec<String> = digest.iter().map(|byte| format!("{byte:02x}")).collect();
    assert!(document().split_whitespace().collect::<Vec<_>>().join(" ").contains(&written.join(" ")));
    let content = text(1, 3000);
    let header = Header { cache: 1500, max_block: 500, seed: 9, base: Some(Base { len: 0, digest }) };
    let none = Header { base: None, ..header };
    let without = pack::pack(&content, &none, Encoder::builder()).unwrap();
    // The same frames behind a longer header.
    let with = [&header.to_bytes(), &without[38..]].concat();
    assert_eq!(second::unpack(&with, Some(&[])).as_ref(), Ok(&content));
    assert_eq!(read_pack(&with, Some(&[])), Some(content.clone()));
    // One that is not needed must not enter the log.
    assert!(second::unpack(&without, Some(&content)).is_err());
    let mut reader = PackReader::new(1 << 30);
    assert!(matches!(reader.step(&without), Ok(Step::Header { .. })));
    assert_eq!((reader.header().unwrap().base, reader.header().unwrap().base_skip()), (None, 0));
}

#[test]
fn the_checksums_in_the_document_are_right() {
    let document = document();
    let content: Vec<u8> = (0..2000u32).map(|i| (i % 251) as u8).collect();
    let session = 0x0123_4567_89ab_cdef;
    let table = document.split_once("## 9. Checksum").unwrap().1.split_once("## 10.").unwrap().0;
    let mut lengths = Vec::new();
    for cells in rows(table).filter(|cells| cells[0].parse::<usize>().is_ok()) {
        let len: usize = cells[0].parse().unwrap();
        for (cell, seed) in [(cells[1], 0), (cells[2], session)] {
            let hash = xxhash_rust::xxh3::xxh3_64_with_seed(&content[..len], seed);
            assert_eq!(cell, format!("`{hash:#018x}`"), "{len} bytes, seed {seed:#x}");
        }
        lengths.push(len);
    }
    assert!(lengths.contains(&240) && lengths.contains(&241) && lengths.iter().any(|&len| len > 1024));
    let params = Params {
        cache: 1000,
        span: 0,
        max_block: 300,
        explicit: true,
        seed: ChecksumSeed { session, epoch: 1 },
        ..Params::default()
    };
    let (mut first, mut second) = decoders(&params);
    let (hash, checksum) = (second.parameters.place_hash(1000, 24, 300), second.parameters.checksum(1000, 24, &content[..300]));
    assert!(table.contains(&format!("`{hash:#018x}` and the checksum `{checksum:#018x}`")));
    let bytes: Vec<String> = checksum.to_le_bytes().iter().map(|byte| format!("{byte:02x}")).collect();
    assert!(table.contains(&format!("ends with `{}`", bytes.join(" "))));
    // And a decoder takes it there: the lap before ends 24 bytes early.
    for (offset, padding, len) in [(0, 0, 300u64), (300, 0, 300), (600, 0, 300), (900, 0, 76), (1000, 24, 300)] {
        let block = &content[..len as usize];
        let checksum = second.parameters.checksum(offset, padding, block);
        let draft = Draft { block_len: len, literals: block.to_vec(), checksum, ..Draft::default() };
        assert_eq!(both(&mut first, &mut second, &draft.to_bytes()).unwrap().offset, offset);
    }
}

// ---- The document itself. ----

fn document() -> String {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/FORMAT.md");
    std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// The text of the fenced block with this info string.
fn fenced<'a>(document: &'a str, info: &str) -> &'a str {
    let start = format!("\n```{info}\n");
    let (_, rest) = document.split_once(&start).unwrap_or_else(|| panic!("the document has no block {info}"));
    assert!(!rest.contains(&start), "two blocks {info}");
    &rest[..rest.find("```").unwrap()]
}

/// The bytes of a hex block. What follows a semicolon is remarks.
fn hex(fenced: &str) -> Vec<u8> {
    let bytes = fenced.lines().flat_map(|line| line.split(';').next().unwrap().split_whitespace());
    bytes.map(|byte| u8::from_str_radix(byte, 16).unwrap()).collect()
}

/// The cells of all table rows.
fn rows(document: &str) -> impl Iterator<Item = Vec<&str>> {
    document.lines().filter(|line| line.starts_with('|')).map(|line| line.trim_matches('|').split('|').map(str::trim).collect())
}

/// The last number of a cell: decimal, with commas or as a power of 2.
fn number(cell: &str) -> u64 {
    let words = cell.split_whitespace().map(|word| word.trim_end_matches([',', '.']));
    let numbers = words.filter_map(|word| match word.split_once('^') {
        Some((base, exponent)) => Some(base.parse::<u64>().ok()?.pow(exponent.parse().ok()?)),
        None => word.replace(',', "").parse().ok(),
    });
    numbers.fold(None, |_, number| Some(number)).unwrap_or_else(|| panic!("no number in {cell:?}"))
}

/// The second cell of the row that begins with this one.
fn stated<'a>(document: &'a str, row: &str) -> &'a str {
    rows(document).find(|cells| cells[0] == row).unwrap_or_else(|| panic!("no row {row}"))[1]
}

#[test]
fn the_numbers_in_the_document_are_those_of_the_code() {
    let document = document();
    assert_eq!(number(stated(&document, "B, block limit")), MAX_BLOCK as u64);
    assert_eq!(number(stated(&document, "C, cache")), Geometry::MAX_CAPACITY);
    assert_eq!(number(stated(&document, "N, contexts")), MAX_CONTEXTS as u64);
    assert!(Geometry::new(400, 100).is_ok() && Geometry::new(400, 101).is_err());
    assert_eq!(stated(&document, "S, span"), "0 to C / 4");
    assert!(document.starts_with(&format!("# Oncewire frames and packs\n\nVersion {}.\n", pack::VERSION)));

    // What is private in the code shows in what it does.
    let slack = number(stated(&document, "body beyond its block, at most").trim_end_matches(" bytes"));
    for (body, refused) in [(1000 + slack, false), (1000 + slack + 1, true)] {
        let mut frame = vec![0];
        free::put(&mut frame, body);
        assert_eq!(FrameView::scan(&frame, 1000).is_err(), refused);
    }
    let limit = number(stated(&document, "limit of stated offsets"));
    for (offset, refused) in [(limit - 1, false), (limit, true)] {
        let frame = Draft { flags: 0x10, explicit: Some((offset, 0)), ..Draft::default() }.to_bytes();
        assert_eq!(FrameView::scan(&frame, 1000).is_err(), refused);
    }
    let longest = number(stated(&document, "longest varint").trim_end_matches(" bytes")) as usize;
    for len in [longest, longest + 1] {
        let frame = [&vec![0xff; len][..], &[0x7f]].concat();
        // A body length that is too large if it is one at all.
        match FrameView::scan(&[&[0], &frame[1..]].concat(), 1000) {
            Err(FrameError::TooLarge { .. }) => assert_eq!(len, longest),
            Err(FrameError::Field { .. }) => assert_eq!(len, longest + 1),
            other => panic!("{other:?}"),
        }
    }

    let ranges = number(stated(&document, "separate ranges held, at least"));
    let params = Params { cache: 20 * ranges, span: 5 * ranges, max_block: 1, ..Params::default() };
    let (mut first, second) = decoders(&params);
    for i in 1..=ranges + 1 {
        // A byte, and a gap of one.
        let checksum = second.parameters.checksum(2 * i, 0, &[7]);
        let explicit = Some((2 * i, 0));
        let frame = Draft { flags: 0x10, block_len: 1, explicit, literals: vec![7], checksum, ..Draft::default() }.to_bytes();
        assert_eq!(first.decode(&frame).is_ok(), i <= ranges, "{i} ranges");
    }

    // The tables of the pack: fields follow each other, and add up to what the code writes.
    let base = Base { len: 1, digest: [0; 32] };
    let header = Header { cache: 1, max_block: 1, seed: 0, base: Some(base) }.to_bytes();
    let table = |from: &str, to: &str| {
        let (_, text) = document.split_once(from).unwrap();
        let (text, _) = text.split_once(to).unwrap();
        let mut at = 0;
        for cells in rows(text).filter(|cells| cells.len() == 4 && cells[0].parse::<usize>().is_ok()) {
            assert_eq!(cells[0], at.to_string(), "{cells:?}");
            at += cells[1].parse::<usize>().unwrap();
        }
        at
    };
    assert_eq!(table("### Header\n", "### Base\n") + 8, header.len());
    assert_eq!(table("### Trailer\n", "## 13."), pack::TRAILER_LEN);
    assert_eq!(pack::Summary::default().trailer()[0], 0xff);
    let without = Header { cache: 1, max_block: 1, seed: 0, base: None }.to_bytes();
    assert!(document.contains(&format!("a header is {} or {} bytes long", without.len(), header.len())));
    let magic: Vec<String> = pack::MAGIC.iter().map(|byte| format!("{byte:02x}")).collect();
    assert!(document.contains(&format!("| 0 | 8 | magic | `{}`", magic.join(" "))));
    assert!(document.contains(&format!("| 8 | 1 | version | {} |", pack::VERSION)));

    for cells in rows(document.split_once("### Varints").unwrap().1.split_once("## 2.").unwrap().0).skip(2) {
        let value = if cells[0] == "2^63 - 1" { (1 << 63) - 1 } else { number(cells[0]) };
        let bytes = hex(cells[1].trim_matches('`'));
        let mut written = Vec::new();
        free::put(&mut written, value);
        assert_eq!(bytes, written);
    }
}

#[test]
fn the_worked_pack_is_what_the_code_writes_and_reads() {
    let document = document();
    let first = "Every byte crosses the wire once; what was there before is sent by reference.";
    assert!(document.contains(first));
    let content = format!("{first}\n{}\n{}\n", first.replace("there", "known"), "0".repeat(60));
    let packed = hex(fenced(&document, "hex pack"));
    let header = Header { cache: 65_536, max_block: 78, seed: 0x0123_4567_89ab_cdef, base: None };
    assert_eq!(read_pack(&packed, None).as_deref(), Some(content.as_bytes()));
    assert_eq!(second::unpack(&packed, None).as_deref(), Ok(content.as_bytes()));
    let builder = Encoder::builder().entropy(Entropy::None).sampler(SamplerKind::sample_byte());
    assert_eq!(pack::pack(content.as_bytes(), &header, builder).unwrap(), packed);
    let flags: Vec<u8> = frame_ranges(&packed, 38).into_iter().map(|range| packed[range.start]).collect();
    assert_eq!(flags, [0, 1, 1], "a raw frame and two with plain descriptors");

    let parameters = second::Parameters {
        cache: 65_536,
        span: 0,
        block_limit: 78,
        policy: second::Policy::All,
        contexts: 1,
        session: 0x0123_4567_89ab_cdef,
        epoch: 0,
    };
    assert!(document.contains(&format!("is `{:#018x}`", parameters.place_hash(78, 0, 78))));
    assert!(document.contains(&format!("{} bytes of content", content.len())));
}

#[test]
fn the_worked_coded_descriptors_are_what_the_code_writes_and_reads() {
    let document = document();
    let (log, block) = (fenced(&document, "text log").as_bytes(), fenced(&document, "text block").as_bytes());
    let frame = hex(fenced(&document, "hex coded"));
    assert!(document.contains(&format!("holds these {} bytes at offset 0", log.len())));
    assert!(document.contains(&format!("three lines of {} bytes at offset {}", block.len(), log.len())));

    let params = Params { cache: 65_536, window: 12, period: 4, ..Params::default() };
    let (mut encoder, mut first) = (params.encoder(), params.decoder());
    let mut second = second::Decoder::new(second_parameters(&params));
    encoder.prime(log).unwrap();
    first.prime(log);
    second.prime(log);
    let mut written = Vec::new();
    encoder.encode(block, &mut written).unwrap();
    assert_eq!(written, frame);

    second.trace = Some(Vec::new());
    assert_eq!(both(&mut first, &mut second, &frame).unwrap().content, block);
    let found: Vec<String> = second.matches.iter().map(|m| format!("{} {} {} {}", m.at, m.len, m.source, m.distance)).collect();
    assert!(found.len() > 2);
    let words = |fenced: &str| -> Vec<String> {
        let lines = fenced.lines().map(|line| line.split(';').next().unwrap().split_whitespace().collect::<Vec<_>>().join(" "));
        lines.collect()
    };
    assert_eq!(words(fenced(&document, "text matches")), found);
    assert_eq!(words(fenced(&document, "text symbols")), second.trace.unwrap());
}

#[test]
fn the_worked_zstd_stream_can_be_read() {
    let document = document();
    let params = Params { cache: 65_536, ..Params::default() };
    let (mut first, mut second) = decoders(&params);
    let frames = hex(fenced(&document, "hex zstd"));
    let mut rest = &frames[..];
    for line in ["one two three four five six seven eight nine ten", "two one four three six five eight seven ten nine"] {
        assert!(document.contains(&format!("`{line}`")));
        let block = both(&mut first, &mut second, rest).unwrap();
        assert_eq!(block.content, format!("{line}\n").as_bytes());
        rest = &rest[block.consumed..];
    }
    assert!(rest.is_empty());
}
