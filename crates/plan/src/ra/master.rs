//! Routes of all ingresses together, where links have capacities: column generation.
//!
//! A column is a tree of an ingress. The master program weighs trees; the prices of its rows are
//! prices of links; at prices, ingresses have nothing to do with each other, and each one's best
//! tree is a new column, its bound a part of the whole bound (Dantzig and Wolfe; prices smoothed as
//! in Wentges, *Weighted Dantzig-Wolfe decomposition*, ITOR 4(2), 1997). The master is solved
//! loosely while the gap is large: central prices need fewer rounds (Gondzio, González-Brevis and
//! Munari, *New developments in the primal-dual column generation technique*, EJOR 224(1), 2013).
//!
//! Longer than 600 lines: its rounds, their prices and what bounds them share one state, which
//! would be handed to and fro.

use std::sync::Arc;

use rayon::prelude::*;

use super::{
    bound::{Division, Effort, Solved},
    each::{paths, solve},
    gap,
    program::Program,
    reduce::Paths,
    tree::Prices,
    weights::{Column, LinkPrices, Mixture, Weights},
};
use crate::{
    Error, Watch,
    lp::packing::{Groups, Packing, solve as solve_packing},
};

/// What is to be minimized.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Goal {
    /// The utilization of the busiest link. It need not be below this.
    Load { enough: f64 },
    /// The cost, with utilizations up to a limit.
    Cost { limit: f64 },
}

/// Trees with weights, and what is proven about them.
pub(crate) struct Weighed {
    pub weights: Weights,
    pub value: f64,
    pub bound: f64,
    /// Prices that prove the bound.
    pub prices: LinkPrices,
    pub stopped: bool,
}

/// Rounds after which it is given up.
const ROUNDS: u32 = 150;
/// Rounds without weight after which a column is dropped.
const IDLE: u32 = 8;
/// Bytes for the divisions that are kept from round to round.
const MEMORY: usize = 300_000_000;
/// Weight that counts as none.
const NOTHING: f64 = 1e-7;

/// Columns, and what is kept between rounds.
pub(crate) struct Master<'a> {
    pub(super) program: &'a Program<'a>,
    /// With rounds since it had weight; the first is the one that takes what others leave.
    pub(super) columns: Vec<Vec<(Arc<Column>, u32)>>,
    /// Whether an ingress has these trees only, and gets no new ones. A bound is then one for that.
    pub(super) frozen: Vec<bool>,
    pub(super) divisions: Vec<Option<Vec<Division>>>,
    /// Weights and prices to begin with; the weights if they keep the limits, the prices if they are
    /// of the same goal (of load, or of cost).
    pub(super) incumbent: Option<Weights>,
    pub(super) prices: Option<(bool, LinkPrices)>,
}

impl<'a> Master<'a> {
    /// Begins with these trees of each ingress, at least one.
    pub(crate) fn new(program: &'a Program<'a>, begin: &[Vec<Vec<Paths>>]) -> Self {
        let count = program.problems.len();
        let mut master = Self {
            program,
            columns: vec![Vec::new(); count],
            frozen: vec![false; count],
            divisions: vec![None; count],
            incumbent: None,
            prices: None,
        };
        for trees in begin {
            for (ingress, paths) in trees.iter().enumerate() {
                master.add(ingress, paths.clone());
            }
        }
        master
    }

    /// Adds the best tree of each ingress alone: near what is wanted where links have room.
    pub(crate) fn begin_alone(&mut self, effort: Effort, watch: &dyn Watch) {
        let Program { problems, costs, .. } = self.program;
        let one = |problem| {
            (!watch.stopped()).then(|| paths(&solve(problem, costs, None, None, effort, watch)))
        };
        let free: Vec<Option<Vec<Paths>>> = problems.par_iter().map(one).collect();
        for (ingress, paths) in free.into_iter().enumerate() {
            if let Some(paths) = paths {
                self.add(ingress, paths);
            }
        }
    }

