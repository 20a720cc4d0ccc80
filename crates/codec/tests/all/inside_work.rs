//! The work that looking inside deflate streams and zstd frames may take: counted, not timed.

use crate::common::content::{Rng, text};
use crate::deflated::{deflate, edited, gzip, zstd};
use oncewire_codec::{Decoded, Decoder, Domain, Encoder, InsideStats, Stream};

/// Encodes contents one after the other in blocks of this length. Returns the bytes of frames for
/// each, and what was found.
fn send(contents: &[Vec<u8>], block: usize) -> (Vec<usize>, InsideStats) {
    let mut encoder = Encoder::builder().cache(8 << 20).inside(true).build().unwrap();
    let mut frames = Vec::new();
    let mut sizes = Vec::new();
    for content in contents {
        frames.clear();
        for block in content.chunks(block) {
            encoder.encode(block, &mut frames).unwrap();
        }
        sizes.push(frames.len());
    }
    let stats = encoder.stats().inside;
    assert_eq!(stats.refused, 0);
    (sizes, stats)
}

/// About `len` bytes of gzip: deflate blocks without tokens, under this many codes at random.
fn empty_blocks(seed: u64, len: usize, codes: usize) -> Vec<u8> {
    let mut rng = Rng::new(seed);
    let mut out = b"\x1f\x8b\x08\0\0\0\0\0\0\x03".to_vec();
    let (mut bits, mut count) = (0u64, 0);
    while out.len() < len {
        let at = 11 + rng.below(codes) as u64;
        let mut fields = vec![(0, 1), (2, 2), (0, 5), (0, 5), (14, 4)];
        // In the order of RFC 1951, section 3.2.7.
        for symbol in [16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1] {
            fields.push((
                match symbol {
                    1 => 1,
                    18 => 1,
                    _ => 0,
                },
                3,
            ));
        }
        // A literal, and what ends the block, have codes of one bit; the distance, too.
        let one = (0, 1);
        let zeros = |run: u64| [(1, 1), (run - 11, 7)];
        fields.extend(zeros(at));
        fields.push(one);
        let left = 255 - at;
        fields.extend(zeros(left / 2));
        fields.extend(zeros(left - left / 2));
        fields.extend([one, one]);
        // It ends.
        fields.push((1, 1));
        for (value, width) in fields {
            bits |= value << count;
            count += width;
            while count >= 8 {
                out.push(bits as u8);
                (bits, count) = (bits >> 8, count - 8);
            }
        }
    }
    out
}

/// Two versions of a text.
fn versions(seed: u64, len: usize) -> [Vec<u8>; 2] {
    let first = text(seed, len);
    let second = edited(&first, seed + 1, len / 100_000 + 1);
    [first, second]
}

#[test]
fn content_that_takes_much_work_and_saves_nothing_is_soon_not_opened() {
    let len = 8 << 20;
    // A stream in each block.
    let content: Vec<u8> =
        (0..len as u64 >> 16).flat_map(|seed| empty_blocks(seed, (1 << 16) - 7, 100)).collect();
    let (sizes, stats) = send(std::slice::from_ref(&content), 65536);
    // Four units a byte, and what it may be ahead.
    assert!(stats.work < 8 * len as u64, "{stats:?}");
    assert!(stats.declined_bytes > len as u64 / 2, "{stats:?}");
    assert!(sizes[0] < content.len() + content.len() / 100);
    // In new flows, the domain's budget counts.
    let mut encoder = Encoder::builder().cache(8 << 20).inside(true).build().unwrap();
    for seed in 0..len as u64 >> 16 {
        let mut stream = Stream::new(Domain::COMMON);
        let block = empty_blocks(seed, 65_000, 100);
        encoder.encode_stream(&mut stream, &block, 0).unwrap();
    }
    let stats = encoder.stats().inside;
    assert!(stats.work < 16 * len as u64 && stats.declined_bytes > 0, "{stats:?}");
    // Equal codes are built once.
    let equal = empty_blocks(1, 1 << 16, 4);
    let (_, stats) = send(&[equal], 65536);
    assert!(stats.work < 16 << 16, "{stats:?}");
    let (_, other) = send(&[empty_blocks(1, 1 << 16, 100)], 65536);
    assert!(other.work > 4 * stats.work, "{other:?}, {stats:?}");
}

