//! Source prefixes to slices: which networks' traffic takes which of an ingress's trees.
//!
//! The thesis leaves open how traffic is divided so that equal content meets (section 6.2, "MPLS
//! Networks"). Here, prefixes that share content are bundled; bundles go to the slice that lacks
//! most traffic, the largest first; then bundles change places while the judge says that it helps.
//! A slice removes the repeats of its own prefixes only, as SmartRE does over slices.

use std::collections::{BTreeMap, HashMap, HashSet};

use super::{
    Objective, Outcome, Prefix, Request, Routes, Scheme, Slice,
    judge::{self, Judged},
    profile::{Content, Counted, Fold, classes_of},
};
use crate::{
    Error, Network, NodeId, Watch,
    ra::{Classes, Cost},
};

/// What an assignment is judged by, smaller first: `excess`, then `main`, then `footprint`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Score {
    /// How far the busiest link is above the limit, as a part of its capacity.
    pub excess: f64,
    /// Utilization of the busiest link, where that is the objective; else 0.
    pub load: f64,
    /// Bytes times cost.
    pub footprint: f64,
}

impl Score {
    /// Whether this is better by more than rounding.
    fn beats(&self, other: &Self) -> bool {
        let parts = [
            (self.excess, other.excess),
            (self.load, other.load),
            (self.footprint, other.footprint),
        ];
        for (ours, theirs) in parts {
            let margin = 1e-9 * theirs.abs().max(1e-9);
            if ours < theirs - margin {
                return true;
            }
            if ours > theirs + margin {
                return false;
            }
        }
        false
    }
}

/// What prefixes are assigned for.
#[derive(Clone, Debug)]
pub struct Task<'a> {
    /// The network.
    pub network: &'a Network,
    /// What a byte costs on a link.
    pub cost: Cost,
    /// Whether the ends of each link eliminate redundancy; empty if all do.
    pub eliminates: &'a [bool],
    /// Capacity of each link in bytes per interval, if it has one.
    pub capacities: &'a [Option<f64>],
    /// Whether the busiest link comes before the footprint.
    pub load: bool,
    /// The highest utilization that a link may have.
    pub limit: Option<f64>,
    /// Prefixes that share at least this part of the smaller one's traffic share a slice. It is
    /// doubled while a bundle is larger than the largest slice.
    pub threshold: f64,
}

/// What became of an ingress's prefixes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Assigned {
    /// The ingress.
    pub ingress: NodeId,
    /// Prefixes with traffic.
    pub prefixes: usize,
    /// Bundles of prefixes that share content.
    pub bundles: usize,
    /// The threshold in the end.
    pub threshold: f64,
    /// Exchanges that helped.
    pub exchanges: usize,
    /// Judged before exchanges, with what other ingresses put on links.
    pub before: Score,
    /// Judged after them.
    pub after: Score,
}

/// The threshold of a [`Task`] unless there is a reason for another.
pub const THRESHOLD: f64 = 0.01;

/// Most exchanges of an ingress.
const EXCHANGES: usize = 200;
/// Exchanges that the judge is asked about before giving up.
const TRIES: usize = 24;
/// Largest bundles that may change places with each other; any may move.
const SWAPPED: usize = 48;
/// Prefixes of one content up to which every pair counts as sharing it; of more, each with the next.
const EACH_PAIR: usize = 64;

/// A source network, or none for what is not known.
type Source = Option<Prefix>;

