//! QUIC as a transport (RFC 9000): each lane is a bidirectional stream of one connection. Peers
//! prove their keys as in TLS over TCP.

use crate::counted::{SelfCounting, WireBytes};
use crate::endpoint::NetError;
use crate::handshake::{HANDSHAKE_TIMEOUT, HandshakeError, Stage};
use crate::keys::PublicKey;
use crate::sockets::{race, udp_at};
use crate::tls::{self, Credential, TlsError};
use crate::transport::Transport;
use quinn::crypto::rustls::{QuicClientConfig, QuicServerConfig};
use quinn::{
    ClientConfig, Connection, ConnectionError, ConnectionId, Endpoint, EndpointConfig,
    ServerConfig, TransportConfig, VarInt, crypto,
};
use quinn_proto::transport_parameters::TransportParameters;
use rustls::pki_types::CertificateDer;
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;
use tracing::warn;

#[cfg(target_os = "linux")]
mod handover;

/// Bytes of a lane in flight, for the sender and for the receiver: 200 ms at 1 Gbit/s, and some
/// reserve. Small flows cannot overtake what QUIC holds, and it has no mark for unsent bytes as TCP
/// does.
const WINDOW: u32 = 32 << 20;
/// Streams of a connection: as many as a session has lanes. The caller limits the connections that
/// have not authenticated.
const STREAMS: u32 = oncewire_session::MAX_LANES as u32;

/// How long a server that leaves its port waits for its clients to know.
const LEAVE: Duration = Duration::from_millis(300);

fn transport(idle: Duration) -> Arc<TransportConfig> {
    let mut config = TransportConfig::default();
    config
        .stream_receive_window(VarInt::from_u32(WINDOW))
        // The session bounds what a lane receives; a lane must not wait for another one.
        .receive_window(VarInt::from_u32(WINDOW * STREAMS))
        .send_window(WINDOW.into())
        .max_concurrent_bidi_streams(VarInt::from_u32(STREAMS))
        .max_concurrent_uni_streams(VarInt::from_u32(0))
        .datagram_receive_buffer_size(None)
        .max_idle_timeout(idle.try_into().ok());
    Arc::new(config)
}

fn setup_failed(error: impl std::fmt::Display) -> NetError {
    NetError::Quic(error.to_string())
}

/// Settings of a QUIC server whose peers prove their keys as over TCP.
pub(crate) fn server_config(tls: &tls::ServerTls) -> Result<ServerConfig, NetError> {
    let any = QuicServerConfig::try_from(tls.config()?).map_err(setup_failed)?;
    let crypto = PerConnectionTls { tls: tls.clone(), any: Arc::new(any) };
    Ok(ServerConfig::with_crypto(Arc::new(crypto)))
}

/// Listens for QUIC on a UDP port.
pub(crate) fn server(
    tls: &tls::ServerTls,
    address: SocketAddr,
    idle: Duration,
) -> Result<Listening, NetError> {
    let mut config = server_config(tls)?;
    config.transport_config(transport(idle));
    Listening::start(config, address)
        .map_err(|source| NetError::Listen { bind: format!("{address} (UDP)"), source })
}

/// A server's port.
#[derive(Clone)]
pub(crate) struct Listening {
    pub(crate) endpoint: Endpoint,
    /// If a successor gets it from the service manager.
    #[cfg(target_os = "linux")]
    shared: Option<Arc<handover::SharedPort>>,
}

impl Listening {
    #[cfg(target_os = "linux")]
    fn start(config: ServerConfig, address: SocketAddr) -> io::Result<Listening> {
        let (socket, is_kept) = match crate::service::passed_socket(address) {
            Some(socket) => (socket, true),
            None => {
                let socket = udp_at(address)?;
                let is_kept = crate::service::keep_socket(&socket);
                (socket, is_kept)
            }
        };
        let runtime = Arc::new(quinn::TokioRuntime);
        if !(is_kept && crate::supervisor::is_worker()) {
            socket.set_nonblocking(true)?;
            let endpoint = Endpoint::new(EndpointConfig::default(), Some(config), socket, runtime)?;
            return Ok(Listening { endpoint, shared: None });
        }
        let shared = handover::SharedPort::new(socket)?;
        let mut ends = EndpointConfig::default();
        let ids = shared.clone();
        ends.cid_generator(move || ids.ids());
        let endpoint =
            Endpoint::new_with_abstract_socket(ends, Some(config), shared.clone(), runtime)?;
        Ok(Listening { endpoint, shared: Some(shared) })
    }

