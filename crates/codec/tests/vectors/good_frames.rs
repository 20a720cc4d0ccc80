//! Frames that every decoder must decode.
//!
//! One file, because it is a list.

use crate::common::params::Params;
use crate::hand::{
    CODED, CONTEXT, FRESH, Hand, LITERALS, LZ4, OFFSET, PLAIN, digits, noise, plainly_coded, run,
    text, varints,
};
use crate::{Maker, Vector};
use oncewire_codec::{CachePolicy, ChecksumSeed, Entropy, Kernels};
use oncewire_family::chunk::ChunkForm;
use oncewire_family::{MatcherKind, SamplerKind};

const LEVEL_1: Entropy = Entropy::Coded { level: 1 };

fn params(cache: u64, max_block: usize, entropy: Entropy) -> Params {
    Params { cache, max_block, entropy, ..Params::default() }
}

/// All of them.
pub(crate) fn all(kernels: Kernels) -> Vec<Vector> {
    let mut all = encoded(kernels);
    all.extend(family(kernels));
    all.push(wide_hull(kernels));
    all.push(no_hull(kernels));
    all.extend(by_hand());
    all.extend(crate::transcoded::good());
    all.extend(crate::fixed::good(kernels));
    all.extend(crate::columns::good());
    all
}

// More than 100 lines: a table of cases.
fn encoded(kernels: Kernels) -> Vec<Vector> {
    let mut all = Vec::new();
    let mut make = |name, story, params: Params, fill: &dyn Fn(&mut Maker)| {
        let mut maker = Maker::new(kernels, name, story, params);
        fill(&mut maker);
        all.push(maker.vector);
    };
    let none = Entropy::None;

    make(
        "one-byte-log",
        "A log of one byte, blocks of one byte and of none: every block ends a lap.",
        params(1, 1, none),
        &|m| {
            for block in [&b""[..], b"a", b"", b"b", b"b"] {
                m.block(0, 0, block);
            }
        },
    );
    make(
        "raw",
        "Content that cannot be reduced goes as it is, in blocks of 1,500 bytes down to none.",
        params(5003, 1500, none),
        &|m| {
            for (seed, len) in [1500, 40, 1, 0, 1499, 1500].into_iter().enumerate() {
                m.block(0, 0, &noise(seed as u64, len));
            }
        },
    );
    make(
        "laid-out",
        "Nine blocks of 100 bytes, 100 bytes of padding, and a block of 150: the frames of refused.txt come after it.",
        Params { span: 250, contexts: 2, ..params(1000, 200, none) },
        &|m| {
            for (seed, len) in [100; 9].into_iter().chain([150]).enumerate() {
                m.block(0, 0, &noise(seed as u64, len));
            }
        },
    );
    make(
        "the-largest-block",
        "Blocks of exactly 65,536 bytes, all zeros, in a log of two blocks less one byte: a match that overlaps itself.",
        params(131_071, 65_536, none),
        &|m| {
            m.block(PLAIN, 0, &run(b"\0", 65_536)).block(PLAIN, 0, &run(b"\0", 65_536)).block(
                PLAIN,
                0,
                &run(b"\0", 65_535),
            );
        },
    );
    make(
        "overlaps",
        "Runs with periods of 1, 2, 3 and 7 bytes: sources that overlap their matches.",
        params(4099, 600, none),
        &|m| {
            for unit in [&b" "[..], b"to", b"set", b"is this"] {
                m.block(PLAIN, 0, &run(unit, 600));
            }
        },
    );
    make(
        "plain-descriptors",
        "Several matches in a block, at the same and at other distances, with literals before, between and behind them.",
        Params { window: 16, period: 4, ..params(9001, 3000, none) },
        &|m| {
            let base = digits(1, 2500);
            m.block(0, 0, &base);
            let mixed = [
                &b"before"[..],
                &base[100..400],
                b"-",
                &base[401..800],
                b"other",
                &base[1700..2100],
                &base[900..1300],
                b"behind",
            ];
            m.block(PLAIN, 0, &mixed.concat()).block(PLAIN, 0, &base[1..]).block(
                PLAIN,
                0,
                &[b"!", &base[..2400]].concat(),
            );
        },
    );
    make(
        "the-oldest-byte",
        "Four blocks fill the log exactly; each later block repeats the oldest one that it may refer to, byte for byte to the edge.",
        Params { window: 12, period: 4, ..params(1000, 250, none) },
        &|m| {
            for i in 0..9 {
                m.block(if i < 3 { 0 } else { PLAIN }, 0, &digits(40 + i % 3, 250));
            }
        },
    );
    for (name, explicit) in [("padding", false), ("padding-stated", true)] {
        let story = "A log of 1,009 bytes and blocks of 260: each lap ends with 229 bytes of padding, and blocks refer to \
                     the lap before, the first of a lap to the lowest offset that it may.";
        let params = Params { explicit, window: 16, period: 4, ..params(1009, 300, none) };
        make(name, story, params, &|m| {
            let flag = if explicit { OFFSET } else { 0 };
            for i in 0..9u64 {
                m.block(flag | if i < 2 { 0 } else { PLAIN }, 0, &text(60 + i % 2, 260));
            }
        });
    }
    make(
        "lz4",
        "Literals by LZ4, each frame on its own, with matches, without, and noise that it leaves alone.",
        params(7001, 2000, Entropy::Lz4),
        &|m| {
            let base = text(7, 1500);
            m.block(LZ4, 0, &base).block(
                LZ4 | PLAIN,
                0,
                &[&text(8, 400), &base[300..1300]].concat(),
            );
            m.block(0, 0, &noise(7, 450)).block(PLAIN, 0, &noise(7, 450)).block(
                LZ4,
                0,
                &text(9, 2000),
            );
        },
    );
    make(
        "literals",
        "Coded literals repeat those of all frames of a context; frames without them in between do not touch it.",
        params(20_011, 2000, LEVEL_1),
        &|m| {
            let base = text(11, 1800);
            m.block(LITERALS | FRESH, 0, &base).block(LITERALS, 0, &text(12, 1700)).block(
                0,
                0,
                &noise(11, 700),
            );
            m.block(LITERALS | PLAIN, 0, &[&text(13, 300), &base[200..1500]].concat())
                .block(PLAIN, 0, &base[210..1500])
                .block(LITERALS, 0, &text(14, 90));
        },
    );
    for (name, level) in [("literals-level-2", 2), ("literals-level-3", 3)] {
        let story = "Other compression levels change what an encoder writes and nothing else.";
        make(name, story, params(50_021, 5000, Entropy::Coded { level }), &|m| {
            m.block(LITERALS | FRESH, 0, &text(15, 5000)).block(LITERALS, 0, &text(16, 3000));
        });
    }
    make(
        "coded-descriptors",
        "Descriptors coded by adaptive models that go on from frame to frame: the same distance, near ones up and down, far ones, and \
         multiples of 512, near and far.",
        Params { window: 16, period: 4, ..params(60_013, 6000, LEVEL_1) },
        &|m| {
            let base = digits(17, 6000);
            m.block(LITERALS | FRESH, 0, &base);
            // A byte changed here and there keeps the distance. Inserted and removed bytes give
            // nearby distances.
            let mut edited = base.clone();
            edited.iter_mut().skip(300).step_by(457).for_each(|byte| *byte ^= 1);
            m.block(CODED, 0, &edited);
            let shifted: Vec<u8> = base
                .chunks(350)
                .enumerate()
                .flat_map(|(i, part)| [&noise(i as u64, i % 4), &part[i % 3..]].concat())
                .collect();
            m.block(CODED | LITERALS, 0, &shifted[..5900]);
            // In pieces of 512 bytes, in two orders: all distances are multiples of it.
            let pieces = |of: &[u8], order: [usize; 8]| {
                order.map(|i| of[i * 512..(i + 1) * 512].to_vec()).concat()
            };
            let gap = 512 - m.end() as usize % 512;
            m.block(0, 0, &digits(18, gap));
            let first = pieces(&base, [7, 2, 9, 3, 4, 1, 10, 6]);
            let second = pieces(&first, [3, 0, 5, 1, 7, 2, 6, 4]);
            m.block(CODED, 0, &first).block(CODED, 0, &second).block(
                CODED,
                0,
                &pieces(&second, [6, 4, 2, 0, 7, 5, 3, 1]),
            );
        },
    );
    make(
        "contexts",
        "Four contexts in turn, each with its own stream and models; the third is begun anew on the way. All frames state their offsets.",
        Params {
            contexts: 4,
            explicit: true,
            window: 16,
            period: 8,
            ..params(30_011, 1500, LEVEL_1)
        },
        &|m| {
            let parts: Vec<Vec<u8>> = (0..4).map(|i| digits(20 + i, 1200)).collect();
            for (context, part) in parts.iter().enumerate() {
                m.block(
                    OFFSET | LITERALS | FRESH | if context > 0 { CONTEXT } else { 0 },
                    context,
                    part,
                );
            }
            for context in 0..4usize {
                if context == 2 {
                    m.encoder.reset_context(2).unwrap();
                }
                let mixed: Vec<u8> = (0..4)
                    .flat_map(|i| {
                        [
                            &parts[(context + i) % 4][i * 100..i * 100 + 250],
                            &digits(30 + (4 * context + i) as u64, 40),
                        ]
                        .concat()
                    })
                    .collect();
                let id = if context > 0 { CONTEXT } else { 0 };
                m.block(
                    OFFSET | CODED | LITERALS | id | if context == 2 { FRESH } else { 0 },
                    context,
                    &mixed,
                );
            }
        },
    );
    make(
        "keyed-checksums",
        "Checksums of session 0x0123456789abcdef and epoch 77.",
        Params {
            seed: ChecksumSeed { session: 0x0123_4567_89ab_cdef, epoch: 77 },
            ..params(3001, 1000, none)
        },
        &|m| {
            m.block(0, 0, &text(33, 900)).block(PLAIN, 0, &text(33, 1000)).block(0, 0, b"");
        },
    );
    make(
        "primed",
        "Both ends were given 1,500 bytes in blocks of at most 700 before the first frame.",
        Params { window: 16, period: 8, ..params(2003, 700, none) },
        &|m| {
            let base = text(35, 1500);
            m.prime(&base).block(PLAIN, 0, &base[820..1500]).block(PLAIN, 0, &base[720..1400]);
        },
    );
    make(
        "fixed-sampler",
        "Markers at fixed positions, the smallest window and period.",
        Params { sampler: SamplerKind::Fixed, window: 12, period: 4, ..params(3037, 800, none) },
        &|m| {
            let base = noise(37, 400);
            m.block(0, 0, &base).block(PLAIN, 0, &[&base[4..100], b"....", &base[200..]].concat());
        },
    );
    make(
        "widest-window",
        "A window of 64 bytes and a period of 1,024: few markers, long matches.",
        Params { window: 64, period: 1024, ..params(40_009, 9000, none) },
        &|m| {
            let base = text(39, 9000);
            m.block(0, 0, &base).block(PLAIN, 0, &base);
        },
    );
    make(
        "columns",
        "Descriptors of many matches, in columns: changes of the distance by one byte and by two, distances of two and three bytes, long \
         gaps and lengths.",
        Params { window: 16, period: 4, ..params(400_031, 20_000, LEVEL_1) },
        &|m| {
            let base = digits(21, 8000);
            m.block(LITERALS | FRESH, 0, &base);
            let mut edited = base.clone();
            edited.iter_mut().skip(30).step_by(97).for_each(|byte| *byte = b'-');
            m.block(CODED | LITERALS, 0, &edited);
            // Pieces come closer and go farther away, by little and by much.
            let pieces = |step: usize| -> Vec<u8> {
                let piece = |i: usize| {
                    let at = i * step % 7800;
                    [&base[at..at + 20 + i % 70 * 7 % 90], &noise(i as u64, i % 5)].concat()
                };
                (0..150).flat_map(piece).take(7900).collect()
            };
            m.block(CODED | LITERALS, 0, &pieces(83));
            for byte in [b"a", b"b", b"c", b"d"] {
                m.block(PLAIN, 0, &run(byte, 20_000));
            }
            m.block(CODED | LITERALS, 0, &pieces(7919));
            m.block(
                CODED | LITERALS,
                0,
                &[&noise(26, 300), &pieces(61)[..5000], &base[..3000]].concat(),
            );
        },
    );
    make(
        "large-blocks",
        "Blocks of 65,536 bytes with much in common, literals and descriptors coded.",
        params(200_003, 65_536, Entropy::Coded { level: 3 }),
        &|m| {
            let old = [text(41, 20_000), run(b" and so on", 30_000), text(42, 15_536)].concat();
            let mut new = old.clone();
            new.iter_mut().step_by(2111).for_each(|byte| *byte = b'#');
            m.block(PLAIN | LITERALS | FRESH, 0, &old).block(CODED | LITERALS, 0, &new);
        },
    );
    make(
        "out-of-order",
        "Blocks 0 to 4 on three lanes arrive as 2, 1, 2, 0, 2, 4, 3, 4: some must wait for exactly the ranges that they miss.",
        Params {
            span: 5000,
            contexts: 3,
            explicit: true,
            window: 16,
            period: 8,
            ..params(20_021, 1500, LEVEL_1)
        },
        &|m| {
            let (a, b, d) = (digits(51, 1000), digits(52, 1000), digits(53, 600));
            m.block(OFFSET | LITERALS | FRESH, 0, &a).block(
                OFFSET | LITERALS | FRESH | CONTEXT,
                1,
                &b,
            );
            let c = [
                &digits(54, 60),
                &a[100..400],
                &b[50..350],
                &a[500..900],
                &digits(55, 60),
                &b[500..800],
            ]
            .concat();
            m.block(OFFSET | CODED | LITERALS | FRESH | CONTEXT, 2, &c);
            m.block(OFFSET | LITERALS, 0, &d);
            m.block(OFFSET | PLAIN, 1, &[&b"x"[..], &d[..500], b"y"].concat());
            let sent = std::mem::take(&mut m.vector.frames);
            m.vector.frames = [2, 1, 2, 0, 2, 4, 3, 4].map(|i: usize| sent[i].clone()).to_vec();
        },
    );
    make(
        "repairs",
        "Frames replaced by repairs: literal, with offset and padding, whatever the frame was that they stand for.",
        Params { explicit: true, window: 16, period: 8, ..params(1009, 300, LEVEL_1) },
        &|m| {
            for i in 0..3 {
                m.block(
                    OFFSET | LITERALS | if i == 0 { FRESH } else { 0 },
                    0,
                    &digits(57 + i, 270),
                );
            }
            m.block(OFFSET | PLAIN, 0, &digits(58, 270));
            // The second and the fourth, which starts a generation, never arrive.
            for (index, offset) in [(1, 270), (3, 1009)] {
                let mut repair = Vec::new();
                m.encoder.repair(offset, 270, &mut repair).unwrap();
                m.vector.frames[index] = repair;
            }
            // Frames that continue the context also arrive as repairs, since a stream that misses a
            // frame cannot continue.
            let mut repair = Vec::new();
            m.encoder.repair(540, 270, &mut repair).unwrap();
            m.vector.frames[2] = repair;
        },
    );
    all
}

