//! The published algorithms on the codec's traits. One binary: each takes time to compile and to
//! link.
#![allow(missing_docs)]

mod chunk_match;
#[path = "../../../codec/tests/common/mod.rs"]
mod common;
#[path = "../fuzz_entry/mod.rs"]
mod fuzz_entry;
mod fuzz_seeds;
