//! Packets in batches, the caches they enter, and the matches of the reference algorithm.

use crate::prefix::Prefixes;
use oncewire_codec::matcher::Match;
use oncewire_codec::{ConfigError, Geometry, Log};
pub use oncewire_packet::FlowKey;
use serde::Serialize;
use std::collections::VecDeque;

/// The direction of a packet, relative to the inside networks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Direction {
    /// No inside networks are known: all packets share one cache.
    #[default]
    All,
    /// From inside to outside.
    Outbound,
    /// From outside to inside.
    Inbound,
    /// From inside to inside.
    Internal,
    /// From outside to outside.
    Transit,
    /// Inside networks are known, but the packet has no addresses.
    Unknown,
}

impl Direction {
    /// All directions.
    pub const ALL: [Direction; 6] = [
        Direction::All,
        Direction::Outbound,
        Direction::Inbound,
        Direction::Internal,
        Direction::Transit,
        Direction::Unknown,
    ];

    /// Its name in tables.
    pub fn name(self) -> &'static str {
        match self {
            Direction::All => "all",
            Direction::Outbound => "outbound",
            Direction::Inbound => "inbound",
            Direction::Internal => "internal",
            Direction::Transit => "transit",
            Direction::Unknown => "unknown",
        }
    }

    /// Its index in [`Direction::ALL`].
    pub fn index(self) -> usize {
        self as usize
    }

    /// The direction of a flow, given the inside networks. [`Direction::All`] if there are none.
    pub fn of_flow(flow: &FlowKey, inside: Option<&Prefixes>) -> Direction {
        let Some(inside) = inside else { return Direction::All };
        match (inside.contains(flow.source), inside.contains(flow.destination)) {
            (true, false) => Direction::Outbound,
            (false, true) => Direction::Inbound,
            (true, true) => Direction::Internal,
            (false, false) => Direction::Transit,
        }
    }
}

/// The transport of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// TCP: sequence number of the first payload byte (of the SYN, if it is set), and the flags
    /// byte.
    Tcp {
        /// Sequence number.
        seq: u32,
        /// FIN 1, SYN 2, RST 4, PSH 8, ACK 16.
        flags: u8,
    },
    /// UDP.
    Udp,
    /// Neither TCP nor UDP with readable headers: it only counts as bytes on the wire.
    Other,
}

/// One packet of the trace.
#[derive(Clone, Copy, Debug)]
pub struct Packet {
    /// Capture time in nanoseconds since the Unix epoch. Usually, but not always, ascending.
    pub time: i64,
    /// Its direction.
    pub direction: Direction,
    /// Its flow. `None` for [`Kind::Other`].
    pub flow: Option<FlowKey>,
    /// [`FlowKey::hash64`] of its flow.
    pub flow_hash: u64,
    /// Its transport.
    pub kind: Kind,
    /// The port that identifies its service: the well-known one of the two, otherwise the lower. 0
    /// for [`Kind::Other`].
    pub service: u16,
    /// Bytes on the wire, all headers and padding included.
    pub wire: u32,
    /// Payload bytes on the wire that were not captured.
    pub missing: u32,
    /// Position of the captured payload in the batch.
    start: u32,
    /// Length of the captured payload in bytes, at most 65,535. The last fragment of a datagram
    /// carries the whole payload.
    pub len: u32,
    /// Offset of the payload in the cache of its direction.
    pub offset: u64,
}

impl Packet {
    /// Splits the packet and its payload into pieces of at most [`LONGEST`] bytes: before
    /// segmentation offload, a captured packet may be longer than any packet on the wire. Wire
    /// bytes, sequence numbers and flags are distributed over the pieces; headers go with the
    /// first.
    pub(crate) fn pieces<'a>(
        &self,
        payload: &'a [u8],
    ) -> impl Iterator<Item = (Packet, &'a [u8])> + use<'a> {
        const FIN: u8 = 1;
        const SYN: u8 = 2;
        let whole = *self;
        // An empty payload is one piece too.
        let last = payload.len().saturating_sub(1) / LONGEST;
        (0..=last).map(move |index| {
            let before = index * LONGEST;
            let piece = &payload[before..payload.len().min(before + LONGEST)];
            let mut packet = whole;
            packet.missing = if index == last { whole.missing } else { 0 };
            packet.wire = match index {
                0 => whole.wire.saturating_sub((payload.len() - piece.len()) as u32),
                _ => piece.len() as u32,
            };
            if let Kind::Tcp { seq, flags } = &mut packet.kind {
                if index > 0 {
                    *seq = seq.wrapping_add(before as u32).wrapping_add((*flags & SYN != 0).into());
                    *flags &= !SYN;
                }
                if index < last {
                    *flags &= !FIN;
                }
            }
            (packet, piece)
        })
    }

    /// A packet that counts as bytes on the wire only.
    pub(crate) fn other(time: i64, wire: u32) -> Packet {
        Packet {
            time,
            direction: Direction::All,
            flow: None,
            flow_hash: 0,
            kind: Kind::Other,
            service: 0,
            wire,
            missing: 0,
            start: 0,
            len: 0,
            offset: 0,
        }
    }
}

