//! Memory follows the size of the cache, is used as the cache fills, and is capped whatever the
//! input claims.
#![cfg(target_os = "linux")]

use crate::support::*;
use oncewire_codec::pack::Header;
use oncewire_codec::{Encoder, Entropy};
use std::ffi::OsString;
use std::io::{Read, Write};
use std::process::{Child, Command, Stdio};

const MIB: u64 = 1 << 20;

/// Peak resident memory of a running process in bytes, but for pages of files: those of the program,
/// 12 to 19 MiB as tests compile it, of which the system maps as many as it likes.
fn peak(child: &Child) -> u64 {
    let status =
        std::fs::read_to_string(format!("/proc/{}/status", child.id())).expect("the process runs");
    let kilobytes = |name: &str| -> u64 {
        let line = status.lines().find(|line| line.starts_with(name));
        let number = line.and_then(|line| line.split_whitespace().nth(1));
        number.expect("the kernel counts it").parse().expect("a number")
    };
    (kilobytes("VmHWM:") - kilobytes("RssFile:")) * 1024
}

fn start(args: Vec<OsString>) -> Child {
    Command::new(ONCEWIRE)
        .args(args)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("the program starts")
}

/// Feeds `parts`, discards the output, and measures once all but the end has gone through.
fn peak_of(args: Vec<OsString>, parts: impl Iterator<Item = Vec<u8>>) -> u64 {
    let mut child = start(args);
    let (mut stdin, mut stdout) =
        (child.stdin.take().expect("a pipe"), child.stdout.take().expect("a pipe"));
    let drain = std::thread::spawn(move || std::io::copy(&mut stdout, &mut std::io::sink()));
    for part in parts {
        stdin.write_all(&part).expect("the program reads");
    }
    let peak = peak(&child);
    drop(stdin);
    assert!(wait(&mut child).success());
    drain.join().expect("it only reads").expect("it can be read");
    peak
}

/// Runs with this much address space.
fn confined(megabytes: u64, args: Vec<OsString>, stdin: &[u8]) -> Ran {
    let script = format!("ulimit -v {} && exec \"$0\" \"$@\"", megabytes * 1024);
    let mut shell = assert_cmd::Command::new("sh");
    let run = shell.args(["-c", &script, ONCEWIRE]).args(args).write_stdin(stdin).timeout(PATIENCE);
    Ran::of(run.output().expect("a shell"))
}

/// 64 MB in which everything repeats, some of it farther back than the cache reaches.
fn stream() -> impl Iterator<Item = Vec<u8>> {
    let (text, mut random) = (tz(0), Xoshiro::new(10, 0));
    (0..64).map(move |i| {
        let start = random.below(text.len() - 500_000);
        [&text[start..start + 500_000], &noise(i % 20, 548_576)].concat()
    })
}

#[test]
fn a_stream_takes_no_more_than_its_cache() {
    for threads in ["1", "3"] {
        let peak = peak_of(args!["pack", "--cache", "8M", "--threads", threads], stream());
        assert!(peak < 44 * MIB, "{} MiB with {threads} threads", peak / MIB);
    }
    let packed =
        run(args!["pack", "--cache", "8M"], &stream().flatten().collect::<Vec<u8>>()).fine();
    let peak = peak_of(args!["unpack"], std::iter::once(packed));
    assert!(peak < 28 * MIB, "{} MiB to unpack", peak / MIB);
}

#[test]
fn a_large_cache_costs_nothing_until_it_fills() {
    let content = versions(300_000);
    let header = Header { cache: 1024 * MIB, max_block: 65536, seed: 0, base: None };
    // A table in proportion to the cache would only slow the test.
    let builder = Encoder::builder().table_entries(1 << 16);
    let pack =
        oncewire_codec::pack::pack(&content, &header, builder).expect("the parameters can work");
    let mut child = start(args!["unpack"]);
    let (mut stdin, mut stdout) =
        (child.stdin.take().expect("a pipe"), child.stdout.take().expect("a pipe"));
    stdin.write_all(&pack).expect("the program reads");
    let mut out = vec![0; content.len()];
    stdout.read_exact(&mut out).expect("all content comes out");
    let peak = peak(&child);
    drop(stdin);
    assert!(wait(&mut child).success());
    same(&out, &content, "unpacked");
    assert!(peak < 20 * MIB, "{} MiB for {} bytes of content", peak / MIB, content.len());
}

#[test]
fn a_header_cannot_ask_for_more_than_allowed() {
    let dir = Dir::new();
    let words = |needs: &'static str, allowed: &'static str| [needs, allowed, "--max-cache"];
    let claim = |cache: u64| header(cache).to_bytes();
    let (gib, tib) = (1024 * MIB, 1 << 40);
    // With 64 MB of address space, a refused cache must not be allocated first.
    let refused = |cache: u64, limit: &[&str], words: [&str; 3]| {
        let mut args = args!["unpack", "-o", dir.join("output")];
        args.extend(limit.iter().map(Into::into));
        confined(64, args, &claim(cache)).fails(3, &words);
    };
    refused(4 * gib + 1, &[], words("4 GiB", "4 GiB allowed"));
    refused(tib, &[], words("1 TiB", "4 GiB allowed"));
    refused(200 * MIB, &["--max-cache", "100M"], words("200 MiB", "100 MiB allowed"));
    refused(SMALL_CACHE, &["--max-cache", "299999"], words("293", "293"));
    dir.holds_only(&[]);
    // Above the limit of the format, and below one block.
    for cache in [tib + 1, u64::MAX, 0, 65535] {
        confined(64, args!["unpack", "--max-cache", "16777215T"], &claim(cache))
            .fails(3, &["header", "cache size"]);
    }
}

#[test]
fn failed_allocations_are_one_line() {
    let dir = Dir::new();
    let claim = header(1024 * MIB).to_bytes();
    confined(500, args!["unpack", "-o", dir.join("output")], &claim).fails(1, &["memory"]);
    // A pipe, since a file is its own cache.
    confined(500, args!["pack", "--cache", "1G", "-o", dir.join("output")], b"content")
        .fails(1, &["memory", "--cache"]);
    confined(500, args!["pack", tz_path(0), "--cache", "100G", "-o", dir.join("output")], b"")
        .fails(1, &["GiB of memory", "choose a smaller --cache"]);
    dir.holds_only(&[]);
}

/// A corrupt frame cannot cause allocations beyond what the header announces.
#[test]
fn corruption_cannot_raise_memory() {
    let content = versions(400_000);
    for entropy in [Entropy::None, Entropy::Lz4, Entropy::DEFAULT] {
        let good = packed(&content, entropy);
        let mut random = Xoshiro::new(11, 0);
        for _ in 0..25 {
            let at = 38 + random.below(good.len() - 38);
            let mut bad = good.clone();
            bad[at..].iter_mut().take(4).for_each(|byte| *byte = 0xff ^ *byte & 0x80);
            confined(64, args!["unpack"], &bad).fails(3, &["standard input"]);
        }
        same(
            &confined(64, args!["unpack"], &good).fine(),
            &content,
            "valid input needs little memory",
        );
    }
}
