//! The problem of one ingress, in parts that have nothing to do with each other.
//!
//! Every path from an ingress to what lies behind a cut vertex passes it. So what enters and leaves
//! a block (a biconnected component) of the map is fixed, whatever the routes inside: all egresses
//! behind a node of the block are one egress of the block, with the union of their classes. A
//! bridge is a block with a single path. Splitting is exact for trees, and for bounds of what trees
//! cost: a route through the network is one through each block on the way, and costs add up. (Two
//! egresses behind a cut vertex that come to it by different ways could do better in theory; no
//! tree, and no forwarding by destination prefix at routers, has such routes.)

use std::collections::HashMap;

use xxhash_rust::xxh3::Xxh3;

use crate::{
    Error, LinkId, Network, NodeId,
    error::{RouteError, quote},
    network::Role,
    ra::{Class, Slice},
    routing::{dijkstra::Graph, ranks},
};

/// Content that two egresses share.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Pair {
    pub first: u16,
    pub second: u16,
    pub bytes: f64,
}

/// One of the pairs of an egress.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Shared {
    pub other: u16,
    /// Index of the pair.
    pub pair: u32,
    pub bytes: f64,
}

/// Content that three or more egresses share.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Set {
    pub egresses: Box<[u16]>,
    pub bytes: f64,
}

/// What a block's egresses get. Their numbers are places in [`Block::egresses`].
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Content {
    /// Bytes for this egress alone.
    pub own: Vec<f64>,
    pub pairs: Vec<Pair>,
    pub sets: Vec<Set>,
    /// Bytes of all copies.
    pub copies: Vec<f64>,
    /// Bytes of one copy of all that an egress gets.
    pub unique: Vec<f64>,
    /// Pairs of egress j: `shared[first_shared[j]..first_shared[j + 1]]`.
    pub shared: Vec<Shared>,
    first_shared: Vec<u32>,
    /// Sets of egress j: `in_sets[first_set[j]..first_set[j + 1]]`.
    in_sets: Vec<u32>,
    first_set: Vec<u32>,
}

impl Content {
    pub(crate) fn shared(&self, egress: usize) -> &[Shared] {
        &self.shared[self.first_shared[egress] as usize..self.first_shared[egress + 1] as usize]
    }

    pub(crate) fn sets_of(&self, egress: usize) -> &[u32] {
        &self.in_sets[self.first_set[egress] as usize..self.first_set[egress + 1] as usize]
    }

    fn new(
        egresses: usize,
        own: Vec<f64>,
        copies: Vec<f64>,
        pairs: Vec<(u16, u16, f64)>,
        sets: Vec<(Box<[u16]>, f64)>,
    ) -> Self {
        let mut content = Self { unique: own.clone(), own, copies, ..Self::default() };
        // Sorted by a stable sort and summed in that order: the same input gives the same sums.
        let mut pairs = pairs;
        pairs.sort_by_key(|&(first, second, _)| (first, second));
        for (first, second, bytes) in pairs {
            match content.pairs.last_mut() {
                Some(last) if (last.first, last.second) == (first, second) => last.bytes += bytes,
                _ => content.pairs.push(Pair { first, second, bytes }),
            }
        }
        let mut sets = sets;
        sets.sort_by(|one, other| one.0.cmp(&other.0));
        for (egresses, bytes) in sets {
            match content.sets.last_mut() {
                Some(last) if last.egresses == egresses => last.bytes += bytes,
                _ => content.sets.push(Set { egresses, bytes }),
            }
        }
        let mut shared = vec![Vec::new(); egresses];
        for (&Pair { first, second, bytes }, pair) in content.pairs.iter().zip(0..) {
            shared[first as usize].push(Shared { other: second, pair, bytes });
            shared[second as usize].push(Shared { other: first, pair, bytes });
            content.unique[first as usize] += bytes;
            content.unique[second as usize] += bytes;
        }
        let mut in_sets = vec![Vec::new(); egresses];
        for (set, number) in content.sets.iter().zip(0_u32..) {
            for &egress in &set.egresses {
                in_sets[egress as usize].push(number);
                content.unique[egress as usize] += set.bytes;
            }
        }
        content.first_shared = offsets(&shared);
        content.shared = shared.concat();
        content.first_set = offsets(&in_sets);
        content.in_sets = in_sets.concat();
        content
    }
}

fn offsets<T>(lists: &[Vec<T>]) -> Vec<u32> {
    let mut offsets = vec![0];
    let mut sum = 0;
    for list in lists {
        sum += list.len() as u32;
        offsets.push(sum);
    }
    offsets
}

