use std::sync::atomic::{AtomicU32, Ordering};

use proptest::{prop_assert, proptest, test_runner::Config};

use super::*;
use crate::{
    Placement, Prices, Unwatched, lp,
    testing::{instances, measured, network, route, solve, unlimited},
};

/// 0 - 1 - 2 - 3 and 1 - 4; traffic of nodes 0 and 3. Paths: 0 to 1 (90 bytes), 0 to 2 (10), 0 to 4
/// (40), 3 to 2 (100).
fn example() -> Instance {
    let network = network(5, &[(0, 1), (1, 2), (2, 3), (1, 4)]);
    let routes = vec![
        route(&network, &[0, 1], 90.0),
        route(&network, &[0, 1, 2], 10.0),
        route(&network, &[0, 1, 4], 40.0),
        route(&network, &[3, 2], 100.0),
    ];
    let profile = measured(&[
        (0, 0, 9.0, 1.0),
        (1, 1, 5.0, 1.0),
        (2, 2, 1.0, 1.0),
        (2, 1, 3.0, 1.0),
        (3, 3, 20.0, 1.0),
    ]);
    Instance::new(network, routes, &unlimited(), &Placement::Links, profile).unwrap()
}

fn all(instance: &Instance) -> Vec<DeviceId> {
    DeviceId::first(instance.devices.len()).collect()
}

fn order(ranked: &[Ranked]) -> Vec<(u32, f64)> {
    ranked.iter().map(|ranked| (ranked.device.0, ranked.weight)).collect()
}

#[test]
fn links_are_ranked_by_the_papers_weights() {
    // Links: 0: 0 -> 1, 2: 1 -> 2, 5: 3 -> 2, 6: 1 -> 4.
    let example = example();
    let candidates = [0, 2, 6, 5, 1, 6].map(DeviceId);
    let ranked = |strategy| order(&rank(&example, strategy, &candidates).unwrap());
    assert_eq!(ranked(Strategy::Paths), [(0, 3.0), (2, 1.0), (5, 1.0), (6, 1.0), (1, 0.0)]);
    assert_eq!(
        ranked(Strategy::VolumeDistance),
        [(0, 140.0), (5, 100.0), (6, 80.0), (2, 20.0), (1, 0.0)]
    );
    // At node 1: 9 + 5 + (1 + 3); path 1 at node 2: 5, twice; path 2 at node 4: 1, twice: path 1
    // does not come there.
    assert_eq!(ranked(Strategy::Redundancy), [(5, 20.0), (0, 18.0), (2, 10.0), (6, 2.0), (1, 0.0)]);
    assert!(rank(&example, Strategy::Paths, &[DeviceId(8)]).is_err());
}

#[test]
fn greedy_takes_what_adds_most() {
    let example = example();
    let greedy = greedy(&example, &all(&example), 4, &solve, &Unwatched).unwrap();
    // With the device at 1 -> 2, path 1 moves there from 0 -> 1: 10 for 8. That at 1 -> 4 adds 1
    // for path 2.
    let rounded: Vec<(u32, f64)> =
        order(&greedy).iter().map(|(device, gain)| (*device, gain.round())).collect();
    assert_eq!(rounded, [(5, 20.0), (0, 18.0), (2, 2.0), (6, 1.0)]);
}

#[test]
fn a_curve_ends_at_full_deployment() {
    let example = example();
    let order: Vec<DeviceId> = rank(&example, Strategy::Redundancy, &all(&example))
        .unwrap()
        .iter()
        .map(|ranked| ranked.device)
        .collect();
    let steps = curve(&example, &order, &[0, 1, 2, 8], &solve, &Unwatched).unwrap();
    let saved: Vec<f64> = steps.iter().map(|step| step.footprint.saved.round()).collect();
    assert_eq!(saved, [0.0, 20.0, 38.0, 41.0]);
    assert!(steps.iter().all(|step| step.footprint.before == example.footprint()));
    assert!(curve(&example, &order, &[9], &solve, &Unwatched).is_err());
}

