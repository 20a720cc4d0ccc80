//! The connecting end: applications connect to it, and their flows go to the peer.

use crate::counted::{Counted, WireBytes};
use crate::driver::{Driver, FlowSignals, LaneDown, Notices, Phase};
use crate::endpoint::{Endpoint, GREETING_TIMEOUT, NetError, random, session_status};
use crate::keys::PublicKey;
use crate::listen::{Bind, Forward};
use crate::newcomers::Newcomers;
use crate::pump::{pump, write_all};
use crate::quic;
use crate::seldom::Seldom;
use crate::server::{close_when_done, drain_all};
use crate::status::Status;
use crate::target::Target;
use crate::tls::{self, Credential};
use crate::transport::{DialError, Transport, TransportKind, dial, reset_on_drop, tune_lane};
use crate::way_out::{Wish, accept, fulfil, listen, lookup, refusal, tell_of_no_flow};
use crate::ways_in::{self, Refusal, Wanted, WayInError};
use oncewire_session::{Config, Ended, FlowId, Logs, MAX_LANES, OpenError, Read, SMALLEST_LOG, Session};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio_rustls::TlsConnector;
use tracing::{debug, info, warn};

/// Parameters of a connecting end.
#[derive(Clone, Debug)]
pub struct ConnectConfig {
    /// What both ends have.
    pub endpoint: Endpoint,
    /// Where the peer listens.
    pub server: Target,
    /// Fixed forwards: applications connect here and reach a target over there.
    pub forwards: Vec<Forward>,
    /// Reverse forwards: applications connect over there and reach a target here.
    pub reverse: Vec<Forward>,
    /// Where SOCKS5 and HTTP proxies are.
    pub proxies: Vec<Bind>,
}

/// Time that an application's connection waits for a session before it is turned away.
const WAIT_FOR_SESSION: Duration = Duration::from_secs(10);
/// Pauses between attempts to reach the peer grow from the first to the second.
const RETRY: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(10));
/// Clients of a proxy that may be saying what they want at once. One more, and the oldest is turned away.
const MAX_NEGOTIATING: usize = 1024;
/// How long TCP is used after QUIC did not get through, before QUIC is tried again.
const TCP_FOR: Duration = Duration::from_secs(600);
/// Pauses before a reverse forward that was refused is asked for again grow from the first to the second.
const ASK_AGAIN: (Duration, Duration) = (Duration::from_millis(200), Duration::from_secs(10));

/// A connecting end at work.
#[derive(Clone)]
pub struct Connection {
    shared: Arc<Shared>,
}

struct Shared {
    endpoint: Endpoint,
    server: Target,
    reverse: Vec<Forward>,
    config: Config,
    raw_key: TlsConnector,
    certificate: TlsConnector,
    /// The peer knew no raw public keys the last time.
    shows_certificate: AtomicBool,
    quic: Option<quic::Client>,
    /// With [`TransportKind::Auto`]: QUIC did not get through, so TCP is used until then.
    tcp_until: Mutex<Option<Instant>>,
    bound: Vec<SocketAddr>,
    /// The session that flows are opened in, while there is one.
    current: watch::Sender<Option<Arc<Driver>>>,
    /// The session there is, whatever its phase.
    latest: Mutex<Option<Arc<Driver>>>,
    /// Sessions whose server is draining: their open flows go on, new ones go elsewhere.
    retiring: Mutex<Vec<Arc<Driver>>>,
    peer: Mutex<Option<PublicKey>>,
    last_failure: Mutex<Option<String>>,
    failures: Seldom,
    stop: watch::Sender<bool>,
    refused_connections: AtomicU64,
    displaced_proxy_clients: AtomicU64,
    displaced: Seldom,
    socks4_clients: AtomicU64,
    socks4: Seldom,
    wire: Arc<WireBytes>,
    started: Instant,
}

