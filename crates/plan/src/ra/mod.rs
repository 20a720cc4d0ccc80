//! Redundancy-aware routing: routes that put equal bytes on the same links (Anand, *Redundancy
//! Elimination as a Primitive*, 2012, chapter 6; "RA" is its name there).
//!
//! A [`Class`] is content of one ingress that goes to a set of egresses within an interval. A link
//! whose ends eliminate redundancy carries it once, however many of its egresses the link leads to.
//! Routes are [`Slice`]s: weighted trees of an ingress. `docs/ROUTING.md` defines every quantity.

mod bound;
mod class;
pub mod judge;
#[cfg(test)]
mod oracle;
mod reduce;
#[cfg(test)]
mod tests;
mod tree;

use std::{collections::BTreeSet, net::IpAddr};

use rayon::prelude::*;

use crate::{
    Error, LinkId, Network, NodeId, Watch,
    error::{RouteError, quote},
    routing::dijkstra::Search,
};
use bound::{Division, Effort, Solved};
pub use class::{Class, Classes, gravity};
use judge::Judged;
use reduce::{Paths, Problem};
use tree::Prices;

/// What a byte costs on a link.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Cost {
    /// The link's latency in milliseconds, as in the thesis's chapter 6.
    #[default]
    Latency,
    /// 1 on every link, as in SmartRE.
    Hops,
}

/// What routes are to be good at.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Objective {
    /// The least footprint: bytes times the cost of the links that they cross. Capacities do not
    /// matter.
    #[default]
    Footprint,
    /// The least footprint with no link above a utilization.
    FootprintWithin(LoadLimit),
    /// The least utilization of the busiest link, then the least footprint.
    Load,
}

/// The highest utilization that a link may have.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum LoadLimit {
    /// This part of its capacity.
    Given(f64),
    /// This many times what the busiest link has on shortest paths with redundancy elimination.
    Stretch(f64),
}

/// What to compute routes for.
#[derive(Clone, Debug)]
pub struct Request<'a> {
    /// The network.
    pub network: &'a Network,
    /// Content of each ingress per interval. An ingress is listed once.
    pub ingresses: Vec<(NodeId, Classes)>,
    /// What a byte costs on a link.
    pub cost: Cost,
    /// What routes are to be good at.
    pub objective: Objective,
    /// Capacity in bit/s of links whose own is not known.
    pub capacity: Option<f64>,
    /// Seconds of an interval, in which content counts as equal (T, 60 in the thesis). Relates the
    /// bytes of classes to capacities.
    pub interval: f64,
    /// Whether the ends of each link eliminate redundancy; empty if all do.
    pub eliminates: Vec<bool>,
    /// Whether all copies, without elimination, must fit the capacities too (thesis, section 6.2,
    /// "safety net constraints").
    pub safety_net: bool,
    /// Most trees per ingress; at least 1.
    pub slices: usize,
    /// Relative gap between routes and bound that is good enough.
    pub gap: f64,
    /// Routes in force, to begin with; kept if they are within the gap.
    pub against: Option<Routes>,
}

/// Routes of all ingresses.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Routes {
    /// Sorted by ingress. The weights of an ingress add up to 1.
    pub slices: Vec<Slice>,
}

impl Routes {
    /// The slices of an ingress.
    pub fn of(&self, ingress: NodeId) -> impl Iterator<Item = &Slice> {
        self.slices.iter().filter(move |slice| slice.ingress == ingress)
    }
}

/// One tree of routes for a part of an ingress's traffic.
#[derive(Clone, Debug, PartialEq)]
pub struct Slice {
    /// Where the traffic enters.
    pub ingress: NodeId,
    /// Its part of the ingress's traffic, above 0.
    pub weight: f64,
    /// Egress and links from the ingress to it, sorted by egress. Together they form a tree: each
    /// node has one link by which paths come to it.
    pub paths: Vec<(NodeId, Vec<LinkId>)>,
    /// Source prefixes whose traffic takes these routes; empty if none were given.
    pub prefixes: Vec<Prefix>,
}

/// A range of source addresses: a network, or a host with all bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Prefix {
    /// Address; bits after the first `length` are 0.
    pub address: IpAddr,
    /// Bits that count.
    pub length: u8,
}

/// Routes with what they are worth.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    /// The best routes found.
    pub routes: Routes,
    /// Their value: the footprint in bytes times cost, or the utilization of the busiest link, both
    /// from [`judge::judge`], which shares no code with the solver.
    pub value: f64,
    /// No trees are better, in any number and with any weights.
    pub bound: f64,
    /// Price of a byte on each link, in units of the objective per byte.
    pub link_prices: Vec<f64>,
    /// These routes and others.
    pub schemes: Vec<Scheme>,
    /// Each ingress, in the order of the request.
    pub ingresses: Vec<OfIngress>,
    /// Capacity of each link in bytes per interval, if it has one.
    pub capacities: Vec<Option<f64>>,
    /// What the routes put on links.
    pub judged: Judged,
    /// What shortest paths put on links.
    pub shortest: Judged,
    /// What making paths a tree has cost, as a part of the value: the most of any ingress.
    pub repair: f64,
    /// Whether the computation was stopped before the gap was reached.
    pub stopped: bool,
}

