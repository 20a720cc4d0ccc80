//! `cargo +nightly fuzz run datagram_frame`. What it does is in
//! `crates/codec/tests/fuzz_entry/datagram_frame.rs`.
#![no_main]

#[path = "../../crates/codec/tests/fuzz_entry/mod.rs"]
mod fuzz_entry;

libfuzzer_sys::fuzz_target!(|input: &[u8]| fuzz_entry::datagram_frame::run(input));
