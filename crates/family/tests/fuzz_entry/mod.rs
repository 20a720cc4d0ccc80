//! The bodies of the family's fuzz targets. `fuzz/` runs them under libFuzzer; `fuzz_seeds.rs`
//! replays the corpus on stable Rust.
//!
//! An entry panics if a guarantee is broken and returns otherwise. It depends on nothing but its
//! input.
#![allow(dead_code)] // Each user takes its part.

pub(crate) mod family;
#[path = "../../../codec/tests/fuzz_entry/input.rs"]
pub(crate) mod input;
pub(crate) mod markers;
pub(crate) mod payload;
