//! How a controller works.

use crate::manifest::Plan;

/// How a controller works. Times are in nanoseconds.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Between plans while traffic stays as it is.
    pub replan: u64,
    /// Between reports of an ingress.
    pub report: u64,
    /// Share of an ingress's bytes by which its bytes, or those that repeat, must differ from what was
    /// planned with for a new plan at once.
    pub change: f64,
    /// Share of the footprint that a new plan must save beyond the old one.
    pub gain: f64,
    /// Silence after which a node is away.
    pub silence: u64,
    /// How long the first plan waits for nodes that have not joined.
    pub patience: u64,
    /// How long links must stay up before a plan uses them again.
    pub settle: u64,
    /// How long the plan waits after a link went down: neighbors of a dead node notice that one after
    /// the other.
    pub gather: u64,
    /// How long a plan that is being brought in waits for a node that is away from the controller, but
    /// not from its neighbors.
    pub absence: u64,
    /// After a plan that failed, or could not be stored.
    pub retry: u64,
    /// Bytes for packets of nodes that do not say how many they have.
    pub memory: u64,
    /// The epoch of its leadership, if there are other controllers: nodes refuse those with a smaller
    /// one than they have seen.
    pub epoch: Option<u64>,
    /// Digest of the topology, which nodes must have, too.
    pub network: String,
    /// Digest of a plan's manifests.
    pub digest: fn(&Plan) -> u64,
}

const SECOND: u64 = 1_000_000_000;

impl Settings {
    /// The usual times.
    pub fn new(network: String, digest: fn(&Plan) -> u64) -> Settings {
        Settings {
            replan: 600 * SECOND,
            report: 10 * SECOND,
            change: 0.5,
            gain: 0.01,
            silence: 15 * SECOND,
            patience: 10 * SECOND,
            settle: 2 * SECOND,
            gather: SECOND / 10,
            absence: 15 * SECOND,
            retry: 30 * SECOND,
            memory: 256 << 20,
            epoch: None,
            network,
            digest,
        }
    }
}
