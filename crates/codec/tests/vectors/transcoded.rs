//! Frames with transcoded literals.

use crate::Vector;
use crate::common::params::Params;
use crate::corners;
use crate::deflated::{deflate, gzip, interleaved, zstd};
use crate::hand::{FRESH, Hand, TRANSCODED, noise, text, varints};
use crate::symbols::Symbols;
use oncewire_codec::{Encoder, EncoderBuilder, Entropy};

fn params() -> Params {
    Params {
        cache: 100_003,
        max_block: 8000,
        entropy: Entropy::Coded { level: 1 },
        ..Params::default()
    }
}

fn builder(params: &Params) -> EncoderBuilder {
    params.encoder_builder().inside(true)
}

/// Versions of a text that a compressor sees.
fn versions() -> [Vec<u8>; 2] {
    let first = text(61, 24_000);
    let second = [&first[..7000], b"an insertion", &first[7000..19_000], &first[19_050..]].concat();
    [first, second]
}

/// One after the other, in blocks; the last frame must be transcoded.
fn encoded(
    name: &'static str,
    story: &'static str,
    params: Params,
    contents: &[Vec<u8>],
) -> Vector {
    let mut encoder: Encoder = builder(&params).build().unwrap();
    let mut vector = Vector::new(name, story, params.clone());
    for block in contents.iter().flat_map(|content| content.chunks(params.max_block)) {
        let offset = crate::common::place(params.cache, encoder.end(), block.len());
        let mut frame = Vec::new();
        encoder.encode_frame(block, 0).unwrap().append_to(&mut frame);
        vector.blocks.entry(offset).or_default().extend_from_slice(block);
        vector.frames.push(frame);
    }
    let last = vector.frames.last().unwrap();
    assert_eq!(last[0] & TRANSCODED, TRANSCODED, "{name}: flags of the last frame");
    vector
}

pub(crate) fn good() -> Vec<Vector> {
    let [first, second] = versions();
    let mut all = vec![
        encoded(
            "transcoded",
            "Two versions of a text, compressed: the second by tokens of the first.",
            params(),
            &[gzip(&first, 6), gzip(&second, 6)],
        ),
        encoded(
            "transcoded-many-codes",
            "As before, flushed every 1,000 bytes: a code for each block.",
            params(),
            &[&first, &second].map(|text| {
                [&b"\x1f\x8b\x08\0\0\0\0\0\0\x03"[..], &deflate(text, 9, 1000)].concat()
            }),
        ),
        encoded(
            "transcoded-zstd",
            "Behind text that the log does not have: the residual is compressed.",
            params(),
            &[gzip(&first[..20_000], 6), [text(62, 4000), gzip(&second[..20_000], 6)].concat()],
        ),
        encoded(
            "zstd-blocks",
            "Two versions of a text in zstd frames: the second by sequences of the first.",
            params(),
            &[&first, &second].map(|text| zstd(&text[..12_000], 3, usize::MAX)),
        ),
        encoded(
            "zstd-blocks-divided",
            "Two versions of two texts in zstd frames, in streams of HTTP/2 whose frames interleave.",
            params(),
            &[&first, &second].map(|text| {
                let bodies = [&text[..3000], &text[8000..11_000]];
                interleaved(&bodies.map(|text| zstd(text, 3, 3000)), 700, &[])
            }),
        ),
        encoded(
            "zstd-blocks-many",
            "As before, in blocks of 2,000 bytes, which use each other's tables.",
            params(),
            &[zstd(&first[..12_000], 19, 2000), zstd(&second[..12_000], 19, 2000)],
        ),
    ];
    let both = [gzip(&first, 6), gzip(&second, 6)];
    // Two lanes; the second one's content comes first.
    let params = Params { span: 25_000, contexts: 2, explicit: true, ..params() };
    let mut encoder = builder(&params).build().unwrap();
    let mut vector = Vector::new(
        "transcoded-missing",
        "A frame of another context arrives before the tokens that it needs.",
        params.clone(),
    );
    let mut lanes = [Vec::new(), Vec::new()];
    for (lane, content) in both.iter().enumerate() {
        for block in content.chunks(params.max_block) {
            let offset = encoder.end();
            let mut frame = Vec::new();
            encoder.encode_frame(block, lane).unwrap().append_to(&mut frame);
            vector.blocks.insert(offset, block.to_vec());
            lanes[lane].push(frame);
        }
    }
    let [first, second] = lanes;
    vector.frames = [second[0].clone()].into_iter().chain(first).chain(second).collect();
    all.push(vector);
    all.extend(bad_blocks().drain(..1));
    all.extend(work_on_tokens().into_iter().take(1));
    all.extend(work().into_iter().take(2));
    all.extend(corners::corners().into_iter().filter(|vector| vector.error.is_none()));
    all
}

