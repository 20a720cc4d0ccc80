//! What a node knows before it starts: the network, and the manifests of a plan.

use super::error::{NodeError, SetupError};
use crate::keys::{Peer, PublicKey};
use crate::target::Target;
use ipnet::IpNet;
use oncewire_packet::prefix::Prefixes;
use oncewire_plan::manifest::{DeviceManifest, IngressManifest, Plan};
use oncewire_plan::topology::{self, Member};
use oncewire_plan::{DeviceId, LinkId, Network, NodeId, Unwatched, engine::Route, routing};
use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;

/// A network that runs: the map, and of each node its key, its address and what is behind it.
#[derive(Clone, Debug)]
pub struct RunningNetwork {
    pub(crate) network: Network,
    pub(crate) keys: Vec<Option<PublicKey>>,
    pub(crate) addresses: Vec<Option<Target>>,
    pub(crate) prefixes: Vec<Vec<IpNet>>,
    table: Prefixes,
    /// The node that each name of the table stands for.
    owners: Vec<usize>,
}

impl RunningNetwork {
    /// Reads a topology in our JSON form, whose nodes have `key`, `address` and `prefixes`.
    ///
    /// # Errors
    /// [`SetupError`] for what is not that; two nodes with one key or one prefix.
    pub fn parse(text: &str) -> Result<RunningNetwork, SetupError> {
        let network = topology::json(text)?;
        let mut running = RunningNetwork {
            keys: Vec::new(),
            addresses: Vec::new(),
            prefixes: Vec::new(),
            table: Prefixes::default(),
            owners: Vec::new(),
            network,
        };
        let mut seen: HashMap<PublicKey, String> = HashMap::new();
        let (mut lines, mut of_prefix) = (String::new(), HashMap::new());
        for (at, member) in topology::members(text)?.into_iter().enumerate() {
            let Member { id, key, address, prefixes } = member;
            let wrong = |what, why: &dyn std::fmt::Display| SetupError::Member {
                node: id.clone(),
                what,
                why: why.to_string(),
            };
            let key = key.map(|key| key.parse::<PublicKey>()).transpose();
            let key = key.map_err(|error| wrong("key", &error))?;
            if let Some(other) = key.and_then(|key| seen.insert(key, id.clone())) {
                return Err(wrong("key", &format!("it is the key of {other}")));
            }
            let address = address.map(|address| address.parse::<Target>()).transpose();
            let address = address.map_err(|error| wrong("address", &error))?;
            let parse = |prefix: &String| {
                let net =
                    prefix.parse::<IpNet>().or_else(|_| prefix.parse::<IpAddr>().map(IpNet::from));
                net.map(|net| net.trunc())
                    .map_err(|_| wrong("prefixes", &format!("{prefix:?} is no network")))
            };
            let prefixes = prefixes.iter().map(parse).collect::<Result<Vec<_>, _>>()?;
            for prefix in &prefixes {
                if let Some(other) = of_prefix.insert(*prefix, id.clone())
                    && other != id
                {
                    return Err(wrong("prefixes", &format!("{prefix} is behind {other}, too")));
                }
                lines.push_str(&format!("{prefix} {at}\n"));
            }
            running.keys.push(key);
            running.addresses.push(address);
            running.prefixes.push(prefixes);
        }
        running.table = Prefixes::parse(&lines).map_err(|error| SetupError::Member {
            node: running.network.name.clone(),
            what: "prefixes",
            why: error.to_string(),
        })?;
        running.owners =
            running.table.names().map(|(_, name)| name.parse().unwrap_or(usize::MAX)).collect();
        Ok(running)
    }

    /// The node behind which an address is.
    pub(crate) fn owner(&self, address: IpAddr) -> Option<usize> {
        // An IPv4 address written as IPv6 is not valid in packets (RFC 4942 section 2.2), and must not
        // pass for the IPv4 address.
        if address.is_ipv6() && address.to_canonical().is_ipv4() {
            return None;
        }
        self.table.lookup(address).and_then(|id| self.owners.get(id.0 as usize).copied())
    }

