//! Shared by the codec's tests: synthetic content, parameters, and a simple model of block
//! placement.
#![allow(dead_code)] // Each test file uses its part.

pub(crate) mod content;
pub(crate) mod params;

use proptest::test_runner::Config;
use std::ops::Range;

/// proptest's defaults (256 cases, or `PROPTEST_CASES`), without files of past failures. A failure
/// becomes a test with a name instead.
pub(crate) fn config() -> Config {
    Config { failure_persistence: None, ..Config::default() }
}

/// As [`config`], for properties with more expensive cases: runs `1/divisor` as many.
pub(crate) fn config_divided(divisor: u32) -> Config {
    let config = config();
    Config { cases: (config.cases / divisor).max(8), ..config }
}

/// Naive block placement: the first offset from `end` on at which `len` bytes do not cross the end
/// of the ring.
pub(crate) fn place(capacity: u64, end: u64, len: usize) -> u64 {
    (end..).find(|offset| offset % capacity + len as u64 <= capacity).unwrap()
}

/// The ranges of `wanted` outside all of `held`, computed byte by byte.
pub(crate) fn holes(wanted: &[Range<u64>], held: &[Range<u64>]) -> Vec<Range<u64>> {
    let mut bytes: Vec<u64> = wanted
        .iter()
        .cloned()
        .flatten()
        .filter(|x| !held.iter().any(|range| range.contains(x)))
        .collect();
    bytes.sort_unstable();
    bytes.dedup();
    let mut ranges: Vec<Range<u64>> = Vec::new();
    for x in bytes {
        match ranges.last_mut() {
            Some(last) if last.end == x => last.end = x + 1,
            _ => ranges.push(x..x + 1),
        }
    }
    ranges
}
