//! `cargo +nightly fuzz run topology`. What it does is in `crates/plan/tests/fuzz_entry/mod.rs`.
#![no_main]

#[path = "../../crates/plan/tests/fuzz_entry/mod.rs"]
mod fuzz_entry;

libfuzzer_sys::fuzz_target!(|input: &[u8]| fuzz_entry::run(input));
