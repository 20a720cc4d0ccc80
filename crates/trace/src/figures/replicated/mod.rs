//! Figure 11: packets whose whole payload was seen before (Santos and Wetherall 1998, section 2).

mod present;
mod published;

use super::tally::TOTAL;
use super::{Finding, Observer};
use crate::batch::{Direction, View};
use crate::service;
use published::Prototype;
pub use published::Published;
use std::collections::HashMap;
use xxhash_rust::xxh3::xxh3_128_with_seed;

/// Ports that count as HTTP: 80 and 8001 of the paper (section 2.3), and those in common use since.
const HTTP: [u16; 6] = [80, 8000, 8001, 8008, 8080, 8888];

/// Payload length above which the paper found 97 % of the replicated volume (section 2.4), in
/// bytes.
const LARGE: u64 = 500;

/// Windows of the table, in bytes. 200 MB is the paper's (section 2.5).
const WINDOWS: [u64; 6] =
    [1_000_000, 10_000_000, 50_000_000, 200_000_000, 1_000_000_000, 10_000_000_000];

/// Services other than HTTP that the table names.
const TOP: usize = 10;

/// Most services that are counted separately; each takes 64 bytes.
const MAX_SERVICES: usize = 1 << 14;

/// Bytes of a bucket of the map of payloads: a 128-bit hash, the position of the last copy, and the
/// map's control byte.
const BUCKET: u64 = size_of::<([u64; 2], u64)>() as u64 + 1;

/// Most times that the sample is halved. After that, only payloads crafted to collide could still
/// fill the memory; all are then forgotten.
const MAX_LEVEL: u32 = 40;

/// Number of payload lengths: 0 to 65,535 bytes.
const LENGTHS: usize = 1 << 16;

/// Finds packets whose payload equals that of an earlier packet in their direction.
pub struct Replicated {
    memory: u64,
    most: u64,
    /// Position of the last copy of each payload, in payload bytes of its direction.
    seen: HashMap<[u64; 2], u64>,
    /// One payload in 2^level is sampled.
    level: u32,
    /// The sampling levels, with the payload volume after which each began.
    samplings: Vec<(u32, u64)>,
    directions: [Option<Box<Way>>; Direction::ALL.len()],
    services: HashMap<(Direction, u8, u16), Replication>,
    /// Packets of services beyond [`MAX_SERVICES`].
    unnamed: u64,
    truncated: u64,
    truncated_bytes: u64,
    prototype: Option<Prototype>,
}

/// One direction.
#[derive(Debug)]
struct Way {
    all: Replication,
    tcp: Replication,
    udp: Replication,
    http: Replication,
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
            all: Replication::default(),
            tcp: Replication::default(),
            udp: Replication::default(),
            http: Replication::default(),
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
        let sum = |to: &mut [u64], from: &[u64]| {
            to.iter_mut().zip(from).for_each(|(to, from)| *to += from)
        };
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
    /// `memory` is in bytes. At least 64 KiB are taken for payloads, and 0.5 MB for each direction
    /// with payload.
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
            prototype: None,
        }
    }

    /// Adds what the paper's system saves, and gzip beside it. Its cache takes up to 70 MB more.
    pub(crate) fn with_prototype(self) -> Replicated {
        Replicated { prototype: Some(Prototype::new(published::CACHE)), ..self }
    }

    /// Buckets of a map with room for `capacity` entries: seven in eight may be used.
    fn buckets(capacity: usize) -> u64 {
        (capacity as u64).div_ceil(7) * 8
    }

    fn fixed(&self) -> u64 {
        let ways = self.directions.iter().flatten().count() as u64;
        ways * Way::BYTES + Replicated::buckets(self.services.capacity()) * 64
    }

    /// Records a payload at `position` of its direction; returns the position of its last copy.
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
            // While the map grows, the old table and one of twice its size exist at once.
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

    /// Equal payloads are sampled together, and each sample is a subset of the earlier ones.
    fn sampled(&self, key: &[u64; 2]) -> bool {
        key[0].trailing_zeros() >= self.level
    }
}

impl Observer for Replicated {
    fn batch(&mut self, view: &View<'_>) {
        for (i, packet) in view.batch.packets().iter().enumerate() {
            let prototype = self.prototype.as_mut().filter(|_| Prototype::is_of(packet.direction));
            let payload = view.batch.payload(packet);
            if let Some(prototype) = prototype {
                prototype.packet(packet, payload, xxh3_128_with_seed(payload, 0));
            }
            let Some(flow) = packet.flow else { continue };
            if packet.missing > 0 {
                self.truncated += 1;
                self.truncated_bytes += u64::from(packet.len) + u64::from(packet.missing);
                continue;
            }
            if packet.len == 0 {
                continue;
            }
            let index = packet.direction.index();
            let position = self.directions[index].get_or_insert_with(Way::new).all.volume;
            // The direction is part of the payload's name.
            let last = self.note(xxh3_128_with_seed(payload, index as u64), position);
            let weight = 1u64 << self.level;
            let len = payload.len() as u64;
            let replicated = if last.is_some() { (weight, weight * len) } else { (0, 0) };
            let tally = Replication {
                packets: 1,
                volume: len,
                replicated_packets: replicated.0,
                replicated: replicated.1,
            };

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
                    std::collections::hash_map::Entry::Occupied(mut entry) => {
                        entry.get_mut().add(&tally)
                    }
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
        self.most =
            self.most.max(self.fixed() + Replicated::buckets(self.seen.capacity()) * BUCKET);
    }

    fn finish(self: Box<Self>) -> Finding {
        Finding::Replicated(self.compute())
    }
}

/// Figure 11: packets whose whole payload was seen before. Replicated packets and bytes are
/// estimates if payloads are sampled.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ReplicatedPackets {
    /// Each direction with payload. If there is not exactly one, the total comes last.
    pub directions: Vec<DirectionReplicated>,
    /// Packets that were truncated in the capture, and their payload in bytes; they are left out.
    pub truncated: (u64, u64),
    /// The samplings: one payload in how many, and after how many bytes of payload.
    pub samplings: Vec<(u64, u64)>,
    /// What the paper's system saves, if that was asked for.
    pub published: Option<Published>,
    /// Packets of services that are only in the sums.
    pub unnamed: u64,
    /// Memory limit in bytes.
    pub limit: u64,
    /// Memory of the figure's state in bytes.
    pub memory: u64,
}

