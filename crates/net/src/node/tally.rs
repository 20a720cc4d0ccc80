//! What a node carries, for its controller.

use super::machine::{Machine, Step};
use super::record::{OVERHEAD, PathPacket};
use oncewire_plan::control::Carried;
use oncewire_session::link::NodeKind;

/// Bytes that were sent since they were last asked for.
#[derive(Default)]
pub(super) struct Tally {
    /// To each neighbor, as packets with their shims, and without elimination.
    links: Vec<(u64, u64)>,
    /// When they were asked for.
    since: u64,
    /// Operations until then, and times that these were too many.
    operations: u64,
    overloaded: u64,
}

impl Tally {
    /// The record of a packet for a neighbor, which counts.
    pub(super) fn send(&mut self, to: usize, path: u32, packet: &PathPacket<'_>) -> Step {
        let PathPacket { shim, header, literals, encoded } = packet;
        let (rest, len) =
            (header.len() + literals.len(), shim.len() + header.len() + literals.len());
        if self.links.len() <= to {
            self.links.resize(to + 1, (0, 0));
        }
        self.links[to].0 += len as u64;
        self.links[to].1 += rest as u64 + u64::from(*encoded);
        let mut body = Vec::with_capacity(OVERHEAD + len);
        let bits = packet.write(path, &mut body);
        Step::Send { to, kind: NodeKind::Path, bits, body }
    }
}

impl Machine {
    /// What it has carried since the last time; `now` is in nanoseconds since the start.
    pub fn carried(&mut self, now: u64) -> Carried {
        let counters = &self.counters;
        let (operations, overloaded) = (counters.cached + counters.decoded, counters.overloaded);
        let sent = std::mem::take(&mut self.tally.links);
        let neighbors = self.network.neighbors(self.me).into_iter();
        let sum = |of: fn(&oncewire_plan::engine::Node) -> u64| self.devices.values().map(of).sum();
        let carried = Carried {
            nanoseconds: now.saturating_sub(self.tally.since),
            links: neighbors
                .enumerate()
                .map(|(at, node)| {
                    let (sent, whole) = sent.get(at).copied().unwrap_or_default();
                    (node as u32, sent, whole)
                })
                .collect(),
            cached: sum(|device| device.used().0),
            cache: sum(oncewire_plan::engine::Node::size),
            operations: operations - self.tally.operations,
            overloaded: overloaded - self.tally.overloaded,
        };
        self.tally = Tally { links: Vec::new(), since: now, operations, overloaded };
        carried
    }
}
