use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;

use super::*;
use crate::{
    Bytes, Network, PerSecond, Placement, Profile, Provision, Synthetic,
    routing::{pairs, shortest_paths_between},
    testing::{fork, measured, network, route, solve, unlimited},
};

fn built_everywhere(_: NodeId, _: DeviceId) -> bool {
    true
}

fn effects(instance: &Instance, cached: &[f64], failures: &[Failed]) -> Vec<Failure> {
    let plan = InForce { instance, cached, built: &built_everywhere };
    under(plan, failures, Some(&solve), &Unwatched).unwrap()
}

/// 0 - 1 - 3 and 0 - 2 - 3: 100 bytes from 0 to 3 by 1, of which 40 repeat, and 10 from 1 to 3.
fn square() -> Instance {
    let network = network(4, &[(0, 1), (1, 3), (0, 2), (2, 3)]);
    let routes = vec![route(&network, &[0, 1, 3], 100.0), route(&network, &[1, 3], 10.0)];
    let profile = measured(&[(0, 0, 40.0, 1.0)]);
    Instance::new(network, routes, &unlimited(), &Placement::Links, profile).unwrap()
}

#[test]
fn a_square_by_hand() {
    let square = square();
    // 60 % at 0 -> 1, 40 % at 1 -> 3.
    let cached = [0.6, 0.4, 0.0];
    let all = candidates(&square);
    // Nothing crosses 0 - 2 and 2 - 3.
    assert_eq!(
        all,
        [
            Failed::Link(LinkId(0)),
            Failed::Link(LinkId(2)),
            Failed::Node(NodeId(0)),
            Failed::Node(NodeId(1)),
            Failed::Node(NodeId(3))
        ]
    );
    let found = effects(&square, &cached, &all);
    assert!(found.iter().all(|one| one.cut_bytes.is_sign_positive()), "no share of -0 %");
    let told: Vec<_> = found
        .iter()
        .map(|one| {
            let of = |effect: &Effect| {
                let busiest = effect.busiest.map_or((u32::MAX, 0.0), |one| (one.link.0, one.bytes));
                let saved = (effect.footprint.saved * 1e3).round() / 1e3;
                (effect.footprint.before, saved, busiest.0, (busiest.1 * 1e3).round() / 1e3)
            };
            (one.rerouted, one.cut, one.cut_bytes, of(&one.kept), of(&one.anew.unwrap()))
        })
        .collect();
    assert_eq!(
        told,
        [
            // By 2, where nothing is cached; a new plan saves 40 on both links.
            (1, 0, 0.0, (210.0, 0.0, 4, 100.0), (210.0, 80.0, 4, 60.0)),
            // Without 1 - 3, what enters at 1 goes by 0 and 2, and what enters at 0 by 2.
            (2, 0, 0.0, (230.0, 0.0, 4, 110.0), (230.0, 80.0, 4, 70.0)),
            // Only what enters at 1 is left.
            (0, 1, 100.0, (10.0, 0.0, 2, 10.0), (10.0, 0.0, 2, 10.0)),
            (1, 1, 10.0, (200.0, 0.0, 4, 100.0), (200.0, 80.0, 4, 60.0)),
            (0, 2, 110.0, (0.0, 0.0, u32::MAX, 0.0), (0.0, 0.0, u32::MAX, 0.0)),
        ]
    );
}

#[test]
fn a_device_with_more_to_decode_than_it_can_caches_less() {
    // 0 - 2 - 3 - 4, 0 - 1 - 2: path 0 to 4 by 2, path 0 to 2 by 1 as weights go. Without 0 - 1, both
    // cross 0 -> 2, whose device does 25 operations: 10 packets cached of path 0, 20 matches of it.
    let network = network(3, &[(0, 1), (1, 2), (0, 2)]);
    let mut network = Network { ..network };
    network.links[4].weight = 5.0;
    let routes = vec![route(&network, &[0, 1], 20.0), route(&network, &[0, 2], 20.0)];
    let profile = measured(&[(1, 1, 10.0, 1.0), (0, 1, 10.0, 1.0)]);
    let mut instance =
        Instance::new(network, routes, &unlimited(), &Placement::Links, profile).unwrap();
    instance.devices[4].operations = 25.0;
    // All of path 1 at its device: 20 cached, 10 decoded do not fit; half does: 15.
    let cached = [0.0, 0.5];
    let found = effects(&instance, &cached, &[Failed::Link(LinkId(0)), Failed::Link(LinkId(9))]);
    // Path 0 now goes 0 -> 2 -> 1 and finds its matches there, too: 10 + 5 + 5 still fit.
    assert_eq!(found[0].kept.footprint.saved, 10.0);
    assert_eq!(found[1].rerouted, 0, "there is no such link");
    instance.devices[4].operations = 10.0;
    let found = effects(&instance, &cached, &[Failed::Link(LinkId(0))]);
    // Half of that.
    assert_eq!(found[0].kept.footprint.saved, 5.0);
}

