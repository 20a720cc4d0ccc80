//! Known answers, laws, and an exhaustive search as a judge.

mod interrupts;

use super::*;
use crate::{
    BitRate, Error, Unwatched, Watch,
    error::RouteError,
    network::{Link, Node},
};

/// A network of cables with a latency.
fn cables(nodes: usize, cables: &[(u32, u32, f64)]) -> Network {
    let mut network = Network::default();
    for number in 0..nodes {
        let id = number.to_string();
        network.nodes.push(Node { label: id.clone(), id, pop: number as u32, ..Node::default() });
    }
    for &(a, b, latency) in cables {
        for (from, to) in [(a, b), (b, a)] {
            let (from, to) = (NodeId(from), NodeId(to));
            network.links.push(Link { from, to, weight: 1.0, latency, capacity: None });
        }
    }
    network
}

fn class(egresses: &[u32], bytes: f64, copies: &[f64]) -> Class {
    Class {
        egresses: egresses.iter().map(|&egress| NodeId(egress)).collect(),
        bytes,
        copies: copies.into(),
    }
}

fn request<'a>(network: &'a Network, ingresses: Vec<(NodeId, Classes)>) -> Request<'a> {
    Request {
        network,
        ingresses,
        cost: Cost::Latency,
        objective: Objective::Footprint,
        capacity: None,
        interval: Seconds(60.0),
        eliminates: Vec::new(),
        plain_load: None,
        safety_net: false,
        slices: 1,
        gap: 1e-3,
        against: None,
        compare: true,
    }
}

fn schemes(outcome: &Outcome) -> Vec<f64> {
    outcome.schemes.iter().map(|scheme| scheme.footprint).collect()
}

/// Two contents, each for D1 twice and D2 once. Thesis, figure 6.1: 18 packets over all links; 12
/// with elimination on shortest paths; 10 on the best routes.
#[test]
fn the_example_of_figure_6_1() {
    // S 0, D1 3, D2 5. The shortest paths have three links each and none in common; one more way
    // to D2 leaves the way to D1 after a link.
    let network = cables(
        7,
        &[
            (0, 1, 1.0),
            (1, 2, 1.0),
            (2, 3, 1.0),
            (0, 4, 1.0),
            (4, 6, 1.0),
            (6, 5, 1.0),
            (1, 6, 1.0),
        ],
    );
    let classes = vec![class(&[3, 5], 2.0, &[2.0, 1.0])];
    let request = request(&network, vec![(NodeId(0), Classes::Listed(classes))]);
    let outcome = run(&request, &Unwatched).unwrap();
    // The link 4 -> 6 is preferred to 1 -> 6 only if node 4 came first; either way is shortest.
    assert_eq!(schemes(&outcome)[0], 18.0);
    assert_eq!(schemes(&outcome)[2], 10.0);
    assert!((outcome.bound - 10.0).abs() < 0.01, "{}", outcome.bound);
    // With a longer way round, shortest paths are unique.
    let mut network = network.clone();
    network.links[12].latency = 1.0 + 1e-9;
    let request = Request { network: &network, ..request };
    let outcome = run(&request, &Unwatched).unwrap();
    let found: Vec<f64> = schemes(&outcome).iter().map(|value| value.round()).collect();
    assert_eq!(found, [18.0, 12.0, 10.0]);
}

/// Six equal packets and two equal packets, half of each for D1 and D2. Thesis, figure 1.3: 24
/// packets; 12 with elimination on routes without a common link; 8 on redundancy-aware routes.
#[test]
fn the_example_of_figure_1_3() {
    let network = cables(
        7,
        &[
            (0, 1, 1.0),
            (1, 2, 1.0),
            (2, 3, 1.0),
            (0, 4, 1.0),
            (4, 5, 1.0),
            (5, 6, 1.0),
            (2, 6, 1.1),
        ],
    );
    let classes = vec![class(&[3, 6], 1.0, &[3.0, 3.0]), class(&[3, 6], 1.0, &[1.0, 1.0])];
    let mut request = request(&network, vec![(NodeId(0), Classes::Listed(classes))]);
    let outcome = run(&request, &Unwatched).unwrap();
    assert_eq!(schemes(&outcome)[..2], [24.0, 12.0]);
    assert!((outcome.value - 8.2).abs() < 1e-9, "{}", outcome.value);
    request.cost = Cost::Hops;
    assert_eq!(run(&request, &Unwatched).unwrap().value, 8.0);
}

