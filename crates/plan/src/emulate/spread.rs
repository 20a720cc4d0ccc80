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
    Error, Instance, Watch,
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

/// A plan that leaves this share of devices free.
///
/// # Errors
/// Those of [`lp::solve`]; [`Error::Stopped`].
pub(super) fn allocate(
    instance: &Instance,
    headroom: f64,
    rules: Rules,
    warm: Option<&WarmStart>,
    watch: &dyn Watch,
) -> Result<(Allocation, WarmStart), Error> {
    let reserved = instance.clone().reserving(headroom)?;
    let solve = |limits: &Instance, warm: Option<&WarmStart>| {
        let (solution, warm) = lp::solve(limits, &lp::Options::default(), warm, watch)?;
        Ok::<_, Error>((Allocation::new(instance, &solution)?, warm))
    };
    let (first, warm) = solve(&reserved, warm)?;
    let mut best = Best::default();
    if rules.copies > 1 {
        let spare: Vec<f64> = reserved.devices.iter().map(|d| BURSTS * d.operations).collect();
        let most = most_held(&reserved, &first);
        let mut limits = reserved.clone();
        let mut latest = (first.clone(), warm.clone());
        for round in 0..=ROUNDS {
            let expected = latest.0.expect(instance, rules);
            best.offer(&latest.0, &expected, &spare);
            if round == ROUNDS || !lower(&mut limits, &spare, &latest.0, &expected) {
                break;
            }
            latest = solve(&limits, Some(&latest.1))?;
        }
        for share in MEMORIES {
            let mut limits = reserved.clone();
            let memory = share * most;
            limits.devices.iter_mut().for_each(|device| device.memory = device.memory.min(memory));
            let (allocation, _) = solve(&limits, Some(&warm))?;
            best.offer(&allocation, &allocation.expect(instance, rules), &spare);
        }
    }
    let allocation = best.take().unwrap_or(first);
    Ok((allocation.with_room(instance, 1.0 / (1.0 - headroom)), warm))
}

/// Plans to choose from.
#[derive(Default)]
struct Best {
    offers: Vec<Offer>,
}

/// A plan, what it is expected to save, and what its busiest device does, as a share of what it may.
struct Offer {
    saved: f64,
    busiest: f64,
    allocation: Allocation,
}

impl Best {
    fn offer(&mut self, allocation: &Allocation, expected: &Expectation, spare: &[f64]) {
        let (saved, busiest) = (served(expected, spare), busiest(expected, spare));
        self.offers.push(Offer { saved, busiest, allocation: allocation.clone() });
    }

    /// The plan that is expected to save most. If operations might be short, of those that are about
    /// equal the one that leaves its busiest device most.
    fn take(self) -> Option<Allocation> {
        let saved = |one: &Offer, other: &Offer| one.saved.total_cmp(&other.saved);
        let best = self.offers.iter().max_by(|one, other| saved(one, other))?;
        let least = match best.busiest > EASY {
            true => best.saved - EQUAL * best.saved.abs(),
            false => best.saved,
        };
        let equal = self.offers.into_iter().filter(|offer| offer.saved >= least);
        let busiest = |one: &Offer, other: &Offer| one.busiest.total_cmp(&other.busiest);
        equal.min_by(busiest).map(|offer| offer.allocation)
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
        expected.decoded[device] * (1.0 - part)
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
