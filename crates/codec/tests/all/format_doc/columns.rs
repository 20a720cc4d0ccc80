//! Columns and what consists of them, for an encoder that makes every choice at random: see
//! [`super::free`].

use super::free::{Section, put};
use crate::common::content::Rng;
use oncewire_second::format::{
    CodedLiterals, Column, LengthModels, Match, Models, TranscodeModels,
};
use std::collections::HashMap;

/// Section 6, "Columns".
pub(crate) fn put_column(
    out: &mut Vec<u8>,
    column: &mut Column,
    models: &mut LengthModels,
    mut symbols: &[u8],
    (codes, rng): (&mut u64, &mut Rng),
) {
    while symbols.len() > 32_768 {
        let (part, rest) = symbols.split_at(16_384);
        put_part(out, column, models, part, (codes, rng));
        symbols = rest;
    }
    put_part(out, column, models, symbols, (codes, rng));
}

fn put_part(
    out: &mut Vec<u8>,
    column: &mut Column,
    models: &mut LengthModels,
    symbols: &[u8],
    (codes, rng): (&mut u64, &mut Rng),
) {
    if symbols.len() < 16 {
        out.extend_from_slice(symbols);
        return;
    }
    let mut ways = vec![0];
    let words = column.words();
    if column.has_code() && symbols.iter().all(|&s| words[usize::from(s)].is_some()) {
        ways.extend([1, 1]);
    }
    if symbols.len() >= 64 && *codes > 0 {
        ways.extend([2, 2]);
    }
    if symbols.iter().all(|&s| s == symbols[0]) {
        ways.push(3);
    }
    let way = ways[rng.below(ways.len())];
    out.push(way);
    match way {
        0 => out.extend_from_slice(symbols),
        1 => put_streams(out, column, symbols),
        2 => {
            *codes -= 1;
            put_code(out, column, models, &any_code(symbols, rng));
            put_streams(out, column, symbols);
        }
        _ => out.push(symbols[0]),
    }
}

/// A code, after its varint, which becomes that of the column.
pub(crate) fn put_code(
    out: &mut Vec<u8>,
    column: &mut Column,
    models: &mut LengthModels,
    lengths: &[usize; 256],
) {
    let section = code(column, models, lengths).finish();
    put(out, section.len() as u64);
    out.extend(section);
}

pub(crate) fn code(
    column: &mut Column,
    models: &mut LengthModels,
    lengths: &[usize; 256],
) -> Section {
    let (mut section, mut below) = (Section::new(), 0);
    for (old, &new) in column.0.iter_mut().zip(lengths) {
        let model = if *old > 0 { *old + 1 } else { usize::from(below > 0) };
        section.symbol(&mut models[model], new);
        (*old, below) = (new, new);
    }
    section
}

pub(crate) fn put_streams(out: &mut Vec<u8>, column: &Column, symbols: &[u8]) {
    let words = column.words();
    let stream = |first: usize, step: usize| -> Vec<u8> {
        let mut bits = Vec::new();
        for &symbol in symbols.iter().skip(first).step_by(step) {
            let (length, word) = words[usize::from(symbol)].unwrap();
            bits.extend((0..length).rev().map(|i| word >> i & 1 == 1));
        }
        let byte = |bits: &[bool]| {
            (0..8).fold(0, |byte, i| byte << 1 | u8::from(bits.get(i) == Some(&true)))
        };
        bits.chunks(8).map(byte).collect()
    };
    if symbols.len() < 256 {
        out.extend(stream(0, 1));
        return;
    }
    let streams = [0, 1, 2, 3].map(|first| stream(first, 4));
    streams[..3].iter().for_each(|s| out.extend_from_slice(&(s.len() as u16).to_le_bytes()));
    out.extend(streams.concat());
}

