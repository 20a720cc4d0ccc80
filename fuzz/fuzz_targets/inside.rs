//! `cargo +nightly fuzz run inside`. What it does is in
//! `crates/codec/tests/fuzz_entry/inside.rs`.
#![no_main]

#[path = "../../crates/codec/tests/fuzz_entry/mod.rs"]
mod fuzz_entry;

libfuzzer_sys::fuzz_target!(|input: &[u8]| fuzz_entry::inside::run(input));
