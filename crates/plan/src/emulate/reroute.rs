//! A link that fails.

use super::{Change, Event};
use crate::{Error, Instance, LinkId, NodeId, Unwatched, error::EmulationError, routing};

/// Events of a failure at `time`: of the links without which every path still has a route, the
/// busiest fails in both directions. Paths over it take the other routes, and ingresses learn of
/// them after `notice` nanoseconds.
///
/// # Errors
/// [`EmulationError::NoSpareLink`] if every link is needed.
pub fn reroute(instance: &Instance, time: u64, notice: u64) -> Result<Vec<Event>, Error> {
    let volumes = instance.link_volumes();
    let mut busiest: Vec<usize> =
        (0..volumes.len()).filter(|&link| instance.counted[link] && volumes[link] > 0.0).collect();
    busiest.sort_by(|&a, &b| volumes[b].total_cmp(&volumes[a]).then(a.cmp(&b)));
    for link in busiest {
        if let Some(routes) = without(instance, link)? {
            let event =
                |(path, links)| Event { time, change: Change::Route { path, links, notice } };
            return Ok(routes.into_iter().map(event).collect());
        }
    }
    Err(EmulationError::NoSpareLink.into())
}

/// A path and its new links.
type NewRoute = (u32, Vec<LinkId>);

/// New routes for the paths over a link that fails, if all of them have one.
fn without(instance: &Instance, failed: usize) -> Result<Option<Vec<NewRoute>>, Error> {
    let failed = instance.network.links[failed];
    let gone = |link: LinkId| {
        let link = instance.network.links[link];
        (link.from, link.to) == (failed.from, failed.to)
            || (link.from, link.to) == (failed.to, failed.from)
    };
    // The failed link gets so long that only a path without another route takes it. Links keep
    // their numbers that way.
    let mut left = instance.network.clone();
    let far: f64 = left.links.iter().map(|link| link.weight).sum::<f64>() * 1e3;
    LinkId::all()
        .zip(&mut left.links)
        .filter(|(number, _)| gone(*number))
        .for_each(|(_, link)| link.weight += far);
    let over: Vec<(u32, &crate::Path)> = (0..)
        .zip(&instance.paths)
        .filter(|(_, path)| path.links.iter().any(|&link| gone(link)))
        .collect();
    let ends = |path: &crate::Path| (instance.ingresses[path.ingress as usize].node, path.egress);
    let pairs: Vec<(NodeId, NodeId)> = over.iter().map(|(_, path)| ends(path)).collect();
    let routes = routing::shortest_paths_between(&left, &pairs, &Unwatched)?;
    if routes.iter().any(|route| route.links.iter().any(|&link| gone(link))) {
        return Ok(None);
    }
    Ok(Some(over.iter().zip(routes).map(|(&(number, _), route)| (number, route.links)).collect()))
}
