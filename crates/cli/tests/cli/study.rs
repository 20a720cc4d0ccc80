//! `oncewire study`: sources of captures, errors, and outputs.
//!
//! Longer than 600 lines: all tests study captures that the helpers here write.

use crate::support::*;
use serde_json::Value;
use std::ffi::OsString;
use std::io::{Read, Write};
use std::process::{Child, Command, Stdio};

/// A TCP packet on Ethernet, over IPv6 if the hosts are.
pub(crate) fn packet(from: &str, to: &str, payload: &[u8]) -> Vec<u8> {
    use std::net::SocketAddr;
    let (from, to): (SocketAddr, SocketAddr) = (from.parse().unwrap(), to.parse().unwrap());
    let len = 20 + payload.len() as u16;
    let mut bytes = vec![0; 12];
    match (from, to) {
        (SocketAddr::V4(from), SocketAddr::V4(to)) => {
            bytes.extend([0x08, 0x00, 0x45, 0]);
            bytes.extend((20 + len).to_be_bytes());
            bytes.extend([0, 0, 0x40, 0, 64, 6, 0, 0]);
            bytes.extend(from.ip().octets());
            bytes.extend(to.ip().octets());
        }
        (SocketAddr::V6(from), SocketAddr::V6(to)) => {
            bytes.extend([0x86, 0xdd, 0x60, 0, 0, 0]);
            bytes.extend(len.to_be_bytes());
            bytes.extend([6, 64]);
            bytes.extend(from.ip().octets());
            bytes.extend(to.ip().octets());
        }
        _ => unreachable!("hosts of one family"),
    }
    bytes.extend(from.port().to_be_bytes());
    bytes.extend(to.port().to_be_bytes());
    bytes.extend([0, 0, 0, 1, 0, 0, 0, 1, 0x50, 0x10, 0xff, 0xff, 0, 0, 0, 0]);
    bytes.extend(payload);
    bytes
}

/// A pcap of Ethernet packets, a second apart.
pub(crate) fn pcap(packets: &[Vec<u8>]) -> Vec<u8> {
    let words =
        |words: &[u32]| words.iter().flat_map(|word| word.to_le_bytes()).collect::<Vec<u8>>();
    let mut file = words(&[0xa1b2_c3d4, 0x0004_0002, 0, 0, 262_144, 1]);
    for (second, packet) in packets.iter().enumerate() {
        let len = packet.len() as u32;
        file.extend(words(&[1_700_000_000 + second as u32, 0, len, len]));
        file.extend(packet);
    }
    file
}

/// Twenty packets from a server, of which every second one is a copy.
pub(crate) fn packets() -> Vec<Vec<u8>> {
    (0..20).map(|n| packet("192.0.2.1:80", "10.0.0.1:40000", &noise(n / 2, 1000))).collect()
}

/// Bytes of headers of each.
const HEADERS: usize = 54;

/// Arguments of a short study.
macro_rules! study {
    ($($arg:expr),* $(,)?) => { args!["study", "--algorithms", "maxp,oncewire-tunnel", "--figures", "algorithms", "--cache", "1M", $($arg),*] };
}

fn json(ran: Ran) -> Value {
    serde_json::from_slice(&ran.fine()).expect("JSON")
}

fn count(document: &Value, field: &str) -> u64 {
    document["input"][field].as_u64().unwrap_or_else(|| panic!("no {field}"))
}

/// The study found all of [`packets`], and what they repeat.
#[track_caller]
fn found_all(document: &Value) {
    assert_eq!(count(document, "packets"), 20);
    let row = &document["figures"][0]["tables"][0]["rows"][0];
    assert_eq!(row[0], "maxp");
    // A match of 4 bytes and a shim of 12 for each of the copies.
    assert_eq!(row[2].as_f64(), Some(10.0 * 984.0 / (20.0 * (1000 + HEADERS) as f64)));
}

