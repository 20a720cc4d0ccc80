//! What the fuzz targets of the session do with their bytes. `fuzz/` runs these under libFuzzer; `fuzz_seeds.rs` replays its corpus
//! on stable. Each entry panics when a promise is broken and returns otherwise.
#![allow(dead_code)] // Each user takes its part.

pub(crate) mod session_bytes;
pub(crate) mod session_ops;

use oncewire_session::{Budget, Config};
use std::time::{Duration, Instant};

/// An entry point.
pub(crate) type Entry = fn(&[u8]);

/// All of them, by the names of their fuzz targets and corpus folders.
pub(crate) const TARGETS: [(&str, Entry); 2] = [("session_bytes", session_bytes::run), ("session_ops", session_ops::run)];

/// Takes numbers and bytes off the front of the input; zeros when it is used up.
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

/// Bytes that both budgets begin with.
pub(crate) const BUDGET: u64 = 1 << 20;

pub(crate) fn config(end: u64, lanes: usize) -> Config {
    Config {
        log: 1 << 20,
        delivery: Budget::new(BUDGET),
        sending: Budget::new(BUDGET),
        max_flows: 20,
        lanes,
        random: [end, 77, 78, 79],
        grace: Duration::from_secs(20),
        ..Config::default()
    }
}

#[expect(clippy::disallowed_methods, reason = "simulated time needs something to begin with")]
pub(crate) fn base() -> Instant {
    Instant::now()
}
