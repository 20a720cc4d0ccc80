//! The driver: gives a session its sockets and its clock, and turns its events into signals for
//! tasks.
//!
//! The session is behind one lock, never held across an await, nor while a block is encoded.
//! Every change of the session goes through [`Driver::with`], which also handles its events.

mod events;
mod lanes;
mod quiet;
mod signals;
#[cfg(unix)]
mod stored;
mod writers;

pub(crate) use signals::{FlowSignals, OpenedFlow};

use crate::counted::ContentBytes;
use crate::dials::Dials;
use crate::keys::PublicKey;
#[cfg(unix)]
use crate::store::ContentStore;
use crate::sync::lock;
use crate::transport::{Path, TransportEnd};
use oncewire_session::{Ended, FlowId, Logs, OpenError, Owner, Session};
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};
use std::time::{Duration, Instant};
use tokio::runtime::Handle;
use tokio::sync::{Notify, mpsc, watch};

struct DriverState {
    session: Option<Session>,
    flows: HashMap<FlowId, Arc<FlowSignals>>,
    /// When the session stops waiting for the disk, if it does wait.
    #[cfg(unix)]
    commit_by: Option<Instant>,
    /// When the timer task wakes up next.
    timer_at: Option<Instant>,
    /// The current transport of each lane. Tasks of an earlier one must not touch the lane.
    lanes: Vec<Arc<LaneSignals>>,
    /// The path of each lane's latest transport.
    paths: Vec<Option<Path>>,
    /// Number of flows at the last change.
    flow_count: usize,
    /// Number of frames that had failed to decode when a transport was last closed.
    failures: u64,
}

/// The phase of a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// The peer has not answered yet.
    Handshake,
    Established,
    /// Open flows continue; no more are opened.
    GoingAway,
    Over(Ended),
}

/// A session with its sockets. Shared by all its tasks.
pub(crate) struct Driver {
    state: Mutex<DriverState>,
    timer: Notify,
    phase: watch::Sender<Phase>,
    opened: mpsc::UnboundedSender<OpenedFlow>,
    /// A lane lost its transport and needs another. Only clients receive this.
    lane_down: mpsc::UnboundedSender<LaneDown>,
    /// When an application last sent or received something, in milliseconds since `born`.
    active: AtomicU64,
    /// Number of flows that stand for listeners: they end only on request, and nothing waits for
    /// that.
    listening: AtomicUsize,
    /// The peer's key, once a transport has shown it.
    pub(crate) peer: OnceLock<PublicKey>,
    /// The peer's name, or else its key, for log lines.
    label: OnceLock<String>,
    /// Flows that this end refused: their target is not allowed or cannot be reached.
    pub(crate) refused_targets: AtomicU64,
    /// Connections that are being made for the peer.
    pub(crate) dials: Dials,
    /// Isolation domains forgotten when that was last looked at.
    forgotten: AtomicU64,
    /// Notified when a flow has ended and another may be opened.
    vacancy: Notify,
    /// Notified when the session's memory changes.
    memory: Option<Arc<Notify>>,
    /// True once listeners for the peer must close.
    closing: watch::Sender<bool>,
    /// Whether the session wants to know what encoding costs.
    counts_cpu: bool,
    /// The last block took long to encode.
    encodes_slowly: AtomicBool,
    pub(crate) born: Instant,
    /// Number of transports that are not closed yet.
    transports: watch::Sender<usize>,
    /// Gets the counters of the session when it goes.
    content: Arc<ContentBytes>,
    /// The runtime of its tasks.
    pub(crate) thread: Handle,
    /// Where its session's logs are kept, and its number there.
    #[cfg(unix)]
    store: OnceLock<(ContentStore, u64)>,
}

impl Drop for Driver {
    fn drop(&mut self) {
        self.take_logs();
    }
}

/// Counts a flow as a listener while it lives.
pub(crate) struct ListenerFlow(Arc<Driver>);

impl Drop for ListenerFlow {
    fn drop(&mut self) {
        self.0.listening.fetch_sub(1, Ordering::Relaxed);
    }
}

#[derive(Debug, Default)]
struct LaneSignals {
    transmit: Notify,
    /// Close the transport after sending what is left.
    close: Notify,
    received: AtomicBool,
}

/// Notices for the owner of a driver.
pub(crate) struct Notices {
    /// Flows that the peer opens. The session bounds their number.
    pub(crate) opened: mpsc::UnboundedReceiver<OpenedFlow>,
    pub(crate) lane_down: mpsc::UnboundedReceiver<LaneDown>,
}

