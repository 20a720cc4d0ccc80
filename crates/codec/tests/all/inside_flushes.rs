//! Compressed streams in small pieces. With a flush every few bytes, they repeat as bytes, too, and
//! the entropy stage makes something of their literals: looking inside must not make their frames
//! larger.

use crate::common::content::{Rng, text};
use crate::deflated::{edited, png, zstd};
use flate2::{Compress, Compression, FlushCompress};
use oncewire_codec::{Decoded, Decoder, Encoder};
use std::ops::Range;

/// A gzip stream of this level, flushed each time after as many bytes as `seed` chooses of a range.
fn flushed(
    content: &[u8],
    level: u32,
    seed: u64,
    lengths: Range<usize>,
    how: FlushCompress,
) -> Vec<u8> {
    let mut compress = Compress::new(Compression::new(level), false);
    let mut out = b"\x1f\x8b\x08\0\0\0\0\0\0\x03".to_vec();
    let mut rng = Rng::new(seed);
    let mut rest = content;
    while !rest.is_empty() {
        let len = lengths.start + rng.below(lengths.len());
        let (piece, next) = rest.split_at(len.min(rest.len()));
        out.reserve(piece.len() + 1000);
        let how = if next.is_empty() { FlushCompress::Finish } else { how };
        compress.compress_vec(piece, &mut out, how).unwrap();
        rest = next;
    }
    out
}

/// As a server logs requests.
fn lines(seed: u64, len: usize) -> Vec<u8> {
    let mut rng = Rng::new(seed);
    let (mut out, mut time) = (Vec::new(), 1_700_000_000);
    while out.len() < len {
        time += rng.below(30);
        let (host, dir, file, size) =
            (rng.below(9), rng.below(20), rng.below(3000), rng.below(90_000));
        let status = [200, 200, 304, 404][rng.below(4)];
        let line = format!("{time} host{host} GET /a/{dir}/{file} {status} {size}\n");
        out.extend_from_slice(line.as_bytes());
    }
    out.truncate(len);
    out
}

/// An object in each line.
fn json(seed: u64, len: usize) -> Vec<u8> {
    let mut rng = Rng::new(seed);
    let mut out = Vec::new();
    while out.len() < len {
        let name = String::from_utf8_lossy(&text(rng.next(), 12)).replace('\n', " ");
        let (id, score, tag) = (rng.below(1_000_000), rng.below(10_000), rng.below(50));
        let line = format!(
            "{{\"id\":{id},\"name\":\"{name}\",\"score\":{score},\"tags\":[\"x{tag}\"]}}\n"
        );
        out.extend_from_slice(line.as_bytes());
    }
    out.truncate(len);
    out
}

/// Sends contents one after the other in blocks of this length. Returns the bytes of all frames.
fn send(contents: &[Vec<u8>], block: usize, inside: bool) -> usize {
    let mut encoder = Encoder::builder().cache(8 << 20).inside(inside).build().unwrap();
    let mut decoder = Decoder::builder().cache(8 << 20).build().unwrap();
    let (mut size, mut frame) = (0, Vec::new());
    for block in contents.iter().flat_map(|content| content.chunks(block)) {
        frame.clear();
        encoder.encode(block, &mut frame).unwrap();
        let Decoded::Block { content, .. } = decoder.decode(&frame).unwrap() else {
            panic!("the frame is whole, and nothing is missing");
        };
        assert!(content == block);
        size += frame.len();
    }
    assert_eq!(encoder.stats().inside.refused, 0);
    size
}

