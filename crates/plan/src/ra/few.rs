//! Weights of few trees per ingress.
//!
//! At a vertex of the master's program, trees with weight are no more than ingresses and binding
//! links together. So most ingresses need one tree or two, and those whose traffic has to spread
//! need many. Only those lose trees, one at a time, the one whose loss costs least when all weigh
//! theirs again; then one tree takes the place of another as long as that helps. Trees that could
//! help are those that cost less at the prices of the links than the ones in use, as in the simplex
//! method: known ones, and the best one at these prices.

use std::sync::Arc;

use super::{
    bound::Effort,
    each::{paths, solve},
    gap,
    master::{Goal, Master, Weighed},
    program::Program,
    weights::{self, Column, LinkPrices, Mixture, Weights},
};
use crate::{Error, Watch, error::RouteError};

/// Weight below which a tree is not missed.
const LIGHT: f64 = 1e-3;
/// Relative progress that counts.
const PROGRESS: f64 = 1e-4;
/// How far a limit may be exceeded: by rounding.
const HAIR: f64 = 1e-7;
/// Most times that all of these ingresses choose again, and most exchanges of each.
const ROUNDS: usize = 8;
const EXCHANGES: usize = 20;
/// Trees that are tried in the place of others: the cheapest.
const CANDIDATES: usize = 12;
/// Trees of each other ingress that may change their weights while one chooses: the heaviest.
const OTHERS: usize = 8;

/// How to choose.
pub(super) struct Few<'a, 'p> {
    pub program: &'a Program<'p>,
    /// Highest utilization; none if that is what is minimized.
    pub limit: Option<f64>,
    /// No routes have a lower value, in any number of trees.
    pub bound: f64,
    /// Most trees per ingress.
    pub most: usize,
    pub watch: &'a dyn Watch,
}

/// How far limits are exceeded, and then the value.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Score {
    above: f64,
    value: f64,
}

impl Score {
    /// Whether it is better by what counts.
    fn beats(self, other: Self) -> bool {
        if self.above.max(other.above) > HAIR {
            self.above < other.above * (1.0 - PROGRESS)
        } else {
            self.value < other.value * (1.0 - PROGRESS)
        }
    }
}

/// The best weights of some columns, and what links cost then.
struct Tried {
    score: Score,
    weights: Weights,
    goal: Goal,
    prices: LinkPrices,
}

impl Tried {
    fn price(&self, column: &Column) -> f64 {
        let cost = if matches!(self.goal, Goal::Cost { .. }) { column.cost } else { 0.0 };
        cost + self.prices.of(column)
    }
}

/// Trees that were ever found for an ingress.
type Pool = Vec<Arc<Column>>;

impl Few<'_, '_> {
    /// Weights of at most `most` trees of each ingress, of those that the master has and others.
    ///
    /// Once stopped, the best so far, which may be above the limit.
    ///
    /// # Errors
    /// So few trees do not keep a limit.
    pub(super) fn choose(&self, master: &Master<'_>, found: &Weighed) -> Result<Weights, Error> {
        let shortest = master.first();
        let mut master = master.again(&found.weights);
        let pool = |of: &Vec<(Arc<Column>, u32)>| -> Pool {
            of.iter().map(|(column, _)| Arc::clone(column)).collect()
        };
        let mut pools: Vec<Pool> = master.columns.iter().map(pool).collect();
        let mut weights = self.settle(&mut master, &found.weights);
        let mut chosen = 0;
        loop {
            let over = self.over(&weights);
            if over.is_empty() || self.watch.stopped() {
                break;
            }
            // A part of them at a time: what the others need depends on these.
            for &at in &over[..over.len().div_ceil(3)] {
                self.watch.progress("ingresses with few trees", chosen, 0);
                chosen += 1;
                self.choose_of(at, &mut master, &weights, &mut pools[at]);
            }
            weights = self.settle(&mut master, &weights);
        }
        let mut score = self.score(&weights);
        for _ in 0..ROUNDS {
            if chosen == 0 || self.watch.stopped() || self.is_enough(score) {
                break;
            }
            self.grow(&mut master);
            weights = self.settle(&mut master, &weights);
            let frozen = master.frozen.clone();
            for (at, pool) in pools.iter_mut().enumerate().filter(|(at, _)| frozen[*at]) {
                if self.watch.stopped() || self.is_enough(self.score(&weights)) {
                    break;
                }
                self.choose_of(at, &mut master, &weights, pool);
            }
            let again = self.settle(&mut master, &weights);
            let better = self.score(&again);
            weights = again;
            if !better.beats(score) {
                break;
            }
            score = better;
        }
        weights = self.without_light(weights);
        if self.score(&shortest).beats(self.score(&weights)) {
            weights = shortest;
        }
        if !self.watch.stopped() {
            self.check(&weights)?;
        }
        Ok(weights)
    }

