//! The client end of a tunnel: applications connect to it, and their flows go to the server.

mod applications;
mod dial;
mod hubs;
mod reverse;
mod session;

use crate::counted::{ContentBytes, WireBytes};
use crate::drain::{drain_all, gone_away};
use crate::driver::Driver;
use crate::endpoint::{Endpoint, NetError, session_status};
use crate::handshake::HandshakeError;
use crate::https::Https;
use crate::keys::PublicKey;
use crate::listener::{Forward, ProxyListener};
use crate::log_limit::LogLimit;
use crate::proxy::ProxyAccess;
use crate::quic;
use crate::sockets::listen_lasting;
use crate::status::{Role, Status};
#[cfg(unix)]
use crate::store::ContentStore;
use crate::sync::lock;
use crate::target::Target;
use crate::tls::{self, Credential};
use crate::transport::TransportKind;
use oncewire_session::{Ended, Session, Settings};
use std::mem::discriminant;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio_rustls::TlsConnector;
use tracing::{debug, warn};

/// Parameters of a client.
#[derive(Clone, Debug)]
pub struct ConnectConfig {
    /// Parameters that servers have, too.
    pub endpoint: Endpoint,
    /// Where the server listens.
    pub server: Target,
    /// Forwards: applications connect here and reach a target at the server's side (`-L`).
    pub forwards: Vec<Forward>,
    /// Reverse forwards: applications connect at the server's side and reach a target here (`-R`).
    pub reverse: Vec<Forward>,
    /// Listeners of the SOCKS5 and HTTP proxy.
    pub proxies: Vec<ProxyListener>,
    /// Who may use the proxies.
    pub proxy_access: ProxyAccess,
    /// HTTPS services that are opened.
    pub https: Option<Https>,
}

impl ConnectConfig {
    /// A client of `server` without listeners: name what is to be carried in the other fields.
    pub fn new(endpoint: Endpoint, server: Target) -> ConnectConfig {
        ConnectConfig {
            endpoint,
            server,
            forwards: Vec::new(),
            reverse: Vec::new(),
            proxies: Vec::new(),
            proxy_access: ProxyAccess::default(),
            https: None,
        }
    }
}

/// Pauses between attempts to reach the server double from the first to the second.
const RETRY: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(10));

/// How long a successor of a server that drains is expected at any moment.
const SUCCESSOR: Duration = Duration::from_secs(10);

/// How long a client that drains waits until its servers know: they then give its successor the caches
/// that it shared with them, and leave its open connections alone.
const KNOWN: Duration = Duration::from_secs(1);

/// How long a client that drains waits for connections that it accepted to get their flows.
const ACCEPTED: Duration = Duration::from_secs(1);

/// The longest pause between two attempts, `since_draining` after a server began to drain.
fn longest_pause(since_draining: Option<Duration>) -> Duration {
    match since_draining {
        // Whoever restarts a server wants clients back as soon as it listens.
        Some(since) if since < SUCCESSOR => 2 * RETRY.0,
        _ => RETRY.1,
    }
}

/// A running client.
#[derive(Clone)]
pub struct Connection {
    shared: Arc<Shared>,
}

struct Shared {
    endpoint: Endpoint,
    server: Target,
    reverse: Vec<Forward>,
    proxy_access: ProxyAccess,
    https: Option<Https>,
    config: Settings,
    raw_key: TlsConnector,
    certificate: TlsConnector,
    /// The server's TLS did not support raw public keys the last time.
    shows_certificate: AtomicBool,
    quic: Option<quic::Client>,
    /// With [`TransportKind::Auto`]: until when TCP is used because QUIC did not get through.
    tcp_until: Mutex<Option<Instant>>,
    bound: Vec<SocketAddr>,
    /// The session in which flows are opened, if there is one.
    current: watch::Sender<Option<Arc<Driver>>>,
    /// The current session, whatever its phase.
    latest: Mutex<Option<Arc<Driver>>>,
    /// Sessions whose server drains: open flows stay there, new ones go elsewhere.
    retiring: Mutex<Vec<Arc<Driver>>>,
    /// Which of its addresses comes first.
    hubs: hubs::Hubs,
    /// When the server last said that it drains.
    draining_since: Mutex<Option<Instant>>,
    peer: Mutex<Option<PublicKey>>,
    last_failure: Mutex<Option<Arc<HandshakeError>>>,
    failures: LogLimit,
    /// The server has refused this client for good: there are no further attempts.
    refused: watch::Sender<bool>,
    stop: watch::Sender<bool>,
    /// It listens no more.
    closed: watch::Sender<bool>,
    /// Connections that were accepted and have no flow yet.
    accepted: watch::Sender<usize>,
    refused_connections: AtomicU64,
    displaced_proxy_clients: AtomicU64,
    displaced: LogLimit,
    socks4_clients: AtomicU64,
    socks4: LogLimit,
    unauthorized_proxy_clients: AtomicU64,
    unauthorized: LogLimit,
    wire: Arc<WireBytes>,
    content: Arc<ContentBytes>,
    started: Instant,
    /// The tasks that listen.
    listening: Mutex<JoinSet<()>>,
}

