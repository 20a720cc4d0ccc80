//! The documentation is correct: commands in README.md and docs/GUIDE.md run as written, and
//! outputs are what the program prints.
//!
//! Run `cargo test -p oncewire --test cli readme`. Every `sh` block runs line by line, in order,
//! and every `text` block names the command that printed it in the comment before it; `...` in a
//! block stands for lines left out. All numbers must be equal, except those that vary from run to
//! run: see [`same_line`]. [`picture`] does the same for the picture.
#![cfg(unix)]

use crate::support::*;

mod picture;

/// The documents with commands and outputs, by their paths in the checkout.
const DOCUMENTS: [&str; 2] = ["README.md", "docs/GUIDE.md"];

/// Prefixes of commands that need a second host, a peer, root, a registry or another program. All
/// other commands run.
const ELSEWHERE: [&str; 13] = [
    "cargo install ",
    "oncewire serve ",
    "oncewire connect ",
    "oncewire link ",
    "oncewire status",
    "oncewire top",
    "oncewire report",
    "oncewire study --interface ",
    "tcpdump ",
    "curl ",
    "https_proxy=",
    "tar c . | oncewire pack | ssh ",
    "zstd -d ",
];

fn document(name: &str) -> String {
    String::from_utf8(read(&root().join(name))).expect("text")
}

/// The fenced blocks of a language, each with the last non-empty line before it.
fn blocks(text: &str, kind: &str) -> Vec<(String, Vec<String>)> {
    let (mut blocks, mut before) = (Vec::new(), String::new());
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        if let Some(found) = line.strip_prefix("```") {
            let content =
                lines.by_ref().take_while(|line| *line != "```").map(String::from).collect();
            if found == kind {
                blocks.push((before.clone(), content));
            }
        } else if !line.is_empty() {
            before = line.to_string();
        }
    }
    blocks
}

#[test]
fn commands_run_as_written() {
    let mut used = vec![false; ELSEWHERE.len()];
    for name in DOCUMENTS {
        let dir = checkout();
        let mut count = 0;
        for (_, block) in blocks(&document(name), "sh") {
            for line in block.join("\n").replace("\\\n", " ").lines() {
                let line = line.split("  #").next().unwrap_or(line).trim();
                if line.is_empty() || line.starts_with('#') {
                    continue;
                }
                if let Some(at) = ELSEWHERE.iter().position(|start| line.starts_with(start)) {
                    used[at] = true;
                    continue;
                }
                assert!(
                    line.contains("oncewire "),
                    "{name}: a command that does not run oncewire: {line}"
                );
                let ran = Ran::of(shell(&dir, line).output().expect("a shell"));
                assert_eq!(ran.code, Some(0), "{name}: {line}: {}", ran.err);
                count += 1;
            }
        }
        let least = if name == "README.md" { 5 } else { 14 };
        assert!(count >= least, "{name}: only {count} commands ran");
    }
    for (start, used) in ELSEWHERE.iter().zip(used) {
        assert!(used, "no command begins with {start:?} any more");
    }
}

#[test]
fn outputs_are_what_the_program_prints() {
    let dir = checkout();
    let mut printed_by = std::collections::HashMap::new();
    let mut count = 0;
    for name in DOCUMENTS {
        for (before, expected) in blocks(&document(name), "text") {
            let command =
                before.strip_prefix("<!-- output of: ").and_then(|rest| rest.strip_suffix(" -->"));
            let command = command.unwrap_or_else(|| {
                panic!("{name}: no command in a comment before the block: {before}")
            });
            let printed =
                printed_by.entry(command.to_owned()).or_insert_with(|| output_of(&dir, command));
            check_block(&format!("{name}: {command}"), &expected, printed);
            count += 1;
        }
    }
    assert!(count >= 4, "only {count} outputs");
}

/// Standard output of a command that succeeds.
fn output_of(dir: &Dir, command: &str) -> String {
    let ran = Ran::of(shell(dir, command).output().expect("a shell"));
    assert_eq!(ran.code, Some(0), "{command}: {}", ran.err);
    String::from_utf8(ran.out).expect("text")
}

/// Fails unless `printed` consists of the lines of a block, `...` standing for any lines.
fn check_block(place: &str, expected: &[String], printed: &str) {
    let (mut rest, mut skip) = (printed.lines(), false);
    for line in expected {
        if line == "..." {
            skip = true;
            continue;
        }
        let found = if skip { rest.find(|printed| same_line(line, printed)) } else { rest.next() };
        let same = found.filter(|printed| same_line(line, printed));
        assert!(
            same.is_some(),
            "{place} does not print\n{line}\nbut {found:?} there, of\n{printed}"
        );
        skip = false;
    }
    assert!(
        skip || rest.all(str::is_empty),
        "{place} prints more than the document shows:\n{printed}"
    );
}

/// Whether a line of a document matches a printed line, apart from spaces. The wire bytes of a
/// transfer through the tunnel may differ by 5 % plus 2,000 bytes, and the savings by 1.5 points: they
/// depend on how the bytes arrive, which decides where blocks end and how many acknowledgments
/// there are.
fn same_line(expected: &str, printed: &str) -> bool {
    let of = |line: &str| line.split_whitespace().map(String::from).collect::<Vec<String>>();
    let (expected, printed) = (of(expected), of(printed));
    let transfer =
        |words: &[String]| words.get(1).is_some_and(|verb| verb == "GET" || verb == "PUT");
    let total = |words: &[String]| words.first().is_some_and(|word| word == "all");
    if expected.len() != printed.len()
        || !(transfer(&expected) || total(&expected))
        || expected.len() < 4
    {
        return expected == printed;
    }
    // Both lines end with the bytes on the wire, their unit, the savings and a percent sign.
    let split = expected.len() - 4;
    let (Some(a), Some(b)) = (measured(&expected[split..]), measured(&printed[split..])) else {
        return false;
    };
    expected[..split] == printed[..split]
        && (a.0 - b.0).abs() <= 0.05 * a.0 + 2000.0
        && (a.1 - b.1).abs() <= 1.5
}

/// The bytes and the percentage at the end of a line of the demo.
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
    let row = "     1  GET tzdata-2026.3.tar     993 kB   147 kB  99.2 kB    105 kB   89.4 %";
    assert!(same_line(row, &row.replace("105 kB", "108 kB").replace("89.4", "89.1")));
    assert!(same_line(
        "   all  transfers  6.41 MB  1.47 MB  654 kB  329 kB  94.9 %",
        "   all  transfers  6.41 MB  1.47 MB  654 kB  331 kB  94.8 %"
    ));
    for (from, to) in [
        ("105 kB", "118 kB"),
        ("105 kB", "105 MB"),
        ("147 kB", "148 kB"),
        ("89.4", "91.4"),
        ("2026.3", "2026.4"),
    ] {
        assert!(!same_line(row, &row.replace(from, to)), "{from} to {to}");
    }
    assert!(!same_line(
        "   all  transfers  6.41 MB  1.47 MB  654 kB  329 kB  94.9 %",
        "   all  transfers  6.41 MB  1.47 MB  655 kB  329 kB  94.9 %"
    ));
}