    /// Trees that were chosen earlier, if they still are good enough.
    pub(super) fn again(&self, chosen: Weights) -> Option<Weights> {
        let mut master = Master::of(self.program, &chosen);
        let weights = self.settle(&mut master, &chosen);
        let few = weights.iter().all(|list| list.len() <= self.most);
        (few && self.is_enough(self.score(&weights))).then_some(weights)
    }

    /// Ingresses with too many trees, those that put most on a link first.
    fn over(&self, weights: &Weights) -> Vec<usize> {
        let largest = |list: &Mixture| {
            let loads = list.iter().flat_map(|(_, column)| &column.loads);
            loads.map(|load| load.1).fold(0.0, f64::max)
        };
        let heavy = |list: &Mixture| list.iter().filter(|(weight, _)| *weight > LIGHT).count();
        let all = weights.iter().enumerate();
        let mut over: Vec<(f64, usize)> = all
            .filter(|(_, list)| heavy(list) > self.most)
            .map(|(at, list)| (largest(list), at))
            .collect();
        over.sort_by(|one, other| other.0.total_cmp(&one.0).then(one.1.cmp(&other.1)));
        over.into_iter().map(|over| over.1).collect()
    }

    /// Chooses the trees of an ingress, and freezes it in the master.
    fn choose_of(&self, at: usize, master: &mut Master<'_>, weights: &Weights, pool: &mut Pool) {
        let mut trial = Master::of(self.program, weights);
        trial.columns.iter_mut().for_each(|of| of.truncate(OTHERS));
        let own = if master.frozen[at] {
            master.columns[at].iter().map(|(column, _)| Arc::clone(column)).collect()
        } else {
            let heavy = weights[at].iter().filter(|(weight, _)| *weight > LIGHT);
            heavy.map(|(_, column)| Arc::clone(column)).collect()
        };
        let mut best = self.weigh(&mut trial, at, own);
        loop {
            // At each number of trees: what is lost with one tree is found again by others.
            for _ in 0..EXCHANGES {
                if self.watch.stopped() || self.is_enough(best.1.score) {
                    break;
                }
                match self.exchange(&mut trial, at, &best, pool) {
                    Some(better) => best = better,
                    None => break,
                }
            }
            if best.0.len() <= self.most || self.watch.stopped() {
                break;
            }
            let options = (0..best.0.len()).map(|place| {
                let mut fewer = best.0.clone();
                fewer.remove(place);
                fewer
            });
            let tried = options.map(|fewer| self.weigh(&mut trial, at, fewer));
            best = tried
                .reduce(|best, other| if other.1.score.beats(best.1.score) { other } else { best })
                .expect("there is a tree");
        }
        let mut chosen = best.0;
        chosen.truncate(self.most);
        master.columns[at] = chosen.into_iter().map(|column| (column, 0)).collect();
        master.frozen[at] = true;
    }

    /// A tree that takes the place of another, if that helps.
    fn exchange(
        &self,
        trial: &mut Master<'_>,
        at: usize,
        best: &(Pool, Tried),
        pool: &mut Pool,
    ) -> Option<(Pool, Tried)> {
        let (own, now) = best;
        let whole = trial.priced(now.goal, &now.prices).0;
        let effort = Effort { gap: PROGRESS, rounds: 1 };
        let solved = solve(&self.program.problems[at], &whole, None, None, effort, self.watch);
        let paths = paths(&solved);
        if pool.iter().all(|column| column.paths != paths) {
            pool.push(Arc::new(self.program.column(at, paths)));
        }
        let in_use = own.iter().map(|column| now.price(column)).fold(f64::INFINITY, f64::min);
        let mut candidates: Vec<(f64, &Arc<Column>)> =
            pool.iter().map(|column| (now.price(column), column)).collect();
        candidates.retain(|(price, _)| *price < in_use * (1.0 - PROGRESS));
        candidates.sort_by(|one, other| one.0.total_cmp(&other.0));
        for (_, candidate) in candidates.into_iter().take(CANDIDATES) {
            let tried = (0..own.len()).map(|place| {
                let mut other = own.clone();
                other[place] = Arc::clone(candidate);
                self.weigh(trial, at, other)
            });
            let better = tried.filter(|tried| tried.1.score.beats(now.score));
            let found = better
                .reduce(|best, other| if other.1.score.beats(best.1.score) { other } else { best });
            if found.is_some() {
                return found;
            }
        }
        None
    }