/// SNDlib's Abilene as our maps have it; the node without a population is ATLAng.
pub(super) fn abilene() -> Network {
    let populations = [
        510823.0, 0.0, 2664452.0, 170924.0, 2314157.0, 887642.0, 56308.0, 3820914.0, 8804190.0,
        997368.0, 780995.0, 689545.0,
    ];
    let mut network = cables(
        12,
        &[
            (0, 1, 0.662),
            (1, 4, 5.397),
            (1, 5, 2.951),
            (1, 11, 4.497),
            (2, 5, 1.296),
            (2, 8, 5.726),
            (3, 6, 3.721),
            (3, 9, 7.572),
            (3, 10, 7.857),
            (4, 6, 5.136),
            (4, 7, 10.968),
            (5, 6, 4.508),
            (7, 9, 2.519),
            (8, 11, 1.675),
            (9, 10, 5.682),
        ],
    );
    for (node, population) in network.nodes.iter_mut().zip(populations) {
        node.population = (population > 0.0).then_some(population);
    }
    network.without_unpopulated()
}

fn reductions(outcome: &Outcome) -> [f64; 3] {
    let of = |at: usize| 1.0 - outcome.schemes[at].footprint / outcome.schemes[0].footprint;
    [of(1), of(2), 1.0 - outcome.bound / outcome.schemes[0].footprint]
}

/// Known answers: Los Angeles alone, and the mean over all ingresses.
#[test]
fn abilene_with_pairs_in_proportion_to_populations() {
    let network = abilene();
    let all = gravity(&network, 0.5, 1.0, 1.0).unwrap();
    let mut sums = [0.0; 3];
    for ingress in all {
        let los_angeles = ingress.0 == NodeId(7);
        let request = Request { gap: 1e-4, ..request(&network, vec![ingress]) };
        let outcome = run(&request, &Unwatched).unwrap();
        let found = reductions(&outcome);
        assert!(outcome.gap() <= 1e-4, "{found:?}");
        if los_angeles {
            assert_eq!(found.map(|value| (value * 1e4).round()), [1376.0, 2932.0, 2933.0]);
        }
        sums.iter_mut().zip(found).for_each(|(sum, value)| *sum += value / 11.0);
    }
    assert_eq!([sums[0], sums[1]].map(|value| (value * 1e4).round()), [1131.0, 1443.0]);
}

/// Capacities that differ, so that something binds.
pub(super) fn with_capacities(network: &Network) -> Network {
    network.with_random_capacities(&[2.5e9, 10e9].map(BitRate), 1)
}

pub(super) fn load_request(network: &Network, rho: f64) -> Request<'_> {
    let ingresses = gravity(network, rho, 1.0, 1e9).unwrap();
    Request {
        objective: Objective::Load,
        plain_load: Some(0.8),
        slices: 4,
        ..request(network, ingresses)
    }
}

#[test]
fn the_load_of_abilene_has_a_certified_gap() {
    let network = with_capacities(&abilene());
    let outcome = run(&load_request(&network, 0.5), &Unwatched).unwrap();
    assert!(outcome.gap() <= 2e-3, "{}", outcome.gap());
    let of = |name: &str| {
        let scheme = outcome.schemes.iter().find(|scheme| scheme.name == name).unwrap();
        scheme.utilization.unwrap()
    };
    assert!((of("LP-SP") - 0.8).abs() < 1e-9);
    assert_eq!(of("RA"), outcome.value);
    // Better than elimination on routes for the load alone, and than shortest paths.
    assert!(outcome.value < of("SP-Optimal") && outcome.value < of("SP-RE"), "{outcome:?}");
    // Prices of full capacities add up to 1, and prove the bound.
    let prices = outcome.link_prices.iter().zip(&outcome.capacities);
    let sum: f64 = prices.map(|(price, capacity)| price * capacity.unwrap()).sum();
    assert!((sum - 1.0).abs() < 1e-9, "{sum}");
    for ingress in &outcome.ingresses {
        let slices: Vec<&Slice> = outcome.routes.of(ingress.ingress).collect();
        assert!((1..=4).contains(&slices.len()));
        let weights: f64 = slices.iter().map(|slice| slice.weight).sum();
        assert!((weights - 1.0).abs() < 1e-12);
    }
    assert!(outcome.routes.slices.len() > outcome.ingresses.len(), "some use several trees");
}

