//! Checks of a plan against its instance. Shares no code with what makes plans.

use std::{collections::HashMap, ops::Range};

use super::{IngressManifest, IngressPath, Plan, SPACE};
use crate::{
    DeviceId, Ingress, Instance, NodeId, PathId,
    error::{ManifestError, Violation},
};

/// Checks all manifests of a plan against the instance.
///
/// - Each path's ranges, as its devices have them, are disjoint and cover exactly what the ingress
///   thinks, from hash 0 on, in on-path order, and not more than the ingress encodes.
/// - Ingress and device have the same buckets, of d x v bytes times at most the headroom, within
///   the memory of the device and of the ingress's node.
/// - For each pair of paths of an ingress, the overlap bound is exact: below it every hash's holder
///   lies on the path, and no range above it has such a holder. Of more than 64 paths, one pair
///   stands for all in which the same path is parted from at the same device.
///
/// # Errors
/// The first violation.
pub fn validate(plan: &Plan, instance: &Instance) -> Result<(), ManifestError> {
    let held = held(plan, instance)?;
    let check = Check { plan, instance, held: &held };
    let mut on_path = OnPath { serials: vec![0; plan.devices().len()], serial: 0 };
    let mut stored = Vec::with_capacity(instance.ingresses.len());
    for (ingress, manifest) in plan.ingress_manifests().iter().enumerate() {
        let paths = instance.paths_of(ingress);
        stored.push(check.buckets(ingress, manifest)?);
        if paths.len() <= EACH_PAIR {
            for p in paths.clone() {
                paths.clone().try_for_each(|q| check.bound(manifest, &mut on_path, p, q))?;
            }
        } else {
            for (p, q) in partings(instance, paths) {
                check.bound(manifest, &mut on_path, p, q)?;
            }
        }
    }
    // A node's slices share its store.
    for slices in instance.stores() {
        let ingress = &instance.ingresses[slices.start];
        fits(check.node(ingress.node), stored[slices].iter().sum(), ingress.memory)?;
    }
    Ok(())
}

/// A range of a path's hashes as a device has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Held {
    /// First hash.
    from: u64,
    /// End (exclusive).
    to: u64,
    device: DeviceId,
    /// Size of the bucket in bytes.
    bytes: u64,
}

/// The devices' ranges of each path of the instance, in the order of hashes; with the memory of
/// each device checked.
fn held(plan: &Plan, instance: &Instance) -> Result<Vec<Vec<Held>>, ManifestError> {
    let (devices, ingresses) = (plan.devices().len(), plan.ingresses().len());
    let paths = plan.paths().len();
    if [devices, ingresses, paths]
        != [instance.devices.len(), instance.ingresses.len(), instance.paths.len()]
    {
        return Err(Violation::AnotherInstance { devices, ingresses, paths }.into());
    }
    let number: HashMap<PathId, usize> = plan.paths().iter().map(|path| path.id).zip(0..).collect();
    let mut held: Vec<Vec<Held>> = vec![Vec::new(); paths];
    for ((manifest, device), number_of_device) in
        plan.device_manifests().iter().zip(&instance.devices).zip(DeviceId::all())
    {
        let mut used = 0.0;
        for entry in manifest.entries() {
            let Some(&path) = number.get(&entry.path) else {
                let device = manifest.name().into();
                return Err(Violation::UnknownPath { device, path: entry.path }.into());
            };
            held[path].push(Held {
                from: entry.from,
                to: entry.to,
                device: number_of_device,
                bytes: entry.bytes,
            });
            used += entry.bytes as f64;
        }
        fits(manifest.name(), used, device.memory)?;
    }
    held.iter_mut().for_each(|ranges| ranges.sort_unstable());
    Ok(held)
}

fn fits(name: &str, used: f64, memory: f64) -> Result<(), ManifestError> {
    if used > memory {
        return Err(ManifestError::Full { name: name.into(), used, memory });
    }
    Ok(())
}

/// Which devices a path has, for one path after another.
struct OnPath {
    /// Serial number of the last path that had the device.
    serials: Vec<u64>,
    serial: u64,
}

impl OnPath {
    fn set(&mut self, path: &crate::Path) {
        self.serial += 1;
        path.hops.iter().for_each(|hop| self.serials[hop.device] = self.serial);
    }

    fn has(&self, device: DeviceId) -> bool {
        self.serials[device] == self.serial
    }
}

/// A plan, what it is for, and what its devices hold.
struct Check<'a> {
    plan: &'a Plan,
    instance: &'a Instance,
    held: &'a [Vec<Held>],
}

