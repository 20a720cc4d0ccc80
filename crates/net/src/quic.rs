//! QUIC as a transport (RFC 9000): a lane is a bidirectional stream. Peers prove themselves as over TCP, by the same raw public keys.

use crate::counted::WireBytes;
use crate::endpoint::{GREETING_TIMEOUT, NetError};
use crate::keys::PublicKey;
use crate::tls::{self, Credential, TlsError};
use crate::transport::{DialError, Transport, race};
use quinn::crypto::rustls::{QuicClientConfig, QuicServerConfig};
use quinn::{
    ClientConfig, Connection, ConnectionError, ConnectionId, Endpoint, ServerConfig, TransportConfig, TransportErrorCode, VarInt,
    crypto,
};
use quinn_proto::transport_parameters::TransportParameters;
use rustls::pki_types::CertificateDer;
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Bytes of a lane that may be on their way, for the sender and for the receiver: 200 ms at 1 Gbit/s, and some. What QUIC holds can no
/// longer be overtaken by small flows, and it knows no mark for what was not yet sent, as TCP does.
const WINDOW: u32 = 32 << 20;
/// Connections of peers that may be greeting at once are limited by the caller; each may have as many streams as a session lanes.
const STREAMS: u32 = oncewire_session::MAX_LANES as u32;

fn transport(idle: Duration) -> Arc<TransportConfig> {
    let mut config = TransportConfig::default();
    config
        .stream_receive_window(VarInt::from_u32(WINDOW))
        // The session bounds what a lane brings; a lane must not wait because another one does.
        .receive_window(VarInt::from_u32(WINDOW * STREAMS))
        .send_window(WINDOW.into())
        .max_concurrent_bidi_streams(VarInt::from_u32(STREAMS))
        .max_concurrent_uni_streams(VarInt::from_u32(0))
        .datagram_receive_buffer_size(None)
        .max_idle_timeout(idle.try_into().ok());
    Arc::new(config)
}

fn failed(error: impl std::fmt::Display) -> NetError {
    NetError::Quic(error.to_string())
}

/// Listens for QUIC on a UDP port.
pub(crate) fn server(tls: &tls::Listening, address: SocketAddr, idle: Duration) -> Result<Endpoint, NetError> {
    let any = QuicServerConfig::try_from(tls.config()?).map_err(failed)?;
    let mut config = ServerConfig::with_crypto(Arc::new(EachItsOwn { tls: tls.clone(), any: Arc::new(any) }));
    config.transport_config(transport(idle));
    Endpoint::server(config, address).map_err(|source| NetError::Listen { bind: format!("{address} (UDP)"), source })
}

/// Gives every connection TLS settings of its own; see [`tls::Listening::config`].
struct EachItsOwn {
    tls: tls::Listening,
    /// For what does not depend on the connection.
    any: Arc<QuicServerConfig>,
}

impl crypto::ServerConfig for EachItsOwn {
    fn initial_keys(&self, version: u32, destination: &ConnectionId) -> Result<crypto::Keys, crypto::UnsupportedVersion> {
        self.any.initial_keys(version, destination)
    }

    fn retry_tag(&self, version: u32, destination: &ConnectionId, packet: &[u8]) -> [u8; 16] {
        self.any.retry_tag(version, destination, packet)
    }

    fn start_session(self: Arc<Self>, version: u32, parameters: &TransportParameters) -> Box<dyn crypto::Session> {
        let own = self.tls.config().ok().and_then(|config| QuicServerConfig::try_from(config).ok());
        // What was made once can be made again.
        own.map_or_else(|| self.any.clone(), Arc::new).start_session(version, parameters)
    }
}

/// The connecting end's QUIC: one socket for each family, one connection for all lanes.
pub(crate) struct Client {
    v4: Endpoint,
    v6: Option<Endpoint>,
    raw_key: ClientConfig,
    certificate: ClientConfig,
    connection: tokio::sync::Mutex<Option<(Connection, PublicKey)>>,
    wire: Arc<WireBytes>,
}

