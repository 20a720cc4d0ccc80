//! `--format zstd`: frames that any zstd decodes.

use crate::support::{Dir, args, noise, read, run, same, tz, versions};
use oncewire_codec::pack::RUN;
use oncewire_testkit::servers::tool;
use oncewire_testkit::skipped;
use std::process::{Command, Stdio};

/// What zstd's library makes of frames.
#[track_caller]
fn decoded(frames: &[u8], len: usize) -> Vec<u8> {
    let mut out = vec![0; len + 1];
    let len = zstd_safe::decompress(&mut out[..], frames)
        .unwrap_or_else(|code| panic!("{}", zstd_safe::get_error_name(code)));
    out.truncate(len);
    out
}

/// Text and noise that repeat, near and far, in several runs.
fn content() -> Vec<u8> {
    let mut content = Vec::new();
    for nth in 0.. {
        content.extend_from_slice(&tz(nth % 3)[..300_000]);
        content.extend(noise(nth as u64 % 4, 150_000));
        content.extend(noise(nth as u64, 150_000).iter().map(|byte| b'a' + byte % 16));
        if content.len() as u64 >= 5 * RUN + 77_777 {
            return content;
        }
    }
    unreachable!("it ends")
}

#[test]
fn the_output_is_the_same_for_any_number_of_threads() {
    let dir = Dir::new();
    let content = content();
    let input = dir.write("input", &content);
    for (cache, level) in [("128M", "3"), ("128M", "1"), ("3000000", "2")] {
        let packed = |threads| {
            let (pack, level) = (dir.join("pack.zst"), level);
            run(
                args![
                    "pack",
                    "--format",
                    "zstd",
                    input,
                    "-o",
                    pack,
                    "--cache",
                    cache,
                    "--level",
                    level,
                    "--threads",
                    threads
                ],
                b"",
            )
            .fine();
            read(&pack)
        };
        let one = packed("1");
        assert!(one.len() < content.len() / 2, "{}", one.len());
        for threads in ["2", "5"] {
            same(&packed(threads), &one, threads);
        }
        same(&decoded(&one, content.len()), &content, cache);
        same(&run(args!["unpack"], &one).fine(), &content, "unpack to a pipe");
        run(args!["unpack", dir.join("pack.zst"), "-o", dir.join("output")], b"").fine();
        same(&read(&dir.join("output")), &content, "unpack to a file");
    }
}

#[test]
fn pipes_and_files_that_cannot_be_mapped_come_back() {
    let content = versions(700_000);
    for content in [&content[..], b"", b"x", &content[..100]] {
        for cache in ["128M", "200K"] {
            let frame = run(args!["pack", "--format", "zstd", "--cache", cache], content).fine();
            same(&decoded(&frame, content.len()), content, cache);
            same(&run(args!["unpack"], &frame).fine(), content, cache);
        }
    }
}

#[test]
fn noise_takes_no_more_than_zstd_may() {
    let content = noise(3, 3_000_001);
    let frame = run(args!["pack", "--format", "zstd"], &content).fine();
    assert!(frame.len() <= zstd_safe::compress_bound(content.len()), "{}", frame.len());
    same(&run(args!["unpack"], &frame).fine(), &content, "noise");
}

/// Decodes with the program `zstd`. Returns its output, or `None` if it failed.
fn zstd(options: &[&str], frame: &std::path::Path) -> Option<Vec<u8>> {
    let program = tool("zstd")?;
    let output = Command::new(program)
        .args(["-d", "-c", "-q"])
        .args(options)
        .arg(frame)
        .stdin(Stdio::null())
        .output()
        .expect("zstd starts");
    output.status.success().then_some(output.stdout)
}

