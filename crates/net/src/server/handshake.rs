//! From an accepted connection to a lane of a session: TLS or QUIC, then the hello.

use super::Shared;
use crate::counted::Counted;
use crate::enroll::{self, Invitations};
use crate::handshake::{HANDSHAKE_TIMEOUT, HandshakeError, Rejection, Stage};
use crate::keys::PublicKey;
use crate::quic;
use crate::sockets::{accept, tune_lane};
use crate::sync::lock;
use crate::target::canonical;
use crate::tls::{self, Credential};
use crate::transport::Transport;
use crate::unauthenticated::PendingConnections;
use oncewire_session::{Hello, HelloError};
use rustls::server::{Acceptor, ClientHello};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::time::timeout;
use tokio_rustls::server::TlsStream;
use tokio_rustls::{LazyConfigAcceptor, TlsAcceptor};
use tracing::{debug, warn};

/// Connections that may be in a handshake at once. Beyond that the oldest is dropped, so that
/// silent strangers cannot keep peers out.
pub(super) const MAX_UNAUTHENTICATED: usize = 256;

/// Longest first message, in bytes.
const MAX_HELLO: usize = 8 << 10;

/// What the server offers first: clients whose TLS supports only certificates get one.
const OFFERED: Credential = Credential::RawKey;

/// Sends a refusal and closes.
async fn send_refusal(mut transport: Transport, answer: &Hello) {
    let mut out = Vec::new();
    answer.write(&mut out);
    // The client may be gone already.
    let _ = transport.stream.write_all(&out).await;
    let _ = transport.stream.shutdown().await;
}

async fn stopped(draining: &mut watch::Receiver<bool>) {
    // An error means that the sender was dropped: the server has stopped.
    let _ = draining.wait_for(|draining| *draining).await;
}

/// Whether a client comes with a token.
fn enrolls(hello: &ClientHello<'_>) -> bool {
    hello.alpn().into_iter().flatten().any(|alpn| alpn == enroll::ALPN)
}

impl Shared {
    pub(super) async fn accept_all(
        shared: Arc<Shared>,
        listener: TcpListener,
        tls: tls::ServerTls,
        pending: Arc<PendingConnections>,
    ) {
        let mut draining = shared.draining.subscribe();
        loop {
            let stream = tokio::select! {
                stream = accept(&listener) => stream,
                () = stopped(&mut draining) => return,
            };
            shared.admit(&pending, Shared::receive(shared.clone(), tls.clone(), stream));
        }
    }

