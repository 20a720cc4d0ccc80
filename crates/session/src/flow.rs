//! One flow: what waits to be sent, what waits to be read, and its credit.

use crate::budget::Budget;
use crate::config::EARLY_CREDIT;
use crate::queue::ByteQueue;
use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// Names a flow within its session. Those opened by the end that connects are even.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FlowId(pub u64);

/// Why a flow was reset.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ResetCode {
    /// The application's connection was reset.
    Reset,
    /// The destination refused the connection.
    Refused,
    /// No way to the destination.
    Unreachable,
    /// The destination did not answer in time.
    TimedOut,
    /// The destination's name is not known.
    NoSuchName,
    /// The destination is not on the allow-list.
    NotAllowed,
    /// Too many flows, or none accepted any more.
    Busy,
    /// Anything else.
    Failed,
}

impl ResetCode {
    const ALL: [ResetCode; 8] = [
        ResetCode::Reset,
        ResetCode::Refused,
        ResetCode::Unreachable,
        ResetCode::TimedOut,
        ResetCode::NoSuchName,
        ResetCode::NotAllowed,
        ResetCode::Busy,
        ResetCode::Failed,
    ];

    pub(crate) fn code(self) -> u64 {
        ResetCode::ALL.iter().position(|&code| code == self).unwrap_or(ResetCode::ALL.len() - 1) as u64
    }

    /// Codes of later versions mean that it failed.
    pub(crate) fn from_code(code: u64) -> ResetCode {
        usize::try_from(code).ok().and_then(|code| ResetCode::ALL.get(code).copied()).unwrap_or(ResetCode::Failed)
    }
}

/// Messages about a flow that are to be sent; coalesced until its lane has room.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Due {
    pub(crate) opened: bool,
    pub(crate) credit: bool,
    pub(crate) fin: bool,
    pub(crate) reset: Option<ResetCode>,
    /// The flow is in its lane's queue for such messages.
    pub(crate) queued: bool,
}

/// How far a flow's sending half has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sending {
    Open,
    /// The application has finished; what is queued goes first.
    Finishing,
    Finished,
}

#[derive(Debug)]
pub(crate) struct Flow {
    pub(crate) lane: usize,
    /// Where it goes, until OPEN has been sent.
    pub(crate) open: Option<Vec<u8>>,
    /// This end opened it, and the peer has not accepted it yet.
    pub(crate) unanswered: bool,
    pub(crate) due: Due,
    pub(crate) sending: Sending,
    pub(crate) send: SendQueue,
    /// Bytes encoded so far, and how many may be.
    pub(crate) sent: u64,
    pub(crate) allowed: u64,
    /// More was sent than the log holds.
    pub(crate) is_large: bool,
    pub(crate) turn: Turn,
    /// The application had to stop, and is to be told when it may go on.
    pub(crate) wants_to_write: bool,
    pub(crate) receive: ReceiveQueue,
}

/// A flow's place in the round of its lane: see [`crate::schedule`].
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Turn {
    pub(crate) waiting: bool,
    pub(crate) deficit: i64,
}

impl Flow {
    pub(crate) fn new(lane: usize, open: Option<Vec<u8>>, allowed: u64, now: Instant) -> Flow {
        Flow {
            lane,
            unanswered: open.is_some(),
            open,
            due: Due::default(),
            sending: Sending::Open,
            send: SendQueue::default(),
            sent: 0,
            allowed,
            is_large: false,
            turn: Turn::default(),
            wants_to_write: false,
            receive: ReceiveQueue::new(now),
        }
    }

    /// Bytes that could be encoded now, as far as the flow is concerned.
    pub(crate) fn sendable(&self) -> usize {
        let credit = usize::try_from(self.allowed - self.sent).unwrap_or(usize::MAX);
        if self.due.reset.is_some() { 0 } else { self.send.len().min(credit) }
    }

    /// Nothing will happen on it any more.
    pub(crate) fn is_over(&self) -> bool {
        let read = self.receive.end_read && self.receive.held() == 0;
        self.sending == Sending::Finished && read && !self.due.queued
    }
}

/// Bytes of the application that wait for the lane, contiguous so that a block is a slice of them.
#[derive(Debug, Default)]
pub(crate) struct SendQueue {
    bytes: ByteQueue,
    /// Of the bytes, how many are from the budget; those beyond were a little extra.
    borrowed: u64,
}

impl SendQueue {
    pub(crate) fn len(&self) -> usize {
        self.bytes.len()
    }

    pub(crate) fn front(&self, len: usize) -> &[u8] {
        &self.bytes.bytes()[..len]
    }

    /// Adds bytes of which the first `from_budget` are from the budget.
    pub(crate) fn push(&mut self, bytes: &[u8], from_budget: u64) {
        self.borrowed += from_budget;
        self.bytes.push(bytes);
    }

