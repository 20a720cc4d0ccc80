//! The session: lanes, flows, and the two directions that share them.

mod adapting;
mod events;
mod flows;
mod lanes;
mod log_limit;
mod recalling;
mod receive;
mod reports;
mod stored;
mod time;
mod transmit;
mod transports;
mod writing;

use crate::config::{Config, ConfigError, Settings, check_log, waiting_memory};
use crate::decode_job::{DecodeJob, Outcome};
use crate::domains::Owner;
use crate::encode_job::{EncodeJob, EncoderFailed, Task};
use crate::epoch::{Epoch, Keep};
use crate::flow::{Flow, FlowId, OpenRequest, ResetCode, SendQueue, Sending};
use crate::hello::{Answer, Hello, HelloError, SessionId, VERSIONS};
use crate::incoming::{Incoming, IncomingError};
use crate::lane::{Counted, Expired, Lane, Step, Timers};
use crate::limits::*;
use crate::message::{Message, close};
use crate::meter::{FlowMeter, Residue, SentBlock};
use crate::opening::{Chooser, Opening};
use crate::outgoing::{Encoded, Outgoing};
use crate::pace::{Pace, ThreadLoad};
use crate::padding;
use crate::recall::{Prepared, Preparing, Restoring};
use crate::report::Counters;
use crate::store::{Finished, FinishedLog, Side, Unwritten};
use crate::violation::Violation;
use adapting::Adapting;
pub use events::{Ended, Event, OpenError, Read, Refused};
use lanes::Lanes;
use log_limit::LogLimit;
use oncewire_codec::adapt::{Controller, Decision};
use oncewire_codec::{DEFAULT_BLOCK, Decoder, FrameView, Scan, Sharing, Stream, begins_encrypted};
use oncewire_kernels::random::{GOLDEN, mix};
use reports::Reports;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The content logs of a session that has ended, for the next session with the same peer.
pub struct Logs {
    outgoing: Outgoing,
    incoming: Incoming,
}

impl Logs {
    /// Memory in use, in bytes.
    pub fn memory(&self) -> u64 {
        self.outgoing.memory() + self.incoming.memory()
    }

    /// Size of the sending log, in bytes.
    pub fn capacity(&self) -> u64 {
        self.outgoing.capacity()
    }

    /// Whether the peer's decoder holds this end's sending log, according to its HELLO.
    pub fn fit(&self, hello: &Hello) -> bool {
        self.outgoing.is_held(hello.log.epoch)
    }

    /// The epoch of the receiving log, which the peer can continue.
    pub fn received(&self) -> Epoch {
        self.incoming.epoch()
    }
}

/// The round-trip time assumed before the first measurement.
const RTT_GUESS: Duration = Duration::from_millis(100);
/// What both ends agreed on, and what the peer says of itself.
#[derive(Clone, Debug)]
struct Agreed {
    lanes: usize,
    max_flows: u64,
    /// Bytes that this end may send on a new flow.
    early_credit: u64,
    /// Largest log that the peer's decoder accepts now, in bytes.
    peer_limit: u64,
    /// Largest log of the peer's encoder, in bytes.
    peer_send_log: u64,
    /// The peer's program and version.
    agent: String,
    /// What the peer's encoder finds across isolation domains.
    sharing: Sharing,
    /// The peer accepts no more flows.
    is_going_away: bool,
}

/// Recent frames that failed.
#[derive(Clone, Copy, Debug, Default)]
struct Failures {
    recent: u64,
    /// Blocks that had been decoded by the last one.
    blocks: u64,
}

impl Failures {
    /// Another frame failed, after this many blocks. Returns how many did of late.
    fn another(&mut self, blocks: u64) -> u64 {
        let earlier = if blocks > self.blocks + FORGIVEN { 0 } else { self.recent };
        *self = Failures { recent: earlier + 1, blocks };
        self.recent
    }
}

/// Pseudo-random numbers for names and nonces: splitmix64 (Steele et al., OOPSLA 2014), keyed. Only
/// strangers must be unable to predict them.
struct Random {
    state: u64,
    key: u64,
}

impl Random {
    fn new([state, key, ..]: [u64; 4], is_client: bool) -> Random {
        let mut random = Random { state, key };
        // Mixed once, so that equal seeds of two ends do not give equal numbers.
        random.state ^= random.next().rotate_left(17) ^ u64::from(is_client);
        random
    }

    fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(GOLDEN);
        mix(self.state ^ self.key).max(1)
    }

    /// The nonce of a PING, 56 bits: it takes 8 bytes as a varint.
    fn nonce(&mut self) -> u64 {
        self.next() >> 8
    }
}

