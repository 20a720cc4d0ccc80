//! IP fragments (RFC 791 section 3.2, RFC 8200 section 4.5), held in bounded memory until their
//! datagram is complete.
//!
//! Overlaps: of IPv4 fragments, the first one wins, byte by byte, and the datagram is used. Hosts
//! differ here, and a capture does not show the receiver's choice. Overlapping IPv6 fragments
//! invalidate a datagram and all its further fragments (RFC 5722, RFC 8200); an exact duplicate is
//! not an overlap. A fragment that contradicts the end of the datagram invalidates it too.

use std::{
    collections::{HashMap, VecDeque},
    net::IpAddr,
};

use crate::{Limits, Nanos, Tally};

/// Most bytes of a datagram after its IP header: the limit of IPv4's total length and IPv6's
/// payload length.
const LARGEST: u32 = 65_535;

/// Bytes charged for an incomplete datagram besides its content and pieces: about its entries in
/// the map and the queue.
const OVERHEAD: usize = 256;

/// Identifies the fragments of one datagram. The protocol is always 44 for IPv6.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Key {
    pub(crate) source: IpAddr,
    pub(crate) destination: IpAddr,
    pub(crate) id: u32,
    pub(crate) protocol: u8,
}

/// One fragment.
pub(crate) struct Piece<'a> {
    /// Offset of its bytes in the datagram.
    pub(crate) offset: u32,
    pub(crate) more: bool,
    /// The protocol of the datagram, if this is its first fragment.
    pub(crate) protocol: u8,
    /// The captured ones of its `wire` bytes.
    pub(crate) data: &'a [u8],
    pub(crate) wire: u32,
    /// Bytes on the wire after it.
    pub(crate) trailer: u32,
    /// The records it came in: several, if it was itself fragmented.
    pub(crate) tally: Tally,
}

#[derive(Debug)]
pub(crate) enum Verdict {
    Held,
    Malformed,
    Lost,
    Whole(Box<Whole>),
}

/// A completed datagram.
#[derive(Debug)]
pub(crate) struct Whole {
    pub(crate) protocol: u8,
    /// Its bytes up to the first that was not captured.
    pub(crate) data: Vec<u8>,
    pub(crate) wire: u32,
    /// Bytes on the wire after its fragments.
    pub(crate) trailer: u32,
    /// All records it came in.
    pub(crate) tally: Tally,
}

#[derive(Debug)]
pub(crate) struct Fragments {
    limits: Limits,
    datagrams: HashMap<Key, Datagram>,
    /// Keys with serial numbers, oldest first; some datagrams are gone.
    order: VecDeque<(Key, u64)>,
    serial: u64,
    /// Sum of [`Datagram::charge`].
    charged: usize,
    /// Held fragments that were dropped since [`take_given_up`](Self::take_given_up).
    given_up: Tally,
}

#[derive(Debug)]
struct Datagram {
    serial: u64,
    first: Nanos,
    /// Invalid: further fragments are lost at once.
    void: bool,
    protocol: u8,
    /// Total bytes, known from the last fragment.
    total: Option<u32>,
    /// Ranges received, ascending and disjoint.
    pieces: Vec<(u32, u32)>,
    /// Sum of their lengths.
    have: u32,
    data: Vec<u8>,
    /// First byte that was sent but not captured.
    gap: u32,
    tally: Tally,
    trailer: u32,
}

impl Datagram {
    fn charge(&self) -> usize {
        OVERHEAD + self.data.capacity() + self.pieces.capacity() * size_of::<(u32, u32)>()
    }
}

impl Fragments {
    pub(crate) fn new(limits: Limits) -> Self {
        let none = Tally::default();
        Self {
            limits,
            datagrams: HashMap::new(),
            order: VecDeque::new(),
            serial: 0,
            charged: 0,
            given_up: none,
        }
    }

    /// Fragments dropped since the last call.
    pub(crate) fn take_given_up(&mut self) -> Tally {
        std::mem::take(&mut self.given_up)
    }

    /// Drops everything.
    pub(crate) fn clear(&mut self) {
        for (_, datagram) in self.datagrams.drain() {
            self.given_up += datagram.tally;
        }
        self.order.clear();
        self.charged = 0;
    }

