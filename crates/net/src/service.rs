//! What a process tells the service manager that started it: systemd's protocol of `NOTIFY_SOCKET`
//! (sd_notify(3)); and the listeners that it got from the manager (sd_listen_fds(3)).
//!
//! Without such a manager nothing is sent. A failure to send concerns nobody but the manager, which
//! notices by its own time limits.

use crate::sync::lock;
use sd_notify::NotifyState;
use std::net::{SocketAddr, TcpListener};
use std::sync::{Mutex, OnceLock};
use std::time::Duration;
use tokio::task::AbortHandle;
use tracing::warn;

/// Pings the manager's watchdog until it is dropped: from the runtime, so that a runtime that no
/// longer runs tasks is noticed.
pub(crate) struct Watchdog(Option<AbortHandle>);

impl Drop for Watchdog {
    fn drop(&mut self) {
        if let Some(task) = self.0.take() {
            task.abort();
        }
    }
}

fn tell(states: &[NotifyState<'_>]) {
    let _ = sd_notify::notify(states);
}

/// The process serves now. Begins to ping the watchdog if the manager has one.
pub(crate) fn ready(what: &str) -> Watchdog {
    tell(&[NotifyState::Ready, NotifyState::Status(what)]);
    let Some(limit) = sd_notify::watchdog_enabled() else { return Watchdog(None) };
    // Twice within the limit, as the manual recommends; never so often that it costs anything.
    let mut every = tokio::time::interval((limit / 2).max(Duration::from_millis(10)));
    let pings = async move {
        loop {
            every.tick().await;
            tell(&[NotifyState::Watchdog]);
        }
    };
    Watchdog(Some(tokio::spawn(pings).abort_handle()))
}

/// It reads its configuration again, until [`reloaded`].
pub(crate) fn reloading() {
    let since = NotifyState::monotonic_usec_now();
    match since {
        Ok(since) => tell(&[NotifyState::Reloading, since]),
        Err(_) => tell(&[NotifyState::Reloading]),
    }
}

/// The configuration is in force, or the earlier one stays in force.
pub(crate) fn reloaded() {
    tell(&[NotifyState::Ready]);
}

/// It drains, and ends soon.
pub(crate) fn stopping() {
    tell(&[NotifyState::Stopping, NotifyState::Status("draining")]);
}

/// Listeners that the manager passed and nobody took. It keeps its own copies, so connections that
/// arrive while this process is restarted wait in their queues.
fn passed() -> &'static Mutex<Vec<(SocketAddr, TcpListener)>> {
    static PASSED: OnceLock<Mutex<Vec<(SocketAddr, TcpListener)>>> = OnceLock::new();
    PASSED.get_or_init(|| {
        let mut from = listenfd::ListenFd::from_env();
        let mut passed = Vec::new();
        for at in 0..from.len() {
            let taken = from.take_tcp_listener(at).and_then(|listener| {
                listener.map(|listener| Ok((listener.local_addr()?, listener))).transpose()
            });
            match taken {
                Ok(listener) => passed.extend(listener),
                Err(error) => {
                    warn!(%error, number = at + 1, "a socket of the service manager is not used: only TCP listeners are");
                }
            }
        }
        Mutex::new(passed)
    })
}

/// The listener for this address, if the manager passed one.
pub(crate) fn passed_listener(address: SocketAddr) -> Option<TcpListener> {
    let mut passed = lock(passed());
    let at = passed.iter().position(|(passed, _)| *passed == address)?;
    Some(passed.swap_remove(at).1)
}

/// Warns of listeners that the manager passed and the configuration does not name: connections to
/// them would wait for ever. Closes them.
pub(crate) fn warn_of_unused() {
    for (address, _) in lock(passed()).drain(..) {
        warn!(%address, "the service manager listens here, but the configuration does not");
    }
}
