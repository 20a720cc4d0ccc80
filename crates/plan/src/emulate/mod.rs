//! Packets through a planned network, with the real codec.
//!
//! An [`Emulation`] takes packets in order of time and carries each through the network before the
//! next. The ingress stores it, finds matches with earlier packets, and encodes what a device
//! downstream can decode. Devices cache by hash range and decode packets they hold. At the egress
//! it is compared with what entered. `docs/PLANNERS.md`, "Emulation", defines the mechanisms.

mod choose;
mod dynamics;
mod engine;
mod link;
mod planner;
mod report;
mod request;
mod reroute;
pub(crate) mod spread;
#[cfg(test)]
mod tests;
pub mod workload;

pub use crate::engine::{
    Allocation, Extension, Fields, Finding, Format, Gaps, Header, HeaderHasher, Identity,
    MAX_COPIES, MAX_MATCHES, MAX_PAYLOAD, Packet, Queues, Refusals, Rules, Share, Shim, ShimError,
    Spec,
};
pub use choose::{Choose, Offered};
pub use dynamics::{Change, Event, Observed, Replanner, Replanning, Rollout};
pub use engine::{Emulation, Scheme, Settings};
pub use report::{DeviceReport, EpochReport, IngressReport, Report, Traffic};
pub use request::{
    Captured, Captures, FlashCrowd, NoCaptures, Outcome, Replan, Request, Reroute, Run, Source, run,
};
pub use reroute::reroute;
pub use spread::Limits;
