//! Connections that have not completed their handshake: peers that have not authenticated, and
//! proxy clients that have not sent a request.

use crate::sync::lock;
use std::collections::VecDeque;
use std::sync::Mutex;
use tokio::task::AbortHandle;

/// The tasks of such connections, oldest first. Beyond the limit the oldest is dropped, so that
/// silent connections cannot keep others out.
pub(crate) struct PendingConnections {
    limit: usize,
    tasks: Mutex<VecDeque<AbortHandle>>,
}

impl PendingConnections {
    /// At most `limit` at once.
    pub(crate) fn new(limit: usize) -> PendingConnections {
        PendingConnections { limit, tasks: Mutex::default() }
    }

    /// Runs the handshake of one more connection, which ends with the handshake. Returns whether
    /// the oldest was dropped for it.
    pub(crate) fn admit(&self, handshake: impl Future<Output = ()> + Send + 'static) -> bool {
        let mut tasks = lock(&self.tasks);
        if tasks.len() >= self.limit {
            tasks.retain(|task| !task.is_finished());
        }
        let oldest = if tasks.len() >= self.limit { tasks.pop_front() } else { None };
        if let Some(oldest) = &oldest {
            oldest.abort();
        }
        tasks.push_back(tokio::spawn(handshake).abort_handle());
        oldest.is_some()
    }
}