/// A complete code that has words for these symbols, and for others.
fn any_code(symbols: &[u8], rng: &mut Rng) -> [usize; 256] {
    let mut counts = [0; 256];
    symbols.iter().for_each(|&s| counts[usize::from(s)] += 1);
    let others = [2, 50, 1000][rng.below(3)];
    let mut used: Vec<usize> = (0..256).filter(|&s| counts[s] > 0 || rng.one_in(others)).collect();
    while used.len() < 2 {
        let other = rng.below(256);
        if !used.contains(&other) {
            used.push(other);
        }
    }
    // Divide words until there are enough.
    let mut lengths = vec![0];
    while lengths.len() < used.len() {
        let one = rng.below(lengths.len());
        if lengths[one] < 11 {
            lengths[one] += 1;
            lengths.push(lengths[one]);
        }
    }
    if !rng.one_in(3) {
        lengths.sort_unstable();
        used.sort_by_key(|&s| std::cmp::Reverse(counts[s]));
    }
    let mut code = [0; 256];
    used.into_iter().zip(lengths).for_each(|(s, length)| code[s] = length);
    code
}

/// Section 7, "Coded".
///
/// `codes` is the number of new codes that the frame may still have.
pub(crate) fn coded_literals(
    state: &mut CodedLiterals,
    literals: &[u8],
    codes: &mut u64,
    rng: &mut Rng,
) -> Vec<u8> {
    let before = state.literals.len();
    state.literals.extend_from_slice(literals);
    let all = &state.literals;
    let mut known = HashMap::new();
    for at in before.saturating_sub(65_535)..before {
        all.get(at..at + 4).map(|four| known.insert(four, at));
    }
    let [mut tokens, mut high, mut low, mut run, mut len, mut large, mut rest]: [Vec<u8>; 7] =
        Default::default();
    let more = |column: &mut Vec<u8>, large: &mut Vec<u8>, value: usize, rng: &mut Rng| {
        if value < 255 && !rng.one_in(8) {
            column.push(value as u8);
        } else {
            column.push(255);
            large.extend_from_slice(&(value as u32).to_le_bytes()[..3]);
        }
    };
    let (mut at, mut done) = (before, before);
    while at + 4 <= all.len() {
        let mut sources: Vec<usize> = known.insert(&all[at..at + 4], at).into_iter().collect();
        sources.extend(at.checked_sub(state.last_short as usize));
        let source = if sources.is_empty() { at } else { sources[rng.below(sources.len())] };
        let fits = (at..all.len()).take_while(|&i| all[i] == all[source + i - at]).count();
        let distance = at - source;
        if distance == 0 || distance > 65_535 || fits < 4 || rng.one_in(4) {
            at += 1;
            continue;
        }
        let length = if rng.one_in(3) { 4 + rng.below(fits - 3) } else { fits };
        let (literals, beyond) = (at - done, length - 4);
        let mut token = (literals.min(7) << 4 | beyond.min(15)) as u8;
        if distance as u64 != state.last_short || rng.one_in(2) {
            token |= 128;
            high.push((distance >> 8) as u8);
            low.push(distance as u8);
        }
        tokens.push(token);
        if literals >= 7 {
            more(&mut run, &mut large, literals - 7, rng);
        }
        if beyond >= 15 {
            more(&mut len, &mut large, beyond - 15, rng);
        }
        rest.extend_from_slice(&all[done..at]);
        state.last_short = distance as u64;
        at += length;
        done = at;
    }
    rest.extend_from_slice(&all[done..]);

    let mut out = Vec::new();
    put(&mut out, tokens.len() as u64);
    let models = &mut state.models;
    put_column(&mut out, &mut state.token, models, &tokens, (codes, rng));
    put_column(&mut out, &mut state.high, models, &high, (codes, rng));
    put_column(&mut out, &mut state.low, models, &low, (codes, rng));
    put_column(&mut out, &mut state.run, models, &run, (codes, rng));
    put_column(&mut out, &mut state.len, models, &len, (codes, rng));
    out.extend(large);
    put_column(&mut out, &mut state.literal, models, &rest, (codes, rng));
    out
}

/// Section 7, "Transcoded literals": all of them from a residual, which is these coded literals.
pub(crate) fn only_residual(models: &mut TranscodeModels, len: u64, coded: &[u8]) -> Vec<u8> {
    let mut operations = Section::new();
    operations.symbol(&mut models.operation[4], 5);
    let operations = operations.finish();
    let mut out = vec![0];
    put(&mut out, 2 * len + 1);
    put(&mut out, operations.len() as u64);
    [&out[..], &operations, coded].concat()
}