    /// With columns of an earlier solution only.
    pub(crate) fn of(program: &'a Program<'a>, weights: &Weights) -> Self {
        let columns = weights.iter().map(|of| {
            let mut of: Vec<_> = of.iter().collect();
            of.sort_by(|one, other| other.0.total_cmp(&one.0));
            of.into_iter().map(|(_, column)| (Arc::clone(column), 0)).collect()
        });
        Self {
            program,
            columns: columns.collect(),
            frozen: vec![false; weights.len()],
            divisions: vec![None; weights.len()],
            incumbent: None,
            prices: None,
        }
    }

    /// With the columns of another one, those of an ingress that have most weight first.
    pub(super) fn again(&self, weights: &Weights) -> Self {
        let mut again = Self::of(self.program, weights);
        for (of, known) in again.columns.iter_mut().zip(&self.columns) {
            for (column, _) in known {
                if of.iter().all(|(other, _)| other.paths != column.paths) {
                    of.push((Arc::clone(column), 0));
                }
            }
        }
        again
    }

    /// The same trees of another program over the same problems.
    pub(crate) fn adopt(&mut self, weights: &Weights) -> Weights {
        let of = |(ingress, list): (usize, &Mixture)| {
            let each = list.iter().map(|(weight, column)| {
                self.add(ingress, column.paths.clone());
                let mut known = self.columns[ingress].iter();
                let same = known.find(|(other, _)| other.paths == column.paths);
                (*weight, same.map_or_else(|| Arc::clone(column), |(same, _)| Arc::clone(same)))
            });
            each.collect()
        };
        weights.iter().enumerate().map(of).collect()
    }

    /// The same with a column of this program.
    pub(super) fn take(&mut self, ingress: usize, column: &Arc<Column>) {
        if self.columns[ingress].iter().all(|(other, _)| other.paths != column.paths) {
            self.columns[ingress].push((Arc::clone(column), 0));
        }
    }

    /// Whether the tree is a new one.
    pub(super) fn add(&mut self, ingress: usize, paths: Vec<Paths>) -> bool {
        if self.columns[ingress].iter().any(|(column, _)| column.paths == paths) {
            return false;
        }
        let column = self.program.column(ingress, paths);
        self.columns[ingress].push((Arc::new(column), 0));
        true
    }

    /// The first tree of each ingress.
    pub(super) fn first(&self) -> Weights {
        self.columns.iter().map(|of| vec![(1.0, Arc::clone(&of[0].0))]).collect()
    }

