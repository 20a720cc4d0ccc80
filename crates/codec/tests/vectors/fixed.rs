//! Frames whose positions have a fixed width, as with several domains.

use crate::Vector;
use crate::common::params::Params;
use crate::deflated::{gzip, zstd};
use crate::hand::{CODED, CONTEXT, FRESH, Hand, OFFSET, PLAIN, TRANSCODED, digits, text, varints};
use crate::symbols::Symbols;
use oncewire_codec::{ChecksumSeed, Domain, Encoder, Entropy, Kernels, Sharing};

/// Flag bit of a frame.
const FIXED: u8 = 128;

fn params(cache: u64, max_block: usize) -> Params {
    Params {
        cache,
        max_block,
        contexts: 2,
        entropy: Entropy::Coded { level: 1 },
        ..Params::default()
    }
}

/// Makes a vector of what two domains send in turn. The first has context 0.
struct Turns {
    encoder: Encoder,
    vector: Vector,
}

impl Turns {
    fn new(kernels: Kernels, name: &'static str, story: &'static str, params: Params) -> Turns {
        let Params { cache, span, max_block, contexts, entropy, explicit, .. } = params;
        let encoder = Encoder::builder()
            .kernels(kernels)
            .cache(cache)
            .span(span)
            .max_block(max_block)
            .contexts(contexts)
            .entropy(entropy)
            .explicit_offsets(explicit)
            .sharing(Sharing::None)
            .inside(true)
            .build()
            .unwrap();
        Turns { encoder, vector: Vector::new(name, story, params) }
    }

    /// Content of one of the two, in blocks; the last frame must have these flags.
    fn send(&mut self, who: usize, flags: u8, content: &[u8]) -> &mut Turns {
        let Params { cache, max_block, .. } = self.vector.params;
        self.encoder.enter(Domain(1 + who as u64));
        for block in content.chunks(max_block) {
            let offset = crate::common::place(cache, self.encoder.end(), block.len());
            let mut frame = Vec::new();
            self.encoder.encode_frame(block, who).unwrap().append_to(&mut frame);
            self.vector.blocks.insert(offset, block.to_vec());
            self.vector.frames.push(frame);
        }
        let last = self.vector.frames.last().unwrap()[0];
        assert_eq!(last, flags, "{}: flags {last:#04x}", self.vector.name);
        self
    }
}

/// The same frame with positions of this many bits.
fn fixed(hand: &Hand, width: u8) -> Vec<u8> {
    let mut body = varints(&[hand.block_len]);
    let bytes = usize::from(width).div_ceil(8);
    body.push(width);
    if hand.flags & OFFSET != 0 {
        body.extend(hand.explicit.0.to_le_bytes());
        body.extend((hand.explicit.1 as u16).to_le_bytes());
    }
    if hand.flags & CONTEXT != 0 {
        body.push(hand.context as u8);
    }
    if hand.flags & 3 == CODED {
        body.extend(&hand.hull.0.to_le_bytes()[..bytes]);
        body.extend(&hand.hull.1.to_le_bytes()[..bytes]);
    }
    if hand.flags & 3 != 0 {
        body.extend(varints(&[hand.descriptors_len()]));
    }
    body.extend_from_slice(&hand.descriptors);
    body.extend_from_slice(&hand.literals);
    body.extend_from_slice(&hand.checksum.to_le_bytes());
    [&[hand.flags | FIXED][..], &varints(&[body.len() as u64]), &body].concat()
}

/// Plain descriptors of one match, with a distance of two bytes.
fn one(gap: u64, distance: u16, len: u64) -> Vec<u8> {
    [varints(&[1, gap]), distance.to_le_bytes().to_vec(), varints(&[len])].concat()
}

