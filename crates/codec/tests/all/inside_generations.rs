//! Repeats inside deflate on both sides of the end of a log generation.

use crate::common::content::{noise, text};
use crate::deflated::{edited, gzip};
use oncewire_codec::{Decoded, Decoder, Encoder};

/// Two pieces of the log that are taken from, one at the end of a generation and one at the
/// beginning of the next, are two sources, although little padding lies between them.
#[test]
fn what_is_taken_from_both_sides_of_the_end_of_a_generation_is_named_apart() {
    let first = text(40, 60_000);
    let (stream, version) = (gzip(&first, 6), gzip(&edited(&first, 1, 3), 6));
    let mut transcoded = 0;
    for before in (0..600).step_by(40) {
        let cache = 200_000;
        let mut encoder = Encoder::builder().cache(cache).inside(true).build().unwrap();
        let mut decoder = Decoder::builder().cache(cache).build().unwrap();
        let mut send = |block: &[u8]| {
            let mut frame = Vec::new();
            encoder.encode(block, &mut frame).unwrap();
            let decoded = decoder.decode(&frame);
            assert!(matches!(decoded, Ok(Decoded::Block { content, .. }) if content == block));
            frame[0] & 12 == 12
        };
        // So much that half of the stream and some padding end the generation.
        let half = stream.len() / 2;
        let mut left = cache as usize - half - before;
        while left > 0 {
            let len = left.min(60_000);
            send(&noise(left as u64, len));
            left -= len;
        }
        send(&stream[..half]);
        send(&stream[half..]);
        transcoded += usize::from(send(&version));
        assert_eq!(encoder.stats().inside.refused, 0);
    }
    assert!(transcoded > 10, "{transcoded}");
}