    /// Removes bytes at the front; returns how much of the budget is free again.
    pub(crate) fn pop(&mut self, len: usize) -> u64 {
        self.bytes.pop(len);
        let free = if self.bytes.is_empty() { self.borrowed } else { self.borrowed.min(len as u64) };
        self.borrowed -= free;
        free
    }

    /// Removes all and gives the buffer back; returns how much of the budget is free again.
    pub(crate) fn clear(&mut self) -> u64 {
        std::mem::take(self).borrowed
    }
}

/// Decoded bytes that wait for the application, and the credit that lets more come.
#[derive(Debug)]
pub(crate) struct ReceiveQueue {
    pub(crate) chunks: VecDeque<Vec<u8>>,
    /// Bytes decoded so far, bytes that the application has taken for good, bytes that the peer may send in all.
    pub(crate) received: u64,
    pub(crate) consumed: u64,
    pub(crate) granted: u64,
    /// How many bytes may be on their way or waiting at once.
    pub(crate) window: u64,
    last_grant: Instant,
    /// The peer will send no more.
    pub(crate) finished: bool,
    /// The application knows that.
    pub(crate) end_read: bool,
    /// The application knows that there is something to read.
    pub(crate) told: bool,
}

/// Most bytes of one flow that may be on their way or waiting, in bytes: 200 ms at 2.5 Gbit/s.
const LARGEST_WINDOW: u64 = 64 << 20;

/// Chunks that small blocks share are at most so long, in bytes.
const SHARED_CHUNK: usize = 4 << 10;

impl ReceiveQueue {
    fn new(now: Instant) -> ReceiveQueue {
        ReceiveQueue {
            chunks: VecDeque::new(),
            received: 0,
            consumed: 0,
            granted: EARLY_CREDIT,
            window: EARLY_CREDIT,
            last_grant: now,
            finished: false,
            end_read: false,
            told: false,
        }
    }

    /// Decoded bytes. Small blocks share a chunk: credit counts their bytes, not what a chunk of one byte takes.
    pub(crate) fn push(&mut self, bytes: &[u8]) {
        match self.chunks.back_mut() {
            Some(chunk) if chunk.len() + bytes.len() <= SHARED_CHUNK => chunk.extend_from_slice(bytes),
            _ => self.chunks.push_back(bytes.to_vec()),
        }
    }

    /// Bytes decoded that the application has not taken for good.
    pub(crate) fn held(&self) -> u64 {
        self.received - self.consumed
    }

    /// Takes up to `want` more bytes of window out of `pool`; a quarter of it at most, so that something is left for others.
    pub(crate) fn widen(&mut self, want: u64, pool: &Budget) -> bool {
        let more = pool.take(|left| want.min(left / 4).min(LARGEST_WINDOW.saturating_sub(self.window)));
        self.window += more;
        more > 0
    }

    /// The application has taken `len` bytes. Returns whether the peer is to be told of new credit, and widens the window if the last grant
    /// was used up within two round trips: then the window, not the application, was what held the flow up.
    pub(crate) fn consume(&mut self, len: u64, now: Instant, rtt: Duration, pool: &Budget) -> bool {
        self.consumed = (self.consumed + len).min(self.received);
        if self.finished || self.granted - self.consumed > self.window / 2 {
            return false;
        }
        if now.saturating_duration_since(self.last_grant) < 2 * rtt {
            self.widen(self.window, pool);
        }
        self.grant(now)
    }

    /// Grants all that the window allows; whether that is more than before.
    pub(crate) fn grant(&mut self, now: Instant) -> bool {
        let more = self.consumed + self.window > self.granted;
        self.granted = self.granted.max(self.consumed + self.window);
        self.last_grant = now;
        more
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn credit_widens_while_it_is_what_limits_and_stays_within_the_pool() {
        #[expect(clippy::disallowed_methods, reason = "a test needs some time to begin with")]
        let start = Instant::now();
        let rtt = Duration::from_millis(100);
        let pool = Budget::new(1 << 20);
        let mut queue = ReceiveQueue::new(start);
        let mut now = start;
        for _ in 0..100 {
            now += rtt;
            queue.received = queue.granted;
            queue.consume(queue.held(), now, rtt, &pool);
            assert_eq!(queue.window - EARLY_CREDIT + pool.left(), 1 << 20);
        }
        assert!(queue.window > 512 << 10, "{}", queue.window);
        // A slow application does not need a wider window.
        let mut slow = ReceiveQueue::new(now);
        let pool = Budget::new(1 << 20);
        for _ in 0..100 {
            now += 10 * rtt;
            slow.received = slow.granted;
            slow.consume(slow.held(), now, rtt, &pool);
        }
        assert_eq!(slow.window, EARLY_CREDIT);
    }
}