/// Other matchers, whose frames look like all others, and cache policies, which a decoder must
/// know.
// More than 100 lines: a table of cases.
fn family(kernels: Kernels) -> Vec<Vector> {
    let mut all = Vec::new();
    let mut make = |name, story, params: Params, fill: &dyn Fn(&mut Maker)| {
        let mut maker = Maker::new(kernels, name, story, params);
        fill(&mut maker);
        all.push(maker.vector);
    };
    let none = Entropy::None;
    let old = digits(101, 1800);
    let edited = [
        &old[700..1300],
        b"-",
        &old[90..400],
        b"+-",
        &old[400..650],
        &digits(102, 50),
        &old[1500..],
    ]
    .concat();

    for (name, max_fingerprints) in
        [("published-matcher", None), ("published-matcher-two-fingerprints", Some(2))]
    {
        let story = "Max-match as published, with all fingerprints of a block or with so many.";
        let matcher = MatcherKind::Published { max_fingerprints };
        make(
            name,
            story,
            Params { matcher, window: 16, period: 8, ..params(4001, 2000, none) },
            &|m| {
                m.block(0, 0, &old).block(PLAIN, 0, &edited).block(PLAIN, 0, &edited[1..]);
            },
        );
    }
    for (name, form) in [
        ("chunks-from-markers", ChunkForm::StartsAtMarker),
        ("chunks-up-to-windows-ends", ChunkForm::EndsWithWindow),
    ] {
        let story = "Chunk-match: the first repeat comes before its source is acknowledged, the second after it; then a run in a block.";
        let matcher = MatcherKind::ChunkMatch { form };
        make(
            name,
            story,
            Params { matcher, window: 16, period: 64, ..params(9001, 2000, none) },
            &|m| {
                m.block(0, 0, &old).block(0, 0, &old);
                m.encoder.acknowledge(m.end());
                m.block(PLAIN, 0, &edited).block(PLAIN, 0, &run(b"0123456", 1500));
            },
        );
    }
    // New parts between old ones.
    let new = text(103, 400);
    let mixed: Vec<u8> =
        new.chunks(40).zip(old.chunks(125)).flat_map(|(new, old)| [new, old].concat()).collect();
    for (name, straddle) in [("new-runs", false), ("new-runs-and-joins", true)] {
        let story = "Only literals enter the log, so the new parts of the second block, shorter than a window, lie side by side. The third \
                     block repeats them, the fourth is known whole and keeps nothing, and the last begins a lap.";
        let policy = CachePolicy::NewRuns { straddle };
        make(
            name,
            story,
            Params { policy, window: 48, period: 8, ..params(4507, 1800, none) },
            &|m| {
                // Found if windows across joins are indexed.
                let repeat = if straddle { PLAIN } else { 0 };
                m.block(0, 0, &old)
                    .block(PLAIN, 0, &mixed)
                    .block(repeat, 0, &new)
                    .block(PLAIN, 0, &old)
                    .block(0, 0, b"");
                m.block(0, 0, &digits(104, 1400)).block(
                    PLAIN,
                    0,
                    &[&digits(107, 500), &old[1100..1700]].concat(),
                );
            },
        );
    }
    for (name, below_percent) in
        [("new-blocks-half", 50), ("new-blocks-any", 1), ("new-blocks-all", 100)]
    {
        let story = "Only blocks enter the log of which matches cover less than a share: one of two fifths, one of all, one of none.";
        let policy = CachePolicy::NewBlocks { below_percent };
        let entropy = Entropy::Coded { level: 1 };
        make(
            name,
            story,
            Params { policy, window: 16, period: 8, contexts: 2, ..params(3701, 1000, entropy) },
            &|m| {
                m.block(LITERALS | FRESH, 0, &old[..1000]);
                m.block(PLAIN | LITERALS, 0, &[&old[100..500], &digits(105, 600)].concat());
                m.block(PLAIN, 1, &old[1..1000]).block(
                    LITERALS | FRESH | CONTEXT,
                    1,
                    &text(106, 900),
                );
            },
        );
    }
    all
}

