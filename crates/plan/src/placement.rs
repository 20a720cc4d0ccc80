//! Partial deployment: which links get decoders if only some can (thesis, section 3.5, "Partial
//! Deployment Benefits"), and which device to enlarge first. `docs/PLANNERS.md`, "Placement",
//! defines the weights.
//!
//! All of it works on an instance that has every device that could be built, each a candidate: with
//! [`crate::Placement::Links`] a device's number is its link's. What SmartRE saves with some of
//! them is what it saves on [`deployed`].

mod purchase;
mod upgrades;

use std::collections::{BTreeMap, BTreeSet};

use microlp::{
    ComparisonOp, OptimizationDirection, Problem, ResumeOptions, SolveOptions, SolveOutcome,
    TerminationReason, Variable,
};

use crate::{
    DeviceId, Error, Instance, NodeId, Solution, Watch,
    baseline::evaluate_solution,
    error::{DeviceError, SolverError},
    evaluate::{Footprint, evaluate, evaluate_within},
    network::Role,
};

pub use crate::cost::Tariff;
pub use purchase::{Aim, Purchase, purchase};
pub use upgrades::{MORE_MEMORY, MORE_OPERATIONS, Resource, Upgrade, try_upgrades, upgrades};

/// How links are ranked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Strategy {
    /// By the number of paths on the link: the thesis's first.
    Paths,
    /// By the sum of volume times distance of those paths, its second.
    VolumeDistance,
    /// By the sum of redundancy times distance of those paths, the redundancy being what the link's
    /// device could decode of a path if it cached all that it sees: what the thesis suggests.
    Redundancy,
}

impl Strategy {
    /// All, in the thesis's order.
    pub const ALL: [Self; 3] = [Self::Paths, Self::VolumeDistance, Self::Redundancy];

    /// Name in tables.
    pub fn name(self) -> &'static str {
        match self {
            Self::Paths => "paths",
            Self::VolumeDistance => "volume x distance",
            Self::Redundancy => "redundancy x distance",
        }
    }
}

/// A candidate and its weight.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Ranked {
    /// Index of the device.
    pub device: DeviceId,
    /// Its weight, in the strategy's unit; for [`greedy`] the footprint that it saved when it was
    /// added.
    pub weight: f64,
}

/// What a deployment saves.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Step {
    /// How many devices, from the first of the order.
    pub devices: usize,
    /// Footprint with them. Relate `saved` to another instance's footprint to compare with all of a
    /// network's traffic.
    pub footprint: Footprint,
}

/// Devices that are not on links from or to access routers: the thesis's interior links. All of
/// them where the map has no access routers.
pub fn interior(instance: &Instance) -> Vec<DeviceId> {
    let access = |node: NodeId| instance.network.nodes[node].role == Role::Access;
    let inside = |device: &crate::Device| {
        !access(device.node)
            && device.link.is_none_or(|link| !access(instance.network.links[link].from))
    };
    DeviceId::all()
        .zip(&instance.devices)
        .filter(|(_, device)| inside(device))
        .map(|(number, _)| number)
        .collect()
}

/// The ingresses of the `count` PoPs from which most bytes enter, in order of their numbers; of
/// equal PoPs that with the lower number. For [`Instance::only`].
pub fn largest_pops(instance: &Instance, count: usize) -> Vec<usize> {
    let pop = |ingress: &crate::Ingress| instance.network.nodes[ingress.node].pop;
    let mut volumes: BTreeMap<u32, f64> = BTreeMap::new();
    for ingress in &instance.ingresses {
        *volumes.entry(pop(ingress)).or_default() += ingress.volume;
    }
    let mut pops: Vec<(u32, f64)> = volumes.into_iter().collect();
    pops.sort_by(|a, b| b.1.total_cmp(&a.1));
    let chosen: BTreeSet<u32> = pops.into_iter().take(count).map(|(pop, _)| pop).collect();
    (0..instance.ingresses.len())
        .filter(|&ingress| chosen.contains(&pop(&instance.ingresses[ingress])))
        .collect()
}

/// The instance with only these devices.
///
/// # Errors
/// An unknown device.
pub fn deployed(instance: &Instance, devices: &[DeviceId]) -> Result<Instance, Error> {
    let mut built = vec![false; instance.devices.len()];
    for device in checked(instance, devices)? {
        built[device] = true;
    }
    instance.restricted(|_, hop| built[hop.device])
}