/// A section: its sources as distance and length, the residual's field, operations, the residual.
fn section(sources: &[(u64, u64)], residual: u64, operations: &[u8], rest: &[u8]) -> Vec<u8> {
    let mut numbers = vec![sources.len() as u64 * 2];
    numbers.extend(sources.iter().flat_map(|&(distance, len)| [distance, len]));
    numbers.extend([residual, operations.len() as u64]);
    [varints(&numbers), operations.to_vec(), rest.to_vec()].concat()
}

/// A section with one source, a zstd block, and a residual of these columns, not compressed.
fn blocks(sources: &[(u64, u64)], columns: [&[u8]; 6]) -> Vec<u8> {
    let lens: Vec<u64> = columns[..5].iter().map(|column| column.len() as u64).collect();
    let residual = [varints(&lens), columns.concat()].concat();
    let mut head = vec![sources.len() as u64 * 2 + 1];
    head.extend(sources.iter().flat_map(|&(distance, len)| [distance, len]));
    head.extend([residual.len() as u64 * 2, 0]);
    [varints(&head), residual].concat()
}

/// What the log begins with below: a zstd block of ten raw literals.
const RAW: [u8; 12] = [80, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 0];

// More than 100 lines: a table of cases.
fn bad_blocks() -> Vec<Vector> {
    let params = Params { cache: 1000, max_block: 300, entropy: Entropy::None, ..params() };
    let first = [&RAW[..], &noise(67, 288)].concat();
    // The same block, and noise.
    let block = [&RAW[..], &noise(68, 50)].concat();
    let bytes = [&[80, 0], &block[1..11], &block[12..]].concat();
    let make = |name, error: Option<&'static str>, story, section: Vec<u8>| {
        let mut vector = Vector::new(name, story, params.clone());
        vector.frames.push(Hand::raw(0, &first).write());
        vector.blocks.insert(0, first.clone());
        let hand = Hand { flags: TRANSCODED | FRESH, literals: section, ..Hand::raw(300, &block) };
        vector.frames.push(hand.write());
        if error.is_none() {
            vector.blocks.insert(300, block.clone());
        }
        vector.error = error;
        vector
    };
    // The source is read; no shifts; no bytes, tables of the block before, nothing is left out, the
    // same place, no known literals.
    let good: &[u8] = &[1, 0, 0, 0, 0, 0, 0, 0];
    let changed = |at: usize, byte: u8| {
        let mut control = good.to_vec();
        control[at] = byte;
        control
    };
    let of = |control: &[u8]| blocks(&[(300, 12)], [control, &[], &[], &[], &[], &bytes]);
    let none = Some("error Literals");
    vec![
        make("zstd-blocks-by-hand", None, "A block of raw literals, put together.", of(good)),
        make("zstd-blocks-kind", none, "A source of kind 5.", of(&changed(0, 5))),
        make(
            "zstd-blocks-no-block",
            none,
            "A source that is no zstd block.",
            blocks(&[(299, 12)], [good, &[], &[], &[], &[], &bytes]),
        ),
        make(
            "zstd-blocks-shifts",
            none,
            "Shifts that do not ascend.",
            of(&[1, 0, 2, 2, 2, 0, 2, 0, 0, 0, 0, 0]),
        ),
        make(
            "zstd-blocks-tables",
            none,
            "Tables behind a source that there is not.",
            of(&changed(4, 2)),
        ),
        make("zstd-blocks-skip-all", none, "Nothing of a block is left.", of(&changed(5, 24))),
        make(
            "zstd-blocks-literals",
            none,
            "Literals from behind a sequence that there is not.",
            of(&changed(7, 1)),
        ),
        make(
            "zstd-blocks-too-much",
            none,
            "More bytes before a block than there are literals.",
            of(&changed(3, 126)),
        ),
        make(
            "zstd-blocks-step",
            none,
            "A step of 2^44.",
            of(&[1, 0, 0, 0, 0, 0, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x08, 0]),
        ),
        make(
            "zstd-blocks-left-over",
            none,
            "A change for no sequence.",
            blocks(&[(300, 12)], [good, &[], &[], &[], &[0], &bytes]),
        ),
        make(
            "zstd-blocks-cut",
            none,
            "Columns that are longer than the residual.",
            [varints(&[3, 300, 12, 10, 0]), varints(&[9, 9, 9, 9, 9])].concat(),
        ),
        make(
            "zstd-blocks-no-table",
            none,
            "A block of one sequence, whose tables are those of no block.",
            blocks(
                &[(300, 12)],
                [
                    &[&good[..7], &[1, 0]].concat(),
                    &[0],
                    &[0],
                    &[4],
                    &[],
                    &[&[80, 1, 0xfc], &bytes[2..]].concat(),
                ],
            ),
        ),
    ]
}

