//! Parameters that client and server have in common, and why an end cannot start.

use crate::driver::{Driver, Phase};
use crate::egress::Egress;
use crate::enroll::Invitations;
use crate::handshake::HandshakeError;
use crate::keys::{AuthorizedPeers, PublicKey, SecretKey};
use crate::status::{EffortStatus, SessionStatus};
#[cfg(unix)]
use crate::store::ContentStore;
use crate::tls::TlsError;
use crate::transport::TransportKind;
use oncewire_codec::adapt::CpuShare;
use oncewire_codec::{EncoderBuilder, Sharing};
use oncewire_session::{Config, ConfigError, Opening, Settings, StoreFor};
use ring::rand::{SecureRandom, SystemRandom};
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use tracing::warn;

/// Parameters that client and server have in common.
#[derive(Clone, Debug)]
pub struct Endpoint {
    /// This end's key.
    pub secret: SecretKey,
    /// Keys that the other end may have.
    pub peers: AuthorizedPeers,
    /// Memory for caches, tables, credit and queues, in bytes. Default: [`DEFAULT_MEMORY`].
    pub memory: u64,
    /// Lanes to offer, 1..=8; the smaller of both ends' numbers is used. Default: 1.
    pub lanes: usize,
    /// Flows that may be open at once in a session. Default: one per 256 KiB of memory, up to 65,536.
    pub max_flows: Option<u64>,
    /// What carries the lanes. Default: TLS over TCP.
    pub transport: TransportKind,
    /// Sampler, period, window and entropy stage of the encoder.
    pub encoder: EncoderBuilder,
    /// When to look inside compressed content, if the encoder can: see [`Config::opening`].
    pub opening: Opening,
    /// Whether to code at level 1 while this end is slower than its link: see [`Config::hurries`].
    pub hurries: bool,
    /// Whether what only a store on disk has is read where sending it would be faster: see
    /// [`Config::store_for`].
    pub store_for: StoreFor,
    /// What is written at once is padded to a power of two of bytes, and from this size on to a
    /// multiple of this size: see [`Config::pad`]. Default: 0, no padding.
    pub pad: u32,
    /// Share of one core that encoding may take per session. Default: no limit.
    pub cpu_budget: Option<CpuShare>,
    /// What the peer's flows may reach from here. Default: nothing.
    pub egress: Egress,
    /// Silence after which this end sends a PING.
    pub keep_alive: Duration,
    /// Silence after which this end drops a transport.
    pub dead_after: Duration,
    /// How long flows survive without a transport.
    pub grace: Duration,
    /// Invitations that this end accepts as a server. Default: none. Those who have them join over
    /// TCP, if [`Endpoint::peers`] has a file.
    pub invitations: Option<Invitations>,
    /// Program and version; the peer shows them in `status`.
    pub agent: String,
    /// Where caches are kept on disk. Default: nowhere.
    #[cfg(unix)]
    pub store: Option<ContentStore>,
}

impl Endpoint {
    /// Default parameters with these keys.
    pub fn new(secret: SecretKey, peers: AuthorizedPeers) -> Endpoint {
        let config = Config::default();
        Endpoint {
            secret,
            peers,
            memory: DEFAULT_MEMORY,
            lanes: 1,
            max_flows: None,
            transport: TransportKind::default(),
            encoder: EncoderBuilder::default().sharing(Sharing::Chunks),
            opening: Opening::default(),
            hurries: true,
            store_for: StoreFor::default(),
            pad: 0,
            cpu_budget: None,
            egress: Egress { connect_timeout: CONNECT_TIMEOUT, ..Egress::default() },
            keep_alive: config.keep_alive,
            dead_after: config.dead_after,
            grace: config.grace,
            invitations: None,
            agent: config.agent,
            #[cfg(unix)]
            store: None,
        }
    }

    /// Warns if no peer can connect.
    pub(crate) fn warn_if_no_peers(&self) {
        if self.peers.is_empty() {
            warn!(
                "no peer is authorized, so every handshake will fail: add a key to the file of authorized peers and send SIGHUP, or restart with --peer KEY"
            );
        }
    }

