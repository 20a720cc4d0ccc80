//! Bytes out = bytes in, for every shape of input and every setting.

use crate::support::*;
use oncewire_codec::Encoder;
use oncewire_codec::pack::pack;
use std::io::Write;
use std::process::{Command, Stdio};

/// Packs through pipes, unpacks and compares. Returns the pack.
#[track_caller]
fn through_pipes(content: &[u8], settings: &[&str]) -> Vec<u8> {
    let mut args = args!["pack"];
    args.extend(settings.iter().map(Into::into));
    let packed = run(args, content).fine();
    same(&run(args!["unpack"], &packed).fine(), content, &settings.join(" "));
    packed
}

/// The same with files.
#[track_caller]
fn through_files(content: &[u8], settings: &[&str]) {
    let dir = Dir::new();
    let input = dir.write("input", content);
    let (pack, output) = (dir.join("pack"), dir.join("output"));
    let mut args = args!["pack", input, "-o", pack];
    args.extend(settings.iter().map(Into::into));
    assert!(run(args, b"").fine().is_empty());
    assert!(run(args!["unpack", pack, "-o", output], b"").fine().is_empty());
    same(&read(&output), content, &settings.join(" "));
    dir.holds_only(&["input", "pack", "output"]);
}

#[test]
fn sizes_around_the_edges_of_blocks() {
    let content = versions(200_000);
    for (block, name) in [(1, "1"), (1000, "1000"), (65536, "64K")] {
        for blocks in 0..=3 {
            for size in [
                (blocks * block as usize).saturating_sub(1),
                blocks * block as usize,
                blocks * block as usize + 1,
            ] {
                through_pipes(&content[..size], &["--block", name]);
            }
        }
    }
}

#[test]
fn files_of_every_size() {
    let content = versions(600_000);
    for size in [0, 1, 31, 32, 65535, 65536, 262_143, 262_144, 262_145, content.len()] {
        through_files(&content[..size], &[]);
    }
}

#[test]
fn content_larger_than_the_cache() {
    let content = [tz(0), tz(1), tz(2)].concat();
    // The last two caches hold exactly one block, and one block and a bit.
    for cache in ["300000", "1000003", "65536", "65537"] {
        for entropy in ["coded", "none"] {
            through_pipes(&content, &["--cache", cache, "--entropy", entropy]);
        }
    }
    through_files(&content, &["--cache", "300000", "--block", "999", "--threads", "3"]);
}

#[test]
fn every_choice_of_the_codec() {
    let content = versions(150_000);
    let cache = SMALL_CACHE.to_string();
    let entropies: [&[&str]; 6] = [
        &["--entropy", "none"],
        &["--entropy", "lz4"],
        &["--entropy", "coded"],
        &["--level", "1"],
        &["--level", "2"],
        &["--entropy", "coded", "--level", "3"],
    ];
    for entropy in entropies {
        for sampler in ["samplebyte", "fixed"] {
            for threads in ["1", "2", "4"] {
                let rest = ["--sampler", sampler, "--threads", threads, "--cache", &cache];
                through_pipes(&content, &[entropy, &rest].concat());
            }
        }
    }
    for sampler in ["samplebyte", "fixed"] {
        for window in ["12", "13", "31", "32", "33", "63", "64"] {
            through_pipes(&content, &["--window", window, "--sampler", sampler]);
        }
        for period in ["4", "5", "31", "32", "33", "255", "1024"] {
            through_pipes(&content, &["--period", period, "--sampler", sampler]);
        }
        for block in ["13", "512", "1448", "5000", "16K", "65535"] {
            through_pipes(&content, &["--block", block, "--sampler", sampler]);
        }
    }
}

#[test]
fn any_number_of_threads_makes_the_same_pack() {
    let content = versions(900_000);
    for settings in [
        &["--cache", "300000"][..],
        &["--entropy", "none"],
        &["--entropy", "lz4", "--block", "1448"],
    ] {
        let packs = ["1", "2", "4"]
            .map(|threads| through_pipes(&content, &[settings, &["--threads", threads]].concat()));
        same(&packs[1], &packs[0], "two threads");
        same(&packs[2], &packs[0], "three threads");
    }
}

#[test]
fn files_pipes_and_dashes_are_the_same() {
    let dir = Dir::new();
    let content = versions(300_000);
    let (input, pack) = (dir.write("input", &content), dir.join("pack"));
    let by_pipe = run(args!["pack"], &content).fine();
    same(&run(args!["pack", "-"], &content).fine(), &by_pipe, "from a dash");
    same(&run(args!["pack", input], b"").fine(), &by_pipe, "from a file");
    same(&run(args!["pack", input, "-o", "-"], b"").fine(), &by_pipe, "from a file to a dash");
    run(args!["pack", "-o", pack], &content).fine();
    same(&read(&pack), &by_pipe, "to a file");

    same(&run(args!["unpack", "-"], &by_pipe).fine(), &content, "unpacked from a dash");
    same(
        &run(args!["unpack", pack, "-o", "-"], b"").fine(),
        &content,
        "unpacked from a file to a dash",
    );
}

#[test]
fn the_library_makes_the_same_pack() {
    let content = versions(300_000);
    let by_library =
        pack(&content, &header(SMALL_CACHE), Encoder::builder()).expect("the parameters can work");
    same(
        &run(args!["pack", "--cache", "300000"], &content).fine(),
        &by_library,
        "the program's pack",
    );
}

/// Reads from a pipe return less than was asked for.
#[test]
fn slow_input_gives_the_same_output() {
    let trickle = |args: Vec<std::ffi::OsString>, content: &[u8]| {
        let mut child = Command::new(ONCEWIRE)
            .args(args)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("the program starts");
        let mut stdin = child.stdin.take().expect("it is a pipe");
        std::thread::scope(|scope| {
            scope.spawn(move || {
                let (mut random, mut rest) = (Xoshiro::new(1, 0), content);
                while !rest.is_empty() {
                    let (now, later) = rest.split_at((1 + random.below(3000)).min(rest.len()));
                    stdin.write_all(now).expect("the program reads");
                    rest = later;
                }
            });
            let output = child.wait_with_output().expect("a child of ours");
            assert!(output.status.success());
            output.stdout
        })
    };
    let content = versions(400_000);
    let at_once = run(args!["pack"], &content).fine();
    same(&trickle(args!["pack"], &content), &at_once, "packed from a trickle");
    same(&trickle(args!["unpack"], &at_once), &content, "unpacked from a trickle");
}

#[test]
fn incompressible_content_hardly_grows() {
    let content = noise(7, 1 << 20);
    for entropy in ["coded", "lz4", "none"] {
        let packed = through_pipes(&content, &["--entropy", entropy]);
        assert!(
            packed.len() < content.len() + content.len() / 1000 + 100,
            "{} bytes by {entropy}",
            packed.len()
        );
    }
}

#[test]
fn a_second_copy_costs_almost_nothing() {
    let once = through_pipes(&tz(0), &[]).len();
    let twice = through_pipes(&[tz(0), tz(0)].concat(), &[]).len();
    assert!(twice - once < 2000, "{} bytes for the second copy", twice - once);
}
