//! Plans whose devices can serve all copies that packets refer to.
//!
//! The program counts each match with the first copy only, and charges its operation to the device
//! that holds it ([`crate::evaluate::with_copies`]). Packets refer to the copy that is decoded last,
//! so devices near the ends of paths do more than they were charged for, and those before them less.
//! With memory to spare the program puts nearly everything there: operations run out, and later
//! copies of what is cached at the end of one path are of no use to the others. So the program is
//! solved several times, with fewer operations where more is expected of a device than it can do,
//! and with less memory than there is, and the plan is taken that can be expected to save most; of those
//! that are about equal the one whose busiest device has least to do (`docs/PLANNERS.md`, "Copies").

use crate::{
    Error, Instance, Solution, Watch,
    engine::{Allocation, Expectation, Rules},
    lp::{self, WarmStart},
};

/// Solutions with fewer operations, after the first.
const ROUNDS: usize = 6;
/// Share of a device's operations per epoch that plans may expect of it: traffic comes in bursts.
pub(super) const BURSTS: f64 = 0.85;
/// Shares of the memory that the first solution uses most of at a device.
const MEMORIES: [f64; 3] = [0.5, 0.25, 0.125];
/// Plans that are expected to save as much, to this share, are equal.
pub(super) const EQUAL: f64 = 0.03;
/// If the busiest device of a plan has no more to do than this share of what it may, it has enough to
/// spare.
const EASY: f64 = 0.5;
/// Share of what the best plan is expected to save that others must be expected to, to be tried.
const WORTH_A_TRY: f64 = 0.7;

/// A plan: of the [`Offers`] the one that is expected to save
/// most.
///
/// # Errors
/// Those of [`lp::solve`]; [`Error::Stopped`].
pub(super) fn allocate(
    instance: &Instance,
    style: Style,
    warm: Option<&WarmStart>,
    watch: &dyn Watch,
) -> Result<(Allocation, WarmStart), Error> {
    let offers = Offers::new(instance, style, warm, watch)?;
    let at = offers.expected();
    Ok((offers.all[at].allocation.clone(), offers.warm))
}

/// How plans are made.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Style {
    /// Share of devices and packet stores that plans leave free.
    pub(crate) headroom: f64,
    /// Whether all packets of all paths are cached ([`Allocation::with_all`]).
    pub(crate) cache_all: bool,
    /// What packets may refer to.
    pub(crate) rules: Rules,
}

/// Plans for an instance to choose from: the program's optimum first.
pub(crate) struct Offers {
    pub(crate) all: Vec<Offer>,
    /// For the next program.
    pub(crate) warm: WarmStart,
}

/// A plan, what it is expected to save, and what its busiest device does, as a share of what it may.
pub(crate) struct Offer {
    /// With which limits it was made.
    pub(crate) limits: Limits,
    pub(crate) solution: Solution,
    pub(crate) allocation: Allocation,
    /// Link bytes per epoch, by references to all copies, if devices do what they can.
    pub(crate) saved: f64,
    busiest: f64,
}

/// Limits that a plan was made with.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Limits {
    /// Those of the devices: the program's optimum.
    Own,
    /// Fewer operations where more is expected of a device than it can do, lowered so many times.
    Operations(usize),
    /// At most this share of the memory that the optimum fills at its fullest device.
    Memory(f64),
}

impl Offers {
    /// # Errors
    /// Those of [`lp::solve`]; [`Error::Stopped`].
    pub(crate) fn new(
        instance: &Instance,
        Style { headroom, cache_all, rules }: Style,
        warm: Option<&WarmStart>,
        watch: &dyn Watch,
    ) -> Result<Self, Error> {
        let reserved = instance.clone().reserving(headroom)?;
        let spare: Vec<f64> = reserved.devices.iter().map(|d| BURSTS * d.operations).collect();
        let solve = |limits: &Instance, warm: Option<&WarmStart>| {
            let (solution, warm) = lp::solve(limits, &lp::Options::default(), warm, watch)?;
            let allocation = Allocation::new(instance, &solution)?;
            let allocation = if cache_all { allocation.with_all(instance)? } else { allocation };
            Ok::<_, Error>((allocation, solution, warm))
        };
        let mut all = Vec::new();
        let mut offer = |limits, solution: &Solution, allocation: &Allocation| {
            let expected = allocation.expect(instance, rules);
            all.push(Offer {
                limits,
                solution: solution.clone(),
                allocation: allocation.clone().with_room(instance, 1.0 / (1.0 - headroom)),
                saved: served(&expected, &spare),
                busiest: busiest(&expected, &spare),
            });
            expected
        };
        let (first, solution, warm) = solve(&reserved, warm)?;
        if rules.copies == 1 {
            offer(Limits::Own, &solution, &first);
            return Ok(Self { all, warm });
        }
        let most = most_held(&reserved, &first);
        let mut limits = reserved.clone();
        let mut latest = (first, solution, warm.clone());
        for round in 0..=ROUNDS {
            let name = if round == 0 { Limits::Own } else { Limits::Operations(round) };
            let expected = offer(name, &latest.1, &latest.0);
            if round == ROUNDS || !lower(&mut limits, &spare, &latest.0, &expected) {
                break;
            }
            latest = solve(&limits, Some(&latest.2))?;
        }
        for share in MEMORIES {
            let mut limits = reserved.clone();
            let memory = share * most;
            limits.devices.iter_mut().for_each(|device| device.memory = device.memory.min(memory));
            let (allocation, solution, _) = solve(&limits, Some(&warm))?;
            offer(Limits::Memory(share), &solution, &allocation);
        }
        Ok(Self { all, warm })
    }

