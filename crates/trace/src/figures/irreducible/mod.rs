//! Figure 14: what no middlebox can reduce: payload that is encrypted, or looks random and is new.

mod encryption;
mod present;

use super::tally::{TOTAL, share};
use super::{Finding, Observer};
use crate::batch::{Direction, FlowKey, Kind, Packet, View};
use crate::lru::{LruCache, entry_bytes};
pub use encryption::Protocol;
use encryption::Recognizer;
use std::collections::HashMap;

/// Bytes over which entropy is judged, and the fewest bytes that can be judged.
const WINDOW: usize = 512;
const MIN_WINDOW: usize = 128;

/// Content is of high entropy up to this many standard deviations above the mean of random bytes.
const DEVIATIONS: f64 = 5.0;

/// Most services of unrecognized content that are counted separately; each takes 64 bytes.
const MAX_SERVICES: usize = 1 << 13;

/// Services in the table.
const TOP: usize = 10;

/// Measures how much of the traffic cannot be reduced where it was captured.
#[derive(Debug)]
pub struct Irreducible {
    connections: LruCache<FlowKey, Connection>,
    max_connections: usize,
    most_connections: usize,
    evicted: u64,
    sums: Sums,
}

/// A connection, by [`FlowKey::connection`].
#[derive(Debug, Default)]
struct Connection {
    recognizer: Recognizer,
    pending: [Option<Box<Pending>>; 2],
}

impl Connection {
    const BYTES: usize = entry_bytes::<FlowKey, Connection>() + 2 * (size_of::<Pending>() + 16);
}

/// Small packets of a flow that are judged together.
#[derive(Debug)]
struct Pending {
    direction: Direction,
    service: (u8, u16),
    counts: [u16; 256],
    tally: PayloadSum,
}

/// Packets and their payload.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct PayloadSum {
    /// Packets.
    pub packets: u64,
    /// Payload in bytes.
    pub payload: u64,
    /// Payload in bytes within matches of the reference algorithm.
    pub repeated: u64,
}

impl PayloadSum {
    fn add(&mut self, other: &PayloadSum) {
        self.packets += other.packets;
        self.payload += other.payload;
        self.repeated += other.repeated;
    }

    /// Payload in bytes outside matches.
    pub fn unique(&self) -> u64 {
        self.payload - self.repeated
    }
}

#[derive(Clone, Copy, Debug, Default)]
struct Way {
    encrypted: [PayloadSum; Protocol::ALL.len()],
    high: PayloadSum,
    low: PayloadSum,
    short: PayloadSum,
    headers: u64,
    missing: u64,
    /// Bytes of packets that are not TCP or UDP.
    other: u64,
    wire: u64,
}

impl Way {
    fn add(&mut self, other: &Way) {
        self.encrypted.iter_mut().zip(&other.encrypted).for_each(|(to, from)| to.add(from));
        self.high.add(&other.high);
        self.low.add(&other.low);
        self.short.add(&other.short);
        self.headers += other.headers;
        self.missing += other.missing;
        self.other += other.other;
        self.wire += other.wire;
    }

    fn all_encrypted(&self) -> PayloadSum {
        let mut sum = PayloadSum::default();
        self.encrypted.iter().for_each(|tally| sum.add(tally));
        sum
    }
}

/// The classes of payload.
const CLASSES: [&str; 8] = [
    "encrypted",
    "encrypted, repeated",
    "high entropy, unique",
    "high entropy, repeated",
    "low entropy, unique",
    "low entropy, repeated",
    "too short, unique",
    "too short, repeated",
];

#[derive(Debug, Default)]
struct Sums {
    ways: [Way; Direction::ALL.len()],
    services: HashMap<(u8, u16), PayloadSum>,
    unnamed: u64,
}

impl Sums {
    fn judged(
        &mut self,
        direction: Direction,
        service: (u8, u16),
        tally: &PayloadSum,
        high: Option<bool>,
    ) {
        let way = &mut self.ways[direction.index()];
        match high {
            None => way.short.add(tally),
            Some(false) => way.low.add(tally),
            Some(true) => {
                way.high.add(tally);
                if self.services.len() < MAX_SERVICES || self.services.contains_key(&service) {
                    self.services.entry(service).or_default().add(tally);
                } else {
                    self.unnamed += tally.packets;
                }
            }
        }
    }

    fn close(&mut self, pending: &Pending) {
        let high =
            (pending.tally.payload >= MIN_WINDOW as u64).then(|| is_uniform(&pending.counts));
        self.judged(pending.direction, pending.service, &pending.tally, high);
    }

