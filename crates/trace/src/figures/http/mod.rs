//! Figure 6: what object compression, redundancy elimination and caching save of HTTP (thesis,
//! section 2.3, Table 2.5).

mod caching;
mod exchange;
mod gzip;
mod message;
mod present;

use super::tally::TOTAL;
use super::{Finding, Observer};
use crate::batch::{Direction, FlowKey, Packet, View};
use crate::lru::{LruCache, entry_bytes};
use crate::tcp::{self, Event, Limits, Reassembler};
pub use caching::Class;
use caching::{Outcome, Policy, Proxy, Request};
use exchange::{end_connection, event_of};
use gzip::{COMPRESSOR, Gzip, Gzips};
use message::Parser;
use std::collections::{HashMap, VecDeque};
use xxhash_rust::xxh3::Xxh3;

/// Length in nanoseconds of a window of literals that are compressed together (thesis, section 2.3:
/// 10 ms).
const WINDOW: i64 = 10_000_000;

/// Most requests of a connection that await their responses.
const MAX_PIPELINED: usize = 16;

/// Most content types counted separately, and the most bytes of a type's name.
const MAX_TYPES: usize = 2048;
const MAX_TYPE_NAME: usize = 48;

/// Content types in the table.
const TOP: usize = 15;

/// Measures savings of HTTP traffic by object compression, redundancy elimination, both, and a
/// caching proxy.
#[derive(Debug)]
pub struct Http {
    tcp: Reassembler,
    connections: LruCache<FlowKey, Connection>,
    max_connections: usize,
    most_connections: usize,
    evicted: u64,
    sums: Sums,
    windows: [Option<Box<Window>>; Direction::ALL.len()],
}

/// Both directions of a connection, by [`FlowKey::connection`].
#[derive(Debug)]
struct Connection {
    halves: [Half; 2],
    requests: VecDeque<Request>,
    /// Whether requests and responses are known to be in step.
    in_step: bool,
}

#[derive(Debug)]
struct Half {
    parser: Parser,
    role: Option<Role>,
    direction: Direction,
    object: Option<Box<Object>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Role {
    Requests,
    Responses,
}

impl Half {
    fn new(syn: bool) -> Half {
        Half { parser: Parser::new(syn), role: None, direction: Direction::All, object: None }
    }
}

impl Connection {
    /// Bytes charged for a connection, without the part of a head.
    const BYTES: usize = entry_bytes::<FlowKey, Connection>()
        + 2 * (size_of::<Object>() + 64)
        + 2 * MAX_PIPELINED * size_of::<Request>();

    fn new() -> Connection {
        Connection {
            halves: [Half::new(false), Half::new(false)],
            requests: VecDeque::new(),
            in_step: true,
        }
    }
}

struct Hasher(Xxh3);

impl std::fmt::Debug for Hasher {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Hasher")
    }
}

/// The body of a response in transit.
#[derive(Debug)]
struct Object {
    hash: Hasher,
    bytes: u64,
    whole: bool,
    /// Its content type, see [`Sums::types`].
    kind: usize,
    /// Whether its content is compressed already.
    coded: bool,
    request: Option<Request>,
    policy: Policy,
    outcome: Outcome,
}

/// Some HTTP objects.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ObjectSum {
    /// How many.
    pub objects: u64,
    /// Bytes of their bodies.
    pub bytes: u64,
}

impl ObjectSum {
    fn add(&mut self, bytes: u64) {
        self.objects += 1;
        self.bytes += bytes;
    }
}

/// Sums of a direction; its name is set at the end.
type Way = DirectionHttp;