/// Starts a connecting end. It looks for its peer until it is told to stop.
///
/// # Errors
/// [`NetError`] if it cannot listen, or its parameters cannot work.
pub async fn connect(mut config: ConnectConfig) -> Result<Connection, NetError> {
    config.endpoint.way_out.reverse.clone_from(&config.reverse);
    let tls = |credential| tls::client_config(&config.endpoint.secret, &config.endpoint.peers, credential);
    let tls = [tls(Credential::RawKey)?, tls(Credential::Certificate)?];
    let wire = Arc::<WireBytes>::default();
    let quic = match config.endpoint.transport {
        TransportKind::Tcp => None,
        TransportKind::Quic | TransportKind::Auto => Some(quic::Client::new(&tls, config.endpoint.dead_after, wire.clone())?),
    };
    let [raw_key, certificate] = tls.map(TlsConnector::from);
    let session = config.endpoint.session_config()?;
    let mut listeners = Vec::new();
    let forwards = config.forwards.iter().map(|forward| (&forward.bind, Some(&forward.target)));
    for (bind, target) in forwards.chain(config.proxies.iter().map(|bind| (bind, None))) {
        let failed = |source| NetError::Listen { bind: bind.to_string(), source };
        let listener = listen(bind).await.map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        listeners.push((listener, address, target.cloned()));
    }
    let shared = Arc::new(Shared {
        server: config.server,
        reverse: config.reverse,
        config: session,
        raw_key,
        certificate,
        shows_certificate: AtomicBool::new(false),
        quic,
        tcp_until: Mutex::default(),
        bound: listeners.iter().map(|(_, address, _)| *address).collect(),
        current: watch::Sender::new(None),
        latest: Mutex::default(),
        retiring: Mutex::default(),
        peer: Mutex::default(),
        last_failure: Mutex::default(),
        failures: Seldom::new(),
        stop: watch::Sender::new(false),
        refused_connections: AtomicU64::new(0),
        displaced_proxy_clients: AtomicU64::new(0),
        displaced: Seldom::new(),
        socks4_clients: AtomicU64::new(0),
        socks4: Seldom::new(),
        wire,
        started: Instant::now(),
        endpoint: config.endpoint,
    });
    shared.endpoint.warn_if_nobody();
    for (listener, address, target) in listeners {
        if target.is_none() && !address.ip().is_loopback() {
            warn!(%address, "the proxy has no password: whoever reaches this address can use the tunnel");
        }
        tokio::spawn(Shared::accept_all(shared.clone(), listener, target));
    }
    tokio::spawn(Shared::keep_session(shared.clone()));
    Ok(Connection { shared })
}

impl Connection {
    /// Where applications connect: the forwards, then the proxies.
    pub fn addresses(&self) -> &[SocketAddr] {
        &self.shared.bound
    }

    /// Waits until flows can be opened, `limit` at most; if they cannot, why the last attempt failed.
    ///
    /// # Errors
    /// The reason, in words.
    pub async fn established(&self, limit: Duration) -> Result<(), String> {
        match self.shared.session(limit).await {
            Some(_) => Ok(()),
            None => {
                let failure = self.shared.last_failure.lock().unwrap_or_else(PoisonError::into_inner).clone();
                Err(failure.unwrap_or_else(|| format!("no answer within {} s", limit.as_secs())))
            }
        }
    }

    /// Takes no more connections, and waits until those open have ended, `limit` at most. Returns whether all have.
    pub async fn drain(&self, limit: Duration) -> bool {
        self.shared.stop.send_replace(true);
        let drivers = self.shared.drivers();
        for driver in &drivers {
            driver.with(Session::go_away);
            driver.close_listeners();
        }
        let all = drain_all(&drivers, limit).await;
        for driver in &drivers {
            driver.with(Session::close);
        }
        for driver in &drivers {
            driver.last_words().await;
        }
        all
    }

    /// Ends the session at once.
    pub fn stop(&self) {
        self.shared.stop.send_replace(true);
        for driver in self.shared.drivers() {
            driver.with(Session::close);
        }
    }

    /// Bytes that its transports have sent and received so far. Unlike [`Connection::status`] it sends nothing.
    pub(crate) fn wire_bytes(&self) -> (u64, u64) {
        self.shared.wire.total()
    }

