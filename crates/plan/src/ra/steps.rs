//! The steps of a computation, in their order.

use std::collections::BTreeSet;

use rayon::prelude::*;

use super::{
    Classes, Cost, LoadLimit, Objective, OfIngress, Outcome, Request, Routes, Unfinished,
    bound::Effort,
    each::{each, paths, shortest, whole},
    few::Few,
    gap, heuristic,
    judge::{self, Judged},
    master::{Goal, Master, Weighed},
    program::Program,
    reduce::{Paths, Problem},
    tree::Prices,
    warm::{OfOne, Warm},
    weights::{self, LinkPrices, Trees, Weights},
};
use crate::{
    Error, LinkId, NodeId, Watch,
    error::{RouteError, TopologyError, quote},
};

/// Computes routes. If the observer cancels, the best routes so far, with their gap: at first
/// shortest paths, without a bound. [`Outcome::unfinished`] says what is missing.
///
/// # Errors
/// Settings out of range; malformed classes; an egress that no path leads to; capacities that are
/// not known, or that no routes can keep, with the links that prove it.
pub fn run(request: &Request<'_>, watch: &dyn Watch) -> Result<Outcome, Error> {
    run_warm(request, None, watch).map(|found| found.0)
}

/// [`run`] with what an earlier call returned for the same network and objective and for similar
/// traffic. For another network it is not used. Routes may differ from those of [`run`], by no more
/// than the gap.
///
/// # Errors
/// As [`run`].
pub fn run_warm(
    request: &Request<'_>,
    warm: Option<&Warm>,
    watch: &dyn Watch,
) -> Result<(Outcome, Warm), Error> {
    check(request)?;
    let eliminates: Vec<bool> = (0..request.network.links.len())
        .map(|link| request.eliminates.get(link) != Some(&false))
        .collect();
    let capacities: Vec<Option<f64>> = request
        .network
        .links
        .iter()
        .map(|link| Some(link.capacity.or(request.capacity)?.0 * request.interval.0 / 8.0))
        .collect();
    let costs = costs(request, &eliminates);
    let mut steps = Steps {
        request,
        ingresses: request.ingresses.clone(),
        problems: Vec::new(),
        capacities,
        eliminates,
        costs,
        scale: 1.0,
        unfinished: Unfinished::default(),
        watch,
    };
    let together = !matches!(request.objective, Objective::Footprint);
    if (together || request.plain_load.is_some() || request.safety_net)
        && steps.capacities.iter().all(Option::is_none)
    {
        return Err(TopologyError::NoCapacities.into());
    }
    let plain = if (together && request.compare) || request.plain_load.is_some() {
        Some(steps.plain()?)
    } else {
        None
    };
    let Some(problems) = steps.split()? else { return steps.before_any() };
    steps.problems = problems;
    let warm = warm.filter(|warm| warm.fits(&steps.problems));
    if together || request.safety_net {
        steps.together(plain, warm)
    } else {
        steps.alone(plain, warm)
    }
}

pub(super) struct Steps<'a> {
    pub(super) request: &'a Request<'a>,
    /// Scaled.
    pub(super) ingresses: Vec<(NodeId, Classes)>,
    problems: Vec<Problem>,
    capacities: Vec<Option<f64>>,
    pub(super) eliminates: Vec<bool>,
    costs: Prices,
    scale: f64,
    pub(super) unfinished: Unfinished,
    pub(super) watch: &'a dyn Watch,
}

/// Routes that minimize the load without elimination (LP-SP), and that load.
pub(super) struct Plain {
    pub(super) routes: Routes,
    load: f64,
}

