//! Small programs whose answers are known, and errors.

use super::*;

use crate::{BitRate, Bytes, LinkId, Seconds};

/// Two nodes apart `links` links, one path with `volume` bytes.
fn line(links: usize, volume: f64, placement: &Placement) -> Instance {
    let pops: Vec<u32> = (0..=links as u32).collect();
    let mut network = Network { nodes: nodes(&pops), ..Network::default() };
    for at in 0..links as u32 {
        network.links.push(cable(at, at + 1, Some(BitRate(1e9)))[0]);
    }
    let route = Route {
        from: NodeId(0),
        to: NodeId::new(links),
        slice: 0,
        links: LinkId::first(links).collect(),
        volume,
    };
    let profile = Synthetic {
        gamma: 0.5,
        intrapop: 0.5,
        intrapath: 0.5,
        length: 500.0,
        ingresses: BTreeMap::new(),
    };
    Instance::new(
        network,
        vec![route],
        &Provision::default(),
        placement,
        Profile::Synthetic(profile),
    )
    .unwrap()
}

fn plan(instance: &Instance, objective: Objective) -> Solution {
    solve(instance, &Options { objective, ..Options::default() }, None, &Unwatched).unwrap().0
}

/// 1000 bytes each from 0 to 3 by 1 and by 2, as two slices, of which half repeats. Both slices use
/// the ingress's store and encoder.
#[test]
fn slices_by_hand() {
    let mut network = Network { nodes: nodes(&[0, 1, 2, 3]), ..Network::default() };
    for (a, b) in [(0, 1), (1, 3), (0, 2), (2, 3)] {
        network.links.push(cable(a, b, None)[0]);
    }
    let route = |slice: u16| Route {
        from: NodeId(0),
        to: NodeId(3),
        slice,
        links: LinkId::first(4).skip(2 * usize::from(slice)).take(2).collect(),
        volume: 1000.0,
    };
    let profile = line(1, 1.0, &Placement::Links).profile;
    let build = |routes| {
        let (provision, placement) = (Provision::default(), Placement::Links);
        Instance::new(network.clone(), routes, &provision, &placement, profile.clone())
    };
    let one_slice = build(vec![route(0), Route { slice: 0, ..route(1) }]);
    assert_eq!(one_slice.unwrap_err().to_string(), "paths: a second path from n0 to n3");

    let mut instance = build(vec![route(1), route(0)]).unwrap();
    let slices: Vec<_> = instance.ingresses.iter().map(|one| (one.slice, one.store)).collect();
    assert_eq!(slices, [(0, 0), (1, 0)]);
    let both = |instance: &Instance| plan(instance, Objective::Footprint).objective;
    assert!(near(both(&instance), 2.0 * 500.0 * 2.0, 1e-6));
    for ingress in &mut instance.ingresses {
        ingress.memory = 500.0;
    }
    assert!(near(both(&instance), 0.5 * 500.0 * 2.0, 1e-6), "{}", both(&instance));
    // One of the two packets has fingerprints: half the packets of each slice, against half of them.
    for ingress in &mut instance.ingresses {
        (ingress.memory, ingress.encodings) = (1e9, 1.0);
    }
    assert!(near(both(&instance), 2.0 * 0.5 * 0.5 * 500.0 * 2.0, 1e-6), "{}", both(&instance));
    let single = instance.single(1);
    assert_eq!((single.ingresses.len(), single.paths.len()), (2, 2));
    assert!(near(both(&single), both(&instance), 1e-9));
}

#[test]
fn one_path_by_hand() {
    // Half of 1000 bytes repeats. The last device has room for 500 bytes, the one before it for
    // 300, the first for all.
    let mut instance = line(3, 1000.0, &Placement::Links);
    instance.devices[2].memory = 500.0;
    instance.devices[1].memory = 300.0;
    let solution = plan(&instance, Objective::Footprint);
    assert!(
        solution
            .cached
            .iter()
            .zip([0.2, 0.3, 0.5])
            .all(|(found, known)| (found - known).abs() < 1e-6),
        "{:?}",
        solution.cached
    );
    assert!(near(solution.objective, 500.0 * (0.2 + 2.0 * 0.3 + 3.0 * 0.5), 1e-6));
    // A byte more at the last saves half a byte on two links more than at the first.
    assert!(
        solution
            .prices
            .memory
            .iter()
            .zip([0.0, 0.5, 1.0])
            .all(|(found, known)| (found - known).abs() < 1e-5),
        "{:?}",
        solution.prices
    );

    // Of 80 % of the packets the ingress has no fingerprints: what is matched, and what may be
    // stored, is a fifth.
    let mut few = instance.clone();
    few.ingresses[0].encodings = 0.2;
    let solution = plan(&few, Objective::Footprint);
    assert!(near(solution.objective, 0.2 * 500.0 * 3.0 * 0.2, 1e-6), "{}", solution.objective);

    // The first link stays as loaded as the plan cannot help; all of the redundancy is saved there.
    let solution = plan(&instance, Objective::LinkLoad { capacity: None });
    let whole = 1000.0 / (1e9 * instance.epoch.0 / 8.0);
    assert!(
        near(solution.objective, whole * (1.0 - 0.5 * 0.5), 1e-6),
        "{} of {whole}",
        solution.objective
    );
}

