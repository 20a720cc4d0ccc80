//! Manifests of ingresses.

use std::collections::{BTreeSet, HashMap};

use super::{
    MAX_HOPS, Plan, PlannedPath,
    checks::{check_memory, check_name, check_range, check_room, check_version},
};
use crate::error::{ManifestError, PathFault};

use crate::{DeviceId, HeaderHash, PathId};

/// An ingress's manifest: what to store of each path, and against what to encode.
///
/// The overlap matrix (thesis, section 3.3) has a bound for each pair of paths. The paths of an
/// ingress form a tree, and the bound of (p, q) depends only on where they separate: it is the end
/// of q's last range that lies before that. So the manifest holds the tree, and each path's leaf
/// and ranges; [`IngressManifest::overlap`] finds the bound in one walk along the path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IngressManifest {
    pub(super) version: u64,
    pub(super) network: String,
    pub(super) ingress: u32,
    pub(super) name: String,
    pub(super) slice: u16,
    pub(super) memory: Option<u64>,
    pub(super) tree: Vec<TreeNode>,
    pub(super) paths: Vec<IngressPath>,
}

/// A device in the tree of an ingress's paths.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TreeNode {
    /// The device before it, as a position in the tree counted from 1; 0 if it is the first.
    pub parent: u32,
    /// Number of the device in the plan.
    pub device: DeviceId,
    /// Devices on the way to it, itself included.
    pub depth: u32,
}

/// A path of an ingress.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IngressPath {
    /// Path id.
    pub id: PathId,
    /// Node where it leaves.
    pub egress: String,
    /// Its last device, as a position in the tree counted from 1; 0 if it has none.
    pub leaf: u32,
    /// Ranges in on-path order: the first begins at 0, each where the one before ends.
    pub ranges: Vec<IngressRange>,
}

/// A range of a path's hashes, and who caches it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IngressRange {
    /// The device, as a position in the tree counted from 1.
    pub node: u32,
    /// First hash.
    pub from: u64,
    /// End of the range (exclusive).
    pub to: u64,
    /// Size of the FIFO bucket in bytes.
    pub bytes: u64,
}

/// Who caches a packet, and in which of the ingress's buckets it belongs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Held {
    /// Which hop of the path, as in [`crate::Path::hops`].
    pub hop: u32,
    /// Number of the device.
    pub device: DeviceId,
    /// Which range of the path: an index of [`IngressPath::ranges`].
    pub range: usize,
}

impl IngressManifest {
    /// The manifest of a plan's ingress; `paths` are its paths, sorted by id.
    pub(super) fn of_plan(plan: &Plan, ingress: u32, paths: &[&PlannedPath]) -> Self {
        let mut tree: Vec<TreeNode> = Vec::new();
        // A device has one place in the tree: Plan::checked saw to that.
        let mut places: HashMap<DeviceId, u32> = HashMap::new();
        let paths = paths
            .iter()
            .map(|path| {
                let mut leaf = 0;
                let mut nodes = Vec::with_capacity(path.hops.len());
                for (&device, depth) in path.hops.iter().zip(1..) {
                    leaf = *places.entry(device).or_insert_with(|| {
                        tree.push(TreeNode { parent: leaf, device, depth });
                        tree.len() as u32
                    });
                    nodes.push(leaf);
                }
                let ranges = path
                    .ranges
                    .iter()
                    .map(|range| IngressRange {
                        node: nodes[range.hop as usize],
                        from: range.from,
                        to: range.to,
                        bytes: range.bytes,
                    })
                    .collect();
                IngressPath { id: path.id, egress: path.egress.clone(), leaf, ranges }
            })
            .collect();
        let planned = &plan.ingresses[ingress as usize];
        Self {
            version: plan.version,
            network: plan.network.clone(),
            ingress,
            name: planned.name.clone(),
            slice: planned.slice,
            memory: planned.memory,
            tree,
            paths,
        }
    }

    /// A manifest of these parts, if they are consistent. `tree` has a parent and a device for each
    /// place.
    pub(super) fn checked(
        version: u64,
        network: String,
        (ingress, name, slice, memory): (u32, String, u16, Option<u64>),
        tree: Vec<(u32, DeviceId)>,
        paths: Vec<IngressPath>,
    ) -> Result<Self, ManifestError> {
        check_version(version)?;
        check_name(&network)?;
        check_name(&name)?;
        paths.iter().try_for_each(|path| check_name(&path.egress))?;
        check_memory(memory)?;
        let tree = grown(tree)?;
        let mut egresses = BTreeSet::new();
        let mut stored = 0u128;
        for (number, path) in paths.iter().enumerate() {
            if number > 0 && paths[number - 1].id >= path.id {
                return Err(ManifestError::path(path.id, PathFault::Order));
            }
            if !egresses.insert(path.egress.as_str()) {
                return Err(ManifestError::SameEnds { ingress: name, egress: path.egress.clone() });
            }
            check_path(&tree, path)?;
            stored += path.ranges.iter().map(|range| u128::from(range.bytes)).sum::<u128>();
        }
        check_room(&name, stored, memory)?;
        Ok(Self { version, network, ingress, name, slice, memory, tree, paths })
    }

    /// Version of the plan.
    pub fn version(&self) -> u64 {
        self.version
    }

    /// Name of the network.
    pub fn network(&self) -> &str {
        &self.network
    }

    /// Number of the ingress in the plan.
    pub fn ingress(&self) -> u32 {
        self.ingress
    }

