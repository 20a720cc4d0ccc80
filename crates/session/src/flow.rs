//! One flow: its send queue, its receive queue, and its credit.

use crate::budget::Budget;
use crate::domains::Owner;
use crate::limits::{EARLY_CREDIT, LARGE_PIECE, SEND_QUEUE};
use crate::meter::FlowMeter;
use crate::recall::LOOK;
use crate::recall::examined::Examined;
use oncewire_codec::{DEFAULT_BLOCK, Stream};
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Identifies a flow within its session. The client opens even ones, the server odd ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FlowId(pub u64);

/// Why a flow was reset.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ResetCode {
    /// The application's connection was reset.
    Reset,
    /// The destination refused the connection.
    Refused,
    /// There is no route to the destination.
    Unreachable,
    /// The destination did not answer in time.
    TimedOut,
    /// The destination's name does not resolve.
    NoSuchName,
    /// The destination is not on the allow-list.
    NotAllowed,
    /// Too many flows are open, or the peer accepts no more.
    Busy,
    /// Anything else.
    Failed,
    /// The destination leads to guarded addresses, such as loopback, which the rules that name it do
    /// not allow.
    Guarded,
}

impl ResetCode {
    const ALL: [ResetCode; 9] = [
        ResetCode::Reset,
        ResetCode::Refused,
        ResetCode::Unreachable,
        ResetCode::TimedOut,
        ResetCode::NoSuchName,
        ResetCode::NotAllowed,
        ResetCode::Busy,
        ResetCode::Failed,
        ResetCode::Guarded,
    ];

    pub(crate) fn code(self) -> u64 {
        // Cannot fail: all are in the list.
        ResetCode::ALL.iter().position(|&code| code == self).unwrap_or_default() as u64
    }

    /// Codes of later versions count as [`ResetCode::Failed`].
    pub(crate) fn from_code(code: u64) -> ResetCode {
        usize::try_from(code)
            .ok()
            .and_then(|code| ResetCode::ALL.get(code).copied())
            .unwrap_or(ResetCode::Failed)
    }
}

/// Messages of a flow that are to be sent, apart from OPEN and DATA; coalesced until its lane has
/// room.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Pending {
    pub(crate) opened: bool,
    pub(crate) credit: bool,
    pub(crate) fin: bool,
    pub(crate) reset: Option<ResetCode>,
    /// The flow is in its lane's queue of flows that have any.
    pub(crate) queued: bool,
}

/// State of a flow's sending half.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sending {
    Open,
    /// The application has finished; FIN follows what is queued.
    Finishing,
    Finished,
}

#[derive(Debug)]
pub(crate) struct Flow {
    pub(crate) lane: usize,
    /// What is sent: its domain, and the chunks in it.
    pub(crate) stream: Stream,
    /// Something was received since the last block was sent: a message begins with the next.
    pub(crate) is_turn: bool,
    /// What the flow asks for, until OPEN is queued.
    pub(crate) open: Option<OpenRequest>,
    /// This end opened it, and the peer has not accepted it yet.
    pub(crate) unanswered: bool,
    pub(crate) pending: Pending,
    pub(crate) sending: Sending,
    /// CUT is sent in the place of FIN.
    pub(crate) cut: bool,
    pub(crate) send: SendQueue,
    /// What at its front was looked up in what lies on disk.
    pub(crate) examined: Examined,
    /// Bytes encoded so far, and the credit: how many may be in total.
    pub(crate) sent: u64,
    pub(crate) credit: u64,
    /// More bytes were sent than the log holds.
    pub(crate) is_large: bool,
    pub(crate) turn: Turn,
    /// The application could not write everything: notify it when there is room.
    pub(crate) wants_to_write: bool,
    pub(crate) receive: ReceiveQueue,
    /// Hears of its blocks.
    pub(crate) meter: Option<Arc<dyn FlowMeter>>,
    /// Whether what this end sends is encrypted by its protocol, once its first block was seen.
    pub(crate) is_encrypted: Option<bool>,
}

