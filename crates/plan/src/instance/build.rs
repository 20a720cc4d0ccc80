//! Checks of single routes, and placement of devices.

use std::collections::{BTreeMap, BTreeSet};

use super::{Device, Placement, Provision};
use crate::{
    DeviceId, Error, LinkId, Network, NodeId, Seconds,
    error::{DeviceError, PathError, TrafficError},
    network::Role,
    path::Route,
};

pub(super) fn check_route(network: &Network, route: &Route) -> Result<(), Error> {
    let nodes = network.nodes.len();
    let (from, to) = (route.from.index(), route.to.index());
    if from >= nodes || to >= nodes {
        return Err(PathError::UnknownNodes { what: "path", from, to, nodes }.into());
    }
    let name = |node: NodeId| network.nodes[node].id.clone();
    let path = || format!("from {} to {}", name(route.from), name(route.to));
    if !(route.volume >= 0.0 && route.volume.is_finite()) {
        return Err(TrafficError::Volume {
            from: name(route.from),
            to: name(route.to),
            volume: route.volume,
        }
        .into());
    }
    let mut at = route.from;
    let mut seen = BTreeSet::from([at]);
    for &link in &route.links {
        let Some(link) = network.links.get(link.index()) else {
            return Err(PathError::UnknownLink {
                path: path(),
                link: link.index(),
                links: network.links.len(),
            }
            .into());
        };
        if link.from != at {
            return Err(
                PathError::Broken { path: path(), at: name(at), next: name(link.from) }.into()
            );
        }
        at = link.to;
        if !seen.insert(at) {
            return Err(PathError::Loop { path: Some(path()), node: name(at) }.into());
        }
    }
    if at != route.to {
        return Err(PathError::WrongEnd { path: path(), at: name(at) }.into());
    }
    Ok(())
}

type Placed = (Vec<Device>, Vec<Option<DeviceId>>);

/// Devices, and for each link the one at its head.
pub(super) fn place(
    network: &Network,
    provision: &Provision,
    epoch: Seconds,
    placement: &Placement,
) -> Result<Placed, Error> {
    let mut devices = Vec::new();
    let mut of_link = vec![None; network.links.len()];
    let mut of_node: BTreeMap<NodeId, DeviceId> = BTreeMap::new();
    let size = |node: NodeId| match network.nodes[node].role {
        Role::Access => provision.edge_memory,
        Role::Any | Role::Backbone => provision.interior_memory,
    };
    if let Placement::Some(chosen) = placement
        && let Some(&unknown) = chosen.iter().find(|&&link| link.index() >= network.links.len())
    {
        return Err(DeviceError::Index {
            what: "link",
            index: unknown.index(),
            count: network.links.len(),
        }
        .into());
    }
    for (number, link) in network.links.iter().enumerate() {
        let next = DeviceId::new(devices.len());
        let device = match placement {
            Placement::Links => next,
            Placement::Some(chosen) if chosen.contains(&LinkId::new(number)) => next,
            Placement::Some(_) => continue,
            Placement::Routers => *of_node.entry(link.to).or_insert(next),
        };
        if device == next {
            devices.push(Device {
                node: link.to,
                link: (*placement != Placement::Routers).then_some(LinkId::new(number)),
                memory: size(link.to).0,
                operations: provision.operations.during(epoch),
                encodings: provision.encodings.during(epoch),
            });
        }
        of_link[number] = Some(device);
    }
    Ok((devices, of_link))
}
