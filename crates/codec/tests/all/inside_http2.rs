//! HTTP/2 connections: frames of different streams interleave, and each stream is a source and a
//! target of its own.

use crate::common::content::{Rng, text};
use crate::deflated::{edited, frame, gzip, interleaved, zstd};
use crate::inside::{BLOCK, send};
use oncewire_codec::{Carrier, Domain, Encoder, Stream};
use proptest::prelude::*;

/// Two versions of this many texts.
fn versions(seed: u64, count: u64, len: usize) -> [Vec<Vec<u8>>; 2] {
    let first: Vec<_> = (0..count).map(|nth| text(seed + nth, len)).collect();
    let second = first.iter().zip(seed + 100..).map(|(text, seed)| edited(text, seed, 2)).collect();
    [first, second]
}

fn gzips(texts: &[Vec<u8>]) -> Vec<Vec<u8>> {
    texts.iter().map(|text| gzip(text, 6)).collect()
}

#[test]
fn streams_that_interleave_are_each_followed() {
    // How many streams at once, bytes of their frames in the two versions, and the largest share.
    for (count, sizes, most) in [
        (2, [16_384, 16_384], 0.25),
        (2, [8192, 16_384], 0.25),
        (4, [4096, 1400], 0.4),
        (7, [16_384, 8192], 0.3),
    ] {
        let texts = versions(count, count, 300_000);
        let contents = [0, 1].map(|nth| interleaved(&gzips(&texts[nth]), sizes[nth], &[]));
        let (sent, stats) = send(&contents, BLOCK, Encoder::builder());
        let share = sent[1] as f64 / contents[1].len() as f64;
        assert!(share < most, "{count} of {sizes:?}: {sent:?}, {share:.3}");
        let seen = stats.streams.get(Carrier::Http2);
        let all = 2 * count;
        assert_eq!((seen.begun, seen.ended, seen.broken), (all, all, 0), "{count} of {sizes:?}");
    }
}

#[test]
fn a_stream_among_others_is_found_in_one_that_was_alone_and_the_other_way_round() {
    let texts = versions(20, 2, 300_000);
    let (first, second) = (gzips(&texts[0]), gzips(&texts[1]));
    let alone = |bodies: &[Vec<u8>]| bodies.concat();
    for contents in [
        [alone(&first), interleaved(&second, 16_384, &[])],
        [interleaved(&first, 16_384, &[]), alone(&second)],
    ] {
        let (sent, _) = send(&contents, BLOCK, Encoder::builder());
        let share = sent[1] as f64 / contents[1].len() as f64;
        assert!(share < 0.25, "{sent:?}, {share:.3}");
    }
}

#[test]
fn padding_priorities_and_resets_are_skipped() {
    let texts = versions(30, 2, 200_000);
    let others = [
        frame(2, 0, 1, &[0, 0, 0, 0, 9]),
        frame(3, 0, 9, &[0, 0, 0, 8]),
        frame(6, 0, 0, b"8 octets"),
        frame(9, 4, 3, b"\x1f\x8b\x08 and other fields"),
        frame(0, 8, 3, &[[3].as_slice(), &[0; 3]].concat()),
        frame(0x10, 0, 0, b"priority"),
    ];
    let contents = [0, 1].map(|nth| interleaved(&gzips(&texts[nth]), 10_000, &others));
    let (sent, stats) = send(&contents, BLOCK, Encoder::builder());
    assert!((sent[1] as f64) < 0.25 * contents[1].len() as f64, "{sent:?}");
    let seen = stats.streams.get(Carrier::Http2);
    assert_eq!((seen.begun, seen.ended, seen.broken), (4, 4, 0));
    assert_eq!(stats.streams.get(Carrier::Gzip).begun, 0, "a header area is not opened");
}

#[test]
fn zstd_blocks_that_data_frames_divide_are_found() {
    // How many streams at once, bytes of their frames in the two versions, bytes between flushes, and
    // the largest share. What of a block of zstd lies in an earlier block cannot be replaced.
    for (count, sizes, flush, most) in [
        (1, [16_384, 16_384], usize::MAX, 0.3),
        (1, [8192, 16_384], usize::MAX, 0.3),
        (2, [16_384, 16_384], 12_000, 0.15),
        (2, [16_384, 8192], usize::MAX, 0.45),
        (4, [16_384, 8192], 20_000, 0.3),
    ] {
        let texts = versions(40, count, 600_000);
        let zstds = |texts: &[Vec<u8>]| -> Vec<_> {
            texts.iter().map(|text| zstd(text, 3, flush)).collect()
        };
        let contents = [0, 1].map(|nth| interleaved(&zstds(&texts[nth]), sizes[nth], &[]));
        let (sent, stats) = send(&contents, BLOCK, Encoder::builder());
        let share = sent[1] as f64 / contents[1].len() as f64;
        let seen = stats.streams.get(Carrier::Http2);
        let all = 2 * count;
        assert_eq!((seen.begun, seen.ended, seen.broken), (all, all, 0), "{count} of {sizes:?}");
        // For docs/INSIDE.md.
        eprintln!("zstd -3, flushed every {flush}, {count} at once: {share:.3}");
        assert!(share < most, "{count} of {sizes:?}: {sent:?}, {share:.3}");
    }
}

