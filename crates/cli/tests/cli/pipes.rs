//! Pipes that close or stall, and a directory through tar.

use crate::support::*;
use std::ffi::OsString;
use std::io::{Read, Write};
use std::process::Command;

/// Runs with a closed pipe as standard output.
fn unread(args: Vec<OsString>, stdin: &[u8]) -> Ran {
    let mut child = start(args);
    drop(child.stdout.take());
    // The program may end before it has read everything.
    let _ = child.stdin.take().expect("it is a pipe").write_all(stdin);
    Ran::of(child.wait_with_output().expect("a child of ours"))
}

#[test]
fn a_closed_pipe_is_a_failure_if_content_is_lost() {
    let content = versions(800_000);
    let pack = run(args!["pack"], &content).fine();
    for threads in ["1", "2", "4"] {
        unread(args!["pack", "--threads", threads], &content)
            .fails(1, &["standard output", "has ended"]);
    }
    unread(args!["unpack"], &pack).fails(1, &["standard output", "has ended"]);
}

#[test]
fn a_closed_pipe_is_not_a_failure_of_a_report() {
    let dir = Dir::new();
    let bench = ["bench", "--runs", "1", "--no-rivals", "--cache", "4M"];
    for format in [None, Some("--json")] {
        let mut args: Vec<OsString> = bench.into_iter().chain(format).map(Into::into).collect();
        args.push(tz_path(0).into());
        unread(args, b"").fine();
    }
    unread(args!["demo"], b"").fine();
    unread(args!["pack", "-o", dir.join("pack"), "--json"], b"content").fine();
    dir.holds_only(&["pack"]);
}

/// `oncewire bench ... | head -1`
#[test]
fn a_reader_that_wants_one_line() {
    let mut child =
        start(args!["bench", tz_path(0), "--runs", "1", "--no-rivals", "--cache", "4M"]);
    let mut byte = [0];
    child.stdout.take().expect("it is a pipe").read_exact(&mut byte).expect("a report");
    Ran::of(child.wait_with_output().expect("a child of ours")).fine();
}

#[test]
fn corruption_is_reported_at_once() {
    let good = run(args!["pack", "--cache", "300000"], &versions(400_000)).fine();
    let mut bad = good[..good.len() - 100].to_vec();
    bad[5000] ^= 1;
    let mut child = start(args!["unpack"]);
    let mut stdin = child.stdin.take().expect("it is a pipe");
    // The program may end before it has read everything.
    let _ = stdin.write_all(&bad);
    assert_eq!(wait(&mut child).code(), Some(3));
    drop(stdin);
}

/// Complete frames are delivered before more input arrives.
#[test]
fn complete_frames_are_not_held_back() {
    let content = noise(8, 3 * 65536);
    let pack = run(args!["pack", "--block", "64K"], &content).fine();
    let mut child = start(args!["unpack"]);
    let (mut stdin, mut stdout) =
        (child.stdin.take().expect("a pipe"), child.stdout.take().expect("a pipe"));
    // Two whole frames and a part of the third.
    stdin.write_all(&pack[..pack.len() - 1000]).expect("the program reads");
    let mut out = vec![0; 2 * 65536];
    stdout.read_exact(&mut out).expect("two blocks");
    same(&out, &content[..out.len()], "the first two blocks");
    stdin.write_all(&pack[pack.len() - 1000..]).expect("the program reads");
    drop(stdin);
    out.clear();
    stdout.read_to_end(&mut out).expect("the last block");
    same(&out, &content[2 * 65536..], "the last block");
    assert!(wait(&mut child).success());
}

/// A block is packed and delivered as soon as it is complete.
#[test]
fn complete_blocks_are_not_held_back() {
    let content = noise(8, 3 * 16384 + 100);
    for threads in ["1", "2", "4"] {
        let whole = run(args!["pack", "--block", "16K", "--threads", threads], &content).fine();
        let mut child = start(args!["pack", "--block", "16K", "--threads", threads]);
        let (mut stdin, mut stdout) =
            (child.stdin.take().expect("a pipe"), child.stdout.take().expect("a pipe"));
        // Two blocks and a part of the third: less than a pipe holds, since nobody reads yet.
        stdin.write_all(&content[..2 * 16384 + 100]).expect("the program reads");
        let mut out = vec![0; 2 * 16384];
        stdout.read_exact(&mut out).expect("two frames, which are longer than that");
        stdin.write_all(&content[2 * 16384 + 100..]).expect("the program reads");
        drop(stdin);
        stdout.read_to_end(&mut out).expect("the rest");
        same(&out, &whole, "a stream that stalls");
        assert!(wait(&mut child).success());
    }
}

/// The pipeline of the README, without the network in its middle.
#[cfg(unix)]
#[test]
fn a_directory_through_tar() {
    if Command::new("tar").arg("--version").output().is_err() {
        oncewire_testkit::skipped!("there is no tar here");
        return;
    }
    let dir = Dir::new();
    let (from, to) = (dir.join("from"), dir.join("to"));
    for (name, content) in [
        ("a/b/one", tz(0)),
        ("a/two", tz(1)),
        ("three", tz(2)),
        ("empty", Vec::new()),
        ("a name", noise(9, 70_000)),
    ] {
        let path = from.join(name);
        std::fs::create_dir_all(path.parent().expect("it is in a directory")).expect("a directory");
        std::fs::write(path, content).expect("a file");
    }
    std::fs::create_dir_all(to.join("from")).expect("a directory");
    let script = "cd \"$1\" && tar cf - . | \"$0\" pack | \"$0\" unpack | (cd \"$2\" && tar xf -)";
    let ran = Ran::of(
        Command::new("sh")
            .args(["-c", script, ONCEWIRE])
            .arg(&from)
            .arg(to.join("from"))
            .output()
            .expect("a shell"),
    );
    ran.fine();
    assert_eq!(tree(&from), tree(&to.join("from")));
}

/// Every file in a directory and below it, with its content.
#[cfg(unix)]
fn tree(root: &std::path::Path) -> std::collections::BTreeMap<std::path::PathBuf, Vec<u8>> {
    let mut files = std::collections::BTreeMap::new();
    let mut open = vec![root.to_path_buf()];
    while let Some(dir) = open.pop() {
        for entry in std::fs::read_dir(&dir).expect("a directory") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                open.push(path);
            } else {
                let name = path.strip_prefix(root).expect("it is below").to_path_buf();
                files.insert(name, read(&path));
            }
        }
    }
    files
}

/// Blocks end where those of zstd begin, whatever the number of threads.
#[test]
fn frames_of_zstd_come_back_from_any_number_of_threads() {
    let lines: String =
        (0..200_000u64).map(|nth| format!("{} {}\n", nth, nth * nth % 9973)).collect();
    let mut frame = vec![0; zstd_safe::compress_bound(lines.len())];
    let len = zstd_safe::compress(&mut frame[..], lines.as_bytes(), 3).expect("there is room");
    frame.truncate(len);
    assert!(len > 5 * 65536, "several blocks: {len}");
    let packs =
        ["1", "2", "4"].map(|threads| run(args!["pack", "--threads", threads], &frame).fine());
    for pack in &packs {
        same(&run(args!["unpack"], pack).fine(), &frame, "unpacked");
        // Reads of a pipe end anywhere, so batches may differ; blocks are few in any case.
        assert!(pack.len() < len + 40 * (2 * len / 65536 + 2), "{} of {len}", pack.len());
    }
}
