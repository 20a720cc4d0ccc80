//! What processes record of themselves.

use crate::support::*;
use oncewire_net::history::{Record, read};
use oncewire_testkit::servers::incompressible;
use std::path::Path;
use std::process::Command;

const LEN: usize = 300_000;

fn received(records: &[Record]) -> u64 {
    records.iter().map(|record| record.amounts.received_bytes).sum()
}

/// Bytes in a file, at least.
fn wait_for(file: &Path, bytes: usize) {
    wait_until("it is recorded", || {
        read(file).is_ok_and(|all| received(&all.minutes) >= bytes as u64)
    });
}

#[test]
fn a_history_survives_kills_and_belongs_to_one_process() {
    let dir = tempfile::TempDir::new().unwrap();
    let file = dir.path().join("history");
    let args = ["--history", file.to_str().unwrap()];
    let content = incompressible(3, LEN);
    // Both ends want the same file: one of them works without.
    let mut tunnel = Plan::new().to(sender(content.clone())).connect(&args).start();
    wait_until("it is made", || file.exists());
    tunnel.serve_args.extend(args.map(String::from));
    tunnel.kill_serve();
    tunnel.restart_serve();
    wait_until("it is refused", || tunnel.serve.said().contains("another process records to it"));
    assert_eq!(tunnel.serve.status()["history"]["recording"], false);
    tunnel.established();
    for times in 1..=2 {
        assert_same(&fetch(tunnel.way(0)).unwrap(), &content, "the content");
        assert_eq!(tunnel.connect.status()["history"]["recording"], true);
        wait_for(&file, times * LEN);
        // As a crash would.
        tunnel.restart_connect();
        tunnel.established();
    }
    let recorded = read(&file).unwrap();
    assert_eq!(received(&recorded.minutes), 2 * LEN as u64);
    assert_eq!(received(&recorded.seconds), 2 * LEN as u64);
    let peers = recorded.minutes.iter().flat_map(|minute| &minute.peers);
    assert_eq!(peers.map(|one| one.amounts.received_bytes).sum::<u64>(), 2 * LEN as u64);
    let services = recorded.minutes.iter().flat_map(|minute| &minute.services);
    assert_eq!(services.map(|one| one.amounts.received_bytes).sum::<u64>(), 2 * LEN as u64);
    // A process that ends has written everything.
    assert_same(&fetch(tunnel.way(0)).unwrap(), &content, "the content");
    signal(&tunnel.connect.process, "TERM");
    tunnel.connect.ends(PATIENCE);
    assert_eq!(received(&read(&file).unwrap().minutes), 3 * LEN as u64);
}

/// What `oncewire report` prints.
fn report(args: &[&str]) -> String {
    String::from_utf8(succeed(Command::new(ONCEWIRE).arg("report").args(args))).unwrap()
}

#[test]
fn a_report_says_what_was_saved_while_the_process_runs() {
    let dir = tempfile::TempDir::new().unwrap();
    let path = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
    let (file, page) = (path("history"), path("month.html"));
    let content = incompressible(5, LEN);
    let tunnel = Plan::new().to(sender(content.clone())).connect(&["--history", &file]).start();
    for _ in 0..3 {
        assert_same(&fetch(tunnel.way(0)).unwrap(), &content, "the content");
    }
    wait_for(Path::new(&file), 3 * LEN);
    let socket = tunnel.connect.socket.to_str().unwrap();
    for args in [["--socket", socket], ["--history", &file]] {
        for since in ["1h", "2d"] {
            let args = [&args[..], &["--since", since, "--price", "$90/GB", "--json"]].concat();
            let document: serde_json::Value = serde_json::from_str(&report(&args)).unwrap();
            let carried = &document["carried"];
            assert_eq!(carried["received_bytes"], 3 * LEN, "{document:#}");
            let of = |name: &str| carried[name].as_u64().unwrap();
            let wire = of("wire_sent_bytes") + of("wire_received_bytes");
            assert!((LEN as u64..2 * LEN as u64).contains(&wire), "{wire}");
            // Exact: 90 billionths of a dollar a byte.
            let saved = (of("sent_bytes") + of("received_bytes") - wire) * 90;
            assert_eq!(carried["money_saved"], format!("0.{saved:09}"));
            assert_eq!(document["peers"][0]["carried"]["received_bytes"], 3 * LEN);
            assert_ne!(document["days"], serde_json::json!([]));
        }
    }
    let shown = report(&["--history", &file, "--price", "$90/GB", "--report", &page]);
    assert!(shown.contains("of 900 kB did not cross the wire"), "{shown}");
    assert!(shown.contains("which saved $0.0"), "{shown}");
    let page = std::fs::read_to_string(page).unwrap();
    assert!(page.contains("<h2>Summary</h2>") && page.contains("data-chart"), "{page}");

    // Without a history, and with one that is corrupt.
    let socket = tunnel.serve.socket.to_str().unwrap();
    let none = oncewire(["report", "--socket", socket]);
    assert!(text(&none).contains("records no history: start it with --history"), "{}", text(&none));
    std::fs::write(path("bad"), "mine").unwrap();
    let bad = oncewire(["report", "--history", &path("bad")]);
    assert_eq!(bad.status.code(), Some(3));
    assert!(text(&bad).contains("it is not a history file"), "{}", text(&bad));
}

#[test]
fn a_corrupt_history_is_left_alone_and_the_tunnel_works() {
    let dir = tempfile::TempDir::new().unwrap();
    let content = incompressible(4, LEN);
    let mut corrupt = b"redb\x1a\x0a\xa9\x0d\x0a".to_vec();
    corrupt.resize(5000, 0x55);
    for (name, bytes) in [("foreign", &b"mine"[..]), ("corrupt", &corrupt)] {
        let file = dir.path().join(name);
        std::fs::write(&file, bytes).unwrap();
        let args = ["--history", file.to_str().unwrap()];
        let tunnel = Plan::new().to(sender(content.clone())).serve(&args).start();
        wait_until("it is refused", || {
            tunnel.serve.said().contains("history is not recorded; traffic is not affected")
        });
        let said = tunnel.serve.said();
        assert!(said.contains(name) && !said.contains("panicked"), "{said}");
        assert_same(&fetch(tunnel.way(0)).unwrap(), &content, "the content");
        assert_eq!(std::fs::read(&file).unwrap(), bytes);
    }
}
