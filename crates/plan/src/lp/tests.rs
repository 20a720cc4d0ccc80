//! The solver against the program written down naively, pair by pair, from its definition, and solved by `microlp`.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use microlp::{ComparisonOp, OptimizationDirection, Problem};
use proptest::prelude::*;

use super::*;
use crate::{
    Match, Measured, Network, Placement, Profile, Provision, Synthetic, Unwatched,
    lp::coefficients::Coefficients,
    network::{Link, Node},
    path::Route,
};

struct Random(u64);

impl Random {
    fn next(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut x = self.0;
        x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((x ^ (x >> 31)) >> 11) as f64 / (1u64 << 53) as f64
    }

    fn below(&mut self, end: usize) -> usize {
        (self.next() * end as f64) as usize
    }

    fn chance(&mut self, share: f64) -> bool {
        self.next() < share
    }
}

fn nodes(pops: &[u32]) -> Vec<Node> {
    pops.iter().enumerate().map(|(number, &pop)| Node { id: format!("n{number}"), pop, ..Node::default() }).collect()
}

fn cable(a: u32, b: u32, capacity: Option<f64>) -> [Link; 2] {
    [(a, b), (b, a)].map(|(from, to)| Link { from, to, weight: 1.0, latency: 1.0, capacity })
}

