//! The answering end: peers connect to it, and their flows leave here.

use crate::counted::{Counted, WireBytes};
use crate::driver::{Driver, Notices, Phase};
use crate::endpoint::{Endpoint, GREETING_TIMEOUT, NetError, random, session_status};
use crate::keys::PublicKey;
use crate::listen::Bind;
use crate::newcomers::Newcomers;
use crate::quic;
use crate::status::Status;
use crate::tls;
use crate::transport::{Transport, TransportKind, tune_lane};
use crate::way_out::{WayOut, accept, fulfil, listen};
use oncewire_session::{
    Answer, Config, Hello, HelloError, LEAST_SESSION, Logs, MAX_LANES, Refused, SMALLEST_LOG, Session, SessionId,
};
use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
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
/// How often memory is looked at.
const GOVERN: Duration = Duration::from_millis(20);
/// Peers for which memory is set apart.
const SHARES: usize = 16;
/// A session that nobody used for so long gives its logs up before others do.
const IDLE: Duration = Duration::from_secs(10);

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
    started: Instant,
}

/// Logs of a session that ended, for its peer to come back to.
struct Kept {
    peer: PublicKey,
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
        config: session,
        // However idle most are now, all may be at work at once.
        max_sessions: config
            .max_sessions
            .min(usize::try_from(config.endpoint.memory * 13 / 16 / LEAST_SESSION).unwrap_or(usize::MAX))
            .max(1),
        bound: listeners.iter().map(|(_, address, _)| *address).collect(),
        sessions: Mutex::default(),
        kept: Mutex::default(),
        draining: watch::Sender::new(false),
        stopped: AtomicBool::new(false),
        refused_transports: AtomicU64::new(0),
        wire: Arc::default(),
        shrunk: AtomicU64::new(0),
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
    tokio::spawn(Shared::govern(shared.clone()));
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
            refused_transports: shared.refused_transports.load(Ordering::Relaxed),
            draining: *shared.draining.borrow(),
            sessions: list,
            ..Status::default()
        }
    }
}

/// Size of each direction's log in a session that may take so much memory: two logs, the table of one, and entropy contexts.
fn log_within(memory: u64) -> u64 {
    (memory.saturating_sub(LEAST_SESSION - 2 * SMALLEST_LOG) * 100 / 222).max(SMALLEST_LOG)
}

/// Says why not, and closes.
async fn say(mut transport: Transport, answer: &Hello) {
    let mut out = Vec::new();
    answer.write(&mut out);
    // One that is gone need not hear it.
    let _ = transport.write_all(&out).await;
    let _ = transport.shutdown().await;
}

async fn stopped(draining: &mut watch::Receiver<bool>) {
    // If nobody can say so any more, it has stopped, too.
    let _ = draining.wait_for(|draining| *draining).await;
}