fn compressed(name: &str, content: &[u8]) -> Vec<u8> {
    match name {
        "gz" => {
            let mut encoder =
                flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
            encoder.write_all(content).expect("into memory");
            encoder.finish().expect("into memory")
        }
        "zst" => {
            let mut out = Vec::with_capacity(zstd_safe::compress_bound(content.len()));
            zstd_safe::compress(&mut out, content, 3).expect("room for it");
            out
        }
        _ => {
            let mut encoder =
                lzma_rust2::XzWriter::new(Vec::new(), lzma_rust2::XzOptions::with_preset(0))
                    .expect("options");
            encoder.write_all(content).expect("into memory");
            encoder.finish().expect("into memory")
        }
    }
}

#[test]
fn captures_from_everywhere() {
    let dir = Dir::new();
    let whole = pcap(&packets());
    let document = json(run(study!["-", "--json"], &whole));
    found_all(&document);
    assert_eq!(document["input"]["captures"][0], "standard input");
    let file = dir.write("a.pcap", &whole);
    found_all(&json(run(study![file, "--json"], b"")));
    for name in ["gz", "zst", "xz"] {
        let content = compressed(name, &whole);
        found_all(&json(run(study!["-", "--json"], &content)));
        found_all(&json(run(
            study![dir.write(&format!("a.pcap.{name}"), &content), "--json"],
            b"",
        )));
    }
}

#[test]
fn several_files_are_one_trace() {
    let dir = Dir::new();
    let all = packets();
    std::fs::create_dir(dir.join("sub")).expect("a directory");
    // Originals and copies are in different files.
    let (even, odd): (Vec<_>, Vec<_>) = all.into_iter().enumerate().partition(|(n, _)| n % 2 == 0);
    let only = |some: Vec<(usize, Vec<u8>)>| {
        pcap(&some.into_iter().map(|(_, packet)| packet).collect::<Vec<_>>())
    };
    let (one, two) = (dir.write("1.pcap", &only(even)), dir.write("sub/2.pcap", &only(odd)));
    dir.write("notes.txt", b"these are no packets");
    dir.write("sub/empty", b"");
    let named = json(run(study![&one, &two, "--json"], b""));
    found_all(&named);
    let found = json(run(study![dir.path(), "--json"], b""));
    found_all(&found);
    assert_eq!(found["input"]["captures"].as_array().map(Vec::len), Some(2));
    found_all(&json(run(study![dir.join("**/*.pcap"), "--json"], b"")));
    let first = json(run(study![dir.join("?.pcap"), "--json"], b""));
    assert_eq!(count(&first, "packets"), 10);
}

#[test]
fn packets_and_bytes_add_up() {
    let mut packets = packets();
    packets.push(vec![0xff; 60]);
    packets.push(packets[0][..30].to_vec());
    packets.push(packet("192.0.2.1:80", "10.0.0.1:40000", b""));
    let document = json(run(
        args!["study", "-", "--json", "--cache", "1M", "--figures", "all", "--algorithms", "all"],
        &pcap(&packets),
    ));
    let sum = |of: &str, field: &str| {
        let shares = document["accounting"][of].as_array().expect("a list");
        shares.iter().map(|share| share[field].as_u64().expect("a count")).sum::<u64>()
    };
    assert_eq!(count(&document, "packets"), 23);
    assert_eq!(
        count(&document, "wire_bytes"),
        packets.iter().map(|packet| packet.len() as u64).sum::<u64>()
    );
    for field in ["packets", "bytes"] {
        let all = count(&document, if field == "bytes" { "wire_bytes" } else { field });
        assert_eq!(sum("used", field) + sum("unused", field), all, "{field}");
    }
    assert_eq!(sum("unused", "packets"), 2);
    assert_eq!(sum("bytes", "bytes"), sum("used", "bytes"));
    // Fields that the `jq .verdict` of help and scripts rely on.
    assert!(document["verdict"]["headline"].as_str().is_some_and(|text| text.contains('%')));
    let figures = document["figures"].as_array().expect("figures");
    assert_eq!(figures.len(), 16);
    for figure in figures {
        for table in figure["tables"].as_array().expect("tables") {
            let columns = table["columns"].as_array().expect("columns").len();
            for row in table["rows"].as_array().expect("rows") {
                assert_eq!(row.as_array().map(Vec::len), Some(columns), "{}", figure["id"]);
            }
        }
    }
}

