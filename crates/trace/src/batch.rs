//! What passes through a study: packets in batches, the caches that they enter, and the matches that the reference algorithm found.

use oncewire_codec::matcher::Match;
use oncewire_codec::{ConfigError, Geometry, Log};
use serde::Serialize;
use std::collections::VecDeque;
use std::net::IpAddr;

/// Which way a packet goes, as seen from the networks that the user called inside.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Direction {
    /// No inside was named: all packets share one cache.
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
    /// An inside was named, but the packet has no addresses.
    Unknown,
}

impl Direction {
    /// All of them.
    pub const ALL: [Direction; 6] =
        [Direction::All, Direction::Outbound, Direction::Inbound, Direction::Internal, Direction::Transit, Direction::Unknown];

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

    /// Its place in [`Direction::ALL`].
    pub fn index(self) -> usize {
        self as usize
    }
}

/// A flow's five-tuple, in the direction of its packets: the two directions of a connection are two keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FlowKey {
    /// Address of the sender.
    pub source: IpAddr,
    /// Address of the receiver.
    pub destination: IpAddr,
    /// Port of the sender.
    pub source_port: u16,
    /// Port of the receiver.
    pub destination_port: u16,
    /// IP protocol number: 6 is TCP, 17 is UDP.
    pub protocol: u8,
}

impl FlowKey {
    /// The other direction.
    pub fn reversed(self) -> FlowKey {
        let FlowKey { source, destination, source_port, destination_port, protocol } = self;
        FlowKey {
            source: destination,
            destination: source,
            source_port: destination_port,
            destination_port: source_port,
            protocol,
        }
    }

    /// The two addresses, the lower one first: equal for both directions.
    pub fn pair(self) -> (IpAddr, IpAddr) {
        (self.source.min(self.destination), self.source.max(self.destination))
    }
}

/// What is known of a packet beyond its payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// TCP: sequence number of the first payload byte (of the SYN, if it is set), and the flags byte.
    Tcp {
        /// Sequence number.
        seq: u32,
        /// FIN 1, SYN 2, RST 4, PSH 8, ACK 16.
        flags: u8,
    },
    /// UDP.
    Udp,
    /// Nothing that can be read to a payload: it counts as bytes on the wire only.
    Other,
}

/// One packet of the trace.
#[derive(Clone, Copy, Debug)]
pub struct Packet {
    /// When it was seen, in nanoseconds since the Unix epoch. Mostly, not always, ascending.
    pub time: i64,
    /// Which way it goes.
    pub direction: Direction,
    /// Its flow. `None` for [`Kind::Other`].
    pub flow: Option<FlowKey>,
    /// Hash of the flow's key; the two directions of a connection have different ones.
    pub flow_hash: u64,
    /// What it is.
    pub kind: Kind,
    /// The port that says which service it belongs to: the well-known one of the two, else the lower. 0 for [`Kind::Other`].
    pub service: u16,
    /// Bytes on the wire, all headers and padding included.
    pub wire: u32,
    /// Payload bytes on the wire that were not captured.
    pub missing: u32,
    /// Position of the captured payload in the batch.
    start: u32,
    /// Length of the captured payload in bytes, at most 65,535. The last fragment of a datagram carries the payload of all.
    pub len: u32,
    /// Offset of the payload in the cache of its direction.
    pub offset: u64,
}