#[test]
fn a_resource_that_is_not_there_has_a_price() {
    let mut instance = line(2, 1000.0, &Placement::Links);
    instance.devices[1].memory = 0.0;
    let solution = plan(&instance, Objective::Footprint);
    assert!(near(solution.objective, 500.0, 1e-9) && solution.gap() < 1e-9, "{solution:?}");
    assert!(near(solution.prices.memory[1], 0.5, 1e-6), "{:?}", solution.prices);
}

#[test]
fn degenerate_programs() {
    let nothing = |instance: &Instance| {
        for objective in [Objective::Footprint, LOAD] {
            let solution = plan(instance, objective);
            assert_eq!(solution.gap(), 0.0, "{objective:?}: {solution:?}");
            assert_eq!(solution.cached, vec![0.0; instance.hop_count()]);
        }
    };
    // No device on the path.
    nothing(&line(3, 1000.0, &Placement::Some(BTreeSet::new())));
    // Nothing repeats.
    let mut instance = line(3, 1000.0, &Placement::Links);
    instance.profile = Profile::Measured(Measured::default());
    let solution = plan(&instance, Objective::Footprint);
    assert_eq!((solution.objective, solution.bound), (0.0, 0.0));
    // No memory anywhere, no operations anywhere, no ingress memory, no encodings.
    let whole = line(3, 1000.0, &Placement::Links);
    let mut instance = whole.clone();
    instance.devices.iter_mut().for_each(|device| device.memory = 0.0);
    nothing(&instance);
    instance.devices.iter_mut().for_each(|device| device.operations = 0.0);
    nothing(&instance);
    let mut instance = whole.clone();
    instance.ingresses[0].memory = 0.0;
    nothing(&instance);
    let mut instance = whole.clone();
    instance.ingresses[0].encodings = 0.0;
    nothing(&instance);
    // No limits at all: everything at the last device.
    let mut instance = whole.clone();
    instance
        .devices
        .iter_mut()
        .for_each(|device| (device.memory, device.operations) = (f64::INFINITY, f64::INFINITY));
    instance.ingresses[0].memory = f64::INFINITY;
    instance.ingresses[0].encodings = f64::INFINITY;
    let solution = plan(&instance, Objective::Footprint);
    assert_eq!(
        (solution.cached.as_slice(), solution.objective, solution.gap()),
        ([0.0, 0.0, 1.0].as_slice(), 1500.0, 0.0)
    );
    // Limits so small that dividing by them has no number.
    let mut instance = whole;
    instance.devices.iter_mut().for_each(|device| device.memory = 1e-307);
    let solution = plan(&instance, Objective::Footprint);
    assert!(
        solution.objective.is_finite() && solution.bound.is_finite() && solution.bound < 1e-9,
        "{solution:?}"
    );
}

#[test]
fn numbers_that_are_none_are_refused() {
    let sound = line(2, 1000.0, &Placement::Links);
    let refused = |change: &dyn Fn(&mut Instance)| {
        let mut instance = sound.clone();
        change(&mut instance);
        let error =
            solve(&instance, &Options::default(), None, &Unwatched).unwrap_err().to_string();
        assert!(!error.contains('\n'));
        error
    };
    assert_eq!(
        refused(&|i| i.devices[1].memory = f64::NAN),
        "devices: the memory of n1 -> n2 is NaN; it must be 0 or more"
    );
    assert_eq!(
        refused(&|i| i.devices[0].operations = -1.0),
        "devices: the operations per epoch of n0 -> n1 is -1; it must be 0 or more"
    );
    assert_eq!(
        refused(&|i| i.ingresses[0].encodings = f64::NAN),
        "devices: the encodings per epoch of ingress n0 is NaN; it must be 0 or more"
    );
    refused(&|i| i.paths[0].volume = f64::INFINITY);
    refused(&|i| i.paths[0].pop_volume = f64::NAN);
    refused(&|i| i.ingresses[0].volume = -5.0);
    refused(&|i| i.packet = Bytes(0.0));
    refused(&|i| i.epoch = Seconds(f64::NAN));
    refused(&|i| {
        i.profile = Profile::Measured(Measured {
            pairs: vec![(0, 0, Match { count: f64::NAN, length: 1.0 })],
            ..Measured::default()
        });
    });
    refused(&|i| {
        i.paths[0].volume = 1e308;
        i.profile = Profile::Measured(Measured {
            pairs: vec![(0, 0, Match { count: 1e308, length: 1000.0 })],
            ..Measured::default()
        });
    });
    let load = Options { objective: Objective::LinkLoad { capacity: None }, ..Options::default() };
    let mut bare = sound.clone();
    bare.network.links.iter_mut().for_each(|link| link.capacity = None);
    assert!(
        solve(&bare, &load, None, &Unwatched)
            .unwrap_err()
            .to_string()
            .contains("no link that carries traffic has a capacity")
    );
    bare.network.links[0].capacity = Some(BitRate(0.0));
    assert!(
        solve(&bare, &load, None, &Unwatched)
            .unwrap_err()
            .to_string()
            .contains("a capacity of 0 bit/s")
    );
    for tolerance in [f64::NAN, -1.0] {
        assert!(
            solve(&sound, &Options { tolerance, ..Options::default() }, None, &Unwatched).is_err()
        );
    }
}