    pub(crate) fn add(&mut self, key: Key, piece: Piece<'_>, now: Nanos) -> Verdict {
        let end = piece.offset.saturating_add(piece.wire);
        // Fragments but the last are multiples of 8 bytes, none is empty, and none reaches beyond
        // the largest datagram.
        if piece.wire == 0 || end > LARGEST || (piece.more && !piece.wire.is_multiple_of(8)) {
            return Verdict::Malformed;
        }
        self.expire(now);
        let mut datagram = match self.datagrams.remove(&key) {
            Some(datagram) => {
                self.charged -= datagram.charge();
                datagram
            }
            None => {
                while self.datagrams.len() >= self.limits.fragment_datagrams.max(1)
                    && self.give_up_oldest()
                {}
                self.serial += 1;
                self.order.push_back((key, self.serial));
                if self.order.len() > 2 * self.datagrams.len() + 64 {
                    let (datagrams, serial) = (&self.datagrams, self.serial);
                    self.order.retain(|(key, s)| {
                        *s == serial || datagrams.get(key).is_some_and(|d| d.serial == *s)
                    });
                }
                Datagram {
                    serial: self.serial,
                    first: now,
                    void: false,
                    protocol: piece.protocol,
                    total: None,
                    pieces: Vec::new(),
                    have: 0,
                    data: Vec::new(),
                    gap: u32::MAX,
                    tally: Tally::default(),
                    trailer: 0,
                }
            }
        };
        if datagram.void {
            self.keep(key, datagram);
            return Verdict::Lost;
        }
        if !datagram.insert(&piece, end, key.source.is_ipv6()) {
            self.given_up += datagram.tally;
            if key.source.is_ipv6() {
                // Stays, so that further fragments of this datagram are not taken for another
                // one's.
                let (pieces, data, tally) = (Vec::new(), Vec::new(), Tally::default());
                self.keep(key, Datagram { void: true, pieces, data, tally, ..datagram });
            }
            return Verdict::Lost;
        }
        let have = datagram.have;
        if datagram.total == Some(have) {
            let mut data = datagram.data;
            data.truncate(datagram.gap.min(have) as usize);
            let Datagram { protocol, trailer, mut tally, .. } = datagram;
            tally += piece.tally;
            return Verdict::Whole(Box::new(Whole { protocol, data, wire: have, trailer, tally }));
        }
        while self.charged + datagram.charge() > self.limits.fragment_bytes {
            if self.order.front().is_none_or(|(_, serial)| *serial == datagram.serial) {
                self.order.pop_front();
                self.given_up += datagram.tally;
                return Verdict::Lost;
            }
            self.give_up_front();
        }
        datagram.tally += piece.tally;
        self.keep(key, datagram);
        Verdict::Held
    }

    fn keep(&mut self, key: Key, datagram: Datagram) {
        self.charged += datagram.charge();
        self.datagrams.insert(key, datagram);
    }

    /// Drops datagrams that are too old at `now`.
    fn expire(&mut self, now: Nanos) {
        while let Some((key, serial)) = self.order.front() {
            if let Some(datagram) =
                self.datagrams.get(key).filter(|datagram| datagram.serial == *serial)
            {
                let age = u128::try_from(i128::from(now) - i128::from(datagram.first)).unwrap_or(0);
                if age <= self.limits.fragment_age.as_nanos() {
                    return;
                }
            }
            self.give_up_front();
        }
    }

    /// Returns `false` if there was none.
    fn give_up_oldest(&mut self) -> bool {
        let before = self.datagrams.len();
        while self.give_up_front() {
            if self.datagrams.len() < before {
                return true;
            }
        }
        false
    }

    fn give_up_front(&mut self) -> bool {
        let Some((key, serial)) = self.order.pop_front() else { return false };
        if self.datagrams.get(&key).is_some_and(|datagram| datagram.serial == serial)
            && let Some(datagram) = self.datagrams.remove(&key)
        {
            self.charged -= datagram.charge();
            self.given_up += datagram.tally;
        }
        true
    }
}

impl Datagram {
    /// Adds a piece that ends at `end`. Returns `false` if that invalidates the datagram.
    fn insert(&mut self, piece: &Piece<'_>, end: u32, v6: bool) -> bool {
        let last = self.pieces.last().map_or(0, |piece| piece.1);
        let total = if piece.more { self.total } else { Some(end) };
        let consistent = total.is_none_or(|total| {
            self.total.is_none_or(|known| known == total) && end.max(last) <= total
        });
        // `Dissected` counts headers and trailers in 32 bits.
        let bytes = self.tally.bytes + piece.tally.bytes;
        if !consistent || bytes > u64::from(u32::MAX) {
            return false;
        }
        self.total = total;
        self.trailer += piece.trailer;
        if piece.offset == 0 {
            self.protocol = piece.protocol;
        }
        let from = self.pieces.partition_point(|&(_, piece_end)| piece_end <= piece.offset);
        let overlapping = self.pieces[from..].iter().take_while(|&&(begin, _)| begin < end).count();
        if v6 && overlapping > 0 {
            return self.pieces[from] == (piece.offset, end) && self.holds(piece);
        }
        // Copies only what is not yet present.
        let mut at = piece.offset;
        let mut i = from;
        while at < end {
            let (next_begin, next_end) = self.pieces.get(i).copied().unwrap_or((end, end));
            if at < next_begin {
                let until = next_begin.min(end);
                self.copy(piece, at, until);
                self.pieces.insert(i, (at, until));
                self.have += until - at;
                i += 1;
            }
            at = at.max(next_end);
            i += 1;
        }
        true
    }

    /// Whether the captured bytes of a duplicate equal those that came first.
    fn holds(&self, piece: &Piece<'_>) -> bool {
        let there = self.data.get(piece.offset as usize..).unwrap_or_default();
        let known = self.gap.saturating_sub(piece.offset) as usize;
        there.iter().take(known).zip(piece.data).all(|(a, b)| a == b)
    }

    fn copy(&mut self, piece: &Piece<'_>, begin: u32, end: u32) {
        let captured = piece.offset + piece.data.len() as u32;
        if end > captured {
            self.gap = self.gap.min(begin.max(captured));
        }
        let until = end.min(captured);
        if begin < until {
            let range = begin as usize..until as usize;
            if self.data.len() < range.end {
                self.data.resize(range.end, 0);
            }
            let offset = piece.offset as usize;
            self.data[range.clone()]
                .copy_from_slice(&piece.data[range.start - offset..range.end - offset]);
        }
    }
}
