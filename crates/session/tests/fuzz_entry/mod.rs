//! The entries of the session's fuzz targets: `fuzz/` runs them under libFuzzer, `fuzz_seeds.rs`
//! replays the corpus on stable Rust. An entry panics if the session breaks a guarantee.
#![allow(dead_code)] // Each fuzz target uses one entry.

#[path = "../../../codec/tests/fuzz_entry/input.rs"]
mod input;
pub(crate) mod link_datagram;
pub(crate) mod session_bytes;
pub(crate) mod session_ops;
pub(crate) mod session_store;

pub(crate) use input::Input;
use oncewire_codec::{EncoderBuilder, Sharing};
use oncewire_session::{Budget, Config, Settings};
use std::time::{Duration, Instant};

/// Bytes in each budget at the start.
pub(crate) const BUDGET: u64 = 1 << 20;

pub(crate) fn config(end: u64, lanes: usize) -> Settings {
    Config {
        log: 1 << 20,
        delivery: Budget::new(BUDGET),
        sending: Budget::new(BUDGET),
        max_flows: 20,
        lanes,
        contexts: 2,
        // The ends need not agree.
        encoder: EncoderBuilder::default().sharing(if end == 1 {
            Sharing::Chunks
        } else {
            Sharing::All
        }),
        pad: if end == 1 { 100 } else { 0 },
        random: [end, 77, 78, 79],
        grace: Duration::from_secs(20),
        ..Config::default()
    }
    .build()
    .expect("parameters in range")
}

#[expect(clippy::disallowed_methods, reason = "simulated time needs a time to start from")]
pub(crate) fn base() -> Instant {
    Instant::now()
}
