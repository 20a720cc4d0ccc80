//! The packet link on sockets and a tun device: `oncewire link`.
//!
//! A [`Link`] reads packets from the device, seals them, and sends them to the peer behind which their
//! destination is, as datagrams; and the other way. `docs/LINK.md` specifies the bytes, `oncewire_session::link` has the state machines.
//!
//! ```text
//! device -> outgoing: packet::offload -> Sender -> seal -> one call for datagrams of one size
//! port -> incoming: by first byte -> quinn | open -> Receiver -> runs joined -> device
//! control: dial or accept -> HELLO -> keys; renewal; the link is down when the connection ends
//! ```
//!
//! All peers share one port and one device. A peer has keys, counters and a state of its own; what
//! one does or suffers does not touch the others.
//!
//! While a peer is not connected, packets to it are dropped. Nothing leaves this machine that is not
//! sealed.

mod control;
mod device;
mod flow;
mod handshake;
mod headers;
mod inner;
mod mtu;
mod nodes;
mod peers;
mod seal;
mod shape;
mod socket;
mod status;
#[cfg(test)]
mod tests;

pub use crate::status::{ConnectionStatus, Drops, LinkStatus, PeerStatus, Traffic};
pub use device::DeviceConfig;
pub use handshake::PeerError;
pub use ipnet::IpNet;
pub(crate) use nodes::Hops;
pub use oncewire_codec::Sharing;
pub use oncewire_session::link::{LEAST_LOG, MOST_LOG, Policy};
pub use peers::{MAX_PEERS, Matching, PeerConfig, PeersError};
pub use seal::Cipher;

use crate::endpoint::NetError;
use crate::keys::{AuthorizedPeers, SecretKey};
use crate::log_limit::LogLimit;
use crate::sync::lock;
use crate::target::canonical;
use crate::tls::TlsError;
use device::Device;
use oncewire_codec::Domain;
use oncewire_session::link::OVERHEAD;
use peers::{Indices, Keyed, Peer, Routes};
use socket::Port;
use status::{Strangers, count};
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU16, Ordering::Relaxed};
use std::time::{Duration, Instant};
use tokio::sync::Notify;

/// IP and UDP headers of a datagram on the path, in bytes, for IPv6: 40 and 8.
const PATH_HEADERS: u16 = 48;
/// Smallest sealed datagram that both ends must be able to exchange, in bytes.
const LEAST_DATAGRAM: u16 = 1200;
/// Least MTU of a path that the link works on: QUIC needs datagrams of 1,200 bytes.
pub const LEAST_PATH_MTU: u16 = LEAST_DATAGRAM + PATH_HEADERS;
/// Largest MTU of a path.
pub const MOST_PATH_MTU: u16 = 9000;
/// MTU of a path unless stated: Ethernet's.
pub const PATH_MTU: u16 = 1500;

/// Parameters of one end of a link.
#[derive(Clone, Debug)]
pub struct LinkConfig {
    /// This end's key.
    pub secret: SecretKey,
    /// The UDP address on which this end waits for peers. `None` only connects to them, from any
    /// free port.
    pub listen: Option<SocketAddr>,
    /// The peers; see [`LinkConfig::check`].
    pub peers: Vec<PeerConfig>,
    /// How repeats are found.
    pub matching: Matching,
    /// Largest sealed datagram in bytes; see [`largest_datagram`]. Where the path does not carry it,
    /// less is used.
    pub largest_datagram: u16,
    /// The tun device.
    pub device: DeviceConfig,
    /// How packets are sent.
    pub shaping: Shaping,
    /// Time limits.
    pub timing: Timing,
    /// Program and version, for the status.
    pub agent: String,
}

impl LinkConfig {
    /// Checks that the peers go together: different keys, and networks that do not overlap.
    ///
    /// # Errors
    /// [`PeersError`] for the first that does not.
    pub fn check(&self) -> Result<(), PeersError> {
        Routes::new(&self.secret.public(), &self.peers).map(drop)
    }
}

/// How packets are sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Shaping {
    /// Send packets that do not fit a datagram in pieces. Otherwise their senders are told, where IP
    /// allows that.
    pub split: bool,
    /// Bytes per second of the path to all peers, with IP and UDP headers. Packets wait here for it,
    /// in fair queues, rather than in a router. `None` sends as fast as packets come.
    pub rate: Option<u64>,
    /// Send small datagrams once more after this time.
    pub duplicate: Option<Duration>,
}

