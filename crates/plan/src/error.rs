//! What can be wrong with what an operator gives.

/// Why there is no plan. Each message is one line, in the operator's words.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A topology that cannot be read, or that makes no sense.
    #[error("topology: {0}")]
    Topology(String),
    /// Demands, populations or volumes that cannot be used.
    #[error("traffic: {0}")]
    Traffic(String),
    /// Paths that cannot be used.
    #[error("paths: {0}")]
    Paths(String),
    /// A redundancy profile that cannot be used.
    #[error("redundancy profile: {0}")]
    Profile(String),
    /// Sizes or speeds of devices that cannot be used.
    #[error("devices: {0}")]
    Devices(String),
    /// The program has no answer, or none that this solver finds.
    #[error("solver: {0}")]
    Solver(String),
    /// A manifest that is damaged or contradicts itself.
    #[error("manifest: {0}")]
    Manifest(String),
    /// The emulation cannot go on, or found a packet that left the network other than it entered.
    #[error("emulation: {0}")]
    Emulation(String),
    /// Whoever waits gave up.
    #[error("interrupted")]
    Stopped,
}