impl Client {
    /// With TLS settings for either [`Credential`], raw keys first.
    pub(crate) fn new(tls: &[Arc<rustls::ClientConfig>; 2], idle: Duration, wire: Arc<WireBytes>) -> Result<Client, NetError> {
        let config = |tls: &Arc<rustls::ClientConfig>| {
            let crypto = QuicClientConfig::try_from(tls.clone()).map_err(failed)?;
            let mut config = ClientConfig::new(Arc::new(crypto));
            config.transport_config(transport(idle));
            Ok::<_, NetError>(config)
        };
        let (raw_key, certificate) = (config(&tls[0])?, config(&tls[1])?);
        let v4 = Endpoint::client(SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0))).map_err(failed)?;
        // A machine without IPv6 has none here, either.
        let v6 = Endpoint::client(SocketAddr::from((Ipv6Addr::UNSPECIFIED, 0))).ok();
        Ok(Client { v4, v6, raw_key, certificate, connection: tokio::sync::Mutex::default(), wire })
    }

    /// A stream to the peer at one of `addresses`, on the connection there is, or on a new one. The connection there is may be older than
    /// what `trusted` says: its handshake has shown who the peer is, not that it still may be.
    pub(crate) async fn dial(
        &self,
        addresses: &[SocketAddr],
        credential: Credential,
        trusted: impl Fn(&PublicKey) -> bool,
    ) -> Result<(PublicKey, Transport), DialError> {
        let mut held = self.connection.lock().await;
        if let Some((connection, _)) = held.take_if(|(_, peer)| !trusted(peer)) {
            connection.close(VarInt::from_u32(0), b"");
        }
        if let Some((connection, peer)) = &*held
            && connection.close_reason().is_none()
            && let Ok(Ok((send, receive))) = tokio::time::timeout(GREETING_TIMEOUT, connection.open_bi()).await
        {
            return Ok((*peer, Transport::new(tokio::io::join(receive, send), "quic", connection.remote_address())));
        }
        *held = None;
        let attempt = |address: SocketAddr| {
            let endpoint = if address.is_ipv4() { Some(self.v4.clone()) } else { self.v6.clone() };
            let config = match credential {
                Credential::RawKey => self.raw_key.clone(),
                Credential::Certificate => self.certificate.clone(),
            };
            async move {
                let endpoint = endpoint.ok_or_else(|| io::Error::other("no IPv6 here"))?;
                // The name is neither sent nor checked.
                let connecting = endpoint.connect_with(config, address, &tls::server_name().to_str());
                let connection = connecting.map_err(io::Error::other)?.await?;
                let peer = peer_key(&connection).map_err(io::Error::other)?;
                let (send, receive) = connection.open_bi().await?;
                Ok((connection, peer, send, receive))
            }
        };
        match race(addresses, GREETING_TIMEOUT, attempt).await {
            Ok((connection, peer, send, receive)) => {
                self.wire.watch(connection.clone());
                let address = connection.remote_address();
                *held = Some((connection, peer));
                Ok((peer, Transport::new(tokio::io::join(receive, send), "quic", address)))
            }
            Err(error) if error.kind() == io::ErrorKind::TimedOut => Err("no answer over QUIC in time".to_string().into()),
            Err(error) => {
                let inner = error.get_ref().and_then(|inner| inner.downcast_ref());
                let why = inner.map_or_else(|| error.to_string(), reason);
                Err(DialError { why, other_credential: wants_other_credential(&error) })
            }
        }
    }
}

/// Why a connection failed, in words for people.
pub(crate) fn reason(error: &ConnectionError) -> String {
    match error {
        // What the TLS stack says of the peer's key is in the text alone.
        ConnectionError::TransportError(error) if !error.reason.is_empty() => error.reason.clone(),
        error => error.to_string(),
    }
}

/// Whether a handshake that failed may succeed with the other [`Credential`].
fn wants_other_credential(error: &io::Error) -> bool {
    let code = match error.get_ref().and_then(|inner| inner.downcast_ref()) {
        Some(ConnectionError::TransportError(error)) => error.code,
        Some(ConnectionError::ConnectionClosed(close)) => close.error_code,
        _ => return false,
    };
    tls::OTHER_CREDENTIAL.into_iter().any(|alert| code == TransportErrorCode::crypto(alert.into()))
}

