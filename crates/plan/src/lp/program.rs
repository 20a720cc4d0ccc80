//! The program as `docs/PLANNERS.md` defines it: columns, rows, limits.

use std::ops::Range;

use crate::{
    BitRate, DeviceId, Error, Instance, LinkId, NodeId, Watch,
    error::{DeviceError, ProfileError, TopologyError, TrafficError},
    lp::{Objective, coefficients::Coefficients},
};

/// The whole program. Columns are the hops of all paths; the rows of a column are found from its
/// device, ingress and links, not stored.
///
/// Rows are numbered: memory of each device, operations of each device, memory of each packet
/// store, links. The slices of a node share the row of its store.
pub(crate) struct Program<'a> {
    pub instance: &'a Instance,
    /// Value of a column in the objective. All zero for link load, where only the row of a link
    /// says what a column is worth.
    pub weight: Vec<f64>,
    /// Bytes that a column saves on each link up to its device.
    pub bytes: Vec<f64>,
    /// Operations of a column.
    pub operations: Vec<f64>,
    /// Cover limit of each ingress's paths: c.
    pub coded: Vec<f64>,
    /// Limit of each row; infinite if unlimited, and for links.
    pub limits: Vec<f64>,
    pub links: Option<Links>,
}

/// Data of the link-load objective.
pub(crate) struct Links {
    /// Capacity in bytes per epoch; infinite for links that are ignored.
    pub capacity: Vec<f64>,
    /// Bytes per epoch that it carries without redundancy elimination.
    pub load: Vec<f64>,
    /// The highest utilization without redundancy elimination.
    pub highest: f64,
}

impl<'a> Program<'a> {
    pub(crate) fn new(
        instance: &'a Instance,
        objective: &Objective,
        watch: &dyn Watch,
    ) -> Result<Self, Error> {
        check(instance)?;
        let coded: Vec<f64> =
            (0..instance.ingresses.len()).map(|ingress| instance.coded(ingress)).collect();
        let Coefficients { mut matches, bytes } = Coefficients::new(instance, watch)?;
        let mut weight = vec![0.0; bytes.len()];
        for (number, path) in instance.paths.iter().enumerate() {
            let packets = path.volume / instance.packet.0;
            for (hop, column) in path.hops.iter().zip(instance.hop_range(number)) {
                matches[column] += packets;
                if matches!(objective, Objective::Footprint) {
                    weight[column] = f64::from(hop.saves) * bytes[column];
                }
                if !(matches[column].is_finite()
                    && bytes[column].is_finite()
                    && weight[column].is_finite())
                {
                    return Err(ProfileError::Overflow.into());
                }
            }
        }
        let limits = instance
            .devices
            .iter()
            .map(|device| device.memory)
            .chain(instance.devices.iter().map(|device| device.operations))
            .chain((0..instance.store_count()).map(|store| instance.store_memory(store).0))
            .collect();
        let links = match objective {
            Objective::Footprint => None,
            Objective::LinkLoad { capacity } => Some(links(instance, *capacity)?),
        };
        Ok(Self { instance, weight, bytes, operations: matches, coded, limits, links })
    }

    pub(crate) fn memory_row(&self, device: DeviceId) -> usize {
        device.index()
    }

    pub(crate) fn operations_row(&self, device: DeviceId) -> usize {
        self.instance.devices.len() + device.index()
    }

    pub(crate) fn ingress_row(&self, ingress: u32) -> usize {
        let store = self.instance.ingresses[ingress as usize].store;
        2 * self.instance.devices.len() + store as usize
    }

    pub(crate) fn link_row(&self, link: LinkId) -> usize {
        self.limits.len() + link.index()
    }

    pub(crate) fn link_rows(&self) -> Range<usize> {
        self.limits.len()..self.row_count()
    }

    pub(crate) fn row_count(&self) -> usize {
        self.limits.len() + self.links.as_ref().map_or(0, |links| links.capacity.len())
    }

