//! The packet link on sockets and a tun device: `oncewire link`.
//!
//! A [`Link`] reads packets from the device, seals them, and sends them to the peer as datagrams; and
//! the other way. `docs/LINK.md` specifies the bytes, `oncewire_session::link` has the state machines.
//!
//! ```text
//! device -> outgoing: packet::offload -> Sender -> seal -> one call for datagrams of one size
//! port -> incoming: by first byte -> quinn | open -> Receiver -> runs joined -> device
//! control: dial or accept -> HELLO -> keys; renewal; the link is down when the connection ends
//! ```
//!
//! While no peer is connected, packets from the device are dropped. Nothing leaves this machine that
//! is not sealed.

mod control;
mod device;
mod flow;
mod handshake;
mod peers;
mod seal;
mod socket;
mod status;

pub use device::DeviceConfig;
pub use handshake::PeerError;
pub use ipnet::IpNet;
pub use seal::Cipher;
pub use status::{Drops, LinkStatus, PeerStatus, Traffic};

use crate::endpoint::NetError;
use crate::keys::{AuthorizedPeers, PublicKey, SecretKey};
use crate::sync::lock;
use crate::target::Target;
use crate::tls::TlsError;
use oncewire_packet::prefix::Prefixes;
use oncewire_session::link::OVERHEAD;
use peers::Keys;
use socket::Port;
use status::DropCounters;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tokio::sync::Notify;
use tun_rs::AsyncDevice;

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
    /// The key of the peer.
    pub peers: AuthorizedPeers,
    /// Whether this end waits for the peer or connects to it.
    pub role: Role,
    /// Networks behind the peer: packets to others are not sent, packets from others not accepted.
    pub allowed: Vec<IpNet>,
    /// Largest sealed datagram in bytes; see [`largest_datagram`].
    pub largest_datagram: u16,
    /// The tun device.
    pub device: DeviceConfig,
    /// Time limits.
    pub timing: Timing,
    /// Program and version, for the status.
    pub agent: String,
}

/// Which end connects.
#[derive(Clone, Debug)]
pub enum Role {
    /// Waits for the peer on this UDP address.
    Listen(SocketAddr),
    /// Connects to the peer.
    Connect(Target),
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
    /// How long the keys before the current ones still open datagrams.
    pub old_keys: Duration,
}

impl Default for Timing {
    fn default() -> Timing {
        Timing {
            keep_alive: Duration::from_secs(10),
            silence: Duration::from_secs(30),
            renewal: Duration::from_secs(3600),
            renewal_datagrams: seal::RENEW_DATAGRAMS,
            old_keys: Duration::from_secs(10),
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
    /// The networks of [`LinkConfig::allowed`].
    allowed: Prefixes,
    port: Arc<Port>,
    device: AsyncDevice,
    keys: Keys,
    drops: DropCounters,
    started: Instant,
    /// Wakes the outgoing task: an acknowledgment is due later.
    wake: Notify,
    /// The peer's key, while the link is up.
    peer: Mutex<Option<PublicKey>>,
    last_failure: Mutex<Option<String>>,
    warned_of_own_traffic: AtomicBool,
}

/// A link that runs. It stops when this is dropped.
pub struct Link {
    shared: Arc<Shared>,
    endpoint: quinn::Endpoint,
    tasks: Vec<tokio::task::JoinHandle<()>>,
}

/// Opens port and device, and starts a link. Needs a Tokio runtime with timers and I/O.
///
/// # Errors
/// [`LinkError`] if the port or the device cannot be opened.
pub async fn start(config: LinkConfig) -> Result<Link, LinkError> {
    let (port, to_quic, quic) = bind(&config.role)?;
    let device = device::open(&config.device)?;
    let text: String = config.allowed.iter().map(|net| format!("{net}\n")).collect();
    let shared = Arc::new(Shared {
        // Cannot fail: they are networks already.
        allowed: Prefixes::parse(&text).unwrap_or_default(),
        port,
        device,
        keys: Keys::default(),
        drops: DropCounters::default(),
        started: Instant::now(),
        wake: Notify::new(),
        peer: Mutex::default(),
        last_failure: Mutex::default(),
        warned_of_own_traffic: AtomicBool::new(false),
        config,
    });
    let server = match &shared.config.role {
        Role::Listen(_) => Some(handshake::server_config(&shared)?),
        Role::Connect(_) => None,
    };
    let runtime = Arc::new(quinn::TokioRuntime);
    let endpoint = quinn::Endpoint::new_with_abstract_socket(
        handshake::endpoint_config(),
        server,
        quic,
        runtime,
    )
    .map_err(|error| NetError::Quic(error.to_string()))?;
    let control = match &shared.config.role {
        Role::Listen(_) => tokio::spawn(control::accept(shared.clone(), endpoint.clone())),
        Role::Connect(target) => {
            let client = handshake::client_config(&shared)?;
            tokio::spawn(control::dial(shared.clone(), endpoint.clone(), client, target.clone()))
        }
    };
    let tasks = vec![
        control,
        tokio::spawn(flow::outgoing(shared.clone())),
        tokio::spawn(flow::incoming(shared.clone(), to_quic)),
    ];
    Ok(Link { shared, endpoint, tasks })
}

type Bound = (Arc<Port>, socket::ToQuic, Arc<socket::QuicSocket>);

fn bind(role: &Role) -> Result<Bound, LinkError> {
    let failed = |address| move |source| LinkError::Port { address, source };
    let any = SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0));
    match role {
        // A machine without IPv6 has no [::]; what that stands for is then 0.0.0.0.
        Role::Listen(address) if address.ip() == IpAddr::from(Ipv6Addr::UNSPECIFIED) => {
            Port::bind(*address)
                .or_else(|_| Port::bind(SocketAddr::from((Ipv4Addr::UNSPECIFIED, address.port()))))
                .map_err(failed(*address))
        }
        Role::Listen(address) => Port::bind(*address).map_err(failed(*address)),
        Role::Connect(_) => Port::bind(SocketAddr::from((Ipv6Addr::UNSPECIFIED, 0)))
            .or_else(|_| Port::bind(any))
            .map_err(failed(any)),
    }
}

