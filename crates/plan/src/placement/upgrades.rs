//! Which device to enlarge first.

use super::*;
use crate::lp::{self, Objective, WarmStart};

/// A resource that can be enlarged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Resource {
    /// Memory of the device with this index.
    Memory(usize),
    /// Speed of the device with this index.
    Operations(usize),
    /// Memory of the packet store whose first ingress has this index.
    IngressMemory(usize),
}

/// The value of enlarging a resource.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Upgrade {
    /// What is enlarged.
    pub resource: Resource,
    /// By how much: bytes, or operations per epoch.
    pub amount: f64,
    /// No plan gains more from it, in units of the objective: the price of one unit times `amount`.
    /// Prices fall as resources grow, so a new plan may gain much less.
    pub bound: f64,
    /// What a new plan with it gains, in the same unit; `None` if none was made.
    pub gain: Option<f64>,
}

/// Bytes that an upgrade adds to a memory.
pub const MORE_MEMORY: f64 = 1e9;

/// Share that an upgrade adds to a speed.
pub const MORE_OPERATIONS: f64 = 0.1;

/// What could be enlarged, by falling bounds, from the prices of a solution: [`MORE_MEMORY`] of a
/// device or an ingress, [`MORE_OPERATIONS`] of a device. What has no price is omitted.
pub fn upgrades(instance: &Instance, solution: &Solution) -> Vec<Upgrade> {
    let prices = &solution.prices;
    let memory =
        (0..).zip(&prices.memory).map(|(at, &price)| (Resource::Memory(at), MORE_MEMORY, price));
    let operations =
        (0..).zip(instance.devices.iter().zip(&prices.operations)).map(|(at, (device, &price))| {
            (Resource::Operations(at), MORE_OPERATIONS * device.operations, price)
        });
    let ingresses = instance
        .stores()
        .zip(&prices.ingress_memory)
        .map(|(slices, &price)| (Resource::IngressMemory(slices.start), MORE_MEMORY, price));
    let mut upgrades: Vec<Upgrade> = memory
        .chain(operations)
        .chain(ingresses)
        .filter(|(_, amount, price)| *price > 0.0 && amount.is_finite())
        .map(|(resource, amount, price)| Upgrade {
            resource,
            amount,
            bound: amount * price,
            gain: None,
        })
        .filter(|upgrade| upgrade.bound > 0.0)
        .collect();
    upgrades.sort_by(|a, b| b.bound.total_cmp(&a.bound).then(a.resource.cmp(&b.resource)));
    upgrades
}

/// Makes a new plan with each of the first `most` upgrades, and puts those first, by what they gain.
/// `solution` is the plan without them, for `options`.
///
/// # Errors
/// As [`lp::solve`].
pub fn try_upgrades(
    instance: &Instance,
    solution: &Solution,
    upgrades: &mut [Upgrade],
    most: usize,
    (options, warm): (&lp::Options, Option<&WarmStart>),
    watch: &dyn Watch,
) -> Result<(), Error> {
    let most = most.min(upgrades.len());
    // The plan in force is no answer here: it does not use what is new.
    let options = lp::Options { gap: 0.0, ..*options };
    let mut larger = instance.clone();
    for (done, upgrade) in (0..).zip(&mut upgrades[..most]) {
        watch.progress("upgrades", done, most as u64);
        watch.proceed()?;
        enlarge(&mut larger, upgrade.resource, upgrade.amount);
        let (new, _) = lp::solve(&larger, &options, warm, watch)?;
        let gain = match options.objective {
            Objective::Footprint => new.objective - solution.objective,
            Objective::LinkLoad { .. } => solution.objective - new.objective,
        };
        // What is beyond these is the gap of either plan.
        upgrade.gain = Some(gain.clamp(0.0, upgrade.bound));
        restore(&mut larger, instance, upgrade.resource);
    }
    upgrades[..most].sort_by(|a, b| {
        let gain = |upgrade: &Upgrade| upgrade.gain.unwrap_or(0.0);
        gain(b).total_cmp(&gain(a)).then(a.resource.cmp(&b.resource))
    });
    Ok(())
}

fn enlarge(instance: &mut Instance, resource: Resource, amount: f64) {
    match resource {
        Resource::Memory(at) => instance.devices[at].memory += amount,
        Resource::Operations(at) => instance.devices[at].operations += amount,
        Resource::IngressMemory(at) => {
            let slices = instance.slices_of(at);
            instance.ingresses[slices].iter_mut().for_each(|slice| slice.memory += amount);
        }
    }
}

fn restore(instance: &mut Instance, from: &Instance, resource: Resource) {
    match resource {
        Resource::Memory(at) | Resource::Operations(at) => {
            instance.devices[at].clone_from(&from.devices[at]);
        }
        Resource::IngressMemory(at) => {
            let slices = instance.slices_of(at);
            instance.ingresses[slices.clone()].clone_from_slice(&from.ingresses[slices]);
        }
    }
}