    /// Use of each resource.
    pub(crate) fn loads(&self, cached: &[f64]) -> Vec<f64> {
        let mut loads = vec![0.0; self.limits.len()];
        for (number, path) in self.instance.paths.iter().enumerate() {
            let mut covered = 0.0;
            for (hop, column) in path.hops.iter().zip(self.instance.hop_range(number)) {
                let share = cached[column];
                loads[self.memory_row(hop.device)] += share * path.volume;
                loads[self.operations_row(hop.device)] += share * self.operations[column];
                covered += share;
            }
            loads[self.ingress_row(path.ingress)] += covered * path.volume;
        }
        loads
    }

    /// Bytes saved on each link.
    pub(crate) fn saved(&self, cached: &[f64]) -> Vec<f64> {
        let mut saved = vec![0.0; self.instance.network.links.len()];
        for (number, path) in self.instance.paths.iter().enumerate() {
            let columns = self.instance.hop_range(number);
            let mut beyond = 0.0;
            let mut hops = path.hops.iter().zip(columns).rev().peekable();
            for (&link, distance) in path.links.iter().zip(1..path.links.len() as u32 + 1).rev() {
                while let Some((_, column)) = hops.next_if(|(hop, _)| hop.distance >= distance) {
                    beyond += cached[column] * self.bytes[column];
                }
                saved[link] += beyond;
            }
        }
        saved
    }

    /// Value of the objective.
    pub(crate) fn value(&self, cached: &[f64]) -> f64 {
        match &self.links {
            None => {
                let mut sum = Sum::default();
                cached.iter().zip(&self.weight).for_each(|(share, weight)| sum.add(share * weight));
                sum.value()
            }
            Some(links) => {
                let saved = self.saved(cached);
                let utilization =
                    |link: usize| (links.load[link] - saved[link]) / links.capacity[link];
                (0..saved.len()).map(utilization).fold(0.0, f64::max)
            }
        }
    }

    /// What links' prices make a byte saved up to each hop of the path worth: per hop, the sum of
    /// the prices of the links before it.
    pub(crate) fn link_worth(&self, path: &crate::Path, prices: &[f64], worth: &mut Vec<f64>) {
        worth.clear();
        let mut sum = 0.0;
        let mut done = 0;
        for hop in &path.hops {
            if self.links.is_some() {
                for &link in &path.links[done..hop.distance as usize] {
                    sum += prices[self.link_row(link)];
                }
                done = hop.distance as usize;
            }
            worth.push(sum);
        }
    }

    /// Per hop of a path, the value of caching the whole path there, at these prices of the rows.
    pub(crate) fn gains(&self, path: usize, prices: &[f64], gains: &mut Vec<f64>) {
        let whole = &self.instance.paths[path];
        self.link_worth(whole, prices, gains);
        for ((hop, column), gain) in whole.hops.iter().zip(self.instance.hop_range(path)).zip(gains)
        {
            *gain = self.weight[column] + *gain * self.bytes[column]
                - self.cost(whole, hop, column, prices);
        }
    }

    /// Cost of a column's resources at these prices.
    pub(crate) fn cost(
        &self,
        path: &crate::Path,
        hop: &crate::Hop,
        column: usize,
        prices: &[f64],
    ) -> f64 {
        (prices[self.memory_row(hop.device)] + prices[self.ingress_row(path.ingress)]) * path.volume
            + prices[self.operations_row(hop.device)] * self.operations[column]
    }

    /// Bound on any plan, by weak duality: for any prices >= 0 no plan is better. Prices of
    /// unlimited rows must be 0.
    pub(crate) fn bound(&self, prices: &[f64]) -> f64 {
        let mut sum = Sum::default();
        for (price, limit) in prices.iter().zip(&self.limits) {
            if *price > 0.0 {
                sum.add(price * limit);
            }
        }
        let mut gains = Vec::new();
        for (number, path) in self.instance.paths.iter().enumerate() {
            self.gains(number, prices, &mut gains);
            let best = gains.iter().copied().fold(0.0, f64::max);
            sum.add(best * self.coded[path.ingress as usize]);
        }
        let Some(links) = &self.links else { return sum.value() };
        // load(l) - saved(l) <= theta cap(l), weighted with the prices of links and added; what is
        // saved is at most what has been summed so far.
        let rows = self.link_rows();
        let weights: f64 = prices[rows.clone()]
            .iter()
            .zip(&links.capacity)
            .filter(|(price, _)| **price > 0.0)
            .map(|(price, capacity)| price * capacity)
            .sum();
        let mut load = Sum::default();
        for (price, bytes) in prices[rows].iter().zip(&links.load) {
            load.add(price * bytes);
        }
        load.add(-sum.value());
        let bound = load.value() / weights;
        if bound.is_finite() { bound.max(0.0) } else { 0.0 }
    }
}