    fn admit(
        &self,
        pending: &PendingConnections,
        handshake: impl Future<Output = ()> + Send + 'static,
    ) {
        if pending.admit(handshake) {
            self.refused_transports.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// The handshake on a TCP connection.
    async fn receive(shared: Arc<Shared>, tls: tls::ServerTls, stream: TcpStream) {
        // An error means that the client is gone already.
        let Ok(from) = stream.peer_addr().map(canonical) else { return };
        let _ = tune_lane(&stream);
        shared
            .limited(from, async {
                let stream = Counted::new(stream, shared.wire.clone());
                let failed = |error| HandshakeError::of_tls(error, OFFERED);
                let stream = match &shared.endpoint.invitations {
                    None => {
                        TlsAcceptor::from(tls.config()?).accept(stream).await.map_err(failed)?
                    }
                    Some(invitations) => {
                        // What the client wants decides whose keys are accepted.
                        let start = LazyConfigAcceptor::new(Acceptor::default(), stream);
                        let start = start.await.map_err(failed)?;
                        if enrolls(&start.client_hello()) {
                            let stream = start.into_stream(tls.enrolling().config()?);
                            return shared.enroll(stream.await.map_err(failed)?, invitations).await;
                        }
                        start.into_stream(tls.config()?).await.map_err(failed)?
                    }
                };
                let peer = tls::peer_key(stream.get_ref().1)?;
                shared.join_session(peer, Transport::new(stream, "tcp", from)).await
            })
            .await;
    }

    /// Puts a client's key on the list, if it has an invitation.
    async fn enroll(
        &self,
        stream: TlsStream<Counted<TcpStream>>,
        invitations: &Invitations,
    ) -> Result<(), HandshakeError> {
        let key = tls::shown_key(stream.get_ref().1.peer_certificates().unwrap_or_default())?;
        enroll::serve(stream, key, invitations, &self.endpoint.peers)
            .await
            .map_err(|refusal| HandshakeError::NotEnrolled { why: refusal.to_string() })
    }

    /// Gives a handshake its time, then counts and logs its failure.
    async fn limited(
        &self,
        from: SocketAddr,
        handshake: impl Future<Output = Result<(), HandshakeError>>,
    ) {
        let limit = HANDSHAKE_TIMEOUT;
        let result = timeout(limit, handshake).await;
        let error = match result
            .unwrap_or(Err(HandshakeError::TimedOut { stage: Stage::Handshake, limit }))
        {
            Ok(()) => return,
            // The client begins another session at once.
            Err(error @ HandshakeError::Rejected { reason: Rejection::UnknownSession, .. }) => {
                debug!(%from, %error, "client asked for a session that is over");
                return;
            }
            Err(error) => error,
        };
        self.refused_transports.fetch_add(1, Ordering::Relaxed);
        let passed = match &error {
            HandshakeError::Incompatible { key, error, .. } => self.pass_incompatible(*key, error),
            _ => self.refusals.pass(),
        };
        match passed {
            Some(suppressed) => warn!(%from, why = %error, suppressed, "client refused"),
            None => debug!(%from, why = %error, "client refused"),
        }
    }

    /// Whether to log that a client's hello cannot be read: once for each client, however many
    /// others there are, until it has a session. A client that tries again says nothing new.
    fn pass_incompatible(&self, key: PublicKey, error: &HelloError) -> Option<Option<u64>> {
        let mut incompatible = lock(&self.incompatible);
        // No more than there are authorized keys.
        incompatible.retain(|key, _| self.endpoint.peers.contains(key));
        match incompatible.insert(key, error.clone()) {
            None => Some(None),
            Some(last) if last == *error => None,
            Some(_) => self.refusals.pass(),
        }
    }

    pub(super) async fn accept_quic(
        shared: Arc<Shared>,
        endpoint: quinn::Endpoint,
        pending: Arc<PendingConnections>,
    ) {
        let mut draining = shared.draining.subscribe();
        loop {
            let incoming = tokio::select! {
                incoming = endpoint.accept() => incoming,
                () = stopped(&mut draining) => None,
            };
            // Accept no more; open connections continue.
            let Some(incoming) = incoming else {
                endpoint.set_server_config(None);
                endpoint.wait_idle().await;
                return;
            };
            shared.admit(&pending, Shared::receive_quic(shared.clone(), incoming));
        }
    }

    /// The handshake of a QUIC connection.
    async fn receive_quic(shared: Arc<Shared>, incoming: quinn::Incoming) {
        let from = canonical(incoming.remote_address());
        shared
            .limited(from, async {
                let connection =
                    incoming.await.map_err(|error| HandshakeError::of_quic(error, OFFERED))?;
                let peer = quic::peer_key(&connection)?;
                shared.wire.watch(connection.clone());
                // A separate task: this one ends with the handshake.
                tokio::spawn(Shared::serve_quic(shared.clone(), connection, peer, from));
                Ok(())
            })
            .await;
    }

    /// Every stream is a lane's transport. QUIC allows as many at once as a session has lanes.
    async fn serve_quic(
        shared: Arc<Shared>,
        connection: quinn::Connection,
        peer: PublicKey,
        from: SocketAddr,
    ) {
        while let Ok((send, receive)) = connection.accept_bi().await {
            let shared = shared.clone();
            tokio::spawn(async move {
                let transport = Transport::new(tokio::io::join(receive, send), "quic", from);
                shared.limited(from, shared.join_session(peer, transport)).await;
            });
        }
    }

    /// Reads the hello on an authenticated transport and gives the transport to the session that
    /// the hello names.
    async fn join_session(
        self: &Arc<Shared>,
        peer: PublicKey,
        mut transport: Transport,
    ) -> Result<(), HandshakeError> {
        let stage = Stage::Hello;
        let mut bytes = Vec::new();
        let (hello, len) = loop {
            match Hello::read(&bytes) {
                Ok(Some(found)) => break found,
                Ok(None) => {}
                Err(error) => {
                    // Without the magic number it is another protocol.
                    if let HelloError::NotHello | HelloError::Message(_) = error {
                        return Err(error.into());
                    }
                    send_refusal(transport, &Hello::unreadable(&error, &self.config)).await;
                    let name = self.endpoint.peers.label(&peer);
                    return Err(HandshakeError::Incompatible { key: peer, name, error });
                }
            }
            if bytes.len() > MAX_HELLO {
                return Err(HandshakeError::HelloTooLong { limit: MAX_HELLO });
            }
            let read = transport.stream.read_buf(&mut bytes).await;
            if read.map_err(|source| HandshakeError::Io { stage, source })? == 0 {
                return Err(HandshakeError::Closed { stage });
            }
        };
        let rest = bytes.split_off(len);
        lock(&self.incompatible).remove(&peer);
        #[cfg(unix)]
        self.restore(peer, &hello).await;
        let entered = self.enter(peer, &hello, transport, rest);
        let Err((reason, answer, transport)) = entered else { return Ok(()) };
        send_refusal(transport, &answer).await;
        Err(HandshakeError::Rejected { peer: self.endpoint.peers.label(&peer), reason })
    }
}
