//! Manifests of devices.

use super::checks::{check_memory, check_name, check_range, check_room, check_version};
use crate::error::{ManifestError, PathFault};

use crate::{DeviceId, HeaderHash, PathId};

/// A device's manifest: the packets of each path that it caches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceManifest {
    pub(super) version: u64,
    pub(super) network: String,
    pub(super) device: DeviceId,
    pub(super) name: String,
    pub(super) memory: Option<u64>,
    pub(super) entries: Vec<Entry>,
}

/// The range of a path that a device caches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Path id.
    pub path: PathId,
    /// First hash.
    pub from: u64,
    /// End of the range (exclusive).
    pub to: u64,
    /// Size of the FIFO bucket in bytes.
    pub bytes: u64,
}

impl Entry {
    /// Whether packets of this hash are cached.
    pub fn holds(&self, hash: HeaderHash) -> bool {
        (self.from..self.to).contains(&(u64::from(hash)))
    }
}

impl DeviceManifest {
    /// A manifest of these parts, if they are consistent.
    pub(super) fn checked(
        version: u64,
        network: String,
        device: DeviceId,
        name: String,
        memory: Option<u64>,
        entries: Vec<Entry>,
    ) -> Result<Self, ManifestError> {
        check_version(version)?;
        check_name(&network)?;
        check_name(&name)?;
        check_memory(memory)?;
        let mut used = 0u128;
        for (at, entry) in entries.iter().enumerate() {
            check_range(entry.path, entry.from, entry.from, entry.to, entry.bytes)?;
            if at > 0 && entries[at - 1].path >= entry.path {
                return Err(ManifestError::path(entry.path, PathFault::Order));
            }
            used += entry.bytes as u128;
        }
        check_room(&name, used, memory)?;
        Ok(Self { version, network, device, name, memory, entries })
    }

    /// Version of the plan.
    pub fn version(&self) -> u64 {
        self.version
    }

    /// Name of the network.
    pub fn network(&self) -> &str {
        &self.network
    }

    /// Number of the device in the plan.
    pub fn device(&self) -> DeviceId {
        self.device
    }

    /// Name of the device.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Cache in bytes; `None` means no limit.
    pub fn memory(&self) -> Option<u64> {
        self.memory
    }

    /// Its ranges, sorted by path id.
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// Its range of a path. O(log n).
    pub fn entry(&self, path: PathId) -> Option<&Entry> {
        self.entries
            .binary_search_by_key(&path, |entry| entry.path)
            .ok()
            .map(|at| &self.entries[at])
    }

    /// Whether it caches packets of this path with this hash. O(log n).
    pub fn holds(&self, path: PathId, hash: HeaderHash) -> bool {
        self.entry(path).is_some_and(|entry| entry.holds(hash))
    }

    /// Bytes of its buckets.
    pub fn bytes(&self) -> u64 {
        self.entries.iter().map(|entry| entry.bytes).fold(0, u64::saturating_add)
    }
}
