//! Packets through a planned network, with the real codec.
//!
//! An [`Emulation`] takes packets in order of time and carries each through the network before the next: the ingress stores it, finds what repeats
//! packets before, and encodes what a device ahead can decode; devices cache by hash range and decode what they hold; at the egress it is compared
//! with what entered. `docs/PLANNERS.md`, "Emulation", defines the mechanisms.

mod allocation;
mod dynamics;
mod engine;
mod header;
mod ingress;
mod link;
mod node;
mod packet;
mod report;
mod route;
mod shim;
mod store;
#[cfg(test)]
mod tests;
pub mod workload;

pub use allocation::{Allocation, Share};
pub use dynamics::{Change, Event, Observed, Replanner, Replanning, Rollout};
pub use engine::{Emulation, Scheme, Settings};
pub use header::{Extension, HeaderHash, Identity};
pub use packet::{Fields, Header, Packet};
pub use report::{DeviceReport, EpochReport, IngressReport, Refusals, Report, Traffic};
pub use shim::{Format, MAX_MATCHES, MAX_PAYLOAD, Shim, ShimError, Spec};
pub use store::Finding;
