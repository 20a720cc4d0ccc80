//! TCP streams put together again from captured segments, in bounded memory.
//!
//! A capture is not an end of the connection: it may begin in the middle, miss segments for ever, and see them in any order, twice, or cut
//! short. Each direction of a connection is a stream of its own; what is in order is delivered at once and not copied.

use crate::batch::{FlowKey, Kind, Packet};
use crate::lru::Lru;
use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

const FIN: u8 = 1;
const SYN: u8 = 2;
const RST: u8 = 4;

/// Farthest that a segment of a stream may lie from its next byte. TCP's largest window is 2^30 bytes (RFC 7323, section 2.3).
const FAR: i64 = 1 << 30;

/// Bytes charged for each piece that is held back, beyond its content: a tree's entry, half of it empty, and an allocation's header.
const PIECE: usize = 96;

/// What a [`Reassembler`] may take, and how long it waits.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Streams known at once; a connection has two. The one that was used longest ago is ended for a new one. At least 1.
    pub flows: usize,
    /// Bytes held back behind a gap in each stream. Beyond it the gap is given up: its bytes are missing.
    pub stream_bytes: usize,
    /// Bytes held back in all streams. Beyond it the gap that has been open the longest is given up.
    pub total_bytes: usize,
    /// How long a gap may stay open: longer than a usual retransmission time-out.
    pub patience: Duration,
    /// How long a stream may be silent before it counts as ended.
    pub idle: Duration,
}

impl Limits {
    /// Limits for `memory` bytes of state: three quarters hold back segments, a quarter is streams.
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

/// One segment as it was captured.
#[derive(Clone, Copy, Debug)]
pub struct Segment<'a> {
    /// When, in nanoseconds since the Unix epoch.
    pub time: i64,
    /// Sequence number of the first payload byte, or of the SYN.
    pub seq: u32,
    /// FIN 1, SYN 2, RST 4; others do not matter.
    pub flags: u8,
    /// Captured payload.
    pub payload: &'a [u8],
    /// Payload bytes behind these that were not captured.
    pub missing: u32,
}

/// What becomes of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event<'a> {
    /// It begins; with its SYN, or in the middle.
    Start {
        /// Whether its SYN was seen, so that the first byte is the first of the connection.
        syn: bool,
    },
    /// Its next bytes, at least one.
    Data(&'a [u8]),
    /// That many of its next bytes are missing, at least one.
    Gap(u64),
    /// It ends, and will not be heard of again.
    End(End),
}

/// Why a stream ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// Its sender closed it, and all before that was delivered or given up.
    Fin,
    /// Its sender reset it.
    Rst,
    /// Its ports were taken by a new connection.
    Reused,
    /// Nothing was heard of it for too long.
    Idle,
    /// It had to make room for another.
    Evicted,
    /// The trace ended.
    Trace,
}

/// Counters. The captured payload of segments is, once all streams have ended, `delivered` + `retransmitted` + `overlapping` + `ignored`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Segments seen.
    pub segments: u64,
    /// Their captured payload in bytes.
    pub payload: u64,
    /// Their payload bytes that were not captured.
    pub not_captured: u64,
    /// Segments that came in order and brought something new.
    pub in_order: u64,
    /// Their new bytes.
    pub in_order_bytes: u64,
    /// Segments that came ahead of a gap and brought something new.
    pub reordered: u64,
    /// Their new bytes.
    pub reordered_bytes: u64,
    /// Segments with payload all of whose bytes were there, without keep-alive probes.
    pub retransmissions: u64,
    /// Their bytes.
    pub retransmitted: u64,
    /// Segments that brought something new and something that was there.
    pub overlaps: u64,
    /// Bytes of the latter. The first copy is what is delivered.
    pub overlapping: u64,
    /// Probes: no or one byte just before the next one (RFC 9293, section 3.8.4).
    pub keep_alives: u64,
    /// Captured bytes behind a FIN or with a RST, or of connections without a stream.
    pub ignored: u64,
    /// Bytes delivered.
    pub delivered: u64,
    /// Gaps delivered.
    pub gaps: u64,
    /// Their bytes.
    pub missing: u64,
    /// Gaps given up because of the bounds on bytes.
    pub gaps_for_memory: u64,
    /// Streams that began with their SYN.
    pub streams: u64,
    /// Streams that began in the middle.
    pub midstream: u64,
    /// Streams ended to make room.
    pub evicted: u64,
    /// Streams ended because a segment fitted nowhere near them.
    pub lost: u64,
}

/// Puts streams together. What it delivers goes to a closure, with the flow that it belongs to.
#[derive(Debug)]
pub struct Reassembler {
    limits: Limits,
    patience: i64,
    idle: i64,
    streams: Lru<FlowKey, Stream>,
    /// Open gaps, the oldest first: flow, number of the gap, since when. Numbers that the stream no longer has are stale.
    open: VecDeque<(FlowKey, u64, i64)>,
    gaps: u64,
    held: usize,
    most_held: usize,
    most_streams: usize,
    stats: Stats,
}

