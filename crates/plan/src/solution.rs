//! Solutions of the program.

use std::fmt;

use crate::{Error, Instance};

/// Finds the best SmartRE of an instance for the footprint.
pub type Solve<'a> = &'a dyn Fn(&Instance) -> Result<Solution, Error>;

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
    /// How it was found.
    pub method: SolvedBy,
    /// Iterations of that method.
    pub iterations: u32,
}

/// How a solution was found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum SolvedBy {
    /// It came from elsewhere: no solver of this crate has computed it.
    #[default]
    Given,
    /// An earlier solution is good enough for the changed instance.
    Kept,
    /// All limits leave room for everything.
    NothingBinds,
    /// The interior point method.
    InteriorPoint,
    /// The simplex method.
    Simplex,
    /// The dual simplex method of HiGHS.
    Highs,
    /// The interior point method of HiGHS.
    HighsInterior,
}

impl fmt::Display for SolvedBy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Given => "given",
            Self::Kept => "kept",
            Self::NothingBinds => "no limit binds",
            Self::InteriorPoint => "interior point",
            Self::Simplex => "simplex",
            Self::Highs => "HiGHS",
            Self::HighsInterior => "HiGHS interior",
        })
    }
}

/// Prices (dual values) of the constraints; 0 if a resource is not exhausted.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Prices {
    /// Of a byte of memory, per device.
    pub memory: Vec<f64>,
    /// Of an operation per epoch, per device.
    pub operations: Vec<f64>,
    /// Of a byte of ingress memory, per packet store ([`crate::Ingress::store`]).
    pub ingress_memory: Vec<f64>,
}

impl Solution {
    /// Shares from elsewhere, with neither value nor prices.
    pub fn given(cached: Vec<f64>) -> Self {
        Self {
            cached,
            objective: 0.0,
            bound: 0.0,
            prices: Prices::default(),
            method: SolvedBy::Given,
            iterations: 0,
        }
    }

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