    /// The number of a node.
    ///
    /// # Errors
    /// [`SetupError::NoNode`].
    pub fn node(&self, name: &str) -> Result<usize, SetupError> {
        let found = self.network.nodes.iter().position(|node| node.id == name);
        found.ok_or_else(|| SetupError::NoNode(name.into()))
    }

    /// Whether a node can run with this key: it has it in the topology, and a neighbor.
    ///
    /// # Errors
    /// [`NodeError`].
    pub fn check(&self, name: &str, own: &PublicKey) -> Result<(), NodeError> {
        let me = self.node(name)?;
        let expected = self.keys[me].ok_or_else(|| SetupError::NoKey(name.into()))?;
        if *own != expected {
            return Err(NodeError::Key { name: name.into(), expected, own: *own });
        }
        if self.neighbors(me).is_empty() {
            return Err(NodeError::Alone(name.into()));
        }
        Ok(())
    }

    /// The name of a node.
    ///
    /// # Panics
    /// If there is no such node.
    pub fn name(&self, node: usize) -> &str {
        &self.network.nodes[node].id
    }

    /// Whether a link leads from one node to another.
    pub(super) fn has_link(&self, from: usize, to: usize) -> bool {
        let mut links = self.network.links.iter();
        links.any(|link| (link.from.index(), link.to.index()) == (from, to))
    }

    /// The map.
    pub fn map(&self) -> &Network {
        &self.network
    }

    /// Whether networks are behind each node.
    pub fn ends(&self) -> Vec<bool> {
        self.prefixes.iter().map(|prefixes| !prefixes.is_empty()).collect()
    }

    /// The node with a key.
    pub fn of_key(&self, key: &PublicKey) -> Option<usize> {
        self.keys.iter().position(|one| one.as_ref() == Some(key))
    }

    /// The keys of all nodes that have one, with their names.
    pub(crate) fn peers(&self) -> impl Iterator<Item = Peer> + '_ {
        let named = |(key, node): (&Option<PublicKey>, &oncewire_plan::network::Node)| {
            let name = Some(node.id.clone());
            key.map(|key| Peer { name, ..Peer::from(key) })
        };
        self.keys.iter().zip(&self.network.nodes).filter_map(named)
    }

    /// A digest of what nodes must agree on, in hexadecimal digits: names, keys, prefixes and links.
    pub fn digest(&self) -> String {
        self.digest_with(&[])
    }

    /// The same with the network's secret.
    pub(crate) fn digest_with(&self, secret: &[u8]) -> String {
        let mut all = ring::digest::Context::new(&ring::digest::SHA256);
        let mut add = |bytes: &[u8]| {
            all.update(&(bytes.len() as u64).to_le_bytes());
            all.update(bytes);
        };
        add(secret);
        for ((node, key), prefixes) in self.network.nodes.iter().zip(&self.keys).zip(&self.prefixes)
        {
            add(node.id.as_bytes());
            add(key.map_or([0; 32], |key| key.0).as_slice());
            let mut prefixes: Vec<String> = prefixes.iter().map(ToString::to_string).collect();
            prefixes.sort();
            prefixes.iter().for_each(|prefix| add(prefix.as_bytes()));
            add(b"");
        }
        for link in &self.network.links {
            add(&link.from.0.to_le_bytes());
            add(&link.to.0.to_le_bytes());
            add(&link.weight.to_le_bytes());
        }
        let digest = all.finish();
        digest.as_ref()[..16].iter().map(|byte| format!("{byte:02x}")).collect()
    }

    /// Nodes that share a link with a node, ascending.
    pub fn neighbors(&self, node: usize) -> Vec<usize> {
        let mut found: Vec<usize> = Vec::new();
        for link in &self.network.links {
            let (from, to) = (link.from.index(), link.to.index());
            found.extend((from == node).then_some(to));
            found.extend((to == node).then_some(from));
        }
        found.sort_unstable();
        found.dedup();
        found
    }
}

