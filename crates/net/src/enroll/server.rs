//! The server's end of an enrollment.

use super::invitation::{InvitationError, Invitations};
use super::token::SECRET;
use super::{Answer, REQUEST};
use crate::keys::{AuthorizedPeers, PeersError, PublicKey};
use crate::sync::lock;
use std::io;
use std::sync::Mutex;
use std::time::SystemTime;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tracing::info;

/// Why a client that came with a token was not enrolled.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub(crate) enum EnrollRefusal {
    /// There is no such invitation.
    #[error("{key} came with a token that is unknown, has ended, or was used")]
    Unknown {
        /// The client's key.
        key: PublicKey,
    },
    /// The client does not speak this protocol, or went away.
    #[error("{key} began to enroll and did not go on: {source}")]
    Io {
        /// The client's key.
        key: PublicKey,
        /// The system's error.
        source: io::Error,
    },
    /// The invitation cannot be read.
    #[error("cannot enroll a peer: {0}")]
    Invitation(#[from] InvitationError),
    /// The file of authorized peers cannot be written.
    #[error("cannot enroll a peer: {0}")]
    Peers(#[from] PeersError),
}

/// One change of the file of authorized peers at a time.
static CHANGING: Mutex<()> = Mutex::new(());

/// Reads a client's request and answers it; `key` is the key that it has proved.
pub(crate) async fn serve<S: AsyncRead + AsyncWrite + Unpin>(
    mut stream: S,
    key: PublicKey,
    invitations: &Invitations,
    peers: &AuthorizedPeers,
) -> Result<(), EnrollRefusal> {
    let failed = |source| EnrollRefusal::Io { key, source };
    let mut request = [0; REQUEST.len() + SECRET];
    stream.read_exact(&mut request).await.map_err(failed)?;
    let (begin, secret) = request.split_at(REQUEST.len());
    let secret = <[u8; SECRET]>::try_from(secret).unwrap_or_default();
    if begin != REQUEST {
        return Err(failed(io::ErrorKind::InvalidData.into()));
    }
    let (invitations, peers) = (invitations.clone(), peers.clone());
    // Files are read and written, and synchronized.
    let work = tokio::task::spawn_blocking(move || accept(&invitations, &peers, key, &secret));
    let result = work.await.map_err(|error| failed(io::Error::other(error)))?;
    let answer = match &result {
        Ok(()) => Answer::Accepted,
        Err(EnrollRefusal::Unknown { .. }) => Answer::Unknown,
        Err(_) => Answer::Failed,
    };
    stream.write_all(&[answer as u8]).await.map_err(failed)?;
    stream.shutdown().await.map_err(failed)?;
    result
}

fn accept(
    invitations: &Invitations,
    peers: &AuthorizedPeers,
    key: PublicKey,
    secret: &[u8; SECRET],
) -> Result<(), EnrollRefusal> {
    let _one = lock(&CHANGING);
    // Its answer was lost, and it comes again.
    if peers.contains(&key) {
        return Ok(());
    }
    let taken = invitations.take(secret, SystemTime::now())?;
    let Some((taken, invitation)) =
        taken.and_then(|taken| taken.invitation().cloned().map(|invitation| (taken, invitation)))
    else {
        return Err(EnrollRefusal::Unknown { key });
    };
    peers.add_line(&invitation.line(&key))?;
    taken.done();
    info!(peer = invitation.name(), %key, "enrolled: the key is in the file of authorized peers");
    Ok(())
}
