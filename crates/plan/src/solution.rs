//! Solutions of the program.

use crate::Instance;

/// An assignment of caches, its value and a bound.
#[derive(Clone, Debug, PartialEq)]
pub struct Solution {
    /// d(p, r): the share of path p's packets, selected by header hash, that hop r caches; in the
    /// order of [`Instance::hop_index`].
    pub cached: Vec<f64>,
    /// Value of the objective: link bytes saved per epoch (footprint), or the highest utilization
    /// of a link (link load).
    pub objective: f64,
    /// Bound on the value of every solution.
    pub bound: f64,
    /// Value of one more unit of each resource, in units of the objective.
    pub prices: Prices,
    /// Method that found it.
    pub method: String,
    /// Iterations of that method.
    pub iterations: u32,
}

/// Prices (dual values) of the constraints; 0 if a resource is not exhausted.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Prices {
    /// Of a byte of memory, per device.
    pub memory: Vec<f64>,
    /// Of an operation per epoch, per device.
    pub operations: Vec<f64>,
    /// Of a byte of ingress memory, per ingress.
    pub ingress_memory: Vec<f64>,
}

impl Solution {
    /// Relative optimality gap: |bound - objective| / max(|bound|, smallest positive).
    pub fn gap(&self) -> f64 {
        if self.bound == self.objective {
            0.0
        } else {
            (self.bound - self.objective).abs() / self.bound.abs().max(f64::MIN_POSITIVE)
        }
    }

    /// The shares of path `path`, one per hop.
    pub fn of_path<'a>(&'a self, instance: &Instance, path: usize) -> &'a [f64] {
        &self.cached[instance.hop_range(path)]
    }
}
