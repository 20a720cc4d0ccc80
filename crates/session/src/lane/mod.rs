//! One lane: an ordered, reliable stream of messages that outlives the transports carrying it.
//!
//! A lane owns the state of its transport, its timers and its next deadline. The session reports
//! what happened ([`Lane::handshaking`], [`Lane::established`], [`Lane::received`],
//! [`Lane::stopped`], ...) and asks what follows. A new transport resets whatever belonged to the
//! old one, and nothing else. More than 600 lines, most of them calls of a few lines that keep the
//! parts of a lane in step.

mod acks;
mod liveness;
mod outbox;
mod received;
mod unwritten;

pub(crate) use outbox::Counted;
pub(crate) use received::Step;
pub(crate) use unwritten::Written;

use crate::config::Config;
use crate::flow::FlowId;
use crate::hello::{Answer, Hello};
use crate::limits::{MAX_BODY, MAX_TEXT};
use crate::message::{Message, truncate};
use crate::meter::SentBlock;
use crate::outgoing::log::BlockId;
use crate::queue::ByteQueue;
use crate::schedule::Round;
use acks::Acks;
use liveness::Liveness;
use outbox::Outbox;
use std::collections::VecDeque;
use std::time::{Duration, Instant};
use unwritten::Unwritten;

/// A lane measures the round-trip time at most this often while there is traffic.
const RTT_INTERVAL: Duration = Duration::from_secs(1);
/// Entries for closed flows that a lane's queues may hold before they are swept.
const STALE_ENTRIES: usize = 64;

/// How long a lane waits for what. See the fields of the same names in [`Config`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct Timers {
    keep_alive: Duration,
    dead_after: Duration,
    grace: Duration,
    ack_delay: Duration,
}

impl Timers {
    pub(crate) fn new(config: &Config) -> Timers {
        let &Config { keep_alive, dead_after, grace, ack_delay, .. } = config;
        Timers { keep_alive, dead_after, grace, ack_delay }
    }
}

/// The state of a lane's transport.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// There is no transport.
    Down,
    /// The client sent its HELLO and waits for the answer until the given time.
    Handshaking(Instant),
    /// The handshake is complete.
    Up,
    /// The lane gave up its transport: what is queued goes out, then the driver closes it.
    Closing,
}

/// What a lane's timers ask of the session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Expired {
    /// No timer has expired.
    Nothing,
    /// A PING, an ACK or something that was to go with other messages is due: call `transmit`.
    Send,
    /// The peer was silent for too long: the lane gave up its transport.
    Transport,
    /// The lane had no transport for the grace time: the session ends.
    Grace,
}

#[derive(Debug)]
pub(crate) struct Lane {
    timers: Timers,
    state: State,
    /// Number of the current transport.
    transport: u64,
    /// Since when there has been no working transport. `None` once a handshake is complete.
    down_since: Option<Instant>,
    /// Messages that are not counted, for this transport: HELLO, PING, PONG, CLOSE.
    uncounted: Vec<u8>,
    outbox: Outbox,
    /// Blocks that follow what is in the outbox and was sent.
    unwritten: Unwritten,
    acks: Acks,
    liveness: Liveness,
    /// Received bytes that are not processed yet.
    input: ByteQueue,
    /// How many more bytes the message at the front of `input` needs.
    needs: usize,
    /// The frame at the front of `input` refers to content that will arrive on another lane; the
    /// number of blocks the session had received when that was found.
    waiting: Option<u64>,
    /// The input at the front cannot be processed before the decoder is back.
    blocked: bool,
    /// The message at the front waits for the disk.
    fetching: bool,
    /// A job has the input, and decodes a frame of it: its length in bytes.
    decoding: Option<usize>,
    /// There is input that was not tried since it came, or since what it waited for was there.
    untried: bool,
    /// HELLO is to be sent when the job is back, because its block counts.
    hello_due: Option<Answer>,
    /// The driver knows that there is something to send and has not drained it yet.
    awake: bool,
    /// Flows with messages other than DATA to send.
    control: VecDeque<FlowId>,
    /// When these are due, if the driver was not notified of them.
    control_due: Option<Instant>,
    /// Flows with DATA to send.
    round: Round,
    /// Flows carried on this lane.
    flows: usize,
}

