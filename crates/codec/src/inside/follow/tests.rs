//! What the floor above relies on: tokens do not depend on how a flow is divided, and places in the
//! log are those of the bytes.

use crate::inside::follow::follower::Follower;
use crate::inside::follow::opened::{Opened, Spot};
use crate::inside::follow::passed::Passed;
use crate::inside::follow::piece::Piece;
use crate::inside::follow::streams::{Carrier, StreamCounts};
use flate2::write::GzEncoder;
use flate2::{Compress, Compression, FlushCompress};
use proptest::prelude::*;
use std::io::Write;

/// Text in gzip.
fn gzip(seed: u64, len: usize) -> Vec<u8> {
    let mut rng = fastrand::Rng::with_seed(seed);
    let mut encoder = GzEncoder::new(Vec::new(), Compression::new(6));
    for _ in 0..len {
        write!(encoder, "{} ", rng.u32(..3000)).unwrap();
    }
    encoder.finish().unwrap()
}

/// Opens the content in blocks of these lengths, then the rest. Returns the shapes and the first
/// bits in the content of all tokens, and the counts of streams.
fn opened(content: &[u8], lens: &[usize]) -> (Vec<(u32, u64)>, StreamCounts) {
    let (mut opener, mut opened, mut tokens) = (Follower::default(), Opened::default(), Vec::new());
    let mut at = 0;
    for len in lens.iter().copied().chain([content.len()]) {
        let end = (at + len).min(content.len());
        opener.open(&content[at..end], at as u64, &mut opened);
        assert!(opened.bits.len() >= opened.tokens.len());
        let bits = opened.bits.iter().map(|&bit| at as u64 * 8 + u64::from(bit));
        tokens.extend(opened.tokens.iter().map(|token| token.shape()).zip(bits));
        at = end;
    }
    (tokens, opener.take_counts())
}

/// Units of work that looking for streams takes in a flow that begins so and goes on with noise. Its
/// first block may be declined.
fn work_in_noise(beginning: &[u8], declines: bool) -> u64 {
    let mut noise = vec![0; 400_000];
    fastrand::Rng::with_seed(1).fill(&mut noise);
    let content = [beginning, &noise].concat();
    let (mut follower, mut opened) = (Follower::default(), Opened::default());
    let mut work = 0;
    for (nth, block) in content.chunks(1 << 16).enumerate() {
        if declines && nth == 0 {
            follower.decline(block);
            continue;
        }
        follower.open(block, (nth as u64) << 16, &mut opened);
        work += opened.work;
    }
    work
}

