//! Assignments of caches, in the form the emulator uses.

use crate::{
    DeviceId, Error, HeaderHash, Instance, Solution,
    error::EmulationError,
    manifest::{self, Plan, PlannedPath},
};

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
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Allocation {
    /// Per path: devices in order, on the route that the manifests were made for.
    devices: Vec<Box<[DeviceId]>>,
    /// Per path: links that a byte decoded at each of these has saved, and all that count. None if
    /// they are the instance's.
    saves: Option<Vec<(Box<[u32]>, u32)>>,
    /// Per path: ranges in on-path order, each where the one before ends.
    shares: Vec<Box<[Share]>>,
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
            devices: plan.paths().iter().map(|path| path.hops.clone()).collect(),
            saves: None,
            shares: plan.paths().iter().map(shares).collect(),
        }
    }

    /// Ranges given per path of the instance.
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
        })
    }

    /// Number of paths.
    pub fn paths(&self) -> usize {
        self.shares.len()
    }

    /// Devices of a path in order, on the route that the manifests were made for.
    pub fn devices(&self, path: u32) -> &[DeviceId] {
        &self.devices[path as usize]
    }

    /// Ranges of a path in on-path order.
    pub fn shares(&self, path: u32) -> &[Share] {
        &self.shares[path as usize]
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
        let (of, with) = (&self.devices[p as usize], &self.devices[q as usize]);
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

    /// What the plan expects, by the program's own formulas (3.2) and (3.4): for reports, and to
    /// divide devices among ingresses. Volumes and profile are the instance's, routes those of the
    /// manifests.
    pub(super) fn expect(&self, instance: &Instance) -> Expectation {
        let devices = instance.devices.len();
        let mut operations = vec![vec![0.0; devices]; instance.ingresses.len()];
        let mut saved = vec![0.0; instance.ingresses.len()];
        let mut footprints = vec![0.0; instance.ingresses.len()];
        for (number, ingress) in instance.ingresses.iter().enumerate() {
            let operations = &mut operations[number];
            for q in ingress.paths.clone() {
                let path = &instance.paths[q as usize];
                let volume = path.volume;
                let length = self.saves.as_ref().map_or(path.length, |saves| saves[q as usize].1);
                footprints[number] += volume * f64::from(length);
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
        Expectation { operations, saved, footprints }
    }
}

fn part(share: &Share) -> f64 {
    (share.to - share.from) as f64 / SPACE
}

/// What a plan expects per epoch.
#[derive(Clone, Debug)]
pub(super) struct Expectation {
    /// Operations, per ingress and device.
    pub(super) operations: Vec<Vec<f64>>,
    /// Link bytes saved, per ingress.
    pub(super) saved: Vec<f64>,
    /// Link bytes without elimination, per ingress.
    pub(super) footprints: Vec<f64>,
}