impl Packet {
    /// The packet with its payload, in pieces of at most [`LONGEST`] bytes: what a network card was to cut into segments may be longer than
    /// any packet on the wire. Wire bytes, sequence numbers and flags are shared out among the pieces; headers go with the first.
    pub(crate) fn pieces<'a>(&self, payload: &'a [u8]) -> impl Iterator<Item = (Packet, &'a [u8])> + use<'a> {
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

/// Packets that pass through the study together.
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

/// The content log of one direction, shared by all algorithms that keep content, and whose packets lie where in it.
///
/// Algorithms with smaller caches look back less far; those with none of its content, or with a cache per host pair, have their own.
#[derive(Debug)]
pub struct Cache {
    log: Log,
    packets: VecDeque<Cached>,
    /// Most packets whose origin is known.
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

    /// The packet whose payload holds `offset`. `None` if it was evicted, or if the trace has so many small packets that this one is
    /// not remembered.
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
        while self.packets.len() >= self.max_packets || self.packets.front().is_some_and(|first| first.offset < gone) {
            self.packets.pop_front();
        }
        let flow = packet.flow.expect("a packet with payload has a flow");
        self.packets.push_back(Cached { offset: packet.offset, len: packet.len, time: packet.time, flow });
    }
}

/// Packets of each direction's cache whose origin is remembered: 64 bytes each.
const MAX_CACHED: usize = 1 << 20;

/// The caches of all directions.
#[derive(Debug)]
pub struct Caches {
    geometry: Geometry,
    caches: [Option<Cache>; Direction::ALL.len()],
}

impl Caches {
    /// Caches of `bytes` each, made when a direction first has payload, and room for `batch` bytes ahead of the packet in work.
    ///
    /// # Errors
    /// [`ConfigError::Capacity`] if that is too much.
    pub(crate) fn new(bytes: u64, batch: usize) -> Result<Caches, ConfigError> {
        // Twice the batch and a packet: what is read ahead, and padding at the end of a lap.
        let capacity = bytes.saturating_add(2 * batch as u64 + (64 << 10));
        Ok(Caches { geometry: Geometry::new(capacity, 0)?, caches: [const { None }; Direction::ALL.len()] })
    }

    /// Puts the payloads of a batch into the caches and notes where they lie.
    ///
    /// # Errors
    /// [`ConfigError::Memory`] if a new direction's cache cannot be had.
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

    /// The cache of a direction. `None` as long as it had no payload.
    pub fn get(&self, direction: Direction) -> Option<&Cache> {
        self.caches[direction.index()].as_ref()
    }
}

/// What matches cost on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Charge {
    /// Bytes of each match (EndRE, section 5.2.2: 4, offset and length).
    pub per_match: u32,
    /// Bytes of the shim of each packet that has any match.
    pub per_packet: u32,
}

impl Charge {
    /// Bytes that a packet shrinks by. Matches that cost more than they save are not taken, nor is a shim that does.
    pub fn saved(&self, matches: &[Match]) -> u32 {
        matches.iter().map(|found| found.len.saturating_sub(self.per_match)).sum::<u32>().saturating_sub(self.per_packet)
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
    /// The matches of the batch's packet number `index`: ascending, disjoint, positions within its payload, sources in the cache of
    /// its direction.
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

/// What an [`Observer`] sees of a batch.
#[derive(Clone, Copy, Debug)]
pub struct View<'a> {
    /// The packets.
    pub batch: &'a Batch,
    /// The caches, with the batch's payloads in them already.
    pub caches: &'a Caches,
    /// Matches of the reference algorithm: max-match over MAXP, or what the user chose, with the cache that the user chose.
    pub matches: &'a Matches,
    /// What its matches cost.
    pub charge: Charge,
    /// Size of its cache in bytes of payload.
    pub cache: u64,
}

impl View<'_> {
    /// How far back the content of a match lies, in bytes of cached payload, from the match's own place.
    pub fn distance(&self, packet: &Packet, found: &Match) -> u64 {
        packet.offset + u64::from(found.at) - found.source
    }

    /// The packet that a match's first byte is taken from: the most recent one with that content. `None` if not remembered.
    pub fn origin(&self, packet: &Packet, found: &Match) -> Option<&Cached> {
        self.caches.get(packet.direction)?.packet_at(found.source)
    }

    /// Bytes that the packet number `index` shrinks by under the reference algorithm.
    pub fn saved(&self, index: usize) -> u32 {
        self.charge.saved(self.matches.of(index))
    }
}

