//! What a scheme takes: devices, memory and work, at encoders as well as at decoders.

use std::iter::Sum;
use std::ops::Add;

use crate::{DeviceId, Instance, evaluate::Evaluation, manifest};

/// What devices cost, in money.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Tariff {
    /// An encoder or a decoder, without its memory.
    pub device: f64,
    /// A byte of its memory, of the size that the instance gives it.
    pub memory: f64,
}

impl Default for Tariff {
    /// Counts devices.
    fn default() -> Self {
        Self { device: 1.0, memory: 0.0 }
    }
}

impl Tariff {
    /// Price of the encoder of a packet store.
    pub fn encoder(&self, instance: &Instance, store: usize) -> f64 {
        self.of(instance.store_memory(store).0)
    }

    /// Price of a decoder.
    pub fn decoder(&self, instance: &Instance, device: DeviceId) -> f64 {
        self.of(instance.devices[device].memory)
    }

    /// Price of a device with this memory.
    pub fn of(&self, memory: f64) -> f64 {
        // An unlimited memory at no price costs nothing.
        self.device + if self.memory == 0.0 { 0.0 } else { self.memory * memory }
    }
}

/// What a scheme takes on a network. A device counts if it has something to do, memory as far as it
/// is filled: sizes are options, and a larger cache than needed should not speak against a scheme.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Cost {
    /// Devices that encode.
    pub encoders: usize,
    /// Devices that cache and decode.
    pub decoders: usize,
    /// Bytes of memory that these devices have, filled or not: what is paid for.
    pub bought: f64,
    /// What all of them hold and do.
    pub work: Work,
}

/// What encoders and decoders hold and do.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Work {
    /// Bytes of packets that encoders and decoders hold.
    pub memory: f64,
    /// Per epoch: packets that encoders fingerprint and that decoders cache, and matches that these
    /// decode, one operation each.
    pub operations: f64,
}

impl Cost {
    /// Encoders and decoders.
    pub fn devices(&self) -> usize {
        self.encoders + self.decoders
    }

    /// The same devices, which hold and do this share of it.
    pub(crate) fn with_work(self, share: f64) -> Self {
        let Work { memory, operations } = self.work;
        let work = Work { memory: share * memory, operations: share * operations };
        Self { work, ..self }
    }

    /// In money.
    pub fn price(&self, tariff: &Tariff) -> f64 {
        tariff.device * self.devices() as f64
            + if tariff.memory == 0.0 { 0.0 } else { tariff.memory * self.bought }
    }

    /// Of shares d(p, r), in the order of [`Instance::hop_index`], and what they do. Shares that
    /// manifests leave out take nothing.
    pub fn of_shares(instance: &Instance, cached: &[f64], evaluation: &Evaluation) -> Self {
        let smallest = manifest::Options::default().smallest;
        let mut encodes = vec![false; instance.store_count()];
        let mut decodes = vec![false; instance.devices.len()];
        for (number, path) in instance.paths.iter().enumerate() {
            for (hop, &share) in path.hops.iter().zip(&cached[instance.hop_range(number)]) {
                if share >= smallest {
                    encodes[instance.ingresses[path.ingress as usize].store as usize] = true;
                    decodes[hop.device.index()] = true;
                }
            }
        }
        let (mut work, mut bought) = (Work::default(), 0.0);
        for (store, slices) in instance.stores().enumerate() {
            if encodes[store] {
                let volume: f64 =
                    instance.ingresses[slices.clone()].iter().map(|slice| slice.volume).sum();
                bought += instance.store_memory(store).0;
                work.memory += evaluation.ingresses[slices.start].memory.used;
                work.operations += instance.coded(slices.start) * volume / instance.packet.0;
            }
        }
        for (device, _) in evaluation.devices.iter().zip(&decodes).filter(|(_, used)| **used) {
            bought += device.memory.limit;
            work.memory += device.memory.used;
            work.operations += device.operations.used;
        }
        let count = |used: Vec<bool>| used.into_iter().filter(|used| *used).count();
        Self { encoders: count(encodes), decoders: count(decodes), bought, work }
    }
}

impl Add for Cost {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            encoders: self.encoders + other.encoders,
            decoders: self.decoders + other.decoders,
            bought: self.bought + other.bought,
            work: Work {
                memory: self.work.memory + other.work.memory,
                operations: self.work.operations + other.work.operations,
            },
        }
    }
}

impl Sum for Cost {
    fn sum<I: Iterator<Item = Self>>(costs: I) -> Self {
        costs.fold(Self::default(), Add::add)
    }
}
