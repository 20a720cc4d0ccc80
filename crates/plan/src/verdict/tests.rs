use proptest::prelude::*;

use super::*;
use crate::{
    Bytes, Instance, PerSecond, Placement, Provision, Unwatched,
    baseline::{Pair, hop_by_hop},
    testing::{fork, instances, measured, network, route, solve, unlimited},
};

/// SmartRE by the tests' solver beside hop-by-hop elimination, at other loads, too, if asked.
fn verdict_of(instance: &Instance, loads: bool) -> Verdict {
    let solution = solve(instance).unwrap();
    let evaluation = evaluate_solution(instance, &solution).unwrap();
    let smart = Standing {
        saved: evaluation.footprint.saved,
        cost: Cost::of_shares(instance, &solution.cached, &evaluation),
    };
    let solve: Solve<'_> = &solve;
    judge(instance, None, smart, loads.then_some(solve), &Unwatched).unwrap()
}

/// 0 - 1 - 2: 100 packets from 0 to 2 of 100 bytes, of which 50 repeat a whole packet.
fn line(encodings: f64) -> Instance {
    let network = network(3, &[(0, 1), (1, 2)]);
    let routes = vec![route(&network, &[0, 1, 2], 1e4)];
    let profile = measured(&[(0, 0, 50.0, 100.0)]);
    let provision =
        Provision { packet: Bytes(100.0), encodings: PerSecond(encodings), ..unlimited() };
    Instance::new(network, routes, &provision, &Placement::Links, profile).unwrap()
}

#[test]
fn a_line_by_hand() {
    // The epoch is a second.
    let line = line(1e12);
    assert_eq!(line.epoch.0, 1.0);
    let verdict = verdict_of(&line, false);
    let near = |a: f64, b: f64| assert!((a - b).abs() <= 1e-4 * b, "{a} {b}");
    near(verdict.smart.saved, 1e4);
    near(verdict.hop.saved, 1e4);
    // SmartRE: the ingress fingerprints 100 packets and holds them, the last device caches 100 and
    // decodes 50 matches. Hop-by-hop: that on both links.
    let smart = verdict.smart.cost;
    assert_eq!((smart.encoders, smart.decoders, smart.devices()), (1, 1, 2));
    // Every device has a memory of 10^12 bytes.
    assert_eq!((smart.bought, verdict.hop.cost.bought), (2e12, 4e12));
    let tariff = crate::placement::Tariff { device: 5.0, memory: 1e-12 };
    assert_eq!((smart.price(&tariff), verdict.hop.cost.price(&tariff)), (12.0, 24.0));
    near(smart.work.memory, 2e4);
    near(smart.work.operations, 250.0);
    let hop = verdict.hop.cost;
    assert_eq!((hop.encoders, hop.decoders), (2, 2));
    near(hop.work.memory, 4e4);
    near(hop.work.operations, 500.0);
    // With as much of any of these, hop-by-hop has one link.
    let EqualCost { devices, memory, operations, all } = verdict.equal;
    for within in [devices, memory, operations, all] {
        near(within.saved, 5e3);
        near(within.bound, 5e3);
    }
    assert_eq!(verdict.winner(), Scheme::SmartRe, "of equals, the one that takes less");
    assert_eq!(verdict.winner_at_equal_cost(), Scheme::SmartRe);
}

#[test]
fn encoders_of_links_keep_up_for_less_long() {
    // Without limits hop-by-hop saves 50 bytes on the first link and 30 on the second, SmartRE 60.
    // The first link's encoder fingerprints all of 200 packets, and of f times that 1 / f; as many
    // are stored: 50 / f^2 + 30 = 60.
    let mut fork = fork();
    fork.devices.iter_mut().for_each(|device| device.encodings = 200.0);
    let found = verdict_of(&fork, true);
    let Some(Loads::SmartReFrom { load, encoded }) = found.loads else { panic!("{found:?}") };
    let expected = (5.0_f64 / 3.0).sqrt();
    assert!((load / expected - 1.0).abs() <= 2.0 * PRECISION, "{load}");
    assert!((encoded - (1.0 + 1.0 / expected) / 2.0).abs() <= 0.01, "{encoded}");
    assert_eq!(found.winner(), Scheme::HopByHop);
    assert_eq!(found.winner_at_equal_cost(), Scheme::SmartRe);
    // The same map with 20 times the traffic: the same load is a twentieth.
    let busy = verdict_of(&fork.with_load(20.0).unwrap(), true);
    let Some(Loads::SmartReFrom { load, .. }) = busy.loads else { panic!("{busy:?}") };
    assert!((load * 20.0 / expected - 1.0).abs() <= 2.0 * PRECISION, "{load}");
    assert_eq!(busy.winner(), Scheme::SmartRe);
}

