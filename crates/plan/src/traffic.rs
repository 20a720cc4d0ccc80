//! Traffic matrices: how much traffic enters where, and where it goes.
//!
//! A matrix is a list of [`Demand`]s between endpoints ([`crate::routing::endpoints`]) in any unit;
//! [`assign`] scales it and puts it on paths.

use std::collections::{BTreeMap, HashMap};

use crate::{
    Bytes, Error, Network, NodeId, Provision,
    error::{TopologyError, TrafficError, quote},
    network::{Demand, Names, Role},
    path::Route,
    routing::{self, MAX_PATHS, fields},
};

/// How the volumes of a matrix are scaled to bytes per retention epoch.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Scale {
    /// Bytes per epoch already: measured volumes.
    Given,
    /// One factor for all, so that the ingress with the most traffic sends load x ingress rate x T
    /// / 8 bytes.
    LargestIngress(f64),
    /// One factor per ingress, so that each sends that much (thesis, section 3.5, figure 3.8).
    EqualIngress(f64),
    /// One factor for all, so that they add up to these per epoch.
    Total(Bytes),
}

/// Gravity: from PoP a to PoP b, population(a) x population(b); from and to each of a PoP's
/// endpoints an equal part (thesis, section 3.5). Within a PoP there is no traffic.
///
/// # Errors
/// An endpoint's PoP without a known population ([`Network::without_unpopulated`] leaves those
/// out), fewer than two PoPs.
pub fn gravity(network: &Network) -> Result<Vec<Demand>, Error> {
    let mut share_of = vec![0.0; network.nodes.len()];
    populations(network)?.into_iter().for_each(|(end, share)| share_of[end] = share);
    let pairs = routing::pairs(network)?;
    let volume = |from: NodeId, to: NodeId| share_of[from] * share_of[to];
    Ok(pairs.into_iter().map(|(from, to)| Demand { from, to, volume: volume(from, to) }).collect())
}

/// Each endpoint with its part of its PoP's population.
pub(crate) fn populations(network: &Network) -> Result<Vec<(NodeId, f64)>, Error> {
    let ends = routing::endpoints(network);
    // Population, endpoints.
    let mut pops: HashMap<u32, (Option<f64>, f64)> = HashMap::new();
    for &end in &ends {
        let node = &network.nodes[end];
        let pop = pops.entry(node.pop).or_default();
        pop.0 = pop.0.or(node.population);
        pop.1 += 1.0;
    }
    let mut share = Vec::with_capacity(ends.len());
    for &end in &ends {
        let node = &network.nodes[end];
        match pops[&node.pop] {
            (Some(population), routers) if population > 0.0 && population.is_finite() => {
                share.push((end, population / routers));
            }
            (None, _) => {
                let city = node
                    .city
                    .as_ref()
                    .map(|city| format!(" ({})", quote(city)))
                    .unwrap_or_default();
                let node = format!("{}{city}", quote(&node.id));
                return Err(TrafficError::UnknownPopulation {
                    node,
                    has_demands: !network.demands.is_empty(),
                }
                .into());
            }
            (Some(population), _) => {
                return Err(TrafficError::Population { node: quote(&node.id), population }.into());
            }
        }
    }
    Ok(share)
}

/// The demands that came with the network; those between PoPs in equal parts from and to each of
/// their access routers.
///
/// # Errors
/// No demand, or none above 0; a demand of a PoP that carries no traffic.
pub fn demands(network: &Network) -> Result<Vec<Demand>, Error> {
    if network.demands.is_empty() {
        return Err(TrafficError::NoDemands { network: quote(&network.name) }.into());
    }
    spread(network, network.demands.iter().map(|&demand| (None, demand)))
}

/// An explicit matrix: lines `from to volume`, fields and names as in [`routing::given`]. A name is
/// an endpoint, or a PoP whose access routers share the volume equally.
///
/// # Errors
/// An invalid line; an unknown name, or one without traffic; a negative or NaN volume; a duplicate
/// pair; no volume above 0.
pub fn matrix(network: &Network, text: &str) -> Result<Vec<Demand>, Error> {
    let names = Names::new(network);
    let mut seen: HashMap<(NodeId, NodeId), usize> = HashMap::new();
    let mut list = Vec::new();
    for (number, line) in text.trim_start_matches('\u{feff}').lines().enumerate() {
        let number = number + 1;
        let wrong = |error: TrafficError| Error::from(error.at_line(number));
        let unknown = |error: TopologyError| wrong(error.into());
        let fields: Vec<&str> = fields(line).take(4).collect();
        let [from, to, volume] = match fields[..] {
            [] => continue,
            [from, to, volume] => [from, to, volume],
            _ => return Err(wrong(TrafficError::NotAnEntry { line: quote(line) })),
        };
        let ends = (names.find(from).map_err(unknown)?, names.find(to).map_err(unknown)?);
        if ends.0 == ends.1 {
            return Err(wrong(TrafficError::ToItself { node: quote(from) }));
        }
        if let Some(first) = seen.insert(ends, number) {
            let (from, to) = (quote(from), quote(to));
            return Err(wrong(TrafficError::Duplicate { from, to, first }));
        }
        let volume =
            volume.parse().map_err(|_| wrong(TrafficError::NotAVolume { text: quote(volume) }))?;
        list.push((Some(number), Demand { from: ends.0, to: ends.1, volume }));
    }
    if list.is_empty() {
        return Err(TrafficError::EmptyMatrix.into());
    }
    spread(network, list)
}

