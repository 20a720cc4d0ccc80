//! What Santos and Wetherall's system saves, as they published it: by minute (Figure 6), and beside
//! compression (Table 2).

use super::super::layout::{chart, shares, table};
use super::super::tally::share;
use crate::algorithm::Deflate;
use crate::batch::{Direction, Packet};
use crate::lru::{LruCache, entry_bytes};
use crate::results::{Axis, Cell, Chart, ChartKind, Series, Table, Unit};
use std::collections::BTreeMap;

/// Memory of a cache for payloads, in bytes, and the shortest payload that is cached (section 3.4).
pub(super) const CACHE: u64 = 200_000_000;
pub(super) const SHORTEST: u32 = 500;

/// Bytes of a payload's name, an MD5.
pub(super) const NAME: u64 = 16;

/// gzip's fastest level (section 4.3).
const FASTEST: u32 = 1;

/// Most parts of the time that are kept, and fewest that make a chart.
const MOST_PARTS: usize = 1500;
const FEW_PARTS: usize = 3;

const SECOND: i64 = 1_000_000_000;
const MINUTE: i64 = 60 * SECOND;

/// Widths of these parts, each a multiple of the one before. Beyond, they double.
const WIDTHS: [i64; 9] = [1, 5, 15, 60, 300, 900, 3600, 21_600, 86_400];

/// Emulates the system over the direction that the paper is about: outbound, or all packets where
/// no network is inside.
pub(super) struct Prototype {
    /// Length of each cached payload by its hash. The content itself is not kept.
    cache: LruCache<u128, u32>,
    /// Payload that the cache may hold, and holds, in bytes.
    capacity: u64,
    held: u64,
    most: u64,
    deflate: Deflate,
    found: Published,
    /// Bytes on the wire and bytes saved by part of the time.
    parts: BTreeMap<i64, (u64, u64)>,
    /// Width of these parts in nanoseconds.
    width: i64,
    first: i64,
}

/// What the system saves of one direction.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Published {
    /// The direction.
    pub direction: &'static str,
    /// Bytes on the wire.
    pub wire: u64,
    /// Of these, bytes saved by names of payloads, by gzip of each payload, and by names first, then
    /// gzip of the rest.
    pub saved: [u64; 3],
    /// Seconds that each point of `over_time` stands for.
    pub width: f64,
    /// Seconds from the first packet, and the share of the bytes that names of payloads save there.
    pub over_time: Vec<(f64, f64)>,
}

impl Prototype {
    pub(super) fn new(capacity: u64) -> Prototype {
        Prototype {
            cache: LruCache::unbounded(),
            capacity,
            held: 0,
            most: 0,
            deflate: Deflate::new(FASTEST, false),
            found: Published::default(),
            parts: BTreeMap::new(),
            width: WIDTHS[0] * SECOND,
            first: i64::MAX,
        }
    }

    /// Whether it is about this direction.
    pub(super) fn is_of(direction: Direction) -> bool {
        matches!(direction, Direction::Outbound | Direction::All)
    }

    /// Takes a packet of its direction, with payload or not. `hash` is that of the payload.
    pub(super) fn packet(&mut self, packet: &Packet, payload: &[u8], hash: u128) {
        let len = u64::from(packet.len);
        let (mut name, mut both) = (0, 0);
        if packet.len > 0 && packet.missing == 0 {
            let compressed = len - self.deflate.len(payload);
            if packet.len >= SHORTEST && self.is_known(hash, packet.len) {
                name = len - NAME;
                both = name;
            } else {
                both = compressed;
            }
            self.found.saved[1] += compressed;
        }
        self.found.saved[0] += name;
        self.found.saved[2] += both;
        self.found.wire += u64::from(packet.wire);
        self.found.direction = packet.direction.name();
        self.first = self.first.min(packet.time);
        self.count(packet.time, u64::from(packet.wire), name);
    }

    /// Whether the cache has a payload, which it has from then on.
    fn is_known(&mut self, hash: u128, len: u32) -> bool {
        if self.cache.get(&hash).is_some() {
            return true;
        }
        self.held += u64::from(len);
        self.cache.put(hash, len);
        while self.held > self.capacity
            && let Some((_, len)) = self.cache.pop_lru()
        {
            self.held -= u64::from(len);
        }
        self.most = self.most.max(self.cache.len() as u64 * entry_bytes::<u128, u32>() as u64);
        false
    }

    fn count(&mut self, time: i64, wire: u64, saved: u64) {
        let part = self.parts.entry(time.div_euclid(self.width)).or_default();
        part.0 += wire;
        part.1 += saved;
        while self.parts.len() > MOST_PARTS {
            let wider = wider(self.width);
            self.parts = self.by(wider);
            self.width = wider;
        }
    }

    /// The parts, put together to a multiple of their width.
    fn by(&self, width: i64) -> BTreeMap<i64, (u64, u64)> {
        let mut wide: BTreeMap<i64, (u64, u64)> = BTreeMap::new();
        let times = width / self.width;
        for (at, (wire, saved)) in &self.parts {
            let part = wide.entry(at.div_euclid(times)).or_default();
            part.0 += wire;
            part.1 += saved;
        }
        wide
    }

    /// Most memory so far, in bytes.
    pub(super) fn memory(&self) -> u64 {
        self.most + self.deflate.memory() + MOST_PARTS as u64 * 48
    }