    /// Name of the ingress.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Which slice of the node's traffic the manifest is for. A node with several has a manifest
    /// for each; it never encodes a packet of one against a packet of another.
    pub fn slice(&self) -> u16 {
        self.slice
    }

    /// Packet store in bytes, shared by the node's slices; `None` means no limit.
    pub fn memory(&self) -> Option<u64> {
        self.memory
    }

    /// The devices of its paths; parents come before children.
    pub fn tree(&self) -> &[TreeNode] {
        &self.tree
    }

    /// Its paths, sorted by id.
    pub fn paths(&self) -> &[IngressPath] {
        &self.paths
    }

    /// The path with this id. O(log n).
    pub fn path(&self, id: PathId) -> Option<&IngressPath> {
        self.paths.binary_search_by_key(&id, |path| path.id).ok().map(|at| &self.paths[at])
    }

    /// Devices of a path, in order.
    pub fn devices(&self, path: &IngressPath) -> Vec<DeviceId> {
        let mut devices = Vec::new();
        let mut place = path.leaf;
        while let Some(node) = self.node(place) {
            devices.push(node.device);
            place = node.parent;
        }
        devices.reverse();
        devices
    }

    /// The device that caches packets of this path with this hash; if `None`, the ingress does not
    /// store them either. O(log n).
    pub fn held(&self, path: PathId, hash: HeaderHash) -> Option<Held> {
        let path = self.path(path)?;
        let range = path.ranges.partition_point(|range| range.to <= u64::from(hash));
        let node = self.node(path.ranges.get(range)?.node)?;
        Some(Held { hop: node.depth - 1, device: node.device, range })
    }

    /// Hop and device that cache packets of this path with this hash. O(log n).
    pub fn holder(&self, path: PathId, hash: HeaderHash) -> Option<(u32, DeviceId)> {
        self.held(path, hash).map(|held| (held.hop, held.device))
    }

    /// bound(p, q): a packet of path p may be encoded against one of path q whose hash is below
    /// this (thesis, section 3.3). 0 if one of them is not of this ingress. O(log n + depth).
    pub fn overlap(&self, p: PathId, q: PathId) -> u64 {
        let (Some(of), Some(with)) = (self.path(p), self.path(q)) else { return 0 };
        let shared = self.shared_depth(of.leaf, with.leaf);
        let depth = |range: &IngressRange| self.node(range.node).map_or(0, |node| node.depth);
        let before = with.ranges.partition_point(|range| depth(range) <= shared);
        if before == 0 { 0 } else { with.ranges[before - 1].to }
    }

    /// Whether a packet of path p may be encoded against one of path q with this hash.
    pub fn may_encode(&self, p: PathId, q: PathId, hash: HeaderHash) -> bool {
        (u64::from(hash)) < self.overlap(p, q)
    }

    /// Bytes of its buckets.
    pub fn bytes(&self) -> u64 {
        self.paths
            .iter()
            .flat_map(|path| &path.ranges)
            .map(|range| range.bytes)
            .fold(0, u64::saturating_add)
    }

    fn node(&self, place: u32) -> Option<&TreeNode> {
        self.tree.get((place as usize).wrapping_sub(1))
    }

    /// Devices that two places have in common on their way from the ingress.
    fn shared_depth(&self, a: u32, b: u32) -> u32 {
        let (mut a, mut b) = (self.node(a), self.node(b));
        while let (Some(x), Some(y)) = (a, b) {
            if x == y {
                return x.depth;
            }
            if x.depth >= y.depth {
                a = self.node(x.parent);
            }
            if y.depth >= x.depth {
                b = self.node(y.parent);
            }
        }
        0
    }
}

/// The tree of these places, each with its parent and its device.
fn grown(places: Vec<(u32, DeviceId)>) -> Result<Vec<TreeNode>, ManifestError> {
    if places.len() >= u32::MAX as usize {
        return Err(ManifestError::TooMany("devices"));
    }
    let mut tree: Vec<TreeNode> = Vec::with_capacity(places.len());
    let mut devices = BTreeSet::new();
    for (at, (parent, device)) in places.into_iter().enumerate() {
        if parent as usize > at {
            return Err(ManifestError::TreeOrder { place: at + 1, parent });
        }
        if !devices.insert(device) {
            return Err(ManifestError::TreeTwice { device });
        }
        let depth = if parent == 0 { 1 } else { tree[parent as usize - 1].depth + 1 };
        if depth as usize > MAX_HOPS {
            return Err(ManifestError::TreeDepth);
        }
        tree.push(TreeNode { parent, device, depth });
    }
    Ok(tree)
}

/// Whether a path's ranges follow each other, at devices in the order in which the path crosses
/// them.
fn check_path(tree: &[TreeNode], path: &IngressPath) -> Result<(), ManifestError> {
    let wrong = |fault| Err(ManifestError::path(path.id, fault));
    if path.leaf as usize > tree.len() {
        return wrong(PathFault::Leaf { place: path.leaf, places: tree.len() });
    }
    let mut at = 0;
    for range in &path.ranges {
        check_range(path.id, at, range.from, range.to, range.bytes)?;
        at = range.to;
    }
    // From the leaf to the root, the ranges' places come in reverse order.
    let mut place = path.leaf;
    for range in path.ranges.iter().rev() {
        while place != range.node && place != 0 {
            place = tree[place as usize - 1].parent;
        }
        if place == 0 {
            return wrong(PathFault::Place { place: range.node });
        }
        place = tree[place as usize - 1].parent;
    }
    Ok(())
}