#[test]
fn only_what_is_built_decodes_and_lists_of_another_length_are_refused() {
    let square = square();
    let none = |_: NodeId, device: DeviceId| device != DeviceId(6) && device != DeviceId(4);
    let plan = InForce { instance: &square, cached: &[0.6, 0.4, 0.0], built: &none };
    let failures = [Failed::Link(LinkId(0))];
    let found = under(plan, &failures, Some(&solve), &Unwatched).unwrap();
    assert_eq!(found[0].anew.unwrap().footprint.saved, 0.0);
    let plan = InForce { cached: &[0.6], ..plan };
    assert!(under(plan, &failures, None, &Unwatched).is_err());
    // Every link of a tree is needed.
    let fork = fork();
    let found = effects(&fork, &[0.0; 4], &candidates(&fork));
    assert!(found.iter().all(|one| one.rerouted == 0 && one.cut > 0), "{found:?}");
}

/// A ring of 6 nodes with chords, all pairs on shortest paths.
fn rings() -> impl Strategy<Value = Instance> {
    let chords = prop::collection::btree_set((0..6_u32, 0..6_u32), 0..4);
    let weights = prop::collection::vec(1..9_u32, 20);
    let volumes = prop::collection::vec(1.0..100.0, 30);
    let shares = (0.0..=1.0, 0.0..=1.0, 0.0..=1.0);
    let limits = prop::collection::vec((0.1..3.0, 0.1..3.0), 20);
    (chords, weights, volumes, shares, limits).prop_map(
        |(chords, weights, volumes, (gamma, intrapop, intrapath), limits)| {
            let ring = (0..6_u32).map(|node| (node, (node + 1) % 6));
            let ring: BTreeSet<(u32, u32)> = ring.map(|(a, b)| (a.min(b), a.max(b))).collect();
            let chords = chords.into_iter().map(|(a, b)| (a.min(b), a.max(b)));
            let cables: BTreeSet<_> =
                ring.into_iter().chain(chords.filter(|(a, b)| a != b)).collect();
            let mut network = network(6, &cables.into_iter().collect::<Vec<_>>());
            for (at, link) in network.links.iter_mut().enumerate() {
                link.weight = f64::from(weights[at % weights.len()]);
                link.capacity = (at % 3 != 0).then_some(crate::BitRate(weights[at / 2] as f64));
            }
            let provision =
                Provision { packet: Bytes(1.0), encodings: PerSecond(1e9), ..unlimited() };
            let profile = Profile::Synthetic(Synthetic {
                gamma,
                intrapop,
                intrapath,
                length: 1.0,
                ingresses: BTreeMap::new(),
            });
            let mut instance =
                fresh(&network, &volumes_of(&network, &volumes), &provision, profile);
            for (at, device) in instance.devices.iter_mut().enumerate() {
                let (memory, operations) = limits[at % limits.len()];
                (device.memory, device.operations) = (memory * 300.0, operations * 500.0);
            }
            instance
        },
    )
}

type Volumes = BTreeMap<(NodeId, NodeId), f64>;

fn volumes_of(network: &Network, volumes: &[f64]) -> Volumes {
    pairs(network).unwrap().into_iter().zip(volumes.iter().copied()).collect()
}

