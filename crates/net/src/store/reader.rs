//! The threads that read what lies only on disk, while sessions last; and, when there is nothing
//! else to do, what an earlier process stored, so that it is found.

use super::Shared;
use super::peer_log::unix_time;
use super::turns::{Pushed, Turns, Work};
use crate::sync::lock;
use oncewire_flash::store::layout::UNIT_CONTENT;
use oncewire_flash::store::{Peer, StoreError};
use oncewire_session::{FetchId, Side};
use std::ops::Range;
use std::sync::{Arc, Condvar, Mutex, PoisonError, Weak};
use std::time::{Duration, Instant};

/// Threads, so that some sessions' content is read while that of others is slow to come.
const THREADS: usize = 4;
/// How long content is waited for that is not written yet: no session waits longer.
const WRITES: Duration = Duration::from_millis(400);
/// Content that is read at once so that it is found, in bytes: sessions wait for that, too.
const FOUND: u64 = 4 * UNIT_CONTENT as u64;
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
    queue: Mutex<Turns<Read>>,
    /// Requests for content that is not written yet.
    early: Mutex<Vec<Read>>,
    wake: Condvar,
}

impl super::ContentStore {
    /// A driver's session wants to read something. What it does not get in time counts as lost.
    pub(crate) fn fetch(&self, driver: u64, id: FetchId, side: Side, range: Range<u64>) {
        let read = Read { driver, id, side, range, since: Instant::now() };
        if lock(&self.shared.reads.queue).push(driver, read) == Pushed::Turn {
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
        let work = {
            let mut queue = lock(&shared.reads.queue);
            queue.begin().or_else(|| {
                let waited = shared.reads.wake.wait_timeout(queue, SLEEP);
                waited.unwrap_or_else(PoisonError::into_inner).0.begin()
            })
        };
        let Some(work) = work else { continue };
        let driver = work.driver();
        let has_more = match work {
            Work::Read(_, read) => {
                shared.read(read);
                false
            }
            Work::Find(driver) => shared.find(driver),
        };
        lock(&shared.reads.queue).end(driver);
        if has_more {
            shared.reads.find(driver);
        }
    }
}

impl Reads {
    /// A driver's session may have content that an earlier process stored.
    pub(super) fn find(&self, driver: u64) {
        lock(&self.queue).find(driver);
        self.wake.notify_one();
    }
}

impl Shared {
    /// Reads some of what an earlier process stored, and nothing leads to. Returns whether there may
    /// be more.
    fn find(&self, number: u64) -> bool {
        let found = || {
            let driver = self.driver(number)?;
            let (id, range) = driver.with(|session| session.unhooked())??;
            let logs = lock(&self.peers).get(&Peer(driver.peer()?.0)).cloned()?;
            let found = {
                let mut logs = lock(&logs);
                let owned = logs.owner == Some(number);
                let log = logs.logs.get_mut(&Side::Sending).filter(|_| owned)?;
                log.newest(id, range, FOUND)?
            };
            driver.with(|session| {
                session.hook(id, found.start, found.content.as_deref(), &found.owners);
            })
        };
        found().is_some()
    }

    /// The writer has written something.
    pub(super) fn retry_reads(&self) {
        let early = std::mem::take(&mut *lock(&self.reads.early));
        if !early.is_empty() {
            let mut queue = lock(&self.reads.queue);
            // What there is no room for counts as lost in time.
            early.into_iter().for_each(|read| {
                queue.push(read.driver, read);
            });
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
            let is_early = log.end().is_some_and(|end| end < read.range.end);
            // With the lock, so that the writer cannot write it unnoticed.
            if is_early && read.since.elapsed() < WRITES {
                lock(&self.reads.early).push(read.clone());
                return Some(None);
            }
            let bytes = log.read(read.range.clone());
            match &bytes {
                None => self.counts.lose(&read.range),
                Some(_) if read.side == Side::Sending => {
                    let at = log.written_at(read.range.start);
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