/// An edit in every 300 bytes: much is saved, and it takes much work.
#[test]
fn versions_in_flushed_zstd_frames_take_bounded_work() {
    for (level, flush) in [(3, 10_000), (19, 10_000), (3, 1000)] {
        let mut encoder = Encoder::builder().cache(32 << 20).inside(true).build().unwrap();
        let mut version = text(81, 800_000);
        let (mut len, mut sent, mut frame) = (0, 0, Vec::new());
        for nth in 0..8 {
            let content = zstd(&version, level, flush);
            len += content.len() as u64;
            for block in content.chunks(65536) {
                frame.clear();
                encoder.encode(block, &mut frame).unwrap();
                sent += frame.len() as u64;
            }
            let mut rng = Rng::new(nth);
            for _ in 0..version.len() / 300 {
                let at = rng.below(version.len());
                version[at] = b'a' + rng.below(26) as u8;
            }
        }
        let stats = encoder.stats().inside;
        assert!(stats.declined_bytes == 0 && sent < len, "{level}, {flush}: {sent}, {stats:?}");
        // It is read once, its sources are, and it is written once to be compared.
        assert!(2 * stats.work < 17 * len, "{level}, {flush}: {len} bytes, {sent} sent, {stats:?}");
    }
}

/// What one flow costs is not taken from others, also of the same domain.
#[test]
fn a_flow_of_costly_content_leaves_others_opened() {
    let versions = versions(85, 2_000_000).map(|text| gzip(&text, 6));
    let mut encoder = Encoder::builder().cache(64 << 20).inside(true).build().unwrap();
    let mut costly = Stream::new(Domain::COMMON);
    for seed in 0..300 {
        encoder.encode_stream(&mut costly, &empty_blocks(seed, 65_000, 100), 0).unwrap();
    }
    let before = encoder.stats().inside;
    assert!(before.declined_bytes > 15_000_000, "{before:?}");
    let mut honest = Stream::new(Domain::COMMON);
    let mut sizes = [0, 0];
    for (size, version) in sizes.iter_mut().zip(&versions) {
        for block in version.chunks(65536) {
            *size += encoder.encode_stream(&mut honest, block, 0).unwrap().len();
        }
    }
    let after = encoder.stats().inside;
    assert_eq!(after.declined_bytes, before.declined_bytes, "{after:?}");
    assert!(sizes[1] * 4 < sizes[0], "{sizes:?}");
}

#[test]
fn a_plan_that_no_decoder_may_follow_is_not_made() {
    let head = b"\x1f\x8b\x08\0\0\0\0\0\0\x03";
    let contents = versions(95, 200_000).map(|text| [&head[..], &deflate(&text, 9, 600)].concat());
    let len: usize = contents.iter().map(Vec::len).sum();
    // A plan needs two codes: that of the block, and that of its version. Those alone exceed the
    // work of a frame, and were built before that was noticed: 8.0 units a byte.
    let (_, stats) = send(&contents, 240);
    assert!(stats.work < 7 * len as u64, "{len} bytes, {stats:?}");
}

#[test]
fn a_repeat_is_not_opened_again_when_its_first_copy_has_left_the_log() {
    let texts = versions(71, 4_000_000);
    type Make<'a> = (&'a str, &'a dyn Fn(&[u8]) -> Vec<u8>, f64);
    let kinds: [Make<'_>; 3] = [
        ("gzip", &|text| gzip(text, 6), 0.1),
        ("zstd", &|text| zstd(text, 3, usize::MAX), 0.45),
        ("flushed zstd", &|text| zstd(text, 3, 10_000), 0.3),
    ];
    for (name, make, most) in kinds {
        let [first, second] = texts.each_ref().map(|text| make(text));
        let len = first.len();
        for (cache, copies) in [(len * 5 / 4, 4), (len * 7 / 4, 6), (len * 9 / 4, 7), (len * 4, 9)]
        {
            let cache = cache.next_multiple_of(4096) as u64;
            let mut encoder = Encoder::builder().cache(cache).inside(true).build().unwrap();
            let mut decoder = Decoder::builder().cache(cache).build().unwrap();
            let mut send = |content: &[u8]| {
                let before = encoder.stats().inside.opened_bytes;
                let mut size = 0;
                for block in content.chunks(65536) {
                    let mut frame = Vec::new();
                    encoder.encode(block, &mut frame).unwrap();
                    let Decoded::Block { content, .. } = decoder.decode(&frame).unwrap() else {
                        panic!("nothing is missing");
                    };
                    assert!(content == block);
                    size += frame.len();
                }
                ((encoder.stats().inside.opened_bytes - before) as usize, size)
            };
            let opened = send(&first).0;
            assert!(opened > len * 3 / 5, "{name}, {cache}: {opened} of {len} bytes");
            for nth in 1..copies {
                let (opened, size) = send(&first);
                assert!(
                    opened < len / 8,
                    "{name}, {cache}, {nth}: {opened} of {len} bytes, {size} sent"
                );
            }
            // What it has of tokens and sequences is found in the newest copy.
            let (_, size) = send(&second);
            let share = size as f64 / second.len() as f64;
            // A log of little more than one copy has lost much of it when it is needed.
            let most = if cache > 2 * len as u64 { most } else { 2.0 * most };
            assert!(share < most, "{name}, {cache}: {size} of {}, {share:.3}", second.len());
        }
    }
}
