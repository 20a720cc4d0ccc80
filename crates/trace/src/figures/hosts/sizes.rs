//! Memory of the caches at end hosts (EndRE section 8.2.2).

use crate::algorithm::service_limit;
use crate::batch::Packet;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, HashSet};
use std::net::IpAddr;

/// Nanoseconds after which the cache of an idle pair is paged out to disk (EndRE section 8.2.2: ten
/// hours).
const PAGED_OUT: i64 = 10 * 3600 * 1_000_000_000;
/// Simulates the memory that the caches of each node take over time. Sizes only, no content.
pub(super) struct Sizes {
    pairs: HashMap<(IpAddr, IpAddr), PairSize>,
    pub(super) nodes: HashMap<IpAddr, NodeSize>,
    servers: HashSet<IpAddr>,
    /// Pairs in memory, by a time at which each was in use; checked again when it would be paged
    /// out.
    active: BinaryHeap<Reverse<(i64, (IpAddr, IpAddr))>>,
    now: i64,
    max_pairs: usize,
    left_out: u64,
}

#[derive(Default)]
struct PairSize {
    seen: u64,
    limit: u64,
    last: i64,
    /// Bytes currently counted at both ends; 0 while on disk.
    counted: u64,
    active: bool,
}

#[derive(Default)]
pub(super) struct NodeSize {
    pub(super) now: u64,
    pub(super) most: u64,
}

/// Memory in bytes of a pair and its share of nodes, with map overhead.
const PAIR_BYTES: u64 = 300;

impl Sizes {
    pub(super) fn new(memory: u64) -> Sizes {
        Sizes {
            pairs: HashMap::new(),
            nodes: HashMap::new(),
            servers: HashSet::new(),
            active: BinaryHeap::new(),
            now: i64::MIN,
            max_pairs: (memory / PAIR_BYTES).max(1) as usize,
            left_out: 0,
        }
    }

    pub(super) fn packet(&mut self, packet: &Packet) {
        let Some(flow) = &packet.flow else { return };
        self.now = self.now.max(packet.time);
        self.page_out();
        let key = (flow.source, flow.destination);
        if self.pairs.len() >= self.max_pairs && !self.pairs.contains_key(&key) {
            self.left_out += 1;
            return;
        }
        if flow.source_port == packet.service {
            self.servers.insert(flow.source);
        }
        let pair = self.pairs.entry(key).or_default();
        pair.seen += u64::from(packet.len);
        pair.limit = pair.limit.max(service_limit(packet));
        pair.last = self.now;
        let counted = pair.seen.min(pair.limit);
        let more = counted - pair.counted;
        pair.counted = counted;
        if !pair.active {
            pair.active = true;
            self.active.push(Reverse((self.now, key)));
        }
        for node in [key.0, key.1] {
            let node = self.nodes.entry(node).or_default();
            node.now += more;
            node.most = node.most.max(node.now);
        }
    }

    fn page_out(&mut self) {
        while let Some(&Reverse((time, key))) = self.active.peek()
            && time.saturating_add(PAGED_OUT) <= self.now
        {
            self.active.pop();
            let pair = self.pairs.get_mut(&key).expect("active pairs are kept");
            if pair.last.saturating_add(PAGED_OUT) > self.now {
                self.active.push(Reverse((pair.last, key)));
                continue;
            }
            pair.active = false;
            let gone = std::mem::take(&mut pair.counted);
            for node in [key.0, key.1] {
                self.nodes.get_mut(&node).expect("both ends of a pair are nodes").now -= gone;
            }
        }
    }

    /// Largest memory of each node in bytes, ascending: of clients or of servers.
    pub(super) fn largest(&self, servers: bool) -> Vec<u64> {
        let nodes =
            self.nodes.iter().filter(|(address, _)| self.servers.contains(address) == servers);
        let mut sizes: Vec<u64> = nodes.map(|(_, node)| node.most).collect();
        sizes.sort_unstable();
        sizes
    }

    /// Most pairs simulated, and packets of further pairs, which are left out.
    pub(super) fn left_out(&self) -> (usize, u64) {
        (self.max_pairs, self.left_out)
    }

    pub(super) fn memory(&self) -> u64 {
        self.pairs.len() as u64 * PAIR_BYTES
    }
}
