//! A plan from what ingresses measured: the work of a controller that takes time.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::messages::{LEAST_MEASURED, MAX_PAIRS, Report};
use crate::{
    BitRate, Bytes, Error, Instance, Match, Measured, Network, NodeId, Placement, Profile,
    Provision, Watch,
    error::TrafficError,
    evaluate, lp,
    manifest::{self, Options, Plan, SPACE},
    path::Route,
    routing,
};

/// Retention epochs, in seconds: from the time in which a TCP connection recovers from a loss to an
/// hour.
const EPOCH: (f64, f64) = (1.0, 3600.0);
/// Bytes per second of an ingress as long as nobody has measured any.
const UNMEASURED: f64 = 1e6;
/// Headroom of buckets: they fill the memory that there is. A busy ingress makes the epoch short, and
/// nothing is gained by leaving the others' memory empty.
const FULL: f64 = 1e9;
/// Share of the largest ingress's bytes that each ingress is planned with at least, evenly to all
/// egresses: traffic may come where there was none.
const FLOOR: f64 = 0.05;
/// Share of these bytes that is taken to repeat traffic of the same path.
const REPEATS: f64 = 0.1;
/// Parts of a node's memory: one for the ingress's store, one for the device's cache, and one for
/// what both plans need while a new one is brought in.
const PARTS: u64 = 3;
/// How often content is repeated at most, on average.
const MOST_COPIES: f64 = 1e6;
/// Weight by which links that are down, and those of nodes that are to be drained, are longer.
const DOWN: f64 = 1e9;
const DRAINED: f64 = 1e4;
/// By how much the old plan may break limits with the new traffic, and still be kept.
const TOLERANCE: f64 = 0.1;

/// Bytes per second that an ingress measured.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Rates {
    /// To each egress.
    pub volumes: BTreeMap<u32, f64>,
    /// Matches and their bytes, by egress of both packets.
    pub pairs: BTreeMap<(u32, u32), (f64, f64)>,
    /// How often content was repeated before, on average.
    pub copies: f64,
}

impl Rates {
    /// The rates of a report. Nodes that are not below `nodes`, and the ingress itself, are left out.
    /// `None` for one over less than a tenth of a second.
    pub fn new(report: &Report, me: u32, nodes: u32) -> Option<Rates> {
        if report.nanoseconds < LEAST_MEASURED || !report.copies.is_finite() {
            return None;
        }
        let seconds = report.nanoseconds as f64 / 1e9;
        let known = |node: u32| node < nodes && node != me;
        let mut rates = Rates { copies: report.copies.clamp(0.0, MOST_COPIES), ..Rates::default() };
        for &(to, bytes) in report.volumes.iter().filter(|one| known(one.0)) {
            *rates.volumes.entry(to).or_default() += bytes as f64 / seconds;
        }
        for &(p, q, count, bytes) in &report.pairs {
            if known(p) && known(q) && count > 0 && bytes > 0 {
                let sum = rates.pairs.entry((p, q)).or_default();
                *sum = (sum.0 + count as f64 / seconds, sum.1 + bytes as f64 / seconds);
            }
        }
        Some(rates)
    }

    /// The mean of both. Of pairs, the largest [`MAX_PAIRS`] stay.
    pub fn mean(&self, other: &Rates) -> Rates {
        let mut mean = Rates { copies: (self.copies + other.copies) / 2.0, ..Rates::default() };
        for rates in [self, other] {
            for (&to, bytes) in &rates.volumes {
                *mean.volumes.entry(to).or_default() += bytes / 2.0;
            }
            for (&pair, (count, bytes)) in &rates.pairs {
                let sum = mean.pairs.entry(pair).or_default();
                *sum = (sum.0 + count / 2.0, sum.1 + bytes / 2.0);
            }
        }
        // What ended long ago needs no place.
        mean.volumes.retain(|_, bytes| *bytes >= 1.0);
        mean.pairs.retain(|_, (_, bytes)| *bytes >= 1.0);
        if mean.pairs.len() > MAX_PAIRS {
            let mut pairs: Vec<_> = mean.pairs.into_iter().collect();
            pairs.sort_by(|a, b| b.1.1.total_cmp(&a.1.1));
            mean.pairs = pairs.into_iter().take(MAX_PAIRS).collect();
        }
        mean
    }

