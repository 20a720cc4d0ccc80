//! Assignments of caches, in the form the emulator uses.

use std::sync::Arc;

use rayon::prelude::*;

use super::Rules;
use crate::{
    DeviceId, Error, HeaderHash, Ingress, Instance, Solution,
    error::EmulationError,
    evaluate::copies::{self, Expected, Place},
    manifest::{self, IngressManifest, IngressPath, IngressRange, Plan, PlannedPath},
};

/// Volume of a path that a plan did not expect, over that of the mean path of its ingress.
const UNEXPECTED: f64 = 0.1;
/// Number of hashes.
const SPACE: f64 = 4_294_967_296.0;

/// A range of hashes of a path's packets, and who caches them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Share {
    /// First hash.
    pub from: u64,
    /// End of the range (exclusive), at most 2^32.
    pub to: u64,
    /// The device.
    pub device: DeviceId,
    /// Size in bytes of the FIFO bucket at ingress and device: packets count with headers and
    /// payload.
    pub bytes: u64,
}

/// The facts of all manifests of one version: per path its devices and its ranges, in the order of
/// [`Instance::paths`].
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Allocation {
    /// Numbers of the paths, ascending; none if they are counted from 0.
    ids: Option<Box<[u32]>>,
    /// Per path: devices in order, on the route that the manifests were made for.
    devices: Vec<Box<[DeviceId]>>,
    /// Per path: links that a byte decoded at each of these has saved, and all that count. None if
    /// they are the instance's.
    saves: Option<Vec<(Box<[u32]>, u32)>>,
    /// Per path: ranges in on-path order, each where the one before ends.
    shares: Vec<Box<[Share]>>,
    /// The traffic that it was made for; none if that is not known.
    made_for: Option<Arc<Instance>>,
}

impl Allocation {
    /// The ranges of a solution (thesis, section 3.2, "Assigning caching responsibilities"), with
    /// buckets of d x v bytes.
    ///
    /// # Errors
    /// A solution of another instance; paths that do not form trees ([`Instance::check_trees`]).
    pub fn new(instance: &Instance, solution: &Solution) -> Result<Self, Error> {
        if solution.cached.len() != instance.hop_count() {
            return Err(EmulationError::Count {
                what: "a solution for",
                given: solution.cached.len(),
                of: "hops",
                count: instance.hop_count(),
            }
            .into());
        }
        instance.check_trees()?;
        let shares = instance.paths.iter().enumerate().map(|(number, path)| {
            let mut end = 0.0f64;
            let mut shares = Vec::new();
            for (hop, &share) in path.hops.iter().zip(solution.of_path(instance, number)) {
                let from = (end * SPACE).round() as u64;
                end = (end + share.max(0.0)).min(1.0);
                let to = (end * SPACE).round() as u64;
                if to > from {
                    shares.push(Share {
                        from,
                        to,
                        device: hop.device,
                        bytes: (share * path.volume) as u64,
                    });
                }
            }
            shares
        });
        Self::of_parts(instance, shares.collect())
    }

    /// What a plan's manifests say.
    pub fn of_plan(plan: &Plan) -> Self {
        let shares = |path: &PlannedPath| -> Box<[Share]> {
            let share = |range: &manifest::Range| {
                let device = path.hops[range.hop as usize];
                Share { from: range.from, to: range.to, device, bytes: range.bytes }
            };
            path.ranges.iter().map(share).collect()
        };
        Self {
            ids: None,
            devices: plan.paths().iter().map(|path| path.hops.clone()).collect(),
            saves: None,
            shares: plan.paths().iter().map(shares).collect(),
            made_for: None,
        }
    }

    /// What an ingress's manifest says: of its own paths, with the numbers that they have in the plan.
    pub fn of_ingress(manifest: &IngressManifest) -> Self {
        let paths = manifest.paths();
        let shares = |path: &IngressPath| -> Box<[Share]> {
            let share = |range: &IngressRange| {
                let device = manifest.tree().get((range.node as usize).checked_sub(1)?)?.device;
                Some(Share { from: range.from, to: range.to, device, bytes: range.bytes })
            };
            path.ranges.iter().filter_map(share).collect()
        };
        Self {
            ids: Some(paths.iter().map(|path| path.id.0).collect()),
            devices: paths.iter().map(|path| manifest.devices(path).into()).collect(),
            saves: None,
            shares: paths.iter().map(shares).collect(),
            made_for: None,
        }
    }

