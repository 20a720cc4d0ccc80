//! Reads in flight: threads that each read a page at a time.
//!
//! A drive answers many reads at the same time, so one that waits for each answer gets a small part
//! of its throughput. Measured on a virtual disk with `O_DIRECT`: 13,300 reads a second with one
//! thread, 56,600 with 16 and 65,700 with 64; io_uring by a crate that is safe outside had 16,700,
//! 50,500 and 64,100 at the same depths, and costs 37 crates.

use super::{Device, DeviceError, PageBuffer};
use std::collections::VecDeque;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{Builder, JoinHandle};

/// Stack of a thread, in bytes. A read needs little.
const STACK: usize = 128 << 10;

/// Threads that read pages of a device.
pub(crate) struct Pool {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
}

struct Shared {
    device: Arc<dyn Device>,
    queue: Mutex<Queue>,
    wake: Condvar,
}

#[derive(Default)]
struct Queue {
    jobs: VecDeque<(Arc<Finished>, Job)>,
    /// Threads that wait.
    idle: usize,
    closed: bool,
}

/// A page to read.
#[derive(Debug)]
pub(crate) struct Job {
    /// Offset in bytes.
    pub(crate) at: u64,
    /// For the caller.
    pub(crate) tag: usize,
    pub(crate) page: Box<PageBuffer>,
    pub(crate) result: Result<(), DeviceError>,
}

/// Where a caller finds its pages.
struct Finished {
    jobs: Mutex<Vec<Job>>,
    wake: Condvar,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Pool {
    /// Starts threads: as many as this, or fewer if the system has no more.
    ///
    /// # Errors
    ///
    /// If none can be started.
    pub(crate) fn new(device: Arc<dyn Device>, threads: usize) -> io::Result<Pool> {
        let queue = Mutex::new(Queue::default());
        let shared = Arc::new(Shared { device, queue, wake: Condvar::new() });
        let mut pool = Pool { shared, threads: Vec::with_capacity(threads) };
        for _ in 0..threads {
            let shared = pool.shared.clone();
            let thread = Builder::new().name("index-read".into()).stack_size(STACK);
            match thread.spawn(move || shared.work()) {
                Ok(handle) => pool.threads.push(handle),
                Err(error) if pool.threads.is_empty() => return Err(error),
                Err(_) => break,
            }
        }
        Ok(pool)
    }

    /// A place to read through. Each caller has one, so callers do not wait for each other.
    /// It may have `most` reads in flight.
    pub(crate) fn reader(&self, most: usize) -> Reader<'_> {
        let finished = Finished { jobs: Vec::with_capacity(most).into(), wake: Condvar::new() };
        Reader { pool: self, finished: Arc::new(finished), in_flight: 0 }
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        lock(&self.shared.queue).closed = true;
        self.shared.wake.notify_all();
        for thread in self.threads.drain(..) {
            // It catches panics of the device, so it has none.
            let _ = thread.join();
        }
    }
}

impl Shared {
    fn work(&self) {
        let mut queue = lock(&self.queue);
        loop {
            let Some((finished, mut job)) = queue.jobs.pop_front() else {
                if queue.closed {
                    return;
                }
                queue.idle += 1;
                queue = self.wake.wait(queue).unwrap_or_else(PoisonError::into_inner);
                queue.idle -= 1;
                continue;
            };
            drop(queue);
            let read = || self.device.read(job.at, &mut job.page.0);
            // A caller must not wait forever for a device that panicked.
            job.result = catch_unwind(AssertUnwindSafe(read)).unwrap_or_else(|_| {
                let source = io::Error::other("the device panicked");
                Err(DeviceError::Io { what: "read", at: job.at, len: job.page.0.len(), source })
            });
            let mut jobs = lock(&finished.jobs);
            jobs.push(job);
            // The caller waits only when there are none.
            let first = jobs.len() == 1;
            drop(jobs);
            if first {
                finished.wake.notify_one();
            }
            queue = lock(&self.queue);
        }
    }
}

