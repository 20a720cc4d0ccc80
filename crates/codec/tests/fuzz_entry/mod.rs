//! The bodies of the fuzz targets. `fuzz/` runs them under libFuzzer; `fuzz_seeds.rs` replays the
//! corpus on stable Rust.
//!
//! An entry panics if a guarantee is broken and returns otherwise. It depends on nothing but its
//! input.
#![allow(dead_code)] // Each user takes its part.

pub(crate) mod container;
pub(crate) mod datagram_frame;
pub(crate) mod frame;
pub(crate) mod input;
pub(crate) mod inside;
pub(crate) mod round_trip;