#[test]
fn a_truncated_capture_is_studied_up_to_its_end() {
    let dir = Dir::new();
    let whole = pcap(&packets());
    let cut = dir.write("cut.pcap", &whole[..whole.len() - 100]);
    for args in [study![&cut, "--json"], study!["-", "--json"]] {
        let ran = run(args, &whole[..whole.len() - 100]);
        assert_eq!(ran.code, Some(0), "{}", ran.err);
        assert!(
            ran.err.starts_with("oncewire: ")
                && ran.err.contains("truncated")
                && ran.err.lines().count() == 1,
            "{}",
            ran.err
        );
        let document: Value = serde_json::from_slice(&ran.out).expect("JSON");
        assert_eq!(count(&document, "packets"), 19);
        let why = document["input"]["damaged"][0][1].as_str();
        assert!(why.is_some_and(|why| why.contains("truncated")));
    }
    // Captures after it in the same trace are read.
    let good = dir.write("good.pcap", &whole);
    let ran = run(study![cut, good, "--json"], b"");
    let document: Value = serde_json::from_slice(&ran.out).expect("JSON");
    assert_eq!((ran.code, count(&document, "packets")), (Some(0), 39));
}

#[test]
fn a_corrupt_capture_is_reported_on_and_fails() {
    let dir = Dir::new();
    let mut whole = pcap(&packets());
    let good = dir.write("good.pcap", &whole);
    // The length of the twentieth record is no length.
    let at = whole.len() - 1000 - HEADERS - 8;
    whole[at..at + 4].fill(0xff);
    let bad = dir.write("bad.pcap", &whole);
    let ran = run(study![&bad, good, &bad, "--json"], b"");
    assert_eq!(ran.code, Some(3), "{}", ran.err);
    for part in ["bad.pcap: the capture is corrupt at byte", "1 more capture is incomplete"] {
        assert!(ran.err.contains(part) && ran.err.lines().count() == 1, "{}", ran.err);
    }
    // What could be read is in the report, and other captures are, too.
    let document: Value = serde_json::from_slice(&ran.out).expect("JSON");
    assert_eq!(count(&document, "packets"), 19 + 20 + 19);
}

#[test]
fn invalid_captures() {
    let dir = Dir::new();
    let good = dir.write("good.pcap", &pcap(&packets()));
    let text = dir.write("notes.txt", b"these are no packets, but words");
    run(study![&text], b"").fails(3, &["notes.txt", "not a pcap or pcapng capture"]);
    run(study!["-"], b"these are no packets, but words")
        .fails(3, &["standard input", "not a pcap or pcapng capture"]);
    run(study!["-"], b"").fails(3, &["empty"]);
    run(study![dir.join("none.pcap")], b"").fails(1, &["none.pcap", "check the name"]);
    run(study![dir.join("*.none")], b"").fails(1, &["no file matches"]);
    // Before the valid one is read, and without a report.
    run(study![&good, &text, "--report", dir.join("report.html")], b"").fails(3, &["notes.txt"]);
    run(study![&good, dir.join("none.pcap"), "--report", dir.join("report.html")], b"")
        .fails(1, &["none.pcap"]);
    let empty = dir.write("empty.pcap", &pcap(&[]));
    run(study![empty, "--report", dir.join("report.html")], b"").fails(1, &["no packet"]);
    run(study!["-"], &pcap(&[])[..20]).code.filter(|&code| code == 3).expect("a damaged capture");
    std::fs::create_dir(dir.join("nothing")).expect("a directory");
    run(study![dir.join("nothing")], b"").fails(1, &["no files"]);
    dir.write("nothing/words", b"no capture");
    run(study![dir.join("nothing")], b"").fails(3, &["none of these files is a capture"]);
    dir.holds_only(&["good.pcap", "notes.txt", "empty.pcap", "nothing"]);
}

