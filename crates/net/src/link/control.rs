//! Bringing the link up and keeping it up: dialing, accepting, renewing keys.

use super::Shared;
use super::handshake::{self, Established, HANDSHAKE, PeerError};
use super::peers::Keyed;
use crate::endpoint::random;
use crate::keys::PublicKey;
use crate::sockets::{canonical, lookup, race};
use crate::sync::lock;
use crate::target::Target;
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
/// How often the client looks whether keys are to be renewed by their number of datagrams. At
/// 10 Gbit/s, a key lasts 5 minutes.
const CHECK: Duration = Duration::from_secs(1);
/// Handshakes in progress at once.
const MOST_HANDSHAKES: usize = 64;
/// Handshakes in progress above which a client must show that it receives at its address (RFC 9000
/// section 8.1.2).
const RETRY_ABOVE: usize = 8;

/// The client: connects, renews, and connects again whenever the connection ends.
pub(super) async fn dial(
    shared: Arc<Shared>,
    endpoint: quinn::Endpoint,
    config: quinn::ClientConfig,
    target: Target,
) {
    let mut pause = RETRY.0;
    loop {
        match attempt(&shared, &endpoint, &config, &target).await {
            Ok(established) => {
                pause = RETRY.0;
                hold(&shared, &endpoint, &config, &target, established).await;
            }
            Err(error) => {
                warn!(server = %target, %error, "cannot reach the other end; trying again");
                shared.failed(&error);
            }
        }
        // Random, so that ends that lost the same path do not come back in step.
        let spread = random().map_or(0, |[random, ..]| random % 64) as u32;
        tokio::time::sleep(pause * (64 + spread) / 96).await;
        pause = (pause * 2).min(RETRY.1);
    }
}

/// One attempt to connect: with all addresses of the name, until one answers.
async fn attempt(
    shared: &Arc<Shared>,
    endpoint: &quinn::Endpoint,
    config: &quinn::ClientConfig,
    target: &Target,
) -> Result<Established, PeerError> {
    let addresses = lookup(target.host(), target.port()).await.map_err(PeerError::Connect)?;
    let connect = |address: SocketAddr| {
        let (endpoint, config) = (endpoint.clone(), config.clone());
        async move {
            // The name is neither sent nor checked.
            let connecting = endpoint.connect_with(config, address, &tls::server_name().to_str());
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
    let greeted = tokio::time::timeout(HANDSHAKE, handshake::as_client(shared, connection.clone()));
    let mut established = match greeted.await {
        Ok(Ok(established)) => established,
        // A refusal of this end's key arrives as the end of the connection.
        Ok(Err(PeerError::Closed)) => {
            return Err(connection.close_reason().map_or(PeerError::Closed, PeerError::from));
        }
        Ok(Err(error)) => return Err(error),
        Err(_) => return Err(PeerError::TimedOut),
    };
    shared.keys.add(established.keyed.clone());
    if let Err(error) = established.control.send(&Control::Ready).await {
        shared.keys.remove(&established.keyed);
        return Err(error);
    }
    use_keys(shared, &established.keyed, established.key);
    Ok(established)
}

/// Holds the link while the connection lasts, and renews its keys by new connections.
async fn hold(
    shared: &Arc<Shared>,
    endpoint: &quinn::Endpoint,
    config: &quinn::ClientConfig,
    target: &Target,
    mut established: Established,
) {
    let timing = shared.config.timing;
    let mut next_attempt = Instant::now();
    loop {
        let why = tokio::select! {
            why = ended(&mut established) => Some(why),
            () = tokio::time::sleep(CHECK.min(timing.renewal)) => None,
        };
        if let Some(why) = why {
            down(shared, &established.keyed, &why);
            return;
        }
        let keyed = &established.keyed;
        let is_due =
            keyed.since.elapsed() >= timing.renewal || keyed.used() >= timing.renewal_datagrams;
        if !is_due || Instant::now() < next_attempt {
            continue;
        }
        match attempt(shared, endpoint, config, target).await {
            Ok(renewed) => {
                // The earlier connection stays open as long as its keys are in force.
                let before = std::mem::replace(&mut established, renewed);
                tokio::spawn(async move {
                    tokio::time::sleep(timing.old_keys).await;
                    drop(before);
                });
            }
            Err(error) => {
                warn!(%error, "cannot renew the keys; trying again");
                next_attempt = Instant::now() + RETRY.1;
            }
        }
    }
}

/// Waits until the connection ends, and says why. Messages that this version does not expect end it,
/// too.
async fn ended(established: &mut Established) -> String {
    let connection = established.keyed.connection.clone();
    tokio::select! {
        why = connection.closed() => why.to_string(),
        message = established.control.next() => match message {
            Ok(Control::Close { text, .. }) => format!("the other end closed the link: {text}"),
            Ok(_) => "an unexpected control message".into(),
            Err(error) => connection.close_reason().map_or(error.to_string(), |why| why.to_string()),
        },
    }
}

/// The server: accepts the peer's connections.
pub(super) async fn accept(shared: Arc<Shared>, endpoint: quinn::Endpoint) {
    let pending = PendingConnections::new(MOST_HANDSHAKES);
    let in_progress = Arc::new(AtomicUsize::new(0));
    while let Some(incoming) = endpoint.accept().await {
        if in_progress.load(Relaxed) >= RETRY_ABOVE && incoming.may_retry() {
            let _ = incoming.retry();
            continue;
        }
        let shared = shared.clone();
        let counted = InProgress::new(&in_progress);
        pending.admit(async move {
            let from = canonical(incoming.remote_address());
            let greeted = tokio::time::timeout(HANDSHAKE, async {
                let connecting = incoming.accept()?;
                let connection = connecting.await?;
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
            warn!(%from, %error, "a handshake failed");
            shared.failed(&error);
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

/// Serves a connection of the peer until it ends.
async fn serve(shared: Arc<Shared>, mut established: Established) {
    let ready = tokio::time::timeout(HANDSHAKE, established.control.next()).await;
    if !matches!(ready, Ok(Ok(Control::Ready))) {
        shared.keys.remove(&established.keyed);
        established.keyed.connection.close(quinn::VarInt::from_u32(1), b"READY expected");
        return;
    }
    use_keys(&shared, &established.keyed, established.key);
    let why = ended(&mut established).await;
    down(&shared, &established.keyed, &why);
}

/// Seals with new keys from now on. Those before open for a while, for datagrams under way.
fn use_keys(shared: &Arc<Shared>, keyed: &Arc<Keyed>, key: PublicKey) {
    *lock(&shared.peer) = Some(key);
    *lock(&shared.last_failure) = None;
    let Some(before) = shared.keys.seal_with(keyed) else {
        info!(
            peer = %shared.config.peers.label(&key),
            address = %canonical(keyed.connection.remote_address()),
            cipher = %keyed.cipher,
            "link up"
        );
        return;
    };
    info!("keys renewed");
    let shared = shared.clone();
    tokio::spawn(async move {
        tokio::time::sleep(shared.config.timing.old_keys).await;
        before.connection.close(quinn::VarInt::from_u32(0), b"keys renewed");
        shared.keys.remove(&before);
    });
}

/// Forgets the keys of a connection that has ended.
fn down(shared: &Shared, keyed: &Arc<Keyed>, why: &str) {
    keyed.connection.close(quinn::VarInt::from_u32(0), b"");
    if shared.keys.remove(keyed) {
        warn!(why, "link down; packets are dropped until the other end is back");
        shared.failed(&why);
    }
}
