//! Corrupt, truncated and foreign input: exit 3, one line, no wrong byte delivered, no file left.

use crate::support::*;
use oncewire_codec::Entropy;
use oncewire_codec::pack::{PackReader, PackStep};
use std::ops::Range;

const ENTROPIES: [Entropy; 3] = [Entropy::None, Entropy::Lz4, Entropy::DEFAULT];

/// Content that fits neither one block nor the cache.
fn content() -> Vec<u8> {
    versions(500_000)
}

/// On a pipe, `bad` unpacks to a prefix of `content`. Returns its length.
#[track_caller]
fn refused(bad: &[u8], content: &[u8], what: &str) -> usize {
    let ran = run(args!["unpack"], bad);
    assert_eq!(ran.code, Some(3), "{what}: {}", ran.err);
    let out = ran.fails(3, &["standard input"]);
    same(&out, &content[..out.len().min(content.len())], what);
    out.len()
}

#[test]
fn flipped_bits() {
    let content = content();
    for entropy in [Entropy::None, Entropy::DEFAULT] {
        let good = packed(&content, entropy);
        let mut random = Xoshiro::new(2, 0);
        // The header, the first frame's fields and the trailer are small, and every bit of them
        // matters.
        let fixed = (0..56).step_by(3).chain(good.len() - 17..good.len());
        let places: Vec<usize> =
            fixed.chain(std::iter::repeat_with(|| random.below(good.len())).take(40)).collect();
        let mut cut = 0;
        for at in places {
            let mut bad = good.clone();
            bad[at] ^= 1 << random.below(8);
            let what = format!("{entropy}, byte {at} of {}", good.len());
            // A changed reference may point to another copy of the same bytes, which is correct
            // output.
            let ran = run(args!["unpack"], &bad);
            if ran.code == Some(0) {
                same(&ran.fine(), &content, &what);
                continue;
            }
            cut += usize::from(refused(&bad, &content, &what) < content.len());
        }
        assert!(cut > 40, "only {cut} stopped early");
    }
}

#[test]
fn truncated() {
    let content = content();
    for entropy in ENTROPIES {
        let good = packed(&content, entropy);
        let mut random = Xoshiro::new(3, 0);
        let fixed = [
            0,
            1,
            7,
            8,
            9,
            10,
            37,
            38,
            39,
            good.len() - 18,
            good.len() - 17,
            good.len() - 16,
            good.len() - 1,
        ];
        for len in
            fixed.into_iter().chain(std::iter::repeat_with(|| random.below(good.len())).take(60))
        {
            refused(&good[..len], &content, &format!("{entropy}, {len} bytes of {}", good.len()));
        }
    }
}

/// Valid frames in the wrong place.
#[test]
fn frames_dropped_repeated_and_exchanged() {
    let content = content();
    for entropy in ENTROPIES {
        let good = packed(&content, entropy);
        let frames = frames(&good);
        let part = |i: usize| &good[frames[i].clone()];
        let (first, last) = (&good[..frames[0].start], &good[frames[frames.len() - 1].end..]);
        let join = |order: Vec<usize>| {
            [first, &order.into_iter().flat_map(part).copied().collect::<Vec<u8>>(), last].concat()
        };
        let all: Vec<usize> = (0..frames.len()).collect();
        same(&join(all.clone()), &good, "put together again");
        for i in 0..frames.len() - 1 {
            let dropped = all.iter().copied().filter(|&j| j != i).collect();
            let repeated =
                all.iter().flat_map(|&j| std::iter::repeat_n(j, 1 + usize::from(j == i))).collect();
            let mut exchanged = all.clone();
            exchanged.swap(i, i + 1);
            for (order, what) in
                [(dropped, "dropped"), (repeated, "repeated"), (exchanged, "exchanged")]
            {
                refused(&join(order), &content, &format!("{entropy}, frame {i} {what}"));
            }
        }
        // All frames but the last, and a trailer that fits the whole.
        refused(&join((0..frames.len() - 1).collect()), &content, "without the last frame");
    }
}

fn frames(pack: &[u8]) -> Vec<Range<usize>> {
    let (mut reader, mut at, mut frames) = (PackReader::new(u64::MAX), 0, Vec::new());
    loop {
        match reader.step(&pack[at..]).expect("a good pack") {
            PackStep::NeedMore(_) => panic!("a complete pack"),
            PackStep::Header { consumed } => at += consumed,
            PackStep::Block { consumed, .. } => {
                frames.push(at..at + consumed);
                at += consumed;
            }
            PackStep::End { .. } => return frames,
        }
    }
}