#[test]
fn a_warm_start_of_another_shape_is_not_used() {
    let (_, warm) =
        solve(&line(2, 1000.0, &Placement::Links), &Options::default(), None, &Unwatched).unwrap();
    let other = line(3, 1000.0, &Placement::Links);
    let (solution, _) = solve(&other, &Options::default(), Some(&warm), &Unwatched).unwrap();
    assert_eq!(solution, plan(&other, Objective::Footprint));
}

#[test]
fn ends_when_told() {
    struct Impatient;
    impl Watch for Impatient {
        fn progress(&self, _: &str, _: u64, _: u64) {}
        fn stopped(&self) -> bool {
            true
        }
    }
    assert_eq!(
        solve(&line(2, 1000.0, &Placement::Links), &Options::default(), None, &Impatient),
        Err(Error::Stopped)
    );
}

/// Against HiGHS, at the size of the largest network of the papers: 70 PoPs with 4 access routers
/// each.
#[cfg(feature = "highs")]
#[test]
fn router_level_equals_highs() {
    let random = &mut Random::with_seed(5);
    let (pops, access) = (70usize, 4usize);
    let of_nodes: Vec<u32> = (0..pops * (1 + access))
        .map(|node| if node < pops { node } else { (node - pops) / access } as u32)
        .collect();
    let mut network = Network { nodes: nodes(&of_nodes), ..Network::default() };
    for b in 1..pops {
        network.links.extend(cable(random.usize(..b) as u32, b as u32, Some(BitRate(40e9))));
        network.links.extend(cable(random.usize(..b) as u32, b as u32, Some(BitRate(40e9))));
    }
    for node in pops..of_nodes.len() {
        network.links.extend(cable(of_nodes[node], node as u32, Some(BitRate(10e9))));
    }
    let weights: Vec<f64> = of_nodes.iter().map(|_| (4.0 * random.f64()).exp()).collect();
    let mut routes = routes(&network, 0, &mut || 1.0);
    routes.retain(|route| {
        let (from, to) = (route.from.index(), route.to.index());
        from >= pops && to >= pops && of_nodes[from] != of_nodes[to]
    });
    let total: f64 = weights[pops..].iter().sum();
    routes.iter_mut().for_each(|route| route.volume = 2.5e9 * weights[route.to.index()] / total);
    let profile = Synthetic {
        gamma: 0.5,
        intrapop: 0.5,
        intrapath: 0.5,
        length: 1000.0,
        ingresses: BTreeMap::new(),
    };
    let instance = Instance::new(
        network,
        routes,
        &Provision::default(),
        &Placement::Links,
        Profile::Synthetic(profile),
    )
    .unwrap();
    assert_eq!(instance.paths.len(), 77_280);
    for objective in [Objective::Footprint, Objective::LinkLoad { capacity: None }] {
        let by = |method| {
            solve(&instance, &Options { objective, method, ..Options::default() }, None, &Unwatched)
                .unwrap()
                .0
        };
        let (ours, reference) = (by(Method::Interior), by(Method::Highs));
        assert!(
            near(ours.objective, reference.objective, 1e-6),
            "{} and {}",
            ours.objective,
            reference.objective
        );
        // The prices of both prove the same bound.
        assert!(near(ours.bound, reference.bound, 1e-6), "{} and {}", ours.bound, reference.bound);
    }
}

#[cfg(feature = "highs")]
proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    #[test]
    fn highs_is_the_optimum(seed: u64, load: bool) {
        check(&random_instance(seed, false), if load { LOAD } else { Objective::Footprint }, Method::Highs);
    }
}

/// Here what the interior point method ends with at its tolerance loses ten times that when it is
/// repaired.
#[test]
fn what_repair_loses_is_won_back() {
    let instance = random_instance(5644903894492800421, true);
    for method in [Method::Auto, Method::Interior] {
        let (solution, _) =
            solve(&instance, &Options { method, ..Options::default() }, None, &Unwatched).unwrap();
        assert!(solution.gap() <= 1e-7, "{:e}", solution.gap());
    }
}
