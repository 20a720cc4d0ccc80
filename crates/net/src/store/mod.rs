//! Content caches on disk: what sessions say about their logs goes to a store, and comes back after
//! a restart.
//!
//! One thread writes. A driver tells it that its session has something unwritten; the thread asks
//! the session for one piece after the other, under the driver's lock, and writes outside of it. So
//! nothing is queued, and a disk that is slower than the link loses content of the cache, never
//! time of a flow.

mod budget;
mod counts;
mod extents;
mod holder;
mod options;
mod parts;
mod peer_log;
mod reader;
mod record;
mod turns;
mod writer;

pub(crate) use holder::Holder;
pub use oncewire_flash::store::StoreError;
pub use options::{StoreKeyError, StoreOptions, StoreSecret};

use crate::keys::{PublicKey, SecretKey};
use crate::status::StoreStatus;
use crate::sync::lock;
use budget::Budget;
use counts::Counts;
use oncewire_flash::store::{LogName, Peer, Store};
use oncewire_session::{Config, Logs, Side, StoreKey, Unwritten};
use peer_log::PeerLog;
use reader::Reads;
use std::collections::{BTreeSet, HashMap};
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, OnceLock, Weak};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use tracing::{info, warn};

/// Logs that were given back are not given again so soon: a second session of the peer began at the
/// same time.
const AGAIN: Duration = Duration::from_secs(60);
/// How long a session may wait for the disk, before it has content that only memory keeps.
pub(crate) const PATIENCE: Duration = Duration::from_millis(if cfg!(test) { 200 } else { 5_000 });
/// Content that a session which is over leaves to be written, in bytes, at most.
const LEFT: usize = 16 << 20;

/// The content caches of an end, on disk. All clones are the same.
#[derive(Clone)]
pub struct ContentStore {
    shared: Arc<Shared>,
}

struct Shared {
    store: Store,
    options: StoreOptions,
    key: StoreKey,
    peers: Mutex<HashMap<Peer, Arc<Mutex<PeerLogs>>>>,
    drivers: Mutex<HashMap<u64, Weak<dyn Holder>>>,
    next: AtomicU64,
    queue: Mutex<Queue>,
    wake: Condvar,
    /// Notified when what was left has been written.
    settled: Condvar,
    thread: Mutex<Option<JoinHandle<()>>>,
    counts: Counts,
    /// How much may be written, if that is limited.
    budget: Option<Mutex<Budget>>,
    /// What sessions want to read.
    reads: Reads,
    /// Why nothing more is written.
    failure: OnceLock<String>,
}

/// What the writer does next.
#[derive(Default)]
struct Queue {
    ready: BTreeSet<(u64, Side)>,
    /// What sessions that are over left.
    left: Vec<(u64, PublicKey, Side, Vec<Unwritten>)>,
    /// The writer has taken some of that, and not written it yet.
    writes_left: bool,
    stop: bool,
}

/// Both logs of a peer.
struct PeerLogs {
    /// Number of the driver whose session they follow.
    owner: Option<u64>,
    /// When they were given back to a session last.
    given: Option<Instant>,
    logs: HashMap<Side, PeerLog>,
}

fn side_of(side: Side) -> oncewire_flash::store::Side {
    match side {
        Side::Sending => oncewire_flash::store::Side::Encoder,
        Side::Receiving => oncewire_flash::store::Side::Decoder,
    }
}

const SIDES: [Side; 2] = [Side::Sending, Side::Receiving];

impl fmt::Debug for ContentStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ContentStore").field("options", &self.shared.options).finish()
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        lock(&self.queue).stop = true;
        self.wake.notify_all();
    }
}

