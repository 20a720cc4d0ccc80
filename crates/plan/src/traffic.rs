//! How much traffic enters where, and where it goes.
//!
//! A matrix is a list of [`Demand`]s between endpoints ([`crate::routing::endpoints`]) in any unit; [`assign`] scales it and puts it on paths.

use std::collections::{BTreeMap, HashMap};

use crate::{
    Error, Network, Provision,
    network::{Demand, Names, Role},
    path::Route,
    routing::{self, MAX_PATHS, fields},
    topology::quote,
};

/// What the volumes of a matrix are in bytes per retention epoch.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Scale {
    /// Bytes per epoch already: measured volumes.
    Given,
    /// All by one factor, so that the ingress with the most traffic fills its store's rate times this load: load x ingress rate x T / 8 bytes.
    LargestIngress(f64),
    /// Each ingress by its own factor, so that it has that much (thesis, section 3.5, Figure 3.8: all ingresses have the same).
    EqualIngress(f64),
    /// All by one factor, so that they add up to this many bytes per epoch.
    Total(f64),
}

/// Gravity: from PoP a to PoP b, population(a) x population(b); from and to each of a PoP's endpoints an equal part (thesis, section 3.5). Within a
/// PoP there is no traffic.
///
/// # Errors
/// An endpoint's PoP without a known population ([`Network::without_unpopulated`] leaves those out), fewer than two PoPs.
pub fn gravity(network: &Network) -> Result<Vec<Demand>, Error> {
    let ends = routing::endpoints(network);
    // Population, endpoints.
    let mut pops: HashMap<u32, (Option<f64>, f64)> = HashMap::new();
    for &end in &ends {
        let node = &network.nodes[end as usize];
        let pop = pops.entry(node.pop).or_default();
        pop.0 = pop.0.or(node.population);
        pop.1 += 1.0;
    }
    let mut share = Vec::with_capacity(ends.len());
    for &end in &ends {
        let node = &network.nodes[end as usize];
        match pops[&node.pop] {
            (Some(population), routers) if population > 0.0 && population.is_finite() => share.push(population / routers),
            (None, _) => {
                let city = node.city.as_ref().map(|city| format!(" ({})", quote(city))).unwrap_or_default();
                return Err(Error::Traffic(format!("the population of {}{city} is unknown; gravity needs it", quote(&node.id))));
            }
            (Some(population), _) => {
                return Err(Error::Traffic(format!("the population of {} is {population}", quote(&node.id))));
            }
        }
    }
    let pairs = routing::pairs(network)?;
    let mut share_of = vec![0.0; network.nodes.len()];
    ends.iter().zip(share).for_each(|(&end, share)| share_of[end as usize] = share);
    let volume = |from: u32, to: u32| share_of[from as usize] * share_of[to as usize];
    Ok(pairs.into_iter().map(|(from, to)| Demand { from, to, volume: volume(from, to) }).collect())
}

/// The demands that came with the network; those between PoPs in equal parts from and to each of their access routers.
///
/// # Errors
/// There are none, or none above 0; one of a PoP that carries no traffic.
pub fn demands(network: &Network) -> Result<Vec<Demand>, Error> {
    if network.demands.is_empty() {
        return Err(Error::Traffic(format!("{} came without demands", quote(&network.name))));
    }
    spread(network, network.demands.iter().map(|&demand| (String::new(), demand)))
}

/// An explicit matrix: lines `from to volume`, fields and names as in [`routing::given`]. A name is an endpoint, or a PoP whose access routers share
/// the volume equally.
///
/// # Errors
/// A line that is not so; an unknown name; one that carries no traffic; a volume that is negative or no number; a pair twice; no volume above 0.
pub fn matrix(network: &Network, text: &str) -> Result<Vec<Demand>, Error> {
    let names = Names::new(network);
    let mut seen: HashMap<(u32, u32), usize> = HashMap::new();
    let mut list = Vec::new();
    for (number, line) in text.trim_start_matches('\u{feff}').lines().enumerate() {
        let number = number + 1;
        let wrong = |what: String| Error::Traffic(format!("line {number}: {what}"));
        let fields: Vec<&str> = fields(line).take(4).collect();
        let [from, to, volume] = match fields[..] {
            [] => continue,
            [from, to, volume] => [from, to, volume],
            _ => return Err(wrong(format!("{} where 'from to volume' should be", quote(line)))),
        };
        let ends = (names.find(from).map_err(wrong)?, names.find(to).map_err(wrong)?);
        if ends.0 == ends.1 {
            return Err(wrong(format!("traffic from {} to itself does not enter the network", quote(from))));
        }
        if let Some(first) = seen.insert(ends, number) {
            let (from, to) = (quote(from), quote(to));
            return Err(wrong(format!("a second volume from {from} to {to}; the first is on line {first}")));
        }
        let volume = volume.parse().map_err(|_| wrong(format!("{} is no volume", quote(volume))))?;
        list.push((format!("line {number}: "), Demand { from: ends.0, to: ends.1, volume }));
    }
    if list.is_empty() {
        return Err(Error::Traffic("the matrix is empty".into()));
    }
    spread(network, list)
}

