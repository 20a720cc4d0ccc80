//! Bringing peers up and keeping them up: dialing, accepting, renewing keys.

use super::handshake::{self, Established, HANDSHAKE, PeerError};
use super::mtu::{self, PathMtu};
use super::peers::{Installed, Keyed};
use super::status::count;
use super::{Shared, Timing};
use crate::endpoint::random;
use crate::log_limit::Changes;
use crate::sockets::{lookup, race};
use crate::sync::lock;
use crate::target::Target;
use crate::target::canonical;
use crate::tls;
use crate::unauthenticated::PendingConnections;
use oncewire_session::link::control::Control;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::{Duration, Instant};
use tracing::{info, warn};

/// Shortest and longest pause before the next attempt.
const RETRY: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(10));
/// Why a connection ends whose peer's key expires.
const EXPIRED: &str = "the key has expired";
/// Handshakes in progress at once.
const MOST_HANDSHAKES: usize = 64;
/// Handshakes in progress above which a client must show that it receives at its address (RFC 9000
/// section 8.1.2).
const RETRY_ABOVE: usize = 8;

/// How this end reaches a peer.
pub(super) struct Dialer {
    pub(super) shared: Arc<Shared>,
    pub(super) endpoint: quinn::Endpoint,
    pub(super) config: quinn::ClientConfig,
    pub(super) peer: usize,
    pub(super) target: Target,
}

impl Dialer {
    /// Connects whenever the peer is not connected, and renews the keys of such connections.
    pub(super) async fn run(self) {
        let (shared, target) = (&self.shared, &self.target);
        let peer = &shared.peers[self.peer];
        let mut pause = RETRY.0;
        let mut failures = Changes::default();
        loop {
            // The peer may connect, too.
            peer.keys.down().await;
            let attempt = match shared.is_accepted(self.peer) {
                true => self.attempt().await,
                false => Err(PeerError::Expired),
            };
            match attempt {
                Ok(established) => {
                    pause = RETRY.0;
                    failures = Changes::default();
                    self.hold(established).await;
                }
                Err(error) => {
                    // A peer that is away for a night takes a line a minute.
                    if failures.pass(&error.to_string(), Instant::now()) {
                        warn!(peer = peer.config.label(), address = %target, %error, "cannot reach the other end; trying again");
                    }
                    peer.failed(&error);
                }
            }
            // Random, so that ends that lost the same path do not come back in step.
            let spread = random().map_or(0, |[random, ..]| random % 64) as u32;
            tokio::time::sleep(pause * (64 + spread) / 96).await;
            pause = (pause * 2).min(RETRY.1);
        }
    }

    /// One attempt to connect: with all addresses of the name, until one answers.
    async fn attempt(&self) -> Result<Established, PeerError> {
        let Dialer { shared, target, .. } = self;
        let addresses = lookup(target.host(), target.port()).await.map_err(PeerError::Connect)?;
        let dialed = addresses.iter().take(crate::sockets::MAX_ADDRESSES).copied().collect();
        *lock(&shared.peers[self.peer].dialed) = dialed;
        let connect = |address: SocketAddr| {
            let (endpoint, config) = (self.endpoint.clone(), self.config.clone());
            async move {
                // The name is neither sent nor checked.
                let connecting =
                    endpoint.connect_with(config, address, &tls::server_name().to_str());
                connecting.map_err(io::Error::other)?.await.map_err(io::Error::other)
            }
        };
        let connection = race(&addresses, HANDSHAKE, connect).await.map_err(|error| {
            if error.kind() == io::ErrorKind::TimedOut {
                return PeerError::TimedOut;
            }
            match error.downcast::<quinn::ConnectionError>() {
                Ok(error) => error.into(),
                Err(error) => PeerError::Connect(error),
            }
        })?;
        let greeted = handshake::as_client(shared, connection.clone());
        match tokio::time::timeout(HANDSHAKE, greeted).await {
            Ok(Ok(established)) => {
                use_keys(shared, &established.keyed);
                Ok(established)
            }
            // A refusal of this end's key arrives as the end of the connection.
            Ok(Err(PeerError::Closed)) => {
                Err(connection.close_reason().map_or(PeerError::Closed, PeerError::from))
            }
            Ok(Err(error)) => Err(error),
            Err(_) => Err(PeerError::TimedOut),
        }
    }

