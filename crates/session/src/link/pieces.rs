//! Packets that do not fit a datagram: cut into pieces, and put together again.
//!
//! The pieces of a packet are in datagrams with consecutive counters, so the counter and the number
//! of a piece say which packet it belongs to. A lost piece loses the packet.

use super::records::{self, MAX_PACKET, MAX_PIECES};
use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// Incomplete packets that are kept. A newer one takes the place of the oldest.
pub const MAX_INCOMPLETE: usize = 64;
/// How long the pieces of a packet may be apart, as they arrive.
pub const REASSEMBLY: Duration = Duration::from_secs(1);
/// Longest record of a packet: its headers and payload, and what is before them.
const LONGEST: usize = MAX_PACKET + 16;

/// ECN: congestion experienced.
const CONGESTED: u8 = 0b11;

/// Cuts a packet's record into pieces of up to `room` bytes with their heads; `None` if there are too
/// many. Each piece comes with its number and whether it is the last.
pub(super) fn cut(record: &[u8], room: usize) -> Option<impl Iterator<Item = (u8, bool, &[u8])>> {
    let size = room.checked_sub(records::PIECE_OVERHEAD).filter(|&size| size > 0)?;
    let count = record.len().div_ceil(size);
    let pieces = record.chunks(size).zip(0u8..);
    (count <= MAX_PIECES).then(|| {
        pieces.map(move |(piece, number)| (number, usize::from(number) + 1 == count, piece))
    })
}

/// A packet of which some pieces have arrived.
#[derive(Debug)]
struct Incomplete {
    /// Counter of the datagram with its first piece.
    first: u64,
    since: Instant,
    /// Pieces by number, as many as are known to exist.
    pieces: Vec<Option<Box<[u8]>>>,
    has_last: bool,
    missing: usize,
    bytes: usize,
    ecn: u8,
}

/// Puts packets together from their pieces.
///
/// Memory is at most that of [`MAX_INCOMPLETE`] packets of 64 KiB, and work for a piece proportional to
/// their number and to the piece.
#[derive(Debug, Default)]
pub(super) struct Reassembly {
    /// In the order in which their first pieces arrived.
    incomplete: VecDeque<Incomplete>,
    /// Packets that were given up.
    given_up: u64,
}

impl Reassembly {
    /// Packets of which some pieces did not arrive in time, or did not fit.
    pub(super) fn given_up(&self) -> u64 {
        self.given_up
    }

    /// Takes a piece of the datagram with this counter and these ECN bits. Returns the packet's record
    /// if it is complete, with the bits of its datagrams: congestion that one of them met counts (RFC
    /// 3168 section 5.3).
    pub(super) fn insert(
        &mut self,
        counter: u64,
        (number, is_last, bytes): (u8, bool, &[u8]),
        ecn: u8,
        now: Instant,
    ) -> Option<(Vec<u8>, u8)> {
        while self.incomplete.front().is_some_and(|oldest| oldest.since + REASSEMBLY < now) {
            self.give_up(0);
        }
        // A piece before the first datagram belongs to nothing.
        let first = counter.checked_sub(number.into())?;
        let at = match self.incomplete.iter().position(|packet| packet.first == first) {
            Some(at) => at,
            None => {
                if self.incomplete.len() == MAX_INCOMPLETE {
                    self.give_up(0);
                }
                self.incomplete.push_back(Incomplete {
                    first,
                    since: now,
                    pieces: Vec::new(),
                    has_last: false,
                    missing: 0,
                    bytes: 0,
                    ecn,
                });
                self.incomplete.len() - 1
            }
        };
        if !self.incomplete[at].insert(number.into(), is_last, bytes) {
            self.give_up(at);
            return None;
        }
        let packet = &mut self.incomplete[at];
        if ecn == CONGESTED {
            packet.ecn = CONGESTED;
        }
        if !packet.has_last || packet.missing > 0 {
            return None;
        }
        let packet = self.incomplete.remove(at)?;
        let ecn = packet.ecn;
        Some((packet.pieces.into_iter().flatten().flatten().collect(), ecn))
    }

    fn give_up(&mut self, at: usize) {
        self.given_up += u64::from(self.incomplete.remove(at).is_some());
    }
}

