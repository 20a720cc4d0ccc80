//! Budgets: how many operations of each device an ingress may cause.

use super::Expectation;
use crate::Instance;

/// Operations of a device that an ingress may cause in an epoch.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Budget {
    /// All of them.
    pub all: f64,
    /// Those that the plan expects for packets to cache.
    pub caching: f64,
}

/// Operations per epoch that each ingress may cause at each device: the device's, divided in
/// proportion to the expected use, so that the plan's slack is divided the same way.
pub(crate) fn budgets(instance: &Instance, expected: &Expectation, shed: bool) -> Vec<Vec<Budget>> {
    let sums: Vec<f64> = (0..instance.devices.len())
        .map(|device| expected.operations.iter().map(|ingress| ingress[device]).sum())
        .collect();
    let part = |device: usize, of: f64| match instance.devices[device].operations {
        _ if !shed => f64::INFINITY,
        _ if of == 0.0 => 0.0,
        all if all.is_infinite() => all,
        all => all * of / sums[device],
    };
    let budget = |(device, (&of, &cached)): (usize, (&f64, &f64))| Budget {
        all: part(device, of),
        caching: if of > 0.0 { part(device, of) * cached / of } else { 0.0 },
    };
    let of_ingress = |(operations, cached): (&Vec<f64>, &Vec<f64>)| {
        operations.iter().zip(cached).enumerate().map(budget).collect()
    };
    expected.operations.iter().zip(&expected.cached).map(of_ingress).collect()
}