    /// Warns if the peer's encoder shares more than this end's.
    pub(crate) fn warn_if_peer_shares(&self, peer: Sharing, label: &str) {
        match (self.encoder.shares(), peer) {
            (Sharing::All, _) | (_, Sharing::None) | (Sharing::Chunks, Sharing::Chunks) => {}
            (_, Sharing::All) => warn!(
                peer = label,
                "the other end runs with --share all: the sizes of what it sends let one isolation domain guess what others receive; set --share there as here"
            ),
            (Sharing::None, Sharing::Chunks) => warn!(
                peer = label,
                "the other end runs with --share chunks: the sizes of what it sends tell whether another isolation domain received the same kilobyte; set --share none there, too"
            ),
        }
    }

    /// Parameters of sessions, except for the random numbers, which must differ for each.
    ///
    /// # Errors
    /// [`ConfigError`] with the value that cannot work, such as too little memory.
    pub(crate) fn session_config(&self) -> Result<Settings, ConfigError> {
        let config = Config::for_memory(self.memory, self.lanes, self.encoder.clone())?;
        let most = config.max_flows;
        let max_flows = self.max_flows.unwrap_or(most);
        if max_flows > most {
            return Err(ConfigError::MaxFlows { max_flows, most });
        }
        let config = Config {
            max_flows,
            opening: self.opening,
            hurries: self.hurries,
            store_for: self.store_for,
            pad: self.pad,
            cpu_budget: self.cpu_budget,
            keep_alive: self.keep_alive,
            dead_after: self.dead_after,
            grace: self.grace,
            agent: self.agent.clone(),
            #[cfg(unix)]
            store: self.store.as_ref().map(ContentStore::key),
            #[cfg(unix)]
            stored: self.store.as_ref().map_or(0, ContentStore::stored),
            ..config
        };
        config.build()
    }
}

/// Default of [`Endpoint::memory`]: 512 MiB.
pub const DEFAULT_MEMORY: u64 = 512 << 20;
/// Time limit for connecting to an origin, per address.
pub(crate) const CONNECT_TIMEOUT: Duration = Duration::from_secs(15);

/// Random numbers for a session.
pub(crate) fn random() -> Result<[u64; 4], NetError> {
    let mut bytes = [0; 32];
    SystemRandom::new().fill(&mut bytes).map_err(|_| NetError::Random)?;
    Ok([0, 8, 16, 24]
        .map(|at| u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap_or_default())))
}

/// Why an end cannot start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum NetError {
    /// A listener cannot be opened.
    #[error("cannot listen on {bind}: {source}")]
    Listen {
        /// Its address, or the path of a status socket.
        bind: String,
        /// The system's error.
        source: io::Error,
    },
    /// TLS cannot be set up.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// The settings of a session cannot work.
    #[error(transparent)]
    Session(#[from] ConfigError),
    /// The system gives no random numbers.
    #[error("the system gives no random numbers")]
    Random,
    /// The asynchronous runtime cannot start.
    #[error("cannot set up threads, timers or signals: {0}")]
    Runtime(io::Error),
    /// The server refuses this client for good.
    #[error("{0}; this client has stopped")]
    Refused(Arc<HandshakeError>),
    /// QUIC cannot be set up.
    #[error("cannot set up QUIC: {0}")]
    Quic(String),
}

/// The state of a session, as its end sees it. `None` once the session was taken away.
pub(crate) fn session_status(
    driver: &Driver,
    peer: &PublicKey,
    peers: &AuthorizedPeers,
) -> Option<SessionStatus> {
    let phase = match &*driver.phase().borrow() {
        Phase::Handshake => "handshake".to_string(),
        Phase::Established => "established".to_string(),
        Phase::GoingAway => "draining".to_string(),
        Phase::Over(why) => format!("over: {why}"),
    };
    let path = driver.path();
    driver.look(|session| SessionStatus {
        peer: peer.to_string(),
        name: peers.name_of(peer).map(|name| name.to_string()),
        agent: session.peer_agent().to_string(),
        phase,
        address: path.map(|path| path.address),
        transport: path.map(|path| path.over.into()),
        peer_cache_limit: session.peer_log_limit(),
        refused_targets: driver.refused_targets.load(Ordering::Relaxed),
        age: driver.born.elapsed(),
        idle: driver.idle_for(),
        lanes: session.lanes(),
        lanes_up: (0..session.lanes()).filter(|&lane| session.is_up(lane)).count(),
        effort: session.controller().map(|controller| EffortStatus {
            effort: controller.effort().to_string(),
            budget: controller.budget().as_f64(),
            changes: controller.changes(),
        }),
        here: session.counters(),
        there: session.peer_report().map(|(counters, at)| (*counters, at.elapsed())),
    })
}
