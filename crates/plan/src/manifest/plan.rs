//! The plan of a whole network, made from a solution.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::checks::{check_memory, check_name, check_range, check_room, check_version, unique};
use super::options::Options;
use super::range::Range;
use super::room::{Room, shares};
use super::{DeviceManifest, Entry, IngressManifest, MAX_HOPS, MAX_NUMBER, SPACE};
use crate::{
    DeviceId, HeaderHash, Instance, NodeId, PathId, Seconds, Solution, SolvedBy,
    engine::Allocation,
    error::{ManifestError, PathFault, Unfit},
};

/// How a plan was made, for reports.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Parameters {
    /// Retention epoch.
    pub epoch: Seconds,
    /// [`Options::headroom`].
    pub headroom: f64,
    /// [`Options::smallest`].
    pub smallest: f64,
    /// Which method solved the program.
    pub method: String,
    /// How the network was made from the given map.
    pub derivation: Vec<String>,
}

impl Parameters {
    fn check(&self) -> Result<(), ManifestError> {
        check_name(&self.method)?;
        self.derivation.iter().try_for_each(|step| check_name(step))?;
        for (name, value) in [
            ("epoch", self.epoch.0),
            ("headroom", self.headroom),
            ("smallest share", self.smallest),
        ] {
            if !(value >= 0.0 && value.is_finite()) {
                return Err(ManifestError::Parameter { name, value });
            }
        }
        Ok(())
    }
}

/// A plan: which device caches which packets of which path. In the order of the instance that it
/// was made for: device, ingress and path `k` are the instance's.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    pub(super) version: u64,
    pub(super) network: String,
    pub(super) parameters: Parameters,
    pub(super) devices: Vec<PlannedDevice>,
    pub(super) ingresses: Vec<PlannedIngress>,
    pub(super) paths: Vec<PlannedPath>,
    /// Path ids, sorted, with their index in `paths`.
    ids: Vec<(PathId, u32)>,
}

/// A device of a plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlannedDevice {
    /// Unique name: of its link (`a -> b`) or router.
    pub name: String,
    /// Cache in bytes; `None` means no limit.
    pub memory: Option<u64>,
}

/// An ingress of a plan: a slice of the traffic that enters at a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlannedIngress {
    /// Its node's id. Name and slice together are unique.
    pub name: String,
    /// Which slice of the node's traffic it is; 0 if there is only one.
    pub slice: u16,
    /// Packet store of the node in bytes, shared by its slices; `None` means no limit.
    pub memory: Option<u64>,
}

impl PlannedIngress {
    /// Name for people: the node's, with the number of the slice unless that is 0.
    pub fn title(&self) -> String {
        match self.slice {
            0 => self.name.clone(),
            slice => format!("{} (slice {slice})", self.name),
        }
    }
}

/// A path of a plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlannedPath {
    /// Path id: what shim headers carry. Unique in a plan.
    pub id: PathId,
    /// Index of the ingress.
    pub ingress: u32,
    /// Node where it leaves.
    pub egress: String,
    /// Indices of the devices on it, in order.
    pub hops: Box<[DeviceId]>,
    /// Ranges in on-path order: the first begins at 0, each where the one before ends.
    pub ranges: Box<[Range]>,
}

impl PlannedPath {
    /// First hash that no device caches: the share of the path's packets that is covered, of
    /// [`SPACE`](super::SPACE).
    pub fn covered(&self) -> u64 {
        self.ranges.last().map_or(0, |range| range.to)
    }

    /// The range that a hash lies in. O(log n).
    pub fn range(&self, hash: HeaderHash) -> Option<&Range> {
        self.ranges.get(self.ranges.partition_point(|range| range.to <= u64::from(hash)))
    }

    /// The device that caches packets of this hash.
    pub fn holder(&self, hash: HeaderHash) -> Option<DeviceId> {
        self.range(hash).map(|range| self.hops[range.hop as usize])
    }
}

