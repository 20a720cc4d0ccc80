//! Devices: a cache, and the manifests that say what goes into it.

use std::collections::{BTreeMap, HashMap};

use super::{
    Allocation, Cache, CacheTask, Format, HeaderHasher, InFlight, Processed, Queues, Rules,
    ShimError,
};
use crate::{HeaderHash, Instance, manifest::DeviceManifest};

/// What a device caches under one manifest: a range of hashes for each path, and FIFO queues.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ranges {
    of_paths: HashMap<u32, (u64, u64)>,
    /// Bytes of each queue.
    queues: BTreeMap<u32, u64>,
}

impl Ranges {
    /// What a manifest says. `queue_of` says which FIFO queue a path's packets share
    /// ([`Rules::queues`]).
    pub fn of_manifest(manifest: &DeviceManifest, queue_of: impl Fn(u32) -> u32) -> Self {
        let mut ranges = Self::default();
        for entry in manifest.entries() {
            let path = entry.path.0;
            ranges.add(path, (entry.from, entry.to), queue_of(path), entry.bytes);
        }
        ranges
    }

    fn add(&mut self, path: u32, range: (u64, u64), queue: u32, bytes: u64) {
        self.of_paths.insert(path, range);
        let size = self.queues.entry(queue).or_default();
        *size = size.saturating_add(bytes);
    }

    /// Queues, and the bytes of each.
    pub fn queues(&self) -> impl Iterator<Item = (u32, u64)> + '_ {
        self.queues.iter().map(|(&queue, &bytes)| (queue, bytes))
    }

    /// Whether packets of this path with this hash are cached.
    pub fn hold(&self, path: u32, hash: HeaderHash) -> bool {
        let range = self.of_paths.get(&path);
        range.is_some_and(|&(from, to)| (from..to).contains(&u64::from(hash)))
    }
}

/// A device: its cache, and the manifests of up to two versions.
#[derive(Debug, Default)]
pub struct Node {
    pub(crate) cache: Cache,
    /// The manifest of even and of odd version, where it has one.
    ranges: [Option<Ranges>; 2],
}

impl Node {
    /// Decodes what refers to packets that it has, caches the packet if `task` assigns it, and clears
    /// finished parts of the shim.
    ///
    /// # Errors
    /// [`ShimError`] for a shim that is malformed or does not fit its packet.
    pub fn receive(
        &mut self,
        format: &Format,
        hash: &HeaderHasher,
        task: &CacheTask,
        flight: &mut InFlight,
    ) -> Result<Processed, ShimError> {
        self.cache.receive(format, hash, task, flight)
    }

    /// Bytes cached now, and their maximum so far.
    pub fn used(&self) -> (u64, u64) {
        self.cache.used()
    }

    /// Bytes of all queues: the most that it can cache.
    pub fn size(&self) -> u64 {
        self.cache.buckets().map(|(_, capacity)| capacity).sum()
    }

    /// Packets cached now.
    pub fn packets(&self) -> usize {
        self.cache.packets()
    }

    /// Whether its manifest of even and of odd version holds this packet.
    pub fn holds(&self, path: u32, hash: HeaderHash) -> [bool; 2] {
        let holds =
            |ranges: &Option<Ranges>| ranges.as_ref().is_some_and(|ranges| ranges.hold(path, hash));
        [holds(&self.ranges[0]), holds(&self.ranges[1])]
    }

    /// Adds a manifest to the one it has. Until the old one is retired, queues have the larger of
    /// both sizes, so that no packet leaves before it leaves at the ingress.
    pub fn install(&mut self, version: u32, ranges: Ranges) {
        let before: BTreeMap<u32, u64> = self.cache.buckets().collect();
        for (&queue, &bytes) in &ranges.queues {
            if before.get(&queue).is_none_or(|&size| size < bytes) {
                self.cache.resize(queue, bytes);
            }
        }
        self.ranges[(version & 1) as usize] = Some(ranges);
    }

    /// Forgets the manifest before `version`. Queues shrink to what `version` says.
    pub fn retire(&mut self, version: u32) {
        self.ranges[(version & 1 ^ 1) as usize] = None;
        let queues: Vec<u32> = self.cache.buckets().map(|(queue, _)| queue).collect();
        let kept = self.ranges[(version & 1) as usize].as_ref();
        for queue in queues {
            let size = kept.and_then(|ranges| ranges.queues.get(&queue)).copied();
            self.cache.resize(queue, size.unwrap_or(0));
        }
    }
}

/// What each device caches: in queues of a path each, or of an ingress.
pub(crate) fn ranges_of_devices(
    instance: &Instance,
    allocation: &Allocation,
    rules: Rules,
) -> Vec<Ranges> {
    let mut ranges = vec![Ranges::default(); instance.devices.len()];
    for path in 0..allocation.paths() as u32 {
        let queue = match rules.queues {
            Queues::Paths => path,
            Queues::Ingress | Queues::Fair => instance.paths[path as usize].ingress,
        };
        for share in allocation.shares(path) {
            ranges[share.device].add(path, (share.from, share.to), queue, share.bytes);
        }
    }
    ranges
}
