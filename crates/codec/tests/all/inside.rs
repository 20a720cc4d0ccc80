//! Repeats inside deflate streams and zstd frames: what goes in comes out, however streams are cut
//! or broken, and versions of compressed content cost little.

use crate::common::content::{Rng, noise, text};
use crate::deflated::{chunked, deflate, edited, gzip, http2, png, zip, zstd};
use oncewire_codec::{
    Carrier, Decoded, Decoder, Domain, Encoder, EncoderBuilder, InsideStats, Sharing, Stream,
};
use proptest::prelude::*;

/// Sends contents one after the other in blocks of these lengths, over and over; returns the bytes
/// of frames for each, and what was found.
pub(crate) fn send(
    contents: &[Vec<u8>],
    blocks: &[usize],
    builder: EncoderBuilder,
) -> (Vec<usize>, InsideStats) {
    let builder = builder.cache(8 << 20).inside(true);
    let mut encoder = builder.clone().build().unwrap();
    let mut decoder = Decoder::builder().cache(8 << 20).build().unwrap();
    let mut lengths = blocks.iter().cycle();
    let mut sizes = Vec::new();
    for content in contents {
        let (mut rest, mut size) = (&content[..], 0);
        while !rest.is_empty() {
            let (block, next) = rest.split_at((*lengths.next().unwrap()).clamp(1, rest.len()));
            let mut frame = Vec::new();
            encoder.encode(block, &mut frame).unwrap();
            let Decoded::Block { content, consumed, .. } = decoder.decode(&frame).unwrap() else {
                panic!("the frame is whole, and nothing is missing");
            };
            assert!(content == block && consumed == frame.len());
            size += frame.len();
            rest = next;
        }
        sizes.push(size);
    }
    let stats = encoder.stats().inside;
    assert_eq!(stats.refused, 0);
    assert!(stats.found_bytes <= stats.opened_bytes);
    let (used, most) = (encoder.memory(), builder.memory());
    assert!(used.inside <= most.inside, "{used:?}, at most {most:?}");
    assert!(used.total() <= most.total(), "{used:?}, at most {most:?}");
    assert!(decoder.memory().total() <= Decoder::builder().cache(8 << 20).memory().total());
    (sizes, stats)
}

pub(crate) const BLOCK: &[usize] = &[65536];

/// Two versions of a text.
fn versions(seed: u64, len: usize) -> [Vec<u8>; 2] {
    let first = text(seed, len);
    let second = edited(&first, seed + 1, len / 100_000 + 1);
    [first, second]
}