/// Starts a client. It keeps trying to reach its server until [`Connection::drain`],
/// [`Connection::stop`] or [`Connection::refused`]. Call it inside a tokio runtime.
///
/// # Errors
/// [`NetError`] if it cannot listen, or the parameters cannot work. An unreachable server is not an
/// error here: see [`Connection::established`].
pub async fn connect(mut config: ConnectConfig) -> Result<Connection, NetError> {
    config.endpoint.egress.reverse.clone_from(&config.reverse);
    let tls = |credential| {
        tls::client_config(&config.endpoint.secret, &config.endpoint.peers, credential)
    };
    let tls = [tls(Credential::RawKey)?, tls(Credential::Certificate)?];
    let wire = Arc::<WireBytes>::default();
    let quic = match config.endpoint.transport {
        TransportKind::Tcp => None,
        TransportKind::Quic | TransportKind::Auto => {
            Some(quic::Client::new(&tls, config.endpoint.dead_after, wire.clone())?)
        }
    };
    let [raw_key, certificate] = tls.map(TlsConnector::from);
    let session = config.endpoint.session_config()?;
    let mut listeners = Vec::new();
    let forwards = config
        .forwards
        .iter()
        .map(|forward| (&forward.bind, Some(&forward.target), &forward.domain));
    let proxies = config.proxies.iter().map(|proxy| (&proxy.bind, None, &proxy.domain));
    for (bind, target, domain) in forwards.chain(proxies) {
        let failed = |source| NetError::Listen { bind: bind.to_string(), source };
        let listener = listen_lasting(bind).await.map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        listeners.push((listener, address, target.cloned(), domain.clone()));
    }
    let shared = Arc::new(Shared {
        server: config.server,
        reverse: config.reverse,
        proxy_access: config.proxy_access,
        https: config.https,
        config: session,
        raw_key,
        certificate,
        shows_certificate: AtomicBool::new(false),
        quic,
        tcp_until: Mutex::default(),
        bound: listeners.iter().map(|(_, address, ..)| *address).collect(),
        current: watch::Sender::new(None),
        latest: Mutex::default(),
        retiring: Mutex::default(),
        hubs: hubs::Hubs::default(),
        draining_since: Mutex::default(),
        peer: Mutex::default(),
        last_failure: Mutex::default(),
        failures: LogLimit::new(),
        refused: watch::Sender::new(false),
        stop: watch::Sender::new(false),
        closed: watch::Sender::new(false),
        accepted: watch::Sender::new(0),
        refused_connections: AtomicU64::new(0),
        displaced_proxy_clients: AtomicU64::new(0),
        displaced: LogLimit::new(),
        socks4_clients: AtomicU64::new(0),
        socks4: LogLimit::new(),
        unauthorized_proxy_clients: AtomicU64::new(0),
        unauthorized: LogLimit::new(),
        wire,
        content: Arc::default(),
        started: Instant::now(),
        listening: Mutex::default(),
        endpoint: config.endpoint,
    });
    shared.endpoint.warn_if_no_peers();
    for (listener, address, target, domain) in listeners {
        let is_open = target.is_none() && shared.proxy_access.is_open();
        if is_open && !address.ip().is_loopback() {
            warn!(%address, "the proxy has no password, and anyone who can reach this address can use the tunnel: bind it to 127.0.0.1, or say who may use it (--proxy-users, --proxy-clients)");
        }
        let accepting = Shared::accept_all(shared.clone(), listener, target, domain);
        lock(&shared.listening).spawn(accepting);
    }
    tokio::spawn(Shared::keep_session(shared.clone()));
    Ok(Connection { shared })
}

