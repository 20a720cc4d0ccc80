//! Streams whose beginning was not sent.

mod common;
#[path = "common/deflated.rs"]
#[allow(dead_code)]
mod deflated;

use common::content::{Rng, noise, text};
use deflated::gzip;
use oncewire_codec::{Decoded, Decoder, Domain, Encoder, Stream};

/// Frame bytes of parts of content, each a flow of its own, in blocks of 64 KiB; and the work.
fn send(parts: &[&[u8]]) -> (Vec<usize>, u64) {
    let mut encoder = Encoder::builder().cache(32 << 20).inside(true).build().unwrap();
    let mut decoder = Decoder::builder().cache(32 << 20).build().unwrap();
    let sizes = parts
        .iter()
        .map(|part| {
            let mut stream = Stream::new(Domain::COMMON);
            let mut sent = 0;
            for block in part.chunks(65536) {
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
    assert!(work < 4 * (128 << 10) + (8 << 20) / 8, "{work}");
}
