//! Signals for the tasks of a flow.

use crate::services::Service;
use crate::sync::lock;
use oncewire_session::{FlowId, FlowMeter, Owner, ResetCode, SentBlock};
use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use tokio::sync::Notify;

/// A flow that the peer opened.
#[derive(Debug)]
pub(crate) struct OpenedFlow {
    pub(crate) flow: FlowId,
    pub(crate) target: Vec<u8>,
    /// Whose it is.
    pub(crate) owner: Owner,
}

/// Signals for the tasks of a flow.
#[derive(Debug, Default)]
pub(crate) struct FlowSignals {
    /// Bytes of the application that went into the flow, and that came out of it.
    carried: [AtomicU64; 2],
    /// Bytes of messages that were sent and received for it.
    wire: [AtomicU64; 2],
    service: Option<Arc<Service>>,
    /// The HTTPS service that it belongs to, too.
    https: OnceLock<Arc<Service>>,
    pub(crate) readable: Notify,
    pub(crate) writable: Notify,
    /// Accepted, reset or over: see [`FlowSignals::answer`].
    pub(crate) answered: Notify,
    pub(super) answer: OnceLock<Result<(), ResetCode>>,
    reset: OnceLock<ResetCode>,
    /// The session is over, and these bytes are the last ones for the application: see
    /// [`Session::take_undelivered`].
    rest: OnceLock<Mutex<VecDeque<Vec<u8>>>>,
    pub(crate) gone: Notify,
}

impl FlowMeter for FlowSignals {
    fn sent(&self, block: SentBlock) {
        self.wire[0].fetch_add(block.wire, Ordering::Relaxed);
        for service in self.service.iter().chain(self.https.get()) {
            service.sent(&block);
        }
    }

    fn received(&self, content: u64, wire: u64) {
        self.wire[1].fetch_add(wire, Ordering::Relaxed);
        for service in self.service.iter().chain(self.https.get()) {
            service.received(content, wire);
        }
    }
}

impl FlowSignals {
    pub(super) fn of(service: Option<Arc<Service>>) -> Arc<FlowSignals> {
        Arc::new(FlowSignals { service, ..FlowSignals::default() })
    }

    /// Counts what the flow carries for this service, too, from now on.
    pub(crate) fn count_for(&self, service: Arc<Service>) {
        let _ = self.https.set(service);
    }

    /// The peer's answer to the flow, once there is one.
    pub(crate) fn answer(&self) -> Option<Result<(), ResetCode>> {
        self.answer.get().copied()
    }

    /// Notes bytes of the application that went into the flow, and that came out of it.
    pub(crate) fn note_carried(&self, [sent, received]: [usize; 2]) {
        self.carried[0].fetch_add(sent as u64, Ordering::Relaxed);
        self.carried[1].fetch_add(received as u64, Ordering::Relaxed);
    }

    /// Bytes of the application that went into the flow, and that came out of it.
    pub(crate) fn carried(&self) -> [u64; 2] {
        [0, 1].map(|way| self.carried[way].load(Ordering::Relaxed))
    }

    /// Bytes of messages that were sent and received for the flow, before encryption.
    pub(crate) fn on_wire(&self) -> [u64; 2] {
        [0, 1].map(|way| self.wire[way].load(Ordering::Relaxed))
    }

    /// Why the flow was reset by the peer, if it was.
    pub(crate) fn reset(&self) -> Option<ResetCode> {
        self.reset.get().copied()
    }

    /// Takes the next of the bytes that outlive the session. `None` unless the flow arrived whole
    /// before the peer closed; an empty chunk once all are taken.
    pub(crate) fn take_rest(&self) -> Option<Vec<u8>> {
        Some(lock(self.rest.get()?).pop_front().unwrap_or_default())
    }

    /// Whether the session is over, but bytes for the application are left.
    pub(crate) fn has_rest(&self) -> bool {
        self.rest.get().is_some()
    }

    pub(super) fn set_rest(&self, chunks: VecDeque<Vec<u8>>) {
        let _ = self.rest.set(Mutex::new(chunks));
        self.readable.notify_one();
        self.writable.notify_one();
    }

    pub(super) fn set_reset(&self, code: ResetCode) {
        let _ = self.reset.set(code);
        let _ = self.answer.set(Err(code));
        self.answered.notify_one();
        self.gone.notify_one();
        self.readable.notify_one();
        self.writable.notify_one();
    }
}