/// Demands between nodes as demands between endpoints, sorted, one per pair.
fn spread(
    network: &Network,
    list: impl IntoIterator<Item = (Option<usize>, Demand)>,
) -> Result<Vec<Demand>, Error> {
    let ends = routing::endpoints(network);
    let mut is_end = vec![false; network.nodes.len()];
    let mut of_pop: HashMap<u32, Vec<NodeId>> = HashMap::new();
    for &end in &ends {
        is_end[end] = true;
        of_pop.entry(network.nodes[end].pop).or_default().push(end);
    }
    let mut sums: BTreeMap<(NodeId, NodeId), f64> = BTreeMap::new();
    let mut work = 0_usize;
    for (line, demand) in list {
        let wrong = |error: TrafficError| {
            Error::from(match line {
                Some(line) => error.at_line(line),
                None => error,
            })
        };
        let routers = |node: NodeId| -> Result<&[NodeId], Error> {
            let Some(of) = network.nodes.get(node.index()) else {
                return Err(wrong(TrafficError::Index {
                    what: "node",
                    index: node.index(),
                    count: network.nodes.len(),
                }));
            };
            if is_end[node] {
                // The list of endpoints is sorted and has it.
                return Ok(ends.binary_search(&node).map_or(&[], |at| &ends[at..=at]));
            }
            let routers = of_pop.get(&of.pop).filter(|_| of.role != Role::Access);
            routers
                .map(Vec::as_slice)
                .ok_or_else(|| wrong(TrafficError::ForwardsOnly { node: quote(&of.id) }))
        };
        let (from, to) = (routers(demand.from)?, routers(demand.to)?);
        if !(demand.volume >= 0.0 && demand.volume.is_finite()) {
            let name = |node: NodeId| quote(&network.nodes[node].id);
            let (from, to) = (name(demand.from), name(demand.to));
            return Err(wrong(TrafficError::Volume { from, to, volume: demand.volume }));
        }
        work += from.len().saturating_mul(to.len());
        if work > 2 * MAX_PATHS {
            return Err(TrafficError::TooManyDemands { most: MAX_PATHS }.into());
        }
        let part = demand.volume / (from.len() * to.len()) as f64;
        for &from in from {
            to.iter()
                .filter(|&&to| to != from)
                .for_each(|&to| *sums.entry((from, to)).or_default() += part);
        }
    }
    if !sums.values().any(|&volume| volume > 0.0) {
        return Err(TrafficError::NoVolume.into());
    }
    Ok(sums.into_iter().map(|((from, to), volume)| Demand { from, to, volume }).collect())
}

/// Assigns a scaled matrix to paths. Paths without traffic are dropped.
///
/// # Errors
/// Traffic between nodes without a path; NaN or negative volumes, or none above 0; a scale that is
/// not above 0.
pub fn assign(
    network: &Network,
    mut routes: Vec<Route>,
    matrix: &[Demand],
    scale: Scale,
    provision: &Provision,
) -> Result<Vec<Route>, Error> {
    let name = |node: NodeId| {
        network.nodes.get(node.index()).map_or_else(|| node.to_string(), |node| quote(&node.id))
    };
    let mut volumes: HashMap<(NodeId, NodeId), f64> = HashMap::with_capacity(matrix.len());
    for demand in matrix {
        if !(demand.volume >= 0.0 && demand.volume.is_finite()) {
            let (from, to) = (name(demand.from), name(demand.to));
            return Err(TrafficError::Volume { from, to, volume: demand.volume }.into());
        }
        *volumes.entry((demand.from, demand.to)).or_default() += demand.volume;
    }
    for route in &mut routes {
        route.volume = volumes.remove(&(route.from, route.to)).unwrap_or(0.0);
    }
    if let Some(((from, to), _)) =
        volumes.into_iter().filter(|&(_, volume)| volume > 0.0).min_by_key(|&(ends, _)| ends)
    {
        return Err(TrafficError::Unrouted { from: name(from), to: name(to) }.into());
    }
    routes.retain(|route| route.volume > 0.0);

    // Summed in path order, so that the result does not depend on a hash map.
    let mut ingresses: BTreeMap<NodeId, f64> = BTreeMap::new();
    routes.iter().for_each(|route| *ingresses.entry(route.from).or_default() += route.volume);
    let largest = ingresses.values().copied().fold(0.0, f64::max);
    if largest == 0.0 {
        return Err(TrafficError::NoVolume.into());
    }
    let total: f64 = ingresses.values().sum();
    if !total.is_finite() {
        return Err(TrafficError::Overflow { what: "the sum of all volumes".into() }.into());
    }
    let full = provision.ingress_rate.during(provision.epoch()).0;
    let target = match scale {
        Scale::Given => 1.0,
        Scale::LargestIngress(load) | Scale::EqualIngress(load) => load * full,
        Scale::Total(bytes) => bytes.0,
    };
    if !(target > 0.0 && target.is_finite()) {
        return Err(TrafficError::Scale { target }.into());
    }
    for route in &mut routes {
        // Divide first, to avoid overflow.
        route.volume = match scale {
            Scale::Given => route.volume,
            Scale::LargestIngress(_) => route.volume / largest * target,
            Scale::EqualIngress(_) => route.volume / ingresses[&route.from] * target,
            Scale::Total(_) => route.volume / total * target,
        };
        if !route.volume.is_finite() {
            let what = format!("the traffic from {} to {}", name(route.from), name(route.to));
            return Err(TrafficError::Overflow { what }.into());
        }
    }
    routes.retain(|route| route.volume > 0.0);
    Ok(routes)
}

#[cfg(test)]
mod tests;
