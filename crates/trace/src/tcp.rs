//! Reassembles TCP streams from captured segments, in bounded memory.
//!
//! A capture is not an endpoint of the connection: it may begin in the middle, miss segments
//! forever, and contain them in any order, twice, or truncated. Each direction of a connection is a
//! separate stream. Bytes that arrive in order are delivered at once and not copied.

mod stream;

use crate::batch::{FlowKey, Kind, Packet};
use crate::lru::{LruCache, entry_bytes};
use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;
use stream::{Out, Stream};

const FIN: u8 = 1;
const SYN: u8 = 2;
const RST: u8 = 4;

/// Largest distance of a segment from the next byte of its stream. TCP's largest window is 2^30
/// bytes (RFC 7323, section 2.3).
const FAR: i64 = 1 << 30;

/// Bytes charged for each piece held back, in addition to its content: a half-empty tree entry and
/// an allocation header.
const PIECE: usize = 96;

/// Limits on the memory of a [`Reassembler`], and on how long it waits.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Streams tracked at once, at least 1; a connection has two. A new stream evicts the least
    /// recently used one.
    pub flows: usize,
    /// Bytes held back behind a gap in each stream. Beyond this limit the gap is skipped and its
    /// bytes count as missing.
    pub stream_bytes: usize,
    /// Bytes held back in all streams. Beyond this limit the gap that has been open longest is
    /// skipped.
    pub total_bytes: usize,
    /// How long a gap may stay open: longer than a usual retransmission time-out.
    pub patience: Duration,
    /// How long a stream may be silent before it counts as ended.
    pub idle: Duration,
}

impl Limits {
    /// Limits for `memory` bytes of state: three quarters for segments held back, a quarter for
    /// streams.
    pub fn of_memory(memory: u64) -> Limits {
        let memory = usize::try_from(memory).unwrap_or(usize::MAX);
        Limits {
            flows: (memory / 4 / Reassembler::FLOW).max(2),
            stream_bytes: (memory / 8).min(1 << 20),
            total_bytes: memory / 4 * 3,
            patience: Duration::from_secs(10),
            idle: Duration::from_secs(600),
        }
    }
}

/// A captured segment.
#[derive(Clone, Copy, Debug)]
pub struct Segment<'a> {
    /// Capture time in nanoseconds since the Unix epoch.
    pub time: i64,
    /// Sequence number of the first payload byte, or of the SYN.
    pub seq: u32,
    /// FIN 1, SYN 2, RST 4; other flags are ignored.
    pub flags: u8,
    /// Captured payload.
    pub payload: &'a [u8],
    /// Payload bytes after these that were not captured.
    pub missing: u32,
}

/// What happens in a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event<'a> {
    /// The stream begins, with its SYN or in the middle.
    Start {
        /// Whether its SYN was seen, so that the first byte is the first of the connection.
        syn: bool,
    },
    /// The next bytes, at least one.
    Data(&'a [u8]),
    /// This many of the next bytes are missing, at least one.
    Gap(u64),
    /// The stream ends. No further events follow.
    End(End),
}

/// Why a stream ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The sender closed it, and everything before was delivered or skipped.
    Fin,
    /// The sender reset it.
    Rst,
    /// A new connection uses its ports.
    Reused,
    /// It was silent for too long.
    Idle,
    /// It made room for another stream.
    Evicted,
    /// The trace ended.
    Trace,
}

/// Counters. Once all streams have ended, `payload` equals `delivered` + `retransmitted` +
/// `overlapping` + `ignored`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Segments seen.
    pub segments: u64,
    /// Their captured payload in bytes.
    pub payload: u64,
    /// Their payload bytes that were not captured.
    pub not_captured: u64,
    /// Segments that arrived in order with new bytes.
    pub in_order: u64,
    /// Their new bytes.
    pub in_order_bytes: u64,
    /// Segments that arrived after a gap with new bytes.
    pub reordered: u64,
    /// Their new bytes.
    pub reordered_bytes: u64,
    /// Segments with payload and no new bytes, without keep-alive probes.
    pub retransmissions: u64,
    /// Their bytes.
    pub retransmitted: u64,
    /// Segments with both new and known bytes.
    pub overlaps: u64,
    /// Their known bytes. The first copy is delivered.
    pub overlapping: u64,
    /// Keep-alive probes: zero or one byte just before the next one (RFC 9293, section 3.8.4).
    pub keep_alives: u64,
    /// Captured bytes after a FIN, with a RST, or of connections without a stream.
    pub ignored: u64,
    /// Bytes delivered.
    pub delivered: u64,
    /// Gaps delivered.
    pub gaps: u64,
    /// Their bytes.
    pub missing: u64,
    /// Gaps skipped because of the limits on bytes.
    pub gaps_for_memory: u64,
    /// Streams that began with their SYN.
    pub streams: u64,
    /// Streams that began in the middle.
    pub midstream: u64,
    /// Streams ended to make room.
    pub evicted: u64,
    /// Streams ended because a segment was too far from their next byte.
    pub lost: u64,
}