impl Lane {
    pub(crate) fn new(timers: Timers, now: Instant) -> Lane {
        Lane {
            timers,
            state: State::Down,
            transport: 0,
            down_since: Some(now),
            uncounted: Vec::new(),
            outbox: Outbox::default(),
            unwritten: Unwritten::default(),
            acks: Acks::default(),
            liveness: Liveness::new(now),
            input: ByteQueue::default(),
            needs: 0,
            waiting: None,
            blocked: false,
            fetching: false,
            decoding: None,
            untried: false,
            hello_due: None,
            awake: false,
            control: VecDeque::new(),
            control_due: None,
            round: Round::default(),
            flows: 0,
        }
    }

    // The transport.

    /// The client has a new transport; its HELLO goes out first.
    pub(crate) fn handshaking(&mut self, now: Instant) {
        self.reset(State::Handshaking(now + self.timers.dead_after), now);
    }

    /// The server got a HELLO for this lane on a new transport, which replaces any earlier one.
    pub(crate) fn accepted(&mut self, now: Instant) {
        self.reset(State::Up, now);
    }

    /// The handshake is complete. Returns whether the lane resumes: it carried messages before.
    pub(crate) fn established(&mut self, now: Instant) -> bool {
        self.state = State::Up;
        self.down_since = None;
        self.liveness.received(now);
        self.outbox.was_used() || self.acks.processed() > 0
    }

    /// The transport is gone.
    pub(crate) fn stopped(&mut self, now: Instant) {
        self.reset(State::Down, now);
        self.down_since = self.down_since.or(Some(now));
    }

    /// The lane's grace time starts: until now nobody could know that there is such a lane.
    pub(crate) fn expect_transport(&mut self, now: Instant) {
        self.down_since = Some(now);
    }

    /// Gives up the transport and queues CLOSE. Returns `false` if there is no transport to give
    /// up.
    pub(crate) fn close(&mut self, code: u64, text: &str) -> bool {
        let had_transport = self.has_transport();
        if had_transport {
            self.state = State::Closing;
            self.push_uncounted(&Message::Close(code, truncate(text).as_bytes()));
        }
        had_transport
    }

    /// Gives up the transport without CLOSE, because the peer sent one or is silent.
    pub(crate) fn abandon(&mut self) {
        self.state = State::Closing;
    }

    fn reset(&mut self, state: State, now: Instant) {
        self.state = state;
        self.transport += 1;
        self.uncounted.clear();
        self.give_up_writing();
        self.outbox.restart();
        self.acks.restart();
        self.liveness = Liveness::new(now);
        self.input = ByteQueue::default();
        self.needs = 0;
        self.waiting = None;
        (self.blocked, self.fetching, self.untried, self.hello_due) = (false, false, false, None);
        self.control_due = None;
        self.awake = false;
    }

    /// Whether the handshake on the current transport is complete.
    pub(crate) fn is_up(&self) -> bool {
        self.state == State::Up
    }

    /// Identifies the current transport among all that the lane has had.
    pub(crate) fn transport(&self) -> u64 {
        self.transport
    }

    pub(crate) fn is_handshaking(&self) -> bool {
        matches!(self.state, State::Handshaking(_))
    }

    /// Whether there is a transport that was not given up.
    pub(crate) fn has_transport(&self) -> bool {
        matches!(self.state, State::Up | State::Handshaking(_))
    }

    // Timers.

    /// When to call [`Lane::on_timeout`].
    pub(crate) fn next_deadline(&self) -> Option<Instant> {
        match self.state {
            State::Down => self.down_since.map(|since| since + self.timers.grace),
            State::Handshaking(until) => Some(until),
            State::Closing => None,
            State::Up => {
                let quiet =
                    self.ping_at().min(self.liveness.received_at() + self.timers.dead_after);
                let due = [self.acks.due(), self.control_due].into_iter().flatten();
                Some(due.fold(quiet, Instant::min))
            }
        }
    }

