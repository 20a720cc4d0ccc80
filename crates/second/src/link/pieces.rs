//! Packets in pieces: section 4.6.

use super::fields::Parsed;
use super::records::{Packet, Piece};
use std::collections::BTreeMap;

/// Incomplete packets that are kept.
const PACKETS: usize = 64;

/// How long they are kept, in microseconds.
const KEPT: u64 = 1_000_000;

struct Incomplete {
    since: u64,
    contents: BTreeMap<u8, Vec<u8>>,
    last: Option<u8>,
}

/// Incomplete packets by the counter that piece 0 has.
#[derive(Default)]
pub(super) struct Pieces(BTreeMap<u64, Incomplete>);

/// A packet that is complete: its record.
pub(super) struct Joined(Vec<u8>);

impl Joined {
    pub(super) fn packet(&self) -> Parsed<Packet<'_>> {
        let (&head, body) = self.0.split_first().ok_or("an empty record")?;
        // Kind 1, to the end, without a segment section.
        if head & !1 != 0x30 {
            return Err("pieces of another record");
        }
        Packet::parse(head & 15, body)
    }
}

impl Pieces {
    /// Takes a piece; gives the packet if it was the last one missing.
    pub(super) fn take(
        &mut self,
        now: u64,
        counter: u64,
        piece: &Piece<'_>,
    ) -> Parsed<Option<Joined>> {
        self.0.retain(|_, incomplete| now - incomplete.since <= KEPT);
        let first = counter.checked_sub(piece.number.into()).ok_or("a piece before counter 0")?;
        if !self.0.contains_key(&first) && self.0.len() == PACKETS {
            let oldest = self.0.iter().min_by_key(|(_, incomplete)| incomplete.since);
            let oldest = *oldest.unwrap().0;
            self.0.remove(&oldest);
        }
        let incomplete = self.0.entry(first).or_insert_with(|| Incomplete {
            since: now,
            contents: BTreeMap::new(),
            last: None,
        });
        let repeated = incomplete.contents.insert(piece.number, piece.content.to_vec()).is_some();
        let two_last = piece.is_last && incomplete.last.replace(piece.number).is_some();
        let highest = incomplete.contents.last_key_value().map_or(0, |(&number, _)| number);
        if repeated || two_last || incomplete.last.is_some_and(|last| highest > last) {
            self.0.remove(&first);
            return Err("pieces that contradict each other");
        }
        if incomplete.last.is_none_or(|last| incomplete.contents.len() <= last.into()) {
            return Ok(None);
        }
        let incomplete = self.0.remove(&first).unwrap();
        Ok(Some(Joined(incomplete.contents.into_values().flatten().collect())))
    }
}
