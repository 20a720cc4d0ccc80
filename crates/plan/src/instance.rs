//! The instance: everything that a plan depends on, checked.

mod build;
mod derive;
mod matches;
mod provision;
mod trees;

use std::{collections::HashMap, ops::Range};

use build::{check_route, place};
pub use provision::{Placement, Provision};

use crate::{
    Bytes, DeviceId, Error, LinkId, Match, Network, NodeId, Profile, Seconds,
    error::{PathError, TrafficError},
    network::Role,
    path::Route,
    ra::Prefix,
};

/// A device that caches and decodes.
#[derive(Clone, Debug, PartialEq)]
pub struct Device {
    /// Its node.
    pub node: NodeId,
    /// Link at whose head it is; `None` if it serves a whole router.
    pub link: Option<LinkId>,
    /// M: cache in bytes.
    pub memory: f64,
    /// L: operations (packets cached, matches decoded) per epoch.
    pub operations: f64,
    /// Packets per epoch that the encoder at the other end of the link can fingerprint, for
    /// hop-by-hop comparisons.
    pub encodings: f64,
}

/// Where traffic enters and is encoded: a node, or one slice of the traffic that enters there.
/// Packets of different slices are never encoded against each other.
#[derive(Clone, Debug, PartialEq)]
pub struct Ingress {
    /// Its node.
    pub node: NodeId,
    /// Which slice of the node's traffic it is; 0 if there is only one.
    pub slice: u16,
    /// Number of the node's packet store: ingresses of one node share a store and an encoder.
    pub store: u32,
    /// Packet store of the node in bytes, shared with its other slices.
    pub memory: f64,
    /// Packets per epoch that the node can fingerprint, those of its other slices included.
    pub encodings: f64,
    /// Its paths: a range of [`Instance::paths`].
    pub paths: Range<u32>,
    /// Bytes per epoch of its paths.
    pub volume: f64,
    /// Whether all its traffic goes to one PoP.
    pub one_pop: bool,
    /// Source networks whose traffic takes this slice; empty if none were given.
    pub sources: Vec<Prefix>,
}

/// Traffic from an ingress to an egress on one route.
#[derive(Clone, Debug, PartialEq)]
pub struct Path {
    /// Index of the ingress.
    pub ingress: u32,
    /// Node where it leaves.
    pub egress: NodeId,
    /// PoP of that node.
    pub pop: u32,
    /// v: bytes per epoch.
    pub volume: f64,
    /// Bytes per epoch from the same ingress to the same PoP, this path's included.
    pub pop_volume: f64,
    /// Whether no other path of the ingress with traffic goes to that PoP.
    pub alone_in_pop: bool,
    /// Links in order.
    pub links: Box<[LinkId]>,
    /// Number of them that count in the footprint.
    pub length: u32,
    /// Devices in order.
    pub hops: Box<[Hop]>,
}

/// A device on a path.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Hop {
    /// Index of the device.
    pub device: DeviceId,
    /// Links from the ingress to the device.
    pub distance: u32,
    /// Those of them that count in the footprint: the links that a byte decoded here has saved.
    pub saves: u32,
}

/// What is to be planned. Built by [`Instance::new`], which checks it; volumes, capacities and
/// profile may be changed after that, paths may not.
#[derive(Clone, Debug, PartialEq)]
pub struct Instance {
    /// The network.
    pub network: Network,
    /// T, the retention epoch.
    pub epoch: Seconds,
    /// Mean size of a packet.
    pub packet: Bytes,
    /// Size of the largest packet; no match is longer.
    pub mss: Bytes,
    /// Which links count in the footprint.
    pub counted: Vec<bool>,
    /// Devices that cache and decode.
    pub devices: Vec<Device>,
    /// Where traffic enters.
    pub ingresses: Vec<Ingress>,
    /// Paths, those of one ingress together, sorted by ingress node, slice and egress node.
    pub paths: Vec<Path>,
    /// Redundancy.
    pub profile: Profile,
    /// Path p's hops have the indices `hop_offsets[p]..hop_offsets[p + 1]` among all hops.
    hop_offsets: Vec<u32>,
}

