//! The threads that read what lies only on disk, while sessions last.

use super::Shared;
use super::peer_log::unix_time;
use crate::sync::lock;
use oncewire_flash::store::{Peer, StoreError};
use oncewire_session::{FetchId, Side};
use std::collections::VecDeque;
use std::ops::Range;
use std::sync::{Arc, Condvar, Mutex, PoisonError, Weak};
use std::time::{Duration, Instant};

/// Threads: two sessions read while a third one's disk is slow.
const THREADS: usize = 2;
/// Requests that wait, at most. A session has at most 64 and one for each lane.
const MOST: usize = 4096;
/// How long content is waited for that is not written yet: no session waits longer.
const WRITES: Duration = Duration::from_millis(400);
/// How long a thread sleeps when nothing is to be read, so that it notices that its store is gone.
const SLEEP: Duration = Duration::from_secs(1);

/// A request of a driver's session.
#[derive(Clone)]
struct Read {
    driver: u64,
    id: FetchId,
    side: Side,
    range: Range<u64>,
    since: Instant,
}

/// What is to be read.
#[derive(Default)]
pub(super) struct Reads {
    queue: Mutex<VecDeque<Read>>,
    /// Requests for content that is not written yet.
    early: Mutex<Vec<Read>>,
    wake: Condvar,
}

impl super::ContentStore {
    /// A driver's session wants to read something. What it does not get in time counts as lost.
    pub(crate) fn fetch(&self, driver: u64, id: FetchId, side: Side, range: Range<u64>) {
        let mut queue = lock(&self.shared.reads.queue);
        if queue.len() < MOST {
            queue.push_back(Read { driver, id, side, range, since: Instant::now() });
            self.shared.reads.wake.notify_one();
        }
    }
}

/// Starts the threads, which end when the store is gone.
pub(super) fn start(shared: &Arc<Shared>) -> Result<(), StoreError> {
    for nth in 0..if shared.options.log > 0 { THREADS } else { 0 } {
        let weak = Arc::downgrade(shared);
        let thread = std::thread::Builder::new().name(format!("store-read-{nth}"));
        thread.spawn(move || run(&weak)).map_err(|source| StoreError::Io {
            what: "start a thread for",
            path: shared.options.dir.clone(),
            source,
        })?;
    }
    Ok(())
}

fn run(shared: &Weak<Shared>) {
    while let Some(shared) = shared.upgrade() {
        let next = {
            let mut queue = lock(&shared.reads.queue);
            if queue.is_empty() {
                let waited = shared.reads.wake.wait_timeout(queue, SLEEP);
                queue = waited.unwrap_or_else(PoisonError::into_inner).0;
            }
            queue.pop_front()
        };
        if let Some(read) = next {
            shared.read(read);
        }
    }
}

impl Shared {
    /// The writer has written something.
    pub(super) fn retry_reads(&self) {
        let early = std::mem::take(&mut *lock(&self.reads.early));
        if !early.is_empty() {
            lock(&self.reads.queue).extend(early);
            self.reads.wake.notify_all();
        }
    }

    fn read(&self, read: Read) {
        let Some(driver) = self.driver(read.driver) else { return };
        let logs = driver.peer().and_then(|peer| lock(&self.peers).get(&Peer(peer.0)).cloned());
        let bytes = logs.and_then(|logs| {
            let mut logs = lock(&logs);
            let owned = logs.owner == Some(read.driver);
            let log = logs.logs.get_mut(&read.side).filter(|_| owned)?;
            let is_early = log.disk_log().is_some_and(|log| log.fill().tail < read.range.end);
            // With the lock, so that the writer cannot write it unnoticed.
            if is_early && read.since.elapsed() < WRITES {
                lock(&self.reads.early).push(read.clone());
                return Some(None);
            }
            let bytes = log.read(read.range.clone());
            match &bytes {
                None => self.counts.lose(&read.range),
                Some(_) if read.side == Side::Sending => {
                    let at = log.disk_log().and_then(|log| log.written_at(read.range.start));
                    let age = at.map(|at| unix_time().saturating_sub(at));
                    self.counts.recall(read.range.end - read.range.start, age);
                }
                Some(_) => {}
            }
            bytes.map(Some)
        });
        if bytes == Some(None) {
            return;
        }
        driver.with(|session| session.supply(read.id, bytes.flatten(), Instant::now()));
        driver.decode();
    }
}
