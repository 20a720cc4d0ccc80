//! The solver against the program written down naively, pair by pair, from its definition, and
//! solved by `microlp`.

mod by_hand;
mod laws;
mod several;

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use microlp::{ComparisonOp, OptimizationDirection, Problem};
use proptest::prelude::*;

use super::*;
use crate::{
    BitRate, Bytes, LinkId, Match, Measured, Network, NodeId, Placement, Profile, Provision,
    Synthetic, Unwatched,
    lp::coefficients::Coefficients,
    network::{Link, Node},
    path::Route,
};

/// Random programs, by seed.
type Random = fastrand::Rng;

fn nodes(pops: &[u32]) -> Vec<Node> {
    pops.iter()
        .enumerate()
        .map(|(number, &pop)| Node { id: format!("n{number}"), pop, ..Node::default() })
        .collect()
}

fn cable(a: u32, b: u32, capacity: Option<BitRate>) -> [Link; 2] {
    [(a, b), (b, a)].map(|(from, to)| Link {
        from: NodeId(from),
        to: NodeId(to),
        weight: 1.0,
        latency: 1.0,
        capacity,
    })
}

/// Routes along the tree of fewest links from each node, ties by link number: the lowest, or for
/// odd slices the highest.
fn routes(network: &Network, slice: u16, volume: &mut dyn FnMut() -> f64) -> Vec<Route> {
    let count = network.nodes.len();
    let mut routes = Vec::new();
    for from in 0..count {
        let mut into = vec![None; count];
        let mut queue = VecDeque::from([from]);
        while let Some(node) = queue.pop_front() {
            let last = network.links.len() - 1;
            for at in 0..=last {
                let number = if slice.is_multiple_of(2) { at } else { last - at };
                let link = &network.links[number];
                let to = link.to.index();
                if link.from.index() == node && to != from && into[to].is_none() {
                    into[to] = Some(LinkId::new(number));
                    queue.push_back(to);
                }
            }
        }
        for to in (0..count).filter(|&to| to != from) {
            let mut links = Vec::new();
            let mut at = to;
            while at != from {
                let link = into[at].expect("the network is connected");
                links.push(link);
                at = network.links[link].from.index();
            }
            links.reverse();
            routes.push(Route {
                from: NodeId::new(from),
                to: NodeId::new(to),
                slice,
                links,
                volume: volume(),
            });
        }
    }
    routes
}

