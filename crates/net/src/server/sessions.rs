//! The sessions of a server: which peer gets which, and what happens when one ends.

use super::{KeptLogs, Sessions, Shared};
use crate::drain::close_when_done;
use crate::driver::{Driver, Notices, Phase};
use crate::egress::{Rules, serve_flow};
use crate::endpoint::random;
use crate::handshake::Rejection;
use crate::keys::PublicKey;
#[cfg(unix)]
use crate::store::PATIENCE;
use crate::transport::Transport;
use oncewire_session::{Answer, Hello, Logs, MAX_LANES, Refused, SMALLEST_LOG, Session, SessionId};
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};
use tracing::{info, warn};

/// Sessions that one peer may have at once: one, and those that it has not yet noticed are lost.
const MAX_PER_PEER: usize = 4;

/// How long a session may stay silent after its peer has come back with another one.
const PROBE: Duration = Duration::from_secs(5);

impl Shared {
    /// Gives a transport to the session that its hello names, or begins that. A rejected transport
    /// comes back with the answer to send on it.
    pub(super) fn enter(
        self: &Arc<Shared>,
        peer: PublicKey,
        hello: &Hello,
        transport: Transport,
        rest: Vec<u8>,
    ) -> Result<(), (Rejection, Box<Hello>, Transport)> {
        let reject = |reason: Rejection, transport| {
            let answer =
                if reason == Rejection::UnknownSession { Answer::Unknown } else { Answer::Busy };
            let answer = hello.refuse(answer, &reason.to_string(), &self.config);
            Err((reason, answer.into(), transport))
        };
        // One guard from the look-up to the insertion: two hellos of one name that come at once must
        // not begin two sessions, one of which nobody would find.
        let mut sessions = self.lock_sessions();
        if let Some(driver) = sessions.get(&(peer, hello.session)).cloned() {
            drop(sessions);
            return driver
                .accept_lane(hello, transport, rest)
                .map_err(|(answer, transport)| (Rejection::of(&answer), answer, transport));
        }
        if hello.answer != Answer::New {
            // The session it asks for is over here. Its logs stay: the client's next hello names them.
            return reject(Rejection::UnknownSession, transport);
        }
        // Before anything is replaced: a draining server's sessions continue to their end.
        if *self.draining.borrow() {
            return reject(Rejection::Draining, transport);
        }
        let logs = self.replace(&mut sessions, peer, hello);
        let of_peer = Shared::lasting(&sessions, &peer);
        if let Some(reason) = self.full(&sessions, &peer, of_peer) {
            return reject(reason, transport);
        }
        let Ok(random) = random() else {
            return reject(Rejection::Random, transport);
        };
        let logs = logs.or_else(|| self.take_kept(&peer, hello));
        let log =
            self.share(&sessions).max(logs.as_ref().map_or(0, Logs::capacity)).min(self.config.log);
        let contexts = self.contexts(&sessions);
        let config = self.config.with_random(random).with_log(log);
        let Ok(config) = config.and_then(|config| config.with_contexts(contexts)) else {
            return reject(Rejection::NoMemory, transport);
        };
        let mut session = match Session::accept_new(config, logs, hello, Instant::now()) {
            Ok(session) => session,
            Err(Refused(answer)) => return Err((Rejection::of(&answer), answer, transport)),
        };
        let seat = self.threads.seat();
        session.share_thread(seat.load.clone());
        let (driver, notices) = Driver::start(
            session,
            Some(self.memory_changed.clone()),
            self.content.clone(),
            seat.handle.clone(),
        );
        #[cfg(unix)]
        if let Some(store) = &self.endpoint.store {
            driver.keep_on_disk(store);
        }
        let label = self.endpoint.peers.label(&peer);
        self.log_start(&peer, &label, hello, &transport, log, (of_peer, sessions.len()));
        driver.set_peer(peer, label);
        sessions.insert((peer, hello.session), driver.clone());
        let lane = usize::try_from(hello.lane).unwrap_or(0).min(MAX_LANES - 1);
        driver.adopt(lane, transport, rest);
        let shared = self.clone();
        let name = hello.session;
        driver.thread.clone().spawn(async move {
            Shared::run(shared, peer, name, driver, notices).await;
            drop(seat);
        });
        Ok(())
    }