/// Who is at the other end of a connection.
pub(crate) fn peer_key(connection: &Connection) -> Result<PublicKey, TlsError> {
    let identity = connection.peer_identity().and_then(|identity| identity.downcast::<Vec<CertificateDer<'static>>>().ok());
    // QUIC itself insists on a protocol both know (RFC 9001, section 8.1).
    tls::shown_key(identity.as_deref().map(Vec::as_slice).unwrap_or_default())
}

/// Connections whose bytes are counted: QUIC counts itself.
#[derive(Debug, Default)]
pub(crate) struct Watched {
    live: Mutex<Vec<Connection>>,
    past: Mutex<(u64, u64)>,
}

impl Watched {
    pub(crate) fn add(&self, connection: Connection) {
        self.live.lock().unwrap_or_else(PoisonError::into_inner).push(connection);
        self.bytes();
    }

    /// Bytes of all UDP payloads, sent and received.
    pub(crate) fn bytes(&self) -> (u64, u64) {
        let mut past = self.past.lock().unwrap_or_else(PoisonError::into_inner);
        let mut now = (0, 0);
        self.live.lock().unwrap_or_else(PoisonError::into_inner).retain(|connection| {
            let stats = connection.stats();
            let to = if connection.close_reason().is_some() { &mut *past } else { &mut now };
            to.0 += stats.udp_tx.bytes;
            to.1 += stats.udp_rx.bytes;
            connection.close_reason().is_none()
        });
        (past.0 + now.0, past.1 + now.1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keys::{AuthorizedPeers, Peer, SecretKey};

    const IDLE: Duration = Duration::from_secs(10);

    fn only(key: &SecretKey) -> AuthorizedPeers {
        AuthorizedPeers::new([Peer::from(key.public())])
    }

    fn client(ours: &SecretKey, peers: &AuthorizedPeers) -> Client {
        let tls = |credential| tls::client_config(ours, peers, credential).unwrap();
        Client::new(&[tls(Credential::RawKey), tls(Credential::Certificate)], IDLE, Arc::default()).unwrap()
    }

    #[tokio::test]
    async fn keys_are_shown_either_way() {
        let (a, b) = (SecretKey::generate().unwrap(), SecretKey::generate().unwrap());
        let listening = tls::Listening::new(&b, &only(&a)).unwrap();
        let server = server(&listening, SocketAddr::from((Ipv4Addr::LOCALHOST, 0)), IDLE).unwrap();
        let address = [server.local_addr().unwrap()];
        for credential in [Credential::RawKey, Credential::Certificate, Credential::RawKey] {
            let client = client(&a, &only(&b));
            let accept = async { peer_key(&server.accept().await.unwrap().await.unwrap()).unwrap() };
            let (dialled, accepted) = tokio::join!(client.dial(&address, credential, |_| true), accept);
            assert_eq!((dialled.unwrap().0, accepted), (b.public(), a.public()), "{credential:?}");
        }
    }

    #[tokio::test]
    async fn a_silent_address_does_not_keep_the_next_one_waiting() {
        let (a, b) = (SecretKey::generate().unwrap(), SecretKey::generate().unwrap());
        let server =
            server(&tls::Listening::new(&b, &only(&a)).unwrap(), SocketAddr::from((Ipv4Addr::LOCALHOST, 0)), IDLE).unwrap();
        // Takes packets and says nothing.
        let silent = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        let addresses = [silent.local_addr().unwrap(), server.local_addr().unwrap()];
        tokio::spawn(async move { server.accept().await.unwrap().await.unwrap().closed().await });
        let client = client(&a, &only(&b));
        // The time that each address has.
        let dialled = tokio::time::timeout(GREETING_TIMEOUT, client.dial(&addresses, Credential::RawKey, |_| true));
        assert_eq!(dialled.await.expect("it waits for the silent one").unwrap().0, b.public());
    }

    #[tokio::test]
    async fn a_peer_that_has_no_raw_key_is_asked_for_a_certificate() {
        let (a, b) = (SecretKey::generate().unwrap(), SecretKey::generate().unwrap());
        // One that knows certificates only.
        let mut config = rustls::ServerConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
            .with_protocol_versions(&[&rustls::version::TLS13])
            .unwrap()
            .with_no_client_auth()
            .with_cert_resolver(tls::certificate_only(&b));
        config.alpn_protocols = vec![tls::ALPN.to_vec()];
        let config = ServerConfig::with_crypto(Arc::new(QuicServerConfig::try_from(Arc::new(config)).unwrap()));
        let server = Endpoint::server(config, SocketAddr::from((Ipv4Addr::LOCALHOST, 0))).unwrap();
        let address = [server.local_addr().unwrap()];
        tokio::spawn(async move {
            while let Some(incoming) = server.accept().await {
                tokio::spawn(async move { Some(incoming.await.ok()?.closed().await) });
            }
        });
        let client = client(&a, &only(&b));
        let failed = client.dial(&address, Credential::RawKey, |_| true).await.err().unwrap();
        assert!(failed.other_credential, "{}", failed.why);
        let (peer, _) = client.dial(&address, Credential::Certificate, |_| true).await.unwrap();
        assert_eq!(peer, b.public());
    }
}
