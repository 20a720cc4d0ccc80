//! Reports for programs: one JSON document, or CSV, on standard output.

use crate::support::*;
use serde_json::Value;
use std::ffi::OsString;
use std::path::Path;

#[track_caller]
fn document(args: Vec<OsString>, stdin: &[u8]) -> Value {
    let out = run(args, stdin).fine();
    assert_eq!(out.last(), Some(&b'\n'), "a text file ends its last line");
    serde_json::from_slice(&out)
        .unwrap_or_else(|error| panic!("{error}: {}", String::from_utf8_lossy(&out)))
}

fn number(value: &Value, name: &str) -> f64 {
    value[name].as_f64().unwrap_or_else(|| panic!("{name} is no number in {value}"))
}

#[test]
fn pack_and_unpack() {
    let dir = Dir::new();
    let (pack, output) = (dir.join("pack"), dir.join("output"));
    let content = [tz(0), tz(1)].concat();

    let report = document(args!["pack", "-o", pack, "--json", "--cache", "3M"], &content);
    let packed = read(&pack).len() as f64;
    assert_eq!(number(&report, "bytes_in"), content.len() as f64);
    assert_eq!(number(&report, "bytes_out"), packed);
    assert_eq!(number(&report, "cache_bytes"), f64::from(3 << 20));
    assert_eq!(number(&report, "base_bytes"), 0.0);
    assert!((number(&report, "savings") - (1.0 - packed / content.len() as f64)).abs() < 1e-9);
    assert!(number(&report, "seconds") > 0.0);
    assert!(number(&report, "matches") > 0.0);
    assert!(number(&report, "mean_match_bytes") >= 32.0);
    assert!((4.0..64.0).contains(&number(&report, "bytes_per_fingerprint")));

    let back = document(args!["unpack", pack, "-o", output, "--json"], b"");
    for (name, other) in
        [("bytes_in", "bytes_out"), ("bytes_out", "bytes_in"), ("cache_bytes", "cache_bytes")]
    {
        assert_eq!(back[name], report[other], "{name}");
    }
    assert_eq!(back["savings"], report["savings"]);
    assert!(number(&back, "seconds") > 0.0);
    same(&read(&output), &content, "beside the report");
}

#[test]
fn pack_and_unpack_with_a_base_and_with_nothing() {
    let dir = Dir::new();
    let (pack, output) = (dir.join("pack"), dir.join("output"));
    let report =
        document(args!["pack", "--base", tz_path(0), tz_path(1), "-o", pack, "--json"], b"");
    assert_eq!(number(&report, "base_bytes"), tz(0).len() as f64);
    assert_eq!(number(&report, "bytes_in"), tz(1).len() as f64);
    let back = document(args!["unpack", "--base", tz_path(0), pack, "-o", output, "--json"], b"");
    assert_eq!(back["base_bytes"], report["base_bytes"]);

    let report = document(args!["pack", "-o", pack, "--json"], b"");
    assert_eq!((number(&report, "bytes_in"), number(&report, "savings")), (0.0, 0.0));
    assert_eq!((&report["matches"], &report["mean_match_bytes"]), (&Value::from(0), &Value::Null));
    document(args!["unpack", pack, "-o", output, "--json"], b"");
}

#[test]
fn pack_within_a_budget() {
    let dir = Dir::new();
    let (pack, output) = (dir.join("pack"), dir.join("output"));
    let content = [tz(0), tz(1), noise(1, 300_000), tz(0)].concat();
    for threads in 1..=3 {
        // The smallest share, so that some blocks pass unchanged.
        for share in ["0.1%", "6400%"] {
            let report = document(
                args![
                    "pack",
                    "-o",
                    pack,
                    "--json",
                    "--cpu-budget",
                    share,
                    "--threads",
                    threads.to_string(),
                    "--block",
                    "8K"
                ],
                &content,
            );
            let budget = &report["cpu_budget"];
            let efforts = budget["efforts"].as_array().expect("a list");
            let sum = |name: &str| efforts.iter().map(|effort| number(effort, name)).sum::<f64>();
            assert_eq!(sum("bytes"), content.len() as f64);
            assert!(sum("cpu_seconds") > 0.0 && sum("seconds") <= number(&report, "seconds"));
            if share == "0.1%" {
                assert_eq!(number(budget, "share"), 0.001);
                assert!(number(budget, "changes") > 0.0, "{report}");
                assert!(
                    efforts.iter().any(|effort| effort["effort"] == "passed literally"),
                    "{report}"
                );
            } else {
                assert_eq!((number(budget, "changes"), efforts.len()), (0.0, 1));
            }
            run(args!["unpack", pack, "-o", output], b"").fine();
            same(&read(&output), &content, "whatever was spent on it");
        }
    }
    let report = document(args!["pack", "-o", pack, "--json"], &content);
    assert_eq!(report["cpu_budget"], Value::Null);
}