    /// Generates columns until the gap is reached. `base` are weights that keep the limit and the
    /// safety net, if there are such limits.
    pub(crate) fn generate(
        &mut self,
        goal: Goal,
        base: Option<&Weights>,
        watch: &dyn Watch,
    ) -> Result<Weighed, Error> {
        let links = self.program.capacities.len();
        let what = match goal {
            Goal::Load { .. } => "rounds for the least load",
            Goal::Cost { .. } => "rounds for the least footprint",
        };
        let mut weights = base.cloned().unwrap_or_else(|| self.first());
        let mut value = self.value(goal, &weights);
        if let Some(incumbent) = &self.incumbent {
            let worth = self.value(goal, incumbent);
            if worth < value {
                (value, weights) = (worth, incumbent.clone());
            }
        }
        let mut bound = 0.0;
        let of_goal = matches!(goal, Goal::Load { .. });
        let resumed = self.prices.take_if(|(of_load, _)| *of_load == of_goal);
        let mut best = match (goal, resumed) {
            (_, Some((_, prices))) => prices,
            // Not the master's: its first prices lie on a single link and prove nothing.
            (Goal::Load { .. }, None) => self.even(),
            (Goal::Cost { .. }, None) => {
                LinkPrices { load: vec![0.0; links], net: vec![0.0; links] }
            }
        };
        let mut newest: Option<LinkPrices> = None;
        let mut effort = 1;
        let mut stopped = false;
        for round in 0..ROUNDS {
            watch.progress(what, round.into(), 0);
            let mut added = false;
            for part in [0.5, 1.0] {
                let prices = match &newest {
                    Some(newest) => best.toward(newest, part),
                    None => best.clone(),
                };
                let reached = gap(value, bound);
                let (proven, any) = self.price(goal, &prices, reached, effort, watch);
                if proven > bound {
                    bound = proven;
                    best = prices;
                }
                added |= any;
                if any || newest.is_none() || watch.stopped() {
                    break;
                }
            }
            if round == 0 && gap(value, bound) <= self.program.gap {
                // What was known will do.
                break;
            }
            let tolerance = (gap(value, bound) / 10.0).clamp(1e-7, 1e-2);
            match self.weigh(goal, tolerance, base, bound, watch) {
                Ok((found, prices)) => {
                    let worth = self.value(goal, &found);
                    if worth < value {
                        (value, weights) = (worth, found);
                    }
                    newest = Some(prices);
                }
                Err(Error::Stopped) => {}
                // Too near to singular: what there is, with its gap.
                Err(Error::Solver(_)) if value.is_finite() => break,
                Err(error) => return Err(error),
            }
            let done = gap(value, bound) <= self.program.gap
                || matches!(goal, Goal::Load { enough } if value <= enough);
            if watch.stopped() {
                stopped = !done;
                break;
            }
            if done {
                break;
            }
            if !added {
                // Neither better trees nor a better bound without more effort.
                effort *= 3;
                if effort > 30 {
                    break;
                }
            }
            for (of, _) in self.columns.iter_mut().zip(&self.frozen).filter(|(_, frozen)| !**frozen)
            {
                let mut at = 0;
                of.retain(|(_, idle)| {
                    at += 1;
                    at == 1 || *idle < IDLE
                });
            }
        }
        Ok(Weighed { weights, value, bound: bound.min(value), prices: best, stopped })
    }

    /// The best weights of the columns there are, without new ones.
    pub(crate) fn settle(
        &mut self,
        goal: Goal,
        base: Option<&Weights>,
        watch: &dyn Watch,
    ) -> Result<Weights, Error> {
        let first = base.cloned().unwrap_or_else(|| self.first());
        let (found, _) = self.weigh(goal, 1e-7, base, 0.0, watch)?;
        Ok(if self.value(goal, &found) <= self.value(goal, &first) { found } else { first })
    }

    /// The same price for each unit of capacity.
    fn even(&self) -> LinkPrices {
        let (loads, _) = self.program.sums(&self.first());
        let links = loads.len();
        let mut load = vec![0.0; links];
        let used: Vec<usize> = (0..links)
            .filter(|&link| loads[link] > 0.0 && self.program.capacities[link].is_some())
            .collect();
        for &link in &used {
            let capacity = self.program.capacities[link].unwrap_or(f64::INFINITY);
            load[link] = 1.0 / (used.len() as f64 * capacity);
        }
        LinkPrices { load, net: vec![0.0; links] }
    }

    /// What weights are worth; infinite if they break a limit.
    fn value(&self, goal: Goal, weights: &Weights) -> f64 {
        const HAIR: f64 = 1.0 + 1e-9;
        let (load, net) = self.program.utilization(weights);
        if self.program.safety_net && net > HAIR {
            return f64::INFINITY;
        }
        match goal {
            Goal::Load { .. } => load,
            Goal::Cost { limit } if load > limit * HAIR => f64::INFINITY,
            Goal::Cost { .. } => {
                weights.iter().flatten().map(|(weight, column)| weight * column.cost).sum()
            }
        }
    }

    /// Prices of bytes with those of links, and what the limits take off a bound.
    pub(super) fn priced(&self, goal: Goal, prices: &LinkPrices) -> (Prices, f64) {
        let Program { costs, capacities, eliminates, .. } = *self.program;
        let links = capacities.len();
        let mut whole = match goal {
            Goal::Load { .. } => Prices { once: vec![0.0; links], copy: vec![0.0; links] },
            Goal::Cost { .. } => costs.clone(),
        };
        let mut constant = 0.0;
        for link in 0..links {
            let price = if eliminates[link] { &mut whole.once } else { &mut whole.copy };
            price[link] += prices.load[link];
            whole.copy[link] += prices.net[link];
            if let Some(capacity) = capacities[link] {
                constant += prices.net[link] * capacity;
                if let Goal::Cost { limit } = goal {
                    constant += prices.load[link] * limit * capacity;
                }
            }
        }
        (whole, constant)
    }

