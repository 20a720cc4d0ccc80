use proptest::prelude::*;

use super::*;
use crate::{
    BitRate, Seconds, Unwatched, lp,
    testing::{fork, instances, solve},
};

#[test]
fn a_cache_at_the_fork_serves_both_paths_once() {
    // Hops: path 0 at A, at B, path 1 at A, at C.
    let at_a = evaluate(&fork(), &[1.0, 0.0, 0.0, 0.0]).unwrap();
    assert_eq!(at_a.footprint, Footprint { before: 400.0, saved: 50.0 });
    assert_eq!(at_a.footprint.reduction(), 0.125);
    let after: Vec<f64> = at_a.links.iter().map(|link| link.after).collect();
    assert_eq!(after, [150.0, 0.0, 100.0, 0.0, 100.0, 0.0]);
    assert_eq!(at_a.devices[0].memory.used, 100.0);
    assert_eq!((at_a.devices[0].cached, at_a.devices[0].decoded), (100.0, 50.0));
    assert_eq!(at_a.covered, [1.0, 0.0]);
    assert_eq!(at_a.violations, []);

    let at_b = evaluate(&fork(), &[0.0, 1.0, 0.0, 0.0]).unwrap();
    assert_eq!(at_b.footprint.saved, 60.0);
    let after: Vec<f64> = at_b.links.iter().map(|link| link.after).collect();
    assert_eq!(after, [170.0, 0.0, 70.0, 0.0, 100.0, 0.0]);
    assert_eq!(at_b.decoded_matches, [0.0, 30.0, 0.0, 0.0]);
}

#[test]
fn an_ingress_that_fingerprints_half_finds_half() {
    let mut instance = fork();
    instance.ingresses[0].encodings = 100.0;
    let half = evaluate(&instance, &[0.5, 0.0, 0.0, 0.0]).unwrap();
    assert_eq!(half.footprint.saved, 12.5);
    assert_eq!(half.violations, []);
    let all = evaluate(&instance, &[1.0, 0.0, 0.0, 0.0]).unwrap();
    assert_eq!(
        all.violations,
        [Violation::Cover { path: 0, cover: Use { used: 1.0, limit: 0.5 } }]
    );
}

#[test]
fn capacities_give_utilization() {
    let mut instance = fork();
    instance.network.links[0].capacity = Some(BitRate(1600.0));
    instance.epoch = Seconds(1.0);
    let evaluation = evaluate(&instance, &[1.0, 0.0, 0.0, 0.0]).unwrap();
    assert_eq!(evaluation.links[0].utilization, Some([1.0, 0.75]));
    assert_eq!(evaluation.links[2].utilization, None);
    assert_eq!(evaluation.highest_utilization(), Some(0.75));
}

#[test]
fn each_rule_can_be_broken() {
    let violations = |change: &dyn Fn(&mut Instance), cached: &[f64]| {
        let mut instance = fork();
        change(&mut instance);
        evaluate(&instance, cached).unwrap().violations
    };
    let full = [1.0, 0.0, 0.0, 0.0];
    assert_eq!(violations(&|_| (), &full), []);
    assert_eq!(
        violations(&|instance| instance.devices[0].memory = 99.0, &full),
        [Violation::Memory { device: 0, memory: Use { used: 100.0, limit: 99.0 } }]
    );
    assert_eq!(
        violations(&|instance| instance.devices[0].operations = 149.0, &full),
        [Violation::Operations { device: 0, operations: Use { used: 150.0, limit: 149.0 } }]
    );
    assert_eq!(
        violations(&|instance| instance.ingresses[0].memory = 99.0, &full),
        [Violation::IngressMemory { ingress: 0, memory: Use { used: 100.0, limit: 99.0 } }]
    );
    assert_eq!(
        violations(&|_| (), &[0.0, 0.0, 0.5, -0.25]),
        [Violation::Negative { path: 1, device: 4, share: -0.25 }]
    );
    assert!(matches!(
        violations(&|_| (), &[0.5, 0.6, 0.0, 0.0])[..],
        [Violation::Cover { path: 0, .. }]
    ));
    // Within the tolerance, and just beyond.
    let limit =
        |limit: f64| violations(&|instance| instance.devices[0].memory = limit, &full).len();
    assert_eq!((limit(100.0 * (1.0 - 5e-10)), limit(100.0 * (1.0 - 2e-9))), (0, 1));
}

#[test]
fn a_broken_plan_is_named_in_one_line() {
    let mut instance = fork();
    instance.devices[0].memory = 10.0;
    let evaluation = evaluate(&instance, &[1.0, 1.0, 0.0, 0.0]).unwrap();
    assert_eq!(
        evaluation.holds(&instance).unwrap_err().to_string(),
        "solver: the plan breaks 2 rules, the first: devices cache 2 of the path from 0 to 2; its ingress encodes 1"
    );
    assert_eq!(
        evaluation.violations[1].words(&instance),
        "the device of 0 -> 1 caches 100 bytes; it holds 10"
    );
    let whole = evaluate(&fork(), &[1.0, 0.0, 0.0, 0.0]).unwrap();
    assert_eq!(whole.holds(&instance), Ok(()));
}

