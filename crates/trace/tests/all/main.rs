//! The whole study: on traces made for it, on public captures, and on arbitrary bytes. One binary:
//! each takes time to compile and to link.
#![allow(missing_docs)]

#[path = "../fuzz_entry/mod.rs"]
mod fuzz_entry;
mod fuzz_seeds;
mod links;
mod public_captures;
mod study;
