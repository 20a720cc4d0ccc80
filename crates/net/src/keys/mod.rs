//! Ed25519 keys: this end's own, and those of the peers it accepts, as with SSH and WireGuard.
//! There is no certificate authority.

pub(crate) mod file;
mod peers;
mod public;
mod secret;

pub use crate::ownership::OwnershipError;
pub use file::{FileError, FileKind, FileProblem};
pub use peers::{AuthorizedPeers, MAX_PEER_NAME, Peer, PeerError, PeersError, Reload};
pub(crate) use public::crc16;
pub use public::{PublicKey, PublicKeyError};
pub use secret::{SecretKey, SecretKeyError, redact};

#[cfg(test)]
mod tests;
