use std::collections::BTreeSet;

use proptest::prelude::*;

use super::*;
use crate::{
    NodeId, Placement, Unwatched,
    emulate::Allocation,
    error::PathError,
    lp, manifest,
    testing::{fork, instances, measured, network, route, solve, unlimited},
};

fn saved(instance: &Instance, cached: &[f64]) -> f64 {
    let evaluation = evaluate(instance, cached).unwrap();
    assert_eq!(evaluation.violations, []);
    evaluation.footprint.saved
}

fn smartre(instance: &Instance) -> f64 {
    solve(instance).unwrap().objective
}

#[test]
fn caches_that_do_not_overlap_cost_one_of_two_kinds() {
    let fork = fork();
    // Stored at A, what matches is saved once on both paths; at B, twice on one. Overlapping caches
    // would do both.
    assert_eq!(saved(&fork, &[1.0, 0.0, 0.0, 0.0]), 50.0);
    assert_eq!(saved(&fork, &[0.0, 1.0, 0.0, 0.0]), 60.0);
    assert!((smartre(&fork) - 60.0).abs() < 1e-6);
    let ideal = ideal(&fork);
    assert_eq!(ideal.footprint, Footprint { before: 400.0, saved: 80.0 });
    assert_eq!(ideal.links, [150.0, 0.0, 70.0, 0.0, 100.0, 0.0]);
    assert_eq!(nothing(&fork).footprint, Footprint { before: 400.0, saved: 0.0 });
    assert_eq!(nothing(&fork).links, fork.link_volumes());
}

/// Two paths that share their last link only are compared and evaluated, but not planned.
#[test]
fn paths_that_meet_again_have_baselines_but_no_plan() {
    let network = network(6, &[(0, 1), (1, 3), (0, 2), (2, 3), (3, 4), (4, 5)]);
    let routes =
        vec![route(&network, &[0, 1, 3, 4], 100.0), route(&network, &[0, 2, 3, 4, 5], 100.0)];
    let profile = measured(&[(1, 0, 20.0, 1.0)]);
    let diamond = Instance::new(network, routes, &unlimited(), &Placement::Links, profile).unwrap();
    let ideal = ideal(&diamond);
    assert_eq!(ideal.footprint, Footprint { before: 700.0, saved: 20.0 });
    assert_eq!((ideal.links[8], ideal.links[6]), (180.0, 100.0));
    // Cached where they meet, on the first path; decoded there after three links of the second.
    let cached = [0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 0.0];
    assert_eq!(saved(&diamond, &cached), 60.0);

    let [first, second, at, ingress] = ["4", "5", "3", "0"].map(str::to_owned);
    let error = PathError::NotATree { ingress, first, second, at };
    assert_eq!(diamond.check_trees(), Err(error.clone()));
    let error = Error::from(error);
    let solved = lp::solve(&diamond, &lp::Options::default(), None, &Unwatched);
    assert_eq!(solved.map(|solved| solved.0), Err(error.clone()));
    let solution = Solution::given(cached.to_vec());
    assert_eq!(Allocation::new(&diamond, &solution), Err(error));
    let plan = manifest::Plan::new(&diamond, &solution, &manifest::Options::default());
    assert!(plan.unwrap_err().to_string().contains("by different ways"));
}

/// In the manner of the thesis's figure 3.1: 8 packets on one path of 4 links, 4 of them matched;
/// the first link's device holds 4 packets, the others one each.
#[test]
fn coordinated_caches_hold_more_than_the_same_packets_everywhere() {
    let network = network(5, &[(0, 1), (1, 2), (2, 3), (3, 4)]);
    let routes = vec![route(&network, &[0, 1, 2, 3, 4], 8.0)];
    let profile = measured(&[(0, 0, 4.0, 1.0)]);
    let mut chain =
        Instance::new(network, routes, &unlimited(), &Placement::Links, profile).unwrap();
    for device in &mut chain.devices {
        device.memory = if device.node == NodeId(1) { 4.0 } else { 1.0 };
    }
    assert_eq!(hop_by_hop(&chain).footprint.saved, 4.0 * (4.0 / 8.0 + 3.0 / 8.0));
    let coordinated = [4.0 / 8.0, 1.0 / 8.0, 1.0 / 8.0, 1.0 / 8.0];
    assert_eq!(saved(&chain, &coordinated), 4.0 * (4.0 / 8.0 + 2.0 / 8.0 + 3.0 / 8.0 + 4.0 / 8.0));
    assert!((smartre(&chain) - 6.5).abs() < 1e-6);
}