#[test]
fn wrong_options() {
    let dir = Dir::new();
    let good = dir.write("good.pcap", &pcap(&packets()));
    let directory = dir.path().to_str().expect("a name of text").to_owned();
    // One line.
    let cases: [(&[&str], &[&str]); 10] = [
        (&["--figures", "temproal"], &["temproal", "did you mean temporal?", "origins"]),
        (&["--figures", "99"], &["no figure 99"]),
        (&["--algorithms", "maxq"], &["maxq", "did you mean maxp?", "optimal"]),
        (&["--inside", "10.0.0.0/40"], &["--inside", "10.0.0.0/40", "192.0.2.0/24"]),
        (&["--inside", ""], &["--inside", "no network"]),
        (&["--window", "5"], &["window of 5", "12 to 64"]),
        (&["--period", "3"], &["period of 3", "4 to 1024"]),
        (&["--report", "-"], &["--report", "pass --report FILE"]),
        (&["--matches", "m.parquet"], &["without Parquet", ".csv"]),
        (&["-", "-"], &["once"]),
    ];
    for (args, words) in cases {
        if args[0] == "--matches" && cfg!(feature = "parquet") {
            continue;
        }
        let mut all = args!["study", &good];
        all.extend(args.iter().map(OsString::from));
        run(all, b"").fails(2, words);
    }
    // Refused by the command line.
    let cases: [(&[&str], &[&str]); 9] = [
        (&["--price", "cheap"], &["cheap", "0.09/GB"]),
        (&["--price=-1/GB"], &["--price", "0.09/GB"]),
        (&["--link", "fast"], &["fast", "100Mbit"]),
        (&["--link", "0Mbit"], &["100Mbit"]),
        (&["--sample", "60s"], &["60s/10m"]),
        (&["--sample", "10m/60s"], &["60s/10m"]),
        (&["--sample", "0s/60s"], &["60s/10m"]),
        (&["--duration", "10s"], &["--duration", "cannot be used with"]),
        (&["--interface", "lo"], &["cannot be used with"]),
    ];
    for (args, words) in cases {
        let mut all = args!["study", &good];
        all.extend(args.iter().map(OsString::from));
        let ran = run(all, b"");
        assert_eq!(ran.code, Some(2), "{args:?}: {}", ran.err);
        for word in words {
            assert!(ran.err.contains(word), "{args:?}: {word:?} is not in {}", ran.err);
        }
    }
    run(args!["study"], b"").fails(2, &["--interface"]);
    let table = dir.write("table", b"10.0.0.0/8 here\nnonsense there\n");
    run(study![&good, "--prefixes", table], b"").fails(3, &["table", "line 2"]);
    run(study![&good, "--prefixes", dir.join("none")], b"").fails(1, &["prefixes", "none"]);
    // Before anything is read: standard input stays open.
    for (flag, path) in [
        ("--report", format!("{directory}/none/r.html")),
        ("--matches", format!("{directory}/none/m.csv")),
        ("--csv", format!("{directory}/good.pcap")),
    ] {
        let mut child = start(study!["-", flag, path]);
        let stdin = child.stdin.take();
        assert_eq!(wait(&mut child).code(), Some(1), "{flag}");
        drop(stdin);
    }
    dir.holds_only(&["good.pcap", "table"]);
}

