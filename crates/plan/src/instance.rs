//! Everything that a plan depends on, checked and in one place.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    ops::Range,
};

use crate::{Error, Match, Network, Profile, network::Role, path::Route};

/// Sizes and speeds of devices.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Provision {
    /// Packet store of an ingress in bytes. With `ingress_rate` it gives the retention epoch.
    pub ingress_memory: f64,
    /// Rate in bit/s at which an ingress's store fills.
    pub ingress_rate: f64,
    /// Cache of a device at the edge (on a link to an access router) in bytes.
    pub edge_memory: f64,
    /// Cache of any other device in bytes.
    pub interior_memory: f64,
    /// Packets per second that an encoder can fingerprint.
    pub encodings: f64,
    /// Operations per second of a decoder: packets cached and matches decoded.
    pub operations: f64,
    /// Mean size of a packet in bytes.
    pub packet: f64,
    /// Size of the largest packet in bytes; no match is longer.
    pub mss: f64,
    /// Whether links to and from access routers count in the footprint. They lie within a PoP.
    pub access_links: bool,
}

impl Default for Provision {
    /// The devices of the thesis, section 3.5; it gives no mean packet size, ours is that of `docs/PLANNERS.md`.
    fn default() -> Self {
        Self {
            ingress_memory: 3e9,
            ingress_rate: 2.4e9,
            edge_memory: 3e9,
            interior_memory: 6e9,
            encodings: 0.5e6,
            operations: 2.5e6,
            packet: 1000.0,
            mss: 1500.0,
            access_links: false,
        }
    }
}

impl Provision {
    /// T, the retention epoch in seconds: how long an ingress's store lasts.
    pub fn epoch(&self) -> f64 {
        self.ingress_memory * 8.0 / self.ingress_rate
    }

    /// Whether all are sizes.
    ///
    /// # Errors
    /// The first that is none, in words.
    pub fn check(&self) -> Result<(), Error> {
        let fields = [
            ("ingress memory", self.ingress_memory, false),
            ("ingress rate", self.ingress_rate, false),
            ("edge memory", self.edge_memory, true),
            ("interior memory", self.interior_memory, true),
            ("encodings per second", self.encodings, true),
            ("operations per second", self.operations, true),
            ("mean packet size", self.packet, false),
            ("largest packet", self.mss, false),
        ];
        for (name, value, zero) in fields {
            if value.is_nan() || value < 0.0 || (!zero && (value == 0.0 || value.is_infinite())) {
                return Err(Error::Devices(format!(
                    "{name} is {value}; it must be {}",
                    if zero { "0 or more" } else { "above 0" }
                )));
            }
        }
        Ok(())
    }
}

/// Which links or routers have decoders.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Placement {
    /// One at the head of each link (thesis, section 3.5: a middlebox at each end of a cable, one per direction).
    #[default]
    Links,
    /// One at the head of each of these links: partial deployment.
    Some(BTreeSet<u32>),
    /// One per router, for all that enters it.
    Routers,
}

/// A device that caches and decodes.
#[derive(Clone, Debug, PartialEq)]
pub struct Device {
    /// Node where it stands.
    pub node: u32,
    /// Link at whose head it stands; none if it serves the whole router.
    pub link: Option<u32>,
    /// M: cache in bytes.
    pub memory: f64,
    /// L: operations (packets cached, matches decoded) per epoch.
    pub operations: f64,
    /// Packets per epoch that the encoder at the other end of the link can fingerprint, for hop-by-hop comparisons.
    pub encodings: f64,
}

/// Where traffic enters and is encoded.
#[derive(Clone, Debug, PartialEq)]
pub struct Ingress {
    /// Its node.
    pub node: u32,
    /// Packet store in bytes.
    pub memory: f64,
    /// Packets per epoch that it can fingerprint.
    pub encodings: f64,
    /// Its paths: a range of [`Instance::paths`].
    pub paths: Range<u32>,
    /// Bytes per epoch of its paths.
    pub volume: f64,
    /// Whether all its traffic goes to one PoP.
    pub one_pop: bool,
}

/// Traffic from an ingress to an egress on one route.
#[derive(Clone, Debug, PartialEq)]
pub struct Path {
    /// Index of the ingress.
    pub ingress: u32,
    /// Node where it leaves.
    pub egress: u32,
    /// PoP of that node.
    pub pop: u32,
    /// v: bytes per epoch.
    pub volume: f64,
    /// Bytes per epoch from the same ingress to the same PoP, this path's included.
    pub pop_volume: f64,
    /// Whether no other path of the ingress with traffic goes to that PoP.
    pub alone_in_pop: bool,
    /// Links in order.
    pub links: Box<[u32]>,
    /// How many of them count in the footprint.
    pub length: u32,
    /// Devices in order.
    pub hops: Box<[Hop]>,
}