impl Outcome {
    /// Relative gap between value and bound: the most that better routes could save.
    pub fn gap(&self) -> f64 {
        gap(self.value, self.bound)
    }
}

fn gap(value: f64, bound: f64) -> f64 {
    if value > 0.0 { ((value - bound) / value).max(0.0) } else { 0.0 }
}

/// Footprints of an ingress's traffic, in bytes times cost.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct OfIngress {
    /// Where it enters.
    pub ingress: NodeId,
    /// On shortest paths without elimination (the thesis's SP).
    pub plain: f64,
    /// On shortest paths with elimination on every link (SP-RE).
    pub shortest: f64,
    /// On these routes (RA).
    pub value: f64,
    /// No trees are better for this ingress alone; none if routes were computed for all together.
    pub bound: Option<f64>,
    /// Rounds of the ascent that proves the bound.
    pub rounds: u32,
}

impl OfIngress {
    /// Relative gap between value and bound.
    pub fn gap(&self) -> Option<f64> {
        self.bound.map(|bound| gap(self.value, bound))
    }
}

/// A way to route, and what it costs.
#[derive(Clone, Debug, PartialEq)]
pub struct Scheme {
    /// Name in tables.
    pub name: &'static str,
    /// Bytes times cost, summed over links.
    pub footprint: f64,
    /// Utilization of the busiest link, if capacities are known.
    pub utilization: Option<f64>,
}

/// Computes routes. If the observer cancels, the best routes so far, with their gap.
///
/// # Errors
/// Settings out of range; classes that are none; an egress that no path leads to; capacities that
/// are not known, or that no routes can keep, with the links that prove it. [`Error::Stopped`] only
/// before there are any routes.
pub fn run(request: &Request<'_>, watch: &dyn Watch) -> Result<Outcome, Error> {
    check(request)?;
    let network = request.network;
    let problems = request
        .ingresses
        .par_iter()
        .map(|(ingress, classes)| {
            watch.proceed()?;
            Problem::new(network, *ingress, &classes.list())
        })
        .collect::<Result<Vec<_>, _>>()?;
    let capacities: Vec<Option<f64>> = network
        .links
        .iter()
        .map(|link| Some(link.capacity.or(request.capacity)? * request.interval / 8.0))
        .collect();
    let costs = costs(request);
    let judge = |routes: &Routes| {
        judge::judge(network, request.cost, &request.ingresses, routes, &request.eliminates)
    };
    let shortest_routes = whole(&problems, &shortest(&problems, &costs.lengths()));
    let shortest = judge(&shortest_routes)?;

    let solved = each(&problems, &costs, request.gap, watch);
    let paths: Vec<Vec<Paths>> = solved.iter().map(|of| paths(of)).collect();
    let routes = whole(&problems, &paths);
    let judged = judge(&routes)?;
    let bounds: Vec<f64> =
        solved.iter().map(|of| of.iter().map(|block| block.bound).sum()).collect();
    let bound: f64 = bounds.iter().sum();
    debug_assert!(solved.iter().zip(&judged.footprints).all(|(of, judged)| {
        let value: f64 = of.iter().map(|block| block.value).sum();
        (value - judged).abs() <= 1e-9 * value
    }));
    let busiest = |loads: &[f64]| judge::busiest(loads, &capacities).map(|busiest| busiest.1);
    let schemes = vec![
        Scheme {
            name: "SP",
            footprint: shortest.plain.iter().sum(),
            utilization: busiest(&shortest.copies),
        },
        Scheme {
            name: "SP-RE",
            footprint: shortest.footprint,
            utilization: busiest(&shortest.loads),
        },
        Scheme { name: "RA", footprint: judged.footprint, utilization: busiest(&judged.loads) },
    ];
    let ingresses = (0..problems.len())
        .map(|at| OfIngress {
            ingress: problems[at].ingress,
            plain: shortest.plain[at],
            shortest: shortest.footprints[at],
            value: judged.footprints[at],
            bound: Some(bounds[at].min(judged.footprints[at])),
            rounds: solved[at].iter().map(|block| block.rounds).max().unwrap_or(0),
        })
        .collect();
    let value = judged.footprint;
    let bound = bound.min(value);
    Ok(Outcome {
        routes,
        value,
        bound,
        link_prices: vec![0.0; network.links.len()],
        schemes,
        ingresses,
        capacities,
        judged,
        shortest,
        repair: solved.iter().flatten().map(|block| block.repair).fold(0.0, f64::max),
        stopped: watch.stopped() && gap(value, bound) > request.gap,
    })
}

/// Most rounds of the ascent for one block.
const ROUNDS: u32 = 600;

