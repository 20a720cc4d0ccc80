//! Reaching the server: a transport for each lane.

use super::hubs::PATIENCE;
use super::{RETRY, Shared};
use crate::counted::Counted;
use crate::driver::{Driver, Phase};
use crate::endpoint::random;
use crate::handshake::{HANDSHAKE_TIMEOUT, HandshakeError, Stage};
use crate::keys::PublicKey;
use crate::sockets::{dial, lookup, tune_lane};
use crate::sync::lock;
use crate::tls::{self, Credential};
use crate::transport::{Transport, TransportKind};
use oncewire_session::Session;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};
use tokio::net::TcpStream;
use tracing::{debug, info};

/// How long TCP is used after QUIC did not get through, before QUIC is tried again.
const TCP_FOR: Duration = Duration::from_secs(600);

impl Shared {
    /// Gets a transport for a lane after `wait`, with as many attempts as it takes while the
    /// session lasts.
    pub(super) async fn dial_lane(
        self: Arc<Shared>,
        driver: Arc<Driver>,
        logs_of: Option<PublicKey>,
        lane: usize,
        wait: Duration,
    ) {
        let mut phase = driver.phase();
        let attempts = async {
            tokio::time::sleep(wait).await;
            let mut pause = RETRY.0;
            loop {
                match self.dial_once(driver.path().map(|path| path.address)).await {
                    Ok(dialled) => return dialled,
                    Err(error) => self.log_failure(error),
                }
                // Random, so that clients that lost the same path do not come back in step.
                let spread = random().map_or(0, |[random, ..]| random % 64) as u32;
                tokio::time::sleep(pause * (64 + spread) / 96).await;
                pause = self.next_pause(pause);
            }
        };
        tokio::select! {
            (peer, transport) = attempts => {
                if driver.set_peer(peer, self.endpoint.peers.label(&peer)) != peer {
                    // Another server has the address now. It must not learn anything about the
                    // session's logs.
                    driver.with(Session::close);
                    return;
                }
                if logs_of.is_some_and(|logs_of| logs_of != peer) {
                    driver.with(Session::forget_logs);
                }
                driver.attach(lane, transport);
            }
            _ = phase.wait_for(|phase| matches!(phase, Phase::Over(_))) => {}
        }
    }

    fn prefers_tcp(&self) -> bool {
        lock(&self.tcp_until).is_some_and(|until| Instant::now() < until)
    }

    /// Dials the server, with the other form of this end's key if its TLS does not accept the first.
    /// `own` is where the session is, if it was anywhere.
    async fn dial_once(
        &self,
        own: Option<SocketAddr>,
    ) -> Result<(PublicKey, Transport), HandshakeError> {
        let addresses = lookup(self.server.host(), self.server.port())
            .await
            .map_err(|source| HandshakeError::Resolve { server: self.server.clone(), source })?;
        let certificate = self.shows_certificate.load(Ordering::Relaxed);
        let order = if certificate {
            [Credential::Certificate, Credential::RawKey]
        } else {
            [Credential::RawKey, Credential::Certificate]
        };
        let addresses = self.hubs.order(addresses, own);
        let found = match self.dial_with(&addresses, order[0]).await {
            Err(error @ HandshakeError::Credential { .. }) => {
                debug!(%error, next = ?order[1], "showing the key in the other form");
                let found = self.dial_with(&addresses, order[1]).await;
                if found.is_ok() {
                    self.shows_certificate.store(!certificate, Ordering::Relaxed);
                }
                found
            }
            found => found,
        };
        let (peer, transport) = found?;
        *lock(&self.peer) = Some(peer);
        Ok((peer, transport))
    }

    async fn dial_with(
        &self,
        (first, others): &(Option<SocketAddr>, Vec<SocketAddr>),
        credential: Credential,
    ) -> Result<(PublicKey, Transport), HandshakeError> {
        if let Some(quic) = self.quic.as_ref().filter(|_| !self.prefers_tcp()) {
            let ordered: Vec<_> = first.iter().chain(others).copied().collect();
            match quic.dial(&ordered, credential, |peer| self.endpoint.peers.contains(peer)).await {
                Ok(found) => return Ok(found),
                Err(error @ HandshakeError::Credential { .. }) => return Err(error),
                Err(error) if self.endpoint.transport == TransportKind::Quic => return Err(error),
                Err(error) => {
                    info!(server = %self.server, why = %error, "no QUIC to the server; using TCP for {} minutes", TCP_FOR.as_secs() / 60);
                    *lock(&self.tcp_until) = Some(Instant::now() + TCP_FOR);
                }
            }
        }
        let limit = HANDSHAKE_TIMEOUT;
        let failed = |source| HandshakeError::Io { stage: Stage::Tcp, source };
        let stream = dial_tcp(*first, others).await.map_err(failed)?;
        let address = stream.peer_addr().map_err(failed)?;
        tune_lane(&stream).map_err(failed)?;
        let connector = match credential {
            Credential::RawKey => &self.raw_key,
            Credential::Certificate => &self.certificate,
        };
        let handshake =
            connector.connect(tls::server_name(), Counted::new(stream, self.wire.clone()));
        let stream = tokio::time::timeout(limit, handshake)
            .await
            .map_err(|_| HandshakeError::TimedOut { stage: Stage::Tls, limit })?
            .map_err(|error| HandshakeError::of_tls(error, credential))?;
        let peer = tls::peer_key(stream.get_ref().1)?;
        Ok((peer, Transport::new(stream, "tcp", address)))
    }
}

/// A connection to the hub of the session, or of the last one, if it answers; otherwise to another.
async fn dial_tcp(first: Option<SocketAddr>, others: &[SocketAddr]) -> io::Result<TcpStream> {
    if let Some(first) = first {
        match dial(&[first], PATIENCE).await {
            Ok(stream) => return Ok(stream),
            Err(error) => debug!(%first, %error, "the last hub does not answer"),
        }
    }
    dial(others, HANDSHAKE_TIMEOUT).await
}
