//! Both decoders accept everything that the document allows.

use super::*;

/// Of a context.
#[derive(Clone)]
struct State {
    models: second::Models,
    coded: second::CodedLiterals,
    transcoded: second::TranscodeModels,
}

impl State {
    fn new() -> State {
        State {
            models: second::Models::new(),
            coded: second::CodedLiterals::new(),
            transcoded: second::TranscodeModels::new(),
        }
    }
}

/// Writes `blocks` frames and makes every choice at random.
// More than 100 lines: each choice of an encoder, in the order of a frame.
pub(crate) fn write_freely(params: &Params, seed: u64, blocks: usize) {
    let (mut first, mut second) = decoders(params);
    let rng = &mut Rng::new(seed);
    let mut states = vec![State::new(); params.contexts];
    let mut begun = vec![false; params.contexts];
    for _ in 0..blocks {
        let n =
            if rng.one_in(3) { params.max_block } else { rng.below(params.max_block + 1) } as u64;
        let p = second_parameters(params);
        let (low, o) = (second.low, p.place(second.low, n));
        let floor = p.floor(o, n);
        // Choose tokens first; they determine the block.
        let (mut block, mut matches, mut literals) = (Vec::<u8>::new(), Vec::new(), Vec::new());
        while (block.len() as u64) < n {
            let (at, left) = (block.len() as u64, n as usize - block.len());
            if rng.one_in(2) {
                let most = if rng.one_in(4) { 2000 } else { 12 };
                let len = 1 + rng.below(left.min(most));
                let new =
                    if rng.one_in(2) { text(rng.next() % 9, len) } else { noise(rng.next(), len) };
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
                } else if let Some(byte) =
                    second.byte(from).filter(|_| from < o && from / p.cache == source / p.cache)
                {
                    block.push(byte);
                } else {
                    break;
                }
                len += 1;
            }
            if len > 0 {
                matches.push(second::Match {
                    at,
                    len: len as u64,
                    source,
                    distance: o + at - source,
                });
            }
        }
        let context = rng.below(params.contexts);
        let fresh = !begun[context] || rng.one_in(6);
        let mut draft = Draft { block_len: n, ..Draft::default() };
        let mut codes = (n + 128) / 256;
        if rng.one_in(2) {
            draft.flags |= 0x80;
            draft.width = Some(p.width() as u8);
        }
        if rng.one_in(2) {
            draft.flags |= 0x10;
            draft.explicit = Some((o, o - low));
        }
        let State { mut models, mut coded, mut transcoded } =
            if fresh { State::new() } else { states[context].clone() };
        if !matches.is_empty() && !rng.one_in(6) {
            if rng.one_in(3) {
                draft.flags |= 1;
                draft.descriptors = Some(free::plain_descriptors(&matches, n, draft.width, rng));
            } else {
                draft.flags |= 2;
                draft.in_columns = rng.one_in(2);
                draft.descriptors = Some(if draft.in_columns {
                    let width = draft.width;
                    columns::descriptors_in_columns(&mut models, &matches, width, &mut codes, rng)
                } else {
                    free::coded_descriptors(&mut models, &matches, n, draft.width, rng)
                });
                let below: Vec<_> = matches.iter().filter(|m| m.source < o).collect();
                let start = below.iter().map(|m| m.source).min().unwrap_or(o);
                let end = below.iter().map(|m| m.source + m.len).max().unwrap_or(o);
                // The minimal range, or everything that may be referenced.
                draft.hull =
                    Some(if rng.one_in(2) { (o - start, o - end) } else { (o - floor.min(o), 0) });
            }
        }
        // Section 4: literals that are too long are encoded differently.
        let too_long =
            draft.descriptors.as_ref().is_some_and(|d| d.len() + literals.len() > n as usize + 60);
        if draft.descriptors.is_none() || too_long {
            draft = Draft { flags: draft.flags & 0x90, descriptors: None, hull: None, ..draft };
            literals.clone_from(&block);
        }
        let room = n as usize + 60 - draft.descriptors.as_ref().map_or(0, Vec::len);
        match rng.below(4) {
            1 => {
                let packed = lz4_flex::block::compress(&literals);
                if packed.len() <= literals.len() {
                    draft.flags |= 4;
                    draft.literals = packed;
                }
            }
            2 => {
                let section = columns::coded_literals(&mut coded, &literals, &mut codes, rng);
                if section.len() <= room {
                    draft.flags |= 8;
                    draft.literals = section;
                }
            }
            3 => {
                // All of them from a residual, which is compressed.
                let section = columns::coded_literals(&mut coded, &literals, &mut codes, rng);
                let len = literals.len() as u64;
                let section = columns::only_residual(&mut transcoded, len, &section);
                if section.len() <= room {
                    draft.flags |= 12;
                    draft.literals = section;
                }
            }
            _ => {}
        }
        if draft.flags & 0x0c == 0 {
            draft.literals.clone_from(&literals);
        }
        if draft.flags & 3 == 2 || draft.flags & 8 != 0 {
            if context > 0 || draft.width.is_some() && rng.one_in(2) {
                draft.flags |= 0x40;
                draft.context = Some(context as u64);
            }
            if fresh {
                draft.flags |= 0x20;
                states[context] = State::new();
            }
            begun[context] = true;
        }
        let state = &mut states[context];
        if draft.flags & 3 == 2 {
            state.models = models;
        }
        if draft.flags & 8 != 0 {
            state.coded = coded;
        }
        if draft.flags & 12 == 12 {
            state.transcoded = transcoded;
        }
        draft.checksum = p.checksum(o, o - low, &block);
        let decoded = both(&mut first, &mut second, &draft.to_bytes())
            .unwrap_or_else(|no| panic!("{no:?}: {draft:x?}"));
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
