//! Figure 12: caches at end hosts against one in the middle (EndRE sections 8.2 and 9.1).

use crate::algorithm::{MaxMatchRun, PairLimits, PairRun, Run, Tally, service_limit};
use crate::batch::{Direction, Observer, Packet, View};
use crate::results::{Axis, Cell, Chart, ChartKind, Column, Figure, Series, Table, Unit};
use crate::study::Settings;
use oncewire_codec::ConfigError;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, HashSet};
use std::net::IpAddr;
use xxhash_rust::xxh3::Xxh3;

/// Nanoseconds after which an idle pair's cache is on disk (EndRE section 8.2.2: ten hours).
const PAGED_OUT: i64 = 10 * 3600 * 1_000_000_000;
/// Nanoseconds without a packet of the flow that end an object (EndRE section 9.1: one second).
const OBJECT_GAP: i64 = 1_000_000_000;
/// Bytes that a chunk's name costs: a SHA-1, as in DOT.
const CHUNK_NAME: u64 = 20;

/// End hosts against a middlebox.
pub struct Hosts {
    pairs: PairRun,
    shared: MaxMatchRun,
    shared_cache: u64,
    sizes: Sizes,
    objects: Objects,
    wire: [u64; Direction::ALL.len()],
    extra: [[u64; 2]; Direction::ALL.len()],
    /// What went wrong, if something did: the figure ends there.
    error: Option<ConfigError>,
    scratch: Vec<oncewire_codec::matcher::Match>,
}

impl Hosts {
    /// With the study's window, period, charges and limits.
    pub fn new(settings: &Settings) -> Hosts {
        let shared = settings.shared_params();
        Hosts {
            pairs: settings.pairs(PairLimits::ByService),
            shared_cache: shared.sizes.asked(),
            shared: MaxMatchRun::new(shared, Tally::default()),
            sizes: Sizes::new(settings.figure_memory / 2),
            objects: Objects::new(settings.figure_memory / 2),
            wire: [0; Direction::ALL.len()],
            extra: [[0; 2]; Direction::ALL.len()],
            error: None,
            scratch: Vec::new(),
        }
    }

    fn packet(&mut self, view: &View<'_>, packet: &Packet) -> Result<(), ConfigError> {
        let payload = view.batch.payload(packet);
        let by_pair = self.pairs.packet(packet, payload)?;
        let mut by_all = 0;
        if let Some(cache) = view.caches.get(packet.direction) {
            self.scratch.clear();
            by_all = self.shared.find(packet, payload, cache, &mut self.scratch)?;
        }
        self.sizes.packet(packet);
        let extra = &mut self.extra;
        let gain = |direction: Direction, gains: [u64; 2]| {
            for (sum, gain) in extra[direction.index()].iter_mut().zip(gains) {
                *sum += gain;
            }
        };
        self.objects.packet(packet, payload, [by_pair, by_all], self.shared_cache, gain);
        Ok(())
    }
}

impl Observer for Hosts {
    fn batch(&mut self, view: &View<'_>) {
        for packet in view.batch.packets() {
            self.wire[packet.direction.index()] += u64::from(packet.wire);
            if packet.len > 0
                && self.error.is_none()
                && let Err(error) = self.packet(view, packet)
            {
                self.error = Some(error);
            }
        }
    }

