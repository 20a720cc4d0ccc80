//! How a peer can violate the protocol.

use crate::hello::HelloError;
use crate::message::MessageError;

/// How a peer violated the protocol.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Violation {
    /// Bytes that are not a message.
    #[error(transparent)]
    Message(#[from] MessageError),
    /// An invalid HELLO.
    #[error(transparent)]
    Hello(#[from] HelloError),
    /// A message in a place where it is not allowed.
    #[error("unexpected {0}")]
    Unexpected(&'static str),
    /// A number out of bounds.
    #[error("{what} of {value}, where at most {limit} is allowed")]
    Bounds {
        /// What the number counts.
        what: &'static str,
        /// The number.
        value: u64,
        /// Its limit.
        limit: u64,
    },
    /// An epoch that cannot begin.
    #[error("{0}")]
    Epoch(String),
}