/// Longest payload of a packet in a batch, in bytes.
const LONGEST: usize = 65_535;

/// Packets that are processed together.
#[derive(Debug, Default)]
pub struct Batch {
    packets: Vec<Packet>,
    bytes: Vec<u8>,
}

impl Batch {
    /// The packets, in the order of the trace.
    pub fn packets(&self) -> &[Packet] {
        &self.packets
    }

    /// The captured payload of one of them.
    #[inline]
    pub fn payload(&self, packet: &Packet) -> &[u8] {
        &self.bytes[packet.start as usize..][..packet.len as usize]
    }

    /// Bytes of payload in the batch.
    pub fn payload_bytes(&self) -> usize {
        self.bytes.len()
    }

    /// Adds a packet with its payload; `start` and `len` are set here.
    pub(crate) fn push(&mut self, mut packet: Packet, payload: &[u8]) {
        packet.start = self.bytes.len() as u32;
        packet.len = payload.len() as u32;
        self.bytes.extend_from_slice(payload);
        self.packets.push(packet);
    }

    pub(crate) fn clear(&mut self) {
        self.packets.clear();
        self.bytes.clear();
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.packets.is_empty()
    }
}

/// A packet whose payload lies in a cache.
#[derive(Clone, Copy, Debug)]
pub struct Cached {
    /// Offset of its payload.
    pub offset: u64,
    /// Length of its payload.
    pub len: u32,
    /// When it was seen, in nanoseconds since the Unix epoch.
    pub time: i64,
    /// Its flow.
    pub flow: FlowKey,
}

/// The content log of one direction, shared by all algorithms that keep content, and the packets in
/// it.
///
/// Algorithms with smaller caches look back less far. Algorithms that keep no content, or one cache
/// per host pair, have their own state.
#[derive(Debug)]
pub struct Cache {
    log: Log,
    packets: VecDeque<Cached>,
    /// Most packets that are remembered.
    max_packets: usize,
}

impl Cache {
    fn new(geometry: Geometry, max_packets: usize) -> Result<Cache, ConfigError> {
        Ok(Cache { log: Log::new(geometry)?, packets: VecDeque::new(), max_packets })
    }

    /// The content.
    pub fn log(&self) -> &Log {
        &self.log
    }

    /// The packet whose payload contains `offset`. `None` if it was evicted, or forgotten because
    /// there are too many small packets.
    pub fn packet_at(&self, offset: u64) -> Option<&Cached> {
        let after = self.packets.partition_point(|packet| packet.offset <= offset);
        let packet = self.packets.get(after.checked_sub(1)?)?;
        (offset < packet.offset + u64::from(packet.len)).then_some(packet)
    }

    fn append(&mut self, packet: &mut Packet, payload: &[u8]) {
        if payload.is_empty() {
            packet.offset = self.log.end();
            return;
        }
        packet.offset = self.log.append(payload);
        let gone = self.log.end().saturating_sub(self.log.geometry().capacity());
        while self.packets.len() >= self.max_packets
            || self.packets.front().is_some_and(|first| first.offset < gone)
        {
            self.packets.pop_front();
        }
        let flow = packet.flow.expect("a packet with payload has a flow");
        self.packets.push_back(Cached {
            offset: packet.offset,
            len: packet.len,
            time: packet.time,
            flow,
        });
    }
}

/// Packets of each direction's cache that are remembered, 64 bytes each.
const MAX_CACHED: usize = 1 << 20;

/// The caches of all directions.
#[derive(Debug)]
pub struct Caches {
    geometry: Geometry,
    caches: [Option<Cache>; Direction::ALL.len()],
}