    /// Reads a peer's logs from disk, if none are in memory, so that the session that begins now finds
    /// them.
    #[cfg(unix)]
    pub(super) async fn restore(&self, peer: PublicKey, hello: &Hello) {
        let Some(store) = self.endpoint.store.clone() else { return };
        let of_peer: Vec<_> = (self.lock_sessions().iter())
            .filter(|((key, _), _)| *key == peer)
            .map(|(_, driver)| driver.clone())
            .collect();
        if hello.answer != Answer::New
            || of_peer.iter().any(|driver| !driver.is_going_away())
            || self.lock_kept().iter().any(|kept| kept.peer == peer)
        {
            return;
        }
        // The successor of a client that drains: what it finds on disk, it finds here, too.
        let again = !of_peer.is_empty();
        for driver in of_peer {
            driver.leave_disk();
        }
        let config = self.config.clone();
        let read = move || store.restore(peer, &config, again);
        // A disk that hangs must not keep the peer out.
        let read = tokio::time::timeout(PATIENCE, tokio::task::spawn_blocking(read));
        if let Ok(Ok(Some(logs))) = read.await {
            self.lock_kept().push(KeptLogs { peer, since: Instant::now(), logs });
            self.memory_changed.notify_one();
        }
    }

    /// How many sessions a peer has beside those whose client drains. Of these, the oldest ends if
    /// there are too many.
    fn lasting(sessions: &Sessions, peer: &PublicKey) -> usize {
        let of_peer = sessions.iter().filter(|((key, _), _)| key == peer);
        let (going, lasting): (Vec<_>, Vec<_>) =
            of_peer.map(|(_, driver)| driver).partition(|driver| driver.is_going_away());
        if going.len() >= MAX_PER_PEER
            && let Some(oldest) = going.iter().min_by_key(|driver| driver.born)
        {
            warn!(
                peer = oldest.label(),
                "too many processes of this client drain at once; closing the oldest one's session"
            );
            oldest.with(Session::close);
        }
        lasting.len()
    }

    /// Why a peer with `of_peer` sessions cannot have another one, if it cannot.
    fn full(&self, sessions: &Sessions, peer: &PublicKey, of_peer: usize) -> Option<Rejection> {
        if !self.fits_another(sessions) {
            Some(Rejection::TooManySessions { sessions: sessions.len() })
        } else if of_peer >= MAX_PER_PEER {
            Some(Rejection::TooManyWithKey { sessions: of_peer })
        } else if !self.endpoint.peers.contains(peer) {
            Some(Rejection::Revoked)
        } else {
            None
        }
    }

    /// The logs kept of a peer's earlier session that fit its hello, or else the latest ones: if
    /// this end sent nothing, the peer has no log to name, but can still refer to what this end
    /// holds.
    fn take_kept(&self, peer: &PublicKey, hello: &Hello) -> Option<Logs> {
        let mut kept = self.lock_kept();
        let of_peer = |kept: &KeptLogs| kept.peer == *peer;
        let fitting = kept.iter().position(|kept| of_peer(kept) && kept.logs.fit(hello));
        let at = fitting.or_else(|| kept.iter().rposition(of_peer))?;
        Some(kept.remove(at).logs)
    }

