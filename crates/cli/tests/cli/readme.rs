//! The README holds: its commands run as written from a checkout, and its outputs are what the program prints.
//!
//! `cargo test -p oncewire --test cli readme` is the check. Every `sh` block is run line by line, in order, and every `text` block names the
//! command that printed it in the comment before it. There `...` stands for lines left out. All numbers must be equal, except those that
//! depend on how a run's packets fall: see [`same_line`].
#![cfg(unix)]

use crate::support::*;
use std::path::{Path, PathBuf};
use std::process::Command;

/// How lines begin that need a second host, a peer, root or a registry. Everything else runs.
const ELSEWHERE: [&str; 8] = [
    "cargo install ",
    "oncewire serve ",
    "oncewire connect ",
    "oncewire status",
    "oncewire study --interface ",
    "tcpdump ",
    "curl ",
    "tar c . | oncewire pack | ssh ",
];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().expect("the checkout")
}

fn readme() -> String {
    String::from_utf8(read(&root().join("README.md"))).expect("text")
}

/// Blocks of that kind, each with the line before it that is not empty.
fn blocks(text: &str, kind: &str) -> Vec<(String, Vec<String>)> {
    let (mut blocks, mut before) = (Vec::new(), String::new());
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        if let Some(found) = line.strip_prefix("```") {
            let content = lines.by_ref().take_while(|line| *line != "```").map(String::from).collect();
            if found == kind {
                blocks.push((before.clone(), content));
            }
        } else if !line.is_empty() {
            before = line.to_string();
        }
    }
    blocks
}

/// A directory with what a checkout has that commands name, so that they leave nothing in the real one.
fn checkout() -> Dir {
    let dir = Dir::new();
    for name in ["docs", "testdata"] {
        std::os::unix::fs::symlink(root().join(name), dir.join(name)).expect("a link");
    }
    dir
}

/// Runs a line of shell as in a checkout after an installation.
fn shell(dir: &Dir, line: &str) -> Ran {
    let bin = Path::new(ONCEWIRE).parent().expect("a directory").display().to_string();
    let path = format!("{bin}:{}", std::env::var("PATH").unwrap_or_default());
    let mut command = Command::new("sh");
    command.args(["-c", line]).current_dir(dir.path()).env("PATH", path).env_remove("COLUMNS").env_remove("XDG_RUNTIME_DIR");
    Ran::of(command.output().expect("a shell"))
}

#[test]
fn commands_run_as_written() {
    let dir = checkout();
    let mut used = vec![false; ELSEWHERE.len()];
    let mut count = 0;
    for (_, block) in blocks(&readme(), "sh") {
        for line in block.join("\n").replace("\\\n", " ").lines() {
            let line = line.split("  #").next().unwrap_or(line).trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            if let Some(at) = ELSEWHERE.iter().position(|start| line.starts_with(start)) {
                used[at] = true;
                continue;
            }
            assert!(line.contains("oncewire "), "what is this command for? {line}");
            let ran = shell(&dir, line);
            assert_eq!(ran.code, Some(0), "{line}: {}", ran.err);
            count += 1;
        }
    }
    assert!(count >= 10, "{count} commands ran");
    for (start, used) in ELSEWHERE.iter().zip(used) {
        assert!(used, "no command of the README begins with {start:?} any more");
    }
}

#[test]
fn outputs_are_what_the_program_prints() {
    let dir = checkout();
    let blocks = blocks(&readme(), "text");
    assert!(blocks.len() >= 3, "{} outputs", blocks.len());
    for (before, expected) in blocks {
        let command = before.strip_prefix("<!-- output of: ").and_then(|rest| rest.strip_suffix(" -->"));
        let command = command.unwrap_or_else(|| panic!("name the command in a comment before the block: {before}"));
        let ran = shell(&dir, command);
        assert_eq!(ran.code, Some(0), "{command}: {}", ran.err);
        let printed = String::from_utf8(ran.out).expect("text");
        let (mut rest, mut skip) = (printed.lines(), false);
        for line in &expected {
            if line == "..." {
                skip = true;
                continue;
            }
            let found = if skip { rest.find(|printed| same_line(line, printed)) } else { rest.next() };
            let told = found.filter(|printed| same_line(line, printed));
            assert!(told.is_some(), "{command} does not print\n{line}\nbut {found:?} there, of\n{printed}");
            skip = false;
        }
        assert!(skip || rest.all(str::is_empty), "{command} prints more than the README shows:\n{printed}");
    }
}

/// Whether a line is what was printed. What a transfer through the tunnel takes on the wire may differ by 5 % and 500 bytes, since it
/// depends on how the bytes arrive: in which blocks they are encoded, and how many acknowledgments there are. Savings follow.
fn same_line(expected: &str, printed: &str) -> bool {
    let of = |line: &str| line.split_whitespace().map(String::from).collect::<Vec<String>>();
    let (expected, printed) = (of(expected), of(printed));
    let transfer = |words: &[String]| words.get(1).is_some_and(|verb| verb == "GET" || verb == "PUT");
    let total = |words: &[String]| words.first().is_some_and(|word| word == "Oncewire,");
    if expected.len() != printed.len() || !(transfer(&expected) || total(&expected)) || expected.len() < 4 {
        return expected == printed;
    }
    // Both end with the bytes on the wire, their unit, the savings and a percent sign.
    let split = expected.len() - 4;
    let (Some(a), Some(b)) = (measured(&expected[split..]), measured(&printed[split..])) else { return false };
    expected[..split] == printed[..split] && (a.0 - b.0).abs() <= 0.05 * a.0 + 500.0 && (a.1 - b.1).abs() <= 1.0
}

/// Bytes and percent.
fn measured(words: &[String]) -> Option<(f64, f64)> {
    let [number, unit, percent, sign] = words else { return None };
    let unit = match &unit[..] {
        "B" => 1.0,
        "kB" => 1e3,
        "MB" => 1e6,
        _ => return None,
    };
    (sign == "%").then_some((number.parse::<f64>().ok()? * unit, percent.parse().ok()?))
}

#[test]
fn the_comparison_sees_what_changed() {
    let row = "     1  GET tzdata-2026.3.tar  993 kB   147 kB  99.2 kB    105 kB  89.4 %";
    assert!(same_line(row, &row.replace("105 kB", "108 kB").replace("89.4", "89.1")));
    assert!(same_line(
        "Oncewire, one tunnel for all clients  229 kB  96.2 %",
        "Oncewire, one tunnel for all clients  231 kB  96.1 %"
    ));
    for (from, to) in [("105 kB", "118 kB"), ("105 kB", "105 MB"), ("147 kB", "148 kB"), ("89.4", "91.4"), ("2026.3", "2026.4")] {
        assert!(!same_line(row, &row.replace(from, to)), "{from} to {to}");
    }
    assert!(!same_line("zstd -3, each on its own  597 kB  90.0 %", "zstd -3, each on its own  598 kB  90.0 %"));
}
