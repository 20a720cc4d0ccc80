//! Volumes and redundancy profiles as ingresses count them.
//!
//! Each ingress has one store of its last packets and finds repeats with the published max-match
//! (thesis, sections 2.2 and 3.4), as if it could encode every match. So match(p, q) counts
//! everything that could be decoded, wherever it is cached. The slices of a node divide its store.

mod copies;
mod measurement;
mod meter;

pub(crate) use measurement::{escape, unescape};
pub use meter::{Counts, Meter};

use std::{
    collections::{BTreeMap, HashMap, VecDeque, hash_map::Entry},
    fmt::Write as _,
    net::IpAddr,
};

use copies::Copies;
use oncewire_codec::sampler::Sampler;
use oncewire_codec::{
    Geometry, Kernels, Log,
    matcher::{Density, Match as Found, Matcher},
};
use oncewire_family::{BucketShape, BucketTable, PublishedMaxMatch, SamplerKind};
use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed};

use crate::{
    Error, Instance, Match, Measured, NodeId, Profile,
    error::ProfileError,
    packet::{Header, Packet},
};

/// How ingresses count.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// Which of several packets with the same content a match refers to.
    pub older: Older,
    /// Bytes under a fingerprint: the shortest match. 12 to 64.
    pub window: usize,
    /// Sampling period in bytes, 4 to 1,024.
    pub period: usize,
    /// Sampler.
    pub sampler: SamplerKind,
    /// Most fingerprints of a packet; no limit if `None`.
    pub fingerprints: Option<usize>,
    /// Most matches of a packet: the longest are counted (thesis, section 3.5: three).
    pub matches: usize,
    /// Shape of the fingerprint table.
    pub table: BucketShape,
    /// Epochs at the beginning that fill the stores and are not counted.
    pub warm_up: f64,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            older: Older::First,
            window: oncewire_codec::DEFAULT_WINDOW,
            period: oncewire_codec::DEFAULT_PERIOD,
            sampler: SamplerKind::Maxp,
            fingerprints: None,
            matches: 3,
            // Four slots per fingerprint, which has eight possible slots: insertions practically
            // never fail.
            table: BucketShape { slots: 4, hashes: 2, factor: 1.0 },
            warm_up: 1.0,
        }
    }
}

fn wrong<T>(what: &str, value: f64, range: String) -> Result<T, Error> {
    Err(ProfileError::Range { what: what.into(), value, range }.into())
}

impl Settings {
    /// Checks how matches are found.
    pub(crate) fn check(&self) -> Result<(), Error> {
        if !(12..=64).contains(&self.window) {
            return wrong("the window in bytes", self.window as f64, "12 to 64".into());
        }
        if !(4..=1024).contains(&self.period) {
            return wrong("the sampling period in bytes", self.period as f64, "4 to 1,024".into());
        }
        Ok(())
    }
}

/// Refuses a packet that is larger than IP allows.
pub(crate) fn check_payload(packet: &Packet) -> Result<(), Error> {
    if packet.payload.len() as f64 > MIN_STORE {
        let value = packet.payload.len() as f64;
        return wrong("the payload of a packet in bytes", value, "what IP carries".into());
    }
    Ok(())
}

/// Which of several packets with the same content a match refers to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Older {
    /// The first in the store: matched bytes are null in the packet that repeated them, and no
    /// later match refers to those (thesis, section 3.4).
    #[default]
    First,
    /// The last, as without SmartRE.
    Last,
}

/// Volumes and profile, per epoch.
#[derive(Clone, Debug, PartialEq)]
pub struct Measurement {
    /// Bytes of each path.
    pub volumes: Vec<f64>,
    /// Matches.
    pub profile: Measured,
}

/// What a [`Profiler`] has seen since its start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Seen {
    /// Packets.
    pub packets: u64,
    /// Their bytes on the wire.
    pub bytes: u64,
    /// Packets that repeat a whole stored packet of their flow: they are sent plain and match
    /// nothing (thesis, section 3.4).
    pub retransmissions: u64,
    /// Matches, of all packets but retransmissions.
    pub matches: u64,
    /// Their bytes.
    pub match_bytes: u64,
    /// Fingerprints for which a table had no room.
    pub dropped: u64,
}