/// A random instance of 3 to 8 nodes. `wild`: volumes over 12 orders of magnitude instead of 2,
/// limits from nothing to without end.
fn random_instance(seed: u64, wild: bool) -> Instance {
    let random = &mut Random::with_seed(seed);
    let count = 3 + random.usize(..6);
    let pops: Vec<u32> = (0..count).map(|_| random.usize(..count) as u32).collect();
    let mut network = Network { nodes: nodes(&pops), ..Network::default() };
    let mut cables = BTreeSet::new();
    for b in 1..count {
        cables.insert((random.usize(..b), b));
    }
    for _ in 0..random.usize(..4) {
        let (a, b) = (random.usize(..count), random.usize(..count));
        if a != b {
            cables.insert((a.min(b), a.max(b)));
        }
    }
    for (a, b) in cables {
        let capacity =
            if random.f64() < 0.2 { None } else { Some(BitRate(1e3 + 1e4 * random.f64())) };
        network.links.extend(cable(a as u32, b as u32, capacity));
    }
    let decades = if wild { 12.0 } else { 2.0 };
    let slices = 1 + random.u16(..4) / 3;
    let silent = 0.5 * random.f64();
    let mut volume =
        || if random.f64() < silent { 0.0 } else { 10f64.powf(decades * random.f64()) * 100.0 };
    let routes: Vec<Route> =
        (0..slices).flat_map(|slice| routes(&network, slice, &mut volume)).collect();
    let total: f64 = routes.iter().map(|route| route.volume).sum();
    let placement = match random.usize(..3) {
        0 => Placement::Links,
        1 => Placement::Some(
            LinkId::first(network.links.len()).filter(|_| random.f64() < 0.6).collect(),
        ),
        _ => Placement::Routers,
    };
    let profile = Synthetic {
        gamma: random.f64(),
        intrapop: random.f64(),
        intrapath: random.f64(),
        length: 100.0 + 900.0 * random.f64(),
        ingresses: (0..random.usize(..3)).map(|node| (NodeId::new(node), random.f64())).collect(),
    };
    let provision = Provision {
        ingress_memory: Bytes(total.max(1.0)),
        ingress_rate: BitRate(8.0 * total.max(1.0) / 10.0),
        ..Provision::default()
    };
    let routes =
        if total > 0.0 { routes } else { vec![Route { volume: 100.0, ..routes[0].clone() }] };
    let mut instance =
        Instance::new(network, routes, &provision, &placement, Profile::Synthetic(profile))
            .unwrap();
    let mut limit = |whole: f64| match random.usize(..if wild { 8 } else { 16 }) {
        0 => 0.0,
        1 => f64::INFINITY,
        2 if wild => whole * 1e-9,
        _ => whole * random.f64(),
    };
    let fair = total / instance.ingresses.len() as f64;
    for device in &mut instance.devices {
        device.memory = limit(fair);
        device.operations = limit(2.0 * fair / 1000.0);
    }
    for slices in instance.stores().collect::<Vec<_>>() {
        let slices = &mut instance.ingresses[slices];
        let volume: f64 = slices.iter().map(|slice| slice.volume).sum();
        let (memory, encodings) = (limit(volume * 1.5), limit(volume / 1000.0 * 3.0));
        slices.iter_mut().for_each(|slice| (slice.memory, slice.encodings) = (memory, encodings));
    }
    if random.f64() < 0.4 {
        let mut pairs = Vec::new();
        for p in 0..instance.paths.len() {
            for q in 0..instance.paths.len() {
                if instance.paths[p].ingress == instance.paths[q].ingress && (random.f64() < 0.5) {
                    let found = Match {
                        count: instance.paths[p].volume / 1000.0 * random.f64(),
                        length: 1.0 + 999.0 * random.f64(),
                    };
                    pairs.push((p as u32, q as u32, found));
                }
            }
        }
        instance = instance
            .with_profile(Profile::Measured(Measured { pairs, ..Measured::default() }))
            .unwrap();
    }
    instance
}

/// Coefficients by path and hop.
type Row = BTreeMap<(usize, usize), f64>;

/// m(p, q), b(p, q) and W(q, r) by the definition.
struct Naive<'a> {
    instance: &'a Instance,
    /// Per path and hop: sum of matches, of bytes, and W.
    sums: Vec<Vec<[f64; 3]>>,
}

impl<'a> Naive<'a> {
    fn new(instance: &'a Instance) -> Self {
        let mut sums = Vec::new();
        for (q, path) in instance.paths.iter().enumerate() {
            let mut of_path = Vec::new();
            for hop in &path.hops {
                let mut sum = [0.0; 3];
                for (p, other) in instance.paths.iter().enumerate() {
                    if other.ingress != path.ingress {
                        continue;
                    }
                    if let Some(there) = other.hops.iter().find(|there| there.device == hop.device)
                    {
                        let found = instance.matches(p, q);
                        let coded = instance.coded(path.ingress as usize);
                        sum[0] += coded * found.count;
                        sum[1] += coded * found.bytes();
                        sum[2] += coded * found.bytes() * f64::from(there.distance);
                    }
                }
                of_path.push(sum);
            }
            sums.push(of_path);
        }
        Self { instance, sums }
    }

    /// (limit, coefficients by (path, hop)) of every row but cover.
    fn rows(&self) -> Vec<(f64, Row)> {
        let instance = self.instance;
        let mut rows: Vec<_> =
            instance.devices.iter().map(|device| (device.memory, BTreeMap::new())).collect();
        rows.extend(instance.devices.iter().map(|device| (device.operations, BTreeMap::new())));
        // One store for each node where traffic enters.
        let stores: BTreeMap<NodeId, f64> =
            instance.ingresses.iter().map(|ingress| (ingress.node, ingress.memory)).collect();
        rows.extend(stores.values().map(|&memory| (memory, BTreeMap::new())));
        let store = |path: &crate::Path| {
            let node = instance.ingresses[path.ingress as usize].node;
            stores.keys().position(|&other| other == node).unwrap()
        };
        let devices = instance.devices.len();
        for (q, path) in instance.paths.iter().enumerate() {
            for (h, hop) in path.hops.iter().enumerate() {
                let device = hop.device.index();
                rows[device].1.insert((q, h), path.volume);
                rows[devices + device]
                    .1
                    .insert((q, h), path.volume / instance.packet.0 + self.sums[q][h][0]);
                rows[2 * devices + store(path)].1.insert((q, h), path.volume);
            }
        }
        rows
    }

