//! `cargo +nightly fuzz run capture`. What it does is in `crates/packet/tests/fuzz_entry/mod.rs`.
#![no_main]

#[path = "../../crates/packet/tests/fuzz_entry/mod.rs"]
mod fuzz_entry;

libfuzzer_sys::fuzz_target!(|input: &[u8]| fuzz_entry::run(input));
