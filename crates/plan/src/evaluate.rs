//! The value of an assignment of caches, computed from the definitions: pair by pair of paths,
//! device by device. It shares no code with what builds and solves the linear program, so that each
//! checks the other (`docs/PLANNERS.md`, "Checks").

pub(crate) mod copies;

mod hours;

pub use copies::with_copies;
pub use hours::check_hours;
use rayon::prelude::*;

use crate::{
    DeviceId, Error, Instance, NodeId, Profile, Solution,
    error::{SolverError, TopologyError},
    lp::Objective,
};

/// Tolerance for limits, as a share of the limit.
pub const TOLERANCE: f64 = 1e-9;

/// Largest relative difference between a solver's objective and the evaluation.
pub const AGREEMENT: f64 = 1e-6;

/// Effect of an assignment on a network, per retention epoch. Lists are in the order of the
/// instance's.
#[derive(Clone, Debug, PartialEq)]
pub struct Evaluation {
    /// Of all traffic.
    pub footprint: Footprint,
    /// Each ingress.
    pub ingresses: Vec<IngressUse>,
    /// Each link.
    pub links: Vec<LinkLoad>,
    /// Each device.
    pub devices: Vec<DeviceUse>,
    /// Share of each path's packets that some device caches: the sum of d(p, r) over r.
    pub covered: Vec<f64>,
    /// Bytes of path p that hop r decodes, in the order of [`Instance::hop_index`].
    pub decoded_bytes: Vec<f64>,
    /// Matches of path p that hop r decodes, in the same order.
    pub decoded_matches: Vec<f64>,
    /// Constraints that the assignment breaks; empty if it is feasible.
    pub violations: Vec<Violation>,
}

/// Bytes times links.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Footprint {
    /// Without redundancy elimination.
    pub before: f64,
    /// The part that is saved.
    pub saved: f64,
}

impl Footprint {
    /// With redundancy elimination.
    pub fn after(&self) -> f64 {
        self.before - self.saved
    }

    /// Share that is saved; 0 of nothing.
    pub fn reduction(&self) -> f64 {
        if self.before > 0.0 { self.saved / self.before } else { 0.0 }
    }
}

/// How much of a limit is used.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Use {
    /// Amount used.
    pub used: f64,
    /// The limit.
    pub limit: f64,
}

impl Use {
    /// Share of the limit that is used; 0 if nothing is, whatever the limit.
    pub fn share(&self) -> f64 {
        if self.used == 0.0 { 0.0 } else { self.used / self.limit }
    }

    /// Whether the use exceeds the limit by more than a share `tolerance` of it. A billionth of a
    /// unit is ignored, for rounding at a limit of 0.
    fn exceeded(&self, tolerance: f64) -> bool {
        self.used > self.limit + (tolerance * self.limit).max(1e-9)
    }
}

/// An ingress's traffic and store.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct IngressUse {
    /// Of its traffic.
    pub footprint: Footprint,
    /// The packet store of its node in bytes, used by all slices of the node.
    pub memory: Use,
}

/// Load of a link.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LinkLoad {
    /// Bytes per epoch without redundancy elimination.
    pub before: f64,
    /// Bytes per epoch with it.
    pub after: f64,
    /// Share of the capacity that these take, before and after; none if the capacity is not known.
    pub utilization: Option<[f64; 2]>,
}

/// Use of a device.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DeviceUse {
    /// Its cache in bytes.
    pub memory: Use,
    /// Its operations: `cached` and `decoded`.
    pub operations: Use,
    /// Packets that it caches.
    pub cached: f64,
    /// Matches that it decodes.
    pub decoded: f64,
}

