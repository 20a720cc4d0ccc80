//! Why there is no session with a peer. Causes are variants with their data; the words are made
//! here and nowhere else.

use crate::keys::PublicKey;
use crate::target::Target;
use crate::tls::{self, Credential, OTHER_CREDENTIAL, TlsError, UnknownPeer};
use crate::transport::TransportEnd;
use oncewire_session::{Answer, Ended, Hello, HelloError};
use quinn::{ConnectionError, TransportErrorCode};
use rustls::{CertificateError, OtherError};
use std::fmt;
use std::io;
use std::time::Duration;

/// Time limit for a handshake at a server; at a client, for each of TCP, TLS and QUIC.
pub(crate) const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);

/// Why a handshake with a peer failed, from the look-up of its name to the agreement on a session.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum HandshakeError {
    /// The peer showed a key that is not on this end's list. It may not have proved yet that it
    /// owns the key.
    #[error(
        "key {key} is not authorized; if it is the right one, pass --peer {key} or add it to the \
         file of authorized peers"
    )]
    UnknownKey {
        /// The key that the peer showed.
        key: PublicKey,
    },
    /// The server closed the connection before its hello, as it does when it does not know the
    /// client's key: in TLS 1.3 the client learns that only after its own handshake.
    #[error(
        "{cause} before it answered; if it does not know this client's key, start it with --peer \
         {ours} or add the key to its file of authorized peers"
    )]
    NoHello {
        /// This client's key.
        ours: PublicKey,
        /// How the connection ended.
        cause: TransportEnd,
    },
    /// The peer's TLS does not support the form in which this end shows its key, or asks for the
    /// peer's. The other form may work.
    #[error("the peer's TLS does not accept {} ({cause})", offered.with_article())]
    Credential {
        /// The form that this end offered.
        offered: Credential,
        /// What TLS or QUIC reported.
        cause: String,
    },
    /// A step took too long.
    #[error("no {stage} within {} s", limit.as_secs())]
    TimedOut {
        /// The step.
        stage: Stage,
        /// The time it had.
        limit: Duration,
    },
    /// The peer closed the connection in the middle of a step.
    #[error("the peer closed the connection before the end of the {stage}")]
    Closed {
        /// The step.
        stage: Stage,
    },
    /// The name of the server does not resolve.
    #[error("cannot resolve {server}: {source}")]
    Resolve {
        /// The server as it was configured.
        server: Target,
        /// The resolver's error.
        source: io::Error,
    },
    /// A socket failed.
    #[error("{stage} failed: {source}")]
    Io {
        /// The step.
        stage: Stage,
        /// The system's error.
        source: io::Error,
    },
    /// TLS failed for another reason.
    #[error("TLS handshake failed: {0}")]
    Tls(#[source] rustls::Error),
    /// QUIC failed for another reason.
    #[error("QUIC handshake failed: {}", quic_text(.0))]
    Quic(#[source] ConnectionError),
    /// The handshake succeeded, but not with an Oncewire peer; or TLS cannot be set up here.
    #[error(transparent)]
    Peer(#[from] TlsError),
    /// The peer's first message is not a hello that this end understands.
    #[error(transparent)]
    Hello(#[from] HelloError),
    /// This server knows the client, but has no version in common with it or cannot read its hello.
    #[error("{name}: {error}")]
    Incompatible {
        /// The client's key.
        key: PublicKey,
        /// Its name, or its key.
        name: String,
        /// What is wrong.
        error: HelloError,
    },
    /// The peer's first message is too long.
    #[error("the peer's first message has more than {limit} bytes")]
    HelloTooLong {
        /// The limit in bytes.
        limit: usize,
    },
    /// This server knows the peer, and takes no session from it now.
    #[error("{peer}: {reason}")]
    Rejected {
        /// The peer's name, or its key.
        peer: String,
        /// Why not.
        reason: Rejection,
    },
    /// The server is draining; new connections wait for its successor.
    #[error("the server is draining")]
    Draining,
    /// The session ended before it was established.
    #[error(transparent)]
    Session(#[from] Ended),
    /// A client came with a token and was not enrolled.
    #[error("{why}")]
    NotEnrolled {
        /// Why not.
        why: String,
    },
    /// The system gives no random numbers.
    #[error("the system gives no random numbers")]
    Random,
    /// No attempt has failed yet, and none has succeeded.
    #[error("no answer from the server within {} s", waited.as_secs())]
    NoAnswer {
        /// How long the caller waited.
        waited: Duration,
    },
}

/// A step of a handshake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Stage {
    /// Opening a TCP connection.
    Tcp,
    /// The TLS handshake on it.
    Tls,
    /// The QUIC handshake.
    Quic,
    /// The first message of the tunnel's protocol.
    Hello,
    /// TLS and hello together, which share a time limit at a server.
    Handshake,
}

impl fmt::Display for Stage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Stage::Tcp => "TCP connection",
            Stage::Tls => "TLS handshake",
            Stage::Quic => "QUIC handshake",
            Stage::Hello => "hello",
            Stage::Handshake => "handshake",
        })
    }
}