/// Content and report cannot share standard output.
#[test]
fn json_needs_an_output_file() {
    for verb in ["pack", "unpack"] {
        assert!(run(args![verb, "--json"], b"").fails(2, &["--json", "-o"]).is_empty());
        assert!(run(args![verb, "--json", "-o", "-"], b"").fails(2, &["--json", "-o"]).is_empty());
    }
}

const RIVALS: [&str; 8] = [
    "copy + xxh3 (the floor)",
    "lz4 (lz4_flex), each block",
    "zstd -1, stream flushed",
    "zstd -3, stream flushed",
    "zstd -1 --long=27, file",
    "zstd -1 --long=31, file",
    "zstd -3 --long=31, file",
    "gzip -6 (zlib-rs), file",
];

#[test]
fn bench_as_json() {
    let args = args![
        "bench",
        tz_path(0),
        tz_path(1),
        "--json",
        "--passes",
        "2",
        "--runs",
        "2",
        "--cache",
        "6M"
    ];
    let report = document(args, b"");
    let total = number(&report["setting"], "bytes");
    assert_eq!(total, (tz(0).len() + tz(1).len()) as f64);
    assert_eq!(report["setting"]["files"].as_array().map(Vec::len), Some(2));
    assert_eq!(
        (&report["setting"]["passes"], &report["setting"]["runs"]),
        (&Value::from(2), &Value::from(2))
    );
    assert!(
        ["portable", "avx2", "avx512"]
            .contains(&report["setting"]["kernels"].as_str().expect("a name"))
    );

    let figures = report["figures"].as_array().expect("a list");
    let names: Vec<&str> =
        figures.iter().map(|figure| figure["name"].as_str().expect("a name")).collect();
    for rival in RIVALS {
        assert_eq!(names.iter().filter(|&&name| name == rival).count(), 1, "{rival}");
    }
    assert_eq!(
        names.iter().filter(|name| name.starts_with("oncewire ")).count(),
        2,
        "without and with zstd"
    );
    for figure in figures {
        let name = figure["name"].as_str().expect("a name");
        let ours = name.starts_with("oncewire ");
        assert_eq!(figure["cache_bytes"].as_u64(), ours.then_some(6 << 20));
        let passes = figure["passes"].as_array().expect("a list");
        assert_eq!(passes.len(), 2);
        let wire: Vec<f64> = passes.iter().map(|pass| number(pass, "wire_bytes")).collect();
        assert!(
            wire.iter().all(|&wire| wire > 0.0 && wire <= total * 1.001 + 100.0),
            "{name}: {wire:?}"
        );
        for pass in passes {
            assert!(
                (number(pass, "savings") - (1.0 - number(pass, "wire_bytes") / total)).abs() < 1e-9
            );
            for direction in ["encode", "decode"] {
                let times = pass[direction].as_array().expect("a list");
                assert_eq!(times.len(), 2);
                assert!(
                    times.iter().all(|time| number(time, "wall_seconds") > 0.0
                        && number(time, "cpu_seconds") >= 0.0)
                );
            }
        }
        match name {
            "copy + xxh3 (the floor)" => assert_eq!(wire, [total, total]),
            _ => assert!(wire[0] < total / 2.0, "{name}: {wire:?}"),
        }
        if ours {
            assert!(wire[1] < total / 1000.0, "{name}: the repeat took {}", wire[1]);
            assert!(number(figure, "encoder_memory_bytes") >= f64::from(6 << 20));
            assert!(number(figure, "decoder_memory_bytes") >= f64::from(6 << 20));
        }
    }
}

