//! Joining a server once, with a token: the client's key is put on the list of authorized peers.
//!
//! Whoever runs a server makes an [`Invitation`] for one peer, with a name, rules and a last day if
//! wanted. Its [`Token`] goes to the peer, by any way that nobody else can read. The peer connects
//! with the token before the invitation ends ([`enroll`]), and proves a key of its own in TLS. The
//! server writes that key with what the invitation says into its file of authorized peers, and takes
//! the invitation away: each is good for one key.
//!
//! The token holds the server's public key, so that the peer knows whom it talks to, and a secret of
//! 128 bits, of which the server stores the SHA-256 only. It goes over TLS 1.3, after the server has
//! proved its key. `docs/PROTOCOL.md`, "Enrollment", has the bytes.

mod client;
mod invitation;
mod server;
mod token;

pub use client::{EnrollError, enroll, enroll_blocking};
pub use invitation::{Invitation, InvitationError, Invitations};
pub(crate) use server::serve;
pub use token::{Token, TokenError};

/// The application protocol of an enrollment (RFC 7301).
pub(crate) const ALPN: &[u8] = b"oncewire-enroll/1";

/// What a client sends: this and the secret.
const REQUEST: [u8; 4] = *b"OWE1";

/// What a server answers, one byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Answer {
    /// The client's key is authorized now, or was before.
    Accepted = 0,
    /// There is no such invitation: it never was, has ended, or was used for another key.
    Unknown = 1,
    /// The server cannot write its file of authorized peers.
    Failed = 2,
}

impl Answer {
    fn of(byte: u8) -> Option<Answer> {
        [Answer::Accepted, Answer::Unknown, Answer::Failed]
            .into_iter()
            .find(|&answer| answer as u8 == byte)
    }
}

#[cfg(test)]
mod tests;
