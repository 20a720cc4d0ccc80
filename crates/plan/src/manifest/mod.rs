//! Manifests: which device caches which packets, and what ingresses may encode against (thesis,
//! sections 3.2 to 3.4).
//!
//! A [`Plan`] is a solution in whole numbers. From it come a [`DeviceManifest`] per device and an
//! [`IngressManifest`] per ingress; [`validate`] checks all of them against the instance, [`diff`]
//! compares two plans, and a [`Transition`] says what is safe while the network goes from one to
//! the next. `docs/PLANNERS.md`, "Manifests", defines the documents.
//!
//! **Hash space.** A packet's header hash is a `u32`. Ranges are half-open with ends from 0 to
//! [`SPACE`], so that "disjoint" and "covered" are statements about whole numbers.

mod checks;
mod device;
mod diff;
mod ingress;
mod json;
mod options;
mod part;
mod plan;
mod range;
mod room;
#[cfg(test)]
mod tests;
mod transition;
mod validate;

pub use device::{DeviceManifest, Entry};
pub use diff::{Change, DeviceDiff, Diff, Kind, Totals, diff};
pub use ingress::{Held, IngressManifest, IngressPath, IngressRange, TreeNode};
pub use options::Options;
pub use part::{MAX_PART, NodePart, OwnPath, PartError, Parts, Passing};
pub use plan::{Parameters, Plan, PlannedDevice, PlannedIngress, PlannedPath};
pub use range::Range;
pub use transition::{Configuration, Copies, Decoder, Progress, Spare, State, Transition};
pub use validate::validate;

/// Number of header hashes.
pub const SPACE: u64 = 1 << 32;

/// Identifier of the header hash that plans use; `docs/PLANNERS.md`, "Header hash", defines it.
/// Another hash needs another identifier.
pub const HASH: &str = "oncewire-header-1";

/// Version of the documents' format.
pub const FORMAT: u32 = 1;

/// Most devices on a path: no IP packet crosses more routers.
pub const MAX_HOPS: usize = 255;

/// Longest name of a network, device, ingress or egress, in bytes.
pub const MAX_NAME: usize = 1000;

/// Largest document that is read, in bytes.
pub const MAX_DOCUMENT: usize = 1 << 28;

/// Largest size in bytes, and largest version: what every JSON reader holds exactly (RFC 8259,
/// section 6).
pub const MAX_NUMBER: u64 = (1 << 53) - 1;