#[test]
fn results_go_to_the_named_files() {
    let dir = Dir::new();
    let good = dir.write("good.pcap", &pcap(&packets()));
    let args = study![
        good,
        "--report",
        dir.join("r.html"),
        "--csv",
        dir.join("csv"),
        "--matches",
        dir.join("m.csv")
    ];
    let summary = String::from_utf8(run(args, b"").fine()).expect("text");
    assert!(summary.contains("Deploy the tunnel"), "{summary}");
    dir.holds_only(&["good.pcap", "r.html", "csv", "m.csv"]);
    let page = String::from_utf8(read(&dir.join("r.html"))).expect("text");
    assert!(page.trim_end().ends_with("</html>") && page.contains("Deploy the tunnel"));
    // The page loads nothing from a network.
    assert!(!page.contains("src=\"http") && !page.contains("href=\"http://"));
    let table = std::fs::read_dir(dir.join("csv"))
        .expect("a directory")
        .map(|entry| entry.expect("an entry").path());
    let tables: Vec<_> =
        table.filter(|path| path.to_string_lossy().contains("algorithms")).collect();
    assert!(!tables.is_empty());
    assert!(tables.iter().any(|path| String::from_utf8_lossy(&read(path)).contains("maxp")));
    let matches = String::from_utf8(read(&dir.join("m.csv"))).expect("text");
    // A heading, and a match for each of the ten copies: all of its 1,000 bytes, 1,000 bytes back.
    assert_eq!(matches.lines().count(), 11, "{matches}");
    assert!(matches.lines().skip(1).all(|line| line.contains("1000,1000")), "{matches}");
}

#[test]
fn figures_by_name_and_number() {
    let whole = pcap(&packets());
    let args = args![
        "study",
        "-",
        "--figures",
        "1,caches",
        "--algorithms",
        "maxp",
        "--cache",
        "1M",
        "--json"
    ];
    let document = json(run(args, &whole));
    let ids: Vec<&str> = document["figures"]
        .as_array()
        .expect("figures")
        .iter()
        .map(|figure| figure["id"].as_str().unwrap())
        .collect();
    assert_eq!(ids, ["algorithms", "caches"]);
    let rows = document["figures"][0]["tables"][0]["rows"].as_array().expect("rows");
    assert_eq!(rows.len(), 1);
    assert_eq!(rows[0][0], "maxp");
    let saved = 10.0 * 984.0 / (20.0 * (1000 + HEADERS) as f64);
    assert_eq!(rows[0][2].as_f64(), Some(saved));
}

#[test]
fn inside_tells_directions_apart() {
    let content = noise(1, 1000);
    let packets = [
        packet("192.0.2.1:80", "10.0.0.1:40000", &content),
        packet("10.0.0.1:40000", "192.0.2.1:80", &content),
        packet("[2001:db8::1]:80", "[fd00::1]:40000", &content),
        packet("[fd00::1]:40000", "[2001:db8::1]:80", &content),
    ];
    // The name of a capture is no network, even if it follows them.
    let dir = Dir::new();
    let file = dir.write("a.pcap", &pcap(&packets));
    let swallowed = json(run(study!["--inside", "10.0.0.0/8", file, "--json"], b""));
    assert_eq!(count(&swallowed, "packets"), 4);
    let args = study!["-", "--inside", "10.0.0.0/8,fd00::/8", "--json"];
    let document = json(run(args, &pcap(&packets)));
    let table = &document["figures"][0]["tables"][0];
    let columns: Vec<&str> = table["columns"]
        .as_array()
        .expect("columns")
        .iter()
        .map(|column| column["name"].as_str().unwrap())
        .collect();
    for direction in ["inbound", "outbound"] {
        let column = columns
            .iter()
            .position(|&name| name == direction)
            .unwrap_or_else(|| panic!("{columns:?}"));
        // IPv6 after IPv4, in a cache of its own.
        let expected = 984.0 / (2 * 1000 + HEADERS + HEADERS + 20) as f64;
        assert_eq!(table["rows"][0][column].as_f64(), Some(expected), "{direction}");
    }
}