/// Counts volumes and matches of packets.
pub struct Profiler<'a> {
    instance: &'a Instance,
    settings: Settings,
    stores: Vec<Option<Store>>,
    volumes: Vec<u64>,
    pairs: HashMap<(u32, u32), (u64, u64)>,
    copies: Copies,
    /// Nanoseconds before which nothing is counted.
    begin: u64,
    last: u64,
    seen: Seen,
    buffers: Buffers,
}

/// Memory that [`Store::push`] reuses.
#[derive(Default)]
pub(crate) struct Buffers {
    found: Vec<Found>,
    block: Vec<u8>,
}

/// An ingress's packets: the source of matches, for this module's profiles and for
/// [`crate::ra::profile`].
pub(crate) struct Store {
    log: Log,
    matcher: PublishedMaxMatch<BucketTable>,
    /// Packets in the log, in order of offset.
    packets: VecDeque<Stored>,
    /// How many of them have a hash.
    hashes: HashMap<u64, u32>,
}

struct Stored {
    offset: u64,
    len: u32,
    path: u32,
    /// Hash of flow and payload.
    hash: u64,
}

/// A part of a packet that is in the store.
pub(crate) struct Piece {
    /// Where it begins in the packet's payload.
    pub(crate) at: usize,
    /// Bytes.
    pub(crate) len: usize,
    /// Path of the stored packet.
    pub(crate) path: u32,
    /// Where it begins in the store.
    pub(crate) source: u64,
}

/// What became of a packet.
pub(crate) struct Looked {
    /// Parts that were stored before: disjoint, in order of position. None of a retransmission.
    pub(crate) pieces: Vec<Piece>,
    /// Whether it repeats a whole stored packet of its flow.
    pub(crate) retransmission: bool,
    /// Where its payload is in the store now.
    pub(crate) offset: u64,
    /// Content before this offset has left the store.
    pub(crate) floor: u64,
}

impl<'a> Profiler<'a> {
    /// Counts packets of `instance`'s paths. A store takes memory as it fills, up to its node's and
    /// about as much again for fingerprints at the default period.
    ///
    /// # Errors
    /// Settings out of range; a store too small for a packet, or larger than memory can be.
    pub fn new(instance: &'a Instance, settings: Settings) -> Result<Self, Error> {
        settings.check()?;
        if !(settings.warm_up >= 0.0 && settings.warm_up * instance.epoch.0 < MAX_SECONDS) {
            return wrong(
                "the warm-up in epochs",
                settings.warm_up,
                format!("0 or more, and less than {MAX_SECONDS} s"),
            );
        }
        for ingress in 0..instance.ingresses.len() {
            let memory = memory(instance, ingress);
            if !(memory >= MIN_STORE && memory <= Geometry::MAX_CAPACITY as f64) {
                let range = format!(
                    "at least {MIN_STORE}, the largest packet, and at most {}",
                    Geometry::MAX_CAPACITY
                );
                return wrong("an ingress's store in bytes", memory, range);
            }
        }
        Ok(Self {
            instance,
            stores: instance.ingresses.iter().map(|_| None).collect(),
            volumes: vec![0; instance.paths.len()],
            pairs: HashMap::new(),
            copies: Copies::default(),
            begin: (settings.warm_up * instance.epoch.0 * NANOS) as u64,
            last: 0,
            seen: Seen::default(),
            buffers: Buffers::default(),
            settings,
        })
    }

    /// Counts a packet. Packets come in order of time; one that is late counts at the time of the
    /// last.
    ///
    /// # Errors
    /// No memory for a store; a packet of a path that does not exist, or larger than IP allows.
    pub fn push(&mut self, packet: &Packet) -> Result<(), Error> {
        let Some(path) = self.instance.paths.get(packet.path as usize) else {
            return Err(ProfileError::UnknownPath {
                path: packet.path as usize,
                paths: self.instance.paths.len(),
            }
            .into());
        };
        check_payload(packet)?;
        self.last = self.last.max(packet.time);
        let counts = self.last >= self.begin;
        let wire = u64::from(packet.header_bytes) + packet.payload.len() as u64;
        self.seen.packets += 1;
        self.seen.bytes += wire;
        if counts {
            self.volumes[packet.path as usize] += wire;
        }
        if packet.payload.is_empty() {
            return Ok(());
        }
        let store = match &mut self.stores[path.ingress as usize] {
            Some(store) => store,
            none => none
                .insert(Store::new(memory(self.instance, path.ingress as usize), &self.settings)?),
        };
        let looked = store.push(packet, &self.settings, &mut self.buffers);
        self.seen.retransmissions += u64::from(looked.retransmission);
        for piece in &looked.pieces {
            self.seen.matches += 1;
            self.seen.match_bytes += piece.len as u64;
            if counts {
                let pair = self.pairs.entry((packet.path, piece.path)).or_default();
                *pair = (pair.0 + 1, pair.1 + piece.len as u64);
            }
            self.copies.repeat(path.ingress, piece, counts);
        }
        self.copies.forget(path.ingress, looked.floor);
        Ok(())
    }