    fn end(&mut self, connection: &Connection) {
        connection.pending.iter().flatten().for_each(|pending| self.close(pending));
    }
}

/// Whether bytes of this histogram can be random: Pearson's chi-square against the uniform
/// distribution.
///
/// For n random bytes the statistic has the mean 255 and the variance 510 (1 - 1/n), whatever n is;
/// its distribution is not yet that of the limit where cells expect few bytes, so the threshold is
/// set by the deviation: five are passed by less than one in 10,000 windows of 128 random bytes and
/// more. Base64 lies some seventeen deviations off at 128 bytes, more at more.
fn is_uniform(counts: &[u16; 256]) -> bool {
    let bytes: u64 = counts.iter().map(|&count| u64::from(count)).sum();
    let squares: u64 = counts.iter().map(|&count| u64::from(count).pow(2)).sum();
    let bytes = bytes as f64;
    let statistic = 256.0 * squares as f64 / bytes - bytes;
    statistic <= 255.0 + DEVIATIONS * (510.0 * (1.0 - 1.0 / bytes)).sqrt()
}

fn count(counts: &mut [u16; 256], bytes: &[u8]) {
    bytes.iter().for_each(|&byte| counts[usize::from(byte)] += 1);
}

/// Whether a payload of at least one window is of high entropy: most of its windows are. In larger
/// windows, compressed content would no longer pass for random.
fn is_high(payload: &[u8]) -> bool {
    let windows = (payload.len() / WINDOW).max(1);
    let uniform = payload
        .chunks(payload.len().div_ceil(windows))
        .filter(|window| {
            let mut counts = [0; 256];
            count(&mut counts, window);
            is_uniform(&counts)
        })
        .count();
    2 * uniform >= windows
}

impl Irreducible {
    /// `memory` is in bytes; 1 MB of it is for services, the rest for connections, of which at
    /// least two are known.
    pub fn new(memory: u64) -> Irreducible {
        let memory =
            usize::try_from(memory).unwrap_or(usize::MAX).saturating_sub(2 * MAX_SERVICES * 64);
        Irreducible {
            connections: LruCache::unbounded(),
            max_connections: (memory / Connection::BYTES).max(2),
            most_connections: 0,
            evicted: 0,
            sums: Sums::default(),
        }
    }

    fn packet(&mut self, packet: &Packet, payload: &[u8], repeated: u64) {
        let way = &mut self.sums.ways[packet.direction.index()];
        way.wire += u64::from(packet.wire);
        let Some(flow) = packet.flow else {
            way.other += u64::from(packet.wire);
            return;
        };
        let missing = u64::from(packet.missing).min(u64::from(packet.wire));
        way.missing += missing;
        way.headers += u64::from(packet.wire).saturating_sub(payload.len() as u64 + missing);

        let (key, side) = flow.connection();
        // A new connection takes the ports of an old one.
        if matches!(packet.kind, Kind::Tcp { flags, .. } if flags & 18 == 2)
            && let Some(connection) = self.connections.pop(&key)
        {
            self.sums.end(&connection);
        }
        if payload.is_empty() {
            return;
        }
        if self.connections.peek(&key).is_none() {
            while self.connections.len() >= self.max_connections {
                self.evicted += 1;
                if let Some((_, connection)) = self.connections.pop_lru() {
                    self.sums.end(&connection);
                }
            }
            self.connections.put(key, Connection::default());
            self.most_connections = self.most_connections.max(self.connections.len());
        }
        let Some(connection) = self.connections.get_mut(&key) else { return };
        let tally = PayloadSum { packets: 1, payload: payload.len() as u64, repeated };
        if let Some(protocol) = connection.recognizer.packet(&flow, side, packet, payload) {
            self.sums.ways[packet.direction.index()].encrypted[protocol as usize].add(&tally);
            return;
        }
        let service = (flow.protocol, packet.service);
        if payload.len() >= WINDOW {
            self.sums.judged(packet.direction, service, &tally, Some(is_high(payload)));
            return;
        }
        let pending = connection.pending[side].get_or_insert_with(|| {
            Box::new(Pending {
                direction: packet.direction,
                service,
                counts: [0; 256],
                tally: PayloadSum::default(),
            })
        });
        pending.tally.add(&tally);
        count(&mut pending.counts, payload);
        if pending.tally.payload >= WINDOW as u64
            && let Some(pending) = connection.pending[side].take()
        {
            self.sums.close(&pending);
        }
    }
}