    /// Is link `l` at or before hop `h` of path `q`, and on it?
    fn saves(&self, q: usize, h: usize, l: usize) -> bool {
        let path = &self.instance.paths[q];
        path.links[..path.hops[h].distance as usize].contains(&LinkId::new(l))
    }

    /// The best value, by `microlp`; for link load the capacity of links without one is `capacity`.
    fn optimum(&self, objective: Objective) -> f64 {
        let instance = self.instance;
        let mut unit: f64 = self.sums.iter().flatten().map(|sum| sum[2]).fold(0.0, f64::max);
        if unit == 0.0 {
            unit = 1.0;
        }
        let direction = if objective == Objective::Footprint {
            OptimizationDirection::Maximize
        } else {
            OptimizationDirection::Minimize
        };
        let mut problem = Problem::new(direction);
        let variables: Vec<Vec<_>> = self
            .sums
            .iter()
            .map(|path| {
                let weight = |sum: &[f64; 3]| {
                    if objective == Objective::Footprint { sum[2] / unit } else { 0.0 }
                };
                path.iter().map(|sum| problem.add_var(weight(sum), (0.0, f64::INFINITY))).collect()
            })
            .collect();
        for (path, variables) in instance.paths.iter().zip(&variables) {
            let terms: Vec<_> = variables.iter().map(|&variable| (variable, 1.0)).collect();
            problem.add_constraint(terms, ComparisonOp::Le, instance.coded(path.ingress as usize));
        }
        for (limit, row) in self.rows() {
            if limit.is_finite() && !row.is_empty() {
                let scale = row.values().copied().fold(limit, f64::max);
                let terms: Vec<_> =
                    row.iter().map(|(&(q, h), a)| (variables[q][h], a / scale)).collect();
                problem.add_constraint(terms, ComparisonOp::Le, limit / scale);
            }
        }
        if let Objective::LinkLoad { capacity: otherwise } = objective {
            let highest = problem.add_var(1.0, (0.0, f64::INFINITY));
            let load = instance.link_volumes();
            for (l, link) in instance.network.links.iter().enumerate() {
                let Some(capacity) = link.capacity.or(otherwise) else { continue };
                let capacity = capacity.during(instance.epoch).0;
                let mut terms = vec![(highest, 1.0)];
                for (q, variables) in variables.iter().enumerate() {
                    for (h, &variable) in variables.iter().enumerate() {
                        if self.saves(q, h, l) {
                            terms.push((variable, self.sums[q][h][1] / capacity));
                        }
                    }
                }
                problem.add_constraint(terms, ComparisonOp::Ge, load[l] / capacity);
            }
            unit = 1.0;
        }
        problem.solve().unwrap().into_solution().unwrap().objective() * unit
    }

    /// The value of a plan, and by what part it breaks a limit.
    fn judge(&self, solution: &Solution, objective: Objective) -> (f64, f64) {
        let instance = self.instance;
        let d = |q: usize, h: usize| solution.cached[instance.hop_index(q, h)];
        let mut broken: f64 = 0.0;
        for (q, path) in instance.paths.iter().enumerate() {
            let covered: f64 = (0..path.hops.len()).map(|h| d(q, h)).sum();
            let coded = instance.coded(path.ingress as usize);
            broken = broken.max(if covered <= coded { 0.0 } else { (covered - coded) / coded });
            assert!(
                solution.of_path(instance, q).iter().all(|share| *share >= 0.0),
                "path {q}: {:?}",
                solution.of_path(instance, q)
            );
        }
        for (limit, row) in self.rows() {
            let load: f64 = row.iter().map(|(&(q, h), a)| a * d(q, h)).sum();
            broken = broken.max(if load <= limit { 0.0 } else { (load - limit) / limit });
        }
        let all = || {
            (0..instance.paths.len())
                .flat_map(|q| (0..instance.paths[q].hops.len()).map(move |h| (q, h)))
        };
        let value = match objective {
            Objective::Footprint => all().map(|(q, h)| d(q, h) * self.sums[q][h][2]).sum(),
            Objective::LinkLoad { capacity: otherwise } => {
                let load = instance.link_volumes();
                let links = instance.network.links.iter().enumerate();
                links
                    .filter_map(|(l, link)| {
                        Some((l, link.capacity.or(otherwise)?.during(instance.epoch).0))
                    })
                    .map(|(l, capacity)| {
                        let saved: f64 = all()
                            .filter(|&(q, h)| self.saves(q, h, l))
                            .map(|(q, h)| d(q, h) * self.sums[q][h][1])
                            .sum();
                        (load[l] - saved) / capacity
                    })
                    .fold(0.0, f64::max)
            }
        };
        (value, broken)
    }