/// Demands between nodes as demands between endpoints, sorted, one per pair.
fn spread(network: &Network, list: impl IntoIterator<Item = (String, Demand)>) -> Result<Vec<Demand>, Error> {
    let ends = routing::endpoints(network);
    let mut is_end = vec![false; network.nodes.len()];
    let mut of_pop: HashMap<u32, Vec<u32>> = HashMap::new();
    for &end in &ends {
        is_end[end as usize] = true;
        of_pop.entry(network.nodes[end as usize].pop).or_default().push(end);
    }
    let mut sums: BTreeMap<(u32, u32), f64> = BTreeMap::new();
    let mut work = 0_usize;
    for (place, demand) in list {
        let routers = |node: u32| -> Result<&[u32], Error> {
            let Some(of) = network.nodes.get(node as usize) else {
                return Err(Error::Traffic(format!("{place}a demand of node {node}, but there are {}", network.nodes.len())));
            };
            if is_end[node as usize] {
                // The list of endpoints is sorted and has it.
                return Ok(ends.binary_search(&node).map_or(&[], |at| &ends[at..=at]));
            }
            let routers = of_pop.get(&of.pop).filter(|_| of.role != Role::Access);
            routers.map(Vec::as_slice).ok_or_else(|| Error::Traffic(format!("{place}{} forwards traffic only", quote(&of.id))))
        };
        let (from, to) = (routers(demand.from)?, routers(demand.to)?);
        if !(demand.volume >= 0.0 && demand.volume.is_finite()) {
            let name = |node: u32| quote(&network.nodes[node as usize].id);
            let (from, to) = (name(demand.from), name(demand.to));
            return Err(Error::Traffic(format!("{place}a volume of {} from {from} to {to}", demand.volume)));
        }
        work += from.len().saturating_mul(to.len());
        if work > 2 * MAX_PATHS {
            return Err(Error::Traffic(format!("the demands spread over more than {MAX_PATHS} paths")));
        }
        let part = demand.volume / (from.len() * to.len()) as f64;
        for &from in from {
            to.iter().filter(|&&to| to != from).for_each(|&to| *sums.entry((from, to)).or_default() += part);
        }
    }
    if !sums.values().any(|&volume| volume > 0.0) {
        return Err(Error::Traffic("all volumes are 0".into()));
    }
    Ok(sums.into_iter().map(|((from, to), volume)| Demand { from, to, volume }).collect())
}

/// Puts a matrix on paths, scaled. Paths without traffic are left out.
///
/// # Errors
/// Traffic between nodes that have no path; volumes that are no numbers, or none above 0; a scale that is not above 0.
pub fn assign(
    network: &Network,
    mut routes: Vec<Route>,
    matrix: &[Demand],
    scale: Scale,
    provision: &Provision,
) -> Result<Vec<Route>, Error> {
    let name = |node: u32| network.nodes.get(node as usize).map_or_else(|| node.to_string(), |node| quote(&node.id));
    let mut volumes: HashMap<(u32, u32), f64> = HashMap::with_capacity(matrix.len());
    for demand in matrix {
        if !(demand.volume >= 0.0 && demand.volume.is_finite()) {
            let (from, to) = (name(demand.from), name(demand.to));
            return Err(Error::Traffic(format!("a volume of {} from {from} to {to}", demand.volume)));
        }
        *volumes.entry((demand.from, demand.to)).or_default() += demand.volume;
    }
    for route in &mut routes {
        route.volume = volumes.remove(&(route.from, route.to)).unwrap_or(0.0);
    }
    if let Some(((from, to), _)) = volumes.into_iter().filter(|&(_, volume)| volume > 0.0).min_by_key(|&(ends, _)| ends) {
        return Err(Error::Traffic(format!("there is traffic from {} to {}, but no path", name(from), name(to))));
    }
    routes.retain(|route| route.volume > 0.0);

    // Summed in the order of the paths, so that the result does not depend on a hash map.
    let mut ingresses: BTreeMap<u32, f64> = BTreeMap::new();
    routes.iter().for_each(|route| *ingresses.entry(route.from).or_default() += route.volume);
    let largest = ingresses.values().copied().fold(0.0, f64::max);
    if largest == 0.0 {
        return Err(Error::Traffic("all volumes are 0".into()));
    }
    let total: f64 = ingresses.values().sum();
    if !total.is_finite() {
        return Err(Error::Traffic("the volumes add up to more than numbers can say; give them in a larger unit".into()));
    }
    let full = provision.ingress_rate * provision.epoch() / 8.0;
    let target = match scale {
        Scale::Given => 1.0,
        Scale::LargestIngress(load) | Scale::EqualIngress(load) => load * full,
        Scale::Total(bytes) => bytes,
    };
    if !(target > 0.0 && target.is_finite()) {
        return Err(Error::Traffic(format!("the volumes cannot be scaled to {target} bytes per epoch; it must be above 0")));
    }
    for route in &mut routes {
        // A quotient first: volumes may be as large as numbers get.
        route.volume = match scale {
            Scale::Given => route.volume,
            Scale::LargestIngress(_) => route.volume / largest * target,
            Scale::EqualIngress(_) => route.volume / ingresses[&route.from] * target,
            Scale::Total(_) => route.volume / total * target,
        };
        if !route.volume.is_finite() {
            return Err(Error::Traffic(format!(
                "the traffic from {} to {} is more than numbers can say",
                name(route.from),
                name(route.to)
            )));
        }
    }
    routes.retain(|route| route.volume > 0.0);
    Ok(routes)
}

#[cfg(test)]
mod tests;