#[test]
fn countless_streams_take_bounded_memory() {
    // `send` compares the encoder's memory with what was promised. Each stream stays open.
    let texts = versions(50, 40, 12_000);
    let bodies: Vec<Vec<u8>> =
        gzips(&texts[0]).into_iter().map(|body| body[..body.len() - 100].to_vec()).collect();
    let content = interleaved(&bodies, 700, &[]);
    let (_, stats) = send(&[content.clone(), content], BLOCK, Encoder::builder());
    assert_eq!(stats.refused, 0);
}

#[test]
fn countless_connections_take_bounded_memory_and_the_last_ones_are_followed() {
    let builder = Encoder::builder().cache(8 << 20).inside(true);
    let mut encoder = builder.clone().build().unwrap();
    let texts = versions(60, 6, 20_000);
    let contents = [0, 1].map(|nth| interleaved(&gzips(&texts[nth]), 1000, &[]));
    let mut streams: Vec<_> = (0..12).map(|_| Stream::new(Domain::COMMON)).collect();
    // Six, then another six, a piece of each in turn; then one alone.
    let mut used = [0, 0];
    for (used, streams) in used.iter_mut().zip(streams.chunks_mut(6)) {
        for at in (0..contents[0].len()).step_by(5000) {
            let block = &contents[0][at..contents[0].len().min(at + 5000)];
            for stream in &mut *streams {
                encoder.encode_stream(stream, block, 0).unwrap();
            }
        }
        *used = encoder.memory().inside;
        assert!(*used <= builder.memory().inside, "{used}");
    }
    // Flows, but no more streams: 36 of them would take a megabyte.
    assert!(used[1] - used[0] < 700_000, "{used:?}");
    let begun = |encoder: &Encoder| encoder.stats().inside.streams.get(Carrier::Http2);
    let before = begun(&encoder);
    let mut last = Stream::new(Domain::COMMON);
    encoder.encode_stream(&mut last, &contents[1], 0).unwrap();
    let after = begun(&encoder);
    assert_eq!((after.begun - before.begun, after.ended - before.ended), (6, 6));
}

proptest! {
    #![proptest_config(crate::common::config_divided(8))]

    /// Whatever the frames say, content comes out as it went in (`send` compares it), within the
    /// memory that was promised.
    #[test]
    fn hostile_frames_do_no_harm(
        seed in 0u64..1000,
        is_zstd: bool,
        sizes in proptest::collection::vec(1usize..20_000, 1..4),
        blocks in proptest::collection::vec(1usize..=65_536, 1..6),
        hostile in proptest::collection::vec((0usize..40, any::<u8>(), any::<u8>(), 0u32..12, 0usize..300), 0..30),
        cuts in proptest::collection::vec((any::<proptest::sample::Index>(), any::<u8>(), 0usize..40), 0..6),
    ) {
        let texts = versions(seed, 3, 40_000);
        let mut rng = Rng::new(seed);
        let frames: Vec<Vec<u8>> = hostile
            .iter()
            .map(|&(kind, flags, len, stream, more)| {
                let kind = if kind < 18 { kind as u8 } else { 0 };
                let mut frame = frame(kind, flags, stream, &text(seed, more));
                // A length that its content may not have.
                if len % 5 == 0 {
                    frame[rng.below(3)] ^= len;
                }
                frame
            })
            .collect();
        let bodies = |texts: &[Vec<u8>]| match is_zstd {
            true => texts.iter().map(|text| zstd(text, 3, 9000)).collect(),
            false => gzips(texts),
        };
        let whole = interleaved(&bodies(&texts[0]), sizes[0], &[]);
        let mut broken = interleaved(&bodies(&texts[1]), sizes[sizes.len() - 1], &frames);
        for (at, byte, removed) in cuts {
            let at = at.index(broken.len());
            broken[at] ^= byte;
            broken.drain(at..(at + removed).min(broken.len() - 1).max(at));
        }
        send(&[whole.clone(), broken, whole], &blocks, Encoder::builder());
    }
}
