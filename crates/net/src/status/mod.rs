//! The state of a tunnel, as plain data.

use oncewire_codec::adapt::{CpuShare, Effort};
use oncewire_session::Counters;
use std::time::Duration;

/// One end of a tunnel.
#[derive(Clone, Debug, Default)]
pub struct Status {
    /// `serve` or `connect`.
    pub role: &'static str,
    /// Program and version.
    pub version: String,
    /// This end's public key.
    pub key: String,
    /// Time since this end started.
    pub uptime: Duration,
    /// Addresses that it listens on: for peers at a server, for applications at a client.
    pub listening: Vec<String>,
    /// Memory limit, in bytes.
    pub memory_limit: u64,
    /// Memory in use by sessions and by caches kept for absent peers, in bytes.
    pub memory: u64,
    /// Bytes sent on all transports, including TLS, without TCP and IP headers.
    pub transport_sent: u64,
    /// Bytes received on all transports, counted in the same way.
    pub transport_received: u64,
    /// Sessions whose caches are kept for absent peers.
    pub kept_logs: usize,
    /// Times that a session had to restart with a smaller cache, for lack of memory.
    pub shrunk: u64,
    /// Times that a session restarted with a larger cache, because memory was free.
    pub grown: u64,
    /// Transports refused: any [`HandshakeError`](crate::HandshakeError), and connections displaced
    /// while they had not authenticated.
    pub refused_transports: u64,
    /// Connections of applications that were refused: no session, no free flow, or a bad proxy
    /// request.
    pub refused_connections: u64,
    /// Proxy clients dropped because too many had not sent a request.
    pub displaced_proxy_clients: u64,
    /// Proxy clients that spoke SOCKS4, which is not supported.
    pub socks4_clients: u64,
    /// Whether this end drains: it accepts no more sessions or connections.
    pub draining: bool,
    /// Why the last attempt to reach the server failed, unless a session was established since.
    pub last_failure: Option<String>,
    /// The sessions.
    pub sessions: Vec<SessionStatus>,
}

/// One session.
#[derive(Clone, Debug)]
pub struct SessionStatus {
    /// The peer's public key.
    pub peer: String,
    /// The peer's name, if the list of peers has one.
    pub name: Option<String>,
    /// The peer's program and version.
    pub agent: String,
    /// `handshake`, `established`, `draining`, or `over: ` and the reason.
    pub phase: String,
    /// Time since it started.
    pub age: Duration,
    /// Time since an application sent or received anything.
    pub idle: Duration,
    /// The peer's address, as this end sees it.
    pub address: Option<std::net::SocketAddr>,
    /// What carries the lanes: `tcp` or `quic`.
    pub transport: Option<&'static str>,
    /// Largest cache that the peer keeps in each direction now, in bytes: less than it was
    /// configured with, if other sessions need its memory.
    pub peer_cache_limit: Option<u64>,
    /// Flows that this end refused: their target is not allowed or cannot be reached.
    pub refused_targets: u64,
    /// Lanes that both ends agreed on.
    pub lanes: usize,
    /// Lanes that have a working transport.
    pub lanes_up: usize,
    /// The effort of encoding here, if there is a CPU budget.
    pub effort: Option<EffortStatus>,
    /// This end's counters.
    pub here: Counters,
    /// The peer's counters as it last reported them, and the age of the report.
    pub there: Option<(Counters, Duration)>,
}

/// How a session keeps its encoding within a CPU budget.
#[derive(Clone, Copy, Debug)]
pub struct EffortStatus {
    /// Current effort per block.
    pub effort: Effort,
    /// Allowed share of one core.
    pub budget: CpuShare,
    /// Times that the effort changed.
    pub changes: u64,
}