/// One end of a session. The [crate documentation](crate) says which call must follow which.
pub struct Session {
    config: Settings,
    id: SessionId,
    /// This end is the client, which dials and opens even flows.
    is_client: bool,
    agreed: Option<Agreed>,
    lanes: Lanes,
    flows: BTreeMap<FlowId, Flow>,
    next_flow: u64,
    outgoing: Outgoing,
    incoming: Incoming,
    events: VecDeque<Event>,
    ended: Option<Ended>,
    /// See [`Session::take_undelivered`].
    undelivered: Vec<(FlowId, VecDeque<Vec<u8>>)>,
    going_away: bool,
    /// Bytes in the send queues of all flows.
    queued: usize,
    rtt: Option<Duration>,
    log_limit: LogLimit,
    /// The values at the last [`Event::Memory`].
    noted: (u64, u64),
    reports: Reports,
    failures: Failures,
    /// What the peer is about to recall.
    preparing: Preparing,
    /// Lanes whose front waits for the disk.
    restoring: BTreeMap<usize, Restoring>,
    /// Requests to the disk so far, for the receiving log.
    fetches: u64,
    /// Ranges of the receiving log that are not stored, for the peer.
    gone: Vec<(u64, u64)>,
    /// Requests in a row that it could not answer.
    lost_in_a_row: u64,
    counters: Counters,
    random: Random,
    adapting: Option<Adapting>,
    /// `None` if compressed content is opened always or never.
    chooser: Option<Chooser>,
    pace: Pace,
    /// Somebody writes the frames of blocks that were found.
    has_writer: bool,
}

impl Session {
    /// A client's session. `logs` are those of an earlier session with the same server, if there
    /// are any. Attach a transport to lane 0 next.
    pub fn connect(config: Settings, logs: Option<Logs>, now: Instant) -> Session {
        let mut session = Session::new(config, SessionId([0; 16]), true, logs, now);
        session.id.0[..8].copy_from_slice(&session.random.next().to_le_bytes());
        session.id.0[8..].copy_from_slice(&session.random.next().to_le_bytes());
        session
    }

    /// A server's session, started by a HELLO that names no session it knows. `logs` are those of
    /// an earlier session with the same client, if there are any. The HELLO's lane has its
    /// transport; [`Session::transmit`] returns the answer.
    ///
    /// # Errors
    /// [`Refused`] with the answer to send.
    pub fn accept_new(
        config: Settings,
        logs: Option<Logs>,
        hello: &Hello,
        now: Instant,
    ) -> Result<Session, Refused> {
        if hello.answer != Answer::New {
            return Err(Refused(hello.refuse(Answer::Unknown, "no such session", &config).into()));
        }
        let mut session = Session::new(config, hello.session, false, logs, now);
        session.accept_lane(hello, now)?;
        Ok(session)
    }

    fn new(
        config: Settings,
        id: SessionId,
        is_client: bool,
        logs: Option<Logs>,
        now: Instant,
    ) -> Session {
        // A server creates its lanes when the client's HELLO says how many it wants.
        let lanes = if is_client { config.lanes } else { 0 };
        let Logs { outgoing, incoming } = logs.unwrap_or_else(|| Logs {
            outgoing: Outgoing::new(
                config.encoder.clone(),
                config.log,
                config.contexts,
                config.store,
            ),
            incoming: Incoming::new(config.log, config.contexts, config.store.is_some()),
        });
        let mut session = Session {
            id,
            is_client,
            agreed: None,
            lanes: Lanes::new(lanes, &config, now),
            flows: BTreeMap::new(),
            next_flow: if is_client { 0 } else { 1 },
            outgoing,
            incoming,
            events: VecDeque::new(),
            ended: None,
            undelivered: Vec::new(),
            going_away: false,
            queued: 0,
            rtt: None,
            log_limit: LogLimit::new(config.log),
            noted: (0, 0),
            failures: Failures::default(),
            preparing: Preparing::default(),
            restoring: BTreeMap::new(),
            fetches: 0,
            gone: Vec::new(),
            lost_in_a_row: 0,
            reports: Reports::new(now),
            counters: Counters::default(),
            random: Random::new(config.random, is_client),
            chooser: (config.opening == Opening::Auto && config.encoder.looks_inside())
                .then(Chooser::new),
            pace: Pace::default(),
            has_writer: false,
            adapting: config
                .cpu_budget
                .and_then(|budget| Adapting::new(&config.encoder, budget, now)),
            config,
        };
        // An earlier session may have left the encoder at another effort.
        if let Ok(ladder) = session.config.encoder.ladder() {
            session.outgoing.set_effort(ladder.efforts()[0]);
        }
        session.outgoing.reset_domain_counts();
        session.outgoing.set_stored(session.config.stored, session.config.store_for);
        // Before HELLO says what memory holds.
        session.incoming.set_limit(session.log_limit.largest());
        session
    }