    /// Bytes per second in all, and those that repeat others.
    pub fn sums(&self) -> (f64, f64) {
        // The sum of nothing would be a negative zero.
        let repeated = self.pairs.values().map(|pair| pair.1);
        (self.volumes.values().sum::<f64>() + 0.0, repeated.sum::<f64>() + 0.0)
    }
}

/// What a node has for a plan.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Means {
    /// Whether networks are behind it.
    pub is_end: bool,
    /// Bytes for packets; 0 for a node that only passes packets on.
    pub memory: u64,
    /// Packets that it can encode in a second, and operations that it can do, if it says so.
    pub speeds: [Option<u64>; 2],
    /// Whether it is to be emptied: it caches nothing, and is passed only where there is no other way.
    pub is_drained: bool,
    /// What enters there, if that was measured.
    pub rates: Option<Rates>,
}

/// What a plan is asked for.
#[derive(Clone, Debug)]
pub struct Question {
    /// The network.
    pub network: Network,
    /// Of each of its nodes.
    pub nodes: Vec<Means>,
    /// Links that are down, in both directions.
    pub down: BTreeSet<(u32, u32)>,
    /// The plan in force.
    pub old: Option<Plan>,
    /// The version of the new one.
    pub version: u64,
    /// Share of the footprint that a new plan must save beyond the old one to be worth bringing in.
    pub gain: f64,
}

/// What a plan is worth, per second.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Worth {
    /// Bytes times links without it.
    pub before: f64,
    /// Saved.
    pub saved: f64,
}

/// The answer to a [`Question`].
#[derive(Clone, Debug)]
pub struct Answer {
    /// The new plan.
    pub plan: Plan,
    /// What it is worth.
    pub worth: Worth,
    /// What the old one is worth with this traffic, if it may be kept: its paths are the same and it
    /// breaks no limit.
    pub old: Option<Worth>,
    /// Whether the old one is good enough.
    pub keep: bool,
    /// Pairs of nodes that have no way to each other now.
    pub unreachable: Vec<(u32, u32)>,
}

impl Question {
    /// Makes a plan.
    ///
    /// # Errors
    /// No two nodes with networks behind them that have a way to each other; those of the planner;
    /// [`Error::Stopped`].
    pub fn answer(&self, watch: &dyn Watch) -> Result<Answer, Error> {
        let (routes, unreachable) = self.routes(watch)?;
        let epoch = self.epoch();
        let instance = self.instance(routes, epoch)?;
        let (solution, _) = lp::solve(&instance, &lp::Options::default(), None, watch)?;
        let evaluation = evaluate::check(&instance, &solution)?;
        evaluation.holds(&instance)?;
        let worth = |evaluation: &evaluate::Evaluation| Worth {
            before: evaluation.footprint.before / epoch,
            saved: evaluation.footprint.saved / epoch,
        };
        let options = Options { version: self.version, headroom: FULL, ..Options::default() };
        let plan = match &self.old {
            Some(old) => {
                Plan::after(old, &instance, &solution, &options)?.numbered(self.version)?
            }
            None => Plan::new(&instance, &solution, &options)?,
        };
        manifest::validate(&plan, &instance)?;
        let old = self.old.as_ref().and_then(|old| cached_by(old, &instance));
        let old = old.map(|cached| evaluate::evaluate_within(&instance, &cached, TOLERANCE));
        let old = old.transpose()?.filter(|old| old.violations.is_empty());
        let (new, old) = (worth(&evaluation), old.as_ref().map(worth));
        let keep = old.is_some_and(|old| old.saved + self.gain * new.before >= new.saved);
        Ok(Answer { plan, worth: new, old, keep, unreachable })
    }

