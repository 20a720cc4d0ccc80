//! Results of an emulation.

use crate::{Measured, engine::Refusals};

/// Bytes without and with redundancy elimination.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// Without.
    pub before: u64,
    /// With, shims included.
    pub after: u64,
}

impl Traffic {
    /// 1 - after / before; 0 if there was nothing.
    pub fn reduction(&self) -> f64 {
        if self.before == 0 { 0.0 } else { 1.0 - self.after as f64 / self.before as f64 }
    }

    pub(super) fn count(&mut self, before: u64, after: u64) {
        self.before += before;
        self.after += after;
    }

    /// Both together.
    pub fn with(self, other: Traffic) -> Traffic {
        Traffic { before: self.before + other.before, after: self.after + other.after }
    }
}

/// Results of one ingress.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct IngressReport {
    /// Footprint of its packets: bytes times links that count ([`crate::Instance::counted`]).
    pub footprint: Traffic,
    /// Packets that entered.
    pub packets: u64,
    /// Packets that it stored.
    pub stored: u64,
    /// Matches encoded.
    pub matches: u64,
    /// Bytes that they stood for.
    pub matched_bytes: u64,
    /// Bytes of shims, as they left the ingress.
    pub shim_bytes: u64,
    /// Matches not used, and why.
    pub refusals: Refusals,
    /// Packets stored under the name of one that was in the store.
    pub collisions: u64,
    /// Bytes of memory of the table of fingerprints. None (0) for hop-by-hop.
    pub table_bytes: u64,
    /// Fraction by which the plan expects to reduce the footprint, by its own formulas, profile and
    /// volumes. None for hop-by-hop, and if none of its links count.
    pub expected: Option<f64>,
}

/// Results of one device.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct DeviceReport {
    /// Packets cached.
    pub cached: u64,
    /// Matches decoded.
    pub decoded: u64,
    /// Bytes decoded.
    pub decoded_bytes: u64,
    /// Most operations (packets cached, matches decoded) in an epoch.
    pub most_operations: u64,
    /// Operations per epoch on average.
    pub mean_operations: f64,
    /// L: operations per epoch that it can do.
    pub limit: f64,
    /// Operations per epoch that the plan expects. None for hop-by-hop.
    pub expected: Option<f64>,
    /// Epochs in which it had more operations than it can do.
    pub overloaded: u64,
    /// Bytes in the cache at the end, headers included.
    pub used: u64,
    /// Most bytes in the cache.
    pub most_used: u64,
    /// M: bytes of the cache.
    pub memory: f64,
    /// Packets in the cache at the end.
    pub packets: u64,
}

/// An epoch in which packets entered.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct EpochReport {
    /// Its number from the beginning of the run.
    pub epoch: u64,
    /// Packets that entered.
    pub packets: u64,
    /// Footprint: bytes times links.
    pub footprint: Traffic,
    /// Matches encoded.
    pub matches: u64,
    /// Matches not used because of overload.
    pub overloaded: u64,
    /// Packets cached, by all devices.
    pub cached: u64,
    /// Matches decoded, by all devices.
    pub decoded: u64,
    /// Most operations of a device, as a share of its limit.
    pub busiest: f64,
    /// Packets that could not be decoded.
    pub undecodable: u64,
    /// Footprint of sending again, once and plain, what was lost (before, and after), and what could
    /// not be decoded (after). With `footprint`, what it costs to deliver the packets.
    pub resent: Traffic,
}

/// Results of a run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Report {
    /// Packets that entered.
    pub packets: u64,
    /// Their bytes, headers included.
    pub bytes: u64,
    /// Footprint: bytes times links.
    pub footprint: Traffic,
    /// Bytes, per link of the network.
    pub links: Vec<Traffic>,
    /// Per ingress of the instance.
    pub ingresses: Vec<IngressReport>,
    /// Per device of the instance.
    pub devices: Vec<DeviceReport>,
    /// In order of time; epochs without packets are left out.
    pub epochs: Vec<EpochReport>,
    /// Packets that left the network with the content they entered with.
    pub delivered: u64,
    /// Packets lost on links.
    pub lost: u64,
    /// Footprint of sending again, as in [`EpochReport::resent`].
    pub resent: Traffic,
    /// Packets dropped because a match could not be decoded.
    pub undecodable: u64,
    /// Packets dropped because the decoded payload did not have the shim's checksum.
    pub damaged: u64,
    /// Packets stored under the name of one that was in the same store.
    pub collisions: u64,
    /// Matches not used, and why, over all ingresses.
    pub refusals: Refusals,
    /// Number of rollouts of new manifests.
    pub updates: u64,
    /// Matches per epoch as ingresses found them: the profile for the next plan, see
    /// [`super::Observed`].
    pub profile: Measured,
    /// Footprint reduction that the plan expects. None for hop-by-hop.
    pub expected: Option<f64>,
}
