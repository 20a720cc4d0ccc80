//! Usage errors: exit 2, a message with the remedy, and nothing done.

use crate::support::*;
use std::ffi::OsString;

#[test]
fn every_verb_has_help_with_an_example() {
    let commands = commands();
    assert!(commands.len() >= 15, "{commands:?}");
    for verb in &commands {
        for flag in ["--help", "-h"] {
            let help = String::from_utf8(run(args![verb, flag], b"").fine()).expect("text");
            assert!(help.contains(&format!("Usage: oncewire {verb}")), "{help}");
            assert!(
                help.contains("Example") && help.contains(&format!("\n  oncewire {verb}")),
                "{help}"
            );
            let json = match &verb[..] {
                // These run until a signal; they log to standard error, and `status` queries them.
                "serve" | "connect" | "link" => "--log-json",
                // These print pages and scripts.
                "man" | "completions" => "--help",
                _ => "--json",
            };
            assert!(help.contains(json), "{help}");
        }
    }
    let version = String::from_utf8(run(args!["--version"], b"").fine()).expect("text");
    assert_eq!(version, concat!("oncewire ", env!("CARGO_PKG_VERSION"), "\n"));
}

/// Asserts exit 2 with these words, before anything is done.
#[track_caller]
fn refused(args: &[&str], words: &[&str]) -> Ran {
    let dir = Dir::new();
    let input = dir.write("input", &versions(1000));
    let mut all: Vec<OsString> = args.iter().map(Into::into).collect();
    all.push(input.into());
    if args[0] == "pack" || args[0] == "unpack" {
        all.extend(args!["-o", dir.join("output")]);
    }
    let ran = run(all, b"");
    assert_eq!(ran.code, Some(2), "{args:?}: {}", ran.err);
    assert!(ran.out.is_empty(), "{args:?}");
    for word in words {
        assert!(ran.err.contains(word), "{args:?}: {word:?} is not in {}", ran.err);
    }
    dir.holds_only(&["input"]);
    ran
}

#[test]
fn values_out_of_range() {
    // One line each: range and what was given.
    let cases: [(&[&str], &[&str]); 24] = [
        (&["pack", "--window", "5"], &["window of 5", "12 to 64"]),
        (&["pack", "--window", "11"], &["window of 11", "12 to 64"]),
        (&["pack", "--window", "65"], &["window of 65", "12 to 64"]),
        (&["pack", "--period", "2"], &["period of 2", "4 to 1024"]),
        (&["pack", "--period", "3"], &["period of 3", "4 to 1024"]),
        (&["pack", "--period", "1025"], &["period of 1025", "4 to 1024"]),
        (&["pack", "--cache", "0"], &["--cache 0 is", "at least one block"]),
        (&["pack", "--cache", "10"], &["--cache 10 is", "at least one block"]),
        (&["pack", "--cache", "65535"], &["--cache", "at least one block"]),
        (&["pack", "--cache", "2T"], &["--cache", "at most"]),
        (&["pack", "--block", "0"], &["block limit of 0", "1 to 262144"]),
        (&["pack", "--block", "257K"], &["block limit of 263168", "1 to 262144"]),
        (&["pack", "--format", "zstd", "--block", "129K"], &["at most 128K", "--block 129K"]),
        (&["pack", "--level", "0"], &["level 0", "1 to 3"]),
        (&["pack", "--level", "4"], &["level 4", "1 to 3"]),
        (&["pack", "--entropy", "none", "--level", "2"], &["--level belongs to --entropy coded"]),
        (
            &["pack", "--entropy", "coded-1", "--level", "2"],
            &["coded-1 and level 2", "leave one of them out"],
        ),
        (&["bench", "--entropy", "none", "--level", "2"], &["--level belongs to --entropy coded"]),
        (&["bench", "--entropy", "none,coded", "--level", "4"], &["level 4", "1 to 3"]),
        (&["pack", "--entropy", "lz4", "--level", "3"], &["--level belongs to --entropy coded"]),
        (&["bench", "--windows", "32,5"], &["window of 5", "12 to 64"]),
        (&["bench", "--periods", "32,2"], &["period of 2", "4 to 1024"]),
        (&["bench", "--cache", "4M,10"], &["--cache 10 is", "at least one block"]),
        (&["demo", "--window", "5"], &["window of 5", "12 to 64"]),
    ];
    for (args, words) in cases {
        refused(args, words).fails(2, words);
    }
}