    /// Numbers of the paths, ascending.
    pub fn ids(&self) -> Vec<u32> {
        match &self.ids {
            Some(ids) => ids.to_vec(),
            None => (0..self.shares.len() as u32).collect(),
        }
    }

    /// Where the facts of a path are.
    fn place(&self, path: u32) -> Option<usize> {
        match &self.ids {
            Some(ids) => ids.binary_search(&path).ok(),
            None => Some(path as usize).filter(|&at| at < self.shares.len()),
        }
    }

    /// Ranges given per path of the instance, which has the traffic that they were made for.
    ///
    /// # Errors
    /// Not one list per path; ranges that do not follow each other, or of devices that are not on
    /// the path, or not in its order.
    pub fn of_parts(instance: &Instance, shares: Vec<Vec<Share>>) -> Result<Self, Error> {
        if shares.len() != instance.paths.len() {
            return Err(EmulationError::Count {
                what: "ranges of",
                given: shares.len(),
                of: "paths",
                count: instance.paths.len(),
            }
            .into());
        }
        for (number, (path, shares)) in instance.paths.iter().zip(&shares).enumerate() {
            let mut hops = path.hops.iter();
            let mut end = 0;
            for share in shares {
                if share.from != end || share.to < share.from || share.to > 1 << 32 {
                    let Share { from, to, .. } = *share;
                    return Err(EmulationError::Gap { path: number, from, to, at: end }.into());
                }
                if !hops.any(|hop| hop.device == share.device) {
                    let device = share.device;
                    return Err(EmulationError::NotNext { path: number, device }.into());
                }
                end = share.to;
            }
        }
        Ok(Self {
            ids: None,
            devices: instance
                .paths
                .iter()
                .map(|path| path.hops.iter().map(|hop| hop.device).collect())
                .collect(),
            saves: Some(
                instance
                    .paths
                    .iter()
                    .map(|path| (path.hops.iter().map(|hop| hop.saves).collect(), path.length))
                    .collect(),
            ),
            shares: shares.into_iter().map(Vec::into_boxed_slice).collect(),
            made_for: Some(Arc::new(instance.clone())),
        })
    }

    /// With expectations of other traffic than it was made for.
    pub fn expecting(self, instance: &Instance) -> Self {
        Self { made_for: Some(Arc::new(instance.clone())), ..self }
    }

    /// With queues that are larger by up to `factor`, as far as the memory of devices and ingresses
    /// reaches: for more traffic than was planned for.
    pub fn with_room(mut self, instance: &Instance, factor: f64) -> Self {
        let mut at_device = vec![0.0; instance.devices.len()];
        let mut at_store = vec![0.0; instance.store_count()];
        let store =
            |path: usize| instance.ingresses[instance.paths[path].ingress as usize].store as usize;
        for (path, shares) in self.shares.iter().enumerate() {
            for share in shares {
                at_device[share.device] += share.bytes as f64;
                at_store[store(path)] += share.bytes as f64;
            }
        }
        for (path, shares) in self.shares.iter_mut().enumerate() {
            let of_store = instance.store_memory(store(path)).0 / at_store[store(path)];
            for share in shares {
                let of_device = instance.devices[share.device].memory / at_device[share.device];
                let more = factor.min(of_device).min(of_store);
                if more > 1.0 {
                    share.bytes = (share.bytes as f64 * more) as u64;
                }
            }
        }
        self
    }