impl Incomplete {
    /// Returns false if the piece contradicts others, or makes the packet too long.
    fn insert(&mut self, number: usize, is_last: bool, bytes: &[u8]) -> bool {
        let known = self.pieces.len();
        let contradicts =
            if self.has_last { number >= known || is_last } else { is_last && number + 1 < known };
        if contradicts || self.bytes + bytes.len() > LONGEST {
            return false;
        }
        if number >= known {
            self.missing += number + 1 - known;
            self.pieces.resize(number + 1, None);
        }
        self.has_last |= is_last;
        let place = &mut self.pieces[number];
        // The replay window admits each datagram once, and a datagram has one piece of a packet.
        if place.is_some() {
            return false;
        }
        *place = Some(bytes.into());
        self.missing -= 1;
        self.bytes += bytes.len();
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::link::testing::start;
    use proptest::prelude::*;

    proptest! {
        /// In any order, among pieces of other packets, a packet whose pieces all arrive is put
        /// together, once, and no other.
        #[test]
        fn packets_are_put_together(lens in proptest::collection::vec(1usize..2000, 1..40), room in 20usize..400, order: u64, lost in 0usize..4) {
            let mut rng = fastrand::Rng::with_seed(order);
            let (mut sent, mut counter) = (Vec::new(), 5);
            let records: Vec<Vec<u8>> = lens.iter().enumerate().map(|(at, &len)| vec![at as u8; len]).collect();
            let mut complete = vec![true; records.len()];
            for (at, record) in records.iter().enumerate() {
                for (number, is_last, piece) in cut(record, room).unwrap() {
                    prop_assert!(piece.len() + records::PIECE_OVERHEAD <= room);
                    if rng.usize(..20) < lost {
                        complete[at] = false;
                    } else {
                        sent.push((counter, number, is_last, piece.to_vec()));
                    }
                    counter += 1;
                }
                // The next packet's first piece is never in the same datagram as another's first.
                counter -= u64::from(rng.bool() && record.len() > room);
            }
            rng.shuffle(&mut sent);
            let (mut reassembly, now) = (Reassembly::default(), start());
            let mut got = vec![false; records.len()];
            for (counter, number, is_last, piece) in sent {
                if let Some((record, ecn)) = reassembly.insert(counter, (number, is_last, &piece), 2, now) {
                    prop_assert_eq!(ecn, 2);
                    let at = usize::from(record[0]);
                    prop_assert_eq!(&record, &records[at]);
                    prop_assert!(!std::mem::replace(&mut got[at], true));
                }
            }
            prop_assert_eq!(got, complete);
        }

        /// Whatever a peer sends, memory is bounded, and nothing is delivered whose pieces did not all
        /// come.
        #[test]
        fn any_pieces(pieces in proptest::collection::vec((0u64..300, 0u8..128, any::<bool>(), 1usize..3000, 0u64..400), 1..400)) {
            let (mut reassembly, mut now) = (Reassembly::default(), start());
            for (counter, number, is_last, len, wait) in pieces {
                now += Duration::from_millis(wait);
                if let Some((record, _)) = reassembly.insert(counter, (number, is_last, &vec![7; len]), 0, now) {
                    prop_assert!(record.len() <= LONGEST);
                }
                prop_assert!(reassembly.incomplete.len() <= MAX_INCOMPLETE);
                for packet in &reassembly.incomplete {
                    prop_assert!(packet.bytes <= LONGEST && packet.pieces.len() <= MAX_PIECES);
                    prop_assert!(now <= packet.since + REASSEMBLY || packet.since == now);
                }
            }
        }
    }

    #[test]
    fn old_and_contradictory_packets_are_given_up() {
        let (mut reassembly, now) = (Reassembly::default(), start());
        assert_eq!(reassembly.insert(10, (0, false, b"a"), 0, now), None);
        let late = now + REASSEMBLY + Duration::from_millis(1);
        assert_eq!(reassembly.insert(11, (1, true, b"b"), 0, late), None);
        assert_eq!(reassembly.given_up(), 1);
        // A second last piece, a piece after the last, the same piece twice.
        for (first, second) in [
            ((3, true), (4, true)),
            ((3, true), (4, false)),
            ((4, false), (3, true)),
            ((2, false), (2, false)),
        ] {
            let mut reassembly = Reassembly::default();
            for (number, is_last) in [first, second] {
                assert_eq!(
                    reassembly.insert(100 + u64::from(number), (number, is_last, b"c"), 0, now),
                    None
                );
            }
            assert_eq!((reassembly.given_up(), reassembly.incomplete.len()), (1, 0));
        }
        assert_eq!(
            reassembly.insert(3, (4, false, b"d"), 0, late),
            None,
            "before the first datagram"
        );
        // Too many: the oldest goes.
        let mut reassembly = Reassembly::default();
        for at in 0..=MAX_INCOMPLETE as u64 {
            reassembly.insert(at, (0, false, b"e"), 0, now);
        }
        assert_eq!((reassembly.given_up(), reassembly.incomplete.len()), (1, MAX_INCOMPLETE));
        assert_eq!(
            reassembly.insert(2, (1, true, b"f"), CONGESTED, now),
            Some((b"ef".to_vec(), CONGESTED))
        );
    }

    #[test]
    fn a_packet_has_up_to_128_pieces() {
        let record = [0; 128 * 10];
        assert_eq!(cut(&record, records::PIECE_OVERHEAD + 10).unwrap().count(), 128);
        assert!(cut(&record, records::PIECE_OVERHEAD + 9).is_none());
        assert!(cut(&record, records::PIECE_OVERHEAD).is_none());
    }
}
