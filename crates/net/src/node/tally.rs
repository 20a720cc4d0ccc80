//! What a node carries, for its controller.

use super::record::{OVERHEAD, PathPacket};
use oncewire_plan::control::Carried;

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
    /// The record of a packet for a neighbor, which counts: its bits and its body.
    pub(super) fn record(
        &mut self,
        to: usize,
        path: u32,
        packet: &PathPacket<'_>,
    ) -> (u8, Vec<u8>) {
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
        (bits, body)
    }

    /// What was sent since the last time, `now` nanoseconds since the start, to these neighbors, and
    /// what was `done` since then: operations and times that there were too many, of all ever.
    pub(super) fn take(&mut self, now: u64, neighbors: &[usize], done: (u64, u64)) -> Carried {
        let (operations, overloaded) = done;
        let links = neighbors.iter().enumerate().map(|(at, &node)| {
            let (sent, whole) = self.links.get(at).copied().unwrap_or_default();
            (node as u32, sent, whole)
        });
        let carried = Carried {
            nanoseconds: now.saturating_sub(self.since),
            links: links.collect(),
            operations: operations - self.operations,
            overloaded: overloaded - self.overloaded,
            ..Carried::default()
        };
        *self = Tally { links: Vec::new(), since: now, operations, overloaded };
        carried
    }
}
