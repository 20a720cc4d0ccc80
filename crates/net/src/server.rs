//! The answering end: peers connect to it, and their flows leave here.

use crate::counted::{Counted, WireBytes};
use crate::driver::{Driver, Notices, Phase};
use crate::endpoint::{Endpoint, GREETING_TIMEOUT, NetError, random, session_status};
use crate::keys::PublicKey;
use crate::listen::Bind;
use crate::newcomers::Newcomers;
use crate::quic;
use crate::seldom::Seldom;
use crate::status::Status;
use crate::tls;
use crate::transport::{Transport, TransportKind, tune_lane};
use crate::way_out::{WayOut, accept, fulfil, listen};
use oncewire_session::{Answer, Config, Hello, HelloError, Logs, MAX_LANES, Refused, SMALLEST_LOG, Session, SessionId};
use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Notify, watch};
use tokio_rustls::TlsAcceptor;
use tracing::{debug, info, warn};

/// Parameters of an answering end.
#[derive(Clone, Debug)]
pub struct ServeConfig {
    /// What both ends have.
    pub endpoint: Endpoint,
    /// Where peers connect.
    pub listen: Vec<Bind>,
    /// Most sessions at once; fewer if the memory is too small for so many to be at work.
    pub max_sessions: usize,
}

/// Transports that may be greeting at once. One more, and the oldest is given up: strangers who say nothing must not keep peers out.
const MAX_GREETING: usize = 256;
/// Sessions that one peer may have at once: one, and those it has not yet noticed to be lost.
const MAX_PER_PEER: usize = 4;
/// Longest first message, in bytes.
const MAX_HELLO: usize = 8 << 10;
/// How long a session may stay silent when its peer has come back with another one.
const PROBE: Duration = Duration::from_secs(5);
/// Peers for which memory is set apart.
const SHARES: usize = 16;
/// A session that nobody used for so long gives its logs up before others do.
const IDLE: Duration = Duration::from_secs(10);
/// Logs of a peer that is away for longer give way to sessions that have use for more.
const AWAY: Duration = Duration::from_secs(60);

/// An answering end at work.
#[derive(Clone)]
pub struct Server {
    shared: Arc<Shared>,
}

struct Shared {
    endpoint: Endpoint,
    way_out: RwLock<Arc<WayOut>>,
    config: Config,
    max_sessions: usize,
    bound: Vec<SocketAddr>,
    sessions: Mutex<HashMap<(PublicKey, SessionId), Arc<Driver>>>,
    kept: Mutex<Vec<Kept>>,
    draining: watch::Sender<bool>,
    stopped: AtomicBool,
    refused_transports: AtomicU64,
    wire: Arc<WireBytes>,
    shrunk: AtomicU64,
    grown: AtomicU64,
    /// Something happened that changes what sessions may come to take.
    memory_changed: Arc<Notify>,
    refusals: Seldom,
    started: Instant,
}

/// Logs of a session that ended, for its peer to come back to.
struct Kept {
    peer: PublicKey,
    since: Instant,
    logs: Logs,
}

/// Starts an answering end. It runs until [`Server::drain`] or [`Server::stop`].
///
/// # Errors
/// [`NetError`] if it cannot listen, or its parameters cannot work.
pub async fn serve(config: ServeConfig) -> Result<Server, NetError> {
    let tls = tls::Listening::new(&config.endpoint.secret, &config.endpoint.peers)?;
    let session = config.endpoint.session_config()?;
    let mut listeners = Vec::new();
    for bind in &config.listen {
        let failed = |source| NetError::Listen { bind: bind.to_string(), source };
        let listener = listen(bind).await.map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        // The same port number for QUIC.
        let quic = match config.endpoint.transport {
            TransportKind::Tcp => None,
            TransportKind::Quic | TransportKind::Auto => Some(quic::server(&tls, address, config.endpoint.dead_after)?),
        };
        listeners.push((listener, address, quic));
    }
    let shared = Arc::new(Shared {
        way_out: RwLock::new(Arc::new(config.endpoint.way_out.clone())),
        // However idle most are now, all may be at work at once.
        max_sessions: config
            .max_sessions
            .min(usize::try_from(log_memory(config.endpoint.memory) / session.least_memory()).unwrap_or(usize::MAX))
            .max(1),
        config: session,
        bound: listeners.iter().map(|(_, address, _)| *address).collect(),
        sessions: Mutex::default(),
        kept: Mutex::default(),
        draining: watch::Sender::new(false),
        stopped: AtomicBool::new(false),
        refused_transports: AtomicU64::new(0),
        wire: Arc::default(),
        shrunk: AtomicU64::new(0),
        grown: AtomicU64::new(0),
        memory_changed: Arc::default(),
        refusals: Seldom::new(),
        started: Instant::now(),
        endpoint: config.endpoint,
    });
    let greeting = Arc::new(Newcomers::new(MAX_GREETING));
    for (listener, _, quic) in listeners {
        if shared.endpoint.transport != TransportKind::Quic {
            tokio::spawn(Shared::accept_all(shared.clone(), listener, tls.clone(), greeting.clone()));
        }
        if let Some(endpoint) = quic {
            tokio::spawn(Shared::accept_quic(shared.clone(), endpoint, greeting.clone()));
        }
    }
    shared.endpoint.warn_if_nobody();
    shared.endpoint.way_out.warn_if_closed();
    tokio::spawn(Shared::rebalance(shared.clone()));
    tokio::spawn(Shared::watch_peers(shared.clone()));
    Ok(Server { shared })
}