/// A lane that lost its transport.
pub(crate) struct LaneDown {
    pub(crate) lane: usize,
    /// Whether the peer sent anything on it.
    pub(crate) received: bool,
    /// How long the transport lasted.
    pub(crate) lasted: Duration,
    pub(crate) cause: TransportEnd,
}

impl Driver {
    /// Takes over a session and starts its clock. `memory` is notified when the memory that the
    /// session may come to use has changed; `content` gets what it carried when it goes.
    /// `thread` is the runtime that its tasks run on.
    pub(crate) fn start(
        session: Session,
        memory: Option<Arc<Notify>>,
        content: Arc<ContentBytes>,
        thread: Handle,
    ) -> (Arc<Driver>, Notices) {
        let (opened, opened_rx) = mpsc::unbounded_channel();
        let (lane_down, lane_down_rx) = mpsc::unbounded_channel();
        let lanes = oncewire_session::MAX_LANES;
        let counts_cpu = session.controller().is_some();
        let driver = Arc::new(Driver {
            state: Mutex::new(DriverState {
                session: Some(session),
                flows: HashMap::new(),
                timer_at: None,
                #[cfg(unix)]
                commit_by: None,
                // `vec!` would clone a single one.
                lanes: (0..lanes).map(|_| Arc::default()).collect(),
                paths: vec![None; lanes],
                flow_count: 0,
                failures: 0,
            }),
            timer: Notify::new(),
            phase: watch::Sender::new(Phase::Handshake),
            opened,
            lane_down,
            active: AtomicU64::new(0),
            listening: AtomicUsize::new(0),
            peer: OnceLock::new(),
            label: OnceLock::new(),
            refused_targets: AtomicU64::new(0),
            dials: Dials::default(),
            forgotten: AtomicU64::new(0),
            vacancy: Notify::new(),
            memory,
            closing: watch::Sender::new(false),
            counts_cpu,
            encodes_slowly: AtomicBool::new(false),
            born: Instant::now(),
            transports: watch::Sender::new(0),
            content,
            thread,
            #[cfg(unix)]
            store: OnceLock::new(),
        });
        driver.with(|_| ());
        driver.thread.spawn(Driver::keep_time(driver.clone()));
        (driver, Notices { opened: opened_rx, lane_down: lane_down_rx })
    }

    /// Its session keeps its logs in memory only from now on. Those on disk are for the next one.
    pub(crate) fn leave_disk(&self) {
        #[cfg(unix)]
        if let Some((store, number)) = self.store.get() {
            store.detach(*number, self);
        }
    }