    /// The ways between all nodes with networks behind them, and the pairs that have none.
    #[allow(clippy::type_complexity, reason = "both are plain lists")]
    fn routes(&self, watch: &dyn Watch) -> Result<(Vec<Route>, Vec<(u32, u32)>), Error> {
        let mut network = self.network.clone();
        let is_down = |from: NodeId, to: NodeId| {
            self.down.contains(&(from.0, to.0)) || self.down.contains(&(to.0, from.0))
        };
        let is_drained =
            |node: NodeId| self.nodes.get(node.index()).is_some_and(|node| node.is_drained);
        for link in &mut network.links {
            if is_down(link.from, link.to) {
                link.weight *= DOWN;
            } else if is_drained(link.from) || is_drained(link.to) {
                link.weight *= DRAINED;
            }
        }
        let ends = || NodeId::all().zip(&self.nodes).filter(|one| one.1.is_end).map(|one| one.0);
        let pairs: Vec<(NodeId, NodeId)> = ends()
            .flat_map(|from| ends().filter(move |&to| to != from).map(move |to| (from, to)))
            .collect();
        let mut routes = routing::shortest_paths_between(&network, &pairs, watch)?;
        let mut unreachable = Vec::new();
        routes.retain(|route| {
            let link = |link: &crate::LinkId| network.links[*link];
            let reaches = route.links.iter().map(link).all(|link| !is_down(link.from, link.to));
            unreachable.extend((!reaches).then_some((route.from.0, route.to.0)));
            reaches
        });
        if routes.is_empty() {
            return Err(TrafficError::NoPath.into());
        }
        Ok((routes, unreachable))
    }

    /// Bytes per second that enter at a node, if that was measured anywhere.
    fn volume(&self, node: usize) -> Option<f64> {
        self.nodes[node].rates.as_ref().map(|rates| rates.sums().0)
    }

    /// The largest ingress's bytes per second.
    fn largest(&self) -> f64 {
        let measured = (0..self.nodes.len()).filter_map(|node| self.volume(node));
        match measured.fold(0.0, f64::max) {
            0.0 => UNMEASURED,
            largest => largest,
        }
    }

    /// The retention epoch in seconds: the time in which the first store of an ingress fills (thesis,
    /// section 3.4).
    fn epoch(&self) -> f64 {
        let least = FLOOR * self.largest();
        let of = |(at, node): (usize, &Means)| {
            let memory = (node.memory / PARTS) as f64;
            let volume = self.volume(at).unwrap_or(0.0) + least;
            (node.is_end && memory > 0.0).then(|| memory / volume)
        };
        let first = self.nodes.iter().enumerate().filter_map(of).fold(EPOCH.1, f64::min);
        first.clamp(EPOCH.0, EPOCH.1)
    }

    /// The instance of these routes: nodes as devices, and what was measured as traffic.
    fn instance(&self, mut routes: Vec<Route>, epoch: f64) -> Result<Instance, Error> {
        let largest = self.largest();
        let mut siblings: HashMap<NodeId, f64> = HashMap::new();
        for route in &routes {
            *siblings.entry(route.from).or_default() += 1.0;
        }
        let least = |from: NodeId| (FLOOR * largest / siblings[&from] * epoch).max(1.0);
        for route in &mut routes {
            let rates = self.nodes[route.from.index()].rates.as_ref();
            let measured = rates.and_then(|rates| rates.volumes.get(&route.to.0)).copied();
            route.volume = measured.unwrap_or(0.0) * epoch + least(route.from);
        }
        let provision = Provision {
            ingress_memory: Bytes(UNMEASURED * epoch),
            ingress_rate: BitRate(8.0 * UNMEASURED),
            ..Provision::default()
        };
        let (placement, none) = (Placement::Routers, Profile::Measured(Measured::default()));
        let network = self.network.clone();
        let mut instance = Instance::new(network, routes, &provision, &placement, none)?;
        let memory = |node: NodeId| {
            let means = &self.nodes[node.index()];
            let part = if means.is_drained { 0 } else { means.memory / PARTS };
            part as f64
        };
        let speed = |node: NodeId, which: usize| {
            self.nodes[node.index()].speeds[which].map(|speed| speed as f64 * epoch)
        };
        for device in &mut instance.devices {
            device.memory = memory(device.node);
            device.operations = speed(device.node, 1).unwrap_or(device.operations);
        }
        for ingress in &mut instance.ingresses {
            ingress.encodings = speed(ingress.node, 0).unwrap_or(ingress.encodings);
            ingress.memory = (self.nodes[ingress.node.index()].memory / PARTS) as f64;
        }
        let profile = self.profile(&instance, epoch, least);
        instance.with_profile(Profile::Measured(profile))
    }