    /// What it says of itself. Asks the peer for its view, which the next call has.
    pub fn status(&self) -> Status {
        let shared = &self.shared;
        // The end that was there last, as long as none has answered since.
        let latest = *shared.peer.lock().unwrap_or_else(PoisonError::into_inner);
        let sessions: Vec<_> = shared
            .drivers()
            .iter()
            .filter_map(|driver| {
                driver.with(Session::ask_report);
                session_status(driver, driver.peer.get().or(latest.as_ref())?, &shared.endpoint.peers)
            })
            .collect();
        Status {
            role: "connect",
            version: env!("CARGO_PKG_VERSION").into(),
            key: shared.endpoint.secret.public().to_string(),
            uptime: shared.started.elapsed(),
            listening: shared.bound.iter().map(ToString::to_string).collect(),
            memory_limit: shared.endpoint.memory,
            memory: sessions.iter().map(|session| session.here.memory_bytes).sum(),
            transport_sent: shared.wire.total().0,
            transport_received: shared.wire.total().1,
            refused_connections: shared.refused_connections.load(Ordering::Relaxed),
            displaced_proxy_clients: shared.displaced_proxy_clients.load(Ordering::Relaxed),
            socks4_clients: shared.socks4_clients.load(Ordering::Relaxed),
            draining: *shared.stop.borrow(),
            last_failure: shared.last_failure.lock().unwrap_or_else(PoisonError::into_inner).clone(),
            sessions,
            ..Status::default()
        }
    }
}

