//! One direction of a connection.

use super::*;

/// Where a stream delivers to.
pub(super) struct Out<'a, S> {
    pub(super) stats: &'a mut Stats,
    pub(super) flow: &'a FlowKey,
    pub(super) sink: &'a mut S,
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
pub(super) struct Stream {
    /// Position of the next byte to be delivered.
    pub(super) next: u64,
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
    pub(super) cost: usize,
    /// Number of the gap at `next`, 0 for none.
    pub(super) gap: u64,
    /// `next` when the gap got its number.
    pub(super) gap_at: u64,
    pub(super) touched: i64,
}

impl Stream {
    pub(super) fn new(segment: &Segment<'_>) -> Stream {
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
    pub(super) fn offset(&self, seq: u32) -> i64 {
        i64::from(seq.wrapping_sub(self.next as u32) as i32)
    }

    /// Whether the segment opens another connection.
    pub(super) fn is_other(&self, segment: &Segment<'_>) -> bool {
        if segment.flags & SYN == 0 {
            return false;
        }
        match self.isn {
            Some(isn) => isn != segment.seq,
            // A SYN that comes late, behind the first data.
            None => {
                self.closed
                    || self.next != self.first
                    || self.offset(segment.seq.wrapping_add(1)) > 0
            }
        }
    }

    pub(super) fn segment(
        &mut self,
        segment: &Segment<'_>,
        out: &mut Out<'_, impl FnMut(&FlowKey, Event<'_>)>,
    ) {
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
        if offset == -1 && len + u64::from(segment.missing) <= 1 && segment.flags & (SYN | FIN) == 0
        {
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
        for (at, piece) in
            [(at, Piece::Data(&segment.payload[..keep as usize])), (at + len, Piece::Hole(hole))]
        {
            let brought =
                if at > self.next { self.hold(at, piece) } else { self.deliver(at, piece, out) };
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

    /// Delivers what is new of a piece that begins at or before `next`, and what is held behind it;
    /// returns how many bytes of the piece.
    fn deliver(
        &mut self,
        at: u64,
        piece: Piece<'_>,
        out: &mut Out<'_, impl FnMut(&FlowKey, Event<'_>)>,
    ) -> u64 {
        let stop = at + piece.len();
        let mut new = 0;
        while self.next < stop {
            let until = self.held.first_key_value().map_or(stop, |(&held, _)| held.min(stop));
            match piece {
                Piece::Data(bytes) => {
                    out.data(&bytes[(self.next - at) as usize..(until - at) as usize])
                }
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
    pub(super) fn waits(&self) -> bool {
        !self.closed && (!self.held.is_empty() || self.end.is_some_and(|end| end > self.next))
    }

    /// Gives up the gap at `next`.
    pub(super) fn give_up(&mut self, out: &mut Out<'_, impl FnMut(&FlowKey, Event<'_>)>) {
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

    pub(super) fn finish(&mut self, end: End, out: &mut Out<'_, impl FnMut(&FlowKey, Event<'_>)>) {
        while self.waits() {
            self.give_up(out);
        }
        if !self.closed {
            self.closed = true;
            (out.sink)(out.flow, Event::End(end));
        }
    }
}
