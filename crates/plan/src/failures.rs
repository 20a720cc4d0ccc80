//! Single failures: what is left of a plan if a link or a node fails (`docs/PLANNERS.md`,
//! "Failures").

use crate::{
    DeviceId, Error, Instance, LinkId, NodeId, Solve, Unwatched, Watch,
    baseline::capped,
    evaluate::{Evaluation, Footprint, evaluate},
    network::Role,
    routing,
};

/// What fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Failed {
    /// This link and the one in the other direction, if there is one.
    Link(LinkId),
    /// A node, with its links; what enters or leaves there is gone.
    Node(NodeId),
}

/// A network in which something has failed, and routes are as short as possible again.
#[derive(Clone, Debug, PartialEq)]
pub struct Failure {
    /// What has failed.
    pub what: Failed,
    /// Paths that take other links.
    pub rerouted: usize,
    /// Paths without a route.
    pub cut: usize,
    /// Their bytes per epoch: traffic that is not carried.
    pub cut_bytes: f64,
    /// With the plan that was in force.
    pub kept: Effect,
    /// With a new plan; `None` if none was asked for, or the new routes of an ingress do not form a
    /// tree.
    pub anew: Option<Effect>,
}

/// What a plan does in a network.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Effect {
    /// Of the traffic that is carried.
    pub footprint: Footprint,
    /// The busiest link; `None` if nothing is carried.
    pub busiest: Option<Busiest>,
}

/// The link with the highest utilization after redundancy elimination, or with most bytes if no
/// capacity is known.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Busiest {
    /// Which link.
    pub link: LinkId,
    /// Bytes per epoch after redundancy elimination.
    pub bytes: f64,
    /// The same as a share of its capacity, if one is known.
    pub utilization: Option<f64>,
}

impl Effect {
    /// Of an evaluation.
    pub fn of(evaluation: &Evaluation) -> Self {
        let loads = || {
            LinkId::all().zip(&evaluation.links).map(|(link, load)| Busiest {
                link,
                bytes: load.after,
                utilization: load.utilization.map(|both| both[1]),
            })
        };
        // The first of equal ones.
        let most = |a: Busiest, b: Busiest, key: fn(&Busiest) -> f64| {
            if key(&b) > key(&a) { b } else { a }
        };
        let used = |one: &Busiest| one.utilization.unwrap_or(0.0);
        let by_use =
            loads().filter(|one| one.utilization.is_some()).reduce(|a, b| most(a, b, used));
        let busiest = by_use.or_else(|| loads().reduce(|a, b| most(a, b, |one| one.bytes)));
        Self { footprint: evaluation.footprint, busiest }
    }
}

/// The links and nodes whose failures matter: each cable that carries traffic, once, and each node
/// that traffic enters, leaves or crosses. Access routers and their links are left out: such a
/// failure cuts off that router and nothing else.
pub fn candidates(instance: &Instance) -> Vec<Failed> {
    let network = &instance.network;
    let access = |node: NodeId| network.nodes[node].role == Role::Access;
    let mut used = vec![false; network.links.len()];
    let mut crossed = vec![false; network.nodes.len()];
    for path in &instance.paths {
        crossed[instance.ingresses[path.ingress as usize].node] = true;
        for &link in &path.links {
            used[link] = true;
            crossed[network.links[link].to] = true;
        }
    }
    let mut seen = std::collections::BTreeSet::new();
    let cables = LinkId::all().zip(&network.links).filter(|&(number, link)| {
        used[number]
            && !access(link.from)
            && !access(link.to)
            && seen.insert((link.from.min(link.to), link.from.max(link.to)))
    });
    let mut all: Vec<Failed> = cables.map(|(number, _)| Failed::Link(number)).collect();
    let nodes = NodeId::all().zip(&crossed).filter(|&(node, crossed)| *crossed && !access(node));
    all.extend(nodes.map(|(node, _)| Failed::Node(node)));
    all
}

/// What was planned, and where.
#[derive(Clone, Copy)]
pub struct InForce<'a> {
    /// What was planned for.
    pub instance: &'a Instance,
    /// The plan: d(p, r) in the order of [`Instance::hop_index`].
    pub cached: &'a [f64],
    /// Whether what enters at a node may be decoded at a device: whether both are built.
    pub built: &'a dyn Fn(NodeId, DeviceId) -> bool,
}

/// What a plan does under each of these failures. `solve` makes new plans, if they are wanted.
///
/// The plan that was in force keeps its ranges: a device that is not on a path any more caches
/// nothing of it, new ones on it cache nothing yet. Where more is to be decoded than a device can
/// do, all of its shares fall.
///
/// # Errors
/// Not one share per hop; an unknown link or node; those of `solve`; [`Error::Stopped`].
pub fn under(
    plan: InForce<'_>,
    failures: &[Failed],
    solve: Option<Solve<'_>>,
    watch: &dyn Watch,
) -> Result<Vec<Failure>, Error> {
    let mut all = Vec::with_capacity(failures.len());
    for (done, &what) in (0..).zip(failures) {
        watch.progress("failures", done, failures.len() as u64);
        watch.proceed()?;
        all.push(one(plan, what, solve)?);
    }
    watch.progress("failures", failures.len() as u64, failures.len() as u64);
    Ok(all)
}