#[test]
fn where_smartre_has_few_devices_hop_by_hop_chooses_its_own() {
    // A line with a decoder at its first link only, where SmartRE saves 50 bytes of each 100. As many
    // devices are one link for hop-by-hop, any; its own links are none of SmartRE's business.
    let whole = line(1e12);
    let mut busy = whole.clone();
    busy.devices[0].encodings = 50.0;
    let part = crate::placement::deployed(&busy, &[crate::DeviceId(0)]).unwrap();
    let solution = solve(&part).unwrap();
    let evaluation = evaluate_solution(&part, &solution).unwrap();
    let smart = Standing {
        saved: evaluation.footprint.saved,
        cost: Cost::of_shares(&part, &solution.cached, &evaluation),
    };
    let near = |a: f64, b: f64| assert!((a - b).abs() <= 1e-4 * b, "{a} {b}");
    // On SmartRE's link its encoder fingerprints half of the packets, and finds a quarter.
    near(judge(&part, None, smart, None, &Unwatched).unwrap().hop.saved, 5e3 / 4.0);
    let free = judge(&part, Some(&busy), smart, None, &Unwatched).unwrap();
    near(free.hop.saved, 5e3);
    assert_eq!(free.hop.cost.devices(), 2);
    near(free.hop.cost.work.memory, 2e4);
    near(free.equal.all.saved, 5e3);
}

#[test]
fn the_fewest_devices_for_nearly_all() {
    // Of 10,000 bytes times links the second device of a line saves all that the first could.
    let line = line(1e12);
    let all = verdict_of(&line, false).smart;
    let lean = lean(&line, all, &solve, &Unwatched).unwrap().unwrap();
    assert!((lean.saved / all.saved - 1.0).abs() < 1e-4);
    assert_eq!((lean.cost.encoders, lean.cost.decoders), (1, 1));
    // Without the device at the end nothing else keeps 95 %; where nothing is saved, nothing is kept.
    let nothing = Standing { saved: 0.0, cost: Cost::default() };
    assert_eq!(super::lean(&line, nothing, &solve, &Unwatched).unwrap(), None);
}

#[test]
fn where_nothing_repeats_nobody_wins_by_load() {
    let silent = line(10.0).with_profile(measured(&[])).unwrap();
    let verdict = verdict_of(&silent, true);
    assert_eq!(
        verdict.loads,
        Some(Loads::Always { scheme: Scheme::SmartRe, tried: [1.0 / 64.0, 64.0] })
    );
    assert_eq!(verdict.smart.cost.work.memory, 0.0);
}

/// What a selection of pairs saves within a budget if each may store less than it could: every set,
/// and for each the best fractions, which are at most two.
fn exhaustively(pairs: &[Pair], budget: &Budget) -> f64 {
    let most = budget.devices.map_or(usize::MAX, |devices| devices / 2);
    let mut best = 0.0_f64;
    for set in (0..1_u32 << pairs.len()).filter(|set| set.count_ones() as usize <= most) {
        let chosen: Vec<&Pair> = pairs
            .iter()
            .enumerate()
            .filter(|(at, _)| set >> at & 1 == 1)
            .map(|(_, pair)| pair)
            .collect();
        let mut problem = microlp::Problem::new(microlp::OptimizationDirection::Maximize);
        let shares: Vec<_> =
            chosen.iter().map(|pair| problem.add_var(pair.saved(), (0.0, 1.0))).collect();
        let mut row = |limit: Option<f64>, of: &dyn Fn(&Pair) -> f64| {
            let Some(limit) = limit else { return };
            let terms = shares.iter().zip(&chosen).map(|(&share, pair)| (share, of(pair)));
            problem.add_constraint(terms, microlp::ComparisonOp::Le, limit);
        };
        row(budget.memory, &|pair| pair.cost().work.memory);
        row(budget.operations, &|pair| pair.cost().work.operations);
        best = best.max(problem.solve().unwrap().into_solution().unwrap().objective());
    }
    best
}