    fn finish(mut self: Box<Self>) -> Figure {
        let extra = &mut self.extra;
        self.objects.close_until(i64::MAX, self.shared_cache, &mut |direction: Direction, gains: [u64; 2]| {
            for (sum, gain) in extra[direction.index()].iter_mut().zip(gains) {
                *sum += gain;
            }
        });
        let directions: Vec<Direction> =
            Direction::ALL.into_iter().filter(|direction| self.wire[direction.index()] > 0).collect();
        let share = |part: u64, whole: u64| Cell::from((whole > 0).then(|| part as f64 / whole as f64));
        let row = |name: &str, wire: u64, pairs: u64, shared: u64, extra: [u64; 2]| -> Vec<Cell> {
            vec![
                name.into(),
                share(pairs, wire),
                share(pairs + extra[0], wire),
                share(shared, wire),
                share(shared + extra[1], wire),
                share(pairs, shared),
            ]
        };
        let sum = |part: usize| self.extra.iter().map(|extra| extra[part]).sum::<u64>();
        let (pairs, shared, wire) = (self.pairs.tally().total(), self.shared.tally().total(), self.wire.iter().sum::<u64>());
        let mut rows = vec![row("total", wire, pairs, shared, [sum(0), sum(1)])];
        if directions.len() > 1 {
            rows.extend(directions.iter().map(|&direction| {
                let (pairs, shared) = (self.pairs.tally().of(direction), self.shared.tally().of(direction));
                row(direction.name(), self.wire[direction.index()], pairs, shared, self.extra[direction.index()])
            }));
        }
        let (memory_rows, series) = self.sizes.distribution();
        let finding = if wire == 0 || shared == 0 {
            String::new()
        } else {
            format!(
                "Caches at the hosts get {:.0} % of what one shared cache in the middle gets: {:.1} against {:.1} % of all bytes.",
                pairs as f64 / shared as f64 * 100.0,
                pairs as f64 / wire as f64 * 100.0,
                shared as f64 / wire as f64 * 100.0
            )
        };
        let mut notes = self.pairs.notes();
        notes.extend(self.sizes.notes());
        notes.extend(self.objects.notes());
        if let Some(error) = &self.error {
            notes.push(format!("The figure ends early: {error}."));
        }
        Figure {
            number: 12,
            id: "hosts",
            title: "End hosts against a middlebox",
            source: "EndRE sections 8.2 and 9.1, Table 4, Figs. 8 to 10",
            definition: format!(
                "Max-match with SAMPLEBYTE. Hosts: a cache for each ordered pair of addresses, of 10 MB once HTTP (ports 80, 3128, 8000, 8001, \
                 8080) runs between the two, 4 MB with SMB or NetBIOS (445, 139), else 1 MB; 4 bytes a match. Middlebox: one cache of {:.0} MB in \
                 each direction, with the shim. + objects: consecutive packets of a flow less than 1 s apart are an object, cut into chunks by \
                 content (2 KiB and more, 6 KiB on average, 16 KiB at most: DOT); of a chunk that was seen before, what is not saved \
                 already counts as saved but for a name of {CHUNK_NAME} bytes; for the \
                 hosts only if the earlier one passed between other hosts, for the middlebox only if it is older than the cache. Savings over \
                 all bytes on the wire. Memory of a node: the sum over its pairs of the smaller of limit and bytes seen, at its maximum; a \
                 pair idle for 10 h is on disk. A server is a node that sends from a service's port.",
                self.shared_cache as f64 / 1e6
            ),
            finding,
            tables: vec![
                Table {
                    id: "savings",
                    caption: "Savings of caches at the hosts and in the middle".into(),
                    columns: vec![
                        Column::new("direction", Unit::Text),
                        Column::new("hosts", Unit::Share),
                        Column::new("hosts + objects", Unit::Share),
                        Column::new("middlebox", Unit::Share),
                        Column::new("middlebox + objects", Unit::Share),
                        Column::new("hosts / middlebox", Unit::Share),
                    ],
                    rows,
                },
                Table {
                    id: "memory",
                    caption: "Largest memory that a node needs for its caches".into(),
                    columns: vec![
                        Column::new("nodes", Unit::Text),
                        Column::new("number", Unit::Count),
                        Column::new("median", Unit::Bytes),
                        Column::new("90 %", Unit::Bytes),
                        Column::new("99 %", Unit::Bytes),
                        Column::new("largest", Unit::Bytes),
                    ],
                    rows: memory_rows,
                },
            ],
            charts: vec![Chart {
                id: "memory",
                caption: "Nodes that need at most so much memory".into(),
                kind: ChartKind::Step,
                x: Axis::log("memory for caches at a node", Unit::Bytes),
                y: Axis::new("share of nodes", Unit::Share),
                right: None,
                series,
            }],
            notes,
            memory: self.pairs.memory() + self.shared.memory() + self.sizes.memory() + self.objects.memory(),
        }
    }
}

/// How much memory the caches would take at each node over time. Sizes only, no content.
struct Sizes {
    pairs: HashMap<(IpAddr, IpAddr), PairSize>,
    nodes: HashMap<IpAddr, NodeSize>,
    servers: HashSet<IpAddr>,
    /// Pairs in memory, by a time at which each was known to be in use; looked at again when it would be paged out.
    active: BinaryHeap<Reverse<(i64, (IpAddr, IpAddr))>>,
    now: i64,
    max_pairs: usize,
    left_out: u64,
}