/// The thesis's figure 3.2: four ingresses of 5 packets each on slow links to R1 (node 4), fast
/// links to R2 (5) and R3 (6); each match saves X = 1 byte. A device on a slow link encodes 5
/// packets and decodes 5; one on a fast link 10 and 20. Caching takes as many operations again
/// here.
fn star() -> Instance {
    let network = network(7, &[(0, 4), (1, 4), (2, 4), (3, 4), (4, 5), (5, 6)]);
    let routes = (0..4).map(|ingress| route(&network, &[ingress, 4, 5, 6], 5.0)).collect();
    let profile =
        measured(&[(0, 0, 5.0, 1.0), (1, 1, 5.0, 1.0), (2, 2, 5.0, 1.0), (3, 3, 5.0, 1.0)]);
    let mut star =
        Instance::new(network, routes, &unlimited(), &Placement::Links, profile).unwrap();
    for device in &mut star.devices {
        let slow = device.node == NodeId(4);
        device.encodings = if slow { 5.0 } else { 10.0 };
        device.operations = if slow { 10.0 } else { 40.0 };
    }
    star
}

#[test]
fn decoding_where_it_saves_most_beats_every_link_by_itself() {
    let star = star();
    // 5 X on each slow link. On a fast one half of the packets are fingerprinted, so half of those
    // that they match are known: a quarter of 20 X. (The figure counts each fingerprinted packet as
    // a match, and so 10 X.)
    let hop_by_hop = hop_by_hop(&star);
    assert_eq!(hop_by_hop.footprint.saved, 4.0 * 5.0 + 2.0 * 5.0);
    assert_eq!(hop_by_hop.ingresses, [Footprint { before: 15.0, saved: 7.5 }; 4]);
    // All of it at R3, three links away.
    let at_r3: Vec<f64> = [0.0, 0.0, 1.0].repeat(4);
    assert_eq!(saved(&star, &at_r3), 60.0);
    assert!((smartre(&star) - 60.0).abs() < 1e-5);
    assert_eq!(ideal(&star).footprint.saved, 60.0);
}

#[test]
fn decoding_where_it_saves_most_needs_no_device_elsewhere() {
    let star = star();
    let last = star.restricted(|_, hop| star.devices[hop.device].node == NodeId(6)).unwrap();
    assert_eq!(hop_by_hop(&last).footprint.saved, 5.0);
    assert!((smartre(&last) - 60.0).abs() < 1e-5);
    assert_eq!(ideal(&last).footprint.saved, 60.0);
}

#[test]
fn hop_by_hop_keeps_each_limit() {
    // One link, 10 packets of 1 byte, 6 matches of half a byte.
    let network = network(2, &[(0, 1)]);
    let routes = vec![route(&network, &[0, 1], 10.0)];
    let profile = measured(&[(0, 0, 6.0, 0.5)]);
    let whole = Instance::new(network, routes, &unlimited(), &Placement::Links, profile).unwrap();
    let saved = |encodings: f64, memory: f64, operations: f64| {
        let mut instance = whole.clone();
        (
            instance.devices[0].encodings,
            instance.devices[0].memory,
            instance.devices[0].operations,
        ) = (encodings, memory, operations);
        hop_by_hop(&instance).footprint.saved
    };
    let infinite = f64::INFINITY;
    assert_eq!(saved(infinite, infinite, infinite), 3.0);
    assert_eq!(saved(10.0, 10.0, 16.0), 3.0);
    // A store for half.
    assert_eq!(saved(10.0, 5.0, 16.0), 1.5);
    // Fingerprints for half: half is known, and half of that is looked up.
    assert_eq!(saved(5.0, 10.0, 16.0), 0.75);
    // s (10 + 6) = 8.
    assert_eq!(saved(10.0, 10.0, 8.0), 1.5);
    // e = 1/2, s (10 + 3) = 2.6.
    assert!((saved(5.0, 10.0, 2.6) - 0.5 * 0.2 * 3.0).abs() < 1e-12);
    assert_eq!([saved(0.0, 1.0, 1.0), saved(1.0, 0.0, 1.0), saved(1.0, 1.0, 0.0)], [0.0; 3]);
}