pub(crate) fn good(kernels: Kernels) -> Vec<Vector> {
    let mut all = Vec::new();
    let first = digits(101, 3000);
    let pieces = |at: [usize; 4]| {
        let parts = at.map(|at| [&first[at..at + 200], b"; a change; "].concat());
        parts.concat()
    };
    let mut turns = Turns::new(
        kernels,
        "fixed-width",
        "Two domains in turn, which find nothing of each other. From the second one on, positions have 17 bits.",
        params(100_003, 4000),
    );
    turns.send(0, 0x28, &first).send(1, 0xe8, &first);
    turns.send(0, FIXED | PLAIN, &first[500..]).send(1, FIXED | PLAIN, &first[100..2000]);
    turns.send(0, 0xca, &pieces([100, 2000, 900, 1500]));
    turns.send(1, 0xca, &pieces([2500, 100, 1300, 400]));
    turns.send(0, 0xca, &pieces([1000, 700, 0, 2800]));
    all.push(turns.vector);

    let mut turns = Turns::new(
        kernels,
        "fixed-width-offsets",
        "As before with stated offsets, over the end of a lap, and with a block that was encoded again.",
        Params { span: 2000, explicit: true, ..params(8009, 2000) },
    );
    turns.send(0, 0x38, &first[..1900]).send(1, 0xf8, &first[..1900]);
    turns.send(0, 0x91, &first[100..1900]).send(1, 0x91, &first[..1700]);
    turns.send(0, 0x91, &first[200..1700]);
    let at = turns.encoder.end();
    turns.send(1, 0xd9, &pieces([100, 1400, 900, 600]));
    let len = turns.vector.blocks[&at].len();
    let again = turns.vector.frames.last_mut().unwrap();
    again.clear();
    turns.encoder.repair(at, len, again).unwrap();
    assert_eq!(again[0], FIXED | OFFSET);
    all.push(turns.vector);

    let plain = text(102, 9000);
    let edited = [&plain[..5000], b"an insertion", &plain[5000..]].concat();
    for (name, story, descriptors, [before, after]) in [
        (
            "fixed-width-transcoded",
            "Versions of a text, compressed, and another domain between them: sources with distances of three bytes.",
            PLAIN,
            [gzip(&plain, 6), gzip(&edited, 6)],
        ),
        (
            "fixed-width-zstd-blocks",
            "As before, in zstd frames. Places count the content of a domain only.",
            0,
            [zstd(&plain, 3, usize::MAX), zstd(&edited, 3, usize::MAX)],
        ),
    ] {
        let mut turns = Turns::new(kernels, name, story, params(100_003, 8000));
        turns.send(1, 0, &digits(103, 9)).send(0, 0, &before).send(1, 0, &before);
        let flags = FIXED | CONTEXT | TRANSCODED | FRESH | descriptors;
        turns.send(0, flags, &after).send(1, flags, &after);
        all.push(turns.vector);
    }

    let [a, b, c] = [text(104, 200), text(105, 200), text(106, 120)];
    let mut vector = Vector::new(
        "hand-fixed-width-of-8-bits",
        "The log has 256 bytes: positions of one byte, and the largest padding is stated in two.",
        Params { entropy: Entropy::None, contexts: 1, span: 0, ..params(256, 200) },
    );
    let from = |found: &[u8], distance: u8| [&[1, 0, distance], &[found.len() as u8][..]].concat();
    let hand = |block: &[u8], offset, descriptors: Vec<u8>, literals: &[u8]| Hand {
        flags: if descriptors.is_empty() { 0 } else { PLAIN },
        descriptors,
        literals: literals.to_vec(),
        ..Hand::raw(offset, block)
    };
    let begun = [&b[..3], &c[..37]].concat();
    for (offset, padding, block, descriptors, literals) in [
        (0, 0, &a[..], vec![], &a[..]),
        (256, 56, &b, vec![], &b),
        (456, 0, &begun[..40], from(&begun[..3], 200), &begun[3..]),
        (512, 16, &c, from(&c[..37], 53), &c[37..]),
    ] {
        let frame = hand(block, offset, descriptors, literals).at(offset, padding, block);
        vector.frames.push(fixed(&frame, 8));
        vector.blocks.insert(offset, block.to_vec());
    }
    all.push(vector);

    let mut vector = Vector::new(
        "hand-fixed-width-of-1-bit",
        "The log has one byte, of which positions would have no bit; they have one.",
        Params { entropy: Entropy::None, contexts: 1, ..params(1, 1) },
    );
    for (offset, block) in [(0, b"a"), (1, b"b"), (2, b"b")] {
        vector.frames.push(fixed(&Hand::raw(offset, block).at(offset, 0, block), 1));
        vector.blocks.insert(offset, block.to_vec());
    }
    all.push(vector);
    all
}

/// Coded descriptors of one match of the whole block, at distance 16 with step symbol 7.
fn step_7() -> Vec<u8> {
    let mut symbols = Symbols::default();
    symbols.number("count", 0);
    symbols.number("gap[0]", 0);
    symbols.put("step[0]", 7);
    symbols.put("to_end", 1);
    // Ten even bits: 15, from the last byte on.
    [symbols.finish(), vec![0, 15]].concat()
}

