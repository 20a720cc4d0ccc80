//! Tables fit the page: 80 columns, or what `COLUMNS` or the terminal says, up to 120. `status` is
//! tested with the tunnel.

use crate::plan::MAP;
use crate::study::{packet, pcap};
use crate::support::*;
use assert_cmd::Command;
use std::ffi::OsString;
use unicode_width::UnicodeWidthStr;

/// The output on a page of that width; `None` is a pipe without `COLUMNS`.
fn page(args: &[OsString], columns: Option<&str>) -> String {
    let mut command = Command::new(ONCEWIRE);
    match columns {
        Some(columns) => command.env("COLUMNS", columns),
        None => command.env_remove("COLUMNS"),
    };
    let ran = Ran::of(command.args(args).timeout(PATIENCE).output().expect("the program starts"));
    assert_eq!(ran.code, Some(0), "{args:?}: {}", ran.err);
    String::from_utf8(ran.out).expect("text")
}

#[track_caller]
fn widest(text: &str) -> usize {
    text.lines().map(UnicodeWidthStr::width).max().unwrap_or(0)
}

/// 80 columns on a pipe, or `COLUMNS` from 80 to 120.
#[track_caller]
fn fits(args: Vec<OsString>) {
    for (columns, most) in [(None, 80), (Some("80"), 80), (Some("120"), 120)] {
        let text = page(&args, columns);
        assert!(text.lines().count() > 4, "{args:?} prints no table:\n{text}");
        assert!(
            widest(&text) <= most,
            "{args:?} with COLUMNS={columns:?} takes {}:\n{text}",
            widest(&text)
        );
    }
}

#[test]
fn demo() {
    fits(args!["demo"]);
}

#[test]
fn index() {
    fits(args!["index", "tune", "--like", "transcend-ssd"]);
    fits(args![
        "index",
        "bench",
        "--like",
        "flash-chip",
        "--flash",
        "16M",
        "--memory",
        "6M",
        "--buffers",
        "1M",
        "--operations",
        "1000"
    ]);
    let dir = Dir::new();
    fits(args!["index", "tune", dir.path(), "--time", "10ms", "--test-size", "8M"]);
    let sizes = ["--flash", "16M", "--memory", "6M", "--size", "1M"];
    let mut re = args!["index", "re", "--like", "intel-ssd"];
    re.extend(sizes.into_iter().map(Into::into));
    fits(re);
}

#[test]
fn bench_with_every_column() {
    let dir = Dir::new();
    let data =
        dir.write("a-file-with-a-rather-long-name-as-such-files-have.tar", &versions(200_000));
    fits(args![
        "bench",
        data,
        "--passes",
        "2",
        "--runs",
        "1",
        "--optimal",
        "--block",
        "64K,1448",
        "--matchers",
        "max,published,chunk-martynov,modified,payload",
        "--tables",
        "compact,buckets:4x2x1",
        "--cache",
        "4M",
    ]);
}

#[test]
fn train() {
    let dir = Dir::new();
    let (data, other) =
        (dir.write("data", &versions(100_000)), dir.write("other", &versions(90_000)));
    fits(args!["train", data, "--test", other, "--random", "2"]);
}

#[test]
fn study_and_score() {
    let dir = Dir::new();
    let name = |n: u8| format!("192.0.2.{n}:80");
    let packets: Vec<Vec<u8>> = (0..60u8)
        .map(|n| packet(&name(n % 7), "10.0.0.1:40000", &noise(u64::from(n) / 2, 1000)))
        .collect();
    let capture =
        dir.write("a capture with a rather long name, as they have.pcap", &pcap(&packets));
    fits(args![
        "study",
        capture,
        "--inside",
        "10.0.0.0/8",
        "--price",
        "0.09/GB",
        "--link",
        "100Mbit",
        "--memory",
        "64M"
    ]);
    let data = dir.write("data", &versions(40_000));
    fits(args!["study", "--score", data, "--distances", "64", "--buffers", "4K", "--repeats", "1"]);
}

#[test]
fn plan_and_emulate() {
    let dir = Dir::new();
    let map = MAP
        .replace("Alpha", "A City with a Name that is Long, as Some are")
        .replace("ring", "a ring of cities");
    let map = dir.write("map.json", map.as_bytes());
    fits(args!["plan", map, "--deploy", "3"]);
    fits(args!["emulate", map, "--epochs", "2", "--scale", "0.1%", "--traffic", "demands"]);
}
