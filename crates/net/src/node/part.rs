//! What a plan asks of one node.

use super::error::SetupError;
use super::place::{Entrance, KEPT, NodeSettings, Place};
use super::setup::{Manifests, PlanId, RunningNetwork, ways};
use oncewire_plan::engine::{
    Allocation, Budget, Ingress, Queues, Ranges, Route, Routes, Rules, SentPackets,
};
use oncewire_plan::manifest::{IngressManifest, NodePart};
use oncewire_plan::{DeviceId, NodeId};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

/// What a plan asks of one node.
#[derive(Default)]
pub(super) struct Part {
    pub(super) plan: PlanId,
    /// Paths that begin here, pass, or end.
    pub(super) places: HashMap<u32, Place>,
    /// What devices here cache.
    pub(super) devices: HashMap<DeviceId, Ranges>,
    pub(super) begins: Option<Begins>,
}

/// What a plan asks of an ingress.
pub(super) struct Begins {
    pub(super) allocation: Arc<Allocation>,
    /// Bytes of its buckets.
    pub(super) bytes: u64,
    pub(super) routes: Routes,
    /// The path to each node.
    pub(super) paths: HashMap<usize, u32>,
    /// The devices at each node that packets from here may be cached at.
    pub(super) devices: HashMap<usize, BTreeSet<DeviceId>>,
    limits: usize,
}

impl Part {
    /// What the plan of these manifests asks of node `me`.
    ///
    /// # Errors
    /// [`SetupError`] if the manifests do not fit the network.
    pub(super) fn new(
        network: &RunningNetwork,
        me: usize,
        manifests: &Manifests,
        rules: Rules,
    ) -> Result<Part, SetupError> {
        let ways = ways(network, manifests)?;
        let neighbors = network.neighbors(me);
        let number = |node: usize| neighbors.binary_search(&node).ok();
        let mut places = HashMap::new();
        for way in &ways {
            let Some(at) = way.nodes.iter().position(|&node| node == me) else { continue };
            let before = at.checked_sub(1);
            places.insert(
                way.id,
                Place {
                    before: before.and_then(|at| number(way.nodes[at])),
                    after: way.nodes.get(at + 1).and_then(|&node| number(node)),
                    device: before.and_then(|at| way.route.devices[at]),
                    queue: queue_of(rules, way.id, way.ingress),
                    from: way.nodes[0],
                },
            );
        }
        let queues: HashMap<u32, u32> =
            ways.iter().map(|way| (way.id, queue_of(rules, way.id, way.ingress))).collect();
        let here: BTreeSet<DeviceId> = places.values().filter_map(|place| place.device).collect();
        let mut devices = HashMap::new();
        for manifest in manifests.devices.iter().filter(|one| here.contains(&one.device())) {
            let queue_of = |path| queues.get(&path).copied().unwrap_or(path);
            devices.insert(manifest.device(), Ranges::of_manifest(manifest, queue_of));
        }
        let own = manifests.ingresses.iter().find(|one| one.name() == network.name(me));
        let begins = own.map(|manifest| {
            let mine = ways.into_iter().filter(|way| way.nodes[0] == me);
            let mine = mine.map(|way| (way.id, way.nodes[1..].to_vec(), way.route));
            Begins::new(network, manifest, mine.collect())
        });
        Ok(Part { plan: manifests.id(), places, devices, begins })
    }

    /// What the plan of a controller asks of node `me`: this part of it. The device of a node has the
    /// node's number.
    ///
    /// # Errors
    /// [`SetupError`] if it is another node's, or does not fit the network.
    pub(super) fn of_node(
        network: &RunningNetwork,
        me: usize,
        part: &NodePart,
        rules: Rules,
    ) -> Result<Part, SetupError> {
        if part.node.index() != me {
            return Err(SetupError::OtherNode);
        }
        let neighbors = network.neighbors(me);
        let number = |node: NodeId| {
            let found = neighbors.binary_search(&node.index());
            found.map_err(|_| SetupError::NoNeighbor(node.0))
        };
        let known = |node: NodeId| match node.index() < network.network.nodes.len() {
            true => Ok(node.index()),
            false => Err(SetupError::NoNeighbor(node.0)),
        };
        let device = DeviceId::new(me);
        let mut places = HashMap::new();
        for one in &part.passing {
            let place = Place {
                before: Some(number(one.before)?),
                after: one.after.map(number).transpose()?,
                device: one.has_device.then_some(device),
                queue: queue_of(rules, one.id.0, one.from.0),
                from: known(one.from)?,
            };
            places.insert(one.id.0, place);
        }
        let mut mine = Vec::with_capacity(part.own.len());
        for one in &part.own {
            let mut nodes = Vec::with_capacity(one.way.len());
            for &(node, _) in &one.way {
                let before = nodes.last().copied().unwrap_or(me);
                if !network.has_link(before, known(node)?) {
                    return Err(SetupError::NoNeighbor(node.0));
                }
                nodes.push(node.index());
            }
            let after = one.way.first().map(|&(node, _)| number(node)).transpose()?;
            let queue = queue_of(rules, one.id.0, part.node.0);
            places.insert(one.id.0, Place { before: None, after, device: None, queue, from: me });
            let device = |&(node, has): &(NodeId, bool)| has.then_some(DeviceId(node.0));
            mine.push((one.id.0, nodes, Route::through(one.way.iter().map(device).collect())));
        }
        let queue_of = |path| places.get(&path).map_or(path, |place: &Place| place.queue);
        let ranges = Ranges::of_manifest(&part.device_manifest()?, queue_of);
        // A device without ranges decodes, too, and is told of plans.
        let has_device = part.passing.iter().any(|one| one.has_device);
        let devices = has_device.then_some((device, ranges)).into_iter().collect();
        let begins = part.ingress_manifest()?;
        let begins = begins.map(|manifest| Begins::new(network, &manifest, mine));
        let plan = PlanId { version: part.version, digest: part.digest };
        Ok(Part { plan, places, devices, begins })
    }