    /// The whole bound at prices, and whether there is a new tree. No bound (negative infinity) if
    /// stopped before each ingress had its part of it.
    pub(super) fn price(
        &mut self,
        goal: Goal,
        prices: &LinkPrices,
        reached: f64,
        effort: u32,
        watch: &dyn Watch,
    ) -> (f64, bool) {
        let problems = self.program.problems;
        let (whole, constant) = self.priced(goal, prices);
        let cost_at = |column: &Column| -> f64 {
            prices.of(column) + if matches!(goal, Goal::Cost { .. }) { column.cost } else { 0.0 }
        };
        let effort = Effort {
            gap: (reached / 10.0).clamp(self.program.gap / 5.0, 0.02),
            rounds: 40 * effort,
        };
        let divisions = std::mem::take(&mut self.divisions);
        let solved: Vec<Option<(Vec<Solved>, f64)>> = problems
            .par_iter()
            .zip(&self.columns)
            .zip(&self.frozen)
            .zip(divisions)
            .map(|(((problem, columns), frozen), divisions)| {
                if watch.stopped() {
                    return None;
                }
                let known = columns
                    .iter()
                    .map(|(column, _)| (cost_at(column), column))
                    .reduce(|best, other| if other.0 < best.0 { other } else { best });
                if let Some((known, _)) = known.filter(|_| *frozen) {
                    return Some((Vec::new(), known));
                }
                let begin = known.map(|known| &known.1.paths[..]);
                let solved = solve(problem, &whole, begin, divisions, effort, watch);
                Some((solved, known.map_or(f64::INFINITY, |known| known.0)))
            })
            .collect();
        let mut bound = -constant;
        let mut added = false;
        let mut memory = 0;
        self.divisions = vec![None; problems.len()];
        for (ingress, solved) in solved.into_iter().enumerate() {
            let Some((solved, known)) = solved else {
                bound = f64::NEG_INFINITY;
                continue;
            };
            if self.frozen[ingress] {
                bound += known;
                continue;
            }
            bound += solved.iter().map(|block| block.bound).sum::<f64>();
            let value: f64 = solved.iter().map(|block| block.value).sum();
            if value < known * (1.0 - 1e-9) && !watch.stopped() {
                added |= self.add(ingress, paths(&solved));
            }
            memory += solved.iter().map(|block| block.division.size()).sum::<usize>();
            if memory <= MEMORY {
                self.divisions[ingress] =
                    Some(solved.into_iter().map(|block| block.division).collect());
            }
        }
        (bound, added)
    }

    /// Most that each link may carry with these columns, as eliminated and as copies.
    fn most(&self) -> (Vec<f64>, Vec<f64>) {
        let links = self.program.capacities.len();
        let (mut most, mut most_net) = (vec![0.0; links], vec![0.0; links]);
        let (mut here, mut here_net) = (vec![0.0_f64; links], vec![0.0_f64; links]);
        for of in &self.columns {
            let entries = || of.iter().flat_map(|(column, _)| &column.loads);
            for &(link, load, copies) in entries() {
                here[link] = here[link].max(load);
                here_net[link] = here_net[link].max(copies);
            }
            for &(link, ..) in entries() {
                most[link] += std::mem::take(&mut here[link]);
                most_net[link] += std::mem::take(&mut here_net[link]);
            }
        }
        (most, most_net)
    }

