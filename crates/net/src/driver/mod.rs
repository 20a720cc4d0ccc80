//! The driver: gives a session its sockets and its clock, and turns its events into signals for
//! tasks.
//!
//! The session is behind one lock, never held across an await, nor while a block is encoded.
//! Every change of the session goes through [`Driver::with`], which also handles its events.

mod lanes;

use crate::counted::ContentBytes;
use crate::dials::Dials;
use crate::keys::PublicKey;
use crate::log_limit::LogLimit;
use crate::services::Service;
#[cfg(unix)]
use crate::store::{ContentStore, PATIENCE};
use crate::sync::lock;
use crate::transport::{Path, TransportEnd};
#[cfg(unix)]
use oncewire_session::Side;
use oncewire_session::{
    Ended, Event, FlowId, FlowMeter, Logs, OpenError, Owner, ResetCode, SentBlock, Session,
};
use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};
use std::time::{Duration, Instant};
use tokio::runtime::Handle;
use tokio::sync::{Notify, mpsc, watch};
use tracing::{debug, info, warn};

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
    answer: OnceLock<Result<(), ResetCode>>,
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
    fn of(service: Option<Arc<Service>>) -> Arc<FlowSignals> {
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

    fn set_rest(&self, chunks: VecDeque<Vec<u8>>) {
        let _ = self.rest.set(Mutex::new(chunks));
        self.readable.notify_one();
        self.writable.notify_one();
    }

    fn set_reset(&self, code: ResetCode) {
        let _ = self.reset.set(code);
        let _ = self.answer.set(Err(code));
        self.answered.notify_one();
        self.gone.notify_one();
        self.readable.notify_one();
        self.writable.notify_one();
    }
}

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

    /// Keeps the logs of its session on disk.
    #[cfg(unix)]
    pub(crate) fn keep_on_disk(self: &Arc<Driver>, store: &ContentStore) {
        let number = store.register(self);
        let _ = self.store.set((store.clone(), number));
        self.wake_store();
    }

    /// Its session keeps its logs in memory only from now on. Those on disk are for the next one.
    pub(crate) fn leave_disk(&self) {
        #[cfg(unix)]
        if let Some((store, number)) = self.store.get() {
            store.detach(*number, self);
        }
    }

    /// The store asks for what came before it could: without the peer's key, nothing is written.
    #[cfg(unix)]
    fn wake_store(&self) {
        if let Some((store, number)) = self.store.get() {
            for side in [Side::Sending, Side::Receiving] {
                store.ready(*number, side);
            }
        }
    }

    /// Whether the session is still here.
    #[cfg(unix)]
    pub(crate) fn has_session(&self) -> bool {
        self.lock().session.is_some()
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

    fn settle(&self, state: &mut DriverState) {
        let deadline = self.pass_events(state);
        let flows = state.session.as_ref().map_or(0, Session::flow_count);
        // Wakes one waiting opener per flow that has ended.
        for _ in flows..std::mem::replace(&mut state.flow_count, flows) {
            self.vacancy.notify_one();
        }
        if deadline.is_some_and(|deadline| state.timer_at.is_none_or(|at| deadline < at)) {
            state.timer_at = deadline;
            self.timer.notify_one();
        }
    }

    /// Turns events into signals. Returns the session's next deadline.
    fn pass_events(&self, state: &mut DriverState) -> Option<Instant> {
        let session = state.session.as_mut()?;
        while let Some(event) = session.poll_event() {
            match event {
                Event::Established => {
                    self.phase.send_if_modified(|phase| {
                        *phase == Phase::Handshake && {
                            *phase = Phase::Established;
                            true
                        }
                    });
                }
                Event::Transmit(lane) => state.lanes[lane].transmit.notify_one(),
                Event::Drop(lane) => {
                    state.lanes[lane].close.notify_one();
                    state.lanes[lane].transmit.notify_one();
                }
                Event::Opened { flow, target, owner } => {
                    let signals = FlowSignals::of(self.content.enter(&target));
                    session.watch(flow, signals.clone());
                    state.flows.insert(flow, signals);
                    self.note_forgotten(session.forgotten_domains());
                    // Fails only when the session is being given up.
                    let _ = self.opened.send(OpenedFlow { flow, target, owner });
                }
                Event::Accepted(flow) => {
                    if let Some(signals) = state.flows.get(&flow) {
                        let _ = signals.answer.set(Ok(()));
                        signals.answered.notify_one();
                    }
                }
                Event::Readable(flow) => {
                    if let Some(signals) = state.flows.get(&flow) {
                        signals.readable.notify_one();
                    }
                }
                Event::Writable(flow) => {
                    if let Some(signals) = state.flows.get(&flow) {
                        signals.writable.notify_one();
                    }
                }
                Event::Reset(flow, code) => {
                    if let Some(signals) = state.flows.remove(&flow) {
                        signals.set_reset(code);
                    }
                }
                Event::GoingAway => {
                    self.phase.send_if_modified(|phase| {
                        !matches!(phase, Phase::Over(_)) && {
                            *phase = Phase::GoingAway;
                            true
                        }
                    });
                }
                Event::Memory => {
                    if let Some(memory) = &self.memory {
                        memory.notify_one();
                    }
                }
                Event::Limited { from, to } => {
                    info!(
                        peer = self.label(),
                        from,
                        to,
                        "the peer keeps a smaller cache from now on, because other sessions need its memory: the cache starts again, empty, if it is larger"
                    );
                }
                Event::Effort(decision) => {
                    info!(
                        peer = self.label(),
                        from = %decision.from,
                        to = %decision.to,
                        share_percent = 100.0 * decision.share(),
                        budget_percent = 100.0 * decision.budget.as_f64(),
                        "encoding effort changed to stay within --cpu-budget"
                    );
                }
                Event::Ended(why) => {
                    debug!(%why, "session over");
                    for (flow, chunks) in session.take_undelivered() {
                        if let Some(signals) = state.flows.get(&flow) {
                            signals.set_rest(chunks);
                        }
                    }
                    state.flows.retain(|_, signals| {
                        if !signals.has_rest() {
                            signals.set_reset(ResetCode::Failed);
                        }
                        signals.has_rest()
                    });
                    self.phase.send_replace(Phase::Over(why));
                }
                #[cfg(unix)]
                Event::Unwritten(side) => {
                    if let Some((store, number)) = self.store.get() {
                        store.ready(*number, side);
                    }
                }
                #[cfg(unix)]
                Event::Fetch { id, side, range } => {
                    if let Some((store, number)) = self.store.get() {
                        store.fetch(*number, id, side, range);
                    }
                }
                _ => {}
            }
        }
        #[cfg(unix)]
        if session.awaits_commit() {
            let by = *state.commit_by.get_or_insert_with(|| Instant::now() + PATIENCE);
            return Some(session.deadline().map_or(by, |deadline| deadline.min(by)));
        }
        #[cfg(unix)]
        {
            state.commit_by = None;
        }
        session.deadline()
    }

    async fn keep_time(driver: Arc<Driver>) {
        let mut phase = driver.phase.subscribe();
        loop {
            let deadline = {
                let mut state = driver.lock();
                let Some(session) = &mut state.session else { return };
                let now = Instant::now();
                if session.deadline().is_some_and(|deadline| deadline <= now) {
                    session.on_timeout(now);
                }
                #[cfg(unix)]
                if state.commit_by.take_if(|by| *by <= now).is_some()
                    && let Some(session) = &mut state.session
                {
                    warn!(
                        peer = driver.label(),
                        "the disk does not answer: this session's caches are in memory only"
                    );
                    session.give_up_store();
                }
                state.timer_at = driver.pass_events(&mut state);
                state.timer_at
            };
            // Past deadlines are retried after a millisecond, so that a fault cannot cause a busy
            // loop.
            let at = deadline.map(|at| at.max(Instant::now() + Duration::from_millis(1)));
            let sleep = async {
                match at {
                    Some(at) => tokio::time::sleep_until(at.into()).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                () = sleep => {}
                () = driver.timer.notified() => {}
                over = phase.wait_for(|phase| matches!(phase, Phase::Over(_))) => {
                    let _ = over;
                    return;
                }
            }
        }
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

    /// Warns when isolation domains were forgotten.
    fn note_forgotten(&self, forgotten: u64) {
        static FORGOTTEN: LogLimit = LogLimit::new();
        if self.forgotten.swap(forgotten, Ordering::Relaxed) < forgotten
            && let Some(suppressed) = FORGOTTEN.pass()
        {
            warn!(
                peer = self.label(),
                forgotten,
                suppressed,
                "isolation domains were forgotten: one client has too many names at the proxy, or there are too many clients; what they had sent is not found again"
            );
        }
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
