//! The whole family on the command line: every sampler, matcher, table and policy, the optimum, and
//! trained tables.

use crate::support::*;
use serde_json::Value;
use std::ffi::OsString;

const SAMPLERS: [&str; 10] = [
    "samplebyte",
    "fixed",
    "modp",
    "modp-published",
    "maxp",
    "maxp-published",
    "gear",
    "fastcdc",
    "samplehash",
    "peaks",
];

fn bench(more: &[&str]) -> Value {
    let mut args = args![
        "bench",
        tz_path(0),
        tz_path(1),
        "--json",
        "--runs",
        "1",
        "--no-rivals",
        "--entropy",
        "none",
        "--cache",
        "8M"
    ];
    args.extend(more.iter().map(OsString::from));
    serde_json::from_slice(&run(args, b"").fine()).expect("one document")
}

fn figures(report: &Value) -> Vec<(String, f64)> {
    let figures = report["figures"].as_array().expect("a list").iter();
    figures
        .map(|figure| {
            let savings = figure["passes"][0]["savings"].as_f64().expect("a number");
            (figure["name"].as_str().expect("a name").to_string(), savings)
        })
        .collect()
}

/// The program compares the decoded bytes of every candidate with the input, so this is a round
/// trip of each.
#[test]
fn every_matcher_with_every_sampler() {
    let samplers = SAMPLERS.join(",");
    let report = bench(&[
        "--samplers",
        &samplers,
        "--matchers",
        "max,published,chunk,chunk-martynov,modified,payload",
    ]);
    let figures = figures(&report);
    // Matchers that use no sampler are measured once.
    assert_eq!(figures.len(), 4 * SAMPLERS.len() + 2, "{figures:?}");
    for (name, savings) in &figures {
        assert!((-0.01..1.0).contains(savings), "{name}: {savings}");
        // Two releases that share most of their bytes. FIXED misses moved content, and moved
        // content affects every whole block.
        let moves = name.contains("fixed") || name.starts_with("payload");
        assert!(moves || *savings > 0.25, "{name}: {savings}");
    }
}

#[test]
fn every_table_policy_and_limit() {
    let report = bench(&[
        "--packets",
        "--samplers",
        "samplebyte",
        "--matchers",
        "max,published,chunk",
        "--tables",
        "compact,buckets,buckets:4x2x1",
        "--policies",
        "all,new-runs,new-runs-apart,new-blocks:60",
        "--max-fingerprints",
        "0,16",
        "--max-matches",
        "0,2",
    ]);
    let figures = figures(&report);
    // Chunk-match has neither table nor policy. Only the papers' max-match has a limit on
    // fingerprints.
    assert_eq!(figures.len(), 3 * 4 * 2 + 3 * 4 * 2 * 2 + 2);
    let of = |name: &str| {
        figures
            .iter()
            .find(|(other, _)| other == name)
            .unwrap_or_else(|| panic!("{name} in {figures:?}"))
            .1
    };
    assert!(
        of("published samplebyte p=32 w=32 none F=16") < of("published samplebyte p=32 w=32 none")
    );
    assert!(
        of("oncewire samplebyte p=32 w=32 none k=2") < of("oncewire samplebyte p=32 w=32 none")
    );
    assert!(of("published samplebyte p=32 w=32 none") < of("oncewire samplebyte p=32 w=32 none"));
}

/// A table in a file finds what one in memory does, and leaves nothing behind.
#[test]
fn a_table_on_flash() {
    let dir = Dir::new();
    let tables = format!("compact,flash:8M:{}", dir.path().display());
    let found = figures(&bench(&["--tables", &tables]));
    let [(_, memory), (name, flash)] = &found[..] else { panic!("{found:?}") };
    assert_eq!(name, "oncewire samplehash p=32 w=32 none flash:8M");
    assert!((memory - flash).abs() < 0.01, "{memory} {flash}");
    dir.holds_only(&[]);
    let refused = |table: &str, code: i32, words: &[&str]| {
        run(args!["bench", tz_path(0), "--tables", table], b"").fails(code, words);
    };
    refused("flash:8M:/no/such/place", 1, &["table", "/no/such/place"]);
    refused("flash:64K:.", 1, &["memory", "2883584"]);
    let published = args!["bench", tz_path(0), "--tables", "flash:8M:.", "--matchers", "published"];
    run(published, b"").fails(2, &["--matchers max"]);
}

