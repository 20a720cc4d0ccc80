//! Where paths pass and begin at a node, and what all nodes agree on.

use oncewire_plan::DeviceId;
use oncewire_plan::engine::{Finding, Ingress, Routes, Rules, SentPackets};
use std::collections::{BTreeSet, HashMap};
use std::time::Duration;

/// Parameters that all nodes of a network share.
#[derive(Clone, Debug)]
pub struct NodeSettings {
    /// The network's secret: the same at all nodes.
    pub seed: u64,
    /// How ingresses find matches.
    pub finding: Finding,
    /// What ingresses and devices agree on.
    pub rules: Rules,
    /// Time after which a packet that was lost has been sent again.
    pub round_trip: Duration,
    /// Length of a retention epoch.
    pub epoch: Duration,
    /// Operations per second that this node can do: caching a packet or decoding a match is one.
    pub operations: f64,
}

impl Default for NodeSettings {
    fn default() -> NodeSettings {
        NodeSettings {
            seed: 0,
            finding: Finding::default(),
            rules: Rules::default(),
            round_trip: Duration::from_millis(200),
            epoch: Duration::from_secs(10),
            operations: f64::INFINITY,
        }
    }
}

/// Where a path passes here.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place {
    /// The neighbors before and after, by their numbers.
    pub(super) before: Option<usize>,
    pub(super) after: Option<usize>,
    /// The device here that may cache and decode its packets.
    pub(super) device: Option<DeviceId>,
    /// The FIFO queue of its packets there.
    pub(super) queue: u32,
    /// The node where it begins.
    pub(super) from: usize,
}

/// Bytes of packets that an ingress keeps to send them again.
pub(super) const KEPT: usize = 4 << 20;

/// What begins here.
pub(super) struct Entrance {
    pub(super) ingress: Ingress,
    pub(super) sent: SentPackets,
    pub(super) routes: Routes,
    /// The path to each node.
    pub(super) paths: HashMap<usize, u32>,
    /// The devices at each node that packets from here may be cached at.
    pub(super) devices: HashMap<usize, BTreeSet<DeviceId>>,
}