/// Waits until no session has a flow.
pub(crate) async fn drain_all(drivers: &[Arc<Driver>], limit: Duration) -> bool {
    let until = Instant::now() + limit;
    loop {
        let open: usize = drivers.iter().map(|driver| driver.open_flows()).sum();
        if open == 0 {
            return true;
        }
        if Instant::now() >= until {
            return false;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
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
        let from = stream.peer_addr().map(|address| address.to_string()).unwrap_or_default();
        let _ = tune_lane(&stream);
        let greet = async {
            let acceptor = TlsAcceptor::from(tls.config().map_err(|error| error.to_string())?);
            let stream = acceptor.accept(Counted::new(stream, shared.wire.clone())).await.map_err(|error| tls::reason(&error))?;
            let peer = tls::peer_key(stream.get_ref().1).map_err(|error| error.to_string())?;
            shared.greet(peer, Box::new(stream)).await
        };
        shared.note_refusal(&from, tokio::time::timeout(GREETING_TIMEOUT, greet).await);
    }

    fn note_refusal(&self, from: &str, greeted: Result<Result<(), String>, tokio::time::error::Elapsed>) {
        if let Err(why) = greeted.unwrap_or_else(|_| Err("no hello in time".into())) {
            self.refused_transports.fetch_add(1, Ordering::Relaxed);
            info!(%from, %why, "transport refused");
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
        let from = incoming.remote_address().to_string();
        let greet = async {
            let connection = incoming.await.map_err(|error| error.to_string())?;
            let peer = quic::peer_key(&connection).map_err(|error| error.to_string())?;
            shared.wire.watch(connection.clone());
            // A task of its own: the greeting ends here.
            tokio::spawn(Shared::serve_quic(shared.clone(), connection, peer, from.clone()));
            Ok(())
        };
        shared.note_refusal(&from, tokio::time::timeout(GREETING_TIMEOUT, greet).await);
    }

    /// Every stream is a lane's transport. There are never more at once than a session has lanes.
    async fn serve_quic(shared: Arc<Shared>, connection: quinn::Connection, peer: PublicKey, from: String) {
        while let Ok((send, receive)) = connection.accept_bi().await {
            let (shared, from) = (shared.clone(), from.clone());
            tokio::spawn(async move {
                let greet = shared.greet(peer, Box::new(tokio::io::join(receive, send)));
                shared.note_refusal(&from, tokio::time::timeout(GREETING_TIMEOUT, greet).await);
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
            if transport.read_buf(&mut bytes).await.map_err(|error| error.to_string())? == 0 {
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
        Err(format!("answered {:?}", answer.answer))
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
            return Some((hello.refuse(Answer::Unknown, &self.config).into(), transport));
        }
        let mut sessions = self.lock_sessions();
        let logs = self.replace(&mut sessions, peer, hello);
        let of_peer = sessions.keys().filter(|(key, _)| *key == peer).count();
        let busy = *self.draining.borrow() || sessions.len() >= self.max_sessions || of_peer >= MAX_PER_PEER;
        // The key may have been revoked since the handshake.
        let refused = busy || !self.endpoint.peers.contains(&peer);
        let (Ok(random), false) = (random(), refused) else {
            warn!(%peer, sessions = sessions.len(), most = self.max_sessions, "session refused");
            return Some((hello.refuse(Answer::Busy, &self.config).into(), transport));
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
        let (driver, notices) = Driver::start(session);
        driver.peer.get_or_init(|| peer);
        sessions.insert((peer, hello.session), driver.clone());
        info!(%peer, agent = %hello.agent, "session begun");
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
        log_within((self.log_memory() / peers).min(self.log_memory().saturating_sub(taken)))
    }

    /// Memory for logs, tables and entropy contexts: credit and queues have budgets of their own.
    fn log_memory(&self) -> u64 {
        self.endpoint.memory / 16 * 13
    }

    /// Ends sessions of a peer that a new one shows to be lost, though this end has not noticed: the one whose logs the peer brings, and where there
    /// are too many, the oldest without a transport. Returns the logs, if they are wanted.
    fn replace(
        &self,
        sessions: &mut HashMap<(PublicKey, SessionId), Arc<Driver>>,
        peer: PublicKey,
        hello: &Hello,
    ) -> Option<Logs> {
        let of_peer = || sessions.iter().filter(|((key, _), _)| *key == peer);
        let fits = |driver: &Arc<Driver>| driver.with(|session| session.fits(hello)).unwrap_or(false);
        let is_lost =
            |driver: &Arc<Driver>| driver.with(|session| !(0..session.lanes()).any(|lane| session.is_up(lane))).unwrap_or(true);
        let fitting = of_peer().find(|(_, driver)| fits(driver)).map(|(&id, _)| id);
        let too_many = of_peer().count() >= MAX_PER_PEER;
        let oldest = || of_peer().filter(|(_, driver)| is_lost(driver)).min_by_key(|(_, driver)| driver.born).map(|(&id, _)| id);
        let lost = fitting.or_else(|| too_many.then(oldest).flatten())?;
        let driver = sessions.remove(&lost)?;
        driver.with(Session::close);
        fitting.and_then(|_| driver.take_logs())
    }

    /// Serves a session until it is over, and keeps its logs.
    async fn run(shared: Arc<Shared>, peer: PublicKey, id: SessionId, driver: Arc<Driver>, mut notices: Notices) {
        let mut phase = driver.phase();
        loop {
            tokio::select! {
                Some((flow, target)) = notices.opened.recv() => {
                    let way_out = shared.way_out.read().unwrap_or_else(PoisonError::into_inner).clone();
                    tokio::spawn(fulfil(driver.clone(), flow, target, way_out));
                }
                // The peer sees to another.
                Some(_) = notices.lane_down.recv() => {}
                _ = phase.wait_for(|phase| matches!(phase, Phase::Over(_))) => break,
            }
        }
        let over = driver.phase().borrow().clone();
        if let Phase::Over(why) = over {
            info!(%peer, %why, "session over");
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
            kept.push(Kept { peer, logs });
        }
    }

    /// Ends sessions of peers whose key has been taken off the list.
    async fn watch_peers(shared: Arc<Shared>) {
        let mut changes = shared.endpoint.peers.subscribe();
        loop {
            for ((peer, _), driver) in shared.lock_sessions().iter() {
                if !shared.endpoint.peers.contains(peer) {
                    warn!(%peer, "key revoked, session closed");
                    driver.with(Session::close);
                }
            }
            shared.lock_kept().retain(|kept| shared.endpoint.peers.contains(&kept.peer));
            if changes.changed().await.is_err() {
                return;
            }
        }
    }

    /// Keeps all sessions together within the memory. What counts is not what logs hold but what they may come to hold: it is too late to
    /// act when they do.
    async fn govern(shared: Arc<Shared>) {
        while !shared.stopped.load(Ordering::Relaxed) {
            // One session alone keeps to what it was given.
            let alone = shared.lock_sessions().len() < 2;
            tokio::time::sleep(if alone { GOVERN * 10 } else { GOVERN }).await;
            shared.govern_once();
        }
    }

    fn govern_once(&self) {
        let sessions: Vec<_> = self.lock_sessions().values().cloned().collect();
        let limit = self.log_memory();
        // (how long nobody used it, what it may come to take, its larger log), of those that hold anything.
        let promised = |driver: &Arc<Driver>| driver.with(|session| (session.promised_memory(), session.largest_log()));
        let mut at_work: Vec<_> = sessions
            .iter()
            .filter_map(|driver| promised(driver).map(|(memory, log)| (driver.idle_for(), memory, log, driver)))
            .filter(|&(_, memory, ..)| memory > 0)
            .collect();
        let mut sum: u64 = at_work.iter().map(|&(_, memory, ..)| memory).sum();
        {
            // Logs of peers that are away go first, the oldest before the others.
            let mut kept = self.lock_kept();
            let mut kept_sum: u64 = kept.iter().map(|kept| kept.logs.memory()).sum();
            while sum + kept_sum > limit && !kept.is_empty() {
                kept_sum -= kept.remove(0).logs.memory();
            }
            sum += kept_sum;
        }
        if sum <= limit {
            return;
        }
        // Shares are halved as peers become more, so that not every one that comes costs all others their logs.
        let share = log_within(limit / at_work.len().next_power_of_two() as u64);
        at_work.sort_by_key(|&(idle, memory, ..)| std::cmp::Reverse((idle.as_secs().min(60) / 10, memory)));
        for (idle, memory, log, driver) in at_work {
            let size = if idle > IDLE { SMALLEST_LOG } else { share };
            if sum <= limit {
                break;
            }
            if log > size {
                debug!(?idle, memory, size, "logs begin anew, smaller, for want of memory");
                self.shrunk.fetch_add(1, Ordering::Relaxed);
                driver.with(|session| session.shrink(size));
                // In 128 bits: logs of several GiB are no rarity on a hub.
                let left = u128::from(memory) * u128::from(size) / u128::from(log);
                sum = sum.saturating_sub(memory.saturating_sub(u64::try_from(left).unwrap_or(memory)));
            }
        }
    }
}
