//! Which scheme to use: SmartRE or hop-by-hop elimination, with the devices there are, at equal
//! cost, and at other loads. `docs/PLANNERS.md`, "Verdict", defines the comparison.
//!
//! Of the schemes that could be built, these two decide: edge-only and the heuristics are
//! assignments that SmartRE's program could choose, too.

use crate::{
    Error, Instance, Solve, Watch,
    baseline::{Budget, Comparison, HopByHop, Scheme, Within, evaluate_solution},
    cost::Cost,
    placement::{Aim, Tariff, purchase},
};

/// SmartRE beside hop-by-hop elimination.
#[derive(Clone, Debug, PartialEq)]
pub struct Verdict {
    /// SmartRE with the instance's devices.
    pub smart: Standing,
    /// Hop-by-hop elimination with the same devices, and an encoder for each; if SmartRE's are on some
    /// links only, with as many devices on the links that are best for it.
    pub hop: Standing,
    /// What hop-by-hop elimination saves if it may not take more than SmartRE does.
    pub equal: EqualCost,
    /// SmartRE with the fewest devices that keep [`LEAN`] of its savings; `None` if that was not asked
    /// for.
    pub lean: Option<Standing>,
    /// Which scheme saves more at which load; `None` if that was not asked for.
    pub loads: Option<Loads>,
}

/// What a scheme saves, and what it takes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Standing {
    /// Bytes times links saved per epoch.
    pub saved: f64,
    /// What it takes.
    pub cost: Cost,
}

impl Standing {
    /// Of an outcome; `None` of a scheme that could not be built.
    pub fn of(outcome: &Comparison) -> Option<Self> {
        Some(Self { saved: outcome.footprint.saved, cost: outcome.cost? })
    }
}

/// What hop-by-hop elimination saves with no more of a resource than SmartRE takes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct EqualCost {
    /// With no more devices.
    pub devices: Within,
    /// With no more memory.
    pub memory: Within,
    /// With no more operations.
    pub operations: Within,
    /// With no more of all three.
    pub all: Within,
}

/// Which scheme saves more, by load.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Loads {
    /// The same scheme at every load that was tried.
    Always {
        /// The scheme.
        scheme: Scheme,
        /// The lowest and the highest load, as multiples of the instance's.
        tried: [f64; 2],
    },
    /// Hop-by-hop elimination below a load, SmartRE from there on.
    SmartReFrom {
        /// The load, as a multiple of the instance's, to [`PRECISION`].
        load: f64,
        /// Share of the packets that hop-by-hop's encoders can fingerprint there.
        encoded: f64,
    },
    /// SmartRE up to a load, hop-by-hop elimination from there on.
    SmartReUntil {
        /// The load, as a multiple of the instance's, to [`PRECISION`].
        load: f64,
    },
}

/// Share of SmartRE's savings that are kept with the fewest devices.
pub const LEAN: f64 = 0.95;

/// Relative precision of the load where the better scheme changes.
pub const PRECISION: f64 = 0.01;

/// Schemes that save the same to this share count as equal: plans are no more exact.
pub const EQUAL: f64 = 2e-4;

/// Loads that are tried: down to a 64th of the instance's and up to 64 times it.
const FARTHEST: f64 = 64.0;

impl Verdict {
    /// The scheme that saves more with the devices there are; SmartRE of equals, as it takes less.
    pub fn winner(&self) -> Scheme {
        better(self.smart.saved, self.hop.saved)
    }

    /// The scheme that saves more if hop-by-hop elimination may take no more devices, memory and
    /// operations than SmartRE.
    pub fn winner_at_equal_cost(&self) -> Scheme {
        better(self.smart.saved, self.equal.all.saved)
    }
}

/// The scheme that saves more, given what SmartRE and hop-by-hop elimination save.
fn better(smart: f64, hop: f64) -> Scheme {
    if smart >= hop * (1.0 - EQUAL) { Scheme::SmartRe } else { Scheme::HopByHop }
}

/// Compares SmartRE's plan for the footprint with hop-by-hop elimination. If devices were chosen for
/// SmartRE, `whole` is the instance before that: its links are free for the other scheme to choose
/// from. `smart` is what the plan does, `solve` finds that of the instance with other traffic; without it, other loads are not
/// tried.
///
/// # Errors
/// Those of `solve`; a solution that breaks a constraint; a solver that fails; [`Error::Stopped`].
pub fn judge(
    instance: &Instance,
    whole: Option<&Instance>,
    smart: Standing,
    solve: Option<Solve<'_>>,
    watch: &dyn Watch,
) -> Result<Verdict, Error> {
    let pairs = HopByHop::new(whole.unwrap_or(instance));
    let rival = Rival { pairs: &pairs, devices: whole.map(|_| smart.cost.devices()) };
    let hop = rival.at(1.0)?;
    let loads = match solve {
        Some(solve) => Some(by_load(instance, &rival, [smart.saved, hop.saved], solve, watch)?),
        None => None,
    };
    Ok(Verdict { smart, hop, equal: at_cost(&pairs, &smart.cost)?, lean: None, loads })
}