#[test]
fn the_best_pair_need_not_hold_the_best_one() {
    // The middle device can hold both paths' matches, each end one path's; two devices at the ends
    // save twice as much as anything with the middle.
    let network = network(4, &[(0, 1), (1, 2), (1, 3)]);
    let routes = vec![route(&network, &[0, 1, 2], 10.0), route(&network, &[0, 1, 3], 10.0)];
    let profile = measured(&[(0, 0, 8.0, 1.0), (1, 1, 7.0, 1.0)]);
    let mut fork =
        Instance::new(network, routes, &unlimited(), &Placement::Links, profile).unwrap();
    fork.devices[0].memory = 20.0;
    let best = |budget| {
        let best = optimal(&fork, &all(&fork), budget, &Limits::default(), &Unwatched).unwrap();
        assert!(best.complete);
        assert!(best.gap() < 1e-6);
        (best.devices, best.footprint.saved.round())
    };
    assert_eq!(best(0), (vec![], 0.0));
    assert_eq!(best(1), (vec![DeviceId(2)], 16.0));
    assert_eq!(best(2), (vec![DeviceId(2), DeviceId(4)], 30.0));
    // More would save nothing.
    assert_eq!(best(6), (vec![DeviceId(2), DeviceId(4)], 30.0));
}

#[test]
fn programs_that_are_too_large_are_refused_in_words() {
    let limits = Limits { variables: 9, ..Limits::default() };
    let error = optimal(&example(), &all(&example()), 2, &limits, &Unwatched).unwrap_err();
    assert_eq!(
        error.to_string(),
        "solver: variables of the placement program: 10, but the limit is 9; use fewer ingresses or links, or rank the links"
    );
    let limits = Limits { nodes: 0, ..Limits::default() };
    assert!(optimal(&example(), &all(&example()), 2, &limits, &Unwatched).is_err());
    assert!(optimal(&example(), &[DeviceId(99)], 2, &Limits::default(), &Unwatched).is_err());
}

/// Gives up after it was asked so many times.
struct Patience(AtomicU32);

impl Watch for Patience {
    fn progress(&self, _stage: &str, _done: u64, _total: u64) {}

    fn stopped(&self) -> bool {
        self.0
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1))
            .is_err()
    }
}

#[test]
fn searches_can_be_stopped() {
    let example = example();
    let none = || Patience(AtomicU32::new(0));
    assert_eq!(
        optimal(&example, &all(&example), 2, &Limits::default(), &none()),
        Err(Error::Stopped)
    );
    assert_eq!(greedy(&example, &all(&example), 2, &solve, &none()), Err(Error::Stopped));
    assert_eq!(curve(&example, &[DeviceId(0)], &[1], &solve, &none()), Err(Error::Stopped));
}

/// Many ingresses along a chain, whose devices are too small for all: enough to choose from that
/// the search takes some nodes.
fn hard() -> Instance {
    let cables: Vec<(u32, u32)> = (0..7).map(|node| (node, node + 1)).collect();
    let network = network(8, &cables);
    let mut routes = Vec::new();
    for from in 0..8_u32 {
        for to in (0..8).filter(|&to| to != from) {
            let nodes: Vec<u32> =
                if from < to { (from..=to).collect() } else { (to..=from).rev().collect() };
            routes.push(route(&network, &nodes, f64::from(100 + (from * 37 + to * 61) % 50)));
        }
    }
    let empty =
        Instance::new(network, routes, &unlimited(), &Placement::Links, measured(&[])).unwrap();
    let pairs: Vec<_> = (0..empty.paths.len())
        .flat_map(|p| {
            let ingress = empty.paths[p].ingress as usize;
            empty
                .paths_of(ingress)
                .map(move |q| (p as u32, q as u32, ((p * 13 + q * 7) % 11) as f64, 1.0))
        })
        .collect();
    let mut hard = empty.with_profile(measured(&pairs)).unwrap();
    hard.devices.iter_mut().for_each(|device| device.memory = 150.0);
    hard
}

