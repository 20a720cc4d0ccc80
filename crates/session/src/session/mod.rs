//! The session itself: lanes, flows, and the two directions between them.

mod adapting;
mod flows;
mod receive;
mod time;
mod transmit;
mod transports;

use crate::config::{Config, EARLY_CREDIT, LARGEST_LOG, MAX_LANES, SEND_QUEUE, SEND_QUEUE_MIN, SMALLEST_LOG, waiting_memory};
use crate::flow::{Flow, FlowId, ResetCode, Sending};
use crate::hello::{Answer, Hello, HelloError, SessionId, VERSIONS};
use crate::incoming::{Incoming, IncomingError, Taken};
use crate::lane::{ACK_MESSAGES, Item, Lane, LaneState, MAX_CONTROL};
use crate::message::{Epoch, MAX_TARGET, MAX_TEXT, Message, MessageError, truncate};
use crate::outgoing::{EncoderFailed, Outgoing};
use crate::report::Counters;
use adapting::Adapting;
use oncewire_codec::MAX_BLOCK;
use oncewire_codec::adapt::{Controller, Decision};
use std::collections::{BTreeMap, VecDeque};
use std::time::{Duration, Instant};

/// What the driver is to do, or to know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// The peer has answered for the first time: flows may be opened.
    Established,
    /// A lane has something to send: call [`Session::transmit`] until it gives nothing.
    Transmit(usize),
    /// Send what [`Session::transmit`] still gives, close the lane's transport, and call [`Session::detach`].
    Drop(usize),
    /// The peer opens a flow to a target: [`Session::accept`] or [`Session::reset`] it.
    Opened(FlowId, Vec<u8>),
    /// The peer has accepted a flow.
    Accepted(FlowId),
    /// [`Session::read`] has something.
    Readable(FlowId),
    /// [`Session::write`] takes more.
    Writable(FlowId),
    /// The peer has reset a flow. It is gone.
    Reset(FlowId, ResetCode),
    /// The peer accepts no more flows and will end when those open have.
    GoingAway,
    /// What the peer counts.
    Report(Counters),
    /// From now on more, or less, CPU time is spent on each block.
    Effort(Decision),
    /// [`Session::promised_memory`] or [`Session::wanted_log`] has changed.
    Memory,
    /// The session is over, and all its flows with it. [`Session::into_logs`] may keep the logs for the next.
    Ended(Ended),
}