#[test]
fn a_family_without_a_network_inside_is_mentioned() {
    let content = noise(1, 1000);
    let packets = [
        packet("192.0.2.1:80", "10.0.0.1:40000", &content),
        packet("[2001:db8::1]:80", "[fd00::1]:40000", &content),
    ];
    let said = |inside: &str| {
        let document = json(run(study!["-", "--inside", inside, "--json"], &pcap(&packets)));
        let reasons = document["verdict"]["reasons"].as_array().expect("reasons").clone();
        reasons.iter().map(|reason| reason.as_str().expect("text").to_owned()).collect::<Vec<_>>()
    };
    for (inside, missing) in [("10.0.0.0/8", "IPv6"), ("fd00::/8", "IPv4")] {
        let (reasons, text) = (said(inside), format!("--inside names no {missing} network"));
        assert!(reasons.iter().any(|reason| reason.contains(&text)), "{inside}: {reasons:?}");
    }
    let both = said("10.0.0.0/8,fd00::/8");
    assert!(!both.iter().any(|reason| reason.contains("--inside")), "{both:?}");
}

#[test]
fn a_sample_of_a_trace() {
    // The first of every ten seconds: packets 0 and 10.
    let document = json(run(study!["-", "--sample", "1s/10s", "--json"], &pcap(&packets())));
    assert_eq!(count(&document, "packets"), 2);
}

fn start(args: Vec<OsString>) -> Child {
    let mut command = Command::new(ONCEWIRE);
    command.args(args).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command.spawn().expect("the program starts")
}

/// Ctrl-C while a pipe is open and silent: the report covers what was read.
#[cfg(unix)]
#[test]
fn ctrl_c_ends_a_silent_pipe() {
    let dir = Dir::new();
    let mut child = start(study![
        "-",
        "--json",
        "--matches",
        dir.join("m.csv"),
        "--report",
        dir.join("r.html")
    ]);
    let mut stdin = child.stdin.take().expect("a pipe");
    let whole = pcap(&packets());
    // In the middle of the last packet.
    stdin.write_all(&whole[..whole.len() - 10]).expect("the program reads");
    wait_until("the study begins", || dir.names().len() == 2);
    // Time for a slow machine to install the signal handler after opening the outputs; the packets
    // are in the pipe.
    std::thread::sleep(std::time::Duration::from_millis(500));
    let kill = Command::new("kill").args(["-INT", &child.id().to_string()]).status().expect("kill");
    assert!(kill.success());
    let (mut out, mut err) = (String::new(), String::new());
    child.stdout.take().expect("a pipe").read_to_string(&mut out).expect("text");
    child.stderr.take().expect("a pipe").read_to_string(&mut err).expect("text");
    assert_eq!(wait(&mut child).code(), Some(130), "{err}");
    assert!(err.contains("reading ends here") && err.contains("interrupted"), "{err}");
    let document: Value = serde_json::from_str(&out).expect("JSON");
    assert_eq!(count(&document, "packets"), 19);
    assert_eq!(document["input"]["partial"], true);
    let reasons = document["verdict"]["reasons"].to_string();
    assert!(reasons.contains("Partial: reading was interrupted after 19 packets"), "{reasons}");
    let report = String::from_utf8(read(&dir.join("r.html"))).expect("text");
    assert!(report.contains("Partial: reading was interrupted"));
    // The capture does not count as truncated.
    assert_eq!(document["input"]["damaged"].as_array().map(Vec::len), Some(0));
    dir.holds_only(&["m.csv", "r.html"]);
    drop(stdin);
}

#[test]
fn a_closed_reader_is_not_a_failure() {
    let dir = Dir::new();
    let good = dir.write("good.pcap", &pcap(&packets()));
    for format in [None, Some("--json")] {
        let mut args = study![&good];
        args.extend(format.map(OsString::from));
        let mut child = start(args);
        drop(child.stdin.take());
        drop(child.stdout.take());
        Ran::of(child.wait_with_output().expect("a child of ours")).fine();
    }
}