impl PlannedPath {
    /// Whether the ranges follow each other, in the order of the devices.
    fn check_ranges(&self) -> Result<(), ManifestError> {
        let (mut hop, mut at) = (0, 0);
        for range in &self.ranges {
            if range.hop < hop || range.hop as usize >= self.hops.len() {
                return Err(ManifestError::path(self.id, PathFault::RangeOrder));
            }
            check_range(self.id, at, range.from, range.to, range.bytes)?;
            (hop, at) = (range.hop + 1, range.to);
        }
        Ok(())
    }
}

/// The paths of an ingress so far, as they are checked.
#[derive(Default)]
struct Siblings<'a> {
    egresses: BTreeSet<&'a str>,
    /// The device before each device; `None` before the first. With one for each, the paths form a
    /// tree, and no path visits a device twice.
    parents: HashMap<DeviceId, Option<DeviceId>>,
}

impl Siblings<'_> {
    fn check_hops(&mut self, path: &PlannedPath, devices: usize) -> Result<(), ManifestError> {
        let wrong = |fault| Err(ManifestError::path(path.id, fault));
        if path.hops.len() > MAX_HOPS {
            return wrong(PathFault::Devices { devices: path.hops.len() });
        }
        let mut parent = None;
        for (at, &device) in path.hops.iter().enumerate() {
            if device.index() >= devices {
                return wrong(PathFault::Device { device, devices });
            }
            if *self.parents.entry(device).or_insert(parent) != parent {
                return wrong(if path.hops[..at].contains(&device) {
                    PathFault::Loop { device }
                } else {
                    PathFault::NotATree { device }
                });
            }
            parent = Some(device);
        }
        Ok(())
    }
}

impl Plan {
    /// The plan of a solution. Path ids are the numbers of the instance's paths.
    ///
    /// d(p, r) becomes a range of whole hashes: ends are rounded to the nearest hash, never past
    /// the share that the ingress encodes ([`Instance::coded`]). Ranges below
    /// [`Options::smallest`], and those whose bucket would have less than a byte, are left out, and
    /// what comes after them moves up. Buckets have d x v bytes times the headroom, rounded down;
    /// where those of a device or an ingress would exceed its memory, all of its buckets shrink
    /// alike.
    ///
    /// # Errors
    /// A solution of another instance, or one that breaks a limit by more than 1e-6 of it; options
    /// out of range.
    pub fn new(
        instance: &Instance,
        solution: &Solution,
        options: &Options,
    ) -> Result<Self, ManifestError> {
        let ids = PathId::first(instance.paths.len()).collect();
        Self::build(instance, solution, options, ids)
    }

    /// The plan that comes after `old`: its version is the next ([`Options::version`] is not used),
    /// and a path with the same ingress, slice, egress and devices keeps its id. Other paths get ids
    /// that `old` does not have.
    ///
    /// # Errors
    /// As [`Plan::new`].
    pub fn after(
        old: &Plan,
        instance: &Instance,
        solution: &Solution,
        options: &Options,
    ) -> Result<Self, ManifestError> {
        let ids = Self::ids_after(old, instance);
        Self::build(instance, solution, &Options { version: old.version + 1, ..*options }, ids)
    }

    /// Ids of the instance's paths in a plan that comes after `old`.
    fn ids_after(old: &Plan, instance: &Instance) -> Vec<PathId> {
        let names = device_names(instance);
        let known: HashMap<(&str, u16, &str, Vec<&str>), PathId> = old
            .paths
            .iter()
            .map(|path| {
                let hops =
                    path.hops.iter().map(|&device| old.devices[device].name.as_str()).collect();
                let ingress = &old.ingresses[path.ingress as usize];
                ((ingress.name.as_str(), ingress.slice, path.egress.as_str(), hops), path.id)
            })
            .collect();
        let mut taken: BTreeSet<PathId> = old.paths.iter().map(|path| path.id).collect();
        let mut next = PathId(0);
        let mut ids = Vec::with_capacity(instance.paths.len());
        for path in &instance.paths {
            let node = |node: NodeId| instance.network.nodes[node].id.as_str();
            let hops: Vec<&str> = path.hops.iter().map(|hop| names[hop.device].as_str()).collect();
            let ingress = &instance.ingresses[path.ingress as usize];
            let ends = (node(ingress.node), ingress.slice, node(path.egress), hops);
            ids.push(match known.get(&ends) {
                Some(&id) => id,
                None => {
                    while !taken.insert(next) {
                        next.0 += 1;
                    }
                    next
                }
            });
        }
        ids
    }

