//! HiGHS as a reference: the reduced program of an ingress, and the least load without redundancy.
//!
//! The program of a block is the linear one that the bound is a bound of: a flow per egress and
//! link, and of what egresses share, a link carries the largest of their flows. *Directly*, each
//! pair and set has a variable per link. *By orderings*, a link has one variable, at least what any
//! ordering of the egresses says: each pays for the bytes that none before it pays for. Orderings
//! are added where the solution violates them.

use std::time::{Duration, Instant};

use ::highs::{Col, HighsModelStatus, Model, RowProblem, Sense, SolvedModel};
use proptest::strategy::{Strategy, ValueTree};

use super::{
    bound::Effort,
    each::solve,
    oracle,
    reduce::{Block, Problem},
    tests::{abilene, load_request, with_capacities},
    tree::Prices,
    *,
};
use crate::Unwatched;

/// CPU time of this thread.
fn cpu() -> Duration {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let nanoseconds = text.split(' ').next().and_then(|first| first.parse().ok());
    Duration::from_nanos(nanoseconds.unwrap_or(0))
}

/// What HiGHS solves with: the dual simplex method, or the interior point method without crossover.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Method {
    Simplex,
    Interior,
}

fn model(problem: RowProblem, method: Method, limit: f64) -> Model {
    let mut model = problem.optimise(Sense::Minimise);
    model.make_quiet();
    model.set_option("threads", 1);
    model.set_option("parallel", "off");
    model.set_option("time_limit", limit);
    match method {
        Method::Simplex => model.set_option("solver", "simplex"),
        Method::Interior => {
            model.set_option("solver", "ipm");
            model.set_option("run_crossover", "off");
        }
    }
    model
}

/// None if the time was not enough.
fn solved(model: Model) -> Option<SolvedModel> {
    let solved = model.solve();
    match solved.status() {
        HighsModelStatus::Optimal => Some(solved),
        HighsModelStatus::ReachedTimeLimit => None,
        // Without crossover it does not always vouch for its precision.
        HighsModelStatus::Unknown => Some(solved),
        other => panic!("{other:?}"),
    }
}

/// A flow from the entry to each egress, at this cost per link.
fn flows(
    problem: &mut RowProblem,
    block: &Block,
    cost: impl Fn(usize, usize) -> f64,
) -> Vec<Vec<Col>> {
    let nodes = block.graph.nodes();
    let mut all = Vec::new();
    for (egress, &to) in block.egresses.iter().enumerate() {
        let flow: Vec<Col> = (0..block.links.len())
            .map(|link| problem.add_column(cost(egress, link), 0.0..=1.0))
            .collect();
        for node in NodeId::first(nodes).filter(|&node| node != block.entry) {
            let mut row = Vec::new();
            for (&(from, into), &flow) in block.graph.ends.iter().zip(&flow) {
                if into == node {
                    row.push((flow, 1.0));
                } else if from == node {
                    row.push((flow, -1.0));
                }
            }
            let leaves = f64::from(u8::from(node == to));
            problem.add_row(leaves..=leaves, row);
        }
        all.push(flow);
    }
    all
}

/// The optimum by the direct program.
fn direct(block: &Block, prices: &Prices, method: Method, limit: f64) -> Option<f64> {
    let content = &block.content;
    let mut problem = RowProblem::default();
    let flow = flows(&mut problem, block, |egress, link| {
        prices.once[link] * content.own[egress] + prices.copy[link] * content.copies[egress]
    });
    let pairs = content.pairs.iter().map(|pair| (vec![pair.first, pair.second], pair.bytes));
    let sets = content.sets.iter().map(|set| (set.egresses.to_vec(), set.bytes));
    for (egresses, bytes) in pairs.chain(sets) {
        for link in (0..block.links.len()).filter(|&link| prices.once[link] > 0.0) {
            let most = problem.add_column(prices.once[link] * bytes, 0.0..);
            for &egress in &egresses {
                problem.add_row(0.0.., [(most, 1.0), (flow[egress as usize][link], -1.0)]);
            }
        }
    }
    Some(solved(model(problem, method, limit))?.objective_value())
}

