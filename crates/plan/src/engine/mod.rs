//! What an ingress and a node of a network do with packets: SmartRE's encoder and decoders.
//!
//! An [`Ingress`] stores packets, finds matches with earlier ones, and encodes what a device
//! downstream can decode. A [`Node`] caches packets of its hash ranges and decodes what refers to
//! them. A [`Shim`] says what was taken out of a packet, and who is to cache it. The emulator
//! ([`crate::emulate`]) and the nodes of a network run this same code. `docs/PLANNERS.md`,
//! "Emulation", defines the mechanisms.
//!
//! There is no socket and no clock in here: times are numbers that the caller hands in.

mod allocation;
mod budget;
mod cache;
mod header;
mod index;
mod ingress;
mod node;
mod prices;
mod refusals;
mod route;
mod rules;
mod select;
mod sent;
mod shim;
mod store;
mod stored;

pub use crate::packet::{Fields, Header, Packet};
pub use allocation::{Allocation, Share};
pub use budget::Budget;
pub use cache::{Body, CacheTask, InFlight, Processed};
pub use header::{Extension, HeaderHasher, Identity};
pub use ingress::{Common, Ingress, Pairs, Sent};
pub use node::{Node, Ranges};
pub use prices::due;
pub use refusals::Refusals;
pub use route::{Route, Routes};
pub use rules::{Gaps, MAX_COPIES, Queues, Rules};
pub use sent::{SentPacket, SentPackets};
pub use shim::{Format, MAX_MATCHES, MAX_PAYLOAD, Shim, ShimError, Spec};
pub use store::Finding;

pub(crate) use allocation::Expectation;
pub(crate) use budget::budgets;
pub(crate) use cache::Cache;
pub(crate) use ingress::{literals, spec};
pub(crate) use node::ranges_of_devices;
pub(crate) use route::check as check_route;
pub(crate) use store::Store;
pub(crate) use stored::{Found, Refusal, Stored};