/// Two trees of each ingress, well chosen, do what four and more do here; a single one of each does
/// not, but is no worse than shortest paths.
#[test]
fn few_trees_are_nearly_as_good_as_many() {
    let network = with_capacities(&abilene());
    for rho in [0.2, 0.3, 0.5] {
        let with = |slices| {
            let request = Request { slices, ..load_request(&network, rho) };
            run(&request, &Unwatched).unwrap()
        };
        let two = with(2);
        assert!(two.gap() <= 1e-3, "{rho}: {}", two.gap());
        let one = with(1);
        let shortest = one.shortest.busiest(&one.capacities).unwrap().1;
        assert!(one.value > two.value && one.value <= shortest, "{} {shortest}", one.value);
        for ingress in &two.ingresses {
            let weights: Vec<f64> =
                two.routes.of(ingress.ingress).map(|slice| slice.weight).collect();
            assert!((1..=2).contains(&weights.len()));
            // None that is not worth having.
            assert!(weights.iter().all(|weight| *weight > 1e-4), "{weights:?}");
        }
    }
}

#[test]
fn results_do_not_depend_on_the_number_of_threads() {
    let network = with_capacities(&abilene());
    let with = |threads: usize| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        pool.install(|| run(&load_request(&network, 0.5), &Unwatched).unwrap())
    };
    assert_eq!(with(1), with(3));
}

#[test]
fn a_footprint_within_a_load_keeps_it_and_costs_no_more_than_shortest_paths() {
    let network = with_capacities(&abilene());
    let mut request = load_request(&network, 0.5);
    request.objective = Objective::FootprintWithin(LoadLimit::Shortest(1.0));
    let outcome = run(&request, &Unwatched).unwrap();
    assert!(outcome.gap() <= 2e-3);
    let busiest = |judged: &judge::Judged| judged.busiest(&outcome.capacities).unwrap().1;
    let limit = busiest(&outcome.shortest);
    assert!(busiest(&outcome.judged) <= limit * (1.0 + 1e-6));
    assert!(outcome.value < outcome.shortest.footprint);
    // Room for what is best without limits: the same routes.
    request.objective = Objective::FootprintWithin(LoadLimit::Given(100.0));
    let free = run(&request, &Unwatched).unwrap();
    request.objective = Objective::Footprint;
    let alone = run(&request, &Unwatched).unwrap();
    assert!((free.value / alone.value - 1.0).abs() < 2e-3, "{} {}", free.value, alone.value);
    assert!(free.value < outcome.value);
}

#[test]
fn a_limit_that_no_routes_keep_names_the_links_that_prove_it() {
    let network = with_capacities(&abilene());
    let mut request = load_request(&network, 0.5);
    request.objective = Objective::FootprintWithin(LoadLimit::Given(0.2));
    let error = run(&request, &Unwatched).unwrap_err();
    let Error::Routes(RouteError::LoadTooLow { limit, least, links }) = &error else {
        panic!("{error}")
    };
    assert_eq!(*limit, 0.2);
    assert!(*least > 0.2 && *least < 0.6, "{least}");
    let sum: f64 = links.iter().map(|(_, share)| share).sum();
    assert!(sum > 0.8 && sum < 1.0 + 1e-9, "{links:?}");
    assert!(!error.to_string().contains('\n') && error.to_string().contains(" -> "), "{error}");
}

#[test]
fn a_safety_net_holds_all_copies() {
    let network = with_capacities(&abilene());
    let mut request = load_request(&network, 0.5);
    // Without a net, routes with the least footprint overload links with copies.
    request.plain_load = Some(0.97);
    request.objective = Objective::FootprintWithin(LoadLimit::Given(100.0));
    let copies = |outcome: &Outcome| judge::busiest(&outcome.judged.copies, &outcome.capacities);
    let free = run(&request, &Unwatched).unwrap();
    assert!(copies(&free).unwrap().1 > 1.0);
    request.safety_net = true;
    request.slices = 8;
    let held = run(&request, &Unwatched).unwrap();
    assert!(copies(&held).unwrap().1 <= 1.0 + 1e-6, "{:?}", copies(&held));
    assert!(held.value >= free.bound && held.gap() <= 5e-3, "{} {}", held.value, held.gap());
    request.plain_load = Some(1.2);
    let error = run(&request, &Unwatched).unwrap_err();
    assert!(matches!(error, Error::Routes(RouteError::SafetyNet { .. })), "{error}");
}

