//! Helpers that tests and benches share. Never part of a release.
//!
//! - [`content`]: random numbers, and content made from a seed.
//! - [`faults`]: a TCP proxy on loopback that cuts, delays, corrupts, truncates, replays and
//!   resets.
//! - [`figures`]: sample figures with hostile names, for reports.
//! - [`fuzz`]: fuzz targets on stable Rust, from their corpus.
//! - `lab`: a network of nodes as processes, with the packets of a capture. Linux, as root, with the
//!   feature `lab`.
//! - [`path`]: an IP path between two network namespaces with delay, rate, loss and a queue. Linux,
//!   as root.
//! - [`servers`]: finds and runs real programs, and finds free ports.
//! - [`skip`](mod@skip): reports tests that lack a program, data or a privilege.

pub mod content;
pub mod faults;
pub mod figures;
pub mod fuzz;
#[cfg(all(target_os = "linux", feature = "lab"))]
pub mod lab;
#[cfg(target_os = "linux")]
pub mod path;
pub mod servers;
pub mod skip;