impl Connection {
    /// The addresses that it listens on: the forwards, then the proxies.
    pub fn addresses(&self) -> &[SocketAddr] {
        &self.shared.bound
    }

    /// Waits for at most `limit` until there is a session.
    ///
    /// # Errors
    /// Why the last attempt failed; at once if that is [lasting](HandshakeError::is_lasting).
    pub async fn established(&self, limit: Duration) -> Result<(), Arc<HandshakeError>> {
        match self.shared.session(limit).await {
            Some(_) => Ok(()),
            None => Err(self
                .shared
                .last_failure()
                .unwrap_or_else(|| HandshakeError::NoAnswer { waited: limit }.into())),
        }
    }

    /// Waits until the server refuses this client [for good](HandshakeError::is_lasting), and
    /// returns why. No attempt to reach the server follows.
    pub async fn refused(&self) -> Arc<HandshakeError> {
        // Cannot fail: `shared` has the sender.
        let _ = self.shared.refused.subscribe().wait_for(|refused| *refused).await;
        self.shared.last_failure().unwrap_or_else(|| Arc::new(Ended::Closed.into()))
    }

    /// Accepts no more connections, and waits for at most `limit` until the open ones have ended.
    /// Returns whether all have.
    pub async fn drain(&self, limit: Duration) -> bool {
        let drivers = self.begin_drain().await;
        let all = drain_all(&drivers, limit).await;
        for driver in &drivers {
            driver.with(Session::close);
        }
        for driver in &drivers {
            driver.closed_transports().await;
        }
        all
    }

    /// Accepts no more connections, and leaves its addresses and its caches on disk to a successor,
    /// which may start as soon as this returns. Open connections continue until
    /// [`Connection::drain`] ends them.
    pub async fn give_way(&self) {
        for driver in self.begin_drain().await {
            driver.leave_disk();
        }
        #[cfg(unix)]
        if let Some(store) = self.shared.endpoint.store.clone() {
            let _ = tokio::task::spawn_blocking(move || store.release()).await;
        }
    }

    async fn begin_drain(&self) -> Vec<Arc<Driver>> {
        self.shared.closed.send_replace(true);
        let mut listening = std::mem::take(&mut *lock(&self.shared.listening));
        while listening.join_next().await.is_some() {}
        // What was accepted is opened: a proxy's client may have sent no request yet.
        let mut accepted = self.shared.accepted.subscribe();
        let _ = tokio::time::timeout(ACCEPTED, accepted.wait_for(|accepted| *accepted == 0)).await;
        self.shared.stop.send_replace(true);
        let drivers = self.shared.drivers();
        for driver in &drivers {
            driver.with(Session::go_away);
            driver.close_listeners();
        }
        // A server that does not answer would know its successor no sooner.
        let _ = tokio::time::timeout(KNOWN, gone_away(&drivers)).await;
        drivers
    }

    /// Closes the session at once.
    pub fn stop(&self) {
        self.shared.closed.send_replace(true);
        self.shared.stop.send_replace(true);
        for driver in self.shared.drivers() {
            driver.with(Session::close);
        }
    }

    /// Bytes that the transports have sent and received so far.
    pub(crate) fn wire_bytes(&self) -> (u64, u64) {
        self.shared.wire.total()
    }