#[test]
fn bench_opens_compressed_content() {
    let dir = Dir::new();
    let zstd = |content: &[u8]| {
        let mut out = vec![0; zstd_safe::compress_bound(content.len())];
        let len = zstd_safe::compress(&mut out[..], content, 3).expect("it fits");
        out.truncate(len);
        out
    };
    let first = tz(0);
    let second = [&first[..50_000], b"a change", &first[50_000..]].concat();
    let files = [dir.write("first", &zstd(&first)), dir.write("second", &zstd(&second))];
    let args = args!["bench", &files[0], &files[1], "--json", "--runs", "1", "--no-rivals"];
    let report = document([args, args!["--entropy", "coded", "--inside", "on,off"]].concat(), b"");
    let [on, off] = [0, 1].map(|nth| &report["figures"][nth]);
    assert!(off["name"].as_str().is_some_and(|name| name.ends_with(" inside off")), "{off}");
    let of = |figure: &Value, name: &str| number(&figure["passes"][0], name);
    assert!(of(on, "wire_bytes") < 0.9 * of(off, "wire_bytes"), "{on} {off}");
    assert!(of(on, "opened_bytes") > 0.0 && of(off, "opened_bytes") == 0.0, "{on} {off}");
}

#[test]
fn bench_as_csv() {
    let dir = Dir::new();
    let csv = dir.join("a/b");
    let args = args![
        "bench",
        tz_path(0),
        "--csv",
        csv,
        "--passes",
        "2",
        "--runs",
        "1",
        "--cache",
        "4M,300000",
        "--block",
        "64K,1448",
        "--samplers",
        "samplebyte,fixed",
        "--periods",
        "32,64",
        "--windows",
        "16,32",
        "--entropy",
        "none,lz4,coded-1",
    ];
    let shown = String::from_utf8(run(args, b"").fine()).expect("text");
    assert!(
        shown.contains("samplebyte p=32") && !shown.contains("wire_bytes"),
        "the table is for people: {shown}"
    );
    let mut lines = csv::Reader::from_path(csv.join("figures.csv")).expect("a table");
    let head = lines.headers().expect("a header").clone();
    let rows: Vec<csv::StringRecord> = lines.records().collect::<Result<_, _>>().expect("rows");
    let column = |name: &str| {
        head.iter().position(|cell| cell == name).unwrap_or_else(|| panic!("no column {name}"))
    };
    // Settings per block size: caches, samplers, periods, windows, entropy stages; then the others;
    // each in two passes.
    assert_eq!(rows.len(), 2 * (2 * 2 * 2 * 2 * 3 + RIVALS.len()) * 2);
    for row in &rows {
        assert_eq!(row.len(), head.len(), "{row:?}");
        assert!(
            ["64K", "1448"]
                .map(|block| if block == "64K" { "65536" } else { block })
                .contains(&&row[column("block_bytes")][..])
        );
        for name in [
            "wire_bytes",
            "savings",
            "encode_cpu_median_s",
            "encode_wall_median_s",
            "decode_cpu_best_s",
            "pass",
        ] {
            let value: f64 = row[column(name)]
                .parse()
                .unwrap_or_else(|_| panic!("{name} is {}", &row[column(name)]));
            assert!(value.is_finite());
        }
        let ours = row[0].starts_with("oncewire ");
        assert_eq!(row[column("cache_bytes")].is_empty(), !ours);
        assert_eq!(row[column("matches")].is_empty(), !ours);
    }
}

/// A repeat is not measured where its blocks end where they did before.
#[test]
fn the_second_pass_of_bench_has_other_blocks() {
    let dir = Dir::new();
    let file = dir.join("blocks");
    let mut random = Xoshiro::new(3, 0);
    let content: Vec<u8> =
        std::iter::repeat_with(|| random.next_u64() as u8).take(4 << 16).collect();
    std::fs::write(&file, content).expect("a file");
    let args = args!["bench", "--passes", "2", "--runs", "1", "--no-rivals", "--json", file];
    let report = document(args, b"");
    for figure in report["figures"].as_array().expect("a list") {
        // The end and the beginning of the content are in one block.
        let matches = number(&figure["passes"][1], "matches");
        assert_eq!(matches, 5.0, "{figure}");
    }
}

#[test]
fn bench_as_a_table() {
    let out =
        run(args!["bench", tz_path(0), "--runs", "1", "--cache", "4M", "--packets"], b"").fine();
    let text = String::from_utf8(out).expect("text");
    for word in RIVALS.into_iter().chain([
        "oncewire samplehash p=32 w=32 none",
        "saved",
        "encode",
        "matches",
        "Cache: 4 MiB",
    ]) {
        assert!(text.contains(word), "{word:?} is missing:\n{text}");
    }
}