/// All candidates by decreasing weight, ties by index.
///
/// # Errors
/// An unknown candidate.
pub fn rank(
    instance: &Instance,
    strategy: Strategy,
    candidates: &[DeviceId],
) -> Result<Vec<Ranked>, Error> {
    let candidates = checked(instance, candidates)?;
    // Caching everything everywhere is not a plan, but shows what each device could decode alone.
    let decoded = match strategy {
        Strategy::Redundancy => evaluate(instance, &vec![1.0; instance.hop_count()])?.decoded_bytes,
        Strategy::Paths | Strategy::VolumeDistance => Vec::new(),
    };
    let mut weights = vec![0.0; instance.devices.len()];
    for (number, path) in instance.paths.iter().enumerate() {
        for (hop, at) in path.hops.iter().zip(instance.hop_range(number)) {
            weights[hop.device] += match strategy {
                Strategy::Paths => 1.0,
                Strategy::VolumeDistance => path.volume * f64::from(hop.saves),
                Strategy::Redundancy => decoded[at] * f64::from(hop.saves),
            };
        }
    }
    let mut ranked: Vec<Ranked> =
        candidates.into_iter().map(|device| Ranked { device, weight: weights[device] }).collect();
    ranked.sort_by(|a, b| b.weight.total_cmp(&a.weight));
    Ok(ranked)
}

/// What SmartRE saves with the first devices of an order, for each of `counts`: the curve of the
/// thesis's figure 3.11.
///
/// # Errors
/// Those of `solve`; a solution that breaks a constraint; more devices than the order has;
/// [`Error::Stopped`].
pub fn curve(
    instance: &Instance,
    order: &[DeviceId],
    counts: &[usize],
    solve: &dyn Fn(&Instance) -> Result<Solution, Error>,
    watch: &dyn Watch,
) -> Result<Vec<Step>, Error> {
    let mut steps = Vec::with_capacity(counts.len());
    for (done, &count) in (0..).zip(counts) {
        watch.progress("deployments", done, counts.len() as u64);
        watch.proceed()?;
        let devices = order
            .get(..count)
            .ok_or(DeviceError::Deployment { asked: count, available: order.len() })?;
        steps.push(Step { devices: count, footprint: saved_by(instance, devices, solve)? });
    }
    watch.progress("deployments", counts.len() as u64, counts.len() as u64);
    Ok(steps)
}

/// Chooses `budget` candidates one at a time, each the one with which SmartRE saves most, ties by
/// index. Each step solves for every remaining candidate: meant for comparison, not for large
/// networks.
///
/// # Errors
/// An unknown candidate; those of `solve`; a solution that breaks a constraint; [`Error::Stopped`].
pub fn greedy(
    instance: &Instance,
    candidates: &[DeviceId],
    budget: usize,
    solve: &dyn Fn(&Instance) -> Result<Solution, Error>,
    watch: &dyn Watch,
) -> Result<Vec<Ranked>, Error> {
    let mut left = checked(instance, candidates)?;
    let budget = budget.min(left.len());
    let on_paths = on_paths(instance);
    let mut chosen: Vec<DeviceId> = Vec::with_capacity(budget);
    let mut order = Vec::with_capacity(budget);
    let mut saved = 0.0;
    for step in 0..budget {
        watch.progress("greedy placement", step as u64, budget as u64);
        let mut best: Option<(usize, f64)> = None;
        for (at, &device) in left.iter().enumerate() {
            watch.proceed()?;
            let with = if on_paths[device] {
                chosen.push(device);
                let with = saved_by(instance, &chosen, solve);
                chosen.pop();
                with?.saved
            } else {
                saved
            };
            if best.is_none_or(|(_, most)| with > most) {
                best = Some((at, with));
            }
        }
        let Some((at, with)) = best else { break };
        let device = left.remove(at);
        chosen.push(device);
        order.push(Ranked { device, weight: with - saved });
        saved = with;
    }
    watch.progress("greedy placement", budget as u64, budget as u64);
    Ok(order)
}

/// Limits on the work of [`optimal`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Most variables of the program: hops at candidates, and candidates.
    pub variables: usize,
    /// Most nodes of branch and bound.
    pub nodes: u64,
}

impl Default for Limits {
    /// The first node of 10,000 variables takes some seconds; few programs need 100 nodes.
    fn default() -> Self {
        Self { variables: 10_000, nodes: 10_000 }
    }
}

