//! Small instances and a plain solver for tests.

pub(crate) mod networks;

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;

use crate::{
    BitRate, Bytes, Error, Instance, LinkId, Match, Measured, Network, NodeId, PerSecond,
    Placement, Profile, Provision, Solution, SolvedBy, Synthetic,
    network::{Link, Node},
    path::Route,
    placement::Model,
};

/// A network of cables between nodes with names "0", "1", ...: cable i is links 2 i and 2 i + 1.
/// Each node is a PoP by itself.
pub(crate) fn network(nodes: usize, cables: &[(u32, u32)]) -> Network {
    let link = |from, to| Link { from, to, weight: 1.0, latency: 1.0, capacity: None };
    Network {
        nodes: (0..nodes)
            .map(|node| Node { id: node.to_string(), pop: node as u32, ..Node::default() })
            .collect(),
        links: cables
            .iter()
            .flat_map(|&(a, b)| [link(NodeId(a), NodeId(b)), link(NodeId(b), NodeId(a))])
            .collect(),
        ..Network::default()
    }
}

/// A route along these nodes.
pub(crate) fn route(network: &Network, nodes: &[u32], volume: f64) -> Route {
    let hop = |pair: &[u32]| {
        network.links.iter().position(|link| [link.from.0, link.to.0] == pair).unwrap()
    };
    Route {
        from: NodeId(nodes[0]),
        to: NodeId(nodes[nodes.len() - 1]),
        slice: 0,
        links: nodes.windows(2).map(hop).map(LinkId::new).collect(),
        volume,
    }
}

/// A network of these nodes, each a PoP, and of links in one direction.
pub(crate) fn directed<'a>(
    ids: impl IntoIterator<Item = &'a str>,
    links: &[(u32, u32)],
) -> Network {
    let node = |(id, pop): (&str, u32)| Node { id: id.into(), pop, ..Node::default() };
    let link = |&(from, to): &(u32, u32)| Link {
        from: NodeId(from),
        to: NodeId(to),
        weight: 1.0,
        latency: 1.0,
        capacity: None,
    };
    Network {
        name: "test".into(),
        nodes: ids.into_iter().zip(0..).map(node).collect(),
        links: links.iter().map(link).collect(),
        ..Network::default()
    }
}

/// X sends along X, A, B (path 0) and X, A, C (path 1), 100 bytes each; 30 matches of 1 byte on the
/// first path with itself, 20 of the second with the first. Thesis, section 3.5, on what
/// non-overlapping caches cost.
pub(crate) fn fork() -> Instance {
    let network = network(4, &[(0, 1), (1, 2), (1, 3)]);
    let routes = vec![route(&network, &[0, 1, 2], 100.0), route(&network, &[0, 1, 3], 100.0)];
    let profile = measured(&[(0, 0, 30.0, 1.0), (1, 0, 20.0, 1.0)]);
    Instance::new(network, routes, &unlimited(), &Placement::Links, profile).unwrap()
}

/// With devices on all links, and nothing measured yet.
pub(crate) fn unmeasured(network: Network, routes: Vec<Route>, provision: &Provision) -> Instance {
    let profile = Profile::Measured(Measured::default());
    Instance::new(network, routes, provision, &Placement::Links, profile).unwrap()
}

/// No limits that matter; packets of one byte.
pub(crate) fn unlimited() -> Provision {
    Provision {
        ingress_memory: Bytes(1e12),
        ingress_rate: BitRate(8e12),
        edge_memory: Bytes(1e12),
        interior_memory: Bytes(1e12),
        encodings: PerSecond(1e12),
        operations: PerSecond(1e12),
        packet: Bytes(1.0),
        mss: Bytes(1e6),
        access_links: false,
    }
}

/// A measured profile of `(p, q, matches, bytes of each)`.
pub(crate) fn measured(pairs: &[(u32, u32, f64, f64)]) -> Profile {
    let mut pairs: Vec<_> =
        pairs.iter().map(|&(p, q, count, length)| (p, q, Match { count, length })).collect();
    pairs.sort_by_key(|pair| (pair.0, pair.1));
    Profile::Measured(Measured { pairs, ..Measured::default() })
}

/// SmartRE by a general solver, without prices.
pub(crate) fn solve(instance: &Instance) -> Result<Solution, Error> {
    let model = Model::new(instance, None);
    let solved = model.problem.solve().map_err(|error| {
        Error::from(crate::error::SolverError::Failed {
            method: "simplex",
            reason: error.to_string(),
        })
    })?;
    let solved = solved.into_solution().expect("no limit is set");
    let mut cached = model.assignment(instance, &solved);
    // The solver's tolerance is 1e-7, ours less.
    cached.iter_mut().for_each(|share| *share *= 1.0 - 2e-7);
    let objective = solved.objective() * model.scale;
    Ok(Solution {
        objective,
        bound: objective,
        method: SolvedBy::Simplex,
        ..Solution::given(cached)
    })
}

