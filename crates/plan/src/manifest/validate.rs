//! Checks of a plan against its instance. Shares no code with what makes plans.

use std::{collections::HashMap, ops::Range};

use super::{Plan, SPACE};
use crate::{Error, Instance, NodeId};

/// Checks all manifests of a plan against the instance.
///
/// - Each path's ranges, as its devices have them, are disjoint and cover exactly what the ingress
///   thinks, from hash 0 on, in on-path order, and not more than the ingress encodes.
/// - Ingress and device have the same buckets, of d x v bytes times at most the headroom, within
///   the memory of both.
/// - For each pair of paths of an ingress, the overlap bound is exact: below it every hash's holder
///   lies on the path, and no range above it has such a holder. Of more than 64 paths, one pair
///   stands for all in which the same path is parted from at the same device.
///
/// # Errors
/// The first violation.
pub fn validate(plan: &Plan, instance: &Instance) -> Result<(), Error> {
    let wrong = |what: String| Err(Error::Manifest(what));
    let counts = [plan.devices().len(), plan.ingresses().len(), plan.paths().len()];
    if counts != [instance.devices.len(), instance.ingresses.len(), instance.paths.len()] {
        return wrong(format!(
            "a plan of {} devices, {} ingresses and {} paths is not this network's",
            counts[0], counts[1], counts[2]
        ));
    }
    let node = |node: NodeId| &instance.network.nodes[node].id;
    let number: HashMap<u32, usize> = plan.paths().iter().map(|path| path.id).zip(0..).collect();

    // The devices' ranges per path: (first hash, end, device, bytes).
    let mut held: Vec<Vec<(u64, u64, u32, u64)>> = vec![Vec::new(); counts[2]];
    for (device, manifest) in plan.device_manifests().iter().enumerate() {
        let mut used = 0.0;
        for entry in manifest.entries() {
            let Some(&path) = number.get(&entry.path) else {
                return wrong(format!(
                    "device {} caches path {}, which does not exist",
                    manifest.name(),
                    entry.path
                ));
            };
            held[path].push((entry.from, entry.to, device as u32, entry.bytes));
            used += entry.bytes as f64;
        }
        let memory = instance.devices[device].memory;
        if used > memory {
            return wrong(format!(
                "the buckets of {} take {used} bytes; it has {memory}",
                manifest.name()
            ));
        }
    }

    let (mut on_path, mut serial) = (vec![0u64; counts[0]], 0);
    for (ingress, manifest) in plan.ingress_manifests().iter().enumerate() {
        let name = node(instance.ingresses[ingress].node);
        let paths = instance.paths_of(ingress);
        if manifest.name() != name || manifest.paths().len() != paths.len() {
            return wrong(format!(
                "the plan's ingress {} is not the network's {name}",
                manifest.name()
            ));
        }
        let coded = instance.coded(ingress);
        let mut stored = 0.0;
        for p in paths.clone() {
            let path = &instance.paths[p];
            let id = plan.paths()[p].id;
            let Some(told) = manifest.path(id).filter(|told| told.egress == *node(path.egress))
            else {
                return wrong(format!("{name} does not know the path to {}", node(path.egress)));
            };
            if !manifest.devices(told).into_iter().eq(path.hops.iter().map(|hop| hop.device)) {
                return wrong(format!(
                    "the path from {name} to {} has other devices in the plan",
                    told.egress
                ));
            }
            held[p].sort_unstable();
            let (mut at, mut hop) = (0, 0);
            for &(from, to, device, bytes) in &held[p] {
                if from != at || to <= from {
                    return wrong(format!(
                        "hashes of path {id}: a range from {from} to {to} where one from {at} belongs"
                    ));
                }
                match path.hops[hop..].iter().position(|hop| hop.device == device) {
                    Some(ahead) => hop += ahead + 1,
                    None => {
                        return wrong(format!(
                            "hashes of path {id} are at device {device}, out of order or not on it"
                        ));
                    }
                }
                // Ends are rounded to whole hashes, buckets down to whole bytes, memories too;
                // solutions may be 1e-6 above their limits.
                let bucket = |hashes: u64| hashes as f64 / SPACE as f64 * path.volume;
                let most = bucket(to - from + 1) * plan.parameters().headroom;
                let least = bucket(to - from - 1) * (1.0 - 3e-6) - 3.0;
                if (bytes as f64) > most || (bytes as f64) < least {
                    return wrong(format!(
                        "a bucket of {bytes} bytes for path {id}; d x v is {}",
                        bucket(to - from)
                    ));
                }
                stored += bytes as f64;
                at = to;
            }
            if at as f64 > coded * SPACE as f64 {
                return wrong(format!(
                    "path {id} is covered up to {at}; the ingress encodes {coded} of it"
                ));
            }
            let own = told.ranges.iter().map(|range| {
                let device = manifest.tree()[range.node as usize - 1].device;
                (range.from, range.to, device, range.bytes)
            });
            if !own.eq(held[p].iter().copied()) {
                return wrong(format!(
                    "{name} and the devices of path {id} have different buckets"
                ));
            }
        }
        if stored > instance.ingresses[ingress].memory {
            return wrong(format!(
                "the buckets of {name} take {stored} bytes; it has {}",
                instance.ingresses[ingress].memory
            ));
        }
        let mut bound_is_exact = |p: usize, q: usize| -> Result<(), Error> {
            serial += 1;
            instance.paths[p].hops.iter().for_each(|hop| on_path[hop.device as usize] = serial);
            let (of, with) = (plan.paths()[p].id, plan.paths()[q].id);
            let bound = manifest.overlap(of, with);
            let decodable = |device: u32| on_path[device as usize] == serial;
            if let Some(range) =
                held[q].iter().find(|range| (range.1 <= bound) != decodable(range.2))
            {
                return wrong(format!(
                    "bound({of}, {with}) is {bound}, but device {} has hashes from {} to {}",
                    range.2, range.0, range.1
                ));
            }
            if bound != 0 && !held[q].iter().any(|range| range.1 == bound) {
                return wrong(format!(
                    "bound({of}, {with}) is {bound}, which is no end of a range"
                ));
            }
            Ok(())
        };
        if paths.len() <= EACH_PAIR {
            for p in paths.clone() {
                paths.clone().try_for_each(|q| bound_is_exact(p, q))?;
            }
        } else {
            for (p, q) in partings(instance, paths) {
                bound_is_exact(p, q)?;
            }
        }
    }
    Ok(())
}