    /// Holds a connection while it lasts, and renews its keys by new connections.
    async fn hold(&self, mut established: Established) {
        let shared = &self.shared;
        let (keys, timing) = (&shared.peers[self.peer].keys, shared.config.timing);
        let (mut next_attempt, mut path) = (Instant::now(), PathMtu::new());
        loop {
            let why = tokio::select! {
                why = ended(shared, &mut established) => Some(why),
                () = tokio::time::sleep(timing.check.min(timing.renewal)) => None,
            };
            if let Some(why) = why {
                down(shared, &established.keyed, &why);
                return;
            }
            let keyed = &established.keyed;
            if !keys.is_sealing(keyed) {
                // The peer's connection is in use. If it ends, this end connects at once, and does
                // not wait for the end of this one.
                tokio::spawn(watch(shared.clone(), established));
                return;
            }
            let is_narrow = mtu::check(shared, keyed, &mut path);
            let is_due = is_narrow || is_worn(keyed, &timing);
            if !is_due || Instant::now() < next_attempt {
                continue;
            }
            match self.attempt().await {
                Ok(renewed) => {
                    // The earlier connection stays open as long as its keys are in force.
                    let before = std::mem::replace(&mut established, renewed);
                    path = PathMtu::new();
                    tokio::spawn(async move {
                        tokio::time::sleep(timing.old_keys).await;
                        drop(before);
                    });
                }
                Err(error) => {
                    let peer = shared.peers[self.peer].config.label();
                    warn!(peer, %error, "cannot renew the keys; trying again");
                    next_attempt = Instant::now() + RETRY.1;
                }
            }
        }
    }
}

/// Whether keys are to be renewed.
fn is_worn(keyed: &Keyed, timing: &Timing) -> bool {
    keyed.since.elapsed() >= timing.renewal
        || keyed.used() >= timing.renewal_datagrams
        || keyed.opening.failed() >= timing.renewal_forged
}

/// Most bytes of messages that wait for a peer that does not read them: more than all contexts take.
const MOST_ANSWERS: usize = 64 << 10;

/// Exchanges messages on logs and contexts until the connection ends, and says why. Messages that
/// this version does not expect end it, too. May be cancelled.
async fn ended(shared: &Shared, established: &mut Established) -> String {
    let Established { keyed, control } = established;
    let (connection, association) = (&keyed.connection, &keyed.association);
    let keys = &shared.peers[keyed.peer].keys;
    loop {
        // A connection that is not in use any more must not take the messages of the next one.
        while keys.is_sealing(keyed)
            && let Some(message) = lock(&association.sender).message()
        {
            control.queue(&message);
        }
        if keys.is_sealing(keyed)
            && let Some(job) = lock(&association.sender).training()
        {
            let association = association.clone();
            tokio::task::spawn_blocking(move || {
                let trained = job.run();
                lock(&association.sender).trained(trained);
                association.message.notify_one();
            });
        }
        if control.queued() > MOST_ANSWERS {
            return "the other end does not read control messages".into();
        }
        if control.queued() > 0 {
            // The end of the connection is noticed below.
            let closed = tokio::select! {
                flushed = control.flush() => flushed.is_err(),
                _ = connection.closed() => true,
            };
            if closed {
                return connection.closed().await.to_string();
            }
        }
        let message = tokio::select! {
            why = connection.closed() => return why.to_string(),
            message = control.next() => message,
            () = association.message.notified() => continue,
        };
        match message {
            Ok(Control::Log(terms)) if keys.is_logged(association) => {
                let answer = lock(&association.receiver).log(terms);
                match answer {
                    Ok(answer) => answer.iter().for_each(|answer| control.queue(answer)),
                    Err(error) => return error.to_string(),
                }
            }
            Ok(Control::Log(_)) => {}
            Ok(Control::LogReady(id)) => lock(&association.sender).log_ready(id),
            Ok(Control::Context(terms)) => {
                let answer = lock(&association.receiver).context(&terms);
                answer.iter().for_each(|answer| control.queue(answer));
            }
            Ok(Control::ContextReady { log, number, is_taken }) => {
                lock(&association.sender).context_ready(log, number, is_taken);
            }
            Ok(Control::ContextDrop { log, number }) => {
                lock(&association.receiver).context_drop(log, number);
            }
            Ok(Control::Close { text, .. }) => {
                return format!("the other end closed the link: {text}");
            }
            Ok(_) => return "an unexpected control message".into(),
            // The end of the stream may arrive before that of the connection, which says why.
            Err(PeerError::Closed) => return connection.closed().await.to_string(),
            Err(error) => return error.to_string(),
        }
    }
}

/// Waits until a connection that is not in use ends.
async fn watch(shared: Arc<Shared>, mut established: Established) {
    let why = ended(&shared, &mut established).await;
    down(&shared, &established.keyed, &why);
}

/// Accepts connections of peers.
pub(super) async fn accept(shared: Arc<Shared>, endpoint: quinn::Endpoint) {
    let pending = PendingConnections::new(MOST_HANDSHAKES);
    let in_progress = Arc::new(AtomicUsize::new(0));
    while let Some(incoming) = endpoint.accept().await {
        if in_progress.load(Relaxed) >= RETRY_ABOVE && incoming.may_retry() {
            count(&shared.strangers.retries);
            let _ = incoming.retry();
            continue;
        }
        let shared = shared.clone();
        let counted = InProgress::new(&in_progress);
        pending.admit(async move {
            let from = canonical(incoming.remote_address());
            // Until TLS is done, it may be anybody.
            let mut peer = None;
            let greeted = tokio::time::timeout(HANDSHAKE, async {
                let connection = incoming.accept()?.await?;
                peer = Some(handshake::peer_of(&shared, &connection)?);
                handshake::as_server(&shared, connection).await
            });
            let error = match greeted.await {
                Ok(Ok(established)) => {
                    drop(counted);
                    // A task of its own: the connection is not pending any more.
                    tokio::spawn(serve(shared, established));
                    return;
                }
                Ok(Err(error)) => error,
                Err(_) => PeerError::TimedOut,
            };
            match peer {
                Some(peer) => {
                    let peer = &shared.peers[peer];
                    warn!(peer = peer.config.label(), %from, %error, "a handshake failed");
                    peer.failed(&error);
                }
                None => shared.strangers.refused(from, &error),
            }
        });
    }
}

