//! What a computation for slightly changed traffic can begin with.

use std::sync::Arc;

use super::{
    bound::Division,
    master::{Master, Weighed},
    program::Program,
    reduce::Problem,
    tree::Prices,
    weights::{Column, LinkPrices, Mixture, Trees, Weights},
};
use crate::{LinkId, NodeId};

/// Routes, divisions and prices of an earlier computation for the same network.
#[derive(Clone, Debug, PartialEq)]
pub struct Warm {
    pub(crate) ingresses: Vec<OfOne>,
    /// Prices that proved the bound, and whether that is a bound of the load.
    pub(crate) prices: Option<(bool, LinkPrices)>,
    /// What [`Counted`] of trees are for.
    settings: Option<Settings>,
}

/// What it depends on how much trees put on links, beside the content.
#[derive(Clone, Debug, PartialEq)]
struct Settings {
    costs: Prices,
    capacities: Vec<bool>,
    eliminates: Vec<bool>,
}

impl Settings {
    fn new(program: &Program<'_>) -> Self {
        Self {
            costs: program.costs.clone(),
            capacities: program.capacities.iter().map(Option::is_some).collect(),
            eliminates: program.eliminates.to_vec(),
        }
    }
}

/// Of one ingress.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct OfOne {
    /// Links and egresses of each block: what paths and divisions are about.
    shape: Vec<(Vec<LinkId>, Vec<NodeId>)>,
    /// The weights are those of the routes; further trees have none.
    pub trees: Trees,
    pub divisions: Option<Vec<Division>>,
    /// Trees as columns of a master, with the content that these are for, and those that were
    /// chosen at last.
    counted: Option<Counted>,
}

/// What trees put on links.
#[derive(Clone, Debug, PartialEq)]
struct Counted {
    content: u64,
    columns: Vec<Arc<Column>>,
    chosen: Vec<Arc<Column>>,
}

fn shape(problem: &Problem) -> Vec<(Vec<LinkId>, Vec<NodeId>)> {
    problem.blocks.iter().map(|block| (block.links.clone(), block.egresses.clone())).collect()
}

impl OfOne {
    pub(crate) fn new(problem: &Problem, trees: Trees, divisions: Option<Vec<Division>>) -> Self {
        Self { shape: shape(problem), trees, divisions, counted: None }
    }
}

impl Warm {
    /// Of ingresses that have nothing to do with each other.
    pub(crate) fn alone(ingresses: Vec<OfOne>) -> Self {
        Self { ingresses, prices: None, settings: None }
    }

    /// Whether it is about these problems.
    pub(crate) fn fits(&self, problems: &[Problem]) -> bool {
        self.ingresses.len() == problems.len()
            && self.ingresses.iter().zip(problems).all(|(of, problem)| of.shape == shape(problem))
    }
}

impl Master<'_> {
    /// Takes columns of an earlier computation over: those of ingresses whose content is the same.
    pub(crate) fn reuse(&mut self, warm: &Warm) {
        if warm.settings != Some(Settings::new(self.program)) {
            return;
        }
        for (ingress, of) in warm.ingresses.iter().enumerate() {
            let content = self.program.problems[ingress].content_hash();
            if let Some(counted) = of.counted.as_ref().filter(|known| known.content == content) {
                for column in &counted.columns {
                    self.take(ingress, column);
                }
            }
        }
    }

    /// The trees that were chosen at last, for what there is now. None if there are none.
    pub(crate) fn chosen(&self, warm: &Warm) -> Option<Weights> {
        let of = |(ingress, of): (usize, &OfOne)| -> Option<Mixture> {
            let chosen = &of.counted.as_ref()?.chosen;
            let each = chosen.iter().map(|column| {
                let mut known = self.columns[ingress].iter();
                let same = known.find(|(other, _)| other.paths == column.paths);
                let now = same.map_or_else(
                    || Arc::new(self.program.column(ingress, column.paths.clone())),
                    |(same, _)| Arc::clone(same),
                );
                (1.0 / chosen.len() as f64, now)
            });
            Some(each.collect())
        };
        warm.ingresses.iter().enumerate().map(of).collect()
    }

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
    pub(crate) fn keep(self, of_load: bool, found: &Weighed, chosen: Option<&Weights>) -> Warm {
        let mut ingresses = Vec::new();
        let parts = self.columns.into_iter().zip(self.divisions).zip(&found.weights);
        for (at, ((columns, divisions), mixture)) in parts.enumerate() {
            let problem = &self.program.problems[at];
            let counted = chosen.map(|chosen| Counted {
                content: problem.content_hash(),
                columns: columns.iter().map(|(column, _)| Arc::clone(column)).collect(),
                chosen: chosen[at].iter().map(|(_, column)| Arc::clone(column)).collect(),
            });
            let tree = |(column, _): (Arc<Column>, u32)| {
                let with = mixture.iter().find(|(_, other)| other.paths == column.paths);
                (with.map_or(0.0, |(weight, _)| *weight), column.paths.clone())
            };
            let trees = columns.into_iter().map(tree).collect();
            ingresses.push(OfOne { counted, ..OfOne::new(problem, trees, divisions) });
        }
        let settings = Some(Settings::new(self.program));
        Warm { ingresses, prices: Some((of_load, found.prices.clone())), settings }
    }
}