    /// Whether the peer's decoder holds this session's sending log, according to a HELLO: see
    /// [`Logs::fit`]. If that starts another session, the peer has ended this one.
    pub fn fits(&self, hello: &Hello) -> bool {
        self.outgoing.is_held(hello.log.epoch)
    }

    /// The session's name.
    pub fn id(&self) -> SessionId {
        self.id
    }

    /// Number of lanes: what both ends agreed on, or before that what this end wants.
    pub fn lanes(&self) -> usize {
        self.agreed.as_ref().map_or(self.lanes.len(), |agreed| agreed.lanes)
    }

    /// Whether flows can be opened.
    pub fn is_established(&self) -> bool {
        self.agreed.is_some() && self.ended.is_none()
    }

    /// Whether the peer has processed everything that was sent. Only then is nothing in flight that
    /// would be lost with the session.
    pub fn is_acknowledged(&self) -> bool {
        !self.outgoing.is_lent() && self.lanes.iter().all(Lane::is_acknowledged)
    }

    /// Why the session ended, if it has.
    pub fn ended(&self) -> Option<&Ended> {
        self.ended.as_ref()
    }

    /// Whether a lane has a transport with a complete handshake.
    pub fn is_up(&self, lane: usize) -> bool {
        self.lanes.get(lane).is_some_and(Lane::is_up)
    }

    /// Whether a lane still uses its transport; if it gave it up, there was an [`Event::Drop`].
    pub fn wants_transport(&self, lane: usize) -> bool {
        self.lanes.get(lane).is_some_and(Lane::has_transport)
    }

    /// Program and version of the peer.
    pub fn peer_agent(&self) -> &str {
        self.agreed.as_ref().map_or("", |agreed| &agreed.agent)
    }

    /// What the peer's encoder finds across isolation domains, as it says.
    pub fn peer_sharing(&self) -> Sharing {
        self.agreed.as_ref().map_or(Sharing::All, |agreed| agreed.sharing)
    }

    /// Flows open now.
    pub fn flow_count(&self) -> usize {
        self.flows.len()
    }

    /// Smoothed round-trip time of the lanes, once it was measured.
    pub fn rtt(&self) -> Option<Duration> {
        self.rtt
    }

    /// Whether nothing is queued, in flight or waiting to be read.
    pub fn is_idle(&self) -> bool {
        self.flows.is_empty()
            && !self.outgoing.has_unacknowledged()
            && self.lanes.iter().all(Lane::is_acknowledged)
    }

    /// Memory in use, in bytes: logs, tables, entropy contexts, queues.
    pub fn memory(&self) -> u64 {
        let waiting: u64 = self.flows.values().map(|flow| flow.receive.held()).sum();
        let lanes: usize = self.lanes.iter().map(Lane::memory).sum();
        self.outgoing.memory()
            + self.incoming.memory()
            + self.preparing.memory()
            + self.queued as u64
            + waiting
            + lanes as u64
    }

    /// Least memory of the session while it is active, in bytes: see
    /// [`Config::least_memory`](crate::Config::least_memory).
    pub fn least_memory(&self) -> u64 {
        Config { lanes: self.lanes.len(), ..Config::clone(&self.config) }.least_memory()
    }

    /// Most memory, in bytes, that the logs and tables of both directions will take, with their
    /// entropy contexts and what waits on several lanes; 0 if nothing was carried yet. At most
    /// [`Config::logs_memory`](crate::Config::logs_memory).
    pub fn promised_memory(&self) -> u64 {
        // A log that is to begin again larger counts with its new size at once.
        let (now, soon) = (self.outgoing.capacity(), self.next_log());
        let sending =
            self.outgoing.promised_memory(if self.wants_resize() { now.max(soon) } else { now });
        let received = self.incoming.capacity().max(self.next_received_log());
        let receiving = match self.incoming.promised_memory(received) {
            0 => 0,
            promised => promised + waiting_memory(received, self.lanes.len()),
        };
        sending + receiving
    }

    /// Size of the log that this end would begin now, in bytes.
    fn next_log(&self) -> u64 {
        let peer = self.agreed.as_ref().map_or(u64::MAX, |agreed| agreed.peer_limit);
        self.log_limit.get().min(peer).max(SMALLEST_LOG)
    }

    /// Whether the sending log has to begin again, as soon as nothing of it is in flight: the peer
    /// wants to give it up; it is larger than allowed; or it is full, evicts content, and may be at least twice
    /// as large.
    fn wants_resize(&self) -> bool {
        let (filled, capacity, next) =
            (self.outgoing.filled(), self.outgoing.capacity(), self.next_log());
        // Not before something was sent, so that a peer that changes its limit again and again
        // makes no work.
        filled > 0
            && (self.outgoing.begins_again()
                || next < capacity
                || (filled >= capacity && next / 2 >= capacity))
    }

