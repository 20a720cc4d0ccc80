//! What a process tells the service manager that started it: systemd's protocol of `NOTIFY_SOCKET`
//! (sd_notify(3)).
//!
//! Without such a manager nothing is sent. A failure to send concerns nobody but the manager, which
//! notices by its own time limits.

use sd_notify::NotifyState;
use std::time::Duration;
use tokio::task::AbortHandle;

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