/// Valid frames that our encoder does not write.
// More than 100 lines: a table of cases.
fn by_hand() -> Vec<Vector> {
    let mut all = Vec::new();
    let mut add = |name, story, params: Params, frames: Vec<(u64, &[u8], Vec<u8>)>| {
        let mut vector = Vector::new(name, story, params);
        for (offset, block, frame) in frames {
            vector.blocks.entry(offset).or_default().extend_from_slice(block);
            vector.frames.push(frame);
        }
        all.push(vector);
    };
    let small = || params(1000, 300, Entropy::None);

    // At 0: "abcdefgh". At 8: a; then "bcd" from 1; then "dd" from one back; then "h" from 7; and
    // "z".
    let block = b"abcddddhz";
    add(
        "hand-short-matches",
        "Matches of one byte and more, one overlapping, one at the distance of the one before (0).",
        small(),
        vec![
            (0, b"abcdefgh", Hand::raw(0, b"abcdefgh").write()),
            (
                8,
                block,
                Hand::plain(8, block, &[4, 0, 8, 1, 0, 0, 3, 0, 1, 3, 0, 8, 1], b"z").write(),
            ),
        ],
    );
    add(
        "hand-match-of-all",
        "A block that is one match to its end (length 0), its literals none: raw, and an LZ4 block of nothing.",
        small(),
        vec![
            (0, b"once on the wire", Hand::raw(0, b"once on the wire").write()),
            (
                16,
                b"once on the wire",
                Hand::plain(16, b"once on the wire", &[1, 0, 16, 0], b"").write(),
            ),
            (32, b"on the wire", {
                let frame = Hand::plain(32, b"on the wire", &[1, 0, 27, 11], &[0]);
                Hand { flags: PLAIN | LZ4, ..frame }.write()
            }),
        ],
    );
    let (a, b) = (text(71, 200), text(72, 220));
    let fresh = |offset, block: &[u8], context| {
        let literals = plainly_coded(block);
        Hand { flags: LITERALS | FRESH | CONTEXT, context, literals, ..Hand::raw(offset, block) }
            .write()
    };
    add(
        "hand-fresh-every-time",
        "Context 255, begun anew by every frame.",
        Params { contexts: 256, ..small() },
        vec![
            (0, &a, fresh(0, &a, 255)),
            (200, &b, fresh(200, &b, 255)),
            (420, &a, fresh(420, &a, 1)),
        ],
    );
    let section = plainly_coded(&a);
    add(
        "hand-no-coded-literals",
        "The first two frames of a context have no literals, and say so.",
        small(),
        vec![
            (
                0,
                b"",
                Hand { flags: LITERALS | FRESH, literals: vec![0], ..Hand::raw(0, b"") }.write(),
            ),
            (0, b"", Hand { flags: LITERALS, literals: vec![0], ..Hand::raw(0, b"") }.write()),
            (0, &a, Hand { flags: LITERALS, literals: section, ..Hand::raw(0, &a) }.write()),
        ],
    );
    add(
        "hand-offset-stated-or-not",
        "The next block may state its offset or not, and be larger than the span; empty blocks too.",
        Params { span: 50, ..small() },
        vec![
            (0, &a, Hand::raw(0, &a).at(0, 0, &a).write()),
            (200, &b, Hand::raw(200, &b).write()),
            (420, b"", Hand::raw(420, b"").at(420, 0, b"").write()),
            (420, b"", Hand::raw(420, b"").write()),
            (420, &a, Hand::raw(420, &a).at(420, 0, &a).write()),
        ],
    );
    let (c, d, e, f) = (text(73, 300), text(74, 300), text(75, 250), text(79, 260));
    let tail = [&d[290..], &e[..240]].concat();
    add(
        "hand-end-of-a-lap",
        "After a lap of 300, 300 and 250 bytes and 150 of padding, a match from the last bytes before the padding, and one across \
         two blocks of that lap.",
        small(),
        vec![
            (0, &c, Hand::raw(0, &c).write()),
            (300, &d, Hand::raw(300, &d).write()),
            (600, &e, Hand::raw(600, &e).write()),
            (1000, &e, {
                let checksum = ChecksumSeed::default().checksum(1000, 150, &e);
                Hand { checksum, ..Hand::plain(1000, &e, &[1, 0, 400, 0], b"") }.write()
            }),
            (1250, &tail, Hand::plain(1250, &tail, &[1, 0, 660, 0], b"").write()),
        ],
    );
    // The log has 20 bytes. Its one-byte matches cost more than the bytes, and are sent anyway.
    let known = b"abcdefghijklmnopqrst";
    add(
        "hand-new-runs-dear-matches",
        "Literals only enter the log: of `a-t-` between matches of a byte each `--`, which the next block repeats.",
        Params { policy: CachePolicy::NewRuns { straddle: false }, ..small() },
        vec![
            (0, known, Hand::raw(0, known).write()),
            (20, b"a-t-", Hand::plain(20, b"a-t-", &[2, 0, 20, 1, 1, 3, 1], b"--").write()),
            (22, b"--!", Hand::plain(22, b"--!", &[1, 0, 2, 2], b"!").write()),
            (23, b"!!", Hand::plain(23, b"!!", &[2, 0, 1, 1, 0, 1, 1], b"").write()),
            (23, b"t!", Hand::plain(23, b"t!", &[2, 0, 4, 1, 0, 2, 1], b"").write()),
            (23, b"end", Hand::raw(23, b"end").write()),
        ],
    );
    add(
        "hand-new-blocks-nothing-kept-of-a-lap",
        "A block that begins a lap and of which nothing is kept: the padding before it is padding, and the next block goes to the same \
         offset without any.",
        Params { policy: CachePolicy::NewBlocks { below_percent: 50 }, ..small() },
        vec![
            (0, &c, Hand::raw(0, &c).write()),
            (300, &d, Hand::raw(300, &d).write()),
            (600, &e, Hand::raw(600, &e).write()),
            (1000, &e, {
                let checksum = ChecksumSeed::default().checksum(1000, 150, &e);
                Hand { checksum, ..Hand::plain(1000, &e, &[1, 0, 400, 0], b"") }.write()
            }),
            (1000, &f, Hand::raw(1000, &f).write()),
            (1260, &e, Hand::plain(1260, &e, &[1, 0, 660, 0], b"").write()),
        ],
    );
    let (hole, ahead) = (text(76, 100), text(77, 60));
    add(
        "hand-ahead-of-a-hole",
        "A block that starts a lap arrives before the last of the lap before; the padding between them is filled with it.",
        Params { span: 250, ..small() },
        vec![
            (0, &c, Hand::raw(0, &c).write()),
            (300, &d, Hand::raw(300, &d).write()),
            (600, &f, Hand::raw(600, &f).write()),
            (1000, &ahead, Hand::raw(1000, &ahead).at(1000, 40, &ahead).write()),
            (860, &hole, Hand::raw(860, &hole).at(860, 0, &hole).write()),
            (1060, &a, Hand::raw(1060, &a).write()),
        ],
    );
    all
}