/// Fields of an OPEN.
#[derive(Clone, Debug)]
pub(crate) struct OpenRequest {
    pub(crate) target: Box<[u8]>,
    pub(crate) owner: Owner,
}

/// A flow's turn in the round of its lane: see [`crate::schedule`].
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Turn {
    pub(crate) waiting: bool,
    pub(crate) deficit: i64,
}

impl Flow {
    /// Whether the application may send more.
    pub(crate) fn sends(&self) -> bool {
        self.sending == Sending::Open && self.pending.reset.is_none()
    }

    pub(crate) fn new(
        lane: usize,
        stream: Stream,
        open: Option<OpenRequest>,
        credit: u64,
        now: Instant,
    ) -> Flow {
        Flow {
            lane,
            stream,
            is_turn: false,
            unanswered: open.is_some(),
            open,
            pending: Pending::default(),
            sending: Sending::Open,
            cut: false,
            send: SendQueue::default(),
            examined: Examined::default(),
            sent: 0,
            credit,
            is_large: false,
            turn: Turn::default(),
            wants_to_write: false,
            receive: ReceiveQueue::new(now),
            meter: None,
            is_encrypted: None,
        }
    }

    /// Bytes that could be encoded now: queued, within the credit, and not reset.
    pub(crate) fn sendable(&self) -> usize {
        if self.pending.reset.is_some() || self.examined.waits() {
            0
        } else {
            self.send.len().min(self.credit_left())
        }
    }

    /// Bytes that the flow may carry besides those encoded so far.
    pub(crate) fn credit_left(&self) -> usize {
        usize::try_from(self.credit - self.sent).unwrap_or(usize::MAX)
    }

    /// Whether there is content to look up ahead, where so many looks may be under way: it takes as
    /// long for a little as for all of it.
    pub(crate) fn may_look_ahead(&self, looks: usize) -> bool {
        let behind = self.send.len().saturating_sub(self.examined.len());
        self.examined.has_room(looks) && behind >= LOOK && self.pending.reset.is_none()
    }

    /// Bytes that may wait to be sent, where so many looks may be under way: enough for all of them, if
    /// the flow goes on on disk.
    pub(crate) fn queue_limit(&self, looks: usize) -> usize {
        let looked_up = if self.examined.goes_on() { looks * LOOK } else { 0 };
        looked_up.max(SEND_QUEUE)
    }

    /// Whether both halves are closed and everything was read and sent.
    pub(crate) fn is_over(&self) -> bool {
        let read = self.receive.end_read && self.receive.held() == 0;
        self.sending == Sending::Finished && read && !self.pending.queued
    }
}

/// Bytes of the application that wait to be sent, in pieces. A large piece becomes a block as it is,
/// without a copy.
#[derive(Debug, Default)]
pub(crate) struct SendQueue {
    /// None is empty.
    pieces: VecDeque<Vec<u8>>,
    /// Bytes of the first piece that are gone.
    start: usize,
    len: usize,
    /// How many of them were acquired from the budget. The others are the little that a flow may
    /// queue beyond it.
    acquired: u64,
}

impl SendQueue {
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Adds bytes of which `acquired` were acquired from the budget.
    pub(crate) fn push(&mut self, bytes: &[u8], acquired: u64) {
        self.acquired += acquired;
        self.len += bytes.len();
        match self.pieces.back_mut() {
            Some(last) if last.len() + bytes.len() <= DEFAULT_BLOCK => {
                last.extend_from_slice(bytes)
            }
            _ if bytes.is_empty() => {}
            _ => self.pieces.push_back(bytes.to_vec()),
        }
    }

    /// Adds a large piece, all acquired from the budget but for the little beyond it.
    pub(crate) fn push_piece(&mut self, piece: Vec<u8>, acquired: u64) {
        self.acquired += acquired;
        self.len += piece.len();
        self.pieces.push_back(piece);
    }

