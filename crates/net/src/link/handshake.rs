//! Connecting to the peer: TLS and QUIC, HELLO, keys.

use super::peers::{Association, AssociationId, INDICES, Keyed, Path};
use super::seal::{ASSOCIATION_EXPORTER, Cipher, DirectionKey, EXPORTER, Exported, has_aes};
use super::{LinkError, Shared};
use crate::handshake::HandshakeError;
use crate::keys::AuthorizedPeers;
use crate::quic::{self, peer_key};
use crate::tls::{self, Credential, TlsError};
use oncewire_session::link::LogOffer;
use oncewire_session::link::control::{Control, ControlError, LinkHello, MAX_MESSAGE, VERSION};
use quinn::crypto::rustls::QuicClientConfig;
use quinn::{
    ClientConfig, EndpointConfig, MtuDiscoveryConfig, ServerConfig, TransportConfig, VarInt,
};
use ring::rand::{SecureRandom, SystemRandom};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant, SystemTime};

/// The application protocol of a link (RFC 7301).
pub(super) const ALPN: &[u8] = b"oncewire-link/1";
/// Time limit of a handshake, with HELLO.
pub(super) const HANDSHAKE: Duration = Duration::from_secs(10);
/// The alert with which an end refuses a key (RFC 8446 section 6.2), as rustls sends it.
const CERTIFICATE_UNKNOWN: u8 = 46;
/// Bytes of the control stream in flight. Messages are small.
const WINDOW: u32 = 64 << 10;
/// The search for the path's MTU ends when it is known to this many bytes.
const MTU_STEP: u16 = 8;

