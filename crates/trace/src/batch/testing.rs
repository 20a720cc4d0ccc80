//! Synthetic packets for the tests of figures.

use super::*;
use crate::figures::{Finding, Observer};
use oncewire_codec::Kernels;
use oncewire_codec::matcher::{Density, Matcher};
use oncewire_codec::table::CompactTable;
use oncewire_family::{PublishedMaxMatch, SamplerKind};
use oncewire_kernels::random::SplitMix64;

/// Builds packets from their payload up: `Made::tcp("10.0.0.1:1000",
/// "10.0.0.2:80").at(1.5).payload(&bytes)`.
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
            flow_hash: flow.hash64(),
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
    let mut random = SplitMix64(seed);
    (0..len).map(|_| (random.next_u64() >> 24) as u8).collect()
}

/// A cell of a table, by the name of its column.
pub(crate) fn value(
    table: &oncewire_report::Table,
    row: usize,
    column: &str,
) -> oncewire_report::Cell {
    let column = table
        .columns
        .iter()
        .position(|c| c.name == column)
        .unwrap_or_else(|| panic!("{column}: {:?}", table.columns));
    table.rows[row][column].clone()
}

/// Runs an observer over packets, `per_batch` at a time, with MAXP (w = 32, p = 4, so that all
/// matches are found) over a cache of `cache` bytes a direction and 4 bytes a match.
pub(crate) fn observe(
    observer: Box<dyn Observer>,
    packets: &[Made],
    cache: u64,
    per_batch: usize,
) -> crate::results::Figure {
    find(observer, packets, cache, per_batch).present()
}

/// As [`observe`], before it is presented.
pub(crate) fn find(
    mut observer: Box<dyn Observer>,
    packets: &[Made],
    cache: u64,
    per_batch: usize,
) -> Finding {
    let mut caches = Caches::new(cache, 1 << 20).unwrap();
    let table =
        || CompactTable::<u32>::new(Geometry::new(cache + (3 << 20), 0).unwrap(), 1 << 20).unwrap();
    let mut matchers = Direction::ALL.map(|_| {
        PublishedMaxMatch::new(SamplerKind::Maxp.boxed(), table(), Kernels::detect(), 32, 1, None)
            .with_reach(cache)
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
    let mut whole =
        Made::tcp("10.0.0.1:80", "10.0.0.2:2000").seq(u32::MAX, 0b10011).payload(&payload).packet;
    whole.missing = 7;
    let pieces: Vec<_> = whole.pieces(&payload).collect();
    assert_eq!(
        pieces.iter().flat_map(|(_, piece)| piece.iter().copied()).collect::<Vec<u8>>(),
        payload
    );
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
        fn finish(self: Box<Self>) -> Finding {
            assert_eq!(self.0, 1);
            Finding::Lengths(Default::default())
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
    let found = find(Box::new(Silent), &packets, 1000, 3);
    assert_eq!(found, Finding::Lengths(Default::default()));
}

struct Silent;
impl Observer for Silent {
    fn batch(&mut self, view: &View<'_>) {
        assert!((0..view.batch.packets().len()).all(|i| view.matches.of(i).is_empty()));
    }
    fn finish(self: Box<Self>) -> Finding {
        Finding::Lengths(Default::default())
    }
}