    /// Weighs the columns; prices of links.
    pub(super) fn weigh(
        &mut self,
        goal: Goal,
        tolerance: f64,
        base: Option<&Weights>,
        bound: f64,
        watch: &dyn Watch,
    ) -> Result<(Weights, LinkPrices), Error> {
        watch.proceed()?;
        let Program { capacities, safety_net, .. } = *self.program;
        let links = capacities.len();
        let first = self.first();
        let (loads, nets) = self.program.sums(&first);
        let (most, most_net) = self.most();
        let highest = match goal {
            Goal::Load { .. } => self.program.utilization(&first).0,
            Goal::Cost { limit } => limit,
        };
        let least = match goal {
            Goal::Load { .. } => bound * (1.0 - 1e-9),
            Goal::Cost { limit } => limit,
        };
        let mut rows: Vec<Row> = Vec::new();
        let mut limits = Vec::new();
        for link in 0..links {
            let Some(capacity) = capacities[link] else { continue };
            if most[link] > least * capacity {
                let scale = highest * capacity;
                rows.push((link, false, scale));
                limits.push(1.0 - loads[link] / scale);
            }
        }
        for link in 0..links {
            let Some(capacity) = capacities[link].filter(|_| safety_net) else { continue };
            if most_net[link] > capacity {
                rows.push((link, true, capacity));
                limits.push(1.0 - nets[link] / capacity);
            }
        }
        let mut row_of = [vec![u32::MAX; links], vec![u32::MAX; links]];
        for (&(link, net, _), row) in rows.iter().zip(0..) {
            row_of[usize::from(net)][link] = row;
        }
        let cost: f64 = first.iter().flatten().map(|(_, column)| column.cost).sum();
        let saves = |of: &[(Arc<Column>, u32)], column: &Column| of[0].0.cost - column.cost;
        let unit = match goal {
            Goal::Load { .. } => 1.0,
            Goal::Cost { .. } => {
                let all = self.columns.iter();
                let all = all.flat_map(|of| of.iter().map(|(column, _)| saves(of, column).abs()));
                all.fold(cost * 1e-9, f64::max)
            }
        };
        let mut groups = Groups::new();
        // Ingress of each group.
        let mut ingresses = Vec::new();
        let mut dense = [vec![0.0; links], vec![0.0; links]];
        for (ingress, of) in self.columns.iter().enumerate().filter(|(_, of)| of.len() > 1) {
            for (column, _) in &of[1..] {
                let entries = more(column, &of[0].0, &rows, &row_of, &mut dense);
                let weight = match goal {
                    Goal::Load { .. } => 0.0,
                    Goal::Cost { .. } => saves(of, column) / unit,
                };
                groups.column(0, weight, entries.into_iter());
            }
            groups.close();
            ingresses.push(ingress);
        }
        if let Goal::Load { .. } = goal {
            let of_load = (0..rows.len() as u32).filter(|&row| !rows[row as usize].1);
            groups.column(0, 1.0, of_load.map(|row| (row, 1.0)));
            groups.close();
        }
        let mut prices = LinkPrices { load: vec![0.0; links], net: vec![0.0; links] };
        let mut weights = first;
        if groups.column_count() == 0 {
            return Ok((weights, prices));
        }
        let offset = match goal {
            Goal::Load { .. } => -1.0,
            Goal::Cost { .. } => -cost / unit,
        };
        let columns: Vec<usize> = groups.columns.iter().map(|&at| at as usize).collect();
        let solved = solve_packing(&Packing { limits, groups }, offset, tolerance, None, watch)?;
        for (group, &ingress) in ingresses.iter().enumerate() {
            let x = &solved.x[columns[group]..columns[group + 1]];
            weights[ingress] = mixture(&mut self.columns[ingress], x);
        }
        prices.take(goal, &rows, &solved.prices, (highest, unit));
        Ok((self.repair(goal, weights, base), prices))
    }