impl Instance {
    /// An instance of these routes. Routes without links or traffic take no part. Those of an
    /// ingress need not form a tree: who needs that asks ([`Instance::check_trees`]).
    ///
    /// The profile's path numbers, if it is measured, are those of [`Instance::paths`]: build with
    /// an empty one first, then set it with [`Instance::with_profile`].
    ///
    /// # Errors
    /// Routes that are broken or loop; two routes of one ingress and slice to one egress; no traffic;
    /// invalid sizes; a profile out of range.
    pub fn new(
        network: Network,
        routes: Vec<Route>,
        provision: &Provision,
        placement: &Placement,
        profile: Profile,
    ) -> Result<Self, Error> {
        provision.check()?;
        let epoch = provision.epoch();
        let mut routes = routes;
        crate::routing::check_path_links(routes.iter().map(|route| route.links.len()).sum())?;
        for route in &routes {
            check_route(&network, route)?;
        }
        routes.retain(|route| !route.links.is_empty() && route.volume > 0.0);
        if routes.is_empty() {
            return Err(TrafficError::NoPath.into());
        }
        let key = |route: &Route| (route.from, route.slice, route.to);
        routes.sort_by_key(key);
        if let Some(twice) = routes.windows(2).find(|pair| key(&pair[0]) == key(&pair[1])) {
            let name = |node: NodeId| network.nodes[node].id.clone();
            return Err(PathError::Duplicate {
                from: name(twice[0].from),
                to: name(twice[0].to),
                first: None,
            }
            .into());
        }

        let access = |node: NodeId| network.nodes[node].role == Role::Access;
        let counted: Vec<bool> = network
            .links
            .iter()
            .map(|link| provision.access_links || !(access(link.from) || access(link.to)))
            .collect();
        let (devices, device_of_link) = place(&network, provision, epoch, placement)?;
        let mut ingresses: Vec<Ingress> = Vec::new();
        let mut paths = Vec::with_capacity(routes.len());
        for route in routes {
            let last = ingresses.last();
            if last.is_none_or(|last| (last.node, last.slice) != (route.from, route.slice)) {
                let at = paths.len() as u32;
                let store = last.map_or(0, |last| last.store + u32::from(last.node != route.from));
                ingresses.push(Ingress {
                    node: route.from,
                    slice: route.slice,
                    store,
                    memory: provision.ingress_memory.0,
                    encodings: provision.encodings.during(epoch),
                    paths: at..at,
                    volume: 0.0,
                    one_pop: false,
                    sources: Vec::new(),
                });
            }
            let number = ingresses.len() as u32 - 1;
            let mut length = 0;
            let hops = route
                .links
                .iter()
                .zip(1..)
                .filter_map(|(&link, distance)| {
                    length += u32::from(counted[link]);
                    device_of_link[link].map(|device| Hop { device, distance, saves: length })
                })
                .collect();
            paths.push(Path {
                ingress: number,
                egress: route.to,
                pop: network.nodes[route.to].pop,
                volume: route.volume,
                pop_volume: 0.0,
                alone_in_pop: false,
                links: route.links.into(),
                length,
                hops,
            });
            ingresses[number as usize].paths.end += 1;
        }
        let hop_offsets = offsets(&paths);
        let mut instance = Self {
            network,
            epoch,
            packet: provision.packet,
            mss: provision.mss,
            counted,
            devices,
            ingresses,
            paths,
            profile,
            hop_offsets,
        };
        instance.sum_volumes();
        if !instance.footprint().is_finite() {
            return Err(TrafficError::Overflow { what: "the sum of all volumes".into() }.into());
        }
        instance.profile.check(&instance.paths, instance.mss)?;
        Ok(instance)
    }

    /// Indices of a path's hops among all hops.
    pub fn hop_range(&self, path: usize) -> Range<usize> {
        self.hop_offsets[path] as usize..self.hop_offsets[path + 1] as usize
    }

    /// Index of a path's hop among all hops.
    pub fn hop_index(&self, path: usize, hop: usize) -> usize {
        self.hop_offsets[path] as usize + hop
    }