/// What each egress pays for if they come in this order: bytes that none before it pays for.
fn increments(block: &Block, order: &[usize]) -> Vec<f64> {
    let content = &block.content;
    let mut place = vec![0; order.len()];
    order.iter().enumerate().for_each(|(at, &egress)| place[egress] = at);
    let mut pays = content.own.clone();
    for pair in &content.pairs {
        let (one, other) = (pair.first as usize, pair.second as usize);
        pays[if place[one] < place[other] { one } else { other }] += pair.bytes;
    }
    for set in &content.sets {
        let first = set.egresses.iter().min_by_key(|&&egress| place[egress as usize]).unwrap();
        pays[*first as usize] += set.bytes;
    }
    pays
}

/// The optimum by orderings, and the number of them.
fn by_orderings(block: &Block, prices: &Prices, limit: f64) -> Option<(f64, usize)> {
    const NEAR: f64 = 1e-6;
    let begun = Instant::now();
    let mut problem = RowProblem::default();
    let flow =
        flows(&mut problem, block, |egress, link| prices.copy[link] * block.content.copies[egress]);
    let links: Vec<usize> =
        (0..block.links.len()).filter(|&link| prices.once[link] > 0.0).collect();
    let bytes: f64 = increments(block, &(0..flow.len()).collect::<Vec<_>>()).iter().sum();
    // Of all bytes, so that numbers are of usual sizes.
    let carries: Vec<Col> =
        links.iter().map(|&link| problem.add_column(prices.once[link] * bytes, 0.0..)).collect();
    let mut model = model(problem, Method::Simplex, limit);
    let mut orderings = 0;
    loop {
        let found = solved(model)?;
        let solution = found.get_solution();
        let value = found.objective_value();
        model = found.into();
        let mut any = false;
        for (&link, &carried) in links.iter().zip(&carries) {
            let part = |egress: usize| solution[flow[egress][link]];
            let mut order: Vec<usize> = (0..flow.len()).collect();
            order.sort_by(|&one, &other| part(other).total_cmp(&part(one)).then(one.cmp(&other)));
            let pays = increments(block, &order);
            let need: f64 = order.iter().map(|&egress| pays[egress] / bytes * part(egress)).sum();
            if need > solution[carried] + NEAR {
                any = true;
                orderings += 1;
                let row = order.iter().map(|&egress| (flow[egress][link], -pays[egress] / bytes));
                model.add_row(0.0.., row.chain([(carried, 1.0)]));
            }
        }
        if !any {
            return Some((value, orderings));
        }
        if begun.elapsed().as_secs_f64() > limit {
            return None;
        }
    }
}

/// The least load without redundancy: per ingress and link a flow, conserved at each node.
fn least_load(
    network: &Network,
    ingresses: &[(NodeId, Classes)],
    capacities: &[f64],
    method: Method,
) -> f64 {
    let all: f64 = ingresses.iter().map(|(_, classes)| classes.bytes()).sum();
    let mut problem = RowProblem::default();
    let busiest = problem.add_column(1.0, 0.0..);
    let mut on: Vec<Vec<Col>> = vec![Vec::new(); network.links.len()];
    for (ingress, classes) in ingresses {
        let mut leaves = vec![0.0; network.nodes.len()];
        for class in classes.list() {
            leaves[class.egresses[0]] += class.bytes * class.copies[0] / all;
        }
        let flows: Vec<Col> =
            network.links.iter().map(|_| problem.add_column(0.0, 0.0..)).collect();
        for node in NodeId::first(network.nodes.len()).filter(|node| node != ingress) {
            let row = oracle::leaving(network, &flows, node);
            problem.add_row(leaves[node]..=leaves[node], row);
        }
        on.iter_mut().zip(flows).for_each(|(on, flow)| on.push(flow));
    }
    // Of what an average link carries if each byte takes one.
    let unit = network.links.len() as f64;
    for (flows, capacity) in on.iter().zip(capacities) {
        let row = flows.iter().map(|&flow| (flow, unit));
        problem.add_row(..=0.0, row.chain([(busiest, -capacity / all * unit)]));
    }
    solved(model(problem, method, f64::INFINITY)).expect("there is no limit").objective_value()
}

/// Bound and optimum of each block, at the costs of links.
fn judge_block(block: &Block, prices: &Prices, bound: f64, value: f64) {
    let direct = direct(block, prices, Method::Simplex, f64::INFINITY).unwrap();
    let interior = self::direct(block, prices, Method::Interior, f64::INFINITY).unwrap();
    let (optimum, _) = by_orderings(block, prices, f64::INFINITY).unwrap();
    let near = |one: f64, other: f64| (one - other).abs() <= 1e-5 * optimum.abs();
    assert!(near(direct, optimum), "{direct} by pairs, {optimum} by orderings");
    assert!(near(interior, optimum), "{interior} by pairs, {optimum} by orderings");
    assert!(bound <= optimum * (1.0 + 1e-6), "{bound} > {optimum}");
    assert!(bound >= optimum * (1.0 - 1e-3), "{bound} < {optimum}");
    assert!(value >= optimum * (1.0 - 1e-6), "{value} < {optimum}");
}