/// A network namespace that goes away with the test.
#[cfg(target_os = "linux")]
struct Namespace(String);

#[cfg(target_os = "linux")]
impl Namespace {
    /// With its loopback up; `None` without root or iproute2.
    fn new(name: &str) -> Option<Namespace> {
        let namespace = Namespace(format!("ows{}{name}", std::process::id()));
        let ip = |args: &[&str]| {
            Command::new("ip")
                .args(args)
                .stderr(Stdio::null())
                .status()
                .is_ok_and(|status| status.success())
        };
        (ip(&["netns", "add", &namespace.0])
            && ip(&["-n", &namespace.0, "link", "set", "lo", "up"]))
        .then_some(namespace)
    }

    fn command(&self, program: &str) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.0, program]);
        command
    }
}

#[cfg(target_os = "linux")]
impl Drop for Namespace {
    fn drop(&mut self) {
        let _ =
            Command::new("ip").args(["netns", "delete", &self.0]).stderr(Stdio::null()).status();
    }
}

/// On the loopback every packet is sent and received; it is counted once.
#[cfg(target_os = "linux")]
#[test]
fn packets_of_an_interface() {
    let Some(namespace) = Namespace::new("lo") else {
        oncewire_testkit::skipped!("network namespaces need root and iproute2");
        return;
    };
    let mut command = namespace.command(ONCEWIRE);
    command
        .args(study!["--interface", "lo", "--json"])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = command.spawn().expect("it starts");
    wait_until("the socket is bound", || {
        // A heading, and a line for each packet socket of the namespace; its fifth word is the
        // interface.
        let sockets = namespace.command("cat").arg("/proc/net/packet").output().expect("cat");
        let sockets = String::from_utf8_lossy(&sockets.stdout).into_owned();
        sockets.lines().skip(1).any(|line| line.split_whitespace().nth(4) == Some("1"))
    });
    // 20 datagrams of 1,000 bytes to a closed port.
    let sender = "import socket\nfor n in range(20): socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b'x' * 1000, ('127.0.0.1', 9))";
    let sent = namespace.command("python3").args(["-c", sender]).stderr(Stdio::null()).status();
    let has_python = sent.is_ok_and(|status| status.success());
    let _ = Command::new("kill").args(["-INT", &child.id().to_string()]).status();
    let (mut out, mut err) = (String::new(), String::new());
    child.stdout.take().expect("a pipe").read_to_string(&mut out).expect("text");
    child.stderr.take().expect("a pipe").read_to_string(&mut err).expect("text");
    let code = wait(&mut child).code();
    if !has_python {
        oncewire_testkit::skipped!("there is no python3 here");
        return;
    }
    assert_eq!(code, Some(0), "{err}");
    let document: Value = serde_json::from_str(&out).expect("JSON");
    let used = document["accounting"]["used"].as_array().expect("a list");
    let udp = used.iter().find(|share| share["name"] == "UDP").expect("a share");
    assert_eq!((udp["packets"].as_u64(), udp["bytes"].as_u64()), (Some(20), Some(20 * 1042)));
}

#[cfg(target_os = "linux")]
#[test]
fn interfaces_that_cannot_be_captured() {
    run(study!["--interface", "no-such-one"], b"").fails(2, &["no-such-one", "use one of", "lo"]);
    let Some(namespace) = Namespace::new("right") else {
        oncewire_testkit::skipped!("network namespaces need root and iproute2");
        return;
    };
    let mut command = namespace.command("setpriv");
    command
        .args(["--bounding-set", "-net_raw", "--inh-caps", "-net_raw", ONCEWIRE])
        .args(study!["--interface", "lo"]);
    match command.output() {
        Ok(output) if output.status.code() != Some(127) => {
            Ran::of(output).fails(1, &["cannot capture from lo", "CAP_NET_RAW", "tcpdump"]);
        }
        _ => oncewire_testkit::skipped!("there is no setpriv here"),
    }
}