/// A device on a path.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Hop {
    /// Index of the device.
    pub device: u32,
    /// Links from the ingress to the device.
    pub distance: u32,
    /// Those of them that count in the footprint: what a byte that the device decodes has saved.
    pub saves: u32,
}

/// What is to be planned. Built by [`Instance::new`], which checks it; volumes, capacities and profile may be changed after that, paths may not.
#[derive(Clone, Debug, PartialEq)]
pub struct Instance {
    /// The network.
    pub network: Network,
    /// T in seconds.
    pub epoch: f64,
    /// Mean size of a packet in bytes.
    pub packet: f64,
    /// Size of the largest packet in bytes; no match is longer.
    pub mss: f64,
    /// Which links count in the footprint.
    pub counted: Vec<bool>,
    /// Devices that cache and decode.
    pub devices: Vec<Device>,
    /// Where traffic enters.
    pub ingresses: Vec<Ingress>,
    /// Paths, those of one ingress together, sorted by ingress node, then egress node.
    pub paths: Vec<Path>,
    /// Redundancy.
    pub profile: Profile,
    /// Path p's hops are numbers `hop_offsets[p]..hop_offsets[p + 1]` of all.
    hop_offsets: Vec<u32>,
}

impl Instance {
    /// An instance of these routes. Routes without links or traffic take no part.
    ///
    /// The profile's path numbers, if it is measured, are those of [`Instance::paths`]: build with an empty one first, then set it with
    /// [`Instance::with_profile`].
    ///
    /// # Errors
    /// Routes that are broken, go round in a circle, or of which two of one ingress part and meet again (the overlap of two paths' caches must be
    /// one range: thesis, section 3.3); no traffic at all; sizes that are no sizes; a profile out of range.
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
            return Err(Error::Traffic("no path has any traffic".into()));
        }
        routes.sort_by_key(|route| (route.from, route.to));
        if let Some(twice) = routes.windows(2).find(|pair| (pair[0].from, pair[0].to) == (pair[1].from, pair[1].to)) {
            let name = |node: u32| &network.nodes[node as usize].id;
            return Err(Error::Paths(format!("two paths from {} to {}", name(twice[0].from), name(twice[0].to))));
        }
        check_trees(&network, &routes)?;

        let access = |node: u32| network.nodes[node as usize].role == Role::Access;
        let counted: Vec<bool> =
            network.links.iter().map(|link| provision.access_links || !(access(link.from) || access(link.to))).collect();
        let (devices, device_of_link) = place(&network, provision, epoch, placement)?;
        let mut ingresses: Vec<Ingress> = Vec::new();
        let mut paths = Vec::with_capacity(routes.len());
        for route in routes {
            if ingresses.last().is_none_or(|ingress| ingress.node != route.from) {
                let at = paths.len() as u32;
                ingresses.push(Ingress {
                    node: route.from,
                    memory: provision.ingress_memory,
                    encodings: provision.encodings * epoch,
                    paths: at..at,
                    volume: 0.0,
                    one_pop: false,
                });
            }
            let number = ingresses.len() as u32 - 1;
            let mut length = 0;
            let hops = route
                .links
                .iter()
                .zip(1..)
                .filter_map(|(&link, distance)| {
                    length += u32::from(counted[link as usize]);
                    device_of_link[link as usize].map(|device| Hop { device, distance, saves: length })
                })
                .collect();
            paths.push(Path {
                ingress: number,
                egress: route.to,
                pop: network.nodes[route.to as usize].pop,
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
            return Err(Error::Traffic("all volumes together are more bytes than numbers can say".into()));
        }
        instance.profile.check(&instance.paths, instance.mss)?;
        Ok(instance)
    }

    /// The same with another profile.
    ///
    /// # Errors
    /// A profile out of range.
    pub fn with_profile(mut self, profile: Profile) -> Result<Self, Error> {
        profile.check(&self.paths, self.mss)?;
        self.profile = profile;
        Ok(self)
    }

    /// The same with other volumes, one per path, in bytes per epoch.
    ///
    /// # Errors
    /// Volumes that are not above 0 and finite, or not one per path.
    pub fn with_volumes(mut self, volumes: &[f64]) -> Result<Self, Error> {
        if volumes.len() != self.paths.len() {
            return Err(Error::Traffic(format!("{} volumes for {} paths", volumes.len(), self.paths.len())));
        }
        for (path, &volume) in self.paths.iter_mut().zip(volumes) {
            if !(volume > 0.0 && volume.is_finite()) {
                return Err(Error::Traffic(format!("a volume of {volume} bytes; it must be above 0")));
            }
            path.volume = volume;
        }
        self.sum_volumes();
        Ok(self)
    }

    /// The same in small, for emulation: volumes, memories, operations, encodings, counted matches and capacities of links are multiplied by `factor`. What
    /// stays are T, sizes of packets and lengths of matches, and so every share and ratio.
    ///
    /// # Errors
    /// A factor that is not above 0 and finite.
    pub fn scaled(mut self, factor: f64) -> Result<Self, Error> {
        if !(factor > 0.0 && factor.is_finite()) {
            return Err(Error::Traffic(format!("a scale of {factor}; it must be above 0")));
        }
        for device in &mut self.devices {
            device.memory *= factor;
            device.operations *= factor;
            device.encodings *= factor;
        }
        for ingress in &mut self.ingresses {
            ingress.memory *= factor;
            ingress.encodings *= factor;
        }
        self.network.links.iter_mut().filter_map(|link| link.capacity.as_mut()).for_each(|capacity| *capacity *= factor);
        if let Profile::Measured(profile) = &mut self.profile {
            profile.pairs.iter_mut().for_each(|pair| pair.2.count *= factor);
        }
        let volumes: Vec<f64> = self.paths.iter().map(|path| path.volume * factor).collect();
        self.with_volumes(&volumes)
    }

    /// Only what enters at one ingress; of each device it gets the share that its traffic has of the link's (thesis, section 3.5).
    pub fn single(&self, ingress: usize) -> Self {
        let mut all = vec![0.0; self.devices.len()];
        let mut own = vec![0.0; self.devices.len()];
        for path in &self.paths {
            for hop in &path.hops {
                all[hop.device as usize] += path.volume;
                if path.ingress as usize == ingress {
                    own[hop.device as usize] += path.volume;
                }
            }
        }
        let range = self.ingresses[ingress].paths.clone();
        let mut paths = self.paths[range.start as usize..range.end as usize].to_vec();
        paths.iter_mut().for_each(|path| path.ingress = 0);
        let mut devices = self.devices.clone();
        for (device, (own, all)) in devices.iter_mut().zip(own.iter().zip(&all)) {
            let share = if *all > 0.0 { own / all } else { 0.0 };
            // A device without limits has none for a part either; 0 times infinity is not a number.
            let part = |whole: f64| if whole.is_infinite() { whole } else { whole * share };
            device.memory = part(device.memory);
            device.operations = part(device.operations);
            device.encodings = part(device.encodings);
        }
        let profile = match &self.profile {
            Profile::Synthetic(profile) => Profile::Synthetic(profile.clone()),
            Profile::Measured(profile) => Profile::Measured(crate::Measured {
                pairs: profile
                    .pairs
                    .iter()
                    .filter(|pair| range.contains(&pair.0))
                    .map(|&(p, q, found)| (p - range.start, q - range.start, found))
                    .collect(),
            }),
        };
        let first = self.hop_offsets[range.start as usize];
        let hop_offsets =
            self.hop_offsets[range.start as usize..=range.end as usize].iter().map(|offset| offset - first).collect();
        let mut only = self.ingresses[ingress].clone();
        only.paths = 0..paths.len() as u32;
        Self {
            network: self.network.clone(),
            epoch: self.epoch,
            packet: self.packet,
            mss: self.mss,
            counted: self.counted.clone(),
            devices,
            ingresses: vec![only],
            paths,
            profile,
            hop_offsets,
        }
    }

    /// Only what enters at these ingresses, with devices as large as before: what others send is carried plain and takes nothing of them, as in partial
    /// deployment (thesis, section 3.5).
    ///
    /// # Errors
    /// No ingress, or one that there is not.
    pub fn only(&self, ingresses: &[usize]) -> Result<Self, Error> {
        let chosen: BTreeSet<usize> = ingresses.iter().copied().collect();
        if chosen.is_empty() {
            return Err(Error::Traffic("no ingress is chosen".into()));
        }
        if let Some(unknown) = chosen.iter().find(|&&ingress| ingress >= self.ingresses.len()) {
            return Err(Error::Traffic(format!("ingress {unknown} is chosen, but there are {}", self.ingresses.len())));
        }
        let mut numbers = vec![None; self.paths.len()];
        let mut paths = Vec::new();
        let mut kept = Vec::with_capacity(chosen.len());
        for ingress in chosen {
            let from = paths.len() as u32;
            for path in self.paths_of(ingress) {
                numbers[path] = Some(paths.len() as u32);
                paths.push(Path { ingress: kept.len() as u32, ..self.paths[path].clone() });
            }
            kept.push(Ingress { paths: from..paths.len() as u32, ..self.ingresses[ingress].clone() });
        }
        let profile = match &self.profile {
            Profile::Synthetic(profile) => Profile::Synthetic(profile.clone()),
            Profile::Measured(profile) => Profile::Measured(crate::Measured {
                pairs: profile
                    .pairs
                    .iter()
                    .filter_map(|&(p, q, found)| Some((numbers[p as usize]?, numbers[q as usize]?, found)))
                    .collect(),
            }),
        };
        Ok(Self {
            network: self.network.clone(),
            counted: self.counted.clone(),
            devices: self.devices.clone(),
            ingresses: kept,
            hop_offsets: offsets(&paths),
            paths,
            profile,
            ..*self
        })
    }

    /// The same without the hops that `keep`, given a path's number and a hop of it, refuses. Links and devices stay.
    ///
    /// # Errors
    /// Two paths of one ingress keep a hop that they share, but different ones before it: what one can decode of the other would not be one range of
    /// hashes (thesis, section 3.3). A choice by device alone never does that.
    pub fn restricted(&self, keep: impl Fn(usize, &Hop) -> bool) -> Result<Self, Error> {
        let mut paths = self.paths.clone();
        let mut ingress = u32::MAX;
        // Device to the one kept before it on this ingress's paths. If that is always the same, so are, step by step, all before it.
        let mut before: HashMap<u32, Option<u32>> = HashMap::new();
        for (number, path) in paths.iter_mut().enumerate() {
            if path.ingress != ingress {
                ingress = path.ingress;
                before.clear();
            }
            path.hops = path.hops.iter().filter(|hop| keep(number, hop)).copied().collect();
            let mut last = None;
            for hop in &path.hops {
                if *before.entry(hop.device).or_insert(last) != last {
                    return Err(Error::Paths(format!(
                        "paths from {} keep {}, but different devices before it: what one can decode of the other would not be one range of hashes",
                        self.network.nodes[self.ingresses[ingress as usize].node as usize].id,
                        self.device_name(hop.device as usize)
                    )));
                }
                last = Some(hop.device);
            }
        }
        Ok(Self {
            network: self.network.clone(),
            counted: self.counted.clone(),
            devices: self.devices.clone(),
            ingresses: self.ingresses.clone(),
            profile: self.profile.clone(),
            hop_offsets: offsets(&paths),
            paths,
            ..*self
        })
    }

    /// The same with devices of infinite memory, of infinite operations, or of both: SmartRE-nomem and SmartRE-noproc of the thesis, section 3.5, which
    /// sets M_r or L_r to infinity. Ingresses keep their limits.
    pub fn relaxed(mut self, memory: bool, operations: bool) -> Self {
        for device in &mut self.devices {
            if memory {
                device.memory = f64::INFINITY;
            }
            if operations {
                device.operations = f64::INFINITY;
            }
        }
        self
    }

    /// Numbers of a path's hops among all hops.
    pub fn hop_range(&self, path: usize) -> Range<usize> {
        self.hop_offsets[path] as usize..self.hop_offsets[path + 1] as usize
    }

    /// Number of a path's hop among all.
    pub fn hop_index(&self, path: usize, hop: usize) -> usize {
        self.hop_offsets[path] as usize + hop
    }

    /// Hops of all paths: the variables d(p, r).
    pub fn hop_count(&self) -> usize {
        self.hop_offsets[self.paths.len()] as usize
    }

    /// The paths of an ingress, as numbers.
    pub fn paths_of(&self, ingress: usize) -> Range<usize> {
        let range = &self.ingresses[ingress].paths;
        range.start as usize..range.end as usize
    }

    /// What path `p` has in common with path `q`, per epoch, as the profile says; an ingress that cannot encode all of its packets finds the share
    /// [`Instance::coded`] of it.
    pub fn matches(&self, p: usize, q: usize) -> Match {
        self.profile.matches(self, p, q)
    }

    /// Share of its packets that an ingress can fingerprint: 1 unless there are more than its encodings.
    pub fn coded(&self, ingress: usize) -> f64 {
        let ingress = &self.ingresses[ingress];
        (ingress.encodings / (ingress.volume / self.packet)).min(1.0)
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
                volumes[link as usize] += path.volume;
            }
        }
        volumes
    }

    /// A device's name for people.
    pub fn device_name(&self, device: usize) -> String {
        let device = &self.devices[device];
        match device.link {
            Some(link) => self.network.link_name(link),
            None => self.network.nodes[device.node as usize].id.clone(),
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

/// Where each path's hops begin among all, and where the last one's end.
fn offsets(paths: &[Path]) -> Vec<u32> {
    let mut offsets = Vec::with_capacity(paths.len() + 1);
    offsets.push(0);
    for path in paths {
        offsets.push(offsets[offsets.len() - 1] + path.hops.len() as u32);
    }
    offsets
}

fn check_route(network: &Network, route: &Route) -> Result<(), Error> {
    let nodes = network.nodes.len() as u32;
    if route.from >= nodes || route.to >= nodes {
        return Err(Error::Paths(format!("a path from node {} to {}, but there are {nodes} nodes", route.from, route.to)));
    }
    let name = |node: u32| &network.nodes[node as usize].id;
    let what = || format!("from {} to {}", name(route.from), name(route.to));
    if !(route.volume >= 0.0 && route.volume.is_finite()) {
        return Err(Error::Traffic(format!("{} bytes {}", route.volume, what())));
    }
    let mut at = route.from;
    let mut seen = BTreeSet::from([at]);
    for &link in &route.links {
        let Some(link) = network.links.get(link as usize) else {
            return Err(Error::Paths(format!("the path {} takes link {link}, but there are {}", what(), network.links.len())));
        };
        if link.from != at {
            return Err(Error::Paths(format!(
                "the path {} is broken: it is at {} and goes on from {}",
                what(),
                name(at),
                name(link.from)
            )));
        }
        at = link.to;
        if !seen.insert(at) {
            return Err(Error::Paths(format!("the path {} goes round in a circle: it comes to {} twice", what(), name(at))));
        }
    }
    if at != route.to {
        return Err(Error::Paths(format!("the path {} ends at {}", what(), name(at))));
    }
    Ok(())
}

/// The paths of one ingress must make a tree: two that have parted may not meet again.
fn check_trees(network: &Network, routes: &[Route]) -> Result<(), Error> {
    let mut ingress = u32::MAX;
    // Node to the link by which this ingress's paths come to it, and the egress of the path that showed it.
    let mut parents: HashMap<u32, (u32, u32)> = HashMap::new();
    for route in routes {
        if route.from != ingress {
            ingress = route.from;
            parents.clear();
        }
        for &link in &route.links {
            let to = network.links[link as usize].to;
            let known = *parents.entry(to).or_insert((link, route.to));
            if known.0 != link {
                let name = |node: u32| &network.nodes[node as usize].id;
                return Err(Error::Paths(format!(
                    "the paths from {} to {} and to {} part and meet again at {}: what one can decode of the other would not be one range of hashes; \
                     give paths that form a tree per ingress",
                    name(ingress),
                    name(known.1),
                    name(route.to),
                    name(to)
                )));
            }
        }
    }
    Ok(())
}

type Placed = (Vec<Device>, Vec<Option<u32>>);

/// Devices, and which of them each link's traffic meets at the link's head.
fn place(network: &Network, provision: &Provision, epoch: f64, placement: &Placement) -> Result<Placed, Error> {
    let mut devices = Vec::new();
    let mut of_link = vec![None; network.links.len()];
    let mut of_node: BTreeMap<u32, u32> = BTreeMap::new();
    let size = |node: u32| match network.nodes[node as usize].role {
        Role::Access => provision.edge_memory,
        Role::Any | Role::Backbone => provision.interior_memory,
    };
    if let Placement::Some(chosen) = placement
        && let Some(&unknown) = chosen.iter().find(|&&link| link as usize >= network.links.len())
    {
        return Err(Error::Devices(format!("a device on link {unknown}, but there are {} links", network.links.len())));
    }
    for (number, link) in network.links.iter().enumerate() {
        let next = devices.len() as u32;
        let device = match placement {
            Placement::Links => next,
            Placement::Some(chosen) if chosen.contains(&(number as u32)) => next,
            Placement::Some(_) => continue,
            Placement::Routers => *of_node.entry(link.to).or_insert(next),
        };
        if device == next {
            devices.push(Device {
                node: link.to,
                link: (*placement != Placement::Routers).then_some(number as u32),
                memory: size(link.to),
                operations: provision.operations * epoch,
                encodings: provision.encodings * epoch,
            });
        }
        of_link[number] = Some(device);
    }
    Ok((devices, of_link))
}