#[test]
fn without_elimination_anywhere_all_copies_count() {
    let network = with_capacities(&abilene());
    let mut request = load_request(&network, 0.5);
    request.eliminates = vec![false; network.links.len()];
    let outcome = run(&request, &Unwatched).unwrap();
    assert!((outcome.value - 0.8).abs() < 2e-3, "{}", outcome.value);
    assert_eq!(outcome.judged.loads, outcome.judged.copies);
    // One link with elimination: only that one carries less.
    request.eliminates[0] = true;
    let outcome = run(&request, &Unwatched).unwrap();
    let less: Vec<usize> = (0..network.links.len())
        .filter(|&link| outcome.judged.loads[link] < outcome.judged.copies[link] * (1.0 - 1e-9))
        .collect();
    assert!(less.iter().all(|&link| link == 0), "{less:?}");
}

#[test]
fn the_closed_form_lists_what_it_says() {
    let network = abilene();
    for (rho, inter) in [(0.0, 1.0), (0.2, 0.5), (0.5, 0.0), (0.5, 1.0), (0.5, 0.25)] {
        for (ingress, classes) in gravity(&network, rho, inter, 1000.0).unwrap() {
            let list = classes.list();
            let unique: f64 = list.iter().map(|class| class.bytes).sum();
            let sum = |class: &Class| class.bytes * class.copies.iter().sum::<f64>();
            let sent: f64 = list.iter().map(sum).sum();
            assert!((sent - classes.bytes()).abs() < 1e-9 * sent, "{rho} {inter}");
            assert!((1.0 - unique / sent - rho).abs() < 1e-9, "{rho} {inter}: {unique} {sent}");
            let shared = list.iter().filter(|class| class.egresses.len() == 2);
            let shared: f64 = shared.map(|class| class.bytes).sum();
            assert!((shared - sent * rho * inter).abs() < 1e-9 * sent);
            assert!(list.iter().all(|class| !class.egresses.contains(&ingress)));
            classes.check(ingress, network.nodes.len(), String::new).unwrap();
        }
    }
}

#[test]
fn malformed_requests_are_refused() {
    let network = abilene();
    let with = |ingresses| run(&request(&network, ingresses), &Unwatched).unwrap_err().to_string();
    let listed = |class| vec![(NodeId(0), Classes::Listed(vec![class]))];
    for (bad, words) in [
        (class(&[2], f64::NAN, &[1.0]), "NaN bytes"),
        (class(&[2, 2], 1.0, &[1.0, 1.0]), "repeat"),
        (class(&[2], 1.0, &[0.5]), "more is shared than sent"),
        (class(&[2], 1.0, &[1.0, 1.0]), "copies for 2"),
        (class(&[0], 1.0, &[1.0]), "to itself"),
        (class(&[99], 1.0, &[1.0]), "12 nodes"),
        (class(&[], 1.0, &[]), "no egress"),
        (class(&[2], 0.0, &[1.0]), "no traffic"),
    ] {
        let error = with(listed(bad));
        assert!(error.contains(words), "{error}");
    }
    let gravity = |rho, inter| {
        let mut population = vec![1.0; 12];
        population[0] = 0.0;
        vec![(NodeId(0), Classes::Gravity { population, rho, inter, bytes: 1.0 })]
    };
    assert!(with(gravity(0.51, 1.0)).contains("0 to 0.5"));
    assert!(with(gravity(0.5, 1.01)).contains("0 to 1"));
    let twice = [gravity(0.5, 1.0), gravity(0.5, 1.0)].concat();
    assert!(with(twice).contains("twice"));
    let mut request = request(&network, gravity(0.5, 1.0));
    request.objective = Objective::Load;
    let error = run(&request, &Unwatched).unwrap_err().to_string();
    assert!(error.contains("no capacities"), "{error}");
    // A node that nothing leads to.
    let mut island = network.clone();
    island.links.retain(|link| link.to != NodeId(8));
    let request = self::request(&island, gravity(0.5, 1.0));
    let error = run(&request, &Unwatched).unwrap_err().to_string();
    assert!(error.contains("no path leads from 0 to 8"), "{error}");
}