/// Which plan: two of one version differ in their digests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PlanId {
    /// Its version; 0 for no plan.
    pub version: u64,
    /// The first 8 bytes, little endian, of a SHA-256 over its manifests.
    pub digest: u64,
}

/// All manifests of a plan.
#[derive(Clone, Debug, Default)]
pub struct Manifests {
    pub(crate) devices: Vec<DeviceManifest>,
    pub(crate) ingresses: Vec<IngressManifest>,
}

impl Manifests {
    /// Manifests that belong together.
    ///
    /// # Errors
    /// [`SetupError`] for manifests of several plans, and two for one device or ingress.
    pub fn new(
        devices: Vec<DeviceManifest>,
        ingresses: Vec<IngressManifest>,
    ) -> Result<Manifests, SetupError> {
        let of_devices = devices.iter().map(|one| (one.version(), one.network(), one.name()));
        let of_ingresses = ingresses.iter().map(|one| (one.version(), one.network(), one.name()));
        let mut first = None;
        for (version, network, name) in of_devices.chain(of_ingresses) {
            if *first.get_or_insert((version, network)) != (version, network) {
                return Err(SetupError::Mixed(name.into(), version, network.into()));
            }
        }
        let mut seen = HashMap::new();
        for one in &devices {
            if seen.insert(one.device(), ()).is_some() {
                return Err(SetupError::Twice(one.name().into()));
            }
        }
        let mut names = HashMap::new();
        for one in &ingresses {
            if one.slice() > 0 {
                return Err(SetupError::Slices(one.name().into()));
            }
            if names.insert(one.name(), ()).is_some() {
                return Err(SetupError::Twice(one.name().into()));
            }
        }
        Ok(Manifests { devices, ingresses })
    }

    /// The manifests of a plan.
    ///
    /// # Errors
    /// [`SetupError::Slices`] for a plan of redundancy-aware routes.
    pub fn of_plan(plan: &Plan) -> Result<Manifests, SetupError> {
        Manifests::new(plan.device_manifests(), plan.ingress_manifests())
    }

    /// Which plan these are of.
    pub fn id(&self) -> PlanId {
        if self.version() == 0 {
            return PlanId::default();
        }
        let mut texts: Vec<String> = self.devices.iter().map(DeviceManifest::to_json).collect();
        texts.extend(self.ingresses.iter().map(IngressManifest::to_json));
        texts.sort();
        let mut all = ring::digest::Context::new(&ring::digest::SHA256);
        for text in &texts {
            all.update(&(text.len() as u64).to_le_bytes());
            all.update(text.as_bytes());
        }
        let mut digest = [0; 8];
        digest.copy_from_slice(&all.finish().as_ref()[..8]);
        PlanId { version: self.version(), digest: u64::from_le_bytes(digest) }
    }

    /// Version of the plan; 0 without one.
    pub fn version(&self) -> u64 {
        let device = self.devices.first().map(DeviceManifest::version);
        device.or(self.ingresses.first().map(IngressManifest::version)).unwrap_or(0)
    }
}

/// A path as all nodes see it.
#[derive(Clone, Debug)]
pub(crate) struct PathWay {
    pub(crate) id: u32,
    /// Number of the ingress in the plan.
    pub(crate) ingress: u32,
    /// Nodes in order, the first and the last included.
    pub(crate) nodes: Vec<usize>,
    /// The links between them, and the devices on these.
    pub(crate) route: Route,
}

