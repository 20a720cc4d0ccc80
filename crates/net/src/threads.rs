//! The threads that a server's sessions run on.
//!
//! Each session runs on one thread, with its sockets and timers: waking another thread takes longer
//! than most of what a session does at once. Listeners and handshakes run elsewhere.

use oncewire_session::ThreadLoad;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use tokio::runtime::{Builder, Handle};
use tokio::sync::oneshot;

/// Threads with a runtime each, until they are dropped.
pub(crate) struct SessionThreads {
    threads: Vec<Thread>,
}

struct Thread {
    handle: Handle,
    sessions: Arc<AtomicUsize>,
    load: ThreadLoad,
    /// Dropping it ends the thread.
    _stop: Option<oneshot::Sender<()>>,
}

/// The thread of a session. It counts as that until this is dropped.
pub(crate) struct Seat {
    pub(crate) handle: Handle,
    /// What the thread's sessions encode.
    pub(crate) load: ThreadLoad,
    sessions: Arc<AtomicUsize>,
}

impl SessionThreads {
    /// The caller's runtime, for all sessions.
    pub(crate) fn here() -> SessionThreads {
        let (handle, sessions, load) = (Handle::current(), Arc::default(), ThreadLoad::default());
        SessionThreads { threads: vec![Thread { handle, sessions, load, _stop: None }] }
    }

    /// Starts `count` threads, at least one.
    ///
    /// # Errors
    /// The system's, if it has no threads, timers or the like.
    pub(crate) fn start(count: usize) -> io::Result<SessionThreads> {
        let threads = (0..count.max(1)).map(|_| Thread::start()).collect::<io::Result<_>>()?;
        Ok(SessionThreads { threads })
    }

    /// All threads.
    pub(crate) fn handles(&self) -> Vec<Handle> {
        self.threads.iter().map(|thread| thread.handle.clone()).collect()
    }

    /// The thread with the fewest sessions, for one more.
    pub(crate) fn seat(&self) -> Seat {
        let fewest = self.threads.iter().min_by_key(|one| one.sessions.load(Ordering::Relaxed));
        // Cannot fail: there is at least one.
        let thread = fewest.unwrap_or(&self.threads[0]);
        thread.sessions.fetch_add(1, Ordering::Relaxed);
        let (handle, load) = (thread.handle.clone(), thread.load.clone());
        Seat { handle, load, sessions: thread.sessions.clone() }
    }
}

impl Thread {
    fn start() -> io::Result<Thread> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let handle = runtime.handle().clone();
        let (stop, stopped) = oneshot::channel();
        std::thread::Builder::new().name("session".into()).spawn(move || {
            let _ = runtime.block_on(stopped);
            // Name look-ups may still be in progress; do not wait for them.
            runtime.shutdown_background();
        })?;
        let (sessions, load) = (Arc::default(), ThreadLoad::default());
        Ok(Thread { handle, sessions, load, _stop: Some(stop) })
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.sessions.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn sessions_spread_over_threads_and_stay_there() {
        let threads = SessionThreads::start(2).unwrap();
        let seats = [(); 4].map(|()| threads.seat());
        let mut ids = Vec::new();
        for seat in &seats {
            let id = || async { std::thread::current().id() };
            let first = seat.handle.spawn(id()).await.unwrap();
            assert_eq!(seat.handle.spawn(id()).await.unwrap(), first);
            ids.push(first);
        }
        assert_ne!(ids[0], std::thread::current().id());
        assert!(ids[0] == ids[2] && ids[1] == ids[3] && ids[0] != ids[1], "{ids:?}");
        // Who leaves makes room.
        let [first, second, ..] = seats;
        let runs_on = first.handle.id();
        assert_ne!(second.handle.id(), runs_on);
        drop(first);
        assert_eq!(threads.seat().handle.id(), runs_on);
    }
}
