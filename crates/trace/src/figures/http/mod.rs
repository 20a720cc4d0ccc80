//! Figure 6: what object compression, redundancy elimination and caching save of HTTP (thesis, section 2.3, Table 2.5).

mod caching;
mod gzip;
mod message;

use crate::batch::{Direction, FlowKey, Observer, Packet, View};
use crate::lru::Lru;
use crate::results::{Axis, Cell, Chart, ChartKind, Column, Figure, Series, Table, Unit};
use crate::tcp::{End, Event, Limits, Reassembler};
use caching::{Class, Method, Outcome, Policy, Proxy, Request};
use gzip::{COMPRESSOR, Gzip, Gzips};
use message::{Fields, Framing, Head, Messages, Parser};
use std::collections::{HashMap, VecDeque};
use xxhash_rust::xxh3::Xxh3;

/// Length of a window of literals that are compressed together, in nanoseconds (thesis, section 2.3: 10 ms).
const WINDOW: i64 = 10_000_000;

/// Requests of a connection that wait for their responses.
const MAX_PIPELINED: usize = 16;

/// Content types told apart, and the most bytes of a type's name.
const MAX_TYPES: usize = 2048;
const MAX_TYPE_NAME: usize = 48;

/// Content types in the table.
const TOP: usize = 15;

/// Savings of HTTP traffic by object compression, redundancy elimination, both, and a caching proxy.
#[derive(Debug)]
pub struct Http {
    tcp: Reassembler,
    connections: Lru<FlowKey, Connection>,
    max_connections: usize,
    most_connections: usize,
    evicted: u64,
    sums: Sums,
    windows: [Option<Box<Window>>; Direction::ALL.len()],
}

/// Both directions of a connection. Its key is the lower of its two flows.
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
    const BYTES: usize =
        Lru::<FlowKey, Connection>::ENTRY + 2 * (size_of::<Object>() + 64) + 2 * MAX_PIPELINED * size_of::<Request>();

    fn new() -> Connection {
        Connection { halves: [Half::new(false), Half::new(false)], requests: VecDeque::new(), in_step: true }
    }
}

struct Hasher(Xxh3);

impl std::fmt::Debug for Hasher {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Hasher")
    }
}

/// The body of a response on its way.
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

#[derive(Clone, Copy, Debug, Default)]
struct Tally {
    objects: u64,
    bytes: u64,
}

impl Tally {
    fn add(&mut self, bytes: u64) {
        self.objects += 1;
        self.bytes += bytes;
    }
}

/// Sums of a direction.
#[derive(Clone, Debug, Default)]
struct Way {
    packets: u64,
    payload: u64,
    /// Bytes that each method saves.
    gzip: u64,
    matches: u64,
    matches_and_gzip: u64,
    bodies: Tally,
    hits: Tally,
    /// Hits whose stored body was another one.
    stale: Tally,
    validated: Tally,
    /// Bodies whose compressor was taken.
    not_compressed: Tally,
    classes: [Tally; Class::ALL.len()],
}

