//! `cargo +nightly fuzz run family`. What it does is in `crates/family/tests/fuzz_entry/family.rs`.
#![no_main]

#[path = "../../crates/family/tests/fuzz_entry/mod.rs"]
mod fuzz_entry;

libfuzzer_sys::fuzz_target!(|input: &[u8]| fuzz_entry::family::run(input));