/// A constraint that is broken, and by how much.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum Violation {
    /// d(p, r) is below 0.
    Negative {
        /// Index of the path.
        path: usize,
        /// Index of the device.
        device: usize,
        /// Its share.
        share: f64,
    },
    /// More of a path is cached than its ingress encodes.
    Cover {
        /// Index of the path.
        path: usize,
        /// Shares; the limit is [`Instance::coded`].
        cover: Use,
    },
    /// A device's cache is too small.
    Memory {
        /// Index of the device.
        device: usize,
        /// Bytes.
        memory: Use,
    },
    /// A device is too slow.
    Operations {
        /// Index of the device.
        device: usize,
        /// Operations per epoch.
        operations: Use,
    },
    /// An ingress's store is too small.
    IngressMemory {
        /// Index of the ingress: the first of those that share the store.
        ingress: usize,
        /// Bytes.
        memory: Use,
    },
    /// The solver's objective differs from the evaluation.
    Objective {
        /// The solver's value.
        said: f64,
        /// The evaluated value.
        found: f64,
    },
    /// The solution is better than the solver's bound on all solutions.
    Bound {
        /// The bound.
        bound: f64,
        /// The evaluated value.
        found: f64,
    },
}

impl Violation {
    /// One line for an operator.
    pub fn words(&self, instance: &Instance) -> String {
        let id = |node: NodeId| &instance.network.nodes[node].id;
        let device = |device: usize| instance.device_name(device);
        let ingress = |ingress: usize| id(instance.ingresses[ingress].node);
        let path = |path: usize| {
            let path = &instance.paths[path];
            format!("the path from {} to {}", ingress(path.ingress as usize), id(path.egress))
        };
        match *self {
            Self::Negative { path: of, device: at, share } => {
                format!("{} caches a share of {share} of {}; none is below 0", device(at), path(of))
            }
            Self::Cover { path: of, cover } => {
                format!(
                    "devices cache {} of {}; its ingress encodes {}",
                    cover.used,
                    path(of),
                    cover.limit
                )
            }
            Self::Memory { device: at, memory } => {
                format!(
                    "the device of {} caches {} bytes; it holds {}",
                    device(at),
                    memory.used,
                    memory.limit
                )
            }
            Self::Operations { device: at, operations } => {
                format!(
                    "the device of {} has {} operations per epoch; it can do {}",
                    device(at),
                    operations.used,
                    operations.limit
                )
            }
            Self::IngressMemory { ingress: at, memory } => {
                format!(
                    "the ingress {} stores {} bytes; it holds {}",
                    ingress(at),
                    memory.used,
                    memory.limit
                )
            }
            Self::Objective { said, found } => {
                format!("the solver says {said}; the plan is worth {found}")
            }
            Self::Bound { bound, found } => {
                format!(
                    "the solver says that nothing is better than {bound}; the plan is worth {found}"
                )
            }
        }
    }
}

impl Evaluation {
    /// Highest utilization of a link whose capacity is known, after redundancy elimination; none if
    /// no capacity is known.
    pub fn highest_utilization(&self) -> Option<f64> {
        self.links
            .iter()
            .filter_map(|link| link.utilization)
            .map(|[_, after]| after)
            .reduce(f64::max)
    }

    /// Returns an error that names the first broken constraint. `instance` is the one that was
    /// evaluated.
    ///
    /// # Errors
    /// A constraint is broken.
    pub fn holds(&self, instance: &Instance) -> Result<(), Error> {
        let Some(first) = self.violations.first() else { return Ok(()) };
        Err(SolverError::Violations { count: self.violations.len(), first: first.words(instance) }
            .into())
    }
}

/// Evaluates the assignment `cached`, d(p, r) in the order of [`Instance::hop_index`]: the rules
/// (3.1) to (3.4) of the thesis and our limits of ingresses, with [`TOLERANCE`].
///
/// # Errors
/// Not one number per hop, or not all finite.
pub fn evaluate(instance: &Instance, cached: &[f64]) -> Result<Evaluation, Error> {
    evaluate_within(instance, cached, TOLERANCE)
}

