//! The client's session: one after another, until the client is stopped.

use super::reverse::request_listener;
use super::{RETRY, Shared};
use crate::drain::close_when_done;
use crate::driver::{Driver, LaneDown, Notices, Phase};
use crate::egress::{Rules, serve_flow};
use crate::endpoint::random;
use crate::handshake::HandshakeError;
use crate::keys::PublicKey;
#[cfg(unix)]
use crate::store::PATIENCE;
use crate::sync::lock;
use oncewire_session::{Ended, Logs, MAX_LANES, SMALLEST_LOG, Session};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::runtime::Handle;
use tracing::{info, warn};

/// Sessions whose server drains that there may be at once. Each has some memory.
const MAX_RETIRING: usize = 4;

impl Shared {
    /// Keeps a session with the server, one after another, until the client is stopped or the
    /// server refuses it for good.
    pub(super) async fn keep_session(shared: Arc<Shared>) {
        let mut logs: Option<(PublicKey, Logs)> = None;
        let mut stop = shared.stop.subscribe();
        let mut pause = RETRY.0;
        while !*stop.borrow() {
            let Ok(random) = random() else {
                shared.set_failure(Some(HandshakeError::Random.into()));
                tokio::time::sleep(RETRY.1).await;
                continue;
            };
            // Logs shared with a key that was revoked are dropped.
            let (logs_of, of_peer) =
                logs.take().filter(|(peer, _)| shared.endpoint.peers.contains(peer)).unzip();
            #[cfg(unix)]
            let (logs_of, of_peer) = match of_peer {
                None => shared.restore().await.unzip(),
                held => (logs_of, held),
            };
            let session =
                Session::connect(shared.config.with_random(random), of_peer, Instant::now());
            let (driver, notices) =
                Driver::start(session, None, shared.content.clone(), Handle::current());
            #[cfg(unix)]
            if let Some(store) = &shared.endpoint.store {
                driver.keep_on_disk(store);
            }
            shared.set_latest(Some(driver.clone()));
            let mut phase = driver.phase();
            let run = tokio::spawn(shared.clone().run(driver.clone(), logs_of, notices));
            // Cannot fail: the driver holds the sender.
            let _ =
                phase.wait_for(|phase| matches!(phase, Phase::GoingAway | Phase::Over(_))).await;
            shared.current.send_replace(None);
            if *driver.phase().borrow() == Phase::GoingAway {
                info!(server = %shared.server, "the server is draining; open connections continue, new ones wait for its successor");
                shared.hubs.leave();
                if let Some(quic) = &shared.quic {
                    quic.leave().await;
                }
                shared.set_failure(Some(HandshakeError::Draining.into()));
                *lock(&shared.draining_since) = Some(Instant::now());
                shared.retire(driver, run);
                pause = RETRY.0;
                continue;
            }
            shared.set_latest(None);
            // A task that panicked counts as a session that was never established.
            let (why, was_established) = run.await.unwrap_or((Ended::Closed, false));
            driver.closed_transports().await;
            logs = Shared::keep(&driver, &why);
            if was_established {
                info!(server = %shared.server, %why, "session closed");
                pause = RETRY.0;
            }
            if matches!(why, Ended::Busy { .. }) {
                shared.hubs.leave();
            }
            if why.is_lasting() || !was_established {
                shared.log_failure(why.clone().into());
            }
            if why.is_lasting() {
                shared.refused.send_replace(true);
                return;
            }
            tokio::select! {
                () = tokio::time::sleep(pause) => {}
                _ = stop.wait_for(|stop| *stop) => return,
            }
            pause = shared.next_pause(pause);
        }
    }

    /// Reads the logs that an earlier process shared with the server from disk. Who the server is
    /// will show: of several that it may be, the one whose logs were written last.
    #[cfg(unix)]
    async fn restore(&self) -> Option<(PublicKey, Logs)> {
        let (store, config) = (self.endpoint.store.clone()?, self.config.clone());
        let peers = self.endpoint.peers.clone();
        let read = move || {
            let peer = store.latest(|peer| peers.contains(peer))?;
            Some((peer, store.restore(peer, &config, true)?))
        };
        // A disk that hangs must not keep the tunnel down.
        let read = tokio::time::timeout(PATIENCE, tokio::task::spawn_blocking(read));
        read.await.ok()?.ok()?
    }