    pub(super) fn compute(mut self) -> Published {
        // By minute, as published, where that leaves enough of them.
        if self.width < MINUTE {
            let minutes = self.by(MINUTE);
            if minutes.len() >= 20 {
                (self.parts, self.width) = (minutes, MINUTE);
            }
        }
        let seconds = |time: i64| time as f64 / SECOND as f64;
        let (first, width) = (self.first, self.width);
        let points = self.parts.iter().filter_map(|(at, &(wire, saved))| {
            let since = at.saturating_mul(width).saturating_sub(first).max(0);
            Some((seconds(since), share(saved as f64, wire as f64)?))
        });
        self.found.over_time = points.collect();
        self.found.width = seconds(width);
        self.found
    }
}

/// The next width, a multiple.
fn wider(width: i64) -> i64 {
    let next = WIDTHS.iter().map(|seconds| seconds * SECOND).find(|&next| next > width);
    next.unwrap_or(width.saturating_mul(2))
}

impl Published {
    /// Table 2 of the paper.
    pub(super) fn table(&self) -> Table {
        let columns = [
            ("direction", Unit::Text),
            ("reduction", Unit::Share),
            ("compression", Unit::Share),
            ("both", Unit::Share),
        ];
        let caption = "Bytes on the wire that names of payloads save, gzip, and one after the other (Table 2)";
        let mut published = table("published", caption, columns);
        if self.wire > 0 {
            let savings = self.saved.map(|saved| Cell::from(saved as f64 / self.wire as f64));
            published.rows.push([Cell::from(self.direction)].into_iter().chain(savings).collect());
        }
        published
    }

    /// Figure 6 of the paper.
    pub(super) fn chart(&self) -> Option<Chart> {
        if self.over_time.len() < FEW_PARTS {
            return None;
        }
        let width = oncewire_report::format::number(self.width, Unit::Seconds);
        let caption = format!("Bytes saved by names of payloads, in parts of {width} (Fig. 6)");
        let time = Axis::new("time since the first packet", Unit::Seconds);
        let mut saved = chart("published", caption, ChartKind::Line, time, shares("savings"));
        saved.series.push(Series::new(self.direction, self.over_time.clone()));
        Some(saved)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::batch::testing::{Made, noise};
    use xxhash_rust::xxh3::xxh3_128;

    /// What is found of payloads, each some seconds after the one before.
    fn found(capacity: u64, step: f64, payloads: &[Vec<u8>]) -> Published {
        let mut prototype = Prototype::new(capacity);
        for (nth, payload) in payloads.iter().enumerate() {
            let made = Made::tcp("10.0.0.1:80", "10.0.0.2:2000").at(nth as f64 * step);
            let mut packet = made.packet;
            packet.len = payload.len() as u32;
            packet.wire = packet.len + 54;
            prototype.packet(&packet, payload, xxh3_128(payload));
        }
        assert!(prototype.parts.len() <= MOST_PARTS);
        prototype.compute()
    }

    #[test]
    fn names_gzip_and_both_of_known_payloads() {
        let text = b"GET /index.html HTTP/1.1\r\nHost: www.example.org\r\n".repeat(15);
        let coded = Deflate::new(FASTEST, false).len(&text);
        assert!(coded < text.len() as u64 / 4);
        let [one, short] = [noise(1, 1000), noise(2, 499)];
        let payloads = [one.clone(), text.clone(), one, text.clone(), short.clone(), short];
        let of = found(CACHE, 1.0, &payloads);
        let names = 1000 - NAME + text.len() as u64 - NAME;
        let gzip = 2 * (text.len() as u64 - coded);
        assert_eq!(of.saved, [names, gzip, names + gzip / 2]);
        // Two of the six parts repeat.
        let points: Vec<bool> = of.over_time.iter().map(|(_, saved)| *saved > 0.0).collect();
        assert_eq!((points, of.width), (vec![false, false, true, true, false, false], 1.0));
        assert_eq!(of.table().rows[0].len(), 4);
    }

    #[test]
    fn the_least_recently_used_payload_goes_first() {
        let [a, b, c] = [1, 2, 3].map(|seed| noise(seed, 1000));
        // Two have room: c takes the place of b, since a was used after it.
        let of = |payloads: &[&Vec<u8>]| {
            let payloads: Vec<Vec<u8>> = payloads.iter().copied().cloned().collect();
            found(2000, 1.0, &payloads).saved[0] / (1000 - NAME)
        };
        assert_eq!(of(&[&a, &b, &a, &c, &a]), 2);
        assert_eq!(of(&[&a, &b, &a, &c, &b]), 1);
    }

    #[test]
    fn the_time_has_minutes_and_a_bounded_number_of_parts() {
        let one = vec![noise(1, 1000); 30];
        let of = found(CACHE, 60.0, &one);
        assert_eq!((of.width, of.over_time.len()), (60.0, 30));
        assert_eq!((of.over_time[0], of.over_time[2].0), ((0.0, 0.0), 120.0));
        assert!(of.chart().is_some());
        // An hour in seconds: 3,600 parts are too many.
        let of = found(CACHE, 1.0, &vec![noise(1, 600); 3600]);
        assert_eq!((of.width, of.over_time.len()), (60.0, 60));
        assert!(found(CACHE, 1.0, &one[..2]).chart().is_none());
        // A wild clock.
        assert_eq!(found(CACHE, 1e8, &one).over_time.len(), 30);
    }
}
