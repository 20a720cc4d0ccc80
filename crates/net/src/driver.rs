//! A session with its sockets: lanes on transports, a clock, and signals for those who wait.
//!
//! The session itself is behind one lock, held for the time of an encode or decode at most, never across an await. Whoever has
//! changed something settles it before letting go ([`Driver::with`]): events become signals to tasks.

use crate::keys::PublicKey;
use crate::seldom::Seldom;
use crate::transport::{Path, Transport};
use cpu_time::ThreadTime;
use oncewire_session::{Answer, Config, Counters, Ended, Event, FlowId, Hello, Logs, OpenError, Refused, ResetCode, Session};
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::{Notify, mpsc, watch};
use tracing::{debug, info, warn};

/// Bytes taken from the session at once for a transport: a block, or several that have become small.
const BATCH: usize = 64 << 10;
/// Bytes read from a transport at once.
const READ: usize = 128 << 10;

/// What tasks of a flow wait for.
#[derive(Debug, Default)]
pub(crate) struct FlowSignals {
    pub(crate) readable: Notify,
    pub(crate) writable: Notify,
    /// Accepted, reset or over: see [`FlowSignals::answer`].
    pub(crate) answered: Notify,
    answer: OnceLock<Result<(), ResetCode>>,
    reset: OnceLock<ResetCode>,
    pub(crate) gone: Notify,
}

impl FlowSignals {
    /// What the peer said to the flow, once it has.
    pub(crate) fn answer(&self) -> Option<Result<(), ResetCode>> {
        self.answer.get().copied()
    }

