//! `cargo +nightly fuzz run link_datagram`. What it does is in
//! `crates/session/tests/fuzz_entry/link_datagram.rs`.
#![no_main]

#[path = "../../crates/session/tests/fuzz_entry/mod.rs"]
mod fuzz_entry;

libfuzzer_sys::fuzz_target!(|input: &[u8]| fuzz_entry::link_datagram::run(input));