/// Replicated packets of one direction.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DirectionReplicated {
    /// The direction, or `total`.
    pub direction: &'static str,
    /// All packets with payload.
    pub all: Replication,
    /// TCP, UDP, HTTP by port, and the services with the most volume; only those with packets.
    pub traffic: Vec<(String, Replication)>,
    /// Bytes that the reference algorithm saves of the same packets.
    pub saved: u64,
    /// Replicated bytes whose previous copy lies within 1, 10, 50, 200 MB, 1 and 10 GB of payload.
    pub within: [u64; WINDOWS.len()],
    /// Payload length in bytes, and replicated bytes in payloads of that length. Lengths without
    /// any are left out.
    pub by_length: Vec<(u64, u64)>,
    /// Upper end of a bin of intervals in bytes of payload, and replicated bytes with an interval
    /// in that bin. Empty bins are left out.
    pub by_interval: Vec<(u64, u64)>,
}

/// Packets and payload bytes, and those of them that are replicated.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Replication {
    /// Packets with payload.
    pub packets: u64,
    /// Payload in bytes.
    pub volume: u64,
    /// Replicated packets.
    pub replicated_packets: u64,
    /// Payload of replicated packets in bytes.
    pub replicated: u64,
}

impl Replication {
    fn add(&mut self, other: &Replication) {
        self.packets += other.packets;
        self.volume += other.volume;
        self.replicated_packets += other.replicated_packets;
        self.replicated += other.replicated;
    }

    /// Replicated share of the volume. `None` without volume.
    pub fn share(&self) -> Option<f64> {
        self.share_of(self.replicated)
    }

    /// `part` as a share of the volume, at most 1: the estimate from a sample can exceed the
    /// volume. `None` without volume.
    fn share_of(&self, part: u64) -> Option<f64> {
        (self.volume > 0).then(|| (part as f64 / self.volume as f64).min(1.0))
    }
}

impl Replicated {
    fn compute(mut self) -> ReplicatedPackets {
        let prototype = self.prototype.take();
        let memory = self.most + prototype.as_ref().map_or(0, Prototype::memory);
        let mut total = Way::new();
        let mut directions = Vec::new();
        for direction in Direction::ALL {
            if let Some(way) = &self.directions[direction.index()] {
                total.add(way);
                directions.push(self.direction(direction.name(), way, |of| of == direction));
            }
        }
        if directions.len() != 1 {
            directions.push(self.direction(TOTAL, &total, |_| true));
        }
        ReplicatedPackets {
            directions,
            truncated: (self.truncated, self.truncated_bytes),
            samplings: self.samplings.iter().map(|&(level, volume)| (1 << level, volume)).collect(),
            published: prototype.map(Prototype::compute),
            unnamed: self.unnamed,
            limit: self.memory,
            memory,
        }
    }

    fn direction(
        &self,
        name: &'static str,
        way: &Way,
        is: impl Fn(Direction) -> bool,
    ) -> DirectionReplicated {
        let mut services: HashMap<(u8, u16), Replication> = HashMap::new();
        for ((direction, protocol, port), sums) in &self.services {
            if is(*direction) {
                services.entry((*protocol, *port)).or_default().add(sums);
            }
        }
        let mut services: Vec<_> = services.into_iter().collect();
        services.sort_unstable_by_key(|&(service, sums)| (std::cmp::Reverse(sums.volume), service));
        let services = services
            .into_iter()
            .take(TOP)
            .map(|((protocol, port), sums)| (service::short(protocol, port), sums));
        let traffic = [("TCP", way.tcp), ("UDP", way.udp), ("HTTP, by port", way.http)];
        let traffic =
            traffic.into_iter().map(|(name, sums)| (name.to_owned(), sums)).chain(services);
        let in_use = |bytes: &&(u64, u64)| bytes.1 > 0;
        let lengths: Vec<_> =
            way.lengths.iter().enumerate().map(|(len, &bytes)| (len as u64, bytes)).collect();
        let intervals: Vec<_> =
            way.intervals.iter().enumerate().map(|(bin, &bytes)| (bin_end(bin), bytes)).collect();
        DirectionReplicated {
            direction: name,
            all: way.all,
            traffic: traffic.filter(|(_, sums)| sums.packets > 0).collect(),
            saved: way.saved,
            within: way.windows,
            by_length: lengths.iter().filter(in_use).copied().collect(),
            by_interval: intervals.iter().filter(in_use).copied().collect(),
        }
    }
}

#[cfg(test)]
mod tests;