    /// Size of the log that the peer may begin now, in bytes.
    fn next_received_log(&self) -> u64 {
        let peer = self.agreed.as_ref().map_or(u64::MAX, |agreed| agreed.peer_send_log);
        self.log_limit.get().min(peer).max(SMALLEST_LOG)
    }

    /// Size, in bytes, up to which a larger log would help: a full log evicts content that may
    /// repeat. 0 if no log is full, or if the peer would not keep one at least twice as large. See
    /// [`Session::set_log_limit`].
    pub fn wanted_log(&self) -> u64 {
        let Some(agreed) = &self.agreed else { return 0 };
        let want = |filled: u64, capacity: u64, peer: u64| {
            if filled >= capacity && peer / 2 >= capacity { peer } else { 0 }
        };
        want(self.outgoing.filled(), self.outgoing.capacity(), agreed.peer_limit).max(want(
            self.incoming.filled(),
            self.incoming.capacity(),
            agreed.peer_send_log,
        ))
    }

    /// Largest log that this end keeps in each direction now, in bytes: see
    /// [`Session::set_log_limit`].
    pub fn log_limit(&self) -> u64 {
        self.log_limit.get()
    }

    /// Largest log that the peer keeps in each direction now, in bytes, once it is known.
    pub fn peer_log_limit(&self) -> Option<u64> {
        self.agreed.as_ref().map(|agreed| agreed.peer_limit)
    }

    /// When the peer last sent something on any lane; `None` if no lane is up.
    pub fn last_received(&self) -> Option<Instant> {
        self.lanes.iter().filter_map(Lane::last_received).max()
    }

    /// Raises [`Event::Memory`] if its values have changed.
    fn note_memory(&mut self) {
        let now = (self.promised_memory(), self.wanted_log());
        if std::mem::replace(&mut self.noted, now) != now {
            self.events.push_back(Event::Memory);
        }
        self.note_unwritten();
    }

    /// Size of the larger of the logs in use, in bytes.
    pub fn largest_log(&self) -> u64 {
        let outgoing = if self.outgoing.is_used() { self.outgoing.capacity() } else { 0 };
        let incoming = if self.incoming.is_used() { self.incoming.capacity() } else { 0 };
        outgoing.max(incoming)
    }

    /// [`Counters::forgotten_domains`].
    pub fn forgotten_domains(&self) -> u64 {
        self.outgoing.domains().forgotten
    }

    /// Counters of this end.
    pub fn counters(&self) -> Counters {
        Counters {
            delivery_waiting_bytes: self.flows.values().map(|flow| flow.receive.held()).sum(),
            memory_bytes: self.memory(),
            ..self.quick_counters()
        }
    }

    /// The counters without those that take a look at every flow.
    fn quick_counters(&self) -> Counters {
        let (stats, domains) = (self.outgoing.stats(), self.outgoing.domains());
        Counters {
            blocks: stats.blocks,
            matched_bytes: stats.matched_bytes,
            incompressible_blocks: stats.incompressible_blocks,
            opened_bytes: stats.inside.opened_bytes,
            token_bytes: stats.inside.found_bytes,
            declined_bytes: stats.inside.declined_bytes,
            domains: domains.len() as u64,
            unowned_flows: domains.unknown,
            forgotten_domains: domains.forgotten,
            flows: self.flows.len() as u64,
            log_end: self.outgoing.end(),
            log_unacknowledged: self.outgoing.unacknowledged(),
            log_capacity: self.outgoing.capacity(),
            received_low: self.incoming.acknowledged(),
            send_waiting_bytes: self.queued as u64,
            rtt_us: self.rtt.map_or(0, |rtt| rtt.as_micros() as u64),
            ..self.counters
        }
    }

    /// Offsets, for tests and status: the end of the sending log, its acknowledged offset, and the
    /// acknowledged offset of the receiving log.
    pub fn offsets(&self) -> (u64, u64, u64) {
        (self.outgoing.end(), self.outgoing.acknowledged(), self.incoming.acknowledged())
    }

    /// The next event, in order. Call it until it returns `None` after every call that takes bytes,
    /// time or an application's request.
    pub fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    /// Drops the logs of an earlier session, because the peer turned out to be another. Call it
    /// before the first HELLO is sent or received.
    pub fn forget_logs(&mut self) {
        if self.agreed.is_none() {
            self.outgoing.discard();
            self.incoming.discard();
            // What is stored is that of the other peer, and stays.
            self.outgoing.forget_unwritten();
            self.incoming.forget_unwritten();
        }
    }

    /// Ends the session without notifying anyone, and returns its logs. A log whose encoder
    /// or decoder is out with a job is dropped.
    pub fn into_logs(mut self) -> Logs {
        self.clear_flows();
        self.outgoing.settle();
        self.incoming.settle();
        Logs { outgoing: self.outgoing, incoming: self.incoming }
    }
}