#[test]
fn what_is_no_assignment_is_refused() {
    assert!(evaluate(&fork(), &[0.0; 3]).is_err());
    assert!(evaluate(&fork(), &[0.0, f64::NAN, 0.0, 0.0]).is_err());
    assert!(evaluate(&fork(), &[0.0, f64::INFINITY, 0.0, 0.0]).is_err());
}

#[test]
fn a_solver_that_lies_is_caught() {
    let mut instance = fork();
    let say = |objective: f64, bound: f64| Solution {
        objective,
        bound,
        ..Solution::given(vec![1.0, 0.0, 0.0, 0.0])
    };
    let violations = |solution: &Solution| check(&instance, solution).unwrap().violations;
    assert_eq!(violations(&say(50.0, 60.0)), []);
    assert_eq!(violations(&say(50.0 + 4e-5, 60.0)), []);
    assert_eq!(
        violations(&say(50.0 + 6e-5, 60.0)),
        [Violation::Objective { said: 50.0 + 6e-5, found: 50.0 }]
    );
    assert_eq!(violations(&say(50.0, 49.0)), [Violation::Bound { bound: 49.0, found: 50.0 }]);
    assert_eq!(violations(&say(f64::NAN, f64::NAN)).len(), 2);

    assert!(check_load(&instance, &say(0.75, 0.7)).is_err());
    // All links of 1600 bit/s: the first is still the fullest.
    instance.epoch = Seconds(1.0);
    let load = |capacity| check_for(&instance, &say(0.75, 0.7), &Objective::LinkLoad { capacity });
    assert_eq!(load(Some(BitRate(1600.0))).unwrap().violations, []);
    assert!(load(None).is_err());
    assert_eq!(
        check_for(&instance, &say(50.0, 50.0), &Objective::Footprint).unwrap().violations,
        []
    );

    instance.network.links[0].capacity = Some(BitRate(1600.0));
    instance.epoch = Seconds(1.0);
    let violations = |solution: &Solution| check_load(&instance, solution).unwrap().violations;
    assert_eq!(violations(&say(0.75, 0.7)), []);
    assert_eq!(violations(&say(0.75, 0.8)), [Violation::Bound { bound: 0.8, found: 0.75 }]);
    assert_eq!(violations(&say(0.7, 0.7)), [Violation::Objective { said: 0.7, found: 0.75 }]);
}

/// d(p, r) for the hops of any instance of [`instances`].
fn shares() -> impl Strategy<Value = Vec<f64>> {
    prop::collection::vec(prop_oneof![1 => Just(0.0), 2 => 0.0..1.0], 200)
}

/// Footprint saved, bytes saved per link, matches decoded per device: each pair, each device, each
/// link, by the definitions alone.
fn plainly(instance: &Instance, cached: &[f64]) -> (f64, Vec<f64>, Vec<f64>) {
    let mut saved = 0.0;
    let mut on_links = vec![0.0; instance.network.links.len()];
    let mut decoded = vec![0.0; instance.devices.len()];
    for p in 0..instance.paths.len() {
        for q in 0..instance.paths.len() {
            let path = &instance.paths[p];
            let found = instance.matches(p, q);
            for (at, of_q) in instance.paths[q].hops.iter().enumerate() {
                for of_p in path.hops.iter().filter(|of_p| of_p.device == of_q.device) {
                    let matches = instance.coded(path.ingress as usize)
                        * found.count
                        * cached[instance.hop_index(q, at)];
                    saved += matches * found.length * f64::from(of_p.distance);
                    decoded[of_p.device] += matches;
                    for link in 0..of_p.distance as usize {
                        on_links[path.links[link]] += matches * found.length;
                    }
                }
            }
        }
    }
    (saved, on_links, decoded)
}

