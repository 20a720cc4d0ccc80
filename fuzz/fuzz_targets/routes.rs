//! `cargo +nightly fuzz run routes`. What it does is in `crates/plan/tests/fuzz_entry/routes.rs`.
#![no_main]

#[path = "../../crates/plan/tests/fuzz_entry/routes.rs"]
mod fuzz_entry;

libfuzzer_sys::fuzz_target!(|input: &[u8]| fuzz_entry::run(input));