fn judge_problem(network: &Network, ingress: NodeId, classes: &Classes, eliminates: &[bool]) {
    let ingresses = vec![(ingress, classes.clone())];
    let request = Request {
        objective: Objective::Footprint,
        plain_load: None,
        ingresses,
        ..load_request(network, 0.0)
    };
    let costs = steps::costs(&request, eliminates);
    let problem = Problem::new(network, ingress, &classes.list()).unwrap();
    let effort = Effort { gap: 1e-4, rounds: 1000 };
    let found = solve(&problem, &costs, None, None, effort, &Unwatched);
    for (block, found) in problem.blocks.iter().zip(found) {
        judge_block(block, &costs.of(&block.links), found.bound, found.value);
    }
}

#[test]
fn the_bound_of_small_programs_is_their_optimum() {
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    let mut judged = 0;
    while judged < 60 {
        let (network, classes, eliminates) =
            oracle::problems().new_tree(&mut runner).unwrap().current();
        if classes.is_empty() || network.links.len() != eliminates.len() {
            continue;
        }
        let reached = Problem::new(&network, NodeId(0), &classes).is_ok();
        if reached {
            judged += 1;
            judge_problem(&network, NodeId(0), &Classes::Listed(classes), &eliminates);
        }
    }
}

#[test]
fn the_bound_on_abilene_is_the_optimum() {
    let network = abilene();
    let all = vec![true; network.links.len()];
    for (ingress, classes) in gravity(&network, 0.5, 1.0, 1.0).unwrap() {
        judge_problem(&network, ingress, &classes, &all);
    }
}

#[test]
fn the_load_without_redundancy_is_that_of_a_flow() {
    let network = with_capacities(&abilene());
    let request =
        Request { plain_load: None, slices: 100, gap: 1e-6, ..load_request(&network, 0.0) };
    let outcome = run(&request, &Unwatched).unwrap();
    let capacities: Vec<f64> = outcome.capacities.iter().map(|one| one.unwrap()).collect();
    for method in [Method::Simplex, Method::Interior] {
        let least = least_load(&network, &request.ingresses, &capacities, method);
        assert!((outcome.value / least - 1.0).abs() <= 1e-5, "{} {least}", outcome.value);
        assert!((outcome.bound / least - 1.0).abs() <= 1e-5, "{} {least}", outcome.bound);
    }
}

/// A public map, or None if the data is not there.
fn map(name: &str) -> Option<Network> {
    let data = std::env::var_os("ONCEWIRE_DATA")?;
    let path = std::path::Path::new(&data).join("topologies").join(format!("{name}.json"));
    let text = std::fs::read_to_string(path).ok()?;
    let mut scenario = crate::Scenario::new(crate::Text::new(name, text));
    scenario.shape.populated_only = true;
    Some(scenario.network().unwrap())
}

/// What it returns, and the CPU time of that.
fn timed<T>(work: impl FnOnce() -> T) -> (T, f64) {
    let begun = cpu();
    let found = work();
    (found, (cpu() - begun).as_secs_f64())
}

/// Most seconds for one block.
const LIMIT: f64 = 60.0;