/// A part of an ingress's problem. Its nodes and links have numbers of their own, in the order of
/// the nodes' ids.
pub(crate) struct Block {
    pub graph: Graph,
    /// Number in the network, per link.
    pub links: Vec<LinkId>,
    /// Where traffic comes in.
    pub entry: NodeId,
    /// Where it goes.
    pub egresses: Vec<NodeId>,
    pub content: Content,
}

/// Paths of a block: its links, per egress.
pub(crate) type Paths = Vec<Vec<LinkId>>;

/// The problem of one ingress.
pub(crate) struct Problem {
    pub ingress: NodeId,
    pub blocks: Vec<Block>,
    /// Egresses in the network, sorted.
    pub egresses: Vec<NodeId>,
    /// Per node of the network that is reached: its block, its place among the egresses there (or
    /// [`NONE`]), and the node where that block begins.
    places: Vec<Option<Place>>,
}

#[derive(Clone, Copy)]
struct Place {
    block: u32,
    egress: u32,
    entry: NodeId,
}

/// No egress.
const NONE: u32 = u32::MAX;

/// The links of each block.
fn links_of(
    network: &Network,
    ingress: NodeId,
    usable: &[LinkId],
    (of_node, entries): (&[u32], &[NodeId]),
) -> Vec<Vec<LinkId>> {
    let mut links_of: Vec<Vec<LinkId>> = vec![Vec::new(); entries.len()];
    for &link in usable {
        let (from, to) = (network.links[link].from, network.links[link].to);
        let (block, other) = (of_node[from], of_node[to]);
        if other == NONE || (block == NONE && from != ingress) {
            continue;
        }
        // In the block of the farther end, unless both are in one.
        let block = if block == other || entries[other as usize] == from { other } else { block };
        links_of[block as usize].push(link);
    }
    links_of
}

impl Problem {
    /// Splits the problem of an ingress.
    ///
    /// # Errors
    /// An egress that no path leads to; more than 65,535 egresses.
    // More than 100 lines: blocks, their members, links and egresses are numbered together.
    pub(crate) fn new(
        network: &Network,
        ingress: NodeId,
        classes: &[Class],
    ) -> Result<Self, Error> {
        let nodes = network.nodes.len();
        let mut is_egress = vec![false; nodes];
        for class in classes {
            class.egresses.iter().for_each(|&egress| is_egress[egress] = true);
        }
        let egresses: Vec<NodeId> = NodeId::first(nodes).filter(|&node| is_egress[node]).collect();
        if egresses.len() > usize::from(u16::MAX) {
            return Err(RouteError::TooManyEgresses {
                egresses: egresses.len(),
                most: u16::MAX.into(),
            }
            .into());
        }
        // Nothing passes through an access router, or through the ingress again.
        let usable: Vec<LinkId> = LinkId::first(network.links.len())
            .filter(|&link| {
                let link = &network.links[link];
                let leaves = link.from == ingress || network.nodes[link.from].role != Role::Access;
                leaves && link.to != ingress && link.from != link.to
            })
            .collect();
        let (of_node, entries) = blocks(network, ingress, &usable);
        let unreachable = |egress: NodeId| {
            Error::from(RouteError::Unreachable {
                ingress: quote(&network.nodes[ingress].id),
                egress: quote(&network.nodes[egress].id),
            })
        };
        if let Some(&egress) = egresses.iter().find(|&&egress| of_node[egress] == NONE) {
            return Err(unreachable(egress));
        }
        // Egresses of the blocks: where traffic leaves, and nodes that lead to it.
        let mut leads = vec![false; nodes];
        for &egress in &egresses {
            let mut at = egress;
            while at != ingress && !leads[at] {
                leads[at] = true;
                at = entries[of_node[at] as usize];
            }
        }
        let rank = ranks(network);
        let mut by_rank: Vec<NodeId> = NodeId::first(nodes).collect();
        by_rank.sort_by_key(|&node| rank[node]);
        let mut members: Vec<Vec<NodeId>> = vec![Vec::new(); entries.len()];
        for &node in &by_rank {
            if of_node[node] != NONE {
                members[of_node[node] as usize].push(node);
            }
        }
        let links_of = links_of(network, ingress, &usable, (&of_node, &entries));
        // Blocks that lead nowhere are left out.
        let mut number = vec![NONE; entries.len()];
        let mut places: Vec<Option<Place>> = vec![None; nodes];
        let mut parts = Vec::new();
        for (at, (members, mut links)) in members.iter().zip(links_of).enumerate() {
            if !members.iter().any(|&node| leads[node]) {
                continue;
            }
            number[at] = parts.len() as u32;
            let entry = entries[at];
            let mut local: Vec<NodeId> = members.clone();
            let place = local.partition_point(|&node| rank[node] < rank[entry]);
            local.insert(place, entry);
            let in_block = |node: NodeId| {
                NodeId::new(local.partition_point(|&other| rank[other] < rank[node]))
            };
            links.sort_by(|&one, &other| {
                let key = |link: LinkId| {
                    let link = &network.links[link];
                    (rank[link.from], rank[link.to])
                };
                let latency = |link: LinkId| network.links[link].latency;
                key(one)
                    .cmp(&key(other))
                    .then(latency(one).total_cmp(&latency(other)))
                    .then(one.cmp(&other))
            });
            let ends = links
                .iter()
                .map(|&link| {
                    let link = &network.links[link];
                    (in_block(link.from), in_block(link.to))
                })
                .collect();
            let mut egresses = Vec::new();
            for &node in members {
                let egress = if leads[node] {
                    egresses.push(in_block(node));
                    egresses.len() as u32 - 1
                } else {
                    NONE
                };
                places[node] = Some(Place { block: parts.len() as u32, egress, entry });
            }
            parts.push(Block {
                graph: Graph::new(local.len(), ends),
                links,
                entry: in_block(entry),
                egresses,
                content: Content::default(),
            });
        }
        let mut problem = Self { ingress, blocks: parts, egresses, places };
        problem.project(classes);
        match problem.unreached() {
            Some(egress) => Err(unreachable(egress)),
            None => Ok(problem),
        }
    }