#[derive(Default)]
struct PairSize {
    seen: u64,
    limit: u64,
    last: i64,
    /// Bytes that count at both ends now; 0 while on disk.
    counted: u64,
    active: bool,
}

#[derive(Default)]
struct NodeSize {
    now: u64,
    most: u64,
}

/// Memory of a pair with its share of nodes, map overhead included.
const PAIR_BYTES: u64 = 300;

impl Sizes {
    fn new(memory: u64) -> Sizes {
        Sizes {
            pairs: HashMap::new(),
            nodes: HashMap::new(),
            servers: HashSet::new(),
            active: BinaryHeap::new(),
            now: i64::MIN,
            max_pairs: (memory / PAIR_BYTES).max(1) as usize,
            left_out: 0,
        }
    }

    fn packet(&mut self, packet: &Packet) {
        let Some(flow) = &packet.flow else { return };
        self.now = self.now.max(packet.time);
        self.page_out();
        let key = (flow.source, flow.destination);
        if self.pairs.len() >= self.max_pairs && !self.pairs.contains_key(&key) {
            self.left_out += 1;
            return;
        }
        if flow.source_port == packet.service {
            self.servers.insert(flow.source);
        }
        let pair = self.pairs.entry(key).or_default();
        pair.seen += u64::from(packet.len);
        pair.limit = pair.limit.max(service_limit(packet));
        pair.last = self.now;
        let counted = pair.seen.min(pair.limit);
        let more = counted - pair.counted;
        pair.counted = counted;
        if !pair.active {
            pair.active = true;
            self.active.push(Reverse((self.now, key)));
        }
        for node in [key.0, key.1] {
            let node = self.nodes.entry(node).or_default();
            node.now += more;
            node.most = node.most.max(node.now);
        }
    }

    fn page_out(&mut self) {
        while let Some(&Reverse((time, key))) = self.active.peek()
            && time.saturating_add(PAGED_OUT) <= self.now
        {
            self.active.pop();
            let pair = self.pairs.get_mut(&key).expect("active pairs are kept");
            if pair.last.saturating_add(PAGED_OUT) > self.now {
                self.active.push(Reverse((pair.last, key)));
                continue;
            }
            pair.active = false;
            let gone = std::mem::take(&mut pair.counted);
            for node in [key.0, key.1] {
                self.nodes.get_mut(&node).expect("both ends of a pair are nodes").now -= gone;
            }
        }
    }

    fn distribution(&self) -> (Vec<Vec<Cell>>, Vec<Series>) {
        let (mut rows, mut series) = (Vec::new(), Vec::new());
        for (name, servers) in [("clients", false), ("servers", true)] {
            let nodes = self.nodes.iter().filter(|(address, _)| self.servers.contains(address) == servers);
            let mut sizes: Vec<u64> = nodes.map(|(_, node)| node.most).collect();
            sizes.sort_unstable();
            let at = |quantile: f64| {
                let rank = (quantile * sizes.len() as f64).ceil() as usize;
                Cell::from(sizes.get(rank.max(1) - 1).copied())
            };
            rows.push(vec![name.into(), (sizes.len() as u64).into(), at(0.5), at(0.9), at(0.99), at(1.0)]);
            let step = sizes.len().div_ceil(1000).max(1);
            let points = sizes.iter().enumerate().filter(|(index, _)| (index + 1) % step == 0 || index + 1 == sizes.len());
            let points = points.map(|(index, &size)| (size.max(1) as f64, (index + 1) as f64 / sizes.len() as f64));
            series.push(Series::new(name, points.collect()));
        }
        (rows, series)
    }

    fn notes(&self) -> Vec<String> {
        if self.left_out == 0 {
            return Vec::new();
        }
        vec![format!(
            "Memory was simulated for the first {} pairs of hosts; {} packets of later ones are not in it.",
            self.max_pairs, self.left_out
        )]
    }

    fn memory(&self) -> u64 {
        self.pairs.len() as u64 * PAIR_BYTES
    }
}

/// Objects as DOT would see them.
struct Objects {
    open: HashMap<u64, Object>,
    /// Flows by a time at which each had a packet; looked at again when the object would end.
    active: BinaryHeap<Reverse<(i64, u64)>>,
    known: HashMap<u128, Known>,
    now: i64,
    volume: u64,
    max_open: usize,
    max_known: usize,
    left_out: u64,
}

