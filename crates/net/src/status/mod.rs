//! The state of a tunnel or a link, as plain data.
//!
//! [`Document`] is what a status socket answers: the same data, with the names that programs rely
//! on. [`Document::samples`] lists all counters and gauges with kind, unit and help text.

mod document;
mod link;
#[cfg(target_os = "linux")]
mod node;
mod samples;
mod serial;
#[cfg(test)]
mod tests;

pub use crate::https::HttpsStatus;
pub use document::{Document, DocumentError, FORMAT};
#[cfg(target_os = "linux")]
pub(crate) use link::DropCounters;
pub use link::{ConnectionStatus, Drops, LinkStatus, PeerStatus, Traffic};
#[cfg(target_os = "linux")]
pub use node::NodeStatus;
pub use oncewire_session::{Counters, Metric, MetricKind, MetricUnit, Metrics};
pub use samples::Sample;

pub use crate::services::{MOST_SERVICES, OTHER_SERVICES, ServiceCounters};

use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::net::SocketAddr;
use std::time::Duration;

/// Which end of a tunnel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// The server.
    #[default]
    Serve,
    /// The client.
    Connect,
}

impl Role {
    /// The command that runs it: `serve` or `connect`.
    pub fn name(self) -> &'static str {
        match self {
            Role::Serve => "serve",
            Role::Connect => "connect",
        }
    }
}

/// One end of a tunnel.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Status {
    /// Which end.
    pub role: Role,
    /// Program and version.
    pub version: String,
    /// This end's public key.
    #[serde(rename = "public_key")]
    pub key: String,
    /// Time since this end started.
    #[serde(rename = "uptime_seconds", with = "serial::seconds")]
    pub uptime: Duration,
    /// Addresses that it listens on: for peers at a server, for applications at a client.
    pub listening: Vec<String>,
    /// Memory limit, in bytes.
    #[serde(rename = "memory_limit_bytes")]
    pub memory_limit: u64,
    /// Memory in use by sessions and by caches kept for absent peers, in bytes.
    #[serde(rename = "memory_bytes")]
    pub memory: u64,
    /// Bytes of applications that all sessions sent, those included that ended.
    #[serde(rename = "application_sent_bytes")]
    pub application_sent: u64,
    /// Bytes that applications received from all sessions, those included that ended.
    #[serde(rename = "application_received_bytes")]
    pub application_received: u64,
    /// Bytes sent on all transports, including TLS, without TCP and IP headers.
    #[serde(rename = "transport_sent_bytes")]
    pub transport_sent: u64,
    /// Bytes received on all transports, counted in the same way.
    #[serde(rename = "transport_received_bytes")]
    pub transport_received: u64,
    /// Sessions whose caches are kept for absent peers.
    pub kept_logs: usize,
    /// Times that a session had to restart with a smaller cache, for lack of memory.
    #[serde(rename = "logs_shrunk")]
    pub shrunk: u64,
    /// Times that a session restarted with a larger cache, because memory was free.
    #[serde(rename = "logs_grown")]
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
    /// Proxy clients refused by their address or for want of a password.
    pub unauthorized_proxy_clients: u64,
    /// Whether this end drains: it accepts no more sessions or connections.
    pub draining: bool,
    /// Why the last attempt to reach the server failed, unless a session was established since.
    pub last_failure: Option<String>,
    /// The file that this process records its history to.
    pub history: Option<HistoryStatus>,
    /// The caches on disk.
    pub store: Option<StoreStatus>,
    /// The services, those that carried most first.
    pub services: Vec<ServiceStatus>,
    /// The HTTPS services that a client may open.
    pub https: Vec<HttpsStatus>,
    /// The sessions.
    pub sessions: Vec<SessionStatus>,
}

