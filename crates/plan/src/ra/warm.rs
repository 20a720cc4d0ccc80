//! What a computation for slightly changed traffic can begin with.

use std::sync::Arc;

use super::{
    bound::Division,
    master::{Master, Weighed},
    reduce::Problem,
    weights::{Column, LinkPrices, Mixture, Trees},
};
use crate::{LinkId, NodeId};

/// Routes, divisions and prices of an earlier computation for the same network.
#[derive(Clone, Debug, PartialEq)]
pub struct Warm {
    pub(crate) ingresses: Vec<OfOne>,
    /// Prices that proved the bound, and whether that is a bound of the load.
    pub(crate) prices: Option<(bool, LinkPrices)>,
}

/// Of one ingress.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct OfOne {
    /// Links and egresses of each block: what paths and divisions are about.
    shape: Vec<(Vec<LinkId>, Vec<NodeId>)>,
    /// The weights are those of the routes; further trees have none.
    pub trees: Trees,
    pub divisions: Option<Vec<Division>>,
}

fn shape(problem: &Problem) -> Vec<(Vec<LinkId>, Vec<NodeId>)> {
    problem.blocks.iter().map(|block| (block.links.clone(), block.egresses.clone())).collect()
}

impl OfOne {
    pub(crate) fn new(problem: &Problem, trees: Trees, divisions: Option<Vec<Division>>) -> Self {
        Self { shape: shape(problem), trees, divisions }
    }
}

impl Warm {
    /// Whether it is about these problems.
    pub(crate) fn fits(&self, problems: &[Problem]) -> bool {
        self.ingresses.len() == problems.len()
            && self.ingresses.iter().zip(problems).all(|(of, problem)| of.shape == shape(problem))
    }
}

impl Master<'_> {
    /// Begins with these trees and their weights, too.
    pub(crate) fn begin_with(&mut self, trees: Vec<Trees>) {
        let mut incumbent = Vec::new();
        for (ingress, list) in trees.into_iter().enumerate() {
            let mut mixture: Mixture = Vec::new();
            for (weight, paths) in list {
                self.add(ingress, paths.clone());
                let mut known = self.columns[ingress].iter();
                if let Some((column, _)) = known.find(|(column, _)| column.paths == paths)
                    && weight > 0.0
                {
                    mixture.push((weight, Arc::clone(column)));
                }
            }
            incumbent.push(mixture);
        }
        self.incumbent = Some(incumbent);
    }

    /// Begins with the divisions and prices of an earlier computation.
    pub(crate) fn resume(&mut self, warm: &Warm) {
        self.divisions = warm.ingresses.iter().map(|of| of.divisions.clone()).collect();
        self.prices = warm.prices.clone();
    }

    /// What a later computation can begin with.
    pub(crate) fn keep(self, of_load: bool, found: &Weighed) -> Warm {
        let mut ingresses = Vec::new();
        let parts = self.columns.into_iter().zip(self.divisions).zip(&found.weights);
        for (problem, ((columns, divisions), mixture)) in self.program.problems.iter().zip(parts) {
            let tree = |(column, _): (Arc<Column>, u32)| {
                let with = mixture.iter().find(|(_, other)| other.paths == column.paths);
                (with.map_or(0.0, |(weight, _)| *weight), column.paths.clone())
            };
            let trees = columns.into_iter().map(tree).collect();
            ingresses.push(OfOne::new(problem, trees, divisions));
        }
        Warm { ingresses, prices: Some((of_load, found.prices.clone())) }
    }
}