    /// The plan with the ranges and buckets of an allocation, whose buckets are multiplied by `factor`:
    /// those of an emulation at a scale of 1 / `factor`. It comes after `old`, if there is one. What is
    /// too small for a range or a bucket is left out, and buckets shrink as in [`Plan::new`].
    ///
    /// # Errors
    /// An allocation of another instance.
    pub fn of_allocation(
        instance: &Instance,
        allocation: &Allocation,
        factor: f64,
        old: Option<&Plan>,
    ) -> Result<Self, ManifestError> {
        if allocation.paths() != instance.paths.len() {
            let (shares, hops) = (allocation.paths(), instance.paths.len());
            return Err(Unfit::Shares { shares, hops }.into());
        }
        let mut at_device = vec![0.0; instance.devices.len()];
        let mut at_store = vec![0.0; instance.store_count()];
        let store = |path: &crate::Path| instance.ingresses[path.ingress as usize].store as usize;
        for (number, path) in instance.paths.iter().enumerate() {
            for share in allocation.shares(number as u32) {
                at_device[share.device] += share.bytes as f64 * factor;
                at_store[store(path)] += share.bytes as f64 * factor;
            }
        }
        let fits = |memory: f64, used: f64| match used > 0.0 {
            true => (memory.floor() / used * (1.0 - 1e-10)).min(1.0),
            false => 1.0,
        };
        let options = Options::default();
        let smallest = (options.smallest * SPACE as f64).ceil() as u64;
        let ranges = |number: usize, path: &crate::Path| -> Box<[Range]> {
            let of_store = fits(instance.store_memory(store(path)).0, at_store[store(path)]);
            let most = (instance.coded(path.ingress as usize) * SPACE as f64) as u64;
            let (mut ranges, mut at) = (Vec::new(), 0);
            for share in allocation.shares(number as u32) {
                let device = &instance.devices[share.device];
                let part = of_store.min(fits(device.memory, at_device[share.device]));
                let bytes = (share.bytes as f64 * factor * part).min(MAX_NUMBER as f64) as u64;
                let hop = path.hops.iter().position(|hop| hop.device == share.device);
                let length = (share.to - share.from).min(most.saturating_sub(at));
                let Some(hop) = hop.filter(|_| length >= smallest && bytes > 0) else { continue };
                ranges.push(Range { hop: hop as u32, from: at, to: at + length, bytes });
                at += length;
            }
            ranges.into()
        };
        let ranges = instance.paths.iter().enumerate().map(|(number, path)| ranges(number, path));
        let ids = match old {
            Some(old) => Self::ids_after(old, instance),
            None => PathId::first(instance.paths.len()).collect(),
        };
        let version = old.map_or(options.version, |old| old.version + 1);
        let method = SolvedBy::Given.to_string();
        Self::assemble(instance, &Options { version, ..options }, method, ids, ranges.collect())
    }

    /// The same plan with another version.
    ///
    /// # Errors
    /// [`ManifestError`] for a version out of range.
    pub fn numbered(self, version: u64) -> Result<Self, ManifestError> {
        check_version(version)?;
        Ok(Self { version, ..self })
    }

    fn build(
        instance: &Instance,
        solution: &Solution,
        options: &Options,
        ids: Vec<PathId>,
    ) -> Result<Self, ManifestError> {
        if solution.cached.len() != instance.hop_count() {
            let (shares, hops) = (solution.cached.len(), instance.hop_count());
            return Err(Unfit::Shares { shares, hops }.into());
        }
        options.check()?;
        let names = device_names(instance);
        let room = Room::new(instance, solution, options, &names)?;
        let ranges =
            |number| room.ranges(instance, number, shares(instance, solution, number)?, &names);
        let ranges = (0..instance.paths.len()).map(ranges).collect::<Result<_, Unfit>>()?;
        Self::assemble(instance, options, solution.method.to_string(), ids, ranges)
    }

