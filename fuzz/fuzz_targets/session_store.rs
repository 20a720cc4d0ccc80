//! `cargo +nightly fuzz run session_store`. What it does is in
//! `crates/session/tests/fuzz_entry/session_store.rs`.
#![no_main]

#[path = "../../crates/session/tests/fuzz_entry/mod.rs"]
mod fuzz_entry;

libfuzzer_sys::fuzz_target!(|input: &[u8]| fuzz_entry::session_store::run(input));
