//! Ingresses and devices with manifests, and pairs of an encoder and a decoder on links.

use std::{collections::BTreeMap, sync::Arc};

use super::Settings;
use crate::{
    DeviceId, Error, HeaderHash, Instance,
    emulate::{
        Allocation, Queues, Rules,
        allocation::Expectation,
        ingress::{Budget, Ingress},
        link::{Limits, Pair},
        node::Node,
        store::{RING, Store},
    },
    error::EmulationError,
};

pub(super) enum Carrier {
    Planned(Planned),
    Links { pairs: Vec<Option<Box<Pair>>>, limits: Vec<Option<Limits>> },
}

pub(super) struct Planned {
    pub(super) ingresses: Vec<Ingress>,
    pub(super) nodes: Vec<Device>,
    /// The newest allocation, and what it expects.
    pub(super) expected_saved: Vec<f64>,
    pub(super) expected_footprints: Vec<f64>,
    pub(super) expected_operations: Vec<f64>,
}

pub(super) struct Device {
    pub(super) node: Node,
    /// The manifest of even and of odd version, where it has one.
    allocations: [Option<Arc<Allocation>>; 2],
}

impl Planned {
    pub(super) fn new(
        instance: &Instance,
        allocation: Allocation,
        settings: &Settings,
    ) -> Result<Self, Error> {
        fits(instance, &allocation)?;
        let expected = allocation.expect(instance, settings.rules);
        let limits = budgets(instance, &expected, settings.shed);
        let allocation = Arc::new(allocation);
        let mut ingresses = Vec::new();
        for (number, (ingress, limits)) in instance.ingresses.iter().zip(limits).enumerate() {
            let buckets: u64 = ingress
                .paths
                .clone()
                .flat_map(|path| allocation.shares(path))
                .map(|share| share.bytes)
                .sum();
            // A later plan may cover more, up to the ingress's memory and traffic.
            let most = ingress.volume.min(ingress.memory).min(settings.unlimited as f64) as u64;
            let Settings { finding, rules, .. } = settings;
            let store = Store::new(finding, settings.seed, buckets.max(most), RING, rules.copies)?;
            let paths = ingress.paths.clone();
            let mut ingress =
                Ingress::new(store, allocation.clone(), instance.coded(number), limits);
            ingress.switch(allocation.clone(), 0, paths, ingress.limits.clone(), *rules);
            ingresses.push(ingress);
        }
        let mut nodes = Vec::with_capacity(instance.devices.len());
        for sizes in sizes_of_devices(instance, &allocation, settings.rules) {
            let mut device = Device { node: Node::default(), allocations: [None, None] };
            device.install(0, allocation.clone(), sizes);
            nodes.push(device);
        }
        let mut planned = Self {
            ingresses,
            nodes,
            expected_saved: Vec::new(),
            expected_footprints: Vec::new(),
            expected_operations: Vec::new(),
        };
        planned.expect(expected);
        Ok(planned)
    }

    pub(super) fn expect(&mut self, expected: Expectation) {
        self.expected_saved = expected.saved;
        self.expected_footprints = expected.footprints;
        let devices = self.nodes.len();
        self.expected_operations = (0..devices)
            .map(|device| expected.operations.iter().map(|ingress| ingress[device]).sum())
            .collect();
    }
}

impl Device {
    /// Whether its manifest of even and of odd version holds this packet.
    pub(super) fn holds(&self, path: u32, hash: HeaderHash, device: DeviceId) -> [bool; 2] {
        let holds = |allocation: &Option<Arc<Allocation>>| {
            let holder = allocation.as_ref().and_then(|allocation| allocation.holder(path, hash));
            holder.is_some_and(|share| share.device == device)
        };
        [holds(&self.allocations[0]), holds(&self.allocations[1])]
    }

    /// Adds a manifest to the one it has. Until the old one is retired, buckets have the larger of
    /// both sizes, so that no packet leaves before it leaves at the ingress.
    pub(super) fn install(
        &mut self,
        version: u32,
        allocation: Arc<Allocation>,
        sizes: Vec<(u32, u64)>,
    ) {
        let before: BTreeMap<u32, u64> = self.node.buckets().collect();
        for (queue, bytes) in sizes {
            if before.get(&queue).is_none_or(|&size| size < bytes) {
                self.node.resize(queue, bytes);
            }
        }
        self.allocations[(version & 1) as usize] = Some(allocation);
    }