    /// Log lines about a new session with a content cache of `log` bytes. `others`: how many
    /// sessions this peer, and all peers, have beside it.
    fn log_start(
        &self,
        peer: &PublicKey,
        label: &str,
        hello: &Hello,
        transport: &Transport,
        log: u64,
        others: (usize, usize),
    ) {
        let (address, over, agent) = (transport.path.address, transport.path.over, &hello.agent);
        info!(peer = label, key = %peer, %address, over, %agent, cache = log, "session established");
        if log < self.config.log / 4 {
            warn!(
                peer = label,
                cache = log,
                largest = self.config.log,
                sessions = others.1 + 1,
                "session starts with a small cache, because other sessions use the memory; it grows when memory is free, or raise --memory"
            );
        }
        self.endpoint.warn_if_peer_shares(hello.sharing, label);
        if others.0 > 0 {
            warn!(
                peer = label,
                sessions = others.0 + 1,
                "several clients use the same key; they share its memory but not their caches: give each client its own key"
            );
        }
    }

    /// Ends sessions that a peer has certainly lost when it comes with a new one, so that their
    /// memory and listeners are free again. Certainly lost are sessions without a transport, and
    /// the one whose logs the peer names. Others get a PING and end unless they answer. Returns the
    /// logs of the lost session that fits best.
    fn replace(&self, sessions: &mut Sessions, peer: PublicKey, hello: &Hello) -> Option<Logs> {
        let of_peer: Vec<_> = sessions.keys().filter(|(key, _)| *key == peer).copied().collect();
        let mut logs: Option<(bool, Instant, Logs)> = None;
        for id in of_peer {
            let Some(driver) = sessions.get(&id).cloned() else { continue };
            if driver.is_going_away() && driver.flow_count() > 0 {
                // Its process finishes them beside its successor, which may name the same logs: both
                // had them on disk. Cannot fail: the size is in range.
                driver.with(|session| session.set_log_limit(SMALLEST_LOG, Instant::now()).ok());
                continue;
            }
            let fits = driver.with(|session| session.fits(hello)).unwrap_or(false);
            if !fits && driver.with(|session| session.last_received()).flatten().is_some() {
                tokio::spawn(Shared::end_if_silent(driver));
                continue;
            }
            sessions.remove(&id);
            driver.with(Session::close);
            info!(
                peer = driver.label(),
                "an earlier session of this peer is lost; the new one replaces it"
            );
            if let Some(found) = driver.take_logs()
                && logs.as_ref().is_none_or(|(best, born, _)| (fits, driver.born) > (*best, *born))
            {
                logs = Some((fits, driver.born, found));
            }
        }
        logs.map(|(.., logs)| logs)
    }

    /// Ends a session whose peer has come back with another one, unless it answers a PING.
    async fn end_if_silent(driver: Arc<Driver>) {
        let asked = Instant::now();
        driver.with(|session| session.probe(asked));
        tokio::time::sleep(PROBE).await;
        let silent =
            |session: &mut Session| session.last_received().is_none_or(|heard| heard <= asked);
        if driver.with(silent).unwrap_or(false) {
            warn!(
                peer = driver.label(),
                "an earlier session of this peer does not answer; closing it"
            );
            driver.with(Session::close);
        }
    }