    /// Does what is due at `now`. `nonce` is for a PING.
    pub(crate) fn on_timeout(&mut self, now: Instant, nonce: impl FnOnce() -> u64) -> Expired {
        match self.state {
            State::Down
                if self.down_since.is_some_and(|since| now >= since + self.timers.grace) =>
            {
                Expired::Grace
            }
            State::Handshaking(until) if now >= until => self.expire(),
            State::Up if now >= self.liveness.received_at() + self.timers.dead_after => {
                self.expire()
            }
            State::Up => {
                let ping = now >= self.ping_at();
                if ping {
                    self.ping_again(nonce(), now);
                }
                // The ACK goes with whatever is sent next, as soon as the transport takes it.
                let ack = self.acks.expire(now);
                let control = self.control_due.take_if(|at| now >= *at).is_some();
                if ping || ack || control { Expired::Send } else { Expired::Nothing }
            }
            _ => Expired::Nothing,
        }
    }

    fn expire(&mut self) -> Expired {
        self.abandon();
        Expired::Transport
    }

    /// When to PING. A lane that waits for another one does not get to the peer's PINGs; it must
    /// PING unasked, or the peer takes it for dead.
    fn ping_at(&self) -> Instant {
        self.liveness.quiet_since(self.is_waiting()) + self.timers.keep_alive
    }

    /// When the peer last sent something; `None` unless the transport is up.
    pub(crate) fn last_received(&self) -> Option<Instant> {
        self.is_up().then(|| self.liveness.received_at())
    }

    /// Queues a PING, unless one is unanswered.
    pub(crate) fn ping(&mut self, nonce: u64, now: Instant) {
        if self.liveness.ping(nonce, now) {
            self.push_uncounted(&Message::Ping(nonce));
        }
    }

    /// Queues a PING even if an earlier one is unanswered, which then no longer counts.
    pub(crate) fn ping_again(&mut self, nonce: u64, now: Instant) {
        self.liveness.forget_ping();
        self.ping(nonce, now);
    }

    /// Whether it is time to measure the round-trip time again.
    pub(crate) fn wants_rtt(&self, now: Instant) -> bool {
        self.liveness.since_ping(now) >= RTT_INTERVAL
    }

    /// A PONG came. Returns the round-trip time if it answers the PING in flight.
    pub(crate) fn pong(&mut self, nonce: u64, now: Instant) -> Option<Duration> {
        self.liveness.pong(nonce, now)
    }

    /// Queues a PONG; returns `false` if too many are queued already, so that a flood of PINGs
    /// takes no memory.
    pub(crate) fn answer_ping(&mut self, nonce: u64) -> bool {
        let room = self.uncounted.len() < MAX_TEXT;
        if room {
            self.push_uncounted(&Message::Pong(nonce));
        }
        room
    }

    /// Queues an answer to PREPARE, unless too many are queued already.
    pub(crate) fn answer_prepare(&mut self, id: u64, took: Option<Duration>) {
        if self.is_up() && self.uncounted.len() < MAX_BODY {
            let time = took.map_or(0, |took| took.as_micros().min(u32::MAX.into()) as u64 + 1);
            self.push_uncounted(&Message::Prepared(id, time));
        }
    }

    // Received messages.

    /// `len` bytes came from the transport. Returns `false` if it was given up: they are to be
    /// dropped.
    pub(crate) fn received(&mut self, len: usize, now: Instant) -> bool {
        let reads = self.has_transport();
        if reads {
            self.liveness.received(now);
            self.needs = self.needs.saturating_sub(len);
            self.untried = true;
        }
        reads
    }

    /// Received bytes that are not processed yet.
    pub(crate) fn unprocessed(&self) -> usize {
        self.input.len() + self.decoding.unwrap_or(0)
    }

    /// Keeps bytes that are not processed yet.
    pub(crate) fn keep(&mut self, bytes: &[u8]) {
        self.input.push(bytes);
    }

    /// As [`Lane::keep`], and leaves `bytes` empty.
    pub(crate) fn keep_all(&mut self, bytes: &mut Vec<u8>) {
        self.input.append(bytes);
    }

    /// Frees the input's buffer if it holds nothing.
    pub(crate) fn free_buffers(&mut self) {
        if self.input.is_empty() {
            self.input = ByteQueue::default();
        }
    }

    /// Whether there is input that was not tried, the message at its front may be complete, and it
    /// waits for nothing.
    pub(crate) fn is_ready(&self) -> bool {
        let waits = self.blocked || self.fetching || self.is_decoding() || self.is_waiting();
        self.untried && self.needs == 0 && !waits && !self.input.is_empty()
    }