    fn lock(&self) -> MutexGuard<'_, DriverState> {
        // A panic elsewhere must not end all flows; the session checks what it is given.
        lock(&self.state)
    }

    /// Calls the session and handles its events. `None` if the session has been taken away.
    pub(crate) fn with<T>(&self, act: impl FnOnce(&mut Session) -> T) -> Option<T> {
        let mut state = self.lock();
        let result = act(state.session.as_mut()?);
        self.settle(&mut state);
        Some(result)
    }

    /// Looks at the session, which cannot send anything because of it. `None` if it has been taken
    /// away.
    pub(crate) fn look<T>(&self, act: impl FnOnce(&Session) -> T) -> Option<T> {
        self.lock().session.as_ref().map(act)
    }

    pub(crate) fn phase(&self) -> watch::Receiver<Phase> {
        self.phase.subscribe()
    }

    /// Waits until all transports of a session that is over have sent their last messages and are
    /// closed, or have run out of time.
    pub(crate) async fn closed_transports(&self) {
        let mut transports = self.transports.subscribe();
        let _ = tokio::time::timeout(
            CLOSE_TIME + CLOSE_TIME / 4,
            transports.wait_for(|count| *count == 0),
        )
        .await;
    }

    /// Takes the logs out of a session that is over.
    pub(crate) fn take_logs(&self) -> Option<Logs> {
        let session = self.lock().session.take()?;
        self.content.ended(&session.counters());
        #[cfg_attr(not(unix), allow(unused_mut))]
        let mut logs = session.into_logs();
        #[cfg(unix)]
        if let (Some((store, number)), Some(&peer)) = (self.store.get(), self.peer.get()) {
            store.leave(*number, peer, &mut logs);
        }
        Some(logs)
    }

    pub(crate) fn signals(&self, flow: FlowId) -> Option<Arc<FlowSignals>> {
        self.lock().flows.get(&flow).cloned()
    }

    /// Opens a flow and registers its signals.
    pub(crate) fn open(
        &self,
        target: &[u8],
        owner: &Owner,
    ) -> Result<(FlowId, Arc<FlowSignals>), OpenError> {
        let mut state = self.lock();
        let session = state.session.as_mut().ok_or(OpenError::NotEstablished)?;
        let flow = session.open(target, owner.clone(), Instant::now())?;
        self.note_forgotten(session.forgotten_domains());
        let signals = FlowSignals::of(self.content.enter(target));
        session.watch(flow, signals.clone());
        state.flows.insert(flow, signals.clone());
        self.settle(&mut state);
        self.note_activity();
        Ok((flow, signals))
    }

    /// Opens a flow. If the limit of open flows is reached, waits up to a second for one to end.
    pub(crate) async fn open_soon(
        &self,
        target: &[u8],
        owner: &Owner,
    ) -> Result<(FlowId, Arc<FlowSignals>), OpenError> {
        let until = tokio::time::Instant::now() + VACANCY_TIME;
        loop {
            match self.open(target, owner) {
                Err(full @ (OpenError::TooMany(_) | OpenError::NoCredit)) => {
                    if tokio::time::timeout_at(until, self.vacancy.notified()).await.is_err() {
                        return Err(full);
                    }
                }
                result => return result,
            }
        }
    }

    /// Forgets the signals of a flow whose tasks are done.
    pub(crate) fn forget(&self, flow: FlowId) {
        self.lock().flows.remove(&flow);
    }

    /// Records the peer's key and what log lines call it. Returns the key recorded first.
    pub(crate) fn set_peer(&self, peer: PublicKey, label: String) -> PublicKey {
        let _ = self.label.set(label);
        let peer = *self.peer.get_or_init(|| peer);
        #[cfg(unix)]
        self.wake_store();
        peer
    }

    /// What log lines call the peer.
    pub(crate) fn label(&self) -> &str {
        self.label.get().map_or("unknown", String::as_str)
    }

    /// The path of a current transport.
    pub(crate) fn path(&self) -> Option<Path> {
        self.lock().paths.iter().flatten().next().copied()
    }

    /// Closes listeners for the peer.
    pub(crate) fn close_listeners(&self) {
        self.closing.send_replace(true);
    }

    /// Waits until listeners for the peer must close.
    pub(crate) async fn listeners_closed(&self) {
        // The sender lives as long as `self`.
        let _ = self.closing.subscribe().wait_for(|closing| *closing).await;
    }

    pub(crate) fn note_activity(&self) {
        self.active.store(self.born.elapsed().as_millis() as u64, Ordering::Relaxed);
    }

    /// Counts a flow as a listener until the result is dropped.
    pub(crate) fn listening(self: &Arc<Driver>) -> ListenerFlow {
        self.listening.fetch_add(1, Ordering::Relaxed);
        ListenerFlow(self.clone())
    }

    /// Flows that applications have open.
    pub(crate) fn open_flows(&self) -> usize {
        self.flow_count().saturating_sub(self.listening.load(Ordering::Relaxed))
    }

    /// All flows, including those of listeners.
    pub(crate) fn flow_count(&self) -> usize {
        self.with(|session| session.flow_count()).unwrap_or(0)
    }

    /// Whether the session has ended.
    pub(crate) fn is_over(&self) -> bool {
        matches!(*self.phase.borrow(), Phase::Over(_))
    }

    /// Whether the peer drains: open flows continue, and it opens no more.
    pub(crate) fn is_going_away(&self) -> bool {
        matches!(*self.phase.borrow(), Phase::GoingAway)
    }

    /// Whether the session has ended, but applications have yet to read what had arrived.
    pub(crate) fn is_delivering(&self) -> bool {
        self.is_over() && !self.lock().flows.is_empty()
    }

    /// Whether nothing is in flight to the peer.
    pub(crate) fn is_acknowledged(&self) -> bool {
        self.with(|session| session.is_acknowledged()).unwrap_or(true)
    }

    /// Whether any lane has a working transport.
    pub(crate) fn is_up(&self) -> bool {
        self.with(|session| (0..session.lanes()).any(|lane| session.is_up(lane))).unwrap_or(false)
    }

    /// Time since an application last sent or received anything.
    pub(crate) fn idle_for(&self) -> Duration {
        self.born
            .elapsed()
            .saturating_sub(Duration::from_millis(self.active.load(Ordering::Relaxed)))
    }
}

/// How long an application's connection waits for a free flow before it is refused.
const VACANCY_TIME: Duration = Duration::from_secs(1);
/// How long a transport that is closing may take to send what is left.
const CLOSE_TIME: Duration = Duration::from_secs(3);
