//! One lane: an ordered, reliable byte stream that outlives the transports which carry it.

use crate::flow::FlowId;
use crate::outgoing::BlockId;
use crate::queue::ByteQueue;
use crate::schedule::Round;
use std::collections::VecDeque;
use std::time::Instant;

/// Messages that may be on their way and unacknowledged on a lane.
pub(crate) const MAX_UNACKNOWLEDGED: usize = 16_384;
/// Bytes of messages other than blocks that may be unacknowledged on a lane; the last one may exceed it.
pub(crate) const MAX_CONTROL: usize = 1 << 20;
/// A receiver acknowledges at the latest after so many messages.
pub(crate) const ACK_MESSAGES: u64 = 1024;

/// A counted message that the peer is not known to have processed.
#[derive(Debug)]
pub(crate) enum Item {
    Block(FlowId, BlockId),
    Control(Box<[u8]>),
    /// Written from the encoder's state when it is sent.
    Epoch,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LaneState {
    /// No transport.
    Down,
    /// A transport is there; the peer's hello is awaited until the given time.
    Greeting(Instant),
    Up,
    /// Refused or failed: what is queued goes out, then the transport is closed.
    Closing,
}

#[derive(Debug)]
pub(crate) struct Lane {
    pub(crate) state: LaneState,
    /// Bytes for this transport that are not counted: hello, pong, close.
    pub(crate) urgent: Vec<u8>,
    /// Counted messages from `acked` on; the first `sent` of them were written to this transport.
    pub(crate) items: VecDeque<Item>,
    /// Bytes of those that are no blocks.
    pub(crate) control_bytes: usize,
    pub(crate) sent: usize,
    pub(crate) acked: u64,
    /// Messages ever written to any transport.
    pub(crate) written: u64,
    /// The sending log whose beginning was queued here last.
    pub(crate) log: u64,
    /// The message that failed to decode last.
    pub(crate) failed_at: Option<u64>,
    /// Flows with messages other than data.
    pub(crate) control: VecDeque<FlowId>,
    pub(crate) round: Round,
    /// Flows that live here.
    pub(crate) flows: usize,
    /// Counted messages processed, and how many of them the peer was told of.
    pub(crate) received: u64,
    pub(crate) told: u64,
    /// Decoded bytes since the last acknowledgement.
    pub(crate) decoded: u64,
    pub(crate) ack_at: Option<Instant>,
    /// What was received and not yet understood.
    pub(crate) input: ByteQueue,
    /// More bytes that the message at the front of `input` needs.
    pub(crate) needs: usize,
    /// The frame at the front refers to content that comes on another lane.
    pub(crate) waiting: bool,
    /// How many blocks had come when that was found.
    pub(crate) waited_at: u64,
    /// When the transport last brought something, and the ping that is under way.
    pub(crate) heard: Instant,
    pub(crate) ping: Option<(u64, Instant)>,
    pub(crate) pinged: Instant,
    /// The driver was told that there is something to send, and has not yet found the end of it.
    pub(crate) awake: bool,
    /// Since when there is no transport.
    pub(crate) down_since: Option<Instant>,
}

impl Lane {
    pub(crate) fn new(now: Instant) -> Lane {
        Lane {
            state: LaneState::Down,
            urgent: Vec::new(),
            items: VecDeque::new(),
            control_bytes: 0,
            sent: 0,
            acked: 0,
            written: 0,
            log: 0,
            failed_at: None,
            control: VecDeque::new(),
            round: Round::default(),
            flows: 0,
            received: 0,
            told: 0,
            decoded: 0,
            ack_at: None,
            input: ByteQueue::default(),
            needs: 0,
            waiting: false,
            waited_at: 0,
            heard: now,
            ping: None,
            pinged: now,
            awake: false,
            down_since: Some(now),
        }
    }

    /// Begins with a new transport, on which nothing was sent or received.
    pub(crate) fn start(&mut self, state: LaneState, now: Instant) {
        self.state = state;
        self.urgent.clear();
        self.sent = 0;
        self.told = self.received;
        self.ack_at = None;
        self.decoded = 0;
        self.input = ByteQueue::default();
        self.needs = 0;
        self.waiting = false;
        self.heard = now;
        self.pinged = now;
        self.ping = None;
        self.awake = false;
    }

    /// The transport is gone.
    pub(crate) fn stop(&mut self, now: Instant) {
        self.start(LaneState::Down, now);
        self.down_since = self.down_since.or(Some(now));
    }

    /// Takes note that the first message not yet sent was written.
    pub(crate) fn wrote_one(&mut self) {
        self.sent += 1;
        self.written = self.written.max(self.acked + self.sent as u64);
    }

    pub(crate) fn is_full(&self) -> bool {
        self.items.len() >= MAX_UNACKNOWLEDGED || self.control_bytes >= MAX_CONTROL
    }

    /// Queues a message.
    pub(crate) fn push_control(&mut self, bytes: Box<[u8]>) {
        self.control_bytes += bytes.len();
        self.items.push_back(Item::Control(bytes));
    }

    /// Takes the peer's count of processed messages: those that are done with, or `None` if it cannot be true.
    pub(crate) fn acknowledged(&mut self, count: u64) -> Option<Vec<Item>> {
        let done = usize::try_from(count.checked_sub(self.acked)?).ok().filter(|&done| done <= self.items.len())?;
        if count > self.written {
            return None;
        }
        self.acked = count;
        self.sent = self.sent.saturating_sub(done);
        let done: Vec<Item> = self.items.drain(..done).collect();
        let len = |item: &Item| if let Item::Control(bytes) = item { bytes.len() } else { 0 };
        self.control_bytes -= done.iter().map(len).sum::<usize>();
        Some(done)
    }

    /// Whether it carried anything before the transport at hand.
    pub(crate) fn was_used(&self) -> bool {
        self.written > 0 || self.received > 0
    }

    /// Queues the message that begins the log `log`, behind what is queued, or before it if all of it belongs to the new log.
    pub(crate) fn begin_log(&mut self, log: u64, first: bool) {
        self.log = log;
        if first {
            self.items.retain(|item| !matches!(item, Item::Epoch));
            self.items.push_front(Item::Epoch);
        } else {
            self.items.push_back(Item::Epoch);
        }
    }
}