impl Observer for Irreducible {
    fn batch(&mut self, view: &View<'_>) {
        for (index, packet) in view.batch.packets().iter().enumerate() {
            let repeated =
                view.matches.of(index).iter().map(|found| u64::from(found.len)).sum::<u64>();
            self.packet(packet, view.batch.payload(packet), repeated.min(u64::from(packet.len)));
        }
    }

    fn finish(self: Box<Self>) -> Finding {
        Finding::Irreducible(self.compute())
    }
}

/// Figure 14: payload by whether it can be reduced.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Reducibility {
    /// The total over all directions.
    pub total: DirectionReducibility,
    /// Each direction with packets.
    pub directions: Vec<DirectionReducibility>,
    /// Services with the most unrecognized, unique content of high entropy: protocol, port, bytes;
    /// most bytes first.
    pub services: Vec<(u8, u16, u64)>,
    /// Connections forgotten to stay within memory.
    pub evicted: u64,
    /// Packets of services that are only in the sums.
    pub unnamed: u64,
    /// Memory of the figure's state in bytes.
    pub memory: u64,
}

/// Bytes of one direction by class.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DirectionReducibility {
    /// The direction, or `total`.
    pub direction: &'static str,
    /// Payload in recognized encryption, by protocol. Only protocols with packets.
    pub protocols: Vec<(Protocol, PayloadSum)>,
    /// All payload in recognized encryption.
    pub encrypted: PayloadSum,
    /// Other payload of high entropy.
    pub high: PayloadSum,
    /// Other payload of low entropy.
    pub low: PayloadSum,
    /// Other payload that is too short to judge.
    pub short: PayloadSum,
    /// Bytes of headers and padding.
    pub headers: u64,
    /// Bytes of payload not captured.
    pub missing: u64,
    /// Bytes of packets that are not TCP or UDP.
    pub other: u64,
    /// Bytes on the wire.
    pub wire: u64,
}

impl DirectionReducibility {
    fn of(direction: &'static str, way: &Way) -> DirectionReducibility {
        let protocols = Protocol::ALL.map(|protocol| (protocol, way.encrypted[protocol as usize]));
        DirectionReducibility {
            direction,
            protocols: protocols.into_iter().filter(|(_, sum)| sum.packets > 0).collect(),
            encrypted: way.all_encrypted(),
            high: way.high,
            low: way.low,
            short: way.short,
            headers: way.headers,
            missing: way.missing,
            other: way.other,
            wire: way.wire,
        }
    }

    /// Captured payload in bytes.
    pub fn payload(&self) -> u64 {
        self.encrypted.payload + self.high.payload + self.low.payload + self.short.payload
    }

    /// Share of the payload that is in recognized encryption. `None` without payload.
    pub fn encrypted_share(&self) -> Option<f64> {
        share(self.encrypted.payload as f64, self.payload() as f64)
    }

    /// Payload that cannot be reduced, in bytes: encrypted or of high entropy, and not seen before.
    pub fn fixed(&self) -> u64 {
        self.encrypted.unique() + self.high.unique()
    }

    /// Payload bytes by class, in the order of [`CLASSES`].
    fn classes(&self) -> [u64; CLASSES.len()] {
        let [a, b, c, d] = [self.encrypted, self.high, self.low, self.short]
            .map(|sum| [sum.unique(), sum.repeated]);
        [a[0], a[1], b[0], b[1], c[0], c[1], d[0], d[1]]
    }
}

impl Irreducible {
    fn compute(mut self) -> Reducibility {
        while let Some((_, connection)) = self.connections.pop_lru() {
            self.sums.end(&connection);
        }
        let sums = &self.sums;
        let mut total = Way::default();
        sums.ways.iter().for_each(|way| total.add(way));
        let directions =
            Direction::ALL.map(|direction| (direction.name(), &sums.ways[direction.index()]));
        let mut services: Vec<_> =
            sums.services.iter().filter(|(_, sum)| sum.unique() > 0).collect();
        services
            .sort_unstable_by_key(|(service, sum)| (std::cmp::Reverse(sum.unique()), **service));
        let services = services.into_iter().take(TOP);
        Reducibility {
            total: DirectionReducibility::of(TOTAL, &total),
            directions: directions
                .into_iter()
                .filter(|(_, way)| way.wire > 0)
                .map(|(direction, way)| DirectionReducibility::of(direction, way))
                .collect(),
            services: services
                .map(|((protocol, port), sum)| (*protocol, *port, sum.unique()))
                .collect(),
            evicted: self.evicted,
            unnamed: sums.unnamed,
            memory: (self.most_connections * Connection::BYTES + 2 * sums.services.len() * 64)
                as u64,
        }
    }
}

#[cfg(test)]
mod tests;
