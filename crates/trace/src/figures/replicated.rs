//! Figure 11: packets whose whole payload was seen before (Santos and Wetherall 1998, section 2).

use crate::batch::{Direction, Observer, View};
use crate::results::{Axis, Cell, Chart, ChartKind, Column, Figure, Series, Table, Unit};
use std::collections::HashMap;
use xxhash_rust::xxh3::xxh3_128_with_seed;

/// Ports that count as HTTP: those of the paper, 80 and 8001 (section 2.3), and those that have come into use since.
const HTTP: [u16; 6] = [80, 8000, 8001, 8008, 8080, 8888];

/// Payload length above which the paper found 97 % of the replicated volume (section 2.4), in bytes.
const LARGE: usize = 500;

/// Windows of the table, in bytes. 200 MB is the paper's (section 2.5).
const WINDOWS: [u64; 6] = [1_000_000, 10_000_000, 50_000_000, 200_000_000, 1_000_000_000, 10_000_000_000];

/// Services other than HTTP that the table names.
const TOP: usize = 10;

/// Services that are told apart; each takes 64 bytes.
const MAX_SERVICES: usize = 1 << 14;

/// Bytes of a bucket of the table of payloads: a 128-bit hash, the position of the last copy, and the map's control byte.
const BUCKET: u64 = size_of::<([u64; 2], u64)>() as u64 + 1;

/// Most times that the sample is halved. Only payloads made to fit could fill the memory still; all are then forgotten.
const MAX_LEVEL: u32 = 40;

/// Longest payload, in bytes, and one.
const LENGTHS: usize = 1 << 16;

/// Packets whose payload is exactly that of an earlier one of their direction.
#[derive(Debug)]
pub struct Replicated {
    memory: u64,
    most: u64,
    /// Position of the last copy of each payload, in payload bytes of its direction.
    seen: HashMap<[u64; 2], u64>,
    /// One payload in 2^level is looked at.
    level: u32,
    /// The samplings, with the payload volume after which they began.
    samplings: Vec<(u32, u64)>,
    directions: [Option<Box<Way>>; Direction::ALL.len()],
    services: HashMap<(Direction, u8, u16), Tally>,
    /// Packets of services that did not fit any more.
    unnamed: u64,
    truncated: u64,
    truncated_bytes: u64,
}

#[derive(Clone, Copy, Debug, Default)]
struct Tally {
    packets: u64,
    volume: u64,
    replicated_packets: u64,
    replicated: u64,
}

impl Tally {
    fn add(&mut self, other: &Tally) {
        self.packets += other.packets;
        self.volume += other.volume;
        self.replicated_packets += other.replicated_packets;
        self.replicated += other.replicated;
    }

    /// Share of the volume. A sample's estimate may lie above the volume itself.
    fn share(&self) -> Option<f64> {
        (self.volume > 0).then(|| (self.replicated as f64 / self.volume as f64).min(1.0))
    }
}

/// One direction.
#[derive(Debug)]
struct Way {
    all: Tally,
    tcp: Tally,
    udp: Tally,
    http: Tally,
    /// Bytes that the reference algorithm saves of the same packets.
    saved: u64,
    /// Replicated volume by payload length.
    lengths: Vec<u64>,
    /// Replicated volume by interval, see [`bin`].
    intervals: Vec<u64>,
    /// Replicated volume whose interval is at most each of [`WINDOWS`].
    windows: [u64; WINDOWS.len()],
}

impl Way {
    const BYTES: u64 = ((LENGTHS + BINS) * size_of::<u64>() + size_of::<Way>()) as u64;

    fn new() -> Box<Way> {
        Box::new(Way {
            all: Tally::default(),
            tcp: Tally::default(),
            udp: Tally::default(),
            http: Tally::default(),
            saved: 0,
            lengths: vec![0; LENGTHS],
            intervals: vec![0; BINS],
            windows: [0; WINDOWS.len()],
        })
    }

