//! What a tunnel says of itself, as plain data.

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
    /// Time since it started.
    pub uptime: Duration,
    /// Addresses where peers, or applications, connect.
    pub listening: Vec<String>,
    /// Memory that may be used, in bytes.
    pub memory_limit: u64,
    /// Memory in use by sessions and by logs kept for peers that are away, in bytes.
    pub memory: u64,
    /// Bytes sent on all transports, TLS included, TCP and IP headers not.
    pub transport_sent: u64,
    /// Bytes received on all transports.
    pub transport_received: u64,
    /// Logs kept for peers that are away.
    pub kept_logs: usize,
    /// Times that a session was told to begin with smaller logs, for want of memory.
    pub shrunk: u64,
    /// Times that a session was told to begin with larger logs, since memory had become free.
    pub grown: u64,
    /// Transports refused: not authorized, no hello, too many.
    pub refused_transports: u64,
    /// Connections of applications that found no way through: no session, a wish not understood.
    pub refused_connections: u64,
    /// Clients of a proxy that had not said what they want in time when others came: the oldest gives way.
    pub displaced_proxy_clients: u64,
    /// Clients of a proxy that spoke SOCKS4, which is not supported.
    pub socks4_clients: u64,
    /// No more flows are accepted.
    pub draining: bool,
    /// Why the last attempt to reach the server failed, if there is no session since.
    pub last_failure: Option<String>,
    /// Sessions there are.
    pub sessions: Vec<SessionStatus>,
}

/// One session.
#[derive(Clone, Debug)]
pub struct SessionStatus {
    /// The peer's public key.
    pub peer: String,
    /// Its name, if the list of peers has one.
    pub name: Option<String>,
    /// Its program and version.
    pub agent: String,
    /// How far it has come.
    pub phase: String,
    /// Time since it began.
    pub age: Duration,
    /// Time since an application sent or received anything.
    pub idle: Duration,
    /// Address of the peer, as this end sees it.
    pub address: Option<std::net::SocketAddr>,
    /// What carries the lanes: `tcp` or `quic`.
    pub transport: Option<&'static str>,
    /// Flows that this end turned away: their target is not allowed or cannot be reached.
    pub refused_targets: u64,
    /// Lanes agreed on.
    pub lanes: usize,
    /// Of them, with a transport that works.
    pub lanes_up: usize,
    /// What this end spends on encoding, if there is a budget for it.
    pub effort: Option<EffortStatus>,
    /// What this end counts.
    pub here: Counters,
    /// What the peer counts, and how old that is.
    pub there: Option<(Counters, Duration)>,
}

/// How a session keeps its encoding within a budget of CPU time.
#[derive(Clone, Copy, Debug)]
pub struct EffortStatus {
    /// What is spent on a block now.
    pub effort: Effort,
    /// Share of one core that is allowed.
    pub budget: CpuShare,
    /// Times that the effort changed.
    pub changes: u64,
}
