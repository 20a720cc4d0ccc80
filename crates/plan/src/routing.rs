//! Paths through a network: shortest ones, or given ones.

use std::{
    cmp::Reverse,
    collections::{BinaryHeap, HashMap},
};

use crate::{
    Error, Network, Watch,
    network::{Names, Role, compare_ids},
    path::Route,
    topology::quote,
};

/// More paths than this are refused: their links alone would fill gigabytes.
pub const MAX_PATHS: usize = 10_000_000;

/// More links on all paths together than this are refused: each takes some hundred bytes while a plan is made.
pub const MAX_PATH_LINKS: usize = 50_000_000;

/// An error if paths have more links in all than [`MAX_PATH_LINKS`].
pub(crate) fn check_path_links(links: usize) -> Result<(), Error> {
    if links <= MAX_PATH_LINKS {
        return Ok(());
    }
    Err(Error::Paths(format!(
        "the paths have more than {MAX_PATH_LINKS} links in all, too many to plan for: plan for PoPs, or for fewer of them"
    )))
}

/// Nodes where traffic enters and leaves: the access routers if there are any, else all that are not backbone.
pub fn endpoints(network: &Network) -> Vec<u32> {
    let with = |role: Role| -> Vec<u32> {
        network.nodes.iter().zip(0..).filter(|(node, _)| node.role == role).map(|(_, number)| number).collect()
    };
    let access = with(Role::Access);
    if access.is_empty() { with(Role::Any) } else { access }
}

/// All ordered pairs of endpoints that are in different PoPs, sorted.
///
/// # Errors
/// There are none, or more than [`MAX_PATHS`].
pub fn pairs(network: &Network) -> Result<Vec<(u32, u32)>, Error> {
    let ends = endpoints(network);
    let mut in_pop: HashMap<u32, usize> = HashMap::new();
    let pop = |node: u32| network.nodes[node as usize].pop;
    ends.iter().for_each(|&node| *in_pop.entry(pop(node)).or_default() += 1);
    let count: usize = in_pop.values().map(|&of_pop| of_pop.saturating_mul(ends.len() - of_pop)).fold(0, usize::saturating_add);
    if count == 0 {
        return Err(Error::Paths("traffic needs at least two PoPs that send and receive it".into()));
    }
    if count > MAX_PATHS {
        return Err(Error::Paths(format!(
            "{} endpoints make {count} paths; at most {MAX_PATHS} are possible: plan for PoPs, or for fewer of them",
            ends.len()
        )));
    }
    let mut pairs = Vec::with_capacity(count);
    for &from in &ends {
        pairs.extend(ends.iter().filter(|&&to| pop(from) != pop(to)).map(|&to| (from, to)));
    }
    Ok(pairs)
}

/// Shortest paths between all [`pairs`], with volumes of 0, sorted by `from` and `to`.
///
/// A path is the one with the lowest sum of weights; of those, one with the fewest links; of those, the one whose last but one node has the
/// smallest id ([`compare_ids`]), and so on back to the ingress. Nothing passes through access routers. The paths of an ingress form a tree, as each
/// node has one predecessor whatever the egress; and neither the order of nodes nor that of links matters.
///
/// # Errors
/// As [`pairs`]; a pair without a path; an interruption.
pub fn shortest_paths(network: &Network, watch: &dyn Watch) -> Result<Vec<Route>, Error> {
    shortest_paths_between(network, &pairs(network)?, watch)
}