#[test]
fn unknown_options_and_values() {
    let cases: [(&[&str], &[&str]); 21] = [
        (&["pack", "--frobnicate"], &["--frobnicate", "--help"]),
        (&["pack", "--windw", "32"], &["--windw", "--window"]),
        (&["pack", "--window", "many"], &["many", "--window"]),
        (&["pack", "--cache", "1.5.G"], &["1.5.G", "not a size", "256M"]),
        (&["pack", "--cache", "12Q"], &["12Q", "not a size"]),
        (&["pack", "--block", "99999999999T"], &["too large for a size"]),
        (&["pack", "--threads", "0"], &["write 1 to 5"]),
        (&["pack", "--threads", "6"], &["write 1 to 5"]),
        (&["pack", "--sampler", "modq"], &["samplebyte", "modp"]),
        (&["pack", "--entropy", "gzip"], &["none", "lz4", "coded"]),
        (&["pack", "--cpu-budget", "25"], &["25", "percentage"]),
        (&["pack", "--cpu-budget", "0%"], &["0%", "0.1% to 6400%"]),
        (&["pack", "another"], &["unexpected argument"]),
        (&["unpack", "--cache", "1M"], &["--cache"]),
        (&["unpack", "--max-cache", "lots"], &["lots", "not a size"]),
        (&["bench", "--entropy", "coded-9"], &["coded-1, coded-2 or coded-3"]),
        (&["pack", "--entropy", "zstd-1"], &["zstd-1 is called coded-1 now"]),
        (&["bench", "--packets", "--block", "1K"], &["cannot be used with"]),
        (&["serve", "--csv", "x"], &["--csv"]),
        (&["bench", "--runs", "0"], &["write 1 to 99"]),
        (&["bench", "--kernels", "sse9"], &["portable", "avx2"]),
    ];
    for (args, words) in cases {
        refused(args, words);
    }
}

#[test]
fn no_command_or_input() {
    for args in [args![], args!["frobnicate"], args!["bench"]] {
        let ran = run(args, b"");
        assert_eq!(ran.code, Some(2));
        assert!(ran.out.is_empty() && ran.err.contains("Usage: oncewire"), "{}", ran.err);
    }
    run(args!["bench", "/dev/null"], b"").fails(1, &["empty", "nothing to measure"]);
}

/// The spellings of a stage are equivalent in all commands.
#[test]
fn entropy_and_level_are_the_same_everywhere() {
    let pack = |more: &[&str]| {
        let mut all = args!["pack", tz_path(0)];
        all.extend(more.iter().map(OsString::from));
        run(all, b"").fine()
    };
    let one = pack(&["--level", "1"]);
    for same in [
        &["--entropy", "coded-1"][..],
        &["--entropy", "coded", "--level", "1"],
        &["--entropy", "coded-1", "--level", "1"],
    ] {
        assert_eq!(pack(same), one, "{same:?}");
    }
    assert_ne!(pack(&[]), one);
    assert_eq!(pack(&[]), pack(&["--entropy", "coded-3"]));
    let names = |more: &[&str]| {
        let mut all =
            args!["bench", tz_path(0), "--json", "--no-rivals", "--runs", "1", "--cache", "4M"];
        all.extend(more.iter().map(OsString::from));
        let report: serde_json::Value =
            serde_json::from_slice(&run(all, b"").fine()).expect("one document");
        let figures = report["figures"].as_array().expect("a list").iter();
        figures
            .map(|figure| {
                figure["name"]
                    .as_str()
                    .expect("a name")
                    .rsplit(' ')
                    .next()
                    .expect("a stage")
                    .to_owned()
            })
            .collect::<Vec<_>>()
    };
    assert_eq!(names(&[]), ["none", "coded-3"]);
    assert_eq!(names(&["--level", "1"]), ["none", "coded-1"]);
    assert_eq!(names(&["--entropy", "coded-2,coded"]), ["coded-2", "coded-3"]);
}