/// The best placement that was found.
#[derive(Clone, Debug, PartialEq)]
pub struct Optimal {
    /// Devices to build, by number; fewer than the budget if more save nothing.
    pub devices: Vec<DeviceId>,
    /// Footprint with them.
    pub footprint: Footprint,
    /// Bound on what any placement within the budget saves.
    pub bound: f64,
    /// Nodes of branch and bound.
    pub nodes: u64,
    /// Whether the search finished: then this is the best placement. Otherwise it is the best found
    /// so far.
    pub complete: bool,
}

impl Optimal {
    /// Relative optimality gap, as a share of the bound.
    pub fn gap(&self) -> f64 {
        if self.bound > self.footprint.saved {
            (self.bound - self.footprint.saved) / self.bound
        } else {
            0.0
        }
    }
}

/// The at most `budget` candidates with which SmartRE saves most: a mixed integer program, for
/// small networks.
///
/// If the watch cancels it (after the current node) or it reaches the node limit, it returns the
/// best placement found and its gap.
///
/// # Errors
/// An unknown candidate; more variables than the limit; [`Error::Stopped`] before any placement is
/// found; a program whose numbers differ too much in size for the solver.
pub fn optimal(
    instance: &Instance,
    candidates: &[DeviceId],
    budget: usize,
    limits: &Limits,
    watch: &dyn Watch,
) -> Result<Optimal, Error> {
    let on_paths = on_paths(instance);
    let candidates: Vec<DeviceId> =
        checked(instance, candidates)?.into_iter().filter(|&device| on_paths[device]).collect();
    let candidate: BTreeSet<DeviceId> = candidates.iter().copied().collect();
    let hops = instance
        .paths
        .iter()
        .flat_map(|path| &path.hops)
        .filter(|hop| candidate.contains(&hop.device))
        .count();
    let variables = hops + candidates.len();
    if variables > limits.variables {
        return Err(SolverError::TooLarge {
            what: "variables of the placement program",
            size: variables,
            most: limits.variables,
            remedy: "use fewer ingresses or links, or rank the links",
        }
        .into());
    }
    if limits.nodes == 0 {
        return Err(SolverError::NoPlacement { nodes: 0 }.into());
    }
    watch.proceed()?;
    let part = deployed(instance, &candidates)?;
    let model = Model::new(&part, Some((&candidates, budget)));
    let mut options = SolveOptions::default();
    options.node_limit = Some(SLICE.min(limits.nodes));
    options.tolerances.feasibility = FEASIBILITY;
    let hint: BTreeSet<DeviceId> = rank(&part, Strategy::Redundancy, &candidates)?
        .iter()
        .take(budget)
        .map(|ranked| ranked.device)
        .collect();
    options.warm_start = Some(
        model
            .built
            .iter()
            .map(|&(device, built)| (built, if hint.contains(&device) { 1.0 } else { 0.0 }))
            .collect(),
    );
    let mut outcome = model.problem.solve_with(options).map_err(program_error)?;
    loop {
        let nodes = outcome.stats().nodes_solved;
        watch.progress("placement", nodes, 0);
        let unfinished = matches!(
            outcome.termination_reason(),
            TerminationReason::NodeLimit | TerminationReason::TimeLimit
        );
        if !unfinished || nodes >= limits.nodes || watch.stopped() {
            break;
        }
        let mut options = ResumeOptions::default();
        options.node_limit = Some(SLICE.min(limits.nodes - nodes));
        outcome = outcome.resume_with(options).map_err(program_error)?;
    }
    let stats = outcome.stats();
    let complete = outcome.is_optimal();
    let SolveOutcome::Solution(solution) = outcome else {
        return Err(if watch.stopped() {
            Error::Stopped
        } else {
            SolverError::NoPlacement { nodes: limits.nodes }.into()
        });
    };
    let cached = model.assignment(&part, &solution);
    // The solver's tolerance is absolute in rows scaled to 1.
    let evaluation = evaluate_within(&part, &cached, 1e3 * FEASIBILITY)?;
    evaluation.holds(&part)?;
    let used: BTreeSet<DeviceId> = part
        .paths
        .iter()
        .flat_map(|path| &path.hops)
        .zip(&cached)
        .filter(|(_, share)| **share > 0.0)
        .map(|(hop, _)| hop.device)
        .collect();
    let saved = evaluation.footprint.saved;
    let bound =
        if complete { solution.objective() } else { stats.best_bound.unwrap_or(f64::INFINITY) };
    Ok(Optimal {
        devices: used.into_iter().collect(),
        footprint: evaluation.footprint,
        bound: (bound * model.scale).max(saved),
        nodes: stats.nodes_solved,
        complete,
    })
}