#[test]
fn a_search_that_is_cut_short_tells_its_gap() {
    let hard = hard();
    let whole = optimal(&hard, &all(&hard), 5, &Limits::default(), &Unwatched).unwrap();
    assert!(whole.complete && whole.nodes > SLICE, "{whole:?}");
    let cut = Limits { nodes: 2, ..Limits::default() };
    let cut = optimal(&hard, &all(&hard), 5, &cut, &Unwatched).unwrap();
    let impatient =
        optimal(&hard, &all(&hard), 5, &Limits::default(), &Patience(AtomicU32::new(1))).unwrap();
    for part in [cut, impatient] {
        assert!(!part.complete && part.nodes < whole.nodes, "{part:?}");
        assert!(part.gap() > 0.0);
        assert!(part.footprint.saved <= whole.footprint.saved * (1.0 + 1e-6));
        assert!(part.bound >= whole.footprint.saved * (1.0 - 1e-6));
    }
    assert_eq!(optimal(&hard, &all(&hard), 5, &Limits::default(), &Unwatched).unwrap(), whole);
}

#[test]
fn pops_and_interior_links_are_chosen_by_what_they_are() {
    let mut example = example();
    assert_eq!(interior(&example), all(&example));
    example.network.nodes[0].role = Role::Access;
    example.network.nodes[4].role = Role::Access;
    assert_eq!(interior(&example), [2, 3, 4, 5].map(DeviceId));
    assert_eq!(largest_pops(&example, 1), [0]);
    assert_eq!(largest_pops(&example, 5), [0, 1]);
    let only = example.only(&largest_pops(&example, 1)).unwrap();
    assert_eq!(only.footprint(), 90.0 + 2.0 * 10.0 + 2.0 * 40.0);
}

#[test]
fn upgrades_are_sorted_by_worth() {
    let mut example = example();
    example.devices[2].operations = 500.0;
    example.devices[3].operations = f64::INFINITY;
    let prices = Prices {
        memory: vec![0.0, 3e-9, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0],
        operations: vec![0.0, 0.0, 0.2, 0.5, 0.0, 0.0, 0.0, 0.0],
        ingress_memory: vec![0.0, 4e-9],
    };
    let solution = Solution { prices, ..Solution::given(vec![]) };
    let upgrades: Vec<(Resource, f64, f64)> = upgrades(&example, &solution)
        .iter()
        .map(|upgrade| (upgrade.resource, upgrade.amount, upgrade.bound.round()))
        .collect();
    assert_eq!(
        upgrades,
        [
            (Resource::Operations(2), 50.0, 10.0),
            (Resource::IngressMemory(1), 1e9, 4.0),
            (Resource::Memory(1), 1e9, 3.0)
        ]
    );
}

proptest! {
    #![proptest_config(Config::with_cases(40))]

    /// Beside programs of another solver with the larger resources.
    #[test]
    fn an_upgrade_gains_what_a_new_plan_does(instance in instances()) {
        let options = lp::Options::default();
        let (solution, warm) = lp::solve(&instance, &options, None, &Unwatched).unwrap();
        let mut found = upgrades(&instance, &solution);
        // A tenth of what there is, so that small maps show where prices fall.
        found.iter_mut().for_each(|upgrade| {
            let ten = upgrade.amount / match upgrade.resource {
                Resource::Memory(at) => instance.devices[at].memory / 2.0,
                Resource::Operations(at) => instance.devices[at].operations / 2.0,
                Resource::IngressMemory(at) => instance.ingresses[at].memory / 2.0,
            };
            if ten.is_finite() && ten > 0.0 {
                (upgrade.amount, upgrade.bound) = (upgrade.amount / ten, upgrade.bound / ten);
            }
        });
        let count = found.len();
        try_upgrades(&instance, &solution, &mut found, count, (&options, Some(&warm)), &Unwatched).unwrap();
        let near = 2e-6 * instance.footprint();
        for upgrade in &found {
            let mut larger = instance.clone();
            match upgrade.resource {
                Resource::Memory(at) => larger.devices[at].memory += upgrade.amount,
                Resource::Operations(at) => larger.devices[at].operations += upgrade.amount,
                Resource::IngressMemory(at) => {
                    let store = larger.ingresses[at].store;
                    let all = larger.ingresses.iter_mut().filter(|one| one.store == store);
                    all.for_each(|one| one.memory += upgrade.amount);
                }
            }
            let truth = solve(&larger).unwrap().objective - solve(&instance).unwrap().objective;
            let gain = upgrade.gain.unwrap();
            prop_assert!((gain - truth).abs() <= near, "{upgrade:?}: {truth}");
            prop_assert!(gain <= upgrade.bound, "{upgrade:?}");
        }
        prop_assert!(found.is_sorted_by(|a, b| a.gain >= b.gain));
    }
}