/// SmartRE with the fewest devices that keep [`LEAN`] of its savings.
///
/// # Errors
/// As [`purchase`].
pub fn lean(
    instance: &Instance,
    smart: Standing,
    solve: Solve<'_>,
    watch: &dyn Watch,
) -> Result<Option<Standing>, Error> {
    if smart.saved <= 0.0 {
        return Ok(None);
    }
    let aim = Aim::Target(LEAN * smart.saved);
    let part = purchase(instance, &Tariff::default(), aim, solve, watch)?.apply(instance)?;
    let solution = solve(&part)?;
    let evaluation = evaluate_solution(&part, &solution)?;
    let cost = Cost::of_shares(&part, &solution.cached, &evaluation);
    Ok(Some(Standing { saved: evaluation.footprint.saved, cost }))
}

/// Hop-by-hop elimination on all links, or on those that are best with so many devices.
struct Rival<'a> {
    pairs: &'a HopByHop,
    devices: Option<usize>,
}

impl Rival<'_> {
    fn at(&self, load: f64) -> Result<Standing, Error> {
        let pairs = self.pairs.with_load(load);
        let within = pairs.within(&Budget { devices: self.devices, ..Budget::default() })?;
        Ok(Standing { saved: within.saved, cost: within.cost })
    }
}

/// Hop-by-hop elimination that takes no more than `cost`.
fn at_cost(pairs: &HopByHop, cost: &Cost) -> Result<EqualCost, Error> {
    let all = Budget {
        devices: Some(cost.devices()),
        memory: Some(cost.work.memory),
        operations: Some(cost.work.operations),
    };
    Ok(EqualCost {
        devices: pairs.within(&Budget { devices: all.devices, ..Budget::default() })?,
        memory: pairs.within(&Budget { memory: all.memory, ..Budget::default() })?,
        operations: pairs.within(&Budget { operations: all.operations, ..Budget::default() })?,
        all: pairs.within(&all)?,
    })
}

/// Doubles or halves the load until the other scheme saves more, then narrows down where that
/// begins. Hop-by-hop elimination loses with load because the encoders of busy links no longer keep
/// up, so from the side where it wins, higher loads are tried.
fn by_load(
    instance: &Instance,
    rival: &Rival<'_>,
    [smart, hop]: [f64; 2],
    solve: Solve<'_>,
    watch: &dyn Watch,
) -> Result<Loads, Error> {
    let smart_wins = |load: f64| -> Result<bool, Error> {
        watch.proceed()?;
        let busier = instance.clone().with_load(load)?;
        let solution = solve(&busier)?;
        let saved = evaluate_solution(&busier, &solution)?.footprint.saved;
        Ok(better(saved, rival.at(load)?.saved) == Scheme::SmartRe)
    };
    let here = better(smart, hop) == Scheme::SmartRe;
    // Where SmartRE wins, hop-by-hop may win with less traffic; where it loses, SmartRE may win with
    // more. What is not found there may be on the other side.
    let sides = if here { [0.5, 2.0] } else { [2.0, 0.5] };
    let mut tried = [1.0, 1.0];
    for step in sides {
        let (mut same, mut other) = (1.0, step);
        // Beyond that, bytes times links overflow.
        while (instance.footprint() * other * instance.network.links.len() as f64).is_finite() {
            watch.progress("loads", 0, 0);
            if smart_wins(other)? != here {
                return narrow(same, other, here, rival.pairs, &smart_wins);
            }
            tried[usize::from(step > 1.0)] = other;
            if other.max(1.0 / other) >= FARTHEST {
                break;
            }
            (same, other) = (other, other * step);
        }
    }
    let scheme = if here { Scheme::SmartRe } else { Scheme::HopByHop };
    Ok(Loads::Always { scheme, tried })
}

/// The load between `same`, where SmartRE wins if `here`, and `other`, where it is the other way
/// round.
fn narrow(
    mut same: f64,
    mut other: f64,
    here: bool,
    pairs: &HopByHop,
    smart_wins: &dyn Fn(f64) -> Result<bool, Error>,
) -> Result<Loads, Error> {
    while other.max(same) / other.min(same) > 1.0 + PRECISION {
        let between = (same * other).sqrt();
        *(if smart_wins(between)? == here { &mut same } else { &mut other }) = between;
    }
    // The side on which SmartRE wins.
    let (load, loses) = if here { (same, other) } else { (other, same) };
    Ok(if loses < load {
        Loads::SmartReFrom { load, encoded: pairs.with_load(load).encoded() }
    } else {
        Loads::SmartReUntil { load }
    })
}

#[cfg(test)]
mod tests;
