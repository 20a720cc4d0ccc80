//! A node of a network: it encodes what enters, caches and decodes what passes, and passes it on.
//!
//! `docs/NETWORK.md` specifies the records between nodes; `oncewire_plan::engine` has SmartRE's
//! ingress and devices, which the emulator runs, too. [`Machine`] joins them without I/O.
//!
//! ```text
//! access device -> enter: source, destination -> path -> Ingress -> record to the next node
//! record of a neighbor -> arrive: path, the neighbor before -> Node -> next node, or access device
//! ```

mod error;
mod load;
mod machine;
mod member;
mod overload;
mod part;
mod place;
mod plans;
mod record;
mod running;
mod setup;
mod speed;
mod tally;
#[cfg(test)]
mod tests;
mod versions;

pub use error::{NodeError, SetupError};
pub use machine::{FORMAT, Machine, NodeCounters, Step};
pub use member::{MemberConfig, MemberStatus, SavedPlanError, plan_digest, saved_plan};
pub use place::NodeSettings;
pub use plans::{Plans, Taken};
pub use running::{NodeConfig, RunningNode, access_mtu, follow, start};
pub use setup::{Manifests, PlanId, RunningNetwork};
pub use speed::{Speeds, measure_speeds};
