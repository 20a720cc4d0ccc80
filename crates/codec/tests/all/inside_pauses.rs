//! Flows of which some content was not looked at: where it is found as a repeat, and where opening
//! was off for a while. What follows is opened as if nothing had happened.

use crate::common::content::{noise, text};
use crate::deflated::{edited, gzip};
use oncewire_codec::{Decoded, Decoder, Domain, Encoder, Stream};

/// Two versions of a text.
fn versions(seed: u64, len: usize) -> [Vec<u8>; 2] {
    let first = text(seed, len);
    let second = edited(&first, seed + 1, len / 100_000 + 1);
    [first, second]
}

/// Both ends of a connection that is kept open.
struct Kept {
    encoder: Encoder,
    decoder: Decoder,
    stream: Stream,
}

impl Kept {
    fn new() -> Kept {
        Kept {
            encoder: Encoder::builder().cache(32 << 20).inside(true).build().unwrap(),
            decoder: Decoder::builder().cache(32 << 20).build().unwrap(),
            stream: Stream::new(Domain::COMMON),
        }
    }

    /// Sends a response in blocks; returns the bytes of their frames.
    fn send(&mut self, body: &[u8]) -> usize {
        let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", body.len());
        let response = [head.as_bytes(), body].concat();
        response.chunks(65536).map(|block| self.block(block)).sum()
    }

    fn block(&mut self, block: &[u8]) -> usize {
        let Kept { encoder, decoder, stream } = self;
        let frame: Vec<u8> = encoder.encode_stream(stream, block, 0).unwrap().parts().concat();
        let Decoded::Block { content, .. } = decoder.decode(&frame).unwrap() else {
            panic!("nothing is missing");
        };
        assert!(content == block);
        frame.len()
    }
}

#[test]
fn a_version_behind_a_response_that_repeats_is_opened() {
    let other = text(3, 400_000);
    let versions = [gzip(&other, 6), gzip(&edited(&other, 4, 4), 6)];
    for len in [100_000, 300_000, 900_000, 2_000_000] {
        for large in [text(1, len), gzip(&text(1, 3 * len), 6)] {
            let mut kept = Kept::new();
            kept.send(&versions[0]);
            kept.send(&large);
            assert!(kept.send(&large) < large.len() / 50);
            let size = kept.send(&versions[1]);
            assert!(size < versions[1].len() / 10, "{size} behind {} bytes", large.len());
        }
    }
}

#[test]
fn opening_can_be_turned_off_and_on_between_blocks() {
    let [first, second] = versions(61, 800_000).map(|text| gzip(&text, 6));
    let mut encoder = Encoder::builder().cache(8 << 20).inside(true).build().unwrap();
    let mut decoder = Decoder::builder().cache(8 << 20).build().unwrap();
    // Sends a content, of which the encoder opens from one block on up to another.
    let mut send = |content: &[u8], opens: std::ops::Range<usize>| {
        let mut size = 0;
        for (nth, block) in content.chunks(65536).enumerate() {
            let before = encoder.stats().inside;
            encoder.set_opening(opens.contains(&nth));
            let mut frame = Vec::new();
            encoder.encode(block, &mut frame).unwrap();
            let Decoded::Block { content, .. } = decoder.decode(&frame).unwrap() else {
                panic!("nothing is missing");
            };
            assert!(content == block);
            let after = encoder.stats().inside;
            assert!(opens.contains(&nth) || after == before, "{after:?}, before {before:?}");
            size += frame.len();
        }
        (size, encoder.stats().inside)
    };
    let (whole, all) = (second.len(), 0..usize::MAX);
    let (_, indexed) = send(&first, all.clone());
    assert!(indexed.opened_bytes as usize > first.len() * 9 / 10 && indexed.saved_bytes == 0);
    let (off, stats) = send(&gzip(&text(63, 400_000), 6), 0..0);
    assert_eq!(stats, indexed, "{off} bytes");
    // What comes behind a pause in a stream is opened: the pause is caught up with.
    let (part, stats) = send(&second, 1..usize::MAX);
    let (block, opened) = (65536, stats.opened_bytes - indexed.opened_bytes);
    assert!(opened as usize > whole - block - 5000, "{stats:?}");
    assert!(part < block + whole / 4, "{part} of {whole} bytes, {stats:?}");
    // After a long one, its middle is found.
    let digits: Vec<u8> =
        noise(65, 4_500_000).iter().flat_map(|byte| format!("{byte:02x}").into_bytes()).collect();
    let long = gzip(&digits, 6);
    let pause = 70;
    assert!(pause << 16 > 4 << 20 && long.len() > (pause + 4) << 16);
    let (_, later) = send(&long, pause..usize::MAX);
    let opened = later.opened_bytes - stats.opened_bytes;
    assert!(opened > 1 << 16 && opened < (long.len() - (pause << 16)) as u64, "{later:?}");
    // The next stream is opened, too.
    let third = gzip(&edited(&edited(&text(61, 800_000), 62, 9), 64, 9), 6);
    let (_, again) = send(&third, all);
    assert!((again.opened_bytes - later.opened_bytes) as usize > third.len() * 9 / 10, "{again:?}");
}

#[test]
fn flows_that_take_turns_catch_up_with_a_pause() {
    let contents: Vec<[Vec<u8>; 2]> =
        (0..2).map(|nth| versions(71 + 10 * nth, 800_000).map(|text| gzip(&text, 6))).collect();
    let mut encoder = Encoder::builder().cache(8 << 20).inside(true).build().unwrap();
    let mut decoder = Decoder::builder().cache(8 << 20).build().unwrap();
    let mut send = |of: usize, off: std::ops::Range<usize>| {
        let mut streams = [Stream::new(Domain::COMMON), Stream::new(Domain::COMMON)];
        let len = 16 << 10;
        let (most, mut size) = (contents.iter().map(|of| of[0].len().max(of[1].len())).max(), 0);
        for nth in 0..most.unwrap().div_ceil(len) {
            encoder.set_opening(!off.contains(&nth));
            for (stream, versions) in streams.iter_mut().zip(&contents) {
                let rest = versions[of].get(nth * len..).unwrap_or(&[]);
                let block = &rest[..len.min(rest.len())];
                let frame = encoder.encode_stream(stream, block, 0).unwrap();
                let frame: Vec<u8> = frame.parts().concat();
                let Decoded::Block { content, .. } = decoder.decode(&frame).unwrap() else {
                    panic!("nothing is missing");
                };
                assert!(content == block);
                size += frame.len();
            }
        }
        (size, encoder.stats().inside)
    };
    let (first, _) = send(0, 0..0);
    let (second, stats) = send(1, 3..7);
    // Four of each flow's blocks were not opened.
    assert!(second < 8 * (16 << 10) + first / 4, "{second} after {first} bytes, {stats:?}");
}
