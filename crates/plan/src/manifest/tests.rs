//! Laws on random networks and shares, against plain definitions.

mod documents;
mod laws;
mod transitions;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use proptest::prelude::*;

use super::*;
use crate::{
    Bytes, HeaderHash, Instance, LinkId, Network, NodeId, PerSecond, Placement, Profile, Provision,
    Solution, Synthetic,
    error::{ManifestError, ManifestErrorKind},
    path::Route,
    testing,
};

/// Random networks, shares and plays, by seed.
type Random = fastrand::Rng;

fn network(names: &[&str], links: &[(u32, u32)]) -> Network {
    testing::directed(names.iter().copied(), links)
}

fn profile() -> Profile {
    Profile::Synthetic(Synthetic {
        gamma: 0.5,
        intrapop: 0.5,
        intrapath: 0.5,
        length: 100.0,
        ingresses: BTreeMap::new(),
    })
}

/// Shortest paths from some nodes to all others of a random connected graph; any placement;
/// sometimes ingresses that cannot encode all.
fn instance(nodes: usize, random: &mut Random) -> Instance {
    let names: Vec<String> = (0..nodes).map(|node| format!("n{node}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let mut links = Vec::new();
    for node in 1..nodes {
        let to = random.usize(..node);
        links.extend([(node as u32, to as u32), (to as u32, node as u32)]);
    }
    for _ in 0..random.usize(..2 * nodes) {
        let (a, b) = (random.usize(..nodes) as u32, random.usize(..nodes) as u32);
        if a != b {
            links.extend([(a, b), (b, a)]);
        }
    }
    let network = network(&names, &links);
    let mut routes = Vec::new();
    for from in 0..nodes as u32 {
        if from > 0 && random.usize(..2) == 0 {
            continue;
        }
        for (to, links) in (0..).zip(ways(&network, NodeId(from), false)) {
            let volume = if random.usize(..5) == 0 {
                0.0
            } else {
                1.0 + random.f64() * 10_f64.powi(random.usize(..9) as i32)
            };
            let volume = if from == 0 && to == 1 { 1000.0 } else { volume };
            routes.push(Route { from: NodeId(from), to: NodeId(to), slice: 0, links, volume });
        }
    }
    let placement = match random.usize(..3) {
        0 => Placement::Links,
        1 => Placement::Routers,
        _ => {
            Placement::Some(LinkId::first(links.len()).filter(|_| random.usize(..2) == 0).collect())
        }
    };
    let unlimited = f64::INFINITY;
    let provision = Provision {
        ingress_memory: Bytes(1e15),
        edge_memory: Bytes(unlimited),
        interior_memory: Bytes(unlimited),
        operations: PerSecond(unlimited),
        ..Provision::default()
    };
    let mut instance = Instance::new(network, routes, &provision, &placement, profile()).unwrap();
    for ingress in &mut instance.ingresses {
        ingress.memory = unlimited;
        let packets = ingress.volume / instance.packet.0;
        ingress.encodings =
            if random.usize(..3) == 0 { packets * random.f64() } else { packets * 2.0 };
    }
    instance
}

/// Shortest ways from a node to all, as links: a tree. Of ways of one length the first or, `other`,
/// the last link's.
fn ways(network: &Network, from: NodeId, other: bool) -> Vec<Vec<LinkId>> {
    let mut ways: Vec<Option<Vec<LinkId>>> = vec![None; network.nodes.len()];
    ways[from] = Some(Vec::new());
    let mut queue = std::collections::VecDeque::from([from]);
    let mut order: Vec<usize> = (0..network.links.len()).collect();
    if other {
        order.reverse();
    }
    while let Some(at) = queue.pop_front() {
        for &number in &order {
            let link = &network.links[number];
            if link.from == at && ways[link.to].is_none() {
                let mut way = ways[at].clone().unwrap_or_default();
                way.push(LinkId::new(number));
                ways[link.to] = Some(way);
                queue.push_back(link.to);
            }
        }
    }
    ways.into_iter().map(Option::unwrap_or_default).collect()
}

/// Random shares: many hops without any, some tiny, the whole path or less.
fn solution(instance: &Instance, random: &mut Random) -> Solution {
    let mut cached = Vec::with_capacity(instance.hop_count());
    for path in &instance.paths {
        let weights: Vec<f64> = path
            .hops
            .iter()
            .map(|_| match random.usize(..6) {
                0 | 1 => 0.0,
                2 => random.f64() * 1e-7,
                3 => 1.0 / 3.0,
                _ => random.f64(),
            })
            .collect();
        let sum: f64 = weights.iter().sum();
        let total = instance.coded(path.ingress as usize)
            * if random.usize(..2) == 0 { 1.0 } else { random.f64() };
        cached.extend(
            weights.iter().map(|weight| if sum > 0.0 { weight / sum * total } else { 0.0 }),
        );
    }
    Solution::given(cached)
}

/// Memories that the solution just fills, or nearly.
fn tighten(instance: &mut Instance, solution: &Solution, random: &mut Random) {
    let mut devices = vec![0.0; instance.devices.len()];
    let mut ingresses = vec![0.0; instance.ingresses.len()];
    for (number, path) in instance.paths.iter().enumerate() {
        for (hop, share) in path.hops.iter().zip(solution.of_path(instance, number)) {
            devices[hop.device] += share * path.volume;
            ingresses[path.ingress as usize] += share * path.volume;
        }
    }
    for (device, used) in instance.devices.iter_mut().zip(devices) {
        device.memory = if random.usize(..3) == 0 {
            f64::INFINITY
        } else {
            used * (1.0 + 0.2 * random.usize(..2) as f64)
        };
    }
    for (ingress, used) in instance.ingresses.iter_mut().zip(ingresses) {
        ingress.memory = if random.usize(..3) == 0 {
            f64::INFINITY
        } else {
            used * (1.0 + 0.3 * random.usize(..2) as f64)
        };
    }
}

fn options(random: &mut Random) -> Options {
    Options {
        version: 7,
        headroom: [1.0, 1.0, 1.5][random.usize(..3)],
        smallest: [0.0, Options::default().smallest, 0.05][random.usize(..3)],
    }
}

fn planned(seed: u64, nodes: usize) -> (Instance, Solution, Options, Plan) {
    let mut random = Random::with_seed(seed);
    let mut instance = instance(nodes, &mut random);
    let solution = solution(&instance, &mut random);
    tighten(&mut instance, &solution, &mut random);
    let options = options(&mut random);
    let plan = Plan::new(&instance, &solution, &options).unwrap();
    (instance, solution, options, plan)
}

/// Hashes at and beside the ends of a path's ranges, and any other.
fn hashes(path: &PlannedPath, random: &mut Random) -> Vec<HeaderHash> {
    let ends = path.ranges.iter().flat_map(|range| [range.from, range.to]).chain([0, SPACE]);
    let mut hashes: Vec<HeaderHash> = ends
        .flat_map(|end| [end.checked_sub(1), Some(end)])
        .flatten()
        .filter(|&hash| hash < SPACE)
        .map(|hash| HeaderHash(hash as u32))
        .collect();
    hashes.push(HeaderHash(random.u64(..) as u32));
    hashes
}

fn message(result: Result<impl std::fmt::Debug, ManifestError>) -> String {
    let message = result.unwrap_err().to_string();
    assert!(!message.contains('\n'), "{message}");
    message
}

/// The example of `docs/PLANNERS.md`: the thesis's path of three devices with 0.2, 0.3 and 0.1
/// (section 3.2), and one that parts from it after the first.
fn example() -> (Instance, Solution) {
    let network = Network {
        name: "example".into(),
        ..network(&["I", "R1", "R2", "R3", "R4"], &[(0, 1), (1, 2), (2, 3), (1, 4)])
    };
    let routes = vec![
        Route {
            from: NodeId(0),
            to: NodeId(3),
            slice: 0,
            links: [0, 1, 2].map(LinkId).to_vec(),
            volume: 1e9,
        },
        Route {
            from: NodeId(0),
            to: NodeId(4),
            slice: 0,
            links: [0, 3].map(LinkId).to_vec(),
            volume: 2e9,
        },
    ];
    let instance =
        Instance::new(network, routes, &Provision::default(), &Placement::Links, profile())
            .unwrap();
    let cached = vec![0.2, 0.3, 0.1, 0.5, 0.25];
    (instance, Solution::given(cached))
}
