//! Savings by cache size from one run, by how far back its matches lie.

use crate::batch::{Charge, Direction, Packet};
use oncewire_codec::matcher::Match;

/// What the reference algorithm saves by matches that lie no further back than smaller caches reach.
/// Its table points to the newest copy. A smaller cache may save a little more: where a long match
/// lies too far back for it, it may find a nearer copy of a part.
pub(super) struct DistanceCurve {
    /// Sizes of caches in bytes, ascending.
    sizes: Vec<u64>,
    /// Bytes saved with each, by direction.
    saved: Vec<[u64; Direction::ALL.len()]>,
    /// Bytes that matches of a packet save, by the smallest cache that has them.
    gains: Vec<u64>,
}

impl DistanceCurve {
    pub(super) fn new(sizes: Vec<u64>) -> DistanceCurve {
        let (saved, gains) = (vec![[0; Direction::ALL.len()]; sizes.len()], vec![0; sizes.len()]);
        DistanceCurve { sizes, saved, gains }
    }

    /// Adds the matches of a packet.
    pub(super) fn add(&mut self, packet: &Packet, matches: &[Match], charge: Charge) {
        if matches.is_empty() {
            return;
        }
        self.gains.fill(0);
        let end = packet.offset + u64::from(packet.len);
        for found in matches {
            let smallest = self.sizes.partition_point(|&size| size < end - found.source);
            if let Some(gain) = self.gains.get_mut(smallest) {
                *gain += u64::from(found.len.saturating_sub(charge.per_match));
            }
        }
        let mut sum = 0;
        for (saved, gain) in self.saved.iter_mut().zip(&self.gains) {
            sum += gain;
            saved[packet.direction.index()] += u64::saturating_sub(sum, charge.per_packet.into());
        }
    }

    /// The sizes, each with the bytes saved in every direction.
    pub(super) fn points(&self) -> impl Iterator<Item = (u64, &[u64; Direction::ALL.len()])> {
        self.sizes.iter().copied().zip(&self.saved)
    }
}