#[test]
fn a_price_promises_more_than_a_new_plan_gives() {
    // A cache of 50 bytes on a path of 100 with 40 that repeat: each byte of cache is worth 0.4, but
    // only 50 more are of use.
    let network = network(2, &[(0, 1)]);
    let routes = vec![route(&network, &[0, 1], 100.0)];
    let profile = measured(&[(0, 0, 40.0, 1.0)]);
    let mut one = Instance::new(network, routes, &unlimited(), &Placement::Links, profile).unwrap();
    one.devices[0].memory = 50.0;
    let options = lp::Options::default();
    let (solution, _) = lp::solve(&one, &options, None, &Unwatched).unwrap();
    let mut found = upgrades(&one, &solution);
    assert_eq!(found.len(), 1);
    assert!((found[0].bound / 0.4e9 - 1.0).abs() < 1e-3, "{found:?}");
    try_upgrades(&one, &solution, &mut found, 10, (&options, None), &Unwatched).unwrap();
    assert!((found[0].gain.unwrap() - 20.0).abs() < 1e-3, "{found:?}");
}

/// The most that any set of at most `budget` devices saves.
fn exhaustively(instance: &Instance, budget: u32) -> f64 {
    let useful: Vec<DeviceId> =
        all(instance).into_iter().filter(|&device| on_paths(instance)[device]).collect();
    (0..1_u32 << useful.len())
        .filter(|set| set.count_ones() <= budget)
        .map(|set| {
            let devices: Vec<DeviceId> = useful
                .iter()
                .enumerate()
                .filter(|(at, _)| set >> at & 1 == 1)
                .map(|(_, device)| *device)
                .collect();
            saved_by(instance, &devices, &solve).unwrap().saved
        })
        .fold(0.0, f64::max)
}

proptest! {
    #![proptest_config(Config::with_cases(40))]

    #[test]
    fn nothing_beats_the_optimal_placement(instance in instances(), budget in 0..4_usize) {
        // 2 to the power of 6 sets at most.
        let devices: Vec<DeviceId> = all(&instance).into_iter().take(6).collect();
        let instance = deployed(&instance, &devices).unwrap();
        let best = optimal(&instance, &devices, budget, &Limits::default(), &Unwatched).unwrap();
        prop_assert!(best.complete);
        prop_assert!(best.devices.len() <= budget);
        let (saved, expected) = (best.footprint.saved, exhaustively(&instance, budget as u32));
        let near = 2e-6 * instance.footprint();
        prop_assert!((saved - expected).abs() <= near, "{saved}, by trying all {expected}");
        prop_assert!(best.bound >= expected - near);
        prop_assert!((saved_by(&instance, &best.devices, &solve).unwrap().saved - saved).abs() <= near);
        for strategy in Strategy::ALL {
            let ranked: Vec<DeviceId> = rank(&instance, strategy, &devices).unwrap().iter().map(|ranked| ranked.device).collect();
            let chosen = &ranked[..budget.min(ranked.len())];
            prop_assert!(saved_by(&instance, chosen, &solve).unwrap().saved <= saved + near);
        }
        let greedy = greedy(&instance, &devices, budget, &solve, &Unwatched).unwrap();
        prop_assert!(greedy.iter().map(|ranked| ranked.weight).sum::<f64>() <= saved + near);
    }
}