/// Assigns the prefixes of all ingresses that have several slices, in order, and sets the slices'
/// prefixes and weights to what they have then. A slice without traffic goes. Addresses outside of
/// all prefixes take the slice of the unknown sources, or the largest: it has the prefixes of
/// length 0.
///
/// # Errors
/// Routes without a path for some content; [`Error::Stopped`].
pub fn assign(
    task: &Task<'_>,
    counted: &Counted,
    routes: &mut Routes,
    watch: &dyn Watch,
) -> Result<Vec<Assigned>, Error> {
    let links = task.network.links.len();
    let mut all = Vec::new();
    let mut slices = Vec::with_capacity(routes.slices.len());
    // What each ingress puts on links, as its slices are now.
    let mut loads: BTreeMap<NodeId, Vec<f64>> = BTreeMap::new();
    let mut footprints: BTreeMap<NodeId, f64> = BTreeMap::new();
    for (ingress, content) in &counted.ingresses {
        watch.proceed()?;
        let classes = Classes::Listed(classes_of(content, |_| true, EXACT));
        let judged =
            judge::judge(task.network, task.cost, &[(*ingress, classes)], routes, task.eliminates)?;
        footprints.insert(*ingress, judged.footprint);
        loads.insert(*ingress, judged.loads);
    }
    let mut done: BTreeMap<NodeId, Vec<Slice>> = BTreeMap::new();
    for (ingress, content) in &counted.ingresses {
        watch.proceed()?;
        let own: Vec<Slice> = routes.of(*ingress).cloned().collect();
        if own.len() < 2 {
            continue;
        }
        let mut base = vec![0.0; links];
        let others = || loads.iter().filter(|(node, _)| *node != ingress);
        for (_, other) in others() {
            base.iter_mut().zip(other).for_each(|(sum, load)| *sum += load);
        }
        let footprint = footprints.iter().filter(|(node, _)| *node != ingress).map(|of| of.1).sum();
        let mut ours = Ours::new(task, *ingress, content, own, base, footprint, watch)?;
        let before = ours.score();
        let exchanges = ours.exchange(watch)?;
        let after = ours.score();
        loads.insert(*ingress, ours.loads(&ours.judged));
        footprints.insert(*ingress, ours.judged.iter().map(|judged| judged.footprint).sum());
        all.push(Assigned {
            ingress: *ingress,
            prefixes: ours.sources,
            bundles: ours.bundles.len(),
            threshold: ours.threshold,
            exchanges,
            before,
            after,
        });
        done.insert(*ingress, ours.into_slices());
    }
    for slice in std::mem::take(&mut routes.slices) {
        match done.get_mut(&slice.ingress) {
            Some(new) => slices.append(new),
            None => slices.push(slice),
        }
    }
    routes.slices = slices;
    Ok(all)
}

/// Divides the prefixes of counted content among the slices of an outcome, if an ingress has several
/// slices and its sources are known. The outcome's routes, value and loads are those of prefixes
/// then; its bound stays. `limit` is the highest utilization that links may have.
///
/// Once stopped, the slices have no prefixes, and the outcome says so.
///
/// # Errors
/// Routes without a path for some content.
pub fn divide(
    request: &Request<'_>,
    counted: &Counted,
    limit: Option<f64>,
    outcome: &mut Outcome,
    watch: &dyn Watch,
) -> Result<Vec<Assigned>, Error> {
    let several = outcome.routes.slices.windows(2).any(|pair| pair[0].ingress == pair[1].ingress);
    let mut members = counted.ingresses.iter().flat_map(|of| &of.1).flat_map(|one| &one.members);
    if !several || members.all(|member| member.prefix.is_none()) {
        return Ok(Vec::new());
    }
    let task = Task {
        network: request.network,
        cost: request.cost,
        eliminates: &request.eliminates,
        capacities: &outcome.capacities,
        load: request.objective == Objective::Load,
        limit,
        threshold: THRESHOLD,
    };
    let mut routes = outcome.routes.clone();
    let mut counted = counted.clone();
    let content = counted.ingresses.iter_mut().flat_map(|of| &mut of.1);
    content.for_each(|one| one.bytes *= outcome.scale);
    let counted = &counted;
    let assigned = match assign(&task, counted, &mut routes, watch) {
        Err(Error::Stopped) => {
            outcome.stopped = true;
            outcome.unfinished.prefixes = true;
            return Ok(Vec::new());
        }
        assigned => assigned?,
    };
    if let Some(Assigned { after, .. }) = assigned.last() {
        let load = judge::busiest(&judged_loads(&task, counted, &routes)?, task.capacities);
        outcome.value = if task.load { after.load } else { after.footprint };
        outcome.schemes.push(Scheme {
            name: "RA by prefixes",
            footprint: after.footprint,
            utilization: load.map(|busiest| busiest.1),
        });
        outcome.routes = routes;
    }
    Ok(assigned)
}

/// What prefixes put on links, each by its slice.
fn judged_loads(task: &Task<'_>, counted: &Counted, routes: &Routes) -> Result<Vec<f64>, Error> {
    let mut loads = vec![0.0; task.network.links.len()];
    for (ingress, content) in &counted.ingresses {
        let slices: Vec<&Slice> = routes.of(*ingress).collect();
        for slice in &slices {
            let own: HashSet<Prefix> = slice.prefixes.iter().copied().collect();
            let rest = own.iter().any(|prefix| prefix.length == 0);
            let mine = |source: Source| {
                slices.len() == 1 || source.map_or(rest, |prefix| own.contains(&prefix))
            };
            let classes = Classes::Listed(classes_of(content, mine, EXACT));
            let alone = Slice { weight: 1.0, ..(*slice).clone() };
            let judged = judge::judge(
                task.network,
                task.cost,
                &[(*ingress, classes)],
                &Routes { slices: vec![alone] },
                task.eliminates,
            )?;
            loads.iter_mut().zip(&judged.loads).for_each(|(sum, load)| *sum += load);
        }
    }
    Ok(loads)
}

