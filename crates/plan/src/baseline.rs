//! Schemes that SmartRE is compared with (thesis, section 3.5): no redundancy elimination,
//! hop-by-hop with and without limits, decoding at the edge only, two heuristics, and SmartRE
//! without some limits. `docs/PLANNERS.md`, "Baselines", defines each.

mod hop;

use std::{cell::OnceCell, fmt};

use rayon::prelude::*;

pub use hop::{Budget, HopByHop, Pair, Within};

use crate::{
    DeviceId, Error, Instance, LinkId, Solution, Watch,
    cost::Cost,
    evaluate::{Evaluation, Footprint, evaluate, matches_of},
};

/// A way to remove redundancy from a network.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Scheme {
    /// None.
    Nothing,
    /// Each link on its own, with the devices' limits.
    HopByHop,
    /// SmartRE with decoders only at the end of each path.
    EdgeOnly,
    /// Heur1: each device on a path caches the same share of it.
    Equal,
    /// Heur2: the i-th device on a path caches a share in proportion to i.
    ByDistance,
    /// SmartRE.
    SmartRe,
    /// SmartRE-nomem: devices of infinite memory.
    NoMemoryLimits,
    /// SmartRE-noproc: devices of infinite speed.
    NoProcessingLimits,
    /// SmartRE with devices of infinite memory and speed. Ideal saves more because its caches may
    /// overlap.
    NoLimits,
    /// Each link on its own, without any limit, on all links.
    Ideal,
}

impl Scheme {
    /// All, in the order of [`compare`].
    pub const ALL: [Self; 10] = [
        Self::Nothing,
        Self::HopByHop,
        Self::EdgeOnly,
        Self::Equal,
        Self::ByDistance,
        Self::SmartRe,
        Self::NoMemoryLimits,
        Self::NoProcessingLimits,
        Self::NoLimits,
        Self::Ideal,
    ];

    /// Those that a verdict needs. Comparing with the others takes several times as long as the plan.
    pub const DIRECT: [Self; 4] = [Self::Nothing, Self::HopByHop, Self::SmartRe, Self::Ideal];

    /// Name in tables: the thesis's name where it has one.
    pub fn name(self) -> &'static str {
        match self {
            Self::Nothing => "none",
            Self::HopByHop => "hop-by-hop",
            Self::EdgeOnly => "edge-only",
            Self::Equal => "Heur1 (equal)",
            Self::ByDistance => "Heur2 (distance)",
            Self::SmartRe => "SmartRE",
            Self::NoMemoryLimits => "SmartRE-nomem",
            Self::NoProcessingLimits => "SmartRE-noproc",
            Self::NoLimits => "SmartRE, no limits",
            Self::Ideal => "Ideal",
        }
    }
}

