//! Output on a terminal, which `script` of util-linux provides.
#![cfg(target_os = "linux")]

use crate::support::*;
use std::process::{Command, Stdio};

/// Exit code and screen of a command line; `None` if `script` is not installed.
fn on_a_terminal(line: &str) -> Option<(Option<i32>, String)> {
    let mut command = Command::new("script");
    command
        .args(["-qec", line, "/dev/null"])
        .stdin(Stdio::null())
        .env("TERM", "xterm")
        .env_remove("NO_COLOR");
    let output = command.output().ok()?;
    Some((output.status.code(), String::from_utf8_lossy(&output.stdout).into_owned()))
}

#[test]
fn packed_data_is_not_written_to_a_terminal() {
    for target in ["", " -o -"] {
        let Some((code, screen)) =
            on_a_terminal(&format!("'{ONCEWIRE}' pack '{}'{target}", tz_path(0).display()))
        else {
            oncewire_testkit::skipped!("there is no script here");
            return;
        };
        assert_eq!(code, Some(2), "{} characters", screen.len());
        assert!(screen.contains("-o") && screen.lines().count() == 1, "{screen}");
    }
}

#[test]
fn binary_content_is_not_written_to_a_terminal_and_text_is() {
    let dir = Dir::new();
    for (content, is_text) in [
        (&b"one\ttwo\r\n\xc3\xbc\n"[..], true),
        (b"a\0b", false),
        (b"\x1b[2J", false),
        (b"x\x7f", false),
    ] {
        let pack = dir.write("pack", &run(args!["pack"], content).fine());
        for target in ["", " -o -"] {
            let line = format!("'{ONCEWIRE}' unpack '{}'{target} 2>/dev/null", pack.display());
            let Some((code, screen)) = on_a_terminal(&line) else {
                oncewire_testkit::skipped!("there is no script here");
                return;
            };
            assert_eq!(code, Some(if is_text { 0 } else { 2 }), "{content:?}: {screen}");
            assert_eq!(screen.contains("two"), is_text, "{screen}");
        }
    }
}

#[test]
fn progress_and_the_result_are_shown() {
    let dir = Dir::new();
    let (pack, output) = (dir.join("pack"), dir.join("output"));
    let (pack, output) = (pack.display(), output.display());
    let input = tz_path(0);
    let Some((code, screen)) =
        on_a_terminal(&format!("'{ONCEWIRE}' pack '{}' -o '{pack}'", input.display()))
    else {
        oncewire_testkit::skipped!("there is no script here");
        return;
    };
    assert_eq!(code, Some(0), "{screen}");
    assert!(screen.contains("993 kB ->") && screen.contains("saved"), "{screen}");
    let summary = screen
        .lines()
        .find(|line| line.contains("->"))
        .expect("a summary")
        .rsplit('\r')
        .find(|part| part.contains("->"));
    assert!(summary.expect("a summary").chars().count() <= 80, "{screen}");
    let (code, screen) = on_a_terminal(&format!("'{ONCEWIRE}' unpack '{pack}' -o '{output}'"))
        .expect("it was there before");
    assert_eq!(code, Some(0), "{screen}");
    assert!(screen.contains("-> 993 kB"), "{screen}");
}

#[test]
fn tables_are_as_wide_as_the_terminal() {
    for (columns, width) in [("80", 80), ("97", 97), ("250", 120)] {
        let line = format!("stty rows 40 cols {columns}; env -u COLUMNS '{ONCEWIRE}' demo");
        let Some((code, screen)) = on_a_terminal(&line) else {
            oncewire_testkit::skipped!("there is no script here");
            return;
        };
        assert_eq!(code, Some(0), "{screen}");
        // Overwritten text and colors take no space.
        let plain = |line: &str| {
            let line = line.trim_end_matches('\r').rsplit('\r').next().unwrap_or("").to_string();
            ["\u{1b}[0m", "\u{1b}[1m", "\u{1b}[2m", "\u{1b}[2K"]
                .iter()
                .fold(line, |line, code| line.replace(code, ""))
        };
        let widest = screen.lines().map(|line| plain(line).chars().count()).max().unwrap_or(0);
        // Paragraphs below the tables fill the lines.
        assert!(
            widest <= width && widest > width - 20,
            "{columns}: {widest} columns are used:\n{screen}"
        );
    }
}