#[test]
fn hop_by_hop_shares_a_routers_device_among_its_links() {
    let network = network(3, &[(0, 2), (1, 2)]);
    let routes = vec![route(&network, &[0, 2], 30.0), route(&network, &[1, 2], 10.0)];
    let profile = measured(&[(0, 0, 8.0, 1.0), (1, 1, 4.0, 1.0)]);
    let mut instance =
        Instance::new(network, routes, &unlimited(), &Placement::Routers, profile).unwrap();
    instance.devices.iter_mut().for_each(|device| device.memory = 20.0);
    let outcome = hop_by_hop(&instance);
    assert_eq!(outcome.links, [30.0 - 4.0, 0.0, 10.0 - 2.0, 0.0]);
}

#[test]
fn edge_only_keeps_the_last_device_of_each_path() {
    let network = network(4, &[(0, 1), (1, 2), (2, 3)]);
    let routes = vec![
        route(&network, &[0, 1], 10.0),
        route(&network, &[0, 1, 2], 10.0),
        route(&network, &[0, 1, 2, 3], 10.0),
    ];
    // Each path repeats itself, and the last the first.
    let profile =
        measured(&[(0, 0, 1.0, 1.0), (1, 1, 2.0, 1.0), (2, 2, 4.0, 1.0), (2, 0, 8.0, 0.5)]);
    let whole = Instance::new(network, routes, &unlimited(), &Placement::Links, profile).unwrap();
    let edge = edge_only(&whole).unwrap();
    let hops: Vec<Vec<(u32, u32)>> = edge
        .paths
        .iter()
        .map(|path| path.hops.iter().map(|hop| (hop.device.0, hop.distance)).collect())
        .collect();
    assert_eq!(hops, [[(0, 1)], [(2, 2)], [(4, 3)]]);
    assert_eq!(edge.hop_count(), 3);
    assert_eq!(saved(&edge, &[1.0; 3]), 1.0 + 2.0 * 2.0 + 3.0 * 4.0);
    // With all devices the first path's cache at distance 1 also serves the last path.
    assert!((smartre(&whole) - (1.0 + 4.0 + 12.0 + 4.0)).abs() < 1e-5);
}

#[test]
fn restricting_may_not_tear_ranges_apart() {
    let network = network(4, &[(0, 1), (1, 2), (2, 3)]);
    let routes = vec![route(&network, &[0, 1, 2], 10.0), route(&network, &[0, 1, 2, 3], 10.0)];
    let whole =
        Instance::new(network, routes, &unlimited(), &Placement::Links, measured(&[])).unwrap();
    // Path 0 keeps links 0 and 2, path 1 only 2: of path 0's range only the second half can be
    // decoded on path 1.
    let error = whole.restricted(|path, hop| path == 0 || hop.device == DeviceId(2)).unwrap_err();
    assert!(
        error.to_string().contains("paths from 0 keep 1 -> 2, but different devices before it"),
        "{error}"
    );
}