    /// Length of the first piece in bytes, if it is large and whole.
    pub(crate) fn large_front(&self) -> Option<usize> {
        let len = self.pieces.front()?.len();
        (self.start == 0 && len >= LARGE_PIECE).then_some(len)
    }

    /// Takes the first piece, which is whole. Returns how many bytes to release to the budget, too.
    pub(crate) fn take_front(&mut self) -> (Vec<u8>, u64) {
        let piece = self.pieces.pop_front().unwrap_or_default();
        self.len -= piece.len();
        let release = self.release(piece.len());
        (piece, release)
    }

    /// Appends the first `len` bytes, or all if there are less, to `out`.
    pub(crate) fn copy_front(&self, len: usize, out: &mut Vec<u8>) {
        self.copy(0, len, out);
    }

    /// As [`SendQueue::copy_front`], from the byte at `from` on.
    pub(crate) fn copy(&self, from: usize, len: usize, out: &mut Vec<u8>) {
        let mut left = len.min(self.len.saturating_sub(from));
        let mut start = self.start + from;
        for piece in &self.pieces {
            if left == 0 {
                return;
            }
            let bytes = piece.get(start..).unwrap_or_default();
            let bytes = &bytes[..left.min(bytes.len())];
            out.extend_from_slice(bytes);
            (start, left) = (start.saturating_sub(piece.len()), left - bytes.len());
        }
    }

    /// Whether it has `bytes` from the byte at `from` on.
    pub(crate) fn has(&self, from: u64, bytes: &[u8]) -> bool {
        let end = from.saturating_add(bytes.len() as u64);
        if end > self.len as u64 {
            return false;
        }
        let (mut start, mut rest) = (self.start + from as usize, bytes);
        for piece in &self.pieces {
            let own = piece.get(start..).unwrap_or_default();
            let (now, later) = rest.split_at(rest.len().min(own.len()));
            if own[..now.len()] != *now {
                return false;
            }
            (start, rest) = (start.saturating_sub(piece.len()), later);
        }
        rest.is_empty()
    }

    /// Removes `len` bytes at the front; returns how many to release to the budget.
    pub(crate) fn pop(&mut self, len: usize) -> u64 {
        self.start += len;
        self.len -= len;
        while let Some(first) = self.pieces.front()
            && self.start >= first.len()
        {
            self.start -= first.len();
            self.pieces.pop_front();
        }
        self.release(len)
    }

    /// `len` bytes were removed.
    fn release(&mut self, len: usize) -> u64 {
        let release = if self.len == 0 { self.acquired } else { self.acquired.min(len as u64) };
        self.acquired -= release;
        release
    }

    /// Removes all bytes and frees the buffers; returns how many to release to the budget.
    pub(crate) fn clear(&mut self) -> u64 {
        std::mem::take(self).acquired
    }
}

/// Decoded bytes that wait for the application, and the credit granted to the peer.
#[derive(Debug)]
pub(crate) struct ReceiveQueue {
    pub(crate) chunks: VecDeque<Vec<u8>>,
    /// Bytes decoded so far, bytes that the application has consumed, and bytes that the peer may
    /// send in total.
    pub(crate) received: u64,
    pub(crate) consumed: u64,
    pub(crate) granted: u64,
    /// How many bytes may be in flight or waiting at once.
    pub(crate) window: u64,
    last_grant: Instant,
    /// FIN or CUT came: the peer will send no more.
    pub(crate) finished: bool,
    /// It was CUT.
    pub(crate) cut: bool,
    /// The application has read the end.
    pub(crate) end_read: bool,
    /// The application was notified that there is something to read.
    pub(crate) notified: bool,
}

/// Most bytes of one flow that may be in flight or waiting: 200 ms at 2.5 Gbit/s.
const LARGEST_WINDOW: u64 = 64 << 20;