    fn add(&mut self, other: &Way) {
        self.all.add(&other.all);
        self.tcp.add(&other.tcp);
        self.udp.add(&other.udp);
        self.http.add(&other.http);
        self.saved += other.saved;
        let sum = |to: &mut [u64], from: &[u64]| to.iter_mut().zip(from).for_each(|(to, from)| *to += from);
        sum(&mut self.lengths, &other.lengths);
        sum(&mut self.intervals, &other.intervals);
        sum(&mut self.windows, &other.windows);
    }
}

/// Bins of intervals: each number below 8, then eight to an octave.
const BINS: usize = 64 * 8;

fn bin(interval: u64) -> usize {
    match interval.checked_ilog2() {
        None => 0,
        Some(octave @ 0..3) => ((1 << octave) | (interval as usize & ((1 << octave) - 1))).min(7),
        Some(octave) => (octave as usize - 2) * 8 + ((interval >> (octave - 3)) & 7) as usize,
    }
}

/// Largest interval of a bin.
fn bin_end(bin: usize) -> u64 {
    match bin {
        0..8 => bin as u64,
        _ => ((((bin as u128 & 7) + 9) << (bin / 8 - 1)) - 1) as u64,
    }
}

impl Replicated {
    /// A figure that may take `memory` bytes. At least 64 KiB are taken for payloads, and 0.5 MB for each direction that occurs.
    pub fn new(memory: u64) -> Replicated {
        Replicated {
            memory,
            most: 0,
            seen: HashMap::new(),
            level: 0,
            samplings: Vec::new(),
            directions: [const { None }; Direction::ALL.len()],
            services: HashMap::new(),
            unnamed: 0,
            truncated: 0,
            truncated_bytes: 0,
        }
    }

    /// Buckets for a map that says it has room for `capacity` entries: seven in eight may be used.
    fn buckets(capacity: usize) -> u64 {
        (capacity as u64).div_ceil(7) * 8
    }

    fn fixed(&self) -> u64 {
        let ways = self.directions.iter().flatten().count() as u64;
        ways * Way::BYTES + Replicated::buckets(self.services.capacity()) * 64
    }

    /// Notes a payload at `position` of its direction; returns the position of its last copy.
    fn note(&mut self, hash: u128, position: u64) -> Option<u64> {
        let key = [hash as u64, (hash >> 64) as u64];
        if !self.sampled(&key) {
            return None;
        }
        if let Some(last) = self.seen.get_mut(&key) {
            return Some(std::mem::replace(last, position));
        }
        let left = self.memory.saturating_sub(self.fixed()).max(64 << 10);
        if self.seen.len() == self.seen.capacity() {
            // To grow, the old table and one of twice its size are there at once.
            let growing = 3 * Replicated::buckets(self.seen.capacity().max(4)) * BUCKET;
            if growing > left {
                while self.seen.len() * 4 > self.seen.capacity() * 3 {
                    if self.level == MAX_LEVEL {
                        self.seen.clear();
                        break;
                    }
                    self.level += 1;
                    let level = self.level;
                    self.seen.retain(|key, _| key[0].trailing_zeros() >= level);
                }
                let volume = self.directions.iter().flatten().map(|way| way.all.volume).sum();
                self.samplings.push((self.level, volume));
                if !self.sampled(&key) {
                    return None;
                }
            } else {
                self.most = self.most.max(growing + self.fixed());
            }
        }
        self.seen.insert(key, position);
        None
    }

    /// Equal payloads are sampled together, and those that a later sampling takes were taken by the earlier ones.
    fn sampled(&self, key: &[u64; 2]) -> bool {
        key[0].trailing_zeros() >= self.level
    }