    #[cfg(not(target_os = "linux"))]
    fn start(config: ServerConfig, address: SocketAddr) -> io::Result<Listening> {
        let runtime = Arc::new(quinn::TokioRuntime);
        let socket = udp_at(address)?;
        let endpoint = Endpoint::new(EndpointConfig::default(), Some(config), socket, runtime)?;
        Ok(Listening { endpoint })
    }

    /// Leaves the port to another process. Connections continue if that gets the socket from the
    /// service manager, and end otherwise.
    pub(crate) async fn give_way(&self) {
        #[cfg(target_os = "linux")]
        if let Some(shared) = &self.shared {
            match shared.give_way() {
                Ok(()) => return,
                Err(error) => warn!(%error, "connections over QUIC cannot stay open"),
            }
        }
        leave_port(&self.endpoint).await;
    }
}

/// Ends a server's connections, and leaves its port to another process.
async fn leave_port(endpoint: &Endpoint) {
    endpoint.close(VarInt::from_u32(0), b"the server restarts");
    // Until clients know; one that does not answer asks later, and finds the successor.
    let _ = tokio::time::timeout(LEAVE, endpoint.wait_idle()).await;
    for _ in 0..2 {
        // An endpoint keeps the socket that it had last.
        let other = udp_at(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)));
        if let Err(error) = other.and_then(|socket| endpoint.rebind(socket)) {
            warn!(%error, "the UDP port stays in use until this process ends");
        }
    }
}

/// Gives every connection separate TLS settings; see [`tls::ServerTls::config`].
struct PerConnectionTls {
    tls: tls::ServerTls,
    /// For what does not depend on the connection.
    any: Arc<QuicServerConfig>,
}

impl crypto::ServerConfig for PerConnectionTls {
    fn initial_keys(
        &self,
        version: u32,
        destination: &ConnectionId,
    ) -> Result<crypto::Keys, crypto::UnsupportedVersion> {
        self.any.initial_keys(version, destination)
    }

    fn retry_tag(&self, version: u32, destination: &ConnectionId, packet: &[u8]) -> [u8; 16] {
        self.any.retry_tag(version, destination, packet)
    }

    fn start_session(
        self: Arc<Self>,
        version: u32,
        parameters: &TransportParameters,
    ) -> Box<dyn crypto::Session> {
        let own = self.tls.config().ok().and_then(|config| QuicServerConfig::try_from(config).ok());
        // Cannot fail: the same settings worked for `any`.
        own.map_or_else(|| self.any.clone(), Arc::new).start_session(version, parameters)
    }
}

/// A client's QUIC: one socket per address family, one connection for all lanes.
pub(crate) struct Client {
    v4: Endpoint,
    v6: Option<Endpoint>,
    raw_key: ClientConfig,
    certificate: ClientConfig,
    connection: tokio::sync::Mutex<Option<(Connection, PublicKey)>>,
    wire: Arc<WireBytes>,
}

