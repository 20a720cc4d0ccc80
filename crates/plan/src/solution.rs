//! What a solver answers.

use crate::Instance;

/// Who caches what, with how good that is.
#[derive(Clone, Debug, PartialEq)]
pub struct Solution {
    /// d(p, r): the share of path p's packets, told by header hash, that is cached at its hop r; in the order of [`Instance::hop_index`].
    pub cached: Vec<f64>,
    /// Value of the objective: link bytes saved per epoch (footprint), or the highest utilization of a link (link load).
    pub objective: f64,
    /// No solution is better than this.
    pub bound: f64,
    /// What one unit more of each resource is worth, in units of the objective.
    pub prices: Prices,
    /// Which method found it.
    pub method: String,
    /// Iterations of that method.
    pub iterations: u32,
}

/// Prices (dual values) of the constraints; 0 where a resource is not used up.
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
    /// How far the solution may be from the best: |bound - objective| / max(|bound|, smallest positive).
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
