use proptest::prelude::*;

use super::*;
use crate::{
    Placement, Unwatched,
    testing::{instances, measured, network, route, solve, unlimited},
};

/// 0 - 1 - 2 - 3 and 4 - 2: 100 bytes from 0 to 3, of which 60 repeat, and 100 from 4 to 3, of which
/// 30 do.
fn example() -> Instance {
    let network = network(5, &[(0, 1), (1, 2), (2, 3), (4, 2)]);
    let routes = vec![route(&network, &[0, 1, 2, 3], 100.0), route(&network, &[4, 2, 3], 100.0)];
    let profile = measured(&[(0, 0, 60.0, 1.0), (1, 1, 30.0, 1.0)]);
    let mut instance =
        Instance::new(network, routes, &unlimited(), &Placement::Links, profile).unwrap();
    instance.devices.iter_mut().for_each(|device| device.memory = 150.0);
    instance.ingresses.iter_mut().for_each(|ingress| ingress.memory = 100.0);
    instance
}

fn bought(instance: &Instance, tariff: &Tariff, aim: Aim) -> (Vec<usize>, Vec<u32>, f64, f64) {
    let found = purchase(instance, tariff, aim, &solve, &Unwatched).unwrap();
    assert!(found.proven);
    let applied = found.apply(instance).unwrap();
    let saved = solve(&applied).unwrap().objective;
    assert!((saved - found.saved).abs() < 1e-3, "{saved} {found:?}");
    let decoders = found.decoders.iter().map(|device| device.0).collect();
    (found.encoders, decoders, found.cost, found.saved.round())
}

#[test]
fn the_fewest_devices_for_a_target_and_the_most_for_a_budget() {
    let example = example();
    let devices = Tariff::default();
    // All: the last device holds all of path 0, 3 links away, and half of path 1; the one before it
    // the other half.
    let all = 180.0 + 30.0 + 15.0;
    let most = purchase(&example, &devices, Aim::Budget(100.0), &solve, &Unwatched).unwrap();
    assert_eq!((most.saved.round(), most.whole_saved.round(), most.whole_cost), (all, all, 4.0));
    assert_eq!(bought(&example, &devices, Aim::Budget(2.0)), (vec![0], vec![4], 2.0, 180.0));
    assert_eq!(bought(&example, &devices, Aim::Budget(3.0)), (vec![0, 1], vec![4], 3.0, 210.0));
    assert_eq!(bought(&example, &devices, Aim::Target(179.0)), (vec![0], vec![4], 2.0, 180.0));
    assert_eq!(bought(&example, &devices, Aim::Target(181.0)), (vec![0, 1], vec![4], 3.0, 210.0));
    // The device at the end costs 160, the one before it little: 2 links away, it holds all of it.
    let mut small = example.clone();
    small.devices[2].memory = 100.0;
    let memory = Tariff { device: 10.0, memory: 1.0 };
    assert_eq!(bought(&small, &memory, Aim::Target(110.0)), (vec![0], vec![2], 220.0, 120.0));
    let by_memory = purchase(&small, &memory, Aim::Budget(219.0), &solve, &Unwatched);
    assert!(by_memory.is_err(), "{by_memory:?}");
    let message = by_memory.unwrap_err().to_string();
    assert!(message.contains("an encoder and a decoder cost 220 at least"), "{message}");
    let error = purchase(&example, &devices, Aim::Target(226.0), &solve, &Unwatched).unwrap_err();
    assert!(
        error.to_string().contains("45.20 % are to be saved; all devices together save 45.00 %"),
        "{error}"
    );
    for tariff in [
        Tariff { device: -1.0, memory: 0.0 },
        Tariff { device: 0.0, memory: 0.0 },
        Tariff { device: f64::NAN, memory: 0.0 },
        Tariff { device: f64::INFINITY, memory: 0.0 },
    ] {
        assert!(purchase(&example, &tariff, Aim::Budget(2.0), &solve, &Unwatched).is_err());
    }
}