    /// Takes the unprocessed bytes, to try them; [`Lane::put_back`] returns what is left of them.
    pub(crate) fn take_input(&mut self) -> ByteQueue {
        self.untried = false;
        std::mem::take(&mut self.input)
    }

    /// Returns what is left of the input; what came meanwhile follows.
    pub(crate) fn put_back(&mut self, mut input: ByteQueue) {
        self.needs = self.needs.saturating_sub(self.input.len());
        input.push(self.input.bytes());
        self.input = input;
    }

    /// A job takes the input, of this length in bytes.
    pub(crate) fn begin_decoding(&mut self, len: usize) {
        self.decoding = Some(len);
    }

    /// The job is back. Returns whether there was one.
    pub(crate) fn end_decoding(&mut self) -> bool {
        self.untried = true;
        self.decoding.take().is_some()
    }

    /// Whether a job has a frame of this lane, though maybe of an earlier transport.
    pub(crate) fn is_decoding(&self) -> bool {
        self.decoding.is_some()
    }

    /// HELLO has to wait for the job.
    pub(crate) fn delay_hello(&mut self, answer: Answer) {
        self.hello_due = Some(answer);
    }

    /// Whether HELLO waits. Nothing goes out before it.
    pub(crate) fn is_hello_due(&self) -> bool {
        self.hello_due.is_some()
    }

    pub(crate) fn take_hello_due(&mut self) -> Option<Answer> {
        self.hello_due.take()
    }

    /// The message at the front waits for the decoder.
    pub(crate) fn block(&mut self) {
        self.blocked = true;
    }

    /// The message at the front waits for the disk.
    pub(crate) fn begin_fetch(&mut self) {
        self.fetching = true;
    }

    /// The disk has answered.
    pub(crate) fn end_fetch(&mut self) {
        self.fetching = false;
        self.untried = true;
    }

    /// The decoder is back; `blocks` were received so far.
    pub(crate) fn retry(&mut self, blocks: u64) {
        if std::mem::take(&mut self.blocked)
            || self.waiting.take_if(|then| *then != blocks).is_some()
        {
            self.untried = true;
        }
    }

    /// The frame at the front needs `more` bytes.
    pub(crate) fn needs_more(&mut self, more: usize) {
        self.needs = more;
    }

    /// The frame at the front refers to content that will arrive on another lane. `blocks` were
    /// received so far.
    pub(crate) fn wait(&mut self, blocks: u64) {
        self.waiting = Some(blocks);
    }

    /// Whether the frame at the front waits for content of another lane.
    pub(crate) fn is_waiting(&self) -> bool {
        self.waiting.is_some()
    }

    /// Counted messages of the peer that were processed, over all transports.
    pub(crate) fn processed(&self) -> u64 {
        self.acks.processed()
    }

    /// A block of `len` bytes was decoded.
    pub(crate) fn decoded(&mut self, len: usize) {
        self.acks.decoded(len);
    }

    /// The next message failed to decode. Returns whether it failed before.
    pub(crate) fn failed(&mut self) -> bool {
        self.acks.failed()
    }

    /// The count for an ACK, if it has grown since the last one.
    pub(crate) fn take_ack(&mut self) -> Option<u64> {
        self.acks.take()
    }

    // Messages to send.

    /// Marks the lane as having something to send. Returns whether the driver must be notified.
    pub(crate) fn wake(&mut self) -> bool {
        self.state != State::Down && !std::mem::replace(&mut self.awake, true)
    }

    /// `transmit` returned something, or nothing: only then the driver must be notified again.
    pub(crate) fn transmitted(&mut self, something: bool) {
        self.awake = something;
    }

    /// Queues a message for this transport, to be sent before all others.
    pub(crate) fn push_uncounted(&mut self, message: &Message<'_>) {
        message.write(&mut self.uncounted);
    }

    /// Queues HELLO, which is first on every transport.
    pub(crate) fn push_hello(&mut self, hello: &Hello) {
        let others = std::mem::take(&mut self.uncounted);
        hello.write(&mut self.uncounted);
        self.uncounted.extend(others);
    }