#[test]
fn the_judge_refuses_routes_that_are_none() {
    let network = abilene();
    let ingresses = gravity(&network, 0.5, 1.0, 1.0).unwrap();
    let request = request(&network, ingresses);
    let good = run(&request, &Unwatched).unwrap().routes;
    let judge = |routes: &Routes| {
        judge::judge(&network, Cost::Latency, &request.ingresses, routes, &[])
            .map_err(|error| error.to_string())
    };
    judge(&good).unwrap();
    let refuses = |change: &dyn Fn(&mut Slice), words: &str| {
        let mut routes = good.clone();
        change(&mut routes.slices[3]);
        let error = judge(&routes).unwrap_err();
        assert!(error.contains(words), "{error}");
    };
    refuses(&|slice| slice.weight = 0.5, "add up to 0.5");
    refuses(&|slice| slice.weight = f64::NAN, "weight NaN");
    refuses(&|slice| drop(slice.paths.remove(2)), "no path to");
    refuses(&|slice| slice.paths[2].1.truncate(1), "ends at");
    refuses(&|slice| slice.paths[2].1[0] = LinkId(999), "does not exist");
    refuses(&|slice| slice.paths[2].1.reverse(), "the path to");
    // There and back again.
    refuses(
        &|slice| {
            let path = &mut slice.paths[0].1;
            let last = path[path.len() - 1];
            path.extend([LinkId(last.0 ^ 1), last]);
        },
        "",
    );
}

#[test]
fn routes_in_force_stay_while_they_are_within_the_gap() {
    let network = with_capacities(&abilene());
    for objective in [Objective::Footprint, Objective::Load] {
        let request = Request { objective, gap: 0.02, ..load_request(&network, 0.5) };
        let old = run(&Request { gap: 1e-3, ..request.clone() }, &Unwatched).unwrap();
        let changed = |rho| Request {
            ingresses: gravity(&network, rho, 1.0, 1e9).unwrap(),
            against: Some(old.routes.clone()),
            ..request.clone()
        };
        let kept = run(&changed(0.495), &Unwatched).unwrap();
        assert_eq!(kept.routes, old.routes, "{objective:?}");
        assert!(kept.gap() <= 0.02);
        let new = run(&changed(0.05), &Unwatched).unwrap();
        assert_ne!(new.routes, old.routes, "{objective:?}");
        assert!(new.gap() <= 0.021, "{}", new.gap());
        // Routes of another network are no use.
        let other =
            Routes { slices: vec![Slice { paths: Vec::new(), ..old.routes.slices[0].clone() }] };
        let found = run(&Request { against: Some(other), ..request.clone() }, &Unwatched).unwrap();
        assert!(found.gap() <= 0.021);
    }
}

/// Counts rounds of column generation.
#[derive(Default)]
struct Rounds(std::sync::atomic::AtomicU64);

impl Watch for Rounds {
    fn progress(&self, what: &str, _done: u64, _total: u64) {
        if what.starts_with("rounds") {
            self.0.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        }
    }

    fn stopped(&self) -> bool {
        false
    }
}

#[test]
fn small_changes_resume_what_is_known() {
    let network = with_capacities(&abilene());
    let traffic = |more: f64| {
        let mut traffic = gravity(&network, 0.5, 1.0, 1e9).unwrap();
        traffic[3].1.scale(more);
        traffic
    };
    for objective in [Objective::Footprint, Objective::Load] {
        let request = Request {
            objective,
            plain_load: None,
            compare: false,
            gap: 2e-3,
            ingresses: traffic(1.0),
            ..load_request(&network, 0.5)
        };
        let cold = Rounds::default();
        let (first, warm) = run_warm(&request, None, &cold).unwrap();
        let changed = Request { ingresses: traffic(1.01), ..request.clone() };
        let resumed = Rounds::default();
        let (second, _) = run_warm(&changed, Some(&warm), &resumed).unwrap();
        assert!(second.gap() <= 2.5e-3, "{}", second.gap());
        let of = |rounds: &Rounds| rounds.0.load(std::sync::atomic::Ordering::Relaxed);
        assert!(of(&resumed) <= 2, "{objective:?}: {} after {}", of(&resumed), of(&cold));
        let rounds =
            |outcome: &Outcome| -> u32 { outcome.ingresses.iter().map(|of| of.rounds).sum() };
        if objective == Objective::Footprint {
            assert!(4 * rounds(&second) < rounds(&first), "{} {}", rounds(&second), rounds(&first));
        } else {
            assert!(of(&resumed) < of(&cold), "{} {}", of(&resumed), of(&cold));
        }
        // Independent of what was known, nothing is better than the bound says.
        let alone = run(&changed, &Unwatched).unwrap();
        assert!(second.bound <= alone.value * (1.0 + 1e-9));
        assert!(alone.bound <= second.value * (1.0 + 1e-9));
        // Of another network it is not used.
        let mut other = network.clone();
        other.links.swap(0, 5);
        let moved = Request { network: &other, ..changed };
        let (found, _) = run_warm(&moved, Some(&warm), &Unwatched).unwrap();
        assert!(found.gap() <= 2.5e-3);
    }
}