/// Instances on trees of up to 6 nodes, with devices on all links, on some, or per router; limits
/// that bind and that do not; both kinds of profile.
pub(crate) fn instances() -> impl Strategy<Value = Instance> {
    let parents = prop::collection::vec(any::<prop::sample::Index>(), 1..6);
    let volumes = prop::collection::vec(prop_oneof![1 => Just(0.0), 6 => 1e3..1e6], 60);
    let limit = || prop_oneof![1 => Just(0.0), 6 => 0.01..2.0, 1 => Just(f64::INFINITY)];
    let limits = (
        prop::collection::vec((limit(), limit()), 10),
        0.1..2.0,
        prop_oneof![0.2..2.0, Just(10.0)],
    );
    let shares = prop::collection::vec(prop_oneof![1 => Just(0.0), 1 => 0.0..1.0], 900);
    let synthetic = (0.0..=1.0, 0.0..=1.0, 0.0..=1.0);
    let slices = prop_oneof![3 => Just(1), 1 => Just(2)];
    let kinds = (0..3_u8, any::<u16>(), any::<bool>(), 1..4_u32, slices);
    (parents, volumes, limits, shares, synthetic, kinds).prop_map(
        |(
            parents,
            volumes,
            (limits, memory, encodings),
            shares,
            synthetic,
            (placement, some, counted, pops, slices),
        )| {
            let cables: Vec<(u32, u32)> = parents
                .iter()
                .zip(1..)
                .map(|(parent, node)| (parent.index(node as usize) as u32, node))
                .collect();
            let nodes = cables.len() + 1;
            let mut network = network(nodes, &cables);
            network.nodes.iter_mut().for_each(|node| node.pop /= pops);
            let mut routes = Vec::new();
            let mut volumes = volumes.into_iter();
            for slice in 0..slices {
                for from in 0..nodes as u32 {
                    for to in (0..nodes as u32).filter(|&to| to != from) {
                        let way = way(&cables, from, to);
                        let volume = volumes.next().unwrap();
                        routes.push(Route { slice, ..route(&network, &way, volume) });
                    }
                }
            }
            routes[0].volume += 1e4;
            let placement = match placement {
                0 => Placement::Links,
                1 => Placement::Routers,
                _ => Placement::Some(
                    LinkId::first(2 * cables.len())
                        .filter(|link| some >> link.0 & 1 == 1)
                        .collect::<BTreeSet<_>>(),
                ),
            };
            let empty = Profile::Measured(Measured::default());
            let provision = Provision { packet: Bytes(500.0), mss: Bytes(1500.0), ..unlimited() };
            let mut instance =
                Instance::new(network, routes, &provision, &placement, empty).unwrap();
            for slices in instance.stores().collect::<Vec<_>>() {
                let slices = &mut instance.ingresses[slices];
                let volume: f64 = slices.iter().map(|slice| slice.volume).sum();
                for slice in slices {
                    slice.memory = memory * volume;
                    slice.encodings = encodings * volume / instance.packet.0;
                }
            }
            for (device, (memory, operations)) in instance.devices.iter_mut().zip(limits) {
                device.memory = memory * 1e6;
                device.operations = operations * 1e6 / instance.packet.0;
                device.encodings = operations * 1e3;
            }
            let profile = if counted {
                let mut shares = shares.into_iter();
                let mut pairs = Vec::new();
                for p in 0..instance.paths.len() {
                    let others = instance.paths_of(instance.paths[p].ingress as usize);
                    // No byte matches twice.
                    let most = instance.paths[p].volume / others.len() as f64;
                    for q in others {
                        let count = shares.next().unwrap() * most / 300.0;
                        pairs.push((p as u32, q as u32, count, 300.0));
                    }
                }
                pairs.retain(|pair| pair.2 > 0.0);
                measured(&pairs)
            } else {
                let (gamma, intrapop, intrapath) = synthetic;
                Profile::Synthetic(Synthetic {
                    gamma,
                    intrapop,
                    intrapath,
                    length: 400.0,
                    ingresses: BTreeMap::new(),
                })
            };
            instance.with_profile(profile).unwrap()
        },
    )
}

/// The way through a tree given by its cables (parent, child).
fn way(cables: &[(u32, u32)], from: u32, to: u32) -> Vec<u32> {
    let to_root = |mut node: u32| {
        let mut nodes = vec![node];
        while let Some(cable) = cables.iter().find(|cable| cable.1 == node) {
            node = cable.0;
            nodes.push(node);
        }
        nodes
    };
    let (up, down) = (to_root(from), to_root(to));
    let meet = *up.iter().find(|node| down.contains(node)).unwrap();
    let up = up.into_iter().take_while(|&node| node != meet);
    let down: Vec<u32> = down.into_iter().take_while(|&node| node != meet).collect();
    up.chain([meet]).chain(down.into_iter().rev()).collect()
}