#[test]
fn the_optimum_is_an_upper_bound_for_window_matchers() {
    let report = bench(&[
        "--optimal",
        "--matchers",
        "max,published",
        "--windows",
        "16,32",
        "--periods",
        "4,32",
    ]);
    let bounds = report["bounds"].as_array().expect("a list");
    assert_eq!(bounds.len(), 2);
    for bound in bounds {
        let most = bound["passes"][0]["savings"].as_f64().expect("a number");
        assert!((0.3..1.0).contains(&most));
        let random = bound["apparent_savings_of_random_data"].as_f64().expect("a number");
        assert!((0.0..0.03).contains(&random), "{random}");
    }
    for figure in report["figures"].as_array().expect("a list") {
        let share = figure["passes"][0]["share_of_optimal"].as_f64().expect("a number");
        let (low, high) = if figure["name"].as_str().expect("a name").starts_with("published") {
            (0.5, 1.0)
        } else {
            (0.8, 1.1)
        };
        assert!((low..high).contains(&share), "{figure}");
    }
    let text = run(
        args!["bench", tz_path(0), "--runs", "1", "--no-rivals", "--optimal", "--cache", "4M"],
        b"",
    )
    .fine();
    let text = String::from_utf8(text).expect("text");
    for words in [" optimal", "optimal w=32", "100.0 %", "of the windows of random data"] {
        assert!(text.contains(words), "{words:?} is missing:\n{text}");
    }
}

#[test]
fn rates_find_the_period_of_each_sampler() {
    let report = bench(&[
        "--samplers",
        "samplebyte,modp,maxp,fixed",
        "--rates",
        "24",
        "--matchers",
        "published",
    ]);
    for figure in report["figures"].as_array().expect("a list") {
        let achieved = figure["passes"][0]["bytes_per_fingerprint"].as_f64().expect("a number");
        assert!((20.0..29.0).contains(&achieved), "{figure}");
    }
    run(args!["bench", tz_path(0), "--rates", "1"], b"").fails(2, &["rate of 1", "2 to 2048"]);
}

#[test]
fn a_trained_table_is_used_by_name() {
    let dir = Dir::new();
    let (table, pack, back) = (dir.join("site.table"), dir.join("pack"), dir.join("back"));
    let args = args![
        "train",
        tz_path(0),
        tz_path(1),
        "-o",
        table,
        "--test",
        tz_path(1),
        "--test",
        tz_path(2),
        "--json"
    ];
    let report: Value = serde_json::from_slice(&run(args, b"").fine()).expect("one document");
    let bytes = report["bytes"].as_array().expect("a list");
    assert!(!bytes.is_empty() && bytes.len() < 40, "{bytes:?}");
    let tables = report["tables"].as_array().expect("a list");
    let wire = |i: usize| tables[i]["training_wire_bytes"].as_f64().expect("a number");
    assert_eq!((tables.len(), tables[0]["table"].as_str()), (6, Some("trained")));
    // As good as any other table, or nearly so, on the data it was trained for.
    assert!([1, 3, 4, 5].into_iter().all(|other| wire(0) < wire(other) * 1.01), "{tables:?}");
    assert!(tables[0]["test_savings"].as_f64().expect("a number") > 0.2);

    let text = String::from_utf8(read(&table)).expect("text");
    assert_eq!(text.lines().filter(|line| !line.starts_with('#')).count(), bytes.len(), "{text}");
    let named = format!("samplebyte:{}", table.display());
    run(args!["pack", "--sampler", named, tz_path(1), "-o", pack], b"").fine();
    run(args!["unpack", pack, "-o", back], b"").fine();
    same(&read(&back), &tz(1), "with a trained table");
    let report = bench(&["--samplers", &format!("samplebyte,{named}")]);
    assert_eq!(figures(&report)[1].0, format!("oncewire {named} p=32 w=32 none"));

    let text = String::from_utf8(run(args!["train", tz_path(0), "--random", "1"], b"").fine())
        .expect("text");
    for words in
        ["trained", "EndRE's (samplebyte)", "none (samplehash)", "random 1", "Marker bytes", "-o"]
    {
        assert!(text.contains(words), "{words:?} is missing:\n{text}");
    }
    let listed =
        String::from_utf8(run(args!["train", tz_path(0), "--random", "0", "-o", "-"], b"").fine())
            .expect("text");
    assert!(listed.starts_with("# Marker bytes") && listed.lines().count() > 2, "{listed}");
}

