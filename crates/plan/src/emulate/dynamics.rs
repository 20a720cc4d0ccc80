//! What changes during a run.

use super::Allocation;
use crate::{Error, LinkId, Measured};

/// Something that happens at a given time.
#[derive(Clone, Debug, PartialEq)]
pub struct Event {
    /// When, in nanoseconds from the beginning of the run.
    pub time: u64,
    /// What.
    pub change: Change,
}

/// What changes.
#[derive(Clone, Debug, PartialEq)]
pub enum Change {
    /// New manifests are rolled out (thesis, section 3.4, "Consistent configurations").
    Manifests {
        /// The new assignment.
        allocation: Allocation,
        /// How long it takes.
        rollout: Rollout,
    },
    /// A path takes other links. Its packets are encoded only against what devices of the new route
    /// hold, and stored only where the manifests name a device of the new route.
    Route {
        /// The path.
        path: u32,
        /// Its links from now on, from the same ingress to the same egress.
        links: Vec<LinkId>,
        /// Time until its ingress learns of it, in nanoseconds. Packets encoded meanwhile may be
        /// undecodable.
        notice: u64,
    },
    /// Packets are lost on links with this probability from now on.
    Loss(f64),
}

/// How manifests are rolled out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rollout {
    /// Nanoseconds within which all devices get them, at random times; a device honors both from
    /// then on.
    pub stagger: u64,
    /// Nanoseconds after that within which all ingresses switch, at random times. Then devices
    /// forget the old ones.
    pub transition: u64,
}

/// Measurements that ingresses report.
#[derive(Clone, Debug, PartialEq)]
pub struct Observed {
    /// Number of the epoch that has just ended.
    pub epoch: u64,
    /// Bytes per epoch, per path, since the last report.
    pub volumes: Vec<f64>,
    /// Matches per epoch since the last report. Ingresses see only matches with packets that they
    /// store; divided by the share of q's packets that is stored, the counts are of all.
    pub profile: Measured,
    /// The ingress whose report is far from what was planned with, if that is the reason; otherwise
    /// it was time, or a route has changed.
    pub changed: Option<u32>,
    /// Paths that take other links than the instance says, as ingresses know, and these links.
    pub routes: Vec<(u32, Box<[LinkId]>)>,
}

/// Makes new manifests during a run.
pub trait Replanner {
    /// Returns the next manifests, or `None` to keep the current ones.
    ///
    /// # Errors
    /// Errors of the planner; they end the run.
    fn replan(&mut self, observed: &Observed) -> Result<Option<Allocation>, Error>;
}

/// When new manifests are made.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Replanning {
    /// Epochs between plans; 0 for never.
    pub every: u64,
    /// As soon as an ingress's bytes, or bytes matched, in an epoch differ by more than this share
    /// of its bytes from those that were planned with.
    pub change: Option<f64>,
    /// Time to make them, in nanoseconds.
    pub delay: u64,
    /// How they are rolled out.
    pub rollout: Rollout,
}