impl ContentStore {
    /// Opens the store of an end with this key, or makes one, and starts its thread.
    ///
    /// # Errors
    /// [`StoreError`] if the directory cannot be used.
    pub fn open(options: StoreOptions, secret: &SecretKey) -> Result<ContentStore, StoreError> {
        let key = options.secret.secret(secret);
        let (store, files) = Store::open(&options.dir, key.as_ref(), options.size)?;
        let mut peers: HashMap<Peer, PeerLogs> = HashMap::new();
        let mut readable = Vec::new();
        for file in files {
            match file.header {
                Ok(header) if header.peer == Peer::default() => {
                    return Err(StoreError::OfPacks { path: options.dir.clone() });
                }
                Ok(header) => readable.push((header.created, file.name, header)),
                Err(problem) => {
                    warn!(file = %file.path.display(), %problem, "a cache on disk cannot be read and stays as it is: `oncewire store forget` deletes it");
                }
            }
        }
        // A crash may have come between a new log and the end of the one before.
        readable.sort_by_key(|(created, name, _)| (*created, *name));
        for (_, name, header) in readable {
            let Some(side) = SIDES.into_iter().find(|&side| side_of(side) == header.side) else {
                continue;
            };
            let logs = &mut peers.entry(header.peer).or_insert_with(PeerLogs::new).logs;
            let log = PeerLog::new(header.peer, side, Some(name));
            if let Some(mut old) = logs.insert(side, log) {
                old.forget(&store)?;
            }
        }
        let peers = peers.into_iter().map(|(peer, logs)| (peer, Arc::new(Mutex::new(logs))));
        let key = StoreKey(store.numbers());
        let budget = options.writes.map(|day| Mutex::new(Budget::new(day, Instant::now())));
        let shared = Arc::new(Shared {
            budget,
            store,
            options,
            key,
            peers: Mutex::new(peers.collect()),
            drivers: Mutex::default(),
            next: AtomicU64::new(1),
            queue: Mutex::default(),
            wake: Condvar::new(),
            settled: Condvar::new(),
            thread: Mutex::default(),
            counts: Counts::default(),
            reads: Reads::default(),
            failure: OnceLock::new(),
        });
        let weak = Arc::downgrade(&shared);
        let thread = std::thread::Builder::new()
            .name("store".into())
            .spawn(move || writer::run(&weak))
            .map_err(|source| StoreError::Io {
                what: "start a thread for",
                path: shared.options.dir.clone(),
                source,
            })?;
        *lock(&shared.thread) = Some(thread);
        reader::start(&shared)?;
        Ok(ContentStore { shared })
    }

    /// For [`Config::store`].
    pub(crate) fn key(&self) -> StoreKey {
        self.shared.key
    }

    /// For [`Config::stored`].
    pub(crate) fn stored(&self) -> u64 {
        self.shared.options.log
    }

    /// Writes what sessions have, makes it durable, and ends the thread.
    pub fn close(&self) {
        lock(&self.shared.queue).stop = true;
        self.shared.wake.notify_all();
        if let Some(thread) = lock(&self.shared.thread).take() {
            let _ = thread.join();
        }
    }

    /// [`ContentStore::close`], and lets another process open the store. What sessions that are still
    /// open carry from now on is not kept.
    pub fn release(&self) {
        self.close();
        lock(&self.shared.peers).clear();
        self.shared.store.release();
    }

    /// The state, for `status`.
    pub fn status(&self) -> StoreStatus {
        let shared = &self.shared;
        let peers: Vec<_> = lock(&shared.peers).values().cloned().collect();
        let (read, device_written) = shared.store.traffic();
        let (lost, lost_ranges) = shared.counts.lost();
        let (written, repeated) = shared.counts.written();
        let [recalled_hour, recalled_day, recalled_older] = shared.counts.recalled();
        let mut status = StoreStatus {
            directory: shared.options.dir.display().to_string(),
            limit: shared.options.size,
            used: shared.store.used().unwrap_or(0),
            encrypted: shared.store.is_sealed(),
            peers: peers.len(),
            written,
            repeated,
            read,
            device_written,
            day_written: shared.counts.within_a_day(device_written, Instant::now()),
            recalled_hour,
            recalled_day,
            recalled_older,
            lost,
            lost_ranges,
            failed: shared.failure.get().is_some(),
            failure: shared.failure.get().cloned(),
            ..StoreStatus::default()
        };
        let now = peer_log::unix_time();
        for peer in peers {
            let mut logs = lock(&peer);
            status.pending += logs.logs.values().map(PeerLog::pending).sum::<u64>();
            for log in logs.logs.values_mut() {
                let gaps = log.gaps();
                let Some(log) = log.disk_log() else { continue };
                let fill = log.fill();
                status.held += (fill.tail - fill.low).saturating_sub(gaps);
                let age = log.oldest().map(|oldest| now.saturating_sub(oldest));
                status.oldest = status.oldest.max(age);
            }
        }
        status
    }