/// Counts a handshake while it exists.
struct InProgress(Arc<AtomicUsize>);

impl InProgress {
    fn new(count: &Arc<AtomicUsize>) -> InProgress {
        count.fetch_add(1, Relaxed);
        InProgress(count.clone())
    }
}

impl Drop for InProgress {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Relaxed);
    }
}

/// Serves a connection of a peer until it ends.
async fn serve(shared: Arc<Shared>, mut established: Established) {
    let ready = tokio::time::timeout(HANDSHAKE, established.control.next()).await;
    if !matches!(ready, Ok(Ok(Control::Ready))) {
        shared.forget(&established.keyed);
        established.keyed.connection.close(quinn::VarInt::from_u32(1), b"READY expected");
        return;
    }
    use_keys(&shared, &established.keyed);
    let timing = shared.config.timing;
    let mut path = PathMtu::new();
    let why = loop {
        tokio::select! {
            why = ended(&shared, &mut established) => break why,
            () = tokio::time::sleep(timing.check) => {}
        }
        let keyed = &established.keyed;
        // Only the client renews, and it knows nothing of datagrams that did not open here. At half
        // of the limit this end asks for new keys in the only way that it has.
        if keyed.opening.failed() >= timing.renewal_forged {
            break "too many forged datagrams under these keys".into();
        }
        if mtu::check(&shared, keyed, &mut path) {
            break "large datagrams do not arrive any more".into();
        }
    };
    down(&shared, &established.keyed, &why);
}

/// Ends the connections of peers whose keys expire.
pub(super) async fn expire(shared: Arc<Shared>) {
    let mut changes = shared.accepted.watch();
    while changes.changed().await {
        for peer in 0..shared.peers.len() {
            if !shared.is_accepted(peer) {
                shared.end_all(peer);
            }
        }
    }
}

impl Shared {
    /// Whether the key of a peer has not expired.
    fn is_accepted(&self, peer: usize) -> bool {
        self.accepted.contains(&self.peers[peer].config.peer.key)
    }

    /// Ends the connections of a peer whose key has expired.
    fn end_all(&self, peer: usize) {
        for keyed in self.peers[peer].keys.opening() {
            keyed.connection.close(quinn::VarInt::from_u32(0), EXPIRED.as_bytes());
        }
    }
}

/// Seals with new keys from now on. Those before open for a while, for datagrams under way.
fn use_keys(shared: &Arc<Shared>, keyed: &Arc<Keyed>) {
    let peer = &shared.peers[keyed.peer];
    let label = peer.config.label();
    *lock(&peer.last_failure) = None;
    let installed = peer.keys.seal_with(keyed, shared.has_lower_key(keyed.peer));
    // It may have expired since the handshake showed it.
    if !shared.is_accepted(keyed.peer) {
        shared.end_all(keyed.peer);
    }
    if !matches!(installed, Installed::Spare) {
        lock(&keyed.association.sender).connected(keyed.offer);
    }
    let (surplus, why) = match installed {
        Installed::Up => {
            let address = canonical(keyed.connection.remote_address());
            info!(peer = label, %address, cipher = %keyed.cipher, "link up");
            return;
        }
        Installed::Renewed(before) => {
            info!(peer = label, "keys renewed");
            (before, "keys renewed")
        }
        Installed::Spare => (keyed.clone(), "another connection is in use"),
    };
    let shared = shared.clone();
    tokio::spawn(async move {
        tokio::time::sleep(shared.config.timing.old_keys).await;
        surplus.connection.close(quinn::VarInt::from_u32(0), why.as_bytes());
        shared.forget(&surplus);
    });
}

/// Forgets the keys of a connection that has ended.
fn down(shared: &Shared, keyed: &Arc<Keyed>, why: &str) {
    // A connection that this end has closed only says that.
    let why = if shared.is_accepted(keyed.peer) { why } else { EXPIRED };
    let code = quinn::VarInt::from_u32(0);
    keyed.connection.close(code, why.as_bytes());
    if shared.forget(keyed) {
        let peer = &shared.peers[keyed.peer];
        warn!(
            peer = peer.config.label(),
            why, "link down; packets are dropped until the other end is back"
        );
        peer.failed(&why);
    }
}
