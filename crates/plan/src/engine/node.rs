//! Devices: a cache, and the manifests that say what goes into it.

use std::{collections::BTreeMap, sync::Arc};

use super::{
    Allocation, Cache, CacheTask, Format, HeaderHasher, InFlight, Processed, Queues, Rules,
    ShimError,
};
use crate::{DeviceId, HeaderHash, Instance};

/// A device: its cache, and the manifests of up to two versions.
#[derive(Debug, Default)]
pub struct Node {
    pub(crate) cache: Cache,
    /// The manifest of even and of odd version, where it has one.
    allocations: [Option<Arc<Allocation>>; 2],
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

    /// Packets cached now.
    pub fn packets(&self) -> usize {
        self.cache.packets()
    }

    /// Whether its manifest of even and of odd version holds this packet.
    pub fn holds(&self, path: u32, hash: HeaderHash, device: DeviceId) -> [bool; 2] {
        let holds = |allocation: &Option<Arc<Allocation>>| {
            let holder = allocation.as_ref().and_then(|allocation| allocation.holder(path, hash));
            holder.is_some_and(|share| share.device == device)
        };
        [holds(&self.allocations[0]), holds(&self.allocations[1])]
    }

    /// Adds a manifest to the one it has. Until the old one is retired, buckets have the larger of
    /// both sizes, so that no packet leaves before it leaves at the ingress.
    pub fn install(&mut self, version: u32, allocation: Arc<Allocation>, sizes: Vec<(u32, u64)>) {
        let before: BTreeMap<u32, u64> = self.cache.buckets().collect();
        for (queue, bytes) in sizes {
            if before.get(&queue).is_none_or(|&size| size < bytes) {
                self.cache.resize(queue, bytes);
            }
        }
        self.allocations[(version & 1) as usize] = Some(allocation);
    }

    /// Forgets the manifest before `version`; `sizes` are those of its queues.
    pub fn retire(&mut self, version: u32, sizes: &[(u32, u64)]) {
        self.allocations[(version & 1 ^ 1) as usize] = None;
        let sizes: BTreeMap<u32, u64> = sizes.iter().copied().collect();
        let queues: Vec<u32> = self.cache.buckets().map(|(queue, _)| queue).collect();
        for queue in queues {
            self.cache.resize(queue, sizes.get(&queue).copied().unwrap_or(0));
        }
    }
}

/// Per device: its queues, each of a path or of an ingress, and their sizes.
pub(crate) fn sizes_of_devices(
    instance: &Instance,
    allocation: &Allocation,
    rules: Rules,
) -> Vec<Vec<(u32, u64)>> {
    let mut sizes: Vec<BTreeMap<u32, u64>> = vec![BTreeMap::new(); instance.devices.len()];
    for path in 0..allocation.paths() as u32 {
        let queue = match rules.queues {
            Queues::Paths => path,
            Queues::Ingress | Queues::Fair => instance.paths[path as usize].ingress,
        };
        for share in allocation.shares(path) {
            *sizes[share.device].entry(queue).or_default() += share.bytes;
        }
    }
    sizes.into_iter().map(|sizes| sizes.into_iter().collect()).collect()
}
