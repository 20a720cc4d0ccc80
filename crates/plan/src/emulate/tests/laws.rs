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

fn rules() -> impl Strategy<Value = Rules> {
    let gaps = prop_oneof![Just(Gaps::Matched), Just(Gaps::Undecoded)];
    let queues = prop_oneof![Just(Queues::Paths), Just(Queues::Ingress), Just(Queues::Fair)];
    (gaps, 1u8..=4, queues, any::<bool>(), any::<bool>()).prop_map(
        |(gaps, copies, queues, confirm, priced)| Rules { gaps, copies, queues, confirm, priced },
    )
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

/// Makes manifests for the routes that ingresses know, with ranges that move from plan to plan.
struct Follow {
    instance: Instance,
    cut: u64,
}

impl Replanner for Follow {
    fn replan(&mut self, observed: &Observed) -> Result<Option<Allocation>, Error> {
        let of_link = self.instance.devices_of_links();
        let routes = observed.routes.iter().map(|(path, links)| (*path, &links[..]));
        let instance = self.instance.clone().rerouted(routes, &of_link);
        if instance.check_trees().is_err() {
            return Ok(None);
        }
        self.cut = self.cut % 4 + 1;
        let of = |path: &crate::Path| {
            let mut to = 0;
            let share = |hop: &crate::Hop| {
                let from = to;
                to += (ALL - to) * self.cut / 5;
                Share { from, to, device: hop.device, bytes: 3000 * self.cut }
            };
            path.hops.iter().map(share).collect()
        };
        let shares = instance.paths.iter().map(of).collect();
        Allocation::of_parts(&instance, shares).map(Some)
    }
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
        rules in rules(),
    ) {
        let settings = Settings { format: Format { name_bytes, max_matches, path_ids }, loss, rules, ..settings() };
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

    /// Routes that change, to and fro, at once or unnoticed for a while, while manifests change too.
    #[test]
    fn every_packet_leaves_as_it_entered_after_routes_change(
        cuts in proptest::collection::vec((any::<u32>(), 500u64..20_000), 24),
        packets in packets(),
        rules in rules(),
        loss in prop_oneof![Just(0.0), Just(0.05)],
        notice in prop_oneof![Just(0u64), 0u64..40],
        times in (0u64..150, 0u64..150, 0u64..300),
        alone: bool,
        follow: bool,
    ) {
        // From 0 to 3 by 1 or by 2, and on to 4 and 5.
        let network = network(6, &[(0, 1), (1, 3), (0, 2), (2, 3), (3, 4), (3, 5)]);
        let instance = instance(network, &[&[0, 1], &[0, 1, 4], &[0, 1, 5]], |_| ());
        let settings = Settings { rules, loss, ..settings() };
        let mut cuts = cuts.into_iter();
        let mut shares = || {
            let of = |path: &crate::Path| {
                let mut shares: Vec<Share> = Vec::new();
                for hop in &path.hops {
                    let Some((cut, bytes)) = cuts.next() else { break };
                    let from = shares.last().map_or(0, |last| last.to);
                    let to = from + ((ALL - from) * u64::from(cut)) / ALL;
                    shares.push(Share { from, to, device: hop.device, bytes });
                }
                shares
            };
            instance.paths.iter().map(of).collect::<Vec<_>>()
        };
        let (first, second) = (shares(), shares());
        // Every 40 ns an epoch ends, and manifests follow the routes.
        let mut short = instance.clone();
        short.epoch = crate::Seconds(40e-9);
        let replanning = Replanning { every: 3, rollout: Rollout { stagger: 5, transition: 5 }, ..Replanning::default() };
        let settings = Settings { replanning, ..settings };
        let mut emulation = planned(&short, first, settings);
        if follow {
            emulation = emulation.with_replanner(Follow { instance: instance.clone(), cut: 1 });
        }
        let allocation = Allocation::of_parts(&instance, second).unwrap();
        let rollout = Rollout { stagger: 30, transition: 20 };
        emulation.schedule(Event { time: times.2, change: Change::Manifests { allocation, rollout } }).unwrap();
        for (time, [one, two]) in [(times.0, [2, 3]), (times.0 + times.1, [0, 1])] {
            for (path, last) in [None, Some(4), Some(5)].into_iter().enumerate() {
                // All paths, or one that leaves the tree.
                if alone && path != 1 {
                    continue;
                }
                let links = [one, two].into_iter().chain(last).map(LinkId).collect();
                emulation.schedule(Event { time, change: Change::Route { path: path as u32, links, notice } }).unwrap();
            }
        }
        let mut source = Source::default();
        for (time, (path, pieces)) in packets.iter().enumerate() {
            let path = (path % instance.paths.len()) as u32;
            emulation.push(&source.packet(time as u64, path, &payload(pieces))).unwrap();
        }
        let report = emulation.report();
        prop_assert_eq!(report.delivered + report.lost + report.undecodable + report.damaged, packets.len() as u64);
        prop_assert!(loss > 0.0 || notice > 0 || report.delivered == packets.len() as u64);
    }
}