/// The caches of this end on disk.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct StoreStatus {
    /// Their directory.
    pub directory: String,
    /// Most bytes of all files.
    #[serde(rename = "limit_bytes")]
    pub limit: u64,
    /// Bytes of all files.
    #[serde(rename = "used_bytes")]
    pub used: u64,
    /// Whether they are encrypted.
    pub encrypted: bool,
    /// Peers that have a cache there.
    pub peers: usize,
    /// Content in caches that were used since this process started, in bytes.
    #[serde(rename = "held_bytes")]
    pub held: u64,
    /// Age of the oldest content of those, in seconds.
    #[serde(rename = "oldest_seconds")]
    pub oldest: Option<u64>,
    /// Bytes of content written since this process started.
    #[serde(rename = "written_bytes")]
    pub written: u64,
    /// Bytes of content that were not written since then, because the caches have them.
    #[serde(rename = "repeated_bytes")]
    pub repeated: u64,
    /// Bytes of content written that a crash could still take back.
    #[serde(rename = "pending_bytes")]
    pub pending: u64,
    /// Bytes read from the device since this process started.
    #[serde(rename = "device_read_bytes")]
    pub read: u64,
    /// Bytes written to the device since then, with everything around content.
    #[serde(rename = "device_written_bytes")]
    pub device_written: u64,
    /// Bytes written to the device within the last 24 hours, or since then.
    #[serde(rename = "day_written_bytes")]
    pub day_written: u64,
    /// Bytes of content that were read to send them as references, and had been written within
    /// the hour before.
    #[serde(rename = "recalled_hour_bytes")]
    pub recalled_hour: u64,
    /// As [`StoreStatus::recalled_hour`], up to a day before.
    #[serde(rename = "recalled_day_bytes")]
    pub recalled_day: u64,
    /// As [`StoreStatus::recalled_hour`], longer before.
    #[serde(rename = "recalled_older_bytes")]
    pub recalled_older: u64,
    /// Bytes of content that are not on disk: they were not written, because the disk was slower
    /// than the link, or could not be read when they were needed.
    #[serde(rename = "lost_bytes")]
    pub lost: u64,
    /// Stretches of such content.
    #[serde(rename = "lost_ranges")]
    pub lost_ranges: u64,
    /// Whether nothing more is written.
    pub failed: bool,
    /// Why caches are in memory only, if they are.
    pub failure: Option<String>,
}

/// What connections to one target carried.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ServiceStatus {
    /// The target as clients named it, or [`OTHER_SERVICES`]. Applications and peers choose it.
    pub name: String,
    /// Its counters.
    #[serde(flatten, with = "serial::named")]
    pub counters: ServiceCounters,
}

/// The file of a process's history.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct HistoryStatus {
    /// Its path.
    pub file: String,
    /// Whether it is recorded to.
    pub recording: bool,
    /// Why not.
    pub failure: Option<String>,
}

/// One session.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
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
    #[serde(rename = "age_seconds", with = "serial::seconds")]
    pub age: Duration,
    /// Time since an application sent or received anything.
    #[serde(rename = "idle_seconds", with = "serial::seconds")]
    pub idle: Duration,
    /// The peer's address, as this end sees it.
    pub address: Option<SocketAddr>,
    /// What carries the lanes: `tcp` or `quic`.
    pub transport: Option<Cow<'static, str>>,
    /// Largest cache that the peer keeps in each direction now, in bytes: less than it was
    /// configured with, if other sessions need its memory.
    #[serde(rename = "peer_cache_limit_bytes")]
    pub peer_cache_limit: Option<u64>,
    /// Flows that this end refused: their target is not allowed or cannot be reached.
    pub refused_targets: u64,
    /// Lanes that both ends agreed on.
    pub lanes: usize,
    /// Lanes that have a working transport.
    pub lanes_up: usize,
    /// The effort of encoding here, if there is a CPU budget.
    #[serde(rename = "cpu_budget")]
    pub effort: Option<EffortStatus>,
    /// This end's counters.
    #[serde(with = "serial::counters")]
    pub here: Counters,
    /// The peer's counters as it last reported them, and the age of the report.
    #[serde(flatten, with = "serial::there")]
    pub there: Option<(Counters, Duration)>,
}

/// How a session keeps its encoding within a CPU budget.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct EffortStatus {
    /// Current effort per block: `coded-3, p = 32`.
    pub effort: String,
    /// Allowed share of one core.
    #[serde(rename = "share")]
    pub budget: f64,
    /// Times that the effort changed.
    pub changes: u64,
}