    /// Mixes weights that break a limit by a hair with weights that keep it.
    fn repair(&self, goal: Goal, weights: Weights, base: Option<&Weights>) -> Weights {
        let Some(base) = base else { return weights };
        let (loads, nets) = self.program.sums(&weights);
        let (base_loads, base_nets) = self.program.sums(base);
        let mut part: f64 = 0.0;
        let mut need = |now: f64, then: f64, limit: f64| {
            if now > limit {
                part = part.max(if then < now { (now - limit) / (now - then) } else { 1.0 });
            }
        };
        for (link, capacity) in self.program.capacities.iter().enumerate() {
            let Some(capacity) = *capacity else { continue };
            if let Goal::Cost { limit } = goal {
                need(loads[link], base_loads[link], limit * capacity);
            }
            if self.program.safety_net {
                need(nets[link], base_nets[link], capacity);
            }
        }
        if part == 0.0 {
            return weights;
        }
        let part = (part * (1.0 + 1e-9)).min(1.0);
        let mix = |(weights, base): (Mixture, &Mixture)| {
            let mut list: Mixture = weights
                .into_iter()
                .map(|(weight, column)| (weight * (1.0 - part), column))
                .collect();
            for (weight, column) in base {
                let by = weight * part;
                match list.iter_mut().find(|(_, other)| other.paths == column.paths) {
                    Some((weight, _)) => *weight += by,
                    None => list.push((by, Arc::clone(column))),
                }
            }
            list.retain(|(weight, _)| *weight > 0.0);
            list
        };
        weights.into_iter().zip(base).map(mix).collect()
    }
}

/// A row of what is weighed: link, whether of all copies, and what a byte is divided by.
type Row = (usize, bool, f64);

impl LinkPrices {
    /// Takes the prices of rows, of which those of load divide by `highest`, and cost is in units of
    /// `unit`.
    fn take(&mut self, goal: Goal, rows: &[Row], solved: &[f64], (highest, unit): (f64, f64)) {
        let of_load = rows.iter().zip(solved).filter(|(row, _)| !row.1);
        let whole = match goal {
            Goal::Load { .. } => 1.0 / of_load.map(|(_, price)| price).sum::<f64>(),
            Goal::Cost { .. } => unit,
        };
        for (&(link, net, scale), price) in rows.iter().zip(solved) {
            let of = if net { &mut self.net } else { &mut self.load };
            // Of load, prices of full capacities add up to 1, in units of `highest` now.
            let scale = match goal {
                Goal::Load { .. } => scale / highest,
                Goal::Cost { .. } => scale,
            };
            of[link] = price.max(0.0) * whole / scale;
        }
    }
}

/// What a column carries more than the first, by rows. `dense` is scratch, all zeros.
fn more(
    column: &Column,
    first: &Column,
    rows: &[Row],
    row_of: &[Vec<u32>; 2],
    dense: &mut [Vec<f64>; 2],
) -> Vec<(u32, f64)> {
    let mut touched = Vec::new();
    for (sign, column) in [(-1.0, first), (1.0, column)] {
        for &(link, load, copies) in &column.loads {
            dense[0][link] += sign * load;
            dense[1][link] += sign * copies;
            touched.push(link);
        }
    }
    touched.sort_unstable();
    touched.dedup();
    let mut entries = Vec::new();
    for (row_of, dense) in row_of.iter().zip(dense) {
        for &link in &touched {
            let by = std::mem::take(&mut dense[link]);
            let row = row_of[link];
            if row != u32::MAX && by != 0.0 {
                entries.push((row, by / rows[row as usize].2));
            }
        }
    }
    entries
}

/// The columns of an ingress, weighed: the first has what the others leave. Notes which are idle.
fn mixture(of: &mut [(Arc<Column>, u32)], x: &[f64]) -> Mixture {
    let kept = |x: f64| if x > NOTHING { x.min(1.0) } else { 0.0 };
    let sum: f64 = x.iter().map(|&x| kept(x)).sum();
    let whole = sum.max(1.0);
    let mut list: Mixture = Vec::new();
    if 1.0 - sum > NOTHING {
        list.push((1.0 - sum, Arc::clone(&of[0].0)));
    }
    for (&x, (column, idle)) in x.iter().zip(&mut of[1..]) {
        let x = kept(x) / whole;
        *idle = if x > 1e-4 { 0 } else { *idle + 1 };
        if x > 0.0 {
            list.push((x, Arc::clone(column)));
        }
    }
    let sum: f64 = list.iter().map(|(weight, _)| weight).sum();
    list.iter_mut().for_each(|(weight, _)| *weight /= sum);
    list
}