impl Shared {
    fn latest(&self) -> Option<Arc<Driver>> {
        self.latest.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The session there is, and those that are being given up.
    fn drivers(&self) -> Vec<Arc<Driver>> {
        let retiring = self.retiring.lock().unwrap_or_else(PoisonError::into_inner).clone();
        self.latest().into_iter().chain(retiring).collect()
    }

    fn set_latest(&self, driver: Option<Arc<Driver>>) {
        *self.latest.lock().unwrap_or_else(PoisonError::into_inner) = driver;
    }

    /// The session to open flows in, once there is one.
    async fn session(&self, limit: Duration) -> Option<Arc<Driver>> {
        let mut current = self.current.subscribe();
        let found = tokio::time::timeout(limit, current.wait_for(Option::is_some)).await;
        found.ok()?.ok()?.clone()
    }

    // ---- applications ------------------------------------------------------------------------------------------------------------

    async fn accept_all(shared: Arc<Shared>, listener: TcpListener, target: Option<Target>) {
        let negotiating = Newcomers::new(MAX_NEGOTIATING);
        let mut stop = shared.stop.subscribe();
        loop {
            let stream = tokio::select! {
                stream = accept(&listener) => stream,
                _ = stop.wait_for(|stop| *stop) => return,
            };
            let of_task = shared.clone();
            match target.clone() {
                Some(target) => drop(tokio::spawn(async move { of_task.forward(stream, &target).await })),
                None => {
                    if negotiating.begin(of_task.negotiate(stream)) {
                        shared.displaced_proxy_clients.fetch_add(1, Ordering::Relaxed);
                        if let Some(left_out) = shared.displaced.pass() {
                            warn!(
                                most = MAX_NEGOTIATING,
                                left_out,
                                "too many clients of the proxy have not said what they want: the oldest was turned away"
                            );
                        }
                    }
                }
            }
        }
    }

    /// Opens a flow, or says why not.
    async fn open(&self, target: &Target) -> Result<(Arc<Driver>, FlowId, Arc<FlowSignals>), Refusal> {
        let wish = Wish::Tcp(target.clone()).target();
        let until = Instant::now() + WAIT_FOR_SESSION;
        let error = loop {
            let Some(driver) = self.session(until.saturating_duration_since(Instant::now())).await else {
                break OpenError::NotEstablished;
            };
            match driver.open_soon(&wish).await {
                Ok((flow, signals)) => return Ok((driver, flow, signals)),
                // The server has just begun to drain, or the session has just ended: the next one may take it.
                Err(OpenError::GoingAway | OpenError::NotEstablished) if Instant::now() < until => {
                    let mut current = self.current.subscribe();
                    let other = |now: &Option<Arc<Driver>>| now.as_ref().is_none_or(|now| !Arc::ptr_eq(now, &driver));
                    let wait = until.saturating_duration_since(Instant::now());
                    if tokio::time::timeout(wait, current.wait_for(other)).await.is_err() {
                        break OpenError::NotEstablished;
                    }
                }
                Err(error) => break error,
            }
        };
        self.refused_connections.fetch_add(1, Ordering::Relaxed);
        if error == OpenError::NotEstablished {
            static NO_SESSION: Seldom = Seldom::new();
            if let Some(left_out) = NO_SESSION.pass() {
                let why = self.last_failure.lock().unwrap_or_else(PoisonError::into_inner).clone().unwrap_or_default();
                warn!(server = %self.server, %target, why, left_out, "connection refused: there is no session with the server");
            }
            return Err(Refusal::NoSession);
        }
        tell_of_no_flow(&error, &self.server.to_string());
        Err(if matches!(error, OpenError::TooMany(_) | OpenError::NoCredit) { Refusal::Busy } else { Refusal::Failed })
    }

    async fn forward(&self, stream: TcpStream, target: &Target) {
        match self.open(target).await {
            // Whether the origin answers shows soon enough; what the application says meanwhile is on its way already.
            Ok((driver, flow, signals)) => pump(&driver, flow, &signals, stream, None).await,
            Err(_) => reset_on_drop(&stream),
        }
    }

    /// Finds out what a client of a proxy wants, and lets another task see to it.
    async fn negotiate(self: Arc<Shared>, mut stream: TcpStream) {
        // One that is gone already. Afterwards it may be.
        let Ok(from) = stream.peer_addr() else { return };
        match ways_in::negotiate(&mut stream, ways_in::MAX_HEAD, ways_in::HANDSHAKE_TIME).await {
            Ok(wanted) => drop(tokio::spawn(async move { self.proxy(stream, wanted).await })),
            Err(error) => {
                self.refused_connections.fetch_add(1, Ordering::Relaxed);
                if let WayInError::Socks4 = error {
                    self.socks4_clients.fetch_add(1, Ordering::Relaxed);
                    if let Some(left_out) = self.socks4.pass() {
                        warn!(%from, left_out, "{error}");
                    }
                }
                debug!(%error, "proxy client not understood");
            }
        }
    }

    async fn proxy(&self, mut stream: TcpStream, wanted: Wanted) {
        let (driver, flow, signals) = match self.open(&wanted.target).await {
            Ok(opened) => opened,
            Err(refused) => {
                let _ = ways_in::refuse(&mut stream, &wanted, refused).await;
                return;
            }
        };
        // The request travels with the wish to connect.
        let first = write_all(&driver, flow, &signals, &wanted.first);
        let answer = async {
            loop {
                if let Some(answer) = signals.answer() {
                    return answer;
                }
                signals.answered.notified().await;
            }
        };
        let (_, answer) = tokio::join!(first, answer);
        match answer {
            Ok(()) => {
                if ways_in::accept(&mut stream, &wanted).await.is_ok() {
                    pump(&driver, flow, &signals, stream, wanted.rest).await;
                } else {
                    driver.with(|session| session.reset(flow, oncewire_session::ResetCode::Reset));
                    driver.forget(flow);
                }
            }
            Err(code) => {
                let _ = ways_in::refuse(&mut stream, &wanted, refusal(code)).await;
                driver.forget(flow);
            }
        }
    }

    // ---- the session ---------------------------------------------------------------------------------------------------------------

    /// Has a session with the peer, one after the other, until told to stop.
    async fn keep_session(shared: Arc<Shared>) {
        let mut logs: Option<(PublicKey, Logs)> = None;
        let mut stop = shared.stop.subscribe();
        let mut pause = RETRY.0;
        while !*stop.borrow() {
            let Ok(random) = random() else {
                shared.fail("the system gives no random numbers");
                tokio::time::sleep(RETRY.1).await;
                continue;
            };
            // A key that was taken off the list takes its logs along.
            let (logs_of, of_peer) = logs.take().filter(|(peer, _)| shared.endpoint.peers.contains(peer)).unzip();
            let session = Session::connect(Config { random, ..shared.config.clone() }, of_peer, Instant::now());
            let (driver, notices) = Driver::start(session, None);
            shared.set_latest(Some(driver.clone()));
            let mut phase = driver.phase();
            let run = tokio::spawn(shared.clone().run(driver.clone(), logs_of, notices));
            // Cannot fail: the driver is here.
            let _ = phase.wait_for(|phase| matches!(phase, Phase::GoingAway | Phase::Over(_))).await;
            shared.current.send_replace(None);
            if *driver.phase().borrow() == Phase::GoingAway {
                info!(server = %shared.server, "the server is draining: open connections go on, new ones wait for its successor");
                shared.fail("the server is draining");
                shared.retire(driver, run);
                pause = RETRY.0;
                continue;
            }
            shared.set_latest(None);
            // A task that panicked counts as one that never got through.
            let (why, was_established) = run.await.unwrap_or((Ended::Closed, false));
            driver.last_words().await;
            logs = Shared::keep(&driver, &why);
            if was_established {
                info!(server = %shared.server, %why, "session over");
                pause = RETRY.0;
            } else {
                shared.tell_of_failure("no session with the server; trying again", &why.to_string());
            }
            tokio::select! {
                () = tokio::time::sleep(pause) => {}
                _ = stop.wait_for(|stop| *stop) => return,
            }
            pause = (pause * 2).min(RETRY.1);
        }
    }

    /// Lets the open flows of a session end beside the next session. Its logs are of no more use: they are those of a process that ends.
    fn retire(self: &Arc<Shared>, driver: Arc<Driver>, run: tokio::task::JoinHandle<(Ended, bool)>) {
        driver.with(|session| session.set_log_limit(SMALLEST_LOG, Instant::now()));
        self.retiring.lock().unwrap_or_else(PoisonError::into_inner).push(driver.clone());
        self.set_latest(None);
        let shared = self.clone();
        tokio::spawn(close_when_done(driver.clone()));
        tokio::spawn(async move {
            let _ = run.await;
            driver.last_words().await;
            let mut retiring = shared.retiring.lock().unwrap_or_else(PoisonError::into_inner);
            retiring.retain(|other| !Arc::ptr_eq(other, &driver));
        });
    }

    /// Notes why there is no session, and logs it at a limited rate.
    fn tell_of_failure(&self, what: &'static str, why: &str) {
        self.fail(why);
        match self.failures.pass() {
            Some(left_out) => warn!(server = %self.server, why, left_out, "{what}"),
            None => debug!(server = %self.server, why, "{what}"),
        }
    }

    /// The logs of a session that is over, unless they are of no use.
    fn keep(driver: &Driver, why: &Ended) -> Option<(PublicKey, Logs)> {
        let logs = (*driver.peer.get()?, driver.take_logs()?);
        (!matches!(why, Ended::Violation(_) | Ended::TooManyFailures(_) | Ended::Encoder(_))).then_some(logs)
    }

    /// Runs a session until it is over; returns why, and whether the peer ever answered.
    async fn run(self: Arc<Shared>, driver: Arc<Driver>, logs_of: Option<PublicKey>, mut notices: Notices) -> (Ended, bool) {
        let mut stop = self.stop.subscribe();
        let mut phase = driver.phase();
        let mut was_established = false;
        let way_out = Arc::new(self.endpoint.way_out.clone());
        let mut changes = self.endpoint.peers.subscribe();
        let mut pauses = [RETRY.0; MAX_LANES];
        tokio::spawn(self.clone().dial_lane(driver.clone(), logs_of, 0, Duration::ZERO));
        loop {
            tokio::select! {
                changed = phase.changed() => {
                    if changed.is_err() {
                        return (Ended::Closed, was_established);
                    }
                    let now = phase.borrow_and_update().clone();
                    match now {
                        Phase::Greeting => {}
                        Phase::Established => {
                            was_established = true;
                            let lanes = driver.with(|session| session.lanes()).unwrap_or(1);
                            *self.last_failure.lock().unwrap_or_else(PoisonError::into_inner) = None;
                            let path = driver.path();
                            let (address, over) = (path.map(|path| path.address.to_string()), path.map(|path| path.over));
                            let agent = driver.with(|session| session.peer_agent().to_string());
                            info!(server = %self.server, peer = driver.label(), address, over, agent, lanes, "session established");
                            for lane in 1..lanes {
                                tokio::spawn(self.clone().dial_lane(driver.clone(), logs_of, lane, Duration::ZERO));
                            }
                            for forward in &self.reverse {
                                tokio::spawn(ask_to_listen(driver.clone(), forward.bind.clone()));
                            }
                            self.current.send_replace(Some(driver.clone()));
                        }
                        // `keep_session` sees to that.
                        Phase::GoingAway => {}
                        Phase::Over(why) => return (why, was_established),
                    }
                }
                Some(LaneDown { lane, heard, lasted, why }) = notices.lane_down.recv() => {
                    let pause = &mut pauses[lane];
                    let wait = if heard {
                        *pause = RETRY.0;
                        RETRY.0.saturating_sub(lasted)
                    } else {
                        // A server that does not accept our key says so after the handshake.
                        let key = self.endpoint.secret.public();
                        self.tell_of_failure(
                            "the server hung up without an answer; trying again",
                            &format!("{why}. If it does not know this end's key, give it --peer {key}, or put the key into its file of authorized peers"),
                        );
                        let wait = *pause;
                        *pause = (wait * 2).min(RETRY.1);
                        wait
                    };
                    tokio::spawn(self.clone().dial_lane(driver.clone(), logs_of, lane, wait));
                }
                Some((flow, target)) = notices.opened.recv() => {
                    tokio::spawn(fulfil(driver.clone(), flow, target, way_out.clone()));
                }
                Ok(()) = changes.changed() => {
                    let peer = *self.peer.lock().unwrap_or_else(PoisonError::into_inner);
                    if peer.is_some_and(|peer| !self.endpoint.peers.contains(&peer)) {
                        warn!(peer = driver.label(), "the server's key was revoked: session closed");
                        driver.with(Session::close);
                    }
                }
                _ = stop.wait_for(|stop| *stop), if !was_established => {
                    driver.with(Session::close);
                }
            }
        }
    }

    fn fail(&self, why: &str) {
        *self.last_failure.lock().unwrap_or_else(PoisonError::into_inner) = Some(why.to_string());
    }

    /// Gets a transport for a lane, after a time and however often it takes, as long as the session lasts.
    async fn dial_lane(self: Arc<Shared>, driver: Arc<Driver>, logs_of: Option<PublicKey>, lane: usize, wait: Duration) {
        let mut phase = driver.phase();
        let attempts = async {
            tokio::time::sleep(wait).await;
            let mut pause = RETRY.0;
            loop {
                match self.dial_once().await {
                    Ok(dialled) => return dialled,
                    Err(why) => {
                        self.tell_of_failure("cannot reach the server; trying again", &why);
                    }
                }
                // Ends that lost the same path should not come back in step.
                let spread = random().map_or(0, |[random, ..]| random % 64) as u32;
                tokio::time::sleep(pause * (64 + spread) / 96).await;
                pause = (pause * 2).min(RETRY.1);
            }
        };
        tokio::select! {
            (peer, transport) = attempts => {
                if driver.set_peer(peer, self.endpoint.peers.label(&peer)) != peer {
                    // Another end has the address now. It knows nothing of the session, and is not to learn anything of its logs.
                    driver.with(Session::close);
                    return;
                }
                if logs_of.is_some_and(|logs_of| logs_of != peer) {
                    driver.with(Session::forget_logs);
                }
                driver.attach(lane, transport);
            }
            _ = phase.wait_for(|phase| matches!(phase, Phase::Over(_))) => {}
        }
    }

    fn prefers_tcp(&self) -> bool {
        self.tcp_until.lock().unwrap_or_else(PoisonError::into_inner).is_some_and(|until| Instant::now() < until)
    }

    async fn dial_once(&self) -> Result<(PublicKey, Transport), String> {
        let addresses =
            lookup(self.server.host(), self.server.port()).await.map_err(|error| format!("{}: {error}", self.server))?;
        let certificate = self.shows_certificate.load(Ordering::Relaxed);
        let order = if certificate {
            [Credential::Certificate, Credential::RawKey]
        } else {
            [Credential::RawKey, Credential::Certificate]
        };
        let found = match self.dial_with(&addresses, order[0]).await {
            Err(failed) if failed.other_credential => {
                debug!(why = failed.why, shows = ?order[1], "showing the key in the other way");
                let found = self.dial_with(&addresses, order[1]).await;
                if found.is_ok() {
                    self.shows_certificate.store(!certificate, Ordering::Relaxed);
                }
                found
            }
            found => found,
        };
        let (peer, transport) = found.map_err(|failed| failed.why)?;
        *self.peer.lock().unwrap_or_else(PoisonError::into_inner) = Some(peer);
        Ok((peer, transport))
    }

    async fn dial_with(&self, addresses: &[SocketAddr], credential: Credential) -> Result<(PublicKey, Transport), DialError> {
        if let Some(quic) = self.quic.as_ref().filter(|_| !self.prefers_tcp()) {
            match quic.dial(addresses, credential, |peer| self.endpoint.peers.contains(peer)).await {
                Ok(found) => return Ok(found),
                Err(failed) if failed.other_credential || self.endpoint.transport == TransportKind::Quic => return Err(failed),
                Err(DialError { why, .. }) => {
                    info!(%why, "no QUIC to the peer, using TCP");
                    *self.tcp_until.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now() + TCP_FOR);
                }
            }
        }
        let stream = dial(addresses, GREETING_TIMEOUT).await.map_err(|error| error.to_string())?;
        let address = stream.peer_addr().map_err(|error| error.to_string())?;
        tune_lane(&stream).map_err(|error| error.to_string())?;
        let connector = match credential {
            Credential::RawKey => &self.raw_key,
            Credential::Certificate => &self.certificate,
        };
        let handshake = connector.connect(tls::server_name(), Counted::new(stream, self.wire.clone()));
        let stream = match tokio::time::timeout(GREETING_TIMEOUT, handshake).await {
            Ok(Ok(stream)) => stream,
            Ok(Err(error)) => {
                return Err(DialError { why: tls::reason(&error), other_credential: tls::wants_other_credential(&error) });
            }
            Err(_) => return Err("no TLS handshake in time".to_string().into()),
        };
        let peer = tls::peer_key(stream.get_ref().1).map_err(|error| error.to_string())?;
        Ok((peer, Transport::new(stream, "tcp", address)))
    }
}

