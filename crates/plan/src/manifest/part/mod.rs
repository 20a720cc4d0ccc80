//! What one node must know of a plan: the paths that begin there, pass, or end there.
//!
//! A plan of a large network has megabytes, of which a node needs little. [`Parts`] divides a plan
//! whose devices serve whole nodes; [`NodePart::write`] and [`NodePart::read`] are the bytes that
//! travel and that nodes keep (`docs/NETWORK.md`, "Parts of plans").

mod bytes;
mod divide;
#[cfg(test)]
mod tests;

use std::collections::HashMap;

use super::{DeviceManifest, Entry, IngressManifest, IngressPath, IngressRange, MAX_HOPS, Range};
use crate::error::ManifestError;
use crate::{DeviceId, NodeId, PathId};

pub use divide::Parts;

/// Most bytes of a part.
pub const MAX_PART: usize = 64 << 20;

/// What is wrong with a part, or with a plan that is to be divided.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PartError {
    /// Bytes that [`NodePart::write`] would not write.
    #[error("not a part of a plan: {0}")]
    Malformed(&'static str),
    /// What it says breaks a rule of manifests.
    #[error(transparent)]
    Manifest(#[from] ManifestError),
    /// The plan has a device or an egress that is no node of the network.
    #[error("the plan has {0}, which is no node of the network")]
    Stranger(String),
    /// The plan has several trees for a node.
    #[error("{0} has several slices; parts are of plans without redundancy-aware routes")]
    Slices(String),
    /// The devices of a path are neither nodes in a row, nor on its shortest way.
    #[error("the path from {from} to {to} has devices that are not on its way")]
    OtherWay {
        /// Where it begins.
        from: String,
        /// Where it ends.
        to: String,
    },
    /// The network has no way for a path.
    #[error("no way for a path: {0}")]
    NoWay(String),
}

/// What a node must know of a plan. Nodes are told by their numbers in the topology; the device of a
/// node has the node's number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodePart {
    /// Version of the plan.
    pub version: u64,
    /// Digest of the plan.
    pub digest: u64,
    /// The node.
    pub node: NodeId,
    /// Paths that come from other nodes, by ingress, the node before, and number.
    pub passing: Vec<Passing>,
    /// Paths that begin here, by number.
    pub own: Vec<OwnPath>,
}

/// A path that comes from another node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Passing {
    /// Path id.
    pub id: PathId,
    /// Where it begins.
    pub from: NodeId,
    /// The node before this one.
    pub before: NodeId,
    /// The node after this one; none if it ends here.
    pub after: Option<NodeId>,
    /// Whether its packets may be cached and decoded here.
    pub has_device: bool,
    /// The hashes that are cached here, from the first to the end (exclusive), and bytes for them.
    pub range: Option<(u64, u64, u64)>,
}

/// A path that begins here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnPath {
    /// Path id.
    pub id: PathId,
    /// The nodes after this one, in order, and whether packets may be cached and decoded there.
    pub way: Vec<(NodeId, bool)>,
    /// Its ranges. [`Range::hop`] counts the nodes of `way`.
    pub ranges: Vec<Range>,
}

impl NodePart {
    /// What the node's device caches.
    ///
    /// # Errors
    /// [`PartError::Manifest`].
    pub fn device_manifest(&self) -> Result<DeviceManifest, PartError> {
        let mut entries: Vec<Entry> = self
            .passing
            .iter()
            .filter_map(|one| {
                let (from, to, bytes) = one.range?;
                Some(Entry { path: one.id, from, to, bytes })
            })
            .collect();
        entries.sort_by_key(|entry| entry.path);
        let device = DeviceId(self.node.0);
        let checked =
            DeviceManifest::checked(self.version, String::new(), device, "".into(), None, entries);
        Ok(checked?)
    }

    /// What the node's ingress stores and encodes against; none if no path begins here. Egresses have
    /// the numbers of their nodes for names.
    ///
    /// # Errors
    /// [`PartError::Manifest`].
    pub fn ingress_manifest(&self) -> Result<Option<IngressManifest>, PartError> {
        if self.own.is_empty() {
            return Ok(None);
        }
        let mut tree: Vec<(u32, DeviceId)> = Vec::new();
        let mut places: HashMap<(u32, NodeId), u32> = HashMap::new();
        let mut paths = Vec::with_capacity(self.own.len());
        for own in &self.own {
            let mut leaf = 0;
            let mut at = Vec::with_capacity(own.way.len());
            for &(node, has_device) in &own.way {
                if has_device {
                    leaf = *places.entry((leaf, node)).or_insert_with(|| {
                        tree.push((leaf, DeviceId(node.0)));
                        tree.len() as u32
                    });
                }
                at.push(has_device.then_some(leaf));
            }
            let place = |range: &Range| {
                let node = at.get(range.hop as usize).copied().flatten();
                let node = node.ok_or(PartError::Malformed("a range at a node without a cache"))?;
                let Range { from, to, bytes, .. } = *range;
                Ok(IngressRange { node, from, to, bytes })
            };
            let egress = own.way.last().ok_or(PartError::Malformed("a path without an end"))?;
            paths.push(IngressPath {
                id: own.id,
                egress: egress.0.to_string(),
                leaf,
                ranges: own.ranges.iter().map(place).collect::<Result<_, PartError>>()?,
            });
        }
        let who = (self.node.0, String::new(), 0, None);
        Ok(Some(IngressManifest::checked(self.version, String::new(), who, tree, paths)?))
    }

    /// Whether paths, ways and ranges are such as plans have.
    fn check(&self) -> Result<(), PartError> {
        let mut ids: Vec<PathId> = self.passing.iter().map(|one| one.id).collect();
        ids.extend(self.own.iter().map(|one| one.id));
        ids.sort_unstable();
        if ids.windows(2).any(|pair| pair[0] == pair[1]) {
            return Err(PartError::Malformed("a path that comes twice"));
        }
        if self.own.iter().any(|own| own.way.len() > MAX_HOPS) {
            return Err(PartError::Malformed("a way with too many nodes"));
        }
        self.device_manifest()?;
        self.ingress_manifest()?;
        Ok(())
    }
}
