//! What the fuzz targets do with their bytes. `fuzz/` runs these under libFuzzer; `fuzz_seeds.rs` replays its corpus on stable.
//!
//! Each entry panics when a promise is broken and returns otherwise. Nothing here depends on anything but its input.
#![allow(dead_code)] // Each user takes its part.

pub(crate) mod container;
pub(crate) mod family;
pub(crate) mod frame;
pub(crate) mod markers;
pub(crate) mod payload;
pub(crate) mod round_trip;

use std::ops::Range;

/// An entry point.
pub(crate) type Entry = fn(&[u8]);

/// All of them, by the names of their fuzz targets and corpus folders.
pub(crate) const TARGETS: [(&str, Entry); 6] = [
    ("frame", frame::run),
    ("round_trip", round_trip::run),
    ("container", container::run),
    ("family", family::run),
    ("markers", markers::run),
    ("payload", payload::run),
];

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

    pub(crate) fn u64(&mut self) -> u64 {
        (0..8).fold(0, |value, i| value | u64::from(self.u8()) << (8 * i))
    }

    /// At most `len` bytes.
    pub(crate) fn bytes(&mut self, len: usize) -> &'a [u8] {
        let (now, rest) = self.0.split_at(len.min(self.0.len()));
        self.0 = rest;
        now
    }
}

/// Bytes without a pattern, the same for the same seed.
pub(crate) fn noise(seed: u64, len: usize) -> Vec<u8> {
    let mut state = seed.wrapping_mul(2).wrapping_add(1);
    let next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 56) as u8
    };
    std::iter::repeat_with(next).take(len).collect()
}

/// Lines of a few words, with many bytes that are markers.
pub(crate) fn text(seed: u64, len: usize) -> Vec<u8> {
    const WORDS: [&str; 16] = [
        "the ", "state ", "is ", "ready\n", "log ", "of ", "200 ", "bytes ", "sent ", "in ", "3 ", "ms\n", "wire ", "once ",
        "GET ", "/index ",
    ];
    let picks = noise(seed ^ 0x7e87, len);
    picks.iter().flat_map(|pick| WORDS[usize::from(pick >> 4)].bytes()).take(len).collect()
}

/// Whether two ranges share an offset.
pub(crate) fn overlap(a: &Range<u64>, b: &Range<u64>) -> bool {
    a.start < b.end && b.start < a.end
}
