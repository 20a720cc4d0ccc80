//! A cable that fails.

use super::{failure, nanoseconds};
use crate::failure::{Failure, Outcome};
use oncewire_plan::emulate::{Change, Event};
use oncewire_plan::{Instance, Unwatched, routing};
use std::time::Duration;

/// The busiest cable without which every path has another way fails: paths over it take that, of which ingresses hear after `notice`.
pub(super) fn reroute(instance: &Instance, time: Duration, notice: Duration) -> Outcome<Vec<Event>> {
    let volumes = instance.link_volumes();
    let mut busiest: Vec<usize> = (0..volumes.len()).filter(|&link| instance.counted[link] && volumes[link] > 0.0).collect();
    busiest.sort_by(|&a, &b| volumes[b].total_cmp(&volumes[a]).then(a.cmp(&b)));
    for link in busiest {
        if let Some(routes) = without(instance, link)? {
            let event = |(path, links)| {
                let change = Change::Route { path, links, notice: nanoseconds(notice) };
                Event { time: nanoseconds(time), change }
            };
            return Ok(routes.into_iter().map(event).collect());
        }
    }
    Err(Failure::usage("--reroute: there is no link in this network without which all PoPs are still connected"))
}

/// A path, and the links that it takes from now on.
type NewLinks = (u32, Vec<u32>);

/// Other links for the paths over a cable, if it fails and they have any.
fn without(instance: &Instance, failed: usize) -> Outcome<Option<Vec<NewLinks>>> {
    let failed = instance.network.links[failed];
    let gone = |link: u32| {
        let link = instance.network.links[link as usize];
        (link.from, link.to) == (failed.from, failed.to) || (link.from, link.to) == (failed.to, failed.from)
    };
    // Numbers of links stay those of the whole network: what failed is made so long that nothing takes it if there is another way.
    let mut left = instance.network.clone();
    let far: f64 = left.links.iter().map(|link| link.weight).sum::<f64>() * 1e3;
    (0..).zip(&mut left.links).filter(|(number, _)| gone(*number)).for_each(|(_, link)| link.weight += far);
    let over: Vec<(u32, &oncewire_plan::Path)> =
        (0..).zip(&instance.paths).filter(|(_, path)| path.links.iter().any(|&link| gone(link))).collect();
    let ends = |path: &oncewire_plan::Path| (instance.ingresses[path.ingress as usize].node, path.egress);
    let pairs: Vec<(u32, u32)> = over.iter().map(|(_, path)| ends(path)).collect();
    let routes = routing::shortest_paths_between(&left, &pairs, &Unwatched).map_err(failure)?;
    if routes.iter().any(|route| route.links.iter().any(|&link| gone(link))) {
        return Ok(None);
    }
    Ok(Some(over.iter().zip(routes).map(|(&(number, _), route)| (number, route.links)).collect()))
}
