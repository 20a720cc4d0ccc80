//! The server end of a tunnel: peers connect to it, and their flows leave here.

mod handshake;
mod memory;
mod sessions;

use crate::counted::{ContentBytes, WireBytes};
use crate::drain::drain_all;
use crate::driver::Driver;
use crate::egress::Egress;
use crate::endpoint::{Endpoint, NetError, session_status};
use crate::keys::PublicKey;
use crate::listener::Bind;
use crate::log_limit::LogLimit;
use crate::quic;
use crate::sockets::listen_lasting;
use crate::status::{Role, Status};
#[cfg(unix)]
use crate::store::ContentStore;
use crate::sync::lock;
use crate::threads::SessionThreads;
use crate::tls;
use crate::transport::TransportKind;
use crate::unauthenticated::PendingConnections;
use handshake::MAX_UNAUTHENTICATED;
use oncewire_session::{HelloError, Logs, Session, SessionId, Settings};
use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::{Duration, Instant};
use tokio::runtime::Handle;
use tokio::sync::{Notify, watch};
use tokio::task::JoinSet;

/// Parameters of a server.
#[derive(Clone, Debug)]
pub struct ServeConfig {
    /// Parameters that clients have, too.
    pub endpoint: Endpoint,
    /// Addresses to listen on for peers.
    pub listen: Vec<Bind>,
    /// Most sessions at once. The limit is lower while the memory cannot serve one more at work beside
    /// those that are.
    pub max_sessions: usize,
}

/// A running server.
#[derive(Clone)]
pub struct Server {
    shared: Arc<Shared>,
}

/// A server's sessions by the peer's key and their own name.
type Sessions = HashMap<(PublicKey, SessionId), Arc<Driver>>;

struct Shared {
    endpoint: Endpoint,
    egress: RwLock<Arc<Egress>>,
    config: Settings,
    max_sessions: usize,
    bound: Vec<SocketAddr>,
    sessions: Mutex<Sessions>,
    kept: Mutex<Vec<KeptLogs>>,
    draining: watch::Sender<bool>,
    stopped: AtomicBool,
    refused_transports: AtomicU64,
    wire: Arc<WireBytes>,
    content: Arc<ContentBytes>,
    shrunk: AtomicU64,
    grown: AtomicU64,
    /// Notified when the memory that sessions may come to use changes.
    memory_changed: Arc<Notify>,
    refusals: LogLimit,
    /// Sessions that end because too many are at work at once.
    overload: LogLimit,
    /// Clients whose last hello could not be read, and why.
    incompatible: Mutex<HashMap<PublicKey, HelloError>>,
    started: Instant,
    threads: SessionThreads,
    listening: Mutex<Listening>,
}

/// What occupies the addresses that this server listens on.
#[derive(Default)]
struct Listening {
    tcp: JoinSet<()>,
    quic: Vec<quic::Listening>,
}

/// Logs of a session that ended, for its peer to resume.
struct KeptLogs {
    peer: PublicKey,
    since: Instant,
    logs: Logs,
}

/// Starts a server. It runs until [`Server::drain`] or [`Server::stop`]. Call it inside a tokio
/// runtime.
///
/// # Errors
/// [`NetError`] if it cannot listen, or the parameters cannot work.
pub async fn serve(config: ServeConfig) -> Result<Server, NetError> {
    serve_on(config, SessionThreads::here()).await
}

/// As [`serve`], with the sessions on other threads.
pub(crate) async fn serve_on(
    config: ServeConfig,
    threads: SessionThreads,
) -> Result<Server, NetError> {
    let tls = tls::ServerTls::new(&config.endpoint.secret, &config.endpoint.peers)?;
    let session = config.endpoint.session_config()?;
    let mut listeners = Vec::new();
    for bind in &config.listen {
        let failed = |source| NetError::Listen { bind: bind.to_string(), source };
        let listener = listen_lasting(bind).await.map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        // QUIC uses the same port number.
        let quic = match config.endpoint.transport {
            TransportKind::Tcp => None,
            TransportKind::Quic | TransportKind::Auto => {
                Some(quic::server(&tls, address, config.endpoint.dead_after)?)
            }
        };
        listeners.push((listener, address, quic));
    }
    let shared = Arc::new(Shared {
        egress: RwLock::new(Arc::new(config.endpoint.egress.clone())),
        max_sessions: config.max_sessions.max(1),
        config: session,
        bound: listeners.iter().map(|(_, address, _)| *address).collect(),
        sessions: Mutex::default(),
        kept: Mutex::default(),
        draining: watch::Sender::new(false),
        stopped: AtomicBool::new(false),
        refused_transports: AtomicU64::new(0),
        wire: Arc::default(),
        content: Arc::default(),
        shrunk: AtomicU64::new(0),
        grown: AtomicU64::new(0),
        memory_changed: Arc::default(),
        refusals: LogLimit::new(),
        overload: LogLimit::new(),
        incompatible: Mutex::default(),
        started: Instant::now(),
        endpoint: config.endpoint,
        threads,
        listening: Mutex::default(),
    });
    let pending = Arc::new(PendingConnections::new(MAX_UNAUTHENTICATED));
    for (listener, _, quic) in listeners {
        if shared.endpoint.transport != TransportKind::Quic {
            let accepting =
                Shared::accept_all(shared.clone(), listener, tls.clone(), pending.clone());
            lock(&shared.listening).tcp.spawn(accepting);
        }
        if let Some(quic) = quic {
            let accepting =
                Shared::accept_quic(shared.clone(), quic.endpoint.clone(), pending.clone());
            tokio::spawn(accepting);
            lock(&shared.listening).quic.push(quic);
        }
    }
    shared.endpoint.warn_if_no_peers();
    shared.endpoint.egress.warn_if_closed(&shared.endpoint.peers);
    tokio::spawn(Shared::rebalance(shared.clone()));
    tokio::spawn(Shared::watch_peers(shared.clone()));
    Ok(Server { shared })
}

