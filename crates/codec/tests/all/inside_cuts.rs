//! Blocks that end where a block of zstd begins.

use crate::common::content::{noise, text};
use crate::deflated::{chunked, edited, gzip, interleaved, zstd};
use oncewire_codec::pack::{Header, PackReader, PackStep, pack};
use oncewire_codec::{Decoded, Decoder, Domain, Encoder, Stream};

const MOST: usize = 65536;

/// Sends contents one after the other, in blocks of at most `most` bytes that end where the encoder
/// says if `cuts`. Returns the bytes of frames for each, and the number of blocks.
fn send(contents: &[Vec<u8>], most: usize, cuts: bool) -> (Vec<usize>, usize) {
    let mut encoder = Encoder::builder().cache(32 << 20).inside(true).build().unwrap();
    let mut decoder = Decoder::builder().cache(32 << 20).build().unwrap();
    let (mut sizes, mut count, mut frame) = (Vec::new(), 0, Vec::new());
    for content in contents {
        let mut stream = Stream::new(Domain::COMMON);
        let (mut rest, mut size, mut before) = (&content[..], 0, MOST);
        while !rest.is_empty() {
            let len = match cuts {
                true => encoder.whole_chunks(&mut stream, rest, most),
                false => most.min(rest.len()),
            };
            assert!(len > 0 && len <= most);
            assert!(len == rest.len() || len + before > most, "{before}, {len}");
            let (block, next) = rest.split_at(len);
            frame.clear();
            encoder.encode_stream(&mut stream, block, 0).unwrap().append_to(&mut frame);
            let Decoded::Block { content, .. } = decoder.decode(&frame).unwrap() else {
                panic!("the frame is whole, and nothing is missing");
            };
            assert!(content == block);
            size += frame.len();
            count += 1;
            (rest, before) = (next, len);
        }
        sizes.push(size);
    }
    assert_eq!(encoder.stats().inside.refused, 0);
    (sizes, count)
}

#[test]
fn versions_cost_little_where_no_block_of_zstd_is_divided() {
    let first = text(3, 4_000_000);
    let second = edited(&first, 4, 40);
    for (level, least, most) in [(1, 0.25, 0.02), (3, 0.25, 0.06), (9, 0.25, 0.02)] {
        let contents = [&first, &second].map(|text| zstd(text, level, usize::MAX));
        let [(divided, _), (whole, _)] = [false, true].map(|cuts| send(&contents, MOST, cuts));
        let [divided_share, share] =
            [&divided, &whole].map(|sizes| sizes[1] as f64 / contents[1].len() as f64);
        assert!(divided_share > least, "level {level}: {divided:?}");
        assert!(share < most, "level {level}: {whole:?} instead of {divided:?}");
        // What is new takes a few more frames.
        assert!(whole[0] <= divided[0] + divided[0] / 1000, "{whole:?}, {divided:?}");
    }
}

#[test]
fn frames_of_zstd_in_a_row_are_followed() {
    let texts: Vec<Vec<u8>> = (0..12).map(|seed| text(seed, 500_000)).collect();
    let first: Vec<u8> = texts.iter().flat_map(|text| zstd(text, 3, usize::MAX)).collect();
    let second: Vec<u8> = texts
        .iter()
        .zip(50..)
        .flat_map(|(text, seed)| zstd(&edited(text, seed, 3), 3, usize::MAX))
        .collect();
    let contents = [first, second];
    let [(divided, _), (whole, _)] = [false, true].map(|cuts| send(&contents, MOST, cuts));
    assert!(whole[1] * 3 < divided[1], "{whole:?} instead of {divided:?}");
}

#[test]
fn zstd_blocks_of_streams_of_http2_are_not_divided_either() {
    // Streams at once, and the largest share. Two blocks of zstd at once do not fit in a block.
    for (count, most) in [(1, 0.04), (2, 0.75)] {
        let texts: Vec<Vec<u8>> = (0..count).map(|nth| text(60 + nth, 2_000_000)).collect();
        let next: Vec<Vec<u8>> = texts.iter().map(|text| edited(text, 70, 10)).collect();
        let contents = [texts, next].map(|texts| {
            let bodies: Vec<_> = texts.iter().map(|text| zstd(text, 3, usize::MAX)).collect();
            interleaved(&bodies, 16_384, &[])
        });
        let [(divided, _), (whole, _)] = [false, true].map(|cuts| send(&contents, MOST, cuts));
        let share = whole[1] as f64 / contents[1].len() as f64;
        // For docs/INSIDE.md.
        eprintln!("zstd -3, {count} at once: {share:.3}");
        assert!(share < most, "{count}: {whole:?} instead of {divided:?}");
        assert!(whole[0] <= divided[0] + divided[0] / 1000, "{whole:?}, {divided:?}");
    }
}

#[test]
fn other_content_is_cut_as_before() {
    let frame = zstd(&text(5, 900_000), 3, usize::MAX);
    let mut broken = frame.clone();
    broken[100_000..].fill(7);
    // A block that no block of the codec can hold, and one of which nothing is known.
    let long = [&[0x28, 0xb5, 0x2f, 0xfd, 0, 0x58][..], &[0xf4, 0xff, 0x0f], &frame].concat();
    let contents = [
        noise(1, 300_000),
        text(2, 300_000),
        gzip(&text(3, 600_000), 6),
        chunked(&frame, 5000),
        zstd(&noise(4, 500_000), 3, usize::MAX),
        long,
        frame[..4].to_vec(),
        vec![],
    ];
    for content in &contents {
        let contents = std::slice::from_ref(content);
        assert_eq!(send(contents, MOST, true), send(contents, MOST, false));
    }
    // Blocks of the codec that can hold none, or several; a frame that ends early.
    for most in [1, 7, 1400, 16384, 30_000, MOST] {
        let len = if most < 100 { 20_000 } else { usize::MAX };
        for content in [&frame, &broken, &zstd(&text(6, 300_000), 3, 3000)] {
            send(&[content[..content.len().min(len)].to_vec()], most, true);
        }
    }
}

#[test]
fn packs_have_blocks_that_end_early() {
    let first = text(3, 1_000_000);
    let [first, second] = [&first, &edited(&first, 4, 10)].map(|text| zstd(text, 3, usize::MAX));
    let content = [&first[..], &second].concat();
    let header = Header { cache: 8 << 20, max_block: MOST, seed: 0, base: None };
    let packed = pack(&content, &header, Encoder::builder().inside(true)).unwrap();
    assert!(packed.len() < first.len() + first.len() / 4, "{}", packed.len());
    let (mut reader, mut rest, mut out) = (PackReader::new(1 << 30), &packed[..], Vec::new());
    let mut lengths = Vec::new();
    loop {
        let consumed = match reader.step(rest).unwrap() {
            PackStep::NeedMore(_) => panic!("the pack is complete"),
            PackStep::Header { consumed } => consumed,
            PackStep::Block { content, consumed } => {
                out.extend_from_slice(content);
                lengths.push(content.len());
                consumed
            }
            PackStep::End { .. } => break,
        };
        rest = &rest[consumed..];
    }
    assert!(out == content);
    assert!(lengths.windows(2).all(|pair| pair[0] + pair[1] > MOST / 2), "{lengths:?}");
}