    /// The current state. It sends nothing: the server's counters are those of its last report.
    pub fn status(&self) -> Status {
        let shared = &self.shared;
        // The server of the last session, until another one answers.
        let latest = *lock(&shared.peer);
        let sessions: Vec<_> = shared
            .drivers()
            .iter()
            .filter_map(|driver| {
                session_status(
                    driver,
                    driver.peer.get().or(latest.as_ref())?,
                    &shared.endpoint.peers,
                )
            })
            .collect();
        let content = shared.content.total(sessions.iter().map(|session| &session.here));
        Status {
            role: Role::Connect,
            version: env!("CARGO_PKG_VERSION").into(),
            key: shared.endpoint.secret.public().to_string(),
            uptime: shared.started.elapsed(),
            listening: shared.bound.iter().map(ToString::to_string).collect(),
            memory_limit: shared.endpoint.memory,
            memory: sessions.iter().map(|session| session.here.memory_bytes).sum(),
            services: shared.content.services(),
            #[cfg(unix)]
            store: shared.endpoint.store.as_ref().map(ContentStore::status),
            application_sent: content.0,
            application_received: content.1,
            transport_sent: shared.wire.total().0,
            transport_received: shared.wire.total().1,
            refused_connections: shared.refused_connections.load(Ordering::Relaxed),
            displaced_proxy_clients: shared.displaced_proxy_clients.load(Ordering::Relaxed),
            socks4_clients: shared.socks4_clients.load(Ordering::Relaxed),
            unauthorized_proxy_clients: shared.unauthorized_proxy_clients.load(Ordering::Relaxed),
            draining: *shared.closed.borrow() || *shared.stop.borrow(),
            last_failure: shared.last_failure().map(|error| error.to_string()),
            https: shared.https.as_ref().map(Https::status).unwrap_or_default(),
            sessions,
            ..Status::default()
        }
    }
}

impl Shared {
    /// The pause between attempts to reach the server that follows `pause`.
    fn next_pause(&self, pause: Duration) -> Duration {
        let since = lock(&self.draining_since).map(|since| since.elapsed());
        (pause * 2).min(longest_pause(since))
    }

    fn latest(&self) -> Option<Arc<Driver>> {
        lock(&self.latest).clone()
    }

    /// The current session, and those whose server drains.
    fn drivers(&self) -> Vec<Arc<Driver>> {
        let retiring = lock(&self.retiring).clone();
        self.latest().into_iter().chain(retiring).collect()
    }

    fn set_latest(&self, driver: Option<Arc<Driver>>) {
        *lock(&self.latest) = driver;
    }

    /// Waits for a session in which flows can be opened.
    async fn session(&self, limit: Duration) -> Option<Arc<Driver>> {
        let (mut current, mut refused) = (self.current.subscribe(), self.refused.subscribe());
        tokio::select! {
            found = tokio::time::timeout(limit, current.wait_for(Option::is_some)) => {
                found.ok()?.ok()?.clone()
            }
            _ = refused.wait_for(|refused| *refused) => None,
        }
    }

    /// Records why there is no session, and logs it at a limited rate. Another kind of failure than
    /// the last is logged at once: a server that is up at last may not know this client's key.
    fn log_failure(&self, error: HandshakeError) {
        let (server, error) = (&self.server, Arc::new(error));
        let last = self.last_failure();
        let is_new = last.is_none_or(|last| discriminant(&*last) != discriminant(&*error));
        self.set_failure(Some(error.clone()));
        let passed = self.failures.pass();
        if *self.stop.borrow() || (passed.is_none() && !is_new) {
            debug!(%server, why = %error, "{}", error.headline());
        } else {
            let suppressed = passed.flatten();
            warn!(%server, why = %error, suppressed, "{}", error.headline());
        }
    }

    fn last_failure(&self) -> Option<Arc<HandshakeError>> {
        lock(&self.last_failure).clone()
    }

    fn set_failure(&self, error: Option<Arc<HandshakeError>>) {
        *lock(&self.last_failure) = error;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_successor_of_a_server_that_drains_is_dialed_often_for_a_while() {
        let pauses = |since: Option<Duration>| {
            let next = |pause: &Duration| Some((*pause * 2).min(longest_pause(since)));
            std::iter::successors(Some(RETRY.0), next).take(12).max().unwrap_or_default()
        };
        assert_eq!(pauses(None), RETRY.1);
        assert_eq!(pauses(Some(Duration::from_secs(1))), Duration::from_millis(200));
        assert_eq!(pauses(Some(SUCCESSOR)), RETRY.1);
    }
}
