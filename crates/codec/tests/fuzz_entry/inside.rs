//! Deflate streams and zstd frames, whole or broken, through both ends; and bytes as transcoded
//! literals.

use super::input::Input;
use oncewire_codec::{ChecksumSeed, Decoded, Decoder, Domain, Encoder, FrameError, Sharing};

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
    let kind = usize::from(input.u8());
    let block = [1, 7, 100, 1500, 1 << 16][kind % 5];
    // How many blocks in turn belong to one domain or the other.
    let turn = [usize::MAX, 1, 2, 5][kind / 5 % 4];
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
    let builder = builder.sharing(Sharing::None);
    let mut encoder = builder.clone().build().unwrap();
    let mut decoder = Decoder::builder().cache(1 << 18).build().unwrap();
    for (nth, block) in content.chunks(block).enumerate() {
        let mut frame = Vec::new();
        encoder.enter(Domain((nth / turn % 2) as u64));
        encoder.encode(block, &mut frame).unwrap();
        assert!(frame.len() <= block.len() + block.len() / 1000 + 32);
        match decoder.decode(&frame) {
            Ok(Decoded::Block { content, .. }) => assert!(content == block, "other content"),
            other => panic!("{other:?}"),
        }
    }
    let (used, most) = (encoder.memory(), builder.memory());
    assert!(used.inside <= most.inside, "{used:?}, at most {most:?}");
    assert_eq!(encoder.stats().inside.refused, 0, "a plan that does not give the block back");
}

/// A section of transcoded literals behind a log of deflate streams and a zstd frame.
fn section(input: &mut Input<'_>) {
    let mut decoder = Decoder::builder().cache(1 << 17).build().unwrap();
    let mut encoder = Encoder::builder().cache(1 << 17).build().unwrap();
    let log = [bytes(FIRST), bytes(SECOND), bytes(FRAME)].concat();
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
        let before = decoder.work();
        match decoder.decode(&frame) {
            Ok(Decoded::Block { .. }) => panic!("the checksum is that of another block"),
            Ok(Decoded::Missing(ranges)) => panic!("{ranges:?} are there"),
            Ok(Decoded::NeedMore(_)) => panic!("the frame is whole"),
            Err(FrameError::Checksum { .. }) | Err(_) => {}
        }
        let work = decoder.work() - before;
        assert!(work <= 1024 + 16 * block_len as u64, "{work} units for {block_len} bytes");
    }
    let (used, most) = (decoder.memory(), Decoder::builder().cache(1 << 17).memory());
    assert!(used.inside <= most.inside, "{used:?}, at most {most:?}");
}

