//! Counters of a link while it runs.

use crate::log_limit::LogLimit;
use crate::sync::lock;
use std::net::SocketAddr;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use tracing::{debug, warn};

pub(super) fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Relaxed);
}

/// Handshakes with ends that have not proved to be a peer.
#[derive(Debug, Default)]
pub(super) struct Strangers {
    refused: AtomicU64,
    pub(super) retries: AtomicU64,
    last: Mutex<Option<String>>,
    log: LogLimit,
}

impl Strangers {
    /// Notes a handshake that failed. Strangers can cause any number of them.
    pub(super) fn refused(&self, from: SocketAddr, why: &dyn std::fmt::Display) {
        count(&self.refused);
        *lock(&self.last) = Some(format!("{from}: {why}"));
        match self.log.pass() {
            Some(suppressed) => warn!(%from, %why, suppressed, "handshake refused"),
            None => debug!(%from, %why, "handshake refused"),
        }
    }

    pub(super) fn count(&self) -> u64 {
        self.refused.load(Relaxed)
    }

    pub(super) fn last(&self) -> Option<String> {
        lock(&self.last).clone()
    }

    pub(super) fn retries(&self) -> u64 {
        self.retries.load(Relaxed)
    }
}