impl Server {
    /// The addresses that it listens on.
    pub fn addresses(&self) -> &[SocketAddr] {
        &self.shared.bound
    }

    /// The threads of its sessions.
    pub(crate) fn threads(&self) -> Vec<Handle> {
        self.shared.threads.handles()
    }

    /// Replaces the rules for what peers may reach. Open flows stay.
    pub fn set_egress(&self, egress: Egress) {
        egress.warn_if_closed(&self.shared.endpoint.peers);
        *self.shared.egress.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(egress);
    }

    /// Accepts no more sessions and flows, and waits for at most `limit` until the open ones have
    /// ended. Returns whether all have.
    pub async fn drain(&self, limit: Duration) -> bool {
        let drivers = self.begin_drain();
        let all = drain_all(&drivers, limit).await;
        self.stop();
        for driver in &drivers {
            driver.closed_transports().await;
        }
        all
    }

    /// Accepts no more sessions and flows, and leaves its addresses and its caches on disk to a
    /// successor, which may start as soon as this returns. Flows continue until [`Server::drain`] ends
    /// them; those over QUIC end here, unless a service manager gives the successor the socket.
    pub async fn give_way(&self) {
        self.begin_drain();
        let Listening { mut tcp, quic } = std::mem::take(&mut *lock(&self.shared.listening));
        for port in quic {
            port.give_way().await;
        }
        while tcp.join_next().await.is_some() {}
        #[cfg(unix)]
        if let Some(store) = self.shared.endpoint.store.clone() {
            let _ = tokio::task::spawn_blocking(move || store.release()).await;
        }
    }

    fn begin_drain(&self) -> Vec<Arc<Driver>> {
        let shared = &self.shared;
        shared.draining.send_replace(true);
        let drivers: Vec<_> = shared.lock_sessions().values().cloned().collect();
        for driver in &drivers {
            // Clients then make their caches small.
            driver.leave_disk();
            driver.with(Session::go_away);
            // A successor may listen there at once.
            driver.close_listeners();
        }
        drivers
    }

    /// Closes all sessions at once.
    pub fn stop(&self) {
        let shared = &self.shared;
        shared.draining.send_replace(true);
        shared.stopped.store(true, Ordering::Relaxed);
        shared.memory_changed.notify_one();
        for driver in shared.lock_sessions().values() {
            driver.with(Session::close);
        }
    }

    /// The current state. It sends nothing: the peers' counters are those of their last reports.
    pub fn status(&self) -> Status {
        let shared = &self.shared;
        let sessions = shared.lock_sessions();
        let mut list: Vec<_> = sessions
            .iter()
            .filter_map(|((peer, _), driver)| session_status(driver, peer, &shared.endpoint.peers))
            .collect();
        list.sort_by(|a, b| (&a.peer, b.age).cmp(&(&b.peer, a.age)));
        let content = shared.content.total(list.iter().map(|session| &session.here));
        let kept = shared.lock_kept();
        let kept_memory: u64 = kept.iter().map(|kept| kept.logs.memory()).sum();
        Status {
            role: Role::Serve,
            version: env!("CARGO_PKG_VERSION").into(),
            key: shared.endpoint.secret.public().to_string(),
            uptime: shared.started.elapsed(),
            listening: shared.bound.iter().map(ToString::to_string).collect(),
            memory_limit: shared.endpoint.memory,
            memory: kept_memory + list.iter().map(|session| session.here.memory_bytes).sum::<u64>(),
            services: shared.content.services(),
            #[cfg(unix)]
            store: shared.endpoint.store.as_ref().map(ContentStore::status),
            application_sent: content.0,
            application_received: content.1,
            transport_sent: shared.wire.total().0,
            transport_received: shared.wire.total().1,
            kept_logs: kept.len(),
            shrunk: shared.shrunk.load(Ordering::Relaxed),
            grown: shared.grown.load(Ordering::Relaxed),
            refused_transports: shared.refused_transports.load(Ordering::Relaxed),
            draining: *shared.draining.borrow(),
            sessions: list,
            ..Status::default()
        }
    }
}

impl Shared {
    fn lock_sessions(&self) -> MutexGuard<'_, Sessions> {
        lock(&self.sessions)
    }

    fn lock_kept(&self) -> MutexGuard<'_, Vec<KeptLogs>> {
        lock(&self.kept)
    }
}
