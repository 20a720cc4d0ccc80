//! Plans for synthetic packets: whether larger caches do worse, and whether packets do what is
//! expected.

use super::*;
use crate::{Profile, Synthetic, lp, measure, measure::Profiler};

/// Directed links, and the links to each egress.
type Tree = (&'static [(u32, u32)], &'static [&'static [u32]]);

/// A row of nodes, a fork at each, and a tree.
const NETWORKS: [Tree; 3] = [
    (&[(0, 1), (1, 2), (2, 3), (3, 4)], &[&[0], &[0, 1], &[0, 1, 2], &[0, 1, 2, 3]]),
    (
        &[(0, 1), (1, 2), (1, 3), (2, 4), (2, 5), (4, 6)],
        &[&[0, 2], &[0, 1, 3], &[0, 1, 4], &[0, 1, 3, 5]],
    ),
    (
        &[(0, 1), (0, 2), (1, 3), (1, 4), (2, 5), (2, 6), (5, 7)],
        &[&[0, 2], &[0, 3], &[1, 4], &[1, 5], &[1, 4, 6]],
    ),
];

/// An epoch of a second, in which 4 MB enter.
fn small(network: usize, gamma: f64, memory: f64, operations: f64) -> Instance {
    let (links, routes) = NETWORKS[network];
    let nodes = links.iter().map(|&(a, b)| a.max(b)).max().unwrap() + 1;
    let instance = instance(self::network(nodes, links), routes, |provision| {
        provision.ingress_memory = Bytes(4e6);
        provision.ingress_rate = BitRate(32e6);
        provision.edge_memory = Bytes(memory);
        provision.interior_memory = Bytes(memory);
        provision.operations = PerSecond(operations);
    });
    let profile = Synthetic {
        gamma,
        intrapop: 0.5,
        intrapath: 0.5,
        length: 500.0,
        ingresses: Default::default(),
    };
    let volumes = vec![4e6 / routes.len() as f64; routes.len()];
    instance.with_volumes(&volumes).unwrap().with_profile(Profile::Synthetic(profile)).unwrap()
}

/// Without headroom.
fn style(rules: Rules) -> spread::Style {
    spread::Style { headroom: 0.0, cache_all: false, rules }
}

/// Reduction after the first epoch, what is expected of it, and epochs in which a device had more
/// operations than it can do.
fn run(instance: &Instance, seed: u64, rules: Rules) -> (f64, f64, u64) {
    let solution = lp::solve(instance, &lp::Options::default(), None, &Unwatched).unwrap().0;
    let settings = workload::Settings { seed, epochs: 3.0, ..workload::Settings::default() };
    let packets: Vec<Packet> = workload::Synthetic::new(instance, settings).unwrap().collect();
    let mut profiler = Profiler::new(instance, measure::Settings::default()).unwrap();
    packets.iter().for_each(|packet| profiler.push(packet).unwrap());
    let found = profiler.measurement().unwrap().apply(instance).unwrap();
    let allocation = Allocation::new(instance, &solution).unwrap().expecting(&found);
    let settings = Settings { seed, rules, ..Settings::default() };
    let mut emulation = Emulation::new(instance, Scheme::Planned(allocation), settings).unwrap();
    emulation.run(packets, &Unwatched).unwrap();
    let report = emulation.report();
    let warm = report.epochs.iter().filter(|epoch| epoch.epoch > 0);
    let all = warm.fold(Traffic::default(), |sum, epoch| sum.with(epoch.footprint));
    let overloaded = report.devices.iter().map(|device| device.overloaded).sum();
    (all.reduction(), report.expected.unwrap(), overloaded)
}

/// Over networks, operations that are scarce and less so, and seeds: a larger cache saves as much, to
/// a point, and no device has more operations than it can do.
#[test]
fn larger_caches_do_no_worse() {
    for network in 0..NETWORKS.len() {
        for (operations, seed) in [(1200.0, 1), (2400.0, 2)] {
            let mut best: f64 = 0.0;
            for memory in [1e5, 3e5, 1e6, 4e7] {
                let instance = small(network, 0.5, memory, operations);
                let (reduction, _, overloaded) = run(&instance, seed, Rules::default());
                assert_eq!(overloaded, 0);
                assert!(
                    reduction > best - 0.01,
                    "{network} {operations} {memory}: {reduction} {best}"
                );
                best = best.max(reduction);
            }
        }
    }
}

#[test]
fn packets_save_what_is_expected() {
    for network in 0..NETWORKS.len() {
        for gamma in [0.0, 0.25, 0.5, 0.75] {
            let instance = small(network, gamma, 2.4e6, 1e7);
            let (reduction, expected, _) = run(&instance, 1, Rules::default());
            // Where most repeats, packets have more pieces than a shim carries.
            let most = if gamma <= 0.5 { 0.01 } else { 0.03 };
            assert!(
                (reduction - expected).abs() < most,
                "{network} {gamma}: {reduction} {expected}"
            );
        }
    }
}

/// Over networks, operations and memories: the plan that is taken is expected to save about as much as
/// the program's optimum, and somewhere more, if no device does more than it can; and somewhere it
/// leaves the busiest device more.
#[test]
fn plans_expect_of_devices_what_they_can_do() {
    let rules = Rules::default();
    let (mut better, mut easier) = (0, 0);
    for network in 0..NETWORKS.len() {
        for operations in [600.0, 1200.0, 2400.0] {
            for memory in [3e5, 1e6, 4e7] {
                let instance = small(network, 0.5, memory, operations);
                let solution = lp::solve(&instance, &lp::Options::default(), None, &Unwatched);
                let first = Allocation::new(&instance, &solution.unwrap().0).unwrap();
                let plan =
                    |rules| spread::allocate(&instance, style(rules), None, &Unwatched).unwrap().0;
                let spare: Vec<f64> = instance
                    .devices
                    .iter()
                    .map(|device| spread::BURSTS * device.operations)
                    .collect();
                let of = |plan: &Allocation| spread::served(&plan.expect(&instance, rules), &spare);
                let taken = plan(rules);
                let least = (1.0 - spread::EQUAL) * of(&first);
                assert!(of(&taken) >= least, "{network} {operations} {memory}");
                let busiest =
                    |plan: &Allocation| spread::busiest(&plan.expect(&instance, rules), &spare);
                let (taken_does, first_does) = (busiest(&taken), busiest(&first));
                easier += usize::from(taken_does < 0.9 * first_does);
                better += usize::from(of(&taken) > 1.01 * of(&first));
                assert_eq!(plan(Rules::PUBLISHED), first, "the program's optimum");
            }
        }
    }
    assert!(better > 0 && easier > 0, "{better} {easier}");
}

/// A plan for traffic that repeats nothing caches nothing; with all packets cached, it saves much of
/// other traffic, and still fits.
#[test]
fn plans_cache_what_they_did_not_expect() {
    for network in 0..NETWORKS.len() {
        let instance = small(network, 0.5, 1e6, 1e7);
        let Profile::Synthetic(profile) = instance.profile.clone() else { unreachable!() };
        let none = Profile::Synthetic(Synthetic { gamma: 0.0, ..profile });
        let none = instance.clone().with_profile(none).unwrap();
        let solution = lp::solve(&none, &lp::Options::default(), None, &Unwatched).unwrap().0;
        let plan = Allocation::new(&none, &solution).unwrap();
        let all = plan.clone().with_all(&none).unwrap();
        let mut held = vec![0.0; none.devices.len()];
        for path in 0..none.paths.len() as u32 {
            assert!(plan.shares(path).is_empty());
            assert_eq!(all.shares(path).last().map(|share| share.to), Some(1 << 32));
            all.shares(path).iter().for_each(|share| held[share.device] += share.bytes as f64);
        }
        assert!(held.iter().zip(&none.devices).all(|(held, device)| *held <= device.memory));
        assert!(held.iter().sum::<f64>() <= none.ingresses[0].memory);
        let settings = workload::Settings { seed: 1, epochs: 3.0, ..workload::Settings::default() };
        let packets: Vec<Packet> = workload::Synthetic::new(&instance, settings).unwrap().collect();
        let saved = |allocation: Allocation| {
            let scheme = Scheme::Planned(allocation);
            let mut emulation = Emulation::new(&instance, scheme, Settings::default()).unwrap();
            emulation.run(packets.iter().cloned(), &Unwatched).unwrap();
            emulation.report().footprint.reduction()
        };
        assert_eq!(saved(plan), 0.0);
        let share = saved(all);
        assert!(share > 0.1, "{network}: {share}");
    }
}