    fn profile(&self, instance: &Instance, epoch: f64, least: impl Fn(NodeId) -> f64) -> Measured {
        let most = instance.mss.0;
        let mut pairs: BTreeMap<(u32, u32), (f64, f64)> = BTreeMap::new();
        let mut copies = (0.0, 0.0);
        for ingress in &instance.ingresses {
            let paths = ingress.paths.clone();
            let path_to: HashMap<u32, u32> =
                paths.clone().map(|path| (instance.paths[path as usize].egress.0, path)).collect();
            for path in paths {
                let bytes = REPEATS * least(ingress.node);
                pairs.insert((path, path), (bytes / instance.packet.0, bytes));
            }
            let Some(rates) = &self.nodes[ingress.node.index()].rates else { continue };
            for ((p, q), &(count, bytes)) in &rates.pairs {
                let (Some(&p), Some(&q)) = (path_to.get(p), path_to.get(q)) else { continue };
                let sum = pairs.entry((p, q)).or_default();
                *sum = (sum.0 + count * epoch, sum.1 + bytes * epoch);
            }
            let matched = rates.sums().1;
            copies = (copies.0 + matched * rates.copies, copies.1 + matched);
        }
        let of = |((p, q), (count, bytes)): ((u32, u32), (f64, f64))| {
            let length = (bytes / count).min(most);
            (p, q, Match { count: bytes / length, length })
        };
        let copies = if copies.1 > 0.0 { copies.0 / copies.1 } else { 0.0 };
        Measured { pairs: pairs.into_iter().map(of).collect(), copies }
    }
}

/// What the devices of a plan cache of the paths of an instance, as far as its buckets reach; `None`
/// if the plan has other paths.
fn cached_by(plan: &Plan, instance: &Instance) -> Option<Vec<f64>> {
    if plan.paths().len() != instance.paths.len() {
        return None;
    }
    let known: HashMap<(&str, &str), &manifest::PlannedPath> = plan
        .paths()
        .iter()
        .map(|path| {
            let from = plan.ingresses()[path.ingress as usize].name.as_str();
            ((from, path.egress.as_str()), path)
        })
        .collect();
    let mut cached = Vec::with_capacity(instance.hop_count());
    for path in &instance.paths {
        let name = |node: NodeId| instance.network.nodes[node].id.as_str();
        let from = name(instance.ingresses[path.ingress as usize].node);
        let planned = known.get(&(from, name(path.egress)))?;
        let hops = planned.hops.iter().map(|&device| plan.devices()[device.index()].name.as_str());
        if !hops.eq(path.hops.iter().map(|hop| name(instance.devices[hop.device].node))) {
            return None;
        }
        let first = cached.len();
        cached.resize(first + path.hops.len(), 0.0);
        for range in &planned.ranges {
            let share = (range.to - range.from) as f64 / SPACE as f64;
            cached[first + range.hop as usize] = share.min(range.bytes as f64 / path.volume);
        }
    }
    Some(cached)
}
