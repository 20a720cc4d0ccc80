//! The helpers do what they say. One binary: each takes time to compile and to link.
#![allow(missing_docs)]

mod faults;
#[cfg(target_os = "linux")]
mod path;
mod skip;