    /// The plan that is expected to save most. If operations might be short, of those that are about
    /// equal the one that leaves its busiest device most.
    pub(crate) fn expected(&self) -> usize {
        let numbers = 0..self.all.len();
        let saved = |at: usize| self.all[at].saved;
        let most = |one: &usize, other: &usize| saved(*one).total_cmp(&saved(*other));
        let Some(best) = numbers.clone().max_by(most) else { return 0 };
        let least = match self.all[best].busiest > EASY {
            true => saved(best) - EQUAL * saved(best).abs(),
            false => saved(best),
        };
        let busiest = |at: &usize| self.all[*at].busiest;
        let equal = numbers.filter(|&at| saved(at) >= least);
        equal.min_by(|one, other| busiest(one).total_cmp(&busiest(other))).unwrap_or(best)
    }

    /// Plans that packets should decide between: the program's optimum, the one that is expected to
    /// save most, and others of which not much less is expected. Of those with fewer and fewer
    /// operations, which soon differ little, the first and the best.
    pub(super) fn contenders(&self) -> Vec<usize> {
        let saved = |at: usize| self.all[at].saved;
        let most = self.all.iter().map(|offer| offer.saved).fold(0.0, f64::max);
        let numbers = 0..self.all.len();
        let lowered = |at: &usize| matches!(self.all[*at].limits, Limits::Operations(_));
        let best = numbers.clone().filter(lowered).max_by(|a, b| saved(*a).total_cmp(&saved(*b)));
        let worth_it = |&at: &usize| match self.all[at].limits {
            _ if at == self.expected() => true,
            Limits::Own | Limits::Operations(1) => true,
            Limits::Operations(_) => Some(at) == best,
            Limits::Memory(_) => saved(at) >= WORTH_A_TRY * most,
        };
        let mut some: Vec<usize> = Vec::new();
        for at in numbers.filter(worth_it) {
            if some.iter().all(|&other| self.all[other].allocation != self.all[at].allocation) {
                some.push(at);
            }
        }
        some
    }
}

/// What the device with most to do has, as a share of what it may.
pub(super) fn busiest(expected: &Expectation, spare: &[f64]) -> f64 {
    let share = |(device, spare): (usize, &f64)| {
        let needed = operations(expected, device);
        if needed > 0.0 { needed / spare } else { 0.0 }
    };
    spare.iter().enumerate().map(share).fold(0.0, f64::max)
}

/// Operations expected of a device per epoch.
fn operations(expected: &Expectation, device: usize) -> f64 {
    expected.operations.iter().map(|ingress| ingress[device]).sum()
}

/// Bytes that the device with the most packets holds.
fn most_held(instance: &Instance, allocation: &Allocation) -> f64 {
    let mut held = vec![0.0f64; instance.devices.len()];
    for share in (0..allocation.paths() as u32).flat_map(|path| allocation.shares(path)) {
        held[share.device] += share.bytes as f64;
    }
    held.into_iter().fold(0.0, f64::max)
}

/// Link bytes that are expected to be saved if no device does more than `spare` operations: packets
/// are cached first, and matches decoded with what is left.
pub(super) fn served(expected: &Expectation, spare: &[f64]) -> f64 {
    let lost = |(device, &spare): (usize, &f64)| {
        let cached: f64 = expected.cached.iter().map(|ingress| ingress[device]).sum();
        let (matches, left) = (operations(expected, device) - cached, spare - cached);
        let part = if matches > 0.0 { (left / matches).clamp(0.0, 1.0) } else { 1.0 };
        // With first copies only, it is not known where what is saved is decoded.
        expected.decoded.get(device).map_or(0.0, |saved| saved * (1.0 - part))
    };
    expected.saved.iter().sum::<f64>() - spare.iter().enumerate().map(lost).sum::<f64>()
}

/// Lowers the operations of devices of which more than `spare` is expected, by as much as the
/// program counts too few; whether there are any.
fn lower(
    limits: &mut Instance,
    spare: &[f64],
    allocation: &Allocation,
    expected: &Expectation,
) -> bool {
    let counted = allocation.expect(limits, Rules::PUBLISHED);
    let mut any = false;
    for (device, &spare) in spare.iter().enumerate() {
        let needed = operations(expected, device);
        if needed > spare {
            limits.devices[device].operations = operations(&counted, device) * spare / needed;
            any = true;
        }
    }
    any
}
