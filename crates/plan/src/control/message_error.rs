//! Why a message cannot be read.

/// Largest version of a plan that a node may say it has. Documents have larger ones, so that a next one
/// can follow.
pub const MAX_VERSION: u64 = 1 << 52;

/// A message that cannot be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MessageError {
    /// It is not of this protocol.
    #[error("a message that is none of the protocol: {0}")]
    Malformed(String),
    /// It is larger than messages are.
    #[error("a message of {bytes} bytes; the largest has {most}")]
    TooLong {
        /// Its bytes.
        bytes: usize,
        /// The most.
        most: usize,
    },
    /// A plan has a version that none has.
    #[error("a plan of version {0}; the largest is {MAX_VERSION}")]
    Version(u64),
    /// It lists more of something than there can be.
    #[error("a message with {count} {what}; there are {most} at most")]
    TooMany {
        /// Of what.
        what: &'static str,
        /// How many.
        count: usize,
        /// The most.
        most: usize,
    },
}