/// [`shortest_paths`] of these pairs only, in their order. Consecutive pairs with the same ingress share the work.
///
/// # Errors
/// A pair without a path, from a node to itself, or of unknown nodes; more links in all than [`MAX_PATH_LINKS`]; weights that are not above 0; an interruption.
pub fn shortest_paths_between(network: &Network, pairs: &[(u32, u32)], watch: &dyn Watch) -> Result<Vec<Route>, Error> {
    let name = |node: u32| quote(&network.nodes[node as usize].id);
    let nodes = network.nodes.len() as u32;
    if let Some((from, to)) = pairs.iter().find(|&&(from, to)| from >= nodes || to >= nodes) {
        return Err(Error::Paths(format!("a path from node {from} to {to}, but there are {nodes} nodes")));
    }
    if let Some(link) = network.links.iter().find(|link| link.from >= nodes || link.to >= nodes) {
        return Err(Error::Paths(format!("a link from node {} to {}, but there are {nodes} nodes", link.from, link.to)));
    }
    if let Some(link) = network.links.iter().find(|link| !(link.weight > 0.0 && link.weight.is_finite())) {
        return Err(Error::Paths(format!("the link {} -> {} has weight {}", name(link.from), name(link.to), link.weight)));
    }
    let mut search = Search::new(network);
    let mut routes = Vec::with_capacity(pairs.len());
    let mut ingress = None;
    let mut in_all = 0;
    for &(from, to) in pairs {
        if ingress != Some(from) {
            watch.go_on()?;
            watch.progress("paths", routes.len() as u64, pairs.len() as u64);
            search.run(from);
            ingress = Some(from);
        }
        if from == to {
            return Err(Error::Paths(format!("a path from {} to itself", name(from))));
        }
        let links = search
            .links_to(to)
            .ok_or_else(|| Error::Paths(format!("no path from {} to {}: the network is not connected", name(from), name(to))))?;
        in_all += links.len();
        check_path_links(in_all)?;
        routes.push(Route { from, to, links, volume: 0.0 });
    }
    Ok(routes)
}

/// Sum of weights, number of links. The second makes every link count, however small its weight is next to the sum.
#[derive(Clone, Copy, PartialEq)]
struct Length(f64, u32);

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

const FAR: Length = Length(f64::INFINITY, u32::MAX);

/// Dijkstra's search, its memory kept from one ingress to the next.
struct Search<'a> {
    network: &'a Network,
    /// Links of node n are `out[first[n]..first[n + 1]]`.
    first: Vec<u32>,
    out: Vec<u32>,
    /// Place of each node in the order of ids.
    rank: Vec<u32>,
    length: Vec<Length>,
    /// Link by which the shortest path comes to each node.
    by: Vec<u32>,
    heap: BinaryHeap<Reverse<(Length, u32)>>,
}

impl<'a> Search<'a> {
    fn new(network: &'a Network) -> Self {
        let nodes = network.nodes.len();
        let mut first = vec![0; nodes + 1];
        network.links.iter().for_each(|link| first[link.from as usize + 1] += 1);
        for node in 0..nodes {
            first[node + 1] += first[node];
        }
        let mut out: Vec<u32> = (0..network.links.len() as u32).collect();
        out.sort_by_key(|&link| network.links[link as usize].from);
        let mut order: Vec<u32> = (0..nodes as u32).collect();
        order.sort_by(|&a, &b| compare_ids(&network.nodes[a as usize].id, &network.nodes[b as usize].id));
        let mut rank = vec![0; nodes];
        order.iter().zip(0..).for_each(|(&node, at)| rank[node as usize] = at);
        Self { network, first, out, rank, length: vec![FAR; nodes], by: vec![u32::MAX; nodes], heap: BinaryHeap::new() }
    }

    fn run(&mut self, from: u32) {
        let links = &self.network.links;
        self.length.fill(FAR);
        self.by.fill(u32::MAX);
        self.length[from as usize] = Length(0.0, 0);
        self.heap.push(Reverse((Length(0.0, 0), from)));
        while let Some(Reverse((length, node))) = self.heap.pop() {
            let passes = node == from || self.network.nodes[node as usize].role != Role::Access;
            if length != self.length[node as usize] || !passes {
                continue;
            }
            for &number in &self.out[self.first[node as usize] as usize..self.first[node as usize + 1] as usize] {
                let link = &links[number as usize];
                let to = link.to as usize;
                let through = Length(length.0 + link.weight, length.1 + 1);
                // A node's length exceeds that of every node it may be reached from on a shortest path, so those have all been here by the time
                // its own turn comes, and the predecessor no longer changes.
                if through < self.length[to] {
                    self.length[to] = through;
                    self.by[to] = number;
                    self.heap.push(Reverse((through, link.to)));
                } else if through == self.length[to] && self.by[to] != u32::MAX && self.before(number, self.by[to]) {
                    self.by[to] = number;
                }
            }
        }
    }

    /// Whether to come by one link rather than by another on which the path is as long.
    fn before(&self, one: u32, other: u32) -> bool {
        let key = |number: u32| {
            let link = &self.network.links[number as usize];
            (self.rank[link.from as usize], link.latency, number)
        };
        key(one) < key(other)
    }