/// Reads of one caller.
pub(crate) struct Reader<'a> {
    pool: &'a Pool,
    finished: Arc<Finished>,
    in_flight: usize,
}

impl Reader<'_> {
    /// Starts reads. Empties `jobs`.
    pub(crate) fn start(&mut self, jobs: &mut Vec<Job>) {
        if jobs.is_empty() {
            return;
        }
        self.in_flight += jobs.len();
        let mut queue = lock(&self.pool.shared.queue);
        let wake = jobs.len().min(queue.idle);
        queue.jobs.extend(jobs.drain(..).map(|job| (self.finished.clone(), job)));
        drop(queue);
        (0..wake).for_each(|_| self.pool.shared.wake.notify_one());
    }

    /// Reads that were started and not returned.
    pub(crate) fn in_flight(&self) -> usize {
        self.in_flight
    }

    /// Waits until a read is finished, and puts all that are into `done`, which must be empty; none
    /// if none is in flight. The memory of `done` is exchanged, so that no thread allocates.
    pub(crate) fn wait(&mut self, done: &mut Vec<Job>) {
        if self.in_flight == 0 {
            return;
        }
        let mut jobs = lock(&self.finished.jobs);
        while jobs.is_empty() {
            jobs = self.finished.wake.wait(jobs).unwrap_or_else(PoisonError::into_inner);
        }
        std::mem::swap(&mut *jobs, done);
        self.in_flight -= done.len();
    }
}

impl Drop for Reader<'_> {
    /// A thread that delivered the last page may hold `finished` for a moment longer. The memory for
    /// pages is not its to free.
    fn drop(&mut self) {
        std::mem::take(&mut *lock(&self.finished.jobs));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::{Memory, PAGE};

    /// A device that panics at one page.
    struct Panics(Memory);

    impl Device for Panics {
        fn size(&self) -> u64 {
            self.0.size()
        }
        fn read(&self, at: u64, into: &mut [u8]) -> Result<(), DeviceError> {
            assert_ne!(at, 3 * PAGE as u64, "a panic that was ordered");
            self.0.read(at, into)
        }
        fn write(&self, at: u64, bytes: &[u8]) -> Result<(), DeviceError> {
            self.0.write(at, bytes)
        }
        fn sync(&self) -> Result<(), DeviceError> {
            Ok(())
        }
    }

    #[test]
    fn every_page_arrives_once_at_its_caller() {
        let memory = Memory::new(8 * PAGE);
        (0..8).for_each(|n| memory.write(n * PAGE as u64, &[n as u8; PAGE]).expect("writes"));
        let pool = Pool::new(Arc::new(Panics(memory)), 5).expect("threads");
        std::thread::scope(|scope| {
            for caller in 0..3 {
                let pool = &pool;
                scope.spawn(move || {
                    let mut reader = pool.reader(200);
                    let mut done = Vec::with_capacity(200);
                    reader.wait(&mut done);
                    assert!(done.is_empty());
                    let job = |tag: usize| Job {
                        at: ((tag + caller) % 9 * PAGE) as u64,
                        tag,
                        page: Box::default(),
                        result: Ok(()),
                    };
                    let mut seen = [false; 200];
                    for half in [0..100, 100..200] {
                        reader.start(&mut half.map(job).collect());
                    }
                    while reader.in_flight() > 0 {
                        reader.wait(&mut done);
                        for job in done.drain(..) {
                            assert!(!std::mem::replace(&mut seen[job.tag], true));
                            let page = (job.tag + caller) % 9;
                            // One panics, and one is beyond the end.
                            assert_eq!(job.result.is_ok(), page != 3 && page != 8, "{page}");
                            assert!(job.result.is_err() || job.page.0 == [page as u8; PAGE]);
                        }
                    }
                    assert!(seen.iter().all(|seen| *seen));
                });
            }
        });
    }
}