#[test]
fn rules_of_thumb_share_a_path() {
    let network = network(4, &[(0, 1), (1, 2), (2, 3)]);
    let routes = vec![route(&network, &[0, 1, 2, 3], 60.0)];
    let profile = measured(&[(0, 0, 30.0, 1.0)]);
    let mut chain =
        Instance::new(network, routes, &unlimited(), &Placement::Links, profile).unwrap();
    let close = |a: Vec<f64>, b: [f64; 3]| {
        assert!(a.iter().zip(b).all(|(a, b)| (a - b).abs() < 1e-12), "{a:?} {b:?}")
    };
    close(equal(&chain), [1.0 / 3.0; 3]);
    close(by_distance(&chain), [1.0 / 6.0, 2.0 / 6.0, 3.0 / 6.0]);
    // The last device holds 15 of the 30 bytes, the second does 20 of the 30 operations that it
    // should: 20 packets cached, 10 matches decoded.
    chain.devices[4].memory = 15.0;
    chain.devices[2].operations = 20.0;
    close(by_distance(&chain), [1.0 / 6.0, 2.0 / 9.0, 1.0 / 4.0]);
    // What is left, 23/36 of 60 bytes, in an ingress of 23 bytes.
    chain.ingresses[0].memory = 23.0;
    close(by_distance(&chain), [1.0 / 10.0, 2.0 / 15.0, 3.0 / 20.0]);
    // Half of the packets are fingerprinted; the rest is then within all limits but the last one.
    chain.ingresses[0].encodings = 30.0;
    chain.ingresses[0].memory = 60.0;
    close(by_distance(&chain), [1.0 / 12.0, 1.0 / 6.0, 1.0 / 4.0]);
}

#[test]
fn all_schemes_are_compared_in_order() {
    let mut fork = fork();
    fork.devices[0].memory = 10.0;
    fork.devices[2].operations = 65.0;
    let outcomes = compare(&fork, &solve, &Unwatched).unwrap();
    let schemes: Vec<Scheme> = outcomes.iter().map(|outcome| outcome.scheme).collect();
    assert_eq!(schemes, Scheme::ALL);
    let saved: Vec<f64> =
        outcomes.iter().map(|outcome| (outcome.footprint.saved * 1e3).round() / 1e3).collect();
    // Hop-by-hop: a store of 10 of 200 bytes on the first link, 65 operations of 130 on the second.
    // Edge-only: half of path 0, 2 links away. Both heuristics: a twentieth of each path at A, as
    // they do not know that path 1's is of no use, and half of path 0 at B. SmartRE: a tenth of
    // path 0 at A and half at B; without memory limits the other half at A; without processing
    // limits all at B.
    assert_eq!(saved, [0.0, 2.5 + 15.0, 30.0, 32.5, 32.5, 35.0, 55.0, 60.0, 60.0, 80.0]);
    // Edge-only's shares are told on the hops of the whole.
    let edge = outcomes[2].cached.as_ref().unwrap();
    assert_eq!(evaluate(&fork, edge).unwrap().footprint.saved, outcomes[2].footprint.saved);
}

#[test]
fn a_solver_that_breaks_a_rule_is_not_believed() {
    let mut fork = fork();
    fork.devices.iter_mut().for_each(|device| device.memory = 50.0);
    let careless = |instance: &Instance| solve(&instance.clone().relaxed(true, true));
    let error = compare(&fork, &careless, &Unwatched).unwrap_err();
    assert!(error.to_string().starts_with("solver: the plan breaks"), "{error}");
}

struct Impatient;

impl Watch for Impatient {
    fn progress(&self, _stage: &str, _done: u64, _total: u64) {}

    fn stopped(&self) -> bool {
        true
    }
}

#[test]
fn a_comparison_can_be_stopped() {
    assert_eq!(compare(&fork(), &solve, &Impatient), Err(Error::Stopped));
}

#[test]
fn ingresses_can_be_chosen() {
    let star = star();
    let two = star.only(&[3, 1, 3]).unwrap();
    assert_eq!(two.paths.iter().map(|path| path.ingress).collect::<Vec<_>>(), [0, 1]);
    assert_eq!(two.ingresses.iter().map(|ingress| ingress.node.0).collect::<Vec<_>>(), [1, 3]);
    assert_eq!(two.matches(1, 1).count, 5.0);
    assert_eq!(two.devices, star.devices);
    assert_eq!(two.footprint(), 30.0);
    assert_eq!(saved(&two, &[0.0, 0.0, 1.0].repeat(2)), 30.0);
    assert!(star.only(&[]).is_err());
    assert!(star.only(&[4]).is_err());
}

