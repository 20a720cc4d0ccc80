//! Why a node cannot start, or a plan is not for it.

use crate::keys::PublicKey;
use crate::link::LinkError;
use oncewire_plan::Error;

/// Why a node cannot start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum NodeError {
    /// What it reads does not fit.
    #[error(transparent)]
    Setup(#[from] SetupError),
    /// The key is not that of the node in the topology.
    #[error("the topology gives node {name} the public key {expected}, but this end's is {own}")]
    Key {
        /// The node.
        name: String,
        /// Its key in the topology.
        expected: PublicKey,
        /// This end's.
        own: PublicKey,
    },
    /// No node shares a link with it.
    #[error("node {0} has no neighbors in the topology")]
    Alone(String),
    /// The port, the device or TLS.
    #[error(transparent)]
    Link(#[from] LinkError),
}

/// Files that do not describe a network that can run, or not the same one.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SetupError {
    /// The topology.
    #[error(transparent)]
    Topology(#[from] Error),
    /// A member of a node that is not what it must be.
    #[error("node {node}: {what}: {why}")]
    Member {
        /// The node.
        node: String,
        /// Which member.
        what: &'static str,
        /// What is wrong with it.
        why: String,
    },
    /// No node has this name.
    #[error("the topology has no node {0}")]
    NoNode(String),
    /// A node that must be reached has no key.
    #[error("node {0} has no key in the topology")]
    NoKey(String),
    /// The manifests are of several plans, or of another network.
    #[error("{0}: it is of version {1} of network {2}, and others are not")]
    Mixed(String, u64, String),
    /// Two manifests are for one device or ingress.
    #[error("two manifests are for {0}")]
    Twice(String),
    /// A manifest is of something that the topology does not have.
    #[error("{0}, which a manifest names, is not in the topology: was the plan made from it?")]
    Stranger(String),
    /// An ingress has several slices.
    #[error("{0} has several slices; nodes carry plans without redundancy-aware routes only")]
    Slices(String),
    /// The devices of a path are not on its way.
    #[error(
        "the path from {from} to {to} has other devices in the plan than on its shortest way; nodes carry plans of shortest paths only"
    )]
    OtherWay {
        /// Where it begins.
        from: String,
        /// Where it ends.
        to: String,
    },
    /// The node has less memory than its manifests need.
    #[error("the manifests need {needed} bytes of memory here, more than the {memory} given")]
    Memory {
        /// Bytes of all buckets at the node.
        needed: u64,
        /// Bytes that it may use.
        memory: u64,
    },
    /// A plan that is older than one that the node has.
    #[error("plan {new} is older than plan {old}, which this node has")]
    Stale {
        /// The newest plan that the node has.
        old: u64,
        /// The plan that was refused.
        new: u64,
    },
    /// Another plan with the version of one that the node has.
    #[error("this node has another plan of version {0}; a new plan needs a new version")]
    SameVersion(u64),
    /// A path goes another way in the new plan.
    #[error(
        "path {0} is another one in the new plan; was it made from the same topology, after the old plan?"
    )]
    Changed(u32),
    /// The part of a controller's plan.
    #[error(transparent)]
    Part(#[from] oncewire_plan::manifest::PartError),
    /// A controller's plan is the part of another node.
    #[error("this part of a plan is another node's")]
    OtherNode,
    /// Paths go through nodes between which there is no link here.
    #[error(
        "a path through node number {0} of the topology, to which no link leads: was the plan made from the same topology?"
    )]
    NoNeighbor(u32),
    /// No memory for the fingerprint table.
    #[error("the engine cannot start: {0}")]
    Engine(#[source] Error),
}
