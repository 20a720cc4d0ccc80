//! Why a node cannot start.

use super::setup::SetupError;
use crate::keys::PublicKey;
use crate::link::LinkError;

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