    /// Bytes of memory for packets while this plan and the one before are honored: a queue has the
    /// larger of both sizes, and an ingress changes at once.
    pub(super) fn memory(&self, before: Option<&Part>) -> u64 {
        let mut queues: BTreeMap<(DeviceId, u32), u64> = BTreeMap::new();
        let mut ingress = 0;
        for part in [Some(self), before].into_iter().flatten() {
            for (&device, ranges) in &part.devices {
                for (queue, bytes) in ranges.queues() {
                    let size = queues.entry((device, queue)).or_default();
                    *size = bytes.max(*size);
                }
            }
            ingress = part.begins.as_ref().map_or(0, |begins| begins.bytes).max(ingress);
        }
        queues.into_values().fold(ingress, u64::saturating_add)
    }

    /// Whether the paths that both plans have are the same ones here.
    pub(super) fn follows(&self, before: &Part) -> Result<(), SetupError> {
        for (&path, old) in &before.places {
            let Some(new) = self.places.get(&path) else { continue };
            let others = old.device.zip(new.device).is_some_and(|(old, new)| old != new);
            let ends = |place: &Place| (place.before, place.after, place.queue, place.from);
            if others || ends(old) != ends(new) {
                return Err(SetupError::Changed(path));
            }
        }
        Ok(())
    }
}

impl Begins {
    /// What a manifest asks of an ingress, whose paths have these numbers, nodes after it, and routes.
    fn new(
        network: &RunningNetwork,
        manifest: &IngressManifest,
        mine: Vec<(u32, Vec<usize>, Route)>,
    ) -> Begins {
        let mut devices: HashMap<usize, BTreeSet<DeviceId>> = HashMap::new();
        let mut paths = HashMap::new();
        for (path, nodes, route) in &mine {
            for (&node, device) in nodes.iter().zip(&route.devices) {
                devices.entry(node).or_default().extend(device);
            }
            paths.extend(nodes.last().map(|&last| (last, *path)));
        }
        let routes = mine.into_iter().map(|(path, _, route)| (path, route)).collect();
        Begins {
            allocation: Arc::new(Allocation::of_ingress(manifest)),
            bytes: manifest.bytes(),
            routes: Routes::numbered(routes),
            paths,
            devices,
            limits: network.network.links.len().max(network.network.nodes.len()),
        }
    }

    fn limits(&self) -> Vec<Budget> {
        vec![Budget { all: f64::INFINITY, caching: f64::INFINITY }; self.limits]
    }

    /// An ingress with an empty store.
    pub(super) fn entrance(
        &self,
        version: u64,
        settings: &NodeSettings,
    ) -> Result<Entrance, SetupError> {
        let ingress = Ingress::new(
            (&settings.finding, settings.seed),
            self.bytes,
            settings.rules.copies,
            self.allocation.clone(),
            1.0,
            self.limits(),
        )
        .map_err(SetupError::Engine)?;
        let mut entrance = Entrance {
            ingress,
            sent: SentPackets::new(KEPT),
            routes: self.routes.clone(),
            paths: HashMap::new(),
            devices: HashMap::new(),
        };
        self.switch(version, &mut entrance, settings.rules);
        Ok(entrance)
    }

    /// From now on, packets are stored as this plan says. Buckets that keep their device keep their
    /// packets.
    pub(super) fn switch(&self, version: u64, entrance: &mut Entrance, rules: Rules) {
        let ids = self.allocation.ids();
        entrance.ingress.expect(self.bytes);
        // Only whether it is odd counts.
        let version = version as u32;
        entrance.ingress.switch(self.allocation.clone(), version, ids, self.limits(), rules);
        entrance.routes = self.routes.clone();
        entrance.paths = self.paths.clone();
        entrance.devices = self.devices.clone();
    }
}

/// The FIFO queue of a path's packets at a device. Ingresses have numbers that stay while a plan is
/// followed by others.
fn queue_of(rules: Rules, path: u32, ingress: u32) -> u32 {
    match rules.queues {
        Queues::Paths => path,
        Queues::Ingress | Queues::Fair => ingress,
    }
}