/// Why a session ended.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Ended {
    /// [`Session::close`] was called, or the peer closed.
    #[error("closed")]
    Closed,
    /// No transport for longer than the grace time.
    #[error("no transport for {0:?}")]
    GraceOver(Duration),
    /// The answering end does not know the session: it has been restarted, or gave it up.
    #[error("the peer does not know the session any more")]
    Unknown,
    /// The answering end takes no sessions now.
    #[error("the server takes no session now: {reason}")]
    Busy {
        /// The reason it gives, without control characters.
        reason: String,
    },
    /// The peer's count of messages cannot be: one end was restored from an old copy of its state.
    #[error("the peer's state does not fit: one end was restored from an old copy")]
    StateMismatch,
    /// The peer broke the protocol.
    #[error("the peer broke the protocol: {0}")]
    Violation(#[from] Violation),
    /// The peer says that this end broke the protocol.
    #[error("the peer refused to go on: {0}")]
    Accused(String),
    /// Frames failed again and again.
    #[error("{0} frames failed to decode")]
    TooManyFailures(u64),
    /// This end cannot encode.
    #[error(transparent)]
    Encoder(#[from] EncoderFailed),
}

/// How a peer broke the protocol.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Violation {
    /// Bytes that are no message.
    #[error(transparent)]
    Message(#[from] MessageError),
    /// A hello that cannot be understood.
    #[error(transparent)]
    Hello(#[from] HelloError),
    /// A message where it must not be.
    #[error("unexpected {0}")]
    Unexpected(&'static str),
    /// A number out of its bounds.
    #[error("{what} of {value}, where at most {limit} is allowed")]
    Bounds {
        /// Of what.
        what: &'static str,
        /// What was said.
        value: u64,
        /// What is allowed.
        limit: u64,
    },
    /// An epoch that cannot begin.
    #[error("{0}")]
    Epoch(String),
}

/// Why a flow cannot be opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OpenError {
    /// Not before [`Event::Established`], and not after [`Event::Ended`].
    #[error("the session is not established")]
    NotEstablished,
    /// Either end has said that it goes away.
    #[error("the session accepts no more flows")]
    GoingAway,
    /// This end has no credit left to give.
    #[error("no memory is left for another flow; a larger --memory has room for more")]
    NoCredit,
    /// As many as both ends agreed on are open.
    #[error("{0} flows are open, as many as --max-flows and --memory of both ends allow")]
    TooMany(u64),
    /// Longer than [`MAX_TARGET`].
    #[error("a target of {0} bytes is too long")]
    Target(usize),
}

/// What there is to read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Read {
    /// The next bytes. Report them with [`Session::consumed`] when the application has them.
    Data(Vec<u8>),
    /// The peer's application has finished, and all it sent has been read.
    Finished,
    /// Nothing now.
    Nothing,
    /// No such flow: it was reset, or both ends have finished.
    Gone,
}

/// A lane could not be accepted. The hello to send back says so, too.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused(pub Box<Hello>);

/// The content logs of a session that has ended, for a next session with the same peer.
pub struct Logs {
    outgoing: Outgoing,
    incoming: Incoming,
}

impl Logs {
    /// Memory in use in bytes.
    pub fn memory(&self) -> u64 {
        self.outgoing.memory() + self.incoming.memory()
    }

    /// Size of the log that is sent, in bytes.
    pub fn capacity(&self) -> u64 {
        self.outgoing.capacity()
    }

    /// Whether the peer's decoder holds this end's sending log, going by its hello.
    pub fn fit(&self, hello: &Hello) -> bool {
        self.outgoing.epoch() != Epoch::NONE && hello.log.epoch.log == self.outgoing.epoch().log
    }

    /// Identity of what is received: what the peer can go on from.
    pub fn received(&self) -> Epoch {
        self.incoming.epoch()
    }
}

/// Codes of CLOSE.
mod close {
    pub(super) const DONE: u64 = 0;
    pub(super) const VIOLATION: u64 = 1;
    pub(super) const FRAME_FAILED: u64 = 2;
    pub(super) const LOG_LOST: u64 = 3;
}

/// Frames that may fail before the session ends,
const MAX_FAILURES: u64 = 64;
/// and blocks that have to come in order for that to be forgotten.
const FORGIVEN: u64 = 10_000;
/// Bytes that may be in a lane's input beyond the span: what a lane may have unacknowledged that is no frame, and a frame that is not
/// complete.
const INPUT_SLACK: u64 = (MAX_CONTROL + 256 * 1024) as u64;
/// Decoded bytes after which an acknowledgement is due at once.
const ACK_BYTES: u64 = 256 << 10;
/// A round-trip time is measured at most so often while there is traffic.
const RTT_INTERVAL: Duration = Duration::from_secs(1);
/// Round-trip time before the first measurement.
const RTT_GUESS: Duration = Duration::from_millis(100);
/// Window of a flow beyond [`EARLY_CREDIT`] from the beginning, if the budget has it.
const FIRST_WINDOW: u64 = 1 << 20;

/// What both ends have agreed on.
#[derive(Clone, Copy, Debug)]
struct Agreed {
    lanes: usize,
    max_flows: u64,
    /// Bytes that may be sent on a new flow.
    early_credit: u64,
    /// Largest log that the peer's decoder keeps now, in bytes.
    peer_limit: u64,
    /// Largest log that the peer's encoder would keep, in bytes.
    peer_send_log: u64,
}

/// What is watched while a peer has to make its log smaller.
#[derive(Clone, Copy, Debug)]
struct LimitDue {
    at: Instant,
    /// What was received contiguously when the peer was told, and when it was last looked.
    told_at: u64,
    seen: u64,
}

/// One end of a session.
pub struct Session {
    config: Config,
    id: SessionId,
    /// This end connected, and opens even flows.
    connects: bool,
    agreed: Option<Agreed>,
    peer_agent: String,
    lanes: Vec<Lane>,
    flows: BTreeMap<FlowId, Flow>,
    next_flow: u64,
    outgoing: Outgoing,
    incoming: Incoming,
    events: VecDeque<Event>,
    ended: Option<Ended>,
    going_away: bool,
    peer_going_away: bool,
    /// Bytes in send queues.
    queued: usize,
    rtt: Option<Duration>,
    /// Largest logs that this end keeps now, in bytes: see [`Session::set_log_limit`].
    log_limit: u64,
    /// The largest limit that the peer may have been told.
    told_limit: u64,
    /// The peer has to be told of `log_limit`.
    tell_limit: bool,
    /// The peer has yet to begin a log within the limit.
    limit_due: Option<LimitDue>,
    /// It did not once, and lost its log.
    limit_enforced: bool,
    /// What [`Event::Memory`] was last raised for.
    noted: (u64, u64),
    ask_report: bool,
    report_due: bool,
    /// Frames that failed not long ago, and how many blocks had come by the last.
    failures: (u64, u64),
    counters: Counters,
    random: u64,
    adapting: Option<Adapting>,
}

impl Session {
    /// The end that connects. Attach a transport to lane 0 next.
    pub fn connect(config: Config, logs: Option<Logs>, now: Instant) -> Session {
        let mut session = Session::new(config, SessionId([0; 16]), true, logs, now);
        let (high, low) = (session.random(), session.random());
        session.id.0[..8].copy_from_slice(&high.to_le_bytes());
        session.id.0[8..].copy_from_slice(&low.to_le_bytes());
        session
    }

    /// The end that answers a hello of a session that it does not know. `logs` are those of an earlier session with the same peer, if
    /// there are any.
    ///
    /// # Errors
    /// [`Refused`] with the answer to send.
    pub fn accept_new(config: Config, logs: Option<Logs>, hello: &Hello, now: Instant) -> Result<Session, Refused> {
        if hello.answer != Answer::New {
            return Err(Refused(hello.refuse(Answer::Unknown, "no such session", &config).into()));
        }
        let mut session = Session::new(config, hello.session, false, logs, now);
        session.accept_lane(hello, now)?;
        Ok(session)
    }

    fn new(config: Config, id: SessionId, connects: bool, logs: Option<Logs>, now: Instant) -> Session {
        let lanes = if connects { config.lanes.clamp(1, MAX_LANES) } else { 0 };
        let Logs { outgoing, incoming } = logs.unwrap_or_else(|| Logs {
            outgoing: Outgoing::new(config.encoder.clone(), config.log.max(SMALLEST_LOG)),
            incoming: Incoming::new(config.log.max(SMALLEST_LOG)),
        });
        let mut session = Session {
            id,
            connects,
            agreed: None,
            peer_agent: String::new(),
            lanes: (0..lanes).map(|_| Lane::new(now)).collect(),
            flows: BTreeMap::new(),
            next_flow: if connects { 0 } else { 1 },
            outgoing,
            incoming,
            events: VecDeque::new(),
            ended: None,
            going_away: false,
            peer_going_away: false,
            queued: 0,
            rtt: None,
            log_limit: config.log.max(SMALLEST_LOG),
            told_limit: config.log.max(SMALLEST_LOG),
            tell_limit: false,
            limit_due: None,
            limit_enforced: false,
            noted: (0, 0),
            failures: (0, 0),
            ask_report: false,
            report_due: false,
            counters: Counters::default(),
            random: config.random[0],
            adapting: config.cpu_budget.and_then(|budget| Adapting::new(&config.encoder, budget, now)),
            config,
        };
        // An earlier session may have left the encoder at another.
        if let Ok(ladder) = session.config.encoder.ladder() {
            session.outgoing.set_effort(ladder.efforts()[0]);
        }
        // Mixed once, so that equal seeds of two ends do not give equal numbers.
        session.random ^= session.random().rotate_left(17) ^ u64::from(connects);
        session
    }

    /// splitmix64 (Steele et al., OOPSLA 2014), keyed: names need to be unpredictable to strangers only.
    fn random(&mut self) -> u64 {
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.random ^ self.config.random[1];
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)).max(1)
    }

    /// Whether the peer's decoder holds this session's sending log, going by a hello: see [`Logs::fit`]. If it is the hello of another session, the peer
    /// has given this one up.
    pub fn fits(&self, hello: &Hello) -> bool {
        self.outgoing.epoch() != Epoch::NONE && hello.log.epoch.log == self.outgoing.epoch().log
    }

    /// The session's name.
    pub fn id(&self) -> SessionId {
        self.id
    }

    /// Lanes that this end wants, or both have agreed on.
    pub fn lanes(&self) -> usize {
        self.agreed.map_or(self.lanes.len(), |agreed| agreed.lanes)
    }

    /// Whether flows can be opened.
    pub fn is_established(&self) -> bool {
        self.agreed.is_some() && self.ended.is_none()
    }

    /// Why it ended, if it has.
    pub fn ended(&self) -> Option<&Ended> {
        self.ended.as_ref()
    }

    /// Whether a lane has a transport that works.
    pub fn is_up(&self, lane: usize) -> bool {
        self.lanes.get(lane).is_some_and(|lane| lane.state == LaneState::Up)
    }

    /// Whether a lane's transport is still of use; [`Event::Drop`] has said so if not.
    pub fn wants_transport(&self, lane: usize) -> bool {
        self.lanes.get(lane).is_some_and(|lane| matches!(lane.state, LaneState::Up | LaneState::Greeting(_)))
    }

    /// Program and version of the peer.
    pub fn peer_agent(&self) -> &str {
        &self.peer_agent
    }

    /// Flows open now.
    pub fn flow_count(&self) -> usize {
        self.flows.len()
    }

    /// Smoothed round-trip time of the lanes, once measured.
    pub fn rtt(&self) -> Option<Duration> {
        self.rtt
    }

    /// Nothing is queued, on its way or waiting.
    pub fn is_idle(&self) -> bool {
        self.flows.is_empty() && !self.outgoing.has_unacknowledged() && self.lanes.iter().all(|lane| lane.items.is_empty())
    }

    /// Memory in use in bytes: logs, tables, entropy contexts, queues.
    pub fn memory(&self) -> u64 {
        let waiting: u64 = self.flows.values().map(|flow| flow.receive.held()).sum();
        let lanes: usize = self.lanes.iter().map(|lane| lane.input.capacity() + lane.items.len() * size_of::<Item>()).sum();
        self.outgoing.memory() + self.incoming.memory() + self.queued as u64 + waiting + lanes as u64
    }

    /// Memory that the logs and tables of both directions may come to take, in bytes, with the entropy contexts that they have and what waits
    /// on several lanes; 0 while nothing was carried. At most [`Config::logs_memory`].
    pub fn promised_memory(&self) -> u64 {
        // A log that is to begin again larger counts as that at once.
        let (now, soon) = (self.outgoing.capacity(), self.next_log());
        let sending = self.outgoing.promised_memory(if self.wants_resize() { now.max(soon) } else { now });
        let received = self.incoming.capacity().max(self.next_received_log());
        let receiving = match self.incoming.promised_memory(received) {
            0 => 0,
            promised => promised + waiting_memory(received, self.lanes.len()),
        };
        sending + receiving
    }

    /// Size in bytes of the log that this end would begin now.
    fn next_log(&self) -> u64 {
        self.agreed.map_or(self.log_limit, |agreed| self.log_limit.min(agreed.peer_limit)).max(SMALLEST_LOG)
    }

    /// Whether the log that this end sends is to begin again in another size, as soon as nothing of it is in flight: it is larger than allowed; or
    /// it is full, has begun to evict, and may be twice as large.
    fn wants_resize(&self) -> bool {
        let (filled, capacity, next) = (self.outgoing.end(), self.outgoing.capacity(), self.next_log());
        // Never before something was sent: a peer that changes its mind again and again gives nobody work.
        filled > 0 && (next < capacity || (filled >= capacity && next / 2 >= capacity))
    }

    /// Size in bytes of the log that the peer may begin now.
    fn next_received_log(&self) -> u64 {
        self.agreed.map_or(self.log_limit, |agreed| self.log_limit.min(agreed.peer_send_log)).max(SMALLEST_LOG)
    }

    /// Size in bytes up to which a larger log would be of use: a log that has been filled is evicting what may repeat. 0 if no log is full, or the
    /// peer would not keep a larger one. See [`Session::set_log_limit`].
    pub fn wanted_log(&self) -> u64 {
        let Some(agreed) = self.agreed else { return 0 };
        let want = |filled: u64, capacity: u64, peer: u64| if filled >= capacity && peer / 2 >= capacity { peer } else { 0 };
        want(self.outgoing.end(), self.outgoing.capacity(), agreed.peer_limit).max(want(
            self.incoming.low(),
            self.incoming.capacity(),
            agreed.peer_send_log,
        ))
    }

    /// Largest logs that this end keeps now, in bytes: see [`Session::set_log_limit`].
    pub fn log_limit(&self) -> u64 {
        self.log_limit
    }

    /// When a transport last brought something; `None` if none is up.
    pub fn last_heard(&self) -> Option<Instant> {
        self.lanes.iter().filter(|lane| lane.state == LaneState::Up).map(|lane| lane.heard).max()
    }

    /// Raises [`Event::Memory`] if there is reason to.
    fn note_memory(&mut self) {
        let now = (self.promised_memory(), self.wanted_log());
        if std::mem::replace(&mut self.noted, now) != now {
            self.events.push_back(Event::Memory);
        }
    }

    /// Size in bytes of the larger of the logs that are in use.
    pub fn largest_log(&self) -> u64 {
        let outgoing = if self.outgoing.is_used() { self.outgoing.capacity() } else { 0 };
        let incoming = if self.incoming.is_used() { self.incoming.capacity() } else { 0 };
        outgoing.max(incoming)
    }

    /// Counters of this end.
    pub fn counters(&self) -> Counters {
        let stats = self.outgoing.stats();
        Counters {
            blocks: stats.blocks,
            matched_bytes: stats.matched_bytes,
            incompressible_blocks: stats.incompressible_blocks,
            flows: self.flows.len() as u64,
            log_end: self.outgoing.end(),
            log_unacknowledged: self.outgoing.unacknowledged(),
            log_capacity: self.outgoing.capacity(),
            received_low: self.incoming.low(),
            delivery_waiting_bytes: self.flows.values().map(|flow| flow.receive.held()).sum(),
            send_waiting_bytes: self.queued as u64,
            memory_bytes: self.memory(),
            rtt_us: self.rtt.map_or(0, |rtt| rtt.as_micros() as u64),
            ..self.counters
        }
    }

    /// Offsets that matter to tests and status: end of the sending log, what of it is acknowledged, and what was received contiguously.
    pub fn offsets(&self) -> (u64, u64, u64) {
        (self.outgoing.end(), self.outgoing.low(), self.incoming.low())
    }

    /// The next thing that happened, in order.
    pub fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    /// Drops the logs of an earlier session: the peer is another. To be called before the first hello.
    pub fn forget_logs(&mut self) {
        if self.agreed.is_none() {
            self.outgoing.forget();
            self.incoming.lose();
        }
    }

    /// Ends the session without telling anybody, and returns its logs.
    pub fn into_logs(mut self) -> Logs {
        self.clear_flows();
        Logs { outgoing: self.outgoing, incoming: self.incoming }
    }
}