/// Paths of an ingress up to which all of their pairs are checked.
const EACH_PAIR: usize = 64;

/// For each path q of an ingress and each place where another parts from it, q with one path p that
/// parts there; and q with itself. With one device after another, which the paths were seen to have
/// in the plan too, bound(p, q) depends on no more of p than that place.
pub(super) fn partings(instance: &Instance, paths: Range<usize>) -> Vec<(usize, usize)> {
    let device = |path: usize, hop: usize| instance.paths[path].hops.get(hop).map(|hop| hop.device);
    // Of the paths that come to a device (none is the ingress): one, and one that goes on otherwise
    // than the first.
    let mut seen: HashMap<Option<u32>, (usize, Option<usize>)> = HashMap::new();
    let places = |path: usize| {
        (0..=instance.paths[path].hops.len())
            .map(move |next| (next.checked_sub(1).and_then(|last| device(path, last)), next))
    };
    for path in paths.clone() {
        for (place, next) in places(path) {
            let (first, other) = seen.entry(place).or_insert((path, None));
            if other.is_none() && device(*first, next) != device(path, next) {
                *other = Some(path);
            }
        }
    }
    let mut pairs = Vec::new();
    for q in paths {
        pairs.push((q, q));
        for (place, next) in places(q) {
            let (first, other) = seen[&place];
            let parts = [Some(first), other]
                .into_iter()
                .flatten()
                .find(|&p| device(p, next) != device(q, next));
            pairs.extend(parts.map(|p| (p, q)));
        }
    }
    pairs
}
