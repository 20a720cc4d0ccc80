//! `cargo +nightly fuzz run flash_store`. What it does is in
//! `crates/flash/tests/fuzz_entry/flash_store.rs`.
#![no_main]

#[path = "../../crates/flash/tests/fuzz_entry/mod.rs"]
mod fuzz_entry;

libfuzzer_sys::fuzz_target!(|input: &[u8]| fuzz_entry::flash_store::run(input));