    /// With ranges for all packets that an ingress can encode: what the plan leaves of a path is
    /// divided among its devices by the links that a byte decoded there has saved, as the second
    /// heuristic does ([`crate::baseline`]). For traffic that a plan did not expect. Queues that would
    /// not fit in a device or a packet store are smaller.
    ///
    /// # Errors
    /// Those of [`Allocation::of_parts`]: an allocation of another instance.
    pub fn with_all(self, instance: &Instance) -> Result<Self, Error> {
        let mut parts = Vec::with_capacity(instance.paths.len());
        let mut at_device = vec![0.0; instance.devices.len()];
        let mut at_store = vec![0.0; instance.store_count()];
        let store = |ingress: u32| instance.ingresses[ingress as usize].store as usize;
        for (number, path) in instance.paths.iter().enumerate() {
            let ingress = &instance.ingresses[path.ingress as usize];
            let least = UNEXPECTED * ingress.volume / ingress.paths.len() as f64;
            let shares = self.shares(number as u32);
            let planned: f64 = shares.iter().map(part).sum();
            let left = (instance.coded(path.ingress as usize) - planned).max(0.0);
            let links: f64 = path.hops.iter().map(|hop| f64::from(hop.saves)).sum();
            let mut end = 0.0f64;
            let mut of_path = Vec::with_capacity(path.hops.len());
            for hop in &path.hops {
                let share = shares.iter().find(|share| share.device == hop.device);
                let more = if links > 0.0 { left * f64::from(hop.saves) / links } else { 0.0 };
                let from = (end * SPACE).round() as u64;
                end = (end + share.map_or(0.0, part) + more).min(1.0);
                let to = (end * SPACE).round() as u64;
                if to > from {
                    let bytes = share.map_or(0.0, |share| share.bytes as f64)
                        + more * path.volume.max(least);
                    at_device[hop.device] += bytes;
                    at_store[store(path.ingress)] += bytes;
                    of_path.push(Share { from, to, device: hop.device, bytes: bytes as u64 });
                }
            }
            parts.push(of_path);
        }
        for (path, shares) in instance.paths.iter().zip(&mut parts) {
            let of_store =
                instance.store_memory(store(path.ingress)).0 / at_store[store(path.ingress)];
            for share in shares {
                let of_device = instance.devices[share.device].memory / at_device[share.device];
                let fits = of_store.min(of_device).min(1.0);
                share.bytes = (share.bytes as f64 * fits) as u64;
            }
        }
        Self::of_parts(instance, parts)
    }

    /// Number of paths.
    pub fn paths(&self) -> usize {
        self.shares.len()
    }

    /// Devices of a path in order, on the route that the manifests were made for; none of a path that
    /// they do not have.
    pub fn devices(&self, path: u32) -> &[DeviceId] {
        self.place(path).map_or(&[], |at| &self.devices[at])
    }

    /// Ranges of a path in on-path order.
    pub fn shares(&self, path: u32) -> &[Share] {
        self.place(path).map_or(&[], |at| &self.shares[at])
    }

    /// The device that caches packets of this path with this hash.
    pub fn holder(&self, path: u32, hash: HeaderHash) -> Option<&Share> {
        let shares = self.shares(path);
        let at = shares.partition_point(|share| share.to <= u64::from(hash));
        shares.get(at)
    }

    /// The overlap bound (thesis, section 3.3): packets of path `q` with a hash below it are cached
    /// by devices of path `p`. One bound is enough because the paths of an ingress form a tree and
    /// ranges are in on-path order.
    pub fn overlap(&self, p: u32, q: u32) -> u64 {
        let (of, with) = (self.devices(p), self.devices(q));
        let common = of.iter().zip(with).take_while(|(a, b)| a == b).count();
        let shares = self.shares(q);
        shares
            .iter()
            .take_while(|share| with[..common].contains(&share.device))
            .last()
            .map_or(0, |share| share.to)
    }

    /// Links that a byte of a path decoded at a device has saved, on the route of the manifests; none
    /// if the device is not on it.
    fn saves(&self, instance: &Instance, path: u32, device: DeviceId) -> Option<u32> {
        let Some(saves) = &self.saves else {
            let mut hops = instance.paths[path as usize].hops.iter();
            return hops.find(|hop| hop.device == device).map(|hop| hop.saves);
        };
        let at = self.devices(path).iter().position(|&other| other == device)?;
        saves[path as usize].0.get(at).copied()
    }