impl Way {
    fn add(&mut self, other: &Way) {
        let sum = |to: &mut Tally, from: &Tally| {
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

    /// Bytes saved by each of the methods of the table, in its order.
    fn saved(&self) -> [u64; METHODS.len()] {
        [self.gzip, self.matches, self.matches_and_gzip, self.hits.bytes]
    }
}

const METHODS: [&str; 4] = ["object gzip", "RE", "RE + gzip", "caching"];

/// Sums of a content type.
#[derive(Clone, Debug, Default)]
struct Kind {
    bodies: Tally,
    repeated: Tally,
    gzip: u64,
}

#[derive(Debug)]
struct Sums {
    now: i64,
    gzips: Gzips,
    proxy: Proxy,
    /// Bodies seen, by hash.
    bodies: Lru<u128, ()>,
    max_bodies: usize,
    most_bodies: usize,
    bodies_evicted: u64,
    names: HashMap<Box<[u8]>, usize>,
    types: Vec<Kind>,
    ways: [Way; Direction::ALL.len()],
    unmatched: u64,
    incomplete: Tally,
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
    /// A figure that may take `memory` bytes: a quarter for reassembly, an eighth for connections, an eighth for parts of heads, a
    /// quarter for compressors, an eighth each for the cache and the bodies seen. At least 5 MiB are taken.
    pub fn new(memory: u64) -> Http {
        let fixed = MAX_TYPES * (size_of::<Kind>() * 2 + 128) + Direction::ALL.len() * COMPRESSOR;
        let memory = usize::try_from(memory).unwrap_or(usize::MAX).saturating_sub(fixed).max(2 << 20);
        let entry = Lru::<u128, ()>::ENTRY;
        Http {
            tcp: Reassembler::new(Limits::of_memory(memory as u64 / 4)),
            connections: Lru::default(),
            max_connections: (memory / 8 / Connection::BYTES).max(1),
            most_connections: 0,
            evicted: 0,
            sums: Sums {
                now: 0,
                gzips: Gzips::new(memory / 4 / COMPRESSOR),
                proxy: Proxy::new(memory / 8 / Proxy::ENTRY),
                bodies: Lru::default(),
                max_bodies: (memory / 8 / entry).max(1),
                most_bodies: 0,
                bodies_evicted: 0,
                names: HashMap::new(),
                types: Vec::new(),
                ways: Default::default(),
                unmatched: 0,
                incomplete: Tally::default(),
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
            + (sums.most_bodies * Lru::<u128, ()>::ENTRY) as u64
            + (sums.types.len() * (size_of::<Kind>() * 2 + 128)) as u64
            + (self.windows.iter().flatten().count() * COMPRESSOR) as u64
    }

    /// Feeds a packet to its stream; returns whether that is one of HTTP responses.
    fn stream(&mut self, packet: &Packet, payload: &[u8]) -> bool {
        let Some(current) = packet.flow else { return false };
        let Http { tcp, connections, max_connections, most_connections, evicted, sums, .. } = self;
        tcp.packet(packet, payload, &mut |flow, event| {
            let (key, side) = place(flow);
            if connections.get_mut(&key).is_none() {
                if matches!(event, Event::End(_)) {
                    return;
                }
                while connections.len() >= *max_connections {
                    *evicted += 1;
                    if let Some((key, connection)) = connections.pop_oldest() {
                        end_connection(&key, connection, sums);
                    }
                }
                connections.insert(key, Connection::new());
                *most_connections = connections.len().max(*most_connections);
            }
            let connection = connections.peek_mut(&key).expect("it was there, or was just put in");
            if *flow == current {
                connection.halves[side].direction = packet.direction;
            }
            event_of(flow, connection, side, event, sums);
        });
        let (key, side) = place(&current);
        self.connections.peek(&key).is_some_and(|connection| connection.halves[side].role == Some(Role::Responses))
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
        let window = self.windows[at].get_or_insert_with(|| Box::new(Window { opened, literals: 0, gzip: Gzip::new() }));
        if window.opened.abs_diff(packet.time) >= WINDOW.unsigned_abs() {
            way.matches_and_gzip += window.close();
            window.opened = opened;
        }
        let mut from = 0;
        if saved > 0 {
            for found in view.matches.of(index).iter().filter(|found| found.len > view.charge.per_match) {
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

/// A connection's key, and which of its halves a flow is.
fn place(flow: &FlowKey) -> (FlowKey, usize) {
    let other = flow.reversed();
    if *flow <= other { (*flow, 0) } else { (other, 1) }
}

fn event_of(flow: &FlowKey, connection: &mut Connection, side: usize, event: Event<'_>, sums: &mut Sums) {
    let other_between = connection.halves[1 - side].parser.is_between();
    let Connection { halves, requests, in_step } = connection;
    let Half { parser, role, direction, object } = &mut halves[side];
    let held = parser.held();
    let mut tunnel = false;
    let mut out = Exchange {
        flow,
        role,
        direction: *direction,
        object,
        requests,
        in_step,
        other_between,
        tunnel: &mut tunnel,
        sums: &mut *sums,
    };
    match event {
        Event::Start { syn } => {
            if *out.role == Some(Role::Requests) {
                out.requests.clear();
                *out.in_step = true;
            }
            *out.role = None;
            *parser = Parser::new(syn);
        }
        Event::Data(bytes) => parser.data(bytes, &mut out),
        Event::Gap(bytes) => {
            parser.gap(bytes, &mut out);
            *out.in_step = false;
        }
        Event::End(end) => parser.finish(end == End::Fin, &mut out),
    }
    if parser.is_other() && !matches!(event, Event::End(_)) {
        *role = None;
    }
    sums.held = sums.held + parser.held() - held;
    if sums.held > sums.max_held {
        sums.forgotten += 1;
        sums.held -= parser.held();
        parser.forget();
    }
    sums.most_held = sums.most_held.max(sums.held);
    if tunnel {
        for half in halves {
            sums.held -= half.parser.held();
            half.parser.leave();
            half.role = None;
        }
    }
}

fn end_connection(key: &FlowKey, mut connection: Connection, sums: &mut Sums) {
    for (side, flow) in [*key, key.reversed()].iter().enumerate() {
        event_of(flow, &mut connection, side, Event::End(End::Evicted), sums);
    }
}

/// What hears of the messages of one half.
struct Exchange<'a> {
    flow: &'a FlowKey,
    role: &'a mut Option<Role>,
    direction: Direction,
    object: &'a mut Option<Box<Object>>,
    requests: &'a mut VecDeque<Request>,
    in_step: &'a mut bool,
    other_between: bool,
    tunnel: &'a mut bool,
    sums: &'a mut Sums,
}

impl Messages for Exchange<'_> {
    fn head(&mut self, head: Head<'_>) -> Framing {
        match head {
            Head::Request { method, target, fields } => {
                *self.role = Some(Role::Requests);
                let request = Request::new(method, target, fields);
                if !*self.in_step && self.other_between {
                    // Whatever was asked before has been answered, or its answer is lost.
                    self.requests.clear();
                    *self.in_step = true;
                }
                if self.requests.len() == MAX_PIPELINED {
                    self.requests.clear();
                    *self.in_step = false;
                } else {
                    self.requests.push_back(request);
                }
                if method == "CONNECT" { Framing::Length(0) } else { Framing::of(fields, Framing::Length(0)) }
            }
            Head::Response { status, fields } => {
                *self.role = Some(Role::Responses);
                if (100..200).contains(&status) && status != 101 {
                    return Framing::Length(0);
                }
                let request = self.requests.pop_front().filter(|_| *self.in_step);
                self.sums.unmatched += u64::from(request.is_none());
                let method = request.map(|request| request.method);
                if status == 101 || (method == Some(Method::Connect) && (200..300).contains(&status)) {
                    *self.tunnel = true;
                    return Framing::Tunnel;
                }
                let framing = match status {
                    204 | 304 => Framing::Length(0),
                    _ if method == Some(Method::Head) => Framing::Length(0),
                    _ => Framing::of(fields, Framing::Close),
                };
                self.begin(status, fields, request);
                framing
            }
        }
    }

    fn body(&mut self, bytes: &[u8]) {
        if let Some(object) = self.object {
            object.hash.0.update(bytes);
            object.bytes += bytes.len() as u64;
            if !object.coded {
                self.sums.gzips.write(self.flow, bytes);
            }
        }
    }

    fn lost(&mut self, bytes: u64) {
        if let Some(object) = self.object {
            object.whole = false;
            self.sums.lost += bytes;
        }
    }

    fn end(&mut self, complete: bool) {
        if let Some(mut object) = self.object.take() {
            object.whole &= complete;
            self.finish(&object);
        }
    }
}

impl Exchange<'_> {
    fn begin(&mut self, status: u16, fields: Fields<'_>, request: Option<Request>) {
        let sums = &mut *self.sums;
        let coded = fields
            .members("content-encoding")
            .chain(fields.members("transfer-encoding"))
            .any(|coding| !coding.eq_ignore_ascii_case(b"identity") && !coding.eq_ignore_ascii_case(b"chunked"));
        let policy = Policy::new(status, fields, request.as_ref(), sums.now);
        let outcome = request.map_or(Outcome::Miss, |request| sums.proxy.ask(&request, &policy, sums.now));
        let name = fields.get("content-type").unwrap_or(b"none stated");
        let name = name.split(|&byte| byte == b';').next().unwrap_or(name).trim_ascii();
        let mut name = name[..name.len().min(MAX_TYPE_NAME)].to_ascii_lowercase();
        if sums.types.len() >= MAX_TYPES && !sums.names.contains_key(name.as_slice()) {
            name = b"others".to_vec();
        }
        let next = sums.types.len();
        let kind = *sums.names.entry(name.into()).or_insert(next);
        if kind == next {
            sums.types.push(Kind::default());
        }
        if !coded {
            sums.gzips.start(self.flow);
        }
        *self.object =
            Some(Box::new(Object { hash: Hasher(Xxh3::new()), bytes: 0, whole: true, kind, coded, request, policy, outcome }));
    }

    fn finish(&mut self, object: &Object) {
        let sums = &mut *self.sums;
        let way = &mut sums.ways[self.direction.index()];
        let kind = &mut sums.types[object.kind];
        let size = if object.coded { Some(object.bytes) } else { sums.gzips.finish(self.flow) };
        let saved = object.bytes.saturating_sub(size.unwrap_or(object.bytes));
        if size.is_none() {
            way.not_compressed.add(object.bytes);
        }
        way.gzip += saved;
        way.bodies.add(object.bytes);
        way.classes[object.policy.class as usize].add(object.bytes);
        kind.bodies.add(object.bytes);
        kind.gzip += saved;
        // The length is part of the name.
        let body = object.hash.0.digest128() ^ (u128::from(object.bytes) << 64);
        match object.outcome {
            Outcome::Hit(stored) => {
                way.hits.add(object.bytes);
                if object.whole && stored != body {
                    way.stale.add(object.bytes);
                }
            }
            Outcome::Validated => way.validated.add(object.bytes),
            Outcome::Miss => {}
        }
        if !object.whole {
            sums.incomplete.add(object.bytes);
            return;
        }
        if let (Some(request), Outcome::Miss | Outcome::Validated) = (&object.request, object.outcome) {
            sums.proxy.store(request, &object.policy, body);
        }
        if object.bytes > 0 {
            if sums.bodies.get_mut(&body).is_some() {
                kind.repeated.add(object.bytes);
            } else {
                while sums.bodies.len() >= sums.max_bodies {
                    sums.bodies.pop_oldest();
                    sums.bodies_evicted += 1;
                }
                sums.bodies.insert(body, ());
                sums.most_bodies = sums.most_bodies.max(sums.bodies.len());
            }
        }
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

    fn finish(mut self: Box<Self>) -> Figure {
        let Http { tcp, connections, sums, windows, .. } = &mut *self;
        tcp.finish(&mut |flow, event| {
            let (key, side) = place(flow);
            if let Some(connection) = connections.peek_mut(&key) {
                event_of(flow, connection, side, event, sums);
            }
        });
        while let Some((key, connection)) = connections.pop_oldest() {
            end_connection(&key, connection, sums);
        }
        for (window, way) in windows.iter_mut().zip(&mut sums.ways) {
            way.matches_and_gzip += window.as_mut().map_or(0, |window| window.close());
        }
        self.figure()
    }
}

impl Http {
    fn figure(&self) -> Figure {
        let sums = &self.sums;
        let mut total = Way::default();
        sums.ways.iter().for_each(|way| total.add(way));
        let mut ways: Vec<(&str, &Way)> = Direction::ALL
            .iter()
            .map(|way| (way.name(), &sums.ways[way.index()]))
            .filter(|(_, way)| way.payload > 0 || way.bodies.objects > 0)
            .collect();
        if ways.len() != 1 {
            ways.push(("total", &total));
        }
        let share = |part: u64, of: u64| (of > 0).then(|| part as f64 / of as f64);
        let text = |name: &str| Column::new(name, Unit::Text);
        let count = |name: &str| Column::new(name, Unit::Count);
        let bytes = |name: &str| Column::new(name, Unit::Bytes);

        let savings = Table {
            id: "savings",
            caption: "Savings of HTTP response traffic (Table 2.5)".into(),
            columns: [text("direction"), count("packets"), bytes("payload"), count("objects"), bytes("bodies")]
                .into_iter()
                .chain(METHODS.map(|name| Column::new(name, Unit::Share)))
                .chain([Column::new("caching with validation", Unit::Share)])
                .collect(),
            rows: ways
                .iter()
                .map(|(name, way)| {
                    let mut row: Vec<Cell> = vec![
                        (*name).into(),
                        way.packets.into(),
                        way.payload.into(),
                        way.bodies.objects.into(),
                        way.bodies.bytes.into(),
                    ];
                    row.extend(way.saved().map(|saved| Cell::from(share(saved, way.payload))));
                    row.push(share(way.hits.bytes + way.validated.bytes, way.payload).into());
                    row
                })
                .collect(),
        };
        let mut names: Vec<(&[u8], &Kind)> = sums.names.iter().map(|(name, &kind)| (&**name, &sums.types[kind])).collect();
        names.sort_unstable_by_key(|(name, kind)| (std::cmp::Reverse(kind.bodies.bytes), *name));
        let types = Table {
            id: "types",
            caption: format!("Objects by content type: the {TOP} of most bytes"),
            columns: vec![
                text("content type"),
                count("objects"),
                bytes("bodies"),
                count("repeated objects"),
                Column::new("repeated", Unit::Share),
                Column::new("object gzip", Unit::Share),
            ],
            rows: names
                .into_iter()
                .take(TOP)
                .map(|(name, kind)| {
                    let name: String =
                        name.iter().map(|&byte| if byte.is_ascii_graphic() { char::from(byte) } else { '?' }).collect();
                    let of = kind.bodies.bytes;
                    vec![
                        name.into(),
                        kind.bodies.objects.into(),
                        of.into(),
                        kind.repeated.objects.into(),
                        share(kind.repeated.bytes, of).into(),
                        share(kind.gzip, of).into(),
                    ]
                })
                .collect(),
        };
        let mut rows: Vec<Vec<Cell>> = Class::ALL
            .iter()
            .map(|&(class, name)| (name, total.classes[class as usize]))
            .chain([
                ("served from the cache", total.hits),
                ("of these, with a body other than the stored one", total.stale),
                ("not fresh, but a 304 would have done", total.validated),
            ])
            .map(|(name, tally)| {
                vec![name.into(), tally.objects.into(), tally.bytes.into(), share(tally.bytes, total.bodies.bytes).into()]
            })
            .collect();
        rows.retain(|row| row[1] != Cell::Count(0));
        let cacheability = Table {
            id: "cacheability",
            caption: "What a shared cache may do with the responses (each in one class), and what one would have done".into(),
            columns: vec![text("responses"), count("objects"), bytes("bodies"), Column::new("share of bodies", Unit::Share)],
            rows,
        };
        let chart = Chart {
            id: "savings",
            caption: "Savings of HTTP response traffic by method".into(),
            kind: ChartKind::Bars,
            x: Axis::of("direction", ways.iter().map(|(name, _)| (*name).to_owned()).collect()),
            y: Axis::new("savings", Unit::Share),
            right: None,
            series: METHODS
                .iter()
                .enumerate()
                .map(|(method, name)| {
                    let points = ways.iter().enumerate();
                    let points = points.filter_map(|(x, (_, way))| Some((x as f64, share(way.saved()[method], way.payload)?)));
                    Series::new(*name, points.collect())
                })
                .collect(),
        };
        Figure {
            number: 6,
            id: "http",
            title: "HTTP: compression, redundancy elimination and caching",
            source: "thesis, section 2.3 and Table 2.5; RFC 9110, 9111, 9112",
            definition: format!(
                "HTTP/1 is recognised by its messages, on any port, in TCP streams put together again. Savings are shares of the payload of \
                 all packets of response streams, heads and retransmissions included, from the packet on that completes the first head. Object gzip: each body as sent is compressed alone with \
                 gzip -6; one with a content coding counts as compressed already, one that would grow is left alone. RE: the matches of the \
                 reference algorithm in these packets, less what they cost. RE + gzip: besides, what the matches leave of the packets within \
                 each {} ms of a direction is compressed together with gzip -6, or left alone if it would grow. Caching: a shared cache without bound \
                 that follows RFC 9111 sees all responses, keyed by Host and target; a response counts with its body if a fresh stored copy would \
                 have been served instead. Freshness is by s-maxage, max-age, Expires, else a tenth of the time since Last-Modified, less Age; the \
                 capture's clock is not compared with Date. Responses that vary by more than Accept-Encoding, and ranges, are not stored. Caching \
                 with validation adds bodies whose stale copy has the same ETag (or Last-Modified), so that a 304 would have done.",
                WINDOW / 1_000_000
            ),
            finding: finding(&total),
            tables: vec![savings, types, cacheability],
            charts: if total.payload > 0 { vec![chart] } else { Vec::new() },
            notes: self.notes(&total),
            memory: self.memory(),
        }
    }

    fn notes(&self, total: &Way) -> Vec<String> {
        let sums = &self.sums;
        let tcp = self.tcp.stats();
        let mut notes = vec![format!(
            "TCP: {} streams from their SYN and {} joined in the middle; {} bytes delivered, {} retransmitted or overlapping, {} reordered, {} \
             missing in {} gaps.",
            tcp.streams,
            tcp.midstream,
            tcp.delivered,
            tcp.retransmitted + tcp.overlapping,
            tcp.reordered_bytes,
            tcp.missing,
            tcp.gaps
        )];
        let mut note = |count: u64, text: String| {
            if count > 0 {
                notes.push(text);
            }
        };
        note(
            sums.incomplete.objects,
            format!(
                "{} bodies ({} bytes of them seen, {} known to be missing) are not whole: they count with what was seen, but are neither stored nor repeats.",
                sums.incomplete.objects, sums.incomplete.bytes, sums.lost
            ),
        );
        note(
            sums.unmatched,
            format!("{} responses have no request that was seen; GET is assumed for their framing.", sums.unmatched),
        );
        note(
            total.not_compressed.objects,
            format!(
                "{} bodies ({} bytes) lost their compressor to others, as memory is bounded; they count as not compressible.",
                total.not_compressed.objects, total.not_compressed.bytes
            ),
        );
        note(
            tcp.evicted + self.evicted,
            format!("{} streams and {} connections were ended early to make room for others.", tcp.evicted, self.evicted),
        );
        note(
            tcp.gaps_for_memory,
            format!("{} gaps were given up because too much was held back behind them.", tcp.gaps_for_memory),
        );
        note(sums.forgotten, format!("{} heads were dropped because too many were incomplete at once.", sums.forgotten));
        note(
            sums.proxy.evicted + sums.bodies_evicted,
            format!(
                "The least recently used were forgotten: {} of the responses that the cache stored, {} of the bodies seen; later repeats of them do not count.",
                sums.proxy.evicted, sums.bodies_evicted
            ),
        );
        notes
    }
}

fn finding(total: &Way) -> String {
    if total.payload == 0 {
        return "No HTTP/1 responses were recognised: HTTP that is encrypted cannot be.".into();
    }
    let percent = |saved: u64| saved as f64 / total.payload as f64 * 100.0;
    let [gzip, matches, both, caching] = total.saved();
    let best = if matches >= gzip.max(caching) {
        "redundancy elimination gains most, without knowing the protocol"
    } else if both >= gzip.max(caching) {
        "redundancy elimination gains most once compression follows it"
    } else if gzip >= caching {
        "most is gained by turning on compression at the servers"
    } else {
        "most is gained by a caching proxy"
    };
    format!(
        "Of {:.1} MB in HTTP response packets, compressing each object would save {:.1} %, redundancy elimination {:.1} % ({:.1} % with gzip after it), \
         a caching proxy {:.1} %: {best}.",
        total.payload as f64 / 1e6,
        percent(gzip),
        percent(matches),
        percent(both),
        percent(caching)
    )
}

#[cfg(test)]
mod tests;
