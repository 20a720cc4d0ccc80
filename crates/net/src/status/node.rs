//! The state of a node of a network.

use super::{FORMAT, LinkStatus, serial};
use crate::node::{MemberStatus, NodeCounters};
use serde::{Serialize, Serializer};

/// A node.
#[derive(Clone, Debug, PartialEq)]
pub struct NodeStatus {
    /// Its name in the topology.
    pub name: String,
    /// Version of the plan that it carries out.
    pub plan_version: u64,
    /// Version of the plan that comes next, while it is being brought in.
    pub next_plan: Option<u64>,
    /// Whether all nodes on its paths know that it uses its plan, and no other is coming.
    pub settled: bool,
    /// Names of its neighbors: the peers of its hops, in their order.
    pub neighbors: Vec<String>,
    /// Bytes that it caches for paths of other nodes.
    pub cached_bytes: u64,
    /// Packets that it caches.
    pub cached_packets: u64,
    /// What it has carried since the start.
    pub carried: NodeCounters,
    /// Its hops.
    pub hops: LinkStatus,
    /// Its controller, if it has one.
    pub controller: Option<MemberStatus>,
}

#[derive(Serialize)]
struct Keys<'a> {
    format: u64,
    role: &'static str,
    up: bool,
    name: &'a str,
    plan_version: u64,
    next_plan: Option<u64>,
    settled: bool,
    neighbors: &'a [String],
    cached_bytes: u64,
    cached_packets: u64,
    #[serde(with = "serial::named")]
    carried: NodeCounters,
    controller: Option<Controller<'a>>,
    #[serde(flatten)]
    hops: &'a LinkStatus,
}

#[derive(Serialize)]
struct Controller<'a> {
    address: &'a str,
    connected: bool,
    last_failure: Option<&'a str>,
}

impl Serialize for NodeStatus {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        Keys {
            format: FORMAT,
            role: "node",
            up: self.hops.connected() == self.hops.peers.len(),
            name: &self.name,
            plan_version: self.plan_version,
            next_plan: self.next_plan,
            settled: self.settled,
            neighbors: &self.neighbors,
            cached_bytes: self.cached_bytes,
            cached_packets: self.cached_packets,
            carried: self.carried,
            controller: self.controller.as_ref().map(|one| Controller {
                address: &one.address,
                connected: one.connected,
                last_failure: one.last_failure.as_deref(),
            }),
            hops: &self.hops,
        }
        .serialize(serializer)
    }
}