/// The ways of all paths of a plan: through its nodes if these are its devices; else the shortest ones,
/// as the planner has them.
pub(crate) fn ways(
    running: &RunningNetwork,
    manifests: &Manifests,
) -> Result<Vec<PathWay>, SetupError> {
    let network = &running.network;
    let (of_link, of_device) = devices_of_links(running, manifests)?;
    let stranger = |name: &str| SetupError::Stranger(name.into());
    // Devices of whole nodes say the way, whatever it is; the others are on the shortest one.
    let mut ways = Vec::new();
    let (mut pairs, mut shortest) = (Vec::<(NodeId, NodeId)>::new(), Vec::new());
    for manifest in &manifests.ingresses {
        let from = running.node(manifest.name()).map_err(|_| stranger(manifest.name()))?;
        for path in manifest.paths() {
            let to = running.node(&path.egress).map_err(|_| stranger(&path.egress))?;
            let planned = manifest.devices(path);
            let nodes = through_nodes(running, &of_device, (from, to), &planned);
            if nodes.is_empty() {
                shortest.push(ways.len());
                pairs.push((NodeId::new(from), NodeId::new(to)));
            }
            let route = Route::through(planned.into_iter().map(Some).collect());
            ways.push(PathWay { id: path.id.0, ingress: manifest.ingress(), nodes, route });
        }
    }
    let routes = routing::shortest_paths_between(network, &pairs, &Unwatched)?;
    let mut routes: HashMap<usize, _> = shortest.into_iter().zip(routes).collect();
    let paths = manifests
        .ingresses
        .iter()
        .flat_map(|manifest| manifest.paths().iter().map(move |path| (manifest, path)));
    let mut seen = BTreeMap::new();
    for (at, (manifest, path)) in paths.enumerate() {
        if let Some(other) = seen.insert(path.id, manifest.name()) {
            return Err(SetupError::Twice(format!("path {} ({other})", path.id)));
        }
        let Some(route) = routes.remove(&at) else { continue };
        // The plan may leave devices out that save nothing.
        let planned = manifest.devices(path);
        let devices: Vec<Option<DeviceId>> = route
            .links
            .iter()
            .map(|&link| of_link[link].filter(|device| planned.contains(device)))
            .collect();
        let known = Route::through(devices);
        if !known.meets(&planned) {
            let (from, to) = (manifest.name().into(), path.egress.clone());
            return Err(SetupError::OtherWay { from, to });
        }
        let after = route.links.iter().map(|&link| network.links[link].to.index());
        ways[at].nodes = std::iter::once(route.from.index()).chain(after).collect();
        ways[at].route = known;
    }
    Ok(ways)
}

/// The nodes of a way whose devices are nodes in a row, from the first to the last; none if they are
/// not.
fn through_nodes(
    running: &RunningNetwork,
    of_device: &HashMap<DeviceId, usize>,
    (from, to): (usize, usize),
    devices: &[DeviceId],
) -> Vec<usize> {
    let mut nodes = vec![from];
    for device in devices {
        let (Some(&last), Some(&node)) = (nodes.last(), of_device.get(device)) else {
            return Vec::new();
        };
        if nodes.contains(&node) || !running.has_link(last, node) {
            return Vec::new();
        }
        nodes.push(node);
    }
    if nodes.len() > 1 && nodes.last() == Some(&to) { nodes } else { Vec::new() }
}

/// The device that each link leads to, and the nodes of devices that serve whole nodes.
#[expect(clippy::type_complexity, reason = "both are plain")]
fn devices_of_links(
    running: &RunningNetwork,
    manifests: &Manifests,
) -> Result<(Vec<Option<DeviceId>>, HashMap<DeviceId, usize>), SetupError> {
    let network = &running.network;
    let links: HashMap<String, usize> =
        (0..network.links.len()).map(|link| (network.link_name(LinkId::new(link)), link)).collect();
    let mut of_link = vec![None; network.links.len()];
    let mut of_node = vec![None; network.nodes.len()];
    for manifest in &manifests.devices {
        let (name, device) = (manifest.name(), manifest.device());
        if device.index() >= network.links.len().max(network.nodes.len()) {
            return Err(SetupError::Stranger(name.into()));
        }
        match (links.get(name), running.node(name)) {
            (Some(&link), _) => of_link[link] = Some(device),
            (None, Ok(node)) => of_node[node] = Some(device),
            (None, Err(_)) => return Err(SetupError::Stranger(name.into())),
        }
    }
    for (device, link) in of_link.iter_mut().zip(&network.links) {
        *device = device.or(of_node[link.to.index()]);
    }
    let whole = of_node.iter().enumerate().filter_map(|(node, device)| Some(((*device)?, node)));
    Ok((of_link, whole.collect()))
}