impl Reassembler {
    /// Bytes charged for a stream that holds nothing back.
    pub const FLOW: usize = Lru::<FlowKey, Stream>::ENTRY + 3 * size_of::<(FlowKey, u64, i64)>();

    /// A reassembler that has seen nothing.
    pub fn new(limits: Limits) -> Reassembler {
        let nanos = |time: Duration| i64::try_from(time.as_nanos()).unwrap_or(i64::MAX);
        Reassembler {
            limits: Limits { flows: limits.flows.max(1), ..limits },
            patience: nanos(limits.patience),
            idle: nanos(limits.idle),
            streams: Lru::default(),
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

    /// Most memory that it took so far, in bytes.
    pub fn memory(&self) -> u64 {
        (self.most_streams * Reassembler::FLOW + self.most_held) as u64
    }

    /// The next packet of a trace; nothing is done with those that are not TCP.
    pub fn packet(&mut self, packet: &Packet, payload: &[u8], sink: &mut impl FnMut(&FlowKey, Event<'_>)) {
        if let (Some(flow), Kind::Tcp { seq, flags }) = (packet.flow, packet.kind) {
            let Packet { time, missing, .. } = *packet;
            self.segment(&flow, &Segment { time, seq, flags, payload, missing }, sink);
        }
    }

    /// The next segment.
    pub fn segment(&mut self, flow: &FlowKey, segment: &Segment<'_>, sink: &mut impl FnMut(&FlowKey, Event<'_>)) {
        self.stats.segments += 1;
        self.stats.payload += segment.payload.len() as u64;
        self.stats.not_captured += u64::from(segment.missing);
        self.expire(segment.time, sink);

        let occupies = !segment.payload.is_empty() || segment.missing > 0;
        if let Some(stream) = self.streams.get_mut(flow) {
            stream.touched = segment.time;
            let lost = (stream.offset(segment.seq)).abs() > FAR && (occupies || segment.flags & (SYN | FIN) != 0);
            if lost || stream.is_other(segment) {
                self.stats.lost += u64::from(lost && segment.flags & SYN == 0);
                let stream = self.streams.remove(flow);
                self.end(flow, stream, End::Reused, sink);
            }
        }
        if self.streams.peek(flow).is_none() {
            if segment.flags & RST != 0 || (segment.flags & SYN == 0 && !occupies) {
                self.stats.ignored += segment.payload.len() as u64;
                return;
            }
            while self.streams.len() >= self.limits.flows {
                let Some((oldest, stream)) = self.streams.pop_oldest() else { break };
                self.stats.evicted += 1;
                self.end(&oldest, Some(stream), End::Evicted, sink);
            }
            let syn = segment.flags & SYN != 0;
            *if syn { &mut self.stats.streams } else { &mut self.stats.midstream } += 1;
            self.streams.insert(*flow, Stream::new(segment));
            self.most_streams = self.most_streams.max(self.streams.len());
            sink(flow, Event::Start { syn });
        }

        let stream = self.streams.peek_mut(flow).expect("it was there, or was just put in");
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

    /// The end of the trace: ends all streams. The reassembler is then as new, but for its counters.
    pub fn finish(&mut self, sink: &mut impl FnMut(&FlowKey, Event<'_>)) {
        while let Some((flow, stream)) = self.streams.pop_oldest() {
            self.end(&flow, Some(stream), End::Trace, sink);
        }
        self.open.clear();
    }

    /// Gives up gaps and streams whose time has passed.
    fn expire(&mut self, now: i64, sink: &mut impl FnMut(&FlowKey, Event<'_>)) {
        while let Some((flow, _, since)) = self.oldest_gap() {
            if now.saturating_sub(since) <= self.patience {
                break;
            }
            self.give_up(&flow, now, sink);
        }
        while let Some((flow, stream)) = self.streams.oldest() {
            if now.saturating_sub(stream.touched) <= self.idle {
                break;
            }
            let flow = *flow;
            let stream = self.streams.remove(&flow);
            self.end(&flow, stream, End::Idle, sink);
        }
    }

    fn end(&mut self, flow: &FlowKey, stream: Option<Stream>, end: End, sink: &mut impl FnMut(&FlowKey, Event<'_>)) {
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
                self.open.retain(|(flow, gap, _)| streams.peek(flow).is_some_and(|stream| stream.gap == *gap));
            }
        }
    }
}

/// Where a stream delivers to.
struct Out<'a, S> {
    stats: &'a mut Stats,
    flow: &'a FlowKey,
    sink: &'a mut S,
}

impl<S: FnMut(&FlowKey, Event<'_>)> Out<'_, S> {
    fn data(&mut self, bytes: &[u8]) {
        if !bytes.is_empty() {
            self.stats.delivered += bytes.len() as u64;
            (self.sink)(self.flow, Event::Data(bytes));
        }
    }

    fn gap(&mut self, bytes: u64) {
        if bytes > 0 {
            self.stats.gaps += 1;
            self.stats.missing += bytes;
            (self.sink)(self.flow, Event::Gap(bytes));
        }
    }
}

/// A piece of a segment: content, or a hole that the capture left.
#[derive(Clone, Copy, Debug)]
enum Piece<'a> {
    Data(&'a [u8]),
    Hole(u64),
}

impl Piece<'_> {
    fn len(&self) -> u64 {
        match self {
            Piece::Data(bytes) => bytes.len() as u64,
            Piece::Hole(len) => *len,
        }
    }
}

/// A piece held back.
#[derive(Debug)]
struct Held {
    len: u64,
    /// Empty for a hole.
    bytes: Box<[u8]>,
}

/// One stream. Positions are sequence numbers made to grow without end, from somewhere above 2^32.
#[derive(Debug)]
struct Stream {
    /// Position of the next byte to be delivered.
    next: u64,
    /// Position of the first byte that could be delivered.
    first: u64,
    /// Number of the SYN. `None` if it was not seen.
    isn: Option<u32>,
    /// Position of the FIN.
    end: Option<u64>,
    /// Whether its end was delivered. It is kept so that late segments do not begin a new stream.
    closed: bool,
    /// What lies behind `next`, disjoint.
    held: BTreeMap<u64, Held>,
    /// Bytes that `held` takes.
    cost: usize,
    /// Number of the gap at `next`, 0 for none.
    gap: u64,
    /// `next` when the gap got its number.
    gap_at: u64,
    touched: i64,
}

impl Stream {
    fn new(segment: &Segment<'_>) -> Stream {
        let syn = segment.flags & SYN != 0;
        let next = (1 << 33) + u64::from(segment.seq) + u64::from(syn);
        Stream {
            next,
            first: next,
            isn: syn.then_some(segment.seq),
            end: None,
            closed: false,
            held: BTreeMap::new(),
            cost: 0,
            gap: 0,
            gap_at: 0,
            touched: segment.time,
        }
    }

    /// How far a sequence number lies behind the next one.
    fn offset(&self, seq: u32) -> i64 {
        i64::from(seq.wrapping_sub(self.next as u32) as i32)
    }

    /// Whether the segment opens another connection.
    fn is_other(&self, segment: &Segment<'_>) -> bool {
        if segment.flags & SYN == 0 {
            return false;
        }
        match self.isn {
            Some(isn) => isn != segment.seq,
            // A SYN that comes late, behind the first data.
            None => self.closed || self.next != self.first || self.offset(segment.seq.wrapping_add(1)) > 0,
        }
    }

    fn segment(&mut self, segment: &Segment<'_>, out: &mut Out<'_, impl FnMut(&FlowKey, Event<'_>)>) {
        let len = segment.payload.len() as u64;
        let syn = segment.flags & SYN != 0;
        let offset = self.offset(segment.seq.wrapping_add(u32::from(syn)));
        if self.closed || segment.flags & RST != 0 {
            let again = !self.closed || offset >= 0 || segment.flags & RST != 0;
            if again {
                out.stats.ignored += len;
            } else {
                out.stats.retransmissions += u64::from(len > 0);
                out.stats.retransmitted += len;
            }
            if !self.closed {
                self.finish(End::Rst, out);
            }
            return;
        }
        if offset == -1 && len + u64::from(segment.missing) <= 1 && segment.flags & (SYN | FIN) == 0 {
            out.stats.keep_alives += 1;
            out.stats.retransmitted += len;
            return;
        }
        let at = self.next.checked_add_signed(offset).expect("positions begin above 2^33");
        let stop = at + len + u64::from(segment.missing);
        if segment.flags & FIN != 0 && self.end.is_none() {
            self.close_at(stop.max(self.next), out);
        }

        let ahead = at > self.next;
        let limit = self.end.unwrap_or(u64::MAX);
        let keep = limit.saturating_sub(at).min(len);
        out.stats.ignored += len - keep;
        let hole = limit.saturating_sub(at + len).min(u64::from(segment.missing));
        let mut new = 0;
        for (at, piece) in [(at, Piece::Data(&segment.payload[..keep as usize])), (at + len, Piece::Hole(hole))] {
            let brought = if at > self.next { self.hold(at, piece) } else { self.deliver(at, piece, out) };
            if matches!(piece, Piece::Data(_)) {
                new = brought;
            }
        }
        let old = keep - new;
        if new > 0 {
            let (segments, bytes) = match ahead {
                true => (&mut out.stats.reordered, &mut out.stats.reordered_bytes),
                false => (&mut out.stats.in_order, &mut out.stats.in_order_bytes),
            };
            *segments += 1;
            *bytes += new;
            out.stats.overlaps += u64::from(old > 0);
            out.stats.overlapping += old;
        } else if keep > 0 {
            out.stats.retransmissions += 1;
            out.stats.retransmitted += old;
        }
        self.end_if_complete(out);
    }

    /// The stream has no bytes from `end` on.
    fn close_at(&mut self, end: u64, out: &mut Out<'_, impl FnMut(&FlowKey, Event<'_>)>) {
        self.end = Some(end);
        let beyond = self.held.split_off(&end);
        for held in beyond.values() {
            self.cost -= PIECE + held.bytes.len();
            self.uncount(held.bytes.len() as u64, out.stats);
        }
        if let Some((&at, held)) = self.held.iter_mut().next_back()
            && at + held.len > end
        {
            let before = held.bytes.len();
            held.len = end - at;
            held.bytes = held.bytes[..before.min(held.len as usize)].into();
            let cut = before - held.bytes.len();
            self.cost -= cut;
            self.uncount(cut as u64, out.stats);
        }
    }

    /// Bytes that were held, and will not be delivered after all.
    fn uncount(&self, bytes: u64, stats: &mut Stats) {
        stats.reordered_bytes -= bytes;
        stats.ignored += bytes;
    }

    /// Holds back what is new of a piece; returns how many bytes that is.
    fn hold(&mut self, at: u64, piece: Piece<'_>) -> u64 {
        let stop = at + piece.len();
        let mut from = at;
        if let Some((&before, held)) = self.held.range(..=from).next_back() {
            from = from.max(before + held.len);
        }
        let mut new = 0;
        while from < stop {
            let behind = self.held.range(from..).next().map(|(&at, held)| (at, at + held.len));
            let until = behind.map_or(stop, |(at, _)| at.min(stop));
            if from < until {
                let bytes = match piece {
                    Piece::Data(bytes) => bytes[(from - at) as usize..(until - at) as usize].into(),
                    Piece::Hole(_) => Box::default(),
                };
                new += until - from;
                let held = Held { len: until - from, bytes };
                self.cost += PIECE + held.bytes.len();
                self.held.insert(from, held);
            }
            from = behind.map_or(stop, |(_, end)| end);
        }
        new
    }

    /// Delivers what is new of a piece that begins at or before `next`, and what is held behind it; returns how many bytes of the piece.
    fn deliver(&mut self, at: u64, piece: Piece<'_>, out: &mut Out<'_, impl FnMut(&FlowKey, Event<'_>)>) -> u64 {
        let stop = at + piece.len();
        let mut new = 0;
        while self.next < stop {
            let until = self.held.first_key_value().map_or(stop, |(&held, _)| held.min(stop));
            match piece {
                Piece::Data(bytes) => out.data(&bytes[(self.next - at) as usize..(until - at) as usize]),
                Piece::Hole(_) => out.gap(until - self.next),
            }
            new += until - self.next;
            self.next = until;
            self.drain(out);
        }
        new
    }

    fn drain(&mut self, out: &mut Out<'_, impl FnMut(&FlowKey, Event<'_>)>) {
        while let Some(first) = self.held.first_entry()
            && *first.key() == self.next
        {
            let held = first.remove();
            self.cost -= PIECE + held.bytes.len();
            self.next += held.len;
            if held.bytes.is_empty() { out.gap(held.len) } else { out.data(&held.bytes) }
        }
    }

    /// Whether something is known to lie behind a gap at `next`.
    fn waits(&self) -> bool {
        !self.closed && (!self.held.is_empty() || self.end.is_some_and(|end| end > self.next))
    }

    /// Gives up the gap at `next`.
    fn give_up(&mut self, out: &mut Out<'_, impl FnMut(&FlowKey, Event<'_>)>) {
        let to = self.held.first_key_value().map(|(&at, _)| at).or(self.end);
        if let Some(to) = to.filter(|&to| to > self.next) {
            out.gap(to - self.next);
            self.next = to;
        }
        self.drain(out);
        self.end_if_complete(out);
    }

    fn end_if_complete(&mut self, out: &mut Out<'_, impl FnMut(&FlowKey, Event<'_>)>) {
        if self.end == Some(self.next) && !self.closed {
            self.closed = true;
            (out.sink)(out.flow, Event::End(End::Fin));
        }
    }

    fn finish(&mut self, end: End, out: &mut Out<'_, impl FnMut(&FlowKey, Event<'_>)>) {
        while self.waits() {
            self.give_up(out);
        }
        if !self.closed {
            self.closed = true;
            (out.sink)(out.flow, Event::End(end));
        }
    }
}

#[cfg(test)]
mod tests;