/// No folding.
const EXACT: Fold = Fold { exact: usize::MAX, largest: 0 };

/// An ingress's bundles and slices.
struct Ours<'a> {
    task: &'a Task<'a>,
    ingress: NodeId,
    content: &'a [Content],
    slices: Vec<Slice>,
    /// What other ingresses put on links, and their footprint.
    base: Vec<f64>,
    base_footprint: f64,
    sources: usize,
    threshold: f64,
    /// Sources of each bundle, and its bytes, largest first.
    bundles: Vec<(Vec<Source>, f64)>,
    /// Slice of each bundle.
    at: Vec<usize>,
    /// Each slice with the content of its bundles.
    judged: Vec<Judged>,
    /// Each bundle alone on each slice: loads and footprint.
    alone: Vec<Vec<(Vec<f64>, f64)>>,
}

/// Where bundles are, and what that puts on links.
struct Places {
    at: Vec<usize>,
    judged: Vec<Judged>,
}

/// A bundle that moves to a slice, or changes places with another.
#[derive(Clone, Copy, Debug)]
enum Exchange {
    Move { bundle: usize, to: usize },
    Swap { one: usize, other: usize },
}

impl<'a> Ours<'a> {
    fn new(
        task: &'a Task<'a>,
        ingress: NodeId,
        content: &'a [Content],
        slices: Vec<Slice>,
        base: Vec<f64>,
        base_footprint: f64,
        watch: &dyn Watch,
    ) -> Result<Self, Error> {
        let volumes = volumes(content);
        let whole: f64 = volumes.values().sum();
        let largest = slices.iter().map(|slice| slice.weight).fold(0.0, f64::max) * whole;
        let (bundles, threshold) = bundles(content, &volumes, task.threshold, largest);
        // The largest first, each to where most is missing.
        let mut missing: Vec<f64> = slices.iter().map(|slice| slice.weight * whole).collect();
        let mut at = Vec::with_capacity(bundles.len());
        for (_, bytes) in &bundles {
            let most = (0..slices.len())
                .max_by(|&a, &b| missing[a].total_cmp(&missing[b]).then(b.cmp(&a)));
            let slice = most.unwrap_or(0);
            missing[slice] -= bytes;
            at.push(slice);
        }
        let mut ours = Self {
            task,
            ingress,
            content,
            slices,
            base,
            base_footprint,
            sources: volumes.len(),
            threshold,
            bundles,
            at,
            judged: Vec::new(),
            alone: Vec::new(),
        };
        for slice in 0..ours.slices.len() {
            ours.judged.push(ours.judge(slice, &ours.at)?);
        }
        for (number, _) in ours.bundles.iter().enumerate() {
            watch.proceed()?;
            let own: HashMap<Source, ()> =
                ours.bundles[number].0.iter().map(|source| (*source, ())).collect();
            let classes = classes_of(content, |source| own.contains_key(&source), EXACT);
            let of_slices = (0..ours.slices.len()).map(|slice| {
                let judged = ours.judge_classes(slice, Classes::Listed(classes.clone()))?;
                Ok((judged.loads, judged.footprint))
            });
            let of_slices = of_slices.collect::<Result<Vec<_>, Error>>()?;
            ours.alone.push(of_slices);
        }
        Ok(ours)
    }

    /// A slice with the content of the bundles that `at` puts there.
    fn judge(&self, slice: usize, at: &[usize]) -> Result<Judged, Error> {
        let here: HashMap<Source, bool> = self
            .bundles
            .iter()
            .zip(at)
            .flat_map(|((sources, _), &to)| {
                sources.iter().map(move |&source| (source, to == slice))
            })
            .collect();
        let mine = |source: Source| here.get(&source).copied().unwrap_or(false);
        let classes = classes_of(self.content, mine, EXACT);
        self.judge_classes(slice, Classes::Listed(classes))
    }