    fn assemble(
        instance: &Instance,
        options: &Options,
        method: String,
        ids: Vec<PathId>,
        ranges: Vec<Box<[Range]>>,
    ) -> Result<Self, ManifestError> {
        let paths =
            instance.paths.iter().zip(ids).zip(ranges).map(|((path, id), ranges)| PlannedPath {
                id,
                ingress: path.ingress,
                egress: instance.network.nodes[path.egress].id.clone(),
                hops: path.hops.iter().map(|hop| hop.device).collect(),
                ranges,
            });
        let paths = paths.collect();
        let devices = device_names(instance)
            .into_iter()
            .zip(&instance.devices)
            .map(|(name, device)| PlannedDevice { name, memory: whole(device.memory) })
            .collect();
        let ingresses = instance
            .ingresses
            .iter()
            .map(|ingress| PlannedIngress {
                name: instance.network.nodes[ingress.node].id.clone(),
                slice: ingress.slice,
                memory: whole(ingress.memory),
            })
            .collect();
        let parameters = Parameters {
            epoch: instance.epoch,
            headroom: options.headroom,
            smallest: options.smallest,
            method,
            derivation: instance.network.derivation.clone(),
        };
        Self::checked(
            options.version,
            instance.network.name.clone(),
            parameters,
            devices,
            ingresses,
            paths,
        )
    }

    /// A plan of these parts, if they are consistent.
    pub(super) fn checked(
        version: u64,
        network: String,
        parameters: Parameters,
        devices: Vec<PlannedDevice>,
        ingresses: Vec<PlannedIngress>,
        paths: Vec<PlannedPath>,
    ) -> Result<Self, ManifestError> {
        check_version(version)?;
        check_name(&network)?;
        parameters.check()?;
        devices.iter().try_for_each(|device| check_name(&device.name))?;
        ingresses.iter().try_for_each(|ingress| check_name(&ingress.name))?;
        paths.iter().try_for_each(|path| check_name(&path.egress))?;
        if [devices.len(), ingresses.len(), paths.len()]
            .iter()
            .any(|&count| count >= u32::MAX as usize)
        {
            return Err(ManifestError::TooMany("devices, ingresses or paths"));
        }
        unique("devices", devices.iter().map(|device| device.name.as_str()))?;
        let mut slices = BTreeSet::new();
        if let Some(twice) = ingresses.iter().find(|one| !slices.insert((&one.name, one.slice))) {
            return Err(ManifestError::Twice { what: "ingresses", name: twice.title() });
        }
        devices.iter().try_for_each(|device| check_memory(device.memory))?;
        ingresses.iter().try_for_each(|ingress| check_memory(ingress.memory))?;

        let mut used = vec![0u128; devices.len()];
        // A node's slices share its store.
        let mut stored: HashMap<&str, u128> = HashMap::new();
        let mut of_ingress = Siblings::default();
        let mut last = 0;
        for path in &paths {
            let wrong = |fault| Err(ManifestError::path(path.id, fault));
            if path.ingress as usize >= ingresses.len() {
                let ingresses = ingresses.len();
                return wrong(PathFault::Ingress { ingress: path.ingress, ingresses });
            }
            if path.ingress < last {
                return wrong(PathFault::IngressOrder);
            }
            if path.ingress > last {
                last = path.ingress;
                of_ingress = Siblings::default();
            }
            if !of_ingress.egresses.insert(&path.egress) {
                return Err(ManifestError::SameEnds {
                    ingress: ingresses[last as usize].title(),
                    egress: path.egress.clone(),
                });
            }
            of_ingress.check_hops(path, devices.len())?;
            path.check_ranges()?;
            for range in &path.ranges {
                used[path.hops[range.hop as usize]] += u128::from(range.bytes);
                *stored.entry(&ingresses[last as usize].name).or_default() +=
                    u128::from(range.bytes);
            }
        }
        for (device, &used) in devices.iter().zip(&used) {
            check_room(&device.name, used, device.memory)?;
        }
        for ingress in &ingresses {
            let stored = stored.get(ingress.name.as_str()).copied().unwrap_or_default();
            check_room(&ingress.name, stored, ingress.memory)?;
        }
        let mut ids: Vec<(PathId, u32)> = paths.iter().map(|path| path.id).zip(0..).collect();
        ids.sort_unstable();
        if let Some(twice) = ids.windows(2).find(|pair| pair[0].0 == pair[1].0) {
            return Err(ManifestError::SameId(twice[0].0));
        }
        Ok(Self { version, network, parameters, devices, ingresses, paths, ids })
    }