/// As [`work`], of deflate tokens: those of a run, bends, and tokens that are skipped.
fn work_on_tokens() -> [Vector; 2] {
    let params = Params { cache: 1000, max_block: 300, entropy: Entropy::None, ..params() };
    // The letter `a` in the fixed code.
    let letter = (0x30 + b'a').reverse_bits();
    let (first, block) = (vec![letter; 300], vec![letter; 100]);
    let make = |name, story, run: usize| {
        let mut symbols = Symbols::default();
        // A part in the fixed code; a jump to the beginning of the source.
        symbols.put("operation[4]", 4);
        symbols.put("code[1]", 0);
        symbols.number("copied", 0);
        symbols.put("operation[4]", 2);
        symbols.number("before[1]", 0);
        symbols.put("code[0]", 0);
        symbols.put("back", 0);
        symbols.number("forward", 0);
        symbols.number("run[2]", run);
        // 80 bends with a token each; 12 times a token behind some that are skipped.
        for nth in 0..80 {
            symbols.put(if nth == 0 { "operation[2]" } else { "operation[3]" }, 3);
            symbols.put("bend", 0);
            symbols.number("farther", 0);
            symbols.number("behind", 0);
            symbols.number("run[3]", 1);
        }
        for nth in 0..12 {
            symbols.put(if nth == 0 { "operation[3]" } else { "operation[1]" }, 1);
            symbols.number("before[0]", 0);
            symbols.put("skip", if nth == 0 { 14 } else { 15 });
            symbols.number("run[1]", 1);
        }
        symbols.put("operation[1]", 5);
        let rest = &block[run + 80 + 12..];
        let literals = section(&[(300, 300)], rest.len() as u64 * 2, &symbols.finish(), rest);
        let mut vector = Vector::new(name, story, params.clone());
        vector.frames.push(Hand::raw(0, &first).write());
        vector.blocks.insert(0, first.clone());
        let hand = Hand { flags: TRANSCODED | FRESH, literals, ..Hand::raw(300, &block) };
        vector.frames.push(hand.write());
        if run == 4 {
            vector.blocks.insert(300, block.clone());
        } else {
            vector.error = Some("error TooLarge");
        }
        vector
    };
    // A source and 95 operations take 1,536 units, 92 tokens among bends 368, and 179 tokens that
    // are skipped 716.
    assert_eq!(16 + 95 * 16 + 92 * 4 + 179 * 4 + 4, 1024 + 16 * block.len());
    [
        make("transcoded-work", "As much work as a block of 100 bytes may take: 2,624.", 4),
        make("transcoded-work-too-much", "A token more than that.", 5),
    ]
}

/// A frame whose work is as much as it may be, and one with a unit more.
fn work() -> [Vector; 4] {
    let params = Params { cache: 1000, max_block: 300, entropy: Entropy::None, ..params() };
    // A zstd block of repeated literals and a sequence, in tables of one symbol each.
    let block_of = |literals: usize, packed: &[u8]| {
        let head = &(0x0d | (literals as u32) << 4).to_le_bytes()[..3];
        [head, packed, &[1, 0x54, 0, 0, 0]].concat()
    };
    // A source, a block, and twice three tables and a sequence take 430 units.
    let rest = noise(70, 50);
    let limit = 1024 + 16 * (10 + rest.len());
    // In two pieces, 17 more: a source, and a unit for ten bytes.
    let literals_of = |pieces: usize| (limit - if pieces == 1 { 430 } else { 447 }) / 2;
    let make = |name, story, pieces: usize, more: usize, is_good: bool| {
        let literals = literals_of(pieces);
        let source = [&block_of(literals, b"a")[..], &[1]].concat();
        let first = [&source[..], &noise(69, 290)].concat();
        let block = [&block_of(literals + more, b"a")[..], &[1], &rest].concat();
        // No gap, a run of one sequence, and the literals behind it.
        let control = varints(&[1, 0, 0, 0, 0, 0, 0, 0, 1, 0, literals as u64]);
        let bytes = [&block_of(literals + more, &[])[..], &b"aa"[..more], &rest].concat();
        let mut vector = Vector::new(name, story, params.clone());
        vector.frames.push(Hand::raw(0, &first).write());
        vector.blocks.insert(0, first.clone());
        let literals = if pieces == 1 {
            blocks(&[(300, 10)], [&control, &[], &[], &[], &[1], &bytes])
        } else {
            let control = [&[4], &control[..]].concat();
            blocks(&[(300, 4), (296, 6)], [&control, &[], &[], &[], &[1], &bytes])
        };
        let hand = Hand { flags: TRANSCODED | FRESH, literals, ..Hand::raw(300, &block) };
        vector.frames.push(hand.write());
        if is_good {
            vector.blocks.insert(300, block);
        } else {
            vector.error = Some("error TooLarge");
        }
        vector
    };
    [
        make(
            "zstd-blocks-work",
            "As much work as a block of 60 bytes may take: 1,984.",
            1,
            0,
            true,
        ),
        make("zstd-blocks-pieces-work", "As much work, with a source in two pieces.", 2, 1, true),
        make("zstd-blocks-work-too-much", "A literal more than that.", 1, 1, false),
        make("zstd-blocks-pieces-work-too-much", "A literal more than that.", 2, 2, false),
    ]
}

