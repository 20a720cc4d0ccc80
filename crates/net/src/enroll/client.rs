//! The client's end of an enrollment.

use super::{ALPN, Answer, REQUEST, Token};
use crate::handshake::{HANDSHAKE_TIMEOUT, HandshakeError, Stage};
use crate::keys::{AuthorizedPeers, Peer, SecretKey};
use crate::sockets::{dial, lookup};
use crate::target::Target;
use crate::tls::{self, Credential};
use std::io;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::timeout;
use tokio_rustls::TlsConnector;

/// How long a server may take to write its file.
const ANSWER: Duration = Duration::from_secs(30);

/// Why this end was not enrolled.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EnrollError {
    /// The server cannot be reached, or is another one than the token says.
    #[error(transparent)]
    Handshake(#[from] HandshakeError),
    /// The server takes no invitations.
    #[error(
        "the server takes no invitations: is it another one than the token is for, or does it run without --invitations?"
    )]
    NotOffered,
    /// The server has no such invitation.
    #[error("the server does not know the token: it has ended, or was used; ask for another one")]
    Unknown,
    /// The server could not write its file of authorized peers.
    #[error(
        "the server knows the token, and cannot write its file of authorized peers: its log says why; the token stays good"
    )]
    Server,
    /// The asynchronous runtime cannot start.
    #[error("cannot set up threads and timers: {0}")]
    Runtime(io::Error),
    /// The connection ended before the answer.
    #[error("the connection ended before the answer ({0}): try again, the token may still be good")]
    NoAnswer(io::Error),
}

/// [`enroll`] for programs without a runtime.
///
/// # Errors
/// [`EnrollError`].
pub fn enroll_blocking(
    server: &Target,
    token: &Token,
    secret: &SecretKey,
) -> Result<(), EnrollError> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.map_err(EnrollError::Runtime)?.block_on(enroll(server, token, secret))
}

/// Asks the server that `token` names to authorize this end's key. Over TCP only.
///
/// # Errors
/// [`EnrollError`].
pub async fn enroll(server: &Target, token: &Token, secret: &SecretKey) -> Result<(), EnrollError> {
    let addresses = lookup(server.host(), server.port())
        .await
        .map_err(|source| HandshakeError::Resolve { server: server.clone(), source })?;
    let only = AuthorizedPeers::new([Peer::from(token.server())]);
    let config = tls::client_config_for(secret, &only, Credential::RawKey, ALPN)
        .map_err(HandshakeError::Peer)?;
    let failed = |source| HandshakeError::Io { stage: Stage::Tcp, source };
    let limit = HANDSHAKE_TIMEOUT;
    let stream = dial(&addresses, limit).await.map_err(failed)?;
    let handshake = TlsConnector::from(config).connect(tls::server_name(), stream);
    let mut stream = timeout(limit, handshake)
        .await
        .map_err(|_| HandshakeError::TimedOut { stage: Stage::Tls, limit })?
        .map_err(|error| match error.get_ref().and_then(|inner| inner.downcast_ref()) {
            Some(rustls::Error::AlertReceived(rustls::AlertDescription::NoApplicationProtocol)) => {
                EnrollError::NotOffered
            }
            _ => HandshakeError::of_tls(error, Credential::RawKey).into(),
        })?;
    if stream.get_ref().1.alpn_protocol() != Some(ALPN) {
        return Err(EnrollError::NotOffered);
    }
    let asked = async {
        stream.write_all(&[&REQUEST[..], token.secret()].concat()).await?;
        stream.read_u8().await
    };
    let answer = timeout(ANSWER, asked).await.unwrap_or(Err(io::ErrorKind::TimedOut.into()));
    match Answer::of(answer.map_err(EnrollError::NoAnswer)?) {
        Some(Answer::Accepted) => Ok(()),
        Some(Answer::Unknown) => Err(EnrollError::Unknown),
        Some(Answer::Failed) => Err(EnrollError::Server),
        None => Err(EnrollError::NoAnswer(io::ErrorKind::InvalidData.into())),
    }
}