/// Bound and CPU time of single ingresses beside HiGHS's. Prints a table.
#[test]
#[ignore = "takes minutes"]
fn single_ingresses_beside_highs() {
    println!(
        "| map | ingress | pairs | optimum less bound | ours s | orderings s | direct, simplex s | direct, interior s | ratio |"
    );
    let maps = [
        ("sndlib-abilene", 11),
        ("sndlib-geant", 4),
        ("rocketfuel-3257-Tiscali-pop", 3),
        ("rocketfuel-1239-Sprint-pop", 3),
        ("rocketfuel-7018-ATT-pop", 2),
    ];
    for (name, count) in maps {
        let Some(network) = map(name) else {
            oncewire_testkit::skipped!("ONCEWIRE_DATA lacks {name}");
            continue;
        };
        let all = gravity(&network, 0.5, 1.0, 1.0).unwrap();
        let step = all.len().div_ceil(count);
        let request = Request { plain_load: None, ..load_request(&network, 0.5) };
        let costs = steps::costs(&request, &vec![true; network.links.len()]);
        for (ingress, classes) in all.iter().step_by(step) {
            let problem = Problem::new(&network, *ingress, &classes.list()).unwrap();
            let effort = Effort { gap: 1e-3, rounds: 600 };
            // Several times, as the clock is coarse.
            const TIMES: u32 = 10;
            let ours = || solve(&problem, &costs, None, None, effort, &Unwatched);
            let found = ours();
            let ours = timed(|| (0..TIMES).for_each(|_| drop(ours()))).1 / f64::from(TIMES);
            let bound: f64 = found.iter().map(|block| block.bound).sum();
            let each = |of: &dyn Fn(&Block, &Prices) -> Option<f64>| {
                timed(|| -> Option<f64> {
                    let blocks = problem.blocks.iter();
                    blocks.map(|block| of(block, &costs.of(&block.links))).sum()
                })
            };
            let orderings = each(&|block, prices| Some(by_orderings(block, prices, LIMIT)?.0));
            let simplex = each(&|block, prices| direct(block, prices, Method::Simplex, LIMIT));
            let interior = each(&|block, prices| direct(block, prices, Method::Interior, LIMIT));
            let optima = [orderings.0, simplex.0, interior.0];
            let best = [&orderings, &simplex, &interior]
                .iter()
                .filter(|one| one.0.is_some())
                .map(|one| one.1)
                .fold(f64::INFINITY, f64::min);
            let optimum = optima.into_iter().flatten().next();
            let pairs: usize = problem.blocks.iter().map(|block| block.content.pairs.len()).sum();
            let time = |one: &(Option<f64>, f64)| match one.0 {
                Some(_) => format!("{:.3}", one.1),
                None => format!("> {:.0}", one.1),
            };
            println!(
                "| {name} | {} | {pairs} | {} | {ours:.4} | {} | {} | {} | {:.4} |",
                network.nodes[*ingress].label,
                optimum.map_or("?".into(), |one| format!("{:.4} %", 100.0 * (1.0 - bound / one))),
                time(&orderings),
                time(&simplex),
                time(&interior),
                ours / best,
            );
            for one in optima.into_iter().flatten() {
                assert!(bound <= one * (1.0 + 1e-6) && bound >= one * (1.0 - 1e-3));
            }
        }
    }
}

/// The least load of all ingresses beside HiGHS's multicommodity flow, and CPU times.
#[test]
#[ignore = "takes minutes"]
fn the_load_beside_highs() {
    for name in ["sndlib-geant", "rocketfuel-1239-Sprint-pop", "rocketfuel-7018-ATT-pop"] {
        let Some(network) = map(name) else {
            oncewire_testkit::skipped!("ONCEWIRE_DATA lacks {name}");
            continue;
        };
        let network = with_capacities(&network);
        // On one thread, whose time is counted.
        let pool = rayon::ThreadPoolBuilder::new().num_threads(1).build().unwrap();
        let ours = |rho: f64, gap: f64, slices: usize| {
            pool.install(|| {
                let request = Request {
                    plain_load: None,
                    compare: false,
                    gap,
                    slices,
                    ..load_request(&network, rho)
                };
                timed(|| run(&request, &Unwatched).unwrap())
            })
        };
        let request = Request { plain_load: None, ..load_request(&network, 0.0) };
        let (flow, flow_time) = ours(0.0, 1e-5, 1000);
        let capacities: Vec<f64> = flow.capacities.iter().map(|one| one.unwrap()).collect();
        let interior =
            timed(|| least_load(&network, &request.ingresses, &capacities, Method::Interior));
        println!(
            "{name}: rho 0: load {} bound {} in {flow_time:.2} s; HiGHS {} by interior point in {:.2} s",
            flow.value, flow.bound, interior.0, interior.1
        );
        for gap in [0.02, 0.005] {
            let (shared, time) = ours(0.5, gap, 8);
            println!(
                "{name}: rho 0.5: asked gap {gap}, gap {:.5} in {time:.2} s, {:.2} of HiGHS's time",
                shared.gap(),
                time / interior.1
            );
        }
        let simplex =
            timed(|| least_load(&network, &request.ingresses, &capacities, Method::Simplex));
        println!("{name}: HiGHS {} by the simplex method in {:.2} s", simplex.0, simplex.1);
        assert!((flow.value / simplex.0 - 1.0).abs() <= 1e-5, "{} {}", flow.value, simplex.0);
    }
}