impl Way {
    fn add(&mut self, other: &Way) {
        let sum = |to: &mut ObjectSum, from: &ObjectSum| {
            to.objects += from.objects;
            to.bytes += from.bytes;
        };
        self.packets += other.packets;
        self.payload += other.payload;
        self.gzip += other.gzip;
        self.matches += other.matches;
        self.matches_and_gzip += other.matches_and_gzip;
        sum(&mut self.bodies, &other.bodies);
        sum(&mut self.hits, &other.hits);
        sum(&mut self.stale, &other.stale);
        sum(&mut self.validated, &other.validated);
        sum(&mut self.not_compressed, &other.not_compressed);
        self.classes.iter_mut().zip(&other.classes).for_each(|(to, from)| sum(to, from));
    }
}

/// Sums of a content type.
#[derive(Clone, Debug, Default)]
struct Kind {
    bodies: ObjectSum,
    repeated: ObjectSum,
    gzip: u64,
}

#[derive(Debug)]
struct Sums {
    now: i64,
    gzips: Gzips,
    proxy: Proxy,
    /// Bodies seen, by hash.
    bodies: LruCache<u128, ()>,
    max_bodies: usize,
    most_bodies: usize,
    bodies_evicted: u64,
    names: HashMap<Box<[u8]>, usize>,
    types: Vec<Kind>,
    ways: [Way; Direction::ALL.len()],
    unmatched: u64,
    incomplete: ObjectSum,
    lost: u64,
    /// Bytes of heads held back.
    held: usize,
    max_held: usize,
    most_held: usize,
    forgotten: u64,
}

/// Literals of one direction within the window of 10 ms.
#[derive(Debug)]
struct Window {
    /// Time of its first packet.
    opened: i64,
    literals: u64,
    gzip: Gzip,
}

impl Http {
    /// Divides `memory` bytes: a quarter each for reassembly and compressors, an eighth each for
    /// connections, partial message heads, the simulated cache and the bodies seen. At least 5 MiB
    /// are taken.
    pub fn new(memory: u64) -> Http {
        let fixed = MAX_TYPES * (size_of::<Kind>() * 2 + 128) + Direction::ALL.len() * COMPRESSOR;
        let memory =
            usize::try_from(memory).unwrap_or(usize::MAX).saturating_sub(fixed).max(2 << 20);
        let entry = entry_bytes::<u128, ()>();
        Http {
            tcp: Reassembler::new(Limits::of_memory(memory as u64 / 4)),
            connections: LruCache::unbounded(),
            max_connections: (memory / 8 / Connection::BYTES).max(1),
            most_connections: 0,
            evicted: 0,
            sums: Sums {
                now: 0,
                gzips: Gzips::new(memory / 4 / COMPRESSOR),
                proxy: Proxy::new(memory / 8 / Proxy::ENTRY),
                bodies: LruCache::unbounded(),
                max_bodies: (memory / 8 / entry).max(1),
                most_bodies: 0,
                bodies_evicted: 0,
                names: HashMap::new(),
                types: Vec::new(),
                ways: Default::default(),
                unmatched: 0,
                incomplete: ObjectSum::default(),
                lost: 0,
                held: 0,
                // The head that is found to be too much is there already.
                max_held: memory / 8 - 2 * message::MAX_HEAD,
                most_held: 0,
                forgotten: 0,
            },
            windows: [const { None }; Direction::ALL.len()],
        }
    }

    fn memory(&self) -> u64 {
        let sums = &self.sums;
        self.tcp.memory()
            + (self.most_connections * Connection::BYTES) as u64
            + sums.most_held as u64
            + sums.gzips.memory()
            + sums.proxy.memory()
            + (sums.most_bodies * entry_bytes::<u128, ()>()) as u64
            + (sums.types.len() * (size_of::<Kind>() * 2 + 128)) as u64
            + (self.windows.iter().flatten().count() * COMPRESSOR) as u64
    }