impl Steps<'_> {
    /// The problem of each ingress. None if stopped.
    fn split(&self) -> Result<Option<Vec<Problem>>, Error> {
        let split = |(ingress, classes): &(NodeId, Classes)| {
            if self.watch.stopped() {
                return Ok(None);
            }
            Problem::new(self.request.network, *ingress, &classes.list()).map(Some)
        };
        let split: Result<Vec<Option<Problem>>, Error> =
            self.ingresses.par_iter().map(split).collect();
        Ok(split?.into_iter().collect())
    }

    /// The same with nothing shared. It has few classes and takes no time, so it is not stopped.
    fn split_plain(&self) -> Result<Vec<Problem>, Error> {
        let split = |(ingress, classes): &(NodeId, Classes)| {
            let classes = heuristic::plain(classes).list();
            Problem::new(self.request.network, *ingress, &classes)
        };
        self.ingresses.par_iter().map(split).collect()
    }

    /// Shortest paths, or the routes in force if they are better: what there is before anything was
    /// computed.
    fn before_any(mut self) -> Result<(Outcome, Warm), Error> {
        if self.problems.is_empty() {
            self.problems = self.split_plain()?;
        }
        let paths = shortest(&self.problems, &self.costs.lengths());
        let mut routes = whole(&self.problems, &paths);
        let shortest = self.judge(&routes)?;
        let busiest = self.busiest(&shortest.loads).unwrap_or(0.0);
        let limit = match self.request.objective {
            Objective::FootprintWithin(LoadLimit::Given(limit)) => limit,
            Objective::FootprintWithin(LoadLimit::Shortest(times)) => times * busiest,
            // What is least is not known.
            Objective::FootprintWithin(LoadLimit::Least(_)) => 0.0,
            Objective::Footprint | Objective::Load => f64::INFINITY,
        };
        let value = |judged: &Judged| match self.request.objective {
            Objective::Load => self.busiest(&judged.loads).unwrap_or(0.0),
            _ => judged.footprint,
        };
        let rank = |judged: &Judged| (!self.keeps(judged, limit), value(judged));
        let mut judged = shortest.clone();
        if let Some(old) = self.judge_in_force().filter(|old| rank(&old.1) <= rank(&judged)) {
            (routes, judged) = old;
        }
        let value = value(&judged);
        self.unfinished.limit = !self.keeps(&judged, limit);
        self.unfinished.schemes |= self.request.compare;
        let of_one = |(problem, paths): (&Problem, &Vec<Paths>)| {
            OfOne::new(problem, vec![(1.0, paths.clone())], None)
        };
        let warm = Warm::alone(self.problems.iter().zip(&paths).map(of_one).collect());
        let outcome = Outcome {
            value,
            bound: 0.0,
            link_prices: vec![0.0; self.capacities.len()],
            schemes: self.own_schemes(&shortest, &judged),
            ingresses: self.of_ingresses(&shortest, &judged),
            repair: 0.0,
            scale: self.scale,
            routes,
            shortest,
            judged,
            capacities: self.capacities,
            stopped: true,
            unfinished: self.unfinished,
        };
        Ok((outcome, warm))
    }

    /// Whether no link is above a utilization, and all copies fit if they must.
    fn keeps(&self, judged: &Judged, limit: f64) -> bool {
        let below = |loads: &[f64], limit: f64| {
            self.busiest(loads).is_none_or(|busiest| busiest <= limit * (1.0 + 1e-6))
        };
        below(&judged.loads, limit) && (!self.request.safety_net || below(&judged.copies, 1.0))
    }

    pub(super) fn judge(&self, routes: &Routes) -> Result<Judged, Error> {
        let Self { request, ingresses, eliminates, .. } = self;
        judge::judge(request.network, request.cost, ingresses, routes, eliminates)
    }

    pub(super) fn busiest(&self, loads: &[f64]) -> Option<f64> {
        judge::busiest(loads, &self.capacities).map(|busiest| busiest.1)
    }

    fn program<'b>(
        &'b self,
        problems: &'b [Problem],
        eliminates: &'b [bool],
        safety_net: bool,
        gap: f64,
    ) -> Program<'b> {
        let Self { costs, capacities, .. } = self;
        Program { problems, costs, capacities, eliminates, safety_net, gap }
    }

    /// Routes for the least load without elimination; scales the traffic by it if that was asked
    /// for.
    fn plain(&mut self) -> Result<Plain, Error> {
        let problems = self.split_plain()?;
        // All the other figures are compared with this one.
        let gap = (self.request.gap / 10.0).max(1e-6);
        let all = vec![true; self.eliminates.len()];
        let program = self.program(&problems, &all, false, gap);
        let begin = shortest(&problems, &self.costs.lengths());
        let mut master = Master::new(&program, &[begin]);
        let found = master.generate(Goal::Load { enough: 0.0 }, None, self.watch)?;
        let mut slices = weights::slices(&problems, &found.weights);
        slices.sort_by_key(|slice| slice.ingress);
        // For shortest paths, should there be no time for others.
        self.problems = problems;
        let mut plain = Plain { routes: Routes { slices }, load: found.value };
        self.unfinished.scale = found.stopped && self.request.plain_load.is_some();
        self.unfinished.schemes = found.stopped && self.request.compare;
        if let Some(target) = self.request.plain_load {
            if plain.load == 0.0 {
                return Err(TopologyError::NoLoad.into());
            }
            self.scale = target / plain.load;
            plain.load = target;
            for (_, classes) in &mut self.ingresses {
                classes.scale(self.scale);
            }
        }
        Ok(plain)
    }

    /// The routes in force, as trees of each problem. None if some are for another network.
    fn in_force(&self) -> Option<Vec<Trees>> {
        let routes = self.request.against.as_ref()?;
        let of = |problem: &Problem| -> Option<Trees> {
            let slices = routes.of(problem.ingress);
            slices.map(|slice| Some((slice.weight, problem.paths(slice)?))).collect()
        };
        let trees: Option<Vec<_>> = self.problems.iter().map(of).collect();
        trees.filter(|trees| trees.iter().all(|trees| !trees.is_empty()))
    }

    /// The same, or else those of an earlier computation.
    fn trees_in_force(&self, warm: Option<&Warm>) -> Option<Vec<Trees>> {
        self.in_force()
            .or_else(|| Some(warm?.ingresses.iter().map(|of| of.trees.clone()).collect()))
    }

    /// The routes in force that are asked about, with what they are worth, if they can be judged.
    fn judge_in_force(&self) -> Option<(Routes, Judged)> {
        let mut routes = self.request.against.clone()?;
        routes
            .slices
            .retain(|slice| self.problems.iter().any(|problem| problem.ingress == slice.ingress));
        let judged = self.judge(&routes).ok()?;
        Some((routes, judged))
    }

    /// Every ingress on its own: capacities do not matter.
    fn alone(
        mut self,
        plain: Option<Plain>,
        warm: Option<&Warm>,
    ) -> Result<(Outcome, Warm), Error> {
        let shortest = shortest(&self.problems, &self.costs.lengths());
        let shortest = self.judge(&whole(&self.problems, &shortest))?;
        let in_force = self.trees_in_force(warm).map(|trees| {
            let heaviest =
                |trees: Trees| trees.into_iter().max_by(|one, other| one.0.total_cmp(&other.0));
            trees.into_iter().filter_map(heaviest).map(|tree| tree.1).collect::<Vec<_>>()
        });
        let solved = each(
            &self.problems,
            &self.costs,
            in_force.as_deref(),
            warm.map(|warm| warm.ingresses.iter().map(|of| of.divisions.clone()).collect()),
            self.request.gap,
            self.watch,
        );
        let warm = Warm::alone(
            self.problems
                .iter()
                .zip(&solved)
                .map(|(problem, of)| {
                    let divisions = of.iter().map(|block| block.division.clone()).collect();
                    OfOne::new(problem, vec![(1.0, paths(of))], Some(divisions))
                })
                .collect(),
        );
        let paths: Vec<Vec<Paths>> = solved.iter().map(|of| paths(of)).collect();
        let mut routes = whole(&self.problems, &paths);
        let mut judged = self.judge(&routes)?;
        debug_assert!(solved.iter().zip(&judged.footprints).all(|(of, judged)| {
            let value: f64 = of.iter().map(|block| block.value).sum();
            (value - judged).abs() <= 1e-9 * value
        }));
        let bounds: Vec<f64> =
            solved.iter().map(|of| of.iter().map(|block| block.bound).sum()).collect();
        let bound: f64 = bounds.iter().sum();
        if let Some(old) = self.judge_in_force()
            && gap(old.1.footprint, bound) <= self.request.gap
        {
            (routes, judged) = old;
        }
        let mut ingresses = self.of_ingresses(&shortest, &judged);
        for ((of, &bound), solved) in ingresses.iter_mut().zip(&bounds).zip(&solved) {
            of.bound = Some(bound.min(of.value));
            of.rounds = solved.iter().map(|block| block.rounds).max().unwrap_or(0);
        }
        let value = judged.footprint;
        let bound = bound.min(value);
        let schemes = self.schemes(plain.as_ref(), &shortest, &routes, &judged)?;
        let stopped = self.watch.stopped() && gap(value, bound) > self.request.gap;
        let outcome = Outcome {
            value,
            bound,
            link_prices: vec![0.0; self.capacities.len()],
            schemes,
            ingresses,
            repair: solved.iter().flatten().map(|block| block.repair).fold(0.0, f64::max),
            scale: self.scale,
            routes,
            judged,
            shortest,
            capacities: self.capacities,
            stopped: stopped || self.unfinished != Unfinished::default(),
            unfinished: self.unfinished,
        };
        Ok((outcome, warm))
    }

    /// All ingresses together, within capacities.
    // More than 100 lines: each step decides what the next one asks for, from the least load to the
    // chosen routes.
    fn together(
        mut self,
        plain: Option<Plain>,
        warm: Option<&Warm>,
    ) -> Result<(Outcome, Warm), Error> {
        let Request { objective, safety_net, slices: most, gap: wanted, .. } = *self.request;
        let watch = self.watch;
        let shortest_paths = shortest(&self.problems, &self.costs.lengths());
        let shortest = self.judge(&whole(&self.problems, &shortest_paths))?;
        let base = if safety_net {
            match self.net(&shortest_paths)? {
                None => return self.before_any(),
                found => found,
            }
        } else {
            None
        };
        let program = self.program(&self.problems, &self.eliminates, safety_net, wanted);
        let mut master = Master::new(&program, &[shortest_paths]);
        if let Some(warm) = warm {
            master.reuse(warm);
        } else {
            let rough = Effort { gap: 0.02, rounds: 10 };
            master.begin_alone(rough, watch);
        }
        if let Some(trees) = self.trees_in_force(warm) {
            master.begin_with(trees);
        }
        if let Some(warm) = warm {
            master.resume(warm);
        }
        let limit = match objective {
            Objective::FootprintWithin(LoadLimit::Given(limit)) => Some(limit),
            Objective::FootprintWithin(LoadLimit::Shortest(times)) => {
                Some(times * self.busiest(&shortest.loads).unwrap_or(0.0))
            }
            _ => None,
        };
        let enough = limit.unwrap_or(0.0) * (1.0 - 1e-6);
        // Footprint alone, with a safety net: links may be as full as they are.
        let least = match objective {
            Objective::Footprint => None,
            _ => Some(master.generate(Goal::Load { enough }, base.as_ref(), watch)?),
        };
        let limit = match (objective, &least) {
            (Objective::Load, _) => None,
            (Objective::FootprintWithin(LoadLimit::Least(times)), Some(least)) => {
                Some(least.value * times)
            }
            (Objective::Footprint, _) => Some(1e6),
            _ => limit,
        };
        // Routes within the limit were not found: an answer, unless there was no time for it.
        let above = matches!((limit, &least), (Some(limit), Some(least))
            if least.value > limit * (1.0 + 1e-9));
        if let (true, Some(limit), Some(least)) = (above, limit, &least)
            && (!least.stopped || least.bound > limit)
        {
            return Err(self.too_low(limit, least).into());
        }
        let least_known = match (objective, &least) {
            (Objective::FootprintWithin(LoadLimit::Least(times)), Some(least)) => {
                Some((times, least.bound))
            }
            _ => None,
        };
        let found = match (limit, least) {
            (None, Some(least)) => least,
            // Neither value nor bound is one of cost.
            (Some(_), Some(least)) if above => Weighed { bound: 0.0, ..least },
            (Some(limit), least) => {
                let start = least.map(|least| least.weights).or(base.clone());
                master.generate(Goal::Cost { limit }, start.as_ref(), watch)?
            }
            (None, None) => unreachable!("a footprint has a limit"),
        };
        let value = |judged: &Judged| match limit {
            None => self.busiest(&judged.loads).unwrap_or(0.0),
            Some(_) => judged.footprint,
        };
        let keeps = |judged: &Judged| self.keeps(judged, limit.unwrap_or(f64::INFINITY));
        let old = self.judge_in_force().filter(|(routes, judged)| {
            let few = self.problems.iter().all(|of| routes.of(of.ingress).count() <= most);
            few && keeps(judged) && gap(value(judged), found.bound) <= wanted
        });
        let mut chosen = None;
        let (routes, judged) = match old {
            Some(old) => old,
            None => {
                let bound = found.bound;
                let few = Few { program: &program, limit, bound, most, watch };
                let known = warm.and_then(|warm| few.again(master.chosen(warm)?));
                let weights = match known {
                    Some(known) => known,
                    None => few.choose(&master, &found)?,
                };
                let weights = chosen.insert(weights);
                let mut slices = weights::slices(&self.problems, weights);
                slices.sort_by_key(|slice| slice.ingress);
                let routes = Routes { slices };
                let judged = self.judge(&routes)?;
                (routes, judged)
            }
        };
        let value = value(&judged);
        let bound = found.bound.min(value);
        let misses = !keeps(&judged);
        let warm = master.keep(limit.is_none(), &found, chosen.as_ref());
        // Of a least load that was not found, the limit is not the one that was asked for.
        let inexact = least_known.is_some_and(|(times, bound)| {
            self.busiest(&judged.loads).unwrap_or(0.0) > times * bound * (1.0 + wanted)
        });
        self.unfinished.limit = watch.stopped() && (misses || inexact);
        let schemes = self.schemes(plain.as_ref(), &shortest, &routes, &judged)?;
        let cut = watch.stopped() && gap(value, bound) > wanted;
        let outcome = Outcome {
            value,
            bound,
            link_prices: found.prices.load,
            schemes,
            ingresses: self.of_ingresses(&shortest, &judged),
            repair: 0.0,
            scale: self.scale,
            routes,
            judged,
            shortest,
            capacities: self.capacities,
            stopped: found.stopped || cut || self.unfinished != Unfinished::default(),
            unfinished: self.unfinished,
        };
        Ok((outcome, warm))
    }

    /// Weights with which all copies fit the capacities. None if stopped before there were any.
    fn net(&self, shortest: &[Vec<Paths>]) -> Result<Option<Weights>, Error> {
        let none = vec![false; self.eliminates.len()];
        let program = self.program(&self.problems, &none, false, self.request.gap);
        let mut master = Master::new(&program, &[shortest.to_vec()]);
        // Room for the mixtures of later steps.
        let enough = 0.99;
        let found = master.generate(Goal::Load { enough }, None, self.watch)?;
        if found.value > 1.0 {
            let (least, links) = (found.bound, self.proof(&found.prices));
            if found.stopped && least <= 1.0 {
                return Ok(None);
            }
            return Err(if least > 1.0 {
                RouteError::SafetyNet { least, links }.into()
            } else {
                RouteError::NotFound { limit: 1.0, found: found.value, least }.into()
            });
        }
        // The same trees, with what links carry after elimination.
        let program = self.program(&self.problems, &self.eliminates, true, self.request.gap);
        Ok(Some(Master::new(&program, &[]).adopt(&found.weights)))
    }

    fn too_low(&self, limit: f64, least: &Weighed) -> RouteError {
        if least.bound > limit {
            let links = self.proof(&least.prices);
            return RouteError::LoadTooLow { limit, least: least.bound, links };
        }
        RouteError::NotFound { limit, found: least.value, least: least.bound }
    }

    /// Links with more than 1 % of a proof, largest first.
    fn proof(&self, prices: &LinkPrices) -> Vec<(String, f64)> {
        let mut links: Vec<(LinkId, f64)> = LinkId::first(self.capacities.len())
            .filter_map(|link| Some((link, prices.load[link] * self.capacities[link]?)))
            .filter(|&(_, share)| share > 0.01)
            .collect();
        links.sort_by(|one, other| other.1.total_cmp(&one.1).then(one.0.cmp(&other.0)));
        let name = |(link, share)| (quote(&self.request.network.link_name(link)), share);
        links.into_iter().map(name).collect()
    }

    fn of_ingresses(&self, shortest: &Judged, judged: &Judged) -> Vec<OfIngress> {
        (0..self.problems.len())
            .map(|at| OfIngress {
                ingress: self.problems[at].ingress,
                plain: shortest.plain[at],
                shortest: shortest.footprints[at],
                value: judged.footprints[at],
                bound: None,
                rounds: 0,
            })
            .collect()
    }
}

/// What a byte costs on each link: once where the ends eliminate, each copy elsewhere.
pub(super) fn costs(request: &Request<'_>, eliminates: &[bool]) -> Prices {
    let mut prices = Prices::default();
    for (link, number) in request.network.links.iter().zip(LinkId::all()) {
        let cost = match request.cost {
            Cost::Latency => link.latency,
            Cost::Hops => 1.0,
        };
        let eliminates = eliminates[number];
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
    if !(request.interval.0 > 0.0 && request.interval.0.is_finite()) {
        return range("interval in seconds", request.interval.0, "above 0");
    }
    if request.slices == 0 {
        return range("number of slices", 0.0, "1 or more");
    }
    if let Some(capacity) = request.capacity.filter(|rate| !(rate.0 > 0.0 && rate.0.is_finite())) {
        return range("capacity", capacity.0, "above 0");
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
    for (link, number) in network.links.iter().zip(LinkId::all()) {
        if let Some(capacity) =
            link.capacity.map(|rate| rate.0).filter(|rate| !(*rate > 0.0 && rate.is_finite()))
        {
            let link = quote(&network.link_name(number));
            return Err(TopologyError::Capacity { link, capacity }.into());
        }
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
