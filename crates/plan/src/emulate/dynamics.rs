//! What changes during a run.

use super::Allocation;
use crate::{Error, Measured};

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
    /// New manifests are brought out (thesis, section 3.4, "Consistent configurations").
    Manifests {
        /// Who caches what from then on.
        allocation: Allocation,
        /// How long it takes.
        rollout: Rollout,
    },
    /// A path takes other links. Its packets are encoded only against what devices of the new route hold, and stored only where the manifests
    /// name a device of the new route.
    Route {
        /// The path.
        path: u32,
        /// Its links from now on, from the same ingress to the same egress.
        links: Vec<u32>,
        /// How long it takes its ingress to hear of it, in nanoseconds. Packets encoded meanwhile may be undecodable.
        notice: u64,
    },
    /// Packets are lost on links with this probability from now on.
    Loss(f64),
}

/// How manifests are brought out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rollout {
    /// In this many nanoseconds all devices get them, each at a time of its own; they honour both from then on.
    pub stagger: u64,
    /// In this many nanoseconds after that all ingresses go over to them, each at a time of its own. Then devices forget the old ones.
    pub transition: u64,
}

/// What the ingresses report.
#[derive(Clone, Debug, PartialEq)]
pub struct Observed {
    /// Number of the epoch that has just ended.
    pub epoch: u64,
    /// Bytes per epoch, per path, since the last report.
    pub volumes: Vec<f64>,
    /// Matches per epoch since the last report. Ingresses see only matches with packets that they store; divided by the share of q's packets that is
    /// stored, the counts are of all.
    pub profile: Measured,
    /// The ingress whose report is far from what was planned with, if that is the reason; otherwise it was time.
    pub changed: Option<u32>,
}

/// Computes manifests anew during a run.
pub trait Replanner {
    /// The next manifests; none to keep those there are.
    ///
    /// # Errors
    /// What the planner says; it ends the run.
    fn replan(&mut self, observed: &Observed) -> Result<Option<Allocation>, Error>;
}

/// When manifests are computed anew.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Replanning {
    /// Every so many epochs; never if 0.
    pub every: u64,
    /// As soon as an ingress's bytes, or bytes matched, in an epoch differ by more than this share of its bytes from those that were planned with.
    pub change: Option<f64>,
    /// How long it takes to compute them, in nanoseconds.
    pub delay: u64,
    /// How long it takes to bring them out.
    pub rollout: Rollout,
}
