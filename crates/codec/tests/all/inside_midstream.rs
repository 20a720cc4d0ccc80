//! Streams whose beginning was not sent.

use crate::common::content::{Rng, noise, text};
use crate::deflated::{deflate, edited, gzip, zstd};
use oncewire_codec::{Decoded, Decoder, Domain, Encoder, Stream};

/// Frame bytes of parts of content, each a flow of its own, in blocks of at most 64 KiB; and the work.
fn send(parts: &[&[u8]]) -> (Vec<usize>, u64) {
    let mut encoder = Encoder::builder().cache(32 << 20).inside(true).build().unwrap();
    let mut decoder = Decoder::builder().cache(32 << 20).build().unwrap();
    let sizes = parts
        .iter()
        .map(|part| {
            let mut stream = Stream::new(Domain::COMMON);
            let (mut sent, mut rest) = (0, *part);
            while !rest.is_empty() {
                let len = encoder.whole_chunks(&mut stream, rest, 65536);
                let block;
                (block, rest) = rest.split_at(len);
                let mut frame = Vec::new();
                encoder.encode_stream(&mut stream, block, 0).unwrap().append_to(&mut frame);
                let Decoded::Block { content, .. } = decoder.decode(&frame).unwrap() else {
                    panic!("nothing is missing");
                };
                assert!(content == block);
                sent += frame.len();
            }
            sent
        })
        .collect();
    (sizes, encoder.stats().inside.work)
}

#[test]
fn the_rest_of_a_stream_is_found_without_its_beginning() {
    let first = text(31, 3_000_000);
    let mut second = first.clone();
    let mut rng = Rng::new(32);
    for _ in 0..60 {
        let at = rng.below(second.len());
        second.splice(at..at, *b"put in");
    }
    for level in [1, 6, 9] {
        let (old, new) = (gzip(&first, level), gzip(&second, level));
        let rest = &new[new.len() / 3 + 7..];
        // Also if the old one was sent in part only.
        for old in [&old[..], &old[old.len() / 4 + 3..]] {
            let (sizes, _) = send(&[old, rest]);
            let share = sizes[1] as f64 / rest.len() as f64;
            assert!(share < 0.2, "level {level}: {sizes:?} of {}", rest.len());
        }
    }
}

#[test]
fn content_without_streams_is_searched_for_a_while_only() {
    let content = noise(33, 8 << 20);
    let (_, work) = send(&[&content]);
    assert!(work < 6 * (128 << 10) + (1 << 20) * 5 / 8 + (8 << 20) / 64, "{work}");
}

/// Texts of `len` bytes, each in other letters, so that a compressor describes new codes; and the
/// same with edits.
fn versions_of_changing_text(texts: u8, len: usize, edits: usize) -> [Vec<u8>; 2] {
    let other = |nth: u8| text(41 + u64::from(nth), len).into_iter().map(move |byte| byte ^ nth);
    let first: Vec<u8> = (0..texts).flat_map(other).collect();
    let second = edited(&first, 90, edits);
    [first, second]
}

#[test]
fn the_rest_of_a_zstd_frame_is_found_without_its_beginning() {
    let versions = versions_of_changing_text(20, 150_000, 30);
    for level in [1, 3, 9, 19] {
        let [old, new] = [0, 1].map(|nth| zstd(&versions[nth], level, usize::MAX));
        for cut in [4, 2] {
            let rest = &new[new.len() / cut + 7..];
            // Also if the old one was sent in part only.
            for old in [&old[..], &old[old.len() / 6 + 3..]] {
                let (sizes, _) = send(&[old, rest]);
                let share = sizes[1] as f64 / rest.len() as f64;
                assert!(share < 0.2, "level {level}, 1/{cut}: {sizes:?} of {}", rest.len());
            }
        }
    }
}

/// From level 5 or so, small blocks use tables of blocks before them. What is lost is content before
/// those that describe other tables.
#[test]
fn zstd_blocks_are_opened_once_all_their_tables_are_known() {
    let versions = versions_of_changing_text(200, 3000, 20);
    let [old, new] = versions.map(|version| zstd(&version, 9, 3000));
    let rest = &new[new.len() / 2 + 7..];
    let (sizes, _) = send(&[&old, rest]);
    assert!(sizes[1] * 5 < rest.len() * 4, "{sizes:?} of {}", rest.len());
}

/// Offsets of later blocks show by how much it moved.
#[test]
fn distances_to_content_that_was_not_sent_are_learned() {
    let mut rng = Rng::new(7);
    let words: Vec<String> =
        (0..20_000).map(|_| format!("{:x}", rng.next() >> (8 + rng.below(32)))).collect();
    let mut rows = Vec::new();
    for nth in 0..60_000 {
        let [one, other, third] = [0, 1, 2].map(|_| &words[rng.below(words.len())]);
        rows.extend_from_slice(format!("{nth},{one},{other},{third}\n").as_bytes());
    }
    let [old, new] = [&rows, &edited(&rows, 8, 12)].map(|version| zstd(version, 9, usize::MAX));
    let rest = &new[new.len() / 2..];
    let (sizes, _) = send(&[&old, rest]);
    assert!(sizes[1] * 4 < rest.len(), "{sizes:?} of {}", rest.len());
}

/// Content of a frame that was stored has parts of other streams.
#[test]
fn zstd_is_found_after_parts_of_deflate_streams() {
    let versions = versions_of_changing_text(15, 150_000, 20);
    let [old, new] = versions.map(|version| zstd(&version, 3, usize::MAX));
    let mut rest = Vec::new();
    for seed in 0..10 {
        rest.extend_from_slice(&deflate(&text(50 + seed, 100_000), 6, 10_000)[8_000..20_000]);
    }
    let before = rest.len();
    rest.extend_from_slice(&new[new.len() / 3 + 7..]);
    let (sizes, _) = send(&[&old, &rest]);
    let (cost, len) = (sizes[1] - before, rest.len() - before);
    assert!(cost * 5 < len, "{cost} of {len}");
}
