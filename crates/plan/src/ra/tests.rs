//! Known answers, laws, and an exhaustive search as a judge.

use super::*;
use crate::{
    Unwatched,
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
        interval: 60.0,
        eliminates: Vec::new(),
        safety_net: false,
        slices: 1,
        gap: 1e-3,
        against: None,
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
fn abilene() -> Network {
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