    /// Number of this plan in the sequence of the network's plans.
    pub fn version(&self) -> u64 {
        self.version
    }

    /// Name of the network.
    pub fn network(&self) -> &str {
        &self.network
    }

    /// How it was made.
    pub fn parameters(&self) -> &Parameters {
        &self.parameters
    }

    /// Devices.
    pub fn devices(&self) -> &[PlannedDevice] {
        &self.devices
    }

    /// Ingresses.
    pub fn ingresses(&self) -> &[PlannedIngress] {
        &self.ingresses
    }

    /// Paths, ingress by ingress.
    pub fn paths(&self) -> &[PlannedPath] {
        &self.paths
    }

    /// The path with this id. O(log n).
    pub fn path(&self, id: PathId) -> Option<&PlannedPath> {
        let at = self.ids.binary_search_by_key(&id, |entry| entry.0).ok()?;
        self.paths.get(self.ids[at].1 as usize)
    }

    /// The manifest of each device, in order, also for devices without ranges.
    pub fn device_manifests(&self) -> Vec<DeviceManifest> {
        let mut entries: Vec<Vec<Entry>> = vec![Vec::new(); self.devices.len()];
        for &(id, path) in &self.ids {
            let path = &self.paths[path as usize];
            for range in &path.ranges {
                let entry = Entry { path: id, from: range.from, to: range.to, bytes: range.bytes };
                entries[path.hops[range.hop as usize]].push(entry);
            }
        }
        entries
            .into_iter()
            .zip(DeviceId::all())
            .zip(&self.devices)
            .map(|((entries, number), device)| DeviceManifest {
                version: self.version,
                network: self.network.clone(),
                device: number,
                name: device.name.clone(),
                memory: device.memory,
                entries,
            })
            .collect()
    }

    /// The manifest of each ingress, in order.
    pub fn ingress_manifests(&self) -> Vec<IngressManifest> {
        let mut paths: Vec<Vec<&PlannedPath>> = vec![Vec::new(); self.ingresses.len()];
        for &(_, path) in &self.ids {
            let path = &self.paths[path as usize];
            paths[path.ingress as usize].push(path);
        }
        paths
            .iter()
            .zip(0..)
            .map(|(paths, number)| IngressManifest::of_plan(self, number, paths))
            .collect()
    }
}

/// The devices' names; those of parallel links get numbers.
fn device_names(instance: &Instance) -> Vec<String> {
    let mut taken = BTreeMap::new();
    (0..instance.devices.len())
        .map(|device| {
            let plain = instance.device_name(device);
            let mut name = plain.clone();
            let mut number: u32 = taken.get(&plain).copied().unwrap_or(1);
            while taken.contains_key(&name) {
                number += 1;
                name = format!("{plain} ({number})");
            }
            taken.insert(plain, number);
            taken.insert(name.clone(), 1);
            name
        })
        .collect()
}

/// A size in whole bytes; `None` if no memory is that large.
fn whole(bytes: f64) -> Option<u64> {
    (bytes <= MAX_NUMBER as f64).then_some(bytes as u64)
}
