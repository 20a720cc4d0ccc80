//! `cargo +nightly fuzz run control`. What it does is in `crates/plan/tests/fuzz_entry/control.rs`.
#![no_main]

#[path = "../../crates/plan/tests/fuzz_entry/control.rs"]
mod fuzz_entry;

libfuzzer_sys::fuzz_target!(|input: &[u8]| fuzz_entry::run(input));