    /// An egress that no path leads to.
    fn unreached(&self) -> Option<NodeId> {
        self.blocks.iter().find_map(|block| {
            let reached = reach(&block.graph, block.entry);
            let at = block.egresses.iter().position(|&egress| !reached[egress])?;
            let is_behind = |&&egress: &&NodeId| {
                self.way(egress)
                    .any(|place| std::ptr::eq(&self.blocks[place.0], block) && place.1 == at)
            };
            Some(self.egresses.iter().find(is_behind).copied().unwrap_or(self.ingress))
        })
    }

    /// A hash of what egresses get.
    pub(crate) fn content_hash(&self) -> u64 {
        let mut hash = Xxh3::new();
        for block in &self.blocks {
            let Content { own, pairs, sets, copies, .. } = &block.content;
            for number in own.iter().chain(copies) {
                hash.update(&number.to_bits().to_le_bytes());
            }
            for pair in pairs {
                hash.update(&pair.first.to_le_bytes());
                hash.update(&pair.second.to_le_bytes());
                hash.update(&pair.bytes.to_bits().to_le_bytes());
            }
            for set in sets {
                set.egresses.iter().for_each(|egress| hash.update(&egress.to_le_bytes()));
                hash.update(&set.bytes.to_bits().to_le_bytes());
            }
        }
        hash.digest()
    }

