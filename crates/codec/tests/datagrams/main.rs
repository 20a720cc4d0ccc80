//! Frames in datagrams: whichever arrive, in any order, give the content that was encoded.
#![allow(missing_docs)]
#![allow(clippy::single_range_in_vec_init)] // Lists of ranges are what is compared.

#[allow(dead_code)] // Of which these tests need a part.
#[path = "../common/content.rs"]
mod content;

mod contexts;
mod domains;
mod golden;
mod loss;
mod model;

use oncewire_codec::datagram::{Class, DatagramDecoder, DatagramEncoder, Limits, RunTokens};
use oncewire_codec::{ChecksumSeed, Decoder, Encoder, EncoderBuilder, Reach};
use std::ops::Range;

pub(crate) const SEED: ChecksumSeed = ChecksumSeed { session: 17, epoch: 3 };

/// Both ends over a log of `cache` bytes that stores what is late by less than `span`.
pub(crate) fn ends(cache: u64, span: u64) -> (DatagramEncoder, DatagramDecoder) {
    (encoder(cache, span).build_datagrams().unwrap(), decoder(cache, span))
}

pub(crate) fn encoder(cache: u64, span: u64) -> EncoderBuilder {
    Encoder::builder().cache(cache).span(span).checksum_seed(SEED)
}

pub(crate) fn decoder(cache: u64, span: u64) -> DatagramDecoder {
    Decoder::builder().cache(cache).span(span).checksum_seed(SEED).build_datagrams().unwrap()
}

/// A datagram with one frame.
#[derive(Clone, Debug)]
pub(crate) struct Datagram {
    pub(crate) counter: u64,
    pub(crate) frame: Vec<u8>,
    /// Where its content lies in the log.
    pub(crate) range: Range<u64>,
    pub(crate) content: Vec<u8>,
    /// Whether it depends on the log.
    pub(crate) depends: bool,
}

/// Encodes a run and deals it to datagrams with counters from `counter` on.
pub(crate) fn deal(
    encoder: &mut DatagramEncoder,
    run: &[u8],
    (class, reach): (Class, Reach),
    limits: &Limits,
    counter: &mut u64,
) -> Vec<Datagram> {
    let mut tokens = RunTokens::default();
    encoder.search(run, class, reach, &mut tokens).unwrap();
    let (mut from, mut dealt) = (0, Vec::new());
    while from < run.len() {
        let mut to = encoder.fit(&tokens, from, limits);
        assert!(to == run.len() || limits.segment == 0 || to.is_multiple_of(limits.segment));
        let fits = to > from;
        if !fits {
            // Not even a segment fits: the frame may be longer than the room.
            to = if limits.segment == 0 { run.len() } else { run.len().min(from + limits.segment) };
        }
        let mut frame = Vec::new();
        let depends = encoder.write(&tokens, run, from..to, limits, &mut frame);
        assert!(frame.len() <= limits.room || !fits, "{} bytes, {limits:?}", frame.len());
        assert!(frame.len() <= to - from + 9);
        let start = tokens.range().start;
        let range = start + from as u64..start + to as u64;
        let content = run[from..to].to_vec();
        dealt.push(Datagram { counter: *counter, frame, range, content, depends });
        *counter += 1;
        from = to;
    }
    dealt
}