    /// Hops of all paths: the variables d(p, r).
    pub fn hop_count(&self) -> usize {
        self.hop_offsets[self.paths.len()] as usize
    }

    /// Indices of the paths of an ingress.
    pub fn paths_of(&self, ingress: usize) -> Range<usize> {
        let range = &self.ingresses[ingress].paths;
        range.start as usize..range.end as usize
    }

    /// The ingresses of the same node as this one, itself included: the node's slices.
    pub fn slices_of(&self, ingress: usize) -> Range<usize> {
        let store = self.ingresses[ingress].store;
        let from = self.ingresses.partition_point(|other| other.store < store);
        let to = self.ingresses.partition_point(|other| other.store <= store);
        from..to
    }

    /// Nodes where traffic enters, each with a packet store and an encoder.
    pub fn store_count(&self) -> usize {
        self.ingresses.last().map_or(0, |last| last.store as usize + 1)
    }

    /// For each packet store, in the order of [`Ingress::store`], the ingresses that share it.
    pub fn stores(&self) -> impl Iterator<Item = Range<usize>> + '_ {
        (0..self.store_count()).scan(0, |from, store| {
            let shared = self.ingresses[*from..].iter();
            let to = *from + shared.take_while(|ingress| ingress.store as usize == store).count();
            Some(std::mem::replace(from, to)..to)
        })
    }

    /// The size of a packet store. An ingress's limit is its node's: that of the first slice counts.
    pub fn store_memory(&self, store: usize) -> Bytes {
        let first = self.ingresses.partition_point(|ingress| (ingress.store as usize) < store);
        Bytes(self.ingresses[first].memory)
    }

    /// Matches of path `p` with path `q` per epoch, according to the profile. An ingress that
    /// cannot encode all of its packets finds the share [`Instance::coded`] of them.
    pub fn matches(&self, p: usize, q: usize) -> Match {
        self.profile.matches(self, p, q)
    }

    /// Share of its packets that an ingress can fingerprint; below 1 if its node has more packets
    /// than encodings. All slices of a node have the same share.
    pub fn coded(&self, ingress: usize) -> f64 {
        let slices = &self.ingresses[self.slices_of(ingress)];
        let volume: f64 = slices.iter().map(|slice| slice.volume).sum();
        (slices[0].encodings / (volume / self.packet.0)).min(1.0)
    }

    /// Bytes times links that count, without redundancy elimination, per epoch.
    pub fn footprint(&self) -> f64 {
        self.paths.iter().map(|path| path.volume * f64::from(path.length)).sum()
    }

    /// Bytes per epoch on each link without redundancy elimination.
    pub fn link_volumes(&self) -> Vec<f64> {
        let mut volumes = vec![0.0; self.network.links.len()];
        for path in &self.paths {
            for &link in &path.links {
                volumes[link] += path.volume;
            }
        }
        volumes
    }

    /// Display name of a device.
    pub fn device_name(&self, device: usize) -> String {
        let device = &self.devices[device];
        match device.link {
            Some(link) => self.network.link_name(link),
            None => self.network.nodes[device.node].id.clone(),
        }
    }

    fn sum_volumes(&mut self) {
        for ingress in &mut self.ingresses {
            let paths = &mut self.paths[ingress.paths.start as usize..ingress.paths.end as usize];
            let mut pops: HashMap<u32, (f64, u32)> = HashMap::new();
            ingress.volume = 0.0;
            for path in &*paths {
                let pop = pops.entry(path.pop).or_default();
                pop.0 += path.volume;
                pop.1 += 1;
                ingress.volume += path.volume;
            }
            ingress.one_pop = pops.len() == 1;
            for path in paths {
                let (volume, paths) = pops[&path.pop];
                path.pop_volume = volume;
                path.alone_in_pop = paths == 1;
            }
        }
    }
}

/// Index of each path's first hop among all hops, and the number of hops.
fn offsets(paths: &[Path]) -> Vec<u32> {
    let mut offsets = Vec::with_capacity(paths.len() + 1);
    offsets.push(0);
    for path in paths {
        offsets.push(offsets[offsets.len() - 1] + path.hops.len() as u32);
    }
    offsets
}