impl fmt::Display for Scheme {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// Effect of a scheme on a network, per retention epoch.
#[derive(Clone, Debug, PartialEq)]
pub struct Comparison {
    /// Which scheme.
    pub scheme: Scheme,
    /// Of all traffic.
    pub footprint: Footprint,
    /// Of each ingress's traffic.
    pub ingresses: Vec<Footprint>,
    /// Bytes on each link, with the scheme.
    pub links: Vec<f64>,
    /// d(p, r) in the order of [`Instance::hop_index`] of the instance that was compared, if the
    /// scheme assigns shares.
    pub cached: Option<Vec<f64>>,
    /// Relative optimality gap, as [`Solution::gap`]; 0 for schemes without a search.
    pub gap: f64,
    /// What it takes; `None` for [`Scheme::Ideal`], which has no devices.
    pub cost: Option<Cost>,
}

impl Comparison {
    /// Of shares for `instance`, the one that was evaluated or one with more hops.
    fn of(
        scheme: Scheme,
        instance: &Instance,
        evaluation: &Evaluation,
        cached: Vec<f64>,
        gap: f64,
    ) -> Self {
        Self {
            scheme,
            cost: Some(Cost::of_shares(instance, &cached, evaluation)),
            footprint: evaluation.footprint,
            ingresses: evaluation.ingresses.iter().map(|ingress| ingress.footprint).collect(),
            links: evaluation.links.iter().map(|link| link.after).collect(),
            cached: Some(cached),
            gap,
        }
    }
}

/// No redundancy elimination.
pub fn nothing(instance: &Instance) -> Comparison {
    let none = vec![Vec::new(); instance.ingresses.len()];
    let comparison = link_by_link(instance, Scheme::Nothing, &none, |_| 0.0);
    Comparison { cost: Some(Cost::default()), ..comparison }
}

/// Ideal: each link removes every match with traffic on the same link, without limits or devices.
pub fn ideal(instance: &Instance) -> Comparison {
    link_by_link(instance, Scheme::Ideal, &matches_on_links(instance), |_| 1.0)
}

/// Hop-by-hop with the devices' limits ([`HopByHop`]).
pub fn hop_by_hop(instance: &Instance) -> Comparison {
    HopByHop::and_comparison(instance, &matches_on_links(instance)).1
}

/// The instance with decoders only where paths end: each path keeps the device at its egress.
/// SmartRE on it is edge-only redundancy elimination.
///
/// # Errors
/// None in practice, because a path has one end.
pub fn edge_only(instance: &Instance) -> Result<Instance, Error> {
    instance
        .restricted(|path, hop| instance.devices[hop.device].node == instance.paths[path].egress)
}

/// Heur1: each of a path's k devices caches 1/k of what its ingress encodes, scaled down where a
/// device or the ingress cannot do that. An assignment for [`evaluate`].
pub fn equal(instance: &Instance) -> Vec<f64> {
    by_weight(instance, |_| 1.0)
}

/// Heur2: the i-th of a path's devices caches i / (1 + 2 + ...) of what its ingress encodes, scaled
/// down where a device or the ingress cannot do that. An assignment for [`evaluate`].
pub fn by_distance(instance: &Instance) -> Vec<f64> {
    by_weight(instance, |position| position as f64)
}

/// `weight`: of a path's device at a position, from 1.
fn by_weight(instance: &Instance, weight: impl Fn(usize) -> f64) -> Vec<f64> {
    let mut cached = Vec::with_capacity(instance.hop_count());
    for path in &instance.paths {
        let coded = instance.coded(path.ingress as usize);
        let all: f64 = (1..=path.hops.len()).map(&weight).sum();
        cached.extend((1..=path.hops.len()).map(|position| coded * weight(position) / all));
    }
    capped(instance, cached)
}

/// Scales an assignment down until it holds all limits: each device to what its memory and
/// operations allow, then all paths of each ingress node to what its memory allows. `cached`
/// is finite, at least 0, and within the cover of each path.
pub(crate) fn capped(instance: &Instance, mut cached: Vec<f64>) -> Vec<f64> {
    let evaluation = evaluate(instance, &cached).expect("one finite share per hop");
    let factor = |used: f64, limit: f64| if used > limit { limit / used } else { 1.0 };
    // What a device uses is in proportion to its own shares alone, so one step is enough; what it
    // then uses only falls with the ingress's step.
    let devices: Vec<f64> = evaluation
        .devices
        .iter()
        .map(|device| {
            factor(device.memory.used, device.memory.limit)
                .min(factor(device.operations.used, device.operations.limit))
        })
        .collect();
    let store_of = |path: &crate::Path| instance.ingresses[path.ingress as usize].store as usize;
    let mut stored = vec![0.0; instance.store_count()];
    for (number, path) in instance.paths.iter().enumerate() {
        for (hop, share) in path.hops.iter().zip(&mut cached[instance.hop_range(number)]) {
            *share *= devices[hop.device];
            stored[store_of(path)] += *share * path.volume;
        }
    }
    for (number, path) in instance.paths.iter().enumerate() {
        let store = store_of(path);
        let factor = factor(stored[store], instance.store_memory(store).0);
        cached[instance.hop_range(number)].iter_mut().for_each(|share| *share *= factor);
    }
    cached
}

/// All schemes on one instance, in the order of [`Scheme::ALL`], as [`compare_with`].
///
/// # Errors
/// As [`compare_with`].
pub fn compare(
    instance: &Instance,
    solve: &dyn Fn(&Instance) -> Result<Solution, Error>,
    watch: &dyn Watch,
) -> Result<Vec<Comparison>, Error> {
    compare_with(instance, &Scheme::ALL, solve, watch)
}

/// These schemes on one instance, in the order given. `solve` finds the best SmartRE of an instance
/// for the footprint; its solution is evaluated here, against the limits of the instance it was
/// given.
///
/// # Errors
/// Those of `solve`; a solution that breaks a constraint; [`Error::Stopped`].
pub fn compare_with(
    instance: &Instance,
    schemes: &[Scheme],
    solve: &dyn Fn(&Instance) -> Result<Solution, Error>,
    watch: &dyn Watch,
) -> Result<Vec<Comparison>, Error> {
    let solved = |scheme, variant: &Instance| -> Result<Comparison, Error> {
        let solution = solve(variant)?;
        let evaluation = evaluate_solution(variant, &solution)?;
        Ok(Comparison::of(
            scheme,
            instance,
            &evaluation,
            spread(instance, variant, &solution.cached),
            solution.gap(),
        ))
    };
    let ruled = |scheme, cached: Vec<f64>| -> Result<Comparison, Error> {
        let evaluation = evaluate(instance, &cached)?;
        evaluation.holds(instance)?;
        Ok(Comparison::of(scheme, instance, &evaluation, cached, 0.0))
    };
    let on_links = OnceCell::new();
    let on_links = || on_links.get_or_init(|| matches_on_links(instance));
    let mut outcomes = Vec::with_capacity(schemes.len());
    for (done, &scheme) in (0..).zip(schemes) {
        watch.progress("baselines", done, schemes.len() as u64);
        watch.proceed()?;
        outcomes.push(match scheme {
            Scheme::Nothing => nothing(instance),
            Scheme::HopByHop => HopByHop::and_comparison(instance, on_links()).1,
            Scheme::EdgeOnly => solved(scheme, &edge_only(instance)?)?,
            Scheme::Equal => ruled(scheme, equal(instance))?,
            Scheme::ByDistance => ruled(scheme, by_distance(instance))?,
            Scheme::SmartRe => solved(scheme, instance)?,
            Scheme::NoMemoryLimits => solved(scheme, &instance.clone().relaxed(true, false))?,
            Scheme::NoProcessingLimits => solved(scheme, &instance.clone().relaxed(false, true))?,
            Scheme::NoLimits => solved(scheme, &instance.clone().relaxed(true, true))?,
            Scheme::Ideal => link_by_link(instance, scheme, on_links(), |_| 1.0),
        });
    }
    watch.progress("baselines", schemes.len() as u64, schemes.len() as u64);
    Ok(outcomes)
}

/// Evaluates a solution; an error if it breaks a constraint or misstates its value.
pub(crate) fn evaluate_solution(
    instance: &Instance,
    solution: &Solution,
) -> Result<Evaluation, Error> {
    let evaluation = crate::evaluate::check(instance, solution)?;
    evaluation.holds(instance)?;
    Ok(evaluation)
}

/// Extends an assignment for a variant with fewer hops to the whole instance: missing hops cache
/// nothing.
fn spread(whole: &Instance, variant: &Instance, cached: &[f64]) -> Vec<f64> {
    let mut all = vec![0.0; whole.hop_count()];
    for path in 0..whole.paths.len() {
        let mut kept =
            variant.paths[path].hops.iter().zip(&cached[variant.hop_range(path)]).peekable();
        for (hop, share) in whole.paths[path].hops.iter().zip(&mut all[whole.hop_range(path)]) {
            if let Some((_, kept)) = kept.next_if(|(kept, _)| kept.device == hop.device) {
                *share = *kept;
            }
        }
    }
    all
}

/// What the paths of one ingress have in common on a link.
#[derive(Clone, Copy, Debug, PartialEq)]
struct OnLink {
    link: LinkId,
    matches: f64,
    bytes: f64,
}

/// Per ingress, the matches between paths that both take a link, for each link that has any.
fn matches_on_links(instance: &Instance) -> Vec<Vec<OnLink>> {
    let trees = instance.check_trees().is_ok();
    (0..instance.ingresses.len())
        .into_par_iter()
        .map_init(
            || (vec![u32::MAX; instance.network.links.len()], Vec::new()),
            |(slots, pairs), ingress| {
                let mut on_links: Vec<OnLink> = Vec::new();
                // Matches and bytes that path p has in common with paths that part from it after so
                // many links; if paths do not form trees, with paths that have its link before that.
                let mut part: Vec<(f64, f64)> = Vec::new();
                for p in instance.paths_of(ingress) {
                    let links = &instance.paths[p].links;
                    part.clear();
                    part.resize(links.len() + 1, (0.0, 0.0));
                    matches_of(instance, p, pairs);
                    for pair in pairs.iter() {
                        let others = &*instance.paths[pair.q].links;
                        let mut add = |at: usize| {
                            part[at].0 += pair.count;
                            part[at].1 += pair.count * pair.length;
                        };
                        if trees {
                            // Two paths share a prefix.
                            add(links.iter().zip(others).take_while(|(a, b)| a == b).count());
                        } else {
                            let shared = links.iter().zip(1..);
                            shared
                                .filter(|(link, _)| others.contains(link))
                                .for_each(|(_, at)| add(at));
                        }
                    }
                    let (mut matches, mut bytes) = (0.0, 0.0);
                    for (&link, (part_matches, part_bytes)) in links.iter().zip(&part[1..]).rev() {
                        if !trees {
                            (matches, bytes) = (0.0, 0.0);
                        }
                        matches += part_matches;
                        bytes += part_bytes;
                        let slot = &mut slots[link];
                        if *slot == u32::MAX {
                            *slot = on_links.len() as u32;
                            on_links.push(OnLink { link, matches: 0.0, bytes: 0.0 });
                        }
                        let on_link = &mut on_links[*slot as usize];
                        on_link.matches += matches;
                        on_link.bytes += bytes;
                    }
                }
                on_links.iter().for_each(|on_link| slots[on_link.link] = u32::MAX);
                on_links
            },
        )
        .collect()
}

/// The device that each link's traffic meets at its head.
fn devices_of_links(instance: &Instance) -> Vec<Option<DeviceId>> {
    let mut of_link = vec![None; instance.network.links.len()];
    for path in &instance.paths {
        for hop in &path.hops {
            of_link[path.links[hop.distance as usize - 1]] = Some(hop.device);
        }
    }
    of_link
}

/// The outcome of removing a share of the matched bytes on each link.
fn link_by_link(
    instance: &Instance,
    scheme: Scheme,
    on_links: &[Vec<OnLink>],
    share: impl Fn(LinkId) -> f64,
) -> Comparison {
    let mut links = instance.link_volumes();
    let mut ingresses = vec![Footprint::default(); instance.ingresses.len()];
    for path in &instance.paths {
        ingresses[path.ingress as usize].before += path.volume * f64::from(path.length);
    }
    for (ingress, on_links) in ingresses.iter_mut().zip(on_links) {
        for on_link in on_links {
            let saved = share(on_link.link) * on_link.bytes;
            ingress.saved += if instance.counted[on_link.link] { saved } else { 0.0 };
            links[on_link.link] -= saved;
        }
    }
    let footprint = ingresses.iter().fold(Footprint::default(), |sum, ingress| Footprint {
        before: sum.before + ingress.before,
        saved: sum.saved + ingress.saved,
    });
    Comparison { scheme, footprint, ingresses, links, cached: None, gap: 0.0, cost: None }
}

#[cfg(test)]
mod tests;