    fn rows(&self, ways: &[(&'static str, &Way)]) -> Vec<Vec<Cell>> {
        let mut rows = Vec::new();
        let mut row = |direction: &str, kind: String, tally: &Tally| {
            if tally.packets > 0 || kind == "all" {
                rows.push(vec![
                    direction.into(),
                    kind.into(),
                    tally.packets.into(),
                    tally.volume.into(),
                    tally.replicated_packets.min(tally.packets).into(),
                    tally.replicated.min(tally.volume).into(),
                    tally.share().into(),
                ]);
            }
        };
        for &(name, way) in ways {
            row(name, "all".into(), &way.all);
            row(name, "TCP".into(), &way.tcp);
            row(name, "UDP".into(), &way.udp);
            row(name, "HTTP, by port".into(), &way.http);
            let mut services: HashMap<(u8, u16), Tally> = HashMap::new();
            for ((direction, protocol, port), tally) in &self.services {
                if direction.name() == name || name == "total" {
                    services.entry((*protocol, *port)).or_default().add(tally);
                }
            }
            let mut services: Vec<_> = services.into_iter().collect();
            services.sort_unstable_by_key(|&(service, tally)| (std::cmp::Reverse(tally.volume), service));
            for ((protocol, port), tally) in services.into_iter().take(TOP) {
                row(name, format!("{} {port}", if protocol == 6 { "TCP" } else { "UDP" }), &tally);
            }
        }
        rows
    }
}

impl Observer for Replicated {
    fn batch(&mut self, view: &View<'_>) {
        for (i, packet) in view.batch.packets().iter().enumerate() {
            let Some(flow) = packet.flow else { continue };
            if packet.missing > 0 {
                self.truncated += 1;
                self.truncated_bytes += u64::from(packet.len) + u64::from(packet.missing);
                continue;
            }
            if packet.len == 0 {
                continue;
            }
            let payload = view.batch.payload(packet);
            let index = packet.direction.index();
            let position = self.directions[index].get_or_insert_with(Way::new).all.volume;
            // The direction is part of the payload's name.
            let last = self.note(xxh3_128_with_seed(payload, index as u64), position);
            let weight = 1u64 << self.level;
            let len = payload.len() as u64;
            let replicated = if last.is_some() { (weight, weight * len) } else { (0, 0) };
            let tally = Tally { packets: 1, volume: len, replicated_packets: replicated.0, replicated: replicated.1 };

            let way = self.directions[index].as_mut().expect("made above");
            way.all.add(&tally);
            way.saved += u64::from(view.saved(i));
            let tcp = flow.protocol == 6;
            if tcp { &mut way.tcp } else { &mut way.udp }.add(&tally);
            if tcp && HTTP.contains(&packet.service) {
                way.http.add(&tally);
            } else {
                let full = self.services.len() >= MAX_SERVICES;
                match self.services.entry((packet.direction, flow.protocol, packet.service)) {
                    std::collections::hash_map::Entry::Occupied(mut entry) => entry.get_mut().add(&tally),
                    std::collections::hash_map::Entry::Vacant(_) if full => self.unnamed += 1,
                    std::collections::hash_map::Entry::Vacant(entry) => drop(entry.insert(tally)),
                }
            }
            if let Some(last) = last {
                let interval = position - last;
                way.lengths[payload.len().min(LENGTHS - 1)] += replicated.1;
                way.intervals[bin(interval)] += replicated.1;
                for (volume, window) in way.windows.iter_mut().zip(WINDOWS) {
                    *volume += if interval <= window { replicated.1 } else { 0 };
                }
            }
        }
        self.most = self.most.max(self.fixed() + Replicated::buckets(self.seen.capacity()) * BUCKET);
    }

    fn finish(self: Box<Self>) -> Figure {
        let mut ways: Vec<(&'static str, &Way)> =
            Direction::ALL.iter().filter_map(|way| Some((way.name(), &**self.directions[way.index()].as_ref()?))).collect();
        let mut total = Way::new();
        ways.iter().for_each(|(_, way)| total.add(way));
        let several = ways.len() > 1;
        if ways.len() != 1 {
            ways.push(("total", &total));
        }

        let text = |name: &str| Column::new(name, Unit::Text);
        let volumes = Table {
            id: "volume",
            caption: "Payload volume and the part of it that is replicated (Table 1)".into(),
            columns: vec![
                text("direction"),
                text("traffic"),
                Column::new("packets", Unit::Count),
                Column::new("volume", Unit::Bytes),
                Column::new("replicated packets", Unit::Count),
                Column::new("replicated", Unit::Bytes),
                Column::new("share", Unit::Share),
            ],
            rows: self.rows(&ways),
        };
        let windows = Table {
            id: "windows",
            caption: "Share of the volume that is replicated and whose previous copy lies within a window".into(),
            columns: std::iter::once(text("direction"))
                .chain(WINDOWS.map(|window| {
                    let window = if window < 1_000_000_000 {
                        format!("{} MB", window / 1_000_000)
                    } else {
                        format!("{} GB", window / 1_000_000_000)
                    };
                    Column::new(window, Unit::Share)
                }))
                .chain([Column::new("unlimited", Unit::Share)])
                .collect(),
            rows: ways
                .iter()
                .map(|(name, way)| {
                    let share =
                        |bytes: u64| Cell::from((way.all.volume > 0).then(|| (bytes as f64 / way.all.volume as f64).min(1.0)));
                    let mut row = vec![Cell::from(*name)];
                    row.extend(way.windows.map(share));
                    row.push(way.all.share().into());
                    row
                })
                .collect(),
        };
        let shown: Vec<_> = ways.iter().filter(|(_, way)| way.all.replicated > 0).collect();
        let lengths = Chart {
            id: "lengths",
            caption: "Replicated volume by payload length (Fig. 1)".into(),
            kind: ChartKind::Step,
            x: Axis::new("payload length", Unit::Bytes),
            y: Axis::new("replicated volume in payloads of at most that length", Unit::Share),
            right: None,
            series: shown
                .iter()
                .map(|(name, way)| {
                    Series::new(
                        *name,
                        thin(cumulate(
                            way.lengths.iter().enumerate().map(|(len, &bytes)| (len as f64, bytes)),
                            way.all.replicated,
                        )),
                    )
                })
                .collect(),
        };
        let intervals = Chart {
            id: "intervals",
            caption: "Traffic that is replicated and found within a window (Fig. 2)".into(),
            kind: ChartKind::Line,
            x: Axis::log("window", Unit::Bytes),
            y: Axis::new("replicated share of the volume", Unit::Share),
            right: None,
            series: shown
                .iter()
                .map(|(name, way)| {
                    let bins = way.intervals.iter().enumerate().map(|(bin, &bytes)| (bin_end(bin) as f64, bytes));
                    Series::new(*name, cumulate(bins, way.all.volume))
                })
                .collect(),
        };

        let mut notes = vec![
            "Payloads are compared by a 128-bit hash (XXH3, fixed seeds). Two different payloads of ordinary traffic collide with a \
             probability of about n^2 / 2^129 for n payloads, which is negligible; the hash is not cryptographic, so a trace could be \
             made to collide on purpose."
                .to_owned(),
            "Retransmitted segments are replicated packets too, as in the paper; the paper's prototype (section 3.4) takes payloads of at least \
             500 bytes only, its analysis and this figure all."
                .to_owned(),
        ];
        if self.truncated > 0 {
            notes.push(format!(
                "{} packets ({} bytes of payload) were not captured whole: whether their payload repeats is not known, and they are in no number here.",
                self.truncated, self.truncated_bytes
            ));
        }
        if !self.samplings.is_empty() {
            let steps: Vec<_> =
                self.samplings.iter().map(|(level, volume)| format!("one in {} after {volume} bytes", 1u64 << level)).collect();
            notes.push(format!(
                "The payloads did not fit into {} bytes: they were sampled by their hash ({}), all copies of a payload or none. Volumes are exact; \
                 replicated volumes are unbiased estimates, each sampled packet counting for as many as the rate says.",
                self.memory,
                steps.join(", ")
            ));
        }
        if self.unnamed > 0 {
            notes.push(format!(
                "{} packets belong to services beyond the first {MAX_SERVICES}: they are in the sums only.",
                self.unnamed
            ));
        }

        Figure {
            number: 11,
            id: "replicated",
            title: "Replicated packets",
            source: "Santos and Wetherall (USENIX ATC 1998), section 2, Table 1, Figs. 1 and 2",
            definition: format!(
                "A packet is replicated when its payload (all bytes above TCP or UDP) is exactly that of an earlier packet in its direction, \
                 however long ago. Volumes are payload bytes; packets without payload do not count. HTTP is TCP with the service port {}; \
                 other services are the {TOP} of most volume. The interval of a replicated packet is the payload volume of its direction \
                 from the beginning of the previous copy to its own beginning: a window of that many bytes finds it.",
                HTTP.map(|port| port.to_string()).join(", ")
            ),
            finding: finding(&total, several, &ways),
            tables: vec![volumes, windows],
            charts: vec![lengths, intervals],
            notes,
            memory: self.most,
        }
    }
}

fn finding(total: &Way, several: bool, ways: &[(&str, &Way)]) -> String {
    let Some(share) = total.all.share() else { return "The trace has no whole payloads to compare.".into() };
    let percent = |share: f64| format!("{:.1} %", share * 100.0);
    let mut text = format!("{} of the payload volume is in packets whose whole payload was seen before", percent(share));
    if several {
        let each: Vec<_> = ways
            .iter()
            .filter(|(name, _)| *name != "total")
            .filter_map(|(name, way)| Some(format!("{} {name}", percent(way.all.share()?))))
            .collect();
        text += &format!(" ({})", each.join(", "));
    }
    let matched = (total.saved as f64 / total.all.volume as f64).min(1.0);
    text += &format!("; finding parts of packets too, the reference algorithm saves {} of the same volume.", percent(matched));
    if total.all.replicated > 0 {
        let large: u64 = total.lengths[LARGE + 1..].iter().sum();
        text += &format!(
            " {} of the replicated volume is in payloads of more than {LARGE} bytes (97 % in 1998)",
            percent(large as f64 / total.all.replicated as f64)
        );
        let mut sum = 0;
        let most = total.intervals.iter().position(|&bytes| {
            sum += bytes;
            sum as f64 >= 0.9 * total.all.replicated as f64
        });
        if let Some(most) = most {
            text += &format!(", and 90 % of it repeats a payload at most {:.1} MB back.", bin_end(most) as f64 / 1e6);
        }
    }
    text
}

/// The points of a distribution, as shares of `total`: where it grows.
fn cumulate(bins: impl Iterator<Item = (f64, u64)>, total: u64) -> Vec<(f64, f64)> {
    let mut sum = 0u64;
    bins.filter(|&(_, bytes)| bytes > 0)
        .map(|(x, bytes)| {
            sum += bytes;
            (x, (sum as f64 / total as f64).min(1.0))
        })
        .collect()
}

/// At most two thousand and some of the points, the last one among them.
fn thin(points: Vec<(f64, f64)>) -> Vec<(f64, f64)> {
    let step = points.len().div_ceil(2000).max(1);
    let last = points.len().saturating_sub(1);
    points.into_iter().enumerate().filter(|(i, _)| i % step == 0 || *i == last).map(|(_, point)| point).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::batch::testing::{Made, noise, observe};
    use proptest::prelude::*;

    fn cell(figure: &Figure, table: usize, key: &[&str], column: usize) -> Cell {
        let row = figure.tables[table]
            .rows
            .iter()
            .find(|row| row.iter().zip(key).all(|(cell, key)| *cell == Cell::from(*key)))
            .unwrap_or_else(|| panic!("no row {key:?}"));
        row[column].clone()
    }

    #[test]
    fn shares_lengths_and_intervals_of_a_known_trace() {
        let web = Made::tcp("10.0.0.1:80", "10.0.0.2:2000").direction(Direction::Outbound);
        let dns = Made::udp("10.0.0.9:4000", "10.0.0.8:53").direction(Direction::Inbound);
        let packets = [
            web.clone().payload(&noise(1, 1000)),
            web.clone().payload(&noise(2, 400)),
            web.clone(),
            // The same payload the other way is new there.
            dns.clone().payload(&noise(1, 1000)),
            web.clone().payload(&noise(1, 1000)),
            web.clone().payload(&noise(1, 1000)),
            // Part of a payload is not replicated.
            web.clone().payload(&noise(1, 1000)[..600]),
            web.clone().payload(&noise(2, 400)),
            dns.clone().payload(&noise(3, 100)),
            dns.payload(&noise(3, 100)),
        ];
        let mut truncated = web.payload(&noise(1, 1000));
        truncated.packet.missing = 5;
        let packets: Vec<_> = packets.into_iter().chain([truncated]).collect();
        for per_batch in [1, 3, 20] {
            let figure = observe(Box::new(Replicated::new(1 << 30)), &packets, 1 << 20, per_batch);
            let volume = |key: &[&str], column| cell(&figure, 0, key, column);
            assert_eq!(volume(&["outbound", "all"], 2), Cell::Count(6));
            assert_eq!(volume(&["outbound", "all"], 3), Cell::Count(4400));
            assert_eq!(volume(&["outbound", "HTTP, by port"], 5), Cell::Count(2400));
            assert_eq!(volume(&["outbound", "all"], 6), Cell::Number(2400.0 / 4400.0));
            assert_eq!(volume(&["inbound", "UDP 53"], 5), Cell::Count(100));
            assert_eq!(volume(&["total", "all"], 4), Cell::Count(4));
            assert_eq!(cell(&figure, 1, &["outbound"], 1), Cell::Number(2400.0 / 4400.0));
            let outbound = &figure.charts[0].series[0];
            assert_eq!(
                (outbound.name.as_str(), &outbound.points[..]),
                ("outbound", &[(400.0, 400.0 / 2400.0), (1000.0, 1.0)][..])
            );
            // Intervals 1400, 1000 and 3000, in bins of an eighth of an octave.
            let points: Vec<_> =
                figure.charts[1].series[0].points.iter().map(|&(x, y)| (x as u64, (y * 4400.0).round() as u64)).collect();
            assert_eq!(points, [(1023, 1000), (1407, 2000), (3071, 2400)]);
            assert!(figure.notes.iter().any(|note| note.starts_with("1 packets (1005 bytes")), "{:?}", figure.notes);
            assert!(figure.finding.starts_with("44.6 % of"), "{}", figure.finding);
        }
    }

    #[test]
    fn an_empty_trace_has_no_shares() {
        let figure = observe(Box::new(Replicated::new(1 << 20)), &[Made::tcp("10.0.0.1:80", "10.0.0.2:2000")], 1 << 20, 1);
        assert_eq!(cell(&figure, 0, &["total", "all"], 6), Cell::None);
        assert!(figure.charts.iter().all(|chart| chart.series.is_empty()));
    }

    #[test]
    fn beyond_its_memory_it_samples_and_stays_right() {
        let base = Made::udp("10.0.0.1:1", "10.0.0.2:2");
        // Each payload twice: half of the volume is replicated.
        let packets: Vec<_> = (0..20_000u64).map(|i| base.clone().payload(&noise(i / 2, 20))).collect();
        let budget = Way::BYTES + (100 << 10);
        let figure = observe(Box::new(Replicated::new(budget)), &packets, 1 << 20, 1000);
        assert!(figure.memory <= budget, "{} > {budget}", figure.memory);
        let Cell::Number(share) = cell(&figure, 0, &["all", "all"], 6) else { panic!() };
        assert!((share - 0.5).abs() < 0.1, "{share}");
        assert!(figure.notes.iter().any(|note| note.contains("sampled by their hash")));
    }

    proptest! {
        #[test]
        fn bins_cover_every_interval_in_order(interval in prop_oneof![0..5000u64, any::<u64>()]) {
            prop_assert!(interval <= bin_end(bin(interval)));
            prop_assert!(bin(interval) == 0 || interval > bin_end(bin(interval) - 1));
            prop_assert!(bin(interval) < BINS);
        }
    }
}