/// 64K and 64KiB are powers of two, 64KB is not; what is printed can be pasted.
#[test]
fn sizes_are_read_the_same_everywhere() {
    let dir = Dir::new();
    let cache = |size: &str| {
        let args = args!["pack", tz_path(0), "-o", dir.join("pack"), "--json", "--cache", size];
        let report: serde_json::Value =
            serde_json::from_slice(&run(args, b"").fine()).expect("one document");
        report["cache_bytes"].as_u64().expect("a number")
    };
    for (size, bytes) in [
        ("4M", 4 << 20),
        ("4 MiB", 4 << 20),
        ("4MB", 4_000_000),
        ("4.5 MB", 4_500_000),
        ("1.5M", 3 << 19),
    ] {
        assert_eq!(cache(size), bytes, "{size}");
    }
}

#[test]
fn exit_codes_are_in_the_help() {
    let help = String::from_utf8(run(args!["--help"], b"").fine()).expect("text");
    for words in
        ["0 done", "1 failed", "2 wrong", "3 corrupt input", "130 interrupted", "64KB is 64,000"]
    {
        assert!(help.contains(words), "{words:?} is missing: {help}");
    }
}

/// The words are ours, not those of a parser.
#[test]
fn numbers_and_hyphens_are_refused_in_our_words() {
    let cases: [(&[&str], &str); 10] = [
        (&["pack", "--threads", "many"], "'--threads <N>': not a whole number\n"),
        (&["pack", "--threads", "99999999999999999999"], "'--threads <N>': out of range\n"),
        (&["pack", "--threads", "-1"], "'--threads <N>': write 1 to 5\n"),
        (&["serve", "--max-sessions", "-5"], "'--max-sessions <N>': not a whole number\n"),
        (&["pack", "--window", ""], "not a whole number\n"),
        (&["pack", "--cache", "-5"], "invalid value '-5' for '--cache <SIZE>': not a size"),
        (&["bench", "x", "--passes", "-5"], "invalid value '-5' for '--passes"),
        (&["bench", "x", "--tables", "flash:8M:"], "or flash:MEMORY:DIR"),
        (&["bench", "x", "--tables", "flash:x:."], "not a size"),
        (&["pack", "--quux"], "unexpected argument '--quux' found\n\nUsage:"),
    ];
    for (args, words) in cases {
        let ran = run(args.iter().map(OsString::from).collect(), b"");
        assert_eq!(ran.code, Some(2), "{args:?}: {}", ran.err);
        assert!(ran.err.contains(words), "{args:?}: {words:?} is not in {}", ran.err);
        for theirs in ["digit found", "as a value, use", "..=", "target type"] {
            assert!(!ran.err.contains(theirs), "{args:?}: {}", ran.err);
        }
    }
    // A tip that helps stays.
    let ran = run(args!["pack", "--windw", "32"], b"");
    assert!(ran.err.contains("tip: a similar argument exists: '--window'"), "{}", ran.err);
}

#[test]
fn sizes_in_errors_have_units() {
    run(args!["pack", "--cache", "100000G"], b"x").fails(2, &["--cache 100000G", "at most 1T"]);
}

#[test]
fn a_closed_standard_output_is_an_error() {
    let dir = Dir::new();
    let pack = dir.write("pack", &run(args!["pack"], b"content").fine());
    let pack = pack.to_str().expect("text");
    let shell = |line: &str| {
        let output = std::process::Command::new("sh")
            .args(["-c", line])
            .env("ONCEWIRE", ONCEWIRE)
            .stdin(std::process::Stdio::null())
            .output();
        Ran::of(output.expect("sh runs"))
    };
    if cfg!(target_os = "linux") {
        for command in ["pack", &format!("unpack {pack}"), "--help >&2; \"$ONCEWIRE\" demo"] {
            let ran = shell(&format!("\"$ONCEWIRE\" {command} >&-"));
            assert_eq!(ran.code, Some(1), "{command}: {}", ran.err);
            assert!(ran.err.contains("standard output: it is closed"), "{command}: {}", ran.err);
        }
    }
    // What nobody wants to see may go nowhere, and nothing is written with -o.
    for command in ["pack >/dev/null", &format!("unpack {pack} -o {pack}.out >&-")] {
        let ran = shell(&format!("\"$ONCEWIRE\" {command}"));
        assert_eq!(ran.code, Some(0), "{command}: {}", ran.err);
    }
}