/// An instance of shortest paths for these volumes.
fn fresh(
    network: &Network,
    volumes: &Volumes,
    provision: &Provision,
    profile: Profile,
) -> Instance {
    let pairs: Vec<(NodeId, NodeId)> = volumes.keys().copied().collect();
    let mut routes = shortest_paths_between(network, &pairs, &Unwatched).unwrap();
    routes.iter_mut().for_each(|route| route.volume = volumes[&(route.from, route.to)]);
    Instance::new(network.clone(), routes, provision, &Placement::Links, profile).unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    /// Beside networks built anew without what fails.
    #[test]
    fn as_if_the_network_had_been_built_without_it(instance in rings()) {
        let solution = solve(&instance).unwrap();
        for failure in effects(&instance, &solution.cached, &candidates(&instance)) {
            let mut network = instance.network.clone();
            let gone = |link: &crate::network::Link| match failure.what {
                Failed::Node(node) => link.from == node || link.to == node,
                Failed::Link(failed) => {
                    let failed = instance.network.links[failed];
                    BTreeSet::from([link.from, link.to]) == BTreeSet::from([failed.from, failed.to])
                }
            };
            network.links.retain(|link| !gone(link));
            let mut volumes = Volumes::new();
            let mut cut = 0.0;
            for path in &instance.paths {
                let ends = (instance.ingresses[path.ingress as usize].node, path.egress);
                match shortest_paths_between(&network, &[ends], &Unwatched) {
                    Ok(_) => { volumes.insert(ends, path.volume); }
                    Err(_) => cut += path.volume,
                }
            }
            prop_assert!((cut - failure.cut_bytes).abs() < 1e-9);
            let provision = Provision { packet: Bytes(1.0), encodings: PerSecond(1e9), ..unlimited() };
            let mut rest = fresh(&network, &volumes, &provision, instance.profile.clone());
            let before: BTreeMap<String, usize> =
                (0..instance.devices.len()).map(|device| (instance.device_name(device), device)).collect();
            for device in 0..rest.devices.len() {
                let known = &instance.devices[before[&rest.device_name(device)]];
                (rest.devices[device].memory, rest.devices[device].operations) = (known.memory, known.operations);
            }
            let effect = failure.anew.unwrap();
            let saved = solve(&rest).unwrap().objective;
            let near = 2e-6 * instance.footprint();
            prop_assert!((effect.footprint.saved - saved).abs() <= near, "{failure:?}: {saved}");
            prop_assert!((effect.footprint.before - rest.footprint()).abs() <= near);
            // The plan in force: what it cached on the old path and the new one still crosses.
            let share = |path: &crate::Path, device: DeviceId| -> f64 {
                let ends = (rest.ingresses[path.ingress as usize].node, path.egress);
                let old = (0..instance.paths.len()).find(|&old| {
                    let old = &instance.paths[old];
                    (instance.ingresses[old.ingress as usize].node, old.egress) == ends
                }).unwrap();
                let name = rest.device_name(device.index());
                let hops = instance.paths[old].hops.iter().zip(&solution.cached[instance.hop_range(old)]);
                hops.filter(|(hop, _)| instance.device_name(hop.device.index()) == name).map(|(_, share)| *share).sum()
            };
            let (mut saved, mut operations) = (0.0, vec![0.0; rest.devices.len()]);
            for (p, path) in rest.paths.iter().enumerate() {
                for hop in &path.hops {
                    operations[hop.device.index()] += share(path, hop.device) * path.volume;
                    for q in rest.paths_of(path.ingress as usize) {
                        let other = &rest.paths[q];
                        if other.hops.iter().any(|other| other.device == hop.device) {
                            let found = rest.matches(p, q);
                            let decoded = share(other, hop.device) * found.count;
                            operations[hop.device.index()] += decoded;
                            saved += decoded * found.length * f64::from(hop.saves);
                        }
                    }
                }
            }
            let over = rest.devices.iter().zip(&operations).any(|(device, used)| *used > device.operations * (1.0 + 1e-9));
            if over {
                prop_assert!(failure.kept.footprint.saved < saved);
            } else {
                prop_assert!((failure.kept.footprint.saved - saved).abs() <= 1e-9 * instance.footprint(), "{failure:?}: {saved}");
            }
            // A new plan is never worse.
            prop_assert!(failure.kept.footprint.saved <= effect.footprint.saved + near);
        }
    }
}