    /// The bound that the prices prove (footprint), and how much of it is for resources that are
    /// not used up.
    fn certificate(&self, solution: &Solution) -> (f64, f64) {
        let instance = self.instance;
        let Prices { memory, operations, ingress_memory } = &solution.prices;
        let prices: Vec<f64> =
            memory.iter().chain(operations).chain(ingress_memory).copied().collect();
        assert!(prices.iter().all(|price| *price >= 0.0 && price.is_finite()), "{prices:?}");
        let mut reduced = Row::new();
        for (q, sums) in self.sums.iter().enumerate() {
            sums.iter().enumerate().for_each(|(h, sum)| _ = reduced.insert((q, h), sum[2]));
        }
        let (mut bound, mut unused) = (0.0, 0.0);
        for (price, (limit, row)) in prices.iter().zip(self.rows()) {
            if *price > 0.0 {
                let load: f64 = row
                    .iter()
                    .map(|(&(q, h), a)| a * solution.cached[instance.hop_index(q, h)])
                    .sum();
                bound += price * limit;
                unused += price * (limit - load);
                row.iter().for_each(|(at, a)| *reduced.get_mut(at).unwrap() -= price * a);
            }
        }
        for (q, path) in instance.paths.iter().enumerate() {
            let best = (0..path.hops.len()).map(|h| reduced[&(q, h)]).fold(0.0, f64::max);
            bound += best * instance.coded(path.ingress as usize);
        }
        (bound, unused)
    }
}

fn near(a: f64, b: f64, part: f64) -> bool {
    (a - b).abs() <= part * a.abs().max(b.abs()) + 1e-12
}

fn check(instance: &Instance, objective: Objective, method: Method) {
    let naive = Naive::new(instance);
    let optimum = naive.optimum(objective);
    let options = Options { objective, method, ..Options::default() };
    let (solution, _) = solve(instance, &options, None, &Unwatched).unwrap();
    let (value, broken) = naive.judge(&solution, objective);
    assert!(broken <= 1e-9, "a limit is broken by a part of {broken:e}");
    assert!(
        near(value, solution.objective, 1e-9),
        "value {value}, said to be {}",
        solution.objective
    );
    assert!(
        near(value, optimum, 1e-6),
        "{objective:?} by {}: {value} instead of {optimum}, gap {:e}",
        solution.method,
        solution.gap()
    );
    assert!(near(solution.bound, optimum, 1e-6), "bound {} for {optimum}", solution.bound);
    let beyond = if objective == Objective::Footprint {
        value - solution.bound
    } else {
        solution.bound - value
    };
    assert!(
        beyond <= 1e-12 * value.abs(),
        "a plan of {value} is better than the bound {}",
        solution.bound
    );
    assert!(solution.gap() <= 2e-6, "gap {:e}", solution.gap());
    if objective == Objective::Footprint {
        let (bound, unused) = naive.certificate(&solution);
        assert!(
            near(bound, solution.bound, 1e-9),
            "the prices prove {bound}, not {}",
            solution.bound
        );
        assert!(
            unused.abs() <= 1e-5 * value,
            "prices of {unused} for what is not used up, of {value}"
        );
    }
}

const LOAD: Objective = Objective::LinkLoad { capacity: Some(BitRate(5e3)) };