#[test]
fn wrong_tables_and_names() {
    let dir = Dir::new();
    let missing = format!("samplebyte:{}", dir.join("missing").display());
    run(args!["pack", "--sampler", missing], b"x")
        .fails(1, &["read the sampler's table", "check the name"]);
    let bad = format!("samplebyte:{}", dir.write("bad", b"32\nhello\n").display());
    run(args!["pack", "--sampler", bad], b"x").fails(3, &["line 2", "hello", "0 to 255"]);
    let empty = format!("samplebyte:{}", dir.write("empty", b"# nothing\n").display());
    run(args!["bench", "--samplers", empty, tz_path(0)], b"").fails(3, &["no byte values"]);
    let large = format!("samplebyte:{}", dir.write("large", &[b' '; 70_000]).display());
    run(args!["pack", "--sampler", large], b"x").fails(3, &["too large", "oncewire train"]);
    #[cfg(unix)]
    run(args!["pack", "--sampler", "samplebyte:/dev/zero"], b"x")
        .fails(3, &["/dev/zero", "too large"]);
    run(args!["bench", tz_path(0), "--tables", "buckets:9x1x1"], b"").fails(2, &["1 to 8"]);
    let noise = dir.write("noise", &noise(5, 50_000));
    run(args!["train", noise], b"").fails(1, &["nothing in the files repeats"]);
    run(args!["train", dir.write("none", b"")], b"").fails(1, &["empty"]);
    run(args!["train", tz_path(0), "-o", dir.join("no/such/place")], b"")
        .fails(1, &["create", "no/such/place"]);
    run(args!["train", tz_path(0), "--window", "5"], b"").fails(2, &["12 to 64"]);
}

#[test]
fn parameters_are_checked_whatever_the_matcher() {
    for matcher in ["max", "chunk", "modified", "payload"] {
        let bench = |more: &[&str]| {
            let mut args =
                args!["bench", tz_path(0), "--no-rivals", "--cache", "8M", "--matchers", matcher];
            args.extend(more.iter().map(OsString::from));
            run(args, b"")
        };
        for block in ["0", "262145"] {
            bench(&["--block", block]).fails(2, &[&format!("of {block} bytes"), "1 to 262144"]);
        }
        if matcher != "payload" {
            bench(&["--periods", "0"]).fails(2, &["4 to 1024"]);
        }
    }
    for gain in ["nan", "-1", "100"] {
        let ran = run(args!["train", tz_path(0), format!("--min-gain={gain}")], b"");
        assert!(ran.code == Some(2) && ran.err.contains("percentage from 0"), "{}", ran.err);
    }
}

/// File names may contain any character, and not every setting decodes.
#[test]
fn every_line_of_csv_has_all_columns() {
    let dir = Dir::new();
    let table = dir.write("odd \"name", b"32 101\n");
    let samplers = format!("samplebyte:{}", table.display());
    let named = samplers.clone();
    let args = args![
        "bench",
        tz_path(0),
        "--csv",
        dir.join("csv"),
        "--runs",
        "1",
        "--no-rivals",
        "--optimal",
        "--matchers",
        "max,modified",
        "--samplers",
        samplers
    ];
    run(args, b"").fine();
    let mut rows = csv::Reader::from_path(dir.join("csv/figures.csv")).expect("a table");
    let columns = rows.headers().expect("a header").len();
    let rows: Vec<csv::StringRecord> =
        rows.records().collect::<Result<_, _>>().expect("rows of one length");
    assert!(rows.iter().any(|row| row[0].contains(&named)), "{rows:?}");
    for row in rows {
        assert_eq!(row.len(), columns);
        assert!(row.iter().all(|field| field != "0.000000"), "{row:?}");
    }
}