#[test]
fn the_program_zstd_decodes_it() {
    if tool("zstd").is_none() {
        skipped!("there is no program zstd");
        return;
    }
    let dir = Dir::new();
    let content = content();
    let input = dir.write("input", &content);
    let pack = dir.join("pack.zst");
    // The window is that of the cache, but not larger than a file needs it.
    for (cache, options) in [
        ("128M", &[][..]),
        ("8M", &["--memory=8MiB"]),
        ("2G", &[]),
        ("1000000", &["--memory=1MiB"]),
    ] {
        let args = args!["pack", "--format", "zstd", input, "-o", pack, "--cache", cache];
        run(args, b"").fine();
        same(&zstd(options, &pack).expect(cache), &content, cache);
    }
    // The length of a pipe is not known.
    let args = || args!["pack", "--format", "zstd", "-o", pack];
    run(args(), &content).fine();
    same(&zstd(&[], &pack).expect("the default"), &content, "pipe");
    run([args(), args!["--cache", "256M"]].concat(), &content).fine();
    assert!(zstd(&[], &pack).is_none());
    same(&zstd(&["--long=28"], &pack).expect("--long"), &content, "pipe");
}

#[test]
fn unpack_decodes_what_other_programs_wrote() {
    let content = versions(300_000);
    let mut frames = Vec::new();
    for (part, level) in content.chunks(content.len() / 3 + 1).zip([1, 19, -3]) {
        let mut out = vec![0; zstd_safe::compress_bound(part.len())];
        let len = zstd_safe::compress(&mut out[..], part, level).expect("it has room");
        frames.extend_from_slice(&out[..len]);
        // A skippable frame.
        frames.extend_from_slice(&[0x50, 0x2a, 0x4d, 0x18, 3, 0, 0, 0, 1, 2, 3]);
    }
    same(&run(args!["unpack"], &frames).fine(), &content, "three frames");
}

#[test]
fn damage_is_refused() {
    let content = versions(200_000);
    let good = run(args!["pack", "--format", "zstd"], &content).fine();
    let dir = Dir::new();
    let output = dir.join("output");
    for len in (4..good.len()).step_by(good.len() / 20).chain([good.len() - 1]) {
        let bad = dir.write("bad.zst", &good[..len]);
        run(args!["unpack", bad, "-o", output], b"").fails(3, &["bad.zst is truncated"]);
    }
    // Wrong: the first block, one in the middle, the checksum.
    for at in [9, good.len() / 2, good.len() - 1] {
        let mut bad = good.clone();
        bad[at] ^= 0x55;
        let bad = dir.write("bad.zst", &bad);
        run(args!["unpack", bad, "-o", output], b"").fails(3, &["bad.zst", "nothing was written"]);
    }
    let bad = dir.write("bad.zst", &[&good[..], b"more"].concat());
    run(args!["unpack", bad, "-o", output], b"").fails(3, &["bad.zst", "nothing was written"]);
    dir.holds_only(&["bad.zst"]);
}

#[test]
fn a_window_beyond_the_limit_is_refused() {
    let frame = run(args!["pack", "--format", "zstd", "--cache", "256M"], b"content").fine();
    same(&run(args!["unpack"], &frame).fine(), b"content", "256M");
    run(args!["unpack", "--max-cache", "100M"], &frame)
        .fails(3, &["window of 256 MiB", "128 MiB", "--max-cache"]);
}

#[test]
fn options_that_zstd_does_not_have_are_refused() {
    let dir = Dir::new();
    let base = dir.write("base", b"a base");
    for (options, words) in [
        (args!["--base", base], ["--base", "patch-from"]),
        (args!["--inside", "on"], ["--inside on", "compressed content"]),
        (args!["--cpu-budget", "50%"], ["--cpu-budget", "omit"]),
        (args!["--entropy", "lz4"], ["--entropy", "--level"]),
        (args!["--cache", "3G"], ["--cache 3G", "2G"]),
    ] {
        let args = [args!["pack", "--format", "zstd"], options].concat();
        assert!(run(args, b"x").fails(2, &words).is_empty());
    }
    same(
        &run(args!["pack", "--format", "zstd", "--inside", "off"], b"x").fine()[..4],
        &[0x28, 0xb5, 0x2f, 0xfd],
        "off is what it does anyway",
    );
    let frame = run(args!["pack", "--format", "zstd"], b"x").fine();
    run(args!["unpack", "--base", base], &frame).fails(2, &["zstd file", "--base"]);
}