fn pairs() -> impl proptest::strategy::Strategy<Value = Vec<Pair>> {
    let pair = (1.0..100.0, 0.0..50.0, 0.1..2.0, 0.1..2.0, 0.1..2.0);
    let pair = pair.prop_map(|(bytes, matched, memory, encodings, operations)| Pair {
        bytes,
        packets: bytes,
        matches: matched,
        matched,
        memory: memory * bytes,
        encodings: encodings * bytes,
        operations: operations * (bytes + matched),
    });
    prop::collection::vec(pair, 1..7)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn selections_within_a_budget(pairs in pairs(), limits in prop::array::uniform3(0.0..1.2_f64), which in 1..8_u8) {
        let whole: Cost = pairs.iter().map(Pair::cost).sum();
        let limit = |bit: u8, of: f64| (which >> bit & 1 == 1).then_some(of);
        let budget = Budget {
            devices: limit(0, limits[0] * whole.devices() as f64).map(|devices| devices as usize),
            memory: limit(1, limits[1] * whole.work.memory),
            operations: limit(2, limits[2] * whole.work.operations),
        };
        let hop = HopByHop { pairs: pairs.clone() };
        let found = hop.within(&budget).unwrap();
        let best = exhaustively(&pairs, &budget);
        let near = 1e-6 * hop.saved() + 1e-9;
        prop_assert!(found.bound >= best - near, "{found:?}, by trying all {best}");
        prop_assert!(found.saved <= best + near, "{found:?}, by trying all {best}");
        // All but a fraction per limit are whole.
        let largest = pairs.iter().map(Pair::saved).fold(0.0, f64::max);
        prop_assert!(found.saved >= best - 3.0 * largest - near, "{found:?}, by trying all {best}");
        if which == 2 || which == 4 {
            prop_assert!((found.saved - best).abs() <= near, "{found:?}, by trying all {best}");
        }
    }

    /// By the definition of the schemes at loads on both sides.
    #[test]
    fn the_load_where_smartre_begins_to_win(instance in instances()) {
        let verdict = verdict_of(&instance, true);
        let lead = |load: f64| {
            let busier = instance.clone().with_load(load).unwrap();
            let whole = busier.footprint().max(1e-9);
            (solve(&busier).unwrap().objective - hop_by_hop(&busier).footprint.saved) / whole
        };
        let near = 2.0 * EQUAL;
        match verdict.loads.unwrap() {
            Loads::SmartReFrom { load, .. } => {
                prop_assert!(lead(load) >= -near, "{}", lead(load));
                prop_assert!(lead(load / 1.02) <= near, "{}", lead(load / 1.02));
            }
            Loads::SmartReUntil { load } => {
                prop_assert!(lead(load) >= -near, "{}", lead(load));
                prop_assert!(lead(load * 1.02) <= near, "{}", lead(load * 1.02));
            }
            Loads::Always { scheme, tried } => for load in [tried[0], 1.0, tried[1]] {
                let lead = if scheme == Scheme::SmartRe { lead(load) } else { -lead(load) };
                prop_assert!(lead >= -near, "{scheme} at {load}: {lead}");
            },
        }
        prop_assert!((verdict.hop.saved - hop_by_hop(&instance).footprint.saved).abs() <= 1e-9 * instance.footprint());
        // A smaller budget never saves more.
        let EqualCost { devices, memory, operations, all } = verdict.equal;
        for one in [devices, memory, operations] {
            prop_assert!(all.bound <= one.bound * (1.0 + 1e-6) + 1e-6);
            prop_assert!(one.saved <= verdict.hop.saved * (1.0 + 1e-6) + 1e-6);
        }
    }
}
