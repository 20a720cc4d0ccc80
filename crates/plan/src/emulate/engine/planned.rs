//! Ingresses and devices with manifests, and pairs of an encoder and a decoder on links.

use std::sync::Arc;

use super::Settings;
use crate::{
    DeviceId, Error, Instance,
    emulate::link::{Limits, Pair},
    engine::{Allocation, Expectation, Ingress, Node, budgets, ranges_of_devices},
    error::EmulationError,
};

pub(super) enum Carrier {
    Planned(Planned),
    Links { pairs: Vec<Option<Box<Pair>>>, limits: Vec<Option<Limits>> },
}

pub(super) struct Planned {
    pub(super) ingresses: Vec<Ingress>,
    pub(super) nodes: Vec<Node>,
    /// The newest allocation, and what it expects.
    pub(super) expected_saved: Vec<f64>,
    pub(super) expected_footprints: Vec<f64>,
    pub(super) expected_operations: Vec<f64>,
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
            let paths = ingress.paths.clone();
            let mut ingress = Ingress::new(
                (finding, settings.seed),
                buckets.max(most),
                rules.copies,
                allocation.clone(),
                instance.coded(number),
                limits,
            )?;
            ingress.switch(allocation.clone(), 0, paths, ingress.limits.clone(), *rules);
            ingresses.push(ingress);
        }
        let mut nodes = Vec::with_capacity(instance.devices.len());
        for ranges in ranges_of_devices(instance, &allocation, settings.rules) {
            let mut device = Node::default();
            device.install(0, ranges);
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