    fn judge_classes(&self, slice: usize, classes: Classes) -> Result<Judged, Error> {
        let alone = Slice { weight: 1.0, prefixes: Vec::new(), ..self.slices[slice].clone() };
        judge::judge(
            self.task.network,
            self.task.cost,
            &[(self.ingress, classes)],
            &Routes { slices: vec![alone] },
            self.task.eliminates,
        )
    }

    fn loads(&self, judged: &[Judged]) -> Vec<f64> {
        let mut loads = vec![0.0; self.base.len()];
        for of in judged {
            loads.iter_mut().zip(&of.loads).for_each(|(sum, load)| *sum += load);
        }
        loads
    }

    fn score_of_slices(&self, judged: &[Judged]) -> Score {
        let footprint = judged.iter().map(|of| of.footprint).sum::<f64>();
        self.score_of(&self.loads(judged), footprint)
    }

    fn score(&self) -> Score {
        self.score_of_slices(&self.judged)
    }

    fn score_of(&self, loads: &[f64], footprint: f64) -> Score {
        let loads: Vec<f64> = loads.iter().zip(&self.base).map(|(own, base)| own + base).collect();
        let busiest = judge::busiest(&loads, self.task.capacities).map_or(0.0, |busiest| busiest.1);
        Score {
            excess: self.task.limit.map_or(0.0, |limit| (busiest - limit).max(0.0)),
            load: if self.task.load { busiest } else { 0.0 },
            footprint: footprint + self.base_footprint,
        }
    }

    /// Exchanges bundles while that helps. Which to try follows from what each bundle puts on links
    /// alone; whether it helps, the judge says.
    fn exchange(&mut self, watch: &dyn Watch) -> Result<usize, Error> {
        let mut exchanges = 0;
        while exchanges < EXCHANGES {
            watch.proceed()?;
            let Some(better) = self.better(watch)? else { break };
            (self.at, self.judged) = (better.at, better.judged);
            exchanges += 1;
        }
        Ok(exchanges)
    }

    /// The first exchange that helps, of those that promise most.
    fn better(&self, watch: &dyn Watch) -> Result<Option<Places>, Error> {
        let now = self.score();
        let (loads, footprint) = (self.loads(&self.judged), now.footprint - self.base_footprint);
        let mut tries: Vec<(Score, Exchange)> = self
            .exchanges()
            .map(|exchange| {
                let mut loads = loads.clone();
                let mut footprint = footprint;
                for (bundle, to) in self.steps(exchange) {
                    let (from, to) =
                        (&self.alone[bundle][self.at[bundle]], &self.alone[bundle][to]);
                    for ((load, from), to) in loads.iter_mut().zip(&from.0).zip(&to.0) {
                        *load += to - from;
                    }
                    footprint += to.1 - from.1;
                }
                (self.score_of(&loads, footprint), exchange)
            })
            .collect();
        let order = |a: &Score, b: &Score| {
            (a.excess.total_cmp(&b.excess))
                .then(a.load.total_cmp(&b.load))
                .then(a.footprint.total_cmp(&b.footprint))
        };
        tries.sort_by(|a, b| order(&a.0, &b.0));
        for (_, exchange) in tries.into_iter().take(TRIES) {
            watch.proceed()?;
            let mut at = self.at.clone();
            let mut judged = self.judged.clone();
            let steps = self.steps(exchange);
            for &(bundle, to) in &steps {
                at[bundle] = to;
            }
            let mut touched: Vec<usize> =
                steps.iter().flat_map(|&(bundle, to)| [self.at[bundle], to]).collect();
            touched.sort_unstable();
            touched.dedup();
            for slice in touched {
                judged[slice] = self.judge(slice, &at)?;
            }
            if self.score_of_slices(&judged).beats(&now) {
                return Ok(Some(Places { at, judged }));
            }
        }
        Ok(None)
    }

