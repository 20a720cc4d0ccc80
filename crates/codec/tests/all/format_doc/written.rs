//! The second decoder reads what encoders write.

use super::*;
use crate::deflated;

/// Parameters with any cache policy, and matching settings.
pub(crate) fn with_any_policy() -> impl Strategy<Value = Params> {
    let policy = prop_oneof![2 => Just(CachePolicy::All), 3 => new_content()];
    (params(max_block()), policy).prop_map(|(params, policy)| match (policy, params.matcher) {
        (CachePolicy::All, _) => params,
        // Chunk-match does not support selective policies.
        (_, MatcherKind::ChunkMatch { .. }) => {
            Params { policy, span: 0, matcher: MatcherKind::MaxMatch, ..params }
        }
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
        // As `pack::pack`, which does not support a base.
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

    /// Frames of several lanes, each with a context and in order, the lanes interleaved
    /// arbitrarily. Some frames are corrupt, early or repeated.
    #[test]
    fn both_decoders_agree_out_of_order(
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
            if end == first.acknowledged() || offset + block.len() as u64 <= first.acknowledged() + params.span {
                finder.find(&block, &mut tokens).unwrap();
                let mut frame = Vec::new();
                writer.write(&tokens, &block, lane % contexts).unwrap().append_to(&mut frame);
                lanes[lane % contexts].push_back((offset, block.len(), frame));
                end = offset + block.len() as u64;
            }
            let lane = usize::from(chance) % contexts;
            let Some((_, len, frame)) = lanes[lane].front().cloned() else { continue };
            if chance % 11 == 0 {
                // Any lane: the corruption may have changed the context number.
                harmed.fill(true);
                let mut damaged = frame.clone();
                damaged[usize::from(chance / 11) % frame.len()] ^= 1 << (chance % 7);
                // Implied padding is checked less strictly than stated padding.
                if damaged[0] & 0x10 != 0 {
                    let _ = both(&mut first, &mut second, &damaged);
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
                // The corrupt frame cost the context its state, or was as good as this one, or an
                // empty block was overtaken.
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

/// A version of a text with a change every few words.
fn with_many_changes(story: &[u8], rng: &mut Rng) -> Vec<u8> {
    let (mut version, mut at) = (story.to_vec(), rng.below(60));
    while at < version.len() {
        version[at] = rng.next() as u8;
        at += 20 + rng.below(60);
    }
    version
}

/// Frames with many matches, also in positions of fixed width. Some arrive before what they refer
/// to, and are repeated after it.
#[test]
fn the_second_decoder_reads_descriptors_in_columns() {
    let (mut in_columns, mut in_fixed, mut missing) = (0, 0, 0);
    for seed in 0..6u64 {
        let rng = &mut Rng::new(seed);
        let params = Params {
            cache: 1 << 18,
            span: 1 << 16,
            max_block: 30_000,
            contexts: 2,
            explicit: true,
            window: 16,
            period: 4,
            ..Params::default()
        };
        let (mut encoder, (mut first, mut second)) = (params.encoder(), decoders(&params));
        let mut story = text(seed, 10_000 + rng.below(20_000));
        for _ in 0..6 {
            let frames = [0, 1].map(|context| {
                story = with_many_changes(&story, rng);
                let mut frame = Vec::new();
                encoder.encode_frame(&story, context).unwrap().append_to(&mut frame);
                (story.clone(), frame)
            });
            if let Err(No::Missing(_)) = both(&mut first, &mut second, &frames[1].1) {
                missing += 1;
            }
            for (content, frame) in frames {
                match both(&mut first, &mut second, &frame) {
                    Ok(block) => assert!(block.content == content),
                    // The first frame of its context needed nothing that was not there.
                    Err(no) => assert_eq!(no, No::Place),
                }
                in_columns += usize::from(second.in_columns);
            }
        }
        let params = Params { span: 0, contexts: 3, ..params };
        let (mut first, mut second) = decoders(&params);
        let builder = Encoder::builder().cache(params.cache).max_block(30_000).contexts(3);
        let builder = builder.explicit_offsets(true).sharing(Sharing::Chunks);
        let mut encoder = builder.build().unwrap();
        let mut streams = [7, 8, 9].map(|domain| Stream::new(Domain(domain)));
        for turn in 0..12 {
            let version = with_many_changes(&story, rng);
            let mut frame = Vec::new();
            let who = turn % 3;
            let stream = &mut streams[who];
            encoder.encode_stream(stream, &version, who).unwrap().append_to(&mut frame);
            assert!(both(&mut first, &mut second, &frame).unwrap().content == version);
            in_fixed += usize::from(second.in_columns && frame[0] & 0x80 != 0);
            story = version;
        }
    }
    assert!(
        [in_columns, in_fixed, missing].iter().all(|&n| n > 10),
        "{in_columns} {in_fixed} {missing}"
    );
}

/// Frames of an encoder that keeps three domains apart: versions of text, plain and compressed.
#[test]
fn the_second_decoder_reads_frames_of_several_domains() {
    let (mut plain, mut coded, mut transcoded, mut stated) = (0, 0, 0, 0);
    for seed in 0..24u64 {
        let rng = &mut Rng::new(seed);
        let (cache, max_block) =
            [(70_000, 9000), (1 << 18, DEFAULT_BLOCK), (300_007, 1000)][seed as usize % 3];
        let explicit = rng.one_in(2);
        let params = Params { cache, max_block, contexts: 3, explicit, ..Params::default() };
        let (mut first, mut second) = decoders(&params);
        let sharing = if rng.one_in(2) { Sharing::None } else { Sharing::Chunks };
        let builder = Encoder::builder().cache(cache).max_block(max_block).contexts(3);
        let builder = builder.explicit_offsets(explicit).sharing(sharing).inside(true);
        let mut encoder = builder.build().unwrap();
        let mut streams = [7, 8, 9].map(|domain| Stream::new(Domain(domain)));
        let story = text(seed, 12_000);
        for turn in 0..18 {
            let version = deflated::edited(&story, rng.next() % 4, 8);
            let content = match (turn + seed) % 4 {
                0 => version,
                1 => deflated::gzip(&version, 6),
                2 => deflated::zstd(&version, 3, usize::MAX),
                _ => [&noise(rng.next(), 40), &version[100..700]].concat(),
            };
            let who = rng.below(3);
            for block in content.chunks(max_block.min(9000)) {
                let mut frame = Vec::new();
                let stream = &mut streams[who];
                encoder.encode_stream(stream, block, who).unwrap().append_to(&mut frame);
                assert!(both(&mut first, &mut second, &frame).unwrap().content == block);
                let is_fixed = frame[0] & 0x80 != 0;
                plain += usize::from(is_fixed && frame[0] & 3 == 1);
                coded += usize::from(is_fixed && frame[0] & 3 == 2);
                transcoded += usize::from(is_fixed && frame[0] & 12 == 12);
                stated += usize::from(is_fixed && frame[0] & 16 == 16);
            }
        }
        assert_eq!(encoder.stats().inside.refused, 0);
    }
    assert!(
        [plain, coded, transcoded, stated].iter().all(|&count| count > 20),
        "{plain} {coded} {transcoded} {stated}"
    );
}

/// The content of a pack by the first decoder, or `None` if it refuses the pack.
pub(crate) fn read_pack(packed: &[u8], base: Option<&[u8]>) -> Option<Vec<u8>> {
    let (mut reader, mut rest, mut content) = (PackReader::new(1 << 30), packed, Vec::new());
    loop {
        let consumed = match reader.step(rest).ok()? {
            PackStep::NeedMore(_) => return None,
            PackStep::Header { consumed } => {
                let header = *reader.header().unwrap();
                if header.base.map(|base| base.len) != base.map(|base| base.len() as u64) {
                    return None;
                }
                if let Some(base) = base {
                    reader.prime(&base[header.base_skip() as usize..]);
                }
                consumed
            }
            PackStep::Block { content: block, consumed } => {
                content.extend_from_slice(block);
                consumed
            }
            PackStep::End { consumed } => return (consumed == rest.len()).then_some(content),
        };
        rest = &rest[consumed..];
    }
}