/// Nodes of branch and bound between checks of the watch. A node is a linear program, which cannot
/// be interrupted; resuming costs little.
const SLICE: u64 = 1;

/// Of the mixed integer solver, absolute, in rows scaled to 1.
const FEASIBILITY: f64 = 1e-9;

fn program_error(error: microlp::Error) -> Error {
    SolverError::Failed { method: "placement", reason: error.to_string() }.into()
}

/// SmartRE's program, with or without a binary per candidate that says whether it is built.
pub(crate) struct Model {
    pub(crate) problem: Problem,
    /// d(p, r), in the order of [`Instance::hop_index`].
    cached: Vec<Variable>,
    /// Whether a device is built.
    built: Vec<(DeviceId, Variable)>,
    /// Bytes times links in one unit of the objective.
    pub(crate) scale: f64,
}

impl Model {
    /// `choice`: the candidates, which are all devices on paths, and how many of them may be built.
    pub(crate) fn new(instance: &Instance, choice: Option<(&[DeviceId], usize)>) -> Self {
        Self::weighing(instance, choice, 1.0, |_| 0.0)
    }

    /// The same with `gain` times the savings as objective, and what each device that is built adds
    /// to it.
    fn weighing(
        instance: &Instance,
        choice: Option<(&[DeviceId], usize)>,
        gain: f64,
        worth: impl Fn(DeviceId) -> f64,
    ) -> Self {
        let weight = gain;
        let (gains, operations) = coefficients(instance);
        let scale = gains.iter().copied().fold(0.0, f64::max);
        let scale = if scale > 0.0 { scale } else { 1.0 };
        let mut problem = Problem::new(OptimizationDirection::Maximize);
        // Largest share that a hop's device can hold and work through by itself. A bound per
        // variable, it makes the relaxation tighter.
        let mut most = Vec::with_capacity(gains.len());
        let mut hops_of = vec![Vec::new(); instance.devices.len()];
        for (number, path) in instance.paths.iter().enumerate() {
            let coded = instance.coded(path.ingress as usize);
            for (hop, at) in path.hops.iter().zip(instance.hop_range(number)) {
                let device = &instance.devices[hop.device];
                most.push(
                    coded.min(device.memory / path.volume).min(device.operations / operations[at]),
                );
                hops_of[hop.device].push((at, path.volume));
            }
        }
        let cached: Vec<Variable> = gains
            .iter()
            .zip(&most)
            .map(|(&gain, &most)| problem.add_var(weight * gain / scale, (0.0, most)))
            .collect();

        let mut built = Vec::new();
        if let Some((candidates, budget)) = choice {
            built.extend(
                candidates.iter().map(|&device| (device, problem.add_binary_var(worth(device)))),
            );
            problem.add_constraint(
                built.iter().map(|&(_, built)| (built, 1.0)),
                ComparisonOp::Le,
                budget as f64,
            );
        }
        let built_of: BTreeMap<DeviceId, Variable> = built.iter().copied().collect();
        for (number, path) in instance.paths.iter().enumerate() {
            let hops = instance.hop_range(number);
            if path.hops.len() > 1 {
                let cover = hops.clone().map(|at| (cached[at], 1.0));
                problem.add_constraint(
                    cover,
                    ComparisonOp::Le,
                    instance.coded(path.ingress as usize),
                );
            }
            for (hop, at) in path.hops.iter().zip(hops) {
                if let Some(&built) = built_of.get(&hop.device).filter(|_| most[at] > 0.0) {
                    problem.add_constraint(
                        [(cached[at], 1.0), (built, -most[at])],
                        ComparisonOp::Le,
                        0.0,
                    );
                }
            }
        }
        for (number, device) in instance.devices.iter().enumerate() {
            let hops = &hops_of[number];
            let built = built_of.get(&DeviceId::new(number));
            let mut row = |limit: f64, uses: &dyn Fn(&(usize, f64)) -> f64| {
                // A limit of 0 is in the variables' bounds, and one that they cannot reach is none.
                if limit > 0.0
                    && hops.iter().map(|hop| uses(hop) * most[hop.0]).sum::<f64>() > limit
                {
                    let terms = hops.iter().map(|hop| (cached[hop.0], uses(hop) / limit));
                    let (built, right) =
                        built.map_or((None, 1.0), |&built| (Some((built, -1.0)), 0.0));
                    problem.add_constraint(terms.chain(built), ComparisonOp::Le, right);
                }
            };
            row(device.memory, &|hop| hop.1);
            row(device.operations, &|hop| operations[hop.0]);
        }
        for (store, slices) in instance.stores().enumerate() {
            let (coded, memory) = (instance.coded(slices.start), instance.store_memory(store).0);
            let volume: f64 = instance.ingresses[slices.clone()].iter().map(|one| one.volume).sum();
            if volume * coded > memory {
                let terms = slices.flat_map(|one| instance.paths_of(one)).flat_map(|path| {
                    let volume = instance.paths[path].volume;
                    instance.hop_range(path).map(move |at| (at, volume))
                });
                problem.add_constraint(
                    terms.map(|(at, volume)| (cached[at], volume / memory)),
                    ComparisonOp::Le,
                    1.0,
                );
            }
        }
        Self { problem, cached, built, scale }
    }