impl Check<'_> {
    fn node(&self, node: NodeId) -> &str {
        &self.instance.network.nodes[node].id
    }

    /// The ingress's paths and buckets are those of its devices. Bytes of its buckets.
    fn buckets(&self, ingress: usize, manifest: &IngressManifest) -> Result<f64, ManifestError> {
        let Ingress { node, slice, .. } = self.instance.ingresses[ingress];
        let name = self.node(node);
        let paths = self.instance.paths_of(ingress);
        if (manifest.name(), manifest.slice()) != (name, slice)
            || manifest.paths().len() != paths.len()
        {
            let planned = manifest.name().into();
            return Err(Violation::AnotherIngress { planned, name: name.into() }.into());
        }
        let coded = self.instance.coded(ingress);
        let mut stored = 0.0;
        for p in paths {
            let listed = self.listed(manifest, p)?;
            self.ranges(p, coded)?;
            let own = listed.ranges.iter().map(|range| Held {
                from: range.from,
                to: range.to,
                device: manifest.tree()[range.node as usize - 1].device,
                bytes: range.bytes,
            });
            if !own.eq(self.held[p].iter().copied()) {
                return Err(Violation::Buckets { ingress: name.into(), path: listed.id }.into());
            }
            stored += self.held[p].iter().map(|range| range.bytes as f64).sum::<f64>();
        }
        Ok(stored)
    }

    /// Path `p` as its ingress has it, with the devices that it has in the instance.
    fn listed<'m>(
        &self,
        manifest: &'m IngressManifest,
        p: usize,
    ) -> Result<&'m IngressPath, Violation> {
        let path = &self.instance.paths[p];
        let egress = self.node(path.egress);
        let (ingress, listed) = (manifest.name(), manifest.path(self.plan.paths()[p].id));
        let Some(listed) = listed.filter(|listed| listed.egress == egress) else {
            return Err(Violation::MissingPath { ingress: ingress.into(), egress: egress.into() });
        };
        if !manifest.devices(listed).into_iter().eq(path.hops.iter().map(|hop| hop.device)) {
            return Err(Violation::OtherDevices { ingress: ingress.into(), egress: egress.into() });
        }
        Ok(listed)
    }

    /// The devices' ranges of path `p` follow each other, in on-path order, with buckets of d x v
    /// bytes, up to what the ingress encodes at most.
    fn ranges(&self, p: usize, coded: f64) -> Result<(), Violation> {
        let (path, id) = (&self.instance.paths[p], self.plan.paths()[p].id);
        let (mut at, mut hop) = (0, 0);
        for &Held { from, to, device, bytes } in &self.held[p] {
            if from != at || to <= from {
                return Err(Violation::Gap { path: id, from, to, at });
            }
            match path.hops[hop..].iter().position(|hop| hop.device == device) {
                Some(ahead) => hop += ahead + 1,
                None => return Err(Violation::Order { path: id, device }),
            }
            // Ends are rounded to whole hashes, buckets down to whole bytes, memories too;
            // solutions may be 1e-6 above their limits.
            let bucket = |hashes: u64| hashes as f64 / SPACE as f64 * path.volume;
            let most = bucket(to - from + 1) * self.plan.parameters().headroom;
            let least = bucket(to - from - 1) * (1.0 - 3e-6) - 3.0;
            if (bytes as f64) > most || (bytes as f64) < least {
                return Err(Violation::Bucket { bytes, path: id, share: bucket(to - from) });
            }
            at = to;
        }
        if at as f64 > coded * SPACE as f64 {
            return Err(Violation::Cover { path: id, at, coded });
        }
        Ok(())
    }

    /// bound(p, q) is the end of the last range of q that a device of p can decode.
    fn bound(
        &self,
        manifest: &IngressManifest,
        on_path: &mut OnPath,
        p: usize,
        q: usize,
    ) -> Result<(), Violation> {
        on_path.set(&self.instance.paths[p]);
        let (of, with) = (self.plan.paths()[p].id, self.plan.paths()[q].id);
        let bound = manifest.overlap(of, with);
        let ranges = &self.held[q];
        if let Some(&Held { from, to, device, .. }) =
            ranges.iter().find(|range| (range.to <= bound) != on_path.has(range.device))
        {
            return Err(Violation::Bound { of, with, bound, device, from, to });
        }
        if bound != 0 && !ranges.iter().any(|range| range.to == bound) {
            return Err(Violation::BoundInside { of, with, bound });
        }
        Ok(())
    }
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
    let mut seen: HashMap<Option<DeviceId>, (usize, Option<usize>)> = HashMap::new();
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