    /// Lets the open flows of a session end beside the next session. Its logs in memory are of no
    /// further use: the process that shares them is going away. Those on disk are for its successor.
    fn retire(
        self: &Arc<Shared>,
        driver: Arc<Driver>,
        run: tokio::task::JoinHandle<(Ended, bool)>,
    ) {
        driver.leave_disk();
        // Cannot fail: the size is in range.
        driver.with(|session| session.set_log_limit(SMALLEST_LOG, Instant::now()).ok());
        let mut retiring = lock(&self.retiring);
        if retiring.len() >= MAX_RETIRING {
            warn!(server = %self.server, "too many processes of this server drain at once; closing the oldest one's session");
            retiring[0].with(Session::close);
        }
        retiring.push(driver.clone());
        drop(retiring);
        self.set_latest(None);
        let shared = self.clone();
        tokio::spawn(close_when_done(driver.clone()));
        tokio::spawn(async move {
            let _ = run.await;
            driver.closed_transports().await;
            let mut retiring = lock(&shared.retiring);
            retiring.retain(|other| !Arc::ptr_eq(other, &driver));
        });
    }

    /// The logs of a session that is over, unless the way it ended makes them doubtful.
    fn keep(driver: &Driver, why: &Ended) -> Option<(PublicKey, Logs)> {
        let logs = (*driver.peer.get()?, driver.take_logs()?);
        (!matches!(why, Ended::Violation(_) | Ended::TooManyFailures(_) | Ended::Encoder(_)))
            .then_some(logs)
    }

    /// Runs a session until it is over. Returns why it ended, and whether it was ever established.
    async fn run(
        self: Arc<Shared>,
        driver: Arc<Driver>,
        logs_of: Option<PublicKey>,
        mut notices: Notices,
    ) -> (Ended, bool) {
        let mut stop = self.stop.subscribe();
        let mut phase = driver.phase();
        let mut was_established = false;
        let rules = Rules { egress: Arc::new(self.endpoint.egress.clone()), own: None };
        let mut changes = self.endpoint.peers.watch();
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
                        Phase::Handshake => {}
                        Phase::Established => {
                            was_established = true;
                            let lanes = driver.with(|session| session.lanes()).unwrap_or(1);
                            self.set_failure(None);
                            let path = driver.path();
                            if let Some(path) = path {
                                self.hubs.stay(path.address);
                            }
                            let (address, over) = (path.map(|path| path.address.to_string()), path.map(|path| path.over));
                            let agent = driver.with(|session| session.peer_agent().to_string());
                            info!(server = %self.server, peer = driver.label(), address, over, agent, lanes, "session established");
                            if let Some(sharing) = driver.with(|session| session.peer_sharing()) {
                                self.endpoint.warn_if_peer_shares(sharing, driver.label());
                            }
                            for lane in 1..lanes {
                                tokio::spawn(self.clone().dial_lane(driver.clone(), logs_of, lane, Duration::ZERO));
                            }
                            for forward in &self.reverse {
                                tokio::spawn(request_listener(driver.clone(), forward.clone()));
                            }
                            self.current.send_replace(Some(driver.clone()));
                        }
                        // `keep_session` handles this.
                        Phase::GoingAway => {}
                        Phase::Over(why) => return (why, was_established),
                    }
                }
                Some(LaneDown { lane, received, lasted, cause }) = notices.lane_down.recv() => {
                    let pause = &mut pauses[lane];
                    let wait = if received {
                        *pause = RETRY.0;
                        RETRY.0.saturating_sub(lasted)
                    } else {
                        self.log_failure(HandshakeError::NoHello { ours: self.endpoint.secret.public(), cause });
                        let wait = *pause;
                        *pause = (wait * 2).min(RETRY.1);
                        wait
                    };
                    tokio::spawn(self.clone().dial_lane(driver.clone(), logs_of, lane, wait));
                }
                Some(opened) = notices.opened.recv() => {
                    tokio::spawn(serve_flow(driver.clone(), opened, rules.clone()));
                }
                true = changes.changed() => {
                    let peer = *lock(&self.peer);
                    if peer.is_some_and(|peer| !self.endpoint.peers.contains(&peer)) {
                        warn!(peer = driver.label(), "the server's key was revoked here or has expired; closing the session");
                        driver.with(Session::close);
                    }
                }
                _ = stop.wait_for(|stop| *stop), if !was_established => {
                    driver.with(Session::close);
                }
            }
        }
    }
}