/// Reassembles streams. Events go to a closure, with the flow they belong to.
#[derive(Debug)]
pub struct Reassembler {
    limits: Limits,
    patience: i64,
    idle: i64,
    streams: LruCache<FlowKey, Stream>,
    /// Open gaps, oldest first: flow, number of the gap, time when it opened. An entry is stale if
    /// its stream has another gap number.
    open: VecDeque<(FlowKey, u64, i64)>,
    gaps: u64,
    held: usize,
    most_held: usize,
    most_streams: usize,
    stats: Stats,
}

impl Reassembler {
    /// Bytes charged for a stream without segments held back.
    pub const FLOW: usize = entry_bytes::<FlowKey, Stream>() + 3 * size_of::<(FlowKey, u64, i64)>();

    /// A reassembler without streams.
    pub fn new(limits: Limits) -> Reassembler {
        let nanos = |time: Duration| i64::try_from(time.as_nanos()).unwrap_or(i64::MAX);
        Reassembler {
            limits: Limits { flows: limits.flows.max(1), ..limits },
            patience: nanos(limits.patience),
            idle: nanos(limits.idle),
            streams: LruCache::unbounded(),
            open: VecDeque::new(),
            gaps: 0,
            held: 0,
            most_held: 0,
            most_streams: 0,
            stats: Stats::default(),
        }
    }

    /// Counters so far.
    pub fn stats(&self) -> &Stats {
        &self.stats
    }

    /// Peak memory so far, in bytes.
    pub fn memory(&self) -> u64 {
        (self.most_streams * Reassembler::FLOW + self.most_held) as u64
    }

