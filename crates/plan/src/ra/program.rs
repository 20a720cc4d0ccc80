//! What is asked of the routes of all ingresses together, and what trees count for in it.

use super::{
    reduce::{Paths, Problem},
    tree::{self, Prices},
    weights::{Column, Weights},
};

/// Problems of all ingresses, and limits.
pub(crate) struct Program<'a> {
    pub problems: &'a [Problem],
    pub costs: &'a Prices,
    /// Bytes per interval, per link.
    pub capacities: &'a [Option<f64>],
    /// Per link.
    pub eliminates: &'a [bool],
    /// Whether all copies must fit the capacities.
    pub safety_net: bool,
    pub gap: f64,
}

impl Program<'_> {
    /// A tree of an ingress as a column.
    pub(super) fn column(&self, ingress: usize, paths: Vec<Paths>) -> Column {
        let Self { problems, costs, capacities, eliminates, .. } = self;
        let mut cost = 0.0;
        let mut loads = Vec::new();
        for (block, paths) in problems[ingress].blocks.iter().zip(&paths) {
            let (once, copies) = tree::loads(block, paths);
            for ((&link, once), copies) in block.links.iter().zip(once).zip(copies) {
                if copies == 0.0 {
                    continue;
                }
                cost += costs.once[link] * once + costs.copy[link] * copies;
                if capacities[link].is_some() {
                    loads.push((link, if eliminates[link] { once } else { copies }, copies));
                }
            }
        }
        Column { paths, loads, cost }
    }

    /// Bytes on each link with a capacity, as eliminated there, and all copies.
    pub(super) fn sums(&self, weights: &Weights) -> (Vec<f64>, Vec<f64>) {
        let links = self.capacities.len();
        let (mut loads, mut nets) = (vec![0.0; links], vec![0.0; links]);
        for (weight, column) in weights.iter().flatten() {
            for &(link, load, copies) in &column.loads {
                loads[link] += weight * load;
                nets[link] += weight * copies;
            }
        }
        (loads, nets)
    }

    /// Utilization of the busiest link, and the same of all copies.
    pub(super) fn utilization(&self, weights: &Weights) -> (f64, f64) {
        let (loads, nets) = self.sums(weights);
        let most = |bytes: &[f64]| {
            let all = bytes.iter().zip(self.capacities);
            all.filter_map(|(bytes, capacity)| Some(bytes / (*capacity)?)).fold(0.0, f64::max)
        };
        (most(&loads), most(&nets))
    }
}