/// Why no connection to the peer came about.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PeerError {
    /// QUIC or TLS failed.
    #[error(transparent)]
    Quic(HandshakeError),
    /// The other end does not accept this end's key.
    #[error(
        "the other end does not accept this end's key; it needs this end's public key as a peer"
    )]
    Refused,
    /// The attempt could not begin.
    #[error("cannot connect: {0}")]
    Connect(#[source] std::io::Error),
    /// The peer's key.
    #[error(transparent)]
    Key(#[from] TlsError),
    /// The peer breaks the protocol.
    #[error(transparent)]
    Control(#[from] ControlError),
    /// The control stream ended before the peer's HELLO.
    #[error("the peer closed the connection during the handshake")]
    Closed,
    /// No HELLO within the time limit.
    #[error("no answer within {} s", HANDSHAKE.as_secs())]
    TimedOut,
    /// The system gives no random numbers.
    #[error("the system gives no random numbers")]
    Random,
    /// The peer's key has expired.
    #[error("the peer's key has expired: renew expires= or its key")]
    Expired,
    /// Two handshakes at the same time chose one index.
    #[error("another handshake took the index of this one")]
    Index,
}

impl From<quinn::ConnectionError> for PeerError {
    fn from(error: quinn::ConnectionError) -> PeerError {
        if let quinn::ConnectionError::ConnectionClosed(close) = &error
            && close.error_code == quinn::TransportErrorCode::crypto(CERTIFICATE_UNKNOWN)
        {
            return PeerError::Refused;
        }
        PeerError::Quic(HandshakeError::of_quic(error, Credential::RawKey))
    }
}

/// A connection on which both ends have sent HELLO.
pub(super) struct Established {
    pub(super) keyed: Arc<Keyed>,
    pub(super) control: ControlStream,
}

/// The control stream.
pub(super) struct ControlStream {
    send: quinn::SendStream,
    /// Bytes that are not sent yet.
    output: Vec<u8>,
    receive: quinn::RecvStream,
    input: Vec<u8>,
}

impl ControlStream {
    pub(super) async fn send(&mut self, message: &Control) -> Result<(), PeerError> {
        self.queue(message);
        self.flush().await
    }

    /// Keeps a message for [`ControlStream::flush`].
    pub(super) fn queue(&mut self, message: &Control) {
        message.write(&mut self.output);
    }

    /// Bytes that wait for [`ControlStream::flush`].
    pub(super) fn queued(&self) -> usize {
        self.output.len()
    }

    /// Sends what was queued. May be cancelled, and goes on where it was.
    pub(super) async fn flush(&mut self) -> Result<(), PeerError> {
        while !self.output.is_empty() {
            let written = self.send.write(&self.output).await.map_err(|_| PeerError::Closed)?;
            self.output.drain(..written);
        }
        Ok(())
    }

    /// The next message. May be cancelled.
    pub(super) async fn next(&mut self) -> Result<Control, PeerError> {
        loop {
            if let Some((message, len)) = Control::read(&self.input)? {
                self.input.drain(..len);
                return Ok(message);
            }
            let chunk = self.receive.read_chunk(MAX_MESSAGE, true).await;
            let chunk = chunk.map_err(|_| PeerError::Closed)?.ok_or(PeerError::Closed)?;
            self.input.extend_from_slice(&chunk.bytes);
        }
    }
}

/// For datagrams of up to `largest` bytes.
pub(super) fn endpoint_config(largest: u16) -> EndpointConfig {
    let mut config = EndpointConfig::default();
    // The other end does not look for larger ones. Cannot fail for 1,200 and more.
    let _ = config.max_udp_payload_size(largest);
    // The first byte tells sealed datagrams from packets of QUIC.
    config.grease_quic_bit(false);
    config
}

/// `keep_alive` is the client's only. QUIC looks for the MTU of the path up to datagrams of `largest`
/// bytes.
fn transport(idle: Duration, keep_alive: Option<Duration>, largest: u16) -> Arc<TransportConfig> {
    let mut config = TransportConfig::default();
    let mut search = MtuDiscoveryConfig::default();
    search.upper_bound(largest).minimum_change(MTU_STEP);
    config.mtu_discovery_config(Some(search));
    config
        .stream_receive_window(VarInt::from_u32(WINDOW))
        .receive_window(VarInt::from_u32(WINDOW))
        .max_concurrent_bidi_streams(VarInt::from_u32(1))
        .max_concurrent_uni_streams(VarInt::from_u32(0))
        .datagram_receive_buffer_size(None)
        .keep_alive_interval(keep_alive)
        .max_idle_timeout(idle.try_into().ok());
    Arc::new(config)
}

pub(super) fn server_config(shared: &Shared) -> Result<ServerConfig, LinkError> {
    let tls = tls::ServerTls::new(&shared.config.secret, &shared.accepted)
        .map_err(LinkError::Tls)?
        .speaking(&shared.alpn);
    let mut config = quic::server_config(&tls).map_err(LinkError::Net)?;
    let largest = shared.config.largest_datagram;
    config.transport_config(transport(shared.config.timing.silence, None, largest));
    // Only for how old a token of a retry is, which this process has made.
    config.time_source(Arc::new(Monotonic(Instant::now())));
    Ok(config)
}

/// The time since a moment, for quinn, which would ask the system's clock. That may jump.
struct Monotonic(Instant);

impl quinn::TimeSource for Monotonic {
    fn now(&self) -> SystemTime {
        SystemTime::UNIX_EPOCH + self.0.elapsed()
    }
}

/// Settings to connect to one peer: nobody else may answer.
pub(super) fn client_config(shared: &Shared, peer: usize) -> Result<ClientConfig, LinkError> {
    let peers = AuthorizedPeers::new([shared.peers[peer].config.peer.clone()]);
    let tls = tls::client_config(&shared.config.secret, &peers, Credential::RawKey);
    let mut tls = Arc::unwrap_or_clone(tls.map_err(LinkError::Tls)?);
    tls.alpn_protocols = vec![shared.alpn.clone()];
    let crypto = QuicClientConfig::try_from(tls)
        .map_err(|error| LinkError::Net(crate::NetError::Quic(error.to_string())))?;
    let mut config = ClientConfig::new(Arc::new(crypto));
    let timing = &shared.config.timing;
    let largest = shared.config.largest_datagram;
    config.transport_config(transport(timing.silence, Some(timing.keep_alive), largest));
    Ok(config)
}

/// The peer at the other end of a connection.
pub(super) fn peer_of(shared: &Shared, connection: &quinn::Connection) -> Result<usize, PeerError> {
    let key = peer_key(connection)?;
    let peer = shared.peers.iter().position(|peer| peer.config.peer.key == key);
    // The handshake has checked it.
    peer.ok_or(PeerError::Key(TlsError::NoKey))
}

/// The part of the client after QUIC's handshake.
pub(super) async fn as_client(
    shared: &Shared,
    connection: quinn::Connection,
) -> Result<Established, PeerError> {
    let (send, receive) = connection.open_bi().await?;
    let mut control = ControlStream { send, output: Vec::new(), receive, input: Vec::new() };
    let ours = our_hello(shared, peer_of(shared, &connection)?)?;
    control.send(&Control::Hello(ours)).await?;
    let Control::Hello(theirs) = control.next().await? else { return Err(PeerError::Closed) };
    let keyed = keyed(shared, connection, &ours, &theirs, true)?;
    shared.open_with(&keyed)?;
    let ready = control.send(&Control::Ready).await;
    ready.inspect_err(|_| {
        shared.forget(&keyed);
    })?;
    Ok(Established { keyed, control })
}

/// The part of the server after QUIC's handshake, up to its HELLO. The keys are in force before the
/// client is told, so that its datagrams open.
pub(super) async fn as_server(
    shared: &Shared,
    connection: quinn::Connection,
) -> Result<Established, PeerError> {
    let (send, receive) = connection.accept_bi().await?;
    let mut control = ControlStream { send, output: Vec::new(), receive, input: Vec::new() };
    let Control::Hello(theirs) = control.next().await? else { return Err(PeerError::Closed) };
    let ours = our_hello(shared, peer_of(shared, &connection)?)?;
    let keyed = keyed(shared, connection, &ours, &theirs, false)?;
    shared.open_with(&keyed)?;
    let hello = control.send(&Control::Hello(ours)).await;
    hello.inspect_err(|_| {
        shared.forget(&keyed);
    })?;
    Ok(Established { keyed, control })
}

fn our_hello(shared: &Shared, peer: usize) -> Result<LinkHello, PeerError> {
    let offer = shared.config.matching.offer();
    let mut index = [0; 4];
    loop {
        SystemRandom::new().fill(&mut index).map_err(|_| PeerError::Random)?;
        let index = u32::from_le_bytes(index) % INDICES;
        if shared.indices.find(index).is_none() {
            return Ok(LinkHello {
                version: VERSION,
                association: shared.peers[peer].keys.association(),
                index,
                aes: has_aes(),
                largest_datagram: u64::from(u16::MAX),
                log_capacity: offer.capacity,
                reorder_window: offer.reorder,
            });
        }
    }
}

fn keyed(
    shared: &Shared,
    connection: quinn::Connection,
    ours: &LinkHello,
    theirs: &LinkHello,
    is_client: bool,
) -> Result<Arc<Keyed>, PeerError> {
    let peer = peer_of(shared, &connection)?;
    let mut exported: Exported = [0; 88];
    connection
        .export_keying_material(&mut exported, EXPORTER, &[])
        .map_err(|_| PeerError::Key(TlsError::NoKey))?;
    let mut association: AssociationId = [0; 16];
    connection
        .export_keying_material(&mut association, ASSOCIATION_EXPORTER, &[])
        .map_err(|_| PeerError::Key(TlsError::NoKey))?;
    let cipher = if ours.aes && theirs.aes { Cipher::Aes256Gcm } else { Cipher::ChaCha20Poly1305 };
    let [client, server] =
        DirectionKey::both(&exported, cipher, shared.config.timing.most_datagrams);
    let (sealing, opening) = if is_client { (client, server) } else { (server, client) };
    let largest = usize::from(shared.config.largest_datagram)
        .min(usize::try_from(theirs.largest_datagram).unwrap_or(usize::MAX))
        .max(super::LEAST_DATAGRAM.into());
    // The end that connects may move to another address; the other end must answer from the one that
    // its peer knows.
    let local = connection.local_ip().filter(|_| !is_client);
    let path = Path { remote: shared.port.own_form(connection.remote_address()), local };
    let mut key = [0; 8];
    SystemRandom::new().fill(&mut key).map_err(|_| PeerError::Random)?;
    let (association_id, association) = shared.peers[peer].keys.associate(
        [ours.association, theirs.association],
        association,
        largest,
        || {
            let key = u64::from_le_bytes(key);
            match shared.of_nodes {
                false => Association::new(largest, &shared.config.matching, key),
                true => Association::of_nodes(largest),
            }
        },
    );
    Ok(Arc::new(Keyed {
        peer,
        is_client,
        our_index: ours.index,
        their_index: theirs.index,
        cipher,
        sealing,
        opening,
        association,
        association_id,
        offer: LogOffer { capacity: theirs.log_capacity, reorder: theirs.reorder_window },
        path: Mutex::new(path),
        largest,
        since: Instant::now(),
        connection,
    }))
}