/// What hop-by-hop without limits saves on each link: every pair of paths that take it.
fn plainly(instance: &Instance) -> Vec<f64> {
    let mut on_links = vec![0.0; instance.network.links.len()];
    for (link, on_link) in on_links.iter_mut().enumerate() {
        let through: Vec<usize> = (0..instance.paths.len())
            .filter(|&path| instance.paths[path].links.contains(&LinkId::new(link)))
            .collect();
        for &p in &through {
            *on_link += through.iter().map(|&q| instance.matches(p, q).bytes()).sum::<f64>();
        }
    }
    on_links
}

fn at_most(a: f64, b: f64) -> bool {
    a <= b + 2e-6 * b.abs().max(1.0)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(120))]

    #[test]
    fn ideal_is_the_definition(instance in instances()) {
        let ideal = ideal(&instance);
        let volumes = instance.link_volumes();
        for (link, saved) in plainly(&instance).into_iter().enumerate() {
            prop_assert!((volumes[link] - ideal.links[link] - saved).abs() <= 1e-9 * volumes[link].max(1.0));
        }
    }

    #[test]
    fn no_scheme_beats_ideal_and_no_limit_helps(instance in instances()) {
        let outcomes = compare(&instance, &solve, &Unwatched).unwrap();
        let ideal = outcomes.last().unwrap();
        for outcome in &outcomes {
            prop_assert_eq!(outcome.ingresses.len(), instance.ingresses.len());
            prop_assert!((-1e-9..=1.0 + 1e-9).contains(&outcome.footprint.reduction()), "{:?}", outcome);
            let (saved, before) = outcome.ingresses.iter().fold((0.0, 0.0), |sum, own| (sum.0 + own.saved, sum.1 + own.before));
            prop_assert!((saved - outcome.footprint.saved).abs() <= 1e-9 * before);
            prop_assert!((before - outcome.footprint.before).abs() <= 1e-9 * before);
            for (after, least) in outcome.links.iter().zip(&ideal.links) {
                prop_assert!(at_most(*least, *after), "{}: {after} bytes, ideal {least}", outcome.scheme);
            }
        }
        let saved = |scheme: Scheme| outcomes.iter().find(|outcome| outcome.scheme == scheme).unwrap().footprint.saved;
        let smartre = saved(Scheme::SmartRe);
        for worse in [Scheme::EdgeOnly, Scheme::Equal, Scheme::ByDistance] {
            prop_assert!(at_most(saved(worse), smartre), "{worse}: {} SmartRE: {smartre}", saved(worse));
        }
        for better in [Scheme::NoMemoryLimits, Scheme::NoProcessingLimits] {
            prop_assert!(at_most(smartre, saved(better)));
            prop_assert!(at_most(saved(better), saved(Scheme::NoLimits)));
        }
    }

    #[test]
    fn hop_by_hop_without_limits_is_ideal(instance in instances()) {
        let mut instance = instance.relaxed(true, true);
        instance.devices.iter_mut().for_each(|device| device.encodings = f64::INFINITY);
        let everywhere: BTreeSet<LinkId> = instance.paths.iter().flat_map(|path| path.links.iter().copied()).collect();
        let with_devices: BTreeSet<LinkId> =
            instance.paths.iter().flat_map(|path| path.hops.iter().map(|hop| path.links[hop.distance as usize - 1])).collect();
        let (free, ideal) = (hop_by_hop(&instance), ideal(&instance));
        if everywhere == with_devices {
            prop_assert_eq!(free.links, ideal.links);
        } else {
            prop_assert!(at_most(free.footprint.saved, ideal.footprint.saved));
        }
    }

    #[test]
    fn rules_of_thumb_keep_the_limits(instance in instances()) {
        for cached in [equal(&instance), by_distance(&instance)] {
            prop_assert_eq!(evaluate(&instance, &cached).unwrap().violations, vec![]);
        }
    }
}
