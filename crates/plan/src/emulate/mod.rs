//! Packets through a planned network, with the real codec.
//!
//! An [`Emulation`] takes packets in order of time and carries each through the network before the
//! next. The ingress stores it, finds matches with earlier packets, and encodes what a device
//! downstream can decode. Devices cache by hash range and decode packets they hold. At the egress
//! it is compared with what entered. `docs/PLANNERS.md`, "Emulation", defines the mechanisms.

mod allocation;
mod dynamics;
mod engine;
mod header;
mod index;
mod ingress;
mod link;
mod node;
mod prices;
mod report;
mod request;
mod reroute;
mod route;
mod rules;
mod shim;
mod spread;
mod store;
mod stored;
#[cfg(test)]
mod tests;
pub mod workload;

pub use crate::packet::{Fields, Header, Packet};
pub use allocation::{Allocation, Share};
pub use dynamics::{Change, Event, Observed, Replanner, Replanning, Rollout};
pub use engine::{Emulation, Scheme, Settings};
pub use header::{Extension, HeaderHasher, Identity};
pub use report::{DeviceReport, EpochReport, IngressReport, Refusals, Report, Traffic};
pub use request::{
    Captured, Captures, FlashCrowd, NoCaptures, Outcome, Replan, Request, Reroute, Run, Source, run,
};
pub use reroute::reroute;
pub use rules::{Gaps, MAX_COPIES, Queues, Rules};
pub use shim::{Format, MAX_MATCHES, MAX_PAYLOAD, Shim, ShimError, Spec};
pub use store::Finding;