/// Asks the peer to listen for this end, again and again if it cannot, as long as the session lasts.
async fn ask_to_listen(driver: Arc<Driver>, bind: Bind) {
    let target = Wish::Listen(bind.clone()).target();
    let mut phase = driver.phase();
    let ask = async {
        let (mut pause, mut closing) = (ASK_AGAIN.0, false);
        while !closing {
            if let Ok((flow, signals)) = driver.open(&target) {
                let _listening = driver.listening();
                loop {
                    match driver.with(|session| session.read(flow)) {
                        Some(Read::Data(text)) => {
                            // A line with an address, and nothing more.
                            if let Some(bound) =
                                str::from_utf8(&text).ok().and_then(|line| line.trim_end().parse::<SocketAddr>().ok())
                            {
                                info!(%bound, "the server listens for this end");
                                pause = ASK_AGAIN.0;
                            }
                            driver.with(|session| session.consumed(flow, text.len(), Instant::now()));
                        }
                        Some(Read::Nothing) => tokio::select! {
                            () = signals.readable.notified() => {}
                            // This end drains: the server is to listen no more, and answers with the end of the flow.
                            () = driver.listeners_closed(), if !closing => {
                                closing = true;
                                driver.with(|session| session.finish(flow));
                            }
                        },
                        Some(Read::Finished | Read::Gone) | None => break,
                    }
                }
                if let Some(code) = signals.reset() {
                    static REFUSED: Seldom = Seldom::new();
                    if let Some(left_out) = REFUSED.pass() {
                        let why = refusal(code);
                        warn!(%bind, %why, left_out, "the server does not listen there (-R): is the place taken, or not allowed by --allow-listen? Asking again");
                    }
                }
                driver.with(|session| session.finish(flow));
                driver.forget(flow);
            }
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(ASK_AGAIN.1);
        }
    };
    tokio::select! {
        () = ask => {}
        _ = phase.wait_for(|phase| matches!(phase, Phase::Over(_))) => {}
    }
}
