//! What tests and benches share. Never part of a release.
//!
//! - [`faults`]: a TCP proxy on loopback that cuts, delays, corrupts, truncates, replays and resets.
//! - [`path`]: an IP path between two network namespaces with delay, rate, loss and a queue. Linux, as root.
//! - [`servers`]: real programs found and run, ports, and content from a seed.

pub mod faults;
#[cfg(target_os = "linux")]
mod gso;
#[cfg(target_os = "linux")]
pub mod path;
pub mod servers;