#[test]
fn encrypted_flows_are_not_searched() {
    for declines in [false, true] {
        let noise = work_in_noise(b"", declines);
        assert!(noise > 128 << 10, "{noise}");
        for beginning in [&b"\x16\x03\x03\x02\x00\x02"[..], b"SSH-2.0-OpenSSH_9.2\r\n"] {
            let work = work_in_noise(beginning, declines);
            assert!(work < 4 << 10, "{work} of {noise}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    /// A token that lies in two blocks belongs to neither; all others are found, and in place.
    #[test]
    fn tokens_do_not_depend_on_blocks(seed: u64, lens in proptest::collection::vec(1usize..3000, 0..6)) {
        let content = gzip(seed, 2000);
        let (whole, counts) = opened(&content, &[]);
        prop_assert!(whole.len() > 1000);
        prop_assert_eq!(counts.get(Carrier::Gzip).ended, 1);
        let (parts, counts) = opened(&content, &lens);
        prop_assert_eq!(counts.get(Carrier::Gzip).ended, 1);
        let known: std::collections::HashSet<_> = whole.iter().collect();
        prop_assert!(parts.iter().all(|token| known.contains(token)));
        // At a seam: the token in two blocks, and those before it that were read with it.
        prop_assert!(parts.len() + 2 * lens.len() >= whole.len(), "{} of {}", parts.len(), whole.len());
    }
}

#[test]
fn a_position_that_was_lost_is_found_at_the_next_stream() {
    let content = [gzip(1, 500), gzip(2, 500)].concat();
    let second = gzip(1, 500).len();
    let mut opener = Follower::default();
    let mut opened = Opened::default();
    opener.open(&content[..second / 2], 0, &mut opened);
    assert!(!opened.tokens.is_empty());
    opener.lose();
    opener.open(&content[second / 2..second - 20], 0, &mut opened);
    assert!(opened.parts.is_empty(), "in the middle of a stream");
    opener.open(&content[second..], 0, &mut opened);
    assert!(opened.tokens.len() > 200);
    assert_eq!(opener.take_counts().get(Carrier::Gzip).ended, 1);
}

#[test]
fn bits_that_are_no_stream_are_not_opened() {
    let mut rng = fastrand::Rng::with_seed(7);
    let noise: Vec<u8> = (0..10_000).map(|_| rng.u8(..)).collect();
    // A header, and something else behind it.
    let content = [b"\x1f\x8b\x08\0\0\0\0\0\0\x03", &noise[..]].concat();
    let (tokens, counts) = opened(&content, &[3, 4000]);
    assert!(tokens.len() < 64, "{}", tokens.len());
    assert_eq!(counts.get(Carrier::Gzip).ended, 0);
}

#[test]
fn codes_are_where_the_log_has_their_description() {
    // Carried bytes, first byte of the rest in the block, whether they lie together in the log, and
    // bits of the description: its place for a block at byte 100.
    let cases = [
        ((0, 0, true), (0, 50), Spot::Log(800, 850)),
        ((0, 7, false), (3, 50), Spot::Log(859, 906)),
        ((4, 0, true), (3, 50), Spot::Log(771, 818)),
        ((4, 7, false), (3, 50), Spot::Scattered),
        ((4, 7, false), (32, 50), Spot::Log(856, 874)),
        ((200, 0, true), (3, 50), Spot::Scattered),
    ];
    for ((carried, at, is_adjacent), (from, to), spot) in cases {
        let piece = Piece { data: &[], carried, at, offset: 100, is_adjacent };
        assert_eq!(piece.spot(from, to), spot, "{carried} {at} {is_adjacent} {from}");
    }
}

#[test]
fn carriers_are_known_by_their_header() {
    let cases: [(&[u8], Carrier); 5] = [
        (b"\x1f\x8b\x08", Carrier::Gzip),
        (b"PK\x03\x04", Carrier::Zip),
        (b"\x28\xb5\x2f\xfd\0", Carrier::Zstd),
        (b"\x78\x9c", Carrier::Zlib),
        (b"\x28\xb5", Carrier::Zlib),
    ];
    for (header, carrier) in cases {
        assert_eq!(Carrier::of(header), carrier, "{header:x?}");
    }
}

#[test]
fn skipped_content_is_joined_and_bounded() {
    let mut passed = Passed::default();
    passed.push(100..150, Some(60));
    passed.push(150..160, Some(70));
    assert_eq!((passed.pieces.len(), passed.len, passed.source), (1, 60, Some(70)));
    assert_eq!(passed.pieces[0], 100..160);
    assert!(!passed.is_new);
    passed.push(200..210, None);
    assert_eq!(passed.pieces, [100..160, 200..210]);
    assert_eq!((passed.last.clone(), passed.source, passed.is_new), (200..210, None, true));
    for nth in 0..200u64 {
        passed.push(1000 + 10 * nth..1001 + 10 * nth, None);
    }
    assert!(passed.pieces.is_empty(), "too many to open later");
    assert_eq!((passed.last, passed.len), (2990..2991, 270));
    let mut passed = Passed::default();
    passed.push(0..5 << 20, None);
    assert!(passed.pieces.is_empty(), "too much to open later");
}

#[test]
fn a_stream_without_an_end_continues() {
    let mut compress = Compress::new(Compression::new(6), false);
    let mut stream = b"\x1f\x8b\x08\0\0\0\0\0\0\x03".to_vec();
    stream.reserve(100_000);
    let text: Vec<u8> =
        (0..20_000u32).map(|nth| b"etaoins"[(nth * nth % 97 % 7) as usize]).collect();
    compress.compress_vec(&text, &mut stream, FlushCompress::Sync).unwrap();
    let (_, counts) = opened(&stream, &[500]);
    let count = counts.get(Carrier::Gzip);
    assert_eq!((count.begun, count.ended, count.broken), (1, 0, 0));
}