/// [`evaluate`] with another tolerance, a share of each limit.
///
/// # Errors
/// Not one number per hop, or not all finite.
pub fn evaluate_within(
    instance: &Instance,
    cached: &[f64],
    tolerance: f64,
) -> Result<Evaluation, Error> {
    if cached.len() != instance.hop_count() {
        return Err(SolverError::Count { shares: cached.len(), hops: instance.hop_count() }.into());
    }
    if let Some(&share) = cached.iter().find(|share| !share.is_finite()) {
        return Err(SolverError::Share { share }.into());
    }
    let (decoded_bytes, decoded_matches) = decode(instance, cached);
    let mut violations = Vec::new();

    let mut ingresses: Vec<IngressUse> = instance
        .ingresses
        .iter()
        .map(|ingress| IngressUse {
            footprint: Footprint::default(),
            memory: Use { used: 0.0, limit: ingress.memory },
        })
        .collect();
    let mut devices: Vec<DeviceUse> = instance
        .devices
        .iter()
        .map(|device| DeviceUse {
            memory: Use { used: 0.0, limit: device.memory },
            operations: Use { used: 0.0, limit: device.operations },
            cached: 0.0,
            decoded: 0.0,
        })
        .collect();
    let mut saved_on_link = vec![0.0; instance.network.links.len()];
    let mut covered = Vec::with_capacity(instance.paths.len());
    for (number, path) in instance.paths.iter().enumerate() {
        let hops = instance.hop_range(number);
        let ingress = &mut ingresses[path.ingress as usize];
        ingress.footprint.before += path.volume * f64::from(path.length);
        let mut cover = 0.0;
        for (hop, at) in path.hops.iter().zip(hops) {
            let share = cached[at];
            cover += share;
            if share < -tolerance {
                violations.push(Violation::Negative {
                    path: number,
                    device: hop.device.index(),
                    share,
                });
            }
            let device = &mut devices[hop.device];
            device.memory.used += share * path.volume;
            device.cached += share * path.volume / instance.packet.0;
            device.decoded += decoded_matches[at];
            ingress.footprint.saved += f64::from(hop.saves) * decoded_bytes[at];
            for &link in &path.links[..hop.distance as usize] {
                saved_on_link[link] += decoded_bytes[at];
            }
        }
        ingress.memory.used += cover * path.volume;
        let cover_use = Use { used: cover, limit: instance.coded(path.ingress as usize) };
        if cover_use.exceeded(tolerance) {
            violations.push(Violation::Cover { path: number, cover: cover_use });
        }
        covered.push(cover);
    }
    let mut footprint = Footprint::default();
    for ingress in &ingresses {
        footprint.before += ingress.footprint.before;
        footprint.saved += ingress.footprint.saved;
    }
    for slices in instance.stores() {
        let (first, sharing) = (slices.start, &mut ingresses[slices]);
        let used = sharing.iter().map(|slice| slice.memory.used).sum();
        let memory = Use { used, limit: sharing[0].memory.limit };
        sharing.iter_mut().for_each(|slice| slice.memory = memory);
        if memory.exceeded(tolerance) {
            violations.push(Violation::IngressMemory { ingress: first, memory });
        }
    }
    for (number, device) in devices.iter_mut().enumerate() {
        device.operations.used = device.cached + device.decoded;
        if device.memory.exceeded(tolerance) {
            violations.push(Violation::Memory { device: number, memory: device.memory });
        }
        if device.operations.exceeded(tolerance) {
            violations
                .push(Violation::Operations { device: number, operations: device.operations });
        }
    }
    Ok(Evaluation {
        footprint,
        ingresses,
        links: link_loads(instance, &saved_on_link),
        devices,
        covered,
        decoded_bytes,
        decoded_matches,
        violations,
    })
}

/// Each link's bytes and utilization, with these bytes saved on it.
fn link_loads(instance: &Instance, saved: &[f64]) -> Vec<LinkLoad> {
    instance
        .link_volumes()
        .into_iter()
        .zip(saved)
        .zip(&instance.network.links)
        .map(|((before, saved), link)| {
            let after = before - saved;
            let utilization = link.capacity.map(|capacity| {
                [before, after].map(|bytes| bytes * 8.0 / instance.epoch.0 / capacity.0)
            });
            LinkLoad { before, after, utilization }
        })
        .collect()
}