/// Why a server takes no session from a peer that it knows. The text goes to the client, too.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Rejection {
    /// The client asked for a session that is over. It begins another one by itself.
    #[error("no such session")]
    UnknownSession,
    /// The server is draining.
    #[error("the server is draining")]
    Draining,
    /// All sessions are taken.
    #[error("it has {sessions} sessions, as many as --max-sessions and --memory allow")]
    TooManySessions {
        /// How many there are.
        sessions: usize,
    },
    /// Too many clients with the same key are connected.
    #[error("{sessions} clients with this key are connected; give each client its own key")]
    TooManyWithKey {
        /// How many there are.
        sessions: usize,
    },
    /// The key was revoked after the TLS handshake.
    #[error("the key is no longer authorized")]
    Revoked,
    /// Not even the smallest cache fits into the memory that is free.
    #[error("no memory for another session; raise --memory")]
    NoMemory,
    /// The system gives no random numbers.
    #[error("the system gives no random numbers")]
    Random,
    /// The session itself refused the hello.
    #[error("{0}")]
    Session(
        /// Its reason.
        String,
    ),
}

impl Rejection {
    /// The reason in a refusal that the session made.
    pub(crate) fn of(answer: &Hello) -> Rejection {
        match answer.answer {
            Answer::Unknown => Rejection::UnknownSession,
            _ => Rejection::Session(answer.reason.clone()),
        }
    }
}

impl HandshakeError {
    /// The error of a TLS handshake in which this end offered `credential`.
    pub(crate) fn of_tls(error: io::Error, offered: Credential) -> HandshakeError {
        let Some(tls) = error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>())
        else {
            return match error.kind() {
                io::ErrorKind::UnexpectedEof => HandshakeError::Closed { stage: Stage::Tls },
                _ => HandshakeError::Io { stage: Stage::Tls, source: error },
            };
        };
        if let rustls::Error::InvalidCertificate(CertificateError::Other(OtherError(other))) = tls
            && let Some(&UnknownPeer(key)) = other.downcast_ref()
        {
            return HandshakeError::UnknownKey { key };
        }
        if tls::refuses_credential(tls) {
            return HandshakeError::Credential { offered, cause: tls.to_string() };
        }
        HandshakeError::Tls(tls.clone())
    }

    /// The error of a QUIC handshake in which this end offered `credential`.
    pub(crate) fn of_quic(error: ConnectionError, offered: Credential) -> HandshakeError {
        // QUIC passes on only the text of what TLS found here; what the peer sent is never a
        // `TransportError`.
        if let ConnectionError::TransportError(found) = &error
            && let Some(key) = found
                .reason
                .split(|c: char| !c.is_ascii_alphanumeric() && !matches!(c, '-' | '_'))
                .find_map(|word| word.parse().ok())
        {
            return HandshakeError::UnknownKey { key };
        }
        if quic_refuses_credential(&error) {
            return HandshakeError::Credential { offered, cause: quic_text(&error) };
        }
        HandshakeError::Quic(error)
    }

    /// Whether other attempts would fail in the same way, until one end is updated.
    pub fn is_lasting(&self) -> bool {
        matches!(self, HandshakeError::Session(why) if why.is_lasting())
    }

    /// What a client's log says of an attempt that failed so, before the cause.
    pub(crate) fn headline(&self) -> &'static str {
        match self {
            HandshakeError::Session(why) if why.is_lasting() => {
                "client and server do not fit; not trying again"
            }
            HandshakeError::Session(_) | HandshakeError::Draining => {
                "no session with the server; trying again"
            }
            HandshakeError::NoHello { .. } => "the server closed the connection; trying again",
            HandshakeError::UnknownKey { .. } => {
                "the server's key is not authorized here; trying again"
            }
            HandshakeError::Rejected { .. } => "the server rejected the session; trying again",
            _ => "cannot reach the server; trying again",
        }
    }
}

/// Whether QUIC failed over the form in which keys are shown: the other [`Credential`] may work.
fn quic_refuses_credential(error: &ConnectionError) -> bool {
    let code = match error {
        ConnectionError::TransportError(error) => error.code,
        ConnectionError::ConnectionClosed(close) => close.error_code,
        _ => return false,
    };
    OTHER_CREDENTIAL.into_iter().any(|alert| code == TransportErrorCode::crypto(alert.into()))
}

/// The text of a QUIC error. What TLS reports of the peer's key is in `reason`.
fn quic_text(error: &ConnectionError) -> String {
    match error {
        ConnectionError::TransportError(error) if !error.reason.is_empty() => error.reason.clone(),
        error => error.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    #[test]
    fn an_unknown_key_is_found_in_errors_of_tls_and_quic() {
        let key = PublicKey([7; 32]);
        let tls =
            rustls::Error::from(CertificateError::Other(OtherError(Arc::new(UnknownPeer(key)))));
        let quic = quinn_proto::TransportError {
            code: quinn::TransportErrorCode::crypto(46),
            frame: None,
            reason: tls.to_string(),
        };
        let errors = [
            HandshakeError::of_tls(
                io::Error::new(io::ErrorKind::InvalidData, tls),
                Credential::RawKey,
            ),
            HandshakeError::of_quic(ConnectionError::TransportError(quic), Credential::RawKey),
        ];
        for error in errors {
            assert!(
                matches!(error, HandshakeError::UnknownKey { key: found } if found == key),
                "{error:?}"
            );
            assert!(error.to_string().contains(&format!("--peer {key}")), "{error}");
        }
    }

    #[test]
    fn a_form_of_key_that_is_refused_is_told_from_other_errors() {
        use rustls::{AlertDescription, Error};
        let of = |error: Error| HandshakeError::of_tls(io::Error::other(error), Credential::RawKey);
        let refused = of(Error::AlertReceived(AlertDescription::UnsupportedCertificate));
        assert!(
            matches!(refused, HandshakeError::Credential { offered: Credential::RawKey, .. }),
            "{refused:?}"
        );
        let other = of(Error::AlertReceived(AlertDescription::ProtocolVersion));
        assert!(matches!(other, HandshakeError::Tls(_)), "{other:?}");
    }
}
