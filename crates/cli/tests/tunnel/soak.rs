//! Mixed flows over a longer time: memory and descriptors stay flat.
//!
//! For an hour: `ONCEWIRE_SOAK_SECONDS=3600 cargo test --release -p oncewire --test tunnel memory_and_descriptors --
//! --nocapture`

use crate::support::*;
use oncewire_testkit::servers::{Rng, incompressible, text_like};
use std::io::{Read, Write};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// A flow of some kind, from a seed.
fn flow(rng: &mut Rng, echo: SocketAddr) -> u64 {
    let len = match rng.below(4) {
        0 => rng.below(100),
        1 | 2 => rng.below(40_000),
        _ => rng.below(1_000_000),
    } as usize;
    let content = match rng.below(4) {
        0 => incompressible(rng.next_u64(), len),
        1 => text_like(rng.next_u64() % 1000, len),
        // What was there before.
        _ => incompressible(rng.below(3), len),
    };
    match rng.below(8) {
        // The application goes away in the middle.
        0 => {
            let mut stream = application(echo);
            let _ = stream.write_all(&content);
            let mut some = vec![0; content.len() / 2];
            let _ = stream.read_exact(&mut some);
            assert!(content.starts_with(&some), "wrong bytes");
        }
        // It says nothing at all.
        1 => drop(application(echo)),
        _ => assert_same(&exchange(echo, &content).expect("an answer"), &content, "a flow"),
    }
    len as u64
}

#[test]
fn memory_and_descriptors_stay_flat_under_mixed_flows() {
    let seconds = std::env::var("ONCEWIRE_SOAK_SECONDS")
        .map_or(10, |text| text.parse().expect("a number of seconds"));
    // Small enough that logs are full soon.
    let tunnel = Plan::new().memory("32M").to(echo()).start();
    let (stop, carried) = (AtomicBool::new(false), AtomicU64::new(0));
    let sizes = || [tunnel.serve.resident(), tunnel.connect.resident()];
    let quiet = || {
        wait_until("all flows are over", || {
            tunnel.connect.counter("flows") == 0 && tunnel.serve.counter("flows") == 0
        });
        // Sockets are closed a moment after their flows.
        std::thread::sleep(Duration::from_millis(200));
        [tunnel.serve.descriptors(), tunnel.connect.descriptors()]
    };
    // The client opens what it keeps, for owners of connections, with the first one.
    assert_same(&exchange(tunnel.way(0), b"first").expect("an answer"), b"first", "the first flow");
    let before = quiet();
    let mut measured = Vec::new();
    std::thread::scope(|scope| {
        for worker in 0..4 {
            let (stop, carried, way) = (&stop, &carried, tunnel.way(0));
            scope.spawn(move || {
                let mut rng = Rng::new(worker);
                while !stop.load(Ordering::Relaxed) {
                    carried.fetch_add(flow(&mut rng, way), Ordering::Relaxed);
                }
            });
        }
        let begun = Instant::now();
        while begun.elapsed() < Duration::from_secs(seconds)
            && tunnel.connect.try_counter("log_end").is_some()
        {
            std::thread::sleep(Duration::from_millis(250));
            measured.push(sizes());
        }
        stop.store(true, Ordering::Relaxed);
    });
    let after = quiet();
    let status = tunnel.connect.status();
    let here = &status["sessions"][0]["here"];
    let megabytes = carried.load(Ordering::Relaxed) / 1_000_000;
    let (middle, last) = (measured[measured.len() / 2], measured[measured.len() - 1]);
    eprintln!(
        "{megabytes} MB each way, {} flows, log end {} of capacity {}; descriptors {before:?} then {after:?}; resident {middle:?} then {last:?}",
        here["flows_opened"], here["log_end"], here["log_capacity"],
    );
    assert!(here["log_end"].as_u64() > here["log_capacity"].as_u64(), "too little to fill the log");
    assert_eq!(here["failures"], 0);
    assert_eq!(before, after, "descriptors");
    for (middle, last) in middle.iter().zip(last) {
        assert!(last <= middle + middle / 10 + (2 << 20), "memory grows from {middle} to {last}");
        // The program itself, and what an allocator holds on to.
        assert!(last <= (32 << 20) + (48 << 20), "{last} resident with --memory 32M");
    }
}
