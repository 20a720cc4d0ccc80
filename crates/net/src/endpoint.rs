//! What both ends are made from, and how transports become peers.

use crate::driver::{Driver, Phase};
use crate::keys::{AuthorizedPeers, PublicKey, SecretKey};
use crate::status::{EffortStatus, SessionStatus};
use crate::tls::TlsError;
use crate::transport::TransportKind;
use crate::way_out::WayOut;
use oncewire_codec::EncoderBuilder;
use oncewire_codec::adapt::CpuShare;
use oncewire_session::{Config, TooLittleMemory};
use ring::rand::{SecureRandom, SystemRandom};
use std::io;
use std::sync::atomic::Ordering;
use std::time::Duration;
use tracing::warn;

/// Parameters that both ends have.
#[derive(Clone, Debug)]
pub struct Endpoint {
    /// This end's key.
    pub secret: SecretKey,
    /// Who may be the other end.
    pub peers: AuthorizedPeers,
    /// Bytes for everything that grows: logs, tables, credit, queues.
    pub memory: u64,
    /// Lanes wanted, 1..=8.
    pub lanes: usize,
    /// Flows that may be open at once in a session. Default: one for every 256 KiB of memory, up to 65,536.
    pub max_flows: Option<u64>,
    /// What carries them.
    pub transport: TransportKind,
    /// Sampler, period, window, entropy stage.
    pub encoder: EncoderBuilder,
    /// Share of one core that encoding may take, for each session. Default: as much as it wants.
    pub cpu_budget: Option<CpuShare>,
    /// What the peer's flows may reach from here.
    pub way_out: WayOut,
    /// Silence after which the peer is asked for a sign of life.
    pub keep_alive: Duration,
    /// Silence after which a transport is given up.
    pub dead_after: Duration,
    /// How long flows survive a cut path.
    pub grace: Duration,
    /// Program and version, for the peer's status.
    pub agent: String,
}

impl Endpoint {
    /// Defaults for all but keys.
    pub fn new(secret: SecretKey, peers: AuthorizedPeers) -> Endpoint {
        let config = Config::default();
        Endpoint {
            secret,
            peers,
            memory: DEFAULT_MEMORY,
            lanes: 1,
            max_flows: None,
            transport: TransportKind::default(),
            encoder: EncoderBuilder::default(),
            cpu_budget: None,
            way_out: WayOut { connect_timeout: CONNECT_TIMEOUT, ..WayOut::default() },
            keep_alive: config.keep_alive,
            dead_after: config.dead_after,
            grace: config.grace,
            agent: config.agent,
        }
    }

    /// Says so where no peer can ever come in.
    pub(crate) fn warn_if_nobody(&self) {
        if self.peers.is_empty() {
            warn!("no peer is authorized: every handshake is refused until a key is added and the list is read again (SIGHUP)");
        }
    }

    /// What sessions are made from; each needs randomness of its own.
    pub(crate) fn session_config(&self) -> Result<Config, NetError> {
        let config = Config::for_memory(self.memory, self.lanes, self.encoder.clone())?;
        Ok(Config {
            max_flows: self.max_flows.map_or(config.max_flows, |flows| flows.clamp(1, config.max_flows)),
            cpu_budget: self.cpu_budget,
            keep_alive: self.keep_alive,
            dead_after: self.dead_after,
            grace: self.grace,
            agent: self.agent.clone(),
            ..config
        })
    }
}

/// Memory unless told otherwise: 512 MiB.
pub const DEFAULT_MEMORY: u64 = 512 << 20;
/// How long a connection to an origin may take, per address.
pub(crate) const CONNECT_TIMEOUT: Duration = Duration::from_secs(15);
/// How long TCP and TLS, and then the first message, may take.
pub(crate) const GREETING_TIMEOUT: Duration = Duration::from_secs(10);

/// Fresh randomness for a session.
pub(crate) fn random() -> Result<[u64; 4], NetError> {
    let mut bytes = [0; 32];
    SystemRandom::new().fill(&mut bytes).map_err(|_| NetError::Random)?;
    Ok([0, 8, 16, 24].map(|at| u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap_or_default())))
}

/// Why an end cannot start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum NetError {
    /// A place to listen cannot be had.
    #[error("cannot listen on {bind}: {source}")]
    Listen {
        /// Where.
        bind: String,
        /// Why not.
        source: io::Error,
    },
    /// TLS cannot be set up.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// Too little memory.
    #[error(transparent)]
    Memory(#[from] TooLittleMemory),
    /// The system gives no randomness.
    #[error("the system gives no random numbers")]
    Random,
    /// The asynchronous runtime cannot be had.
    #[error("cannot set up threads, timers and signals: {0}")]
    Runtime(io::Error),
    /// QUIC cannot be set up.
    #[error("cannot set up QUIC: {0}")]
    Quic(String),
}

/// A session as its owner sees it.
pub(crate) fn session_status(driver: &Driver, peer: &PublicKey, peers: &AuthorizedPeers) -> Option<SessionStatus> {
    let phase = match &*driver.phase().borrow() {
        Phase::Greeting => "greeting".to_string(),
        Phase::Established => "established".to_string(),
        Phase::GoingAway => "draining".to_string(),
        Phase::Over(why) => format!("over: {why}"),
    };
    let there = driver.report().map(|(counters, at)| (counters, at.elapsed()));
    let path = driver.path();
    driver.with(|session| SessionStatus {
        peer: peer.to_string(),
        name: peers.name_of(peer).map(|name| name.to_string()),
        agent: session.peer_agent().to_string(),
        phase,
        address: path.map(|path| path.address),
        transport: path.map(|path| path.over),
        refused_targets: driver.refused_targets.load(Ordering::Relaxed),
        age: driver.born.elapsed(),
        idle: driver.idle_for(),
        lanes: session.lanes(),
        lanes_up: (0..session.lanes()).filter(|&lane| session.is_up(lane)).count(),
        effort: session.controller().map(|controller| EffortStatus {
            effort: controller.effort(),
            budget: controller.budget(),
            changes: controller.changes(),
        }),
        here: session.counters(),
        there,
    })
}
