//! Which device to enlarge first.

use super::*;

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
    /// Largest possible gain, in units of the objective: the price of one unit times `amount`.
    /// Prices fall as resources grow.
    pub worth: f64,
}

/// Bytes that an upgrade adds to a memory.
pub const MORE_MEMORY: f64 = 1e9;

/// Share that an upgrade adds to a speed.
pub const MORE_OPERATIONS: f64 = 0.1;

/// What to enlarge first, in order of falling value, from the prices of a solution: [`MORE_MEMORY`]
/// of a device or an ingress, [`MORE_OPERATIONS`] of a device. What has no value is omitted.
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
        .map(|(resource, amount, price)| Upgrade { resource, amount, worth: amount * price })
        .filter(|upgrade| upgrade.worth > 0.0)
        .collect();
    upgrades.sort_by(|a, b| b.worth.total_cmp(&a.worth).then(a.resource.cmp(&b.resource)));
    upgrades
}