#[test]
fn no_file_is_left_behind() {
    let dir = Dir::new();
    let good = packed(&content(), Entropy::DEFAULT);
    let output = dir.join("output");
    let (mut random, mut refused) = (Xoshiro::new(4, 0), 0);
    for len in std::iter::repeat_with(|| random.below(good.len())).take(20) {
        let pack = dir.write("pack", &good[..len]);
        run(args!["unpack", pack, "-o", output], b"").fails(3, &["pack"]);
        let mut flipped = good.clone();
        flipped[len] ^= 0x10;
        dir.write("pack", &flipped);
        std::fs::write("/tmp/flip.ow", &flipped).unwrap();
        std::fs::write("/tmp/good.ow", &good).unwrap();
        let ran = run(args!["unpack", pack, "-o", output], b"");
        if ran.code == Some(0) {
            // A distance names other bytes that are equal.
            same(&read(&output), &content(), "altered without effect");
            std::fs::remove_file(&output).expect("it was just written");
        } else {
            ran.fails(3, &["pack"]);
            refused += 1;
        }
    }
    assert!(refused >= 15, "{refused} of 20");
    dir.holds_only(&["pack"]);
}

#[test]
fn an_existing_file_survives() {
    let dir = Dir::new();
    let good = packed(&content(), Entropy::DEFAULT);
    let output = dir.write("output", b"what was there before");
    for bad in [
        &good[..good.len() / 2],
        &good[..good.len() - 1],
        b"",
        b"something else",
        &[&good[..], b"x"].concat(),
    ] {
        run(args!["unpack", "-o", output], bad).fails(3, &["standard input"]);
        same(&read(&output), b"what was there before", "the file of that name");
    }
    dir.holds_only(&["output"]);
}

#[test]
fn foreign_files() {
    let dir = Dir::new();
    let pack = packed(&content(), Entropy::DEFAULT);
    let as_text: Vec<u8> = pack.iter().copied().filter(|&byte| byte != b'\r').collect();
    let seven_bits: Vec<u8> = pack.iter().map(|byte| byte & 0x7f).collect();
    let pack = "some.file is not an Oncewire pack";
    let foreign: [(&[u8], &str); 6] = [
        (&tz(0), pack),
        (b"\x1f\x8b\x08\x00 gzip", pack),
        (b"\x28\xb5\x2f\xfd zstd", "some.file is truncated"),
        (b"x", pack),
        (&as_text, pack),
        (&seven_bits, pack),
    ];
    for (content, words) in foreign {
        let file = dir.write("some.file", content);
        let (output, words) = (dir.join("output"), [words]);
        assert!(run(args!["unpack", file], b"").fails(3, &words).is_empty());
        run(args!["unpack", file, "-o", output], b"").fails(3, &words);
        dir.holds_only(&["some.file"]);
    }
    run(args!["unpack"], b"").fails(3, &["standard input is empty"]);
    run(args!["unpack", tz_path(0), "--json", "-o", dir.join("output")], b"")
        .fails(3, &["not an Oncewire pack"]);
}

#[test]
fn another_version() {
    let mut pack = packed(&content(), Entropy::DEFAULT);
    for version in [0, 2, 255] {
        pack[8] = version;
        let words = [&format!("version {version}")[..], "use a newer oncewire"];
        assert!(
            run(args!["unpack"], &pack)
                .fails(3, if version == 0 { &words[..1] } else { &words })
                .is_empty()
        );
    }
}

#[test]
fn data_after_the_end() {
    let dir = Dir::new();
    let content = content();
    let good = packed(&content, Entropy::DEFAULT);
    for behind in [&b"\0"[..], b"garbage", &good, &noise(5, 3 << 20)] {
        let bad = [&good[..], behind].concat();
        let words = ["more data after the end", &format!("at byte {};", good.len())];
        same(
            &run(args!["unpack"], &bad).fails(3, &words),
            &content,
            "what came before the garbage",
        );
        run(args!["unpack", "-o", dir.join("output")], &bad).fails(3, &words);
        dir.holds_only(&[]);
    }
}