// More than 100 lines: a table of cases.
pub(crate) fn bad() -> Vec<Vector> {
    let params = Params { span: 0, contexts: 1, entropy: Entropy::None, ..params(1000, 300) };
    let first = text(107, 300);
    let block = first[100..200].to_vec();
    let raw = Hand::raw(300, &block);
    let plain = Hand { flags: PLAIN, descriptors: one(0, 200, 100), ..raw.clone() };
    let plain = Hand { literals: Vec::new(), ..plain };
    let make = |name, error, story, frame: Vec<u8>| {
        let mut vector = Vector::new(name, story, params.clone());
        vector.frames.extend([Hand::raw(0, &first).write(), frame]);
        vector.blocks.insert(0, first.clone());
        vector.error = Some(error);
        vector
    };
    let with = |descriptors: Vec<u8>| fixed(&Hand { descriptors, ..plain.clone() }, 10);
    let short = |len: usize| {
        let whole = fixed(&raw.clone().at(300, 0, &block), 10);
        [&[whole[0], 8 + len as u8], &whole[2..][..len], &[1; 8]].concat()
    };
    let coded = Hand {
        flags: CODED | FRESH,
        hull: (16, 0),
        descriptors: step_7(),
        literals: Vec::new(),
        block_len: 16,
        checksum: ChecksumSeed::default().checksum(300, 0, &first[284..]),
        ..Hand::default()
    };
    // The frames that the others differ from are good.
    let is_good = |frame: Vec<u8>| {
        let mut decoder = params.decoder();
        decoder.decode(&Hand::raw(0, &first).write()).unwrap();
        assert!(matches!(decoder.decode(&frame), Ok(oncewire_codec::Decoded::Block { .. })));
    };
    is_good(fixed(&plain, 10));
    is_good(fixed(&coded, 10));
    vec![
        make("fixed-width-0", "error Field", "Positions without a bit.", fixed(&plain, 0)),
        make(
            "fixed-width-41",
            "error Field",
            "Positions of more bits than any log needs.",
            fixed(&plain, 41),
        ),
        make(
            "fixed-width-9",
            "error Field",
            "Positions of 9 bits, where the log has 1,000 bytes: they have 10.",
            fixed(&plain, 9),
        ),
        make("fixed-width-11", "error Field", "Positions of a bit too many.", fixed(&plain, 11)),
        make(
            "fixed-width-missing",
            "error Field",
            "A frame that says that it has fixed widths, but not how wide: its first literal is taken for that.",
            Hand { flags: FIXED, ..raw.clone() }.write(),
        ),
        make(
            "fixed-width-offset-cut",
            "error Short",
            "The body ends inside the offset, which has 8 bytes.",
            short(2 + 7),
        ),
        make(
            "fixed-width-padding-cut",
            "error Short",
            "The body ends inside the padding, which has 2 bytes.",
            short(2 + 8 + 1),
        ),
        make(
            "fixed-width-padding",
            "error Offset",
            "Padding of 256 bytes before a block that does not begin a lap.",
            fixed(&raw.clone().at(300, 256, &block), 10),
        ),
        make(
            "fixed-width-distance-cut",
            "error Short",
            "A distance of one byte instead of two, and no length.",
            with(vec![1, 0, 200, 0]),
        ),
        make(
            "fixed-width-distance-0",
            "error Field",
            "The distance of the match before, and there is none.",
            with(one(0, 0, 100)),
        ),
        make(
            "fixed-width-distance-beyond-the-log",
            "error Reference",
            "A distance of 16 bits, which is more than there is.",
            with(one(0, 0xffff, 100)),
        ),
        make(
            "fixed-width-context",
            "error TooLarge",
            "Context 255, where there is one.",
            fixed(&Hand { flags: coded.flags | CONTEXT, context: 255, ..coded.clone() }, 10),
        ),
        make(
            "fixed-width-none-for-step-7",
            "error Field",
            "A distance of fixed width (step symbol 7) in a frame without such.",
            coded.write(),
        ),
        make(
            "fixed-width-bits-left-over",
            "error Field",
            "Ten even bits, and another one that is set.",
            {
                let mut descriptors = step_7();
                let at = descriptors.len() - 2;
                descriptors[at] = 4;
                fixed(&Hand { descriptors, ..coded.clone() }, 10)
            },
        ),
    ]
}

/// The first frame of a pack with a cache of 1,501 bytes, good but for its positions of 11 bits.
/// The block repeats its first byte.
pub(crate) fn in_a_pack(block: &[u8], session: u64) -> Vec<u8> {
    assert_eq!(block[0], block[1]);
    let literals = [&block[..1], &block[2..]].concat();
    let checksum = ChecksumSeed { session, epoch: 0 }.checksum(0, 0, block);
    let block_len = block.len() as u64;
    let descriptors = one(1, 1, 1);
    let hand = Hand { flags: PLAIN, block_len, descriptors, literals, checksum, ..Hand::default() };
    fixed(&hand, 11)
}
