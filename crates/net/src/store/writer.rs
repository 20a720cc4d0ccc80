//! The thread that writes.

use super::peer_log::PeerLog;
use super::{Holder, PeerLogs, Shared};
use crate::keys::PublicKey;
use crate::sync::lock;
use oncewire_flash::store::{Peer, StoreError};
use oncewire_session::{Session, Side, Unwritten};
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::{Duration, Instant};
use tracing::{debug, warn};

/// Pieces that are written for one session before others have their turn.
const TURN: usize = 64;
/// Content that is taken from a session at once, in bytes. Where sessions keep the processors busy, each
/// taking waits for its turn, and content that waits until its log has no room for it is not stored.
const BATCH: usize = 512 << 10;
/// Content that is not stored is told to the session in ranges of this many bytes, or when more
/// is stored behind it.
const TELL: u64 = 4 << 20;
/// How long it sleeps when nothing is to be done, so that it notices that its store is gone.
const SLEEP: Duration = Duration::from_secs(1);

/// Writes until the store is closed or gone.
pub(super) fn run(shared: &Weak<Shared>) {
    while let Some(shared) = shared.upgrade() {
        let (ready, left, stop) = wait(&shared);
        for (driver, side) in ready {
            shared.pull(driver, side, if stop { usize::MAX } else { TURN });
        }
        for (driver, peer, side, left) in left {
            shared.write(driver, None, peer, side, left.into_iter());
        }
        lock(&shared.queue).writes_left = false;
        shared.settled.notify_all();
        shared.retry_reads();
        shared.counts.within_a_day(shared.store.traffic().1, Instant::now());
        shared.commit(stop);
        if stop {
            return;
        }
    }
}

type Work = (Vec<(u64, Side)>, Vec<(u64, PublicKey, Side, Vec<Unwritten>)>, bool);

/// Waits for something to do, or until a commit is due.
fn wait(shared: &Shared) -> Work {
    let due = shared.due();
    let mut queue = lock(&shared.queue);
    if queue.ready.is_empty() && queue.left.is_empty() && !queue.stop {
        let time =
            due.map_or(SLEEP, |due| due.saturating_duration_since(Instant::now()).min(SLEEP));
        queue = shared.wake.wait_timeout(queue, time).unwrap_or_else(PoisonError::into_inner).0;
    }
    if queue.stop {
        // Once more, whatever was said.
        let numbers: Vec<_> = lock(&shared.drivers).keys().copied().collect();
        let all = numbers.into_iter().flat_map(|driver| super::SIDES.map(|side| (driver, side)));
        queue.ready.extend(all);
    }
    queue.writes_left = !queue.left.is_empty();
    let ready = std::mem::take(&mut queue.ready).into_iter().collect();
    (ready, std::mem::take(&mut queue.left), queue.stop)
}

/// Takes what a session has for one of its logs: at most so many steps, and [`BATCH`].
fn take(session: &mut Session, side: Side, most: usize, into: &mut VecDeque<Unwritten>) {
    let mut bytes = 0;
    while bytes < BATCH && into.len() < most {
        let Some(next) = session.unwritten(side) else { return };
        if let Unwritten::Content(piece) = &next {
            bytes += piece.bytes.len();
        }
        into.push_back(next);
    }
}

impl Shared {
    /// Asks a session what is unwritten, and writes that.
    fn pull(&self, number: u64, side: Side, most: usize) {
        let Some(driver) = self.driver(number) else { return };
        let Some(peer) = driver.peer() else { return };
        if self.failure.get().is_some() {
            driver.with(Session::give_up_store);
            return;
        }
        let (mut count, mut taken) = (0, VecDeque::new());
        let next = std::iter::from_fn(|| {
            if taken.is_empty() && count < most {
                driver.with(|session| take(session, side, most - count, &mut taken));
                count += taken.len();
            }
            taken.pop_front()
        });
        self.write(number, Some(&*driver), peer, side, next);
        if count >= most {
            lock(&self.queue).ready.insert((number, side));
        }
    }