fn near(a: f64, b: f64) -> bool {
    (a - b).abs() <= 1e-9 * a.abs().max(b.abs()).max(1.0)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn the_evaluation_is_the_definition(instance in instances(), shares in shares()) {
        let cached = &shares[..instance.hop_count()];
        let evaluation = evaluate(&instance, cached).unwrap();
        let (saved, on_links, decoded) = plainly(&instance, cached);
        prop_assert!(near(evaluation.footprint.saved, saved), "{} {}", evaluation.footprint.saved, saved);
        prop_assert!(near(evaluation.footprint.before, instance.footprint()));
        prop_assert!(near(evaluation.footprint.saved, evaluation.ingresses.iter().map(|ingress| ingress.footprint.saved).sum()));
        for (link, saved) in evaluation.links.iter().zip(&on_links) {
            prop_assert!(near(link.before - link.after, *saved));
        }
        for (device, decoded) in evaluation.devices.iter().zip(&decoded) {
            prop_assert!(near(device.decoded, *decoded));
        }
        let mut memory = vec![0.0; instance.devices.len()];
        for (number, path) in instance.paths.iter().enumerate() {
            for (at, hop) in path.hops.iter().enumerate() {
                memory[hop.device] += cached[instance.hop_index(number, at)] * path.volume;
            }
        }
        for (device, memory) in evaluation.devices.iter().zip(&memory) {
            prop_assert!(near(device.memory.used, *memory));
            prop_assert!(near(device.operations.used, device.decoded + memory / instance.packet.0));
        }
    }

    #[test]
    fn matches_are_those_of_the_profile(instance in instances()) {
        let mut pairs = Vec::new();
        for p in 0..instance.paths.len() {
            matches_of(&instance, p, &mut pairs);
            for q in 0..instance.paths.len() {
                let expected = instance.matches(p, q);
                let found = pairs.iter().find(|pair| pair.q == q);
                prop_assert!(near(found.map_or(0.0, |pair| pair.count), expected.count));
                prop_assert!(near(found.map_or(0.0, |pair| pair.count * pair.length), expected.bytes()));
            }
        }
    }

    #[test]
    fn what_is_saved_is_linear(instance in instances(), a in shares(), b in shares(), x in 0.0..1.0) {
        let hops = instance.hop_count();
        let mixed: Vec<f64> = a.iter().zip(&b).map(|(a, b)| x * a + (1.0 - x) * b).collect();
        let [a, b, mixed] = [a, b, mixed].map(|cached| evaluate(&instance, &cached[..hops]).unwrap());
        let mix = |of: &dyn Fn(&Evaluation) -> f64| near(of(&mixed), x * of(&a) + (1.0 - x) * of(&b));
        prop_assert!(mix(&|evaluation| evaluation.footprint.saved));
        for link in 0..mixed.links.len() {
            prop_assert!(mix(&|evaluation| evaluation.links[link].after));
        }
        for device in 0..mixed.devices.len() {
            prop_assert!(mix(&|evaluation| evaluation.devices[device].operations.used));
        }
    }

    #[test]
    fn solvers_answers_pass_and_agree(instance in instances()) {
        let general = solve(&instance).unwrap();
        prop_assert_eq!(check(&instance, &general).unwrap().violations, vec![]);
        let (ours, _) = lp::solve(&instance, &lp::Options::default(), None, &Unwatched).unwrap();
        prop_assert_eq!(check(&instance, &ours).unwrap().violations, vec![]);
        let near = 1e-6 * general.objective.max(1e-6 * instance.footprint());
        prop_assert!((ours.objective - general.objective).abs() <= near, "{} {}", ours.objective, general.objective);
    }

    #[test]
    fn choosing_ingresses_leaves_what_each_does(instance in instances(), shares in shares(), chosen: u8) {
        // Slices of a node share a store: all of them, or none.
        let chosen: Vec<usize> = instance.stores().enumerate().filter(|(store, _)| chosen >> store & 1 == 1).flat_map(|(_, slices)| slices).collect();
        prop_assume!(!chosen.is_empty());
        let only = instance.only(&chosen).unwrap();
        let cached: Vec<f64> =
            chosen.iter().flat_map(|&ingress| instance.paths_of(ingress)).flat_map(|path| &shares[instance.hop_range(path)]).copied().collect();
        let (whole, part) = (evaluate(&instance, &shares[..instance.hop_count()]).unwrap(), evaluate(&only, &cached).unwrap());
        for (number, ingress) in chosen.into_iter().enumerate() {
            prop_assert_eq!(part.ingresses[number], whole.ingresses[ingress]);
        }
    }
}

/// X, A, B with A and B caching half each; 30 matches of a byte with itself.
#[test]
fn several_copies_are_decoded_farther_along_the_path() {
    let shares = [0.5, 0.5, 0.0, 0.0];
    let saved = |copies: f64, length: f64| {
        let mut instance = fork();
        let pairs = vec![(0, 0, crate::Match { count: 3.0, length })];
        instance.profile = Profile::Measured(crate::Measured { pairs, copies });
        with_copies(&instance, &shares).saved
    };
    // First copies only: as the program has it, less what shims take.
    let program = 0.5 * 1.0 + 0.5 * 2.0;
    let shims = 14.0 * 3.0 * program + 3.0 * 100.0 * program;
    assert!((saved(0.0, 20.0) - (60.0 * program - shims)).abs() < 1e-9);
    // Repeated twice in an epoch: then one copy on average was there before, which is B's with
    // probability 1/2. Neither the first nor a later one is at B: 1/2 (1 - e^-1).
    let at_b = 1.0 - 0.5 * (1.0 - (-1f64).exp());
    // A has the first, or the packet's copy is whole there: not decoded at B.
    let left = 1.0 - at_b;
    let later_at_a = 2.0 * 0.5 * left;
    let both = 1.0 + later_at_a;
    let nowhere = 0.0 * (1.0 - (-both).exp()) / both;
    let distance = 2.0 * at_b + 1.0 * (left - nowhere);
    let shims = 14.0 * 3.0 * distance + 3.0 * 100.0 * program;
    let expected = 60.0 * distance - shims;
    assert!((saved(1.0, 20.0) - expected).abs() < 1e-9, "{} {expected}", saved(1.0, 20.0));
}