/// Time limits of a link.
#[derive(Clone, Copy, Debug)]
pub struct Timing {
    /// Silence after which the client probes the control connection.
    pub keep_alive: Duration,
    /// Silence of the control connection after which the link is down.
    pub silence: Duration,
    /// Age at which keys are renewed.
    pub renewal: Duration,
    /// Datagrams under one key after which it is renewed.
    pub renewal_datagrams: u64,
    /// Datagrams that one key may seal. No more are sent under it.
    pub most_datagrams: u64,
    /// Datagrams that did not open under one key after which it is renewed.
    pub renewal_forged: u64,
    /// Datagrams that may fail to open under one key. No more are opened under it.
    pub most_forged: u64,
    /// How long the keys before the current ones still open datagrams.
    pub old_keys: Duration,
    /// How often an end looks whether keys are to be renewed.
    pub check: Duration,
}

impl Default for Timing {
    fn default() -> Timing {
        Timing {
            // A probe and its answer have 129 bytes with UDP and IPv4: 0.74 MB a day.
            keep_alive: Duration::from_secs(15),
            silence: Duration::from_secs(30),
            renewal: Duration::from_secs(3600),
            renewal_datagrams: seal::MOST_DATAGRAMS / 2,
            most_datagrams: seal::MOST_DATAGRAMS,
            renewal_forged: seal::MOST_FORGED / 2,
            most_forged: seal::MOST_FORGED,
            old_keys: Duration::from_secs(10),
            // At 10 Gbit/s, a key lasts 5 minutes.
            check: Duration::from_secs(1),
        }
    }
}

/// The largest sealed datagram that a path with this MTU carries, in bytes.
pub fn largest_datagram(path_mtu: u16) -> u16 {
    path_mtu.clamp(LEAST_PATH_MTU, MOST_PATH_MTU) - PATH_HEADERS
}

/// The MTU of a device whose packets fit such datagrams, in bytes.
pub fn device_mtu(largest_datagram: u16) -> u16 {
    largest_datagram - OVERHEAD as u16
}