    /// Block and egress there, from an egress of the network back to the ingress.
    pub(crate) fn way(&self, egress: NodeId) -> impl Iterator<Item = (usize, usize)> + '_ {
        let mut at = egress;
        std::iter::from_fn(move || {
            if at == self.ingress {
                return None;
            }
            let place = self.places[at]?;
            at = place.entry;
            Some((place.block as usize, place.egress as usize))
        })
    }

    /// The path to an egress, in links of the network.
    pub(crate) fn path(&self, paths: &[Paths], egress: NodeId) -> Vec<LinkId> {
        let way: Vec<(usize, usize)> = self.way(egress).collect();
        let mut links = Vec::new();
        for &(block, egress) in way.iter().rev() {
            links.extend(paths[block][egress].iter().map(|&link| self.blocks[block].links[link]));
        }
        links
    }

    /// The same as [`Problem::path`], back: the paths of each block. None if they are no paths of
    /// this problem, or not all.
    pub(crate) fn paths(&self, slice: &Slice) -> Option<Vec<Paths>> {
        let mut of_link: HashMap<LinkId, (usize, LinkId)> = HashMap::new();
        for (at, block) in self.blocks.iter().enumerate() {
            of_link.extend(
                block.links.iter().zip(LinkId::all()).map(|(&link, number)| (link, (at, number))),
            );
        }
        let mut found: Vec<Vec<Option<Vec<LinkId>>>> =
            self.blocks.iter().map(|block| vec![None; block.egresses.len()]).collect();
        for &egress in &self.egresses {
            let path = slice.paths.binary_search_by_key(&egress, |path| path.0).ok()?;
            let mut parts: HashMap<usize, Vec<LinkId>> = HashMap::new();
            for link in &slice.paths[path].1 {
                let &(block, number) = of_link.get(link)?;
                parts.entry(block).or_default().push(number);
            }
            for (block, at) in self.way(egress) {
                let part = parts.remove(&block)?;
                let Block { graph, entry, egresses, .. } = &self.blocks[block];
                let mut node = *entry;
                for &link in &part {
                    if graph.ends[link].0 != node {
                        return None;
                    }
                    node = graph.ends[link].1;
                }
                let known = found[block][at].get_or_insert_with(|| part.clone());
                if node != egresses[at] || *known != part {
                    return None;
                }
            }
            if !parts.is_empty() {
                return None;
            }
        }
        found.into_iter().map(|paths| paths.into_iter().collect()).collect()
    }

    /// Gives each block its part of the classes.
    fn project(&mut self, classes: &[Class]) {
        let count = |block: &Block| block.egresses.len();
        let mut own: Vec<Vec<f64>> =
            self.blocks.iter().map(|block| vec![0.0; count(block)]).collect();
        let mut copies = own.clone();
        let mut pairs: Vec<Vec<(u16, u16, f64)>> = vec![Vec::new(); self.blocks.len()];
        let mut sets: Vec<Vec<(Box<[u16]>, f64)>> = vec![Vec::new(); self.blocks.len()];
        let mut touched: Vec<(usize, usize)> = Vec::new();
        for class in classes {
            touched.clear();
            for (&egress, &times) in class.egresses.iter().zip(&class.copies) {
                for (block, at) in self.way(egress) {
                    copies[block][at] += class.bytes * times;
                    touched.push((block, at));
                }
            }
            touched.sort_unstable();
            touched.dedup();
            for group in touched.chunk_by(|one, other| one.0 == other.0) {
                let block = group[0].0;
                match *group {
                    [(_, at)] => own[block][at] += class.bytes,
                    [(_, one), (_, other)] => {
                        pairs[block].push((one as u16, other as u16, class.bytes));
                    }
                    _ => sets[block]
                        .push((group.iter().map(|&(_, at)| at as u16).collect(), class.bytes)),
                }
            }
        }
        let parts = own.into_iter().zip(copies).zip(pairs).zip(sets);
        for (block, (((own, copies), pairs), sets)) in self.blocks.iter_mut().zip(parts) {
            block.content = Content::new(block.egresses.len(), own, copies, pairs, sets);
        }
    }
}

/// Nodes that links lead to.
fn reach(graph: &Graph, from: NodeId) -> Vec<bool> {
    let mut reached = vec![false; graph.nodes()];
    reached[from] = true;
    let mut left = vec![from];
    while let Some(node) = left.pop() {
        for &link in graph.out(node) {
            let to = graph.ends[link].1;
            if !reached[to] {
                reached[to] = true;
                left.push(to);
            }
        }
    }
    reached
}

/// Blocks of the undirected map as seen from a root: of each node but the root, the block by which
/// it is reached, or [`NONE`]; of each block, the node where it begins. (Hopcroft and Tarjan,
/// *Efficient algorithms for graph manipulation*, CACM 16(6), 1973; without recursion.)
fn blocks(network: &Network, root: NodeId, usable: &[LinkId]) -> (Vec<u32>, Vec<NodeId>) {
    let nodes = network.nodes.len();
    let mut neighbors: Vec<Vec<NodeId>> = vec![Vec::new(); nodes];
    for &link in usable {
        let link = &network.links[link];
        neighbors[link.from].push(link.to);
        neighbors[link.to].push(link.from);
    }
    let mut order = vec![NONE; nodes];
    let mut low = vec![NONE; nodes];
    let mut of_node = vec![NONE; nodes];
    let mut entries = Vec::new();
    let mut next = 1;
    let mut open: Vec<NodeId> = Vec::new();
    // Node, the one it was reached from, and its next neighbor to look at.
    let mut stack: Vec<(NodeId, NodeId, usize)> = vec![(root, root, 0)];
    (order[root], low[root]) = (0, 0);
    while let Some(&mut (node, parent, ref mut at)) = stack.last_mut() {
        if let Some(&neighbor) = neighbors[node].get(*at) {
            *at += 1;
            if order[neighbor] == NONE {
                (order[neighbor], low[neighbor]) = (next, next);
                next += 1;
                open.push(neighbor);
                stack.push((neighbor, node, 0));
            } else {
                low[node] = low[node].min(order[neighbor]);
            }
            continue;
        }
        stack.pop();
        if node == root {
            break;
        }
        if low[node] >= order[parent] {
            while let Some(member) = open.pop() {
                of_node[member] = entries.len() as u32;
                if member == node {
                    break;
                }
            }
            entries.push(parent);
        } else {
            low[parent] = low[parent].min(low[node]);
        }
    }
    (of_node, entries)
}
