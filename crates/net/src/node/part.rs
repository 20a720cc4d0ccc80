//! What a plan asks of one node.

use super::place::{Entrance, KEPT, NodeSettings, Place};
use super::setup::{Manifests, PathWay, PlanId, RunningNetwork, SetupError, ways};
use oncewire_plan::DeviceId;
use oncewire_plan::engine::{
    Allocation, Budget, Ingress, Queues, Ranges, Routes, Rules, SentPackets,
};
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
                    queue: queue_of(rules, way),
                    from: way.nodes[0],
                },
            );
        }
        let queues: HashMap<u32, u32> =
            ways.iter().map(|way| (way.id, queue_of(rules, way))).collect();
        let here: BTreeSet<DeviceId> = places.values().filter_map(|place| place.device).collect();
        let mut devices = HashMap::new();
        for manifest in manifests.devices.iter().filter(|one| here.contains(&one.device())) {
            let queue_of = |path| queues.get(&path).copied().unwrap_or(path);
            devices.insert(manifest.device(), Ranges::of_manifest(manifest, queue_of));
        }
        let own = manifests.ingresses.iter().find(|one| one.name() == network.name(me));
        let begins = own.map(|manifest| {
            let allocation = Arc::new(Allocation::of_ingress(manifest));
            let bytes = manifest.paths().iter().flat_map(|path| &path.ranges);
            let bytes = bytes.map(|range| range.bytes).fold(0, u64::saturating_add);
            let mine: Vec<&PathWay> = ways.iter().filter(|way| way.nodes[0] == me).collect();
            let mut at_nodes: HashMap<usize, BTreeSet<DeviceId>> = HashMap::new();
            for way in &mine {
                for (&node, device) in way.nodes[1..].iter().zip(&way.route.devices) {
                    at_nodes.entry(node).or_default().extend(device);
                }
            }
            let routes = mine.iter().map(|way| (way.id, way.route.clone())).collect();
            let last = |way: &&PathWay| Some((*way.nodes.last()?, way.id));
            Begins {
                allocation,
                bytes,
                routes: Routes::numbered(routes),
                paths: mine.iter().filter_map(last).collect(),
                devices: at_nodes,
                limits: network.network.links.len().max(network.network.nodes.len()),
            }
        });
        Ok(Part { plan: manifests.id(), places, devices, begins })
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

/// The FIFO queue of a path's packets at a device.
fn queue_of(rules: Rules, way: &PathWay) -> u32 {
    match rules.queues {
        Queues::Paths => way.id,
        Queues::Ingress | Queues::Fair => way.ingress,
    }
}