    /// Writes what a session says about one of its logs.
    fn write(
        &self,
        number: u64,
        driver: Option<&dyn Holder>,
        peer: PublicKey,
        side: Side,
        next: impl Iterator<Item = Unwritten>,
    ) {
        let peer = Peer(peer.0);
        let give_up = || driver.map(|driver| driver.with(Session::give_up_store));
        let logs = lock(&self.peers)
            .entry(peer)
            .or_insert_with(|| Arc::new(Mutex::new(PeerLogs::new())))
            .clone();
        if driver.is_none() {
            // All of it is on disk soon, and memory may be needed elsewhere before the peer is back.
            lock(&logs).given = None;
        }
        let mut gone = Vec::new();
        for next in next {
            let done = {
                let mut logs = lock(&logs);
                if logs.owner != Some(number) {
                    // What an earlier session left, or a second session of the peer.
                    if driver.is_none() || self.is_alive(logs.owner) {
                        debug!("another session of this peer has its cache on disk");
                        drop(logs);
                        give_up();
                        return;
                    }
                    logs.owner = Some(number);
                    logs.logs.values_mut().for_each(PeerLog::tell_all);
                    if self.options.log > 0 {
                        self.reads.find(number);
                    }
                }
                let log = logs.logs.entry(side).or_insert_with(|| PeerLog::new(peer, side, None));
                let done = self.apply(log, peer, next);
                let least = if log.passes() { TELL } else { 1 };
                gone.extend(log.take_gone(least));
                gone.extend(log.take_overwritten());
                done
            };
            if let Some(driver) = driver {
                for range in gone.drain(..) {
                    driver.with(|session| session.give_up(side, range));
                }
            }
            match done {
                Ok(Some(epoch)) => {
                    if let Some(driver) = driver {
                        driver.with(|session| session.committed(epoch));
                    }
                }
                Ok(None) => {}
                Err(why) => {
                    give_up();
                    self.fail(PublicKey(peer.0), &why);
                    return;
                }
            }
        }
    }

    fn apply(
        &self,
        log: &mut PeerLog,
        peer: Peer,
        next: Unwritten,
    ) -> Result<Option<oncewire_session::Epoch>, StoreError> {
        if let Unwritten::Content(piece) = &next {
            let (stored, bytes) = (log.end(), piece.bytes.len() as u64);
            let is_first = !log.passes();
            let is_over = stored.is_some() && self.is_over_budget() && !log.repeats(piece);
            if is_over && log.pass(piece) {
                self.counts.pass(bytes, is_first);
                return Ok(None);
            }
            if let Some(tail) = stored {
                let end = piece.offset - piece.padding;
                if end > tail && !log.passes() {
                    self.counts.lose(&(tail..end));
                }
                let done = log.apply(&self.store, self.options.log, next, Instant::now());
                if done.is_ok() {
                    self.counts.write(bytes - log.repeated(), log.repeated());
                }
                return done;
            }
        }
        let again = matches!(next, Unwritten::Begin(_)).then(|| next.clone());
        let mut done = log.apply(&self.store, self.options.log, next, Instant::now());
        while let (Err(StoreError::OverQuota { .. }), Some(next)) = (&done, &again) {
            if !self.evict(peer) {
                break;
            }
            done = log.apply(&self.store, self.options.log, next.clone(), Instant::now());
        }
        done
    }

    /// Whether more than `--store-writes` would be written.
    fn is_over_budget(&self) -> bool {
        let Some(budget) = &self.budget else { return false };
        lock(budget).is_over(self.store.traffic().1, Instant::now())
    }

    /// Without its disk, the tunnel goes on in memory, and says so once.
    fn fail(&self, peer: PublicKey, why: &StoreError) {
        if let StoreError::OverQuota { .. } | StoreError::Range(_) = why {
            warn!(%peer, %why, "this peer's cache is kept in memory only: raise --store-size, or lower --memory at both ends");
            return;
        }
        if self.failure.set(why.to_string()).is_ok() {
            warn!(%why, "caches are in memory only from now on; what was stored is used after a restart");
        }
    }

    fn all_logs(&self) -> Vec<(Peer, Arc<Mutex<PeerLogs>>)> {
        lock(&self.peers).iter().map(|(peer, logs)| (*peer, logs.clone())).collect()
    }

    fn due(&self) -> Option<Instant> {
        let due = |(_, logs): (Peer, Arc<Mutex<PeerLogs>>)| {
            lock(&logs).logs.values().filter_map(PeerLog::due).min()
        };
        self.all_logs().into_iter().filter_map(due).min()
    }

    /// Commits what is due, or everything.
    fn commit(&self, all: bool) {
        let now = Instant::now();
        for (peer, logs) in self.all_logs() {
            if self.failure.get().is_some() {
                return;
            }
            let (owner, done) = {
                let mut logs = lock(&logs);
                let due = |log: &&mut PeerLog| {
                    log.due().is_some_and(|due| all || due <= now) || (all && log.is_behind())
                };
                let done = logs.logs.values_mut().filter(due).try_for_each(PeerLog::commit);
                (logs.owner, done)
            };
            if let Err(why) = done {
                if let Some(driver) = owner.and_then(|owner| self.driver(owner)) {
                    driver.with(Session::give_up_store);
                }
                self.fail(PublicKey(peer.0), &why);
            }
        }
    }
}
