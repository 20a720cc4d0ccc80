//! Connecting to the peer: TLS and QUIC, HELLO, keys.

use super::peers::{AssociationId, INDICES, Keyed};
use super::seal::{ASSOCIATION_EXPORTER, Cipher, DirectionKey, EXPORTER, Exported, has_aes};
use super::{LinkError, Shared};
use crate::handshake::HandshakeError;
use crate::keys::PublicKey;
use crate::quic::{self, peer_key};
use crate::tls::{self, Credential, TlsError};
use oncewire_session::link::control::{Control, ControlError, LinkHello, MAX_MESSAGE, VERSION};
use quinn::crypto::rustls::QuicClientConfig;
use quinn::{ClientConfig, EndpointConfig, ServerConfig, TransportConfig, VarInt};
use ring::rand::{SecureRandom, SystemRandom};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// The application protocol of a link (RFC 7301).
pub(super) const ALPN: &[u8] = b"oncewire-link/1";
/// Time limit of a handshake, with HELLO.
pub(super) const HANDSHAKE: Duration = Duration::from_secs(10);
/// Bytes of the control stream in flight. Messages are small.
const WINDOW: u32 = 64 << 10;

/// Why no connection to the peer came about.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PeerError {
    /// QUIC or TLS failed.
    #[error(transparent)]
    Quic(HandshakeError),
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
}

impl From<quinn::ConnectionError> for PeerError {
    fn from(error: quinn::ConnectionError) -> PeerError {
        PeerError::Quic(HandshakeError::of_quic(error, Credential::RawKey))
    }
}

/// A connection on which both ends have sent HELLO.
pub(super) struct Established {
    pub(super) keyed: Arc<Keyed>,
    pub(super) key: PublicKey,
    pub(super) control: ControlStream,
}

/// The control stream.
pub(super) struct ControlStream {
    send: quinn::SendStream,
    receive: quinn::RecvStream,
    input: Vec<u8>,
}

impl ControlStream {
    pub(super) async fn send(&mut self, message: &Control) -> Result<(), PeerError> {
        let mut bytes = Vec::new();
        message.write(&mut bytes);
        self.send.write_all(&bytes).await.map_err(|_| PeerError::Closed)
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

pub(super) fn endpoint_config() -> EndpointConfig {
    let mut config = EndpointConfig::default();
    // The first byte tells sealed datagrams from packets of QUIC.
    config.grease_quic_bit(false);
    config
}

/// `keep_alive` is the client's only.
fn transport(idle: Duration, keep_alive: Option<Duration>) -> Arc<TransportConfig> {
    let mut config = TransportConfig::default();
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
    let tls = tls::ServerTls::new(&shared.config.secret, &shared.config.peers)
        .map_err(LinkError::Tls)?
        .speaking(ALPN);
    let mut config = quic::server_config(&tls).map_err(LinkError::Net)?;
    config.transport_config(transport(shared.config.timing.silence, None));
    Ok(config)
}

pub(super) fn client_config(shared: &Shared) -> Result<ClientConfig, LinkError> {
    let (secret, peers) = (&shared.config.secret, &shared.config.peers);
    let tls = tls::client_config(secret, peers, Credential::RawKey).map_err(LinkError::Tls)?;
    let mut tls = Arc::unwrap_or_clone(tls);
    tls.alpn_protocols = vec![ALPN.to_vec()];
    let crypto = QuicClientConfig::try_from(tls)
        .map_err(|error| LinkError::Net(crate::NetError::Quic(error.to_string())))?;
    let mut config = ClientConfig::new(Arc::new(crypto));
    let timing = &shared.config.timing;
    config.transport_config(transport(timing.silence, Some(timing.keep_alive)));
    Ok(config)
}

/// The part of the client after QUIC's handshake.
pub(super) async fn as_client(
    shared: &Shared,
    connection: quinn::Connection,
) -> Result<Established, PeerError> {
    let (send, receive) = connection.open_bi().await?;
    let mut control = ControlStream { send, receive, input: Vec::new() };
    let ours = our_hello(shared)?;
    control.send(&Control::Hello(ours)).await?;
    let Control::Hello(theirs) = control.next().await? else { return Err(PeerError::Closed) };
    let (keyed, key) = keyed(shared, connection, &ours, &theirs, true)?;
    Ok(Established { keyed, key, control })
}

/// The part of the server after QUIC's handshake, up to its HELLO. The keys are returned before the
/// client is told, so that its datagrams open.
pub(super) async fn as_server(
    shared: &Shared,
    connection: quinn::Connection,
) -> Result<Established, PeerError> {
    let (send, receive) = connection.accept_bi().await?;
    let mut control = ControlStream { send, receive, input: Vec::new() };
    let Control::Hello(theirs) = control.next().await? else { return Err(PeerError::Closed) };
    let ours = our_hello(shared)?;
    let (keyed, key) = keyed(shared, connection, &ours, &theirs, false)?;
    shared.keys.add(keyed.clone());
    if let Err(error) = control.send(&Control::Hello(ours)).await {
        shared.keys.remove(&keyed);
        return Err(error);
    }
    Ok(Established { keyed, key, control })
}

fn our_hello(shared: &Shared) -> Result<LinkHello, PeerError> {
    let mut index = [0; 4];
    loop {
        SystemRandom::new().fill(&mut index).map_err(|_| PeerError::Random)?;
        let index = u32::from_le_bytes(index) % INDICES;
        if shared.keys.find(index).is_none() {
            return Ok(LinkHello {
                version: VERSION,
                association: shared.keys.association(),
                index,
                aes: has_aes(),
                largest_datagram: u64::from(u16::MAX),
                log_capacity: 0,
                reorder_window: 0,
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
) -> Result<(Arc<Keyed>, PublicKey), PeerError> {
    let key = peer_key(&connection)?;
    let mut exported: Exported = [0; 88];
    connection
        .export_keying_material(&mut exported, EXPORTER, &[])
        .map_err(|_| PeerError::Key(TlsError::NoKey))?;
    let mut association: AssociationId = [0; 16];
    connection
        .export_keying_material(&mut association, ASSOCIATION_EXPORTER, &[])
        .map_err(|_| PeerError::Key(TlsError::NoKey))?;
    let cipher = if ours.aes && theirs.aes { Cipher::Aes256Gcm } else { Cipher::ChaCha20Poly1305 };
    let [client, server] = DirectionKey::both(&exported, cipher);
    let (sealing, opening) = if is_client { (client, server) } else { (server, client) };
    let largest = usize::from(shared.config.largest_datagram)
        .min(usize::try_from(theirs.largest_datagram).unwrap_or(usize::MAX))
        .max(super::LEAST_DATAGRAM.into());
    let keyed = Keyed {
        our_index: ours.index,
        their_index: theirs.index,
        cipher,
        sealing,
        opening,
        association: shared.keys.associate(
            [ours.association, theirs.association],
            association,
            largest,
        ),
        address: Mutex::new(shared.port.own_form(connection.remote_address())),
        since: Instant::now(),
        connection,
    };
    Ok((Arc::new(keyed), key))
}