    /// Moves the queued uncounted messages to `out`.
    pub(crate) fn write_uncounted(&mut self, out: &mut Vec<u8>) {
        out.append(&mut self.uncounted);
    }

    /// Queues a counted message other than DATA and EPOCH.
    pub(crate) fn push_control(&mut self, message: &Message<'_>) {
        self.outbox.push_control(message);
    }

    /// The first counted message that was not sent on this transport.
    pub(crate) fn next_unsent(&self) -> Option<&Counted> {
        self.outbox.next_unsent()
    }

    /// The first unsent message is a block that was encoded again as `block`.
    pub(crate) fn reencoded(&mut self, flow: FlowId, block: BlockId) {
        self.outbox.reencoded(flow, block);
    }

    /// The first unsent message was written to the transport.
    pub(crate) fn wrote_one(&mut self) {
        self.outbox.wrote_one();
    }

    /// A new block was written to the transport. Nothing was unsent when it was taken from its
    /// flow.
    pub(crate) fn wrote_block(&mut self, flow: FlowId, block: BlockId) {
        self.outbox.wrote_block(flow, block);
    }

    /// A new block could not be written: it is to be sent on the next transport.
    pub(crate) fn queue_block(&mut self, flow: FlowId, block: BlockId) {
        self.outbox.queue_block(flow, block);
    }

    /// A new block was taken from its flow, which ends in the log at `end`, and its frame is yet to
    /// be written.
    pub(crate) fn begin_writing(
        &mut self,
        flow: FlowId,
        block: BlockId,
        end: u64,
        sent: SentBlock,
    ) {
        self.unwritten.push(flow, block, end, sent);
    }

    /// The message of a block is written. Returns whether the lane can go on.
    pub(crate) fn end_writing(&mut self, block: BlockId, message: Vec<u8>) -> bool {
        self.unwritten.write(block, message);
        self.unwritten.is_ready()
    }

    /// The next new block, if its message is written.
    pub(crate) fn take_written(&mut self) -> Option<Written> {
        self.unwritten.take()
    }

    /// Blocks whose frames are being written are to be sent again.
    pub(crate) fn give_up_writing(&mut self) {
        for (flow, block) in self.unwritten.give_up() {
            self.outbox.queue_block(flow, block);
        }
    }

    /// How many blocks follow what was sent, and are being written.
    pub(crate) fn writing(&self) -> usize {
        self.unwritten.len()
    }

    /// Bytes of PAD were written, which the peer may have to keep until it has processed what came
    /// before.
    pub(crate) fn padded(&mut self, bytes: usize) {
        self.outbox.padded(bytes);
    }

    /// Whether no new message may be sent before some are acknowledged.
    pub(crate) fn is_full(&self) -> bool {
        self.outbox.is_full()
    }

    /// Whether the peer has processed every counted message.
    pub(crate) fn is_acknowledged(&self) -> bool {
        self.outbox.is_empty() && self.unwritten.len() == 0
    }

    /// Whether a GO_AWAY is not known to be processed.
    pub(crate) fn has_go_away(&self) -> bool {
        self.outbox.has_go_away()
    }

    /// Counted messages written to any transport.
    pub(crate) fn written(&self) -> u64 {
        self.outbox.written()
    }

    /// Whether neither end is known to have processed a counted message.
    pub(crate) fn is_fresh(&self) -> bool {
        self.outbox.acknowledged() == 0 && self.acks.processed() == 0
    }

    /// The peer has processed `count` messages. Returns those acknowledged by that, or `None` if
    /// the count is impossible.
    pub(crate) fn acknowledge(&mut self, count: u64) -> Option<Vec<Counted>> {
        self.outbox.acknowledge(count)
    }

    /// Queues the EPOCH of the log `log`: after what is queued; or, if all of that is to be encoded
    /// into the new log, `first`.
    pub(crate) fn begin_log(&mut self, log: u64, first: bool) {
        self.outbox.begin_log(log, first);
    }

    /// The log whose EPOCH was queued last; 0 if none was.
    pub(crate) fn log(&self) -> u64 {
        self.outbox.log()
    }

    /// Whether an EPOCH is unacknowledged.
    pub(crate) fn has_epoch_in_flight(&self) -> bool {
        self.outbox.has_epoch()
    }