pub(crate) fn bad() -> Vec<Vector> {
    let mut all = bad_tokens();
    all.extend(work_on_tokens().into_iter().skip(1));
    all.extend(work().into_iter().skip(2));
    all.extend(bad_blocks().split_off(1));
    all.extend(corners::corners().into_iter().filter(|vector| vector.error.is_some()));
    all
}

// More than 100 lines: a table of cases.
fn bad_tokens() -> Vec<Vector> {
    let params = Params { cache: 1000, max_block: 300, entropy: Entropy::None, ..params() };
    let first = noise(65, 300);
    let block = noise(66, 100);
    // The end alone: the literals are the residual. Symbol 5 of an even model, from state 2^16.
    let end: &[u8] = &[0, 0x28, 0x10, 0];
    let make = |name, error, story, literals: Vec<u8>| {
        let mut vector = Vector::new(name, story, params.clone());
        vector.frames.push(Hand::raw(0, &first).write());
        vector.blocks.insert(0, first.clone());
        let hand = Hand { flags: TRANSCODED | FRESH, literals, ..Hand::raw(300, &block) };
        vector.frames.push(hand.write());
        vector.error = Some(error);
        vector
    };
    let whole = section(&[(200, 50)], 200, end, &block);
    let mut harmed = block.clone();
    harmed[50] ^= 1;
    vec![
        make(
            "transcoded-sources-too-many",
            "error TooLarge",
            "257 sources.",
            section(&[(200, 1); 257][..100], 200, end, &block)
                .iter()
                .copied()
                .enumerate()
                .flat_map(|(i, byte)| if i == 0 { vec![0x82, 0x04] } else { vec![byte] })
                .collect(),
        ),
        make(
            "transcoded-source-empty",
            "error Reference",
            "A source of no bytes.",
            section(&[(200, 0)], 200, end, &block),
        ),
        make(
            "transcoded-source-in-the-block",
            "error Reference",
            "A source that reaches into the block.",
            section(&[(200, 201)], 200, end, &block),
        ),
        make(
            "transcoded-source-before-the-log",
            "error Reference",
            "A source before the beginning.",
            section(&[(301, 10)], 200, end, &block),
        ),
        make(
            "transcoded-residual-too-long",
            "error TooLarge",
            "A residual of more than twice the block and 8 bytes.",
            section(&[(200, 50)], 2 * 609, end, &block),
        ),
        make(
            "transcoded-residual-short",
            "error Sum",
            "A residual with fewer bytes than it says.",
            section(&[(200, 50)], 200, end, &block[1..]),
        ),
        make(
            "transcoded-residual-left-over",
            "error Literals",
            "A residual with more bytes than the operations take.",
            section(&[(200, 50)], 202, end, &[&block[..], &[0]].concat()),
        ),
        make(
            "transcoded-operations-short",
            "error Short",
            "Operations that end inside their state.",
            section(&[(200, 50)], 200, &end[..3], &block),
        ),
        make(
            "transcoded-operations-left-over",
            "error Excess",
            "Bytes behind the last operation.",
            section(&[(200, 50)], 200, &[end, &[0, 0]].concat(), &block),
        ),
        make(
            "transcoded-no-operation",
            "error Field",
            "Operation 6 does not exist.",
            section(&[(200, 50)], 200, &[0, 0x30, 0x10, 0], &block),
        ),
        make(
            "transcoded-no-code",
            "error Literals",
            "The first operation, *near*, has no code.",
            section(&[(200, 50)], 200, &[0, 0x08, 0x10, 0, 0, 0, 0, 0, 0, 0], &block),
        ),
        make(
            "transcoded-cut",
            "error Short",
            "A section that ends before its operations do.",
            whole[..6].to_vec(),
        ),
        make(
            "transcoded-checksum",
            "error Checksum",
            "Good operations, and a residual with a bit changed.",
            section(&[(200, 50)], 200, end, &harmed),
        ),
    ]
}