impl Server {
    /// Where it listens.
    pub fn addresses(&self) -> &[SocketAddr] {
        &self.shared.bound
    }

    /// Exchanges the rules for where flows may go. Flows that are open go on.
    pub fn set_way_out(&self, way_out: WayOut) {
        way_out.warn_if_closed();
        *self.shared.way_out.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(way_out);
    }

    /// Takes no more sessions and flows, and waits until those open have ended, `limit` at most. Returns whether all have.
    pub async fn drain(&self, limit: Duration) -> bool {
        let shared = &self.shared;
        shared.draining.send_replace(true);
        let drivers: Vec<_> = shared.lock_sessions().values().cloned().collect();
        for driver in &drivers {
            driver.with(Session::go_away);
            // A process that takes over may listen there at once.
            driver.close_listeners();
        }
        let all = drain_all(&drivers, limit).await;
        self.stop();
        for driver in &drivers {
            driver.last_words().await;
        }
        all
    }

    /// Ends all sessions at once.
    pub fn stop(&self) {
        let shared = &self.shared;
        shared.draining.send_replace(true);
        shared.stopped.store(true, Ordering::Relaxed);
        shared.memory_changed.notify_one();
        for driver in shared.lock_sessions().values() {
            driver.with(Session::close);
        }
    }

