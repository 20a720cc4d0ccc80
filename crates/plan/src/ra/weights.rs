//! Trees with weights, and slices of them.

use std::sync::Arc;

use super::{
    Slice,
    each::slice,
    reduce::{Paths, Problem},
};
use crate::LinkId;

/// A tree of an ingress, with what it puts on links.
#[derive(Debug, PartialEq)]
pub(crate) struct Column {
    pub paths: Vec<Paths>,
    /// Bytes on links with a capacity: as eliminated there, and all copies.
    pub loads: Vec<(LinkId, f64, f64)>,
    pub cost: f64,
}

/// Trees of an ingress with their weights, which add up to 1.
pub(crate) type Mixture = Vec<(f64, Arc<Column>)>;

/// Trees of an ingress with their weights, as paths in its blocks.
pub(crate) type Trees = Vec<(f64, Vec<Paths>)>;

/// A mixture for each ingress.
pub(crate) type Weights = Vec<Mixture>;

/// Prices of bytes on links: of what a link carries, and of all copies (safety net).
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct LinkPrices {
    pub load: Vec<f64>,
    pub net: Vec<f64>,
}

impl LinkPrices {
    /// Of what a tree puts on links.
    pub(crate) fn of(&self, column: &Column) -> f64 {
        let loads = column.loads.iter();
        loads.map(|&(link, load, copies)| self.load[link] * load + self.net[link] * copies).sum()
    }

    /// A part of the way to other prices.
    pub(crate) fn toward(&self, other: &Self, part: f64) -> Self {
        let mix = |from: &[f64], to: &[f64]| {
            from.iter().zip(to).map(|(from, to)| from + part * (to - from)).collect()
        };
        Self { load: mix(&self.load, &other.load), net: mix(&self.net, &other.net) }
    }
}

/// The heaviest trees of each ingress, at most this many.
pub(crate) fn heaviest(weights: &Weights, most: usize) -> Weights {
    let of = |list: &Mixture| {
        let mut list = list.clone();
        list.sort_by(|one, other| other.0.total_cmp(&one.0));
        list.truncate(most);
        let sum: f64 = list.iter().map(|(weight, _)| weight).sum();
        list.iter_mut().for_each(|(weight, _)| *weight /= sum);
        list
    };
    weights.iter().map(of).collect()
}

/// Slices of these weights.
pub(crate) fn slices(problems: &[Problem], weights: &Weights) -> Vec<Slice> {
    let of = |(problem, list): (&Problem, &Mixture)| {
        let mut list: Vec<_> = list.iter().collect();
        list.sort_by(|one, other| other.0.total_cmp(&one.0));
        list.into_iter()
            .map(|(weight, column)| slice(problem, &column.paths, *weight))
            .collect::<Vec<_>>()
    };
    let with = problems.iter().zip(weights).filter(|(problem, _)| !problem.egresses.is_empty());
    with.flat_map(of).collect()
}