    fn links_to(&self, to: u32) -> Option<Vec<u32>> {
        let length = self.length[to as usize];
        if length == FAR {
            return None;
        }
        let mut links = vec![0; length.1 as usize];
        let mut at = to;
        for place in links.iter_mut().rev() {
            *place = self.by[at as usize];
            at = self.network.links[*place as usize].from;
        }
        Some(links)
    }
}

/// Given paths: one a line, the names of its nodes from ingress to egress, between tabs if there is one in the line, else between spaces; `->`
/// between names and lines that begin with `#` are passed over. A name is an id or a unique label. Volumes are 0. The order is that of
/// [`shortest_paths`].
///
/// That paths of one ingress form a tree is checked by [`crate::Instance::new`].
///
/// # Errors
/// An unknown name; two nodes without a link; a circle; ends that carry no traffic; a way through an access router; a pair twice; no path at all.
pub fn given(network: &Network, text: &str) -> Result<Vec<Route>, Error> {
    let names = Names::new(network);
    let mut best: HashMap<(u32, u32), u32> = HashMap::new();
    for (link, number) in network.links.iter().zip(0..) {
        let known = best.entry((link.from, link.to)).or_insert(number);
        if link.weight < network.links[*known as usize].weight {
            *known = number;
        }
    }
    let mut is_end = vec![false; network.nodes.len()];
    endpoints(network).into_iter().for_each(|node| is_end[node as usize] = true);
    let mut lines: HashMap<(u32, u32), usize> = HashMap::new();
    // Line by which a path last came to each node.
    let mut visited = vec![0; network.nodes.len()];
    let mut routes: Vec<Route> = Vec::new();
    for (number, line) in text.trim_start_matches('\u{feff}').lines().enumerate() {
        let number = number + 1;
        let wrong = |what: String| Error::Paths(format!("line {number}: {what}"));
        let mut nodes: Vec<u32> = Vec::new();
        for name in fields(line) {
            let node = names.find(name).map_err(wrong)?;
            if std::mem::replace(&mut visited[node as usize], number) == number {
                return Err(wrong(format!("the path goes round in a circle: it comes to {} twice", quote(name))));
            }
            nodes.push(node);
        }
        let (Some(&from), Some(&to)) = (nodes.first(), nodes.last()) else { continue };
        let name = |node: u32| quote(&network.nodes[node as usize].id);
        if nodes.len() == 1 {
            return Err(wrong(format!("a path of {} alone; it needs an egress", name(from))));
        }
        if let Some(&end) = [from, to].iter().find(|&&end| !is_end[end as usize]) {
            return Err(wrong(format!("{} forwards traffic only; no path begins or ends there", name(end))));
        }
        if let Some(&through) = nodes[1..nodes.len() - 1].iter().find(|&&node| network.nodes[node as usize].role == Role::Access)
        {
            return Err(wrong(format!("{} is an access router; nothing passes through it", name(through))));
        }
        let mut links = Vec::with_capacity(nodes.len() - 1);
        for pair in nodes.windows(2) {
            let link = best.get(&(pair[0], pair[1]));
            links.push(*link.ok_or_else(|| wrong(format!("there is no link {} -> {}", name(pair[0]), name(pair[1]))))?);
        }
        if let Some(first) = lines.insert((from, to), number) {
            return Err(wrong(format!("a second path from {} to {}; the first is on line {first}", name(from), name(to))));
        }
        routes.push(Route { from, to, links, volume: 0.0 });
    }
    if routes.is_empty() {
        return Err(Error::Paths("there are no paths in the text".into()));
    }
    routes.sort_by_key(|route| (route.from, route.to));
    Ok(routes)
}

/// The fields of a line of text: between tabs if it has any, else between white space. None of a comment.
pub(crate) fn fields(line: &str) -> impl Iterator<Item = &str> {
    let line = if line.trim_start().starts_with('#') { "" } else { line };
    let tabs = line.contains('\t');
    let split = line.split(move |c: char| if tabs { c == '\t' } else { c.is_whitespace() });
    split.map(str::trim).filter(|field| !field.is_empty() && *field != "->")
}

#[cfg(test)]
mod tests;
