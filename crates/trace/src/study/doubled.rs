//! Packets that a capture has twice, as a mirror port shows them that copies what comes in and what
//! goes out, or a capture on all interfaces of a router.
//!
//! The second copy repeats the first, so every algorithm would take it for traffic that it can save.

use crate::batch::{Kind, Packet};
use xxhash_rust::xxh3::xxh3_64;

/// How soon a copy follows, in nanoseconds: a retransmission waits for a timeout, at least 200 ms
/// (RFC 6298 recommends a second), or a round trip.
const SOON: i64 = 1_000_000;
/// Packets that are remembered. Of two that share a place, the newer one.
const PLACES: usize = 1 << 14;
/// Bytes of a payload that are compared. Of two segments that begin at the same number, little else
/// can differ.
const COMPARED: usize = 128;

/// Finds packets that are there twice, among TCP segments with payload.
pub(super) struct Doubled {
    /// A hash of the newest packet of each place, and its time.
    places: Vec<(u64, i64)>,
    /// Bytes on the wire of segments, and of those that are copies.
    segments: u64,
    copies: u64,
}

impl Doubled {
    pub(super) fn new() -> Doubled {
        Doubled { places: vec![(0, i64::MIN); PLACES], segments: 0, copies: 0 }
    }

    /// Takes note of the next packet.
    pub(super) fn packet(&mut self, packet: &Packet, payload: &[u8]) {
        let Kind::Tcp { seq, .. } = packet.kind else { return };
        if payload.is_empty() {
            return;
        }
        self.segments += u64::from(packet.wire);
        let content = xxh3_64(&payload[..payload.len().min(COMPARED)]);
        let mut name = [0; 24];
        name[..8].copy_from_slice(&packet.flow_hash.to_le_bytes());
        name[8..12].copy_from_slice(&seq.to_le_bytes());
        name[12..16].copy_from_slice(&packet.len.to_le_bytes());
        name[16..].copy_from_slice(&content.to_le_bytes());
        let name = xxh3_64(&name);
        let place = &mut self.places[name as usize % PLACES];
        let is_copy = place.0 == name && packet.time.abs_diff(place.1) <= SOON as u64;
        // A third one would be a copy of the first, too.
        *place = (name, packet.time);
        self.copies += if is_copy { u64::from(packet.wire) } else { 0 };
    }

    /// Copies as a share of the bytes of segments: a half if every packet is there twice. `None`
    /// without segments.
    pub(super) fn share(&self) -> Option<f64> {
        super::verdict::share(self.copies, self.segments)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::batch::testing::{Made, noise};

    fn share(packets: impl IntoIterator<Item = Made>) -> Option<f64> {
        let mut doubled = Doubled::new();
        for Made { mut packet, payload } in packets {
            packet.len = payload.len() as u32;
            doubled.packet(&packet, &payload);
        }
        doubled.share()
    }

    fn segment(nth: u32, at: f64) -> Made {
        let made = Made::tcp("192.0.2.1:80", "10.0.0.1:4000").at(at).seq(1000 * nth, 16);
        made.payload(&noise(nth.into(), 1000))
    }

    #[test]
    fn copies_follow_at_once() {
        let every = |after: f64| {
            share((0..100).flat_map(|nth| {
                let at = f64::from(nth) * 0.01;
                [segment(nth, at), segment(nth, at + after)]
            }))
        };
        assert_eq!(every(20e-6), Some(0.5));
        // A retransmission.
        assert_eq!(every(0.002), Some(0.0));
        assert_eq!(share([]), None);
        // Acknowledgments that repeat are no copies.
        let acknowledgment = || Made::tcp("192.0.2.1:80", "10.0.0.1:4000");
        assert_eq!(share([acknowledgment(), acknowledgment()]), None);
        // Nor is other content with the same number, or the same content with another.
        let other = segment(0, 0.0).payload(&noise(7, 1000));
        assert_eq!(share([segment(0, 0.0), other]), Some(0.0));
        let later = segment(0, 0.0).seq(1000, 16);
        assert_eq!(share([segment(0, 0.0), later]), Some(0.0));
    }
}