    /// What it says of itself. Asks peers for their view, which the next call has.
    pub fn status(&self) -> Status {
        let shared = &self.shared;
        let sessions = shared.lock_sessions();
        for driver in sessions.values() {
            driver.with(Session::ask_report);
        }
        let mut list: Vec<_> =
            sessions.iter().filter_map(|((peer, _), driver)| session_status(driver, peer, &shared.endpoint.peers)).collect();
        list.sort_by(|a, b| (&a.peer, b.age).cmp(&(&b.peer, a.age)));
        let kept = shared.lock_kept();
        let kept_memory: u64 = kept.iter().map(|kept| kept.logs.memory()).sum();
        Status {
            role: "serve",
            version: env!("CARGO_PKG_VERSION").into(),
            key: shared.endpoint.secret.public().to_string(),
            uptime: shared.started.elapsed(),
            listening: shared.bound.iter().map(ToString::to_string).collect(),
            memory_limit: shared.endpoint.memory,
            memory: kept_memory + list.iter().map(|session| session.here.memory_bytes).sum::<u64>(),
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

/// Of so much memory, the part for logs, tables and entropy contexts: credit and queues have budgets of their own.
fn log_memory(memory: u64) -> u64 {
    memory / 16 * 13
}

/// Says why not, and closes.
async fn say(mut transport: Transport, answer: &Hello) {
    let mut out = Vec::new();
    answer.write(&mut out);
    // One that is gone need not hear it.
    let _ = transport.stream.write_all(&out).await;
    let _ = transport.stream.shutdown().await;
}

async fn stopped(draining: &mut watch::Receiver<bool>) {
    // If nobody can say so any more, it has stopped, too.
    let _ = draining.wait_for(|draining| *draining).await;
}

/// Waits until all sessions are over that were told that this end goes away, `limit` at most; returns whether they have no flows.
///
/// The peer closes them, once it has passed on all that it received: this end knows what arrived there, not what its applications have read. Where
/// there is no transport, nobody can.
pub(crate) async fn drain_all(drivers: &[Arc<Driver>], limit: Duration) -> bool {
    let until = Instant::now() + limit;
    loop {
        if drivers.iter().all(|driver| driver.is_over() || (driver.open_flows() == 0 && !driver.is_up())) {
            return true;
        }
        if Instant::now() >= until {
            return drivers.iter().all(|driver| driver.open_flows() == 0);
        }
        tokio::time::sleep(DRAIN_STEP).await;
    }
}

/// How often a session that ends is looked at.
const DRAIN_STEP: Duration = Duration::from_millis(20);

/// Closes a session whose peer goes away, once no flow is left that an application here still reads or writes.
pub(crate) async fn close_when_done(driver: Arc<Driver>) {
    while !driver.is_over() && driver.flow_count() > 0 {
        tokio::time::sleep(DRAIN_STEP).await;
    }
    driver.with(Session::close);
}

impl Shared {
    fn lock_sessions(&self) -> MutexGuard<'_, HashMap<(PublicKey, SessionId), Arc<Driver>>> {
        self.sessions.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn lock_kept(&self) -> MutexGuard<'_, Vec<Kept>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn accept_all(shared: Arc<Shared>, listener: TcpListener, tls: tls::Listening, greeting: Arc<Newcomers>) {
        let mut draining = shared.draining.subscribe();
        loop {
            let stream = tokio::select! {
                stream = accept(&listener) => stream,
                _ = draining.wait_for(|draining| *draining) => return,
            };
            if greeting.begin(Shared::receive(shared.clone(), tls.clone(), stream)) {
                shared.refused_transports.fetch_add(1, Ordering::Relaxed);
            }
        }
    }

    /// Finds out who a transport is from, and what for.
    async fn receive(shared: Arc<Shared>, tls: tls::Listening, stream: TcpStream) {
        // One that is gone already.
        let Ok(from) = stream.peer_addr() else { return };
        let _ = tune_lane(&stream);
        let greet = async {
            let acceptor = TlsAcceptor::from(tls.config().map_err(|error| error.to_string())?);
            let stream = acceptor.accept(Counted::new(stream, shared.wire.clone())).await.map_err(|error| tls::reason(&error))?;
            let peer = tls::peer_key(stream.get_ref().1).map_err(|error| error.to_string())?;
            shared.greet(peer, Transport::new(stream, "tcp", from)).await
        };
        shared.note_refusal(from, tokio::time::timeout(GREETING_TIMEOUT, greet).await);
    }

    fn note_refusal(&self, from: SocketAddr, greeted: Result<Result<(), String>, tokio::time::error::Elapsed>) {
        if let Err(why) = greeted.unwrap_or_else(|_| Err("no handshake in time".into())) {
            self.refused_transports.fetch_add(1, Ordering::Relaxed);
            match self.refusals.pass() {
                Some(left_out) => warn!(%from, %why, left_out, "client refused"),
                None => debug!(%from, %why, "client refused"),
            }
        }
    }

    async fn accept_quic(shared: Arc<Shared>, endpoint: quinn::Endpoint, greeting: Arc<Newcomers>) {
        let mut draining = shared.draining.subscribe();
        loop {
            let incoming = tokio::select! {
                incoming = endpoint.accept() => incoming,
                () = stopped(&mut draining) => None,
            };
            // Connections there are go on; no more come.
            let Some(incoming) = incoming else {
                endpoint.set_server_config(None);
                endpoint.wait_idle().await;
                return;
            };
            if greeting.begin(Shared::receive_quic(shared.clone(), incoming)) {
                shared.refused_transports.fetch_add(1, Ordering::Relaxed);
            }
        }
    }

    /// Finds out who a connection is from, and serves its streams.
    async fn receive_quic(shared: Arc<Shared>, incoming: quinn::Incoming) {
        let from = incoming.remote_address();
        let greet = async {
            let connection = incoming.await.map_err(|error| quic::reason(&error))?;
            let peer = quic::peer_key(&connection).map_err(|error| error.to_string())?;
            shared.wire.watch(connection.clone());
            // A task of its own: the greeting ends here.
            tokio::spawn(Shared::serve_quic(shared.clone(), connection, peer, from));
            Ok(())
        };
        shared.note_refusal(from, tokio::time::timeout(GREETING_TIMEOUT, greet).await);
    }

    /// Every stream is a lane's transport. There are never more at once than a session has lanes.
    async fn serve_quic(shared: Arc<Shared>, connection: quinn::Connection, peer: PublicKey, from: SocketAddr) {
        while let Ok((send, receive)) = connection.accept_bi().await {
            let shared = shared.clone();
            tokio::spawn(async move {
                let greet = shared.greet(peer, Transport::new(tokio::io::join(receive, send), "quic", from));
                shared.note_refusal(from, tokio::time::timeout(GREETING_TIMEOUT, greet).await);
            });
        }
    }

    /// Reads the hello on an authenticated transport and gives it to the session it names.
    pub(crate) async fn greet(self: &Arc<Shared>, peer: PublicKey, mut transport: Transport) -> Result<(), String> {
        let mut bytes = Vec::new();
        let (hello, len) = loop {
            match Hello::read(&bytes) {
                Ok(Some(found)) => break found,
                Ok(None) => {}
                Err(error) => {
                    if let HelloError::Version { .. } = error {
                        say(transport, &Hello::no_version(&self.config)).await;
                    }
                    return Err(error.to_string());
                }
            }
            if bytes.len() > MAX_HELLO {
                return Err("its first message is too long".into());
            }
            if transport.stream.read_buf(&mut bytes).await.map_err(|error| error.to_string())? == 0 {
                return Err("it closed before its hello".into());
            }
        };
        let rest = bytes.split_off(len);
        let known = self.lock_sessions().get(&(peer, hello.session)).cloned();
        let refused = match known {
            Some(driver) => driver.accept_lane(&hello, transport, rest).err(),
            None => self.begin(peer, &hello, transport, rest),
        };
        let Some((answer, transport)) = refused else { return Ok(()) };
        say(transport, &answer).await;
        // A client that comes back to a session that is gone begins another at once.
        if answer.answer == Answer::Unknown {
            debug!(peer = self.endpoint.peers.label(&peer), reason = answer.reason, "session is gone");
            return Ok(());
        }
        Err(format!("{}: {}", self.endpoint.peers.label(&peer), answer.reason))
    }

    /// Begins a session with a peer.
    fn begin(
        self: &Arc<Shared>,
        peer: PublicKey,
        hello: &Hello,
        transport: Transport,
        rest: Vec<u8>,
    ) -> Option<(Box<Hello>, Transport)> {
        if hello.answer != Answer::New {
            // It asks for a session that is over here. The logs stay where they are: the next hello is for them.
            return Some((hello.refuse(Answer::Unknown, "no such session", &self.config).into(), transport));
        }
        let refuse = |reason: &str| hello.refuse(Answer::Busy, reason, &self.config).into();
        // Before anything is replaced: sessions of a draining server go on to their end.
        if *self.draining.borrow() {
            return Some((refuse("the server is draining"), transport));
        }
        let mut sessions = self.lock_sessions();
        let logs = self.replace(&mut sessions, peer, hello);
        let of_peer = sessions.keys().filter(|(key, _)| *key == peer).count();
        let busy = if sessions.len() >= self.max_sessions {
            Some(format!("it has {} sessions, as many as --max-sessions and --memory allow", sessions.len()))
        } else if of_peer >= MAX_PER_PEER {
            Some(format!("{of_peer} clients with this key are connected; give each client a key of its own"))
        } else if !self.endpoint.peers.contains(&peer) {
            // Revoked since the handshake.
            Some("the key is not authorized any more".to_string())
        } else {
            None
        };
        if let Some(reason) = busy {
            return Some((refuse(&reason), transport));
        }
        let Ok(random) = random() else {
            return Some((refuse("the system gives no random numbers"), transport));
        };
        let logs = logs.or_else(|| {
            let mut kept = self.lock_kept();
            let of_peer = |kept: &Kept| kept.peer == peer;
            let fitting = kept.iter().position(|kept| of_peer(kept) && kept.logs.fit(hello));
            // Where nothing was sent from here, the peer has nothing to name, and may still send what this end holds.
            let at = fitting.or_else(|| kept.iter().rposition(of_peer))?;
            Some(kept.remove(at).logs)
        });
        let log = self.share(&sessions).max(logs.as_ref().map_or(0, Logs::capacity)).min(self.config.log);
        let config = Config { random, log, ..self.config.clone() };
        let session = match Session::accept_new(config, logs, hello, Instant::now()) {
            Ok(session) => session,
            Err(Refused(answer)) => return Some((answer, transport)),
        };
        let lane = usize::try_from(hello.lane).unwrap_or(0).min(MAX_LANES - 1);
        let (driver, notices) = Driver::start(session, Some(self.memory_changed.clone()));
        let label = self.endpoint.peers.label(&peer);
        let (address, over, agent) = (transport.path.address, transport.path.over, &hello.agent);
        info!(peer = label, key = %peer, %address, over, %agent, cache = log, "session begun");
        if log < self.config.log / 4 {
            warn!(
                peer = label,
                cache = log,
                largest = self.config.log,
                sessions = sessions.len() + 1,
                "small cache: other sessions hold the memory; it grows when memory is free, or with a larger --memory"
            );
        }
        if of_peer > 0 {
            warn!(peer = label, sessions = of_peer + 1, "several clients with one key: they share its memory, not their caches");
        }
        driver.set_peer(peer, label);
        sessions.insert((peer, hello.session), driver.clone());
        driver.adopt(lane, transport, rest);
        tokio::spawn(Shared::run(self.clone(), peer, hello.session, driver, notices));
        None
    }

    /// Size of the logs that one more session may have. Up to [`SHARES`] peers each have a share of the memory for themselves, whoever comes
    /// first. Where more are authorised, shares are no smaller, as most will be idle most of the time, until what sessions at work have taken
    /// leaves less; then `govern` has the idle ones give theirs back.
    fn share(&self, sessions: &HashMap<(PublicKey, SessionId), Arc<Driver>>) -> u64 {
        let peers = self.endpoint.peers.len().max(sessions.len() + 1).clamp(1, SHARES) as u64;
        let taken: u64 = sessions.values().filter_map(|driver| driver.with(|session| session.promised_memory())).sum();
        self.config.log_within((self.log_memory() / peers).min(self.log_memory().saturating_sub(taken)))
    }

    fn log_memory(&self) -> u64 {
        log_memory(self.endpoint.memory)
    }

    /// A peer has come with a new session: those of its sessions that are surely lost end at once, so that their memory and the places where they
    /// listen are free again. Surely lost is one that has no transport, and one whose logs the peer brings. Others are asked for a sign of life, and
    /// end if none comes. Returns the logs of the lost session that fits best, if there is one.
    fn replace(
        &self,
        sessions: &mut HashMap<(PublicKey, SessionId), Arc<Driver>>,
        peer: PublicKey,
        hello: &Hello,
    ) -> Option<Logs> {
        let of_peer: Vec<_> = sessions.keys().filter(|(key, _)| *key == peer).copied().collect();
        let mut logs: Option<(bool, Instant, Logs)> = None;
        for id in of_peer {
            let Some(driver) = sessions.get(&id).cloned() else { continue };
            let fits = driver.with(|session| session.fits(hello)).unwrap_or(false);
            if !fits && driver.with(|session| session.last_heard()).flatten().is_some() {
                tokio::spawn(Shared::end_if_silent(driver));
                continue;
            }
            sessions.remove(&id);
            driver.with(Session::close);
            info!(peer = driver.label(), "an earlier session of this peer is lost, and replaced");
            if let Some(found) = driver.take_logs()
                && logs.as_ref().is_none_or(|(best, born, _)| (fits, driver.born) > (*best, *born))
            {
                logs = Some((fits, driver.born, found));
            }
        }
        logs.map(|(.., logs)| logs)
    }

    /// Ends a session whose peer has come back with another one, unless it gives a sign of life.
    async fn end_if_silent(driver: Arc<Driver>) {
        let asked = Instant::now();
        driver.with(|session| session.probe(asked));
        tokio::time::sleep(PROBE).await;
        let silent = |session: &mut Session| session.last_heard().is_none_or(|heard| heard <= asked);
        if driver.with(silent).unwrap_or(false) {
            warn!(peer = driver.label(), "an earlier session of this peer gives no sign of life, and ends");
            driver.with(Session::close);
        }
    }

    /// Serves a session until it is over, and keeps its logs.
    async fn run(shared: Arc<Shared>, peer: PublicKey, id: SessionId, driver: Arc<Driver>, mut notices: Notices) {
        let mut phase = driver.phase();
        let (mut going_away, mut is_going) = (driver.phase(), false);
        loop {
            tokio::select! {
                Some((flow, target)) = notices.opened.recv() => {
                    let way_out = shared.way_out.read().unwrap_or_else(PoisonError::into_inner).clone();
                    tokio::spawn(fulfil(driver.clone(), flow, target, way_out));
                }
                // The peer sees to another.
                Some(_) = notices.lane_down.recv() => {}
                _ = going_away.wait_for(|phase| *phase == Phase::GoingAway), if !is_going => {
                    is_going = true;
                    tokio::spawn(close_when_done(driver.clone()));
                }
                _ = phase.wait_for(|phase| matches!(phase, Phase::Over(_))) => break,
            }
        }
        let over = driver.phase().borrow().clone();
        if let Phase::Over(why) = over {
            info!(peer = driver.label(), %why, "session over");
        }
        driver.last_words().await;
        {
            // The peer may have begun another of this name since `replace` took this one away.
            let mut sessions = shared.lock_sessions();
            if sessions.get(&(peer, id)).is_some_and(|found| Arc::ptr_eq(found, &driver)) {
                sessions.remove(&(peer, id));
            }
        }
        if let Some(logs) = driver.take_logs()
            && !shared.stopped.load(Ordering::Relaxed)
            && shared.endpoint.peers.contains(&peer)
            && logs.memory() > 0
        {
            let mut kept = shared.lock_kept();
            let of_peer = |kept: &Kept| kept.peer == peer;
            if kept.iter().filter(|kept| of_peer(kept)).count() >= MAX_PER_PEER
                && let Some(oldest) = kept.iter().position(of_peer)
            {
                kept.remove(oldest);
            }
            kept.push(Kept { peer, since: Instant::now(), logs });
        }
        shared.memory_changed.notify_one();
    }

    /// Ends sessions of peers whose key has been taken off the list.
    async fn watch_peers(shared: Arc<Shared>) {
        let mut changes = shared.endpoint.peers.subscribe();
        loop {
            for ((peer, _), driver) in shared.lock_sessions().iter() {
                if !shared.endpoint.peers.contains(peer) {
                    warn!(peer = driver.label(), "the key was revoked: session closed");
                    driver.with(Session::close);
                }
            }
            shared.lock_kept().retain(|kept| shared.endpoint.peers.contains(&kept.peer));
            shared.memory_changed.notify_one();
            if changes.changed().await.is_err() {
                return;
            }
        }
    }

    /// Keeps all sessions together within the memory, and lets small logs grow when there is room. It acts when something changes: an idle server
    /// does nothing.
    async fn rebalance(shared: Arc<Shared>) {
        while !shared.stopped.load(Ordering::Relaxed) {
            let again = async {
                match shared.rebalance_once() {
                    Some(wait) => tokio::time::sleep(wait).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                () = again => {}
                () = shared.memory_changed.notified() => {}
            }
        }
    }

    /// Returns how long to wait before it is called again though nothing changes: until logs of absent peers may give way to a session that has use
    /// for more.
    fn rebalance_once(&self) -> Option<Duration> {
        let sessions: Vec<_> = self.lock_sessions().values().cloned().collect();
        let limit = self.log_memory();
        let mut at_work: Vec<_> = sessions.iter().filter_map(Use::of).collect();
        let mut kept = self.lock_kept();
        if at_work.iter().any(Use::is_hungry) {
            kept.retain(|kept| kept.since.elapsed() < AWAY);
        }
        // Shares are halved as peers become more, so that not every one that comes costs all others their logs.
        let share = self.config.log_within(limit / (at_work.len() + kept.len()).max(1).next_power_of_two() as u64);
        let kept_sum = self.shrink(&mut at_work, &mut kept, limit, share);
        self.grow(&mut at_work, limit.saturating_sub(kept_sum));
        let next = kept.iter().map(|kept| AWAY.saturating_sub(kept.since.elapsed())).min();
        next.filter(|_| at_work.iter().any(Use::is_hungry))
    }

    /// Takes from logs of absent peers, then from sessions that are idle, then from the largest, until all fit; and until sessions whose full logs are
    /// at most half of a fair `share` can have it. Returns what is left of the logs of absent peers, in bytes.
    fn shrink(&self, at_work: &mut [Use], kept: &mut Vec<Kept>, limit: u64, share: u64) -> u64 {
        // What counts is not what logs hold but what they may come to hold: it is too late to act when they do.
        let mut sum: u64 = at_work.iter().map(Use::soon).sum();
        let starving = at_work.iter().filter(|one| one.is_hungry() && one.log <= share / 2);
        let claimed: u64 = starving.map(|one| one.at(share) - one.soon()).sum();
        let mut kept_sum: u64 = kept.iter().map(|kept| kept.logs.memory()).sum();
        while sum + kept_sum > limit && !kept.is_empty() {
            kept_sum -= kept.remove(0).logs.memory();
        }
        sum += kept_sum + claimed;
        at_work.sort_by_key(|one| std::cmp::Reverse((one.idle.as_secs().min(60) / 10, one.soon())));
        for one in at_work {
            let size = if one.idle > IDLE { SMALLEST_LOG } else { share };
            if sum <= limit {
                break;
            }
            if one.log.min(one.limit) > size {
                let before = one.soon();
                one.set_limit(size);
                sum = sum.saturating_sub(before - one.soon());
                self.shrunk.fetch_add(1, Ordering::Relaxed);
                info!(
                    peer = one.driver.label(),
                    cache = size,
                    was = one.log,
                    "cache begins again, smaller: other sessions need memory"
                );
            }
        }
        kept_sum
    }

    /// Gives what is free to sessions whose logs are full, the smallest first.
    fn grow(&self, at_work: &mut [Use], limit: u64) {
        let taken: u64 = at_work.iter().map(|one| one.memory).sum();
        let mut free = limit.saturating_sub(taken);
        let mut hungry: Vec<_> = at_work.iter_mut().filter(|one| one.is_hungry()).collect();
        hungry.sort_by_key(|one| one.log);
        let mut left = hungry.len() as u64;
        for one in hungry {
            let size = self.config.log_within(one.memory + free / left).min(one.wanted).min(self.config.log);
            left -= 1;
            if size / 2 < one.log || size <= one.limit {
                continue;
            }
            one.set_limit(size);
            free = free.saturating_sub(one.at(size).saturating_sub(one.memory));
            self.grown.fetch_add(1, Ordering::Relaxed);
            info!(
                peer = one.driver.label(),
                cache = size,
                was = one.log,
                "cache begins again, larger: it was full, and memory is free"
            );
        }
    }
}

/// What a session that is at work takes.
struct Use {
    driver: Arc<Driver>,
    /// How long nobody has used it.
    idle: Duration,
    /// What it may come to take as things are, in bytes.
    memory: u64,
    /// Its larger log, in bytes.
    log: u64,
    /// The limit of its logs, in bytes.
    limit: u64,
    /// Up to which size a larger log would be of use; 0 if it would not.
    wanted: u64,
}

impl Use {
    /// `None` for a session that holds nothing.
    fn of(driver: &Arc<Driver>) -> Option<Use> {
        driver.with(|session| {
            let (memory, log) = (session.promised_memory(), session.largest_log());
            let (limit, wanted) = (session.log_limit(), session.wanted_log());
            (memory > 0).then(|| Use { driver: driver.clone(), idle: driver.idle_for(), memory, log, limit, wanted })
        })?
    }

    /// What it would take with logs of `size` bytes.
    fn at(&self, size: u64) -> u64 {
        // In 128 bits: logs of several GiB are no rarity on a hub.
        let scaled = u128::from(self.memory) * u128::from(size) / u128::from(self.log.max(1));
        u64::try_from(scaled).unwrap_or(u64::MAX)
    }

    /// Whether it would make use of larger logs now.
    fn is_hungry(&self) -> bool {
        self.wanted > 0 && self.idle <= IDLE
    }

    /// What it takes once its logs keep to the limit.
    fn soon(&self) -> u64 {
        if self.limit < self.log { self.at(self.limit) } else { self.memory }
    }

    fn set_limit(&mut self, size: u64) {
        self.limit = size;
        self.driver.with(|session| session.set_log_limit(size, Instant::now()));
    }
}