/// An object that goes on, and its chunk in work.
struct Object {
    hash: Box<Xxh3>,
    /// Hash of the last 64 bytes, which says where chunks end.
    roll: u64,
    direction: Direction,
    hosts: (IpAddr, IpAddr),
    /// Bytes of the chunk.
    bytes: u64,
    /// Bytes of the chunk that are saved already by the caches at the hosts, and by the one in the middle: of each packet's savings the share
    /// that the chunk has of its bytes.
    saved: [f64; 2],
    last: i64,
}

/// Chunks of objects, in bytes: they end where the content says so, one in [`CHUNK_MEAN`] places behind the first [`CHUNK_LEAST`] bytes.
const CHUNK_LEAST: u64 = 2 << 10;
const CHUNK_MEAN: u64 = 4 << 10;
const CHUNK_MOST: u64 = 16 << 10;

/// A random number for each byte value (SplitMix64).
const GEAR: [u64; 256] = {
    let mut gear = [0; 256];
    let (mut state, mut i) = (0u64, 0);
    while i < 256 {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        gear[i] = z ^ (z >> 31);
        i += 1;
    }
    gear
};

impl Object {
    /// Takes bytes up to the end of the chunk, or all. Whether the chunk ends.
    fn take<'a>(&mut self, bytes: &'a [u8]) -> (&'a [u8], &'a [u8], bool) {
        for (i, &byte) in bytes.iter().enumerate() {
            self.roll = (self.roll << 1).wrapping_add(GEAR[usize::from(byte)]);
            self.bytes += 1;
            let here = self.bytes >= CHUNK_LEAST && (self.roll >> 32).is_multiple_of(CHUNK_MEAN);
            if here || self.bytes >= CHUNK_MOST {
                return (&bytes[..i + 1], &bytes[i + 1..], true);
            }
        }
        (bytes, &[], false)
    }
}

#[derive(Clone, Copy)]
struct Known {
    hosts: (IpAddr, IpAddr),
    /// Whether it passed between several pairs of hosts.
    several: bool,
    /// Payload volume when it last ended.
    at: u64,
}

/// Memory of an open object and of a known one, map overhead included.
const OPEN_BYTES: u64 = 800;
const KNOWN_BYTES: u64 = 120;

impl Objects {
    fn new(memory: u64) -> Objects {
        Objects {
            open: HashMap::new(),
            active: BinaryHeap::new(),
            known: HashMap::new(),
            now: i64::MIN,
            volume: 0,
            max_open: (memory / 4 / OPEN_BYTES).max(1) as usize,
            max_known: (memory / 4 * 3 / KNOWN_BYTES).max(1) as usize,
            left_out: 0,
        }
    }

    fn packet(
        &mut self,
        packet: &Packet,
        payload: &[u8],
        saved: [u32; 2],
        cache: u64,
        mut gain: impl FnMut(Direction, [u64; 2]),
    ) {
        let Some(flow) = &packet.flow else { return };
        self.now = self.now.max(packet.time);
        self.volume += payload.len() as u64;
        self.close_until(self.now.saturating_sub(OBJECT_GAP), cache, &mut gain);
        let Objects { open, active, known, now, volume, max_open, max_known, left_out } = self;
        let many = open.len();
        let object = match open.entry(packet.flow_hash) {
            std::collections::hash_map::Entry::Occupied(entry) => entry.into_mut(),
            std::collections::hash_map::Entry::Vacant(entry) => {
                if many >= *max_open {
                    *left_out += 1;
                    return;
                }
                active.push(Reverse((*now, packet.flow_hash)));
                entry.insert(Object {
                    hash: Box::new(Xxh3::new()),
                    roll: 0,
                    direction: packet.direction,
                    hosts: flow.pair(),
                    bytes: 0,
                    saved: [0.0; 2],
                    last: *now,
                })
            }
        };
        object.last = *now;
        let shares = saved.map(|saved| f64::from(saved) / payload.len().max(1) as f64);
        let mut rest = payload;
        while !rest.is_empty() {
            let (taken, after, ends) = object.take(rest);
            object.hash.update(taken);
            for (sum, share) in object.saved.iter_mut().zip(shares) {
                *sum += share * taken.len() as f64;
            }
            rest = after;
            if ends && !end_chunk(known, *max_known, *volume, object, cache, &mut gain) {
                *left_out += 1;
            }
        }
    }

