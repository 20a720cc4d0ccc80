//! Figure 12: caches at end hosts against one in the middle (EndRE sections 8.2 and 9.1).

mod blocks;
mod chunks;
mod objects;
mod present;
mod sizes;
pub(crate) mod sweep;

use super::tally::TOTAL;
use super::{Finding, Observer};
use crate::algorithm::{MaxMatchParams, MaxMatchRun, PairRun, Run, Tally};
use crate::batch::{Direction, Packet, View};
use objects::Objects;
use oncewire_codec::ConfigError;
use sizes::Sizes;
use sweep::{OtherRuns, PairSizes, Sweep};

/// Compares caches at end hosts with one in a middlebox.
pub struct Hosts {
    pairs: PairRun,
    shared: MaxMatchRun,
    shared_cache: u64,
    sizes: Sizes,
    sweep: Sweep,
    objects: Objects,
    wire: [u64; Direction::ALL.len()],
    extra: [[u64; 2]; Direction::ALL.len()],
    /// The error that ended the figure early.
    error: Option<ConfigError>,
    scratch: Vec<oncewire_codec::matcher::Match>,
}

impl Hosts {
    /// With caches per pair of hosts, the shared cache of a middlebox, caches per pair of other sizes
    /// and samplers, and what they are compared with. The caches' memory aside, it takes `memory`
    /// bytes, and `others` what they take.
    pub(crate) fn new(
        pairs: PairRun,
        shared: MaxMatchParams,
        sizes: PairRun,
        samplers: Vec<(&'static str, PairRun)>,
        others: Option<OtherRuns>,
        memory: u64,
    ) -> Hosts {
        Hosts {
            pairs,
            shared_cache: shared.sizes.asked(),
            shared: MaxMatchRun::new(shared, Tally::default()),
            sizes: Sizes::new(memory / 2),
            sweep: Sweep::new(sizes, samplers, others),
            objects: Objects::new(memory / 2),
            wire: [0; Direction::ALL.len()],
            extra: [[0; 2]; Direction::ALL.len()],
            error: None,
            scratch: Vec::new(),
        }
    }

    fn packet(&mut self, view: &View<'_>, packet: &Packet) -> Result<(), ConfigError> {
        let payload = view.batch.payload(packet);
        let by_pair = self.pairs.packet(packet, payload)?;
        let mut by_all = 0;
        if let Some(cache) = view.caches.get(packet.direction) {
            self.scratch.clear();
            by_all = self.shared.find(packet, payload, cache, &mut self.scratch)?;
        }
        self.sizes.packet(packet);
        let extra = &mut self.extra;
        let gain = |direction: Direction, gains: [u64; 2]| {
            for (sum, gain) in extra[direction.index()].iter_mut().zip(gains) {
                *sum += gain;
            }
        };
        self.objects.packet(packet, payload, [by_pair, by_all], self.shared_cache, gain);
        Ok(())
    }
}

impl Observer for Hosts {
    fn batch(&mut self, view: &View<'_>) {
        for packet in view.batch.packets() {
            self.wire[packet.direction.index()] += u64::from(packet.wire);
            if self.error.is_some() {
                continue;
            }
            let payload = view.batch.payload(packet);
            let swept = self.sweep.packet(packet, payload);
            let found = if packet.len > 0 { self.packet(view, packet) } else { Ok(()) };
            self.error = swept.and(found).err();
        }
    }

    fn finish(self: Box<Self>) -> Finding {
        Finding::Hosts(self.compute())
    }
}

/// Figure 12: savings of caches at the hosts and of a middlebox, and the memory that hosts need.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct HostSavings {
    /// The total over all directions.
    pub total: DirectionHosts,
    /// Each direction with packets, if there are several.
    pub directions: Vec<DirectionHosts>,
    /// Largest memory of each client in bytes, ascending.
    pub clients: Vec<u64>,
    /// Largest memory of each server in bytes, ascending.
    pub servers: Vec<u64>,
    /// Size of the middlebox's cache in bytes.
    pub shared_cache: u64,
    /// Savings by size of a pair's cache, and by sampler.
    pub pair_sizes: PairSizes,
    /// What limits the caches per pair of hosts.
    pub pair_notes: Vec<String>,
    /// Pairs of hosts whose memory is simulated, at most.
    pub max_pairs: usize,
    /// Packets of further pairs, whose memory is not simulated.
    pub packets_without_memory: u64,
    /// Packets and objects for which the object analysis had no room.
    pub objects_left_out: u64,
    /// The error that ended the figure early.
    pub error: Option<String>,
    /// Memory of the figure's state in bytes.
    pub memory: u64,
}

/// Bytes saved in one direction.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct DirectionHosts {
    /// The direction, or `total`.
    pub direction: &'static str,
    /// Bytes on the wire.
    pub wire: u64,
    /// Bytes saved by a cache for each pair of hosts.
    pub hosts: u64,
    /// Further bytes saved by objects, next to the caches at the hosts.
    pub hosts_objects: u64,
    /// Bytes saved by the middlebox.
    pub middlebox: u64,
    /// Further bytes saved by objects, next to the middlebox.
    pub middlebox_objects: u64,
}

impl DirectionHosts {
    /// Savings of caches at the hosts as a share of the middlebox's. `None` if the middlebox saves
    /// nothing.
    pub fn hosts_share(&self) -> Option<f64> {
        (self.middlebox > 0).then(|| self.hosts as f64 / self.middlebox as f64)
    }
}

impl Hosts {
    fn compute(mut self) -> HostSavings {
        let extra = &mut self.extra;
        self.objects.close_until(
            i64::MAX,
            self.shared_cache,
            &mut |direction: Direction, gains: [u64; 2]| {
                for (sum, gain) in extra[direction.index()].iter_mut().zip(gains) {
                    *sum += gain;
                }
            },
        );
        let (hosts, shared) = (self.pairs.tally(), self.shared.tally());
        let of = |direction: Direction| DirectionHosts {
            direction: direction.name(),
            wire: self.wire[direction.index()],
            hosts: hosts.of(direction),
            hosts_objects: self.extra[direction.index()][0],
            middlebox: shared.of(direction),
            middlebox_objects: self.extra[direction.index()][1],
        };
        let total = DirectionHosts {
            direction: TOTAL,
            wire: self.wire.iter().sum(),
            hosts: hosts.total(),
            hosts_objects: self.extra.iter().map(|extra| extra[0]).sum(),
            middlebox: shared.total(),
            middlebox_objects: self.extra.iter().map(|extra| extra[1]).sum(),
        };
        let mut directions: Vec<DirectionHosts> =
            Direction::ALL.map(of).into_iter().filter(|of| of.wire > 0).collect();
        if directions.len() < 2 {
            directions.clear();
        }
        let sweep_memory = self.sweep.memory();
        let (pair_sizes, sweep_notes) = self.sweep.compute();
        let mut pair_notes = self.pairs.notes();
        pair_notes.extend(sweep_notes);
        pair_notes.dedup();
        let (max_pairs, packets_without_memory) = self.sizes.left_out();
        HostSavings {
            total,
            directions,
            clients: self.sizes.largest(false),
            servers: self.sizes.largest(true),
            shared_cache: self.shared_cache,
            pair_sizes,
            pair_notes,
            max_pairs,
            packets_without_memory,
            objects_left_out: self.objects.left_out(),
            error: self.error.as_ref().map(ToString::to_string),
            memory: sweep_memory
                + self.pairs.memory()
                + self.shared.memory()
                + self.sizes.memory()
                + self.objects.memory(),
        }
    }
}

#[cfg(test)]
mod tests;