impl Client {
    /// `tls` has settings for both forms of [`Credential`], raw keys first.
    pub(crate) fn new(
        tls: &[Arc<rustls::ClientConfig>; 2],
        idle: Duration,
        wire: Arc<WireBytes>,
    ) -> Result<Client, NetError> {
        let config = |tls: &Arc<rustls::ClientConfig>| {
            let crypto = QuicClientConfig::try_from(tls.clone()).map_err(setup_failed)?;
            let mut config = ClientConfig::new(Arc::new(crypto));
            config.transport_config(transport(idle));
            Ok::<_, NetError>(config)
        };
        let (raw_key, certificate) = (config(&tls[0])?, config(&tls[1])?);
        let v4 =
            Endpoint::client(SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0))).map_err(setup_failed)?;
        // Fails on a machine without IPv6.
        let v6 = Endpoint::client(SocketAddr::from((Ipv6Addr::UNSPECIFIED, 0))).ok();
        Ok(Client { v4, v6, raw_key, certificate, connection: tokio::sync::Mutex::default(), wire })
    }

    /// Opens no more streams on the open connection: its server drains.
    pub(crate) async fn leave(&self) {
        *self.connection.lock().await = None;
    }

    /// Opens a stream to the server at one of `addresses`, on the open connection or on a new one.
    /// The open connection may be older than what `trusted` says: its handshake has shown who the
    /// peer is, not that it is still accepted.
    pub(crate) async fn dial(
        &self,
        addresses: &[SocketAddr],
        credential: Credential,
        trusted: impl Fn(&PublicKey) -> bool,
    ) -> Result<(PublicKey, Transport), HandshakeError> {
        let mut held = self.connection.lock().await;
        if let Some((connection, _)) = held.take_if(|(_, peer)| !trusted(peer)) {
            connection.close(VarInt::from_u32(0), b"");
        }
        if let Some((connection, peer)) = &*held
            && connection.close_reason().is_none()
            && let Ok(Ok((send, receive))) =
                tokio::time::timeout(HANDSHAKE_TIMEOUT, connection.open_bi()).await
        {
            return Ok((
                *peer,
                Transport::new(tokio::io::join(receive, send), "quic", connection.remote_address()),
            ));
        }
        *held = None;
        let attempt = |address: SocketAddr| {
            let endpoint = if address.is_ipv4() { Some(self.v4.clone()) } else { self.v6.clone() };
            let config = match credential {
                Credential::RawKey => self.raw_key.clone(),
                Credential::Certificate => self.certificate.clone(),
            };
            async move {
                let endpoint =
                    endpoint.ok_or_else(|| io::Error::other("this machine has no IPv6"))?;
                // The name is neither sent nor checked.
                let connecting =
                    endpoint.connect_with(config, address, &tls::server_name().to_str());
                let connection = connecting.map_err(io::Error::other)?.await?;
                let peer = peer_key(&connection).map_err(io::Error::other)?;
                let (send, receive) = connection.open_bi().await?;
                Ok((connection, peer, send, receive))
            }
        };
        match race(addresses, HANDSHAKE_TIMEOUT, attempt).await {
            Ok((connection, peer, send, receive)) => {
                self.wire.watch(connection.clone());
                let address = connection.remote_address();
                *held = Some((connection, peer));
                Ok((peer, Transport::new(tokio::io::join(receive, send), "quic", address)))
            }
            Err(error) => Err(dial_error(error, credential)),
        }
    }
}

/// The error of a race, which reports errors of QUIC and TLS inside `io::Error`.
fn dial_error(error: io::Error, credential: Credential) -> HandshakeError {
    if error.kind() == io::ErrorKind::TimedOut {
        return HandshakeError::TimedOut { stage: Stage::Quic, limit: HANDSHAKE_TIMEOUT };
    }
    match error.downcast::<ConnectionError>() {
        Ok(error) => HandshakeError::of_quic(error, credential),
        Err(error) => match error.downcast::<TlsError>() {
            Ok(error) => HandshakeError::Peer(error),
            Err(source) => HandshakeError::Io { stage: Stage::Quic, source },
        },
    }
}