    /// d(p, r) of a solution, without what rounding leaves below 0 and at devices that are not
    /// built.
    pub(crate) fn assignment(&self, instance: &Instance, solution: &microlp::Solution) -> Vec<f64> {
        let absent: BTreeSet<DeviceId> = self
            .built
            .iter()
            .filter(|(_, built)| solution.var_value(*built) < 0.5)
            .map(|&(device, _)| device)
            .collect();
        let hops = instance.paths.iter().flat_map(|path| &path.hops);
        self.cached
            .iter()
            .zip(hops)
            .map(|(&share, hop)| {
                if absent.contains(&hop.device) { 0.0 } else { solution.var_value(share).max(0.0) }
            })
            .collect()
    }
}

/// Per hop r of each path q: footprint saved and operations taken by one unit of d(q, r).
fn coefficients(instance: &Instance) -> (Vec<f64>, Vec<f64>) {
    let mut gains = vec![0.0; instance.hop_count()];
    let mut operations = vec![0.0; instance.hop_count()];
    for ingress in 0..instance.ingresses.len() {
        let coded = instance.coded(ingress);
        for q in instance.paths_of(ingress) {
            for at in instance.hop_range(q) {
                operations[at] = instance.paths[q].volume / instance.packet.0;
            }
            for p in instance.paths_of(ingress) {
                let found = instance.matches(p, q);
                if found.count == 0.0 {
                    continue;
                }
                // What two paths of an ingress have in common comes first on both.
                let hops = instance.paths[q].hops.iter().zip(&*instance.paths[p].hops);
                for ((hop, _), at) in hops.take_while(|(a, b)| a == b).zip(instance.hop_range(q)) {
                    gains[at] += f64::from(hop.saves) * coded * found.bytes();
                    operations[at] += coded * found.count;
                }
            }
        }
    }
    (gains, operations)
}

/// Footprint saved with these devices.
fn saved_by(
    instance: &Instance,
    devices: &[DeviceId],
    solve: &dyn Fn(&Instance) -> Result<Solution, Error>,
) -> Result<Footprint, Error> {
    if devices.is_empty() {
        return Ok(Footprint { before: instance.footprint(), saved: 0.0 });
    }
    let part = deployed(instance, devices)?;
    let solution = solve(&part)?;
    Ok(evaluate_solution(&part, &solution)?.footprint)
}

/// The candidates in order, each once.
fn checked(instance: &Instance, candidates: &[DeviceId]) -> Result<Vec<DeviceId>, Error> {
    let candidates: BTreeSet<DeviceId> = candidates.iter().copied().collect();
    match candidates.last() {
        Some(&last) if last.index() >= instance.devices.len() => Err(DeviceError::Index {
            what: "device",
            index: last.index(),
            count: instance.devices.len(),
        }
        .into()),
        _ => Ok(candidates.into_iter().collect()),
    }
}

/// Whether any path meets a device.
fn on_paths(instance: &Instance) -> Vec<bool> {
    let mut on_paths = vec![false; instance.devices.len()];
    for hop in instance.paths.iter().flat_map(|path| &path.hops) {
        on_paths[hop.device] = true;
    }
    on_paths
}

#[cfg(test)]
mod tests;