/// Neumaier's compensated sum: as exact as if added in twice the precision.
#[derive(Clone, Copy, Default)]
pub(crate) struct Sum {
    sum: f64,
    lost: f64,
}

impl Sum {
    pub(crate) fn add(&mut self, value: f64) {
        let sum = self.sum + value;
        self.lost += if self.sum.abs() >= value.abs() {
            (self.sum - sum) + value
        } else {
            (value - sum) + self.sum
        };
        self.sum = sum;
    }

    pub(crate) fn value(&self) -> f64 {
        self.sum + self.lost
    }
}

/// An instance may have been changed by hand after it was built.
fn check(instance: &Instance) -> Result<(), Error> {
    let limit = |what: &str, of: &dyn Fn() -> String, value: f64| {
        if value >= 0.0 {
            Ok(())
        } else {
            Err(DeviceError::Range {
                what: format!("{what} of {}", of()),
                value,
                range: "0 or more",
            })
        }
    };
    for (number, device) in instance.devices.iter().enumerate() {
        let name = || instance.device_name(number);
        limit("the memory", &name, device.memory)?;
        limit("the operations per epoch", &name, device.operations)?;
    }
    for ingress in &instance.ingresses {
        let name = || format!("ingress {}", instance.network.nodes[ingress.node].id);
        limit("the memory", &name, ingress.memory)?;
        limit("the encodings per epoch", &name, ingress.encodings)?;
        if !(ingress.volume >= 0.0 && ingress.volume.is_finite()) {
            let what = format!("the volume of {} in bytes per epoch", name());
            return Err(
                TrafficError::Range { what, value: ingress.volume, range: "0 or more" }.into()
            );
        }
    }
    if !(instance.packet.0 > 0.0 && instance.packet.0.is_finite()) {
        let what = "mean packet size".into();
        return Err(DeviceError::Range { what, value: instance.packet.0, range: "above 0" }.into());
    }
    if !(instance.epoch.0 > 0.0 && instance.epoch.0.is_finite()) {
        let what = "the retention epoch in seconds".into();
        return Err(DeviceError::Range { what, value: instance.epoch.0, range: "above 0" }.into());
    }
    for path in &instance.paths {
        for (what, value) in
            [("its volume", path.volume), ("the volume to its PoP", path.pop_volume)]
        {
            if !(value >= 0.0 && value.is_finite()) {
                let name = |node: NodeId| &instance.network.nodes[node].id;
                let from = instance.ingresses[path.ingress as usize].node;
                let what = format!(
                    "the path from {} to {}: {what} in bytes per epoch",
                    name(from),
                    name(path.egress)
                );
                return Err(TrafficError::Range { what, value, range: "0 or more" }.into());
            }
        }
    }
    instance.profile.check(&instance.paths, instance.mss)
}

fn links(instance: &Instance, otherwise: Option<BitRate>) -> Result<Links, Error> {
    let mut capacity = Vec::with_capacity(instance.network.links.len());
    for (number, link) in instance.network.links.iter().enumerate() {
        capacity.push(match link.capacity.or(otherwise) {
            None => f64::INFINITY,
            Some(rate) if rate.0 > 0.0 => rate.during(instance.epoch).0,
            Some(rate) => {
                let link = instance.network.link_name(LinkId::new(number));
                return Err(TopologyError::Capacity { link, capacity: rate.0 }.into());
            }
        });
    }
    let load = instance.link_volumes();
    if !load.iter().zip(&capacity).any(|(load, capacity)| *load > 0.0 && capacity.is_finite()) {
        return Err(TopologyError::NoLoad.into());
    }
    let highest =
        load.iter().zip(&capacity).map(|(load, capacity)| load / capacity).fold(0.0, f64::max);
    if !highest.is_finite() {
        return Err(TopologyError::CapacityTooSmall.into());
    }
    Ok(Links { capacity, load, highest })
}
