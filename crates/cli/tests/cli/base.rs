//! `--base`: content that both ends have before the transfer.

use crate::support::*;

#[test]
fn one_base() {
    let dir = Dir::new();
    let (pack, output) = (dir.join("pack"), dir.join("output"));
    run(args!["pack", "--base", tz_path(0), tz_path(1), "-o", pack], b"").fine();
    run(args!["unpack", "--base", tz_path(0), pack, "-o", output], b"").fine();
    same(&read(&output), &tz(1), "the next release");
    let len = read(&pack).len();
    assert!(len < tz(1).len() / 100, "{len} bytes for twelve changed files");
    dir.holds_only(&["pack", "output"]);
}

#[test]
fn several_bases_in_their_order() {
    let dir = Dir::new();
    // Lengths that are no multiple of a block: the second begins inside one.
    let (one, two) = (dir.write("one", &tz(0)[..300_001]), dir.write("two", &tz(1)[299_999..]));
    let pack = run(args!["pack", "--base", one, "--base", two, tz_path(2)], b"").fine();
    assert!(pack.len() < tz(2).len() / 50, "{} bytes", pack.len());
    same(
        &run(args!["unpack", "--base", one, "--base", two], &pack).fine(),
        &tz(2),
        "the third release",
    );
    run(args!["unpack", "--base", two, "--base", one], &pack).fails(2, &["another base", "order"]);
    run(args!["unpack", "--base", one], &pack)
        .fails(2, &["another base", "KiB, this one has 293.0 KiB"]);
    // The content counts, not its division into files.
    let whole = dir.write("whole", &[read(&one), read(&two)].concat());
    same(&run(args!["unpack", "--base", whole], &pack).fine(), &tz(2), "with both in one file");
}

#[test]
fn bases_of_every_size() {
    let dir = Dir::new();
    let content = tz(1);
    for size in [0, 1, 65535, 65536, 65537, 200_000] {
        let base = dir.write("base", &tz(0)[..size]);
        for block in ["64K", "1000"] {
            let pack = run(args!["pack", "--base", base, "--block", block], &content).fine();
            same(&run(args!["unpack", "--base", base], &pack).fine(), &content, "with a base");
        }
    }
}

#[test]
fn a_base_larger_than_the_cache_is_used_in_part_and_noted() {
    for cache in ["300000", "65536", "900001"] {
        let ran = run(args!["pack", "--base", tz_path(0), "--cache", cache, tz_path(1)], b"");
        assert_eq!(ran.code, Some(0), "{}", ran.err);
        assert_eq!(ran.err.lines().count(), 1, "{}", ran.err);
        assert!(ran.err.contains("fit in the cache") && ran.err.contains("--cache"), "{}", ran.err);
        same(
            &run(args!["unpack", "--base", tz_path(0)], &ran.out).fine(),
            &tz(1),
            "the next release",
        );
    }
}

#[test]
fn the_wrong_base_no_base_and_a_needless_base() {
    let dir = Dir::new();
    let output = dir.join("output");
    let with = run(args!["pack", "--base", tz_path(0), tz_path(1)], b"").fine();
    let without = run(args!["pack", tz_path(1)], b"").fine();
    // Of the same length, so that only the digest differs.
    run(args!["unpack", "--base", tz_path(2), "-o", output], &with)
        .fails(2, &["another base", "same files"]);
    run(args!["unpack", "-o", output], &with).fails(2, &["a base of 970 KiB", "--base"]);
    run(args!["unpack", "--base", tz_path(0), "-o", output], &without)
        .fails(2, &["without a base", "omit --base"]);
    dir.holds_only(&[]);
    for (args, pack) in [(args!["unpack"], &with), (args!["unpack", "--base", tz_path(2)], &with)] {
        assert!(run(args, pack).fails(2, &["base"]).is_empty(), "not one byte may come out");
    }
}

#[test]
fn a_missing_base() {
    let dir = Dir::new();
    let (output, nowhere) = (dir.join("output"), dir.join("nowhere"));
    run(args!["pack", "--base", nowhere, tz_path(1), "-o", output], b"")
        .fails(1, &["nowhere", "no such file", "check the name"]);
    run(args!["unpack", "--base", nowhere, tz_path(1), "-o", output], b"")
        .fails(1, &["nowhere", "no such file"]);
    run(args!["pack", "--base", dir.path(), tz_path(1), "-o", output], b"")
        .fails(1, &["directory"]);
    dir.holds_only(&[]);
}

/// A base is read twice, which is impossible with a pipe. It must not result in a pack that cannot
/// be unpacked.
#[cfg(unix)]
#[test]
fn a_base_from_a_pipe_works_or_is_refused() {
    let dir = Dir::new();
    let pack = dir.join("pack");
    let base = tz(0);
    let ran = run(args!["pack", "--base", "/dev/stdin", tz_path(1), "-o", pack], &base);
    if ran.code == Some(0) {
        same(
            &run(args!["unpack", "--base", tz_path(0), pack], b"").fine(),
            &tz(1),
            "with the base from a pipe",
        );
    } else {
        ran.fails(1, &["/dev/stdin"]);
        dir.holds_only(&[]);
    }
}