#[test]
fn streams_with_a_flush_every_few_bytes_take_no_more_than_without_looking_inside() {
    type Make = fn(u64, usize) -> Vec<u8>;
    for (name, make) in [("text", text as Make), ("lines", lines), ("json", json)] {
        let first = make(5, 60_000);
        let second = edited(&first, 77, 6);
        let versions = [edited(&second, 78, 60), second, first];
        for level in [1, 6, 9] {
            for how in [FlushCompress::Full, FlushCompress::Sync] {
                // Flushes at the same places of the versions, and at others.
                for (step, lengths) in [(0, 20..51), (1, 20..51), (1, 50..101)] {
                    let contents: Vec<Vec<u8>> = (0..3)
                        .rev()
                        .map(|nth| {
                            let seed = nth as u64 * step;
                            flushed(&versions[nth], level, seed, lengths.clone(), how)
                        })
                        .collect();
                    for block in [1400, 4096, 16384, 65536] {
                        let [off, on] = [false, true].map(|inside| send(&contents, block, inside));
                        assert!(
                            on <= off + off / 500 + 32,
                            "{name}, level {level}, {how:?}, {step}, {lengths:?}, {block}: {on}, not {off}"
                        );
                    }
                }
            }
        }
    }
}

#[test]
fn where_flushes_are_rarer_looking_inside_saves_much_of_what_repeats() {
    // Compressible as bytes, and shorter as tokens.
    for (level, lengths, most) in [(1, 300..801, 0.75), (1, 2000..4001, 0.65)] {
        let first = text(5, 200_000);
        let contents = [&first, &edited(&first, 77, 20), &edited(&first, 79, 200)]
            .map(|content| flushed(content, level, 3, lengths.clone(), FlushCompress::Full));
        for block in [1400, 4096, 16384] {
            let [off, on] = [false, true].map(|inside| send(&contents, block, inside));
            let share = on as f64 / off as f64;
            assert!(share < most, "{lengths:?}, {block}: {on} instead of {off}, {share:.3}");
        }
    }
}

#[test]
fn streams_in_many_small_pieces_are_found_in_blocks_of_any_length() {
    let first = text(1, 300_000);
    let texts = [&first, &edited(&first, 3, 4)];
    for (size, most) in [(100, 0.55), (200, 0.45), (256, 0.4), (500, 0.35), (900, 0.15)] {
        let contents = texts.map(|text| png(text, size));
        for block in [1400, 16384, 65536] {
            let [one, both] = [1, 2].map(|count| send(&contents[..count], block, true));
            let share = (both - one) as f64 / contents[1].len() as f64;
            assert!(share < most, "{size}, {block}: {share:.3}");
        }
    }
}

#[test]
fn streams_with_more_codes_than_a_frame_may_name_are_found_in_part() {
    let first = text(1, 300_000);
    let texts = [&first, &edited(&first, 3, 4)];
    for (level, flush, most) in [(6, 300, 0.8), (6, 500, 0.65), (9, 500, 0.65), (6, 800, 0.45)] {
        let contents =
            texts.map(|text| flushed(text, level, 0, flush..flush + 1, FlushCompress::Sync));
        for block in [1400, 4096, 16384] {
            let [one, both] = [1, 2].map(|count| send(&contents[..count], block, true));
            let share = (both - one) as f64 / contents[1].len() as f64;
            assert!(share < most, "level {level}, {flush}, {block}: {share:.3}");
        }
    }
}

#[test]
fn frames_of_zstd_with_many_flushes_take_no_more_than_without_looking_inside() {
    for (nth, make) in [text, lines, json].into_iter().enumerate() {
        let first = make(105, 60_000);
        let second = edited(&first, 182, 6);
        let versions = [&first, &second, &edited(&second, 183, 60)];
        for (level, flush) in [(1, 200), (3, 50), (3, 200), (9, 200), (3, 1000)] {
            let contents = versions.map(|version| zstd(version, level, flush));
            for block in [1400, 4096, 16384, 65536] {
                let [off, on] = [false, true].map(|inside| send(&contents, block, inside));
                assert!(
                    on <= off + off / 500 + 64,
                    "{nth}, level {level}, {flush}, {block}: {on}, not {off}"
                );
            }
        }
    }
}
