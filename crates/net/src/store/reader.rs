//! The threads that read what lies only on disk, while sessions last.

use super::Shared;
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
/// How long a thread sleeps when nothing is to be read, so that it notices that its store is gone.
const SLEEP: Duration = Duration::from_secs(1);

/// A request of a driver's session.
struct Read {
    driver: u64,
    id: FetchId,
    side: Side,
    range: Range<u64>,
}

/// What is to be read.
#[derive(Default)]
pub(super) struct Reads {
    queue: Mutex<VecDeque<Read>>,
    wake: Condvar,
}

impl super::ContentStore {
    /// A driver's session wants to read something. What it does not get in time counts as lost.
    pub(crate) fn fetch(&self, driver: u64, id: FetchId, side: Side, range: Range<u64>) {
        let mut queue = lock(&self.shared.reads.queue);
        if queue.len() < MOST {
            queue.push_back(Read { driver, id, side, range });
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
    fn read(&self, Read { driver: number, id, side, range }: Read) {
        let Some(driver) = self.driver(number) else { return };
        let bytes = driver.peer().and_then(|peer| {
            let logs = lock(&self.peers).get(&Peer(peer.0)).cloned()?;
            let mut logs = lock(&logs);
            let owned = logs.owner == Some(number);
            logs.logs.get_mut(&side).filter(|_| owned)?.read(range)
        });
        driver.with(|session| session.supply(id, bytes, Instant::now()));
        driver.decode();
    }
}