    /// Feeds a packet to its stream; returns whether that is one of HTTP responses.
    fn stream(&mut self, packet: &Packet, payload: &[u8]) -> bool {
        let Some(current) = packet.flow else { return false };
        let Http { tcp, connections, max_connections, most_connections, evicted, sums, .. } = self;
        tcp.packet(packet, payload, &mut |flow, event| {
            let (key, side) = flow.connection();
            if connections.get_mut(&key).is_none() {
                if matches!(event, Event::End(_)) {
                    return;
                }
                while connections.len() >= *max_connections {
                    *evicted += 1;
                    if let Some((key, connection)) = connections.pop_lru() {
                        end_connection(&key, connection, sums);
                    }
                }
                connections.put(key, Connection::new());
                *most_connections = connections.len().max(*most_connections);
            }
            let connection = connections.peek_mut(&key).expect("present, or inserted above");
            if *flow == current {
                connection.halves[side].direction = packet.direction;
            }
            event_of(flow, connection, side, event, sums);
        });
        let (key, side) = current.connection();
        self.connections
            .peek(&key)
            .is_some_and(|connection| connection.halves[side].role == Some(Role::Responses))
    }

    /// Counts a packet of responses.
    fn count(&mut self, view: &View<'_>, index: usize) {
        let packet = &view.batch.packets()[index];
        let payload = view.batch.payload(packet);
        let at = packet.direction.index();
        let way = &mut self.sums.ways[at];
        way.packets += 1;
        way.payload += payload.len() as u64;
        let saved = view.saved(index);
        way.matches += u64::from(saved);
        // What matches save, then what compression saves of what they leave.
        way.matches_and_gzip += u64::from(saved);
        let opened = packet.time;
        let window = self.windows[at]
            .get_or_insert_with(|| Box::new(Window { opened, literals: 0, gzip: Gzip::new() }));
        if window.opened.abs_diff(packet.time) >= WINDOW.unsigned_abs() {
            way.matches_and_gzip += window.close();
            window.opened = opened;
        }
        let mut from = 0;
        if saved > 0 {
            for found in
                view.matches.of(index).iter().filter(|found| found.len > view.charge.per_match)
            {
                window.write(&payload[from..found.at as usize]);
                from = found.end();
            }
        }
        window.write(&payload[from..]);
    }
}

impl Window {
    fn write(&mut self, literals: &[u8]) {
        self.literals += literals.len() as u64;
        self.gzip.write(literals);
    }

    /// Bytes that compression saves of the window's literals.
    fn close(&mut self) -> u64 {
        let size = if self.literals > 0 { self.gzip.finish() } else { 0 };
        std::mem::take(&mut self.literals).saturating_sub(size)
    }
}

impl Observer for Http {
    fn batch(&mut self, view: &View<'_>) {
        for (index, packet) in view.batch.packets().iter().enumerate() {
            self.sums.now = packet.time;
            if self.stream(packet, view.batch.payload(packet)) && packet.len > 0 {
                self.count(view, index);
            }
        }
    }

    fn finish(self: Box<Self>) -> Finding {
        Finding::Http(self.compute())
    }
}

/// Figure 6: savings of HTTP response traffic.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct HttpSavings {
    /// The total over all directions.
    pub total: DirectionHttp,
    /// Each direction with HTTP responses.
    pub directions: Vec<DirectionHttp>,
    /// The content types with the most bytes, most first.
    pub types: Vec<ContentType>,
    /// Counters of TCP reassembly.
    pub tcp: tcp::Stats,
    /// Bodies not seen whole, with the bytes seen.
    pub incomplete: ObjectSum,
    /// Bytes known to be missing from these.
    pub lost: u64,
    /// Responses whose request was not seen.
    pub unmatched: u64,
    /// Connections ended early to stay within memory.
    pub evicted_connections: u64,
    /// Message heads dropped to stay within memory.
    pub forgotten_heads: u64,
    /// Responses evicted from the simulated cache to stay within memory.
    pub evicted_responses: u64,
    /// Bodies forgotten to stay within memory.
    pub evicted_bodies: u64,
    /// Memory of the figure's state in bytes.
    pub memory: u64,
}

