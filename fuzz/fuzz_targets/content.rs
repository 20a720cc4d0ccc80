//! `cargo +nightly fuzz run content`. What it does is in `crates/plan/tests/fuzz_entry/content.rs`.
#![no_main]

#[path = "../../crates/plan/tests/fuzz_entry/content.rs"]
mod fuzz_entry;

libfuzzer_sys::fuzz_target!(|input: &[u8]| fuzz_entry::run(input));