/// The key that the peer of a connection has proved.
pub(crate) fn peer_key(connection: &Connection) -> Result<PublicKey, TlsError> {
    let identity = connection
        .peer_identity()
        .and_then(|identity| identity.downcast::<Vec<CertificateDer<'static>>>().ok());
    // QUIC requires that both ends agree on a protocol (RFC 9001 section 8.1), so there is none to
    // check.
    tls::shown_key(identity.as_deref().map(Vec::as_slice).unwrap_or_default())
}

/// Bytes of UDP payloads, as QUIC counts them.
impl SelfCounting for Connection {
    fn bytes(&self) -> (u64, u64) {
        let stats = self.stats();
        (stats.udp_tx.bytes, stats.udp_rx.bytes)
    }

    fn is_closed(&self) -> bool {
        self.close_reason().is_some()
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
        Client::new(&[tls(Credential::RawKey), tls(Credential::Certificate)], IDLE, Arc::default())
            .unwrap()
    }

    #[tokio::test]
    async fn keys_are_shown_in_either_form() {
        let (a, b) = (SecretKey::generate().unwrap(), SecretKey::generate().unwrap());
        let listening = tls::ServerTls::new(&b, &only(&a)).unwrap();
        let server =
            server(&listening, SocketAddr::from((Ipv4Addr::LOCALHOST, 0)), IDLE).unwrap().endpoint;
        let address = [server.local_addr().unwrap()];
        for credential in [Credential::RawKey, Credential::Certificate, Credential::RawKey] {
            let client = client(&a, &only(&b));
            let accept =
                async { peer_key(&server.accept().await.unwrap().await.unwrap()).unwrap() };
            let (dialled, accepted) =
                tokio::join!(client.dial(&address, credential, |_| true), accept);
            assert_eq!((dialled.unwrap().0, accepted), (b.public(), a.public()), "{credential:?}");
        }
    }

    #[tokio::test]
    async fn a_silent_address_does_not_keep_the_next_one_waiting() {
        let (a, b) = (SecretKey::generate().unwrap(), SecretKey::generate().unwrap());
        let server = server(
            &tls::ServerTls::new(&b, &only(&a)).unwrap(),
            SocketAddr::from((Ipv4Addr::LOCALHOST, 0)),
            IDLE,
        )
        .unwrap()
        .endpoint;
        // Receives packets and does not answer.
        let silent = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        let addresses = [silent.local_addr().unwrap(), server.local_addr().unwrap()];
        tokio::spawn(async move { server.accept().await.unwrap().await.unwrap().closed().await });
        let client = client(&a, &only(&b));
        // The time limit of each address.
        let dialled = tokio::time::timeout(
            HANDSHAKE_TIMEOUT,
            client.dial(&addresses, Credential::RawKey, |_| true),
        );
        assert_eq!(
            dialled.await.expect("the silent address delays the next one").unwrap().0,
            b.public()
        );
    }

    #[tokio::test]
    async fn a_server_without_raw_keys_is_asked_for_a_certificate() {
        let (a, b) = (SecretKey::generate().unwrap(), SecretKey::generate().unwrap());
        // A server that supports only certificates.
        let mut config = rustls::ServerConfig::builder_with_provider(Arc::new(
            rustls::crypto::ring::default_provider(),
        ))
        .with_protocol_versions(&[&rustls::version::TLS13])
        .unwrap()
        .with_no_client_auth()
        .with_cert_resolver(tls::certificate_only(&b));
        config.alpn_protocols = vec![tls::ALPN.to_vec()];
        let config = ServerConfig::with_crypto(Arc::new(
            QuicServerConfig::try_from(Arc::new(config)).unwrap(),
        ));
        let server = Endpoint::server(config, SocketAddr::from((Ipv4Addr::LOCALHOST, 0))).unwrap();
        let address = [server.local_addr().unwrap()];
        tokio::spawn(async move {
            while let Some(incoming) = server.accept().await {
                tokio::spawn(async move { Some(incoming.await.ok()?.closed().await) });
            }
        });
        let client = client(&a, &only(&b));
        let failed = client.dial(&address, Credential::RawKey, |_| true).await.err().unwrap();
        assert!(matches!(failed, HandshakeError::Credential { .. }), "{failed:?}");
        let (peer, _) = client.dial(&address, Credential::Certificate, |_| true).await.unwrap();
        assert_eq!(peer, b.public());
    }
}