    /// Forgets the manifest before `version`; `sizes` are those of its queues.
    pub(super) fn retire(&mut self, version: u32, sizes: &[(u32, u64)]) {
        self.allocations[(version & 1 ^ 1) as usize] = None;
        let sizes: BTreeMap<u32, u64> = sizes.iter().copied().collect();
        let queues: Vec<u32> = self.node.buckets().map(|(queue, _)| queue).collect();
        for queue in queues {
            self.node.resize(queue, sizes.get(&queue).copied().unwrap_or(0));
        }
    }
}

impl Carrier {
    pub(super) fn links(instance: &Instance, limits: Vec<Option<Limits>>) -> Self {
        Carrier::Links { pairs: instance.network.links.iter().map(|_| None).collect(), limits }
    }
}

/// Limits of each link's pair: those of its device, or for a router's device the link's share by
/// volume.
pub(super) fn limits_of_links(
    instance: &Instance,
    of_link: &[Option<DeviceId>],
    unlimited: u64,
) -> Vec<Option<Limits>> {
    let volumes = instance.link_volumes();
    let mut of_device = vec![0.0; instance.devices.len()];
    for (volume, device) in volumes.iter().zip(of_link) {
        if let Some(device) = device {
            of_device[*device] += volume;
        }
    }
    let limits = |(link, device): (usize, &Option<DeviceId>)| {
        let number = (*device)?.index();
        let device = &instance.devices[number];
        let part = if of_device[number] > 0.0 { volumes[link] / of_device[number] } else { 0.0 };
        let share = |of: f64| if of.is_infinite() { of } else { of * part };
        let packets = volumes[link] / instance.packet.0;
        let encodings = share(device.encodings);
        Some(Limits {
            memory: share(device.memory).min(unlimited as f64) as u64,
            coded: if packets > encodings { encodings / packets } else { 1.0 },
            encodings,
            operations: share(device.operations),
        })
    };
    of_link.iter().enumerate().map(limits).collect()
}

/// Per device: its queues, each of a path or of an ingress, and their sizes.
pub(super) fn sizes_of_devices(
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

/// Operations per epoch that each ingress may cause at each device: the device's, divided in
/// proportion to the expected use, so that the plan's slack is divided the same way.
pub(super) fn budgets(instance: &Instance, expected: &Expectation, shed: bool) -> Vec<Vec<Budget>> {
    let sums: Vec<f64> = (0..instance.devices.len())
        .map(|device| expected.operations.iter().map(|ingress| ingress[device]).sum())
        .collect();
    let part = |device: usize, of: f64| match instance.devices[device].operations {
        _ if !shed => f64::INFINITY,
        _ if of == 0.0 => 0.0,
        all if all.is_infinite() => all,
        all => all * of / sums[device],
    };
    let budget = |(device, (&of, &cached)): (usize, (&f64, &f64))| Budget {
        all: part(device, of),
        caching: if of > 0.0 { part(device, of) * cached / of } else { 0.0 },
    };
    let of_ingress = |(operations, cached): (&Vec<f64>, &Vec<f64>)| {
        operations.iter().zip(cached).enumerate().map(budget).collect()
    };
    expected.operations.iter().zip(&expected.cached).map(of_ingress).collect()
}

pub(super) fn fits(instance: &Instance, allocation: &Allocation) -> Result<(), Error> {
    if allocation.paths() != instance.paths.len() {
        return Err(EmulationError::Count {
            what: "manifests for",
            given: allocation.paths(),
            of: "paths",
            count: instance.paths.len(),
        }
        .into());
    }
    let stranger = (0..allocation.paths() as u32)
        .flat_map(|path| allocation.shares(path))
        .find(|share| share.device.index() >= instance.devices.len());
    match stranger {
        Some(share) => Err(EmulationError::Index {
            what: "a manifest for device",
            index: share.device.index(),
            count: instance.devices.len(),
        }
        .into()),
        None => Ok(()),
    }
}