#[test]
fn a_version_in_any_container_costs_little_of_itself() {
    let texts = versions(1, 600_000);
    let third = |content: &[u8]| content.chunks(30_000).map(<[u8]>::to_vec).collect::<Vec<_>>();
    type Make<'a> = &'a dyn Fn(&[u8]) -> Vec<u8>;
    let kinds: [(&str, Make<'_>); 12] = [
        ("gzip -1", &|content| gzip(content, 1)),
        ("gzip -6", &|content| gzip(content, 6)),
        ("gzip -9", &|content| gzip(content, 9)),
        ("zip", &|content| zip(&third(content), 6)),
        ("chunked", &|content| chunked(&gzip(content, 6), 8192)),
        ("odd chunks", &|content| chunked(&gzip(content, 6), 1447)),
        ("PNG", &|content| png(content, 8192)),
        ("HTTP/2", &|content| http2(b"", &gzip(content, 6), 16_384)),
        ("small frames of HTTP/2", &|content| http2(b"", &gzip(content, 6), 1400)),
        // A flag and a length precede each message.
        ("gRPC", &|content| http2(&[1, 0, 1, 2, 3], &gzip(content, 6), 16_384)),
        ("flushed", &|content| {
            [&b"\x1f\x8b\x08\0\0\0\0\0\0\x03"[..], &deflate(content, 6, 4000)].concat()
        }),
        ("behind text", &|content| [text(9, 5000), gzip(content, 6)].concat()),
    ];
    for (name, make) in kinds {
        let contents = texts.each_ref().map(|text| make(text));
        let len = contents[1].len();
        let (sizes, stats) = send(&contents, BLOCK, Encoder::builder());
        let share = sizes[1] as f64 / len as f64;
        assert!(share < 0.25, "{name}: {} of {len} bytes, {share:.3}", sizes[1]);
        assert!(stats.opened_bytes as usize > len, "{name}: {stats:?}");
        assert_eq!(stats.declined_bytes, 0, "{name}: {stats:?}");
    }
}

#[test]
fn a_stream_may_be_divided_anywhere_by_what_carries_it() {
    let texts = versions(2, 200_000);
    let carried: [(Carrier, [Vec<u8>; 2]); 3] = [
        (Carrier::Chunked, texts.each_ref().map(|text| chunked(&gzip(text, 6), 1000))),
        (Carrier::Http2, texts.each_ref().map(|text| http2(b"", &gzip(text, 6), 1000))),
        (Carrier::Png, texts.each_ref().map(|text| png(text, 1000))),
    ];
    for (carrier, contents) in carried {
        // A read of a socket often ends where a chunk does, or within the header of the next.
        for len in 1000..1015 {
            let (sizes, stats) = send(&contents, &[len], Encoder::builder());
            let share = sizes[1] as f64 / contents[1].len() as f64;
            assert!(share < 0.4, "{carrier:?}, {len}: {sizes:?}, {share:.3}");
            let count = stats.streams.get(carrier);
            assert_eq!((count.begun, count.broken), (2, 0), "{carrier:?}, {len}: {count:?}");
        }
    }
}

#[test]
fn a_version_in_a_zstd_frame_costs_little_of_itself() {
    let texts = versions(3, 1_500_000);
    let whole = usize::MAX;
    for (level, flush, most) in
        [(-5, whole, 0.6), (1, whole, 0.5), (3, whole, 0.5), (9, whole, 0.6), (3, 10_000, 0.3)]
    {
        let contents = texts.each_ref().map(|text| zstd(text, level, flush));
        let len = contents[1].len();
        let (sizes, stats) = send(&contents, BLOCK, Encoder::builder());
        let share = sizes[1] as f64 / len as f64;
        assert!(share < most, "{level}, {flush}: {} of {len} bytes, {share:.3}", sizes[1]);
        assert_eq!(stats.declined_bytes, 0, "{level}, {flush}: {stats:?}");
        // Without entropy coding, most is found as bytes.
        assert!(stats.found_bytes as usize > len / 4 || level < 0, "{level}, {flush}: {stats:?}");
    }
}

#[test]
fn zstd_frames_that_come_in_pieces_are_followed() {
    let first = text(4, 400_000);
    let second = edited(&first, 5, 40);
    let contents = [first, second].map(|text| chunked(&zstd(&text, 3, 4000), 30_000));
    for blocks in [&[20_000][..], &[777, 65536], &[30_000, 1, 2, 3, 20_000], &[5000]] {
        let (sizes, _) = send(&contents, blocks, Encoder::builder());
        let whole = sizes[0];
        assert!(sizes[1] < whole * 3 / 4, "{blocks:?}: {} of {whole}", sizes[1]);
    }
}

#[test]
fn a_zstd_frame_is_followed_again_behind_what_was_found_as_bytes() {
    let first = text(51, 3_000_000);
    let second = [&first[..2_000_000], b"a change", &first[2_000_000..]].concat();
    let contents = [zstd(&first, 3, usize::MAX), zstd(&second, 3, usize::MAX)];
    let (sizes, stats) = send(&contents, &[16_384, 65536], Encoder::builder());
    assert!(sizes[1] * 4 < sizes[0], "{sizes:?}");
    let looked_at = stats.opened_bytes as usize;
    assert!(looked_at < contents[0].len() + contents[1].len() * 3 / 4, "{looked_at}");
}

#[test]
fn content_that_zstd_leaves_or_fills_is_taken_as_it_is() {
    // Raw and RLE blocks, literals without sequences, four streams and one, sequences of one kind.
    let kinds: [Vec<u8>; 7] = [
        noise(1, 300_000),
        vec![7; 300_000],
        (0..200_000u32).map(|nth| (nth % 251) as u8).collect(),
        noise(2, 200_000).iter().map(|byte| byte % 5).collect(),
        [text(5, 100), noise(3, 100), vec![0; 100]].concat(),
        text(6, 700),
        [noise(4, 500), text(7, 30_000), noise(4, 500), text(7, 30_000)].concat().repeat(4),
    ];
    for (nth, kind) in kinds.iter().enumerate() {
        for level in [-50, -1, 1, 3, 5, 7, 13, 16, 18, 19, 22] {
            let changed = edited(kind, 70 + nth as u64, 3);
            let contents = [kind, &changed].map(|content| zstd(content, level, usize::MAX));
            let plain = contents.iter().map(Vec::len).sum::<usize>();
            let (sizes, _) = send(&contents, &[65536, 5000], Encoder::builder());
            assert!(sizes.iter().sum::<usize>() <= plain + plain / 500 + 600, "{nth} {level}");
        }
    }
}

#[test]
fn frames_of_countless_small_blocks_take_bounded_memory() {
    // Blocks that say much in few bytes: repeated literals, sequences without bits, empty blocks.
    let frame = |block: &[u8], kind: u32, times: usize| {
        let header = (block.len() as u32) << 3 | kind << 1;
        let block = [&header.to_le_bytes()[..3], block].concat();
        [&[0x28, 0xb5, 0x2f, 0xfd, 0, 0x58][..], &block.repeat(times)].concat()
    };
    // 100,000 times one literal, no sequences.
    let literals = [0x0d, 0x6a, 0x18, b'a', 0];
    // 20,000 sequences of no literals and three bytes, in tables of one symbol.
    let sequences = [0x00, 0xce, 0x20, 0x54, 0, 0, 0, 1];
    for (block, kind) in [(&literals[..], 2), (&sequences, 2), (&[], 0), (&[7], 0)] {
        let contents = [frame(block, kind, 40_000), frame(block, kind, 40_000)];
        send(&contents, &[65536, 9000], Encoder::builder());
    }
}

/// Content of many codes and blocks for its length, in blocks of the codec down to a few bytes: what
/// takes a decoder more work than a frame may is sent in another way.
#[test]
fn no_frame_takes_more_work_than_it_may() {
    let texts = versions(60, 30_000);
    let head = b"\x1f\x8b\x08\0\0\0\0\0\0\x03";
    type Make<'a> = &'a dyn Fn(&[u8]) -> Vec<u8>;
    let kinds: [Make<'_>; 7] = [
        // A code for each 150 bytes, and for each 600.
        &|text| [&head[..], &deflate(text, 9, 150)].concat(),
        &|text| [&head[..], &deflate(text, 9, 600)].concat(),
        // Streams with a code each.
        &|text| text.chunks(400).flat_map(|text| gzip(text, 9)).collect(),
        // Tables for each 300 bytes, and for each 2,000.
        &|text| zstd(text, 19, 300),
        &|text| zstd(text, 3, 2000),
        &|text| text.chunks(1000).flat_map(|text| zstd(text, 19, usize::MAX)).collect(),
        // Blocks that are longer than those of the codec by far: each is put together for its end.
        &|text| zstd(&text.iter().rev().chain(text).copied().collect::<Vec<u8>>(), 1, usize::MAX),
    ];
    for (nth, make) in kinds.iter().enumerate() {
        let contents = texts.each_ref().map(|text| make(text));
        for blocks in [&[30, 80, 200][..], &[333], &[1000, 1448], &[5000], BLOCK] {
            let (sizes, stats) = send(&contents, blocks, Encoder::builder());
            assert!(stats.opened_bytes > 0, "{nth}, {blocks:?}");
            let most = contents[1].len() + contents[1].len() / blocks[0] * 30 + 600;
            assert!(sizes[1] <= most, "{nth}, {blocks:?}: {sizes:?}, not {most}");
        }
    }
}

#[test]
fn streams_that_come_in_pieces_of_any_length_are_followed() {
    let contents = versions(2, 300_000).map(|text| gzip(&text, 6));
    for blocks in [&[1000][..], &[1, 2, 3, 4, 5, 1400], &[777, 65536], &[300, 50, 20_000]] {
        let (sizes, _) = send(&contents, blocks, Encoder::builder());
        let whole = sizes[0];
        // Small blocks have their own overhead.
        assert!(sizes[1] < whole / 2, "{blocks:?}: {} of {whole}", sizes[1]);
    }
}

#[test]
fn what_repeats_as_bytes_is_found_as_before() {
    let content = gzip(&text(3, 700_000), 6);
    let half = content[content.len() / 2 + 1..].to_vec();
    let (sizes, _) = send(&[content.clone(), content, half], BLOCK, Encoder::builder());
    assert!(sizes[1] < 400 && sizes[2] < 400, "{sizes:?}");
}

#[test]
fn a_stream_is_followed_again_behind_what_was_found_as_bytes() {
    // The change lies far behind the beginning; blocks before it are not looked at.
    let first = text(50, 900_000);
    let second = [&first[..600_000], b"a change", &first[600_000..]].concat();
    for make in [|content: &[u8]| gzip(content, 6), |content: &[u8]| deflated_fixed(content)] {
        let contents = [make(&first), make(&second)];
        let (sizes, stats) = send(&contents, &[16384], Encoder::builder());
        assert!(sizes[1] * 8 < sizes[0], "{sizes:?}");
        let looked_at = stats.opened_bytes as usize;
        assert!(looked_at < contents[0].len() + contents[1].len() / 2, "{looked_at}");
    }
}

/// A stream of small blocks, some of them with the fixed code.
fn deflated_fixed(content: &[u8]) -> Vec<u8> {
    [&b"\x1f\x8b\x08\0\0\0\0\0\0\x03"[..], &deflate(content, 6, 3000)].concat()
}

#[test]
fn content_without_repeats_costs_no_more_than_without() {
    let pages: Vec<u8> = (0..40).flat_map(|page| gzip(&text(page, 20_000), 6)).collect();
    let mixed =
        [noise(1, 70_000), gzip(&text(5, 300_000), 9), text(6, 50_000), noise(2, 9000)].concat();
    for content in [noise(1, 400_000), text(4, 400_000), pages, mixed, zip(&[noise(3, 90_000)], 6)]
    {
        let mut plain = Encoder::builder().cache(8 << 20).build().unwrap();
        let mut frames = Vec::new();
        for block in content.chunks(65536) {
            plain.encode(block, &mut frames).unwrap();
        }
        let (sizes, _) = send(std::slice::from_ref(&content), BLOCK, Encoder::builder());
        assert!(sizes[0] * 1000 <= frames.len() * 1002, "{} instead of {}", sizes[0], frames.len());
    }
}

#[test]
fn blocks_that_hardly_any_compressor_writes_are_taken_as_they_are() {
    let mut rng = Rng::new(7);
    let mut contents = Vec::new();
    // One-bit codes: all literals are 0, and copies of 258 bytes at distance 1.
    contents.push(gzip(&vec![0; 60_000_000], 9));
    // Empty blocks, stored and fixed.
    let head = b"\x1f\x8b\x08\0\0\0\0\0\0\x03";
    contents.push([&head[..], &[0, 0, 0, 0xff, 0xff].repeat(30_000)].concat());
    contents.push([&head[..], &[2, 8, 32, 128, 0].repeat(20_000)].concat());
    // Stored and fixed blocks.
    contents.push(gzip(&noise(1, 200_000), 6));
    contents.push((0..500).flat_map(|_| gzip(&text(rng.next(), 30), 6)).collect());
    // Headers that are none.
    contents.push(head.repeat(10_000));
    contents.push(b"PK\x03\x04\x14\0\0\0\x08\0\0\0\0\0............\xff\xff\xff\xff".repeat(2000));
    contents.push([0x78, 0x9c].repeat(50_000));
    // Where compressed content seems to begin, again and again, behind a signature of nothing.
    for signature in
        [&b"PK\x03\x04"[..], b"\x1f\x8b\x08\xff", b"\0\0\0\0IDAT\x78\x9c", b"\x78\x9c\0"]
    {
        contents.push(
            (0..300)
                .flat_map(|seed| {
                    [&vec![b'a'; 500 + seed % 40][..], signature, &noise(seed as u64, 600)].concat()
                })
                .collect(),
        );
    }
    for content in contents {
        send(&[content.clone(), content], &[65536, 65536, 100], Encoder::builder());
    }
}

#[test]
fn one_domain_does_not_find_tokens_of_another() {
    let [first, second] = versions(8, 300_000).map(|text| gzip(&text, 6));
    for (domain, is_found) in [(1, true), (2, false)] {
        let builder = Encoder::builder().cache(8 << 20).inside(true).sharing(Sharing::None);
        let mut encoder = builder.build().unwrap();
        let mut size = 0;
        for (content, domain) in [(&first, 1), (&second, domain)] {
            let mut stream = Stream::new(Domain(domain));
            size = 0;
            for block in content.chunks(65536) {
                size += encoder.encode_stream(&mut stream, block, 0).unwrap().len();
            }
        }
        assert_eq!(size < second.len() / 3, is_found, "{size} of {}", second.len());
    }
}

#[test]
fn flows_that_take_turns_are_followed_each_by_itself() {
    let versions = [versions(10, 300_000), versions(20, 300_000)];
    let mut encoder = Encoder::builder().cache(8 << 20).inside(true).build().unwrap();
    let mut decoder = Decoder::builder().cache(8 << 20).build().unwrap();
    let mut sizes = [0, 0];
    for (round, size) in sizes.iter_mut().enumerate() {
        let contents = versions.each_ref().map(|versions| gzip(&versions[round], 6));
        let mut flows: Vec<_> = contents
            .iter()
            .map(|content| (content.chunks(9000), Stream::new(Domain::COMMON)))
            .collect();
        loop {
            let mut sent = false;
            for (blocks, stream) in &mut flows {
                let Some(block) = blocks.next() else { continue };
                let mut frame = Vec::new();
                encoder.encode_stream(stream, block, 0).unwrap().append_to(&mut frame);
                let Decoded::Block { content, .. } = decoder.decode(&frame).unwrap() else {
                    panic!("the frame is whole, and nothing is missing");
                };
                assert!(content == block);
                *size += frame.len();
                sent = true;
            }
            if !sent {
                break;
            }
        }
    }
    assert!(sizes[1] * 4 < sizes[0], "{sizes:?}");
}

#[test]
fn a_frame_waits_for_the_content_that_its_tokens_need() {
    let [first, second] = versions(30, 200_000).map(|text| gzip(&text, 6));
    let builder = Encoder::builder().cache(8 << 20).span(1 << 20).contexts(2).inside(true);
    let mut encoder = builder.explicit_offsets(true).build().unwrap();
    let mut frames = Vec::new();
    for (context, content) in [(0, &first), (1, &second)] {
        for block in content.chunks(65536) {
            let mut frame = Vec::new();
            encoder.encode_frame(block, context).unwrap().append_to(&mut frame);
            frames.push((context, block, frame));
        }
    }
    let mut decoder = Decoder::builder().cache(8 << 20).span(1 << 20).contexts(2).build().unwrap();
    let (later, earlier): (Vec<_>, Vec<_>) = frames.iter().partition(|(context, ..)| *context == 1);
    let Decoded::Missing(ranges) = decoder.decode(&later[0].2).unwrap() else {
        panic!("its tokens are not there yet")
    };
    assert!(!ranges.is_empty());
    for (_, block, frame) in earlier.into_iter().chain(later) {
        let Decoded::Block { content, .. } = decoder.decode(frame).unwrap() else {
            panic!("everything is there now")
        };
        assert!(content == *block);
    }
}

proptest! {
    #![proptest_config(crate::common::config_divided(10))]

    #[test]
    fn streams_may_be_cut_and_damaged_anywhere(
        seed in 0u64..1000,
        level in 1u32..=9,
        is_zstd in any::<bool>(),
        cuts in proptest::collection::vec((any::<proptest::sample::Index>(), any::<u8>(), 0usize..40), 0..12),
        blocks in proptest::collection::vec(1usize..30_000, 1..6),
    ) {
        let contents = versions(seed, 60_000).map(|text| match is_zstd {
            true => zstd(&text, level as i32, 20_000),
            false => gzip(&text, level),
        });
        let mut broken = contents[1].clone();
        for (at, byte, removed) in cuts {
            let at = at.index(broken.len());
            broken[at] ^= byte;
            broken.drain(at..(at + removed).min(broken.len() - 1).max(at));
        }
        send(&[contents[0].clone(), broken, contents[1].clone()], &blocks, Encoder::builder());
    }
}

#[test]
fn a_frame_that_breaks_in_a_block_leaves_nothing_for_one_that_begins_there() {
    // The second block of zstd fails after some of its sequences were read, and another frame
    // begins before the block of ours ends.
    let contents = versions(89, 60_000).map(|text| zstd(&text, 4, 20_000));
    let mut broken = contents[1].clone();
    for (share, byte, removed) in
        [(3_341_916_184_688_583_823_u64, 0, 6), (3_346_764_330_885_219_475, 38, 31)]
    {
        let at = ((u128::from(share) * broken.len() as u128) >> 64) as usize;
        broken[at] ^= byte;
        broken.drain(at..at + removed);
    }
    let blocks = [19_716, 7273, 26_368];
    send(&[contents[0].clone(), broken, contents[1].clone()], &blocks, Encoder::builder());
}

/// Every place at which a small stream can be cut in two.
#[test]
fn a_stream_may_be_cut_at_every_byte() {
    let texts = versions(40, 6000);
    let deflated = texts.each_ref().map(|text| chunked(&gzip(text, 6), 900));
    let frames = texts.each_ref().map(|text| zstd(text, 3, 2000));
    for [first, second] in [deflated, frames] {
        for cut in 1..second.len() {
            let pieces = [first.clone(), second[..cut].to_vec(), second[cut..].to_vec()];
            send(&pieces, BLOCK, Encoder::builder());
        }
    }
}

#[test]
fn a_repeat_that_begins_before_a_copy_is_no_copy_of_its_beginning() {
    // Content, something else, the content again, and then both that and the copy in one match.
    let content = gzip(&text(91, 400_000), 6);
    let content = &content[..content.len().min(120_000)];
    let other = noise(92, 100_000);
    let again = [&other[60_000..], &content[..10_000]].concat();
    let parts: [&[u8]; 6] = [content, &other, content, &again, &again[..20_000], &again];
    let mut encoder = Encoder::builder().inside(true).build().unwrap();
    let mut decoder = Decoder::builder().build().unwrap();
    for block in parts.iter().flat_map(|part| part.chunks(65_536)) {
        let mut frame = Vec::new();
        encoder.encode(block, &mut frame).unwrap();
        match decoder.decode(&frame).unwrap() {
            Decoded::Block { content, .. } => assert!(content == block),
            other => panic!("{other:?}"),
        }
    }
}

/// Pages of one template, compressed: between parts of `every` bytes of it, each has 40 of its own.
fn pages(count: usize, level: u32, template_len: usize, every: usize) -> Vec<Vec<u8>> {
    let template = text(91, template_len);
    (0..count as u64)
        .map(|nth| {
            let mut page = Vec::new();
            for (row, part) in template.chunks(every).enumerate() {
                page.extend_from_slice(part);
                page.extend(text(91 + 1000 * nth + row as u64 + 1, 40));
            }
            gzip(&page, level)
        })
        .collect()
}

/// Frame bytes of the blocks of `rest`, after those of `first`.
fn send_blocks<'a>(
    first: impl Iterator<Item = &'a [u8]>,
    rest: impl Iterator<Item = &'a [u8]>,
) -> usize {
    let mut encoder = Encoder::builder().cache(32 << 20).inside(true).build().unwrap();
    let mut decoder = Decoder::builder().cache(32 << 20).build().unwrap();
    let mut send = |block: &[u8]| {
        let mut frame = Vec::new();
        encoder.encode(block, &mut frame).unwrap();
        let Decoded::Block { content, .. } = decoder.decode(&frame).unwrap() else {
            panic!("nothing is missing");
        };
        assert!(content == block);
        frame.len()
    };
    for block in first {
        send(block);
    }
    rest.map(send).sum()
}

/// Several pages to a block, as they come where a queue forms, cost no more than one to a block.
#[test]
fn pages_that_wait_in_one_block_are_found_in_the_blocks_before() {
    for level in [1, 6, 9] {
        for (template_len, every, most) in [
            (3000, 1500, 0.1),
            (10_000, 5000, 0.05),
            (10_000, 500, 0.3),
            (30_000, 1500, 0.12),
            (30_000, 5000, 0.08),
        ] {
            let pages = pages(45, level, template_len, every);
            let [first, rest] = [&pages[..15], &pages[15..]];
            let [early, late] = [first, rest].map(|pages| pages.concat());
            let alone =
                send_blocks(first.iter().map(Vec::as_slice), rest.iter().map(Vec::as_slice));
            let joined = send_blocks(early.chunks(65536), late.chunks(65536));
            let [alone, joined] = [alone, joined].map(|sent| sent as f64 / late.len() as f64);
            assert!(
                joined < most && joined < alone * 1.2,
                "level {level}, {template_len} bytes, {every}: {joined:.3}, alone {alone:.3}"
            );
        }
    }
}
