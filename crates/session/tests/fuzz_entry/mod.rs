//! The entries of the session's fuzz targets: `fuzz/` runs them under libFuzzer, `fuzz_seeds.rs`
//! replays the corpus on stable Rust. An entry panics if the session breaks a guarantee.
#![allow(dead_code)] // Each fuzz target uses one entry.

pub(crate) mod link_datagram;
pub(crate) mod session_bytes;
pub(crate) mod session_ops;

use oncewire_codec::{EncoderBuilder, Sharing};
use oncewire_session::{Budget, Config, Settings};
use std::time::{Duration, Instant};

/// Reads numbers and bytes off the front of the input, then zeros.
pub(crate) struct Input<'a>(pub(crate) &'a [u8]);

impl<'a> Input<'a> {
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn u8(&mut self) -> u8 {
        self.bytes(1).first().copied().unwrap_or(0)
    }

    pub(crate) fn u16(&mut self) -> usize {
        usize::from(self.u8()) | usize::from(self.u8()) << 8
    }

    pub(crate) fn bytes(&mut self, len: usize) -> &'a [u8] {
        let (now, rest) = self.0.split_at(len.min(self.0.len()));
        self.0 = rest;
        now
    }
}

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