/// Initial inputs.
pub(crate) fn seeds() -> Vec<Vec<u8>> {
    let (first, second) = (bytes(FIRST), bytes(SECOND));
    let (frame, other) = (bytes(FRAME), bytes(OTHER));
    let mut seeds = Vec::new();
    let pairs = [(&first, &second), (&second, &first), (&frame, &other), (&other, &frame)];
    for (block, (first, second)) in (0..20).zip(pairs.into_iter().cycle()) {
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
    // Both versions at once, and both of zstd one after the other, each beside something else.
    let zstds = [in_turn(1, &frame, &first), in_turn(5, &other, &second)].concat();
    for streams in [in_turn(1, &first, &second), zstds] {
        // A connection's settings begin it.
        let connection = [&[0, 0, 0, 4, 0, 0, 0, 0, 0][..], &streams].concat();
        let mut seed = vec![0, 4];
        seed.extend((connection.len() as u16).to_le_bytes());
        seed.extend(&connection);
        seed.extend([0, 0, 0xff, 0xff, 9]);
        seed.extend([0xff; 9]);
        seeds.push(seed);
    }
    // Sections that an encoder wrote for what the decoder has, too.
    let log = [&first[..], &second, &frame].concat();
    let changed = [&second[..200], b"?", &second[201..]].concat();
    let divided = in_turn(1, &other, &changed);
    for new in [changed, other, divided] {
        let mut encoder = Encoder::builder().cache(1 << 17).inside(true).build().unwrap();
        let mut frame = Vec::new();
        encoder.encode(&log, &mut Vec::new()).unwrap();
        encoder.encode(&new, &mut frame).unwrap();
        let body = frame.len() - 12 - new.len().min(frame.len() - 12)..frame.len() - 8;
        for block_len in [new.len(), 60_000] {
            let mut seed = vec![1];
            seed.extend((block_len as u16).to_le_bytes());
            seed.extend((body.len() as u16).to_le_bytes());
            seed.extend(&frame[body.clone()]);
            seeds.push(seed);
        }
    }
    seeds
}

/// Two bodies in frames of HTTP/2, in turn: of a stream and of the next one.
fn in_turn(stream: u8, one: &[u8], other: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    let (mut one, mut other) = (one.chunks(200), other.chunks(200));
    loop {
        let pieces = [(stream, one.next()), (stream + 2, other.next())];
        if pieces.iter().all(|(_, piece)| piece.is_none()) {
            return out;
        }
        for (stream, piece) in pieces.into_iter().filter_map(|(of, piece)| Some((of, piece?))) {
            out.extend([0, 0, piece.len() as u8, 0, 0, 0, 0, 0, stream]);
            out.extend(piece);
        }
    }
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

/// Two versions of another text, in zstd frames.
const FRAME: &str = "\
    28b52ffd0458252200f66b781770b51b4a46f6289e788b8420fbff8fc31c77be56fdbf1771007200710001ad\
    1fb46f4a313f8d2d2f96df1dc543b42f008b3ea5ae1f7176fc2d172821fb1fd24e02493ee26c24ef1d27e621\
    403b1f534440b8968f6b2e0e3b1da744b6cf29d510224f1c33263cbb8f0fd6687cc4e814f671137117177fc0\
    7239dc7d0170cafc88aebcfe1e3602f3479cff9836e61a2e305fee49613b52fc83fd23cea5b15314b1e28b0c\
    0496571e5dc327289e47c203cfd462eff8ab660c3b26780d01eee9de2fee471c12d37c6849b0d49200087097\
    14c73bfd4ebf47743833c0489e2e1ccd8f4a5b2f85dce9f068b1f5bd06c6042ff5b4c37b0af5b3d805e87df6\
    f3befa8b17887eb0cb4e68758efa5ebf03767f55168a38677713d59ab2b3d788733a4182180e447d3defebb4\
    35926727ce8b1de4f817834c29eab4d3cc5ff7b21d0e44a802d5aa04e9b9dec571b174faa3dd090508dd209c\
    b6f35142ecb39d7657432e830e82eda1235e4929a350b21f6d2a69e92b031f713ee6b468975aada876b1743a\
    29d6de4ea75961c6f1fa4ed3879cc4102be99d51ec38fd76be9dd3d8174b861a2b410bca624d1a592dc59031\
    a82053ca517fb164415ad2c80ff65e1fb116f45a1451a714a8688f51ede254ccfac02bf2be2eb2c35263a904\
    8b39fe4e9b2029fa02811fa8010a6290884c10499214d20121040d836116743d11c41ca55a6a52c83006c280\
    5cbeece7dcc921f913741028ef49603ad2431b2a921f963c444a4d3dd65c9947e50b5dee16f6bb0077cf6bb4\
    10a6020fd9379a246a6efe141101d1ea808a92e2546c8d0cd5bdd2f1d252631e99f83d2564222387ea34ac08\
    4ab9cecc0452b7913628549719276324f46240df22f499b84f60163faf2040a02a1109124b8baaae7fc89ff8\
    ccc80cbed5d56bf42cd4a3469f64705a23d039bbf66bf59a1349c2262504e5add08d54ddc7a1ff36abb8712a\
    a0e30457632f9937c1b6cc0fecde0fef81a2a5d1840129301438e16874c36457b5aa359f2fc038e18860a73a\
    83d036d2ba7b8ae5772d4deca1536d4936c1790b00716d61727267b1d48012065c7269e0d1a0a4cc6cccd877\
    35337cc6450c00c713fc6896aff8f0534be0321512a5f6170bba47ddf533a064b7f50e2c07d817fdd6bf56d2\
    22d4bff2fb28c4e19984d0710464946030cb7d3f05b867b171cbe83c4986ba801810f6cdf33745ec0660b199\
    353f2d902a637a231202bf86cc664107b6e0d299fd91506bf861b8b3e55b516c416bc4635cf1c3dcb6b711c9\
    eec25607a7f043732991ada124124303b72a9fdfabe618d0af4f0a26e6e48dab27f3762ca026d1a897c3b0a1\
    b879725fde48cfe7c8c1817a89d65018e1ba86b8123645875da567f70ae5619d36e391ef53a2ddb5f0c7bea4\
    4d187fcf01b5661f42d459001e1ded4711eeffba179ee1f273676a1c2afe56dab5160bf48ed130a12b9bc3e0\
    18fd451e6ea46c7f3d02e8af86a4a6c67cce83dac4d01eca2154a211353b5cf6dbe4d2447c8767dd408abe82\
    2ac035d245";
const OTHER: &str = "\
    28b52ffd0458452200466c791770b51b4a46f6289e788b8420fbff8fc31c77be56fdbf177200730072002fa0\
    f583f64d29e6a7b1e5c5f2bba37888f60560d1a7d4f523ce8ebfe5022564ff43da4920c9479c8de4bde3c43c\
    0468e7638a0808d7f271cdc561a7e394c8f639a51a42e48963c68467f7f1c11a8d8f189dc23e6e22eee2e20f\
    582e87bb2f004e991fd195d7dfc34660fe88f31fd3c65c0357bac07cb92785ed48f10ff68f3897c64e51c48a\
    2f3210585e79740d9fa0781e090f3c538bbde3af9a31ec98e03504b8a77bbfb81f71484cf3a125c1524b0220\
    c05d521ceff43bfd1ed1e1cc002379ba70343f2a6dbd1472a7c3a3c5d6f71a1813bcd4d30eef29d4cf6217a0\
    f7d9cffbea2f02b0cb4e68758efa5ebf03767f55168a38677713d59ab2b3d788733a4182180e447d3defebb4\
    35926727ce8b1de4f817834c29eab4d3cc5ff7b21d0e44a802d5aa04e9b9dec571e3601d0178e7f447bb130a\
    10ba41386de7a384d8673bedae865c061d04db4347bc925246a1643fda54d2d2011f713ee6b468975aada876\
    b1743a29d6de4ea75961c6f1fa4ed3879cc4102be99d51ec38fd76be9dd3d8174b861a2b410bca624d1a6a29\
    868c410599528efa8b250bd292467eb0f7fa88b5a0d7a2883aa540457b8c6a17a762d6075e91f775911d961a\
    4b2558ccf177da0449d187e817811fa8010a5290888c8824490ae921040d8471d4733d11d41c955a6a52c830\
    06428157beeceb88c921fd0978b02823885e1a290c9a29921ab65c42ca4d3d1e5c0b84e40b013773757c81d1\
    8ed1f8110a087e13846c5847caeed71c108f78e9103b51e01436b90cb11ecbf1102947c6a37b2ddcb5efeb86\
    fa6908903c459de5ff4b61713328d5577066a022f45820d822f49db34f201621ef4080a09482d1724a83aa4c\
    2fde375619f0d8e996cfac51ac508c9a73922f79b980e8408dbdd76c732221202476a0d028d4a0bdf621b002\
    1bd98d0707083b81c778586c1f5d87df7fb6522307f08d1486708004868224dc7f6e44e92a4ff513b344982f\
    5dca3395e60677174871fcad250193a8595bd3ee9b170140a869cd4fee2fd61a60c2804f2e017b742e29331d\
    b3f85dcd0c9f411523f0b8bb9fcdb22b3e32d6e4284205d855b98b8d4ea36ef9c350b2db86c7a3c3eb8b6f8b\
    77d7d221d4c5f2fba4c57786ede93b823ae2b960b6fb760af61ec3239799088585f01a6207d83fd7de16d133\
    8015b4273de68042630fe72a64c2269c3d44b376ecdacffdea50c7b0cf40627bb42d67c16bd963aefe8f11cd\
    6ee3920d662d106ee7e766048f000eb1259936843593c24c9bd3c0d622a9191a933c5487f9f39101b808d634\
    8fc227929bbbe42b40ca690e7273c02fd31a81400846435c499ba4835749d9cd42d2b0491be748ef8468858d\
    30b32fdd84c74773b5add60719aa82a2878cf62313e77f330abd91de733035f2547cd2edb21608f4b6a26e50\
    afcdc0903dde218f7549babf9003945f0d4a4d697c8307b50972fd6a804da20935272eff6d883451b613ac7b\
    4ed1015b054377110a";