    /// A number for a driver, by which it calls later.
    pub(crate) fn register(&self, driver: Weak<dyn Holder>) -> u64 {
        let number = self.shared.next.fetch_add(1, Ordering::Relaxed);
        let mut drivers = lock(&self.shared.drivers);
        drivers.retain(|_, driver| driver.strong_count() > 0);
        drivers.insert(number, driver);
        number
    }

    /// A driver's session has something unwritten.
    pub(crate) fn ready(&self, driver: u64, side: Side) {
        if lock(&self.shared.queue).ready.insert((driver, side)) {
            self.shared.wake.notify_all();
        }
    }

    /// A driver's session is over: what it has not written is.
    pub(crate) fn leave(&self, driver: u64, peer: PublicKey, logs: &mut Logs) {
        let left = SIDES.map(|side| (side, take_left(|| logs.unwritten(side))));
        self.queue_left(driver, peer, left.into());
    }

    /// A driver's session is about to give up its logs, and the next one of the peer is to have them:
    /// what is on disk stays as it is, and this session goes on in memory.
    pub(crate) fn detach(&self, number: u64, driver: &dyn Holder) {
        let mut left = Vec::new();
        driver.with(|session| {
            for side in SIDES {
                left.push((side, take_left(|| session.unwritten(side))));
            }
            session.give_up_store();
        });
        lock(&self.shared.drivers).remove(&number);
        if let Some(peer) = driver.peer() {
            self.queue_left(number, peer, left);
        }
    }

    fn queue_left(&self, driver: u64, peer: PublicKey, left: Vec<(Side, Vec<Unwritten>)>) {
        // Even if there is nothing: the writer notes that the session is over.
        let left =
            left.into_iter().filter(|(side, left)| *side == Side::Sending || !left.is_empty());
        let left = left.map(|(side, left)| (driver, peer, side, left));
        let mut queue = lock(&self.shared.queue);
        // Nobody would write it.
        if !queue.stop {
            queue.left.extend(left);
        }
        drop(queue);
        self.shared.wake.notify_all();
    }

    /// The logs of a peer, back in memory: all of them are read. `again`: even if they were given
    /// back a moment ago, because the session that got them is over. `None` if there are none, or a
    /// session of the peer has them.
    pub(crate) fn restore(&self, peer: PublicKey, config: &Config, again: bool) -> Option<Logs> {
        let shared = &self.shared;
        if shared.failure.get().is_some() {
            return None;
        }
        shared.wait_for_left();
        let logs = lock(&shared.peers).get(&Peer(peer.0)).cloned()?;
        let mut logs = lock(&logs);
        let is_given = logs.given.is_some_and(|given| given.elapsed() < AGAIN);
        if (is_given && !again) || shared.is_alive(logs.owner) {
            return None;
        }
        let start = Instant::now();
        let mut finished = Vec::new();
        for log in logs.logs.values_mut() {
            match log.restore(&shared.store, config) {
                Ok(log) => finished.extend(log),
                Err(why) => {
                    warn!(%peer, %why, "a cache on disk is not used; the session begins an empty one");
                }
            }
        }
        (logs.owner, logs.given) = (None, Some(Instant::now()));
        if finished.is_empty() {
            return None;
        }
        let restored = Logs::restored(config, finished);
        let (bytes, seconds) = (restored.memory(), start.elapsed().as_secs_f64());
        info!(%peer, bytes, seconds, "cache read from disk");
        Some(restored)
    }