    /// Processes the next packet of a trace. Packets other than TCP are ignored.
    pub fn packet(
        &mut self,
        packet: &Packet,
        payload: &[u8],
        sink: &mut impl FnMut(&FlowKey, Event<'_>),
    ) {
        if let (Some(flow), Kind::Tcp { seq, flags }) = (packet.flow, packet.kind) {
            let Packet { time, missing, .. } = *packet;
            self.segment(&flow, &Segment { time, seq, flags, payload, missing }, sink);
        }
    }

    /// Processes the next segment of a flow.
    pub fn segment(
        &mut self,
        flow: &FlowKey,
        segment: &Segment<'_>,
        sink: &mut impl FnMut(&FlowKey, Event<'_>),
    ) {
        self.stats.segments += 1;
        self.stats.payload += segment.payload.len() as u64;
        self.stats.not_captured += u64::from(segment.missing);
        self.expire(segment.time, sink);

        let occupies = !segment.payload.is_empty() || segment.missing > 0;
        if let Some(stream) = self.streams.get_mut(flow) {
            stream.touched = segment.time;
            let lost = (stream.offset(segment.seq)).abs() > FAR
                && (occupies || segment.flags & (SYN | FIN) != 0);
            if lost || stream.is_other(segment) {
                self.stats.lost += u64::from(lost && segment.flags & SYN == 0);
                let stream = self.streams.pop(flow);
                self.end(flow, stream, End::Reused, sink);
            }
        }
        if self.streams.peek(flow).is_none() {
            if segment.flags & RST != 0 || (segment.flags & SYN == 0 && !occupies) {
                self.stats.ignored += segment.payload.len() as u64;
                return;
            }
            while self.streams.len() >= self.limits.flows {
                let Some((oldest, stream)) = self.streams.pop_lru() else { break };
                self.stats.evicted += 1;
                self.end(&oldest, Some(stream), End::Evicted, sink);
            }
            let syn = segment.flags & SYN != 0;
            *if syn { &mut self.stats.streams } else { &mut self.stats.midstream } += 1;
            self.streams.put(*flow, Stream::new(segment));
            self.most_streams = self.most_streams.max(self.streams.len());
            sink(flow, Event::Start { syn });
        }

        let stream = self.streams.peek_mut(flow).expect("present, or inserted above");
        let held = stream.cost;
        let mut out = Out { stats: &mut self.stats, flow, sink };
        stream.segment(segment, &mut out);
        while stream.cost > self.limits.stream_bytes {
            out.stats.gaps_for_memory += 1;
            stream.give_up(&mut out);
        }
        self.held = self.held + stream.cost - held;
        self.note_gap(flow, segment.time);
        while self.held > self.limits.total_bytes {
            let Some((oldest, ..)) = self.oldest_gap() else { break };
            self.stats.gaps_for_memory += 1;
            self.give_up(&oldest, segment.time, sink);
        }
        self.most_held = self.most_held.max(self.held);
    }

    /// Ends all streams, at the end of the trace. The reassembler can be reused; only its counters
    /// remain.
    pub fn finish(&mut self, sink: &mut impl FnMut(&FlowKey, Event<'_>)) {
        while let Some((flow, stream)) = self.streams.pop_lru() {
            self.end(&flow, Some(stream), End::Trace, sink);
        }
        self.open.clear();
    }

    /// Skips gaps and ends streams whose time has passed.
    fn expire(&mut self, now: i64, sink: &mut impl FnMut(&FlowKey, Event<'_>)) {
        while let Some((flow, _, since)) = self.oldest_gap() {
            if now.saturating_sub(since) <= self.patience {
                break;
            }
            self.give_up(&flow, now, sink);
        }
        while let Some((flow, stream)) = self.streams.peek_lru() {
            if now.saturating_sub(stream.touched) <= self.idle {
                break;
            }
            let flow = *flow;
            let stream = self.streams.pop(&flow);
            self.end(&flow, stream, End::Idle, sink);
        }
    }

    fn end(
        &mut self,
        flow: &FlowKey,
        stream: Option<Stream>,
        end: End,
        sink: &mut impl FnMut(&FlowKey, Event<'_>),
    ) {
        let Some(mut stream) = stream else { return };
        self.held -= stream.cost;
        stream.finish(end, &mut Out { stats: &mut self.stats, flow, sink });
    }

    /// The gap that has been open the longest. Stale ones before it are dropped.
    fn oldest_gap(&mut self) -> Option<(FlowKey, u64, i64)> {
        while let Some(&(flow, gap, since)) = self.open.front() {
            if self.streams.peek(&flow).is_some_and(|stream| stream.gap == gap) {
                return Some((flow, gap, since));
            }
            self.open.pop_front();
        }
        None
    }

    fn give_up(&mut self, flow: &FlowKey, now: i64, sink: &mut impl FnMut(&FlowKey, Event<'_>)) {
        let Some(stream) = self.streams.peek_mut(flow) else { return };
        self.held -= stream.cost;
        stream.give_up(&mut Out { stats: &mut self.stats, flow, sink });
        self.held += stream.cost;
        self.note_gap(flow, now);
    }

    /// Enters the stream's gap into the list, if it is a new one.
    fn note_gap(&mut self, flow: &FlowKey, now: i64) {
        let Some(stream) = self.streams.peek_mut(flow) else { return };
        if !stream.waits() {
            stream.gap = 0;
        } else if stream.gap == 0 || stream.gap_at != stream.next {
            self.gaps += 1;
            (stream.gap, stream.gap_at) = (self.gaps, stream.next);
            self.open.push_back((*flow, self.gaps, now));
            // Each stream has one gap in the list at most; the rest is stale.
            if self.open.len() > 2 * self.limits.flows.min(self.streams.len()) + 16 {
                let streams = &self.streams;
                self.open.retain(|(flow, gap, _)| {
                    streams.peek(flow).is_some_and(|stream| stream.gap == *gap)
                });
            }
        }
    }
}

#[cfg(test)]
mod tests;