/// Why a link cannot start, or stopped.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LinkError {
    /// The UDP port cannot be opened.
    #[error("cannot open UDP port {address}: {source}")]
    Port {
        /// The address.
        address: SocketAddr,
        /// The system's error.
        source: io::Error,
    },
    /// The device cannot be made or used.
    #[error("cannot use the tun device {name}: {source}")]
    Device {
        /// Its name.
        name: String,
        /// The system's error.
        source: io::Error,
    },
    /// The `ip` program failed.
    #[error("`{command}` failed: {said}")]
    Ip {
        /// The command.
        command: String,
        /// Its standard error, or why it did not start.
        said: String,
    },
    /// The peers do not go together.
    #[error(transparent)]
    Peers(#[from] PeersError),
    /// TLS cannot be set up.
    #[error(transparent)]
    Tls(TlsError),
    /// QUIC, signals or the status socket cannot be set up.
    #[error(transparent)]
    Net(#[from] NetError),
}

/// What the tasks of a link share.
struct Shared {
    config: LinkConfig,
    peers: Vec<Peer>,
    /// Their public keys, which may expire.
    accepted: AuthorizedPeers,
    /// The networks behind them.
    routes: Routes,
    /// Their keys.
    indices: Indices,
    port: Arc<Port>,
    device: Device,
    /// Drops that belong to no peer.
    drops: crate::status::DropCounters,
    strangers: Strangers,
    started: Instant,
    /// Longest packet that is sure to fit a datagram to a peer, in bytes.
    mtu: AtomicU16,
    /// Wakes the outgoing task: an acknowledgment is due later.
    wake: Notify,
    own_traffic: LogLimit,
    /// Numbers inner addresses as isolation domains, and flows.
    domains: RandomState,
    /// The application protocol of connections (RFC 7301).
    alpn: Vec<u8>,
    /// Whether the peers are nodes of a network.
    of_nodes: bool,
}

/// A link that runs. It stops when this is dropped.
pub struct Link {
    shared: Arc<Shared>,
    endpoint: quinn::Endpoint,
    control: Vec<Task>,
    outgoing: Task,
    incoming: Task,
}

type Task = tokio::task::JoinHandle<()>;

/// Opens port and device, and starts a link. Needs a Tokio runtime with timers and I/O.
///
/// # Errors
/// [`LinkError`] if the port or the device cannot be opened.
pub async fn start(config: LinkConfig) -> Result<Link, LinkError> {
    // Before anything is made.
    config.check()?;
    let bound = bind(config.listen)?;
    let device = device::open(&config.device)?;
    start_on(config, bound, device)
}

fn start_on(
    config: LinkConfig,
    (port, to_quic, quic): Bound,
    device: Device,
) -> Result<Link, LinkError> {
    let routes = Routes::new(&config.secret.public(), &config.peers)?;
    let alpn = handshake::ALPN.to_vec();
    let shared = Arc::new(Shared::new(config, routes, port, device, (alpn, false)));
    let (endpoint, control) = connect(&shared, quic)?;
    let outgoing = tokio::spawn(flow::outgoing(shared.clone()));
    let incoming = tokio::spawn(flow::incoming(shared.clone(), to_quic));
    Ok(Link { shared, endpoint, control, outgoing, incoming })
}

/// Starts the tasks that bring peers up and keep them up.
fn connect(
    shared: &Arc<Shared>,
    quic: Arc<socket::QuicSocket>,
) -> Result<(quinn::Endpoint, Vec<Task>), LinkError> {
    let server = shared.config.listen.map(|_| handshake::server_config(shared)).transpose()?;
    let runtime = Arc::new(quinn::TokioRuntime);
    let endpoint = quinn::Endpoint::new_with_abstract_socket(
        handshake::endpoint_config(shared.config.largest_datagram),
        server,
        quic,
        runtime,
    )
    .map_err(|error| NetError::Quic(error.to_string()))?;
    let mut control = vec![tokio::spawn(control::expire(shared.clone()))];
    if shared.config.listen.is_some() {
        control.push(tokio::spawn(control::accept(shared.clone(), endpoint.clone())));
    }
    for (peer, config) in shared.config.peers.iter().enumerate() {
        let Some(target) = config.address.clone() else { continue };
        let config = handshake::client_config(shared, peer)?;
        let (shared, endpoint) = (shared.clone(), endpoint.clone());
        let dialer = control::Dialer { shared, endpoint, config, peer, target };
        control.push(tokio::spawn(dialer.run()));
    }
    Ok((endpoint, control))
}

type Bound = (Arc<Port>, socket::ToQuic, Arc<socket::QuicSocket>);

fn bind(listen: Option<SocketAddr>) -> Result<Bound, LinkError> {
    let failed = |address| move |source| LinkError::Port { address, source };
    let any = |port| SocketAddr::from((Ipv4Addr::UNSPECIFIED, port));
    match listen {
        // A machine without IPv6 has no [::]; what that stands for is then 0.0.0.0.
        Some(address) if address.ip() == IpAddr::from(Ipv6Addr::UNSPECIFIED) => Port::bind(address)
            .or_else(|_| Port::bind(any(address.port())))
            .map_err(failed(address)),
        Some(address) => Port::bind(address).map_err(failed(address)),
        None => Port::bind(SocketAddr::from((Ipv6Addr::UNSPECIFIED, 0)))
            .or_else(|_| Port::bind(any(0)))
            .map_err(failed(any(0))),
    }
}

impl Link {
    /// The state of the link.
    pub fn status(&self) -> LinkStatus {
        self.shared.status()
    }

    /// Whether the link's tasks all run. They end only by a failure of the device or the port.
    pub fn runs(&self) -> bool {
        !self.tasks().any(Task::is_finished)
    }

    fn tasks(&self) -> impl Iterator<Item = &Task> {
        self.control.iter().chain([&self.outgoing, &self.incoming])
    }

    /// Tells the peers that this end stops, and stops.
    pub async fn stop(self) {
        self.control.iter().chain([&self.outgoing]).for_each(Task::abort);
        self.endpoint.close(quinn::VarInt::from_u32(0), b"the other end has stopped");
        // The incoming task still feeds QUIC.
        let _ = tokio::time::timeout(Duration::from_secs(1), self.endpoint.wait_idle()).await;
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        self.tasks().for_each(Task::abort);
    }
}

fn peer_status(peer: &Peer) -> PeerStatus {
    let connection = peer.keys.sealing().map(|keyed| ConnectionStatus {
        address: canonical(lock(&keyed.path).remote).to_string(),
        cipher: keyed.cipher.to_string(),
        rtt: keyed.connection.rtt(),
        key_age: keyed.since.elapsed(),
    });
    PeerStatus {
        key: peer.config.peer.key.to_string(),
        name: peer.config.peer.name.clone(),
        configured_address: peer.config.address.as_ref().map(ToString::to_string),
        allowed: peer.config.allowed.iter().map(|net| net.trunc().to_string()).collect(),
        connection,
        last_failure: lock(&peer.last_failure).clone(),
        traffic: peer.keys.traffic(),
        drops: peer.drops.get(),
    }
}

impl Shared {
    /// `alpn` and whether the peers are nodes of a network.
    fn new(
        config: LinkConfig,
        routes: Routes,
        port: Arc<Port>,
        device: Device,
        (alpn, of_nodes): (Vec<u8>, bool),
    ) -> Shared {
        Shared {
            peers: config.peers.iter().cloned().map(Peer::new).collect(),
            accepted: AuthorizedPeers::new(config.peers.iter().map(|peer| peer.peer.clone())),
            routes,
            indices: Indices::default(),
            port,
            device,
            drops: crate::status::DropCounters::default(),
            strangers: Strangers::default(),
            started: Instant::now(),
            mtu: AtomicU16::new(device_mtu(config.largest_datagram)),
            wake: Notify::new(),
            own_traffic: LogLimit::new(),
            domains: RandomState::new(),
            alpn,
            of_nodes,
            config,
        }
    }

    /// The state of the link.
    fn status(&self) -> LinkStatus {
        let mut status = LinkStatus {
            version: self.config.agent.clone(),
            key: self.config.secret.public().to_string(),
            uptime: self.started.elapsed(),
            address: self.port.address().to_string(),
            device: self.config.device.name.clone(),
            mtu: if self.config.shaping.split {
                self.config.device.mtu
            } else {
                self.mtu.load(Relaxed)
            },
            peers: self.peers.iter().map(peer_status).collect(),
            refused_handshakes: self.strangers.count(),
            last_refused: self.strangers.last(),
            retries: self.strangers.retries(),
            traffic: Traffic::default(),
            drops: self.drops.get(),
            // Of the process around it.
            history: None,
        };
        for peer in &status.peers {
            status.traffic += peer.traffic;
            status.drops += peer.drops;
        }
        status
    }

    /// Opens datagrams with these keys from now on.
    fn open_with(&self, keyed: &Arc<Keyed>) -> Result<(), PeerError> {
        let added = self.indices.add(&self.peers[keyed.peer], keyed);
        added.then_some(()).ok_or(PeerError::Index)
    }

    /// Forgets keys. Returns whether the peer is not connected any more.
    fn forget(&self, keyed: &Arc<Keyed>) -> bool {
        self.indices.remove(&self.peers[keyed.peer], keyed)
    }

    /// The isolation domain of what an inner address sends. Nobody outside can choose addresses that
    /// share one.
    fn domain(&self, source: IpAddr) -> Domain {
        // Not that of content without an owner.
        Domain(1 + (self.domains.hash_one(source) >> 1))
    }

    /// The key of a packet's flow. Nobody outside can choose flows that share one.
    fn flow(&self, headers: &oncewire_packet::fields::Headers) -> u64 {
        let ports = headers.transport.map(|ports| (ports.source, ports.destination));
        self.domains.hash_one((headers.source, headers.destination, headers.protocol, ports))
    }

    /// Whether this end's key is lower than a peer's: of two connections that both ends made at the
    /// same time, that of the lower key stays.
    fn has_lower_key(&self, peer: usize) -> bool {
        self.config.secret.public() < self.peers[peer].config.peer.key
    }

    /// Whether a packet from the device is one of the link's own datagrams, which was routed there.
    fn is_own(&self, headers: &oncewire_packet::fields::Headers) -> bool {
        use oncewire_packet::fields::UDP;
        let own = self.port.address().port();
        let ports = headers.transport.filter(|_| headers.protocol == UDP);
        let Some(ports) = ports.filter(|ports| ports.source == own) else { return false };
        let to = SocketAddr::new(headers.destination, ports.destination);
        let Some(peer) = self.peers.iter().find(|peer| peer.is_at(to)) else { return false };
        count(&peer.drops.own_traffic);
        if self.own_traffic.pass().is_some() {
            tracing::warn!(
                peer = peer.config.label(),
                address = %to,
                device = self.config.device.name,
                "the link's own datagrams are routed into its device, where they are dropped: add a route to the peer's address beside the device"
            );
        }
        true
    }
}