    /// What the plan expects: for reports, and to divide devices among ingresses. Volumes and profile
    /// are those it was made for, if they are known, or else the instance's.
    pub(crate) fn expect(&self, instance: &Instance, rules: Rules) -> Expectation {
        let instance = self.made_for.as_deref().unwrap_or(instance);
        let mut expected = match rules.copies {
            1 => self.with_first_copies(instance),
            _ => self.with_copies(instance),
        };
        expected.footprints = vec![0.0; instance.ingresses.len()];
        expected.cached = vec![vec![0.0; instance.devices.len()]; instance.ingresses.len()];
        for (number, path) in instance.paths.iter().enumerate() {
            for share in self.shares(number as u32) {
                expected.cached[path.ingress as usize][share.device] +=
                    part(share) * path.volume / instance.packet.0;
            }
            let length = self.saves.as_ref().map_or(path.length, |saves| saves[number].1);
            expected.footprints[path.ingress as usize] += path.volume * f64::from(length);
        }
        expected
    }

    /// By the program's own formulas (3.2) and (3.4).
    fn with_first_copies(&self, instance: &Instance) -> Expectation {
        let devices = instance.devices.len();
        let mut operations = vec![vec![0.0; devices]; instance.ingresses.len()];
        let mut saved = vec![0.0; instance.ingresses.len()];
        for (number, ingress) in instance.ingresses.iter().enumerate() {
            let operations = &mut operations[number];
            for q in ingress.paths.clone() {
                let volume = instance.paths[q as usize].volume;
                for share in self.shares(q) {
                    operations[share.device] += part(share) * volume / instance.packet.0;
                }
                for p in ingress.paths.clone() {
                    let found = instance.matches(p as usize, q as usize);
                    if found.count == 0.0 {
                        continue;
                    }
                    for share in self.shares(q) {
                        if let Some(saves) = self.saves(instance, p, share.device) {
                            operations[share.device] += part(share) * found.count;
                            saved[number] += part(share) * found.bytes() * f64::from(saves);
                        }
                    }
                }
            }
        }
        Expectation { operations, saved, ..Expectation::default() }
    }

    /// With references to any copy.
    fn with_copies(&self, instance: &Instance) -> Expectation {
        let place = |path: u32, device: DeviceId| {
            let share = self.shares(path).iter().find(|share| share.device == device);
            let saves = self.saves(instance, path, device).unwrap_or(0);
            Place { device, saves, share: share.map_or(0.0, part) }
        };
        let places = |path: u32| -> Vec<Place> {
            self.devices(path).iter().map(|&device| place(path, device)).collect()
        };
        let concentration = copies::concentration(instance);
        let expected = |(number, ingress): (usize, &Ingress)| {
            let all: Vec<Vec<Place>> = ingress.paths.clone().map(places).collect();
            copies::of_ingress(instance, number, &all, concentration)
        };
        let all: Vec<Expected> = instance.ingresses.par_iter().enumerate().map(expected).collect();
        Expectation {
            saved: all.iter().map(|ingress| ingress.saved).collect(),
            decoded: instance
                .devices
                .iter()
                .enumerate()
                .map(|(device, _)| all.iter().map(|ingress| ingress.decoded[device]).sum())
                .collect(),
            operations: all.into_iter().map(|ingress| ingress.operations).collect(),
            ..Expectation::default()
        }
    }
}

fn part(share: &Share) -> f64 {
    (share.to - share.from) as f64 / SPACE
}

/// What a plan expects per epoch.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Expectation {
    /// Operations, per ingress and device.
    pub(crate) operations: Vec<Vec<f64>>,
    /// Those for packets to cache.
    pub(crate) cached: Vec<Vec<f64>>,
    /// Link bytes saved, per ingress.
    pub(crate) saved: Vec<f64>,
    /// Those that matches decoded there save, per device; empty with first copies only.
    pub(crate) decoded: Vec<f64>,
    /// Link bytes without elimination, per ingress.
    pub(crate) footprints: Vec<f64>,
}
