//! What one ingress counts while packets flow, for a controller.

use std::{
    collections::{BTreeMap, HashMap},
    mem,
};

use super::{Buffers, Copies, MIN_STORE, Settings, Store, check_payload, wrong};
use crate::{Error, packet::Packet};

/// Most pairs of paths that are counted between two reports.
const MOST_PAIRS: usize = 1 << 16;

/// Counts volumes and matches of one ingress, as [`Profiler`](super::Profiler) does for all. A path
/// is told by the node where it leaves: [`Packet::path`] has that number.
///
/// It has a store of its own, so it counts matches whether the plan in force caches their packets or
/// not. Memory: the store's, about as much again for fingerprints, and a bounded number of counts.
pub struct Meter {
    store: Store,
    settings: Settings,
    buffers: Buffers,
    copies: Copies,
    volumes: BTreeMap<u32, u64>,
    pairs: HashMap<(u32, u32), (u64, u64)>,
    /// Bytes of matches of pairs for which there was no room.
    left_out: u64,
    /// When the counts began.
    since: u64,
}

/// What a [`Meter`] has counted since the last time.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Counts {
    /// Time over which it counted, in nanoseconds.
    pub nanoseconds: u64,
    /// Egress, and bytes on the wire.
    pub volumes: Vec<(u32, u64)>,
    /// Egress, egress of the packets that were repeated, matches, their bytes.
    pub pairs: Vec<(u32, u32, u64, u64)>,
    /// [`Measured::copies`](crate::Measured::copies) since the start.
    pub copies: f64,
    /// Bytes of matches that are not in `pairs`.
    pub left_out: u64,
}

impl Meter {
    /// An ingress that remembers its last `memory` bytes of payload.
    ///
    /// # Errors
    /// Settings out of range, a store below the largest packet, or no memory.
    pub fn new(memory: u64, settings: Settings) -> Result<Meter, Error> {
        settings.check()?;
        if (memory as f64) < MIN_STORE {
            let range = format!("at least {MIN_STORE}, the largest packet");
            return wrong("the store of measurements in bytes", memory as f64, range);
        }
        Ok(Meter {
            store: Store::new(memory as f64, &settings)?,
            settings,
            buffers: Buffers::default(),
            copies: Copies::default(),
            volumes: BTreeMap::new(),
            pairs: HashMap::new(),
            left_out: 0,
            since: 0,
        })
    }

    /// Counts a packet.
    ///
    /// # Errors
    /// A payload larger than IP allows.
    pub fn push(&mut self, packet: &Packet) -> Result<(), Error> {
        check_payload(packet)?;
        let wire = u64::from(packet.header_bytes) + packet.payload.len() as u64;
        *self.volumes.entry(packet.path).or_default() += wire;
        if packet.payload.is_empty() {
            return Ok(());
        }
        let looked = self.store.push(packet, &self.settings, &mut self.buffers);
        for piece in &looked.pieces {
            let pair = (packet.path, piece.path);
            if self.pairs.len() < MOST_PAIRS || self.pairs.contains_key(&pair) {
                let sum = self.pairs.entry(pair).or_default();
                *sum = (sum.0 + 1, sum.1 + piece.len as u64);
            } else {
                self.left_out += piece.len as u64;
            }
            self.copies.repeat(0, piece, true);
        }
        self.copies.forget(0, looked.floor);
        Ok(())
    }

    /// What was counted since the last time, with the `most` largest pairs; `now` is in nanoseconds.
    pub fn take(&mut self, now: u64, most: usize) -> Counts {
        let mut pairs: Vec<(u32, u32, u64, u64)> = mem::take(&mut self.pairs)
            .into_iter()
            .map(|((p, q), (count, bytes))| (p, q, count, bytes))
            .collect();
        pairs.sort_unstable_by_key(|&(p, q, _, bytes)| (std::cmp::Reverse(bytes), p, q));
        let rest = pairs.split_off(pairs.len().min(most));
        let left_out = mem::take(&mut self.left_out);
        Counts {
            nanoseconds: now.saturating_sub(mem::replace(&mut self.since, now)),
            volumes: mem::take(&mut self.volumes).into_iter().collect(),
            pairs,
            copies: self.copies.mean(),
            left_out: rest.iter().fold(left_out, |sum, pair| sum.saturating_add(pair.3)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packet::{Fields, Header};

    fn packet(path: u32, number: u16, payload: &[u8]) -> Packet {
        let header = Header {
            source: [10, 0, 0, 1].into(),
            destination: [10, 1, 0, 1].into(),
            source_port: number,
            destination_port: 9,
            protocol: 17,
            identification: Some(number),
            transport: Fields::None,
        };
        Packet { time: 0, path, header, header_bytes: 28, payload: payload.into() }
    }

    fn content(seed: u64) -> Vec<u8> {
        let mut random = fastrand::Rng::with_seed(seed);
        (0..1000).map(|_| random.u8(..)).collect()
    }

    #[test]
    fn volumes_and_matches_are_counted_by_egress() {
        let mut meter = Meter::new(1 << 20, Settings::default()).unwrap();
        let (one, other) = (content(1), content(2));
        meter.push(&packet(3, 0, &one)).unwrap();
        meter.push(&packet(5, 1, &one)).unwrap();
        meter.push(&packet(5, 2, &other)).unwrap();
        meter.push(&packet(5, 3, &[])).unwrap();
        let counts = meter.take(7, 10);
        assert_eq!((counts.nanoseconds, counts.left_out), (7, 0));
        assert_eq!(counts.volumes, [(3, 1028), (5, 2 * 1028 + 28)]);
        // A match begins and ends within a sampling period of the whole payload.
        let [(5, 3, 1, bytes)] = counts.pairs[..] else { panic!("{:?}", counts.pairs) };
        assert!((900..=1000).contains(&bytes), "{bytes}");
        // What was taken is not taken again, and the store stays.
        meter.push(&packet(3, 4, &other)).unwrap();
        let counts = meter.take(9, 0);
        assert_eq!((counts.nanoseconds, &counts.volumes[..]), (2, &[(3, 1028)][..]));
        assert!(counts.pairs.is_empty() && counts.left_out > 900);
        assert_eq!(meter.take(9, 10), Counts { copies: counts.copies, ..Counts::default() });
    }

    #[test]
    fn the_store_forgets_and_a_packet_sent_again_matches_nothing() {
        let mut meter = Meter::new(70_000, Settings::default()).unwrap();
        meter.push(&packet(3, 0, &content(1))).unwrap();
        meter.push(&packet(3, 0, &content(1))).unwrap();
        assert!(meter.take(0, 10).pairs.is_empty());
        for number in 1..300 {
            meter.push(&packet(3, number, &content(u64::from(number) + 1))).unwrap();
        }
        meter.push(&packet(3, 999, &content(1))).unwrap();
        assert!(meter.take(0, 10).pairs.is_empty());
        assert!(Meter::new(100, Settings::default()).is_err());
        assert!(meter.push(&packet(3, 0, &[0; 65_536])).is_err());
    }
}