    /// Ends the objects whose last packet came at or before `time`.
    fn close_until(&mut self, time: i64, cache: u64, gain: &mut impl FnMut(Direction, [u64; 2])) {
        while let Some(&Reverse((seen, flow))) = self.active.peek()
            && seen <= time
        {
            self.active.pop();
            let last = self.open.get(&flow).expect("active objects are open").last;
            if last > time {
                self.active.push(Reverse((last, flow)));
                continue;
            }
            let mut object = self.open.remove(&flow).expect("it was there a line ago");
            if object.bytes > 0 && !end_chunk(&mut self.known, self.max_known, self.volume, &mut object, cache, gain) {
                self.left_out += 1;
            }
        }
    }

    fn notes(&self) -> Vec<String> {
        if self.left_out == 0 {
            return Vec::new();
        }
        vec![format!(
            "There was no room for {} packets or objects of the object analysis: its gains may be larger.",
            self.left_out
        )]
    }

    fn memory(&self) -> u64 {
        self.known.len() as u64 * KNOWN_BYTES + self.open.len() as u64 * OPEN_BYTES
    }
}

/// Counts the chunk of an object if it is known, notes it, and begins the next. `false` if there was no room to note it.
fn end_chunk(
    known: &mut HashMap<u128, Known>,
    max_known: usize,
    volume: u64,
    object: &mut Object,
    cache: u64,
    gain: &mut impl FnMut(Direction, [u64; 2]),
) -> bool {
    let name = object.hash.digest128();
    let (bytes, saved) = (object.bytes, object.saved);
    (object.bytes, object.saved) = (0, [0.0; 2]);
    object.hash.reset();
    let rest = |saved: f64| (bytes as f64 - saved).max(0.0) as u64;
    let rest = saved.map(|saved| rest(saved).saturating_sub(CHUNK_NAME));
    let room = known.len() < max_known;
    match known.get_mut(&name) {
        Some(known) => {
            let elsewhere = known.several || known.hosts != object.hosts;
            let old = volume - known.at > cache;
            gain(object.direction, [if elsewhere { rest[0] } else { 0 }, if old { rest[1] } else { 0 }]);
            known.several = elsewhere;
            known.at = volume;
        }
        None if room => {
            known.insert(name, Known { hosts: object.hosts, several: false, at: volume });
        }
        None => return false,
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Survey;
    use crate::batch::testing::{Made, noise, observe};

    fn number(figure: &Figure, table: usize, row: usize, column: usize) -> f64 {
        match figure.tables[table].rows[row][column] {
            Cell::Number(number) => number,
            Cell::Count(count) => count as f64,
            ref other => panic!("no number: {other:?}"),
        }
    }

    fn hosts() -> Box<Hosts> {
        Box::new(Hosts::new(&Settings { period: 4, survey: Some(Survey::all(1 << 20)), ..Settings::default() }))
    }

    #[test]
    fn hosts_do_not_share_and_a_middlebox_does() {
        // The same 1,000 bytes from a server to two clients, and to the first one again.
        let content = noise(1, 1000);
        let to = |client: &str| Made::tcp("10.0.0.1:80", client).payload(&content);
        let packets = [to("10.0.1.1:5000").at(1.0), to("10.0.1.2:5000").at(5.0), to("10.0.1.1:5001").at(9.0)];
        let figure = observe(hosts(), &packets, 1 << 20, 2);
        let wire = 3.0 * 1054.0;
        assert_eq!(number(&figure, 0, 0, 1), 996.0 / wire);
        // The second is an object known from another pair: all but a name.
        assert_eq!(number(&figure, 0, 0, 2), (996.0 + 980.0) / wire);
        assert_eq!(number(&figure, 0, 0, 3), 2.0 * (996.0 - 12.0) / wire);
        assert_eq!(number(&figure, 0, 0, 4), number(&figure, 0, 0, 3));
        // One server with 3,000 bytes, of which it holds what it sent; clients with 2,000 and 1,000.
        assert_eq!(figure.tables[1].rows[0][1], Cell::Count(2));
        assert_eq!(number(&figure, 1, 0, 5), 2000.0);
        assert_eq!(number(&figure, 1, 1, 5), 3000.0);
    }

    #[test]
    fn a_known_object_behind_another_head_is_known_in_chunks() {
        let mut packets = Vec::new();
        for client in 0..2u8 {
            let content = [noise(1000 + u64::from(client), 300), noise(7, 60_000)].concat();
            let made = Made::tcp("10.0.0.1:80", &format!("10.0.1.{}:5000", client + 1));
            let pieces = content.chunks(1400).enumerate();
            packets.extend(pieces.map(|(i, piece)| made.clone().at(f64::from(client) * 10.0 + i as f64 * 0.01).payload(piece)));
        }
        let figure = observe(hosts(), &packets, 1 << 20, 50);
        // The hosts save nothing; as objects, all but the first chunk of the second copy, which has the head, and names.
        let wire: u64 = packets.iter().map(|made| u64::from(made.packet.wire)).sum();
        assert_eq!(number(&figure, 0, 0, 1), 0.0);
        let gain = number(&figure, 0, 0, 2) * wire as f64;
        assert!((60_000.0 - 17_000.0..60_000.0).contains(&gain), "{gain}");
    }

    #[test]
    fn an_idle_pair_is_on_disk_after_ten_hours() {
        let mut sizes = Sizes::new(1 << 20);
        let mut send = |client: &str, hours: f64, len: usize| {
            let made = Made::tcp("10.0.0.1:80", client).at(hours * 3600.0).payload(&vec![0; len]);
            let mut packet = made.packet;
            packet.len = len as u32;
            sizes.packet(&packet);
        };
        send("10.0.1.1:5000", 0.0, 1000);
        send("10.0.1.2:5000", 9.0, 1000);
        send("10.0.1.1:5000", 9.5, 100);
        send("10.0.1.3:5000", 19.2, 1500);
        // At 19.2 h the second (9.0) is on disk, the first (9.5) is not: 1,100 + 1,500; before there were 2,100.
        let server: IpAddr = "10.0.0.1".parse().unwrap();
        assert_eq!(sizes.nodes[&server].most, 2600);
        assert_eq!(sizes.nodes[&server].now, 2600);
    }

    #[test]
    fn a_pair_is_paged_out_on_time_though_others_came_later() {
        let mut sizes = Sizes::new(1 << 20);
        let mut send = |client: &str, hours: f64| {
            let mut packet = Made::tcp("10.0.0.1:80", client).at(hours * 3600.0).packet;
            packet.len = 1000;
            sizes.packet(&packet);
        };
        send("10.0.1.1:5000", 0.0);
        send("10.0.1.1:5000", 5.0);
        send("10.0.1.2:5000", 9.0);
        // Looks at the first at 10 h, which was last used at 5 h, before the second was.
        send("10.0.1.3:5000", 10.0);
        send("10.0.1.4:5000", 15.1);
        // The first is on disk.
        assert_eq!(sizes.nodes[&"10.0.0.1".parse::<IpAddr>().unwrap()].now, 3000);
    }

    #[test]
    fn a_gap_ends_an_object_though_other_flows_go_on() {
        // Of the first flow's packets the last comes 1.2 s after the others: an object of its own, which another host gets later.
        let sent = |client: &str, at: f64, seed| Made::tcp("10.0.0.1:80", client).at(at).payload(&noise(seed, 500));
        let (first, beside, other) = ("10.0.1.1:5000", "10.0.1.2:5000", "10.0.1.3:5000");
        let packets = [
            sent(first, 0.0, 1),
            sent(first, 0.5, 2),
            sent(beside, 0.99, 3),
            sent(beside, 1.0, 4),
            sent(first, 1.7, 5),
            sent(other, 10.0, 5),
        ];
        let figure = observe(hosts(), &packets, 1 << 20, 1);
        let gain = number(&figure, 0, 0, 2) - number(&figure, 0, 0, 1);
        assert!((gain * 6.0 * 554.0 - 480.0).abs() < 1e-6, "{gain}");
    }

    #[test]
    fn the_limit_is_the_services() {
        let mut sizes = Sizes::new(1 << 20);
        let mut send = |port: &str, len: u32| {
            let mut packet = Made::tcp(&format!("10.0.0.1:{port}"), "10.0.1.1:50000").packet;
            packet.len = len;
            for _ in 0..1000 {
                sizes.packet(&packet);
            }
            sizes.nodes[&"10.0.1.1".parse::<IpAddr>().unwrap()].most
        };
        assert_eq!(send("2222", 2000), 1_000_000);
        assert_eq!(send("445", 3000), 4_000_000);
        assert_eq!(send("80", 60_000), 10_000_000);
    }

    #[test]
    fn an_empty_trace_has_no_numbers() {
        let figure = observe(hosts(), &[], 1 << 20, 1);
        assert_eq!(figure.tables[0].rows[0][1], Cell::None);
    }
}