/// HTTP responses of one direction.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DirectionHttp {
    /// The direction, or `total`.
    pub direction: &'static str,
    /// Packets of response streams with payload.
    pub packets: u64,
    /// Their payload in bytes.
    pub payload: u64,
    /// Bytes saved by compressing each object with gzip.
    pub gzip: u64,
    /// Bytes saved by the reference algorithm.
    pub matches: u64,
    /// Bytes saved by the reference algorithm and gzip after it.
    pub matches_and_gzip: u64,
    /// Bodies of responses.
    pub bodies: ObjectSum,
    /// Bodies that a caching proxy would have served.
    pub hits: ObjectSum,
    /// Hits whose stored body differs.
    pub stale: ObjectSum,
    /// Bodies that validation would have saved: the stored copy was no longer fresh, but a 304
    /// response would have done.
    pub validated: ObjectSum,
    /// Bodies that were not compressed to stay within memory.
    pub not_compressed: ObjectSum,
    /// Bodies by what a shared cache may do with them, see [`Class`].
    pub classes: [ObjectSum; Class::ALL.len()],
}

impl DirectionHttp {
    fn of(direction: &'static str, way: &Way) -> DirectionHttp {
        DirectionHttp { direction, ..way.clone() }
    }
}

/// Objects of one content type.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ContentType {
    /// The content type, in lower case, without parameters; bytes that are not printable ASCII are
    /// shown as `?`.
    pub name: String,
    /// Bodies.
    pub bodies: ObjectSum,
    /// Bodies that were seen before.
    pub repeated: ObjectSum,
    /// Bytes saved by compressing each object with gzip.
    pub gzip: u64,
}

impl Http {
    fn compute(mut self) -> HttpSavings {
        let Http { tcp, connections, sums, windows, .. } = &mut self;
        tcp.finish(&mut |flow, event| {
            let (key, side) = flow.connection();
            if let Some(connection) = connections.peek_mut(&key) {
                event_of(flow, connection, side, event, sums);
            }
        });
        while let Some((key, connection)) = connections.pop_lru() {
            end_connection(&key, connection, sums);
        }
        for (window, way) in windows.iter_mut().zip(&mut sums.ways) {
            way.matches_and_gzip += window.as_mut().map_or(0, |window| window.close());
        }
        let sums = &self.sums;
        let mut total = Way::default();
        sums.ways.iter().for_each(|way| total.add(way));
        let directions = Direction::ALL
            .map(|direction| DirectionHttp::of(direction.name(), &sums.ways[direction.index()]));
        HttpSavings {
            total: DirectionHttp::of(TOTAL, &total),
            directions: directions
                .into_iter()
                .filter(|way| way.payload > 0 || way.bodies.objects > 0)
                .collect(),
            types: self.types(),
            tcp: *self.tcp.stats(),
            incomplete: sums.incomplete,
            lost: sums.lost,
            unmatched: sums.unmatched,
            evicted_connections: self.evicted,
            forgotten_heads: sums.forgotten,
            evicted_responses: sums.proxy.evicted,
            evicted_bodies: sums.bodies_evicted,
            memory: self.memory(),
        }
    }

    fn types(&self) -> Vec<ContentType> {
        let sums = &self.sums;
        let mut names: Vec<(&[u8], &Kind)> =
            sums.names.iter().map(|(name, &kind)| (&**name, &sums.types[kind])).collect();
        names.sort_unstable_by_key(|(name, kind)| (std::cmp::Reverse(kind.bodies.bytes), *name));
        let types = names.into_iter().take(TOP).map(|(name, kind)| ContentType {
            name: name
                .iter()
                .map(|&byte| if byte.is_ascii_graphic() { char::from(byte) } else { '?' })
                .collect(),
            bodies: kind.bodies,
            repeated: kind.repeated,
            gzip: kind.gzip,
        });
        types.collect()
    }
}

#[cfg(test)]
mod tests;
