//! Laws on random networks and packets.

use super::*;
use crate::PerSecond;

/// A random tree of paths from node 0, and ranges on them.
fn networks() -> impl Strategy<Value = (Instance, Vec<Vec<Share>>)> {
    let parents = proptest::collection::vec(any::<proptest::sample::Index>(), 1..8);
    let cuts = proptest::collection::vec((any::<u32>(), 500u64..20_000), 40);
    (parents, cuts).prop_map(|(parents, cuts)| {
        let links: Vec<(u32, u32)> = parents
            .iter()
            .enumerate()
            .map(|(number, parent)| (parent.index(number + 1) as u32, number as u32 + 1))
            .collect();
        let routes: Vec<Vec<u32>> = (1..=links.len() as u32)
            .map(|node| {
                let mut at = node;
                let mut back = Vec::new();
                while at != 0 {
                    back.push(at - 1);
                    at = links[at as usize - 1].0;
                }
                back.reverse();
                back
            })
            .collect();
        let routes: Vec<&[u32]> = routes.iter().map(|route| &route[..]).collect();
        let instance = instance(network(links.len() as u32 + 1, &links), &routes, |provision| {
            provision.operations = PerSecond(1e4)
        });
        let mut cuts = cuts.into_iter();
        let shares = instance.paths.iter().map(|path| {
            let mut shares: Vec<Share> = Vec::new();
            for hop in &path.hops {
                let Some((cut, bytes)) = cuts.next() else { break };
                let from = shares.last().map_or(0, |last| last.to);
                let to = from + (((1 << 32) - from) * u64::from(cut)) / (1 << 32);
                shares.push(Share { from, to, device: hop.device, bytes });
            }
            shares
        });
        let shares = shares.collect();
        (instance, shares)
    })
}

/// A content, where in it to begin, and how many bytes to take.
type Piece = (u64, usize, usize);

/// Packets made of pieces of few contents at random offsets, so that they repeat each other in
/// parts.
fn packets() -> impl Strategy<Value = Vec<(usize, Vec<Piece>)>> {
    let piece = (0u64..6, 0usize..700, 1usize..500);
    proptest::collection::vec((any::<usize>(), proptest::collection::vec(piece, 0..4)), 1..300)
}

fn payload(pieces: &[Piece]) -> Vec<u8> {
    pieces
        .iter()
        .flat_map(|&(content, from, len)| noise(1200, content)[from..from + len].to_vec())
        .collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn every_packet_leaves_as_it_entered(
        (instance, shares) in networks(),
        packets in packets(),
        path_ids: bool,
        name_bytes in 1u8..6,
        max_matches in 0u8..=7,
        loss in prop_oneof![Just(0.0), Just(0.1)],
        second in 0u64..300,
    ) {
        let settings = Settings { format: Format { name_bytes, max_matches, path_ids }, loss, ..settings() };
        let allocation = Allocation::of_parts(&instance, shares.clone()).unwrap();
        for scheme in [Scheme::Planned(allocation), Scheme::HopByHop, Scheme::Ideal] {
            let planned = matches!(scheme, Scheme::Planned(_));
            let mut emulation = Emulation::new(&instance, scheme, settings.clone()).unwrap();
            if planned {
                // The ranges of the same paths moved, and all buckets changed.
                let next = shares.iter().map(|shares| {
                    shares.iter().map(|share| Share { from: share.from / 2, to: share.to / 2, bytes: 20_000 - share.bytes, ..*share }).collect()
                });
                let allocation = Allocation::of_parts(&instance, next.collect()).unwrap();
                let rollout = Rollout { stagger: 30, transition: 20 };
                emulation.schedule(Event { time: second, change: Change::Manifests { allocation, rollout } }).unwrap();
            }
            let mut source = Source::default();
            for (time, (path, pieces)) in packets.iter().enumerate() {
                let path = (path % instance.paths.len()) as u32;
                emulation.push(&source.packet(time as u64, path, &payload(pieces))).unwrap();
            }
            let report = emulation.report();
            prop_assert_eq!(report.delivered + report.lost + report.undecodable + report.damaged, packets.len() as u64);
            prop_assert!(loss > 0.0 || report.delivered == packets.len() as u64);
            // Each byte of the footprint is some link's and some ingress's.
            let sum = |traffic: &[Traffic]| {
                (traffic.iter().map(|traffic| traffic.before).sum(), traffic.iter().map(|traffic| traffic.after).sum())
            };
            let ingresses: Vec<Traffic> = report.ingresses.iter().map(|ingress| ingress.footprint).collect();
            let whole = (report.footprint.before, report.footprint.after);
            prop_assert_eq!((sum(&report.links), sum(&ingresses)), (whole, whole));
            for device in &report.devices {
                prop_assert!(device.most_operations as f64 <= device.limit);
            }
            if planned && loss == 0.0 {
                let decoded: u64 = report.devices.iter().map(|device| device.decoded).sum();
                prop_assert_eq!(decoded, report.ingresses.iter().map(|ingress| ingress.matches).sum::<u64>());
                let cached: u64 = report.devices.iter().map(|device| device.cached).sum();
                prop_assert_eq!(cached, report.ingresses.iter().map(|ingress| ingress.stored).sum::<u64>());
            }
        }
    }
}