/// [`evaluate`] of what a solver found for the footprint, with two more rules: the objective is the
/// footprint saved, to [`AGREEMENT`], and is not better than the bound.
///
/// # Errors
/// Not one number per hop, or not all finite.
pub fn check(instance: &Instance, solution: &Solution) -> Result<Evaluation, Error> {
    let mut evaluation = evaluate(instance, &solution.cached)?;
    let found = evaluation.footprint.saved;
    let near = AGREEMENT * found.abs().max(AGREEMENT * evaluation.footprint.before);
    agree(&mut evaluation, solution, found, near, |bound| found > bound + near);
    Ok(evaluation)
}

/// [`check`] for the objective of link load: the highest utilization of a link.
///
/// # Errors
/// Not one number per hop, or not all finite; no link's capacity is known.
pub fn check_load(instance: &Instance, solution: &Solution) -> Result<Evaluation, Error> {
    let mut evaluation = evaluate(instance, &solution.cached)?;
    let found = evaluation.highest_utilization().ok_or(TopologyError::NoCapacities)?;
    let near = AGREEMENT * found.abs();
    agree(&mut evaluation, solution, found, near, |bound| found < bound - near);
    Ok(evaluation)
}

/// [`check`] or [`check_load`], depending on the objective; links of unknown capacity have the
/// objective's.
///
/// # Errors
/// As those.
pub fn check_for(
    instance: &Instance,
    solution: &Solution,
    objective: &Objective,
) -> Result<Evaluation, Error> {
    match *objective {
        Objective::Footprint => check(instance, solution),
        Objective::LinkLoad { capacity: None } => check_load(instance, solution),
        Objective::LinkLoad { capacity } => {
            let mut instance = instance.clone();
            instance
                .network
                .links
                .iter_mut()
                .for_each(|link| link.capacity = link.capacity.or(capacity));
            check_load(&instance, solution)
        }
    }
}

fn agree(
    evaluation: &mut Evaluation,
    solution: &Solution,
    found: f64,
    near: f64,
    beaten: impl Fn(f64) -> bool,
) {
    // Written so that NaN does not agree.
    let agrees = (solution.objective - found).abs() <= near;
    if !agrees {
        evaluation.violations.push(Violation::Objective { said: solution.objective, found });
    }
    if solution.bound.is_nan() || beaten(solution.bound) {
        evaluation.violations.push(Violation::Bound { bound: solution.bound, found });
    }
}

/// Bytes and matches of each path that each of its hops decodes: for hop r of path p, the sum over
/// the paths q that r also caches of d(q, r) b(p, q) and of d(q, r) m(p, q).
fn decode(instance: &Instance, cached: &[f64]) -> (Vec<f64>, Vec<f64>) {
    let of_ingress: Vec<(Vec<f64>, Vec<f64>)> = (0..instance.ingresses.len())
        .into_par_iter()
        .map_init(
            || vec![NOT_ON_PATH; instance.devices.len()],
            |slots, ingress| decode_ingress(instance, ingress, cached, slots),
        )
        .collect();
    let mut bytes = Vec::with_capacity(instance.hop_count());
    let mut matches = Vec::with_capacity(instance.hop_count());
    for (of_bytes, of_matches) in of_ingress {
        bytes.extend(of_bytes);
        matches.extend(of_matches);
    }
    (bytes, matches)
}

const NOT_ON_PATH: u32 = u32::MAX;

