//! Frames that another thread writes while the session's thread searches the next blocks.
//!
//! That takes a processor that nothing else needs. So it is done for sessions that encode for most of
//! their time, or whose threads do, as long as a processor is left beside those on which sessions of
//! this process encode and decode, and by no more threads than half of the processors. At level 1 a frame takes little
//! more time to write than to hand over, so two processors have to be left: with two that other
//! programs used as well, new content took 4 to 10 % more time otherwise, and 0.81 to 0.98 of the time
//! at level 3 (docs/PERFORMANCE.md, "Beside stunnel").

use super::Driver;
use oncewire_session::{Session, WriteJob};
use std::sync::Arc;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

/// Threads that may write at the same time.
struct Permits {
    processors: usize,
    used: AtomicUsize,
    /// Threads that encode, write or decode now.
    busy: AtomicUsize,
}

static PERMITS: LazyLock<Permits> =
    LazyLock::new(|| Permits::new(std::thread::available_parallelism().map_or(1, usize::from)));

impl Permits {
    const fn new(processors: usize) -> Permits {
        Permits { processors, used: AtomicUsize::new(0), busy: AtomicUsize::new(0) }
    }
}

/// A thread encodes, writes or decodes, until this is dropped.
pub(super) struct Busy(&'static Permits);

impl Busy {
    pub(super) fn begin() -> Busy {
        Busy::of(&PERMITS)
    }

    fn of(permits: &'static Permits) -> Busy {
        permits.busy.fetch_add(1, Ordering::Relaxed);
        Busy(permits)
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        self.0.busy.fetch_sub(1, Ordering::Relaxed);
    }
}

/// One thread may write, until this is dropped.
pub(super) struct Permit(&'static Permits);

impl Permit {
    /// For a thread that is about to encode, at level 1 if it `hurries`. `None` if there are enough
    /// threads that write, or if others keep the processors busy.
    pub(super) fn get(hurries: bool) -> Option<Permit> {
        Permit::of(&PERMITS, hurries)
    }

    fn of(permits: &'static Permits, hurries: bool) -> Option<Permit> {
        let own = if hurries { 3 } else { 2 };
        if permits.busy.load(Ordering::Relaxed) + own > permits.processors {
            return None;
        }
        let more = |used| (used < permits.processors / 2).then_some(used + 1);
        let used = permits.used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more);
        used.ok().map(|_| Permit(permits))
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.0.used.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Driver {
    /// Writes the frames of blocks that were found, on another thread if there is a permit.
    pub(super) fn write_apart(self: &Arc<Driver>, permit: Option<Permit>) {
        let Some(permit) = permit else { return self.write_frames() };
        let mut writes = Writes(Some(self.clone()));
        tokio::task::spawn_blocking(move || {
            if let Some(driver) = writes.0.take() {
                driver.write_frames();
            }
            drop(permit);
        });
    }

    /// Writes all frames that wait for that.
    fn write_frames(&self) {
        let mut next = self.with(|session| session.next_write(Instant::now())).flatten();
        while let Some(job) = next {
            let mut lent = LentWriter { driver: self, job: Some(job) };
            lent.run();
            next = lent.give_back();
        }
    }
}

/// A thread that is to write. If it never runs, nobody would, so the session ends.
struct Writes(Option<Arc<Driver>>);

impl Drop for Writes {
    fn drop(&mut self) {
        if let Some(driver) = self.0.take() {
            driver.with(Session::encoder_lost);
        }
    }
}

/// A writer that is out with a frame. Were it lost in a panic, the session could never send again, so
/// it ends.
struct LentWriter<'a> {
    driver: &'a Driver,
    job: Option<WriteJob>,
}

impl LentWriter<'_> {
    fn run(&mut self) {
        let _busy = Busy::begin();
        if let Some(job) = &mut self.job {
            job.run();
        }
    }

    /// Returns the writer, and takes the next frame.
    fn give_back(&mut self) -> Option<WriteJob> {
        let job = self.job.take()?;
        self.driver.with(|session| session.written(job, Instant::now())).flatten()
    }
}

impl Drop for LentWriter<'_> {
    fn drop(&mut self) {
        if self.job.is_some() {
            self.driver.with(Session::encoder_lost);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_more_threads_write_than_there_are_permits() {
        static FOUR: Permits = Permits::new(4);
        let permits = [Permit::of(&FOUR, false), Permit::of(&FOUR, true)];
        assert!(permits.iter().all(Option::is_some) && Permit::of(&FOUR, false).is_none());
        drop(permits);
        assert!(Permit::of(&FOUR, false).is_some());
        static ONE: Permits = Permits::new(1);
        assert!(Permit::of(&ONE, false).is_none());
    }

    #[test]
    fn nothing_is_written_apart_where_all_processors_are_busy() {
        static TWO: Permits = Permits::new(2);
        let other = Busy::of(&TWO);
        assert!(Permit::of(&TWO, false).is_none(), "this thread and the other one");
        drop(other);
        assert!(Permit::of(&TWO, true).is_none(), "it is not worth the last one");
        assert!(Permit::of(&TWO, false).is_some());
    }
}