#[test]
fn bench_with_every_kernel_agrees() {
    let bytes = |kernels: &str| {
        let ran = run(
            args![
                "bench",
                tz_path(0),
                "--json",
                "--runs",
                "1",
                "--no-rivals",
                "--cache",
                "4M",
                "--kernels",
                kernels
            ],
            b"",
        );
        if ran.code == Some(2) {
            ran.fails(2, &["this machine cannot run", kernels]);
            return None;
        }
        let report: Value = serde_json::from_slice(&ran.fine()).expect("one document");
        assert_eq!(report["setting"]["kernels"], kernels);
        let figures = report["figures"].as_array().expect("a list").iter();
        Some(
            figures.map(|figure| figure["passes"][0]["wire_bytes"].clone()).collect::<Vec<Value>>(),
        )
    };
    let portable = bytes("portable").expect("it runs everywhere");
    for kernels in ["avx2", "avx512"] {
        assert!(bytes(kernels).is_none_or(|others| others == portable), "{kernels}");
    }
}

#[test]
fn demo_as_json() {
    let report = document(args!["demo", "--json"], b"");
    assert_eq!(report["verified"], true);
    let transfers = report["transfers"].as_array().expect("a list");
    let text = |transfer: &Value, name: &str| transfer[name].as_str().expect("text").to_string();
    let told: Vec<_> = transfers
        .iter()
        .map(|one| (number(one, "client"), text(one, "direction"), text(one, "name")))
        .collect();
    let told: Vec<_> = told
        .iter()
        .map(|(client, direction, name)| (*client, &direction[..], &name[7..]))
        .collect();
    let (down, up) = ("download", "upload");
    let expected = [
        (1.0, down, "2026.3.tar"),
        (2.0, down, "2026.3.tar"),
        (3.0, down, "2026.4.tar"),
        (1.0, down, "2026.5.tar"),
        (2.0, down, "2026.3.tar.gz"),
        (3.0, down, "2026.4.tar.gz"),
        (1.0, down, "2026.5.tar.gz"),
        (2.0, up, "2026.5.tar"),
    ];
    assert_eq!(told, expected);
    for (i, transfer) in transfers.iter().enumerate() {
        let (bytes, wire) = (number(transfer, "bytes"), number(transfer, "wire_bytes"));
        let gzipped = (4..7).contains(&i);
        assert_eq!(bytes == tz(0).len() as f64, !gzipped);
        assert!((number(transfer, "savings") - (1.0 - wire / bytes)).abs() < 1e-9);
        // The first file in each direction is new to that direction, and so is the first in gzip.
        let new = i == 0 || i == 7;
        let most = match i {
            0 | 7 => bytes / 5.0,
            4 => bytes * 1.01,
            5 | 6 => bytes / 10.0,
            _ => bytes / 50.0,
        };
        assert!(wire > 0.0 && wire < most, "transfer {i}: {wire}");
        assert!(number(transfer, "seconds") > 0.0);
        if gzipped {
            // Rivals find little in it.
            assert!(number(transfer, "zstd_long_bytes") > 0.7 * bytes, "{transfer}");
            continue;
        }
        // Tools that start fresh with each transfer cost the same each time; one stream for all
        // does not.
        let of = |name: &str| number(transfer, name) / bytes;
        assert!(
            of("gzip_bytes") > 0.1 && of("zstd_bytes") > 0.09 && of("ssh_bytes") > 0.1,
            "{transfer}"
        );
        assert!(
            if new { of("zstd_long_bytes") > 0.09 } else { of("zstd_long_bytes") < 0.01 },
            "{transfer}"
        );
    }
}

#[test]
fn demo_with_given_files() {
    let dir = Dir::new();
    let (one, two) = (dir.write("one", &versions(300_000)), dir.write("two", &versions(310_001)));
    let empty = dir.write("empty", b"");
    for settings in [
        &[][..],
        &["--entropy", "none"],
        &["--memory", "64M"],
        &["--window", "12", "--period", "4"],
    ] {
        let mut args = args!["demo", one, two, empty, "--json"];
        args.extend(settings.iter().map(Into::into));
        let report = document(args, b"");
        assert_eq!(report["transfers"].as_array().map(Vec::len), Some(6));
    }
    let table = String::from_utf8(run(args!["demo", one], b"").fine()).expect("text");
    assert!(table.contains("2  GET one") && table.contains("3  PUT one"), "{table}");
}

/// The program contains them as a pack.
#[test]
fn the_demo_contains_the_releases_of_the_test_data() {
    let pack = Path::new(env!("CARGO_MANIFEST_DIR")).join("assets/tz.ow");
    let releases = run(args!["unpack", pack], b"").fine();
    same(&releases, &[tz(0), tz(1), tz(2)].concat(), "crates/cli/assets/tz.ow beside testdata/tz");
}