    fn exchanges(&self) -> impl Iterator<Item = Exchange> + '_ {
        let moves = (0..self.bundles.len()).flat_map(move |bundle| {
            let others = (0..self.slices.len()).filter(move |&to| to != self.at[bundle]);
            others.map(move |to| Exchange::Move { bundle, to })
        });
        let swapped = self.bundles.len().min(SWAPPED);
        let swaps = (0..swapped).flat_map(move |one| {
            let others = (0..one).filter(move |&other| self.at[one] != self.at[other]);
            others.map(move |other| Exchange::Swap { one, other })
        });
        moves.chain(swaps)
    }

    /// Bundles and where they go.
    fn steps(&self, exchange: Exchange) -> Vec<(usize, usize)> {
        match exchange {
            Exchange::Move { bundle, to } => vec![(bundle, to)],
            Exchange::Swap { one, other } => {
                vec![(one, self.at[other]), (other, self.at[one])]
            }
        }
    }

    /// The slices with their prefixes, and their parts of the traffic as weights.
    fn into_slices(self) -> Vec<Slice> {
        let mut bytes = vec![0.0; self.slices.len()];
        let mut prefixes: Vec<Vec<Prefix>> = vec![Vec::new(); self.slices.len()];
        let mut rest = None;
        for ((sources, of_bundle), &slice) in self.bundles.iter().zip(&self.at) {
            bytes[slice] += of_bundle;
            prefixes[slice].extend(sources.iter().flatten());
            if sources.contains(&None) {
                rest = Some(slice);
            }
        }
        let whole: f64 = bytes.iter().sum();
        let largest =
            (0..bytes.len()).max_by(|&a, &b| bytes[a].total_cmp(&bytes[b]).then(b.cmp(&a)));
        let everything = [[0; 4].into(), [0; 16].into()].map(|address| Prefix::new(address, 0));
        if let Some(slice) = rest.or(largest) {
            prefixes[slice].extend(everything);
        }
        self.slices
            .into_iter()
            .zip(bytes)
            .zip(prefixes)
            .filter(|((_, bytes), _)| *bytes > 0.0)
            .map(|((slice, bytes), mut prefixes)| {
                prefixes.sort_unstable();
                prefixes.dedup();
                Slice { weight: bytes / whole, prefixes, ..slice }
            })
            .collect()
    }
}

/// Bytes of all copies per source.
fn volumes(content: &[Content]) -> BTreeMap<Source, f64> {
    let mut volumes = BTreeMap::new();
    for one in content {
        for member in &one.members {
            *volumes.entry(member.prefix).or_default() += one.bytes * member.copies;
        }
    }
    volumes
}

/// Bundles of sources that share at least a part `threshold` of the smaller one's bytes, largest
/// first. If one is larger than `most` bytes, the threshold is doubled until none is, or until there
/// is nothing to share.
fn bundles(
    content: &[Content],
    volumes: &BTreeMap<Source, f64>,
    threshold: f64,
    most: f64,
) -> (Vec<(Vec<Source>, f64)>, f64) {
    let sources: Vec<Source> = volumes.keys().copied().collect();
    let bytes: Vec<f64> = volumes.values().copied().collect();
    let number: HashMap<Source, usize> =
        sources.iter().enumerate().map(|(at, source)| (*source, at)).collect();
    let mut shared: BTreeMap<(usize, usize), f64> = BTreeMap::new();
    for one in content {
        let mut here: Vec<usize> =
            one.members.iter().map(|member| number[&member.prefix]).collect();
        here.sort_unstable();
        here.dedup();
        let reach = if here.len() <= EACH_PAIR { here.len() } else { 1 };
        for (at, &a) in here.iter().enumerate() {
            for &b in here[at + 1..].iter().take(reach) {
                *shared.entry((a, b)).or_default() += one.bytes;
            }
        }
    }
    let mut threshold = threshold.max(f64::MIN_POSITIVE);
    loop {
        let mut parent: Vec<usize> = (0..sources.len()).collect();
        for (&(a, b), &both) in &shared {
            if both >= threshold * bytes[a].min(bytes[b]) {
                let (a, b) = (root(&mut parent, a), root(&mut parent, b));
                parent[a.max(b)] = a.min(b);
            }
        }
        let mut bundles: BTreeMap<usize, (Vec<Source>, f64)> = BTreeMap::new();
        for at in 0..sources.len() {
            let bundle = bundles.entry(root(&mut parent, at)).or_default();
            bundle.0.push(sources[at]);
            bundle.1 += bytes[at];
        }
        let too_large = bundles.values().any(|bundle| bundle.0.len() > 1 && bundle.1 > most);
        if !too_large || threshold > 1.0 {
            let mut bundles: Vec<_> = bundles.into_values().collect();
            bundles.sort_by(|a, b| b.1.total_cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
            return (bundles, threshold);
        }
        threshold *= 2.0;
    }
}

/// The first of a source's set, with the way to it made shorter.
fn root(parent: &mut [usize], mut at: usize) -> usize {
    while parent[at] != at {
        parent[at] = parent[parent[at]];
        at = parent[at];
    }
    at
}

#[cfg(test)]
mod tests;