/// Something that looks at every packet of a trace and makes a figure of it.
pub trait Observer: Send {
    /// The next batch.
    fn batch(&mut self, view: &View<'_>);

    /// The end of the trace.
    fn finish(self: Box<Self>) -> crate::results::Figure;
}

#[cfg(test)]
pub(crate) mod testing {
    //! Synthetic packets for the tests of figures.

    use super::*;
    use oncewire_codec::matcher::{Density, Matcher, PublishedMaxMatch};
    use oncewire_codec::table::CompactTable;
    use oncewire_codec::{Kernels, SamplerKind};

    /// Builds packets from their payload up: `Made::tcp("10.0.0.1:1000", "10.0.0.2:80").at(1.5).payload(&bytes)`.
    #[derive(Clone, Debug)]
    pub(crate) struct Made {
        pub(crate) packet: Packet,
        pub(crate) payload: Vec<u8>,
    }

    impl Made {
        pub(crate) fn tcp(source: &str, destination: &str) -> Made {
            Made::new(source, destination, 6, Kind::Tcp { seq: 0, flags: 16 })
        }

        pub(crate) fn udp(source: &str, destination: &str) -> Made {
            Made::new(source, destination, 17, Kind::Udp)
        }

        fn new(source: &str, destination: &str, protocol: u8, kind: Kind) -> Made {
            let (source, destination): (std::net::SocketAddr, std::net::SocketAddr) =
                (source.parse().unwrap(), destination.parse().unwrap());
            let flow = FlowKey {
                source: source.ip(),
                destination: destination.ip(),
                source_port: source.port(),
                destination_port: destination.port(),
                protocol,
            };
            let mut packet = Packet {
                time: 0,
                direction: Direction::All,
                flow: Some(flow),
                flow_hash: crate::flow_hash(&flow),
                kind,
                service: source.port().min(destination.port()),
                wire: 54,
                missing: 0,
                start: 0,
                len: 0,
                offset: 0,
            };
            if protocol == 17 {
                packet.wire = 42;
            }
            Made { packet, payload: Vec::new() }
        }

        /// Seconds since the epoch.
        pub(crate) fn at(mut self, seconds: f64) -> Made {
            self.packet.time = (seconds * 1e9) as i64;
            self
        }

        pub(crate) fn direction(mut self, direction: Direction) -> Made {
            self.packet.direction = direction;
            self
        }

        pub(crate) fn seq(mut self, seq: u32, flags: u8) -> Made {
            self.packet.kind = Kind::Tcp { seq, flags };
            self
        }

        pub(crate) fn payload(mut self, payload: &[u8]) -> Made {
            self.packet.wire += payload.len() as u32 - self.payload.len() as u32;
            self.payload = payload.to_vec();
            self
        }
    }

    /// Bytes that repeat nothing, by seed.
    pub(crate) fn noise(seed: u64, len: usize) -> Vec<u8> {
        let mut state = seed;
        std::iter::repeat_with(|| {
            state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let z = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            ((z ^ (z >> 31)) >> 24) as u8
        })
        .take(len)
        .collect()
    }

