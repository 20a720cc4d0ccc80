//! Chunks that isolation domains share, and the log that they lie in.

use crate::common::content::{noise, text};
use oncewire_codec::{DEFAULT_BLOCK, Decoded, Decoder, Domain, Encoder, Sharing, Stream};

const CACHE: usize = 1 << 20;

/// Sends a flow in blocks, the first of `first` bytes, checks that they arrive, and returns the bytes
/// on the wire.
fn send(
    (encoder, decoder): (&mut Encoder, &mut Decoder),
    domain: u64,
    content: &[u8],
    first: usize,
) -> usize {
    let (mut stream, mut sum) = (Stream::new(Domain(domain)), 0);
    let (head, rest) = content.split_at(first);
    for block in [head].into_iter().chain(rest.chunks(DEFAULT_BLOCK)) {
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
    let ends = (&mut encoder, &mut decoder);
    let mut send =
        |domain, content: &[u8], first| send((&mut *ends.0, &mut *ends.1), domain, content, first);
    // As many clients send it as must, before others may find it.
    let content = text(2, 3 * DEFAULT_BLOCK / 2);
    send(1, &noise(1, DEFAULT_BLOCK), DEFAULT_BLOCK);
    for domain in 2..8 {
        send(domain, &content, DEFAULT_BLOCK);
    }
    // The newest copy lies across the end, with a block on each side.
    let left = CACHE - 2 * DEFAULT_BLOCK - 6 * content.len();
    send(1, &noise(2, left), DEFAULT_BLOCK);
    send(8, &content, DEFAULT_BLOCK);
    let sent = send(9, &content, DEFAULT_BLOCK / 2);
    assert!(sent < content.len() / 4, "{sent}");
}