fn one(plan: InForce<'_>, what: Failed, solve: Option<Solve<'_>>) -> Result<Failure, Error> {
    let Rest { instance: rest, cached, rerouted, cut, cut_bytes } = without(plan, what)?;
    let mut failure = Failure {
        what,
        rerouted,
        cut,
        cut_bytes,
        kept: Effect::default(),
        anew: solve.map(|_| Effect::default()),
    };
    let Some(rest) = rest else { return Ok(failure) };
    let mut evaluation = evaluate(&rest, &cached)?;
    if !evaluation.violations.is_empty() {
        evaluation = evaluate(&rest, &capped(&rest, cached))?;
    }
    failure.kept = Effect::of(&evaluation);
    failure.anew = match solve {
        Some(solve) if rest.check_trees().is_ok() => {
            Some(Effect::of(&crate::baseline::evaluate_solution(&rest, &solve(&rest)?)?))
        }
        _ => None,
    };
    Ok(failure)
}

/// What is left of a network.
struct Rest {
    /// `None` if no path is left.
    instance: Option<Instance>,
    /// Shares of the plan that still hold, in its order.
    cached: Vec<f64>,
    rerouted: usize,
    cut: usize,
    cut_bytes: f64,
}

fn without(plan: InForce<'_>, what: Failed) -> Result<Rest, Error> {
    let InForce { instance, cached, built } = plan;
    if cached.len() != instance.hop_count() {
        let hops = instance.hop_count();
        return Err(crate::error::SolverError::Count { shares: cached.len(), hops }.into());
    }
    let network = &instance.network;
    let gone: Vec<bool> = network
        .links
        .iter()
        .map(|link| match what {
            Failed::Node(node) => link.from == node || link.to == node,
            Failed::Link(failed) => network.links.get(failed.index()).is_some_and(|failed| {
                (link.from, link.to) == (failed.from, failed.to)
                    || (link.from, link.to) == (failed.to, failed.from)
            }),
        })
        .collect();
    let over: Vec<usize> = (0..instance.paths.len())
        .filter(|&path| instance.paths[path].links.iter().any(|&link| gone[link]))
        .collect();
    // Failed links get so long that only a path without another route takes one. Links keep their
    // numbers that way.
    let mut left = network.clone();
    let far = left.links.iter().map(|link| link.weight).sum::<f64>() * 1e3;
    for (link, _) in left.links.iter_mut().zip(&gone).filter(|(_, gone)| **gone) {
        link.weight += far;
    }
    let ends = |&path: &usize| {
        let path = &instance.paths[path];
        (instance.ingresses[path.ingress as usize].node, path.egress)
    };
    let pairs: Vec<(NodeId, NodeId)> = over.iter().map(ends).collect();
    let routes = routing::shortest_paths_between(&left, &pairs, &Unwatched)?;
    let mut keep = vec![true; instance.paths.len()];
    let mut ways: Vec<Option<Vec<LinkId>>> = vec![None; instance.paths.len()];
    for (&path, route) in over.iter().zip(routes) {
        if route.links.iter().any(|&link| gone[link]) {
            keep[path] = false;
        } else {
            ways[path] = Some(route.links);
        }
    }
    let lost = || (0..keep.len()).filter(|&path| !keep[path]);
    let (cut, cut_bytes) = (
        lost().count(),
        lost().map(|path| instance.paths[path].volume).fold(0.0, |sum, one| sum + one),
    );
    let rerouted = over.len() - cut;
    if cut == instance.paths.len() {
        return Ok(Rest { instance: None, cached: Vec::new(), rerouted, cut, cut_bytes });
    }
    let numbers: Vec<usize> = (0..keep.len()).filter(|&path| keep[path]).collect();
    let of_link = instance.devices_of_links();
    let new_ways = (0..).zip(&numbers);
    let new_ways = new_ways.filter_map(|(new, &old)| Some((new, ways[old].as_deref()?)));
    let rest = instance.with_paths(&keep).rerouted(new_ways, &of_link);
    let from = rest.paths.iter().map(|path| rest.ingresses[path.ingress as usize].node);
    let from: Vec<NodeId> = from.collect();
    let rest = rest.filtered(|path, hop| built(from[path], hop.device));
    let mut shares = Vec::with_capacity(rest.hop_count());
    for (path, &old) in rest.paths.iter().zip(&numbers) {
        let before = instance.paths[old].hops.iter().zip(&cached[instance.hop_range(old)]);
        let before: Vec<_> = before.collect();
        shares.extend(path.hops.iter().map(|hop| {
            let known = before.iter().find(|(known, _)| known.device == hop.device);
            known.map_or(0.0, |(_, share)| **share)
        }));
    }
    Ok(Rest { instance: Some(rest), cached: shares, rerouted, cut, cut_bytes })
}

#[cfg(test)]
mod tests;