/// An empty dependency range.
fn no_hull(kernels: Kernels) -> Vector {
    let params = Params { window: 16, period: 4, ..params(8009, 2000, LEVEL_1) };
    let story =
        "Coded descriptors of which all sources lie in the block itself: the hull is 0 and 0.";
    let mut maker = Maker::new(kernels, "hull-of-nothing", story, params);
    let once = digits(80, 500);
    maker.block(LITERALS | FRESH, 0, &digits(81, 1000));
    maker.block(
        CODED | LITERALS,
        0,
        &[&once[..], b"-", &once[100..400], b"+", &once[50..300], b"=", &once[200..]].concat(),
    );
    let vector = maker.vector;
    // Flags, two bytes of body length, two of block length, the hull's start and end.
    assert_eq!(vector.frames[1][5..7], [0, 0]);
    vector
}

/// A dependency range that is larger than necessary.
fn wide_hull(kernels: Kernels) -> Vector {
    let params = Params { window: 16, period: 4, ..params(8009, 2000, LEVEL_1) };
    let story =
        "The hull of coded descriptors is 128 bytes wider at its start than the matches are.";
    let mut maker = Maker::new(kernels, "hand-wide-hull", story, params);
    let base = digits(78, 1800);
    maker.block(LITERALS | FRESH, 0, &base);
    maker.block(
        CODED,
        0,
        &[&base[600..1200], b"-", &base[300..500], b"+", &base[900..1700], b"="].concat(),
    );
    let mut vector = maker.vector;
    vector.pinned = false;
    // Flags, body length, two bytes of block length, two of the hull's start: 1,500 back.
    assert_eq!(vector.frames[1][4..6], varints(&[1500]));
    vector.frames[1][5] += 1;
    vector
}
