//! Network-wide redundancy elimination: where to cache and decode so that each byte crosses as few links as possible.
//!
//! The model is SmartRE's (Anand, *Redundancy Elimination as a Primitive*, 2012, chapter 3; Anand, Sekar and Akella, SIGCOMM 2009): ingresses
//! encode, nodes inside the network cache a range of each path's packets, told by a hash of their headers, and decode what was encoded with them.
//! From a [`network`], the [`path`]s through it, their volumes and a redundancy [`profile`] comes an [`Instance`]; everything else reads that.
//! `docs/PLANNERS.md` defines each quantity.

pub mod baseline;
pub mod emulate;
mod error;
pub mod evaluate;
mod instance;
pub mod lp;
pub mod manifest;
pub mod measure;
pub mod network;
pub mod path;
pub mod placement;
pub mod profile;
pub mod routing;
mod solution;
#[cfg(test)]
mod testing;
pub mod topology;
pub mod traffic;
mod watch;

pub use error::Error;
pub use instance::{Device, Hop, Ingress, Instance, Path, Placement, Provision};
pub use network::Network;
pub use profile::{Match, Measured, Profile, Synthetic};
pub use solution::{Prices, Solution};
pub use watch::{Unwatched, Watch};

/// Compiles the README's examples.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
pub struct Readme;