    /// Whether there are flows that have messages other than DATA to send.
    pub(crate) fn has_control(&self) -> bool {
        !self.control.is_empty()
    }

    /// Whether there are counted messages to send, or flows that have some.
    pub(crate) fn has_unsent(&self) -> bool {
        self.next_unsent().is_some() || !self.round.is_empty() || !self.control.is_empty()
    }

    // Flows.

    pub(crate) fn add_flow(&mut self) {
        self.flows += 1;
    }

    pub(crate) fn flow_count(&self) -> usize {
        self.flows
    }

    /// A flow is gone. Its entries in the queues are skipped when their turn comes; on a lane
    /// without a transport that never happens, so they are swept when there are many.
    pub(crate) fn remove_flow(&mut self, exists: impl Fn(FlowId) -> bool) {
        self.flows -= 1;
        let most = 2 * self.flows + STALE_ENTRIES;
        if self.control.len() > most {
            self.control.retain(|&flow| exists(flow));
        }
        if self.round.len() > most {
            self.round.retain(exists);
        }
    }

    /// The flow has messages other than DATA to send. Call once until [`Lane::next_control`]
    /// returns it.
    pub(crate) fn queue_control(&mut self, flow: FlowId) {
        self.control.push_back(flow);
    }

    pub(crate) fn next_control(&mut self) -> Option<FlowId> {
        self.control_due = None;
        self.control.pop_front()
    }

    /// What was queued may wait a little for other messages to go with.
    pub(crate) fn send_soon(&mut self, now: Instant) {
        let due = now + self.timers.ack_delay / 4;
        if !self.awake && self.state == State::Up {
            self.control_due = Some(self.control_due.map_or(due, |at| at.min(due)));
        }
    }

    /// The flows that have DATA to send, in their order.
    pub(crate) fn round(&mut self) -> &mut Round {
        &mut self.round
    }

    /// Memory in use, in bytes.
    pub(crate) fn memory(&self) -> usize {
        self.input.capacity()
            + self.decoding.unwrap_or(0)
            + self.outbox.memory()
            + self.unwritten.memory()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_state_has_its_deadline() {
        #[expect(clippy::disallowed_methods, reason = "a test needs a time to start from")]
        let start = Instant::now();
        let seconds = Duration::from_secs;
        let timers = Timers::new(&Config::default());
        let mut lane = Lane::new(timers, start);
        assert_eq!(lane.next_deadline(), Some(start + timers.grace));

        // An unanswered HELLO gives the transport up, and the grace time has been running all
        // along.
        let dialed = start + seconds(5);
        lane.handshaking(dialed);
        assert_eq!(lane.next_deadline(), Some(dialed + timers.dead_after));
        assert_eq!(lane.on_timeout(dialed + timers.dead_after, || 1), Expired::Transport);
        assert_eq!((lane.has_transport(), lane.next_deadline()), (false, None));
        lane.stopped(dialed + timers.dead_after);
        assert_eq!(lane.next_deadline(), Some(start + timers.grace));

        // An established lane PINGs a silent peer, then gives it up; and its ACK is due before
        // either.
        let up = start + seconds(40);
        lane.handshaking(up);
        assert!(!lane.established(up));
        assert_eq!(lane.next_deadline(), Some(up + timers.keep_alive));
        assert!(!lane.processed_one(8, up));
        assert_eq!(lane.next_deadline(), Some(up + timers.ack_delay));
        assert_eq!(lane.on_timeout(up + timers.ack_delay, || 1), Expired::Send);
        assert_eq!(lane.take_ack(), Some(1));
        assert_eq!(lane.on_timeout(up + timers.keep_alive, || 2), Expired::Send);
        assert_eq!(lane.next_deadline(), Some(up + 2 * timers.keep_alive));
        assert_eq!(lane.pong(2, up + seconds(11)), Some(seconds(1)));
        assert_eq!(lane.on_timeout(up + timers.dead_after, || 3), Expired::Transport);

        // Without a transport for the grace time, the session is over.
        lane.stopped(up + seconds(30));
        assert_eq!(lane.on_timeout(up + seconds(30) + timers.grace, || 4), Expired::Grace);
    }
}