/// Section 6, "Descriptors in columns". `codes` is the number of new codes that the frame may still
/// have.
pub(crate) fn descriptors_in_columns(
    models: &mut Models,
    matches: &[Match],
    width: Option<u8>,
    codes: &mut u64,
    rng: &mut Rng,
) -> Vec<u8> {
    let [mut gaps, mut kinds, mut delta, mut low, mut delta_high]: [Vec<u8>; 5] =
        Default::default();
    let [mut high, mut second, mut third, mut fourth, mut fifth]: [Vec<u8>; 5] = Default::default();
    let (mut fixed, mut extra) = (Vec::new(), Vec::new());
    let mut done = 0;
    // What is too large for a symbol, or at random; above `symbols`, one for each number of bytes.
    let stated =
        |own: Option<u64>, symbols: u64, value: u64, extra: &mut Vec<u8>, rng: &mut Rng| {
            let mut ways: Vec<(u64, usize)> = own.map(|symbol| (symbol, 0)).into_iter().collect();
            if ways.is_empty() || rng.one_in(4) {
                let bytes = (1..=3).filter(|&bytes| value >> (8 * bytes) == 0);
                ways.extend(bytes.map(|bytes| (symbols + bytes - 1, bytes as usize)));
            }
            let (symbol, bytes) = ways[rng.below(ways.len())];
            extra.extend_from_slice(&value.to_le_bytes()[..bytes]);
            symbol as u8
        };
    for m in matches {
        let gap = m.at - done;
        gaps.push(stated(Some(gap).filter(|&gap| gap < 253), 253, gap, &mut extra, rng));
        let own = m.len.checked_sub(12).filter(|&code| code < 33);
        let code = stated(own, 33, m.len - 1, &mut extra, rng);

        let change = m.distance as i64 - models.last_distance as i64;
        let mut ways = Vec::new();
        ways.extend((change == 0).then_some(0));
        ways.extend(i8::try_from(change).map(|_| 1));
        ways.extend(i16::try_from(change).map(|_| 2));
        match width {
            Some(_) => ways.push(3),
            None => {
                ways.extend(
                    [(3, 16), (4, 24), (5, 32), (6, 40)]
                        .iter()
                        .filter_map(|&(class, bits)| (m.distance >> bits == 0).then_some(class)),
                );
            }
        }
        let class = ways[rng.below(ways.len())];
        kinds.push(36 * class + code);
        let bytes = m.distance.to_le_bytes();
        match (class, width) {
            (0, _) => {}
            (1, _) => delta.push(change as u8),
            (2, _) => {
                low.push(change as u8);
                delta_high.push((change >> 8) as u8);
            }
            (3, Some(width)) => {
                fixed.extend_from_slice(&bytes[..usize::from(width).div_ceil(8)]);
            }
            (3, None) => {
                low.push(bytes[0]);
                high.push(bytes[1]);
            }
            _ => {
                low.push(bytes[0]);
                second.push(bytes[1]);
                third.push(bytes[2]);
                fourth.extend((class >= 5).then_some(bytes[3]));
                fifth.extend((class >= 6).then_some(bytes[4]));
            }
        }
        models.last_distance = m.distance;
        done = m.at + m.len;
    }
    let mut out = Vec::new();
    put(&mut out, matches.len() as u64);
    let columns = &mut models.columns;
    let models = &mut columns.models;
    for (column, symbols) in [
        (&mut columns.gap, &gaps),
        (&mut columns.kind, &kinds),
        (&mut columns.delta, &delta),
        (&mut columns.low, &low),
        (&mut columns.delta_high, &delta_high),
        (&mut columns.high, &high),
        (&mut columns.second, &second),
        (&mut columns.third, &third),
        (&mut columns.fourth, &fourth),
        (&mut columns.fifth, &fifth),
    ] {
        put_column(&mut out, column, models, symbols, (codes, rng));
    }
    out.extend(fixed);
    out.extend(extra);
    out
}
