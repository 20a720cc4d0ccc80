//! A plan divided into the parts of its nodes.

use std::collections::HashMap;

use super::{NodePart, OwnPath, PartError, Passing};
use crate::manifest::{Plan, PlannedPath, Range};
use crate::{Network, NodeId, PathId, Unwatched, routing};

/// A plan, ready to be divided.
#[derive(Clone, Debug)]
pub struct Parts {
    version: u64,
    digest: u64,
    ways: Vec<Way>,
    /// For each node of the network: its paths, by index, and its place on each.
    at: Vec<Vec<(u32, u32)>>,
}

/// A path, and the nodes that it passes.
#[derive(Clone, Debug)]
struct Way {
    id: PathId,
    /// The first and the last included, and which of them have a device for it.
    nodes: Box<[(NodeId, bool)]>,
    /// [`Range::hop`] counts the nodes after the first.
    ranges: Box<[Range]>,
}

impl Parts {
    /// The parts of a plan with this digest, whose devices serve whole nodes of the network. A path
    /// goes through the nodes of its devices if they are in a row, from a neighbor of its ingress to
    /// its egress; otherwise the shortest way.
    ///
    /// # Errors
    /// [`PartError`] for a plan of another network, of slices, or of links.
    pub fn new(plan: &Plan, digest: u64, network: &Network) -> Result<Parts, PartError> {
        let numbers: HashMap<&str, NodeId> =
            network.nodes.iter().map(|node| node.id.as_str()).zip(NodeId::all()).collect();
        let number =
            |name: &str| numbers.get(name).copied().ok_or_else(|| PartError::Stranger(name.into()));
        let devices = plan.devices().iter().map(|device| number(&device.name));
        let devices = devices.collect::<Result<Vec<NodeId>, PartError>>()?;
        if let Some(sliced) = plan.ingresses().iter().find(|ingress| ingress.slice > 0) {
            return Err(PartError::Slices(sliced.name.clone()));
        }
        let ingresses = plan.ingresses().iter().map(|ingress| number(&ingress.name));
        let ingresses = ingresses.collect::<Result<Vec<NodeId>, PartError>>()?;
        let links: std::collections::HashSet<(NodeId, NodeId)> =
            network.links.iter().map(|link| (link.from, link.to)).collect();

        let mut ways = Vec::with_capacity(plan.paths().len());
        let mut shortest = Vec::new();
        for path in plan.paths() {
            let (from, to) = (ingresses[path.ingress as usize], number(&path.egress)?);
            let mut nodes = vec![(from, false)];
            nodes.extend(path.hops.iter().map(|&hop| (devices[hop.index()], true)));
            let is_row = nodes.windows(2).all(|pair| links.contains(&(pair[0].0, pair[1].0)));
            if nodes.len() < 2 || nodes.last() != Some(&(to, true)) || !is_row {
                shortest.push((ways.len(), (from, to)));
            }
            ways.push(Way { id: path.id, nodes: nodes.into(), ranges: path.ranges.clone() });
        }
        let pairs: Vec<(NodeId, NodeId)> = shortest.iter().map(|one| one.1).collect();
        let routes = routing::shortest_paths_between(network, &pairs, &Unwatched)
            .map_err(|error| PartError::NoWay(error.to_string()))?;
        for ((at, (from, _)), route) in shortest.into_iter().zip(routes) {
            let path = &plan.paths()[at];
            let after = route.links.iter().map(|&link| network.links[link].to);
            ways[at] = along(path, &devices, from, after).ok_or_else(|| PartError::OtherWay {
                from: plan.ingresses()[path.ingress as usize].name.clone(),
                to: path.egress.clone(),
            })?;
        }

        let mut at = vec![Vec::new(); network.nodes.len()];
        for (number, way) in ways.iter().enumerate() {
            for (place, &(node, _)) in way.nodes.iter().enumerate() {
                at[node.index()].push((number as u32, place as u32));
            }
        }
        Ok(Parts { version: plan.version(), digest, ways, at })
    }

    /// The part of a node; without paths for one that is not in the network.
    pub fn part(&self, node: NodeId) -> NodePart {
        let mut part = NodePart {
            version: self.version,
            digest: self.digest,
            node,
            passing: Vec::new(),
            own: Vec::new(),
        };
        for &(number, place) in self.at.get(node.index()).into_iter().flatten() {
            let (way, place) = (&self.ways[number as usize], place as usize);
            if place == 0 {
                let (way, ranges) = (way.nodes[1..].to_vec(), way.ranges.to_vec());
                part.own.push(OwnPath { id: self.ways[number as usize].id, way, ranges });
                continue;
            }
            let range = way.ranges.iter().find(|range| range.hop as usize + 1 == place);
            part.passing.push(Passing {
                id: way.id,
                from: way.nodes[0].0,
                before: way.nodes[place - 1].0,
                after: way.nodes.get(place + 1).map(|after| after.0),
                has_device: way.nodes[place].1,
                range: range.map(|range| (range.from, range.to, range.bytes)),
            });
        }
        part.passing.sort_by_key(|one| (one.from, one.before, one.has_device, one.id));
        part.own.sort_by_key(|one| one.id);
        part
    }
}

/// A path on these nodes after its first, which has its devices in order; none if it does not.
fn along(
    path: &PlannedPath,
    devices: &[NodeId],
    from: NodeId,
    after: impl Iterator<Item = NodeId>,
) -> Option<Way> {
    let mut hops = path.hops.iter().map(|&hop| devices[hop.index()]).peekable();
    let mut places = Vec::with_capacity(path.hops.len());
    let mut nodes = vec![(from, false)];
    for node in after {
        let has_device = hops.next_if_eq(&node).is_some();
        if has_device {
            places.push(nodes.len() as u32 - 1);
        }
        nodes.push((node, has_device));
    }
    if hops.next().is_some() {
        return None;
    }
    let moved = |range: &Range| Range { hop: places[range.hop as usize], ..*range };
    Some(Way { id: path.id, nodes: nodes.into(), ranges: path.ranges.iter().map(moved).collect() })
}