    /// Of these peers, the one whose logs were written last.
    pub(crate) fn latest(&self, peers: impl Fn(&PublicKey) -> bool) -> Option<PublicKey> {
        let known = lock(&self.shared.peers);
        let mut found: Vec<_> = known
            .iter()
            .map(|(peer, logs)| (PublicKey(peer.0), logs))
            .filter(|(peer, _)| peers(peer))
            .filter_map(|(peer, logs)| {
                let names: Vec<_> = lock(logs).logs.values().filter_map(PeerLog::name).collect();
                names
                    .iter()
                    .filter_map(|name| self.shared.store.modified(*name))
                    .max()
                    .map(|at| (at, peer))
            })
            .collect();
        found.sort();
        found.pop().map(|(_, peer)| peer)
    }

    /// Destroys the logs of peers of which this says so: their keys were revoked.
    pub(crate) fn forget(&self, is_gone: impl Fn(&PublicKey) -> bool) {
        let gone: Vec<_> = {
            let mut peers = lock(&self.shared.peers);
            let gone: Vec<_> =
                peers.keys().copied().filter(|peer| is_gone(&PublicKey(peer.0))).collect();
            gone.into_iter().filter_map(|peer| Some((peer, peers.remove(&peer)?))).collect()
        };
        for (peer, logs) in gone {
            let peer = PublicKey(peer.0);
            for log in lock(&logs).logs.values_mut() {
                match log.forget(&self.shared.store) {
                    Ok(()) => {
                        info!(%peer, "cache on disk deleted, because the peer's key is not authorized any more")
                    }
                    Err(why) => warn!(%peer, %why, "a cache on disk cannot be deleted"),
                }
            }
        }
    }
}

/// What is unwritten, up to [`LEFT`].
fn take_left(mut next: impl FnMut() -> Option<Unwritten>) -> Vec<Unwritten> {
    let (mut left, mut bytes) = (Vec::new(), 0);
    while bytes < LEFT
        && let Some(next) = next()
    {
        if let Unwritten::Content(piece) = &next {
            bytes += piece.bytes.len();
        }
        left.push(next);
    }
    left
}

impl PeerLogs {
    fn new() -> PeerLogs {
        PeerLogs { owner: None, given: None, logs: HashMap::new() }
    }
}

impl Shared {
    fn driver(&self, number: u64) -> Option<Arc<dyn Holder>> {
        lock(&self.drivers).get(&number)?.upgrade()
    }

    /// Waits until what sessions left is written: once their logs are given to another one, it would
    /// be dropped. A disk that is too slow for that is not waited for.
    fn wait_for_left(&self) {
        let waits = |queue: &mut Queue| queue.writes_left || !queue.left.is_empty();
        let queue = lock(&self.queue);
        let _ = self.settled.wait_timeout_while(queue, PATIENCE, waits);
    }

    /// Whether the session of a driver lasts.
    fn is_alive(&self, driver: Option<u64>) -> bool {
        driver.and_then(|number| self.driver(number)).is_some_and(|driver| driver.has_session())
    }

    /// Frees space: the logs of absent peers, those written longest ago first. Whether there was one.
    fn evict(&self, but: Peer) -> bool {
        let peers: Vec<_> =
            lock(&self.peers).iter().map(|(peer, logs)| (*peer, logs.clone())).collect();
        let mut oldest: Option<(std::time::SystemTime, Peer, LogName)> = None;
        for (peer, logs) in &peers {
            let Ok(logs) = logs.try_lock() else { continue };
            if *peer == but || self.is_alive(logs.owner) {
                continue;
            }
            for name in logs.logs.values().filter_map(PeerLog::name) {
                if let Some(at) = self.store.modified(name)
                    && oldest.is_none_or(|oldest| (at, *peer, name) < oldest)
                {
                    oldest = Some((at, *peer, name));
                }
            }
        }
        let Some((_, peer, name)) = oldest else { return false };
        let Some((_, logs)) = peers.iter().find(|(found, _)| *found == peer) else { return false };
        let mut logs = lock(logs);
        let log = logs.logs.values_mut().find(|log| log.name() == Some(name));
        let freed = log.is_some_and(|log| log.forget(&self.store).is_ok());
        if freed {
            info!(peer = %PublicKey(peer.0), "cache on disk deleted, to make room for that of another peer: raise --store-size to keep it");
        }
        freed
    }
}

#[cfg(test)]
mod tests;
