//! Readers of captures and the dissector. One binary: each takes time to link.
#![allow(missing_docs)]

#[path = "../build/mod.rs"]
mod build;
mod capture;
mod dissect;
mod fragments;
#[path = "../fuzz_entry/mod.rs"]
mod fuzz_entry;
mod fuzz_seeds;
mod public_captures;