/// Routes and bound of every ingress on its own, at prices.
fn each(problems: &[Problem], prices: &Prices, gap: f64, watch: &dyn Watch) -> Vec<Vec<Solved>> {
    let effort = Effort { gap, rounds: ROUNDS };
    let done = std::sync::atomic::AtomicU64::new(0);
    problems
        .par_iter()
        .map(|problem| {
            let solved = solve(problem, prices, None, None, effort, watch);
            let done = done.fetch_add(1, std::sync::atomic::Ordering::Relaxed) + 1;
            watch.progress("ingresses", done, problems.len() as u64);
            solved
        })
        .collect()
}

/// Routes and bound of one ingress, block by block.
fn solve(
    problem: &Problem,
    prices: &Prices,
    begin: Option<&[Paths]>,
    divisions: Option<Vec<Division>>,
    effort: Effort,
    watch: &dyn Watch,
) -> Vec<Solved> {
    let mut divisions = divisions.unwrap_or_default().into_iter();
    let blocks = problem.blocks.iter().enumerate();
    blocks
        .map(|(at, block)| {
            let begin = begin.map(|begin| begin[at].clone());
            let prices = prices.of(&block.links);
            bound::solve(block, &prices, begin, divisions.next(), effort, &|| watch.stopped())
        })
        .collect()
}

fn paths(solved: &[Solved]) -> Vec<Paths> {
    solved.iter().map(|block| block.paths.clone()).collect()
}

/// Shortest paths of every ingress.
fn shortest(problems: &[Problem], lengths: &[f64]) -> Vec<Vec<Paths>> {
    let of = |problem: &Problem| {
        let blocks = problem.blocks.iter();
        blocks
            .map(|block| {
                let lengths: Vec<f64> = block.links.iter().map(|&link| lengths[link]).collect();
                let mut search = Search::new(&block.graph);
                tree::shortest(block, &lengths, &mut search).unwrap_or_default()
            })
            .collect()
    };
    problems.par_iter().map(of).collect()
}

/// Routes of one slice per ingress.
fn whole(problems: &[Problem], paths: &[Vec<Paths>]) -> Routes {
    let mut slices: Vec<Slice> = problems
        .iter()
        .zip(paths)
        .filter(|(problem, _)| !problem.egresses.is_empty())
        .map(|(problem, paths)| slice(problem, paths, 1.0))
        .collect();
    slices.sort_by_key(|slice| slice.ingress);
    Routes { slices }
}

fn slice(problem: &Problem, paths: &[Paths], weight: f64) -> Slice {
    Slice {
        ingress: problem.ingress,
        weight,
        paths: problem
            .egresses
            .iter()
            .map(|&egress| (egress, problem.path(paths, egress)))
            .collect(),
        prefixes: Vec::new(),
    }
}

/// What a byte costs on each link: once where the ends eliminate, each copy elsewhere.
fn costs(request: &Request<'_>) -> Prices {
    let mut prices = Prices::default();
    for (link, number) in request.network.links.iter().zip(LinkId::all()) {
        let cost = match request.cost {
            Cost::Latency => link.latency,
            Cost::Hops => 1.0,
        };
        let eliminates = request.eliminates.get(number.index()) != Some(&false);
        prices.once.push(if eliminates { cost } else { 0.0 });
        prices.copy.push(if eliminates { 0.0 } else { cost });
    }
    prices
}

fn check(request: &Request<'_>) -> Result<(), Error> {
    let network = request.network;
    let nodes = network.nodes.len();
    let range = |what, value, range| Err(Error::from(RouteError::Range { what, value, range }));
    if !(request.gap >= 0.0 && request.gap.is_finite()) {
        return range("gap", request.gap, "0 or more");
    }
    if !(request.interval > 0.0 && request.interval.is_finite()) {
        return range("interval in seconds", request.interval, "above 0");
    }
    if request.slices == 0 {
        return range("number of slices", 0.0, "1 or more");
    }
    if let Some(capacity) = request.capacity.filter(|rate| !(*rate > 0.0 && rate.is_finite())) {
        return range("capacity", capacity, "above 0");
    }
    let known = |node: NodeId| node.index() < nodes;
    let unknown = |node: NodeId| Error::from(RouteError::UnknownNode { node: node.index(), nodes });
    if let Some(link) = network.links.iter().find(|link| !known(link.from) || !known(link.to)) {
        return Err(unknown(link.from.max(link.to)));
    }
    let bad = |value: f64| !(value >= 0.0 && value.is_finite());
    if let Some(link) = network.links.iter().find(|link| bad(link.latency)) {
        return range("latency of a link", link.latency, "0 or more");
    }
    let mut seen = BTreeSet::new();
    for (ingress, classes) in &request.ingresses {
        if !known(*ingress) {
            return Err(unknown(*ingress));
        }
        let name = || quote(&network.nodes[*ingress].id);
        if !seen.insert(*ingress) {
            return Err(RouteError::Twice { ingress: name() }.into());
        }
        classes.check(*ingress, nodes, name)?;
    }
    if request.ingresses.iter().all(|(_, classes)| classes.bytes() == 0.0) {
        return Err(RouteError::NoTraffic.into());
    }
    Ok(())
}