/// `slots`: of each device its number among path p's hops; [`NOT_ON_PATH`] before and after.
fn decode_ingress(
    instance: &Instance,
    ingress: usize,
    cached: &[f64],
    slots: &mut [u32],
) -> (Vec<f64>, Vec<f64>) {
    let paths = instance.paths_of(ingress);
    let coded = instance.coded(ingress);
    // What each path has in which device, without the empty ones, in one piece: this is read for
    // every pair.
    let mut caches: Vec<(DeviceId, f64)> = Vec::new();
    let mut ends = vec![0];
    for q in paths.clone() {
        let hops = instance.paths[q].hops.iter().zip(&cached[instance.hop_range(q)]);
        caches.extend(
            hops.filter(|(_, share)| **share != 0.0).map(|(hop, share)| (hop.device, *share)),
        );
        ends.push(caches.len());
    }
    let first = instance.hop_index(paths.start, 0);
    let hops = instance.hop_index(paths.end, 0) - first;
    let (mut all_bytes, mut all_matches) = (vec![0.0; hops], vec![0.0; hops]);
    let mut pairs = Vec::new();
    for p in paths.clone() {
        let on_path = &instance.paths[p].hops;
        for (hop, slot) in on_path.iter().zip(0..) {
            slots[hop.device] = slot;
        }
        let range = instance.hop_range(p);
        let bytes = &mut all_bytes[range.start - first..range.end - first];
        let matches = &mut all_matches[range.start - first..range.end - first];
        matches_of(instance, p, &mut pairs);
        for pair in &pairs {
            let q = pair.q - paths.start;
            let count = coded * pair.count;
            for &(device, share) in &caches[ends[q]..ends[q + 1]] {
                let slot = slots[device];
                if slot != NOT_ON_PATH {
                    bytes[slot as usize] += share * count * pair.length;
                    matches[slot as usize] += share * count;
                }
            }
        }
        for hop in on_path {
            slots[hop.device] = NOT_ON_PATH;
        }
    }
    (all_bytes, all_matches)
}

/// What a path has in common with path `q`: [`Instance::matches`], where it is not nothing.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Pair {
    pub(crate) q: usize,
    pub(crate) count: f64,
    pub(crate) length: f64,
}

/// All that path `p` has matches with, with what does not depend on q worked out once. The rules of
/// synthetic profiles are those of `docs/PLANNERS.md`; a test holds this to [`Instance::matches`].
pub(crate) fn matches_of(instance: &Instance, p: usize, pairs: &mut Vec<Pair>) {
    pairs.clear();
    match &instance.profile {
        Profile::Synthetic(profile) => {
            let path = &instance.paths[p];
            let ingress = &instance.ingresses[path.ingress as usize];
            let redundant = profile.gamma_of(ingress.node) * path.volume / profile.length;
            let in_path = redundant * profile.intrapop * profile.intrapath;
            let in_pop = redundant * profile.intrapop * (1.0 - profile.intrapath);
            let in_others = redundant * (1.0 - profile.intrapop);
            // Volume of the paths beside this one to its PoP, and of those to other PoPs.
            // Differences of sums in different orders are not quite 0 where they should be, hence
            // the marks.
            let beside = if path.alone_in_pop { 0.0 } else { path.pop_volume - path.volume };
            let beyond = if ingress.one_pop { 0.0 } else { ingress.volume - path.pop_volume };
            let own = in_path
                + if beside > 0.0 { 0.0 } else { in_pop }
                + if beyond > 0.0 { 0.0 } else { in_others };
            let per_byte_in_pop = if beside > 0.0 { in_pop / beside } else { 0.0 };
            let per_byte_beyond = if beyond > 0.0 { in_others / beyond } else { 0.0 };
            for q in instance.paths_of(path.ingress as usize) {
                let other = &instance.paths[q];
                let count = if q == p {
                    own
                } else if other.pop == path.pop {
                    per_byte_in_pop * other.volume
                } else {
                    per_byte_beyond * other.volume
                };
                if count != 0.0 {
                    pairs.push(Pair { q, count, length: profile.length });
                }
            }
        }
        Profile::Measured(profile) => {
            let found = profile.of_path(p as u32).iter().filter(|(.., found)| found.count > 0.0);
            pairs.extend(found.map(|&(_, q, found)| Pair {
                q: q as usize,
                count: found.count,
                length: found.length,
            }));
        }
    }
}

#[cfg(test)]
mod tests;
