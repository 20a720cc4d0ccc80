//! Chunks that isolation domains share, and the log that they lie in.
#![allow(missing_docs)]

mod common;

use common::content::noise;
use oncewire_codec::{Decoded, Decoder, Domain, Encoder, MAX_BLOCK, Sharing, Stream};

const CACHE: usize = 1 << 20;

/// Sends blocks of a flow, checks that they arrive, and returns the bytes on the wire.
fn send(encoder: &mut Encoder, decoder: &mut Decoder, domain: u64, content: &[u8]) -> usize {
    let (mut stream, mut sum) = (Stream::new(Domain(domain)), 0);
    for block in content.chunks(MAX_BLOCK) {
        let mut frame = Vec::new();
        encoder.encode_stream(&mut stream, block, 0).unwrap().append_to(&mut frame);
        match decoder.decode(&frame) {
            Ok(Decoded::Block { content, .. }) => assert!(content == block),
            other => panic!("{other:?}"),
        }
        sum += frame.len();
    }
    sum
}

/// A full generation has no padding at its end, so the two parts of a chunk across that end are
/// adjacent. They must stay two matches.
#[test]
fn chunks_across_the_end_of_a_full_generation_are_found() {
    let mut encoder =
        Encoder::builder().cache(CACHE as u64).sharing(Sharing::Chunks).build().unwrap();
    let mut decoder = Decoder::builder().cache(CACHE as u64).build().unwrap();
    // Chunks are indexed as soon as there are two domains.
    send(&mut encoder, &mut decoder, 1, &noise(1, MAX_BLOCK));
    let content = noise(2, CACHE);
    send(&mut encoder, &mut decoder, 2, &content);
    // Short enough that the log holds the first copy all along.
    let end = CACHE - MAX_BLOCK;
    // Its blocks end elsewhere than those before.
    let around_the_end = &content[end - MAX_BLOCK / 2..end + MAX_BLOCK];
    let sent = (3..9)
        .map(|domain| send(&mut encoder, &mut decoder, domain, around_the_end))
        .min()
        .unwrap_or(0);
    assert!(sent < around_the_end.len() / 4, "{sent}");
}