impl Link {
    /// The state of the link.
    pub fn status(&self) -> LinkStatus {
        let shared = &self.shared;
        let key = *lock(&shared.peer);
        let peer = shared.keys.sealing().zip(key).map(|(keyed, key)| PeerStatus {
            key: key.to_string(),
            name: shared.config.peers.name_of(&key).map(|name| name.to_string()),
            address: crate::sockets::canonical(*lock(&keyed.address)).to_string(),
            cipher: keyed.cipher.to_string(),
            rtt: keyed.connection.rtt(),
            key_age: keyed.since.elapsed(),
        });
        LinkStatus {
            version: shared.config.agent.clone(),
            key: shared.config.secret.public().to_string(),
            uptime: shared.started.elapsed(),
            address: shared.port.address().to_string(),
            device: shared.config.device.name.clone(),
            mtu: shared.config.device.mtu,
            is_up: peer.is_some(),
            peer,
            allowed: shared.config.allowed.iter().map(ToString::to_string).collect(),
            last_failure: lock(&shared.last_failure).clone(),
            traffic: shared.keys.traffic(),
            drops: shared.drops.get(),
        }
    }

    /// Whether the link's tasks all run. They end only by a failure of the device or the port.
    pub fn runs(&self) -> bool {
        !self.tasks.iter().any(tokio::task::JoinHandle::is_finished)
    }

    /// Tells the peer that this end stops, and stops.
    pub async fn stop(self) {
        for task in &self.tasks[..2] {
            task.abort();
        }
        self.endpoint.close(quinn::VarInt::from_u32(0), b"the other end has stopped");
        // The incoming task still feeds QUIC.
        let _ = tokio::time::timeout(Duration::from_secs(1), self.endpoint.wait_idle()).await;
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        for task in &self.tasks {
            task.abort();
        }
    }
}

impl Shared {
    /// Notes why the peer could not be reached.
    fn failed(&self, why: &dyn std::fmt::Display) {
        *lock(&self.last_failure) = Some(why.to_string());
    }

    /// Whether a packet is one of the link's own datagrams, which was routed into its device.
    fn is_own(&self, headers: &oncewire_packet::fields::Headers, peer: SocketAddr) -> bool {
        use oncewire_packet::fields::UDP;
        let Some(transport) = headers.transport.filter(|_| headers.protocol == UDP) else {
            return false;
        };
        let peer = crate::sockets::canonical(peer);
        let own = transport.source == self.port.address().port()
            && transport.destination == peer.port()
            && headers.destination == peer.ip();
        if own && !self.warned_of_own_traffic.swap(true, Relaxed) {
            tracing::warn!(
                %peer,
                device = self.config.device.name,
                "the link's own datagrams are routed into its device, where they are dropped: add a route to the peer's address beside the device"
            );
        }
        own
    }
}