    /// What was seen, warm-up included.
    pub fn seen(&self) -> Seen {
        Seen {
            dropped: self
                .stores
                .iter()
                .flatten()
                .map(|store| store.matcher.table().dropped())
                .sum(),
            ..self.seen
        }
    }

    /// The mean over the epochs from the warm-up's end to the last packet.
    ///
    /// # Errors
    /// Nothing came after the warm-up.
    pub fn measurement(&self) -> Result<Measurement, Error> {
        self.measurement_until(self.last)
    }

    /// The mean over the epochs from the end of the warm-up to `end`, in nanoseconds, if the end of
    /// the traffic is known.
    ///
    /// # Errors
    /// `end` does not lie after the warm-up.
    pub fn measurement_until(&self, end: u64) -> Result<Measurement, Error> {
        let epochs = end.saturating_sub(self.begin) as f64 / NANOS / self.instance.epoch.0;
        if epochs <= 0.0 {
            return Err(ProfileError::TooShort {
                seconds: end as f64 / NANOS,
                fill: self.begin as f64 / NANOS,
            }
            .into());
        }
        let mut pairs: Vec<(u32, u32, Match)> = self
            .pairs
            .iter()
            .map(|(&(p, q), &(count, bytes))| {
                (p, q, Match { count: count as f64 / epochs, length: bytes as f64 / count as f64 })
            })
            .collect();
        pairs.sort_unstable_by_key(|pair| (pair.0, pair.1));
        Ok(Measurement {
            volumes: self.volumes.iter().map(|&bytes| bytes as f64 / epochs).collect(),
            profile: Measured { pairs, copies: self.copies.mean() },
        })
    }
}

const NANOS: f64 = 1e9;
/// The largest payload that IP carries.
const MIN_STORE: f64 = 65_535.0;
/// A year.
const MAX_SECONDS: f64 = 3.2e7;

/// Bytes of an ingress's store: of the slices of a node, each has a part by volume.
fn memory(instance: &Instance, ingress: usize) -> f64 {
    let slices = &instance.ingresses[instance.slices_of(ingress)];
    let volume: f64 = slices.iter().map(|slice| slice.volume).sum();
    let share = if slices.len() > 1 { instance.ingresses[ingress].volume / volume } else { 1.0 };
    slices[0].memory * share
}

impl Store {
    pub(crate) fn new(memory: f64, settings: &Settings) -> Result<Self, Error> {
        let error = |error: oncewire_codec::ConfigError| ProfileError::Store {
            bytes: memory,
            reason: error.to_string(),
        };
        let geometry = Geometry::new(memory as u64, 0).map_err(error)?;
        let entries = (memory / settings.sampler.expected_rate(settings.period)).ceil() as u64;
        let table = BucketTable::new(geometry, entries, settings.table).map_err(error)?;
        let matcher = PublishedMaxMatch::new(
            settings.sampler.boxed(),
            table,
            Kernels::detect(),
            settings.window,
            0,
            settings.fingerprints,
        );
        Ok(Self {
            log: Log::new(geometry).map_err(error)?,
            matcher,
            packets: VecDeque::new(),
            hashes: HashMap::new(),
        })
    }

    /// Looks a packet up, then stores it. Its payload is not empty and no larger than IP allows.
    pub(crate) fn push(
        &mut self,
        packet: &Packet,
        settings: &Settings,
        buffers: &mut Buffers,
    ) -> Looked {
        let hash = hash(packet);
        let offset = self.log.geometry().place(self.log.end(), packet.payload.len());
        let floor = self.log.geometry().floor(offset, packet.payload.len());
        let mut pieces = self.find(packet, settings, &mut buffers.found);
        let retransmission = self.hashes.contains_key(&hash);
        if retransmission {
            pieces.clear();
        }
        self.keep(packet, hash, &pieces, settings, &mut buffers.block);
        Looked { pieces, retransmission, offset, floor }
    }