/// The best of all sets: the least cost that reaches a target, the most saved within a budget.
fn exhaustively(instance: &Instance, tariff: &Tariff, aim: Aim) -> Option<f64> {
    let mut best: Option<f64> = None;
    let used = on_paths(instance);
    let members: Vec<Member> = Set::all(instance)
        .members()
        .filter(|member| match member {
            Member::Encoder(_) => true,
            Member::Decoder(device) => used[*device],
        })
        .collect();
    for choice in 0..1_u32 << members.len() {
        let mut set = Set::none(instance);
        let chosen = members.iter().enumerate().filter(|(at, _)| choice >> at & 1 == 1);
        chosen.for_each(|(_, &member)| set.put(member, true));
        let cost = set.cost(instance, tariff);
        if matches!(aim, Aim::Budget(budget) if cost > budget) {
            continue;
        }
        let saved = solve(&set.apply(instance).unwrap()).unwrap().objective;
        match aim {
            Aim::Budget(_) => best = Some(best.unwrap_or(0.0).max(saved)),
            Aim::Target(target) if saved >= target * (1.0 - NEAR) => {
                best = Some(best.unwrap_or(f64::INFINITY).min(cost));
            }
            Aim::Target(_) => {}
        }
    }
    best
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn no_set_is_better(instance in instances(), part in 0.1..0.95_f64, memory in any::<bool>(), money in any::<bool>()) {
        // Two stores and five devices at most: 128 sets.
        let nodes: BTreeSet<NodeId> = instance.ingresses.iter().map(|one| one.node).take(2).collect();
        let some: Vec<usize> = (0..instance.ingresses.len()).filter(|&at| nodes.contains(&instance.ingresses[at].node)).collect();
        let instance = instance.only(&some).unwrap();
        let devices: Vec<DeviceId> = DeviceId::first(instance.devices.len()).filter(|&device| on_paths(&instance)[device]).take(5).collect();
        let mut instance = deployed(&instance, &devices).unwrap();
        instance.devices.iter_mut().for_each(|device| device.memory = device.memory.min(1e9));
        let tariff = Tariff { device: 100.0, memory: if memory { 1e-4 } else { 0.0 } };
        let whole = solve(&instance).unwrap().objective;
        prop_assume!(whole > 1e-3 * instance.footprint());
        let aim = if money {
            Aim::Budget(part * Set::all(&instance).cost(&instance, &tariff))
        } else {
            Aim::Target(part * whole)
        };
        let best = exhaustively(&instance, &tariff, aim);
        let near = 4e-6 * instance.footprint();
        match purchase(&instance, &tariff, aim, &solve, &Unwatched) {
            Ok(found) => {
                let best = best.unwrap();
                match aim {
                    Aim::Budget(budget) => {
                        prop_assert!(found.cost <= budget);
                        prop_assert!(found.saved <= best + near, "{found:?}, by trying all {best}");
                        prop_assert!(!found.proven || found.saved >= best - near, "{found:?}, by trying all {best}");
                    }
                    Aim::Target(target) => {
                        prop_assert!(found.saved >= target * (1.0 - NEAR));
                        prop_assert!(found.cost >= best * (1.0 - 1e-9), "{found:?}, by trying all {best}");
                        prop_assert!(!found.proven || found.cost <= best * (1.0 + 1e-6), "{found:?}, by trying all {best}");
                    }
                }
                prop_assert!(found.proven, "{found:?}");
            }
            Err(error) => prop_assert!(best.is_none_or(|best| best <= near), "{error}: {best:?}"),
        }
        let search =
            Search { instance: &instance, tariff: &tariff, aim, solve: &solve, watch: &Unwatched };
        // Branch and bound by itself.
        if let (Some(best), Some(set)) = (best, search.exactly(None).unwrap()) {
            let (saved, cost) = (search.value(&set).unwrap().saved, set.cost(&instance, &tariff));
            match aim {
                Aim::Budget(_) => prop_assert!((saved - best).abs() <= near, "{saved}, by trying all {best}"),
                Aim::Target(_) => prop_assert!((cost / best - 1.0).abs() <= 1e-6, "{cost}, by trying all {best}"),
            }
        }
        // What is found without branch and bound is a set, too, if not always the best.
        if let Some(found) = search.leave_out(search.value(&Set::all(&instance)).unwrap()).unwrap() {
            prop_assert!(search.fits(&found));
        }
    }
}
