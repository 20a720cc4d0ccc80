//! Dijkstra's search over lengths that the caller owns, its memory kept from one search to the
//! next.

use std::{cmp::Reverse, collections::BinaryHeap};

use crate::{LinkId, NodeId};

/// Sum of lengths, number of links. The number makes every link count, however short it is.
#[derive(Clone, Copy, PartialEq)]
pub(crate) struct Length(pub f64, pub u32);

impl Eq for Length {}

impl Ord for Length {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.0.total_cmp(&other.0).then(self.1.cmp(&other.1))
    }
}

impl PartialOrd for Length {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

/// Where no link leads.
pub(crate) const NO_LINK: LinkId = LinkId(u32::MAX);
const FAR: Length = Length(f64::INFINITY, u32::MAX);

/// Directed links by the node that they leave.
pub(crate) struct Graph {
    /// Links of node n are `out[first[n]..first[n + 1]]`, in the order of their numbers.
    first: Vec<u32>,
    out: Vec<LinkId>,
    /// Tail and head of each link.
    pub ends: Vec<(NodeId, NodeId)>,
}

impl Graph {
    pub(crate) fn new(nodes: usize, ends: Vec<(NodeId, NodeId)>) -> Self {
        let mut first = vec![0; nodes + 1];
        ends.iter().for_each(|(from, _)| first[from.index() + 1] += 1);
        for node in 0..nodes {
            first[node + 1] += first[node];
        }
        let mut out: Vec<LinkId> = LinkId::first(ends.len()).collect();
        out.sort_by_key(|&link| ends[link].0);
        Self { first, out, ends }
    }

    pub(crate) fn nodes(&self) -> usize {
        self.first.len() - 1
    }

    /// Links that leave a node.
    pub(crate) fn out(&self, node: NodeId) -> &[LinkId] {
        &self.out[self.first[node] as usize..self.first[node.index() + 1] as usize]
    }
}

#[cfg(test)]
thread_local! {
    /// Searches of this thread: a measure of work that does not depend on the machine.
    pub(crate) static RUNS: std::cell::Cell<u64> = const { std::cell::Cell::new(0) };
}

/// A search from one node.
pub(crate) struct Search {
    length: Vec<Length>,
    /// Link by which the shortest path comes to each node.
    by: Vec<LinkId>,
    heap: BinaryHeap<Reverse<(Length, NodeId)>>,
}

impl Search {
    pub(crate) fn new(graph: &Graph) -> Self {
        let nodes = graph.nodes();
        Self { length: vec![FAR; nodes], by: vec![NO_LINK; nodes], heap: BinaryHeap::new() }
    }

    /// Finds the shortest paths from a node, with `lengths` per link, at least 0. Among paths as
    /// long, those with the fewest links; among those, the ones whose last link comes first in the
    /// order `before`. Only nodes that `passes` accepts, and `from`, are passed through.
    pub(crate) fn run(
        &mut self,
        graph: &Graph,
        from: NodeId,
        lengths: impl Fn(LinkId) -> f64,
        passes: impl Fn(NodeId) -> bool,
        before: impl Fn(LinkId, LinkId) -> bool,
    ) {
        #[cfg(test)]
        RUNS.with(|runs| runs.set(runs.get() + 1));
        self.length.fill(FAR);
        self.by.fill(NO_LINK);
        self.length[from] = Length(0.0, 0);
        self.heap.push(Reverse((Length(0.0, 0), from)));
        while let Some(Reverse((length, node))) = self.heap.pop() {
            if length != self.length[node] || !(node == from || passes(node)) {
                continue;
            }
            for &link in graph.out(node) {
                let to = graph.ends[link].1;
                let through = Length(length.0 + lengths(link), length.1 + 1);
                // A node is farther than every predecessor on its shortest paths, so all of those
                // have been processed before it is, and its predecessor is final.
                if through < self.length[to] {
                    self.length[to] = through;
                    self.by[to] = link;
                    self.heap.push(Reverse((through, to)));
                } else if through == self.length[to]
                    && self.by[to] != NO_LINK
                    && before(link, self.by[to])
                {
                    self.by[to] = link;
                }
            }
        }
    }

    /// Distance to a node; infinite if no path leads there.
    pub(crate) fn distance(&self, to: NodeId) -> f64 {
        self.length[to].0
    }

    /// Links of the path to a node, in order.
    pub(crate) fn links_to(&self, graph: &Graph, to: NodeId) -> Option<Vec<LinkId>> {
        let length = self.length[to];
        if length == FAR {
            return None;
        }
        let mut links = vec![NO_LINK; length.1 as usize];
        let mut at = to;
        for place in links.iter_mut().rev() {
            *place = self.by[at];
            at = graph.ends[*place].0;
        }
        Some(links)
    }
}