    /// The best weights if an ingress has these trees.
    fn weigh(&self, trial: &mut Master<'_>, at: usize, columns: Pool) -> (Pool, Tried) {
        let least = self.limit.unwrap_or(self.bound);
        let load = Goal::Load { enough: 0.0 };
        trial.columns[at] = columns.iter().map(|column| (Arc::clone(column), 0)).collect();
        let weighed = trial.weigh(load, PROGRESS / 10.0, None, least, self.watch);
        let mut tried = match weighed {
            Ok((weights, prices)) => {
                Tried { score: self.score(&weights), weights, goal: load, prices }
            }
            // Stopped, or too near to singular.
            Err(_) => {
                let none = vec![0.0; self.program.capacities.len()];
                let score = Score { above: f64::INFINITY, value: f64::INFINITY };
                let prices = LinkPrices { load: none.clone(), net: none };
                Tried { score, weights: Vec::new(), goal: load, prices }
            }
        };
        if let Some(limit) = self.limit
            && tried.score.above <= HAIR
        {
            let goal = Goal::Cost { limit };
            let base = Some(&tried.weights);
            let weighed = trial.weigh(goal, PROGRESS / 10.0, base, least, self.watch);
            if let Ok((weights, prices)) = weighed {
                tried = Tried { score: self.score(&weights), weights, goal, prices };
            }
        }
        (columns, tried)
    }

    /// New trees for the ingresses that are not frozen.
    fn grow(&self, master: &mut Master<'_>) {
        const TIMES: usize = 3;
        let goal = Goal::Load { enough: 0.0 };
        for _ in 0..TIMES {
            let least = self.limit.unwrap_or(self.bound);
            let weighed = master.weigh(goal, PROGRESS, None, least, self.watch);
            let Ok((_, prices)) = weighed else { break };
            if self.watch.stopped() || !master.price(goal, &prices, 1.0, 0, self.watch).1 {
                break;
            }
        }
    }

    /// The best weights of these columns: for the least load, or what the limit allows, then those
    /// with the least footprint.
    fn settle(&self, master: &mut Master<'_>, known: &Weights) -> Weights {
        let load = Goal::Load { enough: 0.0 };
        let settled = master.settle(load, None, self.watch).and_then(|even| {
            let (reached, net) = self.program.utilization(&even);
            let limit = self.limit.unwrap_or(reached * (1.0 + self.program.gap / 10.0));
            // The limit may need trees that have gone.
            if reached > limit || (self.program.safety_net && net > 1.0) {
                return Ok(even);
            }
            match master.settle(Goal::Cost { limit }, Some(&even), self.watch) {
                // Too near to singular, as a program with nothing to choose is.
                Err(Error::Solver(_)) => Ok(even),
                settled => settled,
            }
        });
        settled.unwrap_or_else(|_| known.clone())
    }

    /// The same without trees that are not missed, and at most `most`.
    fn without_light(&self, weights: Weights) -> Weights {
        let few = weights::heaviest(&weights, self.most);
        let few = self.settle(&mut Master::of(self.program, &few), &few);
        let score = self.score(&few);
        let slack = 1.0 + self.program.gap.max(PROGRESS) / 10.0;
        'light: for light in [1e-2, LIGHT, LIGHT / 10.0] {
            let keep = |list: &Mixture| -> Mixture {
                let heavy = list.iter().filter(|(weight, _)| *weight > light);
                let mut kept: Mixture = heavy.cloned().collect();
                if kept.is_empty() {
                    // One of very many.
                    kept.clone_from(list);
                }
                kept
            };
            let mut fewer = few.clone();
            // Weights that are weighed again may be light again.
            while fewer.iter().any(|list| keep(list).len() < list.len()) {
                let kept = weights::heaviest(&fewer.iter().map(keep).collect(), self.most);
                let settled = self.settle(&mut Master::of(self.program, &kept), &kept);
                let worth = self.score(&settled);
                let good =
                    worth.above <= score.above.max(HAIR) && worth.value <= score.value * slack;
                if !good || self.watch.stopped() {
                    continue 'light;
                }
                fewer = settled;
            }
            return fewer;
        }
        few
    }

    fn is_enough(&self, score: Score) -> bool {
        score.above <= HAIR && gap(score.value, self.bound) <= self.program.gap
    }

    fn score(&self, weights: &Weights) -> Score {
        let (load, net) = self.program.utilization(weights);
        let above = if self.program.safety_net { (net - 1.0).max(0.0) } else { 0.0 };
        let Some(limit) = self.limit else { return Score { above, value: load } };
        let cost = weights.iter().flatten().map(|(weight, column)| weight * column.cost);
        Score { above: above.max(load - limit), value: cost.sum() }
    }

    fn check(&self, weights: &Weights) -> Result<(), Error> {
        let (reached, net) = self.program.utilization(weights);
        let net = if self.program.safety_net { net } else { 0.0 };
        let allowed = self.limit.unwrap_or(f64::INFINITY) * (1.0 + 1e-6);
        if reached > allowed || net > 1.0 + 1e-6 {
            return Err(RouteError::Slices {
                slices: self.most,
                limit: if reached > allowed { allowed } else { 1.0 },
                found: if reached > allowed { reached } else { net },
            }
            .into());
        }
        Ok(())
    }
}