    /// Runs an observer over packets, `per_batch` at a time, with MAXP (w = 32, p = 4, so that all matches are found) over a cache of
    /// `cache` bytes a direction and 4 bytes a match.
    pub(crate) fn observe(
        mut observer: Box<dyn Observer>,
        packets: &[Made],
        cache: u64,
        per_batch: usize,
    ) -> crate::results::Figure {
        let mut caches = Caches::new(cache, 1 << 20).unwrap();
        let table = || CompactTable::<u32>::new(Geometry::new(cache + (3 << 20), 0).unwrap(), 1 << 20).unwrap();
        let mut matchers = Direction::ALL.map(|_| {
            PublishedMaxMatch::new(SamplerKind::Maxp.boxed(), table(), Kernels::detect(), 32, 1, None).with_reach(cache)
        });
        for chunk in packets.chunks(per_batch) {
            let mut batch = Batch::default();
            for made in chunk {
                batch.push(made.packet, &made.payload);
            }
            caches.append(&mut batch).unwrap();
            let mut matches = Matches::default();
            for packet in batch.packets() {
                matches.push_with(|found| {
                    if packet.len > 0 {
                        let log = caches.get(packet.direction).unwrap().log();
                        matchers[packet.direction.index()].find(
                            log,
                            batch.payload(packet),
                            packet.offset,
                            Density::Period(4),
                            found,
                        );
                    }
                });
            }
            observer.batch(&View {
                batch: &batch,
                caches: &caches,
                matches: &matches,
                charge: Charge { per_match: 4, per_packet: 0 },
                cache,
            });
        }
        observer.finish()
    }

    #[test]
    fn what_is_longer_than_a_packet_is_cut() {
        let payload = noise(1, 2 * LONGEST + 10);
        let mut whole = Made::tcp("10.0.0.1:80", "10.0.0.2:2000").seq(u32::MAX, 0b10011).payload(&payload).packet;
        whole.missing = 7;
        let pieces: Vec<_> = whole.pieces(&payload).collect();
        assert_eq!(pieces.iter().flat_map(|(_, piece)| piece.iter().copied()).collect::<Vec<u8>>(), payload);
        assert_eq!(pieces.iter().map(|(packet, _)| packet.wire).sum::<u32>(), whole.wire);
        assert_eq!(pieces.iter().map(|(packet, _)| packet.missing).collect::<Vec<_>>(), [0, 0, 7]);
        let kinds: Vec<_> = pieces.iter().map(|(packet, _)| packet.kind).collect();
        // The SYN takes a sequence number before the payload, and the first piece has it.
        let tcp = |seq, flags| Kind::Tcp { seq, flags };
        assert_eq!(kinds, [tcp(u32::MAX, 0b10010), tcp(65_535, 0b10000), tcp(131_070, 0b10001)]);
        assert_eq!(whole.pieces(&payload[..100]).count(), 1);
        assert_eq!(whole.pieces(&[]).count(), 1);
    }

    #[test]
    fn a_repeated_payload_is_one_match_with_its_origin() {
        struct Check(u32);
        impl Observer for Check {
            fn batch(&mut self, view: &View<'_>) {
                for (i, packet) in view.batch.packets().iter().enumerate() {
                    for found in view.matches.of(i) {
                        assert_eq!((found.at, found.len), (0, 1000));
                        assert_eq!(view.distance(packet, found), 1500);
                        assert_eq!(view.origin(packet, found).unwrap().time, 1_000_000_000);
                        assert_eq!(view.saved(i), 996);
                        self.0 += 1;
                    }
                }
            }
            fn finish(self: Box<Self>) -> crate::results::Figure {
                assert_eq!(self.0, 1);
                crate::results::Figure::default()
            }
        }
        let base = Made::tcp("10.0.0.1:80", "10.0.0.2:2000");
        let packets = [
            base.clone().at(1.0).payload(&noise(1, 1000)),
            base.clone().at(2.0).payload(&noise(2, 500)),
            base.at(3.0).payload(&noise(1, 1000)),
        ];
        for per_batch in 1..=3 {
            observe(Box::new(Check(0)), &packets, 1 << 20, per_batch);
        }
        // In the cache of 1,000 bytes the first packet is gone.
        let figure = observe(Box::new(Silent), &packets, 1000, 3);
        assert_eq!(figure.number, 0);
    }

    struct Silent;
    impl Observer for Silent {
        fn batch(&mut self, view: &View<'_>) {
            assert!((0..view.batch.packets().len()).all(|i| view.matches.of(i).is_empty()));
        }
        fn finish(self: Box<Self>) -> crate::results::Figure {
            crate::results::Figure::default()
        }
    }
}