    /// Parts of a packet that are in the store: disjoint, each of one stored packet, in order of
    /// position.
    fn find(&mut self, packet: &Packet, settings: &Settings, found: &mut Vec<Found>) -> Vec<Piece> {
        let payload = &packet.payload;
        let offset = self.log.geometry().place(self.log.end(), payload.len());
        let floor = self.log.geometry().floor(offset, payload.len());
        while let Some(oldest) = self.packets.front()
            && oldest.offset < floor
        {
            if let Entry::Occupied(mut held) = self.hashes.entry(oldest.hash) {
                *held.get_mut() -= 1;
                if *held.get() == 0 {
                    held.remove();
                }
            }
            self.packets.pop_front();
        }
        found.clear();
        self.matcher.look(&self.log, payload, offset, Density::Period(settings.period), found);
        let mut pieces = Vec::new();
        for found in found.iter() {
            // Equal bytes may span stored packets; a match refers to one.
            let (from, to) = (found.source, found.source + u64::from(found.len));
            let first = self
                .packets
                .partition_point(|stored| stored.offset + u64::from(stored.len) <= from);
            for stored in self.packets.range(first..).take_while(|stored| stored.offset < to) {
                let (start, end) =
                    (from.max(stored.offset), to.min(stored.offset + u64::from(stored.len)));
                let len = (end - start) as usize;
                if len < settings.window {
                    continue;
                }
                pieces.push(Piece {
                    at: found.at as usize + (start - from) as usize,
                    len,
                    path: stored.path,
                    source: start,
                });
            }
        }
        if pieces.len() > settings.matches {
            pieces.sort_by_key(|piece| std::cmp::Reverse(piece.len));
            pieces.truncate(settings.matches);
            pieces.sort_by_key(|piece| piece.at);
        }
        pieces
    }

    /// Stores a packet of which `pieces` matched.
    fn keep(
        &mut self,
        packet: &Packet,
        hash: u64,
        pieces: &[Piece],
        settings: &Settings,
        block: &mut Vec<u8>,
    ) {
        let density = Density::Period(settings.period);
        let offset = self.log.geometry().place(self.log.end(), packet.payload.len());
        self.packets.push_back(Stored {
            offset,
            len: packet.payload.len() as u32,
            path: packet.path,
            hash,
        });
        *self.hashes.entry(hash).or_default() += 1;
        if settings.older == Older::Last || pieces.is_empty() {
            self.log.write(offset, &packet.payload);
            self.matcher.note(&packet.payload, offset, density);
            return;
        }
        block.clear();
        block.extend_from_slice(&packet.payload);
        let mut fresh = 0;
        for piece in pieces {
            // Null bytes would match null bytes of a packet; these match only by chance.
            let nothing = block[piece.at..piece.at + piece.len].iter_mut();
            nothing.zip(0u64..).for_each(|(byte, at)| {
                *byte = !*byte ^ (at.wrapping_mul(0x9e37_79b9) >> 16 & 0x7f) as u8
            });
            self.note(&packet.payload, fresh, piece.at, offset, density);
            fresh = piece.at + piece.len;
        }
        self.note(&packet.payload, fresh, packet.payload.len(), offset, density);
        self.log.write(offset, block);
    }

    fn note(&mut self, payload: &[u8], from: usize, to: usize, offset: u64, density: Density) {
        if from < to {
            self.matcher.note(&payload[from..to], offset + from as u64, density);
        }
    }
}

/// Hash of flow and payload. Packets with equal hashes count as equal; 64 bits are enough for
/// counting.
fn hash(packet: &Packet) -> u64 {
    let Header { source, destination, source_port, destination_port, protocol, .. } = packet.header;
    let mut flow = [0; 37];
    let octets = |address: IpAddr| match address {
        IpAddr::V4(address) => address.to_ipv6_mapped().octets(),
        IpAddr::V6(address) => address.octets(),
    };
    flow[..16].copy_from_slice(&octets(source));
    flow[16..32].copy_from_slice(&octets(destination));
    flow[32..34].copy_from_slice(&source_port.to_be_bytes());
    flow[34..36].copy_from_slice(&destination_port.to_be_bytes());
    flow[36] = protocol;
    xxh3_64_with_seed(&packet.payload, xxh3_64(&flow))
}

#[cfg(test)]
mod tests;