/// Largest chunk that small blocks share, in bytes.
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
            cut: false,
            end_read: false,
            notified: false,
        }
    }

    /// Adds decoded bytes. Small blocks share a chunk, because credit counts bytes and not the
    /// memory that a tiny chunk takes.
    pub(crate) fn push(&mut self, bytes: Vec<u8>) {
        match self.chunks.back_mut() {
            Some(chunk) if chunk.len() + bytes.len() <= SHARED_CHUNK => {
                chunk.extend_from_slice(&bytes)
            }
            _ => self.chunks.push_back(bytes),
        }
    }

    /// Bytes decoded that the application has not consumed.
    pub(crate) fn held(&self) -> u64 {
        self.received - self.consumed
    }

    /// Widens the window by up to `want` bytes acquired from `pool`: at most a quarter of what is
    /// available there, so that some remains for other flows.
    pub(crate) fn widen(&mut self, want: u64, pool: &Budget) -> bool {
        let more = pool.acquire(|available| {
            want.min(available / 4).min(LARGEST_WINDOW.saturating_sub(self.window))
        });
        self.window += more;
        more > 0
    }

    /// The application has consumed `len` bytes. Returns whether to send the peer new credit.
    /// Widens the window if the last grant was used up within two round trips: then the window
    /// limits the flow, not the application.
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

    /// Grants as much credit as the window allows. Returns whether that is more than before.
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
    fn what_is_queued_comes_out_as_it_went_in() {
        let mut queue = SendQueue::default();
        let (mut pushed, mut popped, mut acquired) = (0u32, 0u32, 0u64);
        for step in 0..2000usize {
            let len = [0, 1, 37, 5000, LARGE_PIECE, DEFAULT_BLOCK][step % 6];
            let bytes: Vec<u8> = (0..len as u32).map(|at| ((pushed + at) % 251) as u8).collect();
            pushed += len as u32;
            acquired += len as u64;
            if len >= LARGE_PIECE {
                queue.push_piece(bytes, len as u64);
            } else {
                queue.push(&bytes, len as u64);
            }
            let (from, mut part) = (step * 17 % 90_000, Vec::new());
            queue.copy(from, 1000, &mut part);
            assert_eq!(part.len(), queue.len().saturating_sub(from).min(1000));
            let expected = (0..part.len()).map(|at| ((popped as usize + from + at) % 251) as u8);
            assert!(part.iter().copied().eq(expected));
            assert_eq!(queue.has(from as u64, &part), from <= queue.len());
            assert_eq!(queue.has(from as u64 + 1, &part), part.is_empty() && from < queue.len());
            let mut front = Vec::new();
            let release = match queue.large_front() {
                Some(_) if step % 7 < 4 => {
                    let (piece, release) = queue.take_front();
                    front = piece;
                    release
                }
                _ => {
                    queue.copy_front(step * 31 % 70_000, &mut front);
                    queue.pop(front.len())
                }
            };
            let expected = (0..front.len() as u32).map(|at| ((popped + at) % 251) as u8);
            assert!(front.iter().copied().eq(expected));
            popped += front.len() as u32;
            acquired -= release;
            assert_eq!(queue.len() as u32, pushed - popped);
            assert_eq!(queue.acquired, acquired);
            assert!(queue.pieces.iter().all(|piece| !piece.is_empty()));
        }
        assert_eq!(queue.clear(), acquired);
        assert_eq!(queue.len(), 0);
    }

    #[test]
    fn the_window_grows_while_it_limits_the_flow_and_stays_within_the_pool() {
        #[expect(clippy::disallowed_methods, reason = "a test needs a time to start from")]
        let start = Instant::now();
        let rtt = Duration::from_millis(100);
        let pool = Budget::new(1 << 20);
        let mut queue = ReceiveQueue::new(start);
        let mut now = start;
        for _ in 0..100 {
            now += rtt;
            queue.received = queue.granted;
            queue.consume(queue.held(), now, rtt, &pool);
            assert_eq!(queue.window - EARLY_CREDIT + pool.available(), 1 << 20);
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
