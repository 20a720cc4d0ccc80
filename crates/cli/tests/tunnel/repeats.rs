//! Repeats cost little, for any client.
//!
//! `ONCEWIRE_REPEAT_MB=100` transfers 100 MB; the default is less, for debug builds.

use crate::support::*;
use oncewire_testkit::servers::{incompressible, text_like};
use std::sync::{Arc, Barrier};
use std::time::Duration;

#[test]
fn random_bytes_downloaded_twice_cross_once() {
    let megabytes = std::env::var("ONCEWIRE_REPEAT_MB")
        .map_or(30, |text| text.parse().expect("a number of megabytes"));
    let content = incompressible(1, megabytes * 1_000_000);
    let tunnel = Plan::new().memory("512M").to(sender(content.clone())).start();
    let (got, first) = tunnel.cost(|| fetch(tunnel.way(0)).unwrap());
    assert_same(&got, &content, "first");
    let (got, second) = tunnel.cost(|| fetch(tunnel.way(0)).unwrap());
    assert_same(&got, &content, "second");
    eprintln!("{megabytes} MB of random bytes: {first} bytes on the wire, then {second}");
    let size = content.len() as u64;
    assert!(first <= size + size / 200 + 10_000, "{first}");
    assert!(second * 20 <= size, "{second}");
}

#[test]
fn an_upload_costs_full_price_to_download_and_little_to_upload_again() {
    let content = incompressible(2, 4_000_000);
    let tunnel = Plan::new().to(echo()).start();
    let size = content.len() as u64;
    // Each direction has its own log.
    let (got, first) = tunnel.cost(|| exchange(tunnel.way(0), &content).unwrap());
    assert_same(&got, &content, "first");
    let (got, second) = tunnel.cost(|| exchange(tunnel.way(0), &content).unwrap());
    assert_same(&got, &content, "second");
    eprintln!("4 MB up and down: {first} bytes on the wire, then {second}");
    assert!(first <= 2 * size + size / 50, "{first}");
    assert!(second * 20 <= 2 * size, "{second}");
}

#[test]
fn a_part_of_earlier_content_is_found_wherever_it_starts() {
    let content = incompressible(4, 3_000_000);
    let part = content.clone();
    let starts = std::sync::atomic::AtomicUsize::new(0);
    let parts = origin(move |mut stream| {
        let n = starts.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let _ = std::io::Write::write_all(&mut stream, &part[300_007 * n..][..1_000_000]);
    });
    let tunnel = Plan::new().to(sender(content.clone())).to(parts).start();
    assert_same(&fetch(tunnel.way(0)).unwrap(), &content, "the whole");
    for n in 0..6 {
        let (got, cost) = tunnel.cost(|| fetch(tunnel.way(1)).unwrap());
        assert_same(&got, &content[300_007 * n..][..1_000_000], "a part");
        eprintln!("1 MB from {}: {cost} bytes on the wire", 300_007 * n);
        assert!(cost <= 15_000, "{cost}");
    }
}

/// Text compressed with gzip.
fn gzipped(content: &[u8]) -> Vec<u8> {
    use std::io::Write;
    let mut out = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    out.write_all(content).unwrap();
    out.finish().unwrap()
}

#[test]
fn the_same_compressed_archive_is_found_again() {
    let archive = gzipped(&text_like(3, 12_000_000));
    let tunnel = Plan::new().to(sender(archive.clone())).start();
    let (_, first) = tunnel.cost(|| fetch(tunnel.way(0)).unwrap());
    let (got, second) = tunnel.cost(|| fetch(tunnel.way(0)).unwrap());
    assert_same(&got, &archive, "second");
    eprintln!("a .tar.gz of {} bytes: {first} bytes on the wire, then {second}", archive.len());
    assert!(second * 20 <= archive.len() as u64, "{second}");
}

#[test]
fn two_images_share_a_layer() {
    let layers: Vec<Vec<u8>> = (10..13).map(|seed| gzipped(&text_like(seed, 5_000_000))).collect();
    let image = |own: usize| {
        [format!("manifest of image {own}\n").as_bytes(), &layers[0], &layers[own]].concat()
    };
    let tunnel = Plan::new().to(sender(image(1))).to(sender(image(2))).start();
    let (_, first) = tunnel.cost(|| fetch(tunnel.way(0)).unwrap());
    let (got, second) = tunnel.cost(|| fetch(tunnel.way(1)).unwrap());
    assert_same(&got, &image(2), "second");
    let shared = layers[0].len() as u64;
    eprintln!(
        "a shared layer of {shared} bytes: images cost {first}, then {second} of {} bytes",
        got.len()
    );
    assert!(second <= got.len() as u64 - shared * 19 / 20, "{second}");
}

#[test]
fn six_concurrent_clients_of_a_cold_object_cost_about_one_copy() {
    let object = incompressible(20, 6_000_000);
    let together = Arc::new(Barrier::new(6));
    let (content, gate) = (object.clone(), together.clone());
    let address = origin(move |mut stream| {
        gate.wait();
        let _ = std::io::Write::write_all(&mut stream, &content);
    });
    let tunnel = Plan::new().to(address).start();
    let ((), cost) = tunnel.cost(|| {
        std::thread::scope(|scope| {
            let clients: Vec<_> =
                (0..6).map(|_| scope.spawn(|| fetch(tunnel.way(0)).unwrap())).collect();
            for client in clients {
                assert_same(&client.join().unwrap(), &object, "a client");
            }
        });
    });
    let copies = cost as f64 / object.len() as f64;
    eprintln!("6 clients, one cold object: {copies:.3} copies on the wire");
    assert!(copies < 1.3, "{copies:.3} copies");
}

#[test]
fn a_small_object_repeated_on_new_flows_costs_a_few_bytes() {
    const TIMES: u64 = 20;
    let object = incompressible(30, 15_000);
    let tunnel = Plan::new().to(sender(object.clone())).start();
    let frames = || {
        // Acknowledgments may be delayed.
        std::thread::sleep(Duration::from_millis(60));
        let status = tunnel.connect.status();
        let here = &status["sessions"][0]["here"];
        here["wire_sent_bytes"].as_u64().unwrap() + here["wire_received_bytes"].as_u64().unwrap()
    };
    for _ in 0..3 {
        assert_same(&fetch(tunnel.way(0)).unwrap(), &object, "at first");
    }
    // The cost of one request.
    frames();
    let before = frames();
    let asking = frames() - before;
    let before = frames();
    let transport = tunnel.wire();
    for _ in 0..TIMES {
        assert_same(&fetch(tunnel.way(0)).unwrap(), &object, "again");
        // Each flow pays for its own acknowledgments.
        std::thread::sleep(Duration::from_millis(50));
    }
    let transport = (tunnel.wire() - transport) / TIMES;
    let each = (frames() - before).saturating_sub(3 * asking) / TIMES;
    eprintln!(
        "15 KB repeated on a new flow: {each} bytes of frames both ways, about {transport} with TLS; asking costs {asking}"
    );
    assert!(each <= 200, "{each} bytes of frames");
}
