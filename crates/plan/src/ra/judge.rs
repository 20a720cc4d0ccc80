//! What routes are worth, class by class and link by link. Shares no code with what computes them.

use rayon::prelude::*;

use crate::{
    Error, LinkId, Network, NodeId,
    error::{RouteError, quote},
    network::Role,
    ra::{Classes, Cost, Routes, Slice},
};

/// Loads of links, and what they cost.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Judged {
    /// Bytes per interval on each link, with elimination where its ends do that.
    pub loads: Vec<f64>,
    /// Bytes of all copies on each link.
    pub copies: Vec<f64>,
    /// Bytes times cost, per ingress, in the order given.
    pub footprints: Vec<f64>,
    /// The same without elimination.
    pub plain: Vec<f64>,
    /// Sum of `footprints`.
    pub footprint: f64,
}

impl Judged {
    /// The busiest link and its utilization, given capacities in bytes per interval. None if no
    /// link has a capacity.
    pub fn busiest(&self, capacities: &[Option<f64>]) -> Option<(LinkId, f64)> {
        busiest(&self.loads, capacities)
    }
}

/// The busiest of links with a capacity.
pub(crate) fn busiest(loads: &[f64], capacities: &[Option<f64>]) -> Option<(LinkId, f64)> {
    LinkId::all()
        .zip(loads.iter().zip(capacities))
        .filter_map(|(link, (load, capacity))| Some((link, load / (*capacity)?)))
        .reduce(|best, other| if other.1 > best.1 { other } else { best })
}

/// Judges routes: checks each path, then carries every class over every link. `eliminates` is per
/// link, or empty if all do.
///
/// # Errors
/// Paths that are broken, do not begin at the ingress or end at their egress, pass a node twice or
/// through an access router; paths of a slice that are no tree; weights that do not add up to 1; an
/// egress of a class without a path.
pub fn judge(
    network: &Network,
    cost: Cost,
    ingresses: &[(NodeId, Classes)],
    routes: &Routes,
    eliminates: &[bool],
) -> Result<Judged, Error> {
    let links = network.links.len();
    let mut judged =
        Judged { loads: vec![0.0; links], copies: vec![0.0; links], ..Judged::default() };
    let each = ingresses
        .par_iter()
        .map(|(ingress, classes)| judge_one(network, *ingress, classes, routes));
    let each: Vec<One> = each.collect::<Result<_, Error>>()?;
    // In the order of ingresses: sums must not depend on threads.
    for One { mut loads, copies } in each {
        let (mut footprint, mut plain) = (0.0, 0.0);
        for (link, number) in network.links.iter().zip(LinkId::all()) {
            let each = match cost {
                Cost::Latency => link.latency,
                Cost::Hops => 1.0,
            };
            if eliminates.get(number.index()) == Some(&false) {
                loads[number] = copies[number];
            }
            footprint += each * loads[number];
            plain += each * copies[number];
            judged.loads[number] += loads[number];
            judged.copies[number] += copies[number];
        }
        judged.footprints.push(footprint);
        judged.plain.push(plain);
        judged.footprint += footprint;
    }
    Ok(judged)
}

/// What an ingress puts on each link: each byte once, and all copies.
struct One {
    loads: Vec<f64>,
    copies: Vec<f64>,
}

fn judge_one(
    network: &Network,
    ingress: NodeId,
    classes: &Classes,
    routes: &Routes,
) -> Result<One, Error> {
    let links = network.links.len();
    let mut loads = vec![0.0; links];
    let mut copies = vec![0.0; links];
    let mut seen = vec![0_u64; links];
    let mut mark = 0;
    let mut path_of: Vec<usize> = Vec::new();
    let mut weights = 0.0;
    for slice in routes.of(ingress) {
        check(network, slice)?;
        weights += slice.weight;
        path_of.clear();
        path_of.resize(network.nodes.len(), usize::MAX);
        for (number, (egress, _)) in slice.paths.iter().enumerate() {
            path_of[*egress] = number;
        }
        let mut without = None;
        classes.visit(|egresses, bytes, times| {
            mark += 1;
            for (&egress, times) in egresses.iter().zip(times) {
                let Some((_, path)) = slice.paths.get(path_of[egress]) else {
                    without = without.or(Some(egress));
                    continue;
                };
                for &link in path {
                    copies[link] += slice.weight * bytes * times;
                    if seen[link] != mark {
                        seen[link] = mark;
                        loads[link] += slice.weight * bytes;
                    }
                }
            }
        });
        if let Some(egress) = without {
            let egress = quote(&network.nodes[egress].id);
            return Err(wrong(network, ingress, format!("no path to {egress}")));
        }
    }
    if classes.bytes() > 0.0 && (weights - 1.0_f64).abs() > 1e-9 {
        let reason = format!("the weights of the slices add up to {weights}, not 1");
        return Err(wrong(network, ingress, reason));
    }
    Ok(One { loads, copies })
}

fn wrong(network: &Network, ingress: NodeId, reason: String) -> Error {
    RouteError::Routes { ingress: quote(&network.nodes[ingress].id), reason }.into()
}

/// Whether a slice's paths are paths, and form a tree.
fn check(network: &Network, slice: &Slice) -> Result<(), Error> {
    let name = |node: NodeId| quote(&network.nodes[node].id);
    let wrong = |reason: String| wrong(network, slice.ingress, reason);
    if !(slice.weight > 0.0 && slice.weight <= 1.0 + 1e-9) {
        return Err(wrong(format!("a slice of weight {}", slice.weight)));
    }
    let mut by: Vec<Option<LinkId>> = vec![None; network.nodes.len()];
    for (egress, path) in &slice.paths {
        let mut at = slice.ingress;
        for &link in path {
            let Some(known) = network.links.get(link.index()) else {
                return Err(wrong(format!("link {link} does not exist")));
            };
            if known.from != at {
                return Err(wrong(format!(
                    "the path to {} is broken at {}",
                    name(*egress),
                    name(at)
                )));
            }
            if at != slice.ingress && network.nodes[at].role == Role::Access {
                return Err(wrong(format!("a path through the access router {}", name(at))));
            }
            at = known.to;
            // In a tree no node is the ingress again, and none has two links that lead to it; so
            // no path passes a node twice either.
            if at == slice.ingress || by[at].is_some_and(|other| other != link) {
                return Err(wrong(format!("paths come to {} by two links", name(at))));
            }
            by[at] = Some(link);
        }
        if at != *egress {
            return Err(wrong(format!("the path to {} ends at {}", name(*egress), name(at))));
        }
    }
    Ok(())
}
