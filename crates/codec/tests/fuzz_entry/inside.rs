//! Deflate streams, whole or broken, through both ends; and bytes as transcoded literals.

use super::input::Input;
use oncewire_codec::{ChecksumSeed, Decoded, Decoder, Encoder, FrameError};

/// Largest content of an input, in bytes, so that a run stays short.
const MOST: usize = 1 << 18;

/// The first byte selects the case.
pub(crate) fn run(input: &[u8]) {
    let mut input = Input(input);
    match input.u8() % 2 {
        0 => round_trip(&mut input),
        _ => section(&mut input),
    }
}

/// Sends content in blocks of some length, then versions of it, and compares what comes out.
fn round_trip(input: &mut Input<'_>) {
    let block = [1, 7, 100, 1500, 1 << 16][usize::from(input.u8()) % 5];
    let len = input.u16();
    let mut content = input.bytes(len).to_vec();
    let first = content.clone();
    while !input.is_empty() && content.len() + first.len() < MOST {
        // A part of the first version, then some bytes of its own.
        let (at, len) = (input.u16().min(first.len()), input.u16());
        content.extend_from_slice(&first[at..(at + len).min(first.len())]);
        let own = usize::from(input.u8());
        content.extend_from_slice(input.bytes(own));
    }
    let builder = Encoder::builder().cache(1 << 18).max_block(1 << 16).inside(true);
    let mut encoder = builder.build().unwrap();
    let mut decoder = Decoder::builder().cache(1 << 18).build().unwrap();
    for block in content.chunks(block) {
        let mut frame = Vec::new();
        encoder.encode(block, &mut frame).unwrap();
        assert!(frame.len() <= block.len() + block.len() / 1000 + 32);
        match decoder.decode(&frame) {
            Ok(Decoded::Block { content, .. }) => assert!(content == block, "other content"),
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(encoder.stats().inside.refused, 0, "a plan that does not give the block back");
}

/// A section of transcoded literals behind a log of deflate streams.
fn section(input: &mut Input<'_>) {
    let mut decoder = Decoder::builder().cache(1 << 17).build().unwrap();
    let mut encoder = Encoder::builder().cache(1 << 17).build().unwrap();
    let log = [bytes(FIRST), bytes(SECOND)].concat();
    let mut frame = Vec::new();
    encoder.encode(&log, &mut frame).unwrap();
    assert!(matches!(decoder.decode(&frame), Ok(Decoded::Block { .. })));
    for _ in 0..2 {
        let (block_len, section_len) = (input.u16(), input.u16());
        let section = input.bytes(section_len);
        // Transcoded literals and no matches, in a fresh context.
        let mut body = Vec::new();
        oncewire_codec::varint::put(&mut body, block_len as u64);
        body.extend_from_slice(section);
        body.extend_from_slice(&ChecksumSeed::default().checksum(0, 0, b"").to_le_bytes());
        let mut frame = vec![0x2c];
        oncewire_codec::varint::put(&mut frame, body.len() as u64);
        frame.extend_from_slice(&body);
        match decoder.decode(&frame) {
            Ok(Decoded::Block { .. }) => panic!("the checksum is that of another block"),
            Ok(Decoded::Missing(ranges)) => panic!("{ranges:?} are there"),
            Ok(Decoded::NeedMore(_)) => panic!("the frame is whole"),
            Err(FrameError::Checksum { .. }) | Err(_) => {}
        }
    }
    let (used, most) = (decoder.memory(), Decoder::builder().cache(1 << 17).memory());
    assert!(used.inside <= most.inside, "{used:?}, at most {most:?}");
}

/// Initial inputs.
pub(crate) fn seeds() -> Vec<Vec<u8>> {
    let (first, second) = (bytes(FIRST), bytes(SECOND));
    let mut seeds = Vec::new();
    for (block, (first, second)) in
        (0..10).zip([(&first, &second), (&second, &first)].into_iter().cycle())
    {
        let mut seed = vec![0, block];
        seed.extend((first.len() as u16).to_le_bytes());
        seed.extend(first);
        // Nothing of the first, and the second in pieces of up to 255 bytes.
        for piece in second.chunks(255) {
            seed.extend([0, 0, 0, 0, piece.len() as u8]);
            seed.extend(piece);
        }
        seed.extend([10, 0, 0xff, 0xff, 0]);
        seeds.push(seed);
    }
    // A section that an encoder wrote for what the decoder has, too.
    let mut encoder = Encoder::builder().cache(1 << 17).inside(true).build().unwrap();
    let mut frame = Vec::new();
    encoder.encode(&[first, second.clone()].concat(), &mut Vec::new()).unwrap();
    let changed = [&second[..200], b"?", &second[201..]].concat();
    encoder.encode(&changed, &mut frame).unwrap();
    let body = frame.len() - 12 - second.len().min(frame.len() - 12)..frame.len() - 8;
    for block_len in [changed.len(), 60_000] {
        let mut seed = vec![1];
        seed.extend((block_len as u16).to_le_bytes());
        seed.extend((body.len() as u16).to_le_bytes());
        seed.extend(&frame[body.clone()]);
        seeds.push(seed);
    }
    seeds
}

fn bytes(hex: &str) -> Vec<u8> {
    let digit = |byte: u8| (byte as char).to_digit(16).unwrap_or(0) as u8;
    hex.as_bytes().chunks(2).map(|pair| digit(pair[0]) << 4 | digit(pair[1])).collect()
}

/// Two versions of a text, in gzip: dynamic deflate blocks.
const FIRST: &str = "\
    1f8b08000000000000034d544b76e3300cbb8a8e6052f247afa7515a67e2376db2b036bd7d418272bb88ed48\
    240482a0f6e7c7f956d6f4ba9792fa63d79a6eaffe28926e9faff7ff3261e77eee5d736affdaf19439ddbefb\
    7ee6121b79f18409cbbaa4dde0441883e4d6b774d8ef9c0c5d3276b0fcd83f3f644b5fadbf3f446dcd52b4a4\
    2680058e0554a29508ab0690230991aaa9e5293685ec32a173f030acd9d3e6f46c5ffba939d8af5eebc622cb\
    cc2c94febd7a3550e175cf6a8fc02a15752c589048d215c5a11e3fdf436b70f18d7ab136e8190294c5f9da5f\
    7c3a4668a994dc9a200b8e81f8ceb606bd89ef2c81998986c7c440eaa5ab93203b1c668c33cf4715f88e7c90\
    a03c1b455363b75e6d7582536c49d067efdd26b40a9901414320a00fa15aa451e5719c8e37025c2f349019d6\
    2754cf0e29091410d6a1ae158c87bbc69b027a88681d2a78968410323cb3b8db74d0b88490ab3e4a3ab9f412\
    7fb761f6b091991ad6198a829152a602eff56c9a611e5ef7894663794b8014530a71d6f6f03032ccb6c7a9c1\
    3b5b300439ac02366009ad2d0c6e6f76a679b5fc72437e446ba886b298152d2dc3592c17387bcc791b7d5297\
    0840b602af307f70c7e91da535273bff6da3841968da8186fc71761eef1c6062e5d53f2ae09b0df23153ebae\
    d748f38fb462b31a7d85a9a8d7b06cb9ac8b16d8156356ecbc23203c83516d898b414263aa532e771f2621bd\
    4c27d8f0f2228c212cd1f1c819ec784fe43ac8da0c39913aee121f494ea661e825ed0f";
const SECOND: &str = "\
    1f8b08000000000000034d544b96e3200cbc0a474042b6c39bd3900e99f84d77bc309bbefd943eb87b11db01\
    a928954af4f7e3fc235b3a9e2269bc3ad7743fc64b28dd3f8f8f7f94b1f33cfbe092dadfb6bf6949f7efd1cf\
    22b151564bc858e635758523f21824b7714bbbfeceace854b083e557ff7cd02d7db5f1f122d6354d61498d00\
    0b1c0da88e26115615a044122299532b3936c9d915872ec143b1164b5bd2bb7df5934bb0dfacd69b17298b67\
    a1f4efcdaa810ac7b3b03e024b6adad3f1eea93ff691c68a2d8a74de50262a3326965483956dd48bbf1eb240\
    0a598db9fec5a76184aaece26b3b6885706883f1ae4134fbbb50601647c3237ba02bc79b917076380cdc47f1\
    f3510fbe231f245ca89bcbc7ca6ebb1a6c04736c51d077179861dc34ce0c081c52017d4ad622cdf59ec7f17c\
    23c0f4422b3d433b86eabd57ec04048479aaab05e361feb1f6801e22da800a964521044df7ace63b9e342e21\
    e8aacf25cd263dc5dfdbb47d184aed0d134d45c1885d26810b4751cd3019c733bbe5bcbc35404495429cb63d\
    dc8c0c35f07e72f02e1acc39b45f43668d80e59b1ea786951f5a488d680ec15091674537659aca2b054e8f61\
    6fb3456cea0048576013cf9fb471fa4055cd782ebf3b48e103f7eb4443fe3cbbcc7709300206d55f02e0db7b\
    63b3c6da58abd17d3fd34407365a0a3fb954d3ad72b916eaeb3da32e1c7e5140730f46b512b7037676bb944c\
    1db98cbdab846e633781ceaddf86317f12cd8e9cc9ce2f8b5227591d1f2352e78562d3e843a9187c49fb1f";