/// Routes along the tree of fewest links from each node, ties by link number.
fn routes(network: &Network, volume: &mut dyn FnMut() -> f64) -> Vec<Route> {
    let count = network.nodes.len();
    let mut routes = Vec::new();
    for from in 0..count {
        let mut into = vec![None; count];
        let mut queue = VecDeque::from([from]);
        while let Some(node) = queue.pop_front() {
            for (number, link) in network.links.iter().enumerate() {
                let to = link.to as usize;
                if link.from as usize == node && to != from && into[to].is_none() {
                    into[to] = Some(number as u32);
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
                at = network.links[link as usize].from as usize;
            }
            links.reverse();
            routes.push(Route { from: from as u32, to: to as u32, links, volume: volume() });
        }
    }
    routes
}

/// A random instance of 3 to 8 nodes. `wild`: volumes over 12 orders of magnitude instead of 2, limits from nothing to without end.
fn random_instance(seed: u64, wild: bool) -> Instance {
    let random = &mut Random(seed);
    let count = 3 + random.below(6);
    let pops: Vec<u32> = (0..count).map(|_| random.below(count) as u32).collect();
    let mut network = Network { nodes: nodes(&pops), ..Network::default() };
    let mut cables = BTreeSet::new();
    for b in 1..count {
        cables.insert((random.below(b), b));
    }
    for _ in 0..random.below(4) {
        let (a, b) = (random.below(count), random.below(count));
        if a != b {
            cables.insert((a.min(b), a.max(b)));
        }
    }
    for (a, b) in cables {
        let capacity = if random.chance(0.2) { None } else { Some(1e3 + 1e4 * random.next()) };
        network.links.extend(cable(a as u32, b as u32, capacity));
    }
    let decades = if wild { 12.0 } else { 2.0 };
    let routes = {
        let silent = 0.5 * random.next();
        routes(&network, &mut || if random.chance(silent) { 0.0 } else { 10f64.powf(decades * random.next()) * 100.0 })
    };
    let total: f64 = routes.iter().map(|route| route.volume).sum();
    let placement = match random.below(3) {
        0 => Placement::Links,
        1 => Placement::Some((0..network.links.len() as u32).filter(|_| random.chance(0.6)).collect()),
        _ => Placement::Routers,
    };
    let profile = Synthetic {
        gamma: random.next(),
        intrapop: random.next(),
        intrapath: random.next(),
        length: 100.0 + 900.0 * random.next(),
        ingresses: (0..random.below(3)).map(|node| (node as u32, random.next())).collect(),
    };
    let provision =
        Provision { ingress_memory: total.max(1.0), ingress_rate: 8.0 * total.max(1.0) / 10.0, ..Provision::default() };
    let routes = if total > 0.0 { routes } else { vec![Route { volume: 100.0, ..routes[0].clone() }] };
    let mut instance = Instance::new(network, routes, &provision, &placement, Profile::Synthetic(profile)).unwrap();
    let mut limit = |whole: f64| match random.below(if wild { 8 } else { 16 }) {
        0 => 0.0,
        1 => f64::INFINITY,
        2 if wild => whole * 1e-9,
        _ => whole * random.next(),
    };
    let fair = total / instance.ingresses.len() as f64;
    for device in &mut instance.devices {
        device.memory = limit(fair);
        device.operations = limit(2.0 * fair / 1000.0);
    }
    for ingress in &mut instance.ingresses {
        ingress.memory = limit(ingress.volume * 1.5);
        ingress.encodings = limit(ingress.volume / 1000.0 * 3.0);
    }
    if random.chance(0.4) {
        let mut pairs = Vec::new();
        for p in 0..instance.paths.len() {
            for q in 0..instance.paths.len() {
                if instance.paths[p].ingress == instance.paths[q].ingress && random.chance(0.5) {
                    let found =
                        Match { count: instance.paths[p].volume / 1000.0 * random.next(), length: 1.0 + 999.0 * random.next() };
                    pairs.push((p as u32, q as u32, found));
                }
            }
        }
        instance = instance.with_profile(Profile::Measured(Measured { pairs })).unwrap();
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
                    if let Some(there) = other.hops.iter().find(|there| there.device == hop.device) {
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
        let mut rows: Vec<_> = instance.devices.iter().map(|device| (device.memory, BTreeMap::new())).collect();
        rows.extend(instance.devices.iter().map(|device| (device.operations, BTreeMap::new())));
        rows.extend(instance.ingresses.iter().map(|ingress| (ingress.memory, BTreeMap::new())));
        let devices = instance.devices.len();
        for (q, path) in instance.paths.iter().enumerate() {
            for (h, hop) in path.hops.iter().enumerate() {
                let device = hop.device as usize;
                rows[device].1.insert((q, h), path.volume);
                rows[devices + device].1.insert((q, h), path.volume / instance.packet + self.sums[q][h][0]);
                rows[2 * devices + path.ingress as usize].1.insert((q, h), path.volume);
            }
        }
        rows
    }

    /// Is link `l` at or before hop `h` of path `q`, and on it?
    fn saves(&self, q: usize, h: usize, l: usize) -> bool {
        let path = &self.instance.paths[q];
        path.links[..path.hops[h].distance as usize].contains(&(l as u32))
    }

    /// The best value, by `microlp`; for link load the capacity of links without one is `capacity`.
    fn optimum(&self, objective: Objective) -> f64 {
        let instance = self.instance;
        let mut unit: f64 = self.sums.iter().flatten().map(|sum| sum[2]).fold(0.0, f64::max);
        if unit == 0.0 {
            unit = 1.0;
        }
        let direction =
            if objective == Objective::Footprint { OptimizationDirection::Maximize } else { OptimizationDirection::Minimize };
        let mut problem = Problem::new(direction);
        let variables: Vec<Vec<_>> = self
            .sums
            .iter()
            .map(|path| {
                let weight = |sum: &[f64; 3]| if objective == Objective::Footprint { sum[2] / unit } else { 0.0 };
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
                let terms: Vec<_> = row.iter().map(|(&(q, h), a)| (variables[q][h], a / scale)).collect();
                problem.add_constraint(terms, ComparisonOp::Le, limit / scale);
            }
        }
        if let Objective::LinkLoad { capacity: otherwise } = objective {
            let highest = problem.add_var(1.0, (0.0, f64::INFINITY));
            let load = instance.link_volumes();
            for (l, link) in instance.network.links.iter().enumerate() {
                let Some(capacity) = link.capacity.or(otherwise) else { continue };
                let capacity = capacity * instance.epoch / 8.0;
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
        let all = || (0..instance.paths.len()).flat_map(|q| (0..instance.paths[q].hops.len()).map(move |h| (q, h)));
        let value = match objective {
            Objective::Footprint => all().map(|(q, h)| d(q, h) * self.sums[q][h][2]).sum(),
            Objective::LinkLoad { capacity: otherwise } => {
                let load = instance.link_volumes();
                let links = instance.network.links.iter().enumerate();
                links
                    .filter_map(|(l, link)| Some((l, link.capacity.or(otherwise)? * instance.epoch / 8.0)))
                    .map(|(l, capacity)| {
                        let saved: f64 =
                            all().filter(|&(q, h)| self.saves(q, h, l)).map(|(q, h)| d(q, h) * self.sums[q][h][1]).sum();
                        (load[l] - saved) / capacity
                    })
                    .fold(0.0, f64::max)
            }
        };
        (value, broken)
    }

    /// The bound that the prices prove (footprint), and how much of it is for resources that are not used up.
    fn certificate(&self, solution: &Solution) -> (f64, f64) {
        let instance = self.instance;
        let Prices { memory, operations, ingress_memory } = &solution.prices;
        let prices: Vec<f64> = memory.iter().chain(operations).chain(ingress_memory).copied().collect();
        assert!(prices.iter().all(|price| *price >= 0.0 && price.is_finite()), "{prices:?}");
        let mut reduced = Row::new();
        for (q, sums) in self.sums.iter().enumerate() {
            sums.iter().enumerate().for_each(|(h, sum)| _ = reduced.insert((q, h), sum[2]));
        }
        let (mut bound, mut unused) = (0.0, 0.0);
        for (price, (limit, row)) in prices.iter().zip(self.rows()) {
            if *price > 0.0 {
                let load: f64 = row.iter().map(|(&(q, h), a)| a * solution.cached[instance.hop_index(q, h)]).sum();
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
    assert!(near(value, solution.objective, 1e-9), "value {value}, said to be {}", solution.objective);
    assert!(
        near(value, optimum, 1e-6),
        "{objective:?} by {}: {value} instead of {optimum}, gap {:e}",
        solution.method,
        solution.gap()
    );
    assert!(near(solution.bound, optimum, 1e-6), "bound {} for {optimum}", solution.bound);
    let beyond = if objective == Objective::Footprint { value - solution.bound } else { solution.bound - value };
    assert!(beyond <= 1e-12 * value.abs(), "a plan of {value} is better than the bound {}", solution.bound);
    assert!(solution.gap() <= 2e-6, "gap {:e}", solution.gap());
    if objective == Objective::Footprint {
        let (bound, unused) = naive.certificate(&solution);
        assert!(near(bound, solution.bound, 1e-9), "the prices prove {bound}, not {}", solution.bound);
        assert!(unused.abs() <= 1e-5 * value, "prices of {unused} for what is not used up, of {value}");
    }
}

const LOAD: Objective = Objective::LinkLoad { capacity: Some(5e3) };

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]

    #[test]
    fn coefficients_equal_the_sums_over_pairs(seed: u64, wild: bool) {
        let instance = random_instance(seed, wild);
        let fast = Coefficients::new(&instance, &Unwatched).unwrap();
        let naive = Naive::new(&instance);
        for (q, sums) in naive.sums.iter().enumerate() {
            for (h, sum) in sums.iter().enumerate() {
                let at = instance.hop_index(q, h);
                prop_assert!(near(fast.matches[at], sum[0], 1e-12), "{} instead of {}", fast.matches[at], sum[0]);
                prop_assert!(near(fast.bytes[at], sum[1], 1e-12), "{} instead of {}", fast.bytes[at], sum[1]);
                // W by the distances of the other paths: the same, as the paths form a tree.
                prop_assert!(near(fast.bytes[at] * f64::from(instance.paths[q].hops[h].distance), sum[2], 1e-12));
            }
        }
    }

    #[test]
    fn footprint_is_the_optimum(seed: u64) {
        check(&random_instance(seed, false), Objective::Footprint, Method::Interior);
    }

    #[test]
    fn link_load_is_the_optimum(seed: u64) {
        let instance = random_instance(seed, false);
        check(&instance, LOAD, Method::Auto);
    }

    #[test]
    fn simplex_is_the_optimum(seed: u64, load: bool) {
        check(&random_instance(seed, false), if load { LOAD } else { Objective::Footprint }, Method::Simplex);
    }

    /// Whatever the numbers are, a plan holds the limits, is a number, and its bound holds.
    #[test]
    fn wild_numbers_give_honest_plans(seed: u64, load: bool) {
        let instance = random_instance(seed, true);
        let objective = if load { LOAD } else { Objective::Footprint };
        let naive = Naive::new(&instance);
        let (solution, _) = solve(&instance, &Options { objective, ..Options::default() }, None, &Unwatched).unwrap();
        let (value, broken) = naive.judge(&solution, objective);
        prop_assert!(broken <= 1e-9, "a limit is broken by a part of {broken:e}");
        prop_assert!(near(value, solution.objective, 1e-9), "value {value}, said to be {}", solution.objective);
        prop_assert!(solution.bound.is_finite() && solution.gap() <= 1e-6, "gap {:e} by {}", solution.gap(), solution.method);
        if objective == Objective::Footprint {
            let (bound, _) = naive.certificate(&solution);
            prop_assert!(near(bound, solution.bound, 1e-9), "the prices prove {bound}, not {}", solution.bound);
        }
    }

    /// The optimum is concave in a limit, so its price lies between what a little more wins and what a little less loses.
    #[test]
    fn prices_are_what_resources_are_worth(seed: u64) {
        let instance = random_instance(seed, false);
        let exact = Options { tolerance: 1e-11, gap: 0.0, ..Options::default() };
        let best = |instance: &Instance| solve(instance, &exact, None, &Unwatched).unwrap().0;
        let solution = best(&instance);
        for device in 0..instance.devices.len() {
            let limit = instance.devices[device].memory;
            if limit == 0.0 || limit.is_infinite() {
                continue;
            }
            let by = 1e-3 * limit;
            let with = |memory: f64| {
                let mut changed = instance.clone();
                changed.devices[device].memory = memory;
                best(&changed).objective
            };
            let (more, less) = ((with(limit + by) - solution.objective) / by, (solution.objective - with(limit - by)) / by);
            let slack = 1e-6 * solution.objective / by;
            let price = solution.prices.memory[device];
            prop_assert!(more - slack <= price && price <= less + slack, "{more} <= {price} <= {less}, give or take {slack}");
        }
    }

    #[test]
    fn a_re_plan_is_as_good_as_a_plan(seed: u64, load: bool, by in 0.0..0.3) {
        let instance = random_instance(seed, false);
        let objective = if load { LOAD } else { Objective::Footprint };
        let options = Options { objective, ..Options::default() };
        let (_, warm) = solve(&instance, &options, None, &Unwatched).unwrap();
        let random = &mut Random(seed ^ 1);
        let volumes: Vec<f64> = instance.paths.iter().map(|path| path.volume * (1.0 + by * random.next())).collect();
        let mut changed = instance.with_volumes(&volumes).unwrap();
        for device in &mut changed.devices {
            device.memory *= 1.0 - by * random.next();
        }
        let naive = Naive::new(&changed);
        let optimum = naive.optimum(objective);
        for gap in [0.0, 1e-3, 0.1] {
            let (solution, _) = solve(&changed, &Options { gap, ..options }, Some(&warm), &Unwatched).unwrap();
            let (value, broken) = naive.judge(&solution, objective);
            prop_assert!(broken <= 1e-9, "a limit is broken by a part of {broken:e}");
            prop_assert!(near(value, solution.objective, 1e-9));
            prop_assert!(solution.gap() <= gap.max(2e-6), "gap {:e}", solution.gap());
            prop_assert!(near(value, optimum, 1.2 * gap.max(1e-6)), "{value} instead of {optimum} with a gap of {gap}");
        }
    }
}

/// Two nodes apart `links` links, one path with `volume` bytes.
fn line(links: usize, volume: f64, placement: &Placement) -> Instance {
    let pops: Vec<u32> = (0..=links as u32).collect();
    let mut network = Network { nodes: nodes(&pops), ..Network::default() };
    for at in 0..links as u32 {
        network.links.push(cable(at, at + 1, Some(1e9))[0]);
    }
    let route = Route { from: 0, to: links as u32, links: (0..links as u32).collect(), volume };
    let profile = Synthetic { gamma: 0.5, intrapop: 0.5, intrapath: 0.5, length: 500.0, ingresses: BTreeMap::new() };
    Instance::new(network, vec![route], &Provision::default(), placement, Profile::Synthetic(profile)).unwrap()
}

fn plan(instance: &Instance, objective: Objective) -> Solution {
    solve(instance, &Options { objective, ..Options::default() }, None, &Unwatched).unwrap().0
}

#[test]
fn one_path_by_hand() {
    // Half of 1000 bytes repeats. The last device has room for 500 bytes, the one before it for 300, the first for all.
    let mut instance = line(3, 1000.0, &Placement::Links);
    instance.devices[2].memory = 500.0;
    instance.devices[1].memory = 300.0;
    let solution = plan(&instance, Objective::Footprint);
    assert!(
        solution.cached.iter().zip([0.2, 0.3, 0.5]).all(|(found, known)| (found - known).abs() < 1e-6),
        "{:?}",
        solution.cached
    );
    assert!(near(solution.objective, 500.0 * (0.2 + 2.0 * 0.3 + 3.0 * 0.5), 1e-6));
    // A byte more at the last saves half a byte on two links more than at the first.
    assert!(
        solution.prices.memory.iter().zip([0.0, 0.5, 1.0]).all(|(found, known)| (found - known).abs() < 1e-5),
        "{:?}",
        solution.prices
    );

    // Of 80 % of the packets the ingress has no fingerprints: what is matched, and what may be stored, is a fifth.
    let mut few = instance.clone();
    few.ingresses[0].encodings = 0.2;
    let solution = plan(&few, Objective::Footprint);
    assert!(near(solution.objective, 0.2 * 500.0 * 3.0 * 0.2, 1e-6), "{}", solution.objective);

    // The first link stays as loaded as the plan cannot help; all of the redundancy is saved there.
    let solution = plan(&instance, Objective::LinkLoad { capacity: None });
    let whole = 1000.0 / (1e9 * instance.epoch / 8.0);
    assert!(near(solution.objective, whole * (1.0 - 0.5 * 0.5), 1e-6), "{} of {whole}", solution.objective);
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
    instance.devices.iter_mut().for_each(|device| (device.memory, device.operations) = (f64::INFINITY, f64::INFINITY));
    instance.ingresses[0].memory = f64::INFINITY;
    instance.ingresses[0].encodings = f64::INFINITY;
    let solution = plan(&instance, Objective::Footprint);
    assert_eq!((solution.cached.as_slice(), solution.objective, solution.gap()), ([0.0, 0.0, 1.0].as_slice(), 1500.0, 0.0));
    // Limits so small that dividing by them has no number.
    let mut instance = whole;
    instance.devices.iter_mut().for_each(|device| device.memory = 1e-307);
    let solution = plan(&instance, Objective::Footprint);
    assert!(solution.objective.is_finite() && solution.bound.is_finite() && solution.bound < 1e-9, "{solution:?}");
}

#[test]
fn numbers_that_are_none_are_refused() {
    let sound = line(2, 1000.0, &Placement::Links);
    let refused = |change: &dyn Fn(&mut Instance)| {
        let mut instance = sound.clone();
        change(&mut instance);
        let error = solve(&instance, &Options::default(), None, &Unwatched).unwrap_err().to_string();
        assert!(!error.contains('\n'));
        error
    };
    assert_eq!(refused(&|i| i.devices[1].memory = f64::NAN), "devices: the memory of n1 -> n2 is NaN; it must be 0 or more");
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
    refused(&|i| i.packet = 0.0);
    refused(&|i| i.epoch = f64::NAN);
    refused(&|i| {
        i.profile = Profile::Measured(Measured { pairs: vec![(0, 0, Match { count: f64::NAN, length: 1.0 })] });
    });
    refused(&|i| {
        i.paths[0].volume = 1e308;
        i.profile = Profile::Measured(Measured { pairs: vec![(0, 0, Match { count: 1e308, length: 1000.0 })] });
    });
    let load = Options { objective: Objective::LinkLoad { capacity: None }, ..Options::default() };
    let mut bare = sound.clone();
    bare.network.links.iter_mut().for_each(|link| link.capacity = None);
    assert!(
        solve(&bare, &load, None, &Unwatched).unwrap_err().to_string().contains("no link that carries traffic has a capacity")
    );
    bare.network.links[0].capacity = Some(0.0);
    assert!(solve(&bare, &load, None, &Unwatched).unwrap_err().to_string().contains("a capacity of 0 bit/s"));
    for tolerance in [f64::NAN, -1.0] {
        assert!(solve(&sound, &Options { tolerance, ..Options::default() }, None, &Unwatched).is_err());
    }
}

#[test]
fn a_warm_start_of_another_shape_is_not_used() {
    let (_, warm) = solve(&line(2, 1000.0, &Placement::Links), &Options::default(), None, &Unwatched).unwrap();
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
    assert_eq!(solve(&line(2, 1000.0, &Placement::Links), &Options::default(), None, &Impatient), Err(Error::Stopped));
}

/// Against HiGHS, at the size of the largest network of the papers: 70 PoPs with 4 access routers each.
#[cfg(feature = "highs")]
#[test]
fn router_level_equals_highs() {
    let random = &mut Random(5);
    let (pops, access) = (70usize, 4usize);
    let of_nodes: Vec<u32> =
        (0..pops * (1 + access)).map(|node| if node < pops { node } else { (node - pops) / access } as u32).collect();
    let mut network = Network { nodes: nodes(&of_nodes), ..Network::default() };
    for b in 1..pops {
        network.links.extend(cable(random.below(b) as u32, b as u32, Some(40e9)));
        network.links.extend(cable(random.below(b) as u32, b as u32, Some(40e9)));
    }
    for node in pops..of_nodes.len() {
        network.links.extend(cable(of_nodes[node], node as u32, Some(10e9)));
    }
    let weights: Vec<f64> = of_nodes.iter().map(|_| (4.0 * random.next()).exp()).collect();
    let mut routes = routes(&network, &mut || 1.0);
    routes.retain(|route| {
        let (from, to) = (route.from as usize, route.to as usize);
        from >= pops && to >= pops && of_nodes[from] != of_nodes[to]
    });
    let total: f64 = weights[pops..].iter().sum();
    routes.iter_mut().for_each(|route| route.volume = 2.5e9 * weights[route.to as usize] / total);
    let profile = Synthetic { gamma: 0.5, intrapop: 0.5, intrapath: 0.5, length: 1000.0, ingresses: BTreeMap::new() };
    let instance = Instance::new(network, routes, &Provision::default(), &Placement::Links, Profile::Synthetic(profile)).unwrap();
    assert_eq!(instance.paths.len(), 77_280);
    for objective in [Objective::Footprint, Objective::LinkLoad { capacity: None }] {
        let by = |method| solve(&instance, &Options { objective, method, ..Options::default() }, None, &Unwatched).unwrap().0;
        let (ours, reference) = (by(Method::Interior), by(Method::Highs));
        assert!(near(ours.objective, reference.objective, 1e-6), "{} and {}", ours.objective, reference.objective);
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

/// Here what the interior point method ends with at its tolerance loses ten times that when it is repaired.
#[test]
fn what_repair_loses_is_won_back() {
    let instance = random_instance(5644903894492800421, true);
    for method in [Method::Auto, Method::Interior] {
        let (solution, _) = solve(&instance, &Options { method, ..Options::default() }, None, &Unwatched).unwrap();
        assert!(solution.gap() <= 1e-7, "{:e}", solution.gap());
    }
}