impl Caches {
    /// Caches of `bytes` each, created when a direction first has payload, with room for `batch`
    /// bytes ahead of the current packet.
    ///
    /// # Errors
    /// [`ConfigError::Capacity`] if that is too much.
    pub(crate) fn new(bytes: u64, batch: usize) -> Result<Caches, ConfigError> {
        // Twice the batch and a packet: what is read ahead, and padding at the end of a generation.
        let capacity = bytes.saturating_add(2 * batch as u64 + (64 << 10));
        Ok(Caches {
            geometry: Geometry::new(capacity, 0)?,
            caches: [const { None }; Direction::ALL.len()],
        })
    }

    /// Appends the payloads of a batch to the caches and records their offsets.
    ///
    /// # Errors
    /// [`ConfigError::Memory`] if the cache of a new direction cannot be allocated.
    pub(crate) fn append(&mut self, batch: &mut Batch) -> Result<(), ConfigError> {
        let Batch { packets, bytes } = batch;
        for packet in packets {
            let cache = &mut self.caches[packet.direction.index()];
            if cache.is_none() && packet.len > 0 {
                *cache = Some(Cache::new(self.geometry, MAX_CACHED)?);
            }
            if let Some(cache) = cache {
                cache.append(packet, &bytes[packet.start as usize..][..packet.len as usize]);
            }
        }
        Ok(())
    }

    /// The cache of a direction. `None` until it has payload.
    pub fn get(&self, direction: Direction) -> Option<&Cache> {
        self.caches[direction.index()].as_ref()
    }
}

/// The cost of matches on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Charge {
    /// Bytes of each match (EndRE, section 5.2.2: 4, offset and length).
    pub per_match: u32,
    /// Bytes of the shim of each packet that has any match.
    pub per_packet: u32,
}

impl Charge {
    /// Bytes by which a packet shrinks. Matches, and shims, that cost more than they save are not
    /// used.
    pub fn saved(&self, matches: &[Match]) -> u32 {
        matches
            .iter()
            .map(|found| found.len.saturating_sub(self.per_match))
            .sum::<u32>()
            .saturating_sub(self.per_packet)
    }
}

/// The matches of a batch's packets by one algorithm.
#[derive(Debug, Default)]
pub struct Matches {
    found: Vec<Match>,
    /// Where the matches of each packet end in `found`.
    ends: Vec<u32>,
}

impl Matches {
    /// The matches of packet `index` of the batch: ascending, disjoint, positions within its
    /// payload, sources in the cache of its direction.
    #[inline]
    pub fn of(&self, index: usize) -> &[Match] {
        let start = if index == 0 { 0 } else { self.ends[index - 1] as usize };
        &self.found[start..self.ends[index] as usize]
    }

    pub(crate) fn clear(&mut self) {
        self.found.clear();
        self.ends.clear();
    }

    /// Lets `find` append the matches of the next packet.
    pub(crate) fn push_with(&mut self, find: impl FnOnce(&mut Vec<Match>)) {
        find(&mut self.found);
        self.ends.push(self.found.len() as u32);
    }
}

/// A batch as an [`Observer`](crate::Observer) sees it.
#[derive(Clone, Copy, Debug)]
pub struct View<'a> {
    /// The packets.
    pub batch: &'a Batch,
    /// The caches, which already contain the batch's payloads.
    pub caches: &'a Caches,
    /// Matches of the reference algorithm: max-match with MAXP or the chosen sampler, and the
    /// chosen cache.
    pub matches: &'a Matches,
    /// The cost of its matches.
    pub charge: Charge,
    /// Size of its cache in bytes of payload.
    pub cache: u64,
}

impl View<'_> {
    /// How far back the content of a match lies, in bytes of cached payload, from the match's own
    /// place.
    pub fn distance(&self, packet: &Packet, found: &Match) -> u64 {
        packet.offset + u64::from(found.at) - found.source
    }

    /// The packet that a match's first byte is taken from: the most recent one with that content.
    /// `None` if it is not remembered.
    pub fn origin(&self, packet: &Packet, found: &Match) -> Option<&Cached> {
        self.caches.get(packet.direction)?.packet_at(found.source)
    }

    /// Bytes by which the reference algorithm shrinks packet `index`.
    pub fn saved(&self, index: usize) -> u32 {
        self.charge.saved(self.matches.of(index))
    }
}

#[cfg(test)]
pub(crate) mod testing;
