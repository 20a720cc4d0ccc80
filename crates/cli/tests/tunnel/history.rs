//! What processes record of themselves.

use crate::support::*;
use oncewire_net::history::{Record, read};
use oncewire_testkit::servers::incompressible;
use std::path::Path;

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
    // A process that ends has written everything.
    assert_same(&fetch(tunnel.way(0)).unwrap(), &content, "the content");
    signal(&tunnel.connect.process, "TERM");
    tunnel.connect.ends(PATIENCE);
    assert_eq!(received(&read(&file).unwrap().minutes), 3 * LEN as u64);
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