    /// Why the flow was reset by the peer, if it was.
    pub(crate) fn reset(&self) -> Option<ResetCode> {
        self.reset.get().copied()
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

struct State {
    session: Option<Session>,
    flows: HashMap<FlowId, Arc<FlowSignals>>,
    /// When the timer task is going to look.
    timer_at: Option<Instant>,
    /// The transport that each lane has. Tasks of an earlier one must not touch the lane.
    lanes: Vec<Arc<LaneSignals>>,
    /// What each lane's latest transport goes over.
    paths: Vec<Option<Path>>,
    report: Option<(Counters, Instant)>,
    /// Flows that the session had when it was last looked at.
    flow_count: usize,
    /// Frames that had failed to decode when a transport was last closed.
    failures: u64,
}

/// How far a session has come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// No answer of the peer yet.
    Greeting,
    Established,
    /// Flows go on, no more are opened.
    GoingAway,
    Over(Ended),
}

/// A session with its sockets. Shared by all its tasks.
pub(crate) struct Driver {
    state: Mutex<State>,
    timer: Notify,
    phase: watch::Sender<Phase>,
    opened: mpsc::UnboundedSender<(FlowId, Vec<u8>)>,
    /// A transport is gone: the lane needs another. Only the end that connects listens.
    lane_down: mpsc::UnboundedSender<LaneDown>,
    /// When something was last carried for an application, in milliseconds since `born`.
    active: AtomicU64,
    /// Flows that stand for listeners: they end only when told to, and nobody waits for that.
    listening: AtomicUsize,
    /// Who the other end is, once a transport has shown it.
    pub(crate) peer: OnceLock<PublicKey>,
    /// What log lines call it: its name, or else its key.
    label: OnceLock<String>,
    /// Flows that this end turned away: their target is not allowed or cannot be reached.
    pub(crate) refused_targets: AtomicU64,
    /// A flow has ended: another may be opened.
    vacancy: Notify,
    /// Told when the session's memory changes.
    memory: Option<Arc<Notify>>,
    /// Listeners for the peer stop accepting.
    closing: watch::Sender<bool>,
    pub(crate) born: Instant,
    /// Transports that are not closed yet.
    transports: watch::Sender<usize>,
}

/// Counts a flow as a listener as long as it lives.
pub(crate) struct Listening(Arc<Driver>);

impl Drop for Listening {
    fn drop(&mut self) {
        self.0.listening.fetch_sub(1, Ordering::Relaxed);
    }
}

#[derive(Debug, Default)]
struct LaneSignals {
    transmit: Notify,
    /// The transport is to be closed after what is left to send.
    close: Notify,
    heard: AtomicBool,
}

/// What the owner of a driver listens to.
pub(crate) struct Notices {
    /// Flows that the peer opens; bounded by the number of flows that a session allows.
    pub(crate) opened: mpsc::UnboundedReceiver<(FlowId, Vec<u8>)>,
    pub(crate) lane_down: mpsc::UnboundedReceiver<LaneDown>,
}

/// A transport that is gone.
pub(crate) struct LaneDown {
    pub(crate) lane: usize,
    /// Whether the peer ever said anything on it.
    pub(crate) heard: bool,
    /// How long it was there.
    pub(crate) lasted: Duration,
    pub(crate) why: String,
}

impl Driver {
    /// Takes a session over and starts its clock. `memory` is notified when what the session may come to take has changed.
    pub(crate) fn start(session: Session, memory: Option<Arc<Notify>>) -> (Arc<Driver>, Notices) {
        let (opened, opened_rx) = mpsc::unbounded_channel();
        let (lane_down, lane_down_rx) = mpsc::unbounded_channel();
        let lanes = oncewire_session::MAX_LANES;
        let driver = Arc::new(Driver {
            state: Mutex::new(State {
                session: Some(session),
                flows: HashMap::new(),
                timer_at: None,
                // One for each: `vec!` would make clones of a single one.
                lanes: (0..lanes).map(|_| Arc::default()).collect(),
                paths: vec![None; lanes],
                report: None,
                flow_count: 0,
                failures: 0,
            }),
            timer: Notify::new(),
            phase: watch::Sender::new(Phase::Greeting),
            opened,
            lane_down,
            active: AtomicU64::new(0),
            listening: AtomicUsize::new(0),
            peer: OnceLock::new(),
            label: OnceLock::new(),
            refused_targets: AtomicU64::new(0),
            vacancy: Notify::new(),
            memory,
            closing: watch::Sender::new(false),
            born: Instant::now(),
            transports: watch::Sender::new(0),
        });
        driver.with(|_| ());
        tokio::spawn(Driver::keep_time(driver.clone()));
        (driver, Notices { opened: opened_rx, lane_down: lane_down_rx })
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // A panic elsewhere must not take all flows along; the session checks what it is given.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Does something with the session and passes its events on. `None` if the session has been taken away.
    pub(crate) fn with<T>(&self, act: impl FnOnce(&mut Session) -> T) -> Option<T> {
        let mut state = self.lock();
        let result = act(state.session.as_mut()?);
        self.settle(&mut state);
        Some(result)
    }

    fn settle(&self, state: &mut State) {
        let deadline = self.pass_events(state);
        let flows = state.session.as_ref().map_or(0, Session::flow_count);
        // One waiting opener for each flow that has ended.
        for _ in flows..std::mem::replace(&mut state.flow_count, flows) {
            self.vacancy.notify_one();
        }
        if deadline.is_some_and(|deadline| state.timer_at.is_none_or(|at| deadline < at)) {
            state.timer_at = deadline;
            self.timer.notify_one();
        }
    }

    /// Makes signals of events; returns when the session wants to be looked at.
    fn pass_events(&self, state: &mut State) -> Option<Instant> {
        let session = state.session.as_mut()?;
        while let Some(event) = session.poll_event() {
            match event {
                Event::Established => {
                    self.phase.send_if_modified(|phase| {
                        *phase == Phase::Greeting && {
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
                Event::Opened(flow, target) => {
                    state.flows.insert(flow, Arc::default());
                    // Nobody listens any more only when the session is being given up.
                    let _ = self.opened.send((flow, target));
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
                Event::Effort(decision) => {
                    info!(
                        peer = self.label(),
                        from = %decision.from,
                        to = %decision.to,
                        share_percent = 100.0 * decision.share(),
                        budget_percent = 100.0 * decision.budget.as_f64(),
                        "effort of encoding changed"
                    );
                }
                Event::Report(counters) => state.report = Some((counters, Instant::now())),
                Event::Ended(why) => {
                    debug!(%why, "session over");
                    for (_, signals) in state.flows.drain() {
                        signals.set_reset(ResetCode::Failed);
                    }
                    self.phase.send_replace(Phase::Over(why));
                }
            }
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
                state.timer_at = driver.pass_events(&mut state);
                state.timer_at
            };
            // A deadline that is already past is looked at again after a breath, whatever goes wrong.
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

    /// Waits until the transports of a session that is over have said so to the peer and are closed, or have had the time to.
    pub(crate) async fn last_words(&self) {
        let mut transports = self.transports.subscribe();
        let _ = tokio::time::timeout(LAST_WORDS + LAST_WORDS / 4, transports.wait_for(|count| *count == 0)).await;
    }

    /// Takes the logs out of a session that is over.
    pub(crate) fn take_logs(&self) -> Option<Logs> {
        self.lock().session.take().map(Session::into_logs)
    }

    pub(crate) fn signals(&self, flow: FlowId) -> Option<Arc<FlowSignals>> {
        self.lock().flows.get(&flow).cloned()
    }

    /// Opens a flow and registers who waits for it.
    pub(crate) fn open(&self, target: &[u8]) -> Result<(FlowId, Arc<FlowSignals>), OpenError> {
        let mut state = self.lock();
        let session = state.session.as_mut().ok_or(OpenError::NotEstablished)?;
        let flow = session.open(target, Instant::now())?;
        let signals = Arc::<FlowSignals>::default();
        state.flows.insert(flow, signals.clone());
        self.settle(&mut state);
        self.note_activity();
        Ok((flow, signals))
    }

    /// Opens a flow; while as many are open as may be, waits for one to end, for a second at most.
    pub(crate) async fn open_soon(&self, target: &[u8]) -> Result<(FlowId, Arc<FlowSignals>), OpenError> {
        let until = tokio::time::Instant::now() + VACANCY_TIME;
        loop {
            match self.open(target) {
                Err(full @ (OpenError::TooMany(_) | OpenError::NoCredit)) => {
                    if tokio::time::timeout_at(until, self.vacancy.notified()).await.is_err() {
                        return Err(full);
                    }
                }
                result => return result,
            }
        }
    }

    /// The tasks of a flow are done with it.
    pub(crate) fn forget(&self, flow: FlowId) {
        self.lock().flows.remove(&flow);
    }

    /// Notes who the other end is, and what log lines are to call it.
    pub(crate) fn set_peer(&self, peer: PublicKey, label: String) -> PublicKey {
        let _ = self.label.set(label);
        *self.peer.get_or_init(|| peer)
    }

    /// What log lines call the other end.
    pub(crate) fn label(&self) -> &str {
        self.label.get().map_or("unknown", String::as_str)
    }

    /// What the latest transport goes over.
    pub(crate) fn path(&self) -> Option<Path> {
        self.lock().paths.iter().flatten().next().copied()
    }

    /// Ends listeners for the peer.
    pub(crate) fn close_listeners(&self) {
        self.closing.send_replace(true);
    }

    /// Waits until listeners for the peer are to end.
    pub(crate) async fn listeners_closed(&self) {
        // The sender lives as long as `self`.
        let _ = self.closing.subscribe().wait_for(|closing| *closing).await;
    }

    pub(crate) fn note_activity(&self) {
        self.active.store(self.born.elapsed().as_millis() as u64, Ordering::Relaxed);
    }

    /// A flow stands for a listener from now on, until the result is dropped.
    pub(crate) fn listening(self: &Arc<Driver>) -> Listening {
        self.listening.fetch_add(1, Ordering::Relaxed);
        Listening(self.clone())
    }

    /// Flows that applications have open.
    pub(crate) fn open_flows(&self) -> usize {
        self.flow_count().saturating_sub(self.listening.load(Ordering::Relaxed))
    }

    /// All flows, those of listeners included.
    pub(crate) fn flow_count(&self) -> usize {
        self.with(|session| session.flow_count()).unwrap_or(0)
    }

    /// Whether the session has ended.
    pub(crate) fn is_over(&self) -> bool {
        matches!(*self.phase.borrow(), Phase::Over(_))
    }

    /// Whether any lane has a transport that works.
    pub(crate) fn is_up(&self) -> bool {
        self.with(|session| (0..session.lanes()).any(|lane| session.is_up(lane))).unwrap_or(false)
    }

    /// How long no application has sent or received anything.
    pub(crate) fn idle_for(&self) -> Duration {
        self.born.elapsed().saturating_sub(Duration::from_millis(self.active.load(Ordering::Relaxed)))
    }

    /// The peer's counters as it last reported them, and when.
    pub(crate) fn report(&self) -> Option<(Counters, Instant)> {
        self.lock().report
    }

    // ---- lanes ---------------------------------------------------------------------------------------------------------------------

    /// The end that connects gives a lane a transport.
    pub(crate) fn attach(self: &Arc<Driver>, lane: usize, transport: Transport) {
        let signals = Arc::<LaneSignals>::default();
        {
            let mut state = self.lock();
            state.lanes[lane] = signals.clone();
            state.paths[lane] = Some(transport.path);
            if let Some(session) = &mut state.session {
                session.attach(lane, Instant::now());
            }
            self.settle(&mut state);
        }
        self.run_lane(lane, signals, transport, Vec::new());
    }

    /// The answering end has a transport whose hello was for this session. `rest` is what was read behind the hello. A transport that
    /// is refused comes back with the answer to send on it.
    pub(crate) fn accept_lane(
        self: &Arc<Driver>,
        hello: &Hello,
        transport: Transport,
        rest: Vec<u8>,
    ) -> Result<(), (Box<Hello>, Transport)> {
        let signals = Arc::<LaneSignals>::default();
        let accepted = {
            let mut state = self.lock();
            let Some(session) = &mut state.session else {
                return Err((hello.refuse(Answer::Unknown, "the session is over", &Config::default()).into(), transport));
            };
            let accepted = session.accept_lane(hello, Instant::now());
            if let Ok(lane) = accepted {
                // Tasks of the lane's earlier transport find that it is not theirs any more.
                let earlier = std::mem::replace(&mut state.lanes[lane], signals.clone());
                earlier.close.notify_one();
                earlier.transmit.notify_one();
                state.paths[lane] = Some(transport.path);
            }
            self.settle(&mut state);
            accepted
        };
        match accepted {
            Ok(lane) => {
                self.run_lane(lane, signals, transport, rest);
                Ok(())
            }
            Err(Refused(answer)) => Err((answer, transport)),
        }
    }

    /// The transport on which a new session was accepted.
    pub(crate) fn adopt(self: &Arc<Driver>, lane: usize, transport: Transport, rest: Vec<u8>) {
        let signals = {
            let mut state = self.lock();
            state.paths[lane] = Some(transport.path);
            state.lanes[lane].clone()
        };
        self.run_lane(lane, signals, transport, rest);
    }

    fn run_lane(self: &Arc<Driver>, lane: usize, signals: Arc<LaneSignals>, transport: Transport, rest: Vec<u8>) {
        let driver = self.clone();
        self.transports.send_modify(|count| *count += 1);
        tokio::spawn(async move {
            let since = Instant::now();
            let path = transport.path;
            let why = driver.carry(lane, &signals, transport, rest).await;
            driver.transports.send_modify(|count| *count -= 1);
            let mut state = driver.lock();
            if Arc::ptr_eq(&state.lanes[lane], &signals) {
                driver.tell_of_loss(&mut state, lane, path, &why);
                if let Some(session) = &mut state.session {
                    session.detach(lane, Instant::now());
                }
                driver.settle(&mut state);
                let heard = signals.heard.load(Ordering::Relaxed);
                let _ = driver.lane_down.send(LaneDown { lane, heard, lasted: since.elapsed(), why });
            }
        });
    }

    /// Logs that a lane in use has lost its transport.
    fn tell_of_loss(&self, state: &mut State, lane: usize, path: Path, why: &str) {
        let Some(session) = state.session.as_ref().filter(|session| session.is_established()) else {
            debug!(lane, why, "transport closed");
            return;
        };
        let (peer, address) = (self.label(), path.address);
        let failures = session.counters().failures;
        if failures > std::mem::replace(&mut state.failures, failures) {
            static CORRUPT: Seldom = Seldom::new();
            if let Some(left_out) = CORRUPT.pass() {
                warn!(peer, %address, lane, failures, left_out, "a block arrived corrupt; its lane reconnects and the block is sent again");
            }
        } else {
            static LOST: Seldom = Seldom::new();
            if let Some(left_out) = LOST.pass() {
                warn!(peer, %address, lane, why, left_out, "connection to the peer lost; open flows wait for it to come back");
            }
        }
    }

    /// Carries bytes both ways until the transport fails or is to be closed; returns why.
    async fn carry(&self, lane: usize, signals: &Arc<LaneSignals>, transport: Transport, rest: Vec<u8>) -> String {
        let (mut reader, mut writer) = tokio::io::split(transport.stream);
        let is_current = |state: &State| Arc::ptr_eq(&state.lanes[lane], signals);
        // True if the lane still has this transport.
        let receive = |bytes: &[u8]| {
            let mut state = self.lock();
            if !is_current(&state) {
                return false;
            }
            if let Some(session) = &mut state.session {
                session.receive(lane, bytes, Instant::now());
            }
            self.settle(&mut state);
            true
        };
        if !rest.is_empty() {
            receive(&rest);
        }
        let read = async {
            let mut buffer = vec![0; READ];
            loop {
                match reader.read(&mut buffer).await {
                    Ok(0) => return "the peer closed it".to_string(),
                    Ok(len) => {
                        signals.heard.store(true, Ordering::Relaxed);
                        if !receive(&buffer[..len]) {
                            return "replaced".to_string();
                        }
                    }
                    // rustls says it with a link to its manual.
                    Err(error) if error.kind() == std::io::ErrorKind::UnexpectedEof => return "the peer vanished".to_string(),
                    Err(error) => return error.to_string(),
                }
            }
        };
        let write = async {
            let mut buffer = Vec::with_capacity(2 * BATCH);
            loop {
                buffer.clear();
                {
                    let mut state = self.lock();
                    if !is_current(&state) {
                        return "replaced".to_string();
                    }
                    if let Some(session) = &mut state.session {
                        let begun = session.controller().is_some().then(ThreadTime::now);
                        session.transmit(lane, BATCH, Instant::now(), &mut buffer);
                        if let Some(begun) = begun {
                            session.spent(begun.elapsed(), Instant::now());
                        }
                    }
                    self.settle(&mut state);
                }
                if buffer.is_empty() {
                    if let Err(error) = writer.flush().await {
                        return error.to_string();
                    }
                    if self.closing(lane) {
                        let _ = writer.shutdown().await;
                        // Until the peer has closed it, too: closing a socket that holds unread bytes resets the connection, and the peer would lose
                        // what was sent last.
                        tokio::time::sleep(LINGER).await;
                        return "closed here".to_string();
                    }
                    signals.transmit.notified().await;
                } else if let Err(error) = writer.write_all(&buffer).await {
                    return error.to_string();
                }
            }
        };
        let close = async {
            // Waits for a wish to close, then gives what is left some time to go.
            signals.close.notified().await;
            tokio::time::sleep(LAST_WORDS).await;
            "closed here".to_string()
        };
        tokio::select! {
            why = read => why,
            why = write => why,
            why = close => why,
        }
    }

    fn closing(&self, lane: usize) -> bool {
        let state = self.lock();
        state.session.as_ref().is_none_or(|session| !session.wants_transport(lane))
    }
}

/// How long an application's connection waits for a free flow before it is turned away.
const VACANCY_TIME: Duration = Duration::from_secs(1);
/// How long a transport that is to be closed may take to send what is left.
const LAST_WORDS: Duration = Duration::from_secs(3);
/// How long it stays open for reading after that.
const LINGER: Duration = Duration::from_secs(1);