    /// Runs a session until it is over, then keeps its logs.
    async fn run(
        shared: Arc<Shared>,
        peer: PublicKey,
        id: SessionId,
        driver: Arc<Driver>,
        mut notices: Notices,
    ) {
        let mut phase = driver.phase();
        let (mut going_away, mut is_going) = (driver.phase(), false);
        loop {
            tokio::select! {
                Some(opened) = notices.opened.recv() => {
                    let egress = shared.egress.read().unwrap_or_else(PoisonError::into_inner).clone();
                    let own = shared.endpoint.peers.rules_of(&peer);
                    tokio::spawn(serve_flow(driver.clone(), opened, Rules { egress, own }));
                }
                // The client dials again.
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
            info!(peer = driver.label(), %why, "session closed");
        }
        driver.closed_transports().await;
        {
            // The peer may have started another session of this name after `replace` removed this
            // one.
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
            let of_peer = |kept: &KeptLogs| kept.peer == peer;
            if kept.iter().filter(|kept| of_peer(kept)).count() >= MAX_PER_PEER
                && let Some(oldest) = kept.iter().position(of_peer)
            {
                kept.remove(oldest);
            }
            kept.push(KeptLogs { peer, since: Instant::now(), logs });
        }
        shared.memory_changed.notify_one();
    }

    /// Ends sessions of peers whose key was revoked or has expired.
    pub(super) async fn watch_peers(shared: Arc<Shared>) {
        let mut changes = shared.endpoint.peers.watch();
        loop {
            for ((peer, _), driver) in shared.lock_sessions().iter() {
                if !shared.endpoint.peers.contains(peer) {
                    warn!(
                        peer = driver.label(),
                        "the peer's key was revoked or has expired; closing its session"
                    );
                    driver.with(Session::close);
                }
            }
            shared.lock_kept().retain(|kept| shared.endpoint.peers.contains(&kept.peer));
            #[cfg(unix)]
            if let Some(store) = shared.endpoint.store.clone() {
                let peers = shared.endpoint.peers.clone();
                let forget = move || store.forget(|peer| !peers.contains(peer));
                let _ = tokio::task::spawn_blocking(forget).await;
            }
            shared.memory_changed.notify_one();
            if !changes.changed().await {
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::endpoint::Endpoint;
    use crate::keys::{AuthorizedPeers, Peer, SecretKey};
    use crate::server::{ServeConfig, serve};
    use oncewire_session::Config;
    use std::sync::Barrier;
    use tokio::io::{AsyncReadExt, DuplexStream};

    /// Reads until the other end has closed.
    async fn closed(mut stream: DuplexStream) {
        while stream.read_u8().await.is_ok() {}
    }

    /// A client may send its first HELLO twice, on a second transport if it does not trust the
    /// first. Of two at once the later one replaces the earlier one's transport; were they two
    /// sessions, both transports would stay open, and one session would be in no list.
    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn two_hellos_of_one_name_at_once_are_one_session() {
        const ROUNDS: usize = 1000;
        let clients: Vec<_> =
            (0..ROUNDS).map(|_| SecretKey::generate().unwrap().public()).collect();
        let peers = AuthorizedPeers::new(clients.iter().map(|&client| Peer::from(client)));
        let server = serve(ServeConfig {
            endpoint: Endpoint {
                memory: 64 << 30,
                ..Endpoint::new(SecretKey::generate().unwrap(), peers)
            },
            listen: vec!["127.0.0.1:0".parse().unwrap()],
            max_sessions: 2 * ROUNDS,
        })
        .await
        .unwrap();
        let from = server.addresses()[0];
        for (round, &client) in clients.iter().enumerate() {
            let config = Config { random: [round as u64 + 1, 2, 3, 4], ..Config::default() };
            let mut session = Session::connect(config.build().unwrap(), None, Instant::now());
            session.attach(0, Instant::now());
            let mut hello = Vec::new();
            session.transmit(0, 1 << 20, Instant::now(), &mut hello);
            let (hello, _) = Hello::read(&hello).unwrap().unwrap();
            let together = Arc::new(Barrier::new(2));
            let [first, second] = [(); 2].map(|()| {
                let (here, there) = tokio::io::duplex(1 << 20);
                let (shared, hello) = (server.shared.clone(), hello.clone());
                let together = together.clone();
                let entering = tokio::task::spawn_blocking(move || {
                    let transport = Transport::new(there, "tcp", from);
                    together.wait();
                    let entered = shared.enter(client, &hello, transport, Vec::new());
                    assert!(entered.is_ok(), "{:?}", entered.err().map(|(why, ..)| why));
                });
                (here, entering)
            });
            first.1.await.unwrap();
            second.1.await.unwrap();
            // Fails by the test's time limit if neither is replaced.
            let replaced = async {
                tokio::select! {
                    () = closed(first.0) => {}
                    () = closed(second.0) => {}
                }
            };
            let limit = Duration::from_secs(60);
            tokio::time::timeout(limit, replaced).await.expect("one transport replaces the other");
            assert_eq!(server.shared.lock_sessions().len(), round + 1);
        }
        server.stop();
    }
}
